/* SPDX-License-Identifier: MIT */
/*
 * A kernel's surroundings: built-in variables as values, barriers, fences, clocks, printf, assert, memory.
 */
#if !defined(__CENOTE_DEVICE_SYSTEM_H__)
#define __CENOTE_DEVICE_SYSTEM_H__

#include "../vector_types.h"
#include "compiler.h"
#include <__clang_cuda_builtin_vars.h>

/*
 * ---- Launch ---------------------------------------------------------------------------------------------------------
 */

/* What kernel<<<grid, block, shared, stream>>>() calls before the kernel's stub. */
extern "C" unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem = 0, void *stream = 0);

/* threadIdx and related variables where a uint3 or a dim3 is expected; clang's header declares these. */
#define __CENOTE_BUILTIN_VALUES(name)                                                 \
	__device__ inline __attribute__((always_inline)) name::operator dim3() const  \
	{                                                                             \
		return dim3(x, y, z);                                                 \
	}                                                                             \
	__device__ inline __attribute__((always_inline)) name::operator uint3() const \
	{                                                                             \
		return uint3{x, y, z};                                                \
	}
__CENOTE_BUILTIN_VALUES(__cuda_builtin_threadIdx_t)
__CENOTE_BUILTIN_VALUES(__cuda_builtin_blockIdx_t)
__CENOTE_BUILTIN_VALUES(__cuda_builtin_blockDim_t)
__CENOTE_BUILTIN_VALUES(__cuda_builtin_gridDim_t)
#undef __CENOTE_BUILTIN_VALUES

/*
 * ---- Barriers of a block --------------------------------------------------------------------------------------------
 *
 * clang declares __syncthreads() itself. The others also tell all threads of the block for how many of them, for all,
 * or for any `predicate` was not zero.
 */

#if __clang_major__ < 15
__CENOTE_DEVICE__ void __cenote_syncthreads(void)
{
	__CENOTE_ORDER__;
	__syncthreads();
	__CENOTE_ORDER__;
}
#define __syncthreads() __cenote_syncthreads()
#endif

__CENOTE_DEVICE__ int __syncthreads_count(int predicate)
{
	__CENOTE_ORDER__;
	int result = __nvvm_bar0_popc(predicate);
	__CENOTE_ORDER__;
	return result;
}

__CENOTE_DEVICE__ int __syncthreads_and(int predicate)
{
	__CENOTE_ORDER__;
	int result = __nvvm_bar0_and(predicate);
	__CENOTE_ORDER__;
	return result;
}

__CENOTE_DEVICE__ int __syncthreads_or(int predicate)
{
	__CENOTE_ORDER__;
	int result = __nvvm_bar0_or(predicate);
	__CENOTE_ORDER__;
	return result;
}

/*
 * ---- Fences ---------------------------------------------------------------------------------------------------------
 */

__CENOTE_DEVICE__ void __threadfence_block(void)
{
	__CENOTE_ORDER__;
	__nvvm_membar_cta();
	__CENOTE_ORDER__;
}

__CENOTE_DEVICE__ void __threadfence(void)
{
	__CENOTE_ORDER__;
	__nvvm_membar_gl();
	__CENOTE_ORDER__;
}

__CENOTE_DEVICE__ void __threadfence_system(void)
{
	__CENOTE_ORDER__;
	__nvvm_membar_sys();
	__CENOTE_ORDER__;
}

/*
 * ---- Time -----------------------------------------------------------------------------------------------------------
 */

__CENOTE_DEVICE__ clock_t clock(void)
{
	return (clock_t)__nvvm_read_ptx_sreg_clock();
}

__CENOTE_DEVICE__ long long clock64(void)
{
	return (long long)__nvvm_read_ptx_sreg_clock64();
}

/* Sleep for about `ns` nanoseconds, at most a millisecond. */
__CENOTE_DEVICE__ void __nanosleep(unsigned int ns)
{
	asm volatile("nanosleep.u32 %0;" : : "r"(ns) : "memory");
}

/*
 * ---- Ends -----------------------------------------------------------------------------------------------------------
 */

__CENOTE_DEVICE__ void __trap(void)
{
	asm volatile("trap;");
}

__CENOTE_DEVICE__ void __brkpt(void)
{
	asm volatile("brkpt;");
}

__CENOTE_DEVICE__ void __prof_trigger(int)
{
}

/*
 * ---- printf, assert, memory -----------------------------------------------------------------------------------------
 *
 * The device's system has printing and failing; the PTX names them. clang makes vprintf() of printf().
 */

/* What a class has in the place of a pure virtual function. */
extern "C" __device__ inline __attribute__((weak)) void __cxa_pure_virtual(void)
{
	__trap();
}

extern "C" {
__device__ int vprintf(const char *format, const char *arguments);
__device__ int printf(const char *format, ...);
__device__ void __assertfail(const char *message, const char *file, unsigned line, const char *function,
			     size_t char_bytes);

/* What the C library's assert() calls. */
__CENOTE_DEVICE__ void __assert_fail(const char *message, const char *file, unsigned line, const char *function)
{
	__assertfail(message, file, line, function, sizeof(char));
}
}

__CENOTE_DEVICE__ void *memcpy(void *to, const void *from, size_t bytes)
{
	return __builtin_memcpy(to, from, bytes);
}

__CENOTE_DEVICE__ void *memmove(void *to, const void *from, size_t bytes)
{
	return __builtin_memmove(to, from, bytes);
}

__CENOTE_DEVICE__ void *memset(void *to, int value, size_t bytes)
{
	return __builtin_memset(to, value, bytes);
}

#endif /* __CENOTE_DEVICE_SYSTEM_H__ */

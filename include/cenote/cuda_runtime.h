/* SPDX-License-Identifier: MIT */
/*
 * The runtime API as programs include it: cuda_runtime_api.h, vectors, and in C++ the overloads that save casts.
 *
 * Each overload only passes its arguments on; what is said at the C function of the same name holds for it. `T` is what
 * the pointer points to, or the type of a kernel.
 */
#if !defined(__CUDA_RUNTIME_H__)
#define __CUDA_RUNTIME_H__

#include "builtin_types.h"
#include "cuda_runtime_api.h"
#include "driver_functions.h"
#include "host_defines.h"
#include "vector_functions.h"

#if defined(__cplusplus)

#if __cplusplus >= 201103L
#include <utility>
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

/*
 * ---- Memory ---------------------------------------------------------------------------------------------------------
 */

template <class T> static __inline__ cudaError_t cudaMalloc(T **devPtr, size_t size)
{
	return ::cudaMalloc((void **)(void *)devPtr, size);
}

template <class T> static __inline__ cudaError_t cudaMallocPitch(T **devPtr, size_t *pitch, size_t width, size_t height)
{
	return ::cudaMallocPitch((void **)(void *)devPtr, pitch, width, height);
}

template <class T> static __inline__ cudaError_t cudaHostAlloc(T **ptr, size_t size, unsigned int flags)
{
	return ::cudaHostAlloc((void **)(void *)ptr, size, flags);
}

/* With flags, cudaMallocHost() is cudaHostAlloc(). */
static __inline__ cudaError_t cudaMallocHost(void **ptr, size_t size, unsigned int flags)
{
	return ::cudaHostAlloc(ptr, size, flags);
}

template <class T> static __inline__ cudaError_t cudaMallocHost(T **ptr, size_t size, unsigned int flags = 0)
{
	return cudaMallocHost((void **)(void *)ptr, size, flags);
}

template <class T> static __inline__ cudaError_t cudaHostGetDevicePointer(T **pDevice, void *pHost, unsigned int flags)
{
	return ::cudaHostGetDevicePointer((void **)(void *)pDevice, pHost, flags);
}

template <class T>
static __inline__ cudaError_t cudaMallocManaged(T **devPtr, size_t size, unsigned int flags = cudaMemAttachGlobal)
{
	return ::cudaMallocManaged((void **)(void *)devPtr, size, flags);
}

/*
 * ---- Pools ----------------------------------------------------------------------------------------------------------
 */

template <class T> static __inline__ cudaError_t cudaMallocAsync(T **ptr, size_t size, cudaStream_t stream)
{
	return ::cudaMallocAsync((void **)(void *)ptr, size, stream);
}

/* With a pool, cudaMallocAsync() is cudaMallocFromPoolAsync(). */
static __inline__ cudaError_t cudaMallocAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
	return ::cudaMallocFromPoolAsync(ptr, size, memPool, stream);
}

template <class T>
static __inline__ cudaError_t cudaMallocAsync(T **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
	return ::cudaMallocFromPoolAsync((void **)(void *)ptr, size, memPool, stream);
}

template <class T>
static __inline__ cudaError_t cudaMallocFromPoolAsync(T **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
	return ::cudaMallocFromPoolAsync((void **)(void *)ptr, size, memPool, stream);
}

/*
 * ---- Events ---------------------------------------------------------------------------------------------------------
 */

/* With flags, cudaEventCreate() is cudaEventCreateWithFlags(). */
static __inline__ cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags)
{
	return ::cudaEventCreateWithFlags(event, flags);
}

/*
 * ---- Launch and modules ---------------------------------------------------------------------------------------------
 */

template <class T>
static __inline__ cudaError_t cudaLaunchKernel(T *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem = 0,
					       cudaStream_t stream = 0)
{
	return ::cudaLaunchKernel((const void *)func, gridDim, blockDim, args, sharedMem, stream);
}

#if __cplusplus >= 201103L
/*
 * Launch with the arguments written out; each is converted to the type of the kernel's parameter before its address is
 * taken. A kernel that takes its arguments as an array (CENOTE_KERNEL) is launched by cudaLaunchKernelExC() instead.
 */
template <typename... Expected, typename... Actual>
static __inline__ cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Expected...),
						 Actual &&...args)
{
	auto launch = [&](Expected... converted) {
		void *pointers[sizeof...(Expected) + 1] = {(void *)&converted...};
		return ::cudaLaunchKernelExC(config, (const void *)kernel, pointers);
	};
	return launch(std::forward<Actual>(args)...);
}

/* By handle nothing is known of the parameters: the arguments must have their very types. */
template <typename... Actual>
static __inline__ cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, const cudaKernel_t kernel,
						 Actual &&...args)
{
	void *pointers[sizeof...(Actual) + 1] = {(void *)&args...};
	return ::cudaLaunchKernelExC(config, (const void *)kernel, pointers);
}
#endif

template <class T> static __inline__ cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, T *entry)
{
	return ::cudaFuncGetAttributes(attr, (const void *)entry);
}

template <class T> static __inline__ cudaError_t cudaFuncSetAttribute(T *func, enum cudaFuncAttribute attr, int value)
{
	return ::cudaFuncSetAttribute((const void *)func, attr, value);
}

template <class T>
static __inline__ cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, T func, int blockSize,
									    size_t dynamicSMemSize)
{
	return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, (const void *)func, blockSize,
							       dynamicSMemSize);
}

#pragma GCC diagnostic pop

#endif /* __cplusplus */

#endif /* __CUDA_RUNTIME_H__ */

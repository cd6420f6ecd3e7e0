/* SPDX-License-Identifier: MIT */
/*
 * What must come before everything else when clang compiles CUDA.
 *
 * The C library's functions are host functions; a kernel calls functions of the same names that are marked __device__,
 * and clang chooses by the caller. libstdc++ pulls the names into namespace std where <cmath> is read, so the device's
 * must be declared before: hence `cenote cc` includes cuda_runtime.h ahead of the program's first line, as nvcc does.
 */
#if !defined(__CENOTE_DEVICE_COMPILER_H__)
#define __CENOTE_DEVICE_COMPILER_H__

#if __clang_major__ < 14
#error "Cenote's device headers need clang 14 or newer"
#endif
#if __cplusplus < 201103L
#error "Cenote's device headers need C++11 or newer"
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "Cenote's device headers need sm_70 or newer: choose it with -arch"
#endif

#include "../host_defines.h"

/* libstdc++ asks for this: without it it offers __float128, which a device lacks. */
#if !defined(__CUDACC__)
#define __CUDACC__ 1
#endif

#include <__clang_cuda_math_forward_declares.h>
#include <stddef.h>

/* The heap of a device, which clang's <new> calls. The system of the device has it; the PTX names it. */
extern "C" {
__device__ void *malloc(size_t bytes) __attribute__((nothrow, malloc));
__device__ void free(void *memory) __attribute__((nothrow));
}

#include <assert.h>
#include <cmath>
#include <cstdlib>
#include <limits.h>
#include <limits>
#include <new>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A function of these headers. It has no lines of its own: an error inside names the line that calls it. */
#define __CENOTE_DEVICE__ static __device__ __inline__ __attribute__((always_inline, nodebug))

/*
 * Before and after a barrier or a fence: what is in memory is read after it and not before. Until version 15 clang
 * takes it that no barrier changes a __shared__ variable whose address is not taken, and reads it too early.
 */
#if __clang_major__ < 15
#define __CENOTE_ORDER__ asm volatile("" ::: "memory")
#else
#define __CENOTE_ORDER__
#endif

#endif /* __CENOTE_DEVICE_COMPILER_H__ */

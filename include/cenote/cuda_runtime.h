/* SPDX-License-Identifier: MIT */
/*
 * The runtime API as programs include it: cuda_runtime_api.h, vectors, and in C++ the overloads that save casts.
 *
 * Each overload only passes its arguments on; what is said at the C function of the same name holds for it. `T` is what
 * the pointer points to, or the type of a kernel.
 */
#if !defined(__CUDA_RUNTIME_H__)
#define __CUDA_RUNTIME_H__

#if defined(__clang__) && defined(__CUDA__)
#include "device/compiler.h"
#endif

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

template <class T>
static __inline__ cudaError_t cudaLaunchCooperativeKernel(T *func, dim3 gridDim, dim3 blockDim, void **args,
							  size_t sharedMem = 0, cudaStream_t stream = 0)
{
	return ::cudaLaunchCooperativeKernel((const void *)func, gridDim, blockDim, args, sharedMem, stream);
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

template <class T>
static __inline__ cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, T func,
										     int blockSize,
										     size_t dynamicSMemSize,
										     unsigned int flags)
{
	return ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, (const void *)func, blockSize,
									dynamicSMemSize, flags);
}

template <class T>
static __inline__ cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, T *func, int numBlocks,
									int blockSize)
{
	return ::cudaOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, (const void *)func, numBlocks, blockSize);
}

/*
 * The block size that keeps the device busiest, and the fewest blocks it takes to do so: as
 * cuOccupancyMaxPotentialBlockSize(). The dynamic shared memory of a block is what `shared` says for its size.
 */
template <class Shared, class T>
static __inline__ cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(int *minGridSize, int *blockSize,
										      T func, Shared shared,
										      int blockSizeLimit = 0,
										      unsigned int flags = 0)
{
	struct cudaFuncAttributes attributes;
	int device = 0, processors = 0, processor_threads = 0, warp = 0, limit = 0, best_blocks = 0, best_size = 0;
	cudaError_t error = cudaErrorInvalidValue;

	if (minGridSize && blockSize && func)
		error = ::cudaGetDevice(&device);
	if (!error)
		error = ::cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
	if (!error)
		error = ::cudaDeviceGetAttribute(&processor_threads, cudaDevAttrMaxThreadsPerMultiProcessor, device);
	if (!error)
		error = ::cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, device);
	if (!error)
		error = ::cudaDeviceGetAttribute(&limit, cudaDevAttrMaxThreadsPerBlock, device);
	if (!error)
		error = ::cudaFuncGetAttributes(&attributes, (const void *)func);
	if (error)
		return error;
	if (attributes.maxThreadsPerBlock < limit)
		limit = attributes.maxThreadsPerBlock;
	if (blockSizeLimit > 0 && blockSizeLimit < limit)
		limit = blockSizeLimit;
	/* The limit itself, then whole warps downwards: of equals the largest block wins. */
	for (int rounded = (limit + warp - 1) / warp * warp; rounded > 0 && best_blocks * best_size < processor_threads;
	     rounded -= warp) {
		int size = rounded < limit ? rounded : limit, blocks = 0;
		error = ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, (const void *)func, size,
										 shared(size), flags);
		if (error)
			return error;
		if (blocks * size > best_blocks * best_size) {
			best_blocks = blocks;
			best_size = size;
		}
	}
	*minGridSize = best_blocks * processors;
	*blockSize = best_size;
	return cudaSuccess;
}

template <class Shared, class T>
static __inline__ cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *minGridSize, int *blockSize, T func,
									     Shared shared, int blockSizeLimit = 0)
{
	return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(minGridSize, blockSize, func, shared,
								       blockSizeLimit, cudaOccupancyDefault);
}

struct __cenote_same_shared {
	size_t bytes;
	size_t operator()(int) const
	{
		return bytes;
	}
};

/* The same, with as much for every size. */
template <class T>
static __inline__ cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, T func,
									  size_t dynamicSMemSize = 0,
									  int blockSizeLimit = 0,
									  unsigned int flags = 0)
{
	struct __cenote_same_shared shared = {dynamicSMemSize};

	return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(minGridSize, blockSize, func, shared,
								       blockSizeLimit, flags);
}

template <class T>
static __inline__ cudaError_t cudaOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, T func,
								 size_t dynamicSMemSize = 0, int blockSizeLimit = 0)
{
	return cudaOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, dynamicSMemSize,
							   blockSizeLimit, cudaOccupancyDefault);
}

template <class T> static __inline__ cudaError_t cudaFuncGetName(const char **name, T *func)
{
	return ::cudaFuncGetName(name, (const void *)func);
}

/*
 * ---- Variables of a device ------------------------------------------------------------------------------------------
 */

template <class T> static __inline__ cudaError_t cudaGetSymbolAddress(void **devPtr, const T &symbol)
{
	return ::cudaGetSymbolAddress(devPtr, (const void *)&symbol);
}

template <class T> static __inline__ cudaError_t cudaGetSymbolSize(size_t *size, const T &symbol)
{
	return ::cudaGetSymbolSize(size, (const void *)&symbol);
}

template <class T>
static __inline__ cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *src, size_t count, size_t offset = 0,
						 enum cudaMemcpyKind kind = cudaMemcpyHostToDevice)
{
	return ::cudaMemcpyToSymbol((const void *)&symbol, src, count, offset, kind);
}

template <class T>
static __inline__ cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *src, size_t count, size_t offset = 0,
						      enum cudaMemcpyKind kind = cudaMemcpyHostToDevice,
						      cudaStream_t stream = 0)
{
	return ::cudaMemcpyToSymbolAsync((const void *)&symbol, src, count, offset, kind, stream);
}

template <class T>
static __inline__ cudaError_t cudaMemcpyFromSymbol(void *dst, const T &symbol, size_t count, size_t offset = 0,
						   enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost)
{
	return ::cudaMemcpyFromSymbol(dst, (const void *)&symbol, count, offset, kind);
}

template <class T>
static __inline__ cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const T &symbol, size_t count, size_t offset = 0,
							enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
							cudaStream_t stream = 0)
{
	return ::cudaMemcpyFromSymbolAsync(dst, (const void *)&symbol, count, offset, kind, stream);
}

#pragma GCC diagnostic pop

#endif /* __cplusplus */

#if defined(__clang__) && defined(__CUDA__)
#include "device/device.h"
#endif

#endif /* __CUDA_RUNTIME_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * Memory pools of the runtime API.
 *
 * The structures and enumerations of the two APIs have the same layout and values, so a pool's description is passed on
 * as it is. Where the driver refuses to allocate nothing, the runtime succeeds and returns NULL.
 */
#include "runtime/runtime.h"

#include "base/guard.h"

#include <stddef.h>

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps) &&
		       offsetof(struct cudaMemPoolProps, location) == offsetof(CUmemPoolProps, location) &&
		       offsetof(struct cudaMemPoolProps, maxSize) == offsetof(CUmemPoolProps, maxSize) &&
		       offsetof(struct cudaMemPoolProps, usage) == offsetof(CUmemPoolProps, usage),
	       "properties of one layout");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc) &&
		       offsetof(struct cudaMemAccessDesc, flags) == offsetof(CUmemAccessDesc, flags),
	       "rights of one layout");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "locations of one layout");
_Static_assert(sizeof(enum cudaMemAccessFlags) == sizeof(CUmemAccess_flags), "flags of one size");

/* ---- Life of a pool --------------------------------------------------------------------------------------------- */

cudaError_t runtime_cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
	return cn_runtime_result(cn_runtime_start()
					 ?: cuMemPoolCreate(memPool, (const CUmemPoolProps *)(const void *)poolProps));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool)
{
	return cn_runtime_result(cn_runtime_start() ?: cuMemPoolDestroy(memPool));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
	return cn_runtime_result(cn_runtime_start() ?: cuMemPoolTrimTo(memPool, minBytesToKeep));
}

cudaError_t runtime_cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
	return cn_runtime_result(cn_runtime_start()
					 ?: cuMemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t runtime_cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
	return cn_runtime_result(cn_runtime_start()
					 ?: cuMemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t runtime_cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
					 struct cudaMemLocation *location)
{
	CUresult result = cn_runtime_start();

	if (!result)
		result = cuMemPoolGetAccess((CUmemAccess_flags *)(void *)flags, memPool,
					    (CUmemLocation *)(void *)location);
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList, size_t count)
{
	CUresult result = cn_runtime_start();

	if (!result)
		result = cuMemPoolSetAccess(memPool, (const CUmemAccessDesc *)(const void *)descList, count);
	return cn_runtime_result(result);
}

/* ---- Between processes ------------------------------------------------------------------------------------------ */

_Static_assert(sizeof(struct cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData), "data of one size");

cudaError_t runtime_cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
						       enum cudaMemAllocationHandleType handleType, unsigned int flags)
{
	CUresult result = cn_runtime_start();

	if (!result)
		result = cuMemPoolExportToShareableHandle(shareableHandle, memPool,
							  (CUmemAllocationHandleType)handleType, flags);
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle,
							 enum cudaMemAllocationHandleType handleType,
							 unsigned int flags)
{
	CUresult result = cn_runtime_start();

	if (!result)
		result = cuMemPoolImportFromShareableHandle(memPool, shareableHandle,
							    (CUmemAllocationHandleType)handleType, flags);
	return cn_runtime_result(result);
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData, void *ptr)
{
	CUresult result = cn_runtime_start();

	if (!result)
		result = cuMemPoolExportPointer((CUmemPoolPtrExportData *)(void *)exportData, (uintptr_t)ptr);
	return cn_runtime_result(result);
}

cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool, struct cudaMemPoolPtrExportData *exportData)
{
	CUresult result = cn_runtime_start();

	if (!result)
		result = cuMemPoolImportPointer((CUdeviceptr *)(void *)ptr, memPool,
						(CUmemPoolPtrExportData *)(void *)exportData);
	return cn_runtime_result(result);
}

/* ---- Allocation in stream order --------------------------------------------------------------------------------- */

/* Nothing was allocated, as asked for or after a failure: the pointer is NULL. */
static __attribute__((noinline)) cudaError_t put_nothing(void **pointer, CUresult result)
{
	if (!cn_guard_check_write(pointer, sizeof *pointer, "devPtr"))
		return cn_runtime_error(cudaErrorInvalidValue);
	if (pointer)
		*pointer = NULL;
	return cn_runtime_result(result);
}

cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
	CUresult result = cn_runtime_context();

	if (!result && !devPtr)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "devPtr is NULL");
	if (!result && size > 0) {
		result = cuMemAllocAsync((CUdeviceptr *)(void *)devPtr, size, hStream);
		if (!result)
			return cudaSuccess;
	}
	return put_nothing(devPtr, result);
}

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
	CUresult result = cn_runtime_context();

	if (!result && !ptr)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "ptr is NULL");
	if (!result && size > 0) {
		result = cuMemAllocFromPoolAsync((CUdeviceptr *)(void *)ptr, size, memPool, stream);
		if (!result)
			return cudaSuccess;
	}
	return put_nothing(ptr, result);
}

cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
	CUresult result = cn_runtime_context();

	if (!result && devPtr)
		result = cuMemFreeAsync(cn_runtime_pointer(devPtr), hStream);
	return cn_runtime_result(result);
}

/* ---- The pools of devices and locations ------------------------------------------------------------------------- */

cudaError_t runtime_cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
	return cn_runtime_result(cn_runtime_start() ?: cuDeviceGetDefaultMemPool(memPool, device));
}

cudaError_t runtime_cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
	return cn_runtime_result(cn_runtime_start() ?: cuDeviceGetMemPool(memPool, device));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
	return cn_runtime_result(cn_runtime_start() ?: cuDeviceSetMemPool(device, memPool));
}

cudaError_t runtime_cudaMemGetDefaultMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
					     enum cudaMemAllocationType type)
{
	CUresult result = cn_runtime_start();

	if (!result)
		result = cuMemGetDefaultMemPool(memPool, (CUmemLocation *)(void *)location, (CUmemAllocationType)type);
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
				      enum cudaMemAllocationType type)
{
	CUresult result = cn_runtime_start();

	if (!result)
		result = cuMemGetMemPool(memPool, (CUmemLocation *)(void *)location, (CUmemAllocationType)type);
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type,
				      cudaMemPool_t memPool)
{
	CUresult result = cn_runtime_start();

	if (!result)
		result = cuMemSetMemPool((CUmemLocation *)(void *)location, (CUmemAllocationType)type, memPool);
	return cn_runtime_result(result);
}

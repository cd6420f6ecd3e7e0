/* SPDX-License-Identifier: MIT */
/*
 * Pools on a GPU: Cenote's own, except a few that are the driver's.
 *
 * The driver has the managed pools, those that another process's driver exported, and what is allocated while a stream
 * is captured, since that becomes part of a graph. A call goes where its pool, its pointer or its stream belongs. Our
 * handles differ from the driver's in their form, and our addresses lie in our ranges.
 */
#include "driver/gpu/gpu_calls.h"

#include "base/descriptor.h"
#include "driver/common/mempool_use.h"
#include "share/port/fabric.h"

/* Is it a pool of the driver, or not a pool? We refuse NULL ourselves. */
static bool is_the_drivers(CUmemoryPool pool)
{
	return pool && !cn_mempool_is_ours(pool);
}

/* ---- Making, asking and telling ---- */

CUresult gpu_cuMemPoolCreate(CUmemoryPool *ret_pool, const CUmemPoolProps *properties)
{
	if (properties && properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
		return driver_cuMemPoolCreate(ret_pool, properties);
	return own_cuMemPoolCreate(ret_pool, properties);
}

CUresult gpu_cuMemPoolDestroy(CUmemoryPool pool)
{
	return is_the_drivers(pool) ? driver_cuMemPoolDestroy(pool) : own_cuMemPoolDestroy(pool);
}

CUresult gpu_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
	return is_the_drivers(pool) ? driver_cuMemPoolTrimTo(pool, keep_bytes) : own_cuMemPoolTrimTo(pool, keep_bytes);
}

CUresult gpu_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *ret_value)
{
	return is_the_drivers(pool) ? driver_cuMemPoolGetAttribute(pool, attribute, ret_value)
				    : own_cuMemPoolGetAttribute(pool, attribute, ret_value);
}

CUresult gpu_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	return is_the_drivers(pool) ? driver_cuMemPoolSetAttribute(pool, attribute, value)
				    : own_cuMemPoolSetAttribute(pool, attribute, value);
}

CUresult gpu_cuMemPoolGetAccess(CUmemAccess_flags *ret_flags, CUmemoryPool pool, CUmemLocation *location)
{
	return is_the_drivers(pool) ? driver_cuMemPoolGetAccess(ret_flags, pool, location)
				    : own_cuMemPoolGetAccess(ret_flags, pool, location);
}

CUresult gpu_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *descriptions, size_t count)
{
	return is_the_drivers(pool) ? driver_cuMemPoolSetAccess(pool, descriptions, count)
				    : own_cuMemPoolSetAccess(pool, descriptions, count);
}

/* ---- The pools of locations ---- */

CUresult gpu_cuMemGetDefaultMemPool(CUmemoryPool *ret_pool, CUmemLocation *location, CUmemAllocationType type)
{
	return type == CU_MEM_ALLOCATION_TYPE_MANAGED ? driver_cuMemGetDefaultMemPool(ret_pool, location, type)
						      : own_cuMemGetDefaultMemPool(ret_pool, location, type);
}

CUresult gpu_cuMemGetMemPool(CUmemoryPool *ret_pool, CUmemLocation *location, CUmemAllocationType type)
{
	return type == CU_MEM_ALLOCATION_TYPE_MANAGED ? driver_cuMemGetMemPool(ret_pool, location, type)
						      : own_cuMemGetMemPool(ret_pool, location, type);
}

CUresult gpu_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	return is_the_drivers(pool) ? driver_cuMemSetMemPool(location, type, pool)
				    : own_cuMemSetMemPool(location, type, pool);
}

CUresult gpu_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	return is_the_drivers(pool) ? driver_cuDeviceSetMemPool(device, pool) : own_cuDeviceSetMemPool(device, pool);
}

/* ---- Between processes ---- */

CUresult gpu_cuMemPoolExportToShareableHandle(void *ret_shareable, CUmemoryPool pool, CUmemAllocationHandleType type,
					      unsigned long long flags)
{
	return is_the_drivers(pool) ? driver_cuMemPoolExportToShareableHandle(ret_shareable, pool, type, flags)
				    : own_cuMemPoolExportToShareableHandle(ret_shareable, pool, type, flags);
}

CUresult gpu_cuMemPoolImportFromShareableHandle(CUmemoryPool *ret_pool, void *shareable, CUmemAllocationHandleType type,
						unsigned long long flags)
{
	/*
	 * Our pools travel as a socket that has no name, the driver's as a descriptor of its own kind. A socket that
	 * leads to no pool is neither.
	 */
	if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && !cn_descriptor_is_socket((int)(intptr_t)shareable))
		return driver_cuMemPoolImportFromShareableHandle(ret_pool, shareable, type, flags);
	return own_cuMemPoolImportFromShareableHandle(ret_pool, shareable, type, flags);
}

/* The driver refused a fabric handle: one of Cenote's, or it lacks what its own need. */
static CUresult explain_fabric(CUresult result, const void *shareable)
{
	if (result == CUDA_ERROR_NOT_PERMITTED)
		return cn_error(result, "the driver refused the fabric handle: this process cannot read the exporter's "
					"IMEX channel");
	if (cn_fabric_is_ours(shareable, CN_FABRIC_POOL))
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"the fabric handle is of a pool: use cuMemPoolImportFromShareableHandle()");
	if (cn_fabric_is_ours(shareable, CN_FABRIC_MEMORY))
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"the fabric handle is of a host device's memory, which a GPU cannot use");
	return cn_error(result, "the driver refused the fabric handle: the exporter is gone, or on another machine "
				"without NVLink and nvidia-imex between them");
}

/* The driver has no sentences: explain its refusal, and what it cannot know of ours. */
CUresult gpu_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *ret_memory, void *shareable,
					    CUmemAllocationHandleType type)
{
	CUresult result = driver_cuMemImportFromShareableHandle(ret_memory, shareable, type);

	if (result == CUDA_ERROR_UNKNOWN && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
	    cn_descriptor_leads_to_socket((int)(intptr_t)shareable))
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"the descriptor leads to a pool: use cuMemPoolImportFromShareableHandle()");
	if ((result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_PERMITTED) &&
	    type == CU_MEM_HANDLE_TYPE_FABRIC)
		return explain_fabric(result, shareable);
	return result;
}

CUresult gpu_cuMemPoolExportPointer(CUmemPoolPtrExportData *ret_data, CUdeviceptr pointer)
{
	return cn_gpu_is_ours(pointer) ? own_cuMemPoolExportPointer(ret_data, pointer)
				       : driver_cuMemPoolExportPointer(ret_data, pointer);
}

CUresult gpu_cuMemPoolImportPointer(CUdeviceptr *ret_pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	return is_the_drivers(pool) ? driver_cuMemPoolImportPointer(ret_pointer, pool, data)
				    : own_cuMemPoolImportPointer(ret_pointer, pool, data);
}

/* ---- Allocating and freeing ---- */

CUresult gpu_cuMemAllocAsync(CUdeviceptr *ret_pointer, size_t bytes, CUstream stream)
{
	struct cn_cuda_place place;

	if (cn_cuda_is_capturing(stream))
		return driver_cuMemAllocAsync(ret_pointer, bytes, stream);
	CUresult result = cn_mempool_enter_allocation(ret_pointer);
	if (!result)
		result = cn_cuda_find(stream, &place);
	return result ? result
		      : cn_mempool_allocate_current(ret_pointer, bytes, place.device->ordinal, place.queue, place.owner,
						    cn_gpu_free_after_all);
}

/* What a graph allocates is the driver's: from the driver's pool of the same location. */
static CUresult alloc_captured(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool handle, CUstream stream)
{
	struct cn_mempool *pool;
	CUmemoryPool other;
	CUresult result = cn_mempool_get_own(handle, &pool);

	if (result)
		return result;
	CUmemLocation location = pool->location;
	result = pool->device ? driver_cuDeviceGetDefaultMemPool(&other, pool->device->ordinal)
			      : driver_cuMemGetDefaultMemPool(&other, &location, CU_MEM_ALLOCATION_TYPE_PINNED);
	return result ? result : driver_cuMemAllocFromPoolAsync(ret_pointer, bytes, other, stream);
}

CUresult cn_gpu_alloc_from_pool_async(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	struct cn_cuda_place place;
	CUresult result = cn_mempool_enter_allocation(ret_pointer);

	if (!result)
		result = cn_cuda_find(stream, &place);
	return result ? result
		      : cn_mempool_allocate_from(ret_pointer, bytes, pool, place.queue, place.owner,
						 cn_gpu_free_after_all);
}

CUresult gpu_cuMemAllocFromPoolAsync(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	if (is_the_drivers(pool))
		return driver_cuMemAllocFromPoolAsync(ret_pointer, bytes, pool, stream);
	if (__builtin_expect(cn_cuda_is_capturing(stream), 0))
		return alloc_captured(ret_pointer, bytes, pool, stream);
	return cn_gpu_alloc_from_pool_async(ret_pointer, bytes, pool, stream);
}

CUresult gpu_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
	struct cn_cuda_place place = {0};

	/* In a capture only what its graph has allocated is freed; the driver says so for a block of ours. */
	if (!cn_gpu_has_pools() || cn_cuda_is_capturing(stream))
		return cn_gpu_is_lost(pointer) ? cn_enter() : driver_cuMemFreeAsync(pointer, stream);
	CUresult result = cn_enter();
	if (!result)
		result = cn_cuda_find(stream, &place);
	if (!result)
		result = cn_mempool_free(pointer, place.queue, place.owner);
	if (__builtin_expect(!result, 1))
		return CUDA_SUCCESS;
	/* The stream has gone, perhaps with its context. The driver would follow the handle, whatever the memory is. */
	if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
		return result;
	if (!cn_gpu_is_ours(pointer))
		return driver_cuMemFreeAsync(pointer, stream);
	return result == CUDA_ERROR_INVALID_VALUE ? cn_gpu_refuse_free(pointer) : result;
}

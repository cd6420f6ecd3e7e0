/* SPDX-License-Identifier: MIT */
/*
 * Memory on a GPU: calls that name an address, which may be a pool's.
 *
 * To the driver, a pool's memory is a range with mapped chunks. Questions about a block are answered here as for any
 * block; where only the driver knows the memory behind it, the driver is asked. The program may not map, unmap or give
 * rights to a pool's range. All other addresses go to the driver untouched.
 */
#include "driver/gpu/gpu_calls.h"

#include "device/cuda/cuda_library.h"
#include "driver/common/mempool_use.h"

#include <stdlib.h>

enum { STEP_BYTES = 32 * 1024 * 1024 };   /* ranges of pools begin and end at multiples of this */
#define ADDRESSES_END ((uint64_t)1 << 48) /* no pool's are above */

bool cn_gpu_is_ours(CUdeviceptr address)
{
	const void *at = (const void *)(uintptr_t)address;

	return cn_gpu_has_pools() && (cn_pool_has(at) || cn_import_has(at));
}

/* Both tables are consistent in the child: one is read without a lock, and a fork waits for the lock of the other. */
bool cn_gpu_is_lost(CUdeviceptr address)
{
	const void *at = (const void *)(uintptr_t)address;

	return !cn_gpu_has_pools() && atomic_load(&cn_mempools_exist) && (cn_pool_has(at) || cn_import_has(at));
}

/* ---- Freeing without a stream ----
 *
 * cuMemFree() of a block does not wait: the program must have made sure that the block is not in use. In case it has
 * not, the block is freed in a stream of our own, one for each context, which waits for what the context's streams were
 * given so far: by an event of the whole context, and where the driver has none (before CUDA 12.5, and while a stream
 * is captured) by points of the blocking streams, and of the others that a pool has seen. Without a current context it
 * is the primary one, or another one in which pools were used.
 */

struct late_stream {
	struct late_stream *next;
	CUcontext context;
	CUstream handle;
	uint64_t owner; /* changed: the stream ended with its context, and its handle is reused */
};

static struct {
	CN_SLOW_LOCK(GPU_LATE_STREAMS) mutex;
	struct late_stream *first;
} late;

/* The stream of a context's late frees, if it exists. */
static bool find_late_locked(CUcontext context, struct late_stream **ret_entry, struct cn_cuda_place *ret_place)
{
	struct late_stream *entry = late.first;

	while (entry && entry->context != context)
		entry = entry->next;
	*ret_entry = entry;
	return entry && !cn_cuda_find(entry->handle, ret_place) && ret_place->owner == entry->owner;
}

static CUresult make_late_locked(CUcontext context, struct late_stream *entry, struct cn_cuda_place *ret_place)
{
	CUstream handle;
	bool fresh = !entry;

	if (fresh)
		entry = calloc(1, sizeof *entry);
	if (!entry)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of a stream");
	/* By the call that programs make, so that an older stream with this handle is forgotten. */
	CUresult result = gpu_cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING);
	if (!result)
		result = cn_cuda_find(handle, ret_place);
	if (result && fresh)
		free(entry);
	if (result)
		return result;
	entry->context = context;
	entry->handle = handle;
	entry->owner = ret_place->owner;
	if (fresh) {
		entry->next = late.first;
		late.first = entry;
	}
	return CUDA_SUCCESS;
}

/* The context is current. */
static CUresult find_late(CUcontext context, struct cn_cuda_place *ret_place)
{
	struct cn_gpu_points points;
	struct cn_cuda_place legacy;
	struct late_stream *entry;
	CUresult result = CUDA_SUCCESS;

	cn_slow_lock(&late.mutex);
	if (!find_late_locked(context, &entry, ret_place))
		result = make_late_locked(context, entry, ret_place);
	cn_slow_unlock(&late.mutex);
	if (result)
		return result;
	cn_cuda_find(CU_STREAM_LEGACY, &legacy); /* so that it is included, and with it all blocking streams */
	cn_gpu_gather(context, &points);
	for (size_t i = 0; i < points.count; i++)
		if (points.points[i].queue != ret_place->queue) /* a wait fails if the stream is being captured */
			cn_device_ops->queue_wait(ret_place->queue, ret_place->owner, points.points[i]);
	cn_gpu_drop(&points);
	cn_cuda_wait_for_all(ret_place->queue, ret_place->owner);
	return CUDA_SUCCESS;
}

/*
 * In a context: the current one, else the device's primary one, else one that is known. Without any (*ret_place is
 * empty then) there is nothing to wait for: freeing a block needs no context.
 */
static CUresult find_late_of_device(CUdevice device, struct cn_cuda_place *ret_place)
{
	CUcontext context = NULL;
	CUresult result = cn_cuda.cuCtxGetCurrent(&context);

	if (result)
		return cn_error(result, "the driver did not say which context is current");
	if (context)
		return find_late(context, ret_place);
	context = cn_gpu_primary(device);
	if (!context)
		context = cn_cuda_any_context(&cn_devices[device]);
	if (!context || cn_cuda.cuCtxPushCurrent(context)) {
		*ret_place = (struct cn_cuda_place){.queue = NULL};
		return CUDA_SUCCESS;
	}
	result = find_late(context, ret_place);
	cn_cuda.cuCtxPopCurrent(&context);
	return result;
}

CUresult cn_gpu_refuse_free(CUdeviceptr address)
{
	struct cn_memory memory = {.kind = CN_MEMORY_FOREIGN};

	cn_mempool_find_memory(address, &memory);
	return cn_mempool_refuse_free(address, &memory);
}

CUresult cn_gpu_free_after_all(uint64_t address)
{
	struct cn_cuda_place place;
	struct cn_memory memory;

	if (!cn_mempool_find_memory(address, &memory) || memory.start != address)
		return cn_gpu_refuse_free(address);
	CUresult result = find_late_of_device(memory.device ? memory.device->ordinal : 0, &place);
	if (!result)
		result = cn_mempool_free(address, place.queue, place.owner);
	if (result == CUDA_ERROR_INVALID_VALUE) /* another thread was faster */
		return cn_gpu_refuse_free(address);
	if (result || !place.queue)
		return result;
	cn_device_ops->queue_look(place.queue);
	cn_gpu_synchronised((struct cn_point){place.queue, atomic_load(&place.queue->completed)});
	return CUDA_SUCCESS;
}

CUresult gpu_cuMemFree_v2(CUdeviceptr pointer)
{
	return cn_gpu_is_ours(pointer) ? cn_gpu_free_after_all(pointer) : driver_cuMemFree_v2(pointer);
}

/* ---- Asking ---- */

/* What only the driver knows of the memory behind a block. */
static bool is_the_drivers(CUpointer_attribute attribute)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return true;
	default: return false;
	}
}

/* The block around an address, and the asker. */
static CUresult enter_question(CUdeviceptr pointer, struct cn_memory *ret_memory, struct cn_memory_asker *ret_asker)
{
	CUdevice device;
	CUresult result = cn_enter();

	if (result)
		return result;
	*ret_asker = (struct cn_memory_asker){.device = cn_cuda.cuCtxGetDevice(&device) ? NULL : &cn_devices[device]};
	if (!cn_mempool_find_memory(pointer, ret_memory))
		*ret_memory = (struct cn_memory){.kind = CN_MEMORY_FOREIGN};
	return CUDA_SUCCESS;
}

CUresult gpu_cuPointerGetAttribute(void *ret_data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	struct cn_memory_asker asker;
	struct cn_memory memory;

	if (!cn_gpu_is_ours(pointer) || (is_the_drivers(attribute) && cn_mempool_find_memory(pointer, &memory)))
		return driver_cuPointerGetAttribute(ret_data, attribute, pointer);
	CUresult result = enter_question(pointer, &memory, &asker);
	if (!result)
		result = cn_memory_check_attribute(attribute, ret_data);
	return result ? result : cn_memory_get_attribute(&memory, &asker, attribute, pointer, ret_data);
}

CUresult gpu_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **ret_data,
				    CUdeviceptr pointer)
{
	struct cn_memory_asker asker;
	struct cn_memory memory;

	if (!cn_gpu_is_ours(pointer))
		return driver_cuPointerGetAttributes(count, attributes, ret_data, pointer);
	CUresult result = enter_question(pointer, &memory, &asker);
	if (!result)
		result = cn_memory_check_attributes(count, attributes, ret_data);
	if (!result)
		result = cn_memory_get_attributes(&memory, &asker, count, attributes, pointer, ret_data);
	for (unsigned int i = 0; i < count && !result && memory.kind; i++)
		if (is_the_drivers(attributes[i]))
			result = driver_cuPointerGetAttributes(1, &attributes[i], &ret_data[i], pointer);
	return result;
}

/* No memory that we know has such an attribute to set. */
static bool set_nothing(uint64_t address, unsigned int kinds, bool on)
{
	(void)address, (void)kinds, (void)on;
	return false;
}

CUresult gpu_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	struct cn_memory_asker asker;
	struct cn_memory memory;

	if (!cn_gpu_is_ours(pointer))
		return driver_cuPointerSetAttribute(value, attribute, pointer);
	CUresult result = enter_question(pointer, &memory, &asker);
	return result ? result : cn_memory_set_attribute(&memory, attribute, pointer, value, set_nothing);
}

CUresult gpu_cuMemGetAddressRange_v2(CUdeviceptr *ret_base, size_t *ret_bytes, CUdeviceptr pointer)
{
	struct cn_memory memory = {.start = 0};
	CUdevice device;

	if (!cn_gpu_is_ours(pointer) || (!ret_base && !ret_bytes))
		return driver_cuMemGetAddressRange_v2(ret_base, ret_bytes, pointer);
	CUresult result = cn_cuda_check_current();
	if (result)
		return result;
	result = cn_cuda.cuCtxGetDevice(&device);
	if (result)
		return cn_error(result, "no context is current in this thread");
	bool known = cn_mempool_find_memory(pointer, &memory);
	if (known && !cn_memory_allows(&memory, &cn_devices[device], false)) {
		known = false;
		memory.start = memory.bytes = 0;
	}
	if (ret_base)
		*ret_base = memory.start;
	if (ret_bytes)
		*ret_bytes = memory.bytes;
	return known ? CUDA_SUCCESS : cn_error(CUDA_ERROR_NOT_FOUND, "no allocation is at 0x%llx", pointer);
}

CUresult gpu_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle, void *address)
{
	if (cn_gpu_is_ours((uintptr_t)address))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the memory at %p is a pool's, not of cuMemCreate()",
				address);
	return driver_cuMemRetainAllocationHandle(ret_handle, address);
}

CUresult gpu_cuMemGetAccess(unsigned long long *ret_flags, const CUmemLocation *location, CUdeviceptr address)
{
	struct cn_memory_asker asker;
	struct cn_memory memory;

	if (!cn_gpu_is_ours(address))
		return driver_cuMemGetAccess(ret_flags, location, address);
	CUresult result = enter_question(address, &memory, &asker);
	return result ? result : cn_memory_get_access(&memory, location, address, ret_flags);
}

/* ---- What a program does to ranges, but not to a pool's ---- */

static bool touches_pool(CUdeviceptr start, size_t bytes)
{
	if (!cn_gpu_has_pools())
		return false;
	if (start >= ADDRESSES_END)
		return false;
	if (bytes > ADDRESSES_END - start)
		bytes = ADDRESSES_END - start;
	bool touches = cn_gpu_is_ours(start) || (bytes && cn_gpu_is_ours(start + bytes - 1));
	for (size_t step = STEP_BYTES; step < bytes && !touches; step += STEP_BYTES)
		touches = cn_gpu_is_ours(start + step);
	return touches;
}

static CUresult refuse(const char *call, CUdeviceptr start)
{
	return cn_error(CUDA_ERROR_INVALID_VALUE, "%s: the addresses at 0x%llx are a pool's", call, start);
}

CUresult gpu_cuMemAddressFree(CUdeviceptr start, size_t bytes)
{
	return touches_pool(start, bytes) ? refuse("cuMemAddressFree", start) : driver_cuMemAddressFree(start, bytes);
}

CUresult gpu_cuMemMap(CUdeviceptr start, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		      unsigned long long flags)
{
	return touches_pool(start, bytes) ? refuse("cuMemMap", start)
					  : driver_cuMemMap(start, bytes, offset, handle, flags);
}

CUresult gpu_cuMemUnmap(CUdeviceptr start, size_t bytes)
{
	return touches_pool(start, bytes) ? refuse("cuMemUnmap", start) : driver_cuMemUnmap(start, bytes);
}

CUresult gpu_cuMemSetAccess(CUdeviceptr start, size_t bytes, const CUmemAccessDesc *descriptions, size_t count)
{
	return touches_pool(start, bytes) ? refuse("cuMemSetAccess", start)
					  : driver_cuMemSetAccess(start, bytes, descriptions, count);
}

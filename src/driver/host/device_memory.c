/* SPDX-License-Identifier: MIT */
/*
 * Device memory of the host device: cuMemAlloc() and related calls.
 */
#include "driver/common/mempool.h"
#include "driver/host/pool_calls.h"
#include "driver/host/registry.h"

#include <inttypes.h>

enum { PITCH_BYTES = 512 };

CUresult host_cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
	struct cn_home home;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	cn_pools_finish_release(); /* memory being given back is free then */
	size_t total = home.device->total_bytes, used = cn_host_used_bytes(home.device);
	if (ret_free)
		*ret_free = total - used;
	if (ret_total)
		*ret_total = total;
	return CUDA_SUCCESS;
}

/*
 * As the driver does, the calls below set an output to 0 when they fail: programs check that instead of the code.
 */

static CUresult allocate(const struct cn_home *home, size_t bytes, CUdeviceptr *ret_pointer)
{
	void *address;
	CUresult result = cn_host_memory_allocate(home->device, bytes, &address);

	if (result)
		return result;
	result = cn_registry_add(home, CN_MEMORY_DEVICE, address, bytes, 0, NULL);
	if (result) {
		cn_host_memory_free(address);
		return result;
	}
	*ret_pointer = (uintptr_t)address;
	return CUDA_SUCCESS;
}

CUresult host_cuMemAlloc_v2(CUdeviceptr *ret_pointer, size_t bytes)
{
	struct cn_home home;
	CUresult result = cn_given(cn_context_enter(&home), ret_pointer, "dptr");

	if (result)
		return result;
	*ret_pointer = 0;
	if (!bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "an allocation of 0 bytes");
	return allocate(&home, bytes, ret_pointer);
}

CUresult host_cuMemAllocPitch_v2(CUdeviceptr *ret_pointer, size_t *ret_pitch, size_t width_bytes, size_t rows,
				 unsigned int element_bytes)
{
	struct cn_home home;
	size_t pitch, bytes;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	if (!ret_pointer || !ret_pitch)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_pointer ? "pPitch" : "dptr");
	*ret_pointer = 0;
	*ret_pitch = 0;
	if (!width_bytes || !rows)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%zu rows of %zu bytes are empty", rows, width_bytes);
	if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "elements of %u bytes: the size must be 4, 8 or 16",
				element_bytes);
	if (__builtin_add_overflow(width_bytes, PITCH_BYTES - 1, &pitch))
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "rows of %zu bytes exceed the address space", width_bytes);
	pitch = pitch / PITCH_BYTES * PITCH_BYTES;
	*ret_pitch = pitch;
	if (__builtin_mul_overflow(pitch, rows, &bytes))
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%zu rows of %zu bytes exceed the address space", rows,
				pitch);
	return allocate(&home, bytes, ret_pointer);
}

CUresult host_cuMemFree_v2(CUdeviceptr pointer)
{
	struct cn_home home;
	struct cn_memory memory;
	CUresult result = cn_registry_enter_free(&home);

	if (result || !pointer)
		return result;
	if (cn_registry_free(&home, pointer, CN_MEMORY_DEVICE | CN_MEMORY_MANAGED))
		return CUDA_SUCCESS;
	if (cn_mempool_find_memory(pointer, &memory))
		return cn_streams_free_after_all(pointer);
	if (!cn_registry_find(pointer, &memory))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"no allocation is at 0x%llx: it was already freed, or never allocated", pointer);
	if (memory.kind == CN_MEMORY_OPENED)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"0x%llx is memory of another process: close it with cuIpcCloseMemHandle()", pointer);
	if (memory.kind == CN_MEMORY_VARIABLE)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"0x%llx is a variable of a module: unloading the module frees it", pointer);
	if (memory.kind == CN_MEMORY_PINNED || memory.kind == CN_MEMORY_REGISTERED)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx is host memory: %s", pointer,
				memory.kind == CN_MEMORY_PINNED ? "cuMemFreeHost() frees it"
								: "cuMemHostUnregister() lets it go");
	return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx is inside the allocation that begins at 0x%" PRIx64, pointer,
			memory.start);
}

CUresult host_cuMemGetAddressRange_v2(CUdeviceptr *ret_base, size_t *ret_bytes, CUdeviceptr pointer)
{
	struct cn_home home;
	struct cn_memory memory;
	CUresult result = cn_context_enter(&home);

	if (result || (!ret_base && !ret_bytes)) /* as in the driver: nothing is asked */
		return result;
	bool known = cn_registry_find(pointer, &memory);
	if (known && !cn_memory_allows(&memory, home.device, false)) {
		known = false;
		memory.start = memory.bytes = 0;
	}
	if (ret_base)
		*ret_base = memory.start;
	if (ret_bytes)
		*ret_bytes = memory.bytes;
	if (!known)
		return cn_error(CUDA_ERROR_NOT_FOUND, "no allocation is at 0x%llx", pointer);
	return CUDA_SUCCESS;
}

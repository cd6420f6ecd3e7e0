/* SPDX-License-Identifier: MIT */
/*
 * Memory between processes by handles of 64 bytes: cuMemAlloc()'s memory is exported, and becomes memory of the context
 * that opens it.
 *
 * The registry (registry.c) knows both ends: device memory has its handle there, and opened memory is a kind of its
 * own, counted by its handle. What a handle leads to, and what becomes of memory that is freed while other processes
 * have it open, is in share/.
 */
#include "driver/host/registry.h"

#include "share/port/port.h"

#include <string.h>

_Static_assert(sizeof(CUipcMemHandle) == CN_HANDLE_BYTES, "as CUDA has it");

CUresult host_cuIpcGetMemHandle(CUipcMemHandle *ret_handle, CUdeviceptr pointer)
{
	struct cn_home home;

	if (!ret_handle || !pointer)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_handle ? "dptr" : "pHandle");
	CUresult result = cn_context_enter(&home);
	if (!result)
		result = cn_context_has_handles(home.device);
	return result ? result : cn_registry_share(pointer, (unsigned char *)ret_handle->reserved);
}

/* The device whose memory it is, if this process can see it; the context may use it from now on. */
static CUresult reach_device(const struct cn_home *home, int physical, struct cn_device **ret_device)
{
	struct cn_device *device = cn_devices_find_physical(physical);

	if (!device)
		device = home->device;
	if (device != home->device) {
		if (!cn_device_ops->peers(home->device, device))
			return cn_error(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
					"the memory is of device %d, whose memory device %d cannot access",
					device->ordinal, home->device->ordinal);
		CUresult result = cn_home_lock(home);
		if (result)
			return result;
		atomic_fetch_or(&home->context->peers, 1ull << device->ordinal);
		cn_unlock(&home->context->lock);
	}
	*ret_device = device;
	return CUDA_SUCCESS;
}

static CUresult open_first(const struct cn_home *home, const unsigned char handle[CN_HANDLE_BYTES],
			   uint64_t *ret_address)
{
	struct cn_opened_memory *borrowed;
	struct cn_device *device;
	CUresult result = cn_context_has_handles(home->device);

	if (!result)
		result = cn_opened_memory_open(handle, home->device, home->life, &borrowed);
	if (result)
		return result;
	result = reach_device(home, cn_opened_memory_facts(borrowed)->device, &device);
	if (!result)
		result = cn_registry_add_opened(home, device, handle, borrowed, ret_address);
	if (result)
		cn_opened_memory_close(borrowed);
	return result;
}

CUresult host_cuIpcOpenMemHandle_v2(CUdeviceptr *ret_pointer, CUipcMemHandle handle, unsigned int flags)
{
	const unsigned char *bytes = (const unsigned char *)handle.reserved;
	struct cn_home home;
	uint64_t address;

	if (!ret_pointer)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "pdptr is NULL");
	if (!(flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) /* the driver ignores all other bits */
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"the flags are 0x%x and must be CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS", flags);
	CUresult result = cn_context_enter(&home);
	if (result)
		return result;
	if (!cn_registry_open_again(&home, bytes, &address))
		result = open_first(&home, bytes, &address);
	if (!result)
		*ret_pointer = address;
	return result;
}

CUresult host_cuIpcCloseMemHandle(CUdeviceptr pointer)
{
	struct cn_home home;
	struct cn_memory memory;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	if (!cn_registry_find(pointer, &memory) || memory.kind != CN_MEMORY_OPENED)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "no memory that was opened by a handle is at 0x%llx",
				pointer);
	if (memory.start != pointer)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx is inside the opened memory that begins at 0x%llx",
				pointer, (unsigned long long)memory.start);
	/* Even if it is not the last close. Its stream has already reported a failure of the work before. */
	cn_context_drain(&home);
	cn_registry_wait(&memory, &home);
	if (!cn_registry_close(pointer))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "another thread has closed the memory at 0x%llx", pointer);
	return CUDA_SUCCESS;
}

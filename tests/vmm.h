/* SPDX-License-Identifier: MIT */
/*
 * What tests of the virtual memory API share: memory made, mapped and allowed in one line each.
 */
#ifndef CENOTE_TESTS_VMM_H
#define CENOTE_TESTS_VMM_H

#include "cenote/cenote.h"
#include "harness.h"

enum {
	VMM_GRAIN = 2 << 20,
	VMM_POSIX = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	VMM_NONE = CU_MEM_ACCESS_FLAGS_PROT_NONE,
	VMM_READ = CU_MEM_ACCESS_FLAGS_PROT_READ,
	VMM_WRITE = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

/* Bring the library up, with the primary context of a device. */
static inline CUcontext vmm_start(CUdevice device)
{
	CUcontext context;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, device));
	ASSERT_OK(cuCtxSetCurrent(context));
	return context;
}

static inline CUmemAllocationProp vmm_properties(CUmemLocationType type, int id, int handle_types)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = (CUmemAllocationHandleType)handle_types,
				     .location = {.type = type, .id = id}};
}

/* Memory of a device that can be shared. */
static inline CUmemGenericAllocationHandle vmm_create_on(CUdevice device, size_t bytes)
{
	CUmemAllocationProp properties = vmm_properties(CU_MEM_LOCATION_TYPE_DEVICE, device, VMM_POSIX);
	CUmemGenericAllocationHandle handle;

	ASSERT_OK(cuMemCreate(&handle, bytes, &properties, 0));
	return handle;
}

static inline CUmemGenericAllocationHandle vmm_create(size_t bytes)
{
	return vmm_create_on(0, bytes);
}

static inline CUdeviceptr vmm_reserve(size_t bytes)
{
	CUdeviceptr address;

	ASSERT_OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
	return address;
}

static inline CUresult vmm_set(CUdeviceptr address, size_t bytes, CUmemLocationType type, int id, int rights)
{
	CUmemAccessDesc access = {.location = {.type = type, .id = id}, .flags = (CUmemAccess_flags)rights};

	return cuMemSetAccess(address, bytes, &access, 1);
}

static inline void vmm_allow(CUdeviceptr address, size_t bytes, CUdevice device, int rights)
{
	ASSERT_OK(vmm_set(address, bytes, CU_MEM_LOCATION_TYPE_DEVICE, device, rights));
}

/* Map memory somewhere, with rights for device 0. */
static inline CUdeviceptr vmm_map(CUmemGenericAllocationHandle handle, size_t bytes, int rights)
{
	CUdeviceptr address = vmm_reserve(bytes);

	ASSERT_OK(cuMemMap(address, bytes, 0, handle, 0));
	vmm_allow(address, bytes, 0, rights);
	return address;
}

/* Undo vmm_map(). */
static inline void vmm_unmap(CUdeviceptr address, size_t bytes)
{
	ASSERT_OK(cuMemUnmap(address, bytes));
	ASSERT_OK(cuMemAddressFree(address, bytes));
}

static inline int vmm_export(CUmemGenericAllocationHandle handle)
{
	int descriptor = -1;

	ASSERT_OK(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return descriptor;
}

static inline CUresult vmm_try_import(int descriptor, CUmemGenericAllocationHandle *ret_handle)
{
	return cuMemImportFromShareableHandle(ret_handle, (void *)(intptr_t)descriptor,
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static inline CUmemGenericAllocationHandle vmm_import(int descriptor)
{
	CUmemGenericAllocationHandle handle;

	ASSERT_OK(vmm_try_import(descriptor, &handle));
	return handle;
}

/* The byte at an address, through a copy. */
static inline unsigned vmm_byte(CUdeviceptr address)
{
	unsigned char byte;

	ASSERT_OK(cuMemcpyDtoH(&byte, address, 1));
	return byte;
}

/* Fill and wait: a fill of a device's memory goes on after the call. */
static inline void vmm_fill(CUdeviceptr address, unsigned value, size_t bytes)
{
	ASSERT_OK(cuMemsetD8(address, (unsigned char)value, bytes));
	ASSERT_OK(cuStreamSynchronize(NULL));
}

static inline size_t vmm_free_bytes(void)
{
	size_t free_now, total;

	ASSERT_OK(cuMemGetInfo(&free_now, &total));
	return free_now;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Physical memory between processes: exported and imported as a descriptor or a fabric handle.
 *
 * Only a descriptor travels: the device's memory file says itself what it is (host_physical.c). Every export makes a
 * descriptor of its own, and every import a handle of its own. As with the driver, an imported allocation cannot be
 * exported again, but its descriptor may be passed on. A fabric handle (fabric.h) fetches such a descriptor; an
 * allocation has one such handle, from its first export to its end.
 */
#include "driver/host/vmm.h"

#include "base/descriptor.h"
#include "driver/host/registry.h"
#include "share/node/node.h"
#include "share/peer/peer.h"
#include "share/port/fabric.h"

#include <string.h>
#include <unistd.h>

static CUresult export_descriptor(struct cn_allocation *allocation, void *ret_shareable)
{
	int fd;
	CUresult result = cn_host_physical_export(allocation->physical, &fd);

	if (!result)
		memcpy(ret_shareable, &fd, sizeof fd);
	return result;
}

static CUresult export_fabric(struct cn_allocation *allocation, void *ret_shareable)
{
	struct cn_fabric *fabric = atomic_load(&allocation->fabric), *other = NULL;
	int fd;

	if (!fabric) {
		CUresult result = cn_host_physical_export(allocation->physical, &fd);
		if (result)
			return result;
		result = cn_fabric_create(CN_FABRIC_MEMORY, fd, &fabric);
		close(fd);
		if (result)
			return result;
		if (!atomic_compare_exchange_strong(&allocation->fabric, &other, fabric)) {
			cn_fabric_free(fabric); /* another thread was faster */
			fabric = other;
		}
	}
	memcpy(ret_shareable, cn_fabric_handle(fabric), CN_HANDLE_BYTES);
	return CUDA_SUCCESS;
}

CUresult host_cuMemExportToShareableHandle(void *ret_shareable, CUmemGenericAllocationHandle handle,
					   CUmemAllocationHandleType type, unsigned long long flags)
{
	struct cn_allocation *allocation;
	CUresult result = cn_given(cn_enter(), ret_shareable, "shareableHandle");

	if (result)
		return result;
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"cuMemExportToShareableHandle takes no flags: they must be 0, not 0x%llx", flags);
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && type != CU_MEM_HANDLE_TYPE_FABRIC)
		return cn_error(
			CUDA_ERROR_INVALID_VALUE,
			"handle type %d cannot be exported: CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and _FABRIC can",
			(int)type);
	result = cn_allocation_get(handle, &allocation);
	if (result)
		return result;
	if (!(allocation->properties.requestedHandleTypes & type))
		result = cn_error(
			CUDA_ERROR_INVALID_VALUE,
			"the memory was not created with this handle type in requestedHandleTypes, or was imported");
	else if (type == CU_MEM_HANDLE_TYPE_FABRIC)
		result = export_fabric(allocation, ret_shareable);
	else
		result = export_descriptor(allocation, ret_shareable);
	cn_allocation_put(allocation);
	return result;
}

static CUresult check_type(CUmemAllocationHandleType type, const void *shareable)
{
	if (type == CU_MEM_HANDLE_TYPE_WIN32 || type == CU_MEM_HANDLE_TYPE_WIN32_KMT)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "Win32 handles are for Windows");
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && type != CU_MEM_HANDLE_TYPE_FABRIC)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%d is not a handle type", (int)type);
	if (!shareable)
		return cn_memory_refuse_no_handle(type, "osHandle");
	if (type == CU_MEM_HANDLE_TYPE_FABRIC)
		return cn_devices_check(&cn_devices[0], CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
					"memory that is shared by fabric handle");
	return CUDA_SUCCESS;
}

static CUresult import_descriptor(const void *shareable, struct cn_physical **ret_physical)
{
	int fd = (int)(uintptr_t)shareable;
	CUresult result = cn_host_physical_import(fd, ret_physical);

	if (result == CUDA_ERROR_UNKNOWN && !cn_descriptor_is_open(fd))
		return cn_memory_refuse_descriptor(shareable);
	if (result == CUDA_ERROR_UNKNOWN && cn_descriptor_leads_to_socket(fd))
		result = cn_error(CUDA_ERROR_NOT_SUPPORTED,
				  "the descriptor leads to a pool: use cuMemPoolImportFromShareableHandle()");
	return result;
}

/* Of another machine: it has no location here that a program could name. */
static CUresult import_elsewhere(const void *shareable, struct cn_physical **ret_physical)
{
	struct cn_physical_facts facts = {.location_type = CU_MEM_LOCATION_TYPE_DEVICE,
					  .location_id = CU_DEVICE_INVALID};
	struct cn_node_memory *memory;
	struct cn_node_facts said;
	CUresult result = cn_fabric_open_elsewhere(shareable, CN_FABRIC_MEMORY, &memory, &said);

	if (result)
		return result;
	facts.bytes = said.bytes;
	result = cn_host_physical_remote(&facts, cn_node_ops(), memory, ret_physical);
	if (result)
		cn_node_ops()->free(memory);
	return result;
}

static CUresult import_fabric(const void *shareable, struct cn_physical **ret_physical)
{
	int fd;
	CUresult result = cn_fabric_find(shareable, CN_FABRIC_MEMORY, &fd);

	if (result)
		return result;
	if (fd < 0)
		return import_elsewhere(shareable, ret_physical);
	result = cn_host_physical_import(fd, ret_physical);
	if (result)
		cn_wire_discard(fd);
	else
		close(fd); /* the device knows what it is */
	if (result == CUDA_ERROR_UNKNOWN)
		result = cn_error(CUDA_ERROR_NOT_SUPPORTED,
				  "the fabric handle's process sent something other than memory");
	return result;
}

CUresult host_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *ret_handle, void *shareable,
					     CUmemAllocationHandleType type)
{
	struct cn_physical *physical;
	CUresult result = cn_given(cn_enter(), ret_handle, "handle");

	if (result)
		return result;
	result = check_type(type, shareable);
	if (!result)
		result = type == CU_MEM_HANDLE_TYPE_FABRIC ? import_fabric(shareable, &physical)
							   : import_descriptor(shareable, &physical);
	if (result)
		return result;

	const struct cn_physical_facts *facts = cn_host_physical_facts(physical);
	bool on_device = facts->location_type == CU_MEM_LOCATION_TYPE_DEVICE;
	struct cn_device *device = on_device ? cn_devices_find_physical(facts->location_id) : NULL;
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = (CUmemLocationType)facts->location_type,
			     .id = !on_device ? facts->location_id
				   : device   ? device->ordinal
					      : CU_DEVICE_INVALID},
	};
	if (!facts->bytes || facts->bytes % CN_GRANULARITY_BYTES ||
	    (!on_device &&
	     (facts->location_type != CU_MEM_LOCATION_TYPE_HOST_NUMA || !cn_device_has_node(facts->location_id))))
		result = cn_error(CUDA_ERROR_UNKNOWN,
				  "the imported memory has a size or a location that no allocation has");
	else
		result = cn_allocation_make(physical, &properties, device, ret_handle);
	if (result)
		cn_host_physical_free(physical);
	return result;
}

/* A dma-buf of an address range. The host device has none; it says so after the arguments were checked. */
CUresult host_cuMemGetHandleForAddressRange(void *ret_handle, CUdeviceptr address, size_t bytes,
					    CUmemRangeHandleType type, unsigned long long flags)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const int none = -1;
	struct cn_memory memory;

	if (!ret_handle || !bytes || address % page || bytes % page || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
	    flags & ~(unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE)
		return cn_error(
			CUDA_ERROR_INVALID_VALUE,
			"a dma-buf needs whole pages, and no flag but CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE");
	CUresult result = cn_enter();
	if (result)
		return result;
	memcpy(ret_handle, &none, sizeof none);
	result = cn_registry_range(address, bytes, &memory);
	if (!result && (!cn_memory_is_device(&memory) || memory.imported))
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "the %zu bytes at 0x%llx are not memory of a device", bytes,
				  address);
	return result ? result : cn_error(CUDA_ERROR_NOT_SUPPORTED, "the host device has no dma-bufs");
}

/* SPDX-License-Identifier: MIT */
/*
 * Allocations of the virtual memory API, as vmm.c and vmm_share.c know them.
 *
 * A handle stands for physical memory. It lives while it has references (cuMemCreate, an import, cuMemRetain…: each
 * adds one, which cuMemRelease gives back) or the memory is mapped: as long as it is mapped, the program can get its
 * handle again from the address.
 */
#ifndef CN_DRIVER_HOST_VMM_H
#define CN_DRIVER_HOST_VMM_H

#include "device/host/host_memory.h"
#include "driver/host/objects.h"

struct cn_allocation {
	struct cn_object object; /* first */
	struct cn_physical *physical;
	CUmemAllocationProp properties; /* as cuMemGetAllocationPropertiesFromHandle() says them */
	size_t bytes;
	unsigned reference_count, mapping_count; /* vmm.c's mutex guards them */
	struct cn_device *device;           /* NULL: memory of the machine, or of a device that cannot be seen here */
	_Atomic(struct cn_fabric *) fabric; /* NULL: it was never exported by a fabric handle */
};

/* Give physical memory a handle, with one reference. On failure the memory stays the caller's. */
CUresult cn_allocation_make(struct cn_physical *physical, const CUmemAllocationProp *properties,
			    struct cn_device *device, CUmemGenericAllocationHandle *ret_handle);

/* The allocation of a handle; the caller gives it back with cn_allocation_put(). */
CUresult cn_allocation_get(CUmemGenericAllocationHandle handle, struct cn_allocation **ret_allocation);
void cn_allocation_put(struct cn_allocation *allocation);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Memory of the host device outside of pools: allocations, physical memory without an address, and addresses without
 * memory. On a GPU the driver does all of it, so it is no part of the device contract: driver/host calls it, and
 * share/port, which lends such allocations to other processes.
 */
#ifndef CN_DEVICE_HOST_HOST_MEMORY_H
#define CN_DEVICE_HOST_HOST_MEMORY_H

#include "device/device.h"

/* What physical memory is, as it travels with it from process to process. */
struct cn_physical_facts {
	size_t bytes;      /* a multiple of CN_GRANULARITY_BYTES */
	int location_type; /* CU_MEM_LOCATION_TYPE_DEVICE, with the machine's number of it, or …_HOST_NUMA */
	int location_id;
	unsigned handle_types; /* CUmemAllocationHandleType: how it may be exported */
	unsigned flags;        /* the driver layer's own */
};

/*
 * The piece of a device's memory in which an allocation lies, with others beside it. `fd` is the device's, and good as
 * long as the allocation is there; another process maps it as a view of one part.
 */
struct cn_memory_part {
	uint64_t chunk; /* never used twice in a process */
	size_t chunk_bytes, offset;
	int fd;
};

struct cn_physical;

/* How many bytes of the device are taken, by all processes that share it. */
size_t cn_host_used_bytes(const struct cn_device *device);

/* Memory of the device: `bytes` is rounded up as the device needs; aligned to at least 512 bytes. */
CUresult cn_host_memory_allocate(struct cn_device *device, size_t bytes, void **ret_address);
void cn_host_memory_free(void *address);
/*
 * Where memory of cn_host_memory_allocate() lies, for another process; it must not be freed meanwhile.
 * CUDA_ERROR_NOT_SUPPORTED: this memory cannot leave the process.
 */
CUresult cn_host_memory_part(struct cn_device *device, const void *address, struct cn_memory_part *ret_part);
/* The same, for another process that is going to have it. Takes longer. */
CUresult cn_host_memory_lend(struct cn_device *device, const void *address, struct cn_memory_part *ret_part);
/* Memory of the machine: pinned and managed. Page-aligned. */
CUresult cn_host_pinned_allocate(size_t bytes, void **ret_address);
void cn_host_pinned_free(void *address, size_t bytes);

/*
 * Physical memory: bytes without an address. `device` is the one whose bytes it takes, NULL for memory of the machine.
 * It lives as long as any process has it mapped or holds a descriptor of it. On import, what is not physical memory, or
 * not whole, is refused with CUDA_ERROR_UNKNOWN.
 */
CUresult cn_host_physical_create(struct cn_device *device, const struct cn_physical_facts *facts,
				 struct cn_physical **ret_physical);
void cn_host_physical_free(struct cn_physical *physical);
CUresult cn_host_physical_export(struct cn_physical *physical, int *ret_fd);
CUresult cn_host_physical_import(int fd, struct cn_physical **ret_physical);
const struct cn_physical_facts *cn_host_physical_facts(const struct cn_physical *physical);

/* Address ranges: addresses without memory. What is mapped can be neither read nor written until it is allowed. */
CUresult cn_host_range_reserve(size_t bytes, size_t alignment, void **ret_address);
void cn_host_range_free(void *address, size_t bytes);
CUresult cn_host_range_map(void *address, const struct cn_physical *physical);
CUresult cn_host_range_unmap(void *address, size_t bytes);
CUresult cn_host_range_protect(void *address, size_t bytes, bool readable, bool writable);

#endif

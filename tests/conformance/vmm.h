/* SPDX-License-Identifier: MIT */
/*
 * What the chapters about virtual memory start from: one granule, and short words for the usual steps.
 *
 * Sizes are counted in granules (`grain`), the least that memory of device 0 can be made of.
 */
#ifndef CONFORMANCE_VMM_H
#define CONFORMANCE_VMM_H

#include "ask.h"

#include <sched.h>
#include <time.h>

typedef CUmemGenericAllocationHandle vmm_handle;

enum {
	NONE = CU_MEM_ACCESS_FLAGS_PROT_NONE,
	READ = CU_MEM_ACCESS_FLAGS_PROT_READ,
	WRITE = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	DEVICE = CU_MEM_LOCATION_TYPE_DEVICE,
	HOST = CU_MEM_LOCATION_TYPE_HOST,
	NUMA = CU_MEM_LOCATION_TYPE_HOST_NUMA,
	NUMA_CURRENT = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
	POSIX = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
};

static size_t grain;

static inline CUmemLocation vmm_place(int type, int id)
{
	return (CUmemLocation){.type = (CUmemLocationType)type, .id = id};
}

static inline CUmemAllocationProp vmm_properties(int type, int id, int handle_types)
{
	CUmemAllocationProp properties;

	memset(&properties, 0, sizeof properties);
	properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties.requestedHandleTypes = (CUmemAllocationHandleType)handle_types;
	properties.location = vmm_place(type, id);
	return properties;
}

/* The granule alone; cuInit has been called. */
static inline void vmm_measure(void)
{
	CUmemAllocationProp properties = vmm_properties(DEVICE, 0, 0);

	NEED(cuMemGetAllocationGranularity(&grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static inline void vmm_setup(void)
{
	ask_context();
	vmm_measure();
}

static inline vmm_handle vmm_create_as(size_t grains, CUmemAllocationProp properties)
{
	vmm_handle handle = 0;

	NEED(cuMemCreate(&handle, grains * grain, &properties, 0));
	return handle;
}

static inline vmm_handle vmm_create(size_t grains)
{
	return vmm_create_as(grains, vmm_properties(DEVICE, 0, 0));
}

static inline CUdeviceptr vmm_reserve(size_t grains)
{
	CUdeviceptr at = 0;

	NEED(cuMemAddressReserve(&at, grains * grain, 0, 0, 0));
	return at;
}

static inline CUmemAccessDesc vmm_access(int type, int id, int rights)
{
	return (CUmemAccessDesc){.location = vmm_place(type, id), .flags = (CUmemAccess_flags)rights};
}

/* For device 0. */
static inline CUresult vmm_allow(CUdeviceptr at, size_t grains, int rights)
{
	CUmemAccessDesc access = vmm_access(DEVICE, 0, rights);

	return cuMemSetAccess(at, grains * grain, &access, 1);
}

/* Map `grains` of the memory at `at`, with these rights. */
static inline void vmm_map(CUdeviceptr at, size_t grains, vmm_handle handle, int rights)
{
	NEED(cuMemMap(at, grains * grain, 0, handle, 0));
	if (rights != NONE)
		NEED(vmm_allow(at, grains, rights));
}

/* The rights of a location at an address, or what the question for them answers. */
static inline const char *vmm_rights(CUdeviceptr at, int type, int id)
{
	static char texts[4][64];
	static unsigned next;
	char *text = texts[next++ % 4];
	CUmemLocation location = vmm_place(type, id);
	unsigned long long flags = UNTOUCHED_INT;
	CUresult result = cuMemGetAccess(&flags, &location, at);

	if (result)
		return ask_driver_code(result);
	snprintf(text, sizeof texts[0], "%llu", flags);
	return text;
}

/* Every field of the properties. */
static inline const char *vmm_describe(const CUmemAllocationProp *is)
{
	static char text[200];

	snprintf(text, sizeof text,
		 "type %d handles %d location %d %d meta %s compression %d rdma %d usage %d reserved %s", (int)is->type,
		 (int)is->requestedHandleTypes, (int)is->location.type, is->location.id, OUT(is->win32HandleMetaData),
		 is->allocFlags.compressionType, is->allocFlags.gpuDirectRDMACapable, is->allocFlags.usage,
		 ask_bytes(is->allocFlags.reserved, sizeof is->allocFlags.reserved));
	return text;
}

/* The same, asked of a handle. */
static inline void vmm_ask_properties(const char *question, vmm_handle handle)
{
	CUmemAllocationProp properties;

	memset(&properties, 0x77, sizeof properties);
	ASK_VALUE(question, cuMemGetAllocationPropertiesFromHandle(&properties, handle), "%s",
		  vmm_describe(&properties));
}

/* The first bytes, after everything that was ordered has happened. */
static inline const char *vmm_bytes(CUdeviceptr at, size_t count)
{
	CUresult result = cuCtxSynchronize();

	return result ? ask_driver_code(result) : ask_device_bytes(at, count);
}

/* An address in granules from `base`, or -1 when it is nowhere near. */
static inline int vmm_place_in(CUdeviceptr at, CUdeviceptr base)
{
	return at - base < 16 * grain ? (int)((at - base) / grain) : -1;
}

/* Free memory of the device, in granules. */
static inline long vmm_free_grains(void)
{
	size_t left = 0, total = 0;

	NEED(cuMemGetInfo(&left, &total));
	return (long)(left / grain);
}

/* When memory is given back that another process must let go of first: at least so many, or those after two seconds. */
static inline long vmm_await_grains(long wanted)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		sched_yield();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (vmm_free_grains() < wanted && now.tv_sec - start.tv_sec < 2);
	return vmm_free_grains();
}

/* A change of free memory of about 32 granules: page tables may take a few more or fewer. */
static inline int vmm_steps(long grains)
{
	return (int)((grains + (grains < 0 ? -8 : 8)) / 16 * 16);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What programs have in common that scripts run on nodes (scripts/nodes.sh): names as digits, memory to export and to
 * import, and time. A script reads what they print, and tells them line by line what to do.
 */
#ifndef CENOTE_BENCH_NODES_H
#define CENOTE_BENCH_NODES_H

#include <cenote.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call) ((call) ? (printf("%s: %s\n", #call, cenote_last_error()), fflush(stdout), exit(1)) : (void)0)
#define FABRIC      CU_MEM_HANDLE_TYPE_FABRIC

enum { NAME_BYTES = 64, LINE_BYTES = 512, WARM_UP = 2 };

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline int compare_ns(const void *one, const void *other)
{
	uint64_t left = *(const uint64_t *)one, right = *(const uint64_t *)other;

	return left < right ? -1 : left > right;
}

/* 128 digits. */
static inline void print_name(const void *name)
{
	const unsigned char *bytes = name;

	for (int i = 0; i < NAME_BYTES; i++)
		printf("%02x", bytes[i]);
}

/* Ends the program if these are no digits. */
static inline void read_name(const char *digits, void *ret_name)
{
	unsigned char *bytes = ret_name;

	for (int i = 0; i < NAME_BYTES; i++) {
		if (sscanf(digits + 2 * i, "%2hhx", &bytes[i]) != 1) {
			printf("these are not the digits of a name\n");
			exit(2);
		}
	}
}

static inline void start_cuda(void)
{
	CUcontext context;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
}

static inline CUmemGenericAllocationHandle make_memory(size_t bytes, void *ret_name)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes = FABRIC,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle memory;

	CHECK(cuMemCreate(&memory, bytes, &properties, 0));
	CHECK(cuMemExportToShareableHandle(ret_name, memory, FABRIC, 0));
	return memory;
}

static inline CUmemoryPool make_pool(void *ret_name)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = FABRIC,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool;

	CHECK(cuMemPoolCreate(&pool, &properties));
	CHECK(cuMemPoolExportToShareableHandle(ret_name, pool, FABRIC, 0));
	return pool;
}

static inline CUdeviceptr map_memory(CUmemGenericAllocationHandle memory, size_t bytes)
{
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address;

	CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
	CHECK(cuMemMap(address, bytes, 0, memory, 0));
	CHECK(cuMemSetAccess(address, bytes, &access, 1));
	return address;
}

static inline void unmap_memory(CUdeviceptr address, size_t bytes)
{
	CHECK(cuMemUnmap(address, bytes));
	CHECK(cuMemAddressFree(address, bytes));
}

/* Read a line without its end; 0: the input has ended. */
static inline int read_line(char ret_line[LINE_BYTES])
{
	if (!fgets(ret_line, LINE_BYTES, stdin))
		return 0;
	ret_line[strcspn(ret_line, "\n")] = 0;
	return 1;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the chapters about memory pools start from: pools of each kind, their numbers, and short words for the steps.
 */
#ifndef CONFORMANCE_POOL_H
#define CONFORMANCE_POOL_H

#include "vmm.h"

enum {
	PINNED = CU_MEM_ALLOCATION_TYPE_PINNED,
	MANAGED = CU_MEM_ALLOCATION_TYPE_MANAGED,
	FOLLOW = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
	OPPORTUNISTIC = CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
	INTERNAL = CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
	THRESHOLD = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
	RESERVED = CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
	RESERVED_HIGH = CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
	USED = CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
	USED_HIGH = CU_MEMPOOL_ATTR_USED_MEM_HIGH,
};

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static inline CUmemPoolProps pool_properties(int allocation_type, int type, int id)
{
	CUmemPoolProps properties;

	memset(&properties, 0, sizeof properties);
	properties.allocType = (CUmemAllocationType)allocation_type;
	properties.location = vmm_place(type, id);
	return properties;
}

static inline CUmemoryPool pool_make_as(CUmemPoolProps properties)
{
	CUmemoryPool pool = NULL;

	NEED(cuMemPoolCreate(&pool, &properties));
	return pool;
}

/* Of device 0, of at most so many bytes; 0 is as many as there are. */
static inline CUmemoryPool pool_make(size_t most)
{
	CUmemPoolProps properties = pool_properties(PINNED, DEVICE, 0);

	properties.maxSize = most;
	return pool_make_as(properties);
}

static inline CUstream pool_stream(void)
{
	CUstream stream = NULL;

	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static inline CUdeviceptr pool_alloc(CUmemoryPool pool, size_t bytes, CUstream stream)
{
	CUdeviceptr at = 0;

	NEED(cuMemAllocFromPoolAsync(&at, bytes, pool, stream));
	return at;
}

static inline CUresult pool_set(CUmemoryPool pool, int attribute, unsigned long long value)
{
	int word = (int)value;
	cuuint64_t wide = value;

	return cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute,
				     attribute < THRESHOLD ? (void *)&word : (void *)&wide);
}

static inline char *pool_text(void)
{
	static char texts[16][160];
	static unsigned next;

	return texts[next++ % 16];
}

/* An attribute's value, or what the question for it answers. */
static inline const char *pool_get(CUmemoryPool pool, int attribute)
{
	char *text = pool_text();
	cuuint64_t wide = UNTOUCHED_INT;
	CUresult result = cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, &wide);

	if (result)
		return ask_driver_code(result);
	snprintf(text, 160, "%llu", (unsigned long long)wide);
	return text;
}

static inline const char *pool_numbers(CUmemoryPool pool)
{
	char *text = pool_text();

	snprintf(text, 160, "used %s high %s reserved %s high %s", pool_get(pool, USED), pool_get(pool, USED_HIGH),
		 pool_get(pool, RESERVED), pool_get(pool, RESERVED_HIGH));
	return text;
}

/* The rights of a location on a pool, or what the question for them answers. */
static inline const char *pool_rights(CUmemoryPool pool, int type, int id)
{
	char *text = pool_text();
	CUmemLocation location = vmm_place(type, id);
	CUmemAccess_flags flags = (CUmemAccess_flags)UNTOUCHED_INT;
	CUresult result = cuMemPoolGetAccess(&flags, pool, &location);

	if (result)
		return ask_driver_code(result);
	snprintf(text, 160, "%d", (int)flags);
	return text;
}

static inline CUresult pool_allow(CUmemoryPool pool, int type, int id, int rights)
{
	CUmemAccessDesc access = vmm_access(type, id, rights);

	return cuMemPoolSetAccess(pool, &access, 1);
}

/* An attribute of an address that is a number of four bytes at most. */
static inline int pool_pointer_word(CUdeviceptr at, CUpointer_attribute attribute)
{
	unsigned long long value = 0;

	return cuPointerGetAttribute(&value, attribute, at) ? -1 : (int)value;
}

/* "A", "B", … : which of the pools that are known by name, else "NULL", "untouched" or "other". */
static inline const char *pool_which(CUmemoryPool pool, CUmemoryPool a, CUmemoryPool b)
{
	if (!pool || pool == UNTOUCHED(CUmemoryPool))
		return OUT(pool);
	return pool == a ? "A" : pool == b ? "B" : "other";
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the driver says about a block of a pool, own or imported: the same questions, by attribute.
 */
#ifndef POOL_BLOCK_H
#define POOL_BLOCK_H

#include "pool.h"

static const char *const block_attribute_names[] = {
	NULL,           "context",      "memory_type",  "device_pointer", "host_pointer", "p2p_tokens",
	"sync_memops",  "buffer_id",    "is_managed",   "ordinal",        "legacy_ipc",   "range_start",
	"range_size",   "mapped",       "handle_types", "rdma",           "access_flags", "pool",
	"mapping_size", "mapping_base", "block_id",     "decompress",
};

enum { BLOCK_ATTRIBUTES = sizeof block_attribute_names / sizeof block_attribute_names[0] };

/* A value of eight bytes that holds nothing of this run alone. */
static inline const char *block_meaning(int attribute, unsigned long long value, CUdeviceptr at, CUmemoryPool pool)
{
	char *text = pool_text();
	CUcontext current = NULL;

	cuCtxGetCurrent(&current);
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT: return (uintptr_t)current == value ? "current" : OUT(value);
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return pool_which((CUmemoryPool)(uintptr_t)value, pool, NULL);
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return OUT(value);
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		if (!value || value == UNTOUCHED(unsigned long long) || at - value > GIB)
			return OUT(value);
		snprintf(text, 160, "%llu below", (unsigned long long)(at - value));
		return text;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: snprintf(text, 160, "%llu", value); return text;
	default: snprintf(text, 160, "%d", (int)value); return text;
	}
}

static inline void ask_attributes(const char *kind, CUdeviceptr at, CUmemoryPool pool)
{
	CUdeviceptr base = 0;
	size_t bytes = UNTOUCHED_INT;

	for (int i = 1; i < BLOCK_ATTRIBUTES; i++) {
		unsigned long long value[2] = {UNTOUCHED(unsigned long long)};
		ASK_VALUE(ask_name("%s_%s", kind, block_attribute_names[i]),
			  cuPointerGetAttribute(value, (CUpointer_attribute)i, at), "%s",
			  block_meaning(i, value[0], at, pool));
	}
	ASK_VALUE(ask_name("%s_address_range", kind), cuMemGetAddressRange(&base, &bytes, at), "%llu below %zu",
		  base ? (unsigned long long)(at - base) : 0, bytes);
	SAY(ask_name("%s_rights", kind), "device %s host %s", vmm_rights(at, DEVICE, 0), vmm_rights(at, HOST, 0));
}

#endif

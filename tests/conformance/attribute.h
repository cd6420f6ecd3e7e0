/* SPDX-License-Identifier: MIT */
/*
 * What cuPointerGetAttribute() says of an address, in words: addresses relative to it, contexts as "its" or NULL,
 * numbers as they are.
 */
#ifndef CONFORMANCE_ATTRIBUTE_H
#define CONFORMANCE_ATTRIBUTE_H

#include "ask.h"

enum { LAST_ATTRIBUTE = 22 };

static inline const char *attribute_distance(uint64_t value, CUdeviceptr pointer)
{
	int64_t difference = (int64_t)(value - pointer);

	if (!value || value == UNTOUCHED(uint64_t))
		return OUT(value);
	if (difference <= -(1 << 24) || difference >= 1 << 24)
		return "far";
	return ask_name("pointer%+lld", (long long)difference);
}

/* `value` was filled with 0x77 bytes before the call. NULL: it is a flag, of whichever size. Texts are ask_name()'s. */
static inline const char *attribute_words(int attribute, const void *value, CUdeviceptr pointer, CUcontext context)
{
	uint64_t wide;
	uint32_t narrow;

	memcpy(&wide, value, sizeof wide);
	memcpy(&narrow, value, sizeof narrow);
	if (wide == 0x7777777777777777)
		return "untouched";
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT: return wide == (uintptr_t)context ? "its" : wide ? "another" : "NULL";
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return attribute_distance(wide, pointer);
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return wide ? "set" : "zero";
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return ask_name("%llu", (unsigned long long)wide);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return ask_name("%d", (int)narrow);
	default: return NULL;
	}
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the chapters about copies start from: memory of each kind, and a stream.
 */
#ifndef CONFORMANCE_COPY_H
#define CONFORMANCE_COPY_H

#include "ask.h"

enum { BYTES = 4096 };

#define AT(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

static CUdeviceptr device_a, device_b, managed;
static char *host, *registered, pageable[BYTES];
static CUstream stream;

static inline void copy_setup(void)
{
	void *pinned = NULL;

	ask_context();
	NEED(cuMemAlloc(&device_a, BYTES));
	NEED(cuMemAlloc(&device_b, BYTES));
	NEED(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	NEED(cuMemAllocHost(&pinned, BYTES));
	host = pinned;
	registered = aligned_alloc(4096, BYTES);
	NEED(cuMemHostRegister(registered, BYTES, 0));
	NEED(cuStreamCreate(&stream, 0));
}

#endif

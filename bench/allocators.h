/* SPDX-License-Identifier: MIT */
/*
 * Allocators to compare with: glibc's, and jemalloc's and mimalloc's where they are installed. They are looked for by
 * name at run time.
 */
#ifndef CENOTE_BENCH_ALLOCATORS_H
#define CENOTE_BENCH_ALLOCATORS_H

#include <stddef.h>

enum { BENCH_ALLOCATORS_MAX = 3 };

struct bench_allocator {
	const char *name;
	void *(*allocate)(size_t bytes);
	void (*free)(void *block);
};

/* Returns how many there are; the first is glibc's. Of the others, the results of a group say that they are absent. */
unsigned bench_allocators(const char *group, const char *row, struct bench_allocator ret_found[BENCH_ALLOCATORS_MAX]);

#endif

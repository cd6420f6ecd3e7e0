/* SPDX-License-Identifier: MIT */
/*
 * Allocators to compare with: see allocators.h.
 */
#include "allocators.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "harness.h"

unsigned bench_allocators(const char *group, const char *row, struct bench_allocator ret_found[BENCH_ALLOCATORS_MAX])
{
	static const struct {
		const char *name, *file, *reason, *allocate, *free;
	} libraries[] = {
		{"jemalloc", "libjemalloc.so.2", "not installed (Debian's libjemalloc2)", "malloc", "free"},
		{"mimalloc", "libmimalloc.so.2", "not installed (Debian's libmimalloc2.0)", "mi_malloc", "mi_free"},
	};
	unsigned count = 0;

	ret_found[count++] = (struct bench_allocator){"glibc", malloc, free};
	for (unsigned i = 0; i < sizeof libraries / sizeof *libraries; i++) {
		void *library = dlopen(libraries[i].file, RTLD_NOW | RTLD_LOCAL);
		if (!library) {
			bench_absent(group, row, libraries[i].name, libraries[i].reason);
			continue;
		}
		struct bench_allocator *allocator = &ret_found[count++];
		allocator->name = libraries[i].name;
		*(void **)&allocator->allocate = dlsym(library, libraries[i].allocate);
		*(void **)&allocator->free = dlsym(library, libraries[i].free);
		BENCH_MUST(!allocator->allocate || !allocator->free);
	}
	return count;
}

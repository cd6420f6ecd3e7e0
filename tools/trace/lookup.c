/* SPDX-License-Identifier: MIT */
/*
 * The functions behind ours, and how programs get to ours.
 *
 * A program that is linked with Cenote, or with NVIDIA's library names, finds our functions first because this library
 * was loaded first; behind them is the next one of the name. A program that opens a library by itself, as Python does,
 * asks dlsym() for an address. So there is a dlsym() here, which answers with our function whenever the real answer is
 * the function behind ours. Any other answer passes: when Cenote opens NVIDIA's driver, it gets that.
 * cuGetProcAddress(), by which NVIDIA's runtime finds the driver's functions, leads to ours by itself: the dynamic
 * linker fills in libcenote-driver.so's table of addresses, and finds ours first.
 */
#include "trace.h"

#include "base/jump.h"

#include <dlfcn.h>
#include <string.h>

/* Where the dlsym() of lookup.S continues. */
void *(*cn_trace_real_dlsym)(void *handle, const char *name);

/* glibc's, under the version of this machine's first glibc, or of the one that has it in libc itself. */
__attribute__((constructor(101))) static void find_dlsym(void)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};

	for (size_t i = 0; i < sizeof versions / sizeof versions[0] && !cn_trace_real_dlsym; i++)
		cn_trace_real_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
}

/* ---- What stands behind ------------------------------------------------------------------------------------------ */

void *cn_trace_find(const char *name)
{
	/* The runtime first: on a GPU it is NVIDIA's. Each can see the libraries that it needs itself. */
	static const char *const libraries[] = {"libcudart.so.13", "libcenote.so.1", "libcenote-driver.so.1"};
	void *found;

	if (!cn_trace_real_dlsym)
		find_dlsym();
	found = cn_trace_real_dlsym(RTLD_NEXT, name);
	/* Opened by the program, and not global. Ours stay; a closed runtime is not called any more. */
	for (size_t i = 0; i < sizeof libraries / sizeof libraries[0] && !found; i++) {
		void *library = dlopen(libraries[i], RTLD_NOW | RTLD_NOLOAD);
		if (!library)
			continue;
		found = cn_trace_real_dlsym(library, name);
		dlclose(library);
	}
	return found;
}

void *cn_trace_next(size_t symbol)
{
	struct cn_trace_symbol *entry = &cn_trace_symbols[symbol];
	void *next = atomic_load_explicit(&entry->next, memory_order_acquire);

	if (!next) {
		next = cn_trace_find(entry->name);
		atomic_store_explicit(&entry->next, next, memory_order_release);
	}
	return next;
}

/* ---- How programs get to ours ------------------------------------------------------------------------------------ */

/* Called by lookup.S: the answer of dlsym(), or NULL to let the real one answer. */
void *cn_trace_answer_dlsym(void *handle, const char *name);
void *cn_trace_answer_dlsym(void *handle, const char *name)
{
	if (!cn_trace_real_dlsym)
		find_dlsym();
	/* The meaning of these two depends on the caller; and they find our functions by themselves. */
	if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || !name)
		return NULL;
	if (strncmp(name, "cu", strlen("cu")) != 0 && strncmp(name, "cenote_", strlen("cenote_")) != 0)
		return NULL;
	for (size_t i = 0; i < cn_trace_symbol_count; i++) {
		if (strcmp(cn_trace_symbols[i].name, name) != 0)
			continue;
		void *real = cn_trace_real_dlsym(handle, name);
		return real && real == cn_trace_next(i) ? cn_trace_symbols[i].front : NULL;
	}
	return NULL;
}

#if !CN_HAS_JUMPS
/* A caller with RTLD_NEXT is taken for this library, and may find itself. */
CN_SHOWN void *dlsym(void *restrict handle, const char *restrict name)
{
	void *answer = cn_trace_answer_dlsym(handle, name);

	return answer ? answer : cn_trace_real_dlsym(handle, name);
}
#endif

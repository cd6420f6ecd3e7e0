/* SPDX-License-Identifier: MIT */
/*
 * The library that runs PTX: found and opened.
 *
 * It lies beside the library that this code is in. Where it does not, the dynamic linker looks for it by its name, as
 * for any other.
 */
#include "device/host/host_ptx.h"

#include "base/lock.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcenote-ptx.so.1"

static CN_SLOW_LOCK(HOST_PTX) lock;
static _Atomic(const struct cn_ptx_calls *) opened;

const struct cn_ptx_calls *cn_host_ptx(void)
{
	return atomic_load_explicit(&opened, memory_order_acquire);
}

/* NULL: there is none, or where our own library is was said by a path that may mean another place by now. */
static void *open_beside(void)
{
	char path[PATH_MAX];
	Dl_info own;
	const char *end;

	if (!dladdr((const void *)&opened, &own) || !own.dli_fname || *own.dli_fname != '/')
		return NULL;
	end = strrchr(own.dli_fname, '/');
	int length = snprintf(path, sizeof path, "%.*s/" LIBRARY, (int)(end - own.dli_fname), own.dli_fname);
	return length < PATH_MAX ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static CUresult open_locked(const struct cn_ptx_calls **ret_calls)
{
	const struct cn_ptx_calls *calls;
	void *library = open_beside();

	if (!library)
		library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return cn_error(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "kernels in PTX need " LIBRARY ": %s", dlerror());
	calls = dlsym(library, "cn_ptx_calls");
	if (!calls || calls->version != CN_PTX_CALLS_VERSION) {
		dlclose(library);
		return cn_error(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, LIBRARY " is of another release than this library");
	}
	*ret_calls = calls;
	return CUDA_SUCCESS;
}

CUresult cn_host_ptx_open(const struct cn_ptx_calls **ret_calls)
{
	const struct cn_ptx_calls *calls = cn_host_ptx();
	CUresult result = CUDA_SUCCESS;

	if (!calls) {
		cn_slow_lock(&lock);
		calls = cn_host_ptx();
		if (!calls)
			result = open_locked(&calls);
		if (!result)
			atomic_store_explicit(&opened, calls, memory_order_release);
		cn_slow_unlock(&lock);
	}
	if (!result)
		*ret_calls = calls;
	return result;
}

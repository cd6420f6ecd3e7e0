/* SPDX-License-Identifier: MIT */
/*
 * The real driver, found and opened (see cuda_library.h).
 *
 * The search goes where the dynamic linker would look, in its order: LD_LIBRARY_PATH, its cache, its usual folders; and
 * where containers and WSL have it. Each is opened by absolute path: for the bare name the linker would return what the
 * process has already, which may be our own drop-in. A file of that name may be ours anywhere, too; it says so itself
 * and is skipped.
 */
#include "device/cuda/cuda_library.h"
#include "base/lock.h"

#include "device/cuda/cuda_cache.h"
#include "versions.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libcuda.so.1"

struct cn_cuda_calls cn_cuda;
CUresult (*cn_cuda_record_all)(void *context, CUevent event);

static CN_SLOW_LOCK(CUDA_LIBRARY) mutex;
/* Set once, under the mutex, `path` last. */
static void *library;
static int version;
static _Atomic(const char *) path;
static __typeof__(&cuGetProcAddress) get_proc_address;

static const char *const folders[] = {
#if defined(__x86_64__)
	"/usr/lib/x86_64-linux-gnu",
	"/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
	"/usr/lib/aarch64-linux-gnu",
	"/lib/aarch64-linux-gnu",
#endif
	"/usr/lib64",
	"/lib64",
	"/usr/lib",
	"/lib",
	"/usr/local/nvidia/lib64",
	"/usr/local/nvidia/lib",
	"/usr/lib/wsl/lib",
	"/run/opengl-driver/lib",
};

/* ---- Is it one? -------------------------------------------------------------------------------------------------- */

/* One of our own libraries, under whatever name. */
static bool is_ours(void *handle)
{
	return dlsym(handle, "cenote_dropin_mark") || dlsym(handle, "cenote_last_error");
}

/* A function of the driver that has just been opened, in the form of our headers; NULL: it has none. */
static void *function_of(const char *name, int since, bool per_thread)
{
	cuuint64_t flags =
		per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	void *function = NULL;

	/* It takes no version above its own. */
	if (since > version || get_proc_address(name, &function, since, flags, &status) ||
	    status != CU_GET_PROC_ADDRESS_SUCCESS)
		return NULL;
	return function;
}

/* Fill in cn_cuda: all or nothing. */
static CUresult take_calls(const char *file)
{
	struct cn_cuda_calls calls;

#define CN_CUDA_CALL(name)                                                                                            \
	{                                                                                                             \
		void *function = function_of(#name, CN_SINCE_##name, false);                                          \
		if (!function)                                                                                        \
			return cn_error(CUDA_ERROR_NO_DEVICE, "the driver %s is too old: it has no %s", file, #name); \
		memcpy(&calls.name, &function, sizeof function);                                                      \
	}
	CN_CUDA_CALLS(CN_CUDA_CALL)
#undef CN_CUDA_CALL
	cn_cuda = calls;
	void *record_all = function_of("cuCtxRecordEvent", 12050, false);
	memcpy(&cn_cuda_record_all, &record_all, sizeof record_all);
	return CUDA_SUCCESS;
}

/* Open one file. It stays open only if it is a driver that we can use. */
static CUresult try_file(const char *file)
{
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	__typeof__(&cuDriverGetVersion) get_version;
	CUresult result;
	void *symbol;
	char *copy;

	if (!handle)
		return cn_error(CUDA_ERROR_NO_DEVICE, "%s", dlerror());
	if (is_ours(handle)) {
		result = cn_error(CUDA_ERROR_NO_DEVICE, "%s is Cenote itself, not NVIDIA's driver", file);
		goto err_close;
	}
	symbol = dlsym(handle, "cuGetProcAddress_v2");
	memcpy(&get_proc_address, &symbol, sizeof symbol);
	symbol = dlsym(handle, "cuDriverGetVersion");
	memcpy(&get_version, &symbol, sizeof symbol);
	if (!get_proc_address || !get_version || get_version(&version)) {
		result = cn_error(CUDA_ERROR_NO_DEVICE, "%s is not a driver of CUDA 12 or later", file);
		goto err_close;
	}
	result = take_calls(file);
	if (result)
		goto err_close;
	copy = strdup(file);
	if (!copy) {
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for a path");
		goto err_close;
	}
	library = handle;
	atomic_store(&path, copy);
	return CUDA_SUCCESS;

err_close:
	get_proc_address = NULL;
	dlclose(handle);
	return result;
}

/* ---- Where is it? ------------------------------------------------------------------------------------------------ */

/* CUDA_ERROR_NOT_FOUND: no such file. */
static CUresult try_folder(const char *folder, size_t length)
{
	char file[PATH_MAX];

	/* A relative folder, also an empty one, would depend on the program's working directory. */
	if (!length || folder[0] != '/' || length + sizeof "/" LIBRARY > sizeof file)
		return CUDA_ERROR_NOT_FOUND;
	memcpy(file, folder, length);
	memcpy(file + length, "/" LIBRARY, sizeof "/" LIBRARY);
	return access(file, F_OK) ? CUDA_ERROR_NOT_FOUND : try_file(file);
}

/* An error in a file that exists says more than that there is none elsewhere. */
static CUresult worse(CUresult result, CUresult next)
{
	return next == CUDA_ERROR_NOT_FOUND ? result : next;
}

static CUresult try_search_path(void)
{
	const char *list = secure_getenv("LD_LIBRARY_PATH");
	CUresult result = CUDA_ERROR_NOT_FOUND;

	while (list && *list && result) {
		size_t length = strcspn(list, ":;");
		result = worse(result, try_folder(list, length));
		list += length + (list[length] != 0);
	}
	return result;
}

static CUresult try_cache(void)
{
	char file[PATH_MAX];

	return cn_loader_cache_find("/etc/ld.so.cache", LIBRARY, file) ? try_file(file) : CUDA_ERROR_NOT_FOUND;
}

static CUresult find(void)
{
	const char *wanted = secure_getenv("CENOTE_LIBCUDA");
	CUresult result;

	if (wanted && *wanted) {
		if (*wanted != '/')
			return cn_error(CUDA_ERROR_NO_DEVICE, "CENOTE_LIBCUDA is '%s'; it takes an absolute path",
					wanted);
		return try_file(wanted);
	}
	result = try_search_path();
	if (result)
		result = worse(result, try_cache());
	for (size_t i = 0; i < sizeof folders / sizeof folders[0] && result; i++)
		result = worse(result, try_folder(folders[i], strlen(folders[i])));
	if (result == CUDA_ERROR_NOT_FOUND)
		return cn_error(CUDA_ERROR_NO_DEVICE, "no NVIDIA driver: there is no " LIBRARY);
	return result;
}

CUresult cn_cuda_open(void)
{
	CUresult result = CUDA_SUCCESS;

	if (cn_cuda_path())
		return CUDA_SUCCESS;
	cn_slow_lock(&mutex);
	if (!library)
		result = find();
	cn_slow_unlock(&mutex);
	return result;
}

CUresult cn_cuda_start(int *ret_gpu_count)
{
	int count = 0;
	CUresult result = cn_cuda_open();

	if (result)
		return result;
	result = cn_cuda.cuInit(0);
	if (!result)
		result = cn_cuda.cuDeviceGetCount(&count);
	if (result)
		return cn_error(CUDA_ERROR_NO_DEVICE, "the driver %s does not start: %s", cn_cuda_path(),
				cn_result_name(result) ? cn_result_name(result) : "an unknown error");
	if (count <= 0)
		return cn_error(CUDA_ERROR_NO_DEVICE, "the driver %s finds no GPU", cn_cuda_path());
	*ret_gpu_count = count;
	return CUDA_SUCCESS;
}

const char *cn_cuda_path(void)
{
	return atomic_load(&path);
}

void *cn_cuda_function(const char *name, int since, bool per_thread)
{
	return cn_cuda_path() ? function_of(name, since, per_thread) : NULL;
}

void *cn_cuda_symbol(const char *symbol)
{
	return cn_cuda_path() ? dlsym(library, symbol) : NULL;
}

CUresult cn_cuda_proc_address(const char *name, void **function, int wanted, cuuint64_t flags,
			      CUdriverProcAddressQueryResult *status)
{
	return get_proc_address(name, function, wanted, flags, status);
}

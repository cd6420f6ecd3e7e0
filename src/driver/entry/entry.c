/* SPDX-License-Identifier: MIT */
/*
 * Versions and entry points, which answer without cuInit(); and the names of calls.
 */
#include "driver/entry/entry.h"

#include "base/guard.h"
#include "device/cuda/cuda_library.h"
#include "driver/common/driver.h"
#include "driver/gpu/gpu.h"

#include "cenote/cenote.h"

#include <stdbool.h>
#include <string.h>

enum {
	PROC_FLAGS = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
	PER_THREAD_SINCE = 7000, /* the version that brought the forms with the thread's own default stream */
};

CUresult own_cuDriverGetVersion(int *version)
{
	if (!version)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "driverVersion is NULL");
	if (cn_gpu_expected())
		return cn_cuda.cuDriverGetVersion(version);
	*version = CUDA_VERSION;
	return CUDA_SUCCESS;
}

CENOTE_API CUresult cenote_driver_library(const char **ret_path)
{
	if (!ret_path)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "ret_path is NULL");
	if (!cn_guard_check_write(ret_path, sizeof *ret_path, "ret_path"))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = cn_cuda_open();
	if (!result)
		*ret_path = cn_cuda_path();
	return result;
}

/* The first entry whose name does not sort before this one. */
static size_t lower_bound(const char *name)
{
	size_t low = 0, high = cn_entry_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(cn_entries[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool has_twin(const struct cn_entry *entry)
{
	return entry->per_thread != entry->function;
}

static unsigned int since(const struct cn_entry *entry, bool per_thread)
{
	unsigned int version = (unsigned int)entry->version;

	return per_thread && has_twin(entry) && version < PER_THREAD_SINCE ? PER_THREAD_SINCE : version;
}

/* The newest form of a function that exists in a version. */
static CUdriverProcAddressQueryResult find_entry(const char *name, unsigned int version, bool per_thread,
						 const struct cn_entry **ret_entry)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	size_t first = lower_bound(name), end = first;

	while (end < cn_entry_count && strcmp(cn_entries[end].name, name) == 0)
		end++;
	/* A form from before the per-thread forms has none: do not offer that of a later form. */
	bool twins_alone = per_thread && end > first && has_twin(&cn_entries[end - 1]);
	for (size_t i = first; i < end; i++) {
		if (twins_alone && !has_twin(&cn_entries[i]))
			continue;
		if (since(&cn_entries[i], per_thread) <= version) {
			*ret_entry = &cn_entries[i];
			status = CU_GET_PROC_ADDRESS_SUCCESS;
		} else if (status != CU_GET_PROC_ADDRESS_SUCCESS) {
			status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		}
	}
	return status;
}

CUresult own_cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
				 CUdriverProcAddressQueryResult *status)
{
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	const struct cn_entry *entry = NULL;

	if (!name || !function)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", name ? "pfn" : "symbol");
	if (cn_gpu_expected())
		return cn_gpu_proc_address(name, function, version, flags, status);
	if (flags & ~(cuuint64_t)PROC_FLAGS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cuGetProcAddress flags 0x%llx are unknown",
				(unsigned long long)flags);
	if (version > CUDA_VERSION)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "CUDA %d.%d is newer than this library", version / 1000,
				version % 1000 / 10);
	/* A negative version means the newest, in NVIDIA's driver by accident. */
	CUdriverProcAddressQueryResult found = find_entry(name, (unsigned int)version, per_thread, &entry);
	if (status)
		*status = found;
	/* A name that is not found is no failure; the program learns it from the status and the NULL. */
	*function = !entry ? NULL : per_thread ? entry->per_thread : entry->function;
	return CUDA_SUCCESS;
}

/* The form of CUDA 11.3, which no header declares. */
CUresult own_cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags);
CUresult own_cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *found = NULL;
	CUresult result = own_cuGetProcAddress_v2(name, function ? &found : NULL, version, flags, &status);

	if (result)
		return result;
	if (!found)
		return cn_error(CUDA_ERROR_NOT_FOUND, "there is no %s in CUDA %d.%d", name, version / 1000,
				version % 1000 / 10);
	*function = found;
	return CUDA_SUCCESS;
}

/* ---- The names of calls, for the log ---- */

static const char *find_call(const void *function)
{
	for (const struct cn_call *call = cn_driver_calls; call->name; call++) {
		if (call->function == function)
			return call->name;
	}
	return cn_gpu_call_name(function);
}

__attribute__((constructor)) static void add_calls(void)
{
	static struct cn_call_list list = {.find = find_call};

	cn_call_list_add(&list);
}

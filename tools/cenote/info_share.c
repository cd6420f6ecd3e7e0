/* SPDX-License-Identifier: MIT */
/*
 * cenote info: can memory be shared here? It tries: attributes tell what a device could do, but not whether this user
 * has a channel, or a directory of their own.
 *
 * What it makes for that has the smallest size, and is removed afterwards.
 */
#include "info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEGACY_BYTES = 4096 };

const struct way info_ways[WAY_COUNT] = {
	{"pools, by descriptor", "pool-descriptor"},
	{"memory, by descriptor", "memory-descriptor"},
	{"events, by handle", "event"},
	{"memory, by legacy handle", "legacy"},
	{"memory, by fabric handle", "fabric"},
};

/* ---- The ways ---- */

static CUresult try_pool(CUdevice device)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
	};
	CUmemoryPool pool;
	int descriptor;
	CUresult result = cuMemPoolCreate(&pool, &properties);

	if (result)
		return result;
	result = cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (!result)
		close(descriptor);
	cuMemPoolDestroy(pool);
	return result;
}

static CUresult try_physical(CUdevice device, CUmemAllocationHandleType type)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = type,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
	};
	CUmemGenericAllocationHandle memory;
	union {
		int descriptor;
		CUmemFabricHandle fabric;
	} handle;
	size_t bytes = 0;
	CUresult result = cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	if (!result)
		result = cuMemCreate(&memory, bytes, &properties, 0);
	if (result)
		return result;
	result = cuMemExportToShareableHandle(&handle, memory, type, 0);
	if (!result && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		close(handle.descriptor);
	cuMemRelease(memory);
	return result;
}

static CUresult try_descriptor(CUdevice device)
{
	return try_physical(device, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static CUresult try_fabric(CUdevice device)
{
	return try_physical(device, CU_MEM_HANDLE_TYPE_FABRIC);
}

static CUresult try_event(CUdevice device)
{
	CUipcEventHandle handle;
	CUevent event;
	CUresult result = cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);

	(void)device; /* the current context's */
	if (result)
		return result;
	result = cuIpcGetEventHandle(&handle, event);
	cuEventDestroy(event);
	return result;
}

static CUresult try_legacy(CUdevice device)
{
	CUipcMemHandle handle;
	CUdeviceptr memory;
	CUresult result = cuMemAlloc(&memory, LEGACY_BYTES);

	(void)device;
	if (result)
		return result;
	result = cuIpcGetMemHandle(&handle, memory);
	cuMemFree(memory);
	return result;
}

static CUresult (*const attempts[WAY_COUNT])(CUdevice device) = {try_pool, try_descriptor, try_event, try_legacy,
								 try_fabric};

/* ---- What became of them ---- */

/* The host device supports all of them: something on this machine prevents it. */
static void explain_host(CUresult result, char ret_why[SENTENCE_BYTES])
{
	const char *without = getenv("CENOTE_HOST_WITHOUT");

	if (result == CUDA_ERROR_NOT_SUPPORTED && without && *without)
		snprintf(ret_why, SENTENCE_BYTES, "%s; CENOTE_HOST_WITHOUT=%s takes it away", cenote_last_error(),
			 without);
	else
		snprintf(ret_why, SENTENCE_BYTES, "%s", cenote_last_error());
}

/* The driver's own answers come without a sentence; then the last one is of another call. */
static void explain(CUresult result, const char *before, char ret_why[SENTENCE_BYTES])
{
	const char *name = "an unknown error";

	cuGetErrorName(result, &name);
	if (strcmp(cenote_device_kind(), "host") == 0)
		explain_host(result, ret_why);
	else if (strcmp(cenote_last_error(), before) != 0)
		snprintf(ret_why, SENTENCE_BYTES, "%s", cenote_last_error());
	else if (result == CUDA_ERROR_NOT_PERMITTED)
		snprintf(
			ret_why, SENTENCE_BYTES,
			"no IMEX channel (%s): as root, mknod /dev/nvidia-caps-imex-channels/channel0 c NUMBER 0, with "
			"the number that /proc/devices has for nvidia-caps-imex-channels",
			name);
	else
		snprintf(ret_why, SENTENCE_BYTES, "the driver says %s", name);
}

static void try_all(CUdevice device, CUresult context, struct trial trials[WAY_COUNT])
{
	char before[SENTENCE_BYTES];

	for (int i = 0; i < WAY_COUNT; i++) {
		bool needs_context = attempts[i] == try_event || attempts[i] == try_legacy;
		snprintf(before, sizeof before, "%s", cenote_last_error());
		trials[i].why[0] = '\0';
		trials[i].result = needs_context && context ? context : attempts[i](device);
		if (trials[i].result)
			explain(trials[i].result, needs_context && context ? "" : before, trials[i].why);
	}
}

void info_try(CUdevice device, struct trial ret_trials[WAY_COUNT])
{
	CUcontext context;
	CUresult result = cuDevicePrimaryCtxRetain(&context, device);

	if (!result)
		result = cuCtxSetCurrent(context);
	try_all(device, result, ret_trials);
	if (!result) {
		cuCtxSetCurrent(NULL);
		cuDevicePrimaryCtxRelease(device);
	}
}

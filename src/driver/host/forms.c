/* SPDX-License-Identifier: MIT */
/*
 * Forms of functions other than those that the names in CUDA 13.0's headers mean.
 *
 * A function that was changed got a new symbol. Programs that were compiled before call the old one; others find it by
 * cuGetProcAddress() and a version. Most are the new ones with fewer parameters. A few of CUDA 13.0's own have more
 * than its headers say. The forms from the time of 32-bit addresses are in forms_narrow.c.
 *
 * host_cuCtxCreate is the form of CUDA 2.0, host_cuCtxCreate_v4 the current one.
 */
#include "driver/host/objects.h"

/*
 * FORM(function, parameters) { body }: no header declares these. SAME(function, parameters, call) calls another form.
 */
#define FORM(function, parameters)    \
	CUresult function parameters; \
	CUresult function parameters
#define SAME(function, parameters, call) \
	FORM(function, parameters)       \
	{                                \
		return call;             \
	}

/* ---- Devices ------------------------------------------------------------------------------------ */

SAME(host_cuDeviceGetUuid, (CUuuid * uuid, CUdevice ordinal), host_cuDeviceGetUuid_v2(uuid, ordinal))

/* Releasing a context that is not retained succeeds. */
FORM(host_cuDevicePrimaryCtxRelease, (CUdevice ordinal))
{
	CUresult result = host_cuDevicePrimaryCtxRelease_v2(ordinal);

	return result == CUDA_ERROR_INVALID_CONTEXT ? CUDA_SUCCESS : result;
}

SAME(host_cuDevicePrimaryCtxReset, (CUdevice ordinal), host_cuDevicePrimaryCtxReset_v2(ordinal))

FORM(host_cuDevicePrimaryCtxSetFlags, (CUdevice ordinal, unsigned int flags))
{
	unsigned int now = 0;
	int active = 0;
	CUresult result = host_cuDevicePrimaryCtxGetState(ordinal, &now, &active);

	if (!result)
		result = cn_context_check_flags(flags);
	if (result)
		return result;
	if (active)
		return cn_error(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context of device %d is in use",
				ordinal);
	return host_cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

/* A context with 32-bit addresses. The driver has none either in a process that has other contexts. */
FORM(host_cuCtxCreate, (CUcontext * ret_context, unsigned int flags, CUdevice ordinal))
{
	struct cn_device *device = NULL;
	CUresult result = cn_context_check(ret_context, flags, ordinal, &device);

	if (result)
		return result;
	return cn_error(CUDA_ERROR_OUT_OF_MEMORY,
			"contexts with 32-bit addresses (CUDA before 3.2) are not supported: recompile the program");
}

SAME(host_cuCtxCreate_v2, (CUcontext * context, unsigned int flags, CUdevice ordinal),
     host_cuCtxCreate_v4(context, NULL, flags, ordinal))

FORM(host_cuCtxCreate_v3,
     (CUcontext * context, CUexecAffinityParam *affinities, int count, unsigned int flags, CUdevice ordinal))
{
	struct cn_device *device = NULL;
	CUresult result;

	if (count <= 0)
		return host_cuCtxCreate_v4(context, NULL, flags, ordinal);
	result = cn_enter();
	if (!result)
		result = cn_devices_find(ordinal, &device);
	if (!result)
		result = cn_context_check_flags(flags);
	if (result)
		return result;
	if (!context || !affinities)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", context ? "paramsArray" : "pctx");
	return cn_error(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the host device has no execution affinity");
}

SAME(host_cuCtxDestroy, (CUcontext context), host_cuCtxDestroy_v2(context))
SAME(host_cuCtxPopCurrent, (CUcontext * context), host_cuCtxPopCurrent_v2(context))

/* Once, a context was current to one thread only. */
FORM(host_cuCtxPushCurrent, (CUcontext context))
{
	for (unsigned i = 0; context && i < cn_context_thread.depth; i++)
		if (cn_context_thread.stack[i] == (uintptr_t)context)
			return cn_error(CUDA_ERROR_INVALID_CONTEXT, "the context is already current in this thread");
	return host_cuCtxPushCurrent_v2(context);
}

FORM(host_cuCtxGetDevice_v2, (CUdevice * ret_device, CUcontext handle))
{
	struct cn_home home;
	CUresult result =
		cn_given(cn_context_given(handle, CUDA_ERROR_CONTEXT_IS_DESTROYED, &home), ret_device, "device");

	if (!result)
		*ret_device = home.device->ordinal;
	return result;
}

FORM(host_cuCtxSynchronize_v2, (CUcontext handle))
{
	struct cn_home home;
	CUresult result = cn_context_given(handle, CUDA_ERROR_CONTEXT_IS_DESTROYED, &home);

	if (!result)
		result = cn_context_wait(&home);
	if (!result)
		cn_streams_settle(home.context, true);
	return result;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

SAME(host_cuIpcOpenMemHandle, (CUdeviceptr * pointer, CUipcMemHandle handle, unsigned int flags),
     host_cuIpcOpenMemHandle_v2(pointer, handle, flags))

/* It knows the two flags of its time, and ignores others. */
SAME(host_cuMemHostRegister, (void *pointer, size_t bytes, unsigned int flags),
     host_cuMemHostRegister_v2(pointer, bytes,
			       flags &(unsigned)(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)))

/* A device's number, or CU_DEVICE_CPU, as a location. */
static CUresult place_of(CUdevice ordinal, CUmemLocation *ret_location)
{
	struct cn_device *device;

	if (ordinal == CU_DEVICE_CPU) {
		*ret_location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
		return CUDA_SUCCESS;
	}
	*ret_location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
	return cn_devices_find(ordinal, &device);
}

FORM(host_cuMemPrefetchAsync, (CUdeviceptr pointer, size_t bytes, CUdevice ordinal, CUstream stream))
{
	CUmemLocation location;
	CUresult result = cn_enter();

	if (!result)
		result = place_of(ordinal, &location);
	return result ? result : host_cuMemPrefetchAsync_v2(pointer, bytes, location, 0, stream);
}

FORM(host_cuMemAdvise, (CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice ordinal))
{
	bool of_device = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
			 advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUresult result = cn_enter();

	if (!result && of_device)
		result = place_of(ordinal, &location);
	return result ? result : host_cuMemAdvise_v2(pointer, bytes, advice, location);
}

/* ---- Streams and events ------------------------------------------------------------------------------------------ */

static CUresult no_default(const char *what)
{
	return cn_error(CUDA_ERROR_INVALID_HANDLE, "there is no %s to destroy", what);
}

SAME(host_cuStreamDestroy, (CUstream stream), stream ? host_cuStreamDestroy_v2(stream) : no_default("stream"))
SAME(host_cuEventDestroy, (CUevent event), event ? host_cuEventDestroy_v2(event) : no_default("event"))
SAME(host_cuEventElapsedTime, (float *ms, CUevent start, CUevent end), host_cuEventElapsedTime_v2(ms, start, end))

SAME(host_cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
     host_cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL))
SAME(host_cuStreamGetCaptureInfo_v2,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
      size_t *count),
     host_cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, NULL, count))
/* Green contexts, which divide a device, exist on GPUs only. */
FORM(host_cuStreamGetCtx_v2, (CUstream stream, CUcontext *ret_context, void **ret_green))
{
	CUcontext context = NULL;
	CUresult result = host_cuStreamGetCtx(stream, ret_context || ret_green ? &context : NULL);

	if (result)
		return result;
	if (ret_context)
		*ret_context = context;
	if (ret_green)
		*ret_green = NULL;
	return CUDA_SUCCESS;
}

/* Drivers have dropped the first memory operations, so CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1 is 0. */
static CUresult no_operation(CUstream handle)
{
	struct cn_place place;
	CUresult result = cn_stream_find(handle, &place);

	if (result)
		return result;
	return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the device only has the memory operations of CUDA 11.7 and later");
}

#define GONE(function, type)                                                                   \
	FORM(function, (CUstream stream, CUdeviceptr address, type value, unsigned int flags)) \
	{                                                                                      \
		(void)address, (void)value, (void)flags;                                       \
		return no_operation(stream);                                                   \
	}

GONE(host_cuStreamWaitValue32, cuuint32_t)
GONE(host_cuStreamWaitValue64, cuuint64_t)
GONE(host_cuStreamWriteValue32, cuuint32_t)
GONE(host_cuStreamWriteValue64, cuuint64_t)

FORM(host_cuStreamBatchMemOp,
     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags))
{
	(void)count, (void)operations, (void)flags;
	return no_operation(stream);
}

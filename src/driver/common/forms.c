/* SPDX-License-Identifier: MIT */
/*
 * Other forms of functions than those that CUDA 13.0's headers mean by their names.
 *
 * A function that was changed got a new symbol, and programs that were compiled before call the old one; others find it
 * by cuGetProcAddress() and a version. Most are the new ones with fewer parameters. A few of CUDA 13.0's own have more
 * than its headers say. The forms of a time of 32-bit addresses are in forms_narrow.c.
 *
 * Here a name is its symbol, and nothing else: cuCtxCreate is the form of CUDA 2.0, cuCtxCreate_v4 the one of today.
 */
#include "driver/common/driver.h"

#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuCtxPopCurrent
#undef cuCtxPushCurrent
#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuGetProcAddress
#undef cuIpcOpenMemHandle
#undef cuMemAdvise
#undef cuMemHostRegister
#undef cuMemPrefetchAsync
#undef cuStreamBatchMemOp
#undef cuStreamDestroy
#undef cuStreamGetCaptureInfo
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64

static CUstream own(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

/*
 * FORM(symbol, parameters) { body }: no header declares these. SAME(symbol, parameters, call) is another form's call.
 */
#define FORM(symbol, parameters)              \
	CN_EXPORT CUresult symbol parameters; \
	CN_EXPORT CUresult symbol parameters
#define SAME(symbol, parameters, call) \
	FORM(symbol, parameters)       \
	{                              \
		return call;           \
	}

/* ---- Entry points and devices ------------------------------------------------------------------------------------ */

FORM(cuGetProcAddress, (const char *name, void **function, int version, cuuint64_t flags))
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *found = NULL;
	CUresult result = cuGetProcAddress_v2(name, function ? &found : NULL, version, flags, &status);

	if (result)
		return result;
	if (!found)
		return cn_error(CUDA_ERROR_NOT_FOUND, "there is no %s in CUDA %d.%d", name, version / 1000,
				version % 1000 / 10);
	*function = found;
	return CUDA_SUCCESS;
}

SAME(cuDeviceGetUuid, (CUuuid * uuid, CUdevice ordinal), cuDeviceGetUuid_v2(uuid, ordinal))

/* What nobody retains is released without complaint. */
FORM(cuDevicePrimaryCtxRelease, (CUdevice ordinal))
{
	CUresult result = cuDevicePrimaryCtxRelease_v2(ordinal);

	return result == CUDA_ERROR_INVALID_CONTEXT ? CUDA_SUCCESS : result;
}

SAME(cuDevicePrimaryCtxReset, (CUdevice ordinal), cuDevicePrimaryCtxReset_v2(ordinal))

FORM(cuDevicePrimaryCtxSetFlags, (CUdevice ordinal, unsigned int flags))
{
	unsigned int now = 0;
	int active = 0;
	CUresult result = cuDevicePrimaryCtxGetState(ordinal, &now, &active);

	if (!result)
		result = cn_context_check_flags(flags);
	if (result)
		return result;
	if (active)
		return cn_error(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context of device %d is in use",
				ordinal);
	return cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

/* A context whose addresses have 32 bits. The driver has none either in a process that has others. */
FORM(cuCtxCreate, (CUcontext * ret_context, unsigned int flags, CUdevice ordinal))
{
	struct cn_device *device = NULL;
	CUresult result = cn_context_check(ret_context, flags, ordinal, &device);

	if (result)
		return result;
	return cn_error(CUDA_ERROR_OUT_OF_MEMORY,
			"contexts with 32-bit addresses (CUDA before 3.2) are not supported: recompile the program");
}

SAME(cuCtxCreate_v2, (CUcontext * context, unsigned int flags, CUdevice ordinal),
     cuCtxCreate_v4(context, NULL, flags, ordinal))

FORM(cuCtxCreate_v3,
     (CUcontext * context, CUexecAffinityParam *affinities, int count, unsigned int flags, CUdevice ordinal))
{
	struct cn_device *device = NULL;
	CUresult result;

	if (count <= 0)
		return cuCtxCreate_v4(context, NULL, flags, ordinal);
	result = cn_enter();
	if (!result)
		result = cn_device_find(ordinal, &device);
	if (!result)
		result = cn_context_check_flags(flags);
	if (result)
		return result;
	if (!context || !affinities)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", context ? "paramsArray" : "pctx");
	return cn_error(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the host device has no execution affinity");
}

SAME(cuCtxDestroy, (CUcontext context), cuCtxDestroy_v2(context))
SAME(cuCtxPopCurrent, (CUcontext * context), cuCtxPopCurrent_v2(context))

/* A context was current to one thread, once. */
FORM(cuCtxPushCurrent, (CUcontext context))
{
	for (unsigned i = 0; context && i < cn_thread.depth; i++)
		if (cn_thread.stack[i] == (uintptr_t)context)
			return cn_error(CUDA_ERROR_INVALID_CONTEXT, "the context is already current in this thread");
	return cuCtxPushCurrent_v2(context);
}

FORM(cuCtxGetDevice_v2, (CUdevice * ret_device, CUcontext handle))
{
	struct cn_home home;
	CUresult result = cn_context_given(handle, CUDA_ERROR_CONTEXT_IS_DESTROYED, &home);

	if (result)
		return result;
	if (!ret_device)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "device is NULL");
	*ret_device = home.device->ordinal;
	return CUDA_SUCCESS;
}

FORM(cuCtxSynchronize_v2, (CUcontext handle))
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

SAME(cuIpcOpenMemHandle, (CUdeviceptr * pointer, CUipcMemHandle handle, unsigned int flags),
     cuIpcOpenMemHandle_v2(pointer, handle, flags))

/* Of the flags it knows the two of its time, and does not mind others. */
SAME(cuMemHostRegister, (void *pointer, size_t bytes, unsigned int flags),
     cuMemHostRegister_v2(pointer, bytes,
			  flags &(unsigned)(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)))

/* A device's number, or CU_DEVICE_CPU, as a place. */
static CUresult place_of(CUdevice ordinal, CUmemLocation *ret_location)
{
	struct cn_device *device;

	if (ordinal == CU_DEVICE_CPU) {
		*ret_location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
		return CUDA_SUCCESS;
	}
	*ret_location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
	return cn_device_find(ordinal, &device);
}

FORM(cuMemPrefetchAsync, (CUdeviceptr pointer, size_t bytes, CUdevice ordinal, CUstream stream))
{
	CUmemLocation location;
	CUresult result = cn_enter();

	if (!result)
		result = place_of(ordinal, &location);
	return result ? result : cuMemPrefetchAsync_v2(pointer, bytes, location, 0, stream);
}

SAME(cuMemPrefetchAsync_ptsz, (CUdeviceptr pointer, size_t bytes, CUdevice ordinal, CUstream stream),
     cuMemPrefetchAsync(pointer, bytes, ordinal, own(stream)))

FORM(cuMemAdvise, (CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice ordinal))
{
	bool of_device = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
			 advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUresult result = cn_enter();

	if (!result && of_device)
		result = place_of(ordinal, &location);
	return result ? result : cuMemAdvise_v2(pointer, bytes, advice, location);
}

/* ---- Streams and events ------------------------------------------------------------------------------------------ */

static CUresult no_default(const char *what)
{
	return cn_error(CUDA_ERROR_INVALID_HANDLE, "there is no %s to destroy", what);
}

SAME(cuStreamDestroy, (CUstream stream), stream ? cuStreamDestroy_v2(stream) : no_default("stream"))
SAME(cuEventDestroy, (CUevent event), event ? cuEventDestroy_v2(event) : no_default("event"))
SAME(cuEventElapsedTime, (float *ms, CUevent start, CUevent end), cuEventElapsedTime_v2(ms, start, end))

SAME(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
     cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL))
SAME(cuStreamGetCaptureInfo_ptsz, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
     cuStreamGetCaptureInfo(own(stream), status, id))
SAME(cuStreamGetCaptureInfo_v2,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
      size_t *count),
     cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, NULL, count))
SAME(cuStreamGetCaptureInfo_v2_ptsz,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
      size_t *count),
     cuStreamGetCaptureInfo_v2(own(stream), status, id, graph, nodes, count))

/* Green contexts, which divide a device, are a GPU's. */
FORM(cuStreamGetCtx_v2, (CUstream stream, CUcontext *ret_context, void **ret_green))
{
	CUcontext context = NULL;
	CUresult result = cuStreamGetCtx(stream, ret_context || ret_green ? &context : NULL);

	if (result)
		return result;
	if (ret_context)
		*ret_context = context;
	if (ret_green)
		*ret_green = NULL;
	return CUDA_SUCCESS;
}

SAME(cuStreamGetCtx_v2_ptsz, (CUstream stream, CUcontext *context, void **green),
     cuStreamGetCtx_v2(own(stream), context, green))

/* The first memory operations are gone from drivers, and so CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1 is 0. */
static CUresult no_operation(CUstream handle)
{
	struct cn_place place;
	CUresult result = cn_stream_find(handle, &place);

	if (result)
		return result;
	return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the device only has the memory operations of CUDA 11.7 and later");
}

#define GONE(symbol, type)                                                                          \
	FORM(symbol, (CUstream stream, CUdeviceptr address, type value, unsigned int flags))        \
	{                                                                                           \
		(void)address, (void)value, (void)flags;                                            \
		return no_operation(stream);                                                        \
	}                                                                                           \
	SAME(symbol##_ptsz, (CUstream stream, CUdeviceptr address, type value, unsigned int flags), \
	     symbol(own(stream), address, value, flags))

GONE(cuStreamWaitValue32, cuuint32_t)
GONE(cuStreamWaitValue64, cuuint64_t)
GONE(cuStreamWriteValue32, cuuint32_t)
GONE(cuStreamWriteValue64, cuuint64_t)

FORM(cuStreamBatchMemOp,
     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags))
{
	(void)count, (void)operations, (void)flags;
	return no_operation(stream);
}

SAME(cuStreamBatchMemOp_ptsz,
     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags),
     cuStreamBatchMemOp(own(stream), count, operations, flags))

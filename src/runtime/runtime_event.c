/* SPDX-License-Identifier: MIT */
/*
 * Events of the runtime API. A cudaEvent_t is a CUevent, and the flags have the driver's values.
 *
 * Asking an event needs no context in the thread.
 */
#include "runtime/runtime.h"

#include <string.h>

cudaError_t runtime_cudaEventCreate(cudaEvent_t *event)
{
	return runtime_cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t runtime_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	return cn_runtime_result(cn_runtime_context() ?: cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	return cn_runtime_result(cn_runtime_context() ?: cuEventDestroy(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return cn_runtime_result(cn_runtime_context() ?: cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
	return cn_runtime_result(cn_runtime_context() ?: cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	return cn_runtime_result(cn_runtime_start() ?: cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	return cn_runtime_result(cn_runtime_start() ?: cuEventSynchronize(event));
}

cudaError_t runtime_cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	CUresult result = cn_runtime_start();

	if (!result && !ms)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "ms is NULL");
	return cn_runtime_result(result ? result : cuEventElapsedTime(ms, start, end));
}

/* ---- Between processes ------------------------------------------------------------------------------------------ */

_Static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle), "handles of one size");

cudaError_t runtime_cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
	CUipcEventHandle made;
	CUresult result = cn_runtime_context();

	if (!result)
		result = cuIpcGetEventHandle(handle ? &made : NULL, event);
	if (!result && handle)
		memcpy(handle, &made, sizeof made);
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
	CUipcEventHandle given;
	CUresult result = cn_runtime_context();

	memcpy(&given, &handle, sizeof given);
	return cn_runtime_result(result ? result : cuIpcOpenEventHandle(event, given));
}

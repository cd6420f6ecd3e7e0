/* SPDX-License-Identifier: MIT */
/*
 * Streams of the runtime API. A cudaStream_t is a CUstream, and the default streams have the same handles as in the
 * driver, so they pass through.
 */
#include "runtime/runtime.h"

#include <stddef.h>
#include <stdlib.h>

cudaError_t runtime_cudaStreamCreate(cudaStream_t *pStream)
{
	return runtime_cudaStreamCreateWithFlags(pStream, cudaStreamDefault);
}

cudaError_t runtime_cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
	return cn_runtime_result(cn_runtime_context() ?: cuStreamCreate(pStream, flags));
}

cudaError_t runtime_cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
	return cn_runtime_result(cn_runtime_context() ?: cuStreamCreateWithPriority(pStream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	return cn_runtime_result(cn_runtime_context() ?: cuStreamDestroy(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	return cn_runtime_result(cn_runtime_context() ?: cuStreamQuery(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return cn_runtime_result(cn_runtime_context() ?: cuStreamSynchronize(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	return cn_runtime_result(cn_runtime_context() ?: cuStreamWaitEvent(stream, event, flags));
}

/* ---- Callbacks -------------------------------------------------------------------------------------------------- */

/* A callback on its way through the driver, whose callbacks have another type. Freed when it is called. */
struct pending_callback {
	cudaStreamCallback_t function;
	void *user_data;
};

static void CUDA_CB run_callback(CUstream stream, CUresult status, void *data)
{
	struct pending_callback callback = *(struct pending_callback *)data;

	free(data);
	callback.function(stream, cn_runtime_code(status), callback.user_data);
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
				  unsigned int flags)
{
	struct pending_callback *pending;
	CUresult result = cn_runtime_context();

	if (result)
		return cn_runtime_result(result);
	if (!callback)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "callback is NULL");
	pending = malloc(sizeof(*pending));
	if (!pending)
		return CN_RUNTIME_REFUSE(cudaErrorMemoryAllocation, "no host memory for a callback's record");
	pending->function = callback;
	pending->user_data = userData;
	result = cuStreamAddCallback(stream, run_callback, pending, flags);
	if (result)
		free(pending);
	return cn_runtime_result(result);
}

/* ---- Properties ------------------------------------------------------------------------------------------------- */

cudaError_t runtime_cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
	return cn_runtime_result(cn_runtime_context() ?: cuStreamGetDevice(hStream, device));
}

cudaError_t runtime_cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
	return cn_runtime_result(cn_runtime_context() ?: cuStreamGetFlags(hStream, flags));
}

cudaError_t runtime_cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
	return cn_runtime_result(cn_runtime_context() ?: cuStreamGetId(hStream, streamId));
}

cudaError_t runtime_cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
	return cn_runtime_result(cn_runtime_context() ?: cuStreamGetPriority(hStream, priority));
}

/* ---- Capture ---------------------------------------------------------------------------------------------------- */

cudaError_t runtime_cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
	CUresult result = cn_runtime_context();
	CUstreamCaptureStatus status;

	if (!result && !pCaptureStatus)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "pCaptureStatus is NULL");
	if (!result)
		result = cuStreamIsCapturing(stream, &status);
	if (!result)
		*pCaptureStatus = (enum cudaStreamCaptureStatus)status;
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
					     unsigned long long *id_out, cudaGraph_t *graph_out,
					     const cudaGraphNode_t **dependencies_out,
					     const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
	CUresult result = cn_runtime_context();
	CUstreamCaptureStatus status;
	const CUgraphEdgeData *edges = NULL;
	cuuint64_t id = 0;

	if (!result && !captureStatus_out)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "captureStatus_out is NULL");
	if (!result)
		result = cuStreamGetCaptureInfo(stream, &status, &id, graph_out, dependencies_out,
						edgeData_out ? &edges : NULL, numDependencies_out);
	if (result)
		return cn_runtime_result(result);
	*captureStatus_out = (enum cudaStreamCaptureStatus)status;
	if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return cudaSuccess;
	if (id_out)
		*id_out = id;
	if (edgeData_out)
		*edgeData_out = (const cudaGraphEdgeData *)(const void *)edges;
	return cudaSuccess;
}

cudaError_t runtime_cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	CUresult result = cn_runtime_context();
	CUstreamCaptureMode exchanged;

	if (!result && !mode)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "mode is NULL");
	if (result)
		return cn_runtime_result(result);
	exchanged = (CUstreamCaptureMode)*mode;
	result = cuThreadExchangeStreamCaptureMode(&exchanged);
	if (!result)
		*mode = (enum cudaStreamCaptureMode)exchanged;
	return cn_runtime_result(result);
}

/* SPDX-License-Identifier: MIT */
/*
 * Stream capture: the host device captures nothing, so no stream is ever capturing. These calls say so. A thread's
 * capture mode is kept for programs that exchange it around their calls.
 */
#include "driver/host/objects.h"

CUresult host_cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *ret_status)
{
	struct cn_place place;
	CUresult result = cn_given(cn_stream_find(handle, &place), ret_status, "captureStatus");

	if (!result)
		*ret_status = CU_STREAM_CAPTURE_STATUS_NONE;
	return result;
}

CUresult host_cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *ret_status, cuuint64_t *ret_id,
					CUgraph *ret_graph, const CUgraphNode **ret_dependencies,
					const CUgraphEdgeData **ret_edges, size_t *ret_dependency_count)
{
	struct cn_place place;
	CUresult result = cn_stream_find(handle, &place);

	(void)ret_id;
	(void)ret_graph;
	(void)ret_dependencies;
	(void)ret_edges;
	(void)ret_dependency_count;
	if (result)
		return result;
	if (!ret_status)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "captureStatus_out is NULL");
	*ret_status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

CUresult host_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	/*
	 * It concerns the thread alone: works also in a callback and in a forked child, and any number is kept, as by
	 * the driver.
	 */
	if (!atomic_load(&cn_ready))
		return cn_enter();
	if (!mode)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "mode is NULL");
	CUstreamCaptureMode before = cn_context_thread.capture_mode;
	cn_context_thread.capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

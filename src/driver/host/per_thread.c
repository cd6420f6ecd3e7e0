/* SPDX-License-Identifier: MIT */
/*
 * The twins of functions that take a stream, for programs whose default stream is the thread's own. (Those of copies
 * and fills are in memory_per_thread.c.)
 *
 * A program compiled with --default-stream per-thread calls cuStreamQuery_ptsz where it says cuStreamQuery. All there
 * is to it: NULL means CU_STREAM_PER_THREAD.
 */
#include "driver/host/objects.h"

static CUstream own(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

#define TWIN(function, parameters, call) \
	CUresult function parameters     \
	{                                \
		return call;             \
	}

TWIN(host_cuStreamQuery_ptsz, (CUstream stream), host_cuStreamQuery(own(stream)))
TWIN(host_cuStreamSynchronize_ptsz, (CUstream stream), host_cuStreamSynchronize(own(stream)))
TWIN(host_cuStreamWaitEvent_ptsz, (CUstream stream, CUevent event, unsigned int flags),
     host_cuStreamWaitEvent(own(stream), event, flags))
TWIN(host_cuStreamGetCtx_ptsz, (CUstream stream, CUcontext *context), host_cuStreamGetCtx(own(stream), context))
TWIN(host_cuStreamGetDevice_ptsz, (CUstream stream, CUdevice *device), host_cuStreamGetDevice(own(stream), device))
TWIN(host_cuStreamGetFlags_ptsz, (CUstream stream, unsigned int *flags), host_cuStreamGetFlags(own(stream), flags))
TWIN(host_cuStreamGetId_ptsz, (CUstream stream, unsigned long long *id), host_cuStreamGetId(own(stream), id))
TWIN(host_cuStreamGetPriority_ptsz, (CUstream stream, int *priority), host_cuStreamGetPriority(own(stream), priority))
TWIN(host_cuStreamIsCapturing_ptsz, (CUstream stream, CUstreamCaptureStatus *status),
     host_cuStreamIsCapturing(own(stream), status))
TWIN(host_cuStreamGetCaptureInfo_v3_ptsz,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
      const CUgraphEdgeData **edges, size_t *count),
     host_cuStreamGetCaptureInfo_v3(own(stream), status, id, graph, nodes, edges, count))
TWIN(host_cuStreamWaitValue32_v2_ptsz, (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags),
     host_cuStreamWaitValue32_v2(own(stream), address, value, flags))
TWIN(host_cuStreamWaitValue64_v2_ptsz, (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),
     host_cuStreamWaitValue64_v2(own(stream), address, value, flags))
TWIN(host_cuStreamWriteValue32_v2_ptsz, (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags),
     host_cuStreamWriteValue32_v2(own(stream), address, value, flags))
TWIN(host_cuStreamWriteValue64_v2_ptsz, (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),
     host_cuStreamWriteValue64_v2(own(stream), address, value, flags))
TWIN(host_cuStreamBatchMemOp_v2_ptsz,
     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags),
     host_cuStreamBatchMemOp_v2(own(stream), count, operations, flags))
TWIN(host_cuEventRecord_ptsz, (CUevent event, CUstream stream), host_cuEventRecord(event, own(stream)))
TWIN(host_cuEventRecordWithFlags_ptsz, (CUevent event, CUstream stream, unsigned int flags),
     host_cuEventRecordWithFlags(event, own(stream), flags))
TWIN(own_cuMemAllocAsync_ptsz, (CUdeviceptr * pointer, size_t bytes, CUstream stream),
     own_cuMemAllocAsync(pointer, bytes, own(stream)))
TWIN(own_cuMemAllocFromPoolAsync_ptsz, (CUdeviceptr * pointer, size_t bytes, CUmemoryPool pool, CUstream stream),
     own_cuMemAllocFromPoolAsync(pointer, bytes, pool, own(stream)))
TWIN(own_cuMemFreeAsync_ptsz, (CUdeviceptr pointer, CUstream stream), own_cuMemFreeAsync(pointer, own(stream)))
TWIN(host_cuLaunchKernel_ptsz,
     (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
      unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params,
      void **extra),
     host_cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, own(stream), params,
			 extra))
TWIN(host_cuLaunchHostFunc_ptsz, (CUstream stream, CUhostFn function, void *data),
     host_cuLaunchHostFunc(own(stream), function, data))

CUresult host_cuStreamAddCallback_ptsz(CUstream handle, CUstreamCallback callback, void *data, unsigned int flags)
{
	/* The callback is told the stream as the program named it: NULL. */
	struct cn_operation operation = {.kind = CN_OPERATION_CALLBACK, .callback = {callback, NULL, data}};
	struct cn_place place;
	CUresult result;

	if (handle || !callback || flags)
		return host_cuStreamAddCallback(own(handle), callback, data, flags);
	result = cn_stream_find(CU_STREAM_PER_THREAD, &place);
	return result ? result : cn_stream_submit(&place, &operation, NULL);
}

CUresult host_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	CUlaunchConfig copy;

	if (!config)
		return host_cuLaunchKernelEx(NULL, function, params, extra);
	copy = *config;
	copy.hStream = own(config->hStream);
	return host_cuLaunchKernelEx(&copy, function, params, extra);
}

/* SPDX-License-Identifier: MIT */
/*
 * The twins of functions that take a stream, for programs whose default stream is the thread's own. (Those of copies
 * and fills are in memory_per_thread.c.)
 *
 * A program compiled with --default-stream per-thread calls cuStreamQuery_ptsz where it says cuStreamQuery. All there
 * is to it: NULL means CU_STREAM_PER_THREAD.
 */
#include "driver/common/driver.h"

static CUstream own(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

/* TWIN(symbol, parameters, call): the headers show these symbols only to those who ask for them. */
#define TWIN(symbol, parameters, call)        \
	CN_EXPORT CUresult symbol parameters; \
	CN_EXPORT CUresult symbol parameters  \
	{                                     \
		return call;                  \
	}

TWIN(cuStreamQuery_ptsz, (CUstream stream), cuStreamQuery(own(stream)))
TWIN(cuStreamSynchronize_ptsz, (CUstream stream), cuStreamSynchronize(own(stream)))
TWIN(cuStreamWaitEvent_ptsz, (CUstream stream, CUevent event, unsigned int flags),
     cuStreamWaitEvent(own(stream), event, flags))
TWIN(cuStreamGetCtx_ptsz, (CUstream stream, CUcontext *context), cuStreamGetCtx(own(stream), context))
TWIN(cuStreamGetDevice_ptsz, (CUstream stream, CUdevice *device), cuStreamGetDevice(own(stream), device))
TWIN(cuStreamGetFlags_ptsz, (CUstream stream, unsigned int *flags), cuStreamGetFlags(own(stream), flags))
TWIN(cuStreamGetId_ptsz, (CUstream stream, unsigned long long *id), cuStreamGetId(own(stream), id))
TWIN(cuStreamGetPriority_ptsz, (CUstream stream, int *priority), cuStreamGetPriority(own(stream), priority))
TWIN(cuStreamIsCapturing_ptsz, (CUstream stream, CUstreamCaptureStatus *status),
     cuStreamIsCapturing(own(stream), status))
TWIN(cuStreamGetCaptureInfo_v3_ptsz,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
      const CUgraphEdgeData **edges, size_t *count),
     cuStreamGetCaptureInfo(own(stream), status, id, graph, nodes, edges, count))
TWIN(cuStreamWaitValue32_v2_ptsz, (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags),
     cuStreamWaitValue32(own(stream), address, value, flags))
TWIN(cuStreamWaitValue64_v2_ptsz, (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),
     cuStreamWaitValue64(own(stream), address, value, flags))
TWIN(cuStreamWriteValue32_v2_ptsz, (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags),
     cuStreamWriteValue32(own(stream), address, value, flags))
TWIN(cuStreamWriteValue64_v2_ptsz, (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),
     cuStreamWriteValue64(own(stream), address, value, flags))
TWIN(cuStreamBatchMemOp_v2_ptsz,
     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags),
     cuStreamBatchMemOp(own(stream), count, operations, flags))
TWIN(cuEventRecord_ptsz, (CUevent event, CUstream stream), cuEventRecord(event, own(stream)))
TWIN(cuEventRecordWithFlags_ptsz, (CUevent event, CUstream stream, unsigned int flags),
     cuEventRecordWithFlags(event, own(stream), flags))
TWIN(cuMemAllocAsync_ptsz, (CUdeviceptr * pointer, size_t bytes, CUstream stream),
     cuMemAllocAsync(pointer, bytes, own(stream)))
TWIN(cuMemAllocFromPoolAsync_ptsz, (CUdeviceptr * pointer, size_t bytes, CUmemoryPool pool, CUstream stream),
     cuMemAllocFromPoolAsync(pointer, bytes, pool, own(stream)))
TWIN(cuMemFreeAsync_ptsz, (CUdeviceptr pointer, CUstream stream), cuMemFreeAsync(pointer, own(stream)))
TWIN(cuLaunchKernel_ptsz,
     (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
      unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params,
      void **extra),
     cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, own(stream), params,
		    extra))
TWIN(cuLaunchHostFunc_ptsz, (CUstream stream, CUhostFn function, void *data),
     cuLaunchHostFunc(own(stream), function, data))

CN_EXPORT CUresult cuStreamAddCallback_ptsz(CUstream handle, CUstreamCallback callback, void *data, unsigned int flags);
CN_EXPORT CUresult cuStreamAddCallback_ptsz(CUstream handle, CUstreamCallback callback, void *data, unsigned int flags)
{
	/* The callback is told the stream as the program named it: NULL. */
	struct cn_operation operation = {.kind = CN_CALLBACK, .callback = {callback, NULL, data}};
	struct cn_place place;
	CUresult result;

	if (handle || !callback || flags)
		return cuStreamAddCallback(own(handle), callback, data, flags);
	result = cn_stream_find(CU_STREAM_PER_THREAD, &place);
	return result ? result : cn_stream_submit(&place, &operation, NULL);
}

CN_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params,
					 void **extra);
CN_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	CUlaunchConfig copy;

	if (!config)
		return cuLaunchKernelEx(NULL, function, params, extra);
	copy = *config;
	copy.hStream = own(config->hStream);
	return cuLaunchKernelEx(&copy, function, params, extra);
}

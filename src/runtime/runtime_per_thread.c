/* SPDX-License-Identifier: MIT */
/*
 * The runtime API for programs whose default stream is the thread's own.
 *
 * Such programs are compiled to call these symbols instead. Each is the ordinary call, with the thread's stream in the
 * place of no stream (_ptsz). Those that run on the thread's stream and are told of none (_ptds) are in copy.c.
 */
#include "runtime/runtime.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static cudaStream_t own(cudaStream_t stream)
{
	return stream ? stream : cudaStreamPerThread;
}

/* ---- Entry points ----------------------------------------------------------------------------------------------- */

/* To such a program, the default search finds the driver's calls for the thread's own stream. */
static unsigned long long own_search(unsigned long long flags)
{
	return flags == cudaEnableDefault ? cudaEnablePerThreadDefaultStream : flags;
}

cudaError_t runtime_cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
						 enum cudaDriverEntryPointQueryResult *driverStatus)
{
	return runtime_cudaGetDriverEntryPoint(symbol, funcPtr, own_search(flags), driverStatus);
}

cudaError_t runtime_cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr, unsigned int cudaVersion,
							  unsigned long long flags,
							  enum cudaDriverEntryPointQueryResult *driverStatus)
{
	return runtime_cudaGetDriverEntryPointByVersion(symbol, funcPtr, cudaVersion, own_search(flags), driverStatus);
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

cudaError_t cudaMemPrefetchAsync_ptsz(const void *devPtr, size_t count, struct cudaMemLocation location,
				      unsigned int flags, cudaStream_t stream)
{
	return cudaMemPrefetchAsync(devPtr, count, location, flags, own(stream));
}

cudaError_t cudaMallocAsync_ptsz(void **devPtr, size_t size, cudaStream_t hStream)
{
	return cudaMallocAsync(devPtr, size, own(hStream));
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
	return cudaMallocFromPoolAsync(ptr, size, memPool, own(stream));
}

cudaError_t cudaFreeAsync_ptsz(void *devPtr, cudaStream_t hStream)
{
	return cudaFreeAsync(devPtr, own(hStream));
}

cudaError_t cudaMemcpyAsync_ptsz(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
				 cudaStream_t stream)
{
	return cudaMemcpyAsync(dst, src, count, kind, own(stream));
}

cudaError_t cudaMemcpy2DAsync_ptsz(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
				   size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return cudaMemcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, own(stream));
}

cudaError_t cudaMemsetAsync_ptsz(void *devPtr, int value, size_t count, cudaStream_t stream)
{
	return cudaMemsetAsync(devPtr, value, count, own(stream));
}

cudaError_t cudaMemset2DAsync_ptsz(void *devPtr, size_t pitch, int value, size_t width, size_t height,
				   cudaStream_t stream)
{
	return cudaMemset2DAsync(devPtr, pitch, value, width, height, own(stream));
}

/* ---- Streams and events ----------------------------------------------------------------------------------------- */

cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream)
{
	return cudaStreamQuery(own(stream));
}

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream)
{
	return cudaStreamSynchronize(own(stream));
}

cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	return cudaStreamWaitEvent(own(stream), event, flags);
}

cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
				       unsigned int flags)
{
	return cudaStreamAddCallback(own(stream), callback, userData, flags);
}

cudaError_t runtime_cudaStreamGetDevice_ptsz(cudaStream_t hStream, int *device)
{
	return runtime_cudaStreamGetDevice(own(hStream), device);
}

cudaError_t runtime_cudaStreamGetFlags_ptsz(cudaStream_t hStream, unsigned int *flags)
{
	return runtime_cudaStreamGetFlags(own(hStream), flags);
}

cudaError_t runtime_cudaStreamGetId_ptsz(cudaStream_t hStream, unsigned long long *streamId)
{
	return runtime_cudaStreamGetId(own(hStream), streamId);
}

cudaError_t runtime_cudaStreamGetPriority_ptsz(cudaStream_t hStream, int *priority)
{
	return runtime_cudaStreamGetPriority(own(hStream), priority);
}

cudaError_t runtime_cudaStreamIsCapturing_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
	return runtime_cudaStreamIsCapturing(own(stream), pCaptureStatus);
}

cudaError_t runtime_cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
						  unsigned long long *id_out, cudaGraph_t *graph_out,
						  const cudaGraphNode_t **dependencies_out,
						  const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
	return runtime_cudaStreamGetCaptureInfo(own(stream), captureStatus_out, id_out, graph_out, dependencies_out,
						edgeData_out, numDependencies_out);
}

cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream)
{
	return cudaEventRecord(event, own(stream));
}

cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
	return cudaEventRecordWithFlags(event, own(stream), flags);
}

/* ---- Launches --------------------------------------------------------------------------------------------------- */

cudaError_t cudaLaunchKernel_ptsz(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
				  cudaStream_t stream)
{
	return cudaLaunchKernel(func, gridDim, blockDim, args, sharedMem, own(stream));
}

cudaError_t runtime_cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *func, void **args)
{
	cudaLaunchConfig_t own_config;

	if (!config)
		return runtime_cudaLaunchKernelExC(NULL, func, args);
	own_config = *config;
	own_config.stream = own(config->stream);
	return runtime_cudaLaunchKernelExC(&own_config, func, args);
}

cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
	return cudaLaunchHostFunc(own(stream), fn, userData);
}

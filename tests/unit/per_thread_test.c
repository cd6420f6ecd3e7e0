/* SPDX-License-Identifier: MIT */
/*
 * A program that is compiled for per-thread default streams: every call without a stream is the thread's own stream's,
 * and none the legacy stream's.
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1

#include "driver/host/kernel.h"
#include "harness.h"

#include "cenote/cuda_runtime_api.h"

static struct cn_stream *own, *legacy;

/* The call has put something in the thread's own stream, and nothing in the legacy one. */
#define ASSERT_OWN(call)                                                                                \
	do {                                                                                            \
		uint64_t own_before = own->queue.base.submitted, before = legacy->queue.base.submitted; \
		ASSERT_OK(call);                                                                        \
		ASSERT_LT(own_before, own->queue.base.submitted);                                       \
		ASSERT_EQ(before, legacy->queue.base.submitted);                                        \
	} while (0)

/* The same for copies between contexts, whose legacy streams come before and after them: that counts there. */
#define ASSERT_OWN_BETWEEN(call)                                  \
	do {                                                      \
		uint64_t own_before = own->queue.base.submitted;  \
		ASSERT_OK(call);                                  \
		ASSERT_LT(own_before, own->queue.base.submitted); \
	} while (0)

static void do_nothing(const cenote_thread *at, void **args)
{
	(void)at, (void)args;
}
CENOTE_KERNEL(do_nothing, int);

static void call_nothing(void *data)
{
	(void)data;
}

static void call_back(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
}

static void runtime_call_back(cudaStream_t stream, cudaError_t status, void *data)
{
	(void)stream, (void)status, (void)data;
}

static CUcontext start(void)
{
	struct cn_place place;
	CUcontext context;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_OK(cn_stream_find(CU_STREAM_PER_THREAD, &place));
	own = place.stream;
	ASSERT_OK(cn_stream_find(CU_STREAM_LEGACY, &place));
	legacy = place.stream;
	ASSERT_NE((void *)own, (void *)legacy);
	return context;
}

/* Goal: copies and fills of the driver API. */
TEST(copies_and_fills)
{
	CUcontext context = start();
	CUdeviceptr one, two;
	char host[64] = {0};
	CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .srcHost = host,
			      .srcPitch = 8,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstPitch = 8,
			      .WidthInBytes = 8,
			      .Height = 2};

	ASSERT_OK(cuMemAlloc(&one, sizeof host));
	ASSERT_OK(cuMemAlloc(&two, sizeof host));
	rows.dstDevice = one;
	ASSERT_OWN(cuMemcpy(one, two, 8));
	ASSERT_OWN(cuMemcpyHtoD(one, host, 8));
	ASSERT_OWN(cuMemcpyDtoH(host, one, 8));
	ASSERT_OWN(cuMemcpyDtoD(one, two, 8));
	ASSERT_OWN(cuMemcpy2D(&rows));
	ASSERT_OWN(cuMemcpy2DUnaligned(&rows));
	ASSERT_OWN_BETWEEN(cuMemcpyPeer(one, context, two, context, 8));
	ASSERT_OWN(cuMemcpyAsync(one, two, 8, NULL));
	ASSERT_OWN(cuMemcpyHtoDAsync(one, host, 8, NULL));
	ASSERT_OWN(cuMemcpyDtoHAsync(host, one, 8, NULL));
	ASSERT_OWN(cuMemcpyDtoDAsync(one, two, 8, NULL));
	ASSERT_OWN(cuMemcpy2DAsync(&rows, NULL));
	ASSERT_OWN_BETWEEN(cuMemcpyPeerAsync(one, context, two, context, 8, NULL));
	ASSERT_OWN(cuMemsetD8(one, 1, 4));
	ASSERT_OWN(cuMemsetD16(one, 1, 4));
	ASSERT_OWN(cuMemsetD32(one, 1, 4));
	ASSERT_OWN(cuMemsetD2D8(one, 8, 1, 4, 2));
	ASSERT_OWN(cuMemsetD2D16(one, 8, 1, 2, 2));
	ASSERT_OWN(cuMemsetD2D32(one, 8, 1, 1, 2));
	ASSERT_OWN(cuMemsetD8Async(one, 1, 4, NULL));
	ASSERT_OWN(cuMemsetD16Async(one, 1, 4, NULL));
	ASSERT_OWN(cuMemsetD32Async(one, 1, 4, NULL));
	ASSERT_OWN(cuMemsetD2D8Async(one, 8, 1, 4, 2, NULL));
	ASSERT_OWN(cuMemsetD2D16Async(one, 8, 1, 2, 2, NULL));
	ASSERT_OWN(cuMemsetD2D32Async(one, 8, 1, 1, 2, NULL));
	ASSERT_OK(cuMemFree(one));
	ASSERT_OK(cuMemFree(two));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
}

/* Goal: everything else of the driver API that can be put in a stream. */
TEST(operations)
{
	CUdeviceptr memory;
	CUfunction function;
	int number = 0;
	void *arguments[] = {&number};
	CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};

	start();
	ASSERT_OK(cuMemAlloc(&memory, 8));
	ASSERT_OK(cuMemsetD8(memory, 0, 8));
	ASSERT_OK(cn_function_of_address((const void *)(uintptr_t)do_nothing, &function));
	ASSERT_OWN(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	ASSERT_OWN(cuLaunchKernelEx(&config, function, arguments, NULL));
	ASSERT_OWN(cuLaunchHostFunc(NULL, call_nothing, NULL));
	ASSERT_OWN(cuStreamAddCallback(NULL, call_back, NULL, 0));
	ASSERT_OWN(cuStreamWriteValue32(NULL, memory, 7, 0));
	ASSERT_OWN(cuStreamWaitValue32(NULL, memory, 7, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_OWN(cuStreamWriteValue64(NULL, memory, 8, 0));
	ASSERT_OWN(cuStreamWaitValue64(NULL, memory, 8, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT(cn_queue_idle(&own->queue.base));
	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
}

/* Goal: what a stream without a name says of itself is said of the thread's own. */
TEST(properties_and_waits)
{
	CUcontext context = start(), found = NULL;
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	unsigned long long id = 0;
	unsigned int flags = 77, word = 0;
	int priority = 77;
	CUdevice device = 77;
	CUdeviceptr memory;
	CUstream other;
	CUevent event;

	ASSERT_OK(cuStreamGetId(NULL, &id));
	ASSERT_EQ(own->id, id);
	ASSERT_OK(cuStreamGetFlags(NULL, &flags));
	ASSERT_EQ(own->flags, flags);
	ASSERT_OK(cuStreamGetPriority(NULL, &priority));
	ASSERT_EQ(own->priority, priority);
	ASSERT_OK(cuStreamGetCtx(NULL, &found));
	ASSERT_EQ((void *)context, (void *)found);
	ASSERT_OK(cuStreamGetDevice(NULL, &device));
	ASSERT_EQ(0, device);
	ASSERT_OK(cuStreamIsCapturing(NULL, &status));
	ASSERT_EQ(CU_STREAM_CAPTURE_STATUS_NONE, status);
	ASSERT_OK(cuStreamGetCaptureInfo(NULL, &status, NULL, NULL, NULL, NULL, NULL));

	/* A stream that waits for a word: an event behind it, then the thread's own stream behind that. */
	ASSERT_OK(cuMemHostAlloc((void **)&memory, sizeof word, 0));
	ASSERT_OK(cuMemsetD32(memory, 0, 1));
	ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuStreamWaitValue32(other, memory, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_OK(cuEventRecord(event, other));
	ASSERT_OWN(cuStreamWaitEvent(NULL, event, 0));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
	ASSERT_OK(cuEventRecord(event, NULL));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	ASSERT_OK(cuEventRecordWithFlags(event, NULL, 0));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	__atomic_store_n((unsigned int *)(uintptr_t)memory, 1, __ATOMIC_RELEASE);
	ASSERT_OK(cuEventSynchronize(event));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cuStreamQuery(NULL));
	ASSERT_OK(cuEventDestroy(event));
	ASSERT_OK(cuStreamDestroy(other));
	ASSERT_OK(cuMemFreeHost((void *)(uintptr_t)memory));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
}

/* Goal: the same for the runtime API. */
TEST(runtime_calls)
{
	dim3 one = {1, 1, 1};
	int number = 0;
	void *arguments[] = {&number};
	cudaLaunchConfig_t config = {.gridDim = one, .blockDim = one};
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
	struct cudaMemLocation place = {cudaMemLocationTypeDevice, 0};
	unsigned long long id = 0;
	unsigned int flags = 77;
	int priority = 77, device = 77;
	cudaEvent_t event;
	void *memory, *managed;
	char host[64] = {0};

	start();
	ASSERT_OK(cudaMalloc(&memory, sizeof host));
	ASSERT_OK(cudaMallocManaged(&managed, sizeof host, cudaMemAttachGlobal));
	ASSERT_OWN(cudaMemcpy(memory, host, 8, cudaMemcpyDefault));
	ASSERT_OWN(cudaMemcpyAsync(memory, host, 8, cudaMemcpyHostToDevice, NULL));
	ASSERT_OWN(cudaMemcpy2D(memory, 8, host, 8, 8, 2, cudaMemcpyHostToDevice));
	ASSERT_OWN(cudaMemcpy2DAsync(memory, 8, host, 8, 8, 2, cudaMemcpyHostToDevice, NULL));
	ASSERT_OWN(cudaMemset(memory, 1, 8));
	ASSERT_OWN(cudaMemsetAsync(memory, 1, 8, NULL));
	ASSERT_OWN(cudaMemset2D(memory, 8, 1, 4, 2));
	ASSERT_OWN(cudaMemset2DAsync(memory, 8, 1, 4, 2, NULL));
	ASSERT_OWN(cudaLaunchKernel((const void *)do_nothing, one, one, arguments, 0, NULL));
	ASSERT_OWN(cudaLaunchKernelExC(&config, (const void *)do_nothing, arguments));
	ASSERT_OWN(cudaLaunchHostFunc(NULL, call_nothing, NULL));
	ASSERT_OWN(cudaStreamAddCallback(NULL, runtime_call_back, NULL, 0));
	ASSERT_OK(cudaMemPrefetchAsync(managed, sizeof host, place, 0, NULL));
	ASSERT_OK(cudaStreamSynchronize(NULL));
	ASSERT_OK(cudaStreamQuery(NULL));
	ASSERT_OK(cudaStreamGetId(NULL, &id));
	ASSERT_EQ(own->id, id);
	ASSERT_OK(cudaStreamGetFlags(NULL, &flags));
	ASSERT_EQ(own->flags, flags);
	ASSERT_OK(cudaStreamGetPriority(NULL, &priority));
	ASSERT_EQ(own->priority, priority);
	ASSERT_OK(cudaStreamGetDevice(NULL, &device));
	ASSERT_EQ(0, device);
	ASSERT_OK(cudaStreamIsCapturing(NULL, &status));
	ASSERT_EQ(cudaStreamCaptureStatusNone, status);
	ASSERT_OK(cudaStreamGetCaptureInfo(NULL, &status, NULL, NULL, NULL, NULL, NULL));
	ASSERT_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	ASSERT_OK(cudaEventRecord(event, NULL));
	ASSERT_OK(cudaEventRecordWithFlags(event, NULL, 0));
	ASSERT_OK(cudaStreamWaitEvent(NULL, event, 0));
	ASSERT_OK(cudaEventDestroy(event));
	ASSERT_OK(cudaFree(managed));
	ASSERT_OK(cudaFree(memory));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
}

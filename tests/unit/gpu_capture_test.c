/* SPDX-License-Identifier: MIT */
/*
 * Captures on a GPU: whose memory is a captured stream's, and how long a capture is counted.
 *
 * The tests' driver has no captures, so a few functions in its place say that a stream is captured.
 */
#include "gpu_two_streams.h"

#include <pthread.h>

static struct {
	CUstream stream; /* that is captured; NULL: none */
	bool stays;      /* whatever it is told */
	unsigned alloc_count, free_count, from_pool_count;
	CUmemoryPool pool; /* that the driver was told to allocate from */
} captured;

static CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
	if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	captured.stream = stream;
	return CUDA_SUCCESS;
}

static CUresult end_capture(CUstream stream, CUgraph *ret_graph)
{
	bool ended = stream == captured.stream && !captured.stays;

	if (ended)
		captured.stream = NULL;
	*ret_graph = NULL;
	return ended ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_ILLEGAL_STATE;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *ret_status)
{
	*ret_status = stream == captured.stream ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static CUresult alloc_async(CUdeviceptr *ret_pointer, size_t bytes, CUstream stream)
{
	ASSERT_EQ(captured.stream, stream);
	captured.alloc_count++;
	*ret_pointer = bytes;
	return CUDA_SUCCESS;
}

static CUresult alloc_from_pool(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool from, CUstream stream)
{
	captured.from_pool_count++;
	captured.pool = from;
	return alloc_async(ret_pointer, bytes, stream);
}

static CUresult free_async(CUdeviceptr pointer, CUstream stream)
{
	(void)pointer;
	ASSERT_EQ(captured.stream, stream);
	captured.free_count++;
	return CUDA_SUCCESS;
}

static void replace_captures(void)
{
	replace("cuStreamBeginCapture_v2", (void *)begin_capture);
	replace("cuStreamEndCapture", (void *)end_capture);
	replace("cuMemAllocAsync", (void *)alloc_async);
	replace("cuMemAllocFromPoolAsync", (void *)alloc_from_pool);
	replace("cuMemFreeAsync", (void *)free_async);
	cn_cuda.cuStreamIsCapturing = is_capturing;
}

static CUresult begin(CUstream stream, CUstreamCaptureMode mode)
{
	return ((CUresult(*)(CUstream, CUstreamCaptureMode))call_of("cuStreamBeginCapture_v2")->function)(stream, mode);
}

static CUresult end(CUstream stream)
{
	CUgraph graph;

	return ((CUresult(*)(CUstream, CUgraph *))call_of("cuStreamEndCapture")->function)(stream, &graph);
}

/* Goal: what a captured stream allocates and frees is the driver's; all other streams go on with ours. */
TEST(a_captured_streams_memory_is_the_drivers)
{
	CUdeviceptr at = take(pool, CHUNK, first), inside = 0;
	CUmemoryPool drivers;

	ASSERT_OK(DRIVER(cuDeviceGetDefaultMemPool)(&drivers, 0));
	leaks_start_here(); /* it stays, like all default pools */
	replace_captures();
	ASSERT_OK(begin(first, CU_STREAM_CAPTURE_MODE_RELAXED));
	ASSERT_OK(cuMemAllocAsync(&inside, 4096, first));
	ASSERT_EQ(4096, inside);
	ASSERT_OK(cuMemAllocFromPoolAsync(&inside, 512, pool, first));
	ASSERT_EQ(1, captured.from_pool_count);
	ASSERT_EQ(drivers, captured.pool); /* it does not know ours */
	ASSERT_OK(cuMemFreeAsync(inside, first));
	ASSERT_OK(cuMemFreeAsync(at, first)); /* not a graph's: the driver is who says so */
	ASSERT_EQ(2, captured.alloc_count);
	ASSERT_EQ(2, captured.free_count);
	ASSERT_OK(cuMemFreeAsync(at, second));
	ASSERT_EQ(at, take(pool, CHUNK, second));
	ASSERT_OK(cuMemFreeAsync(at, second));
	ASSERT_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(first));
	ASSERT(!cn_cuda_is_capturing(first));
	ASSERT_EQ(at, take(pool, CHUNK, second));
	ASSERT_OK(cuMemFreeAsync(at, second));
	end_streams();
}

static CUresult is_capturing_alive(CUstream stream, CUstreamCaptureStatus *ret_status)
{
	ASSERT_NE(second, stream);
	return is_capturing(stream, ret_status);
}

/* Goal: while a stream is captured, the driver is not asked about one that has gone: it would follow the handle. */
TEST(a_dead_stream_is_not_asked_about)
{
	CUdeviceptr at = take(pool, CHUNK, first), none;

	replace_captures();
	ASSERT_OK(begin(first, CU_STREAM_CAPTURE_MODE_RELAXED));
	ASSERT_OK(cuStreamDestroy(second));
	cn_cuda.cuStreamIsCapturing = is_capturing_alive;
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemAllocAsync(&none, 4096, second));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemAllocFromPoolAsync(&none, 4096, pool, second));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemFreeAsync(at, second));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemFreeAsync(0, second));
	ASSERT_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(first));
	ASSERT_OK(cuMemFreeAsync(at, first));
	second = make_stream();
	end_streams();
}

static CUstreamCaptureStatus asked;

static CUresult count_questions(CUstream stream, CUstreamCaptureStatus *ret_status)
{
	asked++;
	return is_capturing(stream, ret_status);
}

/* Goal: a capture is counted while it lasts, whatever the calls around it answer. */
TEST(captures_are_counted)
{
	replace_captures();
	cn_cuda.cuStreamIsCapturing = count_questions;
	ASSERT(!cn_cuda_is_capturing(first));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, begin(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ASSERT(!cn_cuda_is_capturing(first));
	ASSERT_EQ(0, asked); /* nobody has to be asked while nothing is captured */
	ASSERT_OK(begin(first, CU_STREAM_CAPTURE_MODE_RELAXED));
	ASSERT(cn_cuda_is_capturing(first));
	ASSERT(!cn_cuda_is_capturing(second));
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_STATE, end(second));
	ASSERT(cn_cuda_is_capturing(first));
	captured.stays = true;
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_STATE, end(first)); /* another thread's capture, say */
	ASSERT(cn_cuda_is_capturing(first));
	captured.stays = false;
	ASSERT_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(first));
	asked = 0;
	ASSERT(!cn_cuda_is_capturing(first));
	ASSERT_EQ(0, asked);
	end_streams();
}

/* Goal: an event that is recorded in a captured stream orders nothing outside. */
TEST(a_captured_record_orders_nothing)
{
	CUevent event = make_event();

	free_behind_gate();
	replace_captures();
	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(begin(first, CU_STREAM_CAPTURE_MODE_RELAXED));
	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(cuStreamWaitEvent(second, event, 0));
	ASSERT_EQ(0, try_all(pool, second));
	ASSERT_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(first));
	ASSERT_OK(cuEventDestroy(event));
	end_streams();
}

/* Goal: a capture is over when its stream is destroyed, and not when another one is; the driver says nothing of it. */
TEST(a_capture_ends_with_its_stream)
{
	CUstream other = make_stream(), origin = make_stream();

	replace_captures();
	ASSERT_OK(begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
	ASSERT_OK(cuStreamDestroy(other));
	ASSERT_EQ(1, atomic_load(&cn_cuda_captures));
	ASSERT_OK(cuStreamDestroy(origin));
	ASSERT_EQ(0, atomic_load(&cn_cuda_captures));
	end_streams();
}

/* Goal: so it is with its context, which ends by any call, and not with another or by a call that is refused. */
TEST(a_capture_ends_with_its_context)
{
	CUcontext contexts[2];
	CUstream origin;

	replace_captures();
	ASSERT_OK(cuCtxCreate(&contexts[0], NULL, 0, 0));
	ASSERT_OK(cuCtxCreate(&contexts[1], NULL, 0, 0));
	ASSERT_OK(begin(make_stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
	ASSERT_OK(cuCtxDestroy(contexts[0]));
	ASSERT_EQ(1, atomic_load(&cn_cuda_captures));
	ASSERT_OK(cuCtxDestroy(contexts[1]));
	ASSERT_EQ(0, atomic_load(&cn_cuda_captures));

	ASSERT_OK(cuCtxSetCurrent(primary));
	end_streams();
	for (unsigned i = 0; i < 2; i++) {
		origin = make_stream();
		ASSERT_OK(begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
		ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(primary));
		ASSERT_OK(cuDevicePrimaryCtxRetain(&primary, 0));
		ASSERT_OK(cuDevicePrimaryCtxRelease(0)); /* not the last */
		ASSERT_EQ(1, atomic_load(&cn_cuda_captures));
		if (i)
			ASSERT_OK(cuDevicePrimaryCtxReset(0));
		ASSERT_OK(cuDevicePrimaryCtxRelease(0));
		ASSERT_EQ(0, atomic_load(&cn_cuda_captures));
		context_current();
	}
}

static void *begin_own(void *unused)
{
	(void)unused;
	ASSERT_OK(cuCtxSetCurrent(primary));
	ASSERT_OK(begin(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
	return NULL;
}

/* Goal: and that of a thread's own stream with the thread, and no other thread's. */
TEST(a_capture_ends_with_its_thread)
{
	pthread_t thread;

	replace_captures();
	ASSERT_OK(begin(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
	ASSERT_EQ(0, pthread_create(&thread, NULL, begin_own, NULL));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(1, atomic_load(&cn_cuda_captures));
	ASSERT_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(CU_STREAM_PER_THREAD));
	ASSERT_EQ(0, atomic_load(&cn_cuda_captures));
	end_streams();
}

static CUresult begin_capture_v1(CUstream stream)
{
	return begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult begin_capture_to_graph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
				       const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
	return graph || nodes || edges || count ? CUDA_ERROR_INVALID_VALUE : begin_capture(stream, mode);
}

/* The same of a thread's own stream: NULL to the forms that are called so. */
static CUresult begin_as(const char *symbol, CUstream stream, CUstreamCaptureMode mode)
{
	void *function = call_of(symbol)->function;

	if (strstr(symbol, "ToGraph"))
		return ((__typeof__(&begin_capture_to_graph))function)(stream, NULL, NULL, NULL, 0, mode);
	return strstr(symbol, "_v2") ? ((__typeof__(&begin_capture))function)(stream, mode)
				     : ((__typeof__(&begin_capture_v1))function)(stream);
}

/* Goal: a capture is counted by whichever form of the call it began, and whose stream it is is known. */
TEST(all_forms_of_beginning_are_counted)
{
	static const char *const symbols[] = {
		"cuStreamBeginCapture",         "cuStreamBeginCapture_ptsz",   "cuStreamBeginCapture_v2",
		"cuStreamBeginCapture_v2_ptsz", "cuStreamBeginCaptureToGraph", "cuStreamBeginCaptureToGraph_ptsz",
	};
	CUgraph graph;

	replace_captures();
	replace("cuStreamBeginCapture", (void *)begin_capture_v1);
	replace("cuStreamBeginCaptureToGraph", (void *)begin_capture_to_graph);
	for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
		const char *end_symbol = i % 2 ? "cuStreamEndCapture_ptsz" : "cuStreamEndCapture";
		CUstream stream = i % 2 ? NULL : first;
		ASSERT_OK(begin_as(symbols[i], stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		ASSERT_EQ(i % 2 ? CU_STREAM_PER_THREAD : first, captured.stream);
		ASSERT_EQ(1, atomic_load(&cn_cuda_captures));
		ASSERT_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
			     ((__typeof__(&end_capture))call_of(end_symbol)->function)(stream, &graph));
		ASSERT_EQ(0, atomic_load(&cn_cuda_captures));
		if (i > 1) /* the first form has no mode */
			ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
				     begin_as(symbols[i], stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
		ASSERT_EQ(0, atomic_load(&cn_cuda_captures));
	}
	end_streams();
}

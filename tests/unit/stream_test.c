/* SPDX-License-Identifier: MIT */
/*
 * Streams: what they cost, what they promise, and what a wrong handle gets.
 *
 * stream_order_test.c tests the order of what runs in them.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/table.h"
#include "cenote/cenote.h"
#include "gate.h"

SETUP
{
	context_current();
}

/* ---- Load ------------------------------------------------------------------------------------------------------- */

static void CUDA_CB count_call(void *counter)
{
	atomic_fetch_add((_Atomic unsigned *)counter, 1);
}

enum { STREAMS = 1000 };

/* Goal: a blocked stream costs no thread, whatever it waits for. */
TEST(a_thousand_blocked_streams_cost_no_threads)
{
	static CUstream streams[STREAMS];
	_Atomic unsigned calls = 0;
	struct gate gate = gate_make();
	CUstream first;
	CUevent event;

	ASSERT_OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuEventCreate(&event, 0));
	gate_close(gate, first);
	ASSERT_OK(cuEventRecord(event, first));
	for (unsigned i = 0; i < STREAMS; i++) {
		ASSERT_OK(cuStreamCreate(&streams[i], i & 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
		if (i % 3)
			gate_close(gate, streams[i]);
		else
			ASSERT_OK(cuStreamWaitEvent(streams[i], event, 0));
		ASSERT_OK(cuLaunchHostFunc(streams[i], count_call, &calls));
	}
	ASSERT_LE(test_file_count("/proc/self/task"), 8);
	ASSERT_EQ(0, calls);
	gate_open(gate);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(STREAMS, calls);
	for (unsigned i = 0; i < STREAMS; i++)
		ASSERT_OK(cuStreamDestroy(streams[i]));
	ASSERT_OK(cuStreamDestroy(first));
	ASSERT_OK(cuEventDestroy(event));
	gate_free(gate);
}

struct pipe_wait {
	int ends[2];
	_Atomic int got;
};

static void CUDA_CB read_pipe(void *data)
{
	struct pipe_wait *wait = data;
	char byte;

	ASSERT_EQ(1, read(wait->ends[0], &byte, 1));
	atomic_store(&wait->got, 1);
}

/* Goal: a host function that blocks holds up its own stream alone, even when what it waits for comes from others. */
TEST(host_functions_may_wait_for_each_other)
{
	enum { COUNT = 50 };
	static struct pipe_wait waits[COUNT];
	CUstream streams[COUNT], opener;
	_Atomic unsigned calls = 0;

	ASSERT_OK(cuStreamCreate(&opener, 0));
	for (unsigned i = 0; i < COUNT; i++) {
		ASSERT_SYS(pipe(waits[i].ends));
		ASSERT_OK(cuStreamCreate(&streams[i], 0));
		ASSERT_OK(cuLaunchHostFunc(streams[i], read_pipe, &waits[i]));
	}
	ASSERT_OK(cuLaunchHostFunc(opener, count_call, &calls));
	ASSERT_OK(cuStreamSynchronize(opener));
	ASSERT_EQ(1, calls);
	for (unsigned i = COUNT; i-- > 0;) {
		ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(streams[i]));
		ASSERT_EQ(1, write(waits[i].ends[1], "x", 1));
		ASSERT_OK(cuStreamSynchronize(streams[i]));
		ASSERT_EQ(1, waits[i].got);
		ASSERT_OK(cuStreamQuery(streams[i]));
	}
	for (unsigned i = 0; i < COUNT; i++) {
		ASSERT_OK(cuStreamDestroy(streams[i]));
		close(waits[i].ends[0]);
		close(waits[i].ends[1]);
	}
	ASSERT_OK(cuStreamDestroy(opener));
}

/* Goal: what a destroyed stream was given still happens, in order, and the legacy stream still waits for it. */
TEST(a_destroyed_stream_finishes_its_work)
{
	struct gate gate = gate_make();
	_Atomic unsigned calls = 0;
	CUstream stream;
	CUevent event;
	void *memory;

	ASSERT_OK(cuMemHostAlloc(&memory, 4096, 0));
	memset(memory, 0, 4096);
	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_OK(cuEventCreate(&event, 0));
	gate_close(gate, stream);
	ASSERT_OK(cuMemsetD8Async((CUdeviceptr)(uintptr_t)memory, 0x5a, 4096, stream));
	ASSERT_OK(cuLaunchHostFunc(stream, count_call, &calls));
	ASSERT_OK(cuEventRecord(event, stream));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
	ASSERT_EQ(0, calls);
	gate_open(gate);
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cuEventQuery(event));
	ASSERT_EQ(1, calls);
	ASSERT_EQ(0x5a, ((unsigned char *)memory)[4095]);
	ASSERT_OK(cuEventDestroy(event));
	ASSERT_OK(cuMemFreeHost(memory));
	gate_free(gate);
}

/* Goal: destroyed streams with work left do not add up: their records are reused when they have come to rest. */
TEST(records_of_destroyed_streams_are_used_again)
{
	unsigned long long id, last_id = 0;
	CUstream stream, old = NULL;
	static CUstream dead[10000];

	for (unsigned i = 0; i < 10000; i++) {
		ASSERT_OK(cuStreamCreate(&stream, i & 1));
		ASSERT_OK(cuStreamGetId(stream, &id));
		ASSERT_GT(id, last_id);
		last_id = id;
		ASSERT(stream != old);
		dead[i] = old = stream;
		ASSERT_OK(cuStreamDestroy(stream));
		ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(stream));
	}
	ASSERT_OK(cuStreamCreate(&stream, 0));
	for (unsigned i = 0; i < 10000; i++)
		ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(dead[i]));
	/* Ten thousand lives have needed a slot or two. */
	ASSERT_LT(cn_table_index((uintptr_t)stream), 8);
	ASSERT_OK(cuStreamDestroy(stream));
}

/* ---- Callbacks -------------------------------------------------------------------------------------------------- */

struct call_log {
	unsigned order[8];
	unsigned count;
	CUstream stream;
	CUresult status;
};
static struct call_log call_log;

static void CUDA_CB log_callback(CUstream stream, CUresult status, void *data)
{
	call_log.stream = stream;
	call_log.status = status;
	call_log.order[call_log.count++] = (unsigned)(uintptr_t)data;
}

static void CUDA_CB log_host(void *data)
{
	call_log.order[call_log.count++] = (unsigned)(uintptr_t)data;
}

TEST(callbacks_come_in_order_with_their_stream_and_status)
{
	static const unsigned order[] = {1, 2, 3, 4};
	struct gate gate = gate_make();
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, 0));
	gate_close(gate, stream);
	ASSERT_OK(cuStreamAddCallback(stream, log_callback, (void *)1, 0));
	ASSERT_OK(cuLaunchHostFunc(stream, log_host, (void *)2));
	ASSERT_OK(cuLaunchHostFunc(stream, log_host, (void *)3));
	ASSERT_OK(cuStreamAddCallback(stream, log_callback, (void *)4, 0));
	ASSERT_EQ(0, call_log.count);
	gate_open(gate);
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_EQ(4, call_log.count);
	ASSERT_MEMEQ(order, call_log.order, sizeof order);
	ASSERT_EQ(stream, call_log.stream);
	ASSERT_OK(call_log.status);
	ASSERT_OK(cuStreamAddCallback(CU_STREAM_PER_THREAD, log_callback, (void *)5, 0));
	ASSERT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	ASSERT_EQ(CU_STREAM_PER_THREAD, call_log.stream);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(stream, NULL, NULL, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(stream, log_callback, NULL, 1));
	ASSERT_OK(cuStreamDestroy(stream));
	gate_free(gate);
}

struct inside {
	CUstream stream;
	CUresult alloc, synchronize_all, create, wait_for_itself, query_null;
	char sentence[256];
};

static void CUDA_CB call_cuda(void *data)
{
	struct inside *inside = data;
	CUdeviceptr memory;
	CUstream stream;

	inside->alloc = cuMemAlloc(&memory, 16);
	snprintf(inside->sentence, sizeof inside->sentence, "%s", cenote_last_error());
	inside->synchronize_all = cuCtxSynchronize();
	inside->create = cuStreamCreate(&stream, 0);
	inside->query_null = cuStreamQuery(NULL);
	inside->wait_for_itself = cuStreamSynchronize(inside->stream);
}

/* Goal: CUDA calls inside a host function are refused, with a reason, and waiting for its own stream does not hang. */
TEST(a_host_function_may_not_call_cuda)
{
	struct inside inside = {0};

	ASSERT_OK(cuStreamCreate(&inside.stream, 0));
	ASSERT_OK(cuLaunchHostFunc(inside.stream, call_cuda, &inside));
	ASSERT_OK(cuStreamSynchronize(inside.stream));
	ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, inside.alloc);
	ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, inside.synchronize_all);
	ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, inside.create);
	ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, inside.query_null);
	ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, inside.wait_for_itself);
	ASSERT_CONTAINS("host function", inside.sentence);
	ASSERT_OK(cuStreamDestroy(inside.stream));
}

/* ---- Wrong handles ---------------------------------------------------------------------------------------------- */

static CUdeviceptr wrong_memory;
static CUevent wrong_event;

static void CUDA_CB ignore(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	FAIL("called for a stream that is none");
}

static void CUDA_CB ignore_too(void *data)
{
	ignore(NULL, CUDA_SUCCESS, data);
}

static void expect_refused(CUstream stream, CUresult code)
{
	CUstreamCaptureStatus capture;
	unsigned long long id;
	CUcontext context;
	unsigned flags;
	CUdevice device;
	int priority;

	ASSERT_ERROR(code, cuStreamQuery(stream));
	ASSERT_ERROR(code, cuStreamSynchronize(stream));
	ASSERT_ERROR(code, cuStreamGetCtx(stream, &context));
	ASSERT_ERROR(code, cuStreamGetDevice(stream, &device));
	ASSERT_ERROR(code, cuStreamGetFlags(stream, &flags));
	ASSERT_ERROR(code, cuStreamGetId(stream, &id));
	ASSERT_ERROR(code, cuStreamGetPriority(stream, &priority));
	ASSERT_ERROR(code, cuStreamIsCapturing(stream, &capture));
	ASSERT_ERROR(code, cuStreamWaitEvent(stream, wrong_event, 0));
	ASSERT_ERROR(code, cuEventRecord(wrong_event, stream));
	ASSERT_ERROR(code, cuStreamAddCallback(stream, ignore, NULL, 0));
	ASSERT_ERROR(code, cuLaunchHostFunc(stream, ignore_too, NULL));
	ASSERT_ERROR(code, cuStreamWriteValue32(stream, wrong_memory, 1, 0));
	ASSERT_ERROR(code, cuStreamWaitValue32(stream, wrong_memory, 1, 0));
	ASSERT_ERROR(code, cuMemsetD8Async(wrong_memory, 1, 16, stream));
	ASSERT_ERROR(code, cuMemcpyAsync(wrong_memory, wrong_memory + 64, 16, stream));
	ASSERT_ERROR(code, cuStreamDestroy(stream));
	ASSERT_NE('\0', cenote_last_error()[0]);
}

TEST(what_is_no_stream_is_refused)
{
	struct test_random random = test_random_start(0);
	static char zeros[4096];
	CUstream living, dead;
	CUevent event;
	CUcontext context;

	ASSERT_OK(cuMemAlloc(&wrong_memory, 4096));
	ASSERT_OK(cuEventCreate(&wrong_event, 0));
	ASSERT_OK(cuEventCreate(&event, 0));
	ASSERT_OK(cuStreamCreate(&living, 0));
	ASSERT_OK(cuStreamCreate(&dead, 0));
	ASSERT_OK(cuStreamDestroy(dead));
	ASSERT_OK(cuCtxGetCurrent(&context));

	expect_refused(dead, CUDA_ERROR_INVALID_HANDLE);
	expect_refused((CUstream)event, CUDA_ERROR_INVALID_HANDLE);
	expect_refused((CUstream)context, CUDA_ERROR_INVALID_HANDLE);
	expect_refused((CUstream)(uintptr_t)zeros, CUDA_ERROR_INVALID_HANDLE);
	expect_refused((CUstream)(uintptr_t)0x1234, CUDA_ERROR_INVALID_HANDLE);
	expect_refused((CUstream)UINTPTR_MAX, CUDA_ERROR_INVALID_HANDLE);
	expect_refused((CUstream)((uintptr_t)living ^ 1u << 24), CUDA_ERROR_INVALID_HANDLE);
	for (unsigned i = 0; i < 100; i++)
		expect_refused((CUstream)(uintptr_t)(test_random_next(&random) | 1ull << 40),
			       CUDA_ERROR_INVALID_HANDLE);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(CU_STREAM_LEGACY));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(CU_STREAM_PER_THREAD));
	ASSERT_OK(cuStreamQuery(living));
	ASSERT_OK(cuStreamDestroy(living));
	ASSERT_OK(cuEventDestroy(event));
	ASSERT_OK(cuEventDestroy(wrong_event));
	ASSERT_OK(cuMemFree(wrong_memory));
}

TEST(outputs_that_are_nowhere_are_refused)
{
	CUstream stream;

	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(NULL, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 2));
	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamGetCtx(stream, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamGetDevice(stream, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamGetFlags(stream, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamGetId(stream, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamGetPriority(stream, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamIsCapturing(stream, NULL));
	ASSERT_OK(cuStreamDestroy(stream));
}

/* Goal: without a context the default streams are refused, and a stream's own handle is enough. */
TEST(without_a_context_default_streams_are_refused)
{
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_OK(cuCtxSetCurrent(NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuStreamQuery(NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuStreamQuery(CU_STREAM_LEGACY));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuStreamQuery(CU_STREAM_PER_THREAD));
	ASSERT_OK(cuStreamQuery(stream));
	ASSERT_OK(cuStreamDestroy(stream));
}

/* ---- Threads ---------------------------------------------------------------------------------------------------- */

static void *use_per_thread(void *counter)
{
	CUcontext context;

	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	for (unsigned i = 0; i < 3; i++)
		ASSERT_OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, count_call, counter));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	return NULL;
}

/* Goal: a thread's default stream ends with the thread, its work does not. */
TEST(default_streams_of_threads_that_end)
{
	enum { ROUNDS = 200, AT_ONCE = 4 };
	_Atomic unsigned calls = 0;
	CUstream stream;

	for (unsigned i = 0; i < ROUNDS / HARNESS_SLOWDOWN; i++) {
		pthread_t threads[AT_ONCE];
		for (unsigned j = 0; j < AT_ONCE; j++)
			ASSERT_EQ(0, pthread_create(&threads[j], NULL, use_per_thread, &calls));
		for (unsigned j = 0; j < AT_ONCE; j++)
			pthread_join(threads[j], NULL);
		ASSERT_OK(cuCtxSynchronize());
		ASSERT_EQ(3 * AT_ONCE * (i + 1), calls);
	}
	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_LT(cn_table_index((uintptr_t)stream), 4 * AT_ONCE); /* their records were reused */
	ASSERT_OK(cuStreamDestroy(stream));
}

enum { HAMMERS = 4, BOARD = 16 };
static _Atomic uintptr_t board[BOARD]; /* streams that all threads use, and that any of them destroys at any time */
static _Atomic unsigned board_calls, board_wanted;

/* `memory` is for this call alone, `own` for the thread's default stream. */
static void hammer_once(struct test_random *random, CUdeviceptr memory, CUdeviceptr own, CUevent event)
{
	_Atomic uintptr_t *place = &board[test_random_below(random, BOARD)];
	CUstream stream = (CUstream)atomic_load(place), fresh;
	CUresult result = CUDA_SUCCESS;

	switch (test_random_below(random, 10)) {
	case 0:
		ASSERT_OK(cuStreamCreate(&fresh, (unsigned)test_random_below(random, 2)));
		stream = (CUstream)atomic_exchange(place, (uintptr_t)fresh);
		if (stream)
			ASSERT_OK(cuStreamDestroy(stream));
		break;
	case 1: result = cuEventRecord(event, stream); break;
	case 2: result = cuStreamWaitEvent(stream, event, 0); break;
	case 3: result = cuMemsetD8Async(memory, 1, 64, stream); break;
	case 4:
		result = cuLaunchHostFunc(stream, count_call, &board_calls);
		if (!result)
			atomic_fetch_add(&board_wanted, 1);
		break;
	case 5: result = cuStreamSynchronize(stream); break;
	case 6: result = cuEventRecord(event, NULL); break;
	case 7: result = cuStreamWriteValue32(stream, memory, 1, 0); break;
	case 8: result = cuMemsetD8Async(own, 1, 100000, CU_STREAM_PER_THREAD); break;
	default: result = cuStreamQuery(stream); break;
	}
	if (result && result != CUDA_ERROR_INVALID_HANDLE && result != CUDA_ERROR_NOT_READY)
		ASSERT_OK(result);
}

static void *hammer(void *number)
{
	struct test_random random = test_random_start((uintptr_t)number);
	CUdeviceptr memory, own;
	CUcontext context;
	CUevent event;

	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_OK(cuMemAlloc(&memory, 10000 * 64));
	ASSERT_OK(cuMemAlloc(&own, 100000));
	ASSERT_OK(cuEventCreate(&event, (uintptr_t)number & 1 ? CU_EVENT_DISABLE_TIMING : 0));
	for (unsigned i = 0; i < 10000 / HARNESS_SLOWDOWN; i++)
		hammer_once(&random, memory + 64 * i, own, event);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuEventDestroy(event));
	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuMemFree(own));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	return NULL;
}

/* Goal: streams may be destroyed while other threads use them: each call works or is refused, and nothing is lost. */
TEST(threads_use_and_destroy_the_same_streams, .timeout_ms = 60000)
{
	pthread_t threads[HAMMERS];

	for (uintptr_t i = 0; i < HAMMERS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, hammer, (void *)i));
	for (unsigned i = 0; i < HAMMERS; i++)
		pthread_join(threads[i], NULL);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(board_wanted, board_calls);
	ASSERT_NE(0, board_calls);
	for (unsigned i = 0; i < BOARD; i++)
		if (board[i])
			ASSERT_OK(cuStreamDestroy((CUstream)board[i]));
}

/* SPDX-License-Identifier: MIT */
/*
 * Chapter "stream": making and asking streams, waiting, values in memory, host functions, the two default streams.
 */
#include "ask.h"

CHAPTER(stream);

GROUP(create)
{
	CUstream stream = UNTOUCHED(CUstream), other = NULL;
	unsigned int flags = UNTOUCHED_INT;

	ask_context();
	ASK("create_null", cuStreamCreate(NULL, 0));
	ASK_VALUE("create_flags_2", cuStreamCreate(&stream, 2), "%s", OUT(stream));
	ASK_VALUE("create_flags_4", cuStreamCreate(&stream, 4), "%s", OUT(stream));
	ASK_VALUE("create_flags_all", cuStreamCreate(&stream, ~0u), "%s", OUT(stream));
	ASK_VALUE("create", cuStreamCreate(&stream, CU_STREAM_DEFAULT), "%s", OUT(stream));
	ASK_VALUE("create_flags_read", cuStreamGetFlags(stream, &flags), "%u", flags);
	ASK_VALUE("create_non_blocking", cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), "%s",
		  ask_yes(other != stream));
	ASK_VALUE("create_non_blocking_flags_read", cuStreamGetFlags(other, &flags), "%u", flags);
	ASK("query_fresh", cuStreamQuery(stream));
	ASK("synchronize_fresh", cuStreamSynchronize(stream));
	ASK("destroy", cuStreamDestroy(stream));
	ASK("destroy_non_blocking", cuStreamDestroy(other));
}

GROUP(priority)
{
	static const int tried[] = {-1000, -6, -5, -4, -1, 0, 1, 5, 1000};
	CUstream stream = UNTOUCHED(CUstream);
	int priority = UNTOUCHED_INT;

	ask_context();
	ASK("priority_create_null", cuStreamCreateWithPriority(NULL, 0, 0));
	ASK_VALUE("priority_create_flags_2", cuStreamCreateWithPriority(&stream, 2, 0), "%s", OUT(stream));
	for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
		ASK(ask_name("priority_create_%d", tried[i]), cuStreamCreateWithPriority(&stream, 1, tried[i]));
		priority = UNTOUCHED_INT;
		ASK_VALUE(ask_name("priority_read_%d", tried[i]), cuStreamGetPriority(stream, &priority), "%d",
			  priority);
	}
	NEED(cuStreamCreate(&stream, 0));
	ASK_VALUE("priority_default", cuStreamGetPriority(stream, &priority), "%d", priority);
	ASK("priority_null_output", cuStreamGetPriority(stream, NULL));
	ASK_VALUE("priority_of_null", cuStreamGetPriority(NULL, &priority), "%d", priority);
	ASK_VALUE("priority_of_legacy", cuStreamGetPriority(CU_STREAM_LEGACY, &priority), "%d", priority);
	ASK_VALUE("priority_of_per_thread", cuStreamGetPriority(CU_STREAM_PER_THREAD, &priority), "%d", priority);
}

GROUP(queries)
{
	static const struct {
		const char *name;
		CUstream stream;
	} special[] = {{"null", NULL}, {"legacy", CU_STREAM_LEGACY}, {"per_thread", CU_STREAM_PER_THREAD}};
	CUcontext context = ask_context(), of = UNTOUCHED(CUcontext);
	CUstream stream = NULL, other = NULL;
	unsigned long long id = 0, other_id = 0, special_id[3] = {0};
	unsigned int flags = UNTOUCHED_INT;
	CUdevice device = UNTOUCHED_INT;
	CUstreamCaptureStatus capture = (CUstreamCaptureStatus)UNTOUCHED_INT;

	NEED(cuStreamCreate(&stream, 0));
	NEED(cuStreamCreate(&other, 0));
	ASK_VALUE("ctx", cuStreamGetCtx(stream, &of), "%s", ask_yes(of == context));
	ASK("ctx_null_output", cuStreamGetCtx(stream, NULL));
	ASK_VALUE("device", cuStreamGetDevice(stream, &device), "%d", device);
	ASK("device_null_output", cuStreamGetDevice(stream, NULL));
	ASK("flags_null_output", cuStreamGetFlags(stream, NULL));
	ASK("id", cuStreamGetId(stream, &id));
	ASK_VALUE("id_other", cuStreamGetId(other, &other_id), "%s", ask_yes(other_id != id));
	ASK_VALUE("id_again", cuStreamGetId(stream, &other_id), "%s", ask_yes(other_id == id));
	ASK("id_null_output", cuStreamGetId(stream, NULL));
	ASK_VALUE("capturing", cuStreamIsCapturing(stream, &capture), "%d", (int)capture);
	ASK("capturing_null_output", cuStreamIsCapturing(stream, NULL));
	for (size_t i = 0; i < 3; i++) {
		CUstream at = special[i].stream;
		const char *name = special[i].name;
		of = UNTOUCHED(CUcontext);
		flags = UNTOUCHED_INT;
		device = UNTOUCHED_INT;
		capture = (CUstreamCaptureStatus)UNTOUCHED_INT;
		ASK_VALUE(ask_name("ctx_of_%s", name), cuStreamGetCtx(at, &of), "%s", ask_yes(of == context));
		ASK_VALUE(ask_name("device_of_%s", name), cuStreamGetDevice(at, &device), "%d", device);
		ASK_VALUE(ask_name("flags_of_%s", name), cuStreamGetFlags(at, &flags), "%u", flags);
		ASK(ask_name("id_of_%s", name), cuStreamGetId(at, &special_id[i]));
		ASK_VALUE(ask_name("capturing_of_%s", name), cuStreamIsCapturing(at, &capture), "%d", (int)capture);
		ASK(ask_name("query_of_%s", name), cuStreamQuery(at));
		ASK(ask_name("synchronize_of_%s", name), cuStreamSynchronize(at));
	}
	SAY("id_of_null_is_id_of_legacy", "%s", ask_yes(special_id[0] == special_id[1]));
	SAY("id_of_per_thread_is_id_of_legacy", "%s", ask_yes(special_id[2] == special_id[1]));
	ASK("destroy_null", cuStreamDestroy(NULL));
	ASK("destroy_legacy", cuStreamDestroy(CU_STREAM_LEGACY));
	ASK("destroy_per_thread", cuStreamDestroy(CU_STREAM_PER_THREAD));
}

static void *thread_id(void *data)
{
	unsigned long long *ids = data;

	cuCtxSetCurrent((CUcontext)(uintptr_t)ids[0]);
	cuStreamGetId(CU_STREAM_PER_THREAD, &ids[1]);
	cuStreamGetId(CU_STREAM_LEGACY, &ids[2]);
	return NULL;
}

GROUP(ids_elsewhere)
{
	CUcontext context = ask_context();
	unsigned long long ids[3] = {(uintptr_t)context, 0, 0}, mine = 0, legacy = 0, other = 0;

	NEED(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
	NEED(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
	ask_threaded(thread_id, ids);
	SAY("id_of_per_thread_differs_by_thread", "%s", ask_yes(ids[1] != mine));
	SAY("id_of_legacy_differs_by_thread", "%s", ask_yes(ids[2] != legacy));
	ask_context();
	ASK_VALUE("id_of_legacy_differs_by_context", cuStreamGetId(CU_STREAM_LEGACY, &other), "%s",
		  ask_yes(other != legacy));
	ASK_VALUE("id_of_per_thread_differs_by_context", cuStreamGetId(CU_STREAM_PER_THREAD, &other), "%s",
		  ask_yes(other != mine));
}

GROUP(capture)
{
	CUstream stream = NULL;
	CUstreamCaptureStatus status = (CUstreamCaptureStatus)UNTOUCHED_INT;
	cuuint64_t id = UNTOUCHED_INT;
	size_t count = UNTOUCHED_INT;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	ask_context();
	NEED(cuStreamCreate(&stream, 0));
	ASK_VALUE("capture_info", cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, &count), "%d %llu %zu",
		  (int)status, (unsigned long long)id, count);
	ASK("capture_info_status_alone", cuStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, NULL));
	ASK("capture_info_null_status", cuStreamGetCaptureInfo(stream, NULL, &id, NULL, NULL, NULL, NULL));
	ASK("capture_info_of_null", cuStreamGetCaptureInfo(NULL, &status, &id, NULL, NULL, NULL, NULL));
	ASK("capture_info_of_legacy", cuStreamGetCaptureInfo(CU_STREAM_LEGACY, &status, &id, NULL, NULL, NULL, NULL));
	ASK_VALUE("exchange_relaxed", cuThreadExchangeStreamCaptureMode(&mode), "%d", (int)mode);
	mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	ASK_VALUE("exchange_thread_local", cuThreadExchangeStreamCaptureMode(&mode), "%d", (int)mode);
	mode = (CUstreamCaptureMode)7;
	ASK_VALUE("exchange_7", cuThreadExchangeStreamCaptureMode(&mode), "%d", (int)mode);
	mode = (CUstreamCaptureMode)-1;
	ASK_VALUE("exchange_negative", cuThreadExchangeStreamCaptureMode(&mode), "%d", (int)mode);
	ASK("exchange_null", cuThreadExchangeStreamCaptureMode(NULL));
	mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	ASK_VALUE("exchange_global", cuThreadExchangeStreamCaptureMode(&mode), "%d", (int)mode);
	ASK_VALUE("exchange_global_again", cuThreadExchangeStreamCaptureMode(&mode), "%d", (int)mode);
}

#define EVERY_STREAM_CALL(prefix, stream)                                                      \
	do {                                                                                   \
		ASK(prefix "_query", cuStreamQuery(stream));                                   \
		ASK(prefix "_synchronize", cuStreamSynchronize(stream));                       \
		ASK(prefix "_ctx", cuStreamGetCtx(stream, &bad_context));                      \
		ASK(prefix "_device", cuStreamGetDevice(stream, &bad_device));                 \
		ASK(prefix "_flags", cuStreamGetFlags(stream, &bad_flags));                    \
		ASK(prefix "_id", cuStreamGetId(stream, &bad_id));                             \
		ASK(prefix "_priority", cuStreamGetPriority(stream, &bad_priority));           \
		ASK(prefix "_capturing", cuStreamIsCapturing(stream, &bad_capture));           \
		ASK(prefix "_wait_event", cuStreamWaitEvent(stream, bad_event, 0));            \
		ASK(prefix "_record", cuEventRecord(bad_event, stream));                       \
		ASK(prefix "_callback", cuStreamAddCallback(stream, never_called, NULL, 0));   \
		ASK(prefix "_host_func", cuLaunchHostFunc(stream, never_called_either, NULL)); \
		ASK(prefix "_write_value", cuStreamWriteValue32(stream, bad_memory, 0, 0));    \
		ASK(prefix "_wait_value", cuStreamWaitValue32(stream, bad_memory, 0, 0));      \
		ASK(prefix "_memset", cuMemsetD8Async(bad_memory, 0, 16, stream));             \
		ASK(prefix "_memcpy", cuMemcpyAsync(bad_memory, bad_memory + 64, 16, stream)); \
		ASK(prefix "_destroy", cuStreamDestroy(stream));                               \
	} while (0)

static CUcontext bad_context;
static CUdevice bad_device;
static unsigned int bad_flags;
static unsigned long long bad_id;
static int bad_priority;
static CUstreamCaptureStatus bad_capture;
static CUevent bad_event;
static CUdeviceptr bad_memory;

static void CUDA_CB never_called(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
}

static void CUDA_CB never_called_either(void *data)
{
	(void)data;
}

static void bad_setup(void)
{
	ask_context();
	NEED(cuEventCreate(&bad_event, 0));
	NEED(cuMemAlloc(&bad_memory, 4096));
}

GROUP(garbage)
{
	bad_setup();
	EVERY_STREAM_CALL("garbage", GARBAGE(CUstream));
}

GROUP(small)
{
	bad_setup();
	EVERY_STREAM_CALL("small", SMALL(CUstream));
}

GROUP(zeros)
{
	bad_setup();
	EVERY_STREAM_CALL("zeros", ZEROS(CUstream));
}

GROUP(destroyed)
{
	CUstream dead = NULL;

	bad_setup();
	NEED(cuStreamCreate(&dead, 0));
	NEED(cuStreamDestroy(dead));
	EVERY_STREAM_CALL("destroyed", dead);
}

GROUP(other_context)
{
	CUcontext first, second;
	CUstream stream = NULL;

	bad_setup();
	NEED(cuCtxGetCurrent(&first));
	NEED(cuStreamCreate(&stream, 0));
	second = ask_context();
	ASK_VALUE("foreign_ctx_is_its_own", cuStreamGetCtx(stream, &bad_context), "%s", ask_yes(bad_context == first));
	NEED(cuEventDestroy(bad_event));
	NEED(cuEventCreate(&bad_event, 0));
	ASK("foreign_wait_event_of_current", cuStreamWaitEvent(stream, bad_event, 0));
	EVERY_STREAM_CALL("foreign", stream);
	ASK_VALUE("foreign_current_unchanged", cuCtxGetCurrent(&bad_context), "%s", ask_yes(bad_context == second));
}

GROUP(blocked)
{
	CUstream stream = NULL, other = NULL, free_stream = NULL;
	CUevent before = NULL, after = NULL;

	ask_context();
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuStreamCreate(&other, 0));
	NEED(cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&before, 0));
	NEED(cuEventCreate(&after, 0));
	struct gate gate = gate_make();
	NEED(cuEventRecord(before, stream));
	gate_close(&gate, stream);
	NEED(cuEventRecord(after, stream));
	ASK("blocked_query", cuStreamQuery(stream));
	ASK("blocked_query_other", cuStreamQuery(other));
	ASK("blocked_event_before", cuEventSynchronize(before));
	ASK("blocked_event_after", cuEventQuery(after));
	ASK("blocked_query_null", cuStreamQuery(NULL));
	ASK("blocked_query_per_thread", cuStreamQuery(CU_STREAM_PER_THREAD));
	ASK("blocked_wait_event", cuStreamWaitEvent(free_stream, after, 0));
	ASK("blocked_waiter_query", cuStreamQuery(free_stream));
	ASK("blocked_rerecord_elsewhere", cuEventRecord(after, other));
	ASK("blocked_rerecorded_event", cuEventSynchronize(after));
	ASK("blocked_waiter_still_blocked", cuStreamQuery(free_stream));
	gate_open(&gate);
	ASK("blocked_synchronize", cuStreamSynchronize(stream));
	ASK("blocked_waiter_synchronize", cuStreamSynchronize(free_stream));
	ASK("blocked_query_after", cuStreamQuery(stream));
}

/* The legacy stream waits for blocking streams and they for it; the others do not. */
GROUP(legacy_order)
{
	CUstream blocking = NULL, free_stream = NULL;
	CUevent event = NULL;

	ask_context();
	NEED(cuStreamCreate(&blocking, 0));
	NEED(cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	struct gate gate = gate_make();
	gate_close(&gate, blocking);
	NEED(cuEventRecord(event, CU_STREAM_LEGACY));
	ASK("legacy_waits_for_blocking", cuEventQuery(event));
	NEED(cuEventRecord(event, free_stream));
	ASK("non_blocking_does_not_wait_for_legacy", cuEventSynchronize(event));
	gate_open(&gate);
	NEED(cuCtxSynchronize());

	gate_close(&gate, CU_STREAM_LEGACY);
	NEED(cuEventRecord(event, blocking));
	ASK("blocking_waits_for_legacy", cuEventQuery(event));
	NEED(cuEventRecord(event, free_stream));
	ASK("non_blocking_passes_legacy", cuEventSynchronize(event));
	NEED(cuEventRecord(event, CU_STREAM_PER_THREAD));
	ASK("per_thread_waits_for_legacy", cuEventQuery(event));
	ASK("legacy_blocked_query_null", cuStreamQuery(NULL));
	ASK("legacy_blocked_query_legacy", cuStreamQuery(CU_STREAM_LEGACY));
	gate_open(&gate);
	NEED(cuCtxSynchronize());

	gate_close(&gate, free_stream);
	NEED(cuEventRecord(event, CU_STREAM_LEGACY));
	ASK("legacy_does_not_wait_for_non_blocking", cuEventSynchronize(event));
	gate_open(&gate);
	NEED(cuCtxSynchronize());

	gate_close(&gate, CU_STREAM_PER_THREAD);
	NEED(cuEventRecord(event, CU_STREAM_LEGACY));
	ASK("legacy_waits_for_per_thread", cuEventQuery(event));
	NEED(cuEventRecord(event, blocking));
	ASK("blocking_after_blocked_legacy", cuEventQuery(event));
	NEED(cuEventRecord(event, free_stream));
	ASK("non_blocking_after_blocked_legacy", cuEventSynchronize(event));
	gate_open(&gate);
	NEED(cuCtxSynchronize());
}

GROUP(destroy_blocked)
{
	CUstream stream = NULL;
	CUevent event = NULL;
	void *host = NULL;

	ask_context();
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuEventCreate(&event, 0));
	NEED(cuMemAllocHost(&host, 4096));
	memset(host, 0, 4096);
	struct gate gate = gate_make();
	gate_close(&gate, stream);
	NEED(cuMemsetD8Async((CUdeviceptr)(uintptr_t)host, 0x5a, 16, stream));
	NEED(cuEventRecord(event, stream));
	ASK("destroy_blocked_returns", cuStreamDestroy(stream));
	ASK("destroy_blocked_event_pending", cuEventQuery(event));
	gate_open(&gate);
	ASK("destroy_blocked_event_done", cuEventSynchronize(event));
	SAY("destroy_blocked_work_was_done", "%s", ask_bytes(host, 16));
}

GROUP(values)
{
	static const unsigned int satisfied[][3] = {
		/* memory, value, flags */
		{5, 5, 0}, {6, 5, 0}, {5, 5, 1}, {6, 2, 2}, {0, 1, 3}, {0x80000000u, 0x7fffffffu, 0},
	};
	static const unsigned int unsatisfied[][3] = {
		{4, 5, 0},           {6, 5, 1}, {4, 3, 2}, {0xffffffffu, 1, 3}, {0x7fffffffu, 0x80000000u, 0},
		{0x90000000u, 1, 0},
	};
	CUstream stream = NULL;
	struct gate gate;

	ask_context();
	gate = gate_make();
	NEED(cuStreamCreate(&stream, 0));
	for (size_t i = 0; i < sizeof satisfied / sizeof satisfied[0]; i++) {
		const unsigned int *row = satisfied[i];
		__atomic_store_n(gate.word, row[0], __ATOMIC_SEQ_CST);
		NEED(cuStreamWaitValue32(stream, gate.at, row[1], row[2]));
		ASK(ask_name("wait32_memory_%u_value_%u_flags_%u", row[0], row[1], row[2]),
		    cuStreamSynchronize(stream));
	}
	for (size_t i = 0; i < sizeof unsatisfied / sizeof unsatisfied[0]; i++) {
		const unsigned int *row = unsatisfied[i];
		static const unsigned int release[] = {5, 5, 1, 0, 0x80000000u, 1};
		__atomic_store_n(gate.word, row[0], __ATOMIC_SEQ_CST);
		NEED(cuStreamWaitValue32(stream, gate.at, row[1], row[2]));
		ASK(ask_name("wait32_memory_%u_value_%u_flags_%u", row[0], row[1], row[2]), cuStreamQuery(stream));
		__atomic_store_n(gate.word, release[i], __ATOMIC_SEQ_CST);
		ASK(ask_name("wait32_memory_%u_value_%u_flags_%u_released_by_%u", row[0], row[1], row[2], release[i]),
		    cuStreamSynchronize(stream));
	}
}

GROUP(values_wrong)
{
	CUstream stream = NULL;
	CUdeviceptr memory = 0;
	struct gate gate;
	uint32_t pageable = 0, word = 0;
	uint64_t wide = 0;

	ask_context();
	gate = gate_make();
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuMemAlloc(&memory, 4096));
	NEED(cuMemsetD8(memory, 0, 4096));
	ask_guard();
	for (unsigned int flags = 4; flags <= 16; flags *= 2)
		ASK(ask_name("wait32_flags_%u", flags), cuStreamWaitValue32(stream, gate.at, 0, flags));
	ASK("wait32_flags_flush", cuStreamWaitValue32(stream, gate.at, 0, CU_STREAM_WAIT_VALUE_FLUSH));
	ASK("wait32_flags_all", cuStreamWaitValue32(stream, gate.at, 0, ~0u));
	ASK("wait64_flags_4", cuStreamWaitValue64(stream, gate.at, 0, 4));
	ASK("wait32_null", cuStreamWaitValue32(stream, 0, 0, 0));
	ASK("wait32_garbage", cuStreamWaitValue32(stream, GARBAGE(CUdeviceptr), 0, 0));
	ASK("wait32_pageable", cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)&pageable, 0, 0));
	ASK("wait32_misaligned", cuStreamWaitValue32(stream, gate.at + 2, 0, 0));
	ASK("wait64_misaligned_by_4", cuStreamWaitValue64(stream, gate.at + 4, 0, 0));
	ASK("wait64_misaligned_by_1", cuStreamWaitValue64(stream, gate.at + 1, 0, 0));
	ASK("write32_null", cuStreamWriteValue32(stream, 0, 1, 0));
	ASK("write32_garbage", cuStreamWriteValue32(stream, GARBAGE(CUdeviceptr), 1, 0));
	ASK("write32_pageable", cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)&pageable, 1, 0));
	ASK("write32_misaligned", cuStreamWriteValue32(stream, memory + 2, 1, 0));
	ASK("write64_misaligned_by_4", cuStreamWriteValue64(stream, memory + 4, 1, 0));
	ASK("write32_past_end", cuStreamWriteValue32(stream, memory + (1ull << 40), 1, 0));
	ASK("write32_flags_1", cuStreamWriteValue32(stream, memory, 0x11, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
	ASK("write32_flags_2", cuStreamWriteValue32(stream, memory, 0x12, 2));
	ASK("write32_flags_all", cuStreamWriteValue32(stream, memory, 0x13, ~0u));
	ASK("write32", cuStreamWriteValue32(stream, memory, 0x11223344, 0));
	ASK("write64", cuStreamWriteValue64(stream, memory + 8, 0x1122334455667788, 0));
	ASK("write_synchronize", cuStreamSynchronize(stream));
	SAY("write_contents", "%s", ask_device_bytes(memory, 20));
	ASK("write32_host", cuStreamWriteValue32(stream, gate.at + 16, 0xabcd, 0));
	ASK("write32_null_stream", cuStreamWriteValue32(NULL, gate.at + 20, 0xabce, 0));
	ASK("write64_per_thread", cuStreamWriteValue64(CU_STREAM_PER_THREAD, gate.at + 24, 0xabcf, 0));
	NEED(cuCtxSynchronize());
	memcpy(&word, (char *)gate.word + 16, sizeof word);
	memcpy(&wide, (char *)gate.word + 24, sizeof wide);
	SAY("write_host_contents", "%x %x %llx", word, gate.word[5], (unsigned long long)wide);
	NEED(cuStreamWaitValue64(stream, gate.at + 24, 0xabcf, CU_STREAM_WAIT_VALUE_EQ));
	ASK("wait64_equal", cuStreamSynchronize(stream));
	NEED(cuStreamWaitValue32(stream, memory, 0x11223344, CU_STREAM_WAIT_VALUE_EQ));
	ASK("wait32_device_memory", cuStreamSynchronize(stream));
}

struct called {
	int order[16];
	int count;
	CUstream stream;
	CUresult status;
	int inside;
};

static struct called calls;

static void CUDA_CB on_callback(CUstream stream, CUresult status, void *data)
{
	calls.stream = stream;
	calls.status = status;
	calls.order[calls.count++ & 15] = (int)(intptr_t)data;
}

static void CUDA_CB on_host(void *data)
{
	calls.order[calls.count++ & 15] = (int)(intptr_t)data;
}

static const char *order(void)
{
	static char text[64];
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; i < calls.count && i < 16; i++)
		used += (size_t)snprintf(text + used, sizeof text - used, "%d ", calls.order[i]);
	return text;
}

GROUP(callbacks)
{
	CUstream stream = NULL;

	ask_context();
	NEED(cuStreamCreate(&stream, 0));
	ASK("callback_null", cuStreamAddCallback(stream, NULL, NULL, 0));
	ASK("callback_flags_1", cuStreamAddCallback(stream, on_callback, NULL, 1));
	ASK("host_func_null", cuLaunchHostFunc(stream, NULL, NULL));
	struct gate gate = gate_make();
	gate_close(&gate, stream);
	ASK("callback_first", cuStreamAddCallback(stream, on_callback, (void *)1, 0));
	ASK("host_func_second", cuLaunchHostFunc(stream, on_host, (void *)2));
	ASK("callback_third", cuStreamAddCallback(stream, on_callback, (void *)3, 0));
	ASK("callback_blocked_query", cuStreamQuery(stream));
	SAY("callback_before_gate", "%d", calls.count);
	gate_open(&gate);
	ASK("callback_synchronize", cuStreamSynchronize(stream));
	SAY("callback_order", "%s", order());
	SAY("callback_stream", "%s", calls.stream == stream ? "it" : OUT(calls.stream));
	SAY("callback_status", "%s", ask_driver_code(calls.status));
	calls.stream = UNTOUCHED(CUstream);
	ASK("callback_on_null", cuStreamAddCallback(NULL, on_callback, (void *)4, 0));
	NEED(cuCtxSynchronize());
	SAY("callback_on_null_stream", "%s", OUT(calls.stream));
	ASK("callback_on_legacy", cuStreamAddCallback(CU_STREAM_LEGACY, on_callback, (void *)5, 0));
	NEED(cuCtxSynchronize());
	SAY("callback_on_legacy_stream", "%s",
	    calls.stream == CU_STREAM_LEGACY ? "CU_STREAM_LEGACY" : OUT(calls.stream));
	ASK("callback_on_per_thread", cuStreamAddCallback(CU_STREAM_PER_THREAD, on_callback, (void *)6, 0));
	NEED(cuCtxSynchronize());
	SAY("callback_on_per_thread_stream", "%s",
	    calls.stream == CU_STREAM_PER_THREAD ? "CU_STREAM_PER_THREAD" : OUT(calls.stream));
	SAY("callback_all", "%s", order());
}

/* What a stream runs after a callback waits for that callback. */
static uint32_t *seen_word;
static uint32_t seen_value;

static void CUDA_CB look_at_word(void *data)
{
	(void)data;
	seen_value = __atomic_load_n(seen_word, __ATOMIC_SEQ_CST);
	__atomic_store_n(seen_word, 3, __ATOMIC_SEQ_CST);
}

GROUP(host_func_order)
{
	CUstream stream = NULL;
	void *word = NULL;

	ask_context();
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuMemAllocHost(&word, 4096));
	memset(word, 0, 4096);
	seen_word = word;
	NEED(cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)word, 2, 0));
	NEED(cuLaunchHostFunc(stream, look_at_word, NULL));
	NEED(cuMemcpyAsync((CUdeviceptr)(uintptr_t)word + 8, (CUdeviceptr)(uintptr_t)word, 4, stream));
	NEED(cuStreamSynchronize(stream));
	SAY("host_func_sees_earlier_write", "%u", seen_value);
	SAY("host_func_write_is_seen_later", "%u", ((uint32_t *)word)[2]);
}

GROUP(wait_event_wrong)
{
	CUstream stream = NULL;
	CUevent event = NULL, fresh = NULL;

	ask_context();
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuEventCreate(&event, 0));
	NEED(cuEventCreate(&fresh, 0));
	ASK("wait_event_fresh", cuStreamWaitEvent(stream, fresh, 0));
	ASK("wait_event_fresh_query", cuStreamSynchronize(stream));
	NEED(cuEventRecord(event, stream));
	ASK("wait_event_own_stream", cuStreamWaitEvent(stream, event, 0));
	ASK("wait_event_on_null", cuStreamWaitEvent(NULL, event, 0));
	ASK("wait_event_on_per_thread", cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
	ASK("wait_event_flags_1", cuStreamWaitEvent(stream, event, 1));
	ASK("wait_event_flags_2", cuStreamWaitEvent(stream, event, 2));
	ASK("wait_event_flags_all", cuStreamWaitEvent(stream, event, ~0u));
	ASK("wait_event_null", cuStreamWaitEvent(stream, NULL, 0));
	ASK("wait_event_synchronize", cuCtxSynchronize());
	ASK("wait_event_zeros", cuStreamWaitEvent(stream, ZEROS(CUevent), 0));
	ASK("wait_event_small", cuStreamWaitEvent(stream, SMALL(CUevent), 0));
	ASK("wait_event_garbage", cuStreamWaitEvent(stream, GARBAGE(CUevent), 0));
	NEED(cuEventDestroy(event));
	ASK("wait_event_destroyed", cuStreamWaitEvent(stream, event, 0));
}

ALONE(many)
{
	static CUstream streams[1000];
	unsigned int made = 0, queried = 0, gone = 0;

	ask_context();
	while (made < 1000 && !cuStreamCreate(&streams[made], made & 1))
		made++;
	for (unsigned int i = 0; i < made; i++)
		queried += cuStreamQuery(streams[i]) == CUDA_SUCCESS;
	for (unsigned int i = 0; i < made; i++)
		gone += cuStreamDestroy(streams[i]) == CUDA_SUCCESS;
	SAY("thousand", "made %u queried %u destroyed %u", made, queried, gone);
}

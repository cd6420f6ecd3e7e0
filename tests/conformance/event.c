/* SPDX-License-Identifier: MIT */
/*
 * Chapter "event": making, recording, waiting and timing.
 */
#include "ask.h"

CHAPTER(event);

GROUP(create)
{
	CUevent event = UNTOUCHED(CUevent);

	ask_context();
	ASK("create_null", cuEventCreate(NULL, 0));
	for (unsigned int flags = 0; flags <= 8; flags++) {
		event = UNTOUCHED(CUevent);
		ASK_VALUE(ask_name("create_flags_%u", flags), cuEventCreate(&event, flags), "%s", OUT(event));
		if (event != UNTOUCHED(CUevent))
			ASK(ask_name("destroy_flags_%u", flags), cuEventDestroy(event));
	}
	event = UNTOUCHED(CUevent);
	ASK_VALUE("create_flags_0x10", cuEventCreate(&event, 0x10), "%s", OUT(event));
	ASK_VALUE("create_flags_all", cuEventCreate(&event, ~0u), "%s", OUT(event));
}

GROUP(states)
{
	CUstream stream = NULL, other = NULL;
	CUevent event = NULL;

	ask_context();
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&event, 0));
	struct gate gate = gate_make();
	ASK("query_fresh", cuEventQuery(event));
	ASK("synchronize_fresh", cuEventSynchronize(event));
	ASK("record", cuEventRecord(event, stream));
	ASK("synchronize_recorded", cuEventSynchronize(event));
	ASK("query_recorded", cuEventQuery(event));
	gate_close(&gate, stream);
	ASK("record_blocked", cuEventRecord(event, stream));
	ASK("query_blocked", cuEventQuery(event));
	ASK("record_elsewhere", cuEventRecord(event, other));
	ASK("synchronize_elsewhere", cuEventSynchronize(event));
	ASK("query_elsewhere", cuEventQuery(event));
	NEED(cuEventRecord(event, stream));
	ASK("query_blocked_again", cuEventQuery(event));
	ASK("destroy_blocked", cuEventDestroy(event));
	gate_open(&gate);
	ASK("stream_after_destroy_blocked", cuStreamSynchronize(stream));
}

GROUP(record)
{
	CUstream stream = NULL;
	CUevent event = NULL;

	ask_context();
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuEventCreate(&event, 0));
	ASK("record_null_stream", cuEventRecord(event, NULL));
	ASK("record_legacy", cuEventRecord(event, CU_STREAM_LEGACY));
	ASK("record_per_thread", cuEventRecord(event, CU_STREAM_PER_THREAD));
	ASK("record_null_event", cuEventRecord(NULL, stream));
	ASK("record_flags_0", cuEventRecordWithFlags(event, stream, 0));
	ASK("record_flags_external", cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL));
	ASK("record_flags_2", cuEventRecordWithFlags(event, stream, 2));
	ASK("record_flags_all", cuEventRecordWithFlags(event, stream, ~0u));
	ASK("record_flags_null_event", cuEventRecordWithFlags(NULL, stream, 0));
	ASK("query_null", cuEventQuery(NULL));
	ASK("synchronize_null", cuEventSynchronize(NULL));
	ASK("destroy_null", cuEventDestroy(NULL));
	ASK("record_synchronize", cuCtxSynchronize());
}

GROUP(elapsed)
{
	CUstream stream = NULL, other = NULL;
	CUevent start = NULL, end = NULL, quiet = NULL, fresh = NULL;
	float ms = UNTOUCHED_INT;

	ask_context();
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&start, 0));
	NEED(cuEventCreate(&end, 0));
	NEED(cuEventCreate(&fresh, 0));
	NEED(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
	struct gate gate = gate_make();
	ASK_VALUE("elapsed_fresh", cuEventElapsedTime(&ms, start, end), "%g", ms);
	NEED(cuEventRecord(start, stream));
	NEED(cuEventRecord(quiet, stream));
	ASK_VALUE("elapsed_end_fresh", cuEventElapsedTime(&ms, start, end), "%g", ms);
	ASK_VALUE("elapsed_start_fresh", cuEventElapsedTime(&ms, end, start), "%g", ms);
	gate_close(&gate, stream);
	NEED(cuEventRecord(end, stream));
	ASK_VALUE("elapsed_blocked", cuEventElapsedTime(&ms, start, end), "%g", ms);
	ASK_VALUE("elapsed_blocked_start", cuEventElapsedTime(&ms, end, start), "%g", ms);
	ASK_VALUE("elapsed_blocked_and_quiet", cuEventElapsedTime(&ms, quiet, end), "%g", ms);
	gate_open(&gate);
	NEED(cuStreamSynchronize(stream));
	ASK_VALUE("elapsed", cuEventElapsedTime(&ms, start, end), "%s", ask_yes(ms >= 0));
	ASK_VALUE("elapsed_reversed", cuEventElapsedTime(&ms, end, start), "%s", ask_yes(ms <= 0));
	ASK_VALUE("elapsed_same", cuEventElapsedTime(&ms, end, end), "%g", ms);
	ms = UNTOUCHED_INT;
	ASK_VALUE("elapsed_quiet_start", cuEventElapsedTime(&ms, quiet, end), "%g", ms);
	ASK_VALUE("elapsed_quiet_end", cuEventElapsedTime(&ms, start, quiet), "%g", ms);
	ASK_VALUE("elapsed_fresh_and_quiet", cuEventElapsedTime(&ms, fresh, quiet), "%g", ms);
	ASK("elapsed_null_output", cuEventElapsedTime(NULL, start, end));
	ASK_VALUE("elapsed_null_start", cuEventElapsedTime(&ms, NULL, end), "%g", ms);
	ASK_VALUE("elapsed_null_end", cuEventElapsedTime(&ms, start, NULL), "%g", ms);
	NEED(cuEventRecord(end, other));
	NEED(cuEventSynchronize(end));
	ASK_VALUE("elapsed_between_streams", cuEventElapsedTime(&ms, start, end), "%s", ask_yes(ms >= 0));
}

static CUstream own_stream;

#define EVERY_EVENT_CALL(prefix, event)                                                    \
	do {                                                                               \
		float elapsed = 0;                                                         \
		ASK(prefix "_query", cuEventQuery(event));                                 \
		ASK(prefix "_synchronize", cuEventSynchronize(event));                     \
		ASK(prefix "_record", cuEventRecord(event, own_stream));                   \
		ASK(prefix "_record_flags", cuEventRecordWithFlags(event, own_stream, 0)); \
		ASK(prefix "_record_null_stream", cuEventRecord(event, NULL));             \
		ASK(prefix "_elapsed", cuEventElapsedTime(&elapsed, event, event));        \
		ASK(prefix "_wait", cuStreamWaitEvent(own_stream, event, 0));              \
		ASK(prefix "_destroy", cuEventDestroy(event));                             \
	} while (0)

static void own_setup(void)
{
	ask_context();
	NEED(cuStreamCreate(&own_stream, 0));
}

GROUP(garbage)
{
	own_setup();
	EVERY_EVENT_CALL("garbage", GARBAGE(CUevent));
}

GROUP(small)
{
	own_setup();
	EVERY_EVENT_CALL("small", SMALL(CUevent));
}

GROUP(zeros)
{
	own_setup();
	EVERY_EVENT_CALL("zeros", ZEROS(CUevent));
}

GROUP(destroyed)
{
	CUevent dead = NULL;

	own_setup();
	NEED(cuEventCreate(&dead, 0));
	NEED(cuEventDestroy(dead));
	EVERY_EVENT_CALL("destroyed", dead);
}

GROUP(stream_as_event)
{
	own_setup();
	EVERY_EVENT_CALL("stream_handle", (CUevent)(void *)own_stream);
}

GROUP(other_context)
{
	CUcontext first = ask_context(), second;
	CUevent event = NULL, mine = NULL;
	float ms = UNTOUCHED_INT;

	NEED(cuEventCreate(&event, 0));
	NEED(cuEventRecord(event, NULL));
	NEED(cuEventSynchronize(event));
	second = ask_context();
	NEED(cuStreamCreate(&own_stream, 0));
	NEED(cuEventCreate(&mine, 0));
	NEED(cuEventRecord(mine, NULL));
	NEED(cuEventSynchronize(mine));
	ASK_VALUE("foreign_elapsed_with_mine", cuEventElapsedTime(&ms, event, mine), "%g", ms);
	EVERY_EVENT_CALL("foreign", event);
	SAY("foreign_contexts_differ", "%s", ask_yes(first != second));
}

GROUP(without_context)
{
	ask_context();
	CUevent event = NULL, made = UNTOUCHED(CUevent);

	NEED(cuEventCreate(&event, 0));
	NEED(cuEventRecord(event, NULL));
	NEED(cuEventSynchronize(event));
	NEED(cuCtxSetCurrent(NULL));
	ASK_VALUE("none_create", cuEventCreate(&made, 0), "%s", OUT(made));
	EVERY_EVENT_CALL("none", event);
}

GROUP(stream_destroyed)
{
	CUstream stream = NULL;
	CUevent event = NULL;

	ask_context();
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuEventCreate(&event, 0));
	NEED(cuEventRecord(event, stream));
	NEED(cuStreamDestroy(stream));
	ASK("stream_gone_synchronize", cuEventSynchronize(event));
	ASK("stream_gone_query", cuEventQuery(event));
	ASK("stream_gone_wait", cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
	ASK("stream_gone_record", cuEventRecord(event, NULL));
	ASK("stream_gone_destroy", cuEventDestroy(event));
}

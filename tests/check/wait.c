/* SPDX-License-Identifier: MIT */
/*
 * Events that cannot help, and processes that wait for each other.
 */
#include "programs.h"

#include <stdio.h>

/* ---- An event that is destroyed before the other process has opened it ---- */

static void gone_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent ready = make_event();
	CUdeviceptr block = allocate(pool);

	fill(block, me.stream);
	MUST(cuEventRecord(ready, me.stream));
	finish(me.stream);
	send_event(0, ready);
	if (me.bad)
		MUST(cuEventDestroy(ready));
	send_block(0, block);
	be_told(0);
	if (!me.bad)
		MUST(cuEventDestroy(ready));
	MUST(cuMemFreeAsync(block, me.stream));
}

static void gone_second(void)
{
	CUipcEventHandle handle;
	CUevent ready;

	begin();
	CUmemoryPool pool = receive_pool();
	receive_bytes(0, &handle, sizeof handle);
	CUdeviceptr block = receive_block(pool);
	if (cuIpcOpenEventHandle(&ready, handle) == CUDA_SUCCESS) {
		MUST(cuStreamWaitEvent(me.stream, ready, 0));
		MUST(cuEventDestroy(ready));
	}
	read_and_let_go(block);
}

/* ---- An event that is recorded again, for something else, before the wait that meant the record before ---- */

static void again_first(void)
{
	struct shared it = begin_owner(AN_EVENT);
	CUdeviceptr next = allocate(it.pool);

	send_block(0, it.block);
	fill(it.block, me.stream);
	MUST(cuEventRecord(it.event, me.stream));
	if (!me.bad) {
		tell(0);
		be_told(0);
	}
	fill(next, me.another);
	MUST(cuEventRecord(it.event, me.another));
	if (me.bad) {
		tell(0);
		be_told(0);
	}
	finish(me.stream);
	finish(me.another);
	MUST(cuMemFreeAsync(it.block, me.stream));
	MUST(cuMemFreeAsync(next, me.stream));
}

/* A pool of events, from which one is taken again while its last hand-over is under way. */
static void reuse_first(void)
{
	own_two(me.bad);
}

static void reuse_second(void)
{
	read_two(false);
}

/* ---- A wait before the event is recorded ---- */

static void unrecorded_first(void)
{
	struct shared it = begin_owner(AN_EVENT);

	send_block(0, it.block);
	if (me.bad)
		be_told(0); /* it has waited */
	fill(it.block, me.stream);
	MUST(cuEventRecord(it.event, me.stream));
	tell(0);
	be_told_and_free(it.block);
}

static void unrecorded_second(void)
{
	struct shared it = begin_opener(AN_EVENT);

	if (!me.bad)
		be_told(0);
	MUST(cuStreamWaitEvent(me.stream, it.event, 0));
	if (me.bad) {
		tell(0);
		be_told(0);
	}
	read_and_let_go(it.block);
}

/* ---- Two streams that each wait for the other one's value ---- */

/* For a test that ends the program. */
static void say_submitted(void)
{
	puts("submitted");
	fflush(stdout);
}

static void cycle_first(void)
{
	begin();
	CUdeviceptr flags = send_words(0);

	MUST(cenote_label(flags, "flags"));
	if (me.bad)
		MUST(cuStreamWaitValue32(me.stream, flags + 4, 1, CU_STREAM_WAIT_VALUE_EQ));
	MUST(cuStreamWriteValue32(me.stream, flags, 1, 0));
	if (!me.bad)
		MUST(cuStreamWaitValue32(me.stream, flags + 4, 1, CU_STREAM_WAIT_VALUE_EQ));
	say_submitted();
	finish(me.stream);
	be_told(0);
}

static void cycle_second(void)
{
	begin();
	CUdeviceptr flags = receive_words();

	MUST(cuStreamWaitValue32(me.stream, flags, 1, CU_STREAM_WAIT_VALUE_EQ));
	MUST(cuStreamWriteValue32(me.stream, flags + 4, 1, 0));
	say_submitted();
	finish(me.stream);
	tell(0);
}

/* ---- Two threads that each wait before they have submitted what the other one waits for ---- */

static void threads_first(void)
{
	begin();
	CUdeviceptr flags = send_words(0);

	MUST(cuStreamWaitValue32(me.stream, flags + 4, 1, CU_STREAM_WAIT_VALUE_EQ));
	if (!me.bad)
		MUST(cuStreamWriteValue32(me.another, flags, 1, 0));
	finish(me.stream);
	if (me.bad)
		MUST(cuStreamWriteValue32(me.another, flags, 1, 0));
	finish(me.another);
	be_told(0);
}

/* ---- An event whose record stands behind a wait for the other process ---- */

static void behind_first(void)
{
	begin();
	CUevent ready = make_event();
	CUdeviceptr flags = send_words(0);

	send_event(0, ready);
	if (me.bad)
		MUST(cuStreamWaitValue32(me.stream, flags, 1, CU_STREAM_WAIT_VALUE_EQ));
	MUST(cuEventRecord(ready, me.stream));
	tell(0);
	if (!me.bad)
		MUST(cuStreamWaitValue32(me.stream, flags, 1, CU_STREAM_WAIT_VALUE_EQ));
	finish(me.stream);
	be_told(0);
}

static void behind_second(void)
{
	begin();
	CUdeviceptr flags = receive_words();
	CUevent ready = receive_event();

	be_told(0);
	MUST(cuStreamWaitEvent(me.stream, ready, 0));
	MUST(cuStreamWriteValue32(me.stream, flags, 1, 0));
	finish(me.stream);
	tell(0);
}

const struct program wait_programs[] = {
	{"event_gone", "event-gone", {gone_first, gone_second}},
	{"recorded_again", "event-recorded-again", {again_first, waiting_reader}},
	{"event_reused", "event-recorded-again", {reuse_first, reuse_second}},
	{"wait_before_record", "event-not-recorded", {unrecorded_first, unrecorded_second}},
	{"cycle_of_values", "cycle", {cycle_first, cycle_second}},
	{"cycle_of_threads", "cycle", {threads_first, cycle_second}},
	{"cycle_with_event", "cycle", {behind_first, behind_second}},
	{NULL, NULL, {NULL}},
};

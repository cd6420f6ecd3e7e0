/* SPDX-License-Identifier: MIT */
/*
 * Blocks that are used before they are there, or after they are gone; frees that nothing orders after the last use.
 */
#include "programs.h"

/* ---- A block that is used before its allocation is ordered ---- */

static void early_first(void)
{
	CUdeviceptr block;

	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent there = make_event();
	send_event(0, there);
	MUST(cuMemAllocFromPoolAsync(&block, BYTES, pool, me.stream));
	MUST(cuEventRecord(there, me.stream));
	send_block(0, block);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
}

static void early_second(void)
{
	struct shared it = begin_opener(AN_EVENT);

	if (!me.bad)
		MUST(cuStreamWaitEvent(me.stream, it.event, 0));
	fill(it.block, me.stream);
	let_go(it.block);
}

/* The same in one process that hands the block on afterwards. */
static void own_early_first(void)
{
	CUdeviceptr block;

	begin();
	CUmemoryPool pool = send_pool(0);
	MUST(cuMemAllocFromPoolAsync(&block, BYTES, pool, me.stream));
	if (!me.bad)
		finish(me.stream);
	fill(block, me.another);
	finish(me.another);
	finish(me.stream);
	send_block(0, block);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
}

/* ---- An import that is used after it was freed ---- */

static void released_second(void)
{
	struct shared it = begin_opener(NO_EVENT);

	/* A copy to an address that is no longer mapped may fail: the mistake is the program's all the same. */
	if (me.bad)
		MUST(cuMemFreeAsync(it.block, me.stream));
	(void)cuMemcpyDtoHAsync(me.host, it.block, BYTES, me.stream);
	if (!me.bad)
		MUST(cuMemFreeAsync(it.block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- The owner frees while another process goes on using it ---- */

static void owner_first(void)
{
	struct shared it = begin_owner(NO_EVENT);

	send_block(0, it.block);
	be_told(0); /* it has imported the block */
	if (me.bad) {
		MUST(cuMemFreeAsync(it.block, me.stream));
		finish(me.stream);
	}
	tell(0);
	be_told(0);
	if (!me.bad)
		MUST(cuMemFreeAsync(it.block, me.stream));
}

static void owner_second(void)
{
	struct shared it = begin_opener(NO_EVENT);

	tell(0);
	be_told(0);
	read_and_let_go(it.block);
}

/* A block that the owner's own other stream uses after the free. */
static void own_late_first(void)
{
	struct shared it = begin_filled(1);
	CUdeviceptr block = allocate(it.pool);

	be_told(0);
	if (me.bad)
		MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	(void)cuMemsetD8Async(block, 2, BYTES, me.another);
	finish(me.another);
	if (!me.bad)
		MUST(cuMemFreeAsync(block, me.stream));
	MUST(cuMemFreeAsync(it.block, me.stream));
}

/* ---- A free that is not ordered after the last use ---- */

static void other_stream_second(void)
{
	struct shared it = begin_opener(NO_EVENT);
	CUevent done;

	MUST(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
	read_back(it.block, me.stream);
	MUST(cuEventRecord(done, me.stream));
	if (!me.bad)
		MUST(cuStreamWaitEvent(me.another, done, 0));
	MUST(cuMemFreeAsync(it.block, me.another));
	finish(me.stream);
	finish(me.another);
	tell(0);
}

/* The reader says that it is done when its read has only been submitted. */
static void submitted_first(void)
{
	plain_owner();
	tell(0);
}

static void submitted_second(void)
{
	struct shared it = begin_opener(NO_EVENT);

	read_back(it.block, me.stream);
	if (!me.bad) {
		MUST(cuMemFreeAsync(it.block, me.stream));
		finish(me.stream);
	}
	tell(0);
	be_told(0);
	if (me.bad)
		MUST(cuMemFreeAsync(it.block, me.stream));
	finish(me.stream);
}

/* The same with memory of cuMemAlloc. */
static void legacy_free_second(void)
{
	close_legacy(!me.bad);
}

/*
 * A garbage collection that hid a missing order: the owner drops a block when the other has said that it has got it. In
 * most runs the collector comes late enough.
 */
static void collector_first(void)
{
	struct shared it = begin_owner(AN_EVENT);

	fill(it.block, me.stream);
	finish(me.stream);
	send_block(0, it.block);
	be_told_of(it.event, !me.bad); /* it has submitted its read, and its free */
	MUST(cuMemFreeAsync(it.block, me.stream));
	finish(me.stream);
	tell(0);
}

static void collector_second(void)
{
	struct shared it = begin_opener(AN_EVENT);

	read_back(it.block, me.stream);
	MUST(cuMemFreeAsync(it.block, me.stream));
	MUST(cuEventRecord(it.event, me.stream));
	tell(0);
	be_told(0);
	finish(me.stream);
}

const struct program life_programs[] = {
	{"use_before_allocation", "use-before-allocation", {early_first, early_second}},
	{"own_use_before_allocation", "use-before-allocation", {own_early_first, plain_reader}},
	{"use_after_release", "use-after-free", {plain_owner, released_second}},
	{"use_after_owners_free", "use-after-exporters-free", {owner_first, owner_second}},
	{"own_use_after_free", "use-after-free", {own_late_first, plain_reader}},
	{"free_in_another_stream", "free-without-order", {plain_owner, other_stream_second}},
	{"free_when_submitted", "free-without-order", {submitted_first, submitted_second}},
	{"legacy_free_when_submitted", "free-without-order", {legacy_owner, legacy_free_second}},
	{"collector", "free-without-order", {collector_first, collector_second}},
	{NULL, NULL, {NULL}},
};

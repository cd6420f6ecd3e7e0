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
	begin();
	CUmemoryPool pool = receive_pool();
	CUevent there = receive_event();
	CUdeviceptr block = receive_block(pool);

	if (!me.bad)
		MUST(cuStreamWaitEvent(me.stream, there, 0));
	fill(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
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

static void plain_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool);

	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- An import that is used after it was freed ---- */

static void plain_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr block = allocate(pool);

	fill(block, me.stream);
	finish(me.stream);
	send_block(0, block);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
}

static void released_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool);

	/* A copy to an address that is no longer mapped may fail: the mistake is the program's all the same. */
	if (me.bad)
		MUST(cuMemFreeAsync(block, me.stream));
	(void)cuMemcpyDtoHAsync(me.host, block, BYTES, me.stream);
	if (!me.bad)
		MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- The owner frees while another process goes on using it ---- */

static void owner_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr block = allocate(pool);

	send_block(0, block);
	be_told(0); /* it has imported the block */
	if (me.bad) {
		MUST(cuMemFreeAsync(block, me.stream));
		finish(me.stream);
	}
	tell(0);
	be_told(0);
	if (!me.bad)
		MUST(cuMemFreeAsync(block, me.stream));
}

static void owner_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool);

	tell(0);
	be_told(0);
	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* A block that the owner's own other stream uses after the free. */
static void own_late_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr block = allocate(pool), kept = allocate(pool);

	fill(kept, me.stream);
	finish(me.stream);
	send_block(0, kept);
	be_told(0);
	if (me.bad)
		MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	(void)cuMemsetD8Async(block, 2, BYTES, me.another);
	finish(me.another);
	if (!me.bad)
		MUST(cuMemFreeAsync(block, me.stream));
	MUST(cuMemFreeAsync(kept, me.stream));
}

/* ---- A free that is not ordered after the last use ---- */

static void other_stream_second(void)
{
	CUevent done;

	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool);

	MUST(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
	read_back(block, me.stream);
	MUST(cuEventRecord(done, me.stream));
	if (!me.bad)
		MUST(cuStreamWaitEvent(me.another, done, 0));
	MUST(cuMemFreeAsync(block, me.another));
	finish(me.stream);
	finish(me.another);
	tell(0);
}

/* The reader says that it is done when its read has only been submitted. */
static void submitted_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr block = allocate(pool);

	fill(block, me.stream);
	finish(me.stream);
	send_block(0, block);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

static void submitted_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool);

	read_back(block, me.stream);
	if (!me.bad)
		MUST(cuMemFreeAsync(block, me.stream));
	if (!me.bad)
		finish(me.stream);
	tell(0);
	be_told(0);
	if (me.bad)
		MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
}

/* The same with memory of cuMemAlloc. */
static void legacy_free_first(void)
{
	CUdeviceptr memory;

	begin();
	MUST(cuMemAlloc(&memory, BYTES));
	MUST(cuMemsetD8(memory, 1, BYTES));
	send_legacy(0, memory);
	be_told(0);
	MUST(cuMemFree(memory));
	tell(0);
}

static void legacy_free_second(void)
{
	begin();
	CUdeviceptr memory = receive_legacy();

	read_back(memory, me.stream);
	if (!me.bad) {
		finish(me.stream);
		MUST(cuIpcCloseMemHandle(memory));
	}
	tell(0);
	be_told(0);
	finish(me.stream);
	if (me.bad)
		MUST(cuIpcCloseMemHandle(memory));
}

/*
 * A garbage collection that hid a missing order: the owner drops a block when the other has said that it has got it. In
 * most runs the collector comes late enough.
 */
static void collector_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent done = make_event();
	CUdeviceptr block = allocate(pool);

	fill(block, me.stream);
	finish(me.stream);
	send_event(0, done);
	send_block(0, block);
	be_told(0); /* it has submitted its read, and its free */
	if (!me.bad)
		MUST(cuStreamWaitEvent(me.stream, done, 0));
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

static void collector_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUevent done = receive_event();
	CUdeviceptr block = receive_block(pool);

	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	MUST(cuEventRecord(done, me.stream));
	tell(0);
	be_told(0);
	finish(me.stream);
}

const struct program life_programs[] = {
	{"use_before_allocation", "use-before-allocation", {early_first, early_second}},
	{"own_use_before_allocation", "use-before-allocation", {own_early_first, plain_second}},
	{"use_after_release", "use-after-free", {plain_first, released_second}},
	{"use_after_owners_free", "use-after-exporters-free", {owner_first, owner_second}},
	{"own_use_after_free", "use-after-free", {own_late_first, plain_second}},
	{"free_in_another_stream", "free-without-order", {plain_first, other_stream_second}},
	{"free_when_submitted", "free-without-order", {submitted_first, submitted_second}},
	{"legacy_free_when_submitted", "free-without-order", {legacy_free_first, legacy_free_second}},
	{"collector", "free-without-order", {collector_first, collector_second}},
	{NULL, NULL, {NULL}},
};

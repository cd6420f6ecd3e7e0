/* SPDX-License-Identifier: MIT */
/*
 * Work of two processes or streams on the same bytes, without an order between them.
 */
#include "programs.h"

#include <sched.h>

/* ---- A writer that does not wait until its reader is done with the frame before ---- */

static void overwrite_first(void)
{
	struct shared it = begin_owner(AN_EVENT);

	fill(it.block, me.stream);
	finish(me.stream);
	send_block(0, it.block);
	be_told_of(it.event, !me.bad); /* the read is submitted and recorded */
	fill(it.block, me.stream);
	finish(me.stream);
	tell(0);
	be_told_and_free(it.block);
}

static void overwrite_second(void)
{
	struct shared it = begin_opener(AN_EVENT);

	read_back(it.block, me.stream);
	MUST(cuEventRecord(it.event, me.stream));
	tell(0);
	be_told(0);
	let_go(it.block);
}

/* ---- The same with memory of cuMemAlloc ---- */

static void legacy_first(void)
{
	CUdeviceptr memory;

	begin();
	CUevent ready = make_event();
	MUST(cuMemAlloc(&memory, BYTES));
	send_legacy(0, memory);
	send_event(0, ready);
	fill(memory, me.stream);
	MUST(cuEventRecord(ready, me.stream));
	tell(0);
	be_told(0);
	MUST(cuMemFree(memory));
}

static void legacy_second(void)
{
	begin();
	CUdeviceptr memory = receive_legacy();
	CUevent ready = receive_event();

	be_told_of(ready, !me.bad);
	read_back(memory, me.stream);
	finish(me.stream);
	MUST(cuIpcCloseMemHandle(memory));
	tell(0);
}

/* ---- The same with physical memory ---- */

static void physical_first(void)
{
	begin();
	CUevent ready = make_event();
	struct physical memory = make_physical();

	send_physical(0, &memory);
	send_event(0, ready);
	fill(memory.address, me.stream);
	MUST(cuEventRecord(ready, me.stream));
	tell(0);
	be_told(0);
	finish(me.stream);
	MUST(cuMemUnmap(memory.address, PHYSICAL_BYTES));
	free_physical(&memory);
}

static void physical_second(void)
{
	begin();
	struct physical memory = receive_physical();
	CUevent ready = receive_event();

	be_told_of(ready, !me.bad);
	read_back(memory.address, me.stream);
	finish(me.stream);
	MUST(cuMemUnmap(memory.address, PHYSICAL_BYTES));
	free_physical(&memory);
	tell(0);
}

/* ---- Two streams of the writer, of which the second does not wait for the first ---- */

static void streams_first(void)
{
	struct shared it = begin_owner(AN_EVENT);
	CUdeviceptr from = allocate(it.pool);
	CUevent filled;

	MUST(cuEventCreate(&filled, CU_EVENT_DISABLE_TIMING));
	fill(from, me.another);
	finish(me.another);
	send_block(0, it.block);
	fill(it.block, me.stream);
	MUST(cuEventRecord(filled, me.stream));
	if (!me.bad)
		MUST(cuStreamWaitEvent(me.another, filled, 0));
	MUST(cuMemcpyDtoDAsync(it.block, from, BYTES, me.another));
	MUST(cuEventRecord(it.event, me.another));
	tell(0);
	be_told_and_free(it.block);
	MUST(cuMemFreeAsync(from, me.stream));
}

static void streams_second(void)
{
	struct shared it = begin_opener(AN_EVENT);

	be_told_of(it.event, true);
	finish(me.stream);
	let_go(it.block);
}

/* ---- Columns of a picture: two processes that fill halves of it, or more than that ---- */

enum { PITCH = 1024, ROWS = 32 };

static void columns_first(void)
{
	struct shared it = begin_owner(NO_EVENT);

	send_block(0, it.block);
	MUST(cuMemsetD2D8Async(it.block, PITCH, 1, PITCH / 2, ROWS, me.stream));
	tell(0);
	be_told_and_free(it.block);
}

static void columns_second(void)
{
	size_t first = me.bad ? PITCH / 2 - 1 : PITCH / 2;
	struct shared it = begin_opener(NO_EVENT);

	be_told(0);
	MUST(cuMemsetD2D8Async(it.block + first, PITCH, 2, PITCH / 2, ROWS, me.stream));
	let_go(it.block);
}

/* ---- An event that is recorded before the work it is to stand for ---- */

static void record_first(void)
{
	struct shared it = begin_owner(AN_EVENT);

	send_block(0, it.block);
	if (me.bad)
		MUST(cuEventRecord(it.event, me.stream));
	fill(it.block, me.stream);
	if (!me.bad)
		MUST(cuEventRecord(it.event, me.stream));
	tell(0);
	be_told_and_free(it.block);
}

/* ---- A value that says too early that the block is full ---- */

static void value_first(void)
{
	struct shared it = begin_owner(NO_EVENT);

	send_block(0, it.block);
	CUdeviceptr flag = send_words(0);
	be_told(0); /* it waits for the value by now */
	if (me.bad)
		MUST(cuStreamWriteValue32(me.stream, flag, 1, 0));
	fill(it.block, me.stream);
	if (!me.bad)
		MUST(cuStreamWriteValue32(me.stream, flag, 1, 0));
	tell(0);
	be_told_and_free(it.block);
}

/* It does not ask whether its read is done before the fill is submitted, however fast the value is there. */
static void value_second(void)
{
	struct shared it = begin_opener(NO_EVENT);
	CUdeviceptr flag = receive_words();

	MUST(cuStreamWaitValue32(me.stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	read_back(it.block, me.stream);
	tell(0);
	be_told(0);
	finish(me.stream);
	let_go(it.block);
}

/* ---- A host function that tells too early ---- */

static void CUDA_CB tell_second(void *unused)
{
	(void)unused;
	tell(0);
}

static void host_first(void)
{
	struct shared it = begin_owner(NO_EVENT);

	send_block(0, it.block);
	if (me.bad)
		MUST(cuLaunchHostFunc(me.stream, tell_second, NULL));
	fill(it.block, me.stream);
	if (!me.bad)
		MUST(cuLaunchHostFunc(me.stream, tell_second, NULL));
	be_told(0); /* the read is submitted */
	finish(me.stream);
	tell(0);
	be_told_and_free(it.block);
}

/* It is not done with its read before the host function has returned, however long that takes. */
static void host_second(void)
{
	struct shared it = begin_opener(NO_EVENT);

	be_told(0);
	read_back(it.block, me.stream);
	tell(0);
	be_told(0);
	let_go(it.block);
}

/* ---- A stream that waits for the default stream, or one that does not ---- */

static void default_first(void)
{
	struct shared it = begin_owner(AN_EVENT);
	CUstream stream;

	MUST(cuStreamCreate(&stream, me.bad ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
	send_block(0, it.block);
	fill(it.block, NULL);
	MUST(cuMemsetD8Async(it.block, 2, BYTES / 2, stream));
	MUST(cuEventRecord(it.event, stream));
	tell(0);
	be_told(0);
	MUST(cuCtxSynchronize());
	MUST(cuMemFreeAsync(it.block, me.stream));
}

/* ---- A writer that asks whether the work is done, or only believes it ---- */

static void query_first(void)
{
	struct shared it = begin_owner(NO_EVENT);
	CUevent ready = make_event();

	send_block(0, it.block);
	fill(it.block, me.stream);
	MUST(cuEventRecord(ready, me.stream));
	while (!me.bad && cuEventQuery(ready) == CUDA_ERROR_NOT_READY)
		sched_yield(); /* to ask is what the program is about */
	tell(0);
	be_told_and_free(it.block);
}

static void query_second(void)
{
	struct shared it = begin_opener(NO_EVENT);

	be_told(0);
	read_and_let_go(it.block);
}

/* ---- A ring of two blocks, whose reader waits for the other one's event ---- */

static void ring_first(void)
{
	own_two(false);
}

static void ring_second(void)
{
	read_two(me.bad);
}

/* ---- Three processes: the last one waits for the first, and not for the second, which writes after it ---- */

static void chain_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	MUST(cenote_send_pool(me.socks[1], pool));
	CUevent filled = make_event(), changed = make_event();
	CUdeviceptr block = allocate(pool);

	for (int i = 0; i < 2; i++) {
		send_event(i, filled);
		send_block(i, block);
		send_event(i, changed);
	}
	fill(block, me.stream);
	MUST(cuEventRecord(filled, me.stream));
	tell(0);
	be_told(0); /* the second has recorded */
	tell(1);
	be_told(1);
	tell(0);
	be_told_and_free(block);
}

static void chain_second(void)
{
	struct shared it = begin_opener(AN_EVENT);
	CUevent changed = receive_event();

	be_told_of(it.event, true);
	fill(it.block, me.stream);
	MUST(cuEventRecord(changed, me.stream));
	tell(0);
	be_told(0);
	let_go(it.block);
}

static void chain_third(void)
{
	struct shared it = begin_opener(AN_EVENT);
	CUevent changed = receive_event();

	be_told_of(me.bad ? it.event : changed, true);
	read_and_let_go(it.block);
}

/* ---- An order by a message alone, which --strict does not assume: the bad one does not tell of it ---- */

enum { READY = 1, DONE = 2 };

static void channel_first(void)
{
	struct shared it = begin_owner(NO_EVENT);

	send_block(0, it.block);
	fill(it.block, me.stream);
	finish(me.stream);
	if (!me.bad)
		MUST(cenote_order_sent(READY));
	tell(0);
	be_told(0);
	MUST(cenote_order_received(DONE));
	MUST(cuMemFreeAsync(it.block, me.stream));
	finish(me.stream);
	MUST(cuMemPoolDestroy(it.pool));
}

static void channel_second(void)
{
	struct shared it = begin_opener(NO_EVENT);

	be_told(0);
	MUST(cenote_order_received(READY));
	read_back(it.block, me.stream);
	MUST(cuMemFreeAsync(it.block, me.stream));
	finish(me.stream);
	MUST(cuMemPoolDestroy(it.pool));
	MUST(cenote_order_sent(DONE));
	tell(0);
}

const struct program order_programs[] = {
	{"fill_and_read", "race", {filling_owner, hasty_reader}},
	{"read_and_overwrite", "race", {overwrite_first, overwrite_second}},
	{"legacy_memory", "race", {legacy_first, legacy_second}},
	{"physical_memory", "race", {physical_first, physical_second}},
	{"two_streams", "race", {streams_first, streams_second}},
	{"columns", "race", {columns_first, columns_second}},
	{"record_too_early", "race", {record_first, waiting_reader}},
	{"value_too_early", "race", {value_first, value_second}},
	{"host_function_too_early", "race", {host_first, host_second}},
	{"default_stream", "race", {default_first, waiting_reader}},
	{"query", "race", {query_first, query_second}},
	{"ring", "race", {ring_first, ring_second}},
	{"three_processes", "race", {chain_first, chain_second, chain_third}},
	{"own_channel", "strict", {channel_first, channel_second}},
	{NULL, NULL, {NULL}},
};

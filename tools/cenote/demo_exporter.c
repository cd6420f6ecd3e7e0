/* SPDX-License-Identifier: MIT */
/*
 * The demo's exporter: it owns the pool.
 *
 * It checks what it reports: the statistics of the pool, the addresses that it got, what its importer says.
 */
#include "demo.h"

#include <cenote/cenote.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	BLOCK_BYTES = 1 << 20,
	WORK_MS = 30,
	OTHERS = 16, /* blocks allocated while one that was freed is still held */
	PATIENCE_MS = 5000,
};

static CUstream stream;
static CUmemoryPool pool;

/* ---- What the stream does in its turn ---- */

/* Like a kernel that computes for a while. */
static void work(void *unused)
{
	struct timespec time = {.tv_nsec = WORK_MS * 1000000L};

	(void)unused;
	nanosleep(&time, NULL);
}

static void tell_filled(void *unused)
{
	(void)unused;
	demo_tell((struct moment){.in_stream = true, .sends = ARROW_READY}, "A is filled: READY");
}

static void tell_freed(void *unused)
{
	(void)unused;
	demo_tell((struct moment){.in_stream = true, .receives = ARROW_FINISHED, .hold = HOLD_NONE},
		  "FINISHED came; A is freed");
}

/* ---- What it does in every chapter ---- */

static CUdeviceptr allocate(void)
{
	CUdeviceptr block;

	CHECK(cuMemAllocFromPoolAsync(&block, BLOCK_BYTES, pool, stream));
	return block;
}

static void fill(CUdeviceptr block, int value)
{
	CHECK(cuMemsetD32Async(block, (unsigned)value, BLOCK_BYTES / sizeof(int), stream));
}

static cenote_pool_statistics ask_pool(void)
{
	cenote_pool_statistics statistics;

	CHECK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	return statistics;
}

/*
 * Wait until so many blocks are live here, and so many were freed here that other processes hold. The pool may learn a
 * little later than a stream what has happened.
 */
static void await_blocks(unsigned long long live_count, unsigned long long deferred_count)
{
	struct timespec pause = {.tv_nsec = 20000};
	int64_t start_ns = demo_now_ns();
	cenote_pool_statistics now = ask_pool();

	while (now.live_block_count != live_count || now.deferred_block_count != deferred_count) {
		if (demo_ms_since(start_ns) > PATIENCE_MS)
			demo_fail("the pool has %llu blocks, and %llu that wait for an importer; not %llu and %llu",
				  now.live_block_count, now.deferred_block_count, live_count, deferred_count);
		nanosleep(&pause, NULL);
		now = ask_pool();
	}
}

static cenote_importer ask_importer(void)
{
	cenote_importer importer;
	size_t count;

	CHECK(cenote_pool_importers(pool, &importer, sizeof importer, 1, &count));
	if (count != 1)
		demo_fail("the pool has %zu importers, not one", count);
	return importer;
}

/* ---- The chapters ---- */

static void share_pool(void)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	char word;

	actor.chapter = CHAPTER_POOL;
	CHECK(cuMemPoolCreate(&pool, &properties));
	demo_tell((struct moment){0}, "creates a pool");
	demo_tell((struct moment){.sends = ARROW_POOL}, "sends it: one file descriptor");
	CHECK(cenote_send_pool(actor.sock, pool));
	demo_receive(&word, 1);
}

static void share_in_order(void)
{
	CUipcEventHandle handle;
	CUevent ready, finished;

	actor.chapter = CHAPTER_ORDER;
	CHECK(cuEventCreate(&ready, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	CUdeviceptr block = allocate();
	CHECK(cuLaunchHostFunc(stream, work, NULL));
	fill(block, VALUE_A);
	CHECK(cuLaunchHostFunc(stream, tell_filled, NULL));
	CHECK(cuEventRecord(ready, stream));
	demo_tell((struct moment){.hold = HOLD_BLOCK}, "allocates A; queues %d ms of work, then a fill with %d",
		  WORK_MS, VALUE_A);
	demo_tell((struct moment){.sends = ARROW_A}, "sends A and an event, READY");
	CHECK(cenote_send_block(actor.sock, block, ready));

	demo_receive(&handle, sizeof handle);
	CHECK(cuIpcOpenEventHandle(&finished, handle));
	CHECK(cuStreamWaitEvent(stream, finished, 0));
	CHECK(cuMemFreeAsync(block, stream));
	CHECK(cuLaunchHostFunc(stream, tell_freed, NULL));
	demo_tell((struct moment){.receives = ARROW_A_USED}, "queues: wait for FINISHED, then free A");
	CHECK(cuStreamSynchronize(stream));
	await_blocks(0, 0);
	demo_tell((struct moment){.tone = TONE_GOOD}, "A is back in the pool");
	CHECK(cuEventDestroy(ready));
	CHECK(cuEventDestroy(finished));
}

/* A block that the importer holds, and that is freed here nevertheless. */
static CUdeviceptr free_too_early(const char *name, int value, enum arrow there, enum arrow back)
{
	CUdeviceptr block = allocate();
	char word;

	fill(block, value);
	CHECK(cuStreamSynchronize(stream));
	demo_tell((struct moment){.sends = there, .hold = HOLD_BLOCK}, "fills %s with %d and sends it", name, value);
	CHECK(cenote_send_block(actor.sock, block, NULL));
	demo_receive(&word, 1);
	CHECK(cuMemFreeAsync(block, stream));
	CHECK(cuStreamSynchronize(stream));
	demo_tell((struct moment){.receives = back, .tone = TONE_CAUTION, .hold = HOLD_DEFERRED},
		  "frees %s while the importer has it", name);
	await_blocks(0, 1);
	return block;
}

static void free_early(void)
{
	CUdeviceptr others[OTHERS];
	int wrong_count = 0;
	char word = 0;

	actor.chapter = CHAPTER_EARLY;
	CUdeviceptr block = free_too_early("B", VALUE_B, ARROW_B, ARROW_B_HELD);
	cenote_importer importer = ask_importer();
	demo_tell((struct moment){.tone = TONE_CAUTION}, "%llu MiB waits for process %d", importer.deferred_bytes >> 20,
		  importer.pid);
	for (int i = 0; i < OTHERS; i++) {
		others[i] = allocate();
		wrong_count += others[i] == block;
		fill(others[i], VALUE_OTHERS);
	}
	CHECK(cuStreamSynchronize(stream));
	if (wrong_count)
		demo_fail("a block that is still held was handed out again");
	demo_tell((struct moment){.sends = ARROW_B_READ}, "fills %d new blocks: none is B", OTHERS);
	demo_send(&word, 1);
	demo_receive(&word, 1);
	await_blocks(OTHERS, 0);
	demo_tell((struct moment){.receives = ARROW_B_FREED, .tone = TONE_GOOD, .hold = HOLD_NONE},
		  "B is back in the pool");
	for (int i = 0; i < OTHERS; i++)
		CHECK(cuMemFreeAsync(others[i], stream));
	CHECK(cuStreamSynchronize(stream));
}

/* Until the pool has no importer any more, and all blocks are back. */
static void await_departure(int watch)
{
	struct pollfd poll_for = {.fd = watch, .events = POLLIN};
	cenote_pool_statistics statistics;
	uint64_t count;
	bool told = false;

	do {
		if (poll(&poll_for, 1, PATIENCE_MS) != 1 || read(watch, &count, sizeof count) != sizeof count)
			demo_fail("nothing is heard of the importer's death");
		if (!told)
			demo_tell((struct moment){0}, "is told through poll()");
		told = true;
		statistics = ask_pool();
	} while (statistics.importer_count || statistics.deferred_block_count);
}

/* The blocks of a process may be back before the kernel has closed its last file: the lock beside its name, for one. */
static void await_end(int process)
{
	struct pollfd poll_for = {.fd = process, .events = POLLIN};

	if (poll(&poll_for, 1, PATIENCE_MS) != 1)
		demo_fail("the importer does not end");
	close(process);
}

static void count_removed(const cenote_name *name, void *data)
{
	*(int *)data += name->removed;
}

static void lose_importer(void)
{
	int watch, removed_count = 0;
	uint64_t count;

	actor.chapter = CHAPTER_KILLED;
	CHECK(cenote_pool_watch(pool, &watch));
	if (read(watch, &count, sizeof count) < 0) /* forget that it has arrived */
		count = 0;
	free_too_early("C", VALUE_C, ARROW_C, ARROW_C_HELD);
	int process = (int)syscall(SYS_pidfd_open, ask_importer().pid, 0);
	if (process < 0)
		demo_fail("the importer cannot be watched: %s", strerror(errno));
	demo_tell((struct moment){.kill = true}, "-");
	await_departure(watch);
	demo_tell((struct moment){.tone = TONE_GOOD, .hold = HOLD_NONE}, "C is back; no importer is left");
	await_end(process);
	CHECK(cenote_sweep(0, count_removed, &removed_count));
	demo_tell((struct moment){.tone = removed_count ? TONE_GOOD : TONE_PLAIN}, "removes %d dead name%s (cenote gc)",
		  removed_count, removed_count == 1 ? "" : "s");
	close(watch);
}

void demo_exporter(int record, int sock)
{
	struct moment device = {0};
	CUcontext context;

	actor = (struct actor){.who = EXPORTER, .record = record, .sock = sock};
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuDeviceGetName(device.text, sizeof device.text, 0));
	device.who = WHO_COUNT; /* not a moment: what the command writes above */
	if (write(record, &device, sizeof device) != sizeof device)
		exit(EXIT_FAILURE);
	share_pool();
	share_in_order();
	free_early();
	lose_importer();
	CHECK(cuMemPoolDestroy(pool));
	exit(EXIT_SUCCESS);
}

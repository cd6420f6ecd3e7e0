/* SPDX-License-Identifier: MIT */
/*
 * The demo's importer: it uses the exporter's memory, and is killed while it does.
 */
#include "demo.h"

#include <cenote/cenote.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUstream stream;
static CUmemoryPool pool;
static int *values; /* what was read from a block: its first number */

static void tell_ready(void *unused)
{
	(void)unused;
	demo_tell((struct moment){.in_stream = true, .receives = ARROW_READY}, "READY has come");
}

static void tell_finished(void *unused)
{
	(void)unused;
	demo_tell((struct moment){.in_stream = true, .sends = ARROW_FINISHED, .hold = HOLD_NONE},
		  "read %d, freed A: FINISHED", *values);
}

static void import_pool(void)
{
	int descriptor;

	actor.chapter = CHAPTER_POOL;
	demo_await();
	CHECK(cenote_recv_descriptor(actor.sock, &descriptor));
	int64_t start_ns = demo_now_ns();
	CHECK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)descriptor,
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	demo_tell((struct moment){.receives = ARROW_POOL}, "imports the pool (%.2f ms)", demo_ms_since(start_ns));
	close(descriptor);
	demo_send("", 1);
}

static CUdeviceptr import_block(enum arrow arrow, enum arrow answer, const char *name)
{
	CUdeviceptr block;
	CUevent none;

	demo_await();
	int64_t start_ns = demo_now_ns();
	CHECK(cenote_recv_block(actor.sock, pool, &block, &none));
	demo_tell((struct moment){.receives = arrow, .hold = HOLD_BLOCK}, "imports %s (%.3f ms)", name,
		  demo_ms_since(start_ns));
	demo_tell((struct moment){.sends = answer}, "tells that it has %s", name);
	demo_send("", 1);
	return block;
}

static void use_in_order(void)
{
	CUipcEventHandle handle;
	CUevent ready, finished;
	CUdeviceptr block;

	actor.chapter = CHAPTER_ORDER;
	CHECK(cuEventCreate(&finished, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	CHECK(cuIpcGetEventHandle(&handle, finished));
	demo_await();
	int64_t start_ns = demo_now_ns();
	CHECK(cenote_recv_block(actor.sock, pool, &block, &ready));
	double import_ms = demo_ms_since(start_ns);
	CUresult filled = cuEventQuery(ready);
	if (filled != CUDA_ERROR_NOT_READY)
		CHECK(filled);
	demo_tell((struct moment){.receives = ARROW_A, .hold = HOLD_BLOCK}, "imports both (%.2f ms); A is %s filled",
		  import_ms, filled ? "not yet" : "already");
	CHECK(cuStreamWaitEvent(stream, ready, 0));
	CHECK(cuLaunchHostFunc(stream, tell_ready, NULL));
	CHECK(cuMemcpyDtoHAsync(values, block, sizeof *values, stream));
	CHECK(cuMemFreeAsync(block, stream));
	CHECK(cuLaunchHostFunc(stream, tell_finished, NULL));
	CHECK(cuEventRecord(finished, stream));
	demo_tell((struct moment){0}, "queues: wait for READY, read A, free it");
	demo_tell((struct moment){.sends = ARROW_A_USED}, "sends its own event, FINISHED");
	demo_send(&handle, sizeof handle);
	CHECK(cuStreamSynchronize(stream));
	if (*values != VALUE_A)
		demo_fail("A has %d in it and not %d", *values, VALUE_A);
	CHECK(cuEventDestroy(ready));
}

static void use_too_long(void)
{
	char word;

	actor.chapter = CHAPTER_EARLY;
	CUdeviceptr block = import_block(ARROW_B, ARROW_B_HELD, "B");
	demo_receive(&word, 1);
	CHECK(cuMemcpyDtoH(values, block, sizeof *values));
	if (*values != VALUE_B)
		demo_fail("B was %d and is %d: the block was reused", VALUE_B, *values);
	demo_tell((struct moment){.receives = ARROW_B_READ, .tone = TONE_GOOD}, "reads B: still %d", *values);
	CHECK(cuMemFree(block));
	demo_tell((struct moment){.sends = ARROW_B_FREED, .hold = HOLD_NONE}, "frees B and tells");
	demo_send("", 1);
}

void demo_importer(int record, int sock)
{
	CUcontext context;
	char word;

	actor = (struct actor){.who = IMPORTER, .record = record, .sock = sock};
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAllocHost((void **)&values, sizeof *values));
	import_pool();
	use_in_order();
	use_too_long();
	actor.chapter = CHAPTER_KILLED;
	import_block(ARROW_C, ARROW_C_HELD, "C");
	demo_receive(&word, 1); /* it is killed here */
	exit(EXIT_FAILURE);
}

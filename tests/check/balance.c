/* SPDX-License-Identifier: MIT */
/*
 * Imports and frees that do not balance; what is closed while others use it; calls after a fork.
 */
#include "programs.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void owner(void)
{
	be_told_and_free(begin_filled(2).block);
}

/* Reads what the other process says until it is gone; returns how often it said something. */
static int listen_to_the_end(void)
{
	char byte;
	int count = 0;

	while (read(me.socks[0], &byte, 1) > 0)
		count++;
	return count;
}

/* The owner waits until the other process is gone before it frees. */
static void patient_owner(void)
{
	struct shared it = begin_filled(2);

	listen_to_the_end();
	MUST(cuMemFreeAsync(it.block, me.stream));
	finish(me.stream);
}

/* ---- Imported twice, freed once ---- */

static void twice_second(void)
{
	struct shared it = begin_opener(NO_EVENT);
	CUdeviceptr again = receive_block(it.pool);

	read_back(it.block, me.stream);
	MUST(cuMemFreeAsync(it.block, me.stream));
	if (!me.bad)
		MUST(cuMemFreeAsync(again, me.stream));
	finish(me.stream);
}

/* ---- Freed more often than imported ---- */

static void too_often_second(void)
{
	struct shared it = begin_opener(NO_EVENT);
	CUdeviceptr again = receive_block(it.pool);

	read_back(it.block, me.stream);
	MUST(cuMemFreeAsync(it.block, me.stream));
	MUST(cuMemFreeAsync(again, me.stream));
	finish(me.stream);
	if (me.bad)
		(void)cuMemFreeAsync(it.block, me.stream);
	tell(0);
}

/* ---- A shared block that is never freed ---- */

static void leak_first(void)
{
	struct shared it = begin_filled(1);

	be_told(0);
	if (!me.bad)
		MUST(cuMemFreeAsync(it.block, me.stream));
	finish(me.stream);
}

/* ---- The owner frees before the other has closed ---- */

static void close_second(void)
{
	close_legacy(true);
}

/* ---- A receiver that dies with what it holds ---- */

static void die_second(void)
{
	struct shared it = begin_opener(NO_EVENT);
	CUdeviceptr again = receive_block(it.pool);

	read_back(it.block, me.stream);
	finish(me.stream);
	if (me.bad)
		kill(getpid(), SIGKILL);
	MUST(cuMemFreeAsync(it.block, me.stream));
	MUST(cuMemFreeAsync(again, me.stream));
	finish(me.stream);
}

/* ---- A count of holders that goes negative: the owner frees for the dead receiver, and once more for itself ---- */

static void count_first(void)
{
	struct shared it = begin_filled(1);
	int holders = 1 - listen_to_the_end(); /* the other process has said that it is done, */

	if (me.bad)
		holders--; /* and is gone: counted again */
	for (; holders <= 0; holders++)
		(void)cuMemFreeAsync(it.block, me.stream);
	finish(me.stream);
}

/* ---- Closed while a stream of the same process reads it ---- */

static void in_use_second(void)
{
	begin();
	CUdeviceptr memory = receive_legacy();

	read_back(memory, me.stream);
	if (!me.bad)
		finish(me.stream);
	MUST(cuIpcCloseMemHandle(memory));
	finish(me.stream);
	tell(0);
	be_told(0);
}

/* ---- Unmapped while a stream reads it ---- */

static void unmap_first(void)
{
	begin();
	struct physical memory = make_physical();

	read_back(memory.address, me.stream);
	if (!me.bad)
		finish(me.stream);
	MUST(cuMemUnmap(memory.address, PHYSICAL_BYTES));
	finish(me.stream);
	free_physical(&memory);
	tell(0);
}

static void nothing(void)
{
	be_told(0);
}

/* ---- CUDA in a child that was forked after it was used ---- */

static void fork_first(void)
{
	int status;

	if (me.bad)
		begin();
	pid_t child = fork();
	if (child == 0) {
		CUdeviceptr memory;
		CUcontext context;
		int failed = me.bad ? cuMemAlloc(&memory, BYTES) != CUDA_SUCCESS
				    : cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
					      cuMemAlloc(&memory, BYTES) || cuMemFree(memory);
		_exit(failed != me.bad);
	}
	if (!me.bad)
		begin();
	must(waitpid(child, &status, 0) == child && status == 0, "the child");
	tell(0);
}

/* ---- An event that is destroyed while another process goes on with it ---- */

static void destroy_first(void)
{
	struct shared it = begin_owner(AN_EVENT);

	send_block(0, it.block);
	fill(it.block, me.stream);
	MUST(cuEventRecord(it.event, me.stream));
	finish(me.stream);
	be_told(0);
	if (me.bad)
		MUST(cuEventDestroy(it.event));
	tell(0);
	be_told(0);
	if (!me.bad)
		MUST(cuEventDestroy(it.event));
	MUST(cuMemFreeAsync(it.block, me.stream));
}

static void destroy_second(void)
{
	struct shared it = begin_opener(AN_EVENT);

	tell(0);
	be_told(0);
	(void)cuStreamWaitEvent(me.stream, it.event, 0);
	read_back(it.block, me.stream);
	MUST(cuMemFreeAsync(it.block, me.stream));
	finish(me.stream);
	MUST(cuEventDestroy(it.event));
	tell(0);
}

const struct program balance_programs[] = {
	{"imported_twice", "import-not-closed", {patient_owner, twice_second}},
	{"freed_too_often", "freed-twice", {owner, too_often_second}},
	{"leak", "leak", {leak_first, plain_reader}},
	{"free_before_close", "free-before-close", {legacy_owner, close_second}},
	{"receiver_dies", "holder-died", {patient_owner, die_second}},
	{"count_below_zero", "freed-twice", {count_first, plain_reader}},
	{"closed_in_use", "closed-in-use", {legacy_owner, in_use_second}},
	{"unmapped_in_use", "closed-in-use", {unmap_first, nothing}},
	{"after_fork", "use-after-fork", {fork_first, nothing}},
	{"event_destroyed", "event-destroyed", {destroy_first, destroy_second}},
	{NULL, NULL, {NULL}},
};

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
	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr block = allocate(pool);

	fill(block, me.stream);
	finish(me.stream);
	send_block(0, block);
	send_block(0, block);
	be_told(0);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
}

/* The owner waits until the other process is gone before it frees. */
static void patient_owner(void)
{
	char byte;

	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr block = allocate(pool);

	fill(block, me.stream);
	finish(me.stream);
	send_block(0, block);
	send_block(0, block);
	while (read(me.socks[0], &byte, 1) > 0)
		;
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
}

/* ---- Imported twice, freed once ---- */

static void twice_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool), again = receive_block(pool);

	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	if (!me.bad)
		MUST(cuMemFreeAsync(again, me.stream));
	finish(me.stream);
}

/* ---- Freed more often than imported ---- */

static void too_often_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool), again = receive_block(pool);

	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	MUST(cuMemFreeAsync(again, me.stream));
	finish(me.stream);
	if (me.bad)
		(void)cuMemFreeAsync(block, me.stream);
	tell(0);
}

/* ---- A shared block that is never freed ---- */

static void leak_first(void)
{
	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr block = allocate(pool);

	fill(block, me.stream);
	finish(me.stream);
	send_block(0, block);
	be_told(0);
	if (!me.bad)
		MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
}

static void leak_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool);

	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	tell(0);
}

/* ---- The owner frees before the other has closed ---- */

static void close_first(void)
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

static void close_second(void)
{
	begin();
	CUdeviceptr memory = receive_legacy();

	read_back(memory, me.stream);
	finish(me.stream);
	if (!me.bad)
		MUST(cuIpcCloseMemHandle(memory));
	tell(0);
	be_told(0);
	if (me.bad)
		MUST(cuIpcCloseMemHandle(memory));
}

/* ---- A receiver that dies with what it holds ---- */

static void die_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUdeviceptr block = receive_block(pool), again = receive_block(pool);

	read_back(block, me.stream);
	finish(me.stream);
	if (me.bad)
		kill(getpid(), SIGKILL);
	MUST(cuMemFreeAsync(block, me.stream));
	MUST(cuMemFreeAsync(again, me.stream));
	finish(me.stream);
}

/* ---- A count of holders that goes negative: the owner frees for the dead receiver, and once more for itself ---- */

static void count_first(void)
{
	char byte;
	int holders = 1; /* the other process */

	begin();
	CUmemoryPool pool = send_pool(0);
	CUdeviceptr block = allocate(pool);
	fill(block, me.stream);
	finish(me.stream);
	send_block(0, block);
	while (read(me.socks[0], &byte, 1) > 0)
		holders--; /* it has said that it is done, */
	if (me.bad)
		holders--; /* and is gone: counted again */
	for (; holders <= 0; holders++)
		(void)cuMemFreeAsync(block, me.stream);
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
	const CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr memory;
	size_t bytes = 2 << 20;

	begin();
	MUST(cuMemCreate(&handle, bytes, &properties, 0));
	MUST(cuMemAddressReserve(&memory, bytes, 0, 0, 0));
	MUST(cuMemMap(memory, bytes, 0, handle, 0));
	MUST(cuMemSetAccess(memory, bytes, &access, 1));
	read_back(memory, me.stream);
	if (!me.bad)
		finish(me.stream);
	MUST(cuMemUnmap(memory, bytes));
	finish(me.stream);
	MUST(cuMemAddressFree(memory, bytes));
	MUST(cuMemRelease(handle));
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
	begin();
	CUmemoryPool pool = send_pool(0);
	CUevent ready = make_event();
	CUdeviceptr block = allocate(pool);

	send_event(0, ready);
	send_block(0, block);
	fill(block, me.stream);
	MUST(cuEventRecord(ready, me.stream));
	finish(me.stream);
	be_told(0);
	if (me.bad)
		MUST(cuEventDestroy(ready));
	tell(0);
	be_told(0);
	if (!me.bad)
		MUST(cuEventDestroy(ready));
	MUST(cuMemFreeAsync(block, me.stream));
}

static void destroy_second(void)
{
	begin();
	CUmemoryPool pool = receive_pool();
	CUevent ready = receive_event();
	CUdeviceptr block = receive_block(pool);

	tell(0);
	be_told(0);
	(void)cuStreamWaitEvent(me.stream, ready, 0);
	read_back(block, me.stream);
	MUST(cuMemFreeAsync(block, me.stream));
	finish(me.stream);
	MUST(cuEventDestroy(ready));
	tell(0);
}

const struct program balance_programs[] = {
	{"imported_twice", "import-not-closed", {patient_owner, twice_second}},
	{"freed_too_often", "freed-twice", {owner, too_often_second}},
	{"leak", "leak", {leak_first, leak_second}},
	{"free_before_close", "free-before-close", {close_first, close_second}},
	{"receiver_dies", "holder-died", {patient_owner, die_second}},
	{"count_below_zero", "freed-twice", {count_first, leak_second}},
	{"closed_in_use", "closed-in-use", {close_first, in_use_second}},
	{"unmapped_in_use", "closed-in-use", {unmap_first, nothing}},
	{"after_fork", "use-after-fork", {fork_first, nothing}},
	{"event_destroyed", "event-destroyed", {destroy_first, destroy_second}},
	{NULL, NULL, {NULL}},
};

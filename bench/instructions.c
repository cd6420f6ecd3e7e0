/* SPDX-License-Identifier: MIT */
/*
 * The hot paths, each many times, to be counted: scripts/instructions.py runs this under callgrind, which counts what
 * happens within functions named count_…, and says how many instructions a call takes, and whether it made a system
 * call.
 *
 * Counts are the same on a busy machine as on an idle one. The calls are made as a program makes them: on an idle
 * stream, by one thread, with everything they need already prepared.
 */
#include <sys/socket.h>
#include <sys/wait.h>

#include <cuda_runtime_api.h>

#include "pair.h"

enum { CALLS = 1000, BLOCK_BYTES = 4096, RUN_IN = 2 };

static CUdeviceptr blocks[CALLS];
static CUmemPoolPtrExportData names[CALLS];
static CUevent event;

#define COUNTED(name, call)                                           \
	void count_##name(void);                                      \
	__attribute__((noinline, used)) void count_##name(void)       \
	{                                                             \
		for (unsigned i = 0; i < CALLS; i++)                  \
			BENCH_MUST(call);                             \
		__asm__ volatile("" ::: "memory"); /* no tail call */ \
	}

static CUdeviceptr block;
static void *runtime_block;

/* callgrind dumps its counts when this ends, and again when count_… does, without what was before. */
void forget_before(void);
__attribute__((noinline, used)) void forget_before(void)
{
	__asm__ volatile("" ::: "memory");
}

#define COUNT(name) (forget_before(), count_##name())

COUNTED(allocate, cuMemAllocFromPoolAsync(&blocks[i], BLOCK_BYTES, pair_pool, pair_stream))
COUNTED(free, cuMemFreeAsync(blocks[i], pair_stream))
COUNTED(pair, cuMemAllocAsync(&block, BLOCK_BYTES, pair_stream) || cuMemFreeAsync(block, pair_stream))
COUNTED(runtime_pair,
	cudaMallocAsync(&runtime_block, BLOCK_BYTES, pair_stream) || cudaFreeAsync(runtime_block, pair_stream))
COUNTED(export_pointer, cuMemPoolExportPointer(&names[i], blocks[i]))
COUNTED(free_exported, cuMemFreeAsync(blocks[i], pair_stream))
COUNTED(import_pointer, cuMemPoolImportPointer(&blocks[i], pair_pool, &names[i]))
COUNTED(free_imported, cuMemFreeAsync(blocks[i], pair_stream))
COUNTED(event_record, cuEventRecord(event, pair_stream))
COUNTED(event_wait, cuStreamWaitEvent(pair_stream, event, 0))

/* The last time counts: by then all paths are warm. */
static void run_exporter(const struct peer *peer)
{
	pair_create_pool();
	BENCH_MUST(cenote_send_pool(peer->sock, pair_pool));
	BENCH_MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0; i < RUN_IN; i++) {
		COUNT(allocate);
		COUNT(free);
		/* Not what a pool does whose memory has gone back: it takes a chunk. */
		BENCH_MUST(cuMemAllocAsync(&block, BLOCK_BYTES, pair_stream) || cuMemFreeAsync(block, pair_stream));
		COUNT(pair);
		COUNT(runtime_pair);
		COUNT(event_record);
		COUNT(event_wait);
		COUNT(allocate);
		COUNT(export_pointer);
		put(peer->bytes_fd, names, sizeof names);
		BENCH_MUST(hear(peer) != 'f');
		COUNT(free_exported);
		BENCH_MUST(cuStreamSynchronize(pair_stream));
	}
	BENCH_MUST(cuEventDestroy(event));
	BENCH_MUST(cuMemPoolDestroy(pair_pool));
}

static void run_importer(const struct peer *peer)
{
	BENCH_MUST(cenote_recv_pool(peer->sock, &pair_pool));
	for (unsigned i = 0; i < RUN_IN; i++) {
		get(peer->bytes_fd, names, sizeof names);
		COUNT(import_pointer);
		COUNT(free_imported);
		say(peer, 'f');
	}
	BENCH_MUST(cuMemPoolDestroy(pair_pool));
}

int main(int argument_count, char **arguments)
{
	bench_start("instructions", argument_count, arguments);
	pair_run(run_exporter, run_importer, 0, 1);
	return bench_finish();
}

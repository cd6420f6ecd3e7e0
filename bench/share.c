/* SPDX-License-Identifier: MIT */
/*
 * What it costs to share a pool: to export and import its pointers, to free them in either process, and to import the
 * pool. All is measured in turns, a round after the other; what arrives is looked at, outside of the time.
 */
#include <poll.h>
#include <pthread.h>

#include "pair.h"

enum { BLOCKS = 1000, BLOCK_BYTES = 4096 };

/* ---- Pointers ---- */

static CUmemPoolPtrExportData names[BLOCKS];
static CUdeviceptr blocks[BLOCKS];

#define EACH(call)                                                   \
	do {                                                         \
		for (unsigned each_i = 0; each_i < BLOCKS; each_i++) \
			BENCH_MUST(call);                            \
	} while (0)

#define TIME_EACH(ret_ns, call)                                           \
	do {                                                              \
		uint64_t before_ns = bench_now_ns();                      \
		EACH(call);                                               \
		(ret_ns) = (double)(bench_now_ns() - before_ns) / BLOCKS; \
	} while (0)

/* What the importer measures in a round, in this order. */
enum { IMPORT, IMPORT_AGAIN, FREE_COUNTED, FREE_IMPORTED, IMPORTER_TIMES };

static void check_blocks(unsigned round)
{
	unsigned found;

	for (unsigned i = 0; i < BLOCKS; i++) {
		BENCH_MUST(cuMemcpyDtoH(&found, blocks[i], sizeof found));
		BENCH_MUST(found != round * BLOCKS + i);
	}
}

static void import_pointers(const struct peer *peer)
{
	static CUdeviceptr again[BLOCKS];
	double times[IMPORTER_TIMES];

	BENCH_MUST(cenote_recv_pool(peer->sock, &pool));
	for (unsigned round = 0; round < 2 * (1 + ROUNDS); round++) {
		get(peer->bytes_fd, names, sizeof names);
		TIME_EACH(times[IMPORT], cuMemPoolImportPointer(&blocks[each_i], pool, &names[each_i]));
		TIME_EACH(times[IMPORT_AGAIN], cuMemPoolImportPointer(&again[each_i], pool, &names[each_i]));
		BENCH_MUST(memcmp(blocks, again, sizeof blocks));
		check_blocks(round / 2);
		TIME_EACH(times[FREE_COUNTED], cuMemFreeAsync(again[each_i], stream));
		if (round % 2)
			ask(peer, 'h'); /* now they are held, and the exporter frees them first */
		TIME_EACH(times[FREE_IMPORTED], cuMemFreeAsync(blocks[each_i], stream));
		put(peer->out, times, sizeof times);
	}
	BENCH_MUST(cuMemPoolDestroy(pool));
}

static uint64_t used_bytes(void)
{
	cuuint64_t used;

	BENCH_MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	return used;
}

struct pointer_times {
	double mutex[ROUNDS], export[ROUNDS], export_again[ROUNDS], free[ROUNDS], free_held[ROUNDS], back[ROUNDS];
	double importer[IMPORTER_TIMES][ROUNDS], free_wanted[ROUNDS];
};

/* Allocate, export and name them to the importer. */
static void export_round(const struct peer *peer, unsigned round, double *ret_export, double *ret_again)
{
	static CUmemPoolPtrExportData again[BLOCKS];

	EACH(cuMemAllocFromPoolAsync(&blocks[each_i], BLOCK_BYTES, pool, stream));
	EACH(cuMemsetD32Async(blocks[each_i], round * BLOCKS + each_i, 1, stream));
	BENCH_MUST(cuStreamSynchronize(stream));
	TIME_EACH(*ret_export, cuMemPoolExportPointer(&names[each_i], blocks[each_i]));
	TIME_EACH(*ret_again, cuMemPoolExportPointer(&again[each_i], blocks[each_i]));
	BENCH_MUST(memcmp(names, again, sizeof names));
	put(peer->bytes_fd, names, sizeof names);
}

static void pointer_round(const struct peer *peer, unsigned round, struct pointer_times *times, unsigned at)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	double importer[IMPORTER_TIMES], ignored;

	TIME_EACH(times->mutex[at], pthread_mutex_lock(&mutex) || pthread_mutex_unlock(&mutex));
	export_round(peer, round, &times->export[at], &times -> export_again[at]);
	get(peer->in, importer, sizeof importer);
	for (unsigned i = 0; i < IMPORTER_TIMES; i++)
		times->importer[i][at] = importer[i];
	TIME_EACH(times->free[at], cuMemFreeAsync(blocks[each_i], stream));
	BENCH_MUST(used_bytes() != 0);

	/* Once more, freed here while they are held there: they come back when the importer has freed them, too. */
	export_round(peer, round, &ignored, &ignored);
	BENCH_MUST(hear(peer) != 'h');
	TIME_EACH(times->free_held[at], cuMemFreeAsync(blocks[each_i], stream));
	BENCH_MUST(used_bytes() == 0);
	uint64_t before_ns = bench_now_ns();
	say(peer, 'h');
	while (used_bytes())
		sched_yield();
	times->back[at] = (double)(bench_now_ns() - before_ns) / BLOCKS;
	get(peer->in, importer, sizeof importer);
	times->free_wanted[at] = importer[FREE_IMPORTED];
}

static void export_pointers(const struct peer *peer)
{
	static struct pointer_times times;

	create_pool();
	BENCH_MUST(cenote_send_pool(peer->sock, pool));
	for (unsigned round = 0; round < 1 + ROUNDS; round++) /* the first one is to warm up */
		pointer_round(peer, round, &times, round ? round - 1 : 0);
	bench_title("Pointers of a shared pool, 1,000 at a time", "to a mutex");
	struct bench_result reference = row("pthread mutex, lock and unlock", times.mutex, NULL, 0);
	row("export", times.export, &reference, 200);
	row("export again", times.export_again, &reference, 200);
	row("import", times.importer[IMPORT], &reference, 200);
	row("import again", times.importer[IMPORT_AGAIN], &reference, 200);
	row("free of what was imported again", times.importer[FREE_COUNTED], &reference, 200);
	row("free of what was imported", times.importer[FREE_IMPORTED], &reference, 200);
	row("free of what was exported", times.free, &reference, 200);
	row("free of what the importer still has", times.free_held, &reference, 0);
	row("free of what the exporter has freed before", times.free_wanted, &reference, 0);
	row("until the exporter has it back", times.back, &reference, 0);
	BENCH_MUST(cuMemPoolDestroy(pool));
}

/* ---- Pools ---- */

struct pool_times {
	double trip, import, first_pointer, destroy;
};

static void import_pools(const struct peer *peer)
{
	struct pool_times times;
	CUdeviceptr block;
	unsigned found;
	int descriptor;

	BENCH_MUST(cenote_recv_descriptor(peer->sock, &descriptor));
	get(peer->bytes_fd, names, sizeof *names);
	for (unsigned round = 0; round < 1 + ROUNDS; round++) {
		uint64_t start = bench_now_ns();
		ask(peer, 'p');
		uint64_t trip = bench_now_ns();
		BENCH_MUST(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)descriptor,
							      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		uint64_t imported = bench_now_ns();
		BENCH_MUST(cuMemPoolImportPointer(&block, pool, &names[0]));
		uint64_t first = bench_now_ns();
		BENCH_MUST(cuMemcpyDtoH(&found, block, sizeof found));
		BENCH_MUST(found != BLOCKS);
		BENCH_MUST(cuMemFree(block));
		uint64_t freed = bench_now_ns();
		BENCH_MUST(cuMemPoolDestroy(pool));
		times = (struct pool_times){(double)(trip - start), (double)(imported - trip),
					    (double)(first - imported), (double)(bench_now_ns() - freed)};
		say(peer, 'l');
		put(peer->out, &times, sizeof times);
		BENCH_MUST(hear(peer) != 'l');
	}
	close(descriptor);
}

/* Until the importer is gone on our side, too: nothing of the last round runs beside the next. */
static void await_nobody(int watch)
{
	struct pollfd watched = {.fd = watch, .events = POLLIN};
	cenote_importer importer;
	uint64_t changes;
	size_t count = 1;

	for (;;) {
		BENCH_MUST(cenote_pool_importers(pool, &importer, sizeof importer, 1, &count));
		if (!count)
			return;
		BENCH_MUST(poll(&watched, 1, -1) != 1);
		get(watch, &changes, sizeof changes);
	}
}

static void export_pools(const struct peer *peer)
{
	static double trip[ROUNDS], import[ROUNDS], first_pointer[ROUNDS], destroy[ROUNDS];
	struct pool_times times;
	int descriptor, watch;

	create_pool();
	BENCH_MUST(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	BENCH_MUST(cenote_pool_watch(pool, &watch));
	BENCH_MUST(cuMemAllocFromPoolAsync(&blocks[0], BLOCK_BYTES, pool, stream));
	BENCH_MUST(cuMemsetD32Async(blocks[0], BLOCKS, 1, stream));
	BENCH_MUST(cuStreamSynchronize(stream));
	BENCH_MUST(cuMemPoolExportPointer(&names[0], blocks[0]));
	BENCH_MUST(cenote_send_descriptor(peer->sock, descriptor));
	put(peer->bytes_fd, names, sizeof *names);
	for (unsigned round = 0; round < 1 + ROUNDS; round++) {
		unsigned at = round ? round - 1 : 0;
		BENCH_MUST(hear(peer) != 'p');
		say(peer, 'p');
		BENCH_MUST(hear(peer) != 'l');
		get(peer->in, &times, sizeof times);
		await_nobody(watch);
		say(peer, 'l');
		trip[at] = times.trip;
		import[at] = times.import;
		first_pointer[at] = times.first_pointer;
		destroy[at] = times.destroy;
	}
	bench_title("Pools", "to a pipe");
	struct bench_result reference = row("a byte through two pipes and back", trip, NULL, 0);
	row("import a pool", import, &reference, 150000);
	row("import its first pointer", first_pointer, &reference, 0);
	row("destroy the imported pool", destroy, &reference, 0);
	BENCH_MUST(cuMemFreeAsync(blocks[0], stream));
	BENCH_MUST(cuMemPoolDestroy(pool));
	close(descriptor);
	close(watch);
}

int main(void)
{
	find_cpus();
	run_pair(export_pointers, import_pointers, cpus[0], cpus[1]);
	run_pair(export_pools, import_pools, cpus[0], cpus[1]);
	return 0;
}

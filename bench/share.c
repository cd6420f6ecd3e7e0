/* SPDX-License-Identifier: MIT */
/*
 * What it costs to share a pool: to export and import its pointers, to free them in either process, and to import the
 * pool; compared with UCX's keys for memory, and with shm_open() and mmap() by hand. What arrives is checked, outside
 * of the time.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>

#include "ucx.h"

enum { BLOCKS = 1000, BLOCK_BYTES = 4096, KEYS = 100, MARK = 0x5a };

/* ---- Pointers ---- */

static CUmemPoolPtrExportData names[BLOCKS];
static CUdeviceptr blocks[BLOCKS];

#define EACH(call)                                                   \
	do {                                                         \
		for (unsigned each_i = 0; each_i < BLOCKS; each_i++) \
			BENCH_MUST(call);                            \
	} while (0)

#define TIME_EACH(ret_ns, call)                                         \
	do {                                                            \
		uint64_t each_ns = bench_now_ns();                      \
		EACH(call);                                             \
		(ret_ns) = (double)(bench_now_ns() - each_ns) / BLOCKS; \
	} while (0)

/* What is measured in one round: everything, though a contest is about some of it. The importer's part comes first. */
enum {
	IMPORT,
	IMPORT_AGAIN,
	FREE_COUNTED,
	FREE_IMPORTED,
	UCX_UNPACK,
	IMPORTER_TIMES,
	MUTEX = IMPORTER_TIMES,
	EXPORT,
	EXPORT_AGAIN,
	UCX_PACK,
	FREE_EXPORTED,
	FREE_HELD,
	FREE_WANTED,
	BACK,
	TIMES,
};

struct round {
	const struct peer *peer;
	char *ucx_memory; /* NULL: UCX is not there */
	unsigned number;
	double times[TIMES];
};

static void check_blocks(unsigned round)
{
	unsigned found;

	for (unsigned i = 0; i < BLOCKS; i++) {
		BENCH_MUST(cuMemcpyDtoH(&found, blocks[i], sizeof found));
		BENCH_MUST(found != round * BLOCKS + i);
	}
}

static double import_keys(const struct peer *peer)
{
	static struct ucx_name keys[KEYS];
	void *imported[KEYS], *pointers[KEYS];

	get(peer->bytes_fd, keys, sizeof keys);
	uint64_t before_ns = bench_now_ns();
	for (unsigned i = 0; i < KEYS; i++)
		pointers[i] = ucx_import(&keys[i], &imported[i]);
	double each_ns = (double)(bench_now_ns() - before_ns) / KEYS;
	for (unsigned i = 0; i < KEYS; i++) {
		BENCH_MUST(*(volatile char *)pointers[i] != MARK);
		ucx_forget(imported[i]);
	}
	return each_ns;
}

/* One round of the importer: w, and a number. u: UCX's part. q: the end. */
static void import_pointers(const struct peer *peer)
{
	static CUdeviceptr again[BLOCKS];
	double times[IMPORTER_TIMES] = {0};
	unsigned number;

	BENCH_MUST(cenote_recv_pool(peer->sock, &pair_pool));
	if (!ucx_absent(peer))
		ucx_open(peer);
	for (char asked; (asked = hear(peer)) != 'q';) {
		if (asked == 'u') {
			times[UCX_UNPACK] = import_keys(peer);
			continue;
		}
		get(peer->in, &number, sizeof number);
		get(peer->bytes_fd, names, sizeof names);
		TIME_EACH(times[IMPORT], cuMemPoolImportPointer(&blocks[each_i], pair_pool, &names[each_i]));
		TIME_EACH(times[IMPORT_AGAIN], cuMemPoolImportPointer(&again[each_i], pair_pool, &names[each_i]));
		BENCH_MUST(memcmp(blocks, again, sizeof blocks));
		check_blocks(number);
		TIME_EACH(times[FREE_COUNTED], cuMemFreeAsync(again[each_i], pair_stream));
		if (asked == 'h')
			ask(peer, 'h'); /* now they are held, and the exporter frees them first */
		TIME_EACH(times[FREE_IMPORTED], cuMemFreeAsync(blocks[each_i], pair_stream));
		put(peer->out, times, sizeof times);
	}
	if (!ucx_absent(peer))
		ucx_close(peer);
	BENCH_MUST(cuMemPoolDestroy(pair_pool));
}

static uint64_t used_bytes(void)
{
	cuuint64_t used;

	BENCH_MUST(cuMemPoolGetAttribute(pair_pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	return used;
}

/* Allocate, export and name them to the importer. */
static void export_blocks(struct round *round, char asked)
{
	static CUmemPoolPtrExportData again[BLOCKS];
	unsigned number = ++round->number;

	EACH(cuMemAllocFromPoolAsync(&blocks[each_i], BLOCK_BYTES, pair_pool, pair_stream));
	EACH(cuMemsetD32Async(blocks[each_i], number * BLOCKS + each_i, 1, pair_stream));
	BENCH_MUST(cuStreamSynchronize(pair_stream));
	TIME_EACH(round->times[EXPORT], cuMemPoolExportPointer(&names[each_i], blocks[each_i]));
	TIME_EACH(round->times[EXPORT_AGAIN], cuMemPoolExportPointer(&again[each_i], blocks[each_i]));
	BENCH_MUST(memcmp(names, again, sizeof names));
	say(round->peer, asked);
	put(round->peer->out, &number, sizeof number);
	put(round->peer->bytes_fd, names, sizeof names);
}

static void export_keys(struct round *round)
{
	static struct ucx_name keys[KEYS];

	uint64_t before_ns = bench_now_ns();
	for (unsigned i = 0; i < KEYS; i++)
		ucx_export(round->ucx_memory + i * BLOCK_BYTES, &keys[i]);
	round->times[UCX_PACK] = (double)(bench_now_ns() - before_ns) / KEYS;
	say(round->peer, 'u');
	put(round->peer->bytes_fd, keys, sizeof keys);
}

/* The first contestant's repetition is the round; the others return their part of it. */
static double run_round(void *data)
{
	struct round *round = data;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	double held[IMPORTER_TIMES], *times = round->times;

	if (round->ucx_memory)
		export_keys(round);
	/* Freed here while the importer holds them: they come back when the importer has freed them, too. */
	export_blocks(round, 'h');
	BENCH_MUST(hear(round->peer) != 'h');
	TIME_EACH(times[FREE_HELD], cuMemFreeAsync(blocks[each_i], pair_stream));
	BENCH_MUST(used_bytes() == 0);
	uint64_t before_ns = bench_now_ns();
	say(round->peer, 'h');
	while (used_bytes())
		sched_yield();
	times[BACK] = (double)(bench_now_ns() - before_ns) / BLOCKS;
	get(round->peer->in, held, sizeof held);
	times[FREE_WANTED] = held[FREE_IMPORTED];

	/* Freed there, then here. */
	export_blocks(round, 'w');
	get(round->peer->in, times, sizeof held);
	TIME_EACH(times[FREE_EXPORTED], cuMemFreeAsync(blocks[each_i], pair_stream));
	BENCH_MUST(used_bytes() != 0);
	TIME_EACH(times[MUTEX], pthread_mutex_lock(&mutex) || pthread_mutex_unlock(&mutex));
	return times[MUTEX];
}

static double told(void *data)
{
	return *(double *)data;
}

static const char *const pointer_group = "Pointers of a shared pool", *const mutex_name =
									      "pthread mutex, lock and unlock";

static void hold_pointers(struct round *round, const char *name, const struct bench_contestant *others, unsigned count)
{
	struct bench_contestant contestants[BENCH_CONTESTANTS_MAX] = {
		{.name = mutex_name, .once = run_round, .data = round}};

	for (unsigned i = 0; i < count; i++) {
		contestants[i + 1] = others[i];
		contestants[i + 1].once = told;
	}
	bench_contest(&(struct bench_contest){.group = pointer_group, .name = name, .baseline = mutex_name},
		      contestants, count + 1);
}

static void export_pointers(const struct peer *peer)
{
	static struct round round;
	const char *absent = ucx_absent(peer);
	double *times = round.times;

	pair_create_pool();
	BENCH_MUST(cenote_send_pool(peer->sock, pair_pool));
	round.peer = peer;
	if (!absent) {
		ucx_open(peer);
		round.ucx_memory = ucx_allocate(KEYS * BLOCK_BYTES);
		memset(round.ucx_memory, MARK, KEYS * BLOCK_BYTES);
	} else {
		bench_absent(pointer_group, "export and import", "UCX", absent);
	}
	struct bench_contestant exports[] = {{.name = "cenote", .data = &times[EXPORT], .goal = 12},
					     {.name = "cenote, again", .data = &times[EXPORT_AGAIN]},
					     {.name = absent ? NULL : "UCX, pack a key", .data = &times[UCX_PACK]}};
	hold_pointers(&round, "export", exports, 3);
	struct bench_contestant imports[] = {
		{.name = "cenote", .data = &times[IMPORT], .goal = 12},
		{.name = "cenote, again", .data = &times[IMPORT_AGAIN]},
		{.name = absent ? NULL : "UCX, unpack a key and ask for its pointer", .data = &times[UCX_UNPACK]}};
	hold_pointers(&round, "import", imports, 3);
	struct bench_contestant frees[] = {{.name = "cenote, imported", .data = &times[FREE_IMPORTED]},
					   {.name = "cenote, imported again", .data = &times[FREE_COUNTED]},
					   {.name = "cenote, exported", .data = &times[FREE_EXPORTED]},
					   {.name = "cenote, the importer still has it", .data = &times[FREE_HELD]},
					   {.name = "cenote, the exporter has freed it", .data = &times[FREE_WANTED]},
					   {.name = "cenote, until it is back there", .data = &times[BACK]}};
	hold_pointers(&round, "free", frees, 6);
	say(peer, 'q');
	if (!absent) {
		ucx_free();
		ucx_close(peer);
	}
	BENCH_MUST(cuMemPoolDestroy(pair_pool));
}

/* ---- Pools ---- */

static const size_t by_hand_bytes = (size_t)1 << 30;
static char by_hand_name[64];

enum { TRIP, POOL, FIRST_POINTER, DESTROY, BY_HAND, POOL_TIMES };

/* As programs without CUDA do. */
static double open_by_hand(void)
{
	uint64_t before_ns = bench_now_ns();
	int fd = shm_open(by_hand_name, O_RDWR, 0);
	volatile char *memory = mmap(NULL, by_hand_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	double taken_ns = (double)(bench_now_ns() - before_ns);

	BENCH_MUST(memory == MAP_FAILED || *memory != MARK);
	BENCH_MUST(munmap((void *)memory, by_hand_bytes));
	return taken_ns;
}

static void import_pools(const struct peer *peer)
{
	double times[POOL_TIMES];
	CUdeviceptr block;
	unsigned found;
	int descriptor;

	BENCH_MUST(cenote_recv_descriptor(peer->sock, &descriptor));
	get(peer->bytes_fd, names, sizeof *names);
	while (hear(peer) != 'q') {
		uint64_t start = bench_now_ns();
		ask(peer, 'p');
		uint64_t trip = bench_now_ns();
		BENCH_MUST(cuMemPoolImportFromShareableHandle(&pair_pool, (void *)(intptr_t)descriptor,
							      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		uint64_t imported = bench_now_ns();
		BENCH_MUST(cuMemPoolImportPointer(&block, pair_pool, &names[0]));
		uint64_t first = bench_now_ns();
		BENCH_MUST(cuMemcpyDtoH(&found, block, sizeof found));
		BENCH_MUST(found != BLOCKS);
		BENCH_MUST(cuMemFree(block));
		uint64_t freed = bench_now_ns();
		BENCH_MUST(cuMemPoolDestroy(pair_pool));
		uint64_t destroyed = bench_now_ns();
		times[TRIP] = (double)(trip - start);
		times[POOL] = (double)(imported - trip);
		times[FIRST_POINTER] = (double)(first - trip);
		times[DESTROY] = (double)(destroyed - freed);
		times[BY_HAND] = open_by_hand();
		put(peer->out, times, sizeof times);
	}
	close(descriptor);
}

/* Until the importer is gone on our side, too: nothing of the last round runs during the next. */
static void await_nobody(int watch)
{
	struct pollfd watched = {.fd = watch, .events = POLLIN};
	cenote_importer importer;
	uint64_t changes;
	size_t count = 1;

	for (;;) {
		BENCH_MUST(cenote_pool_importers(pair_pool, &importer, sizeof importer, 1, &count));
		if (!count)
			return;
		BENCH_MUST(poll(&watched, 1, -1) != 1);
		get(watch, &changes, sizeof changes);
	}
}

struct pools {
	const struct peer *peer;
	int watch;
	double times[POOL_TIMES];
};

static double run_import(void *data)
{
	struct pools *pools = data;

	say(pools->peer, 'i');
	BENCH_MUST(hear(pools->peer) != 'p');
	say(pools->peer, 'p');
	get(pools->peer->in, pools->times, sizeof pools->times);
	await_nobody(pools->watch);
	return pools->times[TRIP];
}

static int make_by_hand(void)
{
	int made = shm_open(by_hand_name, O_RDWR | O_CREAT | O_EXCL, 0600);

	BENCH_MUST(made < 0 || ftruncate(made, (off_t)by_hand_bytes));
	BENCH_MUST(pwrite(made, &(char){MARK}, 1, 0) != 1);
	return made;
}

static void export_pools(const struct peer *peer)
{
	static struct pools pools;
	int descriptor, by_hand = make_by_hand();
	double *times = pools.times;

	pair_create_pool();
	BENCH_MUST(
		cuMemPoolExportToShareableHandle(&descriptor, pair_pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	BENCH_MUST(cenote_pool_watch(pair_pool, &pools.watch));
	BENCH_MUST(cuMemAllocFromPoolAsync(&blocks[0], BLOCK_BYTES, pair_pool, pair_stream));
	BENCH_MUST(cuMemsetD32Async(blocks[0], BLOCKS, 1, pair_stream));
	BENCH_MUST(cuStreamSynchronize(pair_stream));
	BENCH_MUST(cuMemPoolExportPointer(&names[0], blocks[0]));
	BENCH_MUST(cenote_send_descriptor(peer->sock, descriptor));
	put(peer->bytes_fd, names, sizeof *names);
	pools.peer = peer;
	struct bench_contestant contestants[] = {
		{.name = "a byte through two pipes and back", .once = run_import, .data = &pools},
		{.name = "cenote, import the pool", .once = told, .data = &times[POOL], .goal = 0.5},
		{.name = "cenote, and its first pointer", .once = told, .data = &times[FIRST_POINTER], .goal = 5},
		{.name = "cenote, destroy the imported pool", .once = told, .data = &times[DESTROY]},
		{.name = "by hand: shm_open, mmap, close", .once = told, .data = &times[BY_HAND]}};
	bench_contest(&(struct bench_contest){.group = "A pool of another process made usable",
					      .name = "import",
					      .baseline = "a byte through two pipes and back"},
		      contestants, sizeof contestants / sizeof *contestants);
	say(peer, 'q');
	BENCH_MUST(cuMemFreeAsync(blocks[0], pair_stream));
	BENCH_MUST(cuMemPoolDestroy(pair_pool));
	close(descriptor);
	close(pools.watch);
	close(by_hand);
	shm_unlink(by_hand_name);
}

int main(int argument_count, char **arguments)
{
	ucx_settle(arguments);
	bench_start("share", argument_count, arguments);
	snprintf(by_hand_name, sizeof by_hand_name, "/cenote-bench-%d", (int)getpid());
	if (bench_wanted(pointer_group, "export import free"))
		pair_run(export_pointers, import_pointers, 0, 1);
	if (bench_wanted("A pool of another process made usable", "import"))
		pair_run(export_pools, import_pools, 0, 1);
	return bench_finish();
}

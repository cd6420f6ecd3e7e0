/* SPDX-License-Identifier: MIT */
/*
 * What the calls of a pool cost when there is much of something: live blocks, streams, exports, importers, bytes. Each
 * is a curve, beside a mutex, so that load on the machine during one point does not distort the curve.
 *
 * A large setup is prepared in a process of its own, and measured there.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "allocators.h"
#include "draws.h"
#include "pair.h"

enum {
	SMALL_BYTES = 512, /* the least that a block has */
	LARGE_BYTES = 1 << 20,
	CHUNK_BYTES = 32 << 20, /* a pool's memory comes in these */
	DRAWS = 1 << 20,        /* drawn beforehand */
	OTHERS_LIVE_MAX = 1000000,
	STREAMS_MAX = 1000,
	BATCH = 250, /* pointers of one round */
	IMPORTERS_MAX = 256,
	REPETITIONS = 31, /* more would take long to prepare, and help little */
};

static const char *const mutex_name = "pthread mutex, lock and unlock";
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static double told(void *data)
{
	return *(double *)data;
}

static const char *count_text(unsigned long count)
{
	static char text[32];

	if (count < 1000)
		snprintf(text, sizeof text, "%lu", count);
	else if (count < 1000000)
		snprintf(text, sizeof text, "%lu,%03lu", count / 1000, count % 1000);
	else
		snprintf(text, sizeof text, "%lu,%03lu,%03lu", count / 1000000, count / 1000 % 1000, count % 1000);
	return text;
}

static const char *bytes_text(size_t bytes)
{
	static char text[32];
	size_t mib = bytes >> 20;

	if (mib < 1024)
		snprintf(text, sizeof text, "%zu MiB", mib);
	else
		snprintf(text, sizeof text, "%.3g GiB", (double)mib / 1024);
	return text;
}

static void start_library(void)
{
	bench_pin(0);
	pair_start_library();
}

static size_t device_bytes(void)
{
	size_t free_bytes, total_bytes;

	BENCH_MUST(cuMemGetInfo(&free_bytes, &total_bytes));
	return free_bytes;
}

/* ---- Live blocks ---- */

static void *pool_allocate(size_t bytes)
{
	CUdeviceptr pointer;

	BENCH_MUST(cuMemAllocFromPoolAsync(&pointer, bytes, pair_pool, pair_stream));
	return (void *)(uintptr_t)pointer;
}

static void pool_free(void *block)
{
	BENCH_MUST(cuMemFreeAsync((CUdeviceptr)(uintptr_t)block, pair_stream));
}

struct holder {
	const char *name;
	void *(*allocate)(size_t bytes);
	void (*free)(void *block);
	void **blocks;
	size_t bytes; /* of each */
	unsigned long count;
	unsigned at; /* in the draws */
};

static uint32_t draws[DRAWS];

static void make_draws(unsigned long count)
{
	uint64_t state = DRAW_START;

	for (unsigned i = 0; i < DRAWS; i++)
		draws[i] = (uint32_t)(draw(&state) % count);
}

/* Any of them is freed, and another is allocated. */
static void replace(void *data, unsigned long count)
{
	struct holder *holder = data;

	while (count--) {
		void **block = &holder->blocks[draws[holder->at++ % DRAWS]];
		holder->free(*block);
		*block = holder->allocate(holder->bytes);
	}
}

static void pair(void *data, unsigned long count)
{
	struct holder *holder = data;

	while (count--) {
		void *volatile block = holder->allocate(holder->bytes);
		holder->free(block);
	}
}

static void ask_used(void *data, unsigned long count)
{
	cuuint64_t *used = data;

	while (count--)
		BENCH_MUST(cuMemPoolGetAttribute(pair_pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used));
}

static int compare_pointers(const void *left, const void *right)
{
	uintptr_t a = *(const uintptr_t *)left, b = *(const uintptr_t *)right;

	return a < b ? -1 : a > b;
}

/* All are usable, and none overlaps another. */
static void check_holder(const struct holder *holder)
{
	qsort(holder->blocks, holder->count, sizeof *holder->blocks, compare_pointers);
	for (unsigned long i = 0; i < holder->count; i++) {
		BENCH_MUST(!holder->blocks[i]);
		BENCH_MUST(i && (char *)holder->blocks[i] - (char *)holder->blocks[i - 1] < (ptrdiff_t)holder->bytes);
	}
}

/* In an order that is independent of the addresses. */
static void shuffle(struct holder *holder)
{
	uint64_t state = DRAW_START;

	for (unsigned long i = holder->count; i > 1; i--) {
		unsigned long other = draw(&state) % i;
		void *block = holder->blocks[other];
		holder->blocks[other] = holder->blocks[i - 1];
		holder->blocks[i - 1] = block;
	}
}

/* Returns what each took. */
static double fill(struct holder *holder, unsigned long count)
{
	holder->blocks = malloc(count * sizeof *holder->blocks);
	BENCH_MUST(!holder->blocks);
	memset((void *)holder->blocks, 0, count * sizeof *holder->blocks); /* the pages are there before */
	holder->count = count;
	uint64_t before_ns = bench_now_ns();
	for (unsigned long i = 0; i < count; i++)
		holder->blocks[i] = holder->allocate(holder->bytes);
	double each_ns = (double)(bench_now_ns() - before_ns) / (double)count;
	check_holder(holder);
	shuffle(holder);
	return each_ns;
}

static double empty(struct holder *holder)
{
	uint64_t before_ns = bench_now_ns();
	for (unsigned long i = 0; i < holder->count; i++)
		holder->free(holder->blocks[i]);
	double each_ns = (double)(bench_now_ns() - before_ns) / (double)holder->count;

	free((void *)holder->blocks);
	return each_ns;
}

static const char *const replace_group = "A random block of so many replaced",
			 *const live_group = "Allocate and free beside live blocks",
			 *const each_group = "So many blocks allocated, then freed in any order: each";
static unsigned long live_count;

static struct holder others[BENCH_ALLOCATORS_MAX];
static unsigned other_count;

static void find_others(void)
{
	struct bench_allocator found[BENCH_ALLOCATORS_MAX];

	other_count = bench_allocators(replace_group, "all", found);
	for (unsigned i = 0; i < other_count; i++)
		others[i] = (struct holder){.name = found[i].name,
					    .allocate = found[i].allocate,
					    .free = found[i].free,
					    .bytes = SMALL_BYTES};
}

static void hold_replaced(struct holder *ours, const struct bench_contest *contest)
{
	struct bench_contestant contestants[1 + BENCH_ALLOCATORS_MAX] = {
		{.name = "cenote", .body = replace, .data = ours}};
	unsigned count = live_count <= OTHERS_LIVE_MAX ? other_count : 0;

	if (!count)
		bench_absent(contest->group, contest->name, "the others",
			     "their blocks would have to be touched: 5 GiB");
	for (unsigned i = 0; i < count; i++) {
		fill(&others[i], live_count);
		contestants[1 + i] =
			(struct bench_contestant){.name = others[i].name, .body = replace, .data = &others[i]};
	}
	bench_contest(contest, contestants, 1 + count);
	check_holder(ours);
	shuffle(ours);
	for (unsigned i = 0; i < count; i++)
		empty(&others[i]);
}

static void measure_live(void)
{
	struct holder ours = {.allocate = pool_allocate, .free = pool_free, .bytes = SMALL_BYTES};
	const char *name = count_text(live_count);
	struct bench_contest contest = {.name = name, .x = (double)live_count, .x_name = "live blocks"};

	if (!bench_wanted(replace_group, name) && !bench_wanted(live_group, name) && !bench_wanted(each_group, name))
		return;
	start_library();
	if (device_bytes() / SMALL_BYTES < 2 * live_count) {
		bench_absent(live_group, name, "cenote", "the device has not so much memory");
		return;
	}
	pair_create_pool();
	double filled_ns = fill(&ours, live_count), emptied_ns;
	make_draws(live_count);
	contest.group = replace_group;
	contest.baseline = live_count <= OTHERS_LIVE_MAX ? "glibc" : NULL;
	hold_replaced(&ours, &contest);
	contest.group = live_group;
	contest.baseline = mutex_name;
	contest.repetitions = REPETITIONS;
	cuuint64_t used;
	ask_used(&used, 1);
	struct bench_contestant beside[] = {{.name = "cenote, allocate and free", .body = pair, .data = &ours},
					    {.name = "cenote, ask how much is used", .body = ask_used, .data = &used},
					    {.name = mutex_name, .body = lock_and_unlock, .data = &mutex}};
	bench_contest(&contest, beside, 3);
	BENCH_MUST(used != live_count * SMALL_BYTES);
	emptied_ns = empty(&ours);
	contest.group = each_group;
	contest.repetitions = 1;
	struct bench_contestant three[] = {{.name = "cenote, allocate", .once = told, .data = &filled_ns},
					   {.name = "cenote, free", .once = told, .data = &emptied_ns},
					   {.name = mutex_name, .body = lock_and_unlock, .data = &mutex}};
	bench_contest(&contest, three, 3);
	BENCH_MUST(cuMemPoolDestroy(pair_pool));
}

static void by_live(void)
{
	for (live_count = 1000; live_count <= (bench_quick() ? 100000u : 10000000u); live_count *= 10)
		bench_in_child(measure_live);
}

/* ---- Streams ---- */

static CUstream streams[STREAMS_MAX];
static CUevent events[STREAMS_MAX];
static unsigned stream_count;

static void each_in_turn(void *data, unsigned long count)
{
	unsigned *at = data;
	CUdeviceptr block;

	while (count--) {
		CUstream stream = streams[(*at)++ % stream_count];
		BENCH_MUST(cuMemAllocFromPoolAsync(&block, SMALL_BYTES, pair_pool, stream));
		BENCH_MUST(cuMemFreeAsync(block, stream));
	}
}

/* Each allocates what only the first has freed. */
static void from_the_first(void *data, unsigned long count)
{
	unsigned *at = data;
	CUdeviceptr block;

	while (count--) {
		BENCH_MUST(
			cuMemAllocFromPoolAsync(&block, 64 * SMALL_BYTES, pair_pool, streams[(*at)++ % stream_count]));
		BENCH_MUST(cuMemFreeAsync(block, streams[0]));
	}
}

/* Each allocates, and the next one frees. */
static void by_the_next(void *data, unsigned long count)
{
	unsigned *at = data;
	CUdeviceptr block;

	while (count--) {
		BENCH_MUST(cuMemAllocFromPoolAsync(&block, SMALL_BYTES, pair_pool, streams[(*at)++ % stream_count]));
		BENCH_MUST(cuMemFreeAsync(block, streams[*at % stream_count]));
	}
}

static void record_and_wait(void *data, unsigned long count)
{
	unsigned *at = data;

	while (count--) {
		unsigned i = (*at)++ % stream_count;
		BENCH_MUST(cuEventRecord(events[i], streams[i]));
		BENCH_MUST(cuStreamWaitEvent(streams[*at % stream_count], events[i], 0));
	}
}

static void synchronize(void *data, unsigned long count)
{
	unsigned *at = data;

	while (count--)
		BENCH_MUST(cuStreamSynchronize(streams[(*at)++ % stream_count]));
}

static void measure_streams(void)
{
	unsigned at[5] = {0};

	start_library();
	pair_create_pool();
	for (unsigned i = 0; i < stream_count; i++) {
		BENCH_MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		BENCH_MUST(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
	}
	struct bench_contestant contestants[] = {
		{.name = "cenote, allocate and free, on each in turn", .body = each_in_turn, .data = &at[0]},
		{.name = "cenote, … freed by the next", .body = by_the_next, .data = &at[1]},
		{.name = "cenote, … what only the first has freed", .body = from_the_first, .data = &at[2]},
		{.name = "cenote, record, and the next waits", .body = record_and_wait, .data = &at[3]},
		{.name = "cenote, synchronize", .body = synchronize, .data = &at[4]},
		{.name = mutex_name, .body = lock_and_unlock, .data = &mutex}};
	bench_contest(&(struct bench_contest){.group = "With so many streams",
					      .name = count_text(stream_count),
					      .baseline = mutex_name,
					      .repetitions = REPETITIONS,
					      .x = stream_count,
					      .x_name = "streams"},
		      contestants, sizeof contestants / sizeof *contestants);
	for (unsigned i = 0; i < stream_count; i++) {
		BENCH_MUST(cuEventDestroy(events[i]));
		BENCH_MUST(cuStreamDestroy(streams[i]));
	}
	BENCH_MUST(cuMemPoolDestroy(pair_pool));
}

static void by_streams(void)
{
	for (stream_count = 1; stream_count <= STREAMS_MAX; stream_count *= 10)
		bench_in_child(measure_streams);
}

/* ---- Bytes ---- */

static size_t pool_bytes; /* 0: all that there is */

static void make_pool(void *data, unsigned long count)
{
	CUmemPoolProps *properties = data;
	CUmemoryPool pool;

	while (count--) {
		BENCH_MUST(cuMemPoolCreate(&pool, properties));
		BENCH_MUST(cuMemPoolDestroy(pool));
	}
}

/* Blocks in a pool that is full of others; none of them is touched. */
static void measure_bytes(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	struct holder large = {.allocate = pool_allocate, .free = pool_free, .bytes = LARGE_BYTES};
	struct holder small = {.allocate = pool_allocate, .free = pool_free, .bytes = SMALL_BYTES};

	start_library();
	if (!pool_bytes)
		pool_bytes = device_bytes() / CHUNK_BYTES * CHUNK_BYTES;
	if (pool_bytes > device_bytes())
		return; /* the last point is all that there is */
	properties.maxSize = pool_bytes;
	BENCH_MUST(cuMemPoolCreate(&pair_pool, &properties));
	fill(&large, pool_bytes / LARGE_BYTES - 1);
	make_draws(large.count);
	struct bench_contestant contestants[] = {
		{.name = "cenote, a random MiB replaced", .body = replace, .data = &large},
		{.name = "cenote, allocate and free 512 bytes", .body = pair, .data = &small},
		{.name = mutex_name, .body = lock_and_unlock, .data = &mutex}};
	struct bench_contest contest = {.group = "In a full pool of so many bytes",
					.name = bytes_text(pool_bytes),
					.baseline = mutex_name,
					.repetitions = REPETITIONS,
					.x = (double)pool_bytes,
					.x_name = "bytes"};
	bench_contest(&contest, contestants, 3);
	check_holder(&large);
	empty(&large);
	BENCH_MUST(cuMemPoolDestroy(pair_pool));
	contest.group = "A pool of so many bytes created and destroyed";
	contest.repetitions = 11;
	struct bench_contestant two[] = {{.name = "cenote", .body = make_pool, .data = &properties},
					 {.name = mutex_name, .body = lock_and_unlock, .data = &mutex}};
	bench_contest(&contest, two, 2);
}

static void by_bytes(void)
{
	for (pool_bytes = (size_t)64 << 20; pool_bytes <= (size_t)64 << 30; pool_bytes *= 8)
		bench_in_child(measure_bytes);
	pool_bytes = 0;
	bench_in_child(measure_bytes);
}

/* ---- Between processes ---- */

/* How much there is of everything: each curve varies one of them. */
static struct {
	struct bench_contest contest;
	unsigned long exports; /* that are live and imported, besides those that are measured */
	unsigned importers;
	size_t pool_bytes; /* 0: as usual */
	int sock[2];       /* for the idle importers */
	int ready[2];
	CUmemPoolPtrExportData *name;
} shape;

enum { IMPORT, FREE_IMPORTED, IMPORTER_TIMES, EXPORT = IMPORTER_TIMES, FREE_EXPORTED, MUTEX, TIMES };

static CUmemPoolPtrExportData names[BATCH];
static CUdeviceptr blocks[BATCH];

#define TIME_EACH(ret_ns, call)                                        \
	do {                                                           \
		uint64_t each_ns = bench_now_ns();                     \
		for (unsigned i = 0; i < BATCH; i++)                   \
			BENCH_MUST(call);                              \
		(ret_ns) = (double)(bench_now_ns() - each_ns) / BATCH; \
	} while (0)

/* k: import, and keep. w: import, and free. q: the end. */
static void import_blocks(const struct peer *peer)
{
	double times[IMPORTER_TIMES];

	BENCH_MUST(cenote_recv_pool(peer->sock, &pair_pool));
	for (char asked; (asked = hear(peer)) != 'q';) {
		get(peer->bytes_fd, names, sizeof names);
		TIME_EACH(times[IMPORT], cuMemPoolImportPointer(&blocks[i], pair_pool, &names[i]));
		if (asked == 'w') {
			TIME_EACH(times[FREE_IMPORTED], cuMemFreeAsync(blocks[i], pair_stream));
			put(peer->out, times, sizeof times);
		} else {
			say(peer, 'k'); /* for good: they go with the process */
		}
	}
}

struct round {
	const struct peer *peer;
	double times[TIMES];
};

static double run_round(void *data)
{
	struct round *round = data;

	for (unsigned i = 0; i < BATCH; i++)
		BENCH_MUST(cuMemAllocFromPoolAsync(&blocks[i], SMALL_BYTES, pair_pool, pair_stream));
	TIME_EACH(round->times[EXPORT], cuMemPoolExportPointer(&names[i], blocks[i]));
	say(round->peer, 'w');
	put(round->peer->bytes_fd, names, sizeof names);
	get(round->peer->in, round->times, IMPORTER_TIMES * sizeof *round->times);
	TIME_EACH(round->times[FREE_EXPORTED], cuMemFreeAsync(blocks[i], pair_stream));
	TIME_EACH(round->times[MUTEX], pthread_mutex_lock(&mutex) || pthread_mutex_unlock(&mutex));
	return round->times[MUTEX];
}

static void create_shared_pool(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
				     .maxSize = shape.pool_bytes};

	BENCH_MUST(cuMemPoolCreate(&pair_pool, &properties));
}

/* All importers but the peer import one block, and stay. */
static void gather_importers(void)
{
	CUdeviceptr block;
	char byte;

	BENCH_MUST(cuMemAllocFromPoolAsync(&block, SMALL_BYTES, pair_pool, pair_stream));
	BENCH_MUST(cuMemPoolExportPointer(shape.name, block));
	for (unsigned i = 1; i < shape.importers; i++)
		BENCH_MUST(cenote_send_pool(shape.sock[0], pair_pool));
	for (unsigned i = 1; i < shape.importers; i++)
		get(shape.ready[0], &byte, 1);
}

static void export_blocks(const struct peer *peer)
{
	static struct round round;
	double *times = round.times;

	create_shared_pool();
	BENCH_MUST(cenote_send_pool(peer->sock, pair_pool));
	if (shape.exports && device_bytes() / SMALL_BYTES < 2 * shape.exports) {
		bench_absent(shape.contest.group, shape.contest.name, "cenote", "the device has not so much memory");
		say(peer, 'q');
		return;
	}
	gather_importers();
	if (shape.pool_bytes) /* it is full, except for what is measured */
		for (size_t left = shape.pool_bytes / LARGE_BYTES - 1; left; left--)
			pool_allocate(LARGE_BYTES);
	for (unsigned long left = shape.exports / BATCH; left; left--) {
		for (unsigned i = 0; i < BATCH; i++) {
			BENCH_MUST(cuMemAllocFromPoolAsync(&blocks[i], SMALL_BYTES, pair_pool, pair_stream));
			BENCH_MUST(cuMemPoolExportPointer(&names[i], blocks[i]));
		}
		say(peer, 'k');
		put(peer->bytes_fd, names, sizeof names);
		BENCH_MUST(hear(peer) != 'k');
	}
	round.peer = peer;
	shape.contest.baseline = mutex_name;
	shape.contest.repetitions = REPETITIONS;
	struct bench_contestant contestants[] = {
		{.name = mutex_name, .once = run_round, .data = &round},
		{.name = "cenote, export", .once = told, .data = &times[EXPORT]},
		{.name = "cenote, import", .once = told, .data = &times[IMPORT]},
		{.name = "cenote, free the imported", .once = told, .data = &times[FREE_IMPORTED]},
		{.name = "cenote, free the exported", .once = told, .data = &times[FREE_EXPORTED]}};
	bench_contest(&shape.contest, contestants, sizeof contestants / sizeof *contestants);
	say(peer, 'q');
}

/* An importer that stays, and does no more. */
static void be_there(void)
{
	CUdeviceptr block;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	start_library();
	BENCH_MUST(cenote_recv_pool(shape.sock[1], &pair_pool));
	BENCH_MUST(cuMemPoolImportPointer(&block, pair_pool, shape.name));
	put(shape.ready[1], "r", 1);
	for (;;)
		pause();
}

static void measure_shared(void)
{
	pid_t idle[IMPORTERS_MAX];
	unsigned count = shape.importers - 1;

	if (!bench_wanted(shape.contest.group, shape.contest.name))
		return;
	shape.name = mmap(NULL, sizeof *shape.name, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	BENCH_MUST(shape.name == MAP_FAILED || pipe(shape.ready));
	BENCH_MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, shape.sock));
	fflush(stdout);
	for (unsigned i = 0; i < count; i++) {
		idle[i] = fork();
		BENCH_MUST(idle[i] < 0);
		if (!idle[i])
			be_there();
	}
	pair_run(export_blocks, import_blocks, 0, 1);
	for (unsigned i = 0; i < count; i++)
		kill(idle[i], SIGKILL);
	for (unsigned i = 0; i < count; i++)
		BENCH_MUST(waitpid(idle[i], NULL, 0) != idle[i]);
	for (unsigned i = 0; i < 2; i++)
		close(shape.ready[i]), close(shape.sock[i]);
	munmap(shape.name, sizeof *shape.name);
}

static void shared(void)
{
	shape.importers = 1;
	for (unsigned long count = 1000; count <= (bench_quick() ? 10000u : 1000000u); count *= 10) {
		shape.exports = count;
		shape.contest = (struct bench_contest){.group = "Pointers beside so many exports that are imported",
						       .name = count_text(count),
						       .x = (double)count,
						       .x_name = "live exports"};
		measure_shared();
	}
	shape.exports = 0;
	for (unsigned count = 1; count <= (bench_quick() ? 64 : IMPORTERS_MAX); count *= 4) {
		shape.importers = count;
		shape.contest = (struct bench_contest){.group = "Pointers of a pool with so many importers",
						       .name = count_text(count),
						       .x = count,
						       .x_name = "importers"};
		measure_shared();
	}
	shape.importers = 1;
	for (size_t bytes = (size_t)64 << 20; bytes <= (size_t)4 << 30; bytes *= 8) {
		shape.pool_bytes = bytes;
		shape.contest = (struct bench_contest){.group = "Pointers of a full pool of so many bytes",
						       .name = bytes_text(bytes),
						       .x = (double)bytes,
						       .x_name = "bytes"};
		measure_shared();
	}
}

int main(int argument_count, char **arguments)
{
	bench_make_room(arguments);
	bench_start("scale", argument_count, arguments);
	find_others();
	by_live();
	by_streams();
	by_bytes();
	shared();
	return bench_finish();
}

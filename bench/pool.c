/* SPDX-License-Identifier: MIT */
/*
 * What allocating in stream order costs, compared with malloc: glibc's, and mimalloc's and jemalloc's if they are
 * installed (they are looked for by name at run time).
 *
 * A stream-ordered allocator does not touch the memory that it manages, and neither do the measurements; between them
 * it is checked that the blocks are usable and do not overlap.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include "allocators.h"
#include "cenote.h"
#include "draws.h"
#include "harness.h"

enum {
	BURST = 1000,
	ALLOCATORS_MAX = 1 + BENCH_ALLOCATORS_MAX,
	RING = 1024, /* blocks on their way from a thread to the other */
	THREAD_BYTES = 4096,
	LINE_BYTES = 64,
	SPINS_MAX = 1000, /* then yield, in case the other has no CPU */
	THREAD_PAIRS = 20000,
};

struct allocator {
	const char *name;
	void *(*allocate)(size_t bytes);
	void (*free)(void *block);
	void (*free_elsewhere)(void *block); /* from the other stream, where there are streams */
	void (*set)(void *at, unsigned char value);
	unsigned char (*get)(void *at);
};

static CUstream streams[2];
static CUcontext context;
static struct allocator allocators[ALLOCATORS_MAX];
static unsigned allocator_count;
static const char *baseline = "glibc";

/* ---- The contestants ---- */

static _Thread_local CUstream own_stream, other_stream;

static void *pool_allocate(size_t bytes)
{
	CUdeviceptr pointer;

	BENCH_MUST(cuMemAllocAsync(&pointer, bytes, own_stream));
	return (void *)(uintptr_t)pointer;
}

static void pool_free(void *block)
{
	BENCH_MUST(cuMemFreeAsync((CUdeviceptr)(uintptr_t)block, own_stream));
}

static void pool_free_elsewhere(void *block)
{
	BENCH_MUST(cuMemFreeAsync((CUdeviceptr)(uintptr_t)block, other_stream));
}

static void pool_set(void *at, unsigned char value)
{
	BENCH_MUST(cuMemsetD8((CUdeviceptr)(uintptr_t)at, value, 1));
	BENCH_MUST(cuCtxSynchronize());
}

static unsigned char pool_get(void *at)
{
	unsigned char value;

	BENCH_MUST(cuMemcpyDtoH(&value, (CUdeviceptr)(uintptr_t)at, 1));
	return value;
}

static void heap_set(void *at, unsigned char value)
{
	*(volatile unsigned char *)at = value;
}

static unsigned char heap_get(void *at)
{
	return *(volatile unsigned char *)at;
}

static void find_allocators(void)
{
	struct bench_allocator others[BENCH_ALLOCATORS_MAX];
	unsigned count = bench_allocators("Allocate and free a block", "all sizes", others);

	allocators[allocator_count++] =
		(struct allocator){"cenote", pool_allocate, pool_free, pool_free_elsewhere, pool_set, pool_get};
	for (unsigned i = 0; i < count; i++)
		allocators[allocator_count++] = (struct allocator){others[i].name, others[i].allocate, others[i].free,
								   others[i].free, heap_set,           heap_get};
	if (!strcmp(allocators[allocator_count - 1].name, "mimalloc"))
		baseline = "mimalloc";
}

/* ---- One thread ---- */

struct work {
	const struct allocator *allocator;
	size_t bytes;
	unsigned at; /* in the steps */
	void *blocks[CHURN_SLOTS];
	size_t block_bytes[CHURN_SLOTS];
};

static void pair(void *data, unsigned long count)
{
	struct work *work = data;
	const struct allocator *allocator = work->allocator;

	while (count--) {
		void *volatile block = allocator->allocate(work->bytes);
		allocator->free(block);
	}
}

static void pair_elsewhere(void *data, unsigned long count)
{
	struct work *work = data;
	const struct allocator *allocator = work->allocator;

	while (count--) {
		void *volatile block = allocator->allocate(work->bytes);
		allocator->free_elsewhere(block);
	}
}

/* Two blocks are usable from the first byte to the last, and do not overlap. */
static void check_pair(void *data)
{
	struct work *work = data;
	const struct allocator *allocator = work->allocator;
	char *one = allocator->allocate(work->bytes), *two = allocator->allocate(work->bytes);

	BENCH_MUST(!one || !two || one == two);
	allocator->set(one, 1), allocator->set(one + work->bytes - 1, 2);
	allocator->set(two, 3), allocator->set(two + work->bytes - 1, 4);
	BENCH_MUST(allocator->get(one) != 1 || allocator->get(one + work->bytes - 1) != 2);
	BENCH_MUST(allocator->get(two) != 3 || allocator->get(two + work->bytes - 1) != 4);
	allocator->free(two);
	allocator->free(one);
}

static void burst(void *data, unsigned long count)
{
	struct work *work = data;
	const struct allocator *allocator = work->allocator;

	while (count--) {
		for (unsigned i = 0; i < BURST; i++)
			work->blocks[i] = allocator->allocate(work->bytes);
		for (unsigned i = 0; i < BURST; i++)
			allocator->free(work->blocks[i]);
	}
}

struct extent {
	uintptr_t address;
	size_t bytes;
};

static int compare_extents(const void *left, const void *right)
{
	const struct extent *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

static void check_disjoint(struct extent *extents, unsigned count)
{
	qsort(extents, count, sizeof *extents, compare_extents);
	for (unsigned i = 0; i < count; i++) {
		BENCH_MUST(!extents[i].address);
		BENCH_MUST(i && extents[i - 1].address + extents[i - 1].bytes > extents[i].address);
	}
}

/* The blocks of the last burst were all live at once. */
static void check_burst(void *data)
{
	static struct extent extents[BURST];
	struct work *work = data;

	for (unsigned i = 0; i < BURST; i++)
		extents[i] = (struct extent){(uintptr_t)work->blocks[i], work->bytes};
	check_disjoint(extents, BURST);
}

static struct churn steps[CHURN_STEPS];

/* Fills an empty slot, and empties a full one: each is one operation. */
static void churn(void *data, unsigned long count)
{
	struct work *work = data;
	const struct allocator *allocator = work->allocator;

	while (count--) {
		unsigned i = work->at++ % CHURN_STEPS, slot = steps[i].slot;
		if (work->blocks[slot]) {
			allocator->free(work->blocks[slot]);
			work->blocks[slot] = NULL;
		} else {
			work->blocks[slot] = allocator->allocate(steps[i].bytes);
			work->block_bytes[slot] = steps[i].bytes;
		}
	}
}

static void check_churn(void *data)
{
	static struct extent extents[CHURN_SLOTS];
	struct work *work = data;
	unsigned count = 0;

	for (unsigned i = 0; i < CHURN_SLOTS; i++)
		if (work->blocks[i])
			extents[count++] = (struct extent){(uintptr_t)work->blocks[i], work->block_bytes[i]};
	check_disjoint(extents, count);
}

static struct work works[ALLOCATORS_MAX];

/* All allocators as contestants; the first is ours. */
static void hold(struct bench_contest contest, size_t bytes, void (*body)(void *work, unsigned long count),
		 void (*check)(void *work), double goal, const char *goal_of)
{
	struct bench_contestant contestants[ALLOCATORS_MAX] = {{0}};

	contest.baseline = baseline;
	for (unsigned i = 0; i < allocator_count; i++) {
		works[i] = (struct work){.allocator = &allocators[i], .bytes = bytes};
		contestants[i] = (struct bench_contestant){
			.name = allocators[i].name, .body = body, .check = check, .data = &works[i]};
	}
	contestants[0].goal = goal;
	contestants[0].goal_of = goal_of;
	bench_contest(&contest, contestants, allocator_count);
}

static const struct {
	const char *name;
	size_t bytes;
} sizes[] = {{"256 B", 256},       {"4 KiB", 4 << 10},   {"64 KiB", 64 << 10},  {"1 MiB", 1 << 20},
	     {"16 MiB", 16 << 20}, {"64 MiB", 64 << 20}, {"256 MiB", 256 << 20}};

static void one_thread(void)
{
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		hold((struct bench_contest){.group = "Allocate and free a block",
					    .name = sizes[i].name,
					    .x = (double)sizes[i].bytes,
					    .x_name = "bytes"},
		     sizes[i].bytes, pair, check_pair, sizes[i].bytes < 4096 ? 3 : 1.5, "mimalloc");
	for (unsigned i = 0; i < 3; i++)
		hold((struct bench_contest){.group = "Allocate 1,000 blocks, then free them: each",
					    .name = sizes[i].name,
					    .operations = BURST},
		     sizes[i].bytes, burst, check_burst, 3, "mimalloc");
	hold((struct bench_contest){.group = "Churn: one of 4,096 slots filled or emptied", .name = "256 B to 512 KiB"},
	     0, churn, check_churn, 1.5, "mimalloc");
	for (unsigned i = 0; i < allocator_count; i++)
		for (unsigned slot = 0; slot < CHURN_SLOTS; slot++)
			if (works[i].blocks[slot])
				allocators[i].free(works[i].blocks[slot]);
	hold((struct bench_contest){.group = "Allocated on one stream, freed on another", .name = "4 KiB, one thread"},
	     4096, pair_elsewhere, check_pair, 3, "mimalloc");
}

/* ---- Two threads ---- */

enum turn { PAIRS, PASS_ON, END };

static struct {
	pthread_barrier_t barrier;
	const struct allocator *allocator;
	unsigned long count;
	unsigned thread_count;
	enum turn turn;
	_Atomic unsigned ready; /* threads that are about to begin */
	uint64_t taken_ns[2];
} orders;

/* Blocks in transit: each side writes one of the two numbers, which are not in one cache line. */
static struct {
	_Alignas(LINE_BYTES) _Atomic unsigned long put;
	_Alignas(LINE_BYTES) _Atomic unsigned long taken;
	_Alignas(LINE_BYTES) void *blocks[RING];
} ring;

static void pass_on(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		for (unsigned spins = 0; i - atomic_load_explicit(&ring.taken, memory_order_acquire) == RING; spins++)
			if (spins > SPINS_MAX)
				sched_yield();
		ring.blocks[i % RING] = orders.allocator->allocate(THREAD_BYTES);
		BENCH_MUST(!ring.blocks[i % RING]);
		atomic_store_explicit(&ring.put, i + 1, memory_order_release);
	}
}

static void take_and_free(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		for (unsigned spins = 0; i == atomic_load_explicit(&ring.put, memory_order_acquire); spins++)
			if (spins > SPINS_MAX)
				sched_yield();
		orders.allocator->free(ring.blocks[i % RING]);
		atomic_store_explicit(&ring.taken, i + 1, memory_order_release);
	}
}

/* All begin at the same time, and each reports how long it took: the time to wake them is not part of it. */
static void do_turn(unsigned number, struct work *work)
{
	atomic_fetch_add(&orders.ready, 1);
	for (unsigned spins = 0; atomic_load(&orders.ready) < orders.thread_count; spins++)
		if (spins > SPINS_MAX)
			sched_yield();
	uint64_t before_ns = bench_now_ns();
	if (orders.turn == PAIRS)
		pair(work, orders.count);
	else if (number == 0)
		pass_on(orders.count);
	else
		take_and_free(orders.count);
	orders.taken_ns[number] = bench_now_ns() - before_ns;
}

static void *run_thread(void *data)
{
	unsigned number = (unsigned)(uintptr_t)data;
	struct work work = {.bytes = THREAD_BYTES};

	bench_pin(number);
	BENCH_MUST(cuCtxSetCurrent(context));
	own_stream = streams[number];
	for (;;) {
		pthread_barrier_wait(&orders.barrier);
		if (orders.turn == END)
			return NULL;
		work.allocator = orders.allocator;
		if (number < orders.thread_count)
			do_turn(number, &work);
		pthread_barrier_wait(&orders.barrier);
	}
}

struct threads_work {
	const struct allocator *allocator;
	enum turn turn;
	unsigned thread_count;
};

/* Nanoseconds for each pair, of all threads together: for two that do not disturb each other, half of one's. */
static double run_threads(void *data)
{
	const struct threads_work *work = data;

	orders.allocator = work->allocator;
	orders.turn = work->turn;
	orders.thread_count = work->thread_count;
	orders.count = THREAD_PAIRS;
	orders.taken_ns[0] = orders.taken_ns[1] = 0;
	atomic_store(&orders.ready, 0);
	atomic_store(&ring.put, 0);
	atomic_store(&ring.taken, 0);
	pthread_barrier_wait(&orders.barrier);
	pthread_barrier_wait(&orders.barrier);
	if (work->turn == PASS_ON)
		return (double)orders.taken_ns[1] / (double)orders.count;
	double mean_ns = (double)(orders.taken_ns[0] + orders.taken_ns[1]) / work->thread_count;
	return mean_ns / (double)(orders.count * work->thread_count);
}

static void check_threads(void *data)
{
	struct work work = {.allocator = ((struct threads_work *)data)->allocator, .bytes = THREAD_BYTES};

	check_pair(&work);
}

static void hold_threads(struct bench_contest contest, enum turn turn)
{
	struct bench_contestant contestants[ALLOCATORS_MAX] = {{0}};
	struct threads_work each[ALLOCATORS_MAX];

	contest.baseline = baseline;
	for (unsigned i = 0; i < allocator_count; i++) {
		each[i] = (struct threads_work){&allocators[i], turn, 2};
		contestants[i] = (struct bench_contestant){
			.name = allocators[i].name, .once = run_threads, .check = check_threads, .data = &each[i]};
	}
	bench_contest(&contest, contestants, allocator_count);
}

static void two_threads(void)
{
	pthread_t threads[2];
	struct threads_work one = {&allocators[0], PAIRS, 1}, two = {&allocators[0], PAIRS, 2};
	struct bench_contestant scaling[] = {
		{.name = "cenote", .once = run_threads, .data = &two, .goal = 1 / 1.6, .goal_of = "cenote, one thread"},
		{.name = "cenote, one thread", .once = run_threads, .data = &one}};

	BENCH_MUST(pthread_barrier_init(&orders.barrier, NULL, 3));
	for (unsigned i = 0; i < 2; i++)
		BENCH_MUST(pthread_create(&threads[i], NULL, run_thread, (void *)(uintptr_t)i));
	hold_threads((struct bench_contest){.group = "Two threads allocate and free: each pair", .name = "4 KiB"},
		     PAIRS);
	if (bench_cpu_count() > 1)
		bench_contest(&(struct bench_contest){.group = "Two threads allocate and free: each pair",
						      .name = "4 KiB, beside one thread",
						      .baseline = "cenote, one thread"},
			      scaling, 2);
	hold_threads((struct bench_contest){.group = "Allocated on one stream, freed on another",
					    .name = "4 KiB, by another thread"},
		     PASS_ON);
	orders.turn = END;
	pthread_barrier_wait(&orders.barrier);
	for (unsigned i = 0; i < 2; i++)
		BENCH_MUST(pthread_join(threads[i], NULL));
}

int main(int argument_count, char **arguments)
{
	bench_make_room(arguments);
	bench_start("pool", argument_count, arguments);
	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, 0));
	BENCH_MUST(cuCtxSetCurrent(context));
	for (unsigned i = 0; i < 2; i++)
		BENCH_MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	own_stream = streams[0];
	other_stream = streams[1];
	find_allocators();
	draw_churn(steps);

	bench_pin(0);
	one_thread();
	bench_unpin();
	two_threads();

	for (unsigned i = 0; i < 2; i++)
		BENCH_MUST(cuStreamDestroy(streams[i]));
	BENCH_MUST(cuDevicePrimaryCtxRelease(0));
	return bench_finish();
}

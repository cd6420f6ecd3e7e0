/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate and free blocks of all sizes: N of them, a stream each, in one pool. Each has 64 slots, and
 * fills or empties a random one with 256 B to 512 KiB. What counts is the time of a pair, an allocation and a free, of
 * all threads together: with more threads than one, and as many processors, it should fall.
 *
 * Beside it: a lock and an unlock of a mutex that each thread has for itself, which is what a pair would cost at least
 * if every stream were on its own; and malloc, glibc's and others where they are installed. Then the memory that the
 * pool reserved for it at most, beside what was in use at most.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <cuda.h>

#include "allocators.h"
#include "draws.h"
#include "harness.h"

enum {
	THREADS_MAX = 16,
	SLOTS = 64,
	WARM_STEPS = 1 << 15,
	STEPS = 1 << 16,
	SPINS_MAX = 1000,
	CONTESTANTS_MAX = 2 + BENCH_ALLOCATORS_MAX
};

static const char *const group = "Threads with mixed sizes, a pair";

struct contestant {
	const char *name;
	void *(*allocate)(size_t bytes);
	void (*free)(void *block);
	unsigned number;
};

/* What a thread has of each contestant goes on from one repetition to the next. */
struct thread {
	unsigned number;
	pthread_t id;
	struct {
		uint64_t state;
		void *blocks[SLOTS];
	} works[CONTESTANTS_MAX];
	uint64_t begin_ns, end_ns;
};

/* The threads of a contest, and what they do next. */
static struct {
	struct thread threads[THREADS_MAX];
	unsigned count;
	pthread_barrier_t barrier;
	const struct contestant *contestant; /* NULL: they end */
	_Atomic unsigned ready;              /* threads that are about to begin */
} crew;

static CUcontext context;
static CUstream streams[THREADS_MAX];
static _Thread_local CUstream own_stream;
static _Thread_local pthread_mutex_t own_mutex = PTHREAD_MUTEX_INITIALIZER;

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

static void *mutex_lock(size_t bytes)
{
	(void)bytes;
	BENCH_MUST(pthread_mutex_lock(&own_mutex));
	BENCH_MUST(pthread_mutex_unlock(&own_mutex));
	return &own_mutex;
}

static void mutex_nothing(void *block)
{
	(void)block;
}

static void work(const struct contestant *contestant, uint64_t *state, void *blocks[SLOTS], unsigned steps)
{
	while (steps--) {
		uint64_t drawn = draw(state);
		void *volatile *slot = &blocks[drawn % SLOTS];
		if (*slot) {
			contestant->free(*slot);
			*slot = NULL;
			continue;
		}
		size_t low = (size_t)CHURN_BYTES_MIN << (drawn >> 8) % 11;
		*slot = contestant->allocate(low + (size_t)(drawn >> 16) % low);
		BENCH_MUST(!*slot);
	}
}

/* All begin at the same time, and each says when it began and ended: the time to wake them is not part of it. */
static void do_turn(struct thread *thread, const struct contestant *contestant)
{
	uint64_t *state = &thread->works[contestant->number].state;
	void **blocks = thread->works[contestant->number].blocks;

	work(contestant, state, blocks, WARM_STEPS);
	atomic_fetch_add(&crew.ready, 1);
	for (unsigned spins = 0; atomic_load(&crew.ready) < crew.count; spins++)
		if (spins > SPINS_MAX)
			sched_yield();
	thread->begin_ns = bench_now_ns();
	work(contestant, state, blocks, STEPS);
	thread->end_ns = bench_now_ns();
}

static void *run(void *data)
{
	struct thread *thread = data;

	bench_pin(thread->number);
	BENCH_MUST(cuCtxSetCurrent(context));
	own_stream = streams[thread->number];
	for (;;) {
		pthread_barrier_wait(&crew.barrier);
		if (!crew.contestant)
			return NULL;
		do_turn(thread, crew.contestant);
		pthread_barrier_wait(&crew.barrier);
	}
}

/* Nanoseconds of a pair, of all threads together. */
static double run_all(void *data)
{
	uint64_t begin_ns = UINT64_MAX, end_ns = 0;

	crew.contestant = data;
	atomic_store(&crew.ready, 0);
	pthread_barrier_wait(&crew.barrier);
	pthread_barrier_wait(&crew.barrier);
	for (unsigned i = 0; i < crew.count; i++) {
		const struct thread *thread = &crew.threads[i];
		begin_ns = thread->begin_ns < begin_ns ? thread->begin_ns : begin_ns;
		end_ns = thread->end_ns > end_ns ? thread->end_ns : end_ns;
	}
	return (double)(end_ns - begin_ns) / ((double)crew.count * STEPS / 2);
}

static void start_crew(unsigned count)
{
	crew.count = count;
	BENCH_MUST(pthread_barrier_init(&crew.barrier, NULL, count + 1));
	for (unsigned i = 0; i < count; i++) {
		struct thread *thread = &crew.threads[i];
		*thread = (struct thread){.number = i};
		for (unsigned j = 0; j < CONTESTANTS_MAX; j++)
			thread->works[j].state = DRAW_START + i;
		BENCH_MUST(pthread_create(&thread->id, NULL, run, thread));
	}
}

/* The blocks are freed here: the contestants' functions do not care which thread that is, but for the stream. */
static void end_crew(const struct contestant *contestants, unsigned contestant_count)
{
	crew.contestant = NULL;
	pthread_barrier_wait(&crew.barrier);
	for (unsigned i = 0; i < crew.count; i++) {
		struct thread *thread = &crew.threads[i];
		BENCH_MUST(pthread_join(thread->id, NULL));
		own_stream = streams[i];
		for (unsigned j = 0; j < contestant_count; j++)
			for (unsigned slot = 0; slot < SLOTS; slot++)
				if (thread->works[j].blocks[slot])
					contestants[j].free(thread->works[j].blocks[slot]);
	}
	BENCH_MUST(pthread_barrier_destroy(&crew.barrier));
}

static unsigned find_contestants(struct contestant contestants[CONTESTANTS_MAX])
{
	struct bench_allocator others[BENCH_ALLOCATORS_MAX];
	unsigned other_count = bench_allocators(group, "all", others), count = 0;

	contestants[count++] = (struct contestant){"cenote", pool_allocate, pool_free, 0};
	contestants[count++] = (struct contestant){"a mutex for each thread", mutex_lock, mutex_nothing, 1};
	for (unsigned i = 0; i < other_count; i++, count++)
		contestants[count] = (struct contestant){others[i].name, others[i].allocate, others[i].free, count};
	return count;
}

static double attribute(CUmemPool_attribute attribute)
{
	CUmemoryPool pool;
	cuuint64_t value;

	BENCH_MUST(cuDeviceGetMemPool(&pool, 0));
	BENCH_MUST(cuMemPoolGetAttribute(pool, attribute, &value));
	return (double)value;
}

/* As programs do that care for speed: what the threads need for themselves is more than they use. */
static void keep_memory(void)
{
	CUmemoryPool pool;
	cuuint64_t everything = UINT64_MAX;

	BENCH_MUST(cuDeviceGetMemPool(&pool, 0));
	BENCH_MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything));
}

static void reset_high_water(void)
{
	CUmemoryPool pool;
	cuuint64_t zero = 0;

	BENCH_MUST(cuDeviceGetMemPool(&pool, 0));
	BENCH_MUST(cuMemPoolTrimTo(pool, 0));
	BENCH_MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
	BENCH_MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
}

static double reserved_high(void *data)
{
	(void)data;
	return attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
}

static double used_high(void *data)
{
	(void)data;
	return attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH);
}

int main(int argument_count, char **arguments)
{
	struct contestant contestants[CONTESTANTS_MAX];
	CUdevice device;

	bench_make_room(arguments);
	bench_start("mixed", argument_count, arguments);
	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDeviceGet(&device, 0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, device));
	BENCH_MUST(cuCtxSetCurrent(context));
	keep_memory();
	for (unsigned i = 0; i < THREADS_MAX; i++)
		BENCH_MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	unsigned count = find_contestants(contestants);

	for (unsigned threads = 1; threads <= THREADS_MAX; threads *= 2) {
		struct bench_contestant all[CONTESTANTS_MAX] = {{.name = NULL}};
		char name[32];
		snprintf(name, sizeof name, "%u thread%s", threads, threads > 1 ? "s" : "");
		if (threads > 2 * bench_cpu_count())
			break;
		for (unsigned i = 0; i < count; i++)
			all[i] = (struct bench_contestant){
				.name = contestants[i].name, .once = run_all, .data = &contestants[i]};
		reset_high_water();
		start_crew(threads);
		bench_contest(&(struct bench_contest){.group = group,
						      .name = name,
						      .baseline = "glibc",
						      .repetitions = 11,
						      .x = threads,
						      .x_name = "threads"},
			      all, count);
		end_crew(contestants, count);
		struct bench_contestant memory[] = {
			{.name = "reserved at most", .once = reserved_high},
			{.name = "used at most", .once = used_high},
		};
		bench_contest(&(struct bench_contest){.group = "Memory for it",
						      .name = name,
						      .baseline = "used at most",
						      .unit = "bytes",
						      .repetitions = 1},
			      memory, 2);
	}
	for (unsigned i = 0; i < THREADS_MAX; i++)
		BENCH_MUST(cuStreamDestroy(streams[i]));
	return bench_finish();
}

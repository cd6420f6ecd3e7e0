/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate and free in one pool, a stream each: pairs of one size, and mixed sizes.
 *
 *     gpu_threads [--rounds N]
 *
 * Over the libcuda.so.1 that it finds: NVIDIA's pools, or under `cenote run` Cenote's, on a GPU or on the host device.
 *
 * Mixed is what bench/mixed.c does: each thread has 64 slots, and fills or empties a random one with 256 B to 512 KiB.
 * A line has the pairs of all threads together, the median of the rounds with the least and the most, how many times
 * one thread's they are, and what the pool has reserved at most. Beside them, a mutex of each thread's own: how far
 * threads that share nothing get on this machine.
 */
#include <pthread.h>

#include "draws.h"
#include "gpu.h"

enum {
	THREADS_MAX = 16,
	SLOTS = 64,
	SLOW_STEPS = 1 << 13, /* of a round: the driver's pools take a microsecond and more */
	FAST_STEPS = 1 << 16,
	PAIR_BYTES = 4096,
	ROUNDS_MAX = 31,
};

enum kind { PAIRS, MIXED, MUTEX, KINDS };
static const char *const names[KINDS] = {"pairs of 4 KiB", "mixed sizes", "a mutex of its own"};

struct thread {
	enum kind kind;
	unsigned number, steps;
	pthread_barrier_t *barrier;
	pthread_t id;
	uint64_t begin_ns, end_ns; /* of the round that counts */
};

static CUcontext context;
static CUstream streams[THREADS_MAX];
static CUmemoryPool pool;

static void mix(CUstream stream, uint64_t *state, CUdeviceptr blocks[SLOTS], unsigned steps)
{
	while (steps--) {
		uint64_t drawn = draw(state);
		CUdeviceptr *slot = &blocks[drawn % SLOTS];
		if (*slot) {
			CU(cuMemFreeAsync(*slot, stream));
			*slot = 0;
			continue;
		}
		size_t low = (size_t)CHURN_BYTES_MIN << (drawn >> 8) % 11;
		CU(cuMemAllocFromPoolAsync(slot, low + (size_t)(drawn >> 16) % low, pool, stream));
	}
}

static void pair(CUstream stream, unsigned steps)
{
	for (unsigned i = 0; i < steps; i += 2) {
		CUdeviceptr block;
		CU(cuMemAllocFromPoolAsync(&block, PAIR_BYTES, pool, stream));
		CU(cuMemFreeAsync(block, stream));
	}
}

static void lock(pthread_mutex_t *mutex, unsigned steps)
{
	for (unsigned i = 0; i < steps; i++) {
		BENCH_MUST(pthread_mutex_lock(mutex));
		BENCH_MUST(pthread_mutex_unlock(mutex));
	}
}

static void pin(unsigned number)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(number % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &cpus);
	sched_setaffinity(0, sizeof cpus, &cpus); /* only for a steadier result */
}

static void *run(void *data)
{
	struct thread *thread = data;
	CUstream stream = streams[thread->number];
	uint64_t state = DRAW_START + thread->number;
	CUdeviceptr blocks[SLOTS] = {0};
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	pin(thread->number);
	CU(cuCtxSetCurrent(context));
	for (unsigned round = 0; round < 2; round++) { /* the first is to warm up */
		pthread_barrier_wait(thread->barrier);
		thread->begin_ns = bench_now_ns();
		if (thread->kind == MIXED)
			mix(stream, &state, blocks, thread->steps);
		else if (thread->kind == PAIRS)
			pair(stream, thread->steps);
		else
			lock(&mutex, thread->steps);
		thread->end_ns = bench_now_ns();
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (blocks[i])
			CU(cuMemFreeAsync(blocks[i], stream));
	return NULL;
}

/* Million pairs a second, of all threads together. */
static double run_all(enum kind kind, unsigned count, unsigned steps)
{
	struct thread threads[THREADS_MAX];
	pthread_barrier_t barrier;
	uint64_t begin_ns = UINT64_MAX, end_ns = 0;

	BENCH_MUST(pthread_barrier_init(&barrier, NULL, count));
	for (unsigned i = 0; i < count; i++) {
		threads[i] = (struct thread){.kind = kind, .number = i, .steps = steps, .barrier = &barrier};
		BENCH_MUST(pthread_create(&threads[i].id, NULL, run, &threads[i]));
	}
	for (unsigned i = 0; i < count; i++) {
		BENCH_MUST(pthread_join(threads[i].id, NULL));
		begin_ns = threads[i].begin_ns < begin_ns ? threads[i].begin_ns : begin_ns;
		end_ns = threads[i].end_ns > end_ns ? threads[i].end_ns : end_ns;
	}
	BENCH_MUST(pthread_barrier_destroy(&barrier));
	for (unsigned i = 0; i < count; i++)
		CU(cuStreamSynchronize(streams[i]));
	return (double)count * steps / 2 * 1e3 / (double)(end_ns - begin_ns);
}

static void measure(enum kind kind, unsigned rounds, unsigned steps)
{
	double one = 0;

	for (unsigned count = 1; count <= THREADS_MAX; count *= 2) {
		double each[ROUNDS_MAX];
		cuuint64_t reserved = 0;
		CU(cuMemPoolTrimTo(pool, 0));
		CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &reserved));
		for (unsigned round = 0; round < rounds; round++)
			each[round] = run_all(kind, count, steps);
		CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &reserved));
		qsort(each, rounds, sizeof *each, bench_compare);
		double median = each[rounds / 2];
		one = count == 1 ? median : one;
		printf("  %-20s %2u threads %9.2f (%.2f to %.2f) million pairs a second, x %5.2f, %5llu MiB\n",
		       names[kind], count, median, each[0], each[rounds - 1], median / one,
		       (unsigned long long)(reserved >> 20));
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	unsigned rounds = 7;

	if (argc == 3 && strcmp(argv[1], "--rounds") == 0)
		rounds = (unsigned)atoi(argv[2]);
	if ((argc != 1 && argc != 3) || !rounds || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: %s [--rounds 1..%d]\n", argv[0], ROUNDS_MAX);
		return 2;
	}
	gpu_start();
	CU(cuDevicePrimaryCtxRetain(&context, 0));
	for (unsigned i = 0; i < THREADS_MAX; i++)
		streams[i] = gpu_stream();
	pool = gpu_pool(CU_MEM_HANDLE_TYPE_NONE);
	printf("pools are %s, %ld processors\n", gpu_owner(pool), sysconf(_SC_NPROCESSORS_ONLN));
	for (unsigned kind = 0; kind < KINDS; kind++)
		measure(kind, rounds, gpu_cenote.pool_stats || kind == MUTEX ? FAST_STEPS : SLOW_STEPS);
	return 0;
}

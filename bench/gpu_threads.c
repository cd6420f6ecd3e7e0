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
 * one thread's they are, and what the pool has reserved at most. Beside them, how far threads that share nothing get on
 * this machine: with a mutex of each thread's own, where a thread mostly waits for its atomic instructions, and with
 * arithmetic, where it does not. Two processors that are one core do both pieces of the former in the time of one, but
 * not of the latter.
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

enum kind { PAIRS, MIXED, MUTEX, ARITHMETIC, KINDS };
static const char *const names[KINDS] = {"pairs of 4 KiB", "mixed sizes", "a mutex of its own", "arithmetic"};

struct thread {
	enum kind kind;
	unsigned number, steps, rounds;
	pthread_barrier_t *barrier;
	pthread_t id;
	uint64_t begin_ns[ROUNDS_MAX], end_ns[ROUNDS_MAX];
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

/* Some 300 instructions for each pair of steps, as many as a pair of an allocation and a free takes. */
static void compute(unsigned steps)
{
	uint64_t states[4] = {DRAW_START, DRAW_START + 1, DRAW_START + 2, DRAW_START + 3};

	for (unsigned i = 0; i < steps * 6; i++)
		for (unsigned chain = 0; chain < 4; chain++)
			draw(&states[chain]);
	BENCH_MUST(!(states[0] | states[1] | states[2] | states[3])); /* so that the compiler leaves none out */
}

static void pin(unsigned number)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(number % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &cpus);
	sched_setaffinity(0, sizeof cpus, &cpus); /* only for a steadier result */
}

static void work(struct thread *thread, uint64_t *state, CUdeviceptr blocks[SLOTS], pthread_mutex_t *mutex)
{
	CUstream stream = streams[thread->number];

	if (thread->kind == MIXED)
		mix(stream, state, blocks, thread->steps);
	else if (thread->kind == PAIRS)
		pair(stream, thread->steps);
	else if (thread->kind == MUTEX)
		lock(mutex, thread->steps);
	else
		compute(thread->steps);
}

/* A thread lives for all rounds, as a program's threads do. */
static void *run(void *data)
{
	struct thread *thread = data;
	uint64_t state = DRAW_START + thread->number;
	CUdeviceptr blocks[SLOTS] = {0};
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	pin(thread->number);
	CU(cuCtxSetCurrent(context));
	work(thread, &state, blocks, &mutex); /* to warm up */
	for (unsigned round = 0; round < thread->rounds; round++) {
		pthread_barrier_wait(thread->barrier);
		thread->begin_ns[round] = bench_now_ns();
		work(thread, &state, blocks, &mutex);
		thread->end_ns[round] = bench_now_ns();
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (blocks[i])
			CU(cuMemFreeAsync(blocks[i], streams[thread->number]));
	return NULL;
}

/* Million pairs a second, of all threads together, in each round. */
static void run_all(enum kind kind, unsigned count, unsigned steps, unsigned rounds, double *ret_each)
{
	static struct thread threads[THREADS_MAX];
	pthread_barrier_t barrier;

	BENCH_MUST(pthread_barrier_init(&barrier, NULL, count));
	for (unsigned i = 0; i < count; i++) {
		threads[i] = (struct thread){
			.kind = kind, .number = i, .steps = steps, .rounds = rounds, .barrier = &barrier};
		BENCH_MUST(pthread_create(&threads[i].id, NULL, run, &threads[i]));
	}
	for (unsigned i = 0; i < count; i++)
		BENCH_MUST(pthread_join(threads[i].id, NULL));
	BENCH_MUST(pthread_barrier_destroy(&barrier));
	for (unsigned i = 0; i < count; i++)
		CU(cuStreamSynchronize(streams[i]));
	for (unsigned round = 0; round < rounds; round++) {
		uint64_t begin_ns = UINT64_MAX, end_ns = 0;
		for (unsigned i = 0; i < count; i++) {
			const struct thread *thread = &threads[i];
			begin_ns = thread->begin_ns[round] < begin_ns ? thread->begin_ns[round] : begin_ns;
			end_ns = thread->end_ns[round] > end_ns ? thread->end_ns[round] : end_ns;
		}
		ret_each[round] = (double)count * steps / 2 * 1e3 / (double)(end_ns - begin_ns);
	}
}

static void measure(enum kind kind, unsigned rounds, unsigned steps)
{
	double one = 0;

	for (unsigned count = 1; count <= THREADS_MAX; count *= 2) {
		double each[ROUNDS_MAX];
		cuuint64_t reserved = 0;
		CU(cuMemPoolTrimTo(pool, 0));
		CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &reserved));
		run_all(kind, count, steps, rounds, each);
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

/* How many processors the system says that a core has; 0: it does not say. */
static unsigned threads_of_core(void)
{
	FILE *file = fopen("/sys/devices/system/cpu/cpu0/topology/thread_siblings", "re");
	unsigned count = 0;

	for (int digit = file ? fgetc(file) : EOF; digit != EOF; digit = fgetc(file))
		count += (unsigned)__builtin_popcount((unsigned)(digit >= 'a'   ? digit - 'a' + 10
								 : digit >= '0' ? digit - '0'
										: 0));
	if (file)
		fclose(file);
	return count;
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
	printf("pools are %s, %ld processors, %u of a core\n", gpu_owner(pool), sysconf(_SC_NPROCESSORS_ONLN),
	       threads_of_core());
	/* First: Cenote prepares locks without atomic instructions meanwhile, which takes some ten milliseconds. */
	unsigned steps = gpu_cenote.pool_stats ? FAST_STEPS : SLOW_STEPS;
	double unused[ROUNDS_MAX];
	run_all(PAIRS, 1, steps, ROUNDS_MAX, unused);
	for (unsigned kind = 0; kind < KINDS; kind++)
		measure(kind, rounds, kind >= MUTEX ? FAST_STEPS : steps);
	return 0;
}

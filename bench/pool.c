/* SPDX-License-Identifier: MIT */
/*
 * What allocating in stream order costs, beside what malloc costs: glibc's, and mimalloc's and jemalloc's where they
 * are installed (they are looked for by name when this runs). All contestants take turns in the same run, so what
 * else the machine does falls on all of them.
 *
 * A stream-ordered allocator does not touch the memory that it manages, and neither do the measurements.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include "bench.h"
#include "cenote.h"

enum {
	BURST = 1000,
	SLOTS = 4096,
	CHURN_BYTES_MIN = 256,
	CHURN_BYTES_MAX = 512 * 1024,
	TURNS = 15,
	SIZES = 1 << 16, /* drawn beforehand */
	THREAD_PAIRS = 2000000,
};

struct contestant {
	const char *name;
	void *(*allocate)(size_t bytes);
	void (*free)(void *block);
};

static CUstream streams[2];
static struct contestant contestants[4];
static unsigned contestant_count;

/* ---- Contestants ------------------------------------------------------------------------------------------------- */

static _Thread_local CUstream thread_stream;

static void *pool_allocate(size_t bytes)
{
	CUdeviceptr pointer;

	BENCH_MUST(cuMemAllocAsync(&pointer, bytes, thread_stream));
	return (void *)(uintptr_t)pointer;
}

static void pool_free(void *block)
{
	BENCH_MUST(cuMemFreeAsync((CUdeviceptr)(uintptr_t)block, thread_stream));
}

static void add_library(const char *name, const char *file, const char *package, const char *allocate, const char *free)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		printf("Without %s (Debian's package %s): %s\n", name, package, dlerror());
		return;
	}
	struct contestant *contestant = &contestants[contestant_count++];
	contestant->name = name;
	*(void **)&contestant->allocate = dlsym(library, allocate);
	*(void **)&contestant->free = dlsym(library, free);
	BENCH_MUST(!contestant->allocate || !contestant->free);
}

static void find_contestants(void)
{
	contestants[contestant_count++] = (struct contestant){"cuMemAllocAsync", pool_allocate, pool_free};
	contestants[contestant_count++] = (struct contestant){"glibc", malloc, free};
	add_library("mimalloc", "libmimalloc.so.2", "libmimalloc2.0", "mi_malloc", "mi_free");
	add_library("jemalloc", "libjemalloc.so.2", "libjemalloc2", "malloc", "free");
}

/* ---- Taking turns ------------------------------------------------------------------------------------------------ */

struct work {
	const struct contestant *contestant;
	size_t bytes;
	void *blocks[SLOTS];
};

/* Measure all contestants at a body, each a little at a time; the medians. */
static void take_turns(void (*body)(void *work, unsigned long count), size_t bytes, unsigned long operations,
		       double ret_medians[4])
{
	static struct work works[4];
	double each[4][TURNS] = {{0}};
	unsigned long counts[4] = {0};

	for (unsigned i = 0; i < contestant_count; i++) {
		works[i] = (struct work){.contestant = &contestants[i], .bytes = bytes};
		counts[i] = 1;
		while (bench_once(body, &works[i], counts[i]) < BENCH_REPETITION_NS / 2)
			counts[i] *= 2;
	}
	for (unsigned turn = 0; turn < TURNS; turn++)
		for (unsigned i = 0; i < contestant_count; i++)
			each[i][turn] =
				(double)bench_once(body, &works[i], counts[i]) / (double)(counts[i] * operations);
	for (unsigned i = 0; i < contestant_count; i++) {
		qsort(each[i], TURNS, sizeof **each, bench_compare);
		ret_medians[i] = each[i][TURNS / 2];
		for (unsigned j = 0; j < SLOTS; j++)
			if (works[i].blocks[j])
				contestants[i].free(works[i].blocks[j]);
	}
}

static void title(const char *text)
{
	printf("\n%-34s", text);
	for (unsigned i = 0; i < contestant_count; i++)
		printf(" %15s", contestants[i].name);
	printf("\n");
}

static void row(const char *name, const double medians[4], double goal_ns, const char *goal)
{
	printf("%-34s", name);
	for (unsigned i = 0; i < contestant_count; i++)
		printf(" %12.1f ns", medians[i]);
	if (goal_ns > 0)
		printf("   goal %s: %s", goal, medians[0] <= goal_ns ? "met" : "MISSED");
	printf("\n");
	fflush(stdout);
}

/* ---- One thread -------------------------------------------------------------------------------------------------- */

static void pair(void *data, unsigned long count)
{
	struct work *work = data;
	const struct contestant *contestant = work->contestant;

	while (count--) {
		void *volatile block = contestant->allocate(work->bytes);
		contestant->free(block);
	}
}

static void burst(void *data, unsigned long count)
{
	struct work *work = data;
	const struct contestant *contestant = work->contestant;

	while (count--) {
		for (unsigned i = 0; i < BURST; i++)
			work->blocks[i] = contestant->allocate(work->bytes);
		for (unsigned i = 0; i < BURST; i++)
			contestant->free(work->blocks[i]);
		memset(work->blocks, 0, BURST * sizeof *work->blocks);
	}
}

static struct {
	unsigned slot;
	size_t bytes;
} draws[SIZES];

static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Sizes are spread evenly over the powers of two between, and inside each. */
static void make_draws(void)
{
	uint64_t state = 88172645463325252ull;

	for (unsigned i = 0; i < SIZES; i++) {
		size_t low = (size_t)CHURN_BYTES_MIN << draw(&state) % 11;
		draws[i].slot = (unsigned)(draw(&state) % SLOTS);
		draws[i].bytes = low + (size_t)(draw(&state) % low);
		if (draws[i].bytes > CHURN_BYTES_MAX)
			draws[i].bytes = CHURN_BYTES_MAX;
	}
}

/* A slot that is empty is filled, a full one emptied: an operation is one or the other. */
static void churn(void *data, unsigned long count)
{
	static unsigned at;
	struct work *work = data;
	const struct contestant *contestant = work->contestant;

	while (count--) {
		unsigned i = at++ % SIZES;
		void **slot = &work->blocks[draws[i].slot];
		if (*slot) {
			contestant->free(*slot);
			*slot = NULL;
		} else {
			*slot = contestant->allocate(draws[i].bytes);
		}
	}
}

static void bench_one_thread(void)
{
	static const struct {
		const char *name;
		size_t bytes;
	} sizes[] = {{"256 B", 256},       {"4 KiB", 4 << 10},   {"64 KiB", 64 << 10},  {"1 MiB", 1 << 20},
		     {"16 MiB", 16 << 20}, {"64 MiB", 64 << 20}, {"256 MiB", 256 << 20}};
	double medians[4];

	title("Allocate and free, one stream");
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		take_turns(pair, sizes[i].bytes, 1, medians);
		row(sizes[i].name, medians, 60, "60 ns");
	}
	title("1,000 allocated, then freed: each");
	for (unsigned i = 0; i < 3; i++) {
		take_turns(burst, sizes[i].bytes, BURST, medians);
		row(sizes[i].name, medians, 0, NULL);
	}
	title("Random churn, 4,096 slots: each");
	take_turns(churn, 0, 1, medians);
	row("256 B to 512 KiB", medians, 0, NULL);
	for (unsigned i = 2; i < contestant_count; i++) {
		double most = strcmp(contestants[i].name, "mimalloc") == 0 ? 1.5 : 1.0;
		double ratio = medians[0] / medians[i];
		printf("  %.2f times %s's; goal at most %.1f: %s\n", ratio, contestants[i].name, most,
		       ratio <= most ? "met" : "MISSED");
	}
}

/* ---- Two threads ------------------------------------------------------------------------------------------------- */

struct runner {
	CUcontext context;
	CUstream stream;
	pthread_barrier_t *start;
};

static void *run_pairs(void *data)
{
	struct runner *runner = data;
	struct work work = {.contestant = &contestants[0], .bytes = 4096};

	BENCH_MUST(cuCtxSetCurrent(runner->context));
	thread_stream = runner->stream;
	pair(&work, 1000);
	pthread_barrier_wait(runner->start);
	pair(&work, THREAD_PAIRS);
	pthread_barrier_wait(runner->start);
	return NULL;
}

/* Pairs in a second, all threads together. */
static double rate(CUcontext context, unsigned thread_count)
{
	pthread_barrier_t start;
	pthread_t threads[2];
	struct runner runners[2];

	pthread_barrier_init(&start, NULL, thread_count + 1);
	for (unsigned i = 0; i < thread_count; i++) {
		runners[i] = (struct runner){context, streams[i], &start};
		BENCH_MUST(pthread_create(&threads[i], NULL, run_pairs, &runners[i]));
	}
	pthread_barrier_wait(&start);
	uint64_t before = bench_now_ns();
	pthread_barrier_wait(&start);
	uint64_t after = bench_now_ns();
	for (unsigned i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	return thread_count * (double)THREAD_PAIRS * 1e9 / (double)(after - before);
}

static void bench_two_threads(CUcontext context)
{
	double ratios[TURNS], one = 0, two = 0;

	for (unsigned i = 0; i < TURNS; i++) {
		one = rate(context, 1);
		two = rate(context, 2);
		ratios[i] = two / one;
	}
	qsort(ratios, TURNS, sizeof *ratios, bench_compare);
	printf("\nTwo threads, two streams, one pool: %.1f million pairs a second, one thread alone %.1f: x %.2f;"
	       " goal 1.6: %s\n",
	       two / 1e6, one / 1e6, ratios[TURNS / 2], ratios[TURNS / 2] >= 1.6 ? "met" : "MISSED");
}

/* ---- Many blocks ------------------------------------------------------------------------------------------------- */

static void **many;

/*
 * Blocks that are there already are freed here and there, and others allocated: mostly misses of the processor's
 * cache.
 */
static void replace(void *data, unsigned long count)
{
	unsigned long live = *(unsigned long *)data;
	static uint64_t state = 2463534242ull;

	while (count--) {
		void **block = &many[draw(&state) % live];
		pool_free(*block);
		*block = pool_allocate(512);
	}
}

static void bench_many(void)
{
	unsigned long lives[] = {1000, 1000000}, live = 0;
	struct work work = {.contestant = &contestants[0], .bytes = 512};

	many = malloc(lives[1] * sizeof *many);
	BENCH_MUST(!many);
	printf("\n");
	for (unsigned i = 0; i < 2; i++) {
		uint64_t before = bench_now_ns();
		unsigned long first = live;
		while (live < lives[i])
			many[live++] = pool_allocate(512);
		double fill = (double)(bench_now_ns() - before) / (double)(live - first);
		double more = bench_measure(pair, &work).median_ns, other = bench_measure(replace, &live).median_ns;
		printf("%7lu blocks of 512 bytes: %6.1f ns to allocate each; a pair then %6.1f ns, "
		       "to replace any %6.1f ns\n",
		       live, fill, more, other);
	}
	while (live)
		pool_free(many[--live]);
	BENCH_MUST(cuStreamSynchronize(thread_stream));
	free(many);
}

/* Some libraries want more room for thread-local variables than a program has for those that come later. */
static void make_room(char **arguments)
{
	static const char tunable[] = "glibc.rtld.optional_static_tls=65536";
	const char *now = getenv("GLIBC_TUNABLES");

	if (now && strstr(now, tunable))
		return;
	BENCH_MUST(setenv("GLIBC_TUNABLES", tunable, 1));
	execv("/proc/self/exe", arguments);
}

int main(int argc, char **arguments)
{
	CUcontext context;

	(void)argc;
	make_room(arguments);
	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, 0));
	BENCH_MUST(cuCtxSetCurrent(context));
	for (unsigned i = 0; i < 2; i++)
		BENCH_MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	thread_stream = streams[0];
	find_contestants();
	make_draws();

	cpu_set_t before = bench_pin();
	bench_one_thread();
	bench_many();
	bench_unpin(before);
	bench_two_threads(context);

	for (unsigned i = 0; i < 2; i++)
		BENCH_MUST(cuStreamDestroy(streams[i]));
	BENCH_MUST(cuDevicePrimaryCtxRelease(0));
	return 0;
}

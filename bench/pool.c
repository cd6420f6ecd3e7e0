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
	MANY_BYTES = 512,
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

struct many {
	const struct contestant *contestant;
	void **blocks;
	unsigned long live;
};

/*
 * Blocks that are there already are freed here and there, and others allocated: what is known of a block that has not
 * been used for a while must come from memory.
 */
static void replace(void *data, unsigned long count)
{
	static uint64_t state = 2463534242ull;
	const struct many *many = data;

	while (count--) {
		void **block = &many->blocks[draw(&state) % many->live];
		many->contestant->free(*block);
		*block = many->contestant->allocate(MANY_BYTES);
	}
}

/* The same with nothing but the reading of the slot, each after the one before: what the machine takes for a miss. */
static void chase(void *data, unsigned long count)
{
	const struct many *many = data;
	static uint64_t state = 2463534242ull;
	uintptr_t last = 0;

	while (count--)
		last = (uintptr_t)many->blocks[(draw(&state) + last % 2) % many->live];
	__asm__ volatile("" : : "r"(last));
}

static void bench_many(void)
{
	static const unsigned long lives[] = {1000, 1000000};
	double fills[2][4], pairs[2][4], replaces[2][4], chases[2] = {0, 0};
	struct many many = {.blocks = malloc(lives[1] * sizeof *many.blocks)};

	BENCH_MUST(!many.blocks);
	for (unsigned i = 0; i < contestant_count; i++) {
		struct work work = {.contestant = &contestants[i], .bytes = MANY_BYTES};
		many.contestant = &contestants[i];
		for (unsigned j = 0; j < 2; j++) {
			unsigned long first = many.live;
			uint64_t before = bench_now_ns();
			while (many.live < lives[j])
				many.blocks[many.live++] = contestants[i].allocate(MANY_BYTES);
			fills[j][i] = (double)(bench_now_ns() - before) / (double)(many.live - first);
			pairs[j][i] = bench_measure(pair, &work).median_ns;
			replaces[j][i] = bench_measure(replace, &many).median_ns;
			chases[j] = bench_measure(chase, &many).median_ns;
		}
		while (many.live)
			contestants[i].free(many.blocks[--many.live]);
	}
	free(many.blocks);
	BENCH_MUST(cuStreamSynchronize(thread_stream));
	for (unsigned j = 0; j < 2; j++) {
		title(j ? "A million blocks of 512 bytes live" : "A thousand blocks of 512 bytes live");
		row("to allocate each", fills[j], 0, NULL);
		row("one more allocated and freed", pairs[j], 0, NULL);
		row("any of them replaced", replaces[j], 0, NULL);
		printf("  (only to read where one is: %.1f ns)\n", chases[j]);
	}
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

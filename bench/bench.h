/* SPDX-License-Identifier: MIT */
/*
 * Measuring: nanoseconds for one call, beside those of something everybody knows, measured in the same run.
 *
 * A body does its operation `count` times. It is run a few times to warm up and to find a count that lasts some
 * milliseconds, then REPETITIONS times; the table shows the median and the minimum, and the median as a multiple of the
 * reference's. Numbers of different machines are not comparable; the ratios nearly are.
 */
#ifndef CENOTE_BENCH_H
#define CENOTE_BENCH_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BENCH_REPETITIONS = 31, BENCH_REPETITION_NS = 4000000 };

struct bench_result {
	double median_ns, minimum_ns;
};

static inline uint64_t bench_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Stay on this CPU from now on; returns where the thread was allowed to run before. */
static inline cpu_set_t bench_pin(void)
{
	cpu_set_t before, one;
	int cpu = sched_getcpu();

	sched_getaffinity(0, sizeof before, &before);
	CPU_ZERO(&one);
	CPU_SET(cpu < 0 ? 0 : (size_t)cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
	return before;
}

static inline void bench_unpin(cpu_set_t before)
{
	sched_setaffinity(0, sizeof before, &before);
}

static inline int bench_compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static inline uint64_t bench_once(void (*body)(void *data, unsigned long count), void *data, unsigned long count)
{
	uint64_t before = bench_now_ns();

	body(data, count);
	return bench_now_ns() - before;
}

static inline struct bench_result bench_measure(void (*body)(void *data, unsigned long count), void *data)
{
	double each[BENCH_REPETITIONS];
	unsigned long count = 1;

	while (bench_once(body, data, count) < BENCH_REPETITION_NS / 2)
		count *= 2;
	for (int i = 0; i < BENCH_REPETITIONS; i++)
		each[i] = (double)bench_once(body, data, count) / (double)count;
	qsort(each, BENCH_REPETITIONS, sizeof *each, bench_compare);
	return (struct bench_result){each[BENCH_REPETITIONS / 2], each[0]};
}

static inline void bench_title(const char *title, const char *reference)
{
	printf("\n%-48s %10s %10s   %s\n", title, "median ns", "min ns", reference ? reference : "");
}

/* One row of the table; `reference` NULL: this is one itself. `goal_ns` 0: none is set. */
static inline struct bench_result bench_row(const char *name, const struct bench_result *reference, double goal_ns,
					    void (*body)(void *data, unsigned long count), void *data)
{
	struct bench_result result = bench_measure(body, data);

	printf("%-48s %10.1f %10.1f", name, result.median_ns, result.minimum_ns);
	if (reference)
		printf("   x %.3g", result.median_ns / reference->median_ns);
	if (goal_ns > 0)
		printf("   goal %.0f ns: %s", goal_ns, result.median_ns <= goal_ns ? "met" : "MISSED");
	printf("\n");
	fflush(stdout);
	return result;
}

/* End the program when something that must work does not: a benchmark of errors is worth nothing. */
#define BENCH_MUST(call)                                                                           \
	do {                                                                                       \
		int bench_code = (int)(call);                                                      \
		if (bench_code) {                                                                  \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, bench_code); \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What every measurement needs: the time, sorting of times, and an end when something that must work does not.
 * harness.h measures side by side; the programs for a GPU measure in their own way, and use this.
 */
#ifndef CENOTE_BENCH_H
#define CENOTE_BENCH_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t bench_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct bench_result {
	double median_ns, minimum_ns;
};

static inline int bench_compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

/* End the program when something that must work does not: a measurement of errors is worthless. */
#define BENCH_MUST(call)                                                                           \
	do {                                                                                       \
		int bench_code = (int)(call);                                                      \
		if (bench_code) {                                                                  \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, bench_code); \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif

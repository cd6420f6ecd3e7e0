/* SPDX-License-Identifier: MIT */
/*
 * The clock of all deadlines and ages: CLOCK_MONOTONIC, in nanoseconds.
 */
#ifndef CN_BASE_CLOCK_H
#define CN_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CN_MILLISECOND_NS UINT64_C(1000000)

static inline uint64_t cn_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the files of `cenote bench` share.
 */
#ifndef CENOTE_TOOLS_BENCH_H
#define CENOTE_TOOLS_BENCH_H

#include <stdint.h>

/* Something to measure. A sample is the nanoseconds of one operation, by Cenote or by the call it is compared with. */
struct bench_measure {
	const char *name; /* for a program */
	const char *text;
	const char *beside;
	double (*ours)(void);
	double (*theirs)(void);
};

enum { BENCH_MEASURES = 7 };

extern const struct bench_measure bench_measures[BENCH_MEASURES];

uint64_t bench_now_ns(void);
/* Start the other process and the library; end both. A failure is reported, and ends the command. */
void bench_begin(void);
void bench_end(void);

#endif

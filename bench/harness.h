/* SPDX-License-Identifier: MIT */
/*
 * Measuring side by side: several contestants do the same, take turns, and are compared in the same run.
 *
 * A *contest* is one task ("Allocate and free" of "4 KiB"), a *contestant* is one way to do it (cenote, mimalloc).
 * bench_contest() warms up every contestant, then goes round: a repetition of the first, one of the second, …, and
 * again. So other load on the machine affects all alike. For each it has the median and the quartiles of the
 * repetitions, and, compared with the *baseline*, which is one of them, the median of the ratios of the same round:
 * that is the number that means something on another machine. Only contestants are printed, and no time is hidden:
 *
 *	static void pair(void *data, unsigned long count) { while (count--) … BENCH_MUST(…); }
 *
 *	int main(int argc, char **argv)
 *	{
 *		bench_start("pool", argc, argv);         // --quick, --json FILE, --only TEXT
 *		bench_pin(0);                            // before the library starts threads
 *		struct bench_contestant two[] = {
 *			{.name = "cenote", .body = pair, .data = &ours, .goal = 1.5},
 *			{.name = "mimalloc", .body = pair, .data = &theirs},
 *		};
 *		bench_contest(&(struct bench_contest){.group = "Allocate and free", .name = "4 KiB",
 *						      .baseline = "mimalloc"}, two, 2);
 *		return bench_finish();
 *	}
 *
 * A contestant either has a `body`, which does its operation `count` times (the harness finds a count that lasts some
 * milliseconds, and takes the time), or a `once`, which makes one repetition by itself and returns the nanoseconds of
 * one operation (two processes, a chain that runs by itself, what cannot be repeated at once). A body checks its
 * results; what would cost time to check, `check` checks after each repetition, outside of the time. A wrong result
 * ends the program (BENCH_MUST): the run then fails.
 *
 * A curve is a group whose contests have an `x`, with the same names of contestants at each. Values that are not
 * nanoseconds (`unit`, as "instructions" or "bytes") use `once`.
 *
 * ---- The JSON form ----
 *
 * With --json FILE each result is appended to FILE as one line (so several processes may write). scripts/bench.py runs
 * all programs that Meson knows as benchmarks, puts the lines in "rows" below what it knows of the machine, draws and
 * compares. Anything that takes --quick and --json FILE and writes such lines can be a benchmark, even a script. A mark
 * in docs/performance.md says where the results of a program, named as its suite, go: <!-- bench: suite NAME -->.
 *
 *   {"suite": "pool",                    bench_start()'s
 *    "group": "Allocate and free",       a table, or a plot
 *    "row": "4 KiB",                     a contest's name
 *    "contestant": "cenote",             these four together are the key: unique in a run
 *    "unit": "ns",
 *    "median": 41.2, "q1": 40.9, "q3": 42.0, "minimum": 40.1,       of one operation
 *    "repetitions": 21,
 *    "baseline": "mimalloc", "ratio": 1.31,    the median of the ratios of each round; both null without a baseline
 *    "goal": {"most": 1.5, "of": "mimalloc", "reached": 1.31, "met": true},   or null
 *    "x": 4096, "x_name": "bytes"}             or null: a point of a curve
 *
 * A contestant that could not take part: the four keys, and "absent": "not installed (Debian's libucx-dev)". The file:
 *
 *   {"format": "cenote-bench-1", "date": "2026-11-15T12:00:00Z", "quick": false, "version": "0.1.0",
 *    "machine": {"processor", "cpus", "memory_bytes", "kernel", "hypervisor"}, "seconds": 171, "rows": [...]}
 */
#ifndef CENOTE_BENCH_HARNESS_H
#define CENOTE_BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>

#include "bench.h"

enum { BENCH_CONTESTANTS_MAX = 16, BENCH_REPETITIONS_MAX = 127 };

struct bench_summary {
	double median, q1, q3, minimum; /* of one operation, in the contest's unit */
	double ratio;                   /* to the baseline; 0: there is none */
};

struct bench_contestant {
	const char *name;
	void (*body)(void *data, unsigned long count);
	double (*once)(void *data);
	void (*check)(void *data); /* NULL: there is nothing more to look at */
	void *data;
	double goal;                 /* at most that many times what `goal_of` takes; 0: none is set */
	const char *goal_of;         /* a contestant of the same contest; NULL: the baseline */
	struct bench_summary result; /* written by bench_contest() */
};

struct bench_contest {
	const char *group, *name;
	const char *baseline;     /* the contestant with which all are compared; NULL: none */
	const char *unit;         /* NULL: "ns" */
	unsigned long operations; /* in what a body calls one; 0: 1 */
	unsigned repetitions;     /* 0: as many as usual */
	double x;                 /* with `x_name`: where on a curve this is */
	const char *x_name;
};

/*
 * Call this first in a program that loads allocators: some libraries need more room for thread-local variables than a
 * program has for libraries that are loaded later. It executes the program again with that room.
 */
void bench_make_room(char **arguments);
/* Read the command line; `suite` is the program's name in the results. */
void bench_start(const char *suite, int argument_count, char **arguments);
/* Returns the exit status: nothing may be measured after it. */
int bench_finish(void);

/* --quick was given: half a minute for all benchmarks together. */
bool bench_quick(void);
/* Does --only leave this group (or the contest of this name in it; NULL: any) out? For what is costly to prepare. */
bool bench_wanted(const char *group, const char *name);

/* Measure and compare them all. Contestants without a name are skipped. */
void bench_contest(const struct bench_contest *contest, struct bench_contestant *contestants, unsigned count);
/* Say that a contestant could not take part, and why. */
void bench_absent(const char *group, const char *name, const char *contestant, const char *reason);

/* The `index`-th CPU that this program may use, from 0; if there are not so many, the count starts again. */
unsigned bench_cpu(unsigned index);
unsigned bench_cpu_count(void);
/* Stay there from now on, with all threads that are started later; bench_unpin() undoes it for the caller. */
void bench_pin(unsigned index);
void bench_unpin(void);

/* Run it in a process of its own, forked now: before the library is touched, so nothing is inherited. */
void bench_in_child(void (*body)(void));

/* Median, quartiles (between samples: linear) and minimum; sorts the samples. */
struct bench_summary bench_statistics(double *samples, unsigned count);

#endif

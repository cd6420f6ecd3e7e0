/* SPDX-License-Identifier: MIT */
/*
 * Running a program with the recorder in front (tools/trace), for `cenote trace` and `cenote check`.
 *
 * The program runs as with `cenote run`, with one more library in front, which writes records into a directory of this
 * run. This process waits until the program and all its descendants have ended: it is their subreaper, so processes
 * whose parents have ended become its own children. It watches the directory, and each process that appears there, to
 * know when one was killed.
 */
#ifndef CENOTE_TOOLS_RECORDING_H
#define CENOTE_TOOLS_RECORDING_H

#include "record.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct recording {
	const char *command; /* the name at the beginning of each complaint */
	char directory[PATH_MAX];
	pid_t program;
	int status; /* of the program, when it has ended */
	bool has_ended, all_have_ended;
	int interrupts; /* signals that ask to end */
};
extern struct recording recording;

uint64_t recording_now_ns(void);

/* Run a program: `command` is "trace" or "check". 0, or an exit status: an error was printed. */
int recording_start(const char *command, char **arguments);
/*
 * Wait until all have ended, or two signals have come. With `tick`, it is called every tick_ms milliseconds, and when
 * it returns false the wait ends.
 */
void recording_await(bool (*tick)(void), int tick_ms);
/* When a process was seen to be gone; 0: it was not. */
uint64_t recording_death(pid_t pid, const struct cn_trace_header *header);
/* Is it gone, or was it never to be seen? */
bool recording_is_dead(pid_t pid);
/* Kill all that are left. */
void recording_kill(void);
/* Remove the directory. */
void recording_remove(void);
/* End as the program has ended, by the same signal if it was killed by one; or the exit status. */
int recording_end_like_program(void);
int recording_complain(const char *what);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The cenote command: what its files share.
 *
 * A command of it is a function in a file of its own, and a row in main.c. Exit statuses: 0, 1 when something failed, 2
 * when the command line was not understood. It uses Cenote as any program does, through the public headers alone.
 */
#ifndef CENOTE_TOOLS_COMMAND_H
#define CENOTE_TOOLS_COMMAND_H

enum { EXIT_USAGE = 2 };

struct command {
	const char *name;
	const char *summary;                              /* one line */
	const char *help;                                 /* what `cenote help NAME` prints */
	int (*run)(int argument_count, char **arguments); /* arguments[0] is the command's name */
};

extern const struct command command_info;
extern const struct command command_run;

/* Print a complaint and where to read on; returns EXIT_USAGE. */
int usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

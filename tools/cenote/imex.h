/* SPDX-License-Identifier: MIT */
/*
 * cenote imex: what its files share.
 */
#ifndef CENOTE_TOOLS_IMEX_H
#define CENOTE_TOOLS_IMEX_H

#include <stdbool.h>

/* What was asked for on the command line. */
struct imex_request {
	const char *number, *mode;
	bool json;
	const char *nodes, *key, *node, *log, *transport; /* of start */
};

/* Print a sentence; returns EXIT_FAILURE. */
int imex_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Start cenote-imexd in the background, and wait until it serves. */
int imex_start(const struct imex_request *request);
/* Ask the cenote-imexd of this machine to end, and wait for it. */
int imex_stop(const struct imex_request *request);

#endif

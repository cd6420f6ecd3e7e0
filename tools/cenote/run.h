/* SPDX-License-Identifier: MIT */
/*
 * cenote run: what other commands that run a program need of it. Each complains in the name of `command`.
 */
#ifndef CENOTE_TOOLS_RUN_H
#define CENOTE_TOOLS_RUN_H

#include <limits.h>

enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* Read the option at *index, if it is one of --device, --devices, --memory: 1; 0: it is another; negative: wrong. */
int run_read_option(const char *command, int argument_count, char **arguments, int *index);

/* Put Cenote in front of NVIDIA's libraries, for the program to be executed. Its drop-in libraries are in `folder`. */
int run_prepare(const char *command, char folder[PATH_MAX]);

/* Let a library of that folder be loaded before all others. 0, or -1: said why not. */
int run_preload(const char *command, const char *folder, const char *name);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * cenote run: what other commands that run a program need of it. Each complains in the name of `command`.
 */
#ifndef CENOTE_TOOLS_RUN_H
#define CENOTE_TOOLS_RUN_H

#include <limits.h>

enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* Reads an option of the command's own at *index, and moves to its last word: 1; 0: another one; negative: wrong. */
typedef int run_option(int argument_count, char **arguments, int *index);

/*
 * Read --device, --devices, --memory, and what `other` knows if there is one; *ret_program is the index of what follows
 * them. 0, or EXIT_USAGE.
 */
int run_read_options(const char *command, run_option *other, int argument_count, char **arguments, int *ret_program);

/*
 * Put Cenote in front of NVIDIA's libraries, for the program to be executed. Its drop-in libraries are in `folder`. If
 * this will visibly have no effect on the program, a line says so. 0, or the exit status: an error was printed.
 */
int run_prepare(const char *command, const char *program, char folder[PATH_MAX]);

/*
 * The folder with our libcuda.so.1, in the folder of the libraries. It is that of the Cenote that is loaded, wherever
 * command and library are. 0: an error was printed.
 */
int run_find_libraries(const char *command, char folder[PATH_MAX]);

/* Is a program to use a GPU: 1; the host device: 0. -1: CENOTE_DEVICE is invalid, and an error was printed. */
int run_wants_gpu(const char *command);

/*
 * Read --delay or --delay=SEED, for the recorder (tools/trace) that is in front of the program: 1; 0: another option;
 * negative: it is wrong.
 */
int run_take_delay(const char *command, const char *option);

/* Let a library of that folder be loaded before all others. 0, or -1: an error was printed. */
int run_preload(const char *command, const char *folder, const char *name);

#endif

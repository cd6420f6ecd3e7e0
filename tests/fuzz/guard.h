/* SPDX-License-Identifier: MIT */
/*
 * The command's parts, to be called as functions that harm nobody: included before everything else in its files. Those
 * of its commands that are known to be harmless so are listed in guard.c and meson.build.
 *
 * It starts no process, executes nothing, and writes into no file but /dev/null. Channels and names it makes and takes
 * away in our own directories.
 */
#ifndef CENOTE_TESTS_FUZZ_GUARD_H
#define CENOTE_TESTS_FUZZ_GUARD_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

pid_t fuzz_no_fork(void);
int fuzz_no_exec(const char *file, char *const *arguments);
int fuzz_no_file(char *name, int flags);
FILE *fuzz_open_to_read(const char *path, const char *mode);

#define fork     fuzz_no_fork
#define execvp   fuzz_no_exec
#define fopen    fuzz_open_to_read
#define mkostemp fuzz_no_file

#endif

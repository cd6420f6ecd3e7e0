/* SPDX-License-Identifier: MIT */
/*
 * What a program's file says of the libraries that it will load.
 *
 * The file may be anything, and may change while it is read: every offset and count in it is checked, and the amount
 * read is bounded. What cannot be understood is PROGRAM_OTHER: the system will say what is wrong with it.
 */
#ifndef CENOTE_TOOLS_PROGRAM_H
#define CENOTE_TOOLS_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

enum program_kind {
	PROGRAM_OTHER,         /* a script, or no program at all */
	PROGRAM_32_BIT,        /* we are 64-bit */
	PROGRAM_OTHER_MACHINE, /* for another instruction set */
	PROGRAM_STATIC,        /* without a dynamic linker: loads no libraries */
	PROGRAM_DYNAMIC,
};

struct program {
	enum program_kind kind;
	char cudart[64];      /* the CUDA runtime that it needs, as "libcudart.so.13"; "": none */
	char rpath[PATH_MAX]; /* folders that go before LD_LIBRARY_PATH, with colons between; "": none */
};

/* Read what is open as `file`. */
void program_read(int file, struct program *ret_program);

/* Is the CUDA runtime linked into it? Searches at most 64 MiB. */
bool program_has_runtime_inside(int file);

#endif

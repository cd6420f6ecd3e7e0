/* SPDX-License-Identifier: MIT */
/*
 * Entry points: the table behind cuGetProcAddress, and the functions themselves for the log (base/call.h).
 *
 * The build makes both from src/api.list, with one row for each form of a driver function. The table is sorted by name
 * and then by version.
 */
#ifndef CN_DRIVER_ENTRY_ENTRY_H
#define CN_DRIVER_ENTRY_ENTRY_H

#include "base/call.h"

#include <stddef.h>

struct cn_entry {
	const char *name; /* as written in a program */
	int version;      /* the CUDA version that brought this form: 3020 for 3.2 */
	void *function;
	void *per_thread; /* the form whose default stream is the thread's own; the same function where there is none */
};

extern const struct cn_entry cn_entries[];
extern const size_t cn_entry_count;

/* Ended by a row without a name. Includes the functions of cenote.h. */
extern const struct cn_call cn_driver_calls[];

#endif

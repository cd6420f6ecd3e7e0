/* SPDX-License-Identifier: MIT */
/*
 * Calls: which function of ours the program called, for the log.
 *
 * This adds no cost to a call: the stack is read when a line is printed. Each layer with functions that programs call
 * adds a list. These layers are compiled so that such a function stays on the stack, under its own address, while it
 * runs (src/meson.build: kept_frames).
 */
#ifndef CN_BASE_CALL_H
#define CN_BASE_CALL_H

#include "base/private.h"

/* One of the functions that programs call. */
struct cn_call {
	const char *name; /* as a programmer writes it */
	void *function;
};

/* A layer's functions. */
struct cn_call_list {
	/* The name of a function by its address; NULL: it is not in the list. */
	const char *(*find)(const void *function);
	struct cn_call_list *next;
};

/* Add a list, for good. It lies in the library of its functions. For constructors: before there are threads. */
CN_PRIVATE void cn_call_list_add(struct cn_call_list *list);

/* The name of the function that the program called and that still runs; NULL: this thread is the library's own. */
const char *cn_call_name(void) __attribute__((cold));

#endif

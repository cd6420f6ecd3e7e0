/* SPDX-License-Identifier: MIT */
/*
 * A module for launch_test.c: a shared object with kernels and a variable, not linked with Cenote.
 */
#include "cenote/cenote.h"

CENOTE_API int counter = 5;
CENOTE_API int counter_function(void);

int counter_function(void)
{
	return counter;
}

/* Write the module's own variable, plus one. */
static void read_counter(const cenote_thread *at, void **args)
{
	(void)at;
	**(int **)args[0] = counter + 1;
}
CENOTE_KERNEL(read_counter, int *);

static void damaged(const cenote_thread *at, void **args)
{
	(void)at, (void)args;
}

/* A record as a later version of cenote.h might leave it. */
extern CENOTE_API const cenote_kernel cenote_kernel_from_the_future;
const cenote_kernel cenote_kernel_from_the_future = {CENOTE_KERNEL_VERSION + 1, 0, "from_the_future", damaged, 0, 0};

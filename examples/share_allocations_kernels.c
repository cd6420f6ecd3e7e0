/* SPDX-License-Identifier: MIT */
/*
 * The kernels of share_allocations.c, for Cenote's host device; share_allocations_kernels.ptx has them for a GPU.
 */
#include <cenote.h>

static unsigned int index_of(const cenote_thread *at)
{
	return at->blockIdx.x * at->blockDim.x + at->threadIdx.x;
}

/* numbers[i] = i + value, for each thread that has a number. */
static void number(const cenote_thread *at, void **args)
{
	unsigned int i = index_of(at);

	if (i < *(unsigned int *)args[1])
		(*(int **)args[0])[i] = (int)i + *(int *)args[2];
}
CENOTE_KERNEL(number, int *, unsigned int, int);

/* numbers[i] *= value. */
static void multiply(const cenote_thread *at, void **args)
{
	unsigned int i = index_of(at);

	if (i < *(unsigned int *)args[1])
		(*(int **)args[0])[i] *= *(int *)args[2];
}
CENOTE_KERNEL(multiply, int *, unsigned int, int);

/* numbers[i] += value. */
static void add(const cenote_thread *at, void **args)
{
	unsigned int i = index_of(at);

	if (i < *(unsigned int *)args[1])
		(*(int **)args[0])[i] += *(int *)args[2];
}
CENOTE_KERNEL(add, int *, unsigned int, int);

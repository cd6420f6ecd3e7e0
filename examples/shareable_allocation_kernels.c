/* SPDX-License-Identifier: MIT */
/*
 * The kernel of shareable_allocation.c, for Cenote's host device; shareable_allocation_kernels.ptx has it for a GPU.
 */
#include <cenote.h>

/* numbers[i] *= factor, for each thread that has a number. */
static void multiply(const cenote_thread *at, void **args)
{
	int *numbers = *(int **)args[0];
	unsigned int count = *(unsigned int *)args[1], i = at->blockIdx.x * at->blockDim.x + at->threadIdx.x;

	if (i < count)
		numbers[i] *= *(int *)args[2];
}
CENOTE_KERNEL(multiply, int *, unsigned int, int);

/* SPDX-License-Identifier: MIT */
/*
 * The kernels of the conformance chapters in C, for the host device; kernels.ptx has the same ones, and more.
 */
#include <cenote.h>

#include <stdint.h>

CENOTE_API uint32_t conformance_word[4] = {1, 2, 3, 4};

static void nothing(const cenote_thread *at, void **args)
{
	(void)at, (void)args;
}
CENOTE_KERNEL(nothing);

/* One more for every thread. */
static void count_threads(const cenote_thread *at, void **args)
{
	(void)at;
	__atomic_fetch_add(*(uint32_t **)args[0], 1, __ATOMIC_RELAXED);
}
CENOTE_KERNEL(count_threads, uint32_t *);

/* out[0..5] = grid x y z, block x y z. */
static void write_dimensions(const cenote_thread *at, void **args)
{
	uint32_t *out = *(uint32_t **)args[0];

	__atomic_store_n(&out[0], at->gridDim.x, __ATOMIC_RELAXED);
	__atomic_store_n(&out[1], at->gridDim.y, __ATOMIC_RELAXED);
	__atomic_store_n(&out[2], at->gridDim.z, __ATOMIC_RELAXED);
	__atomic_store_n(&out[3], at->blockDim.x, __ATOMIC_RELAXED);
	__atomic_store_n(&out[4], at->blockDim.y, __ATOMIC_RELAXED);
	__atomic_store_n(&out[5], at->blockDim.z, __ATOMIC_RELAXED);
}
CENOTE_KERNEL(write_dimensions, uint32_t *);

/* out[i] = i * factor, for each thread of a one-dimensional grid that has a place. */
static void write_indices(const cenote_thread *at, void **args)
{
	uint32_t *out = *(uint32_t **)args[0];
	uint32_t count = *(uint32_t *)args[1], factor = *(uint32_t *)args[2];
	uint32_t index = at->blockIdx.x * at->blockDim.x + at->threadIdx.x;

	if (index < count)
		out[index] = index * factor;
}
CENOTE_KERNEL(write_indices, uint32_t *, uint32_t, uint32_t);

/* SPDX-License-Identifier: MIT */
/*
 * The stage of tests about the order of streams on a GPU: a pool of one chunk, two streams that know nothing of each
 * other, and a gate at which one of them waits.
 */
#ifndef CENOTE_TESTS_UNIT_GPU_TWO_STREAMS_H
#define CENOTE_TESTS_UNIT_GPU_TWO_STREAMS_H

#include "gpu_calls.h"

static CUcontext primary;
static CUmemoryPool pool;
static CUstream first, second;
static struct gate gate;

SETUP
{
	driver_choose();
	primary = context_current();
	ASSERT(cn_gpu_is_used);
	gate = gate_make();
	pool = make_pool(false);
	first = make_stream();
	second = make_stream();
}

/* The first stream waits at the gate and has freed all of the pool behind it. */
static inline CUdeviceptr free_behind_gate(void)
{
	CUdeviceptr at = take(pool, CHUNK, first);

	gate_close(gate, first);
	ASSERT_OK(cuMemsetD8Async(at, 1, CHUNK, first));
	ASSERT_OK(cuMemFreeAsync(at, first));
	return at;
}

static inline void end_streams(void)
{
	gate_open(gate);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuStreamDestroy(first));
	ASSERT_OK(cuStreamDestroy(second));
	ASSERT_OK(cuMemPoolDestroy(pool));
	gate_free(gate);
}

#endif

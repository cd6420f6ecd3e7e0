/* SPDX-License-Identifier: MIT */
/*
 * What tests of the calls that pass through Cenote on a GPU share: pools and streams in one line each, and the driver's
 * functions behind the calls, which a test can put its own in the place of.
 */
#ifndef CENOTE_TESTS_UNIT_GPU_CALLS_H
#define CENOTE_TESTS_UNIT_GPU_CALLS_H

#include "cenote/cenote.h"
#include "cuda.h"
#include "driver/common/mempool.h"
#include "driver/gpu/gpu.h"
#include "gate.h"

enum { MIB = 1 << 20, CHUNK = 32 * MIB };

/* A pool of a chunk. Without `waits` no stream is made to wait for another by it. */
static inline CUmemoryPool make_pool(bool waits)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		.maxSize = CHUNK,
	};
	uint64_t keep_bytes = UINT64_MAX;
	int on = waits;
	CUmemoryPool pool;

	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	ASSERT(cn_mempool_is_ours(pool));
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &on));
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_bytes));
	return pool;
}

static inline CUstream make_stream(void)
{
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static inline CUevent make_event(void)
{
	CUevent event;

	ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

static inline CUdeviceptr take(CUmemoryPool pool, size_t bytes, CUstream stream)
{
	CUdeviceptr at;

	ASSERT_OK(cuMemAllocFromPoolAsync(&at, bytes, pool, stream));
	ASSERT_NE(0, at);
	return at;
}

/* All of the pool, so that somebody else can have it only if the free is seen. 0: it cannot be had. */
static inline CUdeviceptr try_all(CUmemoryPool pool, CUstream stream)
{
	CUdeviceptr at = 1;
	CUresult result = cuMemAllocFromPoolAsync(&at, CHUNK, pool, stream);

	ASSERT(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
	return at;
}

/* The call of a symbol, as programs reach it by name or through the drop-in. */
static inline const struct cn_gpu_call *call_of(const char *symbol)
{
	for (const struct cn_gpu_call *call = cn_gpu_calls; call->symbol; call++)
		if (strcmp(call->symbol, symbol) == 0)
			return call;
	FAIL("%s does not pass through Cenote", symbol);
}

/* A function in the place of the driver's own. */
static inline void replace(const char *symbol, void *function)
{
	*call_of(symbol)->driver = function;
}

/* How far a stream is known to have come, without a look. */
static inline bool is_known_idle(CUstream stream)
{
	struct cn_queue *queue = cn_cuda_known(stream);

	ASSERT(queue);
	return atomic_load(&queue->completed) >= atomic_load(&queue->submitted);
}

#endif

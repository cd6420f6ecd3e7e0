/* SPDX-License-Identifier: MIT */
/*
 * What the gpu_… files have in common: calling the driver, and telling the pools what they have seen.
 *
 * gpu_cuX sees a call on its way to driver_cuX: a pointer to the driver's own function, which gpu.c fills in. The build
 * makes the prototypes of both, except for calls that our headers do not have (seen.h). In a process without a pool,
 * this costs one read of a flag.
 */
#ifndef CN_DRIVER_GPU_GPU_CALLS_H
#define CN_DRIVER_GPU_GPU_CALLS_H

#include "driver/common/mempool.h"
#include "driver/gpu/gpu.h"
#include "driver/gpu/seen.h"

#include "gpu_prototypes.h"

/* Not in a forked child: there a lock may stay held for ever, and the driver refuses everything. */
static inline bool cn_gpu_has_pools(void)
{
	return __builtin_expect(atomic_load_explicit(&cn_mempools_exist, memory_order_relaxed), 1) &&
	       __builtin_expect(atomic_load_explicit(&cn_ready, memory_order_relaxed) == 1, 1);
}

/* The same for what is tracked even without pools. */
static inline bool cn_gpu_is_watched(void)
{
	return atomic_load_explicit(&cn_ready, memory_order_relaxed) == 1;
}

static inline CUstream cn_gpu_own_stream(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

/* The program has waited for a point. */
static inline void cn_gpu_synchronised(struct cn_point point)
{
	cn_cuda_reached(point);
	if (point.queue)
		cn_pools_settle(point);
}

/* gpu_memory.c: is it an address of a pool of Cenote's, or of an imported one? */
bool cn_gpu_is_ours(CUdeviceptr address);
/* The same in a forked child, where no address is a pool's. */
bool cn_gpu_is_lost(CUdeviceptr address);
/* cuMemFree() of a block. CUDA_ERROR_INVALID_VALUE: no block begins at the address. */
CUresult cn_gpu_free_after_all(uint64_t address);
/* No block begins at the address: say why. */
CUresult cn_gpu_refuse_free(CUdeviceptr address);

/*
 * gpu_capture.c: a stream or a context has ended, and with it the captures that began there, up to `last`, the newest
 * of them before the call. 0: there was none.
 */
uint64_t cn_gpu_last_capture(void);
void cn_gpu_captures_over(uint64_t last, CUstream stream, CUcontext context);

/* A device's primary context; NULL: it is not active. */
CUcontext cn_gpu_primary(CUdevice device);

/* The points that all streams of a context have come to; does not wait. */
struct cn_gpu_points {
	struct cn_point at_hand[32], *points;
	size_t count, room;
	uint64_t life; /* of the context */
};
void cn_gpu_gather(CUcontext context, struct cn_gpu_points *ret_points);
void cn_gpu_drop(struct cn_gpu_points *points);

#endif

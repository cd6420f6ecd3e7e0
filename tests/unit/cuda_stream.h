/* SPDX-License-Identifier: MIT */
/*
 * What tests of the cuda device's streams share: streams that the device is told of, points of theirs, and ways to see
 * how far they have come.
 */
#ifndef CENOTE_TESTS_UNIT_CUDA_STREAM_H
#define CENOTE_TESTS_UNIT_CUDA_STREAM_H

#include <pthread.h>
#include <sched.h>

#include "cuda.h"

static inline CUstream new_stream(void)
{
	CUstream stream;

	ASSERT_OK(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	cn_cuda_created(stream);
	return stream;
}

static inline CUresult destroy_by_driver(CUstream stream)
{
	return DRIVER(cuStreamDestroy)(stream);
}

static inline void end_stream(CUstream stream)
{
	ASSERT_OK(cn_cuda_destroy(stream, destroy_by_driver));
}

static inline struct cn_cuda_place find(CUstream stream)
{
	struct cn_cuda_place place;

	ASSERT_OK(cn_cuda_find(stream, &place));
	return place;
}

static inline struct cn_point point_of(struct cn_cuda_place place)
{
	struct cn_point point;

	ASSERT_OK(cn_cuda_point_now(place.queue, place.owner, &point));
	return point;
}

/* The device asks the driver only now and then, so a single look may see nothing; a thousand see what there is. */
static inline bool seen_reached(struct cn_point point)
{
	for (unsigned i = 0; i < 1000 && !cn_point_reached(point); i++)
		cn_cuda_queue_look(point.queue);
	return cn_point_reached(point);
}

/* Ends when the point is reached; a test that waits in vain ends by its time limit. */
static inline void look_until(struct cn_point point)
{
	while (!cn_point_reached(point)) {
		cn_cuda_queue_look(point.queue);
		sched_yield();
	}
}

static inline CUresult wait_for(CUstream stream, struct cn_point point)
{
	struct cn_cuda_place place = find(stream);

	return cn_cuda_queue_wait(place.queue, place.owner, point);
}

/* For cuLaunchHostFunc(): one more piece of work is done. */
static inline void do_work(void *data)
{
	atomic_fetch_add((_Atomic uint64_t *)data, 1);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Events of a whole context.
 *
 * An event keeps one point. So a stream of our own waits for what is pending in all others, the event is recorded in
 * it, and it is destroyed: it ends once its waits are over, and no other code ever sees it. The event has happened when
 * what the stream waits for has: a caller that has waited for that work need not wait for the thread that drives it.
 */
#include "driver/host/objects.h"

#include <stdlib.h>

/* Leave out the streams of other such events: what they wait for is pending by itself. Returns how many are left. */
static size_t leave_out_gathering(struct cn_point *points, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!cn_host_queue_gathers(points[i].queue))
			points[kept++] = points[i];
	return kept;
}

/* The points of all streams of a context; *ret_points is the caller's to free. */
static CUresult collect(struct cn_context *context, struct cn_point **ret_points, size_t *ret_count)
{
	struct cn_point *points = NULL;
	size_t room, count = cn_context_pending(context, NULL, 0);

	do { /* until none is left out: streams may get work meanwhile */
		room = count;
		free(points);
		points = calloc(room + 1, sizeof *points);
		if (!points)
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to record an event of a context");
		count = cn_context_pending(context, points, room);
	} while (count > room);
	*ret_points = points;
	*ret_count = leave_out_gathering(points, count);
	return CUDA_SUCCESS;
}

/* The current context is the event's. */
static CUresult record(const struct cn_point *points, size_t count, CUevent event)
{
	struct cn_place place;
	CUstream stream;
	CUresult result = host_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);

	if (result)
		return result;
	result = cn_stream_find(stream, &place);
	if (!result)
		cn_host_queue_gather(&place.stream->queue);
	for (size_t i = 0; i < count && !result; i++) {
		struct cn_operation wait = {.kind = CN_OPERATION_WAIT_POINT, .wait_point = points[i]};
		result = cn_stream_submit(&place, &wait, NULL);
	}
	if (!result)
		result = host_cuEventRecord(event, stream);
	host_cuStreamDestroy_v2(stream);
	return result;
}

CUresult host_cuCtxRecordEvent(CUcontext handle, CUevent event)
{
	struct cn_home home;
	struct cn_point *points;
	CUcontext popped;
	size_t count;
	CUresult result = cn_enter();

	if (!result)
		result = cn_context_given(handle, CUDA_ERROR_CONTEXT_IS_DESTROYED, &home);
	if (!result)
		result = collect(home.context, &points, &count);
	if (result)
		return result;
	result = host_cuCtxPushCurrent_v2((CUcontext)(uintptr_t)cn_object_handle(home.context));
	if (!result) {
		result = record(points, count, event);
		host_cuCtxPopCurrent_v2(&popped);
	}
	free(points);
	return result;
}

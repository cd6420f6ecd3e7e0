/* SPDX-License-Identifier: MIT */
/*
 * Events: a kept point.
 *
 * Recording keeps the point that covers what the stream has been given so far: on an idle stream, or for an event
 * without timing, that is two loads and a store, and nothing is queued. With timing on a busy stream, an operation is
 * queued that notes the time when it is reached, unless the event has been recorded again by then: records are
 * numbered, over all lives of the event's slot, so an old one never writes into a new owner's event. Waiting copies the
 * point, so a later record does not affect it.
 */
#include "base/clock.h"
#include "driver/common/mempool.h"
#include "driver/host/ipc_event.h"

struct cn_table cn_events = CN_TABLE(CN_KIND_EVENT, struct cn_event);

enum { EVENT_FLAGS = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS };

CUresult cn_event_lock(CUevent handle, struct cn_event **ret_event)
{
	struct cn_event *event = cn_table_find(&cn_events, handle);

	if (event) {
		cn_lock(&event->stamp.lock);
		if (cn_object_handle(event) == (uintptr_t)handle) {
			*ret_event = event;
			return CUDA_SUCCESS;
		}
		cn_unlock(&event->stamp.lock);
	}
	if (!handle)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "the event is NULL");
	if (cn_table_is_orphan(&cn_events, handle))
		return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the event was destroyed with its context");
	return cn_error(CUDA_ERROR_INVALID_HANDLE, "%p is not a live event", (void *)handle);
}

CUresult host_cuEventCreate(CUevent *ret_event, unsigned int flags)
{
	struct cn_home home;
	CUresult result = cn_given(cn_context_enter(&home), ret_event, "phEvent");

	if (result)
		return result;
	if (flags & ~(unsigned)EVENT_FLAGS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "event flags 0x%x are unknown",
				flags & ~(unsigned)EVENT_FLAGS);
	if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"an interprocess event must be created with CU_EVENT_DISABLE_TIMING");

	struct cn_shared_event *shared = NULL;
	if (flags & CU_EVENT_INTERPROCESS)
		result = cn_shared_event_create(&shared);
	return result ? result : cn_event_make(&home, flags, shared, ret_event);
}

CUresult cn_event_make(const struct cn_home *home, unsigned int flags, struct cn_shared_event *shared,
		       CUevent *ret_event)
{
	struct cn_event *event = cn_table_take(&cn_events);

	if (!event) {
		cn_shared_event_drop(shared);
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for an event");
	}
	cn_lock(&event->stamp.lock);
	event->context = home->context;
	event->flags = flags;
	event->recorded = false;
	event->point = (struct cn_point){NULL, 0};
	event->shared = shared;
	event->stamp.serial++;
	/* Checked under the lock: a context that ends after this takes the event with it. */
	bool alive = cn_home_stands(home);
	if (alive)
		*ret_event = (CUevent)(uintptr_t)cn_table_publish(&cn_events, event);
	cn_unlock(&event->stamp.lock);
	if (alive)
		return CUDA_SUCCESS;
	cn_shared_event_drop(shared);
	cn_table_give(&cn_events, event);
	return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed during the call");
}

static void forget(struct cn_event *event)
{
	cn_lock(&event->stamp.lock);
	event->stamp.serial++;
	struct cn_shared_event *shared = event->shared;
	event->shared = NULL;
	cn_unlock(&event->stamp.lock);
	cn_shared_event_drop(shared);
	cn_table_give(&cn_events, event);
}

CUresult host_cuEventDestroy_v2(CUevent handle)
{
	struct cn_event *event;
	CUresult result = cn_enter_by_handle();

	if (!result)
		result = cn_event_lock(handle, &event);
	if (result)
		return result;
	bool ours = cn_table_retire(event, (uintptr_t)handle);
	cn_unlock(&event->stamp.lock);
	if (ours)
		forget(event);
	return CUDA_SUCCESS;
}

void cn_events_destroy(struct cn_context *context)
{
	uint32_t count = atomic_load(&cn_events.count);

	for (uint32_t i = 0; i < count; i++) {
		struct cn_event *event = cn_table_slot(&cn_events, i);
		cn_lock(&event->stamp.lock);
		bool ours = cn_object_handle(event) && event->context == context &&
			    cn_table_retire_orphan(event, cn_object_handle(event));
		cn_unlock(&event->stamp.lock);
		if (ours)
			forget(event);
	}
}

static void keep_point(struct cn_event *event, struct cn_point point, uint64_t serial)
{
	event->point = point;
	event->point_serial = serial;
	event->recorded = true;
}

/*
 * Keep the point that the stream has come to now, and the time at which it is reached. Called with the event locked;
 * unlocks it.
 */
static inline __attribute__((always_inline)) CUresult record_locked(struct cn_event *event,
								    const struct cn_place *place)
{
	bool timed = !(event->flags & CU_EVENT_DISABLE_TIMING);
	uint64_t handle = cn_object_handle(event);
	struct cn_point point;

	CUresult result = cn_device_ops->point_now(&place->stream->queue.base, place->owner, &point);
	if (result) {
		cn_unlock(&event->stamp.lock);
		return result == CUDA_ERROR_INVALID_HANDLE ? cn_place_is_gone(place) : result;
	}
	uint64_t serial = ++event->stamp.serial;
	if (!timed || cn_point_reached(point)) {
		event->stamp.time_ns = timed ? cn_clock_ns() : 0;
		keep_point(event, point, serial);
		cn_unlock(&event->stamp.lock);
		return CUDA_SUCCESS;
	}
	cn_unlock(&event->stamp.lock);

	/* The operation may be reached, and take the event's lock, before we get here again. */
	struct cn_operation operation = {.kind = CN_OPERATION_TIMESTAMP, .timestamp = {&event->stamp, serial}};
	result = cn_stream_submit(place, &operation, &point);
	if (result)
		return result;
	cn_lock(&event->stamp.lock);
	if (cn_object_handle(event) == handle && serial > event->point_serial)
		keep_point(event, point, serial);
	cn_unlock(&event->stamp.lock);
	return CUDA_SUCCESS;
}

static __attribute__((noinline, cold)) CUresult refuse_flags(unsigned int flags, const char *what)
{
	if (flags == CU_EVENT_RECORD_EXTERNAL) /* and CU_EVENT_WAIT_EXTERNAL */
		return cn_error(CUDA_ERROR_ILLEGAL_STATE, "an external %s is for a stream that is being captured",
				what);
	return cn_error(CUDA_ERROR_INVALID_VALUE, "event %s flags 0x%x are unknown", what, flags);
}

/* Inline in both calls, so that neither pays for a jump to the other. */
static inline __attribute__((always_inline)) CUresult record(CUevent handle, CUstream stream_handle, unsigned int flags)
{
	struct cn_place place;
	struct cn_event *event;
	CUresult result = cn_stream_find_quickly(stream_handle, &place);

	if (result)
		return result;
	if (flags)
		return refuse_flags(flags, "record");
	result = cn_event_lock(handle, &event);
	if (result)
		return result;
	if (event->context != place.context) {
		cn_unlock(&event->stamp.lock);
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "the event and the stream belong to different contexts");
	}
	if (event->shared) {
		struct cn_shared_event *shared = cn_shared_event_take(event->shared);
		cn_unlock(&event->stamp.lock);
		return cn_ipc_event_record(shared, &place);
	}
	return record_locked(event, &place);
}

CUresult host_cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned int flags)
{
	return record(handle, stream, flags);
}

CUresult host_cuEventRecord(CUevent handle, CUstream stream)
{
	return record(handle, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult host_cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags)
{
	struct cn_place place;
	struct cn_event *event;
	CUresult result = cn_stream_find_quickly(stream_handle, &place);

	if (result)
		return result;
	if (flags)
		return refuse_flags(flags, "wait");
	result = cn_event_lock(handle, &event);
	if (result)
		return result;
	if (event->shared) {
		struct cn_shared_event *shared = cn_shared_event_take(event->shared);
		cn_unlock(&event->stamp.lock);
		return cn_ipc_event_wait(shared, &place);
	}
	struct cn_operation operation = {.kind = CN_OPERATION_WAIT_POINT, .wait_point = event->point};
	bool recorded = event->recorded;
	cn_unlock(&event->stamp.lock);
	/* In the legacy stream even a wait for a past event separates its group's work before and after. */
	bool matters = recorded && cn_place_is_legacy(&place);
	if (!matters && cn_point_reached(operation.wait_point)) {
		cn_device_ops->queue_follow(&place.stream->queue.base, place.owner, operation.wait_point);
		return CUDA_SUCCESS;
	}
	return cn_stream_submit(&place, &operation, NULL);
}

CUresult host_cuEventQuery(CUevent handle)
{
	struct cn_event *event;
	CUresult result = cn_enter_by_handle();

	if (!result)
		result = cn_event_lock(handle, &event);
	if (result)
		return result;
	struct cn_shared_event *shared = event->shared ? cn_shared_event_take(event->shared) : NULL;
	bool reached = cn_point_reached(event->point) || cn_host_point_happened(event->point);
	cn_unlock(&event->stamp.lock);
	if (shared)
		return cn_ipc_event_query(shared);
	return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult host_cuEventSynchronize(CUevent handle)
{
	struct cn_event *event;
	CUresult result = cn_enter_by_handle();

	if (!result)
		result = cn_event_lock(handle, &event);
	if (result)
		return result;
	struct cn_shared_event *shared = event->shared ? cn_shared_event_take(event->shared) : NULL;
	struct cn_point point = event->point;
	cn_unlock(&event->stamp.lock);
	if (shared)
		return cn_ipc_event_synchronize(shared);
	result = cn_stream_wait_point(point);
	if (!result)
		cn_mempools_synchronised(point);
	return result;
}

/* When was the latest record of the event reached? */
static CUresult time_of(CUevent handle, struct cn_context **ret_context, uint64_t *ret_time_ns)
{
	struct cn_event *event;
	CUresult result = cn_event_lock(handle, &event);

	if (result)
		return result;
	if (event->flags & CU_EVENT_DISABLE_TIMING)
		result = cn_error(CUDA_ERROR_INVALID_HANDLE, "the event was created with CU_EVENT_DISABLE_TIMING");
	else if (!event->recorded)
		result = cn_error(CUDA_ERROR_INVALID_HANDLE, "the event has not been recorded");
	else if (!cn_point_reached(event->point))
		result = CUDA_ERROR_NOT_READY;
	else
		*ret_time_ns = event->stamp.time_ns;
	*ret_context = event->context;
	cn_unlock(&event->stamp.lock);
	return result;
}

CUresult host_cuEventElapsedTime_v2(float *ret_milliseconds, CUevent start, CUevent end)
{
	struct cn_context *start_context, *end_context;
	uint64_t start_ns = 0, end_ns = 0;
	CUresult result = cn_enter_by_handle();

	if (result)
		return result;
	if (!ret_milliseconds)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "pMilliseconds is NULL");
	result = time_of(start, &start_context, &start_ns);
	CUresult end_result = time_of(end, &end_context, &end_ns);
	if (!result || (result == CUDA_ERROR_NOT_READY && end_result))
		result = end_result;
	if (result)
		return result;
	if (start_context != end_context)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "the events belong to different contexts");
	*ret_milliseconds = (float)((double)(int64_t)(end_ns - start_ns) / 1e6);
	return CUDA_SUCCESS;
}

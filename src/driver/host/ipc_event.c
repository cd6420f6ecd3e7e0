/* SPDX-License-Identifier: MIT */
/*
 * Events between processes: exported as 64 bytes, and imported from them.
 *
 * The process that created an event shares it. A process that opens it gets an event of its own over the same signal,
 * which it records, waits for and destroys like any other. What a handle leads to, and what happens when a process
 * dies, is in share/.
 */
#include "driver/host/ipc_event.h"

#include "device/host/host_signal.h"
#include <string.h>

enum { OPENED_FLAGS = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS };

CUresult cn_ipc_event_record(struct cn_shared_event *shared, const struct cn_place *place)
{
	CUresult result = cn_host_signal_record(cn_shared_event_signal(shared), &place->stream->queue, place->owner);

	cn_shared_event_drop(shared);
	return result == CUDA_ERROR_INVALID_HANDLE ? cn_place_is_gone(place) : result;
}

CUresult cn_ipc_event_wait(struct cn_shared_event *shared, const struct cn_place *place)
{
	struct cn_host_queue *queue = &place->stream->queue;
	CUresult result = cn_host_signal_wait(cn_shared_event_signal(shared), queue, place->owner);

	cn_shared_event_drop(shared);
	/* In the legacy stream even a wait for a past event separates its group's work before and after. */
	if (!result && cn_place_is_legacy(place))
		result = cn_device_ops->point_now(&queue->base, place->owner, NULL);
	return result == CUDA_ERROR_INVALID_HANDLE ? cn_place_is_gone(place) : result;
}

CUresult cn_ipc_event_query(struct cn_shared_event *shared)
{
	CUresult result = cn_host_signal_query(cn_shared_event_signal(shared));

	cn_shared_event_drop(shared);
	return result;
}

CUresult cn_ipc_event_synchronize(struct cn_shared_event *shared)
{
	CUresult result = cn_callback_queue ? cn_error(CUDA_ERROR_NOT_PERMITTED,
						       "a host function of a stream may not wait for an event")
					    : cn_host_signal_sync(cn_shared_event_signal(shared));

	cn_shared_event_drop(shared);
	return result;
}

_Static_assert(sizeof(CUipcEventHandle) == CN_HANDLE_BYTES, "as CUDA has it");

CUresult host_cuIpcGetEventHandle(CUipcEventHandle *ret_handle, CUevent event_handle)
{
	struct cn_shared_event *shared = NULL;
	struct cn_home home;
	struct cn_event *event;
	CUipcEventHandle handle;

	if (!ret_handle || !event_handle)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_handle ? "event" : "pHandle");
	CUresult result = cn_context_enter(&home);
	if (!result)
		result = cn_context_has_handles(home.device);
	if (result)
		return result;
	memset(ret_handle, 0, sizeof *ret_handle);
	result = cn_event_lock(event_handle, &event);
	if (result)
		return result;
	if (event->shared)
		shared = cn_shared_event_take(event->shared);
	cn_unlock(&event->stamp.lock);
	if (!shared)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "the event was created without CU_EVENT_INTERPROCESS");
	if (cn_shared_event_is_opened(shared))
		result = cn_error(CUDA_ERROR_INVALID_HANDLE,
				  "the event belongs to another process: pass on the handle that you opened");
	else
		result = cn_shared_event_handle(shared, (unsigned char *)handle.reserved);
	cn_shared_event_drop(shared);
	if (!result)
		*ret_handle = handle;
	return result;
}

CUresult host_cuIpcOpenEventHandle(CUevent *ret_event, CUipcEventHandle handle)
{
	struct cn_shared_event *shared;
	struct cn_home home;

	if (!ret_event)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "phEvent is NULL");
	CUresult result = cn_context_enter(&home);
	if (!result)
		result = cn_context_has_handles(home.device);
	if (!result)
		result = cn_shared_event_open((const unsigned char *)handle.reserved, &shared);
	return result ? result : cn_event_make(&home, OPENED_FLAGS, shared, ret_event);
}

/* SPDX-License-Identifier: MIT */
/*
 * Shared events: those that other processes open from us, and those that we open from them.
 *
 * The creator tells the other processes of a death. A signal's memory is shared by all of them, so what the creator
 * removes there is gone for all. The dead process may have written anything there, also under the recorder numbers of
 * others. So the openers are told, and each removes what is under its own number and is not its own. An event that its
 * creator has freed stays, closed to new openers, until each opener has freed it or has died. An opener that frees an
 * event while a record of it is pending reports the free only when that record is done (the event lingers). When the
 * creator dies, no process tells the remaining ones of each other's deaths: each relies on itself alone.
 *
 * References are held by the program's event and by the calls that use it. When the last reference to an event of our
 * own is dropped, the event is withdrawn; it is freed when no process has it open (port_object.c). An opened event is
 * in the list of its process as long as it has references; a lingering one is referenced by the service thread.
 */
#include "share/event/shared_event.h"

#include "base/container.h"
#include "share/port/port_internal.h"

#include <stdlib.h>

#define LINGER_NS (100 * CN_MILLISECOND_NS)

struct cn_shared_event {
	struct cn_port_object object; /* our own event, once it has a handle */
	_Atomic unsigned references;
	bool published; /* under `publishing` */
	struct cn_signal *signal;
	struct cn_peer_claim *claim; /* NULL: the event is our own, and what follows is unused */
	struct cn_shared_event *next, *previous;
	bool orphaned;
	struct cn_watch linger; /* only a time */
	struct cn_job job;
};

static CN_LOCK(SHARED_EVENTS) lock; /* guards the lists of opened events, `orphaned`, and the drop of last references */
static CN_SLOW_LOCK(EVENT_PUBLISH) publishing;

static void free_event(struct cn_shared_event *event)
{
	if (event->signal)
		cn_host_signal_free(event->signal);
	free(event);
}

static struct cn_shared_event *make_event(void)
{
	struct cn_shared_event *event = calloc(1, sizeof *event);

	if (event)
		atomic_store(&event->references, 1);
	else
		cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for a shared event's record");
	return event;
}

/* ---- Our own events, opened by others ---- */

static CUresult serve(struct cn_port_object *object, struct cn_parcel *ret_reply)
{
	const struct cn_shared_event *event = cn_container_of(object, struct cn_shared_event, object);

	return cn_host_signal_export(event->signal, &ret_reply->descriptors[0]);
}

static void free_object(struct cn_port_object *object)
{
	free_event(cn_container_of(object, struct cn_shared_event, object));
}

static void bury_strangers(struct cn_port_object *object)
{
	size_t count;
	const uint32_t *recorders = cn_port_recorders(&count);

	cn_host_signal_disown(cn_container_of(object, struct cn_shared_event, object)->signal, recorders, count);
}

static const struct cn_port_object_ops ops = {.serve = serve, .bury = bury_strangers, .free = free_object};

/* ---- Events of others, opened by us ---- */

static struct cn_remote *remote_of(const struct cn_shared_event *event)
{
	return event->claim->peer->owner;
}

/* The creator has died, and nothing reports deaths any more: this process relies on itself for the event. */
static void bury_all(struct cn_shared_event *event)
{
	cn_host_signal_bury(event->signal, 0);
	cn_host_signal_bury(event->signal, CN_RECORDER_ALL_OTHERS);
}

static void disown(struct cn_shared_event *event)
{
	cn_host_signal_disown(event->signal, NULL, 0);
}

/* Call a function, without the lock, for each event of a remote process. Each event stays during its call. */
static void for_each(struct cn_remote *remote, bool has_died, void (*function)(struct cn_shared_event *event))
{
	struct cn_shared_event *event, *next;

	cn_lock(&lock);
	event = remote->events;
	if (event)
		cn_shared_event_take(event);
	cn_unlock(&lock);
	for (; event; event = next) {
		cn_lock(&lock);
		event->orphaned |= has_died;
		cn_unlock(&lock);
		function(event);
		cn_lock(&lock);
		next = event->next;
		if (next)
			cn_shared_event_take(next);
		cn_unlock(&lock);
		cn_shared_event_drop(event);
	}
}

static void orphan_events(struct cn_remote *remote)
{
	for_each(remote, true, bury_all);
}

static void disown_events(struct cn_remote *remote)
{
	for_each(remote, false, disown);
}

static const struct cn_remote_event_ops event_ops = {.disown = disown_events, .orphan = orphan_events};

/* The creator may have died just now. Either that is seen here, or the service thread finds the event in the list. */
static void enter_list(struct cn_shared_event *event)
{
	struct cn_remote *remote = remote_of(event);

	atomic_store(&remote->event_ops, &event_ops);
	cn_lock(&lock);
	event->next = remote->events;
	if (event->next)
		event->next->previous = event;
	remote->events = event;
	bool orphaned = event->orphaned = atomic_load(&remote->peer->is_lost);
	cn_unlock(&lock);
	if (orphaned)
		bury_all(event);
}

static void leave_list_locked(struct cn_shared_event *event)
{
	*(event->previous ? &event->previous->next : &remote_of(event)->events) = event->next;
	if (event->next)
		event->next->previous = event->previous;
}

static void linger_due(struct cn_watch *linger)
{
	cn_shared_event_drop(cn_container_of(linger, struct cn_shared_event, linger));
}

/* On the service thread: check again after a while whether the records are done. */
static void linger(struct cn_job *job)
{
	struct cn_shared_event *event = cn_container_of(job, struct cn_shared_event, job);

	event->linger.due_ns = cn_clock_ns() + LINGER_NS;
	if (!event->linger.watched)
		cn_service_watch(&event->linger); /* only a time: this does not fail */
}

/* Drop what may be the last reference to an opened event. */
static void drop_opened(struct cn_shared_event *event)
{
	cn_lock(&lock);
	bool last = atomic_fetch_sub_explicit(&event->references, 1, memory_order_acq_rel) == 1;
	bool lingers = last && !event->orphaned && cn_host_signal_busy(event->signal);
	if (lingers)
		atomic_store(&event->references, 1); /* the service thread's */
	else if (last)
		leave_list_locked(event);
	cn_unlock(&lock);
	if (lingers)
		cn_service_post(&event->job);
	if (!last || lingers)
		return;
	if (event->linger.watched) /* then this is the service thread */
		cn_service_unwatch(&event->linger);
	struct cn_peer_claim *claim = event->claim;
	free_event(event);
	cn_peer_give_back(claim);
	cn_port_closed(CN_HANDLE_EVENT, 0);
}

static bool is_answer(const struct cn_message *reply)
{
	return reply->words[0] && reply->words[0] < CN_RECORDER_ALL_OTHERS;
}

static CUresult refuse_freed(void)
{
	return cn_error(CUDA_ERROR_MAP_FAILED, "the handle's object no longer exists in its process");
}

static const struct cn_remote_kind kind = {
	.handle = CN_HANDLE_EVENT,
	.open = CN_MESSAGE_EVENT,
	.close = CN_MESSAGE_EVENT_FREED,
	.is_answer = is_answer,
	.failed = CUDA_ERROR_OPERATING_SYSTEM,
	.name = "event",
	.refuse_freed = refuse_freed,
};

static CUresult open_remote(const struct cn_handle *handle, struct cn_shared_event *event)
{
	struct cn_parcel reply;
	CUresult result = cn_remote_ask(handle, &kind, &event->claim, &reply);

	if (result)
		return result;
	result = cn_host_signal_import(reply.descriptors[0], (uint32_t)reply.message.words[0], &event->signal);
	cn_wire_close(&reply);
	cn_fork_allow();
	if (result) {
		cn_peer_give_back(event->claim);
		return result;
	}
	event->linger = (struct cn_watch){.fd = -1, .due = linger_due};
	event->job.run = linger;
	enter_list(event);
	return CUDA_SUCCESS;
}

/* ---- What the driver calls ---- */

CUresult cn_shared_event_create(struct cn_shared_event **ret_event)
{
	struct cn_shared_event *event = make_event();

	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = cn_host_signal_create(&event->signal);
	if (result)
		free(event);
	else
		*ret_event = event;
	return result;
}

struct cn_shared_event *cn_shared_event_take(struct cn_shared_event *event)
{
	atomic_fetch_add_explicit(&event->references, 1, memory_order_relaxed);
	return event;
}

void cn_shared_event_drop(struct cn_shared_event *event)
{
	if (!event)
		return;
	unsigned count = atomic_load_explicit(&event->references, memory_order_relaxed);
	while (count > 1)
		if (atomic_compare_exchange_weak_explicit(&event->references, &count, count - 1, memory_order_release,
							  memory_order_relaxed))
			return;
	if (event->claim)
		drop_opened(event);
	else if (atomic_fetch_sub_explicit(&event->references, 1, memory_order_acq_rel) == 1 &&
		 (!event->published || cn_port_object_withdraw(&event->object)))
		free_event(event);
}

CUresult cn_shared_event_handle(struct cn_shared_event *event, unsigned char ret_handle[CN_HANDLE_BYTES])
{
	CUresult result = CUDA_SUCCESS;

	if (event->claim)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"the event belongs to another process, and only that can share it");
	cn_slow_lock(&publishing);
	if (!event->published)
		result = cn_port_object_publish(&event->object, CN_HANDLE_EVENT, &ops);
	event->published |= !result;
	cn_slow_unlock(&publishing);
	if (!result)
		cn_port_object_write(&event->object, ret_handle);
	return result;
}

CUresult cn_shared_event_open(const unsigned char handle[CN_HANDLE_BYTES], struct cn_shared_event **ret_event)
{
	struct cn_handle read;
	CUresult result = cn_handle_read(handle, CN_HANDLE_EVENT, &read);

	if (!result)
		result = cn_service_start();
	if (result)
		return result;
	if (cn_port_is_own(read.port))
		return cn_error(CUDA_ERROR_INVALID_CONTEXT,
				"the handle's event belongs to this process: use the event itself");
	struct cn_shared_event *event = make_event();
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = open_remote(&read, event);
	if (result) {
		free(event);
		return result;
	}
	cn_port_opened(CN_HANDLE_EVENT, 0);
	*ret_event = event;
	return CUDA_SUCCESS;
}

bool cn_shared_event_is_opened(const struct cn_shared_event *event)
{
	return event->claim != NULL;
}

struct cn_signal *cn_shared_event_signal(const struct cn_shared_event *event)
{
	return event->signal;
}

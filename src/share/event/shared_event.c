/* SPDX-License-Identifier: MIT */
/*
 * Events that are shared: those that others open from us, and those that we open from them.
 *
 * The creator is who tells the others of a death: a signal's memory is everybody's, and what is buried there is seen by
 * all. The dead one may have written there what it liked, also in the names of others; so those who have opened events
 * are told, and each takes out what is in its own name and not its own. An event that its creator has freed is kept,
 * for nobody new to open, until those who have opened it have freed it too or have died; and one who has opened an
 * event and frees it with a record of it still pending says so only when that is done (`linger`). When the creator
 * dies, those who are left have nobody to tell them of each other's deaths, and count on nobody but themselves.
 */
#include "base/container.h"
#include "share/port/port_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A signal, and by how many it is used: the program, the origin of its handle, one who is at work with it. */
struct cn_event_holder {
	struct cn_signal *signal;
	unsigned users;
};

/* An event of ours that has a handle. */
struct event_origin {
	struct cn_origin origin;
	struct cn_event_holder *holder;
};

struct cn_shared_event {
	struct cn_event_holder *holder;
	struct event_origin *origin; /* NULL: has no handle yet, or was opened */
	struct cn_opened *opened;    /* NULL: is our own */
};

static struct {
	CN_LOCK(SHARED_EVENTS) lock; /* of holders' users, of events' origins, and of what is said of opened ones */
} events;

/* ---- Holders ---- */

/* May free the signal: no lock is held. NULL is nothing. */
static void drop_holder(struct cn_event_holder *holder)
{
	if (!holder)
		return;
	cn_lock(&events.lock);
	bool last = --holder->users == 0;
	cn_unlock(&events.lock);
	if (!last)
		return;
	cn_host_signal_free(holder->signal);
	free(holder);
}

/* An event with a holder of its own, still without a signal. */
static struct cn_shared_event *make_event(void)
{
	struct cn_shared_event *event = calloc(1, sizeof *event);

	if (event)
		event->holder = calloc(1, sizeof *event->holder);
	if (event && event->holder) {
		event->holder->users = 1;
		return event;
	}
	free(event);
	cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for a shared event's record");
	return NULL;
}

/* ---- Our own, as others open them ---- */

/* Nobody has the event open any more, nor will. */
static void forget_origin(struct event_origin *origin)
{
	drop_holder(origin->holder);
	free(origin);
}

void cn_shared_event_returned(struct cn_caller *caller, struct cn_opening *opening)
{
	struct event_origin *origin = cn_container_of(opening->origin, struct event_origin, origin);

	if (cn_opening_end(caller, opening))
		forget_origin(origin);
}

/* The origin has the holder. */
static void bury_strangers(struct cn_origin *origin)
{
	size_t count;
	const uint32_t *recorders = cn_port_recorders(&count);

	cn_host_signal_disown(cn_container_of(origin, struct event_origin, origin)->holder->signal, recorders, count);
}

void cn_shared_events_bury(void)
{
	cn_origin_each(CN_HANDLE_EVENT, bury_strangers);
}

bool cn_shared_event_serve(struct cn_caller *caller, const struct cn_message *request, struct cn_parcel *ret_reply)
{
	struct cn_opening *opening;
	CUresult result = cn_opening_begin(caller, CN_HANDLE_EVENT, request, &opening);

	if (!result) {
		const struct event_origin *origin = (const struct event_origin *)opening->origin;
		result = cn_host_signal_export(origin->holder->signal, &ret_reply->descriptors[0]);
		ret_reply->descriptor_count = result ? 0 : 1;
		if (result)
			cn_shared_event_returned(caller, opening);
	}
	ret_reply->message.result = (int32_t)result;
	return result != CUDA_ERROR_NOT_PERMITTED;
}

/* Make an event known, once. */
static CUresult publish(struct cn_shared_event *event)
{
	struct event_origin *origin = calloc(1, sizeof *origin);

	if (!origin)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for a shared event's record");
	origin->holder = event->holder;
	cn_lock(&events.lock);
	origin->holder->users++;
	cn_unlock(&events.lock);
	CUresult result = cn_origin_publish(&origin->origin, CN_HANDLE_EVENT);
	if (result) {
		forget_origin(origin);
		return result;
	}
	cn_lock(&events.lock);
	if (!event->origin) {
		event->origin = origin;
		origin = NULL;
	}
	cn_unlock(&events.lock);
	if (origin && cn_origin_withdraw(&origin->origin)) /* another thread was quicker */
		forget_origin(origin);
	return CUDA_SUCCESS;
}

/* ---- Others', opened by us ---- */

/* This process is alone with the event: its creator has died, and with it the news of anybody's death. */
static void bury_all(struct cn_signal *signal)
{
	cn_host_signal_bury(signal, 0);
	cn_host_signal_bury(signal, CN_RECORDER_ALL_OTHERS);
}

/* What an opened event stands on, kept until drop_holder(); NULL: it is freed. */
static struct cn_event_holder *keep_holder_locked(struct cn_opened *opened)
{
	if (opened->holder)
		opened->holder->users++;
	return opened->holder;
}

void cn_shared_event_orphaned(struct cn_opened *opened)
{
	cn_lock(&events.lock);
	opened->orphaned = true;
	struct cn_event_holder *holder = keep_holder_locked(opened);
	cn_unlock(&events.lock);
	if (holder)
		bury_all(holder->signal);
	drop_holder(holder);
}

void cn_shared_event_disown(struct cn_opened *opened)
{
	cn_lock(&events.lock);
	struct cn_event_holder *holder = keep_holder_locked(opened);
	cn_unlock(&events.lock);
	if (holder)
		cn_host_signal_disown(holder->signal, NULL, 0);
	drop_holder(holder);
}

/* On the service thread: the event has been freed here. */
static void linger_or_return(struct cn_opened *opened)
{
	struct cn_event_holder *holder = opened->holder; /* nobody else changes it any more */

	if (holder && opened->creator && cn_host_signal_busy(holder->signal)) {
		opened->linger.due_ns = cn_clock_ns() + CN_OPENED_LINGER_NS;
		return;
	}
	cn_lock(&events.lock);
	opened->holder = NULL;
	cn_unlock(&events.lock);
	drop_holder(holder);
	cn_opened_return(opened);
}

static void linger_due(struct cn_watch *linger)
{
	linger_or_return(cn_container_of(linger, struct cn_opened, linger));
}

static void event_freed(struct cn_job *job)
{
	struct cn_opened *opened = cn_container_of(job, struct cn_opened, job);

	if (opened->holder) {
		opened->linger = (struct cn_watch){.fd = -1, .due = linger_due};
		cn_service_keep(&opened->linger);
	}
	linger_or_return(opened);
}

static void free_opened(struct cn_opened *opened)
{
	struct cn_event_holder *holder;

	cn_lock(&events.lock);
	holder = opened->holder;
	cn_unlock(&events.lock);
	if (holder && !cn_host_signal_busy(holder->signal)) {
		cn_lock(&events.lock);
		opened->holder = NULL;
		cn_unlock(&events.lock);
		drop_holder(holder);
	}
	opened->job.run = event_freed;
	cn_service_post(&opened->job);
}

/* The reply has come: make an event of its descriptor. */
static CUresult import_event(struct cn_opened *opened, struct cn_parcel *reply, struct cn_shared_event *event)
{
	struct cn_signal *signal;
	CUresult result = cn_host_signal_import(reply->descriptors[0], (uint32_t)reply->message.words[0], &signal);

	cn_wire_close(reply);
	if (result)
		return result;
	event->holder->signal = signal;
	event->opened = opened;
	cn_lock(&events.lock);
	opened->holder = event->holder;
	bool orphaned = opened->orphaned;
	cn_unlock(&events.lock);
	if (orphaned)
		bury_all(signal);
	return CUDA_SUCCESS;
}

static CUresult open_others(const struct cn_handle *handle, struct cn_shared_event **ret_event)
{
	struct cn_shared_event *event = make_event();
	struct cn_opened *opened = calloc(1, sizeof *opened);
	struct cn_parcel reply;
	CUresult result;

	if (event && opened) {
		result = cn_creator_ask(handle, opened, &reply);
		if (!result) {
			result = import_event(opened, &reply, event);
			if (result)
				free_opened(opened);
		}
	} else {
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for a shared event's record");
		free(opened);
	}
	if (result) {
		if (event)
			free(event->holder);
		free(event);
		return result;
	}
	*ret_event = event;
	return CUDA_SUCCESS;
}

/* ---- What the driver calls ---- */

CUresult cn_shared_event_create(struct cn_shared_event **ret_event)
{
	struct cn_shared_event *event = make_event();

	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = cn_host_signal_create(&event->holder->signal);
	if (result) {
		free(event->holder);
		free(event);
		return result;
	}
	*ret_event = event;
	return CUDA_SUCCESS;
}

CUresult cn_shared_event_handle(struct cn_shared_event *event, unsigned char ret_handle[CN_HANDLE_BYTES])
{
	if (event->opened)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"the event belongs to another process, and only that can share it");
	cn_lock(&events.lock);
	bool published = event->origin;
	cn_unlock(&events.lock);
	CUresult result = published ? CUDA_SUCCESS : publish(event);
	if (!result)
		cn_origin_write(&event->origin->origin, ret_handle);
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
	return open_others(&read, ret_event);
}

void cn_shared_event_free(struct cn_shared_event *event)
{
	if (!event)
		return;
	if (event->opened) {
		free_opened(event->opened);
	} else {
		if (event->origin && cn_origin_withdraw(&event->origin->origin))
			forget_origin(event->origin);
		drop_holder(event->holder);
	}
	free(event);
}

struct cn_signal *cn_shared_event_signal(const struct cn_shared_event *event)
{
	return event->holder->signal;
}

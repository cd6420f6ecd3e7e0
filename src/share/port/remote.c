/* SPDX-License-Identifier: MIT */
/*
 * Remote ports: the processes at whose ports we called, with one connection each, for events and for memory.
 *
 * A connection stays until it ends: its end is how either side learns of the other's death. Connecting may take a
 * while, so no thread waits for another's connection; if two threads connect at the same time, one connection is closed
 * again. A broken connection is forgotten at once, and the question is asked again on a new one: the other process may
 * have sent us away, and be alive.
 */
#include "base/container.h"
#include "share/port/port_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	CN_LOCK(REMOTES) lock;
	struct cn_remote *first; /* each with a reference to its peer */
} remotes;

/* ---- Their list ---- */

static struct cn_peer *take_listed_locked(const unsigned char port[CN_PORT_NAME_BYTES])
{
	struct cn_remote *remote = remotes.first;

	while (remote && memcmp(remote->port, port, sizeof remote->port) != 0)
		remote = remote->next;
	return remote ? cn_peer_take(remote->peer) : NULL;
}

/* This connection is given to no caller from now on. */
static void forget(struct cn_remote *remote)
{
	cn_lock(&remotes.lock);
	struct cn_remote **link = &remotes.first;
	while (*link && *link != remote)
		link = &(*link)->next;
	bool listed = *link;
	if (listed)
		*link = remote->next;
	cn_unlock(&remotes.lock);
	if (listed)
		cn_peer_drop(remote->peer);
}

/* ---- What is open, for reports ---- */

static struct cn_port_opening_sum opened[CN_HANDLE_KINDS]; /* with the lock */

void cn_port_opened(enum cn_handle_kind kind, uint64_t bytes)
{
	uint64_t now_ns = cn_clock_ns();

	cn_lock(&remotes.lock);
	if (!opened[kind].count++)
		opened[kind].since_ns = now_ns;
	opened[kind].bytes += bytes;
	cn_unlock(&remotes.lock);
	cn_port_try_open();
	cn_port_changed();
}

void cn_port_closed(enum cn_handle_kind kind, uint64_t bytes)
{
	cn_lock(&remotes.lock);
	opened[kind].count--;
	opened[kind].bytes -= bytes;
	cn_unlock(&remotes.lock);
	cn_port_changed();
}

void cn_port_opened_sum(enum cn_handle_kind kind, struct cn_port_opening_sum *ret_sum)
{
	cn_lock(&remotes.lock);
	*ret_sum = opened[kind];
	cn_unlock(&remotes.lock);
}

/* ---- What they send ---- */

static void tell_events(struct cn_job *job)
{
	struct cn_remote *remote = cn_container_of(job, struct cn_remote, death_job);

	atomic_store(&remote->death_posted, false);
	const struct cn_remote_event_ops *event_ops = atomic_load(&remote->event_ops);
	if (event_ops)
		event_ops->disown(remote);
	cn_peer_drop(remote->peer);
}

/* An opener of that process's events has died. Any thread may read this; the service thread acts on it. */
static int hear(struct cn_peer *peer, const struct cn_message *message)
{
	struct cn_remote *remote = peer->owner;

	if (message->kind != CN_MESSAGE_DEATH || message->request)
		return EPROTO;
	if (!atomic_exchange(&remote->death_posted, true)) {
		cn_peer_take(peer);
		cn_service_post(&remote->death_job);
	}
	return 0;
}

static void lost(struct cn_peer *peer)
{
	struct cn_remote *remote = peer->owner;

	forget(remote);
	const struct cn_remote_event_ops *event_ops = atomic_load(&remote->event_ops);
	if (event_ops)
		event_ops->orphan(remote);
}

static const struct cn_peer_ops ops = {.hear = hear, .lost = lost, .free = free};

/* ---- Calling ---- */

/* Connect to a port of our user. No other thread knows the connection yet. */
static CUresult call(const unsigned char port[CN_PORT_NAME_BYTES], enum cn_handle_kind kind, struct cn_peer **ret_peer)
{
	struct cn_remote *remote = calloc(1, sizeof *remote);
	char name[CN_SOCKET_NAME_CHARS + 1];
	struct ucred who;

	if (!remote)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for another process's record");
	CUresult result = cn_peer_open(&ops, remote, &remote->peer);
	if (result) {
		free(remote);
		return result;
	}
	struct cn_peer *peer = remote->peer;
	memcpy(remote->port, port, sizeof remote->port);
	remote->death_job.run = tell_events;
	cn_port_name(port, name);
	result = cn_wire_reach_name(peer->channel.fd, name);
	if (result)
		result = result == CUDA_ERROR_INVALID_VALUE ? cn_handle_gone(kind) : result;
	else if (!cn_wire_identify(peer->channel.fd, &who) || who.uid != geteuid())
		result = cn_error(cn_handle_gone(kind), "the handle's process runs as another user");
	else
		result = cn_peer_watch(peer);
	if (result)
		cn_peer_drop(peer);
	else
		*ret_peer = peer;
	return result;
}

/* The peer at a port, with a reference. */
static CUresult find(const unsigned char port[CN_PORT_NAME_BYTES], enum cn_handle_kind kind, struct cn_peer **ret_peer)
{
	struct cn_peer *fresh;

	cn_lock(&remotes.lock);
	*ret_peer = take_listed_locked(port);
	cn_unlock(&remotes.lock);
	if (*ret_peer)
		return CUDA_SUCCESS;
	CUresult result = call(port, kind, &fresh);
	if (result)
		return result;
	struct cn_remote *remote = fresh->owner;
	cn_lock(&remotes.lock);
	*ret_peer = take_listed_locked(port);
	if (!*ret_peer && !atomic_load(&fresh->is_lost)) {
		remote->next = remotes.first;
		remotes.first = remote;
		cn_peer_take(fresh);
	}
	cn_unlock(&remotes.lock);
	if (*ret_peer) {
		cn_peer_refuse(fresh); /* another thread was faster; the service thread sees the end of this one */
		cn_peer_drop(fresh);
	} else {
		*ret_peer = fresh;
	}
	return CUDA_SUCCESS;
}

/* ---- Asking ---- */

static CUresult explain_error(enum cn_handle_kind kind, int error)
{
	if (error == EPIPE)
		return cn_error(cn_handle_gone(kind), "the handle's process has ended, or has too many clients");
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the handle's process cannot be asked: %s",
			cn_wire_explain(error));
}

static CUresult explain_result(const struct cn_remote_kind *kind, int32_t result)
{
	if (result == CUDA_ERROR_INVALID_HANDLE)
		return kind->refuse_freed();
	if (result == CUDA_ERROR_NOT_PERMITTED)
		return cn_error(cn_handle_refused(kind->handle),
				"the handle's process says that it never gave out this handle");
	return cn_error(kind->failed, "the handle's process cannot share the %s (it says %d)", kind->name, (int)result);
}

static int ask(struct cn_peer *peer, const struct cn_handle *handle, const struct cn_remote_kind *kind,
	       struct cn_peer_question *question, struct cn_parcel *ret_reply)
{
	struct cn_message *message = &question->request.message;

	*message = (struct cn_message){.kind = kind->open, .words = {handle->number, handle->node}};
	memcpy(message->bytes, handle->secret, sizeof handle->secret);
	int error = cn_peer_ask(peer, question, ret_reply);
	if (error)
		return error;
	const struct cn_message *reply = &ret_reply->message;
	if (reply->kind == kind->open && ret_reply->descriptor_count == !reply->result &&
	    (reply->result || kind->is_answer(reply)))
		return 0;
	cn_wire_close(ret_reply);
	cn_fork_allow();
	cn_peer_refuse(peer);
	cn_peer_give_back(question->claim);
	return EPROTO;
}

CUresult cn_remote_ask(const struct cn_handle *handle, const struct cn_remote_kind *kind,
		       struct cn_peer_claim **ret_claim, struct cn_parcel *ret_reply)
{
	struct cn_peer_question question = {
		.deadline_ns = cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS, /* for all tries together */
	};

	for (bool again = false;; again = true) {
		struct cn_peer *peer;
		CUresult result = find(handle->port, kind->handle, &peer);
		if (result)
			return result;
		question.claim = cn_peer_claim(peer, kind->close, handle->number);
		if (!question.claim) {
			cn_peer_drop(peer);
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for a question to another process");
		}
		int error = ask(peer, handle, kind, &question, ret_reply);
		if (error == EPIPE || error == EPROTO)
			forget(peer->owner);
		cn_peer_drop(peer);
		if (!error && !ret_reply->message.result) {
			*ret_claim = question.claim;
			return CUDA_SUCCESS;
		}
		if (!error) {
			cn_fork_allow();
			return explain_result(kind, ret_reply->message.result);
		}
		if (error != EPIPE || again)
			return explain_error(kind->handle, error);
	}
}

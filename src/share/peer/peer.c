/* SPDX-License-Identifier: MIT */
/*
 * Peers: see peer.h.
 *
 * Each caller that was given the peer holds a reference; so do each claim, and the service thread while it watches. The
 * channel leaves the service's epoll when the connection ends, and is closed with the last reference.
 *
 * The channel is paused during a question, so that the answer does not wake the service thread.
 */
#include "share/peer/peer.h"

#include "base/container.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define RETRY_NS (10 * CN_MILLISECOND_NS)

/* ---- Claims ---- */

struct cn_peer_claim *cn_peer_claim(struct cn_peer *peer, enum cn_message_kind kind, uint64_t number)
{
	struct cn_peer_claim *claim = calloc(1, sizeof *claim);

	if (!claim)
		return NULL;
	claim->peer = cn_peer_take(peer);
	claim->give_back = (struct cn_message){.kind = kind, .words = {number}};
	return claim;
}

/* The claim was given back, or nothing was ever kept for it. */
static void free_claim(struct cn_peer_claim *claim)
{
	if (!claim)
		return;
	cn_peer_drop(claim->peer);
	free(claim);
}

static void free_claims(struct cn_peer_claim *claim)
{
	while (claim) {
		struct cn_peer_claim *next = claim->next;
		free_claim(claim);
		claim = next;
	}
}

/* Queue a claim that waits for its answer; the oldest is first. */
static void wait_for_answer(struct cn_peer *peer, struct cn_peer_claim *claim)
{
	cn_lock(&peer->lock);
	struct cn_peer_claim **link = &peer->unanswered;
	while (*link)
		link = &(*link)->next;
	*link = claim;
	cn_unlock(&peer->lock);
}

/* Take the claim that waits for the answer to `request`; 0: the oldest claim. NULL: none waits. */
static struct cn_peer_claim *take_unanswered(struct cn_peer *peer, uint64_t request)
{
	cn_lock(&peer->lock);
	struct cn_peer_claim **link = &peer->unanswered;
	while (*link && request && (*link)->request != request)
		link = &(*link)->next;
	struct cn_peer_claim *claim = *link;
	if (claim) {
		*link = claim->next;
		claim->next = NULL;
	}
	cn_unlock(&peer->lock);
	return claim;
}

static int send_message(const struct cn_peer *peer, const struct cn_message *message)
{
	struct cn_parcel parcel = {.message = *message};

	return cn_wire_send(peer->channel.fd, &parcel);
}

/* On the service thread. */
static void retry_soon(struct cn_job *job)
{
	struct cn_peer *peer = cn_container_of(job, struct cn_peer, retry);

	cn_lock(&peer->lock);
	peer->retry_posted = false;
	cn_unlock(&peer->lock);
	if (!atomic_load(&peer->is_lost))
		peer->channel.due_ns = cn_clock_ns() + RETRY_NS;
	cn_peer_drop(peer);
}

/* The socket has no room now. Without this the peer would keep what the claim is for until we end. */
static void keep_unsent(struct cn_peer_claim *claim)
{
	struct cn_peer *peer = claim->peer;

	cn_lock(&peer->lock);
	bool is_lost = atomic_load(&peer->is_lost);
	if (!is_lost) {
		claim->next = peer->unsent;
		peer->unsent = claim;
		if (!peer->retry_posted) {
			peer->retry_posted = true;
			cn_peer_take(peer);
			cn_service_post(&peer->retry);
		}
	}
	cn_unlock(&peer->lock);
	if (is_lost)
		free_claim(claim);
}

void cn_peer_give_back(struct cn_peer_claim *claim)
{
	if (!claim)
		return;
	int error = atomic_load(&claim->peer->is_lost) ? EPIPE : send_message(claim->peer, &claim->give_back);
	if (error && error != EPIPE)
		keep_unsent(claim);
	else
		free_claim(claim);
}

void cn_peer_send(struct cn_peer *peer, const struct cn_message *message)
{
	int error = atomic_load(&peer->is_lost) ? 0 : send_message(peer, message);

	if (error && error != EPIPE)
		peer->channel.due_ns = cn_clock_ns() + RETRY_NS;
}

static struct cn_peer_claim *take_unsent(struct cn_peer *peer)
{
	cn_lock(&peer->lock);
	struct cn_peer_claim *claim = peer->unsent;
	if (claim)
		peer->unsent = claim->next;
	cn_unlock(&peer->lock);
	return claim;
}

/* There may be room again: send until there is none. */
static void channel_due(struct cn_watch *channel)
{
	struct cn_peer *peer = cn_container_of(channel, struct cn_peer, channel);
	struct cn_peer_claim *claim;

	while (!channel->due_ns && (claim = take_unsent(peer))) {
		cn_peer_send(peer, &claim->give_back);
		if (channel->due_ns)
			keep_unsent(claim);
		else
			free_claim(claim);
	}
	if (peer->ops->again && !channel->due_ns)
		peer->ops->again(peer);
}

/* ---- Incoming messages ---- */

/* Handle a message that is not the answer a thread waits for: 0, or errno. */
static int take_other(struct cn_peer *peer, struct cn_parcel *parcel)
{
	const struct cn_message *message = &parcel->message;
	struct cn_peer_claim *claim = message->request ? take_unanswered(peer, message->request) : NULL;

	cn_wire_close(parcel);
	if (!claim)
		return peer->ops->hear ? peer->ops->hear(peer, message) : EPROTO;
	if (message->result)
		free_claim(claim);
	else
		cn_peer_give_back(claim);
	return 0;
}

/* On the service thread, while no thread asks: nothing more is sent or received. Returns the claims that are left. */
static struct cn_peer_claim *end_channel(struct cn_peer *peer)
{
	struct cn_peer_claim **link = &peer->unanswered;

	cn_service_mute(&peer->channel);
	shutdown(peer->channel.fd, SHUT_RDWR);
	cn_lock(&peer->lock);
	atomic_store(&peer->is_lost, true);
	while (*link)
		link = &(*link)->next;
	*link = peer->unsent;
	struct cn_peer_claim *claims = peer->unanswered;
	peer->unanswered = peer->unsent = NULL;
	cn_unlock(&peer->lock);
	return claims;
}

static void channel_ready(struct cn_watch *channel)
{
	struct cn_peer *peer = cn_container_of(channel, struct cn_peer, channel);
	struct cn_peer_claim *claims = NULL;
	struct cn_parcel parcel;

	if (!cn_slow_try_lock(&peer->turn))
		return; /* the asking thread reads, and has us called again for what it leaves */
	int error = cn_wire_receive(channel->fd, &parcel);
	if (!error)
		error = take_other(peer, &parcel);
	if (error == EMFILE) { /* only answers have descriptors, and they come in order: it was the oldest, and late */
		cn_peer_give_back(take_unanswered(peer, 0));
		error = 0;
	}
	bool ended = error && error != EAGAIN;
	if (ended)
		claims = end_channel(peer);
	cn_slow_unlock(&peer->turn);
	if (!ended)
		return;
	free_claims(claims);
	if (peer->ops->lost)
		peer->ops->lost(peer);
	cn_peer_drop(peer); /* the service thread's own reference */
}

/* ---- Waiting ---- */

/* Spin first: an answer mostly takes less time than to fall asleep and be woken. */
enum { LOOK_NS = 200000, SHORTAGE_MS = 1 };

/* 0, or errno: ETIMEDOUT if the deadline passes first. */
static int wait_until(int sock, short events, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd wanted = {.fd = sock, .events = events};
		uint64_t now_ns = cn_clock_ns();
		int count = poll(&wanted, 1,
				 now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / CN_MILLISECOND_NS) + 1 : 0);

		if (count > 0) /* or it is broken: the next call says how */
			return wanted.revents & POLLNVAL ? EBADF : 0;
		if (count < 0 && errno != EINTR && errno != ENOMEM)
			return errno;
		if (now_ns >= deadline_ns)
			return ETIMEDOUT;
		if (count < 0)
			sched_yield();
	}
}

/* Waits for room in the socket, and for memory in the system: neither shortage means that the peer is gone. */
static int send_until(int sock, const struct cn_parcel *parcel, uint64_t deadline_ns)
{
	for (;;) {
		int error = cn_wire_send(sock, parcel);
		bool shortage = error == ENOBUFS || error == ENOMEM;

		if (error != EAGAIN && !shortage)
			return error;
		if (cn_clock_ns() >= deadline_ns) /* also where there is room each time, and others take it */
			return shortage ? error : ETIMEDOUT;
		if (shortage)
			poll(NULL, 0, SHORTAGE_MS);
		else if ((error = wait_until(sock, POLLOUT, deadline_ns)))
			return error;
	}
}

/* Wait until something can be received, or the peer has closed. */
static int await_message(int sock, uint64_t deadline_ns)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	uint64_t now_ns = cn_clock_ns(), until_ns = now_ns + LOOK_NS;

	/* Check this first: the deadline also holds for a peer that never stops talking. */
	if (now_ns >= deadline_ns)
		return ETIMEDOUT;
	do {
		if (poll(&wanted, 1, 0) == 1)
			return 0;
		sched_yield(); /* the other process may need this very processor */
	} while (cn_clock_ns() < until_ns);
	return wait_until(sock, POLLIN, deadline_ns);
}

/* ---- Asking ---- */

static int receive(int sock, bool bare, struct cn_parcel *ret_parcel)
{
	if (!bare)
		return cn_wire_receive(sock, ret_parcel);
	ret_parcel->descriptor_count = 0;
	return cn_wire_receive_message(sock, &ret_parcel->message);
}

/* Wait for an answer. The caller has the turn. After 0 a fork must wait. */
static int await_answer(struct cn_peer *peer, const struct cn_peer_question *question, uint64_t deadline_ns,
			struct cn_parcel *ret_answer)
{
	int error;

	while (!(error = await_message(peer->channel.fd, deadline_ns))) {
		struct cn_parcel parcel;
		cn_fork_hold(); /* a child would inherit its descriptors */
		error = receive(peer->channel.fd, question->bare, &parcel);
		if (!error && parcel.message.request == question->request.message.request) {
			*ret_answer = parcel;
			return 0;
		}
		if (!error)
			error = take_other(peer, &parcel);
		cn_fork_allow();
		if (error && error != EAGAIN)
			break;
	}
	return error;
}

/* Settle what becomes of a question's claim. The caller has the turn. */
static void settle_claim(struct cn_peer *peer, struct cn_peer_question *question, int error, int32_t result)
{
	if (!question->claim)
		return;
	if (!error)
		take_unanswered(peer, question->request.message.request);
	if (error == EMFILE) /* answers come in order */
		cn_peer_give_back(take_unanswered(peer, 0));
	if (!error && result)
		free_claim(question->claim);
	if (error || result)
		question->claim = NULL;
}

/* Ask. The caller has the turn. */
static int ask(struct cn_peer *peer, struct cn_peer_question *question, uint64_t deadline_ns,
	       struct cn_parcel *ret_answer)
{
	question->request.message.request = ++peer->request_last;
	int error = send_until(peer->channel.fd, &question->request, deadline_ns);
	if (error) {
		free_claim(question->claim);
		question->claim = NULL;
		return error;
	}
	if (question->claim) {
		question->claim->request = question->request.message.request;
		wait_for_answer(peer, question->claim);
	}
	if (question->meanwhile)
		question->meanwhile(question->object);
	error = await_answer(peer, question, deadline_ns, ret_answer);
	settle_claim(peer, question, error, error ? 0 : ret_answer->message.result);
	return error;
}

int cn_peer_ask(struct cn_peer *peer, struct cn_peer_question *question, struct cn_parcel *ret_answer)
{
	uint64_t deadline_ns =
		question->deadline_ns ? question->deadline_ns : cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS;
	int error = cn_slow_lock_until(&peer->turn, deadline_ns) ? 0 : ETIMEDOUT;

	if (!error && atomic_load(&peer->is_lost)) {
		cn_slow_unlock(&peer->turn);
		error = EPIPE;
	}
	if (error) {
		free_claim(question->claim);
		question->claim = NULL;
		return error;
	}
	if (peer->is_watched)
		cn_service_pause(&peer->channel);
	error = ask(peer, question, deadline_ns, ret_answer);
	if (error == EPROTO)
		cn_peer_refuse(peer);
	if (peer->is_watched)
		cn_service_resume(&peer->channel);
	cn_slow_unlock(&peer->turn);
	return error;
}

void cn_peer_refuse(struct cn_peer *peer)
{
	shutdown(peer->channel.fd, SHUT_RDWR);
}

/* ---- Its life ---- */

CUresult cn_peer_open(const struct cn_peer_ops *ops, void *owner, struct cn_peer **ret_peer)
{
	struct cn_peer *peer = calloc(1, sizeof *peer);

	if (!peer)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for another process's record");
	cn_fork_hold();
	CUresult result = cn_wire_open(&peer->channel.fd);
	if (!result)
		cn_service_keep(&peer->channel);
	cn_fork_allow();
	if (result) {
		free(peer);
		return result;
	}
	peer->channel.ready = channel_ready;
	peer->channel.due = channel_due;
	peer->retry.run = retry_soon;
	peer->ops = ops;
	peer->owner = owner;
	atomic_store(&peer->references, 1);
	*ret_peer = peer;
	return CUDA_SUCCESS;
}

CUresult cn_peer_watch(struct cn_peer *peer)
{
	cn_peer_take(peer);
	peer->is_watched = true;
	CUresult result = cn_service_watch(&peer->channel);
	if (result) {
		peer->is_watched = false;
		cn_peer_drop(peer);
	}
	return result;
}

static void drop(struct cn_peer *peer, unsigned count)
{
	if (atomic_fetch_sub_explicit(&peer->references, count, memory_order_acq_rel) != count)
		return;
	cn_service_unwatch(&peer->channel);
	if (peer->ops->free)
		peer->ops->free(peer->owner);
	free(peer);
}

void cn_peer_end(struct cn_peer *peer)
{
	bool ends = peer->is_watched && !atomic_load(&peer->is_lost);

	if (ends)
		free_claims(end_channel(peer));
	drop(peer, ends ? 2 : 1); /* with the service thread's reference, since that thread will not see the end */
}

struct cn_peer *cn_peer_take(struct cn_peer *peer)
{
	atomic_fetch_add_explicit(&peer->references, 1, memory_order_relaxed);
	return peer;
}

void cn_peer_drop(struct cn_peer *peer)
{
	if (peer)
		drop(peer, 1);
}

/* SPDX-License-Identifier: MIT */
/*
 * A peer: another process, not trusted, at the other end of a connection that we made.
 *
 * The record is counted, and its descriptor stays open until the last reference is dropped: no thread ever sends to a
 * descriptor number that is another file by now. The asking thread reads the answer itself, since being woken by the
 * service thread would cost more than the question. One thread asks at a time. One deadline covers its turn, its
 * question and the answer, whether the peer is silent or never stops talking. Between questions the service thread
 * reads. Only the service thread sees the end of the connection (`lost`).
 *
 * A claim is what a peer keeps for us until we give it back. If an answer comes too late, or without its descriptors,
 * its claim is given back when the answer is seen: so the peer keeps nothing for a question that no thread waits for.
 * Giving back never waits: a message for which there is no room is sent later.
 */
#ifndef CN_SHARE_PEER_PEER_H
#define CN_SHARE_PEER_PEER_H

#include "base/lock.h"
#include "share/peer/service.h"
#include "share/wire/identity.h"
#include "share/wire/wire.h"

struct cn_peer;

/* What the owner of a peer does about it; each may be NULL. */
struct cn_peer_ops {
	/*
	 * A message that answers no question. Returns 0, or errno: drop the peer. NULL: EPROTO. The reading thread
	 * calls it.
	 */
	int (*hear)(struct cn_peer *peer, const struct cn_message *message);
	/* On the service thread, once: the connection has ended. */
	void (*lost)(struct cn_peer *peer);
	/* On the service thread: there may be room for what cn_peer_send() could not send. */
	void (*again)(struct cn_peer *peer);
	/* The last reference was dropped. */
	void (*free)(void *owner);
};

struct cn_peer_claim {
	struct cn_peer_claim *next;
	struct cn_peer *peer;
	uint64_t request; /* the request whose answer grants it */
	struct cn_message give_back;
};

struct cn_peer {
	struct cn_watch channel; /* first */
	const struct cn_peer_ops *ops;
	void *owner;
	_Atomic unsigned references;
	_Atomic bool is_lost;
	CN_SLOW_LOCK(PEER_TURN) turn; /* held by the thread that asks or reads; guards what follows */
	uint64_t request_last;
	bool is_watched; /* the service thread reads between questions */

	CN_LOCK(PEER) lock; /* guards what follows */
	struct cn_peer_claim *unanswered, *unsent;
	bool retry_posted;
	struct cn_job retry;
};

/* ---- Its life ---- */

/*
 * Create a peer with one reference, and a socket that is not connected yet (cn_wire_reach_path() and others do that)
 * and that no forked child has. A fork does not wait for what is done with it.
 */
CUresult cn_peer_open(const struct cn_peer_ops *ops, void *owner, struct cn_peer **ret_peer);
/* It is connected: have the service thread read unasked messages and see the end. No thread may ask meanwhile. */
CUresult cn_peer_watch(struct cn_peer *peer);
struct cn_peer *cn_peer_take(struct cn_peer *peer);
void cn_peer_drop(struct cn_peer *peer); /* from any thread; NULL does nothing */
/* On the service thread, with the only other reference: end the connection, and drop it. No operation is called. */
void cn_peer_end(struct cn_peer *peer);

/* ---- Asking ---- */

struct cn_peer_question {
	struct cn_parcel request;    /* its number is filled in */
	struct cn_peer_claim *claim; /* see cn_peer_claim(); NULL: nothing is kept for us */
	uint64_t deadline_ns;        /* CLOCK_MONOTONIC; 0: CN_WIRE_TIMEOUT_MS from now */
	bool bare;                   /* the answer has no descriptors, and none are taken in */
	/* What the asking thread can do before it waits for the answer; it must not take long. NULL: nothing. */
	void (*meanwhile)(void *object);
	void *object;
};

/*
 * Ask, and wait: 0, or errno (ETIMEDOUT; EPIPE: the peer has closed; EPROTO: it broke the protocol; or as
 * cn_wire_receive() says). The caller checks the answer's result. The question's claim is the caller's if the answer
 * says success; otherwise it is NULL afterwards.
 *
 * A fork does not wait for the peer. After 0 it does wait, until the caller is done with the answer's descriptors and
 * calls cn_fork_allow().
 */
int cn_peer_ask(struct cn_peer *peer, struct cn_peer_question *question, struct cn_parcel *ret_answer);
/* End the connection of a peer that broke the protocol. All users of the peer see the end in time. */
void cn_peer_refuse(struct cn_peer *peer);

/* A claim to ask with, given back by a message; it keeps the peer. NULL: no memory. */
struct cn_peer_claim *cn_peer_claim(struct cn_peer *peer, enum cn_message_kind kind, uint64_t number);
/* Give a claim back. From any thread; does not wait. NULL does nothing. */
void cn_peer_give_back(struct cn_peer_claim *claim);
/* On the service thread: send without waiting. Where there is no room, `again` is called after a while. */
void cn_peer_send(struct cn_peer *peer, const struct cn_message *message);

#endif

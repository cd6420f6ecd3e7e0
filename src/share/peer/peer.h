/* SPDX-License-Identifier: MIT */
/*
 * A peer: another process that nobody trusts, and how it is asked. One deadline holds for a question and its answer,
 * whether the peer is silent or never stops talking. How what came from it is closed: closing.h.
 */
#ifndef CN_SHARE_PEER_PEER_H
#define CN_SHARE_PEER_PEER_H

#include "share/wire/wire.h"

/* ---- Asking ---- */

/* Wait until something can be received, or the peer has closed: 0, or errno (ETIMEDOUT). CLOCK_MONOTONIC. */
int cn_peer_await(int sock, uint64_t deadline_ns);
/* Send, waiting for room if need be, at most CN_WIRE_TIMEOUT_MS: 0, or errno. */
int cn_peer_tell(int sock, const struct cn_parcel *parcel);
/*
 * Send a request and wait for its answer, at most CN_WIRE_TIMEOUT_MS in all: 0, or errno (ETIMEDOUT; EPIPE: the peer
 * has closed; EPROTO: it says what no peer of ours does). The answer's own result is not looked at.
 *
 * `hear` is called for each other message that comes before the answer, and ends the wait when it does not return 0;
 * NULL: nothing else may come. After EPROTO the connection is shut down.
 *
 * A fork does not wait for the peer. After 0 it does wait, until the caller has done with the answer's descriptors and
 * calls cn_fork_allow().
 */
typedef int cn_peer_hear(void *data, const struct cn_message *message);
int cn_peer_ask(int sock, const struct cn_parcel *request, cn_peer_hear *hear, void *data,
		struct cn_parcel *ret_answer);

/* ---- Who it is ---- */

/*
 * The process at the other end, as a descriptor that is readable when it is gone: 0, and *ret_fd is -1 where the system
 * has no such descriptors or does not show that process. Else errno: it is gone (ESRCH), or descriptors or memory are
 * short.
 */
int cn_peer_process(int sock, int *ret_fd);

#endif

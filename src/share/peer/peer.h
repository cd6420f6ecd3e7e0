/* SPDX-License-Identifier: MIT */
/*
 * A peer: another process that nobody trusts. How it is asked, and how what came from it is let go of.
 *
 * Whatever a peer sends may be slow to touch. A TCP socket may linger when it is closed; a file of a file system that
 * the peer serves (FUSE) is closed when the peer says so, and the thread that waits for that cannot be killed. The
 * system also closes what a peer has sent and nobody has read, in the name of whoever closes the connection. So:
 *
 * - Where no descriptor belongs beside a message, none is taken in: cn_wire_receive_message() looks first.
 * - What has come is closed by cn_peer_discard(), a connection by cn_peer_hang_up(). Neither waits: what is not known
 *   to close at once is closed by a thread of its own, which nothing waits for, no fork and no exit.
 * - One deadline holds for a question and its answer, whether the peer is silent or never stops talking.
 */
#ifndef CN_SHARE_PEER_PEER_H
#define CN_SHARE_PEER_PEER_H

#include "share/wire/wire.h"

/* ---- Letting go ---- */

/*
 * So many closings may be under way at a time; while they are, cn_peer_is_stuck(), and no more descriptors are taken
 * in.
 */
enum { CN_PEER_CLOSINGS_MAX = 32 };

/* Close a descriptor that came from a peer, and is used by nobody; -1 is none. When this returns, no fork copies it. */
void cn_peer_discard(int descriptor);
/* End a connection, or close anything else that is ours. */
void cn_peer_hang_up(int sock);
/* The same for a listening socket, and for those who have connected and were not accepted yet. It stays open. */
void cn_peer_turn_away(int listen_fd);
/* cn_descriptor_raise() of a descriptor that came from a peer. */
int cn_peer_raise(int descriptor);
bool cn_peer_is_stuck(void);
/* Is there something for which no thread could be had? Then the service thread tries again, now and then. */
bool cn_peer_has_waiting(void);
void cn_peer_try_again(void);

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
 * calls cn_service_allow_fork().
 */
typedef int cn_peer_hear(void *data, const struct cn_message *message);
int cn_peer_ask(int sock, const struct cn_parcel *request, cn_peer_hear *hear, void *data,
		struct cn_parcel *ret_answer);
/* What an errno of these calls means. */
const char *cn_peer_explain(int error);

/* ---- Who it is ---- */

/*
 * The process at the other end, as a descriptor that is readable when it is gone: 0, and *ret_fd is -1 where the system
 * has no such descriptors or does not show that process. Else errno: it is gone (ESRCH), or descriptors or memory are
 * short.
 */
int cn_peer_process(int sock, int *ret_fd);

#endif

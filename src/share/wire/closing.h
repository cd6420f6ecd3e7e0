/* SPDX-License-Identifier: MIT */
/*
 * Closing what came from another process, which is not trusted.
 *
 * Whatever a peer sends may be slow to touch. A TCP socket may linger when it is closed. A file of a file system that
 * the peer serves (FUSE) is closed when the peer says so, and the thread that waits for that cannot be killed. The
 * kernel also closes what a peer has sent and no process has read, on the thread that closes the connection. So:
 *
 * - Where a message must have no descriptor, none is accepted: cn_wire_receive_message() looks first.
 * - cn_wire_discard() closes what has come, cn_wire_hang_up() a connection. Neither waits: what is not known to close
 *   at once is closed by a thread of its own, and nothing waits for that thread, neither fork nor exit.
 * - Such threads are counted by the user that sent the descriptor. A user whose descriptors do not close can have no
 *   more of them accepted; those of other users are.
 */
#ifndef CN_SHARE_WIRE_CLOSING_H
#define CN_SHARE_WIRE_CLOSING_H

#include <stdbool.h>
#include <sys/types.h>

/* The most closings at a time of what one user has sent; and the user, where it is not known. */
enum { CN_WIRE_CLOSINGS_MAX = 32 };
#define CN_WIRE_NOBODY ((uid_t)-1)

/* The user at the other end of a connection. */
uid_t cn_wire_sender(int sock);
/* Have so many descriptors of this user's not been closed yet that no more are accepted? */
bool cn_wire_is_stuck(uid_t sender);
bool cn_wire_is_stuck_at(int sock); /* of the user at the other end */
/* Close a descriptor that came from a peer and is not in use; -1 is none. After this, no fork copies it. */
void cn_wire_discard_from(int descriptor, uid_t sender);
void cn_wire_discard(int descriptor); /* from CN_WIRE_NOBODY */
/* End a connection, or close anything else that is ours. */
void cn_wire_hang_up(int sock);
/*
 * The same, for one that accepts connections without end. False: descriptors were sent over it and not read, and its
 * user is stuck. Nothing goes over it any more, but it is open: try again later.
 */
bool cn_wire_try_hang_up(int sock);
/* The same for a listening socket and for connections that were not accepted yet. The descriptor stays open. */
void cn_wire_turn_away(int listen_fd);
/* cn_descriptor_raise() for a descriptor that came from a peer. */
int cn_wire_raise(int descriptor);
/* Is there something that no thread could be started for? Then the service thread tries again from time to time. */
bool cn_wire_has_unclosed(void);
void cn_wire_close_again(void);

#endif

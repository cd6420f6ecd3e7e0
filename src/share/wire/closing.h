/* SPDX-License-Identifier: MIT */
/*
 * Closing what came from another process, which nobody trusts.
 *
 * Whatever a peer sends may be slow to touch. A TCP socket may linger when it is closed; a file of a file system that
 * the peer serves (FUSE) is closed when the peer says so, and the thread that waits for that cannot be killed. The
 * system also closes what a peer has sent and nobody has read, in the name of whoever closes the connection. So:
 *
 * - Where no descriptor belongs beside a message, none is taken in: cn_wire_receive_message() looks first.
 * - What has come is closed by cn_wire_discard(), a connection by cn_wire_hang_up(). Neither waits: what is not known
 *   to close at once is closed by a thread of its own, which nothing waits for, no fork and no exit.
 */
#ifndef CN_SHARE_WIRE_CLOSING_H
#define CN_SHARE_WIRE_CLOSING_H

#include <stdbool.h>

/*
 * So many closings may be under way at a time; while they are, cn_wire_is_stuck(), and no more descriptors are taken
 * in.
 */
enum { CN_WIRE_CLOSINGS_MAX = 32 };

/* Close a descriptor that came from a peer, and is used by nobody; -1 is none. When this returns, no fork copies it. */
void cn_wire_discard(int descriptor);
/* End a connection, or close anything else that is ours. */
void cn_wire_hang_up(int sock);
/* The same for a listening socket, and for those who have connected and were not accepted yet. It stays open. */
void cn_wire_turn_away(int listen_fd);
/* cn_descriptor_raise() of a descriptor that came from a peer. */
int cn_wire_raise(int descriptor);
bool cn_wire_is_stuck(void);
/* Is there something for which no thread could be had? Then the service thread tries again, now and then. */
bool cn_wire_has_unclosed(void);
void cn_wire_close_again(void);

#endif

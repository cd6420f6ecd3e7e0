/* SPDX-License-Identifier: MIT */
/*
 * Descriptors beside a message, as sendmsg() and recvmsg() have them.
 *
 * What comes is a stranger's: whatever descriptors there are, those for which the receiver has no use are closed again.
 * There is room for all that can come, and for the other things that a socket may have been told to deliver beside
 * them: credentials, a label, a pidfd. The kernel itself closes what finds no room, in our name and however long that
 * takes, and says so (MSG_CTRUNC).
 */
#ifndef CN_SHARE_WIRE_RIGHTS_H
#define CN_SHARE_WIRE_RIGHTS_H

#include "base/descriptor.h"

#include <stdbool.h>
#include <sys/socket.h>

enum { CN_RIGHTS_BYTES = 1536 }; /* 253 descriptors are the most that a message may have */

union cn_rights {
	char bytes[CN_RIGHTS_BYTES];
	struct cmsghdr align;
};

/* Put descriptors beside a message that is to be sent; `rights` lives until it is. */
void cn_rights_put(struct msghdr *message, union cn_rights *rights, const int *descriptors, unsigned count);
/* Take the first `room` descriptors that came with a message and close the others; returns how many came. */
unsigned cn_rights_take(struct msghdr *message, int *ret_descriptors, unsigned room);
/* Is there no number left for one more descriptor? Asked of the system, with one that is surely open. */
bool cn_rights_full(int open_descriptor);

#endif

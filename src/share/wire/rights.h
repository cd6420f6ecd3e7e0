/* SPDX-License-Identifier: MIT */
/*
 * Descriptors beside a message, as sendmsg() and recvmsg() have them.
 *
 * What comes is not trusted: descriptors for which the receiver has no use are closed again. There is room for all that
 * can come, and for what else a socket may have been told to deliver beside them: credentials, a label, a pidfd. What
 * finds no room the kernel closes itself, on our thread and however long that takes, and says so (MSG_CTRUNC).
 */
#ifndef CN_SHARE_WIRE_RIGHTS_H
#define CN_SHARE_WIRE_RIGHTS_H

#include "base/descriptor.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { CN_RIGHTS_BYTES = 1536 }; /* a message can have at most 253 descriptors */

union cn_rights {
	char bytes[CN_RIGHTS_BYTES];
	struct cmsghdr align;
};

/* Put descriptors beside a message to send; `rights` must live until it is sent. */
void cn_rights_put(struct msghdr *message, union cn_rights *rights, const int *descriptors, unsigned count);
/*
 * Take the first `room` descriptors that came with a message and close the others; returns how many came. `sender`: the
 * user that sent it (closing.h).
 */
unsigned cn_rights_take(struct msghdr *message, uid_t sender, int *ret_descriptors, unsigned room);
/* Is there no number left for one more descriptor? Asks the system, with a descriptor that is surely open. */
bool cn_rights_full(int open_descriptor);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Letting go of what the loop must not wait for: all programs and nodes would.
 *
 * A user may have sent descriptors that do not close, and send more over connections that nobody reads. Threads close
 * some of them (closing.h). Further connections are parked: they have ended, and stay open until a thread is free. A
 * user can have only so many descriptors in transit, and what is unread in parked connections counts.
 */
#include "imexd/imexd.h"

#include "share/wire/closing.h"

#include <stdlib.h>

struct parked {
	struct parked *next;
	int fd;
	uid_t user;
};

static struct parked *parked_first;

void cn_imexd_close(int fd, uid_t user)
{
	if (cn_wire_try_hang_up(fd))
		return;
	struct parked *parked = calloc(1, sizeof *parked);
	if (!parked) {
		cn_wire_hang_up(fd);
		return;
	}
	*parked = (struct parked){.next = parked_first, .fd = fd, .user = user};
	parked_first = parked;
}

void cn_imexd_close_parked(void)
{
	const struct parked *stuck = NULL; /* the last one that stays: mostly all are one user's */

	for (struct parked **at = &parked_first; *at;) {
		struct parked *parked = *at;
		if ((stuck && parked->user == stuck->user) || !cn_wire_try_hang_up(parked->fd)) {
			stuck = parked;
			at = &parked->next;
			continue;
		}
		*at = parked->next;
		free(parked);
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * Descriptors beside a message.
 */
#include "share/wire/rights.h"
#include "share/wire/closing.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
	CONTROL_PIDFD = 4, /* SCM_PIDFD, where the C library does not know it */
};

void cn_rights_put(struct msghdr *message, union cn_rights *rights, const int *descriptors, unsigned count)
{
	size_t bytes = count * sizeof *descriptors;

	if (!count)
		return;
	memset(rights, 0, sizeof *rights);
	message->msg_control = rights->bytes;
	message->msg_controllen = CMSG_SPACE(bytes);
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(header), descriptors, bytes);
}

unsigned cn_rights_take(struct msghdr *message, uid_t sender, int *ret_descriptors, unsigned room)
{
	unsigned came = 0;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET ||
		    (header->cmsg_type != SCM_RIGHTS && header->cmsg_type != CONTROL_PIDFD))
			continue;
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int descriptor;
			memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
			if (header->cmsg_type == SCM_RIGHTS && came++ < room)
				ret_descriptors[came - 1] = descriptor;
			else
				cn_wire_discard_from(descriptor, sender);
		}
	}
	return came;
}

bool cn_rights_full(int open_descriptor)
{
	int probe = fcntl(open_descriptor, F_DUPFD_CLOEXEC, 0);

	if (probe < 0)
		return true;
	close(probe);
	return false;
}

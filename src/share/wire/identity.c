/* SPDX-License-Identifier: MIT */
/*
 * Which process is at the other end of a socket.
 */
#include "share/wire/identity.h"

#include "base/descriptor.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

bool cn_wire_identify(int sock, struct ucred *ret_who)
{
	return !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, ret_who, &(socklen_t){sizeof *ret_who});
}

int cn_wire_process(int sock, int *ret_fd)
{
	struct ucred who;
	int fd = -1;

	*ret_fd = -1;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &(socklen_t){sizeof fd})) {
		fd = -1;
		if (errno != ENOPROTOOPT && errno != ENODATA)
			return errno == EINVAL ? ESRCH : errno;
		if (!cn_wire_identify(sock, &who) || who.pid <= 0)
			return 0;
		fd = (int)syscall(SYS_pidfd_open, who.pid, 0);
		if (fd < 0)
			return errno == ENOSYS || errno == EPERM ? 0 : errno;
	}
	*ret_fd = cn_descriptor_raise(fd);
	return *ret_fd < 0 ? errno : 0;
}

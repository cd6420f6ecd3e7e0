/* SPDX-License-Identifier: MIT */
/*
 * How tests that listen under a name of their own end that, and find a connection that the library made.
 */
#ifndef CENOTE_TESTS_UNIT_NAMED_SOCKET_H
#define CENOTE_TESTS_UNIT_NAMED_SOCKET_H

#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "share/wire/wire.h"

static inline void end_named(const struct cn_socket *named)
{
	cn_wire_forget_name(named);
	ASSERT_SYS(close(named->listen_fd));
	ASSERT_SYS(close(named->lock_fd));
	ASSERT_SYS(close(named->directory_fd));
}

/* This process's end of its connection to a port of another. */
static inline int connection_to(pid_t other)
{
	for (int fd = 3;; fd++) {
		struct ucred who = {0};
		socklen_t bytes = sizeof who;
		ASSERT_LT(fd, 1000);
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.pid == other)
			return fd;
	}
}

#endif

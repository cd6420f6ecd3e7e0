/* SPDX-License-Identifier: MIT */
/*
 * What tests of sockets and of descriptors that travel over them share.
 */
#ifndef CENOTE_TESTS_SOCKETS_H
#define CENOTE_TESTS_SOCKETS_H

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

static inline void make_pair(int type, int ends[2])
{
	ASSERT_SYS(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends));
}

static inline void close_pair(const int ends[2])
{
	ASSERT_SYS(close(ends[0]));
	ASSERT_SYS(close(ends[1]));
}

static inline bool is_same_file(int left, int right)
{
	struct stat one, other;

	ASSERT_SYS(fstat(left, &one));
	ASSERT_SYS(fstat(right, &other));
	return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

#endif

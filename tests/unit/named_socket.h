/* SPDX-License-Identifier: MIT */
/*
 * How tests that listen under a name of their own end that.
 */
#ifndef CENOTE_TESTS_UNIT_NAMED_SOCKET_H
#define CENOTE_TESTS_UNIT_NAMED_SOCKET_H

#include <unistd.h>

#include "harness.h"
#include "share/wire/wire.h"

static inline void end_named(const struct cn_named_socket *named)
{
	cn_wire_forget_name(named);
	ASSERT_SYS(close(named->listen_fd));
	ASSERT_SYS(close(named->lock_fd));
	ASSERT_SYS(close(named->directory_fd));
}

#endif

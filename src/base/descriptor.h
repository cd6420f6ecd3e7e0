/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of the library's own, with numbers above standard input, output and error.
 */
#ifndef CN_BASE_DESCRIPTOR_H
#define CN_BASE_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* 0, 1 and 2 have a meaning for programs, which may have closed them; and 0 is no handle for CUDA. */
enum { CN_DESCRIPTOR_LOWEST = 3 };

/*
 * The same file under a number above these. The old number is closed, also on failure: -1 and errno. Takes -1
 * and passes it on, with its errno.
 */
static inline int cn_descriptor_raise(int descriptor)
{
	if (descriptor < 0 || descriptor >= CN_DESCRIPTOR_LOWEST)
		return descriptor;
	int raised = fcntl(descriptor, F_DUPFD_CLOEXEC, CN_DESCRIPTOR_LOWEST), error = errno;
	close(descriptor);
	errno = error;
	return raised;
}

/*
 * What a descriptor leads to, as the kernel knows it without asking the file system. fstat() asks, and a file system
 * that a process serves (FUSE) may never answer; a thread that waits for it cannot even be killed.
 */
bool cn_descriptor_look(int descriptor, struct statx *ret_status);
/*
 * Is it in a file system that a process or another machine serves, where any further call may wait for ever? Ask this
 * before using a path that an untrusted process handed over: connect() asks the file system for permissions. False
 * where /sys does not say.
 */
bool cn_descriptor_is_served(const struct statx *status);
bool cn_descriptor_is_socket(int descriptor);
static inline bool cn_descriptor_is_open(int descriptor)
{
	return fcntl(descriptor, F_GETFD) >= 0;
}
/* Is it a path to a socket (O_PATH), and not the socket itself? */
bool cn_descriptor_leads_to_socket(int descriptor);

#endif

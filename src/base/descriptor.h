/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of the library's own, out of the way of standard input, output and error.
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
 * The same file under a number that is none of these. The old number is closed then, also on failure: -1 and errno.
 * Takes -1 and passes it on, with its errno.
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

static inline bool cn_descriptor_is_socket(int descriptor)
{
	struct stat status;

	return !fstat(descriptor, &status) && S_ISSOCK(status.st_mode);
}

/* Is it a way to a socket (O_PATH), and not the socket itself? */
static inline bool cn_descriptor_leads_to_socket(int descriptor)
{
	return cn_descriptor_is_socket(descriptor) && fcntl(descriptor, F_GETFL) & O_PATH;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Put in front of a program, this makes the kernel an older one: Linux before 6.5, as in Debian 12, gives no descriptor
 * of the process at the other end of a socket.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

enum { PEER_PIDFD = 77 }; /* SO_PEERPIDFD */

__attribute__((visibility("default"))) int getsockopt(int sock, int level, int option, void *value, socklen_t *bytes)
{
	int (*next)(int, int, int, void *, socklen_t *);

	if (level == SOL_SOCKET && option == PEER_PIDFD) {
		errno = ENOPROTOOPT;
		return -1;
	}
	*(void **)&next = dlsym(RTLD_NEXT, "getsockopt");
	return next(sock, level, option, value, bytes);
}

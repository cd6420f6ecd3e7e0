/* SPDX-License-Identifier: MIT */
/*
 * The daemon's side of systemd's protocol: what the manager handed over, and what it is told. See sd_listen_fds(3) and
 * sd_notify(3); the parent of --supervise is the other manager (daemon_supervise.c).
 */
#include "daemon/daemon.h"
#include "share/wire/rights.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_FD = 3, GIVEN_MAX = 65536, MANAGER_TIMEOUT_S = 5 };

static int read_count(void)
{
	const char *pid = secure_getenv("LISTEN_PID"), *count = secure_getenv("LISTEN_FDS");
	char *end;

	if (!pid || !count || strtol(pid, &end, 10) != (long)getpid() || *end)
		return 0;
	long number = strtol(count, &end, 10);
	return *end || number < 0 || number > GIVEN_MAX ? 0 : (int)number;
}

int cn_daemon_take_given(struct cn_daemon_given *ret_given)
{
	const char *names = secure_getenv("LISTEN_FDNAMES");
	struct cn_daemon_given given = {.first_fd = FIRST_FD, .count = (unsigned)read_count()};

	given.names = strdup(names ? names : "");
	given.name = calloc(given.count + 1, sizeof *given.name);
	if (!given.names || !given.name) {
		cn_daemon_free_given(&given);
		return ENOMEM;
	}
	char *rest = given.names;
	for (unsigned i = 0; i < given.count; i++) {
		const char *name = rest ? strsep(&rest, ":") : NULL;
		given.name[i] = name ? name : "";
		if (fcntl(given.first_fd + (int)i, F_SETFD, FD_CLOEXEC)) {
			int error = errno;
			cn_daemon_free_given(&given);
			return error;
		}
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	*ret_given = given;
	return 0;
}

void cn_daemon_free_given(struct cn_daemon_given *given)
{
	free(given->names);
	free(given->name);
	given->names = NULL;
	given->name = NULL;
	given->count = 0;
}

int cn_daemon_find_socket(const struct cn_daemon_given *given)
{
	for (unsigned i = 0; i < given->count; i++) {
		int fd = given->first_fd + (int)i, listens = 0;
		if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &(socklen_t){sizeof listens}) && listens)
			return fd;
	}
	return -1;
}

/* ---- Telling ---- */

static int manager = -1;

/* The manager reads quickly; if it does not within seconds, it is treated as none. */
static bool reach_manager(void)
{
	const char *path = secure_getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const struct timeval timeout = {.tv_sec = MANAGER_TIMEOUT_S};
	size_t length = path ? strlen(path) : 0;

	if (manager >= 0)
		return true;
	if (!length || length >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
		return false;
	memcpy(address.sun_path, path, length);
	if (path[0] == '@')
		address.sun_path[0] = 0;
	int fd = cn_descriptor_raise(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return false;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) ||
	    connect(fd, (const struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length))) {
		close(fd);
		return false;
	}
	manager = fd;
	return true;
}

bool cn_daemon_has_manager(void)
{
	return reach_manager();
}

static bool tell(const char *text, int fd)
{
	struct iovec part = {(void *)(uintptr_t)text, strlen(text)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	union cn_rights rights;
	ssize_t sent;

	if (!reach_manager())
		return false;
	cn_rights_put(&message, &rights, &fd, fd >= 0);
	do
		sent = sendmsg(manager, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent >= 0;
}

bool cn_daemon_notify(const char *line)
{
	return tell(line, -1);
}

bool cn_daemon_store(const char *name, int fd)
{
	char text[64];

	/* A manager that watched it would drop it when a driver says that something happened. */
	snprintf(text, sizeof text, "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	return tell(text, fd);
}

bool cn_daemon_forget(const char *name)
{
	char text[64];

	snprintf(text, sizeof text, "FDSTOREREMOVE=1\nFDNAME=%s", name);
	return tell(text, -1);
}

/* SPDX-License-Identifier: MIT */
/*
 * Where a daemon listens, and which process calls.
 */
#include "base/descriptor.h"
#include "base/directory.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/un.h>

enum { STAT_BYTES = 1024, STAT_START_FIELD = 22 };

/* ---- Sockets ---- */

/*
 * The address of a path, by way of its directory: a path of any length, and no other directory than the one that was
 * opened.
 */
static const char *fill_address(const char *path, struct sockaddr_un *ret_address, int *ret_directory_fd)
{
	const char *slash = strrchr(path, '/');
	char directory[PATH_MAX];

	if (path[0] != '/' || !slash[1] || slash - path >= PATH_MAX)
		return "the path of the socket must be absolute";
	snprintf(directory, sizeof directory, "%.*s", slash == path ? 1 : (int)(slash - path), path);
	int fd = cn_descriptor_raise(open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (fd < 0)
		return "the directory of the socket cannot be opened";
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (snprintf(ret_address->sun_path, sizeof ret_address->sun_path, "/proc/self/fd/%d/%s", fd, slash + 1) >=
	    (int)sizeof ret_address->sun_path) {
		close(fd);
		return "the name of the socket is too long";
	}
	*ret_directory_fd = fd;
	return NULL;
}

/* The lock says that the daemon lives: the process that has it may replace the socket. */
static int take_lock(const char *path)
{
	char lock_path[PATH_MAX];

	if (snprintf(lock_path, sizeof lock_path, "%s.lock", path) >= (int)sizeof lock_path)
		return -1;
	int fd = cn_descriptor_raise(open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return -1;
	}
	return fd;
}

const char *cn_daemon_listen(const char *path, int *ret_listen_fd, int *ret_lock_fd)
{
	struct sockaddr_un address;
	int directory_fd;
	const char *why = fill_address(path, &address, &directory_fd);

	if (why)
		return why;
	int lock_fd = take_lock(path);
	int fd = lock_fd < 0 ? -1
			     : cn_descriptor_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (lock_fd < 0) {
		why = "another daemon listens there, or its lock cannot be made";
	} else if (fd < 0) {
		why = "no socket could be made";
	} else {
		unlink(address.sun_path);
		/* Any process that reaches the directory may call: the daemon asks the system for its user. */
		if (bind(fd, (const struct sockaddr *)&address, sizeof address) || chmod(address.sun_path, 0666) ||
		    listen(fd, CN_DAEMON_BACKLOG))
			why = "no socket could be made there";
	}
	close(directory_fd);
	if (why && fd >= 0)
		close(fd);
	if (why && lock_fd >= 0)
		close(lock_fd);
	if (why)
		return why;
	*ret_listen_fd = fd;
	*ret_lock_fd = lock_fd;
	return NULL;
}

void cn_daemon_unlisten(const char *path, int listen_fd, int lock_fd)
{
	char lock_path[PATH_MAX];

	unlink(path);
	close(listen_fd);
	if (snprintf(lock_path, sizeof lock_path, "%s.lock", path) < (int)sizeof lock_path)
		unlink(lock_path);
	close(lock_fd);
}

bool cn_daemon_default_path(const char *name, char ret_path[PATH_MAX])
{
	char link[64], directory[PATH_MAX];
	int fd;

	if (cn_directory_runtime(&fd)) {
		cn_daemon_log("%s", cn_last_error());
		return false;
	}
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, directory, sizeof directory - 1);
	close(fd);
	if (length <= 0)
		return false;
	return snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)length, directory, name) < PATH_MAX;
}

/* ---- Callers ---- */

uint64_t cn_daemon_process_start(pid_t pid)
{
	char path[64], text[STAT_BYTES];

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t length = read(fd, text, sizeof text - 1);
	close(fd);
	if (length <= 0)
		return 0;
	text[length] = 0;
	/* The program's name is in brackets, and may have any characters. The third field follows it. */
	char *at = strrchr(text, ')');
	for (int field = 3; at && field <= STAT_START_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

int cn_daemon_signals(void)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	if (sigprocmask(SIG_BLOCK, &ends, NULL))
		return -1;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	return signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
}

unsigned long cn_daemon_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		getrlimit(RLIMIT_NOFILE, &limit);
	return (unsigned long)limit.rlim_cur;
}

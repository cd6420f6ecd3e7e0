/* SPDX-License-Identifier: MIT */
/*
 * Connecting to a daemon: at a path that the environment names, else in this user's runtime directory, else in the
 * system's.
 */
#include "share/wire/wire.h"

#include "base/descriptor.h"
#include "base/directory.h"
#include "base/lock.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

static const char system_directory[] = "/run/cenote";

/* Connect to a name in a directory: 0, or errno. The wait is for a full queue, and has an end. */
static int reach(int sock, int directory_fd, const char *name)
{
	const struct timeval timeout = {.tv_sec = CN_WIRE_TIMEOUT_MS / 1000};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int length = snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory_fd, name);

	if (length >= (int)sizeof address.sun_path)
		return ENAMETOOLONG;
	cn_might_wait();
	if (setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) ||
	    connect(sock, (const struct sockaddr *)&address, sizeof address))
		return errno;
	return 0;
}

static int reach_path(int sock, const char *path)
{
	const char *slash = strrchr(path, '/');
	char directory[PATH_MAX];

	if (path[0] != '/' || slash - path >= PATH_MAX)
		return ENAMETOOLONG;
	snprintf(directory, sizeof directory, "%.*s", slash == path ? 1 : (int)(slash - path), path);
	int fd = cn_descriptor_raise(open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (fd < 0)
		return errno;
	int error = reach(sock, fd, slash + 1);
	close(fd);
	return error;
}

/* This user's daemon, else the system's. No directory is made for it. */
static int reach_default(int sock, const char *name)
{
	char paths[CN_DIRECTORIES_MAX][CN_DIRECTORY_CHARS_MAX];
	unsigned count = 0;
	int fd, error = ENOENT;

	if (cn_directory_paths(paths, &count))
		return EINVAL;
	for (unsigned i = 1; i < count && (error == ENOENT || error == ECONNREFUSED); i++) { /* the first is not it */
		if (cn_directory_open(paths[i], &fd) || fd < 0)
			continue; /* none, or not this user's */
		fd = cn_descriptor_raise(fd);
		error = reach(sock, fd, name);
		close(fd);
	}
	if (error != ENOENT && error != ECONNREFUSED)
		return error;
	snprintf(paths[0], sizeof paths[0], "%s/%s", system_directory, name);
	int other = reach_path(sock, paths[0]);
	return other == ENOENT ? error : other;
}

int cn_wire_reach_daemon(int sock, const char *path, const char *name)
{
	return path ? reach_path(sock, path) : reach_default(sock, name);
}

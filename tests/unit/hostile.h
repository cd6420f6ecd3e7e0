/* SPDX-License-Identifier: MIT */
/*
 * What hostile processes send and do: descriptors that never close, files whose server never answers, pinned ledgers,
 * endless connections.
 */
#ifndef CENOTE_TESTS_HOSTILE_H
#define CENOTE_TESTS_HOSTILE_H

#include "share_fake.h"

#include <linux/fuse.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* ---- A socket that lingers --------------------------------------------------------------------------------------- */

/* The last close waits for an hour, or until the other end, which does not read, is closed. */
static inline int lingering_pair(int *ret_end)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct linger linger = {.l_onoff = 1, .l_linger = 3600};
	socklen_t bytes = sizeof address;
	char some[4096] = {0};
	int listener, sock;

	ASSERT_SYS(listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	ASSERT_SYS(bind(listener, (const struct sockaddr *)&address, bytes));
	ASSERT_SYS(getsockname(listener, (struct sockaddr *)&address, &bytes));
	ASSERT_SYS(listen(listener, 1));
	ASSERT_SYS(sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	ASSERT_SYS(connect(sock, (const struct sockaddr *)&address, bytes));
	ASSERT_SYS(*ret_end = accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	close(listener);
	while (send(sock, some, sizeof some, MSG_DONTWAIT) > 0)
		continue;
	ASSERT_SYS(setsockopt(sock, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
	return sock;
}

/* The other end stays open here. */
static inline int lingering_socket(void)
{
	int end;

	return lingering_pair(&end);
}

/* ---- A file system that a process serves ------------------------------------------------------------------------- */

/* Mount a file system whose only file is its root, of this type. False: it cannot be done here. */
static inline bool serve_file_system(const char *path, mode_t type, const char *options, int *ret_device)
{
	char text[128];

	int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (device < 0)
		return false;
	int file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	ASSERT_SYS(file);
	close(file);
	snprintf(text, sizeof text, "fd=%d,rootmode=%o,user_id=%u,group_id=%u%s", device, type | 0777u, geteuid(),
		 getegid(), options);
	if (mount("hostile", path, "fuse", MS_NOSUID | MS_NODEV, text)) {
		close(device);
		unlink(path);
		return false;
	}
	*ret_device = device;
	return true;
}

/* The file system lives on for any process that has a file of it, until the device is closed. */
static inline void forget_mount(const char *path)
{
	ASSERT_SYS(umount2(path, MNT_DETACH));
	ASSERT_SYS(unlink(path));
}

/* A descriptor (O_PATH) of a socket there, about which no request is ever answered; -1: it cannot be made here. */
static inline int unanswered_socket(int *ret_device)
{
	const char *path = test_path("served");

	if (!serve_file_system(path, S_IFSOCK, ",default_permissions", ret_device))
		return -1;
	int fd = open(path, O_PATH | O_CLOEXEC);
	ASSERT_SYS(fd);
	forget_mount(path);
	return fd;
}

static inline void answer_request(int device, uint64_t unique, const void *body, size_t bytes)
{
	struct fuse_out_header header = {.len = (uint32_t)(sizeof header + bytes), .unique = unique};
	struct iovec parts[] = {{&header, sizeof header}, {(void *)(uintptr_t)body, bytes}};

	ASSERT_EQ((ssize_t)header.len, writev(device, parts, 2));
}

/*
 * Open the file to all, and let only its owner close it: no other process's request is ever answered, not even the
 * flush of its close().
 */
static inline _Noreturn void serve_file(int device, pid_t owner)
{
	static char buffer[1 << 17];
	const struct fuse_in_header *request = (const struct fuse_in_header *)buffer;
	ssize_t got;

	while ((got = read(device, buffer, sizeof buffer)) > 0 || errno == EINTR) {
		struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
		struct fuse_open_out opened = {.fh = 1};
		if (got > 0 && request->opcode == FUSE_INIT)
			answer_request(device, request->unique, &init, sizeof init);
		else if (got > 0 && request->opcode == FUSE_OPEN)
			answer_request(device, request->unique, &opened, sizeof opened);
		else if (got > 0 && request->opcode == FUSE_FLUSH && request->pid == (uint32_t)owner)
			answer_request(device, request->unique, NULL, 0);
	}
	_exit(0);
}

/*
 * An open file there, which only its owner can close; -1: it cannot be made here. Another process serves it, as long as
 * this one lives: a process that did both could not be killed.
 */
static inline int unclosable_file(pid_t owner, pid_t *ret_server)
{
	const char *path = test_path("served");
	int device;

	if (!serve_file_system(path, S_IFREG, "", &device))
		return -1;
	pid_t server = fork();
	ASSERT_SYS(server);
	if (!server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close_range(3, (unsigned)device - 1, 0); /* the test's own, which would wait for our end */
		close_range((unsigned)device + 1, ~0u, 0);
		serve_file(device, owner);
	}
	close(device);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_SYS(fd);
	forget_mount(path);
	*ret_server = server;
	return fd;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Sockets: those that listen in a directory, and how they get their names.
 *
 * A socket must have a name for a moment, even if no process is to find it by name. Every name is made in one way, so
 * that a process that is killed at any instruction leaves nothing that the next one cannot sweep:
 *
 *	NAME.lock   made and locked first, removed last
 *	NAME.tmp/s  the socket, until it listens
 *	NAME        the socket of a port
 *
 * The name that a socket was bound to stands in /proc/net/unix for all to read, so NAME is no part of that: a process
 * that cannot list a directory does not learn there which sockets are in it.
 *
 * NAME is 16 random bytes; in the fabric directory the first four are the user's number. The kernel releases a lock
 * when its process ends, so a process that gets the lock of a NAME knows that its owner is gone, and removes all three.
 * A process that has made a lock file and lost it to a sweeper before it was locked sees that the file has no name any
 * more, and takes another name.
 *
 * Paths go through /proc/self/fd: they are short, whatever the directory is called, and lead to the directory that was
 * checked and no other.
 */
#include "base/clock.h"
#include "base/rank.h"
#include "share/wire/closing.h"
#include "share/wire/rights.h"
#include "share/wire/wire.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	BACKLOG = 128,
	NAME_TRIES_MAX = 16,
	/* A sweep ends after so many lock files: it must not delay the caller that wants a name. */
	SWEEP_LOOKS_MAX = 256,
	SWEEP_LOOKS_UNNAMED_MAX = 8, /* … a momentary one: each sharing process has a name there, and most live */
	SUFFIX_CHARS = 8,
};

static const char lock_suffix[] = ".lock", folder_suffix[] = ".tmp", temporary_suffix[] = ".tmp/s";
static const char temporary_name[] = "s";

/* ---- Names ---- */

static void join(const char *name, const char *suffix, char ret_file[CN_SOCKET_NAME_CHARS + SUFFIX_CHARS])
{
	snprintf(ret_file, CN_SOCKET_NAME_CHARS + SUFFIX_CHARS, "%.*s%s", CN_SOCKET_NAME_CHARS, name, suffix);
}

/* True: it is gone. */
static bool take_away_file(int directory_fd, const char *name, const char *suffix, int flags)
{
	char file[CN_SOCKET_NAME_CHARS + SUFFIX_CHARS];

	join(name, suffix, file);
	return !unlinkat(directory_fd, file, flags) || errno == ENOENT || errno == ENOTDIR;
}

static bool take_away_folder(int directory_fd, const char *name)
{
	return take_away_file(directory_fd, name, temporary_suffix, 0) &&
	       take_away_file(directory_fd, name, folder_suffix, AT_REMOVEDIR);
}

/* True: nothing is left of it. False: the lock file is left, by which the next sweep finds the rest. */
static bool take_away(int directory_fd, const char *name)
{
	char lock[CN_SOCKET_NAME_CHARS + SUFFIX_CHARS];
	bool gone = take_away_file(directory_fd, name, "", 0);

	gone &= take_away_folder(directory_fd, name);
	join(name, lock_suffix, lock);
	return gone && !unlinkat(directory_fd, lock, 0);
}

static bool is_lock_name(const char *file)
{
	return strspn(file, "0123456789abcdef") == CN_SOCKET_NAME_CHARS &&
	       !strcmp(file + CN_SOCKET_NAME_CHARS, lock_suffix);
}

/* Look at one lock file. One that cannot be opened or locked counts as live. */
static void sweep_name(int directory_fd, const char *file, const struct cn_sweep *how)
{
	int fd = openat(directory_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	char name[CN_SOCKET_NAME_CHARS + SUFFIX_CHARS];

	if (fd < 0)
		return;
	bool live = flock(fd, LOCK_EX | LOCK_NB) != 0;
	bool removed = !live && !how->only_look && take_away(directory_fd, file);
	close(fd);
	join(file, "", name);
	if (how->found)
		how->found(name, live, removed, how->data);
}

int cn_sweep_directory(int directory_fd, const struct cn_sweep *how)
{
	int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!entries) {
		int error = errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	for (unsigned looks = 0; looks < how->looks_max && (entry = readdir(entries));) {
		if (!is_lock_name(entry->d_name))
			continue;
		looks++;
		sweep_name(directory_fd, entry->d_name, how);
	}
	closedir(entries);
	return 0;
}

/* Whatever fails here is left to the next sweep. */
static void sweep(int directory_fd, unsigned looks_max)
{
	cn_sweep_directory(directory_fd, &(struct cn_sweep){.looks_max = looks_max});
}

static bool random_name(bool fabric, char ret_name[CN_SOCKET_NAME_CHARS + 1])
{
	unsigned char bytes[CN_SOCKET_NAME_CHARS / 2];
	uint32_t user = htonl((uint32_t)geteuid());

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		return false;
	if (fabric)
		memcpy(bytes, &user, sizeof user);
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(ret_name + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

/* Make a new name: its lock file, made and locked. */
static CUresult lock_name(int directory_fd, bool fabric, char ret_name[CN_SOCKET_NAME_CHARS + 1], int *ret_lock_fd)
{
	char file[CN_SOCKET_NAME_CHARS + SUFFIX_CHARS];
	struct stat status;

	for (int i = 0; i < NAME_TRIES_MAX; i++) {
		if (!random_name(fabric, ret_name))
			return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the system has no random numbers: %s",
					strerror(errno));
		join(ret_name, lock_suffix, file);
		int fd = cn_descriptor_raise(
			openat(directory_fd, file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
		if (fd < 0)
			return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no file can be made in the %s directory: %s",
					fabric ? "fabric" : "runtime", strerror(errno));
		if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &status) && status.st_nlink > 0) {
			*ret_lock_fd = fd;
			return CUDA_SUCCESS;
		}
		close(fd); /* a sweeper has it, and removes it */
	}
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the runtime directory's file system has no locks");
}

static bool fill_address(int directory_fd, const char *file, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	int length = snprintf(ret_address->sun_path, sizeof ret_address->sun_path, "/proc/self/fd/%d/%s", directory_fd,
			      file);

	return length > 0 && (size_t)length < sizeof ret_address->sun_path;
}

static CUresult explain_proc(const char *what, int error)
{
	if ((error == ENOENT || error == ENOTDIR) && access("/proc/self/fd", F_OK))
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "%s: /proc is not mounted here, and Cenote needs it",
				what);
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "%s: %s", what, strerror(error));
}

/* Make the folder for a socket that has no name yet, whatever the umask is. */
static int make_temporary_folder(const struct cn_socket *named)
{
	char folder[CN_SOCKET_NAME_CHARS + SUFFIX_CHARS];

	join(named->name, folder_suffix, folder);
	if (mkdirat(named->directory_fd, folder, 0700) || fchmodat(named->directory_fd, folder, 0700, 0))
		return -1;
	return cn_descriptor_raise(openat(named->directory_fd, folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/* A socket that listens under NAME.tmp/s. */
static CUresult listen_temporary(const struct cn_socket *named, int *ret_listen_fd)
{
	struct sockaddr_un address;

	int fd = cn_descriptor_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no socket could be made: %s", strerror(errno));
	int folder_fd = make_temporary_folder(named);
	/* Any process that gets here may connect: the directory keeps others out, or a descriptor lets them in. */
	bool failed = folder_fd < 0 || !fill_address(folder_fd, temporary_name, &address) ||
		      bind(fd, (const struct sockaddr *)&address, sizeof address) ||
		      fchmodat(folder_fd, temporary_name, 0666, 0) || listen(fd, BACKLOG);
	int error = errno;
	if (folder_fd >= 0)
		close(folder_fd);
	if (failed) {
		close(fd);
		return explain_proc("no socket can be made in the runtime directory", error);
	}
	*ret_listen_fd = fd;
	return CUDA_SUCCESS;
}

/* ---- Listening ---- */

/* Given up for a moment when no more descriptors are left: see cn_wire_accept(). */
static _Atomic int reserve = -1;

static void fill_reserve(void)
{
	int none = -1;

	if (atomic_load(&reserve) >= 0)
		return;
	int fd = cn_descriptor_raise(open("/", O_PATH | O_CLOEXEC));
	if (fd >= 0 && !atomic_compare_exchange_strong(&reserve, &none, fd))
		close(fd);
}

/* Used to ask whether a socket exists: of another kind than ours, so that it never connects. Never closed. */
static _Atomic int prober = -1;

static int open_prober(void)
{
	int none = -1, fd = atomic_load(&prober);

	if (fd >= 0)
		return fd;
	fd = cn_descriptor_raise(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (fd >= 0 && !atomic_compare_exchange_strong(&prober, &none, fd)) {
		close(fd);
		fd = none;
	}
	return fd;
}

static void close_named(struct cn_socket *named)
{
	close(named->listen_fd);
	close(named->lock_fd);
	close(named->directory_fd);
}

static CUresult listen_under_lock(bool fabric, unsigned looks_max, struct cn_socket *ret_socket)
{
	struct cn_socket named;
	CUresult result = fabric ? cn_directory_fabric(&named.directory_fd) : cn_directory_runtime(&named.directory_fd);

	if (result)
		return result;
	sweep(named.directory_fd, looks_max);
	fill_reserve();
	open_prober(); /* a process that shares once keeps what it will need, and opens no more later */
	result = lock_name(named.directory_fd, fabric, named.name, &named.lock_fd);
	if (result)
		goto err_close_directory;
	result = listen_temporary(&named, &named.listen_fd);
	if (result)
		goto err_take_away;
	*ret_socket = named;
	return CUDA_SUCCESS;

err_take_away:
	take_away(named.directory_fd, named.name);
	close(named.lock_fd);
err_close_directory:
	close(named.directory_fd);
	return result;
}

CUresult cn_wire_listen_named(bool fabric, struct cn_socket *ret_socket)
{
	char file[CN_SOCKET_NAME_CHARS + SUFFIX_CHARS];
	struct cn_socket named;
	CUresult result = listen_under_lock(fabric, SWEEP_LOOKS_MAX, &named);

	if (result)
		return result;
	join(named.name, temporary_suffix, file);
	if (renameat(named.directory_fd, file, named.directory_fd, named.name)) {
		cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the socket cannot be named: %s", strerror(errno));
		take_away(named.directory_fd, named.name);
		close_named(&named);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	take_away_folder(named.directory_fd, named.name);
	*ret_socket = named;
	return CUDA_SUCCESS;
}

void cn_wire_forget_name(const struct cn_socket *socket)
{
	take_away(socket->directory_fd, socket->name);
}

CUresult cn_wire_listen_unnamed(int *ret_listen_fd, int *ret_path_fd)
{
	char file[CN_SOCKET_NAME_CHARS + SUFFIX_CHARS];
	struct cn_socket named;
	CUresult result = listen_under_lock(false, SWEEP_LOOKS_UNNAMED_MAX, &named);

	if (result)
		return result;
	join(named.name, temporary_suffix, file);
	int path_fd = cn_descriptor_raise(openat(named.directory_fd, file, O_PATH | O_NOFOLLOW | O_CLOEXEC));
	int error = errno;
	take_away(named.directory_fd, named.name);
	if (path_fd < 0 || !cn_descriptor_is_socket(path_fd)) {
		cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the socket in the runtime directory was removed: %s",
			 path_fd < 0 ? strerror(error) : "another file is there");
		if (path_fd >= 0)
			close(path_fd);
		close_named(&named);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	close(named.lock_fd);
	close(named.directory_fd);
	*ret_listen_fd = named.listen_fd;
	*ret_path_fd = path_fd;
	return CUDA_SUCCESS;
}

/* A connection that finds no descriptor would wait and be reported for ever: accept it and close it. */
static void shed_connection(int listen_fd)
{
	int spare = atomic_exchange(&reserve, -1);

	if (spare >= 0)
		close(spare);
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		cn_wire_hang_up(fd);
	fill_reserve();
}

int cn_wire_accept(int listen_fd)
{
	for (;;) {
		int fd = cn_descriptor_raise(accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));

		if (fd >= 0)
			return fd;
		if (errno == EMFILE || errno == ENFILE) {
			shed_connection(listen_fd); /* only one: the listener is told of the next */
			return -1;
		}
		if (errno != EINTR && errno != ECONNABORTED)
			return -1;
	}
}

/* ---- Connecting ---- */

/* Connect within CN_WIRE_TIMEOUT_MS: 0, or errno. */
static int connect_in_time(int sock, const struct sockaddr_un *address)
{
	int64_t deadline_ms = (int64_t)(cn_clock_ns() / CN_MILLISECOND_NS) + CN_WIRE_TIMEOUT_MS;
	int64_t left_ms = CN_WIRE_TIMEOUT_MS;

	cn_might_wait();
	for (;;) {
		struct timeval timeout = {.tv_sec = left_ms / 1000, .tv_usec = left_ms % 1000 * 1000};

		if (setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout))
			return errno;
		if (!connect(sock, (const struct sockaddr *)address, sizeof *address))
			return 0;
		if (errno != EINTR)
			return errno;
		left_ms = deadline_ms - (int64_t)(cn_clock_ns() / CN_MILLISECOND_NS);
		if (left_ms <= 0)
			return EAGAIN;
	}
}

static CUresult explain_connect(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the exporter is gone: its socket has no listener");
	case EPROTOTYPE:
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the descriptor leads to a socket that is not Cenote's");
	case EAGAIN: return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the exporter refused the connection");
	default: return explain_proc("the exporter cannot be reached", error);
	}
}

CUresult cn_wire_open(int *ret_sock)
{
	int sock = cn_descriptor_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));

	if (sock < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no socket could be made: %s", strerror(errno));
	*ret_sock = sock;
	return CUDA_SUCCESS;
}

static CUresult reach(int sock, const struct sockaddr_un *address)
{
	int error = connect_in_time(sock, address);

	return error ? explain_connect(error) : CUDA_SUCCESS;
}

/* fill_address() for a descriptor alone, without the cost of snprintf(). */
static bool fill_path(int path_fd, struct sockaddr_un *ret_address)
{
	static const char folder[] = "/proc/self/fd/";
	char digits[12], *digit = digits + sizeof digits;

	if (path_fd < 0)
		return false;
	*--digit = 0;
	do
		*--digit = (char)('0' + path_fd % 10);
	while (path_fd /= 10);
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(ret_address->sun_path, folder, sizeof folder);
	memcpy(ret_address->sun_path + sizeof folder - 1, digit, (size_t)(digits + sizeof digits - digit));
	return true;
}

static CUresult check_path(int path_fd, struct sockaddr_un *ret_address)
{
	struct statx status;

	if (!fill_path(path_fd, ret_address) || !cn_descriptor_look(path_fd, &status))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "descriptor %d is not open", path_fd);
	if (!S_ISSOCK(status.stx_mode) || !(fcntl(path_fd, F_GETFL) & O_PATH))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "descriptor %d does not lead to an exporter", path_fd);
	if (cn_descriptor_is_served(&status))
		return cn_error(
			CUDA_ERROR_INVALID_VALUE,
			"descriptor %d leads to a file system that another process or machine serves, which may "
			"never answer; the exporter's runtime directory must be a local one",
			path_fd);
	return CUDA_SUCCESS;
}

CUresult cn_wire_reach_path(int sock, int path_fd)
{
	struct sockaddr_un address;
	return check_path(path_fd, &address) ?: reach(sock, &address);
}

int cn_wire_reach_now(int sock, int path_fd)
{
	struct sockaddr_un address;

	if (!fill_path(path_fd, &address))
		return EBADF;
	if (fcntl(sock, F_SETFL, O_NONBLOCK) || connect(sock, (const struct sockaddr *)&address, sizeof address))
		return errno;
	return 0;
}

CUresult cn_wire_reach_checked_path(int sock, int path_fd)
{
	struct sockaddr_un address;

	if (!fill_path(path_fd, &address))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "descriptor %d is not open", path_fd);
	return reach(sock, &address);
}

/* The system looks for the socket first, and then at its kind. */
bool cn_wire_is_there(int path_fd)
{
	struct sockaddr_un address;
	int sock = open_prober();

	return sock >= 0 && fill_path(path_fd, &address) &&
	       connect(sock, (const struct sockaddr *)&address, sizeof address) && errno == EPROTOTYPE;
}

static CUresult reach_in(int sock, int directory_fd, const char *name)
{
	struct sockaddr_un address;

	if (!fill_address(directory_fd, name, &address))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is not the name of a socket of Cenote's", name);
	return reach(sock, &address);
}

static bool has_name(int directory_fd, const char *name)
{
	return !faccessat(directory_fd, name, F_OK, 0) || errno != ENOENT;
}

/* The same, with a code and a sentence where there is none. Closes the directory. */
static CUresult reach_named(int sock, int directory_fd, const char *name, const char *what, CUresult absent)
{
	CUresult result = CUDA_SUCCESS;
	bool there = has_name(directory_fd, name);

	if (there)
		result = reach_in(sock, directory_fd, name);
	/* A sweeper may have removed it just now. */
	if (!there || (result == CUDA_ERROR_OPERATING_SYSTEM && !has_name(directory_fd, name)))
		result = cn_error(absent, "the exporter is gone, or uses another %s directory", what);
	close(directory_fd);
	return result;
}

CUresult cn_wire_reach_name(int sock, const char *name)
{
	int directory_fd;
	return cn_directory_runtime(&directory_fd)
		       ?: reach_named(sock, directory_fd, name, "runtime", CUDA_ERROR_INVALID_VALUE);
}

CUresult cn_wire_reach_fabric(int sock, const char *name, unsigned user)
{
	int directory_fd;
	return cn_directory_fabric_of(user, &directory_fd)
		       ?: reach_named(sock, directory_fd, name, "fabric", CUDA_ERROR_NOT_FOUND);
}

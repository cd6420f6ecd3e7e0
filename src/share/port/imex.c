/* SPDX-License-Identifier: MIT */
/*
 * IMEX channels: files in a directory. On a GPU they are the driver's nodes, unless another directory is named.
 */
#include "share/port/imex.h"
#include "base/descriptor.h"
#include "base/environment.h"
#include "device/device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { NAME_CHARS_MAX = 24 };

/* open() must not wait for a FIFO's writer, and must not make the file our controlling terminal. */
enum { OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

static const char name_format[] = "channel%d";

static struct {
	CN_SLOW_LOCK(IMEX) mutex;
	struct cn_imex *held, *own; /* all that were opened; the one for exports */
} channels;

/* ---- Opening ---- */

/* The number in a name. It must be written as printf() does: neither channel00 nor channel+1 is a channel. */
static bool is_channel(const char *name, int *ret_number)
{
	static const size_t word_chars = sizeof "channel" - 1;
	char again[NAME_CHARS_MAX];

	if (strncmp(name, "channel", word_chars) != 0)
		return false;
	long number = strtol(name + word_chars, NULL, 10);
	if (number < INT_MIN || number > INT_MAX)
		return false;
	snprintf(again, sizeof again, name_format, (int)number);
	*ret_number = (int)number;
	return strcmp(name, again) == 0;
}

/* Open a channel that is not known yet: 0, or errno. */
static int open_channel(int directory_fd, int number, struct cn_imex *ret_channel)
{
	char name[NAME_CHARS_MAX];
	struct stat status;

	snprintf(name, sizeof name, name_format, number);
	int fd = cn_descriptor_raise(openat(directory_fd, name, OPEN_FLAGS));
	if (fd < 0)
		return errno;
	int error = fstat(fd, &status) ? errno : 0;
	if (!error && !S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode))
		error = EINVAL;
	if (error) {
		close(fd);
		return error;
	}
	*ret_channel = (struct cn_imex){
		.number = number,
		.fd = fd,
		.device = status.st_dev,
		.inode = status.st_ino,
	};
	return 0;
}

static bool has_nodes(void)
{
	return cn_device_ops && strcmp(cn_device_ops->name, "cuda") == 0;
}

static CUresult open_directory(const char **ret_path, int *ret_fd)
{
	const char *path = cn_environment(CN_ENVIRONMENT_IMEX_DIR);

	if (!path && has_nodes())
		path = "/dev/nvidia-caps-imex-channels";
	if (!path)
		return cn_error(CUDA_ERROR_NOT_PERMITTED,
				"fabric handles need an IMEX channel: set CENOTE_IMEX_DIR, the same for all "
				"processes that share, and run `cenote imex create 0`");
	int fd = cn_descriptor_raise(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (fd < 0)
		return cn_error(CUDA_ERROR_NOT_PERMITTED,
				"fabric handles need an IMEX channel, and the directory of channels, %s, cannot be "
				"opened: %s",
				path, strerror(errno));
	*ret_path = path;
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

static const char *why_not(int error)
{
	return error == EINVAL ? "it is no file" : strerror(error);
}

static struct cn_imex *held_locked(int number)
{
	struct cn_imex *held = channels.held;

	while (held && held->number != number)
		held = held->next;
	return held;
}

/* Keep a channel for good. If one of the same number was found before, that one stays. */
static CUresult keep_locked(const struct cn_imex *channel, struct cn_imex **ret_channel)
{
	struct cn_imex *kept = held_locked(channel->number), *fresh = kept ? NULL : malloc(sizeof *fresh);

	if (!fresh)
		close(channel->fd);
	if (!fresh && !kept)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of an IMEX channel");
	if (fresh) {
		*fresh = *channel;
		fresh->next = channels.held;
		channels.held = kept = fresh;
	}
	*ret_channel = kept;
	return CUDA_SUCCESS;
}

/* The lowest channel of a directory that opens; and one that does not, with the reason. */
struct lowest {
	struct cn_imex found;       /* fd -1: none */
	int refused, refused_error; /* error 0: none */
};

static struct lowest look_through(DIR *entries)
{
	struct lowest lowest = {.found = {.fd = -1}};
	struct dirent *entry;
	struct cn_imex channel = {.fd = -1};
	int number;

	while ((entry = readdir(entries))) {
		if (!is_channel(entry->d_name, &number) || (lowest.found.fd >= 0 && number > lowest.found.number))
			continue;
		int error = open_channel(dirfd(entries), number, &channel);
		if (error) {
			lowest.refused = number;
			lowest.refused_error = error;
			continue;
		}
		if (lowest.found.fd >= 0)
			close(lowest.found.fd);
		lowest.found = channel;
	}
	return lowest;
}

static CUresult find_own_locked(void)
{
	const char *path;
	int fd;
	CUresult result = open_directory(&path, &fd);

	if (result)
		return result;
	DIR *entries = fdopendir(fd);
	if (!entries) {
		close(fd);
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to look for IMEX channels");
	}
	struct lowest lowest = look_through(entries);
	closedir(entries);
	if (lowest.found.fd >= 0)
		return keep_locked(&lowest.found, &channels.own);
	if (lowest.refused_error)
		return cn_error(CUDA_ERROR_NOT_PERMITTED,
				"fabric handles need an IMEX channel that this user may read, and %s/channel%d cannot "
				"be opened: %s",
				path, lowest.refused, why_not(lowest.refused_error));
	return cn_error(CUDA_ERROR_NOT_PERMITTED,
			"fabric handles need an IMEX channel, and %s has none: create one with %s", path,
			has_nodes() ? "mknod, as root," : "`cenote imex create 0`");
}

CUresult cn_imex_own(const struct cn_imex **ret_channel)
{
	cn_slow_lock(&channels.mutex);
	CUresult result = channels.own ? CUDA_SUCCESS : find_own_locked();
	if (!result)
		*ret_channel = channels.own;
	cn_slow_unlock(&channels.mutex);
	return result;
}

static CUresult find_locked(int number, struct cn_imex **ret_channel)
{
	struct cn_imex channel = {.fd = -1};
	const char *path;
	int fd;

	*ret_channel = held_locked(number);
	if (*ret_channel)
		return CUDA_SUCCESS;
	CUresult result = open_directory(&path, &fd);
	if (result)
		return result;
	int error = open_channel(fd, number, &channel);
	close(fd);
	if (error)
		return cn_error(CUDA_ERROR_NOT_PERMITTED,
				"the exporter's IMEX channel is %d, and %s/channel%d cannot be opened here: %s", number,
				path, number, why_not(error));
	return keep_locked(&channel, ret_channel);
}

CUresult cn_imex_find(int number, const struct cn_imex **ret_channel)
{
	struct cn_imex *channel;

	cn_slow_lock(&channels.mutex);
	CUresult result = find_locked(number, &channel);
	cn_slow_unlock(&channels.mutex);
	if (!result)
		*ret_channel = channel;
	return result;
}

/* ---- Proving possession ---- */

/* The lock belongs to the open file, not to the process: closing another descriptor of the file does not release it. */
static struct flock lock_of(short type, uint64_t offset)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = 1};
}

CUresult cn_imex_mark(const struct cn_imex *channel, uint64_t offset, int *ret_fd)
{
	struct flock lock = lock_of(F_RDLCK, offset);
	char path[32];

	/* Opened anew: the locked file must not be the one that is passed to others, which could release the lock. */
	snprintf(path, sizeof path, "/proc/self/fd/%d", channel->fd);
	int fd = cn_descriptor_raise(open(path, OPEN_FLAGS));
	if (fd < 0)
		return cn_error(errno == EACCES ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_OPERATING_SYSTEM,
				"IMEX channel %d cannot be opened any more: %s", channel->number, strerror(errno));
	if (fcntl(fd, F_OFD_SETLK, &lock)) {
		cn_error(CUDA_ERROR_OPERATING_SYSTEM, "IMEX channel %d cannot be marked: %s", channel->number,
			 errno == EAGAIN || errno == EACCES ? "somebody has locked it for writing" : strerror(errno));
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

bool cn_imex_is_marked(const struct cn_imex *channel, uint64_t offset)
{
	struct flock lock = lock_of(F_WRLCK, offset); /* the first lock that conflicts with it */

	return !fcntl(channel->fd, F_OFD_GETLK, &lock) && lock.l_type == F_RDLCK && lock.l_start == (off_t)offset &&
	       lock.l_len == 1;
}

bool cn_imex_is_proof(const struct cn_imex *channel, int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct statx status;

	if (flags < 0 || flags & O_PATH || ((flags & O_ACCMODE) != O_RDONLY && (flags & O_ACCMODE) != O_RDWR))
		return false;
	return cn_descriptor_look(fd, &status) &&
	       makedev(status.stx_dev_major, status.stx_dev_minor) == channel->device &&
	       status.stx_ino == channel->inode;
}

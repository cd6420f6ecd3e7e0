/* SPDX-License-Identifier: MIT */
/*
 * Directories in which processes find each other: a user's own, and one for all users.
 *
 * The runtime directory belongs to its user alone. The fabric directory is for all: each user has a folder in it, which
 * every user can pass through and only its owner can write to or list. So a user that owns the fabric directory itself,
 * or may write to it, can at most remove a folder; a caller verifies which process it calls (fabric.h).
 */
#include "base/directory.h"
#include "base/descriptor.h"
#include "base/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *explain(int error)
{
	return error == ENOTDIR || error == ELOOP ? "it is a link, or no directory" : strerror(error);
}

/* ---- The runtime directory ---- */

/* Open a folder that is ours alone, and make it if `make`. `path` is for the sentence. */
static CUresult open_private(int parent_fd, const char *name, const char *path, bool make, int *ret_fd)
{
	struct stat status;

	if (make && mkdirat(parent_fd, name, 0700) && errno != EEXIST)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the runtime directory %s cannot be made: %s", path,
				strerror(errno));
	int fd = cn_descriptor_raise(openat(parent_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (fd < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the runtime directory %s cannot be opened: %s", path,
				explain(errno));
	if (fstat(fd, &status)) {
		cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the runtime directory %s cannot be looked at: %s", path,
			 strerror(errno));
	} else if (status.st_uid != geteuid()) {
		cn_error(CUDA_ERROR_OPERATING_SYSTEM,
			 "the runtime directory %s belongs to user %u, not to user %u, which runs this program", path,
			 (unsigned)status.st_uid, (unsigned)geteuid());
	} else if (status.st_mode & 077) {
		cn_error(CUDA_ERROR_OPERATING_SYSTEM,
			 "other users may enter the runtime directory %s (mode %03o): it must be 0700", path,
			 (unsigned)status.st_mode & 0777);
	} else {
		*ret_fd = fd;
		return CUDA_SUCCESS;
	}
	close(fd);
	return CUDA_ERROR_OPERATING_SYSTEM;
}

/* The path that a variable names. The user chooses its parent, too; only the last part is made. */
static CUresult read_path(const char *variable, const char *named, char ret_path[PATH_MAX])
{
	size_t length = strlen(named);

	while (length > 1 && named[length - 1] == '/') /* with a slash at the end a link would be followed */
		length--;
	if (length >= PATH_MAX)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "%s is too long for a path", variable);
	memcpy(ret_path, named, length);
	ret_path[length] = '\0';
	if (ret_path[0] != '/')
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"%s is \"%s\": it must be an absolute path, the same for all processes that share",
				variable, ret_path);
	return CUDA_SUCCESS;
}

static CUresult open_session_folder(int *ret_fd)
{
	char user_path[64], path[80];
	int user_fd;

	snprintf(user_path, sizeof user_path, "/run/user/%u", (unsigned)geteuid());
	snprintf(path, sizeof path, "%s/cenote", user_path);
	if (access(user_path, F_OK)) /* no reason to complain: there is another place */
		return CUDA_ERROR_NOT_FOUND;
	CUresult result = open_private(AT_FDCWD, user_path, user_path, false, &user_fd);
	if (result)
		return result;
	result = open_private(user_fd, "cenote", path, true, ret_fd);
	close(user_fd);
	return result;
}

CUresult cn_directory_runtime(int *ret_fd)
{
	const char *named = cn_environment(CN_ENVIRONMENT_RUNTIME_DIR);
	char path[PATH_MAX];

	if (named) {
		CUresult result = read_path("CENOTE_RUNTIME_DIR", named, path);
		return result ? result : open_private(AT_FDCWD, path, path, true, ret_fd);
	}
	if (!open_session_folder(ret_fd))
		return CUDA_SUCCESS;
	snprintf(path, sizeof path, "/tmp/cenote-%u", (unsigned)geteuid());
	return open_private(AT_FDCWD, path, path, true, ret_fd);
}

/* ---- The fabric directory ---- */

enum { COMMON_MODE = 01777, FOLDER_MODE = 0711, MODE_BITS = 07777, OTHERS_WRITE = 022 };

static CUresult fabric_path(char ret_path[PATH_MAX])
{
	const char *named = cn_environment(CN_ENVIRONMENT_FABRIC_DIR);

	if (named)
		return read_path("CENOTE_FABRIC_DIR", named, ret_path);
	snprintf(ret_path, PATH_MAX, "/tmp/cenote-fabric");
	return CUDA_SUCCESS;
}

static CUresult refuse(const char *path, int error)
{
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the fabric directory %s cannot be used: %s", path,
			explain(error));
}

/* A folder to make names in. If missing, it is made with a mode, whatever the umask is. */
static CUresult make_folder(int parent_fd, const char *name, const char *path, mode_t mode, int *ret_fd)
{
	struct stat status;
	bool made = !mkdirat(parent_fd, name, mode);

	if (!made && errno != EEXIST)
		return refuse(path, errno);
	int fd = cn_descriptor_raise(openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (fd < 0)
		return refuse(path, errno);
	if ((made && fchmod(fd, mode)) || fstat(fd, &status)) {
		int error = errno;
		close(fd);
		return refuse(path, error);
	}
	if (status.st_mode & OTHERS_WRITE && !(status.st_mode & S_ISVTX)) {
		close(fd);
		return cn_error(
			CUDA_ERROR_OPERATING_SYSTEM,
			"users can remove each other's names in the fabric directory %s (mode %04o): it must be %04o",
			path, (unsigned)status.st_mode & MODE_BITS, (unsigned)mode);
	}
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

/* Set the mode of a folder of this user. The process that made it may have been killed before it set the mode. */
static CUresult claim_folder(int fd, const char *path, mode_t mode, unsigned *ret_owner)
{
	struct stat status;

	if (fstat(fd, &status))
		return refuse(path, errno);
	*ret_owner = status.st_uid;
	if (status.st_uid == geteuid() && (status.st_mode & MODE_BITS) != mode && fchmod(fd, mode))
		return refuse(path, errno);
	return CUDA_SUCCESS;
}

CUresult cn_directory_fabric(int *ret_fd)
{
	char path[PATH_MAX], folder[PATH_MAX + 16], name[16];
	unsigned owner;
	int common_fd, fd;
	CUresult result = fabric_path(path);

	if (!result)
		result = make_folder(AT_FDCWD, path, path, COMMON_MODE, &common_fd);
	if (result)
		return result;
	snprintf(name, sizeof name, "%u", (unsigned)geteuid());
	snprintf(folder, sizeof folder, "%s/%s", path, name);
	if (!cn_environment(CN_ENVIRONMENT_FABRIC_DIR)) /* a directory that the user chose keeps its mode */
		result = claim_folder(common_fd, path, COMMON_MODE, &owner);
	if (!result)
		result = make_folder(common_fd, name, folder, FOLDER_MODE, &fd);
	close(common_fd);
	if (result)
		return result;
	result = claim_folder(fd, folder, FOLDER_MODE, &owner);
	if (!result && owner != geteuid())
		result = cn_error(CUDA_ERROR_OPERATING_SYSTEM, "%s belongs to user %u, and must belong to user %u",
				  folder, owner, (unsigned)geteuid());
	if (result) {
		close(fd);
		return result;
	}
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

CUresult cn_directory_fabric_of(unsigned user, int *ret_fd)
{
	char path[PATH_MAX], folder[PATH_MAX + 16];
	CUresult result = fabric_path(path);

	if (result)
		return result;
	snprintf(folder, sizeof folder, "%s/%u", path, user);
	int fd = cn_descriptor_raise(open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (fd < 0 && errno == ENOENT)
		return cn_error(CUDA_ERROR_NOT_FOUND, "the exporter is gone, or uses another fabric directory than %s",
				path);
	if (fd < 0)
		return refuse(folder, errno);
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

/* ---- All of them ---- */

CUresult cn_directory_paths(char ret_paths[CN_DIRECTORIES_MAX][CN_DIRECTORY_CHARS_MAX], unsigned *ret_count)
{
	const char *named = cn_environment(CN_ENVIRONMENT_RUNTIME_DIR);
	unsigned user = (unsigned)geteuid(), count = 0;
	char path[PATH_MAX];
	CUresult result = fabric_path(path);

	if (result)
		return result;
	snprintf(ret_paths[count++], CN_DIRECTORY_CHARS_MAX, "%s/%u", path, user);
	if (named) {
		result = read_path("CENOTE_RUNTIME_DIR", named, path);
		if (result)
			return result;
		snprintf(ret_paths[count++], CN_DIRECTORY_CHARS_MAX, "%s", path);
	} else {
		snprintf(ret_paths[count++], CN_DIRECTORY_CHARS_MAX, "/run/user/%u/cenote", user);
		snprintf(ret_paths[count++], CN_DIRECTORY_CHARS_MAX, "/tmp/cenote-%u", user);
	}
	*ret_count = count;
	return CUDA_SUCCESS;
}

const char *cn_directory_open(const char *path, int *ret_fd)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT)
		return explain(errno);
	if (fd >= 0 && (fstat(fd, &status) || status.st_uid != geteuid())) {
		close(fd);
		return "it belongs to another user";
	}
	*ret_fd = fd;
	return NULL;
}

/* SPDX-License-Identifier: MIT */
/*
 * Sweeping all directories of this user; see sweep.h, and socket.c for how a name is known to be dead.
 */
#include "share/sweep.h"
#include "share/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sweeping {
	const char *directory;
	cn_sweep_found *found;
	void *data;
};

static void tell(const char *name, bool live, bool removed, void *data)
{
	const struct sweeping *sweeping = data;

	if (sweeping->found)
		sweeping->found(sweeping->directory, name, live, removed, sweeping->data);
}

static CUresult refuse(const char *path, const char *why)
{
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "%s is not swept: %s", path, why);
}

/* Nothing is made here, and nothing put right: another's directory, or a link, is left alone. */
static CUresult sweep_directory(const char *path, bool only_look, cn_sweep_found *found, void *data)
{
	struct sweeping sweeping = {.directory = path, .found = found, .data = data};
	struct cn_sweep how = {.looks_max = UINT_MAX, .only_look = only_look, .found = tell, .data = &sweeping};
	struct stat status;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return CUDA_SUCCESS;
	if (fd < 0)
		return refuse(path,
			      errno == ENOTDIR || errno == ELOOP ? "it is a link, or no directory" : strerror(errno));
	if (fstat(fd, &status) || status.st_uid != geteuid()) {
		close(fd);
		return refuse(path, "it belongs to another user");
	}
	tell(NULL, false, false, &sweeping);
	int error = cn_wire_sweep(fd, &how);
	close(fd);
	return error ? refuse(path, strerror(error)) : CUDA_SUCCESS;
}

CUresult cn_sweep(bool only_look, cn_sweep_found *found, void *data)
{
	char paths[CN_DIRECTORIES_MAX][CN_DIRECTORY_CHARS_MAX];
	unsigned count;
	CUresult result = cn_directory_paths(paths, &count);

	if (result)
		return result;
	for (unsigned i = count; i-- > 0;) {
		CUresult swept = sweep_directory(paths[i], only_look, found, data);
		result = result ? result : swept;
	}
	return result;
}

/* SPDX-License-Identifier: MIT */
/*
 * Sweeping all directories of this user; see sweep.h, and socket.c for how a name is known to be dead.
 */
#include "share/wire/sweep.h"
#include "base/account.h"
#include "share/wire/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
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

/* The accounts of devices (base/account.h). A live one is no process's name, and is not told of. */
static int sweep_accounts(int directory_fd, const struct cn_sweep *how)
{
	int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	bool live, removed;

	if (!entries) {
		int error = errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	while ((entry = readdir(entries))) {
		if (!cn_account_is_name(entry->d_name))
			continue;
		cn_account_sweep(directory_fd, entry->d_name, how->only_look, &live, &removed);
		if (!live)
			how->found(entry->d_name, live, removed, how->data);
	}
	closedir(entries);
	return 0;
}

static CUresult sweep_directory(const char *path, bool only_look, cn_sweep_found *found, void *data)
{
	struct sweeping sweeping = {.directory = path, .found = found, .data = data};
	struct cn_sweep how = {.looks_max = UINT_MAX, .only_look = only_look, .found = tell, .data = &sweeping};
	int fd;
	const char *why = cn_directory_open(path, &fd);

	if (why)
		return refuse(path, why);
	if (fd < 0)
		return CUDA_SUCCESS;
	tell(NULL, false, false, &sweeping);
	int error = cn_sweep_directory(fd, &how);
	if (!error)
		error = sweep_accounts(fd, &how);
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

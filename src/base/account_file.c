/* SPDX-License-Identifier: MIT */
/*
 * An account's file: opening, mapping, locking, writing and removing it.
 *
 * The last process that has the file open removes it. For that it must have the lock of presence alone; so a process
 * that opens the file meanwhile, and then finds no name on it, opens the next one. If the last one was killed, the file
 * is still there, with the slots of all that ever were: the next process removes it, and makes its own.
 *
 * The mapping belongs to the open file as the descriptor does: locks end with both. If the program closes the
 * descriptor, which it may take for one of its own, its slots stay live until the account is closed.
 */
#include "base/account_internal.h"
#include "base/descriptor.h"
#include "base/directory.h"
#include "base/foreign.h"
#include "base/guard.h"

#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

enum {
	/* A process that removes the file has it for microseconds, unless it has to wait for a CPU meanwhile. */
	OPEN_TRIES_MAX = 500,
	OPEN_TRIES_QUICK = 100, /* before the others, a millisecond apart */
	NAME_CHARS = 32,
	FILE_BYTES_MAX = CN_ACCOUNT_HEADERS_BYTES + CN_ACCOUNT_SLOTS * CN_ACCOUNT_REGION_BYTES,
};

static const char name_prefix[] = "account-", gpu_name[] = "account-gpu";

uint64_t cn_account_check(const struct cn_account_header *header, unsigned index)
{
	uint64_t hash = cn_account_mix(CN_ACCOUNT_MAGIC, index);

	hash = cn_account_mix(hash, (uint64_t)header->magic << 32 | header->version);
	hash = cn_account_mix(hash, header->life);
	hash = cn_account_mix(hash, header->sequence);
	hash = cn_account_mix(hash, header->made_bytes);
	hash = cn_account_mix(hash, header->bid_bytes);
	hash = cn_account_mix(hash, (uint64_t)header->device << 32 | header->entry_count);
	return cn_account_mix(hash, header->held_count);
}

/* Times are not asked for: once a process has asked, the next store has to write them. */
bool cn_account_look(const struct cn_account *account, off_t *ret_bytes)
{
	struct statx status;

	if (account->fd < 0 ||
	    statx(account->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_SIZE, &status) ||
	    makedev(status.stx_dev_major, status.stx_dev_minor) != account->file_system ||
	    status.stx_ino != account->inode)
		return false;
	*ret_bytes = (off_t)status.stx_size;
	return true;
}

bool cn_account_grow(const struct cn_account *account, unsigned index)
{
	off_t end = cn_account_region(index + 1), bytes;
	struct rlimit limit;

	if (!cn_account_look(account, &bytes))
		return false;
	return bytes >= end || (!getrlimit(RLIMIT_FSIZE, &limit) && (uint64_t)end <= limit.rlim_cur &&
				pwrite(account->fd, "", 1, end - 1) == 1);
}

/* ---- Writing ---- */

void cn_account_prepare(struct cn_account *account)
{
	account->guarded = cn_guard_works(SIGBUS);
}

void cn_account_finish(struct cn_account *account)
{
	account->guarded = false;
}

bool cn_account_store_header(const struct cn_account *account, unsigned index, const struct cn_account_header *header)
{
	off_t at = cn_account_halves_at(index) +
		   (off_t)(cn_account_half(header->sequence) * sizeof(struct cn_account_header));

	if (!account->mapped)
		return false;
	return account->guarded ? cn_guard_copy_64(account->mapped + at, header)
				: cn_foreign_poke(account->mapped + at, header, sizeof *header);
}

bool cn_account_store(const struct cn_account *account, off_t offset, uint64_t value)
{
	unsigned long long word = value;

	if (!account->mapped)
		return false;
	return account->guarded ? cn_guard_put((unsigned long long *)(account->mapped + offset), word)
				: cn_foreign_poke(account->mapped + offset, &word, sizeof word);
}

/* ---- Locks ---- */

int cn_account_lock(int fd, short type, off_t start, off_t length)
{
	struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};

	return fcntl(fd, F_OFD_SETLK, &range);
}

bool cn_account_is_locked(const struct cn_account *account, off_t start, off_t length)
{
	struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = length};

	return !fcntl(account->fd, F_OFD_GETLK, &range) && range.l_type != F_UNLCK;
}

static void write_name(uint64_t capacity_bytes, char ret_name[NAME_CHARS])
{
	if (capacity_bytes == CN_ACCOUNT_OF_GPUS)
		snprintf(ret_name, NAME_CHARS, "%s", gpu_name);
	else
		snprintf(ret_name, NAME_CHARS, "%s%llu", name_prefix, (unsigned long long)capacity_bytes);
}

static CUresult refuse(const char *what, int error)
{
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "%s in the runtime directory: %s", what, strerror(error));
}

/* Is the name this file's? A number of links does not say so: the file may have another name. */
static bool has_name(int directory_fd, const char *name, int fd)
{
	struct stat named, opened;

	return !fstatat(directory_fd, name, &named, AT_SYMLINK_NOFOLLOW) && !fstat(fd, &opened) &&
	       named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/*
 * Lock a file for presence: 0, or errno. EWOULDBLOCK: it is not to be used, for another process removes it at this
 * moment, or this one has: what is in a file that nobody has open counts no more. (A new file is empty.) One that
 * cannot be removed is used as it is. Nothing takes long while it is locked alone: its pages are freed when it is
 * closed.
 */
static int lock_presence(int directory_fd, const char *name, int fd)
{
	struct stat status;

	if (fstat(fd, &status))
		return errno;
	if (status.st_size && !flock(fd, LOCK_EX | LOCK_NB) &&
	    (!has_name(directory_fd, name, fd) || !unlinkat(directory_fd, name, 0)))
		return EWOULDBLOCK;
	return flock(fd, LOCK_SH | LOCK_NB) ? errno : 0;
}

/* Open the file with a lock of presence on it; *ret_fd is -1 if it is being removed. */
static CUresult open_file(int directory_fd, const char *name, int *ret_fd)
{
	struct statx where;
	struct stat status;
	int fd = cn_descriptor_raise(
		openat(directory_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));

	if (fd < 0)
		return refuse("no account can be opened", errno);
	if (!cn_descriptor_look(fd, &where) || cn_descriptor_is_served(&where) || !S_ISREG(where.stx_mode)) {
		close(fd);
		return refuse("no account can be used", EINVAL);
	}
	int error = lock_presence(directory_fd, name, fd);
	if (error) {
		close(fd);
		if (error != EWOULDBLOCK)
			return refuse("no account can be locked", error);
		fd = -1;
	} else if (!has_name(directory_fd, name, fd)) {
		close(fd);
		fd = -1;
	} else if (!fstat(fd, &status) && (status.st_mode & 0777) != 0600) {
		fchmod(fd, 0600); /* whatever the umask of the process that made it was */
	}
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

/* Where the file does not reach yet, there is nothing to touch. */
static CUresult map_file(struct cn_account *account, int fd)
{
	void *mapped = mmap(NULL, FILE_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (mapped == MAP_FAILED)
		return refuse("no account can be mapped", errno);
	if (madvise(mapped, FILE_BYTES_MAX, MADV_DONTFORK)) {
		int error = errno;
		munmap(mapped, FILE_BYTES_MAX);
		return refuse("no account can be kept from children", error);
	}
	account->mapped = mapped;
	return CUDA_SUCCESS;
}

CUresult cn_account_open(uint64_t capacity_bytes, struct cn_account **ret_account)
{
	char name[NAME_CHARS];
	struct stat status;
	int directory_fd, fd = -1;
	struct cn_account *account = calloc(1, sizeof *account);
	CUresult result = account ? cn_directory_runtime(&directory_fd)
				  : cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of an account");

	if (result)
		goto err_free;
	write_name(capacity_bytes, name);
	for (unsigned tries = 0; !result && fd < 0 && tries < OPEN_TRIES_MAX; tries++) {
		result = open_file(directory_fd, name, &fd);
		if (fd < 0 && tries < OPEN_TRIES_QUICK)
			sched_yield();
		else if (fd < 0)
			poll(NULL, 0, 1);
	}
	close(directory_fd);
	if (!result && (fd < 0 || fstat(fd, &status)))
		result = refuse("no account can be had", fd < 0 ? EBUSY : errno);
	if (!result)
		result = map_file(account, fd);
	if (result)
		goto err_close;
	account->fd = fd;
	account->file_system = status.st_dev;
	account->inode = status.st_ino;
	*ret_account = account;
	return CUDA_SUCCESS;

err_close:
	if (fd >= 0)
		close(fd);
err_free:
	free(account);
	return result;
}

void cn_account_drop(struct cn_account *account)
{
	off_t bytes;

	if (cn_account_look(account, &bytes)) /* else the number may be a file of the program's by now */
		close(account->fd);
	account->fd = -1;
	if (account->mapped)
		munmap(account->mapped, FILE_BYTES_MAX); /* of a fork's child nothing is there */
	account->mapped = NULL;
}

/* Remove the file that a path leads to, if no process has it open. */
static void remove_path(char *path)
{
	char *slash = strrchr(path, '/');
	bool live, removed;

	if (!slash)
		return;
	*slash = '\0';
	int directory_fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (directory_fd < 0)
		return;
	if (cn_account_is_name(slash + 1))
		cn_account_sweep(directory_fd, slash + 1, false, &live, &removed);
	close(directory_fd);
}

void cn_account_close(struct cn_account *account)
{
	char link[32], path[PATH_MAX];
	off_t bytes;

	if (account->mapped)
		munmap(account->mapped, FILE_BYTES_MAX);
	if (cn_account_look(account, &bytes)) {
		snprintf(link, sizeof link, "/proc/self/fd/%d", account->fd);
		ssize_t length = readlink(link, path, sizeof path - 1);
		close(account->fd);
		if (length > 0 && !account->is_viewer) {
			path[length] = '\0';
			remove_path(path);
		}
	}
	for (unsigned i = 0; i < CN_ACCOUNT_DEVICES; i++)
		free(account->slots[i].entries);
	free(account->gathered);
	free(account);
}

/* ---- From outside ---- */

uint64_t cn_account_capacity(const char *file)
{
	return cn_account_is_name(file) ? strtoull(file + sizeof name_prefix - 1, NULL, 10) : 0;
}

bool cn_account_look_into(int fd, struct cn_account **ret_account)
{
	struct cn_account *account = calloc(1, sizeof *account);
	struct statx status;

	if (!account || !cn_descriptor_look(fd, &status)) {
		free(account);
		close(fd);
		return false;
	}
	account->fd = fd;
	account->is_viewer = true;
	account->file_system = makedev(status.stx_dev_major, status.stx_dev_minor);
	account->inode = status.stx_ino;
	if (!cn_account_read_from_outside(account)) {
		cn_account_close(account);
		return false;
	}
	*ret_account = account;
	return true;
}

/* ---- Sweeping ---- */

bool cn_account_is_name(const char *file)
{
	size_t prefix = sizeof name_prefix - 1,
	       digits = strncmp(file, name_prefix, prefix) ? 0 : strspn(file + prefix, "0123456789");

	return (digits && !file[prefix + digits] && prefix + digits < NAME_CHARS) || !strcmp(file, gpu_name);
}

void cn_account_sweep(int directory_fd, const char *file, bool only_look, bool *ret_live, bool *ret_removed)
{
	struct stat status;
	int fd = openat(directory_fd, file, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	*ret_live = *ret_removed = false;
	if (fd < 0)
		return;
	*ret_live = flock(fd, LOCK_EX | LOCK_NB) != 0;
	if (!*ret_live && !only_look && !fstat(fd, &status) && S_ISREG(status.st_mode) &&
	    has_name(directory_fd, file, fd))
		*ret_removed = !unlinkat(directory_fd, file, 0);
	close(fd);
}

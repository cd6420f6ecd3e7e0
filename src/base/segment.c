/* SPDX-License-Identifier: MIT */
/*
 * Segments: see segment.h.
 *
 * A segment that is lent has two open files, and the borrower's carries a shared flock(). Its descriptors and its
 * mappings are all references to that one file, and the lock ends with the last of them; so the maker, which tries an
 * exclusive lock on a file of its own, gets it as soon as the borrower has nothing left. Trying never sleeps. Sealing
 * the file against writing would tell the same, but it waits for pinned pages, and opening a peer's file waits for
 * leases: a borrower can have both.
 */
#include "base/segment.h"

#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { LENT_SEALS = F_SEAL_SHRINK | F_SEAL_GROW, SEALS = LENT_SEALS | F_SEAL_FUTURE_WRITE };

static CUresult explain(const char *doing)
{
	int error = errno;

	if (error == EMFILE || error == ENFILE)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"the program has no descriptor left to %s: raise its limit (ulimit -n)", doing);
	return cn_error(error == ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_OPERATING_SYSTEM,
			"the system refused to %s: %s", doing, strerror(error));
}

CUresult cn_file_grow(int fd, size_t bytes)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && bytes > limit.rlim_cur)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY,
				"a memory file of %zu bytes is larger than the program's files may be: raise its limit "
				"of %llu bytes (ulimit -f)",
				bytes, (unsigned long long)limit.rlim_cur);
	if (ftruncate(fd, (off_t)bytes))
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "a memory file of %zu bytes was refused: %s", bytes,
				strerror(errno));
	return CUDA_SUCCESS;
}

CUresult cn_segment_make(const char *name, size_t bytes, struct cn_segment *ret_segment)
{
	struct cn_segment segment = {.bytes = bytes};
	CUresult result;

	segment.fd = cn_descriptor_raise(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (segment.fd < 0)
		return explain("make shared memory");
	result = cn_file_grow(segment.fd, bytes);
	if (result)
		goto err_close;
	segment.address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, segment.fd, 0);
	if (segment.address == MAP_FAILED) {
		result = explain("map shared memory");
		goto err_close;
	}
	/* After the mapping: no later one may write. */
	if (madvise(segment.address, bytes, MADV_DONTFORK) || fcntl(segment.fd, F_ADD_SEALS, SEALS)) {
		result = explain("seal shared memory");
		goto err_unmap;
	}
	*ret_segment = segment;
	return CUDA_SUCCESS;

err_unmap:
	munmap(segment.address, bytes);
err_close:
	close(segment.fd);
	return result;
}

/* Only files of ordinary memory and of huge pages have seals. The latter have large blocks, the former sometimes. */
static bool has_ordinary_pages(int fd, const struct stat *status)
{
	struct statfs system;

	return status->st_blksize == sysconf(_SC_PAGESIZE) || (!fstatfs(fd, &system) && system.f_type == TMPFS_MAGIC);
}

bool cn_file_look(int fd, size_t *ret_bytes, int *ret_seals)
{
	uint64_t file;

	return cn_file_identify(fd, ret_bytes, ret_seals, &file);
}

bool cn_file_identify(int fd, size_t *ret_bytes, int *ret_seals, uint64_t *ret_file)
{
	struct stat status;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || /* in this order: fstat() of an untrusted file may wait */
	    fstat(fd, &status) || !S_ISREG(status.st_mode) || !has_ordinary_pages(fd, &status))
		return false;
	*ret_bytes = (size_t)status.st_size;
	*ret_seals = seals;
	*ret_file = status.st_ino;
	return true;
}

/* A memory file of that size that has these seals? */
static CUresult check(int fd, size_t bytes, int wanted, const char *what)
{
	size_t found_bytes;
	int seals;

	if (!cn_file_look(fd, &found_bytes, &seals))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is not shared memory", what);
	if (found_bytes != bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s has %zu bytes and not %zu", what, found_bytes, bytes);
	if ((seals & wanted) != wanted)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is not sealed: its seals are 0x%x", what,
				(unsigned)seals);
	return CUDA_SUCCESS;
}

/* Map a file, so that no forked child inherits it. */
static CUresult map(int fd, size_t bytes, int protection, void **ret_address)
{
	void *address = mmap(NULL, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (address == MAP_FAILED)
		return explain("map shared memory");
	madvise(address, bytes, MADV_DONTFORK);
	*ret_address = address;
	return CUDA_SUCCESS;
}

CUresult cn_segment_map(int fd, size_t bytes, const char *what, struct cn_segment *ret_segment)
{
	struct cn_segment segment = {.bytes = bytes, .fd = fd};
	CUresult result = check(fd, bytes, SEALS, what);

	if (!result)
		result = map(fd, bytes, PROT_READ, &segment.address);
	if (!result)
		*ret_segment = segment;
	return result;
}

/* ---- Segments that are lent ---- */

CUresult cn_segment_lend(const char *name, size_t bytes, struct cn_segment *ret_segment, int *ret_fd)
{
	struct cn_segment segment = {.bytes = bytes, .fd = -1};
	char path[32];
	CUresult result;

	int fd = cn_descriptor_raise(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return explain("make shared memory");
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	result = cn_file_grow(fd, bytes);
	if (result)
		goto err_close;
	if (fcntl(fd, F_ADD_SEALS, LENT_SEALS) || flock(fd, LOCK_SH | LOCK_NB)) {
		result = explain("seal and lock shared memory");
		goto err_close;
	}
	segment.fd = cn_descriptor_raise(open(path, O_RDONLY | O_CLOEXEC)); /* before any other process has the file */
	if (segment.fd < 0) {
		result = explain("open shared memory");
		goto err_close;
	}
	result = map(segment.fd, bytes, PROT_READ, &segment.address);
	if (result)
		goto err_close_reader;
	*ret_segment = segment;
	*ret_fd = fd;
	return CUDA_SUCCESS;

err_close_reader:
	close(segment.fd);
err_close:
	close(fd);
	return result;
}

CUresult cn_segment_borrow(int fd, size_t bytes, const char *what, struct cn_segment *ret_segment)
{
	struct cn_segment segment = {.bytes = bytes, .fd = -1};
	CUresult result = check(fd, bytes, LENT_SEALS, what);

	if (!result)
		result = map(fd, bytes, PROT_READ | PROT_WRITE, &segment.address);
	if (result)
		return result;
	close(fd);
	*ret_segment = segment;
	return CUDA_SUCCESS;
}

bool cn_segment_is_returned(const struct cn_segment *segment)
{
	return !flock(segment->fd, LOCK_EX | LOCK_NB);
}

void cn_segment_close(struct cn_segment *segment)
{
	if (!segment->bytes)
		return;
	munmap(segment->address, segment->bytes);
	if (segment->fd >= 0)
		close(segment->fd);
	*segment = (struct cn_segment){.fd = -1};
}

/* SPDX-License-Identifier: MIT */
/*
 * Segments: see segment.h.
 *
 * A reader maps through a descriptor that was opened again for reading alone: older kernels count a shared mapping of a
 * writable descriptor as a writer, and F_SEAL_WRITE, which cn_segment_is_final() tries, is refused while there is one.
 */
#include "base/segment.h"

#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE };

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
	/* After the mapping: it is the last one that may write. */
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

bool cn_file_look(int fd, size_t *ret_bytes, int *ret_seals)
{
	struct stat status;
	struct statfs system;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode) || fstatfs(fd, &system) ||
	    system.f_type != TMPFS_MAGIC)
		return false;
	*ret_bytes = (size_t)status.st_size;
	*ret_seals = seals;
	return true;
}

bool cn_file_is_memory(int fd)
{
	size_t bytes;
	int seals;

	return cn_file_look(fd, &bytes, &seals);
}

CUresult cn_segment_map(int fd, size_t bytes, const char *what, struct cn_segment *ret_segment)
{
	size_t found_bytes;
	char path[32];
	int seals;

	if (!cn_file_look(fd, &found_bytes, &seals))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is not shared memory", what);
	if (found_bytes != bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s has %zu bytes and not %zu", what, found_bytes, bytes);
	if ((seals & SEALS) != SEALS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is not sealed: its seals are 0x%x", what,
				(unsigned)seals);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int reader = open(path, O_RDONLY | O_CLOEXEC);
	void *address = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, reader < 0 ? fd : reader, 0);
	int error = errno;
	if (reader >= 0)
		close(reader);
	errno = error;
	if (address == MAP_FAILED)
		return explain("map shared memory");
	madvise(address, bytes, MADV_DONTFORK);
	*ret_segment = (struct cn_segment){.address = address, .bytes = bytes, .fd = fd};
	return CUDA_SUCCESS;
}

bool cn_segment_is_final(const struct cn_segment *segment)
{
	return fcntl(segment->fd, F_ADD_SEALS, F_SEAL_WRITE) == 0;
}

void cn_segment_close(struct cn_segment *segment)
{
	if (!segment->bytes)
		return;
	munmap(segment->address, segment->bytes);
	close(segment->fd);
	*segment = (struct cn_segment){.fd = -1};
}

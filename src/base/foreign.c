/* SPDX-License-Identifier: MIT */
/*
 * Copying memory that may not be mapped.
 */
#include "base/foreign.h"

#include "base/guard.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

/* The system, or a seccomp filter of the program, forbids it: never try again. */
static _Atomic bool is_forbidden;

static CUresult refuse(const void *at, bool writes)
{
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the host memory at %p cannot be %s", at,
			writes ? "written" : "read");
}

static bool says_forbidden(int error)
{
	return error == EPERM || error == EACCES || error == ENOSYS;
}

/* NULL, or the address that cannot be read or written. */
static const void *copy(char *to, const char *from, size_t bytes, bool writes)
{
	while (bytes && !atomic_load_explicit(&is_forbidden, memory_order_relaxed)) {
		struct iovec near = {writes ? (char *)(uintptr_t)from : to, bytes};
		struct iovec far = {writes ? to : (char *)(uintptr_t)from, bytes};
		ssize_t done = writes ? process_vm_writev(getpid(), &near, 1, &far, 1, 0)
				      : process_vm_readv(getpid(), &near, 1, &far, 1, 0);
		if (done < 0 && says_forbidden(errno)) {
			atomic_store_explicit(&is_forbidden, true, memory_order_relaxed);
			break;
		}
		if (done <= 0)
			return far.iov_base;
		to += done;
		from += done;
		bytes -= (size_t)done;
	}
	if (bytes && !cn_guard_copy(to, from, bytes))
		return writes ? to : from;
	return NULL;
}

CUresult cn_foreign_read(void *to, const void *from_foreign, size_t bytes)
{
	const void *failed = copy(to, from_foreign, bytes, false);

	return failed ? refuse(failed, false) : CUDA_SUCCESS;
}

CUresult cn_foreign_write(void *to_foreign, const void *from, size_t bytes)
{
	const void *failed = copy(to_foreign, from, bytes, true);

	return failed ? refuse(failed, true) : CUDA_SUCCESS;
}

bool cn_foreign_peek(void *to, const void *from_foreign, size_t bytes)
{
	return !copy(to, from_foreign, bytes, false);
}

bool cn_foreign_poke(void *to_foreign, const void *from, size_t bytes)
{
	return !copy(to_foreign, from, bytes, true);
}

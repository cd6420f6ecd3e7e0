/* SPDX-License-Identifier: MIT */
/*
 * Copying memory that may not be there.
 */
#include "base/foreign.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static CUresult copy(char *to, const char *from, size_t bytes, bool writes)
{
	while (bytes) {
		struct iovec near = {writes ? (char *)(uintptr_t)from : to, bytes};
		struct iovec far = {writes ? to : (char *)(uintptr_t)from, bytes};
		ssize_t done = writes ? process_vm_writev(getpid(), &near, 1, &far, 1, 0)
				      : process_vm_readv(getpid(), &near, 1, &far, 1, 0);
		if (done < 0 && (errno == EPERM || errno == ENOSYS)) {
			memcpy(to, from, bytes);
			return CUDA_SUCCESS;
		}
		if (done <= 0)
			return cn_error(CUDA_ERROR_INVALID_VALUE, "the host memory at %p cannot be %s", far.iov_base,
					writes ? "written" : "read");
		to += done;
		from += done;
		bytes -= (size_t)done;
	}
	return CUDA_SUCCESS;
}

CUresult cn_foreign_read(void *to, const void *from_foreign, size_t bytes)
{
	return copy(to, from_foreign, bytes, false);
}

CUresult cn_foreign_write(void *to_foreign, const void *from, size_t bytes)
{
	return copy(to_foreign, from, bytes, true);
}

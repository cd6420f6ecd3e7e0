/* SPDX-License-Identifier: MIT */
/*
 * Foreign memory: what a program passes as a host pointer, which may not be mapped at all.
 *
 * The kernel copies it for us (process_vm_readv and process_vm_writev on ourselves) and says EFAULT where a plain copy
 * would end the program, whatever the program has done to its signals. Where these two calls are forbidden, by a
 * security module or a filter of system calls, we copy it ourselves, under a guard (base/guard.h).
 */
#ifndef CN_BASE_FOREIGN_H
#define CN_BASE_FOREIGN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* CUDA_ERROR_INVALID_VALUE: part of the foreign memory is not mapped, or does not allow the access. */
CUresult cn_foreign_read(void *to, const void *from_foreign, size_t bytes);
CUresult cn_foreign_write(void *to_foreign, const void *from, size_t bytes);

/* The same for a caller that expects memory to end somewhere: false, and no error. */
bool cn_foreign_peek(void *to, const void *from_foreign, size_t bytes);
bool cn_foreign_poke(void *to_foreign, const void *from, size_t bytes);

#endif

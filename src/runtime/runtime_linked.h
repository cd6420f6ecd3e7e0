/* SPDX-License-Identifier: MIT */
/*
 * Device code of files that were compiled apart and not linked: `cenote cc -rdc=true`.
 *
 * nvcc links such files when it makes a program, and registers one binary. We link when something of them is first
 * used. Each file registers a fat binary with PTX that may lack functions and variables, and says so with the word that
 * nvcc has for it, --compile-only. All such binaries of a program, or of a shared library, are one module.
 */
#ifndef CN_RUNTIME_RUNTIME_LINKED_H
#define CN_RUNTIME_RUNTIME_LINKED_H

#include "cenote/cuda.h"

#include <stdbool.h>
#include <stddef.h>

/* Was this registered to be linked with others? */
bool cn_runtime_is_part(const void *image);

/* Link parts, and load them. The images are the program's own, as it has registered them. */
CUresult cn_runtime_load_parts(const void *const *images, size_t count, CUlibrary *ret_library);

#endif

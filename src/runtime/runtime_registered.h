/* SPDX-License-Identifier: MIT */
/*
 * In libcenote.so, for the drop-in libcudart.so.13: what a program that a CUDA compiler made tells of itself.
 *
 * Before main(), and when one of its libraries is opened, such a program registers each binary that it holds for
 * devices (a fat binary, of one source file or of several that were linked), and by which host addresses its kernels
 * and variables are named. The names and the binary stay in the program's memory until it unregisters the binary.
 */
#ifndef CN_RUNTIME_RUNTIME_REGISTERED_H
#define CN_RUNTIME_RUNTIME_REGISTERED_H

#include <stdbool.h>

/* A binary; NULL: no host memory. */
__attribute__((visibility("default"))) void *cenote_binary_register(const void *image);

/* A kernel of it: the address by which it is launched. */
__attribute__((visibility("default"))) void cenote_binary_add_kernel(void *binary, const void *function,
								     const char *name);

/* A __device__ or __constant__ variable: its shadow on the host. */
__attribute__((visibility("default"))) void cenote_binary_add_variable(void *binary, const void *variable,
								       const char *name);

/* A __managed__ variable: the pointer through which the host reaches it, written when the binary is loaded. */
__attribute__((visibility("default"))) void cenote_binary_add_managed(void *binary, void **pointer, const char *name);

/* Load it now: the host is about to touch a managed variable. False: it could not be loaded. */
__attribute__((visibility("default"))) bool cenote_binary_load(void *binary);

/* The binary is being unloaded, and its kernels and variables with it. */
__attribute__((visibility("default"))) void cenote_binary_unregister(void *binary);

#endif

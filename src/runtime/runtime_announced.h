/* SPDX-License-Identifier: MIT */
/*
 * In libcenote.so, for the drop-in libcudart.so.13: kernels that a program compiled by nvcc announces when it is
 * loaded. They are for GPUs. The host device cannot run them, but can say so when one is launched.
 */
#ifndef CN_RUNTIME_RUNTIME_ANNOUNCED_H
#define CN_RUNTIME_RUNTIME_ANNOUNCED_H

/* A binary that will announce its kernels; NULL: no memory to remember them. */
__attribute__((visibility("default"))) void *cenote_binary_announce(void);

/* One of its kernels: the address by which it is launched, and its name, which stays for as long as the binary. */
__attribute__((visibility("default"))) void cenote_kernel_announce(void *binary, const void *function,
								   const char *name);

/* The binary is being unloaded, and its kernels with it. */
__attribute__((visibility("default"))) void cenote_binary_forget(void *binary);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Images: the bytes that a module is made of, in a file or in memory.
 *
 * The host device takes a shared object for this machine. An image is checked before the dynamic linker gets it, which
 * trusts what it reads: one that is truncated, or meant for a GPU, is refused with a sentence.
 */
#ifndef CN_DRIVER_HOST_IMAGE_H
#define CN_DRIVER_HOST_IMAGE_H

#include "driver/host/objects.h"

struct cn_image {
	int file;           /* descriptor; -1: in memory */
	const void *memory; /* of the program: may not be mapped */
};

/* May the dynamic linker have it? *ret_bytes: how long it is, as far as it is loaded. */
CUresult cn_image_check(const struct cn_image *image, uint64_t *ret_bytes);

/* A copy without a name in any file system; the caller closes the descriptor. */
CUresult cn_image_copy(const struct cn_image *image, uint64_t bytes, int *ret_copy);

#endif

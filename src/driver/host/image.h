/* SPDX-License-Identifier: MIT */
/*
 * Images: the bytes that a module is made of, in a file or in memory.
 *
 * The host device takes PTX, a fat binary that has some, or a shared object for this machine. A shared object is
 * checked before the dynamic linker gets it, which trusts what it reads: one that is truncated, or meant for a GPU, is
 * refused with a sentence.
 */
#ifndef CN_DRIVER_HOST_IMAGE_H
#define CN_DRIVER_HOST_IMAGE_H

#include "driver/host/objects.h"

struct cn_image {
	int file;           /* descriptor; -1: in memory */
	const void *memory; /* of the program: may not be mapped */
};

enum cn_image_kind {
	CN_IMAGE_SHARED_OBJECT,
	CN_IMAGE_PTX,     /* text */
	CN_IMAGE_FAT,     /* a fat binary */
	CN_IMAGE_WRAPPER, /* what a compiler puts around one or several of them: it has pointers */
};

/*
 * Open the file of an image; the caller closes the descriptor. CUDA_ERROR_FILE_NOT_FOUND: it cannot be opened.
 * CUDA_ERROR_OUT_OF_MEMORY is NVIDIA's code for a directory.
 */
CUresult cn_image_open(const char *path, int *ret_file);

/* What is it? Of a shared object, which the dynamic linker may have then, *ret_bytes is how much of it is loaded. */
CUresult cn_image_check(const struct cn_image *image, enum cn_image_kind *ret_kind, uint64_t *ret_bytes);

/*
 * PTX or a fat binary, all of it: *ret_bytes at *ret_start. The caller frees *ret_owned when it is done with them.
 * CUDA_ERROR_INVALID_IMAGE: it ends too early.
 */
CUresult cn_image_read(const struct cn_image *image, enum cn_image_kind kind, const void **ret_start, size_t *ret_bytes,
		       void **ret_owned);

/* A copy without a name in any file system; the caller closes the descriptor. */
CUresult cn_image_copy(const struct cn_image *image, uint64_t bytes, int *ret_copy);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Options of the compiler of PTX, which the host device does not have: their outputs are written.
 */
#ifndef CN_DRIVER_HOST_JIT_H
#define CN_DRIVER_HOST_JIT_H

#include "driver/host/objects.h"

struct cn_jit_log {
	char *buffer; /* of the program: may not be mapped; NULL: none */
	unsigned int room_bytes;
	void **filled; /* receives how much of it is filled; NULL: nothing does */
};

struct cn_jit {
	struct cn_jit_log information, error;
};

/*
 * Read options and their values, and empty both logs. CUDA_ERROR_INVALID_VALUE: an option is invalid, or the arrays or
 * buffers are not there.
 */
CUresult cn_jit_begin(unsigned int count, const CUjit_option *options, void **values, struct cn_jit *ret_jit);

/* Write a sentence into the log of errors, as much as fits. */
CUresult cn_jit_fail(const struct cn_jit *jit, const char *sentence);

#endif

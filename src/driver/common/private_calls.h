/* SPDX-License-Identifier: MIT */
/*
 * What the runtime asks of the driver's layer beside the public functions (src/private.list).
 */
#ifndef CN_DRIVER_COMMON_PRIVATE_CALLS_H
#define CN_DRIVER_COMMON_PRIVATE_CALLS_H

#include "base/private.h"

#include "cenote/cuda.h"

#include <stdbool.h>

/* The function of a registered kernel's C function. CUDA_ERROR_NOT_FOUND: no kernel is registered there. */
CN_PRIVATE CUresult cn_function_of_address(const void *address, CUfunction *ret_function);

/*
 * On the host device: is there a current context that can be used now? False says nothing: ask the driver. For every
 * call of the runtime, in few instructions.
 */
CN_PRIVATE bool cn_context_lives(void);

/* On a GPU: is it the handle of a stream that was destroyed? The runtime must not crash on one. */
CN_PRIVATE bool cn_gpu_stream_is_gone(CUstream stream);

#endif

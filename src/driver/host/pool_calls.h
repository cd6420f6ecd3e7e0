/* SPDX-License-Identifier: MIT */
#ifndef CN_DRIVER_HOST_POOL_CALLS_H
#define CN_DRIVER_HOST_POOL_CALLS_H

#include "device/device.h"

/* cuMemFree() of a block. CUDA_ERROR_INVALID_VALUE: no block begins at the address. */
CUresult cn_streams_free_after_all(uint64_t address);
/* How far such frees have come. */
struct cn_point cn_streams_after_all_point(void);

#endif

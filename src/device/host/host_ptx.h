/* SPDX-License-Identifier: MIT */
/*
 * Kernels in PTX on the host device.
 *
 * libcenote-ptx.so (ptx/ptx.h) reads PTX and runs blocks. It is opened with the first image that needs it, and stays.
 * A grid of such a kernel is run by host_grid.c, as an operation of a queue (host_queue.h).
 */
#ifndef CN_DEVICE_HOST_HOST_PTX_H
#define CN_DEVICE_HOST_HOST_PTX_H

#include "cenote/cenote.h"
#include "device/device.h"
#include "ptx/ptx.h"

/* CUDA_ERROR_JIT_COMPILER_NOT_FOUND: the library is not there, or is another release's. */
CUresult cn_host_ptx_open(const struct cn_ptx_calls **ret_calls);
/* The calls of the library that is open; there is an image of PTX, so it is. */
const struct cn_ptx_calls *cn_host_ptx(void);

/* Tell of what kernels read and write from now on; see cenote.h. */
void cn_host_watch_kernels(const cenote_kernel_watcher *watcher);

/* Write out what kernels have printed. For calls that wait for kernels, launch them or load code, with no lock held. */
void cn_host_print_flush(void);

#endif

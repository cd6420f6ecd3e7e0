/* SPDX-License-Identifier: MIT */
/*
 * Beginning and end of what a profiler is to look at, by the driver API.
 *
 * On a GPU these are the driver's. On the host device there is no profiler to tell: the calls check what they can, and
 * change nothing.
 */
#if !defined(cuda_profiler_H)
#define cuda_profiler_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Let a profiler that watches this program begin. Nothing happens if it has begun, or if there is none.
 *
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuProfilerStart(void);

/*
 * Let it end.
 *
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuProfilerStop(void);

#ifdef __cplusplus
}
#endif

#endif

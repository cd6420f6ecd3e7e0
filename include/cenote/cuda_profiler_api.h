/* SPDX-License-Identifier: MIT */
/*
 * Beginning and end of what a profiler is to look at, by the runtime API.
 */
#if !defined(__CUDA_PROFILER_API_H__)
#define __CUDA_PROFILER_API_H__

#include "driver_types.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Let a profiler that watches this program begin. Nothing happens if it has begun, or if there is none. */
cudaError_t CUDARTAPI cudaProfilerStart(void);

/* Let it end. */
cudaError_t CUDARTAPI cudaProfilerStop(void);

#if defined(__cplusplus)
}
#endif

#endif

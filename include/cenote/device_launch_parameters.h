/* SPDX-License-Identifier: MIT */
/*
 * threadIdx and related variables. cuda_runtime.h has them; this header is for programs that include it by name.
 */
#if !defined(__DEVICE_LAUNCH_PARAMETERS_H__)
#define __DEVICE_LAUNCH_PARAMETERS_H__

#include "cuda_runtime.h"

#endif /* __DEVICE_LAUNCH_PARAMETERS_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * A device's atomic functions. cuda_runtime.h has them; this header is for programs that include it by name.
 */
#if !defined(__DEVICE_ATOMIC_FUNCTIONS_H__)
#define __DEVICE_ATOMIC_FUNCTIONS_H__

#include "cuda_runtime.h"

#endif /* __DEVICE_ATOMIC_FUNCTIONS_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * A device's mathematics. cuda_runtime.h has them; this header is for programs that include it by name.
 */
#if !defined(__MATH_FUNCTIONS_H__)
#define __MATH_FUNCTIONS_H__

#include "cuda_runtime.h"

#endif /* __MATH_FUNCTIONS_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * Half precision: 16-bit floating-point numbers (1 sign, 5 exponent and 10 fraction bits), alone and in pairs.
 *
 * On a device arithmetic is the instruction of PTX. On the host a number is widened, the operation is done, and the
 * result is rounded once. In C only the storage types are here.
 */
#if !defined(__CUDA_FP16_H__)
#define __CUDA_FP16_H__

#include "host_defines.h"

/* The bits. */
typedef struct __align__(2)
{
	unsigned short x;
}
__half_raw;
typedef struct __align__(4)
{
	unsigned short x, y;
}
__half2_raw;

#if defined(__cplusplus)

#include "device/half_types.h"

#if defined(__clang__) && defined(__CUDA__)
#include "device/half_functions.h"
#endif

#endif /* __cplusplus */

#endif /* __CUDA_FP16_H__ */

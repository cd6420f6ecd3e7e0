/* SPDX-License-Identifier: MIT */
/*
 * bfloat16: 16-bit floating-point numbers with the range of float (1 sign, 8 exponent and 7 fraction bits), alone and
 * in pairs.
 *
 * Arithmetic is that of float, rounded once more, on the device and on the host. In C only the storage types are here.
 */
#if !defined(__CUDA_BF16_H__)
#define __CUDA_BF16_H__

#include "host_defines.h"

/* The bits. */
typedef struct __align__(2)
{
	unsigned short x;
}
__nv_bfloat16_raw;
typedef struct __align__(4)
{
	unsigned short x, y;
}
__nv_bfloat162_raw;

#if defined(__cplusplus)

#include "device/bf16_types.h"

#if defined(__clang__) && defined(__CUDA__)
#include "device/bf16_functions.h"
#endif

#endif /* __cplusplus */

#endif /* __CUDA_BF16_H__ */

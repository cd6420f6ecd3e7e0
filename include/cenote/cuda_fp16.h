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

#include "device/half_bits.h"

#define __CENOTE_NUMBER              __half
#define __CENOTE_NUMBER_RAW          __half_raw
#define __CENOTE_PAIR                __half2
#define __CENOTE_PAIR_RAW            __half2_raw
#define __CENOTE_INFINITY            0x7c00
#define __CENOTE_BITS(name)          __cenote_half_##name
#define __CENOTE_NAME(before, after) before##half##after
#define __CENOTE_TWICE               __half2half2
#include "device/narrow.h"

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

#endif /* __cplusplus */

#endif /* __CUDA_FP16_H__ */

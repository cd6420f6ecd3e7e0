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

#include "device/bf16_bits.h"

#define __CENOTE_NUMBER              __nv_bfloat16
#define __CENOTE_NUMBER_RAW          __nv_bfloat16_raw
#define __CENOTE_PAIR                __nv_bfloat162
#define __CENOTE_PAIR_RAW            __nv_bfloat162_raw
#define __CENOTE_INFINITY            0x7f80
#define __CENOTE_BITS(name)          __cenote_bf16_##name
#define __CENOTE_NAME(before, after) before##bfloat16##after
#define __CENOTE_TWICE               __bfloat162bfloat162
#include "device/narrow.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#endif /* __cplusplus */

#endif /* __CUDA_BF16_H__ */

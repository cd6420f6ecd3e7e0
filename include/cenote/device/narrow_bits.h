/* SPDX-License-Identifier: MIT */
/*
 * What the 16-bit types have in common below their bits.
 *
 * half_bits.h and bf16_bits.h have functions of the same names behind __cenote_half_ and __cenote_bf16_: float, of the
 * bits; rn, rz, rd and ru, the bits of a number, rounded to nearest, towards zero, down and up; add, sub, mul, div and
 * fma; on a device atomic_add and, of two in a word, atomic_add2.
 */
#if !defined(__CENOTE_DEVICE_NARROW_BITS_H__)
#define __CENOTE_DEVICE_NARROW_BITS_H__

#include "../vector_types.h"
#if defined(__clang__) && defined(__CUDA__)
#include "../cuda_runtime.h"
#endif
#include <math.h>
#include <string.h>

/* The marks of a function of both sides; with a host compiler there is one. */
#define __CENOTE_BOTH__ static __host__ __device__ __inline__

/*
 * a b + c for what is rounded once more. The product of two such numbers is exact; what the sum's rounding leaves out
 * turns its last bit odd, so that rounding again is right.
 */
__CENOTE_BOTH__ double __cenote_narrow_fma(float a, float b, float c)
{
	double product = (double)a * b, add = c;
	double sum = product + add, part = sum - product, rest = (product - (sum - part)) + (add - part);
	unsigned long long bits;
	memcpy(&bits, &sum, sizeof bits);
	if (rest != 0 && !(bits & 1) && sum - sum == 0)
		bits += (rest > 0) == (sum > 0) ? 1 : -1ull;
	memcpy(&sum, &bits, sizeof sum);
	return sum;
}

#endif /* __CENOTE_DEVICE_NARROW_BITS_H__ */

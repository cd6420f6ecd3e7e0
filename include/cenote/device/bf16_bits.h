/* SPDX-License-Identifier: MIT */
/*
 * bfloat16 in bits: conversions and arithmetic on the device and on the host, what narrow_types.h and
 * narrow_functions.h make __nv_bfloat16 of.
 *
 * A number is the upper half of a float. A sum, a difference, a product or a quotient in float has bits enough to be
 * rounded again.
 */
#if !defined(__CENOTE_DEVICE_BF16_BITS_H__)
#define __CENOTE_DEVICE_BF16_BITS_H__

#include "narrow_bits.h"

__CENOTE_BOTH__ float __cenote_bf16_float(unsigned short bits)
{
	unsigned int wide = (unsigned int)bits << 16;
	float value;
	memcpy(&value, &wide, sizeof value);
	return value;
}

/* `rounding` is 0 to nearest, 1 towards zero, 2 down, 3 up. */
__CENOTE_BOTH__ unsigned short __cenote_bf16_round(float value, int rounding)
{
	unsigned int bits;
	memcpy(&bits, &value, sizeof bits);
	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return 0x7fff;
	unsigned int rest = bits & 0xffff, whole = bits >> 16, negative = bits >> 31;
	if (rounding == 0)
		whole += rest > 0x8000 || (rest == 0x8000 && (whole & 1));
	else if (rounding > 1)
		whole += rest && (rounding == 2) == (negative != 0);
	return (unsigned short)whole;
}

/* A double as a float that rounds to the same: what is cut off turns the last bit odd. */
__CENOTE_BOTH__ float __cenote_bf16_narrow(double value)
{
	float narrow = (float)value;
	unsigned int bits;
	memcpy(&bits, &narrow, sizeof bits);
	if ((double)narrow != value && narrow == narrow && !(bits & 1)) {
		/* An even neighbour; the odd one is towards the value. Infinity's is the largest number. */
		bits += (narrow < 0 ? -value : value) > (narrow < 0 ? -(double)narrow : (double)narrow) ? 1 : -1u;
		if (narrow == 0)
			bits = value < 0 ? 0x80000001u : 1;
	}
	memcpy(&narrow, &bits, sizeof narrow);
	return narrow;
}

#define __CENOTE_BF16_FROM(rounding, number)                                    \
	__CENOTE_BOTH__ unsigned short __cenote_bf16_##rounding(float a)        \
	{                                                                       \
		return __cenote_bf16_round(a, number);                          \
	}                                                                       \
	__CENOTE_BOTH__ unsigned short __cenote_bf16_##rounding(double a)       \
	{                                                                       \
		return __cenote_bf16_round(__cenote_bf16_narrow(a), number);    \
	}                                                                       \
	__CENOTE_BOTH__ unsigned short __cenote_bf16_##rounding(int a)          \
	{                                                                       \
		return __cenote_bf16_##rounding((double)a);                     \
	}                                                                       \
	__CENOTE_BOTH__ unsigned short __cenote_bf16_##rounding(unsigned int a) \
	{                                                                       \
		return __cenote_bf16_##rounding((double)a);                     \
	}
__CENOTE_BF16_FROM(rn, 0)
__CENOTE_BF16_FROM(rz, 1)
__CENOTE_BF16_FROM(rd, 2)
__CENOTE_BF16_FROM(ru, 3)
#undef __CENOTE_BF16_FROM

/* Of 64 bits: what is below the first 40 or so only counts as not nothing. */
__CENOTE_BOTH__ unsigned short __cenote_bf16_rn(unsigned long long a)
{
	if (a >> 52)
		a = (a & ~0xfffull) | ((a & 0xfff) != 0) << 12;
	return __cenote_bf16_rn((double)a);
}

__CENOTE_BOTH__ unsigned short __cenote_bf16_rn(long long a)
{
	unsigned long long size = a < 0 ? 0 - (unsigned long long)a : (unsigned long long)a;
	return (unsigned short)(__cenote_bf16_rn(size) | (a < 0 ? 0x8000 : 0));
}

#define __CENOTE_BF16_OPERATION(name, sign)                                                        \
	__CENOTE_BOTH__ unsigned short __cenote_bf16_##name(unsigned short a, unsigned short b)    \
	{                                                                                          \
		return __cenote_bf16_round(__cenote_bf16_float(a) sign __cenote_bf16_float(b), 0); \
	}
__CENOTE_BF16_OPERATION(add, +)
__CENOTE_BF16_OPERATION(sub, -)
__CENOTE_BF16_OPERATION(mul, *)
__CENOTE_BF16_OPERATION(div, /)
#undef __CENOTE_BF16_OPERATION

__CENOTE_BOTH__ unsigned short __cenote_bf16_fma(unsigned short a, unsigned short b, unsigned short c)
{
	return __cenote_bf16_rn(
		__cenote_narrow_fma(__cenote_bf16_float(a), __cenote_bf16_float(b), __cenote_bf16_float(c)));
}

#if defined(__clang__) && defined(__CUDA__)
/* By compare and swap, as sm_90 is the first to have an instruction. */
__CENOTE_DEVICE__ unsigned short __cenote_bf16_atomic_add(unsigned short *address, unsigned short value)
{
	unsigned short before = *(volatile unsigned short *)address, seen;
	while ((seen = atomicCAS(address, before, __cenote_bf16_add(before, value))) != before)
		before = seen;
	return before;
}

__CENOTE_DEVICE__ unsigned int __cenote_bf16_atomic_add2(unsigned int *address, unsigned int value)
{
	unsigned short *halves = (unsigned short *)address;
	unsigned int low = __cenote_bf16_atomic_add(halves, (unsigned short)value);
	return low | (unsigned int)__cenote_bf16_atomic_add(halves + 1, (unsigned short)(value >> 16)) << 16;
}
#endif

#endif /* __CENOTE_DEVICE_BF16_BITS_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * Half precision in bits: conversions and arithmetic on the device and on the host, what narrow_types.h and
 * narrow_functions.h make __half of. On a device the instruction, on the host its meaning.
 */
#if !defined(__CENOTE_DEVICE_HALF_BITS_H__)
#define __CENOTE_DEVICE_HALF_BITS_H__

#include "narrow_bits.h"

/*
 * ---- Rounding on the host -------------------------------------------------------------------------------------------
 *
 * A double holds every half, and every sum and product of two. `rounding` is 0 to nearest, 1 towards zero, 2 down,
 * 3 up.
 */

__CENOTE_BOTH__ unsigned short __cenote_half_round(double value, int rounding)
{
	unsigned long long bits;
	memcpy(&bits, &value, sizeof bits);
	unsigned short sign = (unsigned short)(bits >> 48 & 0x8000);
	bits &= 0x7fffffffffffffffull;
	if (bits > 0x7ff0000000000000ull)
		return 0x7fff;
	if (bits == 0x7ff0000000000000ull)
		return (unsigned short)(sign | 0x7c00);
	int exponent = (int)(bits >> 52) - 1023;
	/* In units of the last place, which is 2^-24 at least: a whole number, and what is cut off. */
	int last = exponent < -14 ? -24 : exponent - 10, cut = last - exponent + 52;
	unsigned long long fraction = (bits & 0xfffffffffffffull) | 0x10000000000000ull, whole = 0;
	int rest = 0; /* 0: nothing, 1: below a half, 2: a half, 3: above */
	if (cut > 54)
		rest = bits != 0;
	else {
		unsigned long long below = fraction & ((1ull << cut) - 1), half = 1ull << (cut - 1);
		whole = fraction >> cut;
		rest = !below ? 0 : below < half ? 1 : below == half ? 2 : 3;
	}
	if (rounding == 0)
		whole += rest == 3 || (rest == 2 && (whole & 1));
	else if (rounding > 1)
		whole += rest && (rounding == 2) == (sign != 0);
	unsigned int result = (exponent < -14 ? 0 : (unsigned int)(exponent + 14) << 10) + (unsigned int)whole;
	if (result >= 0x7c00)
		result = rounding == 0 || (rounding == 2 && sign) || (rounding == 3 && !sign) ? 0x7c00 : 0x7bff;
	return (unsigned short)(sign | result);
}

__CENOTE_BOTH__ float __cenote_half_widen(unsigned short bits)
{
	unsigned int exponent = bits >> 10 & 31, fraction = bits & 0x3ff, result;
	float value;
	if (exponent == 31)
		result = 0x7f800000u | fraction << 13;
	else if (exponent)
		result = (exponent + 112) << 23 | fraction << 13;
	else {
		value = (float)fraction * 5.9604644775390625e-8f;
		memcpy(&result, &value, sizeof result);
	}
	result |= (unsigned int)(bits & 0x8000) << 16;
	memcpy(&value, &result, sizeof value);
	return value;
}

/*
 * ---- Bits to bits ---------------------------------------------------------------------------------------------------
 */

#if defined(__CUDA_ARCH__)
#define __CENOTE_HALF_FROM(name, type, ptx, letter, mode, rounding)            \
	__CENOTE_BOTH__ unsigned short name(type a)                            \
	{                                                                      \
		unsigned short r;                                              \
		asm("cvt." mode ".f16." ptx " %0, %1;" : "=h"(r) : letter(a)); \
		return r;                                                      \
	}
#define __CENOTE_HALF_OPERATION(name, operation, expression)                     \
	__CENOTE_BOTH__ unsigned short name(unsigned short a, unsigned short b)  \
	{                                                                        \
		unsigned short r;                                                \
		asm(operation ".rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b)); \
		return r;                                                        \
	}
__CENOTE_BOTH__ unsigned short __cenote_half_fma(unsigned short a, unsigned short b, unsigned short c)
{
	unsigned short r;
	asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r) : "h"(a), "h"(b), "h"(c));
	return r;
}
__CENOTE_BOTH__ float __cenote_half_float(unsigned short a)
{
	float r;
	asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a));
	return r;
}
#else
#define __CENOTE_HALF_FROM(name, type, ptx, letter, mode, rounding) \
	__CENOTE_BOTH__ unsigned short name(type a)                 \
	{                                                           \
		return __cenote_half_round((double)a, rounding);    \
	}
#define __CENOTE_HALF_OPERATION(name, operation, expression)                              \
	__CENOTE_BOTH__ unsigned short name(unsigned short a_bits, unsigned short b_bits) \
	{                                                                                 \
		double a = __cenote_half_widen(a_bits), b = __cenote_half_widen(b_bits);  \
		return __cenote_half_round(expression, 0);                                \
	}
__CENOTE_BOTH__ unsigned short __cenote_half_fma(unsigned short a, unsigned short b, unsigned short c)
{
	return __cenote_half_round(
		__cenote_narrow_fma(__cenote_half_widen(a), __cenote_half_widen(b), __cenote_half_widen(c)), 0);
}
__CENOTE_BOTH__ float __cenote_half_float(unsigned short a)
{
	return __cenote_half_widen(a);
}
#endif
__CENOTE_HALF_OPERATION(__cenote_half_add, "add", a + b)
__CENOTE_HALF_OPERATION(__cenote_half_sub, "sub", a - b)
__CENOTE_HALF_OPERATION(__cenote_half_mul, "mul", a *b)
__CENOTE_HALF_FROM(__cenote_half_rn, float, "f32", "f", "rn", 0)
__CENOTE_HALF_FROM(__cenote_half_rz, float, "f32", "f", "rz", 1)
__CENOTE_HALF_FROM(__cenote_half_rd, float, "f32", "f", "rm", 2)
__CENOTE_HALF_FROM(__cenote_half_ru, float, "f32", "f", "rp", 3)
__CENOTE_HALF_FROM(__cenote_half_rn, double, "f64", "d", "rn", 0)
__CENOTE_HALF_FROM(__cenote_half_rn, int, "s32", "r", "rn", 0)
__CENOTE_HALF_FROM(__cenote_half_rz, int, "s32", "r", "rz", 1)
__CENOTE_HALF_FROM(__cenote_half_rd, int, "s32", "r", "rm", 2)
__CENOTE_HALF_FROM(__cenote_half_ru, int, "s32", "r", "rp", 3)
__CENOTE_HALF_FROM(__cenote_half_rn, unsigned int, "u32", "r", "rn", 0)
__CENOTE_HALF_FROM(__cenote_half_rz, unsigned int, "u32", "r", "rz", 1)
__CENOTE_HALF_FROM(__cenote_half_rd, unsigned int, "u32", "r", "rm", 2)
__CENOTE_HALF_FROM(__cenote_half_ru, unsigned int, "u32", "r", "rp", 3)
__CENOTE_HALF_FROM(__cenote_half_rn, long long, "s64", "l", "rn", 0)
__CENOTE_HALF_FROM(__cenote_half_rn, unsigned long long, "u64", "l", "rn", 0)
#undef __CENOTE_HALF_FROM
#undef __CENOTE_HALF_OPERATION

/* A quotient in float has bits enough to be rounded again. */
__CENOTE_BOTH__ unsigned short __cenote_half_div(unsigned short a, unsigned short b)
{
	return __cenote_half_rn(__cenote_half_float(a) / __cenote_half_float(b));
}

#if defined(__clang__) && defined(__CUDA__)
__CENOTE_DEVICE__ unsigned short __cenote_half_atomic_add(unsigned short *address, unsigned short value)
{
	unsigned short before;
	asm volatile("atom.add.noftz.f16 %0, [%1], %2;" : "=h"(before) : "l"(address), "h"(value) : "memory");
	return before;
}

__CENOTE_DEVICE__ unsigned int __cenote_half_atomic_add2(unsigned int *address, unsigned int value)
{
	asm volatile("atom.add.noftz.f16x2 %0, [%1], %0;" : "+r"(value) : "l"(address) : "memory");
	return value;
}
#endif

#endif /* __CENOTE_DEVICE_HALF_BITS_H__ */

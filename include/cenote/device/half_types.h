/* SPDX-License-Identifier: MIT */
/*
 * __half and __half2: types, conversions, arithmetic, comparisons, on the device and on the host.
 */
#if !defined(__CENOTE_DEVICE_HALF_TYPES_H__)
#define __CENOTE_DEVICE_HALF_TYPES_H__

#include "../vector_types.h"
#include <math.h>
#include <string.h>

/* The marks of a function of both sides; with a host compiler there is one. */
#define __CENOTE_HALF__ static __host__ __device__ __inline__

/*
 * ---- Rounding on the host -------------------------------------------------------------------------------------------
 *
 * A double holds every half, and every sum and product of two. `rounding` is 0 to nearest, 1 towards zero, 2 down,
 * 3 up.
 */

__CENOTE_HALF__ unsigned short __cenote_half_round(double value, int rounding)
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

__CENOTE_HALF__ float __cenote_half_widen(unsigned short bits)
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
 *
 * On a device the instruction, on the host its meaning.
 */

#if defined(__CUDA_ARCH__)
#define __CENOTE_HALF_FROM(name, type, ptx, letter, mode, rounding)            \
	__CENOTE_HALF__ unsigned short name(type a)                            \
	{                                                                      \
		unsigned short r;                                              \
		asm("cvt." mode ".f16." ptx " %0, %1;" : "=h"(r) : letter(a)); \
		return r;                                                      \
	}
#define __CENOTE_HALF_OPERATION(name, operation, expression)                     \
	__CENOTE_HALF__ unsigned short name(unsigned short a, unsigned short b)  \
	{                                                                        \
		unsigned short r;                                                \
		asm(operation ".rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b)); \
		return r;                                                        \
	}
__CENOTE_HALF__ unsigned short __cenote_half_fma(unsigned short a, unsigned short b, unsigned short c)
{
	unsigned short r;
	asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r) : "h"(a), "h"(b), "h"(c));
	return r;
}
__CENOTE_HALF__ float __cenote_half_float(unsigned short a)
{
	float r;
	asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a));
	return r;
}
#else
#define __CENOTE_HALF_FROM(name, type, ptx, letter, mode, rounding) \
	__CENOTE_HALF__ unsigned short name(type a)                 \
	{                                                           \
		return __cenote_half_round((double)a, rounding);    \
	}
#define __CENOTE_HALF_OPERATION(name, operation, expression)                              \
	__CENOTE_HALF__ unsigned short name(unsigned short a_bits, unsigned short b_bits) \
	{                                                                                 \
		double a = __cenote_half_widen(a_bits), b = __cenote_half_widen(b_bits);  \
		return __cenote_half_round(expression, 0);                                \
	}
/* The product is exact; what the sum's rounding leaves out turns its last bit odd, so that rounding again is right. */
__CENOTE_HALF__ unsigned short __cenote_half_fma(unsigned short a, unsigned short b, unsigned short c)
{
	double product = (double)__cenote_half_widen(a) * __cenote_half_widen(b), add = __cenote_half_widen(c);
	double sum = product + add, part = sum - product, rest = (product - (sum - part)) + (add - part);
	unsigned long long bits;
	memcpy(&bits, &sum, sizeof bits);
	if (rest != 0 && !(bits & 1) && sum - sum == 0)
		bits += (rest > 0) == (sum > 0) ? 1 : -1ull;
	memcpy(&sum, &bits, sizeof sum);
	return __cenote_half_round(sum, 0);
}
__CENOTE_HALF__ float __cenote_half_float(unsigned short a)
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
__CENOTE_HALF__ unsigned short __cenote_half_div(unsigned short a, unsigned short b)
{
	return __cenote_half_rn(__cenote_half_float(a) / __cenote_half_float(b));
}

/*
 * ---- Types ----------------------------------------------------------------------------------------------------------
 */

#define __CENOTE_BOTH__ __host__ __device__ __inline__

struct __align__(2) __half
{
	unsigned short __x;

#if __cplusplus >= 201103L
	__half() = default;
#else
	__CENOTE_BOTH__ __half()
	{
	}
#endif
	__CENOTE_BOTH__ __half(const __half_raw &raw) : __x(raw.x)
	{
	}
	__CENOTE_BOTH__ __half(float a) : __x(__cenote_half_rn(a))
	{
	}
	__CENOTE_BOTH__ __half(double a) : __x(__cenote_half_rn(a))
	{
	}
	__CENOTE_BOTH__ __half(int a) : __x(__cenote_half_rn(a))
	{
	}
	__CENOTE_BOTH__ __half(unsigned int a) : __x(__cenote_half_rn(a))
	{
	}
	__CENOTE_BOTH__ __half(short a) : __x(__cenote_half_rn((int)a))
	{
	}
	__CENOTE_BOTH__ __half(unsigned short a) : __x(__cenote_half_rn((unsigned int)a))
	{
	}
	__CENOTE_BOTH__ __half(long a) : __x(__cenote_half_rn((long long)a))
	{
	}
	__CENOTE_BOTH__ __half(unsigned long a) : __x(__cenote_half_rn((unsigned long long)a))
	{
	}
	__CENOTE_BOTH__ __half(long long a) : __x(__cenote_half_rn(a))
	{
	}
	__CENOTE_BOTH__ __half(unsigned long long a) : __x(__cenote_half_rn(a))
	{
	}
	__CENOTE_BOTH__ operator float() const
	{
		return __cenote_half_float(__x);
	}
	__CENOTE_BOTH__ operator __half_raw() const
	{
		__half_raw raw;
		raw.x = __x;
		return raw;
	}
	static __CENOTE_BOTH__ __half __cenote_bits(unsigned short bits)
	{
		__half_raw raw;
		raw.x = bits;
		return __half(raw);
	}
};

struct __align__(4) __half2
{
	__half x, y;

#if __cplusplus >= 201103L
	__half2() = default;
#else
	__CENOTE_BOTH__ __half2()
	{
	}
#endif
	__CENOTE_BOTH__ __half2(const __half &a, const __half &b) : x(a), y(b)
	{
	}
	__CENOTE_BOTH__ __half2(const __half2_raw &raw)
	    : x(__half::__cenote_bits(raw.x)), y(__half::__cenote_bits(raw.y))
	{
	}
};

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

/*
 * ---- Operators ------------------------------------------------------------------------------------------------------
 */

#define __CENOTE_HALF_ARITHMETIC(sign, name)                                      \
	__CENOTE_HALF__ __half operator sign(const __half &a, const __half &b)    \
	{                                                                         \
		return __half::__cenote_bits(__cenote_half_##name(a.__x, b.__x)); \
	}                                                                         \
	__CENOTE_HALF__ __half &operator sign##=(__half &a, const __half &b)      \
	{                                                                         \
		return a = a sign b;                                              \
	}                                                                         \
	__CENOTE_HALF__ __half2 operator sign(const __half2 &a, const __half2 &b) \
	{                                                                         \
		return __half2(a.x sign b.x, a.y sign b.y);                       \
	}                                                                         \
	__CENOTE_HALF__ __half2 &operator sign##=(__half2 &a, const __half2 &b)   \
	{                                                                         \
		return a = a sign b;                                              \
	}
__CENOTE_HALF_ARITHMETIC(+, add)
__CENOTE_HALF_ARITHMETIC(-, sub)
__CENOTE_HALF_ARITHMETIC(*, mul)
__CENOTE_HALF_ARITHMETIC(/, div)
#undef __CENOTE_HALF_ARITHMETIC

#define __CENOTE_HALF_COMPARE(sign)                                                \
	__CENOTE_HALF__ bool operator sign(const __half &a, const __half &b)       \
	{                                                                          \
		return __cenote_half_float(a.__x) sign __cenote_half_float(b.__x); \
	}                                                                          \
	__CENOTE_HALF__ bool operator sign(const __half2 &a, const __half2 &b)     \
	{                                                                          \
		return a.x sign b.x && a.y sign b.y;                               \
	}
__CENOTE_HALF_COMPARE(==)
__CENOTE_HALF_COMPARE(!=)
__CENOTE_HALF_COMPARE(<)
__CENOTE_HALF_COMPARE(<=)
__CENOTE_HALF_COMPARE(>)
__CENOTE_HALF_COMPARE(>=)
#undef __CENOTE_HALF_COMPARE

__CENOTE_HALF__ __half operator+(const __half &a)
{
	return a;
}

__CENOTE_HALF__ __half operator-(const __half &a)
{
	return __half::__cenote_bits((unsigned short)(a.__x ^ 0x8000));
}

__CENOTE_HALF__ __half2 operator-(const __half2 &a)
{
	return __half2(-a.x, -a.y);
}

__CENOTE_HALF__ __half &operator++(__half &a)
{
	return a = a + __half(1);
}

__CENOTE_HALF__ __half &operator--(__half &a)
{
	return a = a - __half(1);
}

#undef __CENOTE_BOTH__

#endif /* __CENOTE_DEVICE_HALF_TYPES_H__ */

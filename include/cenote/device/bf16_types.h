/* SPDX-License-Identifier: MIT */
/*
 * __nv_bfloat16 and __nv_bfloat162: types, conversions, arithmetic, comparisons, on the device and on the host.
 *
 * A number is the upper half of a float. A sum, a difference, a product or a quotient in float has bits enough to be
 * rounded again.
 */
#if !defined(__CENOTE_DEVICE_BF16_TYPES_H__)
#define __CENOTE_DEVICE_BF16_TYPES_H__

#include "../vector_types.h"
#include <math.h>
#include <string.h>

/* The marks of a function of both sides; with a host compiler there is one. */
#define __CENOTE_BF16__ static __host__ __device__ __inline__

/*
 * ---- Bits to bits ---------------------------------------------------------------------------------------------------
 */

__CENOTE_BF16__ float __cenote_bf16_float(unsigned short bits)
{
	unsigned int wide = (unsigned int)bits << 16;
	float value;
	memcpy(&value, &wide, sizeof value);
	return value;
}

/* `rounding` is 0 to nearest, 1 towards zero, 2 down, 3 up. */
__CENOTE_BF16__ unsigned short __cenote_bf16_round(float value, int rounding)
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
__CENOTE_BF16__ float __cenote_bf16_narrow(double value)
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
	__CENOTE_BF16__ unsigned short __cenote_bf16_##rounding(float a)        \
	{                                                                       \
		return __cenote_bf16_round(a, number);                          \
	}                                                                       \
	__CENOTE_BF16__ unsigned short __cenote_bf16_##rounding(double a)       \
	{                                                                       \
		return __cenote_bf16_round(__cenote_bf16_narrow(a), number);    \
	}                                                                       \
	__CENOTE_BF16__ unsigned short __cenote_bf16_##rounding(int a)          \
	{                                                                       \
		return __cenote_bf16_##rounding((double)a);                     \
	}                                                                       \
	__CENOTE_BF16__ unsigned short __cenote_bf16_##rounding(unsigned int a) \
	{                                                                       \
		return __cenote_bf16_##rounding((double)a);                     \
	}
__CENOTE_BF16_FROM(rn, 0)
__CENOTE_BF16_FROM(rz, 1)
__CENOTE_BF16_FROM(rd, 2)
__CENOTE_BF16_FROM(ru, 3)
#undef __CENOTE_BF16_FROM

/* Of 64 bits: what is below the first 40 or so only counts as not nothing. */
__CENOTE_BF16__ unsigned short __cenote_bf16_rn(unsigned long long a)
{
	if (a >> 52)
		a = (a & ~0xfffull) | ((a & 0xfff) != 0) << 12;
	return __cenote_bf16_rn((double)a);
}

__CENOTE_BF16__ unsigned short __cenote_bf16_rn(long long a)
{
	unsigned long long size = a < 0 ? 0 - (unsigned long long)a : (unsigned long long)a;
	return (unsigned short)(__cenote_bf16_rn(size) | (a < 0 ? 0x8000 : 0));
}

#define __CENOTE_BF16_OPERATION(name, sign)                                                        \
	__CENOTE_BF16__ unsigned short __cenote_bf16_##name(unsigned short a, unsigned short b)    \
	{                                                                                          \
		return __cenote_bf16_round(__cenote_bf16_float(a) sign __cenote_bf16_float(b), 0); \
	}
__CENOTE_BF16_OPERATION(add, +)
__CENOTE_BF16_OPERATION(sub, -)
__CENOTE_BF16_OPERATION(mul, *)
__CENOTE_BF16_OPERATION(div, /)
#undef __CENOTE_BF16_OPERATION

/* The product is exact in double; what the sum's rounding leaves out turns its last bit odd. */
__CENOTE_BF16__ unsigned short __cenote_bf16_fma(unsigned short a, unsigned short b, unsigned short c)
{
	double add = __cenote_bf16_float(c), product = (double)__cenote_bf16_float(a) * __cenote_bf16_float(b);
	double sum = product + add, part = sum - product, rest = (product - (sum - part)) + (add - part);
	unsigned long long bits;
	memcpy(&bits, &sum, sizeof bits);
	if (rest != 0 && !(bits & 1) && sum - sum == 0)
		bits += (rest > 0) == (sum > 0) ? 1 : -1ull;
	memcpy(&sum, &bits, sizeof sum);
	return __cenote_bf16_rn(sum);
}

/*
 * ---- Types ----------------------------------------------------------------------------------------------------------
 */

#define __CENOTE_BOTH__ __host__ __device__ __inline__

struct __align__(2) __nv_bfloat16
{
	unsigned short __x;

#if __cplusplus >= 201103L
	__nv_bfloat16() = default;
#else
	__CENOTE_BOTH__ __nv_bfloat16()
	{
	}
#endif
	__CENOTE_BOTH__ __nv_bfloat16(const __nv_bfloat16_raw &raw) : __x(raw.x)
	{
	}
	__CENOTE_BOTH__ __nv_bfloat16(float a) : __x(__cenote_bf16_rn(a))
	{
	}
	__CENOTE_BOTH__ __nv_bfloat16(double a) : __x(__cenote_bf16_rn(a))
	{
	}
	__CENOTE_BOTH__ __nv_bfloat16(int a) : __x(__cenote_bf16_rn(a))
	{
	}
	__CENOTE_BOTH__ __nv_bfloat16(unsigned int a) : __x(__cenote_bf16_rn(a))
	{
	}
	__CENOTE_BOTH__ __nv_bfloat16(short a) : __x(__cenote_bf16_rn((int)a))
	{
	}
	__CENOTE_BOTH__ __nv_bfloat16(unsigned short a) : __x(__cenote_bf16_rn((unsigned int)a))
	{
	}
	__CENOTE_BOTH__ __nv_bfloat16(long a) : __x(__cenote_bf16_rn((long long)a))
	{
	}
	__CENOTE_BOTH__ __nv_bfloat16(unsigned long a) : __x(__cenote_bf16_rn((unsigned long long)a))
	{
	}
	__CENOTE_BOTH__ __nv_bfloat16(long long a) : __x(__cenote_bf16_rn(a))
	{
	}
	__CENOTE_BOTH__ __nv_bfloat16(unsigned long long a) : __x(__cenote_bf16_rn(a))
	{
	}
	__CENOTE_BOTH__ operator float() const
	{
		return __cenote_bf16_float(__x);
	}
	__CENOTE_BOTH__ operator __nv_bfloat16_raw() const
	{
		__nv_bfloat16_raw raw;
		raw.x = __x;
		return raw;
	}
	static __CENOTE_BOTH__ __nv_bfloat16 __cenote_bits(unsigned short bits)
	{
		__nv_bfloat16_raw raw;
		raw.x = bits;
		return __nv_bfloat16(raw);
	}
};

struct __align__(4) __nv_bfloat162
{
	__nv_bfloat16 x, y;

#if __cplusplus >= 201103L
	__nv_bfloat162() = default;
#else
	__CENOTE_BOTH__ __nv_bfloat162()
	{
	}
#endif
	__CENOTE_BOTH__ __nv_bfloat162(const __nv_bfloat16 &a, const __nv_bfloat16 &b) : x(a), y(b)
	{
	}
	__CENOTE_BOTH__ __nv_bfloat162(const __nv_bfloat162_raw &raw)
	    : x(__nv_bfloat16::__cenote_bits(raw.x)), y(__nv_bfloat16::__cenote_bits(raw.y))
	{
	}
};

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

/*
 * ---- Operators ------------------------------------------------------------------------------------------------------
 */

#define __CENOTE_BF16_ARITHMETIC(sign, name)                                                           \
	__CENOTE_BF16__ __nv_bfloat16 operator sign(const __nv_bfloat16 &a, const __nv_bfloat16 &b)    \
	{                                                                                              \
		return __nv_bfloat16::__cenote_bits(__cenote_bf16_##name(a.__x, b.__x));               \
	}                                                                                              \
	__CENOTE_BF16__ __nv_bfloat16 &operator sign##=(__nv_bfloat16 &a, const __nv_bfloat16 &b)      \
	{                                                                                              \
		return a = a sign b;                                                                   \
	}                                                                                              \
	__CENOTE_BF16__ __nv_bfloat162 operator sign(const __nv_bfloat162 &a, const __nv_bfloat162 &b) \
	{                                                                                              \
		return __nv_bfloat162(a.x sign b.x, a.y sign b.y);                                     \
	}                                                                                              \
	__CENOTE_BF16__ __nv_bfloat162 &operator sign##=(__nv_bfloat162 &a, const __nv_bfloat162 &b)   \
	{                                                                                              \
		return a = a sign b;                                                                   \
	}
__CENOTE_BF16_ARITHMETIC(+, add)
__CENOTE_BF16_ARITHMETIC(-, sub)
__CENOTE_BF16_ARITHMETIC(*, mul)
__CENOTE_BF16_ARITHMETIC(/, div)
#undef __CENOTE_BF16_ARITHMETIC

#define __CENOTE_BF16_COMPARE(sign)                                                          \
	__CENOTE_BF16__ bool operator sign(const __nv_bfloat16 &a, const __nv_bfloat16 &b)   \
	{                                                                                    \
		return __cenote_bf16_float(a.__x) sign __cenote_bf16_float(b.__x);           \
	}                                                                                    \
	__CENOTE_BF16__ bool operator sign(const __nv_bfloat162 &a, const __nv_bfloat162 &b) \
	{                                                                                    \
		return a.x sign b.x && a.y sign b.y;                                         \
	}
__CENOTE_BF16_COMPARE(==)
__CENOTE_BF16_COMPARE(!=)
__CENOTE_BF16_COMPARE(<)
__CENOTE_BF16_COMPARE(<=)
__CENOTE_BF16_COMPARE(>)
__CENOTE_BF16_COMPARE(>=)
#undef __CENOTE_BF16_COMPARE

__CENOTE_BF16__ __nv_bfloat16 operator+(const __nv_bfloat16 &a)
{
	return a;
}

__CENOTE_BF16__ __nv_bfloat16 operator-(const __nv_bfloat16 &a)
{
	return __nv_bfloat16::__cenote_bits((unsigned short)(a.__x ^ 0x8000));
}

__CENOTE_BF16__ __nv_bfloat162 operator-(const __nv_bfloat162 &a)
{
	return __nv_bfloat162(-a.x, -a.y);
}

__CENOTE_BF16__ __nv_bfloat16 &operator++(__nv_bfloat16 &a)
{
	return a = a + __nv_bfloat16(1);
}

__CENOTE_BF16__ __nv_bfloat16 &operator--(__nv_bfloat16 &a)
{
	return a = a - __nv_bfloat16(1);
}

#undef __CENOTE_BOTH__

#endif /* __CENOTE_DEVICE_BF16_TYPES_H__ */

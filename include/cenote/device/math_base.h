/* SPDX-License-Identifier: MIT */
/*
 * The ground of the mathematics: arithmetic that gives the same bits everywhere, pairs of doubles, exact functions.
 *
 * clang and a GPU's assembler may join a product and a sum into one operation. The error bounds of these headers need
 * each operation as it is written, so every product is __cenote_mul() or __cenote_fma(), which name their rounding, and
 * an argument passes __cenote_own() first: a sum without a plain product cannot be joined. There is no approximating
 * instruction either. So a function has the same bits on a GPU, whichever, and on the host device.
 *
 * A pair is an unevaluated sum hi + lo with |lo| of at most half a unit in hi's last place: about 106 bits.
 */
#if !defined(__CENOTE_DEVICE_MATH_BASE_H__)
#define __CENOTE_DEVICE_MATH_BASE_H__

#include "compiler.h"
#include "floating.h"

/* A function too long to be copied into every caller. */
#define __CENOTE_MATH__ static __device__ __inline__

__CENOTE_DEVICE__ double __cenote_mul(double a, double b)
{
	return __dmul_rn(a, b);
}

__CENOTE_DEVICE__ float __cenote_mul(float a, float b)
{
	return __fmul_rn(a, b);
}

__CENOTE_DEVICE__ double __cenote_fma(double a, double b, double c)
{
	return __fma_rn(a, b, c);
}

__CENOTE_DEVICE__ float __cenote_fma(float a, float b, float c)
{
	return __fmaf_rn(a, b, c);
}

__CENOTE_DEVICE__ double __cenote_div(double a, double b)
{
	return __ddiv_rn(a, b);
}

__CENOTE_DEVICE__ float __cenote_div(float a, float b)
{
	return __fdiv_rn(a, b);
}

__CENOTE_DEVICE__ double __cenote_sqrt(double a)
{
	return __dsqrt_rn(a);
}

__CENOTE_DEVICE__ float __cenote_sqrt(float a)
{
	return __fsqrt_rn(a);
}

/* c0 + c1 x + c2 x^2 + … */
template <class T> __CENOTE_DEVICE__ T __cenote_poly(T, T c0)
{
	return c0;
}

template <class T, class... Rest> __CENOTE_DEVICE__ T __cenote_poly(T x, T c0, Rest... rest)
{
	return __cenote_fma(__cenote_poly(x, rest...), x, c0);
}

__CENOTE_DEVICE__ double __cenote_inf(void)
{
	return __longlong_as_double(0x7ff0000000000000ll);
}

__CENOTE_DEVICE__ double __cenote_nan(void)
{
	return __longlong_as_double(0x7ff8000000000000ll);
}

__CENOTE_DEVICE__ double __cenote_fabs(double a)
{
	return __longlong_as_double(__double_as_longlong(a) & 0x7fffffffffffffffll);
}

__CENOTE_DEVICE__ bool __cenote_negative(double a)
{
	return __double_as_longlong(a) < 0;
}

__CENOTE_DEVICE__ double __cenote_copysign(double a, double b)
{
	return __longlong_as_double((__double_as_longlong(a) & 0x7fffffffffffffffll) |
				    (long long)((unsigned long long)__double_as_longlong(b) & 0x8000000000000000ull));
}

__CENOTE_DEVICE__ bool __cenote_isfinite(double a)
{
	return __cenote_fabs(a) < __cenote_inf();
}

/* To the nearest integer, ties to even, for |a| < 2^51; and the integer's low 32 bits. */
__CENOTE_DEVICE__ double __cenote_nearest(double a, int *ret_integer)
{
	double shifted = a + 0x1.8p52;
	*ret_integer = __double2loint(shifted);
	return shifted - 0x1.8p52;
}

/* 2^n for a normal result. */
__CENOTE_DEVICE__ double __cenote_power2(int n)
{
	return __longlong_as_double((long long)(n + 1023) << 52);
}

/* a 2^n for |n| up to 2000 and |a| between 2^-500 and 2^500: rounds once, also to a subnormal number. */
__CENOTE_DEVICE__ double __cenote_scale(double a, int n)
{
	int half = n / 2;
	return __cenote_mul(__cenote_mul(a, __cenote_power2(half)), __cenote_power2(n - half));
}

/*
 * ---- Pairs ----------------------------------------------------------------------------------------------------------
 */

struct __cenote_pair {
	double hi, lo;
};

__CENOTE_DEVICE__ __cenote_pair __cenote_two(double hi, double lo)
{
	__cenote_pair pair = {hi, lo};
	return pair;
}

/* a + b, exact; |a| >= |b| or a is 0. */
__CENOTE_DEVICE__ __cenote_pair __cenote_ordered_sum(double a, double b)
{
	double sum = a + b;
	return __cenote_two(sum, b - (sum - a));
}

/* a + b, exact. */
__CENOTE_DEVICE__ __cenote_pair __cenote_sum(double a, double b)
{
	double sum = a + b, part = sum - a;
	return __cenote_two(sum, (a - (sum - part)) + (b - part));
}

/* a b, exact. */
__CENOTE_DEVICE__ __cenote_pair __cenote_product(double a, double b)
{
	double product = __cenote_mul(a, b);
	return __cenote_two(product, __cenote_fma(a, b, -product));
}

__CENOTE_DEVICE__ __cenote_pair __cenote_add(__cenote_pair a, __cenote_pair b)
{
	__cenote_pair sum = __cenote_sum(a.hi, b.hi);
	return __cenote_ordered_sum(sum.hi, sum.lo + (a.lo + b.lo));
}

__CENOTE_DEVICE__ __cenote_pair __cenote_mul(__cenote_pair a, __cenote_pair b)
{
	__cenote_pair product = __cenote_product(a.hi, b.hi);
	return __cenote_ordered_sum(product.hi, product.lo + __cenote_fma(a.hi, b.lo, __cenote_mul(a.lo, b.hi)));
}

__CENOTE_DEVICE__ __cenote_pair __cenote_mul(__cenote_pair a, double b)
{
	__cenote_pair product = __cenote_product(a.hi, b);
	return __cenote_ordered_sum(product.hi, __cenote_fma(a.lo, b, product.lo));
}

__CENOTE_DEVICE__ __cenote_pair __cenote_div(__cenote_pair a, __cenote_pair b)
{
	double quotient = __cenote_div(a.hi, b.hi);
	double rest = __cenote_fma(-quotient, b.hi, a.hi) + __cenote_fma(-quotient, b.lo, a.lo);
	return __cenote_ordered_sum(quotient, __cenote_div(rest, b.hi));
}

__CENOTE_DEVICE__ __cenote_pair __cenote_sqrt(__cenote_pair a)
{
	double root = __cenote_sqrt(a.hi);
	if (root == 0)
		return __cenote_two(root, 0);
	double rest = __cenote_fma(-root, root, a.hi) + a.lo;
	return __cenote_ordered_sum(root, __cenote_div(rest, root + root));
}

/*
 * ---- Exact functions ------------------------------------------------------------------------------------------------
 */

/* The fraction in [0.5, 1) of a, and its exponent; 0, infinity and NaN are their own, with exponent 0. */
__CENOTE_MATH__ double __cenote_frexp(double a, int *ret_exponent)
{
	*ret_exponent = 0;
	if (a == 0 || !__cenote_isfinite(a))
		return a + a;
	int less = 0;
	if (__cenote_fabs(a) < 0x1p-1022) {
		a = __cenote_mul(a, 0x1p54);
		less = 54;
	}
	long long bits = __double_as_longlong(a);
	*ret_exponent = (int)(bits >> 52 & 0x7ff) - 1022 - less;
	return __longlong_as_double((bits & (long long)0x800fffffffffffffull) | 0x3fe0000000000000ll);
}

__CENOTE_MATH__ double __cenote_ldexp(double a, int n)
{
	/* The fraction and the whole exponent first, so that only the last product rounds. */
	int exponent;
	double fraction = __cenote_frexp(a, &exponent);
	n = n < -2200 ? -2200 : n > 2200 ? 2200 : n;
	n += exponent;
	return __cenote_scale(fraction, n < -1100 ? -1100 : n > 1100 ? 1100 : n);
}

__CENOTE_MATH__ int __cenote_ilogb(double a)
{
	if (a == 0 || a != a)
		return INT_MIN;
	if (!__cenote_isfinite(a))
		return INT_MAX;
	int exponent;
	__cenote_frexp(a, &exponent);
	return exponent - 1;
}

__CENOTE_MATH__ double __cenote_logb(double a)
{
	if (a == 0)
		return -__cenote_inf();
	if (!__cenote_isfinite(a))
		return __cenote_mul(a, a);
	return (double)__cenote_ilogb(a);
}

/* The number beside a, towards b: bits are in the order of the numbers' sizes. */
#define __CENOTE_NEXTAFTER(name, type, integer, to_bits, from_bits, least)  \
	__CENOTE_MATH__ type name(type a, type b)                           \
	{                                                                   \
		if (a != a || b != b)                                       \
			return a + b;                                       \
		if (a == b)                                                 \
			return b;                                           \
		if (a == 0)                                                 \
			return b > 0 ? least : -least;                      \
		integer bits = to_bits(a);                                  \
		return from_bits((a < b) == (a > 0) ? bits + 1 : bits - 1); \
	}
__CENOTE_NEXTAFTER(__cenote_nextafter, double, long long, __double_as_longlong, __longlong_as_double, 0x1p-1074)
__CENOTE_NEXTAFTER(__cenote_nextafterf, float, int, __float_as_int, __int_as_float, 0x1p-149f)
#undef __CENOTE_NEXTAFTER

/* The nearest integer, halves away from zero. */
__CENOTE_DEVICE__ double __cenote_round(double a)
{
	double whole = __builtin_trunc(a);
	return __cenote_fabs(a - whole) >= 0.5 ? whole + __cenote_copysign(1, a) : whole;
}

/*
 * |a| modulo |b| for finite numbers, b not 0, and the quotient's low bits: long division, eleven bits a step, each
 * exact in integers.
 */
__CENOTE_MATH__ double __cenote_modulo(double a, double b, unsigned long long *ret_quotient)
{
	int a_exponent, b_exponent;
	a = __cenote_fabs(a), b = __cenote_fabs(b);
	*ret_quotient = 0;
	if (a < b)
		return a;
	double a_fraction = __cenote_frexp(a, &a_exponent), b_fraction = __cenote_frexp(b, &b_exponent);
	unsigned long long rest = (unsigned long long)__cenote_mul(a_fraction, 0x1p53);
	unsigned long long divisor = (unsigned long long)__cenote_mul(b_fraction, 0x1p53);
	unsigned long long quotient = rest / divisor;
	int steps = a_exponent - b_exponent;
	rest %= divisor;
	while (steps > 0 && rest) {
		int bits = steps < 11 ? steps : 11;
		rest <<= bits;
		quotient = (quotient << bits) + rest / divisor;
		rest %= divisor;
		steps -= bits;
	}
	*ret_quotient = steps > 0 ? (steps < 64 ? quotient << steps : 0) : quotient;
	return __cenote_ldexp((double)rest, b_exponent - 53);
}

__CENOTE_MATH__ double __cenote_fmod(double a, double b)
{
	unsigned long long quotient;
	if (!__cenote_isfinite(a) || b == 0 || b != b)
		return __cenote_nan();
	if (!__cenote_isfinite(b))
		return a;
	return __cenote_copysign(__cenote_modulo(a, b, &quotient), a);
}

/* a - n b, n the integer nearest to a / b; `ret_quotient` has the sign of a / b and n's low three bits. */
__CENOTE_MATH__ double __cenote_remquo(double a, double b, int *ret_quotient)
{
	unsigned long long quotient;
	*ret_quotient = 0;
	if (!__cenote_isfinite(a) || b == 0 || b != b)
		return __cenote_nan();
	if (!__cenote_isfinite(b))
		return a;
	double size = __cenote_fabs(b), rest = __cenote_modulo(a, b, &quotient);
	/* 2 rest against b without overflow: b - rest is exact where it matters. */
	double other = size - rest;
	if (rest > other || (rest == other && (quotient & 1))) {
		rest = -other;
		quotient++;
	}
	int low = (int)(quotient & 7);
	*ret_quotient = __cenote_negative(a) != __cenote_negative(b) ? -low : low;
	if (rest == 0)
		return __cenote_copysign(0, a);
	return __cenote_negative(a) ? -rest : rest;
}

#endif /* __CENOTE_DEVICE_MATH_BASE_H__ */

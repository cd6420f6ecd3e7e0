/* SPDX-License-Identifier: MIT */
/*
 * Exponentials, logarithms, powers, hyperbolic functions and roots, in double.
 *
 * e^x: x = n ln 2 + r with |r| < 0.35 in a pair; e^r is a polynomial of r behind 1 + r, which is a pair again.
 * log x: x = 2^k m with m between sqrt(1/2) and sqrt(2); log m = 2 atanh(s), s = (m - 1) / (m + 1) in a pair, and a
 * polynomial of s^2 behind 2 s. What is built on the two keeps the pairs until its last rounding. Polynomials here and
 * in the headers beside this one interpolate at Chebyshev's points, with 60 digits, and are rounded to double.
 */
#if !defined(__CENOTE_DEVICE_MATH_EXP_H__)
#define __CENOTE_DEVICE_MATH_EXP_H__

#include "math_base.h"

/*
 * ---- e^x ------------------------------------------------------------------------------------------------------------
 */

/* e^x - 1 in a pair, for |x| < 0.36. */
__CENOTE_DEVICE__ __cenote_pair __cenote_expm1_near(double x, double x_lo)
{
	double p = __cenote_poly(x, 0x1p-1, 0x1.5555555555557p-3, 0x1.5555555555556p-5, 0x1.11111111100dcp-7,
				 0x1.6c16c16c162d4p-10, 0x1.a01a01abe7fe1p-13, 0x1.a01a01a6d889cp-16,
				 0x1.71de0231960ebp-19, 0x1.27e4db646b17ep-22, 0x1.af4de97ca4194p-26,
				 0x1.1f730349868cep-29);
	return __cenote_ordered_sum(x, __cenote_fma(__cenote_mul(x, x), p, __cenote_fma(x, x_lo, x_lo)));
}

/* n and the pair r of x + x_lo = n ln 2 + r. The first step is exact: it keeps at most 53 bits of x - n ln 2. */
__CENOTE_DEVICE__ __cenote_pair __cenote_exp_reduce(double x, double x_lo, int *ret_n)
{
	double n = __cenote_nearest(__cenote_mul(x, 0x1.71547652b82fep+0), ret_n);
	return __cenote_sum(__cenote_fma(-n, 0x1.62e42fefa39efp-1, x), __cenote_fma(-n, 0x1.abc9e3b39803fp-56, x_lo));
}

/* e^(x + x_lo) = pair 2^n, for |x| < 2000. */
__CENOTE_DEVICE__ __cenote_pair __cenote_exp_pair(double x, double x_lo, int *ret_n)
{
	__cenote_pair r = __cenote_exp_reduce(x, x_lo, ret_n), q = __cenote_expm1_near(r.hi, r.lo);
	__cenote_pair one = __cenote_ordered_sum(1, q.hi);
	return __cenote_ordered_sum(one.hi, one.lo + q.lo);
}

__CENOTE_MATH__ double __cenote_exp(double x)
{
	int n;
	double e = __cenote_exp_pair(x, 0, &n).hi;
	e = __cenote_scale(e, n);
	return x > 0x1.62e42fefa39efp+9 ? __cenote_inf() : x < -746 ? 0 : e;
}

__CENOTE_MATH__ double __cenote_exp2(double x)
{
	int n;
	double r = x - __cenote_nearest(x, &n);
	__cenote_pair y = __cenote_mul(__cenote_two(0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56), r);
	__cenote_pair q = __cenote_expm1_near(y.hi, y.lo);
	__cenote_pair one = __cenote_ordered_sum(1, q.hi);
	double e = __cenote_scale(one.hi + (one.lo + q.lo), n);
	return x >= 1024 ? __cenote_inf() : x < -1076 ? 0 : e;
}

__CENOTE_MATH__ double __cenote_exp10(double x)
{
	int n;
	double whole = __cenote_nearest(__cenote_mul(x, 0x1.a934f0979a371p+1), &n);
	double r = __cenote_fma(-whole, 0x1.34413509f79ffp-2, x), r_lo = __cenote_mul(whole, 0x1.9dc1da994fd21p-59);
	__cenote_pair y = __cenote_mul(__cenote_two(0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53), r);
	y = __cenote_sum(y.hi, __cenote_fma(r_lo, 0x1.26bb1bbb55516p+1, y.lo));
	__cenote_pair q = __cenote_expm1_near(y.hi, y.lo);
	__cenote_pair one = __cenote_ordered_sum(1, q.hi);
	double e = __cenote_scale(one.hi + (one.lo + q.lo), n);
	return x > 0x1.34413509f79ffp+8 ? __cenote_inf() : x < -324 ? 0 : e;
}

/* e^(x + x_lo) - 1 in a pair, for -50 < x < 700. */
__CENOTE_DEVICE__ __cenote_pair __cenote_expm1_pair(double x, double x_lo)
{
	int n;
	__cenote_pair r = __cenote_exp_reduce(x, x_lo, &n), q = __cenote_expm1_near(r.hi, r.lo);
	double factor = __cenote_power2(n);
	__cenote_pair whole = __cenote_sum(factor, -1);
	__cenote_pair sum = __cenote_sum(whole.hi, __cenote_mul(factor, q.hi));
	return __cenote_ordered_sum(sum.hi, sum.lo + (whole.lo + __cenote_mul(factor, q.lo)));
}

__CENOTE_MATH__ double __cenote_expm1(double x)
{
	if (x == 0 || x != x)
		return x;
	if (x > 100)
		return __cenote_exp(x);
	if (x < -50)
		return -1;
	return __cenote_expm1_pair(x, 0).hi;
}

/*
 * ---- Hyperbolic functions -------------------------------------------------------------------------------------------
 */

/* (e^x + sign e^-x) / 2 for 0 <= x < 711. */
__CENOTE_DEVICE__ double __cenote_exp_half_sum(double x, double sign)
{
	int n;
	__cenote_pair e = __cenote_exp_pair(x, 0, &n);
	if (n > 60)
		return __cenote_scale(e.hi, n - 1);
	__cenote_pair inverse = __cenote_div(__cenote_two(1, 0), e);
	double up = __cenote_power2(n - 1), down = __cenote_mul(sign, __cenote_power2(-n - 1));
	__cenote_pair a = {__cenote_mul(e.hi, up), __cenote_mul(e.lo, up)};
	__cenote_pair b = {__cenote_mul(inverse.hi, down), __cenote_mul(inverse.lo, down)};
	return __cenote_add(a, b).hi;
}

__CENOTE_MATH__ double __cenote_sinh(double x)
{
	double size = __cenote_fabs(x), z = __cenote_mul(x, x);
	if (!(size >= 1)) {
		double p = __cenote_poly(z, 0x1.5555555555555p-3, 0x1.11111111110fdp-7, 0x1.a01a01a01ee7p-13,
					 0x1.71de3a4e14f4p-19, 0x1.ae6460fae3728p-26, 0x1.611cb330c1fe8p-33,
					 0x1.b41232cf9950fp-41);
		return __cenote_fma(__cenote_mul(x, z), p, x);
	}
	return __cenote_copysign(size > 711 ? __cenote_inf() : __cenote_exp_half_sum(size, -1), x);
}

__CENOTE_MATH__ double __cenote_cosh(double x)
{
	double size = __cenote_fabs(x);
	return size > 711 ? __cenote_inf() : __cenote_exp_half_sum(size, 1);
}

__CENOTE_MATH__ double __cenote_tanh(double x)
{
	double size = __cenote_fabs(x);
	if (x == 0 || x != x)
		return x;
	if (size > 20)
		return __cenote_copysign(1, x);
	__cenote_pair u = __cenote_expm1_pair(size + size, 0);
	__cenote_pair below = __cenote_sum(2, u.hi);
	below.lo += u.lo;
	return __cenote_copysign(__cenote_div(u, below).hi, x);
}

/*
 * ---- log x ----------------------------------------------------------------------------------------------------------
 */

/* log x = k ln 2 + m, for a finite pair x > 0: of about 58 bits, or 64 if `Precise`. */
template <bool Precise> __CENOTE_DEVICE__ __cenote_pair __cenote_log_parts(double x, double x_lo, int *ret_k)
{
	int less = 0;
	if (x < 0x1p-1022) {
		x = __cenote_mul(x, 0x1p54);
		less = 54;
	}
	long long bits = __double_as_longlong(x);
	int k = (int)((bits - 0x3fe6a09e667f3bcdll) >> 52);
	double m = __longlong_as_double(bits - ((long long)k << 52));
	/* A low part counts only near 1; far away it is below the last bit. */
	double m_lo = k > -100 && k < 100 ? __cenote_mul(x_lo, __cenote_power2(-k)) : 0;
	__cenote_pair f = __cenote_sum(m - 1, m_lo), below = __cenote_ordered_sum(2, f.hi);
	below.lo += f.lo;
	__cenote_pair s = __cenote_div(f, below);
	double z = __cenote_mul(s.hi, s.hi);
	*ret_k = k - less;
	if (!Precise) {
		double p = __cenote_poly(z, 0x1.5555555555555p-1, 0x1.9999999999a38p-2, 0x1.2492492476ba1p-2,
					 0x1.c71c72017a15cp-3, 0x1.745cf8f6c9119p-3, 0x1.3b1c38474d3eep-3,
					 0x1.0fbe478772696p-3, 0x1.0c06cf14c641bp-3);
		return __cenote_ordered_sum(s.hi + s.hi, __cenote_fma(__cenote_mul(s.hi, z), p, s.lo + s.lo));
	}
	double p = __cenote_poly(z, 0x1.999999999999ap-2, 0x1.2492492492491p-2, 0x1.c71c71c71cfdep-3,
				 0x1.745d174512f5ep-3, 0x1.3b13b1bcae4fap-3, 0x1.1110df9bb9145p-3, 0x1.e1f80050fe02dp-4,
				 0x1.ac4a0689e4f11p-4, 0x1.b8d8d83f51283p-4);
	__cenote_pair third = __cenote_mul(__cenote_mul(__cenote_mul(s, s), s),
					   __cenote_two(0x1.5555555555555p-1, 0x1.5555555555555p-55));
	third.lo = __cenote_fma(__cenote_mul(__cenote_mul(s.hi, z), z), p, third.lo);
	return __cenote_add(__cenote_two(s.hi + s.hi, s.lo + s.lo), third);
}

/* log(x + x_lo) in a pair. k times the first part of ln 2, of 37 bits, is exact. */
template <bool Precise> __CENOTE_DEVICE__ __cenote_pair __cenote_log_pair(double x, double x_lo)
{
	int k;
	__cenote_pair m = __cenote_log_parts<Precise>(x, x_lo, &k);
	__cenote_pair sum = __cenote_sum(__cenote_mul((double)k, 0x1.62e42fefap-1), m.hi);
	return __cenote_ordered_sum(sum.hi, sum.lo + __cenote_fma((double)k, 0x1.cf79abc9e3b3ap-40, m.lo));
}

/* What a logarithm of any kind is for 0, below 0, infinity and NaN. */
__CENOTE_DEVICE__ bool __cenote_log_special(double x, double *ret_log)
{
	if (x > 0 && x < __cenote_inf())
		return false;
	*ret_log = x == 0 ? -__cenote_inf() : x > 0 ? x : __cenote_nan();
	return true;
}

__CENOTE_MATH__ double __cenote_log(double x)
{
	double special;
	return __cenote_log_special(x, &special) ? special : __cenote_log_pair<false>(x, 0).hi;
}

/* Of base b: k log_b 2 + m / ln b. */
__CENOTE_DEVICE__ double __cenote_log_base(double x, __cenote_pair two, __cenote_pair inverse)
{
	int k;
	__cenote_pair m = __cenote_mul(__cenote_log_parts<false>(x, 0, &k), inverse);
	return __cenote_add(__cenote_mul(two, (double)k), m).hi;
}

__CENOTE_MATH__ double __cenote_log2(double x)
{
	double special;
	if (__cenote_log_special(x, &special))
		return special;
	return __cenote_log_base(x, __cenote_two(1, 0), __cenote_two(0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56));
}

__CENOTE_MATH__ double __cenote_log10(double x)
{
	double special;
	if (__cenote_log_special(x, &special))
		return special;
	return __cenote_log_base(x, __cenote_two(0x1.34413509f79ffp-2, -0x1.9dc1da994fd21p-59),
				 __cenote_two(0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57));
}

/* log(1 + x + x_lo) in a pair, for x > -1. */
__CENOTE_DEVICE__ __cenote_pair __cenote_log1p_pair(double x, double x_lo)
{
	__cenote_pair sum = __cenote_sum(1, x);
	sum = __cenote_ordered_sum(sum.hi, sum.lo + x_lo);
	return __cenote_log_pair<false>(sum.hi, sum.lo);
}

__CENOTE_MATH__ double __cenote_log1p(double x)
{
	double special;
	if (__cenote_fabs(x) < 0x1p-54)
		return x;
	if (x != x || __cenote_log_special(1 + x, &special))
		return x != x ? x : special;
	return __cenote_log1p_pair(x, 0).hi;
}

/*
 * ---- Inverse hyperbolic functions -----------------------------------------------------------------------------------
 */

__CENOTE_MATH__ double __cenote_asinh(double x)
{
	double size = __cenote_fabs(x);
	if (size < 0x1p-28 || !(size < __cenote_inf()))
		return x;
	if (size > 0x1p28) {
		__cenote_pair log = __cenote_log_pair<false>(size, 0);
		log = __cenote_add(log, __cenote_two(0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56));
		return __cenote_copysign(log.hi, x);
	}
	/* x + sqrt(x^2 + 1) - 1 = x + x^2 / (1 + sqrt(x^2 + 1)) */
	__cenote_pair square = __cenote_product(size, size);
	__cenote_pair root = __cenote_sqrt(__cenote_add(square, __cenote_two(1, 0)));
	__cenote_pair rest = __cenote_div(square, __cenote_add(root, __cenote_two(1, 0)));
	__cenote_pair u = __cenote_add(__cenote_two(size, 0), rest);
	return __cenote_copysign(__cenote_log1p_pair(u.hi, u.lo).hi, x);
}

__CENOTE_MATH__ double __cenote_acosh(double x)
{
	if (!(x >= 1))
		return __cenote_nan();
	if (x == __cenote_inf())
		return x;
	if (x > 0x1p28) {
		__cenote_pair log = __cenote_log_pair<false>(x, 0);
		return __cenote_add(log, __cenote_two(0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56)).hi;
	}
	/* t + sqrt(t (t + 2)), t = x - 1 */
	__cenote_pair t = __cenote_sum(x, -1);
	__cenote_pair u = __cenote_sqrt(__cenote_mul(t, __cenote_add(t, __cenote_two(2, 0))));
	u = __cenote_add(u, t);
	return __cenote_log1p_pair(u.hi, u.lo).hi;
}

__CENOTE_MATH__ double __cenote_atanh(double x)
{
	double size = __cenote_fabs(x);
	if (size < 0x1p-28 || x != x)
		return x;
	if (size >= 1)
		return size > 1 ? __cenote_nan() : __cenote_copysign(__cenote_inf(), x);
	__cenote_pair u = __cenote_div(__cenote_two(size + size, 0), __cenote_sum(1, -size));
	return __cenote_copysign(__cenote_mul(__cenote_log1p_pair(u.hi, u.lo).hi, 0.5), x);
}

/*
 * ---- Powers ---------------------------------------------------------------------------------------------------------
 */

/* x^y for finite x > 0 and finite y. */
__CENOTE_MATH__ double __cenote_pow_positive(double x, double y)
{
	__cenote_pair log = __cenote_log_pair<true>(x, 0);
	double estimate = __cenote_mul(log.hi, y);
	if (estimate > 710)
		return __cenote_inf();
	if (estimate < -746)
		return 0;
	int n;
	__cenote_pair exponent = __cenote_mul(log, y);
	double e = __cenote_exp_pair(exponent.hi, exponent.lo, &n).hi;
	return __cenote_scale(e, n);
}

/* 0: not an integer, 1: odd, 2: even. */
__CENOTE_DEVICE__ int __cenote_integer_kind(double y)
{
	double size = __cenote_fabs(y);
	if (!(size < __cenote_inf()) || __builtin_trunc(y) != y)
		return 0;
	double half = __cenote_mul(size, 0.5);
	return __builtin_trunc(half) == half ? 2 : 1;
}

__CENOTE_MATH__ double __cenote_pow(double x, double y)
{
	if (x == 1 || y == 0)
		return 1;
	if (x != x || y != y)
		return x + y;
	double size = __cenote_fabs(x), power;
	int kind = __cenote_integer_kind(y);
	if (!__cenote_isfinite(y)) {
		if (size == 1)
			return 1;
		return (size > 1) == (y > 0) ? __cenote_inf() : 0;
	}
	if (size == 0)
		power = y > 0 ? 0 : __cenote_inf();
	else if (size == __cenote_inf())
		power = y > 0 ? __cenote_inf() : 0;
	else if (x < 0 && kind == 0)
		return __cenote_nan();
	else
		power = __cenote_pow_positive(size, y);
	return __cenote_negative(x) && kind == 1 ? -power : power;
}

/*
 * ---- Roots ----------------------------------------------------------------------------------------------------------
 */

/* The cube root of a finite x > 0, 2^-1022 or more, in a pair: two steps of Halley's, and a last one of Newton's. */
__CENOTE_DEVICE__ __cenote_pair __cenote_cbrt_pair(double x)
{
	double root = __longlong_as_double(__double_as_longlong(x) / 3 + 0x2a9f7893782da1cell);
	for (int i = 0; i < 2; i++) {
		double cube = __cenote_mul(__cenote_mul(root, root), root);
		root = __cenote_mul(root, __cenote_div(cube + (x + x), cube + cube + x));
	}
	__cenote_pair square = __cenote_product(root, root), cube = __cenote_mul(square, root);
	double rest = (x - cube.hi) - cube.lo;
	return __cenote_ordered_sum(root, __cenote_div(rest, __cenote_mul(3.0, square.hi)));
}

/* A number for the cube root's pair: |x| 2^(3 n), not subnormal, and below 2^1000. */
__CENOTE_DEVICE__ double __cenote_cbrt_range(double x, int *ret_n)
{
	double size = __cenote_fabs(x);
	*ret_n = size < 0x1p-1000 ? 100 : size > 0x1p1000 ? -100 : 0;
	return size < 0x1p-1000 ? __cenote_mul(size, 0x1p300) : size > 0x1p1000 ? __cenote_mul(size, 0x1p-300) : size;
}

__CENOTE_MATH__ double __cenote_cbrt(double x)
{
	if (x == 0 || !__cenote_isfinite(x))
		return x;
	int n;
	double root = __cenote_cbrt_pair(__cenote_cbrt_range(x, &n)).hi;
	return __cenote_copysign(__cenote_mul(root, __cenote_power2(-n)), x);
}

__CENOTE_MATH__ double __cenote_rcbrt(double x)
{
	if (x == 0 || !__cenote_isfinite(x))
		return __cenote_div(1.0, x);
	int n;
	__cenote_pair root = __cenote_cbrt_pair(__cenote_cbrt_range(x, &n));
	double inverse = __cenote_div(__cenote_two(1, 0), root).hi;
	return __cenote_copysign(__cenote_mul(inverse, __cenote_power2(n)), x);
}

__CENOTE_MATH__ double __cenote_rsqrt(double x)
{
	if (!(x > 0 && x < __cenote_inf()))
		return x == 0 ? __cenote_copysign(__cenote_inf(), x) : x > 0 ? 0 : __cenote_nan();
	double up = x < 0x1p-900 ? 0x1p200 : 1;
	__cenote_pair root = __cenote_sqrt(__cenote_two(__cenote_mul(x, up), 0));
	return __cenote_mul(__cenote_div(__cenote_two(1, 0), root).hi, x < 0x1p-900 ? 0x1p100 : 1);
}

/*
 * ---- Lengths --------------------------------------------------------------------------------------------------------
 */

/* The length of a vector, or its inverse: squares in pairs, scaled by the largest element's exponent. */
__CENOTE_MATH__ double __cenote_length(int dimensions, const double *t, bool inverse)
{
	double largest = 0;
	bool infinite = false, none = false;
	for (int i = 0; i < dimensions; i++) {
		double size = __cenote_fabs(t[i]);
		infinite |= size == __cenote_inf();
		none |= size != size;
		largest = size > largest ? size : largest;
	}
	if (infinite || none || largest == 0) {
		double length = infinite ? __cenote_inf() : none ? __cenote_nan() : 0;
		return inverse ? __cenote_div(1.0, length) : length;
	}
	int exponent;
	__cenote_frexp(largest, &exponent);
	__cenote_pair sum = {0, 0};
	for (int i = 0; i < dimensions; i++) {
		double element = __cenote_ldexp(t[i], -exponent);
		sum = __cenote_add(sum, __cenote_product(element, element));
	}
	__cenote_pair root = __cenote_sqrt(sum);
	if (inverse)
		return __cenote_scale(__cenote_div(__cenote_two(1, 0), root).hi, -exponent);
	return __cenote_scale(root.hi, exponent);
}

__CENOTE_MATH__ double __cenote_hypot(double x, double y, bool inverse)
{
	double t[2] = {x, y};
	return __cenote_length(2, t, inverse);
}

#endif /* __CENOTE_DEVICE_MATH_EXP_H__ */

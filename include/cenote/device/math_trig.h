/* SPDX-License-Identifier: MIT */
/*
 * Trigonometric functions and their inverses, in double.
 *
 * An argument is brought to [-pi/4, pi/4] in a pair: below 2^28 with pi/2 in three parts, above with as many bits of
 * 2/pi as it takes (Payne and Hanek), so that sin(1e300) is as exact as sin(1). Sine and cosine there are polynomials
 * behind r and 1 - r^2/2, and pairs again, of which the tangent is a quotient.
 */
#if !defined(__CENOTE_DEVICE_MATH_TRIG_H__)
#define __CENOTE_DEVICE_MATH_TRIG_H__

#include "math_base.h"

__CENOTE_DEVICE__ __cenote_pair __cenote_half_pi(void)
{
	return __cenote_two(0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54);
}

__CENOTE_DEVICE__ __cenote_pair __cenote_pi(void)
{
	return __cenote_two(0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53);
}

__CENOTE_DEVICE__ __cenote_pair __cenote_sub(__cenote_pair a, __cenote_pair b)
{
	return __cenote_add(a, __cenote_two(-b.hi, -b.lo));
}

/* sin(r) in a pair, |r| up to pi/4 and a little. */
__CENOTE_DEVICE__ __cenote_pair __cenote_sin_near(__cenote_pair r)
{
	double z = __cenote_mul(r.hi, r.hi);
	double p = __cenote_poly(z, -0x1.5555555555555p-3, 0x1.111111111111p-7, -0x1.a01a01a019937p-13,
				 0x1.71de3a54607a5p-19, -0x1.ae64541295cdfp-26, 0x1.61217ee5cca1bp-33,
				 -0x1.ab17bdcbd3414p-41);
	double rest = __cenote_fma(__cenote_mul(r.hi, z), p, __cenote_mul(r.lo, __cenote_fma(z, -0.5, 1.0)));
	return __cenote_ordered_sum(r.hi, rest);
}

/* cos(r) in a pair. */
__CENOTE_DEVICE__ __cenote_pair __cenote_cos_near(__cenote_pair r)
{
	__cenote_pair z = __cenote_product(r.hi, r.hi);
	double p = __cenote_poly(z.hi, 0x1.5555555555555p-5, -0x1.6c16c16c16c16p-10, 0x1.a01a01a019d0ap-16,
				 -0x1.27e4fb7712ca2p-22, 0x1.1eed8deb82809p-29, -0x1.9394b9eb4d56dp-37,
				 0x1.ab78473be59d7p-45);
	__cenote_pair one = __cenote_ordered_sum(1, __cenote_mul(z.hi, -0.5));
	double rest = __cenote_fma(__cenote_mul(z.hi, z.hi), p, -__cenote_fma(r.hi, r.lo, __cenote_mul(z.lo, 0.5)));
	return __cenote_ordered_sum(one.hi, one.lo + rest);
}

/*
 * The rest of x modulo pi/2 for x of 2^28 or more, and the quotient modulo 4. x = m 2^e with a 64-bit m. Bits of 2/pi
 * whose product with x is a multiple of 4 do not count; the 192 after them give two bits of the quotient and 126 right
 * ones of the fraction.
 */
__CENOTE_MATH__ __cenote_pair __cenote_reduce_large(double x, int *ret_quadrant)
{
	static const unsigned long long two_over_pi[19] = {
		0,
		0xa2f9836e4e441529ull,
		0xfc2757d1f534ddc0ull,
		0xdb6295993c439041ull,
		0xfe5163abdebbc561ull,
		0xb7246e3a424dd2e0ull,
		0x06492eea09d1921cull,
		0xfe1deb1cb129a73eull,
		0xe88235f52ebb4484ull,
		0xe99c7026b45f7e41ull,
		0x3991d639835339f4ull,
		0x9c845f8bbdf9283bull,
		0x1ff897ffde05980full,
		0xef2f118b5a0a6d1full,
		0x6d367ecf27cb09b7ull,
		0x4f463f669e5fea2dull,
		0x7527bac7ebe5f17bull,
		0x3d0739f78a5292eaull,
		0x6bfb5fb11f8d5d08ull,
	};
	unsigned long long bits = (unsigned long long)__double_as_longlong(__cenote_fabs(x));
	unsigned long long m = (bits << 11) | 0x8000000000000000ull, word[3];
	int start = (int)(bits >> 52) - 1023 - 1, shift = start & 63;
	for (int i = 0; i < 3; i++) {
		unsigned long long a = two_over_pi[start / 64 + i], b = two_over_pi[start / 64 + i + 1];
		word[i] = shift ? a << shift | b >> (64 - shift) : a;
	}
	/* The low 192 bits of m times the word: the quotient's two bits, then the fraction. */
	unsigned __int128 sum = (unsigned __int128)m * word[2];
	unsigned long long low = (unsigned long long)sum;
	sum = (unsigned __int128)m * word[1] + (unsigned long long)(sum >> 64);
	unsigned long long middle = (unsigned long long)sum;
	unsigned long long high = m * word[0] + (unsigned long long)(sum >> 64);
	int quadrant = (int)((high + 0x2000000000000000ull) >> 62);
	/* The fraction with its sign, in 190 bits of which the first 128 are used. */
	bool negative = high & 0x2000000000000000ull;
	high <<= 2, high |= middle >> 62, middle = middle << 2 | low >> 62;
	if (negative)
		high = ~high, middle = ~middle;
	int zeros = high ? __builtin_clzll(high) : 64 + (middle ? __builtin_clzll(middle) : 63);
	if (zeros >= 64)
		high = middle << (zeros - 64), middle = 0;
	else if (zeros)
		high = high << zeros | middle >> (64 - zeros), middle <<= zeros;
	double hi = __cenote_mul((double)(high >> 11), __cenote_power2(-53 - zeros));
	double lo = __cenote_mul((double)(high << 53 | middle >> 11), __cenote_power2(-117 - zeros));
	__cenote_pair fraction = __cenote_ordered_sum(hi, lo);
	__cenote_pair r = __cenote_mul(fraction, __cenote_two(0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54));
	bool flip = negative != __cenote_negative(x);
	*ret_quadrant = __cenote_negative(x) ? -quadrant : quadrant;
	return flip ? __cenote_two(-r.hi, -r.lo) : r;
}

/* The rest of a finite x modulo pi/2, in a pair, and the quotient modulo 4. */
__CENOTE_DEVICE__ __cenote_pair __cenote_reduce(double x, int *ret_quadrant)
{
	if (__cenote_fabs(x) >= 0x1p28)
		return __cenote_reduce_large(x, ret_quadrant);
	double n = __cenote_nearest(__cenote_mul(x, 0x1.45f306dc9c883p-1), ret_quadrant);
	double first = __cenote_fma(-n, 0x1.921fb54442d18p+0, x);
	__cenote_pair second = __cenote_product(n, 0x1.1a62633145c07p-54);
	__cenote_pair r = __cenote_sum(first, -second.hi);
	return __cenote_ordered_sum(r.hi, (r.lo - second.lo) + __cenote_mul(n, 0x1.f1976b7ed8fbcp-110));
}

/* The sine of r + quadrant pi/2. */
__CENOTE_DEVICE__ double __cenote_sin_quadrant(__cenote_pair r, int quadrant)
{
	double sine = quadrant & 1 ? __cenote_cos_near(r).hi : __cenote_sin_near(r).hi;
	return quadrant & 2 ? -sine : sine;
}

__CENOTE_MATH__ double __cenote_sin(double x)
{
	int quadrant;
	if (!__cenote_isfinite(x))
		return __cenote_nan();
	if (__cenote_fabs(x) < 0x1p-27)
		return x == 0 ? x : __cenote_fma(x, -0x1p-54, x);
	__cenote_pair r = __cenote_reduce(x, &quadrant);
	return __cenote_sin_quadrant(r, quadrant);
}

/* A cosine; `reduce` leaves the rest and says how many quarters of the circle it has left out. */
template <__cenote_pair reduce(double, int *)> __CENOTE_DEVICE__ double __cenote_cos_by(double x)
{
	int quadrant;
	if (!__cenote_isfinite(x))
		return __cenote_nan();
	__cenote_pair r = reduce(x, &quadrant);
	return __cenote_sin_quadrant(r, quadrant + 1);
}

__CENOTE_MATH__ double __cenote_cos(double x)
{
	return __cenote_cos_by<__cenote_reduce>(x);
}

__CENOTE_MATH__ void __cenote_sincos(double x, double *sine, double *cosine)
{
	int quadrant;
	if (!__cenote_isfinite(x)) {
		*sine = *cosine = __cenote_nan();
		return;
	}
	__cenote_pair r = __cenote_reduce(x, &quadrant);
	double s = __cenote_sin_near(r).hi, c = __cenote_cos_near(r).hi;
	double a = quadrant & 1 ? c : s, b = quadrant & 1 ? s : c;
	double tiny = x == 0 ? x : __cenote_fma(x, -0x1p-54, x);
	*sine = __cenote_fabs(x) < 0x1p-27 ? tiny : quadrant & 2 ? -a : a;
	*cosine = (quadrant + 1) & 2 ? -b : b;
}

__CENOTE_MATH__ double __cenote_tan(double x)
{
	int quadrant;
	if (!__cenote_isfinite(x))
		return __cenote_nan();
	if (__cenote_fabs(x) < 0x1p-27)
		return x;
	__cenote_pair r = __cenote_reduce(x, &quadrant);
	__cenote_pair s = __cenote_sin_near(r), c = __cenote_cos_near(r);
	return quadrant & 1 ? -__cenote_div(c, s).hi : __cenote_div(s, c).hi;
}

/* pi times the rest of x modulo 1/2, in a pair, and the quotient modulo 4: exact but for pi. */
__CENOTE_DEVICE__ __cenote_pair __cenote_reduce_pi(double x, int *ret_quadrant)
{
	if (__cenote_fabs(x) >= 0x1p53)
		x = 0; /* an even number */
	double n = __builtin_rint(x + x);
	double quotient = n - __cenote_mul(4.0, __builtin_floor(__cenote_mul(n, 0.25)));
	*ret_quadrant = (int)quotient;
	double r = __cenote_fma(n, -0.5, x);
	return __cenote_mul(__cenote_two(0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53), r);
}

__CENOTE_MATH__ double __cenote_sinpi(double x)
{
	int quadrant;
	if (!__cenote_isfinite(x))
		return __cenote_nan();
	__cenote_pair r = __cenote_reduce_pi(x, &quadrant);
	if (__builtin_trunc(x) == x)
		return __cenote_copysign(0, x);
	if (__cenote_fabs(x) < 0x1p-60)
		return __cenote_mul(__cenote_mul(__cenote_pi(), __cenote_mul(x, 0x1p200)).hi, 0x1p-200);
	return __cenote_sin_quadrant(r, quadrant);
}

__CENOTE_MATH__ double __cenote_cospi(double x)
{
	double cosine = __cenote_cos_by<__cenote_reduce_pi>(x);
	return cosine == 0 ? 0 : cosine;
}

/*
 * ---- Inverses -------------------------------------------------------------------------------------------------------
 */

/* (asin(x) - x) / x^3 of z = x^2 up to 1/4. */
__CENOTE_DEVICE__ double __cenote_asin_rest(double z)
{
	return __cenote_poly(z, 0x1.5555555555556p-3, 0x1.3333333332ec4p-4, 0x1.6db6db6e3292ep-5, 0x1.f1c71c1d4aa0dp-6,
			     0x1.6e8bb1d89492bp-6, 0x1.1c4d343fa57f6p-6, 0x1.c9cf3759fd8ffp-7, 0x1.78246f32d075cp-7,
			     0x1.524ea8b3aad31p-7, 0x1.653a8f8cfd43cp-8, 0x1.1d661531b222ep-6, -0x1.e7a24f548c99fp-7,
			     0x1.d78189767524ep-6);
}

/* 2 asin(sqrt((1 - x) / 2)) = acos(x) in a pair, for x from 1/2 to 1; NaN above. */
__CENOTE_DEVICE__ __cenote_pair __cenote_acos_near_one(double x)
{
	double z = __cenote_mul(1 - x, 0.5);
	__cenote_pair root = __cenote_sqrt(__cenote_two(z, 0));
	root = __cenote_ordered_sum(root.hi, __cenote_fma(__cenote_mul(root.hi, z), __cenote_asin_rest(z), root.lo));
	return __cenote_two(root.hi + root.hi, root.lo + root.lo);
}

__CENOTE_MATH__ double __cenote_asin(double x)
{
	double size = __cenote_fabs(x), z = __cenote_mul(x, x);
	if (!(size > 0.5))
		return __cenote_fma(__cenote_mul(x, z), __cenote_asin_rest(z), x);
	if (size > 1)
		return __cenote_nan();
	return __cenote_copysign(__cenote_sub(__cenote_half_pi(), __cenote_acos_near_one(size)).hi, x);
}

__CENOTE_MATH__ double __cenote_acos(double x)
{
	double size = __cenote_fabs(x), z = __cenote_mul(x, x);
	if (!(size > 0.5)) {
		__cenote_pair sine = __cenote_ordered_sum(x, __cenote_mul(__cenote_mul(x, z), __cenote_asin_rest(z)));
		return __cenote_sub(__cenote_half_pi(), sine).hi;
	}
	if (size > 1)
		return __cenote_nan();
	__cenote_pair near = __cenote_acos_near_one(size);
	return x > 0 ? near.hi : __cenote_sub(__cenote_pi(), near).hi;
}

/* atan(q) in a pair, for q from 0 to 1. */
__CENOTE_DEVICE__ __cenote_pair __cenote_atan_near(__cenote_pair q)
{
	double z = __cenote_mul(q.hi, q.hi);
	double p = __cenote_poly(
		z, -0x1.5555555555555p-2, 0x1.999999999961fp-3, -0x1.2492492475359p-3, 0x1.c71c71bafd1f9p-4,
		-0x1.745d15edda0dap-4, 0x1.3b1399cc37f86p-4, -0x1.110fff1e706bp-4, 0x1.e1d0203724375p-5,
		-0x1.aebb9f36e08d4p-5, 0x1.841d86d4bd174p-5, -0x1.5d014bda01651p-5, 0x1.3326726c3853cp-5,
		-0x1.003577922da8fp-5, 0x1.843590d383c22p-6, -0x1.fcfa0a7905cc4p-7, 0x1.122bef621cddcp-7,
		-0x1.ca131924d58a5p-9, 0x1.130a995eb01d6p-10, -0x1.a32708cf0e2fdp-13, 0x1.2edbdc385ed89p-16);
	double rest = __cenote_fma(__cenote_mul(q.hi, z), p, __cenote_div(q.lo, 1 + z));
	return __cenote_ordered_sum(q.hi, rest);
}

__CENOTE_MATH__ double __cenote_atan(double x)
{
	double size = __cenote_fabs(x);
	if (size != size)
		return x;
	if (size <= 1)
		return __cenote_copysign(__cenote_atan_near(__cenote_two(size, 0)).hi, x);
	if (size > 0x1p60)
		return __cenote_copysign(0x1.921fb54442d18p+0, x);
	__cenote_pair inverse = __cenote_div(__cenote_two(1, 0), __cenote_two(size, 0));
	return __cenote_copysign(__cenote_sub(__cenote_half_pi(), __cenote_atan_near(inverse)).hi, x);
}

__CENOTE_MATH__ double __cenote_atan2(double y, double x)
{
	if (x != x || y != y)
		return x + y;
	double a = __cenote_fabs(y), b = __cenote_fabs(x);
	bool steep = a > b, left = __cenote_negative(x);
	double large = steep ? a : b, small = steep ? b : a;
	__cenote_pair angle = {0, 0};
	if (small == __cenote_inf()) {
		angle = __cenote_two(0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55);
	} else if (small != 0 && large != __cenote_inf()) {
		double factor = large > 0x1p900 ? 0x1p-200 : large < 0x1p-800 ? 0x1p200 : 1;
		double top = __cenote_mul(small, factor), below = __cenote_mul(large, factor);
		angle.hi = __cenote_div(top, below);
		/* So small that the angle is the quotient, perhaps a subnormal number; or pi or pi/2 but for that. */
		if (angle.hi > 0x1p-700)
			angle = __cenote_atan_near(__cenote_div(__cenote_two(top, 0), __cenote_two(below, 0)));
	}
	if (steep)
		angle = left ? __cenote_add(__cenote_half_pi(), angle) : __cenote_sub(__cenote_half_pi(), angle);
	else if (left)
		angle = __cenote_sub(__cenote_pi(), angle);
	return __cenote_copysign(angle.hi, y);
}

#endif /* __CENOTE_DEVICE_MATH_TRIG_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * The mathematics in float.
 *
 * What is called often works in float, as most GPUs have few units for double, in the same ways as in double, but with
 * shorter polynomials. The rest is the function of double, rounded to float: within a hair of half a unit in the last
 * place.
 */
#if !defined(__CENOTE_DEVICE_MATH_FLOAT_H__)
#define __CENOTE_DEVICE_MATH_FLOAT_H__

#include "math_exp.h"
#include "math_special.h"
#include "math_trig.h"

/*
 * ---- By double ------------------------------------------------------------------------------------------------------
 */

#define __CENOTE_BY_DOUBLE(name)                          \
	__CENOTE_MATH__ float __cenote_##name##f(float x) \
	{                                                 \
		return (float)__cenote_##name((double)x); \
	}
__CENOTE_BY_DOUBLE(expm1)
__CENOTE_BY_DOUBLE(log1p)
__CENOTE_BY_DOUBLE(sinh)
__CENOTE_BY_DOUBLE(cosh)
__CENOTE_BY_DOUBLE(asinh)
__CENOTE_BY_DOUBLE(acosh)
__CENOTE_BY_DOUBLE(atanh)
__CENOTE_BY_DOUBLE(sinpi)
__CENOTE_BY_DOUBLE(cospi)
__CENOTE_BY_DOUBLE(asin)
__CENOTE_BY_DOUBLE(acos)
__CENOTE_BY_DOUBLE(atan)
__CENOTE_BY_DOUBLE(cbrt)
__CENOTE_BY_DOUBLE(rcbrt)
__CENOTE_BY_DOUBLE(erf)
__CENOTE_BY_DOUBLE(erfc)
__CENOTE_BY_DOUBLE(erfcx)
__CENOTE_BY_DOUBLE(erfinv)
__CENOTE_BY_DOUBLE(erfcinv)
__CENOTE_BY_DOUBLE(normcdf)
__CENOTE_BY_DOUBLE(normcdfinv)
__CENOTE_BY_DOUBLE(tgamma)
__CENOTE_BY_DOUBLE(lgamma)
#undef __CENOTE_BY_DOUBLE

__CENOTE_DEVICE__ float __cenote_sqrtf(float x)
{
	return __cenote_sqrt(x);
}

__CENOTE_DEVICE__ float __cenote_rsqrtf(float x)
{
	float r = __cenote_div(1.0f, __cenote_sqrt(x)), product = __cenote_mul(x, r);
	float rest = __cenote_fma(-product, r, 1.0f) - __cenote_mul(__cenote_fma(x, r, -product), r);
	/* One step of Newton's, which 0, infinity and NaN must not take. */
	return rest > -1 && rest < 1 ? __cenote_fma(r, __cenote_mul(rest, 0.5f), r) : r;
}

/* The length of a vector: the squares of floats neither overflow in double nor vanish. */
__CENOTE_MATH__ double __cenote_lengthf(int dimensions, const float *t)
{
	double sum = 0;
	bool infinite = false;
	for (int i = 0; i < dimensions; i++) {
		infinite |= __cenote_fabs((double)t[i]) == __cenote_inf();
		sum = __cenote_fma((double)t[i], (double)t[i], sum);
	}
	return infinite ? __cenote_inf() : __cenote_sqrt(sum);
}

/*
 * ---- Exponentials ---------------------------------------------------------------------------------------------------
 */

/* To the nearest integer for |a| < 2^22, and as an int. */
__CENOTE_DEVICE__ float __cenote_nearestf(float a, int *ret_integer)
{
	float shifted = a + 0x1.8p23f;
	*ret_integer = __float_as_int(shifted) - 0x4b400000;
	return shifted - 0x1.8p23f;
}

/* a 2^n for |n| up to 250 and a near 1: rounds once. */
__CENOTE_DEVICE__ float __cenote_scalef(float a, int n)
{
	int half = n / 2;
	float up = __int_as_float((half + 127) << 23), rest = __int_as_float((n - half + 127) << 23);
	return __cenote_mul(__cenote_mul(a, up), rest);
}

/* e^x = result 2^n for |x| < 150. */
__CENOTE_DEVICE__ float __cenote_expf_parts(float x, int *ret_n)
{
	float n = __cenote_nearestf(__cenote_mul(x, 0x1.715476p+0f), ret_n);
	float r = __cenote_fma(n, 0x1.05c61p-29f, __cenote_fma(-n, 0x1.62e43p-1f, x));
	float p = __cenote_poly(r, 0x1p-1f, 0x1.555556p-3f, 0x1.5554e8p-5f, 0x1.1110ep-7f, 0x1.6d43bp-10f,
				0x1.a1256cp-13f);
	return 1 + __cenote_fma(__cenote_mul(r, r), p, r);
}

__CENOTE_MATH__ float __cenote_expf(float x)
{
	int n;
	float e = __cenote_expf_parts(x, &n);
	e = __cenote_scalef(e, n);
	return x > 0x1.62e43p+6f ? __int_as_float(0x7f800000) : x < -104 ? 0 : e;
}

__CENOTE_MATH__ float __cenote_exp2f(float x)
{
	int n;
	float r = x - __cenote_nearestf(x, &n);
	float p = __cenote_poly(r, 0x1.62e43p-1f, 0x1.ebfbep-3f, 0x1.c6b08ep-5f, 0x1.3b2a1ap-7f, 0x1.5d879ep-10f,
				0x1.44414p-13f, 0x1.00a646p-16f);
	float e = __cenote_scalef(__cenote_fma(r, p, 1.0f), n);
	return x >= 128 ? __int_as_float(0x7f800000) : x < -150 ? 0 : e;
}

__CENOTE_MATH__ float __cenote_exp10f(float x)
{
	int n;
	float whole = __cenote_nearestf(__cenote_mul(x, 0x1.a934fp+1f), &n);
	float r = __cenote_fma(whole, 0x1.ec10cp-27f, __cenote_fma(-whole, 0x1.344136p-2f, x));
	float p = __cenote_poly(r, 0x1.26bb1cp+1f, 0x1.53524cp+1f, 0x1.04705ap+1f, 0x1.2bd6cap+0f, 0x1.1429b4p-1f,
				0x1.a9881cp-3f, 0x1.17b6f2p-4f);
	float e = __cenote_scalef(__cenote_fma(r, p, 1.0f), n);
	return x > 0x1.344136p+5f ? __int_as_float(0x7f800000) : x < -46 ? 0 : e;
}

__CENOTE_MATH__ float __cenote_tanhf(float x)
{
	float size = __int_as_float(__float_as_int(x) & 0x7fffffff), z = __cenote_mul(x, x);
	if (!(size > 0.55f)) {
		float p = __cenote_poly(z, -0x1.555556p-2f, 0x1.111104p-3f, -0x1.ba142cp-5f, 0x1.657904p-6f,
					-0x1.176274p-7f, 0x1.4b1a28p-9f);
		return x == 0 ? x : __cenote_fma(__cenote_mul(x, z), p, x);
	}
	int n;
	float e = __cenote_expf_parts(size > 10 ? 20 : size + size, &n);
	float t = 1 - __cenote_div(2.0f, __cenote_scalef(e, n) + 1);
	return x < 0 ? -t : t;
}

/*
 * ---- Logarithms -----------------------------------------------------------------------------------------------------
 */

/* k two + log(m) inverse, where x = 2^k m: with ln 2 and 1 the natural logarithm, and so on. Each in two parts. */
__CENOTE_DEVICE__ float __cenote_logf_base(float x, float two, float two_lo, float inverse, float inverse_lo)
{
	if (!(x > 0 && x < __int_as_float(0x7f800000)))
		return x == 0 ? __int_as_float((int)0xff800000u) : x > 0 ? x : __int_as_float(0x7fc00000);
	int less = 0;
	if (x < 0x1p-126f) {
		x = __cenote_mul(x, 0x1p25f);
		less = 25;
	}
	int bits = __float_as_int(x), whole = (bits - 0x3f3504f3) >> 23;
	float f = __int_as_float(bits - (whole << 23)) - 1, k = (float)(whole - less);
	float p = __cenote_poly(f, 0x1.555554p-2f, -0x1.fffffcp-3f, 0x1.999d5ep-3f, -0x1.555b4ep-3f, 0x1.23d1ap-3f,
				-0x1.fcf31p-4f, 0x1.deaaecp-4f, -0x1.d64748p-4f, 0x1.1d8d4p-4f);
	/* log(m) = f + q; f times the inverse is exact in two parts, and so is its sum with the exponent's. */
	float q = __cenote_mul(__cenote_mul(f, f), __cenote_fma(f, p, -0.5f));
	float product = __cenote_mul(f, inverse), rest = __cenote_fma(f, inverse, -product);
	rest = __cenote_fma(f, inverse_lo, rest) + __cenote_fma(q, inverse, __cenote_mul(k, two_lo));
	float high = __cenote_mul(k, two), high_lo = __cenote_fma(k, two, -high);
	float sum = high + product, part = sum - high;
	return sum + (((high - (sum - part)) + (product - part)) + (rest + high_lo));
}

__CENOTE_MATH__ float __cenote_logf(float x)
{
	return __cenote_logf_base(x, 0x1.62e43p-1f, -0x1.05c61p-29f, 1, 0);
}

__CENOTE_MATH__ float __cenote_log2f(float x)
{
	return __cenote_logf_base(x, 1, 0, 0x1.715476p+0f, 0x1.4ae0cp-26f);
}

__CENOTE_MATH__ float __cenote_log10f(float x)
{
	return __cenote_logf_base(x, 0x1.344136p-2f, -0x1.ec10cp-27f, 0x1.bcb7b2p-2f, -0x1.5b235ep-27f);
}

/* x^y: a logarithm and an exponential in plain double, of which a float needs about half the bits. */
__CENOTE_MATH__ float __cenote_powf(float x, float y)
{
	double size = __cenote_fabs((double)x);
	/* What is special is as in double; so is a result that does not fit, in time to be rounded to one that does. */
	if (!(size > 0 && size < __cenote_inf() && y - y == 0) || (x < 0 && __builtin_truncf(y) != y))
		return (float)__cenote_pow((double)x, (double)y);
	long long bits = __double_as_longlong(size), k = (bits - 0x3fe6a09e667f3bcdll) >> 52;
	double m = __longlong_as_double(bits - (k << 52)), s = __cenote_div(m - 1, m + 1), z = __cenote_mul(s, s);
	double p = __cenote_poly(z, 0x1.71547652b82fep+1, 0x1.ec709dc3a01a8p-1, 0x1.2776c5105e0fap-1,
				 0x1.a6175e5afaaa8p-2, 0x1.484d805b59016p-2, 0x1.0bfcf4cbd44acp-2, 0x1.eb21a2f1d0fep-3);
	double exponent = __cenote_mul((double)y, __cenote_fma(s, p, (double)k));
	if (!(__cenote_fabs(exponent) < 200))
		exponent = exponent > 0 ? 200 : -200;
	int n;
	double r = exponent - __cenote_nearest(exponent, &n);
	double q =
		__cenote_poly(r, 0x1.62e42fefa39efp-1, 0x1.ebfbe046e529dp-3, 0x1.c6b08d8887c96p-5, 0x1.3b2a1a3178a01p-7,
			      0x1.5d879de8126f4p-10, 0x1.44413f0666543p-13, 0x1.00a645ec3373dp-16);
	float power = (float)__cenote_mul(__cenote_fma(r, q, 1.0), __cenote_power2(n));
	return x < 0 && __cenote_integer_kind((double)y) == 1 ? -power : power;
}

/*
 * ---- Sine and cosine ------------------------------------------------------------------------------------------------
 */

struct __cenote_pairf {
	float hi, lo;
};

__CENOTE_DEVICE__ __cenote_pairf __cenote_sinf_near(float r, float r_lo)
{
	float z = __cenote_mul(r, r);
	float p = __cenote_poly(z, -0x1.555556p-3f, 0x1.11110ep-7f, -0x1.a013a4p-13f, 0x1.6dbcfcp-19f);
	float rest = __cenote_fma(__cenote_mul(r, z), p, __cenote_fma(z, __cenote_mul(r_lo, -0.5f), r_lo)),
	      sum = r + rest;
	__cenote_pairf result = {sum, rest - (sum - r)};
	return result;
}

__CENOTE_DEVICE__ __cenote_pairf __cenote_cosf_near(float r, float r_lo)
{
	float z = __cenote_mul(r, r), z_lo = __cenote_fma(r, r, -z);
	float p = __cenote_poly(z, 0x1.555556p-5f, -0x1.6c16cp-10f, 0x1.a015c2p-16f, -0x1.25239ap-22f);
	float one = __cenote_fma(z, -0.5f, 1.0f), one_lo = __cenote_fma(z, -0.5f, 1 - one);
	float rest = __cenote_fma(__cenote_mul(z, z), p, one_lo - __cenote_fma(r, r_lo, __cenote_mul(z_lo, 0.5f)));
	float sum = one + rest;
	__cenote_pairf result = {sum, rest - (sum - one)};
	return result;
}

/* The rest of x modulo pi/2 in two floats, and the quotient modulo 4; x is finite. Beyond 2^16 by double. */
__CENOTE_DEVICE__ __cenote_pairf __cenote_reducef(float x, int *ret_quadrant)
{
	__cenote_pairf r;
	if (!(x < 0x1p16f && x > -0x1p16f)) {
		__cenote_pair wide = __cenote_reduce((double)x, ret_quadrant);
		r.hi = (float)wide.hi;
		r.lo = (float)((wide.hi - (double)r.hi) + wide.lo);
		return r;
	}
	float n = __cenote_nearestf(__cenote_mul(x, 0x1.45f306p-1f), ret_quadrant);
	float first = __cenote_fma(-n, 0x1.921fb6p+0f, x);
	/* pi/2 is below its first part: the second is added, as an exact product, and the third. */
	float second = __cenote_mul(n, 0x1.777a5cp-25f), second_lo = __cenote_fma(n, 0x1.777a5cp-25f, -second);
	float sum = first + second, part = sum - first;
	float rest = ((first - (sum - part)) + (second - part)) + __cenote_fma(n, 0x1.ee59dap-50f, second_lo);
	r.hi = sum + rest;
	r.lo = rest - (r.hi - sum);
	return r;
}

__CENOTE_DEVICE__ float __cenote_sinf_quadrant(__cenote_pairf r, int quadrant)
{
	float sine = quadrant & 1 ? __cenote_cosf_near(r.hi, r.lo).hi : __cenote_sinf_near(r.hi, r.lo).hi;
	return quadrant & 2 ? -sine : sine;
}

__CENOTE_MATH__ float __cenote_sinf(float x)
{
	int quadrant;
	if (x - x != 0 || x == 0)
		return x == 0 ? x : __int_as_float(0x7fc00000);
	__cenote_pairf r = __cenote_reducef(x, &quadrant);
	return __cenote_sinf_quadrant(r, quadrant);
}

__CENOTE_MATH__ float __cenote_cosf(float x)
{
	int quadrant;
	if (x - x != 0)
		return __int_as_float(0x7fc00000);
	__cenote_pairf r = __cenote_reducef(x, &quadrant);
	return __cenote_sinf_quadrant(r, quadrant + 1);
}

__CENOTE_MATH__ void __cenote_sincosf(float x, float *sine, float *cosine)
{
	int quadrant;
	if (x - x != 0) {
		*sine = *cosine = __int_as_float(0x7fc00000);
		return;
	}
	__cenote_pairf r = __cenote_reducef(x, &quadrant);
	float s = __cenote_sinf_near(r.hi, r.lo).hi, c = __cenote_cosf_near(r.hi, r.lo).hi;
	float a = quadrant & 1 ? c : s, b = quadrant & 1 ? s : c;
	*sine = x == 0 ? x : quadrant & 2 ? -a : a;
	*cosine = (quadrant + 1) & 2 ? -b : b;
}

__CENOTE_MATH__ float __cenote_tanf(float x)
{
	int quadrant;
	if (x - x != 0 || x == 0)
		return x == 0 ? x : __int_as_float(0x7fc00000);
	__cenote_pairf r = __cenote_reducef(x, &quadrant);
	__cenote_pairf s = __cenote_sinf_near(r.hi, r.lo), c = __cenote_cosf_near(r.hi, r.lo);
	__cenote_pairf top = quadrant & 1 ? c : s, below = quadrant & 1 ? s : c;
	float quotient = __cenote_div(top.hi, below.hi);
	float rest = __cenote_fma(-quotient, below.hi, top.hi) + __cenote_fma(-quotient, below.lo, top.lo);
	/* Of the smallest numbers the rest is none. */
	float tangent = x < 0x1p-100f && x > -0x1p-100f ? x : quotient + __cenote_div(rest, below.hi);
	return quadrant & 1 ? -tangent : tangent;
}

#endif /* __CENOTE_DEVICE_MATH_FLOAT_H__ */

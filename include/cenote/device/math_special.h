/* SPDX-License-Identifier: MIT */
/*
 * The error function and its relatives, the gamma function, in double.
 *
 * erfcx(x) = e^(x^2) erfc(x) has no steep slope: times 1 + 2 x it is one polynomial of (x - 4) / (x + 4). erfc is that
 * and e^(-x^2), whose exponent is a pair. Inverses start from a fit and take two steps of Halley's. The gamma function
 * is Stirling's series from 10 on; below, the argument is raised to there, and the factors are divided out.
 */
#if !defined(__CENOTE_DEVICE_MATH_SPECIAL_H__)
#define __CENOTE_DEVICE_MATH_SPECIAL_H__

#include "math_exp.h"
#include "math_trig.h"

/*
 * ---- The error function ---------------------------------------------------------------------------------------------
 */

/* erfcx(x) for x >= 0. */
__CENOTE_MATH__ double __cenote_erfcx_positive(double x)
{
	if (x > 28) {
		/* The asymptotic series, whose terms are below a bit from here on. */
		double v = x > 0x1p60 ? 0 : __cenote_div(1.0, __cenote_mul(x, x));
		double p = __cenote_poly(v, 1.0, -0.5, 0.75, -1.875, 6.5625, -29.53125, 162.421875, -1055.7421875);
		return __cenote_div(__cenote_mul(p, 0x1.20dd750429b6dp-1), x);
	}
	__cenote_pair fraction = __cenote_div(__cenote_sum(x, -4), __cenote_sum(x, 4));
	double t = fraction.hi;
	double p = __cenote_poly(
		t, 0x1.3ba5916e9fd7fp+0, -0x1.1df1ad154a29cp-3, 0x1.f7f5df66fd951p-7, 0x1.16ecefcfa6077p-4,
		-0x1.9ddb23c3e98a6p-4, 0x1.7fee004df6263p-4, -0x1.0fb06dfe46987p-4, 0x1.3079edfa1033fp-5,
		-0x1.0962388367b2fp-6, 0x1.49c671893963fp-8, -0x1.8d4a9dc0d22f3p-11, -0x1.a1de7c6e9ac9cp-13,
		0x1.3be0b393ee921p-13, -0x1.996ad056e530bp-16, -0x1.78a43458cca4bp-17, 0x1.7fb88e391a9fep-18,
		0x1.4392983419eddp-22, -0x1.c05fc977974eap-21, 0x1.0d535fce28f99p-24, 0x1.ef6c0c38d1a2bp-24,
		-0x1.09198a32cd9a9p-27, -0x1.d5bb4c6d5b92dp-27, -0x1.f47207b168acdp-30);
	/* What the rounding of t has left out counts by the slope, roughly. */
	double slope = __cenote_poly(t, -0x1.1df1ad154a29cp-3, 0x1.f7f5df66fd951p-6, 0x1.a2636fb7790bp-3,
				     -0x1.9ddb23c3e98a6p-2, 0x1.dfe9806173afcp-2);
	__cenote_pair below = __cenote_sum(1, x + x), top = __cenote_ordered_sum(p, __cenote_mul(slope, fraction.lo));
	return __cenote_div(top, below).hi;
}

/* erf(x) for |x| < 1 in a pair: x + x p(x^2). */
__CENOTE_DEVICE__ __cenote_pair __cenote_erf_near(double x)
{
	double p =
		__cenote_poly(__cenote_mul(x, x), 0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b3p-4,
			      -0x1.b82ce31284ep-6, 0x1.565bcd0dbaa38p-8, -0x1.c02db3dac435fp-11, 0x1.f9a321d5b8e1ep-14,
			      -0x1.f4d1e3183f7aep-17, 0x1.b9df224ca4b97p-20, -0x1.5f1ecb6f0764cp-23,
			      0x1.f7b4bf3b13964p-27, -0x1.389d4f2641625p-30, 0x1.05ffd737fb32ep-34);
	return __cenote_ordered_sum(x, __cenote_mul(x, p));
}

/* erfc(x + x_lo) for x >= 0.5. */
__CENOTE_DEVICE__ double __cenote_erfc_tail(double x, double x_lo)
{
	if (x > 28)
		return 0;
	int n;
	__cenote_pair square = __cenote_product(x, x);
	square.lo = __cenote_fma(x + x, x_lo, square.lo);
	__cenote_pair e = __cenote_exp_pair(-square.hi, -square.lo, &n);
	return __cenote_scale(__cenote_mul(e.hi, __cenote_erfcx_positive(x)), n);
}

/* erfc(x + x_lo). */
__CENOTE_MATH__ double __cenote_erfc_sum(double x, double x_lo)
{
	if (x != x)
		return x;
	if (x >= 0.5)
		return __cenote_erfc_tail(x, x_lo);
	if (x <= -1)
		return 2 - __cenote_erfc_tail(-x, -x_lo);
	__cenote_pair near = __cenote_erf_near(x), one = __cenote_sum(1, -near.hi);
	/* The derivative is 2 / sqrt(pi) at 0; x_lo is far below a bit of 1. */
	return one.hi + (one.lo - near.lo - x_lo);
}

__CENOTE_MATH__ double __cenote_erfc(double x)
{
	return __cenote_erfc_sum(x, 0);
}

__CENOTE_MATH__ double __cenote_erf(double x)
{
	double size = __cenote_fabs(x);
	if (!(size >= 1))
		return x == 0 ? x : __cenote_erf_near(x).hi;
	return __cenote_copysign(1 - __cenote_erfc_tail(size, 0), x);
}

__CENOTE_MATH__ double __cenote_erfcx(double x)
{
	if (!(x < 0))
		return x == __cenote_inf() ? 0 : x != x ? x : __cenote_erfcx_positive(x);
	if (x < -27)
		return __cenote_inf();
	int n;
	__cenote_pair square = __cenote_product(x, x), e = __cenote_exp_pair(square.hi, square.lo, &n);
	double other = x < -6 ? 0 : __cenote_erfcx_positive(-x);
	return __cenote_scale(e.hi - __cenote_mul(other, __cenote_scale(1.0, -n - 1)), n + 1);
}

__CENOTE_MATH__ double __cenote_normcdf(double x)
{
	if (x < -39 || x > 39)
		return x < 0 ? 0 : 1;
	__cenote_pair y = __cenote_mul(__cenote_two(0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55), -x);
	return __cenote_mul(__cenote_erfc_sum(y.hi, y.lo), 0.5);
}

/* z >= 0 with erf(z) = e and erfc(z) = c; e + c is 1, the smaller of them exact, and c > 0. */
__CENOTE_MATH__ double __cenote_erf_solve(double e, double c)
{
	double w = -__cenote_log_pair<false>(__cenote_mul(c, 2 - c) > 0x1p-1022 ? __cenote_mul(c, 1 + e) : c, 0).hi, z;
	if (e < 0x1p-30)
		return __cenote_mul(e, 0x1.c5bf891b4ef6bp-1);
	if (!(__cenote_mul(c, 2 - c) > 0x1p-1022))
		w = w - 0x1.62e42fefa39efp-1;
	if (w < 5) {
		z = __cenote_mul(e, __cenote_poly(w, 0x1.c5bf893d966b4p-1, 0x1.db29e139d2f7ep-3, 0x1.7a7ffa716824dp-7,
						  -0x1.32b6478644d19p-9, -0x1.f76c9d9228df2p-14, 0x1.47006dc735e9dp-15,
						  0x1.b65120705fcd4p-18, -0x1.69ec2f33c9c2ap-19, 0x1.7160ca2725674p-22,
						  -0x1.5ecb044728dd1p-26, 0x1.00d79ace31a9fp-31));
	} else {
		double s = __cenote_sqrt(w), v = __cenote_div(1.0, s);
		z = __cenote_mul(s, __cenote_poly(v, 0x1.0009485a78b85p+0, -0x1.333a1bb4162ep-6, -0x1.693f7f95ece83p+0,
						  0x1.c5363a36d01c8p+2, -0x1.e262bc6a92356p+4, 0x1.ab336566f87cp+6,
						  -0x1.0ced4a6d9b226p+8, 0x1.b8af2167eabbdp+8, -0x1.a2f887e48b43ap+8,
						  0x1.5c70bdfe64cc5p+7));
	}
	/* The difference of the function, over its derivative, which holds e^(-z^2): divided out of both. */
	for (int i = 0; i < 2; i++) {
		int n;
		__cenote_pair square = __cenote_product(z, z), up = __cenote_exp_pair(square.hi, square.lo, &n);
		double step;
		if (e < 0.8) {
			__cenote_pair near = __cenote_erf_near(z);
			step = __cenote_mul(__cenote_scale(up.hi, n), (e - near.hi) - near.lo);
		} else {
			step = __cenote_erfcx_positive(z) - __cenote_mul(__cenote_scale(c, n), up.hi);
		}
		step = __cenote_mul(step, 0x1.c5bf891b4ef6bp-1);
		z += __cenote_div(step, __cenote_fma(-z, step, 1.0));
	}
	return z;
}

__CENOTE_MATH__ double __cenote_erfinv(double y)
{
	double size = __cenote_fabs(y);
	if (!(size < 1))
		return size == 1 ? __cenote_copysign(__cenote_inf(), y) : __cenote_nan();
	if (y == 0)
		return y;
	return __cenote_copysign(__cenote_erf_solve(size, 1 - size), y);
}

__CENOTE_MATH__ double __cenote_erfcinv(double y)
{
	if (!(y > 0 && y < 2))
		return y == 0 ? __cenote_inf() : y == 2 ? -__cenote_inf() : __cenote_nan();
	return y <= 1 ? __cenote_erf_solve(1 - y, y) : -__cenote_erf_solve(y - 1, 2 - y);
}

__CENOTE_MATH__ double __cenote_normcdfinv(double y)
{
	if (!(y > 0 && y < 1))
		return y == 0 ? -__cenote_inf() : y == 1 ? __cenote_inf() : __cenote_nan();
	double root2 = 0x1.6a09e667f3bcdp+0;
	/* Twice the smallest numbers lose nothing; twice 1 - y is exact where it is used. */
	if (y <= 0.5)
		return -__cenote_mul(root2, __cenote_erf_solve(1 - (y + y), y + y));
	return __cenote_mul(root2, __cenote_erf_solve((y + y) - 1, 2 - (y + y)));
}

/*
 * ---- The gamma function ---------------------------------------------------------------------------------------------
 */

/* log Gamma(x + x_lo) in a pair, for x >= 10. */
__CENOTE_DEVICE__ __cenote_pair __cenote_stirling(double x, double x_lo)
{
	__cenote_pair log = __cenote_log_pair<true>(x, 0);
	__cenote_pair main = __cenote_mul(log, x - 0.5);
	double v = __cenote_div(1.0, x), v2 = __cenote_mul(v, v);
	double series =
		__cenote_mul(v, __cenote_poly(v2, 0x1.5555555555555p-4, -0x1.6c16c16c16c17p-9, 0x1.a01a01a01a01ap-11,
					      -0x1.3813813813814p-11, 0x1.b951e2b18ff23p-11, -0x1.f6ab0d9993c7dp-10,
					      0x1.a41a41a41a41ap-8, -0x1.e4286cb0f5398p-6, 0x1.6fe96381e068p-3));
	/* The slope at x is log x - 1 / (2 x), and less. */
	series = __cenote_fma(x_lo, log.hi - __cenote_mul(v, 0.5), series);
	main = __cenote_add(main, __cenote_two(-x, 0));
	main = __cenote_add(main, __cenote_two(0x1.d67f1c864beb5p-1, -0x1.65b5a1b7ff5dfp-55));
	return __cenote_add(main, __cenote_ordered_sum(series, 0));
}

/* The product x (x + 1) … up to below 10, in a pair, and the number after it; x > 0. */
__CENOTE_DEVICE__ __cenote_pair __cenote_raise(double x, __cenote_pair *ret_raised)
{
	__cenote_pair product = {1, 0}, next = {x, 0};
	for (int i = 1; next.hi < 10; i++) {
		product = __cenote_mul(product, next);
		next = __cenote_sum(x, (double)i);
	}
	*ret_raised = next;
	return product;
}

/* Gamma(x) = pair 2^n for 0 < x < 200. */
__CENOTE_DEVICE__ __cenote_pair __cenote_gamma_pair(double x, int *ret_n)
{
	__cenote_pair raised, product = __cenote_raise(x, &raised);
	__cenote_pair log = __cenote_stirling(raised.hi, raised.lo);
	__cenote_pair e = __cenote_exp_pair(log.hi, log.lo, ret_n);
	return __cenote_div(e, product);
}

__CENOTE_MATH__ double __cenote_tgamma(double x)
{
	int n;
	if (x != x || x == __cenote_inf())
		return x;
	if (x == 0)
		return __cenote_copysign(__cenote_inf(), x);
	if (x > 0) {
		if (x > 172)
			return __cenote_inf();
		/* 1 / x there, which the pairs' products would lose below the smallest numbers. */
		if (x < 0x1p-60)
			return __cenote_div(1.0, x);
		double gamma = __cenote_gamma_pair(x, &n).hi;
		return __cenote_scale(gamma, n);
	}
	if (__builtin_trunc(x) == x)
		return __cenote_nan();
	if (x > -0x1p-60)
		return __cenote_div(1.0, x);
	double sine = __cenote_sinpi(x);
	if (x < -190)
		return sine < 0 ? -0.0 : 0.0;
	/* -pi / (x sin(pi x) Gamma(-x)) */
	__cenote_pair below = __cenote_mul(__cenote_mul(__cenote_gamma_pair(-x, &n), -x), sine);
	return __cenote_scale(__cenote_div(__cenote_pi(), below).hi, -n);
}

/* log Gamma(x) for a finite x > 0 in a pair. */
__CENOTE_DEVICE__ __cenote_pair __cenote_lgamma_positive(double x)
{
	double one = x - 1, two = x - 2;
	if (one == 0 || two == 0)
		return __cenote_two(0, 0);
	if (__cenote_fabs(one) <= 0.125) {
		double p = __cenote_poly(one, -0x1.2788cfc6fb619p-1, 0x1.a51a6625307d3p-1, -0x1.9a4d55beab1e5p-2,
					 0x1.151322ac7d766p-2, -0x1.a8b9c17b1ce7bp-3, 0x1.5b40cb107ba02p-3,
					 -0x1.2703a12dc071ap-3, 0x1.010b360b410b2p-3, -0x1.c8076612739c1p-4,
					 0x1.9a02c9e3273a2p-4, -0x1.7433f6fef601dp-4, 0x1.551817f2bf4e5p-4,
					 -0x1.4ac07e9bd646bp-4, 0x1.334060c870cf6p-4);
		return __cenote_two(__cenote_mul(one, p), 0);
	}
	if (__cenote_fabs(two) <= 0.125) {
		double p = __cenote_poly(two, 0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa6p-2, -0x1.13e001a55761fp-4,
					 0x1.51322ac7d84b1p-6, -0x1.e404fc214971ap-8, 0x1.7add6ead75efdp-9,
					 -0x1.38ac5d5176a53p-10, 0x1.0b36b0964c1c9p-11, -0x1.d3f8f368ce743p-13,
					 0x1.a123a9209c20dp-14, -0x1.7caa1316b89fdp-15, 0x1.5b9294cd6c8bep-16);
		return __cenote_two(__cenote_mul(two, p), 0);
	}
	if (x < 0x1p-60) {
		__cenote_pair log = __cenote_log_pair<true>(x, 0);
		return __cenote_two(-log.hi, -log.lo);
	}
	if (x > 0x1p60) {
		__cenote_pair log = __cenote_log_pair<true>(x, 0);
		__cenote_pair product = __cenote_mul(__cenote_add(log, __cenote_two(-1, 0)), x);
		return __cenote_isfinite(product.hi) ? product : __cenote_two(__cenote_inf(), 0);
	}
	__cenote_pair raised, product = __cenote_raise(x, &raised);
	return __cenote_sub(__cenote_stirling(raised.hi, raised.lo), __cenote_log_pair<true>(product.hi, product.lo));
}

__CENOTE_MATH__ double __cenote_lgamma(double x)
{
	double size = __cenote_fabs(x);
	if (!(size < __cenote_inf()))
		return size;
	if (x > 0)
		return __cenote_lgamma_positive(x).hi;
	if (__builtin_trunc(x) == x)
		return __cenote_inf();
	if (size < 0x1p-60)
		return -__cenote_log_pair<true>(size, 0).hi;
	/* log(pi / |x sin(pi x)|) - log Gamma(-x) */
	__cenote_pair below = __cenote_product(size, __cenote_fabs(__cenote_sinpi(x)));
	__cenote_pair log = __cenote_log_pair<true>(below.hi, below.lo);
	log = __cenote_sub(__cenote_two(0x1.250d048e7a1bdp+0, 0x1.7abf2ad8d5088p-57), log);
	return __cenote_sub(log, __cenote_lgamma_positive(size)).hi;
}

#endif /* __CENOTE_DEVICE_MATH_SPECIAL_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * Double is compared with the functions of libquadmath, which have 113 bits, float with long double's.
 */
#include "reference.h"
#include <math.h>
#include <quadmath.h>
#include <stdbool.h>
#include <string.h>

typedef __float128 quad;

/* An error that no bound allows. */
#define WRONG 1e9

static quad sinpi_quad(quad x)
{
	quad n = rintq(2 * x), rest = M_PIq * (x - n / 2), part = fmodq(n, 4);
	int quadrant = (int)part & 3;

	if (isinfq(x))
		return nanq("");
	if (x == truncq(x))
		return copysignq(0, x);
	quad value = quadrant & 1 ? cosq(rest) : sinq(rest);
	return quadrant & 2 ? -value : value;
}

static quad cospi_quad(quad x)
{
	quad n = rintq(2 * x), rest = M_PIq * (x - n / 2), part = fmodq(n, 4);
	int quadrant = ((int)part + 1) & 3;
	quad value = quadrant & 1 ? cosq(rest) : sinq(rest);

	if (2 * x == truncq(2 * x) && x != truncq(x))
		return 0;
	return quadrant & 2 ? -value : value;
}

static quad exp10_quad(quad x)
{
	return powq(10, x);
}

static quad exp2_quad(quad x)
{
	return powq(2, x);
}

static quad rsqrt_quad(quad x)
{
	return 1 / sqrtq(x);
}

static quad rcbrt_quad(quad x)
{
	return 1 / cbrtq(x);
}

static quad erfcx_quad(quad x)
{
	if (x > 50) { /* where erfc is too small for the product; the rest of the series is below 2^-70 */
		quad v = 1 / (2 * x * x), term = 1, sum = 1;
		for (int i = 1; i < 12; i++)
			sum += term *= -(2 * i - 1) * v;
		return sum / (x * sqrtq(M_PIq));
	}
	return expq(x * x) * erfcq(x);
}

static quad normcdf_quad(quad x)
{
	return erfcq(-x / sqrtq(2)) / 2;
}

/* z with erfc(z) = y, or erf(z) = y, by Newton's method from a guess. */
static quad inverse_quad(quad y, int complement)
{
	quad limit = complement ? 2 : 1, low = complement ? 0 : -1;

	if (y != y || y < low || y > limit)
		return nanq("");
	if (y == low || y == limit)
		return (y == low) == !complement ? -HUGE_VALQ : HUGE_VALQ;
	if (!complement && y == 0)
		return y;
	quad size = complement ? (y < 1 ? y : 2 - y) : 1 - fabsq(y); /* erfc of the result's size */
	quad z = (1 - size) * 0.9Q;
	if (size < 0.1Q)
		z = sqrtq(-logq(size * sqrtq(M_PIq * -logq(size))));
	int small = size > 0.5Q;
	quad goal = small ? (complement ? fabsq(1 - y) : fabsq(y)) : size;
	for (int i = 0; i < 12; i++) {
		quad slope = 2 / sqrtq(M_PIq) * expq(-z * z);
		quad miss = small ? (goal - erfq(z)) / slope : (erfcq(z) - goal) / slope;
		z += miss / (1 - z * (small ? -miss : miss));
	}
	return (complement ? y > 1 : y < 0) ? -z : z;
}

static quad erfinv_quad(quad y)
{
	return inverse_quad(y, 0);
}

static quad erfcinv_quad(quad y)
{
	return inverse_quad(y, 1);
}

static quad normcdfinv_quad(quad y)
{
	return -sqrtq(2) * inverse_quad(2 * y, 1);
}

static quad rhypot_quad(quad x, quad y)
{
	return 1 / hypotq(x, y);
}

static quad divide(quad x, quad y)
{
	return x / y;
}

/* libquadmath answers NaN and raises a flag where C says that a pole is infinite; it is right where it matters here. */
static const struct one {
	const char *name;
	quad (*function)(quad);
	long double (*single)(long double);
} ones[] = {
	{"sin", sinq, sinl},
	{"cos", cosq, cosl},
	{"tan", tanq, tanl},
	{"sinpi", sinpi_quad, NULL},
	{"cospi", cospi_quad, NULL},
	{"asin", asinq, asinl},
	{"acos", acosq, acosl},
	{"atan", atanq, atanl},
	{"exp", expq, expl},
	{"exp2", exp2_quad, exp2l},
	{"exp10", exp10_quad, NULL},
	{"expm1", expm1q, expm1l},
	{"log", logq, logl},
	{"log2", log2q, log2l},
	{"log10", log10q, log10l},
	{"log1p", log1pq, log1pl},
	{"sinh", sinhq, sinhl},
	{"cosh", coshq, coshl},
	{"tanh", tanhq, tanhl},
	{"asinh", asinhq, asinhl},
	{"acosh", acoshq, acoshl},
	{"atanh", atanhq, atanhl},
	{"sqrt", sqrtq, sqrtl},
	{"rsqrt", rsqrt_quad, NULL},
	{"cbrt", cbrtq, cbrtl},
	{"rcbrt", rcbrt_quad, NULL},
	{"erf", erfq, erfl},
	{"erfc", erfcq, erfcl},
	{"erfcx", erfcx_quad, NULL},
	{"erfinv", erfinv_quad, NULL},
	{"erfcinv", erfcinv_quad, NULL},
	{"normcdf", normcdf_quad, NULL},
	{"normcdfinv", normcdfinv_quad, NULL},
	{"tgamma", tgammaq, tgammal},
	{"lgamma", lgammaq, lgammal},
	{"sincos_sine", sinq, sinl},
	{"sincos_cosine", cosq, cosl},
	{"sincospi_sine", sinpi_quad, NULL},
	{"sincospi_cosine", cospi_quad, NULL},
};

static const struct two {
	const char *name;
	quad (*function)(quad, quad);
} twos[] = {
	{"pow", powq},           {"atan2", atan2q},   {"hypot", hypotq}, {"fmod", fmodq}, {"remainder", remainderq},
	{"rhypot", rhypot_quad}, {"fdivide", divide},
};

static const struct norm {
	const char *name;
	int dimensions;
	bool inverse;
} norms[] = {{"norm3d", 3, false}, {"rnorm3d", 3, true}, {"norm4d", 4, false}, {"rnorm4d", 4, true}};

/* A square of a double neither overflows nor vanishes. */
static quad norm_quad(const struct norm *norm, const double *arguments)
{
	quad sum = 0;

	for (int i = 0; i < norm->dimensions; i++) {
		if (isinf(arguments[i])) /* whatever the others are */
			return norm->inverse ? 0 : HUGE_VALQ;
		sum += (quad)arguments[i] * arguments[i];
	}
	return norm->inverse ? 1 / sqrtq(sum) : sqrtq(sum);
}

static quad right(const char *function, int single, const double *arguments)
{
	double x = arguments[0], y = arguments[1];

	for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) {
		if (!strcmp(ones[i].name, function))
			return single && ones[i].single ? (quad)ones[i].single(x) : ones[i].function(x);
	}
	for (size_t i = 0; i < sizeof twos / sizeof *twos; i++) {
		if (!strcmp(twos[i].name, function))
			return twos[i].function(x, y);
	}
	for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
		if (!strcmp(norms[i].name, function))
			return norm_quad(&norms[i], arguments);
	}
	return nanq("");
}

double reference_error(const char *function, int single, const double *arguments, double result, double absolute)
{
	quad value = right(function, single, arguments);
	int digits = single ? 24 : 53, least = single ? -125 : -1021, exponent;
	quad largest = single ? (quad)3.40282346638528859812e38 : (quad)1.79769313486231570815e308;

	if (value != value || result != result)
		return (value != value) == (result != result) ? 0 : WRONG;
	/* Half a unit above the largest number is where it becomes infinite. */
	quad unit = scalbnq(1, (single ? 128 : 1024) - digits);
	if (isinf(result)) {
		if ((result < 0) != (value < 0) || fabsq(value) < largest - unit)
			return WRONG;
		return fabsq(value) >= largest + unit / 2 ? 0 : (double)((largest + unit - fabsq(value)) / unit);
	}
	if (isinfq(value))
		return WRONG;
	if (value == 0)
		return result == 0 && !signbit(result) == !signbitq(value) ? 0 : WRONG;
	if (fabsq((quad)result - value) <= absolute)
		return 0;
	frexpq(value, &exponent);
	exponent = exponent < least ? least : exponent;
	return (double)fabsq(scalbnq((quad)result - value, digits - exponent));
}

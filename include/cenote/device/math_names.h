/* SPDX-License-Identifier: MIT */
/*
 * The names of the mathematics: those of C's <math.h> and C++'s <cmath> in double and float, and CUDA's own.
 *
 * The largest errors are in docs/cc.md; NaN, infinities, signed zeros and subnormal numbers are as in C's Annex F. With
 * -use_fast_math some names of float mean the approximations (floating.h). Bessel functions are not here.
 */
#if !defined(__CENOTE_DEVICE_MATH_NAMES_H__)
#define __CENOTE_DEVICE_MATH_NAMES_H__

#include "convert.h"
#include "math_base.h"
#include "math_exp.h"
#include "math_float.h"
#include "math_special.h"
#include "math_trig.h"

/*
 * ---- One and two arguments ------------------------------------------------------------------------------------------
 */

/* In double, and in float by a body of its own, or, where one may take its place, by a fast approximation. */
#if defined(__CLANG_CUDA_APPROX_TRANSCENDENTALS__) || defined(__CLANG_GPU_APPROX_TRANSCENDENTALS__) || \
	defined(__USE_FAST_MATH__)
#define __CENOTE_FAST(fast, exact) fast
#else
#define __CENOTE_FAST(fast, exact) exact
#endif
#define __CENOTE_NAME1_BY(name, in_float)                \
	__CENOTE_DEVICE__ double name(double x)          \
	{                                                \
		return __cenote_##name(__cenote_own(x)); \
	}                                                \
	__CENOTE_DEVICE__ float name##f(float x)         \
	{                                                \
		return in_float(__cenote_own(x));        \
	}
#define __CENOTE_NAME1(name)      __CENOTE_NAME1_BY(name, __cenote_##name##f)
#define __CENOTE_NAME1_FAST(name) __CENOTE_NAME1_BY(name, __CENOTE_FAST(__##name##f, __cenote_##name##f))

__CENOTE_NAME1_FAST(sin)
__CENOTE_NAME1_FAST(cos)
__CENOTE_NAME1_FAST(tan)
__CENOTE_NAME1_FAST(exp)
__CENOTE_NAME1_FAST(exp10)
__CENOTE_NAME1_FAST(log)
__CENOTE_NAME1_FAST(log2)
__CENOTE_NAME1_FAST(log10)
__CENOTE_NAME1(exp2)
__CENOTE_NAME1(expm1)
__CENOTE_NAME1(log1p)
__CENOTE_NAME1(sinh)
__CENOTE_NAME1(cosh)
__CENOTE_NAME1(tanh)
__CENOTE_NAME1(asinh)
__CENOTE_NAME1(acosh)
__CENOTE_NAME1(atanh)
__CENOTE_NAME1(sinpi)
__CENOTE_NAME1(cospi)
__CENOTE_NAME1(asin)
__CENOTE_NAME1(acos)
__CENOTE_NAME1(atan)
__CENOTE_NAME1(sqrt)
__CENOTE_NAME1(rsqrt)
__CENOTE_NAME1(cbrt)
__CENOTE_NAME1(rcbrt)
__CENOTE_NAME1(erf)
__CENOTE_NAME1(erfc)
__CENOTE_NAME1(erfcx)
__CENOTE_NAME1(erfinv)
__CENOTE_NAME1(erfcinv)
__CENOTE_NAME1(normcdf)
__CENOTE_NAME1(normcdfinv)
__CENOTE_NAME1(tgamma)
__CENOTE_NAME1(lgamma)
#undef __CENOTE_NAME1
#undef __CENOTE_NAME1_FAST
#undef __CENOTE_NAME1_BY

/* Two arguments; a float's result is a double's, rounded once more, which for fmod and remainder changes nothing. */
#define __CENOTE_NAME2(name)                                              \
	__CENOTE_DEVICE__ double name(double x, double y)                 \
	{                                                                 \
		return __cenote_##name(__cenote_own(x), __cenote_own(y)); \
	}                                                                 \
	__CENOTE_DEVICE__ float name##f(float x, float y)                 \
	{                                                                 \
		return (float)__cenote_##name((double)x, (double)y);      \
	}
__CENOTE_NAME2(atan2)
__CENOTE_NAME2(fmod)
#undef __CENOTE_NAME2

__CENOTE_DEVICE__ double pow(double x, double y)
{
	return __cenote_pow(__cenote_own(x), __cenote_own(y));
}

__CENOTE_DEVICE__ float powf(float x, float y)
{
	return __CENOTE_FAST(__powf, __cenote_powf)(__cenote_own(x), __cenote_own(y));
}

__CENOTE_DEVICE__ double powi(double x, int n)
{
	return __cenote_pow(__cenote_own(x), (double)n);
}

__CENOTE_DEVICE__ float powif(float x, int n)
{
	return (float)__cenote_pow((double)x, (double)n);
}

__CENOTE_DEVICE__ void sincos(double x, double *sine, double *cosine)
{
	__cenote_sincos(__cenote_own(x), sine, cosine);
}

__CENOTE_DEVICE__ void sincosf(float x, float *sine, float *cosine)
{
	__CENOTE_FAST(__sincosf, __cenote_sincosf)(__cenote_own(x), sine, cosine);
}

__CENOTE_DEVICE__ void sincospi(double x, double *sine, double *cosine)
{
	x = __cenote_own(x);
	*sine = __cenote_sinpi(x);
	*cosine = __cenote_cospi(x);
}

__CENOTE_DEVICE__ void sincospif(float x, float *sine, float *cosine)
{
	*sine = sinpif(x);
	*cosine = cospif(x);
}

/*
 * ---- Integers near a number -----------------------------------------------------------------------------------------
 */

#define __CENOTE_INTEGER(name, body)             \
	__CENOTE_DEVICE__ double name(double x)  \
	{                                        \
		return body(x);                  \
	}                                        \
	__CENOTE_DEVICE__ float name##f(float x) \
	{                                        \
		return body##f(x);               \
	}
__CENOTE_INTEGER(ceil, __builtin_ceil)
__CENOTE_INTEGER(floor, __builtin_floor)
__CENOTE_INTEGER(trunc, __builtin_trunc)
__CENOTE_INTEGER(rint, __builtin_rint)
__CENOTE_INTEGER(nearbyint, __builtin_nearbyint)
__CENOTE_INTEGER(fabs, __builtin_fabs)
#undef __CENOTE_INTEGER

__CENOTE_DEVICE__ double round(double x)
{
	return __cenote_round(__cenote_own(x));
}

__CENOTE_DEVICE__ float roundf(float x)
{
	return (float)__cenote_round((double)x);
}

#define __CENOTE_TO_INTEGER(type, prefix)                       \
	__CENOTE_DEVICE__ type prefix##rint(double x)           \
	{                                                       \
		return (type)__double2ll_rn(x);                 \
	}                                                       \
	__CENOTE_DEVICE__ type prefix##rintf(float x)           \
	{                                                       \
		return (type)__float2ll_rn(x);                  \
	}                                                       \
	__CENOTE_DEVICE__ type prefix##round(double x)          \
	{                                                       \
		return (type)__double2ll_rz(__cenote_round(x)); \
	}                                                       \
	__CENOTE_DEVICE__ type prefix##roundf(float x)          \
	{                                                       \
		return (type)__double2ll_rz(__cenote_round(x)); \
	}
__CENOTE_TO_INTEGER(long, l)
__CENOTE_TO_INTEGER(long long, ll)
#undef __CENOTE_TO_INTEGER

__CENOTE_DEVICE__ double modf(double x, double *whole)
{
	*whole = __builtin_trunc(x);
	return __cenote_copysign(__cenote_isfinite(x) || x != x ? x - *whole : 0, x);
}

__CENOTE_DEVICE__ float modff(float x, float *whole)
{
	double part, rest = modf((double)x, &part);
	*whole = (float)part;
	return (float)rest;
}

__CENOTE_DEVICE__ double remainder(double x, double y)
{
	int quotient;
	return __cenote_remquo(x, y, &quotient);
}

__CENOTE_DEVICE__ float remainderf(float x, float y)
{
	int quotient;
	return (float)__cenote_remquo((double)x, (double)y, &quotient);
}

__CENOTE_DEVICE__ double remquo(double x, double y, int *quotient)
{
	return __cenote_remquo(x, y, quotient);
}

__CENOTE_DEVICE__ float remquof(float x, float y, int *quotient)
{
	return (float)__cenote_remquo((double)x, (double)y, quotient);
}

/*
 * ---- Exponent and sign ----------------------------------------------------------------------------------------------
 */

/* With something that is not a number; a float's result is the double's, which rounding changes only where it must. */
#define __CENOTE_NAME_WITH(name, body, other)                \
	__CENOTE_DEVICE__ double name(double x, other with)  \
	{                                                    \
		return body(x, with);                        \
	}                                                    \
	__CENOTE_DEVICE__ float name##f(float x, other with) \
	{                                                    \
		return (float)body((double)x, with);         \
	}
__CENOTE_NAME_WITH(frexp, __cenote_frexp, int *)
__CENOTE_NAME_WITH(ldexp, __cenote_ldexp, int)
__CENOTE_NAME_WITH(scalbn, __cenote_ldexp, int)
#undef __CENOTE_NAME_WITH

__CENOTE_DEVICE__ double scalbln(double x, long n)
{
	return __cenote_ldexp(x, n < -9999 ? -9999 : n > 9999 ? 9999 : (int)n);
}

__CENOTE_DEVICE__ float scalblnf(float x, long n)
{
	return (float)scalbln((double)x, n);
}

__CENOTE_DEVICE__ int ilogb(double x)
{
	return __cenote_ilogb(x);
}

__CENOTE_DEVICE__ int ilogbf(float x)
{
	return __cenote_ilogb((double)x);
}

__CENOTE_DEVICE__ double logb(double x)
{
	return __cenote_logb(x);
}

__CENOTE_DEVICE__ float logbf(float x)
{
	return (float)__cenote_logb((double)x);
}

__CENOTE_DEVICE__ double nan(const char *)
{
	return __cenote_nan();
}

__CENOTE_DEVICE__ float nanf(const char *)
{
	return __int_as_float(0x7fc00000);
}

/* What clang's <cmath> for devices asks for. */
#define __CENOTE_CLASS(name, type, answer) \
	__CENOTE_DEVICE__ int name(type x) \
	{                                  \
		return answer;             \
	}
__CENOTE_CLASS(__isnan, double, x != x)
__CENOTE_CLASS(__isnanf, float, x != x)
__CENOTE_CLASS(__isinf, double, __cenote_fabs(x) == __cenote_inf())
__CENOTE_CLASS(__isinff, float, __cenote_fabs(x) == __cenote_inf())
__CENOTE_CLASS(__isfinited, double, __cenote_isfinite(x))
__CENOTE_CLASS(__finite, double, __cenote_isfinite(x))
__CENOTE_CLASS(__finitef, float, __cenote_isfinite(x))
__CENOTE_CLASS(__signbitd, double, __cenote_negative(x))
__CENOTE_CLASS(__signbit, double, __cenote_negative(x))
__CENOTE_CLASS(__signbitf, float, __float_as_int(x) < 0)
#undef __CENOTE_CLASS

/*
 * ---- Arithmetic -----------------------------------------------------------------------------------------------------
 */

__CENOTE_DEVICE__ double fma(double x, double y, double z)
{
	return __cenote_fma(x, y, z);
}

__CENOTE_DEVICE__ float fmaf(float x, float y, float z)
{
	return __cenote_fma(x, y, z);
}

/* Two numbers to a third: in double, and in float. */
#define __CENOTE_TWO(name, in_double, in_float)           \
	__CENOTE_DEVICE__ double name(double x, double y) \
	{                                                 \
		return in_double;                         \
	}                                                 \
	__CENOTE_DEVICE__ float name##f(float x, float y) \
	{                                                 \
		return in_float;                          \
	}
__CENOTE_TWO(fmin, __nvvm_fmin_d(x, y), __nvvm_fmin_f(x, y))
__CENOTE_TWO(fmax, __nvvm_fmax_d(x, y), __nvvm_fmax_f(x, y))
__CENOTE_TWO(fdim, x <= y ? 0 : x - y, x <= y ? 0 : x - y)
__CENOTE_TWO(fdivide, __cenote_div(x, y), __CENOTE_FAST(__fdividef, __cenote_div)(x, y))
__CENOTE_TWO(nextafter, __cenote_nextafter(x, y), __cenote_nextafterf(x, y))
__CENOTE_TWO(copysign, __cenote_copysign(x, y),
	     __int_as_float((__float_as_int(x) & 0x7fffffff) | (__float_as_int(y) & (int)0x80000000u)))
#undef __CENOTE_TWO

/*
 * ---- Lengths --------------------------------------------------------------------------------------------------------
 */

__CENOTE_DEVICE__ double hypot(double x, double y)
{
	return __cenote_hypot(__cenote_own(x), __cenote_own(y), false);
}

__CENOTE_DEVICE__ double rhypot(double x, double y)
{
	return __cenote_hypot(__cenote_own(x), __cenote_own(y), true);
}

__CENOTE_DEVICE__ double norm(int dimensions, const double *t)
{
	return __cenote_length(dimensions, t, false);
}

__CENOTE_DEVICE__ double rnorm(int dimensions, const double *t)
{
	return __cenote_length(dimensions, t, true);
}

__CENOTE_DEVICE__ float normf(int dimensions, const float *t)
{
	return (float)__cenote_lengthf(dimensions, t);
}

__CENOTE_DEVICE__ float rnormf(int dimensions, const float *t)
{
	return (float)__cenote_div(1.0, __cenote_lengthf(dimensions, t));
}

__CENOTE_DEVICE__ float hypotf(float x, float y)
{
	float t[2] = {x, y};
	return normf(2, t);
}

__CENOTE_DEVICE__ float rhypotf(float x, float y)
{
	float t[2] = {x, y};
	return rnormf(2, t);
}

#define __CENOTE_NORMS(prefix)                                                          \
	__CENOTE_DEVICE__ double prefix##norm3d(double x, double y, double z)           \
	{                                                                               \
		double t[3] = {x, y, z};                                                \
		return prefix##norm(3, t);                                              \
	}                                                                               \
	__CENOTE_DEVICE__ float prefix##norm3df(float x, float y, float z)              \
	{                                                                               \
		float t[3] = {x, y, z};                                                 \
		return prefix##normf(3, t);                                             \
	}                                                                               \
	__CENOTE_DEVICE__ double prefix##norm4d(double x, double y, double z, double w) \
	{                                                                               \
		double t[4] = {x, y, z, w};                                             \
		return prefix##norm(4, t);                                              \
	}                                                                               \
	__CENOTE_DEVICE__ float prefix##norm4df(float x, float y, float z, float w)     \
	{                                                                               \
		float t[4] = {x, y, z, w};                                              \
		return prefix##normf(4, t);                                             \
	}
__CENOTE_NORMS()
__CENOTE_NORMS(r)
#undef __CENOTE_NORMS
#undef __CENOTE_FAST

#include "math_overloads.h"

#endif /* __CENOTE_DEVICE_MATH_NAMES_H__ */

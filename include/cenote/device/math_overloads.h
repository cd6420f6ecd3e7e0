/* SPDX-License-Identifier: MIT */
/*
 * Overloads of the mathematics: float under the names of double, and what a host program calls beside the C library.
 *
 * clang's own header adds those of integers, and pulls all of them into namespace std.
 */
#if !defined(__CENOTE_DEVICE_MATH_OVERLOADS_H__)
#define __CENOTE_DEVICE_MATH_OVERLOADS_H__

#include "math_names.h"

/*
 * ---- Float, on the device -------------------------------------------------------------------------------------------
 */

#define __CENOTE_FLOAT1(result, name)          \
	__CENOTE_DEVICE__ result name(float x) \
	{                                      \
		return ::name##f(x);           \
	}
__CENOTE_FLOAT1(float, acosh)
__CENOTE_FLOAT1(float, asinh)
__CENOTE_FLOAT1(float, atanh)
__CENOTE_FLOAT1(float, cbrt)
__CENOTE_FLOAT1(float, erf)
__CENOTE_FLOAT1(float, erfc)
__CENOTE_FLOAT1(float, exp2)
__CENOTE_FLOAT1(float, expm1)
__CENOTE_FLOAT1(int, ilogb)
__CENOTE_FLOAT1(float, lgamma)
__CENOTE_FLOAT1(long long, llrint)
__CENOTE_FLOAT1(long long, llround)
__CENOTE_FLOAT1(float, log1p)
__CENOTE_FLOAT1(float, log2)
__CENOTE_FLOAT1(float, logb)
__CENOTE_FLOAT1(long, lrint)
__CENOTE_FLOAT1(long, lround)
__CENOTE_FLOAT1(float, nearbyint)
__CENOTE_FLOAT1(float, rint)
__CENOTE_FLOAT1(float, round)
__CENOTE_FLOAT1(float, tgamma)
__CENOTE_FLOAT1(float, trunc)
__CENOTE_FLOAT1(float, exp10)
__CENOTE_FLOAT1(float, rsqrt)
__CENOTE_FLOAT1(float, rcbrt)
__CENOTE_FLOAT1(float, sinpi)
__CENOTE_FLOAT1(float, cospi)
__CENOTE_FLOAT1(float, erfinv)
__CENOTE_FLOAT1(float, erfcinv)
__CENOTE_FLOAT1(float, erfcx)
__CENOTE_FLOAT1(float, normcdf)
__CENOTE_FLOAT1(float, normcdfinv)
#undef __CENOTE_FLOAT1

#define __CENOTE_FLOAT2(name)                          \
	__CENOTE_DEVICE__ float name(float x, float y) \
	{                                              \
		return ::name##f(x, y);                \
	}
__CENOTE_FLOAT2(copysign)
__CENOTE_FLOAT2(fdim)
__CENOTE_FLOAT2(fmax)
__CENOTE_FLOAT2(fmin)
__CENOTE_FLOAT2(hypot)
__CENOTE_FLOAT2(nextafter)
__CENOTE_FLOAT2(remainder)
__CENOTE_FLOAT2(rhypot)
__CENOTE_FLOAT2(fdivide)
#undef __CENOTE_FLOAT2

__CENOTE_DEVICE__ float fma(float x, float y, float z)
{
	return ::fmaf(x, y, z);
}

__CENOTE_DEVICE__ float remquo(float x, float y, int *quotient)
{
	return ::remquof(x, y, quotient);
}

__CENOTE_DEVICE__ float scalbn(float x, int n)
{
	return ::scalbnf(x, n);
}

__CENOTE_DEVICE__ float scalbln(float x, long n)
{
	return ::scalblnf(x, n);
}

__CENOTE_DEVICE__ void sincos(float x, float *sine, float *cosine)
{
	::sincosf(x, sine, cosine);
}

__CENOTE_DEVICE__ void sincospi(float x, float *sine, float *cosine)
{
	::sincospif(x, sine, cosine);
}

/* Minimum and maximum of floating-point numbers, as fmin() and fmax(); of mixed types in double. */
#define __CENOTE_MINMAX(result, a_type, b_type, suffix)           \
	__CENOTE_DEVICE__ result min(a_type a, b_type b)          \
	{                                                         \
		return fmin##suffix((result)a, (result)b);        \
	}                                                         \
	__CENOTE_DEVICE__ result max(a_type a, b_type b)          \
	{                                                         \
		return fmax##suffix((result)a, (result)b);        \
	}                                                         \
	static __host__ __inline__ result min(a_type a, b_type b) \
	{                                                         \
		return fmin##suffix((result)a, (result)b);        \
	}                                                         \
	static __host__ __inline__ result max(a_type a, b_type b) \
	{                                                         \
		return fmax##suffix((result)a, (result)b);        \
	}
__CENOTE_MINMAX(float, float, float, f)
__CENOTE_MINMAX(double, double, double, )
__CENOTE_MINMAX(double, float, double, )
__CENOTE_MINMAX(double, double, float, )
#undef __CENOTE_MINMAX

#include <__clang_cuda_cmath.h>

/*
 * ---- CUDA's own functions, on the host ------------------------------------------------------------------------------
 */

/* Of double and float; newer C libraries have some of them. */
#define __CENOTE_HOST1(name, body)                        \
	static __host__ __inline__ double name(double x)  \
	{                                                 \
		return body;                              \
	}                                                 \
	static __host__ __inline__ float name##f(float a) \
	{                                                 \
		double x = a;                             \
		return (float)(body);                     \
	}
#if !__GLIBC_PREREQ(2, 41)
__CENOTE_HOST1(sinpi, ::sin(3.14159265358979323846 * ::fmod(x, 2)))
__CENOTE_HOST1(cospi, ::cos(3.14159265358979323846 * ::fmod(x, 2)))
#endif
#if !__GLIBC_PREREQ(2, 42)
__CENOTE_HOST1(rsqrt, 1 / ::sqrt(x))
#endif
__CENOTE_HOST1(rcbrt, 1 / ::cbrt(x))
__CENOTE_HOST1(normcdf, 0.5 * ::erfc(-x * 0.70710678118654752440))
#undef __CENOTE_HOST1

#define __CENOTE_HOST_FLOAT(name)                      \
	static __host__ __inline__ float name(float x) \
	{                                              \
		return ::name##f(x);                   \
	}
__CENOTE_HOST_FLOAT(sinpi)
__CENOTE_HOST_FLOAT(cospi)
__CENOTE_HOST_FLOAT(rsqrt)
__CENOTE_HOST_FLOAT(rcbrt)
__CENOTE_HOST_FLOAT(normcdf)
#undef __CENOTE_HOST_FLOAT

static __host__ __inline__ double rhypot(double x, double y)
{
	return 1 / ::hypot(x, y);
}

static __host__ __inline__ float rhypotf(float x, float y)
{
	return (float)(1 / ::hypot((double)x, (double)y));
}

static __host__ __inline__ double norm3d(double x, double y, double z)
{
	return ::hypot(::hypot(x, y), z);
}

static __host__ __inline__ float norm3df(float x, float y, float z)
{
	return (float)::hypot(::hypot((double)x, (double)y), (double)z);
}

#endif /* __CENOTE_DEVICE_MATH_OVERLOADS_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * The mathematics in float.
 *
 * What is called often works in float, as most GPUs have few units for double. The rest is the function of double,
 * rounded to float: within a hair of half a unit in the last place.
 */
#if !defined(__CENOTE_DEVICE_MATH_FLOAT_H__)
#define __CENOTE_DEVICE_MATH_FLOAT_H__

#include "math_exp.h"
#include "math_special.h"
#include "math_trig.h"

#define __CENOTE_BY_DOUBLE(name)                          \
	__CENOTE_MATH__ float __cenote_##name##f(float x) \
	{                                                 \
		return (float)__cenote_##name((double)x); \
	}
__CENOTE_BY_DOUBLE(sin)
__CENOTE_BY_DOUBLE(cos)
__CENOTE_BY_DOUBLE(tan)
__CENOTE_BY_DOUBLE(exp)
__CENOTE_BY_DOUBLE(exp2)
__CENOTE_BY_DOUBLE(exp10)
__CENOTE_BY_DOUBLE(expm1)
__CENOTE_BY_DOUBLE(log)
__CENOTE_BY_DOUBLE(log2)
__CENOTE_BY_DOUBLE(log10)
__CENOTE_BY_DOUBLE(log1p)
__CENOTE_BY_DOUBLE(sinh)
__CENOTE_BY_DOUBLE(cosh)
__CENOTE_BY_DOUBLE(tanh)
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

__CENOTE_MATH__ float __cenote_powf(float x, float y)
{
	return (float)__cenote_pow((double)x, (double)y);
}

__CENOTE_MATH__ void __cenote_sincosf(float x, float *sine, float *cosine)
{
	double s, c;
	__cenote_sincos((double)x, &s, &c);
	*sine = (float)s;
	*cosine = (float)c;
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

#endif /* __CENOTE_DEVICE_MATH_FLOAT_H__ */

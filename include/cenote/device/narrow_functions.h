/* SPDX-License-Identifier: MIT */
/*
 * Functions of a 16-bit type by CUDA's names; narrow.h has the parameters. Those of both sides are arithmetic,
 * comparison and conversion; those of a device alone are mathematics, which is that of float rounded to the type, warp
 * functions, loads and atomics.
 */
#include "../cuda_runtime.h"

/*
 * ---- Conversions ----------------------------------------------------------------------------------------------------
 */

__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__float2, )(float a)
{
	return __CENOTE_NUMBER(a);
}

__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__double2, )(double a)
{
	return __CENOTE_NUMBER(a);
}

__CENOTE_BOTH__ float __CENOTE_NAME(__, 2float)(__CENOTE_NUMBER a)
{
	return (float)a;
}

#define __CENOTE_NARROW_ROUNDED(rounding, from)                                                    \
	__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__float2, _##rounding)(float a)              \
	{                                                                                          \
		return __CENOTE_NUMBER::__cenote_bits(from(a));                                    \
	}                                                                                          \
	__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__int2, _##rounding)(int a)                  \
	{                                                                                          \
		return __CENOTE_NUMBER::__cenote_bits(from(a));                                    \
	}                                                                                          \
	__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__uint2, _##rounding)(unsigned int a)        \
	{                                                                                          \
		return __CENOTE_NUMBER::__cenote_bits(from(a));                                    \
	}                                                                                          \
	__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__short2, _##rounding)(short a)              \
	{                                                                                          \
		return __CENOTE_NUMBER::__cenote_bits(from((int)a));                               \
	}                                                                                          \
	__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__ushort2, _##rounding)(unsigned short a)    \
	{                                                                                          \
		return __CENOTE_NUMBER::__cenote_bits(from((int)a));                               \
	}                                                                                          \
	__CENOTE_DEVICE__ int __CENOTE_NAME(__, 2int_##rounding)(__CENOTE_NUMBER a)                \
	{                                                                                          \
		return __float2int_##rounding((float)a);                                           \
	}                                                                                          \
	__CENOTE_DEVICE__ unsigned int __CENOTE_NAME(__, 2uint_##rounding)(__CENOTE_NUMBER a)      \
	{                                                                                          \
		return __float2uint_##rounding((float)a);                                          \
	}                                                                                          \
	__CENOTE_DEVICE__ long long __CENOTE_NAME(__, 2ll_##rounding)(__CENOTE_NUMBER a)           \
	{                                                                                          \
		return __float2ll_##rounding((float)a);                                            \
	}                                                                                          \
	__CENOTE_DEVICE__ unsigned long long __CENOTE_NAME(__, 2ull_##rounding)(__CENOTE_NUMBER a) \
	{                                                                                          \
		return __float2ull_##rounding((float)a);                                           \
	}                                                                                          \
	__CENOTE_DEVICE__ short __CENOTE_NAME(__, 2short_##rounding)(__CENOTE_NUMBER a)            \
	{                                                                                          \
		int whole = __float2int_##rounding((float)a);                                      \
		return (short)(whole < -32768 ? -32768 : whole > 32767 ? 32767 : whole);           \
	}                                                                                          \
	__CENOTE_DEVICE__ unsigned short __CENOTE_NAME(__, 2ushort_##rounding)(__CENOTE_NUMBER a)  \
	{                                                                                          \
		unsigned int whole = __float2uint_##rounding((float)a);                            \
		return (unsigned short)(whole > 65535 ? 65535 : whole);                            \
	}
__CENOTE_NARROW_ROUNDED(rn, __CENOTE_BITS(rn))
__CENOTE_NARROW_ROUNDED(rz, __CENOTE_BITS(rz))
__CENOTE_NARROW_ROUNDED(rd, __CENOTE_BITS(rd))
__CENOTE_NARROW_ROUNDED(ru, __CENOTE_BITS(ru))
#undef __CENOTE_NARROW_ROUNDED

__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__ll2, _rn)(long long a)
{
	return __CENOTE_NUMBER(a);
}

__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__ull2, _rn)(unsigned long long a)
{
	return __CENOTE_NUMBER(a);
}

__CENOTE_BOTH__ short __CENOTE_NAME(__, _as_short)(__CENOTE_NUMBER a)
{
	return (short)a.__x;
}

__CENOTE_BOTH__ unsigned short __CENOTE_NAME(__, _as_ushort)(__CENOTE_NUMBER a)
{
	return a.__x;
}

__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__short_as_, )(short a)
{
	return __CENOTE_NUMBER::__cenote_bits((unsigned short)a);
}

__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__ushort_as_, )(unsigned short a)
{
	return __CENOTE_NUMBER::__cenote_bits(a);
}

/*
 * ---- Pairs ----------------------------------------------------------------------------------------------------------
 */

#define __CENOTE_NARROW_TWO(name, parameters, first, second) \
	__CENOTE_BOTH__ __CENOTE_PAIR name parameters        \
	{                                                    \
		return __CENOTE_PAIR(first, second);         \
	}
__CENOTE_NARROW_TWO(__CENOTE_NAME(__halves2, 2), (__CENOTE_NUMBER a, __CENOTE_NUMBER b), a, b)
__CENOTE_NARROW_TWO(__CENOTE_NAME(make_, 2), (__CENOTE_NUMBER a, __CENOTE_NUMBER b), a, b)
__CENOTE_NARROW_TWO(__CENOTE_TWICE, (__CENOTE_NUMBER a), a, a)
__CENOTE_NARROW_TWO(__CENOTE_NAME(__float2, 2_rn), (float a), __CENOTE_NUMBER(a), __CENOTE_NUMBER(a))
__CENOTE_NARROW_TWO(__CENOTE_NAME(__floats2, 2_rn), (float a, float b), __CENOTE_NUMBER(a), __CENOTE_NUMBER(b))
__CENOTE_NARROW_TWO(__CENOTE_NAME(__float22, 2_rn), (float2 a), __CENOTE_NUMBER(a.x), __CENOTE_NUMBER(a.y))
__CENOTE_NARROW_TWO(__CENOTE_NAME(__low2, 2), (__CENOTE_PAIR a), a.x, a.x)
__CENOTE_NARROW_TWO(__CENOTE_NAME(__high2, 2), (__CENOTE_PAIR a), a.y, a.y)
__CENOTE_NARROW_TWO(__lowhigh2highlow, (__CENOTE_PAIR a), a.y, a.x)
__CENOTE_NARROW_TWO(__CENOTE_NAME(__lows2, 2), (__CENOTE_PAIR a, __CENOTE_PAIR b), a.x, b.x)
__CENOTE_NARROW_TWO(__CENOTE_NAME(__highs2, 2), (__CENOTE_PAIR a, __CENOTE_PAIR b), a.y, b.y)
#undef __CENOTE_NARROW_TWO

__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__low2, )(__CENOTE_PAIR a)
{
	return a.x;
}

__CENOTE_BOTH__ __CENOTE_NUMBER __CENOTE_NAME(__high2, )(__CENOTE_PAIR a)
{
	return a.y;
}

__CENOTE_BOTH__ float __low2float(__CENOTE_PAIR a)
{
	return (float)a.x;
}

__CENOTE_BOTH__ float __high2float(__CENOTE_PAIR a)
{
	return (float)a.y;
}

__CENOTE_BOTH__ float2 __CENOTE_NAME(__, 22float2)(__CENOTE_PAIR a)
{
	float2 r;
	r.x = (float)a.x, r.y = (float)a.y;
	return r;
}

/*
 * ---- Arithmetic -----------------------------------------------------------------------------------------------------
 */

/* To [0, 1]; NaN becomes 0. */
__CENOTE_BOTH__ __CENOTE_NUMBER __cenote_narrow_saturate(__CENOTE_NUMBER a)
{
	float value = (float)a;
	return value > 0 ? (value < 1 ? a : __CENOTE_NUMBER(1)) : __CENOTE_NUMBER(0);
}

#define __CENOTE_NARROW_SIGN(name, sign)                                                      \
	__CENOTE_BOTH__ __CENOTE_NUMBER __h##name(__CENOTE_NUMBER a, __CENOTE_NUMBER b)       \
	{                                                                                     \
		return a sign b;                                                              \
	}                                                                                     \
	__CENOTE_BOTH__ __CENOTE_NUMBER __h##name##_rn(__CENOTE_NUMBER a, __CENOTE_NUMBER b)  \
	{                                                                                     \
		return a sign b;                                                              \
	}                                                                                     \
	__CENOTE_BOTH__ __CENOTE_NUMBER __h##name##_sat(__CENOTE_NUMBER a, __CENOTE_NUMBER b) \
	{                                                                                     \
		return __cenote_narrow_saturate(a sign b);                                    \
	}                                                                                     \
	__CENOTE_BOTH__ __CENOTE_PAIR __h##name##2(__CENOTE_PAIR a, __CENOTE_PAIR b)          \
	{                                                                                     \
		return a sign b;                                                              \
	}                                                                                     \
	__CENOTE_BOTH__ __CENOTE_PAIR __h##name##2_rn(__CENOTE_PAIR a, __CENOTE_PAIR b)       \
	{                                                                                     \
		return a sign b;                                                              \
	}                                                                                     \
	__CENOTE_BOTH__ __CENOTE_PAIR __h##name##2_sat(__CENOTE_PAIR a, __CENOTE_PAIR b)      \
	{                                                                                     \
		return __CENOTE_PAIR(__h##name##_sat(a.x, b.x), __h##name##_sat(a.y, b.y));   \
	}
__CENOTE_NARROW_SIGN(add, +)
__CENOTE_NARROW_SIGN(sub, -)
__CENOTE_NARROW_SIGN(mul, *)
#undef __CENOTE_NARROW_SIGN

__CENOTE_BOTH__ __CENOTE_NUMBER __hdiv(__CENOTE_NUMBER a, __CENOTE_NUMBER b)
{
	return a / b;
}

__CENOTE_BOTH__ __CENOTE_PAIR __h2div(__CENOTE_PAIR a, __CENOTE_PAIR b)
{
	return a / b;
}

__CENOTE_BOTH__ __CENOTE_NUMBER __hfma(__CENOTE_NUMBER a, __CENOTE_NUMBER b, __CENOTE_NUMBER c)
{
	return __CENOTE_NUMBER::__cenote_bits(__CENOTE_BITS(fma)(a.__x, b.__x, c.__x));
}

__CENOTE_BOTH__ __CENOTE_NUMBER __hfma_sat(__CENOTE_NUMBER a, __CENOTE_NUMBER b, __CENOTE_NUMBER c)
{
	return __cenote_narrow_saturate(__hfma(a, b, c));
}

__CENOTE_BOTH__ __CENOTE_NUMBER __hfma_relu(__CENOTE_NUMBER a, __CENOTE_NUMBER b, __CENOTE_NUMBER c)
{
	__CENOTE_NUMBER r = __hfma(a, b, c);
	return (float)r <= 0 ? __CENOTE_NUMBER(0) : r;
}

__CENOTE_BOTH__ __CENOTE_PAIR __hfma2(__CENOTE_PAIR a, __CENOTE_PAIR b, __CENOTE_PAIR c)
{
	return __CENOTE_PAIR(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}

__CENOTE_BOTH__ __CENOTE_PAIR __hfma2_sat(__CENOTE_PAIR a, __CENOTE_PAIR b, __CENOTE_PAIR c)
{
	return __CENOTE_PAIR(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));
}

__CENOTE_BOTH__ __CENOTE_PAIR __hfma2_relu(__CENOTE_PAIR a, __CENOTE_PAIR b, __CENOTE_PAIR c)
{
	return __CENOTE_PAIR(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y));
}

__CENOTE_BOTH__ __CENOTE_NUMBER __hneg(__CENOTE_NUMBER a)
{
	return -a;
}

__CENOTE_BOTH__ __CENOTE_PAIR __hneg2(__CENOTE_PAIR a)
{
	return -a;
}

__CENOTE_BOTH__ __CENOTE_NUMBER __habs(__CENOTE_NUMBER a)
{
	return __CENOTE_NUMBER::__cenote_bits((unsigned short)(a.__x & 0x7fff));
}

__CENOTE_BOTH__ __CENOTE_PAIR __habs2(__CENOTE_PAIR a)
{
	return __CENOTE_PAIR(__habs(a.x), __habs(a.y));
}

/*
 * ---- Comparison -----------------------------------------------------------------------------------------------------
 */

__CENOTE_BOTH__ bool __hisnan(__CENOTE_NUMBER a)
{
	return (a.__x & 0x7fff) > __CENOTE_INFINITY;
}

__CENOTE_BOTH__ int __hisinf(__CENOTE_NUMBER a)
{
	return (a.__x & 0x7fff) != __CENOTE_INFINITY ? 0 : a.__x >> 15 ? -1 : 1;
}

/* False with a NaN, or true (u); of pairs a 1 or 0 each, or whether it holds for both (b). */
#define __CENOTE_NARROW_COMPARE(name, sign)                                           \
	__CENOTE_BOTH__ bool __h##name(__CENOTE_NUMBER a, __CENOTE_NUMBER b)          \
	{                                                                             \
		return !__hisnan(a) && !__hisnan(b) && a sign b;                      \
	}                                                                             \
	__CENOTE_BOTH__ bool __h##name##u(__CENOTE_NUMBER a, __CENOTE_NUMBER b)       \
	{                                                                             \
		return __hisnan(a) || __hisnan(b) || a sign b;                        \
	}                                                                             \
	__CENOTE_BOTH__ __CENOTE_PAIR __h##name##2(__CENOTE_PAIR a, __CENOTE_PAIR b)  \
	{                                                                             \
		return __CENOTE_PAIR(__CENOTE_NUMBER((int)__h##name(a.x, b.x)),       \
				     __CENOTE_NUMBER((int)__h##name(a.y, b.y)));      \
	}                                                                             \
	__CENOTE_BOTH__ __CENOTE_PAIR __h##name##u2(__CENOTE_PAIR a, __CENOTE_PAIR b) \
	{                                                                             \
		return __CENOTE_PAIR(__CENOTE_NUMBER((int)__h##name##u(a.x, b.x)),    \
				     __CENOTE_NUMBER((int)__h##name##u(a.y, b.y)));   \
	}                                                                             \
	__CENOTE_BOTH__ bool __hb##name##2(__CENOTE_PAIR a, __CENOTE_PAIR b)          \
	{                                                                             \
		return __h##name(a.x, b.x) && __h##name(a.y, b.y);                    \
	}                                                                             \
	__CENOTE_BOTH__ bool __hb##name##u2(__CENOTE_PAIR a, __CENOTE_PAIR b)         \
	{                                                                             \
		return __h##name##u(a.x, b.x) && __h##name##u(a.y, b.y);              \
	}
__CENOTE_NARROW_COMPARE(eq, ==)
__CENOTE_NARROW_COMPARE(ne, !=)
__CENOTE_NARROW_COMPARE(lt, <)
__CENOTE_NARROW_COMPARE(le, <=)
__CENOTE_NARROW_COMPARE(gt, >)
__CENOTE_NARROW_COMPARE(ge, >=)
#undef __CENOTE_NARROW_COMPARE

/* The other number where one is NaN, or NaN (_nan); -0 is below +0. */
#define __CENOTE_NARROW_EXTREME(name, sign, zero)                                                             \
	__CENOTE_BOTH__ __CENOTE_NUMBER __h##name(__CENOTE_NUMBER a, __CENOTE_NUMBER b)                       \
	{                                                                                                     \
		if (__hisnan(a) || __hisnan(b))                                                               \
			return __hisnan(a) ? (__hisnan(b) ? __CENOTE_NUMBER::__cenote_bits(0x7fff) : b) : a;  \
		if ((float)a == 0 && (float)b == 0)                                                           \
			return __CENOTE_NUMBER::__cenote_bits((unsigned short)(a.__x zero b.__x));            \
		return a sign b ? a : b;                                                                      \
	}                                                                                                     \
	__CENOTE_BOTH__ __CENOTE_NUMBER __h##name##_nan(__CENOTE_NUMBER a, __CENOTE_NUMBER b)                 \
	{                                                                                                     \
		return __hisnan(a) || __hisnan(b) ? __CENOTE_NUMBER::__cenote_bits(0x7fff) : __h##name(a, b); \
	}                                                                                                     \
	__CENOTE_BOTH__ __CENOTE_PAIR __h##name##2(__CENOTE_PAIR a, __CENOTE_PAIR b)                          \
	{                                                                                                     \
		return __CENOTE_PAIR(__h##name(a.x, b.x), __h##name(a.y, b.y));                               \
	}                                                                                                     \
	__CENOTE_BOTH__ __CENOTE_PAIR __h##name##2_nan(__CENOTE_PAIR a, __CENOTE_PAIR b)                      \
	{                                                                                                     \
		return __CENOTE_PAIR(__h##name##_nan(a.x, b.x), __h##name##_nan(a.y, b.y));                   \
	}
__CENOTE_NARROW_EXTREME(min, <, |)
__CENOTE_NARROW_EXTREME(max, >, &)
#undef __CENOTE_NARROW_EXTREME

/*
 * ---- Mathematics ----------------------------------------------------------------------------------------------------
 */

#define __CENOTE_NARROW_FUNCTION(name, function)                     \
	__CENOTE_DEVICE__ __CENOTE_NUMBER h##name(__CENOTE_NUMBER a) \
	{                                                            \
		return __CENOTE_NUMBER(function((float)a));          \
	}                                                            \
	__CENOTE_DEVICE__ __CENOTE_PAIR h2##name(__CENOTE_PAIR a)    \
	{                                                            \
		return __CENOTE_PAIR(h##name(a.x), h##name(a.y));    \
	}
__CENOTE_NARROW_FUNCTION(sqrt, sqrtf)
__CENOTE_NARROW_FUNCTION(rsqrt, rsqrtf)
__CENOTE_NARROW_FUNCTION(rcp, __frcp_rn)
__CENOTE_NARROW_FUNCTION(exp, expf)
__CENOTE_NARROW_FUNCTION(exp2, exp2f)
__CENOTE_NARROW_FUNCTION(exp10, exp10f)
__CENOTE_NARROW_FUNCTION(log, logf)
__CENOTE_NARROW_FUNCTION(log2, log2f)
__CENOTE_NARROW_FUNCTION(log10, log10f)
__CENOTE_NARROW_FUNCTION(sin, sinf)
__CENOTE_NARROW_FUNCTION(cos, cosf)
__CENOTE_NARROW_FUNCTION(tanh, tanhf)
__CENOTE_NARROW_FUNCTION(floor, floorf)
__CENOTE_NARROW_FUNCTION(ceil, ceilf)
__CENOTE_NARROW_FUNCTION(trunc, truncf)
__CENOTE_NARROW_FUNCTION(rint, rintf)
#undef __CENOTE_NARROW_FUNCTION

/*
 * ---- Warps, memory, atomics -----------------------------------------------------------------------------------------
 */

#define __CENOTE_NARROW_SHUFFLE(name, lane_type)                                                         \
	__CENOTE_DEVICE__ __CENOTE_NUMBER name(unsigned int mask, __CENOTE_NUMBER value, lane_type lane, \
					       int width = warpSize)                                     \
	{                                                                                                \
		return __CENOTE_NUMBER::__cenote_bits(                                                   \
			(unsigned short)name(mask, (unsigned int)value.__x, lane, width));               \
	}                                                                                                \
	__CENOTE_DEVICE__ __CENOTE_PAIR name(unsigned int mask, __CENOTE_PAIR value, lane_type lane,     \
					     int width = warpSize)                                       \
	{                                                                                                \
		unsigned int bits;                                                                       \
		memcpy(&bits, &value, sizeof bits);                                                      \
		bits = name(mask, bits, lane, width);                                                    \
		memcpy(&value, &bits, sizeof bits);                                                      \
		return value;                                                                            \
	}
__CENOTE_NARROW_SHUFFLE(__shfl_sync, int)
__CENOTE_NARROW_SHUFFLE(__shfl_up_sync, unsigned int)
__CENOTE_NARROW_SHUFFLE(__shfl_down_sync, unsigned int)
__CENOTE_NARROW_SHUFFLE(__shfl_xor_sync, int)
#undef __CENOTE_NARROW_SHUFFLE

#define __CENOTE_NARROW_LOAD(name)                                                            \
	__CENOTE_DEVICE__ __CENOTE_NUMBER name(const __CENOTE_NUMBER *address)                \
	{                                                                                     \
		return __CENOTE_NUMBER::__cenote_bits(name((const unsigned short *)address)); \
	}                                                                                     \
	__CENOTE_DEVICE__ __CENOTE_PAIR name(const __CENOTE_PAIR *address)                    \
	{                                                                                     \
		__CENOTE_PAIR value;                                                          \
		unsigned int bits = name((const unsigned int *)address);                      \
		memcpy(&value, &bits, sizeof bits);                                           \
		return value;                                                                 \
	}
__CENOTE_NARROW_LOAD(__ldg)
__CENOTE_NARROW_LOAD(__ldca)
__CENOTE_NARROW_LOAD(__ldcg)
__CENOTE_NARROW_LOAD(__ldcs)
__CENOTE_NARROW_LOAD(__ldlu)
__CENOTE_NARROW_LOAD(__ldcv)
#undef __CENOTE_NARROW_LOAD

__CENOTE_DEVICE__ __CENOTE_NUMBER atomicAdd(__CENOTE_NUMBER *address, __CENOTE_NUMBER value)
{
	return __CENOTE_NUMBER::__cenote_bits(__CENOTE_BITS(atomic_add)((unsigned short *)address, value.__x));
}

__CENOTE_DEVICE__ __CENOTE_PAIR atomicAdd(__CENOTE_PAIR *address, __CENOTE_PAIR value)
{
	unsigned int bits;
	memcpy(&bits, &value, sizeof bits);
	bits = __CENOTE_BITS(atomic_add2)((unsigned int *)address, bits);
	memcpy(&value, &bits, sizeof bits);
	return value;
}

/* SPDX-License-Identifier: MIT */
/*
 * Functions of half precision by CUDA's names. Those of both sides are arithmetic, comparison and conversion; those of
 * a device alone are mathematics, which is that of float rounded to half, warp functions, loads and atomics.
 */
#if !defined(__CENOTE_DEVICE_HALF_FUNCTIONS_H__)
#define __CENOTE_DEVICE_HALF_FUNCTIONS_H__

#include "../cuda_runtime.h"
#include "half_types.h"

/*
 * ---- Conversions ----------------------------------------------------------------------------------------------------
 */

__CENOTE_HALF__ __half __float2half(float a)
{
	return __half(a);
}

__CENOTE_HALF__ __half __double2half(double a)
{
	return __half(a);
}

__CENOTE_HALF__ float __half2float(__half a)
{
	return (float)a;
}

#define __CENOTE_HALF_ROUNDED(rounding)                                                  \
	__CENOTE_HALF__ __half __float2half_##rounding(float a)                          \
	{                                                                                \
		return __half::__cenote_bits(__cenote_half_##rounding(a));               \
	}                                                                                \
	__CENOTE_HALF__ __half __int2half_##rounding(int a)                              \
	{                                                                                \
		return __half::__cenote_bits(__cenote_half_##rounding(a));               \
	}                                                                                \
	__CENOTE_HALF__ __half __uint2half_##rounding(unsigned int a)                    \
	{                                                                                \
		return __half::__cenote_bits(__cenote_half_##rounding(a));               \
	}                                                                                \
	__CENOTE_HALF__ __half __short2half_##rounding(short a)                          \
	{                                                                                \
		return __half::__cenote_bits(__cenote_half_##rounding((int)a));          \
	}                                                                                \
	__CENOTE_HALF__ __half __ushort2half_##rounding(unsigned short a)                \
	{                                                                                \
		return __half::__cenote_bits(__cenote_half_##rounding((int)a));          \
	}                                                                                \
	__CENOTE_DEVICE__ int __half2int_##rounding(__half a)                            \
	{                                                                                \
		return __float2int_##rounding((float)a);                                 \
	}                                                                                \
	__CENOTE_DEVICE__ unsigned int __half2uint_##rounding(__half a)                  \
	{                                                                                \
		return __float2uint_##rounding((float)a);                                \
	}                                                                                \
	__CENOTE_DEVICE__ long long __half2ll_##rounding(__half a)                       \
	{                                                                                \
		return __float2ll_##rounding((float)a);                                  \
	}                                                                                \
	__CENOTE_DEVICE__ unsigned long long __half2ull_##rounding(__half a)             \
	{                                                                                \
		return __float2ull_##rounding((float)a);                                 \
	}                                                                                \
	__CENOTE_DEVICE__ short __half2short_##rounding(__half a)                        \
	{                                                                                \
		int whole = __float2int_##rounding((float)a);                            \
		return (short)(whole < -32768 ? -32768 : whole > 32767 ? 32767 : whole); \
	}                                                                                \
	__CENOTE_DEVICE__ unsigned short __half2ushort_##rounding(__half a)              \
	{                                                                                \
		unsigned int whole = __float2uint_##rounding((float)a);                  \
		return (unsigned short)(whole > 65535 ? 65535 : whole);                  \
	}
__CENOTE_HALF_ROUNDED(rn)
__CENOTE_HALF_ROUNDED(rz)
__CENOTE_HALF_ROUNDED(rd)
__CENOTE_HALF_ROUNDED(ru)
#undef __CENOTE_HALF_ROUNDED

__CENOTE_HALF__ __half __ll2half_rn(long long a)
{
	return __half(a);
}

__CENOTE_HALF__ __half __ull2half_rn(unsigned long long a)
{
	return __half(a);
}

__CENOTE_HALF__ short __half_as_short(__half a)
{
	return (short)a.__x;
}

__CENOTE_HALF__ unsigned short __half_as_ushort(__half a)
{
	return a.__x;
}

__CENOTE_HALF__ __half __short_as_half(short a)
{
	return __half::__cenote_bits((unsigned short)a);
}

__CENOTE_HALF__ __half __ushort_as_half(unsigned short a)
{
	return __half::__cenote_bits(a);
}

/*
 * ---- Pairs ----------------------------------------------------------------------------------------------------------
 */

#define __CENOTE_PAIR(name, parameters, first, second) \
	__CENOTE_HALF__ __half2 name parameters        \
	{                                              \
		return __half2(first, second);         \
	}
__CENOTE_PAIR(__halves2half2, (__half a, __half b), a, b)
__CENOTE_PAIR(make_half2, (__half a, __half b), a, b)
__CENOTE_PAIR(__half2half2, (__half a), a, a)
__CENOTE_PAIR(__float2half2_rn, (float a), __half(a), __half(a))
__CENOTE_PAIR(__floats2half2_rn, (float a, float b), __half(a), __half(b))
__CENOTE_PAIR(__float22half2_rn, (float2 a), __half(a.x), __half(a.y))
__CENOTE_PAIR(__low2half2, (__half2 a), a.x, a.x)
__CENOTE_PAIR(__high2half2, (__half2 a), a.y, a.y)
__CENOTE_PAIR(__lowhigh2highlow, (__half2 a), a.y, a.x)
__CENOTE_PAIR(__lows2half2, (__half2 a, __half2 b), a.x, b.x)
__CENOTE_PAIR(__highs2half2, (__half2 a, __half2 b), a.y, b.y)
#undef __CENOTE_PAIR

__CENOTE_HALF__ __half __low2half(__half2 a)
{
	return a.x;
}

__CENOTE_HALF__ __half __high2half(__half2 a)
{
	return a.y;
}

__CENOTE_HALF__ float __low2float(__half2 a)
{
	return (float)a.x;
}

__CENOTE_HALF__ float __high2float(__half2 a)
{
	return (float)a.y;
}

__CENOTE_HALF__ float2 __half22float2(__half2 a)
{
	float2 r;
	r.x = (float)a.x, r.y = (float)a.y;
	return r;
}

/*
 * ---- Arithmetic -----------------------------------------------------------------------------------------------------
 */

/* To [0, 1]; NaN becomes 0. */
__CENOTE_HALF__ __half __cenote_half_saturate(__half a)
{
	float value = (float)a;
	return value > 0 ? (value < 1 ? a : __half(1)) : __half(0);
}

#define __CENOTE_HALF2(name, sign)                                                    \
	__CENOTE_HALF__ __half __h##name(__half a, __half b)                          \
	{                                                                             \
		return a sign b;                                                      \
	}                                                                             \
	__CENOTE_HALF__ __half __h##name##_rn(__half a, __half b)                     \
	{                                                                             \
		return a sign b;                                                      \
	}                                                                             \
	__CENOTE_HALF__ __half __h##name##_sat(__half a, __half b)                    \
	{                                                                             \
		return __cenote_half_saturate(a sign b);                              \
	}                                                                             \
	__CENOTE_HALF__ __half2 __h##name##2(__half2 a, __half2 b)                    \
	{                                                                             \
		return a sign b;                                                      \
	}                                                                             \
	__CENOTE_HALF__ __half2 __h##name##2_rn(__half2 a, __half2 b)                 \
	{                                                                             \
		return a sign b;                                                      \
	}                                                                             \
	__CENOTE_HALF__ __half2 __h##name##2_sat(__half2 a, __half2 b)                \
	{                                                                             \
		return __half2(__h##name##_sat(a.x, b.x), __h##name##_sat(a.y, b.y)); \
	}
__CENOTE_HALF2(add, +)
__CENOTE_HALF2(sub, -)
__CENOTE_HALF2(mul, *)
#undef __CENOTE_HALF2

__CENOTE_HALF__ __half __hdiv(__half a, __half b)
{
	return a / b;
}

__CENOTE_HALF__ __half2 __h2div(__half2 a, __half2 b)
{
	return a / b;
}

__CENOTE_HALF__ __half __hfma(__half a, __half b, __half c)
{
	return __half::__cenote_bits(__cenote_half_fma(a.__x, b.__x, c.__x));
}

__CENOTE_HALF__ __half __hfma_sat(__half a, __half b, __half c)
{
	return __cenote_half_saturate(__hfma(a, b, c));
}

__CENOTE_HALF__ __half __hfma_relu(__half a, __half b, __half c)
{
	__half r = __hfma(a, b, c);
	return (float)r <= 0 ? __half(0) : r;
}

__CENOTE_HALF__ __half2 __hfma2(__half2 a, __half2 b, __half2 c)
{
	return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}

__CENOTE_HALF__ __half2 __hfma2_sat(__half2 a, __half2 b, __half2 c)
{
	return __half2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));
}

__CENOTE_HALF__ __half2 __hfma2_relu(__half2 a, __half2 b, __half2 c)
{
	return __half2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y));
}

__CENOTE_HALF__ __half __hneg(__half a)
{
	return -a;
}

__CENOTE_HALF__ __half2 __hneg2(__half2 a)
{
	return -a;
}

__CENOTE_HALF__ __half __habs(__half a)
{
	return __half::__cenote_bits((unsigned short)(a.__x & 0x7fff));
}

__CENOTE_HALF__ __half2 __habs2(__half2 a)
{
	return __half2(__habs(a.x), __habs(a.y));
}

/*
 * ---- Comparison -----------------------------------------------------------------------------------------------------
 */

__CENOTE_HALF__ bool __hisnan(__half a)
{
	return (a.__x & 0x7fff) > 0x7c00;
}

__CENOTE_HALF__ int __hisinf(__half a)
{
	return a.__x == 0x7c00 ? 1 : a.__x == 0xfc00 ? -1 : 0;
}

/* False with a NaN, or true (u); of pairs a 1 or 0 each, or whether it holds for both (b). */
#define __CENOTE_HALF_COMPARE(name, sign)                                                                 \
	__CENOTE_HALF__ bool __h##name(__half a, __half b)                                                \
	{                                                                                                 \
		return !__hisnan(a) && !__hisnan(b) && a sign b;                                          \
	}                                                                                                 \
	__CENOTE_HALF__ bool __h##name##u(__half a, __half b)                                             \
	{                                                                                                 \
		return __hisnan(a) || __hisnan(b) || a sign b;                                            \
	}                                                                                                 \
	__CENOTE_HALF__ __half2 __h##name##2(__half2 a, __half2 b)                                        \
	{                                                                                                 \
		return __half2(__half((int)__h##name(a.x, b.x)), __half((int)__h##name(a.y, b.y)));       \
	}                                                                                                 \
	__CENOTE_HALF__ __half2 __h##name##u2(__half2 a, __half2 b)                                       \
	{                                                                                                 \
		return __half2(__half((int)__h##name##u(a.x, b.x)), __half((int)__h##name##u(a.y, b.y))); \
	}                                                                                                 \
	__CENOTE_HALF__ bool __hb##name##2(__half2 a, __half2 b)                                          \
	{                                                                                                 \
		return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                        \
	}                                                                                                 \
	__CENOTE_HALF__ bool __hb##name##u2(__half2 a, __half2 b)                                         \
	{                                                                                                 \
		return __h##name##u(a.x, b.x) && __h##name##u(a.y, b.y);                                  \
	}
__CENOTE_HALF_COMPARE(eq, ==)
__CENOTE_HALF_COMPARE(ne, !=)
__CENOTE_HALF_COMPARE(lt, <)
__CENOTE_HALF_COMPARE(le, <=)
__CENOTE_HALF_COMPARE(gt, >)
__CENOTE_HALF_COMPARE(ge, >=)
#undef __CENOTE_HALF_COMPARE

/* The other number where one is NaN, or NaN (_nan); -0 is below +0. */
#define __CENOTE_HALF_EXTREME(name, sign, zero)                                                      \
	__CENOTE_HALF__ __half __h##name(__half a, __half b)                                         \
	{                                                                                            \
		if (__hisnan(a) || __hisnan(b))                                                      \
			return __hisnan(a) ? (__hisnan(b) ? __half::__cenote_bits(0x7fff) : b) : a;  \
		if ((float)a == 0 && (float)b == 0)                                                  \
			return __half::__cenote_bits((unsigned short)(a.__x zero b.__x));            \
		return a sign b ? a : b;                                                             \
	}                                                                                            \
	__CENOTE_HALF__ __half __h##name##_nan(__half a, __half b)                                   \
	{                                                                                            \
		return __hisnan(a) || __hisnan(b) ? __half::__cenote_bits(0x7fff) : __h##name(a, b); \
	}                                                                                            \
	__CENOTE_HALF__ __half2 __h##name##2(__half2 a, __half2 b)                                   \
	{                                                                                            \
		return __half2(__h##name(a.x, b.x), __h##name(a.y, b.y));                            \
	}                                                                                            \
	__CENOTE_HALF__ __half2 __h##name##2_nan(__half2 a, __half2 b)                               \
	{                                                                                            \
		return __half2(__h##name##_nan(a.x, b.x), __h##name##_nan(a.y, b.y));                \
	}
__CENOTE_HALF_EXTREME(min, <, |)
__CENOTE_HALF_EXTREME(max, >, &)
#undef __CENOTE_HALF_EXTREME

/*
 * ---- Mathematics ----------------------------------------------------------------------------------------------------
 */

#define __CENOTE_HALF_FUNCTION(name, function)              \
	__CENOTE_DEVICE__ __half h##name(__half a)          \
	{                                                   \
		return __half(function((float)a));          \
	}                                                   \
	__CENOTE_DEVICE__ __half2 h2##name(__half2 a)       \
	{                                                   \
		return __half2(h##name(a.x), h##name(a.y)); \
	}
__CENOTE_HALF_FUNCTION(sqrt, sqrtf)
__CENOTE_HALF_FUNCTION(rsqrt, rsqrtf)
__CENOTE_HALF_FUNCTION(rcp, __frcp_rn)
__CENOTE_HALF_FUNCTION(exp, expf)
__CENOTE_HALF_FUNCTION(exp2, exp2f)
__CENOTE_HALF_FUNCTION(exp10, exp10f)
__CENOTE_HALF_FUNCTION(log, logf)
__CENOTE_HALF_FUNCTION(log2, log2f)
__CENOTE_HALF_FUNCTION(log10, log10f)
__CENOTE_HALF_FUNCTION(sin, sinf)
__CENOTE_HALF_FUNCTION(cos, cosf)
__CENOTE_HALF_FUNCTION(tanh, tanhf)
__CENOTE_HALF_FUNCTION(floor, floorf)
__CENOTE_HALF_FUNCTION(ceil, ceilf)
__CENOTE_HALF_FUNCTION(trunc, truncf)
__CENOTE_HALF_FUNCTION(rint, rintf)
#undef __CENOTE_HALF_FUNCTION

/*
 * ---- Warps, memory, atomics -----------------------------------------------------------------------------------------
 */

#define __CENOTE_HALF_SHUFFLE(name, lane_type)                                                                  \
	__CENOTE_DEVICE__ __half name(unsigned int mask, __half value, lane_type lane, int width = warpSize)    \
	{                                                                                                       \
		return __half::__cenote_bits((unsigned short)name(mask, (unsigned int)value.__x, lane, width)); \
	}                                                                                                       \
	__CENOTE_DEVICE__ __half2 name(unsigned int mask, __half2 value, lane_type lane, int width = warpSize)  \
	{                                                                                                       \
		unsigned int bits;                                                                              \
		memcpy(&bits, &value, sizeof bits);                                                             \
		bits = name(mask, bits, lane, width);                                                           \
		memcpy(&value, &bits, sizeof bits);                                                             \
		return value;                                                                                   \
	}
__CENOTE_HALF_SHUFFLE(__shfl_sync, int)
__CENOTE_HALF_SHUFFLE(__shfl_up_sync, unsigned int)
__CENOTE_HALF_SHUFFLE(__shfl_down_sync, unsigned int)
__CENOTE_HALF_SHUFFLE(__shfl_xor_sync, int)
#undef __CENOTE_HALF_SHUFFLE

#define __CENOTE_HALF_LOAD(name)                                                     \
	__CENOTE_DEVICE__ __half name(const __half *address)                         \
	{                                                                            \
		return __half::__cenote_bits(name((const unsigned short *)address)); \
	}                                                                            \
	__CENOTE_DEVICE__ __half2 name(const __half2 *address)                       \
	{                                                                            \
		__half2 value;                                                       \
		unsigned int bits = name((const unsigned int *)address);             \
		memcpy(&value, &bits, sizeof bits);                                  \
		return value;                                                        \
	}
__CENOTE_HALF_LOAD(__ldg)
__CENOTE_HALF_LOAD(__ldca)
__CENOTE_HALF_LOAD(__ldcg)
__CENOTE_HALF_LOAD(__ldcs)
__CENOTE_HALF_LOAD(__ldlu)
__CENOTE_HALF_LOAD(__ldcv)
#undef __CENOTE_HALF_LOAD

__CENOTE_DEVICE__ __half atomicAdd(__half *address, __half value)
{
	unsigned short before;
	asm volatile("atom.add.noftz.f16 %0, [%1], %2;" : "=h"(before) : "l"(address), "h"(value.__x) : "memory");
	return __half::__cenote_bits(before);
}

__CENOTE_DEVICE__ __half2 atomicAdd(__half2 *address, __half2 value)
{
	unsigned int bits;
	memcpy(&bits, &value, sizeof bits);
	asm volatile("atom.add.noftz.f16x2 %0, [%1], %0;" : "+r"(bits) : "l"(address) : "memory");
	memcpy(&value, &bits, sizeof bits);
	return value;
}

#endif /* __CENOTE_DEVICE_HALF_FUNCTIONS_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * Functions of bfloat16 by CUDA's names. Those of both sides are arithmetic, comparison and conversion; those of
 * a device alone are mathematics, which is that of float rounded to bfloat16, warp functions, loads and atomics.
 */
#if !defined(__CENOTE_DEVICE_BF16_FUNCTIONS_H__)
#define __CENOTE_DEVICE_BF16_FUNCTIONS_H__

#include "../cuda_runtime.h"
#include "bf16_types.h"

/*
 * ---- Conversions ----------------------------------------------------------------------------------------------------
 */

__CENOTE_BF16__ __nv_bfloat16 __float2bfloat16(float a)
{
	return __nv_bfloat16(a);
}

__CENOTE_BF16__ __nv_bfloat16 __double2bfloat16(double a)
{
	return __nv_bfloat16(a);
}

__CENOTE_BF16__ float __bfloat162float(__nv_bfloat16 a)
{
	return (float)a;
}

#define __CENOTE_BF16_ROUNDED(rounding)                                                  \
	__CENOTE_BF16__ __nv_bfloat16 __float2bfloat16_##rounding(float a)               \
	{                                                                                \
		return __nv_bfloat16::__cenote_bits(__cenote_bf16_##rounding(a));        \
	}                                                                                \
	__CENOTE_BF16__ __nv_bfloat16 __int2bfloat16_##rounding(int a)                   \
	{                                                                                \
		return __nv_bfloat16::__cenote_bits(__cenote_bf16_##rounding(a));        \
	}                                                                                \
	__CENOTE_BF16__ __nv_bfloat16 __uint2bfloat16_##rounding(unsigned int a)         \
	{                                                                                \
		return __nv_bfloat16::__cenote_bits(__cenote_bf16_##rounding(a));        \
	}                                                                                \
	__CENOTE_BF16__ __nv_bfloat16 __short2bfloat16_##rounding(short a)               \
	{                                                                                \
		return __nv_bfloat16::__cenote_bits(__cenote_bf16_##rounding((int)a));   \
	}                                                                                \
	__CENOTE_BF16__ __nv_bfloat16 __ushort2bfloat16_##rounding(unsigned short a)     \
	{                                                                                \
		return __nv_bfloat16::__cenote_bits(__cenote_bf16_##rounding((int)a));   \
	}                                                                                \
	__CENOTE_DEVICE__ int __bfloat162int_##rounding(__nv_bfloat16 a)                 \
	{                                                                                \
		return __float2int_##rounding((float)a);                                 \
	}                                                                                \
	__CENOTE_DEVICE__ unsigned int __bfloat162uint_##rounding(__nv_bfloat16 a)       \
	{                                                                                \
		return __float2uint_##rounding((float)a);                                \
	}                                                                                \
	__CENOTE_DEVICE__ long long __bfloat162ll_##rounding(__nv_bfloat16 a)            \
	{                                                                                \
		return __float2ll_##rounding((float)a);                                  \
	}                                                                                \
	__CENOTE_DEVICE__ unsigned long long __bfloat162ull_##rounding(__nv_bfloat16 a)  \
	{                                                                                \
		return __float2ull_##rounding((float)a);                                 \
	}                                                                                \
	__CENOTE_DEVICE__ short __bfloat162short_##rounding(__nv_bfloat16 a)             \
	{                                                                                \
		int whole = __float2int_##rounding((float)a);                            \
		return (short)(whole < -32768 ? -32768 : whole > 32767 ? 32767 : whole); \
	}                                                                                \
	__CENOTE_DEVICE__ unsigned short __bfloat162ushort_##rounding(__nv_bfloat16 a)   \
	{                                                                                \
		unsigned int whole = __float2uint_##rounding((float)a);                  \
		return (unsigned short)(whole > 65535 ? 65535 : whole);                  \
	}
__CENOTE_BF16_ROUNDED(rn)
__CENOTE_BF16_ROUNDED(rz)
__CENOTE_BF16_ROUNDED(rd)
__CENOTE_BF16_ROUNDED(ru)
#undef __CENOTE_BF16_ROUNDED

__CENOTE_BF16__ __nv_bfloat16 __ll2bfloat16_rn(long long a)
{
	return __nv_bfloat16(a);
}

__CENOTE_BF16__ __nv_bfloat16 __ull2bfloat16_rn(unsigned long long a)
{
	return __nv_bfloat16(a);
}

__CENOTE_BF16__ short __bfloat16_as_short(__nv_bfloat16 a)
{
	return (short)a.__x;
}

__CENOTE_BF16__ unsigned short __bfloat16_as_ushort(__nv_bfloat16 a)
{
	return a.__x;
}

__CENOTE_BF16__ __nv_bfloat16 __short_as_bfloat16(short a)
{
	return __nv_bfloat16::__cenote_bits((unsigned short)a);
}

__CENOTE_BF16__ __nv_bfloat16 __ushort_as_bfloat16(unsigned short a)
{
	return __nv_bfloat16::__cenote_bits(a);
}

/*
 * ---- Pairs ----------------------------------------------------------------------------------------------------------
 */

#define __CENOTE_BF16_PAIR(name, parameters, first, second) \
	__CENOTE_BF16__ __nv_bfloat162 name parameters      \
	{                                                   \
		return __nv_bfloat162(first, second);       \
	}
__CENOTE_BF16_PAIR(__halves2bfloat162, (__nv_bfloat16 a, __nv_bfloat16 b), a, b)
__CENOTE_BF16_PAIR(make_bfloat162, (__nv_bfloat16 a, __nv_bfloat16 b), a, b)
__CENOTE_BF16_PAIR(__bfloat162bfloat162, (__nv_bfloat16 a), a, a)
__CENOTE_BF16_PAIR(__float2bfloat162_rn, (float a), __nv_bfloat16(a), __nv_bfloat16(a))
__CENOTE_BF16_PAIR(__floats2bfloat162_rn, (float a, float b), __nv_bfloat16(a), __nv_bfloat16(b))
__CENOTE_BF16_PAIR(__float22bfloat162_rn, (float2 a), __nv_bfloat16(a.x), __nv_bfloat16(a.y))
__CENOTE_BF16_PAIR(__low2bfloat162, (__nv_bfloat162 a), a.x, a.x)
__CENOTE_BF16_PAIR(__high2bfloat162, (__nv_bfloat162 a), a.y, a.y)
__CENOTE_BF16_PAIR(__lowhigh2highlow, (__nv_bfloat162 a), a.y, a.x)
__CENOTE_BF16_PAIR(__lows2bfloat162, (__nv_bfloat162 a, __nv_bfloat162 b), a.x, b.x)
__CENOTE_BF16_PAIR(__highs2bfloat162, (__nv_bfloat162 a, __nv_bfloat162 b), a.y, b.y)
#undef __CENOTE_BF16_PAIR

__CENOTE_BF16__ __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a)
{
	return a.x;
}

__CENOTE_BF16__ __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a)
{
	return a.y;
}

__CENOTE_BF16__ float __low2float(__nv_bfloat162 a)
{
	return (float)a.x;
}

__CENOTE_BF16__ float __high2float(__nv_bfloat162 a)
{
	return (float)a.y;
}

__CENOTE_BF16__ float2 __bfloat1622float2(__nv_bfloat162 a)
{
	float2 r;
	r.x = (float)a.x, r.y = (float)a.y;
	return r;
}

/*
 * ---- Arithmetic -----------------------------------------------------------------------------------------------------
 */

/* To [0, 1]; NaN becomes 0. */
__CENOTE_BF16__ __nv_bfloat16 __cenote_bf16_saturate(__nv_bfloat16 a)
{
	float value = (float)a;
	return value > 0 ? (value < 1 ? a : __nv_bfloat16(1)) : __nv_bfloat16(0);
}

#define __CENOTE_BF162(name, sign)                                                           \
	__CENOTE_BF16__ __nv_bfloat16 __h##name(__nv_bfloat16 a, __nv_bfloat16 b)            \
	{                                                                                    \
		return a sign b;                                                             \
	}                                                                                    \
	__CENOTE_BF16__ __nv_bfloat16 __h##name##_rn(__nv_bfloat16 a, __nv_bfloat16 b)       \
	{                                                                                    \
		return a sign b;                                                             \
	}                                                                                    \
	__CENOTE_BF16__ __nv_bfloat16 __h##name##_sat(__nv_bfloat16 a, __nv_bfloat16 b)      \
	{                                                                                    \
		return __cenote_bf16_saturate(a sign b);                                     \
	}                                                                                    \
	__CENOTE_BF16__ __nv_bfloat162 __h##name##2(__nv_bfloat162 a, __nv_bfloat162 b)      \
	{                                                                                    \
		return a sign b;                                                             \
	}                                                                                    \
	__CENOTE_BF16__ __nv_bfloat162 __h##name##2_rn(__nv_bfloat162 a, __nv_bfloat162 b)   \
	{                                                                                    \
		return a sign b;                                                             \
	}                                                                                    \
	__CENOTE_BF16__ __nv_bfloat162 __h##name##2_sat(__nv_bfloat162 a, __nv_bfloat162 b)  \
	{                                                                                    \
		return __nv_bfloat162(__h##name##_sat(a.x, b.x), __h##name##_sat(a.y, b.y)); \
	}
__CENOTE_BF162(add, +)
__CENOTE_BF162(sub, -)
__CENOTE_BF162(mul, *)
#undef __CENOTE_BF162

__CENOTE_BF16__ __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b)
{
	return a / b;
}

__CENOTE_BF16__ __nv_bfloat162 __h2div(__nv_bfloat162 a, __nv_bfloat162 b)
{
	return a / b;
}

__CENOTE_BF16__ __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c)
{
	return __nv_bfloat16::__cenote_bits(__cenote_bf16_fma(a.__x, b.__x, c.__x));
}

__CENOTE_BF16__ __nv_bfloat16 __hfma_sat(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c)
{
	return __cenote_bf16_saturate(__hfma(a, b, c));
}

__CENOTE_BF16__ __nv_bfloat16 __hfma_relu(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c)
{
	__nv_bfloat16 r = __hfma(a, b, c);
	return (float)r <= 0 ? __nv_bfloat16(0) : r;
}

__CENOTE_BF16__ __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c)
{
	return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}

__CENOTE_BF16__ __nv_bfloat162 __hfma2_sat(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c)
{
	return __nv_bfloat162(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));
}

__CENOTE_BF16__ __nv_bfloat162 __hfma2_relu(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c)
{
	return __nv_bfloat162(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y));
}

__CENOTE_BF16__ __nv_bfloat16 __hneg(__nv_bfloat16 a)
{
	return -a;
}

__CENOTE_BF16__ __nv_bfloat162 __hneg2(__nv_bfloat162 a)
{
	return -a;
}

__CENOTE_BF16__ __nv_bfloat16 __habs(__nv_bfloat16 a)
{
	return __nv_bfloat16::__cenote_bits((unsigned short)(a.__x & 0x7fff));
}

__CENOTE_BF16__ __nv_bfloat162 __habs2(__nv_bfloat162 a)
{
	return __nv_bfloat162(__habs(a.x), __habs(a.y));
}

/*
 * ---- Comparison -----------------------------------------------------------------------------------------------------
 */

__CENOTE_BF16__ bool __hisnan(__nv_bfloat16 a)
{
	return (a.__x & 0x7fff) > 0x7f80;
}

__CENOTE_BF16__ int __hisinf(__nv_bfloat16 a)
{
	return a.__x == 0x7f80 ? 1 : a.__x == 0xff80 ? -1 : 0;
}

/* False with a NaN, or true (u); of pairs a 1 or 0 each, or whether it holds for both (b). */
#define __CENOTE_BF16_COMPARE(name, sign)                                                \
	__CENOTE_BF16__ bool __h##name(__nv_bfloat16 a, __nv_bfloat16 b)                 \
	{                                                                                \
		return !__hisnan(a) && !__hisnan(b) && a sign b;                         \
	}                                                                                \
	__CENOTE_BF16__ bool __h##name##u(__nv_bfloat16 a, __nv_bfloat16 b)              \
	{                                                                                \
		return __hisnan(a) || __hisnan(b) || a sign b;                           \
	}                                                                                \
	__CENOTE_BF16__ __nv_bfloat162 __h##name##2(__nv_bfloat162 a, __nv_bfloat162 b)  \
	{                                                                                \
		return __nv_bfloat162(__nv_bfloat16((int)__h##name(a.x, b.x)),           \
				      __nv_bfloat16((int)__h##name(a.y, b.y)));          \
	}                                                                                \
	__CENOTE_BF16__ __nv_bfloat162 __h##name##u2(__nv_bfloat162 a, __nv_bfloat162 b) \
	{                                                                                \
		return __nv_bfloat162(__nv_bfloat16((int)__h##name##u(a.x, b.x)),        \
				      __nv_bfloat16((int)__h##name##u(a.y, b.y)));       \
	}                                                                                \
	__CENOTE_BF16__ bool __hb##name##2(__nv_bfloat162 a, __nv_bfloat162 b)           \
	{                                                                                \
		return __h##name(a.x, b.x) && __h##name(a.y, b.y);                       \
	}                                                                                \
	__CENOTE_BF16__ bool __hb##name##u2(__nv_bfloat162 a, __nv_bfloat162 b)          \
	{                                                                                \
		return __h##name##u(a.x, b.x) && __h##name##u(a.y, b.y);                 \
	}
__CENOTE_BF16_COMPARE(eq, ==)
__CENOTE_BF16_COMPARE(ne, !=)
__CENOTE_BF16_COMPARE(lt, <)
__CENOTE_BF16_COMPARE(le, <=)
__CENOTE_BF16_COMPARE(gt, >)
__CENOTE_BF16_COMPARE(ge, >=)
#undef __CENOTE_BF16_COMPARE

/* The other number where one is NaN, or NaN (_nan); -0 is below +0. */
#define __CENOTE_BF16_EXTREME(name, sign, zero)                                                             \
	__CENOTE_BF16__ __nv_bfloat16 __h##name(__nv_bfloat16 a, __nv_bfloat16 b)                           \
	{                                                                                                   \
		if (__hisnan(a) || __hisnan(b))                                                             \
			return __hisnan(a) ? (__hisnan(b) ? __nv_bfloat16::__cenote_bits(0x7fff) : b) : a;  \
		if ((float)a == 0 && (float)b == 0)                                                         \
			return __nv_bfloat16::__cenote_bits((unsigned short)(a.__x zero b.__x));            \
		return a sign b ? a : b;                                                                    \
	}                                                                                                   \
	__CENOTE_BF16__ __nv_bfloat16 __h##name##_nan(__nv_bfloat16 a, __nv_bfloat16 b)                     \
	{                                                                                                   \
		return __hisnan(a) || __hisnan(b) ? __nv_bfloat16::__cenote_bits(0x7fff) : __h##name(a, b); \
	}                                                                                                   \
	__CENOTE_BF16__ __nv_bfloat162 __h##name##2(__nv_bfloat162 a, __nv_bfloat162 b)                     \
	{                                                                                                   \
		return __nv_bfloat162(__h##name(a.x, b.x), __h##name(a.y, b.y));                            \
	}                                                                                                   \
	__CENOTE_BF16__ __nv_bfloat162 __h##name##2_nan(__nv_bfloat162 a, __nv_bfloat162 b)                 \
	{                                                                                                   \
		return __nv_bfloat162(__h##name##_nan(a.x, b.x), __h##name##_nan(a.y, b.y));                \
	}
__CENOTE_BF16_EXTREME(min, <, |)
__CENOTE_BF16_EXTREME(max, >, &)
#undef __CENOTE_BF16_EXTREME

/*
 * ---- Mathematics ----------------------------------------------------------------------------------------------------
 */

#define __CENOTE_BF16_FUNCTION(name, function)                      \
	__CENOTE_DEVICE__ __nv_bfloat16 h##name(__nv_bfloat16 a)    \
	{                                                           \
		return __nv_bfloat16(function((float)a));           \
	}                                                           \
	__CENOTE_DEVICE__ __nv_bfloat162 h2##name(__nv_bfloat162 a) \
	{                                                           \
		return __nv_bfloat162(h##name(a.x), h##name(a.y));  \
	}
__CENOTE_BF16_FUNCTION(sqrt, sqrtf)
__CENOTE_BF16_FUNCTION(rsqrt, rsqrtf)
__CENOTE_BF16_FUNCTION(rcp, __frcp_rn)
__CENOTE_BF16_FUNCTION(exp, expf)
__CENOTE_BF16_FUNCTION(exp2, exp2f)
__CENOTE_BF16_FUNCTION(exp10, exp10f)
__CENOTE_BF16_FUNCTION(log, logf)
__CENOTE_BF16_FUNCTION(log2, log2f)
__CENOTE_BF16_FUNCTION(log10, log10f)
__CENOTE_BF16_FUNCTION(sin, sinf)
__CENOTE_BF16_FUNCTION(cos, cosf)
__CENOTE_BF16_FUNCTION(tanh, tanhf)
__CENOTE_BF16_FUNCTION(floor, floorf)
__CENOTE_BF16_FUNCTION(ceil, ceilf)
__CENOTE_BF16_FUNCTION(trunc, truncf)
__CENOTE_BF16_FUNCTION(rint, rintf)
#undef __CENOTE_BF16_FUNCTION

/*
 * ---- Warps, memory, atomics -----------------------------------------------------------------------------------------
 */

#define __CENOTE_BF16_SHUFFLE(name, lane_type)                                                                         \
	__CENOTE_DEVICE__ __nv_bfloat16 name(unsigned int mask, __nv_bfloat16 value, lane_type lane,                   \
					     int width = warpSize)                                                     \
	{                                                                                                              \
		return __nv_bfloat16::__cenote_bits((unsigned short)name(mask, (unsigned int)value.__x, lane, width)); \
	}                                                                                                              \
	__CENOTE_DEVICE__ __nv_bfloat162 name(unsigned int mask, __nv_bfloat162 value, lane_type lane,                 \
					      int width = warpSize)                                                    \
	{                                                                                                              \
		unsigned int bits;                                                                                     \
		memcpy(&bits, &value, sizeof bits);                                                                    \
		bits = name(mask, bits, lane, width);                                                                  \
		memcpy(&value, &bits, sizeof bits);                                                                    \
		return value;                                                                                          \
	}
__CENOTE_BF16_SHUFFLE(__shfl_sync, int)
__CENOTE_BF16_SHUFFLE(__shfl_up_sync, unsigned int)
__CENOTE_BF16_SHUFFLE(__shfl_down_sync, unsigned int)
__CENOTE_BF16_SHUFFLE(__shfl_xor_sync, int)
#undef __CENOTE_BF16_SHUFFLE

#define __CENOTE_BF16_LOAD(name)                                                            \
	__CENOTE_DEVICE__ __nv_bfloat16 name(const __nv_bfloat16 *address)                  \
	{                                                                                   \
		return __nv_bfloat16::__cenote_bits(name((const unsigned short *)address)); \
	}                                                                                   \
	__CENOTE_DEVICE__ __nv_bfloat162 name(const __nv_bfloat162 *address)                \
	{                                                                                   \
		__nv_bfloat162 value;                                                       \
		unsigned int bits = name((const unsigned int *)address);                    \
		memcpy(&value, &bits, sizeof bits);                                         \
		return value;                                                               \
	}
__CENOTE_BF16_LOAD(__ldg)
__CENOTE_BF16_LOAD(__ldca)
__CENOTE_BF16_LOAD(__ldcg)
__CENOTE_BF16_LOAD(__ldcs)
__CENOTE_BF16_LOAD(__ldlu)
__CENOTE_BF16_LOAD(__ldcv)
#undef __CENOTE_BF16_LOAD

/* By compare and swap, as sm_90 is the first to have an instruction. */
__CENOTE_DEVICE__ __nv_bfloat16 atomicAdd(__nv_bfloat16 *address, __nv_bfloat16 value)
{
	unsigned short *word = (unsigned short *)address, before = *(volatile unsigned short *)word, seen;
	while ((seen = atomicCAS(word, before, __cenote_bf16_add(before, value.__x))) != before)
		before = seen;
	return __nv_bfloat16::__cenote_bits(before);
}

__CENOTE_DEVICE__ __nv_bfloat162 atomicAdd(__nv_bfloat162 *address, __nv_bfloat162 value)
{
	return __nv_bfloat162(atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y));
}

#endif /* __CENOTE_DEVICE_BF16_FUNCTIONS_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * Integer functions: bits, bytes, products, minimum and maximum.
 */
#if !defined(__CENOTE_DEVICE_INTEGER_H__)
#define __CENOTE_DEVICE_INTEGER_H__

#include "../vector_types.h"
#include "compiler.h"

/*
 * ---- Bits -----------------------------------------------------------------------------------------------------------
 */

__CENOTE_DEVICE__ int __popc(unsigned int a)
{
	return __builtin_popcount(a);
}

__CENOTE_DEVICE__ int __popcll(unsigned long long a)
{
	return __builtin_popcountll(a);
}

/* Zero bits before the first one; 32 or 64 if there is none. */
__CENOTE_DEVICE__ int __clz(int a)
{
	return a ? __builtin_clz((unsigned int)a) : 32;
}

__CENOTE_DEVICE__ int __clzll(long long a)
{
	return a ? __builtin_clzll((unsigned long long)a) : 64;
}

/* The position of the lowest one, from 1; 0 if there is none. */
__CENOTE_DEVICE__ int __ffs(int a)
{
	return a ? __builtin_ctz((unsigned int)a) + 1 : 0;
}

__CENOTE_DEVICE__ int __ffsll(long long a)
{
	return a ? __builtin_ctzll((unsigned long long)a) + 1 : 0;
}

__CENOTE_DEVICE__ unsigned int __brev(unsigned int a)
{
	return __builtin_bitreverse32(a);
}

__CENOTE_DEVICE__ unsigned long long __brevll(unsigned long long a)
{
	return __builtin_bitreverse64(a);
}

/* Four bytes of eight: `selector` has the number of each in four bits. */
__CENOTE_DEVICE__ unsigned int __byte_perm(unsigned int a, unsigned int b, unsigned int selector)
{
	unsigned int r;
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector & 0x7777));
	return r;
}

/* Shift high:low and take one half of it; l and r by shift modulo 32, lc and rc by at most 32. */
#define __CENOTE_FUNNEL(name, instruction)                                                           \
	__CENOTE_DEVICE__ unsigned int name(unsigned int low, unsigned int high, unsigned int shift) \
	{                                                                                            \
		unsigned int r;                                                                      \
		asm(instruction " %0, %1, %2, %3;" : "=r"(r) : "r"(low), "r"(high), "r"(shift));     \
		return r;                                                                            \
	}
__CENOTE_FUNNEL(__funnelshift_l, "shf.l.wrap.b32")
__CENOTE_FUNNEL(__funnelshift_lc, "shf.l.clamp.b32")
__CENOTE_FUNNEL(__funnelshift_r, "shf.r.wrap.b32")
__CENOTE_FUNNEL(__funnelshift_rc, "shf.r.clamp.b32")
#undef __CENOTE_FUNNEL

/*
 * ---- Arithmetic -----------------------------------------------------------------------------------------------------
 */

/* |a - b| + c */
__CENOTE_DEVICE__ unsigned int __sad(int a, int b, unsigned int c)
{
	return (a < b ? (unsigned int)b - (unsigned int)a : (unsigned int)a - (unsigned int)b) + c;
}

__CENOTE_DEVICE__ unsigned int __usad(unsigned int a, unsigned int b, unsigned int c)
{
	return (a < b ? b - a : a - b) + c;
}

/* The mean, rounded down (h) or up (rh), without overflow. */
__CENOTE_DEVICE__ int __hadd(int a, int b)
{
	return (int)(((long long)a + b) >> 1);
}

__CENOTE_DEVICE__ int __rhadd(int a, int b)
{
	return (int)(((long long)a + b + 1) >> 1);
}

__CENOTE_DEVICE__ unsigned int __uhadd(unsigned int a, unsigned int b)
{
	return (unsigned int)(((unsigned long long)a + b) >> 1);
}

__CENOTE_DEVICE__ unsigned int __urhadd(unsigned int a, unsigned int b)
{
	return (unsigned int)(((unsigned long long)a + b + 1) >> 1);
}

/* The upper half of a product. */
__CENOTE_DEVICE__ int __mulhi(int a, int b)
{
	return (int)(((long long)a * b) >> 32);
}

__CENOTE_DEVICE__ unsigned int __umulhi(unsigned int a, unsigned int b)
{
	return (unsigned int)(((unsigned long long)a * b) >> 32);
}

__CENOTE_DEVICE__ long long __mul64hi(long long a, long long b)
{
	return (long long)(((__int128)a * b) >> 64);
}

__CENOTE_DEVICE__ unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
	return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}

/* The lower half of the product of the lower 24 bits. */
__CENOTE_DEVICE__ int __mul24(int a, int b)
{
	return (int)((unsigned int)(((int)((unsigned int)a << 8)) >> 8) *
		     (unsigned int)(((int)((unsigned int)b << 8)) >> 8));
}

__CENOTE_DEVICE__ unsigned int __umul24(unsigned int a, unsigned int b)
{
	return (a & 0xffffffu) * (b & 0xffffffu);
}

/* The sum of products of four bytes, or of two 16-bit halves with two bytes (lo, hi: which), and of `c`. */
#define __CENOTE_DOT(name, type, a_type, b_type, instruction)                           \
	__CENOTE_DEVICE__ type name(a_type a, b_type b, type c)                         \
	{                                                                               \
		type r;                                                                 \
		asm(instruction " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); \
		return r;                                                               \
	}
__CENOTE_DOT(__dp4a, int, int, int, "dp4a.s32.s32")
__CENOTE_DOT(__dp4a, unsigned int, unsigned int, unsigned int, "dp4a.u32.u32")
__CENOTE_DOT(__dp2a_lo, int, int, int, "dp2a.lo.s32.s32")
__CENOTE_DOT(__dp2a_lo, unsigned int, unsigned int, unsigned int, "dp2a.lo.u32.u32")
__CENOTE_DOT(__dp2a_hi, int, int, int, "dp2a.hi.s32.s32")
__CENOTE_DOT(__dp2a_hi, unsigned int, unsigned int, unsigned int, "dp2a.hi.u32.u32")
#undef __CENOTE_DOT

#define __CENOTE_DOT_VECTORS(name, type, a_vector, b_vector)        \
	__CENOTE_DEVICE__ type name(a_vector a, b_vector b, type c) \
	{                                                           \
		type a_bits, b_bits;                                \
		__builtin_memcpy(&a_bits, &a, sizeof a_bits);       \
		__builtin_memcpy(&b_bits, &b, sizeof b_bits);       \
		return name(a_bits, b_bits, c);                     \
	}
__CENOTE_DOT_VECTORS(__dp4a, int, char4, char4)
__CENOTE_DOT_VECTORS(__dp4a, unsigned int, uchar4, uchar4)
__CENOTE_DOT_VECTORS(__dp2a_lo, int, short2, char4)
__CENOTE_DOT_VECTORS(__dp2a_lo, unsigned int, ushort2, uchar4)
__CENOTE_DOT_VECTORS(__dp2a_hi, int, short2, char4)
__CENOTE_DOT_VECTORS(__dp2a_hi, unsigned int, ushort2, uchar4)
#undef __CENOTE_DOT_VECTORS

/*
 * ---- Magnitude, minimum, maximum ------------------------------------------------------------------------------------
 *
 * On the device; min() and max() are functions of the host too, as in CUDA.
 */

__CENOTE_DEVICE__ int abs(int a)
{
	return a < 0 ? -a : a;
}

__CENOTE_DEVICE__ long labs(long a)
{
	return a < 0 ? -a : a;
}

__CENOTE_DEVICE__ long long llabs(long long a)
{
	return a < 0 ? -a : a;
}

#define __CENOTE_MINMAX(result, a_type, b_type)                                                             \
	static __host__ __device__ __inline__ __attribute__((always_inline)) result min(a_type a, b_type b) \
	{                                                                                                   \
		return (result)a < (result)b ? (result)a : (result)b;                                       \
	}                                                                                                   \
	static __host__ __device__ __inline__ __attribute__((always_inline)) result max(a_type a, b_type b) \
	{                                                                                                   \
		return (result)a > (result)b ? (result)a : (result)b;                                       \
	}
__CENOTE_MINMAX(int, int, int)
__CENOTE_MINMAX(unsigned int, unsigned int, unsigned int)
__CENOTE_MINMAX(unsigned int, int, unsigned int)
__CENOTE_MINMAX(unsigned int, unsigned int, int)
__CENOTE_MINMAX(long, long, long)
__CENOTE_MINMAX(unsigned long, unsigned long, unsigned long)
__CENOTE_MINMAX(unsigned long, long, unsigned long)
__CENOTE_MINMAX(unsigned long, unsigned long, long)
__CENOTE_MINMAX(long long, long long, long long)
__CENOTE_MINMAX(unsigned long long, unsigned long long, unsigned long long)
__CENOTE_MINMAX(unsigned long long, long long, unsigned long long)
__CENOTE_MINMAX(unsigned long long, unsigned long long, long long)
#undef __CENOTE_MINMAX

__CENOTE_DEVICE__ unsigned int umin(unsigned int a, unsigned int b)
{
	return min(a, b);
}

__CENOTE_DEVICE__ unsigned int umax(unsigned int a, unsigned int b)
{
	return max(a, b);
}

__CENOTE_DEVICE__ long long llmin(long long a, long long b)
{
	return min(a, b);
}

__CENOTE_DEVICE__ long long llmax(long long a, long long b)
{
	return max(a, b);
}

__CENOTE_DEVICE__ unsigned long long ullmin(unsigned long long a, unsigned long long b)
{
	return min(a, b);
}

__CENOTE_DEVICE__ unsigned long long ullmax(unsigned long long a, unsigned long long b)
{
	return max(a, b);
}

#endif /* __CENOTE_DEVICE_INTEGER_H__ */

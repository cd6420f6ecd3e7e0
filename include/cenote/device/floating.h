/* SPDX-License-Identifier: MIT */
/*
 * Floating-point bits, and arithmetic with the rounding in the name.
 *
 * _rn rounds to nearest, ties to even; _rz towards zero; _rd down; _ru up. These are never joined into a fused
 * multiply-add, as `a * b + c` may be.
 */
#if !defined(__CENOTE_DEVICE_FLOATING_H__)
#define __CENOTE_DEVICE_FLOATING_H__

#include "compiler.h"

/*
 * ---- Bits -----------------------------------------------------------------------------------------------------------
 */

#define __CENOTE_AS(name, to, from)                                  \
	__CENOTE_DEVICE__ to name(from a)                            \
	{                                                            \
		to r;                                                \
		static_assert(sizeof r == sizeof a, "as many bits"); \
		__builtin_memcpy(&r, &a, sizeof r);                  \
		return r;                                            \
	}
__CENOTE_AS(__float_as_int, int, float)
__CENOTE_AS(__float_as_uint, unsigned int, float)
__CENOTE_AS(__int_as_float, float, int)
__CENOTE_AS(__uint_as_float, float, unsigned int)
__CENOTE_AS(__double_as_longlong, long long, double)
__CENOTE_AS(__longlong_as_double, double, long long)
#undef __CENOTE_AS

__CENOTE_DEVICE__ int __double2hiint(double a)
{
	return (int)(__double_as_longlong(a) >> 32);
}

__CENOTE_DEVICE__ int __double2loint(double a)
{
	return (int)__double_as_longlong(a);
}

__CENOTE_DEVICE__ double __hiloint2double(int high, int low)
{
	return __longlong_as_double((long long)((unsigned long long)(unsigned int)high << 32 | (unsigned int)low));
}

/*
 * ---- Arithmetic -----------------------------------------------------------------------------------------------------
 */

/* An instruction of one, two or three numbers. clang would take a function of its own for a plain product or sum. */
#define __CENOTE_OPERATION1(name, instruction, type, letter)             \
	__CENOTE_DEVICE__ type name(type a)                              \
	{                                                                \
		type r;                                                  \
		asm(instruction " %0, %1;" : "=" letter(r) : letter(a)); \
		return r;                                                \
	}
#define __CENOTE_OPERATION2(name, instruction, type, letter)                            \
	__CENOTE_DEVICE__ type name(type a, type b)                                     \
	{                                                                               \
		type r;                                                                 \
		asm(instruction " %0, %1, %2;" : "=" letter(r) : letter(a), letter(b)); \
		return r;                                                               \
	}
#define __CENOTE_OPERATION3(name, instruction, type, letter)                                           \
	__CENOTE_DEVICE__ type name(type a, type b, type c)                                            \
	{                                                                                              \
		type r;                                                                                \
		asm(instruction " %0, %1, %2, %3;" : "=" letter(r) : letter(a), letter(b), letter(c)); \
		return r;                                                                              \
	}
#define __CENOTE_ROUNDED(rounding, mode)                                            \
	__CENOTE_OPERATION2(__fadd_##rounding, "add." mode ".f32", float, "f")      \
	__CENOTE_OPERATION2(__fsub_##rounding, "sub." mode ".f32", float, "f")      \
	__CENOTE_OPERATION2(__fmul_##rounding, "mul." mode ".f32", float, "f")      \
	__CENOTE_OPERATION2(__fdiv_##rounding, "div." mode ".f32", float, "f")      \
	__CENOTE_OPERATION3(__fmaf_##rounding, "fma." mode ".f32", float, "f")      \
	__CENOTE_OPERATION3(__fmaf_ieee_##rounding, "fma." mode ".f32", float, "f") \
	__CENOTE_OPERATION1(__frcp_##rounding, "rcp." mode ".f32", float, "f")      \
	__CENOTE_OPERATION1(__fsqrt_##rounding, "sqrt." mode ".f32", float, "f")    \
	__CENOTE_OPERATION2(__dadd_##rounding, "add." mode ".f64", double, "d")     \
	__CENOTE_OPERATION2(__dsub_##rounding, "sub." mode ".f64", double, "d")     \
	__CENOTE_OPERATION2(__dmul_##rounding, "mul." mode ".f64", double, "d")     \
	__CENOTE_OPERATION2(__ddiv_##rounding, "div." mode ".f64", double, "d")     \
	__CENOTE_OPERATION3(__fma_##rounding, "fma." mode ".f64", double, "d")      \
	__CENOTE_OPERATION1(__drcp_##rounding, "rcp." mode ".f64", double, "d")     \
	__CENOTE_OPERATION1(__dsqrt_##rounding, "sqrt." mode ".f64", double, "d")
__CENOTE_ROUNDED(rn, "rn")
__CENOTE_ROUNDED(rz, "rz")
__CENOTE_ROUNDED(rd, "rm")
__CENOTE_ROUNDED(ru, "rp")
/* The number itself, of which clang no longer knows that it is a product. */
__CENOTE_OPERATION1(__cenote_own, "mov.b32", float, "f")
__CENOTE_OPERATION1(__cenote_own, "mov.b64", double, "d")
#undef __CENOTE_OPERATION1
#undef __CENOTE_OPERATION2
#undef __CENOTE_OPERATION3
#undef __CENOTE_ROUNDED

/*
 * ---- Approximations -------------------------------------------------------------------------------------------------
 *
 * A GPU's own instructions: fast, and less exact than the functions of <cmath>. docs/cc.md has their errors.
 */

/* An instruction that takes a float and gives one. */
#define __CENOTE_APPROXIMATE(name, instruction)                 \
	__CENOTE_DEVICE__ float name(float a)                   \
	{                                                       \
		float r;                                        \
		asm(instruction " %0, %1;" : "=f"(r) : "f"(a)); \
		return r;                                       \
	}
__CENOTE_APPROXIMATE(__sinf, "sin.approx.f32")
__CENOTE_APPROXIMATE(__cosf, "cos.approx.f32")
__CENOTE_APPROXIMATE(__log2f, "lg2.approx.f32")
__CENOTE_APPROXIMATE(__cenote_exp2_approx, "ex2.approx.f32")
__CENOTE_APPROXIMATE(__cenote_rsqrt_approx, "rsqrt.approx.f32")
__CENOTE_APPROXIMATE(__saturatef, "cvt.sat.f32.f32")
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 750
__CENOTE_APPROXIMATE(__tanhf, "tanh.approx.f32")
#endif
#undef __CENOTE_APPROXIMATE

__CENOTE_DEVICE__ void __sincosf(float a, float *sine, float *cosine)
{
	*sine = __sinf(a);
	*cosine = __cosf(a);
}

__CENOTE_DEVICE__ float __fdividef(float a, float b)
{
	float r;
	asm("div.approx.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
	return r;
}

__CENOTE_DEVICE__ float __tanf(float a)
{
	return __fdividef(__sinf(a), __cosf(a));
}

__CENOTE_DEVICE__ float __expf(float a)
{
	return __cenote_exp2_approx(__fmul_rn(a, 0x1.715476p+0f));
}

__CENOTE_DEVICE__ float __exp10f(float a)
{
	return __cenote_exp2_approx(__fmul_rn(a, 0x1.a934f0p+1f));
}

__CENOTE_DEVICE__ float __logf(float a)
{
	return __fmul_rn(__log2f(a), 0x1.62e430p-1f);
}

__CENOTE_DEVICE__ float __log10f(float a)
{
	return __fmul_rn(__log2f(a), 0x1.344136p-2f);
}

__CENOTE_DEVICE__ float __powf(float a, float b)
{
	return __cenote_exp2_approx(__fmul_rn(b, __log2f(a)));
}

/* 1 / sqrt(a), rounded to nearest. A double has bits enough to round once more. */
__CENOTE_DEVICE__ float __frsqrt_rn(float a)
{
	return (float)__ddiv_rn(1.0, __dsqrt_rn((double)a));
}

#endif /* __CENOTE_DEVICE_FLOATING_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * Atomic functions: read a word, compute, write, at once; they return what was there before.
 *
 * The plain name is atomic among the threads of one device, _block among those of a block, _system among all threads of
 * the machine that see the memory: other devices, the host, other processes. None of them orders other accesses; a
 * fence does.
 */
#if !defined(__CENOTE_DEVICE_ATOMIC_H__)
#define __CENOTE_DEVICE_ATOMIC_H__

#include "compiler.h"
#include "floating.h"

/* One function in three scopes: of `type`, by the instruction `operation` on `word`. */
#define __CENOTE_ATOMIC(name, type, operation, word, suffix)                                           \
	__CENOTE_DEVICE__ type name(type *address, type value)                                         \
	{                                                                                              \
		return (type)__nvvm_atom_##operation##_gen_##suffix((word *)address, (word)value);     \
	}                                                                                              \
	__CENOTE_DEVICE__ type name##_block(type *address, type value)                                 \
	{                                                                                              \
		return (type)__nvvm_atom_cta_##operation##_gen_##suffix((word *)address, (word)value); \
	}                                                                                              \
	__CENOTE_DEVICE__ type name##_system(type *address, type value)                                \
	{                                                                                              \
		return (type)__nvvm_atom_sys_##operation##_gen_##suffix((word *)address, (word)value); \
	}

__CENOTE_ATOMIC(atomicAdd, int, add, int, i)
__CENOTE_ATOMIC(atomicAdd, unsigned int, add, int, i)
__CENOTE_ATOMIC(atomicAdd, unsigned long long, add, long long, ll)
__CENOTE_ATOMIC(atomicAdd, float, add, float, f)
__CENOTE_ATOMIC(atomicAdd, double, add, double, d)

__CENOTE_ATOMIC(atomicExch, int, xchg, int, i)
__CENOTE_ATOMIC(atomicExch, unsigned int, xchg, int, i)
__CENOTE_ATOMIC(atomicExch, unsigned long long, xchg, long long, ll)

__CENOTE_ATOMIC(atomicMin, int, min, int, i)
__CENOTE_ATOMIC(atomicMin, long long, min, long long, ll)

__CENOTE_ATOMIC(atomicMax, int, max, int, i)
__CENOTE_ATOMIC(atomicMax, long long, max, long long, ll)

/* Up by one, from `value` to 0; down by one, from 0 or from above `value` to `value`. */
__CENOTE_ATOMIC(atomicInc, unsigned int, inc, unsigned int, ui)
__CENOTE_ATOMIC(atomicDec, unsigned int, dec, unsigned int, ui)

__CENOTE_ATOMIC(atomicAnd, int, and, int, i)
__CENOTE_ATOMIC(atomicAnd, unsigned int, and, int, i)
__CENOTE_ATOMIC(atomicAnd, long long, and, long long, ll)
__CENOTE_ATOMIC(atomicAnd, unsigned long long, and, long long, ll)

__CENOTE_ATOMIC(atomicOr, int, or, int, i)
__CENOTE_ATOMIC(atomicOr, unsigned int, or, int, i)
__CENOTE_ATOMIC(atomicOr, long long, or, long long, ll)
__CENOTE_ATOMIC(atomicOr, unsigned long long, or, long long, ll)

__CENOTE_ATOMIC(atomicXor, int, xor, int, i)
__CENOTE_ATOMIC(atomicXor, unsigned int, xor, int, i)
__CENOTE_ATOMIC(atomicXor, long long, xor, long long, ll)
__CENOTE_ATOMIC(atomicXor, unsigned long long, xor, long long, ll)
#undef __CENOTE_ATOMIC

/* Written out, since clang takes unsigned integers for signed ones in all scopes but that of a device. */
#define __CENOTE_ATOMIC_UNSIGNED(name, scope, type, operation, letter)   \
	__CENOTE_DEVICE__ type name(type *address, type value)           \
	{                                                                \
		type before;                                             \
		asm volatile("atom" scope "." operation " %0, [%1], %2;" \
			     : "=" letter(before)                        \
			     : "l"(address), letter(value)               \
			     : "memory");                                \
		return before;                                           \
	}
#define __CENOTE_ATOMIC_UNSIGNED_SCOPES(name, type, operation, letter)          \
	__CENOTE_ATOMIC_UNSIGNED(name, "", type, operation, letter)             \
	__CENOTE_ATOMIC_UNSIGNED(name##_block, ".cta", type, operation, letter) \
	__CENOTE_ATOMIC_UNSIGNED(name##_system, ".sys", type, operation, letter)
__CENOTE_ATOMIC_UNSIGNED_SCOPES(atomicMin, unsigned int, "min.u32", "r")
__CENOTE_ATOMIC_UNSIGNED_SCOPES(atomicMax, unsigned int, "max.u32", "r")
__CENOTE_ATOMIC_UNSIGNED_SCOPES(atomicMin, unsigned long long, "min.u64", "l")
__CENOTE_ATOMIC_UNSIGNED_SCOPES(atomicMax, unsigned long long, "max.u64", "l")
#undef __CENOTE_ATOMIC_UNSIGNED
#undef __CENOTE_ATOMIC_UNSIGNED_SCOPES

/* What is made of another function, in three scopes. */
#define __CENOTE_ATOMIC_SCOPES(define) define() define(_block) define(_system)

#define __CENOTE_ATOMIC_MADE(scope)                                                                \
	__CENOTE_DEVICE__ int atomicSub##scope(int *address, int value)                            \
	{                                                                                          \
		return (int)atomicAdd##scope((unsigned int *)address, 0u - (unsigned int)value);   \
	}                                                                                          \
	__CENOTE_DEVICE__ unsigned int atomicSub##scope(unsigned int *address, unsigned int value) \
	{                                                                                          \
		return atomicAdd##scope(address, 0u - value);                                      \
	}                                                                                          \
	__CENOTE_DEVICE__ float atomicExch##scope(float *address, float value)                     \
	{                                                                                          \
		return __int_as_float(atomicExch##scope((int *)address, __float_as_int(value)));   \
	}
__CENOTE_ATOMIC_SCOPES(__CENOTE_ATOMIC_MADE)
#undef __CENOTE_ATOMIC_MADE
#undef __CENOTE_ATOMIC_SCOPES

/* Write `value` where `compare` is. */
#define __CENOTE_ATOMIC_CAS(type, word, suffix)                                                             \
	__CENOTE_DEVICE__ type atomicCAS(type *address, type compare, type value)                           \
	{                                                                                                   \
		return (type)__nvvm_atom_cas_gen_##suffix((word *)address, (word)compare, (word)value);     \
	}                                                                                                   \
	__CENOTE_DEVICE__ type atomicCAS_block(type *address, type compare, type value)                     \
	{                                                                                                   \
		return (type)__nvvm_atom_cta_cas_gen_##suffix((word *)address, (word)compare, (word)value); \
	}                                                                                                   \
	__CENOTE_DEVICE__ type atomicCAS_system(type *address, type compare, type value)                    \
	{                                                                                                   \
		return (type)__nvvm_atom_sys_cas_gen_##suffix((word *)address, (word)compare, (word)value); \
	}
__CENOTE_ATOMIC_CAS(int, int, i)
__CENOTE_ATOMIC_CAS(unsigned int, int, i)
__CENOTE_ATOMIC_CAS(unsigned long long, long long, ll)
#undef __CENOTE_ATOMIC_CAS

/* clang has no built-in function for 16 bits. */
#define __CENOTE_ATOMIC_CAS16(name, scope)                                                                           \
	__CENOTE_DEVICE__ unsigned short name(unsigned short *address, unsigned short compare, unsigned short value) \
	{                                                                                                            \
		unsigned short before;                                                                               \
		asm volatile("atom" scope ".cas.b16 %0, [%1], %2, %3;"                                               \
			     : "=h"(before)                                                                          \
			     : "l"(address), "h"(compare), "h"(value)                                                \
			     : "memory");                                                                            \
		return before;                                                                                       \
	}
__CENOTE_ATOMIC_CAS16(atomicCAS, "")
__CENOTE_ATOMIC_CAS16(atomicCAS_block, ".cta")
__CENOTE_ATOMIC_CAS16(atomicCAS_system, ".sys")
#undef __CENOTE_ATOMIC_CAS16

#endif /* __CENOTE_DEVICE_ATOMIC_H__ */

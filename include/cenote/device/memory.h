/* SPDX-License-Identifier: MIT */
/*
 * Loads and stores with a word about the caches, and where an address lies.
 *
 * __ldg() reads what no thread writes while the kernel runs. The others: ca caches at all levels, cg in the second
 * level alone, cs expects one use, lu the last use, cv reads memory anew each time; wb, cg, cs, wt likewise for stores.
 */
#if !defined(__CENOTE_DEVICE_MEMORY_H__)
#define __CENOTE_DEVICE_MEMORY_H__

#include "../vector_types.h"
#include "compiler.h"

/* One type, of one, two or four elements: its name in PTX, its register, and the C type of that. */
#define __CENOTE_LOAD1(name, op, type, ptx, register_, word)                                        \
	__CENOTE_DEVICE__ type name(const type *address)                                            \
	{                                                                                           \
		word x;                                                                             \
		asm volatile(op "." ptx " %0, [%1];" : "=" register_(x) : "l"(address) : "memory"); \
		return (type)x;                                                                     \
	}
#define __CENOTE_LOAD2(name, op, type, ptx, register_, word)      \
	__CENOTE_DEVICE__ type name(const type *address)          \
	{                                                         \
		word x, y;                                        \
		asm volatile(op ".v2." ptx " {%0, %1}, [%2];"     \
			     : "=" register_(x), "=" register_(y) \
			     : "l"(address)                       \
			     : "memory");                         \
		type r;                                           \
		r.x = (decltype(r.x))x, r.y = (decltype(r.y))y;   \
		return r;                                         \
	}
#define __CENOTE_LOAD4(name, op, type, ptx, register_, word)                                                    \
	__CENOTE_DEVICE__ type name(const type *address)                                                        \
	{                                                                                                       \
		word x, y, z, w;                                                                                \
		asm volatile(op ".v4." ptx " {%0, %1, %2, %3}, [%4];"                                           \
			     : "=" register_(x), "=" register_(y), "=" register_(z), "=" register_(w)           \
			     : "l"(address)                                                                     \
			     : "memory");                                                                       \
		type r;                                                                                         \
		r.x = (decltype(r.x))x, r.y = (decltype(r.y))y, r.z = (decltype(r.z))z, r.w = (decltype(r.w))w; \
		return r;                                                                                       \
	}
#define __CENOTE_STORE1(name, op, type, ptx, register_, word)                                              \
	__CENOTE_DEVICE__ void name(type *address, type value)                                             \
	{                                                                                                  \
		asm volatile(op "." ptx " [%0], %1;" : : "l"(address), register_((word)value) : "memory"); \
	}
#define __CENOTE_STORE2(name, op, type, ptx, register_, word)                                   \
	__CENOTE_DEVICE__ void name(type *address, type value)                                  \
	{                                                                                       \
		asm volatile(op ".v2." ptx " [%0], {%1, %2};"                                   \
			     :                                                                  \
			     : "l"(address), register_((word)value.x), register_((word)value.y) \
			     : "memory");                                                       \
	}
#define __CENOTE_STORE4(name, op, type, ptx, register_, word)                                    \
	__CENOTE_DEVICE__ void name(type *address, type value)                                   \
	{                                                                                        \
		asm volatile(op ".v4." ptx " [%0], {%1, %2, %3, %4};"                            \
			     :                                                                   \
			     : "l"(address), register_((word)value.x), register_((word)value.y), \
			       register_((word)value.z), register_((word)value.w)                \
			     : "memory");                                                        \
	}

/* clang-format off */
/* All types that have such functions. `access` is __CENOTE_LOAD or __CENOTE_STORE. */
#define __CENOTE_ACCESSES(access, name, op)                                     \
	access##1(name, op, char, "s8", "r", int)                               \
	access##1(name, op, signed char, "s8", "r", int)                        \
	access##1(name, op, unsigned char, "u8", "r", unsigned int)             \
	access##1(name, op, short, "s16", "h", short)                           \
	access##1(name, op, unsigned short, "u16", "h", unsigned short)         \
	access##1(name, op, int, "s32", "r", int)                               \
	access##1(name, op, unsigned int, "u32", "r", unsigned int)             \
	access##1(name, op, long, "s64", "l", long)                             \
	access##1(name, op, unsigned long, "u64", "l", unsigned long)           \
	access##1(name, op, long long, "s64", "l", long long)                   \
	access##1(name, op, unsigned long long, "u64", "l", unsigned long long) \
	access##1(name, op, float, "f32", "f", float)                           \
	access##1(name, op, double, "f64", "d", double)                         \
	access##2(name, op, char2, "s8", "r", int)                              \
	access##2(name, op, uchar2, "u8", "r", unsigned int)                    \
	access##2(name, op, short2, "s16", "h", short)                          \
	access##2(name, op, ushort2, "u16", "h", unsigned short)                \
	access##2(name, op, int2, "s32", "r", int)                              \
	access##2(name, op, uint2, "u32", "r", unsigned int)                    \
	access##2(name, op, longlong2, "s64", "l", long long)                   \
	access##2(name, op, ulonglong2, "u64", "l", unsigned long long)         \
	access##2(name, op, float2, "f32", "f", float)                          \
	access##2(name, op, double2, "f64", "d", double)                        \
	access##4(name, op, char4, "s8", "r", int)                              \
	access##4(name, op, uchar4, "u8", "r", unsigned int)                    \
	access##4(name, op, short4, "s16", "h", short)                          \
	access##4(name, op, ushort4, "u16", "h", unsigned short)                \
	access##4(name, op, int4, "s32", "r", int)                              \
	access##4(name, op, uint4, "u32", "r", unsigned int)                    \
	access##4(name, op, float4, "f32", "f", float)
/* clang-format on */

__CENOTE_ACCESSES(__CENOTE_LOAD, __ldg, "ld.global.nc")
__CENOTE_ACCESSES(__CENOTE_LOAD, __ldca, "ld.global.ca")
__CENOTE_ACCESSES(__CENOTE_LOAD, __ldcg, "ld.global.cg")
__CENOTE_ACCESSES(__CENOTE_LOAD, __ldcs, "ld.global.cs")
__CENOTE_ACCESSES(__CENOTE_LOAD, __ldlu, "ld.global.lu")
__CENOTE_ACCESSES(__CENOTE_LOAD, __ldcv, "ld.global.cv")
__CENOTE_ACCESSES(__CENOTE_STORE, __stwb, "st.global.wb")
__CENOTE_ACCESSES(__CENOTE_STORE, __stcg, "st.global.cg")
__CENOTE_ACCESSES(__CENOTE_STORE, __stcs, "st.global.cs")
__CENOTE_ACCESSES(__CENOTE_STORE, __stwt, "st.global.wt")
#undef __CENOTE_ACCESSES
#undef __CENOTE_LOAD1
#undef __CENOTE_LOAD2
#undef __CENOTE_LOAD4
#undef __CENOTE_STORE1
#undef __CENOTE_STORE2
#undef __CENOTE_STORE4

/*
 * ---- Spaces ---------------------------------------------------------------------------------------------------------
 */

__CENOTE_DEVICE__ unsigned int __isGlobal(const void *address)
{
	return __nvvm_isspacep_global(address);
}

__CENOTE_DEVICE__ unsigned int __isShared(const void *address)
{
	return __nvvm_isspacep_shared(address);
}

__CENOTE_DEVICE__ unsigned int __isConstant(const void *address)
{
	return __nvvm_isspacep_const(address);
}

__CENOTE_DEVICE__ unsigned int __isLocal(const void *address)
{
	return __nvvm_isspacep_local(address);
}

/* An address within a space, as PTX instructions that name the space take it, and back. */
#define __CENOTE_SPACE(space, number)                                                        \
	__CENOTE_DEVICE__ size_t __cvta_generic_to_##space(const void *address)              \
	{                                                                                    \
		return (size_t)(const void __attribute__((address_space(number))) *)address; \
	}                                                                                    \
	__CENOTE_DEVICE__ void *__cvta_##space##_to_generic(size_t address)                  \
	{                                                                                    \
		return (void *)(void __attribute__((address_space(number))) *)address;       \
	}
__CENOTE_SPACE(global, 1)
__CENOTE_SPACE(shared, 3)
__CENOTE_SPACE(constant, 4)
__CENOTE_SPACE(local, 5)
#undef __CENOTE_SPACE

#endif /* __CENOTE_DEVICE_MEMORY_H__ */

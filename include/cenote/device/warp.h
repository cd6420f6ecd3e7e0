/* SPDX-License-Identifier: MIT */
/*
 * Functions of a warp: what its threads tell each other without memory.
 *
 * `mask` names the lanes that take part, a bit each. Each of them must make the call, with the same mask, or the kernel
 * hangs or traps.
 */
#if !defined(__CENOTE_DEVICE_WARP_H__)
#define __CENOTE_DEVICE_WARP_H__

#include "compiler.h"

__CENOTE_DEVICE__ void __syncwarp(unsigned int mask = 0xffffffffu)
{
	__CENOTE_ORDER__;
	__nvvm_bar_warp_sync(mask);
	__CENOTE_ORDER__;
}

/* The lanes that run this instruction together just now. */
__CENOTE_DEVICE__ unsigned int __activemask(void)
{
	unsigned int mask;
	asm volatile("activemask.b32 %0;" : "=r"(mask));
	return mask;
}

/*
 * ---- Votes ----------------------------------------------------------------------------------------------------------
 */

__CENOTE_DEVICE__ int __all_sync(unsigned int mask, int predicate)
{
	return __nvvm_vote_all_sync(mask, predicate);
}

__CENOTE_DEVICE__ int __any_sync(unsigned int mask, int predicate)
{
	return __nvvm_vote_any_sync(mask, predicate);
}

__CENOTE_DEVICE__ int __uni_sync(unsigned int mask, int predicate)
{
	return __nvvm_vote_uni_sync(mask, predicate);
}

__CENOTE_DEVICE__ unsigned int __ballot_sync(unsigned int mask, int predicate)
{
	return __nvvm_vote_ballot_sync(mask, predicate);
}

/*
 * ---- Shuffles -------------------------------------------------------------------------------------------------------
 *
 * The value of another lane: the one named, so many below or above, or the one whose number differs in these bits.
 * `width` cuts the warp into parts that keep to themselves. 64 bits go as two halves.
 */

#define __CENOTE_SHUFFLE32(name, mode, type, word, suffix, lane_type, limit)                             \
	__CENOTE_DEVICE__ type name(unsigned int mask, type value, lane_type lane, int width = warpSize) \
	{                                                                                                \
		return (type)__nvvm_shfl_sync_##mode##_##suffix(mask, (word)value, (int)lane,            \
								((warpSize - width) << 8) | (limit));    \
	}

#define __CENOTE_SHUFFLE64(name, type, lane_type)                                                        \
	__CENOTE_DEVICE__ type name(unsigned int mask, type value, lane_type lane, int width = warpSize) \
	{                                                                                                \
		unsigned int half[2];                                                                    \
		static_assert(sizeof half == sizeof value, "two halves");                                \
		__builtin_memcpy(half, &value, sizeof value);                                            \
		half[0] = name(mask, half[0], lane, width);                                              \
		half[1] = name(mask, half[1], lane, width);                                              \
		__builtin_memcpy(&value, half, sizeof value);                                            \
		return value;                                                                            \
	}

#define __CENOTE_SHUFFLE(name, mode, lane_type, limit)                           \
	__CENOTE_SHUFFLE32(name, mode, int, int, i32, lane_type, limit)          \
	__CENOTE_SHUFFLE32(name, mode, unsigned int, int, i32, lane_type, limit) \
	__CENOTE_SHUFFLE32(name, mode, float, float, f32, lane_type, limit)      \
	__CENOTE_SHUFFLE64(name, long, lane_type)                                \
	__CENOTE_SHUFFLE64(name, unsigned long, lane_type)                       \
	__CENOTE_SHUFFLE64(name, long long, lane_type)                           \
	__CENOTE_SHUFFLE64(name, unsigned long long, lane_type)                  \
	__CENOTE_SHUFFLE64(name, double, lane_type)

__CENOTE_SHUFFLE(__shfl_sync, idx, int, 0x1f)
__CENOTE_SHUFFLE(__shfl_up_sync, up, unsigned int, 0)
__CENOTE_SHUFFLE(__shfl_down_sync, down, unsigned int, 0x1f)
__CENOTE_SHUFFLE(__shfl_xor_sync, bfly, int, 0x1f)
#undef __CENOTE_SHUFFLE
#undef __CENOTE_SHUFFLE32
#undef __CENOTE_SHUFFLE64

/*
 * ---- Match ----------------------------------------------------------------------------------------------------------
 *
 * any: the lanes that have the same value as this one. all: `mask` if all have, else 0; `pred` says which.
 */

#define __CENOTE_MATCH(type, word, suffix)                                                                       \
	__CENOTE_DEVICE__ unsigned int __match_any_sync(unsigned int mask, type value)                           \
	{                                                                                                        \
		word bits;                                                                                       \
		unsigned int same;                                                                               \
		static_assert(sizeof bits == sizeof value, "as many bits");                                      \
		__builtin_memcpy(&bits, &value, sizeof bits);                                                    \
		asm volatile("match.any.sync.b" #suffix " %0, %1, %2;"                                           \
			     : "=r"(same)                                                                        \
			     : __CENOTE_MATCH_REGISTER_##suffix(bits), "r"(mask));                               \
		return same;                                                                                     \
	}                                                                                                        \
	__CENOTE_DEVICE__ unsigned int __match_all_sync(unsigned int mask, type value, int *pred)                \
	{                                                                                                        \
		word bits;                                                                                       \
		unsigned int same;                                                                               \
		__builtin_memcpy(&bits, &value, sizeof bits);                                                    \
		asm volatile("{ .reg .pred p; match.all.sync.b" #suffix " %0|p, %2, %3; selp.s32 %1, 1, 0, p; }" \
			     : "=r"(same), "=r"(*pred)                                                           \
			     : __CENOTE_MATCH_REGISTER_##suffix(bits), "r"(mask));                               \
		return same;                                                                                     \
	}
#define __CENOTE_MATCH_REGISTER_32(bits) "r"(bits)
#define __CENOTE_MATCH_REGISTER_64(bits) "l"(bits)
__CENOTE_MATCH(int, unsigned int, 32)
__CENOTE_MATCH(unsigned int, unsigned int, 32)
__CENOTE_MATCH(float, unsigned int, 32)
__CENOTE_MATCH(long, unsigned long long, 64)
__CENOTE_MATCH(unsigned long, unsigned long long, 64)
__CENOTE_MATCH(long long, unsigned long long, 64)
__CENOTE_MATCH(unsigned long long, unsigned long long, 64)
__CENOTE_MATCH(double, unsigned long long, 64)
#undef __CENOTE_MATCH_REGISTER_32
#undef __CENOTE_MATCH_REGISTER_64
#undef __CENOTE_MATCH

/*
 * ---- Reduce ---------------------------------------------------------------------------------------------------------
 *
 * One result of all lanes' values, for each of them. sm_80 has an instruction; before, each lane's value is asked for.
 */

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define __CENOTE_REDUCE(name, type, operation, ptx_type, combined)               \
	__CENOTE_DEVICE__ type name(unsigned int mask, type value)               \
	{                                                                        \
		type result;                                                     \
		asm volatile("redux.sync." operation "." ptx_type " %0, %1, %2;" \
			     : "=r"(result)                                      \
			     : "r"(value), "r"(mask));                           \
		return result;                                                   \
	}
#else
#define __CENOTE_REDUCE(name, type, operation, ptx_type, combined)                    \
	__CENOTE_DEVICE__ type name(unsigned int mask, type value)                    \
	{                                                                             \
		type a = __shfl_sync(mask, value, __builtin_ctz(mask));               \
		for (unsigned int rest = mask & (mask - 1); rest; rest &= rest - 1) { \
			type b = __shfl_sync(mask, value, __builtin_ctz(rest));       \
			a = combined;                                                 \
		}                                                                     \
		return a;                                                             \
	}
#endif
__CENOTE_REDUCE(__reduce_add_sync, unsigned int, "add", "u32", a + b)
__CENOTE_REDUCE(__reduce_add_sync, int, "add", "s32", (int)((unsigned int)a + (unsigned int)b))
__CENOTE_REDUCE(__reduce_min_sync, unsigned int, "min", "u32", a < b ? a : b)
__CENOTE_REDUCE(__reduce_min_sync, int, "min", "s32", a < b ? a : b)
__CENOTE_REDUCE(__reduce_max_sync, unsigned int, "max", "u32", a > b ? a : b)
__CENOTE_REDUCE(__reduce_max_sync, int, "max", "s32", a > b ? a : b)
__CENOTE_REDUCE(__reduce_and_sync, unsigned int, "and", "b32", a &b)
__CENOTE_REDUCE(__reduce_or_sync, unsigned int, "or", "b32", a | b)
__CENOTE_REDUCE(__reduce_xor_sync, unsigned int, "xor", "b32", a ^ b)
#undef __CENOTE_REDUCE

/* The `offset`-th set bit of `mask` from bit `base` on; below 0 downwards. All bits set if there is none. */
__CENOTE_DEVICE__ unsigned int __fns(unsigned int mask, unsigned int base, int offset)
{
	unsigned int position;
	asm("fns.b32 %0, %1, %2, %3;" : "=r"(position) : "r"(mask), "r"(base), "r"(offset));
	return position;
}

#endif /* __CENOTE_DEVICE_WARP_H__ */

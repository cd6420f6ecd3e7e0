/* SPDX-License-Identifier: MIT */
/*
 * One value of all that the threads of a group have.
 */
#if !defined(_COOPERATIVE_GROUPS_REDUCE_H_)
#define _COOPERATIVE_GROUPS_REDUCE_H_

#include "../cooperative_groups.h"

#if defined(__clang__) && defined(__CUDA__)

namespace cooperative_groups
{

#define __CENOTE_OPERATOR(name, expression)                                    \
	template <class T> struct name {                                       \
		__device__ __host__ T operator()(const T &a, const T &b) const \
		{                                                              \
			return expression;                                     \
		}                                                              \
	};
__CENOTE_OPERATOR(plus, a + b)
__CENOTE_OPERATOR(less, b < a ? b : a)
__CENOTE_OPERATOR(greater, a < b ? b : a)
__CENOTE_OPERATOR(bit_and, a &b)
__CENOTE_OPERATOR(bit_or, a | b)
__CENOTE_OPERATOR(bit_xor, a ^ b)
#undef __CENOTE_OPERATOR

/* In a tile: halves exchange until all have the whole. */
template <unsigned int Size, class Parent, class T, class Operator>
__device__ __inline__ T reduce(const thread_block_tile<Size, Parent> &group, T value, Operator &&combine)
{
	for (unsigned int bits = Size / 2; bits; bits /= 2)
		value = combine(value, group.shfl_xor(value, bits));
	return value;
}

/* Among threads that came together: in the order of their ranks. */
template <class T, class Operator>
__device__ __inline__ T reduce(const coalesced_group &group, T value, Operator &&combine)
{
	T result = group.shfl(value, 0);
	for (unsigned int rank = 1; rank < group.size(); rank++)
		result = combine(result, group.shfl(value, rank));
	return result;
}

} // namespace cooperative_groups

#endif /* __clang__ && __CUDA__ */

#endif /* _COOPERATIVE_GROUPS_REDUCE_H_ */

/* SPDX-License-Identifier: MIT */
/*
 * For each thread of a group what the values of the threads up to it give together, itself included or not.
 *
 * Without its own the first thread gets T().
 */
#if !defined(_COOPERATIVE_GROUPS_SCAN_H_)
#define _COOPERATIVE_GROUPS_SCAN_H_

#include "reduce.h"

#if defined(__clang__) && defined(__CUDA__)

namespace cooperative_groups
{

template <class Group, class T, class Operator>
__device__ __inline__ T inclusive_scan(const Group &group, T value, Operator &&combine)
{
	for (unsigned int delta = 1; delta < group.size(); delta *= 2) {
		T below = group.shfl_up(value, delta);
		if (group.thread_rank() >= delta)
			value = combine(below, value);
	}
	return value;
}

template <class Group, class T> __device__ __inline__ T inclusive_scan(const Group &group, T value)
{
	return inclusive_scan(group, value, plus<T>());
}

template <class Group, class T, class Operator>
__device__ __inline__ T exclusive_scan(const Group &group, T value, Operator &&combine)
{
	T below = group.shfl_up(inclusive_scan(group, value, combine), 1);
	return group.thread_rank() ? below : T();
}

template <class Group, class T> __device__ __inline__ T exclusive_scan(const Group &group, T value)
{
	return exclusive_scan(group, value, plus<T>());
}

} // namespace cooperative_groups

#endif /* __clang__ && __CUDA__ */

#endif /* _COOPERATIVE_GROUPS_SCAN_H_ */

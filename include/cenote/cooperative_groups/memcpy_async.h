/* SPDX-License-Identifier: MIT */
/*
 * A group copies together. The copy is done by the group's threads at once; wait() is the group's barrier after it.
 */
#if !defined(_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H_)
#define _COOPERATIVE_GROUPS_MEMCPY_ASYNC_H_

#include "../cooperative_groups.h"

#if defined(__clang__) && defined(__CUDA__)

namespace cooperative_groups
{

/* Copy `bytes` bytes; by words where both addresses allow it. */
template <class Group, class To, class From>
__device__ __inline__ void memcpy_async(const Group &group, To *to, const From *from, size_t bytes)
{
	size_t rank = group.thread_rank(), count = group.size(), whole = 0;
	if (!(((size_t)to | (size_t)from) & 3)) {
		whole = bytes / 4;
		for (size_t i = rank; i < whole; i += count)
			((unsigned int *)to)[i] = ((const unsigned int *)from)[i];
	}
	for (size_t i = whole * 4 + rank; i < bytes; i += count)
		((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
}

/* Copy as many elements as both have room for. */
template <class Group, class T>
__device__ __inline__ void memcpy_async(const Group &group, T *to, size_t to_count, const T *from, size_t from_count)
{
	memcpy_async(group, to, from, (to_count < from_count ? to_count : from_count) * sizeof(T));
}

template <class Group> __device__ __inline__ void wait(const Group &group)
{
	group.sync();
}

template <unsigned int Stages, class Group> __device__ __inline__ void wait_prior(const Group &group)
{
	group.sync();
}

} // namespace cooperative_groups

#endif /* __clang__ && __CUDA__ */

#endif /* _COOPERATIVE_GROUPS_MEMCPY_ASYNC_H_ */

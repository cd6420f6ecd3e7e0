/* SPDX-License-Identifier: MIT */
/*
 * Cooperative groups: threads that meet and exchange values, named by an object.
 *
 * A block, a grid, a tile of 1 to 32 threads of a warp, and the threads of a warp that came here together. A group of a
 * warp is a mask of lanes. The barrier of a grid needs a cooperative launch, whose word for it the driver provides; the
 * %envreg registers have its address. Clusters, grids on several devices and tiles of more than a warp are not here.
 */
#if !defined(_COOPERATIVE_GROUPS_H_)
#define _COOPERATIVE_GROUPS_H_

#include "cuda_runtime.h"

#if defined(__clang__) && defined(__CUDA__)

namespace cooperative_groups
{

/*
 * ---- What groups are made of ----------------------------------------------------------------------------------------
 */

namespace details
{

__CENOTE_DEVICE__ unsigned int lane(void)
{
	unsigned int id;
	asm("mov.u32 %0, %%laneid;" : "=r"(id));
	return id;
}

__CENOTE_DEVICE__ unsigned int lanes_below(void)
{
	unsigned int mask;
	asm("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
	return mask;
}

__CENOTE_DEVICE__ unsigned int block_threads(void)
{
	return blockDim.x * blockDim.y * blockDim.z;
}

__CENOTE_DEVICE__ unsigned int block_rank(void)
{
	return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

/* The bits of `value` at the ones of `mask`, side by side. */
__CENOTE_DEVICE__ unsigned int packed(unsigned int mask, unsigned int value)
{
	unsigned int result = 0;
	for (unsigned int rank = 0; mask; mask &= mask - 1, rank++)
		result |= ((value >> __builtin_ctz(mask)) & 1) << rank;
	return result;
}

/* A value of any size from another lane, word by word. */
template <class T> __CENOTE_DEVICE__ T from_lane(unsigned int mask, const T &value, unsigned int from)
{
	static_assert(__is_trivially_copyable(T), "a value that is exchanged must be trivially copyable");
	unsigned int words[(sizeof(T) + 3) / 4] = {};
	T result;
	__builtin_memcpy(words, &value, sizeof value);
	for (unsigned int i = 0; i < sizeof words / sizeof *words; i++)
		words[i] = __shfl_sync(mask, words[i], (int)from);
	__builtin_memcpy(&result, words, sizeof result);
	return result;
}

} // namespace details

/*
 * ---- Any group ------------------------------------------------------------------------------------------------------
 */

/* A group whose kind is known at run time: the lanes of a warp, or, with a mask of 0, the block. */
class thread_group
{
      protected:
	unsigned int mask;
	__device__ explicit thread_group(unsigned int lanes) : mask(lanes)
	{
	}
	friend __device__ thread_group tiled_partition(const thread_group &parent, unsigned int size);

      public:
	__device__ void sync(void) const
	{
		if (mask)
			__syncwarp(mask);
		else
			__syncthreads();
	}
	__device__ unsigned long long size(void) const
	{
		return mask ? (unsigned int)__popc(mask) : details::block_threads();
	}
	__device__ unsigned long long num_threads(void) const
	{
		return size();
	}
	__device__ unsigned long long thread_rank(void) const
	{
		return mask ? (unsigned int)__popc(mask & details::lanes_below()) : details::block_rank();
	}
	__device__ bool is_valid(void) const
	{
		return true;
	}
	/* The lanes of the group; 0 for a block. */
	__device__ unsigned int __cenote_lanes(void) const
	{
		return mask;
	}
};

/* What a group can say of itself without an object. */
#define __CENOTE_GROUP_FACT(type, name, value) \
	static __device__ type name(void)      \
	{                                      \
		return value;                  \
	}

/* The block. */
class thread_block : public thread_group
{
	__device__ thread_block(void) : thread_group(0)
	{
	}
	friend __device__ thread_block this_thread_block(void);

      public:
	typedef unsigned int arrival_token;

	static __device__ void sync(void)
	{
		__syncthreads();
	}
	__device__ arrival_token barrier_arrive(void) const
	{
		return 0;
	}
	__device__ void barrier_wait(arrival_token) const
	{
		__syncthreads();
	}
	__CENOTE_GROUP_FACT(unsigned int, size, details::block_threads())
	__CENOTE_GROUP_FACT(unsigned int, num_threads, details::block_threads())
	__CENOTE_GROUP_FACT(unsigned int, thread_rank, details::block_rank())
	__CENOTE_GROUP_FACT(dim3, group_index, blockIdx)
	__CENOTE_GROUP_FACT(dim3, thread_index, threadIdx)
	__CENOTE_GROUP_FACT(dim3, group_dim, blockDim)
	__CENOTE_GROUP_FACT(dim3, dim_threads, blockDim)
};

__device__ __inline__ thread_block this_thread_block(void)
{
	return thread_block();
}

/*
 * ---- The grid -------------------------------------------------------------------------------------------------------
 */

class grid_group
{
	unsigned int *barrier;
	__device__ explicit grid_group(unsigned int *word) : barrier(word)
	{
	}
	friend __device__ grid_group this_grid(void);

      public:
	/* Whether this is a cooperative launch, so that sync() works. */
	__device__ bool is_valid(void) const
	{
		return barrier != nullptr;
	}
	/* Each block adds 1, and the first what makes the sum turn the top bit: all wait for that. */
	__device__ void sync(void) const
	{
		if (!barrier)
			__trap();
		__syncthreads();
		if (details::block_rank() == 0) {
			unsigned int add = block_rank() == 0 ? 0x80000001u - (unsigned int)num_blocks() : 1, before,
				     now;
			asm volatile("fence.acq_rel.gpu;" : : : "memory");
			asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;"
				     : "=r"(before)
				     : "l"(barrier), "r"(add)
				     : "memory");
			do
				asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(barrier) : "memory");
			while (!((before ^ now) & 0x80000000u));
		}
		__syncthreads();
	}
	__CENOTE_GROUP_FACT(unsigned long long, num_blocks, 1ull * gridDim.x * gridDim.y * gridDim.z)
	__CENOTE_GROUP_FACT(unsigned long long, block_rank,
			    ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x)
	__CENOTE_GROUP_FACT(unsigned long long, size, num_blocks() * details::block_threads())
	__CENOTE_GROUP_FACT(unsigned long long, num_threads, size())
	__CENOTE_GROUP_FACT(unsigned long long, thread_rank,
			    block_rank() * details::block_threads() + details::block_rank())
	__CENOTE_GROUP_FACT(dim3, group_dim, gridDim)
	__CENOTE_GROUP_FACT(dim3, dim_blocks, gridDim)
	__CENOTE_GROUP_FACT(dim3, block_index, blockIdx)
};

#undef __CENOTE_GROUP_FACT

__device__ __inline__ grid_group this_grid(void)
{
	unsigned int high, low;
	asm("mov.u32 %0, %%envreg1;" : "=r"(high));
	asm("mov.u32 %0, %%envreg2;" : "=r"(low));
	unsigned long long room = (unsigned long long)high << 32 | low;
	return grid_group(room ? (unsigned int *)(room + 4) : nullptr);
}

/*
 * ---- Threads of a warp ----------------------------------------------------------------------------------------------
 */

/* Threads of a warp that came together; a rank counts the lanes below in the mask. */
class coalesced_group : public thread_group
{
      protected:
	unsigned int meta_rank, meta_size;
	__device__ explicit coalesced_group(unsigned int lanes, unsigned int which = 0, unsigned int count = 1)
	    : thread_group(lanes), meta_rank(which), meta_size(count)
	{
	}
	/* The lane of a rank, or this one if there is none. */
	__device__ unsigned int lane_of(unsigned int rank) const
	{
		unsigned int rest = mask;
		while (rank-- && rest)
			rest &= rest - 1;
		return rest ? (unsigned int)__builtin_ctz(rest) : details::lane();
	}
	friend __device__ coalesced_group coalesced_threads(void);
	template <class Group> friend __device__ coalesced_group binary_partition(const Group &group, bool predicate);
	template <class T, class Group>
	friend __device__ coalesced_group labeled_partition(const Group &group, T label);
	friend __device__ coalesced_group tiled_partition(const coalesced_group &parent, unsigned int size);

      public:
	__device__ unsigned int size(void) const
	{
		return (unsigned int)__popc(mask);
	}
	__device__ unsigned int num_threads(void) const
	{
		return size();
	}
	__device__ unsigned int thread_rank(void) const
	{
		return (unsigned int)__popc(mask & details::lanes_below());
	}
	__device__ unsigned int meta_group_rank(void) const
	{
		return meta_rank;
	}
	__device__ unsigned int meta_group_size(void) const
	{
		return meta_size;
	}
	__device__ void sync(void) const
	{
		__syncwarp(mask);
	}
	template <class T> __device__ T shfl(const T &value, unsigned int rank) const
	{
		return details::from_lane(mask, value, lane_of(rank));
	}
	template <class T> __device__ T shfl_up(const T &value, unsigned int delta) const
	{
		unsigned int rank = thread_rank();
		return details::from_lane(mask, value, lane_of(rank >= delta ? rank - delta : rank));
	}
	template <class T> __device__ T shfl_down(const T &value, unsigned int delta) const
	{
		unsigned int rank = thread_rank();
		return details::from_lane(mask, value, lane_of(rank + delta < size() ? rank + delta : rank));
	}
	__device__ int any(int predicate) const
	{
		return __any_sync(mask, predicate);
	}
	__device__ int all(int predicate) const
	{
		return __all_sync(mask, predicate);
	}
	__device__ unsigned int ballot(int predicate) const
	{
		return details::packed(mask, __ballot_sync(mask, predicate));
	}
	template <class T> __device__ unsigned int match_any(T value) const
	{
		return details::packed(mask, __match_any_sync(mask, value));
	}
	template <class T> __device__ unsigned int match_all(T value, int &predicate) const
	{
		return details::packed(mask, __match_all_sync(mask, value, &predicate));
	}
};

/* The threads of this warp that run this together. */
__device__ __inline__ coalesced_group coalesced_threads(void)
{
	return coalesced_group(__activemask());
}

/* `Size` neighbours of a warp, a power of two. */
template <unsigned int Size, class Parent = void> class thread_block_tile : public thread_group
{
	static_assert(Size >= 1 && Size <= 32 && !(Size & (Size - 1)), "a tile has 1, 2, 4, 8, 16 or 32 threads");

	static __device__ unsigned int lanes(void)
	{
		return Size == 32 ? 0xffffffffu : ((1u << (Size & 31)) - 1) << (details::lane() & ~(Size - 1));
	}

	__device__ explicit thread_block_tile(int) : thread_group(lanes())
	{
	}
	template <unsigned int Other, class Group>
	friend __device__ thread_block_tile<Other, Group> tiled_partition(const Group &parent);

      public:
	template <class Group>
	__device__ thread_block_tile(const thread_block_tile<Size, Group> &) : thread_group(lanes())
	{
	}
	static __device__ constexpr unsigned int size(void)
	{
		return Size;
	}
	static __device__ constexpr unsigned int num_threads(void)
	{
		return Size;
	}
	static __device__ unsigned int thread_rank(void)
	{
		return details::lane() & (Size - 1);
	}
	static __device__ unsigned int meta_group_rank(void)
	{
		return details::block_rank() / Size;
	}
	static __device__ unsigned int meta_group_size(void)
	{
		return (details::block_threads() + Size - 1) / Size;
	}
	static __device__ void sync(void)
	{
		__syncwarp(lanes());
	}
	template <class T> __device__ T shfl(const T &value, int rank) const
	{
		return details::from_lane(lanes(), value,
					  (details::lane() & ~(Size - 1)) | ((unsigned int)rank & (Size - 1)));
	}
	template <class T> __device__ T shfl_up(const T &value, unsigned int delta) const
	{
		return details::from_lane(lanes(), value, details::lane() - (thread_rank() >= delta ? delta : 0));
	}
	template <class T> __device__ T shfl_down(const T &value, unsigned int delta) const
	{
		return details::from_lane(lanes(), value, details::lane() + (thread_rank() + delta < Size ? delta : 0));
	}
	template <class T> __device__ T shfl_xor(const T &value, unsigned int bits) const
	{
		return details::from_lane(lanes(), value, details::lane() ^ (bits & (Size - 1)));
	}
	__device__ int any(int predicate) const
	{
		return __any_sync(lanes(), predicate);
	}
	__device__ int all(int predicate) const
	{
		return __all_sync(lanes(), predicate);
	}
	__device__ unsigned int ballot(int predicate) const
	{
		return __ballot_sync(lanes(), predicate) >> (details::lane() & ~(Size - 1));
	}
	template <class T> __device__ unsigned int match_any(T value) const
	{
		return __match_any_sync(lanes(), value) >> (details::lane() & ~(Size - 1));
	}
	template <class T> __device__ unsigned int match_all(T value, int &predicate) const
	{
		return __match_all_sync(lanes(), value, &predicate) >> (details::lane() & ~(Size - 1));
	}
};

/*
 * ---- Partitions -----------------------------------------------------------------------------------------------------
 */

/* A group cut into tiles; the size is known to the compiler, or a number up to 32. */
template <unsigned int Size, class Parent>
__device__ __inline__ thread_block_tile<Size, Parent> tiled_partition(const Parent &)
{
	return thread_block_tile<Size, Parent>(0);
}

__device__ __inline__ coalesced_group tiled_partition(const coalesced_group &parent, unsigned int size)
{
	unsigned int rank = parent.thread_rank(), first = rank - rank % size, tile = 0;
	for (unsigned int i = first; i < first + size && i < parent.size(); i++)
		tile |= 1u << parent.lane_of(i);
	return coalesced_group(tile, rank / size, (parent.size() + size - 1) / size);
}

__device__ __inline__ thread_group tiled_partition(const thread_group &parent, unsigned int size)
{
	unsigned int first = details::lane() & ~(size - 1);
	unsigned int tile = size >= 32 ? 0xffffffffu : ((1u << size) - 1) << first;
	return thread_group(parent.mask ? tile & parent.mask : tile);
}

/* The threads of a tile, or of those that came together, for which `predicate` is the same. */
template <class Group> __device__ __inline__ coalesced_group binary_partition(const Group &group, bool predicate)
{
	unsigned int lanes = group.__cenote_lanes(), yes = __ballot_sync(lanes, predicate);
	return coalesced_group(predicate ? yes : lanes & ~yes, predicate ? 1 : 0, 2);
}

/* The threads of such a group that have the same label. */
template <class T, class Group> __device__ __inline__ coalesced_group labeled_partition(const Group &group, T label)
{
	return coalesced_group(__match_any_sync(group.__cenote_lanes(), label));
}

/*
 * ---- Functions of any group -----------------------------------------------------------------------------------------
 */

template <class Group> __device__ __inline__ void sync(const Group &group)
{
	group.sync();
}

template <class Group> __device__ __inline__ unsigned long long thread_rank(const Group &group)
{
	return group.thread_rank();
}

template <class Group> __device__ __inline__ unsigned long long group_size(const Group &group)
{
	return group.size();
}

/* One thread of the group calls `function`. */
template <class Group, class Function, class... Arguments>
__device__ __inline__ void invoke_one(const Group &group, Function &&function, Arguments &&...arguments)
{
	if (group.thread_rank() == 0)
		function(static_cast<Arguments &&>(arguments)...);
}

} // namespace cooperative_groups

#endif /* __clang__ && __CUDA__ */

#endif /* _COOPERATIVE_GROUPS_H_ */

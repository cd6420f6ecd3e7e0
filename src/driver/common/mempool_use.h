/* SPDX-License-Identifier: MIT */
/*
 * Allocation and free in stream order, as both devices have them; they differ in how they find a stream.
 *
 * The path is short: find the stream, find the pool, call the allocator. It takes no lock and records nothing. So it is
 * inline, and each half of the driver has all of it in its calls.
 */
#ifndef CN_DRIVER_COMMON_MEMPOOL_USE_H
#define CN_DRIVER_COMMON_MEMPOOL_USE_H

#include "base/guard.h"
#include "driver/common/mempool.h"
#include "share/pool/import.h"

/* Free a block after all work that the device was given: each half of the driver does that in its own way. */
typedef CUresult cn_mempool_free_last(uint64_t address);

/* The stream was destroyed during the call. */
CUresult cn_mempool_undo_allocation(CUdeviceptr *ret_pointer, cn_mempool_free_last *free_last);
/* Free a block that the program will not get: in its queue, or, if that is gone, after all work. */
void cn_mempool_give_up(uint64_t address, struct cn_queue *queue, uint64_t owner, cn_mempool_free_last *free_last);
CUresult cn_mempool_free_imported(uint64_t address, struct cn_queue *queue, uint64_t handle);
/* Free what cn_pool_free() does not, with what it returned: the block is shared, or there is none. */
CUresult cn_mempool_free_otherwise(uint64_t address, struct cn_queue *queue, uint64_t handle, int freed);
/* Nothing that can be freed in a stream begins at the address: say why. `memory` is there, or is CN_MEMORY_FOREIGN. */
CUresult cn_mempool_refuse_free(uint64_t address, const struct cn_memory *memory);

static inline CUresult cn_mempool_allocate(CUdeviceptr *ret_pointer, size_t bytes, struct cn_mempool *pool,
					   struct cn_queue *queue, uint64_t owner, cn_mempool_free_last *free_last)
{
	if (!bytes)
		return CUDA_SUCCESS; /* NULL, which cuMemFreeAsync() takes back */
	CUresult error;
	void *address = cn_pool_allocate(pool->pool, queue, owner, bytes, &error);
	if (__builtin_expect(!address, 0))
		return error;
	*ret_pointer = (uintptr_t)address;
	/* If not, another stream has the queue now, and may have freed this block. */
	bool was_in_order = atomic_load_explicit(&queue->owner, memory_order_acquire) == owner;
	return __builtin_expect(was_in_order, 1) ? CUDA_SUCCESS : cn_mempool_undo_allocation(ret_pointer, free_last);
}

static inline CUresult cn_mempool_allocate_current(CUdeviceptr *ret_pointer, size_t bytes, int device,
						   struct cn_queue *queue, uint64_t owner,
						   cn_mempool_free_last *free_last)
{
	struct cn_mempool *pool = atomic_load_explicit(&cn_mempools_current[device], memory_order_acquire);

	if (__builtin_expect(!pool, 0)) {
		struct cn_mempool *found; /* its address is passed on, so that `pool` stays in a register */
		CUresult result = cn_mempool_find_current(&cn_devices[device], &found);
		if (result)
			return result;
		pool = found;
	}
	return cn_mempool_allocate(ret_pointer, bytes, pool, queue, owner, free_last);
}

/* As cn_mempool_get_own(). */
static inline CUresult cn_mempool_get_own_quickly(CUmemoryPool handle, struct cn_mempool **ret_pool)
{
	struct cn_mempool *pool = cn_table_find(&cn_mempools, handle), *found; /* *ret_pool stays in a register */

	if (__builtin_expect(pool && !atomic_load_explicit(&pool->import, memory_order_relaxed), 1)) {
		*ret_pool = pool;
		return CUDA_SUCCESS;
	}
	CUresult result = cn_mempool_get_own(handle, &found);
	if (!result)
		*ret_pool = found;
	return result;
}

static inline CUresult cn_mempool_allocate_from(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool_handle,
						struct cn_queue *queue, uint64_t owner, cn_mempool_free_last *free_last)
{
	struct cn_mempool *pool;
	CUresult result = cn_mempool_get_own_quickly(pool_handle, &pool);

	if (!result)
		result = cn_mempool_allocate(ret_pointer, bytes, pool, queue, owner, free_last);
	if (!result && __builtin_expect(atomic_load(&pool->object.handle) != (uintptr_t)pool_handle, 0)) {
		/* The pool was destroyed: the block may be of a pool that reuses the record. So may the stream be. */
		cn_mempool_give_up(*ret_pointer, queue, owner, free_last);
		*ret_pointer = 0;
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "the pool has been destroyed");
	}
	return result;
}

/* May the program allocate, and be told where? The pointer is 0 then. */
static inline bool cn_mempool_may_allocate(CUdeviceptr *ret_pointer)
{
	return cn_enter_allowed() && ret_pointer && __builtin_expect(cn_guard_put(ret_pointer, 0), 1);
}

/*
 * The same, with the error. Host functions may name a stream, but not allocate in it: that can wait. After a failure
 * the pointer is 0.
 */
static inline CUresult cn_mempool_enter_allocation(CUdeviceptr *ret_pointer)
{
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!ret_pointer)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "dptr is NULL");
	if (__builtin_expect(!cn_guard_put(ret_pointer, 0), 0))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "dptr: the memory at %p cannot be written",
				(void *)ret_pointer);
	return CUDA_SUCCESS;
}

static inline bool cn_mempool_is_import(uint64_t address)
{
	return __builtin_expect(atomic_load_explicit(&cn_imports_exist, memory_order_relaxed), 0) &&
	       cn_import_has((void *)(uintptr_t)address);
}

/* cn_mempool_free() of what is no import, with the queue's point now. */
static inline CUresult cn_mempool_free_at(uint64_t address, struct cn_point point, uint64_t handle)
{
	int freed = cn_pool_free((void *)(uintptr_t)address, point);

	return __builtin_expect(!freed, 1) ? CUDA_SUCCESS
					   : cn_mempool_free_otherwise(address, point.queue, handle, freed);
}

/*
 * `queue` NULL: see cn_pool_free(). CUDA_ERROR_INVALID_VALUE: no block can be freed at this address; the caller says
 * why, with cn_mempool_refuse_free().
 */
static inline CUresult cn_mempool_free(uint64_t address, struct cn_queue *queue, uint64_t handle)
{
	struct cn_point point = {NULL, 0};

	if (cn_mempool_is_import(address))
		return cn_mempool_free_imported(address, queue, handle);
	CUresult result = queue ? cn_device_ops->point_now(queue, handle, &point) : CUDA_SUCCESS;
	return __builtin_expect(result != CUDA_SUCCESS, 0) ? result : cn_mempool_free_at(address, point, handle);
}

#endif

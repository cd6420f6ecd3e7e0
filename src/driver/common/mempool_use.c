/* SPDX-License-Identifier: MIT */
/*
 * Using pools: allocation and free in stream order, and what is known of a block.
 *
 * The way through an allocation or a free is short: find the stream, find the pool, call the allocator. No lock is
 * taken and nothing is recorded. (Blocks with advice of their own are the exception; they are counted, and while
 * there are none a free need not look what it frees.)
 */
#include "base/guard.h"
#include "driver/common/cenote_share.h"
#include "driver/gpu/gpu_calls.h"

#include "cenote/cenote.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Ids of blocks and of the registry's memory are counted apart, and answer the same question. */
#define BLOCK_ID  (1ull << 63)
#define IMPORT_ID (1ull << 62)

/* ---- What a block is ---- */

/* What is known of a block is what is known of its pool. */
static struct cn_memory describe(const struct cn_mempool *pool, const void *start, size_t bytes, uint64_t id)
{
	bool managed = pool->type == CU_MEM_ALLOCATION_TYPE_MANAGED, on_host = !pool->device && !managed;
	/* Every device can use managed memory, whatever rights were given. */
	uint64_t users = managed ? UINT64_MAX : atomic_load_explicit(&pool->users, memory_order_relaxed);

	return (struct cn_memory){
		.kind = CN_MEMORY_POOL,
		.start = (uintptr_t)start,
		.bytes = bytes,
		.device = pool->device,
		.id = id,
		.pool = pool->handle,
		.managed = managed,
		.imported = pool->import != NULL,
		.preferred = pool->location,
		.on_host = on_host,
		.host_rights = on_host && atomic_load_explicit(&pool->host_uses, memory_order_relaxed)
				       ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
				       : CU_MEM_ACCESS_FLAGS_PROT_NONE,
		.handle_types = pool->handle_types,
		.readers = users,
		.writers = users,
	};
}

bool cn_mempool_find_memory(uint64_t address, struct cn_memory *ret_memory)
{
	struct cn_import_block imported;
	struct cn_pool_block block;

	if (!atomic_load_explicit(&cn_mempools_exist, memory_order_relaxed))
		return false;
	if (cn_pool_find((const void *)(uintptr_t)address, &block)) {
		*ret_memory = describe(cn_pool_owner(block.pool), block.start, block.bytes, block.id | BLOCK_ID);
		return true;
	}
	if (!cn_import_find((const void *)(uintptr_t)address, &imported))
		return false;
	*ret_memory = describe(imported.owner, imported.start, imported.bytes, imported.id | IMPORT_ID);
	return true;
}

/* ---- Allocating ----
 *
 * Each call comes in two forms, which differ in how they find a stream: on a GPU the streams are the driver's.
 */

/* The stream was destroyed meanwhile. */
static __attribute__((noinline)) CUresult undo_allocation(CUdeviceptr *ret_pointer)
{
	cn_mempool_free_now(*ret_pointer);
	*ret_pointer = 0;
	return cn_error(CUDA_ERROR_INVALID_HANDLE, "the stream was destroyed during the call");
}

static inline CUresult allocate(CUdeviceptr *ret_pointer, size_t bytes, struct cn_mempool *pool, struct cn_queue *queue,
				uint64_t owner)
{
	void *address;

	if (!bytes)
		return CUDA_SUCCESS; /* nothing, at NULL, which cuMemFreeAsync() takes back */
	CUresult result = cn_pool_allocate(pool->pool, queue, owner, bytes, &address);
	if (__builtin_expect(result != CUDA_SUCCESS, 0))
		return result;
	*ret_pointer = (uintptr_t)address;
	/* Else it was not: the block may be what another stream, which has the queue now, has freed. */
	bool was_in_order = atomic_load_explicit(&queue->owner, memory_order_acquire) == owner;
	return __builtin_expect(was_in_order, 1) ? CUDA_SUCCESS : undo_allocation(ret_pointer);
}

static inline CUresult allocate_current(CUdeviceptr *ret_pointer, size_t bytes, struct cn_device *device,
					struct cn_queue *queue, uint64_t owner)
{
	struct cn_mempool *pool = atomic_load_explicit(&cn_mempools_current[device->ordinal], memory_order_acquire);

	if (__builtin_expect(!pool, 0)) {
		CUresult result = cn_mempool_find_current(device, &pool);
		if (result)
			return result;
	}
	return allocate(ret_pointer, bytes, pool, queue, owner);
}

static inline CUresult allocate_from(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool_handle,
				     struct cn_queue *queue, uint64_t owner)
{
	struct cn_mempool *pool;
	CUresult result = cn_mempool_get_own(pool_handle, &pool);

	if (!result)
		result = allocate(ret_pointer, bytes, pool, queue, owner);
	if (!result && __builtin_expect(atomic_load(&pool->object.handle) != (uintptr_t)pool_handle, 0)) {
		/* Destroyed meanwhile: the block may be of a pool that has the record now. So may the stream be. */
		if (*ret_pointer && cn_pool_free((void *)(uintptr_t)*ret_pointer, queue, owner).outcome)
			cn_mempool_free_now(*ret_pointer);
		*ret_pointer = 0;
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "the pool has been destroyed");
	}
	return result;
}

/* Host functions may name a stream, but not allocate in it: that can wait. After a failure the pointer is 0. */
static inline CUresult enter_allocation(CUdeviceptr *ret_pointer)
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

/* What a pool or a queue says of a stream that is gone is said of its context, if that is gone. */
static inline CUresult in_stream(CUresult result, const struct cn_place *place)
{
	return __builtin_expect(result == CUDA_ERROR_INVALID_HANDLE, 0) ? cn_place_is_gone(place) : result;
}

CUresult own_cuMemAllocAsync(CUdeviceptr *ret_pointer, size_t bytes, CUstream handle)
{
	struct cn_place place;
	CUresult result = enter_allocation(ret_pointer);

	if (!result)
		result = cn_stream_find_quickly(handle, &place);
	if (result)
		return result;
	struct cn_device *device = atomic_load_explicit(&place.context->device, memory_order_relaxed);
	result = allocate_current(ret_pointer, bytes, device, &place.stream->queue, place.owner);
	return in_stream(result, &place);
}

CUresult gpu_cuMemAllocAsync(CUdeviceptr *ret_pointer, size_t bytes, CUstream handle)
{
	struct cn_cuda_place place;

	if (cn_cuda_is_capturing(handle))
		return driver_cuMemAllocAsync(ret_pointer, bytes, handle);
	CUresult result = enter_allocation(ret_pointer);
	if (!result)
		result = cn_cuda_find(handle, &place);
	return result ? result : allocate_current(ret_pointer, bytes, place.device, place.queue, place.owner);
}

CUresult own_cuMemAllocFromPoolAsync(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool, CUstream handle)
{
	struct cn_place place;
	CUresult result = enter_allocation(ret_pointer);

	if (!result)
		result = cn_stream_find_quickly(handle, &place);
	if (result)
		return result;
	result = allocate_from(ret_pointer, bytes, pool, &place.stream->queue, place.owner);
	return in_stream(result, &place);
}

CUresult cn_gpu_alloc_from_pool_async(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool, CUstream handle)
{
	struct cn_cuda_place place;
	CUresult result = enter_allocation(ret_pointer);

	if (!result)
		result = cn_cuda_find(handle, &place);
	return result ? result : allocate_from(ret_pointer, bytes, pool, place.queue, place.owner);
}

/* ---- Freeing ---- */

/* What cn_pool_free() does not free: it is shared, or an imported pool's, or has no block. */
static __attribute__((noinline)) CUresult free_otherwise(uint64_t address, struct cn_queue *queue, uint64_t handle,
							 struct cn_pool_freed freed)
{
	bool shared = freed.outcome == CN_POOL_FREE_SHARED;
	bool imported = freed.outcome == CN_POOL_FREE_ELSEWHERE && atomic_load(&cn_imports_exist) &&
			cn_import_has((void *)(uintptr_t)address);

	if (freed.outcome == CN_POOL_FREE_FAILED)
		return freed.error;
	if (!queue && (shared || imported))
		return cn_error(CUDA_ERROR_INVALID_CONTEXT,
				"a shared block is freed in stream order, which needs a current context");
	if (shared)
		return cn_mempool_free_shared(address, queue, handle);
	return imported ? cn_import_free((void *)(uintptr_t)address, queue, handle) : CUDA_ERROR_NOT_FOUND;
}

/* `queue` NULL: see cn_pool_free(). CUDA_ERROR_NOT_FOUND, unexplained: the address is no pool's. */
static inline CUresult free_block(uint64_t address, struct cn_queue *queue, uint64_t handle)
{
	/* Before the free: after it the addresses may be somebody else's. */
	if (__builtin_expect(atomic_load_explicit(&cn_mempools_advised, memory_order_relaxed), 0))
		cn_memory_forget_note(address);
	struct cn_pool_freed freed = cn_pool_free((void *)(uintptr_t)address, queue, handle);
	return __builtin_expect(!freed.outcome, 1) ? CUDA_SUCCESS : free_otherwise(address, queue, handle, freed);
}

/* Nothing that can be freed in a stream begins at the address: say why. */
static CUresult explain(uint64_t address)
{
	struct cn_memory memory;

	if (!cn_memory_find(address, &memory))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"no allocation is at 0x%" PRIx64 ": it was freed already, or never allocated", address);
	if (memory.start != address)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"0x%" PRIx64 " is inside the allocation that begins at 0x%" PRIx64, address,
				memory.start);
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the memory at 0x%" PRIx64 " cannot be freed in stream order",
			address);
}

CUresult own_cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
	struct cn_memory memory;
	struct cn_place place;
	CUresult result = cn_enter();

	if (!result)
		result = cn_stream_find_quickly(handle, &place);
	if (result || !pointer)
		return result;
	result = free_block(pointer, &place.stream->queue, place.owner);
	if (__builtin_expect(result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_NOT_FOUND, 1))
		return in_stream(result, &place);
	if (cn_memory_find(pointer, &memory) && memory.kind == CN_MEMORY_MANAGED)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"managed memory cannot be freed in stream order: use cuMemFree()");
	result = cn_memory_free_in_stream(&place, pointer, CN_MEMORY_DEVICE);
	return result == CUDA_ERROR_NOT_FOUND ? explain(pointer) : result;
}

CUresult gpu_cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
	struct cn_cuda_place place = {0};

	/* In a capture only what its graph has allocated is freed; the driver says so for a block of ours. */
	if (!cn_gpu_has_pools() || cn_cuda_is_capturing(handle))
		return cn_gpu_is_lost(pointer) ? cn_enter() : driver_cuMemFreeAsync(pointer, handle);
	CUresult result = cn_enter();
	if (!result)
		result = cn_cuda_find(handle, &place);
	if (!result)
		result = free_block(pointer, place.queue, place.owner);
	if (__builtin_expect(!result, 1))
		return CUDA_SUCCESS;
	if (!cn_gpu_is_ours(pointer))
		return driver_cuMemFreeAsync(pointer, handle);
	return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_FOUND ? explain(pointer) : result;
}

/* ---- Freeing without a stream ----
 *
 * cuMemFree() of a block does not wait, the manual says, and the program has seen to it that nobody uses the block.
 * If it has not, the block still is not given to anybody before all work that was submitted by then is done: it is
 * freed in a queue of its own, which waits for that work.
 */

enum { LATE_OWNER = 1, POINTS_AT_HAND = 32 };

static struct {
	pthread_once_t once;
	struct cn_queue queue;
} late = {.once = PTHREAD_ONCE_INIT};

static void open_late(void)
{
	cn_host_queue_open(&late.queue, NULL, LATE_OWNER);
}

static CUresult follow_all_work(void)
{
	struct cn_point at_hand[POINTS_AT_HAND], *points = at_hand;
	size_t room = POINTS_AT_HAND, count = cn_streams_pending(points, room);
	CUresult result = CUDA_SUCCESS;

	while (count > room) { /* again if there is more work by now: what did not fit may be older */
		room = count;
		if (points != at_hand)
			free(points);
		points = malloc(room * sizeof *points);
		if (!points)
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to remember the work of %zu streams",
					room);
		count = cn_streams_pending(points, room);
	}
	for (size_t i = 0; i < count && !result; i++)
		result = cn_device_ops->queue_wait(&late.queue, LATE_OWNER, points[i]);
	if (points != at_hand)
		free(points);
	return result;
}

/* A queue that comes after all work. Without one (*ret_place is empty then) nothing is to be waited for. */
static CUresult find_late(const struct cn_device *device, struct cn_cuda_place *ret_place)
{
	if (!cn_on_gpu) {
		pthread_once(&late.once, open_late);
		*ret_place = (struct cn_cuda_place){.queue = &late.queue, .owner = LATE_OWNER};
		return follow_all_work();
	}
	CUresult result = cn_gpu_find_late(device ? device->ordinal : 0, ret_place);
	if (result == CUDA_ERROR_INVALID_CONTEXT) { /* a block needs no context to be freed */
		*ret_place = (struct cn_cuda_place){.queue = NULL};
		return CUDA_SUCCESS;
	}
	return result;
}

CUresult cn_mempool_free_now(uint64_t address)
{
	struct cn_cuda_place place;
	struct cn_memory memory;

	if (!cn_mempool_find_memory(address, &memory) || memory.start != address)
		return explain(address);
	CUresult result = find_late(memory.device, &place);
	if (!result)
		result = free_block(address, place.queue, place.owner);
	if (result == CUDA_ERROR_NOT_FOUND) /* another thread was quicker */
		return explain(address);
	if (result || !place.queue)
		return result;
	cn_device_ops->queue_look(place.queue);
	struct cn_point point = {place.queue, atomic_load(&place.queue->completed)};
	if (cn_on_gpu)
		cn_cuda_reached(point);
	cn_pools_settle(point);
	return CUDA_SUCCESS;
}

struct cn_point cn_mempool_late_point(void)
{
	return (struct cn_point){&late.queue, atomic_load(&late.queue.completed)};
}

/* ---- Statistics ---- */

CENOTE_API CUresult cenote_pool_stats(CUmemoryPool handle, cenote_pool_statistics *ret_statistics, size_t room_bytes)
{
	struct cn_mempool *pool;
	struct cn_pool_statistics numbers;
	CUresult result = cn_mempool_enter_own(handle, &pool);

	if (result)
		return result;
	if (!ret_statistics || room_bytes > sizeof *ret_statistics)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "statistics need %zu bytes, and there is room for %zu at %p",
				sizeof *ret_statistics, room_bytes, (void *)ret_statistics);
	if (!cn_guard_check_write(ret_statistics, room_bytes, "ret_statistics"))
		return CUDA_ERROR_INVALID_VALUE;
	cn_mempool_look_again(pool);
	cn_pool_statistics(pool->pool, &numbers);
	cenote_pool_statistics statistics = {
		.used_bytes = numbers.used_bytes,
		.used_high_bytes = numbers.used_high_bytes,
		.reserved_bytes = numbers.reserved_bytes,
		.reserved_high_bytes = numbers.reserved_high_bytes,
		.largest_free_bytes = numbers.largest_free_bytes,
		.free_block_count = numbers.free_block_count,
		.live_block_count = numbers.live_block_count,
		.metadata_bytes = numbers.metadata_bytes,
		.reused_own = numbers.reused_own,
		.reused_settled = numbers.reused_settled,
		.reused_followed = numbers.reused_followed,
		.reused_opportunistic = numbers.reused_opportunistic,
		.reused_waiting = numbers.reused_waiting,
		.grown = numbers.grown,
	};
	_Static_assert(sizeof statistics.free_blocks_by_size == sizeof numbers.free_blocks_by_size,
		       "one for each power");
	memcpy(statistics.free_blocks_by_size, numbers.free_blocks_by_size, sizeof numbers.free_blocks_by_size);
	cn_mempool_count_shared(pool, &statistics);
	memcpy(ret_statistics, &statistics, room_bytes);
	return CUDA_SUCCESS;
}

CENOTE_API CUresult cenote_pool_picture(CUmemoryPool handle, char *ret_text, size_t room_bytes)
{
	enum { COLUMNS = 64, LINES_MAX = 64 };
	char cells[COLUMNS * LINES_MAX];
	struct cn_mempool *pool;
	CUresult result = cn_mempool_enter_own(handle, &pool);

	if (result)
		return result;
	size_t lines = room_bytes ? (room_bytes - 1) / (COLUMNS + 1) : 0;
	if (!ret_text || !lines)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a line of the picture needs %d bytes", COLUMNS + 2);
	lines = lines < LINES_MAX ? lines : LINES_MAX;
	if (!cn_guard_check_write(ret_text, lines * (COLUMNS + 1) + 1, "ret_text"))
		return CUDA_ERROR_INVALID_VALUE;
	cn_pool_draw(pool->pool, cells, lines * COLUMNS);
	for (size_t line = 0; line < lines; line++) {
		memcpy(ret_text, cells + line * COLUMNS, COLUMNS);
		ret_text += COLUMNS;
		*ret_text++ = '\n';
	}
	*ret_text = 0;
	return CUDA_SUCCESS;
}

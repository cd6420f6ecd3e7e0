/* SPDX-License-Identifier: MIT */
/*
 * Pools on the host device: allocating and freeing, in a stream and without one.
 *
 * A block with advice of its own has a note in the registry. Such blocks are counted; while there are none, a free need
 * not check what it frees.
 */
#include "driver/host/pool_calls.h"

#include "driver/common/mempool_use.h"
#include "driver/host/registry.h"

#include <pthread.h>
#include <stdlib.h>

/* The stream's queue has another owner, or none. Not inline: it is rare. */
static __attribute__((noinline)) CUresult is_gone(struct cn_stream *stream, uint64_t owner)
{
	struct cn_place place = {.stream = stream, .context = atomic_load(&stream->context), .owner = owner};

	return cn_place_is_gone(&place);
}

/* If the stream is gone because its context is, report the context. */
static inline CUresult in_stream(CUresult result, struct cn_stream *stream, uint64_t owner)
{
	return __builtin_expect(result == CUDA_ERROR_INVALID_HANDLE, 0) ? is_gone(stream, owner) : result;
}

/*
 * Most calls name a stream by its handle, which a few instructions find. Each call below is that case; it has an
 * _elsewhere, which checks and finds everything, for all others: the legacy stream, a thread's own, what is no stream,
 * a process that has not called cuInit().
 */

static inline CUresult allocate(CUdeviceptr *ret_pointer, size_t bytes, struct cn_stream *stream, uint64_t owner)
{
	int device = atomic_load_explicit(&stream->device, memory_order_relaxed);

	return in_stream(cn_mempool_allocate_current(ret_pointer, bytes, device, &stream->queue.base, owner,
						     cn_streams_free_after_all),
			 stream, owner);
}

static __attribute__((noinline)) CUresult allocate_elsewhere(CUdeviceptr *ret_pointer, size_t bytes, CUstream handle)
{
	struct cn_place place;
	CUresult result = cn_mempool_enter_allocation(ret_pointer);

	if (!result)
		result = cn_stream_find(handle, &place);
	return result ? result : allocate(ret_pointer, bytes, place.stream, place.owner);
}

CUresult host_cuMemAllocAsync(CUdeviceptr *ret_pointer, size_t bytes, CUstream handle)
{
	struct cn_stream *stream = cn_mempool_may_allocate(ret_pointer) ? cn_table_find(&cn_streams, handle) : NULL;

	if (__builtin_expect(!stream, 0))
		return allocate_elsewhere(ret_pointer, bytes, handle);
	return allocate(ret_pointer, bytes, stream, (uintptr_t)handle);
}

static inline CUresult allocate_from(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool,
				     struct cn_stream *stream, uint64_t owner)
{
	return in_stream(cn_mempool_allocate_from(ret_pointer, bytes, pool, &stream->queue.base, owner,
						  cn_streams_free_after_all),
			 stream, owner);
}

static __attribute__((noinline)) CUresult allocate_from_elsewhere(CUdeviceptr *ret_pointer, size_t bytes,
								  CUmemoryPool pool, CUstream handle)
{
	struct cn_place place;
	CUresult result = cn_mempool_enter_allocation(ret_pointer);

	if (!result)
		result = cn_stream_find(handle, &place);
	return result ? result : allocate_from(ret_pointer, bytes, pool, place.stream, place.owner);
}

CUresult host_cuMemAllocFromPoolAsync(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool, CUstream handle)
{
	struct cn_stream *stream = cn_mempool_may_allocate(ret_pointer) ? cn_table_find(&cn_streams, handle) : NULL;

	if (__builtin_expect(!stream, 0))
		return allocate_from_elsewhere(ret_pointer, bytes, pool, handle);
	return allocate_from(ret_pointer, bytes, pool, stream, (uintptr_t)handle);
}

static inline __attribute__((always_inline)) CUresult point_now(struct cn_host_queue *queue, uint64_t owner,
								struct cn_point *ret_point)
{
	if (__builtin_expect(cn_host_point_quickly(queue, owner, ret_point), 1))
		return CUDA_SUCCESS;
	struct cn_point point; /* its address is passed on, so that *ret_point stays in registers */
	CUresult result = cn_device_ops->point_now(&queue->base, owner, &point);
	if (!result)
		*ret_point = point;
	return result;
}

/* As cn_mempool_free(). */
static inline __attribute__((always_inline)) CUresult free_block(uint64_t address, struct cn_host_queue *queue,
								 uint64_t owner)
{
	struct cn_point point;

	/* Before the free: after it the addresses may be reused. */
	if (__builtin_expect(atomic_load_explicit(&cn_mempools_advised, memory_order_relaxed), 0))
		cn_registry_forget_note(address);
	if (cn_mempool_is_import(address))
		return cn_mempool_free_imported(address, &queue->base, owner);
	CUresult result = point_now(queue, owner, &point);
	return __builtin_expect(result != CUDA_SUCCESS, 0) ? result : cn_mempool_free_at(address, point, owner);
}

static CUresult explain(uint64_t address)
{
	struct cn_memory memory;

	cn_registry_find(address, &memory);
	return cn_mempool_refuse_free(address, &memory);
}

/* No block of a pool can be freed at the address: it may be other memory. */
static __attribute__((noinline)) CUresult free_other_memory(uint64_t address, CUstream handle)
{
	struct cn_memory memory;
	struct cn_place place;
	CUresult result = cn_stream_find(handle, &place);

	if (result)
		return result;
	if (cn_registry_find(address, &memory) && memory.kind == CN_MEMORY_MANAGED)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"managed memory cannot be freed in stream order: use cuMemFree()");
	return cn_registry_free_in_stream(&place, address, CN_MEMORY_DEVICE, &result) ? result : explain(address);
}

static inline CUresult free_in(uint64_t address, CUstream handle, struct cn_stream *stream, uint64_t owner)
{
	CUresult result = address ? free_block(address, &stream->queue, owner) : CUDA_SUCCESS;

	if (__builtin_expect(result == CUDA_ERROR_INVALID_VALUE, 0))
		return free_other_memory(address, handle);
	return in_stream(result, stream, owner);
}

static __attribute__((noinline)) CUresult free_elsewhere(uint64_t address, CUstream handle)
{
	struct cn_place place;
	CUresult result = cn_enter();

	if (!result)
		result = cn_stream_find(handle, &place);
	return result ? result : free_in(address, handle, place.stream, place.owner);
}

CUresult host_cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
	struct cn_stream *stream = cn_enter_allowed() ? cn_table_find(&cn_streams, handle) : NULL;

	if (__builtin_expect(!stream, 0))
		return free_elsewhere(pointer, handle);
	return free_in(pointer, handle, stream, (uintptr_t)handle);
}

/* ---- Freeing without a stream ----
 *
 * The manual says that cuMemFree() of a block does not wait: the program must have made sure that the block is not in
 * use. If it has not, the block is still not reused before all work that was submitted by then is done: it is freed in
 * a queue of its own, which waits for that work.
 */

enum { LATE_OWNER = 1, POINTS_AT_HAND = 32 };

static struct {
	pthread_once_t once;
	struct cn_host_queue queue;
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

	while (count > room) { /* again if there is more work now: what did not fit may be older */
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
		result = cn_device_ops->queue_wait(&late.queue.base, LATE_OWNER, points[i]);
	if (points != at_hand)
		free(points);
	return result;
}

CUresult cn_streams_free_after_all(uint64_t address)
{
	struct cn_memory memory;

	if (!cn_mempool_find_memory(address, &memory) || memory.start != address)
		return explain(address);
	pthread_once(&late.once, open_late);
	CUresult result = follow_all_work();
	if (!result)
		result = free_block(address, &late.queue, LATE_OWNER);
	if (result == CUDA_ERROR_INVALID_VALUE) /* another thread was faster */
		return explain(address);
	if (!result)
		cn_pools_settle(cn_streams_after_all_point());
	return result;
}

struct cn_point cn_streams_after_all_point(void)
{
	return (struct cn_point){&late.queue.base, atomic_load(&late.queue.base.completed)};
}

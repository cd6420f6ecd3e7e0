/* SPDX-License-Identifier: MIT */
/*
 * Blocks that other processes may have too.
 *
 * A shared block is the program's like any other, but its free is deferred: the block can be neither found nor handed
 * out until the layer above knows that no process has it any more, and returns it. That may happen in any thread at any
 * time, so it takes no lock: the block is put on a list that only grows, and the next thread that needs memory, or
 * looks at the pool, takes the whole list in.
 */
#include "pool/pool_internal.h"

static struct cn_block *find(const void *address, struct cn_pool **ret_pool, uint32_t *ret_index)
{
	struct cn_pool *pool = cn_pool_of(address);
	uint32_t index = pool ? cn_pool_starts_at(pool, address) : 0;

	if (!index)
		return NULL;
	*ret_pool = pool;
	*ret_index = index;
	return cn_pool_block_at(pool, index);
}

static bool change(struct cn_block *block, uint32_t from, uint32_t to)
{
	return atomic_compare_exchange_strong_explicit(&block->state, &from, to, memory_order_acq_rel,
						       memory_order_relaxed);
}

bool cn_pool_share(void *address, uint32_t tag)
{
	struct cn_pool *pool;
	uint32_t index;
	struct cn_block *block = find(address, &pool, &index);

	if (!block || atomic_load_explicit(&block->state, memory_order_relaxed) != CN_BLOCK_LIVE)
		return false;
	/* First: a thread that sees the state reads the tag. If the block is freed in between, no thread reads it. */
	atomic_store_explicit(&block->tag, tag, memory_order_relaxed);
	return change(block, CN_BLOCK_LIVE, CN_BLOCK_SHARED);
}

bool cn_pool_defer_free(void *address, uint32_t *ret_tag)
{
	struct cn_pool *pool;
	uint32_t index;
	struct cn_block *block = find(address, &pool, &index);

	if (!block || !change(block, CN_BLOCK_SHARED, CN_BLOCK_DEFERRED))
		return false;
	atomic_fetch_add_explicit(&pool->deferred_count, 1, memory_order_relaxed);
	*ret_tag = atomic_load_explicit(&block->tag, memory_order_relaxed);
	return true;
}

void cn_pool_cancel_deferred(void *address)
{
	struct cn_pool *pool;
	uint32_t index;
	struct cn_block *block = find(address, &pool, &index);

	if (block && change(block, CN_BLOCK_DEFERRED, CN_BLOCK_SHARED))
		atomic_fetch_sub_explicit(&pool->deferred_count, 1, memory_order_relaxed);
}

void cn_pool_free_deferred(void *address)
{
	struct cn_pool *pool;
	uint32_t index;
	struct cn_block *block = find(address, &pool, &index);

	if (!block || !change(block, CN_BLOCK_DEFERRED, CN_BLOCK_MOVING))
		return;
	uint64_t bytes = atomic_load_explicit(&block->bytes, memory_order_relaxed);
	uint32_t first = atomic_load_explicit(&pool->returned, memory_order_relaxed);
	do
		block->next = first;
	while (!atomic_compare_exchange_weak_explicit(&pool->returned, &first, index, memory_order_release,
						      memory_order_relaxed));
	atomic_fetch_sub_explicit(&pool->deferred_count, 1, memory_order_relaxed);
	/* Last: with its last byte uncounted, a destroyed pool may end. */
	atomic_fetch_sub_explicit(&pool->counted_bytes, bytes, memory_order_acq_rel);
}

void cn_pool_drain_returned(struct cn_pool *pool)
{
	if (!atomic_load_explicit(&pool->returned, memory_order_relaxed))
		return;
	uint32_t index = atomic_exchange_explicit(&pool->returned, 0, memory_order_acquire);
	while (index) {
		uint32_t next = cn_pool_block_at(pool, index)->next;
		cn_pool_give(pool, index);
		index = next;
	}
	/* Last: a thread that sees it, and takes it away, finds the blocks in the heap. */
	atomic_store_explicit(&pool->release_due, true, memory_order_release);
}

void cn_pool_set_recall(struct cn_pool *pool, void (*function)(void *object), void *object)
{
	if (function)
		atomic_store(&pool->recall_object, object);
	atomic_store(&pool->recall, function);
	if (function)
		cn_pool_watch(pool);
}

bool cn_pool_recall_deferred(struct cn_pool *pool)
{
	if (!atomic_load_explicit(&pool->deferred_count, memory_order_relaxed))
		return false;
	void (*recall)(void *object) = atomic_load(&pool->recall);
	if (recall)
		recall(atomic_load(&pool->recall_object));
	return recall && atomic_load_explicit(&pool->returned, memory_order_relaxed);
}

void *cn_pool_base(const struct cn_pool *pool, size_t *ret_bytes)
{
	*ret_bytes = (size_t)pool->heap.unit_count * CN_HEAP_UNIT_BYTES;
	return pool->base;
}

CUresult cn_pool_part(const struct cn_pool *pool, size_t offset, struct cn_arena_part *ret_part)
{
	return cn_device_ops->arena_part(pool->arena, offset, ret_part);
}

uint64_t cn_pool_serial(const struct cn_pool *pool, size_t offset, size_t *ret_end)
{
	return cn_device_ops->arena_serial(pool->arena, offset, ret_end);
}

void cn_pool_on_part_lost(struct cn_pool *pool, void (*function)(void *object, size_t offset), void *object)
{
	cn_device_ops->arena_watch(pool->arena, function, object);
}

/* SPDX-License-Identifier: MIT */
/*
 * Memory that goes back to the device.
 *
 * Whole free chunks go back when the pool is trimmed, has more than its threshold or ends. A chunk is free when the
 * streams have reached its blocks' frees; but a program that broke the rules may have work under way in another stream
 * which still touches it. So a chunk leaves the heap with a ticket (device/grace.h), and its memory goes once the
 * ticket has passed: at once if nothing was under way, otherwise with a later call. Until then it counts as reserved,
 * and an allocation that finds nothing else takes it back.
 *
 * One thread at a time gives back a pool's memory. Others wait for it: after a wait for a stream, no memory that could
 * go counts as reserved, whichever thread gives it back.
 */
#include "pool/pool_internal.h"

#include "device/grace.h"

static uint64_t bytes_of(const struct cn_block *block)
{
	return (uint64_t)block->units * CN_HEAP_UNIT_BYTES;
}

/* Give the memory of chunks back, linked by `next`. The system is asked without a lock. */
static void decommit(struct cn_pool *pool, uint32_t index)
{
	while (index) {
		const struct cn_block *block = cn_pool_block_at(pool, index);
		uint32_t next = block->next;
		uint64_t bytes = bytes_of(block);
		cn_device_ops->arena_decommit(pool->arena, (size_t)block->start * CN_HEAP_UNIT_BYTES, bytes);
		cn_lock(&pool->lock);
		cn_heap_give_hole(&pool->heap, index);
		pool->reserved_bytes -= bytes;
		pool->releasing_bytes -= bytes;
		cn_unlock(&pool->lock);
		index = next;
	}
}

/* Out of the heap, linked by `next`, MOVING. */
static uint32_t take_chunks(struct cn_pool *pool, uint64_t keep_bytes, bool at_least)
{
	uint32_t taken = 0, index;

	do { /* a few per lock, so that others get in between */
		cn_lock(&pool->lock);
		uint64_t staying = pool->reserved_bytes - pool->releasing_bytes;
		uint64_t surplus = staying > keep_bytes ? staying - keep_bytes : 0;
		uint64_t units = (surplus + (at_least ? 0 : CN_HEAP_CHUNK_BYTES - 1)) / CN_HEAP_CHUNK_BYTES *
				 CN_HEAP_CHUNK_UNITS;
		index = units ? cn_heap_take_chunks(&pool->heap, (uint32_t)units) : 0;
		if (index) {
			pool->releasing_bytes += bytes_of(cn_pool_block_at(pool, index));
			cn_pool_block_at(pool, index)->next = taken;
			taken = index;
		}
		cn_unlock(&pool->lock);
	} while (index);
	return taken;
}

/* They go when their ticket has passed. */
static void put_off(struct cn_pool *pool, uint32_t index, uint64_t ticket)
{
	cn_lock(&pool->lock);
	for (uint32_t next; index; index = next) {
		struct cn_block *block = cn_pool_block_at(pool, index);
		next = block->next;
		block->number = ticket;
		block->next = atomic_load_explicit(&pool->releasing, memory_order_relaxed);
		atomic_store_explicit(&pool->releasing, index, memory_order_relaxed);
	}
	cn_unlock(&pool->lock);
}

/* Take one out of the list; `before` is the one that leads to it, 0: it is the first. Pool locked. */
static void unlink_locked(struct cn_pool *pool, uint32_t before, uint32_t index)
{
	uint32_t next = cn_pool_block_at(pool, index)->next;

	if (before)
		cn_pool_block_at(pool, before)->next = next;
	else
		atomic_store_explicit(&pool->releasing, next, memory_order_relaxed);
}

/* Those with a ticket up to `passed`, linked by `next`. */
static uint32_t take_passed(struct cn_pool *pool, uint64_t passed)
{
	uint32_t taken = 0, before = 0, next;

	cn_lock(&pool->lock);
	for (uint32_t index = atomic_load_explicit(&pool->releasing, memory_order_relaxed); index; index = next) {
		struct cn_block *block = cn_pool_block_at(pool, index);
		next = block->next;
		if (block->number > passed) {
			before = index;
			continue;
		}
		unlink_locked(pool, before, index);
		block->next = taken;
		taken = index;
	}
	cn_unlock(&pool->lock);
	return taken;
}

static void give_passed(struct cn_pool *pool, uint64_t passed)
{
	cn_slow_lock(&pool->giving);
	decommit(pool, take_passed(pool, passed));
	cn_slow_unlock(&pool->giving);
}

void cn_pool_finish_release(struct cn_pool *pool)
{
	if (atomic_load_explicit(&pool->releasing_bytes, memory_order_relaxed))
		give_passed(pool, cn_grace_passed());
}

void cn_pool_release(struct cn_pool *pool, uint64_t keep_bytes, bool at_least)
{
	uint32_t index = take_chunks(pool, keep_bytes, at_least);
	uint64_t ticket = index ? cn_grace_ticket() : 0;

	put_off(pool, index, ticket);
	if (atomic_load_explicit(&pool->releasing_bytes, memory_order_relaxed))
		give_passed(pool, cn_grace_passed_soon(ticket));
	if (atomic_load_explicit(&pool->releasing, memory_order_relaxed))
		cn_pool_watch(pool);
}

void cn_pool_release_all(struct cn_pool *pool)
{
	decommit(pool, take_passed(pool, UINT64_MAX));
	decommit(pool, take_chunks(pool, 0, true));
}

uint32_t cn_pool_take_releasing(struct cn_pool *pool, uint32_t units)
{
	uint32_t before = 0, index = 0;

	if (!atomic_load_explicit(&pool->releasing, memory_order_relaxed))
		return 0;
	cn_lock(&pool->lock);
	index = atomic_load_explicit(&pool->releasing, memory_order_relaxed);
	while (index && cn_pool_block_at(pool, index)->units < units) {
		before = index;
		index = cn_pool_block_at(pool, index)->next;
	}
	if (index) {
		unlink_locked(pool, before, index);
		pool->releasing_bytes -= bytes_of(cn_pool_block_at(pool, index));
		cn_heap_give(&pool->heap, index);
		index = cn_heap_take(&pool->heap, units);
		if (index)
			atomic_fetch_add_explicit(&pool->reused_settled, 1, memory_order_relaxed);
	}
	cn_unlock(&pool->lock);
	return index;
}

/* SPDX-License-Identifier: MIT */
/*
 * What the two files of the pool know of each other: pool.c has its life, allocate.c its blocks' comings and goings.
 */
#ifndef CN_POOL_INTERNAL_H
#define CN_POOL_INTERNAL_H

#include "pool/heap.h"
#include "pool/pool.h"

struct cn_cache {
	_Alignas(64) struct cn_lock lock;
	struct cn_pool *pool;
	struct cn_queue *queue;
	struct cn_cache *next; /* of the pool; the list only grows */
	uint64_t next_id;
	uint64_t reused;
	_Atomic uint64_t credit_bytes; /* counted as used, but free: see count_used() */
	_Atomic uint64_t swept;        /* how far the queue was when join_pieces() last looked */
	struct cn_bins bins;
};

struct cn_pool {
	struct cn_lock lock; /* of the heap, the list of caches, and what follows up to the base */
	struct cn_heap heap;
	uint64_t reserved_bytes, reserved_high_bytes;
	uint64_t reused_settled, grown;
	_Atomic uint64_t reused_followed, reused_opportunistic, reused_waiting;
	struct cn_pool *next; /* of all pools; `pools.lock` guards it */
	char *base;
	struct cn_arena *arena;
	uint64_t id;
	uint64_t max_bytes;
	void *owner;
	struct cn_cache *_Atomic caches;
	_Atomic unsigned policies;
	_Atomic uint64_t threshold_bytes;
	_Atomic bool dying;
	_Alignas(64) _Atomic uint64_t counted_bytes; /* what is used, and the credits of the caches */
	_Atomic uint64_t used_high_bytes;
};

/* The pool that an address belongs to; NULL: none. */
struct cn_pool *cn_pool_of(const void *address);
/* The cache of a queue in a pool; NULL: it has freed nothing there. */
struct cn_cache *cn_pool_cache(const struct cn_pool *pool, const struct cn_queue *queue);
uint64_t cn_pool_used(const struct cn_pool *pool);
/* Settle the blocks of a cache whose frees, up to a point of its queue, have happened. Were there any? */
bool cn_pool_settle_cache(struct cn_cache *cache, struct cn_point point);
void cn_pool_settle_all(struct cn_pool *pool);
/* Give all free chunks back. */
void cn_pool_release(struct cn_pool *pool);
/* End the destroyed pools that nobody needs any more. */
void cn_pools_reap(void);

static inline struct cn_block *block_of(const struct cn_pool *pool, uint32_t index)
{
	return cn_block_at(&pool->heap, index);
}

static inline bool is_reached(const struct cn_cache *cache, const struct cn_block *block)
{
	return cn_point_reached((struct cn_point){cache->queue, block->number});
}

static inline void set_moving(struct cn_block *block)
{
	atomic_store_explicit(&block->state, CN_BLOCK_MOVING, memory_order_release);
}

#endif

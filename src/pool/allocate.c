/* SPDX-License-Identifier: MIT */
/*
 * Allocating and freeing in the order of queues.
 *
 * For each queue that has freed in a pool there is a cache: the blocks which that queue freed, by class, newest
 * first, each with the number of its free. The fast path is the cache of one's own queue: one lock that only this
 * queue's users take, one list, no call of the device. Others may look into it too, and take a block whose free they
 * are ordered after, or which has happened.
 *
 * Locks: a cache's before the pool's. None is held while a thread waits or the system is asked for memory.
 */
#include "pool/pool_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum {
	KNOWN_CACHES = 4,         /* a thread remembers these */
	SEARCH_DEPTH_MAX = 8,     /* blocks of another queue's list that are looked at */
	PATIENCE_ROUNDS = 100,    /* of a millisecond: how long an allocation waits for memory to come free */
	GROWTH_SHIFT = 6,         /* a pool grows by this part of it, if not by more */
	CACHED_PARTS = 3,         /* what the caches keep is so many parts of the pool, or it is joined */
	CACHED_SHIFT = 6,         /* of so many, to the power of two */
	MORE_SHIFT = 4,           /* and again when there is this part more of it */
	CACHES_SWEPT_FREELY = 16, /* caches, for one allocation */
	CREDIT_BYTES_MAX = 256 * 1024 * 1024, /* what a large block takes must not cost more than a small one */
	LARGEST_CLASS = CN_SIZE_CLASS_COUNT - 1,
};

static _Atomic uint64_t last_cache;
static _Atomic uint32_t last_place;

/* What a thread found last: caches by pool and queue. */
static _Thread_local struct {
	const struct cn_pool *pool;
	uint64_t pool_id;
	const struct cn_queue *queue;
	struct cn_pool_cache *cache;
} known[KNOWN_CACHES] __attribute__((tls_model("initial-exec")));

/* ---- Caches ---- */

static CUresult is_gone(void)
{
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the pool has been destroyed");
}

/* Give the queue a place, for good, and the pool a page that has it. False: no memory. */
static bool make_place(struct cn_pool *pool, struct cn_queue *queue)
{
	struct cn_pool_cache *_Atomic *none = NULL;
	uint32_t place = atomic_load(&queue->pool_index);

	if (!place) {
		uint32_t fresh = atomic_fetch_add(&last_place, 1) + 1;
		place = atomic_compare_exchange_strong(&queue->pool_index, &place, fresh) ? fresh : place;
	}
	if (place >= CN_POOL_INDEX_COUNT || atomic_load(&pool->index_pages[place / CN_POOL_INDEX_PAGE_CACHES]))
		return true;
	struct cn_pool_cache *_Atomic *page = calloc(CN_POOL_INDEX_PAGE_CACHES, sizeof(struct cn_pool_cache * _Atomic));
	if (!page)
		return false;
	if (!atomic_compare_exchange_strong(&pool->index_pages[place / CN_POOL_INDEX_PAGE_CACHES], &none, page))
		free((void *)page);
	return true;
}

/*
 * Let everybody find the cache. False: there must be another group for it; it is taken from *more if there is one. Pool
 * locked.
 */
static bool enter_cache(struct cn_pool *pool, struct cn_pool_cache *cache, struct cn_pool_cache_group **more)
{
	uint32_t place = atomic_load(&cache->queue->pool_index);
	unsigned number = atomic_load(&pool->cache_count), at = number % CN_POOL_GROUP_CACHES;

	if (number && !at) {
		if (!*more)
			return false;
		atomic_store_explicit(&pool->last_group->next, *more, memory_order_release);
		pool->last_group = *more;
		*more = NULL;
	} else if (!number) {
		pool->last_group = &pool->group;
	}
	cache->next = atomic_load(&pool->caches);
	cache->group = pool->last_group;
	cache->group_bit = 1ull << at;
	cache->credit_bytes_max = number < CN_POOL_CREDIT_CACHES_MAX ? CREDIT_BYTES_MAX : 0;
	atomic_store_explicit(&cache->group->caches[at], cache, memory_order_release);
	atomic_store_explicit(&pool->caches, cache, memory_order_release);
	if (number < CN_POOL_CREDIT_CACHES_MAX)
		atomic_store_explicit(&pool->credit_caches[number], cache, memory_order_release);
	if (place < CN_POOL_INDEX_COUNT) {
		struct cn_pool_cache *_Atomic *page =
			atomic_load(&pool->index_pages[place / CN_POOL_INDEX_PAGE_CACHES]);
		atomic_store_explicit(&page[place % CN_POOL_INDEX_PAGE_CACHES], cache, memory_order_release);
	}
	atomic_store(&pool->cache_count, number + 1);
	return true;
}

/* For a queue that has none yet. */
static CUresult make_cache(struct cn_pool *pool, struct cn_queue *queue, struct cn_pool_cache **ret_cache)
{
	struct cn_pool_cache *cache = make_place(pool, queue) ? cn_pool_cache_new() : NULL, *other = NULL;
	struct cn_pool_cache_group *more = NULL;
	bool ended, entered = false;

	if (!cache)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a pool's record of a stream");
	cn_quick_lock(&cache->lock);
	cache->pool = pool;
	cache->queue = queue;
	cache->next_id = (atomic_fetch_add(&last_cache, 1) + 1) << 40;
	cn_quick_unlock(&cache->lock);
	do {
		cn_lock(&pool->lock);
		ended = pool->ended;
		if (!ended)
			other = cn_pool_cache_of(pool, queue);
		if (!ended && !other)
			entered = enter_cache(pool, cache, &more);
		cn_unlock(&pool->lock);
	} while (!ended && !other && !entered && (more = calloc(1, sizeof *more)));
	free(more);
	if (!entered)
		cn_pool_cache_recycle(cache);
	if (ended)
		return is_gone();
	if (!entered && !other)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a pool's records of streams");
	*ret_cache = other ? other : cache;
	return CUDA_SUCCESS;
}

static __attribute__((noinline)) CUresult find_cache_slowly(struct cn_pool *pool, struct cn_queue *queue, unsigned slot,
							    uint64_t id, struct cn_pool_cache **ret_cache)
{
	struct cn_pool_cache *cache = cn_pool_cache_of(pool, queue);
	CUresult result = cache ? CUDA_SUCCESS : make_cache(pool, queue, &cache);

	if (result)
		return result;
	known[slot].pool = pool;
	known[slot].pool_id = id;
	known[slot].queue = queue;
	known[slot].cache = cache;
	*ret_cache = cache;
	return CUDA_SUCCESS;
}

static inline CUresult find_cache(struct cn_pool *pool, struct cn_queue *queue, struct cn_pool_cache **ret_cache)
{
	unsigned slot = (unsigned)(((uintptr_t)pool ^ (uintptr_t)queue) >> 6) % KNOWN_CACHES;
	uint64_t id = atomic_load_explicit(&pool->id, memory_order_relaxed);

	if (__builtin_expect(known[slot].queue != queue || known[slot].pool != pool || known[slot].pool_id != id, 0))
		return find_cache_slowly(pool, queue, slot, id, ret_cache);
	*ret_cache = known[slot].cache;
	return CUDA_SUCCESS;
}

/* Since we found the cache, others may have destroyed the pool, and both may serve another one. Cache locked. */
static bool is_open(const struct cn_pool_cache *cache, const struct cn_pool *pool, const struct cn_queue *queue)
{
	return cache->pool == pool && atomic_load_explicit(&cache->queue, memory_order_relaxed) == queue &&
	       !atomic_load_explicit(&pool->dying, memory_order_acquire);
}

/* ---- Numbers ---- */

/*
 * How much is used is one number that all queues change: to keep two threads from fighting for it, a cache that has
 * freed something does not uncount it, within a bound, and takes from this credit when it allocates. Where the count
 * is above the high-water mark, the credits are subtracted. Cache locked.
 */
static inline void count_used(struct cn_pool_cache *cache, uint64_t bytes)
{
	uint64_t credit = atomic_load_explicit(&cache->credit_bytes, memory_order_relaxed);
	uint64_t lacking = credit < bytes ? bytes - credit : 0;

	atomic_store_explicit(&cache->credit_bytes, lacking ? 0 : credit - bytes, memory_order_relaxed);
	if (lacking)
		atomic_fetch_add_explicit(&cache->pool->counted_bytes, lacking, memory_order_relaxed);
}

static inline void count_unused(struct cn_pool_cache *cache, uint64_t bytes)
{
	uint64_t credit = atomic_load_explicit(&cache->credit_bytes, memory_order_relaxed) + bytes;

	bool full = credit > cache->credit_bytes_max;
	atomic_store_explicit(&cache->credit_bytes, full ? 0 : credit, memory_order_relaxed);
	if (full) /* last: see cn_pool_used() */
		atomic_fetch_sub_explicit(&cache->pool->counted_bytes, credit, memory_order_acq_rel);
}

/*
 * The count is above the high-water mark: this is one, or credits make it so. Then ours is given up: else every
 * allocation would come here, and look at what other threads are writing.
 */
static __attribute__((noinline)) void raise_high_water(struct cn_pool_cache *cache)
{
	struct cn_pool *pool = cache->pool;
	uint64_t used = cn_pool_used(pool), high = atomic_load_explicit(&pool->used_high_bytes, memory_order_relaxed);

	/* Others change the credits meanwhile: a block that went may be in the sum, and another in its place. */
	for (uint64_t again; used > high && (again = cn_pool_used(pool)) < used;)
		used = again;
	while (used > high)
		if (atomic_compare_exchange_weak_explicit(&pool->used_high_bytes, &high, used, memory_order_relaxed,
							  memory_order_relaxed))
			return;
	if (!atomic_load_explicit(&cache->credit_bytes, memory_order_relaxed))
		return;
	cn_quick_lock(&cache->lock);
	uint64_t credit = atomic_load_explicit(&cache->credit_bytes, memory_order_relaxed);
	atomic_store_explicit(&cache->credit_bytes, 0, memory_order_relaxed);
	atomic_fetch_sub_explicit(&pool->counted_bytes, credit, memory_order_acq_rel);
	cn_quick_unlock(&cache->lock);
}

/* An allocation has succeeded. */
static inline void update_high_water(struct cn_pool *pool, struct cn_pool_cache *cache)
{
	if (__builtin_expect(atomic_load_explicit(&pool->counted_bytes, memory_order_relaxed) >
				     atomic_load_explicit(&pool->used_high_bytes, memory_order_relaxed),
			     0))
		raise_high_water(cache);
}

/* ---- Allocating ---- */

static inline uint32_t units_of(size_t bytes)
{
	return (uint32_t)((bytes + CN_HEAP_UNIT_BYTES - 1) / CN_HEAP_UNIT_BYTES);
}

/* The block is the program's from now on. */
static inline void *hand_out(struct cn_pool *pool, struct cn_block *block, size_t bytes, uint64_t id)
{
	atomic_store_explicit(&block->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&block->id, id, memory_order_relaxed);
	atomic_store_explicit(&block->state, CN_BLOCK_LIVE, memory_order_release);
	return pool->base + (size_t)block->start * CN_HEAP_UNIT_BYTES;
}

/* A freed block is the queue's to reuse, and the pool knows that there is one of its class. Cache locked. */
static inline __attribute__((always_inline)) void keep(struct cn_pool_cache *cache, uint32_t index)
{
	struct cn_pool *pool = cache->pool;
	struct cn_block *block = cn_pool_block_at(pool, index);

	unsigned class = cn_bins_push(&pool->heap, &cache->bins, index);
	_Atomic uint64_t *nonempty = &cache->group->nonempty[class];
	if (!block->next && !(atomic_load_explicit(nonempty, memory_order_relaxed) & cache->group_bit))
		atomic_fetch_or_explicit(nonempty, cache->group_bit, memory_order_release);
	atomic_store_explicit(&block->state, CN_BLOCK_CACHED, memory_order_release);
}

/* Cut what is too large: the rest stays with its queue, or becomes anybody's. Cache locked, block MOVING. */
static void trim_block(struct cn_pool_cache *cache, uint32_t index, uint32_t units, bool rest_is_settled)
{
	struct cn_pool *pool = cache->pool;
	struct cn_block *block = cn_pool_block_at(pool, index);

	if (block->units == units)
		return;
	cn_lock(&pool->lock);
	uint32_t rest = cn_heap_cut(&pool->heap, index, units);
	if (rest && rest_is_settled)
		cn_heap_give(&pool->heap, rest);
	cn_unlock(&pool->lock);
	if (rest && !rest_is_settled) {
		struct cn_block *other = cn_pool_block_at(pool, rest);
		other->number = block->number;
		keep(cache, rest);
	}
}

/* Rule 1 for a block that is larger than needed. */
static uint32_t take_own_larger(struct cn_pool_cache *cache, uint32_t units)
{
	cn_quick_lock(&cache->lock);
	uint32_t index = cn_bins_fit(&cache->pool->heap, &cache->bins, units);
	if (index) {
		cn_bins_remove(&cache->pool->heap, &cache->bins, index);
		cache->reused++;
		cn_block_set_moving(cn_pool_block_at(cache->pool, index));
		trim_block(cache, index, units, false);
	}
	cn_quick_unlock(&cache->lock);
	return index;
}

/* Rule 2: what is settled. */
static uint32_t take_settled(struct cn_pool *pool, uint32_t units)
{
	uint32_t index;

	do {
		cn_pool_drain_returned(pool);
		cn_lock(&pool->lock);
		index = cn_heap_take(&pool->heap, units);
		if (index)
			pool->reused_settled++;
		cn_unlock(&pool->lock);
	} while (!index && cn_pool_recall_deferred(pool));
	return index;
}

enum rule { FOLLOWED, FOLLOWED_PENDING, HAPPENED, TO_BE_WAITED_FOR };

/* Why a block of another queue's can be had. */
struct grounds {
	struct cn_point freed;
	struct cn_point relied_on; /* by the rules FOLLOWED: see queue_rely() in device.h */
};

/* May `queue` have this block of another queue's? */
static bool fits_rule(enum rule rule, struct cn_queue *queue, struct grounds *grounds)
{
	struct cn_point point = grounds->freed;

	if (rule == HAPPENED)
		return cn_point_reached(point);
	if (rule == FOLLOWED_PENDING && cn_point_reached(point))
		return false; /* it can be had by another rule, without a look at what the queue has followed */
	if (rule == FOLLOWED || rule == FOLLOWED_PENDING)
		return cn_device_ops->queue_follows(queue, point, &grounds->relied_on);
	/* Not one whose stream waits for another process: that wait may need us. */
	return !cn_device_ops->point_waits_outside(point);
}

/* One that another queue freed, of the classes from `units` up to `last_class`. The other cache is locked. */
static uint32_t search_cache(const struct cn_pool_cache *other, const struct cn_pool_cache *own, uint32_t units,
			     unsigned last_class, enum rule rule, struct grounds *ret_grounds)
{
	for (unsigned at = cn_bins_next(&other->bins, cn_size_class_below(units)); at <= last_class;
	     at = cn_bins_next(&other->bins, at + 1)) {
		uint32_t index = other->bins.heads[at];
		for (unsigned deep = 0; index && deep < SEARCH_DEPTH_MAX; deep++) {
			const struct cn_block *block = cn_pool_block_at(own->pool, index);
			ret_grounds->freed = (struct cn_point){other->queue, block->number};
			if (block->units >= units && fits_rule(rule, own->queue, ret_grounds))
				return index;
			index = block->next;
		}
	}
	return 0;
}

static uint32_t take_from(struct cn_pool_cache *other, const struct cn_pool_cache *own, uint32_t units,
			  unsigned last_class, enum rule rule, struct grounds *ret_grounds)
{
	cn_quick_lock(&other->lock);
	uint32_t index = search_cache(other, own, units, last_class, rule, ret_grounds);
	if (index) {
		struct cn_block *block = cn_pool_block_at(own->pool, index);
		cn_bins_remove(&own->pool->heap, &other->bins, index);
		cn_block_set_moving(block);
		trim_block(other, index, units, false);
	} else { /* nobody needs to come again for what is gone */
		for (unsigned at = cn_size_class_below(units); at <= cn_size_class_above(units); at++)
			if (!other->bins.heads[at])
				atomic_fetch_and_explicit(&other->group->nonempty[at], ~other->group_bit,
							  memory_order_relaxed);
	}
	cn_quick_unlock(&other->lock);
	return index;
}

/* Caches of a group that may have something. */
static uint64_t nonempty_in(const struct cn_pool_cache_group *group, unsigned class, unsigned last_class)
{
	uint64_t caches = 0;

	for (; class <= last_class; class ++)
		caches |= atomic_load_explicit(&group->nonempty[class], memory_order_acquire);
	return caches;
}

/*
 * What other queues freed, of the classes up to `last_class`. The block is taken off its list.
 */
static uint32_t take_from_others(struct cn_pool_cache *own, uint32_t units, unsigned last_class, enum rule rule,
				 struct grounds *ret_grounds)
{
	const struct cn_pool_cache_group *group = &own->pool->group;

	if (atomic_load_explicit(&own->pool->cache_count, memory_order_relaxed) < 2)
		return 0; /* there are no others */
	for (; group; group = atomic_load_explicit(&group->next, memory_order_acquire)) {
		uint64_t caches = nonempty_in(group, cn_size_class_below(units), last_class);
		if (group == own->group)
			caches &= ~own->group_bit;
		for (; caches; caches &= caches - 1) {
			struct cn_pool_cache *other =
				atomic_load_explicit(&group->caches[__builtin_ctzll(caches)], memory_order_acquire);
			uint32_t index = take_from(other, own, units, last_class, rule, ret_grounds);
			if (index)
				return index;
		}
	}
	return 0;
}

/* The block could not be had after all: it is whose it was. */
static void put_back(struct cn_pool *pool, uint32_t index, struct cn_point point)
{
	struct cn_pool_cache *other = cn_pool_cache_of(pool, point.queue);

	cn_quick_lock(&other->lock);
	cn_pool_block_at(pool, index)->number = point.number;
	keep(other, index);
	cn_quick_unlock(&other->lock);
}

/*
 * Rule 2. Who waits for the queue now must wait for the block's free as well, and the legacy stream's order stands in a
 * queue only when it is given something: queue_rely() puts it there.
 */
static uint32_t take_followed(struct cn_pool_cache *cache, uint64_t handle, uint32_t units, unsigned last_class,
			      enum rule rule)
{
	struct grounds grounds;
	uint32_t index = take_from_others(cache, units, last_class, rule, &grounds);

	if (index && !cn_point_reached(grounds.freed) &&
	    cn_device_ops->queue_rely(cache->queue, handle, grounds.relied_on)) {
		put_back(cache->pool, index, grounds.freed); /* the queue is gone */
		index = 0;
	}
	return index;
}

/* Rule 6: new memory, at least `wanted` units of it. The block is cut from it. */
static CUresult grow_by(struct cn_pool *pool, uint32_t needed, uint64_t wanted, uint32_t *ret_index)
{
	cn_lock(&pool->lock);
	uint64_t room = (pool->max_bytes - pool->reserved_bytes) / CN_HEAP_UNIT_BYTES;
	uint32_t hole = wanted <= room ? cn_heap_take_hole(&pool->heap, (uint32_t)wanted) : 0;
	uint64_t bytes = hole ? (uint64_t)cn_pool_block_at(pool, hole)->units * CN_HEAP_UNIT_BYTES : 0;
	bool fits = hole && pool->reserved_bytes + bytes <= pool->max_bytes;
	if (hole && !fits)
		cn_heap_give_hole(&pool->heap, hole);
	cn_unlock(&pool->lock);
	if (!fits)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "the pool is limited to %llu bytes, and %llu more do not fit",
				(unsigned long long)pool->max_bytes, (unsigned long long)needed * CN_HEAP_UNIT_BYTES);

	CUresult result = cn_device_ops->arena_commit(
		pool->arena, (size_t)cn_pool_block_at(pool, hole)->start * CN_HEAP_UNIT_BYTES, bytes);
	cn_lock(&pool->lock);
	if (result) {
		cn_heap_give_hole(&pool->heap, hole);
	} else {
		cn_heap_give(&pool->heap, hole);
		pool->reserved_bytes += bytes;
		if (pool->reserved_bytes > pool->reserved_high_bytes)
			pool->reserved_high_bytes = pool->reserved_bytes;
		*ret_index = cn_heap_take(&pool->heap, needed);
		pool->grown++;
	}
	cn_unlock(&pool->lock);
	if (!result && !*ret_index) /* another thread was quicker: the caller tries again */
		result = CUDA_ERROR_NOT_READY;
	return result;
}

/* More than is needed at once, so that a growing program does not ask for each piece; if it is to be had. */
static CUresult grow(struct cn_pool *pool, uint32_t needed, uint32_t *ret_index)
{
	cn_lock(&pool->lock);
	uint64_t wanted = pool->reserved_bytes / CN_HEAP_UNIT_BYTES >> GROWTH_SHIFT;
	cn_unlock(&pool->lock);
	if (wanted > needed) {
		CUresult result = grow_by(pool, needed, wanted, ret_index);
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			return result;
	}
	return grow_by(pool, needed, needed, ret_index);
}

/* Rules 2 and 3: blocks of other queues that can be had without a wait. */
static uint32_t take_ordered(struct cn_pool_cache *cache, uint64_t handle, uint32_t units, unsigned last_class,
			     unsigned policies)
{
	struct cn_pool *pool = cache->pool;
	struct grounds grounds;
	uint32_t index = 0;

	if (policies & CN_POOL_FOLLOW_EVENTS)
		index = take_followed(cache, handle, units, last_class,
				      policies & CN_POOL_OPPORTUNISTIC ? FOLLOWED_PENDING : FOLLOWED);
	if (index) {
		pool->reused_followed++;
	} else if (policies & CN_POOL_OPPORTUNISTIC) {
		index = take_from_others(cache, units, last_class, HAPPENED, &grounds);
		if (index)
			pool->reused_opportunistic++;
	}
	return index;
}

static uint64_t cached_units(struct cn_pool_cache *cache)
{
	uint64_t kept = 0;

	for (; cache; cache = cache->next)
		kept += atomic_load_explicit(&cache->bins.units, memory_order_relaxed);
	return kept;
}

/*
 * Blocks that a cache keeps are not joined with their neighbours: without a bound for all of them together, a long run
 * of mixed sizes would leave the pool in pieces. A queue that has not gone on since the last look has nothing to give.
 */
static void sweep_caches(struct cn_pool *pool)
{
	struct cn_pool_cache *first = atomic_load_explicit(&pool->caches, memory_order_acquire);
	uint64_t reserved = atomic_load_explicit(&pool->reserved_bytes, memory_order_relaxed) / CN_HEAP_UNIT_BYTES;

	/* Where a look takes long, it is for so many more allocations. */
	if ((atomic_fetch_add_explicit(&pool->sweeps_skipped, 1, memory_order_relaxed) + 1) * CACHES_SWEPT_FREELY <
	    atomic_load_explicit(&pool->cache_count, memory_order_relaxed))
		return;
	atomic_store_explicit(&pool->sweeps_skipped, 0, memory_order_relaxed);
	uint64_t kept = cached_units(first);

	/* After one that was in vain, or nearly so, there must be some more of them. */
	if (kept <= CACHED_PARTS * reserved >> CACHED_SHIFT ||
	    kept < atomic_load_explicit(&pool->sweep_units, memory_order_relaxed))
		return;
	for (struct cn_pool_cache *cache = first; cache; cache = cache->next) {
		cn_pool_poll(cache);
		uint64_t completed = atomic_load_explicit(&cache->queue->completed, memory_order_relaxed);
		if (atomic_load_explicit(&cache->swept, memory_order_relaxed) == completed &&
		    !cn_queue_idle(cache->queue))
			continue;
		atomic_store_explicit(&cache->swept, completed, memory_order_relaxed);
		cn_pool_settle_cache(cache, (struct cn_point){cache->queue, UINT64_MAX});
	}
	kept = cached_units(first);
	atomic_store_explicit(&pool->sweep_units, kept + (kept >> MORE_SHIFT), memory_order_relaxed);
}

/* Rules 2 to 5 in their order; 0: nothing that is there can be had. */
static uint32_t reuse(struct cn_pool_cache *cache, uint64_t handle, uint32_t units)
{
	struct cn_pool *pool = cache->pool;
	unsigned policies = atomic_load_explicit(&pool->policies, memory_order_relaxed);
	struct grounds grounds;

	uint32_t index = take_ordered(cache, handle, units, cn_size_class_above(units), policies);
	if (!index) {
		if (policies & CN_POOL_OPPORTUNISTIC)
			sweep_caches(pool);
		index = take_settled(pool, units);
	}
	if (!index)
		index = take_own_larger(cache, units);
	if (!index)
		index = take_ordered(cache, handle, units, LARGEST_CLASS, policies);
	if (!index && policies & CN_POOL_OPPORTUNISTIC) { /* small pieces may be enough together */
		cn_pool_settle_all(pool);
		index = take_settled(pool, units);
	}
	if (!index)
		index = cn_pool_take_releasing(pool, units);
	if (index)
		return index;
	if (policies & CN_POOL_INTERNAL_DEPENDENCIES &&
	    (index = take_from_others(cache, units, LARGEST_CLASS, TO_BE_WAITED_FOR, &grounds))) {
		if (!cn_device_ops->queue_wait(cache->queue, handle, grounds.freed)) {
			pool->reused_waiting++;
			return index;
		}
		put_back(pool, index, grounds.freed); /* the queue is gone */
	}
	return 0;
}

/* The first of its frees that have not happened yet; without a queue: there is none. Cache locked. */
static struct cn_point first_pending(const struct cn_pool_cache *cache)
{
	struct cn_point first = {NULL, UINT64_MAX};

	for (unsigned class = cn_bins_next(&cache->bins, 0); class < CN_SIZE_CLASS_COUNT;
	     class = cn_bins_next(&cache->bins, class + 1))
		for (uint32_t index = cache->bins.heads[class]; index;
		     index = cn_pool_block_at(cache->pool, index)->next) {
			const struct cn_block *block = cn_pool_block_at(cache->pool, index);
			if (block->number < first.number && !cn_pool_free_happened(cache, block))
				first = (struct cn_point){cache->queue, block->number};
		}
	return first;
}

/* Is there a free that has not happened yet, a block that somebody holds, or a chunk on its way to the device? */
static bool has_pending(struct cn_pool *pool)
{
	bool pending = atomic_load_explicit(&pool->deferred_count, memory_order_relaxed) ||
		       atomic_load_explicit(&pool->returned, memory_order_relaxed) ||
		       atomic_load_explicit(&pool->releasing, memory_order_relaxed);

	for (struct cn_pool_cache *cache = atomic_load(&pool->caches); cache && !pending; cache = cache->next) {
		cn_pool_poll(cache);
		cn_quick_lock(&cache->lock);
		struct cn_point point = first_pending(cache);
		pending = point.queue && !cn_device_ops->point_waits_outside(point);
		cn_quick_unlock(&cache->lock);
	}
	return pending;
}

/* All rules but the last. CUDA_ERROR_NOT_READY: another thread was quicker, try again. */
static CUresult reuse_or_grow(struct cn_pool_cache *cache, uint64_t handle, uint32_t units, uint32_t *ret_index)
{
	if (cn_heap_is_low(&cache->pool->heap))
		cn_heap_add_records(&cache->pool->heap);
	*ret_index = reuse(cache, handle, units);
	return *ret_index ? CUDA_SUCCESS : grow(cache->pool, units, ret_index);
}

/* Until a time, not for a time: whoever is interrupted often is neither less patient nor more. */
static void sleep_a_millisecond(void)
{
	const long millisecond_ns = 1000000, second_ns = 1000000000;
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += end.tv_nsec >= second_ns - millisecond_ns;
	end.tv_nsec = (end.tv_nsec + millisecond_ns) % second_ns;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		continue;
}

static CUresult allocate_slowly(struct cn_pool_cache *cache, uint64_t handle, uint32_t units, uint32_t *ret_index)
{
	uint32_t rounded = cn_size_class_units(cn_size_class_above(units));
	CUresult result = CUDA_ERROR_NOT_READY;

	for (unsigned round = 0; round < PATIENCE_ROUNDS; round++) {
		result = reuse_or_grow(cache, handle, rounded, ret_index);
		if (result == CUDA_ERROR_OUT_OF_MEMORY && units < rounded) /* what is there may be just enough */
			result = reuse_or_grow(cache, handle, units, ret_index);
		if (result == CUDA_ERROR_NOT_READY)
			continue;
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			break;
		bool ending = cn_pools_are_ending(); /* what they have goes back to the device */
		if (!round) { /* free chunks that lie scattered can be exchanged for others that lie together */
			/* Without OPPORTUNISTIC a queue's own pieces were left apart, for nobody else to have. */
			cn_pool_settle_cache(cache, (struct cn_point){cache->queue, UINT64_MAX});
			cn_pool_release(cache->pool, 0, true);
			continue;
		}
		if (!ending && !has_pending(cache->pool))
			break;
		sleep_a_millisecond(); /* work is under way, and may free something */
	}
	if (result == CUDA_ERROR_NOT_READY)
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "the pool has no memory left");
	return result;
}

/* The queue has freed nothing of this class. `allocating` counts this call. */
static __attribute__((noinline)) CUresult leave_fast_path(struct cn_pool_cache *cache, uint64_t handle, size_t bytes,
							  uint32_t *ret_index)
{
	struct cn_pool *pool = cache->pool;
	CUresult result = allocate_slowly(cache, handle, units_of(bytes), ret_index);

	cn_quick_lock(&cache->lock);
	if (!result)
		count_used(cache, bytes);
	cache->allocating--;
	cn_quick_unlock(&cache->lock);
	if (result)
		cn_pool_reap_if_dying(pool);
	return result;
}

CUresult cn_pool_allocate(struct cn_pool *pool, struct cn_queue *queue, uint64_t handle, size_t bytes,
			  void **ret_address)
{
	uint64_t max_bytes = atomic_load_explicit(&pool->max_bytes, memory_order_relaxed);
	struct cn_pool_cache *cache;

	if (bytes > max_bytes)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes are more than the pool's limit of %llu", bytes,
				(unsigned long long)max_bytes);
	CUresult result = find_cache(pool, queue, &cache);
	if (result)
		return result;

	cn_quick_lock(&cache->lock);
	if (!is_open(cache, pool, queue)) {
		cn_quick_unlock(&cache->lock);
		return is_gone();
	}
	/* Rule 1: what this queue freed itself. */
	uint32_t index = cn_bins_pop(&pool->heap, &cache->bins, cn_size_class_above(units_of(bytes)));
	uint64_t id = ++cache->next_id;
	if (__builtin_expect(index != 0, 1)) {
		cache->reused++;
		count_used(cache, bytes);
	} else {
		cache->allocating++; /* so the pool does not end under us */
	}
	cn_quick_unlock(&cache->lock);
	if (__builtin_expect(!index, 0)) {
		result = leave_fast_path(cache, handle, bytes, &index);
		if (result)
			return result;
	}
	update_high_water(pool, cache);
	*ret_address = hand_out(pool, cn_pool_block_at(pool, index), bytes, id);
	return CUDA_SUCCESS;
}

/* ---- Freeing ---- */

/* The living block that begins at an address; 0: none does. */
static uint32_t find_start(const struct cn_pool *pool, const void *address)
{
	size_t offset = (size_t)((const char *)address - pool->base);

	if (offset % CN_HEAP_UNIT_BYTES || offset / CN_HEAP_UNIT_BYTES >= pool->heap.unit_count)
		return 0;
	return atomic_load_explicit(&pool->heap.starts[offset / CN_HEAP_UNIT_BYTES], memory_order_relaxed);
}

static CUresult refuse(const void *address, uint32_t state)
{
	if (state == CN_BLOCK_SHARED)
		return CUDA_ERROR_ALREADY_ACQUIRED;
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the block at %p was freed already", address);
}

/* Without a queue: now. */
static CUresult free_now(struct cn_pool *pool, const void *address, uint32_t index)
{
	struct cn_block *block = cn_pool_block_at(pool, index);
	uint32_t live = CN_BLOCK_LIVE;

	if (!atomic_compare_exchange_strong(&block->state, &live, CN_BLOCK_MOVING))
		return refuse(address, live);
	uint64_t bytes = atomic_load_explicit(&block->bytes, memory_order_relaxed);
	cn_lock(&pool->lock);
	cn_heap_give(&pool->heap, index);
	cn_unlock(&pool->lock);
	atomic_fetch_sub(&pool->counted_bytes, bytes);
	cn_pool_reap_if_dying(pool);
	return CUDA_SUCCESS;
}

CUresult cn_pool_free(void *address, struct cn_queue *queue, uint64_t handle)
{
	struct cn_pool *pool = cn_pool_of(address);
	uint32_t index = pool ? find_start(pool, address) : 0, live = CN_BLOCK_LIVE;
	struct cn_pool_cache *cache;
	struct cn_point point;

	if (__builtin_expect(!pool, 0))
		return CUDA_ERROR_NOT_FOUND;
	if (__builtin_expect(!index, 0))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "no block of a pool begins at %p", address);
	if (__builtin_expect(!queue, 0))
		return free_now(pool, address, index);
	CUresult result = find_cache(pool, queue, &cache);
	if (!result)
		result = cn_device_ops->point_now(queue, handle, &point);
	if (result)
		return result;
	struct cn_block *block = cn_pool_block_at(pool, index);
	if (__builtin_expect(!atomic_compare_exchange_strong_explicit(&block->state, &live, CN_BLOCK_MOVING,
								      memory_order_acq_rel, memory_order_relaxed),
			     0))
		return refuse(address, live);
	cn_quick_lock(&cache->lock);
	block->number = point.number;
	keep(cache, index);
	count_unused(cache, atomic_load_explicit(&block->bytes, memory_order_relaxed));
	cn_quick_unlock(&cache->lock); /* the pool may go from here on, but not its record */
	cn_pool_reap_if_dying(pool);
	return CUDA_SUCCESS;
}

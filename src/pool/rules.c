/* SPDX-License-Identifier: MIT */
/*
 * Allocating and freeing in the order of queues: the rules of pool.h, each a function with its number.
 *
 * The fast path is rule 1, the cache of the caller's queue: one lock that only this queue's users take, one free list,
 * no call to the device. What the other rules need to know of other queues' caches is in index.c.
 *
 * Locks: a cache's before the pool's. None is held while a thread waits or the system is asked for memory.
 */
#include "pool/pool_internal.h"

#include <errno.h>
#include <time.h>

enum {
	PATIENCE_ROUNDS = 100,    /* of a millisecond: how long an allocation waits for memory to come free */
	GROWTH_SHIFT = 6,         /* a pool grows by at least this part of its size */
	CACHED_PARTS = 3,         /* what the caches have is so many parts of the pool, or it is swept */
	CACHED_SHIFT = 6,         /* of so many, to the power of two */
	MORE_SHIFT = 4,           /* and again when there is this part more of it */
	CACHES_SWEPT_FREELY = 16, /* for one allocation */
	SAMPLE_COUNT = 512,       /* allocations of a queue between two looks at what is used */
	RACES_MAX = 16,           /* seen of threads that count at the same time before the mark is sampled */
	LARGEST_CLASS = CN_SIZE_CLASS_COUNT - 1,
};

/* The result of an attempt to take a block. */
enum attempt {
	TAKEN,
	RACED,  /* another thread took what was made for this one: try again */
	FAILED, /* with an error that was explained */
};

/* ---- How much is used ---- */

/*
 * How much is used is one number that all queues change. To avoid contention, a cache that has freed something does not
 * uncount it, within a bound, and takes from this credit when it allocates. Where the count is above the high-water
 * mark, the credits are subtracted. Cache locked.
 *
 * So the mark is exact, but threads whose use goes up and down would meet at the count all the time. When they are seen
 * to do that, the mark is sampled instead: each cache sums up what is used with every SAMPLE_COUNT-th allocation, and
 * whenever it must count anyway. A thread that waits for a queue, or asks for the mark, ends that.
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

/* The credits of several caches make the count higher than it should be: give ours up, as far as needed. */
static void give_up_credit(struct cn_pool_cache *cache, uint64_t excess)
{
	cn_quick_lock(&cache->lock);
	uint64_t credit = atomic_load_explicit(&cache->credit_bytes, memory_order_relaxed);
	excess = excess < credit ? excess : credit;
	atomic_store_explicit(&cache->credit_bytes, credit - excess, memory_order_relaxed);
	atomic_fetch_sub_explicit(&cache->pool->counted_bytes, excess, memory_order_acq_rel);
	cn_quick_unlock(&cache->lock);
}

/* The count may be above the high-water mark: it is a new one, or credits make it so. The last thing of a success. */
static __attribute__((noinline)) CUresult raise_high_water(struct cn_pool_cache *cache)
{
	struct cn_pool *pool = cache->pool;
	uint64_t used = cn_pool_used(pool), high = atomic_load_explicit(&pool->used_high_bytes, memory_order_relaxed);
	bool sampled = atomic_load_explicit(&pool->checked_bytes, memory_order_relaxed) == UINT64_MAX;

	if (!sampled) {
		/* Others change the credits meanwhile: the sum may contain a freed block, and another in its place. */
		uint64_t again = cn_pool_used(pool);
		if (again != used && atomic_fetch_add_explicit(&pool->races, 1, memory_order_relaxed) >= RACES_MAX)
			sampled = true;
		used = again < used ? again : used;
	}
	while (used > high)
		if (atomic_compare_exchange_weak_explicit(&pool->used_high_bytes, &high, used, memory_order_relaxed,
							  memory_order_relaxed))
			high = used;
	uint64_t checked = sampled ? UINT64_MAX : high;
	if (atomic_load_explicit(&pool->checked_bytes, memory_order_relaxed) != checked) /* all others read it */
		atomic_store_explicit(&pool->checked_bytes, checked, memory_order_relaxed);
	uint64_t counted = atomic_load_explicit(&pool->counted_bytes, memory_order_relaxed);
	if (!sampled && counted > high)
		give_up_credit(cache, counted - high);
	return CUDA_SUCCESS;
}

void cn_pool_watch_exactly(struct cn_pool *pool)
{
	if (!atomic_exchange_explicit(&pool->races, 0, memory_order_relaxed))
		return;
	uint64_t used = cn_pool_used(pool), high = atomic_load_explicit(&pool->used_high_bytes, memory_order_relaxed);
	while (used > high && !atomic_compare_exchange_weak(&pool->used_high_bytes, &high, used))
		continue;
	atomic_store(&pool->checked_bytes, atomic_load(&pool->used_high_bytes));
}

/* Should an allocation that has succeeded look whether there is a new one? */
static inline bool may_be_high_water(const struct cn_pool *pool, uint64_t id)
{
	return __builtin_expect(atomic_load_explicit(&pool->counted_bytes, memory_order_relaxed) >
						atomic_load_explicit(&pool->checked_bytes, memory_order_relaxed) ||
					id % SAMPLE_COUNT == 0,
				0);
}

/* ---- Rules ---- */

/* Rule 1: what this queue freed itself, of the same size. Cache locked. */
static inline uint32_t rule_1_own(struct cn_pool *pool, struct cn_pool_cache *cache, unsigned class)
{
	return cn_pool_cache_pop(cache, pool, class);
}

/* The same, or memory that was never used, out of its spans. Cache locked. */
static __attribute__((noinline)) uint32_t rule_1_own_kept(struct cn_pool_cache *cache, unsigned class)
{
	if (cache->spans)
		return cn_pool_take_kept(cache, cn_size_class_units(class));
	cache->misses++;
	return 0;
}

/* The same of a larger one, which is cut. */
static uint32_t rule_1_own_larger(struct cn_pool_cache *cache, uint32_t units)
{
	cn_quick_lock(&cache->lock);
	uint32_t index = cn_bins_fit(&cache->pool->heap, &cache->bins, units);
	if (index && cn_pool_cache_can_cut(cache, cn_pool_block_at(cache->pool, index), units)) {
		cn_bins_remove(&cache->pool->heap, &cache->bins, index);
		cache->reused++;
		cn_block_set_moving(cn_pool_block_at(cache->pool, index));
		cn_pool_cache_cut(cache, index, units);
	} else {
		index = 0;
	}
	cn_quick_unlock(&cache->lock);
	return index;
}

static bool is_ordered_after(struct cn_queue *queue, struct cn_pool_grounds *grounds)
{
	return cn_device_ops->queue_follows(queue, grounds->freed, &grounds->relied_on);
}

/* Where rule 3 applies too, it finds what has happened without a look at what the queue has followed. */
static bool is_pending_and_ordered_after(struct cn_queue *queue, struct cn_pool_grounds *grounds)
{
	return !cn_point_reached(grounds->freed) && is_ordered_after(queue, grounds);
}

/*
 * Rule 2: what another queue freed before this one's next operation. A queue that waits for this one from now on must
 * wait for that free as well, and the legacy stream's order is in a queue only when it is given something: queue_rely()
 * puts it there.
 */
static uint32_t rule_2_ordered(struct cn_pool_cache *cache, uint64_t handle, uint32_t units, unsigned last_class,
			       unsigned policies)
{
	struct cn_pool_grounds grounds;

	if (!(policies & CN_POOL_FOLLOW_EVENTS))
		return 0;
	uint32_t index = cn_pool_take_from_others(
		cache, units, last_class,
		policies & CN_POOL_OPPORTUNISTIC ? is_pending_and_ordered_after : is_ordered_after, &grounds);
	if (index && !cn_point_reached(grounds.freed) &&
	    cn_device_ops->queue_rely(cache->queue, handle, grounds.relied_on)) {
		cn_pool_put_back(cache->pool, index, grounds.freed); /* the queue is gone */
		index = 0;
	}
	if (index)
		cache->pool->reused_followed++;
	return index;
}

static bool has_happened(struct cn_queue *queue, struct cn_pool_grounds *grounds)
{
	(void)queue;
	return cn_point_reached(grounds->freed);
}

/* Rule 3: what another queue freed, where it has reached the free. */
static uint32_t rule_3_happened(struct cn_pool_cache *cache, uint32_t units, unsigned last_class, unsigned policies)
{
	struct cn_pool_grounds grounds;

	if (!(policies & CN_POOL_OPPORTUNISTIC))
		return 0;
	uint32_t index = cn_pool_take_from_others(cache, units, last_class, has_happened, &grounds);
	if (index)
		cache->pool->reused_opportunistic++;
	return index;
}

static uint64_t cached_units(struct cn_pool_cache *cache)
{
	uint64_t units = 0;

	for (; cache; cache = cache->next)
		units += atomic_load_explicit(&cache->bins.units, memory_order_relaxed);
	return units;
}

/*
 * Blocks in a cache are not joined with their neighbours: without a bound for all of them together, a long run of mixed
 * sizes would fragment the pool. A queue that has made no progress since the last sweep has nothing to settle.
 */
static void sweep_caches(struct cn_pool *pool)
{
	struct cn_pool_cache *first = atomic_load_explicit(&pool->caches, memory_order_acquire);
	uint64_t reserved = atomic_load_explicit(&pool->reserved_bytes, memory_order_relaxed) / CN_HEAP_UNIT_BYTES;

	/* The more caches there are, the fewer allocations sweep them. */
	if ((atomic_fetch_add_explicit(&pool->sweeps_skipped, 1, memory_order_relaxed) + 1) * CACHES_SWEPT_FREELY <
	    atomic_load_explicit(&pool->cache_count, memory_order_relaxed))
		return;
	atomic_store_explicit(&pool->sweeps_skipped, 0, memory_order_relaxed);
	uint64_t cached = cached_units(first);

	/* After a sweep that settled nothing, or little, there must be more cached first. */
	if (cached <= CACHED_PARTS * reserved >> CACHED_SHIFT ||
	    cached < atomic_load_explicit(&pool->sweep_units, memory_order_relaxed))
		return;
	for (struct cn_pool_cache *cache = first; cache; cache = cache->next) {
		cn_pool_poll(cache);
		uint64_t completed = atomic_load_explicit(&cache->queue->completed, memory_order_relaxed);
		if (atomic_load_explicit(&cache->swept, memory_order_relaxed) == completed &&
		    !cn_queue_idle(cache->queue))
			continue;
		atomic_store_explicit(&cache->swept, completed, memory_order_relaxed);
		cn_pool_settle_cache(cache, (struct cn_point){cache->queue, UINT64_MAX}, false);
	}
	cached = cached_units(first);
	atomic_store_explicit(&pool->sweep_units, cached + (cached >> MORE_SHIFT), memory_order_relaxed);
}

static uint32_t count_settled(struct cn_pool *pool, uint32_t index)
{
	if (index)
		atomic_fetch_add_explicit(&pool->reused_settled, 1, memory_order_relaxed);
	return index;
}

static uint32_t take_settled(struct cn_pool_cache *cache, uint32_t units)
{
	struct cn_pool *pool = cache->pool;
	uint32_t index;

	do {
		cn_pool_drain_returned(pool);
		index = cn_pool_take_span(cache, units);
		if (index)
			break;
		cn_lock(&pool->lock);
		index = cn_heap_take(&pool->heap, units);
		cn_unlock(&pool->lock);
	} while (!index && cn_pool_recall_deferred(pool));
	return count_settled(pool, index);
}

/* What is settled in the spans of a queue. */
static uint32_t take_settled_kept(struct cn_pool_cache *other, struct cn_pool_cache *cache, uint32_t units)
{
	unsigned set = cn_span_set_of(units);
	struct cn_pool_grounds grounds;
	uint32_t index = cn_pool_take_kept_of(other, set, cache, units, NULL, &grounds);

	if (!index)
		index = cn_pool_take_kept_of(other, !set, cache, units, NULL, &grounds);
	return count_settled(cache->pool, index);
}

/* … of all others. */
static uint32_t take_settled_from_others(struct cn_pool_cache *cache, uint32_t units)
{
	struct cn_pool_grounds grounds;

	return count_settled(cache->pool, cn_pool_take_kept_from_others(cache, units, NULL, &grounds));
}

/* Settle one cache after the other, beginning with the own one, until there is enough. */
static uint32_t settle_and_take(struct cn_pool_cache *cache, uint32_t units)
{
	struct cn_pool_cache *first = atomic_load_explicit(&cache->pool->caches, memory_order_acquire), *other = cache;
	uint32_t index = 0;

	do {
		cn_pool_poll(other);
		cn_pool_settle_cache(other, (struct cn_point){other->queue, UINT64_MAX}, true);
		index = take_settled(cache, units);
		if (!index)
			index = take_settled_kept(other, cache, units);
		other = other->next ? other->next : first;
	} while (!index && other != cache);
	return index;
}

/* Rule 4: what is settled; then larger blocks by the rules above; then what is on its way back to the device. */
static uint32_t rule_4_settled(struct cn_pool_cache *cache, uint64_t handle, uint32_t units, unsigned policies)
{
	struct cn_pool *pool = cache->pool;

	if (policies & CN_POOL_OPPORTUNISTIC &&
	    (!atomic_load_explicit(&cache->spans, memory_order_relaxed) || cache->misses++ % 8 == 0))
		sweep_caches(pool);
	uint32_t index = take_settled(cache, units);
	if (!index)
		index = rule_1_own_larger(cache, units);
	if (!index)
		index = take_settled_from_others(cache, units);
	if (!index)
		index = rule_2_ordered(cache, handle, units, LARGEST_CLASS, policies);
	if (!index)
		index = rule_3_happened(cache, units, LARGEST_CLASS, policies);
	if (!index && policies & CN_POOL_OPPORTUNISTIC) /* small pieces may be enough together */
		index = settle_and_take(cache, units);
	return index ? index : cn_pool_take_releasing(pool, units);
}

/* Not one whose stream waits for another process: that wait may need us. */
static bool can_be_waited_for(struct cn_queue *queue, struct cn_pool_grounds *grounds)
{
	(void)queue;
	return !cn_device_ops->point_waits_outside(grounds->freed);
}

/* Rule 5: what another queue freed, and this one is made to wait for. */
static uint32_t rule_5_wait(struct cn_pool_cache *cache, uint64_t handle, uint32_t units, unsigned policies)
{
	struct cn_pool *pool = cache->pool;
	struct cn_pool_grounds grounds;

	if (!(policies & CN_POOL_INTERNAL_DEPENDENCIES))
		return 0;
	uint32_t index = cn_pool_take_from_others(cache, units, LARGEST_CLASS, can_be_waited_for, &grounds);
	if (index && cn_device_ops->queue_wait(cache->queue, handle, grounds.freed)) {
		cn_pool_put_back(pool, index, grounds.freed); /* the queue is gone */
		index = 0;
	}
	if (index)
		pool->reused_waiting++;
	return index;
}

/* New memory, at least `wanted` units of it. The block is cut from it. */
static enum attempt grow_by(struct cn_pool *pool, uint32_t needed, uint64_t wanted, uint32_t *ret_index,
			    CUresult *ret_error)
{
	cn_lock(&pool->lock);
	uint64_t room = (pool->max_bytes - pool->reserved_bytes) / CN_HEAP_UNIT_BYTES;
	uint32_t hole = wanted <= room ? cn_heap_take_hole(&pool->heap, (uint32_t)wanted) : 0;
	uint64_t bytes = hole ? (uint64_t)cn_pool_block_at(pool, hole)->units * CN_HEAP_UNIT_BYTES : 0;
	bool fits = hole && pool->reserved_bytes + bytes <= pool->max_bytes;
	if (hole && !fits)
		cn_heap_give_hole(&pool->heap, hole);
	cn_unlock(&pool->lock);
	if (!fits) {
		*ret_error = cn_error(
			CUDA_ERROR_OUT_OF_MEMORY, "the pool is limited to %llu bytes, and %llu more do not fit",
			(unsigned long long)pool->max_bytes, (unsigned long long)needed * CN_HEAP_UNIT_BYTES);
		return FAILED;
	}

	uint32_t index = 0;
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
		index = cn_heap_take(&pool->heap, needed);
		pool->grown++;
	}
	cn_unlock(&pool->lock);
	if (result) {
		*ret_error = result;
		return FAILED;
	}
	*ret_index = index;
	return index ? TAKEN : RACED;
}

/* Rule 6: new memory. More than is needed now, if possible, so that a growing program does not ask for each piece. */
static enum attempt rule_6_grow(struct cn_pool *pool, uint32_t needed, uint32_t *ret_index, CUresult *ret_error)
{
	cn_lock(&pool->lock);
	uint64_t wanted = pool->reserved_bytes / CN_HEAP_UNIT_BYTES >> GROWTH_SHIFT;
	cn_unlock(&pool->lock);
	if (wanted > needed) {
		enum attempt attempt = grow_by(pool, needed, wanted, ret_index, ret_error);
		if (attempt != FAILED || *ret_error != CUDA_ERROR_OUT_OF_MEMORY)
			return attempt;
	}
	return grow_by(pool, needed, needed, ret_index, ret_error);
}

/* Rules 2 to 6 in their order. */
static enum attempt reuse_or_grow(struct cn_pool_cache *cache, uint64_t handle, uint32_t units, uint32_t *ret_index,
				  CUresult *ret_error)
{
	struct cn_pool *pool = cache->pool;

	if (cn_heap_is_low(&pool->heap))
		cn_heap_add_records(&pool->heap);
	unsigned policies = atomic_load_explicit(&pool->policies, memory_order_relaxed);
	uint32_t index = 0;
	if (!atomic_load_explicit(&cache->spans, memory_order_relaxed)) /* it has not come to live on its own */
		index = rule_2_ordered(cache, handle, units, cn_size_class_above(units), policies);
	if (!index && !atomic_load_explicit(&cache->spans, memory_order_relaxed))
		index = rule_3_happened(cache, units, cn_size_class_above(units), policies);
	if (!index)
		index = rule_4_settled(cache, handle, units, policies);
	if (!index)
		index = rule_5_wait(cache, handle, units, policies);
	if (!index)
		return rule_6_grow(pool, units, ret_index, ret_error);
	*ret_index = index;
	return TAKEN;
}

static struct cn_point first_pending_in(const struct cn_pool_cache *cache, const struct cn_bins *bins)
{
	struct cn_point first = {NULL, UINT64_MAX};

	for (unsigned class = cn_bins_next(bins, 0); class < CN_SIZE_CLASS_COUNT; class = cn_bins_next(bins, class + 1))
		for (uint32_t index = bins->heads[class]; index; index = cn_pool_block_at(cache->pool, index)->next) {
			const struct cn_block *block = cn_pool_block_at(cache->pool, index);
			if (block->number < first.number && !cn_pool_free_happened(cache, block))
				first = (struct cn_point){cache->queue, block->number};
		}
	return first;
}

/* The first of its frees that have not happened yet; without a queue: there is none. Cache locked. */
static struct cn_point first_pending(const struct cn_pool_cache *cache)
{
	struct cn_point first = first_pending_in(cache, &cache->bins);

	if (cache->spans) {
		for (unsigned set = 0; set < CN_SPAN_SETS; set++) {
			struct cn_point kept = first_pending_in(cache, &cache->spans->sets[set].kept);
			first = kept.number < first.number ? kept : first;
		}
	}
	return first;
}

/* Is there a free that has not happened yet, a deferred one, or a chunk on its way to the device? */
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

/* Until a time, not for a time: a thread that is often interrupted waits neither shorter nor longer. */
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

/* Rule 7: wait for memory to come free, for the next round of the rules above. False: none will. */
static bool rule_7_wait_for_memory(struct cn_pool_cache *cache, unsigned round)
{
	bool ending = cn_pools_are_ending(); /* what they have goes back to the device */

	if (!round) { /* scattered free chunks can be exchanged for adjacent ones */
		/* Without OPPORTUNISTIC a queue's own pieces were left apart, where no other queue may have them. */
		cn_pool_settle_cache(cache, (struct cn_point){cache->queue, UINT64_MAX}, true);
		cn_pool_release(cache->pool, 0, true);
		return true;
	}
	if (!ending && !has_pending(cache->pool))
		return false;
	sleep_a_millisecond(); /* work is under way, and may free something */
	return true;
}

/* ---- Allocating ---- */

/* Since we found the cache, others may have destroyed the pool, and both may serve another one. Cache locked. */
static bool is_open(const struct cn_pool_cache *cache, const struct cn_pool *pool, const struct cn_queue *queue)
{
	return cache->pool == pool && atomic_load_explicit(&cache->queue, memory_order_relaxed) == queue &&
	       !atomic_load_explicit(&pool->dying, memory_order_acquire);
}

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

static CUresult allocate_slowly(struct cn_pool_cache *cache, uint64_t handle, uint32_t units, uint32_t *ret_index)
{
	uint32_t rounded = cn_size_class_units(cn_size_class_above(units));
	enum attempt attempt = RACED;
	CUresult error = CUDA_SUCCESS;

	for (unsigned round = 0; round < PATIENCE_ROUNDS; round++) {
		attempt = reuse_or_grow(cache, handle, rounded, ret_index, &error);
		if (attempt == FAILED && error == CUDA_ERROR_OUT_OF_MEMORY && units < rounded)
			attempt = reuse_or_grow(cache, handle, units, ret_index, &error); /* it may be just enough */
		if (attempt == TAKEN)
			return CUDA_SUCCESS;
		if (attempt == FAILED && (error != CUDA_ERROR_OUT_OF_MEMORY || !rule_7_wait_for_memory(cache, round)))
			break;
	}
	return attempt == FAILED ? error : cn_error(CUDA_ERROR_OUT_OF_MEMORY, "the pool has no memory left");
}

/* The queue has nothing of this class. `allocating` counts this call. */
static CUresult leave_fast_path(struct cn_pool_cache *cache, uint64_t handle, size_t bytes, uint32_t *ret_index)
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

/*
 * Rule 3 before all others for a thread that works in several streams: what it freed in another one. The cache is
 * unlocked meanwhile; the pool does not end, for `allocating`. What is taken beyond the first block is the queue's own
 * from now on. Cache locked.
 */
static uint32_t rule_3_recent(struct cn_pool_cache *cache, unsigned class)
{
	struct cn_pool *pool = cache->pool;

	if (!(atomic_load_explicit(&pool->policies, memory_order_relaxed) & CN_POOL_OPPORTUNISTIC) ||
	    !cn_pool_has_recent(cache))
		return 0;
	cache->allocating++;
	cn_quick_unlock(&cache->lock);
	uint32_t index = cn_pool_take_recent(cache, class);
	cn_quick_lock(&cache->lock);
	cache->allocating--;
	if (!index)
		return 0;
	for (uint32_t more = cn_pool_block_at(pool, index)->next, next; more; more = next) {
		next = cn_pool_block_at(pool, more)->next;
		cn_pool_block_at(pool, more)->number = 0;
		cn_pool_cache_push(cache, more);
	}
	atomic_fetch_add_explicit(&pool->reused_opportunistic, 1, memory_order_relaxed);
	return index;
}

/* The free list of the class is empty. The cache is locked, and given back unlocked. */
static __attribute__((noinline)) CUresult allocate_otherwise(struct cn_pool_cache *cache, uint64_t handle, size_t bytes,
							     void **ret_address)
{
	struct cn_pool *pool = cache->pool;
	unsigned class = cn_size_class_above(units_of(bytes));
	uint64_t id = ++cache->next_id;
	uint32_t index = rule_3_recent(cache, class);

	if (!index && (index = rule_1_own_kept(cache, class)))
		cache->reused++;
	if (index)
		count_used(cache, bytes);
	else
		cache->allocating++; /* so the pool does not end under us */
	cn_quick_unlock(&cache->lock);
	CUresult result = index ? CUDA_SUCCESS : leave_fast_path(cache, handle, bytes, &index);
	if (result)
		return result;
	*ret_address = hand_out(pool, cn_pool_block_at(pool, index), bytes, id);
	return may_be_high_water(pool, id) ? raise_high_water(cache) : CUDA_SUCCESS;
}

static __attribute__((noinline)) CUresult refuse_size(size_t bytes, uint64_t max_bytes)
{
	return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes are more than the pool's limit of %llu", bytes,
			(unsigned long long)max_bytes);
}

/* The cache is locked, and given back unlocked. */
static inline __attribute__((always_inline)) CUresult allocate_locked(struct cn_pool *pool, struct cn_pool_cache *cache,
								      const struct cn_queue *queue, uint64_t handle,
								      size_t bytes, void **ret_address)
{
	if (__builtin_expect(!is_open(cache, pool, queue), 0)) {
		cn_quick_unlock(&cache->lock);
		return cn_pool_is_gone();
	}
	uint32_t index = rule_1_own(pool, cache, cn_size_class_above(units_of(bytes)));
	if (__builtin_expect(!index, 0))
		return allocate_otherwise(cache, handle, bytes, ret_address);
	uint64_t id = ++cache->next_id;
	cache->reused++;
	count_used(cache, bytes);
	cn_quick_unlock(&cache->lock);
	*ret_address = hand_out(pool, cn_pool_block_at(pool, index), bytes, id);
	return may_be_high_water(pool, id) ? raise_high_water(cache) : CUDA_SUCCESS;
}

/* The thread has not used the cache lately. */
static __attribute__((noinline)) CUresult find_and_allocate(struct cn_pool *pool, struct cn_queue *queue,
							    uint64_t handle, size_t bytes, void **ret_address)
{
	struct cn_pool_cache *cache;
	CUresult result = cn_pool_cache_get(pool, queue, &cache);

	if (result)
		return result;
	cn_quick_lock(&cache->lock);
	return allocate_locked(pool, cache, queue, handle, bytes, ret_address);
}

/* Other threads hold the cache's lock. */
static __attribute__((noinline)) CUresult lock_and_allocate(struct cn_pool *pool, struct cn_pool_cache *cache,
							    const struct cn_queue *queue, uint64_t handle, size_t bytes,
							    void **ret_address)
{
	cn_quick_lock(&cache->lock);
	return allocate_locked(pool, cache, queue, handle, bytes, ret_address);
}

/* Rule 1, or another function. None is called but as the last thing: so nothing is saved on the stack. */
CUresult cn_pool_allocate(struct cn_pool *pool, struct cn_queue *queue, uint64_t handle, size_t bytes,
			  void **ret_address)
{
	uint64_t max_bytes = atomic_load_explicit(&pool->max_bytes, memory_order_relaxed);
	struct cn_pool_cache *cache = cn_pool_cache_recent(pool, queue);

	if (__builtin_expect(bytes > max_bytes, 0))
		return refuse_size(bytes, max_bytes);
	if (__builtin_expect(!cache, 0))
		return find_and_allocate(pool, queue, handle, bytes, ret_address);
	if (__builtin_expect(!cn_quick_try_lock(&cache->lock), 0))
		return lock_and_allocate(pool, cache, queue, handle, bytes, ret_address);
	return allocate_locked(pool, cache, queue, handle, bytes, ret_address);
}

/* ---- Freeing ---- */

static __attribute__((noinline)) struct cn_pool_freed failed(CUresult error)
{
	return (struct cn_pool_freed){CN_POOL_FREE_FAILED, error};
}

/* The block is not LIVE. */
static __attribute__((noinline)) struct cn_pool_freed refuse(const void *address, uint32_t state)
{
	if (state == CN_BLOCK_SHARED)
		return (struct cn_pool_freed){CN_POOL_FREE_SHARED, CUDA_SUCCESS};
	return failed(cn_error(CUDA_ERROR_INVALID_VALUE, "the block at %p was already freed", address));
}

/* Without a queue: now. */
static struct cn_pool_freed free_now(struct cn_pool *pool, const void *address, uint32_t index)
{
	struct cn_block *block = cn_pool_block_at(pool, index);
	uint32_t live = CN_BLOCK_LIVE;

	if (!atomic_compare_exchange_strong(&block->state, &live, CN_BLOCK_MOVING))
		return refuse(address, live);
	uint64_t bytes = atomic_load_explicit(&block->bytes, memory_order_relaxed);
	cn_pool_give(pool, index);
	atomic_fetch_sub(&pool->counted_bytes, bytes);
	cn_pool_reap_if_dying(pool);
	return (struct cn_pool_freed){CN_POOL_FREED, CUDA_SUCCESS};
}

/* What another thread has destroyed ends with its last block. */
static __attribute__((noinline)) struct cn_pool_freed reap(void)
{
	cn_pools_reap();
	return (struct cn_pool_freed){CN_POOL_FREED, CUDA_SUCCESS};
}

/* The block is MOVING. The cache is locked, and given back unlocked. */
static inline __attribute__((always_inline)) struct cn_pool_freed free_locked(const struct cn_pool *pool,
									      struct cn_pool_cache *cache,
									      uint32_t index, uint64_t number)
{
	struct cn_block *block = cn_pool_block_at(pool, index);

	block->number = number;
	cn_pool_cache_push(cache, index);
	count_unused(cache, atomic_load_explicit(&block->bytes, memory_order_relaxed));
	cn_quick_unlock(&cache->lock); /* the pool may end from here on, but not its record */
	return __builtin_expect(atomic_load(&pool->dying), 0) ? reap()
							      : (struct cn_pool_freed){CN_POOL_FREED, CUDA_SUCCESS};
}

static __attribute__((noinline)) struct cn_pool_freed lock_and_free(const struct cn_pool *pool,
								    struct cn_pool_cache *cache, uint32_t index,
								    uint64_t number)
{
	cn_quick_lock(&cache->lock);
	return free_locked(pool, cache, index, number);
}

static inline __attribute__((always_inline)) struct cn_pool_freed free_in(struct cn_pool *pool,
									  struct cn_pool_cache *cache,
									  const void *address, uint32_t index,
									  uint64_t number)
{
	uint32_t live = CN_BLOCK_LIVE;

	if (__builtin_expect(!atomic_compare_exchange_strong_explicit(&cn_pool_block_at(pool, index)->state, &live,
								      CN_BLOCK_MOVING, memory_order_acq_rel,
								      memory_order_relaxed),
			     0))
		return refuse(address, live);
	if (__builtin_expect(!cn_quick_try_lock(&cache->lock), 0))
		return lock_and_free(pool, cache, index, number);
	return free_locked(pool, cache, index, number);
}

/* The thread has not used the cache lately, or there is no queue. */
static __attribute__((noinline)) struct cn_pool_freed find_and_free(struct cn_pool *pool, const void *address,
								    uint32_t index, struct cn_point point)
{
	struct cn_pool_cache *cache;

	if (!point.queue)
		return free_now(pool, address, index);
	CUresult result = cn_pool_cache_get(pool, point.queue, &cache);
	return result ? failed(result) : free_in(pool, cache, address, index, point.number);
}

static __attribute__((noinline)) struct cn_pool_freed refuse_address(const void *address)
{
	return failed(cn_error(CUDA_ERROR_INVALID_VALUE, "no block of a pool begins at %p", address));
}

struct cn_pool_freed cn_pool_free(void *address, struct cn_point point)
{
	struct cn_pool *pool = cn_pool_of(address);

	if (__builtin_expect(!pool, 0))
		return (struct cn_pool_freed){CN_POOL_FREE_ELSEWHERE, CUDA_SUCCESS};
	uint32_t index = cn_pool_starts_at(pool, address);
	if (__builtin_expect(!index, 0))
		return refuse_address(address);
	struct cn_pool_cache *cache = cn_pool_cache_recent(pool, point.queue);
	if (__builtin_expect(!cache, 0)) /* no thread has one for no queue */
		return find_and_free(pool, address, index, point);
	return free_in(pool, cache, address, index, point.number);
}

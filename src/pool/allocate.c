/* SPDX-License-Identifier: MIT */
/*
 * Allocating and freeing in the order of queues, and what is used.
 *
 * The fast path is rule 1, the cache of the caller's queue: one lock that only this queue's users take, one free list,
 * no call to the device. Where that has nothing, rules.c has the others.
 */
#include "pool/pool_internal.h"

enum {
	SAMPLE_COUNT = 512, /* allocations of a queue between two looks at what is used */
	RACES_MAX = 16,     /* seen of threads that count at the same time before the mark is sampled */
	MORE_SHIFT = 2,     /* a block may be of a size class this much larger, */
	SMALL_SHIFT = 4,    /* while the pool has no more than this of what it may have */
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
static inline void count_used(struct cn_pool *pool, struct cn_pool_cache *cache, uint64_t bytes)
{
	uint64_t credit = atomic_load_explicit(&cache->credit_bytes, memory_order_relaxed);
	uint64_t lacking = credit < bytes ? bytes - credit : 0;

	atomic_store_explicit(&cache->credit_bytes, lacking ? 0 : credit - bytes, memory_order_relaxed);
	if (lacking)
		atomic_fetch_add_explicit(&pool->counted_bytes, lacking, memory_order_relaxed);
}

static inline void count_unused(struct cn_pool *pool, struct cn_pool_cache *cache, uint64_t bytes)
{
	uint64_t credit = atomic_load_explicit(&cache->credit_bytes, memory_order_relaxed) + bytes;

	bool full = credit > cache->credit_bytes_max;
	atomic_store_explicit(&cache->credit_bytes, full ? 0 : credit, memory_order_relaxed);
	if (full) /* last: see cn_pool_used() */
		atomic_fetch_sub_explicit(&pool->counted_bytes, credit, memory_order_acq_rel);
}

/*
 * The credits of several caches make the count higher than it should be: give ours up, as far as needed. Returns how
 * much that was.
 */
static uint64_t give_up_credit(struct cn_pool_cache *cache, uint64_t excess)
{
	cn_owned_lock(&cache->lock);
	uint64_t credit = atomic_load_explicit(&cache->credit_bytes, memory_order_relaxed);
	excess = excess < credit ? excess : credit;
	atomic_store_explicit(&cache->credit_bytes, credit - excess, memory_order_relaxed);
	atomic_fetch_sub_explicit(&cache->pool->counted_bytes, excess, memory_order_acq_rel);
	cn_owned_unlock(&cache->lock);
	return excess;
}

/* For has_room(). All threads read it, so it is written only where it has changed by more than a quarter. */
static void see_credits(struct cn_pool *pool, uint64_t credits)
{
	uint64_t seen = atomic_load_explicit(&pool->credits_seen, memory_order_relaxed);

	if (credits < seen - seen / 4 || credits > seen + seen / 4)
		atomic_store_explicit(&pool->credits_seen, credits, memory_order_relaxed);
}

/* The count may be above the high-water mark: it is a new one, or credits make it so. The last thing of a success. */
static __attribute__((noinline)) void *raise_high_water(struct cn_pool_cache *cache, void *address)
{
	struct cn_pool *pool = cache->pool;
	struct cn_pool_sum sum = cn_pool_sum_up(pool);
	uint64_t high = atomic_load_explicit(&pool->used_high_bytes, memory_order_relaxed);
	bool sampled = atomic_load_explicit(&pool->checked_bytes, memory_order_relaxed) == UINT64_MAX;

	if (sum.differs && !sampled)
		sampled = atomic_fetch_add_explicit(&pool->races, 1, memory_order_relaxed) >= RACES_MAX;
	while (sum.used_bytes > high)
		if (atomic_compare_exchange_weak_explicit(&pool->used_high_bytes, &high, sum.used_bytes,
							  memory_order_relaxed, memory_order_relaxed))
			high = sum.used_bytes;
	uint64_t checked = sampled ? UINT64_MAX : high;
	if (atomic_load_explicit(&pool->checked_bytes, memory_order_relaxed) != checked) /* all others read it */
		atomic_store_explicit(&pool->checked_bytes, checked, memory_order_relaxed);
	uint64_t counted = atomic_load_explicit(&pool->counted_bytes, memory_order_relaxed);
	uint64_t given = !sampled && counted > high ? give_up_credit(cache, counted - high) : 0;
	see_credits(pool, sum.credit_bytes > given ? sum.credit_bytes - given : 0);
	return address;
}

void cn_pool_watch_exactly(struct cn_pool *pool)
{
	if (!atomic_exchange_explicit(&pool->races, 0, memory_order_relaxed))
		return;
	uint64_t used = cn_pool_sum_up(pool).used_bytes;
	uint64_t high = atomic_load_explicit(&pool->used_high_bytes, memory_order_relaxed);
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

/* `owner`: it was taken by cn_owned_try_lock(). */
static inline __attribute__((always_inline)) void unlock(struct cn_pool_cache *cache, bool owner)
{
	if (owner)
		cn_owned_leave(&cache->lock);
	else
		cn_owned_unlock(&cache->lock);
}

/* ---- Allocating ---- */

/* Rule 1: what this queue freed itself, of the same size; NULL: nothing. Cache locked. */
static inline struct cn_block *rule_1_own(struct cn_pool *pool, struct cn_pool_cache *cache, unsigned class)
{
	return cn_pool_cache_pop(cache, pool, class);
}

/*
 * Has the pool half as much again as is used, and little of what it may have? What blocks are too large is counted
 * nowhere, and missing once the device is full: about a hundredth of the pool's limit. A pool without one of its own
 * has the device's. Summing the use up takes too long here, so the credits of the last sum are subtracted: most of them
 * belong to idle queues.
 */
static inline bool has_room(const struct cn_pool *pool)
{
	uint64_t counted = atomic_load_explicit(&pool->counted_bytes, memory_order_relaxed);
	uint64_t credits = atomic_load_explicit(&pool->credits_seen, memory_order_relaxed);
	uint64_t reserved = atomic_load_explicit(&pool->reserved_bytes, memory_order_relaxed);
	uint64_t used = counted > credits ? counted - credits : 0;

	return reserved > used + used / 2 &&
	       reserved <= atomic_load_explicit(&pool->max_bytes, memory_order_relaxed) >> SMALL_SHIFT &&
	       reserved != atomic_load_explicit(&pool->stuck_bytes, memory_order_relaxed);
}

/*
 * The same of a class that is up to a quarter larger, as it is. A queue that needs many sizes has spans; to cut a block
 * out of them and to join it again takes several times as long. But what a block is too large is used for nothing, so
 * only where the pool has room. 0: there is none. Cache locked.
 */
static inline uint32_t rule_1_own_with_more(struct cn_pool *pool, struct cn_pool_cache *cache, unsigned class)
{
	uint32_t units = cn_size_class_units(class), index = 0;

	if (!atomic_load_explicit(&cache->spans, memory_order_relaxed) || units > CN_SPAN_BLOCK_UNITS_MAX ||
	    !has_room(pool))
		return 0;
	unsigned last = cn_size_class_below(units + (units >> MORE_SHIFT));
	while (!index && class < last)
		index = cache->bins.heads[++class];
	if (index) {
		cn_pool_cache_pop(cache, pool, class);
		cache->reused++;
	}
	return index;
}

/* The same, or memory that was never used, out of its spans. Cache locked. */
static __attribute__((noinline)) uint32_t rule_1_own_kept(struct cn_pool_cache *cache, unsigned class)
{
	if (cache->spans)
		return cn_pool_take_kept(cache, cn_size_class_units(class));
	atomic_fetch_add_explicit(&cache->misses, 1, memory_order_relaxed);
	return 0;
}

/* Since we found the cache, others may have destroyed the pool, and both may serve another one. Cache locked. */
static inline bool is_open(const struct cn_pool_cache *cache, const struct cn_pool *pool, const struct cn_queue *queue)
{
	return cn_pool_cache_is(cache, pool, queue) && !atomic_load_explicit(&pool->dying, memory_order_acquire);
}

static inline uint32_t units_of(size_t bytes)
{
	return (uint32_t)((bytes + CN_HEAP_UNIT_BYTES - 1) / CN_HEAP_UNIT_BYTES);
}

static __attribute__((noinline)) void *no_block(CUresult error, CUresult *ret_error)
{
	*ret_error = error;
	return NULL;
}

/* The block is the program's from now on. */
static inline void *hand_out(struct cn_pool_cache *cache, struct cn_pool *pool, struct cn_block *block, size_t bytes,
			     uint64_t id)
{
	atomic_store_explicit(&block->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&block->id, id, memory_order_relaxed);
	atomic_store_explicit(&block->state, CN_BLOCK_LIVE, memory_order_release);
	void *address = pool->base + (size_t)block->start * CN_HEAP_UNIT_BYTES;
	return may_be_high_water(pool, id) ? raise_high_water(cache, address) : address;
}

/* The queue has nothing of this class. `allocating` counts this call. */
static CUresult leave_fast_path(struct cn_pool_cache *cache, uint64_t handle, size_t bytes, uint32_t *ret_index)
{
	struct cn_pool *pool = cache->pool;
	CUresult result = cn_pool_allocate_slowly(cache, handle, units_of(bytes), ret_index);

	cn_owned_lock(&cache->lock);
	if (!result)
		count_used(pool, cache, bytes);
	cache->allocating--;
	cn_owned_unlock(&cache->lock);
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
	cn_owned_unlock(&cache->lock);
	uint32_t index = cn_pool_take_recent(cache, class);
	cn_owned_lock(&cache->lock);
	cache->allocating--;
	if (!index)
		return 0;
	for (uint32_t more = cn_pool_block_at(pool, index)->next, next; more; more = next) {
		next = cn_pool_block_at(pool, more)->next;
		cn_pool_block_at(pool, more)->number = 0;
		cn_pool_cache_push(cache, pool, more);
	}
	atomic_fetch_add_explicit(&pool->reused_opportunistic, 1, memory_order_relaxed);
	return index;
}

/* The free list of the class is empty. The cache is locked, and given back unlocked. */
static __attribute__((noinline)) void *allocate_otherwise(struct cn_pool_cache *cache, uint64_t handle, size_t bytes,
							  CUresult *ret_error)
{
	struct cn_pool *pool = cache->pool;
	unsigned class = cn_size_class_above(units_of(bytes));
	uint64_t id = ++cache->next_id;
	uint32_t index = rule_1_own_with_more(pool, cache, class);

	if (!index)
		index = rule_3_recent(cache, class);
	if (!index && (index = rule_1_own_kept(cache, class)))
		cache->reused++;
	if (index)
		count_used(pool, cache, bytes);
	else
		cache->allocating++; /* so the pool does not end under us */
	cn_owned_unlock(&cache->lock);
	CUresult result = index ? CUDA_SUCCESS : leave_fast_path(cache, handle, bytes, &index);
	if (result)
		return no_block(result, ret_error);
	return hand_out(cache, pool, cn_pool_block_at(pool, index), bytes, id);
}

static __attribute__((noinline)) void *refuse_size(size_t bytes, uint64_t max_bytes, CUresult *ret_error)
{
	return no_block(cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes are more than the pool's limit of %llu", bytes,
				 (unsigned long long)max_bytes),
			ret_error);
}

/* The cache is locked, and given back unlocked. `owner`: see unlock(). */
static inline __attribute__((always_inline)) void *allocate_locked(struct cn_pool *pool, struct cn_pool_cache *cache,
								   uint64_t handle, size_t bytes, bool owner,
								   CUresult *ret_error)
{
	struct cn_block *block = rule_1_own(pool, cache, cn_size_class_above(units_of(bytes)));

	if (__builtin_expect(!block, 0))
		return allocate_otherwise(cache, handle, bytes, ret_error);
	uint64_t id = ++cache->next_id;
	cache->reused++;
	count_used(pool, cache, bytes);
	unlock(cache, owner);
	return hand_out(cache, pool, block, bytes, id);
}

/* The thread has not used the cache lately, or does not own its lock. */
static __attribute__((noinline)) void *find_and_allocate(struct cn_pool *pool, struct cn_queue *queue, uint64_t handle,
							 size_t bytes, CUresult *ret_error)
{
	struct cn_pool_cache *cache;
	CUresult result = cn_pool_cache_get(pool, queue, &cache);

	if (result)
		return no_block(result, ret_error);
	cn_owned_lock(&cache->lock);
	if (is_open(cache, pool, queue))
		return allocate_locked(pool, cache, handle, bytes, false, ret_error);
	cn_owned_unlock(&cache->lock);
	return no_block(cn_pool_is_gone(), ret_error);
}

/* The guess was wrong, or the pool has been destroyed. The cache is locked by cn_owned_try_lock(). */
static __attribute__((noinline)) void *leave_and_allocate(struct cn_pool *pool, struct cn_queue *queue, uint64_t handle,
							  size_t bytes, CUresult *ret_error,
							  struct cn_pool_cache *cache)
{
	cn_owned_leave(&cache->lock);
	return find_and_allocate(pool, queue, handle, bytes, ret_error);
}

/* Rule 1, or another function. None is called but as the last thing: so nothing is saved on the stack. */
void *cn_pool_allocate(struct cn_pool *pool, struct cn_queue *queue, uint64_t handle, size_t bytes, CUresult *ret_error)
{
	uint64_t max_bytes = atomic_load_explicit(&pool->max_bytes, memory_order_relaxed);
	struct cn_pool_cache *cache = cn_pool_cache_guess(pool, queue);

	if (__builtin_expect(bytes > max_bytes, 0))
		return refuse_size(bytes, max_bytes, ret_error);
	if (__builtin_expect(!cn_owned_try_lock(&cache->lock), 0))
		return find_and_allocate(pool, queue, handle, bytes, ret_error);
	if (__builtin_expect(!is_open(cache, pool, queue), 0)) /* once is enough: nothing changes while it is locked */
		return leave_and_allocate(pool, queue, handle, bytes, ret_error, cache);
	return allocate_locked(pool, cache, handle, bytes, true, ret_error);
}

/* ---- Freeing ---- */

/* The block is not LIVE. */
static __attribute__((noinline)) int refuse(const void *address, uint32_t state)
{
	if (state == CN_BLOCK_SHARED)
		return CN_POOL_FREE_SHARED;
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the block at %p was already freed", address);
}

/* Without a queue: now. */
static int free_now(struct cn_pool *pool, const void *address, uint32_t index)
{
	struct cn_block *block = cn_pool_block_at(pool, index);
	uint32_t live = CN_BLOCK_LIVE;

	if (!atomic_compare_exchange_strong(&block->state, &live, CN_BLOCK_MOVING))
		return refuse(address, live);
	uint64_t bytes = atomic_load_explicit(&block->bytes, memory_order_relaxed);
	cn_pool_give(pool, index);
	atomic_fetch_sub(&pool->counted_bytes, bytes);
	cn_pool_reap_if_dying(pool);
	return CUDA_SUCCESS;
}

/* What another thread has destroyed ends with its last block. */
static __attribute__((noinline)) int reap(void)
{
	cn_pools_reap();
	return CUDA_SUCCESS;
}

/* The block is MOVING, its list marked. The cache is locked, and given back unlocked. `owner`: see unlock(). */
static inline __attribute__((always_inline)) int free_locked(struct cn_pool *pool, struct cn_pool_cache *cache,
							     uint32_t index, struct cn_block *block, unsigned class,
							     uint64_t number, bool owner)
{
	block->number = number;
	cn_pool_cache_link(cache, pool, index, block, class);
	count_unused(pool, cache, atomic_load_explicit(&block->bytes, memory_order_relaxed));
	unlock(cache, owner); /* the pool may end from here on, but not its record */
	return __builtin_expect(atomic_load(&pool->dying), 0) ? reap() : CUDA_SUCCESS;
}

/* The same, where the list may not be marked. */
static __attribute__((noinline)) int mark_and_free(struct cn_pool *pool, struct cn_pool_cache *cache, uint32_t index,
						   uint64_t number)
{
	struct cn_block *block = cn_pool_block_at(pool, index);
	unsigned class = cn_size_class_below(atomic_load_explicit(&block->units, memory_order_relaxed));

	if (!cn_pool_cache_is_marked(cache, class))
		cn_pool_cache_mark(cache, class);
	return free_locked(pool, cache, index, block, class, number, false);
}

static __attribute__((noinline)) int lock_and_free(struct cn_pool *pool, struct cn_pool_cache *cache, uint32_t index,
						   uint64_t number)
{
	cn_owned_lock(&cache->lock);
	return mark_and_free(pool, cache, index, number);
}

static inline __attribute__((always_inline)) int free_in(struct cn_pool *pool, struct cn_pool_cache *cache,
							 const void *address, uint32_t index, uint64_t number)
{
	struct cn_block *block = cn_pool_block_at(pool, index);
	uint32_t live = CN_BLOCK_LIVE;

	if (__builtin_expect(!atomic_compare_exchange_strong_explicit(&block->state, &live, CN_BLOCK_MOVING,
								      memory_order_acq_rel, memory_order_relaxed),
			     0))
		return refuse(address, live);
	if (__builtin_expect(!cn_owned_try_lock(&cache->lock), 0))
		return lock_and_free(pool, cache, index, number);
	unsigned class = cn_size_class_below(atomic_load_explicit(&block->units, memory_order_relaxed));
	if (__builtin_expect(!cn_pool_cache_is_marked(cache, class), 0))
		return mark_and_free(pool, cache, index, number);
	return free_locked(pool, cache, index, block, class, number, true);
}

/* The thread has not used the cache lately, or there is no queue. */
static __attribute__((noinline)) int find_and_free(struct cn_pool *pool, const void *address, uint32_t index,
						   struct cn_point point)
{
	struct cn_pool_cache *cache;

	if (!point.queue)
		return free_now(pool, address, index);
	CUresult result = cn_pool_cache_get(pool, point.queue, &cache);
	return result ? (int)result : free_in(pool, cache, address, index, point.number);
}

static __attribute__((noinline)) int refuse_address(const void *address)
{
	return cn_error(CUDA_ERROR_INVALID_VALUE, "no block of a pool begins at %p", address);
}

/* The cache in which this thread freed last. */
static _Thread_local struct cn_pool_cache *last_cache __attribute__((tls_model("initial-exec"))) = &cn_pool_no_cache;

static __attribute__((noinline)) int find_pool_and_free(void *address, struct cn_point point)
{
	struct cn_pool *pool = cn_pool_of(address);

	if (__builtin_expect(!pool, 0))
		return CUDA_ERROR_INVALID_VALUE;
	uint32_t index = cn_pool_starts_at(pool, address);
	if (__builtin_expect(!index, 0))
		return refuse_address(address);
	struct cn_pool_cache *cache = cn_pool_cache_recent(pool, point.queue);
	if (!cache) /* no thread has one for no queue */
		return find_and_free(pool, address, index, point);
	last_cache = cache;
	return free_in(pool, cache, address, index, point.number);
}

/*
 * Most frees are in the pool and stream of the last one. To find the pool by the address takes two loads that wait for
 * each other, and the next allocation waits for both; to see that it is the same pool, only a jump depends on the
 * address, which the processor foresees.
 */
int cn_pool_free(void *address, struct cn_point point)
{
	struct cn_pool_cache *cache = last_cache;
	struct cn_pool *pool = atomic_load_explicit(&cache->pool, memory_order_acquire);

	if (__builtin_expect(!pool || atomic_load_explicit(&cache->queue, memory_order_relaxed) != point.queue, 0))
		return find_pool_and_free(address, point);
	uint32_t index = cn_pool_starts_at(pool, address);
	if (__builtin_expect(!index, 0))
		return find_pool_and_free(address, point);
	return free_in(pool, cache, address, index, point.number);
}

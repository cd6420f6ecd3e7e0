/* SPDX-License-Identifier: MIT */
/*
 * The rules of pool.h for an allocation that its queue's free lists did not serve, each a function with its number.
 *
 * What they need to know of other queues' caches is in index.c, what a queue has in spans of its own in settle.c.
 *
 * Locks: a cache's before the pool's. Neither is held while a thread waits or the system is asked for memory; the
 * thread that asks holds `growing`.
 */
#include "pool/pool_internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

enum {
	PATIENCE_ROUNDS = 100,    /* of a millisecond: how long an allocation waits for memory to come free */
	GROWTH_SHIFT = 6,         /* a pool grows by at least this part of its size */
	CACHED_PARTS = 3,         /* what the caches have is so many parts of the pool, or it is swept */
	CACHED_SHIFT = 6,         /* of so many, to the power of two */
	MORE_SHIFT = 4,           /* and again when there is this part more of it */
	CACHES_SWEPT_FREELY = 16, /* for one allocation */
	SWEEPS_SHARE = 8,         /* a queue with spans sweeps with so much fewer of its misses */
	CACHES_ASKED = 64,        /* for memory of their spans before the pool grows */
	ROOMY_TIMES = 3,          /* a pool is roomy with so many times what is used, */
	ROOMY_BYTES = 128 << 20,  /* or so much more than it */
	LARGEST_CLASS = CN_SIZE_CLASS_COUNT - 1,
};

/* The result of an attempt to take a block. */
enum attempt {
	TAKEN,
	RACED,  /* another thread took what was made for this one: try again */
	FAILED, /* with an error that was explained */
};

/* A block of the free lists that does for so many units; 0: none. Cache locked. */
static uint32_t find_larger(const struct cn_pool_cache *cache, uint32_t units)
{
	for (unsigned class = cn_bins_next(&cache->bins, cn_size_class_below(units)); class < CN_SIZE_CLASS_COUNT;
	     class = cn_bins_next(&cache->bins, class + 1))
		for (uint32_t index = cache->bins.heads[class]; index;
		     index = cn_pool_block_at(cache->pool, index)->next)
			if (cn_pool_cache_suits(cache, cn_pool_block_at(cache->pool, index), units))
				return index;
	return 0;
}

/* The same of a larger one, which is cut; or of its spans, whatever the size. */
static uint32_t rule_1_own_larger(struct cn_pool_cache *cache, uint32_t units)
{
	cn_owned_lock(&cache->lock);
	uint32_t index = find_larger(cache, units);
	if (index) {
		cn_bins_remove(&cache->pool->heap, &cache->bins, index);
		cache->reused++;
		cn_block_set_moving(cn_pool_block_at(cache->pool, index));
		cn_pool_cache_cut(cache, index, units);
	}
	cn_owned_unlock(&cache->lock);
	return index ? index : cn_pool_take_any_kept(cache, units);
}

/* What an allocation needs that its own free lists and spans did not have. */
struct request {
	struct cn_pool_cache *cache;
	uint64_t handle;
	uint32_t units;
	unsigned policies;
	bool thorough; /* the pool could not grow: ask all caches, and not some */
	bool grows;    /* others are not asked: see should_grow() */
	bool failed;   /* an attempt did, and `sentence` is what this thread's last error was before it */
	char *sentence;
};

static unsigned caches_asked(const struct request *request)
{
	return request->thorough ? UINT_MAX : CACHES_ASKED;
}

/* A block that another queue has freed: of its free lists, or, up to the largest class, of its spans too. */
static uint32_t take_from_others(const struct request *request, unsigned last_class, cn_pool_rule *rule,
				 struct cn_pool_grounds *ret_grounds)
{
	uint32_t index = cn_pool_take_from_others(request->cache, request->units, last_class, rule, ret_grounds);

	if (!index && last_class == LARGEST_CLASS)
		index = cn_pool_take_kept_from_others(request->cache, request->units, caches_asked(request), rule,
						      ret_grounds);
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
static uint32_t rule_2_ordered(const struct request *request, unsigned last_class)
{
	struct cn_pool_cache *cache = request->cache;
	struct cn_pool_grounds grounds;

	if (!(request->policies & CN_POOL_FOLLOW_EVENTS))
		return 0;
	uint32_t index = take_from_others(
		request, last_class,
		request->policies & CN_POOL_OPPORTUNISTIC ? is_pending_and_ordered_after : is_ordered_after, &grounds);
	if (index && !cn_point_reached(grounds.freed) &&
	    cn_device_ops->queue_rely(cache->queue, request->handle, grounds.relied_on)) {
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
static uint32_t rule_3_happened(const struct request *request, unsigned last_class)
{
	struct cn_pool_grounds grounds;

	if (!(request->policies & CN_POOL_OPPORTUNISTIC))
		return 0;
	uint32_t index = take_from_others(request, last_class, has_happened, &grounds);
	if (index)
		request->cache->pool->reused_opportunistic++;
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

/* Out of the heap, or of a new span of the cache's. */
static uint32_t take_free(struct cn_pool_cache *cache, uint32_t units)
{
	struct cn_pool *pool = cache->pool;
	uint32_t index = cn_pool_take_span(cache, units);

	if (!index) {
		cn_lock(&pool->lock);
		index = cn_heap_take(&pool->heap, units);
		cn_unlock(&pool->lock);
	}
	return count_settled(pool, index);
}

static uint32_t take_settled(struct cn_pool_cache *cache, uint32_t units)
{
	uint32_t index;

	do {
		cn_pool_drain_returned(cache->pool);
		index = take_free(cache, units);
	} while (!index && cn_pool_recall_deferred(cache->pool));
	return index;
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

/* … of others. */
static uint32_t take_settled_from_others(const struct request *request)
{
	struct cn_pool_grounds grounds;

	return count_settled(
		request->cache->pool,
		cn_pool_take_kept_from_others(request->cache, request->units, caches_asked(request), NULL, &grounds));
}

/* Settle one cache after the other, beginning with the own one, until there is enough. */
static uint32_t settle_and_take(const struct request *request)
{
	struct cn_pool_cache *cache = request->cache, *other = cache;
	unsigned left = caches_asked(request);
	uint32_t index = 0;

	cn_pool_drain_returned(cache->pool);
	do {
		cn_pool_poll(other);
		if (cn_pool_settle_cache(other, (struct cn_point){other->queue, UINT64_MAX}, true))
			index = take_settled(cache, request->units);
		if (!index)
			index = take_settled_kept(other, cache, request->units);
		other = other->next ? other->next : atomic_load_explicit(&cache->pool->caches, memory_order_acquire);
	} while (!index && other != cache && --left);
	return index;
}

/* A queue with spans needs the heap seldom, and its blocks are joined there: it sweeps less often. */
static bool should_sweep(struct cn_pool_cache *cache)
{
	return !atomic_load_explicit(&cache->spans, memory_order_relaxed) ||
	       atomic_fetch_add_explicit(&cache->misses, 1, memory_order_relaxed) % SWEEPS_SHARE == 0;
}

/* Does another thread allocate in the pool, or did one, by what was seen of the first so many caches? */
static bool others_allocate(const struct cn_pool *pool)
{
	for (unsigned i = 0; i < CN_POOL_CREDIT_CACHES_MAX; i++) {
		const struct cn_pool_cache *cache = atomic_load_explicit(&pool->credit_caches[i], memory_order_acquire);
		if (!cache)
			break;
		const void *user = atomic_load_explicit(&cache->user, memory_order_relaxed);
		if (user && user != cn_pool_recent)
			return true;
	}
	return false;
}

/* May it grow at all, and keep what it gets? A wait takes what is above the threshold, and each round would grow. */
static bool may_grow(const struct cn_pool *pool, uint64_t reserved)
{
	uint64_t threshold = atomic_load_explicit(&pool->threshold_bytes, memory_order_relaxed);

	return reserved != atomic_load_explicit(&pool->stuck_bytes, memory_order_relaxed) && reserved < threshold &&
	       threshold - reserved >= CN_HEAP_CHUNK_BYTES;
}

/*
 * Should the pool grow before a queue with spans asks other queues? Threads that live on each other's spans meet at
 * their locks: sixteen in a pool of 96 MiB did a third of what they do in one of 160. So where the pool has little room
 * for what they use, it grows until each has enough of its own; where it is roomy, they share what there is.
 */
static bool should_grow(const struct request *request)
{
	const struct cn_pool *pool = request->cache->pool;
	uint64_t reserved = atomic_load_explicit(&pool->reserved_bytes, memory_order_relaxed);

	if (request->thorough || request->grows) /* it stays so until all are asked */
		return !request->thorough;
	if (!atomic_load_explicit(&request->cache->spans, memory_order_relaxed) ||
	    request->units > CN_SPAN_BLOCK_UNITS_MAX || !may_grow(pool, reserved) || !others_allocate(pool))
		return false;
	uint64_t used = cn_pool_used(pool);
	return reserved < used * ROOMY_TIMES && reserved < used + ROOMY_BYTES;
}

/* The rules above once more, for larger blocks and those in other queues' spans. */
static uint32_t take_larger_from_others(const struct request *request)
{
	uint32_t index = take_settled_from_others(request);

	if (!index)
		index = rule_2_ordered(request, LARGEST_CLASS);
	if (!index)
		index = rule_3_happened(request, LARGEST_CLASS);
	if (!index && request->policies & CN_POOL_OPPORTUNISTIC) /* small pieces may be enough together */
		index = settle_and_take(request);
	return index;
}

/* Rule 4: what is settled; then larger blocks by the rules above; then what is on its way back to the device. */
static uint32_t rule_4_settled(struct request *request)
{
	struct cn_pool_cache *cache = request->cache;

	if (request->policies & CN_POOL_OPPORTUNISTIC && should_sweep(cache))
		sweep_caches(cache->pool);
	uint32_t index = take_settled(cache, request->units);
	if (!index)
		index = rule_1_own_larger(cache, request->units);
	if (!index && !(request->grows = should_grow(request)))
		index = take_larger_from_others(request);
	return index ? index : cn_pool_take_releasing(cache->pool, request->units);
}

/* Not one whose stream waits for another process: that wait may need us. */
static bool can_be_waited_for(struct cn_queue *queue, struct cn_pool_grounds *grounds)
{
	(void)queue;
	return !cn_device_ops->point_waits_outside(grounds->freed);
}

/* Rule 5: what another queue freed, and this one is made to wait for. */
static uint32_t rule_5_wait(const struct request *request)
{
	struct cn_pool *pool = request->cache->pool;
	struct cn_pool_grounds grounds;

	if (!(request->policies & CN_POOL_INTERNAL_DEPENDENCIES))
		return 0;
	uint32_t index = take_from_others(request, LARGEST_CLASS, can_be_waited_for, &grounds);
	if (index && cn_device_ops->queue_wait(request->cache->queue, request->handle, grounds.freed)) {
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

/* More than is needed now, if possible, so that a growing program does not ask for each piece. */
static enum attempt grow(struct cn_pool *pool, uint32_t needed, uint32_t *ret_index, CUresult *ret_error)
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

/*
 * Rule 6: new memory. One thread at a time: others that need some wait for it, and look whether there is enough for
 * them, too. Else a pool that sixteen threads begin to use would get a chunk for each of them.
 */
static enum attempt rule_6_grow(struct request *request, uint32_t *ret_index, CUresult *ret_error)
{
	struct cn_pool *pool = request->cache->pool;
	enum attempt attempt = TAKEN;

	if (!request->failed)
		memcpy(request->sentence, cn_last_error(), CN_SENTENCE_BYTES);
	cn_slow_lock(&pool->growing);
	uint32_t index = take_free(request->cache, request->units);
	if (index)
		*ret_index = index;
	else
		attempt = grow(pool, request->units, ret_index, ret_error);
	if (attempt == FAILED)
		atomic_store_explicit(&pool->stuck_bytes, pool->reserved_bytes, memory_order_relaxed);
	cn_slow_unlock(&pool->growing);
	request->failed |= attempt == FAILED;
	return attempt;
}

/* Rules 2 to 6 in their order. */
static enum attempt reuse_or_grow(struct request *request, uint32_t *ret_index, CUresult *ret_error)
{
	struct cn_pool *pool = request->cache->pool;
	uint32_t index = 0;

	if (cn_heap_is_low(&pool->heap))
		cn_heap_add_records(&pool->heap);
	request->policies = atomic_load_explicit(&pool->policies, memory_order_relaxed);
	if (!atomic_load_explicit(&request->cache->spans, memory_order_relaxed)) { /* else others come later */
		index = rule_2_ordered(request, cn_size_class_above(request->units));
		if (!index)
			index = rule_3_happened(request, cn_size_class_above(request->units));
	}
	if (!index)
		index = rule_4_settled(request);
	if (!index && !request->grows)
		index = rule_5_wait(request);
	if (!index)
		return rule_6_grow(request, ret_index, ret_error);
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
			struct cn_point kept = first_pending_in(cache, &cache->spans->sets[set].pending);
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
		cn_owned_lock(&cache->lock);
		struct cn_point point = first_pending(cache);
		pending = point.queue && !cn_device_ops->point_waits_outside(point);
		cn_owned_unlock(&cache->lock);
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

/* ---- All of them ---- */

/* Of this many units, rounded up to a class or not. */
static enum attempt attempt_all(struct request *request, uint32_t units, uint32_t *ret_index, CUresult *ret_error)
{
	request->units = cn_size_class_units(cn_size_class_above(units));
	enum attempt attempt = reuse_or_grow(request, ret_index, ret_error);
	if (attempt == FAILED && *ret_error == CUDA_ERROR_OUT_OF_MEMORY && units < request->units) {
		request->units = units; /* it may be just enough */
		attempt = reuse_or_grow(request, ret_index, ret_error);
	}
	return attempt;
}

/* Round after round, as long as there is something to wait for. */
static CUresult try_and_wait(struct request *request, uint32_t units, uint32_t *ret_index)
{
	enum attempt attempt = RACED;
	CUresult error = CUDA_SUCCESS;

	for (unsigned round = 0; round < PATIENCE_ROUNDS; round++) {
		attempt = attempt_all(request, units, ret_index, &error);
		/* Where growing came first, others have not been asked, and its error says nothing of them. */
		if (attempt == FAILED && (error == CUDA_ERROR_OUT_OF_MEMORY || request->grows) && !request->thorough) {
			request->thorough = true;
			attempt = attempt_all(request, units, ret_index, &error);
		}
		if (attempt == TAKEN)
			return CUDA_SUCCESS;
		if (attempt == FAILED &&
		    (error != CUDA_ERROR_OUT_OF_MEMORY || !rule_7_wait_for_memory(request->cache, round)))
			break;
	}
	return attempt == FAILED ? error : cn_error(CUDA_ERROR_OUT_OF_MEMORY, "the pool has no memory left");
}

/* What failed on the way to a success is no error; what the last attempt failed with is printed once. */
CUresult cn_pool_allocate_slowly(struct cn_pool_cache *cache, uint64_t handle, uint32_t units, uint32_t *ret_index)
{
	char sentence[CN_SENTENCE_BYTES];
	struct request request = {.cache = cache, .handle = handle, .sentence = sentence};

	if (atomic_load_explicit(&cache->user, memory_order_relaxed) != cn_pool_recent)
		atomic_store_explicit(&cache->user, cn_pool_recent, memory_order_relaxed);
	cn_error_hush(true);
	CUresult result = try_and_wait(&request, units, ret_index);
	cn_error_hush(false);
	if (result)
		cn_error_repeat(result);
	else if (request.failed)
		cn_error_forget(sentence);
	return result;
}

/* SPDX-License-Identifier: MIT */
/*
 * The index of a pool: which queue has a cache there, and which caches may have a block of a size class.
 *
 * Each queue that has freed in a pool has a cache there: the blocks which that queue freed, in a free list for each
 * size class, newest first, each with the number of its free. A thread finds the cache of a queue among the few that it
 * used last; otherwise in a two-level table, by the index that a queue gets with its first cache and keeps for good.
 *
 * Other queues may take a block out of a cache. They need not look into each: caches are in groups of 64, and a group
 * has a bitmap for each size class. A bit is set with the first block of a free list, and cleared by a thread that
 * finds the list empty: a cache that has a block has its bit, one with the bit may have no block (and so it is with the
 * bitmap that each cache has of its own lists).
 *
 * The other way round, a queue has a list of its caches in all pools, so that a program that waits for a stream does
 * not look through pools which the stream does not use. A cache that is found empty leaves the list until it is not.
 *
 * Locks: a cache's before the pool's. No lock is held while the system is asked for memory, but once in a thread's life
 * for the record of an owner of locks.
 */
#include "pool/pool_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
	SEARCH_DEPTH_MAX = 8,                 /* blocks of another queue's free list that are looked at */
	TAKEN_AT_ONCE = 8,                    /* and that are taken for what will be asked for next */
	CREDIT_BYTES_MAX = 256 * 1024 * 1024, /* so that a large block costs no more to count than a small one */
};

static struct {
	_Atomic uint64_t last_cache; /* how many there were: allocations get their ids from it */
	_Atomic uint32_t last_index; /* the last that a queue was given */
} caches;

static CN_LOCK(QUEUE_CACHES) of_queues_lock;

struct cn_pool_cache cn_pool_no_cache;
_Thread_local struct cn_pool_cache *cn_pool_recent[CN_POOL_RECENT_COUNT]
	__attribute__((tls_model("initial-exec"))) = {[0 ... CN_POOL_RECENT_COUNT - 1] = &cn_pool_no_cache};

/* ---- The caches of a queue ---- */

/* Take in the caches that came since the last time. Locked. */
static void take_woken_locked(struct cn_queue *queue)
{
	struct cn_pool_cache *cache = atomic_exchange_explicit(&queue->pool_woken, NULL, memory_order_acquire);

	for (struct cn_pool_cache *next; cache; cache = next) {
		next = cache->next_of_queue;
		cache->previous_of_queue = NULL;
		cache->next_of_queue = queue->pool_caches;
		if (cache->next_of_queue)
			cache->next_of_queue->previous_of_queue = cache;
		queue->pool_caches = cache;
	}
}

static void unlist_of_queue(struct cn_pool_cache *cache)
{
	struct cn_queue *queue = cache->queue;

	cn_lock(&of_queues_lock);
	take_woken_locked(queue);
	if (cache->previous_of_queue)
		cache->previous_of_queue->next_of_queue = cache->next_of_queue;
	else
		queue->pool_caches = cache->next_of_queue;
	if (cache->next_of_queue)
		cache->next_of_queue->previous_of_queue = cache->previous_of_queue;
	cn_unlock(&of_queues_lock);
}

/* The bitmap is empty then, so that the first block that comes is noticed. */
void cn_pool_cache_rest(struct cn_pool_cache *cache)
{
	cn_owned_lock(&cache->lock);
	bool empty = !atomic_load_explicit(&cache->bins.units, memory_order_relaxed) && !cache->spans && !cache->rests;
	if (empty) {
		memset(cache->bins.bitmap, 0, sizeof cache->bins.bitmap);
		cache->rests = true;
		unlist_of_queue(cache);
	}
	cn_owned_unlock(&cache->lock);
}

/* False: its pool is just being ended, or has not got it yet, and there is nothing in it. */
static bool is_in_live_pool(const struct cn_pool_cache *cache)
{
	const struct cn_pool *pool = atomic_load_explicit(&cache->pool, memory_order_acquire);

	return pool && pool->lives;
}

struct cn_pool_cache *cn_pool_cache_after(struct cn_queue *queue, const struct cn_pool_cache *cache)
{
	cn_lock(&of_queues_lock);
	if (!cache)
		take_woken_locked(queue);
	struct cn_pool_cache *next = cache ? cache->next_of_queue : queue->pool_caches;
	while (next && !is_in_live_pool(next))
		next = next->next_of_queue;
	cn_unlock(&of_queues_lock);
	return next;
}

/* ---- Records ---- */

static struct cn_records records = CN_RECORDS(struct cn_pool_cache, record);

static void recycle_cache(struct cn_pool_cache *cache)
{
	cn_owned_lock(&cache->lock);
	if (!cache->rests)
		unlist_of_queue(cache);
	cache->rests = false;
	memset(cache->bins.bitmap, 0, sizeof cache->bins.bitmap); /* the next pool's group has no bit of it */
	cache->pool = NULL; /* a thread that comes late sees that it is too late */
	struct cn_spans *spans = atomic_exchange(&cache->spans, NULL);
	atomic_store(&cache->misses, 0);
	atomic_store(&cache->user, NULL);
	atomic_store(&cache->asked_last, NULL);
	cache->join_wait = 0;
	cache->reused = 0;
	atomic_store(&cache->credit_bytes, 0);
	atomic_store(&cache->swept, 0);
	cn_owned_unlock(&cache->lock);
	free(spans);
	cn_records_give(&records, cache);
}

/* ---- Caches by queue ---- */

/* Where the table has the cache of an index; NULL: the table has no such page, or ends before. */
static struct cn_pool_cache *_Atomic *entry_of(const struct cn_pool *pool, uint32_t index)
{
	struct cn_pool_cache *_Atomic *page =
		index < CN_POOL_INDEX_COUNT
			? atomic_load_explicit(&pool->index_pages[index / CN_POOL_INDEX_PAGE_CACHES],
					       memory_order_acquire)
			: NULL;

	return page ? &page[index % CN_POOL_INDEX_PAGE_CACHES] : NULL;
}

struct cn_pool_cache *cn_pool_cache_of(const struct cn_pool *pool, const struct cn_queue *queue)
{
	uint32_t index = atomic_load_explicit(&queue->pool_index, memory_order_relaxed);
	struct cn_pool_cache *cache = NULL;

	if (index && index < CN_POOL_INDEX_COUNT) {
		struct cn_pool_cache *_Atomic *entry = entry_of(pool, index);
		cache = entry ? atomic_load_explicit(entry, memory_order_acquire) : NULL;
	} else if (index) {
		cache = atomic_load_explicit(&pool->caches, memory_order_acquire);
		while (cache && atomic_load_explicit(&cache->queue, memory_order_relaxed) != queue)
			cache = atomic_load_explicit(&cache->next, memory_order_acquire);
	}
	return cache;
}

/* Give the queue an index, for good, and the pool the page that has it. False: no memory. */
static bool make_entry(struct cn_pool *pool, struct cn_queue *queue)
{
	struct cn_pool_cache *_Atomic *none = NULL;
	uint32_t index = atomic_load(&queue->pool_index);

	if (!index) {
		uint32_t fresh = atomic_fetch_add(&caches.last_index, 1) + 1;
		index = atomic_compare_exchange_strong(&queue->pool_index, &index, fresh) ? fresh : index;
	}
	if (index >= CN_POOL_INDEX_COUNT || entry_of(pool, index))
		return true;
	struct cn_pool_cache *_Atomic *page = calloc(CN_POOL_INDEX_PAGE_CACHES, sizeof(struct cn_pool_cache * _Atomic));
	if (!page)
		return false;
	if (!atomic_compare_exchange_strong(&pool->index_pages[index / CN_POOL_INDEX_PAGE_CACHES], &none, page))
		free((void *)page);
	return true;
}

/*
 * Make the cache visible to all threads. False: it needs another group, which is taken from *more if there is one. Pool
 * locked.
 */
static bool enter_cache(struct cn_pool *pool, struct cn_pool_cache *cache, struct cn_pool_cache_group **more)
{
	struct cn_pool_cache *_Atomic *entry = entry_of(pool, atomic_load(&cache->queue->pool_index));
	unsigned number = atomic_load(&pool->cache_count), at = number % CN_POOL_GROUP_CACHES;

	if (number && !at) {
		if (!*more)
			return false;
		atomic_store_explicit(&pool->last_group->next, *more, memory_order_release);
		pool->last_group = *more;
		*more = NULL;
	} else if (!number) {
		pool->last_group = &pool->first_group;
	}
	cache->next = atomic_load(&pool->caches);
	cache->group = pool->last_group;
	cache->group_bit = 1ull << at;
	cache->credit_bytes_max = number < CN_POOL_CREDIT_CACHES_MAX ? CREDIT_BYTES_MAX : 0;
	atomic_store_explicit(&cache->group->caches[at], cache, memory_order_release);
	/* A thread that remembers the record may use it from here on: not before, since it may yet be thrown away. */
	atomic_store_explicit(&cache->pool, pool, memory_order_release);
	atomic_store_explicit(&pool->caches, cache, memory_order_release);
	if (number < CN_POOL_CREDIT_CACHES_MAX)
		atomic_store_explicit(&pool->credit_caches[number], cache, memory_order_release);
	if (entry)
		atomic_store_explicit(entry, cache, memory_order_release);
	atomic_store(&pool->cache_count, number + 1);
	return true;
}

/* For a queue that has none yet. */
static CUresult make_cache(struct cn_pool *pool, struct cn_queue *queue, struct cn_pool_cache **ret_cache)
{
	struct cn_pool_cache *cache = make_entry(pool, queue) ? cn_records_take(&records) : NULL, *other = NULL;
	struct cn_pool_cache_group *more = NULL;
	bool ended, entered = false;

	if (!cache)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a pool's record of a stream");
	cn_owned_lock(&cache->lock);
	cache->queue = queue;
	cache->next_id = (atomic_fetch_add(&caches.last_cache, 1) + 1) << 40;
	cn_owned_unlock(&cache->lock);
	cn_pool_cache_list(queue, cache); /* before the pool knows it, so that no settling misses a block */
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
		recycle_cache(cache);
	if (ended)
		return cn_pool_is_gone();
	if (!entered && !other)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a pool's records of streams");
	*ret_cache = other ? other : cache;
	return CUDA_SUCCESS;
}

CUresult cn_pool_cache_get(struct cn_pool *pool, struct cn_queue *queue, struct cn_pool_cache **ret_cache)
{
	struct cn_pool_cache *cache = cn_pool_cache_recent(pool, queue);
	CUresult result = CUDA_SUCCESS;

	if (!cache) {
		cache = cn_pool_cache_of(pool, queue);
		result = cache ? CUDA_SUCCESS : make_cache(pool, queue, &cache);
		if (result)
			return result;
		cn_pool_recent[cn_pool_recent_slot(pool, queue)] = cache;
	}
	*ret_cache = cache;
	return CUDA_SUCCESS;
}

void cn_pool_index_end(struct cn_pool *pool)
{
	cn_lock(&pool->lock);
	pool->ended = true;
	struct cn_pool_cache *cache = atomic_exchange(&pool->caches, NULL);
	cn_unlock(&pool->lock);
	for (struct cn_pool_cache *next; cache; cache = next) {
		next = cache->next;
		uint32_t index = atomic_load_explicit(&cache->queue->pool_index, memory_order_relaxed);
		struct cn_pool_cache *_Atomic *entry = entry_of(pool, index);
		if (entry)
			atomic_store(entry, NULL);
		recycle_cache(cache);
	}
	for (struct cn_pool_cache_group *group = atomic_load(&pool->first_group.next), *next; group; group = next) {
		next = atomic_load(&group->next);
		free(group);
	}
}

/* ---- Blocks by size class ---- */

void cn_pool_cache_mark(struct cn_pool_cache *cache, unsigned class)
{
	if (cache->rests) {
		cache->rests = false;
		cn_pool_cache_list(cache->queue, cache);
	}
	cache->bins.bitmap[class / 64] |= 1ull << class % 64;
	/* Mostly our bit is there still, and other threads' caches share the word. Only under this lock it changes. */
	if (!(atomic_load_explicit(&cache->group->bitmaps[class], memory_order_relaxed) & cache->group_bit))
		atomic_fetch_or_explicit(&cache->group->bitmaps[class], cache->group_bit, memory_order_release);
}

void cn_pool_cache_cut(struct cn_pool_cache *cache, uint32_t index, uint32_t units)
{
	struct cn_pool *pool = cache->pool;
	struct cn_block *block = cn_pool_block_at(pool, index);
	uint32_t rest = 0;

	if (block->units == units || !cn_pool_cache_can_cut(cache, block))
		return;
	if (!block->span) {
		cn_lock(&pool->lock);
		rest = cn_heap_cut(&pool->heap, index, units);
		cn_unlock(&pool->lock);
	} else if (cn_pool_fill_spares(cache)) {
		rest = cn_heap_part_cut(&pool->heap, &cache->spans->spares, index, units);
		if (rest)
			cn_heap_set_covers(&pool->heap, rest);
	}
	if (rest)
		cn_pool_cache_push(cache, pool, rest);
}

/* A block of another cache, of the classes from `units` up to `last_class`; 0: none. That cache is locked. */
static uint32_t search(const struct cn_pool_cache *other, const struct cn_pool_cache *own, uint32_t units,
		       unsigned last_class, cn_pool_rule *rule, struct cn_pool_grounds *ret_grounds)
{
	for (unsigned at = cn_bins_next(&other->bins, cn_size_class_below(units)); at <= last_class;
	     at = cn_bins_next(&other->bins, at + 1)) {
		uint32_t index = other->bins.heads[at];
		for (unsigned depth = 0; index && depth < SEARCH_DEPTH_MAX; depth++) {
			const struct cn_block *block = cn_pool_block_at(own->pool, index);
			ret_grounds->freed = (struct cn_point){other->queue, block->number};
			if (cn_pool_cache_suits(other, block, units) && rule(own->queue, ret_grounds))
				return index;
			index = block->next;
		}
	}
	return 0;
}

static uint32_t take_from(struct cn_pool_cache *other, const struct cn_pool_cache *own, uint32_t units,
			  unsigned last_class, cn_pool_rule *rule, struct cn_pool_grounds *ret_grounds)
{
	cn_owned_lock(&other->lock);
	uint32_t index = search(other, own, units, last_class, rule, ret_grounds);
	if (index) {
		cn_bins_remove(&own->pool->heap, &other->bins, index);
		cn_block_set_moving(cn_pool_block_at(own->pool, index));
		cn_pool_cache_cut(other, index, units);
	} else { /* no thread needs to look here again for what is gone */
		for (unsigned at = cn_size_class_below(units); at <= cn_size_class_above(units); at++)
			if (!other->bins.heads[at]) {
				other->bins.bitmap[at / 64] &= ~(1ull << at % 64);
				atomic_fetch_and_explicit(&other->group->bitmaps[at], ~other->group_bit,
							  memory_order_relaxed);
			}
	}
	cn_owned_unlock(&other->lock);
	return index;
}

/* The caches of a group that may have a block of these classes. */
static uint64_t nonempty_in(const struct cn_pool_cache_group *group, unsigned class, unsigned last_class)
{
	uint64_t found = 0;

	for (; class <= last_class; class ++)
		found |= atomic_load_explicit(&group->bitmaps[class], memory_order_acquire);
	return found;
}

/* A PENDING block of another cache's spans, by a rule; 0: none. That cache is locked. */
static uint32_t search_pending(const struct cn_pool_cache *other, unsigned set, const struct cn_pool_cache *own,
			       uint32_t units, cn_pool_rule *rule, struct cn_pool_grounds *ret_grounds)
{
	const struct cn_bins *pending = &other->spans->sets[set].pending;

	for (unsigned at = cn_bins_next(pending, cn_size_class_below(units)); at < CN_SIZE_CLASS_COUNT;
	     at = cn_bins_next(pending, at + 1)) {
		uint32_t index = pending->heads[at];
		for (unsigned depth = 0; index && depth < SEARCH_DEPTH_MAX; depth++) {
			const struct cn_block *block = cn_pool_block_at(own->pool, index);
			ret_grounds->freed = (struct cn_point){other->queue, block->number};
			if (block->units >= units && rule(own->queue, ret_grounds))
				return index;
			index = block->next;
		}
	}
	return 0;
}

uint32_t cn_pool_take_kept_of(struct cn_pool_cache *other, unsigned set, const struct cn_pool_cache *own,
			      uint32_t units, cn_pool_rule *rule, struct cn_pool_grounds *ret_grounds)
{
	struct cn_spans *spans = atomic_load_explicit(&other->spans, memory_order_acquire);
	struct cn_heap *heap = &own->pool->heap;
	uint32_t index = 0;

	if (!spans || cn_spans_free_units(spans, set) < units)
		return 0;
	cn_owned_lock(&other->lock);
	if (cn_pool_fill_spares(other)) {
		index = cn_spans_take(heap, spans, set, true, units);
		ret_grounds->freed = (struct cn_point){other->queue, 0};
		if (!index && rule)
			index = search_pending(other, set, own, units, rule, ret_grounds);
		if (index && ret_grounds->freed.number)
			index = cn_spans_take_pending(heap, spans, set, index, units);
	}
	cn_owned_unlock(&other->lock);
	return index;
}

uint32_t cn_pool_take_kept_from_others(struct cn_pool_cache *own, uint32_t units, unsigned caches_max,
				       cn_pool_rule *rule, struct cn_pool_grounds *ret_grounds)
{
	struct cn_pool_cache *first = atomic_load_explicit(&own->asked_last, memory_order_relaxed), *other;
	unsigned set = cn_span_set_of(units);
	uint32_t index = 0;

	other = first = first ? first : own;
	do {
		for (unsigned i = 0; i < CN_SPAN_SETS && !index && other != own; i++)
			index = cn_pool_take_kept_of(other, (set + i) % CN_SPAN_SETS, own, units, rule, ret_grounds);
		if (index)
			break;
		other = other->next ? other->next : atomic_load_explicit(&own->pool->caches, memory_order_acquire);
	} while (other != first && --caches_max);
	atomic_store_explicit(&own->asked_last, other, memory_order_relaxed);
	return index;
}

uint32_t cn_pool_take_from_others(struct cn_pool_cache *own, uint32_t units, unsigned last_class, cn_pool_rule *rule,
				  struct cn_pool_grounds *ret_grounds)
{
	const struct cn_pool_cache_group *group = &own->pool->first_group;

	if (atomic_load_explicit(&own->pool->cache_count, memory_order_relaxed) < 2)
		return 0; /* there are no others */
	for (; group; group = atomic_load_explicit(&group->next, memory_order_acquire)) {
		uint64_t found = nonempty_in(group, cn_size_class_below(units), last_class);
		if (group == own->group)
			found &= ~own->group_bit;
		for (; found; found &= found - 1) {
			struct cn_pool_cache *other =
				atomic_load_explicit(&group->caches[__builtin_ctzll(found)], memory_order_acquire);
			uint32_t index = take_from(other, own, units, last_class, rule, ret_grounds);
			if (index)
				return index;
		}
	}
	return 0;
}

/* Blocks of a class whose frees have happened, linked by `next`; 0: none. */
static uint32_t take_happened(struct cn_pool_cache *other, const struct cn_pool *pool, unsigned class)
{
	uint32_t taken = 0, index;

	cn_owned_lock(&other->lock);
	for (unsigned count = 0; count < TAKEN_AT_ONCE && other->pool == pool; count++) {
		index = other->bins.heads[class];
		if (!index || !cn_pool_free_happened(other, cn_pool_block_at(pool, index)))
			break;
		cn_pool_cache_pop(other, pool, class);
		cn_block_set_moving(cn_pool_block_at(pool, index));
		cn_pool_block_at(pool, index)->next = taken;
		taken = index;
	}
	cn_owned_unlock(&other->lock);
	return taken;
}

static bool is_recent(const struct cn_pool_cache *cache, const struct cn_pool_cache *own)
{
	return cache != own && cache->pool == own->pool;
}

bool cn_pool_has_recent(const struct cn_pool_cache *own)
{
	bool found = false;

	for (unsigned i = 0; i < CN_POOL_RECENT_COUNT; i++)
		found |= is_recent(cn_pool_recent[i], own);
	return found;
}

uint32_t cn_pool_take_recent(const struct cn_pool_cache *own, unsigned class)
{
	uint32_t taken = 0;

	for (unsigned i = 0; i < CN_POOL_RECENT_COUNT && !taken; i++)
		if (is_recent(cn_pool_recent[i], own))
			taken = take_happened(cn_pool_recent[i], own->pool, class);
	return taken;
}

void cn_pool_put_back(struct cn_pool *pool, uint32_t index, struct cn_point freed)
{
	struct cn_pool_cache *other = cn_pool_cache_of(pool, freed.queue);

	cn_owned_lock(&other->lock);
	cn_pool_block_at(pool, index)->number = freed.number;
	cn_pool_cache_push(other, pool, index);
	cn_owned_unlock(&other->lock);
}

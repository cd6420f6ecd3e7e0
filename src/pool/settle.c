/* SPDX-License-Identifier: MIT */
/*
 * Where freed blocks go: from the free lists of a cache back to the heap, or to the span that they were cut from.
 *
 * A freed block stands in a free list of its queue, as it is, and the queue's next allocation of the size has it at
 * once. It leaves the list in two ways. Either its free has happened: then it is settled, and goes back where any queue
 * may have it. Or its queue lacks a size and has spans: then all blocks of its own spans are joined there, whether
 * their frees have happened or not, since the queue may reuse them anyway.
 *
 * A block that another queue freed goes home to its span when it is settled. A span that is whole goes back to the heap
 * when the program waits for the queue, and before the pool grows.
 *
 * Locks: a cache's before the pool's; never two caches'.
 */
#include "pool/pool_internal.h"

#include <stdlib.h>

enum {
	SETTLED_AT_ONCE = 16,
	SPARES_WANTED = 64,     /* taken from the heap at once */
	SPARES_MAX = 256,       /* more than these go back there, so many at once */
	MISSES_MIN = 64,        /* of a cache before it has spans */
	BLOCKS_OF_SPAN = 4,     /* a span is at least this many times a block that is cut from it */
	SPAN_UNITS = 2048,      /* of the first one, 1 MiB; */
	SMALL_SPAN_UNITS = 256, /* of the first for small blocks; */
	GROWTH_SHIFT = 1,       /* others are this part of what the cache has in spans, */
	SPAN_UNITS_MAX = 4096,  /* 2 MiB: one small block keeps a span from being whole, and so from the heap; */
	FAIR_SHIFT = 3,         /* and at most this part of what is free in the heap */
	VISITS_MAX = 512,       /* blocks that one allocation looks at to join some; */
	JOINED_SHIFT = 3,       /* that pays off if this part of them can be joined */
};

/* ---- Spans of a cache ---- */

bool cn_pool_fill_spares(struct cn_pool_cache *cache)
{
	struct cn_pool *pool = cache->pool;
	struct cn_spares *spares = &cache->spans->spares;

	if (spares->first)
		return true;
	cn_lock(&pool->lock);
	cn_heap_move_spares(&pool->heap, &pool->heap.spares, spares, SPARES_WANTED);
	cn_unlock(&pool->lock);
	return spares->first != 0;
}

static void drain_spares(struct cn_pool *pool, struct cn_spares *spares)
{
	while (spares->count > SPARES_MAX) { /* a few per lock, so that others get in between */
		cn_lock(&pool->lock);
		cn_heap_move_spares(&pool->heap, spares, &pool->heap.spares, SPARES_MAX - SPARES_WANTED);
		cn_unlock(&pool->lock);
	}
}

static enum cn_block_state state_after_free(const struct cn_pool_cache *cache, const struct cn_block *block)
{
	return cn_pool_free_happened(cache, block) ? CN_BLOCK_KEPT : CN_BLOCK_PENDING;
}

/* Move the blocks of its own spans from the free lists there, as far as a bound allows. Cache locked. */
static void join_own(struct cn_pool_cache *cache)
{
	struct cn_heap *heap = &cache->pool->heap;
	unsigned visited = 0, joined = 0;

	for (unsigned class = cn_bins_next(&cache->bins, 0); class < CN_SIZE_CLASS_COUNT && visited < VISITS_MAX;
	     class = cn_bins_next(&cache->bins, class + 1)) {
		uint32_t next;
		for (uint32_t index = cache->bins.heads[class]; index && visited < VISITS_MAX; index = next) {
			struct cn_block *block = cn_block_at(heap, index);
			next = block->next;
			visited++;
			if (cn_span_owner(heap, block) != cache)
				continue;
			joined++;
			cn_bins_remove(heap, &cache->bins, index);
			cn_block_set_moving(block);
			cn_spans_give(heap, cache->spans, index, state_after_free(cache, block));
		}
	}
	/* Where few can be, further tries would take longer than they are worth. */
	cache->join_wait = joined < visited >> JOINED_SHIFT ? visited : 0;
	drain_spares(cache->pool, &cache->spans->spares);
}

/* Is a block small beside what the cache has in spans for it? */
static bool is_small(const struct cn_spans *spans, uint32_t units)
{
	uint64_t held = spans->sets[cn_span_set_of(units)].units;

	return units <= CN_SPAN_BLOCK_UNITS_MAX &&
	       (uint64_t)units * BLOCKS_OF_SPAN <= (held > SPAN_UNITS ? held : SPAN_UNITS);
}

uint32_t cn_pool_take_kept(struct cn_pool_cache *cache, uint32_t units)
{
	struct cn_spans *spans = cache->spans;
	struct cn_heap *heap = &cache->pool->heap;

	if (!is_small(spans, units) || !cn_pool_fill_spares(cache))
		return 0;
	unsigned set = cn_span_set_of(units);
	uint32_t index = cn_spans_take(heap, spans, set, false, units);
	if (!index && atomic_load_explicit(&cache->bins.units, memory_order_relaxed)) {
		if (cache->join_wait) {
			cache->join_wait--;
		} else {
			join_own(cache);
			index = cn_pool_fill_spares(cache) ? cn_spans_take(heap, spans, set, false, units) : 0;
		}
	}
	return index;
}

uint32_t cn_pool_take_any_kept(struct cn_pool_cache *cache, uint32_t units)
{
	uint32_t index = 0;

	cn_owned_lock(&cache->lock);
	if (cache->spans && cn_pool_fill_spares(cache))
		for (unsigned set = CN_SPAN_SETS; set-- && !index;)
			index = cn_spans_take(&cache->pool->heap, cache->spans, set, false, units);
	if (index)
		cache->reused++;
	cn_owned_unlock(&cache->lock);
	return index;
}

/* How large a span for a block of this size would be; 0: there should be none. Cache locked. */
static uint32_t span_units(const struct cn_pool_cache *cache, uint32_t units)
{
	const struct cn_pool *pool = cache->pool;
	uint64_t fair = atomic_load_explicit(&pool->heap.free.units, memory_order_relaxed) >> FAIR_SHIFT;
	unsigned set = cn_span_set_of(units);
	uint64_t first = set ? SPAN_UNITS : SMALL_SPAN_UNITS;
	uint64_t wanted = cache->spans->sets[set].units >> GROWTH_SHIFT, least = (uint64_t)units * BLOCKS_OF_SPAN;

	wanted = wanted > first ? wanted : first;
	wanted = wanted < SPAN_UNITS_MAX ? wanted : SPAN_UNITS_MAX;
	wanted = wanted > least ? wanted : least;
	wanted = wanted < fair ? wanted : fair;
	wanted -= wanted % CN_SPAN_UNITS_MIN; /* so that what is left between spans is no less */
	if (!is_small(cache->spans, units) || wanted < least || wanted < CN_SPAN_UNITS_MIN)
		return 0;
	return (uint32_t)wanted;
}

uint32_t cn_pool_take_span(struct cn_pool_cache *cache, uint32_t units)
{
	struct cn_pool *pool = cache->pool;
	struct cn_heap *heap = &pool->heap;
	uint32_t index = 0;

	if (!atomic_load_explicit(&cache->spans, memory_order_relaxed)) {
		if (atomic_load_explicit(&cache->misses, memory_order_relaxed) < MISSES_MIN)
			return 0;
		struct cn_spans *spans = calloc(1, sizeof *spans), *none = NULL;
		if (!spans)
			return 0;
		if (!atomic_compare_exchange_strong(&cache->spans, &none, spans))
			free(spans);
	}
	cn_owned_lock(&cache->lock);
	uint32_t wanted = span_units(cache, units);
	if (wanted && cn_pool_fill_spares(cache)) {
		cn_lock(&pool->lock);
		index = cn_heap_take(heap, wanted);
		cn_unlock(&pool->lock);
	}
	if (index) {
		cn_spans_add(heap, cache->spans, index, cache);
		index = cn_pool_fill_spares(cache)
				? cn_spans_take(heap, cache->spans, cn_span_set_of(units), false, units)
				: 0;
	}
	cn_owned_unlock(&cache->lock);
	return index;
}

/* Give back the spans that are whole. Cache locked. */
static bool give_spans(struct cn_pool_cache *cache)
{
	struct cn_pool *pool = cache->pool;
	bool given = false;

	for (uint32_t index; (index = cn_spans_remove(&pool->heap, cache->spans)); given = true) {
		cn_lock(&pool->lock);
		cn_heap_give(&pool->heap, index);
		cn_unlock(&pool->lock);
	}
	return given;
}

/* ---- Settling ---- */

void cn_pool_give(struct cn_pool *pool, uint32_t index)
{
	struct cn_pool_cache *owner = cn_span_owner(&pool->heap, cn_pool_block_at(pool, index));

	if (!owner) {
		cn_lock(&pool->lock);
		cn_heap_give(&pool->heap, index);
		cn_unlock(&pool->lock);
		return;
	}
	cn_owned_lock(&owner->lock);
	cn_spans_give(&pool->heap, owner->spans, index, CN_BLOCK_KEPT);
	give_spans(owner);
	cn_owned_unlock(&owner->lock);
}

/* Where a settled block of a cache's free lists goes. */
struct destinations {
	struct cn_pool_cache *cache; /* locked */
	unsigned pool_count;
	uint32_t foreign; /* of other caches' spans, linked by `next` */
};

static void settle_block(struct destinations *to, uint32_t index)
{
	struct cn_pool *pool = to->cache->pool;
	struct cn_block *block = cn_pool_block_at(pool, index);
	const struct cn_pool_cache *owner = cn_span_owner(&pool->heap, block);

	cn_bins_remove(&pool->heap, &to->cache->bins, index);
	cn_block_set_moving(block);
	if (owner == to->cache) {
		cn_spans_give(&pool->heap, to->cache->spans, index, CN_BLOCK_KEPT);
	} else if (owner) {
		block->next = to->foreign;
		to->foreign = index;
	} else {
		if (to->pool_count++ % SETTLED_AT_ONCE == 0) { /* a few per lock, so that others get in between */
			if (to->pool_count > 1)
				cn_unlock(&pool->lock);
			cn_lock(&pool->lock);
		}
		cn_heap_give(&pool->heap, index);
	}
}

bool cn_pool_settle_cache(struct cn_pool_cache *cache, struct cn_point point, bool spans)
{
	struct cn_pool *pool = cache->pool;
	struct destinations to = {.cache = cache};
	bool given = false;

	cn_owned_lock(&cache->lock);
	for (unsigned class = cn_bins_next(&cache->bins, 0); class < CN_SIZE_CLASS_COUNT;
	     class = cn_bins_next(&cache->bins, class + 1)) {
		uint32_t next;
		for (uint32_t index = cache->bins.heads[class]; index; index = next) {
			const struct cn_block *block = cn_pool_block_at(pool, index);
			next = block->next;
			if (block->number <= point.number && cn_pool_free_happened(cache, block))
				settle_block(&to, index);
		}
	}
	if (to.pool_count)
		cn_unlock(&pool->lock);
	if (cache->spans) {
		uint64_t completed = atomic_load_explicit(&cache->queue->completed, memory_order_acquire);
		cn_spans_settle(&pool->heap, cache->spans, point.number < completed ? point.number : completed);
		given = spans && give_spans(cache);
		drain_spares(pool, &cache->spans->spares);
	}
	cn_owned_unlock(&cache->lock);
	given = given || to.pool_count || to.foreign;
	for (uint32_t next; to.foreign; to.foreign = next) {
		next = cn_pool_block_at(pool, to.foreign)->next;
		cn_pool_give(pool, to.foreign);
	}
	return given;
}

void cn_pool_settle_all(struct cn_pool *pool)
{
	cn_pool_drain_returned(pool);
	for (struct cn_pool_cache *cache = atomic_load(&pool->caches); cache; cache = cache->next) {
		cn_pool_poll(cache);
		cn_pool_settle_cache(cache, (struct cn_point){cache->queue, UINT64_MAX}, true);
	}
}

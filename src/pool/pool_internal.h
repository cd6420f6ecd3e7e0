/* SPDX-License-Identifier: MIT */
/*
 * What the files of the pool know of each other: pool.c has its life, allocate.c the fast paths, rules.c the others,
 * index.c the caches of queues and what is in them, settle.c where freed blocks go and the spans of a cache (span.c has
 * what is inside them), shared_block.c blocks that other processes may have too, release.c memory that goes back to the
 * device, picture.c what an observer is shown.
 */
#ifndef CN_POOL_POOL_INTERNAL_H
#define CN_POOL_POOL_INTERNAL_H

#include "base/records.h"
#include "pool/pool.h"
#include "pool/span.h"

/* The blocks that a queue freed. Records of caches and pools are reused, never freed: see cn_pools_reap(). */
struct cn_pool_cache {
	_Alignas(64) CN_OWNED_LOCK(CACHE) lock;
	struct cn_pool *_Atomic pool; /* that has it: set when all else is, and the queue before; NULL: none has */
	struct cn_queue *_Atomic queue;
	uint64_t next_id;
	uint64_t reused;
	_Atomic uint64_t credit_bytes; /* counted as used, but free: see count_used() */
	uint64_t credit_bytes_max;
	unsigned allocating; /* allocations under way that have left the fast path: the pool must not end */
	struct cn_pool_cache *_Atomic next;                      /* of the pool; the list only grows */
	struct cn_pool_cache *next_of_queue, *previous_of_queue; /* in the list of its queue's, */
	bool rests; /* unless it is empty: then it is not in the list. Changes under the lock */
	struct cn_pool_cache_group *group;
	uint64_t group_bit;                       /* this cache's */
	_Atomic uint64_t swept;                   /* how far the queue was at the last sweep_caches() */
	struct cn_bins bins;                      /* its free lists */
	struct cn_spans *_Atomic spans;           /* NULL until it needs one; changes under the lock */
	struct cn_pool_cache *_Atomic asked_last; /* for memory of its spans */
	const void *_Atomic user;                 /* the thread that left the fast path last: its cn_pool_recent */
	_Atomic unsigned misses;                  /* allocations that its free lists did not have */
	unsigned join_wait; /* so many are to come before the lists are joined again: see settle.c */
	struct cn_record record;
};

/*
 * An allocation must not take longer the more streams there are. So a cache is found by its queue's index, not by a
 * search through all; only the few that have credit are asked for it; and for a group of 64 caches one word, a bitmap,
 * says which may have a block of a size class.
 */
enum {
	CN_POOL_INDEX_PAGES = 256,
	CN_POOL_INDEX_PAGE_CACHES = 256,
	/* The caches of further queues are searched for. */
	CN_POOL_INDEX_COUNT = CN_POOL_INDEX_PAGES * CN_POOL_INDEX_PAGE_CACHES,
	CN_POOL_CREDIT_CACHES_MAX = 64,
	CN_POOL_GROUP_CACHES = 64, /* bits of a word */
};

struct cn_pool_cache_group {
	struct cn_pool_cache_group *_Atomic next;
	struct cn_pool_cache *_Atomic caches[CN_POOL_GROUP_CACHES];
	_Atomic uint64_t bitmaps[CN_SIZE_CLASS_COUNT]; /* a bit changes under its cache's lock */
};

struct cn_pool {
	/* A thread that has found the pool may read these when others have destroyed it, or reused it for another. */
	_Atomic bool dying;
	bool ended; /* guarded by `lock`: no more caches */
	_Atomic uint64_t max_bytes;
	struct cn_pool_cache *_Atomic caches;
	struct cn_pool_cache *_Atomic *_Atomic index_pages[CN_POOL_INDEX_PAGES]; /* once there, they stay */
	struct cn_pool *next;  /* of destroyed or ended pools; `pools.lock` guards this and what follows */
	struct cn_pool **link; /* of a destroyed one: what points to it */
	struct cn_pool *next_ending, *next_watched;
	bool lives;   /* until it ends, which it does not while it has a reference */
	bool watched; /* each settling looks at it: see cn_pools_settle() */
	struct cn_record record;
	CN_SLOW_LOCK(POOL_GROWING) growing; /* held while a thread gets memory of the device */
	CN_SLOW_LOCK(POOL_GIVING) giving;   /* held while memory goes back to the device */
	_Alignas(64) CN_LOCK(POOL) lock;    /* of the heap, the list of caches, and what is counted below */
	/* Apart from the lock: every allocation reads these. */
	_Alignas(64) char *_Atomic base;
	void *_Atomic owner;
	struct cn_heap heap; /* finds nothing while the record is no pool */

	/* The rest is cleared for each pool. */
	_Alignas(64) struct cn_arena *arena;
	_Atomic unsigned policies;
	_Atomic uint64_t threshold_bytes;
	_Atomic unsigned reference_count;     /* a destroyed pool does not end before it is 0 */
	_Atomic uint32_t returned;            /* blocks of deferred frees, linked by `next`: see shared_block.c */
	_Atomic uint32_t deferred_count;      /* blocks that may be returned any time */
	void (*_Atomic recall)(void *object); /* see cn_pool_set_recall() */
	void *_Atomic recall_object;
	_Atomic bool release_due;         /* some were, and no thread has checked whether that freed a chunk */
	_Atomic uint64_t reserved_bytes;  /* atomic for readers without the lock */
	_Atomic uint32_t releasing;       /* free chunks that wait for their tickets, linked by `next`: see release.c */
	_Atomic uint64_t releasing_bytes; /* of reserved_bytes: of those, and of others that a thread is giving back */
	uint64_t end_ticket;              /* this and two more are guarded by `pools.lock`; 0: it cannot end yet */
	bool ending;                      /* a thread takes it apart */
	bool outlasts;                    /* a thread has waited for that long enough */
	_Atomic uint64_t stuck_bytes;     /* of reserved_bytes, when the pool could not grow */
	_Atomic uint64_t credits_seen;    /* of the caches together, about, when the use was summed up last */
	uint64_t reserved_high_bytes;
	_Atomic uint64_t sweep_units; /* what the caches must have before they are swept again: see sweep_caches() */
	uint64_t grown;
	_Atomic uint64_t reused_settled, reused_followed, reused_opportunistic, reused_waiting;
	_Atomic unsigned cache_count;
	_Atomic unsigned sweeps_skipped; /* allocations since the caches were swept */
	struct cn_pool_cache *_Atomic credit_caches[CN_POOL_CREDIT_CACHES_MAX];
	struct cn_pool_cache_group first_group, *last_group; /* the last is the one that has room */
	_Alignas(64) _Atomic uint64_t counted_bytes;         /* what is used, plus the credits of the caches */
	_Alignas(64) _Atomic uint64_t used_high_bytes;
	_Atomic uint64_t checked_bytes; /* a count above this may be a new high-water mark: see allocate.c */
	_Atomic unsigned races;         /* how often threads were seen to count at the same time */
};

enum { CN_POOL_ADDRESS_BITS = 48 /* x86 has one less */, CN_POOL_TABLE_SHIFT = 25 /* an entry for each chunk */ };
extern struct cn_pool *_Atomic *_Atomic cn_pool_table; /* by address */

/* The pool that an address belongs to; NULL: none. */
static inline struct cn_pool *cn_pool_of(const void *address)
{
	struct cn_pool *_Atomic *table = atomic_load_explicit(&cn_pool_table, memory_order_acquire);
	uintptr_t chunk = (uintptr_t)address >> CN_POOL_TABLE_SHIFT;

	if (!table || chunk >> (CN_POOL_ADDRESS_BITS - CN_POOL_TABLE_SHIFT))
		return NULL;
	return atomic_load_explicit(&table[chunk], memory_order_acquire);
}

static inline struct cn_block *cn_pool_block_at(const struct cn_pool *pool, uint32_t index)
{
	return cn_block_at(&pool->heap, index);
}

/* The record of the block that begins at an address of the pool; 0: none does. */
static inline uint32_t cn_pool_starts_at(const struct cn_pool *pool, const void *address)
{
	/*
	 * In this order: the record may become another pool's meanwhile, whose base is set before its count. An address
	 * that is in neither then lies beyond the count, or where the new pool has no units and its table no records.
	 */
	uint32_t unit_count = atomic_load_explicit(&pool->heap.unit_count, memory_order_acquire);
	size_t offset = (size_t)((const char *)address - pool->base);

	if (offset % CN_HEAP_UNIT_BYTES || offset / CN_HEAP_UNIT_BYTES >= unit_count)
		return 0;
	return atomic_load_explicit(&pool->heap.starts[offset / CN_HEAP_UNIT_BYTES], memory_order_relaxed);
}

/* The error of a call that comes too late. */
CUresult cn_pool_is_gone(void);
/* A reference to a pool that is not destroyed. False: it is. */
bool cn_pool_reference_alive(struct cn_pool *pool);
uint64_t cn_pool_used(const struct cn_pool *pool);
/*
 * The lower one of two sums: where others allocate, a thread that is held up in the middle of one counts a freed block,
 * and another in its place.
 */
struct cn_pool_sum {
	uint64_t used_bytes, credit_bytes;
	bool differs; /* from the other one */
};
struct cn_pool_sum cn_pool_sum_up(const struct cn_pool *pool);
/* The high-water mark is exact again, as long as one thread at a time allocates. */
void cn_pool_watch_exactly(struct cn_pool *pool);
/* Take in what was returned. */
void cn_pool_drain_returned(struct cn_pool *pool);
/* Ask for deferred frees. True: a block has come back. No lock is held. */
bool cn_pool_recall_deferred(struct cn_pool *pool);
/* From now on each settling looks at the pool, whatever its queue, as long as there is something to look for. */
void cn_pool_watch(struct cn_pool *pool);
/* Is there a destroyed pool that only waits for its frees, or for work under way? It is ended if they are done. */
bool cn_pools_are_ending(void);

/* ---- index.c ---- */

/* The cache of a queue in a pool; NULL: it has none there. */
struct cn_pool_cache *cn_pool_cache_of(const struct cn_pool *pool, const struct cn_queue *queue);
/*
 * The caches of a queue, in all pools that live: the first, or the one that follows another, whose pool has a
 * reference; NULL: there is none. `pools.lock` is held.
 */
struct cn_pool_cache *cn_pool_cache_after(struct cn_queue *queue, const struct cn_pool_cache *cache);
/* If nothing is in a cache of a live pool, leave it out of that list, until something is. `pools.lock` is held. */
void cn_pool_cache_rest(struct cn_pool_cache *cache);

/* Of no pool and no queue; no thread owns its lock. */
extern struct cn_pool_cache cn_pool_no_cache;

/* The caches that a thread used last, or cn_pool_no_cache. They may serve other pools and queues by now. */
enum { CN_POOL_RECENT_COUNT = 4 };
extern _Thread_local struct cn_pool_cache *cn_pool_recent[CN_POOL_RECENT_COUNT]
	__attribute__((tls_model("initial-exec")));

static inline unsigned cn_pool_recent_slot(const struct cn_pool *pool, const struct cn_queue *queue)
{
	return (unsigned)(((uintptr_t)pool ^ (uintptr_t)queue) >> 6) % CN_POOL_RECENT_COUNT;
}

static inline bool cn_pool_cache_is(const struct cn_pool_cache *cache, const struct cn_pool *pool,
				    const struct cn_queue *queue)
{
	return atomic_load_explicit(&cache->pool, memory_order_acquire) == pool && /* before the queue */
	       atomic_load_explicit(&cache->queue, memory_order_relaxed) == queue;
}

/* If this thread used the cache of a queue lately, it is this one: to be checked. */
static inline struct cn_pool_cache *cn_pool_cache_guess(const struct cn_pool *pool, const struct cn_queue *queue)
{
	return cn_pool_recent[cn_pool_recent_slot(pool, queue)];
}

/* The cache of a queue, if this thread used it lately; else NULL. Once locked, pool and cache may serve others. */
static inline struct cn_pool_cache *cn_pool_cache_recent(const struct cn_pool *pool, const struct cn_queue *queue)
{
	struct cn_pool_cache *cache = cn_pool_cache_guess(pool, queue);

	return cn_pool_cache_is(cache, pool, queue) ? cache : NULL;
}

/* The same, found or created. */
CUresult cn_pool_cache_get(struct cn_pool *pool, struct cn_queue *queue, struct cn_pool_cache **ret_cache);

/* The cache will be in its queue's list. Without a lock or a call: a free is no longer for it. Cache locked, or new. */
static inline void cn_pool_cache_list(struct cn_queue *queue, struct cn_pool_cache *cache)
{
	void *next = atomic_load_explicit(&queue->pool_woken, memory_order_relaxed);

	do
		cache->next_of_queue = next;
	while (!atomic_compare_exchange_weak_explicit(&queue->pool_woken, &next, cache, memory_order_release,
						      memory_order_relaxed));
}

/*
 * A freed block is its queue's to reuse. A list that has a block is marked: it has its bit in the cache's bitmap, and a
 * bit there has its bit in the group's. An empty list may still be marked, so that blocks which come and go change
 * neither. Cache locked.
 */
static inline bool cn_pool_cache_is_marked(const struct cn_pool_cache *cache, unsigned class)
{
	return cache->bins.heads[class] || cache->bins.bitmap[class / 64] >> class % 64 & 1;
}
void cn_pool_cache_mark(struct cn_pool_cache *cache, unsigned class);

/* `class` is the block's, and its list is marked. */
static inline __attribute__((always_inline)) void cn_pool_cache_link(struct cn_pool_cache *cache,
								     const struct cn_pool *pool, uint32_t index,
								     struct cn_block *block, unsigned class)
{
	uint32_t next = cache->bins.heads[class];

	block->next = next;
	cache->bins.heads[class] = index;
	if (next)
		cn_pool_block_at(pool, next)->previous = index;
	cn_bins_count(&cache->bins, atomic_load_explicit(&block->units, memory_order_relaxed));
	atomic_store_explicit(&block->state, CN_BLOCK_CACHED, memory_order_release);
}

static inline void cn_pool_cache_push(struct cn_pool_cache *cache, const struct cn_pool *pool, uint32_t index)
{
	struct cn_block *block = cn_pool_block_at(pool, index);
	unsigned class = cn_size_class_below(atomic_load_explicit(&block->units, memory_order_relaxed));

	if (!cn_pool_cache_is_marked(cache, class))
		cn_pool_cache_mark(cache, class);
	cn_pool_cache_link(cache, pool, index, block, class);
}

/* The newest of a class; NULL: there is none. Cache locked. */
static inline struct cn_block *cn_pool_cache_pop(struct cn_pool_cache *cache, const struct cn_pool *pool,
						 unsigned class)
{
	uint32_t index = cache->bins.heads[class];

	if (!index)
		return NULL;
	struct cn_block *block = cn_block_at(&pool->heap, index);
	cache->bins.heads[class] = block->next;
	cn_bins_count(&cache->bins, -(uint64_t)atomic_load_explicit(&block->units, memory_order_relaxed));
	return block;
}

/* Can a block of the cache's free lists be cut? Not in another cache's span. Cache locked. */
static inline bool cn_pool_cache_can_cut(const struct cn_pool_cache *cache, const struct cn_block *block)
{
	return !block->span || cn_span_owner(&cache->pool->heap, block) == cache;
}

/* Does it do for so many units? If it cannot be cut, at most half of it may be too much. */
static inline bool cn_pool_cache_suits(const struct cn_pool_cache *cache, const struct cn_block *block, uint32_t units)
{
	return block->units >= units && (block->units / 2 <= units || cn_pool_cache_can_cut(cache, block));
}

/* Cut a MOVING one to size, if it can be; the rest goes back to the free lists. */
void cn_pool_cache_cut(struct cn_pool_cache *cache, uint32_t index, uint32_t units);

/* A block that another queue freed, and why this queue may have it. */
struct cn_pool_grounds {
	struct cn_point freed;
	struct cn_point relied_on; /* see queue_rely() in device.h */
};
typedef bool cn_pool_rule(struct cn_queue *queue, struct cn_pool_grounds *grounds); /* may it? */

/* A block of another queue's free lists, of the classes up to `last_class`, by a rule; MOVING. 0: there is none. */
uint32_t cn_pool_take_from_others(struct cn_pool_cache *own, uint32_t units, unsigned last_class, cn_pool_rule *rule,
				  struct cn_pool_grounds *ret_grounds);
/* The same of a set of spans of one cache. What is KEPT there needs no rule: NULL. */
uint32_t cn_pool_take_kept_of(struct cn_pool_cache *other, unsigned set, const struct cn_pool_cache *own,
			      uint32_t units, cn_pool_rule *rule, struct cn_pool_grounds *ret_grounds);
/* The same of up to so many other caches, beginning where the last search ended. */
uint32_t cn_pool_take_kept_from_others(struct cn_pool_cache *own, uint32_t units, unsigned caches_max,
				       cn_pool_rule *rule, struct cn_pool_grounds *ret_grounds);
/* Has this thread used other caches of the pool lately? */
bool cn_pool_has_recent(const struct cn_pool_cache *own);
/*
 * A block of exactly this class that other queues have freed, out of the caches that this thread used lately, if its
 * free has happened; MOVING. Up to a few more of them follow it by `next`. 0: there is none.
 */
uint32_t cn_pool_take_recent(const struct cn_pool_cache *own, unsigned class);
/* It could not be used after all. */
void cn_pool_put_back(struct cn_pool *pool, uint32_t index, struct cn_point freed);

/* No more caches: the pool has ended. */
void cn_pool_index_end(struct cn_pool *pool);

/* ---- rules.c ---- */

/* A block by rules 2 to 7, for a queue whose own lists and spans have none; MOVING. No lock is held. */
CUresult cn_pool_allocate_slowly(struct cn_pool_cache *cache, uint64_t handle, uint32_t units, uint32_t *ret_index);

/* ---- settle.c ---- */

/*
 * Settle the blocks of a cache whose frees, up to a point of its queue, have happened; `spans`: and give back those of
 * its spans that are free. True: the heap got something.
 */
bool cn_pool_settle_cache(struct cn_pool_cache *cache, struct cn_point point, bool spans);
void cn_pool_settle_all(struct cn_pool *pool);
/* Give back a MOVING block that any queue may have: to the heap, or to its span. No lock is held. */
void cn_pool_give(struct cn_pool *pool, uint32_t index);
/* A block of exactly this many units out of the cache's own spans, MOVING. 0: there is none. Cache locked. */
uint32_t cn_pool_take_kept(struct cn_pool_cache *cache, uint32_t units);
/* The same of any size, also where that leaves gaps. No lock is held. */
uint32_t cn_pool_take_any_kept(struct cn_pool_cache *cache, uint32_t units);
/* The same of a new span. 0: the heap has no room for one, or it is not yet the time for one. No lock is held. */
uint32_t cn_pool_take_span(struct cn_pool_cache *cache, uint32_t units);
/* There are records for spans to be cut: false if not. Cache locked. */
bool cn_pool_fill_spares(struct cn_pool_cache *cache);

/* ---- release.c ---- */

/*
 * Give whole free chunks back to the device while more than `keep_bytes` are reserved: as long as that much stays
 * (`at_least`), or until there is no more than that. What cannot go yet follows with a later call. No lock is held.
 */
void cn_pool_release(struct cn_pool *pool, uint64_t keep_bytes, bool at_least);
/* Give back what was waiting and can go now; when it returns, what another thread was giving back has gone, too. */
void cn_pool_finish_release(struct cn_pool *pool);
/* A block of this many units out of memory that waits to go back. 0: there is none. */
uint32_t cn_pool_take_releasing(struct cn_pool *pool, uint32_t units);
/* Give everything back: the grace period of the pool's end has passed. */
void cn_pool_release_all(struct cn_pool *pool);

/* If a queue has blocks that others could use, find out how far it has come. */
static inline void cn_pool_poll(struct cn_pool_cache *cache)
{
	struct cn_queue *queue = atomic_load_explicit(&cache->queue, memory_order_relaxed);
	const struct cn_spans *spans = atomic_load_explicit(&cache->spans, memory_order_acquire);

	if (queue && (atomic_load_explicit(&cache->bins.units, memory_order_relaxed) ||
		      (spans && (atomic_load_explicit(&spans->sets[0].pending.units, memory_order_relaxed) ||
				 atomic_load_explicit(&spans->sets[1].pending.units, memory_order_relaxed)))))
		cn_device_ops->queue_look(queue);
}

/* The pool may have lost its last block, or its last allocation under way, and have ended already. */
static inline void cn_pool_reap_if_dying(const struct cn_pool *pool)
{
	if (__builtin_expect(atomic_load(&pool->dying), 0))
		cn_pools_reap();
}

static inline bool cn_pool_free_happened(const struct cn_pool_cache *cache, const struct cn_block *block)
{
	return cn_point_reached((struct cn_point){cache->queue, block->number});
}

static inline void cn_block_set_moving(struct cn_block *block)
{
	atomic_store_explicit(&block->state, CN_BLOCK_MOVING, memory_order_release);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The life of a pool: creating it, finding it by address, giving its memory back, its numbers, its end.
 *
 * The pool of an address is one load from a table with an entry for each 32 MiB of the address space. A destroyed pool
 * lives until its last block is freed and everything that was freed in it has happened: memory is not given back while
 * it may still be in use.
 *
 * A thread may allocate in a pool while another destroys it. Then either it gets its block, and the pool lives on for
 * it, or it gets an error that the pool is gone. An allocation counts nothing for that: records of pools and caches are
 * never freed, and `dying` is read under the lock of the cache; see is_over().
 */
#include "pool/pool_internal.h"

#include "base/clock.h"
#include "device/grace.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANGE_BYTES_MAX ((size_t)1 << 40) /* units are counted in 32 bits */
#define OTHERS_NS       500000000ull      /* the most that a wait waits for other threads: see reap_after_others() */

_Static_assert(CN_HEAP_CHUNK_BYTES % CN_GRANULARITY_BYTES == 0 && CN_HEAP_CHUNK_BYTES == 1 << CN_POOL_TABLE_SHIFT,
	       "what the device gives");

static struct {
	CN_DRIVER_LOCK(POOLS) lock;
	struct cn_pool *dying, *watched, *ended;
	_Atomic unsigned dying_count;   /* destroyed pools: usually none, and then no thread looks */
	_Atomic unsigned waiting_count; /* threads in reap_after_others() */
	_Atomic uint32_t let_go_count;  /* how often these were told that a thread has let go of a pool, or ended it */
} pools;

/* ---- Which pool ---- */

struct cn_pool *_Atomic *_Atomic cn_pool_table;

/* With the first pool; if there was no memory for it then, with the next. */
static bool make_table(void)
{
	size_t bytes = ((size_t)1 << (CN_POOL_ADDRESS_BITS - CN_POOL_TABLE_SHIFT)) * sizeof(void *);
	struct cn_pool *_Atomic *none = NULL;

	if (atomic_load(&cn_pool_table))
		return true;
	void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table == MAP_FAILED)
		return false;
	if (!atomic_compare_exchange_strong(&cn_pool_table, &none, table))
		munmap(table, bytes);
	return true;
}

static void enter_table(const struct cn_pool *pool, struct cn_pool *value)
{
	size_t first = (uintptr_t)pool->base >> CN_POOL_TABLE_SHIFT;
	size_t count = pool->heap.unit_count / CN_HEAP_CHUNK_UNITS;
	struct cn_pool *_Atomic *table = atomic_load(&cn_pool_table);

	for (size_t i = 0; i < count; i++)
		atomic_store_explicit(&table[first + i], value, memory_order_release);
}

bool cn_pool_has(const void *address)
{
	return cn_pool_of(address) != NULL;
}

static struct cn_pool_sum sum_up_once(const struct cn_pool *pool)
{
	/*
	 * In this order: while others free, the answer is too high rather than too low, and no pool ends too early.
	 */
	uint64_t counted = atomic_load_explicit(&pool->counted_bytes, memory_order_acquire), credits = 0;

	for (unsigned i = 0; i < CN_POOL_CREDIT_CACHES_MAX; i++) {
		const struct cn_pool_cache *cache = atomic_load_explicit(&pool->credit_caches[i], memory_order_acquire);
		if (!cache)
			break;
		credits += atomic_load_explicit(&cache->credit_bytes, memory_order_relaxed);
	}
	return (struct cn_pool_sum){.used_bytes = counted > credits ? counted - credits : 0, .credit_bytes = credits};
}

uint64_t cn_pool_used(const struct cn_pool *pool)
{
	return sum_up_once(pool).used_bytes;
}

struct cn_pool_sum cn_pool_sum_up(const struct cn_pool *pool)
{
	struct cn_pool_sum one = sum_up_once(pool), other = sum_up_once(pool);
	struct cn_pool_sum lower = other.used_bytes < one.used_bytes ? other : one;

	lower.differs = one.used_bytes != other.used_bytes;
	return lower;
}

/* Is it the program's? */
static inline bool is_live(uint32_t state)
{
	return state == CN_BLOCK_LIVE || state == CN_BLOCK_SHARED;
}

bool cn_pool_find_start(void *address, struct cn_pool_block *ret_block)
{
	struct cn_pool *pool = cn_pool_of(address);
	uint32_t index = pool ? cn_pool_starts_at(pool, address) : 0;

	if (!index)
		return false;
	const struct cn_block *block = cn_pool_block_at(pool, index);
	uint32_t state = atomic_load_explicit(&block->state, memory_order_acquire);
	if (!is_live(state))
		return false;
	*ret_block = (struct cn_pool_block){
		.pool = pool,
		.id = block->id,
		.start = address,
		.bytes = block->bytes,
		.shared = state == CN_BLOCK_SHARED,
		.tag = atomic_load_explicit(&block->tag, memory_order_relaxed),
	};
	return true;
}

bool cn_pool_find(const void *address, struct cn_pool_block *ret_block)
{
	struct cn_pool *pool = cn_pool_of(address);

	if (!pool)
		return false;
	char *base = pool->base; /* once: it may become another pool's */
	size_t offset = (size_t)((const char *)address - base);
	if (offset / CN_HEAP_UNIT_BYTES >= pool->heap.unit_count)
		return false;
	uint32_t index = cn_heap_find(&pool->heap, (uint32_t)(offset / CN_HEAP_UNIT_BYTES));
	if (!index)
		return false;
	const struct cn_block *block = cn_pool_block_at(pool, index);
	uint32_t state = atomic_load_explicit(&block->state, memory_order_acquire);
	if (!is_live(state) || offset - (size_t)block->start * CN_HEAP_UNIT_BYTES >= block->bytes)
		return false;
	*ret_block = (struct cn_pool_block){
		.pool = pool,
		.id = block->id,
		.start = base + (size_t)block->start * CN_HEAP_UNIT_BYTES,
		.bytes = block->bytes,
		.shared = state == CN_BLOCK_SHARED,
		.tag = atomic_load_explicit(&block->tag, memory_order_relaxed),
	};
	return true;
}

bool cn_pool_has_freed(const void *address)
{
	struct cn_pool_block block;
	const struct cn_pool *pool = cn_pool_of(address);
	size_t unit = pool ? (size_t)((const char *)address - pool->base) / CN_HEAP_UNIT_BYTES : 0;

	return pool && unit < pool->heap.unit_count &&
	       atomic_load_explicit(&pool->heap.starts[unit], memory_order_relaxed) && !cn_pool_find(address, &block);
}

/* ---- Giving back ---- */

/* This thread has let go of a destroyed pool, or ended it: see reap_after_others(). */
static void tell_waiting(void)
{
	if (!atomic_load(&pools.waiting_count))
		return;
	atomic_fetch_add(&pools.let_go_count, 1);
	cn_futex_wake(&pools.let_go_count, INT_MAX);
}

CUresult cn_pool_is_gone(void)
{
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the pool has been destroyed");
}

bool cn_pool_reference_alive(struct cn_pool *pool)
{
	cn_driver_lock(&pools.lock);
	bool alive = !atomic_load(&pool->dying);
	if (alive)
		cn_pool_reference(pool);
	cn_driver_unlock(&pools.lock);
	return alive;
}

void cn_pool_reference(struct cn_pool *pool)
{
	atomic_fetch_add(&pool->reference_count, 1);
}

void cn_pool_unreference(struct cn_pool *pool)
{
	atomic_fetch_sub(&pool->reference_count, 1);
	cn_pool_reap_if_dying(pool);
}

/* The same; cn_pools_reap() follows. Pools locked. */
static void unreference_locked(struct cn_pool *pool)
{
	atomic_fetch_sub(&pool->reference_count, 1);
	if (atomic_load(&pool->dying)) /* a thread that waits for it need not wait for what follows */
		tell_waiting();
}

size_t cn_pool_reclaim(struct cn_pool *pool, size_t offset)
{
	return cn_device_ops->arena_reclaim(pool->arena, offset);
}

void cn_pool_trim(struct cn_pool *pool, uint64_t keep_bytes)
{
	size_t offset = 0;

	if (!cn_pool_reference_alive(pool))
		return;
	cn_pool_settle_all(pool);
	cn_pool_release(pool, keep_bytes, true);
	while ((offset = cn_pool_reclaim(pool, offset)))
		continue;
	cn_pool_unreference(pool);
}

/* Is there something that a settling of any queue should see to? */
static bool has_attention(const struct cn_pool *pool)
{
	return atomic_load_explicit(&pool->returned, memory_order_relaxed) ||
	       atomic_load_explicit(&pool->deferred_count, memory_order_relaxed) ||
	       atomic_load_explicit(&pool->release_due, memory_order_relaxed) ||
	       atomic_load_explicit(&pool->releasing_bytes, memory_order_relaxed);
}

void cn_pool_watch(struct cn_pool *pool)
{
	cn_driver_lock(&pools.lock);
	if (pool->lives && !pool->watched) {
		pool->watched = true;
		pool->next_watched = pools.watched;
		pools.watched = pool;
	}
	cn_driver_unlock(&pools.lock);
}

/* Pools locked. */
static void unwatch_locked(struct cn_pool **link)
{
	struct cn_pool *pool = *link;

	*link = pool->next_watched;
	pool->watched = false;
}

/*
 * The next watched pool that needs attention, after another one; NULL: there is none. Those that will not need it
 * again leave the list, but not while they have a reference: a thread may look for the one that follows. Pools locked.
 */
static struct cn_pool *next_watched_locked(struct cn_pool *after)
{
	struct cn_pool **link = after ? &after->next_watched : &pools.watched;

	while (*link && !has_attention(*link)) {
		if (atomic_load(&(*link)->recall) || atomic_load(&(*link)->reference_count))
			link = &(*link)->next_watched;
		else
			unwatch_locked(link);
	}
	return *link;
}

/* Has the queue of a cache freed nothing that is still there, and does the pool need nothing else? */
static bool is_settled(const struct cn_pool_cache *cache)
{
	return !atomic_load_explicit(&cache->bins.units, memory_order_relaxed) &&
	       !atomic_load_explicit(&cache->spans, memory_order_relaxed) &&
	       !atomic_load_explicit(&cache->pool->races, memory_order_relaxed) && !has_attention(cache->pool);
}

/* Give memory back, without the lock; what the queue of the cache has freed up to a point has happened. */
static void settle_pool(struct cn_pool *pool, struct cn_pool_cache *cache, struct cn_point point)
{
	cn_pool_watch_exactly(pool);
	uint64_t threshold = atomic_load(&pool->threshold_bytes);
	if (atomic_load_explicit(&pool->reserved_bytes, memory_order_relaxed) > threshold)
		cn_pool_recall_deferred(pool);
	cn_pool_drain_returned(pool);
	bool release_due = atomic_exchange_explicit(&pool->release_due, false, memory_order_relaxed);
	if ((cache && cn_pool_settle_cache(cache, point, true)) || release_due)
		cn_pool_release(pool, threshold, false);
	else
		cn_pool_finish_release(pool);
}

static void reap_after_others(const struct cn_pool *own, const struct cn_queue *queue);

void cn_pools_settle(struct cn_point point)
{
	struct cn_pool *pool = NULL;
	struct cn_pool_cache *cache, *next;

	/* A pool that has a reference stays in its lists, and its caches in those of their queues. */
	cn_driver_lock(&pools.lock);
	while ((pool = next_watched_locked(pool))) {
		if (cn_pool_cache_of(pool, point.queue))
			continue; /* it follows */
		cn_pool_reference(pool);
		cn_driver_unlock(&pools.lock);
		settle_pool(pool, NULL, point);
		cn_driver_lock(&pools.lock);
		unreference_locked(pool);
	}
	for (cache = cn_pool_cache_after(point.queue, NULL); cache; cache = next) {
		if (is_settled(cache)) {
			next = cn_pool_cache_after(point.queue, cache);
			if (!atomic_load(&cache->pool->reference_count)) /* else a thread may be in our place */
				cn_pool_cache_rest(cache);
			continue;
		}
		cn_pool_reference(cache->pool);
		cn_driver_unlock(&pools.lock);
		settle_pool(cache->pool, cache, point);
		cn_driver_lock(&pools.lock);
		unreference_locked(cache->pool);
		next = cn_pool_cache_after(point.queue, cache);
	}
	cn_driver_unlock(&pools.lock);
	reap_after_others(NULL, point.queue);
}

void cn_pools_finish_release(void)
{
	struct cn_pool *pool = NULL;

	cn_driver_lock(&pools.lock);
	while ((pool = next_watched_locked(pool))) {
		cn_pool_reference(pool); /* it stays in the list, and memory goes back without the lock */
		cn_driver_unlock(&pools.lock);
		cn_pool_finish_release(pool);
		cn_driver_lock(&pools.lock);
		unreference_locked(pool);
	}
	cn_driver_unlock(&pools.lock);
	cn_pools_reap();
}

/* ---- Life ---- */

static size_t machine_bytes(void)
{
	return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

/*
 * Spare records, by the room that their heaps have. Any of a list is as good as the others, so that none is looked for.
 * The first list is for those without room yet; no pool is so small.
 */
static struct cn_records records[CN_HEAP_ROOMS] = {[0 ... CN_HEAP_ROOMS - 1] = CN_RECORDS(struct cn_pool, record)};

static void give_record(struct cn_pool *pool)
{
	cn_records_give(&records[pool->heap.starts ? cn_heap_room(pool->heap.room_units) : 0], pool);
}

static struct cn_pool *new_record(uint32_t unit_count)
{
	struct cn_pool *pool = NULL;

	for (unsigned room = cn_heap_room(unit_count); !pool && room < CN_HEAP_ROOMS; room++)
		pool = cn_records_take_spare(&records[room]);
	if (!pool)
		pool = cn_records_take(&records[0]);
	if (!pool)
		return NULL;
	if (!pool->ended) { /* never used before */
		atomic_store(&pool->dying, true);
		pool->ended = true;
	}
	memset(&pool->arena, 0, sizeof *pool - offsetof(struct cn_pool, arena));
	return pool;
}

CUresult cn_pool_create(const struct cn_pool_options *options, struct cn_pool **ret_pool)
{
	size_t all = options->device ? options->device->total_bytes : machine_bytes();
	size_t most = options->max_bytes && options->max_bytes < all ? options->max_bytes : all;
	most = most < RANGE_BYTES_MAX ? most : RANGE_BYTES_MAX;
	size_t range = (most + CN_HEAP_CHUNK_BYTES - 1) / CN_HEAP_CHUNK_BYTES * CN_HEAP_CHUNK_BYTES;
	void *base;
	CUresult result;

	cn_owned_locks_prepare();
	cn_grace_call(cn_pools_finish_release);
	cn_pools_reap();
	uint32_t units = (uint32_t)(range / CN_HEAP_UNIT_BYTES);
	struct cn_pool *pool = make_table() ? new_record(units) : NULL;
	if (!pool)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a pool's record");
	result = cn_device_ops->arena_create(options->device, options->node, range, CN_HEAP_CHUNK_BYTES,
					     options->shareable, &pool->arena, &base);
	if (result)
		goto err_free;
	if ((uintptr_t)base + range > (uintptr_t)1 << CN_POOL_ADDRESS_BITS)
		result = cn_error(CUDA_ERROR_NOT_SUPPORTED, "the device has given addresses above bit %d for a pool",
				  CN_POOL_ADDRESS_BITS);
	else
		result = cn_device_ops->arena_allow(pool->arena, options->users);
	if (result)
		goto err_arena;
	pool->base = base; /* before the heap has its units: see cn_pool_starts_at() */
	if (!cn_heap_open(&pool->heap, units)) {
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a pool's records");
		goto err_arena;
	}
	pool->max_bytes = range;
	pool->owner = options->owner;
	atomic_store(&pool->policies, CN_POOL_POLICIES);
	cn_lock(&pool->lock);
	pool->ended = false;
	cn_unlock(&pool->lock);
	enter_table(pool, pool);
	cn_driver_lock(&pools.lock);
	pool->lives = true;
	atomic_store(&pool->dying, false); /* from now on threads allocate, also those that still know an older pool */
	cn_driver_unlock(&pools.lock);
	*ret_pool = pool;
	return CUDA_SUCCESS;

err_arena:
	cn_device_ops->arena_free(pool->arena);
err_free:
	give_record(pool);
	return result;
}

/* Has everything that was freed in a pool without live blocks happened? */
static bool is_at_rest(struct cn_pool *pool)
{
	cn_pool_settle_all(pool);
	for (struct cn_pool_cache *cache = atomic_load(&pool->caches); cache; cache = cache->next) {
		cn_owned_lock(&cache->lock);
		const struct cn_spans *spans = atomic_load_explicit(&cache->spans, memory_order_relaxed);
		bool empty = !atomic_load_explicit(&cache->bins.units, memory_order_relaxed) &&
			     (!spans || !cn_spans_units(spans));
		cn_owned_unlock(&cache->lock);
		if (!empty)
			return false;
	}
	return true;
}

/*
 * Has a destroyed pool nothing left? Its contents go one way: an allocation that began before `dying` was set becomes a
 * block, a block is freed, what was freed happens. They are checked in that order, so nothing is missed. No allocation
 * begins any more: a thread that takes a lock after we had it sees `dying`. Then a grace period passes, for work that a
 * program has given to another stream than the one in which it freed the block.
 */
static bool is_over(struct cn_pool *pool)
{
	cn_lock(&pool->lock);
	struct cn_pool_cache *cache = atomic_load(&pool->caches);
	cn_unlock(&pool->lock);
	for (; cache; cache = cache->next) {
		cn_owned_lock(&cache->lock);
		bool allocating = cache->allocating;
		cn_owned_unlock(&cache->lock);
		if (allocating)
			return false;
	}
	if (cn_pool_used(pool) || !is_at_rest(pool))
		return false;
	if (!pool->end_ticket)
		pool->end_ticket = cn_grace_ticket();
	return pool->end_ticket <= cn_grace_passed();
}

static void end_pool(struct cn_pool *pool)
{
	enter_table(pool, NULL);
	cn_pool_release_all(pool);
	cn_pool_index_end(pool);
	cn_heap_empty(&pool->heap);
	/* Last: once the addresses are another pool's, a free there must not find this one in its thread's cache. */
	cn_device_ops->arena_free(pool->arena);
	cn_driver_lock(&pools.lock);
	*pool->link = pool->next;
	if (pool->next)
		pool->next->link = pool->link;
	pool->next = pools.ended;
	pools.ended = pool;
	pools.dying_count--;
	cn_driver_unlock(&pools.lock);
	tell_waiting();
}

void *cn_pool_take_ended(void)
{
	cn_driver_lock(&pools.lock);
	struct cn_pool *pool = pools.ended;
	if (pool)
		pools.ended = pool->next;
	cn_driver_unlock(&pools.lock);
	void *owner = pool ? pool->owner : NULL;
	if (pool)
		give_record(pool);
	return owner;
}

/* It ends. Pools locked. */
static void forget_locked(struct cn_pool *pool)
{
	struct cn_pool **link = &pools.watched;

	pool->lives = false;
	if (!pool->watched)
		return;
	while (*link != pool)
		link = &(*link)->next_watched;
	unwatch_locked(link);
}

/* What a thread waits for: a pool, or those in which a queue has freed blocks. */
struct wanted {
	const struct cn_pool *own;
	const struct cn_queue *queue;
	bool out_of_time; /* no thread waits for these again */
};

/* In a pool that has no caches any more, and will have gone at once, any queue has. Pools locked. */
static bool is_wanted(const struct cn_pool *pool, const struct wanted *wanted)
{
	if (pool->outlasts || (!pool->ending && cn_pool_used(pool)))
		return false;
	if (wanted->own)
		return pool == wanted->own;
	return cn_pool_cache_of(pool, wanted->queue) || !atomic_load(&pool->caches);
}

/* True: what is wanted has not ended only because another thread has it in hand. */
static bool reap(const struct wanted *wanted)
{
	struct cn_pool *ending = NULL;
	bool found = false;

	if (!atomic_load(&pools.dying_count))
		return false;
	cn_driver_lock(&pools.lock);
	for (struct cn_pool *pool = pools.dying; pool; pool = pool->next) {
		if (pool->ending || atomic_load(&pool->reference_count)) {
			if (wanted && is_wanted(pool, wanted)) {
				pool->outlasts = wanted->out_of_time;
				found = true;
			}
		} else if (is_over(pool)) {
			forget_locked(pool);
			pool->ending = true;
			pool->next_ending = ending;
			ending = pool;
		}
	}
	cn_driver_unlock(&pools.lock);
	while (ending) {
		struct cn_pool *next = ending->next_ending;
		end_pool(ending);
		ending = next;
	}
	return found;
}

void cn_pools_reap(void)
{
	reap(NULL);
	tell_waiting(); /* the caller may have let go of a pool */
}

/*
 * Another thread may have a destroyed pool in hand: the one that looks after grace periods, the service thread that
 * ends its export, one that waits for another stream. The program knows nothing of that, and when it has destroyed a
 * pool, or waited for its last work, the pool's memory should have gone. So wait for them, but for what is the caller's
 * alone, and for a bounded time, once for each pool.
 */
static void reap_after_others(const struct cn_pool *own, const struct cn_queue *queue)
{
	struct wanted wanted = {.own = own, .queue = queue};
	bool found = reap(&wanted);

	tell_waiting();
	if (!found)
		return;
	atomic_fetch_add(&pools.waiting_count, 1);
	for (uint64_t end_ns = cn_clock_ns() + OTHERS_NS; !wanted.out_of_time;) {
		uint32_t seen = atomic_load(&pools.let_go_count);
		uint64_t now_ns = cn_clock_ns();
		wanted.out_of_time = now_ns >= end_ns;
		if (!reap(&wanted)) /* it tells nobody, so that two that wait do not wake each other */
			break;
		if (!wanted.out_of_time)
			cn_futex_wait(&pools.let_go_count, seen, (int64_t)(end_ns - now_ns));
	}
	atomic_fetch_sub(&pools.waiting_count, 1);
}

bool cn_pools_are_ending(void)
{
	bool found = false;

	if (!atomic_load(&pools.dying_count))
		return false;
	cn_driver_lock(&pools.lock);
	for (const struct cn_pool *pool = pools.dying; pool && !found; pool = pool->next)
		found = !cn_pool_used(pool);
	cn_driver_unlock(&pools.lock);
	if (found)
		cn_pools_reap();
	return found;
}

void cn_pool_destroy(struct cn_pool *pool)
{
	cn_driver_lock(&pools.lock);
	atomic_fetch_add(&pools.dying_count, 1); /* first: no thread sees the pool dying and does not look */
	pool->next = pools.dying;
	pool->link = &pools.dying;
	if (pool->next)
		pool->next->link = &pool->next;
	pools.dying = pool;
	atomic_store(&pool->dying, true);
	cn_driver_unlock(&pools.lock);
	reap_after_others(pool, NULL);
}

CUresult cn_pool_allow(struct cn_pool *pool, struct cn_users users)
{
	if (!cn_pool_reference_alive(pool))
		return cn_pool_is_gone();
	CUresult result = cn_device_ops->arena_allow(pool->arena, users);
	cn_pool_unreference(pool);
	return result;
}

void *cn_pool_owner(const struct cn_pool *pool)
{
	return pool->owner;
}

/* ---- Settings and numbers ---- */

unsigned cn_pool_policies(const struct cn_pool *pool)
{
	return atomic_load(&pool->policies);
}

void cn_pool_set_policies(struct cn_pool *pool, unsigned policies)
{
	atomic_store(&pool->policies, policies);
}

uint64_t cn_pool_threshold(const struct cn_pool *pool)
{
	return atomic_load(&pool->threshold_bytes);
}

void cn_pool_set_threshold(struct cn_pool *pool, uint64_t bytes)
{
	atomic_store(&pool->threshold_bytes, bytes);
}

void cn_pool_reset_high_water(struct cn_pool *pool, bool reserved, bool used)
{
	if (used) {
		uint64_t bytes = cn_pool_sum_up(pool).used_bytes;
		atomic_store(&pool->used_high_bytes, bytes);
		atomic_store(&pool->checked_bytes, bytes);
		atomic_store(&pool->races, 0);
	}
	if (reserved) {
		cn_lock(&pool->lock);
		pool->reserved_high_bytes = pool->reserved_bytes;
		cn_unlock(&pool->lock);
	}
}

static struct cn_pool_statistics count_bytes(struct cn_pool *pool)
{
	cn_pool_watch_exactly(pool);
	struct cn_pool_statistics numbers = {
		.used_bytes = cn_pool_used(pool),
		.used_high_bytes = atomic_load(&pool->used_high_bytes),
	};

	cn_pool_drain_returned(pool);
	cn_pool_finish_release(pool);
	cn_lock(&pool->lock);
	numbers.reserved_bytes = pool->reserved_bytes;
	numbers.reserved_high_bytes = pool->reserved_high_bytes;
	cn_unlock(&pool->lock);
	/* Summed while others work, the use can come out too high (cn_pool_used()); never above the reserved. */
	if (numbers.used_high_bytes > numbers.reserved_high_bytes)
		numbers.used_high_bytes = numbers.reserved_high_bytes;
	return numbers;
}

enum { SIZE_COUNT = sizeof((struct cn_pool_statistics *)NULL)->free_blocks_by_size / sizeof(uint64_t) };

static bool is_free_state(uint32_t state)
{
	return state == CN_BLOCK_FREE || state == CN_BLOCK_CACHED || state == CN_BLOCK_KEPT ||
	       state == CN_BLOCK_PENDING;
}

/* Looks at every block there is. */
static void count_all(struct cn_pool *pool, struct cn_pool_statistics *ret_numbers)
{
	struct cn_pool_statistics numbers = count_bytes(pool);

	for (struct cn_pool_cache *cache = atomic_load(&pool->caches); cache; cache = cache->next) {
		cn_owned_lock(&cache->lock);
		numbers.reused_own += cache->reused;
		cn_owned_unlock(&cache->lock);
		numbers.metadata_bytes += sizeof *cache + (cache->spans ? sizeof(struct cn_spans) : 0);
	}
	cn_lock(&pool->lock);
	numbers.reused_settled = pool->reused_settled;
	numbers.reused_followed = pool->reused_followed;
	numbers.reused_opportunistic = pool->reused_opportunistic;
	numbers.reused_waiting = pool->reused_waiting;
	numbers.grown = pool->grown;
	for (uint32_t i = 1; i < pool->heap.record_count; i++) {
		const struct cn_block *block = cn_pool_block_at(pool, i);
		uint32_t state = atomic_load_explicit(&block->state, memory_order_relaxed);
		uint64_t bytes =
			(uint64_t)atomic_load_explicit(&block->units, memory_order_relaxed) * CN_HEAP_UNIT_BYTES;
		numbers.live_block_count += state == CN_BLOCK_LIVE || state == CN_BLOCK_SHARED;
		if (!is_free_state(state) || !bytes) /* a cache may be joining it at this moment */
			continue;
		numbers.free_block_count++;
		unsigned size = 63 - (unsigned)__builtin_clzll(bytes);
		numbers.free_blocks_by_size[size < SIZE_COUNT ? size : SIZE_COUNT - 1]++;
		if (bytes > numbers.largest_free_bytes)
			numbers.largest_free_bytes = bytes;
	}
	/* Records, and the pages of the table of starts that stand for memory in use so far. */
	numbers.metadata_bytes += sizeof *pool + (uint64_t)pool->heap.record_count * sizeof(struct cn_block) +
				  (uint64_t)pool->heap.top * sizeof(uint32_t);
	cn_unlock(&pool->lock);
	*ret_numbers = numbers;
}

void cn_pool_statistics(struct cn_pool *pool, struct cn_pool_statistics *ret_numbers)
{
	*ret_numbers = (struct cn_pool_statistics){0};
	if (cn_pool_reference_alive(pool)) {
		count_all(pool, ret_numbers);
		cn_pool_unreference(pool);
	}
}

void cn_pool_usage(struct cn_pool *pool, struct cn_pool_statistics *ret_numbers)
{
	*ret_numbers = (struct cn_pool_statistics){0};
	if (cn_pool_reference_alive(pool)) {
		*ret_numbers = count_bytes(pool);
		cn_pool_unreference(pool);
	}
}

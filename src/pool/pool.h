/* SPDX-License-Identifier: MIT */
/*
 * The stream-ordered allocator: memory that is allocated and freed in the order of streams.
 *
 * A pool has one range of addresses and as much memory behind it as it needs. Its blocks are recorded out of line. A
 * freed block belongs to the queue that freed it until that free is known to have happened; then it is settled, and any
 * queue may have it. To allocate on a queue, in order:
 *
 *   1. a block that this queue freed, or memory of a span that is its own (span.h): at once;
 *   2. one of the same size whose free the queue is ordered after already (FOLLOW_EVENT_DEPENDENCIES);
 *   3. one of the same size whose free has meanwhile happened (ALLOW_OPPORTUNISTIC);
 *   4. a settled block, or memory that was never used; then larger blocks by the rules above; then a chunk that is on
 *      its way back to the device;
 *   5. one that the queue is made to wait for (ALLOW_INTERNAL_DEPENDENCIES);
 *   6. new memory; 7. what comes free while we wait, within a bound; else CUDA_ERROR_OUT_OF_MEMORY.
 *
 * Each is a function in rules.c (the first in allocate.c). A queue with spans asks others (2, 3, 5) last, and where
 * several threads allocate only if the pool is roomy for what they use; but a block that this thread freed in another
 * queue, once that free has happened, comes before its spans. Before both comes one that this queue freed and that is
 * of a size class up to a quarter larger, as it is.
 *
 * The pool knows nothing of handles, contexts, access rights or other processes: the layers above do. All functions may
 * be called by any thread.
 */
#ifndef CN_POOL_POOL_H
#define CN_POOL_POOL_H

#include "device/device.h"

enum {
	CN_POOL_FOLLOW_EVENTS = 1 << 0,
	CN_POOL_OPPORTUNISTIC = 1 << 1,
	CN_POOL_INTERNAL_DEPENDENCIES = 1 << 2,
	CN_POOL_POLICIES = 7, /* as a pool starts */
	CN_POOL_ALIGNMENT_BYTES = 512,
};

struct cn_pool;

struct cn_pool_statistics {
	uint64_t reserved_bytes, reserved_high_bytes, used_bytes, used_high_bytes;
	uint64_t reused_own, reused_settled, reused_followed, reused_opportunistic, reused_waiting, grown; /* by rule */
	uint64_t largest_free_bytes, free_block_count, live_block_count, metadata_bytes;
	uint64_t free_blocks_by_size[40]; /* by the power of two below */
};

/* What is at an address. */
struct cn_pool_block {
	struct cn_pool *pool;
	uint64_t id; /* of the allocation: never used twice in a process */
	void *start;
	size_t bytes; /* as asked for */
	bool shared;
	uint32_t tag; /* of a shared block */
};

/* How to create a pool. */
struct cn_pool_options {
	struct cn_device *device; /* the device whose memory it is; NULL: the machine's, */
	int node;                 /* of this node; -1: any */
	size_t max_bytes;         /* the most it may hold; 0: as much as there is */
	bool shareable;           /* cn_pool_part() will be called */
	struct cn_users users;
	void *owner; /* of the layer above: cn_pool_owner() returns it */
};

CUresult cn_pool_create(const struct cn_pool_options *options, struct cn_pool **ret_pool);

/* Change which devices may use its memory. */
CUresult cn_pool_allow(struct cn_pool *pool, struct cn_users users);

/*
 * No more allocations; the pool ends with its last block. If it could end but for other threads that have it in hand,
 * waits for them, half a second at most: only slow locks may be held.
 */
void cn_pool_destroy(struct cn_pool *pool);

void *cn_pool_owner(const struct cn_pool *pool);

/* End the destroyed pools that are no longer needed. */
void cn_pools_reap(void);
/* The same, and give back memory whose return had to wait for work that is now done. */
void cn_pools_finish_release(void);
/* The owner of a destroyed pool that has ended, each once; NULL: no further one has. */
void *cn_pool_take_ended(void);

/*
 * A block. NULL: there is none, and *ret_error says why; CUDA_ERROR_OUT_OF_MEMORY changes nothing. `handle` is the
 * queue's owner: see cn_device_ops.queue_wait. The address is returned in a register, because the next free waits for
 * it.
 */
void *cn_pool_allocate(struct cn_pool *pool, struct cn_queue *queue, uint64_t handle, size_t bytes,
		       CUresult *ret_error);

/* Not freed: other processes may have the block too, see cn_pool_defer_free(). */
enum { CN_POOL_FREE_SHARED = -1 };

/*
 * Free the block that begins at the address, when a queue reaches a point of its own; without a queue: now, everything
 * that used it has happened. Returns a CUresult, or CN_POOL_FREE_SHARED. CUDA_ERROR_INVALID_VALUE: no block begins
 * there that can be freed; other memory may, so the caller says why.
 */
int cn_pool_free(void *address, struct cn_point point);

/*
 * ---- Blocks that others may have too ----
 *
 * All the pool knows of sharing is that a free can be deferred. cn_pool_free() refuses a shared block: its free is
 * deferred instead, until no process has the block any more. `address` is where the block begins.
 */

/* Mark a live block as shared, with a tag that cn_pool_find() returns. False: it is not live, or already shared. */
bool cn_pool_share(void *address, uint32_t tag);
/* The program has freed a shared block. False: it is not a shared one, or was already freed. */
bool cn_pool_defer_free(void *address, uint32_t *ret_tag);
void cn_pool_cancel_deferred(void *address); /* it has not freed it, after all */
/*
 * No process has the block any more, and everything that used it has happened. Takes no lock. A destroyed pool ends
 * with the next cn_pools_reap().
 */
void cn_pool_free_deferred(void *address);
/*
 * The function to call for deferred frees that could be done, before the pool takes new memory and when it gives memory
 * away; NULL: none. The old function may be called once more during the change.
 */
void cn_pool_set_recall(struct cn_pool *pool, void (*function)(void *object), void *object);

/* A destroyed pool does not end while it has a reference. */
void cn_pool_reference(struct cn_pool *pool);
void cn_pool_unreference(struct cn_pool *pool);

/* Where the range begins, how large it is, and the part of it around an offset as another process gets it. */
void *cn_pool_base(const struct cn_pool *pool, size_t *ret_bytes);
CUresult cn_pool_part(const struct cn_pool *pool, size_t offset, struct cn_arena_part *ret_part);
/* As arena_serial() and arena_watch() in device.h. */
uint64_t cn_pool_serial(const struct cn_pool *pool, size_t offset, size_t *ret_end);
void cn_pool_on_part_lost(struct cn_pool *pool, void (*function)(void *object, size_t offset), void *object);

/* Is an address in the range of a pool, whatever is there? */
bool cn_pool_has(const void *address);
/* The live block that holds an address. False: none. */
bool cn_pool_find(const void *address, struct cn_pool_block *ret_block);
/* The live block that begins at an address. False: none does. */
bool cn_pool_find_start(void *address, struct cn_pool_block *ret_block);
/* Did a block begin there that was freed? False also where its memory has been joined with other free memory since. */
bool cn_pool_has_freed(const void *address);

unsigned cn_pool_policies(const struct cn_pool *pool);
void cn_pool_set_policies(struct cn_pool *pool, unsigned policies);
uint64_t cn_pool_threshold(const struct cn_pool *pool);
void cn_pool_set_threshold(struct cn_pool *pool, uint64_t bytes);
void cn_pool_statistics(struct cn_pool *pool, struct cn_pool_statistics *ret_numbers);
/* The first four of them alone, without a look at each block. */
void cn_pool_usage(struct cn_pool *pool, struct cn_pool_statistics *ret_numbers);
/* Draw the part of the range that was used so far, as `count` characters: see cenote_pool_picture(). */
void cn_pool_draw(struct cn_pool *pool, char *ret_cells, size_t count);
void cn_pool_reset_high_water(struct cn_pool *pool, bool reserved, bool used);

/* ---- For observers: picture.c. The caller has a reference, and no lock is held for long. ---- */

/* What a cell contains; of several kinds DEFERRED, SHARED, LIVE, CACHED, FREE, HOLE, whichever comes first. */
enum cn_pool_cell_kind {
	CN_POOL_CELL_LIVE = '#',
	CN_POOL_CELL_SHARED = '=',   /* … and other processes may have it too */
	CN_POOL_CELL_DEFERRED = '!', /* freed by the program, while other processes have it */
	CN_POOL_CELL_CACHED = 'o',   /* freed, and its queue's to reuse */
	CN_POOL_CELL_FREE = '.',
	CN_POOL_CELL_HOLE = '_',    /* no memory */
	CN_POOL_CELL_UNKNOWN = '?', /* it would take too long to find out */
};
enum { CN_POOL_CELL_BLOCKS_MAX = 256 };
struct cn_pool_cell {
	char kind;
	unsigned block_count; /* of this kind, if it is SHARED or DEFERRED; the largest comes first */
	struct {
		uint32_t tag, units; /* units: in this cell */
	} blocks[CN_POOL_CELL_BLOCKS_MAX];
};

void cn_pool_peek_usage(struct cn_pool *pool, uint64_t *ret_used_bytes, uint64_t *ret_reserved_bytes);
/*
 * One of `of` cells, which are equal parts of what was used of the range so far; returns the cell's bytes. `of` is at
 * most 2^24. *cursor is 0 for the first call, then what the last call left there.
 */
uint64_t cn_pool_draw_cell(struct cn_pool *pool, uint64_t number, uint64_t of, uint64_t *cursor,
			   struct cn_pool_cell *ret_cell);

/* As arena_reclaim() in device.h. The caller has a reference. */
size_t cn_pool_reclaim(struct cn_pool *pool, size_t offset);
/* Give free memory back to the system while at least `keep_bytes` stay reserved; and what other processes put there. */
void cn_pool_trim(struct cn_pool *pool, uint64_t keep_bytes);

/*
 * The program has waited for a point: what its queue freed up to there is settled, and pools that have more than their
 * threshold give back unused memory. For destroyed pools that could end, and in which the queue has freed blocks, waits
 * as cn_pool_destroy() does.
 */
void cn_pools_settle(struct cn_point point);

#endif

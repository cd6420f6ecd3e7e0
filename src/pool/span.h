/* SPDX-License-Identifier: MIT */
/*
 * Spans: pieces of a pool's range that one cache cuts and joins by itself.
 *
 * A thread that needs many sizes finds few of them in the free lists of its queue. If it then went to the pool's heap,
 * all threads would meet at the pool's lock. So a cache takes larger pieces from there, its spans, and cuts its blocks
 * out of them under its own lock. What its queue has freed is joined again when a size is lacking, without the pool.
 *
 * A block knows its span, and the span's record knows the cache that owns it. Neighbours inside a span are linked as
 * in the heap, but the first and the last have none beyond: so nothing is ever joined across its ends, and all links
 * inside are guarded by the owner's lock, whichever queue has a block.
 *
 * Free memory of a span is KEPT, and any queue may have it; or PENDING: its queue has freed it, that free may not have
 * happened, and `number` is that of the last of its frees. The two are never joined with each other: one free that has
 * not happened would keep all memory beside it from other queues. A span that is all KEPT is whole, and of no set.
 *
 * Spans are not locked: the owner's lock guards them. Where the heap is named, only its tables are used, without its
 * lock; the records come from `spares`.
 */
#ifndef CN_POOL_SPAN_H
#define CN_POOL_SPAN_H

#include "pool/heap.h"

enum {
	CN_SPAN_UNITS_MIN = 128,
	CN_SPAN_BLOCK_UNITS_MAX = 1024, /* of a block in a span, 512 KiB: larger ones would leave gaps */
	CN_SPAN_SMALL_UNITS = 32,       /* blocks up to this size, 16 KiB, have spans of their own, */
	CN_SPAN_SETS = 2, /* the first set: small blocks between large ones would keep those from being joined */
};

/* Spans of blocks of about a size. */
struct cn_span_set {
	struct cn_bins kept, pending;
	uint64_t units; /* of all its spans */
};

struct cn_spans {
	struct cn_span_set sets[CN_SPAN_SETS];
	struct cn_bins whole;
	struct cn_spares spares;
};

static inline unsigned cn_span_set_of(uint32_t units)
{
	return units > CN_SPAN_SMALL_UNITS;
}

static inline uint64_t cn_spans_units(const struct cn_spans *spans)
{
	return spans->sets[0].units + spans->sets[1].units +
	       atomic_load_explicit(&spans->whole.units, memory_order_relaxed);
}

/* Of its free memory, so many units are in one set or whole. Needs no lock: they may be others by then. */
static inline uint64_t cn_spans_free_units(const struct cn_spans *spans, unsigned set)
{
	return atomic_load_explicit(&spans->sets[set].kept.units, memory_order_relaxed) +
	       atomic_load_explicit(&spans->sets[set].pending.units, memory_order_relaxed) +
	       atomic_load_explicit(&spans->whole.units, memory_order_relaxed);
}

/* Make a span, whole, of a MOVING block of the heap. False: `spares` are empty; nothing changed. */
bool cn_spans_add(struct cn_heap *heap, struct cn_spans *spans, uint32_t index, void *owner);
/* A whole span, as a MOVING block of the heap again. 0: there is none. */
uint32_t cn_spans_remove(struct cn_heap *heap, struct cn_spans *spans);

/*
 * A block of exactly this many units out of a set, or of a span that becomes the set's; MOVING. For the owner's queue;
 * or, `settled`, for any queue. 0: there is none, or `spares` are empty.
 */
uint32_t cn_spans_take(struct cn_heap *heap, struct cn_spans *spans, unsigned set, bool settled, uint32_t units);
/* The same of one PENDING block of a set. */
uint32_t cn_spans_take_pending(struct cn_heap *heap, struct cn_spans *spans, unsigned set, uint32_t index,
			       uint32_t units);
/* Give a MOVING block of one of its spans back, as KEPT or PENDING. */
void cn_spans_give(struct cn_heap *heap, struct cn_spans *spans, uint32_t index, enum cn_block_state state);
/* What is PENDING up to a number has happened: it is KEPT from now on. */
void cn_spans_settle(struct cn_heap *heap, struct cn_spans *spans, uint64_t number);

/* The owner of a block's span; NULL: it is in none. A block that is not free keeps its span, so needs no lock. */
static inline void *cn_span_owner(const struct cn_heap *heap, const struct cn_block *block)
{
	return block->span ? (void *)(uintptr_t)cn_block_at(heap, block->span)->id : NULL;
}

#endif

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
 * inside are guarded by the owner's lock, whichever queue has a block. Free memory of a span is KEPT, in bins. Its
 * `number` is that of the last of its frees, in the order of the owner's queue; 0: any queue may have it.
 *
 * Spans are not locked: the owner's lock guards them. Where the heap is named, only its tables are used, without its
 * lock; the records come from `spares`.
 */
#ifndef CN_POOL_SPAN_H
#define CN_POOL_SPAN_H

#include "pool/heap.h"

enum {
	CN_SPAN_UNITS_MIN = 128,
	CN_SPAN_SMALL_UNITS = 32, /* blocks up to this size, 16 KiB, have spans of their own, */
	CN_SPAN_SETS = 2, /* the first set: small blocks between large ones would keep those from being joined */
};

/* Spans of blocks of about a size. */
struct cn_span_set {
	struct cn_bins kept;
	uint64_t units; /* of all its spans */
};

struct cn_spans {
	struct cn_span_set sets[CN_SPAN_SETS];
	struct cn_spares spares;
	uint64_t settled; /* what has a number up to this, any queue may have */
};

static inline unsigned cn_span_set_of(uint32_t units)
{
	return units > CN_SPAN_SMALL_UNITS;
}

static inline uint64_t cn_spans_units(const struct cn_spans *spans)
{
	return spans->sets[0].units + spans->sets[1].units;
}

/* Make a span of a set of a MOVING block of the heap. False: `spares` are empty; nothing changed. */
bool cn_spans_add(struct cn_heap *heap, struct cn_spans *spans, unsigned set, uint32_t index, void *owner);
/* Take a KEPT block that is all there is in its span. Returns the span as a MOVING block of the heap. */
uint32_t cn_spans_remove(struct cn_heap *heap, struct cn_spans *spans, uint32_t index);
/* Is a KEPT block all there is in its span, and free up to a number? */
bool cn_span_is_whole(const struct cn_heap *heap, uint32_t index, uint64_t number);
/* One that is. 0: there is none. */
uint32_t cn_spans_find_whole(const struct cn_heap *heap, const struct cn_spans *spans, uint64_t number);

/* A block of exactly this many units, MOVING. 0: there is none, or `spares` are empty. */
uint32_t cn_spans_take(struct cn_heap *heap, struct cn_spans *spans, uint32_t units);
/* The same of one KEPT block of a set. */
uint32_t cn_spans_take_from(struct cn_heap *heap, struct cn_spans *spans, unsigned set, uint32_t index, uint32_t units);
/* Give a MOVING block of one of its spans back. Returns the record of what it is joined to. */
uint32_t cn_spans_give(struct cn_heap *heap, struct cn_spans *spans, uint32_t index);

/* The owner of a block's span; NULL: it is in none. */
static inline void *cn_span_owner(const struct cn_heap *heap, const struct cn_block *block)
{
	return block->span ? (void *)(uintptr_t)cn_block_at(heap, block->span)->id : NULL;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Spans: see span.h.
 *
 * The record of a span has its place in the heap's chain, but describes no units, so that cn_heap_find() does not take
 * it for a block; how many it has is in `bytes`, its owner in `id`, its set in `tag`.
 */
#include "pool/span.h"

static struct cn_heap_part part_of(struct cn_spans *spans, unsigned set, enum cn_block_state state)
{
	struct cn_bins *bins = state == CN_BLOCK_KEPT ? &spans->sets[set].kept : &spans->sets[set].pending;

	return (struct cn_heap_part){bins, &spans->spares, state};
}

static unsigned set_of(const struct cn_heap *heap, const struct cn_block *block)
{
	return atomic_load_explicit(&cn_block_at(heap, block->span)->tag, memory_order_relaxed);
}

bool cn_spans_add(struct cn_heap *heap, struct cn_spans *spans, uint32_t index, void *owner)
{
	struct cn_spares one = {0, 0};

	if (!cn_heap_move_spares(heap, &spans->spares, &one, 1))
		return false;
	struct cn_block *span = cn_block_at(heap, index), *block = cn_block_at(heap, one.first);
	uint32_t units = atomic_load_explicit(&span->units, memory_order_relaxed);
	block->before = block->after = 0;
	block->span = index;
	cn_block_set_range(block, span->start, units);
	atomic_store_explicit(&block->state, CN_BLOCK_KEPT, memory_order_release);
	atomic_store_explicit(&heap->starts[span->start], one.first, memory_order_relaxed);
	cn_heap_set_covers(heap, one.first);
	cn_block_set_range(span, span->start, 0);
	atomic_store_explicit(&span->bytes, units, memory_order_relaxed);
	atomic_store_explicit(&span->id, (uintptr_t)owner, memory_order_relaxed);
	atomic_store_explicit(&span->state, CN_BLOCK_SPAN, memory_order_release);
	cn_bins_push(heap, &spans->whole, one.first);
	return true;
}

uint32_t cn_spans_remove(struct cn_heap *heap, struct cn_spans *spans)
{
	unsigned class = cn_bins_next(&spans->whole, 0);

	if (class == CN_SIZE_CLASS_COUNT)
		return 0;
	uint32_t index = spans->whole.heads[class], span_index = cn_block_at(heap, index)->span;
	struct cn_block *span = cn_block_at(heap, span_index);
	cn_bins_remove(heap, &spans->whole, index);
	cn_block_forget(heap, &spans->spares, index);
	cn_block_set_range(span, span->start, (uint32_t)atomic_load_explicit(&span->bytes, memory_order_relaxed));
	atomic_store_explicit(&span->state, CN_BLOCK_MOVING, memory_order_release);
	atomic_store_explicit(&heap->starts[span->start], span_index, memory_order_relaxed);
	return span_index;
}

/* Take a block of this size out of one that stands in a set's bins. */
static uint32_t take_from(struct cn_heap *heap, const struct cn_heap_part *part, uint32_t index, uint32_t units)
{
	index = cn_heap_part_take(heap, part, index, units);
	if (index)
		cn_heap_set_covers(heap, index);
	return index;
}

/* A whole span that is large enough becomes the set's. Returns its block, which is in the set's bins; 0: none. */
static uint32_t open_whole(struct cn_heap *heap, struct cn_spans *spans, unsigned set, uint32_t units)
{
	uint32_t index = cn_bins_fit(heap, &spans->whole, units);

	if (!index)
		return 0;
	const struct cn_block *block = cn_block_at(heap, index);
	cn_bins_remove(heap, &spans->whole, index);
	atomic_store_explicit(&cn_block_at(heap, block->span)->tag, set, memory_order_relaxed);
	spans->sets[set].units += block->units;
	cn_bins_push(heap, &spans->sets[set].kept, index);
	return index;
}

uint32_t cn_spans_take(struct cn_heap *heap, struct cn_spans *spans, unsigned set, bool settled, uint32_t units)
{
	struct cn_heap_part pending = part_of(spans, set, CN_BLOCK_PENDING), kept = part_of(spans, set, CN_BLOCK_KEPT);
	uint32_t index = settled ? 0 : cn_bins_fit(heap, pending.bins, units);

	if (index)
		return take_from(heap, &pending, index, units);
	if (!spans->spares.first)
		return 0; /* before a whole span is opened for nothing */
	index = cn_bins_fit(heap, kept.bins, units);
	if (!index)
		index = open_whole(heap, spans, set, units);
	return index ? take_from(heap, &kept, cn_heap_lowest(heap, index, units), units) : 0;
}

uint32_t cn_spans_take_pending(struct cn_heap *heap, struct cn_spans *spans, unsigned set, uint32_t index,
			       uint32_t units)
{
	struct cn_heap_part pending = part_of(spans, set, CN_BLOCK_PENDING);

	return take_from(heap, &pending, index, units);
}

void cn_spans_give(struct cn_heap *heap, struct cn_spans *spans, uint32_t index, enum cn_block_state state)
{
	unsigned set = set_of(heap, cn_block_at(heap, index));
	struct cn_heap_part part = part_of(spans, set, state);

	index = cn_heap_part_give(heap, &part, index);
	const struct cn_block *block = cn_block_at(heap, index);
	if (state != CN_BLOCK_KEPT || block->before || block->after)
		return;
	cn_bins_remove(heap, part.bins, index);
	cn_bins_push(heap, &spans->whole, index);
	spans->sets[set].units -= block->units;
}

static void settle_set(struct cn_heap *heap, struct cn_spans *spans, struct cn_bins *pending, uint64_t number)
{
	for (unsigned class = cn_bins_next(pending, 0); class < CN_SIZE_CLASS_COUNT;
	     class = cn_bins_next(pending, class + 1)) {
		uint32_t next;
		for (uint32_t index = pending->heads[class]; index; index = next) {
			struct cn_block *block = cn_block_at(heap, index);
			next = block->next;
			if (block->number > number)
				continue;
			cn_bins_remove(heap, pending, index);
			atomic_store_explicit(&block->state, CN_BLOCK_MOVING, memory_order_release);
			cn_spans_give(heap, spans, index, CN_BLOCK_KEPT);
		}
	}
}

void cn_spans_settle(struct cn_heap *heap, struct cn_spans *spans, uint64_t number)
{
	for (unsigned set = 0; set < CN_SPAN_SETS; set++)
		settle_set(heap, spans, &spans->sets[set].pending, number);
}

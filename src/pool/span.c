/* SPDX-License-Identifier: MIT */
/*
 * Spans: see span.h.
 *
 * The record of a span has its place in the heap's chain, but describes no units, so that cn_heap_find() does not take
 * it for a block; how many it has is in `bytes`, its owner in `id`, its set in `tag`.
 */
#include "pool/span.h"

static struct cn_heap_part part_of(struct cn_spans *spans, unsigned set)
{
	return (struct cn_heap_part){&spans->sets[set].kept, &spans->spares, CN_BLOCK_KEPT};
}

bool cn_spans_add(struct cn_heap *heap, struct cn_spans *spans, unsigned set, uint32_t index, void *owner)
{
	struct cn_spares one = {0, 0};

	if (!cn_heap_move_spares(heap, &spans->spares, &one, 1))
		return false;
	struct cn_block *span = cn_block_at(heap, index), *block = cn_block_at(heap, one.first);
	uint32_t units = atomic_load_explicit(&span->units, memory_order_relaxed);
	block->before = block->after = 0;
	block->number = 0;
	block->span = index;
	cn_block_set_range(block, span->start, units);
	atomic_store_explicit(&block->state, CN_BLOCK_KEPT, memory_order_release);
	atomic_store_explicit(&heap->starts[span->start], one.first, memory_order_relaxed);
	cn_heap_set_covers(heap, one.first);
	cn_block_set_range(span, span->start, 0);
	atomic_store_explicit(&span->bytes, units, memory_order_relaxed);
	atomic_store_explicit(&span->id, (uintptr_t)owner, memory_order_relaxed);
	atomic_store_explicit(&span->tag, set, memory_order_relaxed);
	atomic_store_explicit(&span->state, CN_BLOCK_SPAN, memory_order_release);
	cn_bins_push(heap, &spans->sets[set].kept, one.first);
	spans->sets[set].units += units;
	return true;
}

bool cn_span_is_whole(const struct cn_heap *heap, uint32_t index, uint64_t number)
{
	const struct cn_block *block = cn_block_at(heap, index);

	return block->units == cn_block_at(heap, block->span)->bytes && block->number <= number;
}

static uint32_t find_whole_in(const struct cn_heap *heap, const struct cn_bins *kept, uint64_t number)
{
	for (unsigned class = cn_bins_next(kept, cn_size_class_below(CN_SPAN_UNITS_MIN)); class < CN_SIZE_CLASS_COUNT;
	     class = cn_bins_next(kept, class + 1))
		for (uint32_t index = kept->heads[class]; index; index = cn_block_at(heap, index)->next)
			if (cn_span_is_whole(heap, index, number))
				return index;
	return 0;
}

uint32_t cn_spans_find_whole(const struct cn_heap *heap, const struct cn_spans *spans, uint64_t number)
{
	uint32_t index = 0;

	for (unsigned set = 0; set < CN_SPAN_SETS && !index; set++)
		index = find_whole_in(heap, &spans->sets[set].kept, number);
	return index;
}

static unsigned set_of(const struct cn_heap *heap, const struct cn_block *block)
{
	return atomic_load_explicit(&cn_block_at(heap, block->span)->tag, memory_order_relaxed);
}

uint32_t cn_spans_remove(struct cn_heap *heap, struct cn_spans *spans, uint32_t index)
{
	uint32_t span_index = cn_block_at(heap, index)->span;
	struct cn_span_set *set = &spans->sets[set_of(heap, cn_block_at(heap, index))];
	struct cn_block *span = cn_block_at(heap, span_index);
	uint32_t units = (uint32_t)atomic_load_explicit(&span->bytes, memory_order_relaxed);

	cn_bins_remove(heap, &set->kept, index);
	cn_block_forget(heap, &spans->spares, index);
	cn_block_set_range(span, span->start, units);
	atomic_store_explicit(&span->state, CN_BLOCK_MOVING, memory_order_release);
	atomic_store_explicit(&heap->starts[span->start], span_index, memory_order_relaxed);
	set->units -= units;
	return span_index;
}

uint32_t cn_spans_take(struct cn_heap *heap, struct cn_spans *spans, uint32_t units)
{
	unsigned set = cn_span_set_of(units);
	uint32_t index = cn_bins_fit(heap, &spans->sets[set].kept, units);

	return index ? cn_spans_take_from(heap, spans, set, cn_heap_lowest(heap, index, units), units) : 0;
}

uint32_t cn_spans_take_from(struct cn_heap *heap, struct cn_spans *spans, unsigned set, uint32_t index, uint32_t units)
{
	struct cn_heap_part part = part_of(spans, set);

	index = cn_heap_part_take(heap, &part, index, units);
	if (index)
		cn_heap_set_covers(heap, index);
	return index;
}

uint32_t cn_spans_give(struct cn_heap *heap, struct cn_spans *spans, uint32_t index)
{
	struct cn_heap_part part = part_of(spans, set_of(heap, cn_block_at(heap, index)));

	return cn_heap_part_give(heap, &part, index);
}

/* SPDX-License-Identifier: MIT */
/*
 * The heap of a pool: cutting, joining, and the bins.
 */
#include "pool/heap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void set_state(struct cn_block *block, enum cn_block_state state)
{
	atomic_store_explicit(&block->state, state, memory_order_release);
}

static enum cn_block_state state_of(const struct cn_block *block)
{
	return atomic_load_explicit(&block->state, memory_order_acquire);
}

/* Whoever changes bins has them locked. */
static void count_units(struct cn_bins *bins, uint64_t change)
{
	uint64_t units = atomic_load_explicit(&bins->units, memory_order_relaxed);

	atomic_store_explicit(&bins->units, units + change, memory_order_relaxed);
}

void cn_bins_push(const struct cn_heap *heap, struct cn_bins *bins, uint32_t index)
{
	struct cn_block *block = cn_block_at(heap, index);
	unsigned class = cn_class_below(block->units);

	block->previous = 0;
	block->next = bins->heads[class];
	if (block->next)
		cn_block_at(heap, block->next)->previous = index;
	bins->heads[class] = index;
	bins->filled[class / 64] |= 1ull << class % 64;
	count_units(bins, block->units);
}

void cn_bins_remove(const struct cn_heap *heap, struct cn_bins *bins, uint32_t index)
{
	struct cn_block *block = cn_block_at(heap, index);
	unsigned class = cn_class_below(block->units);

	if (block->next)
		cn_block_at(heap, block->next)->previous = block->previous;
	if (block->previous)
		cn_block_at(heap, block->previous)->next = block->next;
	else
		bins->heads[class] = block->next;
	if (!bins->heads[class])
		bins->filled[class / 64] &= ~(1ull << class % 64);
	count_units(bins, -(uint64_t)block->units);
}

static uint32_t new_record(struct cn_heap *heap)
{
	uint32_t index = heap->spare;

	if (index) {
		heap->spare = cn_block_at(heap, index)->next;
		return index;
	}
	index = heap->record_count;
	uint32_t segment = index / CN_RECORDS_PER_SEGMENT;
	if (segment >= CN_SEGMENT_COUNT)
		return 0;
	if (!atomic_load_explicit(&heap->segments[segment], memory_order_relaxed)) {
		size_t bytes = CN_RECORDS_PER_SEGMENT * sizeof(struct cn_block);
		struct cn_block *records = aligned_alloc(_Alignof(struct cn_block), bytes);
		if (!records)
			return 0;
		memset(records, 0, bytes);
		atomic_store_explicit(&heap->segments[segment], records, memory_order_release);
	}
	heap->record_count++;
	return index;
}

static void forget_record(struct cn_heap *heap, uint32_t index)
{
	struct cn_block *block = cn_block_at(heap, index);

	set_state(block, CN_BLOCK_SPARE);
	block->units = 0; /* or cn_heap_find() would take it for the block that once was there */
	block->next = heap->spare;
	heap->spare = index;
}

static void set_start(struct cn_heap *heap, uint32_t unit, uint32_t index)
{
	atomic_store_explicit(&heap->starts[unit], index, memory_order_relaxed);
}

bool cn_heap_open(struct cn_heap *heap, uint32_t unit_count)
{
	/* Sparse: only what stands for used memory takes any. */
	size_t stretch_count = unit_count / CN_STRETCH_UNITS;
	void *starts = mmap(NULL, (unit_count + stretch_count) * sizeof *heap->starts, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (starts == MAP_FAILED)
		return false;
	heap->starts = starts;
	heap->covers = heap->starts + unit_count;
	heap->unit_count = unit_count;
	heap->record_count = 1; /* 0 is no record */
	return true;
}

void cn_heap_close(struct cn_heap *heap)
{
	for (unsigned i = 0; i < CN_SEGMENT_COUNT; i++)
		free(atomic_load(&heap->segments[i]));
	munmap((void *)heap->starts,
	       (heap->unit_count + (size_t)heap->unit_count / CN_STRETCH_UNITS) * sizeof *heap->starts);
}

/* Let cn_heap_find() know the block in every stretch that begins inside it. */
static void set_covers(struct cn_heap *heap, uint32_t index)
{
	const struct cn_block *block = cn_block_at(heap, index);
	uint32_t stretch = (block->start + CN_STRETCH_UNITS - 1) / CN_STRETCH_UNITS;

	for (; stretch * (uint64_t)CN_STRETCH_UNITS < (uint64_t)block->start + block->units; stretch++)
		atomic_store_explicit(&heap->covers[stretch], index, memory_order_relaxed);
}

static uint32_t cut(struct cn_heap *heap, uint32_t index, uint32_t units)
{
	uint32_t rest_index = new_record(heap);

	if (!rest_index)
		return 0;
	struct cn_block *block = cn_block_at(heap, index), *rest = cn_block_at(heap, rest_index);
	rest->start = block->start + units;
	rest->units = block->units - units;
	rest->before = index;
	rest->after = block->after;
	if (rest->after)
		cn_block_at(heap, rest->after)->before = rest_index;
	else
		heap->last = rest_index;
	block->after = rest_index;
	block->units = units;
	set_state(rest, CN_BLOCK_MOVING);
	set_start(heap, rest->start, rest_index);
	return rest_index;
}

uint32_t cn_heap_cut(struct cn_heap *heap, uint32_t index, uint32_t units)
{
	uint32_t rest = cut(heap, index, units);

	if (rest)
		set_covers(heap, rest);
	return rest;
}

/* Take a block of at least this many units off its bin, and cut it to size; the rest goes back. */
static uint32_t take_from(struct cn_heap *heap, struct cn_bins *bins, uint32_t units, enum cn_block_state rest_state)
{
	unsigned class = cn_bins_next(bins, cn_class_above(units));

	if (class == CN_CLASS_COUNT)
		return 0;
	uint32_t index = bins->heads[class];
	struct cn_block *block = cn_block_at(heap, index);
	cn_bins_remove(heap, bins, index);
	set_state(block, CN_BLOCK_MOVING);
	if (block->units > units) {
		uint32_t rest = cut(heap, index, units);
		if (!rest) {
			set_state(block, rest_state);
			cn_bins_push(heap, bins, index);
			return 0;
		}
		set_state(cn_block_at(heap, rest), rest_state);
		cn_bins_push(heap, bins, rest);
	}
	return index;
}

uint32_t cn_heap_take(struct cn_heap *heap, uint32_t units)
{
	uint32_t index = take_from(heap, &heap->free, units, CN_BLOCK_FREE);

	if (index)
		set_covers(heap, index);
	return index;
}

/* Join a block with the one after it, which stands in a bin. */
static void join_after(struct cn_heap *heap, struct cn_bins *bins, uint32_t index)
{
	struct cn_block *block = cn_block_at(heap, index);
	uint32_t after_index = block->after;
	struct cn_block *after = cn_block_at(heap, after_index);

	cn_bins_remove(heap, bins, after_index);
	set_start(heap, after->start, 0);
	block->units += after->units;
	block->after = after->after;
	if (block->after)
		cn_block_at(heap, block->after)->before = index;
	else
		heap->last = index;
	forget_record(heap, after_index);
}

static void give(struct cn_heap *heap, struct cn_bins *bins, uint32_t index, enum cn_block_state state)
{
	struct cn_block *block = cn_block_at(heap, index);

	if (block->after && state_of(cn_block_at(heap, block->after)) == state)
		join_after(heap, bins, index);
	if (block->before && state_of(cn_block_at(heap, block->before)) == state) {
		uint32_t before = block->before;
		cn_bins_remove(heap, bins, before);
		/* join_after() wants the later one in a bin */
		cn_bins_push(heap, bins, index);
		join_after(heap, bins, before);
		index = before;
		block = cn_block_at(heap, index);
	}
	set_state(block, state);
	cn_bins_push(heap, bins, index);
}

void cn_heap_give(struct cn_heap *heap, uint32_t index)
{
	give(heap, &heap->free, index, CN_BLOCK_FREE);
}

void cn_heap_give_hole(struct cn_heap *heap, uint32_t index)
{
	give(heap, &heap->holes, index, CN_BLOCK_HOLE);
}

uint32_t cn_heap_take_hole(struct cn_heap *heap, uint32_t wanted)
{
	uint32_t units = (wanted + CN_CHUNK_UNITS - 1) / CN_CHUNK_UNITS * CN_CHUNK_UNITS;
	uint32_t index = take_from(heap, &heap->holes, units, CN_BLOCK_HOLE);
	if (index)
		return index;

	/* What is free right below will be joined to it. */
	if (heap->last && state_of(cn_block_at(heap, heap->last)) == CN_BLOCK_FREE && units > CN_CHUNK_UNITS) {
		uint32_t below = cn_block_at(heap, heap->last)->units, lacking = wanted > below ? wanted - below : 1;
		units = (lacking + CN_CHUNK_UNITS - 1) / CN_CHUNK_UNITS * CN_CHUNK_UNITS;
	}
	if (units > heap->unit_count - heap->top)
		return 0;
	index = new_record(heap);
	if (!index)
		return 0;
	struct cn_block *block = cn_block_at(heap, index);
	block->start = heap->top;
	block->units = units;
	block->before = heap->last;
	block->after = 0;
	if (heap->last)
		cn_block_at(heap, heap->last)->after = index;
	heap->last = index;
	heap->top += units;
	set_state(block, CN_BLOCK_MOVING);
	set_start(heap, block->start, index);
	return index;
}

/* Whole chunks inside a block: where they begin and how many units they have. */
static uint32_t chunks_in(const struct cn_block *block, uint32_t *ret_start)
{
	uint32_t start = (block->start + CN_CHUNK_UNITS - 1) / CN_CHUNK_UNITS * CN_CHUNK_UNITS;
	uint32_t end = (block->start + block->units) / CN_CHUNK_UNITS * CN_CHUNK_UNITS;

	*ret_start = start;
	return end > start ? end - start : 0;
}

uint32_t cn_heap_take_chunks(struct cn_heap *heap, uint32_t units_max)
{
	uint32_t start = 0, units = 0, index = 0;

	for (unsigned class = cn_bins_next(&heap->free, cn_class_below(CN_CHUNK_UNITS));
	     class < CN_CLASS_COUNT && !units; class = cn_bins_next(&heap->free, class + 1))
		for (index = heap->free.heads[class]; index; index = cn_block_at(heap, index)->next) {
			units = chunks_in(cn_block_at(heap, index), &start);
			if (units)
				break;
		}
	units = units < units_max ? units : units_max / CN_CHUNK_UNITS * CN_CHUNK_UNITS;
	if (!units)
		return 0;

	/* Cut off what is before and behind; what cannot be cut for want of a record stays where it is. */
	struct cn_block *block = cn_block_at(heap, index);
	cn_bins_remove(heap, &heap->free, index);
	set_state(block, CN_BLOCK_MOVING);
	if (block->start + block->units > start + units) {
		uint32_t rest = cut(heap, index, start + units - block->start);
		if (!rest) {
			cn_heap_give(heap, index);
			return 0;
		}
		set_state(cn_block_at(heap, rest), CN_BLOCK_FREE);
		cn_bins_push(heap, &heap->free, rest);
	}
	if (block->start < start) {
		uint32_t rest = cut(heap, index, start - block->start);
		if (!rest) {
			cn_heap_give(heap, index);
			return 0;
		}
		set_state(block, CN_BLOCK_FREE);
		cn_bins_push(heap, &heap->free, index);
		index = rest;
	}
	return index;
}

uint32_t cn_heap_find(const struct cn_heap *heap, uint32_t unit)
{
	uint32_t first = unit / CN_STRETCH_UNITS * CN_STRETCH_UNITS;

	if (unit >= heap->top)
		return 0;
	uint32_t index = atomic_load_explicit(&heap->covers[unit / CN_STRETCH_UNITS], memory_order_relaxed);
	if (index) {
		const struct cn_block *block = cn_block_at(heap, index);
		if (block->start <= unit && unit - block->start < block->units)
			return index;
	}
	for (uint32_t at = unit; at >= first; at--) {
		index = atomic_load_explicit(&heap->starts[at], memory_order_relaxed);
		if (index || !at)
			return index;
	}
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * The heap of a pool: splitting, joining, and the bins.
 */
#include "pool/heap.h"

#include <string.h>
#include <sys/mman.h>

enum {
	SEARCH_DEPTH_MAX = 8, /* blocks of a bin that are compared */
	LARGE_PAGE_BYTES = 2 * 1024 * 1024,
	RECORDS_SPARE = 1 << 17,
};

static void set_state(struct cn_block *block, enum cn_block_state state)
{
	atomic_store_explicit(&block->state, state, memory_order_release);
}

static enum cn_block_state state_of(const struct cn_block *block)
{
	return atomic_load_explicit(&block->state, memory_order_acquire);
}

static void set_units(struct cn_block *block, uint32_t units)
{
	atomic_store_explicit(&block->units, units, memory_order_release);
}

void cn_bins_remove(const struct cn_heap *heap, struct cn_bins *bins, uint32_t index)
{
	struct cn_block *block = cn_block_at(heap, index);
	unsigned class = cn_size_class_below(block->units);

	if (block->next)
		cn_block_at(heap, block->next)->previous = block->previous;
	if (bins->heads[class] == index)
		bins->heads[class] = block->next;
	else
		cn_block_at(heap, block->previous)->next = block->next;
	if (!bins->heads[class])
		bins->bitmap[class / 64] &= ~(1ull << class % 64);
	cn_bins_count(bins, -(uint64_t)block->units);
}

/*
 * Every block of the class above is large enough. Of the class below (a different one only when the size is not exactly
 * a class's) all blocks are looked at, for the only one that fits may be there.
 */
uint32_t cn_bins_fit(const struct cn_heap *heap, const struct cn_bins *bins, uint32_t units)
{
	unsigned above = cn_size_class_above(units), below = cn_size_class_below(units);

	if (below != above)
		for (uint32_t index = bins->heads[below]; index; index = cn_block_at(heap, index)->next)
			if (cn_block_at(heap, index)->units >= units)
				return index;
	unsigned class = cn_bins_next(bins, above);
	while (class < CN_SIZE_CLASS_COUNT && !bins->heads[class]) /* a bit may say more than there is */
		class = cn_bins_next(bins, class + 1);
	return class < CN_SIZE_CLASS_COUNT ? bins->heads[class] : 0;
}

uint32_t cn_heap_lowest(const struct cn_heap *heap, uint32_t index, uint32_t units)
{
	uint32_t other = cn_block_at(heap, index)->next;

	for (unsigned deep = 1; other && deep < SEARCH_DEPTH_MAX; deep++) {
		const struct cn_block *block = cn_block_at(heap, other);
		if (block->start < cn_block_at(heap, index)->start && block->units >= units)
			index = other;
		other = block->next;
	}
	return index;
}

bool cn_heap_add_records(struct cn_heap *heap)
{
	uint32_t limit = atomic_load(&heap->record_limit);
	struct cn_block *more = heap->records + limit;

	if (limit >= heap->record_count_max || mprotect(more, LARGE_PAGE_BYTES, PROT_READ | PROT_WRITE))
		return false;
	/* Records are read in random order, which large pages make faster. A small pool needs none. */
	if (limit)
		madvise(more, LARGE_PAGE_BYTES, MADV_HUGEPAGE);
	/* If another thread was faster, it did the same. */
	atomic_compare_exchange_strong(&heap->record_limit, &limit, limit + LARGE_PAGE_BYTES / sizeof *more);
	return true;
}

/* Only the heap's own spares have new records behind them. */
static uint32_t new_record(struct cn_heap *heap, struct cn_spares *spares)
{
	uint32_t index = spares->first;

	if (index) {
		spares->first = cn_block_at(heap, index)->next;
		spares->count--;
		return index;
	}
	index = heap->record_count;
	if (spares != &heap->spares || index >= heap->record_limit)
		return 0;
	atomic_store_explicit(&heap->record_count, index + 1, memory_order_relaxed); /* locked by the caller */
	return index;
}

static void put_spare(struct cn_heap *heap, struct cn_spares *spares, uint32_t index)
{
	cn_block_at(heap, index)->next = spares->first;
	spares->first = index;
	spares->count++;
}

void cn_block_forget(struct cn_heap *heap, struct cn_spares *spares, uint32_t index)
{
	struct cn_block *block = cn_block_at(heap, index);

	set_state(block, CN_BLOCK_SPARE);
	set_units(block, 0); /* or cn_heap_find() would take it for the block that was there before */
	put_spare(heap, spares, index);
}

uint32_t cn_heap_move_spares(struct cn_heap *heap, struct cn_spares *from, struct cn_spares *to, uint32_t count)
{
	uint32_t moved = 0, index;

	for (; moved < count && (index = new_record(heap, from)); moved++)
		put_spare(heap, to, index);
	return moved;
}

static void set_start(struct cn_heap *heap, uint32_t unit, uint32_t index)
{
	atomic_store_explicit(&heap->starts[unit], index, memory_order_relaxed);
}

/* Addresses that start where a large page can begin. NULL: there are none. */
static void *map_aligned(size_t bytes, int protection)
{
	char *start =
		mmap(NULL, bytes + LARGE_PAGE_BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start == MAP_FAILED)
		return NULL;
	size_t surplus = -(uintptr_t)start % LARGE_PAGE_BYTES;
	if (surplus)
		munmap(start, surplus);
	munmap(start + surplus + bytes, LARGE_PAGE_BYTES - surplus);
	return start + surplus;
}

static void unmap(void *start, size_t bytes)
{
	if (start)
		munmap(start, bytes);
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + LARGE_PAGE_BYTES - 1) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
}

/* Of `starts`, with `covers` behind it. */
static size_t starts_bytes(const struct cn_heap *heap)
{
	return whole_pages(((size_t)heap->room_units + heap->room_units / CN_HEAP_COVER_UNITS) * sizeof *heap->starts);
}

static size_t records_bytes(const struct cn_heap *heap)
{
	return whole_pages(heap->record_count_max * sizeof *heap->records);
}

static bool map_tables(struct cn_heap *heap, uint32_t unit_count)
{
	heap->room_units = unit_count;
	/* One for each unit, and some that caches have as spares. */
	uint64_t most = (uint64_t)unit_count + unit_count / 4 + RECORDS_SPARE;
	heap->record_count_max = most < CN_HEAP_RECORD_COUNT_MAX ? (uint32_t)most : CN_HEAP_RECORD_COUNT_MAX;
	/* Sparse: only entries for used memory take any. */
	heap->starts = map_aligned(starts_bytes(heap), PROT_READ | PROT_WRITE);
	heap->records = map_aligned(records_bytes(heap), PROT_NONE);
	if (!heap->starts || !heap->records || !cn_heap_add_records(heap)) {
		cn_heap_close(heap);
		return false;
	}
	heap->covers = heap->starts + unit_count;
	size_t large_bytes = unit_count * sizeof *heap->starts / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
	if (large_bytes > LARGE_PAGE_BYTES)
		madvise((char *)heap->starts + LARGE_PAGE_BYTES, large_bytes - LARGE_PAGE_BYTES, MADV_HUGEPAGE);
	return true;
}

bool cn_heap_open(struct cn_heap *heap, uint32_t unit_count)
{
	if (!heap->starts && !map_tables(heap, (uint32_t)1 << cn_heap_room(unit_count)))
		return false;
	heap->unit_count = unit_count;
	heap->record_count = 1; /* 0 is no record */
	return true;
}

void cn_heap_empty(struct cn_heap *heap)
{
	heap->top = 0; /* nothing is found from here on */
	heap->last = 0;
	heap->spares = (struct cn_spares){0, 0};
	memset(&heap->free, 0, sizeof heap->free);
	memset(&heap->holes, 0, sizeof heap->holes);
	madvise((void *)heap->starts, starts_bytes(heap), MADV_DONTNEED);
	madvise(heap->records, heap->record_limit * sizeof *heap->records, MADV_DONTNEED);
}

void cn_heap_close(struct cn_heap *heap)
{
	unmap((void *)heap->starts, starts_bytes(heap));
	unmap(heap->records, records_bytes(heap));
	heap->starts = NULL;
	heap->records = NULL;
	heap->record_limit = 0;
}

void cn_heap_set_covers(struct cn_heap *heap, uint32_t index)
{
	const struct cn_block *block = cn_block_at(heap, index);
	uint32_t stretch = (block->start + CN_HEAP_COVER_UNITS - 1) / CN_HEAP_COVER_UNITS;

	/* Threads with neighbouring spans share the lines of this table: nothing is written that is there. */
	for (; stretch * (uint64_t)CN_HEAP_COVER_UNITS < (uint64_t)block->start + block->units; stretch++)
		if (atomic_load_explicit(&heap->covers[stretch], memory_order_relaxed) != index)
			atomic_store_explicit(&heap->covers[stretch], index, memory_order_relaxed);
}

/* The last block of a span has none after it, like the last of the range. */
static void set_before(struct cn_heap *heap, const struct cn_block *block, uint32_t index)
{
	if (block->after)
		cn_block_at(heap, block->after)->before = index;
	else if (!block->span)
		heap->last = index;
}

uint32_t cn_heap_part_cut(struct cn_heap *heap, struct cn_spares *spares, uint32_t index, uint32_t units)
{
	uint32_t rest_index = new_record(heap, spares);

	if (!rest_index)
		return 0;
	struct cn_block *block = cn_block_at(heap, index), *rest = cn_block_at(heap, rest_index);
	cn_block_set_range(rest, block->start + units, block->units - units);
	rest->before = index;
	rest->after = block->after;
	rest->number = block->number;
	rest->span = block->span;
	set_before(heap, rest, rest_index);
	block->after = rest_index;
	set_units(block, units);
	set_state(rest, state_of(block));
	set_start(heap, rest->start, rest_index);
	return rest_index;
}

uint32_t cn_heap_cut(struct cn_heap *heap, uint32_t index, uint32_t units)
{
	uint32_t rest = cn_heap_part_cut(heap, &heap->spares, index, units);

	if (rest)
		cn_heap_set_covers(heap, rest);
	return rest;
}

static struct cn_heap_part free_part(struct cn_heap *heap)
{
	return (struct cn_heap_part){&heap->free, &heap->spares, CN_BLOCK_FREE};
}

static struct cn_heap_part hole_part(struct cn_heap *heap)
{
	return (struct cn_heap_part){&heap->holes, &heap->spares, CN_BLOCK_HOLE};
}

uint32_t cn_heap_part_take(struct cn_heap *heap, const struct cn_heap_part *part, uint32_t index, uint32_t units)
{
	struct cn_block *block = cn_block_at(heap, index);

	cn_bins_remove(heap, part->bins, index);
	if (block->units > units) {
		uint32_t rest = cn_heap_part_cut(heap, part->spares, index, units);
		cn_bins_push(heap, part->bins, rest ? rest : index);
		if (!rest)
			return 0;
	}
	set_state(block, CN_BLOCK_MOVING);
	return index;
}

/* A low one of this many units. */
static uint32_t take_low(struct cn_heap *heap, const struct cn_heap_part *part, uint32_t units)
{
	uint32_t index = cn_bins_fit(heap, part->bins, units);

	return index ? cn_heap_part_take(heap, part, cn_heap_lowest(heap, index, units), units) : 0;
}

uint32_t cn_heap_take(struct cn_heap *heap, uint32_t units)
{
	struct cn_heap_part part = free_part(heap);
	uint32_t index = take_low(heap, &part, units);

	if (index)
		cn_heap_set_covers(heap, index);
	return index;
}

/* Join a block with the one after it; neither stands in a bin. */
static void join_after(struct cn_heap *heap, struct cn_spares *spares, uint32_t index)
{
	struct cn_block *block = cn_block_at(heap, index);
	uint32_t after_index = block->after;
	const struct cn_block *after = cn_block_at(heap, after_index);

	set_start(heap, after->start, 0);
	set_units(block, block->units + after->units);
	block->after = after->after;
	if (after->number > block->number)
		block->number = after->number;
	set_before(heap, block, index);
	cn_block_forget(heap, spares, after_index);
}

uint32_t cn_heap_part_give(struct cn_heap *heap, const struct cn_heap_part *part, uint32_t index)
{
	struct cn_block *block = cn_block_at(heap, index);

	if (block->after && state_of(cn_block_at(heap, block->after)) == part->state) {
		cn_bins_remove(heap, part->bins, block->after);
		join_after(heap, part->spares, index);
	}
	if (block->before && state_of(cn_block_at(heap, block->before)) == part->state) {
		index = block->before;
		cn_bins_remove(heap, part->bins, index);
		join_after(heap, part->spares, index);
		block = cn_block_at(heap, index);
	}
	set_state(block, part->state);
	cn_bins_push(heap, part->bins, index);
	return index;
}

void cn_heap_give(struct cn_heap *heap, uint32_t index)
{
	struct cn_heap_part part = free_part(heap);

	cn_heap_part_give(heap, &part, index);
}

void cn_heap_give_hole(struct cn_heap *heap, uint32_t index)
{
	struct cn_heap_part part = hole_part(heap);

	cn_heap_part_give(heap, &part, index);
}

uint32_t cn_heap_take_hole(struct cn_heap *heap, uint32_t wanted)
{
	uint32_t units = (wanted + CN_HEAP_CHUNK_UNITS - 1) / CN_HEAP_CHUNK_UNITS * CN_HEAP_CHUNK_UNITS;
	struct cn_heap_part part = hole_part(heap);
	uint32_t index = take_low(heap, &part, units);
	if (index)
		return index;

	/* It will be joined with the free block right below. */
	if (heap->last && state_of(cn_block_at(heap, heap->last)) == CN_BLOCK_FREE && units > CN_HEAP_CHUNK_UNITS) {
		uint32_t below = cn_block_at(heap, heap->last)->units, lacking = wanted > below ? wanted - below : 1;
		units = (lacking + CN_HEAP_CHUNK_UNITS - 1) / CN_HEAP_CHUNK_UNITS * CN_HEAP_CHUNK_UNITS;
	}
	if (units > heap->unit_count - heap->top)
		return 0;
	index = new_record(heap, &heap->spares);
	if (!index)
		return 0;
	struct cn_block *block = cn_block_at(heap, index);
	cn_block_set_range(block, heap->top, units);
	block->before = heap->last;
	block->after = block->span = 0;
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
	uint32_t start = (block->start + CN_HEAP_CHUNK_UNITS - 1) / CN_HEAP_CHUNK_UNITS * CN_HEAP_CHUNK_UNITS;
	uint32_t end = (block->start + block->units) / CN_HEAP_CHUNK_UNITS * CN_HEAP_CHUNK_UNITS;

	*ret_start = start;
	return end > start ? end - start : 0;
}

uint32_t cn_heap_take_chunks(struct cn_heap *heap, uint32_t units_max)
{
	uint32_t start = 0, units = 0, index = 0;

	for (unsigned class = cn_bins_next(&heap->free, cn_size_class_below(CN_HEAP_CHUNK_UNITS));
	     class < CN_SIZE_CLASS_COUNT && !units; class = cn_bins_next(&heap->free, class + 1))
		for (index = heap->free.heads[class]; index; index = cn_block_at(heap, index)->next) {
			units = chunks_in(cn_block_at(heap, index), &start);
			if (units)
				break;
		}
	units = units < units_max ? units : units_max / CN_HEAP_CHUNK_UNITS * CN_HEAP_CHUNK_UNITS;
	if (!units)
		return 0;

	/* Cut off what is before and behind; what cannot be cut for lack of a record stays where it is. */
	struct cn_block *block = cn_block_at(heap, index);
	cn_bins_remove(heap, &heap->free, index);
	set_state(block, CN_BLOCK_MOVING);
	if (block->start + block->units > start + units) {
		uint32_t rest = cn_heap_part_cut(heap, &heap->spares, index, start + units - block->start);
		if (!rest) {
			cn_heap_give(heap, index);
			return 0;
		}
		set_state(cn_block_at(heap, rest), CN_BLOCK_FREE);
		cn_bins_push(heap, &heap->free, rest);
	}
	if (block->start < start) {
		uint32_t rest = cn_heap_part_cut(heap, &heap->spares, index, start - block->start);
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

/*
 * Does the record describe a block that holds the unit? Another thread may be turning it into another block: it writes
 * the start before the units, so a start that is the same before and after belongs to the units between.
 */
static bool holds(const struct cn_block *block, uint32_t unit)
{
	uint32_t start = block->start, units = block->units;

	return start <= unit && unit - start < units && block->start == start;
}

uint32_t cn_heap_next(const struct cn_heap *heap, uint32_t index)
{
	const struct cn_block *block = cn_block_at(heap, index);
	uint32_t unit = block->start + block->units, top = heap->top, next = 0;

	for (unit += !block->units; unit < top && !next; unit++)
		next = atomic_load_explicit(&heap->starts[unit], memory_order_relaxed);
	return next;
}

uint32_t cn_heap_find(const struct cn_heap *heap, uint32_t unit)
{
	uint32_t first = unit / CN_HEAP_COVER_UNITS * CN_HEAP_COVER_UNITS;

	if (unit >= heap->top)
		return 0;
	uint32_t index = atomic_load_explicit(&heap->covers[unit / CN_HEAP_COVER_UNITS], memory_order_relaxed);
	if (index && holds(cn_block_at(heap, index), unit))
		return index;
	for (uint32_t at = unit; at >= first; at--) {
		index = atomic_load_explicit(&heap->starts[at], memory_order_relaxed);
		if (index || !at)
			return index;
	}
	return 0;
}

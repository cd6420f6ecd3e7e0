/* SPDX-License-Identifier: MIT */
/*
 * What is said of a pool to somebody who only looks, while the program goes on: a few numbers, and a picture.
 *
 * cn_pool_numbers() and cn_pool_draw() look at every block with the pool locked, which is the caller's own time. Here a
 * stranger asks and the program would wait: so the lock is held for one cell at a time, and of a cell no more than
 * LOOKS_MAX blocks are looked at. A cell that has more is drawn as its beginning is.
 *
 * The heap finds the block at a unit if it lives, or begins nearby. A large free one is found from where the cell
 * before ended, by walking: the caller carries that place from one call to the next. It may come back changed, or from
 * a stranger, so it is looked at before it is believed: any record that describes something leads on to those above it.
 */
#include "pool/internal.h"

enum { LOOKS_MAX = 256, WALK_MAX = 4096 };

/* A cell is drawn as the first of these that it has something of: a small block in much that is free is seen. */
static const char kinds[] = {CN_CELL_HELD, CN_CELL_SHARED, CN_CELL_LIVE, CN_CELL_CACHED, CN_CELL_FREE, CN_CELL_HOLE};
enum { HELD, SHARED, LIVE, CACHED, FREE, HOLE, KIND_COUNT };
_Static_assert(sizeof kinds == KIND_COUNT, "one for each");

static unsigned kind_of(const struct cn_block *block)
{
	switch (atomic_load_explicit(&block->state, memory_order_relaxed)) {
	case CN_BLOCK_LIVE: return LIVE;
	case CN_BLOCK_SHARED: return SHARED;
	case CN_BLOCK_HELD: return HELD;
	case CN_BLOCK_FREE: return FREE;
	case CN_BLOCK_HOLE: return HOLE;
	default: return CACHED;
	}
}

static bool is_at(const struct cn_pool *pool, uint32_t index, uint32_t unit)
{
	const struct cn_block *block = block_of(pool, index);

	return block->start <= unit && unit - block->start < block->units;
}

static bool describes(const struct cn_pool *pool, uint64_t index)
{
	return index && index < pool->heap.record_count &&
	       atomic_load_explicit(&block_of(pool, (uint32_t)index)->state, memory_order_relaxed) != CN_BLOCK_SPARE;
}

/* The block at a unit; 0: it cannot be told. Pool locked. */
static uint32_t find(const struct cn_pool *pool, uint32_t unit, uint64_t near)
{
	uint32_t index = cn_heap_find(&pool->heap, unit);

	if (index && is_at(pool, index, unit))
		return index;
	index = describes(pool, near) && block_of(pool, (uint32_t)near)->start <= unit
			? (uint32_t)near
			: atomic_load_explicit(&pool->heap.starts[0], memory_order_relaxed);
	for (unsigned steps = 0; index && steps < WALK_MAX; steps++) {
		if (is_at(pool, index, unit))
			return index;
		index = block_of(pool, index)->after;
	}
	return 0;
}

/* Units [from, to) of the range. Pool locked. */
static struct cn_pool_cell draw_cell(const struct cn_pool *pool, uint32_t from, uint32_t to, uint64_t *place)
{
	uint64_t largest[KIND_COUNT] = {0};
	uint32_t notes[KIND_COUNT] = {0};
	uint32_t index = from < to ? find(pool, from, *place) : 0;
	unsigned first = 0;

	if (from < to && !index)
		return (struct cn_pool_cell){.kind = CN_CELL_UNKNOWN};
	for (unsigned looks = 0; index && looks < LOOKS_MAX; looks++) {
		const struct cn_block *block = block_of(pool, index);
		*place = index;
		uint64_t start = block->start, end = start + block->units;
		uint64_t begin = start > from ? start : from, stop = end < to ? end : to;
		unsigned kind = kind_of(block);
		if (stop > begin && stop - begin > largest[kind]) {
			largest[kind] = stop - begin;
			notes[kind] = atomic_load_explicit(&block->note, memory_order_relaxed);
		}
		index = end < to ? block->after : 0;
	}
	while (first < HOLE && !largest[first])
		first++;
	return (struct cn_pool_cell){
		.kind = kinds[first],
		.note = first == SHARED || first == HELD ? notes[first] : 0,
	};
}

uint64_t cn_pool_cells(struct cn_pool *pool, uint64_t first, uint64_t count, uint64_t of, uint64_t *place,
		       struct cn_pool_cell *ret_cells)
{
	uint64_t top = atomic_load_explicit(&pool->heap.top, memory_order_relaxed);

	for (uint64_t i = 0; i < count; i++) {
		uint64_t from = top * (first + i) / of, to = top * (first + i + 1) / of;
		cn_lock(&pool->lock);
		ret_cells[i] = draw_cell(pool, (uint32_t)from, (uint32_t)to, place);
		cn_unlock(&pool->lock);
	}
	return top * CN_UNIT_BYTES;
}

void cn_pool_amounts(struct cn_pool *pool, uint64_t *ret_used_bytes, uint64_t *ret_reserved_bytes)
{
	*ret_used_bytes = cn_pool_used(pool);
	cn_lock(&pool->lock);
	*ret_reserved_bytes = pool->reserved_bytes;
	cn_unlock(&pool->lock);
}

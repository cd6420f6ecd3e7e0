/* SPDX-License-Identifier: MIT */
/*
 * What an observer is told of a pool while the program runs: a few numbers, and a picture.
 *
 * cn_pool_statistics() and cn_pool_draw() look at every block with the pool locked, which costs the caller's own time.
 * But when another process asks, the program would wait. So the lock is held for one cell at a time, and at most
 * VISITS_MAX blocks of a cell are looked at. A cell that has more is drawn as its beginning is. All exported blocks
 * that were looked at are reported, since their holders are not known here, and decide how the cell is drawn.
 *
 * The heap finds the block at a unit if it is live, or begins nearby. A large free one is found by walking from where
 * the cell before ended: the caller carries a cursor from one call to the next. It may come back changed, or from
 * another process, so it is checked first: any record that describes something leads on to those above it.
 */
#include "pool/pool_internal.h"

#include <string.h>

enum { VISITS_MAX = CN_POOL_CELL_BLOCKS_MAX, WALK_MAX = 4096 };

/* A cell is drawn as the first of these that it contains: so a small block in much free memory is seen. */
static const char kinds[] = {CN_POOL_CELL_DEFERRED, CN_POOL_CELL_SHARED, CN_POOL_CELL_LIVE,
			     CN_POOL_CELL_CACHED,   CN_POOL_CELL_FREE,   CN_POOL_CELL_HOLE};
enum { HELD, SHARED, LIVE, CACHED, FREE, HOLE, KIND_COUNT };
_Static_assert(sizeof kinds == KIND_COUNT, "one for each");

static unsigned kind_of(const struct cn_block *block)
{
	switch (atomic_load_explicit(&block->state, memory_order_relaxed)) {
	case CN_BLOCK_LIVE: return LIVE;
	case CN_BLOCK_SHARED: return SHARED;
	case CN_BLOCK_DEFERRED: return HELD;
	case CN_BLOCK_FREE:
	case CN_BLOCK_KEPT: return FREE;
	case CN_BLOCK_HOLE: return HOLE;
	default: return CACHED;
	}
}

static bool is_at(const struct cn_pool *pool, uint32_t index, uint32_t unit)
{
	const struct cn_block *block = cn_pool_block_at(pool, index);

	return block->start <= unit && unit - block->start < block->units;
}

static bool describes(const struct cn_pool *pool, uint64_t index)
{
	return index && index < pool->heap.record_count &&
	       atomic_load_explicit(&cn_pool_block_at(pool, (uint32_t)index)->state, memory_order_relaxed) !=
		       CN_BLOCK_SPARE;
}

/* The block at a unit; 0: unknown. Pool locked. */
static uint32_t find(const struct cn_pool *pool, uint32_t unit, uint64_t near)
{
	uint32_t index = cn_heap_find(&pool->heap, unit);

	if (index && is_at(pool, index, unit))
		return index;
	index = describes(pool, near) && cn_pool_block_at(pool, (uint32_t)near)->start <= unit
			? (uint32_t)near
			: atomic_load_explicit(&pool->heap.starts[0], memory_order_relaxed);
	for (unsigned steps = 0; index && steps < WALK_MAX; steps++) {
		if (is_at(pool, index, unit))
			return index;
		index = cn_heap_next(&pool->heap, index);
	}
	return 0;
}

/* One more exported block of a cell: the largest is the first. */
static void add_block(struct cn_pool_cell *cell, uint32_t tag, uint32_t units)
{
	unsigned at = cell->block_count++;

	if (at && units > cell->blocks[0].units) {
		cell->blocks[at] = cell->blocks[0];
		at = 0;
	}
	cell->blocks[at].tag = tag;
	cell->blocks[at].units = units;
}

/* Units [from, to) of the range. Pool locked. */
static void draw_cell(const struct cn_pool *pool, uint32_t from, uint32_t to, uint64_t *cursor,
		      struct cn_pool_cell *ret_cell)
{
	uint32_t index = from < to ? find(pool, from, *cursor) : 0;
	unsigned first = HOLE;

	ret_cell->block_count = 0;
	ret_cell->kind = CN_POOL_CELL_UNKNOWN;
	if (from < to && !index)
		return;
	for (unsigned visits = 0; index && visits < VISITS_MAX; visits++) {
		const struct cn_block *block = cn_pool_block_at(pool, index);
		*cursor = index;
		uint64_t start = block->start, end = start + block->units;
		uint64_t begin = start > from ? start : from, stop = end < to ? end : to;
		unsigned kind = stop > begin ? kind_of(block) : HOLE;
		if (kind < first) {
			first = kind;
			ret_cell->block_count = 0;
		}
		if (kind == first && (kind == SHARED || kind == HELD))
			add_block(ret_cell, atomic_load_explicit(&block->tag, memory_order_relaxed),
				  (uint32_t)(stop - begin));
		index = end < to ? cn_heap_next(&pool->heap, index) : 0;
	}
	ret_cell->kind = kinds[first];
}

uint64_t cn_pool_draw_cell(struct cn_pool *pool, uint64_t number, uint64_t of, uint64_t *cursor,
			   struct cn_pool_cell *ret_cell)
{
	uint64_t top = atomic_load_explicit(&pool->heap.top, memory_order_relaxed);
	uint64_t from = top * number / of, to = top * (number + 1) / of;

	cn_lock(&pool->lock);
	draw_cell(pool, (uint32_t)from, (uint32_t)to, cursor, ret_cell);
	cn_unlock(&pool->lock);
	return top * CN_HEAP_UNIT_BYTES;
}

void cn_pool_peek_usage(struct cn_pool *pool, uint64_t *ret_used_bytes, uint64_t *ret_reserved_bytes)
{
	*ret_used_bytes = cn_pool_used(pool);
	cn_lock(&pool->lock);
	*ret_reserved_bytes = pool->reserved_bytes;
	cn_unlock(&pool->lock);
}

/* The index of a block's sign in "#o._", which does not say which process has a live block. */
static unsigned coarse_kind_of(const struct cn_block *block)
{
	unsigned kind = kind_of(block);

	return kind <= LIVE ? 0 : kind - LIVE;
}

static void draw(struct cn_pool *pool, char *ret_cells, size_t count)
{
	static const char signs[] = "#o._";

	cn_lock(&pool->lock);
	uint64_t top = pool->heap.top;
	uint32_t index = top ? atomic_load_explicit(&pool->heap.starts[0], memory_order_relaxed) : 0;
	for (size_t cell = 0; cell < count; cell++) {
		uint64_t from = top * cell / count, to = top * (cell + 1) / count, units[4] = {0, 0, 0, 0};
		unsigned most = 3;
		while (index) {
			const struct cn_block *block = cn_pool_block_at(pool, index);
			uint64_t start = block->start, end = start + block->units;
			uint64_t begin = start > from ? start : from, stop = end < to ? end : to;
			if (stop > begin)
				units[coarse_kind_of(block)] += stop - begin;
			if (end > to)
				break;
			index = cn_heap_next(&pool->heap, index);
		}
		for (unsigned kind = 0; kind < 4; kind++)
			if (units[kind] > units[most])
				most = kind;
		ret_cells[cell] = signs[most];
	}
	cn_unlock(&pool->lock);
}

void cn_pool_draw(struct cn_pool *pool, char *ret_cells, size_t count)
{
	memset(ret_cells, '_', count);
	if (cn_pool_reference_alive(pool)) {
		cn_pool_recall_deferred(pool);
		draw(pool, ret_cells, count);
		cn_pool_unreference(pool);
	}
}

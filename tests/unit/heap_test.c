/* SPDX-License-Identifier: MIT */
/*
 * The heap of a pool, alone: its classes, and random operations checked against an array with an entry for each unit.
 *
 * The model says what each unit is: beyond the top, a hole, free, or of the block that was taken. After every step the
 * whole chain of records is walked: neighbours agree, free neighbours are joined, every block is in the right bin and
 * nowhere else, and together they are what lies below the top.
 */
#include "harness.h"
#include "pool/heap.h"

enum {
	CHUNKS = 24,
	UNITS = CHUNKS * CN_HEAP_CHUNK_UNITS,
	TAKEN_MAX = 400,
	STEPS = 4000,
	BEYOND = UINT32_MAX,
	FREE = UINT32_MAX - 1,
	HOLE = UINT32_MAX - 2, /* anything else is the record of a block that was taken */
};

/* ---- Classes ---------------------------------------------------------------------------------------------------- */

/* Goal: classes grow, each one's own size leads back to it, and the sizes beside it to the neighbours. */
TEST(classes_are_monotonic_and_have_inverses)
{
	for (unsigned bin = 0; bin < CN_SIZE_CLASS_COUNT; bin++) {
		uint32_t units = cn_size_class_units(bin);
		ASSERT_EQ(bin, cn_size_class_below(units));
		if (!bin)
			continue;
		ASSERT_EQ(bin, cn_size_class_above(units));
		uint32_t before = cn_size_class_units(bin - 1);
		ASSERT_LT(before, units);
		ASSERT_LE(units - before, 1 + before / 16); /* at most a sixteenth is lost */
		ASSERT_EQ(bin - 1, cn_size_class_below(units - 1));
		ASSERT_EQ(bin, cn_size_class_above(before + 1));
		ASSERT_EQ(bin, cn_size_class_above(units - (units - before > 1)));
	}
	ASSERT_EQ(CN_SIZE_CLASS_COUNT - 1, cn_size_class_below(UINT32_MAX));
	for (uint32_t units = 1; units < 1 << 20; units++) {
		ASSERT_LE(cn_size_class_units(cn_size_class_below(units)), units);
		ASSERT_GE(cn_size_class_units(cn_size_class_above(units)), units);
		ASSERT_LE(cn_size_class_above(units) - cn_size_class_below(units), 1u);
	}
}

/* Goal: the next filled bin is found in every position, and there is none behind the last. */
TEST(the_next_bin_is_found)
{
	for (unsigned filled = 0; filled < CN_SIZE_CLASS_COUNT; filled++) {
		struct cn_bins bins = {.bitmap = {0}};
		bins.bitmap[filled / 64] = 1ull << filled % 64;
		for (unsigned bin = 0; bin < CN_SIZE_CLASS_COUNT; bin++)
			ASSERT_EQ(bin <= filled ? filled : (unsigned)CN_SIZE_CLASS_COUNT, cn_bins_next(&bins, bin));
		ASSERT_EQ((unsigned)CN_SIZE_CLASS_COUNT, cn_bins_next(&bins, CN_SIZE_CLASS_COUNT));
	}
}

/* ---- The model -------------------------------------------------------------------------------------------------- */

struct model {
	struct test_random random;
	struct cn_heap *heap;
	uint32_t *units;
	uint32_t taken[TAKEN_MAX];
	bool needs_memory[TAKEN_MAX]; /* taken as a hole */
	unsigned taken_count;
	uint32_t largest_free, largest_hole; /* found by the last walk, as the units of a block */
	bool chunk_free;                     /* a free block has a whole chunk in it */
};

static uint64_t below(struct model *model, uint64_t bound)
{
	return test_random_below(&model->random, bound);
}

static void set_units(struct model *model, uint32_t index, uint32_t was, uint32_t is)
{
	const struct cn_block *block = cn_block_at(model->heap, index);

	ASSERT_LE((uint64_t)block->start + block->units, UNITS);
	for (uint32_t i = block->start; i < block->start + block->units; i++) {
		if (model->units[i] != was)
			FAIL("unit %u of record %u was %u and not %u", i, index, model->units[i], was);
		model->units[i] = is;
	}
}

static void add_taken(struct model *model, uint32_t index, bool needs_memory)
{
	ASSERT_EQ(CN_BLOCK_MOVING, cn_block_at(model->heap, index)->state);
	ASSERT_LT(model->taken_count, TAKEN_MAX);
	model->needs_memory[model->taken_count] = needs_memory;
	model->taken[model->taken_count++] = index;
}

static void drop_taken(struct model *model, unsigned i)
{
	model->taken[i] = model->taken[--model->taken_count];
	model->needs_memory[i] = model->needs_memory[model->taken_count];
}

/* How many blocks stand in the bins, each in its own and with links that lead back? */
static unsigned count_bins(const struct cn_heap *heap, const struct cn_bins *bins, enum cn_block_state state)
{
	unsigned count = 0;
	uint64_t units = 0;

	for (unsigned bin = 0; bin < CN_SIZE_CLASS_COUNT; bin++) {
		uint32_t previous = 0;
		ASSERT_EQ(bins->heads[bin] != 0, bins->bitmap[bin / 64] >> bin % 64 & 1);
		for (uint32_t index = bins->heads[bin]; index; index = cn_block_at(heap, index)->next) {
			const struct cn_block *block = cn_block_at(heap, index);
			ASSERT_EQ(state, block->state);
			ASSERT_EQ(bin, cn_size_class_below(block->units));
			if (previous) /* the first one's means nothing */
				ASSERT_EQ(previous, block->previous);
			previous = index;
			units += block->units;
			count++;
		}
	}
	ASSERT_EQ(units, bins->units);
	return count;
}

static void check_block(struct model *model, uint32_t index)
{
	const struct cn_block *block = cn_block_at(model->heap, index);
	uint32_t what = block->state == CN_BLOCK_FREE ? FREE : block->state == CN_BLOCK_HOLE ? HOLE : index;

	ASSERT_GT(block->units, 0u);
	ASSERT_EQ(index, model->heap->starts[block->start]);
	ASSERT_EQ(what, model->units[block->start]);
	ASSERT_EQ(what, model->units[block->start + block->units - 1]);
	if (what == FREE) {
		uint32_t first = (block->start + CN_HEAP_CHUNK_UNITS - 1) / CN_HEAP_CHUNK_UNITS;
		model->chunk_free |= (block->start + block->units) / CN_HEAP_CHUNK_UNITS > first;
		if (block->units > model->largest_free)
			model->largest_free = block->units;
	} else if (what == HOLE) {
		ASSERT_EQ(0u, block->start % CN_HEAP_CHUNK_UNITS);
		ASSERT_EQ(0u, block->units % CN_HEAP_CHUNK_UNITS);
		if (block->units > model->largest_hole)
			model->largest_hole = block->units;
	}
}

static void walk(struct model *model)
{
	const struct cn_heap *heap = model->heap;
	uint32_t at = 0, before = 0;
	unsigned free = 0, holes = 0, taken = 0;

	model->largest_free = model->largest_hole = 0;
	model->chunk_free = false;
	for (uint32_t index = heap->top ? heap->starts[0] : 0; index; index = cn_block_at(heap, index)->after) {
		const struct cn_block *block = cn_block_at(heap, index);
		ASSERT_EQ(at, block->start);
		ASSERT_EQ(before, block->before);
		if (before && block->state != CN_BLOCK_MOVING)
			ASSERT_NE(cn_block_at(heap, before)->state, block->state);
		check_block(model, index);
		free += block->state == CN_BLOCK_FREE;
		holes += block->state == CN_BLOCK_HOLE;
		taken += block->state == CN_BLOCK_MOVING;
		at += block->units;
		before = index;
	}
	ASSERT_EQ(heap->top, at);
	ASSERT_EQ(heap->last, before);
	ASSERT_EQ(model->taken_count, taken);
	ASSERT_EQ(free, count_bins(heap, &heap->free, CN_BLOCK_FREE));
	ASSERT_EQ(holes, count_bins(heap, &heap->holes, CN_BLOCK_HOLE));
}

/* Blocks begin only where the chain says; and what is beyond the top was never touched. */
static void check_all_units(const struct model *model)
{
	for (uint32_t i = 0; i < UNITS; i++) {
		uint32_t index = model->heap->starts[i];
		if (index && (i >= model->heap->top || cn_block_at(model->heap, index)->start != i))
			FAIL("record %u is said to begin at unit %u", index, i);
		if ((model->units[i] == BEYOND) != (i >= model->heap->top))
			FAIL("unit %u and the top, %u", i, model->heap->top);
	}
}

/* Every unit of a taken block leads to it. */
static void check_find(struct model *model)
{
	if (!model->taken_count)
		return;
	unsigned i = (unsigned)below(model, model->taken_count);
	uint32_t index = model->taken[i];
	const struct cn_block *block = cn_block_at(model->heap, index);
	if (model->needs_memory[i])
		return;
	ASSERT_EQ(index, cn_heap_find(model->heap, block->start));
	ASSERT_EQ(index, cn_heap_find(model->heap, block->start + block->units - 1));
	ASSERT_EQ(index, cn_heap_find(model->heap, block->start + (uint32_t)below(model, block->units)));
}

/* ---- Steps ------------------------------------------------------------------------------------------------------ */

static uint32_t some_units(struct model *model)
{
	uint64_t choice = below(model, 8);

	if (choice == 0)
		return 1 + (uint32_t)below(model, 4 * CN_HEAP_CHUNK_UNITS);
	return 1 + (uint32_t)below(model, 1ull << (1 + below(model, choice == 1 ? 17 : 12)));
}

static void take(struct model *model)
{
	uint32_t units = some_units(model);
	if (below(model, 2))
		units = cn_size_class_units(cn_size_class_above(units));
	uint32_t index = cn_heap_take(model->heap, units);

	if (!index) {
		ASSERT_LT(model->largest_free, units);
		return;
	}
	ASSERT_EQ(units, cn_block_at(model->heap, index)->units);
	set_units(model, index, FREE, index);
	add_taken(model, index, false);
}

/* How much is free right below the top. */
static uint32_t free_below_top(const struct cn_heap *heap)
{
	const struct cn_block *last = heap->last ? cn_block_at(heap, heap->last) : NULL;

	return last && last->state == CN_BLOCK_FREE ? last->units : 0;
}

static void take_hole(struct model *model)
{
	uint32_t wanted = 1 + (uint32_t)below(model, 5 * CN_HEAP_CHUNK_UNITS), top = model->heap->top;
	uint32_t whole = (wanted + CN_HEAP_CHUNK_UNITS - 1) / CN_HEAP_CHUNK_UNITS * CN_HEAP_CHUNK_UNITS;
	uint32_t free = free_below_top(model->heap), index = cn_heap_take_hole(model->heap, wanted);

	if (!index) {
		ASSERT_LT(model->largest_hole, whole);
		ASSERT(wanted <= free ? top == UNITS : UNITS - top + free < wanted);
		return;
	}
	const struct cn_block *block = cn_block_at(model->heap, index);
	bool beyond = model->heap->top > top;
	ASSERT_EQ(0u, block->start % CN_HEAP_CHUNK_UNITS);
	ASSERT_EQ(0u, block->units % CN_HEAP_CHUNK_UNITS);
	ASSERT_GE(block->units + (beyond ? free : 0), wanted);
	ASSERT_LE(block->units, whole);
	set_units(model, index, beyond ? BEYOND : HOLE, index);
	add_taken(model, index, true);
}

static void take_chunks(struct model *model)
{
	uint32_t most = (uint32_t)below(model, 4 * CN_HEAP_CHUNK_UNITS);
	uint32_t index = cn_heap_take_chunks(model->heap, most);

	if (!index) {
		ASSERT(!model->chunk_free || most < CN_HEAP_CHUNK_UNITS);
		return;
	}
	const struct cn_block *block = cn_block_at(model->heap, index);
	ASSERT_LE(block->units, most);
	ASSERT_EQ(0u, block->units % CN_HEAP_CHUNK_UNITS);
	ASSERT_EQ(0u, block->start % CN_HEAP_CHUNK_UNITS);
	set_units(model, index, FREE, index);
	add_taken(model, index, true);
}

static void cut(struct model *model)
{
	unsigned i = (unsigned)below(model, model->taken_count);
	uint32_t index = model->taken[i], whole = cn_block_at(model->heap, index)->units;

	if (whole == 1 || model->needs_memory[i])
		return;
	uint32_t units = 1 + (uint32_t)below(model, whole - 1), start = cn_block_at(model->heap, index)->start;
	uint32_t rest = cn_heap_cut(model->heap, index, units);
	ASSERT_NE(0u, rest);
	ASSERT_EQ(units, cn_block_at(model->heap, index)->units);
	ASSERT_EQ(start, cn_block_at(model->heap, index)->start);
	ASSERT_EQ(whole - units, cn_block_at(model->heap, rest)->units);
	set_units(model, rest, index, rest);
	add_taken(model, rest, false);
}

static void give(struct model *model)
{
	unsigned i = (unsigned)below(model, model->taken_count);
	uint32_t index = model->taken[i];
	bool as_hole = model->needs_memory[i] && below(model, 3) == 0;

	set_units(model, index, index, as_hole ? HOLE : FREE);
	drop_taken(model, i);
	if (as_hole)
		cn_heap_give_hole(model->heap, index);
	else
		cn_heap_give(model->heap, index);
}

static void step(struct model *model)
{
	uint64_t choice = below(model, 100);
	bool room = model->taken_count < TAKEN_MAX - 1;

	if (choice < 45 && room)
		take(model);
	else if (choice < 50 && room)
		take_hole(model);
	else if (choice < 53 && room)
		take_chunks(model);
	else if (choice < 60 && room && model->taken_count)
		cut(model);
	else if (model->taken_count)
		give(model);
}

static void round_of_steps(struct model *model)
{
	memset(model->heap, 0, sizeof *model->heap);
	model->taken_count = 0;
	for (uint32_t i = 0; i < UNITS; i++)
		model->units[i] = BEYOND;
	ASSERT(cn_heap_open(model->heap, UNITS));
	walk(model);
	for (unsigned i = 0; i < STEPS / HARNESS_SLOWDOWN; i++) {
		step(model);
		walk(model);
		check_find(model);
		if (i % 256 == 0)
			check_all_units(model);
	}

	/* In the end everything is one block again. */
	while (model->taken_count)
		give(model);
	walk(model);
	check_all_units(model);
	for (;;) {
		uint32_t hole = model->largest_hole ? cn_heap_take_hole(model->heap, CN_HEAP_CHUNK_UNITS) : 0;
		if (!hole)
			break;
		set_units(model, hole, HOLE, FREE);
		cn_heap_give(model->heap, hole);
		walk(model);
	}
	ASSERT_EQ(model->heap->top, model->largest_free);
	cn_heap_close(model->heap);
}

/* Goal: whatever is taken, cut and given back, units are never lost, never doubled, and join again. */
TEST(random_operations_agree_with_an_array_of_units, .soak = true, .timeout_ms = 60000)
{
	struct model model = {
		.random = test_random_start(0),
		.heap = aligned_alloc(_Alignof(struct cn_heap), sizeof(struct cn_heap)),
		.units = malloc(UNITS * sizeof(uint32_t)),
	};

	ASSERT(model.heap && model.units);
	for (unsigned long round = 0; soak_goes_on(round, 6); round++)
		round_of_steps(&model);
	free(model.heap);
	free(model.units);
}

/* Goal: addresses in a block that was cut off another are found, also where chunks begin inside it. */
TEST(a_rest_is_found_in_every_chunk_that_it_covers)
{
	struct cn_heap *heap = aligned_alloc(_Alignof(struct cn_heap), sizeof *heap);

	ASSERT(heap);
	memset(heap, 0, sizeof *heap);
	ASSERT(cn_heap_open(heap, UNITS));
	cn_heap_give(heap, cn_heap_take_hole(heap, 8 * CN_HEAP_CHUNK_UNITS));
	uint32_t index = cn_heap_take(heap, 6 * CN_HEAP_CHUNK_UNITS);
	uint32_t rest = cn_heap_cut(heap, index, CN_HEAP_CHUNK_UNITS / 2);
	ASSERT_NE(0u, rest);
	for (uint32_t unit = 0; unit < 6 * CN_HEAP_CHUNK_UNITS; unit += CN_HEAP_CHUNK_UNITS / 4)
		ASSERT_EQ(unit < CN_HEAP_CHUNK_UNITS / 2 ? index : rest, cn_heap_find(heap, unit));
	cn_heap_close(heap);
	free(heap);
}

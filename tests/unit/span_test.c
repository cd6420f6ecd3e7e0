/* SPDX-License-Identifier: MIT */
/*
 * Spans, alone: random operations on the spans of two owners, checked against an array with an entry for each unit.
 *
 * Both owners' spans lie side by side in one heap. All units are walked again and again, from block to block: each is
 * of the block that the model says, free neighbours in a span are joined, and no block reaches over its end.
 */
#include "harness.h"
#include "pool/span.h"

enum {
	UNITS = 4 * CN_HEAP_CHUNK_UNITS,
	OWNERS = 2,
	TAKEN_MAX = 300,
	STEPS = 3000,
	NUMBER_MAX = 100,
	OF_HEAP = UINT32_MAX,
	KEPT = UINT32_MAX - 1,
	PENDING = UINT32_MAX - 2, /* anything else is the record of a block that was taken */
};

struct model {
	struct test_random random;
	struct cn_heap *heap;
	struct cn_spans *spans[OWNERS]; /* an owner is the address of its entry */
	uint32_t *units;                /* what is there */
	uint64_t *numbers;              /* of the frees of what is pending */
	struct {
		uint32_t index;
		unsigned owner;
	} taken[TAKEN_MAX];
	unsigned taken_count;
};

static uint64_t below(struct model *model, uint64_t bound)
{
	return test_random_below(&model->random, bound);
}

static void mark(struct model *model, uint32_t index, uint32_t what, uint64_t number)
{
	const struct cn_block *block = cn_block_at(model->heap, index);

	for (uint32_t i = block->start; i < block->start + block->units; i++) {
		model->units[i] = what;
		model->numbers[i] = number;
	}
}

static void check_free(const struct model *model, uint32_t index, uint32_t before)
{
	const struct cn_block *block = cn_block_at(model->heap, index);
	bool pending = block->state == CN_BLOCK_PENDING;
	uint64_t highest = 0;

	for (uint32_t i = block->start; i < block->start + block->units; i++) {
		ASSERT_EQ((uint32_t)(pending ? PENDING : KEPT), model->units[i]);
		highest = model->numbers[i] > highest ? model->numbers[i] : highest;
	}
	if (pending)
		ASSERT_GE(block->number, highest); /* higher where what was joined has been taken again */
	if (before && cn_block_at(model->heap, before)->state == block->state)
		ASSERT_NE(cn_block_at(model->heap, before)->span, block->span);
}

static void walk(struct model *model)
{
	const struct cn_heap *heap = model->heap;
	uint32_t at = 0, before = 0;

	for (uint32_t index = heap->starts[0]; index; index = cn_heap_next(heap, index)) {
		const struct cn_block *block = cn_block_at(heap, index);
		ASSERT_EQ(at, block->start);
		ASSERT_GT(block->units, 0u);
		if (block->span) {
			const struct cn_block *span = cn_block_at(heap, block->span);
			ASSERT_EQ(CN_BLOCK_SPAN, span->state);
			ASSERT_GE(block->start, span->start);
			ASSERT_LE(block->start + block->units, span->start + span->bytes);
			ASSERT_EQ(block->before ? before : 0, block->before);
			ASSERT_EQ(block->start == span->start, !block->before);
			ASSERT_EQ(block->start + block->units == span->start + span->bytes, !block->after);
		}
		if (block->state == CN_BLOCK_KEPT || block->state == CN_BLOCK_PENDING)
			check_free(model, index, before);
		else
			ASSERT_EQ(block->state == CN_BLOCK_FREE ? (uint32_t)OF_HEAP : index, model->units[at]);
		at += block->units;
		before = index;
	}
	ASSERT_EQ(heap->top, at);
}

static void check_find(struct model *model)
{
	if (!model->taken_count)
		return;
	uint32_t index = model->taken[below(model, model->taken_count)].index;
	const struct cn_block *block = cn_block_at(model->heap, index);
	ASSERT_EQ(index, cn_heap_find(model->heap, block->start));
	ASSERT_EQ(index, cn_heap_find(model->heap, block->start + (uint32_t)below(model, block->units)));
}

static bool fill(struct model *model, unsigned owner)
{
	struct cn_spares *spares = &model->spans[owner]->spares;

	return spares->first ||
	       cn_heap_move_spares(model->heap, &model->heap->spares, spares, 1 + (uint32_t)below(model, 9));
}

static void add(struct model *model, unsigned owner)
{
	uint32_t units = CN_SPAN_UNITS_MIN + (uint32_t)below(model, 1ull << below(model, 15));
	uint32_t index = fill(model, owner) ? cn_heap_take(model->heap, units) : 0;

	if (!index)
		return;
	mark(model, index, KEPT, 0);
	ASSERT(cn_spans_add(model->heap, model->spans[owner], index, &model->spans[owner]));
}

static void take(struct model *model, unsigned owner)
{
	uint32_t units = 1 + (uint32_t)below(model, 1ull << below(model, 10));
	bool settled = below(model, 2);
	unsigned set = (unsigned)below(model, CN_SPAN_SETS);

	if (model->taken_count == TAKEN_MAX || !fill(model, owner))
		return;
	uint32_t index = cn_spans_take(model->heap, model->spans[owner], set, settled, units);
	if (!index)
		return;
	const struct cn_block *block = cn_block_at(model->heap, index);
	ASSERT_EQ(units, block->units);
	ASSERT_EQ(CN_BLOCK_MOVING, block->state);
	ASSERT(cn_span_owner(model->heap, block) == &model->spans[owner]);
	for (uint32_t i = block->start; i < block->start + units; i++)
		ASSERT(model->units[i] == KEPT || (model->units[i] == PENDING && !settled));
	mark(model, index, index, 0);
	model->taken[model->taken_count].index = index;
	model->taken[model->taken_count++].owner = owner;
}

static void give(struct model *model)
{
	unsigned i = (unsigned)below(model, model->taken_count), owner = model->taken[i].owner;
	uint32_t index = model->taken[i].index;
	uint64_t number = below(model, NUMBER_MAX);
	bool pending = below(model, 2);

	cn_block_at(model->heap, index)->number = number;
	mark(model, index, pending ? PENDING : KEPT, pending ? number : 0);
	model->taken[i] = model->taken[--model->taken_count];
	cn_spans_give(model->heap, model->spans[owner], index, pending ? CN_BLOCK_PENDING : CN_BLOCK_KEPT);
}

/* What is pending up to a number becomes kept, by whole blocks: the model learns from the records which. */
static void settle(struct model *model, unsigned owner, uint64_t number)
{
	const struct cn_heap *heap = model->heap;

	for (uint32_t index = heap->starts[0]; index; index = cn_heap_next(heap, index)) {
		const struct cn_block *block = cn_block_at(heap, index);
		if (block->state == CN_BLOCK_PENDING && cn_span_owner(heap, block) == &model->spans[owner] &&
		    block->number <= number)
			mark(model, index, KEPT, 0);
	}
	cn_spans_settle(model->heap, model->spans[owner], number);
}

/* What is whole goes back, and only that. */
static void remove_whole(struct model *model, unsigned owner)
{
	uint32_t index = cn_spans_remove(model->heap, model->spans[owner]);

	if (!index)
		return;
	const struct cn_block *block = cn_block_at(model->heap, index);
	for (uint32_t i = block->start; i < block->start + block->units; i++)
		ASSERT_EQ((uint32_t)KEPT, model->units[i]);
	mark(model, index, OF_HEAP, 0);
	cn_heap_give(model->heap, index);
}

static void step(struct model *model)
{
	uint64_t choice = below(model, 100);
	unsigned owner = (unsigned)below(model, OWNERS);

	if (choice < 6)
		add(model, owner);
	else if (choice < 50)
		take(model, owner);
	else if (choice < 54)
		remove_whole(model, owner);
	else if (choice < 58)
		settle(model, owner, below(model, NUMBER_MAX));
	else if (model->taken_count)
		give(model);
}

static void round_of_steps(struct model *model)
{
	memset(model->heap, 0, sizeof *model->heap);
	for (unsigned i = 0; i < OWNERS; i++)
		memset(model->spans[i], 0, sizeof *model->spans[i]);
	ASSERT(cn_heap_open(model->heap, UNITS));
	for (uint32_t i = 0; i < UNITS; i++)
		model->units[i] = OF_HEAP;
	cn_heap_give(model->heap, cn_heap_take_hole(model->heap, UNITS));
	for (unsigned i = 0; i < STEPS / HARNESS_SLOWDOWN; i++) {
		step(model);
		if (i % 8 == 0)
			walk(model);
		check_find(model);
	}
	/* In the end everything is one block of the heap again. */
	while (model->taken_count)
		give(model);
	for (unsigned i = 0; i < OWNERS; i++) {
		settle(model, i, UINT64_MAX);
		while (cn_spans_units(model->spans[i]))
			remove_whole(model, i);
		for (unsigned set = 0; set < CN_SPAN_SETS; set++)
			ASSERT_EQ(0u, cn_spans_free_units(model->spans[i], set));
	}
	walk(model);
	ASSERT_EQ((uint32_t)UNITS, cn_block_at(model->heap, model->heap->starts[0])->units);
	cn_heap_close(model->heap);
}

/* Goal: whatever is taken from spans and given back, units are never lost, never doubled, and join inside a span. */
TEST(random_operations_agree_with_an_array_of_units, .soak = true, .timeout_ms = 60000)
{
	struct model model = {
		.random = test_random_start(0),
		.heap = aligned_alloc(_Alignof(struct cn_heap), sizeof(struct cn_heap)),
		.units = malloc(UNITS * sizeof(uint32_t)),
		.numbers = malloc(UNITS * sizeof(uint64_t)),
	};

	ASSERT(model.heap && model.units && model.numbers);
	for (unsigned i = 0; i < OWNERS; i++)
		ASSERT((model.spans[i] = malloc(sizeof *model.spans[i])));
	for (unsigned long round = 0; soak_goes_on(round, 4); round++)
		round_of_steps(&model);
	for (unsigned i = 0; i < OWNERS; i++)
		free(model.spans[i]);
	free(model.numbers);
	free(model.units);
	free(model.heap);
}

/* Goal: without a record for the rest, nothing is taken and nothing is lost; and none to make a span, none is made. */
TEST(without_spare_records_nothing_changes)
{
	struct cn_heap *heap = aligned_alloc(_Alignof(struct cn_heap), sizeof *heap);
	struct cn_spans *spans = calloc(1, sizeof *spans);

	ASSERT(heap && spans);
	memset(heap, 0, sizeof *heap);
	ASSERT(cn_heap_open(heap, UNITS));
	cn_heap_give(heap, cn_heap_take_hole(heap, UNITS));
	uint32_t block = cn_heap_take(heap, 4096);
	ASSERT(!cn_spans_add(heap, spans, block, spans));
	ASSERT_EQ(4096u, cn_block_at(heap, block)->units);
	ASSERT_EQ(1u, cn_heap_move_spares(heap, &heap->spares, &spans->spares, 1));
	ASSERT(cn_spans_add(heap, spans, block, spans));
	ASSERT_EQ(0u, cn_spans_take(heap, spans, 1, false, 100));
	ASSERT_EQ(4096u, cn_spans_free_units(spans, 1));
	ASSERT_EQ(block, cn_spans_remove(heap, spans));
	ASSERT_EQ(0u, cn_spans_units(spans));
	ASSERT_EQ(1u, spans->spares.count);
	cn_heap_close(heap);
	free(spans);
	free(heap);
}

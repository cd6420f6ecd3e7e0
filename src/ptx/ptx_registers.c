/* SPDX-License-Identifier: MIT */
/*
 * Places of registers: those that are never needed at the same time share one.
 *
 * Compilers write a new register for nearly every result. As arrays over a block's lanes these would fill the caches,
 * so the usual analysis is made: which registers are live where (backwards over the basic blocks until nothing
 * changes), from where to where each is live, and then a place for each in the order of their starts, taken from those
 * that have become free. What a single thread may do is enough to know: lanes write their own elements alone.
 *
 * First, registers that always hold the same constant (a number, a parameter of the kernel, %ctaid) give way to it, and
 * the moves that filled them are dropped. A register that is read before its only move has no value that counts.
 *
 * Parameters, results and the return address keep a place of their own. A function that is too large for the tables
 * keeps its first places, which are as right and only slower.
 */
#include "ptx/ptx_kernels.h"
#include "ptx/ptx_module.h"

#include <stdlib.h>
#include <string.h>

enum { CLASSES = 5 }; /* widths of 1, 2, 4, 8 and 16 bytes */
static const uint64_t TABLE_BITS_MAX = (uint64_t)1 << 28;

struct variable {
	uint32_t place, width, start, end, new_place;
	uint32_t write_count;
	cn_ptx_operand constant; /* what it always holds, or CN_PTX_NONE */
	bool is_pinned;
};

struct basic_block {
	uint32_t first, last; /* instructions, of the function */
};

struct analysis {
	struct cn_ptx_function *function;
	uint32_t *variable_of; /* by place: 1 + index */
	struct variable *variables;
	uint32_t count, room;
	struct basic_block *blocks;
	uint32_t *block_of; /* by instruction */
	uint32_t block_count, words;
	uint64_t *live_in, *used, *defined; /* bits of variables, a row a block */
	uint64_t *out;                      /* a row for what is live at a block's end */
	uint32_t frame_bytes, most_live_bytes;
	bool failed;
};

/* ---- What an instruction reads and writes ------------------------------------------------------------------------ */

static struct cn_ptx_inst *inst_at(const struct analysis *analysis, uint32_t pc)
{
	return &analysis->function->code[pc - analysis->function->start];
}

typedef void visit_function(struct analysis *analysis, cn_ptx_operand *operand, uint32_t width, bool is_result,
			    uint32_t pc);

static void visit(struct analysis *analysis, visit_function *visitor, cn_ptx_operand *operand, uint32_t width,
		  bool is_result, uint32_t pc)
{
	if (*operand >= 0 && *operand != CN_PTX_NONE)
		visitor(analysis, operand, width, is_result, pc);
}

static void visit_parts(struct analysis *analysis, visit_function *visitor, struct cn_ptx_inst *inst, bool is_result,
			uint32_t pc)
{
	uint32_t *parts = analysis->function->more + inst->more;

	if (inst->operand[0] != CN_PTX_NONE) {
		visit(analysis, visitor, &inst->operand[0], inst->width[0], is_result, pc);
		return;
	}
	for (unsigned i = 0; i < inst->count; i++) {
		cn_ptx_operand place = (cn_ptx_operand)parts[2 * i];

		visit(analysis, visitor, &place, parts[2 * i + 1], is_result, pc);
		parts[2 * i] = (uint32_t)place;
	}
}

static void visit_call(struct analysis *analysis, visit_function *visitor, struct cn_ptx_inst *inst, bool results,
		       uint32_t pc)
{
	struct cn_ptx_argument *arguments = analysis->function->arguments + inst->more;

	if (!results)
		visit(analysis, visitor, &inst->operand[1], 8, false, pc);
	for (uint32_t i = results ? 0 : inst->count; i < (results ? inst->count : inst->count + inst->detail); i++)
		if (arguments[i].is_register)
			visit(analysis, visitor, &arguments[i].at, arguments[i].bytes, results, pc);
}

/* Widths of operands that the instruction itself does not tell. */
static uint32_t width_of(const struct cn_ptx_inst *inst, unsigned index)
{
	switch (inst->kind) {
	case CN_PTX_I_BARRIER: return index == 0 ? inst->width[0] : index == 3 ? 1 : 4;
	case CN_PTX_I_SHUFFLE:
	case CN_PTX_I_ELECT:
	case CN_PTX_I_ACTIVE_MASK:
	case CN_PTX_I_BRANCH_INDEX:
	case CN_PTX_I_SLEEP: return index == 4 ? 1 : 4;
	case CN_PTX_I_GENERIC_SHARED:
	case CN_PTX_I_IS_SHARED: return index == 0 ? inst->width[0] : 8;
	default: return index == 4 ? 1 : index == CN_PTX_MEMBERS ? 4 : inst->width[index];
	}
}

static void visit_reads(struct analysis *analysis, visit_function *visitor, uint32_t pc)
{
	struct cn_ptx_inst *inst = inst_at(analysis, pc);
	bool is_address = inst->kind == CN_PTX_I_PARAM_ADDRESS || inst->kind == CN_PTX_I_LOCAL_ADDRESS;

	visit(analysis, visitor, &inst->guard, 1, false, pc);
	if (inst->kind == CN_PTX_I_CALL) {
		visit_call(analysis, visitor, inst, false, pc);
		return;
	}
	for (unsigned i = 1; i < 4 && !is_address; i++)
		visit(analysis, visitor, &inst->operand[i], width_of(inst, i), false, pc);
	visit(analysis, visitor, &inst->operand[CN_PTX_MEMBERS], 4, false, pc);
	if (inst->kind == CN_PTX_I_CARRY && (inst->flag & 1))
		visit(analysis, visitor, &inst->operand[4], 1, false, pc);
	if (inst->kind == CN_PTX_I_STORE)
		visit_parts(analysis, visitor, inst, false, pc);
}

static void visit_writes(struct analysis *analysis, visit_function *visitor, uint32_t pc)
{
	struct cn_ptx_inst *inst = inst_at(analysis, pc);

	switch (inst->kind) {
	case CN_PTX_I_STORE: return;
	case CN_PTX_I_CALL: visit_call(analysis, visitor, inst, true, pc); return;
	case CN_PTX_I_LOAD: visit_parts(analysis, visitor, inst, true, pc); return;
	case CN_PTX_I_CARRY:
		visit(analysis, visitor, &inst->operand[0], inst->width[0], true, pc);
		if (inst->flag & 2)
			visit(analysis, visitor, &inst->operand[4], 1, true, pc);
		return;
	default:
		visit(analysis, visitor, &inst->operand[0], width_of(inst, 0), true, pc);
		visit(analysis, visitor, &inst->operand[4], 1, true, pc);
	}
}

/* ---- Variables --------------------------------------------------------------------------------------------------- */

static struct variable *add(struct analysis *analysis, uint32_t place, uint32_t width)
{
	struct variable *grown;

	if (analysis->variable_of[place])
		return &analysis->variables[analysis->variable_of[place] - 1];
	if (analysis->count == analysis->room) {
		analysis->room = analysis->room ? analysis->room * 2 : 64;
		grown = realloc(analysis->variables, analysis->room * sizeof *grown);
		if (!grown) {
			analysis->failed = true;
			return NULL;
		}
		analysis->variables = grown;
	}
	analysis->variables[analysis->count] =
		(struct variable){.place = place, .width = width, .start = UINT32_MAX, .constant = CN_PTX_NONE};
	analysis->variable_of[place] = ++analysis->count;
	return &analysis->variables[analysis->count - 1];
}

static void collect(struct analysis *analysis, cn_ptx_operand *operand, uint32_t width, bool is_result, uint32_t pc)
{
	struct variable *variable = analysis->failed ? NULL : add(analysis, (uint32_t)*operand, width);

	(void)pc;
	if (!variable)
		return;
	variable->write_count += is_result;
	if (width > variable->width) /* an instruction may read a part of a register */
		variable->width = width;
}

static void pin(struct analysis *analysis, cn_ptx_operand place, uint32_t bytes)
{
	struct variable *variable = place >= 0 && !analysis->failed ? add(analysis, (uint32_t)place, bytes) : NULL;

	if (variable) {
		variable->is_pinned = true;
		variable->width = bytes > variable->width ? bytes : variable->width;
	}
}

static void pin_parameters(struct analysis *analysis)
{
	struct cn_ptx_function *function = analysis->function;

	pin(analysis, function->return_at, 8);
	for (uint32_t i = 0; !function->is_kernel && i < function->formal_count; i++)
		pin(analysis, (cn_ptx_operand)function->formals[i].at,
		    function->formals[i].is_register ? function->formals[i].bytes
						     : (function->formals[i].bytes + 15) & ~15u);
	for (uint32_t pc = function->start; pc < function->end; pc++) {
		const struct cn_ptx_inst *inst = inst_at(analysis, pc);
		const struct cn_ptx_argument *arguments = function->arguments + inst->more;

		if (inst->kind == CN_PTX_I_PARAM_ADDRESS)
			pin(analysis, inst->operand[1], inst->detail);
		for (uint32_t i = 0; inst->kind == CN_PTX_I_CALL && i < inst->count + inst->detail; i++)
			if (!arguments[i].is_register)
				pin(analysis, arguments[i].at, (arguments[i].bytes + 15) & ~15u);
	}
}

/* Which registers does the function have, and which of them keep their place? False: no memory. */
static bool collect_all(struct analysis *analysis)
{
	analysis->count = 0;
	memset(analysis->variable_of, 0, (size_t)analysis->function->frame_bytes * sizeof *analysis->variable_of);
	for (uint32_t pc = analysis->function->start; pc < analysis->function->end && !analysis->failed; pc++) {
		visit_reads(analysis, collect, pc);
		visit_writes(analysis, collect, pc);
	}
	pin_parameters(analysis);
	return !analysis->failed;
}

/* ---- Constants --------------------------------------------------------------------------------------------------- */

static struct variable *variable_at(const struct analysis *analysis, cn_ptx_operand operand)
{
	return &analysis->variables[analysis->variable_of[operand] - 1];
}

/* The only write of a register is this move of a constant: returns it, or CN_PTX_NONE. */
static cn_ptx_operand constant_of(const struct analysis *analysis, const struct cn_ptx_inst *inst)
{
	const struct variable *variable;
	cn_ptx_operand from = inst->operand[1];

	if (inst->kind != CN_PTX_I_KERNEL || inst->kernel > CN_PTX_K_mov_b64 || inst->guard != CN_PTX_NONE)
		return CN_PTX_NONE;
	variable = variable_at(analysis, inst->operand[0]);
	if (variable->write_count != 1 || variable->is_pinned)
		return CN_PTX_NONE;
	if (from >= 0)
		from = variable_at(analysis, from)->constant;
	return from;
}

static void replace_at(struct analysis *analysis, cn_ptx_operand *operand, uint32_t width, bool is_result, uint32_t pc)
{
	cn_ptx_operand constant = variable_at(analysis, *operand)->constant;

	(void)width, (void)is_result, (void)pc;
	if (constant != CN_PTX_NONE)
		*operand = constant;
}

/* Drop the instructions that are not kept. places, moved: zeros, one more than there are instructions and `more`. */
static void drop_moves(struct cn_ptx_function *function, const uint8_t *is_kept, uint32_t *places, uint8_t *moved)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i <= function->code_count; i++) {
		places[i] = count;
		count += i < function->code_count && is_kept[i];
	}
	for (uint32_t i = 0; i < function->code_count; i++) {
		struct cn_ptx_inst *inst = &function->code[i];

		if (inst->kind == CN_PTX_I_BRANCH)
			inst->target = function->start + places[inst->target - function->start];
		for (uint32_t k = 0; inst->kind == CN_PTX_I_BRANCH_INDEX && k < inst->detail; k++) {
			uint32_t *target = &function->more[inst->more + k];

			if (!moved[inst->more + k]) /* several branches may have the same list */
				*target = function->start + places[*target - function->start];
			moved[inst->more + k] = 1;
		}
	}
	for (uint32_t i = 0; i < function->code_count; i++)
		if (is_kept[i])
			function->code[places[i]] = function->code[i];
	function->code_count = count;
	function->end = function->start + count;
}

static bool fold(struct analysis *analysis)
{
	struct cn_ptx_function *function = analysis->function;
	uint8_t *is_kept = malloc((size_t)function->code_count + 1);
	uint8_t *moved = calloc((size_t)function->more_count + 1, 1);
	uint32_t *places = calloc((size_t)function->code_count + 1, sizeof *places), dropped = 0;
	bool ok = is_kept && moved && places;

	for (uint32_t i = 0; ok && i < function->code_count; i++) {
		const struct cn_ptx_inst *inst = &function->code[i];
		cn_ptx_operand constant = constant_of(analysis, inst);

		is_kept[i] = constant == CN_PTX_NONE;
		dropped += !is_kept[i];
		if (!is_kept[i])
			variable_at(analysis, inst->operand[0])->constant = constant;
	}
	for (uint32_t pc = function->start; ok && dropped && pc < function->end; pc++)
		visit_reads(analysis, replace_at, pc);
	if (ok && dropped)
		drop_moves(function, is_kept, places, moved);
	free(is_kept);
	free(moved);
	free(places);
	return ok && (!dropped || collect_all(analysis));
}

/* ---- Basic blocks ------------------------------------------------------------------------------------------------ */

static bool ends_block(const struct cn_ptx_inst *inst)
{
	return inst->kind == CN_PTX_I_BRANCH || inst->kind == CN_PTX_I_BRANCH_INDEX || inst->kind == CN_PTX_I_RETURN ||
	       inst->kind == CN_PTX_I_EXIT;
}

static bool find_blocks(struct analysis *analysis)
{
	const struct cn_ptx_function *function = analysis->function;
	uint32_t start = function->start, count = function->end - start, made = 0;
	uint8_t *leads = calloc(count + 1, 1);

	if (!leads)
		return false;
	leads[0] = 1;
	for (uint32_t i = 0; i < count; i++) {
		const struct cn_ptx_inst *inst = &function->code[i];

		if (inst->kind == CN_PTX_I_BRANCH)
			leads[inst->target - start] = 1;
		for (uint32_t k = 0; inst->kind == CN_PTX_I_BRANCH_INDEX && k < inst->detail; k++)
			leads[function->more[inst->more + k] - start] = 1;
		if (ends_block(inst))
			leads[i + 1] = 1;
	}
	for (uint32_t i = 0; i < count; i++)
		analysis->block_count += leads[i];
	analysis->blocks = calloc((size_t)analysis->block_count + 1, sizeof *analysis->blocks);
	analysis->block_of = calloc(count + 1, sizeof *analysis->block_of);
	for (uint32_t i = 0; analysis->blocks && analysis->block_of && i < count; i++) {
		if (leads[i])
			analysis->blocks[made++].first = i;
		analysis->blocks[made - 1].last = i;
		analysis->block_of[i] = made - 1;
	}
	free(leads);
	return analysis->blocks && analysis->block_of;
}

static void note(struct analysis *analysis, cn_ptx_operand *operand, uint32_t width, bool is_result, uint32_t pc)
{
	const struct cn_ptx_inst *inst = inst_at(analysis, pc);
	uint32_t index = analysis->variable_of[*operand] - 1;
	size_t row = (size_t)analysis->block_of[pc - analysis->function->start] * analysis->words;
	uint64_t bit = 1ull << index % 64;

	(void)width;
	/* Under a guard a write leaves what other threads have: it ends nothing. */
	if (is_result && inst->guard == CN_PTX_NONE)
		analysis->defined[row + index / 64] |= bit;
	else if (!is_result && !(analysis->defined[row + index / 64] & bit))
		analysis->used[row + index / 64] |= bit;
}

/* Bits that are live at the end of a block. */
static void live_out(const struct analysis *analysis, uint32_t block, uint64_t *out)
{
	const struct cn_ptx_function *function = analysis->function;
	uint32_t start = function->start;
	const struct cn_ptx_inst *inst = &function->code[analysis->blocks[block].last];
	bool falls = !ends_block(inst) || inst->kind == CN_PTX_I_BRANCH_INDEX || inst->guard != CN_PTX_NONE;
	uint32_t targets = inst->kind == CN_PTX_I_BRANCH ? 1 : inst->kind == CN_PTX_I_BRANCH_INDEX ? inst->detail : 0;

	memset(out, 0, analysis->words * sizeof *out);
	for (uint32_t k = 0; k < targets; k++) {
		uint32_t pc = inst->kind == CN_PTX_I_BRANCH ? inst->target : function->more[inst->more + k];
		const uint64_t *row = analysis->live_in + (size_t)analysis->block_of[pc - start] * analysis->words;

		for (uint32_t w = 0; w < analysis->words; w++)
			out[w] |= row[w];
	}
	if (falls && block + 1 < analysis->block_count)
		for (uint32_t w = 0; w < analysis->words; w++)
			out[w] |= analysis->live_in[(size_t)(block + 1) * analysis->words + w];
}

static void find_live(struct analysis *analysis, uint64_t *out)
{
	bool changes = true;

	while (changes) {
		changes = false;
		for (uint32_t block = analysis->block_count; block-- > 0;) {
			size_t row = (size_t)block * analysis->words;

			live_out(analysis, block, out);
			for (uint32_t w = 0; w < analysis->words; w++) {
				uint64_t in = analysis->used[row + w] | (out[w] & ~analysis->defined[row + w]);

				changes |= in != analysis->live_in[row + w];
				analysis->live_in[row + w] = in;
			}
		}
	}
}

/* ---- Places ------------------------------------------------------------------------------------------------------ */

static void stretch(struct variable *variable, uint32_t position)
{
	variable->start = position < variable->start ? position : variable->start;
	variable->end = position > variable->end ? position : variable->end;
}

static void stretch_at(struct analysis *analysis, cn_ptx_operand *operand, uint32_t width, bool is_result, uint32_t pc)
{
	(void)width;
	stretch(&analysis->variables[analysis->variable_of[*operand] - 1],
		2 * (pc - analysis->function->start) + is_result);
}

static void stretch_bits(struct analysis *analysis, const uint64_t *bits, uint32_t position)
{
	for (uint32_t w = 0; w < analysis->words; w++)
		for (uint64_t left = bits[w]; left; left &= left - 1)
			stretch(&analysis->variables[64 * w + (uint32_t)__builtin_ctzll(left)], position);
}

static void find_ranges(struct analysis *analysis, uint64_t *out)
{
	for (uint32_t block = 0; block < analysis->block_count; block++) {
		stretch_bits(analysis, analysis->live_in + (size_t)block * analysis->words,
			     2 * analysis->blocks[block].first);
		live_out(analysis, block, out); /* NOLINT(clang-analyzer-unix.Malloc): the caller frees it */
		stretch_bits(analysis, out, 2 * analysis->blocks[block].last + 2);
	}
	for (uint32_t pc = analysis->function->start; pc < analysis->function->end; pc++) {
		visit_reads(analysis, stretch_at, pc);
		visit_writes(analysis, stretch_at, pc);
	}
}

static int compare_starts(const void *left, const void *right, void *data)
{
	const struct variable *variables = data;
	const struct variable *a = &variables[*(const uint32_t *)left], *b = &variables[*(const uint32_t *)right];

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->place < b->place ? -1 : a->place > b->place;
}

static int compare_ends(const void *left, const void *right, void *data)
{
	const struct variable *variables = data;
	uint32_t a = variables[*(const uint32_t *)left].end, b = variables[*(const uint32_t *)right].end;

	return a < b ? -1 : a > b;
}

static uint32_t take_fresh(struct analysis *analysis, uint32_t bytes, uint32_t alignment)
{
	uint32_t at = (analysis->frame_bytes + alignment - 1) & ~(alignment - 1);

	analysis->frame_bytes = at + bytes;
	return at;
}

/* order: variables by their starts, and behind those by their ends; free: stacks of places, one a class. */
static void assign(struct analysis *analysis, uint32_t *order, uint32_t count, uint32_t *stacks)
{
	uint32_t *by_end = order + count, ended = 0, heights[CLASSES] = {0}, live = 0;

	memcpy(by_end, order, count * sizeof *order);
	qsort_r(order, count, sizeof *order, compare_starts, analysis->variables);
	qsort_r(by_end, count, sizeof *order, compare_ends, analysis->variables);
	for (uint32_t i = 0; i < count; i++) {
		struct variable *variable = &analysis->variables[order[i]];
		unsigned class = (unsigned)__builtin_ctz(variable->width);

		for (; ended < count && analysis->variables[by_end[ended]].end < variable->start; ended++) {
			const struct variable *gone = &analysis->variables[by_end[ended]];
			unsigned of = (unsigned)__builtin_ctz(gone->width);

			stacks[(size_t)of * count + heights[of]++] = gone->new_place;
			live -= gone->width;
		}
		variable->new_place = heights[class] ? stacks[(size_t) class * count + --heights[class]]
						     : take_fresh(analysis, variable->width, variable->width);
		live += variable->width;
		analysis->most_live_bytes = live > analysis->most_live_bytes ? live : analysis->most_live_bytes;
	}
}

static void rename_at(struct analysis *analysis, cn_ptx_operand *operand, uint32_t width, bool is_result, uint32_t pc)
{
	(void)width, (void)is_result, (void)pc;
	*operand = (cn_ptx_operand)analysis->variables[analysis->variable_of[*operand] - 1].new_place;
}

static uint32_t renamed(const struct analysis *analysis, uint32_t place)
{
	return analysis->variables[analysis->variable_of[place] - 1].new_place;
}

static void rename_all(struct analysis *analysis)
{
	struct cn_ptx_function *function = analysis->function;

	for (uint32_t pc = function->start; pc < function->end; pc++) {
		struct cn_ptx_inst *inst = inst_at(analysis, pc);
		struct cn_ptx_argument *arguments = function->arguments + inst->more;

		visit_reads(analysis, rename_at, pc);
		/* The carry was renamed as a source. */
		if (inst->kind == CN_PTX_I_CARRY && (inst->flag & 1) && (inst->flag & 2))
			visit(analysis, rename_at, &inst->operand[0], inst->width[0], true, pc);
		else
			visit_writes(analysis, rename_at, pc);
		if (inst->kind == CN_PTX_I_PARAM_ADDRESS)
			inst->operand[1] = (cn_ptx_operand)renamed(analysis, (uint32_t)inst->operand[1]);
		for (uint32_t i = 0; inst->kind == CN_PTX_I_CALL && i < inst->count + inst->detail; i++)
			if (!arguments[i].is_register)
				arguments[i].at = (cn_ptx_operand)renamed(analysis, (uint32_t)arguments[i].at);
	}
	for (uint32_t i = 0; !function->is_kernel && i < function->formal_count; i++)
		function->formals[i].at = renamed(analysis, function->formals[i].at);
	function->return_at = (cn_ptx_operand)renamed(analysis, (uint32_t)function->return_at);
	function->frame_bytes = analysis->frame_bytes;
}

static bool place_all(struct analysis *analysis)
{
	uint32_t *order = calloc((size_t)analysis->count * 2 + 1, sizeof *order), loose = 0;
	uint32_t *stacks = calloc((size_t)analysis->count * CLASSES + 1, sizeof *stacks);
	bool ok = order && stacks;

	if (ok) {
		for (uint32_t i = 0; i < analysis->count; i++) {
			struct variable *variable = &analysis->variables[i];

			if (variable->is_pinned)
				variable->new_place = take_fresh(analysis, (variable->width + 15) & ~15u, 16);
			else
				order[loose++] = i;
		}
		assign(analysis, order, loose, stacks);
		rename_all(analysis);
	}
	free(order);
	free(stacks);
	return ok;
}

static bool analyse(struct analysis *analysis)
{
	struct cn_ptx_function *function = analysis->function;
	size_t rows;

	if (!collect_all(analysis) || !fold(analysis) || !find_blocks(analysis))
		return false;
	analysis->words = analysis->count / 64 + 1;
	rows = ((size_t)analysis->block_count + 1) * analysis->words;
	if (rows * 64 * 3 > TABLE_BITS_MAX)
		return true; /* as it is */
	analysis->live_in = calloc(rows, sizeof *analysis->live_in);
	analysis->used = calloc(rows, sizeof *analysis->used);
	analysis->defined = calloc(rows, sizeof *analysis->defined);
	analysis->out = calloc(analysis->words, sizeof *analysis->out);
	if (!analysis->live_in || !analysis->used || !analysis->defined || !analysis->out)
		return false;
	for (uint32_t pc = function->start; pc < function->end; pc++) {
		visit_reads(analysis, note, pc);
		visit_writes(analysis, note, pc);
	}
	find_live(analysis, analysis->out);
	find_ranges(analysis, analysis->out);
	return place_all(analysis);
}

bool cn_ptx_registers_allocate(struct cn_ptx_function *function)
{
	struct analysis analysis = {.function = function};
	uint32_t registers;
	bool ok;

	analysis.variable_of = calloc((size_t)function->frame_bytes + 1, sizeof *analysis.variable_of);
	ok = analysis.variable_of && analyse(&analysis);
	registers = (analysis.most_live_bytes ? analysis.most_live_bytes : function->frame_bytes) / 4 + 4;
	function->live_registers = registers > 255 ? 255 : registers;
	free(analysis.variable_of);
	free(analysis.variables);
	free(analysis.blocks);
	free(analysis.block_of);
	free(analysis.live_in);
	free(analysis.used);
	free(analysis.defined);
	free(analysis.out);
	return ok;
}

/* SPDX-License-Identifier: MIT */
/*
 * Calls and returns.
 *
 * A callee's frame lies behind its caller's. Each lane has its own depth, so lanes that call from different places, or
 * recurse to different depths, are in different frames and run as groups of their own until they return. The frame
 * keeps the program counter of the call and the caller's frame; the call's instruction tells the rest.
 *
 * A register is an array over the lanes, and each function has its own registers. So where one function's frame lies
 * over another's, an element of one lane lies over elements of other lanes. Lanes that are apart therefore use the same
 * place only for frames of the same function; another function's frame goes behind all frames that there are. Lanes
 * that one instruction sends to the same function have one place, however they alternate with those of other functions.
 */
#include "ptx/ptx_block.h"

#include "ptx/ptx_builtin.h"

#include <string.h>

enum { FRAME_ALIGNMENT = 64, PLACES_KEPT = 32 };

static uint32_t frame_bytes(const struct cn_ptx_function *function)
{
	return (function->frame_bytes + FRAME_ALIGNMENT - 1) & ~(FRAME_ALIGNMENT - 1u);
}

static uint32_t local_bytes(const struct cn_ptx_function *function)
{
	return (function->local_bytes + 15) & ~15u;
}

/* Bytes of a lane's parameter: an array of registers, or of each lane's bytes. */
static char *parameter_at(const struct cn_ptx_block *block, char *base, uint32_t at, uint32_t bytes, bool is_register,
			  uint32_t lane)
{
	uint32_t step = is_register ? bytes : (bytes + 15) & ~15u;

	return base + (size_t)at * block->stride + (size_t)lane * step;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void pass_arguments(struct cn_ptx_block *block, const struct cn_ptx_inst *inst,
			   const struct cn_ptx_function *callee, char *callee_base, uint32_t lane)
{
	const struct cn_ptx_argument *arguments = block->here->arguments + inst->more + inst->count;
	uint32_t count = least(inst->detail, callee->formal_count - callee->result_count);

	for (uint32_t k = 0; k < count; k++) {
		const struct cn_ptx_formal *formal = &callee->formals[callee->result_count + k];
		const struct cn_ptx_argument *argument = &arguments[k];
		char *base = argument->at >= 0 ? block->frame_base : block->constant_base;
		uint32_t at = (uint32_t)(argument->at >= 0 ? argument->at : ~argument->at);

		memcpy(parameter_at(block, callee_base, formal->at, formal->bytes, formal->is_register, lane),
		       parameter_at(block, base, at, argument->bytes, argument->is_register, lane),
		       least(formal->bytes, argument->bytes));
	}
}

/* Where a call came from, as the callee's frame keeps it for each lane. */
struct origin {
	uint32_t pc, frame;
};

static struct origin *origin_at(const struct cn_ptx_block *block, uint32_t frame,
				const struct cn_ptx_function *function, uint32_t lane)
{
	char *base = block->registers + (size_t)frame * block->stride;

	return (struct origin *)(base + (size_t)function->return_at * block->stride) + lane;
}

/* Has the lane, which is in `function` now, a frame of the callee at this place? */
static bool has_frame(const struct cn_ptx_block *block, uint32_t lane, const struct cn_ptx_function *function,
		      const struct cn_ptx_function *callee, uint32_t place)
{
	uint32_t frame = block->frame[lane];

	while (frame > place) {
		struct origin origin = *origin_at(block, frame, function, lane);

		frame = origin.frame;
		function = cn_ptx_function_at(block->module, origin.pc);
	}
	return frame == place && function == callee;
}

/* The place of the callee's frame: behind the caller's, if no other lane is in the way. */
static uint32_t place_frame(const struct cn_ptx_block *block, const struct cn_ptx_function *callee)
{
	const struct cn_ptx_function *function = block->here;
	uint32_t place = block->group_frame + frame_bytes(function), behind_all = place, pc = function->start;
	bool is_free = true;

	for (uint32_t i = 0; i < block->lanes; i++) {
		if (block->status[i] == CN_PTX_ENDED)
			continue;
		if (block->pc[i] != pc) { /* most lanes are at the same place as the one before */
			pc = block->pc[i];
			function = cn_ptx_function_at(block->module, pc);
		}
		uint32_t end = block->frame[i] + frame_bytes(function);

		behind_all = end > behind_all ? end : behind_all;
		is_free = is_free && (end <= place || has_frame(block, i, function, callee, place));
	}
	return is_free ? place : behind_all;
}

/* Where the frames of a call are: of the functions that its lanes go to, the latest. */
struct places {
	struct {
		uint32_t target, frame;
	} at[PLACES_KEPT];
	unsigned count;
};

static uint32_t frame_of(const struct cn_ptx_block *block, struct places *places, uint32_t target)
{
	for (unsigned i = least(places->count, PLACES_KEPT); i--;)
		if (places->at[i].target == target)
			return places->at[i].frame;
	uint32_t frame = place_frame(block, &block->module->functions[target]);
	places->at[places->count % PLACES_KEPT].target = target;
	places->at[places->count++ % PLACES_KEPT].frame = frame;
	return frame;
}

static bool call_lane(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t target, uint32_t frame,
		      uint32_t lane)
{
	const struct cn_ptx_function *callee = &block->module->functions[target];
	const struct cn_ptx_function *caller = block->here;
	uint32_t local = block->local_at[lane] + local_bytes(caller);
	char *base;

	if ((uint64_t)frame + frame_bytes(callee) > block->frame_limit ||
	    (uint64_t)local + local_bytes(callee) > block->local_stride)
		return cn_ptx_fault_at(block, CN_PTX_STACK_OVERFLOW, lane, 0);
	base = block->registers + (size_t)frame * block->stride;
	pass_arguments(block, inst, callee, base, lane);
	*origin_at(block, frame, callee, lane) = (struct origin){.pc = block->group_pc, .frame = block->group_frame};
	block->pc[lane] = callee->start;
	block->frame[lane] = frame;
	block->local_at[lane] = local;
	return true;
}

static bool target_of(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t lane, uint32_t *ret)
{
	uint64_t pointer;

	*ret = inst->target;
	if (inst->operand[1] == CN_PTX_NONE)
		return true;
	pointer = cn_ptx_lane_value(block, inst->operand[1], 8, lane);
	if (pointer - CN_PTX_FUNCTION_BASE >= (uint64_t)block->module->function_count * 16 || pointer % 16)
		return cn_ptx_fault_at(block, CN_PTX_ILLEGAL_CALL, lane, pointer);
	*ret = (uint32_t)((pointer - CN_PTX_FUNCTION_BASE) / 16);
	return true;
}

bool cn_ptx_run_call(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	uint32_t pc = block->group_pc, target;
	struct places places;

	/* Where all lanes of the group are; the active ones are moved below. */
	CN_PTX_EACH(&block->group, i)
	{
		block->pc[i] = pc + 1;
		block->frame[i] = block->group_frame;
	}
	places.count = 0;
	block->has_group = false;
	block->accesses = false; /* what a function of ours touches, no address of a lane's tells */
	CN_PTX_EACH(&block->active, i)
	{
		const struct cn_ptx_function *callee;

		if (!target_of(block, inst, i, &target))
			return false;
		callee = &block->module->functions[target];
		if (callee->builtin) {
			if (!cn_ptx_builtin_call(block, callee->builtin, inst, i))
				return false;
			continue;
		}
		if (!block->plan->slots[target] || callee->is_kernel)
			return cn_ptx_fault_at(block, CN_PTX_ILLEGAL_CALL, i, target);
		if (!call_lane(block, inst, target, frame_of(block, &places, target), i))
			return false;
	}
	return true;
}

static void return_lane(struct cn_ptx_block *block, const struct cn_ptx_function *callee, uint32_t lane)
{
	struct origin origin = *origin_at(block, block->group_frame, callee, lane);
	const struct cn_ptx_function *caller = cn_ptx_function_at(block->module, origin.pc);
	const struct cn_ptx_inst *inst = &caller->code[origin.pc - caller->start];
	const struct cn_ptx_argument *results = caller->arguments + inst->more;
	char *base = block->registers + (size_t)origin.frame * block->stride;

	for (uint32_t k = 0; k < least(inst->count, callee->result_count); k++) {
		const struct cn_ptx_formal *formal = &callee->formals[k];

		memcpy(parameter_at(block, base, (uint32_t)results[k].at, results[k].bytes, results[k].is_register,
				    lane),
		       parameter_at(block, block->frame_base, formal->at, formal->bytes, formal->is_register, lane),
		       least(formal->bytes, results[k].bytes));
	}
	block->pc[lane] = origin.pc + 1;
	block->frame[lane] = origin.frame;
	block->local_at[lane] -= local_bytes(caller);
}

void cn_ptx_run_return(struct cn_ptx_block *block)
{
	const struct cn_ptx_function *callee = block->here;

	CN_PTX_EACH(&block->group, i)
	{
		block->pc[i] = block->group_pc + 1;
		block->frame[i] = block->group_frame;
	}
	block->has_group = false;
	CN_PTX_EACH(&block->active, i)
	{
		return_lane(block, callee, i);
	}
}

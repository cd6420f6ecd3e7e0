/* SPDX-License-Identifier: MIT */
/*
 * Calls and returns.
 *
 * A callee's frame lies behind its caller's. Each lane has its own depth, so lanes that call from different places, or
 * recurse to different depths, are in different frames and run as groups of their own until they return. The frame
 * keeps the program counter of the call; the call's instruction tells the rest.
 */
#include "ptx/ptx_block.h"

#include "ptx/ptx_builtin.h"

#include <string.h>

enum { FRAME_ALIGNMENT = 64 };

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

static bool call_lane(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t target, uint32_t lane)
{
	const struct cn_ptx_function *callee = &block->module->functions[target];
	const struct cn_ptx_function *caller = block->here;
	uint32_t frame = block->group_frame + frame_bytes(caller);
	uint32_t local = block->local_at[lane] + local_bytes(caller);
	char *base;

	if (!block->plan->slots[target] || callee->is_kernel)
		return cn_ptx_fault_at(block, CN_PTX_ILLEGAL_CALL, lane, target);
	if ((uint64_t)frame + frame_bytes(callee) > block->frame_limit ||
	    (uint64_t)local + local_bytes(callee) > block->local_stride)
		return cn_ptx_fault_at(block, CN_PTX_STACK_OVERFLOW, lane, 0);
	base = block->registers + (size_t)frame * block->stride;
	pass_arguments(block, inst, callee, base, lane);
	((uint32_t *)(base + (size_t)callee->return_at * block->stride))[lane] = block->group_pc;
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

	/* Where all lanes of the group are; the active ones are moved below. */
	CN_PTX_EACH(&block->group, i)
	{
		block->pc[i] = pc + 1;
		block->frame[i] = block->group_frame;
	}
	block->has_group = false;
	block->accesses = false; /* what a function of ours touches, no address of a lane's tells */
	CN_PTX_EACH(&block->active, i)
	{
		const struct cn_ptx_function *callee;

		if (!target_of(block, inst, i, &target))
			return false;
		callee = &block->module->functions[target];
		if (callee->builtin ? !cn_ptx_builtin_call(block, callee->builtin, inst, i)
				    : !call_lane(block, inst, target, i))
			return false;
	}
	return true;
}

static void return_lane(struct cn_ptx_block *block, const struct cn_ptx_function *callee, uint32_t lane)
{
	uint32_t pc = ((const uint32_t *)cn_ptx_at(block, callee->return_at))[lane];
	const struct cn_ptx_function *caller = cn_ptx_function_at(block->module, pc);
	const struct cn_ptx_inst *inst = &caller->code[pc - caller->start];
	const struct cn_ptx_argument *results = caller->arguments + inst->more;
	uint32_t frame = block->group_frame - frame_bytes(caller);
	char *base = block->registers + (size_t)frame * block->stride;

	for (uint32_t k = 0; k < least(inst->count, callee->result_count); k++) {
		const struct cn_ptx_formal *formal = &callee->formals[k];

		memcpy(parameter_at(block, base, (uint32_t)results[k].at, results[k].bytes, results[k].is_register,
				    lane),
		       parameter_at(block, block->frame_base, formal->at, formal->bytes, formal->is_register, lane),
		       least(formal->bytes, results[k].bytes));
	}
	block->pc[lane] = pc + 1;
	block->frame[lane] = frame;
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

/* SPDX-License-Identifier: MIT */
/*
 * The sixteen barriers of a block.
 *
 * A lane that waits stays at its instruction until the barrier is complete; then it gets the barrier's result, if it
 * asked for one, and goes on. A barrier without a count waits for all lanes that have not ended.
 */
#include "ptx/ptx_block.h"

#include <string.h>

static uint64_t result_of(const struct cn_ptx_barrier_state *barrier, enum cn_ptx_barrier kind)
{
	switch (kind) {
	case CN_PTX_BAR_POPC: return barrier->true_count;
	case CN_PTX_BAR_AND: return barrier->true_count == barrier->red_count;
	default: return barrier->true_count != 0;
	}
}

static bool is_complete(const struct cn_ptx_block *block, const struct cn_ptx_barrier_state *barrier)
{
	return barrier->arrived && barrier->arrived >= (barrier->expected ? barrier->expected : block->live);
}

static void complete(struct cn_ptx_block *block, unsigned number)
{
	struct cn_ptx_barrier_state *barrier = &block->barriers[number];

	for (uint32_t i = 0; i < block->lanes; i++) {
		const struct cn_ptx_inst *inst;

		if (block->status[i] != CN_PTX_AT_BARRIER || block->barrier_of[i] != number)
			continue;
		inst = cn_ptx_inst_at(block->module, block->pc[i]);
		if (inst->operand[0] != CN_PTX_NONE)
			cn_ptx_write(cn_ptx_at_lane(block, i, inst->operand[0]), i, inst->width[0],
				     result_of(barrier, inst->detail));
		block->status[i] = CN_PTX_RUNS;
		block->pc[i]++;
		block->running++;
	}
	memset(barrier, 0, sizeof *barrier);
}

void cn_ptx_barrier_wake(struct cn_ptx_block *block)
{
	for (unsigned i = 0; i < CN_PTX_BARRIERS; i++)
		if (is_complete(block, &block->barriers[i]))
			complete(block, i);
}

/* One lane arrives. A barrier is complete with the lane that completes it: those that come later begin it anew. */
static bool arrive(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t lane)
{
	uint32_t number = (uint32_t)cn_ptx_lane_value(block, inst->operand[1], 4, lane);
	uint32_t count =
		inst->operand[2] == CN_PTX_NONE ? 0 : (uint32_t)cn_ptx_lane_value(block, inst->operand[2], 4, lane);
	struct cn_ptx_barrier_state *barrier = &block->barriers[number % CN_PTX_BARRIERS];

	if (number >= CN_PTX_BARRIERS || count > CN_PTX_THREADS_MAX)
		return cn_ptx_fault_at(block, CN_PTX_BARRIER, lane, number);
	barrier->arrived++;
	barrier->expected = count;
	if (inst->detail >= CN_PTX_BAR_POPC) {
		barrier->red_count++;
		barrier->true_count += (uint32_t)cn_ptx_lane_value(block, inst->operand[3], 1, lane);
	}
	if (inst->detail == CN_PTX_BAR_ARRIVE) {
		block->pc[lane]++;
	} else {
		block->status[lane] = CN_PTX_AT_BARRIER;
		block->barrier_of[lane] = (uint8_t)number;
		block->running--;
	}
	if (is_complete(block, barrier))
		complete(block, number);
	return true;
}

/* All lanes are here, at a barrier of all lanes, and want no result: none has to wait. */
static bool passes(const struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	const uint32_t *numbers = (const uint32_t *)cn_ptx_at(block, inst->operand[1]);

	return block->active.count == block->live && inst->operand[1] < 0 && inst->operand[2] == CN_PTX_NONE &&
	       inst->detail == CN_PTX_BAR_SYNC && numbers[block->active.low] < CN_PTX_BARRIERS &&
	       !block->barriers[numbers[block->active.low]].arrived;
}

bool cn_ptx_run_barrier(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, bool *ret_ok)
{
	if (passes(block, inst))
		return true;
	/* Lanes stay at the instruction until the barrier is complete; those whose guard does not hold go on. */
	CN_PTX_EACH(&block->group, i)
	{
		block->pc[i] = block->group_pc + 1;
		block->frame[i] = block->group_frame;
	}
	block->has_group = false;
	CN_PTX_EACH(&block->active, i)
	{
		block->pc[i] = block->group_pc;
	}
	CN_PTX_EACH(&block->active, i)
	{
		if (!arrive(block, inst, i)) {
			*ret_ok = false;
			return false;
		}
	}
	return false;
}

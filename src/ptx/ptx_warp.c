/* SPDX-License-Identifier: MIT */
/*
 * What the lanes of a warp do together: shuffles, votes, matches, reductions.
 *
 * Each names its members. Lanes wait until all members that have not ended are at the same instruction (at any warp
 * barrier, for warp barriers); then they are ready, run again, and execute it as one group.
 */
#include "ptx/ptx_block.h"

#include <string.h>

enum { WARP = 32 };

static uint32_t bits_of(const struct cn_ptx_lanes *lanes, uint32_t warp)
{
	uint32_t bits = 0;

	for (uint32_t i = 0; i < WARP; i++)
		if (warp + i >= lanes->low && warp + i < lanes->high)
			bits |= (uint32_t)(lanes->mask[warp + i] != 0) << i;
	return bits;
}

static uint32_t alive(const struct cn_ptx_block *block, uint32_t warp)
{
	uint32_t bits = 0;

	for (uint32_t i = 0; i < WARP && warp + i < block->lanes; i++)
		bits |= (uint32_t)(block->status[warp + i] != CN_PTX_ENDED) << i;
	return bits;
}

bool cn_ptx_warp_meet(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, struct cn_ptx_lanes *lanes)
{
	const uint32_t *members = (const uint32_t *)cn_ptx_at(block, inst->operand[CN_PTX_MEMBERS]);
	uint32_t waiting = 0;

	if (lanes->count == block->live)
		return true;
	memset(block->met, 0, block->stride);
	for (uint32_t warp = lanes->low & ~(WARP - 1u); warp < lanes->high; warp += WARP) {
		uint32_t here = bits_of(lanes, warp), living = here ? alive(block, warp) : 0;

		for (uint32_t i = 0; i < WARP; i++) {
			uint32_t lane = warp + i;

			if (!(here >> i & 1))
				continue;
			if (block->ready[lane] || !(members[lane] & living & ~here)) {
				block->ready[lane] = 0;
				block->met[lane] = 1;
			} else {
				block->status[lane] = CN_PTX_AT_WARP;
				waiting++;
			}
		}
	}
	block->running -= waiting;
	lanes->mask = block->met;
	lanes->count -= waiting;
	lanes->dense = false;
	return !waiting;
}

/* Which lanes of its warp stand where this one does? */
static uint32_t companions(const struct cn_ptx_block *block, uint32_t warp, uint32_t lane)
{
	const struct cn_ptx_module *module = block->module;
	bool is_barrier = cn_ptx_inst_at(module, block->pc[lane])->kind == CN_PTX_I_WARP_BARRIER;
	uint32_t bits = 0;

	for (uint32_t i = warp; i < warp + WARP && i < block->lanes; i++) {
		if (block->status[i] != CN_PTX_AT_WARP)
			continue;
		if (is_barrier ? cn_ptx_inst_at(module, block->pc[i])->kind == CN_PTX_I_WARP_BARRIER
			       : block->pc[i] == block->pc[lane] && block->frame[i] == block->frame[lane])
			bits |= 1u << (i - warp);
	}
	return bits;
}

static void wake(struct cn_ptx_block *block, uint32_t warp, uint32_t bits, bool is_barrier)
{
	for (uint32_t i = 0; i < WARP; i++)
		if (bits >> i & 1) {
			block->status[warp + i] = CN_PTX_RUNS;
			block->ready[warp + i] = !is_barrier;
			block->pc[warp + i] += is_barrier;
			block->running++;
		}
}

void cn_ptx_warp_wake(struct cn_ptx_block *block)
{
	for (uint32_t lane = 0; lane < block->lanes; lane++) {
		uint32_t warp = lane & ~(WARP - 1u), members, here;
		const struct cn_ptx_inst *inst;

		if (block->status[lane] != CN_PTX_AT_WARP)
			continue;
		inst = cn_ptx_inst_at(block->module, block->pc[lane]);
		members = ((const uint32_t *)cn_ptx_at_lane(block, lane, inst->operand[CN_PTX_MEMBERS]))[lane];
		members &= alive(block, warp);
		here = companions(block, warp, lane);
		if (!(members & ~here))
			wake(block, warp, (members | 1u << (lane - warp)) & here, inst->kind == CN_PTX_I_WARP_BARRIER);
	}
}

/* ---- What they do ------------------------------------------------------------------------------------------------ */

static void shuffle(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t warp, uint32_t here)
{
	const uint32_t *a = (const uint32_t *)cn_ptx_at(block, inst->operand[1]) + warp;
	const uint32_t *b = (const uint32_t *)cn_ptx_at(block, inst->operand[2]) + warp;
	const uint32_t *c = (const uint32_t *)cn_ptx_at(block, inst->operand[3]) + warp;
	uint32_t *d = (uint32_t *)cn_ptx_at(block, inst->operand[0]) + warp;
	uint8_t *p = inst->operand[4] == CN_PTX_NONE ? NULL : (uint8_t *)cn_ptx_at(block, inst->operand[4]) + warp;
	uint32_t from[WARP], result[WARP];
	bool inside[WARP];

	/* PTX promises nothing of lanes that are elsewhere. Sums over part of a warp rely on 0, which GPUs give. */
	for (int i = 0; i < WARP; i++)
		from[i] = here >> i & 1 ? a[i] : 0;
	for (int i = 0; i < WARP; i++) {
		int by = (int)(b[i] & 31), clamp = (int)(c[i] & 31), segment = (int)(c[i] >> 8 & 31);
		int most = (i & segment) | (clamp & ~segment), j;

		switch (inst->detail) {
		case CN_PTX_SHFL_UP:
			j = i - by;
			inside[i] = j >= most;
			break;
		case CN_PTX_SHFL_DOWN:
			j = i + by;
			inside[i] = j <= most;
			break;
		case CN_PTX_SHFL_BFLY:
			j = i ^ by;
			inside[i] = j <= most;
			break;
		default:
			j = (i & segment) | (by & ~segment);
			inside[i] = j <= most;
			break;
		}
		result[i] = from[inside[i] ? j & 31 : i];
	}
	for (int i = 0; i < WARP; i++)
		if (here >> i & 1) {
			d[i] = result[i];
			if (p)
				p[i] = inside[i];
		}
}

static uint32_t ballot(const uint8_t *predicates, uint32_t members)
{
	uint32_t bits = 0;

	for (uint32_t i = 0; i < WARP; i++)
		bits |= (members >> i & 1) & predicates[i] ? 1u << i : 0;
	return bits;
}

static void vote(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t warp, uint32_t here)
{
	const uint32_t *members = (const uint32_t *)cn_ptx_at(block, inst->operand[CN_PTX_MEMBERS]) + warp;
	uint8_t predicates[WARP];

	memcpy(predicates, cn_ptx_at(block, inst->operand[1]) + warp, sizeof predicates);
	for (uint32_t i = 0; i < WARP; i++) {
		uint32_t all, bits;

		if (!(here >> i & 1))
			continue;
		all = members[i] & here;
		bits = ballot(predicates, all);
		switch (inst->detail) {
		case CN_PTX_VOTE_ALL: bits = bits == all; break;
		case CN_PTX_VOTE_ANY: bits = bits != 0; break;
		case CN_PTX_VOTE_UNI: bits = bits == all || !bits; break;
		default: break;
		}
		cn_ptx_write(cn_ptx_at(block, inst->operand[0]), warp + i, inst->width[0], bits);
	}
}

static void match(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t warp, uint32_t here)
{
	const uint32_t *members = (const uint32_t *)cn_ptx_at(block, inst->operand[CN_PTX_MEMBERS]) + warp;
	uint64_t values[WARP];

	for (uint32_t i = 0; i < WARP; i++)
		values[i] = here >> i & 1 ? cn_ptx_lane_value(block, inst->operand[1], inst->width[1], warp + i) : 0;
	for (uint32_t i = 0; i < WARP; i++) {
		uint32_t same = 0, all = members[i] & here;

		if (!(here >> i & 1))
			continue;
		for (uint32_t j = 0; j < WARP; j++)
			same |= (uint32_t)((all >> j & 1) && values[j] == values[i]) << j;
		if (inst->detail == CN_PTX_VOTE_ALL) {
			if (inst->operand[4] != CN_PTX_NONE)
				cn_ptx_write(cn_ptx_at(block, inst->operand[4]), warp + i, 1, same == all);
			same = same == all ? all : 0;
		}
		cn_ptx_write(cn_ptx_at(block, inst->operand[0]), warp + i, 4, same);
	}
}

static void redux(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t warp, uint32_t here)
{
	const uint32_t *members = (const uint32_t *)cn_ptx_at(block, inst->operand[CN_PTX_MEMBERS]) + warp;
	uint32_t values[WARP];

	memcpy(values, (const uint32_t *)cn_ptx_at(block, inst->operand[1]) + warp, sizeof values);
	for (uint32_t i = 0; i < WARP; i++) {
		uint32_t all = members[i] & here, result = 0;
		bool first = true;

		if (!(here >> i & 1))
			continue;
		for (uint32_t j = 0; j < WARP; j++)
			if (all >> j & 1) {
				result = first ? values[j] : cn_ptx_reduce(inst->detail, inst->type, result, values[j]);
				first = false;
			}
		cn_ptx_write(cn_ptx_at(block, inst->operand[0]), warp + i, 4, result);
	}
}

static void elect(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t warp, uint32_t here)
{
	const uint32_t *members = (const uint32_t *)cn_ptx_at(block, inst->operand[CN_PTX_MEMBERS]) + warp;

	for (uint32_t i = 0; i < WARP; i++) {
		uint32_t all = members[i] & here, leader = all ? (uint32_t)__builtin_ctz(all) : i;

		if (!(here >> i & 1))
			continue;
		cn_ptx_write(cn_ptx_at(block, inst->operand[0]), warp + i, 4, leader);
		if (inst->operand[4] != CN_PTX_NONE)
			cn_ptx_write(cn_ptx_at(block, inst->operand[4]), warp + i, 1, leader == i);
	}
}

void cn_ptx_run_warp(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, const struct cn_ptx_lanes *lanes)
{
	for (uint32_t warp = lanes->low & ~(WARP - 1u); warp < lanes->high; warp += WARP) {
		uint32_t here = bits_of(lanes, warp);

		if (!here)
			continue;
		switch (inst->kind) {
		case CN_PTX_I_SHUFFLE: shuffle(block, inst, warp, here); break;
		case CN_PTX_I_VOTE: vote(block, inst, warp, here); break;
		case CN_PTX_I_MATCH: match(block, inst, warp, here); break;
		case CN_PTX_I_REDUX: redux(block, inst, warp, here); break;
		default: elect(block, inst, warp, here); break;
		}
	}
}

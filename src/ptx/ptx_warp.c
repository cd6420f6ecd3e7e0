/* SPDX-License-Identifier: MIT */
/*
 * What the lanes of a warp do together: shuffles, votes, matches, reductions.
 *
 * Each names its members. Lanes wait until all members that have not ended are at the same instruction; then they are
 * ready, run again, and execute it as one group. Members may also be at different instructions of the same kind, with
 * the same qualifiers: PTX asks for no more. Nobody else can come then, and what each lane brings is gathered from
 * where it is.
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

	if (lanes->count == block->live) {
		memset(block->ready + lanes->low, 0, lanes->high - lanes->low); /* what some had waited for is this */
		return true;
	}
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

/* Do two instructions have the same kind and qualifiers? */
static bool are_alike(const struct cn_ptx_inst *a, const struct cn_ptx_inst *b)
{
	return a->kind == b->kind && a->detail == b->detail && a->type == b->type && a->width[1] == b->width[1];
}

/* Which lanes of its warp wait where this one does, and which at an instruction of the same kind? */
static uint32_t companions(const struct cn_ptx_block *block, uint32_t warp, uint32_t lane, uint32_t *ret_alike)
{
	const struct cn_ptx_module *module = block->module;
	const struct cn_ptx_inst *inst = cn_ptx_inst_at(module, block->pc[lane]);
	uint32_t here = 0, alike = 0;

	for (uint32_t i = warp; i < warp + WARP && i < block->lanes; i++) {
		if (block->status[i] != CN_PTX_AT_WARP)
			continue;
		if (block->pc[i] == block->pc[lane] && block->frame[i] == block->frame[lane])
			here |= 1u << (i - warp);
		else if (are_alike(inst, cn_ptx_inst_at(module, block->pc[i])))
			alike |= 1u << (i - warp);
	}
	*ret_alike = here | alike;
	return here;
}

/* `past`: they have done what they waited for. */
static void wake(struct cn_ptx_block *block, uint32_t warp, uint32_t bits, bool past)
{
	for (uint32_t i = 0; i < WARP; i++)
		if (bits >> i & 1) {
			block->status[warp + i] = CN_PTX_RUNS;
			block->ready[warp + i] = !past;
			block->pc[warp + i] += past;
			block->running++;
		}
}

static void run_apart(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t warp, uint32_t bits);

void cn_ptx_warp_wake(struct cn_ptx_block *block)
{
	for (uint32_t lane = 0; lane < block->lanes; lane++) {
		uint32_t warp = lane & ~(WARP - 1u), members, here, alike, own = 1u << (lane - warp);
		const struct cn_ptx_inst *inst;

		if (block->status[lane] != CN_PTX_AT_WARP)
			continue;
		inst = cn_ptx_inst_at(block->module, block->pc[lane]);
		members = ((const uint32_t *)cn_ptx_at_lane(block, lane, inst->operand[CN_PTX_MEMBERS]))[lane];
		members &= alive(block, warp);
		here = companions(block, warp, lane, &alike);
		if (members & ~alike)
			continue;
		if (inst->kind == CN_PTX_I_WARP_BARRIER) {
			wake(block, warp, (members | own) & alike, true);
		} else if (!(members & ~here)) {
			wake(block, warp, (members | own) & here, false);
		} else {
			run_apart(block, inst, warp, (members | own) & alike);
			wake(block, warp, (members | own) & alike, true);
		}
	}
}

/* ---- What they do ------------------------------------------------------------------------------------------------ */

/* What lanes of a warp bring, and what they get. */
struct exchange {
	uint32_t here; /* those that take part */
	uint64_t a[WARP];
	uint32_t b[WARP], c[WARP], members[WARP];
	uint64_t d[WARP];
	uint8_t p[WARP];
};

static void shuffle(struct exchange *exchange, uint32_t mode)
{
	/* PTX promises nothing of lanes that are elsewhere. Sums over part of a warp rely on 0, which GPUs give. */
	for (int i = 0; i < WARP; i++)
		exchange->a[i] = exchange->here >> i & 1 ? exchange->a[i] : 0;
	for (int i = 0; i < WARP; i++) {
		uint32_t c = exchange->c[i];
		int by = (int)(exchange->b[i] & 31), clamp = (int)(c & 31), segment = (int)(c >> 8 & 31);
		int most = (i & segment) | (clamp & ~segment), j;
		bool inside;

		switch (mode) {
		case CN_PTX_SHFL_UP:
			j = i - by;
			inside = j >= most;
			break;
		case CN_PTX_SHFL_DOWN:
			j = i + by;
			inside = j <= most;
			break;
		case CN_PTX_SHFL_BFLY:
			j = i ^ by;
			inside = j <= most;
			break;
		default:
			j = (i & segment) | (by & ~segment);
			inside = j <= most;
			break;
		}
		exchange->d[i] = exchange->a[inside ? j & 31 : i];
		exchange->p[i] = inside;
	}
}

static void vote(struct exchange *exchange, uint32_t mode)
{
	uint32_t votes = 0;

	for (uint32_t i = 0; i < WARP; i++)
		votes |= (uint32_t)(exchange->a[i] & 1) << i;
	for (uint32_t i = 0; i < WARP; i++) {
		uint32_t all = exchange->members[i] & exchange->here, bits = votes & all;

		switch (mode) {
		case CN_PTX_VOTE_ALL: bits = bits == all; break;
		case CN_PTX_VOTE_ANY: bits = bits != 0; break;
		case CN_PTX_VOTE_UNI: bits = bits == all || !bits; break;
		default: break;
		}
		exchange->d[i] = bits;
	}
}

static void match(struct exchange *exchange, uint32_t mode)
{
	for (uint32_t i = 0; i < WARP; i++) {
		uint32_t same = 0, all = exchange->members[i] & exchange->here;

		for (uint32_t j = 0; j < WARP; j++)
			same |= (uint32_t)((all >> j & 1) && exchange->a[j] == exchange->a[i]) << j;
		exchange->p[i] = same == all;
		exchange->d[i] = mode == CN_PTX_VOTE_ALL && same != all ? 0 : same;
	}
}

static void redux(struct exchange *exchange, const struct cn_ptx_inst *inst)
{
	for (uint32_t i = 0; i < WARP; i++) {
		uint32_t all = exchange->members[i] & exchange->here, result = 0;
		bool first = true;

		if (!(exchange->here >> i & 1))
			continue;
		for (uint32_t j = 0; j < WARP; j++)
			if (all >> j & 1) {
				uint32_t value = (uint32_t)exchange->a[j];

				result = first ? value : cn_ptx_reduce(inst->detail, inst->type, result, value);
				first = false;
			}
		exchange->d[i] = result;
	}
}

static void elect(struct exchange *exchange)
{
	for (uint32_t i = 0; i < WARP; i++) {
		uint32_t all = exchange->members[i] & exchange->here, leader = all ? (uint32_t)__builtin_ctz(all) : i;

		exchange->d[i] = leader;
		exchange->p[i] = leader == i;
	}
}

static void run_exchange(const struct cn_ptx_inst *inst, struct exchange *exchange)
{
	switch (inst->kind) {
	case CN_PTX_I_SHUFFLE: shuffle(exchange, inst->detail); break;
	case CN_PTX_I_VOTE: vote(exchange, inst->detail); break;
	case CN_PTX_I_MATCH: match(exchange, inst->detail); break;
	case CN_PTX_I_REDUX: redux(exchange, inst); break;
	default: elect(exchange); break;
	}
}

static unsigned result_width(const struct cn_ptx_inst *inst)
{
	return inst->kind == CN_PTX_I_VOTE ? inst->width[0] : 4;
}

static unsigned value_width(const struct cn_ptx_inst *inst)
{
	return inst->kind == CN_PTX_I_SHUFFLE || inst->kind == CN_PTX_I_REDUX ? 4 : inst->width[1];
}

/* Each of these lanes is at an instruction of its own, of the same kind. */
static void run_apart(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t warp, uint32_t bits)
{
	struct exchange exchange = {.here = bits};

	for (uint32_t i = 0; i < WARP; i++) {
		uint32_t lane = warp + i;

		if (!(bits >> i & 1))
			continue;
		const struct cn_ptx_inst *own = cn_ptx_inst_at(block->module, block->pc[lane]);
		if (own->kind != CN_PTX_I_ELECT)
			exchange.a[i] =
				cn_ptx_read(cn_ptx_at_lane(block, lane, own->operand[1]), lane, value_width(own));
		if (own->kind == CN_PTX_I_SHUFFLE) {
			exchange.b[i] = (uint32_t)cn_ptx_read(cn_ptx_at_lane(block, lane, own->operand[2]), lane, 4);
			exchange.c[i] = (uint32_t)cn_ptx_read(cn_ptx_at_lane(block, lane, own->operand[3]), lane, 4);
		}
		exchange.members[i] =
			(uint32_t)cn_ptx_read(cn_ptx_at_lane(block, lane, own->operand[CN_PTX_MEMBERS]), lane, 4);
	}
	run_exchange(inst, &exchange);
	for (uint32_t i = 0; i < WARP; i++) {
		uint32_t lane = warp + i;

		if (!(bits >> i & 1))
			continue;
		const struct cn_ptx_inst *own = cn_ptx_inst_at(block->module, block->pc[lane]);
		cn_ptx_write(cn_ptx_at_lane(block, lane, own->operand[0]), lane, result_width(own), exchange.d[i]);
		if (own->operand[4] != CN_PTX_NONE)
			cn_ptx_write(cn_ptx_at_lane(block, lane, own->operand[4]), lane, 1, exchange.p[i]);
	}
}

/* All of `here` are at this instruction. */
static void run_together(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t warp, uint32_t here)
{
	struct exchange exchange = {.here = here};

	if (inst->kind != CN_PTX_I_ELECT)
		for (uint32_t i = 0; i < WARP; i++)
			exchange.a[i] = cn_ptx_lane_value(block, inst->operand[1], value_width(inst), warp + i);
	if (inst->kind == CN_PTX_I_SHUFFLE) {
		memcpy(exchange.b, (const uint32_t *)cn_ptx_at(block, inst->operand[2]) + warp, sizeof exchange.b);
		memcpy(exchange.c, (const uint32_t *)cn_ptx_at(block, inst->operand[3]) + warp, sizeof exchange.c);
	} else {
		memcpy(exchange.members, (const uint32_t *)cn_ptx_at(block, inst->operand[CN_PTX_MEMBERS]) + warp,
		       sizeof exchange.members);
	}
	run_exchange(inst, &exchange);
	for (uint32_t i = 0; i < WARP; i++)
		if (here >> i & 1) {
			cn_ptx_write(cn_ptx_at(block, inst->operand[0]), warp + i, result_width(inst), exchange.d[i]);
			if (inst->operand[4] != CN_PTX_NONE)
				cn_ptx_write(cn_ptx_at(block, inst->operand[4]), warp + i, 1, exchange.p[i]);
		}
}

void cn_ptx_run_warp(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, const struct cn_ptx_lanes *lanes)
{
	for (uint32_t warp = lanes->low & ~(WARP - 1u); warp < lanes->high; warp += WARP) {
		uint32_t here = bits_of(lanes, warp);

		if (!here)
			continue;
		run_together(block, inst, warp, here);
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * mbarrier: barriers that lie in shared memory, 64 bits each, and count arrivals and bytes.
 *
 * PTX leaves open what the bits mean. Ours: how many arrivals are pending (20 bits), how many a phase begins with (20),
 * the bytes that are expected and have not come (21, signed), the phase (3). A phase is complete when neither arrivals
 * nor bytes are pending. What arrive() returns is the word as it was: a wait for it is over when the phase is another.
 * Copies are made at once (ptx_memory.c), so what is to come later has come when it is asked for.
 *
 * The lanes of a block are run by one thread: nothing here needs to be atomic.
 */
#include "ptx/ptx_block.h"

#include <string.h>

enum { COUNT_BITS = 20, BYTES_BITS = 21 };
static const uint64_t COUNT_MASK = (1u << COUNT_BITS) - 1, BYTES_MASK = (1u << BYTES_BITS) - 1;

struct state {
	uint64_t pending, expected, bytes, phase;
};

static struct state unpack(uint64_t word)
{
	return (struct state){.pending = word & COUNT_MASK,
			      .expected = word >> COUNT_BITS & COUNT_MASK,
			      .bytes = word >> 2 * COUNT_BITS & BYTES_MASK,
			      .phase = word >> (2 * COUNT_BITS + BYTES_BITS)};
}

static uint64_t pack(struct state state)
{
	if (!state.pending && !(state.bytes & BYTES_MASK)) {
		state.phase++;
		state.pending = state.expected;
	}
	return (state.pending & COUNT_MASK) | (state.expected & COUNT_MASK) << COUNT_BITS |
	       (state.bytes & BYTES_MASK) << 2 * COUNT_BITS | state.phase << (2 * COUNT_BITS + BYTES_BITS);
}

/* Returns the result, and whether the operation is one that PTX allows in this state. */
static bool apply(uint64_t *word, enum cn_ptx_mbarrier op, uint64_t value, uint64_t *ret_result)
{
	struct state state = unpack(*word);

	*ret_result = *word;
	switch (op) {
	case CN_PTX_MBAR_INIT:
		if (!value || value > COUNT_MASK)
			return false;
		*word = value | value << COUNT_BITS;
		return true;
	case CN_PTX_MBAR_INVAL: *word = 0; return true;
	case CN_PTX_MBAR_ARRIVE_TX:
		state.bytes += value;
		value = 1;
		/* fall through */
	case CN_PTX_MBAR_ARRIVE:
	case CN_PTX_MBAR_DROP:
		if (value > state.pending)
			return false;
		state.pending -= value;
		state.expected -= op == CN_PTX_MBAR_DROP ? value : 0;
		break;
	case CN_PTX_MBAR_EXPECT_TX: state.bytes += value; break;
	case CN_PTX_MBAR_COMPLETE_TX: state.bytes -= value; break;
	case CN_PTX_MBAR_TEST: *ret_result = unpack(value).phase != state.phase; return true;
	default: *ret_result = (state.phase & 1) != (value & 1); return true;
	}
	*word = pack(state);
	return true;
}

bool cn_ptx_run_mbarrier(struct cn_ptx_block *block, const struct cn_ptx_inst *inst)
{
	bool waits = inst->detail == CN_PTX_MBAR_TEST || inst->detail == CN_PTX_MBAR_TEST_PARITY;

	block->quantum -= waits ? CN_PTX_POLL : 0;
	if (!cn_ptx_find_addresses(block, inst, 8))
		return false;
	CN_PTX_EACH(&block->active, i)
	{
		uint64_t value = inst->operand[2] == CN_PTX_NONE
					 ? 1
					 : cn_ptx_lane_value(block, inst->operand[2], inst->width[2], i);
		uint64_t word, result;

		memcpy(&word, (const void *)(uintptr_t)block->addresses[i], sizeof word);
		if (!apply(&word, inst->detail, value, &result))
			return cn_ptx_fault_at(block, CN_PTX_BARRIER, i, block->addresses[i]);
		if (!waits)
			memcpy((void *)(uintptr_t)block->addresses[i], &word, sizeof word);
		if (inst->operand[0] != CN_PTX_NONE)
			cn_ptx_write(cn_ptx_at(block, inst->operand[0]), i, inst->width[0], result);
	}
	return true;
}

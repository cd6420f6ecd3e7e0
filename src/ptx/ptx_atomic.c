/* SPDX-License-Identifier: MIT */
/*
 * Atomics, of any scope: the processor's, sequentially consistent, so that kernels of several processes meet in memory
 * that they share.
 */
#include "ptx/ptx_block.h"
#include "ptx/ptx_lane.h"

static int64_t as_signed(uint64_t value, enum cn_ptx_type type)
{
	return cn_ptx_type_bytes(type) == 4 ? (int32_t)value : (int64_t)value;
}

/* Sums of f32 in global memory are flushed; those in shared memory are not. */
static uint64_t apply(enum cn_ptx_operation op, enum cn_ptx_type type, uint64_t old, uint64_t b, bool is_shared)
{
	bool is_signed = cn_ptx_type_is_signed(type), less;

	if (cn_ptx_type_is_float(type)) {
		unsigned how = op == CN_PTX_OP_ADD ? CN_PTX_F_ADD : op == CN_PTX_OP_MIN ? CN_PTX_F_MIN : CN_PTX_F_MAX;
		uint32_t detail =
			CN_PTX_DETAIL(type, CN_PTX_RN, type == CN_PTX_F32 && !is_shared ? CN_PTX_FLAG_FTZ : 0, how);

		return type == CN_PTX_F32 || type == CN_PTX_F64 ? cn_ptx_lane_float(old, b, 0, detail)
								: cn_ptx_lane_half(old, b, 0, detail);
	}
	less = is_signed ? as_signed(b, type) < as_signed(old, type) : b < old;
	switch (op) {
	case CN_PTX_OP_AND: return old & b;
	case CN_PTX_OP_OR: return old | b;
	case CN_PTX_OP_XOR: return old ^ b;
	case CN_PTX_OP_EXCH: return b;
	case CN_PTX_OP_ADD: return old + b;
	case CN_PTX_OP_INC: return old >= b ? 0 : old + 1;
	case CN_PTX_OP_DEC: return old == 0 || old > b ? b : old - 1;
	case CN_PTX_OP_MIN: return less ? b : old;
	default: return less ? old : (b == old ? old : b);
	}
}

uint32_t cn_ptx_reduce(enum cn_ptx_operation op, enum cn_ptx_type type, uint32_t a, uint32_t b)
{
	return (uint32_t)apply(op, type, a, b, false);
}

/* b is compared, and c stored, of a CAS. NOLINTBEGIN(bugprone-macro-parentheses): T is a type */
#define CHANGE(T)                                                                                                      \
	{                                                                                                              \
		T *word = at;                                                                                          \
		T old = __atomic_load_n(word, __ATOMIC_RELAXED), new;                                                  \
                                                                                                                       \
		do {                                                                                                   \
			new = (T)(op == CN_PTX_OP_CAS ? (old == (T)b ? c : old) : apply(op, type, old, b, is_shared)); \
		} while (!__atomic_compare_exchange_n(word, &old, new, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));     \
		return old;                                                                                            \
	}

/* NOLINTEND(bugprone-macro-parentheses) */

CN_PTX_FOLLOWS uint64_t cn_ptx_atomic(void *at, enum cn_ptx_operation op, enum cn_ptx_type type, uint64_t b, uint64_t c,
				      bool is_shared)
{
	bool is_sum = op == CN_PTX_OP_ADD && !cn_ptx_type_is_float(type);

	switch (cn_ptx_type_bytes(type)) {
	case 2: CHANGE(uint16_t)
	case 4:
		if (is_sum)
			return __atomic_fetch_add((uint32_t *)at, (uint32_t)b, __ATOMIC_SEQ_CST);
		CHANGE(uint32_t)
	default:
		if (is_sum)
			return __atomic_fetch_add((uint64_t *)at, b, __ATOMIC_SEQ_CST);
		CHANGE(uint64_t)
	}
}

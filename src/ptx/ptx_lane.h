/* SPDX-License-Identifier: MIT */
/*
 * Rare arithmetic: functions of one lane's values, each as 64 bits of which the operand's width counts.
 *
 * `detail` tells a function its type, rounding and flags, as CN_PTX_DETAIL packs them.
 */
#ifndef CN_PTX_PTX_LANE_H
#define CN_PTX_PTX_LANE_H

#include "ptx/ptx_ir.h"

enum {
	CN_PTX_FLAG_FTZ = 1,
	CN_PTX_FLAG_SAT = 2,
	CN_PTX_FLAG_NAN = 4,
	CN_PTX_FLAG_RELU = 8,
	CN_PTX_FLAG_HIGH = 16,  /* the upper half of a product; dp2a.hi */
	CN_PTX_FLAG_SHIFT = 32, /* bfind.shiftamt */
	CN_PTX_FLAG_SIGNED_B = 64,
};

/* type and second type: 8 bits each; flags: 8; op or rounding: 8. */
#define CN_PTX_DETAIL(type, second, flags, op) \
	((uint32_t)(type) | (uint32_t)(second) << 8 | (uint32_t)(flags) << 16 | (uint32_t)(op) << 24)
#define CN_PTX_DETAIL_TYPE(detail)   ((enum cn_ptx_type)((detail)&0xff))
#define CN_PTX_DETAIL_SECOND(detail) ((detail) >> 8 & 0xff)
#define CN_PTX_DETAIL_FLAGS(detail)  ((detail) >> 16 & 0xff)
#define CN_PTX_DETAIL_OP(detail)     ((detail) >> 24)

/* Operations of floats: CN_PTX_DETAIL's op; its second is the rounding, or the comparison. */
enum cn_ptx_float_op {
	CN_PTX_F_ADD,
	CN_PTX_F_SUB,
	CN_PTX_F_MUL,
	CN_PTX_F_FMA,
	CN_PTX_F_DIV,
	CN_PTX_F_SQRT,
	CN_PTX_F_RCP,
	CN_PTX_F_MIN,
	CN_PTX_F_MAX,
	CN_PTX_F_NEG,
	CN_PTX_F_ABS,
	CN_PTX_F_RSQRT,
	CN_PTX_F_SIN,
	CN_PTX_F_COS,
	CN_PTX_F_LG2,
	CN_PTX_F_EX2,
	CN_PTX_F_TANH,
	CN_PTX_F_COPYSIGN,
};

/* ptx_lane_float.c */
uint64_t cn_ptx_lane_float(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_half(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
/* 1 where the comparison holds; of packed halves, bit 1 for the upper ones. */
uint64_t cn_ptx_lane_compare(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
/* The result of set: all ones or 1.0 of type, for a of 0 or 1. */
uint64_t cn_ptx_lane_set(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_testp(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
/* c is compared with zero. */
uint64_t cn_ptx_lane_slct(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);

/* ptx_convert.c: from second to type; op is the rounding */
uint64_t cn_ptx_lane_convert(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
/* Two floats to a packed pair: a is the upper one. */
uint64_t cn_ptx_lane_convert_pair(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
double cn_ptx_half_to_double(uint32_t bits, bool is_bf16);
uint32_t cn_ptx_double_to_half(double value, bool is_bf16, enum cn_ptx_rounding rounding);
/* The same number, with its last bit set where something was lost: rounding it again is as rounding once. */
double cn_ptx_sum_to_odd(double a, double b);

/* ptx_lane_integer.c */
uint64_t cn_ptx_lane_saturate(uint64_t a, uint64_t b, uint64_t c, uint32_t detail); /* op: CN_PTX_F_ADD, SUB, FMA */
uint64_t cn_ptx_lane_mad_high(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_mul24(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_sad(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_popc(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_clz(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_brev(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_bfind(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_bfe(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_bfi(uint64_t a, uint64_t b, uint64_t c, uint32_t detail); /* c: as lane_pack makes it */
uint64_t cn_ptx_lane_pack(uint64_t a, uint64_t b, uint64_t c,
			  uint32_t detail); /* position and length, for bfi; detail: the most they can be */
uint64_t cn_ptx_lane_fns(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_cnot(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_prmt(uint64_t a, uint64_t b, uint64_t c, uint32_t detail); /* second: enum cn_ptx_mode */
uint64_t cn_ptx_lane_dot(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);  /* op: elements, 4 or 2 */
uint64_t cn_ptx_lane_bmsk(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_szext(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_pair(uint64_t a, uint64_t b, uint64_t c, uint32_t detail); /* min and max of 16-bit pairs */
/* Move a piece: (a >> op) of the result's width; and the other way round: a | b << op. */
uint64_t cn_ptx_lane_piece(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
uint64_t cn_ptx_lane_join(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);
/* The same bits in a register of another width, as a signed or unsigned number of a type. */
uint64_t cn_ptx_lane_extend(uint64_t a, uint64_t b, uint64_t c, uint32_t detail);

#endif

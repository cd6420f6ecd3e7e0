/* SPDX-License-Identifier: MIT */
/*
 * Builders of arithmetic: of integers and of floats of all widths.
 */
#include "ptx/ptx_build.h"

static unsigned width_index(struct cn_ptx_parser *parser, enum cn_ptx_type type)
{
	switch (cn_ptx_type_bytes(type)) {
	case 2: return 0;
	case 4: return 1;
	case 8: return 2;
	default: cn_ptx_unsupported(parser);
	}
}

enum cn_ptx_kernel_index cn_ptx_kernel_by_width(struct cn_ptx_parser *parser, enum cn_ptx_kernel_index first,
						enum cn_ptx_type type)
{
	return (enum cn_ptx_kernel_index)((unsigned)first + width_index(parser, type));
}

/* The first of six: for 16, 32 and 64 bits, signed before unsigned. */
static enum cn_ptx_kernel_index by_sign(struct cn_ptx_parser *parser, enum cn_ptx_kernel_index first,
					enum cn_ptx_type type)
{
	return (enum cn_ptx_kernel_index)((unsigned)first + 2 * width_index(parser, type) +
					  !cn_ptx_type_is_signed(type));
}

static unsigned flags_of(const struct cn_ptx_modifiers *mods)
{
	return (mods->ftz ? CN_PTX_FLAG_FTZ : 0u) | (mods->sat ? CN_PTX_FLAG_SAT : 0u) |
	       (mods->nan ? CN_PTX_FLAG_NAN : 0u) | (mods->relu ? CN_PTX_FLAG_RELU : 0u);
}

/* d and up to three sources of one type. */
static void operands_of(struct cn_ptx_parser *parser, enum cn_ptx_type type, unsigned count, cn_ptx_operand ret[4])
{
	cn_ptx_want(parser, count, count);
	for (unsigned i = 1; i < 4; i++)
		ret[i] = i < count ? cn_ptx_source(parser, &parser->args[i].value, type) : CN_PTX_NONE;
	ret[0] = cn_ptx_result(parser, &parser->args[0].value, type);
}

static void emit_same_width(struct cn_ptx_parser *parser, cn_ptx_lane *lane, const cn_ptx_operand operands[4],
			    enum cn_ptx_type type, uint32_t detail)
{
	uint8_t widths[4];

	for (unsigned i = 0; i < 4; i++)
		widths[i] = operands[i] == CN_PTX_NONE ? 0 : (uint8_t)cn_ptx_type_bytes(type);
	cn_ptx_emit_lane(parser, lane, operands, widths, detail);
}

/* ---- Floats ------------------------------------------------------------------------------------------------------ */

static unsigned operand_count(unsigned op)
{
	switch (op) {
	case CN_PTX_F_FMA: return 4;
	case CN_PTX_F_SQRT:
	case CN_PTX_F_RCP:
	case CN_PTX_F_NEG:
	case CN_PTX_F_ABS: return 2;
	default: return 3;
	}
}

static void build_half(struct cn_ptx_parser *parser, enum cn_ptx_type type, unsigned op)
{
	cn_ptx_operand operands[4];

	if (op == CN_PTX_F_DIV || op == CN_PTX_F_SQRT || op == CN_PTX_F_RCP || parser->mods.rounding > CN_PTX_RN)
		cn_ptx_unsupported(parser);
	operands_of(parser, type, operand_count(op), operands);
	emit_same_width(parser, cn_ptx_lane_half, operands, type,
			CN_PTX_DETAIL(type, parser->mods.rounding, flags_of(&parser->mods), op));
}

static void build_float(struct cn_ptx_parser *parser, enum cn_ptx_type type, unsigned op)
{
	const struct cn_ptx_modifiers *mods = &parser->mods;
	enum cn_ptx_kernel_index first;
	cn_ptx_operand operands[4], result;

	if (mods->relu || mods->half || mods->cc || mods->rounding > CN_PTX_RP || (type == CN_PTX_F64 && mods->sat))
		cn_ptx_unsupported(parser);
	operands_of(parser, type, operand_count(op), operands);
	if (type == CN_PTX_F64 && mods->ftz) {
		if (op != CN_PTX_F_RCP || !mods->approx)
			cn_ptx_unsupported(parser);
		emit_same_width(parser, cn_ptx_lane_float, operands, type,
				CN_PTX_DETAIL(type, 0, CN_PTX_FLAG_HIGH, op));
		return;
	}
	if (mods->rounding > CN_PTX_RN || mods->nan) {
		emit_same_width(parser, cn_ptx_lane_float, operands, type,
				CN_PTX_DETAIL(type, mods->rounding, flags_of(mods), op));
		return;
	}
	first = type == CN_PTX_F64 ? CN_PTX_K_add_f64 : mods->ftz ? CN_PTX_K_add_f32_ftz : CN_PTX_K_add_f32;
	result = operands[0];
	if (mods->sat)
		operands[0] = cn_ptx_temporary(parser, 4);
	cn_ptx_emit_kernel(parser, (enum cn_ptx_kernel_index)((unsigned)first + op), operands, 0);
	if (mods->sat)
		cn_ptx_emit_kernel(parser, CN_PTX_K_sat_f32,
				   (cn_ptx_operand[4]){result, operands[0], CN_PTX_NONE, CN_PTX_NONE}, 0);
}

_Static_assert(CN_PTX_K_abs_f32 - CN_PTX_K_add_f32 == CN_PTX_F_ABS, "kernels of f32 are in the order of operations");
_Static_assert(CN_PTX_K_abs_f32_ftz - CN_PTX_K_add_f32_ftz == CN_PTX_F_ABS, "and those that flush");
_Static_assert(CN_PTX_K_abs_f64 - CN_PTX_K_add_f64 == CN_PTX_F_ABS, "and those of f64");

/* ---- Integers ---------------------------------------------------------------------------------------------------- */

static void build_product(struct cn_ptx_parser *parser, enum cn_ptx_type type, bool adds)
{
	const struct cn_ptx_modifiers *mods = &parser->mods;
	unsigned count = adds ? 4 : 3;
	cn_ptx_operand operands[4];

	cn_ptx_want(parser, count, count);
	if (mods->half == CN_PTX_HALF_WIDE) {
		enum cn_ptx_kernel_index first = adds ? CN_PTX_K_madwide_s16 : CN_PTX_K_mulwide_s16;
		enum cn_ptx_type wider = cn_ptx_type_bytes(type) == 2 ? CN_PTX_B32 : CN_PTX_B64;

		if (cn_ptx_type_bytes(type) > 4)
			cn_ptx_unsupported(parser);
		operands[1] = cn_ptx_source(parser, &parser->args[1].value, type);
		operands[2] = cn_ptx_source(parser, &parser->args[2].value, type);
		operands[3] = adds ? cn_ptx_source(parser, &parser->args[3].value, wider) : CN_PTX_NONE;
		operands[0] = cn_ptx_result(parser, &parser->args[0].value, wider);
		cn_ptx_emit_kernel(parser, by_sign(parser, first, type), operands, 0);
		return;
	}
	operands_of(parser, type, count, operands);
	if (mods->half == CN_PTX_HALF_LO)
		cn_ptx_emit_kernel(parser,
				   cn_ptx_kernel_by_width(parser, adds ? CN_PTX_K_mad_b16 : CN_PTX_K_mul_b16, type),
				   operands, 0);
	else if (mods->half != CN_PTX_HALF_HI)
		cn_ptx_fail(parser, CN_PTX_INVALID, "%s of integers without .lo, .hi or .wide", parser->opcode);
	else if (adds && mods->sat)
		emit_same_width(parser, cn_ptx_lane_saturate, operands, type, CN_PTX_DETAIL(type, 0, 0, CN_PTX_F_FMA));
	else if (adds)
		emit_same_width(parser, cn_ptx_lane_mad_high, operands, type, CN_PTX_DETAIL(type, 0, 0, 0));
	else
		cn_ptx_emit_kernel(parser, by_sign(parser, CN_PTX_K_mulhi_s16, type), operands, 0);
}

static enum cn_ptx_kernel_index integer_kernel(struct cn_ptx_parser *parser, unsigned op, enum cn_ptx_type type)
{
	bool is_signed = cn_ptx_type_is_signed(type);

	switch (op) {
	case CN_PTX_F_ADD: return cn_ptx_kernel_by_width(parser, CN_PTX_K_add_b16, type);
	case CN_PTX_F_SUB: return cn_ptx_kernel_by_width(parser, CN_PTX_K_sub_b16, type);
	case CN_PTX_F_DIV: return by_sign(parser, CN_PTX_K_div_s16, type);
	case CN_PTX_O_REM: return by_sign(parser, CN_PTX_K_rem_s16, type);
	case CN_PTX_F_MIN: return cn_ptx_kernel_by_width(parser, is_signed ? CN_PTX_K_min_s16 : CN_PTX_K_min_u16, type);
	case CN_PTX_F_MAX: return cn_ptx_kernel_by_width(parser, is_signed ? CN_PTX_K_max_s16 : CN_PTX_K_max_u16, type);
	case CN_PTX_F_NEG: return cn_ptx_kernel_by_width(parser, CN_PTX_K_neg_s16, type);
	case CN_PTX_F_ABS: return cn_ptx_kernel_by_width(parser, CN_PTX_K_abs_s16, type);
	default: cn_ptx_unsupported(parser);
	}
}

static void build_sum(struct cn_ptx_parser *parser, enum cn_ptx_type type, unsigned op)
{
	cn_ptx_operand operands[4];

	operands_of(parser, type, op == CN_PTX_F_NEG || op == CN_PTX_F_ABS ? 2 : 3, operands);
	if (type == CN_PTX_U16X2 || type == CN_PTX_S16X2) {
		if (op != CN_PTX_F_ADD && op != CN_PTX_F_MIN && op != CN_PTX_F_MAX)
			cn_ptx_unsupported(parser);
		emit_same_width(parser, cn_ptx_lane_pair, operands, type,
				CN_PTX_DETAIL(type, 0, flags_of(&parser->mods), op));
	} else if (parser->mods.sat) {
		if (type != CN_PTX_S32 || (op != CN_PTX_F_ADD && op != CN_PTX_F_SUB))
			cn_ptx_unsupported(parser);
		emit_same_width(parser, cn_ptx_lane_saturate, operands, type, CN_PTX_DETAIL(type, 0, 0, op));
	} else if (parser->mods.relu) {
		cn_ptx_unsupported(parser);
	} else {
		cn_ptx_emit_kernel(parser, integer_kernel(parser, op, type), operands, 0);
	}
}

void cn_ptx_build_arithmetic(struct cn_ptx_parser *parser)
{
	enum cn_ptx_type type = cn_ptx_only_type(parser);
	unsigned op = cn_ptx_opcode_now(parser)->detail;

	if (parser->mods.cc) {
		cn_ptx_build_carry(parser);
		return;
	}
	if (cn_ptx_type_is_float(type)) {
		if (op == CN_PTX_O_REM)
			cn_ptx_unsupported(parser);
		if (op == CN_PTX_O_MAD)
			op = CN_PTX_F_FMA;
		if (type == CN_PTX_F32 || type == CN_PTX_F64)
			build_float(parser, type, op);
		else
			build_half(parser, type, op);
		return;
	}
	if (type < CN_PTX_U16 || type == CN_PTX_S8 || parser->mods.rounding || parser->mods.ftz ||
	    parser->mods.approx || (type > CN_PTX_F64 && type != CN_PTX_U16X2 && type != CN_PTX_S16X2))
		cn_ptx_unsupported(parser);
	if (op == CN_PTX_F_MUL || op == CN_PTX_O_MAD)
		build_product(parser, type, op == CN_PTX_O_MAD);
	else
		build_sum(parser, type, op);
}

/* ---- With carry -------------------------------------------------------------------------------------------------- */

void cn_ptx_build_carry(struct cn_ptx_parser *parser)
{
	enum cn_ptx_type type = cn_ptx_only_type(parser);
	unsigned op = cn_ptx_opcode_now(parser)->detail;
	bool takes = op == CN_PTX_O_ADDC || op == CN_PTX_O_SUBC || op == CN_PTX_O_MADC;
	bool is_product = op == CN_PTX_O_MADC || op == CN_PTX_O_MAD;
	enum cn_ptx_carry carry;
	cn_ptx_operand operands[4];
	struct cn_ptx_inst *inst;

	if (cn_ptx_type_is_float(type) || type == CN_PTX_PRED ||
	    (cn_ptx_type_bytes(type) != 4 && cn_ptx_type_bytes(type) != 8) || parser->mods.sat ||
	    parser->mods.half == CN_PTX_HALF_WIDE || (is_product && !parser->mods.half))
		cn_ptx_unsupported(parser);
	if (is_product)
		carry = parser->mods.half == CN_PTX_HALF_HI ? CN_PTX_CARRY_MAD_HI : CN_PTX_CARRY_MAD_LO;
	else
		carry = op == CN_PTX_O_SUBC || op == CN_PTX_F_SUB ? CN_PTX_CARRY_SUB : CN_PTX_CARRY_ADD;
	operands_of(parser, type, is_product ? 4 : 3, operands);
	if (parser->carry == CN_PTX_NONE)
		parser->carry = cn_ptx_temporary(parser, 1);
	inst = cn_ptx_emit(parser, CN_PTX_I_CARRY);
	for (unsigned i = 0; i < 4; i++) {
		inst->operand[i] = operands[i];
		inst->width[i] = (uint8_t)cn_ptx_type_bytes(type);
	}
	inst->operand[4] = parser->carry;
	inst->detail = carry;
	inst->type = (uint8_t)type;
	inst->flag = (uint8_t)((takes ? 1 : 0) | (parser->mods.cc ? 2 : 0));
}

/* ---- Approximations ---------------------------------------------------------------------------------------------- */

void cn_ptx_build_approximation(struct cn_ptx_parser *parser)
{
	enum cn_ptx_type type = cn_ptx_only_type(parser);
	unsigned op = cn_ptx_opcode_now(parser)->detail;
	unsigned flags = flags_of(&parser->mods);
	bool is_half = type >= CN_PTX_F16 && type <= CN_PTX_BF16X2;
	cn_ptx_operand operands[4];

	if (!cn_ptx_type_is_float(type) || (is_half && op != CN_PTX_F_EX2 && op != CN_PTX_F_TANH) ||
	    (type == CN_PTX_F64 && op != CN_PTX_F_RSQRT && op != CN_PTX_F_COPYSIGN))
		cn_ptx_unsupported(parser);
	operands_of(parser, type, op == CN_PTX_F_COPYSIGN ? 3 : 2, operands);
	if (type == CN_PTX_F64 && op == CN_PTX_F_RSQRT && parser->mods.ftz)
		flags = CN_PTX_FLAG_HIGH;
	emit_same_width(parser, is_half ? cn_ptx_lane_half : cn_ptx_lane_float, operands, type,
			CN_PTX_DETAIL(type, 0, flags, op));
}

/* SPDX-License-Identifier: MIT */
/*
 * Builders of bit operations, comparisons, selections and the rarer integers.
 */
#include "ptx/ptx_build.h"

static cn_ptx_operand source(struct cn_ptx_parser *parser, unsigned index, enum cn_ptx_type type)
{
	return cn_ptx_source(parser, &parser->args[index].value, type);
}

static cn_ptx_operand result(struct cn_ptx_parser *parser, enum cn_ptx_type type)
{
	return cn_ptx_result(parser, &parser->args[0].value, type);
}

static unsigned mode(const struct cn_ptx_parser *parser, unsigned index)
{
	return index < parser->mods.mode_count ? parser->mods.modes[index] : (unsigned)CN_PTX_MODE_NONE;
}

/* ---- Logic ------------------------------------------------------------------------------------------------------- */

static void build_logic(struct cn_ptx_parser *parser, enum cn_ptx_type type, unsigned op)
{
	static const enum cn_ptx_kernel_index of_predicates[] = {CN_PTX_K_and_p, CN_PTX_K_or_p, CN_PTX_K_xor_p,
								 CN_PTX_K_not_p};
	static const enum cn_ptx_kernel_index of_words[] = {CN_PTX_K_and_b16, CN_PTX_K_or_b16, CN_PTX_K_xor_b16,
							    CN_PTX_K_not_b16};
	unsigned which = op - CN_PTX_O_AND;
	cn_ptx_operand operands[4] = {CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE};

	cn_ptx_want(parser, op == CN_PTX_O_NOT ? 2 : 3, op == CN_PTX_O_NOT ? 2 : 3);
	operands[1] = source(parser, 1, type);
	if (op != CN_PTX_O_NOT)
		operands[2] = source(parser, 2, type);
	operands[0] = result(parser, type);
	cn_ptx_emit_kernel(parser,
			   type == CN_PTX_PRED ? of_predicates[which]
					       : cn_ptx_kernel_by_width(parser, of_words[which], type),
			   operands, 0);
}

static void build_shift(struct cn_ptx_parser *parser, enum cn_ptx_type type, unsigned op)
{
	enum cn_ptx_kernel_index first = op == CN_PTX_O_SHL            ? CN_PTX_K_shl_b16
					 : cn_ptx_type_is_signed(type) ? CN_PTX_K_shr_s16
								       : CN_PTX_K_shr_u16;
	cn_ptx_operand operands[4] = {CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE};

	cn_ptx_want(parser, 3, 3);
	operands[1] = source(parser, 1, type);
	operands[2] = source(parser, 2, CN_PTX_B32);
	operands[0] = result(parser, type);
	cn_ptx_emit_kernel(parser, cn_ptx_kernel_by_width(parser, first, type), operands, 0);
}

/* A count or position of 32 bits, of a value of 32 or 64 bits. */
static void build_count(struct cn_ptx_parser *parser, enum cn_ptx_type type, unsigned op)
{
	bool narrow = cn_ptx_type_bytes(type) == 4;
	cn_ptx_operand operands[4] = {CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE};
	uint8_t widths[4] = {4, 8, 0, 0};

	cn_ptx_want(parser, 2, 2);
	if (cn_ptx_type_bytes(type) < 4)
		cn_ptx_unsupported(parser);
	operands[1] = source(parser, 1, type);
	operands[0] = result(parser, op == CN_PTX_O_BREV ? type : CN_PTX_B32);
	if (op == CN_PTX_O_BFIND) {
		widths[1] = narrow ? 4 : 8;
		cn_ptx_emit_lane(
			parser, cn_ptx_lane_bfind, operands, widths,
			CN_PTX_DETAIL(type, 0, mode(parser, 0) == CN_PTX_MODE_SHIFTAMT ? CN_PTX_FLAG_SHIFT : 0, 0));
	} else if (op == CN_PTX_O_POPC) {
		if (narrow)
			cn_ptx_emit_kernel(parser, CN_PTX_K_popc_b32, operands, 0);
		else
			cn_ptx_emit_lane(parser, cn_ptx_lane_popc, operands, widths, 0);
	} else if (op == CN_PTX_O_CLZ) {
		if (narrow)
			cn_ptx_emit_kernel(parser, CN_PTX_K_clz_b32, operands, 0);
		else
			cn_ptx_emit_lane(parser, cn_ptx_lane_clz, operands, widths, 0);
	} else if (narrow) {
		cn_ptx_emit_kernel(parser, CN_PTX_K_brev_b32, operands, 0);
	} else {
		widths[0] = 8;
		cn_ptx_emit_lane(parser, cn_ptx_lane_brev, operands, widths, 0);
	}
}

static void build_field(struct cn_ptx_parser *parser, enum cn_ptx_type type, unsigned op)
{
	uint8_t width = (uint8_t)cn_ptx_type_bytes(type);
	cn_ptx_operand operands[4];

	if (width < 4)
		cn_ptx_unsupported(parser);
	if (op == CN_PTX_O_BFE) {
		cn_ptx_want(parser, 4, 4);
		operands[1] = source(parser, 1, type);
		operands[2] = source(parser, 2, CN_PTX_B32);
		operands[3] = source(parser, 3, CN_PTX_B32);
		operands[0] = result(parser, type);
		if (width == 4)
			cn_ptx_emit_kernel(parser, cn_ptx_type_is_signed(type) ? CN_PTX_K_bfe_s32 : CN_PTX_K_bfe_u32,
					   operands, 0);
		else
			cn_ptx_emit_lane(parser, cn_ptx_lane_bfe, operands, (const uint8_t[4]){width, width, 4, 4},
					 CN_PTX_DETAIL(type, 0, 0, 0));
		return;
	}
	/* bfi has four sources: position and length go into one. */
	cn_ptx_want(parser, 5, 5);
	operands[1] = source(parser, 3, CN_PTX_B32);
	operands[2] = source(parser, 4, CN_PTX_B32);
	operands[3] = CN_PTX_NONE;
	operands[0] = cn_ptx_temporary(parser, 4);
	cn_ptx_emit_lane(parser, cn_ptx_lane_pack, operands, (const uint8_t[4]){4, 4, 4, 0}, width == 8 ? 256 : 255);
	operands[3] = operands[0];
	operands[1] = source(parser, 1, type);
	operands[2] = source(parser, 2, type);
	operands[0] = result(parser, type);
	cn_ptx_emit_lane(parser, cn_ptx_lane_bfi, operands, (const uint8_t[4]){width, width, width, 4},
			 CN_PTX_DETAIL(type, 0, 0, 0));
}

static void build_three_words(struct cn_ptx_parser *parser, unsigned op)
{
	cn_ptx_operand operands[4];
	uint32_t detail = 0;
	unsigned direction = mode(parser, 0);

	if (op == CN_PTX_O_LOP3) {
		cn_ptx_want(parser, 5, 5);
		if (parser->args[4].value.kind != CN_PTX_A_NUMBER || parser->args[4].value.value > 255)
			cn_ptx_fail(parser, CN_PTX_INVALID, "lop3 wants a table from 0 to 255");
		detail = (uint32_t)parser->args[4].value.value;
	} else {
		cn_ptx_want(parser, 4, 4);
	}
	for (unsigned i = 1; i < 4; i++)
		operands[i] = source(parser, i, CN_PTX_B32);
	operands[0] = result(parser, CN_PTX_B32);
	switch (op) {
	case CN_PTX_O_LOP3: cn_ptx_emit_kernel(parser, CN_PTX_K_lop3_b32, operands, detail); break;
	case CN_PTX_O_SHF:
		if ((direction != CN_PTX_MODE_L && direction != CN_PTX_MODE_R) || parser->mods.mode_count != 2)
			cn_ptx_unsupported(parser);
		cn_ptx_emit_kernel(parser, direction == CN_PTX_MODE_L ? CN_PTX_K_shf_l : CN_PTX_K_shf_r, operands,
				   mode(parser, 1) == CN_PTX_MODE_CLAMP);
		break;
	case CN_PTX_O_FNS:
		cn_ptx_emit_lane(parser, cn_ptx_lane_fns, operands, (const uint8_t[4]){4, 4, 4, 4}, 0);
		break;
	default:
		if (!parser->mods.mode_count)
			cn_ptx_emit_kernel(parser, CN_PTX_K_prmt_b32, operands, 0);
		else
			cn_ptx_emit_lane(parser, cn_ptx_lane_prmt, operands, (const uint8_t[4]){4, 4, 4, 4},
					 CN_PTX_DETAIL(0, direction, 0, 0));
		break;
	}
}

static void build_mask(struct cn_ptx_parser *parser, enum cn_ptx_type type, unsigned op)
{
	cn_ptx_operand operands[4] = {CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE};

	cn_ptx_want(parser, 3, 3);
	if (cn_ptx_type_bytes(type) != 4)
		cn_ptx_unsupported(parser);
	operands[1] = source(parser, 1, type);
	operands[2] = source(parser, 2, CN_PTX_B32);
	operands[0] = result(parser, type);
	cn_ptx_emit_lane(parser, op == CN_PTX_O_BMSK ? cn_ptx_lane_bmsk : cn_ptx_lane_szext, operands,
			 (const uint8_t[4]){4, 4, 4, 0}, CN_PTX_DETAIL(type, mode(parser, 0), 0, 0));
}

void cn_ptx_build_bits(struct cn_ptx_parser *parser)
{
	enum cn_ptx_type type = cn_ptx_only_type(parser);
	unsigned op = cn_ptx_opcode_now(parser)->detail;
	unsigned bytes = cn_ptx_type_bytes(type);
	cn_ptx_operand operands[4] = {CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE};

	if (cn_ptx_type_is_float(type) || type > CN_PTX_F64 || bytes > 8 ||
	    (type == CN_PTX_PRED && !(op >= CN_PTX_O_AND && op <= CN_PTX_O_NOT)))
		cn_ptx_unsupported(parser);
	switch (op) {
	case CN_PTX_O_AND:
	case CN_PTX_O_OR:
	case CN_PTX_O_XOR:
	case CN_PTX_O_NOT: build_logic(parser, type, op); break;
	case CN_PTX_O_SHL:
	case CN_PTX_O_SHR: build_shift(parser, type, op); break;
	case CN_PTX_O_POPC:
	case CN_PTX_O_CLZ:
	case CN_PTX_O_BREV:
	case CN_PTX_O_BFIND: build_count(parser, type, op); break;
	case CN_PTX_O_BFE:
	case CN_PTX_O_BFI: build_field(parser, type, op); break;
	case CN_PTX_O_BMSK:
	case CN_PTX_O_SZEXT: build_mask(parser, type, op); break;
	case CN_PTX_O_CNOT:
		cn_ptx_want(parser, 2, 2);
		operands[1] = source(parser, 1, type);
		operands[0] = result(parser, type);
		cn_ptx_emit_lane(parser, cn_ptx_lane_cnot, operands,
				 (const uint8_t[4]){(uint8_t)bytes, (uint8_t)bytes, 0, 0}, 0);
		break;
	default:
		if (bytes != 4)
			cn_ptx_unsupported(parser);
		build_three_words(parser, op);
	}
}

/* ---- Rarer integers ---------------------------------------------------------------------------------------------- */

void cn_ptx_build_integer(struct cn_ptx_parser *parser)
{
	unsigned op = cn_ptx_opcode_now(parser)->detail;
	enum cn_ptx_type type = parser->mods.type_count ? parser->mods.types[0] : CN_PTX_NO_TYPE;
	uint8_t width = (uint8_t)cn_ptx_type_bytes(type);
	unsigned flags = (parser->mods.half == CN_PTX_HALF_HI ? CN_PTX_FLAG_HIGH : 0u) |
			 (parser->mods.sat ? CN_PTX_FLAG_SAT : 0u);
	bool is_dot = op == CN_PTX_O_DP4A || op == CN_PTX_O_DP2A;
	unsigned count = op == CN_PTX_O_MUL24 ? 3 : 4;
	cn_ptx_operand operands[4] = {CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE};

	if (parser->mods.type_count != (is_dot ? 2u : 1u) || parser->mods.half == CN_PTX_HALF_WIDE)
		cn_ptx_unsupported(parser);
	if (op == CN_PTX_O_TESTP) {
		cn_ptx_want(parser, 2, 2);
		if ((type != CN_PTX_F32 && type != CN_PTX_F64) || parser->mods.mode_count != 1)
			cn_ptx_unsupported(parser);
		operands[1] = source(parser, 1, type);
		operands[0] = result(parser, CN_PTX_PRED);
		cn_ptx_emit_lane(parser, cn_ptx_lane_testp, operands, (const uint8_t[4]){1, width, 0, 0},
				 CN_PTX_DETAIL(type, mode(parser, 0), 0, 0));
		return;
	}
	if (cn_ptx_type_is_float(type) || width < 2 || type > CN_PTX_F64 || (op != CN_PTX_O_SAD && width != 4))
		cn_ptx_unsupported(parser);
	cn_ptx_want(parser, count, count);
	for (unsigned i = 1; i < count; i++)
		operands[i] = source(parser, i, type);
	operands[0] = result(parser, type);
	if (is_dot)
		cn_ptx_emit_lane(parser, cn_ptx_lane_dot, operands, (const uint8_t[4]){4, 4, 4, 4},
				 CN_PTX_DETAIL(type, parser->mods.types[1], flags, op == CN_PTX_O_DP4A ? 4 : 2));
	else if (op == CN_PTX_O_SAD)
		cn_ptx_emit_lane(parser, cn_ptx_lane_sad, operands, (const uint8_t[4]){width, width, width, width},
				 CN_PTX_DETAIL(type, 0, 0, 0));
	else
		cn_ptx_emit_lane(parser, cn_ptx_lane_mul24, operands,
				 (const uint8_t[4]){4, 4, 4, op == CN_PTX_O_MUL24 ? 0 : 4},
				 CN_PTX_DETAIL(type, 0, flags, 0));
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

static bool is_half(enum cn_ptx_type type)
{
	return type >= CN_PTX_F16 && type <= CN_PTX_BF16X2;
}

static enum cn_ptx_kernel_index compare_kernel(struct cn_ptx_parser *parser, enum cn_ptx_type type)
{
	switch (type) {
	case CN_PTX_F32: return parser->mods.ftz ? CN_PTX_K_setp_f32_ftz : CN_PTX_K_setp_f32;
	case CN_PTX_F64: return CN_PTX_K_setp_f64;
	case CN_PTX_S16: return CN_PTX_K_setp_s16;
	case CN_PTX_B16:
	case CN_PTX_U16: return CN_PTX_K_setp_u16;
	case CN_PTX_S32: return CN_PTX_K_setp_s32;
	case CN_PTX_B32:
	case CN_PTX_U32: return CN_PTX_K_setp_u32;
	case CN_PTX_S64: return CN_PTX_K_setp_s64;
	case CN_PTX_B64:
	case CN_PTX_U64: return CN_PTX_K_setp_u64;
	default: cn_ptx_unsupported(parser);
	}
}

static void compare_into(struct cn_ptx_parser *parser, enum cn_ptx_type type, cn_ptx_operand d)
{
	cn_ptx_operand operands[4] = {d, CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE};
	uint8_t width = (uint8_t)cn_ptx_type_bytes(type);

	if (!(parser->mods.classes & CN_PTX_M_COMPARE) || type == CN_PTX_PRED)
		cn_ptx_unsupported(parser);
	operands[1] = source(parser, 1, type);
	operands[2] = source(parser, 2, type);
	if (is_half(type))
		cn_ptx_emit_lane(parser, cn_ptx_lane_compare, operands, (const uint8_t[4]){1, width, width, 0},
				 CN_PTX_DETAIL(type, parser->mods.compare, parser->mods.ftz ? CN_PTX_FLAG_FTZ : 0, 0));
	else
		cn_ptx_emit_kernel(parser, compare_kernel(parser, type), operands, parser->mods.compare);
}

/* The comparison itself, in a temporary predicate. Of packed halves: bits 0 and 1. */
static cn_ptx_operand compare(struct cn_ptx_parser *parser, enum cn_ptx_type type)
{
	cn_ptx_operand d = cn_ptx_temporary(parser, 1), guard = parser->guard;

	parser->guard = CN_PTX_NONE;
	compare_into(parser, type, d);
	parser->guard = guard;
	return d;
}

/* d = compared, or its inverse, combined with a third operand if there is one. */
static void combine(struct cn_ptx_parser *parser, cn_ptx_operand d, cn_ptx_operand compared, cn_ptx_operand other,
		    bool inverse)
{
	static const enum cn_ptx_kernel_index kernels[] = {CN_PTX_K_and_p, CN_PTX_K_or_p, CN_PTX_K_xor_p};
	cn_ptx_operand guard = parser->guard, from = compared;

	if (inverse) {
		from = cn_ptx_temporary(parser, 1);
		parser->guard = CN_PTX_NONE;
		cn_ptx_emit_kernel(parser, CN_PTX_K_not_p,
				   (cn_ptx_operand[4]){from, compared, CN_PTX_NONE, CN_PTX_NONE}, 0);
		parser->guard = guard;
	}
	if (other == CN_PTX_NONE)
		cn_ptx_emit_kernel(parser, CN_PTX_K_mov_p, (cn_ptx_operand[4]){d, from, CN_PTX_NONE, CN_PTX_NONE}, 0);
	else
		cn_ptx_emit_kernel(parser, kernels[parser->mods.op], (cn_ptx_operand[4]){d, from, other, CN_PTX_NONE},
				   0);
}

/* A guard that the instruction itself may write is copied first. */
static void keep_guard(struct cn_ptx_parser *parser)
{
	cn_ptx_operand guard = parser->guard, copy;

	if (guard == CN_PTX_NONE)
		return;
	copy = cn_ptx_temporary(parser, 1);
	parser->guard = CN_PTX_NONE;
	cn_ptx_emit_kernel(parser, CN_PTX_K_mov_p, (cn_ptx_operand[4]){copy, guard, CN_PTX_NONE, CN_PTX_NONE}, 0);
	parser->guard = copy;
}

static void build_setp(struct cn_ptx_parser *parser, enum cn_ptx_type type, cn_ptx_operand other)
{
	const struct cn_ptx_argument_text *arg = &parser->args[0];
	cn_ptx_operand compared = compare(parser, type), first, upper = compared;
	bool packed = is_half(type) && cn_ptx_type_bytes(type) == 4;

	if (packed) { /* the second predicate is of the upper halves */
		cn_ptx_operand guard = parser->guard, both = compared;

		parser->guard = CN_PTX_NONE;
		upper = cn_ptx_temporary(parser, 1);
		compared = cn_ptx_temporary(parser, 1);
		cn_ptx_emit_lane(parser, cn_ptx_lane_piece, (cn_ptx_operand[4]){upper, both, CN_PTX_NONE, CN_PTX_NONE},
				 (const uint8_t[4]){1, 1, 0, 0}, CN_PTX_DETAIL(0, 0, 0, 1));
		cn_ptx_emit_kernel(parser, CN_PTX_K_and_p,
				   (cn_ptx_operand[4]){compared, both,
						       cn_ptx_constant(parser, CN_PTX_C_BITS, 1, 1, false),
						       CN_PTX_NONE},
				   0);
		parser->guard = guard;
	}
	if (arg->has_second)
		keep_guard(parser);
	first = cn_ptx_result(parser, &arg->value, CN_PTX_PRED);
	if (!arg->has_second) {
		combine(parser, first, compared, other, false);
		return;
	}
	/* Both are computed before one is written: the third operand may be one of them. */
	if (other != CN_PTX_NONE) {
		cn_ptx_operand guard = parser->guard, copy = cn_ptx_temporary(parser, 1);

		parser->guard = CN_PTX_NONE;
		cn_ptx_emit_kernel(parser, CN_PTX_K_mov_p, (cn_ptx_operand[4]){copy, other, CN_PTX_NONE, CN_PTX_NONE},
				   0);
		parser->guard = guard;
		other = copy;
	}
	combine(parser, first, compared, other, false);
	combine(parser, cn_ptx_result(parser, &arg->second, CN_PTX_PRED), upper, other, !packed);
}

void cn_ptx_build_compare(struct cn_ptx_parser *parser)
{
	bool is_set = cn_ptx_opcode_now(parser)->detail == CN_PTX_O_SET;
	enum cn_ptx_type type, to;
	cn_ptx_operand other = CN_PTX_NONE, compared, combined;
	uint8_t width;

	cn_ptx_want(parser, parser->mods.has_op ? 4 : 3, parser->mods.has_op ? 4 : 3);
	if (parser->mods.type_count != (is_set ? 2u : 1u) || parser->mods.op > CN_PTX_OP_XOR)
		cn_ptx_unsupported(parser);
	type = parser->mods.types[is_set];
	if (parser->mods.has_op)
		other = source(parser, 3, CN_PTX_PRED);
	if (!is_set && !parser->mods.has_op && !parser->args[0].has_second && !is_half(type)) {
		compare_into(parser, type, cn_ptx_result(parser, &parser->args[0].value, CN_PTX_PRED));
		return;
	}
	if (!is_set) {
		build_setp(parser, type, other);
		return;
	}
	to = parser->mods.types[0];
	width = (uint8_t)cn_ptx_type_bytes(to);
	if (to == CN_PTX_F64 || width < 2 || width > 4 ||
	    (is_half(type) && cn_ptx_type_bytes(type) == 4 && other != CN_PTX_NONE))
		cn_ptx_unsupported(parser);
	compared = combined = compare(parser, type);
	if (other != CN_PTX_NONE) {
		cn_ptx_operand guard = parser->guard;

		parser->guard = CN_PTX_NONE;
		combined = cn_ptx_temporary(parser, 1);
		combine(parser, combined, compared, other, false);
		parser->guard = guard;
	}
	cn_ptx_emit_lane(parser, cn_ptx_lane_set,
			 (cn_ptx_operand[4]){result(parser, to), combined, CN_PTX_NONE, CN_PTX_NONE},
			 (const uint8_t[4]){width, 1, 0, 0},
			 CN_PTX_DETAIL(to, is_half(type) && cn_ptx_type_bytes(type) == 4, 0, 0));
}

void cn_ptx_build_select(struct cn_ptx_parser *parser)
{
	bool is_slct = cn_ptx_opcode_now(parser)->detail == CN_PTX_O_SLCT;
	enum cn_ptx_type type = parser->mods.type_count ? parser->mods.types[0] : CN_PTX_NO_TYPE;
	uint8_t width = (uint8_t)cn_ptx_type_bytes(type);
	cn_ptx_operand operands[4];

	cn_ptx_want(parser, 4, 4);
	if (parser->mods.type_count != (is_slct ? 2u : 1u) || type == CN_PTX_PRED || width > 8)
		cn_ptx_unsupported(parser);
	operands[1] = source(parser, 1, type);
	operands[2] = source(parser, 2, type);
	if (is_slct) {
		if (parser->mods.types[1] != CN_PTX_S32 && parser->mods.types[1] != CN_PTX_F32)
			cn_ptx_unsupported(parser);
		operands[3] = source(parser, 3, parser->mods.types[1]);
		operands[0] = result(parser, type);
		cn_ptx_emit_lane(parser, cn_ptx_lane_slct, operands, (const uint8_t[4]){width, width, width, 4},
				 CN_PTX_DETAIL(type, parser->mods.types[1], parser->mods.ftz ? CN_PTX_FLAG_FTZ : 0, 0));
		return;
	}
	operands[3] = source(parser, 3, CN_PTX_PRED);
	operands[0] = result(parser, type);
	cn_ptx_emit_kernel(parser, cn_ptx_kernel_by_width(parser, CN_PTX_K_selp_b16, type), operands, 0);
}

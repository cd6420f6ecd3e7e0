/* SPDX-License-Identifier: MIT */
/*
 * Builders of moves, conversions, addresses, loads, stores and atomics.
 */
#include "ptx/ptx_build.h"

static cn_ptx_operand source(struct cn_ptx_parser *parser, unsigned index, enum cn_ptx_type type)
{
	return cn_ptx_source(parser, &parser->args[index].value, type);
}

/* ---- Moves ------------------------------------------------------------------------------------------------------- */

static enum cn_ptx_type part_type(struct cn_ptx_parser *parser, unsigned bytes)
{
	switch (bytes) {
	case 1: return CN_PTX_B8;
	case 2: return CN_PTX_B16;
	case 4: return CN_PTX_B32;
	case 8: return CN_PTX_B64;
	default: cn_ptx_unsupported(parser);
	}
}

static void build_unpack(struct cn_ptx_parser *parser, enum cn_ptx_type type)
{
	const struct cn_ptx_argument_text *arg = &parser->args[0];
	unsigned bytes = cn_ptx_type_bytes(type) / arg->part_count;
	cn_ptx_operand from = source(parser, 1, type);

	for (unsigned i = 0; i < arg->part_count; i++) {
		unsigned width;
		cn_ptx_operand to;

		if (arg->parts[i].kind == CN_PTX_A_SINK)
			continue;
		to = cn_ptx_result_wide(parser, &arg->parts[i], part_type(parser, bytes), &width);
		cn_ptx_emit_lane(parser, cn_ptx_lane_piece, (cn_ptx_operand[4]){to, from, CN_PTX_NONE, CN_PTX_NONE},
				 (const uint8_t[4]){(uint8_t)width, (uint8_t)cn_ptx_type_bytes(type), 0, 0},
				 CN_PTX_DETAIL(0, 0, 0, 8 * bytes * i));
	}
}

static void build_pack(struct cn_ptx_parser *parser, enum cn_ptx_type type)
{
	const struct cn_ptx_argument_text *arg = &parser->args[1];
	unsigned bytes = cn_ptx_type_bytes(type) / arg->part_count;
	uint8_t width = (uint8_t)cn_ptx_type_bytes(type);
	cn_ptx_operand to = cn_ptx_result(parser, &parser->args[0].value, type), guard = parser->guard;
	cn_ptx_operand so_far = cn_ptx_constant(parser, CN_PTX_C_BITS, 0, width, false);

	for (unsigned i = 0; i < arg->part_count; i++) {
		unsigned part_width;
		bool is_last = i == arg->part_count - 1;
		cn_ptx_operand part = cn_ptx_source_wide(parser, &arg->parts[i], part_type(parser, bytes), &part_width);
		cn_ptx_operand next = is_last ? to : cn_ptx_temporary(parser, width);

		if (part_width != bytes)
			cn_ptx_unsupported(parser);
		parser->guard = is_last ? guard : CN_PTX_NONE;
		cn_ptx_emit_lane(parser, cn_ptx_lane_join, (cn_ptx_operand[4]){next, so_far, part, CN_PTX_NONE},
				 (const uint8_t[4]){width, width, (uint8_t)bytes, 0},
				 CN_PTX_DETAIL(0, 0, 0, 8 * bytes * i));
		so_far = next;
	}
	parser->guard = guard;
}

static void emit_move(struct cn_ptx_parser *parser, enum cn_ptx_type type, cn_ptx_operand to, cn_ptx_operand from)
{
	cn_ptx_emit_kernel(parser,
			   cn_ptx_type_bytes(type) == 1 ? CN_PTX_K_mov_p
							: cn_ptx_kernel_by_width(parser, CN_PTX_K_mov_b16, type),
			   (cn_ptx_operand[4]){to, from, CN_PTX_NONE, CN_PTX_NONE}, 0);
}

/* mov.v4.u32 a, {b, c, d, e}: all parts are read before one is written. */
static void build_vector_move(struct cn_ptx_parser *parser, enum cn_ptx_type type)
{
	const struct cn_ptx_argument_text *to = &parser->args[0], *from = &parser->args[1];
	cn_ptx_operand kept[CN_PTX_VECTOR_MAX] = {0};

	if (to->part_count != parser->mods.vector || from->part_count != parser->mods.vector || type == CN_PTX_PRED)
		cn_ptx_unsupported(parser);
	for (unsigned i = 0; i < from->part_count; i++) {
		kept[i] = cn_ptx_temporary(parser, cn_ptx_type_bytes(type));
		emit_move(parser, type, kept[i], cn_ptx_source(parser, &from->parts[i], type));
	}
	for (unsigned i = 0; i < to->part_count; i++)
		if (to->parts[i].kind != CN_PTX_A_SINK)
			emit_move(parser, type, cn_ptx_result(parser, &to->parts[i], type), kept[i]);
}

void cn_ptx_build_move(struct cn_ptx_parser *parser)
{
	enum cn_ptx_type type = cn_ptx_only_type(parser);
	unsigned parts = parser->args[0].part_count | parser->args[1].part_count;
	cn_ptx_operand from;

	cn_ptx_want(parser, 2, 2);
	if (cn_ptx_type_bytes(type) > 8)
		cn_ptx_unsupported(parser);
	if (parser->mods.vector) {
		build_vector_move(parser, type);
		return;
	}
	if (parts) {
		if ((parts != 2 && parts != 4) || cn_ptx_type_bytes(type) < parts)
			cn_ptx_unsupported(parser);
		if (parser->args[0].part_count)
			build_unpack(parser, type);
		else
			build_pack(parser, type);
		return;
	}
	from = source(parser, 1, type);
	emit_move(parser, type, cn_ptx_result(parser, &parser->args[0].value, type), from);
}

/* ---- Conversions ------------------------------------------------------------------------------------------------- */

/* Between integers whose registers are as wide as they are. */
static bool integer_kernel(enum cn_ptx_type to, enum cn_ptx_type from, enum cn_ptx_kernel_index *ret)
{
	bool is_signed = cn_ptx_type_is_signed(from);

	switch (cn_ptx_type_bytes(from) * 16 + cn_ptx_type_bytes(to)) {
	case 0x22: *ret = CN_PTX_K_mov_b16; return true;
	case 0x44: *ret = CN_PTX_K_mov_b32; return true;
	case 0x88: *ret = CN_PTX_K_mov_b64; return true;
	case 0x42: *ret = CN_PTX_K_cvt_b16_b32; return true;
	case 0x82: *ret = CN_PTX_K_cvt_b16_b64; return true;
	case 0x84: *ret = CN_PTX_K_cvt_b32_b64; return true;
	case 0x24: *ret = is_signed ? CN_PTX_K_cvt_s32_s16 : CN_PTX_K_cvt_u32_u16; return true;
	case 0x28: *ret = is_signed ? CN_PTX_K_cvt_s64_s16 : CN_PTX_K_cvt_u64_u16; return true;
	case 0x48: *ret = is_signed ? CN_PTX_K_cvt_s64_s32 : CN_PTX_K_cvt_u64_u32; return true;
	default: return false;
	}
}

static bool fast_kernel(const struct cn_ptx_parser *parser, enum cn_ptx_type to, enum cn_ptx_type from,
			enum cn_ptx_kernel_index *ret)
{
	static const struct {
		uint8_t to, from, rounding;
		enum cn_ptx_kernel_index kernel;
	} fast[] = {
		{CN_PTX_F32, CN_PTX_S32, CN_PTX_RN, CN_PTX_K_cvt_f32_s32},
		{CN_PTX_F32, CN_PTX_U32, CN_PTX_RN, CN_PTX_K_cvt_f32_u32},
		{CN_PTX_F64, CN_PTX_S32, CN_PTX_RN, CN_PTX_K_cvt_f64_s32},
		{CN_PTX_F64, CN_PTX_U32, CN_PTX_RN, CN_PTX_K_cvt_f64_u32},
		{CN_PTX_F64, CN_PTX_S64, CN_PTX_RN, CN_PTX_K_cvt_f64_s64},
		{CN_PTX_F64, CN_PTX_F32, CN_PTX_NO_ROUNDING, CN_PTX_K_cvt_f64_f32},
		{CN_PTX_F32, CN_PTX_F64, CN_PTX_RN, CN_PTX_K_cvt_f32_f64},
		{CN_PTX_S32, CN_PTX_F32, CN_PTX_RZI, CN_PTX_K_cvt_s32_f32},
		{CN_PTX_U32, CN_PTX_F32, CN_PTX_RZI, CN_PTX_K_cvt_u32_f32},
		{CN_PTX_S32, CN_PTX_F64, CN_PTX_RZI, CN_PTX_K_cvt_s32_f64},
	};

	if (parser->mods.ftz || parser->mods.sat || parser->mods.relu)
		return false;
	if (!cn_ptx_type_is_float(to) && !cn_ptx_type_is_float(from))
		return integer_kernel(to, from, ret);
	for (size_t i = 0; i < sizeof fast / sizeof *fast; i++)
		if (fast[i].to == to && fast[i].from == from && fast[i].rounding == parser->mods.rounding) {
			*ret = fast[i].kernel;
			return true;
		}
	return false;
}

static bool is_scalar(enum cn_ptx_type type)
{
	return type >= CN_PTX_U8 && type <= CN_PTX_F64 && type != CN_PTX_F16X2 && type != CN_PTX_BF16X2;
}

/* The part of a wider register that an integer of 2 or 4 bytes is in: compilers read it so, and kernels do not. */
static cn_ptx_operand narrowed(struct cn_ptx_parser *parser, enum cn_ptx_type type, cn_ptx_operand from,
			       unsigned *width)
{
	unsigned bytes = cn_ptx_type_bytes(type);

	if (*width == bytes || bytes < 2 || cn_ptx_type_is_float(type))
		return from;
	cn_ptx_operand part = cn_ptx_temporary(parser, bytes);
	cn_ptx_emit_kernel(parser,
			   bytes == 4    ? CN_PTX_K_cvt_b32_b64
			   : *width == 4 ? CN_PTX_K_cvt_b16_b32
					 : CN_PTX_K_cvt_b16_b64,
			   (cn_ptx_operand[4]){part, from, CN_PTX_NONE, CN_PTX_NONE}, 0);
	*width = bytes;
	return part;
}

void cn_ptx_build_convert(struct cn_ptx_parser *parser)
{
	const struct cn_ptx_modifiers *mods = &parser->mods;
	enum cn_ptx_type to = mods->types[0], from = mods->types[1];
	unsigned flags = (mods->ftz ? CN_PTX_FLAG_FTZ : 0u) | (mods->sat ? CN_PTX_FLAG_SAT : 0u) |
			 (mods->relu ? CN_PTX_FLAG_RELU : 0u);
	cn_ptx_operand operands[4] = {CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE};
	unsigned to_width, from_width;
	enum cn_ptx_kernel_index kernel;

	if (mods->type_count != 2)
		cn_ptx_unsupported(parser);
	if ((to == CN_PTX_F16X2 || to == CN_PTX_BF16X2) && from == CN_PTX_F32 && parser->arg_count == 3) {
		operands[1] = source(parser, 1, CN_PTX_F32);
		operands[2] = source(parser, 2, CN_PTX_F32);
		operands[0] = cn_ptx_result(parser, &parser->args[0].value, CN_PTX_B32);
		cn_ptx_emit_lane(parser, cn_ptx_lane_convert_pair, operands, (const uint8_t[4]){4, 4, 4, 0},
				 CN_PTX_DETAIL(to, from, flags, mods->rounding));
		return;
	}
	cn_ptx_want(parser, 2, 2);
	if (!is_scalar(from) || !(is_scalar(to) || (to == CN_PTX_TF32 && from == CN_PTX_F32)))
		cn_ptx_unsupported(parser);
	operands[1] = cn_ptx_source_wide(parser, &parser->args[1].value, from, &from_width);
	if (from_width > 8)
		cn_ptx_unsupported(parser);
	operands[1] = narrowed(parser, from, operands[1], &from_width);
	operands[0] = cn_ptx_result_wide(parser, &parser->args[0].value, to, &to_width);
	if (from_width == cn_ptx_type_bytes(from) && to_width == cn_ptx_type_bytes(to) &&
	    fast_kernel(parser, to, from, &kernel)) {
		cn_ptx_emit_kernel(parser, kernel, operands, 0);
		return;
	}
	if (from_width == 4 && to_width == 4 && !flags &&
	    ((from == CN_PTX_U8 && cn_ptx_type_bytes(to) == 4 && !cn_ptx_type_is_float(to)) ||
	     (to == CN_PTX_U8 && !cn_ptx_type_is_float(from)))) {
		cn_ptx_emit_kernel(parser, CN_PTX_K_cvt_u8, operands, 0);
		return;
	}
	if (from_width == 4 && to_width == 4 && !flags &&
	    ((from == CN_PTX_S8 && cn_ptx_type_bytes(to) == 4 && !cn_ptx_type_is_float(to)) ||
	     (to == CN_PTX_S8 && !cn_ptx_type_is_float(from)))) {
		cn_ptx_emit_kernel(parser, CN_PTX_K_cvt_s8, operands, 0);
		return;
	}
	cn_ptx_emit_lane(parser, cn_ptx_lane_convert, operands,
			 (const uint8_t[4]){(uint8_t)to_width, (uint8_t)from_width, 0, 0},
			 CN_PTX_DETAIL(to, from, flags, mods->rounding));
}

/* ---- Addresses --------------------------------------------------------------------------------------------------- */

void cn_ptx_build_address(struct cn_ptx_parser *parser)
{
	bool is_cvta = cn_ptx_opcode_now(parser)->detail == CN_PTX_O_CVTA;
	bool is_shared = parser->mods.space == CN_PTX_SHARED;
	bool to = parser->mods.mode_count && parser->mods.modes[0] == CN_PTX_MODE_TO;
	cn_ptx_operand from, d;
	struct cn_ptx_inst *inst;

	cn_ptx_want(parser, 2, 2);
	if (is_cvta && (parser->mods.type_count != 1 || cn_ptx_type_bytes(parser->mods.types[0]) != 8))
		cn_ptx_unsupported(parser);
	from = source(parser, 1, CN_PTX_B64);
	d = cn_ptx_result(parser, &parser->args[0].value, is_cvta ? CN_PTX_B64 : CN_PTX_PRED);
	if (is_cvta && !is_shared) {
		cn_ptx_emit_kernel(parser, CN_PTX_K_mov_b64, (cn_ptx_operand[4]){d, from, CN_PTX_NONE, CN_PTX_NONE}, 0);
		return;
	}
	inst = cn_ptx_emit(parser, is_cvta ? CN_PTX_I_GENERIC_SHARED : CN_PTX_I_IS_SHARED);
	inst->operand[0] = d;
	inst->width[0] = is_cvta ? 8 : 1;
	inst->operand[1] = from;
	inst->detail = is_cvta ? to : parser->mods.space;
}

/* ---- Loads and stores -------------------------------------------------------------------------------------------- */

/* The register of a value in memory, which may be wider than the value. */
static cn_ptx_operand moved(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_type type,
			    bool is_result, unsigned *ret_width)
{
	cn_ptx_operand place = is_result ? cn_ptx_result_wide(parser, value, type, ret_width)
					 : cn_ptx_source_wide(parser, value, type, ret_width);

	if (*ret_width > 8)
		cn_ptx_unsupported(parser);
	return place;
}

/* Places and widths of a vector's parts, in the function's `more`. */
static uint32_t add_parts(struct cn_ptx_parser *parser, const struct cn_ptx_argument_text *arg, enum cn_ptx_type type,
			  bool is_result)
{
	struct cn_ptx_function *function = cn_ptx_current(parser);
	cn_ptx_operand places[CN_PTX_VECTOR_MAX] = {0};
	unsigned widths[CN_PTX_VECTOR_MAX] = {0};
	uint32_t first;

	for (unsigned i = 0; i < arg->part_count; i++)
		places[i] = moved(parser, &arg->parts[i], type, is_result, &widths[i]);
	first = function->more_count;
	for (unsigned i = 0; i < arg->part_count; i++) {
		*CN_PTX_ADD(parser, function->more, function->more_count, function->more_room) = (uint32_t)places[i];
		*CN_PTX_ADD(parser, function->more, function->more_count, function->more_room) = widths[i];
	}
	return first;
}

static enum cn_ptx_space memory_space(const struct cn_ptx_parser *parser)
{
	return parser->mods.space == CN_PTX_SHARED ? CN_PTX_SHARED : CN_PTX_GENERIC;
}

static enum cn_ptx_type memory_type(struct cn_ptx_parser *parser)
{
	enum cn_ptx_type type = cn_ptx_only_type(parser);

	if (type == CN_PTX_PRED || cn_ptx_type_bytes(type) > 8 || parser->mods.space_count > 1)
		cn_ptx_unsupported(parser);
	return type;
}

static void build_memory(struct cn_ptx_parser *parser, bool is_load)
{
	enum cn_ptx_type type = memory_type(parser);
	const struct cn_ptx_argument_text *values = &parser->args[is_load ? 0 : 1];
	cn_ptx_operand address, value = CN_PTX_NONE;
	unsigned address_width, width = 0, count;
	uint32_t more = 0;
	int64_t offset;
	struct cn_ptx_inst *inst;

	/* A third operand is a policy for caches. */
	cn_ptx_want(parser, 2, parser->mods.classes & CN_PTX_M_CACHE ? 3 : 2);
	count = values->part_count ? values->part_count : 1;
	if (count != (parser->mods.vector ? parser->mods.vector : 1u))
		cn_ptx_fail(parser, CN_PTX_INVALID, "%s with a vector of another length", parser->opcode);
	address = cn_ptx_address(parser, &parser->args[is_load ? 1 : 0].value, parser->mods.space, &address_width,
				 &offset);
	if (values->part_count)
		more = add_parts(parser, values, type, is_load);
	else
		value = moved(parser, &values->value, type, is_load, &width);
	inst = cn_ptx_emit(parser, is_load ? CN_PTX_I_LOAD : CN_PTX_I_STORE);
	inst->operand[0] = value;
	inst->width[0] = (uint8_t)width;
	inst->operand[1] = address;
	inst->width[1] = (uint8_t)address_width;
	inst->offset = offset;
	inst->type = (uint8_t)type;
	inst->space = (uint8_t)memory_space(parser);
	inst->count = (uint8_t)count;
	inst->more = more;
	inst->flag = parser->mods.order >= CN_PTX_ORDER_VOLATILE;
}

/* ld.param of a kernel's parameter: the same for all threads, so it is a constant of the launch. */
static bool build_argument(struct cn_ptx_parser *parser)
{
	const struct cn_ptx_value *to = &parser->args[0].value, *from = &parser->args[1].value;
	enum cn_ptx_type type = parser->mods.type_count == 1 ? parser->mods.types[0] : CN_PTX_NO_TYPE;
	unsigned bytes = cn_ptx_type_bytes(type), width;
	cn_ptx_operand d;

	if (parser->arg_count != 2 || parser->args[0].part_count || parser->mods.vector || parser->mods.order ||
	    parser->mods.space != CN_PTX_PARAM || bytes < 2 || bytes > 8 || to->kind != CN_PTX_A_SYMBOL ||
	    from->kind != CN_PTX_A_SYMBOL || !from->in_brackets || from->symbol->kind != CN_PTX_SYM_VARIABLE ||
	    !from->symbol->is_entry_parameter || from->offset < 0 || from->offset + bytes > from->symbol->bytes ||
	    (from->symbol->value + (uint64_t)from->offset) % bytes)
		return false;
	d = cn_ptx_result_wide(parser, to, type, &width);
	if (width != bytes)
		return false;
	emit_move(
		parser, type, d,
		cn_ptx_constant(parser, CN_PTX_C_ARGUMENT, from->symbol->value + (uint64_t)from->offset, bytes, false));
	return true;
}

void cn_ptx_build_load(struct cn_ptx_parser *parser)
{
	if (!build_argument(parser))
		build_memory(parser, true);
}

void cn_ptx_build_store(struct cn_ptx_parser *parser)
{
	if (parser->mods.space == CN_PTX_CONST)
		cn_ptx_unsupported(parser);
	build_memory(parser, false);
}

/* ---- Copies and caches ------------------------------------------------------------------------------------------- */

static bool is_predicate(const struct cn_ptx_value *value)
{
	return value->kind == CN_PTX_A_SYMBOL && value->symbol->type == CN_PTX_PRED;
}

static bool is_policy(const struct cn_ptx_value *value)
{
	return value->kind == CN_PTX_A_SYMBOL && cn_ptx_type_bytes(value->symbol->type) == 8;
}

/* cp.async.ca.shared.global [to], [from], bytes {, bytes that are read} {, policy}; and its groups. */
void cn_ptx_build_copy(struct cn_ptx_parser *parser)
{
	const struct cn_ptx_modifiers *mods = &parser->mods;
	const struct cn_ptx_argument_text *args = parser->args;
	bool has_count = parser->arg_count > 3 && !is_policy(&args[3].value);
	cn_ptx_operand to, from, count = CN_PTX_NONE;
	unsigned to_width, from_width;
	int64_t to_offset, from_offset;
	struct cn_ptx_inst *inst;

	if (!mods->mode_count || mods->modes[0] != CN_PTX_MODE_ASYNC)
		cn_ptx_unsupported(parser);
	if (mods->mode_count > 2 && mods->modes[1] == CN_PTX_MODE_MBARRIER) { /* the copies before it are done */
		cn_ptx_want(parser, 1, 1);
		if (mods->mode_count == 4 && mods->modes[3] == CN_PTX_MODE_NOINC)
			cn_ptx_emit_mbarrier(parser, CN_PTX_MBAR_ARRIVE, &args[0].value, NULL, NULL);
		else
			cn_ptx_emit(parser, CN_PTX_I_NOTHING);
		return;
	}
	if (mods->mode_count >= 2) {
		if (mods->modes[1] != CN_PTX_MODE_GROUP)
			cn_ptx_unsupported(parser);
		cn_ptx_emit(parser, CN_PTX_I_NOTHING);
		return;
	}
	cn_ptx_want(parser, 3, 5);
	if (mods->space_count != 2 || mods->space != CN_PTX_GLOBAL || args[2].value.kind != CN_PTX_A_NUMBER ||
	    (args[2].value.value != 4 && args[2].value.value != 8 && args[2].value.value != 16) ||
	    (has_count && is_predicate(&args[3].value)))
		cn_ptx_unsupported(parser);
	to = cn_ptx_address(parser, &args[0].value, CN_PTX_SHARED, &to_width, &to_offset);
	from = cn_ptx_address(parser, &args[1].value, CN_PTX_GLOBAL, &from_width, &from_offset);
	if (has_count)
		count = source(parser, 3, CN_PTX_B32);
	if (to_offset != (int32_t)to_offset)
		cn_ptx_unsupported(parser);
	inst = cn_ptx_emit(parser, CN_PTX_I_COPY);
	inst->operand[1] = from;
	inst->width[1] = (uint8_t)from_width;
	inst->offset = from_offset;
	inst->operand[2] = to;
	inst->width[2] = (uint8_t)to_width;
	inst->detail = (uint32_t)(int32_t)to_offset;
	inst->operand[3] = count;
	inst->width[3] = 4;
	inst->count = (uint8_t)args[2].value.value;
}

/* A policy for caches: any number, since none looks at it. */
void cn_ptx_build_policy(struct cn_ptx_parser *parser)
{
	cn_ptx_want(parser, 1, 4);
	emit_move(parser, CN_PTX_B64, cn_ptx_result(parser, &parser->args[0].value, CN_PTX_B64),
		  cn_ptx_constant(parser, CN_PTX_C_BITS, 0, 8, false));
}

/* ---- Atomics ----------------------------------------------------------------------------------------------------- */

static bool is_atomic(enum cn_ptx_operation op, enum cn_ptx_type type)
{
	bool is_word = cn_ptx_type_bytes(type) == 4 || cn_ptx_type_bytes(type) == 8;
	bool is_integer = !cn_ptx_type_is_float(type) && type < CN_PTX_U16X2 && type != CN_PTX_PRED;

	switch (op) {
	case CN_PTX_OP_AND:
	case CN_PTX_OP_OR:
	case CN_PTX_OP_XOR:
	case CN_PTX_OP_EXCH: return is_integer && is_word;
	case CN_PTX_OP_CAS: return is_integer && (is_word || cn_ptx_type_bytes(type) == 2);
	case CN_PTX_OP_INC:
	case CN_PTX_OP_DEC: return type == CN_PTX_U32;
	case CN_PTX_OP_ADD: return cn_ptx_type_is_float(type) || (is_integer && is_word);
	default:
		return (is_integer && is_word) ||
		       (cn_ptx_type_is_float(type) && type != CN_PTX_F32 && type != CN_PTX_F64);
	}
}

void cn_ptx_build_atomic(struct cn_ptx_parser *parser)
{
	bool has_result = cn_ptx_opcode_now(parser)->detail == CN_PTX_O_ATOM;
	enum cn_ptx_type type = memory_type(parser);
	bool is_cas = parser->mods.op == CN_PTX_OP_CAS;
	unsigned first = has_result ? 1 : 0, address_width, count = first + 2 + is_cas;
	struct cn_ptx_inst *inst;
	cn_ptx_operand operands[4] = {CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE, CN_PTX_NONE};
	int64_t offset;

	cn_ptx_want(parser, count, count);
	if (!parser->mods.has_op || !is_atomic(parser->mods.op, type))
		cn_ptx_unsupported(parser);
	operands[1] = cn_ptx_address(parser, &parser->args[first].value, parser->mods.space, &address_width, &offset);
	operands[2] = source(parser, first + 1, type);
	if (is_cas)
		operands[3] = source(parser, first + 2, type);
	if (has_result)
		operands[0] = cn_ptx_result(parser, &parser->args[0].value, type);
	inst = cn_ptx_emit(parser, CN_PTX_I_ATOMIC);
	for (unsigned i = 0; i < 4; i++) {
		inst->operand[i] = operands[i];
		inst->width[i] = (uint8_t)cn_ptx_type_bytes(type);
	}
	inst->width[1] = (uint8_t)address_width;
	inst->offset = offset;
	inst->type = (uint8_t)type;
	inst->detail = parser->mods.op;
	inst->space = (uint8_t)memory_space(parser);
}

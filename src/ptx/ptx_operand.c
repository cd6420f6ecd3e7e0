/* SPDX-License-Identifier: MIT */
/*
 * Operands: from their text to a place in the frame or among the function's constants.
 */
#include "ptx/ptx_bits.h"
#include "ptx/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

enum { CONSTANT_BYTES_MAX = 1 << 18, CONSTANTS_LOOKED_AT = 64 };

/* ---- Text -------------------------------------------------------------------------------------------------------- */

static unsigned component(struct cn_ptx_parser *parser, unsigned count)
{
	static const char letters[2][4] = {"xyzw", "rgba"};
	const struct cn_ptx_token *token = &parser->token;

	if (token->kind == CN_PTX_T_DOT && token->length == 1)
		for (unsigned i = 0; i < 4; i++)
			if ((letters[0][i] == *token->text || letters[1][i] == *token->text) && i < count) {
				cn_ptx_next(parser);
				return i;
			}
	cn_ptx_fail(parser, CN_PTX_INVALID, "expected .x, .y or .z");
}

static void read_name(struct cn_ptx_parser *parser, struct cn_ptx_value *ret)
{
	unsigned special;

	ret->name = parser->token.text;
	ret->length = parser->token.length;
	if (cn_ptx_is_word(parser, "_")) {
		ret->kind = CN_PTX_A_SINK;
		cn_ptx_next(parser);
		return;
	}
	ret->symbol = cn_ptx_symbol_find(parser, ret->name, ret->length);
	if (!ret->symbol && cn_ptx_special_find(ret->name, ret->length, &special)) {
		cn_ptx_next(parser);
		ret->kind = CN_PTX_A_SPECIAL;
		ret->value = special & 0xffff;
		if (special >> 16)
			ret->value += component(parser, 3);
		return;
	}
	if (!ret->symbol && *ret->name == '%')
		cn_ptx_fail(parser, CN_PTX_INVALID, "register '%.*s' is not declared", cn_ptx_shown(&parser->token),
			    ret->name);
	ret->kind = ret->symbol ? CN_PTX_A_SYMBOL : CN_PTX_A_NAME;
	cn_ptx_next(parser);
	if (ret->symbol && ret->symbol->kind == CN_PTX_SYM_REGISTER && ret->symbol->vector) {
		if (parser->token.kind == CN_PTX_T_DOT)
			ret->component = component(parser, ret->symbol->vector);
		else
			ret->kind = CN_PTX_A_VECTOR; /* all of it */
	}
}

static void read_value(struct cn_ptx_parser *parser, struct cn_ptx_value *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->negated = cn_ptx_take_sign(parser, '!');
	if (parser->token.kind == CN_PTX_T_WORD) {
		read_name(parser, ret);
		if (ret->kind == CN_PTX_A_SYMBOL && (cn_ptx_is_sign(parser, '+') || cn_ptx_is_sign(parser, '-')))
			ret->offset += cn_ptx_expression_read(parser);
		return;
	}
	if (cn_ptx_is_sign(parser, '-')) {
		cn_ptx_next(parser);
		if (parser->token.kind == CN_PTX_T_FLOAT) {
			ret->value = 1ull << (parser->token.is_double ? 63 : 31);
		} else {
			ret->kind = CN_PTX_A_NUMBER;
			ret->value = 0 - (uint64_t)cn_ptx_expression_read(parser);
			return;
		}
	}
	if (parser->token.kind == CN_PTX_T_FLOAT) {
		ret->kind = CN_PTX_A_FLOAT;
		ret->is_double = parser->token.is_double;
		ret->value ^= parser->token.value;
		cn_ptx_next(parser);
		return;
	}
	ret->kind = CN_PTX_A_NUMBER;
	ret->value = (uint64_t)cn_ptx_expression_read(parser);
}

static void read_vector(struct cn_ptx_parser *parser, struct cn_ptx_argument_text *ret)
{
	ret->value.kind = CN_PTX_A_VECTOR;
	do {
		if (ret->part_count == CN_PTX_VECTOR_MAX)
			cn_ptx_fail(parser, CN_PTX_INVALID, "a vector of more than %d", CN_PTX_VECTOR_MAX);
		read_value(parser, &ret->parts[ret->part_count]);
		if (ret->parts[ret->part_count].kind == CN_PTX_A_VECTOR || ret->parts[ret->part_count].offset)
			cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "a vector or a sum as a part of a vector");
		ret->part_count++;
	} while (cn_ptx_take_sign(parser, ','));
	cn_ptx_expect(parser, '}');
}

void cn_ptx_argument_read(struct cn_ptx_parser *parser, struct cn_ptx_argument_text *ret)
{
	ret->has_second = false;
	ret->part_count = 0;
	memset(&ret->value, 0, sizeof ret->value);
	if (cn_ptx_take_sign(parser, '{')) {
		read_vector(parser, ret);
		return;
	}
	if (cn_ptx_take_sign(parser, '[')) {
		read_value(parser, &ret->value);
		ret->value.in_brackets = true;
		cn_ptx_expect(parser, ']');
		return;
	}
	read_value(parser, &ret->value);
	if (ret->value.kind == CN_PTX_A_VECTOR) {
		ret->part_count = ret->value.symbol->vector;
		for (unsigned i = 0; i < ret->part_count; i++) {
			ret->parts[i] = ret->value;
			ret->parts[i].kind = CN_PTX_A_SYMBOL;
			ret->parts[i].component = i;
		}
		return;
	}
	if (ret->value.kind == CN_PTX_A_SYMBOL && ret->value.symbol->kind == CN_PTX_SYM_REGISTER && ret->value.offset)
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "a sum as an operand of %s", parser->opcode);
	if (cn_ptx_take_sign(parser, '|')) {
		read_value(parser, &ret->second);
		ret->has_second = true;
	}
}

/* ---- Constants --------------------------------------------------------------------------------------------------- */

cn_ptx_operand cn_ptx_constant(struct cn_ptx_parser *parser, enum cn_ptx_constant_kind kind, uint64_t value,
			       unsigned width, bool dynamic)
{
	struct cn_ptx_function *function = cn_ptx_current(parser);
	struct cn_ptx_constant *constant;
	uint32_t first =
		function->constant_count > CONSTANTS_LOOKED_AT ? function->constant_count - CONSTANTS_LOOKED_AT : 0;

	if (width < 8 && kind == CN_PTX_C_BITS)
		value &= (1ull << width * 8) - 1;
	/* Only the last ones are compared: a text must not cost the square of its length. */
	for (uint32_t i = function->constant_count; i-- > first;) {
		constant = &function->constants[i];
		if (constant->kind == kind && constant->value == value && constant->width == width &&
		    constant->dynamic == dynamic)
			return ~(cn_ptx_operand)constant->offset;
	}
	constant = CN_PTX_ADD(parser, function->constants, function->constant_count, function->constant_room);
	function->constant_bytes = (function->constant_bytes + width - 1) & ~(width - 1);
	*constant = (struct cn_ptx_constant){.kind = (uint8_t)kind,
					     .width = (uint8_t)width,
					     .dynamic = dynamic,
					     .offset = function->constant_bytes,
					     .value = value};
	function->constant_bytes += width;
	if (function->constant_bytes > CONSTANT_BYTES_MAX)
		cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "a function with more than %d bytes of constants",
			    CONSTANT_BYTES_MAX);
	return ~(cn_ptx_operand)constant->offset;
}

cn_ptx_operand cn_ptx_temporary(struct cn_ptx_parser *parser, unsigned width)
{
	return cn_ptx_frame_take(parser, width, width);
}

static uint64_t float_bits(const struct cn_ptx_value *value, enum cn_ptx_type type)
{
	if (value->is_double && (type == CN_PTX_F32 || type == CN_PTX_B32))
		return cn_ptx_f32_bits((float)cn_ptx_f64_of(value->value));
	if (!value->is_double && (type == CN_PTX_F64 || type == CN_PTX_B64))
		return cn_ptx_f64_bits(cn_ptx_f32_of((uint32_t)value->value));
	return value->value;
}

static cn_ptx_operand special(struct cn_ptx_parser *parser, unsigned which, unsigned width)
{
	struct cn_ptx_inst *inst;
	cn_ptx_operand place;

	if (which < CN_PTX_S_CLOCK)
		return cn_ptx_constant(parser, CN_PTX_C_SPECIAL, which, width, false);
	/* It changes: read it now. */
	place = cn_ptx_temporary(parser, width);
	inst = cn_ptx_emit(parser, CN_PTX_I_CLOCK);
	inst->guard = CN_PTX_NONE;
	inst->operand[0] = place;
	inst->width[0] = (uint8_t)width;
	inst->detail = which;
	return place;
}

/* The address of a variable or function, in 4 or 8 bytes. */
static cn_ptx_operand symbol_address(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, unsigned width)
{
	const struct cn_ptx_symbol *symbol = value->symbol;
	struct cn_ptx_inst *inst;
	cn_ptx_operand place;

	if (symbol->kind == CN_PTX_SYM_FUNCTION) {
		parser->module->functions[symbol->value].is_address_taken = true;
		return cn_ptx_constant(parser, CN_PTX_C_FUNCTION, symbol->value, width, false);
	}
	if (symbol->kind != CN_PTX_SYM_VARIABLE)
		cn_ptx_fail(parser, CN_PTX_INVALID, "'%.*s' is not a value",
			    value->length < 80 ? (int)value->length : 80, value->name);
	switch (symbol->space) {
	case CN_PTX_GLOBAL:
	case CN_PTX_CONST:
		return cn_ptx_constant(parser, CN_PTX_C_DATA, symbol->value + (uint64_t)value->offset, width, false);
	case CN_PTX_SHARED:
		return cn_ptx_constant(parser, CN_PTX_C_SHARED, (uint32_t)symbol->value | (uint64_t)value->offset << 32,
				       width, symbol->dynamic);
	default: break;
	}
	if (symbol->is_entry_parameter)
		return cn_ptx_constant(parser, CN_PTX_C_PARAMETER, symbol->value + (uint64_t)value->offset, width,
				       false);
	if (width != 8)
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "an address of local memory in 32 bits");
	place = cn_ptx_temporary(parser, 8);
	inst = cn_ptx_emit(parser, symbol->space == CN_PTX_LOCAL ? CN_PTX_I_LOCAL_ADDRESS : CN_PTX_I_PARAM_ADDRESS);
	inst->guard = CN_PTX_NONE;
	inst->operand[0] = place;
	inst->width[0] = 8;
	inst->offset = value->offset;
	if (symbol->space == CN_PTX_LOCAL) {
		inst->offset += (int64_t)symbol->value;
	} else {
		inst->operand[1] = symbol->place;
		inst->detail = (symbol->bytes + 15) & ~15u;
	}
	return place;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static cn_ptx_operand component_place(struct cn_ptx_parser *parser, const struct cn_ptx_value *value)
{
	/* Components lie behind each other, each an array of its own. */
	return cn_ptx_register_place(parser, value->symbol) +
	       (cn_ptx_operand)value->component * (cn_ptx_operand)cn_ptx_type_bytes(value->symbol->type);
}

static bool is_register(const struct cn_ptx_value *value)
{
	return value->kind == CN_PTX_A_SYMBOL && value->symbol->kind == CN_PTX_SYM_REGISTER;
}

static cn_ptx_operand any_source(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_type type,
				 unsigned *ret_width)
{
	unsigned width = cn_ptx_type_bytes(type);
	bool is_predicate = type == CN_PTX_PRED;

	*ret_width = width;
	if (value->in_brackets || value->kind == CN_PTX_A_VECTOR)
		cn_ptx_fail(parser, CN_PTX_INVALID, "an operand of %s must be a register or a number", parser->opcode);
	if (is_register(value)) {
		if ((value->symbol->type == CN_PTX_PRED) != is_predicate)
			cn_ptx_fail(parser, CN_PTX_INVALID, "register '%.*s' is not of the type that %s wants",
				    value->length < 80 ? (int)value->length : 80, value->name, parser->opcode);
		*ret_width = cn_ptx_type_bytes(value->symbol->type);
		return component_place(parser, value);
	}
	switch (value->kind) {
	case CN_PTX_A_NUMBER:
		if (type == CN_PTX_F32 || type == CN_PTX_F64) {
			struct cn_ptx_value real = {.kind = CN_PTX_A_FLOAT,
						    .is_double = true,
						    .value = cn_ptx_f64_bits((double)(int64_t)value->value)};

			return cn_ptx_constant(parser, CN_PTX_C_BITS, float_bits(&real, type), width, false);
		}
		return cn_ptx_constant(parser, CN_PTX_C_BITS, is_predicate ? !!value->value : value->value, width,
				       false);
	case CN_PTX_A_FLOAT: return cn_ptx_constant(parser, CN_PTX_C_BITS, float_bits(value, type), width, false);
	case CN_PTX_A_SPECIAL: return special(parser, (unsigned)value->value, width);
	case CN_PTX_A_SYMBOL:
		if (width != 4 && width != 8)
			break;
		return symbol_address(parser, value, width);
	default: break;
	}
	cn_ptx_fail(parser, CN_PTX_INVALID, "'%.*s' is not an operand of %s",
		    value->length < 80 ? (int)value->length : 80, value->name ? value->name : "", parser->opcode);
}

cn_ptx_operand cn_ptx_source_wide(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_type type,
				  unsigned *ret_width)
{
	cn_ptx_operand place = any_source(parser, value, type, ret_width);

	if (*ret_width < cn_ptx_type_bytes(type))
		cn_ptx_fail(parser, CN_PTX_INVALID, "register '%.*s' is too narrow for %s",
			    value->length < 80 ? (int)value->length : 80, value->name, parser->opcode);
	return place;
}

cn_ptx_operand cn_ptx_source(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_type type)
{
	unsigned width;
	cn_ptx_operand place = any_source(parser, value, type, &width);

	if (width != cn_ptx_type_bytes(type))
		cn_ptx_fail(parser, CN_PTX_INVALID, "register '%.*s' is not of the width that %s wants",
			    value->length < 80 ? (int)value->length : 80, value->name, parser->opcode);
	if (value->negated) {
		cn_ptx_operand inverse = cn_ptx_temporary(parser, 1);
		cn_ptx_operand guard = parser->guard;

		if (type != CN_PTX_PRED)
			cn_ptx_fail(parser, CN_PTX_INVALID, "'!' before an operand that is not a predicate");
		parser->guard = CN_PTX_NONE;
		cn_ptx_emit_kernel(parser, CN_PTX_K_not_p,
				   (cn_ptx_operand[4]){inverse, place, CN_PTX_NONE, CN_PTX_NONE}, 0);
		parser->guard = guard;
		return inverse;
	}
	return place;
}

cn_ptx_operand cn_ptx_result_wide(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_type type,
				  unsigned *ret_width)
{
	*ret_width = cn_ptx_type_bytes(type);
	if (value->kind == CN_PTX_A_SINK)
		return cn_ptx_temporary(parser, *ret_width);
	if (!is_register(value) || value->in_brackets || value->negated)
		cn_ptx_fail(parser, CN_PTX_INVALID, "the result of %s must be a register", parser->opcode);
	*ret_width = cn_ptx_type_bytes(value->symbol->type);
	if (*ret_width < cn_ptx_type_bytes(type) || (type == CN_PTX_PRED) != (value->symbol->type == CN_PTX_PRED))
		cn_ptx_fail(parser, CN_PTX_INVALID, "register '%.*s' cannot hold the result of %s",
			    value->length < 80 ? (int)value->length : 80, value->name, parser->opcode);
	return component_place(parser, value);
}

cn_ptx_operand cn_ptx_result(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_type type)
{
	unsigned width;
	cn_ptx_operand place = cn_ptx_result_wide(parser, value, type, &width);

	if (width != cn_ptx_type_bytes(type))
		cn_ptx_fail(parser, CN_PTX_INVALID, "register '%.*s' is not of the width that %s wants",
			    value->length < 80 ? (int)value->length : 80, value->name, parser->opcode);
	return place;
}

cn_ptx_operand cn_ptx_address(struct cn_ptx_parser *parser, const struct cn_ptx_value *value, enum cn_ptx_space space,
			      unsigned *ret_width, int64_t *ret_offset)
{
	*ret_offset = 0;
	*ret_width = 8;
	if (!value->in_brackets)
		cn_ptx_fail(parser, CN_PTX_INVALID, "%s wants an address in brackets", parser->opcode);
	if (is_register(value)) {
		*ret_width = cn_ptx_type_bytes(value->symbol->type);
		if (*ret_width != 8 && !(*ret_width == 4 && space == CN_PTX_SHARED))
			cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "an address of %u bytes", *ret_width);
		*ret_offset = value->offset;
		return component_place(parser, value);
	}
	if (value->kind == CN_PTX_A_NUMBER)
		return cn_ptx_constant(parser, CN_PTX_C_BITS, value->value, 8, false);
	if (value->kind != CN_PTX_A_SYMBOL)
		cn_ptx_fail(parser, CN_PTX_INVALID, "'%.*s' is not declared",
			    value->length < 80 ? (int)value->length : 80, value->name ? value->name : "");
	if (value->symbol->kind == CN_PTX_SYM_VARIABLE &&
	    (value->symbol->space == CN_PTX_SHARED) != (space == CN_PTX_SHARED))
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED,
			    "variable '%.*s' used by %s in another state space than its own",
			    value->length < 80 ? (int)value->length : 80, value->name, parser->opcode);
	return symbol_address(parser, value, 8);
}

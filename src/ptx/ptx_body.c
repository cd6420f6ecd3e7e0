/* SPDX-License-Identifier: MIT */
/*
 * The body of a function: declarations, labels and instructions.
 */
#include "ptx/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

struct cn_ptx_inst *cn_ptx_emit(struct cn_ptx_parser *parser, enum cn_ptx_kind kind)
{
	struct cn_ptx_function *function = cn_ptx_current(parser);
	struct cn_ptx_inst *inst;

	/* The text of an instruction is longer than the number of those that it becomes. */
	if (function->code_count == function->pc_room)
		cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "a function of too many instructions");
	inst = CN_PTX_ADD(parser, function->code, function->code_count, function->code_room);
	inst->kind = (uint8_t)kind;
	inst->guard = parser->guard;
	inst->guard_negated = parser->guard_negated;
	for (unsigned i = 0; i < CN_PTX_OPERANDS; i++)
		inst->operand[i] = CN_PTX_NONE;
	inst->line = parser->inst_line;
	inst->location = parser->location;
	return inst;
}

void cn_ptx_emit_kernel(struct cn_ptx_parser *parser, enum cn_ptx_kernel_index kernel, const cn_ptx_operand operands[4],
			uint32_t detail)
{
	struct cn_ptx_inst *inst = cn_ptx_emit(parser, CN_PTX_I_KERNEL);

	inst->kernel = (uint16_t)kernel;
	inst->detail = detail;
	memcpy(inst->operand, operands, 4 * sizeof *operands);
	memcpy(inst->width, cn_ptx_build_plain.widths[kernel], 4);
}

void cn_ptx_emit_lane(struct cn_ptx_parser *parser, cn_ptx_lane *lane, const cn_ptx_operand operands[4],
		      const uint8_t widths[4], uint32_t detail)
{
	struct cn_ptx_inst *inst = cn_ptx_emit(parser, CN_PTX_I_LANE);

	inst->lane = lane;
	inst->detail = detail;
	memcpy(inst->operand, operands, 4 * sizeof *operands);
	memcpy(inst->width, widths, 4);
}

void cn_ptx_unsupported(struct cn_ptx_parser *parser)
{
	cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "this form of instruction %s is not supported", parser->opcode);
}

enum cn_ptx_type cn_ptx_only_type(struct cn_ptx_parser *parser)
{
	if (parser->mods.type_count != 1)
		cn_ptx_fail(parser, CN_PTX_INVALID, "%s wants one type", parser->opcode);
	return parser->mods.types[0];
}

void cn_ptx_want(struct cn_ptx_parser *parser, unsigned least, unsigned most)
{
	if (parser->arg_count < least || parser->arg_count > most)
		cn_ptx_fail(parser, CN_PTX_INVALID, "%s with %u operands", parser->opcode, parser->arg_count);
}

const struct cn_ptx_opcode *cn_ptx_opcode_now(struct cn_ptx_parser *parser)
{
	return cn_ptx_opcode_find(parser->opcode);
}

static void read_guard(struct cn_ptx_parser *parser)
{
	struct cn_ptx_symbol *symbol;

	parser->guard_negated = cn_ptx_take_sign(parser, '!');
	symbol = parser->token.kind == CN_PTX_T_WORD
			 ? cn_ptx_symbol_find(parser, parser->token.text, parser->token.length)
			 : NULL;
	if (!symbol || symbol->kind != CN_PTX_SYM_REGISTER || symbol->type != CN_PTX_PRED) {
		cn_ptx_fail(parser, CN_PTX_INVALID, "'%.*s' is not a predicate", cn_ptx_shown(&parser->token),
			    parser->token.text);
		return;
	}
	parser->guard = cn_ptx_register_place(parser, symbol);
	cn_ptx_next(parser);
}

static void read_operands(struct cn_ptx_parser *parser)
{
	parser->arg_count = 0;
	if (cn_ptx_is_sign(parser, ';'))
		return;
	do {
		if (parser->arg_count == CN_PTX_OPERAND_COUNT_MAX)
			cn_ptx_fail(parser, CN_PTX_INVALID, "%s with more than %d operands", parser->opcode,
				    CN_PTX_OPERAND_COUNT_MAX);
		cn_ptx_argument_read(parser, &parser->args[parser->arg_count++]);
	} while (cn_ptx_take_sign(parser, ','));
}

/* The opcode is the token. */
static void read_instruction(struct cn_ptx_parser *parser)
{
	const struct cn_ptx_opcode *opcode;

	parser->inst_line = parser->token_line;
	if (parser->token.kind != CN_PTX_T_WORD || parser->token.length >= sizeof parser->opcode)
		cn_ptx_fail(parser, CN_PTX_INVALID, "expected an instruction, found '%.*s'",
			    cn_ptx_shown(&parser->token), parser->token.text);
	memcpy(parser->opcode, parser->token.text, parser->token.length);
	parser->opcode[parser->token.length] = 0;
	memset(&parser->mods, 0, sizeof parser->mods);
	opcode = cn_ptx_opcode_find(parser->opcode);
	if (!opcode)
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "instruction %s is not supported", parser->opcode);
	cn_ptx_next(parser);
	while (parser->token.kind == CN_PTX_T_DOT) {
		cn_ptx_modifier_take(parser);
		cn_ptx_next(parser);
	}
	if (!strcmp(parser->opcode, "call")) {
		cn_ptx_call_read(parser);
	} else {
		read_operands(parser);
		opcode->build(parser);
	}
	cn_ptx_expect(parser, ';');
}

/* ---- Directives -------------------------------------------------------------------------------------------------- */

static void read_location(struct cn_ptx_parser *parser)
{
	struct cn_ptx_function *function = cn_ptx_current(parser);
	struct cn_ptx_place *place;
	uint64_t numbers[2] = {0, 0};

	for (unsigned i = 0; i < 3 && parser->token.kind == CN_PTX_T_NUMBER; i++) {
		if (i < 2)
			numbers[i] = parser->token.value;
		cn_ptx_next(parser);
	}
	/* , function_name label, inlined_at 1 2 3: on the same line. */
	while (cn_ptx_take_sign(parser, ',')) {
		uint32_t line = parser->token_line;

		while (parser->token.kind != CN_PTX_T_END && parser->token_line == line && !cn_ptx_is_sign(parser, ','))
			cn_ptx_next(parser);
	}
	place = CN_PTX_ADD(parser, function->places, function->place_count, function->place_room);
	*place = (struct cn_ptx_place){(uint32_t)numbers[0], (uint32_t)numbers[1]};
	parser->location = function->place_count;
}

/* name: .branchtargets a, b; and name: .callprototype …; */
static void read_after_label(struct cn_ptx_parser *parser, const char *name, uint32_t length)
{
	struct cn_ptx_function *function = cn_ptx_current(parser);
	struct cn_ptx_symbol *symbol;

	if (cn_ptx_take_dot(parser, "branchtargets")) {
		symbol = cn_ptx_symbol_add(parser, name, length, CN_PTX_SYM_TARGETS);
		symbol->value = function->more_count;
		do {
			uint32_t *target =
				CN_PTX_ADD(parser, function->more, function->more_count, function->more_room);

			*target = 0;
			if (parser->token.kind != CN_PTX_T_WORD)
				cn_ptx_fail(parser, CN_PTX_INVALID, "expected a label");
			cn_ptx_label_use(parser, parser->token.text, parser->token.length, true,
					 function->more_count - 1);
			cn_ptx_next(parser);
			symbol->bytes++;
		} while (cn_ptx_take_sign(parser, ','));
		cn_ptx_expect(parser, ';');
	} else if (cn_ptx_is_dot(parser, "callprototype") || cn_ptx_is_dot(parser, "calltargets")) {
		cn_ptx_symbol_add(parser, name, length, CN_PTX_SYM_PROTOTYPE);
		while (!cn_ptx_is_sign(parser, ';') && parser->token.kind != CN_PTX_T_END)
			cn_ptx_next(parser);
		cn_ptx_expect(parser, ';');
	} else {
		cn_ptx_label_add(parser, name, length);
	}
}

static bool take_space(struct cn_ptx_parser *parser, enum cn_ptx_space *ret)
{
	static const struct {
		const char *name;
		enum cn_ptx_space space;
	} spaces[] = {{"reg", CN_PTX_REG},     {"param", CN_PTX_PARAM},   {"shared", CN_PTX_SHARED},
		      {"local", CN_PTX_LOCAL}, {"global", CN_PTX_GLOBAL}, {"const", CN_PTX_CONST}};

	for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
		if (cn_ptx_take_dot(parser, spaces[i].name)) {
			*ret = spaces[i].space;
			return true;
		}
	return false;
}

static void read_directive(struct cn_ptx_parser *parser)
{
	enum cn_ptx_space space;

	if (take_space(parser, &space)) {
		cn_ptx_variable_read(parser, space, false);
	} else if (cn_ptx_take_dot(parser, "loc")) {
		read_location(parser);
	} else if (cn_ptx_is_dot(parser, "pragma")) {
		while (!cn_ptx_is_sign(parser, ';') && parser->token.kind != CN_PTX_T_END)
			cn_ptx_next(parser);
		cn_ptx_expect(parser, ';');
	} else {
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "directive .%.*s is not supported here",
			    cn_ptx_shown(&parser->token), parser->token.text);
	}
}

static void read_statement(struct cn_ptx_parser *parser)
{
	parser->guard = CN_PTX_NONE;
	parser->guard_negated = false;
	if (parser->token.kind == CN_PTX_T_DOT) {
		read_directive(parser);
		return;
	}
	if (cn_ptx_take_sign(parser, ';'))
		return;
	if (parser->token.kind == CN_PTX_T_WORD) {
		struct cn_ptx_token word = parser->token;
		const char *at = parser->at;
		uint32_t line = parser->line, token_line = parser->token_line;

		cn_ptx_next(parser);
		if (cn_ptx_take_sign(parser, ':')) {
			read_after_label(parser, word.text, word.length);
			return;
		}
		parser->token = word;
		parser->at = at;
		parser->line = line;
		parser->token_line = token_line;
	}
	if (cn_ptx_take_sign(parser, '@'))
		read_guard(parser);
	read_instruction(parser);
}

/* From '{' to the '}' that belongs to it. */
void cn_ptx_body_read(struct cn_ptx_parser *parser)
{
	unsigned outer = parser->depth;

	cn_ptx_expect(parser, '{');
	cn_ptx_scope_open(parser);
	while (parser->depth > outer) {
		if (parser->token.kind == CN_PTX_T_END)
			cn_ptx_fail(parser, CN_PTX_INVALID, "a function's body does not end");
		if (cn_ptx_is_sign(parser, '}')) {
			if (parser->depth > outer + 1)
				cn_ptx_next(parser);
			else
				break;
			cn_ptx_scope_close(parser);
		} else if (cn_ptx_take_sign(parser, '{')) {
			cn_ptx_scope_open(parser);
		} else {
			read_statement(parser);
		}
	}
	/* A function that ends without saying so. */
	parser->guard = CN_PTX_NONE;
	parser->inst_line = parser->token_line;
	cn_ptx_emit(parser, cn_ptx_current(parser)->is_kernel ? CN_PTX_I_EXIT : CN_PTX_I_RETURN);
	cn_ptx_labels_resolve(parser);
	cn_ptx_scope_close(parser);
	cn_ptx_expect(parser, '}');
}

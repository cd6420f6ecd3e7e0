/* SPDX-License-Identifier: MIT */
/*
 * Calls: call (result), function, (arguments), prototype;
 *
 * Arguments and results are .param variables of the caller or registers. They are matched with the callee's formals by
 * size when the call runs, since a function pointer can lead to any function.
 */
#include "ptx/ptx_parse.h"

#include "ptx/ptx_builtin.h"

#include <string.h>

enum { ARGUMENTS_MAX = 256 };

static void add_argument(struct cn_ptx_parser *parser, bool is_result)
{
	struct cn_ptx_function *function = cn_ptx_current(parser);
	struct cn_ptx_argument_text text;
	struct cn_ptx_argument *argument;
	struct cn_ptx_argument filled = {0};
	const struct cn_ptx_symbol *symbol;

	cn_ptx_argument_read(parser, &text);
	symbol = text.value.kind == CN_PTX_A_SYMBOL ? text.value.symbol : NULL;
	if (text.value.kind == CN_PTX_A_VECTOR || text.value.in_brackets)
		cn_ptx_fail(parser, CN_PTX_INVALID, "an argument of a call must be a name or a number");
	if (symbol && symbol->kind == CN_PTX_SYM_VARIABLE && symbol->space == CN_PTX_PARAM &&
	    !symbol->is_entry_parameter) {
		filled.at = symbol->place;
		filled.bytes = symbol->bytes;
	} else if (symbol && symbol->kind == CN_PTX_SYM_REGISTER) {
		filled.is_register = true;
		filled.bytes = cn_ptx_type_bytes(symbol->type);
		filled.at = cn_ptx_source(parser, &text.value, symbol->type);
	} else if (!is_result) {
		filled.is_register = true;
		filled.bytes = 8;
		filled.at = cn_ptx_source(parser, &text.value, CN_PTX_B64);
	} else {
		cn_ptx_fail(parser, CN_PTX_INVALID, "the result of a call must be a parameter or a register");
	}
	argument = CN_PTX_ADD(parser, function->arguments, function->argument_count, function->argument_room);
	*argument = filled;
}

static unsigned read_list(struct cn_ptx_parser *parser, bool is_result)
{
	unsigned count = 0;

	cn_ptx_expect(parser, '(');
	if (cn_ptx_take_sign(parser, ')'))
		return 0;
	do {
		if (++count > ARGUMENTS_MAX)
			cn_ptx_fail(parser, CN_PTX_INVALID, "a call with more than %d arguments", ARGUMENTS_MAX);
		add_argument(parser, is_result);
	} while (cn_ptx_take_sign(parser, ','));
	cn_ptx_expect(parser, ')');
	return count;
}

static void check_direct(struct cn_ptx_parser *parser, const struct cn_ptx_function *function, unsigned results,
			 unsigned arguments)
{
	if (function->is_kernel)
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "a call of a kernel");
	if (!function->builtin &&
	    (function->result_count != results || function->formal_count - function->result_count != arguments))
		cn_ptx_fail(parser, CN_PTX_INVALID, "'%.80s' is called with %u arguments and %u results",
			    function->name, arguments, results);
}

void cn_ptx_call_read(struct cn_ptx_parser *parser)
{
	uint32_t first = cn_ptx_current(parser)->argument_count;
	unsigned results = 0, arguments = 0;
	struct cn_ptx_argument_text target;
	struct cn_ptx_inst *inst;
	cn_ptx_operand pointer = CN_PTX_NONE;

	if (cn_ptx_is_sign(parser, '(')) {
		results = read_list(parser, true);
		cn_ptx_expect(parser, ',');
	}
	cn_ptx_argument_read(parser, &target);
	if (target.value.kind != CN_PTX_A_SYMBOL)
		cn_ptx_fail(parser, CN_PTX_INVALID, "a call of something that is not declared");
	if (target.value.symbol->kind == CN_PTX_SYM_REGISTER) {
		pointer = cn_ptx_source(parser, &target.value, CN_PTX_B64);
		cn_ptx_current(parser)->has_indirect_calls = true;
	} else if (target.value.symbol->kind != CN_PTX_SYM_FUNCTION) {
		cn_ptx_fail(parser, CN_PTX_INVALID, "a call of something that is no function");
	}
	if (cn_ptx_take_sign(parser, ',')) {
		if (cn_ptx_is_sign(parser, '('))
			arguments = read_list(parser, false);
		else
			cn_ptx_next(parser); /* a prototype, or list of targets */
		if (cn_ptx_take_sign(parser, ','))
			cn_ptx_next(parser);
	}
	if (pointer == CN_PTX_NONE)
		check_direct(parser, &parser->module->functions[target.value.symbol->value], results, arguments);
	inst = cn_ptx_emit(parser, CN_PTX_I_CALL);
	inst->operand[1] = pointer;
	inst->target = pointer == CN_PTX_NONE ? (uint32_t)target.value.symbol->value : 0;
	inst->more = first;
	inst->count = (uint8_t)results;
	inst->detail = arguments;
	if (results > UINT8_MAX)
		cn_ptx_fail(parser, CN_PTX_INVALID, "a call with more than 255 results");
}

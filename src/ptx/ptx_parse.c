/* SPDX-License-Identifier: MIT */
/*
 * A module's text: its directives, variables and functions.
 */
#include "ptx/ptx_parse.h"
#include "ptx/ptx_bits.h"

#include "ptx/ptx_builtin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 30 };

char *cn_ptx_copy_text(const char *text, size_t length)
{
	char *copy = malloc(length + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, length);
	copy[length] = 0;
	return copy;
}

void cn_ptx_fail(struct cn_ptx_parser *parser, enum cn_ptx_error_code code, const char *format, ...)
{
	va_list arguments;

	parser->error->code = code;
	parser->error->line = parser->token_line;
	va_start(arguments, format);
	vsnprintf(parser->error->sentence, sizeof parser->error->sentence, format, arguments);
	va_end(arguments);
	longjmp(parser->failed, 1);
}

void *cn_ptx_grow(struct cn_ptx_parser *parser, void *array, uint32_t *count, uint32_t *room, size_t item_bytes)
{
	if (*count == *room) {
		uint32_t more = *room ? *room * 2 : 16;
		void *grown = more > *room && more < 1u << 28 ? realloc(array, more * item_bytes) : NULL;

		if (!grown)
			cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "no memory for a module of this size");
		array = grown;
		*room = more;
	}
	memset((char *)array + *count * item_bytes, 0, item_bytes);
	++*count;
	return array;
}

/* Up to the semicolon, or where a brace opens. */
static void skip_to(struct cn_ptx_parser *parser, int sign)
{
	while (!cn_ptx_is_sign(parser, sign)) {
		if (parser->token.kind == CN_PTX_T_END)
			cn_ptx_fail(parser, CN_PTX_INVALID, "the text ends in the middle of a directive");
		cn_ptx_next(parser);
	}
	cn_ptx_next(parser);
}

/* ---- Functions --------------------------------------------------------------------------------------------------- */

static uint32_t find_or_add_function(struct cn_ptx_parser *parser, bool is_kernel)
{
	struct cn_ptx_module *module = parser->module;
	struct cn_ptx_token name = parser->token;
	struct cn_ptx_symbol *symbol;
	struct cn_ptx_function *function;

	if (name.kind != CN_PTX_T_WORD)
		cn_ptx_fail(parser, CN_PTX_INVALID, "expected a function's name");
	symbol = cn_ptx_symbol_find(parser, name.text, name.length);
	if (symbol && symbol->kind != CN_PTX_SYM_FUNCTION)
		cn_ptx_fail(parser, CN_PTX_INVALID, "'%.*s' is declared twice", cn_ptx_shown(&name), name.text);
	if (symbol)
		return (uint32_t)symbol->value;
	if (module->function_count == CN_PTX_FUNCTIONS_MAX)
		cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "more than %d functions", CN_PTX_FUNCTIONS_MAX);
	symbol = cn_ptx_symbol_add(parser, name.text, name.length, CN_PTX_SYM_FUNCTION);
	symbol->value = module->function_count;
	function = CN_PTX_ADD(parser, module->functions, module->function_count, module->function_room);
	function->is_kernel = is_kernel;
	function->name = cn_ptx_copy_text(name.text, name.length);
	if (!function->name)
		cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "no memory for a function");
	if (!is_kernel)
		function->builtin = cn_ptx_builtin_find(function->name);
	return (uint32_t)symbol->value;
}

static void add_formal(struct cn_ptx_parser *parser, bool is_kernel)
{
	struct cn_ptx_function *function = cn_ptx_current(parser);
	struct cn_ptx_declaration declaration;
	struct cn_ptx_symbol *symbol;
	struct cn_ptx_formal *formals;
	struct cn_ptx_formal formal = {.is_register = cn_ptx_take_dot(parser, "reg")};
	uint32_t at;

	if (!formal.is_register && !cn_ptx_take_dot(parser, "param"))
		cn_ptx_fail(parser, CN_PTX_INVALID, "expected .param");
	cn_ptx_declaration_read(parser, &declaration);
	if (formal.is_register && (is_kernel || declaration.count || declaration.vector))
		cn_ptx_fail(parser, CN_PTX_INVALID, "a parameter that is no single register");
	formal.bytes = (uint32_t)declaration.bytes;
	formal.alignment = declaration.alignment;
	symbol = cn_ptx_symbol_add(parser, declaration.name, declaration.length,
				   formal.is_register ? CN_PTX_SYM_REGISTER : CN_PTX_SYM_VARIABLE);
	symbol->space = formal.is_register ? CN_PTX_REG : CN_PTX_PARAM;
	symbol->type = declaration.type;
	symbol->bytes = formal.bytes;
	if (is_kernel) {
		symbol->is_entry_parameter = true;
		at = (function->parameter_bytes + formal.alignment - 1) & ~(formal.alignment - 1);
		if ((uint64_t)at + formal.bytes > CN_PTX_PARAMETER_BYTES_MAX)
			cn_ptx_fail(parser, CN_PTX_INVALID, "more than %d bytes of parameters",
				    CN_PTX_PARAMETER_BYTES_MAX);
		function->parameter_bytes = at + formal.bytes;
		symbol->value = at;
	} else if (formal.is_register) {
		at = (uint32_t)cn_ptx_register_place(parser, symbol);
	} else {
		at = (uint32_t)cn_ptx_frame_take(parser, (formal.bytes + 15) & ~15u, 16);
		symbol->place = (cn_ptx_operand)at;
		symbol->has_place = true;
	}
	formal.at = at;
	function = cn_ptx_current(parser);
	if (!(function->formal_count & (function->formal_count - 1))) {
		size_t room = function->formal_count ? function->formal_count * 2 : 1;

		formals = realloc(function->formals, room * sizeof *formals);
		if (!formals)
			cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "no memory for parameters");
		function->formals = formals;
	}
	function->formals[function->formal_count++] = formal;
}

static void read_formals(struct cn_ptx_parser *parser, bool is_kernel)
{
	cn_ptx_expect(parser, '(');
	if (cn_ptx_take_sign(parser, ')'))
		return;
	do {
		if (cn_ptx_current(parser)->formal_count > 4096)
			cn_ptx_fail(parser, CN_PTX_INVALID, "a function with more than 4096 parameters");
		add_formal(parser, is_kernel);
	} while (cn_ptx_take_sign(parser, ','));
	cn_ptx_expect(parser, ')');
}

static unsigned read_up_to_three(struct cn_ptx_parser *parser, uint32_t ret[3])
{
	uint64_t product = 1;

	for (unsigned i = 0; i < 3; i++)
		ret[i] = 1;
	for (unsigned i = 0; i < 3; i++) {
		int64_t value = cn_ptx_expression_read(parser);

		if (value < 1 || value > 1 << 20)
			cn_ptx_fail(parser, CN_PTX_INVALID, "a block of %lld threads", (long long)value);
		ret[i] = (uint32_t)value;
		product *= (uint64_t)value;
		if (!cn_ptx_take_sign(parser, ','))
			break;
	}
	return product < 1 << 20 ? (unsigned)product : 1 << 20;
}

/* .maxntid 256, 1, 1 and the like, between a function's parameters and its body. */
static void read_directives(struct cn_ptx_parser *parser)
{
	uint32_t numbers[3];

	while (parser->token.kind == CN_PTX_T_DOT) {
		struct cn_ptx_function *function = cn_ptx_current(parser);

		if (cn_ptx_take_dot(parser, "maxntid")) {
			function->max_threads = read_up_to_three(parser, numbers);
		} else if (cn_ptx_take_dot(parser, "reqntid")) {
			function->max_threads = read_up_to_three(parser, function->required);
		} else if (cn_ptx_take_dot(parser, "minnctapersm") || cn_ptx_take_dot(parser, "maxnreg") ||
			   cn_ptx_take_dot(parser, "maxnctapersm")) {
			cn_ptx_expression_read(parser);
		} else if (cn_ptx_take_dot(parser, "pragma")) {
			skip_to(parser, ';');
		} else if (cn_ptx_take_dot(parser, "noreturn")) {
			/* nothing to know */
		} else {
			cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "directive .%.*s is not supported",
				    cn_ptx_shown(&parser->token), parser->token.text);
		}
	}
}

/* Go (back) to where a token begins. */
static void go_to(struct cn_ptx_parser *parser, const char *text, uint32_t line)
{
	parser->at = text;
	parser->line = line;
	cn_ptx_next(parser);
}

/* The current function's results, name, parameters and directives, in a scope that stays open. */
static void read_header(struct cn_ptx_parser *parser)
{
	struct cn_ptx_function *function = cn_ptx_current(parser);
	bool is_kernel = function->is_kernel;
	uint32_t results = 0;

	function->formal_count = 0;
	function->frame_bytes = function->parameter_bytes = 0;
	function->return_at = cn_ptx_frame_take(parser, 8, 8);
	cn_ptx_scope_open(parser);
	if (cn_ptx_is_sign(parser, '(')) {
		read_formals(parser, is_kernel);
		results = cn_ptx_current(parser)->formal_count;
	}
	cn_ptx_next(parser); /* its name */
	cn_ptx_current(parser)->result_count = results;
	if (cn_ptx_is_sign(parser, '('))
		read_formals(parser, is_kernel);
	read_directives(parser);
}

/* "…": nothing in it is what it looks like. */
static const char *skip_string(struct cn_ptx_parser *parser, const char *at)
{
	for (at++; at < parser->end && *at != '"' && *at != '\n'; at++)
		at += *at == '\\' && parser->end - at > 1;
	if (at >= parser->end || *at != '"')
		cn_ptx_fail(parser, CN_PTX_INVALID, "a string does not end");
	return at + 1;
}

static const char *skip_comment(struct cn_ptx_parser *parser, const char *at)
{
	if (parser->end - at > 1 && at[1] == '/') {
		while (at < parser->end && *at != '\n')
			at++;
		return at;
	}
	if (parser->end - at < 2 || at[1] != '*')
		return at + 1;
	for (at += 2; parser->end - at > 1 && !(at[0] == '*' && at[1] == '/'); at++)
		parser->line += *at == '\n';
	if (parser->end - at < 2)
		cn_ptx_fail(parser, CN_PTX_INVALID, "a comment does not end");
	return at + 2;
}

/* .global or .const that is not the modifier of an instruction, which stands behind a name. */
static bool is_variable(const struct cn_ptx_parser *parser, const char *at)
{
	size_t left = (size_t)(parser->end - at);

	if (cn_ptx_is_name_char(at[-1]))
		return false;
	return (left > 7 && !memcmp(at, ".global", 7)) || (left > 6 && !memcmp(at, ".const", 6));
}

/* From behind '{' to behind the '}' that belongs to it. Says whether variables of the module are declared inside. */
static bool skip_body(struct cn_ptx_parser *parser)
{
	const char *at = parser->at;
	bool has_variables = false;

	for (unsigned depth = 1; depth;) {
		if (at == parser->end)
			cn_ptx_fail(parser, CN_PTX_INVALID, "a function's body does not end");
		switch (*at) {
		case '\n':
			parser->line++;
			at++;
			break;
		case '{':
			depth++;
			at++;
			break;
		case '}':
			depth--;
			at++;
			break;
		case '"': at = skip_string(parser, at); break;
		case '/': at = skip_comment(parser, at); break;
		case '.':
			has_variables |= is_variable(parser, at);
			at++;
			break;
		default: at++;
		}
	}
	parser->at = at;
	cn_ptx_next(parser);
	return has_variables;
}

/* A function's declaration. Its body is only passed over. */
static void read_function(struct cn_ptx_parser *parser, bool is_kernel)
{
	const char *text = parser->token.text;
	uint32_t line = parser->token_line;
	struct cn_ptx_module *module = parser->module;
	struct cn_ptx_function *function;

	/* The name comes after the results: find it first. */
	if (cn_ptx_is_sign(parser, '('))
		skip_to(parser, ')');
	parser->function = find_or_add_function(parser, is_kernel);
	function = cn_ptx_current(parser);
	if (function->is_kernel != is_kernel)
		cn_ptx_fail(parser, CN_PTX_INVALID, "'%.80s' is declared twice", function->name);
	if (function->has_body)
		cn_ptx_fail(parser, CN_PTX_INVALID, "'%.80s' has two bodies or is declared after its body",
			    function->name);
	go_to(parser, text, line);
	read_header(parser);
	if (!cn_ptx_take_sign(parser, ';')) {
		const struct cn_ptx_function *last =
			module->body_count ? &module->functions[module->bodies[module->body_count - 1]] : NULL;

		if (!cn_ptx_is_sign(parser, '{'))
			cn_ptx_expect(parser, '{');
		*CN_PTX_ADD(parser, module->bodies, module->body_count, module->body_room) = parser->function;
		function->has_body = true;
		function->builtin = 0;
		function->text = text;
		function->text_line = line;
		function->start = last ? last->start + last->pc_room : 0;
		function->has_variables = skip_body(parser);
		function->pc_room = (uint32_t)(parser->at - text);
	}
	cn_ptx_scope_close(parser);
	parser->function = UINT32_MAX;
}

/* ---- The module -------------------------------------------------------------------------------------------------- */

static void read_version(struct cn_ptx_parser *parser)
{
	if (parser->token.kind != CN_PTX_T_FLOAT)
		cn_ptx_fail(parser, CN_PTX_INVALID, ".version without a number");

	double version = cn_ptx_f64_of(parser->token.value);
	if (!(version >= 1 && version < 10))
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "PTX of version %.1f is not supported", version);
	parser->module->contents.version = (unsigned)(version * 10 + 0.5);
	cn_ptx_next(parser);
}

static void read_target(struct cn_ptx_parser *parser)
{
	do {
		if (parser->token.kind != CN_PTX_T_WORD)
			cn_ptx_fail(parser, CN_PTX_INVALID, ".target without a name");
		if (parser->token.length > 3 && parser->token.length < 8 && !memcmp(parser->token.text, "sm_", 3)) {
			unsigned number = 0;

			for (uint32_t i = 3; i < parser->token.length; i++)
				if (parser->token.text[i] >= '0' && parser->token.text[i] <= '9')
					number = number * 10 + (unsigned)(parser->token.text[i] - '0');
			parser->module->contents.target = number;
		}
		cn_ptx_next(parser);
	} while (cn_ptx_take_sign(parser, ','));
}

static void read_file(struct cn_ptx_parser *parser)
{
	struct cn_ptx_module *module = parser->module;
	uint64_t number = parser->token.value;

	cn_ptx_next(parser);
	if (parser->token.kind != CN_PTX_T_STRING)
		cn_ptx_fail(parser, CN_PTX_INVALID, ".file without a name");
	/* Numbers may leave gaps, but not large ones: a text must not make a table longer than itself. */
	while (module->file_count <= number && number < module->file_count + 64)
		*CN_PTX_ADD(parser, module->files, module->file_count, module->file_room) = NULL;
	if (number < module->file_count && !module->files[number])
		module->files[number] = cn_ptx_copy_text(parser->token.text, parser->token.length);
	cn_ptx_next(parser);
	while (cn_ptx_take_sign(parser, ','))
		cn_ptx_next(parser);
}

static void read_section(struct cn_ptx_parser *parser)
{
	unsigned depth = 1;

	skip_to(parser, '{');
	for (; depth; cn_ptx_next(parser)) {
		if (parser->token.kind == CN_PTX_T_END)
			cn_ptx_fail(parser, CN_PTX_INVALID, "a section does not end");
		depth += cn_ptx_is_sign(parser, '{');
		depth -= cn_ptx_is_sign(parser, '}');
	}
}

static bool read_space(struct cn_ptx_parser *parser, bool external)
{
	if (cn_ptx_take_dot(parser, "global"))
		cn_ptx_variable_read(parser, CN_PTX_GLOBAL, external);
	else if (cn_ptx_take_dot(parser, "const"))
		cn_ptx_variable_read(parser, CN_PTX_CONST, external);
	else if (cn_ptx_take_dot(parser, "shared"))
		cn_ptx_variable_read(parser, CN_PTX_SHARED, external);
	else
		return false;
	return true;
}

static void read_directive(struct cn_ptx_parser *parser)
{
	bool external = false;

	while (cn_ptx_is_dot(parser, "extern") || cn_ptx_is_dot(parser, "visible") || cn_ptx_is_dot(parser, "weak") ||
	       cn_ptx_is_dot(parser, "common")) {
		external |= cn_ptx_is_dot(parser, "extern");
		cn_ptx_next(parser);
	}
	if (cn_ptx_take_dot(parser, "version")) {
		read_version(parser);
	} else if (cn_ptx_take_dot(parser, "target")) {
		read_target(parser);
	} else if (cn_ptx_take_dot(parser, "address_size")) {
		if (parser->token.kind != CN_PTX_T_NUMBER || parser->token.value != 64)
			cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "addresses of other than 64 bits are not supported");
		cn_ptx_next(parser);
	} else if (cn_ptx_take_dot(parser, "entry")) {
		read_function(parser, true);
	} else if (cn_ptx_take_dot(parser, "func")) {
		if (cn_ptx_take_dot(parser, "attribute"))
			skip_to(parser, ')');
		read_function(parser, false);
	} else if (cn_ptx_take_dot(parser, "file")) {
		read_file(parser);
	} else if (cn_ptx_take_dot(parser, "section")) {
		read_section(parser);
	} else if (cn_ptx_take_dot(parser, "pragma")) {
		skip_to(parser, ';');
	} else if (!read_space(parser, external)) {
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "directive .%.*s is not supported",
			    cn_ptx_shown(&parser->token), parser->token.text);
	}
}

static void read_module(struct cn_ptx_parser *parser)
{
	cn_ptx_scope_open(parser);
	cn_ptx_next(parser);
	if (!cn_ptx_is_dot(parser, "version"))
		cn_ptx_fail(parser, CN_PTX_INVALID, "the text does not begin with .version: it is not PTX");
	while (parser->token.kind != CN_PTX_T_END) {
		if (cn_ptx_is_sign(parser, '@')) { /* @@DWARF */
			uint32_t line = parser->token_line;

			while (parser->token.kind != CN_PTX_T_END && parser->token_line == line)
				cn_ptx_next(parser);
		} else if (parser->token.kind == CN_PTX_T_DOT) {
			read_directive(parser);
		} else if (!cn_ptx_take_sign(parser, ';')) {
			cn_ptx_fail(parser, CN_PTX_INVALID, "expected a directive, found '%.*s'",
				    cn_ptx_shown(&parser->token), parser->token.text);
		}
	}
}

void cn_ptx_parser_free(struct cn_ptx_parser *parser)
{
	if (!parser)
		return;
	while (parser->depth)
		cn_ptx_scope_close(parser);
	free(parser->scope_parents);
	free(parser->labels);
	free(parser->fixups);
	free(parser);
}

enum cn_ptx_error_code cn_ptx_parse(struct cn_ptx_module *module, const char *text, size_t bytes,
				    struct cn_ptx_error *error)
{
	struct cn_ptx_parser *parser = module->parser = calloc(1, sizeof *parser);

	if (!parser || bytes > TEXT_BYTES_MAX) {
		*error = (struct cn_ptx_error){.code = CN_PTX_NO_MEMORY,
					       .sentence = "no memory for a module of this size"};
		return CN_PTX_NO_MEMORY;
	}
	parser->at = text;
	parser->end = text + bytes;
	parser->line = 1;
	parser->module = module;
	parser->error = error;
	parser->function = UINT32_MAX;
	if (!setjmp(parser->failed))
		read_module(parser);
	return error->code; /* zero: nothing failed */
}

enum cn_ptx_error_code cn_ptx_parse_body(struct cn_ptx_module *module, uint32_t function, struct cn_ptx_error *error)
{
	struct cn_ptx_parser *parser = module->parser;

	memset(error, 0, sizeof *error);
	parser->error = error;
	parser->function = function;
	parser->carry = CN_PTX_NONE;
	parser->location = 0;
	parser->scope_count = 1;
	parser->label_count = parser->fixup_count = 0;
	if (!setjmp(parser->failed)) {
		go_to(parser, module->functions[function].text, module->functions[function].text_line);
		read_header(parser);
		cn_ptx_body_read(parser);
	}
	while (parser->depth > 1)
		cn_ptx_scope_close(parser);
	parser->function = UINT32_MAX;
	return error->code;
}

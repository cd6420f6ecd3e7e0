/* SPDX-License-Identifier: MIT */
/*
 * Variables: their declarations, places and first values.
 *
 * Global and constant variables have an offset in the module's data, which place() copies; addresses among their first
 * values are noted as relocations. Shared and local ones have an offset in the block's or the thread's memory.
 */
#include "ptx/ptx_bits.h"
#include "ptx/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

enum { SPACE_BYTES_MAX = 1 << 28, DIMENSIONS_MAX = 8 };

/* ---- Constant expressions ---------------------------------------------------------------------------------------- */

static int64_t read_conditional(struct cn_ptx_parser *parser, unsigned depth);

static int64_t read_unary(struct cn_ptx_parser *parser, unsigned depth)
{
	int64_t value;

	if (depth > CN_PTX_DEPTH_MAX)
		cn_ptx_fail(parser, CN_PTX_INVALID, "an expression nests too deep");
	if (cn_ptx_take_sign(parser, '-'))
		return (int64_t)(0 - (uint64_t)read_unary(parser, depth + 1));
	if (cn_ptx_take_sign(parser, '+'))
		return read_unary(parser, depth + 1);
	if (cn_ptx_take_sign(parser, '~'))
		return ~read_unary(parser, depth + 1);
	if (cn_ptx_take_sign(parser, '!'))
		return !read_unary(parser, depth + 1);
	if (cn_ptx_take_sign(parser, '(')) {
		if (cn_ptx_take_dot(parser, "s64") || cn_ptx_take_dot(parser, "u64")) {
			cn_ptx_expect(parser, ')');
			return read_unary(parser, depth + 1);
		}
		value = read_conditional(parser, depth + 1);
		cn_ptx_expect(parser, ')');
		return value;
	}
	if (cn_ptx_is_word(parser, "WARP_SZ")) {
		cn_ptx_next(parser);
		return 32;
	}
	if (parser->token.kind != CN_PTX_T_NUMBER)
		cn_ptx_fail(parser, CN_PTX_INVALID, "expected a number, found '%.*s'", cn_ptx_shown(&parser->token),
			    parser->token.text);
	value = (int64_t)parser->token.value;
	cn_ptx_next(parser);
	return value;
}

static const struct {
	int sign;
	unsigned rank;
} operators[] = {
	{CN_PTX_SIGN('|', '|'), 1},
	{CN_PTX_SIGN('&', '&'), 2},
	{'|', 3},
	{'^', 4},
	{'&', 5},
	{CN_PTX_SIGN('=', '='), 6},
	{CN_PTX_SIGN('!', '='), 6},
	{'<', 7},
	{'>', 7},
	{CN_PTX_SIGN('<', '='), 7},
	{CN_PTX_SIGN('>', '='), 7},
	{CN_PTX_SIGN('<', '<'), 8},
	{CN_PTX_SIGN('>', '>'), 8},
	{'+', 9},
	{'-', 9},
	{'*', 10},
	{'/', 10},
	{'%', 10},
};

static unsigned rank_of(const struct cn_ptx_parser *parser)
{
	for (size_t i = 0; parser->token.kind == CN_PTX_T_SIGN && i < sizeof operators / sizeof *operators; i++)
		if (operators[i].sign == parser->token.sign)
			return operators[i].rank;
	return 0;
}

static int64_t apply(struct cn_ptx_parser *parser, int sign, int64_t a, int64_t b)
{
	uint64_t x = (uint64_t)a, y = (uint64_t)b;

	if ((sign == '/' || sign == '%') && (!b || (a == INT64_MIN && b == -1)))
		cn_ptx_fail(parser, CN_PTX_INVALID, "a division by zero in a constant");
	switch (sign) {
	case CN_PTX_SIGN('|', '|'): return a || b;
	case CN_PTX_SIGN('&', '&'): return a && b;
	case CN_PTX_SIGN('=', '='): return a == b;
	case CN_PTX_SIGN('!', '='): return a != b;
	case CN_PTX_SIGN('<', '='): return a <= b;
	case CN_PTX_SIGN('>', '='): return a >= b;
	case CN_PTX_SIGN('<', '<'): return y > 63 ? 0 : (int64_t)(x << y);
	case CN_PTX_SIGN('>', '>'): return a >> (y > 63 ? 63 : y);
	case '|': return a | b;
	case '^': return a ^ b;
	case '&': return a & b;
	case '<': return a < b;
	case '>': return a > b;
	case '+': return (int64_t)(x + y);
	case '-': return (int64_t)(x - y);
	case '*': return (int64_t)(x * y);
	case '/': return a / b;
	default: return a % b;
	}
}

static int64_t read_binary(struct cn_ptx_parser *parser, unsigned least, unsigned depth)
{
	int64_t left = read_unary(parser, depth);

	for (unsigned rank; (rank = rank_of(parser)) && rank >= least;) {
		int sign = parser->token.sign;

		cn_ptx_next(parser);
		left = apply(parser, sign, left, read_binary(parser, rank + 1, depth + 1));
	}
	return left;
}

static int64_t read_conditional(struct cn_ptx_parser *parser, unsigned depth)
{
	int64_t value = read_binary(parser, 1, depth), yes, no;

	if (!cn_ptx_take_sign(parser, '?'))
		return value;
	if (depth > CN_PTX_DEPTH_MAX)
		cn_ptx_fail(parser, CN_PTX_INVALID, "an expression nests too deep");
	yes = read_conditional(parser, depth + 1);
	cn_ptx_expect(parser, ':');
	no = read_conditional(parser, depth + 1);
	return value ? yes : no;
}

int64_t cn_ptx_expression_read(struct cn_ptx_parser *parser)
{
	return read_conditional(parser, 0);
}

/* ---- Declarations ------------------------------------------------------------------------------------------------ */

static uint32_t read_alignment(struct cn_ptx_parser *parser)
{
	int64_t alignment = cn_ptx_expression_read(parser);

	if (alignment < 1 || alignment > 4096 || (alignment & (alignment - 1)))
		cn_ptx_fail(parser, CN_PTX_INVALID, "an alignment of %lld", (long long)alignment);
	return (uint32_t)alignment;
}

static void read_attributes(struct cn_ptx_parser *parser, struct cn_ptx_declaration *ret)
{
	cn_ptx_expect(parser, '(');
	for (unsigned depth = 1; depth; cn_ptx_next(parser)) {
		if (parser->token.kind == CN_PTX_T_END)
			cn_ptx_fail(parser, CN_PTX_INVALID, "an attribute does not end");
		depth += cn_ptx_is_sign(parser, '(');
		depth -= cn_ptx_is_sign(parser, ')');
		ret->managed |= cn_ptx_is_dot(parser, "managed");
	}
}

/* .align 4 .v2 .b32, and on a kernel's parameter .ptr .global .align 8. */
static void read_type(struct cn_ptx_parser *parser, struct cn_ptx_declaration *ret)
{
	static const char *const refused[] = {"texref", "surfref", "samplerref"};
	bool after_pointer = false;

	while (parser->token.kind == CN_PTX_T_DOT) {
		enum cn_ptx_type type = cn_ptx_type_find(parser->token.text, parser->token.length);

		for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
			if (cn_ptx_is_dot(parser, refused[i]))
				cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "textures and surfaces (.%s) are not supported",
					    refused[i]);
		if (cn_ptx_take_dot(parser, "align")) {
			uint32_t alignment = read_alignment(parser);

			if (!after_pointer)
				ret->alignment = alignment;
			continue;
		}
		if (cn_ptx_take_dot(parser, "attribute")) {
			read_attributes(parser, ret);
			continue;
		}
		if (cn_ptx_is_dot(parser, "v2") || cn_ptx_is_dot(parser, "v4"))
			ret->vector = (uint8_t)(parser->token.text[1] - '0');
		else if (cn_ptx_is_dot(parser, "ptr"))
			after_pointer = true;
		else if (type && !ret->type)
			ret->type = (uint8_t)type;
		else if (!after_pointer)
			cn_ptx_fail(parser, CN_PTX_INVALID, "'.%.*s' in a declaration", cn_ptx_shown(&parser->token),
				    parser->token.text);
		cn_ptx_next(parser);
	}
	if (!ret->type)
		cn_ptx_fail(parser, CN_PTX_INVALID, "a declaration without a type");
}

static void read_dimensions(struct cn_ptx_parser *parser, struct cn_ptx_declaration *ret)
{
	for (unsigned i = 0; cn_ptx_take_sign(parser, '['); i++) {
		int64_t count;

		if (i == DIMENSIONS_MAX)
			cn_ptx_fail(parser, CN_PTX_INVALID, "an array of more than %d dimensions", DIMENSIONS_MAX);
		if (cn_ptx_take_sign(parser, ']')) {
			ret->is_open = true;
			continue;
		}
		count = cn_ptx_expression_read(parser);
		cn_ptx_expect(parser, ']');
		if (count < 0 || (ret->bytes && (uint64_t)count > SPACE_BYTES_MAX / ret->bytes))
			cn_ptx_fail(parser, CN_PTX_INVALID, "an array of %lld elements", (long long)count);
		ret->bytes *= (uint64_t)count;
	}
	if (ret->is_open)
		ret->bytes = 0;
}

void cn_ptx_declaration_read(struct cn_ptx_parser *parser, struct cn_ptx_declaration *ret)
{
	unsigned element;

	memset(ret, 0, sizeof *ret);
	read_type(parser, ret);
	element = cn_ptx_type_bytes(ret->type) * (ret->vector ? ret->vector : 1);
	if (!ret->alignment)
		ret->alignment = element;
	ret->bytes = element;
	if (parser->token.kind != CN_PTX_T_WORD)
		cn_ptx_fail(parser, CN_PTX_INVALID, "expected a name, found '%.*s'", cn_ptx_shown(&parser->token),
			    parser->token.text);
	ret->name = parser->token.text;
	ret->length = parser->token.length;
	cn_ptx_next(parser);
	if (cn_ptx_take_sign(parser, '<')) {
		if (parser->token.kind != CN_PTX_T_NUMBER || parser->token.value > 1 << 24)
			cn_ptx_fail(parser, CN_PTX_INVALID, "a range of registers without a count");
		ret->count = parser->token.value ? parser->token.value : 1;
		cn_ptx_next(parser);
		cn_ptx_expect(parser, '>');
	}
	read_dimensions(parser, ret);
}

/* ---- First values ------------------------------------------------------------------------------------------------ */

struct filling {
	const struct cn_ptx_declaration *declaration;
	size_t start, at, end; /* in the module's data */
};

static void put(struct cn_ptx_parser *parser, struct filling *filling, uint64_t value)
{
	unsigned bytes = cn_ptx_type_bytes(filling->declaration->type);

	if (filling->at + bytes > filling->end)
		cn_ptx_fail(parser, CN_PTX_INVALID, "more first values than the variable has elements");
	memcpy(parser->module->data + filling->at, &value, bytes);
	filling->at += bytes;
}

static uint64_t float_as(const struct cn_ptx_token *token, enum cn_ptx_type type)
{
	if (type == CN_PTX_F32 && token->is_double)
		return cn_ptx_f32_bits((float)cn_ptx_f64_of(token->value));
	if (type == CN_PTX_F64 && !token->is_double)
		return cn_ptx_f64_bits(cn_ptx_f32_of((uint32_t)token->value));
	return token->value;
}

/* name, generic(name), 0xff00(name), each with + or - a number. */
static void put_address(struct cn_ptx_parser *parser, struct filling *filling, uint64_t mask)
{
	struct cn_ptx_relocation *relocation;
	struct cn_ptx_symbol *symbol;
	unsigned bytes = cn_ptx_type_bytes(filling->declaration->type);
	bool in_parentheses = false;
	size_t at = filling->at;
	uint64_t value;

	if (cn_ptx_is_word(parser, "generic")) {
		cn_ptx_next(parser);
		cn_ptx_expect(parser, '(');
		in_parentheses = true;
	}
	symbol = parser->token.kind == CN_PTX_T_WORD
			 ? cn_ptx_symbol_find(parser, parser->token.text, parser->token.length)
			 : NULL;
	if (!symbol || (symbol->kind != CN_PTX_SYM_FUNCTION &&
			!(symbol->kind == CN_PTX_SYM_VARIABLE &&
			  (symbol->space == CN_PTX_GLOBAL || symbol->space == CN_PTX_CONST))))
		cn_ptx_fail(parser, CN_PTX_INVALID, "'%.*s' is no address that a variable can begin with",
			    cn_ptx_shown(&parser->token), parser->token.text);
	cn_ptx_next(parser);
	if (in_parentheses)
		cn_ptx_expect(parser, ')');
	value = symbol->value;
	if (symbol->kind == CN_PTX_SYM_FUNCTION)
		parser->module->functions[value].is_address_taken = true;
	if (cn_ptx_is_sign(parser, '+') || cn_ptx_is_sign(parser, '-'))
		value += (uint64_t)cn_ptx_expression_read(parser);
	put(parser, filling, 0);
	relocation = CN_PTX_ADD(parser, parser->module->relocations, parser->module->relocation_count,
				parser->module->relocation_room);
	*relocation = (struct cn_ptx_relocation){.offset_bytes = at,
						 .width = (uint8_t)bytes,
						 .shift = (uint8_t)(mask ? __builtin_ctzll(mask) : 0),
						 .is_function = symbol->kind == CN_PTX_SYM_FUNCTION,
						 .value = value};
}

static void read_values(struct cn_ptx_parser *parser, struct filling *filling, unsigned depth)
{
	if (depth > CN_PTX_DEPTH_MAX)
		cn_ptx_fail(parser, CN_PTX_INVALID, "first values nest too deep");
	do {
		if (cn_ptx_take_sign(parser, '{')) {
			if (!cn_ptx_is_sign(parser, '}'))
				read_values(parser, filling, depth + 1);
			cn_ptx_expect(parser, '}');
		} else if (parser->token.kind == CN_PTX_T_FLOAT || cn_ptx_is_sign(parser, '-')) {
			bool negative = cn_ptx_take_sign(parser, '-');

			if (parser->token.kind == CN_PTX_T_FLOAT) {
				uint64_t bits = float_as(&parser->token, filling->declaration->type);
				unsigned top = cn_ptx_type_bytes(filling->declaration->type) * 8 - 1;

				put(parser, filling, negative && top < 64 ? bits ^ 1ull << top : bits);
				cn_ptx_next(parser);
			} else {
				int64_t value = cn_ptx_expression_read(parser);

				put(parser, filling, negative ? 0 - (uint64_t)value : (uint64_t)value);
			}
		} else if (parser->token.kind == CN_PTX_T_WORD && !cn_ptx_is_word(parser, "WARP_SZ")) {
			put_address(parser, filling, 0);
		} else {
			uint64_t value = (uint64_t)cn_ptx_expression_read(parser);

			if (cn_ptx_take_sign(parser, '(')) {
				put_address(parser, filling, value);
				cn_ptx_expect(parser, ')');
			} else {
				put(parser, filling, value);
			}
		}
	} while (depth && cn_ptx_take_sign(parser, ','));
}

/* ---- Places ------------------------------------------------------------------------------------------------------ */

static size_t take_data(struct cn_ptx_parser *parser, const struct cn_ptx_declaration *declaration)
{
	struct cn_ptx_contents *contents = &parser->module->contents;
	size_t at = (contents->data_bytes + declaration->alignment - 1) & ~(size_t)(declaration->alignment - 1);

	if (at + declaration->bytes > SPACE_BYTES_MAX)
		cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "more than %d bytes of variables", SPACE_BYTES_MAX);
	if (declaration->alignment > contents->data_alignment)
		contents->data_alignment = declaration->alignment;
	contents->data_bytes = at + declaration->bytes;
	return at;
}

/* First values are kept up to the last variable that has some: what follows is zero. */
static void make_room(struct cn_ptx_parser *parser, size_t bytes)
{
	struct cn_ptx_module *module = parser->module;
	size_t room = module->data_room ? module->data_room : 4096;
	unsigned char *data;

	while (room < bytes)
		room *= 2;
	if (room == module->data_room)
		return;
	data = realloc(module->data, room);
	if (!data) {
		cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "no memory for the variables");
		return;
	}
	memset(data + module->data_room, 0, room - module->data_room);
	module->data = data;
	module->data_room = room;
}

static void add_global(struct cn_ptx_parser *parser, struct cn_ptx_symbol *symbol,
		       struct cn_ptx_declaration *declaration)
{
	struct cn_ptx_module *module = parser->module;
	struct cn_ptx_variable *variable;
	struct filling filling = {.declaration = declaration};

	/* load() reads bodies with variables: it says where all of them are. */
	if (module->kernels && !cn_ptx_current(parser)->has_variables)
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "a variable of the module in a body that seems to have none");
	if (cn_ptx_take_sign(parser, '=')) {
		if (declaration->is_open)
			cn_ptx_fail(parser, CN_PTX_UNSUPPORTED, "first values of an array without a size");
		filling.start = filling.at = take_data(parser, declaration);
		filling.end = filling.start + declaration->bytes;
		make_room(parser, filling.end);
		read_values(parser, &filling, 0);
		symbol->value = filling.start;
	} else {
		symbol->value = take_data(parser, declaration);
	}
	variable = CN_PTX_ADD(parser, module->variables, module->contents.variable_count, module->variable_room);
	variable->name = cn_ptx_copy_text(declaration->name, declaration->length);
	variable->constant = symbol->space == CN_PTX_CONST;
	variable->managed = declaration->managed;
	variable->offset_bytes = symbol->value;
	variable->bytes = declaration->bytes;
	variable->alignment = declaration->alignment;
	if (!variable->name)
		cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "no memory for a name");
}

static uint32_t take_bytes(struct cn_ptx_parser *parser, uint32_t *total, const struct cn_ptx_declaration *declaration,
			   const char *what)
{
	uint64_t at = ((uint64_t)*total + declaration->alignment - 1) & ~(uint64_t)(declaration->alignment - 1);

	if (at + declaration->bytes > (1 << 24))
		cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "too many bytes of %s memory", what);
	*total = (uint32_t)(at + declaration->bytes);
	return (uint32_t)at;
}

static void add_shared(struct cn_ptx_parser *parser, struct cn_ptx_symbol *symbol,
		       const struct cn_ptx_declaration *declaration)
{
	struct cn_ptx_module *module = parser->module;
	struct cn_ptx_shared *shared;

	if (symbol->dynamic) {
		if (declaration->alignment > module->dynamic_alignment)
			module->dynamic_alignment = declaration->alignment;
		return;
	}
	symbol->value = module->shared_count;
	shared = CN_PTX_ADD(parser, module->shared, module->shared_count, module->shared_room);
	shared->bytes = (uint32_t)declaration->bytes;
	shared->alignment = declaration->alignment;
}

static void add_to_function(struct cn_ptx_parser *parser, struct cn_ptx_symbol *symbol,
			    const struct cn_ptx_declaration *declaration)
{
	switch (symbol->space) {
	case CN_PTX_REG:
		symbol->kind = declaration->count ? CN_PTX_SYM_RANGE : CN_PTX_SYM_REGISTER;
		symbol->value = declaration->count;
		symbol->vector = declaration->vector;
		break;
	case CN_PTX_LOCAL:
		symbol->value = take_bytes(parser, &cn_ptx_current(parser)->local_bytes, declaration, "local");
		break;
	default: /* a parameter of a call: bytes of each lane */
		symbol->place = cn_ptx_frame_take(parser, (uint32_t)(declaration->bytes + 15) & ~15u, 16);
		symbol->has_place = true;
		break;
	}
}

/* After the space: names up to the semicolon. */
void cn_ptx_variable_read(struct cn_ptx_parser *parser, enum cn_ptx_space space, bool external)
{
	struct cn_ptx_declaration first, declaration;
	bool in_function = parser->function != UINT32_MAX;

	if (!in_function && (space == CN_PTX_REG || space == CN_PTX_LOCAL || space == CN_PTX_PARAM))
		cn_ptx_fail(parser, CN_PTX_UNSUPPORTED,
			    "registers, local variables and parameters outside of a function");
	cn_ptx_declaration_read(parser, &first);
	declaration = first;
	for (;;) {
		struct cn_ptx_symbol *symbol;

		symbol = cn_ptx_symbol_find(parser, declaration.name, declaration.length);
		if (symbol && external && symbol->kind == CN_PTX_SYM_VARIABLE && symbol->space == space) {
			/* declared again */
		} else {
			symbol = cn_ptx_symbol_add(parser, declaration.name, declaration.length, CN_PTX_SYM_VARIABLE);
			symbol->space = (uint8_t)space;
			symbol->type = declaration.type;
			symbol->bytes = (uint32_t)declaration.bytes;
			if (space == CN_PTX_GLOBAL || space == CN_PTX_CONST) {
				if (external)
					cn_ptx_fail(parser, CN_PTX_UNSUPPORTED,
						    "variable '%.*s' is of another module: link it first",
						    declaration.length < 80 ? (int)declaration.length : 80,
						    declaration.name);
				add_global(parser, symbol, &declaration);
			} else if (space == CN_PTX_SHARED) {
				symbol->dynamic = declaration.is_open || (external && !declaration.bytes);
				add_shared(parser, symbol, &declaration);
			} else {
				add_to_function(parser, symbol, &declaration);
			}
		}
		if (!cn_ptx_take_sign(parser, ','))
			break;
		/* The next name has the same type. */
		if (parser->token.kind != CN_PTX_T_WORD)
			cn_ptx_fail(parser, CN_PTX_INVALID, "expected a name");
		declaration = first;
		declaration.name = parser->token.text;
		declaration.length = parser->token.length;
		declaration.count = 0;
		declaration.is_open = false;
		declaration.bytes = cn_ptx_type_bytes(first.type) * (first.vector ? first.vector : 1u);
		cn_ptx_next(parser);
		if (cn_ptx_take_sign(parser, '<')) {
			if (parser->token.kind != CN_PTX_T_NUMBER || parser->token.value > 1 << 24)
				cn_ptx_fail(parser, CN_PTX_INVALID, "a range of registers without a count");
			declaration.count = parser->token.value ? parser->token.value : 1;
			cn_ptx_next(parser);
			cn_ptx_expect(parser, '>');
		}
		read_dimensions(parser, &declaration);
	}
	cn_ptx_expect(parser, ';');
}

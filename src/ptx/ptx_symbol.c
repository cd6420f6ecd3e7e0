/* SPDX-License-Identifier: MIT */
/*
 * Names: registers, variables, functions and labels, by the scopes in which they hold.
 *
 * A declaration such as %r<100> makes no hundred registers: each appears, in the declaration's scope, when it is first
 * named, and takes a place in the frame when it is first used.
 */
#include "ptx/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash(const char *name, uint32_t length)
{
	uint32_t value = 2166136261u;

	for (uint32_t i = 0; i < length; i++)
		value = (value ^ (unsigned char)name[i]) * 16777619u;
	return (value ^ value >> 15) % CN_PTX_BUCKETS;
}

void cn_ptx_scope_open(struct cn_ptx_parser *parser)
{
	uint32_t number = parser->scope_count + 1;
	uint32_t *parent;

	if (parser->depth == CN_PTX_DEPTH_MAX)
		cn_ptx_fail(parser, CN_PTX_INVALID, "more than %d nested braces", CN_PTX_DEPTH_MAX);
	parent = CN_PTX_ADD(parser, parser->scope_parents, parser->scope_count, parser->scope_room);
	*parent = parser->depth ? parser->scopes[parser->depth - 1].number : 0;
	parser->scopes[parser->depth++] = (struct cn_ptx_scope){.number = number};
}

void cn_ptx_scope_close(struct cn_ptx_parser *parser)
{
	struct cn_ptx_symbol *symbol = parser->scopes[--parser->depth].symbols, *next;

	for (; symbol; symbol = next) {
		struct cn_ptx_symbol **at = &parser->buckets[hash(symbol->name, symbol->length)];

		while (*at != symbol)
			at = &(*at)->next;
		*at = symbol->next;
		next = symbol->next_in_scope;
		free(symbol);
	}
}

static struct cn_ptx_symbol *add_in(struct cn_ptx_parser *parser, struct cn_ptx_scope *scope, const char *name,
				    uint32_t length)
{
	struct cn_ptx_symbol *symbol = calloc(1, sizeof *symbol);
	uint32_t bucket = hash(name, length);

	if (!symbol) {
		cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "no memory for a symbol");
		return NULL;
	}
	symbol->name = name;
	symbol->length = length;
	symbol->scope = scope->number;
	symbol->next = parser->buckets[bucket];
	parser->buckets[bucket] = symbol;
	symbol->next_in_scope = scope->symbols;
	scope->symbols = symbol;
	return symbol;
}

static struct cn_ptx_symbol *find_exactly(struct cn_ptx_parser *parser, const char *name, uint32_t length)
{
	struct cn_ptx_symbol *best = NULL;

	for (struct cn_ptx_symbol *s = parser->buckets[hash(name, length)]; s; s = s->next)
		if (s->length == length && !memcmp(s->name, name, length) && (!best || s->scope > best->scope))
			best = s;
	return best;
}

struct cn_ptx_symbol *cn_ptx_symbol_add(struct cn_ptx_parser *parser, const char *name, uint32_t length,
					enum cn_ptx_symbol_kind kind)
{
	struct cn_ptx_scope *scope = &parser->scopes[parser->depth - 1];
	struct cn_ptx_symbol *symbol = find_exactly(parser, name, length);

	if (symbol && symbol->scope == scope->number)
		cn_ptx_fail(parser, CN_PTX_INVALID, "'%.*s' is declared twice", length < 80 ? (int)length : 80, name);
	symbol = add_in(parser, scope, name, length);
	symbol->kind = (uint8_t)kind;
	return symbol;
}

/* %r12 of %r<100>. */
static struct cn_ptx_symbol *find_in_range(struct cn_ptx_parser *parser, const char *name, uint32_t length)
{
	struct cn_ptx_symbol *range, *symbol;
	uint32_t stem = length;
	uint64_t number = 0;

	while (stem && name[stem - 1] >= '0' && name[stem - 1] <= '9')
		stem--;
	if (stem == length || length - stem > 9 || (name[stem] == '0' && length - stem > 1))
		return NULL;
	for (uint32_t i = stem; i < length; i++)
		number = number * 10 + (unsigned)(name[i] - '0');
	range = find_exactly(parser, name, stem);
	if (!range || range->kind != CN_PTX_SYM_RANGE || number >= range->value)
		return NULL;
	for (unsigned i = 0; i < parser->depth; i++)
		if (parser->scopes[i].number == range->scope) {
			symbol = add_in(parser, &parser->scopes[i], name, length);
			symbol->kind = CN_PTX_SYM_REGISTER;
			symbol->type = range->type;
			symbol->vector = range->vector;
			symbol->space = CN_PTX_REG;
			return symbol;
		}
	return NULL;
}

struct cn_ptx_symbol *cn_ptx_symbol_find(struct cn_ptx_parser *parser, const char *name, uint32_t length)
{
	struct cn_ptx_symbol *symbol = find_exactly(parser, name, length);

	return symbol && symbol->kind != CN_PTX_SYM_RANGE ? symbol : find_in_range(parser, name, length);
}

struct cn_ptx_function *cn_ptx_current(struct cn_ptx_parser *parser)
{
	return &parser->module->functions[parser->function];
}

cn_ptx_operand cn_ptx_frame_take(struct cn_ptx_parser *parser, uint32_t bytes, uint32_t alignment)
{
	struct cn_ptx_function *function = cn_ptx_current(parser);
	uint64_t at = ((uint64_t)function->frame_bytes + alignment - 1) & ~((uint64_t)alignment - 1);

	if (at + bytes > CN_PTX_FRAME_BYTES_MAX)
		cn_ptx_fail(parser, CN_PTX_NO_MEMORY, "a function with more than %d bytes of registers",
			    CN_PTX_FRAME_BYTES_MAX);
	function->frame_bytes = (uint32_t)(at + bytes);
	return (cn_ptx_operand)at;
}

cn_ptx_operand cn_ptx_register_place(struct cn_ptx_parser *parser, struct cn_ptx_symbol *symbol)
{
	if (!symbol->has_place) {
		uint32_t bytes = cn_ptx_type_bytes(symbol->type);

		symbol->place = cn_ptx_frame_take(parser, bytes * (symbol->vector ? symbol->vector : 1), bytes);
		symbol->has_place = true;
	}
	return symbol->place;
}

/* ---- Labels ------------------------------------------------------------------------------------------------------ */

void cn_ptx_label_add(struct cn_ptx_parser *parser, const char *name, uint32_t length)
{
	struct cn_ptx_symbol *symbol = cn_ptx_symbol_add(parser, name, length, CN_PTX_SYM_LABEL);
	uint32_t pc = cn_ptx_current(parser)->start + cn_ptx_current(parser)->code_count;
	struct cn_ptx_label *label;

	label = CN_PTX_ADD(parser, parser->labels, parser->label_count, parser->label_room);
	symbol->value = pc;
	*label = (struct cn_ptx_label){name, length, symbol->scope, pc};
}

void cn_ptx_label_use(struct cn_ptx_parser *parser, const char *name, uint32_t length, bool in_more, uint32_t at)
{
	struct cn_ptx_fixup *fixup;

	fixup = CN_PTX_ADD(parser, parser->fixups, parser->fixup_count, parser->fixup_room);
	*fixup = (struct cn_ptx_fixup){.name = name,
				       .length = length,
				       .scope = parser->scopes[parser->depth - 1].number,
				       .line = parser->token_line,
				       .at = at,
				       .in_more = in_more};
}

static int compare_labels(const void *left, const void *right)
{
	const struct cn_ptx_label *a = left, *b = right;

	if (a->length != b->length)
		return a->length < b->length ? -1 : 1;
	if (memcmp(a->name, b->name, a->length))
		return memcmp(a->name, b->name, a->length);
	return a->scope < b->scope ? -1 : a->scope > b->scope;
}

/* At the end of a function: a label holds in its scope and in those inside of it. */
void cn_ptx_labels_resolve(struct cn_ptx_parser *parser)
{
	struct cn_ptx_function *function = cn_ptx_current(parser);

	if (parser->label_count)
		qsort(parser->labels, parser->label_count, sizeof *parser->labels, compare_labels);
	for (uint32_t i = 0; i < parser->fixup_count; i++) {
		struct cn_ptx_fixup *fixup = &parser->fixups[i];
		const struct cn_ptx_label *label = NULL;

		for (uint32_t scope = fixup->scope; scope && !label; scope = parser->scope_parents[scope - 1]) {
			struct cn_ptx_label key = {fixup->name, fixup->length, scope, 0};

			if (parser->label_count)
				label = bsearch(&key, parser->labels, parser->label_count, sizeof key, compare_labels);
		}
		if (!label) {
			parser->token_line = fixup->line;
			cn_ptx_fail(parser, CN_PTX_INVALID, "no label '%.*s'",
				    fixup->length < 80 ? (int)fixup->length : 80, fixup->name);
		}
		if (fixup->in_more)
			function->more[fixup->at] = label->pc;
		else
			function->code[fixup->at].target = label->pc;
	}
	parser->fixup_count = parser->label_count = 0;
}

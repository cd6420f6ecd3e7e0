/* SPDX-License-Identifier: MIT */
/*
 * What a kernel's code can do with each of its pointers, from its PTX, for `cenote check`.
 *
 * A register that a parameter was loaded into, and each that is computed from one, is followed through the text until
 * nothing new is found. A load from such an address reads, a store writes. Where a pointer gets out of sight, because
 * it is stored, handed to a function or to an instruction that is not known, nothing is said.
 *
 * A kernel may also order itself with others while they run: by a word that it waits for, or that it writes when its
 * data are there. Atomics whose result is used, volatile, acquire and release, and fences beyond a block are taken for
 * that: what such a kernel reads and writes is no mistake by itself.
 */
#include "trace.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
	REGISTERS_MAX = 1 << 14,
	STATEMENT_BYTES = 4096, /* names of C++ are long */
	WORDS_MAX = 64,         /* of a statement */
	PASSES_MAX = 16,
};

enum { READS = 1, WRITES = 2, UNSEEN = 4 };

/* A kernel that is read: its parameters' names, and which parameters a register comes from. */
struct reading {
	int parameter_count;
	uint64_t parameters[CN_TRACE_PARAMETERS_MAX]; /* their names */
	unsigned char does[CN_TRACE_PARAMETERS_MAX];
	bool changed, is_full, orders_itself;
	int register_count;
	struct reg {
		uint64_t name; /* 0: there is none here */
		uint64_t from;
		bool is_read, is_old; /* old: what an atomic found */
	} registers[REGISTERS_MAX];
};

/* ---- Words ------------------------------------------------------------------------------------------------------- */

/* The names in a statement; those within brackets are an address. */
struct statement {
	int count;
	bool is_cut; /* there were more */
	struct word {
		const char *text;
		bool in_brackets, in_braces;
	} words[WORDS_MAX];
};

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.' || c == '@' || c == '!' ||
	       c == ':';
}

/* The words become texts of their own: what stood between them is overwritten. */
static void split(char *text, struct statement *statement)
{
	bool in_brackets = false, in_braces = false;

	*statement = (struct statement){0};
	while (*text) {
		char c = *text;
		in_brackets = c == '[' ? true : c == ']' ? false : in_brackets;
		in_braces = c == '{' ? true : c == '}' ? false : in_braces;
		if (!is_name_char(c)) {
			*text++ = 0;
			continue;
		}
		if (statement->count == WORDS_MAX) {
			statement->is_cut = true;
			return;
		}
		statement->words[statement->count++] = (struct word){text, in_brackets, in_braces};
		while (is_name_char(*text))
			text++;
	}
}

uint64_t cn_trace_digest_text(const char *text, size_t length)
{
	uint64_t digest = 0xcbf29ce484222325u;

	for (size_t i = 0; i < length; i++)
		digest = (digest ^ (unsigned char)text[i]) * 0x100000001b3u;
	return digest ? digest : 1;
}

static struct reg *find_register(struct reading *reading, const char *text)
{
	uint64_t name = *text == '%' ? cn_trace_digest_text(text, strlen(text)) : 0;

	for (uint64_t i = 0; name && i < REGISTERS_MAX; i++) {
		struct reg *reg = &reading->registers[(name + i) % REGISTERS_MAX];
		if (reg->name == name)
			return reg;
		if (reg->name)
			continue;
		if (reading->register_count == REGISTERS_MAX / 2) {
			reading->is_full = true;
			return NULL;
		}
		reading->register_count++;
		reg->name = name;
		return reg;
	}
	return NULL;
}

static uint64_t source_of(struct reading *reading, const char *text)
{
	struct reg *reg = find_register(reading, text);

	if (reg) {
		reg->is_read = true;
		return reg->from;
	}
	uint64_t name = *text == '%' ? 0 : cn_trace_digest_text(text, strlen(text));
	for (int i = 0; name && i < reading->parameter_count; i++)
		if (reading->parameters[i] == name)
			return 1ull << i;
	return 0;
}

static void set(struct reading *reading, const char *text, uint64_t from)
{
	struct reg *reg = find_register(reading, text);

	if (!reg || !(from & ~reg->from))
		return;
	reg->from |= from;
	reading->changed = true;
}

static void note(struct reading *reading, uint64_t from, int what)
{
	for (int i = 0; i < reading->parameter_count; i++)
		if (from >> i & 1)
			reading->does[i] |= (unsigned char)what;
}

/* ---- Statements -------------------------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Another space than the one that kernels share. */
static bool is_private(const char *opcode)
{
	return strstr(opcode, ".shared") || strstr(opcode, ".local") || strstr(opcode, ".const");
}

/* Can others see it happen, and is it meant to be seen? */
static bool is_for_others(const char *opcode)
{
	if (is_private(opcode))
		return false;
	if (begins(opcode, "membar."))
		return !begins(opcode, "membar.cta");
	if (begins(opcode, "fence."))
		return strstr(opcode, ".gpu") || strstr(opcode, ".sys");
	return strstr(opcode, ".volatile") || strstr(opcode, ".acq") || strstr(opcode, ".release") ||
	       strstr(opcode, ".relaxed") || strstr(opcode, ".mmio");
}

/* What it computes from, and where to; braces are a vector. */
static void follow(struct reading *reading, const struct statement *statement, int first)
{
	uint64_t from = 0;
	int targets = 1;

	while (first + targets < statement->count && statement->words[first].in_braces &&
	       statement->words[first + targets].in_braces)
		targets++;
	for (int i = first + targets; i < statement->count; i++)
		from |= source_of(reading, statement->words[i].text);
	for (int i = 0; i < targets; i++)
		set(reading, statement->words[first + i].text, from);
}

/* What an instruction does with the addresses and the values among its operands. */
static void use(struct reading *reading, const struct statement *statement, int first)
{
	const char *opcode = statement->words[first].text;
	bool loads = begins(opcode, "ld.") || begins(opcode, "ldu."), stores = begins(opcode, "st.");
	bool is_atomic = begins(opcode, "atom.") && !is_private(opcode);
	uint64_t address = 0, value = 0;

	for (int i = first + 1; i < statement->count; i++) {
		const struct word *word = &statement->words[i];
		if (i == first + 1 && is_atomic) {
			struct reg *reg = find_register(reading, word->text);
			if (reg)
				reg->is_old = true;
		} else if (!loads || word->in_brackets) {
			*(word->in_brackets ? &address : &value) |= source_of(reading, word->text);
		}
	}
	if (loads) {
		note(reading, address, is_private(opcode) ? 0 : is_for_others(opcode) ? UNSEEN : READS);
	} else if (stores) {
		note(reading, address, is_private(opcode) ? 0 : is_for_others(opcode) ? UNSEEN : WRITES);
		note(reading, value, begins(opcode, "st.param") || strstr(opcode, "64") ? UNSEEN : 0);
	} else if (address || begins(opcode, "call")) {
		note(reading, address | value, UNSEEN);
	} else {
		follow(reading, statement, first + 1);
	}
}

static void understand(struct reading *reading, const struct statement *statement)
{
	int first = 0;

	if (statement->count && statement->words[0].text[0] == '@')
		first = 1;
	if (statement->count <= first)
		return;
	const char *opcode = statement->words[first].text;
	reading->orders_itself |= is_for_others(opcode);
	if (statement->count <= first + 1)
		return;
	if (begins(opcode, "ld.param") || begins(opcode, "mov") || begins(opcode, "cvta"))
		follow(reading, statement, first + 1);
	else
		use(reading, statement, first);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

/* The next statement of a body, without comments and lines of source; NULL: the body has ended. */
static const char *next_statement(const char *text, int *depth, char to[STATEMENT_BYTES], bool *ret_cut)
{
	size_t length = 0;

	for (; *text; text++) {
		if (begins(text, "//") || (!length && begins(text, ".loc"))) {
			text += strcspn(text, "\n");
			if (!*text)
				return NULL;
		}
		/* Braces of a block stand between statements, those of a vector within one. */
		if (*text == '{' && !length) {
			++*depth;
			continue;
		}
		if (*text == '}' && !length && --*depth == 0)
			return NULL;
		if (*text == '}' && !length)
			continue;
		if (*text == ';') {
			to[length] = 0;
			return text + 1;
		}
		if (*text == ':' && isspace((unsigned char)text[1])) { /* a label */
			length = 0;
			continue;
		}
		if (!length && isspace((unsigned char)*text))
			continue;
		if (length + 1 < STATEMENT_BYTES)
			to[length++] = *text;
		else
			*ret_cut = true;
	}
	return NULL;
}

/* The names of the parameters: the last word of each, before the brackets of an array. */
static const char *read_parameters(struct reading *reading, const char *text)
{
	const char *end = strchr(text, ')');
	char one[STATEMENT_BYTES];
	struct statement statement;

	while (end && text < end && reading->parameter_count < CN_TRACE_PARAMETERS_MAX) {
		const char *stop = text + strcspn(text, ",)");
		size_t length = (size_t)(stop - text) < sizeof one - 1 ? (size_t)(stop - text) : sizeof one - 1;
		memcpy(one, text, length);
		one[length] = 0;
		split(one, &statement);
		int last = statement.count - 1;
		while (last >= 0 && statement.words[last].in_brackets)
			last--;
		if (last > 0) {
			const char *name = statement.words[last].text;
			reading->parameters[reading->parameter_count++] = cn_trace_digest_text(name, strlen(name));
		}
		text = stop + 1;
	}
	return end;
}

static void read_body(struct reading *reading, const char *body)
{
	char text[STATEMENT_BYTES];
	struct statement statement;
	bool is_cut = false;

	reading->changed = true;
	for (int pass = 0; pass < PASSES_MAX && reading->changed; pass++) {
		int depth = 0;
		reading->changed = false;
		for (const char *at = body; (at = next_statement(at, &depth, text, &is_cut));) {
			split(text, &statement);
			is_cut |= statement.is_cut;
			understand(reading, &statement);
		}
	}
	for (int i = 0; i < REGISTERS_MAX; i++)
		reading->orders_itself |= reading->registers[i].is_old && reading->registers[i].is_read;
	if (reading->changed || reading->is_full || is_cut)
		note(reading, UINT64_MAX, UNSEEN);
}

bool cn_trace_read_kernel(const char *text, struct cn_trace_kernel *ret_kernel)
{
	struct reading *reading = calloc(1, sizeof *reading);
	const char *body = text + strcspn(text, "({;");

	if (reading && *body == '(')
		body = read_parameters(reading, body + 1);
	body = reading && body ? strchr(body, '{') : NULL;
	if (body)
		read_body(reading, body);
	*ret_kernel = (struct cn_trace_kernel){0};
	for (int i = 0; body && i < reading->parameter_count; i++) {
		int does = reading->does[i];
		ret_kernel->uses[i] = does & UNSEEN   ? CN_TRACE_MAY_USE
				      : does & WRITES ? CN_TRACE_WRITES
				      : does & READS  ? CN_TRACE_READS
						      : CN_TRACE_DOES_NOTHING;
		ret_kernel->uses[i] |= reading->orders_itself ? CN_TRACE_ORDERS_ITSELF : 0;
	}
	if (body)
		ret_kernel->parameter_count = reading->parameter_count;
	free(reading);
	return body != NULL;
}

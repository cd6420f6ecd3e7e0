/* SPDX-License-Identifier: MIT */
/*
 * What a kernel's code can do with each of its pointers, from its PTX, for `cenote check`.
 *
 * A register that a parameter was loaded into, and each that is computed from one, is followed through the text until
 * nothing new is found. A load from such an address reads, a store writes. Where a pointer gets out of sight, because
 * it is stored, handed to a function or to an instruction that is not known, and where threads of other kernels may be
 * meant to see it happen (atomics, volatile, acquire and release), nothing is said: a program may order itself so.
 *
 * Only text is read: modules that a program loads as PTX. Of machine code, and of what is compressed, nothing is known.
 */
#include "trace.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	KERNELS_MAX = 1024,
	PARAMETERS_MAX = 64,
	REGISTERS_MAX = 1 << 14,
	NAME_BYTES = 64,
	STATEMENT_BYTES = 512,
	WORDS_MAX = 24, /* of a statement */
	PASSES_MAX = 16,
	FILE_BYTES_MAX = 16 << 20,
};

enum { READS = 1, WRITES = 2, UNSEEN = 4 };

struct kernel {
	char name[NAME_BYTES];
	int parameter_count;
	unsigned char does[PARAMETERS_MAX];
};

static struct {
	pthread_mutex_t lock;
	int count;
	struct kernel *list[KERNELS_MAX];
} kernels = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A kernel that is read: its parameters' names, and which parameters a register comes from. */
struct reading {
	struct kernel *kernel;
	char parameters[PARAMETERS_MAX][NAME_BYTES];
	int register_count;
	bool changed;
	struct reg {
		char name[24];
		uint64_t from;
	} registers[REGISTERS_MAX];
};

/* ---- Words ------------------------------------------------------------------------------------------------------- */

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.' || c == '@';
}

/* The names in a statement; those within brackets are an address. */
struct statement {
	int count;
	struct word {
		char text[NAME_BYTES];
		bool in_brackets, in_braces;
	} words[WORDS_MAX];
};

static void split(const char *text, struct statement *statement)
{
	bool in_brackets = false, in_braces = false;

	statement->count = 0;
	while (*text && statement->count < WORDS_MAX) {
		in_brackets = *text == '[' ? true : *text == ']' ? false : in_brackets;
		in_braces = *text == '{' ? true : *text == '}' ? false : in_braces;
		if (!is_name_char(*text)) {
			text++;
			continue;
		}
		size_t length = 0;
		struct word *word = &statement->words[statement->count++];
		for (; is_name_char(*text); text++)
			if (length + 1 < sizeof word->text)
				word->text[length++] = *text;
		word->text[length] = 0;
		word->in_brackets = in_brackets;
		word->in_braces = in_braces;
	}
}

static struct reg *find_register(struct reading *reading, const char *name)
{
	uint64_t digest = 1;

	if (*name != '%' || strlen(name) >= sizeof reading->registers[0].name)
		return NULL;
	for (const char *at = name; *at; at++)
		digest = (digest ^ (unsigned char)*at) * 0x100000001b3u;
	for (int i = 0; i < REGISTERS_MAX; i++) {
		struct reg *reg = &reading->registers[(digest + (uint64_t)i) % REGISTERS_MAX];
		if (strcmp(reg->name, name) == 0)
			return reg;
		if (*reg->name)
			continue;
		if (reading->register_count == REGISTERS_MAX / 2)
			return NULL;
		reading->register_count++;
		memcpy(reg->name, name, strlen(name) + 1);
		return reg;
	}
	return NULL;
}

static uint64_t source_of(struct reading *reading, const char *name)
{
	const struct reg *reg = find_register(reading, name);

	for (int i = 0; *name != '%' && i < reading->kernel->parameter_count; i++)
		if (strcmp(reading->parameters[i], name) == 0)
			return 1ull << i;
	return reg ? reg->from : 0;
}

static void set(struct reading *reading, const char *name, uint64_t from)
{
	struct reg *reg = find_register(reading, name);

	if (!reg || !(from & ~reg->from))
		return;
	reg->from |= from;
	reading->changed = true;
}

static void note(struct reading *reading, uint64_t from, int what)
{
	for (int i = 0; i < reading->kernel->parameter_count; i++)
		if (from >> i & 1)
			reading->kernel->does[i] |= (unsigned char)what;
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

static bool is_for_others(const char *opcode)
{
	return strstr(opcode, ".volatile") || strstr(opcode, ".acquire") || strstr(opcode, ".release") ||
	       strstr(opcode, ".relaxed") || strstr(opcode, ".mmio");
}

/* What it computes from, and where to; braces are a vector. */
static void follow(struct reading *reading, const struct statement *statement, int first)
{
	uint64_t from = 0;
	int target = first, targets = 1;

	while (first + targets < statement->count && statement->words[first].in_braces &&
	       statement->words[first + targets].in_braces)
		targets++;
	for (int i = target + targets; i < statement->count; i++)
		from |= source_of(reading, statement->words[i].text);
	for (int i = 0; i < targets; i++)
		set(reading, statement->words[target + i].text, from);
}

static void understand(struct reading *reading, const struct statement *statement)
{
	int first = statement->count && statement->words[0].text[0] == '@' ? 1 : 0;
	uint64_t address = 0, value = 0;

	if (statement->count <= first + 1)
		return;
	const char *opcode = statement->words[first].text;
	if (begins(opcode, "ld.param") || begins(opcode, "mov") || begins(opcode, "cvta")) {
		follow(reading, statement, first + 1);
		return;
	}
	for (int i = first + 1; i < statement->count; i++) {
		uint64_t from = source_of(reading, statement->words[i].text);
		if (statement->words[i].in_brackets)
			address |= from;
		else
			value |= from;
	}
	if (begins(opcode, "ld.") || begins(opcode, "ldu.")) {
		note(reading, address, is_private(opcode) ? 0 : is_for_others(opcode) ? UNSEEN : READS);
	} else if (begins(opcode, "st.")) {
		note(reading, address, is_private(opcode) ? 0 : is_for_others(opcode) ? UNSEEN : WRITES);
		note(reading, value, begins(opcode, "st.param") || strstr(opcode, "64") ? UNSEEN : 0);
	} else if (address || begins(opcode, "call")) {
		note(reading, address | value, UNSEEN);
	} else {
		follow(reading, statement, first + 1);
	}
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

/* The next statement of a body, without comments; NULL: the body has ended. */
static const char *next_statement(const char *text, int *depth, char to[STATEMENT_BYTES])
{
	size_t length = 0;

	for (; *text; text++) {
		if (begins(text, "//")) {
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
		if (*text == ';') {
			to[length] = 0;
			return text + 1;
		}
		if (*text == ':' && text[1] != ':') { /* a label */
			length = 0;
			continue;
		}
		if ((length || !isspace((unsigned char)*text)) && length + 1 < STATEMENT_BYTES)
			to[length++] = *text;
	}
	return NULL;
}

/* The names of the parameters: the last word of each, before the brackets of an array. */
static const char *read_parameters(struct reading *reading, const char *text)
{
	const char *end = strchr(text, ')');

	while (end && text < end && reading->kernel->parameter_count < PARAMETERS_MAX) {
		const char *stop = text + strcspn(text, ",)");
		char one[STATEMENT_BYTES] = "";
		size_t length = (size_t)(stop - text) < sizeof one - 1 ? (size_t)(stop - text) : sizeof one - 1;
		struct statement statement;
		memcpy(one, text, length);
		split(one, &statement);
		int last = statement.count - 1;
		while (last >= 0 && statement.words[last].in_brackets)
			last--;
		if (last > 0)
			memcpy(reading->parameters[reading->kernel->parameter_count++], statement.words[last].text,
			       NAME_BYTES);
		text = stop + 1;
	}
	return end;
}

static void read_body(struct reading *reading, const char *body)
{
	char text[STATEMENT_BYTES];
	struct statement statement;

	reading->changed = true;
	for (int pass = 0; pass < PASSES_MAX && reading->changed; pass++) {
		int depth = 0;
		reading->changed = false;
		for (const char *at = body; (at = next_statement(at, &depth, text));) {
			split(text, &statement);
			understand(reading, &statement);
		}
	}
	if (reading->changed || reading->register_count == REGISTERS_MAX / 2)
		note(reading, UINT64_MAX, UNSEEN);
}

/* With the lock held. Two kernels of one name that do not do the same are not known. */
static void add_kernel(struct kernel *kernel)
{
	for (int i = 0; i < kernels.count; i++) {
		if (strcmp(kernels.list[i]->name, kernel->name) != 0)
			continue;
		if (memcmp(kernels.list[i]->does, kernel->does, sizeof kernel->does) != 0)
			memset(kernels.list[i]->does, UNSEEN, sizeof kernel->does);
		free(kernel);
		return;
	}
	if (kernels.count < KERNELS_MAX)
		kernels.list[kernels.count++] = kernel;
	else
		free(kernel);
}

static const char *read_kernel(struct reading *reading, const char *text)
{
	struct statement statement;
	char name[2 * NAME_BYTES] = "";
	size_t length = strcspn(text, "({;");

	memset(reading, 0, sizeof *reading);
	memcpy(name, text, length < sizeof name - 1 ? length : sizeof name - 1);
	split(name, &statement);
	const char *body = text + length;
	if (!statement.count || length >= sizeof name - 1)
		return body;
	reading->kernel = calloc(1, sizeof *reading->kernel);
	if (!reading->kernel)
		return body;
	memcpy(reading->kernel->name, statement.words[0].text, NAME_BYTES);
	if (*body == '(')
		body = read_parameters(reading, body + 1);
	body = body ? strchr(body, '{') : NULL;
	if (body)
		read_body(reading, body);
	add_kernel(reading->kernel);
	return body;
}

static void read_text(const char *text)
{
	struct reading *reading = malloc(sizeof *reading);

	pthread_mutex_lock(&kernels.lock);
	while (reading && text && (text = strstr(text, ".entry")))
		text = read_kernel(reading, text + strlen(".entry"));
	pthread_mutex_unlock(&kernels.lock);
	free(reading);
}

/* ---- Modules ----------------------------------------------------------------------------------------------------- */

static bool is_text(const char *image)
{
	return *image == '/' || *image == '.' || isspace((unsigned char)*image);
}

void cn_trace_image(const struct cn_trace_call *call, const void *image)
{
	if (call->record && cn_trace_checks && image && is_text(image))
		read_text(image);
}

void cn_trace_file(const struct cn_trace_call *call, const char *path)
{
	FILE *file = call->record && cn_trace_checks && path ? fopen(path, "re") : NULL;
	char *text = file ? malloc(FILE_BYTES_MAX + 1) : NULL;

	if (text) {
		size_t bytes = fread(text, 1, FILE_BYTES_MAX, file);
		text[bytes] = 0;
		if (bytes && is_text(text))
			read_text(text);
	}
	free(text);
	if (file)
		fclose(file);
}

int cn_trace_kernel_does(const char *name, int parameter)
{
	int does = UNSEEN;

	pthread_mutex_lock(&kernels.lock);
	for (int i = 0; i < kernels.count; i++)
		if (strcmp(kernels.list[i]->name, name) == 0 && parameter < kernels.list[i]->parameter_count)
			does = kernels.list[i]->does[parameter];
	pthread_mutex_unlock(&kernels.lock);
	if (does & UNSEEN)
		return CN_TRACE_MAY_USE;
	return does & WRITES ? CN_TRACE_WRITES : does & READS ? CN_TRACE_READS : CN_TRACE_DOES_NOTHING;
}

void cn_trace_forget_kernels(void)
{
	/* A child has what its parent had read; the lock may have been somebody's. */
	pthread_mutex_init(&kernels.lock, NULL);
}

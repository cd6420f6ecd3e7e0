/* SPDX-License-Identifier: MIT */
/*
 * Linking: the PTX of several files that were compiled apart (nvcc -rdc=true) becomes one text.
 *
 * A text is taken apart into what stands in it at the top: functions, variables, directives. Of those that share a name
 * across files one stays, the definition; declarations of it go. A name that is a file's own, such as a string's, gets
 * the file's number behind it if another file has the same name. What is left is written one after the other, so that
 * one module is read from it, in which bodies are read when all names are known.
 *
 * Lines of the source (.loc) are kept of the first file alone: files are numbered anew in each.
 */
#include "ptx/ptx_module.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum linkage { LOCAL, EXTERN, VISIBLE, WEAK };

struct item {
	const char *text;
	size_t bytes;
	const char *name; /* NULL: a directive */
	size_t name_bytes;
	unsigned file;
	enum linkage linkage;
	bool is_definition, is_left_out, is_renamed;
};

struct linker {
	struct cn_ptx_error *error;
	struct item *items;
	size_t count, room;
	struct item **by_name; /* those that have one */
	size_t named_count;
	char *out;
	size_t out_bytes, out_room;
};

static enum cn_ptx_error_code fail(struct linker *linker, enum cn_ptx_error_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static enum cn_ptx_error_code fail(struct linker *linker, enum cn_ptx_error_code code, const char *format, ...)
{
	va_list arguments;

	linker->error->code = code;
	linker->error->line = 0;
	va_start(arguments, format);
	vsnprintf(linker->error->sentence, sizeof linker->error->sentence, format, arguments);
	va_end(arguments);
	return code;
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

static bool is_word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

static bool starts_word(char c)
{
	return (is_word_char(c) && !(c >= '0' && c <= '9')) || c == '%';
}

/* Behind the word that begins here. */
static const char *word_end(const char *at, const char *end)
{
	for (at++; at < end && is_word_char(*at); at++)
		;
	return at;
}

/* Behind what is neither a word nor a sign and begins here: a string, a comment. The same place: there is none. */
static const char *skip_quiet(const char *at, const char *end)
{
	if (*at == '"') {
		for (at++; at < end && *at != '"'; at++)
			at += *at == '\\' && end - at > 1;
		return at < end ? at + 1 : end;
	}
	if (*at != '/' || end - at < 2)
		return at;
	if (at[1] == '/') {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		return line_end ? line_end : end;
	}
	if (at[1] == '*') {
		const char *close = memmem(at + 2, (size_t)(end - at - 2), "*/", 2);
		return close ? close + 2 : end;
	}
	return at;
}

static const char *skip_space(const char *at, const char *end)
{
	for (;;) {
		const char *next = at;
		while (next < end && (*next == ' ' || *next == '\t' || *next == '\n' || *next == '\r'))
			next++;
		if (next < end)
			next = skip_quiet(next, end);
		if (next == at || next == end)
			return next;
		if (*at == '"') /* a string is no space */
			return at;
		at = next;
	}
}

static bool is_dot(const char *at, const char *end, const char *word)
{
	size_t bytes = strlen(word);

	return (size_t)(end - at) > bytes && *at == '.' && memcmp(at + 1, word, bytes) == 0 &&
	       (at + 1 + bytes == end || !is_word_char(at[1 + bytes]));
}

/* ---- Taking a text apart ----------------------------------------------------------------------------------------- */

/* Directives that end with their line. */
static bool ends_with_line(const char *at, const char *end)
{
	return is_dot(at, end, "version") || is_dot(at, end, "target") || is_dot(at, end, "address_size") ||
	       is_dot(at, end, "file") || is_dot(at, end, "loc");
}

/* Behind what begins here: a line, a semicolon, or a body. *ret_has_body: which of the latter. */
static const char *item_end(const char *at, const char *end, bool *ret_has_body)
{
	bool to_line = ends_with_line(at, end), is_value = false;
	unsigned depth = 0;

	*ret_has_body = false;
	while (at < end) {
		const char *next = skip_quiet(at, end);
		if (to_line && *at == '\n')
			return at + 1;
		if (next != at) {
			at = next;
			continue;
		}
		is_value |= *at == '=';
		depth += *at == '{';
		if (*at == '}' && depth && !--depth && !is_value) {
			*ret_has_body = true;
			return at + 1;
		}
		if (*at == ';' && !depth && !to_line)
			return at + 1;
		at++;
	}
	return end;
}

/* The name that an item declares: the first word that is in no parentheses, of variables behind their type. */
static void find_name(struct item *item)
{
	const char *at = item->text, *end = at + item->bytes;
	unsigned depth = 0;

	while (at < end && *at != '{' && *at != '=' && *at != ';') {
		const char *next = skip_quiet(at, end);
		if (next != at) {
			at = next;
		} else if (starts_word(*at) && !depth) {
			item->name = at;
			item->name_bytes = (size_t)(word_end(at, end) - at);
			return;
		} else if (*at == '.' || is_word_char(*at) || *at == '%') {
			at = word_end(at, end);
		} else {
			depth += *at == '(';
			depth -= *at == ')' && depth;
			at++;
		}
	}
}

/* What it is: its first words say. */
static void classify(struct item *item, bool has_body)
{
	const char *at = item->text, *end = at + item->bytes;
	bool is_function = false, is_variable = false;

	for (at = skip_space(at, end); at < end && *at == '.'; at = skip_space(word_end(at, end), end)) {
		if (is_dot(at, end, "extern"))
			item->linkage = EXTERN;
		else if (is_dot(at, end, "visible"))
			item->linkage = VISIBLE;
		else if (is_dot(at, end, "weak") || is_dot(at, end, "common"))
			item->linkage = WEAK;
		is_function |= is_dot(at, end, "func") || is_dot(at, end, "entry");
		is_variable |= is_dot(at, end, "global") || is_dot(at, end, "const") || is_dot(at, end, "shared");
	}
	if (is_function || is_variable)
		find_name(item);
	item->is_definition = is_function ? has_body : item->linkage != EXTERN;
}

/* Directives of later files that the first file's stand for. */
static bool is_said_already(const struct item *item)
{
	const char *end = item->text + item->bytes, *at = skip_space(item->text, end);

	return at < end && (ends_with_line(at, end) || is_dot(at, end, "section"));
}

static enum cn_ptx_error_code take_apart(struct linker *linker, const char *at, size_t bytes, unsigned file)
{
	const char *end = at + bytes;

	for (at = skip_space(at, end); at < end; at = skip_space(at, end)) {
		bool has_body;
		const char *next = item_end(at, end, &has_body);
		if (linker->count == linker->room) {
			size_t room = linker->room ? 2 * linker->room : 256;
			struct item *items = realloc(linker->items, room * sizeof *items);
			if (!items)
				return fail(linker, CN_PTX_NO_MEMORY, "no memory to link PTX");
			linker->items = items;
			linker->room = room;
		}
		struct item *item = &linker->items[linker->count++];
		*item = (struct item){.text = at, .bytes = (size_t)(next - at), .file = file};
		classify(item, has_body);
		item->is_left_out = file && is_said_already(item);
		at = next;
	}
	return CN_PTX_OK;
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static int compare_text(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);

	return order ? order : a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

static int compare_items(const void *left, const void *right)
{
	const struct item *a = *(struct item *const *)left, *b = *(struct item *const *)right;
	int order = compare_text(a->name, a->name_bytes, b->name, b->name_bytes);

	return order ? order : a < b ? -1 : a > b; /* as they stand in the texts */
}

/* Of the items of one name that files share, choose one. */
static enum cn_ptx_error_code choose(struct linker *linker, struct item **same, size_t count)
{
	struct item *best = NULL;

	for (size_t i = 0; i < count; i++) {
		struct item *item = same[i];
		if (item->linkage == LOCAL)
			continue;
		if (best && best->is_definition && item->is_definition && best->linkage == VISIBLE &&
		    item->linkage == VISIBLE)
			return fail(linker, CN_PTX_INVALID, "'%.*s' is defined in two files that are linked",
				    item->name_bytes < 80 ? (int)item->name_bytes : 80, item->name);
		if (!best || item->is_definition > best->is_definition ||
		    (item->is_definition == best->is_definition && item->linkage == VISIBLE && best->linkage == WEAK))
			best = item;
	}
	for (size_t i = 0; i < count; i++)
		if (same[i]->linkage != LOCAL)
			same[i]->is_left_out = same[i] != best;
	/* A name of a file's own gives way if another file has it, too. */
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; same[i]->linkage == LOCAL && j < count && j < 2; j++)
			same[i]->is_renamed |= same[j ? count - 1 : 0]->file != same[i]->file;
	return CN_PTX_OK;
}

static enum cn_ptx_error_code resolve(struct linker *linker)
{
	enum cn_ptx_error_code code = CN_PTX_OK;
	size_t end;

	linker->by_name = calloc(linker->count + 1, sizeof(struct item *));
	if (!linker->by_name)
		return fail(linker, CN_PTX_NO_MEMORY, "no memory to link PTX");
	for (size_t i = 0; i < linker->count; i++)
		if (linker->items[i].name)
			linker->by_name[linker->named_count++] = &linker->items[i];
	qsort(linker->by_name, linker->named_count, sizeof(struct item *), compare_items);
	for (size_t i = 0; i < linker->named_count && !code; i = end) {
		const struct item *first = linker->by_name[i];
		for (end = i + 1; end < linker->named_count; end++)
			if (compare_text(first->name, first->name_bytes, linker->by_name[end]->name,
					 linker->by_name[end]->name_bytes))
				break;
		code = choose(linker, linker->by_name + i, end - i);
	}
	return code;
}

/* Is this word, in this file, a name of the file's own that gives way? */
static bool gives_way(const struct linker *linker, const char *word, size_t bytes, unsigned file)
{
	size_t low = 0, high = linker->named_count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct item *item = linker->by_name[middle];
		int order = compare_text(item->name, item->name_bytes, word, bytes);
		if (!order)
			order = item->file < file ? -1 : item->file > file;
		if (!order && (item->is_renamed || item->linkage != LOCAL))
			return item->is_renamed;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static bool put(struct linker *linker, const char *text, size_t bytes)
{
	if (linker->out_room - linker->out_bytes <= bytes) {
		size_t room = 2 * linker->out_room + bytes + 4096;
		char *out = realloc(linker->out, room);
		if (!out)
			return false;
		linker->out = out;
		linker->out_room = room;
	}
	memcpy(linker->out + linker->out_bytes, text, bytes);
	linker->out_bytes += bytes;
	linker->out[linker->out_bytes] = 0;
	return true;
}

static bool put_item(struct linker *linker, const struct item *item)
{
	const char *at = item->text, *end = at + item->bytes, *done = at;
	char number[24];
	bool good = true;
	int number_bytes = snprintf(number, sizeof number, "_of_file_%u", item->file);

	while (at < end && good) {
		const char *next = skip_quiet(at, end);
		if (next == at && item->file && is_dot(at, end, "loc")) {
			good = put(linker, done, (size_t)(at - done));
			while (at < end && *at != '\n')
				at++;
			done = at;
			continue;
		}
		if (next == at && (*at == '.' || is_word_char(*at) || *at == '%')) {
			next = word_end(at, end);
			if (starts_word(*at) && gives_way(linker, at, (size_t)(next - at), item->file)) {
				good = put(linker, done, (size_t)(next - done)) &&
				       put(linker, number, (size_t)number_bytes);
				done = next;
			}
		}
		at = next == at ? at + 1 : next;
	}
	return good && put(linker, done, (size_t)(end - done)) && put(linker, "\n", 1);
}

enum cn_ptx_error_code cn_ptx_link(const char *const *texts, const size_t *bytes, unsigned count,
				   struct cn_ptx_error *error, char **ret_text, size_t *ret_bytes)
{
	struct linker linker = {.error = error};
	enum cn_ptx_error_code code = CN_PTX_OK;

	for (unsigned i = 0; i < count && !code; i++)
		code = take_apart(&linker, texts[i], bytes[i], i);
	if (!code)
		code = resolve(&linker);
	if (!code && !put(&linker, "", 0))
		code = fail(&linker, CN_PTX_NO_MEMORY, "no memory to link PTX");
	for (size_t i = 0; i < linker.count && !code; i++)
		if (!linker.items[i].is_left_out && !put_item(&linker, &linker.items[i]))
			code = fail(&linker, CN_PTX_NO_MEMORY, "no memory to link PTX");
	free(linker.items);
	free(linker.by_name);
	if (code) {
		free(linker.out);
		return code;
	}
	*ret_text = linker.out;
	*ret_bytes = linker.out_bytes;
	return CN_PTX_OK;
}

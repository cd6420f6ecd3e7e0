/* SPDX-License-Identifier: MIT */
/*
 * cenote cc: the fat binary that an object contains, around its PTX.
 *
 * A header, and one entry with the text and a zero byte, padded to eight bytes; not compressed. Both Cenote and
 * NVIDIA's driver read it (src/base/fatbin.h has the format). Without -rdc=true each file is a module by
 * itself; then the PTX is first searched for names that it lacks.
 */
#include "cc.h"

#include "base/fatbin.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An entry's header with its options: the driver wants a place for them, even for none. */
struct entry_header {
	struct cn_fatbin_entry entry;
	struct cn_fatbin_options options;
	char words[24];
};
_Static_assert(sizeof(struct entry_header) == 96, "as compilers write it");

enum {
	ENTRY_VERSION = 0x101,
	ENTRY_BYTES = offsetof(struct entry_header, words) + 8, /* without words */
	PADDING_BYTES = 8,
	TEXT_BYTES_MAX = 256 << 20,
};

/* What nvcc says of PTX that is to be linked; Cenote's runtime looks for it. */
static const char separate[] = "--compile-only  ";
_Static_assert(sizeof separate <= sizeof((struct entry_header *)0)->words, "it fits");

/* ---- What the PTX lacks ------------------------------------------------------------------------------------------ */

/* Functions that every device has. */
static const char *const known[] = {"vprintf", "malloc", "free", "__assertfail"};

static bool is_known(const char *name, size_t bytes)
{
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strlen(known[i]) == bytes && memcmp(known[i], name, bytes) == 0)
			return true;
	return false;
}

static bool is_of_name(char letter)
{
	return isalnum((unsigned char)letter) || strchr("_$%", letter);
}

/* The last name of a line of PTX, before "[", ";" or the line's end: what the line declares. */
static const char *declared(const char *line, size_t *ret_bytes)
{
	const char *end = line + strcspn(line, "\n[;"), *start;

	while (end > line && !is_of_name(end[-1]))
		end--;
	start = end;
	while (start > line && is_of_name(start[-1]))
		start--;
	*ret_bytes = (size_t)(end - start);
	return start;
}

/* Complain about a name that is declared, and that another file would have to define. */
static bool is_complete(const char *source, const char *ptx)
{
	static const struct {
		const char *start, *what;
	} rows[] = {{".extern .func", "function"}, {".extern .global", "variable"}, {".extern .const", "variable"}};
	bool complete = true;

	for (const char *line = ptx; *line; line += strcspn(line, "\n"), line += *line == '\n')
		for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
			size_t bytes;
			if (strncmp(line, rows[i].start, strlen(rows[i].start)) != 0)
				continue;
			const char *name = declared(line, &bytes);
			if (is_known(name, bytes))
				continue;
			fprintf(stderr,
				"cenote cc: %s: the device %s '%.*s' is used and not defined in this file: define it "
				"here or in a header, or compile with -rdc=true\n",
				source, rows[i].what, (int)bytes, name);
			complete = false;
		}
	return complete;
}

/* ---- Reading and writing ----------------------------------------------------------------------------------------- */

static bool fail(const char *path, const char *why)
{
	fprintf(stderr, "cenote cc: %s: %s\n", path, why);
	return false;
}

/* All of a file, with zeros behind it that fill up its padding. */
static char *read_text(const char *path, size_t *ret_padded_bytes)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	long bytes = -1;

	if (file && !fseek(file, 0, SEEK_END))
		bytes = ftell(file);
	if (bytes >= 0 && bytes < TEXT_BYTES_MAX) {
		*ret_padded_bytes = ((size_t)bytes / PADDING_BYTES + 1) * PADDING_BYTES;
		text = calloc(1, *ret_padded_bytes);
		rewind(file);
	}
	if (text && fread(text, 1, (size_t)bytes, file) != (size_t)bytes) {
		free(text);
		text = NULL;
	}
	if (!text)
		(void)fail(path, bytes >= TEXT_BYTES_MAX ? "too long" : strerror(errno));
	if (file)
		fclose(file);
	return text;
}

static bool write_image(const struct cc_request *request, const char *fatbin, struct entry_header *head,
			const char *text)
{
	FILE *file = fopen(fatbin, "we");
	struct cn_fatbin_header header = {CN_FATBIN_MAGIC, 1, sizeof header, 0};
	struct cn_fatbin_entry *entry = &head->entry;

	entry->header_bytes = ENTRY_BYTES;
	if (request->is_separate) {
		memcpy(head->words, separate, sizeof separate);
		head->options.bytes = strlen(separate);
		entry->header_bytes = sizeof *head;
	}
	header.bytes = entry->header_bytes + entry->bytes;
	bool written = file && fwrite(&header, sizeof header, 1, file) == 1 &&
		       fwrite(head, entry->header_bytes, 1, file) == 1 && fwrite(text, entry->bytes, 1, file) == 1;
	written &= file && !fclose(file);
	return written || fail(fatbin, strerror(errno));
}

bool cc_write_fatbin(const struct cc_request *request, const char *source, const char *ptx, const char *fatbin)
{
	unsigned major = 0, minor = 0;
	size_t bytes = 0;
	char *text = read_text(ptx, &bytes);
	const char *version = text ? strstr(text, "\n.version ") : NULL;
	bool written = false;

	if (!text)
		return false;
	if (!version || sscanf(version, "\n.version %u.%u", &major, &minor) != 2)
		(void)fail(source, "clang has not made PTX of it");
	if (major && (request->is_separate || is_complete(source, text))) {
		struct entry_header head = {
			.entry = {.kind = CN_FATBIN_PTX,
				  .version = ENTRY_VERSION,
				  .bytes = bytes,
				  .options_at = offsetof(struct entry_header, options),
				  .minor = (uint16_t)minor,
				  .major = (uint16_t)major,
				  .architecture = request->architecture,
				  .flags = CN_FATBIN_64_BIT | CN_FATBIN_LINUX},
			.options = {.at = offsetof(struct entry_header, words)},
		};

		written = write_image(request, fatbin, &head, text);
	}
	free(text);
	return written;
}

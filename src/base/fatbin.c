/* SPDX-License-Identifier: MIT */
/*
 * The PTX of a fat binary (fatbin.h).
 *
 * Only libc, and no other part of base/: the recorder of `cenote check` is built with it, too.
 */
#include "base/fatbin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 4096, TEXT_BYTES_MAX = 512 << 20 };

/* The best entry so far. */
struct choice {
	const unsigned char *bytes;
	size_t count;
	struct cn_fatbin_entry entry;
	bool found, has_machine_code;
};

static enum cn_fatbin_result refuse(char *sentence, enum cn_fatbin_result result, const char *why)
{
	snprintf(sentence, CN_FATBIN_SENTENCE_BYTES, "%s", why);
	return result;
}

/* ---- Decompression ----------------------------------------------------------------------------------------------- */

static enum cn_fatbin_result open_library(const char *file, const char *function, const char *what, char *sentence,
					  void **ret)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	*ret = library ? dlsym(library, function) : NULL;
	if (*ret)
		return CN_FATBIN_OK; /* kept open */
	snprintf(sentence, CN_FATBIN_SENTENCE_BYTES,
		 "the PTX is compressed with %s: install %s, or compile with nvcc --no-compress", what, file);
	return CN_FATBIN_UNSUPPORTED;
}

static enum cn_fatbin_result decompress(const struct choice *choice, char *sentence, struct cn_fatbin_text *ret_text)
{
	const struct cn_fatbin_entry *entry = &choice->entry;
	size_t from = entry->compressed_bytes ? entry->compressed_bytes : choice->count;
	size_t room = (size_t)entry->uncompressed_bytes, made;
	enum cn_fatbin_result result;
	void *function;
	char *text;

	if (from > choice->count || !room || entry->uncompressed_bytes > TEXT_BYTES_MAX || room / 1024 > from)
		return refuse(sentence, CN_FATBIN_INVALID, "a fat binary whose compressed PTX has wrong lengths");
	if (entry->flags & CN_FATBIN_ZSTD)
		result = open_library("libzstd.so.1", "ZSTD_decompress", "zstd", sentence, &function);
	else
		result = open_library("liblz4.so.1", "LZ4_decompress_safe", "LZ4", sentence, &function);
	if (result)
		return result;
	text = malloc(room + 1);
	if (!text) {
		snprintf(sentence, CN_FATBIN_SENTENCE_BYTES, "no memory for %zu bytes of PTX", room);
		return CN_FATBIN_NO_MEMORY;
	}
	if (entry->flags & CN_FATBIN_ZSTD) {
		size_t (*zstd)(void *, size_t, const void *, size_t);

		memcpy(&zstd, &function, sizeof zstd);
		made = zstd(text, room, choice->bytes, from);
	} else {
		int (*lz4)(const char *, char *, int, int);
		int count;

		memcpy(&lz4, &function, sizeof lz4);
		count = lz4((const char *)choice->bytes, text, (int)from, (int)room);
		made = count < 0 ? SIZE_MAX : (size_t)count;
	}
	if (made > room) {
		free(text);
		return refuse(sentence, CN_FATBIN_INVALID, "a fat binary whose PTX cannot be decompressed");
	}
	text[made] = 0;
	*ret_text = (struct cn_fatbin_text){.text = text, .bytes = made, .owned = text};
	return CN_FATBIN_OK;
}

/* ---- Entries ----------------------------------------------------------------------------------------------------- */

/* The highest architecture that the device can be, then the newest PTX. */
static bool is_better(const struct choice *choice, const struct cn_fatbin_entry *entry, unsigned target)
{
	bool fits = entry->architecture <= target, fitted = choice->entry.architecture <= target;

	if (!choice->found)
		return true;
	if (fits != fitted)
		return fits;
	if (entry->architecture != choice->entry.architecture)
		return (entry->architecture > choice->entry.architecture) == fits;
	return entry->major * 256 + entry->minor > choice->entry.major * 256 + choice->entry.minor;
}

static enum cn_fatbin_result read_entries(const unsigned char *image, size_t bytes, unsigned target, char *sentence,
					  struct choice *choice)
{
	struct cn_fatbin_header header;
	size_t at, end;

	if (bytes < sizeof header)
		return refuse(sentence, CN_FATBIN_INVALID, "a fat binary shorter than its header");
	memcpy(&header, image, sizeof header);
	if (header.magic != CN_FATBIN_MAGIC)
		return refuse(sentence, CN_FATBIN_INVALID, "neither PTX nor a fat binary");
	if (header.header_bytes < sizeof header || header.header_bytes > bytes ||
	    header.bytes > bytes - header.header_bytes)
		return refuse(sentence, CN_FATBIN_INVALID, "a fat binary that is shorter than its header says");
	at = header.header_bytes;
	end = at + (size_t)header.bytes;
	for (unsigned i = 0; i < ENTRIES_MAX && end - at >= sizeof(struct cn_fatbin_entry); i++) {
		struct cn_fatbin_entry entry;

		memcpy(&entry, image + at, sizeof entry);
		if (entry.header_bytes < sizeof entry || entry.header_bytes > end - at ||
		    entry.bytes > end - at - entry.header_bytes)
			return refuse(sentence, CN_FATBIN_INVALID,
				      "a fat binary with an entry that is longer than itself");
		if (entry.kind == CN_FATBIN_PTX && is_better(choice, &entry, target)) {
			choice->found = true;
			choice->entry = entry;
			choice->bytes = image + at + entry.header_bytes;
			choice->count = (size_t)entry.bytes;
		}
		choice->has_machine_code |= entry.kind == CN_FATBIN_ELF;
		at += entry.header_bytes + (size_t)entry.bytes;
	}
	return CN_FATBIN_OK;
}

enum cn_fatbin_result cn_fatbin_read(const void *image, size_t bytes, unsigned target,
				     char sentence[CN_FATBIN_SENTENCE_BYTES], struct cn_fatbin_text *ret_text)
{
	struct choice choice = {0};
	enum cn_fatbin_result result = read_entries(image, bytes, target, sentence, &choice);

	if (result)
		return result;
	if (!choice.found)
		return refuse(sentence, CN_FATBIN_NO_PTX,
			      choice.has_machine_code
				      ? "a fat binary with machine code and no PTX: compile with nvcc -gencode "
					"arch=compute_75,code=compute_75 or without code=sm_…"
				      : "a fat binary without PTX");
	if (choice.entry.flags & (CN_FATBIN_LZ4 | CN_FATBIN_ZSTD))
		return decompress(&choice, sentence, ret_text);
	*ret_text = (struct cn_fatbin_text){.text = (const char *)choice.bytes, .bytes = choice.count};
	return CN_FATBIN_OK;
}

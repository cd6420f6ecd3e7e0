/* SPDX-License-Identifier: MIT */
/*
 * Images: PTX text, fat binaries, and the wrapper that compilers put around them.
 *
 * base/fatbin.h has their layout. Every length in a fat binary is checked against what is left.
 *
 * LZ4 and zstd are the system's libraries, opened here when an entry needs them.
 */
#include "ptx/ptx_module.h"

#include "base/fatbin.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ENTRIES_MAX = 4096,
	LIST_MAX = 4096,
	TEXT_BYTES_MAX = 512 << 20,
};

/* The best entry so far. */
struct choice {
	const unsigned char *bytes;
	size_t count;
	struct cn_fatbin_entry entry;
	bool found, has_machine_code;
};

__attribute__((format(printf, 3, 4))) static enum cn_ptx_error_code refuse(struct cn_ptx_error *error,
									   enum cn_ptx_error_code code,
									   const char *format, ...)
{
	va_list arguments;

	error->code = code;
	error->line = 0;
	va_start(arguments, format);
	vsnprintf(error->sentence, sizeof error->sentence, format, arguments);
	va_end(arguments);
	return code;
}

/* ---- Decompression ----------------------------------------------------------------------------------------------- */

static enum cn_ptx_error_code open_library(const char *file, const char *function, const char *what,
					   struct cn_ptx_error *error, void **ret)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	*ret = library ? dlsym(library, function) : NULL;
	if (*ret)
		return CN_PTX_OK; /* kept open */
	return refuse(error, CN_PTX_UNSUPPORTED,
		      "the PTX is compressed with %s: install %s, or compile with nvcc --no-compress", what, file);
}

static enum cn_ptx_error_code decompress(const struct choice *choice, struct cn_ptx_error *error, char **ret_text,
					 size_t *ret_bytes)
{
	const struct cn_fatbin_entry *entry = &choice->entry;
	size_t from = entry->compressed_bytes ? entry->compressed_bytes : choice->count;
	size_t room = (size_t)entry->uncompressed_bytes, made;
	enum cn_ptx_error_code code;
	void *function;
	char *text;

	if (from > choice->count || !room || entry->uncompressed_bytes > TEXT_BYTES_MAX || room / 1024 > from)
		return refuse(error, CN_PTX_INVALID, "a fat binary whose compressed PTX has wrong lengths");
	if (entry->flags & CN_FATBIN_ZSTD)
		code = open_library("libzstd.so.1", "ZSTD_decompress", "zstd", error, &function);
	else
		code = open_library("liblz4.so.1", "LZ4_decompress_safe", "LZ4", error, &function);
	if (code)
		return code;
	text = malloc(room + 1);
	if (!text)
		return refuse(error, CN_PTX_NO_MEMORY, "no memory for %zu bytes of PTX", room);
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
		return refuse(error, CN_PTX_INVALID, "a fat binary whose PTX cannot be decompressed");
	}
	text[made] = 0;
	*ret_text = text;
	*ret_bytes = made;
	return CN_PTX_OK;
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

static enum cn_ptx_error_code read_entries(const unsigned char *image, size_t bytes, unsigned target,
					   struct cn_ptx_error *error, struct choice *choice)
{
	struct cn_fatbin_header header;
	size_t at, end;

	if (bytes < sizeof header)
		return refuse(error, CN_PTX_INVALID, "a fat binary shorter than its header");
	memcpy(&header, image, sizeof header);
	if (header.magic != CN_FATBIN_MAGIC)
		return refuse(error, CN_PTX_INVALID, "neither PTX nor a fat binary");
	if (header.header_bytes < sizeof header || header.header_bytes > bytes ||
	    header.bytes > bytes - header.header_bytes)
		return refuse(error, CN_PTX_INVALID, "a fat binary that is shorter than its header says");
	at = header.header_bytes;
	end = at + (size_t)header.bytes;
	for (unsigned i = 0; i < ENTRIES_MAX && end - at >= sizeof(struct cn_fatbin_entry); i++) {
		struct cn_fatbin_entry entry;

		memcpy(&entry, image + at, sizeof entry);
		if (entry.header_bytes < sizeof entry || entry.header_bytes > end - at ||
		    entry.bytes > end - at - entry.header_bytes)
			return refuse(error, CN_PTX_INVALID, "a fat binary with an entry that is longer than itself");
		if (entry.kind == CN_FATBIN_PTX && is_better(choice, &entry, target)) {
			choice->found = true;
			choice->entry = entry;
			choice->bytes = image + at + entry.header_bytes;
			choice->count = (size_t)entry.bytes;
		}
		choice->has_machine_code |= entry.kind == CN_FATBIN_ELF;
		at += entry.header_bytes + (size_t)entry.bytes;
	}
	return CN_PTX_OK;
}

static enum cn_ptx_error_code text_of(const struct choice *choice, struct cn_ptx_error *error, const char **ret_text,
				      size_t *ret_bytes, char **ret_owned)
{
	enum cn_ptx_error_code code;

	if (!choice->found)
		return refuse(error, CN_PTX_NO_PTX,
			      choice->has_machine_code
				      ? "a fat binary with machine code and no PTX: compile with nvcc -gencode "
					"arch=compute_75,code=compute_75 or without code=sm_…"
				      : "a fat binary without PTX");
	if (choice->entry.flags & (CN_FATBIN_LZ4 | CN_FATBIN_ZSTD)) {
		code = decompress(choice, error, ret_owned, ret_bytes);
		if (!code && *ret_owned)
			*ret_text = *ret_owned;
		return code;
	}
	*ret_text = (const char *)choice->bytes;
	*ret_bytes = choice->count;
	return CN_PTX_OK;
}

/* Fat binaries of files that were compiled apart, in a list that ends with NULL: their texts are linked. */
static enum cn_ptx_error_code link_list(const void *const *list, unsigned target, struct cn_ptx_error *error,
					size_t *ret_bytes, char **ret_owned)
{
	enum cn_ptx_error_code code = CN_PTX_OK;
	unsigned count = 0;

	while (count < LIST_MAX && list[count])
		count++;
	const char **texts = calloc(count + 1, sizeof *texts);
	size_t *bytes = calloc(count + 1, sizeof *bytes);
	char **owned = calloc(count + 1, sizeof *owned);
	if (!texts || !bytes || !owned) {
		code = refuse(error, CN_PTX_NO_MEMORY, "no memory to link PTX");
		goto out;
	}
	for (unsigned i = 0; i < count && !code; i++) {
		struct choice choice = {0};
		code = read_entries(list[i], SIZE_MAX / 2, target, error, &choice);
		if (!code)
			code = text_of(&choice, error, &texts[i], &bytes[i], &owned[i]);
		if (!code && texts[i])
			bytes[i] = strnlen(texts[i], bytes[i]);
	}
	if (!code)
		code = cn_ptx_link(texts, bytes, count, error, ret_owned, ret_bytes);
	for (unsigned i = 0; i < count; i++)
		free(owned[i]);
out:
	free(texts);
	free(bytes);
	free(owned);
	return code;
}

/* Fat binaries that a program's own memory holds: their headers say how long they are. */
static enum cn_ptx_error_code read_wrapper(const void *image, size_t bytes, unsigned target, struct cn_ptx_error *error,
					   struct choice *choice, size_t *ret_bytes, char **ret_owned)
{
	struct cn_fatbin_wrapper wrapper;

	if (bytes < sizeof wrapper)
		return refuse(error, CN_PTX_INVALID, "a fat binary's wrapper that is cut off");
	memcpy(&wrapper, image, sizeof wrapper);
	if (wrapper.version == 1) {
		if (!wrapper.data)
			return refuse(error, CN_PTX_INVALID, "a fat binary's wrapper without a fat binary");
		return read_entries(wrapper.data, SIZE_MAX / 2, target, error, choice);
	}
	if (wrapper.version != 2 || !wrapper.list)
		return refuse(error, CN_PTX_UNSUPPORTED, "a fat binary's wrapper of version %u", wrapper.version);
	return link_list(wrapper.list, target, error, ret_bytes, ret_owned);
}

enum cn_ptx_error_code cn_ptx_image_text(const void *image, size_t bytes, unsigned target, struct cn_ptx_error *error,
					 const char **ret_text, size_t *ret_bytes, char **ret_owned)
{
	struct choice choice = {0};
	enum cn_ptx_error_code code;
	uint32_t magic = 0;

	*ret_owned = NULL;
	*ret_text = "";
	*ret_bytes = 0;
	if (bytes >= sizeof magic)
		memcpy(&magic, image, sizeof magic);
	if (magic == CN_FATBIN_WRAPPER_MAGIC)
		code = read_wrapper(image, bytes, target, error, &choice, ret_bytes, ret_owned);
	else if (magic == CN_FATBIN_MAGIC)
		code = read_entries(image, bytes == SIZE_MAX ? SIZE_MAX / 2 : bytes, target, error, &choice);
	else {
		*ret_text = image;
		*ret_bytes = bytes == SIZE_MAX ? strlen(image) : strnlen(image, bytes);
		return CN_PTX_OK;
	}
	if (!code && *ret_owned)
		*ret_text = *ret_owned; /* linked */
	else if (!code)
		code = text_of(&choice, error, ret_text, ret_bytes, ret_owned);
	if (!code)
		*ret_bytes = strnlen(*ret_text, *ret_bytes);
	return code;
}

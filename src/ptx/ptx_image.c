/* SPDX-License-Identifier: MIT */
/*
 * Images: PTX text, fat binaries, and the wrapper that compilers put around them.
 *
 * base/fatbin.h reads a fat binary. Here is which of them an image has, and how their texts become one.
 */
#include "ptx/ptx_module.h"

#include "base/fatbin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_MAX = 4096 };

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

/* The PTX of one fat binary. */
static enum cn_ptx_error_code read_one(const void *image, size_t bytes, unsigned target, struct cn_ptx_error *error,
				       struct cn_fatbin_text *ret_text)
{
	static const enum cn_ptx_error_code codes[] = {
		[CN_FATBIN_OK] = CN_PTX_OK,
		[CN_FATBIN_INVALID] = CN_PTX_INVALID,
		[CN_FATBIN_UNSUPPORTED] = CN_PTX_UNSUPPORTED,
		[CN_FATBIN_NO_PTX] = CN_PTX_NO_PTX,
		[CN_FATBIN_NO_MEMORY] = CN_PTX_NO_MEMORY,
	};
	char sentence[CN_FATBIN_SENTENCE_BYTES];
	enum cn_fatbin_result result = cn_fatbin_read(image, bytes, target, sentence, ret_text);

	return result ? refuse(error, codes[result], "%s", sentence) : CN_PTX_OK;
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
		struct cn_fatbin_text one;
		code = read_one(list[i], SIZE_MAX / 2, target, error, &one);
		if (code)
			break;
		texts[i] = one.text;
		bytes[i] = strnlen(one.text, one.bytes);
		owned[i] = one.owned;
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
					   struct cn_fatbin_text *ret_one, size_t *ret_bytes, char **ret_owned)
{
	struct cn_fatbin_wrapper wrapper;

	if (bytes < sizeof wrapper)
		return refuse(error, CN_PTX_INVALID, "a fat binary's wrapper that is cut off");
	memcpy(&wrapper, image, sizeof wrapper);
	if (wrapper.version == 1) {
		if (!wrapper.data)
			return refuse(error, CN_PTX_INVALID, "a fat binary's wrapper without a fat binary");
		return read_one(wrapper.data, SIZE_MAX / 2, target, error, ret_one);
	}
	if (wrapper.version != 2 || !wrapper.list)
		return refuse(error, CN_PTX_UNSUPPORTED, "a fat binary's wrapper of version %u", wrapper.version);
	return link_list(wrapper.list, target, error, ret_bytes, ret_owned);
}

enum cn_ptx_error_code cn_ptx_image_text(const void *image, size_t bytes, unsigned target, struct cn_ptx_error *error,
					 const char **ret_text, size_t *ret_bytes, char **ret_owned)
{
	struct cn_fatbin_text one = {.text = ""};
	enum cn_ptx_error_code code;
	uint32_t magic = 0;

	*ret_owned = NULL;
	*ret_text = "";
	*ret_bytes = 0;
	if (bytes >= sizeof magic)
		memcpy(&magic, image, sizeof magic);
	if (magic == CN_FATBIN_WRAPPER_MAGIC)
		code = read_wrapper(image, bytes, target, error, &one, ret_bytes, ret_owned);
	else if (magic == CN_FATBIN_MAGIC)
		code = read_one(image, bytes == SIZE_MAX ? SIZE_MAX / 2 : bytes, target, error, &one);
	else {
		*ret_text = image;
		*ret_bytes = bytes == SIZE_MAX ? strlen(image) : strnlen(image, bytes);
		return CN_PTX_OK;
	}
	if (code)
		return code;
	if (*ret_owned) {
		*ret_text = *ret_owned; /* linked */
	} else {
		*ret_text = one.text;
		*ret_bytes = one.bytes;
		*ret_owned = one.owned;
	}
	*ret_bytes = strnlen(*ret_text, *ret_bytes);
	return CN_PTX_OK;
}

/* SPDX-License-Identifier: MIT */
/*
 * Linking PTX: any texts become one that ends with a zero, or there is a sentence that says why not.
 *
 * Zeros part the input into texts.
 */
#include "fuzz.h"

#include "ptx/ptx_module.h"

#include <stdlib.h>
#include <string.h>

enum { TEXTS_MAX = 8 };

void fuzz_prepare(void)
{
	fuzz_start();
}

void fuzz_one(const uint8_t *input, size_t size)
{
	const char *texts[TEXTS_MAX];
	size_t bytes[TEXTS_MAX], text_bytes = 0;
	struct cn_ptx_error error = {0};
	unsigned count = 0;
	char *text = NULL;

	while (size && count < TEXTS_MAX) {
		texts[count] = (const char *)input;
		bytes[count] = strnlen(texts[count], size);
		input += bytes[count];
		size -= bytes[count];
		input += size > 0;
		size -= size > 0;
		count++;
	}
	if (cn_ptx_link(texts, bytes, count, &error, &text, &text_bytes)) {
		FUZZ_CHECK(error.code && *error.sentence && !text);
		return;
	}
	FUZZ_CHECK(strlen(text) == text_bytes);
	free(text);
}

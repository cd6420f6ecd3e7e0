/* SPDX-License-Identifier: MIT */
/*
 * Errors: the sentence of each thread, and CUDA's table of codes.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char sentence[CN_SENTENCE_BYTES];
static _Thread_local bool is_hushed;

static bool log_wanted(void)
{
	const char *level = secure_getenv("CENOTE_LOG");

	return level && strcmp(level, "debug") == 0;
}

void cn_error_keep(CUresult code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	if (!is_hushed && log_wanted()) {
		const char *name = cn_result_name(code);
		fprintf(stderr, "cenote: %s: %s\n", name ? name : "unknown error", sentence);
	}
}

const char *cn_last_error(void)
{
	return sentence;
}

void cn_error_forget(const char kept[CN_SENTENCE_BYTES])
{
	memcpy(sentence, kept, sizeof sentence);
}

void cn_error_hush(bool hushed)
{
	is_hushed = hushed;
}

void cn_log(const char *format, ...)
{
	char text[2 * CN_SENTENCE_BYTES];
	va_list arguments;

	if (!log_wanted())
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fprintf(stderr, "cenote: %s\n", text);
}

/* SPDX-License-Identifier: MIT */
/*
 * Errors: the sentence of each thread, and CUDA's table of codes.
 */
#include "base/error.h"

#include "base/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local char sentence[CN_SENTENCE_BYTES];
static _Thread_local bool is_hushed;

static bool log_wanted(void)
{
	const char *level = secure_getenv("CENOTE_LOG");

	return level && strcmp(level, "debug") == 0;
}

/* cenote[1234] cuMemAlloc: INVALID_VALUE: an allocation of 0 bytes */
static void print_error(CUresult code)
{
	static const char prefix[] = "CUDA_ERROR_";
	const char *name = cn_result_name(code), *call = cn_call_name();
	char number[32];

	if (!name) { /* one of the runtime's alone */
		snprintf(number, sizeof number, "error %d", (int)code);
		name = number;
	}
	if (strncmp(name, prefix, strlen(prefix)) == 0)
		name += strlen(prefix);
	fprintf(stderr, "cenote[%d]%s%s: %s: %s\n", (int)getpid(), call ? " " : "", call ? call : "", name, sentence);
}

void cn_log_check(void)
{
	const char *level = secure_getenv("CENOTE_LOG");

	if (level && *level && !log_wanted())
		fprintf(stderr, "cenote[%d]: CENOTE_LOG is '%s', and nothing is logged; it takes debug\n",
			(int)getpid(), level);
}

void cn_error_keep(CUresult code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	if (!is_hushed && log_wanted())
		print_error(code);
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
	fprintf(stderr, "cenote[%d]: %s\n", (int)getpid(), text);
}

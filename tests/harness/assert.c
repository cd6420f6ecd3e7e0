/* SPDX-License-Identifier: MIT */
/*
 * Assertions that fail, and reproducible randomness.
 *
 * A failed assertion prints one line and ends the process at once, from whatever thread it is in: exit handlers could
 * wait for a thread that the failure has left behind.
 */
#include <stdarg.h>
#include <unistd.h>

#include "internal.h"

/* Present when the program links the library; a program that tests the lowest layer may not. */
extern unsigned cuGetErrorName(unsigned code, const char **ret_name) __attribute__((weak));
extern const char *cenote_last_error(void) __attribute__((weak));

void harness_fail(const char *file, int line, const char *format, ...)
{
	char text[2048];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fflush(stdout);
	dprintf(STDERR_FILENO, "%s:%d: %s\n", file, line, text);
	_exit(1);
}

static void format_value(enum harness_kind kind, const void *value, size_t bytes, char *ret_text, size_t limit)
{
	int64_t number = 0;

	if (kind == HARNESS_FLOAT)
		snprintf(ret_text, limit, "%.9g", (double)*(const float *)value);
	else if (kind == HARNESS_DOUBLE)
		snprintf(ret_text, limit, "%.17g", *(const double *)value);
	if (kind == HARNESS_FLOAT || kind == HARNESS_DOUBLE)
		return;

	memcpy(&number, value, bytes < sizeof number ? bytes : sizeof number);
	if (kind == HARNESS_SIGNED && bytes < sizeof number) {
		unsigned unused_bits = 64 - 8 * (unsigned)bytes;

		number = (int64_t)((uint64_t)number << unused_bits) >> unused_bits;
	}
	if (kind == HARNESS_SIGNED)
		snprintf(ret_text, limit, "%jd", (intmax_t)number);
	else if (kind == HARNESS_POINTER || (uint64_t)number > 0xffffff)
		snprintf(ret_text, limit, "%#jx", (uintmax_t)number);
	else
		snprintf(ret_text, limit, "%ju", (uintmax_t)number);
}

void harness_compare_failed(const char *file, int line, const char *text, enum harness_kind left_kind, const void *left,
			    size_t left_bytes, enum harness_kind right_kind, const void *right, size_t right_bytes)
{
	char left_text[64], right_text[64];

	format_value(left_kind, left, left_bytes, left_text, sizeof left_text);
	format_value(right_kind, right, right_bytes, right_text, sizeof right_text);
	harness_fail(file, line, "%s is false: left is %s, right is %s", text, left_text, right_text);
}

void harness_streq(const char *file, int line, const char *text, const char *expected, const char *actual)
{
	if (!expected || !actual ? expected != actual : strcmp(expected, actual) != 0)
		harness_fail(file, line, "%s is \"%s\", not \"%s\"", text, actual ? actual : "(NULL)",
			     expected ? expected : "(NULL)");
}

void harness_contains(const char *file, int line, const char *text, const char *part, const char *whole)
{
	if (!whole || !strstr(whole, part))
		harness_fail(file, line, "%s has no \"%s\": \"%s\"", text, part, whole ? whole : "(NULL)");
}

void harness_memeq(const char *file, int line, const char *text, const void *expected, const void *actual, size_t bytes)
{
	const unsigned char *left = expected, *right = actual;

	for (size_t i = 0; i < bytes; i++) {
		if (left[i] != right[i])
			harness_fail(file, line, "%s: byte %zu of %zu is %#x, not %#x", text, i, bytes, right[i],
				     left[i]);
	}
}

static const char *error_name(unsigned code)
{
	const char *name = NULL;

	if (!cuGetErrorName || cuGetErrorName(code, &name) || !name)
		return "";
	return name;
}

void harness_result(const char *file, int line, const char *text, unsigned expected, unsigned actual)
{
	if (expected == actual)
		return;
	const char *reason = cenote_last_error ? cenote_last_error() : NULL;
	harness_fail(file, line, "%s answered %u %s, not %u %s%s%s", text, actual, error_name(actual), expected,
		     error_name(expected), reason && *reason ? ": " : "", reason ? reason : "");
}

/* splitmix64: small, and any state is a good one. */
uint64_t test_random_next(struct test_random *generator)
{
	uint64_t mixed = generator->state += UINT64_C(0x9e3779b97f4a7c15);

	mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
	return mixed ^ (mixed >> 31);
}

struct test_random test_random_start(uint64_t stream)
{
	struct test_random generator = {.state = test_seed()};

	/* Streams start far apart: the seed's first number, changed by the stream's. */
	generator.state = test_random_next(&generator) ^ (stream * UINT64_C(0xd1342543de82ef95));
	return generator;
}

uint64_t test_random_below(struct test_random *generator, uint64_t bound)
{
	ASSERT(bound > 0);
	return (uint64_t)(((unsigned __int128)test_random_next(generator) * bound) >> 64);
}

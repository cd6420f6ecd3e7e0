/* SPDX-License-Identifier: MIT */
/*
 * printf() of kernels: the format is the program's, the arguments are packed as a compiler packs them.
 *
 * Each conversion is taken apart and given to the C library with an argument of the type that it names, never as it
 * stands. What does not fit the room is cut off.
 */
#include "ptx/ptx_bits.h"
#include "ptx/ptx_builtin.h"

#include <stdio.h>
#include <string.h>

struct out {
	char *text;
	size_t room, length;
	const unsigned char *arguments;
	size_t at;
};

static void put(struct out *out, const char *text, size_t length)
{
	if (length > out->room - out->length)
		length = out->room - out->length;
	memcpy(out->text + out->length, text, length);
	out->length += length;
}

static uint64_t next(struct out *out, unsigned bytes)
{
	uint64_t value = 0;

	out->at = (out->at + bytes - 1) & ~(size_t)(bytes - 1);
	memcpy(&value, out->arguments + out->at, bytes);
	out->at += bytes;
	return value;
}

struct conversion {
	char flags[8];
	int width, precision; /* -1: none */
	unsigned bytes;       /* of an integer */
	char letter;
};

static int read_count(const char **format, struct out *out)
{
	int count = 0;

	if (**format == '*') {
		++*format;
		return (int)(int32_t)next(out, 4);
	}
	for (; **format >= '0' && **format <= '9'; ++*format)
		if (count < 4096)
			count = count * 10 + (**format - '0');
	return count;
}

/* After the percent sign. */
static struct conversion read_conversion(const char **format, struct out *out)
{
	struct conversion c = {.width = -1, .precision = -1, .bytes = 4};
	size_t flags = 0;

	while (**format && strchr("-+ #0", **format)) {
		if (flags < sizeof c.flags - 2)
			c.flags[flags++] = **format;
		++*format;
	}
	if ((**format >= '1' && **format <= '9') || **format == '*')
		c.width = read_count(format, out);
	if (c.width < -1) {
		c.flags[flags++] = '-';
		c.width = c.width < -4096 ? 4096 : -c.width;
	}
	if (**format == '.') {
		++*format;
		c.precision = read_count(format, out);
	}
	for (; **format && strchr("hlLqjzt", **format); ++*format)
		if (**format != 'h' && **format != 'L')
			c.bytes = 8;
	c.letter = **format;
	if (c.letter)
		++*format;
	c.width = c.width > 4096 ? 4096 : c.width;
	c.precision = c.precision > 4096 ? 4096 : c.precision < 0 ? -1 : c.precision;
	return c;
}

static void append(char *spec, size_t room, const char *more)
{
	size_t length = strlen(spec);

	snprintf(spec + length, room - length, "%s", more);
}

static void convert(struct out *out, const struct conversion *c)
{
	char spec[64], text[8300], star[16] = "";
	const char letter[2] = {c->letter, 0};
	int length = 0;
	uint64_t value;

	if (c->precision >= 0)
		snprintf(star, sizeof star, ".%d", c->precision);
	if (c->width >= 0)
		snprintf(spec, sizeof spec, "%%%s%d%s", c->flags, c->width, star);
	else
		snprintf(spec, sizeof spec, "%%%s%s", c->flags, star);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	switch (c->letter) {
	case 'd':
	case 'i':
		value = next(out, c->bytes);
		append(spec, sizeof spec, "lld");
		length =
			snprintf(text, sizeof text, spec, c->bytes == 8 ? (long long)value : (long long)(int32_t)value);
		break;
	case 'u':
	case 'o':
	case 'x':
	case 'X':
		value = next(out, c->bytes);
		append(spec, sizeof spec, "ll");
		append(spec, sizeof spec, letter);
		length = snprintf(text, sizeof text, spec, (unsigned long long)value);
		break;
	case 'c':
		append(spec, sizeof spec, letter);
		length = snprintf(text, sizeof text, spec, (int)next(out, 4));
		break;
	case 's':
		value = next(out, 8);
		append(spec, sizeof spec, letter);
		length = snprintf(text, sizeof text, spec, value ? (const char *)(uintptr_t)value : "(null)");
		break;
	case 'p':
		append(spec, sizeof spec, letter);
		length = snprintf(text, sizeof text, spec, (void *)(uintptr_t)next(out, 8));
		break;
	default:
		append(spec, sizeof spec, letter);
		length = snprintf(text, sizeof text, spec, cn_ptx_f64_of(next(out, 8)));
		break;
	}
#pragma GCC diagnostic pop
	if (length > 0)
		put(out, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

size_t cn_ptx_print(char *text, size_t room, const char *format, const unsigned char *arguments)
{
	struct out out = {.text = text, .room = room, .arguments = arguments};

	while (*format) {
		const char *start = format;
		struct conversion c;

		if (*format != '%') {
			while (*format && *format != '%')
				format++;
			put(&out, start, (size_t)(format - start));
			continue;
		}
		format++;
		if (*format == '%') {
			put(&out, "%", 1);
			format++;
			continue;
		}
		c = read_conversion(&format, &out);
		if (c.letter && strchr("diuoxXcspfFeEgGaA", c.letter))
			convert(&out, &c);
		else
			put(&out, start, (size_t)(format - start));
	}
	return out.length;
}

/* SPDX-License-Identifier: MIT */
/*
 * Tokens of PTX text.
 *
 * A dot and the word after it are one token: PTX writes directives, modifiers and components so. Comments and white
 * space are skipped; lines are counted, for the sentences of errors.
 */
#include "ptx/ptx_bits.h"
#include "ptx/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool cn_ptx_is_name_char(char c)
{
	return is_name_start(c) || is_digit(c);
}

static int digit_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

static char peek(const struct cn_ptx_parser *parser, size_t ahead)
{
	return (size_t)(parser->end - parser->at) > ahead ? parser->at[ahead] : 0;
}

static void skip_comment(struct cn_ptx_parser *parser)
{
	parser->at += 2;
	while (parser->at < parser->end && !(parser->at[0] == '*' && peek(parser, 1) == '/')) {
		parser->line += *parser->at == '\n';
		parser->at++;
	}
	if (parser->at == parser->end)
		cn_ptx_fail(parser, CN_PTX_INVALID, "a comment does not end");
	parser->at += 2;
}

static void skip_space(struct cn_ptx_parser *parser)
{
	while (parser->at < parser->end) {
		char c = *parser->at;

		if (c == '\n') {
			parser->line++;
			parser->at++;
		} else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
			parser->at++;
		} else if (c == '/' && peek(parser, 1) == '/') {
			while (parser->at < parser->end && *parser->at != '\n')
				parser->at++;
		} else if (c == '/' && peek(parser, 1) == '*') {
			skip_comment(parser);
		} else {
			return;
		}
	}
}

/* 0f3f800000 and 0d3ff0000000000000: bits. */
static bool read_float_bits(struct cn_ptx_parser *parser)
{
	char mark = (char)(peek(parser, 1) | 0x20);
	unsigned digits = mark == 'f' ? 8 : 16;
	uint64_t value = 0;

	if (peek(parser, 0) != '0' || (mark != 'f' && mark != 'd'))
		return false;
	for (unsigned i = 0; i < digits; i++) {
		int digit = digit_value(peek(parser, 2 + i));

		if (digit > 15)
			return false;
		value = value << 4 | (unsigned)digit;
	}
	parser->at += 2 + digits;
	parser->token.kind = CN_PTX_T_FLOAT;
	parser->token.is_double = mark == 'd';
	parser->token.value = value;
	return true;
}

/* 1.5, 1e9: the text is copied, since nothing ends it. */
static bool read_decimal_float(struct cn_ptx_parser *parser)
{
	char text[64];
	size_t length = 0, digits = 0;

	while (is_digit(peek(parser, digits)))
		digits++;
	if (peek(parser, digits) != '.' && (peek(parser, digits) | 0x20) != 'e')
		return false;
	while (length < sizeof text - 1) {
		char c = peek(parser, length);

		if (!is_digit(c) && c != '.' && (c | 0x20) != 'e' &&
		    !((c == '-' || c == '+') && length && (text[length - 1] | 0x20) == 'e'))
			break;
		text[length++] = c;
	}
	text[length] = 0;
	parser->at += length;
	parser->token.kind = CN_PTX_T_FLOAT;
	parser->token.is_double = true;
	parser->token.value = cn_ptx_f64_bits(strtod(text, NULL));
	return true;
}

static void read_number(struct cn_ptx_parser *parser)
{
	unsigned base = 10;
	uint64_t value = 0;

	if (read_float_bits(parser) || read_decimal_float(parser))
		return;
	if (peek(parser, 0) == '0') {
		char mark = (char)(peek(parser, 1) | 0x20);

		base = mark == 'x' ? 16 : mark == 'b' ? 2 : 8;
		parser->at += base == 8 ? 0 : 2;
	}
	for (; digit_value(peek(parser, 0)) < (int)base; parser->at++) {
		unsigned digit = (unsigned)digit_value(peek(parser, 0));

		if (value > (UINT64_MAX - digit) / base)
			cn_ptx_fail(parser, CN_PTX_INVALID, "a number does not fit 64 bits");
		value = value * base + digit;
	}
	parser->token.is_unsigned = (peek(parser, 0) | 0x20) == 'u';
	parser->at += parser->token.is_unsigned;
	parser->token.kind = CN_PTX_T_NUMBER;
	parser->token.value = value;
}

static void read_string(struct cn_ptx_parser *parser)
{
	parser->at++;
	parser->token.text = parser->at;
	while (parser->at < parser->end && *parser->at != '"' && *parser->at != '\n')
		parser->at += *parser->at == '\\' && parser->end - parser->at > 1 ? 2 : 1;
	if (parser->at >= parser->end || *parser->at != '"')
		cn_ptx_fail(parser, CN_PTX_INVALID, "a string does not end");
	parser->token.kind = CN_PTX_T_STRING;
	parser->token.length = (uint32_t)(parser->at - parser->token.text);
	parser->at++;
}

static void read_word(struct cn_ptx_parser *parser, bool after_dot)
{
	const char *start = parser->at;

	while (parser->at < parser->end &&
	       (cn_ptx_is_name_char(*parser->at) ||
		(after_dot && parser->at[0] == ':' && peek(parser, 1) == ':' && (parser->at += 1))))
		parser->at++;
	if (parser->at - start > CN_PTX_NAME_CHARS_MAX)
		cn_ptx_fail(parser, CN_PTX_INVALID, "a name of more than %d characters", CN_PTX_NAME_CHARS_MAX);
	parser->token.kind = after_dot ? CN_PTX_T_DOT : CN_PTX_T_WORD;
	parser->token.text = start;
	parser->token.length = (uint32_t)(parser->at - start);
}

static void read_sign(struct cn_ptx_parser *parser)
{
	static const char pairs[][3] = {"<<", ">>", "&&", "||", "==", "!=", "<=", ">="};

	parser->token.kind = CN_PTX_T_SIGN;
	parser->token.sign = (unsigned char)*parser->at;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (*parser->at == pairs[i][0] && peek(parser, 1) == pairs[i][1]) {
			parser->token.sign = CN_PTX_SIGN(pairs[i][0], pairs[i][1]);
			parser->token.length = 2;
			parser->at += 2;
			return;
		}
	parser->token.length = 1;
	parser->at++;
}

void cn_ptx_next(struct cn_ptx_parser *parser)
{
	char c;

	skip_space(parser);
	memset(&parser->token, 0, sizeof parser->token);
	parser->token.text = parser->at;
	parser->token_line = parser->line;
	if (parser->at == parser->end)
		return;
	c = *parser->at;
	if (is_name_start(c)) {
		read_word(parser, false);
	} else if (is_digit(c)) {
		read_number(parser);
		parser->token.length = (uint32_t)(parser->at - parser->token.text);
	} else if (c == '.' && cn_ptx_is_name_char(peek(parser, 1))) {
		parser->at++;
		read_word(parser, true);
	} else if (c == '"') {
		read_string(parser);
	} else {
		read_sign(parser);
	}
}

bool cn_ptx_is_sign(const struct cn_ptx_parser *parser, int sign)
{
	return parser->token.kind == CN_PTX_T_SIGN && parser->token.sign == sign;
}

static bool is_text(const struct cn_ptx_parser *parser, enum cn_ptx_token_kind kind, const char *text)
{
	return parser->token.kind == kind && parser->token.length == strlen(text) &&
	       !memcmp(parser->token.text, text, parser->token.length);
}

bool cn_ptx_is_dot(const struct cn_ptx_parser *parser, const char *text)
{
	return is_text(parser, CN_PTX_T_DOT, text);
}

bool cn_ptx_is_word(const struct cn_ptx_parser *parser, const char *text)
{
	return is_text(parser, CN_PTX_T_WORD, text);
}

bool cn_ptx_take_sign(struct cn_ptx_parser *parser, int sign)
{
	if (!cn_ptx_is_sign(parser, sign))
		return false;
	cn_ptx_next(parser);
	return true;
}

bool cn_ptx_take_dot(struct cn_ptx_parser *parser, const char *text)
{
	if (!cn_ptx_is_dot(parser, text))
		return false;
	cn_ptx_next(parser);
	return true;
}

int cn_ptx_shown(const struct cn_ptx_token *token)
{
	return token->length < 80 ? (int)token->length : 80;
}

void cn_ptx_expect(struct cn_ptx_parser *parser, int sign)
{
	if (!cn_ptx_take_sign(parser, sign))
		cn_ptx_fail(parser, CN_PTX_INVALID, "expected '%c' before '%.*s'", sign, cn_ptx_shown(&parser->token),
			    parser->token.text);
}

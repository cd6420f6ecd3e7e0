/* SPDX-License-Identifier: MIT */
/*
 * Random programs (see generate.h).
 *
 * Simple instructions come from templates. In a template a capital letter stands for an operand that is drawn:
 *
 *   R b32   D b64   H b16   F f32   G f64   P predicate   Q predicate, maybe inverted
 *   S R or a number   E D or a number   C f32 number   K f64 number   L 0 to 255   O another predicate than the last P
 *   T R or a number of 16 bits: of a larger one ptxas 13.0 takes the lower half, where it shifts 16 bits
 *
 * and <a/b/c> for one of the words in it. Statements that need more than one instruction have a function each, and say
 * by a level where they may stand: a barrier must be reached by all threads of the block, a shuffle by those of a warp.
 */
#include "generate.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 20, DEPTH_MAX = 3, REGISTERS = 8, WIDE_REGISTERS = 5, PREDICATES = 5 };
enum level { BLOCK, WARP, THREAD };

struct writer {
	uint64_t state;
	char *text;
	size_t length;
	unsigned labels, loop_depth;
	char result; /* the kind of the first operand of what was written; 0: nothing yet */
	unsigned result_number, last_predicate;
};

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static unsigned below(struct writer *writer, unsigned bound)
{
	return (unsigned)(mix(&writer->state) % bound);
}

static uint32_t edge_word(uint64_t *state)
{
	static const uint32_t edges[] = {
		0,          1,          2,          31,         32,         33,         0xff,       0x7fff,
		0x8000,     0xffff,     0x10000,    0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xfffffffe,
		0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fffffff, 0x00800000, 0x007fffff, 0x4b000000,
		0x4f000000, 0xcf000000, 0x5f000000, 0x33800000, 0x3fc00000, 0x3c003c00, 0x7c007e00, 0x04000001};
	uint64_t draw = mix(state);

	return draw % 3 ? (uint32_t)(draw >> 32) : edges[(draw >> 8) % (sizeof edges / sizeof *edges)];
}

static uint64_t edge_wide(uint64_t *state)
{
	static const uint64_t edges[] = {0,
					 1,
					 63,
					 64,
					 0x7fffffffffffffff,
					 0x8000000000000000,
					 0xffffffffffffffff,
					 0x3ff0000000000000,
					 0xbff0000000000000,
					 0x7ff0000000000000,
					 0x0010000000000000,
					 0x000fffffffffffff,
					 0x47efffffe0000000,
					 0x43e0000000000000};
	uint64_t draw = mix(state);

	return draw % 3 ? mix(state) : edges[(draw >> 8) % (sizeof edges / sizeof *edges)];
}

void generate_input(uint64_t seed, unsigned char *ret_input)
{
	uint64_t state = seed ^ 0x696e707574;

	for (size_t i = 0; i < GENERATE_ALL_IN_BYTES; i += 8) {
		uint64_t low = edge_word(&state), high = edge_word(&state), word = low | high << 32;

		if (i % 16)
			word = edge_wide(&state);
		memcpy(ret_input + i, &word, sizeof word);
	}
}

uint64_t generate_digest(const unsigned char *output, size_t bytes)
{
	uint64_t value = 0xcbf29ce484222325u;

	for (size_t i = 0; i < bytes; i++)
		value = (value ^ output[i]) * 0x100000001b3u;
	return value;
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void put(struct writer *writer, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(writer->text + writer->length, TEXT_BYTES_MAX - writer->length, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= TEXT_BYTES_MAX - writer->length)
		abort(); /* the sizes below leave room for ten times as much */
	writer->length += (size_t)length;
}

static void put_register(struct writer *writer, char kind)
{
	static const char letters[] = "RDHFG", names[] = "rdhfg";
	unsigned number = below(writer, kind == 'R' ? REGISTERS : WIDE_REGISTERS);

	if (!writer->result) {
		writer->result = kind;
		writer->result_number = number;
	}
	put(writer, "%%%c%u", names[strchr(letters, kind) - letters], number);
}

static void put_predicate(struct writer *writer, char kind)
{
	unsigned number = below(writer, PREDICATES);

	if (kind == 'O')
		number = (writer->last_predicate + 1 + below(writer, PREDICATES - 1)) % PREDICATES;
	if (!writer->result)
		writer->result = 'P';
	writer->last_predicate = number;
	put(writer, "%s%%p%u", kind == 'Q' && below(writer, 2) ? "!" : "", number);
}

static void put_operand(struct writer *writer, char kind)
{
	switch (kind) {
	case 'S':
	case 'T':
		if (below(writer, 3))
			put_register(writer, 'R');
		else if (kind == 'S')
			put(writer, "%d", (int32_t)edge_word(&writer->state));
		else
			put(writer, "%u", edge_word(&writer->state) & 0xffff);
		break;
	case 'E':
		if (below(writer, 3))
			put_register(writer, 'D');
		else
			put(writer, "0x%llx", (unsigned long long)edge_wide(&writer->state));
		break;
	case 'C': put(writer, "0f%08X", edge_word(&writer->state)); break;
	case 'K': put(writer, "0d%016llX", (unsigned long long)edge_wide(&writer->state)); break;
	case 'L': put(writer, "%u", below(writer, 256)); break;
	case 'P':
	case 'Q':
	case 'O': put_predicate(writer, kind); break;
	default: put_register(writer, kind);
	}
}

/* <a/b/c>: returns what is behind it. */
static const char *put_choice(struct writer *writer, const char *at)
{
	const char *end = strchr(at, '>');
	unsigned count = 1, chosen;

	for (const char *c = at; c < end; c++)
		count += *c == '/';
	chosen = below(writer, count);
	for (at++; chosen; at++)
		chosen -= *at == '/';
	put(writer, "%.*s", (int)strcspn(at, "/>"), at);
	return end + 1;
}

/* A NaN has one form from here on. */
static void put_canonical(struct writer *writer)
{
	if (writer->result == 'F')
		put(writer, "setp.nan.f32 %%q0, %%f%u, %%f%u; @%%q0 mov.b32 %%f%u, 0x7fffffff;\n",
		    writer->result_number, writer->result_number, writer->result_number);
	if (writer->result == 'G')
		put(writer, "setp.nan.f64 %%q0, %%g%u, %%g%u; @%%q0 mov.b64 %%g%u, 0x7ff8000000000000;\n",
		    writer->result_number, writer->result_number, writer->result_number);
}

static void put_template(struct writer *writer, const char *template)
{
	bool in_operands = false, is_single = !strchr(template, ';');

	writer->result = 0;
	if (is_single && !below(writer, 4)) {
		unsigned predicate = below(writer, PREDICATES);
		bool inverted = below(writer, 2);

		/* ptxas 13.0 forgets the guard of testp. */
		if (strncmp(template, "testp", 5) != 0)
			put(writer, "@%s%%p%u ", inverted ? "!" : "", predicate);
	}
	while (*template) {
		if (*template == '<') {
			template = put_choice(writer, template);
			continue;
		}
		in_operands |= *template == ' ';
		if (*template == ';')
			in_operands = template[1] == 0;
		if (in_operands && *template >= 'A' && *template <= 'Z')
			put_operand(writer, *template);
		else
			put(writer, "%c", *template);
		template ++;
		if (template[-1] == ';' && *template == ' ')
			put(writer, "%c", *template ++);
	}
	put(writer, ";\n");
	put_canonical(writer);
}

/* ---- Instructions ------------------------------------------------------------------------------------------------ */

static const char *const templates[] = {
	"<add/sub>.<u32/s32> R, R, S",
	"mul.<lo/hi>.<u32/s32> R, R, S",
	"mad.<lo/hi>.<u32/s32> R, R, S, R",
	"mad.hi.sat.s32 R, R, R, R",
	"<add/sub>.sat.s32 R, R, S",
	"<and/or/xor>.b32 R, R, S",
	"<not/cnot>.b32 R, R",
	"<shl.b32/shr.u32/shr.s32> R, R, S",
	"<min/max>.<u32/s32> R, R, S",
	"<abs/neg>.s32 R, R",
	"<div/rem>.<u32/s32> R, R, R",
	"<popc/clz/brev>.b32 R, R",
	"bfind<.u32/.s32/.shiftamt.u32/.shiftamt.s32> R, R",
	"bfe.<u32/s32> R, R, R, L",
	"bfi.b32 R, R, R, L, R",
	"prmt.b32</.f4e/.b4e/.rc8/.ecl/.ecr/.rc16> R, R, R, R",
	"lop3.b32 R, R, R, R, L",
	"shf.<l/r>.<wrap/clamp>.b32 R, R, R, S",
	"sad.<u32/s32> R, R, R, R",
	"dp4a.<u32/s32>.<u32/s32> R, R, R, R",
	"dp2a.<lo/hi>.<u32/s32>.<u32/s32> R, R, R, R",
	"mul24.<lo/hi>.<u32/s32> R, R, R",
	"mad24.lo.<u32/s32> R, R, R, R",
	"szext.<clamp/wrap>.<u32/s32> R, R, S",
	"bmsk.<clamp/wrap>.b32 R, R, S",
	"selp.b32 R, R, S, P",
	"slct.b32.s32 R, R, R, R",
	"set.<eq/ne/lt/le/gt/ge>.u32.<u32/s32> R, R, S",
	"set.<lt/ge/neu>.<and/or/xor>.u32.f32 R, F, F, Q",
	"<min/max>.<u16x2/s16x2> R, R, R",
	"mul.wide.<u32/s32> D, R, S",
	"mad.wide.<u32/s32> D, R, R, D",
	"add.cc.u32 R, R, S; addc.u32 R, R, R",
	"sub.cc.u32 R, R, R; subc.cc.u32 R, R, S; addc.u32 R, R, 0",
	"mad.lo.cc.u32 R, R, R, R; madc.hi.u32 R, R, R, R",
	"add.cc.u64 D, D, D; addc.u64 D, D, D",
	"sub.cc.u64 D, D, D; subc.u64 D, D, D",
	"<add/sub>.<u64/s64> D, D, E",
	"mul.<lo/hi>.<u64/s64> D, D, E",
	"mad.lo.u64 D, D, D, D",
	"<and/or/xor>.b64 D, D, E",
	"<not/cnot>.b64 D, D",
	"<shl.b64/shr.u64/shr.s64> D, D, S",
	"<min/max>.<u64/s64> D, D, E",
	"<abs/neg>.s64 D, D",
	"<div/rem>.<u64/s64> D, D, D",
	"<popc/clz>.b64 R, D",
	"brev.b64 D, D",
	"bfind.<u64/s64> R, D",
	"bfe.<u64/s64> D, D, L, R",
	"bfi.b64 D, D, D, R, L",
	"selp.b64 D, D, E, P",
	"<add/sub>.<u16/s16> H, H, H",
	"mul.<lo/hi>.<u16/s16> H, H, H",
	"mad.lo.u16 H, H, H, H",
	"mul.wide.<u16/s16> R, H, H",
	"<shl.b16/shr.u16/shr.s16> H, H, T",
	"<min/max/div/rem>.<u16/s16> H, H, H",
	"<and/or/xor>.b16 H, H, H",
	"<not/cnot>.b16 H, H",
	"<add/sub/mul>.<rn/rz/rm/rp></.ftz></.sat>.f32 F, F, F",
	"<add/mul>.<rn/rz>.f32 F, F, C",
	"fma.<rn/rz/rm/rp></.ftz></.sat>.f32 F, F, F, F",
	"div.<rn/rz/rm/rp></.ftz>.f32 F, F, F",
	"<sqrt/rcp>.<rn/rz/rm/rp></.ftz>.f32 F, F",
	"<min/max></.ftz></.NaN>.f32 F, F, F",
	"<abs/neg></.ftz>.f32 F, F",
	"copysign.f32 F, F, F",
	"selp.f32 F, F, C, P",
	"slct.f32.f32 F, F, F, F",
	"<add/sub/mul/div>.<rn/rz/rm/rp>.f64 G, G, G",
	"add.<rn/rz>.f64 G, G, K",
	"fma.<rn/rz/rm/rp>.f64 G, G, G, G",
	"<sqrt/rcp>.<rn/rz/rm/rp>.f64 G, G",
	"<min/max>.f64 G, G, G",
	"<abs/neg>.f64 G, G",
	"copysign.f64 G, G, G",
	"<add/sub/mul>.rn</.ftz></.sat>.f16 H, H, H",
	"<add/sub/mul>.rn</.sat>.f16x2 R, R, R",
	"fma.rn</.ftz/.sat/.relu>.f16 H, H, H, H",
	"fma.rn</.relu>.bf16x2 R, R, R, R",
	"<add/sub/mul>.rn.bf16 H, H, H",
	"<min/max></.NaN>.<f16/bf16> H, H, H",
	"<min/max></.NaN>.<f16x2/bf16x2> R, R, R",
	"cvt.<rni/rzi/rmi/rpi></.ftz>.<u32/s32>.f32 R, F",
	"cvt.<rni/rzi/rmi/rpi>.<u64/s64>.f32 D, F",
	"cvt.<rni/rzi/rmi/rpi>.<u32/s32>.f64 R, G",
	"cvt.<rni/rzi/rmi/rpi>.<u64/s64>.f64 D, G",
	"cvt.<rni/rzi>.<u16/s16>.f32 H, F",
	"cvt.<rn/rz/rm/rp>.f32.<u32/s32> F, R",
	"cvt.<rn/rz/rm/rp>.f32.<u64/s64> F, D",
	"cvt.<rn/rz/rm/rp>.f64.<u64/s64> G, D",
	"cvt.rn.f64.<u32/s32> G, R",
	"cvt.<rn/rz/rm/rp></.ftz></.sat>.f32.f64 F, G",
	"cvt</.ftz></.sat>.f64.f32 G, F",
	"cvt.<rni/rzi/rmi/rpi></.ftz></.sat>.f32.f32 F, F",
	"cvt.<rni/rzi/rmi/rpi>.f64.f64 G, G",
	"cvt.<rn/rz>.<f16/bf16>.f32 H, F",
	"cvt.rn.f16x2.f32 R, F, F",
	"cvt.f32.<f16/bf16> F, H",
	"cvt.<u32.u8/s32.s8/u32.u16/s32.s16> R, R",
	"cvt.<u16.u32/s16.s32/u16.s32> H, R",
	"cvt.<s64.s32/u64.u32/s64.s8> D, R",
	"cvt.<u32.u64/s32.s64/u32.s64> R, D",
	"cvt.sat.<u8.s32/s8.s32/u8.u32/u16.s32/s16.u32> R, R",
	"cvt.sat.<s32.s64/u32.s64/u32.u64/s32.u64> R, D",
	"cvt.<u32.u16/s32.s16> R, H",
	"mov.b64 D, {R, R}",
	"mov.b64 {R, _}, D",
	"mov.b64 {_, R}, D",
	"mov.b32 R, {H, H}",
	"mov.b32 {H, _}, R",
	"mov.b32 {_, H}, R",
	"mov.b64 D, {H, H, H, H}",
	"mov.b32 R, F",
	"mov.b32 F, R",
	"mov.b64 D, G",
	"mov.b64 G, D",
	"mov.b32 R, S",
	"setp.<eq/ne/lt/le/gt/ge>.<u32/s32> P, R, S",
	"setp.<lo/ls/hi/hs>.u32 P, R, R",
	"setp.<eq/ne/lt/le/gt/ge>.<u64/s64> P, D, E",
	"setp.<lt/ge/eq>.<u16/s16> P, H, H",
	"setp.<eq/ne/lt/ge/equ/neu/ltu/leu/gtu/geu/num/nan></.ftz>.f32 P, F, F",
	"setp.<eq/ne/lt/ge/equ/neu/ltu/leu/gtu/geu/num/nan>.f64 P, G, G",
	"setp.<lt/ge/neu>.f16 P, H, H",
	"setp.<lt/eq/gt>.<and/or/xor>.<u32/s32> P|O, R, S, Q",
	"setp.<lt/geu>.<and/or/xor>.f32 P|O, F, F, Q",
	"<and/or/xor>.pred P, P, P",
	"not.pred P, P",
	"testp.<finite/infinite/number/notanumber/normal/subnormal>.f32 P, F",
	"testp.<finite/infinite/number/notanumber/normal/subnormal>.f64 P, G",
};

static void simple(struct writer *writer)
{
	put_template(writer, templates[below(writer, sizeof templates / sizeof *templates)]);
}

/* ---- Statements of a thread -------------------------------------------------------------------------------------- */

static void statements(struct writer *writer, unsigned count, unsigned depth, enum level level);

static void branch(struct writer *writer, unsigned depth, enum level level)
{
	unsigned label = writer->labels++;
	bool has_else = below(writer, 2);

	/* By warps, the threads of one stay together. */
	if (level != THREAD && below(writer, 2))
		put(writer, "and.b32 %%t0, %%wp, %u; setp.eq.u32 %%q1, %%t0, 0; @%%q1 bra L%u;\n", 1 + below(writer, 2),
		    label);
	else {
		unsigned predicate = below(writer, PREDICATES);

		put(writer, "@%s%%p%u bra L%u;\n", below(writer, 2) ? "!" : "", predicate, label);
		level = THREAD;
	}
	if (level == BLOCK)
		level = WARP;
	statements(writer, 1 + below(writer, 5), depth + 1, level);
	if (has_else)
		put(writer, "bra M%u;\n", label);
	put(writer, "L%u:\n", label);
	if (has_else) {
		statements(writer, 1 + below(writer, 5), depth + 1, level);
		put(writer, "M%u:\n", label);
	}
}

/* Up to seven times, as often as a register says; or, where threads must stay together, a fixed number of times. */
static void loop(struct writer *writer, unsigned depth, enum level level)
{
	unsigned label = writer->labels++, counter = writer->loop_depth++;

	if (level == THREAD || below(writer, 2)) {
		put(writer, "and.b32 %%l%u, %%r%u, 7;\n", counter, below(writer, REGISTERS));
		level = THREAD;
	} else {
		put(writer, "mov.u32 %%l%u, %u;\n", counter, 1 + below(writer, 3));
	}
	put(writer, "L%u: setp.eq.u32 %%q1, %%l%u, 0; @%%q1 bra M%u;\n", label, counter, label);
	statements(writer, 1 + below(writer, 4), depth + 1, level);
	if (!below(writer, 3) && level == THREAD)
		put(writer, "@%%p%u bra M%u;\n", below(writer, PREDICATES), label);
	put(writer, "sub.u32 %%l%u, %%l%u, 1; bra L%u;\nM%u:\n", counter, counter, label, label);
	writer->loop_depth--;
}

static void table(struct writer *writer, unsigned depth)
{
	unsigned label = writer->labels++;

	put(writer, "and.b32 %%t0, %%r%u, 3;\nT%u: .branchtargets A%u, B%u, C%u, D%u;\nbrx.idx %%t0, T%u;\n",
	    below(writer, REGISTERS), label, label, label, label, label, label);
	for (int c = 'A'; c <= 'D'; c++) {
		put(writer, "%c%u:\n", c, label);
		statements(writer, 1 + below(writer, 2), depth + 1, THREAD);
		if (c != 'D' && below(writer, 4))
			put(writer, "bra M%u;\n", label);
	}
	put(writer, "M%u:\n", label);
}

/* An index from 0 to 15 in %t1, as bytes. */
static void put_index(struct writer *writer)
{
	put(writer, "and.b32 %%t0, %%r%u, 15; shl.b32 %%t1, %%t0, 2; cvt.u64.u32 %%x0, %%t1;\n",
	    below(writer, REGISTERS));
}

static void memory(struct writer *writer)
{
	static const char *const loads[] = {"u8", "s8", "u16", "s16", "u32", "b32", "b8", "b16"};
	unsigned a = below(writer, REGISTERS), b = below(writer, REGISTERS), c = (b + 1) % REGISTERS;
	unsigned offset;

	put_index(writer);
	switch (below(writer, 6)) {
	case 0: put(writer, "mov.u64 %%x1, table; add.u64 %%x1, %%x1, %%x0; ld.const.b32 %%r%u, [%%x1];\n", a); break;
	case 1:
		put(writer,
		    "mov.u64 %%x1, loc; add.u64 %%x1, %%x1, %%x0; st.local.b32 [%%x1], %%r%u; ld.local.%s %%r%u, "
		    "[%%x1+%u];\n",
		    a, loads[below(writer, 8)], b, 0);
		break;
	case 2:
		put(writer,
		    "st.local.v2.b32 [loc+%u], {%%r%u, %%r%u}; ld.local.v4.u32 {%%r%u, %%r%u, %%t3, %%t2}, [loc];\n",
		    8 * below(writer, 8), a, b, b, c);
		break;
	case 3:
		put(writer,
		    "st.global.v4.b32 [%%out+192], {%%r%u, %%r%u, %%r%u, %%t1}; ld.global.v2.u64 {%%d%u, %%x1}, "
		    "[%%out+192]; xor.b64 %%d%u, %%d%u, %%x1;\n",
		    a, b, c, a % WIDE_REGISTERS, a % WIDE_REGISTERS, a % WIDE_REGISTERS);
		break;
	case 4:
		offset = below(writer, GENERATE_STRUCT_BYTES);
		put(writer, "ld.param.%s %%r%u, [stru+%u]; ld.param.u64 %%x1, [stru+8]; add.u64 %%d%u, %%d%u, %%x1;\n",
		    loads[below(writer, 2)], a, offset, a % WIDE_REGISTERS, a % WIDE_REGISTERS);
		break;
	default:
		put(writer,
		    "mov.u64 %%x1, loc; cvta.local.u64 %%x1, %%x1; add.u64 %%x1, %%x1, %%x0; st.b32 [%%x1], %%r%u; "
		    "ld.volatile.s16 %%d%u, [%%x1];\n",
		    a, b % WIDE_REGISTERS);
	}
}

/* Counters of the block: the result does not depend on the order of the threads. */
static void count(struct writer *writer)
{
	static const char *const operations[] = {"add.u32", "and.b32", "or.b32",  "xor.b32",
						 "min.s32", "max.u32", "min.u32", "max.s32"};
	unsigned which = below(writer, 8);

	put(writer, "red.shared.%s [cnt+%u], %%r%u;\n", operations[which], 4 * which, below(writer, REGISTERS));
}

/* A word of the thread's own. */
static void atomic(struct writer *writer)
{
	static const char *const operations[] = {"add.u32", "exch.b32", "inc.u32", "dec.u32",
						 "min.s32", "xor.b32",  "max.u32", "and.b32"};
	unsigned a = below(writer, REGISTERS), b = below(writer, REGISTERS), how = below(writer, 4), c;

	switch (how) {
	case 0:
		c = below(writer, REGISTERS);
		put(writer, "st.global.b32 [%%out+208], %%r%u; atom.global.%s %%r%u, [%%out+208], %%r%u;\n", a,
		    operations[below(writer, 8)], b, c);
		break;
	case 1:
		c = below(writer, REGISTERS);
		put(writer,
		    "st.shared.b32 [%%ow], %%r%u; atom.shared.%s %%r%u, [%%ow], %%r%u; ld.shared.b32 %%r%u, "
		    "[%%ow];\n",
		    a, operations[below(writer, 8)], b, c, a);
		break;
	case 2:
		put(writer, "atom.shared.cas.b32 %%r%u, [%%ow], %%r%u, %%r%u;\n", a, b, below(writer, REGISTERS));
		break;
	default:
		put(writer,
		    "st.global.b64 [%%out+216], %%d%u; atom.global.%s %%x1, [%%out+216], %%d%u; ld.global.b64 %%d%u, "
		    "[%%out+216];\n",
		    a % WIDE_REGISTERS, below(writer, 2) ? "add.u64" : "max.s64", b % WIDE_REGISTERS,
		    a % WIDE_REGISTERS);
	}
}

static void call(struct writer *writer)
{
	unsigned a = below(writer, REGISTERS), b = below(writer, REGISTERS);

	if (below(writer, 2))
		put(writer,
		    "{ .param .b32 x; .param .b32 y; .param .b32 z; st.param.b32 [x], %%r%u; st.param.b32 [y], %%r%u; "
		    "call (z), f0, (x, y); ld.param.b32 %%r%u, [z]; }\n",
		    a, b, a);
	else
		put(writer,
		    "{ .param .align 8 .b8 s[16]; .param .b64 z; st.param.b32 [s], %%r%u; st.param.b32 [s+4], %%r%u; "
		    "st.param.b64 [s+8], %%d%u; call (z), f1, (s); ld.param.b64 %%d%u, [z]; }\n",
		    a, b, a % WIDE_REGISTERS, b % WIDE_REGISTERS);
}

/* ---- Statements of a warp or block ------------------------------------------------------------------------------- */

static void together(struct writer *writer)
{
	static const char *const shuffles[] = {"up", "down", "bfly", "idx"};
	static const char *const reductions[] = {"add.u32", "add.s32", "min.u32", "max.s32",
						 "and.b32", "or.b32",  "xor.b32"};
	unsigned a = below(writer, REGISTERS), b = below(writer, REGISTERS), label = writer->labels++;
	unsigned p = below(writer, PREDICATES), q = below(writer, PREDICATES), width, by;

	switch (below(writer, 6)) {
	case 0:
		width = 0x1f;
		if (!below(writer, 2)) {
			width = below(writer, 32);
			width |= below(writer, 32) << 8;
		}
		by = below(writer, REGISTERS);
		put(writer, "shfl.sync.%s.b32 %%r%u|%%p%u, %%r%u, %%r%u, 0x%x, 0xffffffff;\n",
		    shuffles[below(writer, 4)], a, p, b, by, width);
		break;
	case 1: put(writer, "vote.sync.ballot.b32 %%r%u, %%p%u, 0xffffffff;\n", a, p); break;
	case 2:
		put(writer, "vote.sync.%s.pred %%p%u, %%p%u, 0xffffffff;\n",
		    below(writer, 3) ? below(writer, 2) ? "all" : "any" : "uni", p, q);
		break;
	case 3:
		put(writer, "and.b32 %%t0, %%r%u, %u; match.any.sync.b32 %%r%u, %%t0, 0xffffffff;\n", b,
		    below(writer, 8), a);
		break;
	case 4: put(writer, "redux.sync.%s %%r%u, %%r%u, 0xffffffff;\n", reductions[below(writer, 7)], a, b); break;
	default: /* each half of the warp for itself, in a branch of its own */
		by = below(writer, 16);
		put(writer,
		    "setp.lt.u32 %%q1, %%ln, 16; @%%q1 bra L%u; shfl.sync.%s.b32 %%r%u, %%r%u, %u, 0x1f, 0xffff0000; "
		    "bra "
		    "M%u;\nL%u: vote.sync.ballot.b32 %%r%u, %%p%u, 0xffff; redux.sync.add.u32 %%r%u, %%r%u, 0xffff;\n"
		    "M%u: "
		    "bar.warp.sync 0xffffffff;\n",
		    label, shuffles[below(writer, 2)], a, b, by, label, label, a, p, b, a, label);
	}
}

static void exchange(struct writer *writer)
{
	unsigned a = below(writer, REGISTERS), b = below(writer, REGISTERS), how = below(writer, 3), p;
	bool inverted;

	switch (how) {
	case 0:
		put(writer,
		    "barrier.sync 0; st.shared.b32 [%%ow], %%r%u; barrier.sync 0; add.u32 %%t0, %%ti, %u; rem.u32 "
		    "%%t0, %%t0, %u; shl.b32 "
		    "%%t0, %%t0, 2; mov.u32 %%t1, sh; add.u32 %%t0, %%t0, %%t1; ld.shared.b32 %%r%u, [%%t0]; "
		    "barrier.sync 0;\n",
		    a, below(writer, GENERATE_THREADS), GENERATE_THREADS, b);
		break;
	case 1:
		put(writer, "barrier.sync 1; barrier.red.popc.u32 %%r%u, 2, %%p%u;\n", a, below(writer, PREDICATES));
		break;
	default:
		p = below(writer, PREDICATES);
		inverted = below(writer, 2);
		a = below(writer, PREDICATES);
		put(writer, "barrier.red.%s.pred %%p%u, 3, %s%%p%u;\n", below(writer, 2) ? "and" : "or", a,
		    inverted ? "!" : "", p);
	}
}

static void statement(struct writer *writer, unsigned depth, enum level level)
{
	unsigned draw = below(writer, 100);

	if (draw < 8 && depth < DEPTH_MAX)
		branch(writer, depth, level);
	else if (draw < 12 && depth < DEPTH_MAX)
		loop(writer, depth, level);
	else if (draw < 14 && depth < DEPTH_MAX)
		table(writer, depth);
	else if (draw < 19)
		memory(writer);
	else if (draw < 22)
		count(writer);
	else if (draw < 25)
		atomic(writer);
	else if (draw < 28)
		call(writer);
	else if (draw < 36 && level != THREAD)
		together(writer);
	else if (draw < 42 && level == BLOCK)
		exchange(writer);
	else
		simple(writer);
}

static void statements(struct writer *writer, unsigned count, unsigned depth, enum level level)
{
	for (unsigned i = 0; i < count; i++)
		statement(writer, depth, level);
}

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

static void put_functions(struct writer *writer)
{
	static const char *const operations[] = {"add.u32", "xor.b32", "mul.lo.u32", "sub.u32", "max.s32", "and.b32"};
	const char *last;

	put(writer, ".version 8.0\n.target sm_90\n.address_size 64\n.const .align 4 .b32 table[16] = {");
	for (unsigned i = 0; i < 16; i++)
		put(writer, "%s0x%x", i ? ", " : "", edge_word(&writer->state));
	put(writer, "};\n.func (.param .b32 r) f0(.param .b32 x, .param .b32 y)\n{ .reg .b32 %%a<4>; .reg .pred %%b; "
		    "ld.param.b32 %%a0, [x]; ld.param.b32 %%a1, [y];\nsetp.lt.s32 %%b, %%a0, %%a1; @%%b bra E;\n");
	for (unsigned i = 0; i < 4; i++) {
		unsigned b = below(writer, 2), a = below(writer, 2);

		put(writer, "%s %%a0, %%a%u, %%a%u;\n", operations[below(writer, 6)], a, b);
	}
	last = operations[below(writer, 6)];
	/* It calls itself, four times at most: y loses eight bits or more each time. */
	put(writer,
	    "setp.eq.u32 %%b, %%a1, 0; @%%b bra E; shr.u32 %%a1, %%a1, %u;\n{ .param .b32 p; .param .b32 q; .param "
	    ".b32 "
	    "s; st.param.b32 [p], %%a0; st.param.b32 [q], %%a1; call (s), f0, (p, q); ld.param.b32 %%a2, [s]; }\n"
	    "xor.b32 "
	    "%%a0, %%a0, %%a2;\nE: %s %%a0, %%a0, %%a1; st.param.b32 [r], %%a0; ret; }\n",
	    8 + below(writer, 8), last);
	put(writer,
	    ".func (.param .b64 r) f1(.param .align 8 .b8 s[16])\n{ .reg .b32 %%a<3>; .reg .b64 %%c<3>; ld.param.b32 "
	    "%%a0, "
	    "[s]; ld.param.b32 %%a1, [s+4]; ld.param.b64 %%c0, [s+8];\n%s %%a2, %%a0, %%a1; cvt.s64.s32 %%c1, %%a2; "
	    "add.s64 %%c2, %%c0, %%c1; st.param.b64 [r], %%c2; ret; }\n",
	    operations[below(writer, 6)]);
}

static void put_start(struct writer *writer)
{
	put(writer,
	    ".visible .entry k(.param .u64 in, .param .u64 out, .param .align 8 .b8 stru[%d], .param .u32 number)\n{\n"
	    ".reg .b32 %%r<%d>; .reg .b32 %%t<4>; .reg .b32 %%l<%d>; .reg .b32 %%ti; .reg .b32 %%wp; .reg .b32 %%ln; "
	    ".reg "
	    ".b32 %%ow;\n.reg .b64 %%d<%d>; .reg .b64 %%x<3>; .reg .b64 %%in; .reg .b64 %%out; .reg .b16 %%h<%d>; "
	    ".reg .f32 "
	    "%%f<%d>; .reg .f64 %%g<%d>;\n.reg .pred %%p<%d>; .reg .pred %%q<2>;\n.shared .align 16 .b32 sh[%d]; "
	    ".shared .align "
	    "16 .b32 cnt[16]; .local .align 16 .b8 loc[80];\n",
	    GENERATE_STRUCT_BYTES, REGISTERS, DEPTH_MAX + 1, WIDE_REGISTERS, WIDE_REGISTERS, WIDE_REGISTERS,
	    WIDE_REGISTERS, PREDICATES, GENERATE_THREADS);
	put(writer,
	    "mov.u32 %%ti, %%tid.x; mov.u32 %%ln, %%laneid; shr.u32 %%wp, %%ti, 5; mov.u32 %%t0, %%ctaid.x; mov.u32 "
	    "%%t1, "
	    "%%ntid.x; mad.lo.u32 %%t2, %%t0, %%t1, %%ti;\nld.param.u64 %%in, [in]; mul.wide.u32 %%x0, %%t2, %d; "
	    "add.u64 %%in, "
	    "%%in, %%x0; ld.param.u64 %%out, [out]; mul.wide.u32 %%x0, %%t2, %d; add.u64 %%out, %%out, %%x0;\n"
	    "mov.u32 %%ow, sh; shl.b32 %%t1, %%ti, 2; add.u32 %%ow, %%ow, %%t1; st.shared.b32 [%%ow], %%t2;\n"
	    "setp.lt.u32 %%q0, %%ti, 16; mov.u32 %%t0, cnt; add.u32 %%t0, %%t0, %%t1; @%%q0 st.shared.b32 [%%t0], "
	    "77; bar.sync "
	    "0;\n",
	    GENERATE_IN_BYTES, GENERATE_OUT_BYTES);
	for (unsigned i = 0; i < 5; i++)
		put(writer, "st.local.v4.b32 [loc+%u], {%u, %u, %u, %u};\n", 16 * i, i, 3 * i, 5, 7);
	for (unsigned i = 0; i < REGISTERS; i++)
		put(writer, "ld.global.b32 %%r%u, [%%in+%u];\n", i, 4 * (i * 5 % 16));
	for (unsigned i = 0; i < WIDE_REGISTERS; i++)
		put(writer, "ld.global.b64 %%d%u, [%%in+%u]; ld.global.b16 %%h%u, [%%in+%u]; mov.b32 %%f%u, %%r%u;\n",
		    i, 8 * i, i, 6 * i + 2, i, i);
	for (unsigned i = 0; i < WIDE_REGISTERS; i++) {
		put(writer, "ld.global.b64 %%g%u, [%%in+%u];\n", i, 8 * (7 - i));
		writer->result_number = i;
		writer->result = 'F';
		put_canonical(writer);
		writer->result = 'G';
		put_canonical(writer);
	}
	for (unsigned i = 0; i < PREDICATES; i++)
		put(writer, "setp.lt.s32 %%p%u, %%r%u, %%r%u;\n", i, i, i + 2);
}

static void put_end(struct writer *writer)
{
	for (unsigned i = 0; i < REGISTERS; i++)
		put(writer, "st.global.b32 [%%out+%u], %%r%u;\n", 4 * i, i);
	for (unsigned i = 0; i < WIDE_REGISTERS; i++)
		put(writer,
		    "st.global.b64 [%%out+%u], %%d%u; st.global.f64 [%%out+%u], %%g%u; st.global.f32 [%%out+%u], "
		    "%%f%u; "
		    "st.global.b16 [%%out+%u], %%h%u;\n",
		    32 + 8 * i, i, 72 + 8 * i, i, 112 + 4 * i, i, 132 + 2 * i, i);
	put(writer, "mov.u32 %%t1, 0;\n");
	for (unsigned i = 0; i < PREDICATES; i++)
		put(writer, "selp.u32 %%t0, %u, 0, %%p%u; or.b32 %%t1, %%t1, %%t0;\n", 1u << i, i);
	/* The counters, when all threads are through. */
	put(writer,
	    "st.global.b32 [%%out+144], %%t1; barrier.sync 0; and.b32 %%t0, %%ti, 7; shl.b32 %%t0, %%t0, 2; mov.u32 "
	    "%%t1, cnt; "
	    "add.u32 %%t0, %%t0, %%t1; ld.shared.b32 %%t2, [%%t0]; st.global.b32 [%%out+148], %%t2;\n"
	    "ld.local.v4.b32 {%%t0, %%t1, %%t2, %%t3}, [loc+32]; st.global.v4.b32 [%%out+160], {%%t0, %%t1, %%t2, "
	    "%%t3}; "
	    "ld.param.u32 %%t0, [number]; st.global.u32 [%%out+176], %%t0;\nret;\n}\n");
}

char *generate_text(uint64_t seed)
{
	struct writer writer = {.state = seed * 0x2545f4914f6cdd1du + 1, .text = malloc(TEXT_BYTES_MAX)};

	if (!writer.text)
		abort();
	writer.text[0] = 0;
	put_functions(&writer);
	put_start(&writer);
	statements(&writer, 60 + below(&writer, 60), 0, BLOCK);
	put_end(&writer);
	return writer.text;
}

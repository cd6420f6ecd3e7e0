/* SPDX-License-Identifier: MIT */
/*
 * Fast arithmetic over arrays (see ptx_kernels.h), in a form that compilers turn into vector instructions.
 *
 * Compiled several times, with CN_PTX_BUILD as the name of the build. NaN results of f32 are PTX's canonical NaN; those
 * of f64 are one NaN, too, so that all builds agree.
 */
#include "ptx/ptx_kernels.h"
#include "ptx/ptx_bits.h"
#include "ptx/ptx_ir.h"

#include <math.h>
#include <string.h>

typedef uint8_t p;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;
typedef __int128 s128;
typedef unsigned __int128 u128;

/* Types are arguments of these macros, and cannot stand in parentheses. NOLINTBEGIN(bugprone-macro-parentheses) */

/* Lanes do not depend on each other, also where d is a source. */
#ifdef __clang__
#define EACH_LANE _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; i < count; i++)
#else
#define EACH_LANE _Pragma("GCC ivdep") for (size_t i = 0; i < count; i++)
#endif

#define KERNEL(name) \
	static void k_##name(void *d_, const void *a_, const void *b_, const void *c_, size_t count, uint32_t detail)
#define UNUSED (void)a_, (void)b_, (void)c_, (void)detail

#define WIDTHS(name, d, a, b, c) enum { wd_##name = (d), wa_##name = (a), wb_##name = (b), wc_##name = (c) };

/* x, y and z are the lane's values. */
#define UNARY(name, R, A, expression)            \
	WIDTHS(name, sizeof(R), sizeof(A), 0, 0) \
	KERNEL(name)                             \
	{                                        \
		R *d = d_;                       \
		const A *a = a_;                 \
		UNUSED;                          \
		EACH_LANE                        \
		{                                \
			A x = a[i];              \
			d[i] = (R)(expression);  \
		}                                \
	}
#define BINARY(name, R, A, B, expression)                \
	WIDTHS(name, sizeof(R), sizeof(A), sizeof(B), 0) \
	KERNEL(name)                                     \
	{                                                \
		R *d = d_;                               \
		const A *a = a_;                         \
		const B *b = b_;                         \
		UNUSED;                                  \
		EACH_LANE                                \
		{                                        \
			A x = a[i];                      \
			B y = b[i];                      \
			d[i] = (R)(expression);          \
		}                                        \
	}
#define TERNARY(name, R, A, B, C, expression)                    \
	WIDTHS(name, sizeof(R), sizeof(A), sizeof(B), sizeof(C)) \
	KERNEL(name)                                             \
	{                                                        \
		R *d = d_;                                       \
		const A *a = a_;                                 \
		const B *b = b_;                                 \
		const C *c = c_;                                 \
		UNUSED;                                          \
		EACH_LANE                                        \
		{                                                \
			A x = a[i];                              \
			B y = b[i];                              \
			C z = c[i];                              \
			d[i] = (R)(expression);                  \
		}                                                \
	}

/* ---- Integers ---------------------------------------------------------------------------------------------------- */

UNARY(mov_p, p, p, x)
UNARY(mov_b16, u16, u16, x)
UNARY(mov_b32, u32, u32, x)
UNARY(mov_b64, u64, u64, x)
UNARY(not_p, p, p, x ^ 1)
BINARY(and_p, p, p, p, x &y)
BINARY(or_p, p, p, p, x | y)
BINARY(xor_p, p, p, p, x ^ y)

#define EACH_WIDTH(X) X(16, u16, s16, u32, s32) X(32, u32, s32, u64, s64) X(64, u64, s64, u128, s128)

#define INTEGERS(bits, U, S, WU, WS)                                                    \
	BINARY(add_b##bits, U, U, U, x + y)                                             \
	BINARY(sub_b##bits, U, U, U, x - y)                                             \
	BINARY(mul_b##bits, U, U, U, (u64)x *y)                                         \
	TERNARY(mad_b##bits, U, U, U, U, (u64)x *y + z)                                 \
	BINARY(and_b##bits, U, U, U, x &y)                                              \
	BINARY(or_b##bits, U, U, U, x | y)                                              \
	BINARY(xor_b##bits, U, U, U, x ^ y)                                             \
	UNARY(not_b##bits, U, U, ~x)                                                    \
	UNARY(neg_s##bits, U, U, 0 - x)                                                 \
	UNARY(abs_s##bits, U, U, (S)x < 0 ? 0 - x : x)                                  \
	BINARY(min_s##bits, S, S, S, x < y ? x : y)                                     \
	BINARY(max_s##bits, S, S, S, x > y ? x : y)                                     \
	BINARY(min_u##bits, U, U, U, x < y ? x : y)                                     \
	BINARY(max_u##bits, U, U, U, x > y ? x : y)                                     \
	BINARY(mulhi_s##bits, S, S, S, (WS)x *y >> bits)                                \
	BINARY(mulhi_u##bits, U, U, U, (WU)x *y >> bits)                                \
	/* Division by zero gives all ones, as on the GPU. */                           \
	BINARY(div_u##bits, U, U, U, y ? x / y : (U) ~(U)0)                             \
	BINARY(rem_u##bits, U, U, U, y ? x % y : (U) ~(U)0)                             \
	BINARY(div_s##bits, S, S, S, y == 0 ? (S)-1 : y == -1 ? (S)(0 - (U)x) : x / y)  \
	BINARY(rem_s##bits, S, S, S, y == 0 ? -1 : y == -1 ? 0 : x % y)                 \
	BINARY(shl_b##bits, U, U, u32, y >= bits ? 0 : (U)((u64)x << (y & (bits - 1)))) \
	BINARY(shr_u##bits, U, U, u32, y >= bits ? 0 : x >> (y & (bits - 1)))           \
	BINARY(shr_s##bits, S, S, u32, x >> (y >= bits ? bits - 1 : y))                 \
	TERNARY(selp_b##bits, U, U, U, p, z ? x : y)
/* cppcheck-suppress shiftTooManyBitsSigned ; a signed number is shifted with its sign by all compilers of ours */
EACH_WIDTH(INTEGERS)

BINARY(mulwide_s16, s32, s16, s16, (s32)x *y)
BINARY(mulwide_u16, u32, u16, u16, (u32)x *y)
BINARY(mulwide_s32, s64, s32, s32, (s64)x *y)
BINARY(mulwide_u32, u64, u32, u32, (u64)x *y)
TERNARY(madwide_s16, u32, s16, s16, u32, (u32)((s32)x *y) + z)
TERNARY(madwide_u16, u32, u16, u16, u32, (u32)x *y + z)
TERNARY(madwide_s32, u64, s32, s32, u64, (u64)((s64)x *y) + z)
TERNARY(madwide_u32, u64, u32, u32, u64, (u64)x *y + z)

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

static inline u32 popcount(u32 x)
{
	x -= x >> 1 & 0x55555555;
	x = (x & 0x33333333) + (x >> 2 & 0x33333333);
	return ((x + (x >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

static inline u32 reverse(u32 x)
{
	x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
	x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
	x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
	return __builtin_bswap32(x);
}

static inline u32 lop3(u32 x, u32 y, u32 z, u32 table)
{
	u32 r = 0;

	for (unsigned k = 0; k < 8; k++)
		r |= (table >> k & 1 ? ~0u : 0) & (k & 4 ? x : ~x) & (k & 2 ? y : ~y) & (k & 1 ? z : ~z);
	return r;
}

/* detail 1: a shift of more than 31 is one of 32. */
static inline u32 amount(u32 z, u32 detail)
{
	return detail ? (z > 32 ? 32 : z) : (z & 31);
}

static inline u32 extract(u32 x, u32 y, u32 z, int is_signed)
{
	u32 position = y & 255, length = z & 255;
	u32 last = position + length - 1 > 31 ? 31 : position + length - 1;
	u32 sign = !is_signed || !length ? 0 : (x >> last & 1 ? ~0u : 0);
	u32 field = position > 31 ? 0 : x >> position;
	u32 mask = length > 31 ? ~0u : (1u << length) - 1;

	if (position <= 31 && position + length > 32)
		mask = ~0u >> position;
	return position > 31 ? (length ? sign : 0) : (field & mask) | (sign & ~mask);
}

static inline u32 permute(u32 x, u32 y, u32 z)
{
	u64 bytes = (u64)y << 32 | x;
	u32 r = 0;

	for (unsigned k = 0; k < 4; k++) {
		u32 choice = z >> 4 * k & 15;
		u32 byte = (u32)(bytes >> 8 * (choice & 7)) & 255;

		r |= (choice & 8 ? (byte & 128 ? 255u : 0) : byte) << 8 * k;
	}
	return r;
}

UNARY(popc_b32, u32, u32, popcount(x))
UNARY(clz_b32, u32, u32, x ? __builtin_clz(x) : 32)
UNARY(brev_b32, u32, u32, reverse(x))
TERNARY(lop3_b32, u32, u32, u32, u32, lop3(x, y, z, detail))
TERNARY(shf_l, u32, u32, u32, u32, ((u64)y << 32 | x) << (amount(z, detail) & 63) >> 32)
TERNARY(shf_r, u32, u32, u32, u32, ((u64)y << 32 | x) >> (amount(z, detail) & 63))
TERNARY(bfe_u32, u32, u32, u32, u32, extract(x, y, z, 0))
TERNARY(bfe_s32, u32, u32, u32, u32, extract(x, y, z, 1))
TERNARY(prmt_b32, u32, u32, u32, u32, permute(x, y, z))

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

#define COMPARISON(T, flush, expression)            \
	EACH_LANE                                   \
	{                                           \
		T x = flush(a[i]), y = flush(b[i]); \
		d[i] = (expression);                \
	}                                           \
	break
#define SAME(x) (x)
#define SETP(name, T, flush)                                                 \
	WIDTHS(name, 1, sizeof(T), sizeof(T), 0)                             \
	KERNEL(name)                                                         \
	{                                                                    \
		p *d = d_;                                                   \
		const T *a = a_, *b = b_;                                    \
		UNUSED;                                                      \
		switch (detail) {                                            \
		case CN_PTX_EQ: COMPARISON(T, flush, x == y);                \
		case CN_PTX_NE: COMPARISON(T, flush, (x < y) | (x > y));     \
		case CN_PTX_LO:                                              \
		case CN_PTX_LT: COMPARISON(T, flush, x < y);                 \
		case CN_PTX_LS:                                              \
		case CN_PTX_LE: COMPARISON(T, flush, x <= y);                \
		case CN_PTX_HI:                                              \
		case CN_PTX_GT: COMPARISON(T, flush, x > y);                 \
		case CN_PTX_HS:                                              \
		case CN_PTX_GE: COMPARISON(T, flush, x >= y);                \
		case CN_PTX_EQU: COMPARISON(T, flush, !((x < y) | (x > y))); \
		case CN_PTX_NEU: COMPARISON(T, flush, x != y);               \
		case CN_PTX_LTU: COMPARISON(T, flush, !(x >= y));            \
		case CN_PTX_LEU: COMPARISON(T, flush, !(x > y));             \
		case CN_PTX_GTU: COMPARISON(T, flush, !(x <= y));            \
		case CN_PTX_GEU: COMPARISON(T, flush, !(x < y));             \
		case CN_PTX_NUM: COMPARISON(T, flush, (x == x) & (y == y));  \
		default: COMPARISON(T, flush, (x != x) | (y != y));          \
		}                                                            \
	}

/* A subnormal number becomes zero, with its sign. */
static inline f32 flush(f32 x)
{
	u32 bits = cn_ptx_f32_bits(x);

	return cn_ptx_f32_of(bits & 0x7f800000 ? bits : bits & 0x80000000);
}

SETP(setp_s16, s16, SAME)
SETP(setp_u16, u16, SAME)
SETP(setp_s32, s32, SAME)
SETP(setp_u32, u32, SAME)
SETP(setp_s64, s64, SAME)
SETP(setp_u64, u64, SAME)
SETP(setp_f32, f32, SAME)
SETP(setp_f32_ftz, f32, flush)
SETP(setp_f64, f64, SAME)

/* ---- Floating point ---------------------------------------------------------------------------------------------- */

static inline f32 canonical(f32 x)
{
	return x != x ? cn_ptx_f32_of(0x7fffffff) : x;
}

static inline f32 least(f32 x, f32 y)
{
	f32 r = x < y || y != y ? x : y;

	return x == y ? cn_ptx_f32_of(cn_ptx_f32_bits(x) | cn_ptx_f32_bits(y)) : canonical(r);
}

static inline f32 most(f32 x, f32 y)
{
	f32 r = x > y || y != y ? x : y;

	return x == y ? cn_ptx_f32_of(cn_ptx_f32_bits(x) & cn_ptx_f32_bits(y)) : canonical(r);
}

/* So that all builds agree: processors pass on the payload of the operand that comes first. */
static inline f64 canonical_double(f64 x)
{
	return x != x ? cn_ptx_f64_of(0xfff8000000000000) : x;
}

static inline f64 least_double(f64 x, f64 y)
{
	f64 r = x < y || y != y ? x : y;

	return x == y ? cn_ptx_f64_of(cn_ptx_f64_bits(x) | cn_ptx_f64_bits(y)) : r;
}

static inline f64 most_double(f64 x, f64 y)
{
	f64 r = x > y || y != y ? x : y;

	return x == y ? cn_ptx_f64_of(cn_ptx_f64_bits(x) & cn_ptx_f64_bits(y)) : r;
}

#define FLOATS(suffix, F)                                                                   \
	BINARY(add_f32##suffix, f32, f32, f32, F(canonical(F(x) + F(y))))                   \
	BINARY(sub_f32##suffix, f32, f32, f32, F(canonical(F(x) - F(y))))                   \
	BINARY(mul_f32##suffix, f32, f32, f32, F(canonical(F(x) * F(y))))                   \
	TERNARY(fma_f32##suffix, f32, f32, f32, f32, F(canonical(fmaf(F(x), F(y), F(z)))))  \
	BINARY(div_f32##suffix, f32, f32, f32, F(canonical(F(x) / F(y))))                   \
	UNARY(sqrt_f32##suffix, f32, f32, F(canonical(sqrtf(F(x)))))                        \
	UNARY(rcp_f32##suffix, f32, f32, F(canonical(1 / F(x))))                            \
	BINARY(min_f32##suffix, f32, f32, f32, least(F(x), F(y)))                           \
	BINARY(max_f32##suffix, f32, f32, f32, most(F(x), F(y)))                            \
	UNARY(neg_f32##suffix, u32, u32, cn_ptx_f32_bits(F(cn_ptx_f32_of(x))) ^ 0x80000000) \
	UNARY(abs_f32##suffix, u32, u32, cn_ptx_f32_bits(F(cn_ptx_f32_of(x))) & 0x7fffffff)
FLOATS(, SAME)
FLOATS(_ftz, flush)

UNARY(sat_f32, f32, f32, x > 0 ? (x < 1 ? x : 1) : 0)

BINARY(add_f64, f64, f64, f64, canonical_double(x + y))
BINARY(sub_f64, f64, f64, f64, canonical_double(x - y))
BINARY(mul_f64, f64, f64, f64, canonical_double(x *y))
TERNARY(fma_f64, f64, f64, f64, f64, canonical_double(fma(x, y, z)))
BINARY(div_f64, f64, f64, f64, canonical_double(x / y))
UNARY(sqrt_f64, f64, f64, canonical_double(sqrt(x)))
UNARY(rcp_f64, f64, f64, canonical_double(1 / x))
BINARY(min_f64, f64, f64, f64, canonical_double(least_double(x, y)))
BINARY(max_f64, f64, f64, f64, canonical_double(most_double(x, y)))
UNARY(neg_f64, u64, u64, x ^ 1ull << 63)
UNARY(abs_f64, u64, u64, x & ~(1ull << 63))

/* ---- Conversions ------------------------------------------------------------------------------------------------- */

UNARY(cvt_b16_b32, u16, u32, x)
UNARY(cvt_b16_b64, u16, u64, x)
UNARY(cvt_b32_b64, u32, u64, x)
UNARY(cvt_u32_u16, u32, u16, x)
UNARY(cvt_s32_s16, s32, s16, x)
UNARY(cvt_u64_u16, u64, u16, x)
UNARY(cvt_s64_s16, s64, s16, x)
UNARY(cvt_u64_u32, u64, u32, x)
UNARY(cvt_s64_s32, s64, s32, x)
UNARY(cvt_u8, u32, u32, x & 255)
UNARY(cvt_s8, s32, u32, (s8)x)
UNARY(cvt_f32_s32, f32, s32, x)
UNARY(cvt_f32_u32, f32, u32, x)
UNARY(cvt_f64_s32, f64, s32, x)
UNARY(cvt_f64_u32, f64, u32, x)
UNARY(cvt_f64_s64, f64, s64, x)
UNARY(cvt_f64_f32, f64, f32, x)
UNARY(cvt_f32_f64, f32, f64, x) /* a NaN keeps its upper bits, as on the GPU */
/* What does not fit is the nearest that does; a NaN is 0. */
UNARY(cvt_s32_f32, s32, f32, x != x ? 0 : x >= 2147483648.0f ? INT32_MAX : x < -2147483648.0f ? INT32_MIN : (s32)x)
UNARY(cvt_u32_f32, u32, f32, x != x || x <= -1 ? 0 : x >= 4294967296.0f ? UINT32_MAX : (u32)(s64)x)
UNARY(cvt_s32_f64, s32, f64,
      x != x               ? INT32_MIN
      : x >= 2147483648.0  ? INT32_MAX
      : x <= -2147483649.0 ? INT32_MIN
			   : (s32)x)

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

#define ADDRESSES(T)                                                     \
	{                                                                \
		const T *values = from;                                  \
		T all = 0, highest = 0, by = (T)offset;                  \
                                                                         \
		for (size_t i = 0; i < count; i++) {                     \
			T address = values[i] + by;                      \
                                                                         \
			out[i] = (uint64_t)address + base;               \
			all |= address;                                  \
			highest = address > highest ? address : highest; \
		}                                                        \
		*ret_bits = all;                                         \
		*ret_most = highest;                                     \
	}

static void addresses(uint64_t *restrict out, const void *from, size_t width, int64_t offset, uint64_t base,
		      size_t count, uint64_t *ret_bits, uint64_t *ret_most)
{
	if (width == 8)
		ADDRESSES(uint64_t)
	else
		ADDRESSES(uint32_t)
}

static size_t guard(uint8_t *restrict out, const uint8_t *mask, const uint8_t *predicate, uint8_t negated, size_t count)
{
	size_t sum = 0;

	for (size_t i = 0; i < count; i++)
		out[i] = mask[i] & (predicate[i] ^ negated);
	for (size_t i = 0; i < count; i++)
		sum += out[i];
	return sum;
}

enum { CHUNK = 16 };

static inline bool is_row(const uint64_t *at, uint64_t step)
{
	uint64_t differs = 0;

	for (size_t j = 0; j < CHUNK; j++)
		differs |= at[j] ^ (at[0] + j * step);
	return !differs;
}

#define GATHER(T)                                                                                \
	for (; i + CHUNK <= count; i += CHUNK) {                                                 \
		T *to = (T *)d + i;                                                              \
		uint64_t step = at[i + 1] - at[i];                                               \
		if (step == sizeof(T) && is_row(at + i, sizeof(T))) {                            \
			memcpy(to, (const void *)(uintptr_t)(at[i] + shift), CHUNK * sizeof(T)); \
		} else if (!step && is_row(at + i, 0)) {                                         \
			T value = *(const T *)(uintptr_t)(at[i] + shift);                        \
			for (size_t j = 0; j < CHUNK; j++)                                       \
				to[j] = value;                                                   \
		} else {                                                                         \
			for (size_t j = 0; j < CHUNK; j++)                                       \
				to[j] = *(const T *)(uintptr_t)(at[i + j] + shift);              \
		}                                                                                \
	}                                                                                        \
	for (; i < count; i++)                                                                   \
	((T *)d)[i] = *(const T *)(uintptr_t)(at[i] + shift)

CN_PTX_FOLLOWS static void gather(void *d, const uint64_t *at, uint64_t shift, size_t count, size_t width)
{
	size_t i = 0;

	if (width == 4) {
		GATHER(uint32_t);
	} else {
		GATHER(uint64_t);
	}
}

/* Lanes in order: of several that write to one place, the last one counts. */
#define SCATTER(T)                                                                             \
	for (; i + CHUNK <= count; i += CHUNK) {                                               \
		const T *values = (const T *)from + i;                                         \
		if (is_row(at + i, sizeof(T)))                                                 \
			memcpy((void *)(uintptr_t)(at[i] + shift), values, CHUNK * sizeof(T)); \
		else                                                                           \
			for (size_t j = 0; j < CHUNK; j++)                                     \
				*(volatile T *)(uintptr_t)(at[i + j] + shift) = values[j];     \
	}                                                                                      \
	for (; i < count; i++)                                                                 \
	*(volatile T *)(uintptr_t)(at[i] + shift) = ((const T *)from)[i]

CN_PTX_FOLLOWS static void scatter(const uint64_t *at, uint64_t shift, const void *from, size_t count, size_t width)
{
	size_t i = 0;

	if (width == 4) {
		SCATTER(uint32_t);
	} else {
		SCATTER(uint64_t);
	}
}

#define BLEND(T)                                               \
	{                                                      \
		T *to = d;                                     \
		const T *values = from;                        \
		EACH_LANE to[i] = mask[i] ? values[i] : to[i]; \
		break;                                         \
	}

static void blend(void *d, const void *from, const uint8_t *mask, size_t count, size_t width)
{
	switch (width) {
	case 1: BLEND(uint8_t)
	case 2: BLEND(uint16_t)
	case 4: BLEND(uint32_t)
	default: BLEND(uint64_t)
	}
}

static void part(uint32_t *restrict pcs, const uint8_t *group, const uint8_t *taken, uint32_t target, uint32_t next,
		 size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t to = taken[i] ? target : next;

		pcs[i] = group[i] ? to : pcs[i];
	}
}

/* All ones where it is not so: compilers then find vectors. */
static inline uint32_t unless(int is_so)
{
	return (uint32_t)is_so - 1;
}

static void lowest(const uint32_t *pcs, const uint8_t *status, uint8_t runs, uint32_t floor, size_t count,
		   uint32_t *ret_lowest, uint32_t *ret_next)
{
	uint32_t least = UINT32_MAX, above = UINT32_MAX;

	for (size_t i = 0; i < count; i++) {
		uint32_t pc = pcs[i] | unless(status[i] == runs), high = pc | unless(pc >= floor);

		least = pc < least ? pc : least;
		above = high < above ? high : above;
	}
	*ret_lowest = least;
	*ret_next = above;
}

static uint32_t stop(const uint32_t *pcs, const uint8_t *status, uint8_t runs, const uint8_t *group, uint32_t floor,
		     size_t count)
{
	uint32_t least = UINT32_MAX;

	for (size_t i = 0; i < count; i++) {
		uint32_t pc = pcs[i] | unless((status[i] == runs) & !group[i]) | unless(pcs[i] >= floor);

		least = pc < least ? pc : least;
	}
	return least;
}

static void select_lanes(uint8_t *restrict mask, const uint32_t *pcs, const uint32_t *frames, const uint8_t *status,
			 uint8_t runs, uint32_t pc, uint32_t frame, size_t count)
{
	for (size_t i = 0; i < count; i++)
		mask[i] = (uint8_t)((pcs[i] == pc) & (frames[i] == frame) & (status[i] == runs));
}

#define ENTRY(name) [CN_PTX_K_##name] = k_##name,
#define WIDTH(name) [CN_PTX_K_##name] = {wd_##name, wa_##name, wb_##name, wc_##name},
#define JOIN(a, b)  a##b
#define BUILD(name) JOIN(cn_ptx_build_, name)
#define TEXT(name)  #name
#define NAME(name)  TEXT(name)

const struct cn_ptx_build BUILD(CN_PTX_BUILD) = {
	.name = NAME(CN_PTX_BUILD),
	.kernels = {CN_PTX_KERNELS(ENTRY)},
	.widths = {CN_PTX_KERNELS(WIDTH)},
	.addresses = addresses,
	.guard = guard,
	.gather = gather,
	.scatter = scatter,
	.part = part,
	.lowest = lowest,
	.stop = stop,
	.select = select_lanes,
	.blend = blend,
};
/* NOLINTEND(bugprone-macro-parentheses) */

/* SPDX-License-Identifier: MIT */
/*
 * Rare arithmetic of integers and bits.
 */
#include "ptx/ptx_lane.h"

#include "ptx/ptx_parse.h" /* modes of prmt and bmsk */

typedef __int128 wide;
typedef unsigned __int128 unsigned_wide;

static int64_t as_signed(uint64_t value, enum cn_ptx_type type)
{
	unsigned shift = 64 - 8 * cn_ptx_type_bytes(type);

	return cn_ptx_type_is_signed(type) ? (int64_t)(value << shift) >> shift : (int64_t)value;
}

uint64_t cn_ptx_lane_extend(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	enum cn_ptx_type type = CN_PTX_DETAIL_TYPE(detail);
	unsigned bytes = cn_ptx_type_bytes(type);

	(void)b, (void)c;
	if (bytes < 8)
		a &= (1ull << 8 * bytes) - 1;
	return (uint64_t)as_signed(a, type);
}

uint64_t cn_ptx_lane_saturate(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	int64_t x = (int32_t)a, y = (int32_t)b, r;

	switch (CN_PTX_DETAIL_OP(detail)) {
	case CN_PTX_F_ADD: r = x + y; break;
	case CN_PTX_F_SUB: r = x - y; break;
	default: r = (x * y >> 32) + (int32_t)c; break; /* mad.hi.sat */
	}
	return (uint64_t)(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r);
}

uint64_t cn_ptx_lane_mad_high(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	enum cn_ptx_type type = CN_PTX_DETAIL_TYPE(detail);
	unsigned bits = 8 * cn_ptx_type_bytes(type);

	if (cn_ptx_type_is_signed(type))
		return (uint64_t)((wide)as_signed(a, type) * as_signed(b, type) >> bits) + c;
	return (uint64_t)((unsigned_wide)a * b >> bits) + c;
}

/* mul24 and mad24: products of the low 24 bits. */
uint64_t cn_ptx_lane_mul24(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	bool is_signed = cn_ptx_type_is_signed(CN_PTX_DETAIL_TYPE(detail));
	uint32_t flags = CN_PTX_DETAIL_FLAGS(detail);
	int64_t x = is_signed ? (int32_t)((uint32_t)a << 8) >> 8 : (int64_t)(a & 0xffffff);
	int64_t y = is_signed ? (int32_t)((uint32_t)b << 8) >> 8 : (int64_t)(b & 0xffffff);
	int64_t product = x * y;

	if (!(flags & CN_PTX_FLAG_HIGH))
		return (uint64_t)product + c;
	product = (is_signed ? (int32_t)(product >> 16) : (int64_t)(uint32_t)(product >> 16));
	if (flags & CN_PTX_FLAG_SAT) {
		int64_t sum = product + (int32_t)c;

		return (uint64_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
	}
	return (uint64_t)product + c;
}

uint64_t cn_ptx_lane_sad(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	enum cn_ptx_type type = CN_PTX_DETAIL_TYPE(detail);
	bool less = cn_ptx_type_is_signed(type) ? as_signed(a, type) < as_signed(b, type) : a < b;

	return c + (less ? b - a : a - b);
}

uint64_t cn_ptx_lane_popc(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	(void)b, (void)c, (void)detail;
	return (uint64_t)__builtin_popcountll(a);
}

uint64_t cn_ptx_lane_clz(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	(void)b, (void)c, (void)detail;
	return a ? (uint64_t)__builtin_clzll(a) : 64;
}

static uint64_t reverse(uint64_t a)
{
	uint64_t r = 0;

	for (unsigned i = 0; i < 64; i++)
		r |= (a >> i & 1) << (63 - i);
	return r;
}

uint64_t cn_ptx_lane_brev(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	(void)b, (void)c, (void)detail;
	return reverse(a);
}

uint64_t cn_ptx_lane_bfind(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	enum cn_ptx_type type = CN_PTX_DETAIL_TYPE(detail);
	unsigned bits = 8 * cn_ptx_type_bytes(type);
	int64_t value = as_signed(a, type);

	(void)b, (void)c;
	if (cn_ptx_type_is_signed(type) && value < 0)
		a = ~a;
	if (bits < 64)
		a &= (1ull << bits) - 1;
	if (!a)
		return UINT32_MAX;
	b = 63 - (uint64_t)__builtin_clzll(a);
	return CN_PTX_DETAIL_FLAGS(detail) & CN_PTX_FLAG_SHIFT ? bits - 1 - b : b;
}

static unsigned clamp_field(uint64_t value, unsigned limit)
{
	return limit == 256 && value > 256 ? 256 : (unsigned)(value & (limit == 256 ? 511 : 255));
}

uint64_t cn_ptx_lane_bfe(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	enum cn_ptx_type type = CN_PTX_DETAIL_TYPE(detail);
	/* Of 64 bits all of the numbers count, as on the GPU; of 32 the low byte. */
	unsigned bits = 8 * cn_ptx_type_bytes(type), limit = bits == 64 ? 256 : 255;
	unsigned position = clamp_field(b, limit), length = clamp_field(c, limit);
	unsigned last = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
	bool sign = cn_ptx_type_is_signed(type) && length && (a >> last & 1);
	uint64_t r = 0;

	for (unsigned i = 0; i < bits; i++)
		r |= (uint64_t)(i < length && position + i < bits ? a >> (position + i) & 1 : sign) << i;
	return r;
}

uint64_t cn_ptx_lane_pack(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	(void)c;
	return clamp_field(a, detail) | (uint64_t)clamp_field(b, detail) << 16;
}

uint64_t cn_ptx_lane_bfi(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	unsigned bits = 8 * cn_ptx_type_bytes(CN_PTX_DETAIL_TYPE(detail)), position = c & 511, length = c >> 16 & 511;

	for (unsigned i = 0; i < length && position + i < bits; i++)
		b = (b & ~(1ull << (position + i))) | (a >> i & 1) << (position + i);
	return b;
}

/* The c-th set bit of a, from b on: upwards, or downwards if c is negative. */
uint64_t cn_ptx_lane_fns(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	int32_t offset = (int32_t)c;
	int step = offset < 0 ? -1 : 1;
	uint32_t left = offset < 0 ? 0u - (uint32_t)offset : (uint32_t)offset;

	(void)detail;
	if ((uint32_t)b > 31)
		return UINT32_MAX;
	if (!offset)
		return a >> b & 1 ? b : UINT32_MAX;
	for (int i = (int)b; i >= 0 && i < 32; i += step)
		if ((a >> i & 1) && !--left)
			return (uint64_t)i;
	return UINT32_MAX;
}

uint64_t cn_ptx_lane_cnot(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	(void)b, (void)c, (void)detail;
	return !a;
}

uint64_t cn_ptx_lane_prmt(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	uint64_t bytes = (b & UINT32_MAX) << 32 | (a & UINT32_MAX);
	unsigned s = c & 3, choice[4];
	uint64_t r = 0;

	for (unsigned i = 0; i < 4; i++)
		switch (CN_PTX_DETAIL_SECOND(detail)) {
		case CN_PTX_MODE_F4E: choice[i] = s + i; break;
		case CN_PTX_MODE_B4E: choice[i] = (s - i) & 7; break;
		case CN_PTX_MODE_RC8: choice[i] = s; break;
		case CN_PTX_MODE_ECL: choice[i] = i < s ? s : i; break;
		case CN_PTX_MODE_ECR: choice[i] = i > s ? s : i; break;
		default: choice[i] = (s & 1) * 2 + (i & 1); break; /* rc16 */
		}
	for (unsigned i = 0; i < 4; i++)
		r |= (bytes >> 8 * choice[i] & 255) << 8 * i;
	return r;
}

/* dp4a and dp2a: c plus the products of a's elements with b's bytes. */
uint64_t cn_ptx_lane_dot(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	bool signed_a = cn_ptx_type_is_signed(CN_PTX_DETAIL_TYPE(detail));
	bool signed_b = cn_ptx_type_is_signed((enum cn_ptx_type)CN_PTX_DETAIL_SECOND(detail));
	unsigned count = CN_PTX_DETAIL_OP(detail), bits = 32 / count;

	if (count == 2 && (CN_PTX_DETAIL_FLAGS(detail) & CN_PTX_FLAG_HIGH))
		b >>= 16;
	for (unsigned i = 0; i < count; i++) {
		uint64_t x = a >> bits * i & ((1u << bits) - 1), y = b >> 8 * i & 255;
		int64_t sx = signed_a ? (int64_t)(x << (64 - bits)) >> (64 - bits) : (int64_t)x;
		int64_t sy = signed_b ? (int8_t)y : (int64_t)y;

		c += (uint64_t)(sx * sy);
	}
	return c;
}

uint64_t cn_ptx_lane_bmsk(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	bool clamp = CN_PTX_DETAIL_SECOND(detail) == CN_PTX_MODE_CLAMP;
	uint64_t position = clamp ? (uint32_t)a : a & 31, length = clamp ? (uint32_t)b : b & 31;

	(void)c;
	if (position > 31 || !length)
		return 0;
	if (length > 32)
		length = 32;
	return (uint32_t)(((1ull << length) - 1) << position);
}

uint64_t cn_ptx_lane_szext(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	bool clamp = CN_PTX_DETAIL_SECOND(detail) == CN_PTX_MODE_CLAMP;
	uint64_t bits = clamp ? (uint32_t)b : b & 31;

	(void)c;
	if (bits > 31)
		return a;
	if (!bits)
		return 0;
	if (cn_ptx_type_is_signed(CN_PTX_DETAIL_TYPE(detail)))
		return (uint64_t)((int64_t)(a << (64 - bits)) >> (64 - bits));
	return a & ((1ull << bits) - 1);
}

uint64_t cn_ptx_lane_pair(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	bool is_signed = CN_PTX_DETAIL_TYPE(detail) == CN_PTX_S16X2;
	bool relu = CN_PTX_DETAIL_FLAGS(detail) & CN_PTX_FLAG_RELU;
	uint64_t r = 0;

	(void)c;
	for (unsigned i = 0; i < 32; i += 16) {
		uint16_t x = (uint16_t)(a >> i), y = (uint16_t)(b >> i);
		bool less = is_signed ? (int16_t)x < (int16_t)y : x < y;
		uint16_t chosen;

		switch (CN_PTX_DETAIL_OP(detail)) {
		case CN_PTX_F_ADD: chosen = (uint16_t)(x + y); break;
		case CN_PTX_F_MIN: chosen = less ? x : y; break;
		default: chosen = less ? y : x; break;
		}
		r |= (uint64_t)(relu && (int16_t)chosen < 0 ? 0 : chosen) << i;
	}
	return r;
}

uint64_t cn_ptx_lane_piece(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	(void)b, (void)c;
	return a >> (CN_PTX_DETAIL_OP(detail) & 63);
}

uint64_t cn_ptx_lane_join(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	(void)c;
	return a | b << (CN_PTX_DETAIL_OP(detail) & 63);
}

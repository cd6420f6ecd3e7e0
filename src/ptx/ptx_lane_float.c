/* SPDX-License-Identifier: MIT */
/*
 * Rare arithmetic of floats: directed rounding, halves, approximations. Compiled with -frounding-math.
 *
 * Halves are computed in double: sums, products, quotients and roots of numbers of 11 bits round there as they would at
 * once, and a fused multiply-add is made sticky before it is rounded to a half.
 */
#include "ptx/ptx_bits.h"
#include "ptx/ptx_lane.h"

#include "ptx/ptx_parse.h" /* modes of testp */

#include <fenv.h>
#include <math.h>

static uint64_t single_bits(float value)
{
	return isnan(value) ? 0x7fffffff : cn_ptx_f32_bits(value);
}

static double flush_double(double value)
{
	return fpclassify(value) == FP_SUBNORMAL ? copysign(0, value) : value;
}

static double approximate(double x, unsigned op)
{
	switch (op) {
	case CN_PTX_F_RSQRT: return 1 / sqrt(x);
	case CN_PTX_F_SIN: return sin(x);
	case CN_PTX_F_COS: return cos(x);
	case CN_PTX_F_LG2: return log2(x);
	case CN_PTX_F_EX2: return exp2(x);
	default: return tanh(x);
	}
}

static double choose(double x, double y, unsigned op, unsigned flags)
{
	bool x_first;

	if ((flags & CN_PTX_FLAG_NAN) && (isnan(x) || isnan(y)))
		return NAN;
	if (isnan(x) || isnan(y))
		return isnan(x) ? y : x;
	if (x == 0 && y == 0)
		x_first = signbit(x) == (op == CN_PTX_F_MIN);
	else
		x_first = op == CN_PTX_F_MIN ? x < y : x > y;
	return x_first ? x : y;
}

static float single_operation(float x, float y, float z, unsigned op, unsigned flags)
{
	volatile float a = x, b = y, c = z, r;

	switch (op) {
	case CN_PTX_F_ADD: r = a + b; break;
	case CN_PTX_F_SUB: r = a - b; break;
	case CN_PTX_F_MUL: r = a * b; break;
	case CN_PTX_F_FMA: r = fmaf(a, b, c); break;
	case CN_PTX_F_DIV: r = a / b; break;
	case CN_PTX_F_SQRT: r = sqrtf(a); break;
	case CN_PTX_F_RCP: r = 1 / a; break;
	case CN_PTX_F_MIN:
	case CN_PTX_F_MAX: r = (float)choose((double)x, (double)y, op, flags); break;
	case CN_PTX_F_NEG: r = -a; break;
	case CN_PTX_F_ABS: r = fabsf(a); break;
	case CN_PTX_F_COPYSIGN: r = copysignf(b, a); break;
	default: r = (float)approximate((double)a, op); break;
	}
	return r;
}

static double double_operation(double x, double y, double z, unsigned op, unsigned flags)
{
	volatile double a = x, b = y, c = z, r;

	switch (op) {
	case CN_PTX_F_ADD: r = a + b; break;
	case CN_PTX_F_SUB: r = a - b; break;
	case CN_PTX_F_MUL: r = a * b; break;
	case CN_PTX_F_FMA: r = fma(a, b, c); break;
	case CN_PTX_F_DIV: r = a / b; break;
	case CN_PTX_F_SQRT: r = sqrt(a); break;
	case CN_PTX_F_RCP: r = 1 / a; break;
	case CN_PTX_F_MIN:
	case CN_PTX_F_MAX: r = choose(a, b, op, flags); break;
	default: r = approximate(a, op); break;
	}
	return r;
}

uint64_t cn_ptx_lane_float(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	unsigned flags = CN_PTX_DETAIL_FLAGS(detail), op = CN_PTX_DETAIL_OP(detail),
		 mode = (unsigned)cn_ptx_fenv_of(CN_PTX_DETAIL_SECOND(detail));
	float x = cn_ptx_f32_of(a), y = cn_ptx_f32_of(b), z = cn_ptx_f32_of(c), r;

	if (CN_PTX_DETAIL_TYPE(detail) == CN_PTX_F64) {
		double result;

		if (op == CN_PTX_F_COPYSIGN)
			return (b & ~(1ull << 63)) | (a & 1ull << 63);

		/* rcp.approx.ftz.f64 and rsqrt: the upper half of the bits. */
		if (flags & CN_PTX_FLAG_HIGH) {
			result = flush_double(double_operation(flush_double(cn_ptx_f64_of(a)), 0, 0, op, flags));
			return isnan(result) ? 0x7fffffff00000000u : cn_ptx_f64_bits(result) & ~0xffffffffull;
		}

		cn_ptx_round_as((int)mode);
		result = double_operation(cn_ptx_f64_of(a), cn_ptx_f64_of(b), cn_ptx_f64_of(c), op, flags);
		cn_ptx_round_nearest((int)mode);
		return isnan(result) ? 0xfff8000000000000u : cn_ptx_f64_bits(result);
	}
	if (flags & CN_PTX_FLAG_FTZ) {
		x = cn_ptx_f32_flushed(x);
		y = cn_ptx_f32_flushed(y);
		z = cn_ptx_f32_flushed(z);
	}
	cn_ptx_round_as((int)mode);
	r = single_operation(x, y, z, op, flags);
	cn_ptx_round_nearest((int)mode);
	if (flags & CN_PTX_FLAG_FTZ)
		r = cn_ptx_f32_flushed(r);
	if (flags & CN_PTX_FLAG_SAT)
		r = r > 0 ? (r < 1 ? r : 1) : 0;
	if (op == CN_PTX_F_NEG || op == CN_PTX_F_ABS || op == CN_PTX_F_COPYSIGN)
		return cn_ptx_f32_bits(r);
	return single_bits(r);
}

/* ---- Halves ------------------------------------------------------------------------------------------------------ */

static double flush_half(double value)
{
	return value != 0 && fabs(value) < 0x1p-14 ? copysign(0, value) : value;
}

static double half_operation(double x, double y, double z, unsigned op, unsigned flags)
{
	switch (op) {
	case CN_PTX_F_ADD: return cn_ptx_sum_to_odd(x, y);
	case CN_PTX_F_SUB: return cn_ptx_sum_to_odd(x, -y);
	case CN_PTX_F_MUL: return x * y;
	case CN_PTX_F_FMA: return cn_ptx_sum_to_odd(x * y, z);
	case CN_PTX_F_MIN:
	case CN_PTX_F_MAX: return choose(x, y, op, flags);
	default: return approximate(x, op);
	}
}

static uint32_t one_half(uint32_t a, uint32_t b, uint32_t c, uint32_t detail)
{
	enum cn_ptx_type type = CN_PTX_DETAIL_TYPE(detail);
	bool is_bf16 = type == CN_PTX_BF16 || type == CN_PTX_BF16X2;
	unsigned flags = CN_PTX_DETAIL_FLAGS(detail), op = CN_PTX_DETAIL_OP(detail);
	bool flush = (flags & CN_PTX_FLAG_FTZ) && !is_bf16;
	double x = cn_ptx_half_to_double(a, is_bf16), y = cn_ptx_half_to_double(b, is_bf16);
	double z = cn_ptx_half_to_double(c, is_bf16), r;

	if (flush) {
		x = flush_half(x);
		y = flush_half(y);
		z = flush_half(z);
	}
	if (op == CN_PTX_F_NEG || op == CN_PTX_F_ABS) {
		if (isnan(x))
			return 0x7fff;
		r = op == CN_PTX_F_NEG ? -x : fabs(x);
	} else {
		r = half_operation(x, y, z, op, flags);
	}
	if (flags & CN_PTX_FLAG_SAT)
		r = r > 0 ? (r < 1 ? r : 1) : 0;
	if (flags & CN_PTX_FLAG_RELU)
		r = r > 0 || isnan(r) ? r : 0;
	/* What is subnormal before it is rounded is cn_ptx_f32_flushed. */
	return cn_ptx_double_to_half(flush ? flush_half(r) : r, is_bf16, CN_PTX_RN);
}

uint64_t cn_ptx_lane_half(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	enum cn_ptx_type type = CN_PTX_DETAIL_TYPE(detail);
	uint64_t low = one_half(a & 0xffff, b & 0xffff, c & 0xffff, detail);

	if (type == CN_PTX_F16 || type == CN_PTX_BF16)
		return low;
	return low | (uint64_t)one_half(a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff, detail) << 16;
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

static bool compare(double x, double y, unsigned how)
{
	switch (how) {
	case CN_PTX_EQ: return x == y;
	case CN_PTX_NE: return x < y || x > y;
	case CN_PTX_LT: return x < y;
	case CN_PTX_LE: return x <= y;
	case CN_PTX_GT: return x > y;
	case CN_PTX_GE: return x >= y;
	case CN_PTX_EQU: return !(x < y || x > y);
	case CN_PTX_NEU: return x != y;
	case CN_PTX_LTU: return !(x >= y);
	case CN_PTX_LEU: return !(x > y);
	case CN_PTX_GTU: return !(x <= y);
	case CN_PTX_GEU: return !(x < y);
	case CN_PTX_NUM: return !isnan(x) && !isnan(y);
	default: return isnan(x) || isnan(y);
	}
}

uint64_t cn_ptx_lane_compare(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	enum cn_ptx_type type = CN_PTX_DETAIL_TYPE(detail);
	unsigned how = CN_PTX_DETAIL_SECOND(detail);
	bool is_bf16 = type == CN_PTX_BF16 || type == CN_PTX_BF16X2, flush;
	uint64_t result = 0;

	(void)c;
	flush = (CN_PTX_DETAIL_FLAGS(detail) & CN_PTX_FLAG_FTZ) && !is_bf16;
	for (unsigned i = 0; i < cn_ptx_type_bytes(type) / 2; i++) {
		double x = cn_ptx_half_to_double(a >> 16 * i & 0xffff, is_bf16);
		double y = cn_ptx_half_to_double(b >> 16 * i & 0xffff, is_bf16);

		if (flush) {
			x = flush_half(x);
			y = flush_half(y);
		}
		result |= (uint64_t)compare(x, y, how) << i;
	}
	return result;
}

uint64_t cn_ptx_lane_set(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	(void)b, (void)c;
	switch (CN_PTX_DETAIL_TYPE(detail)) {
	case CN_PTX_F32: return a & 1 ? 0x3f800000 : 0;
	case CN_PTX_F16: return a & 1 ? 0x3c00 : 0;
	case CN_PTX_BF16: return a & 1 ? 0x3f80 : 0;
	case CN_PTX_F16X2: return (a & 1 ? 0x3c00 : 0) | (a & 2 ? 0x3c000000 : 0);
	case CN_PTX_BF16X2: return (a & 1 ? 0x3f80 : 0) | (a & 2 ? 0x3f800000 : 0);
	default:
		if (CN_PTX_DETAIL_SECOND(detail)) /* of packed halves: half of the word each */
			return (a & 1 ? 0xffff : 0) | (a & 2 ? 0xffff0000 : 0);
		return a & 1 ? UINT64_MAX : 0;
	}
}

uint64_t cn_ptx_lane_testp(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	double value = CN_PTX_DETAIL_TYPE(detail) == CN_PTX_F64 ? cn_ptx_f64_of(a) : (double)cn_ptx_f32_of(a);
	bool is_subnormal = CN_PTX_DETAIL_TYPE(detail) == CN_PTX_F64 ? fpclassify(value) == FP_SUBNORMAL
								     : fpclassify(cn_ptx_f32_of(a)) == FP_SUBNORMAL;

	(void)b, (void)c;
	switch (CN_PTX_DETAIL_SECOND(detail)) {
	case CN_PTX_MODE_FINITE: return isfinite(value);
	case CN_PTX_MODE_INFINITE: return !!isinf(value);
	case CN_PTX_MODE_NUMBER: return !isnan(value);
	case CN_PTX_MODE_NOTANUMBER: return isnan(value);
	case CN_PTX_MODE_NORMAL: return isfinite(value) && !is_subnormal; /* zero is */
	default: return is_subnormal;
	}
}

uint64_t cn_ptx_lane_slct(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	if (CN_PTX_DETAIL_SECOND(detail) == CN_PTX_F32) {
		float value = cn_ptx_f32_of(c);

		if (CN_PTX_DETAIL_FLAGS(detail) & CN_PTX_FLAG_FTZ)
			value = cn_ptx_f32_flushed(value);
		return value >= 0 ? a : b;
	}
	return (int32_t)c >= 0 ? a : b;
}

/* SPDX-License-Identifier: MIT */
/*
 * Conversions, with all rounding modes.
 *
 * A number passes through the widest type of its kind: integers through 64 bits, floats through double, which holds
 * every narrower float exactly. Where a conversion to double itself would round, the processor's rounding mode is set,
 * or the last bit made sticky, so that each result is rounded once. Compiled with -frounding-math.
 */
#include "ptx/ptx_bits.h"
#include "ptx/ptx_lane.h"

#include <fenv.h>
#include <math.h>

/* ---- Halves ------------------------------------------------------------------------------------------------------ */

double cn_ptx_half_to_double(uint32_t bits, bool is_bf16)
{
	unsigned fraction_bits = is_bf16 ? 7 : 10, exponent_bits = is_bf16 ? 8 : 5;
	uint32_t fraction = bits & ((1u << fraction_bits) - 1), top = (1u << exponent_bits) - 1;
	uint32_t exponent = bits >> fraction_bits & top;
	int bias = (1 << (exponent_bits - 1)) - 1;
	double value;

	if (exponent == top)
		value = fraction ? (double)NAN : (double)INFINITY;
	else if (exponent)
		value = ldexp((double)(fraction | 1u << fraction_bits), (int)exponent - bias - (int)fraction_bits);
	else
		value = ldexp((double)fraction, 1 - bias - (int)fraction_bits);
	return bits >> 15 & 1 ? -value : value;
}

/* Round up the magnitude? `rest` is what is cut off, in units of which `half` are half of the last place. */
static bool rounds_up(unsigned rounding, bool negative, bool odd, uint64_t rest, uint64_t half)
{
	switch (rounding) {
	case CN_PTX_RZ:
	case CN_PTX_RZI: return false;
	case CN_PTX_RM:
	case CN_PTX_RMI: return negative && rest;
	case CN_PTX_RP:
	case CN_PTX_RPI: return !negative && rest;
	case CN_PTX_RNA: return rest >= half;
	default: return rest > half || (rest == half && odd);
	}
}

/* To a float of so many bits of fraction and exponent, with the sign above. */
static uint32_t narrow(double value, unsigned fraction_bits, unsigned exponent_bits, unsigned rounding)
{
	uint64_t bits = cn_ptx_f64_bits(value), significand = bits & ((1ull << 52) - 1), rest, half, kept;
	bool negative = bits >> 63;
	int bias = (1 << (exponent_bits - 1)) - 1, exponent = (int)(bits >> 52 & 2047) - 1023;
	uint32_t sign = (uint32_t)negative << (fraction_bits + exponent_bits);
	uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
	unsigned cut = 52 - fraction_bits;
	uint32_t result;

	if (isnan(value))
		return (1u << (fraction_bits + exponent_bits)) - 1;
	if (isinf(value))
		return sign | infinity;
	if (value == 0)
		return sign;
	if (exponent == -1023)
		exponent = -1022; /* a subnormal double: far below */
	else
		significand |= 1ull << 52;
	if (exponent < 1 - bias) {
		unsigned deeper = (unsigned)(1 - bias - exponent);

		cut = deeper > 62 - cut ? 62 : cut + deeper;
		kept = significand >> cut;
		exponent = 0;
	} else {
		kept = significand >> cut;
		exponent += bias - 1; /* the leading bit of the fraction adds the one that is missing */
	}
	rest = significand & ((1ull << cut) - 1);
	half = 1ull << (cut - 1);
	result = ((uint32_t)exponent << fraction_bits) + (uint32_t)kept;
	result += rounds_up(rounding, negative, kept & 1, rest, half);
	if (exponent + 1 < (1 << exponent_bits) - 1 && result < infinity)
		return sign | result;
	if (cn_ptx_fenv_of(rounding) == FE_TOWARDZERO ||
	    cn_ptx_fenv_of(rounding) == (negative ? FE_UPWARD : FE_DOWNWARD))
		return sign | (infinity - 1);
	return sign | infinity;
}

uint32_t cn_ptx_double_to_half(double value, bool is_bf16, enum cn_ptx_rounding rounding)
{
	return is_bf16 ? narrow(value, 7, 8, rounding) : narrow(value, 10, 5, rounding);
}

double cn_ptx_sum_to_odd(double a, double b)
{
	volatile double sum = a + b;
	volatile double back = sum - a;
	double lost = (a - (sum - back)) + (b - back);
	uint64_t bits = cn_ptx_f64_bits(sum);

	if (lost != 0 && isfinite(sum) && !(bits & 1)) {
		/* Towards what was lost, which makes the last bit odd. */
		bits += (lost > 0) == (sum > 0) ? 1 : UINT64_MAX;
		return cn_ptx_f64_of(bits);
	}
	return sum;
}

/* ---- From anything ----------------------------------------------------------------------------------------------- */

struct number {
	bool is_float, is_negative; /* an integer with its sign */
	uint64_t magnitude;
	double real;
};

static struct number read_number(uint64_t bits, enum cn_ptx_type type, unsigned flags)
{
	struct number number = {.is_float = cn_ptx_type_is_float(type)};
	unsigned shift = 64 - 8 * cn_ptx_type_bytes(type);

	switch (type) {
	case CN_PTX_F16: number.real = cn_ptx_half_to_double((uint32_t)bits & 0xffff, false); break;
	case CN_PTX_BF16: number.real = cn_ptx_half_to_double((uint32_t)bits & 0xffff, true); break;
	case CN_PTX_F32:
		number.real = (double)(flags & CN_PTX_FLAG_FTZ ? cn_ptx_f32_flushed(cn_ptx_f32_of(bits))
							       : cn_ptx_f32_of(bits));
		break;
	case CN_PTX_F64: number.real = cn_ptx_f64_of(bits); break;
	default:
		bits <<= shift;
		if (cn_ptx_type_is_signed(type) && (int64_t)bits < 0) {
			number.is_negative = true;
			number.magnitude = (0 - bits) >> shift;
		} else {
			number.magnitude = bits >> shift;
		}
	}
	return number;
}

/* ---- To integers ------------------------------------------------------------------------------------------------- */

static double rounded(double value, unsigned rounding)
{
	switch (rounding) {
	case CN_PTX_RZI:
	case CN_PTX_RZ: return trunc(value);
	case CN_PTX_RMI:
	case CN_PTX_RM: return floor(value);
	case CN_PTX_RPI:
	case CN_PTX_RP: return ceil(value);
	default: {
		double below = floor(value), rest = value - below;

		if (rest == 0)
			return value; /* also keeps the sign of zero */
		if (rest > 0.5 || (rest == 0.5 && fmod(below, 2) != 0))
			below += 1;
		return copysign(below, value);
	}
	}
}

static uint64_t to_integer(struct number number, enum cn_ptx_type type, enum cn_ptx_type from, unsigned rounding,
			   bool sat)
{
	unsigned bits = 8 * cn_ptx_type_bytes(type);
	bool is_signed = cn_ptx_type_is_signed(type);
	uint64_t most = is_signed ? (1ull << (bits - 1)) - 1 : bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
	uint64_t least = is_signed ? 1ull << (bits - 1) : 0; /* as a magnitude */

	if (number.is_float) {
		double value = rounded(number.real, rounding);

		/* What the hardware gives: zero for narrow sources, the integer's lowest or top bit for doubles. */
		if (isnan(value))
			return from == CN_PTX_F64 || bits == 64 ? 1ull << (bits - 1) : 0;
		number.is_negative = value < 0;
		value = fabs(value);
		number.magnitude = value >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)value;
		sat = true;
	}
	if (sat && number.is_negative && number.magnitude > least)
		number.magnitude = least;
	if (sat && !number.is_negative && number.magnitude > most)
		number.magnitude = most;
	return number.is_negative ? 0 - number.magnitude : number.magnitude;
}

/* ---- To floats --------------------------------------------------------------------------------------------------- */

static uint64_t integer_to_float(struct number number, enum cn_ptx_type type, unsigned rounding)
{
	uint64_t result;

	if (type == CN_PTX_F16 || type == CN_PTX_BF16) {
		uint64_t high = number.magnitude & ~0xfffull;
		double value = cn_ptx_sum_to_odd((double)high, (double)(number.magnitude & 0xfff));

		return cn_ptx_double_to_half(number.is_negative ? -value : value, type == CN_PTX_BF16, rounding);
	}
	/* The sign goes in before it is rounded: modes are not symmetric. */
	cn_ptx_round_as(cn_ptx_fenv_of(rounding));
	if (type == CN_PTX_F64) {
		volatile double value =
			number.is_negative ? (double)(int64_t)(0 - number.magnitude) : (double)number.magnitude;

		result = cn_ptx_f64_bits(value);
	} else {
		volatile float value =
			number.is_negative ? (float)(int64_t)(0 - number.magnitude) : (float)number.magnitude;

		result = cn_ptx_f32_bits(value);
	}
	cn_ptx_round_nearest(cn_ptx_fenv_of(rounding));
	return result;
}

/* keeps_nan: with the upper bits of its payload. */
static uint64_t double_to_single(double value, unsigned rounding, unsigned flags, bool keeps_nan)
{
	volatile double from = value;
	volatile float to;
	float result;

	if (isnan(value) && (flags & CN_PTX_FLAG_SAT))
		return 0;
	if (isnan(value) && !keeps_nan)
		return 0x7fffffff;
	cn_ptx_round_as(cn_ptx_fenv_of(rounding));
	to = (float)from;
	cn_ptx_round_nearest(cn_ptx_fenv_of(rounding));
	result = to;
	if (flags & CN_PTX_FLAG_FTZ)
		result = cn_ptx_f32_flushed(result);
	if (flags & CN_PTX_FLAG_SAT)
		result = result > 0 ? (result < 1 ? result : 1) : 0;
	return cn_ptx_f32_bits(result);
}

static uint64_t to_float(struct number number, enum cn_ptx_type type, enum cn_ptx_type from, unsigned rounding,
			 unsigned flags)
{
	double value = number.real;

	if (!number.is_float)
		return integer_to_float(number, type, rounding);
	if (rounding >= CN_PTX_RNI) /* to an integer of the same type, or a wider one */
		value = rounded(value, rounding);
	if (flags & CN_PTX_FLAG_RELU)
		value = value > 0 || isnan(value) ? value : 0;
	switch (type) {
	case CN_PTX_F16:
	case CN_PTX_BF16:
		if (isnan(value) && from == CN_PTX_F64 && !(flags & CN_PTX_FLAG_SAT))
			return type == CN_PTX_F16 ? 0x7e00 : 0x7fff;
		if (flags & CN_PTX_FLAG_SAT)
			value = value > 0 ? (value < 1 ? value : 1) : 0;
		return cn_ptx_double_to_half(value, type == CN_PTX_BF16, rounding);
	case CN_PTX_F32: return double_to_single(value, rounding, flags, from == CN_PTX_F64);
	default:
		if (flags & CN_PTX_FLAG_SAT)
			value = value > 0 ? (value < 1 ? value : 1) : 0;
		/* A NaN keeps its bits where nothing is converted. */
		if (isnan(value))
			return from == CN_PTX_F64 ? cn_ptx_f64_bits(value) : 0x7fffffffffffffff & ~0ull >> 1;
		return cn_ptx_f64_bits(value);
	}
}

uint64_t cn_ptx_lane_convert(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	enum cn_ptx_type type = CN_PTX_DETAIL_TYPE(detail), from = (enum cn_ptx_type)CN_PTX_DETAIL_SECOND(detail);
	unsigned flags = CN_PTX_DETAIL_FLAGS(detail), rounding = CN_PTX_DETAIL_OP(detail);
	struct number number = read_number(a, from, flags);

	(void)b, (void)c;
	if (type == CN_PTX_F32 && from == CN_PTX_BF16 && !flags)
		return (a & 0xffff) << 16; /* also of a NaN */
	if (type == CN_PTX_TF32)
		return (uint64_t)narrow(number.real, 10, 8, rounding) << 13;
	if (!cn_ptx_type_is_float(type))
		return cn_ptx_lane_extend(to_integer(number, type, from, rounding, flags & CN_PTX_FLAG_SAT), 0, 0,
					  detail);
	return to_float(number, type, from, rounding, flags);
}

uint64_t cn_ptx_lane_convert_pair(uint64_t a, uint64_t b, uint64_t c, uint32_t detail)
{
	bool is_bf16 = CN_PTX_DETAIL_TYPE(detail) == CN_PTX_BF16X2;
	uint32_t one = CN_PTX_DETAIL(is_bf16 ? CN_PTX_BF16 : CN_PTX_F16, CN_PTX_F32, CN_PTX_DETAIL_FLAGS(detail),
				     CN_PTX_DETAIL_OP(detail));

	return cn_ptx_lane_convert(a, 0, c, one) << 16 | cn_ptx_lane_convert(b, 0, c, one);
}

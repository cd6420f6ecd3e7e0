/* SPDX-License-Identifier: MIT */
/*
 * Floats: their bits and their rounding.
 */
#ifndef CN_PTX_PTX_BITS_H
#define CN_PTX_PTX_BITS_H

#include "ptx/ptx_ir.h"

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float cn_ptx_f32_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline uint32_t cn_ptx_f32_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static inline double cn_ptx_f64_of(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline uint64_t cn_ptx_f64_bits(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* A subnormal number becomes zero, with its sign. */
static inline float cn_ptx_f32_flushed(float value)
{
	return fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

/* For fesetround(). */
static inline int cn_ptx_fenv_of(unsigned rounding)
{
	switch (rounding) {
	case CN_PTX_RZ:
	case CN_PTX_RZI: return FE_TOWARDZERO;
	case CN_PTX_RM:
	case CN_PTX_RMI: return FE_DOWNWARD;
	case CN_PTX_RP:
	case CN_PTX_RPI: return FE_UPWARD;
	default: return FE_TONEAREST;
	}
}

/* Round in another mode for a moment. To the nearest is how a block runs: changing the mode takes longer than a sum. */
static inline void cn_ptx_round_as(int mode)
{
	if (mode != FE_TONEAREST)
		fesetround(mode);
}

static inline void cn_ptx_round_nearest(int mode)
{
	if (mode != FE_TONEAREST)
		fesetround(FE_TONEAREST);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * C's arithmetic and conversions with a rounding, and the words of a case as numbers.
 */
#ifndef CENOTE_TESTS_DEVICE_ROUNDING_H
#define CENOTE_TESTS_DEVICE_ROUNDING_H

#include "check.h"
#include <fenv.h>
#include <math.h>

#define I of<int>
#define U of<unsigned int>
#define L of<long long>
#define F of<float>
#define D of<double>

/* Arithmetic and conversions of C with a rounding. Values pass through memory, so that none is computed before. */
template <class R, class Body> static R rounded(int mode, Body body)
{
	fesetround(mode);
	volatile R result = body();
	fesetround(FE_TONEAREST);
	return result;
}
template <class T> static T hidden(T value)
{
	volatile T copy = value;
	return copy;
}

/* To an integer, with PTX's limits; NaN is 0 from float to 32 bits, else the top bit alone. */
template <class R, class T> static R to_integer(int mode, T value)
{
	double whole = rounded<double>(mode, [&] { return nearbyint(hidden((double)value)); });
	const double top = ldexp(1, 8 * sizeof(R) - ((R)-1 < 0));
	if (value != value)
		return sizeof(R) + sizeof(T) == 8 ? 0 : (R)((word)1 << (8 * sizeof(R) - 1));
	if (whole >= top)
		return (R)-1 < 0 ? (R)((((word)1 << (8 * sizeof(R) - 2)) - 1) * 2 + 1) : (R)-1;
	if (whole < ((R)-1 < 0 ? -top : 0))
		return (R)-1 < 0 ? (R)((word)1 << (8 * sizeof(R) - 1)) : 0;
	return (R)whole;
}

#endif

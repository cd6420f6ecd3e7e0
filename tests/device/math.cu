/* SPDX-License-Identifier: MIT */
/*
 * A kernel for each function of functions.h, in double and in float: results of as many arguments as there are threads.
 * A function of more than two takes those of the next thread as well.
 */
#include "functions.h"

/* The parts of functions with two results. */
#define PARTS(function, type, suffix)                     \
	__device__ type function##_sine##suffix(type x)   \
	{                                                 \
		type sine, cosine;                        \
		function##suffix(x, &sine, &cosine);      \
		return sine;                              \
	}                                                 \
	__device__ type function##_cosine##suffix(type x) \
	{                                                 \
		type sine, cosine;                        \
		function##suffix(x, &sine, &cosine);      \
		return cosine;                            \
	}
PARTS(sincos, double, )
PARTS(sincos, float, f)
PARTS(sincospi, double, )
PARTS(sincospi, float, f)
PARTS(__sincos, float, f)

#define KERNEL(name, type, suffix, call)                                                               \
	extern "C" __global__ void name##suffix(const type *x, const type *y, type *result, int count) \
	{                                                                                              \
		int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), next = (i + 1) % count;          \
		(void)y, (void)next;                                                                   \
		if (i < count)                                                                         \
			result[i] = call;                                                              \
	}
#define BOTH(name, arguments)                         \
	KERNEL(name, double, _double, name arguments) \
	KERNEL(name, float, _float, name##f arguments)
#define ONE(name, low, high, double_bound, float_bound) BOTH(name, (x[i]))
#define TWO(name, double_bound, float_bound)            BOTH(name, (x[i], y[i]))
#define THREE(name, double_bound, float_bound)          BOTH(name, (x[i], y[i], x[next]))
#define FOUR(name, double_bound, float_bound)           BOTH(name, (x[i], y[i], x[next], y[next]))
FUNCTIONS(ONE, TWO, THREE, FOUR)

#define FAST1(name, low, high, bound, slope, absolute) KERNEL(fast_##name, float, _float, __##name##f(x[i]))
#define FAST2(name, low, high, y_low, y_high, bound, absolute) \
	KERNEL(fast_##name, float, _float, __##name##f(x[i], y[i]))
FAST_FUNCTIONS(FAST1, FAST2)

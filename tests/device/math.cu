/* SPDX-License-Identifier: MIT */
/*
 * A kernel for each function of functions.h, in double and in float: results of as many arguments as there are threads.
 */
#include "functions.h"

#define KERNEL1(name, type, suffix, call)                                                              \
	extern "C" __global__ void name##suffix(const type *x, const type *y, type *result, int count) \
	{                                                                                              \
		int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);                                  \
		(void)y;                                                                               \
		if (i < count)                                                                         \
			result[i] = call;                                                              \
	}
#define ONE(name, low, high, double_bound, float_bound) \
	KERNEL1(name, double, _double, name(x[i]))      \
	KERNEL1(name, float, _float, name##f(x[i]))
#define TWO(name, double_bound, float_bound)             \
	KERNEL1(name, double, _double, name(x[i], y[i])) \
	KERNEL1(name, float, _float, name##f(x[i], y[i]))
FUNCTIONS(ONE, TWO)

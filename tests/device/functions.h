/* SPDX-License-Identifier: MIT */
/*
 * The mathematics that is tested: each function, where it is asked, and the largest error that is allowed.
 *
 * ONE(name, low, high, double_bound, float_bound): random arguments come from [low, high], and half of them from all
 * sizes there are. The bounds are in units in the last place, and those of docs/cc.md; CUDA's manual allows more.
 * TWO(name, double_bound, float_bound): a function of two arguments; THREE and FOUR have more.
 * A part of two results has a name of its own, as sincos_sine: math.cu makes a function of it.
 *
 * FAST1(name, low, high, bound, slope, absolute): the fast form of float, __namef, of arguments in [low, high]. The
 * bound grows by the whole part of slope times the argument's size, and an error up to `absolute` counts as none.
 * FAST2(name, low, high, y_low, y_high, bound, absolute): of two arguments. The bounds are CUDA's manual's; of pow, tan
 * and log10 what those of PTX's instructions add up to, and of tanh PTX's.
 */
/* clang-format off */
#define FUNCTIONS(ONE, TWO, THREE, FOUR)        \
	ONE(sin, -100, 100, 0.8, 0.8)           \
	ONE(cos, -100, 100, 0.8, 0.8)           \
	ONE(tan, -100, 100, 1.0, 1.0)           \
	ONE(sinpi, -10, 10, 0.9, 0.51)          \
	ONE(cospi, -10, 10, 0.9, 0.51)          \
	ONE(asin, -1, 1, 0.7, 0.51)             \
	ONE(acos, -1, 1, 0.7, 0.51)             \
	ONE(atan, -5, 5, 1.3, 0.51)             \
	ONE(exp, -745, 710, 0.8, 1.0)           \
	ONE(exp2, -1075, 1024, 0.8, 0.9)        \
	ONE(exp10, -323, 308.5, 0.8, 1.05)      \
	ONE(expm1, -5, 5, 0.8, 0.51)            \
	ONE(log, 0, 4, 0.6, 0.85)               \
	ONE(log2, 0, 4, 0.6, 1.05)              \
	ONE(log10, 0, 4, 0.6, 1.0)              \
	ONE(log1p, -1, 4, 0.6, 0.51)            \
	ONE(sinh, -5, 5, 0.8, 0.51)             \
	ONE(cosh, -5, 5, 0.8, 0.51)             \
	ONE(tanh, -5, 5, 0.7, 1.5)              \
	ONE(asinh, -5, 5, 0.7, 0.51)            \
	ONE(acosh, 1, 5, 0.7, 0.51)             \
	ONE(atanh, -1, 1, 0.7, 0.51)            \
	ONE(sqrt, 0, 100, 0.501, 0.501)         \
	ONE(rsqrt, 0, 100, 0.6, 0.51)           \
	ONE(cbrt, -100, 100, 0.6, 0.51)         \
	ONE(rcbrt, -100, 100, 0.6, 0.51)        \
	ONE(erf, -4, 4, 1.2, 0.51)              \
	ONE(erfc, -4, 27, 3.5, 0.51)            \
	ONE(erfcx, -5, 30, 3.5, 0.51)           \
	ONE(erfinv, -1, 1, 1.6, 0.51)           \
	ONE(erfcinv, 0, 2, 1.6, 0.51)           \
	ONE(normcdf, -38, 8, 4.5, 0.51)         \
	ONE(normcdfinv, 0, 1, 2.5, 0.51)        \
	ONE(tgamma, -30, 171, 1.6, 0.51)        \
	ONE(lgamma, 0, 30, 1.6, 0.51)           \
	TWO(pow, 0.8, 0.51)                     \
	TWO(atan2, 1.3, 0.51)                   \
	TWO(hypot, 0.7, 0.51)                   \
	TWO(fmod, 0, 0)                         \
	TWO(remainder, 0, 0)                    \
	ONE(sincos_sine, -100, 100, 0.8, 0.8)   \
	ONE(sincos_cosine, -100, 100, 0.8, 0.8) \
	ONE(sincospi_sine, -10, 10, 0.9, 0.51)  \
	ONE(sincospi_cosine, -10, 10, 0.9, 0.51) \
	TWO(rhypot, 0.8, 0.51)                  \
	THREE(norm3d, 0.6, 0.51)                \
	THREE(rnorm3d, 0.8, 0.51)               \
	FOUR(norm4d, 0.6, 0.51)                 \
	FOUR(rnorm4d, 0.8, 0.51)

#define FAST_FUNCTIONS(FAST1, FAST2)                                  \
	FAST1(sin, -3.1415, 3.1415, 0, 0, 0x1.81p-22)                 \
	FAST1(cos, -3.1415, 3.1415, 0, 0, 0x1.c0p-22)                 \
	FAST1(sincos_sine, -3.1415, 3.1415, 0, 0, 0x1.81p-22)         \
	FAST1(sincos_cosine, -3.1415, 3.1415, 0, 0, 0x1.c0p-22)       \
	FAST1(tan, -1, 1, 0, 0, 0x1p-19)                              \
	FAST1(exp, -87, 88, 2.25, 1.173, 0)                           \
	FAST1(exp10, -37, 38, 2, 2.97, 0)                             \
	FAST1(log, 0, 0x1p127, 3, 0, 0x1.81p-22)                      \
	FAST1(log2, 0, 0x1p127, 2.25, 0, 0x1p-22)                     \
	FAST1(log10, 0, 0x1p127, 3, 0, 0x1p-23)                       \
	FAST1(tanh, -20, 20, 8192, 0, 0)                              \
	FAST2(pow, 0.5, 2, -8, 8, 30, 0)                              \
	FAST2(fdivide, -0x1p60, 0x1p60, 0x1p-60, 0x1p60, 2, 0)
/* clang-format on */

/* SPDX-License-Identifier: MIT */
/*
 * The mathematics that is tested: each function, where it is asked, and the largest error that is allowed.
 *
 * ONE(name, low, high, double_bound, float_bound): random arguments come from [low, high], and half of them from all
 * sizes there are. The bounds are in units in the last place, and those of docs/cc.md; CUDA's manual allows more.
 * TWO(name, double_bound, float_bound): a function of two arguments.
 */
/* clang-format off */
#define FUNCTIONS(ONE, TWO)                     \
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
	TWO(remainder, 0, 0)
/* clang-format on */

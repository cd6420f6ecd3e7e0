/* SPDX-License-Identifier: MIT */
/*
 * Functions of a device that only compute: each on the device, and beside it what C says.
 */
#include "rounding.h"

static unsigned int funnel(word both, unsigned int shift, bool left)
{
	return left ? (unsigned int)(both << shift >> 32) : (unsigned int)(both >> shift);
}
static word both(word high, word low)
{
	return (word)U(high) << 32 | U(low);
}
static unsigned int byte_perm(word a, word b, unsigned int selector)
{
	word bytes = both(b, a);
	unsigned int result = 0;
	for (int i = 0; i < 4; i++)
		result |= (unsigned int)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
	return result;
}
template <class B> static int dot(word a, word b, int c, int bits_a, int bits_b, int first)
{
	unsigned int sum = (unsigned int)c;
	for (int i = 0; i < 32 / bits_a; i++) {
		B x = (B)(U(a) >> bits_a * i << (32 - bits_a)) >> (32 - bits_a);
		B y = (B)(U(b) >> bits_b * (i + first) << (32 - bits_b)) >> (32 - bits_b);
		sum += (unsigned int)(x * y);
	}
	return (int)sum;
}

#define INTEGERS(X)                                                                                        \
	X(popc, __popc(U(a)), __builtin_popcount(U(a)))                                                    \
	X(popcll, __popcll(a), __builtin_popcountll(a))                                                    \
	X(clz, __clz(I(a)), U(a) ? __builtin_clz(U(a)) : 32)                                               \
	X(clzll, __clzll(L(a)), a ? __builtin_clzll(a) : 64)                                               \
	X(ffs, __ffs(I(a)), __builtin_ffs(I(a)))                                                           \
	X(ffsll, __ffsll(L(a)), __builtin_ffsll(L(a)))                                                     \
	X(brev, __brev(U(a)), __builtin_bitreverse32(U(a)))                                                \
	X(brevll, __brevll(a), __builtin_bitreverse64(a))                                                  \
	X(byte_perm, __byte_perm(U(a), U(b), U(c)), byte_perm(a, b, U(c)))                                 \
	X(funnel_l, __funnelshift_l(U(a), U(b), U(c)), funnel(both(b, a), U(c) & 31, true))                \
	X(funnel_r, __funnelshift_r(U(a), U(b), U(c)), funnel(both(b, a), U(c) & 31, false))               \
	X(funnel_lc, __funnelshift_lc(U(a), U(b), U(c)), funnel(both(b, a), U(c) < 32 ? U(c) : 32, true))  \
	X(funnel_rc, __funnelshift_rc(U(a), U(b), U(c)), funnel(both(b, a), U(c) < 32 ? U(c) : 32, false)) \
	X(sad, __sad(I(a), I(b), U(c)), (unsigned int)llabs((long long)I(a) - I(b)) + U(c))                \
	X(usad, __usad(U(a), U(b), U(c)), (unsigned int)llabs((long long)U(a) - U(b)) + U(c))              \
	X(hadd, __hadd(I(a), I(b)), (int)(((long long)I(a) + I(b)) >> 1))                                  \
	X(rhadd, __rhadd(I(a), I(b)), (int)(((long long)I(a) + I(b) + 1) >> 1))                            \
	X(uhadd, __uhadd(U(a), U(b)), (unsigned int)(((word)U(a) + U(b)) >> 1))                            \
	X(urhadd, __urhadd(U(a), U(b)), (unsigned int)(((word)U(a) + U(b) + 1) >> 1))                      \
	X(mulhi, __mulhi(I(a), I(b)), (int)(((long long)I(a) * I(b)) >> 32))                               \
	X(umulhi, __umulhi(U(a), U(b)), (unsigned int)(((word)U(a) * U(b)) >> 32))                         \
	X(mul64hi, __mul64hi(L(a), L(b)), (long long)(((__int128)L(a) * L(b)) >> 64))                      \
	X(umul64hi, __umul64hi(a, b), (word)(((unsigned __int128)a * b) >> 64))                            \
	X(mul24, __mul24(I(a), I(b)), (int)((long long)(I(a << 8) >> 8) * (I(b << 8) >> 8)))               \
	X(umul24, __umul24(U(a), U(b)), (unsigned int)((a & 0xffffff) * (b & 0xffffff)))                   \
	X(dp4a, __dp4a(I(a), I(b), I(c)), dot<int>(a, b, I(c), 8, 8, 0))                                   \
	X(dp4a_u, __dp4a(U(a), U(b), U(c)), (unsigned int)dot<unsigned int>(a, b, I(c), 8, 8, 0))          \
	X(dp2a_lo, __dp2a_lo(I(a), I(b), I(c)), dot<int>(a, b, I(c), 16, 8, 0))                            \
	X(dp2a_hi, __dp2a_hi(U(a), U(b), U(c)), (unsigned int)dot<unsigned int>(a, b, I(c), 16, 8, 2))     \
	X(min_int, min(I(a), I(b)), I(a) < I(b) ? I(a) : I(b))                                             \
	X(max_word, max(a, b), a > b ? a : b)                                                              \
	X(min_mixed, min(I(a), U(b)), U(a) < U(b) ? U(a) : U(b))                                           \
	X(abs_ll, llabs(L(a) | 1), L(a) < 0 ? -(L(a) | 1) : L(a) | 1)

#define ROUNDED(X, rounding, mode)                                                                                    \
	X(fadd_##rounding, __fadd_##rounding(F(a), F(b)),                                                             \
	  rounded<float>(mode, [&] { return hidden(F(a)) + hidden(F(b)); }))                                          \
	X(fsub_##rounding, __fsub_##rounding(F(a), F(b)),                                                             \
	  rounded<float>(mode, [&] { return hidden(F(a)) - hidden(F(b)); }))                                          \
	X(fmul_##rounding, __fmul_##rounding(F(a), F(b)),                                                             \
	  rounded<float>(mode, [&] { return hidden(F(a)) * hidden(F(b)); }))                                          \
	X(fdiv_##rounding, __fdiv_##rounding(F(a), F(b)),                                                             \
	  rounded<float>(mode, [&] { return hidden(F(a)) / hidden(F(b)); }))                                          \
	X(frcp_##rounding, __frcp_##rounding(F(a)), rounded<float>(mode, [&] { return 1 / hidden(F(a)); }))           \
	X(fsqrt_##rounding, __fsqrt_##rounding(F(a)), rounded<float>(mode, [&] { return sqrtf(hidden(F(a))); }))      \
	X(fmaf_##rounding, __fmaf_##rounding(F(a), F(b), F(c)),                                                       \
	  rounded<float>(mode, [&] { return fmaf(hidden(F(a)), hidden(F(b)), hidden(F(c))); }))                       \
	X(dadd_##rounding, __dadd_##rounding(D(a), D(b)),                                                             \
	  rounded<double>(mode, [&] { return hidden(D(a)) + hidden(D(b)); }))                                         \
	X(dsub_##rounding, __dsub_##rounding(D(a), D(b)),                                                             \
	  rounded<double>(mode, [&] { return hidden(D(a)) - hidden(D(b)); }))                                         \
	X(dmul_##rounding, __dmul_##rounding(D(a), D(b)),                                                             \
	  rounded<double>(mode, [&] { return hidden(D(a)) * hidden(D(b)); }))                                         \
	X(ddiv_##rounding, __ddiv_##rounding(D(a), D(b)),                                                             \
	  rounded<double>(mode, [&] { return hidden(D(a)) / hidden(D(b)); }))                                         \
	X(drcp_##rounding, __drcp_##rounding(D(a)), rounded<double>(mode, [&] { return 1 / hidden(D(a)); }))          \
	X(dsqrt_##rounding, __dsqrt_##rounding(D(a)), rounded<double>(mode, [&] { return sqrt(hidden(D(a))); }))      \
	X(fma_##rounding, __fma_##rounding(D(a), D(b), D(c)),                                                         \
	  rounded<double>(mode, [&] { return fma(hidden(D(a)), hidden(D(b)), hidden(D(c))); }))                       \
	X(f2i_##rounding, __float2int_##rounding(F(a)), (to_integer<int>(mode, F(a))))                                \
	X(f2u_##rounding, __float2uint_##rounding(F(a)), (to_integer<unsigned int>(mode, F(a))))                      \
	X(f2ll_##rounding, __float2ll_##rounding(F(a)), (to_integer<long long>(mode, F(a))))                          \
	X(f2ull_##rounding, __float2ull_##rounding(F(a)), (to_integer<word>(mode, F(a))))                             \
	X(d2i_##rounding, __double2int_##rounding(D(a)), (to_integer<int>(mode, D(a))))                               \
	X(d2u_##rounding, __double2uint_##rounding(D(a)), (to_integer<unsigned int>(mode, D(a))))                     \
	X(d2ll_##rounding, __double2ll_##rounding(D(a)), (to_integer<long long>(mode, D(a))))                         \
	X(d2ull_##rounding, __double2ull_##rounding(D(a)), (to_integer<word>(mode, D(a))))                            \
	X(d2f_##rounding, __double2float_##rounding(D(a)), rounded<float>(mode, [&] { return (float)hidden(D(a)); })) \
	X(i2f_##rounding, __int2float_##rounding(I(a)), rounded<float>(mode, [&] { return (float)hidden(I(a)); }))    \
	X(u2f_##rounding, __uint2float_##rounding(U(a)), rounded<float>(mode, [&] { return (float)hidden(U(a)); }))   \
	X(ll2f_##rounding, __ll2float_##rounding(L(a)), rounded<float>(mode, [&] { return (float)hidden(L(a)); }))    \
	X(ull2f_##rounding, __ull2float_##rounding(a), from_word<float>(mode, a))                                     \
	X(ll2d_##rounding, __ll2double_##rounding(L(a)), rounded<double>(mode, [&] { return (double)hidden(L(a)); })) \
	X(ull2d_##rounding, __ull2double_##rounding(a), from_word<double>(mode, a))

/* A 64-bit unsigned integer in a rounding: x86 has no instruction for it, so of its upper half and a sticky bit. */
template <class T> static T from_word(int mode, word a)
{
	if (!(a >> 63))
		return rounded<T>(mode, [&] { return (T)hidden(L(a)); });
	return 2 * rounded<T>(mode, [&] { return (T)hidden(L(a >> 1 | (a & 1))); });
}

/* Exact functions of <cmath>, with those of the C library beside them. */
template <class T, class E> __host__ __device__ static inline word with(T fraction, E other)
{
	return bits_of(fraction) ^ bits_of(other) * 0x9e3779b97f4a7c15ull;
}
/* No signaling NaN, of either type: C's fmin() makes a NaN of it, a device the other number. */
__host__ __device__ static inline word quiet(word a)
{
	a = (a & 0x7f800000) == 0x7f800000 && (a & 0x7fffff) ? a | 0x400000 : a;
	return a << 1 > 0xffe0000000000000ull ? a | 0x8000000000000ull : a;
}
__host__ __device__ static inline int exponent_of(word c)
{
	return (int)(c % 5000) - 2500;
}
#define EXACT(X)                                                                                                \
	X(as_int, __float_as_int(F(a)) ^ __double2hiint(D(b)) ^ __double2loint(D(b)), I(a) ^ I(b >> 32) ^ I(b)) \
	X(as_float, __int_as_float(I(a)), F(a))                                                                 \
	X(as_double, __hiloint2double(I(a), I(b)), D(both(a, b)))                                               \
	X(ceil_d, ceil(D(a)), ceil(D(a)))                                                                       \
	X(ceil_f, ceilf(F(a)), ceilf(F(a)))                                                                     \
	X(floor_d, floor(D(a)), floor(D(a)))                                                                    \
	X(floor_f, floorf(F(a)), floorf(F(a)))                                                                  \
	X(trunc_d, trunc(D(a)), trunc(D(a)))                                                                    \
	X(trunc_f, truncf(F(a)), truncf(F(a)))                                                                  \
	X(rint_d, rint(D(a)), rint(D(a)))                                                                       \
	X(rint_f, nearbyintf(F(a)), nearbyintf(F(a)))                                                           \
	X(round_d, round(D(a)), round(D(a)))                                                                    \
	X(round_f, roundf(F(a)), roundf(F(a)))                                                                  \
	X(fabs_d, fabs(D(a)), fabs(D(a)))                                                                       \
	X(fmin_d, fmin(D(quiet(a)), D(quiet(b))) + 0.0, fmin(D(quiet(a)), D(quiet(b))) + 0.0)                   \
	X(fmax_f, fmaxf(F(quiet(a)), F(quiet(b))) + 0.0f, fmaxf(F(quiet(a)), F(quiet(b))) + 0.0f)               \
	X(fdim_d, fdim(D(a), D(b)), fdim(D(a), D(b)))                                                           \
	X(fdim_f, fdimf(F(a), F(b)), fdimf(F(a), F(b)))                                                         \
	X(copysign_d, copysign(D(a), D(b)), copysign(D(a), D(b)))                                               \
	X(copysign_f, copysignf(F(a), F(b)), copysignf(F(a), F(b)))                                             \
	X(nextafter_d, nextafter(D(a), D(b)), nextafter(D(a), D(b)))                                            \
	X(nextafter_f, nextafterf(F(a), F(b)), nextafterf(F(a), F(b)))                                          \
	X(ldexp_d, ldexp(D(a), exponent_of(c)), ldexp(D(a), exponent_of(c)))                                    \
	X(ldexp_f, ldexpf(F(a), exponent_of(c) / 8), ldexpf(F(a), exponent_of(c) / 8))                          \
	X(scalbln_d, scalbln(D(a), (long)exponent_of(c)), scalbln(D(a), (long)exponent_of(c)))                  \
	X(logb_d, logb(D(a)), logb(D(a)))                                                                       \
	X(logb_f, logbf(F(a)), logbf(F(a)))                                                                     \
	X(ilogb_d, D(a) == D(a) ? ilogb(D(a)) : 0, D(a) == D(a) ? ilogb(D(a)) : 0)                              \
	X(ilogb_f, F(a) == F(a) ? ilogbf(F(a)) : 0, F(a) == F(a) ? ilogbf(F(a)) : 0)                            \
	X(classes, fpclassify(D(a)) * 8 + isnan(F(a)) + 2 * isinf(F(b)) + 4 * signbit(D(b)),                    \
	  std::fpclassify(D(a)) * 8 + std::isnan(F(a)) + 2 * std::isinf(F(b)) + 4 * std::signbit(D(b)))         \
	X(fma_d, fma(D(a), D(b), D(c)), fma(D(a), D(b), D(c)))                                                  \
	X(frsqrt, __frsqrt_rn(F(a)), (float)(1 / sqrt((double)F(a))))                                           \
	X(saturate, __saturatef(F(a)), F(a) > 0 ? (F(a) < 1 ? F(a) : 1.0f) : 0.0f)

/* Functions with a second result. */
struct case_frexp {
	template <class T> static __host__ __device__ word both_results(T x)
	{
		int exponent = 0;
		T fraction = frexp(x, &exponent);
		return with(fraction, x == x && x - x == 0 ? exponent : 0);
	}
	static __device__ word device(word a, word b, word)
	{
		return both_results(D(a)) + both_results(F(b));
	}
	static word host(word a, word b, word)
	{
		return both_results(D(a)) + both_results(F(b));
	}
};
struct case_modf {
	template <class T> static __host__ __device__ word both_results(T x)
	{
		T whole = 0, rest = modf(x, &whole);
		return with(rest, whole);
	}
	static __device__ word device(word a, word b, word)
	{
		return both_results(D(a)) + both_results(F(b));
	}
	static word host(word a, word b, word)
	{
		return both_results(D(a)) + both_results(F(b));
	}
};
struct case_remquo {
	template <class T> static __host__ __device__ word both_results(T x, T y)
	{
		int quotient = 0;
		T rest = remquo(x, y, &quotient);
		return with(rest, rest == rest ? (quotient < 0 ? -quotient : quotient) & 7 : 0);
	}
	static __device__ word device(word a, word b, word)
	{
		return both_results(D(a), D(b)) + both_results(F(a), F(b));
	}
	static word host(word a, word b, word)
	{
		return both_results(D(a), D(b)) + both_results(F(a), F(b));
	}
};

#define ALL(X)                        \
	INTEGERS(X)                   \
	ROUNDED(X, rn, FE_TONEAREST)  \
	ROUNDED(X, rz, FE_TOWARDZERO) \
	ROUNDED(X, rd, FE_DOWNWARD)   \
	ROUNDED(X, ru, FE_UPWARD)     \
	EXACT(X)
ALL(CASE)

int main()
{
	ALL(CHECK_CASE)
	check_case<case_frexp>("frexp");
	check_case<case_modf>("modf");
	check_case<case_remquo>("remquo");
	printf("1..%d\n", test_count);
	return test_failures != 0;
}

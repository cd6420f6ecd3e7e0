/* SPDX-License-Identifier: MIT */
/*
 * Functions of a device that only compute: each on the device, and beside it what C says.
 */
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
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

/* Half precision: instructions on the device, their meaning in software on the host. */
#define H(a) __ushort_as_half((unsigned short)(a))
__host__ __device__ static inline unsigned short half_bits(__half a)
{
	return __hisnan(a) ? 0x7fff : __half_as_ushort(a);
}
__host__ __device__ static inline word half_pair(__half2 a)
{
	return (word)half_bits(a.x) << 16 | half_bits(a.y);
}
#define SAME(X, name, expression) X(name, expression, expression)
#define HALVES(X)                                                                                             \
	SAME(X, half_rn, half_bits(__float2half_rn(F(a))))                                                    \
	SAME(X, half_rz, half_bits(__float2half_rz(F(a))))                                                    \
	SAME(X, half_rd, half_bits(__float2half_rd(F(a))))                                                    \
	SAME(X, half_ru, half_bits(__float2half_ru(F(a))))                                                    \
	SAME(X, half_d, half_bits(__double2half(D(a))))                                                       \
	SAME(X, half_i, half_bits(__int2half_rn(I(a) >> I(c) % 32)) + half_bits(__int2half_rz(I(a) >> 16)))   \
	SAME(X, half_u, half_bits(__uint2half_rd(U(a) >> 16)) + half_bits(__uint2half_ru(U(a) >> U(c) % 32))) \
	SAME(X, half_ll, half_bits(__ll2half_rn(L(a) >> c % 64)) + half_bits(__ull2half_rn(a >> c % 64)))     \
	SAME(X, half_float, __half2float(H(a)))                                                               \
	SAME(X, half_add, half_bits(__hadd(H(a), H(b))))                                                      \
	SAME(X, half_sub, half_bits(__hsub(H(a), H(b))))                                                      \
	SAME(X, half_mul, half_bits(__hmul(H(a), H(b))))                                                      \
	SAME(X, half_div, half_bits(__hdiv(H(a), H(b))))                                                      \
	SAME(X, half_fma, half_bits(__hfma(H(a), H(b), H(c))))                                                \
	SAME(X, half_sat, half_bits(__hfma_sat(H(a), H(b), H(c))) + half_bits(__hadd_sat(H(a), H(b))))        \
	SAME(X, half_relu, half_bits(__hfma_relu(H(a), H(b), H(c))))                                          \
	SAME(X, half_min, half_bits(__hmin(H(a), H(b))) + 3 * half_bits(__hmax_nan(H(a), H(b))))              \
	SAME(X, half_signs, half_bits(__hneg(H(a))) + 3 * half_bits(__habs(H(b))) + 5 * __hisinf(H(c)))       \
	SAME(X, half_order,                                                                                   \
	     __heq(H(a), H(b)) + 2 * __hne(H(a), H(b)) + 4 * __hlt(H(a), H(b)) + 8 * __hleu(H(a), H(b)) +     \
		     16 * __hgt(H(a), H(b)) + 32 * __hgeu(H(a), H(b)))                                        \
	SAME(X, half_pairs,                                                                                   \
	     half_pair(__hfma2(__halves2half2(H(a), H(b)), __half2half2(H(c)), __lows2half2(H2(b), H2(a)))) + \
		     half_pair(__hgt2(H2(a), H2(b))) * 3 + __hblt2(H2(a), H2(b)))                             \
	X(half_int, __half2int_rn(H(a)) + 3 * __half2short_rz(H(b)), half_to_int(a, b))                       \
	X(half_sqrt, half_bits(hsqrt(H(a))), half_bits(__half(sqrtf((float)H(a)))))                           \
	X(half_floor, half_bits(hfloor(H(a))), half_bits(__half(floorf((float)H(a)))))
__host__ __device__ static inline __half2 H2(word a)
{
	return __halves2half2(H(a >> 16), H(a >> 32));
}
static int half_to_int(word a, word b)
{
	int whole = to_integer<int>(FE_TOWARDZERO, (float)H(b));
	return to_integer<int>(FE_TONEAREST, (float)H(a)) + 3 * (whole < -32768  ? -32768
								 : whole > 32767 ? 32767
										 : whole);
}

/* bfloat16, beside a sum in long double and its error: to eight bits, halves to even or where the error points. */
#define B(a) __ushort_as_bfloat16((unsigned short)(a))
__host__ __device__ static inline unsigned short bf16_bits(__nv_bfloat16 a)
{
	return __hisnan(a) ? 0x7fff : __bfloat16_as_ushort(a);
}
static unsigned short bf16_of(long double value, long double error = 0)
{
	int exponent;
	if (value != value)
		return 0x7fff;
	if (value == 0 || isinf(value))
		return bf16_bits(__ushort_as_bfloat16((unsigned short)(bits_of((float)value) >> 16)));
	frexpl(value, &exponent);
	exponent = exponent < -125 ? -125 : exponent;
	long double scaled = ldexpl(value, 8 - exponent), whole = rintl(scaled);
	if (error != 0 && fabsl(scaled - truncl(scaled)) == 0.5L)
		whole = error > 0 ? ceill(scaled) : floorl(scaled);
	float rounded = (float)copysignl(ldexpl(whole, exponent - 8), value);
	return (unsigned short)(bits_of(rounded) >> 16);
}
static unsigned short bf16_fma(word a, word b, word c)
{
	long double product = (long double)(float)B(a) * (float)B(b), add = (float)B(c), sum = product + add;
	long double part = sum - product;
	return bf16_of(sum, (product - (sum - part)) + (add - part));
}
#define BF16(X)                                                                                               \
	X(bf16_rn, bf16_bits(__float2bfloat16(F(a))), bf16_of(F(a)))                                          \
	X(bf16_d, bf16_bits(__double2bfloat16(D(a))), bf16_of(D(a)))                                          \
	X(bf16_i, bf16_bits(__int2bfloat16_rn(I(a) >> I(c) % 32)), bf16_of((long double)(I(a) >> I(c) % 32))) \
	X(bf16_ll, bf16_bits(__ll2bfloat16_rn(L(a) >> c % 64)), bf16_of((long double)(L(a) >> c % 64)))       \
	X(bf16_float, __bfloat162float(B(a)), F((word)(unsigned short)a << 16))                               \
	X(bf16_add, bf16_bits(__hadd(B(a), B(b))), bf16_of((long double)(float)B(a) + (float)B(b)))           \
	X(bf16_sub, bf16_bits(__hsub(B(a), B(b))), bf16_of((long double)(float)B(a) - (float)B(b)))           \
	X(bf16_mul, bf16_bits(__hmul(B(a), B(b))), bf16_of((long double)(float)B(a) * (float)B(b)))           \
	X(bf16_div, bf16_bits(__hdiv(B(a), B(b))), bf16_of((long double)(float)B(a) / (float)B(b)))           \
	X(bf16_fma, bf16_bits(__hfma(B(a), B(b), B(c))), bf16_fma(a, b, c))                                   \
	X(bf16_order, __hlt(B(a), B(b)) + 2 * __hgeu(B(a), B(b)),                                             \
	  ((float)B(a) < (float)B(b)) + 2 * !((float)B(a) < (float)B(b)))

#define DEFINE(name, on_device, on_host) CASE(name, on_device, on_host)
#define CHECK(name, on_device, on_host)  check_case<case_##name>(#name);
#define ALL(X)                        \
	INTEGERS(X)                   \
	ROUNDED(X, rn, FE_TONEAREST)  \
	ROUNDED(X, rz, FE_TOWARDZERO) \
	ROUNDED(X, rd, FE_DOWNWARD)   \
	ROUNDED(X, ru, FE_UPWARD)     \
	EXACT(X)                      \
	HALVES(X)                     \
	BF16(X)
ALL(DEFINE)

int main()
{
	ALL(CHECK)
	check_case<case_frexp>("frexp");
	check_case<case_modf>("modf");
	check_case<case_remquo>("remquo");
	printf("1..%d\n", test_count);
	return test_failures != 0;
}

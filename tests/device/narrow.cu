/* SPDX-License-Identifier: MIT */
/*
 * The 16-bit types, __half and __nv_bfloat16: their functions by CUDA's names, beside what these mean.
 *
 * The meaning is written here from the formats: a number is a whole number of DIGITS binary digits times a power of two,
 * and long double holds it. Functions of one number are asked about all 65,536.
 */
#include "rounding.h"
#include <algorithm>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

/*
 * ---- The formats ----------------------------------------------------------------------------------------------------
 */

/* The digits of a number, frexp()'s exponent of the smallest one that has all of them, and infinity's bits. */
template <class T> struct format;
template <> struct format<__half> {
	typedef __half2 pair;
	enum { DIGITS = 11, LEAST = -13, INFINITE = 0x7c00 };
};
template <> struct format<__nv_bfloat16> {
	typedef __nv_bfloat162 pair;
	enum { DIGITS = 8, LEAST = -125, INFINITE = 0x7f80 };
};

template <class T> static long double value_of(word bits)
{
	const int size = (int)(bits & 0x7fff), step = 1 << (format<T>::DIGITS - 1);
	const int exponent = size / step, whole = size % step + (exponent ? step : 0);
	long double value = ldexpl(whole, (exponent ? exponent - 1 : 0) + format<T>::LEAST - format<T>::DIGITS);
	if (size >= format<T>::INFINITE)
		value = size > format<T>::INFINITE ? NAN : INFINITY;
	return bits & 0x8000 ? -value : value;
}

/* The bits of a value, rounded; where it is rounded itself, to half a unit, `error` says to which side of that it is. */
template <class T> static unsigned short encode(long double value, int mode = FE_TONEAREST, long double error = 0)
{
	const unsigned int sign = __builtin_signbit(value) ? 0x8000 : 0;
	int exponent;
	if (value != value)
		return 0x7fff;
	if (value == 0 || value - value != 0)
		return (unsigned short)(sign | (value == 0 ? 0 : format<T>::INFINITE));
	frexpl(value, &exponent);
	exponent = std::max(exponent, (int)format<T>::LEAST);
	long double scaled = ldexpl(value, format<T>::DIGITS - exponent);
	long double whole = rounded<long double>(mode, [&] { return rintl(hidden(scaled)); });
	if (error != 0 && fabsl(scaled - truncl(scaled)) == 0.5L)
		whole = error > 0 ? ceill(scaled) : floorl(scaled);
	unsigned int bits =
		(unsigned int)fabsl(whole) + ((unsigned int)(exponent - format<T>::LEAST) << (format<T>::DIGITS - 1));
	bool up = mode == FE_TONEAREST || mode == (sign ? FE_DOWNWARD : FE_UPWARD);
	if (bits >= format<T>::INFINITE)
		bits = up ? format<T>::INFINITE : format<T>::INFINITE - 1;
	return (unsigned short)(sign | bits);
}

/* The bits of a number; all NaNs have the same. */
template <class T> __host__ __device__ static inline unsigned short bits(T a)
{
	unsigned short raw = (unsigned short)bits_of(a);
	return (raw & 0x7fff) > format<T>::INFINITE ? 0x7fff : raw;
}
template <class P> __host__ __device__ static inline word pair_bits(P a)
{
	return (word)bits(a.y) << 16 | bits(a.x);
}
__host__ __device__ static inline word pack(word a, word b, word c = 0, word d = 0)
{
	return (a & 0xffff) | (b & 0xffff) << 16 | (c & 0xffff) << 32 | d << 48;
}
/* A word that is another if one of these is. */
__host__ __device__ static inline word mix(word a, word b, word c = 0, word d = 0)
{
	const word odd = 0x9e3779b97f4a7c15ull;
	return ((a * odd + b) * odd + c) * odd + d;
}

/*
 * ---- What functions mean --------------------------------------------------------------------------------------------
 */

template <class T> static unsigned short saturated(unsigned short bits)
{
	long double value = value_of<T>(bits);
	return value > 0 ? (value < 1 ? bits : encode<T>(1)) : 0;
}
template <class T> static word with_saturated(unsigned short bits)
{
	return pack(bits, bits, saturated<T>(bits), bits);
}
template <class T> static unsigned short fma_of(word a, word b, word c)
{
	long double product = value_of<T>(a) * value_of<T>(b), add = value_of<T>(c), sum = product + add;
	long double part = sum - product;
	return encode<T>(sum, FE_TONEAREST, (product - (sum - part)) + (add - part));
}
template <class T> static word fmas(unsigned short bits)
{
	return pack(bits, saturated<T>(bits), value_of<T>(bits) <= 0 ? 0 : bits);
}
/* The smaller one or the larger one; a NaN counts as nothing, or before all (nan). */
template <class T> static unsigned short extreme(word a, word b, bool larger, bool nan)
{
	long double x = value_of<T>(a), y = value_of<T>(b);
	if (x != x || y != y)
		return nan || (x != x && y != y) ? 0x7fff : (unsigned short)(x != x ? b : a);
	bool first = x == y ? larger == !__builtin_signbit(x) : (x > y) == larger;
	return (unsigned short)(first ? a : b);
}
static int clamped(int whole, int low, int high)
{
	return std::min(std::max(whole, low), high);
}
template <class T> static int infinity_of(word a)
{
	return (a & 0x7fff) == format<T>::INFINITE ? (a & 0x8000 ? -1 : 1) : 0;
}

/* Pairs: of a word's low halves. */
template <class T> __host__ __device__ static inline typename format<T>::pair two(word a)
{
	return typename format<T>::pair(of<T>(a), of<T>(a >> 16));
}
template <class T, class Body> static word each(Body body)
{
	return (word)body(16) << 16 | body(0);
}
template <class T> __host__ __device__ static inline word stepped(T up, T down)
{
	++up, --down;
	return pack(bits(up), bits(down));
}

/*
 * ---- Cases ----------------------------------------------------------------------------------------------------------
 *
 * T is the type, name its word in CUDA's names: half, bfloat16.
 */

#define N(a) of<T>(a)
#define V(a) value_of<T>(a)
/* A function in all roundings, and its meaning. */
#define IN_ROUNDINGS(combine, function, a) \
	combine(function##_rn(a), function##_rz(a), function##_rd(a), function##_ru(a))
#define PACK_BITS(a, b, c, d) pack(bits(a), bits(b), bits(c), bits(d))
#define MEANT(combine, meaning) \
	combine(meaning(FE_TONEAREST), meaning(FE_TOWARDZERO), meaning(FE_DOWNWARD), meaning(FE_UPWARD))
#define FROM(X, name, type, number)                                               \
	X(name##_from_##type, IN_ROUNDINGS(PACK_BITS, __##type##2##name, number), \
	  MEANT(pack, [&](int mode) { return encode<T>(number, mode); }))
#define TO(X, name, type, meaning)                                            \
	X(name##_to_##type, IN_ROUNDINGS(mix, (word)__##name##2##type, N(a)), \
	  MEANT(mix, [&](int mode) { return (word)(meaning); }))
#define CONVERSIONS(X, name)                                                                                 \
	X(name##_value, __##name##2float(N(a)), (float)V(a))                                                 \
	X(name##_as_bits,                                                                                    \
	  pack(__##name##_as_ushort(N(a)), (word)__##name##_as_short(N(b)),                                  \
	       bits_of(__ushort_as_##name((unsigned short)c)), bits_of(__short_as_##name((short)b))),        \
	  pack(a, b, c, b))                                                                                  \
	FROM(X, name, float, F(a))                                                                           \
	FROM(X, name, int, I(a) >> c % 32)                                                                   \
	FROM(X, name, uint, U(a) >> c % 32)                                                                  \
	FROM(X, name, short, of<short>(a))                                                                   \
	FROM(X, name, ushort, of<unsigned short>(a))                                                         \
	X(name##_from_wide,                                                                                  \
	  PACK_BITS(__double2##name(D(a)), __ll2##name##_rn(L(a) >> c % 64), __ull2##name##_rn(a >> c % 64), \
		    __float2##name(F(a))),                                                                   \
	  pack(encode<T>(D(a)), encode<T>(L(a) >> c % 64), encode<T>(a >> c % 64), encode<T>(F(a))))         \
	X(name##_made_of, PACK_BITS(T(of<long>(a)), T(of<unsigned long>(a)), T(of<short>(a)), T(U(a))),      \
	  pack(encode<T>(L(a)), encode<T>(a), encode<T>(of<short>(a)), encode<T>(U(a))))                     \
	TO(X, name, int, to_integer<int>(mode, (float)V(a)))                                                 \
	TO(X, name, uint, to_integer<unsigned int>(mode, (float)V(a)))                                       \
	TO(X, name, ll, to_integer<long long>(mode, (float)V(a)))                                            \
	TO(X, name, ull, to_integer<word>(mode, (float)V(a)))                                                \
	TO(X, name, short, clamped(to_integer<int>(mode, (float)V(a)), -32768, 32767))                       \
	TO(X, name, ushort, clamped(to_integer<int>(mode, (float)V(a)), 0, 65535))

#define ARITHMETIC(X, name, operation, sign)                                                                       \
	X(name##_##operation,                                                                                      \
	  PACK_BITS(__h##operation(N(a), N(b)), __h##operation##_rn(N(a), N(b)), __h##operation##_sat(N(a), N(b)), \
		    N(a) sign N(b)),                                                                               \
	  with_saturated<T>(encode<T>(V(a) sign V(b))))                                                            \
	X(name##_##operation##2,                                                                                   \
	  mix(pair_bits(__h##operation##2(two<T>(a), two<T>(b))),                                                  \
	      pair_bits(__h##operation##2_rn(two<T>(a), two<T>(b))),                                               \
	      pair_bits(__h##operation##2_sat(two<T>(a), two<T>(b))), pair_bits(two<T>(a) sign two<T>(b))),        \
	  sums2<T>([&](int at) { return encode<T>(V(a >> at) sign V(b >> at)); }))
template <class T, class Body> static word sums2(Body body)
{
	word plain = each<T>(body), cut = each<T>([&](int at) { return saturated<T>(body(at)); });
	return mix(plain, plain, cut, plain);
}
/* A comparison: false with a NaN, or true (u); of each of two, or of both (b). */
#define COMPARISON(X, name, relation, sign)                                                                           \
	X(name##_##relation,                                                                                          \
	  mix(__h##relation(N(a), N(b)) + 2 * __h##relation##u(N(a), N(b)) + 4 * (N(a) sign N(b)) +                   \
		      8 * (two<T>(a) sign two<T>(b)),                                                                 \
	      __hb##relation##2(two<T>(a), two<T>(b)) + 2 * __hb##relation##u2(two<T>(a), two<T>(b)),                 \
	      pair_bits(__h##relation##2(two<T>(a), two<T>(b))), pair_bits(__h##relation##u2(two<T>(a), two<T>(b)))), \
	  compared<T>(a, b, [](long double x, long double y) { return x sign y; }))
template <class T, class Body> static word compared(word a, word b, Body holds)
{
	int plain[2], strict[2], loose[2];
	for (int i = 0; i < 2; i++) {
		long double x = V(a >> 16 * i), y = V(b >> 16 * i);
		bool unordered = x != x || y != y;
		plain[i] = holds(x, y), strict[i] = plain[i] && !unordered, loose[i] = plain[i] || unordered;
	}
	return mix(strict[0] + 2 * loose[0] + 4 * plain[0] + 8 * (plain[0] && plain[1]),
		   (strict[0] && strict[1]) + 2 * (loose[0] && loose[1]),
		   each<T>([&](int at) { return encode<T>(strict[at / 16]); }),
		   each<T>([&](int at) { return encode<T>(loose[at / 16]); }));
}

#define NUMBERS(X, name)                                                                                          \
	ARITHMETIC(X, name, add, +)                                                                               \
	ARITHMETIC(X, name, sub, -)                                                                               \
	ARITHMETIC(X, name, mul, *)                                                                               \
	X(name##_div,                                                                                             \
	  mix(pack(bits(__hdiv(N(a), N(b))), bits(N(a) / N(b))), pair_bits(__h2div(two<T>(a), two<T>(b)))),       \
	  mix(pack(encode<T>(V(a) / V(b)), encode<T>(V(a) / V(b))),                                               \
	      each<T>([&](int at) { return encode<T>(V(a >> at) / V(b >> at)); })))                               \
	X(name##_fma,                                                                                             \
	  PACK_BITS(__hfma(N(a), N(b), N(c)), __hfma_sat(N(a), N(b), N(c)), __hfma_relu(N(a), N(b), N(c)), T(0)), \
	  fmas<T>(fma_of<T>(a, b, c)))                                                                            \
	X(name##_fma2,                                                                                            \
	  mix(pair_bits(__hfma2(two<T>(a), two<T>(b), two<T>(c))),                                                \
	      pair_bits(__hfma2_sat(two<T>(a), two<T>(b), two<T>(c))),                                            \
	      pair_bits(__hfma2_relu(two<T>(a), two<T>(b), two<T>(c)))),                                          \
	  fmas2<T>(fmas<T>(fma_of<T>(a, b, c)), fmas<T>(fma_of<T>(a >> 16, b >> 16, c >> 16))))                   \
	X(name##_extremes,                                                                                        \
	  PACK_BITS(__hmin(N(a), N(b)), __hmin_nan(N(a), N(b)), __hmax(N(a), N(b)), __hmax_nan(N(a), N(b))),      \
	  pack(extreme<T>(a, b, false, false), extreme<T>(a, b, false, true), extreme<T>(a, b, true, false),      \
	       extreme<T>(a, b, true, true)))                                                                     \
	X(name##_extremes2,                                                                                       \
	  mix(pair_bits(__hmin2(two<T>(a), two<T>(b))), pair_bits(__hmin2_nan(two<T>(a), two<T>(b))),             \
	      pair_bits(__hmax2(two<T>(a), two<T>(b))), pair_bits(__hmax2_nan(two<T>(a), two<T>(b)))),            \
	  mix(each<T>([&](int at) { return extreme<T>(a >> at, b >> at, false, false); }),                        \
	      each<T>([&](int at) { return extreme<T>(a >> at, b >> at, false, true); }),                         \
	      each<T>([&](int at) { return extreme<T>(a >> at, b >> at, true, false); }),                         \
	      each<T>([&](int at) { return extreme<T>(a >> at, b >> at, true, true); })))                         \
	X(name##_signs,                                                                                           \
	  mix(PACK_BITS(__hneg(N(a)), __habs(N(a)), -N(a), +N(a)), __hisinf(N(a)) + 2 * __hisnan(N(a)),           \
	      pair_bits(__hneg2(two<T>(a))), pair_bits(__habs2(two<T>(a)))),                                      \
	  mix(pack(encode<T>(-V(a)), encode<T>(fabsl(V(a))), encode<T>(-V(a)), encode<T>(V(a))),                  \
	      infinity_of<T>(a) + 2 * (V(a) != V(a)), each<T>([&](int at) { return encode<T>(-V(a >> at)); }),    \
	      each<T>([&](int at) { return encode<T>(fabsl(V(a >> at))); })))                                     \
	X(name##_steps, stepped(N(a), N(b)), pack(encode<T>(V(a) + 1), encode<T>(V(b) - 1)))                      \
	COMPARISON(X, name, eq, ==)                                                                               \
	COMPARISON(X, name, ne, !=)                                                                               \
	COMPARISON(X, name, lt, <)                                                                                \
	COMPARISON(X, name, le, <=)                                                                               \
	COMPARISON(X, name, gt, >)                                                                                \
	COMPARISON(X, name, ge, >=)
template <class T> static word fmas2(word low, word high)
{
	word of_each[3];
	for (int i = 0; i < 3; i++)
		of_each[i] = (high >> 16 * i & 0xffff) << 16 | (low >> 16 * i & 0xffff);
	return mix(of_each[0], of_each[1], of_each[2]);
}

/* Pairs that are made of parts, and parts of pairs: x is the low half. */
#define PAIRS(X, name)                                                                                             \
	X(name##_pairs_made,                                                                                       \
	  mix(mix(pair_bits(__halves2##name##2(N(a), N(b))), pair_bits(make_##name##2(N(b), N(a))),                \
		  pair_bits(__##name##2##name##2(N(c))), pair_bits(__lowhigh2highlow(two<T>(a)))),                 \
	      mix(pair_bits(__low2##name##2(two<T>(a))), pair_bits(__high2##name##2(two<T>(a))),                   \
		  pair_bits(__lows2##name##2(two<T>(a), two<T>(b))),                                               \
		  pair_bits(__highs2##name##2(two<T>(a), two<T>(b))))),                                            \
	  mix(mix(halves<T>(a, b), halves<T>(b, a), halves<T>(c, c), halves<T>(a >> 16, a)),                       \
	      mix(halves<T>(a, a), halves<T>(a >> 16, a >> 16), halves<T>(a, b), halves<T>(a >> 16, b >> 16))))    \
	X(name##_pairs_of_float,                                                                                   \
	  mix(pair_bits(__float2##name##2_rn(F(a))), pair_bits(__floats2##name##2_rn(F(a), F(b))),                 \
	      pair_bits(__float22##name##2_rn(make_float2(F(b), F(a))))),                                          \
	  mix(halves<T>(encode<T>(F(a)), encode<T>(F(a))), halves<T>(encode<T>(F(a)), encode<T>(F(b))),            \
	      halves<T>(encode<T>(F(b)), encode<T>(F(a)))))                                                        \
	X(name##_pairs_to_float,                                                                                   \
	  mix(bits_of(__low2float(two<T>(a))), bits_of(__high2float(two<T>(a))),                                   \
	      bits_of(__##name##22float2(two<T>(a)).x), bits_of(__##name##22float2(two<T>(a)).y)),                 \
	  mix(bits_of((float)V(a)), bits_of((float)V(a >> 16)), bits_of((float)V(a)), bits_of((float)V(a >> 16)))) \
	X(name##_pairs_parts, PACK_BITS(__low2##name(two<T>(a)), __high2##name(two<T>(a)), T(0), T(0)),            \
	  pack(bits(N(a)), bits(N(a >> 16))))
template <class T> static word halves(word low, word high)
{
	return (word)bits(N(high)) << 16 | bits(N(low));
}

#define ALL(X, name)         \
	CONVERSIONS(X, name) \
	NUMBERS(X, name)     \
	PAIRS(X, name)

/*
 * ---- Mathematics ----------------------------------------------------------------------------------------------------
 *
 * Of all numbers. A function is that of float, which is wrong by less than 2^-22 of the result (docs/cc.md), rounded.
 */

#define FUNCTIONS(X)           \
	X(sqrt, sqrtl(x))      \
	X(rsqrt, 1 / sqrtl(x)) \
	X(rcp, 1 / x)          \
	X(exp, expl(x))        \
	X(exp2, exp2l(x))      \
	X(exp10, exp10l(x))    \
	X(log, logl(x))        \
	X(log2, log2l(x))      \
	X(log10, log10l(x))    \
	X(sin, sinl(x))        \
	X(cos, cosl(x))        \
	X(tanh, tanhl(x))      \
	X(floor, floorl(x))    \
	X(ceil, ceill(x))      \
	X(trunc, truncl(x))    \
	X(rint, rintl(x))

enum { NUMBER_COUNT = 65536, OTHER = 0x8421 };

/* A number's result in the low bits; above, those of a pair of it and another one. */
template <class T, class Function> __global__ void run_function(word *out)
{
	unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
	typename format<T>::pair results = Function::two(two<T>(i | (i ^ OTHER) << 16));
	out[i] = bits(Function::one(of<T>(i))) | pair_bits(results) << 16;
}

template <class T, class Function> static void check_function(const char *type, const char *name)
{
	std::vector<word> out(NUMBER_COUNT);
	char text[64];
	word *room;
	int wrong = 0;
	require(cudaMalloc(&room, NUMBER_COUNT * sizeof *room), "memory");
	run_function<T, Function><<<NUMBER_COUNT / 256, 256>>>(room);
	require(cudaGetLastError(), name);
	require(cudaMemcpy(out.data(), room, NUMBER_COUNT * sizeof *room, cudaMemcpyDeviceToHost), name);
	require(cudaFree(room), "free");
	for (int i = 0; i < NUMBER_COUNT; i++) {
		long double right = Function::right(value_of<T>(i)), slack = fabsl(right) * 0x1p-22L + 0x1p-149L;
		unsigned short result = (unsigned short)out[i];
		bool ok = result == encode<T>(right) || result == encode<T>(right - slack) ||
			  result == encode<T>(right + slack);
		ok &= out[i] >> 16 == ((out[i ^ OTHER] & 0xffff) << 16 | result);
		if (!ok && wrong++ < 3)
			printf("# %s of %x: %llx, not %x\n", name, i, out[i], encode<T>(right));
	}
	snprintf(text, sizeof text, "%s_h%s", type, name);
	report(!wrong, text);
}

#define FUNCTION(name, meaning)                                 \
	struct function_##name {                                \
		template <class T> static __device__ T one(T a) \
		{                                               \
			return h##name(a);                      \
		}                                               \
		template <class P> static __device__ P two(P a) \
		{                                               \
			return h2##name(a);                     \
		}                                               \
		static long double right(long double x)         \
		{                                               \
			return meaning;                         \
		}                                               \
	};
FUNCTIONS(FUNCTION)
#define CHECK_FUNCTION(name, meaning) check_function<T, function_##name>(type, #name);
template <class T> static void check_functions(const char *type)
{
	FUNCTIONS(CHECK_FUNCTION)
}

/*
 * ---- Between threads ------------------------------------------------------------------------------------------------
 */

enum { LANES = 32, WARPS = 2, THREADS = LANES * WARPS, MOVES = 10 };

/* A value by each shuffle, and by each load. */
template <class V> __device__ static void move(const V *values, word *row)
{
	V value = values[threadIdx.x];
	row[0] = bits_of(__shfl_sync(~0u, value, 5));
	row[1] = bits_of(__shfl_up_sync(~0u, value, 3u));
	row[2] = bits_of(__shfl_down_sync(~0u, value, 3u));
	row[3] = bits_of(__shfl_xor_sync(~0u, value, 7));
	row[4] = bits_of(__ldg(values + threadIdx.x));
	row[5] = bits_of(__ldca(values + threadIdx.x));
	row[6] = bits_of(__ldcg(values + threadIdx.x));
	row[7] = bits_of(__ldcs(values + threadIdx.x));
	row[8] = bits_of(__ldlu(values + threadIdx.x));
	row[9] = bits_of(__ldcv(values + threadIdx.x));
}

template <class T, class P> __global__ void meet(const T *numbers, const P *pairs, word *out, T *sum, P *sums)
{
	word *row = out + (blockIdx.x * LANES + threadIdx.x) * (2 * MOVES + 2);
	move(numbers, row);
	move(pairs, row + MOVES);
	row[2 * MOVES] = bits(atomicAdd(sum, T(1)));
	row[2 * MOVES + 1] = pair_bits(atomicAdd(sums, P(T(1), T(2))));
}

static bool moved(const word *row, int lane, const word *values)
{
	const int from[] = {5, lane < 3 ? lane : lane - 3, lane + 3 < LANES ? lane + 3 : lane, lane ^ 7};
	bool ok = true;
	for (int i = 0; i < MOVES; i++)
		ok &= row[i] == values[i < 4 ? from[i] : lane];
	return ok;
}

/* Each of the numbers 0, step, 2 step … is there once. */
template <class T> static bool is_count(std::vector<word> found, int step)
{
	bool ok = true;
	std::sort(found.begin(), found.end()); /* as the numbers are: none is below 0 */
	for (size_t i = 0; i < found.size(); i++)
		ok &= value_of<T>(found[i]) == (long double)i * step;
	return ok;
}

template <class T> static void check_threads(const char *moves_name, const char *atomics_name)
{
	typedef typename format<T>::pair P;
	const int words = 2 * MOVES + 2;
	word *out, numbers[LANES], pairs[LANES];
	std::vector<word> found[3];
	bool ok = true;
	T *narrow, *sum;
	P *wide, *sums;
	require(cudaMallocManaged(&out, THREADS * words * sizeof *out), "memory");
	require(cudaMallocManaged(&narrow, (LANES + 1) * sizeof *narrow), "memory");
	require(cudaMallocManaged(&wide, (LANES + 1) * sizeof *wide), "memory");
	for (int i = 0; i < LANES; i++) {
		narrow[i] = of<T>(numbers[i] = 0x3a01 + 0x87 * i);
		wide[i] = of<P>(pairs[i] = 0x3a017b00 + 0x870013u * i);
	}
	sum = narrow + LANES, sums = wide + LANES;
	*sum = T(0), *sums = P(T(0), T(0));
	meet<T, P><<<WARPS, LANES>>>(narrow, wide, out, sum, sums);
	require(cudaDeviceSynchronize(), moves_name);
	for (int i = 0; i < THREADS; i++) {
		const word *row = out + i * words;
		ok &= moved(row, i % LANES, numbers) && moved(row + MOVES, i % LANES, pairs);
		found[0].push_back(row[2 * MOVES]);
		found[1].push_back(row[2 * MOVES + 1] & 0xffff);
		found[2].push_back(row[2 * MOVES + 1] >> 16);
	}
	report(ok, moves_name);
	report(is_count<T>(found[0], 1) && is_count<T>(found[1], 1) && is_count<T>(found[2], 2) &&
		       value_of<T>(bits(*sum)) == THREADS && value_of<T>(bits(sums->x)) == THREADS &&
		       value_of<T>(bits(sums->y)) == 2 * THREADS,
	       atomics_name);
	require(cudaFree(out), "free");
	require(cudaFree(narrow), "free");
	require(cudaFree(wide), "free");
}

/* The cases of a type: T is that type there. */
namespace half_cases
{
typedef __half T;
ALL(CASE, half)
static void check(void)
{
	ALL(CHECK_CASE, half)
}
} // namespace half_cases

namespace bfloat16_cases
{
typedef __nv_bfloat16 T;
ALL(CASE, bfloat16)
static void check(void)
{
	ALL(CHECK_CASE, bfloat16)
}
} // namespace bfloat16_cases

int main()
{
	half_cases::check();
	bfloat16_cases::check();
	check_functions<__half>("half");
	check_functions<__nv_bfloat16>("bfloat16");
	check_threads<__half>("half_moves", "half_atomics");
	check_threads<__nv_bfloat16>("bfloat16_moves", "bfloat16_atomics");
	printf("1..%d\n", test_count);
	return test_failures != 0;
}

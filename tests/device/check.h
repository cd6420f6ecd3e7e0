/* SPDX-License-Identifier: MIT */
/*
 * What the programs of this folder share: a device's function beside C's, on the same random words.
 */
#ifndef CENOTE_TESTS_DEVICE_CHECK_H
#define CENOTE_TESTS_DEVICE_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

typedef unsigned long long word;

static int test_count, test_failures;

static inline void require(cudaError_t error, const char *what)
{
	if (error) {
		printf("Bail out! %s: %s\n", what, cudaGetErrorString(error));
		exit(2);
	}
}

static inline void report(bool ok, const char *name)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++test_count, name);
	test_failures += !ok;
}

/* The next random word (splitmix64). */
static inline word random_word(void)
{
	static word state = 7;
	word z = state += 0x9e3779b97f4a7c15ull;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* A value of the type out of a word's low bits, and the bits of a value; all NaNs have the same. */
template <class T> __host__ __device__ static inline T of(word bits)
{
	T value;
	static_assert(sizeof value <= sizeof bits, "a word is enough");
	memcpy(&value, &bits, sizeof value);
	return value;
}
template <class T> __host__ __device__ static inline word bits_of(T value)
{
	word bits = 0;
	memcpy(&bits, &value, sizeof value);
	return bits;
}
template <> __host__ __device__ inline word bits_of<float>(float value)
{
	unsigned int bits = 0x7fc00000;
	if (value == value)
		memcpy(&bits, &value, sizeof bits);
	return bits;
}
template <> __host__ __device__ inline word bits_of<double>(double value)
{
	word bits = 0x7ff8000000000000ull;
	if (value == value)
		memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* Words that have something special as integers or as numbers, also of 16 bits. */
static const word special_words[] = {
	0,
	1,
	2,
	31,
	32,
	33,
	63,
	0x7fffffff,
	0x80000000,
	0xffffffff,
	0x100000000ull,
	0x7fffffffffffffffull,
	0x8000000000000000ull,
	0xffffffffffffffffull,
	0x3f800000,
	0xbf800000,
	0x7f800000,
	0xff800000,
	0x7fc00000,
	0x00000001,
	0x80000001,
	0x4effffff,
	0x4f000000,
	0x3ff0000000000000ull,
	0xbff0000000000000ull,
	0x7ff0000000000000ull,
	0xfff0000000000000ull,
	0x7ff8000000000000ull,
	0x41dfffffffc00000ull,
	0x41e0000000000000ull,
	0x43e0000000000000ull,
	0x3fe0000000000000ull,
	0x3ff8000000000000ull,
	0x4004000000000000ull,
	0x8000,
	0x7c00,
	0xfc00,
	0x7f80,
	0xff80,
	0x8080000000000001ull, /* just above the middle of two that have eight digits */
	0x8010000000000001ull, /* the same with eleven */
};

template <class Case> __global__ void run_case(const word *in, word *out, int count)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
	if (i < count)
		out[i] = Case::device(in[3 * i], in[3 * i + 1], in[3 * i + 2]);
}

/* The same words to a device's function and to C's. */
template <class Case> void check_case(const char *name)
{
	const int specials = sizeof special_words / sizeof *special_words, count = specials * specials + 20000;
	std::vector<word> in(3 * count), out(count);
	word *room;
	int wrong = 0;

	for (int i = 0; i < count; i++) {
		bool special = i < specials * specials;
		in[3 * i] = special ? special_words[i % specials] : random_word();
		in[3 * i + 1] = special ? special_words[i / specials] : random_word();
		in[3 * i + 2] = random_word() >> (i % 61);
		if (i % 3 == 0 && !special) /* numbers of ordinary size: exponents near that of 1 */
			for (int j = 0; j < 2; j++)
				in[3 * i + j] = (in[3 * i + j] & 0x87ffffff87ffffffull) | 0x3c0000003c000000ull;
	}
	require(cudaMalloc(&room, 4 * count * sizeof(word)), "memory");
	require(cudaMemcpy(room, in.data(), 3 * count * sizeof(word), cudaMemcpyHostToDevice), "copy");
	run_case<Case><<<(count + 255) / 256, 256>>>(room, room + 3 * count, count);
	require(cudaGetLastError(), name);
	require(cudaMemcpy(out.data(), room + 3 * count, count * sizeof(word), cudaMemcpyDeviceToHost), name);
	require(cudaFree(room), "free");
	for (int i = 0; i < count; i++) {
		word expected = Case::host(in[3 * i], in[3 * i + 1], in[3 * i + 2]);
		if (out[i] != expected && wrong++ < 3)
			printf("# %s of %llx %llx %llx: %llx, not %llx\n", name, in[3 * i], in[3 * i + 1],
			       in[3 * i + 2], out[i], expected);
	}
	report(!wrong, name);
}

/* Two expressions of the words a, b and c: the device's, and C's. */
#define CASE(name, on_device, on_host)                                \
	struct case_##name {                                          \
		static __device__ word device(word a, word b, word c) \
		{                                                     \
			(void)a, (void)b, (void)c;                    \
			return bits_of(on_device);                    \
		}                                                     \
		static __host__ word host(word a, word b, word c)     \
		{                                                     \
			(void)a, (void)b, (void)c;                    \
			return bits_of(on_host);                      \
		}                                                     \
	};
#define CHECK_CASE(name, on_device, on_host) check_case<case_##name>(#name);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Sets of numbers, held against a plain array of them.
 */
#include "base/bits.h"
#include "harness.h"

#include <sys/mman.h>

/* A set of numbers below `count`, with a guard behind its memory that must stay as it is. */
static struct cn_bits make(uint64_t count, uint64_t **ret_memory)
{
	size_t bytes = cn_bits_bytes(count);
	struct cn_bits bits;

	ASSERT_EQ(0, bytes % sizeof(uint64_t));
	*ret_memory = calloc(1, bytes + sizeof(uint64_t));
	ASSERT(*ret_memory);
	(*ret_memory)[bytes / sizeof(uint64_t)] = 0x5a5a5a5a5a5a5a5a;
	cn_bits_open(&bits, *ret_memory, count);
	return bits;
}

static void end(uint64_t *memory, uint64_t count)
{
	ASSERT_EQ(0x5a5a5a5a5a5a5a5au, memory[cn_bits_bytes(count) / sizeof(uint64_t)]);
	free(memory);
}

/* Goal: one number, at each edge of a word and of a level. */
TEST(a_single_number)
{
	static const uint64_t counts[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 262143, 262144, 262145, 300000};

	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		uint64_t count = counts[i], *memory;
		struct cn_bits bits = make(count, &memory);
		uint64_t numbers[] = {0, 1, 62, 63, 64, 127, 4094, 4095, 4096, 262143, 262144, count / 2, count - 1};

		ASSERT_EQ(CN_BITS_NONE, cn_bits_last(&bits, 0));
		ASSERT_EQ(CN_BITS_NONE, cn_bits_last(&bits, count - 1));
		for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
			uint64_t number = numbers[n];
			if (number >= count)
				continue;
			cn_bits_set(&bits, number);
			cn_bits_set(&bits, number); /* once is enough */
			ASSERT_EQ(number, cn_bits_last(&bits, number));
			ASSERT_EQ(number, cn_bits_last(&bits, count - 1));
			if (number)
				ASSERT_EQ(CN_BITS_NONE, cn_bits_last(&bits, number - 1));
			cn_bits_clear(&bits, number);
			cn_bits_clear(&bits, number);
			ASSERT_EQ(CN_BITS_NONE, cn_bits_last(&bits, count - 1));
		}
		for (size_t at = 0; at < cn_bits_bytes(count) / sizeof *memory; at++)
			ASSERT_EQ(0, memory[at]); /* empty is all zero, on every level */
		end(memory, count);
	}
}

/* Goal: the same answers as from an array, with few numbers and with many. */
TEST(random_sets)
{
	enum { COUNT = 5000, STEPS = 40000 };
	struct test_random random = test_random_start(1);

	for (unsigned density = 1; density <= 64; density *= 4) {
		static bool present[COUNT];
		uint64_t *memory;
		struct cn_bits bits = make(COUNT, &memory);

		memset(present, 0, sizeof present);
		for (unsigned step = 0; step < STEPS; step++) {
			uint64_t number = test_random_below(&random, COUNT);
			if (test_random_below(&random, 65) < density) {
				cn_bits_set(&bits, number);
				present[number] = true;
			} else {
				cn_bits_clear(&bits, number);
				present[number] = false;
			}
			uint64_t asked = test_random_below(&random, COUNT), expected = asked;
			while (expected != CN_BITS_NONE && !present[expected])
				expected--; /* below 0 comes CN_BITS_NONE */
			ASSERT_EQ(expected, cn_bits_last(&bits, asked));
		}
		end(memory, COUNT);
	}
}

/* Goal: the largest set that there is, of which only the pages exist that are used. */
TEST(a_very_large_set)
{
	const uint64_t count = (uint64_t)1 << 36;
	size_t bytes = cn_bits_bytes(count);
	struct cn_bits bits;

	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		SKIP("the system gives no %zu bytes of addresses", bytes);
	cn_bits_open(&bits, memory, count);
	cn_bits_set(&bits, 0);
	cn_bits_set(&bits, count / 2);
	ASSERT_EQ(count / 2, cn_bits_last(&bits, count - 1));
	ASSERT_EQ(0, cn_bits_last(&bits, count / 2 - 1));
	cn_bits_set(&bits, count - 1);
	ASSERT_EQ(count - 1, cn_bits_last(&bits, count - 1));
	ASSERT_EQ(count / 2, cn_bits_last(&bits, count - 2));
	cn_bits_clear(&bits, count / 2);
	ASSERT_EQ(0, cn_bits_last(&bits, count - 2));
	munmap(memory, bytes);
}

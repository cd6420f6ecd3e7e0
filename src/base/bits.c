/* SPDX-License-Identifier: MIT */
/*
 * Sets of numbers: see bits.h.
 */
#include "base/bits.h"

static uint64_t words(uint64_t count)
{
	return (count + 63) / 64;
}

size_t cn_bits_bytes(uint64_t count)
{
	size_t total = 0;

	do {
		count = words(count);
		total += count * sizeof(uint64_t);
	} while (count > 1);
	return total;
}

void cn_bits_open(struct cn_bits *bits, void *memory, uint64_t count)
{
	uint64_t counts[CN_BITS_LEVELS_MAX], *at = memory;

	bits->level_count = 0;
	do {
		count = words(count);
		counts[bits->level_count++] = count;
	} while (count > 1 && bits->level_count < CN_BITS_LEVELS_MAX);
	/* The smallest first: they share a page. */
	for (unsigned level = bits->level_count; level--;) {
		bits->levels[level] = at;
		at += counts[level];
	}
}

void cn_bits_set(struct cn_bits *bits, uint64_t number)
{
	for (unsigned level = 0; level < bits->level_count; level++) {
		uint64_t *word = &bits->levels[level][number / 64];
		uint64_t before = *word;
		*word = before | 1ull << number % 64;
		if (before) /* the levels above know it already */
			return;
		number /= 64;
	}
}

void cn_bits_clear(struct cn_bits *bits, uint64_t number)
{
	for (unsigned level = 0; level < bits->level_count; level++) {
		uint64_t *word = &bits->levels[level][number / 64];
		*word &= ~(1ull << number % 64);
		if (*word)
			return;
		number /= 64;
	}
}

uint64_t cn_bits_last(const struct cn_bits *bits, uint64_t number)
{
	uint64_t at = number;
	unsigned level = 0;

	/* Up, until a word has a bit at or below; from the second level on only below: the one at was looked at. */
	for (;; level++) {
		if (level == bits->level_count)
			return CN_BITS_NONE;
		uint64_t mask = level ? (1ull << at % 64) - 1 : ~0ull >> (63 - at % 64);
		uint64_t found = bits->levels[level][at / 64] & mask;
		if (found) {
			at = at / 64 * 64 + (63u - (unsigned)__builtin_clzll(found));
			break;
		}
		at /= 64;
	}
	while (level--) /* and down again, to the last one in each word */
		at = at * 64 + (63u - (unsigned)__builtin_clzll(bits->levels[level][at]));
	return at;
}

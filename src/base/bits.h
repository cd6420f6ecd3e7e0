/* SPDX-License-Identifier: MIT */
/*
 * A set of numbers that answers "which is the last one at or below this?" in a handful of steps, however large.
 *
 * Words of 64 bits, and above them words with a bit for each non-empty word below, up to a single one. All zero is the
 * empty set, so the memory can be fresh pages, and only those that are used take memory. Not locked.
 */
#ifndef CN_BASE_BITS_H
#define CN_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CN_BITS_LEVELS_MAX = 6 }; /* 2^36 numbers */

#define CN_BITS_NONE UINT64_MAX

struct cn_bits {
	uint64_t *levels[CN_BITS_LEVELS_MAX]; /* [0] holds the numbers */
	unsigned level_count;
};

/* How many bytes a set of numbers below `count` takes. */
size_t cn_bits_bytes(uint64_t count);
/* `memory` is that many zero bytes, aligned to 8. */
void cn_bits_open(struct cn_bits *bits, void *memory, uint64_t count);

void cn_bits_set(struct cn_bits *bits, uint64_t number);
void cn_bits_clear(struct cn_bits *bits, uint64_t number);
/* The largest number of the set that is not above `number`; CN_BITS_NONE: there is none. */
uint64_t cn_bits_last(const struct cn_bits *bits, uint64_t number);

#endif

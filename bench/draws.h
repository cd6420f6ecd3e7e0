/* SPDX-License-Identifier: MIT */
/*
 * Random draws made beforehand, the same in every run and for every contestant: numbers, and the churn of bench-pool
 * and bench-gpu_pool, which allocate and free blocks of all sizes in any order.
 */
#ifndef CENOTE_BENCH_DRAWS_H
#define CENOTE_BENCH_DRAWS_H

#include <stddef.h>
#include <stdint.h>

#define DRAW_START 88172645463325252ull

static inline uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

enum {
	CHURN_SLOTS = 4096,
	CHURN_STEPS = 1 << 16,
	CHURN_BYTES_MIN = 256,
	CHURN_BYTES_MAX = 512 * 1024,
};

/* Fills an empty slot with so many bytes, and empties a full one. */
struct churn {
	unsigned slot;
	size_t bytes;
};

/* Sizes are spread evenly over the powers of two between, and inside each. */
static inline void draw_churn(struct churn steps[CHURN_STEPS])
{
	uint64_t state = DRAW_START;

	for (unsigned i = 0; i < CHURN_STEPS; i++) {
		size_t low = (size_t)CHURN_BYTES_MIN << draw(&state) % 11;
		steps[i].slot = (unsigned)(draw(&state) % CHURN_SLOTS);
		steps[i].bytes = low + (size_t)(draw(&state) % low);
		if (steps[i].bytes > CHURN_BYTES_MAX)
			steps[i].bytes = CHURN_BYTES_MAX;
	}
}

#endif

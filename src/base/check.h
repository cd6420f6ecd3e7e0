/* SPDX-License-Identifier: MIT */
/*
 * A check of bytes that pass through other processes, so that no wrong bit is taken for another thing: not a secret.
 */
#ifndef CN_BASE_CHECK_H
#define CN_BASE_CHECK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Of whole words. Each step can be undone, so values that differ in one word never have the same check. */
static inline uint64_t cn_check(const void *bytes, size_t count)
{
	uint64_t check = 0x9e3779b97f4a7c15u, word;

	for (size_t i = 0; i < count / sizeof word; i++) {
		memcpy(&word, (const char *)bytes + i * sizeof word, sizeof word);
		check = (check ^ word) * 0xff51afd7ed558ccdu;
		check ^= check >> 32;
	}
	return check;
}

#endif

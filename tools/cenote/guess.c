/* SPDX-License-Identifier: MIT */
/*
 * What a mistyped word may have meant: the nearest of the words that would have been right.
 */
#include "command.h"

#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES_MAX = 32 };

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* How many letters must be added, dropped, changed or swapped with their neighbour to make one word of the other. */
static int distance(const char *left, size_t left_bytes, const char *right, size_t right_bytes)
{
	int rows[WORD_BYTES_MAX + 1][WORD_BYTES_MAX + 1];

	for (size_t i = 0; i <= left_bytes; i++) {
		for (size_t j = 0; j <= right_bytes; j++) {
			if (!i || !j) {
				rows[i][j] = (int)(i + j);
				continue;
			}
			int changed = rows[i - 1][j - 1] + (left[i - 1] != right[j - 1]);
			rows[i][j] = least(changed, 1 + least(rows[i - 1][j], rows[i][j - 1]));
			if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1])
				rows[i][j] = least(rows[i][j], 1 + rows[i - 2][j - 2]);
		}
	}
	return rows[left_bytes][right_bytes];
}

void guess_try(struct guess *guess, const char *candidate, size_t bytes)
{
	size_t typed = strlen(guess->typed);

	if (typed > WORD_BYTES_MAX || bytes > WORD_BYTES_MAX)
		return;
	int here = distance(guess->typed, typed, candidate, bytes);
	/* One letter in a short word, two in a long one: anything farther off is another word. */
	if (here <= (bytes < 5 ? 1 : 2) && (!guess->found || here < guess->distance))
		*guess = (struct guess){guess->typed, candidate, bytes, here};
}

void guess_option(struct guess *guess, const char *help)
{
	for (const char *option = strstr(help, "--"); option; option = strstr(option, "--")) {
		size_t bytes = strspn(option, "-abcdefghijklmnopqrstuvwxyz");
		if (bytes > 3)
			guess_try(guess, option, bytes);
		option += bytes;
	}
}

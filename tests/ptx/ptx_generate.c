/* SPDX-License-Identifier: MIT */
/*
 * Write random programs into a folder, for a machine with a GPU: SEED.ptx and SEED.in (see generate.h).
 */
#include "generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int write_file(const char *folder, unsigned long long seed, const char *ending, const void *bytes, size_t count)
{
	char path[4096];
	FILE *file;
	size_t written;

	snprintf(path, sizeof path, "%s/%llu.%s", folder, seed, ending);
	file = fopen(path, "w");
	if (!file) {
		perror(path);
		return 1;
	}
	written = fwrite(bytes, 1, count, file);
	if (fclose(file) || written != count) {
		perror(path);
		return 1;
	}
	return 0;
}

int main(int count, char **arguments)
{
	static unsigned char input[GENERATE_ALL_IN_BYTES];
	unsigned long long first, last;

	if (count != 4) {
		fprintf(stderr, "usage: ptx_generate FOLDER FIRST-SEED LAST-SEED\n");
		return 2;
	}
	first = strtoull(arguments[2], NULL, 0);
	last = strtoull(arguments[3], NULL, 0);
	for (unsigned long long seed = first; seed <= last; seed++) {
		char *text = generate_text(seed);

		generate_input(seed, input);
		if (write_file(arguments[1], seed, "ptx", text, strlen(text)) ||
		    write_file(arguments[1], seed, "in", input, sizeof input))
			return 1;
		free(text);
	}
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target as a test: the inputs that are kept in tests/fuzz/corpus, one after the other.
 *
 * Among them is every input that ever found a mistake. The program is called fuzz_TARGET, and its inputs are in
 * FUZZ_CORPUS/TARGET; a failure shows the name of the one that was at work last.
 */
#include "fuzz.h"
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

enum { INPUT_BYTES_MAX = 65536 };

SETUP
{
	fuzz_prepare();
}

static int is_input(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void replay(const char *directory, const char *name)
{
	static uint8_t bytes[INPUT_BYTES_MAX];
	char path[PATH_MAX + NAME_MAX + 2];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_SYS(file);
	ssize_t size = read(file, bytes, sizeof bytes);
	ASSERT_SYS(size);
	close(file);
	/* Of its own size on the heap, where a sanitizer sees reads beyond it. */
	uint8_t *copy = malloc((size_t)size);
	ASSERT(copy || !size);
	memcpy(copy, bytes, (size_t)size);
	fprintf(stderr, "input %s\n", name);
	fuzz_run(copy, (size_t)size);
	free(copy);
}

/* Goal: what was found once, and what leads everywhere, does no harm. */
TEST(kept_inputs, .timeout_ms = 60000)
{
	static const char prefix[] = "fuzz_";
	const char *program = program_invocation_short_name;
	char directory[PATH_MAX];
	struct dirent **entries;

	ASSERT(!strncmp(program, prefix, strlen(prefix)));
	snprintf(directory, sizeof directory, "%s/%s", FUZZ_CORPUS, program + strlen(prefix));
	int count = scandir(directory, &entries, is_input, alphasort);
	ASSERT_GT(count, 0);
	/* Descriptors are counted by fuzz_run(): a connection that stays may be another than before. */
	leaks_watch(LEAK_DEFAULT & ~LEAK_DESCRIPTORS);
	leaks_start_here(); /* the preparation's threads may still be at work */
	for (int i = 0; i < count; i++) {
		replay(directory, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
}

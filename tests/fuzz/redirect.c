/* SPDX-License-Identifier: MIT */
/*
 * Objects: what libcenote-redirect.so reads of the files that the dynamic linker has mapped.
 *
 * The input is the file. Whatever it says, what is found lies inside it, and functions have room for a jump.
 */
#include "fuzz.h"

#include "../../tools/redirect/redirect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int file;
static char path[64];

void fuzz_prepare(void)
{
	file = memfd_create("fuzz-redirect", MFD_CLOEXEC);
	FUZZ_CHECK(file >= 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
}

static void check_runtime(const struct cn_object *object, const struct cn_runtime *runtime)
{
	enum { JUMP_BYTES = 5 };
	size_t bytes = 0;

	FUZZ_CHECK(runtime->list && runtime->count >= runtime->list->count);
	for (size_t i = 0; i < runtime->count; i++)
		FUZZ_CHECK(cn_object_code(object, runtime->functions[i].address, &bytes) && bytes >= JUMP_BYTES);
	free(runtime->functions);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct cn_object object;
	struct cn_runtime runtime;
	char why[CN_WHY_BYTES] = "";

	FUZZ_CHECK(!ftruncate(file, 0) && pwrite(file, bytes, size, 0) == (ssize_t)size);
	if (size > SELFMAG && bytes[0] == 1) /* what nobody would guess */
		FUZZ_CHECK(pwrite(file, ELFMAG, SELFMAG, 0) == SELFMAG);
	if (!cn_object_open(path, &object))
		return;
	enum cn_runtime_kind kind = cn_runtime_find(&object, &runtime, why);
	FUZZ_CHECK((kind == CN_RUNTIME_REFUSED) == (*why != 0));
	if (kind == CN_RUNTIME_FOUND)
		check_runtime(&object, &runtime);
	cn_object_close(&object);
}

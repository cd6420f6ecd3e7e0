/* SPDX-License-Identifier: MIT */
/*
 * Programs: what `cenote run` reads of the file that it is about to execute.
 *
 * The input is the file. Whatever it says, what is read of it are texts that end.
 */
#include "fuzz.h"

#include "../../tools/cenote/program.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int file;

void fuzz_prepare(void)
{
	file = memfd_create("fuzz-program", MFD_CLOEXEC);
	FUZZ_CHECK(file >= 0);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct program program;

	memset(&program, -1, sizeof program);
	FUZZ_CHECK(!ftruncate(file, 0) && pwrite(file, bytes, size, 0) == (ssize_t)size);
	if (size > SELFMAG && bytes[0] == 1) /* what nobody would guess */
		FUZZ_CHECK(pwrite(file, ELFMAG, SELFMAG, 0) == SELFMAG);
	program_read(file, &program);
	FUZZ_CHECK(memchr(program.cudart, 0, sizeof program.cudart) && memchr(program.rpath, 0, sizeof program.rpath));
	FUZZ_CHECK(program.kind == PROGRAM_DYNAMIC || (!*program.cudart && !*program.rpath));
	FUZZ_CHECK(!program_has_runtime_inside(file) || program.kind == PROGRAM_DYNAMIC);
}

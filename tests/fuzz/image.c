/* SPDX-License-Identifier: MIT */
/*
 * Images of modules: what is looked at before the dynamic linker, which trusts what it reads, gets it.
 *
 * The input is the image, in a file and at the end of a page behind which there is nothing. What is let
 * through as a file is let through in memory, and as long as its header says.
 */
#include "fuzz.h"

#include "driver/host/image.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 64 << 10, PAGE = 4096 };

static char *room;
static int file;

void fuzz_prepare(void)
{
	fuzz_start();
	room = mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FUZZ_CHECK(room != MAP_FAILED && !mprotect(room + ROOM, PAGE, PROT_NONE));
	file = memfd_create("fuzz-image", MFD_CLOEXEC);
	FUZZ_CHECK(file >= 0);
}

/* PTX or a fat binary: no more is read than there is. */
static void read_image(const struct cn_image *image, enum cn_image_kind kind, size_t size)
{
	const void *start;
	void *owned = NULL;
	size_t bytes;

	if (!FUZZ_TRY(cn_image_read(image, kind, &start, &bytes, &owned)) && kind != CN_IMAGE_WRAPPER)
		FUZZ_CHECK(bytes <= size);
	free(owned);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	enum cn_image_kind memory_kind = CN_IMAGE_SHARED_OBJECT, file_kind = CN_IMAGE_SHARED_OBJECT;
	uint64_t of_memory = 0, of_file = 0;
	struct stat status;
	int copy;

	if (!size || size > ROOM)
		return;
	char *start = room + ROOM - size;
	memcpy(start, bytes, size);
	if (size > SELFMAG && bytes[0] == 1) /* what nobody would guess */
		memcpy(start, ELFMAG, SELFMAG);
	FUZZ_CHECK(!ftruncate(file, 0) && pwrite(file, start, size, 0) == (ssize_t)size);
	struct cn_image in_memory = {.file = -1, .memory = start}, in_file = {.file = file};
	CUresult memory_result = FUZZ_TRY(cn_image_check(&in_memory, &memory_kind, &of_memory));
	CUresult file_result = FUZZ_TRY(cn_image_check(&in_file, &file_kind, &of_file));
	if (!memory_result && memory_kind != CN_IMAGE_SHARED_OBJECT)
		read_image(&in_memory, memory_kind, size);
	if (!file_result && file_kind != CN_IMAGE_SHARED_OBJECT)
		read_image(&in_file, file_kind, size);
	if ((!memory_result && memory_kind != CN_IMAGE_SHARED_OBJECT) ||
	    (!file_result && file_kind != CN_IMAGE_SHARED_OBJECT))
		return;
	if (file_result) { /* what lies far behind it in memory may be something else's */
		FUZZ_CHECK(memory_result || of_memory > size);
		FUZZ_CHECK(memory_result || FUZZ_TRY(cn_image_copy(&in_memory, of_memory, &copy)));
		return;
	}
	FUZZ_CHECK(!memory_result && of_memory == of_file);
	FUZZ_CHECK(of_memory <= size);
	FUZZ_OK(cn_image_copy(&in_memory, of_memory, &copy));
	FUZZ_CHECK(!fstat(copy, &status) && (uint64_t)status.st_size == of_memory);
	close(copy);
}

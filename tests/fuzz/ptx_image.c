/* SPDX-License-Identifier: MIT */
/*
 * Fat binaries: whatever the headers say, nothing is read beyond the bytes that there are.
 *
 * Starts from a fat binary with two entries as a compiler writes it; the script changes and cuts it.
 */
#include "fuzz.h"

#include "ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRY_BYTES = 64, HEADER_BYTES = 16, CHANGES_MAX = 24 };

static const char text[] = ".version 7.0\n.target sm_75\n.address_size 64\n.entry k()\n{ ret; }\n";

void fuzz_prepare(void)
{
	fuzz_start();
}

static void put(unsigned char *at, uint64_t value, size_t bytes)
{
	memcpy(at, &value, bytes);
}

static size_t make_entry(unsigned char *at, unsigned kind, unsigned architecture)
{
	size_t padded = (sizeof text + 7) & ~(size_t)7;

	memset(at, 0, ENTRY_BYTES + padded);
	put(at, kind, 2);
	put(at + 2, 0x101, 2);
	put(at + 4, ENTRY_BYTES, 4);
	put(at + 8, padded, 8);
	put(at + 28, architecture, 4);
	memcpy(at + ENTRY_BYTES, text, sizeof text);
	return ENTRY_BYTES + padded;
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	static unsigned char image[4096];
	struct fuzz_input input = {bytes, size};
	struct cn_ptx_module *module = NULL;
	struct cn_ptx_error error;
	size_t length = HEADER_BYTES;
	bool is_changed = false;
	unsigned char *copy;

	memset(image, 0, sizeof image);
	length += make_entry(image + length, 1, 75);
	length += make_entry(image + length, fuzz_below(&input, 3), 90);
	put(image, 0xBA55ED50, 4);
	put(image + 4, 1, 2);
	put(image + 6, HEADER_BYTES, 2);
	put(image + 8, length - HEADER_BYTES, 8);
	for (unsigned i = 0; i < CHANGES_MAX && input.left; i++) {
		size_t where = (fuzz_byte(&input) | fuzz_byte(&input) << 8) % length;
		size_t width = (size_t)1 << fuzz_below(&input, 4);

		if (where < 4) { /* the magic stays */
			length = length > 64 ? length - where * 16 : length;
			continue;
		}
		put(image + where, fuzz_number(&input), where + width <= length ? width : 1);
		is_changed = true;
	}
	copy = malloc(length);
	FUZZ_CHECK(copy);
	memcpy(copy, image, length);
	if (cn_ptx_calls.load(copy, length, 80, &error, &module))
		FUZZ_CHECK(error.code && error.sentence[0] && !module);
	else
		FUZZ_CHECK(is_changed || cn_ptx_calls.contents(module)->kernel_count == 1);
	cn_ptx_calls.unload(module);
	free(copy);
}

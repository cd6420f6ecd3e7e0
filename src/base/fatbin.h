/* SPDX-License-Identifier: MIT */
/*
 * Fat binaries: what compilers put around device code, in the layout that they write.
 *
 * A fat binary is a header and entries; an entry is PTX or machine code for one architecture, compressed or not, padded
 * to eight bytes. A program holds a wrapper with a pointer to one (version 1), or to a list of them that ends with NULL
 * (version 2, for code that was compiled apart and linked).
 *
 * An entry's header may go on with options, text for the driver's compiler: at options_at there is a cn_fatbin_options,
 * which says where in the header the text is.
 *
 * Readers of PTX need fatbin.c: the library that runs it, and the recorder of `cenote check`, which is no part of the
 * library, as the command is not, which writes fat binaries and needs the layout alone.
 */
#ifndef CN_BASE_FATBIN_H
#define CN_BASE_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CN_FATBIN_MAGIC         0xBA55ED50u
#define CN_FATBIN_WRAPPER_MAGIC 0x466243B1u

enum cn_fatbin_kind { CN_FATBIN_PTX = 1, CN_FATBIN_ELF = 2 };

enum cn_fatbin_flag {
	CN_FATBIN_64_BIT = 0x1,
	CN_FATBIN_LINUX = 0x10,
	CN_FATBIN_LZ4 = 0x2000,
	CN_FATBIN_ZSTD = 0x8000,
};

struct cn_fatbin_wrapper {
	uint32_t magic, version;
	const void *data;        /* version 1: a fat binary */
	const void *const *list; /* version 2: of fat binaries; else a file's name, or NULL */
};

struct cn_fatbin_header {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes; /* behind the header */
};

struct cn_fatbin_entry {
	uint16_t kind, version;
	uint32_t header_bytes;
	uint64_t bytes; /* of what follows, padded */
	uint32_t compressed_bytes, options_at;
	uint16_t minor, major; /* of the PTX */
	uint32_t architecture, name_at, name_bytes;
	uint64_t flags, reserved, uncompressed_bytes;
};

struct cn_fatbin_options {
	uint32_t at, bytes; /* in the entry's header */
};

enum cn_fatbin_result {
	CN_FATBIN_OK,
	CN_FATBIN_INVALID,
	CN_FATBIN_UNSUPPORTED, /* compressed, and the library for that is not there */
	CN_FATBIN_NO_PTX,
	CN_FATBIN_NO_MEMORY,
};

enum { CN_FATBIN_SENTENCE_BYTES = 192 };

struct cn_fatbin_text {
	const char *text; /* not ended by a zero byte */
	size_t bytes;
	char *owned; /* to be freed; NULL: the text lies in the fat binary */
};

/*
 * The PTX of a fat binary of `bytes` (SIZE_MAX / 2: its header alone says how long it is): of several entries the one
 * for the highest architecture not above `target` (90 is sm_90), and of those the newest. Each length in it is checked
 * against what is left. LZ4 and zstd are the system's libraries, opened when an entry needs them.
 *
 * On failure the sentence says why, and nothing else is written.
 */
enum cn_fatbin_result cn_fatbin_read(const void *image, size_t bytes, unsigned target,
				     char sentence[CN_FATBIN_SENTENCE_BYTES], struct cn_fatbin_text *ret_text);

_Static_assert(sizeof(struct cn_fatbin_header) == 16 && sizeof(struct cn_fatbin_entry) == 64,
	       "as compilers write them");

#endif

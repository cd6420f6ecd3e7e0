/* SPDX-License-Identifier: MIT */
/*
 * The dynamic linker's cache (see cuda_cache.h): the form that glibc has written since 1999, by itself since 2020 and
 * before that behind an older table.
 *
 *	magic and version	20 bytes
 *	number of libraries	4
 *	length of the strings	4
 *	something else		20
 *	libraries		24 each: flags, name, path (offsets from the start of this header), 12 bytes else
 *	strings
 *
 * It is only read, once, and what is wrong in it is not found.
 */
#include "device/cuda/cuda_cache.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC     "glibc-ld.so.cache1.1"
#define OLD_MAGIC "ld.so-1.7.0"

enum {
	HEADER_BYTES = 48,
	LIBRARY_BYTES = 24,
	OLD_HEADER_BYTES = 16, /* the number of libraries is its last word */
	OLD_LIBRARY_BYTES = 12,
	KIND_MASK = 0xffff, /* of the flags: the C library and the machine */
#if defined(__x86_64__)
	KIND = 0x0303,
#elif defined(__aarch64__)
	KIND = 0x0a03,
#else
	KIND = -1,
#endif
};

static uint32_t word(const char *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof value);
	return value;
}

/* A string of the cache; NULL: it does not end inside. */
static const char *string(const char *cache, size_t bytes, uint32_t offset)
{
	return offset < bytes && memchr(cache + offset, 0, bytes - offset) ? cache + offset : NULL;
}

static bool look(const char *cache, size_t bytes, const char *name, char *ret_file)
{
	if (bytes < HEADER_BYTES || memcmp(cache, MAGIC, sizeof MAGIC - 1) != 0)
		return false;
	size_t count = word(cache + 20);
	if (count > (bytes - HEADER_BYTES) / LIBRARY_BYTES)
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *row = cache + HEADER_BYTES + i * LIBRARY_BYTES;
		const char *row_name = string(cache, bytes, word(row + 4));
		const char *file = string(cache, bytes, word(row + 8));
		if ((int)(word(row) & KIND_MASK) != KIND || !row_name || !file || strcmp(row_name, name) != 0)
			continue;
		size_t length = strlen(file);
		if (*file != '/' || length >= PATH_MAX)
			continue;
		memcpy(ret_file, file, length + 1);
		return true;
	}
	return false;
}

/* Where the newer form begins, in a cache that has the older one before it. */
static size_t newer_form(const char *cache, size_t bytes)
{
	if (bytes < OLD_HEADER_BYTES || memcmp(cache, OLD_MAGIC, sizeof OLD_MAGIC - 1) != 0)
		return 0;
	size_t count = word(cache + OLD_HEADER_BYTES - 4);
	size_t end = OLD_HEADER_BYTES + count * OLD_LIBRARY_BYTES;
	end = (end + 7) / 8 * 8;
	return end < bytes ? end : 0;
}

bool cn_loader_cache_find(const char *cache, const char *name, char ret_file[PATH_MAX])
{
	int fd = open(cache, O_RDONLY | O_CLOEXEC);
	struct stat status;
	bool found = false;

	if (fd < 0)
		return false;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
		size_t bytes = (size_t)status.st_size;
		const char *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map != MAP_FAILED) {
			size_t start = newer_form(map, bytes);
			found = look(map + start, bytes - start, name, ret_file);
			munmap((void *)(uintptr_t)map, bytes);
		}
	}
	close(fd);
	return found;
}

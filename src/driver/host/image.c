/* SPDX-License-Identifier: MIT */
/*
 * Images: their kind, their length, and copies of them.
 */
#include "driver/host/image.h"

#include "driver/host/registry.h"

#include "base/fatbin.h"
#include "base/foreign.h"
#include "base/guard.h"
#include "base/segment.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	HEAD_BYTES = 4096,      /* where an image's kind is looked for */
	PAGE_BYTES = 4096,      /* the smallest page size: memory ends at a multiple of it */
	COPY_BYTES = 16 * 1024, /* at a time */
	MACHINE_CUDA = 190,
	WRAPPED_MAX = 4096,     /* fat binaries of a program's part */
	READ_BYTES = 64 * 1024, /* of a file, at first */
	PTX_BYTES_MAX = 512 << 20,
};

static const uint64_t image_bytes_max = UINT64_C(1) << 40;

/* The header of the object that this code is in: it has this machine's class, byte order and instruction set. */
extern const ElfW(Ehdr) own_header __asm__("__ehdr_start") __attribute__((visibility("hidden")));

CUresult cn_image_open(const char *path, int *ret_file)
{
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* not blocking: it may be a pipe */
	struct stat status;

	if (file < 0)
		return cn_error(CUDA_ERROR_FILE_NOT_FOUND, "%s: %s", path, strerror(errno));
	if (fstat(file, &status) == 0 && S_ISDIR(status.st_mode)) {
		close(file);
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%s is a directory", path);
	}
	*ret_file = file;
	return CUDA_SUCCESS;
}

/* Read a part; *ret_bytes is less than asked for where the image ends. */
static CUresult read_some(const struct cn_image *image, uint64_t offset, void *to, size_t bytes, size_t *ret_bytes)
{
	size_t done = 0;

	while (done < bytes) {
		size_t step = bytes - done;
		if (image->file >= 0) {
			ssize_t got = pread(image->file, (char *)to + done, step, (off_t)(offset + done));
			if (got < 0 && errno == EINTR)
				continue;
			if (got < 0)
				return cn_error(CUDA_ERROR_INVALID_IMAGE, "a module's file cannot be read: %s",
						strerror(errno));
			if (got == 0)
				break;
			step = (size_t)got;
		} else {
			uint64_t from = (uint64_t)(uintptr_t)image->memory + offset + done;
			size_t page_left = PAGE_BYTES - from % PAGE_BYTES;
			step = step < page_left ? step : page_left;
			if (!cn_foreign_peek((char *)to + done, (const void *)(uintptr_t)from, step))
				break;
		}
		done += step;
	}
	*ret_bytes = done;
	return CUDA_SUCCESS;
}

static CUresult read_all(const struct cn_image *image, uint64_t offset, void *to, size_t bytes)
{
	size_t got = 0;
	CUresult result = read_some(image, offset, to, bytes, &got);

	if (!result && got < bytes)
		return cn_error(CUDA_ERROR_INVALID_IMAGE, "a module ends before its %" PRIu64 " bytes", offset + bytes);
	return result;
}

/* It is not a shared object: what else? */
static CUresult recognize(const struct cn_image *image, const char *head, size_t bytes, enum cn_image_kind *ret_kind)
{
	uint32_t magic = 0;

	if (!bytes)
		return cn_error(CUDA_ERROR_INVALID_IMAGE, "the module is empty");
	memcpy(&magic, head, bytes < sizeof magic ? bytes : sizeof magic);
	if (magic == CN_FATBIN_MAGIC)
		*ret_kind = CN_IMAGE_FAT;
	else if (magic == CN_FATBIN_WRAPPER_MAGIC && image->file < 0)
		*ret_kind = CN_IMAGE_WRAPPER;
	else if (memmem(head, strnlen(head, bytes), ".version", strlen(".version")))
		*ret_kind = CN_IMAGE_PTX;
	else
		return cn_error(CUDA_ERROR_INVALID_IMAGE, "this is not a module; the host device takes PTX, "
							  "a fat binary, or a shared object with CENOTE_KERNELs");
	return CUDA_SUCCESS;
}

static CUresult check_header(const ElfW(Ehdr) * header)
{
	if (header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_machine == MACHINE_CUDA)
		return cn_error(CUDA_ERROR_NO_BINARY_FOR_GPU,
				"this module is a cubin, machine code for GPUs; the host device takes PTX, "
				"a fat binary with PTX, or a shared object with CENOTE_KERNELs");
	if (header->e_ident[EI_CLASS] != own_header.e_ident[EI_CLASS] ||
	    header->e_ident[EI_DATA] != own_header.e_ident[EI_DATA] || header->e_machine != own_header.e_machine)
		return cn_error(CUDA_ERROR_NO_BINARY_FOR_GPU, "this module is for another kind of machine");
	if (header->e_type != ET_DYN || !header->e_phnum || header->e_phentsize != sizeof(ElfW(Phdr)))
		return cn_error(CUDA_ERROR_INVALID_IMAGE, "this module is an ELF file, but not a shared object");
	return CUDA_SUCCESS;
}

/* The end of the last byte that the dynamic linker will read. */
static CUresult measure(const struct cn_image *image, const ElfW(Ehdr) * header, uint64_t *ret_bytes)
{
	uint64_t end = header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr));

	if (header->e_phoff > image_bytes_max)
		return cn_error(CUDA_ERROR_INVALID_IMAGE, "a module's header is damaged");
	for (unsigned int i = 0; i < header->e_phnum; i++) {
		ElfW(Phdr) part;
		CUresult result = read_all(image, header->e_phoff + i * sizeof part, &part, sizeof part);
		if (result)
			return result;
		if (part.p_offset > image_bytes_max || part.p_filesz > image_bytes_max)
			return cn_error(CUDA_ERROR_INVALID_IMAGE, "a module's header is damaged");
		if (part.p_offset + part.p_filesz > end)
			end = part.p_offset + part.p_filesz;
	}
	*ret_bytes = end;
	return CUDA_SUCCESS;
}

CUresult cn_image_check(const struct cn_image *image, enum cn_image_kind *ret_kind, uint64_t *ret_bytes)
{
	ElfW(Ehdr) header;
	char head[HEAD_BYTES], last;
	uint64_t bytes = 0;
	size_t got = 0;
	CUresult result = read_some(image, 0, head, sizeof head, &got);

	if (result)
		return result;
	if (got < sizeof header || memcmp(head, ELFMAG, SELFMAG))
		return recognize(image, head, got, ret_kind);
	memcpy(&header, head, sizeof header);
	result = check_header(&header);
	if (!result)
		result = measure(image, &header, &bytes);
	if (!result)
		result =
			read_all(image, bytes - 1, &last, 1); /* a truncated file would end the process, not the call */
	if (result)
		return result;
	*ret_kind = CN_IMAGE_SHARED_OBJECT;
	*ret_bytes = bytes;
	return CUDA_SUCCESS;
}

/* ---- PTX --------------------------------------------------------------------------------------------------------- */

/* A fat binary in memory: its header says how long it is. */
static bool check_fat(const void *memory, size_t *ret_bytes)
{
	struct cn_fatbin_header header;

	if (!cn_guard_check_read(memory, sizeof header, "image"))
		return false;
	memcpy(&header, memory, sizeof header);
	if (header.bytes > image_bytes_max)
		return false;
	*ret_bytes = (size_t)header.header_bytes + (size_t)header.bytes;
	if (*ret_bytes < sizeof header)
		*ret_bytes = sizeof header;
	return cn_guard_check_read(memory, *ret_bytes, "image");
}

/* The wrapper's fat binaries: one (version 1), or a list that ends with NULL. */
static bool check_wrapper(const void *memory)
{
	struct cn_fatbin_wrapper wrapper;
	size_t bytes;

	if (!cn_guard_check_read(memory, sizeof wrapper, "image"))
		return false;
	memcpy(&wrapper, memory, sizeof wrapper);
	if (wrapper.version != 2)
		return !wrapper.data || check_fat(wrapper.data, &bytes);
	for (unsigned int i = 0; wrapper.list && i < WRAPPED_MAX; i++) {
		if (!cn_guard_check_read(&wrapper.list[i], sizeof *wrapper.list, "image"))
			return false;
		if (!wrapper.list[i])
			break;
		if (!check_fat(wrapper.list[i], &bytes))
			return false;
	}
	return true;
}

/* A file has no length that could be relied on: it may be a pipe. */
static CUresult read_file(const struct cn_image *image, const void **ret_start, size_t *ret_bytes, void **ret_owned)
{
	size_t room = READ_BYTES, bytes = 0, got;
	char *text = NULL;
	CUresult result;

	do {
		char *larger = room <= PTX_BYTES_MAX ? realloc(text, room) : NULL;
		if (!larger) {
			free(text);
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY,
					"no host memory for a module's file of %zu bytes or more", bytes);
		}
		text = larger;
		result = read_some(image, bytes, text + bytes, room - bytes, &got);
		if (result) {
			free(text);
			return result;
		}
		bytes += got;
		room *= 2;
	} while (bytes == room / 2);
	*ret_start = *ret_owned = text;
	*ret_bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult cn_image_read(const struct cn_image *image, enum cn_image_kind kind, const void **ret_start, size_t *ret_bytes,
		       void **ret_owned)
{
	const void *memory = image->memory;
	size_t bytes = SIZE_MAX; /* of a wrapper */
	bool readable;

	if (image->file >= 0)
		return read_file(image, ret_start, ret_bytes, ret_owned);
	if (kind == CN_IMAGE_PTX)
		readable = cn_guard_check_string(memory, "image");
	else
		readable = kind == CN_IMAGE_FAT ? check_fat(memory, &bytes) : check_wrapper(memory);
	if (!readable)
		return cn_error(CUDA_ERROR_INVALID_IMAGE, "the module's memory ends before the module");
	*ret_start = memory;
	*ret_bytes = kind == CN_IMAGE_PTX ? strlen(memory) : bytes;
	*ret_owned = NULL;
	return CUDA_SUCCESS;
}

static CUresult write_all(int file, const char *from, size_t bytes)
{
	while (bytes) {
		ssize_t done = write(file, from, bytes);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no room for the copy of a module: %s",
					strerror(errno));
		from += done;
		bytes -= (size_t)done;
	}
	return CUDA_SUCCESS;
}

CUresult cn_image_copy(const struct cn_image *image, uint64_t bytes, int *ret_copy)
{
	char buffer[COPY_BYTES];
	CUresult result = CUDA_SUCCESS;
	int copy = memfd_create("cenote-module", MFD_CLOEXEC);

	if (copy < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no memory file for the copy of a module: %s",
				strerror(errno));
	result = cn_file_grow(copy, bytes); /* a write past the file size limit would raise a signal */
	for (uint64_t offset = 0; offset < bytes && !result; offset += COPY_BYTES) {
		size_t step = bytes - offset < COPY_BYTES ? (size_t)(bytes - offset) : COPY_BYTES;
		result = read_all(image, offset, buffer, step);
		if (!result)
			result = write_all(copy, buffer, step);
	}
	if (result) {
		close(copy);
		return result;
	}
	*ret_copy = copy;
	return CUDA_SUCCESS;
}

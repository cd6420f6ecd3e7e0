/* SPDX-License-Identifier: MIT */
/*
 * Reading ELF files (see redirect.h).
 *
 * A file is mapped whole. It is the one that the dynamic linker has just mapped itself, so one that shrinks meanwhile
 * is no worse for us than it is for the program.
 */
#include "redirect.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEGMENTS_MAX = 128, SECTIONS_MAX = 4096 };

/* The header of this library itself: it has this machine's class, byte order and instruction set. */
extern const ElfW(Ehdr) own_header __asm__("__ehdr_start") __attribute__((visibility("hidden")));

/* `count` items of `size` bytes at an offset of the file; NULL: they are not all inside, or not aligned. */
static const void *inside(const struct cn_object *object, uint64_t offset, uint64_t count, size_t size)
{
	if (offset > object->bytes || count > (object->bytes - offset) / size || offset % _Alignof(ElfW(Shdr)))
		return NULL;
	return object->file + offset;
}

static bool read_headers(struct cn_object *object)
{
	const ElfW(Ehdr) *header = inside(object, 0, 1, sizeof *header);

	if (!header || memcmp(header->e_ident, own_header.e_ident, EI_VERSION + 1) != 0 ||
	    header->e_machine != own_header.e_machine || (header->e_type != ET_EXEC && header->e_type != ET_DYN))
		return false;
	if (header->e_phentsize != sizeof *object->segments || header->e_phnum > SEGMENTS_MAX)
		return false;
	object->segments = inside(object, header->e_phoff, header->e_phnum, sizeof *object->segments);
	object->segment_count = header->e_phnum;
	if (header->e_shentsize == sizeof *object->sections && header->e_shnum && header->e_shnum <= SECTIONS_MAX)
		object->sections = inside(object, header->e_shoff, header->e_shnum, sizeof *object->sections);
	object->section_count = object->sections ? header->e_shnum : 0;
	return object->segments != NULL;
}

bool cn_object_open(const char *path, struct cn_object *ret_object)
{
	struct cn_object object = {.file = MAP_FAILED};
	struct stat status;
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (file < 0)
		return false;
	if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
		object.bytes = (size_t)status.st_size;
		object.file = mmap(NULL, object.bytes, PROT_READ, MAP_PRIVATE, file, 0);
	}
	close(file);
	if (object.file == MAP_FAILED)
		return false;
	if (!read_headers(&object)) {
		cn_object_close(&object);
		return false;
	}
	*ret_object = object;
	return true;
}

void cn_object_close(struct cn_object *object)
{
	munmap((void *)(uintptr_t)object->file, object->bytes);
}

bool cn_object_is_mapped_at(const struct cn_object *object, const struct link_map *map)
{
	for (size_t i = 0; i < object->segment_count; i++)
		if (object->segments[i].p_type == PT_DYNAMIC)
			return map->l_addr + object->segments[i].p_vaddr == (uintptr_t)map->l_ld;
	return false;
}

const void *cn_object_section(const struct cn_object *object, const ElfW(Shdr) * section, size_t *ret_bytes)
{
	if (section->sh_type == SHT_NOBITS || section->sh_offset > object->bytes ||
	    section->sh_size > object->bytes - section->sh_offset)
		return NULL;
	*ret_bytes = section->sh_size;
	return object->file + section->sh_offset;
}

const char *cn_object_section_name(const struct cn_object *object, const ElfW(Shdr) * section)
{
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)(const void *)object->file;
	size_t bytes = 0;
	const char *names = header->e_shstrndx < object->section_count
				    ? cn_object_section(object, &object->sections[header->e_shstrndx], &bytes)
				    : NULL;

	if (!names || section->sh_name >= bytes || !memchr(names + section->sh_name, 0, bytes - section->sh_name))
		return "";
	return names + section->sh_name;
}

const ElfW(Shdr) * cn_object_find_section(const struct cn_object *object, uint32_t type)
{
	for (size_t i = 0; i < object->section_count; i++)
		if (object->sections[i].sh_type == type)
			return &object->sections[i];
	return NULL;
}

const unsigned char *cn_object_code(const struct cn_object *object, uint64_t address, size_t *ret_bytes)
{
	for (size_t i = 0; i < object->segment_count; i++) {
		const ElfW(Phdr) *segment = &object->segments[i];
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || segment->p_flags & PF_W)
			continue;
		if (segment->p_offset > object->bytes || segment->p_filesz > object->bytes - segment->p_offset)
			continue;
		if (address < segment->p_vaddr || address - segment->p_vaddr >= segment->p_filesz)
			continue;
		*ret_bytes = segment->p_filesz - (address - segment->p_vaddr);
		return object->file + segment->p_offset + (address - segment->p_vaddr);
	}
	return NULL;
}

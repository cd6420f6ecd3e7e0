/* SPDX-License-Identifier: MIT */
/*
 * Reading programs (see program.h).
 */
#include "program.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	SEGMENTS_MAX = 128,
	DYNAMIC_MAX = 4096, /* rows of its dynamic section that are read */
	SCAN_BYTES_MAX = 64 << 20,
	SCAN_STEP_BYTES = 256 << 10,
};

/* The header of this program itself: it has this machine's class, byte order and instruction set. */
extern const ElfW(Ehdr) own_header __asm__("__ehdr_start") __attribute__((visibility("hidden")));

typedef ElfW(Phdr) segment_row;
typedef ElfW(Dyn) dynamic_row;

struct segments {
	segment_row rows[SEGMENTS_MAX];
	size_t count;
};

/* Read up to so many bytes; returns how many there were. */
static size_t read_some(int file, uint64_t offset, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes && offset <= INT64_MAX - bytes) {
		ssize_t got = pread(file, (char *)to + done, bytes - done, (off_t)(offset + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

static bool read_all(int file, uint64_t offset, void *to, size_t bytes)
{
	return read_some(file, offset, to, bytes) == bytes;
}

/* Read the program headers. PROGRAM_DYNAMIC: done; any other kind: there is nothing more to read. */
static enum program_kind read_segments(int file, struct segments *ret_segments)
{
	ElfW(Ehdr) header;
	bool has_linker = false, has_contents = false;

	if (!read_all(file, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
		return PROGRAM_OTHER;
	if (header.e_ident[EI_CLASS] == ELFCLASS32 && own_header.e_ident[EI_CLASS] == ELFCLASS64)
		return PROGRAM_32_BIT;
	if (header.e_ident[EI_DATA] != own_header.e_ident[EI_DATA] || header.e_machine != own_header.e_machine)
		return PROGRAM_OTHER_MACHINE;
	if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
		return PROGRAM_OTHER;
	if (header.e_phentsize != sizeof ret_segments->rows[0] || !header.e_phnum || header.e_phnum > SEGMENTS_MAX)
		return PROGRAM_OTHER;
	ret_segments->count = header.e_phnum;
	if (!read_all(file, header.e_phoff, ret_segments->rows, header.e_phnum * sizeof ret_segments->rows[0]))
		return PROGRAM_OTHER;
	for (size_t i = 0; i < ret_segments->count; i++) {
		has_linker |= ret_segments->rows[i].p_type == PT_INTERP;
		has_contents |= ret_segments->rows[i].p_type == PT_LOAD;
	}
	if (!has_contents)
		return PROGRAM_OTHER;
	return has_linker ? PROGRAM_DYNAMIC : PROGRAM_STATIC;
}

/* ---- The dynamic section ----------------------------------------------------------------------------------------- */

struct strings {
	int file;
	uint64_t offset, bytes;
};

/* The place in the file of an address to which the program will be loaded. */
static bool find_address(const struct segments *segments, uint64_t address, uint64_t *ret_offset)
{
	for (size_t i = 0; i < segments->count; i++) {
		const segment_row *row = &segments->rows[i];
		if (row->p_type != PT_LOAD || address < row->p_vaddr || address - row->p_vaddr >= row->p_filesz)
			continue;
		*ret_offset = row->p_offset + (address - row->p_vaddr);
		return *ret_offset >= row->p_offset;
	}
	return false;
}

/* Copy a name; "" if it is missing, or does not fit. */
static void read_name(const struct strings *strings, uint64_t at, char *to, size_t room)
{
	uint64_t bytes;

	*to = 0;
	if (at >= strings->bytes || strings->offset + at < strings->offset)
		return;
	bytes = strings->bytes - at < room ? strings->bytes - at : room;
	bytes = read_some(strings->file, strings->offset + at, to, bytes);
	if (!memchr(to, 0, bytes))
		*to = 0;
}

/* A row of the dynamic section that names something. */
static void take_name(const struct strings *strings, const dynamic_row *row, struct program *program)
{
	static const char cudart[] = "libcudart.so.";
	char name[sizeof program->cudart] = "";

	if (row->d_tag == DT_RPATH)
		read_name(strings, row->d_un.d_val, program->rpath, sizeof program->rpath);
	if (row->d_tag != DT_NEEDED || *program->cudart)
		return;
	read_name(strings, row->d_un.d_val, name, sizeof name);
	if (strncmp(name, cudart, strlen(cudart)) == 0)
		memcpy(program->cudart, name, sizeof name);
}

static void read_dynamic(int file, const struct segments *segments, const segment_row *dynamic, struct program *program)
{
	struct strings strings = {.file = file};
	uint64_t address = 0;
	bool has_runpath = false;
	size_t count = dynamic->p_filesz / sizeof(dynamic_row);
	dynamic_row *rows;

	count = count < DYNAMIC_MAX ? count : DYNAMIC_MAX;
	rows = calloc(count + 1, sizeof *rows);
	if (!rows)
		return;
	count = read_some(file, dynamic->p_offset, rows, count * sizeof *rows) / sizeof *rows;
	for (size_t i = 0; i < count && rows[i].d_tag != DT_NULL; i++) {
		if (rows[i].d_tag == DT_STRTAB)
			address = rows[i].d_un.d_ptr;
		if (rows[i].d_tag == DT_STRSZ)
			strings.bytes = rows[i].d_un.d_val;
		has_runpath |= rows[i].d_tag == DT_RUNPATH;
	}
	if (find_address(segments, address, &strings.offset))
		for (size_t i = 0; i < count && rows[i].d_tag != DT_NULL; i++)
			take_name(&strings, &rows[i], program);
	free(rows);
	if (has_runpath) /* then the dynamic linker ignores the other */
		*program->rpath = 0;
}

void program_read(int file, struct program *ret_program)
{
	struct segments segments = {.count = 0};

	*ret_program = (struct program){.kind = read_segments(file, &segments)};
	if (ret_program->kind != PROGRAM_DYNAMIC)
		return;
	for (size_t i = 0; i < segments.count; i++) {
		if (segments.rows[i].p_type != PT_DYNAMIC)
			continue;
		read_dynamic(file, &segments, &segments.rows[i], ret_program);
		return;
	}
}

/* ---- The static runtime ------------------------------------------------------------------------------------------ */

/*
 * Names that are in every CUDA runtime: the driver that it opens, and one of its errors. The second is split in two
 * here; otherwise this program would contain it, too.
 */
static const char driver_name[] = "libcuda.so.1", error_head[] = "cudaErrorCudart", error_tail[] = "Unloading";
enum { NAME_BYTES_MAX = sizeof error_head + sizeof error_tail };

static bool has_error(const char *bytes, size_t count)
{
	const char *found = bytes, *end = bytes + count;
	size_t head = strlen(error_head), tail = strlen(error_tail);

	while ((found = memmem(found, (size_t)(end - found), error_head, head))) {
		found += head;
		if ((size_t)(end - found) >= tail && memcmp(found, error_tail, tail) == 0)
			return true;
	}
	return false;
}

/* Search a part of the file for both names, step by step; each step begins with the end of the last. */
static bool scan(int file, uint64_t offset, uint64_t bytes, char *room, bool found[2])
{
	size_t kept = 0;

	while (bytes) {
		size_t step = bytes < SCAN_STEP_BYTES ? bytes : SCAN_STEP_BYTES;
		size_t got = read_some(file, offset, room + kept, step), filled = kept + got;
		found[0] |= memmem(room, filled, driver_name, strlen(driver_name)) != NULL;
		found[1] |= has_error(room, filled);
		if (got < step || (found[0] && found[1]))
			break;
		offset += got;
		bytes -= got;
		kept = filled < NAME_BYTES_MAX ? filled : NAME_BYTES_MAX;
		memmove(room, room + filled - kept, kept);
	}
	return found[0] && found[1];
}

bool program_has_runtime_inside(int file)
{
	struct segments segments = {.count = 0};
	uint64_t left = SCAN_BYTES_MAX;
	bool found[2] = {false, false}, both = false;
	char *room;

	if (read_segments(file, &segments) != PROGRAM_DYNAMIC)
		return false;
	room = malloc(NAME_BYTES_MAX + SCAN_STEP_BYTES);
	for (size_t i = 0; room && i < segments.count && !both; i++) {
		const segment_row *row = &segments.rows[i];
		uint64_t bytes = row->p_filesz < left ? row->p_filesz : left;
		/* Constants are in a segment of their own, or beside the instructions. */
		if (row->p_type != PT_LOAD || row->p_flags & PF_W)
			continue;
		left -= bytes;
		both = scan(file, row->p_offset, bytes, room, found);
	}
	free(room);
	return both;
}

/* SPDX-License-Identifier: MIT */
/*
 * libcenote-redirect.so: what its files share.
 *
 * nvcc links NVIDIA's runtime into a program by default, and such a program never asks for a libcudart.so.13 (or .12).
 * On the host device `cenote run` names this library in LD_AUDIT. The dynamic linker calls it when it has mapped
 * objects and before it runs their constructors, at the start and for each dlopen() (redirect.c). It reads the
 * object's file (object.c), finds the runtime's functions in the symbol table, where they are local names (runtime.c),
 * and writes a jump over the start of each (jumps.c). The jumps lead to our runtime of the same number, which is
 * loaded at the first call (enter.S, enter.c); so a process without such a program pays for a look at its files and no
 * more.
 *
 * All or nothing: a runtime of which a function cannot be found or reached stays as it is. Half of it and half of ours
 * would have two ideas of every stream.
 *
 * It needs libc alone, of which the dynamic linker loads a second copy beside the program's: nothing here may be shared
 * with the program but memory. The files are strangers': every offset and count is checked.
 */
#ifndef CENOTE_REDIRECT_REDIRECT_H
#define CENOTE_REDIRECT_REDIRECT_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Files (object.c) -------------------------------------------------------------------------------------------- */

/* A file of 64-bit ELF for this machine, mapped. What its headers name lies inside it. */
struct cn_object {
	const unsigned char *file;
	size_t bytes;
	const ElfW(Phdr) * segments;
	size_t segment_count;
	const ElfW(Shdr) * sections; /* NULL: it has none */
	size_t section_count;
};

/* Map a file; false: it is not such a file, or cannot be read. Close it afterwards. */
bool cn_object_open(const char *path, struct cn_object *ret_object);
void cn_object_close(struct cn_object *object);

/* Is this the file of the object that the dynamic linker has mapped? As far as its headers tell. */
bool cn_object_is_mapped_at(const struct cn_object *object, const struct link_map *map);

/* A section's bytes in the file; NULL: it has none there. */
const void *cn_object_section(const struct cn_object *object, const ElfW(Shdr) * section, size_t *ret_bytes);
const char *cn_object_section_name(const struct cn_object *object, const ElfW(Shdr) * section);
/* The first section of a type; NULL: none. */
const ElfW(Shdr) * cn_object_find_section(const struct cn_object *object, uint32_t type);

/* Instructions, by the address that the file gives them: those from there to the segment's end. NULL: none. */
const unsigned char *cn_object_code(const struct cn_object *object, uint64_t address, size_t *ret_bytes);

/* ---- A runtime inside (runtime.c) -------------------------------------------------------------------------------- */

/* Made by scripts/generate_api.py: the runtimes that we have a library for, the newest first. */
enum { CN_REDIRECT_LISTS = 2 };
struct cn_redirect_list {
	unsigned
		first_version; /* 13000: of this and all later releases of the same number; they have all these names */
	const char *library;   /* "libcudart.so.13", beside this one */
	const char *const *names; /* of the functions, sorted */
	size_t count;
};
extern const struct cn_redirect_list cn_redirect_lists[CN_REDIRECT_LISTS];

struct cn_runtime_function {
	uint64_t address; /* as the file gives it */
	const char *name; /* in the file, or in our list */
	uint64_t bytes;
};

struct cn_runtime {
	const struct cn_redirect_list *list;
	struct cn_runtime_function *functions; /* by address; each has room for a jump */
	size_t count;
};

enum cn_runtime_kind {
	CN_RUNTIME_NONE,    /* no runtime inside */
	CN_RUNTIME_REFUSED, /* one that cannot be served: `why` says why, after the object's name */
	CN_RUNTIME_FOUND,   /* free ret_runtime->functions */
};

enum { CN_WHY_BYTES = 256 };

enum cn_runtime_kind cn_runtime_find(const struct cn_object *object, struct cn_runtime *ret_runtime,
				     char why[CN_WHY_BYTES]);

/* ---- Jumps (jumps.c) --------------------------------------------------------------------------------------------- */

/* What stands between an object's functions and ours. */
struct cn_jumps {
	const struct cn_redirect_list *list;
	size_t count;
	const char **names; /* copies, if not in our list */
	void **slots;       /* where each leads */
	void *memory;       /* instructions, then slots */
	size_t memory_bytes;
};

/*
 * Lead an object's functions to ours. NULL and why not: nothing has been changed. If the instructions cannot be made
 * executable again the process ends: it could not go on.
 */
struct cn_jumps *cn_jumps_write(const struct cn_object *object, const struct link_map *map,
				const struct cn_runtime *runtime, char why[CN_WHY_BYTES]);
/* When the object has been unmapped. */
void cn_jumps_free(struct cn_jumps *jumps);

/* ---- The first call (enter.S, enter.c) --------------------------------------------------------------------------- */

/* Jumped to by a function's trampoline, with the jumps and the function's index on the stack. */
extern const char cn_redirect_enter[];

struct cn_redirect_target {
	void *function; /* NULL: there is none; the caller gets the result */
	long result;
};

/* Called by cn_redirect_enter: where a function leads from now on. */
struct cn_redirect_target cn_redirect_resolve(struct cn_jumps *jumps, size_t index);

/* Note where our runtimes are: beside this library. */
bool cn_redirect_find_libraries(void);

/* Print "cenote run: …". */
__attribute__((format(printf, 1, 2))) void cn_redirect_say(const char *format, ...);

/* The exit status of a program that was not executed, as of `cenote run`. */
enum { CN_REDIRECT_EXIT = 126 };

#endif

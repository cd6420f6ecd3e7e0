/* SPDX-License-Identifier: MIT */
/*
 * A CUDA runtime inside an object: is there one, of which version, and where are its functions?
 *
 * NVIDIA's static runtime is one object file, so all of its functions are there or none. Those that programs call are
 * in the symbol table under their own names, the others under names made of digits. Functions that our list lacks, of a
 * later release, are taken for the runtime's if they have CUDA's prefix and lie between those that it has.
 *
 * The version is read from the instructions of cudaRuntimeGetVersion(), which store a constant: the object is not
 * relocated yet when it comes by dlopen(), so it cannot be called.
 */
#include "redirect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	JUMP_BYTES = 5,
	CALLED_BYTES = 64, /* of a function that cudaRuntimeGetVersion() calls: where the constant is looked for */
	FUNCTIONS_MAX = 4096,
	SHORT_MAX = 16, /* functions that are shorter than a jump: for each, all symbols are looked at */
	SCAN_BYTES_MAX = 64 << 20,
};

#define ADVICE "build it without strip or -s, or with `nvcc -cudart shared`"

/* ---- Symbols ----------------------------------------------------------------------------------------------------- */

struct symbols {
	const ElfW(Sym) * rows;
	size_t count;
	const char *names; /* ends with a zero */
	size_t name_bytes;
};

static bool read_symbols(const struct cn_object *object, uint32_t type, struct symbols *ret_symbols)
{
	const ElfW(Shdr) *section = cn_object_find_section(object, type);
	size_t bytes = 0;

	if (!section || section->sh_entsize != sizeof *ret_symbols->rows || section->sh_link >= object->section_count ||
	    section->sh_offset % _Alignof(ElfW(Sym)))
		return false;
	ret_symbols->rows = cn_object_section(object, section, &bytes);
	ret_symbols->count = bytes / sizeof *ret_symbols->rows;
	ret_symbols->names = cn_object_section(object, &object->sections[section->sh_link], &ret_symbols->name_bytes);
	return ret_symbols->rows && ret_symbols->names && ret_symbols->name_bytes &&
	       !ret_symbols->names[ret_symbols->name_bytes - 1];
}

static const char *name_of(const struct symbols *symbols, const ElfW(Sym) * row)
{
	return row->st_name < symbols->name_bytes ? symbols->names + row->st_name : "";
}

static bool is_function(const ElfW(Sym) * row)
{
	return ELF64_ST_TYPE(row->st_info) == STT_FUNC && row->st_shndx != SHN_UNDEF;
}

static bool has_name(const struct symbols *symbols, const char *name)
{
	/* With its zeros: it is a whole name, or the end of one. */
	return memmem(symbols->names, symbols->name_bytes, name, strlen(name) + 1) != NULL;
}

static int compare_names(const void *name, const void *row)
{
	return strcmp(name, *(const char *const *)row);
}

static bool has_prefix(const char *name)
{
	return strncmp(name, "cuda", 4) == 0 || strncmp(name, "__cuda", 6) == 0;
}

static const char *find_in_list(const struct cn_redirect_list *list, const char *name)
{
	const char *const *found =
		has_prefix(name) ? bsearch(name, list->names, list->count, sizeof *list->names, compare_names) : NULL;

	return found ? *found : NULL;
}

/* ---- The version ------------------------------------------------------------------------------------------------- */

static uint32_t word_at(const unsigned char *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof word);
	return word;
}

/* `movl $constant, (register)` with a constant that looks like a version: 13000 is 13.0. 0: none. */
static unsigned stored_version(const unsigned char *code, size_t bytes)
{
	enum { OPCODE = 0xc7, WITH_INDEX = 4, NO_REGISTER = 5, LEAST = 2000, MOST = 99990 };

	for (size_t i = 0; i + 7 <= bytes; i++) {
		unsigned place = code[i + 1], base = place & 7;
		if (code[i] != OPCODE || place & 0xf8 || base == NO_REGISTER)
			continue;
		uint32_t constant = word_at(code + i + 2 + (base == WITH_INDEX));
		if (constant >= LEAST && constant <= MOST && constant % 10 == 0)
			return constant;
	}
	return 0;
}

static unsigned read_version(const struct cn_object *object, const struct cn_runtime_function *function)
{
	enum { CALL = 0xe8, CALL_BYTES = 5 };
	size_t bytes = 0, called_bytes = 0;
	const unsigned char *code = cn_object_code(object, function->address, &bytes);

	if (!code)
		return 0;
	bytes = function->bytes < bytes ? function->bytes : bytes;
	unsigned version = stored_version(code, bytes);
	for (size_t i = 0; !version && i + CALL_BYTES <= bytes; i++) {
		if (code[i] != CALL)
			continue;
		uint64_t target =
			function->address + i + CALL_BYTES + (uint64_t)(int64_t)(int32_t)word_at(code + i + 1);
		const unsigned char *called = cn_object_code(object, target, &called_bytes);
		if (called)
			version = stored_version(called, called_bytes < CALLED_BYTES ? called_bytes : CALLED_BYTES);
	}
	return version;
}

/* ---- Functions --------------------------------------------------------------------------------------------------- */

static int compare_functions(const void *left, const void *right)
{
	const struct cn_runtime_function *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

static int compare_function_names(const void *left, const void *right)
{
	const struct cn_runtime_function *a = left, *b = right;

	return strcmp(a->name, b->name);
}

static const struct cn_runtime_function *find_function(const struct cn_runtime *runtime, const char *name)
{
	for (size_t i = 0; i < runtime->count; i++)
		if (strcmp(runtime->functions[i].name, name) == 0)
			return &runtime->functions[i];
	return NULL;
}

/* Functions of our list. */
static size_t take_listed(const struct symbols *symbols, struct cn_runtime *runtime)
{
	size_t count = 0;

	for (size_t i = 0; i < symbols->count && count < FUNCTIONS_MAX; i++) {
		const ElfW(Sym) *row = &symbols->rows[i];
		const char *name = is_function(row) ? find_in_list(runtime->list, name_of(symbols, row)) : NULL;
		if (name)
			runtime->functions[count++] = (struct cn_runtime_function){row->st_value, name, row->st_size};
	}
	return count;
}

/* Those of later releases. The listed ones are sorted by their addresses. */
static void take_others(const struct symbols *symbols, struct cn_runtime *runtime)
{
	uint64_t first = runtime->functions[0].address, last = runtime->functions[runtime->count - 1].address;

	for (size_t i = 0; i < symbols->count && runtime->count < FUNCTIONS_MAX; i++) {
		const ElfW(Sym) *row = &symbols->rows[i];
		const char *name = name_of(symbols, row);
		if (is_function(row) && row->st_value > first && row->st_value < last && has_prefix(name) &&
		    !find_in_list(runtime->list, name))
			runtime->functions[runtime->count++] =
				(struct cn_runtime_function){row->st_value, name, row->st_size};
	}
}

/* Is there room for a jump, with nothing else in its way? A short function ends in padding: functions are aligned. */
static bool has_room(const struct cn_object *object, const struct symbols *symbols,
		     const struct cn_runtime_function *function)
{
	enum { ALIGNMENT = 16 };
	size_t bytes = 0;

	if (!cn_object_code(object, function->address, &bytes) || bytes < JUMP_BYTES)
		return false;
	if (function->bytes >= JUMP_BYTES)
		return true;
	if (function->address % ALIGNMENT)
		return false;
	for (size_t i = 0; i < symbols->count; i++) {
		uint64_t distance = symbols->rows[i].st_value - function->address;
		if (is_function(&symbols->rows[i]) && distance > 0 && distance < JUMP_BYTES)
			return false;
	}
	return true;
}

/* Is everything there, and does each have a place of its own? Sorts by name, then by address. */
static bool check_functions(const struct cn_object *object, const struct symbols *symbols, struct cn_runtime *runtime,
			    char why[CN_WHY_BYTES])
{
	qsort(runtime->functions, runtime->count, sizeof *runtime->functions, compare_function_names);
	for (size_t i = 1; i < runtime->count; i++)
		if (strcmp(runtime->functions[i - 1].name, runtime->functions[i].name) == 0) {
			snprintf(why, CN_WHY_BYTES, "has a CUDA runtime inside with two functions %.64s",
				 runtime->functions[i].name);
			return false;
		}
	size_t short_count = 0;
	qsort(runtime->functions, runtime->count, sizeof *runtime->functions, compare_functions);
	for (size_t i = 0; i < runtime->count; i++) {
		const struct cn_runtime_function *function = &runtime->functions[i];
		short_count += function->bytes < JUMP_BYTES;
		if ((i && function[-1].address == function->address) || short_count > SHORT_MAX ||
		    !has_room(object, symbols, function)) {
			snprintf(why, CN_WHY_BYTES, "has a CUDA runtime inside without room for a jump at %.64s",
				 function->name);
			return false;
		}
	}
	return true;
}

/* The list of a release; NULL: there is none. */
static const struct cn_redirect_list *find_list(unsigned version)
{
	for (size_t i = 0; i < CN_REDIRECT_LISTS; i++)
		if (version / 1000 == cn_redirect_lists[i].first_version / 1000 &&
		    version >= cn_redirect_lists[i].first_version)
			return &cn_redirect_lists[i];
	return NULL;
}

/* It has the names. */
static enum cn_runtime_kind read_runtime(const struct cn_object *object, const struct symbols *symbols,
					 struct cn_runtime *runtime, char why[CN_WHY_BYTES])
{
	runtime->list = &cn_redirect_lists[0];
	runtime->count = take_listed(symbols, runtime);
	const struct cn_runtime_function *teller = find_function(runtime, "cudaRuntimeGetVersion");
	/* Programs and tools define some of these themselves; only the runtime has all three. */
	if (!teller || !find_function(runtime, "cudaGetExportTable") ||
	    !find_function(runtime, "__cudaRegisterFatBinary"))
		return CN_RUNTIME_NONE;
	unsigned version = read_version(object, teller);
	if (!version) {
		snprintf(why, CN_WHY_BYTES, "has a CUDA runtime inside whose version cannot be read; " ADVICE);
		return CN_RUNTIME_REFUSED;
	}
	runtime->list = find_list(version);
	if (!runtime->list) {
		snprintf(why, CN_WHY_BYTES,
			 "has the runtime of CUDA %u.%u inside, and without a GPU Cenote stands for those of 13 and "
			 "of 12.4 and later alone; build it with CUDA 13",
			 version / 1000, version % 1000 / 10);
		return CN_RUNTIME_REFUSED;
	}
	runtime->count = take_listed(symbols, runtime);
	if (runtime->count < runtime->list->count) {
		snprintf(why, CN_WHY_BYTES,
			 "has a CUDA runtime inside without the names of %zu of its functions; " ADVICE,
			 runtime->list->count - runtime->count);
		return CN_RUNTIME_REFUSED;
	}
	qsort(runtime->functions, runtime->count, sizeof *runtime->functions, compare_functions);
	take_others(symbols, runtime);
	return check_functions(object, symbols, runtime, why) ? CN_RUNTIME_FOUND : CN_RUNTIME_REFUSED;
}

/* ---- Without names ----------------------------------------------------------------------------------------------- */

/* Does it hold a text that is in every runtime? Searched where constants are. */
static bool has_runtime_text(const struct cn_object *object)
{
	static const char text[] = "cudaErrorCudartUnloading";

	for (size_t i = 0; i < object->section_count; i++) {
		size_t bytes = 0;
		if (strncmp(cn_object_section_name(object, &object->sections[i]), ".rodata", 7) != 0)
			continue;
		const void *contents = cn_object_section(object, &object->sections[i], &bytes);
		if (contents && memmem(contents, bytes < SCAN_BYTES_MAX ? bytes : SCAN_BYTES_MAX, text, sizeof text))
			return true;
	}
	return false;
}

/* A shared runtime, NVIDIA's or ours, is none inside something else. */
static bool is_shared_runtime(const struct symbols *dynamic)
{
	return memmem(dynamic->names, dynamic->name_bytes, "\0libcudart.so.", 14) && has_name(dynamic, "cudaMalloc");
}

enum cn_runtime_kind cn_runtime_find(const struct cn_object *object, struct cn_runtime *ret_runtime,
				     char why[CN_WHY_BYTES])
{
	struct symbols symbols, dynamic;
	enum cn_runtime_kind kind = CN_RUNTIME_NONE;

	/* The runtime opens the driver's library: an object that does not import dlsym() has none. */
	if (!read_symbols(object, SHT_DYNSYM, &dynamic) || !has_name(&dynamic, "dlsym") || is_shared_runtime(&dynamic))
		return CN_RUNTIME_NONE;
	if (read_symbols(object, SHT_SYMTAB, &symbols) && has_name(&symbols, "cudaRuntimeGetVersion")) {
		struct cn_runtime runtime = {.functions = calloc(FUNCTIONS_MAX, sizeof *runtime.functions)};
		if (!runtime.functions) {
			snprintf(why, CN_WHY_BYTES, "has a CUDA runtime inside, and no memory is left to read it");
			return CN_RUNTIME_REFUSED;
		}
		kind = read_runtime(object, &symbols, &runtime, why);
		if (kind == CN_RUNTIME_FOUND)
			*ret_runtime = runtime;
		else
			free(runtime.functions);
		return kind;
	}
	if (!has_runtime_text(object))
		return CN_RUNTIME_NONE;
	snprintf(why, CN_WHY_BYTES, "has a CUDA runtime inside and its symbols removed; " ADVICE);
	return CN_RUNTIME_REFUSED;
}

/* SPDX-License-Identifier: MIT */
/*
 * Jumps from a runtime's functions to ours.
 *
 * A function begins with a jump of five bytes afterwards, which reaches 2 GiB; so an area with a trampoline for each
 * function lies near the object:
 *
 *	first:	push	jumps(%rip)		common end of the first calls
 *		jmp	*enter(%rip)
 *	n:	jmp	*slot_n(%rip)		slot_n leads to the next line at first, and to our function afterwards
 *		push	$n
 *		jmp	first
 *
 * Instructions are written while they cannot be executed, and become executable when they cannot be written: no memory
 * is both. The area comes first: where the system forbids it, the object is still as it was.
 */
#include "redirect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#ifdef __x86_64__

enum { TRAMPOLINE_BYTES = 16, JUMP_BYTES = 5, FIXED_SLOTS = 2, PUSH_AT = 6 };

static const uint64_t reach_bytes = UINT64_C(0x7fff0000);

/* ---- The area ---------------------------------------------------------------------------------------------------- */

static size_t whole_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

/* Where an object lies in memory. */
static void find_bounds(const struct cn_object *object, const struct link_map *map, uint64_t *ret_low,
			uint64_t *ret_high)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (size_t i = 0; i < object->segment_count; i++) {
		const ElfW(Phdr) *segment = &object->segments[i];
		if (segment->p_type != PT_LOAD)
			continue;
		low = segment->p_vaddr < low ? segment->p_vaddr : low;
		high = segment->p_vaddr + segment->p_memsz > high ? segment->p_vaddr + segment->p_memsz : high;
	}
	*ret_low = map->l_addr + low;
	*ret_high = map->l_addr + high;
}

static void *map_at(uint64_t address, size_t bytes)
{
	void *wanted = (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr): an address that is free
	void *memory =
		mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (memory == wanted)
		return memory;
	if (memory != MAP_FAILED) /* older systems take the address for a wish */
		munmap(memory, bytes);
	return NULL;
}

/* Memory that all of the object reaches: below it, or else so far above that a program's heap has room to grow. */
static void *map_near(uint64_t low, uint64_t high, size_t bytes)
{
	const uint64_t step = 1 << 20, page = (uint64_t)sysconf(_SC_PAGESIZE), heap_room = UINT64_C(1) << 30;
	void *memory = NULL;

	low -= low % page;
	high += page - high % page;
	if (high < low || high - low > reach_bytes - heap_room)
		return NULL;
	for (uint64_t back = bytes; !memory && back < low && high - (low - back) < reach_bytes; back += step)
		memory = map_at((low - back) / page * page, bytes);
	for (uint64_t on = heap_room; !memory && high + on + bytes - low < reach_bytes; on += step)
		memory = map_at(high + on, bytes);
	return memory;
}

static void put_word(unsigned char *at, uint64_t value)
{
	uint32_t word = (uint32_t)value;

	memcpy(at, &word, sizeof word);
}

/* An instruction that ends with the distance from its own end to `target`. */
static unsigned char *put(unsigned char *at, const char *opcode, size_t opcode_bytes, const void *target)
{
	memcpy(at, opcode, opcode_bytes);
	put_word(at + opcode_bytes, (uint64_t)((uintptr_t)target - ((uintptr_t)at + opcode_bytes + 4)));
	return at + opcode_bytes + 4;
}

#define PUSH_MEMORY "\xff\x35"
#define JUMP_MEMORY "\xff\x25"
#define PUSH_NUMBER "\x68"
#define JUMP        "\xe9"

static void write_trampolines(struct cn_jumps *jumps, size_t code_bytes)
{
	unsigned char *code = jumps->memory;
	void **fixed = (void **)(void *)(code + code_bytes);

	fixed[0] = jumps;
	fixed[1] = (void *)(uintptr_t)cn_redirect_enter;
	jumps->slots = fixed + FIXED_SLOTS;
	(void)put(put(code, PUSH_MEMORY, 2, &fixed[0]), JUMP_MEMORY, 2, &fixed[1]);
	for (size_t i = 0; i < jumps->count; i++) {
		unsigned char *at = code + (i + 1) * TRAMPOLINE_BYTES;
		jumps->slots[i] = at + PUSH_AT;
		at = put(at, JUMP_MEMORY, 2, &jumps->slots[i]);
		memcpy(at, PUSH_NUMBER, 1);
		put_word(at + 1, i);
		(void)put(at + JUMP_BYTES, JUMP, 1, code);
	}
}

/* ---- The object -------------------------------------------------------------------------------------------------- */

/* Set the protection of the pages from the first function to the last. */
static bool protect(const struct link_map *map, const struct cn_runtime *runtime, int protection)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t first = map->l_addr + runtime->functions[0].address;
	uint64_t end = map->l_addr + runtime->functions[runtime->count - 1].address + JUMP_BYTES;

	first -= first % page;
	return mprotect((void *)(uintptr_t)first, end - first, protection) == 0;
}

static unsigned char *function_in_memory(const struct link_map *map, const struct cn_runtime_function *function)
{
	return (unsigned char *)(uintptr_t)(map->l_addr + function->address);
}

/* Are the instructions in memory those of the file? */
static bool is_same_code(const struct cn_object *object, const struct link_map *map, const struct cn_runtime *runtime)
{
	for (size_t i = 0; i < runtime->count; i++) {
		size_t bytes = 0;
		const unsigned char *code = cn_object_code(object, runtime->functions[i].address, &bytes);
		if (!code || bytes < JUMP_BYTES ||
		    memcmp(code, function_in_memory(map, &runtime->functions[i]), JUMP_BYTES) != 0)
			return false;
	}
	return true;
}

/* Do the functions lie in one segment? Its pages are made writable together. */
static bool is_one_segment(const struct cn_object *object, const struct cn_runtime *runtime)
{
	size_t first = 0, last = 0;

	return cn_object_code(object, runtime->functions[0].address, &first) &&
	       cn_object_code(object, runtime->functions[runtime->count - 1].address, &last) &&
	       first - last == runtime->functions[runtime->count - 1].address - runtime->functions[0].address;
}

static bool write_jumps(const struct cn_jumps *jumps, const struct link_map *map, const struct cn_runtime *runtime)
{
	if (!protect(map, runtime, PROT_READ | PROT_WRITE))
		return false;
	for (size_t i = 0; i < runtime->count; i++)
		(void)put(function_in_memory(map, &runtime->functions[i]), JUMP, 1,
			  (const char *)jumps->memory + (i + 1) * TRAMPOLINE_BYTES);
	if (!protect(map, runtime, PROT_READ | PROT_EXEC)) {
		cn_redirect_say("the system does not make instructions executable again: %s", strerror(errno));
		_exit(CN_REDIRECT_EXIT);
	}
	return true;
}

static bool copy_names(struct cn_jumps *jumps, const struct cn_runtime *runtime)
{
	for (size_t i = 0; i < jumps->count; i++) {
		jumps->names[i] = strdup(runtime->functions[i].name);
		if (!jumps->names[i])
			return false;
	}
	return true;
}

static struct cn_jumps *make_jumps(const struct cn_runtime *runtime)
{
	struct cn_jumps *jumps = calloc(1, sizeof *jumps);

	if (jumps) {
		jumps->list = runtime->list;
		jumps->count = runtime->count;
		jumps->names = calloc(runtime->count, sizeof *jumps->names);
	}
	if (jumps && jumps->names && copy_names(jumps, runtime))
		return jumps;
	cn_jumps_free(jumps);
	return NULL;
}

static bool fill(struct cn_jumps *jumps, const struct cn_object *object, const struct link_map *map,
		 const struct cn_runtime *runtime, char why[CN_WHY_BYTES])
{
	size_t code_bytes = whole_pages((runtime->count + 1) * TRAMPOLINE_BYTES);
	uint64_t low, high;

	find_bounds(object, map, &low, &high);
	jumps->memory_bytes = code_bytes + whole_pages((runtime->count + FIXED_SLOTS) * sizeof *jumps->slots);
	jumps->memory = map_near(low, high, jumps->memory_bytes);
	if (!jumps->memory) {
		snprintf(why, CN_WHY_BYTES,
			 "has a CUDA runtime inside, and no free addresses within 2 GiB for jumps out of it");
		return false;
	}
	write_trampolines(jumps, code_bytes);
	if (!is_one_segment(object, runtime) || !is_same_code(object, map, runtime)) {
		snprintf(why, CN_WHY_BYTES,
			 "has a CUDA runtime inside that is not in memory as in the file; was the file replaced?");
		return false;
	}
	if (mprotect(jumps->memory, code_bytes, PROT_READ | PROT_EXEC) || !write_jumps(jumps, map, runtime)) {
		snprintf(why, CN_WHY_BYTES,
			 "has a CUDA runtime inside, and the system forbids to change instructions (%s); "
			 "build it with `nvcc -cudart shared`",
			 strerror(errno));
		return false;
	}
	return true;
}

struct cn_jumps *cn_jumps_write(const struct cn_object *object, const struct link_map *map,
				const struct cn_runtime *runtime, char why[CN_WHY_BYTES])
{
	struct cn_jumps *jumps = make_jumps(runtime);

	if (!jumps) {
		snprintf(why, CN_WHY_BYTES, "has a CUDA runtime inside, and no memory is left to replace it");
		return NULL;
	}
	if (fill(jumps, object, map, runtime, why))
		return jumps;
	cn_jumps_free(jumps);
	return NULL;
}

#else

struct cn_jumps *cn_jumps_write(const struct cn_object *object, const struct link_map *map,
				const struct cn_runtime *runtime, char why[CN_WHY_BYTES])
{
	(void)object, (void)map, (void)runtime;
	snprintf(why, CN_WHY_BYTES,
		 "has a CUDA runtime inside, which Cenote replaces on x86-64 alone; "
		 "build it with `nvcc -cudart shared`");
	return NULL;
}

#endif

void cn_jumps_free(struct cn_jumps *jumps)
{
	if (!jumps)
		return;
	if (jumps->memory)
		munmap(jumps->memory, jumps->memory_bytes);
	for (size_t i = 0; jumps->names && i < jumps->count; i++)
		free((void *)(uintptr_t)jumps->names[i]);
	free(jumps->names);
	free(jumps);
}

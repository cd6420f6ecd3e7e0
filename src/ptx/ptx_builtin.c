/* SPDX-License-Identifier: MIT */
/*
 * Functions that we bring (see ptx_builtin.h).
 *
 * malloc() of kernels has a heap of its own a module, so that free() knows what it was given: a pointer that is not its
 * own is an illegal address, and what is left is freed with the module.
 */
#include "ptx/ptx_builtin.h"
#include "ptx/ptx_bits.h"

#include "ptx/ptx_block.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 8 << 10, HEAP_BYTES_MAX = 256 << 20, HEAP_BUCKETS = 1024 };

/* ---- The heap ---------------------------------------------------------------------------------------------------- */

struct piece {
	struct piece *next;
	size_t bytes;
	_Alignas(16) char memory[];
};

struct cn_ptx_heap {
	struct piece *buckets[HEAP_BUCKETS];
	size_t bytes;
};

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t bucket_of(const void *memory)
{
	return (uintptr_t)memory / 16 % HEAP_BUCKETS;
}

static void *heap_take(struct cn_ptx_module *module, uint64_t bytes)
{
	struct piece *piece = bytes && bytes <= HEAP_BYTES_MAX ? malloc(sizeof *piece + bytes) : NULL;
	bool ok = false;

	if (!piece)
		return NULL;
	pthread_mutex_lock(&heap_lock);
	if (!module->heap)
		module->heap = calloc(1, sizeof *module->heap);
	if (module->heap && module->heap->bytes + bytes <= HEAP_BYTES_MAX) {
		struct piece **bucket = &module->heap->buckets[bucket_of(piece->memory)];

		piece->bytes = bytes;
		piece->next = *bucket;
		*bucket = piece;
		module->heap->bytes += bytes;
		ok = true;
	}
	pthread_mutex_unlock(&heap_lock);
	if (ok)
		return piece->memory;
	free(piece);
	return NULL;
}

static bool heap_give(struct cn_ptx_module *module, uint64_t address)
{
	struct piece *piece = NULL;
	bool found;

	if (!address)
		return true;
	pthread_mutex_lock(&heap_lock);
	if (module->heap) {
		struct piece **at = &module->heap->buckets[bucket_of((void *)(uintptr_t)address)];

		while (*at && (uint64_t)(uintptr_t)(*at)->memory != address)
			at = &(*at)->next;
		piece = *at;
		if (piece) {
			*at = piece->next;
			module->heap->bytes -= piece->bytes;
		}
	}
	pthread_mutex_unlock(&heap_lock);
	found = piece;
	free(piece);
	return found;
}

void cn_ptx_heap_free(struct cn_ptx_heap *heap)
{
	if (!heap)
		return;
	for (size_t i = 0; i < HEAP_BUCKETS; i++)
		while (heap->buckets[i]) {
			struct piece *piece = heap->buckets[i];

			heap->buckets[i] = piece->next;
			free(piece);
		}
	free(heap);
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static char *argument_at(const struct cn_ptx_block *block, const struct cn_ptx_argument *argument, uint32_t lane)
{
	uint32_t step = argument->is_register ? argument->bytes : (argument->bytes + 15) & ~15u;

	return cn_ptx_at(block, argument->at) + (size_t)lane * step;
}

static uint64_t argument(const struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t index,
			 uint32_t lane)
{
	const struct cn_ptx_argument *from = &block->here->arguments[inst->more + inst->count + index];
	uint64_t value = 0;

	if (index < inst->detail)
		memcpy(&value, argument_at(block, from, lane), from->bytes < 8 ? from->bytes : 8);
	return value;
}

static void give_result(const struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t lane, uint64_t value)
{
	const struct cn_ptx_argument *to = &block->here->arguments[inst->more];

	if (inst->count)
		memcpy(argument_at(block, to, lane), &value, to->bytes < 8 ? to->bytes : 8);
}

/* ---- The functions ----------------------------------------------------------------------------------------------- */

static bool call_print(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t lane)
{
	const char *format = (const char *)(uintptr_t)argument(block, inst, 0, lane);
	const unsigned char *arguments = (const unsigned char *)(uintptr_t)argument(block, inst, 1, lane);
	char text[TEXT_BYTES];
	size_t length = cn_ptx_print(text, sizeof text, format, arguments);

	if (block->launch.print)
		block->launch.print(block->launch.data, text, length);
	give_result(block, inst, lane, length);
	return true;
}

static bool call_assert(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t lane)
{
	const char *message = (const char *)(uintptr_t)argument(block, inst, 0, lane);
	const char *file = (const char *)(uintptr_t)argument(block, inst, 1, lane);
	const char *function = (const char *)(uintptr_t)argument(block, inst, 3, lane);
	const struct cn_ptx_fault *fault = &block->fault;
	void (*complain)(void *, const char *, size_t) =
		block->launch.complain ? block->launch.complain : block->launch.print;
	char text[2048];
	int length;

	cn_ptx_fault_at(block, CN_PTX_ASSERT, lane, 0);
	length = snprintf(text, sizeof text,
			  "%.500s:%u: %.500s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%.500s` failed.\n", file,
			  (unsigned)argument(block, inst, 2, lane), function, fault->block[0], fault->block[1],
			  fault->block[2], fault->thread[0], fault->thread[1], fault->thread[2], message);
	if (complain && length > 0)
		complain(block->launch.data, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
	return false;
}

static bool call_malloc(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t lane)
{
	give_result(block, inst, lane, (uint64_t)(uintptr_t)heap_take(block->module, argument(block, inst, 0, lane)));
	return true;
}

static bool call_free(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t lane)
{
	uint64_t address = argument(block, inst, 0, lane);

	return heap_give(block->module, address) || cn_ptx_fault_at(block, CN_PTX_ILLEGAL_ADDRESS, lane, address);
}

/* ---- Mathematics ------------------------------------------------------------------------------------------------- */

static double real_argument(const struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t index,
			    uint32_t lane, bool is_float)
{
	uint64_t bits = argument(block, inst, index, lane);

	return is_float ? (double)cn_ptx_f32_of((uint32_t)bits) : cn_ptx_f64_of(bits);
}

static void give_real(const struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t lane, double value,
		      bool is_float)
{
	give_result(block, inst, lane, is_float ? cn_ptx_f32_bits((float)value) : cn_ptx_f64_bits(value));
}

struct function {
	const char *name;
	bool (*call)(struct cn_ptx_block *block, const struct cn_ptx_inst *inst, uint32_t lane);
	double (*unary)(double x);
	double (*binary)(double x, double y);
	bool is_float;
};

#define UNARY(function)                                   \
	{#function, NULL, function, NULL, false},         \
	{                                                 \
#function "f", NULL, function, NULL, true \
	}
#define BINARY(function)                                  \
	{#function, NULL, NULL, function, false},         \
	{                                                 \
#function "f", NULL, NULL, function, true \
	}

/* A float's function is computed in double, and rounded. */
static const struct function functions[] = {
	{"vprintf", call_print, NULL, NULL, false},
	{"__assertfail", call_assert, NULL, NULL, false},
	{"malloc", call_malloc, NULL, NULL, false},
	{"free", call_free, NULL, NULL, false},
	UNARY(sin),
	UNARY(cos),
	UNARY(tan),
	UNARY(asin),
	UNARY(acos),
	UNARY(atan),
	UNARY(sinh),
	UNARY(cosh),
	UNARY(tanh),
	UNARY(asinh),
	UNARY(acosh),
	UNARY(atanh),
	UNARY(exp),
	UNARY(exp2),
	UNARY(expm1),
	UNARY(log),
	UNARY(log2),
	UNARY(log10),
	UNARY(log1p),
	UNARY(cbrt),
	UNARY(erf),
	UNARY(erfc),
	UNARY(tgamma),
	UNARY(lgamma),
	UNARY(round),
	BINARY(pow),
	BINARY(fmod),
	BINARY(atan2),
	BINARY(hypot),
	BINARY(fdim),
	BINARY(remainder),
};

uint32_t cn_ptx_builtin_find(const char *name)
{
	for (uint32_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (!strcmp(functions[i].name, name))
			return i + 1;
	return 0;
}

bool cn_ptx_builtin_call(struct cn_ptx_block *block, uint32_t builtin, const struct cn_ptx_inst *inst, uint32_t lane)
{
	const struct function *function = &functions[builtin - 1];
	double x;

	if (function->call)
		return function->call(block, inst, lane);
	x = real_argument(block, inst, 0, lane, function->is_float);
	if (function->unary)
		give_real(block, inst, lane, function->unary(x), function->is_float);
	else
		give_real(block, inst, lane,
			  function->binary(x, real_argument(block, inst, 1, lane, function->is_float)),
			  function->is_float);
	return true;
}

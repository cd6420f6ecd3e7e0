/* SPDX-License-Identifier: MIT */
/*
 * Blocks: their memory, and their start.
 *
 * A block has one mapping for registers, shared and local memory. It is as large as the deepest calls may need it, and
 * takes real memory where it is touched. Small mappings are kept for blocks to come: to map and touch them anew takes
 * longer than a small kernel runs.
 */
#include "ptx/ptx_block.h"

#include "ptx/ptx_module.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	LANES_ROUNDED_TO = 64,
	SPARE_COUNT = 64,
	SPARE_BYTES_MAX = 4 << 20, /* a mapping; and with that, all of them */
	SPARE_TOTAL_MAX = 32 << 20,
};
static const size_t MEMORY_BYTES_MAX = (size_t)1 << 32;

__attribute__((format(printf, 3, 4))) static enum cn_ptx_error_code refuse(struct cn_ptx_error *error,
									   enum cn_ptx_error_code code,
									   const char *format, ...)
{
	va_list arguments;

	if (!error)
		return code;
	memset(error, 0, sizeof *error);
	error->code = code;
	va_start(arguments, format);
	vsnprintf(error->sentence, sizeof error->sentence, format, arguments);
	va_end(arguments);
	return code;
}

/* The kernel is there, and prepared. */
static enum cn_ptx_error_code check(const struct cn_ptx_launch *launch, struct cn_ptx_error *error)
{
	const struct cn_ptx_module *module = launch->module;
	const struct cn_ptx_function *kernel = &module->functions[launch->kernel];
	uint64_t threads = 1;

	for (unsigned i = 0; i < 3; i++) {
		if (!launch->grid[i] || !launch->block[i] || launch->block[i] > CN_PTX_THREADS_MAX)
			return refuse(error, CN_PTX_BAD_ARGUMENT, "a grid or block that is empty or too large");
		threads *= launch->block[i];
		if (kernel->required[0] && kernel->required[i] != launch->block[i])
			return refuse(error, CN_PTX_BAD_ARGUMENT,
				      "kernel '%.80s' must be launched with blocks of %u x %u x %u", kernel->name,
				      kernel->required[0], kernel->required[1], kernel->required[2]);
	}
	if (threads > CN_PTX_THREADS_MAX || (kernel->max_threads && threads > kernel->max_threads))
		return refuse(error, CN_PTX_BAD_ARGUMENT, "a block of %llu threads", (unsigned long long)threads);
	if (module->contents.data_bytes && !launch->memory)
		return refuse(error, CN_PTX_BAD_ARGUMENT, "the module's variables have no memory");
	if (kernel->parameter_bytes && !launch->parameters)
		return refuse(error, CN_PTX_BAD_ARGUMENT, "kernel '%.80s' wants %u bytes of parameters", kernel->name,
			      kernel->parameter_bytes);
	return CN_PTX_OK;
}

/* ---- Constants --------------------------------------------------------------------------------------------------- */

static uint64_t special(const struct cn_ptx_block *block, unsigned which, uint32_t lane)
{
	const struct cn_ptx_launch *launch = &block->launch;
	const unsigned *shape = launch->block;
	uint32_t in_warp = lane % 32,
		 thread[3] = {lane % shape[0], lane / shape[0] % shape[1], lane / shape[0] / shape[1]};
	uint32_t processors = launch->device_blocks ? launch->device_blocks : 1;

	if (which < CN_PTX_S_NTID)
		return thread[which];
	if (which < CN_PTX_S_CTAID)
		return shape[which - CN_PTX_S_NTID];
	if (which < CN_PTX_S_NCTAID)
		return block->coordinates[which - CN_PTX_S_CTAID];
	if (which < CN_PTX_S_LANEID)
		return launch->grid[which - CN_PTX_S_NCTAID];
	if (which >= CN_PTX_S_ENVIRONMENT)
		return launch->environment[(which - CN_PTX_S_ENVIRONMENT) % 32];
	switch (which) {
	case CN_PTX_S_LANEID: return in_warp;
	case CN_PTX_S_WARPID: return lane / 32;
	case CN_PTX_S_NWARPID: return (block->lanes + 31) / 32;
	case CN_PTX_S_SMID:
		return (block->coordinates[0] +
			(uint64_t)launch->grid[0] *
				(block->coordinates[1] + (uint64_t)launch->grid[1] * block->coordinates[2])) %
		       processors;
	case CN_PTX_S_NSMID: return processors;
	case CN_PTX_S_LANEMASK_EQ: return 1u << in_warp;
	case CN_PTX_S_LANEMASK_LT: return (1u << in_warp) - 1;
	case CN_PTX_S_LANEMASK_LE: return (2ull << in_warp) - 1;
	case CN_PTX_S_LANEMASK_GT: return (uint32_t) ~((2ull << in_warp) - 1);
	case CN_PTX_S_LANEMASK_GE: return (uint32_t) ~((1ull << in_warp) - 1);
	case CN_PTX_S_WARP_SZ: return 32;
	case CN_PTX_S_DYNAMIC_SMEM: return launch->dynamic_shared_bytes;
	case CN_PTX_S_TOTAL_SMEM: return block->reserved_at ? block->reserved_at : block->shared_bytes;
	case CN_PTX_S_RESERVED_SMEM: return block->reserved_at;
	case CN_PTX_S_GRIDID:
	case CN_PTX_S_ONE:
	case CN_PTX_S_ONES:
	case CN_PTX_S_ONES + 1:
	case CN_PTX_S_ONES + 2: return 1;
	default: return 0;
	}
}

static uint64_t value_of(const struct cn_ptx_block *block, const struct cn_ptx_constant *constant, uint32_t lane)
{
	switch (constant->kind) {
	case CN_PTX_C_BITS: return constant->value;
	case CN_PTX_C_DATA:
		return cn_ptx_module_address(block->module, constant->value, block->launch.memory,
					     block->launch.managed);
	case CN_PTX_C_PARAMETER: return (uint64_t)(uintptr_t)block->parameters + constant->value;
	case CN_PTX_C_ARGUMENT: return cn_ptx_read(block->parameters + constant->value, 0, constant->width);
	case CN_PTX_C_FUNCTION: return CN_PTX_FUNCTION_BASE + 16 * constant->value;
	case CN_PTX_C_SHARED:
		return (uint64_t)((constant->dynamic ? block->static_shared_bytes
						     : block->plan->shared_offsets[(uint32_t)constant->value]) +
				  ((int64_t)constant->value >> 32));
	default: return special(block, (unsigned)constant->value, lane);
	}
}

static void fill(const struct cn_ptx_block *block, char *area, const struct cn_ptx_constant *constant)
{
	char *array = area + (size_t)constant->offset * block->stride;
	bool varies = constant->kind == CN_PTX_C_SPECIAL &&
		      (constant->value < CN_PTX_S_NTID ||
		       (constant->value >= CN_PTX_S_LANEID && constant->value < CN_PTX_S_WARP_SZ));
	uint64_t value = value_of(block, constant, 0);

	if (!varies && constant->width == 4) {
		for (uint32_t i = 0; i < block->stride; i++)
			((uint32_t *)array)[i] = (uint32_t)value;
		return;
	}

	for (uint32_t i = 0; i < block->stride; i++)
		cn_ptx_write(array, i, constant->width, varies ? value_of(block, constant, i) : value);
}

char *cn_ptx_constants(struct cn_ptx_block *block, const struct cn_ptx_function *function)
{
	uint32_t slot = block->plan->slots[function - block->module->functions] - 1;
	char *area = block->constants[slot];

	if (area)
		return area;
	area = aligned_alloc(64, ((size_t)function->constant_bytes * block->stride + 127) & ~(size_t)63);
	for (uint32_t i = 0; area && i < function->constant_count; i++)
		fill(block, area, &function->constants[i]);
	block->constants[slot] = area;
	return area;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

struct division {
	uintptr_t base;
	size_t total;
};

static void *take(struct division *division, size_t bytes)
{
	void *at = (void *)(division->base + division->total);

	division->total += (bytes + 255) & ~(size_t)255;
	return at;
}

/* Where each part lies: without a mapping yet their sum is all that is wanted. */
static size_t divide(struct cn_ptx_block *block, void *mapping)
{
	struct division division = {.base = (uintptr_t)mapping};
	size_t stride = block->stride;

	block->registers = take(&division, block->frame_limit * stride);
	block->scratch = take(&division, CN_PTX_SCRATCH_BYTES * stride);
	block->addresses = take(&division, 8 * stride);
	block->pc = take(&division, 4 * stride);
	block->frame = take(&division, 4 * stride);
	block->local_at = take(&division, 4 * stride);
	block->status = take(&division, stride);
	block->barrier_of = take(&division, stride);
	block->ready = take(&division, stride);
	block->group.mask = take(&division, stride);
	block->guarded = take(&division, stride);
	block->met = take(&division, stride);
	block->parameters = take(&division, block->kernel->parameter_bytes + 16);
	block->shared = take(&division, block->shared_bytes + 16);
	block->local = take(&division, (size_t)block->local_stride * stride);
	return division.total;
}

static struct {
	pthread_mutex_t lock;
	unsigned count;
	size_t total_bytes;
	struct {
		char *memory;
		size_t bytes;
	} mappings[SPARE_COUNT];
} spares = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A mapping of at least so many bytes, and not many more, that a block has left. NULL: there is none. */
static char *take_spare(size_t bytes, size_t *ret_bytes)
{
	char *memory = NULL;

	pthread_mutex_lock(&spares.lock);
	for (unsigned i = spares.count; i-- > 0 && !memory;)
		if (spares.mappings[i].bytes >= bytes && spares.mappings[i].bytes / 2 <= bytes) {
			memory = spares.mappings[i].memory;
			*ret_bytes = spares.mappings[i].bytes;
			spares.total_bytes -= *ret_bytes;
			spares.mappings[i] = spares.mappings[--spares.count];
		}
	pthread_mutex_unlock(&spares.lock);
	return memory;
}

static bool keep_spare(char *memory, size_t bytes)
{
	bool kept;

	pthread_mutex_lock(&spares.lock);
	kept = bytes <= SPARE_BYTES_MAX && spares.count < SPARE_COUNT && bytes <= SPARE_TOTAL_MAX - spares.total_bytes;
	if (kept) {
		spares.mappings[spares.count].memory = memory;
		spares.mappings[spares.count++].bytes = bytes;
		spares.total_bytes += bytes;
	}
	pthread_mutex_unlock(&spares.lock);
	return kept;
}

/* The block's mapping, of memory_bytes or more; NULL: no memory. */
static char *make_memory(struct cn_ptx_block *block)
{
	char *memory = take_spare(block->memory_bytes, &block->memory_bytes);

	if (memory || block->memory_bytes > MEMORY_BYTES_MAX)
		return memory;
	memory = mmap(NULL, block->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		      -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static enum cn_ptx_error_code measure(struct cn_ptx_block *block, struct cn_ptx_error *error)
{
	const struct cn_ptx_plan *plan = block->plan;
	uint64_t shared;

	block->constants = calloc(plan->count, sizeof *block->constants);
	if (!block->constants)
		return refuse(error, CN_PTX_NO_MEMORY, "no memory for a block");
	shared =
		((uint64_t)plan->shared_bytes + plan->dynamic_alignment - 1) & ~((uint64_t)plan->dynamic_alignment - 1);
	block->static_shared_bytes = (uint32_t)shared;
	shared = block->launch.dynamic_shared_bytes ? shared + block->launch.dynamic_shared_bytes : plan->shared_bytes;
	if (shared > CN_PTX_SHARED_BYTES_MAX)
		return refuse(error, CN_PTX_BAD_ARGUMENT, "a block with %llu bytes of shared memory",
			      (unsigned long long)shared);
	block->shared_bytes = (uint32_t)shared;
	if (plan->has_reserved) {
		block->reserved_at = (block->shared_bytes + 127) & ~127u;
		block->shared_bytes = block->reserved_at + CN_PTX_RESERVED_BYTES;
	}
	block->frame_limit = ((size_t)block->kernel->frame_bytes + 127) & ~(size_t)63;
	block->local_stride = (plan->local_bytes + 15) & ~15u;
	if (plan->calls) {
		block->frame_limit += CN_PTX_CALL_BYTES;
		block->local_stride += CN_PTX_CALL_LOCAL_BYTES;
	}
	return CN_PTX_OK;
}

enum cn_ptx_error_code cn_ptx_block_create(const struct cn_ptx_launch *launch, struct cn_ptx_error *ret_error,
					   struct cn_ptx_block **ret_block)
{
	enum cn_ptx_error_code code = cn_ptx_module_prepare(launch->module, launch->kernel, ret_error);
	struct cn_ptx_block *block;

	if (!code)
		code = check(launch, ret_error);
	if (code)
		return code;
	block = calloc(1, sizeof *block);
	if (!block)
		return refuse(ret_error, CN_PTX_NO_MEMORY, "no memory for a block");
	block->launch = *launch;
	block->module = launch->module;
	block->kernel = &launch->module->functions[launch->kernel];
	block->plan = block->kernel->plan;
	block->build = cn_ptx_build();
	block->lanes = launch->block[0] * launch->block[1] * launch->block[2];
	block->stride = (block->lanes + LANES_ROUNDED_TO - 1) & ~(LANES_ROUNDED_TO - 1u);
	code = measure(block, ret_error);
	if (code)
		goto err_destroy;
	block->memory_bytes = divide(block, NULL);
	block->memory = make_memory(block);
	if (!block->memory) {
		code = refuse(ret_error, CN_PTX_NO_MEMORY, "no memory for %zu bytes of registers and local memory",
			      block->memory_bytes);
		goto err_destroy;
	}
	divide(block, block->memory);
	/* What says where the lanes are; the rest is the kernel's, and as the block before left it. */
	memset(block->addresses, 0, (size_t)((char *)block->parameters - (char *)block->addresses));
	if (block->kernel->parameter_bytes)
		memcpy(block->parameters, launch->parameters, block->kernel->parameter_bytes);
	block->launch.parameters = NULL;
	block->state = CN_PTX_DONE;
	*ret_block = block;
	return CN_PTX_OK;

err_destroy:
	cn_ptx_block_destroy(block);
	return code;
}

void cn_ptx_block_destroy(struct cn_ptx_block *block)
{
	if (!block)
		return;
	for (uint32_t i = 0; block->constants && i < block->plan->count; i++)
		free(block->constants[i]);
	if (block->memory && !keep_spare(block->memory, block->memory_bytes))
		munmap(block->memory, block->memory_bytes);
	free(block->constants);
	free(block);
}

void cn_ptx_block_begin(struct cn_ptx_block *block, const unsigned coordinates[3])
{
	memcpy(block->coordinates, coordinates, sizeof block->coordinates);
	for (uint32_t f = 0; f < block->plan->count; f++) {
		const struct cn_ptx_function *function = &block->module->functions[block->plan->functions[f]];
		char *area = block->constants[f];

		for (uint32_t i = 0; area && i < function->constant_count; i++) {
			const struct cn_ptx_constant *constant = &function->constants[i];

			if (constant->kind == CN_PTX_C_SPECIAL &&
			    ((constant->value >= CN_PTX_S_CTAID && constant->value < CN_PTX_S_NCTAID) ||
			     constant->value == CN_PTX_S_SMID))
				fill(block, area, constant);
		}
	}
	if (block->reserved_at)
		memset(block->shared + block->reserved_at, 0, CN_PTX_RESERVED_BYTES);
	memset(block->barriers, 0, sizeof block->barriers);
	memset(block->local_at, 0, block->stride * sizeof *block->local_at);
	memset(block->status, CN_PTX_RUNS, block->stride);
	memset(block->ready, 0, block->stride);
	block->live = block->running = block->lanes;
	block->has_group = false;
	block->is_fresh = true;
	block->floor_pc = 0;
	block->state = CN_PTX_AGAIN;
}

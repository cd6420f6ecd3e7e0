/* SPDX-License-Identifier: MIT */
/*
 * Plans: what a kernel reaches, and what it needs for it.
 *
 * A module may bring thousands of kernels of which a program launches three. So bodies stay text until a kernel that
 * can reach them is prepared: then they become instructions, and the kernel gets a plan. Where it calls function
 * pointers, it can reach every function whose address is taken in a variable or in a body that has been read; to know
 * these, all functions are read (not the other kernels). One of them that we cannot run is left out: a call of it is an
 * illegal call, and no reason to refuse a kernel that may never do that.
 */
#include "ptx/ptx_module.h"

#include "ptx/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

static enum cn_ptx_error_code no_memory(struct cn_ptx_error *error)
{
	*error = (struct cn_ptx_error){.code = CN_PTX_NO_MEMORY, .sentence = "no memory for a kernel's code"};
	return CN_PTX_NO_MEMORY;
}

/* ---- Bodies ------------------------------------------------------------------------------------------------------ */

/* What a body that failed has left. */
static void forget(struct cn_ptx_function *function)
{
	free(function->code);
	free(function->more);
	free(function->arguments);
	free(function->places);
	free(function->constants);
	function->code = NULL;
	function->more = NULL;
	function->arguments = NULL;
	function->places = NULL;
	function->constants = NULL;
	function->code_count = function->code_room = function->more_count = function->more_room = 0;
	function->argument_count = function->argument_room = function->place_count = function->place_room = 0;
	function->constant_count = function->constant_room = function->constant_bytes = 0;
	function->local_bytes = 0;
	function->has_indirect_calls = false;
}

/* An array that has stopped growing. It has at least one item: instructions point into it where they take nothing. */
static void *trimmed(void *array, uint32_t count, size_t item_bytes)
{
	void *smaller = realloc(array, (count ? count : 1) * item_bytes);

	if (!smaller)
		return array;
	return smaller;
}

static bool finish(struct cn_ptx_function *function)
{
	function->end = function->start + function->code_count;
	function->code = trimmed(function->code, function->code_count, sizeof *function->code);
	function->more = trimmed(function->more, function->more_count, sizeof *function->more);
	function->arguments = trimmed(function->arguments, function->argument_count, sizeof *function->arguments);
	function->places = trimmed(function->places, function->place_count, sizeof *function->places);
	function->constants = trimmed(function->constants, function->constant_count, sizeof *function->constants);
	return function->code && function->more && function->arguments && function->places && function->constants &&
	       cn_ptx_registers_allocate(function);
}

enum cn_ptx_error_code cn_ptx_function_build(struct cn_ptx_module *module, uint32_t index, struct cn_ptx_error *error)
{
	struct cn_ptx_function *function = &module->functions[index];
	enum cn_ptx_error_code code = CN_PTX_OK;

	if (function->is_built)
		return CN_PTX_OK;
	code = cn_ptx_parse_body(module, index, error);
	if (!code && !finish(function))
		code = no_memory(error);
	if (code)
		forget(function);
	function->is_built = !code;
	return code;
}

/* ---- What a kernel reaches --------------------------------------------------------------------------------------- */

enum { DEPTH_MAX = 64 };

struct walk {
	struct cn_ptx_module *module;
	struct cn_ptx_plan *plan;
	uint8_t *state; /* of deepest(): by function */
	uint32_t *local_bytes;
	bool has_all; /* functions that a pointer may lead to have been looked for */
};

enum { FOLLOWED = 1, KNOWN }; /* on the chain of calls that is followed; local_bytes is right */

static void find(struct walk *walk, uint32_t function)
{
	struct cn_ptx_plan *plan = walk->plan;

	if (plan->slots[function] || !walk->module->functions[function].has_body)
		return;
	plan->functions[plan->count++] = function;
	plan->slots[function] = plan->count;
}

static bool calls_directly(const struct cn_ptx_inst *inst)
{
	return inst->kind == CN_PTX_I_CALL && inst->operand[1] == CN_PTX_NONE;
}

static void find_pointed_to(struct walk *walk)
{
	struct cn_ptx_module *module = walk->module;
	struct cn_ptx_error error;

	if (walk->has_all)
		return;
	walk->has_all = true;
	for (uint32_t i = 0; i < module->body_count; i++)
		if (!module->functions[module->bodies[i]].is_kernel)
			cn_ptx_function_build(module, module->bodies[i], &error);
	for (uint32_t i = 0; i < module->body_count; i++)
		if (module->functions[module->bodies[i]].is_address_taken &&
		    module->functions[module->bodies[i]].is_built)
			find(walk, module->bodies[i]);
}

/* From the kernel on, whatever is called. */
static enum cn_ptx_error_code reach(struct walk *walk, struct cn_ptx_error *error)
{
	struct cn_ptx_module *module = walk->module;

	for (uint32_t i = 0; i < walk->plan->count; i++) {
		uint32_t index = walk->plan->functions[i];
		const struct cn_ptx_function *function = &module->functions[index];
		enum cn_ptx_error_code code = cn_ptx_function_build(module, index, error);

		if (code)
			return code;
		for (uint32_t k = 0; k < function->code_count; k++)
			if (calls_directly(&function->code[k]))
				find(walk, function->code[k].target);
		if (function->has_indirect_calls)
			find_pointed_to(walk);
	}
	return CN_PTX_OK;
}

/* Local bytes of a function and what it calls. Deep chains are cut off: the launch has room for calls anyway. */
static uint32_t deepest(struct walk *walk, uint32_t index, unsigned depth)
{
	const struct cn_ptx_function *function = &walk->module->functions[index];
	uint32_t most = 0;

	if (walk->state[index] == KNOWN)
		return walk->local_bytes[index];
	if (depth > DEPTH_MAX || !walk->plan->slots[index] || walk->state[index] == FOLLOWED)
		return 0;
	walk->state[index] = FOLLOWED;
	for (uint32_t k = 0; k < function->code_count; k++)
		if (calls_directly(&function->code[k])) {
			uint32_t below = deepest(walk, function->code[k].target, depth + 1);

			most = below > most ? below : most;
		}
	walk->state[index] = KNOWN;
	walk->local_bytes[index] = most + ((function->local_bytes + 15) & ~15u);
	return walk->local_bytes[index];
}

/* Is there a use of %reserved_smem_offset_1? */
static bool uses_reserved(const struct cn_ptx_function *function)
{
	for (uint32_t i = 0; i < function->constant_count; i++)
		if (function->constants[i].kind == CN_PTX_C_SPECIAL &&
		    function->constants[i].value == CN_PTX_S_RESERVED_SMEM)
			return true;
	return false;
}

static uint32_t lay_out(const struct cn_ptx_module *module, const struct cn_ptx_function *function, uint32_t *offsets,
			uint32_t bytes)
{
	for (uint32_t i = 0; i < function->constant_count; i++) {
		const struct cn_ptx_constant *constant = &function->constants[i];
		uint32_t variable = (uint32_t)constant->value;
		const struct cn_ptx_shared *shared;

		if (constant->kind != CN_PTX_C_SHARED || constant->dynamic || offsets[variable] != UINT32_MAX)
			continue;
		shared = &module->shared[variable];
		bytes = (bytes + shared->alignment - 1) & ~(shared->alignment - 1);
		offsets[variable] = bytes;
		bytes = shared->bytes < (1u << 28) - bytes ? bytes + shared->bytes : 1u << 28;
	}
	return bytes;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

void cn_ptx_plan_free(struct cn_ptx_plan *plan)
{
	if (!plan)
		return;
	free(plan->functions);
	free(plan->slots);
	free(plan->shared_offsets);
	free(plan);
}

static enum cn_ptx_error_code measure(struct walk *walk, uint32_t kernel, struct cn_ptx_error *error)
{
	struct cn_ptx_module *module = walk->module;
	struct cn_ptx_plan *plan = walk->plan;

	plan->shared_offsets = malloc(((size_t)module->shared_count + 1) * sizeof *plan->shared_offsets);
	if (!plan->shared_offsets)
		return no_memory(error);
	memset(plan->shared_offsets, 0xff, module->shared_count * sizeof *plan->shared_offsets);
	for (uint32_t i = 0; i < plan->count; i++) {
		const struct cn_ptx_function *function = &module->functions[plan->functions[i]];

		plan->shared_bytes = lay_out(module, function, plan->shared_offsets, plan->shared_bytes);
		plan->has_reserved |= uses_reserved(function);
	}
	plan->dynamic_alignment = module->dynamic_alignment > 16 ? module->dynamic_alignment : 16;
	plan->calls = plan->count > 1 || module->functions[kernel].has_indirect_calls;
	plan->local_bytes = deepest(walk, kernel, 0);
	return CN_PTX_OK;
}

static enum cn_ptx_error_code make_plan(struct cn_ptx_module *module, uint32_t kernel, struct cn_ptx_error *error,
					struct cn_ptx_plan **ret_plan)
{
	struct walk walk = {.module = module,
			    .plan = calloc(1, sizeof *walk.plan),
			    .state = calloc(module->function_count, 1),
			    .local_bytes = calloc(module->function_count, sizeof *walk.local_bytes)};
	enum cn_ptx_error_code code = CN_PTX_OK;

	if (walk.plan) {
		walk.plan->functions = calloc(module->function_count, sizeof *walk.plan->functions);
		walk.plan->slots = calloc(module->function_count, sizeof *walk.plan->slots);
	}
	if (!walk.plan || !walk.plan->functions || !walk.plan->slots || !walk.state || !walk.local_bytes)
		code = no_memory(error);
	if (!code) {
		find(&walk, kernel);
		code = reach(&walk, error);
	}
	if (!code)
		code = measure(&walk, kernel, error);
	free(walk.state);
	free(walk.local_bytes);
	if (code)
		cn_ptx_plan_free(walk.plan);
	else
		*ret_plan = walk.plan;
	return code;
}

enum cn_ptx_error_code cn_ptx_module_prepare(struct cn_ptx_module *module, unsigned index,
					     struct cn_ptx_error *ret_error)
{
	struct cn_ptx_error spare = {0}, *error = ret_error ? ret_error : &spare;
	struct cn_ptx_function *function = index < module->function_count ? &module->functions[index] : NULL;
	enum cn_ptx_error_code code = CN_PTX_OK;

	if (!function || !function->is_kernel || !function->has_body) {
		*error =
			(struct cn_ptx_error){.code = CN_PTX_BAD_ARGUMENT, .sentence = "the module has no such kernel"};
		return CN_PTX_BAD_ARGUMENT;
	}
	pthread_mutex_lock(&module->building);
	if (!function->plan) {
		code = make_plan(module, index, error, &function->plan);
		if (!code) {
			struct cn_ptx_kernel *kernel = &module->kernels[function->position];

			kernel->shared_bytes = function->plan->shared_bytes;
			kernel->local_bytes = function->plan->local_bytes;
			kernel->register_count = function->live_registers;
		}
	}
	pthread_mutex_unlock(&module->building);
	return code;
}

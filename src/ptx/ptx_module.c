/* SPDX-License-Identifier: MIT */
/*
 * Modules: loading, what they need, and their variables' first values.
 */
#include "ptx/ptx_module.h"

#include "ptx/ptx_builtin.h"
#include "ptx/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

/* ---- What a kernel reaches --------------------------------------------------------------------------------------- */

enum { FOUND = 1, FOLLOWED, KNOWN, DEPTH_MAX = 64 };

struct walk {
	const struct cn_ptx_module *module;
	uint8_t *seen;   /* FOUND; FOLLOWED: on the chain of calls that is followed; KNOWN: local_bytes is right */
	uint32_t *found; /* functions, in the order in which they were found */
	uint32_t *local_bytes;
	uint32_t count;
};

static void find(struct walk *walk, uint32_t function)
{
	if (walk->seen[function] || !walk->module->functions[function].has_body)
		return;
	walk->seen[function] = FOUND;
	walk->found[walk->count++] = function;
}

static void find_callees(struct walk *walk, uint32_t index)
{
	const struct cn_ptx_module *module = walk->module;
	const struct cn_ptx_function *function = &module->functions[index];

	for (uint32_t pc = function->start; pc < function->end; pc++)
		if (module->code[pc].kind == CN_PTX_I_CALL && module->code[pc].operand[1] == CN_PTX_NONE)
			find(walk, module->code[pc].target);
	for (uint32_t i = 0; function->has_indirect_calls && i < module->function_count; i++)
		if (module->functions[i].is_address_taken)
			find(walk, i);
}

/* Local bytes of a function and what it calls. Deep chains are cut off: the launch has room for calls anyway. */
static uint32_t deepest(struct walk *walk, uint32_t index, unsigned depth)
{
	const struct cn_ptx_module *module = walk->module;
	const struct cn_ptx_function *function = &module->functions[index];
	uint32_t most = 0;

	if (walk->seen[index] == KNOWN)
		return walk->local_bytes[index];
	if (depth > DEPTH_MAX || !function->has_body || walk->seen[index] == FOLLOWED)
		return 0;
	walk->seen[index] = FOLLOWED;
	for (uint32_t pc = function->start; pc < function->end; pc++)
		if (module->code[pc].kind == CN_PTX_I_CALL && module->code[pc].operand[1] == CN_PTX_NONE) {
			uint32_t below = deepest(walk, module->code[pc].target, depth + 1);

			most = below > most ? below : most;
		}
	walk->seen[index] = KNOWN;
	walk->local_bytes[index] = most + ((function->local_bytes + 15) & ~15u);
	return walk->local_bytes[index];
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

bool cn_ptx_module_needs(const struct cn_ptx_module *module, uint32_t function, uint32_t *offsets,
			 struct cn_ptx_needs *ret)
{
	struct walk walk = {.module = module,
			    .seen = calloc(module->function_count, 1),
			    .found = calloc(module->function_count, sizeof *walk.found),
			    .local_bytes = calloc(module->function_count, sizeof *walk.local_bytes)};
	uint32_t *places = offsets ? offsets : malloc((module->shared_count + 1) * sizeof *places);
	bool ok = walk.seen && walk.found && walk.local_bytes && places;

	memset(ret, 0, sizeof *ret);
	if (ok) {
		memset(places, 0xff, module->shared_count * sizeof *places);
		find(&walk, function);
		for (uint32_t i = 0; i < walk.count; i++) {
			find_callees(&walk, walk.found[i]);
			ret->shared_bytes =
				lay_out(module, &module->functions[walk.found[i]], places, ret->shared_bytes);
		}
		ret->calls = walk.count > 1 || module->functions[function].has_indirect_calls;
		ret->local_bytes = deepest(&walk, function, 0);
	}
	if (places != offsets)
		free(places);
	free(walk.seen);
	free(walk.found);
	free(walk.local_bytes);
	return ok;
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static bool fill_kernel(struct cn_ptx_module *module, uint32_t index, struct cn_ptx_kernel *kernel)
{
	const struct cn_ptx_function *function = &module->functions[index];
	struct cn_ptx_parameter *parameters = calloc(function->formal_count + 1, sizeof *parameters);
	struct cn_ptx_needs needs;

	if (!parameters || !cn_ptx_module_needs(module, index, NULL, &needs)) {
		free(parameters);
		return false;
	}
	for (uint32_t i = 0; i < function->formal_count; i++)
		parameters[i] = (struct cn_ptx_parameter){function->formals[i].at, function->formals[i].bytes,
							  function->formals[i].alignment};
	*kernel = (struct cn_ptx_kernel){
		.name = function->name,
		.parameter_count = function->formal_count,
		.parameters = parameters,
		.parameter_bytes = function->parameter_bytes,
		.shared_bytes = needs.shared_bytes,
		.local_bytes = needs.local_bytes,
		.register_count = function->live_registers,
		.max_threads = function->max_threads,
		.required = {function->required[0], function->required[1], function->required[2]},
		.index = index,
	};
	return true;
}

static int compare_starts(const void *left, const void *right, void *data)
{
	const struct cn_ptx_module *module = data;
	uint32_t a = module->functions[*(const uint32_t *)left].start,
		 b = module->functions[*(const uint32_t *)right].start;

	return a < b ? -1 : a > b;
}

static bool finish(struct cn_ptx_module *module)
{
	uint32_t kernels = 0;

	module->bodies = calloc(module->function_count + 1, sizeof *module->bodies);
	/* Instructions point into these, also where they take nothing from them. */
	if (!module->more)
		module->more = calloc(1, sizeof *module->more);
	if (!module->arguments)
		module->arguments = calloc(1, sizeof *module->arguments);
	if (!module->bodies || !module->more || !module->arguments)
		return false;
	for (uint32_t i = 0; i < module->function_count; i++)
		if (module->functions[i].has_body) {
			module->bodies[module->body_count++] = i;
			kernels += module->functions[i].is_kernel;
		}
	/* A function may have been declared long before its body. */
	if (module->body_count)
		qsort_r(module->bodies, module->body_count, sizeof *module->bodies, compare_starts, module);
	module->kernels = calloc(kernels + 1, sizeof *module->kernels);
	if (!module->kernels)
		return false;
	for (uint32_t i = 0; i < module->body_count; i++) {
		if (!cn_ptx_registers_allocate(module, module->bodies[i]))
			return false;
		if (module->functions[module->bodies[i]].is_kernel) {
			if (!fill_kernel(module, module->bodies[i], &module->kernels[module->contents.kernel_count]))
				return false;
			module->contents.kernel_count++;
		}
	}
	module->contents.kernels = module->kernels;
	module->contents.variables = module->variables;
	return true;
}

enum cn_ptx_error_code cn_ptx_module_load(const void *image, size_t bytes, unsigned target,
					  struct cn_ptx_error *ret_error, struct cn_ptx_module **ret_module)
{
	struct cn_ptx_error spare = {0}, *error = ret_error ? ret_error : &spare;
	struct cn_ptx_module *module = calloc(1, sizeof *module);
	enum cn_ptx_error_code code;
	const char *text;
	size_t text_bytes;
	char *owned = NULL;

	memset(error, 0, sizeof *error);
	if (!module) {
		*error = (struct cn_ptx_error){.code = CN_PTX_NO_MEMORY, .sentence = "no memory for a module"};
		return CN_PTX_NO_MEMORY;
	}
	module->contents.data_alignment = 16;
	code = cn_ptx_image_text(image, bytes, target, error, &text, &text_bytes, &owned);
	if (!code)
		code = cn_ptx_parse(module, text, text_bytes, error);
	free(owned);
	if (!code && !finish(module)) {
		*error = (struct cn_ptx_error){.code = CN_PTX_NO_MEMORY, .sentence = "no memory for a module"};
		code = CN_PTX_NO_MEMORY;
	}
	if (code) {
		cn_ptx_module_unload(module);
		return code;
	}
	*ret_module = module;
	return CN_PTX_OK;
}

void cn_ptx_module_unload(struct cn_ptx_module *module)
{
	if (!module)
		return;
	for (uint32_t i = 0; i < module->function_count; i++) {
		free(module->functions[i].name);
		free(module->functions[i].formals);
		free(module->functions[i].constants);
	}
	for (uint32_t i = 0; module->kernels && i < module->contents.kernel_count; i++)
		free((void *)(uintptr_t)module->kernels[i].parameters);
	for (uint32_t i = 0; i < module->contents.variable_count; i++)
		free((void *)(uintptr_t)module->variables[i].name);
	for (uint32_t i = 0; i < module->file_count; i++)
		free(module->files[i]);
	cn_ptx_heap_free(module->heap);
	free(module->functions);
	free(module->code);
	free(module->bodies);
	free(module->more);
	free(module->arguments);
	free(module->places);
	free(module->files);
	free(module->relocations);
	free(module->data);
	free(module->shared);
	free(module->kernels);
	free(module->variables);
	free(module);
}

const struct cn_ptx_contents *cn_ptx_module_contents(const struct cn_ptx_module *module)
{
	return &module->contents;
}

void cn_ptx_module_place(struct cn_ptx_module *module, void *memory)
{
	size_t known =
		module->data_room < module->contents.data_bytes ? module->data_room : module->contents.data_bytes;

	module->memory = memory;
	if (known)
		memcpy(memory, module->data, known);
	if (module->contents.data_bytes > known)
		memset((char *)memory + known, 0, module->contents.data_bytes - known);
	for (uint32_t i = 0; i < module->relocation_count; i++) {
		const struct cn_ptx_relocation *relocation = &module->relocations[i];
		uint64_t value = relocation->is_function ? CN_PTX_FUNCTION_BASE + 16 * relocation->value
							 : (uint64_t)(uintptr_t)memory + relocation->value;

		value >>= relocation->shift;
		memcpy((char *)memory + relocation->offset_bytes, &value, relocation->width);
	}
}

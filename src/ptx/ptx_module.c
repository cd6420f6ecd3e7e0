/* SPDX-License-Identifier: MIT */
/*
 * Modules: loading, and their variables' first values.
 */
#include "ptx/ptx_module.h"

#include "ptx/ptx_builtin.h"
#include "ptx/ptx_parse.h"

#include <stdlib.h>
#include <string.h>

static enum cn_ptx_error_code no_memory(struct cn_ptx_error *error)
{
	*error = (struct cn_ptx_error){.code = CN_PTX_NO_MEMORY, .sentence = "no memory for a module"};
	return CN_PTX_NO_MEMORY;
}

static bool fill_kernel(struct cn_ptx_module *module, uint32_t index, struct cn_ptx_kernel *kernel)
{
	const struct cn_ptx_function *function = &module->functions[index];
	struct cn_ptx_parameter *parameters = calloc(function->formal_count + 1, sizeof *parameters);

	if (!parameters)
		return false;
	for (uint32_t i = 0; i < function->formal_count; i++)
		parameters[i] = (struct cn_ptx_parameter){function->formals[i].at, function->formals[i].bytes,
							  function->formals[i].alignment};
	*kernel = (struct cn_ptx_kernel){
		.name = function->name,
		.parameter_count = function->formal_count,
		.parameters = parameters,
		.parameter_bytes = function->parameter_bytes,
		.max_threads = function->max_threads,
		.required = {function->required[0], function->required[1], function->required[2]},
		.index = index,
	};
	return true;
}

/* The kernels, in the order of the text; and bodies that cannot wait, since place() wants to know their variables. */
static enum cn_ptx_error_code finish(struct cn_ptx_module *module, struct cn_ptx_error *error)
{
	module->kernels = calloc(module->body_count + 1, sizeof *module->kernels);
	for (uint32_t i = 0; module->kernels && i < module->body_count; i++) {
		struct cn_ptx_function *function = &module->functions[module->bodies[i]];
		enum cn_ptx_error_code code = CN_PTX_OK;

		if (function->has_variables)
			code = cn_ptx_function_build(module, module->bodies[i], error);
		if (code)
			return code;
		if (!function->is_kernel)
			continue;
		function->position = module->contents.kernel_count;
		if (!fill_kernel(module, module->bodies[i], &module->kernels[function->position]))
			return no_memory(error);
		module->contents.kernel_count++;
	}
	module->contents.kernels = module->kernels;
	module->contents.variables = module->variables;
	return module->kernels ? CN_PTX_OK : no_memory(error);
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
	if (!module)
		return no_memory(error);
	pthread_mutex_init(&module->building, NULL);
	module->contents.data_alignment = 16;
	code = cn_ptx_image_text(image, bytes, target, error, &text, &text_bytes, &owned);
	/* Bodies are read later: the text is the module's own. */
	module->text = owned || code ? owned : cn_ptx_copy_text(text, text_bytes);
	if (!code && !module->text)
		code = no_memory(error);
	if (!code)
		code = cn_ptx_parse(module, module->text, text_bytes, error);
	if (!code)
		code = finish(module, error);
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
		struct cn_ptx_function *function = &module->functions[i];

		free(function->name);
		free(function->formals);
		free(function->constants);
		free(function->code);
		free(function->more);
		free(function->arguments);
		free(function->places);
		cn_ptx_plan_free(function->plan);
	}
	for (uint32_t i = 0; module->kernels && i < module->contents.kernel_count; i++)
		free((void *)(uintptr_t)module->kernels[i].parameters);
	for (uint32_t i = 0; i < module->contents.variable_count; i++)
		free((void *)(uintptr_t)module->variables[i].name);
	for (uint32_t i = 0; i < module->file_count; i++)
		free(module->files[i]);
	cn_ptx_heap_free(module->heap);
	cn_ptx_parser_free(module->parser);
	pthread_mutex_destroy(&module->building);
	free(module->text);
	free(module->functions);
	free(module->bodies);
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

uint64_t cn_ptx_module_address(const struct cn_ptx_module *module, uint64_t offset, const void *memory,
			       const void *managed)
{
	for (uint32_t i = 0; managed != memory && i < module->contents.variable_count; i++) {
		const struct cn_ptx_variable *variable = &module->contents.variables[i];

		if (variable->managed && offset - variable->offset_bytes < variable->bytes)
			return (uint64_t)(uintptr_t)managed + offset;
	}
	return (uint64_t)(uintptr_t)memory + offset;
}

void cn_ptx_module_place(const struct cn_ptx_module *module, void *into, void *memory, void *managed)
{
	size_t known =
		module->data_room < module->contents.data_bytes ? module->data_room : module->contents.data_bytes;

	if (known)
		memcpy(into, module->data, known);
	if (module->contents.data_bytes > known)
		memset((char *)into + known, 0, module->contents.data_bytes - known);
	for (uint32_t i = 0; i < module->relocation_count; i++) {
		const struct cn_ptx_relocation *relocation = &module->relocations[i];
		uint64_t value = relocation->is_function
					 ? CN_PTX_FUNCTION_BASE + 16 * relocation->value
					 : cn_ptx_module_address(module, relocation->value, memory, managed);

		value >>= relocation->shift;
		memcpy((char *)into + relocation->offset_bytes, &value, relocation->width);
	}
}

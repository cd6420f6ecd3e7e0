/* SPDX-License-Identifier: MIT */
/*
 * Modules of PTX: their functions, and the calls that list them.
 */
#include "driver/host/kernel.h"

#include "base/guard.h"

#include <stdlib.h>
#include <string.h>

CUresult cn_module_prepare(CUmodule handle, const char *name)
{
	struct cn_module *module;
	struct cn_code *code;
	unsigned index = 0, end;
	CUresult result = cn_module_lock(handle, &module);

	if (result)
		return result;
	code = module->code;
	if (code)
		atomic_fetch_add(&code->references, 1);
	cn_unlock(&module->lock);
	if (!code)
		return CUDA_SUCCESS;
	end = code->contents->kernel_count;
	if (name) {
		result = cn_code_find_kernel(code, name, &index);
		end = result ? index : index + 1;
	}
	while (!result && index < end)
		result = cn_code_prepare(code, index++);
	cn_code_release(code);
	return result;
}

CUresult cn_module_function(struct cn_module *module, unsigned index, struct cn_function **ret_function)
{
	const struct cn_ptx_kernel *ptx = &module->code->contents->kernels[index];
	struct cn_function *function = module->by_index[index];
	unsigned count = ptx->parameter_count, *parameters;

	if (function) {
		*ret_function = function;
		return CUDA_SUCCESS;
	}
	struct cn_function_traits traits = cn_function_traits(module->code, index);
	parameters = malloc(2 * (count + 1) * sizeof *parameters);
	if (!parameters)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a function");
	for (unsigned i = 0; i < count; i++) {
		parameters[i] = ptx->parameters[i].bytes;
		parameters[count + i] = ptx->parameters[i].alignment;
	}
	CUresult result = cn_function_create(
		&(struct cn_kernel){
			.name = ptx->name,
			.parameter_count = count,
			.parameter_bytes = parameters,
			.parameter_alignment = parameters + count,
			.ptx = ptx,
			.module = module->code->ptx,
		},
		&traits, module, &function);
	if (result) {
		free(parameters);
		return result;
	}
	function->parameters = parameters;
	struct cn_code_settings *settings = module->code->settings[index];
	if (settings) {
		int ordinal = module->home.device->ordinal;
		atomic_store(&function->max_dynamic_shared_bytes, settings->on[ordinal].max_dynamic_shared_bytes);
		atomic_store(&function->carveout, settings->on[ordinal].carveout);
	}
	function->next = module->functions;
	module->functions = function;
	module->by_index[index] = function;
	*ret_function = function;
	return CUDA_SUCCESS;
}

/* A module of PTX, locked. */
static CUresult lock(CUmodule handle, struct cn_module **ret_module)
{
	CUresult result = cn_module_lock(handle, ret_module);

	if (result || (*ret_module)->code)
		return result;
	cn_unlock(&(*ret_module)->lock);
	return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the kernels of a shared object are found by name alone");
}

CUresult host_cuModuleGetFunctionCount(unsigned int *ret_count, CUmodule handle)
{
	struct cn_module *module;
	CUresult result = cn_context_enter_any();

	if (result)
		return result;
	if (!ret_count)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "count is NULL");
	result = lock(handle, &module);
	if (result)
		return result;
	*ret_count = module->code->contents->kernel_count;
	cn_unlock(&module->lock);
	return CUDA_SUCCESS;
}

CUresult host_cuModuleEnumerateFunctions(CUfunction *ret_functions, unsigned int count, CUmodule handle)
{
	struct cn_function *function;
	struct cn_module *module;
	CUresult result = cn_context_enter_any();

	if (result)
		return result;
	if (!ret_functions)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "functions is NULL");
	result = cn_module_prepare(handle, NULL);
	if (!result)
		result = lock(handle, &module);
	if (result)
		return result;
	if (count > module->code->contents->kernel_count)
		count = module->code->contents->kernel_count;
	if (!cn_guard_check_write(ret_functions, count * sizeof *ret_functions, "functions"))
		result = CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && !result; i++) {
		result = cn_module_function(module, i, &function);
		if (!result)
			ret_functions[i] = (CUfunction)(uintptr_t)cn_object_handle(function);
	}
	cn_unlock(&module->lock);
	return result;
}

CUresult host_cuModuleGetLoadingMode(CUmoduleLoadingMode *ret_mode)
{
	const char *wish = secure_getenv("CUDA_MODULE_LOADING");
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!ret_mode)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "mode is NULL");
	*ret_mode = wish && strcmp(wish, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}

/* SPDX-License-Identifier: MIT */
/*
 * Functions: the kernel behind a handle, and what it says of itself.
 *
 * A kernel of a library (library.c) may stand where a function is wanted: it means the library's function in the
 * context that is current, or in the stream's. What has a call of its own for kernels refuses it, as the driver does.
 */
#include "driver/host/kernel.h"

enum { SHARED_BYTES_DEFAULT = 48 * 1024 }; /* what a block may have before cuFuncSetAttribute() allows more */

struct cn_table cn_functions = CN_TABLE(CN_KIND_FUNCTION, struct cn_function);

CUresult cn_function_find(CUfunction handle, struct cn_function **ret_function)
{
	struct cn_function *function = cn_table_find(&cn_functions, handle);

	if (!function && cn_table_is_kind(CN_KIND_KERNEL, (uintptr_t)handle))
		return cn_library_function((CUkernel)handle, NULL, ret_function);
	if (!function)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "%p is not a live function", (void *)handle);
	*ret_function = function;
	return CUDA_SUCCESS;
}

CUresult cn_function_lock(CUfunction handle, struct cn_context *context, struct cn_function **ret_function,
			  struct cn_module **ret_module)
{
	struct cn_function *function;
	uint64_t expected = (uintptr_t)handle;
	CUresult result = cn_table_is_kind(CN_KIND_KERNEL, expected)
				  ? cn_library_function((CUkernel)handle, context, &function)
				  : cn_function_find(handle, &function);

	if (result)
		return result;
	if (cn_table_is_kind(CN_KIND_KERNEL, expected))
		expected = cn_object_handle(function);
	struct cn_module *module = function->module;
	if (module) {
		cn_lock(&module->lock);
		if (!expected || cn_object_handle(function) != expected) {
			cn_unlock(&module->lock);
			return cn_error(CUDA_ERROR_INVALID_HANDLE,
					"another thread has just unloaded the function's module");
		}
	}
	*ret_function = function;
	*ret_module = module;
	return CUDA_SUCCESS;
}

/* For questions that kernels have calls of their own for. */
static CUresult refuse_kernel(CUfunction handle, const char *instead)
{
	if (cn_table_is_kind(CN_KIND_KERNEL, (uintptr_t)handle))
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "%p is a library's kernel, not a function; call %s()",
				(void *)handle, instead);
	return CUDA_SUCCESS;
}

/* ---- What a function says of itself ------------------------------------------------------------------------------ */

static int device_attribute(CUdevice_attribute attribute)
{
	int value = 0;

	/* All host devices are alike in this. */
	return cn_device_ops->attribute(&cn_devices[0], attribute, &value) ? 0 : value;
}

struct cn_function_traits cn_function_traits(const struct cn_code *code, unsigned index)
{
	const struct cn_ptx_kernel *kernel = &code->contents->kernels[index];
	struct cn_function_traits traits = {
		.shared_bytes = (int)kernel->shared_bytes,
		.local_bytes = (int)kernel->local_bytes,
		.register_count = (int)kernel->register_count,
		.max_threads = (int)kernel->max_threads,
		.target = (int)code->contents->target,
	};

	for (unsigned i = 0; i < code->contents->variable_count; i++)
		if (code->contents->variables[i].constant)
			traits.constant_bytes += (int)code->contents->variables[i].bytes;
	return traits;
}

int cn_function_default_shared_bytes(const struct cn_function_traits *traits)
{
	return traits->shared_bytes < SHARED_BYTES_DEFAULT ? SHARED_BYTES_DEFAULT - traits->shared_bytes : 0;
}

CUresult cn_function_create(const struct cn_kernel *kernel, const struct cn_function_traits *traits,
			    struct cn_module *module, struct cn_function **ret_function)
{
	struct cn_function *function = cn_table_take(&cn_functions);

	if (!function)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a function");
	function->kernel = *kernel;
	function->module = module;
	function->traits = *traits;
	function->parameters = NULL;
	atomic_store(&function->max_dynamic_shared_bytes, cn_function_default_shared_bytes(traits));
	atomic_store(&function->carveout, CU_SHAREDMEM_CARVEOUT_DEFAULT);
	cn_table_publish(&cn_functions, function);
	*ret_function = function;
	return CUDA_SUCCESS;
}

CUresult cn_function_attribute(const struct cn_function_traits *traits, int max_dynamic_shared_bytes, int carveout,
			       CUfunction_attribute attribute, int *ret_value)
{
	int most_threads = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	int capability = 10 * device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
			 device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);

	if ((int)attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a function has no attribute %d", (int)attribute);
	switch ((int)attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*ret_value =
			traits->max_threads && traits->max_threads < most_threads ? traits->max_threads : most_threads;
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *ret_value = traits->shared_bytes; break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *ret_value = traits->constant_bytes; break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *ret_value = traits->local_bytes; break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS: *ret_value = traits->register_count; break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION: *ret_value = traits->target ? traits->target : capability; break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *ret_value = capability; break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *ret_value = max_dynamic_shared_bytes; break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *ret_value = carveout; break;
	default: *ret_value = 0; /* there are no clusters, and caches have no modes */
	}
	return CUDA_SUCCESS;
}

CUresult host_cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
	struct cn_function *function;
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!value)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "pi is NULL");
	if ((int)attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a function has no attribute %d", (int)attribute);
	result = refuse_kernel(handle, "cuKernelGetAttribute");
	if (!result)
		result = cn_function_find(handle, &function);
	if (result)
		return result;
	return cn_function_attribute(&function->traits, atomic_load(&function->max_dynamic_shared_bytes),
				     atomic_load(&function->carveout), attribute, value);
}

CUresult cn_function_set_attribute(const struct cn_function_traits *traits, _Atomic int *max_dynamic_shared_bytes,
				   _Atomic int *carveout, CUfunction_attribute attribute, int value)
{
	int most = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) - traits->shared_bytes;

	switch ((int)attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || value > most)
			return cn_error(CUDA_ERROR_INVALID_VALUE,
					"the device has no %d bytes of shared memory for a block", value);
		atomic_store(max_dynamic_shared_bytes, value);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < CU_SHAREDMEM_CARVEOUT_DEFAULT || value > CU_SHAREDMEM_CARVEOUT_MAX_SHARED)
			return cn_error(CUDA_ERROR_INVALID_VALUE, "a carveout of %d percent: it must be -1 to 100",
					value);
		atomic_store(carveout, value);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the host device has no clusters");
	default: return cn_error(CUDA_ERROR_INVALID_VALUE, "attribute %d of a function cannot be set", (int)attribute);
	}
}

CUresult host_cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
	struct cn_function *function;
	struct cn_module *module;
	CUresult result = cn_enter();

	if (!result)
		result = cn_function_lock(handle, NULL, &function, &module);
	if (result)
		return result;
	result = cn_function_set_attribute(&function->traits, &function->max_dynamic_shared_bytes, &function->carveout,
					   attribute, value);
	if (module)
		cn_unlock(&module->lock);
	return result;
}

CUresult host_cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
	struct cn_function *function;
	CUresult result = cn_enter();

	if (!result)
		result = cn_function_find(handle, &function);
	return result ? result : cn_limits_check_bank_width(config);
}

CUresult host_cuFuncGetName(const char **ret_name, CUfunction handle)
{
	struct cn_function *function;
	struct cn_module *module;
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!ret_name || !handle)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_name ? "hfunc" : "name");
	result = cn_function_lock(handle, NULL, &function, &module);
	if (result)
		return result;
	*ret_name = function->kernel.name;
	if (module)
		cn_unlock(&module->lock);
	return CUDA_SUCCESS;
}

CUresult host_cuFuncGetModule(CUmodule *ret_module, CUfunction handle)
{
	struct cn_function *function;
	struct cn_module *module;
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!ret_module || !handle)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_module ? "hfunc" : "hmod");
	result = cn_function_lock(handle, NULL, &function, &module);
	if (result)
		return result;
	if (!module)
		return cn_error(CUDA_ERROR_NOT_FOUND, "kernel %s is the program's own, and of no module",
				function->kernel.name);
	*ret_module = (CUmodule)(uintptr_t)cn_object_handle(module);
	cn_unlock(&module->lock);
	return CUDA_SUCCESS;
}

static CUresult find_parameter(const struct cn_kernel *kernel, size_t index, size_t *ret_offset, size_t *ret_bytes)
{
	size_t offset = 0, bytes = 0;

	if (!ret_offset)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "paramOffset is NULL");
	if (index >= kernel->parameter_count)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "kernel %s has %u parameters, and none of number %zu",
				kernel->name, kernel->parameter_count, index);
	for (size_t i = 0; i <= index; i++) {
		size_t alignment = kernel->parameter_alignment[i];
		offset = (offset + bytes + alignment - 1) & ~(alignment - 1);
		bytes = kernel->parameter_bytes[i];
	}
	*ret_offset = offset;
	if (ret_bytes)
		*ret_bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult host_cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *ret_offset, size_t *ret_bytes)
{
	struct cn_function *function;
	struct cn_module *module;
	CUresult result = cn_given(cn_enter(), handle, "func");

	if (!result)
		result = refuse_kernel(handle, "cuKernelGetParamInfo");
	if (!result)
		result = cn_function_lock(handle, NULL, &function, &module);
	if (result)
		return result;
	result = find_parameter(&function->kernel, index, ret_offset, ret_bytes);
	if (module)
		cn_unlock(&module->lock);
	return result;
}

CUresult host_cuFuncIsLoaded(CUfunctionLoadingState *ret_state, CUfunction handle)
{
	struct cn_function *function;
	CUresult result = cn_given(cn_enter(), ret_state, "state");

	if (!result)
		result = cn_function_find(handle, &function);
	if (!result)
		*ret_state = CU_FUNCTION_LOADING_STATE_LOADED;
	return result;
}

CUresult host_cuFuncLoad(CUfunction handle)
{
	struct cn_function *function;
	CUresult result = cn_enter();

	return result ? result : cn_function_find(handle, &function);
}

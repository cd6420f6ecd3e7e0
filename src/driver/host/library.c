/* SPDX-License-Identifier: MIT */
/*
 * Libraries: code that every context can use, and its kernels.
 *
 * A library belongs to no context. It has code (code.c), and a module of it in each context that has used it, made when
 * it is first needed there; a module ends with its context or with the library. A kernel of a library is a number in
 * its code; in a context it stands for a function of the module there.
 *
 * A library's lock guards the list of its modules and its kernels' records. A module is entered in the list while its
 * handle is alive; the thread that retires the handle takes it out.
 */
#include "driver/host/kernel.h"

#include "base/guard.h"
#include "driver/host/jit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cn_library_kernel {
	struct cn_object object; /* first */
	_Atomic(struct cn_library *) library;
	unsigned index;
};

struct cn_library {
	struct cn_object object; /* first */
	CN_LOCK(LIBRARY) lock;
	struct cn_code *code;
	struct cn_module *modules;
	struct cn_library_kernel **kernels; /* by index; those that were asked for */
};

struct cn_table cn_libraries = CN_TABLE(CN_KIND_LIBRARY, struct cn_library);
struct cn_table cn_library_kernels = CN_TABLE(CN_KIND_KERNEL, struct cn_library_kernel);

/* ---- Coming ------------------------------------------------------------------------------------------------------ */

static CUresult make_library(struct cn_code *code, CUlibrary *ret_library)
{
	struct cn_library *library = cn_table_take(&cn_libraries);
	struct cn_library_kernel **kernels =
		calloc(code->contents->kernel_count + 1, sizeof(struct cn_library_kernel *));

	if (!library || !kernels) {
		if (library)
			cn_table_give(&cn_libraries, library);
		free(kernels);
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a library's record");
	}
	library->code = code;
	library->modules = NULL;
	library->kernels = kernels;
	*ret_library = (CUlibrary)(uintptr_t)cn_table_publish(&cn_libraries, library);
	return CUDA_SUCCESS;
}

static CUresult load(const struct cn_image *image, CUlibrary *ret_library)
{
	enum cn_image_kind kind;
	struct cn_code *code;
	uint64_t bytes;
	CUresult result = cn_image_check(image, &kind, &bytes);

	if (!result && kind == CN_IMAGE_SHARED_OBJECT)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"a library of the host device is PTX; a shared object is a module: cuModuleLoad()");
	if (!result)
		result = cn_code_load(image, kind, &code);
	if (result)
		return result;
	result = make_library(code, ret_library);
	if (result)
		cn_code_release(code);
	return result;
}

/* Load from memory or from a file, and write to the log of errors why not. */
static CUresult load_with(const struct cn_jit *jit, const struct cn_image *image, CUlibrary *ret_library)
{
	char sentence[CN_SENTENCE_BYTES];
	CUresult result = load(image, ret_library);

	if (result) {
		memcpy(sentence, cn_last_error(), sizeof sentence);
		if (cn_jit_fail(jit, sentence))
			cn_error_forget(sentence);
	}
	return result;
}

static CUresult check_options(unsigned int count, const CUlibraryOption *options)
{
	if (count && !options)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "libraryOptions is NULL");
	for (unsigned int i = 0; i < count; i++)
		if ((int)options[i] < 0 || options[i] >= CU_LIBRARY_NUM_OPTIONS)
			return cn_error(CUDA_ERROR_INVALID_VALUE, "library option %d is unknown", (int)options[i]);
	return CUDA_SUCCESS;
}

CUresult host_cuLibraryLoadData(CUlibrary *ret_library, const void *code, CUjit_option *jit_options, void **jit_values,
				unsigned int jit_count, CUlibraryOption *library_options, void **library_values,
				unsigned int library_count)
{
	const struct cn_image image = {.file = -1, .memory = code};
	struct cn_jit jit;
	CUresult result = cn_enter();

	(void)library_values; /* neither option changes anything here */
	if (result)
		return result;
	if (!ret_library || !code)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_library ? "code" : "library");
	result = check_options(library_count, library_options);
	if (!result)
		result = cn_jit_begin(jit_count, jit_options, jit_values, &jit);
	return result ? result : load_with(&jit, &image, ret_library);
}

CUresult host_cuLibraryLoadFromFile(CUlibrary *ret_library, const char *path, CUjit_option *jit_options,
				    void **jit_values, unsigned int jit_count, CUlibraryOption *library_options,
				    void **library_values, unsigned int library_count)
{
	struct cn_image image = {.file = -1};
	struct cn_jit jit;
	CUresult result = cn_enter();

	(void)library_values;
	if (result)
		return result;
	if (!ret_library || !path || !*path)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s",
				!ret_library ? "library is NULL"
				: !path      ? "fileName is NULL"
					     : "fileName is empty");
	result = check_options(library_count, library_options);
	if (!result)
		result = cn_jit_begin(jit_count, jit_options, jit_values, &jit);
	if (result)
		return result;
	result = cn_image_open(path, &image.file);
	if (result)
		return result;
	result = load_with(&jit, &image, ret_library);
	close(image.file);
	return result;
}

/* ---- Going ------------------------------------------------------------------------------------------------------- */

static CUresult refuse(CUlibrary handle)
{
	return cn_error(CUDA_ERROR_INVALID_HANDLE, "%p is not a live library", (void *)handle);
}

/* A library, locked: it is not unloaded while locked. */
static CUresult lock_library(CUlibrary handle, struct cn_library **ret_library)
{
	struct cn_library *library = cn_table_find(&cn_libraries, handle);

	if (!library)
		return refuse(handle);
	cn_lock(&library->lock);
	if (cn_object_handle(library) != (uint64_t)(uintptr_t)handle) {
		cn_unlock(&library->lock);
		return refuse(handle);
	}
	*ret_library = library;
	return CUDA_SUCCESS;
}

/* Take a module that is not yet being unloaded out of the list; its handle is retired. NULL: there is none. */
static struct cn_module *take_module(struct cn_library *library)
{
	struct cn_module *module;

	cn_lock(&library->lock);
	while ((module = library->modules)) {
		uint64_t handle = cn_object_handle(module);
		library->modules = module->next_of_library;
		if (handle && cn_table_retire(module, handle))
			break;
	}
	cn_unlock(&library->lock);
	return module;
}

CUresult host_cuLibraryUnload(CUlibrary handle)
{
	struct cn_library *library;
	struct cn_module *module;
	CUresult result = cn_enter();

	if (result)
		return result;
	library = cn_table_find(&cn_libraries, handle);
	if (!library || !cn_table_retire(library, (uint64_t)(uintptr_t)handle))
		return refuse(handle);
	cn_lock(&library->lock); /* threads that found it alive are done with it */
	for (unsigned i = 0; i < library->code->contents->kernel_count; i++)
		if (library->kernels[i])
			cn_table_retire(library->kernels[i], cn_object_handle(library->kernels[i]));
	cn_unlock(&library->lock);
	while ((module = take_module(library)))
		cn_module_unload(module);
	for (unsigned i = 0; i < library->code->contents->kernel_count; i++)
		if (library->kernels[i])
			cn_table_give(&cn_library_kernels, library->kernels[i]);
	free(library->kernels);
	library->kernels = NULL;
	cn_code_release(library->code);
	library->code = NULL;
	cn_table_give(&cn_libraries, library);
	return CUDA_SUCCESS;
}

void cn_library_forget(struct cn_library *library, struct cn_module *module)
{
	cn_lock(&library->lock);
	for (struct cn_module **link = &library->modules; *link; link = &(*link)->next_of_library)
		if (*link == module) {
			*link = module->next_of_library;
			break;
		}
	cn_unlock(&library->lock);
}

/* ---- Modules ----------------------------------------------------------------------------------------------------- */

/* The library's module in a context; NULL: there is none. Library locked. */
static struct cn_module *module_in(struct cn_library *library, const struct cn_home *home, uint64_t *ret_handle)
{
	for (struct cn_module *module = library->modules; module; module = module->next_of_library)
		if (module->home.context == home->context && module->home.life == home->life) {
			*ret_handle = cn_object_handle(module);
			return *ret_handle ? module : NULL;
		}
	return NULL;
}

/* Enter a new module, unless another thread was faster; then it is unloaded. */
static CUresult enter_module(CUlibrary handle, struct cn_module **module, uint64_t *module_handle)
{
	struct cn_module *mine = *module, *other;
	struct cn_library *library;
	uint64_t other_handle;
	CUresult result = lock_library(handle, &library);

	other = result ? NULL : module_in(library, &mine->home, &other_handle);
	bool alive = cn_object_handle(mine) == *module_handle;
	if (!result && !other && alive) {
		mine->next_of_library = library->modules;
		library->modules = mine;
	}
	if (!result)
		cn_unlock(&library->lock);
	if (!result && !other && alive)
		return CUDA_SUCCESS;
	if (cn_table_retire(mine, *module_handle))
		cn_module_unload(mine);
	if (result)
		return result;
	if (!other)
		return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "another thread has destroyed the context");
	*module = other;
	*module_handle = other_handle;
	return CUDA_SUCCESS;
}

static CUresult set_up_managed(uint64_t handle)
{
	struct cn_module *module;
	CUresult result = cn_module_lock((CUmodule)(uintptr_t)handle, &module);

	if (result)
		return result;
	result = cn_module_enter_managed(module);
	cn_unlock(&module->lock);
	return result;
}

/* The library's module in a context, made if there is none; its managed variables are known there. */
static CUresult find_module(CUlibrary handle, const struct cn_home *home, struct cn_module **ret_module,
			    uint64_t *ret_handle)
{
	struct cn_library *library;
	struct cn_module *module;
	struct cn_code *code;
	CUresult result = lock_library(handle, &library);

	if (result)
		return result;
	module = module_in(library, home, ret_handle);
	code = library->code;
	bool has_managed = code->has_managed;
	if (!module)
		atomic_fetch_add(&code->references, 1);
	cn_unlock(&library->lock);
	if (!module) {
		result = cn_module_create(home, code, library, &module, ret_handle);
		if (result) {
			cn_code_release(code);
			return result;
		}
		result = enter_module(handle, &module, ret_handle);
		if (!result && has_managed)
			result = set_up_managed(*ret_handle);
	}
	if (!result)
		*ret_module = module;
	return result;
}

/* The same in the current context, locked. */
static CUresult lock_module(CUlibrary handle, struct cn_module **ret_module)
{
	struct cn_module *module;
	struct cn_home home;
	uint64_t module_handle;
	CUresult result = cn_context_enter(&home);

	if (!result)
		result = find_module(handle, &home, &module, &module_handle);
	return result ? result : cn_module_lock((CUmodule)(uintptr_t)module_handle, ret_module);
}

CUresult host_cuLibraryGetModule(CUmodule *ret_module, CUlibrary handle)
{
	struct cn_module *module;
	CUresult result = cn_given(cn_enter(), ret_module, "pMod");

	if (!result)
		result = lock_module(handle, &module);
	if (result)
		return result;
	*ret_module = (CUmodule)(uintptr_t)cn_object_handle(module);
	cn_unlock(&module->lock);
	return CUDA_SUCCESS;
}

/* Either may be NULL. After a failure they are untouched, unlike those of cuModuleGetGlobal(). */
static CUresult put_variable(CUresult result, CUdeviceptr pointer, size_t bytes, CUdeviceptr *ret_pointer,
			     size_t *ret_bytes)
{
	if (!result && ret_pointer)
		*ret_pointer = pointer;
	if (!result && ret_bytes)
		*ret_bytes = bytes;
	return result;
}

static CUresult check_outputs(const CUdeviceptr *ret_pointer, const size_t *ret_bytes, const char *name)
{
	if ((!ret_pointer && !ret_bytes) || !name)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s", name ? "dptr and bytes are both NULL" : "name is NULL");
	return CUDA_SUCCESS;
}

CUresult host_cuLibraryGetGlobal(CUdeviceptr *ret_pointer, size_t *ret_bytes, CUlibrary handle, const char *name)
{
	struct cn_module *module;
	CUdeviceptr pointer = 0;
	size_t bytes = 0;
	CUresult result = cn_enter();

	if (!result)
		result = check_outputs(ret_pointer, ret_bytes, name);
	if (!result)
		result = lock_module(handle, &module);
	if (result)
		return result;
	result = cn_module_find_variable(module, name, &pointer, &bytes);
	cn_unlock(&module->lock);
	return put_variable(result, pointer, bytes, ret_pointer, ret_bytes);
}

/* Where a context is current, the managed variables are memory that it knows. */
static CUresult enter_managed(CUlibrary handle)
{
	struct cn_module *module;
	CUresult result;

	if (!cn_context_thread.depth || !cn_context_thread.stack[cn_context_thread.depth - 1])
		return CUDA_SUCCESS;
	result = lock_module(handle, &module);
	if (!result)
		cn_unlock(&module->lock);
	return result;
}

/* Where a managed variable of the code is. */
static CUresult find_managed(struct cn_code *code, const char *name, CUdeviceptr *ret_pointer, size_t *ret_bytes)
{
	unsigned index;
	CUresult result = cn_code_find_variable(code, name, &index);

	if (!result && !code->contents->variables[index].managed)
		result = cn_error(CUDA_ERROR_NOT_FOUND, "the variable '%.128s' is not managed", name);
	if (!result)
		result = cn_code_place_managed(code);
	if (result)
		return result;
	*ret_pointer = (CUdeviceptr)(uintptr_t)code->managed + code->contents->variables[index].offset_bytes;
	*ret_bytes = code->contents->variables[index].bytes;
	return CUDA_SUCCESS;
}

/* No context is needed: the memory is the code's. */
CUresult host_cuLibraryGetManaged(CUdeviceptr *ret_pointer, size_t *ret_bytes, CUlibrary handle, const char *name)
{
	struct cn_library *library;
	CUdeviceptr pointer = 0;
	size_t bytes = 0;
	CUresult result = cn_enter();

	if (!result)
		result = check_outputs(ret_pointer, ret_bytes, name);
	if (!result)
		result = lock_library(handle, &library);
	if (result)
		return result;
	struct cn_code *code = library->code;
	atomic_fetch_add(&code->references, 1);
	cn_unlock(&library->lock);
	result = find_managed(code, name, &pointer, &bytes);
	cn_code_release(code);
	if (!result)
		result = enter_managed(handle);
	return put_variable(result, pointer, bytes, ret_pointer, ret_bytes);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

/* The record of a kernel, made when it is first asked for. Library locked. */
static CUresult find_record(struct cn_library *library, unsigned index, CUkernel *ret_kernel)
{
	struct cn_library_kernel *kernel = library->kernels[index];

	if (!kernel) {
		kernel = cn_table_take(&cn_library_kernels);
		if (!kernel)
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a kernel's record");
		kernel->library = library;
		kernel->index = index;
		library->kernels[index] = kernel;
		cn_table_publish(&cn_library_kernels, kernel);
	}
	*ret_kernel = (CUkernel)(uintptr_t)cn_object_handle(kernel);
	return CUDA_SUCCESS;
}

/* A kernel, with its library locked. */
static CUresult lock_kernel(CUkernel handle, struct cn_library_kernel **ret_kernel, struct cn_library **ret_library)
{
	struct cn_library_kernel *kernel = cn_table_find(&cn_library_kernels, handle);
	struct cn_library *library = kernel ? atomic_load(&kernel->library) : NULL;

	if (kernel) {
		cn_lock(&library->lock);
		if (cn_object_handle(kernel) == (uint64_t)(uintptr_t)handle) {
			*ret_kernel = kernel;
			*ret_library = library;
			return CUDA_SUCCESS;
		}
		cn_unlock(&library->lock);
	}
	return cn_error(CUDA_ERROR_INVALID_HANDLE, "%p is not a live kernel", (void *)handle);
}

CUresult host_cuLibraryGetKernel(CUkernel *ret_kernel, CUlibrary handle, const char *name)
{
	struct cn_library *library;
	unsigned index;
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!ret_kernel || !name)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_kernel ? "name" : "pKernel");
	result = lock_library(handle, &library);
	if (result)
		return result;
	result = cn_code_find_kernel(library->code, name, &index);
	if (!result)
		result = find_record(library, index, ret_kernel);
	cn_unlock(&library->lock);
	return result;
}

CUresult host_cuLibraryGetKernelCount(unsigned int *ret_count, CUlibrary handle)
{
	struct cn_library *library;
	CUresult result = cn_given(cn_enter(), ret_count, "count");

	if (!result)
		result = lock_library(handle, &library);
	if (result)
		return result;
	*ret_count = library->code->contents->kernel_count;
	cn_unlock(&library->lock);
	return CUDA_SUCCESS;
}

CUresult host_cuLibraryEnumerateKernels(CUkernel *ret_kernels, unsigned int count, CUlibrary handle)
{
	struct cn_library *library;
	CUresult result = cn_given(cn_enter(), ret_kernels, "kernels");

	if (!result)
		result = lock_library(handle, &library);
	if (result)
		return result;
	if (count > library->code->contents->kernel_count)
		count = library->code->contents->kernel_count;
	if (!cn_guard_check_write(ret_kernels, count * sizeof *ret_kernels, "kernels"))
		result = CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && !result; i++)
		result = find_record(library, i, &ret_kernels[i]);
	cn_unlock(&library->lock);
	return result;
}

/* Read the kernel's body, without a lock: it takes time. */
static CUresult prepare(CUkernel handle)
{
	struct cn_library_kernel *kernel;
	struct cn_library *library;
	CUresult result = lock_kernel(handle, &kernel, &library);

	if (result)
		return result;
	struct cn_code *code = library->code;
	unsigned index = kernel->index;
	atomic_fetch_add(&code->references, 1);
	cn_unlock(&library->lock);
	result = cn_code_prepare(code, index);
	cn_code_release(code);
	return result;
}

CUresult cn_library_function(CUkernel handle, struct cn_context *context, struct cn_function **ret_function)
{
	struct cn_home home = {.context = context};
	struct cn_library_kernel *kernel;
	struct cn_library *library;
	struct cn_module *module;
	uint64_t module_handle;
	CUresult result = context ? CUDA_SUCCESS : cn_context_enter(&home);

	if (context) {
		home.device = context->device;
		home.life = atomic_load(&context->life);
	}
	if (!result)
		result = prepare(handle);
	if (!result)
		result = lock_kernel(handle, &kernel, &library);
	if (result)
		return result;
	unsigned index = kernel->index;
	CUlibrary library_handle = (CUlibrary)(uintptr_t)cn_object_handle(library);
	cn_unlock(&library->lock);
	result = find_module(library_handle, &home, &module, &module_handle);
	if (!result)
		result = cn_module_lock((CUmodule)(uintptr_t)module_handle, &module);
	if (result)
		return result;
	result = cn_module_function(module, index, ret_function);
	cn_unlock(&module->lock);
	return result;
}

CUresult host_cuKernelGetFunction(CUfunction *ret_function, CUkernel handle)
{
	struct cn_function *function;
	CUresult result = cn_given(cn_enter(), ret_function, "pFunc");

	if (!result)
		result = cn_library_function(handle, NULL, &function);
	if (!result)
		*ret_function = (CUfunction)(uintptr_t)cn_object_handle(function);
	return result;
}

CUresult host_cuKernelGetLibrary(CUlibrary *ret_library, CUkernel handle)
{
	struct cn_library_kernel *kernel;
	struct cn_library *library;
	CUresult result = cn_given(cn_enter(), ret_library, "pLib");

	if (!result)
		result = lock_kernel(handle, &kernel, &library);
	if (result)
		return result;
	*ret_library = (CUlibrary)(uintptr_t)cn_object_handle(library);
	cn_unlock(&library->lock);
	return CUDA_SUCCESS;
}

CUresult host_cuKernelGetName(const char **ret_name, CUkernel handle)
{
	struct cn_library_kernel *kernel;
	struct cn_library *library;
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!ret_name || !handle)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", ret_name ? "hfunc" : "name");
	result = lock_kernel(handle, &kernel, &library);
	if (result)
		return result;
	*ret_name = library->code->contents->kernels[kernel->index].name;
	cn_unlock(&library->lock);
	return CUDA_SUCCESS;
}

CUresult host_cuKernelGetAttribute(int *ret_value, CUfunction_attribute attribute, CUkernel handle, CUdevice ordinal)
{
	struct cn_library_kernel *kernel;
	struct cn_library *library;
	struct cn_device *device;
	CUresult result = cn_given(cn_enter(), ret_value, "pi");

	if (!result)
		result = cn_devices_find(ordinal, &device);
	if (!result)
		result = prepare(handle);
	if (!result)
		result = lock_kernel(handle, &kernel, &library);
	if (result)
		return result;
	struct cn_function_traits traits = cn_function_traits(library->code, kernel->index);
	struct cn_code_settings *settings = library->code->settings[kernel->index];
	result = cn_function_attribute(
		&traits,
		settings ? settings->on[ordinal].max_dynamic_shared_bytes : cn_function_default_shared_bytes(&traits),
		settings ? settings->on[ordinal].carveout : CU_SHAREDMEM_CARVEOUT_DEFAULT, attribute, ret_value);
	cn_unlock(&library->lock);
	return result;
}

/* A kernel's settings, made when one is first set. NULL: no memory. Library locked. */
static struct cn_code_settings *find_settings(struct cn_code *code, unsigned index)
{
	struct cn_function_traits traits = cn_function_traits(code, index);
	struct cn_code_settings *settings = code->settings[index];

	if (settings)
		return settings;
	settings = malloc(sizeof *settings);
	for (unsigned i = 0; settings && i < CN_DEVICE_MAX; i++) {
		atomic_init(&settings->on[i].max_dynamic_shared_bytes, cn_function_default_shared_bytes(&traits));
		atomic_init(&settings->on[i].carveout, CU_SHAREDMEM_CARVEOUT_DEFAULT);
	}
	atomic_store(&code->settings[index], settings);
	return settings;
}

CUresult host_cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle, CUdevice ordinal)
{
	struct cn_library_kernel *kernel;
	struct cn_library *library;
	struct cn_device *device;
	CUresult result = cn_enter();

	if (!result)
		result = cn_devices_find(ordinal, &device);
	if (!result)
		result = prepare(handle);
	if (!result)
		result = lock_kernel(handle, &kernel, &library);
	if (result)
		return result;
	struct cn_function_traits traits = cn_function_traits(library->code, kernel->index);
	struct cn_code_settings *settings = find_settings(library->code, kernel->index);
	if (settings)
		result = cn_function_set_attribute(&traits, &settings->on[ordinal].max_dynamic_shared_bytes,
						   &settings->on[ordinal].carveout, attribute, value);
	else
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a kernel's settings");
	for (struct cn_module *module = library->modules; module && !result; module = module->next_of_library) {
		if (module->home.device != device)
			continue;
		cn_lock(&module->lock);
		struct cn_function *function = cn_object_handle(module) ? module->by_index[kernel->index] : NULL;
		if (function)
			result = cn_function_set_attribute(&traits, &function->max_dynamic_shared_bytes,
							   &function->carveout, attribute, value);
		cn_unlock(&module->lock);
	}
	cn_unlock(&library->lock);
	return result;
}

CUresult host_cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *ret_offset, size_t *ret_bytes)
{
	struct cn_library_kernel *kernel;
	struct cn_library *library;
	CUresult result = cn_given(cn_enter(), handle, "kernel");

	if (!result)
		result = lock_kernel(handle, &kernel, &library);
	if (result)
		return result;
	const struct cn_ptx_kernel *ptx = &library->code->contents->kernels[kernel->index];
	if (!ret_offset)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "paramOffset is NULL");
	else if (index >= ptx->parameter_count)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "kernel %s has %u parameters, and none of number %zu",
				  ptx->name, ptx->parameter_count, index);
	if (!result) {
		*ret_offset = ptx->parameters[index].offset_bytes;
		if (ret_bytes)
			*ret_bytes = ptx->parameters[index].bytes;
	}
	cn_unlock(&library->lock);
	return result;
}

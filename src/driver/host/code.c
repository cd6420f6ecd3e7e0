/* SPDX-License-Identifier: MIT */
/*
 * Code: PTX that was loaded, without variables.
 *
 * Modules of several contexts may share it, and a library keeps it; each of them has a reference. Every module has
 * memory of its own for the variables. A managed variable is the same one in all contexts, so the code itself has
 * memory for those, made when it is first needed.
 */
#include "driver/host/kernel.h"

#include "device/host/host_memory.h"
#include "device/host/host_ptx.h"

#include <stdlib.h>
#include <string.h>

/* `line`: of the PTX; 0: it is not the text that is wrong, but what it is in. */
static CUresult result_of(enum cn_ptx_error_code code, unsigned line)
{
	switch (code) {
	case CN_PTX_INVALID: return line ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_INVALID_IMAGE;
	case CN_PTX_UNSUPPORTED: return CUDA_ERROR_NOT_SUPPORTED;
	case CN_PTX_NO_PTX: return CUDA_ERROR_NO_BINARY_FOR_GPU;
	case CN_PTX_NO_MEMORY: return CUDA_ERROR_OUT_OF_MEMORY;
	case CN_PTX_OK:
	case CN_PTX_BAD_ARGUMENT: break;
	}
	return CUDA_ERROR_INVALID_IMAGE;
}

/* The device's architecture: 90 is sm_90. */
static unsigned target(void)
{
	int major = 0, minor = 0;

	(void)cn_device_ops->attribute(&cn_devices[0], CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major);
	(void)cn_device_ops->attribute(&cn_devices[0], CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor);
	return (unsigned)(10 * major + minor);
}

static CUresult refuse(enum cn_ptx_error_code code, const struct cn_ptx_error *error)
{
	CUresult result = result_of(code, error->line);

	return error->line ? cn_error(result, "PTX, line %u: %s", error->line, error->sentence)
			   : cn_error(result, "%s", error->sentence);
}

CUresult cn_code_load(const struct cn_image *image, enum cn_image_kind kind, struct cn_code **ret_code)
{
	const struct cn_ptx_calls *calls;
	struct cn_ptx_error error;
	struct cn_code *code;
	const void *start;
	void *owned = NULL;
	size_t bytes;
	CUresult result = cn_host_ptx_open(&calls);

	if (!result)
		result = cn_image_read(image, kind, &start, &bytes, &owned);
	if (result)
		return result;
	code = calloc(1, sizeof *code);
	if (!code) {
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a module's record");
		goto out;
	}
	enum cn_ptx_error_code failure = calls->load(start, bytes, target(), &error, &code->ptx);
	if (failure) {
		result = refuse(failure, &error);
		free(code);
		goto out;
	}
	code->contents = calls->contents(code->ptx);
	code->references = 1;
	code->settings = calloc(code->contents->kernel_count + 1, sizeof *code->settings);
	if (!code->settings) {
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a module's record");
		calls->unload(code->ptx);
		free(code);
		goto out;
	}
	for (unsigned i = 0; i < code->contents->variable_count; i++)
		code->has_managed |= code->contents->variables[i].managed;
	*ret_code = code;
out:
	free(owned);
	return result;
}

void cn_code_release(struct cn_code *code)
{
	if (atomic_fetch_sub(&code->references, 1) > 1)
		return;
	if (code->managed)
		cn_host_pinned_free(code->managed, code->contents->data_bytes);
	for (unsigned i = 0; i < code->contents->kernel_count; i++)
		free(code->settings[i]);
	free((void *)code->settings);
	cn_host_ptx()->unload(code->ptx);
	free(code);
}

CUresult cn_code_place_managed(struct cn_code *code)
{
	CUresult result = CUDA_SUCCESS;
	void *data;

	if (!code->has_managed)
		return CUDA_SUCCESS;
	cn_slow_lock(&code->lock);
	if (!code->managed) {
		result = cn_host_pinned_allocate(code->contents->data_bytes, &data);
		if (!result) {
			cn_host_ptx()->place(code->ptx, data, data, data);
			code->managed = data;
		}
	}
	cn_slow_unlock(&code->lock);
	return result;
}

CUresult cn_code_place(struct cn_code *code, struct cn_device *device, void **ret_data)
{
	void *data = NULL;
	CUresult result = cn_code_place_managed(code);

	if (!result && code->contents->data_bytes)
		result = cn_host_memory_allocate(device, code->contents->data_bytes, &data);
	if (result)
		return result;
	if (data)
		cn_host_ptx()->place(code->ptx, data, data, code->managed);
	*ret_data = data;
	return CUDA_SUCCESS;
}

CUresult cn_code_prepare(struct cn_code *code, unsigned index)
{
	struct cn_ptx_error error;
	enum cn_ptx_error_code failure =
		cn_host_ptx()->prepare(code->ptx, code->contents->kernels[index].index, &error);

	return failure ? refuse(failure, &error) : CUDA_SUCCESS;
}

CUresult cn_code_find_kernel(const struct cn_code *code, const char *name, unsigned *ret_index)
{
	for (unsigned i = 0; i < code->contents->kernel_count; i++)
		if (strcmp(code->contents->kernels[i].name, name) == 0) {
			*ret_index = i;
			return CUDA_SUCCESS;
		}
	return cn_error(CUDA_ERROR_NOT_FOUND, "the PTX has no kernel '%.128s'", name);
}

CUresult cn_code_find_variable(const struct cn_code *code, const char *name, unsigned *ret_index)
{
	for (unsigned i = 0; i < code->contents->variable_count; i++)
		if (strcmp(code->contents->variables[i].name, name) == 0) {
			*ret_index = i;
			return CUDA_SUCCESS;
		}
	for (unsigned i = 0; i < code->contents->kernel_count; i++)
		if (strcmp(code->contents->kernels[i].name, name) == 0)
			return cn_error(CUDA_ERROR_INVALID_VALUE, "'%.128s' is a kernel of the module, not a variable",
					name);
	return cn_error(CUDA_ERROR_NOT_FOUND, "the PTX has no variable '%.128s'", name);
}

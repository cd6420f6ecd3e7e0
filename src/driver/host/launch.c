/* SPDX-License-Identifier: MIT */
/*
 * Launches: a function, a shape, its arguments, and the stream that runs it.
 *
 * Everything is checked here, once; the device copies the arguments and runs what it is given.
 */
#include "driver/host/kernel.h"

#include "base/guard.h"
#include "cenote/cudaProfiler.h"
#include "device/host/host_ptx.h"
#include "device/host/host_remote.h"
#include "driver/host/registry.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_within(uint64_t value, int maximum, const char *what)
{
	if (value && value <= (uint64_t)maximum)
		return true;
	(void)cn_error(CUDA_ERROR_INVALID_VALUE, "a launch with %s of %" PRIu64 "; it can be 1 to %d", what, value,
		       maximum);
	return false;
}

/* What PTX itself says of its blocks. */
static CUresult check_bounds(const struct cn_function *function, struct cn_launch *launch)
{
	enum { ITS_OWN = CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM };
	const struct cn_ptx_kernel *ptx = function->kernel.ptx;
	unsigned *block = launch->block;

	if (ptx && ptx->required[0] && block[0] == ITS_OWN && block[1] == ITS_OWN && block[2] == ITS_OWN)
		memcpy(block, ptx->required, sizeof launch->block);
	if (ptx && ptx->required[0] &&
	    (ptx->required[0] != block[0] || ptx->required[1] != block[1] || ptx->required[2] != block[2]))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "kernel %s must be launched with blocks of %u x %u x %u",
				function->kernel.name, ptx->required[0], ptx->required[1], ptx->required[2]);
	if (ptx && ptx->max_threads && block[0] * block[1] * block[2] > ptx->max_threads)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "blocks of %u threads; kernel %s was compiled for up to %u",
				block[0] * block[1] * block[2], function->kernel.name, ptx->max_threads);
	return CUDA_SUCCESS;
}

static CUresult check_shape(const struct cn_function *function, struct cn_launch *launch)
{
	const unsigned *grid = launch->grid, *block = launch->block;

	if (!is_within(grid[0], CN_HOST_GRID_X_MAX, "a grid x") ||
	    !is_within(grid[1], CN_HOST_GRID_Y_MAX, "a grid y") ||
	    !is_within(grid[2], CN_HOST_GRID_Z_MAX, "a grid z") ||
	    !is_within(block[0], CN_HOST_BLOCK_X_MAX, "a block x") ||
	    !is_within(block[1], CN_HOST_BLOCK_Y_MAX, "a block y") ||
	    !is_within(block[2], CN_HOST_BLOCK_Z_MAX, "a block z") ||
	    !is_within((uint64_t)block[0] * block[1] * block[2], CN_HOST_BLOCK_THREADS_MAX, "a block"))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = check_bounds(function, launch);
	if (result)
		return result;
	int allowed = atomic_load(&function->max_dynamic_shared_bytes);
	if (launch->shared_bytes > (unsigned)allowed)
		return cn_error(
			CUDA_ERROR_INVALID_VALUE,
			"a launch with %u bytes of shared memory; kernel %s may have %d (see cuFuncSetAttribute)",
			launch->shared_bytes, function->kernel.name, allowed);
	return CUDA_SUCCESS;
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

/* Find buffer and size among pairs of words that end with CU_LAUNCH_PARAM_END. */
static CUresult read_extra(void **extra, char **ret_buffer, size_t *ret_bytes)
{
	enum { PAIRS_MAX = 16 };
	char *buffer = NULL;
	const size_t *bytes = NULL;

	for (int i = 0;; i++) {
		if (i > PAIRS_MAX)
			return cn_error(CUDA_ERROR_INVALID_VALUE, "extra does not end with CU_LAUNCH_PARAM_END");
		if (!cn_guard_check_read(&extra[2 * i], sizeof *extra, "extra"))
			return CUDA_ERROR_INVALID_VALUE;
		if (extra[2 * i] == CU_LAUNCH_PARAM_END)
			break;
		if (!cn_guard_check_read(&extra[2 * i + 1], sizeof *extra, "extra"))
			return CUDA_ERROR_INVALID_VALUE;
		if (extra[2 * i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[2 * i + 1];
		else if (extra[2 * i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = extra[2 * i + 1];
		else
			return cn_error(CUDA_ERROR_INVALID_VALUE, "extra has the unknown word %p", extra[2 * i]);
	}
	if (!cn_guard_check_read(bytes, sizeof *bytes, "the size in extra"))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_buffer = buffer;
	*ret_bytes = bytes ? *bytes : 0;
	return CUDA_SUCCESS;
}

/* Point to each argument in a buffer where they lie one after the other, each at its own alignment. */
static CUresult unpack(const struct cn_kernel *kernel, char *buffer, size_t bytes, void **arguments)
{
	size_t offset = 0;

	for (unsigned int i = 0; i < kernel->parameter_count; i++) {
		size_t alignment = kernel->parameter_alignment[i];
		offset = (offset + alignment - 1) & ~(alignment - 1);
		if (!buffer || offset + kernel->parameter_bytes[i] > bytes)
			return cn_error(CUDA_ERROR_INVALID_VALUE,
					"kernel %s has more parameters than the %zu bytes of extra", kernel->name,
					bytes);
		arguments[i] = buffer + offset;
		offset += kernel->parameter_bytes[i];
	}
	return CUDA_SUCCESS;
}

/* The device copies them, and assumes that they are readable. */
static CUresult check_arguments(const struct cn_kernel *kernel, void *const *arguments)
{
	for (unsigned int i = 0; i < kernel->parameter_count; i++)
		if (!cn_guard_check_read(arguments[i], kernel->parameter_bytes[i], "an argument of the kernel"))
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* A kernel cannot touch another machine's memory. What looks like a pointer to it is taken for one. */
static CUresult refuse_remote(const struct cn_kernel *kernel, void *const *arguments)
{
	struct cn_memory memory;
	uint64_t address;

	for (unsigned int i = 0; i < kernel->parameter_count; i++) {
		if (kernel->parameter_bytes[i] != sizeof address)
			continue;
		memcpy(&address, arguments[i], sizeof address);
		if (cn_registry_find(address, &memory) && memory.remote)
			return cn_error(CUDA_ERROR_NOT_SUPPORTED,
					"argument %u of kernel %s, 0x%" PRIx64
					", is memory of another machine: copy it "
					"first",
					i, kernel->name, address);
	}
	return CUDA_SUCCESS;
}

static CUresult find_arguments(const struct cn_kernel *kernel, void **params, void **extra, void **arguments)
{
	char *buffer = NULL;
	size_t bytes = 0;
	CUresult result;

	if (params && extra)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"a launch takes its arguments from params or from extra, not both");
	if (extra) {
		result = read_extra(extra, &buffer, &bytes);
		return result ? result : unpack(kernel, buffer, bytes, arguments);
	}
	if (kernel->parameter_count && !params)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"kernel %s has %u parameters, and the launch has no arguments", kernel->name,
				kernel->parameter_count);
	if (!cn_guard_check_read(params, kernel->parameter_count * sizeof *params, "kernelParams"))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < kernel->parameter_count; i++) {
		if (!params[i])
			return cn_error(CUDA_ERROR_INVALID_VALUE, "kernel %s: argument %u is NULL", kernel->name, i);
		arguments[i] = params[i];
	}
	return CUDA_SUCCESS;
}

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

/* Can all blocks run at once? One block always runs at once with all others. */
static CUresult check_cooperative(const struct cn_function *function, const struct cn_launch *launch)
{
	uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];

	if (blocks > 1 && !function->kernel.ptx)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"the host device does not run all blocks of a kernel in C at once");
	if (blocks > 1 && blocks > launch->resident_max)
		return cn_error(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
				"a cooperative launch of %" PRIu64 " blocks; %u of kernel %s run at once", blocks,
				launch->resident_max, function->kernel.name);
	return CUDA_SUCCESS;
}

/* Submit a launch whose shape is right. The function's module is locked. */
static CUresult submit_with(const struct cn_function *function, struct cn_operation *operation,
			    const struct cn_place *place, void **params, void **extra, void **arguments)
{
	CUresult result = find_arguments(&function->kernel, params, extra, arguments);

	if (!result)
		result = check_arguments(&function->kernel, arguments);
	if (!result && cn_host_remote_exists())
		result = refuse_remote(&function->kernel, arguments);
	if (result)
		return result;
	operation->kind = CN_OPERATION_LAUNCH;
	operation->launch.launch.kernel = &function->kernel;
	operation->launch.arguments = arguments;
	return cn_stream_submit(place, operation, NULL);
}

/* Check everything, and submit it to the stream. The function's module is locked. */
static CUresult submit(struct cn_function *function, struct cn_operation *operation, const struct cn_place *place,
		       void **params, void **extra)
{
	struct cn_launch *launch = &operation->launch.launch;
	void *few[CN_KERNEL_PARAMETERS_MAX], **many = NULL;
	struct cn_module *module = function->module;
	unsigned count = function->kernel.parameter_count;

	if (module && module->home.context != place->context)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "kernel %s was loaded in another context than the stream's",
				function->kernel.name);
	CUresult result = check_shape(function, launch);
	if (!result && function->kernel.ptx)
		result = cn_function_occupy(function, place->context->device, launch);
	if (!result && launch->cooperative)
		result = check_cooperative(function, launch);
	if (result)
		return result;
	if (count > CN_KERNEL_PARAMETERS_MAX && !(many = malloc(count * sizeof *many)))
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the arguments of a kernel");
	result = submit_with(function, operation, place, params, extra, many ? many : few);
	operation->launch.arguments = NULL; /* the stream has its own copy */
	free(many);
	return result;
}

/* `operation` has the shape of the launch. */
static CUresult launch(CUfunction handle, struct cn_operation *operation, CUstream stream_handle, void **params,
		       void **extra)
{
	struct cn_function *function;
	struct cn_module *module;
	struct cn_place place;
	CUresult result = cn_context_enter_any();

	if (!result)
		result = cn_stream_find(stream_handle, &place);
	cn_host_print_flush(); /* as on a GPU, for programs that never wait */
	if (!result)
		result = cn_function_lock(handle, place.context, &function, &module);
	if (result)
		return result;
	result = submit(function, operation, &place, params, extra);
	if (module)
		cn_unlock(&module->lock);
	return result;
}

CUresult host_cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
			     unsigned int block_x, unsigned int block_y, unsigned int block_z,
			     unsigned int shared_bytes, CUstream stream, void **params, void **extra)
{
	struct cn_operation operation;

	operation.launch.launch = (struct cn_launch){
		.grid = {grid_x, grid_y, grid_z},
		.block = {block_x, block_y, block_z},
		.shared_bytes = shared_bytes,
	};
	return launch(function, &operation, stream, params, extra);
}

CUresult host_cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
					unsigned int grid_z, unsigned int block_x, unsigned int block_y,
					unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params)
{
	struct cn_operation operation;

	operation.launch.launch = (struct cn_launch){
		.grid = {grid_x, grid_y, grid_z},
		.block = {block_x, block_y, block_z},
		.shared_bytes = shared_bytes,
		.cooperative = true,
	};
	return launch(function, &operation, stream, params, NULL);
}

/* What an attribute asks for is done anyway, is only a hint, or cannot be done. */
static CUresult check_attribute(const CUlaunchAttribute *attribute, struct cn_launch *launch)
{
	const CUlaunchAttributeValue *value = &attribute->value;

	switch ((int)attribute->id) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING: return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: launch->cooperative = value->cooperative; return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		if (value->clusterDim.x == 1 && value->clusterDim.y == 1 && value->clusterDim.z == 1)
			return CUDA_SUCCESS;
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the host device has no clusters");
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the host device does not know launch attribute %d",
				(int)attribute->id);
	default: return cn_error(CUDA_ERROR_INVALID_VALUE, "there is no launch attribute %d", (int)attribute->id);
	}
}

CUresult host_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	struct cn_operation operation;
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!config || (config->numAttrs && !config->attrs))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", config ? "config->attrs" : "config");
	if (!cn_guard_check_array(config->attrs, config->numAttrs, sizeof *config->attrs, "attrs"))
		return CUDA_ERROR_INVALID_VALUE;
	operation.launch.launch = (struct cn_launch){
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
		.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
		.shared_bytes = config->sharedMemBytes,
	};
	for (unsigned int i = 0; i < config->numAttrs && !result; i++)
		result = check_attribute(&config->attrs[i], &operation.launch.launch);
	return result ? result : launch(function, &operation, config->hStream, params, extra);
}

CUresult host_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	CUlaunchConfig copy;

	if (!config)
		return host_cuLaunchKernelEx(NULL, function, params, extra);
	copy = *config;
	copy.hStream = config->hStream ? config->hStream : CU_STREAM_PER_THREAD;
	return host_cuLaunchKernelEx(&copy, function, params, extra);
}

CUresult host_cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data)
{
	struct cn_operation operation = {.kind = CN_OPERATION_HOST_CALL,
					 .host_call = {.function = function, .data = data}};
	struct cn_place place;
	return cn_given(cn_stream_find(handle, &place), function, "fn") ?: cn_stream_submit(&place, &operation, NULL);
}

/* ---- Profilers --------------------------------------------------------------------------------------------------- */

/* There is no profiler to tell. */
CUresult host_cuProfilerStart(void)
{
	struct cn_home home;

	return cn_context_enter(&home);
}

CUresult host_cuProfilerStop(void)
{
	struct cn_home home;

	return cn_context_enter(&home);
}

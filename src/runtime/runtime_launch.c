/* SPDX-License-Identifier: MIT */
/*
 * Launches of the runtime API.
 *
 * A kernel is named by its address on the host, which the program has registered or CENOTE_KERNEL has, or by its
 * handle. As in CUDA, NULL is no device function, and any other address is taken for an invalid handle; calls that ask
 * for a kernel's handle say of both that they are no device function. Where the driver calls a grid or a block an
 * invalid value, the runtime calls it an invalid configuration.
 */
#include "runtime/runtime.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "base/guard.h"
#include "driver/common/private_calls.h"

/* More than there are kinds of attributes; some may be given twice, or only be there to be ignored. */
#define LAUNCH_ATTRIBUTES_MAX 64

/* A context for the thread, and what is registered at an address, or is a handle there. *ret_function NULL: nothing. */
static cudaError_t look_up(const void *kernel, CUfunction *ret_function, CUkernel *ret_kernel)
{
	cudaError_t error = cudaSuccess;
	CUresult result = cn_runtime_context();

	if (result)
		return cn_runtime_result(result);
	if (!kernel)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidDeviceFunction, "func is NULL");
	if (cn_runtime_find_registered(kernel, &error, ret_kernel)) {
		*ret_function = (CUfunction)(void *)*ret_kernel;
		return error;
	}
	if (!cn_function_of_address(kernel, ret_function))
		return cudaSuccess;
	if (cuKernelGetFunction(ret_function, (CUkernel)(uintptr_t)kernel))
		*ret_function = NULL;
	else
		*ret_kernel = (CUkernel)(uintptr_t)kernel;
	return cudaSuccess;
}

/* What the driver launches for a kernel's address: a function, or a kernel. */
static cudaError_t find_launched(const void *kernel, CUfunction *ret_function, CUkernel *ret_kernel)
{
	cudaError_t error = look_up(kernel, ret_function, ret_kernel);

	if (!error && !*ret_function)
		return CN_RUNTIME_REFUSE(
			cudaErrorInvalidResourceHandle,
			"%p is not a kernel: neither a compiler nor CENOTE_KERNEL has declared one there", kernel);
	return error;
}

/* The driver's function in the current context: a kernel has attributes of its own there. */
static cudaError_t find_kernel(const void *kernel, CUfunction *ret_function)
{
	CUkernel found = NULL;
	cudaError_t error = find_launched(kernel, ret_function, &found);

	return error || !found ? error : cn_runtime_result(cuKernelGetFunction(ret_function, found));
}

static bool fits(unsigned value, CUdevice_attribute limit, CUdevice device)
{
	int maximum;

	return value > 0 && !cuDeviceGetAttribute(&maximum, limit, device) && value <= (unsigned)maximum;
}

/* Can the device of the current context run such a grid of such blocks? */
static bool configuration_fits(dim3 grid, dim3 block)
{
	unsigned long long thread_count = (unsigned long long)block.x * block.y * (unsigned long long)block.z;
	CUdevice device;

	if (cuCtxGetDevice(&device) || thread_count > UINT_MAX)
		return false;
	return fits(grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, device) &&
	       fits(grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, device) &&
	       fits(grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, device) &&
	       fits(block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, device) &&
	       fits(block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, device) &&
	       fits(block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device) &&
	       fits((unsigned)thread_count, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
}

/* Answer with the result of a launch. The limits are checked only when it failed. */
static cudaError_t launch_result(CUresult result, dim3 grid, dim3 block)
{
	if (result == CUDA_ERROR_INVALID_VALUE && !configuration_fits(grid, block))
		return cn_runtime_error(cudaErrorInvalidConfiguration);
	return cn_runtime_result(result);
}

static cudaError_t check_shared_bytes(size_t bytes)
{
	if (bytes > UINT_MAX)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "a launch with %zu bytes of shared memory", bytes);
	return cudaSuccess;
}

_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "attributes of one size");
_Static_assert(offsetof(cudaLaunchAttribute, val) == offsetof(CUlaunchAttribute, value), "attributes of one layout");

cudaError_t runtime_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
	CUlaunchAttribute attributes[LAUNCH_ATTRIBUTES_MAX];
	CUlaunchConfig converted;
	CUfunction function = NULL;
	CUkernel kernel = NULL;
	cudaError_t error = find_launched(func, &function, &kernel);

	if (error)
		return error;
	if (!config || (config->numAttrs > 0 && !config->attrs))
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "%s is NULL", config ? "config->attrs" : "config");
	if (config->numAttrs > LAUNCH_ATTRIBUTES_MAX)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "a launch with %u attributes: the limit is %d",
					 config->numAttrs, LAUNCH_ATTRIBUTES_MAX);
	error = check_shared_bytes(config->dynamicSmemBytes);
	if (error)
		return error;
	converted = (CUlaunchConfig){
		.gridDimX = config->gridDim.x,
		.gridDimY = config->gridDim.y,
		.gridDimZ = config->gridDim.z,
		.blockDimX = config->blockDim.x,
		.blockDimY = config->blockDim.y,
		.blockDimZ = config->blockDim.z,
		.sharedMemBytes = (unsigned)config->dynamicSmemBytes,
		.hStream = config->stream,
		.attrs = config->numAttrs > 0 ? attributes : NULL,
		.numAttrs = config->numAttrs,
	};
	if (!cn_guard_check_array(config->attrs, config->numAttrs, sizeof attributes[0], "attrs"))
		return cn_runtime_error(cudaErrorInvalidValue);
	if (config->numAttrs > 0)
		memcpy(attributes, config->attrs, config->numAttrs * sizeof attributes[0]);
	return launch_result(cuLaunchKernelEx(&converted, function, args, NULL), config->gridDim, config->blockDim);
}

cudaError_t runtime_cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *func, void **args)
{
	cudaLaunchConfig_t own_config;

	if (!config)
		return runtime_cudaLaunchKernelExC(NULL, func, args);
	own_config = *config;
	own_config.stream = config->stream ? config->stream : cudaStreamPerThread;
	return runtime_cudaLaunchKernelExC(&own_config, func, args);
}

cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
			     cudaStream_t stream)
{
	CUfunction function = NULL;
	CUkernel kernel = NULL;
	cudaError_t error = find_launched(func, &function, &kernel);

	if (!error)
		error = check_shared_bytes(sharedMem);
	if (error)
		return error;
	CUresult result = cuLaunchKernel(function, gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z,
					 (unsigned)sharedMem, stream, args, NULL);
	return result ? launch_result(result, gridDim, blockDim) : cudaSuccess;
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
					cudaStream_t stream)
{
	cudaLaunchAttribute together = {.id = cudaLaunchAttributeCooperative, .val.cooperative = 1};
	cudaLaunchConfig_t config = {
		.gridDim = gridDim,
		.blockDim = blockDim,
		.dynamicSmemBytes = sharedMem,
		.stream = stream,
		.attrs = &together,
		.numAttrs = 1,
	};

	return runtime_cudaLaunchKernelExC(&config, func, args);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
	return cn_runtime_result(cn_runtime_context() ?: cuLaunchHostFunc(stream, fn, userData));
}

/* ---- Handles of a kernel ---------------------------------------------------------------------------------------- */

/* The same as find_launched(), with another code where there is no kernel. */
static cudaError_t find_named(const void *kernel, CUfunction *ret_function, CUkernel *ret_kernel)
{
	cudaError_t error = look_up(kernel, ret_function, ret_kernel);

	if (!error && !*ret_function)
		return CN_RUNTIME_REFUSE(
			cudaErrorInvalidDeviceFunction,
			"%p is not a kernel: neither a compiler nor CENOTE_KERNEL has declared one there", kernel);
	return error;
}

cudaError_t runtime_cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
	CUfunction function = NULL;
	CUkernel kernel = NULL;
	cudaError_t error;

	if (!kernelPtr)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "kernelPtr is NULL");
	error = find_named(entryFuncAddr, &function, &kernel);
	/* A kernel of CENOTE_KERNEL belongs to no library; its function serves where a kernel does. */
	if (!error)
		*kernelPtr = kernel ? kernel : (CUkernel)(void *)function;
	return error;
}

cudaError_t runtime_cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
	CUfunction function = NULL;
	CUkernel kernel = NULL;
	cudaError_t error = find_named(symbolPtr, &function, &kernel);

	if (!error && kernel)
		error = cn_runtime_result(cuKernelGetFunction(&function, kernel));
	if (error)
		return error;
	if (!functionPtr)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "functionPtr is NULL");
	*functionPtr = function;
	return cudaSuccess;
}

/* ---- Attributes of a kernel ------------------------------------------------------------------------------------- */

struct kernel_attribute {
	CUfunction_attribute attribute;
	size_t offset;
};

#define ATTRIBUTE(attribute, member)                                                       \
	{                                                                                  \
		CU_FUNC_ATTRIBUTE_##attribute, offsetof(struct cudaFuncAttributes, member) \
	}

static const struct kernel_attribute kernel_int_attributes[] = {
	ATTRIBUTE(MAX_THREADS_PER_BLOCK, maxThreadsPerBlock),
	ATTRIBUTE(NUM_REGS, numRegs),
	ATTRIBUTE(PTX_VERSION, ptxVersion),
	ATTRIBUTE(BINARY_VERSION, binaryVersion),
	ATTRIBUTE(CACHE_MODE_CA, cacheModeCA),
	ATTRIBUTE(MAX_DYNAMIC_SHARED_SIZE_BYTES, maxDynamicSharedSizeBytes),
	ATTRIBUTE(PREFERRED_SHARED_MEMORY_CARVEOUT, preferredShmemCarveout),
	ATTRIBUTE(CLUSTER_SIZE_MUST_BE_SET, clusterDimMustBeSet),
	ATTRIBUTE(REQUIRED_CLUSTER_WIDTH, requiredClusterWidth),
	ATTRIBUTE(REQUIRED_CLUSTER_HEIGHT, requiredClusterHeight),
	ATTRIBUTE(REQUIRED_CLUSTER_DEPTH, requiredClusterDepth),
	ATTRIBUTE(CLUSTER_SCHEDULING_POLICY_PREFERENCE, clusterSchedulingPolicyPreference),
	ATTRIBUTE(NON_PORTABLE_CLUSTER_SIZE_ALLOWED, nonPortableClusterSizeAllowed),
};

static const struct kernel_attribute kernel_size_attributes[] = {
	ATTRIBUTE(SHARED_SIZE_BYTES, sharedSizeBytes),
	ATTRIBUTE(CONST_SIZE_BYTES, constSizeBytes),
	ATTRIBUTE(LOCAL_SIZE_BYTES, localSizeBytes),
};

static CUresult get_kernel_attributes(CUfunction function, struct cudaFuncAttributes *attributes)
{
	CUresult result = CUDA_SUCCESS;
	int value;

	memset(attributes, 0, sizeof(*attributes));
	for (size_t i = 0; !result && i < sizeof kernel_int_attributes / sizeof kernel_int_attributes[0]; i++) {
		result = cuFuncGetAttribute(&value, kernel_int_attributes[i].attribute, function);
		if (!result)
			memcpy((char *)attributes + kernel_int_attributes[i].offset, &value, sizeof value);
	}
	for (size_t i = 0; !result && i < sizeof kernel_size_attributes / sizeof kernel_size_attributes[0]; i++) {
		result = cuFuncGetAttribute(&value, kernel_size_attributes[i].attribute, function);
		if (!result) {
			size_t size = (unsigned)value;
			memcpy((char *)attributes + kernel_size_attributes[i].offset, &size, sizeof size);
		}
	}
	return result;
}

cudaError_t runtime_cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
	struct cudaFuncAttributes found;
	CUfunction function = NULL;
	CUresult result;
	cudaError_t error;

	if (!attr)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "attr is NULL");
	error = find_kernel(func, &function);
	if (error)
		return error;
	result = get_kernel_attributes(function, &found);
	if (!result)
		*attr = found;
	return cn_runtime_result(result);
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
	CUfunction function = NULL;
	cudaError_t error = find_kernel(func, &function);

	if (error)
		return error;
	return cn_runtime_result(cuFuncSetAttribute(function, (CUfunction_attribute)attr, value));
}

cudaError_t runtime_cudaFuncGetName(const char **name, const void *func)
{
	CUfunction function = NULL;
	cudaError_t error;

	if (!name)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "name is NULL");
	error = find_kernel(func, &function);
	return error ? error : cn_runtime_result(cuFuncGetName(name, function));
}

cudaError_t cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
	CUfunction function = NULL;
	cudaError_t error = find_kernel(func, &function);

	return error ? error : cn_runtime_result(cuFuncSetSharedMemConfig(function, (CUsharedconfig)config));
}

/* ---- Occupancy -------------------------------------------------------------------------------------------------- */

/* A context and a function, for a question that has room for its answer. */
static cudaError_t enter_occupancy(const void *ret_answer, const char *name, const void *func, CUfunction *ret_function)
{
	CUresult result = cn_runtime_context();

	if (result)
		return cn_runtime_result(result);
	if (func && !ret_answer)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "%s is NULL", name);
	return find_kernel(func, ret_function);
}

cudaError_t runtime_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func,
									   int blockSize, size_t dynamicSMemSize,
									   unsigned int flags)
{
	CUfunction function = NULL;
	cudaError_t error = enter_occupancy(numBlocks, "numBlocks", func, &function);

	if (error)
		return error;
	return cn_runtime_result(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, function, blockSize,
										      dynamicSMemSize, flags));
}

cudaError_t runtime_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func, int blockSize,
								  size_t dynamicSMemSize)
{
	return runtime_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
									      dynamicSMemSize, cudaOccupancyDefault);
}

cudaError_t runtime_cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func, int numBlocks,
							      int blockSize)
{
	CUfunction function = NULL;
	cudaError_t error = enter_occupancy(&function, "dynamicSmemSize", func, &function); /* the kernel comes first */

	if (error)
		return error;
	return cn_runtime_result(
		cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, function, numBlocks, blockSize));
}

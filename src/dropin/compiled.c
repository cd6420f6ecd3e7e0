/* SPDX-License-Identifier: MIT */
/*
 * The functions that programs compiled by nvcc call by themselves.
 *
 * Before main() such a program registers the binaries that it holds for devices, and their kernels and variables
 * (runtime/runtime_registered.h). `kernel<<<grid, block>>>(…)` becomes
 * a push of its configuration, a call of a function that pops it, and a launch.
 */
#include "dropin/missing.h"
#include "runtime/runtime_registered.h"

#include "cenote/cuda_runtime_api.h"

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum { CONFIGURATIONS_MAX = 16 };

static _Thread_local struct {
	struct configuration {
		dim3 grid, block;
		size_t shared_bytes;
		cudaStream_t stream;
	} stack[CONFIGURATIONS_MAX];
	int depth;
} configurations;

/* Declared by nvcc's own headers alone. */
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t __cudaGetKernel(void **kernel, const void *function);
cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
			       cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
				    cudaStream_t stream);
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);
void __cudaRegisterFunction(void **handle, const char *function, char *name, const char *device_name, int thread_limit,
			    uint3 *thread, uint3 *block, dim3 *block_dim, dim3 *grid_dim, int *warp_size);
void __cudaRegisterVar(void **handle, char *variable, char *name, const char *device_name, int external, size_t bytes,
		       int constant, int global);
void __cudaRegisterHostVar(void **handle, const char *device_name, char *variable, size_t bytes);
void __cudaRegisterManagedVar(void **handle, void **variable, char *name, const char *device_name, int external,
			      size_t bytes, int constant, int global);
void __cudaRegisterUnifiedTable(void);
cudaError_t __cudaGetProcAddress(void);

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

EXPORT unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream)
{
	if (configurations.depth == CONFIGURATIONS_MAX)
		return 1; /* the program skips the launch */
	configurations.stack[configurations.depth++] = (struct configuration){grid, block, shared_bytes, stream};
	return 0;
}

EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
	const struct configuration *top;

	if (!configurations.depth)
		return cudaErrorMissingConfiguration;
	top = &configurations.stack[--configurations.depth];
	*grid = top->grid;
	*block = top->block;
	*shared_bytes = top->shared_bytes;
	*(cudaStream_t *)stream = top->stream;
	return cudaSuccess;
}

EXPORT cudaError_t __cudaGetKernel(void **kernel, const void *function)
{
	/* The launch finds out whether it is one. */
	*kernel = (void *)(uintptr_t)function;
	return cudaSuccess;
}

EXPORT cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
				      cudaStream_t stream)
{
	return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

EXPORT cudaError_t __cudaLaunchKernel_ptsz(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
					   cudaStream_t stream)
{
	return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream ? stream : cudaStreamPerThread);
}

/* ---- Registration ------------------------------------------------------------------------------------------------ */

EXPORT void **__cudaRegisterFatBinary(void *binary)
{
	return cenote_binary_register(binary);
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

EXPORT void __cudaUnregisterFatBinary(void **handle)
{
	cenote_binary_unregister(handle);
}

EXPORT char __cudaInitModule(void **handle)
{
	return (char)cenote_binary_load(handle);
}

EXPORT void __cudaRegisterFunction(void **handle, const char *function, char *name, const char *device_name,
				   int thread_limit, uint3 *thread, uint3 *block, dim3 *block_dim, dim3 *grid_dim,
				   int *warp_size)
{
	(void)name, (void)thread_limit, (void)thread, (void)block, (void)block_dim, (void)grid_dim, (void)warp_size;
	cenote_binary_add_kernel(handle, function, device_name);
}

EXPORT void __cudaRegisterVar(void **handle, char *variable, char *name, const char *device_name, int external,
			      size_t bytes, int constant, int global)
{
	(void)name, (void)external, (void)bytes, (void)constant, (void)global;
	cenote_binary_add_variable(handle, variable, device_name);
}

EXPORT void __cudaRegisterHostVar(void **handle, const char *device_name, char *variable, size_t bytes)
{
	(void)handle, (void)device_name, (void)variable, (void)bytes;
}

EXPORT void __cudaRegisterManagedVar(void **handle, void **variable, char *name, const char *device_name, int external,
				     size_t bytes, int constant, int global)
{
	(void)name, (void)external, (void)bytes, (void)constant, (void)global;
	cenote_binary_add_managed(handle, variable, device_name);
}

EXPORT void __cudaRegisterUnifiedTable(void)
{
}

EXPORT cudaError_t __cudaGetProcAddress(void)
{
	return (cudaError_t)cn_missing("__cudaGetProcAddress");
}

/* ---- The one function of the runtime that returns a structure --------------------------------------------------- */

struct channel_description {
	int x, y, z, w; /* bits of each component */
	int kind;
};

struct channel_description cudaCreateChannelDesc(int x, int y, int z, int w, int kind);

EXPORT struct channel_description cudaCreateChannelDesc(int x, int y, int z, int w, int kind)
{
	return (struct channel_description){x, y, z, w, kind};
}

/* SPDX-License-Identifier: MIT */
/*
 * The registry of the program's own kernels.
 *
 * CENOTE_KERNEL registers a kernel when the program, or a shared object of it, is loaded: before main(), before
 * cuInit(), in any order. The registry finds it by the address of its C function, and makes a function handle for it at
 * the first request.
 */
#include "driver/host/kernel.h"

#include "base/container.h"
#include "base/guard.h"
#include "base/map.h"
#include "device/host/host_ptx.h"

#include <stdlib.h>

enum {
	PARAMETER_BYTES_MAX = 32764, /* of all parameters of a kernel, as on a GPU */
	ALIGNMENT_MAX = 64,
};

struct registered {
	struct cn_map_node node; /* one byte, at the C function's address */
	const cenote_kernel *kernel;
	unsigned int count; /* registrations: a program and its module may share a record */
	struct cn_function *function;
};

static struct {
	CN_LOCK(KERNELS) lock;
	struct cn_map kernels;
} registry;

/* NULL: no kernel is registered there. Registry locked. */
static struct registered *registered_at(uint64_t address)
{
	return cn_container_or_null(cn_map_find(&registry.kernels, address), struct registered, node);
}

CUresult cn_function_check_kernel(const cenote_kernel *kernel)
{
	uint64_t bytes = 0;

	if (kernel->version != CENOTE_KERNEL_VERSION)
		return cn_error(CUDA_ERROR_INVALID_IMAGE, "a kernel was compiled with another version of cenote.h");
	if (!kernel->name || !kernel->function || kernel->parameter_count > CN_KERNEL_PARAMETERS_MAX)
		return cn_error(CUDA_ERROR_INVALID_IMAGE, "a kernel's registration is damaged");
	for (unsigned int i = 0; i < kernel->parameter_count; i++) {
		unsigned int alignment = kernel->parameter_alignment[i];
		if (!alignment || (alignment & (alignment - 1)) || alignment > ALIGNMENT_MAX)
			return cn_error(CUDA_ERROR_INVALID_IMAGE, "kernel %s: parameter %u is aligned to %u bytes",
					kernel->name, i, alignment);
		bytes += kernel->parameter_bytes[i];
	}
	if (bytes > PARAMETER_BYTES_MAX)
		return cn_error(CUDA_ERROR_INVALID_IMAGE, "kernel %s: more than %d bytes of parameters", kernel->name,
				PARAMETER_BYTES_MAX);
	return CUDA_SUCCESS;
}

static uint64_t address_of(const cenote_kernel *kernel)
{
	return (uint64_t)(uintptr_t)kernel->function;
}

CUresult cn_function_create_of_c(const cenote_kernel *kernel, struct cn_module *module,
				 struct cn_function **ret_function)
{
	return cn_function_create(
		&(struct cn_kernel){
			.name = kernel->name,
			.code = (const void *)(uintptr_t)kernel->function,
			.parameter_count = kernel->parameter_count,
			.parameter_bytes = kernel->parameter_bytes,
			.parameter_alignment = kernel->parameter_alignment,
		},
		&(struct cn_function_traits){0}, module, ret_function);
}

/* The handle says whether it is still there: no other function has it later. */
CUresult cn_function_of_address(const void *address, CUfunction *ret_function)
{
	static _Thread_local struct {
		const void *address;
		CUfunction function;
	} last __attribute__((tls_model("initial-exec")));
	struct cn_function *function = NULL;
	CUresult result = CUDA_SUCCESS;

	if (address == last.address && cn_table_find(&cn_functions, last.function)) {
		*ret_function = last.function;
		return CUDA_SUCCESS;
	}
	cn_lock(&registry.lock);
	struct registered *found = registered_at((uint64_t)(uintptr_t)address);
	if (found && !found->function)
		result = cn_function_create_of_c(found->kernel, NULL, &found->function);
	if (found && !result)
		function = found->function;
	cn_unlock(&registry.lock);
	if (result)
		return result;
	if (!function)
		return cn_error(CUDA_ERROR_NOT_FOUND, "there is no kernel at %p: declare it with CENOTE_KERNEL",
				address);
	last.address = address;
	last.function = *ret_function = (CUfunction)(uintptr_t)cn_object_handle(function);
	return CUDA_SUCCESS;
}

CENOTE_API void cenote_kernel_register(const cenote_kernel *kernel)
{
	struct registered *fresh;

	if (!kernel || cn_function_check_kernel(kernel))
		return;
	fresh = calloc(1, sizeof *fresh);
	if (!fresh) {
		(void)cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to register kernel %s", kernel->name);
		return;
	}
	fresh->kernel = kernel;
	fresh->count = 1;
	cn_lock(&registry.lock);
	struct registered *found = registered_at(address_of(kernel));
	if (found)
		found->count++;
	else if (cn_map_insert(&registry.kernels, &fresh->node, address_of(kernel), 1))
		fresh = NULL;
	cn_unlock(&registry.lock);
	free(fresh);
}

/* For `cenote check`, which hears of it on the way here. */
CENOTE_API void cenote_kernel_declare(const cenote_kernel *kernel, const unsigned char *uses, unsigned int count)
{
	(void)kernel, (void)uses, (void)count;
}

CENOTE_API CUresult cenote_kernel_watch(const cenote_kernel_watcher *watcher)
{
	if (!cn_guard_check_read(watcher, sizeof *watcher, "watcher"))
		return CUDA_ERROR_INVALID_VALUE;
	if (watcher && watcher->version != CENOTE_KERNEL_WATCHER_VERSION)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a watcher of kernels of version 0x%x; this is 0x%x",
				watcher->version, CENOTE_KERNEL_WATCHER_VERSION);
	cn_host_watch_kernels(watcher);
	return CUDA_SUCCESS;
}

CENOTE_API void cenote_kernel_unregister(const cenote_kernel *kernel)
{
	struct registered *gone = NULL;

	if (!kernel)
		return;
	cn_lock(&registry.lock);
	struct registered *found = registered_at(address_of(kernel));
	if (found && --found->count == 0) {
		cn_map_remove(&registry.kernels, &found->node);
		gone = found;
	}
	cn_unlock(&registry.lock);
	/*
	 * The code is about to be unmapped, so no launch of it can be left: the function's record may be reused.
	 */
	if (gone && gone->function && cn_table_retire(gone->function, cn_object_handle(gone->function)))
		cn_table_give(&cn_functions, gone->function);
	free(gone);
}

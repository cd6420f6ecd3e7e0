/* SPDX-License-Identifier: MIT */
/*
 * Kernels and modules: what their files know of each other.
 *
 * We know a kernel by the record that CENOTE_KERNEL leaves in a program (cenote.h). Records come in two ways: the
 * program registers its own, by address (kernel.c), and cuModuleGetFunction() finds them by name in a shared object
 * (module.c). Either way, only a function's handle can be launched (launch.c).
 */
#ifndef CN_DRIVER_HOST_KERNEL_H
#define CN_DRIVER_HOST_KERNEL_H

#include "driver/common/private_calls.h"
#include "driver/host/objects.h"

#include "cenote/cenote.h"

#include <sys/types.h>

struct cn_function {
	struct cn_object object; /* first */
	struct cn_kernel kernel;
	_Atomic(struct cn_module *) module; /* NULL: the program's own, good in every context */
	struct cn_function *next;           /* of the same module */
	_Atomic int max_dynamic_shared_bytes;
	_Atomic int carveout;
};

struct cn_module {
	struct cn_object object; /* first */
	struct cn_home home;
	void *library;     /* of dlopen() */
	int copy;          /* descriptor of a private copy of the file, kept as long as it is loaded; -1: none */
	dev_t file_device; /* which file it is; 0: a copy */
	ino_t file_number;
	CN_LOCK(MODULE) lock; /* guards what follows; a launch holds it: code and record stay until it is submitted */
	struct cn_function *functions;
	bool launched;                 /* any of them */
	struct cn_variable *variables; /* those that the program has asked for */
	struct cn_module *next;        /* of all modules */
};

/* cn_enter() for calls that need no current context, but refuse one that was destroyed. */
static inline CUresult cn_context_enter_any(void)
{
	struct cn_home home;

	if (!cn_context_thread.depth || !cn_context_thread.stack[cn_context_thread.depth - 1])
		return cn_enter();
	return cn_context_enter(&home);
}

/* kernel.c: is a record of CENOTE_KERNEL valid? And a function for it, whose handle works from now on. */
CUresult cn_function_check_kernel(const cenote_kernel *kernel);
CUresult cn_function_create(const cenote_kernel *kernel, struct cn_module *module, struct cn_function **ret_function);

/* launch.c: the function of a handle. CUDA_ERROR_INVALID_HANDLE: it is not a live one. */
CUresult cn_function_find(CUfunction handle, struct cn_function **ret_function);

#endif

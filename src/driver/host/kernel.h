/* SPDX-License-Identifier: MIT */
/*
 * Kernels and modules: what their files know of each other.
 *
 * A kernel is C or PTX. We know one in C by the record that CENOTE_KERNEL leaves in a program (cenote.h). Records come
 * in two ways: the program registers its own, by address (kernel.c), and cuModuleGetFunction() finds them by name in a
 * shared object (module.c). PTX is loaded as code (code.c), which modules of several contexts may share: each has
 * variables of its own (module_ptx.c). A library (library.c) is code and its module in each context that has used it.
 *
 * Only a function's handle can be launched (launch.c), or that of a library's kernel, which stands for one.
 */
#ifndef CN_DRIVER_HOST_KERNEL_H
#define CN_DRIVER_HOST_KERNEL_H

#include "driver/common/private_calls.h"
#include "driver/host/image.h"
#include "driver/host/objects.h"
#include "ptx/ptx.h"

#include "cenote/cenote.h"

#include <sys/types.h>

/* What a kernel's code says of it. All 0 for C. */
struct cn_function_traits {
	int shared_bytes, local_bytes, constant_bytes, register_count;
	int max_threads; /* of a block; 0: as many as the device takes */
	int target;      /* 75 is sm_75 */
};

struct cn_function {
	struct cn_object object; /* first */
	struct cn_kernel kernel;
	_Atomic(struct cn_module *) module; /* NULL: the program's own, good in every context */
	struct cn_function *next;           /* of the same module */
	struct cn_function_traits traits;
	unsigned *parameters; /* of PTX: what the kernel's arrays are in; freed with it */
	_Atomic int max_dynamic_shared_bytes;
	_Atomic int carveout;
};

/* What cuKernelSetAttribute() has set for a kernel, on each device. */
struct cn_code_settings {
	struct {
		_Atomic int max_dynamic_shared_bytes, carveout;
	} on[CN_DEVICE_MAX];
};

/* PTX, loaded. It has no variables of its own. */
struct cn_code {
	_Atomic unsigned references;
	struct cn_ptx_module *ptx;
	const struct cn_ptx_contents *contents;
	_Atomic(struct cn_code_settings *) *settings; /* of each kernel; NULL: none was set */
	bool has_managed;
	CN_SLOW_LOCK(CODE) lock;
	_Atomic(void *) managed; /* memory of those variables that are: they are the same in all contexts */
};

struct cn_library;

struct cn_module {
	struct cn_object object; /* first */
	struct cn_home home;
	struct cn_code *code;              /* NULL: a shared object */
	void *data;                        /* of PTX: memory of the variables; NULL: none */
	struct cn_function **by_index;     /* of PTX: its functions that were asked for */
	struct cn_library *library;        /* whose instance it is; NULL: a module by itself */
	struct cn_module *next_of_library; /* of the same library; its lock */
	void *object_file;                 /* of dlopen() */
	int copy;          /* descriptor of a private copy of the file, kept as long as it is loaded; -1: none */
	dev_t file_device; /* which file it is; 0: a copy */
	ino_t file_number;
	CN_LOCK(MODULE) lock; /* guards what follows; a launch holds it: code and record stay until it is submitted */
	struct cn_function *functions;
	struct cn_variable *variables; /* those that the program has asked for */
	struct cn_module *next;        /* of all modules; their lock */
	uint64_t end_ticket;           /* unloaded: it goes when this has passed; 0: not; the same lock */
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
CUresult cn_function_create_of_c(const cenote_kernel *kernel, struct cn_module *module,
				 struct cn_function **ret_function);

/* function.c: a function, whose handle works from now on. */
CUresult cn_function_create(const struct cn_kernel *kernel, const struct cn_function_traits *traits,
			    struct cn_module *module, struct cn_function **ret_function);
/* The traits of a kernel in PTX that was prepared. */
struct cn_function_traits cn_function_traits(const struct cn_code *code, unsigned index);
/* The function of a handle. CUDA_ERROR_INVALID_HANDLE: it is not a live one. */
CUresult cn_function_find(CUfunction handle, struct cn_function **ret_function);
/*
 * The same, with its module locked: neither ends while it is in use. NULL: the program's own kernel, which has no
 * module. `context` is where a library's kernel is wanted; NULL: in the current one.
 */
CUresult cn_function_lock(CUfunction handle, struct cn_context *context, struct cn_function **ret_function,
			  struct cn_module **ret_module);
/* How much dynamic shared memory blocks may have as long as nobody has said more. */
int cn_function_default_shared_bytes(const struct cn_function_traits *traits);
/* An attribute, with the two that can be set. */
CUresult cn_function_attribute(const struct cn_function_traits *traits, int max_dynamic_shared_bytes, int carveout,
			       CUfunction_attribute attribute, int *ret_value);
/* Set one of them. */
CUresult cn_function_set_attribute(const struct cn_function_traits *traits, _Atomic int *max_dynamic_shared_bytes,
				   _Atomic int *carveout, CUfunction_attribute attribute, int value);

/* occupancy.c: fill in how many blocks of a launch of PTX are resident. */
CUresult cn_function_occupy(struct cn_function *function, const struct cn_device *device, struct cn_launch *launch);

/* code.c: load PTX, or a fat binary with some; it has one reference. */
CUresult cn_code_load(const struct cn_image *image, enum cn_image_kind kind, struct cn_code **ret_code);
void cn_code_release(struct cn_code *code);
/* Memory with the variables' first values, for a device, and that of managed ones. NULL: there are no variables. */
CUresult cn_code_place(struct cn_code *code, struct cn_device *device, void **ret_data);
/* Of managed ones alone. */
CUresult cn_code_place_managed(struct cn_code *code);
/* Read the kernel's body, if that has not been done. CUDA_ERROR_NOT_SUPPORTED: an instruction that is not run here. */
CUresult cn_code_prepare(struct cn_code *code, unsigned index);
/*
 * The number of a kernel or a variable of this name. CUDA_ERROR_NOT_FOUND: there is none. CUDA_ERROR_INVALID_VALUE: the
 * variable is a kernel.
 */
CUresult cn_code_find_kernel(const struct cn_code *code, const char *name, unsigned *ret_index);
CUresult cn_code_find_variable(const struct cn_code *code, const char *name, unsigned *ret_index);

/*
 * module.c: a module of code, with a handle. It takes a reference of the code's over, if it succeeds. `library` may be
 * NULL. On failure *ret_module is not written.
 */
CUresult cn_module_create(const struct cn_home *home, struct cn_code *code, struct cn_library *library,
			  struct cn_module **ret_module, uint64_t *ret_handle);
/* Unload a module whose handle this thread has retired. Does not wait: what uses the module still has it. */
void cn_module_unload(struct cn_module *module);
/* A module, locked: it is not unloaded while locked. */
CUresult cn_module_lock(CUmodule handle, struct cn_module **ret_module);
/* From now on its managed variables are known as managed memory, in every call. Module locked. */
CUresult cn_module_enter_managed(struct cn_module *module);
/* The address and size of a variable. Module locked. */
CUresult cn_module_find_variable(struct cn_module *module, const char *name, CUdeviceptr *ret_pointer,
				 size_t *ret_bytes);

/* module_ptx.c: prepare the kernel of this name, or all; nothing to do for a shared object. Takes time. */
CUresult cn_module_prepare(CUmodule handle, const char *name);
/* The function of a kernel that was prepared, made when it is first asked for. Module locked. */
CUresult cn_module_function(struct cn_module *module, unsigned index, struct cn_function **ret_function);

/* library.c: the function of a library's kernel in a context; NULL: the current one. */
CUresult cn_library_function(CUkernel handle, struct cn_context *context, struct cn_function **ret_function);
/* Its module is being unloaded. */
void cn_library_forget(struct cn_library *library, struct cn_module *module);

#endif

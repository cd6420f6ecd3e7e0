/* SPDX-License-Identifier: MIT */
/*
 * Modules: shared objects with kernels, and PTX.
 *
 * Each load is an instance with variables of its own, as in CUDA. So the file of a shared object that is loaded
 * already, by us or by the program, is loaded again as a private copy; the first load uses the file itself, for the
 * sake of debuggers. PTX is code (code.c) and memory for its variables. A module belongs to a context and ends with it.
 * Its functions' handles die with it.
 *
 * cuModuleUnload() waits for the context's work, as the driver does. The module of a library must not: the runtime
 * unloads libraries in dlclose(), which has the dynamic linker's lock, and a host function that the stream must run
 * first may want that lock. So the handles die at once, and the module stays, unseen, until all work that was under way
 * is done (device/grace.h): its kernels, and copies from and to its variables. Calls that load and unload,
 * cuCtxSynchronize() and the end of the context look for modules that may go.
 */
#include "driver/host/kernel.h"

#include "device/grace.h"
#include "device/host/host_ptx.h"
#include "driver/host/image.h"
#include "driver/host/jit.h"
#include "driver/host/registry.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SYMBOL_BYTES_MAX = 512 };

struct cn_variable {
	void *address;
	size_t bytes;
	bool entered;             /* in the registry */
	struct cn_variable *next; /* of the same module */
};

struct cn_table cn_modules = CN_TABLE(CN_KIND_MODULE, struct cn_module);

static struct {
	CN_LOCK(MODULES) lock;
	struct cn_module *first;
	_Atomic unsigned ending_count; /* of those that are unloaded and still there */
} loaded;

/* Add a module to the loaded ones, with its file, if it has one. True: no other module has this file. */
static bool enter_list(struct cn_module *module, int file)
{
	struct stat status = {0};
	bool first = file >= 0 && fstat(file, &status) == 0;

	cn_lock(&loaded.lock);
	for (struct cn_module *each = loaded.first; each; each = each->next)
		first &= each->file_number != status.st_ino || each->file_device != status.st_dev;
	module->file_device = first ? status.st_dev : 0;
	module->file_number = first ? status.st_ino : 0;
	module->next = loaded.first;
	loaded.first = module;
	cn_unlock(&loaded.lock);
	return first;
}

static void leave_list(struct cn_module *module)
{
	cn_lock(&loaded.lock);
	struct cn_module **link = &loaded.first;
	while (*link != module)
		link = &(*link)->next;
	*link = module->next;
	cn_unlock(&loaded.lock);
}

/* Has the program loaded the file itself, or has the dynamic linker kept it? Then it would not be a new instance. */
static bool is_open(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

	if (library)
		dlclose(library);
	return library != NULL;
}

static CUresult open_library(const char *path, void **ret_library)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return cn_error(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "the module cannot be loaded: %s", dlerror());
	*ret_library = library;
	return CUDA_SUCCESS;
}

static void copy_path(int copy, char path[32])
{
	snprintf(path, 32, "/proc/self/fd/%d", copy);
}

static CUresult open_copy(const struct cn_image *image, uint64_t bytes, struct cn_module *module)
{
	char path[32];
	CUresult result = cn_image_copy(image, bytes, &module->copy);

	if (result)
		return result;
	copy_path(module->copy, path);
	result = open_library(path, &module->object_file);
	if (result) {
		close(module->copy);
		module->copy = -1;
	}
	return result;
}

/* Unload the instance. The dynamic linker knows a copy by its number: while it keeps it, the number must stay ours. */
static void close_library(struct cn_module *module)
{
	char path[32];

	dlclose(module->object_file);
	if (module->copy < 0)
		return;
	copy_path(module->copy, path);
	if (!is_open(path))
		close(module->copy);
}

/* Its variables are not device memory any more. */
static void forget_variables(struct cn_module *module)
{
	while (module->variables) {
		struct cn_variable *variable = module->variables;
		module->variables = variable->next;
		if (variable->entered)
			cn_registry_forget((uint64_t)(uintptr_t)variable->address, CN_MEMORY_VARIABLE);
		free(variable);
	}
}

/* Nothing uses it any more. */
static void destroy(struct cn_module *module)
{
	struct cn_function *functions = module->functions;

	if (module->object_file)
		close_library(module);
	if (module->data)
		cn_host_memory_free(module->data);
	free(module->by_index);
	struct cn_code *code = module->code;
	leave_list(module); /* last: a load of the file itself must get a new instance */
	while (functions) {
		struct cn_function *next = functions->next;
		free(functions->parameters);
		cn_table_give(&cn_functions, functions);
		functions = next;
	}
	cn_table_give(&cn_modules, module);
	if (code)
		cn_code_release(code);
}

/* A module that is unloaded and that nothing uses any more; no other thread finds it now. NULL: there is none. */
static struct cn_module *take_ended(const struct cn_context *context, uint64_t passed)
{
	struct cn_module *found;

	cn_lock(&loaded.lock);
	for (found = loaded.first; found; found = found->next)
		if (found->end_ticket && (found->home.context == context || found->end_ticket <= passed))
			break;
	if (found) {
		found->end_ticket = 0;
		loaded.ending_count--;
	}
	cn_unlock(&loaded.lock);
	return found;
}

/* `context`: it is ending, and no work of it is left; NULL: none is. */
static void reap(const struct cn_context *context)
{
	struct cn_module *module;

	if (!atomic_load(&loaded.ending_count))
		return;
	uint64_t passed = cn_grace_passed();
	while ((module = take_ended(context, passed)))
		destroy(module);
}

void cn_modules_reap(void)
{
	reap(NULL);
}

void cn_module_unload(struct cn_module *module)
{
	cn_lock(&module->lock); /* a launch that has it is submitted */
	for (struct cn_function *each = module->functions; each; each = each->next)
		cn_table_retire(each, cn_object_handle(each));
	cn_unlock(&module->lock);
	forget_variables(module);
	if (module->library)
		cn_library_forget(module->library, module);
	uint64_t ticket = cn_grace_ticket();
	cn_lock(&loaded.lock);
	module->end_ticket = ticket;
	loaded.ending_count++;
	cn_unlock(&loaded.lock);
	reap(NULL);
}

/* An empty module. NULL: no memory for one. */
static struct cn_module *take_module_record(const struct cn_home *home)
{
	struct cn_module *module;

	cn_modules_reap();
	module = cn_table_take(&cn_modules);
	if (!module) {
		(void)cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a module's record");
		return NULL;
	}
	module->home = *home;
	module->functions = NULL;
	module->variables = NULL;
	module->end_ticket = 0;
	module->copy = -1;
	module->code = NULL;
	module->data = NULL;
	module->by_index = NULL;
	module->library = NULL;
	module->object_file = NULL;
	return module;
}

/* Give a module that is in the list its handle. */
static CUresult publish(struct cn_module *module, uint64_t *ret_handle)
{
	struct cn_home home = module->home;
	uint64_t handle = cn_table_publish(&cn_modules, module);

	/* A context that ended meanwhile did not see this module; if it did, it has retired the handle. */
	if (!cn_home_stands(&home)) {
		if (cn_table_retire(module, handle))
			cn_module_unload(module);
		return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "another thread has destroyed the context");
	}
	*ret_handle = handle;
	return CUDA_SUCCESS;
}

/* `path`: of the image's file, if it is one. */
static CUresult load_object(const struct cn_home *home, const struct cn_image *image, uint64_t bytes, const char *path,
			    uint64_t *ret_handle)
{
	struct cn_module *module = take_module_record(home);
	CUresult result;

	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	bool first = enter_list(module, image->file);
	if (first && !is_open(path))
		result = open_library(path, &module->object_file);
	else
		result = open_copy(image, bytes, module);
	if (!result)
		return publish(module, ret_handle);
	leave_list(module);
	cn_table_give(&cn_modules, module);
	return result;
}

CUresult cn_module_create(const struct cn_home *home, struct cn_code *code, struct cn_library *library,
			  struct cn_module **ret_module, uint64_t *ret_handle)
{
	struct cn_module *module = take_module_record(home);
	CUresult result;

	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->by_index = calloc(code->contents->kernel_count + 1, sizeof *module->by_index);
	if (!module->by_index) {
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a module's functions");
		goto err_give;
	}
	result = cn_code_place(code, home->device, &module->data);
	if (result)
		goto err_free;
	module->code = code;
	module->library = library;
	atomic_fetch_add(&code->references, 1); /* the module's: its context may end before we return */
	enter_list(module, -1);
	result = publish(module, ret_handle);
	if (result)
		return result;
	cn_code_release(code); /* the caller's */
	*ret_module = module;
	return CUDA_SUCCESS;

err_free:
	free(module->by_index);
err_give:
	cn_table_give(&cn_modules, module);
	return result;
}

static CUresult load(const struct cn_home *home, const struct cn_image *image, const char *path, CUmodule *ret_module)
{
	enum cn_image_kind kind;
	struct cn_module *module;
	struct cn_code *code;
	uint64_t bytes = 0, handle;
	CUresult result = cn_image_check(image, &kind, &bytes);

	if (result)
		return result;
	if (kind == CN_IMAGE_SHARED_OBJECT) {
		result = load_object(home, image, bytes, path, &handle);
	} else {
		result = cn_code_load(image, kind, &code);
		if (result)
			return result;
		result = cn_module_create(home, code, NULL, &module, &handle);
		if (result)
			cn_code_release(code);
	}
	if (!result)
		*ret_module = (CUmodule)(uintptr_t)handle;
	return result;
}

CUresult host_cuModuleLoad(CUmodule *module, const char *path)
{
	struct cn_image image = {.file = -1};
	struct cn_home home;
	char full_path[PATH_MAX + 2];
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	cn_host_print_flush();
	if (!module || !path || !*path)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s",
				!module ? "module is NULL"
				: !path ? "fname is NULL"
					: "fname is empty");
	result = cn_image_open(path, &image.file);
	if (result)
		return result;
	/* The dynamic linker would search elsewhere for a name without a slash. */
	snprintf(full_path, sizeof full_path, "%s%s", strchr(path, '/') ? "" : "./", path);
	result = load(&home, &image, full_path, module);
	close(image.file);
	return result;
}

CUresult host_cuModuleLoadData(CUmodule *module, const void *memory)
{
	struct cn_image image = {.file = -1, .memory = memory};
	struct cn_home home;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	cn_host_print_flush();
	if (!module || !memory)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", module ? "image" : "module");
	return load(&home, &image, NULL, module);
}

CUresult host_cuModuleLoadFatBinary(CUmodule *module, const void *memory)
{
	return host_cuModuleLoadData(module, memory);
}

CUresult host_cuModuleLoadDataEx(CUmodule *module, const void *memory, unsigned int option_count, CUjit_option *options,
				 void **values)
{
	struct cn_jit jit;
	char sentence[CN_SENTENCE_BYTES];
	CUresult result = cn_enter();

	if (!result)
		result = cn_jit_begin(option_count, options, values, &jit);
	if (result)
		return result;
	result = host_cuModuleLoadData(module, memory);
	if (result) {
		/* A copy: if writing the log fails, too, that sentence must not replace the reason. */
		memcpy(sentence, cn_last_error(), sizeof sentence);
		if (cn_jit_fail(&jit, sentence))
			cn_error_forget(sentence);
	}
	return result;
}

/* ---- Going ------------------------------------------------------------------------------------------------------- */

static CUresult find_module(CUmodule handle, struct cn_module **ret_module)
{
	struct cn_module *module = cn_table_find(&cn_modules, handle);

	if (!module)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "%p is not a live module", (void *)handle);
	*ret_module = module;
	return CUDA_SUCCESS;
}

CUresult host_cuModuleUnload(CUmodule handle)
{
	struct cn_module *module;
	CUresult result = cn_enter();

	if (!result)
		result = find_module(handle, &module);
	if (result)
		return result;
	if (module->library)
		return cn_error(CUDA_ERROR_NOT_PERMITTED, "the module is a library's: cuLibraryUnload() unloads it");
	if (!cn_table_retire(module, (uint64_t)(uintptr_t)handle))
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "another thread has just unloaded this module");
	cn_context_drain(&module->home);
	cn_module_unload(module);
	return CUDA_SUCCESS;
}

/* A module of the context that no other thread is unloading; its handle is retired. NULL: there is none. */
static struct cn_module *take_module(struct cn_context *context)
{
	struct cn_module *found;

	cn_lock(&loaded.lock);
	for (found = loaded.first; found; found = found->next) {
		uint64_t handle = cn_object_handle(found);
		if (found->home.context == context && handle && cn_table_retire(found, handle))
			break;
	}
	cn_unlock(&loaded.lock);
	return found;
}

void cn_modules_unload(struct cn_context *context)
{
	struct cn_module *module;

	while ((module = take_module(context)))
		cn_module_unload(module);
	reap(context);
}

/* ---- What is inside ---------------------------------------------------------------------------------------------- */

CUresult cn_module_lock(CUmodule handle, struct cn_module **ret_module)
{
	struct cn_module *module;
	CUresult result = find_module(handle, &module);

	if (result)
		return result;
	cn_lock(&module->lock);
	if (cn_object_handle(module) != (uint64_t)(uintptr_t)handle) {
		cn_unlock(&module->lock);
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "another thread has just unloaded this module");
	}
	*ret_module = module;
	return CUDA_SUCCESS;
}

static const cenote_kernel *find_kernel(struct cn_module *module, const char *name)
{
	char symbol[SYMBOL_BYTES_MAX];
	int length = snprintf(symbol, sizeof symbol, "cenote_kernel_%s", name);

	return length < SYMBOL_BYTES_MAX ? dlsym(module->object_file, symbol) : NULL;
}

/* The module's function of this name, made when it is first asked for. Module locked. */
static CUresult find_function(struct cn_module *module, const char *name, struct cn_function **ret_function)
{
	const cenote_kernel *kernel;
	struct cn_function *function;

	if (module->code) {
		unsigned index;
		CUresult result = cn_code_find_kernel(module->code, name, &index);
		return result ? result : cn_module_function(module, index, ret_function);
	}
	for (function = module->functions; function; function = function->next)
		if (strcmp(function->kernel.name, name) == 0) {
			*ret_function = function;
			return CUDA_SUCCESS;
		}
	kernel = find_kernel(module, name);
	if (!kernel)
		return cn_error(CUDA_ERROR_NOT_FOUND, "the module has no CENOTE_KERNEL '%.128s'", name);
	CUresult result = cn_function_check_kernel(kernel);
	if (!result)
		result = cn_function_create_of_c(kernel, module, &function);
	if (result)
		return result;
	function->next = module->functions;
	module->functions = function;
	*ret_function = function;
	return CUDA_SUCCESS;
}

CUresult host_cuModuleGetFunction(CUfunction *function, CUmodule handle, const char *name)
{
	struct cn_function *found = NULL;
	struct cn_module *module;
	CUresult result = cn_context_enter_any();

	if (result)
		return result;
	if (!function || !name)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", function ? "name" : "hfunc");
	CUresult prepared = *name ? cn_module_prepare(handle, name) : CUDA_SUCCESS;
	result = cn_module_lock(handle, &module);
	if (result)
		return result;
	if (!*name)
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "the kernel's name is empty");
	else
		result = prepared ? prepared : find_function(module, name, &found);
	/* NULL in a failure, as with NVIDIA's driver; so are the outputs below. */
	*function = result ? NULL : (CUfunction)(uintptr_t)cn_object_handle(found);
	cn_unlock(&module->lock);
	return result;
}

/* The address of a variable of the module itself, not of a library that it uses. Module locked. */
static bool locate_variable(struct cn_module *module, const char *name, void **ret_address, size_t *ret_bytes)
{
	struct link_map *own = NULL, *holder = NULL;
	const ElfW(Sym) *symbol = NULL;
	void *address = dlsym(module->object_file, name);
	Dl_info information;

	if (!address || dlinfo(module->object_file, RTLD_DI_LINKMAP, &own) ||
	    !dladdr1(address, &information, (void **)&holder, RTLD_DL_LINKMAP) || own != holder ||
	    !dladdr1(address, &information, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
	    (symbol->st_info & 0xf) != STT_OBJECT || !symbol->st_size)
		return false;
	*ret_address = address;
	*ret_bytes = symbol->st_size;
	return true;
}

/* Where a variable of this name is. Module locked. */
static CUresult locate(struct cn_module *module, const char *name, void **ret_address, size_t *ret_bytes,
		       bool *ret_managed)
{
	const struct cn_ptx_variable *found;
	unsigned index;

	if (!module->code) {
		if (find_kernel(module, name))
			return cn_error(CUDA_ERROR_INVALID_VALUE, "'%.128s' is a kernel of the module, not a variable",
					name);
		*ret_managed = false;
		if (!locate_variable(module, name, ret_address, ret_bytes))
			return cn_error(CUDA_ERROR_NOT_FOUND, "the module exports no variable '%.128s'", name);
		return CUDA_SUCCESS;
	}
	CUresult result = cn_code_find_variable(module->code, name, &index);
	if (result)
		return result;
	found = &module->code->contents->variables[index];
	*ret_address = (char *)(found->managed ? module->code->managed : module->data) + found->offset_bytes;
	*ret_bytes = found->bytes;
	*ret_managed = found->managed;
	return CUDA_SUCCESS;
}

/* The module's variable of this name: device memory from now on. Module locked. */
static CUresult find_variable(struct cn_module *module, const char *name, const struct cn_variable **ret_variable)
{
	struct cn_variable *variable;
	struct cn_memory known;
	void *address = NULL;
	size_t bytes = 0;
	bool managed = false;
	CUresult result = locate(module, name, &address, &bytes, &managed);

	if (result)
		return result;
	for (variable = module->variables; variable; variable = variable->next)
		if (variable->address == address) {
			*ret_variable = variable;
			return CUDA_SUCCESS;
		}
	variable = malloc(sizeof *variable);
	if (!variable)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a variable's record");
	/* What all contexts share stays with the first that has entered it. */
	bool entered = !managed || !cn_registry_find((uint64_t)(uintptr_t)address, &known);
	if (entered)
		result = cn_registry_add(&module->home, CN_MEMORY_VARIABLE, address, bytes,
					 managed ? CU_MEM_ATTACH_GLOBAL : 0, NULL);
	if (result) {
		free(variable);
		return result;
	}
	*variable =
		(struct cn_variable){.address = address, .bytes = bytes, .entered = entered, .next = module->variables};
	module->variables = variable;
	*ret_variable = variable;
	return CUDA_SUCCESS;
}

CUresult cn_module_enter_managed(struct cn_module *module)
{
	const struct cn_variable *unused;
	CUresult result = CUDA_SUCCESS;

	for (unsigned i = 0; i < module->code->contents->variable_count && !result; i++)
		if (module->code->contents->variables[i].managed)
			result = find_variable(module, module->code->contents->variables[i].name, &unused);
	return result;
}

CUresult cn_module_find_variable(struct cn_module *module, const char *name, CUdeviceptr *ret_pointer,
				 size_t *ret_bytes)
{
	const struct cn_variable *variable = NULL;
	CUresult result = find_variable(module, name, &variable);

	if (ret_pointer)
		*ret_pointer = result ? 0 : (CUdeviceptr)(uintptr_t)variable->address;
	if (ret_bytes)
		*ret_bytes = result ? 0 : variable->bytes;
	return result;
}

CUresult host_cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule handle, const char *name)
{
	struct cn_module *module;
	CUresult result = cn_context_enter_any();

	if (result)
		return result;
	if ((!pointer && !bytes) || !name)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s", name ? "dptr and bytes are both NULL" : "name is NULL");
	result = cn_module_lock(handle, &module);
	if (result)
		return result;
	result = cn_module_find_variable(module, name, pointer, bytes);
	cn_unlock(&module->lock);
	return result;
}

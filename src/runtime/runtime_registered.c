/* SPDX-License-Identifier: MIT */
/*
 * Kernels and variables that a program has registered (runtime/runtime_registered.h).
 *
 * A binary is a library of the driver's, which serves every context. It is loaded when something of it is first used,
 * outside of the lock: if two threads load it at once, one of them unloads its own again. It is unloaded when the
 * program unregisters it, which waits for nothing: the driver keeps what its kernels still need. At the end of the
 * process it is left as it is; a kernel may still run. Binaries that are to be linked (runtime/runtime_linked.h) share
 * one library, which is unloaded with the last of them.
 *
 * What is registered is found by its host address in a map. Two binaries may register one address: a template's kernel
 * is in each file that uses it, and the linker keeps one host function. Either will do; the map has one of them, and
 * the other takes its place when that goes.
 */
#include "runtime/runtime_registered.h"
#include "runtime/runtime.h"
#include "runtime/runtime_linked.h"

#include "base/container.h"
#include "base/lock.h"
#include "base/map.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

enum kind { KERNEL, VARIABLE, MANAGED };

struct registered {
	struct cn_map_node node; /* one byte, at the host's address */
	bool is_in_map;
	enum kind kind;
	struct registered *next; /* of its binary */
	struct binary *binary;
	const char *name;
	CUkernel kernel; /* NULL: not asked for yet */
};

struct binary {
	struct binary *next;
	const void *image;
	const void
		*program;  /* it is to be linked with the other binaries of this program or library; NULL: with none */
	CUlibrary library; /* NULL: not loaded yet */
	struct registered *first;
};

static struct {
	CN_LOCK(BINARIES) lock;
	struct binary *first;
	struct cn_map map;
	_Atomic bool has_some;   /* if not, nobody needs the lock */
	_Atomic bool is_at_exit; /* of the process */
} binaries;

/* ---- Coming and going -------------------------------------------------------------------------------------------- */

void *cenote_binary_register(const void *image)
{
	struct binary *binary = calloc(1, sizeof *binary);
	Dl_info there;

	if (!binary)
		return NULL;
	binary->image = image;
	if (cn_runtime_is_part(image) && dladdr(image, &there))
		binary->program = there.dli_fbase;
	cn_lock(&binaries.lock);
	binary->next = binaries.first;
	binaries.first = binary;
	cn_unlock(&binaries.lock);
	atomic_store(&binaries.has_some, true);
	return binary;
}

/* What cannot be remembered is unknown when it is used, which then says so. */
static void add(void *opaque, const void *address, const char *name, enum kind kind)
{
	struct registered *fresh = calloc(1, sizeof *fresh);

	if (!opaque || !fresh) {
		free(fresh);
		return;
	}
	fresh->binary = opaque;
	fresh->name = name;
	fresh->kind = kind;
	fresh->node.start = (uint64_t)(uintptr_t)address;
	cn_lock(&binaries.lock);
	fresh->next = fresh->binary->first;
	fresh->binary->first = fresh;
	fresh->is_in_map = cn_map_insert(&binaries.map, &fresh->node, (uint64_t)(uintptr_t)address, 1);
	cn_unlock(&binaries.lock);
}

void cenote_binary_add_kernel(void *binary, const void *function, const char *name)
{
	add(binary, function, name, KERNEL);
}

void cenote_binary_add_variable(void *binary, const void *variable, const char *name)
{
	add(binary, variable, name, VARIABLE);
}

void cenote_binary_add_managed(void *binary, void **pointer, const char *name)
{
	add(binary, pointer, name, MANAGED);
}

/* Something has left the map: another binary may have the same address. Locked. */
static void replace_in_map(uint64_t address)
{
	for (struct binary *binary = binaries.first; binary; binary = binary->next)
		for (struct registered *other = binary->first; other; other = other->next)
			if (other->node.start == address) {
				other->is_in_map = cn_map_insert(&binaries.map, &other->node, address, 1);
				return;
			}
}

/* Has a registered binary this library? Locked. */
static bool is_used(CUlibrary library)
{
	for (const struct binary *binary = binaries.first; binary; binary = binary->next)
		if (binary->library == library)
			return true;
	return false;
}

void cenote_binary_unregister(void *opaque)
{
	struct binary *binary = opaque;

	if (!binary)
		return;
	cn_lock(&binaries.lock);
	for (struct binary **link = &binaries.first; *link; link = &(*link)->next)
		if (*link == binary) {
			*link = binary->next;
			break;
		}
	for (struct registered *gone = binary->first; gone; gone = gone->next)
		if (gone->is_in_map) {
			cn_map_remove(&binaries.map, &gone->node);
			replace_in_map(gone->node.start);
		}
	bool is_last = !is_used(binary->library);
	cn_unlock(&binaries.lock);
	if (binary->library && is_last && !atomic_load(&binaries.is_at_exit))
		(void)cuLibraryUnload(binary->library);
	for (struct registered *gone = binary->first, *next; gone; gone = next) {
		next = gone->next;
		free(gone);
	}
	free(binary);
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static void **managed_pointer(const struct registered *registered)
{
	return (void **)(uintptr_t)registered->node.start;
}

/* Tell the program where its managed variables are. */
static CUresult place_managed(const struct binary *binary)
{
	CUresult result = CUDA_SUCCESS;
	CUdeviceptr address;

	for (struct registered *row = binary->first; row && !result; row = row->next) {
		if (row->kind != MANAGED)
			continue;
		result = cuLibraryGetManaged(&address, NULL, binary->library, row->name);
		if (!result)
			*managed_pointer(row) = (void *)(uintptr_t)address;
	}
	return result;
}

static void note_exit(void)
{
	atomic_store(&binaries.is_at_exit, true);
}

/* The binaries that are linked with this one, and itself. */
struct parts {
	const void **images;
	size_t count;
};

static CUresult find_parts(const struct binary *binary, struct parts *ret_parts)
{
	struct parts parts = {NULL, 1};

	cn_lock(&binaries.lock);
	for (const struct binary *other = binaries.first; other; other = other->next)
		parts.count += binary->program && other->program == binary->program;
	parts.images = calloc(parts.count, sizeof *parts.images);
	parts.count = 0;
	for (const struct binary *other = binaries.first; parts.images && other; other = other->next)
		if (other == binary || (binary->program && other->program == binary->program && !other->library))
			parts.images[parts.count++] = other->image;
	cn_unlock(&binaries.lock);
	if (!parts.images)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to link a program's device code");
	*ret_parts = parts;
	return CUDA_SUCCESS;
}

/* All parts have been loaded as one library. Locked. */
static void give_library(const struct parts *parts, CUlibrary library)
{
	for (struct binary *binary = binaries.first; binary; binary = binary->next)
		for (size_t i = 0; i < parts->count; i++)
			if (binary->image == parts->images[i])
				binary->library = library;
}

static CUresult load(struct binary *binary, CUlibrary *ret_library)
{
	CUlibrary loaded = NULL;
	struct parts parts;

	cn_lock(&binaries.lock);
	*ret_library = binary->library;
	cn_unlock(&binaries.lock);
	if (*ret_library)
		return CUDA_SUCCESS;
	CUresult result = find_parts(binary, &parts);
	if (result)
		return result;
	result = binary->program ? cn_runtime_load_parts(parts.images, parts.count, &loaded)
				 : cuLibraryLoadData(&loaded, binary->image, NULL, NULL, 0, NULL, NULL, 0);
	if (result) {
		free(parts.images);
		return result;
	}
	cn_lock(&binaries.lock);
	bool is_first = !binary->library;
	if (is_first)
		give_library(&parts, loaded);
	*ret_library = binary->library;
	cn_unlock(&binaries.lock);
	free(parts.images);
	if (!is_first)
		return cuLibraryUnload(loaded);
	/* What is asked for last is called first: before the program unregisters this binary. */
	(void)atexit(note_exit);
	return place_managed(binary);
}

bool cenote_binary_load(void *opaque)
{
	CUlibrary library;
	CUresult result = opaque ? cn_runtime_context() : CUDA_ERROR_OUT_OF_MEMORY;

	if (!result)
		result = load(opaque, &library);
	if (!result)
		result = place_managed(opaque);
	return !cn_runtime_result(result);
}

/* ---- Use --------------------------------------------------------------------------------------------------------- */

/* What the program has registered at an address; NULL: nothing. It stays until the program unregisters it. */
static struct registered *find(const void *address)
{
	struct registered *found = NULL;

	if (!atomic_load_explicit(&binaries.has_some, memory_order_relaxed))
		return NULL;
	cn_lock(&binaries.lock);
	found = cn_container_or_null(cn_map_find(&binaries.map, (uint64_t)(uintptr_t)address), struct registered, node);
	/* The host's code has the address of a managed variable itself, not of the pointer to it. */
	for (struct binary *binary = binaries.first; binary && !found; binary = binary->next)
		for (struct registered *row = binary->first; row && !found; row = row->next)
			if (row->kind == MANAGED && *managed_pointer(row) == address)
				found = row;
	cn_unlock(&binaries.lock);
	return found;
}

bool cn_runtime_find_registered(const void *function, cudaError_t *ret_error, CUkernel *ret_kernel)
{
	struct registered *found = find(function);
	CUlibrary library;

	if (!found || found->kind != KERNEL)
		return false;
	CUkernel kernel = __atomic_load_n(&found->kernel, __ATOMIC_RELAXED);
	if (!kernel) {
		CUresult result = load(found->binary, &library);
		if (!result)
			result = cuLibraryGetKernel(&kernel, library, found->name);
		*ret_error = result == CUDA_ERROR_NOT_FOUND ? cn_runtime_error(cudaErrorInvalidDeviceFunction)
							    : cn_runtime_result(result);
		if (result)
			return true;
		__atomic_store_n(&found->kernel, kernel, __ATOMIC_RELAXED);
	}
	*ret_error = cudaSuccess;
	*ret_kernel = kernel;
	return true;
}

cudaError_t cn_runtime_find_variable(const void *symbol, CUdeviceptr *ret_address, size_t *ret_bytes)
{
	struct registered *found;
	CUlibrary library;
	CUresult result = cn_runtime_context();

	if (result)
		return cn_runtime_result(result);
	found = symbol ? find(symbol) : NULL;
	if (!found || found->kind == KERNEL)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidSymbol,
					 "%p is not a __device__, __constant__ or __managed__ variable", symbol);
	result = load(found->binary, &library);
	if (!result)
		result = found->kind == MANAGED ? cuLibraryGetManaged(ret_address, ret_bytes, library, found->name)
						: cuLibraryGetGlobal(ret_address, ret_bytes, library, found->name);
	return result == CUDA_ERROR_NOT_FOUND ? cn_runtime_error(cudaErrorInvalidSymbol) : cn_runtime_result(result);
}

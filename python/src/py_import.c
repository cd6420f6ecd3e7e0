/* SPDX-License-Identifier: MIT */
/*
 * Imported pools, by handle.
 *
 * Where a process imports a pool again, CUDA gives it the same handle. It wants a destroy for each import, and refuses
 * all of them as long as any block of the pool is left. So all imports with one handle are counted together, and the
 * last Pool object to end destroys the handle, once for each. There is one such object, and those that the program has
 * closed while blocks were left.
 *
 * Everything here is protected by the GIL.
 */
#include "py.h"

#include <stdlib.h>

struct py_import {
	struct py_import *next;
	CUmemoryPool handle;
	size_t import_count; /* how often CUDA wants it to be destroyed */
	size_t pool_count;   /* Pool objects */
};
static struct py_import *imports;

static struct py_import *find(CUmemoryPool handle)
{
	struct py_import *import = imports;

	while (import && import->handle != handle)
		import = import->next;
	return import;
}

static void unlink_import(struct py_import *import)
{
	struct py_import **link = &imports;

	while (*link != import)
		link = &(*link)->next;
	*link = import->next;
}

/* Put a record in the list, or add what it counts to the one that is there for its handle. */
static struct py_import *merge(struct py_import *import)
{
	struct py_import *other = find(import->handle);

	if (!other) {
		import->next = imports;
		return imports = import;
	}
	other->import_count += import->import_count;
	other->pool_count += import->pool_count;
	free(import);
	return other;
}

bool py_import_knows(CUmemoryPool handle)
{
	return find(handle) != NULL;
}

struct py_import *py_import_new(int descriptor, CUmemoryPool *ret_handle)
{
	struct py_import *import = malloc(sizeof *import);
	CUresult result;

	if (!import)
		return (struct py_import *)PyErr_NoMemory();
	*import = (struct py_import){.import_count = 1, .pool_count = 1};
	Py_BEGIN_ALLOW_THREADS
	result = py_cu.cuMemPoolImportFromShareableHandle(&import->handle, (void *)(intptr_t)descriptor,
							  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	Py_END_ALLOW_THREADS
	if (result) {
		free(import);
		py_raise(result);
		return NULL;
	}
	*ret_handle = import->handle;
	return merge(import);
}

CUresult py_import_end(struct py_import **import_of_pool)
{
	struct py_import *import = *import_of_pool;
	CUresult result;

	*import_of_pool = NULL;
	if (--import->pool_count)
		return CUDA_SUCCESS;
	unlink_import(import);
	Py_BEGIN_ALLOW_THREADS /* another thread may import it now: then there are two records for a moment */
	do
		result = py_cu.cuMemPoolDestroy(import->handle);
	while (!result && --import->import_count);
	Py_END_ALLOW_THREADS
	if (result == CUDA_ERROR_NOT_PERMITTED) {
		import->pool_count = 1;
		*import_of_pool = merge(import);
	} else if (result && find(import->handle)) /* the other thread has a block of it */
		merge(import);
	else
		free(import);
	return result;
}

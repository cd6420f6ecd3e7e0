/* SPDX-License-Identifier: MIT */
/*
 * Linking device code when it is loaded (runtime/runtime_linked.h).
 *
 * NVIDIA's driver has a linker, cuLinkCreate() and related calls. The host device has not; it links what a wrapper of
 * version 2 lists, since nvcc's programs have those.
 */
#include "runtime/runtime_linked.h"
#include "runtime/runtime.h"

#include "base/fatbin.h"

#include <stdlib.h>
#include <string.h>

enum { LINK_VERSION = 6050, INPUT_PTX = 1 };

static const char mark[] = "--compile-only";

/* The first entry of a program's own fat binary; NULL: this is something else. */
static const struct cn_fatbin_entry *entry_of(const void *image)
{
	const struct cn_fatbin_wrapper *wrapper = image;

	if (wrapper->magic != CN_FATBIN_WRAPPER_MAGIC || wrapper->version != 1 || !wrapper->data)
		return NULL;
	const struct cn_fatbin_header *header = wrapper->data;
	return header->bytes < sizeof(struct cn_fatbin_entry)
		       ? NULL
		       : (const void *)((const char *)header + header->header_bytes);
}

bool cn_runtime_is_part(const void *image)
{
	const struct cn_fatbin_entry *entry = entry_of(image);
	struct cn_fatbin_options options;

	if (!entry || entry->kind != CN_FATBIN_PTX || !entry->options_at ||
	    entry->options_at + sizeof options > entry->header_bytes)
		return false;
	memcpy(&options, (const char *)entry + entry->options_at, sizeof options);
	if (options.at > entry->header_bytes || options.bytes > entry->header_bytes - options.at)
		return false;
	return memmem((const char *)entry + options.at, options.bytes, mark, strlen(mark)) != NULL;
}

/* ---- By NVIDIA's driver ------------------------------------------------------------------------------------------ */

struct linker {
	CUresult (*create)(unsigned count, void *options, void **values, void **ret_state);
	CUresult (*add)(void *state, int kind, void *data, size_t bytes, const char *name, unsigned count,
			void *options, void **values);
	CUresult (*complete)(void *state, void **ret_cubin, size_t *ret_bytes);
	CUresult (*destroy)(void *state);
};

static bool find_linker(struct linker *ret_linker)
{
	const struct {
		const char *name;
		void *to;
	} rows[] = {{"cuLinkCreate", &ret_linker->create},
		    {"cuLinkAddData", &ret_linker->add},
		    {"cuLinkComplete", &ret_linker->complete},
		    {"cuLinkDestroy", &ret_linker->destroy}};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		void *function = NULL;
		if (cuGetProcAddress(rows[i].name, &function, LINK_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, NULL) ||
		    !function)
			return false;
		memcpy(rows[i].to, &function, sizeof function);
	}
	return true;
}

static CUresult link_by_driver(const struct linker *linker, const void *const *images, size_t count,
			       CUlibrary *ret_library)
{
	size_t bytes = 0;
	void *state, *cubin = NULL;
	CUresult result = linker->create(0, NULL, NULL, &state);

	if (result)
		return result;
	for (size_t i = 0; i < count && !result; i++) {
		const struct cn_fatbin_entry *entry = entry_of(images[i]);
		char *text = (char *)(uintptr_t)entry + entry->header_bytes;
		result = linker->add(state, INPUT_PTX, text, strnlen(text, entry->bytes) + 1, "a file", 0, NULL, NULL);
	}
	if (!result)
		result = linker->complete(state, &cubin, &bytes);
	if (!result)
		result = cuLibraryLoadData(ret_library, cubin, NULL, NULL, 0, NULL, NULL, 0);
	(void)linker->destroy(state);
	return result;
}

/* ---- By the host device ------------------------------------------------------------------------------------------ */

static CUresult link_by_list(const void *const *images, size_t count, CUlibrary *ret_library)
{
	const void **list = calloc(count + 1, sizeof *list);
	struct cn_fatbin_wrapper wrapper = {CN_FATBIN_WRAPPER_MAGIC, 2, NULL, list};

	if (!list)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to link %zu files", count);
	for (size_t i = 0; i < count; i++)
		list[i] = ((const struct cn_fatbin_wrapper *)images[i])->data;
	CUresult result = cuLibraryLoadData(ret_library, &wrapper, NULL, NULL, 0, NULL, NULL, 0);
	free(list);
	return result;
}

CUresult cn_runtime_load_parts(const void *const *images, size_t count, CUlibrary *ret_library)
{
	struct linker linker;

	return find_linker(&linker) ? link_by_driver(&linker, images, count, ret_library)
				    : link_by_list(images, count, ret_library);
}

/* SPDX-License-Identifier: MIT */
/*
 * Views: another process's arena, seen from here.
 *
 * A part comes as a descriptor, from an untrusted process. The driver says whether it is memory at all, and refuses to
 * map more of it than there is. The allocation is released when it is unmapped: the first pointer of an import waits
 * for all that is done before.
 */
#include "device/cuda/cuda_internal.h"

#include <stdlib.h>

struct mapping {
	struct mapping *next;
	size_t offset, bytes;
	CUmemLocation location;
	CUmemGenericAllocationHandle memory;
};

struct cn_view {
	CUdeviceptr base;
	size_t bytes;
	CN_SLOW_LOCK(CUDA_VIEW) lock; /* of what follows; held while the driver maps */
	struct cn_users users;
	struct mapping *mappings; /* do not overlap */
};

static CUresult import(int fd, CUmemGenericAllocationHandle *ret_memory)
{
	return cn_cuda.cuMemImportFromShareableHandle(ret_memory, (void *)(intptr_t)fd,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

bool cn_cuda_descriptor_is_memory(int fd)
{
	CUmemGenericAllocationHandle memory;

	if (import(fd, &memory))
		return false;
	cn_cuda.cuMemRelease(memory);
	return true;
}

CUresult cn_cuda_view_create(size_t bytes, size_t alignment, struct cn_view **ret_view, void **ret_base)
{
	struct cn_view *view = calloc(1, sizeof *view);
	CUdeviceptr base;

	if (!view)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a view's record");
	CUresult result = cn_cuda.cuMemAddressReserve(&base, bytes, alignment, 0, 0);
	if (result) {
		free(view);
		return cn_error(result,
				"the driver could not reserve %zu bytes of addresses for another process's pool",
				bytes);
	}
	view->base = base;
	view->bytes = bytes;
	*ret_view = view;
	*ret_base = (void *)(uintptr_t)base;
	return CUDA_SUCCESS;
}

/* ---- Parts ---- */

static CUresult is_no_part(void)
{
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the descriptor received is not a part of a pool's memory");
}

/* View locked. */
static bool is_taken(const struct cn_view *view, const struct cn_arena_part *part)
{
	const struct mapping *mapping = view->mappings;

	while (mapping &&
	       (mapping->offset >= part->offset + part->bytes || part->offset >= mapping->offset + mapping->bytes))
		mapping = mapping->next;
	return mapping;
}

/* Is it memory of a kind that can be used here? */
static bool is_known(CUmemLocation location)
{
	return location.type == CU_MEM_LOCATION_TYPE_DEVICE
		       ? location.id >= 0 && location.id < cn_cuda_device_count
		       : location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA || location.type == CU_MEM_LOCATION_TYPE_HOST;
}

/* View locked. */
static CUresult map(struct cn_view *view, const struct cn_arena_part *part, CUmemGenericAllocationHandle memory,
		    CUmemLocation location)
{
	struct cn_cuda_span span = {view->base + part->offset, part->bytes};
	CUresult result = cn_cuda.cuMemMap(span.start, span.bytes, 0, memory, 0);

	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return cn_error(result, "%zu bytes of another process's pool could not be mapped", part->bytes);
	if (result) /* it is too short, or a part of something else */
		return is_no_part();
	result = cn_cuda_allow(span, location, (struct cn_users){0}, view->users);
	if (result)
		cn_cuda.cuMemUnmap(span.start, span.bytes);
	return result;
}

CUresult cn_cuda_view_map(struct cn_view *view, const struct cn_arena_part *part)
{
	CUmemAllocationProp properties = {0};
	CUmemGenericAllocationHandle memory;

	if (part->fd < 0 || part->offset % CN_GRANULARITY_BYTES || !part->bytes || part->bytes % CN_GRANULARITY_BYTES ||
	    part->offset > view->bytes || part->bytes > view->bytes - part->offset)
		return is_no_part();
	struct mapping *mapping = malloc(sizeof *mapping);
	if (!mapping)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of a mapping");
	CUresult result = import(part->fd, &memory);
	if (result) {
		free(mapping);
		return result == CUDA_ERROR_OUT_OF_MEMORY
			       ? cn_error(result, "the driver has no memory to import a part of a pool")
			       : is_no_part();
	}
	result = cn_cuda.cuMemGetAllocationPropertiesFromHandle(&properties, memory);
	if (result || !is_known(properties.location))
		result = is_no_part();
	cn_slow_lock(&view->lock);
	if (!result && is_taken(view, part))
		result = cn_error(CUDA_ERROR_INVALID_VALUE, "a part of a pool's memory came a second time");
	if (!result)
		result = map(view, part, memory, properties.location);
	if (!result) {
		*mapping = (struct mapping){view->mappings, part->offset, part->bytes, properties.location, memory};
		view->mappings = mapping;
	}
	cn_slow_unlock(&view->lock);
	if (result) {
		cn_cuda.cuMemRelease(memory);
		free(mapping);
	}
	return result;
}

void cn_cuda_view_unmap(struct cn_view *view, size_t offset, size_t bytes)
{
	cn_slow_lock(&view->lock);
	struct mapping **link = &view->mappings, *mapping;
	while ((mapping = *link) && (mapping->offset != offset || mapping->bytes != bytes))
		link = &mapping->next;
	if (mapping) {
		*link = mapping->next;
		cn_cuda.cuMemUnmap(view->base + offset, bytes);
		cn_cuda.cuMemRelease(mapping->memory);
	}
	cn_slow_unlock(&view->lock);
	free(mapping);
}

CUresult cn_cuda_view_allow(struct cn_view *view, struct cn_users users)
{
	CUresult result = CUDA_SUCCESS;
	const struct mapping *mapping, *failed = NULL;

	cn_slow_lock(&view->lock);
	for (mapping = view->mappings; mapping && !result; mapping = mapping->next) {
		result = cn_cuda_allow((struct cn_cuda_span){view->base + mapping->offset, mapping->bytes},
				       mapping->location, view->users, users);
		if (result)
			failed = mapping;
	}
	if (failed)
		for (mapping = view->mappings; mapping != failed; mapping = mapping->next)
			cn_cuda_allow((struct cn_cuda_span){view->base + mapping->offset, mapping->bytes},
				      mapping->location, users, view->users);
	else
		view->users = users;
	cn_slow_unlock(&view->lock);
	return result;
}

void cn_cuda_view_free(struct cn_view *view)
{
	for (struct mapping *mapping = view->mappings, *next; mapping; mapping = next) {
		next = mapping->next;
		cn_cuda.cuMemUnmap(view->base + mapping->offset, mapping->bytes);
		cn_cuda.cuMemRelease(mapping->memory);
		free(mapping);
	}
	cn_cuda.cuMemAddressFree(view->base, view->bytes);
	free(view);
}

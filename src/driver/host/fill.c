/* SPDX-License-Identifier: MIT */
/*
 * Fills: rows of equal elements, now and in stream order.
 *
 * A call without a stream does not wait for device memory, as CUDA says; it waits for memory that the host can read
 * right after.
 */
#include "driver/host/copy.h"

#include "device/host/host_remote.h"

#include <inttypes.h>
#include <stdlib.h>

/* Rows are not empty. */
static CUresult check_shape(const struct cn_fill *fill, size_t *ret_bytes)
{
	size_t row_bytes, bytes;

	if (!fill->address)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the memory to fill is NULL");
	if (fill->address % fill->element_bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%" PRIx64 " is not aligned to elements of %u bytes",
				fill->address, fill->element_bytes);
	if (__builtin_mul_overflow(fill->row_elements, fill->element_bytes, &row_bytes) ||
	    __builtin_mul_overflow(fill->pitch, fill->row_count - 1, &bytes) ||
	    __builtin_add_overflow(bytes, row_bytes, &bytes))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%zu rows of %zu elements go beyond the last address",
				fill->row_count, fill->row_elements);
	if (fill->row_count > 1 && (fill->pitch < row_bytes || fill->pitch % fill->element_bytes))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"a pitch of %zu does not fit rows of %zu elements of %u bytes", fill->pitch,
				fill->row_elements, fill->element_bytes);
	*ret_bytes = bytes;
	return CUDA_SUCCESS;
}

static CUresult fill_memory(const struct cn_fill *fill, CUstream handle, enum cn_manner manner)
{
	struct cn_operation operation = {
		.kind = CN_OPERATION_FILL,
		.fill =
			{
				.to = (void *)(uintptr_t)fill->address,
				.pitch = fill->pitch,
				.row_elements = fill->row_elements,
				.row_count = fill->row_count,
				.value = fill->value,
				.element_bytes = fill->element_bytes,
			},
	};
	struct cn_place place;
	struct cn_memory memory;
	struct cn_point point;
	size_t bytes = 0;
	CUresult result = cn_stream_find(handle, &place);

	if (result || !fill->row_elements || !fill->row_count)
		return result;
	result = check_shape(fill, &bytes);
	if (!result)
		result = cn_registry_range(fill->address, bytes, &memory);
	if (result)
		return result;
	if (memory.kind == CN_MEMORY_FOREIGN)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%" PRIx64 " is not memory of a device", fill->address);
	if (memory.kind == CN_MEMORY_OPENED && memory.context != place.context)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"another context opened the memory at 0x%" PRIx64 ": only that one may fill it",
				memory.start);
	if (!cn_memory_allows(&memory, place.context->device, true))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "device %d may not write the memory at 0x%" PRIx64 ": see %s",
				place.context->device->ordinal, memory.start, cn_memory_access_call(&memory));
	if (memory.kind == CN_MEMORY_REGISTERED) { /* is it still there? */
		result = cn_pages_populate(fill->address, bytes, true);
		if (result)
			return result;
	}
	if (memory.remote)
		result = cn_host_remote_wrap(&operation, &(struct cn_host_remote_side){memory.remote, memory.start},
					     NULL);
	if (result)
		return result;
	result = cn_stream_submit(&place, &operation, &point);
	if (result && memory.remote)
		free(operation.remote);
	bool wait = !cn_memory_is_device(&memory) || memory.sync_memops ||
		    atomic_load(&place.context->flags) & CU_CTX_SYNC_MEMOPS;
	if (!result && manner == CN_MANNER_NOW && wait)
		cn_host_point_wait(point);
	return result;
}

/* ---- The calls ---- */

/* One row of equal elements. */
static CUresult fill_elements(CUdeviceptr address, unsigned int element_bytes, uint32_t value, size_t count,
			      CUstream stream, enum cn_manner manner)
{
	struct cn_fill fill = {
		.address = address,
		.value = value,
		.element_bytes = element_bytes,
		.row_elements = count,
		.row_count = 1,
	};

	return fill_memory(&fill, stream, manner);
}

static CUresult fill_rows(CUdeviceptr address, size_t pitch, unsigned int element_bytes, uint32_t value, size_t width,
			  size_t rows, CUstream stream, enum cn_manner manner)
{
	struct cn_fill fill = {
		.address = address,
		.pitch = pitch,
		.value = value,
		.element_bytes = element_bytes,
		.row_elements = width,
		.row_count = rows,
	};

	return fill_memory(&fill, stream, manner);
}

CN_COPY_TWINS(host_cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t count),
	      fill_elements(to, 1, value, count, stream, CN_MANNER_NOW))

CN_COPY_TWINS(host_cuMemsetD16_v2, (CUdeviceptr to, unsigned short value, size_t count),
	      fill_elements(to, 2, value, count, stream, CN_MANNER_NOW))

CN_COPY_TWINS(host_cuMemsetD32_v2, (CUdeviceptr to, unsigned int value, size_t count),
	      fill_elements(to, 4, value, count, stream, CN_MANNER_NOW))

CN_COPY_TWINS(host_cuMemsetD2D8_v2, (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t rows),
	      fill_rows(to, pitch, 1, value, width, rows, stream, CN_MANNER_NOW))

CN_COPY_TWINS(host_cuMemsetD2D16_v2, (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t rows),
	      fill_rows(to, pitch, 2, value, width, rows, stream, CN_MANNER_NOW))

CN_COPY_TWINS(host_cuMemsetD2D32_v2, (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t rows),
	      fill_rows(to, pitch, 4, value, width, rows, stream, CN_MANNER_NOW))

CUresult host_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
	return fill_elements(to, 1, value, count, stream, CN_MANNER_IN_STREAM);
}

CUresult host_cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
	return fill_elements(to, 2, value, count, stream, CN_MANNER_IN_STREAM);
}

CUresult host_cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
	return fill_elements(to, 4, value, count, stream, CN_MANNER_IN_STREAM);
}

CUresult host_cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t rows,
				CUstream stream)
{
	return fill_rows(to, pitch, 1, value, width, rows, stream, CN_MANNER_IN_STREAM);
}

CUresult host_cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t rows,
				 CUstream stream)
{
	return fill_rows(to, pitch, 2, value, width, rows, stream, CN_MANNER_IN_STREAM);
}

CUresult host_cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t rows,
				 CUstream stream)
{
	return fill_rows(to, pitch, 4, value, width, rows, stream, CN_MANNER_IN_STREAM);
}

/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills.
 *
 * Memory that Cenote allocated is copied as it is. Foreign memory, which may not be there at all, is copied as
 * base/foreign.h does it.
 */
#include "device/host/host.h"

#include "base/foreign.h"

#include <stdlib.h>
#include <string.h>

enum { BOUNCE_BYTES = 64 * 1024 };

/* From foreign memory to foreign memory, by way of our own. */
static CUresult copy_bounced(char *to, const char *from, size_t bytes)
{
	size_t room = bytes < BOUNCE_BYTES ? bytes : BOUNCE_BYTES;
	char *bounce = malloc(room);
	CUresult result = CUDA_SUCCESS;

	if (!bounce)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a copy");
	while (bytes && !result) {
		size_t step = bytes < room ? bytes : room;
		result = cn_foreign_read(bounce, from, step);
		if (!result)
			result = cn_foreign_write(to, bounce, step);
		to += step;
		from += step;
		bytes -= step;
	}
	free(bounce);
	return result;
}

static CUresult copy_row(const struct cn_operation *operation, char *to, const char *from, size_t bytes)
{
	if (operation->copy.to_foreign && operation->copy.from_foreign)
		return copy_bounced(to, from, bytes);
	if (operation->copy.to_foreign)
		return cn_foreign_write(to, from, bytes);
	if (operation->copy.from_foreign)
		return cn_foreign_read(to, from, bytes);
	memmove(to, from, bytes); /* overlapping is undefined in CUDA; here it does what one would hope */
	return CUDA_SUCCESS;
}

static CUresult copy_rows(const struct cn_operation *operation, char *to, const char *from)
{
	size_t row_bytes = operation->copy.row_bytes, row_count = operation->copy.row_count;
	CUresult result = CUDA_SUCCESS;

	if (row_count > 1 && operation->copy.to_pitch == row_bytes && operation->copy.from_pitch == row_bytes)
		return copy_row(operation, to, from, row_bytes * row_count);
	for (size_t row = 0; row < row_count && !result; row++)
		result = copy_row(operation, to + row * operation->copy.to_pitch,
				  from + row * operation->copy.from_pitch, row_bytes);
	return result;
}

CUresult cn_host_copy(const struct cn_operation *operation)
{
	const struct cn_layers *layers = operation->copy.layers;
	char *to = operation->copy.to;
	const char *from = operation->copy.from;
	CUresult result = CUDA_SUCCESS;

	if (!layers)
		return copy_rows(operation, to, from);
	for (size_t layer = 0; layer < layers->count && !result; layer++)
		result = copy_rows(operation, to + layer * layers->to_pitch, from + layer * layers->from_pitch);
	return result;
}

void cn_host_fill(const struct cn_operation *operation)
{
	size_t element_bytes = operation->fill.element_bytes, elements = operation->fill.row_elements;

	for (size_t row = 0; row < operation->fill.row_count; row++) {
		char *to = (char *)operation->fill.to + row * operation->fill.pitch;
		if (element_bytes == 1) {
			memset(to, (int)operation->fill.value, elements);
		} else if (element_bytes == 2) {
			uint16_t *words = (uint16_t *)(void *)to;
			for (size_t i = 0; i < elements; i++)
				words[i] = (uint16_t)operation->fill.value;
		} else {
			uint32_t *words = (uint32_t *)(void *)to;
			for (size_t i = 0; i < elements; i++)
				words[i] = operation->fill.value;
		}
	}
}

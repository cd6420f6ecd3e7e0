/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills.
 *
 * Memory that Cenote allocated is copied directly. Foreign memory, which may not be mapped at all, is copied as
 * base/foreign.h does it.
 *
 * Pages that were never touched come from the system with one fault each. Where we write much ourselves we ask for them
 * first, in pieces that are still in the processor's cache when they are written: that saves a fifth or more
 * (bench/first_touch.c). For memory that is there already, it costs one system call for each piece. When the system
 * copies foreign memory, its faults are cheaper, and this does not help.
 */
#include "device/host/host_internal.h"

#include "base/foreign.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

enum { BOUNCE_BYTES = 64 * 1024, PIECE_BYTES = 256 * 1024, LITTLE_BYTES = 64 * 1024 };

/* For our own memory, all of which is going to be written. Afterwards it is there, or comes by faults. */
static void ask_for_pages(char *to, size_t bytes)
{
	static _Atomic bool unknown; /* to an older kernel */
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)to / page_bytes * page_bytes;
	uintptr_t last = ((uintptr_t)to + bytes - 1) / page_bytes * page_bytes;
	unsigned char there;

	if (atomic_load_explicit(&unknown, memory_order_relaxed) || mincore((void *)last, page_bytes, &there) ||
	    there & 1)
		return;
	if (madvise((void *)first, last + page_bytes - first, MADV_POPULATE_WRITE) && errno == EINVAL)
		atomic_store_explicit(&unknown, true, memory_order_relaxed);
}

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
	memmove(to, from, bytes); /* overlap is undefined in CUDA; here it copies correctly */
	return CUDA_SUCCESS;
}

/* The same, in pieces where there is much to write; not if they overlap, for then the order matters. */
static CUresult copy_much(const struct cn_operation *operation, char *to, const char *from, size_t bytes)
{
	uintptr_t distance = to > from ? (uintptr_t)to - (uintptr_t)from : (uintptr_t)from - (uintptr_t)to;
	CUresult result = CUDA_SUCCESS;

	if (bytes <= LITTLE_BYTES || operation->copy.to_foreign || operation->copy.from_foreign || distance < bytes)
		return copy_row(operation, to, from, bytes);
	for (size_t at = 0; at < bytes && !result; at += PIECE_BYTES) {
		size_t step = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
		ask_for_pages(to + at, step);
		result = copy_row(operation, to + at, from + at, step);
	}
	return result;
}

static CUresult copy_rows(const struct cn_operation *operation, char *to, const char *from)
{
	size_t row_bytes = operation->copy.row_bytes, row_count = operation->copy.row_count;
	CUresult result = CUDA_SUCCESS;

	if (row_count > 1 && operation->copy.to_pitch == row_bytes && operation->copy.from_pitch == row_bytes)
		return copy_much(operation, to, from, row_bytes * row_count);
	for (size_t row = 0; row < row_count && !result; row++)
		result = copy_much(operation, to + row * operation->copy.to_pitch,
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

static void fill_piece(char *to, const struct cn_operation *operation, size_t bytes)
{
	size_t element_bytes = operation->fill.element_bytes, elements = bytes / element_bytes;

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

void cn_host_fill(const struct cn_operation *operation)
{
	size_t row_bytes = operation->fill.element_bytes * operation->fill.row_elements;

	for (size_t row = 0; row < operation->fill.row_count; row++) {
		char *to = (char *)operation->fill.to + row * operation->fill.pitch;
		for (size_t at = 0; at < row_bytes; at += PIECE_BYTES) {
			size_t step = row_bytes - at < PIECE_BYTES ? row_bytes - at : PIECE_BYTES;
			if (row_bytes > LITTLE_BYTES)
				ask_for_pages(to + at, step);
			fill_piece(to + at, operation, step);
		}
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * Memory of the host device.
 *
 * A chunk is a memory file, sealed against shrinking and growing before any other process can see it, and mapped. Large
 * allocations have a chunk of their own; small ones share chunks of 2 MiB, as the driver's do, in units of 512 bytes
 * that two bitmaps describe: which units are used, and where an allocation begins. The bytes of a device are counted by
 * chunk. Pages come from the system when they are first touched.
 *
 * A chunk keeps its descriptor, since sharing needs it. When the program has no descriptors left, a chunk has none:
 * such memory works but cannot be shared.
 */
#include "base/container.h"
#include "device/host/host_internal.h"

#include "base/map.h"
#include "base/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	UNIT_BYTES = 512,
	CHUNK_BYTES = CN_GRANULARITY_BYTES,
	CHUNK_UNITS = CHUNK_BYTES / UNIT_BYTES,
	SMALL_BYTES = CHUNK_BYTES / 2,
	MAP_WORDS = CHUNK_UNITS / 64,
};

struct chunk {
	struct cn_map_node node;
	struct cn_host_bytes counted;
	struct cn_host_mapped mapped;
	uint64_t number;
	int fd; /* -1: none was available */
	bool small;
	unsigned free_units;
	struct chunk *next; /* small chunks of the device */
	uint64_t used[MAP_WORDS], begins[MAP_WORDS];
};

static struct {
	CN_LOCK(HOST_MEMORY) lock;
	struct cn_map chunks;
	struct chunk *small[CN_DEVICE_MAX];
	uint64_t number_last;
} heap;

static bool bit(const uint64_t *map, unsigned index)
{
	return map[index / 64] >> (index % 64) & 1;
}

static void set_bits(uint64_t *map, unsigned index, unsigned count, bool value)
{
	for (unsigned i = index; i < index + count; i++)
		map[i / 64] = (map[i / 64] & ~(1ull << (i % 64))) | (uint64_t)value << (i % 64);
}

/* The first of `count` free units in a row; CHUNK_UNITS when there are none. */
static unsigned find_units(const struct chunk *chunk, unsigned count)
{
	unsigned run = 0;

	for (unsigned i = 0; i < CHUNK_UNITS; i++) {
		if (i % 64 == 0 && chunk->used[i / 64] == UINT64_MAX) {
			run = 0;
			i += 63;
			continue;
		}
		run = bit(chunk->used, i) ? 0 : run + 1;
		if (run == count)
			return i + 1 - count;
	}
	return CHUNK_UNITS;
}

CUresult cn_host_make_file(const char *name, size_t bytes, int *ret_fd)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		*ret_fd = -1;
		return CUDA_SUCCESS;
	}
	if (fd < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no memory file could be made: %s", strerror(errno));
	CUresult result = cn_file_grow(fd, bytes);
	if (!result && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "a memory file of %zu bytes could not be sealed: %s", bytes,
				  strerror(errno));
	if (result) {
		close(fd);
		return result;
	}
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

/* Map at an address that is a multiple of the chunk size, as the driver's allocations are. */
static void *map_aligned(int fd, size_t bytes)
{
	char *reserved = mmap(NULL, bytes + CHUNK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (reserved == MAP_FAILED)
		return NULL;
	size_t before = (CHUNK_BYTES - (uintptr_t)reserved % CHUNK_BYTES) % CHUNK_BYTES;
	int flags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
	void *address = mmap(reserved + before, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (before)
		munmap(reserved, before);
	if (before < CHUNK_BYTES)
		munmap(reserved + before + bytes, CHUNK_BYTES - before);
	if (address == MAP_FAILED) {
		munmap(reserved + before, bytes);
		return NULL;
	}
	return address;
}

static CUresult make_chunk(struct cn_device *device, size_t bytes, bool small, struct chunk **ret_chunk)
{
	struct chunk *chunk = calloc(1, sizeof *chunk);
	if (!chunk)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a chunk's record");

	CUresult result = cn_host_account_take(&chunk->counted, device, bytes);
	if (result)
		goto err_free_chunk;
	result = cn_host_make_file("cenote-heap", bytes, &chunk->fd);
	if (result)
		goto err_uncount;
	void *address = map_aligned(chunk->fd, bytes);
	if (!address) {
		result =
			cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes could not be mapped: %s", bytes, strerror(errno));
		goto err_close;
	}

	if (!small) /* as host_arena.c; many small ones would not touch all of a huge page */
		madvise(address, bytes, MADV_HUGEPAGE);
	chunk->small = small;
	chunk->free_units = CHUNK_UNITS;
	cn_host_mapped_enter(&chunk->mapped, address, bytes, chunk->fd, true);
	cn_lock(&heap.lock);
	chunk->number = ++heap.number_last;
	cn_map_insert(&heap.chunks, &chunk->node, (uintptr_t)address, bytes);
	if (small) {
		chunk->next = heap.small[device->ordinal];
		heap.small[device->ordinal] = chunk;
	}
	cn_unlock(&heap.lock);
	*ret_chunk = chunk;
	return CUDA_SUCCESS;

err_close:
	if (chunk->fd >= 0)
		close(chunk->fd);
err_uncount:
	cn_host_account_end(&chunk->counted);
err_free_chunk:
	free(chunk);
	return result;
}

/* Take units from the device's small chunks. NULL: no chunk has them. */
static void *take_units(struct cn_device *device, unsigned count)
{
	void *address = NULL;

	cn_lock(&heap.lock);
	for (struct chunk *chunk = heap.small[device->ordinal]; chunk && !address; chunk = chunk->next) {
		if (chunk->free_units < count)
			continue;
		unsigned first = find_units(chunk, count);
		if (first == CHUNK_UNITS)
			continue;
		set_bits(chunk->used, first, count, true);
		set_bits(chunk->begins, first, 1, true);
		chunk->free_units -= count;
		address = (char *)(uintptr_t)chunk->node.start + (size_t)first * UNIT_BYTES;
	}
	cn_unlock(&heap.lock);
	return address;
}

CUresult cn_host_memory_allocate(struct cn_device *device, size_t bytes, void **ret_address)
{
	struct chunk *chunk;
	CUresult result;

	if (bytes > SMALL_BYTES) {
		if (bytes > SIZE_MAX - CHUNK_BYTES)
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes are more than any device has", bytes);
		size_t whole = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
		result = make_chunk(device, whole, false, &chunk);
		if (!result)
			*ret_address = (void *)(uintptr_t)chunk->node.start;
		return result;
	}
	unsigned count = (unsigned)((bytes + UNIT_BYTES - 1) / UNIT_BYTES);
	void *address = take_units(device, count);
	while (!address) { /* again if other threads emptied the new chunk first */
		result = make_chunk(device, CHUNK_BYTES, true, &chunk);
		if (result)
			return result;
		address = take_units(device, count);
	}
	*ret_address = address;
	return CUDA_SUCCESS;
}

/* Free the units of the allocation that begins here. */
static void free_units(struct chunk *chunk, unsigned first)
{
	unsigned end = first + 1;

	while (end < CHUNK_UNITS && bit(chunk->used, end) && !bit(chunk->begins, end))
		end++;
	set_bits(chunk->used, first, end - first, false);
	set_bits(chunk->begins, first, 1, false);
	chunk->free_units += end - first;
}

static void unlink_small(struct chunk *chunk)
{
	struct chunk **link = &heap.small[chunk->counted.device->ordinal];

	while (*link != chunk)
		link = &(*link)->next;
	*link = chunk->next;
}

void cn_host_memory_free(void *address)
{
	cn_lock(&heap.lock);
	struct chunk *chunk = cn_container_or_null(cn_map_find(&heap.chunks, (uintptr_t)address), struct chunk, node);
	if (chunk->small)
		free_units(chunk, (unsigned)(((uintptr_t)address - chunk->node.start) / UNIT_BYTES));
	bool empty = !chunk->small || chunk->free_units == CHUNK_UNITS;
	if (empty) {
		cn_map_remove(&heap.chunks, &chunk->node);
		if (chunk->small)
			unlink_small(chunk);
	}
	cn_unlock(&heap.lock);
	if (!empty)
		return;

	cn_host_mapped_leave(&chunk->mapped);
	munmap((void *)(uintptr_t)chunk->node.start, chunk->node.bytes);
	if (chunk->fd >= 0)
		close(chunk->fd);
	cn_host_account_end(&chunk->counted);
	free(chunk);
}

CUresult cn_host_memory_part(struct cn_device *device, const void *address, struct cn_memory_part *ret_part)
{
	cn_lock(&heap.lock);
	const struct chunk *chunk = (const struct chunk *)cn_map_find(&heap.chunks, (uintptr_t)address);
	struct cn_memory_part part = {
		.chunk = chunk->number,
		.chunk_bytes = chunk->node.bytes,
		.offset = (uintptr_t)address - chunk->node.start,
		.fd = chunk->fd,
	};
	cn_unlock(&heap.lock);
	if (part.fd < 0)
		return cn_error(
			CUDA_ERROR_NOT_SUPPORTED,
			"memory of device %d was allocated when the program had no descriptor left for it (ulimit "
			"-n): it cannot be shared",
			device->ordinal);
	*ret_part = part;
	return CUDA_SUCCESS;
}

CUresult cn_host_memory_lend(struct cn_device *device, const void *address, struct cn_memory_part *ret_part)
{
	CUresult result = cn_host_memory_part(device, address, ret_part);

	if (result)
		return result;
	cn_lock(&heap.lock);
	struct chunk *chunk = cn_container_or_null(cn_map_find(&heap.chunks, (uintptr_t)address), struct chunk, node);
	cn_unlock(&heap.lock);
	cn_host_account_share(&chunk->counted, ret_part->fd);
	return CUDA_SUCCESS;
}

CUresult cn_host_pinned_allocate(size_t bytes, void **ret_address)
{
	void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (address == MAP_FAILED)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes of host memory were refused: %s", bytes,
				strerror(errno));
	*ret_address = address;
	return CUDA_SUCCESS;
}

void cn_host_pinned_free(void *address, size_t bytes)
{
	munmap(address, bytes);
}

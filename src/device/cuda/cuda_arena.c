/* SPDX-License-Identifier: MIT */
/*
 * Arenas: a reserved range of addresses, and behind it chunks of 32 MiB that are created and mapped as they are needed.
 *
 * A chunk is one allocation of the driver's, so it can be exported and given back by itself. Each has a serial, which
 * tells it from one that was at the same place before. A chunk whose descriptor was given away lives on in other
 * processes when it has gone here; the watcher is told, so that they release it.
 *
 * Locks: the arena's is held while the driver creates, maps and exports, and only growing, shrinking, rights and
 * exports wait for it; the watcher's is taken alone.
 */
#include "base/descriptor.h"
#include "device/cuda/cuda_internal.h"
#include "device/device_account.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)32 * 1024 * 1024)

struct chunk {
	_Atomic uint64_t serial; /* 0: no memory is there */
	CUmemGenericAllocationHandle memory;
	bool lent; /* its descriptor was given away */
	int kept;  /* that descriptor, for the next request; 0: none */
};

struct cn_arena {
	CUmemAllocationProp properties; /* of its memory */
	CUdeviceptr base;
	size_t bytes;
	CN_SLOW_LOCK(CUDA_ARENA) lock;
	struct cn_users users;
	uint64_t last_serial;
	CN_LOCK(CUDA_ARENA_WATCH) watch_lock;
	void (*watch)(void *object, size_t offset);
	void *watch_object;
	struct chunk chunks[];
};

static bool has_attribute(const struct cn_device *device, CUdevice_attribute attribute)
{
	int value = 0;

	return !cn_cuda.cuDeviceGetAttribute(&value, attribute, device->ordinal) && value;
}

static CUmemAllocationProp describe(const struct cn_device *device, int node, bool shareable)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE,
	};

	if (device) {
		properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal};
		/* Only what can be shared: mapping and unmapping take a tenth longer (docs/gpu_measurements.md). */
		properties.allocFlags.gpuDirectRDMACapable =
			shareable && has_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
	} else if (node >= 0) {
		properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node};
	} else {
		properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
	}
	return properties;
}

CUresult cn_cuda_arena_create(struct cn_device *device, int node, size_t bytes, size_t alignment, bool shareable,
			      struct cn_arena **ret_arena, void **ret_base)
{
	size_t count = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
	struct cn_arena *arena = calloc(1, sizeof *arena + count * sizeof *arena->chunks);
	CUdeviceptr base;

	if (!arena)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for an arena's record");
	CUresult result = cn_cuda.cuMemAddressReserve(&base, bytes, alignment, 0, 0);
	if (result) {
		free(arena);
		return cn_error(result, "the driver could not reserve %zu bytes of addresses for a pool", bytes);
	}
	arena->properties = describe(device, node, shareable);
	arena->base = base;
	arena->bytes = bytes;
	*ret_arena = arena;
	*ret_base = (void *)(uintptr_t)base;
	return CUDA_SUCCESS;
}

void cn_cuda_arena_free(struct cn_arena *arena)
{
	cn_cuda.cuMemAddressFree(arena->base, arena->bytes);
	free(arena);
}

static bool is_there(const struct chunk *chunk)
{
	return atomic_load_explicit(&chunk->serial, memory_order_relaxed) != 0;
}

static struct cn_cuda_span span_of(const struct cn_arena *arena, size_t first, size_t end)
{
	return (struct cn_cuda_span){arena->base + first * CHUNK_BYTES, (end - first) * CHUNK_BYTES};
}

/* ---- Counting ---- */

/* So many chunks more, or fewer, are this process's alone. Arena locked. */
static void count(const struct cn_arena *arena, int64_t chunks)
{
	if (chunks && arena->properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		cn_device_account_count(0, chunks * (int64_t)CHUNK_BYTES);
}

/* ---- Growing and shrinking ---- */

/* Take the memory of chunks away; all of them have some. Arena locked. */
static void unmap(struct cn_arena *arena, size_t first, size_t end)
{
	struct cn_cuda_span span = span_of(arena, first, end);

	/* In one call if possible. */
	if (cn_cuda.cuMemUnmap(span.start, span.bytes))
		for (size_t i = first; i < end; i++)
			cn_cuda.cuMemUnmap(arena->base + i * CHUNK_BYTES, CHUNK_BYTES);
	for (size_t i = first; i < end; i++) {
		cn_cuda.cuMemRelease(arena->chunks[i].memory);
		if (arena->chunks[i].kept)
			cn_cuda_let_go(arena->chunks[i].kept);
		arena->chunks[i].kept = 0;
	}
}

/* Arena locked. */
static CUresult map_one(struct cn_arena *arena, size_t index)
{
	struct chunk *chunk = &arena->chunks[index];
	const CUmemLocation *location = &arena->properties.location;
	CUresult result = cn_cuda.cuMemCreate(&chunk->memory, CHUNK_BYTES, &arena->properties, 0);

	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return location->type == CU_MEM_LOCATION_TYPE_DEVICE
			       ? cn_error(result, "device %d has no memory left for %zu bytes of a pool", location->id,
					  CHUNK_BYTES)
			       : cn_error(result, "the machine has no memory left for %zu bytes of a pool",
					  CHUNK_BYTES);
	if (result)
		return cn_error(result, "the driver could not create memory for a pool");
	result = cn_cuda.cuMemMap(arena->base + index * CHUNK_BYTES, CHUNK_BYTES, 0, chunk->memory, 0);
	if (result) {
		cn_cuda.cuMemRelease(chunk->memory);
		return cn_error(result, "the driver could not map a pool's memory");
	}
	return CUDA_SUCCESS;
}

CUresult cn_cuda_arena_commit(struct cn_arena *arena, size_t offset, size_t bytes)
{
	size_t first = offset / CHUNK_BYTES, end = (offset + bytes) / CHUNK_BYTES, i = first;
	CUresult result = CUDA_SUCCESS;

	if (offset % CHUNK_BYTES || !bytes || bytes % CHUNK_BYTES || offset + bytes > arena->bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a pool's memory comes in chunks of %zu bytes", CHUNK_BYTES);
	cn_slow_lock(&arena->lock);
	while (i < end && !(result = map_one(arena, i)))
		i++;
	if (!result)
		result = cn_cuda_allow(span_of(arena, first, end), arena->properties.location, (struct cn_users){0},
				       arena->users);
	if (result && i > first)
		unmap(arena, first, i);
	for (size_t index = first; index < end && !result; index++) {
		arena->chunks[index].lent = false;
		atomic_store_explicit(&arena->chunks[index].serial, ++arena->last_serial, memory_order_release);
	}
	count(arena, result ? 0 : (int64_t)(end - first));
	cn_slow_unlock(&arena->lock);
	return result;
}

/* Chunks that other processes have too are gone. */
static void tell(struct cn_arena *arena, size_t index)
{
	cn_lock(&arena->watch_lock);
	if (arena->watch)
		arena->watch(arena->watch_object, index * CHUNK_BYTES);
	cn_unlock(&arena->watch_lock);
}

void cn_cuda_arena_decommit(struct cn_arena *arena, size_t offset, size_t bytes)
{
	size_t first = offset / CHUNK_BYTES, end = (offset + bytes) / CHUNK_BYTES;
	int64_t alone = 0;

	cn_slow_lock(&arena->lock);
	for (size_t i = first; i < end; i++) {
		atomic_store(&arena->chunks[i].serial, 0);
		alone += !arena->chunks[i].lent;
	}
	unmap(arena, first, end);
	count(arena, -alone);
	cn_slow_unlock(&arena->lock);
	/* No more of them can be lent now, and the pool does not commit here before we return. */
	for (size_t i = first; i < end; i++)
		if (arena->chunks[i].lent)
			tell(arena, i);
}

/* A part is a chunk of the driver's, and no process can make it larger. */
size_t cn_cuda_arena_reclaim(struct cn_arena *arena, size_t offset)
{
	(void)arena, (void)offset;
	return 0;
}

/* ---- Rights ---- */

/* The next run of chunks that are there, from `from` on. False: there is none. Arena locked. */
static bool next_run(const struct cn_arena *arena, size_t from, size_t *ret_first, size_t *ret_end)
{
	size_t count = arena->bytes / CHUNK_BYTES, first = from;

	while (first < count && !is_there(&arena->chunks[first]))
		first++;
	size_t end = first;
	while (end < count && is_there(&arena->chunks[end]))
		end++;
	*ret_first = first;
	*ret_end = end;
	return first < count;
}

CUresult cn_cuda_arena_allow(struct cn_arena *arena, struct cn_users users)
{
	CUmemLocation location = arena->properties.location;
	size_t first, end = 0, done = 0;
	CUresult result = CUDA_SUCCESS;

	cn_slow_lock(&arena->lock);
	while (!result && next_run(arena, end, &first, &end)) {
		result = cn_cuda_allow(span_of(arena, first, end), location, arena->users, users);
		if (!result)
			done = end;
	}
	if (result)
		for (end = 0; next_run(arena, end, &first, &end) && end <= done;)
			cn_cuda_allow(span_of(arena, first, end), location, users, arena->users);
	else
		arena->users = users;
	cn_slow_unlock(&arena->lock);
	return result;
}

/* ---- Other processes ---- */

/* *ret_fd -1: none could be made, and errno. Arena locked. */
static CUresult make_descriptor(struct chunk *chunk, int *ret_fd)
{
	int fd = -1;
	CUresult result = chunk->kept ? CUDA_SUCCESS
				      : cn_cuda.cuMemExportToShareableHandle(
						&fd, chunk->memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

	if (result)
		return result;
	chunk->lent = true;
	if (fd >= 0) {
		fd = cn_descriptor_raise(fd);
		if (fd >= 0)
			fcntl(fd, F_SETFD, FD_CLOEXEC); /* no other program may keep the memory as long as it runs */
		if (fd < 0 || !cn_cuda_keep(fd)) {
			*ret_fd = fd;
			return CUDA_SUCCESS;
		}
		chunk->kept = fd;
	}
	*ret_fd = fcntl(chunk->kept, F_DUPFD_CLOEXEC, CN_DESCRIPTOR_LOWEST);
	return CUDA_SUCCESS;
}

CUresult cn_cuda_arena_part(struct cn_arena *arena, size_t offset, struct cn_arena_part *ret_part)
{
	size_t index = offset / CHUNK_BYTES;
	uint64_t serial = 0;
	int fd = -1, error = 0;
	CUresult result = CUDA_ERROR_NOT_FOUND;

	cn_slow_lock(&arena->lock);
	struct chunk *chunk = offset < arena->bytes ? &arena->chunks[index] : NULL;
	if (chunk && is_there(chunk)) {
		bool lent = chunk->lent;
		serial = atomic_load(&chunk->serial);
		result = make_descriptor(chunk, &fd);
		error = errno;
		count(arena, lent - chunk->lent);
	}
	cn_slow_unlock(&arena->lock);
	if (result == CUDA_ERROR_NOT_FOUND)
		return cn_error(result, "the pool has no memory at %zu", offset);
	if (result)
		return cn_error(result, "the driver could not export a pool's memory");
	if (fd < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor could be made for a pool's memory: %s",
				strerror(error));
	*ret_part =
		(struct cn_arena_part){.offset = index * CHUNK_BYTES, .bytes = CHUNK_BYTES, .serial = serial, .fd = fd};
	return CUDA_SUCCESS;
}

uint64_t cn_cuda_arena_serial(const struct cn_arena *arena, size_t offset, size_t *ret_end)
{
	size_t index = offset / CHUNK_BYTES;

	*ret_end = (index + 1) * CHUNK_BYTES;
	return offset < arena->bytes ? atomic_load(&arena->chunks[index].serial) : 0;
}

void cn_cuda_arena_watch(struct cn_arena *arena, void (*function)(void *object, size_t offset), void *object)
{
	cn_lock(&arena->watch_lock);
	arena->watch = function;
	arena->watch_object = object;
	cn_unlock(&arena->watch_lock);
}

/* SPDX-License-Identifier: MIT */
/*
 * The host device with arenas of many parts, each a memory file of its own that goes with its memory, as on a GPU.
 *
 * All else is the host device's. What is mapped and unmapped of another process's parts is told over a pipe, if the
 * process was given one: a byte M or U and the part's number.
 */
#ifndef CENOTE_TESTS_PARTS_DEVICE_H
#define CENOTE_TESTS_PARTS_DEVICE_H

#include "harness.h"

#include "device/host/host_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PART_BYTES = 32 << 20, PARTS_MAX = 64 };

struct cn_arena {
	pthread_mutex_t lock;
	char *base;
	size_t bytes;
	int fds[PARTS_MAX];
	bool lent[PARTS_MAX];
	_Atomic uint64_t serials[PARTS_MAX];
	void (*watch)(void *object, size_t offset);
	void *object;
};

static struct cn_device_ops parts_ops;
static _Atomic uint64_t parts_last_serial;
static struct {
	pthread_mutex_t lock;
	int fd; /* the pipe's end; -1: none */
} parts_told = {PTHREAD_MUTEX_INITIALIZER, -1};

static inline CUresult parts_create(struct cn_device *device, int node, size_t bytes, size_t alignment, bool shareable,
				    struct cn_arena **ret_arena, void **ret_base)
{
	struct cn_arena *arena = calloc(1, sizeof *arena);

	(void)device, (void)node, (void)shareable;
	ASSERT(arena);
	ASSERT_LE(bytes, (size_t)PARTS_MAX * PART_BYTES);
	ASSERT_OK(cn_host_range_reserve(bytes, alignment, ret_base));
	pthread_mutex_init(&arena->lock, NULL);
	arena->base = *ret_base;
	arena->bytes = bytes;
	*ret_arena = arena;
	return CUDA_SUCCESS;
}

static inline void parts_free(struct cn_arena *arena)
{
	for (unsigned i = 0; i < PARTS_MAX; i++)
		ASSERT_EQ(0, atomic_load(&arena->serials[i]));
	cn_host_range_free(arena->base, arena->bytes);
	pthread_mutex_destroy(&arena->lock);
	free(arena);
}

static inline CUresult parts_commit(struct cn_arena *arena, size_t offset, size_t bytes)
{
	ASSERT_EQ(0, offset % PART_BYTES);
	ASSERT_EQ(0, bytes % PART_BYTES);
	pthread_mutex_lock(&arena->lock);
	for (size_t i = offset / PART_BYTES; i < (offset + bytes) / PART_BYTES; i++) {
		ASSERT_EQ(0, atomic_load(&arena->serials[i]));
		ASSERT_SYS(arena->fds[i] = memfd_create("cenote-pool-part", MFD_CLOEXEC | MFD_ALLOW_SEALING));
		ASSERT_SYS(ftruncate(arena->fds[i], PART_BYTES));
		ASSERT_SYS(fcntl(arena->fds[i], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
		ASSERT(mmap(arena->base + i * PART_BYTES, PART_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			    arena->fds[i], 0) != MAP_FAILED);
		arena->lent[i] = false;
		atomic_store(&arena->serials[i], atomic_fetch_add(&parts_last_serial, 1) + 1);
	}
	pthread_mutex_unlock(&arena->lock);
	return CUDA_SUCCESS;
}

static inline void parts_decommit(struct cn_arena *arena, size_t offset, size_t bytes)
{
	pthread_mutex_lock(&arena->lock);
	for (size_t i = offset / PART_BYTES; i < (offset + bytes) / PART_BYTES; i++) {
		ASSERT_NE(0, atomic_load(&arena->serials[i]));
		atomic_store(&arena->serials[i], 0);
		ASSERT(mmap(arena->base + i * PART_BYTES, PART_BYTES, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED);
		close(arena->fds[i]);
		if (arena->lent[i] && arena->watch)
			arena->watch(arena->object, i * PART_BYTES);
	}
	pthread_mutex_unlock(&arena->lock);
}

static inline CUresult parts_part(struct cn_arena *arena, size_t offset, struct cn_arena_part *ret_part)
{
	size_t i = offset / PART_BYTES;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&arena->lock);
	uint64_t serial = atomic_load(&arena->serials[i]);
	if (serial) {
		*ret_part = (struct cn_arena_part){.offset = i * PART_BYTES, .bytes = PART_BYTES, .serial = serial};
		ASSERT_SYS(ret_part->fd = fcntl(arena->fds[i], F_DUPFD_CLOEXEC, 3));
		arena->lent[i] = true;
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&arena->lock);
	return result;
}

static inline uint64_t parts_serial(const struct cn_arena *arena, size_t offset, size_t *ret_end)
{
	*ret_end = offset / PART_BYTES * PART_BYTES + PART_BYTES;
	return atomic_load(&arena->serials[offset / PART_BYTES]);
}

static inline size_t parts_reclaim(struct cn_arena *arena, size_t offset)
{
	(void)arena, (void)offset;
	return 0;
}

static inline void parts_watch(struct cn_arena *arena, void (*function)(void *object, size_t offset), void *object)
{
	pthread_mutex_lock(&arena->lock);
	arena->watch = function;
	arena->object = object;
	pthread_mutex_unlock(&arena->lock);
}

/* ---- Views ------------------------------------------------------------------------------------------------------- */

/* From now on the pipe is told, which stays the caller's; -1: none. */
static inline void parts_tell_to(int fd)
{
	pthread_mutex_lock(&parts_told.lock);
	parts_told.fd = fd;
	pthread_mutex_unlock(&parts_told.lock);
}

static inline void parts_tell(char what, size_t offset)
{
	const unsigned char said[2] = {(unsigned char)what, (unsigned char)(offset / PART_BYTES)};

	pthread_mutex_lock(&parts_told.lock);
	if (parts_told.fd >= 0)
		ASSERT_EQ(2, write(parts_told.fd, said, sizeof said));
	pthread_mutex_unlock(&parts_told.lock);
}

static inline CUresult parts_map(struct cn_view *view, const struct cn_arena_part *part)
{
	CUresult result = cn_host_device_ops.view_map(view, part);

	if (!result)
		parts_tell('M', part->offset);
	return result;
}

static inline void parts_unmap(struct cn_view *view, size_t offset, size_t bytes)
{
	cn_host_device_ops.view_unmap(view, offset, bytes);
	parts_tell('U', offset);
}

/* What the other end of a pipe was told next; the test's time limit ends a vain wait. */
static inline void parts_expect(int reader, char what, unsigned number)
{
	unsigned char said[2];

	ASSERT_EQ(2, read(reader, said, sizeof said));
	ASSERT_EQ((int)what, (int)said[0]);
	ASSERT_EQ(number, said[1]);
}

/* For SETUP, after cuInit(): no pool has been made yet. */
static inline void parts_start(void)
{
	parts_ops = cn_host_device_ops;
	parts_ops.name = "parts";
	parts_ops.arena_create = parts_create;
	parts_ops.arena_free = parts_free;
	parts_ops.arena_commit = parts_commit;
	parts_ops.arena_decommit = parts_decommit;
	parts_ops.arena_reclaim = parts_reclaim;
	parts_ops.arena_part = parts_part;
	parts_ops.arena_serial = parts_serial;
	parts_ops.arena_watch = parts_watch;
	parts_ops.view_map = parts_map;
	parts_ops.view_unmap = parts_unmap;
	cn_device_ops = &parts_ops;
}

#endif

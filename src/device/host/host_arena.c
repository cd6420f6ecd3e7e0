/* SPDX-License-Identifier: MIT */
/*
 * Arenas: one sparse memory file, sealed at its full size and mapped once.
 *
 * Committing a part only counts it: pages come from the system when they are first touched. Decommitting gives the
 * pages back by punching a hole, so all mappings, also those of other processes, stay as they are. Where the system
 * gives memory files huge pages on request (shmem_enabled is "advise"), the first touch of 2 MiB is one fault and not
 * 512.
 *
 * A process that has the file can make pages where nothing is committed, by writing there or with fallocate(), and they
 * would stay when that process has ended. So when the file has more memory than is committed, cn_host_arena_reclaim()
 * punches holes wherever nothing is. (SEEK_DATA, which asks where memory is, does not find what was only reserved.)
 * What is committed is noted for that, and the note is locked while a hole is punched: otherwise a thread that commits
 * there would lose what it writes.
 *
 * A view is the same file in another process. It is one part, so a view that has been mapped is mapped for good, and
 * follows whatever the arena's owner commits and gives back.
 */
#include "device/host/host_internal.h"

#include "base/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	ONLY_SERIAL = 1,     /* an arena is one part for ever */
	BLOCK_BYTES = 512,   /* of st_blocks */
	RECLAIM_GRAINS = 16, /* reclaimed at a time: bounds how long a thread that commits there waits */
};

struct cn_arena {
	struct cn_device *device; /* the device whose bytes are counted; NULL: the machine's */
	struct cn_host_bytes counted;
	struct cn_host_mapped mapped;
	int fd;
	char *base;
	size_t bytes;
	CN_SLOW_LOCK(HOST_ARENA) lock; /* of what follows; held while the system takes memory back */
	bool *committed;               /* by CN_GRANULARITY_BYTES */
	size_t committed_bytes;
};

CUresult cn_host_arena_create(struct cn_device *device, int node, size_t bytes, size_t alignment, bool shareable,
			      struct cn_arena **ret_arena, void **ret_base)
{
	struct cn_arena *arena = calloc(1, sizeof *arena);
	bool *committed = calloc(bytes / CN_GRANULARITY_BYTES, sizeof *committed);
	CUresult result;
	void *base;

	(void)shareable; /* a memory file always is */
	if (!arena || !committed) {
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for an arena's record");
		goto err_free;
	}
	result = cn_host_make_file("cenote-pool", bytes, &arena->fd);
	if (!result && arena->fd < 0)
		result = cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				  "the program has no descriptor left for a pool: raise its limit (ulimit -n)");
	if (result)
		goto err_free;
	result = cn_host_range_reserve(bytes, alignment, &base);
	if (result)
		goto err_close;
	if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena->fd, 0) ==
	    MAP_FAILED) {
		result =
			cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes could not be mapped: %s", bytes, strerror(errno));
		goto err_unreserve;
	}
	madvise(base, bytes, MADV_HUGEPAGE); /* for systems that give files huge pages on request */
	if (node >= 0)
		cn_host_place(node, base, bytes);
	arena->device = device;
	arena->base = base;
	arena->bytes = bytes;
	arena->committed = committed;
	cn_host_mapped_enter(&arena->mapped, base, bytes, arena->fd, true);
	*ret_arena = arena;
	*ret_base = base;
	return CUDA_SUCCESS;

err_unreserve:
	cn_host_range_free(base, bytes);
err_close:
	close(arena->fd);
err_free:
	free(committed);
	free(arena);
	return result;
}

void cn_host_arena_free(struct cn_arena *arena)
{
	cn_host_mapped_leave(&arena->mapped);
	cn_host_range_free(arena->base, arena->bytes);
	close(arena->fd);
	cn_host_account_end(&arena->counted);
	free(arena->committed);
	free(arena);
}

static void note_committed(struct cn_arena *arena, size_t offset, size_t bytes, bool committed)
{
	cn_slow_lock(&arena->lock);
	for (size_t grain = offset / CN_GRANULARITY_BYTES; grain < (offset + bytes) / CN_GRANULARITY_BYTES; grain++)
		arena->committed[grain] = committed;
	arena->committed_bytes += committed ? bytes : -bytes;
	cn_slow_unlock(&arena->lock);
}

CUresult cn_host_arena_commit(struct cn_arena *arena, size_t offset, size_t bytes)
{
	CUresult result = arena->device ? cn_host_account_take(&arena->counted, arena->device, bytes) : CUDA_SUCCESS;

	if (!result)
		note_committed(arena, offset, bytes, true);
	return result;
}

static void punch(struct cn_arena *arena, size_t offset, size_t bytes)
{
	if (fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes))
		madvise(arena->base + offset, bytes, MADV_REMOVE);
}

/* The next grains, not too many, where nothing is committed; false: there are none. Locked. */
static bool find_hole(const struct cn_arena *arena, size_t from, size_t *ret_first, size_t *ret_end)
{
	size_t first = from, count = arena->bytes / CN_GRANULARITY_BYTES;

	while (first < count && arena->committed[first])
		first++;
	size_t end = first;
	while (end < count && !arena->committed[end] && end - first < RECLAIM_GRAINS)
		end++;
	*ret_first = first;
	*ret_end = end;
	return first < end;
}

/* Locked. */
static bool has_too_much(const struct cn_arena *arena)
{
	struct stat status;

	return !fstat(arena->fd, &status) && (uint64_t)status.st_blocks * BLOCK_BYTES > arena->committed_bytes;
}

size_t cn_host_arena_reclaim(struct cn_arena *arena, size_t offset)
{
	size_t first, end = 0;

	cn_slow_lock(&arena->lock);
	if (has_too_much(arena) && find_hole(arena, offset / CN_GRANULARITY_BYTES, &first, &end))
		punch(arena, first * CN_GRANULARITY_BYTES, (end - first) * CN_GRANULARITY_BYTES);
	cn_slow_unlock(&arena->lock);
	return end * CN_GRANULARITY_BYTES;
}

void cn_host_arena_decommit(struct cn_arena *arena, size_t offset, size_t bytes)
{
	punch(arena, offset, bytes);
	note_committed(arena, offset, bytes, false);
	if (arena->device)
		cn_host_account_give(&arena->counted, bytes);
}

CUresult cn_host_arena_part(struct cn_arena *arena, size_t offset, struct cn_arena_part *ret_part)
{
	int fd = fcntl(arena->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	(void)offset;
	if (fd < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor could be made for a pool's memory: %s",
				strerror(errno));
	cn_host_account_share(&arena->counted, fd);
	*ret_part = (struct cn_arena_part){.offset = 0, .bytes = arena->bytes, .serial = ONLY_SERIAL, .fd = fd};
	return CUDA_SUCCESS;
}

/* driver/ checks access rights, and every use of memory on the host device passes through it. */
CUresult cn_host_arena_allow(struct cn_arena *arena, struct cn_users users)
{
	(void)arena, (void)users;
	return CUDA_SUCCESS;
}

uint64_t cn_host_arena_serial(const struct cn_arena *arena, size_t offset, size_t *ret_end)
{
	(void)offset;
	*ret_end = arena->bytes;
	return ONLY_SERIAL;
}

/* The file stays, whatever is committed: no process has to release it. */
void cn_host_arena_watch(struct cn_arena *arena, void (*function)(void *object, size_t offset), void *object)
{
	(void)arena, (void)function, (void)object;
}

/* ---- Views ---- */

struct cn_view {
	char *base;
	size_t bytes;
	struct mapped *mapped;
};

/* A part that is mapped; an honest exporter has one. */
struct mapped {
	struct mapped *next;
	size_t offset;
	struct cn_host_hold held;
};

CUresult cn_host_view_create(size_t bytes, size_t alignment, struct cn_view **ret_view, void **ret_base)
{
	struct cn_view *view = calloc(1, sizeof *view);
	void *base;

	if (!view)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a view's record");
	CUresult result = cn_host_range_reserve(bytes, alignment, &base);
	if (result) {
		free(view);
		return result;
	}
	*view = (struct cn_view){.base = base, .bytes = bytes};
	*ret_view = view;
	*ret_base = base;
	return CUDA_SUCCESS;
}

/* A file that no process can shorten, long enough, and not something else. */
static bool is_arena_file(int fd, size_t bytes, uint64_t *ret_file)
{
	int seals, wanted = F_SEAL_SHRINK | F_SEAL_GROW;
	size_t found_bytes;

	return cn_file_identify(fd, &found_bytes, &seals, ret_file) && (seals & wanted) == wanted &&
	       found_bytes >= bytes;
}

/* Its exporter may die: from before it is mapped on, this process is one that holds it. */
static CUresult hold_part(struct cn_view *view, const struct cn_arena_part *part, uint64_t file)
{
	struct mapped *mapped = calloc(1, sizeof *mapped);

	if (!mapped)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of a mapped part");
	mapped->offset = part->offset;
	cn_host_account_hold(file, &mapped->held);
	mapped->next = view->mapped;
	view->mapped = mapped;
	return CUDA_SUCCESS;
}

/* It is not mapped any more. */
static void release_part(struct mapped **link)
{
	struct mapped *mapped = *link;

	*link = mapped->next;
	cn_host_account_release(&mapped->held);
	free(mapped);
}

CUresult cn_host_view_map(struct cn_view *view, const struct cn_arena_part *part)
{
	uint64_t file;

	if (part->offset % CN_GRANULARITY_BYTES || !part->bytes || part->bytes % CN_GRANULARITY_BYTES ||
	    part->offset > view->bytes || part->bytes > view->bytes - part->offset ||
	    !is_arena_file(part->fd, part->bytes, &file))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the descriptor received is not a part of a pool's memory");
	char *address = view->base + part->offset;
	CUresult result = hold_part(view, part, file);
	if (result)
		return result;
	if (mmap(address, part->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, part->fd, 0) ==
	    MAP_FAILED) {
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes of a pool could not be mapped: %s", part->bytes,
				  strerror(errno));
		release_part(&view->mapped);
		return result;
	}
	madvise(address, part->bytes, MADV_DONTFORK); /* an uncounted child must not have it */
	madvise(address, part->bytes, MADV_HUGEPAGE);
	return CUDA_SUCCESS;
}

void cn_host_view_unmap(struct cn_view *view, size_t offset, size_t bytes)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	/* Addresses without memory again, as range_reserve() left them; or at least addresses that cannot be used. */
	if (mmap(view->base + offset, bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED)
		mprotect(view->base + offset, bytes, PROT_NONE);
	for (struct mapped **link = &view->mapped; *link; link = &(*link)->next)
		if ((*link)->offset == offset) {
			release_part(link);
			break;
		}
}

CUresult cn_host_view_allow(struct cn_view *view, struct cn_users users)
{
	(void)view, (void)users;
	return CUDA_SUCCESS;
}

void cn_host_view_free(struct cn_view *view)
{
	cn_host_range_free(view->base, view->bytes);
	while (view->mapped)
		release_part(&view->mapped);
	free(view);
}

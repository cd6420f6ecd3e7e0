/* SPDX-License-Identifier: MIT */
/*
 * Mapped memory files: see host_mapped.h.
 *
 * Operations look here when they run, and the program may free memory at the same time: a descriptor is duplicated
 * under the lock, so it is never another file's.
 */
#include "device/host/host_mapped.h"

#include "base/container.h"
#include "base/lock.h"
#include "device/host/host_remote.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
	CN_LOCK(HOST_MAPPED) lock;
	struct cn_map map;
	uint64_t number_last;
} mappings;

static struct cn_host_mapped *find_locked(uint64_t address)
{
	return cn_container_or_null(cn_map_find(&mappings.map, address), struct cn_host_mapped, node);
}

void cn_host_mapped_enter(struct cn_host_mapped *mapped, const void *address, size_t bytes, int fd, bool is_usable)
{
	if (fd < 0)
		return;
	mapped->fd = fd;
	mapped->is_usable = is_usable;
	cn_lock(&mappings.lock);
	mapped->number = ++mappings.number_last;
	cn_map_insert(&mappings.map, &mapped->node, (uintptr_t)address, bytes);
	cn_unlock(&mappings.lock);
}

void cn_host_mapped_leave(struct cn_host_mapped *mapped)
{
	if (!mapped->number)
		return;
	cn_lock(&mappings.lock);
	cn_map_remove(&mappings.map, &mapped->node);
	void (*forget)(uint64_t number) = mapped->forget;
	cn_unlock(&mappings.lock);
	if (forget)
		forget(mapped->number);
}

void cn_host_mapped_add(const void *address, size_t bytes, int fd)
{
	struct cn_host_mapped *mapped = fd >= 0 ? calloc(1, sizeof *mapped) : NULL;

	if (mapped)
		cn_host_mapped_enter(mapped, address, bytes, fd, false);
}

void cn_host_mapped_allow(const void *address, bool is_usable)
{
	cn_lock(&mappings.lock);
	struct cn_host_mapped *mapped = find_locked((uintptr_t)address);
	if (mapped)
		mapped->is_usable = is_usable;
	cn_unlock(&mappings.lock);
}

void cn_host_mapped_remove(const void *address)
{
	cn_lock(&mappings.lock);
	struct cn_host_mapped *mapped = find_locked((uintptr_t)address);
	cn_unlock(&mappings.lock);
	if (!mapped)
		return;
	cn_host_mapped_leave(mapped); /* no other thread unmaps the same */
	free(mapped);
}

bool cn_host_mapped_find(const void *address, size_t bytes, uint64_t *ret_number, size_t *ret_offset)
{
	cn_lock(&mappings.lock);
	const struct cn_host_mapped *mapped = find_locked((uintptr_t)address);
	size_t offset = mapped ? (uintptr_t)address - mapped->node.start : 0;
	bool found = mapped && mapped->is_usable && bytes <= mapped->node.bytes - offset;
	if (found) {
		*ret_number = mapped->number;
		*ret_offset = offset;
	}
	cn_unlock(&mappings.lock);
	return found;
}

int cn_host_remote_lend(const struct cn_host_remote_file *file, void (*forget)(uint64_t number), size_t *ret_bytes)
{
	int fd = -1;

	cn_lock(&mappings.lock);
	struct cn_host_mapped *mapped = find_locked(file->address);
	if (mapped && mapped->number == file->number) {
		fd = fcntl(mapped->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		mapped->forget = forget;
		*ret_bytes = mapped->node.bytes;
	}
	cn_unlock(&mappings.lock);
	return fd;
}

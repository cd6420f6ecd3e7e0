/* SPDX-License-Identifier: MIT */
/*
 * Physical memory without an address, and address ranges without memory.
 *
 * Physical memory is a memory file. What it is, whose, and how it may be used stands in the file's name, which cannot
 * be changed and which any receiver of the descriptor can read; seals fix its size before any other process can see it.
 * So an importer needs only the descriptor, and the kernel keeps the memory for as long as any process has it mapped or
 * holds a descriptor. A file that another program gave such a name and such seals is that program's memory, and no
 * danger: it cannot be made to shrink under us. More seals can be added to a kept object's memory (docs/kept.md), at
 * most against writing: what is mapped stays as it is, and what is mapped later is an error and not a fault.
 *
 * An address range is a mapping that allows no access. Memory is mapped over it, and the range is put back when the
 * memory goes, so that the addresses stay ours until the range is freed.
 */
#include "device/host/host_internal.h"

#include "base/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	NAME_BYTES_MAX = 128,
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW,
	MEMORY_POLICY_BIND = 2, /* MPOL_BIND */
	NODE_MAX = 1023,
	NODES_PER_WORD = 8 * sizeof(unsigned long),
};

#define SLACK_BYTES ((size_t)1 << 40)

struct cn_physical {
	struct cn_host_bytes counted; /* if this process made it */
	struct cn_host_hold held;     /* if another did */
	struct cn_physical_facts facts;
	int fd;          /* -1: it is on another machine */
	uint64_t remote; /* its number then; else 0 */
};

CUresult cn_host_physical_create(struct cn_device *device, const struct cn_physical_facts *facts,
				 struct cn_physical **ret_physical)
{
	char name[NAME_BYTES_MAX];
	struct cn_physical *physical = calloc(1, sizeof *physical);

	if (!physical)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of physical memory");
	CUresult result = device ? cn_host_account_take(&physical->counted, device, facts->bytes) : CUDA_SUCCESS;
	if (result)
		goto err_free;
	snprintf(name, sizeof name, CN_FILE_PHYSICAL_PREFIX CN_FILE_PHYSICAL_FACTS, facts->location_type,
		 facts->location_id, facts->handle_types, facts->flags);
	result = cn_host_make_file(name, facts->bytes, &physical->fd);
	if (!result && physical->fd < 0)
		result =
			cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				 "the program has no descriptor left for physical memory: raise its limit (ulimit -n)");
	if (result)
		goto err_uncount;
	physical->facts = *facts;
	*ret_physical = physical;
	return CUDA_SUCCESS;

err_uncount:
	cn_host_account_end(&physical->counted);
err_free:
	free(physical);
	return result;
}

CUresult cn_host_physical_remote(const struct cn_physical_facts *facts, const struct cn_host_remote_ops *ops,
				 void *memory, struct cn_physical **ret_physical)
{
	struct cn_physical *physical = calloc(1, sizeof *physical);

	if (!physical)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of physical memory");
	CUresult result = cn_host_remote_make(ops, memory, &physical->remote);
	if (result) {
		free(physical);
		return result;
	}
	physical->facts = *facts;
	physical->fd = -1;
	*ret_physical = physical;
	return CUDA_SUCCESS;
}

uint64_t cn_host_physical_number(const struct cn_physical *physical)
{
	return physical->remote;
}

void cn_host_physical_free(struct cn_physical *physical)
{
	if (physical->fd >= 0)
		close(physical->fd);
	cn_host_remote_end(physical->remote);
	cn_host_account_end(&physical->counted);
	cn_host_account_release(&physical->held);
	free(physical);
}

CUresult cn_host_physical_export(struct cn_physical *physical, int *ret_fd)
{
	/* Never 0, even if the program has closed it: an importer takes 0 for no descriptor at all. */
	int fd = fcntl(physical->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (fd < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor could be made: %s", strerror(errno));
	cn_host_account_share(&physical->counted, fd);
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

/* A name without the word that says whose memory it is; "": of no memory. */
static const char *after_prefix(const char *name)
{
	static const char *const prefixes[] = {CN_FILE_PHYSICAL_PREFIX, CN_FILE_KEPT_PREFIX};

	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return name + strlen(prefixes[i]);
	return "";
}

/* The number behind `before`, and where it ends; NULL: `before` is not there. */
static const char *read_number(const char *at, const char *before, int base, unsigned long *ret_number)
{
	size_t length = strlen(before);
	char *end;

	if (!at || strncmp(at, before, length))
		return NULL;
	*ret_number = strtoul(at + length, &end, base);
	return end;
}

/* The facts in a name. Printed again they must be the same name: what is not exactly ours does not come out so. */
static bool parse_facts(const char *name, struct cn_physical_facts *ret_facts)
{
	unsigned long type, id, handles, flags;
	char again[NAME_BYTES_MAX];
	const char *at = read_number(name, "location ", 10, &type); /* not sscanf(), which takes 3,000 instructions */

	at = read_number(at, " ", 10, &id);
	at = read_number(at, " handles ", 16, &handles);
	at = read_number(at, " flags ", 16, &flags);
	if (!at)
		return false;
	*ret_facts = (struct cn_physical_facts){.location_type = (int)type,
						.location_id = (int)id,
						.handle_types = (unsigned)handles,
						.flags = (unsigned)flags};
	return snprintf(again, sizeof again, CN_FILE_PHYSICAL_FACTS, ret_facts->location_type, ret_facts->location_id,
			ret_facts->handle_types, ret_facts->flags) < (int)sizeof again &&
	       !strcmp(name, again);
}

/* What a file says of itself. False: it is not physical memory of Cenote's, or not whole. */
static bool read_facts(int fd, struct cn_physical_facts *ret_facts, uint64_t *ret_file, const char **ret_why)
{
	static const char prefix[] = "/memfd:", suffix[] = " (deleted)";
	char link[64], target[sizeof prefix + NAME_BYTES_MAX + sizeof suffix];
	struct cn_physical_facts facts;
	size_t bytes;
	int seals;

	if (!cn_file_identify(fd, &bytes, &seals, ret_file)) {
		*ret_why = "does not lead to memory of cuMemCreate()";
		return false;
	}
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, target, sizeof target - 1);
	if (length < 0) {
		*ret_why = "cannot be looked at: /proc is not mounted";
		return false;
	}
	target[length] = 0;
	size_t end = (size_t)length - (sizeof suffix - 1);
	if ((size_t)length < sizeof prefix + sizeof suffix || strcmp(target + end, suffix) ||
	    strncmp(target, prefix, sizeof prefix - 1)) {
		*ret_why = "does not lead to memory of cuMemCreate()";
		return false;
	}
	target[end] = 0;
	if (!parse_facts(after_prefix(target + sizeof prefix - 1), &facts)) {
		*ret_why = "does not lead to memory of cuMemCreate()";
		return false;
	}
	if ((seals & SEALS) != SEALS) {
		*ret_why = "is not sealed: its size could change";
		return false;
	}
	facts.bytes = bytes;
	*ret_facts = facts;
	return true;
}

CUresult cn_host_physical_import(int fd, struct cn_physical **ret_physical)
{
	const char *why = "";
	uint64_t file;
	struct cn_physical *physical = calloc(1, sizeof *physical);

	if (!physical)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of physical memory");
	/* Duplicate first: the program may put another file under its number while we look. */
	physical->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (physical->fd < 0) {
		CUresult result = errno == EBADF ? cn_error(CUDA_ERROR_UNKNOWN, "descriptor %d is not open", fd)
						 : cn_error(CUDA_ERROR_OPERATING_SYSTEM,
							    "no descriptor could be made: %s", strerror(errno));
		free(physical);
		return result;
	}
	if (!read_facts(physical->fd, &physical->facts, &file, &why)) {
		close(physical->fd);
		free(physical);
		return cn_error(CUDA_ERROR_UNKNOWN, "descriptor %d %s", fd, why);
	}
	if (physical->facts.location_type == CU_MEM_LOCATION_TYPE_DEVICE)
		cn_host_account_hold(file, &physical->held);
	*ret_physical = physical;
	return CUDA_SUCCESS;
}

bool cn_host_descriptor_is_memory(int fd)
{
	struct cn_physical_facts facts;
	const char *why;
	uint64_t file;
	int own_fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); /* as in an import */
	bool is_memory = own_fd >= 0 && read_facts(own_fd, &facts, &file, &why);

	if (own_fd >= 0)
		close(own_fd);
	return is_memory;
}

const struct cn_physical_facts *cn_host_physical_facts(const struct cn_physical *physical)
{
	return &physical->facts;
}

/* Right above the range that was reserved last, if that is free: ranges then touch, and leave no holes. */
static void *reserve_above(uintptr_t last_end, size_t bytes, size_t alignment)
{
	uintptr_t wanted;

	if (!last_end || __builtin_add_overflow(last_end, alignment - 1, &wanted))
		return MAP_FAILED;
	wanted = wanted / alignment * alignment;
	/* A wish: with MAP_FIXED_NOREPLACE ThreadSanitizer maps address 0 where the wish is outside its own layout. */
	void *range = mmap((void *)wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (range != MAP_FAILED && range != (void *)wanted) {
		munmap(range, bytes);
		return MAP_FAILED;
	}
	return range;
}

/* The lowest part of a free stretch of `slack` bytes more than needed, where further ranges will find room above. */
static void *reserve_with_slack(size_t bytes, size_t alignment, size_t slack)
{
	size_t room;

	if (__builtin_add_overflow(bytes, alignment, &room) || __builtin_add_overflow(room, slack, &room))
		return MAP_FAILED;
	char *all = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return MAP_FAILED;
	size_t before = (alignment - (uintptr_t)all % alignment) % alignment;
	if (before)
		munmap(all, before);
	munmap(all + before + bytes, alignment - before + slack);
	return all + before;
}

CUresult cn_host_range_reserve(size_t bytes, size_t alignment, void **ret_address)
{
	static _Atomic uintptr_t last_end;
	void *range = reserve_above(atomic_load(&last_end), bytes, alignment);

	if (range == MAP_FAILED)
		range = reserve_with_slack(bytes, alignment, SLACK_BYTES);
	if (range == MAP_FAILED)
		range = reserve_with_slack(bytes, alignment, 0);
	if (range == MAP_FAILED)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "not enough address space for %zu bytes aligned to %zu",
				bytes, alignment);
	atomic_store(&last_end, (uintptr_t)range + bytes);
	*ret_address = range;
	return CUDA_SUCCESS;
}

void cn_host_range_free(void *address, size_t bytes)
{
	munmap(address, bytes);
}

void cn_host_place(int node, void *address, size_t bytes)
{
	unsigned long nodes[(NODE_MAX + 1) / NODES_PER_WORD] = {0};

	if (!cn_device_has_node(1) || !cn_device_has_node(node))
		return;
	nodes[(size_t)node / NODES_PER_WORD] = 1ul << ((size_t)node % NODES_PER_WORD);
	syscall(SYS_mbind, address, bytes, MEMORY_POLICY_BIND, nodes, (unsigned long)NODE_MAX + 1, 0);
}

CUresult cn_host_range_map(void *address, const struct cn_physical *physical)
{
	if (physical->remote) /* the addresses stay without pages */
		return CUDA_SUCCESS;
	if (mmap(address, physical->facts.bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, physical->fd, 0) ==
	    MAP_FAILED)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes could not be mapped: %s", physical->facts.bytes,
				strerror(errno));
	if (physical->facts.location_type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		cn_host_place(physical->facts.location_id, address, physical->facts.bytes);
	cn_host_mapped_add(address, physical->facts.bytes, physical->fd);
	return CUDA_SUCCESS;
}

CUresult cn_host_range_unmap(void *address, size_t bytes)
{
	cn_host_mapped_remove(address);
	if (mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) ==
	    MAP_FAILED)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "%zu bytes could not be unmapped: %s", bytes,
				strerror(errno));
	return CUDA_SUCCESS;
}

CUresult cn_host_range_protect(void *address, size_t bytes, bool readable, bool writable)
{
	int protection = writable ? PROT_READ | PROT_WRITE : readable ? PROT_READ : PROT_NONE;

	if (mprotect(address, bytes, protection))
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the rights of %zu bytes could not be changed: %s", bytes,
				strerror(errno));
	cn_host_mapped_allow(address, readable && writable);
	return CUDA_SUCCESS;
}

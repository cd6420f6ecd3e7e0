/* SPDX-License-Identifier: MIT */
/*
 * The registry of memory.
 *
 * One map from addresses to records, under one lock that is never held across a system call or an allocation. Memory is
 * allocated first and entered then; it is removed first and given back then. So in between, no thread finds a freed
 * address, and two threads that free the same address cannot both succeed.
 *
 * Memory belongs to the context it was allocated in, and ends with it. A context loses its life before its memory is
 * released, and the life is checked under the lock when memory is entered: so all memory that is entered is released.
 */
#include "driver/host/registry.h"
#include "base/container.h"

#include "base/map.h"
#include "driver/common/mempool.h"
#include "share/port/port.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OPENED_BUCKETS = 256 };

struct allocation {
	struct cn_map_node node;
	struct cn_memory facts;
	struct cn_advice *advice;
	struct allocation *next; /* in a list of removed ones */

	struct cn_shared_memory *shared;   /* of device memory that has a handle */
	struct cn_opened_memory *borrowed; /* of opened memory, and what follows */
	unsigned char handle[CN_HANDLE_BYTES];
	size_t opened_count;
	struct allocation *opened_next;
};

static struct {
	CN_LOCK(MEMORY) lock;
	struct cn_map map;
	uint64_t last_id;
	struct allocation *opened[OPENED_BUCKETS]; /* what is in the map of this kind, by handle */
} registry;

_Static_assert((int)CN_HANDLE_BYTES == (int)CN_REGISTRY_HANDLE_BYTES, "as CUDA has it");

/* What holds the address, and the first that ends after it; NULL: nothing. Registry locked. */
static struct allocation *allocation_at(uint64_t address)
{
	return cn_container_or_null(cn_map_find(&registry.map, address), struct allocation, node);
}

static struct allocation *allocation_from(uint64_t address)
{
	return cn_container_or_null(cn_map_find_from(&registry.map, address), struct allocation, node);
}

/*
 * Remove stale entries from a range that the system has now given to us: what was registered there, because the program
 * has unmapped it without telling us, and the advice of blocks that a pool had there.
 */
static struct allocation *remove_stale_locked(uint64_t start, uint64_t bytes)
{
	struct allocation *stale = NULL;

	for (;;) {
		struct allocation *found = allocation_from(start);
		if (!found || found->node.start >= start + bytes ||
		    !(found->facts.kind & (CN_MEMORY_REGISTERED | CN_MEMORY_POOL)))
			break;
		cn_map_remove(&registry.map, &found->node);
		found->next = stale;
		stale = found;
	}
	return stale;
}

static void free_stale(struct allocation *stale)
{
	while (stale) {
		struct allocation *next = stale->next;
		if (stale->facts.kind == CN_MEMORY_POOL)
			atomic_fetch_sub(&cn_mempools_advised, 1);
		cn_advice_free(stale->advice);
		free(stale);
		stale = next;
	}
}

void cn_registry_forget_stale(uint64_t start, size_t bytes)
{
	cn_lock(&registry.lock);
	struct allocation *stale = remove_stale_locked(start, bytes);
	cn_unlock(&registry.lock);
	free_stale(stale);
}

/* Is what overlaps a range that begins here registered, rather than allocated? */
static bool holds_registration_locked(uint64_t start)
{
	struct allocation *found = allocation_from(start);

	return found && found->facts.kind == CN_MEMORY_REGISTERED;
}

/* The context that memory belongs to, as it was found when the memory was entered. */
static struct cn_home home_of(const struct cn_memory *facts)
{
	return (struct cn_home){.context = facts->context, .device = facts->device, .life = facts->context_life};
}

CUresult cn_registry_add(const struct cn_home *home, enum cn_memory_kind kind, void *address, size_t bytes,
			 unsigned int flags, struct cn_advice *advice)
{
	struct allocation *allocation = calloc(1, sizeof *allocation), *stale = NULL;
	uint64_t start = (uintptr_t)address;

	if (!allocation)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for an allocation's record");
	allocation->facts = (struct cn_memory){
		.kind = kind,
		.start = start,
		.bytes = bytes,
		.device = home->device,
		.context = home->context,
		.context_life = home->life,
		.context_handle = cn_object_handle(home->context), /* the check of the life, below, confirms it */
		.flags = flags,
		.managed = kind == CN_MEMORY_VARIABLE && flags,
	};
	allocation->advice = advice;

	cn_lock(&registry.lock);
	bool alive = cn_home_stands(home);
	bool entered = alive && cn_map_insert(&registry.map, &allocation->node, start, bytes);
	if (alive && !entered && kind != CN_MEMORY_REGISTERED) {
		stale = remove_stale_locked(start, bytes);
		entered = cn_map_insert(&registry.map, &allocation->node, start, bytes);
	}
	if (entered)
		allocation->facts.id = ++registry.last_id;
	bool by_registration = alive && !entered && holds_registration_locked(start);
	cn_unlock(&registry.lock);

	free_stale(stale);
	if (entered)
		return CUDA_SUCCESS;
	free(allocation);
	if (!alive)
		return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "another thread has destroyed the context");
	if (!by_registration)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "part of the %zu bytes at %p was allocated here", bytes,
				address);
	return cn_error(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part of the %zu bytes at %p is already registered",
			bytes, address);
}

static void give_back(struct allocation *allocation)
{
	void *address = (void *)(uintptr_t)allocation->facts.start;

	switch (allocation->facts.kind) {
	case CN_MEMORY_DEVICE:
		if (allocation->shared)
			cn_shared_memory_free(allocation->shared);
		else
			cn_host_memory_free(address);
		break;
	case CN_MEMORY_OPENED: cn_opened_memory_close(allocation->borrowed); break;
	case CN_MEMORY_PINNED:
	case CN_MEMORY_MANAGED: cn_host_pinned_free(address, allocation->facts.bytes); break;
	case CN_MEMORY_MAPPED:
	case CN_MEMORY_POOL:
	case CN_MEMORY_VARIABLE:
	case CN_MEMORY_REGISTERED:
	case CN_MEMORY_FOREIGN: break;
	}
	cn_advice_free(allocation->advice);
	free(allocation);
}

/* A handle has a random part, and a number of its own in a process. */
static struct allocation **opened_bucket(const unsigned char handle[CN_HANDLE_BYTES])
{
	uint64_t words[CN_HANDLE_BYTES / sizeof(uint64_t)];

	memcpy(words, handle, sizeof words);
	return &registry.opened[(words[CN_HANDLE_BYTES / sizeof(uint64_t) - 1] >> 8) % OPENED_BUCKETS];
}

static void unlink_opened_locked(const struct allocation *allocation)
{
	struct allocation **link = opened_bucket(allocation->handle);

	while (*link != allocation)
		link = &(*link)->opened_next;
	*link = allocation->opened_next;
}

/* The record of the memory, of one of these kinds, that begins at the address; NULL: none does. Registry locked. */
static struct allocation *find_start_locked(uint64_t address, unsigned int kinds)
{
	struct allocation *found = allocation_at(address);

	return found && found->node.start == address && (found->facts.kind & kinds) ? found : NULL;
}

CUresult cn_registry_enter_free(struct cn_home *ret_home)
{
	CUresult result = cn_enter();

	if (result || (cn_context_thread.depth && cn_context_thread.stack[cn_context_thread.depth - 1]))
		return result ? result : cn_context_enter(ret_home);
	ret_home->context = NULL;
	return CUDA_SUCCESS;
}

/* Remove the record of the memory that begins at the address: no other thread finds it now. NULL: there is none. */
static struct allocation *take_out(uint64_t address, unsigned int kinds)
{
	cn_lock(&registry.lock);
	struct allocation *allocation = find_start_locked(address, kinds);
	if (allocation)
		cn_map_remove(&registry.map, &allocation->node);
	cn_unlock(&registry.lock);
	return allocation;
}

void cn_registry_wait(const struct cn_memory *memory, const struct cn_home *current)
{
	struct cn_home home = home_of(memory);

	if (home.context && home.context != current->context)
		cn_context_drain(&home);
}

bool cn_registry_free(const struct cn_home *current, uint64_t address, unsigned int kinds)
{
	struct allocation *allocation = take_out(address, kinds);

	if (!allocation)
		return false;

	/* A failure of the work before is reported by its stream; the memory is freed all the same. */
	if (current->context)
		cn_context_drain(current);
	cn_registry_wait(&allocation->facts, current);
	give_back(allocation);
	return true;
}

void cn_registry_forget(uint64_t address, unsigned int kinds)
{
	struct allocation *allocation = take_out(address, kinds);

	if (allocation)
		give_back(allocation);
}

static void give_back_in_stream(CUstream stream, CUresult status, void *data)
{
	(void)stream;
	(void)status; /* a stream that has failed comes here, too */
	give_back(data);
}

bool cn_registry_free_in_stream(const struct cn_place *place, uint64_t address, unsigned int kinds,
				CUresult *ret_result)
{
	struct allocation *allocation = take_out(address, kinds);

	if (!allocation)
		return false;
	struct cn_operation operation = {
		.kind = CN_OPERATION_CALLBACK,
		.callback = {.function = give_back_in_stream, .data = allocation},
	};
	CUresult result = cn_stream_submit(place, &operation, NULL);
	if (result) { /* the memory is still there, and so is its place in the map */
		struct cn_home home = home_of(&allocation->facts);
		cn_lock(&registry.lock);
		bool alive = cn_home_stands(&home);
		if (alive)
			cn_map_insert(&registry.map, &allocation->node, address, allocation->node.bytes);
		cn_unlock(&registry.lock);
		if (!alive) { /* its context has ended, and did not find it */
			cn_context_drain(&home);
			give_back(allocation);
		}
	}
	*ret_result = result;
	return true;
}

void cn_registry_release(struct cn_context *context)
{
	struct allocation *removed = NULL;
	uint64_t address = 0;

	cn_lock(&registry.lock);
	for (;;) {
		struct allocation *found = allocation_from(address);
		if (!found)
			break;
		address = found->node.start + found->node.bytes;
		if (found->facts.context != context)
			continue;
		cn_map_remove(&registry.map, &found->node);
		if (found->facts.kind == CN_MEMORY_OPENED)
			unlink_opened_locked(found);
		found->next = removed;
		removed = found;
	}
	cn_unlock(&registry.lock);
	while (removed) {
		struct allocation *next = removed->next;
		give_back(removed);
		removed = next;
	}
}

bool cn_registry_find(uint64_t address, struct cn_memory *ret_memory)
{
	bool block = cn_mempool_find_memory(address, ret_memory);

	if (block && !atomic_load_explicit(&cn_mempools_advised, memory_order_relaxed))
		return true;
	cn_lock(&registry.lock);
	struct allocation *found = allocation_at(address);
	if (block)
		ret_memory->sync_memops = found && found->facts.id == ret_memory->id && found->facts.sync_memops;
	else
		*ret_memory = found ? found->facts : (struct cn_memory){.kind = CN_MEMORY_FOREIGN};
	cn_unlock(&registry.lock);
	return block || found;
}

bool cn_registry_find_from(uint64_t address, struct cn_memory *ret_memory)
{
	cn_lock(&registry.lock);
	struct allocation *found = allocation_from(address);
	if (found)
		*ret_memory = found->facts;
	cn_unlock(&registry.lock);
	return found;
}

/* Extend over the mappings that follow, as long as they touch. */
static void extend_mapping(struct cn_memory *memory, uint64_t end)
{
	struct cn_memory next;

	while (!memory->remote && memory->start + memory->bytes < end &&
	       cn_registry_find(memory->start + memory->bytes, &next) && next.kind == CN_MEMORY_MAPPED &&
	       !next.remote) {
		memory->bytes += next.bytes;
		memory->readers &= next.readers;
		memory->writers &= next.writers;
		memory->host_rights &= next.host_rights;
	}
}

CUresult cn_registry_range(uint64_t address, size_t bytes, struct cn_memory *ret_memory)
{
	struct cn_memory memory;

	if (bytes && bytes - 1 > UINT64_MAX - address)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%zu bytes at 0x%" PRIx64 " go beyond the last address",
				bytes, address);
	if (cn_registry_find(address, &memory) && memory.kind == CN_MEMORY_MAPPED)
		extend_mapping(&memory, address + bytes);
	if (memory.kind && bytes > memory.bytes - (address - memory.start))
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"%zu bytes at 0x%" PRIx64 " go past the end of the allocation at 0x%" PRIx64
				", which has %zu bytes",
				bytes, address, memory.start, memory.bytes);
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

CUresult cn_registry_add_mapping(const struct cn_memory *facts)
{
	struct allocation *allocation = calloc(1, sizeof *allocation);

	if (!allocation)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a mapping's record");
	allocation->facts = *facts;
	cn_lock(&registry.lock);
	bool entered = cn_map_insert(&registry.map, &allocation->node, facts->start, facts->bytes);
	if (entered)
		allocation->facts.id = ++registry.last_id;
	cn_unlock(&registry.lock);
	if (entered)
		return CUDA_SUCCESS;
	free(allocation);
	return cn_error(CUDA_ERROR_INVALID_VALUE, "part of the %zu bytes at 0x%" PRIx64 " is already mapped",
			facts->bytes, facts->start);
}

void cn_registry_remove_mapping(uint64_t start)
{
	free(take_out(start, CN_MEMORY_MAPPED));
}

void cn_registry_set_rights(uint64_t start, uint64_t readers, uint64_t writers, unsigned int host_rights)
{
	cn_lock(&registry.lock);
	struct allocation *allocation = find_start_locked(start, CN_MEMORY_MAPPED);
	if (allocation) {
		allocation->facts.readers = readers;
		allocation->facts.writers = writers;
		allocation->facts.host_rights = host_rights;
	}
	cn_unlock(&registry.lock);
}

/* Make a record for a block of a pool, which has none otherwise, to keep something about this block alone. */
static CUresult note_block(const struct cn_memory *block)
{
	struct allocation *allocation = calloc(1, sizeof *allocation), *stale = NULL;
	struct cn_advice *advice =
		block->managed ? cn_advice_make(block->start, block->bytes, &block->preferred) : NULL;

	if (!allocation || (block->managed && !advice)) {
		cn_advice_free(advice);
		free(allocation);
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to record a block's state");
	}
	allocation->facts = *block;
	allocation->advice = advice;
	cn_lock(&registry.lock);
	struct allocation *found = find_start_locked(block->start, CN_MEMORY_POOL);
	if (!found || found->facts.id != block->id) {
		stale = remove_stale_locked(block->start, block->bytes);
		if (cn_map_insert(&registry.map, &allocation->node, block->start, block->bytes)) {
			allocation = NULL;
			atomic_fetch_add(&cn_mempools_advised, 1);
		}
	}
	cn_unlock(&registry.lock);
	if (allocation)
		give_back(allocation);
	free_stale(stale);
	return CUDA_SUCCESS;
}

void cn_registry_forget_note(uint64_t address)
{
	cn_lock(&registry.lock);
	struct allocation *found = find_start_locked(address, CN_MEMORY_POOL);
	if (found) {
		cn_map_remove(&registry.map, &found->node);
		found->next = NULL;
	}
	cn_unlock(&registry.lock);
	free_stale(found);
}

bool cn_registry_set_sync(uint64_t address, unsigned int kinds, bool sync_memops)
{
	struct cn_memory block;

	if (kinds & CN_MEMORY_POOL && cn_mempool_find_memory(address, &block) && note_block(&block))
		return false;
	cn_lock(&registry.lock);
	struct allocation *found = allocation_at(address);
	bool settable = found && (found->facts.kind & kinds);
	if (settable)
		found->facts.sync_memops = sync_memops;
	cn_unlock(&registry.lock);
	return settable;
}

CUresult cn_registry_visit_advice(uint64_t address, size_t bytes, void (*visit)(struct cn_advice *advice, void *data),
				  void *data)
{
	struct cn_memory block;

	if (cn_mempool_find_memory(address, &block) && block.managed) {
		CUresult result = note_block(&block);
		if (result)
			return result;
	}
	cn_lock(&registry.lock);
	struct allocation *found = allocation_at(address);
	bool managed = found && cn_memory_is_managed(&found->facts) &&
		       bytes <= found->node.bytes - (address - found->node.start);
	if (managed)
		visit(found->advice, data);
	cn_unlock(&registry.lock);
	if (!managed)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "the %zu bytes at 0x%" PRIx64 " are not all managed memory",
				bytes, address);
	return CUDA_SUCCESS;
}

/* ---- Between processes ---- */

/* The device memory around an address; NULL: there is none. */
static struct allocation *find_device_locked(uint64_t address)
{
	struct allocation *found = allocation_at(address);

	return found && found->facts.kind == CN_MEMORY_DEVICE ? found : NULL;
}

/* Give memory its handle, if it has none yet and is still there. */
static CUresult attach_shared(const struct cn_memory *memory, struct cn_shared_memory *shared)
{
	struct cn_memory_part part;
	CUresult result = CUDA_SUCCESS;

	cn_lock(&registry.lock);
	struct allocation *found = find_device_locked(memory->start);
	bool there = found && found->facts.id == memory->id;
	if (there && !found->shared) {
		result = cn_host_memory_part(memory->device, (void *)(uintptr_t)memory->start, &part);
		if (!result) {
			found->shared = shared;
			shared = NULL;
		}
	}
	cn_unlock(&registry.lock);
	cn_shared_memory_discard(shared);
	if (!there)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "another thread has freed the memory");
	return result;
}

CUresult cn_registry_share(uint64_t address, unsigned char ret_handle[CN_HANDLE_BYTES])
{
	struct cn_shared_memory *shared;
	struct cn_memory memory;

	for (;;) {
		cn_lock(&registry.lock);
		const struct allocation *found = find_device_locked(address);
		bool done = found && found->shared;
		if (done)
			memcpy(ret_handle, cn_shared_memory_handle(found->shared), CN_HANDLE_BYTES);
		else if (found)
			memory = found->facts;
		cn_unlock(&registry.lock);
		if (done)
			return CUDA_SUCCESS;
		if (!found)
			return cn_error(CUDA_ERROR_INVALID_VALUE,
					"0x%" PRIx64 " is not in memory of cuMemAlloc(): only that has a handle",
					address);
		CUresult result =
			cn_shared_memory_create(memory.device, (void *)(uintptr_t)memory.start, memory.bytes, &shared);
		if (!result)
			result = attach_shared(&memory, shared);
		if (result)
			return result;
	}
}

/* The memory that a context has open by this handle, opened once more. */
static struct allocation *open_again_locked(const struct cn_home *home, const unsigned char handle[CN_HANDLE_BYTES])
{
	struct allocation *found = *opened_bucket(handle);

	while (found &&
	       (found->facts.context_life != home->life || memcmp(found->handle, handle, CN_HANDLE_BYTES) != 0))
		found = found->opened_next;
	if (found)
		found->opened_count++;
	return found;
}

bool cn_registry_open_again(const struct cn_home *home, const unsigned char handle[CN_HANDLE_BYTES],
			    uint64_t *ret_address)
{
	cn_lock(&registry.lock);
	const struct allocation *found = open_again_locked(home, handle);
	if (found)
		*ret_address = found->facts.start;
	cn_unlock(&registry.lock);
	return found;
}

CUresult cn_registry_add_opened(const struct cn_home *home, struct cn_device *device,
				const unsigned char handle[CN_HANDLE_BYTES], struct cn_opened_memory *borrowed,
				uint64_t *ret_address)
{
	const struct cn_opened_memory_facts *facts = cn_opened_memory_facts(borrowed);
	struct allocation *allocation = calloc(1, sizeof *allocation), *stale = NULL;

	if (!allocation)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of opened memory");
	allocation->facts = (struct cn_memory){
		.kind = CN_MEMORY_OPENED,
		.start = (uintptr_t)facts->address,
		.bytes = facts->bytes,
		.device = device,
		.context = home->context,
		.context_life = home->life,
		.context_handle = cn_object_handle(home->context), /* see cn_registry_add() */
		.sync_memops = true,                               /* the other process may read it at any time */
	};
	allocation->borrowed = borrowed;
	allocation->opened_count = 1;
	memcpy(allocation->handle, handle, sizeof allocation->handle);

	cn_lock(&registry.lock);
	bool alive = cn_home_stands(home);
	const struct allocation *before = alive ? open_again_locked(home, handle) : NULL;
	bool entered = false;
	if (alive && !before) {
		stale = remove_stale_locked(allocation->facts.start, facts->bytes);
		entered = cn_map_insert(&registry.map, &allocation->node, allocation->facts.start, facts->bytes);
	}
	if (entered) {
		struct allocation **bucket = opened_bucket(handle);
		allocation->opened_next = *bucket;
		*bucket = allocation;
		allocation->facts.id = ++registry.last_id;
	}
	*ret_address = before ? before->facts.start : allocation->facts.start;
	cn_unlock(&registry.lock);

	free_stale(stale);
	if (entered)
		return CUDA_SUCCESS;
	free(allocation);
	if (before) /* another thread was faster */
		cn_opened_memory_close(borrowed);
	return before ? CUDA_SUCCESS
		      : cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "another thread has destroyed the context");
}

bool cn_registry_close(uint64_t address)
{
	cn_lock(&registry.lock);
	struct allocation *found = find_start_locked(address, CN_MEMORY_OPENED);
	bool last = found && --found->opened_count == 0;
	if (last) {
		cn_map_remove(&registry.map, &found->node);
		unlink_opened_locked(found);
	}
	cn_unlock(&registry.lock);
	if (last)
		give_back(found);
	return found;
}

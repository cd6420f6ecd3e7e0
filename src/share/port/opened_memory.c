/* SPDX-License-Identifier: MIT */
/*
 * Memory that we open from others by a handle.
 *
 * Small allocations share a chunk of their device's memory, and so do their openings: a chunk is mapped once, as long
 * as something in it is open, and allocations in it are as far apart as in their own process. The other process is not
 * heard of afterwards: what is open stays as it is when that process frees the memory, or dies.
 *
 * CUDA's rule: for the memory of one device of another process, one context on each of our devices may have some open.
 * Those are a pair of devices and the context that owns it; its memory is mapped for that context alone.
 */
#include "base/container.h"
#include "share/port/port_internal.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 256 };

struct pair {
	struct pair *next;
	unsigned char port[CN_PORT_NAME_BYTES];
	int their_device;
	const struct cn_device *our_device;
	uint64_t owner; /* the context */
	unsigned users; /* chunks */
};

struct chunk {
	struct chunk *next;
	struct pair *pair;
	uint64_t number;
	struct cn_view *view;
	char *base;
	size_t bytes;
	unsigned users; /* openings in it */
};

struct cn_opened_memory {
	struct cn_peer_claim *claim;
	struct chunk *chunk;
	struct cn_opened_memory_facts facts;
};

static struct {
	CN_LOCK(OPENED_MEMORY) lock; /* guards all that is in here, and the counts of users */
	struct pair *pairs;
	struct chunk *chunks[BUCKETS];
} opened;

/* ---- Questions ---- */

static bool is_answer(const struct cn_message *reply)
{
	const uint64_t *words = reply->words;

	return words[CN_SHARED_MEMORY_BYTES] && words[CN_SHARED_MEMORY_OFFSET] < words[CN_SHARED_MEMORY_CHUNK_BYTES] &&
	       words[CN_SHARED_MEMORY_BYTES] <= words[CN_SHARED_MEMORY_CHUNK_BYTES] - words[CN_SHARED_MEMORY_OFFSET] &&
	       words[CN_SHARED_MEMORY_DEVICE] <= INT32_MAX;
}

static CUresult refuse_freed(void)
{
	return cn_error(CUDA_ERROR_INVALID_VALUE, "the handle's process has freed the memory");
}

static const struct cn_remote_kind kind = {
	.handle = CN_HANDLE_MEMORY,
	.open = CN_MESSAGE_MEMORY,
	.close = CN_MESSAGE_MEMORY_CLOSED,
	.is_answer = is_answer,
	.failed = CUDA_ERROR_MAP_FAILED,
	.name = "memory",
	.refuse_freed = refuse_freed,
};

/* ---- Chunks ---- */

/* What to open, and for which context. */
struct wish {
	const unsigned char *port;
	uint64_t owner;
	const struct cn_device *our_device;
	const struct cn_parcel *reply;
};

static uint64_t word_of(const struct wish *wish, enum cn_shared_memory_word word)
{
	return wish->reply->message.words[word];
}

static struct pair *find_pair_locked(const struct wish *wish)
{
	struct pair *pair = opened.pairs;

	while (pair && (pair->our_device != wish->our_device ||
			pair->their_device != (int)word_of(wish, CN_SHARED_MEMORY_DEVICE) ||
			memcmp(pair->port, wish->port, sizeof pair->port) != 0))
		pair = pair->next;
	return pair;
}

/*
 * Take the chunk, with one more user; NULL: it is not mapped. CUDA_ERROR_INVALID_HANDLE: another context owns the pair.
 * CUDA_ERROR_MAP_FAILED: the peer now says another size than before, so what it says of the memory in the chunk does
 * not fit what is mapped.
 */
static CUresult take_chunk_locked(const struct wish *wish, struct chunk **ret_chunk)
{
	const struct pair *pair = find_pair_locked(wish);
	uint64_t number = word_of(wish, CN_SHARED_MEMORY_CHUNK);
	struct chunk *chunk = pair ? opened.chunks[number % BUCKETS] : NULL;

	if (pair && pair->owner != wish->owner)
		return CUDA_ERROR_INVALID_HANDLE;
	while (chunk && (chunk->pair != pair || chunk->number != number))
		chunk = chunk->next;
	if (chunk && chunk->bytes != word_of(wish, CN_SHARED_MEMORY_CHUNK_BYTES))
		return CUDA_ERROR_MAP_FAILED;
	if (chunk)
		chunk->users++;
	*ret_chunk = chunk;
	return CUDA_SUCCESS;
}

static void enter_chunk_locked(const struct wish *wish, struct chunk *chunk, struct pair *fresh)
{
	struct pair *pair = find_pair_locked(wish);

	if (!pair) {
		pair = fresh;
		pair->next = opened.pairs;
		opened.pairs = pair;
	}
	pair->users++;
	chunk->pair = pair;
	chunk->users = 1;
	chunk->next = opened.chunks[chunk->number % BUCKETS];
	opened.chunks[chunk->number % BUCKETS] = chunk;
}

/* Map a chunk that no other thread knows yet. */
static CUresult map_chunk(const struct wish *wish, struct chunk *ret_chunk)
{
	struct cn_arena_part part = {
		.offset = 0,
		.bytes = word_of(wish, CN_SHARED_MEMORY_CHUNK_BYTES),
		.fd = wish->reply->descriptors[0],
	};
	struct chunk chunk = {.number = word_of(wish, CN_SHARED_MEMORY_CHUNK), .bytes = part.bytes};
	void *base;

	if (part.bytes % CN_GRANULARITY_BYTES)
		return cn_error(CUDA_ERROR_MAP_FAILED,
				"the handle's process sent something other than memory of a device");
	if (cn_device_ops->view_create(part.bytes, CN_GRANULARITY_BYTES, &chunk.view, &base))
		return cn_error(CUDA_ERROR_MAP_FAILED, "not enough address space to map %zu bytes", part.bytes);
	CUresult result = cn_device_ops->view_map(chunk.view, &part);
	if (result) {
		cn_device_ops->view_free(chunk.view);
		return cn_error(CUDA_ERROR_MAP_FAILED, "%s",
				result == CUDA_ERROR_INVALID_VALUE
					? "the handle's process sent something other than memory of a device"
					: "the memory could not be mapped: the system has no room for it");
	}
	chunk.base = base;
	*ret_chunk = chunk;
	return CUDA_SUCCESS;
}

/* Explain why the chunk could not be taken. */
static CUresult explain_taking(CUresult result)
{
	if (result == CUDA_ERROR_MAP_FAILED)
		return cn_error(CUDA_ERROR_MAP_FAILED,
				"the handle's process gives another size for memory that is already open");
	return cn_error(CUDA_ERROR_INVALID_HANDLE, "another context of this device has opened memory of the handle's "
						   "process, and only one context may");
}

/* The chunk of the wish; maps it if it is not mapped yet. */
static CUresult open_chunk(const struct wish *wish, struct chunk **ret_chunk)
{
	struct chunk *chunk = NULL, *fresh;
	struct pair *pair;

	cn_lock(&opened.lock);
	CUresult result = take_chunk_locked(wish, &chunk);
	cn_unlock(&opened.lock);
	if (result)
		return explain_taking(result);
	*ret_chunk = chunk;
	if (chunk)
		return CUDA_SUCCESS;
	fresh = calloc(1, sizeof *fresh);
	pair = calloc(1, sizeof *pair);
	if (!fresh || !pair)
		result = cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for the record of opened memory");
	else
		result = map_chunk(wish, fresh);
	if (result)
		goto err_free;
	memcpy(pair->port, wish->port, sizeof pair->port);
	pair->their_device = (int)word_of(wish, CN_SHARED_MEMORY_DEVICE);
	pair->our_device = wish->our_device;
	pair->owner = wish->owner;
	cn_lock(&opened.lock);
	result = take_chunk_locked(wish, &chunk); /* another thread may have been faster */
	bool entered = !result && !chunk;
	if (entered)
		enter_chunk_locked(wish, fresh, pair);
	bool used = entered && fresh->pair == pair;
	cn_unlock(&opened.lock);
	if (!used)
		free(pair);
	*ret_chunk = entered ? fresh : chunk;
	if (!entered) {
		cn_device_ops->view_free(fresh->view);
		free(fresh);
	}
	return result ? explain_taking(result) : CUDA_SUCCESS;

err_free:
	free(pair);
	free(fresh);
	return result;
}

static void close_chunk(struct chunk *chunk)
{
	struct pair *pair = NULL;

	cn_lock(&opened.lock);
	bool last = --chunk->users == 0;
	if (last) {
		struct chunk **link = &opened.chunks[chunk->number % BUCKETS];
		while (*link != chunk)
			link = &(*link)->next;
		*link = chunk->next;
		if (--chunk->pair->users == 0) {
			struct pair **pair_link = &opened.pairs;
			while (*pair_link != chunk->pair)
				pair_link = &(*pair_link)->next;
			pair = chunk->pair;
			*pair_link = pair->next;
		}
	}
	cn_unlock(&opened.lock);
	if (!last)
		return;
	cn_device_ops->view_free(chunk->view);
	free(pair);
	free(chunk);
}

/* ---- What the driver calls ---- */

static CUresult open_memory(const struct cn_handle *handle, uint64_t owner, const struct cn_device *device,
			    struct cn_opened_memory *ret_memory)
{
	struct cn_opened_memory memory;
	struct cn_parcel reply;
	struct wish wish = {.port = handle->port, .owner = owner, .our_device = device, .reply = &reply};

	CUresult result = cn_remote_ask(handle, &kind, &memory.claim, &reply);
	if (result)
		return result;
	result = open_chunk(&wish, &memory.chunk);
	cn_wire_close(&reply);
	cn_fork_allow();
	if (result) {
		cn_peer_give_back(memory.claim);
		return result;
	}
	memory.facts = (struct cn_opened_memory_facts){
		.address = memory.chunk->base + word_of(&wish, CN_SHARED_MEMORY_OFFSET),
		.bytes = word_of(&wish, CN_SHARED_MEMORY_BYTES),
		.device = (int)word_of(&wish, CN_SHARED_MEMORY_DEVICE),
	};
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

CUresult cn_opened_memory_open(const unsigned char bytes[CN_HANDLE_BYTES], const struct cn_device *device,
			       uint64_t owner, struct cn_opened_memory **ret_memory)
{
	struct cn_handle handle;
	CUresult result = cn_handle_read(bytes, CN_HANDLE_MEMORY, &handle);

	if (!result)
		result = cn_service_start();
	if (result)
		return result;
	if (cn_port_is_own(handle.port))
		return cn_error(CUDA_ERROR_INVALID_CONTEXT,
				"the handle's memory belongs to this process: use its address");
	struct cn_opened_memory *memory = calloc(1, sizeof *memory);
	if (!memory)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for the record of opened memory");
	result = open_memory(&handle, owner, device, memory);
	if (result) {
		free(memory);
		return result;
	}
	cn_port_opened(CN_HANDLE_MEMORY, memory->facts.bytes);
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

const struct cn_opened_memory_facts *cn_opened_memory_facts(const struct cn_opened_memory *memory)
{
	return &memory->facts;
}

void cn_opened_memory_close(struct cn_opened_memory *memory)
{
	cn_port_closed(CN_HANDLE_MEMORY, memory->facts.bytes);
	close_chunk(memory->chunk);
	cn_peer_give_back(memory->claim);
	free(memory);
}

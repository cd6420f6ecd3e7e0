/* SPDX-License-Identifier: MIT */
/*
 * Memory that others open from us by a handle: lent, and given back to the device when no process has it open.
 *
 * The program may free its memory at any time. While another process has it open, the device is not told: the openers
 * keep what they have, and the memory goes back with the last opening, which is closed or whose process is gone. The
 * end of a connection does not end an opening, since its process may live on with the memory mapped; see port.c.
 */
#include "base/container.h"
#include "device/host/host_memory.h"
#include "share/port/port_internal.h"

#include <stdlib.h>
#include <string.h>

struct cn_shared_memory {
	struct cn_port_object object;
	struct cn_device *device;
	void *address;
	size_t bytes;
	unsigned char handle[CN_HANDLE_BYTES];
};

static void give_back(struct cn_port_object *object)
{
	struct cn_shared_memory *memory = cn_container_of(object, struct cn_shared_memory, object);

	cn_host_memory_free(memory->address);
	free(memory);
}

static CUresult serve(struct cn_port_object *object, struct cn_parcel *ret_reply)
{
	const struct cn_shared_memory *memory = cn_container_of(object, struct cn_shared_memory, object);
	uint64_t *words = ret_reply->message.words;
	struct cn_memory_part part;
	CUresult result = cn_host_memory_lend(memory->device, memory->address, &part);

	if (result)
		return result;
	words[CN_SHARED_MEMORY_CHUNK] = part.chunk;
	words[CN_SHARED_MEMORY_CHUNK_BYTES] = part.chunk_bytes;
	words[CN_SHARED_MEMORY_OFFSET] = part.offset;
	words[CN_SHARED_MEMORY_BYTES] = memory->bytes;
	words[CN_SHARED_MEMORY_DEVICE] = (uint64_t)memory->device->physical;
	ret_reply->descriptors[0] = part.fd;
	return CUDA_SUCCESS;
}

static const struct cn_port_object_ops ops = {.serve = serve, .keeps_descriptor = true, .free = give_back};

CUresult cn_shared_memory_create(struct cn_device *device, void *address, size_t bytes,
				 struct cn_shared_memory **ret_memory)
{
	struct cn_shared_memory *memory = calloc(1, sizeof *memory);

	if (!memory)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for the record of shared memory");
	memory->device = device;
	memory->address = address;
	memory->bytes = bytes;
	memory->object.bytes = bytes;
	CUresult result = cn_port_object_publish(&memory->object, CN_HANDLE_MEMORY, &ops);
	if (result) {
		free(memory);
		return result;
	}
	cn_port_object_write(&memory->object, memory->handle);
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

const unsigned char *cn_shared_memory_handle(const struct cn_shared_memory *memory)
{
	return memory->handle;
}

void cn_shared_memory_discard(struct cn_shared_memory *memory)
{
	if (memory && cn_port_object_withdraw(&memory->object))
		free(memory);
}

void cn_shared_memory_free(struct cn_shared_memory *memory)
{
	if (cn_port_object_withdraw(&memory->object))
		give_back(&memory->object);
}

/* SPDX-License-Identifier: MIT */
/*
 * Memory that others open from us by a handle: lent out, and given back when nobody has it any more.
 *
 * The program frees its memory whenever it likes. While somebody has it open, the device is not told: they keep what
 * they have, and the memory goes back with the last opening, which is closed or whose process is gone. The end of a
 * connection is no end of an opening, for its process may live on with the memory mapped; see port.c.
 */
#include "base/container.h"
#include "device/host/host_memory.h"
#include "share/port/port_internal.h"

#include <stdlib.h>
#include <string.h>

struct cn_shared_memory {
	struct cn_origin origin;
	struct cn_device *device;
	void *address;
	size_t bytes;
	unsigned char handle[CN_HANDLE_BYTES];
};

CUresult cn_shared_memory_create(struct cn_device *device, void *address, size_t bytes,
				 struct cn_shared_memory **ret_memory)
{
	struct cn_shared_memory *memory = calloc(1, sizeof *memory);

	if (!memory)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for the record of shared memory");
	memory->device = device;
	memory->address = address;
	memory->bytes = bytes;
	memory->origin.bytes = bytes;
	CUresult result = cn_origin_publish(&memory->origin, CN_HANDLE_MEMORY);
	if (result) {
		free(memory);
		return result;
	}
	cn_origin_write(&memory->origin, memory->handle);
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

const unsigned char *cn_shared_memory_handle(const struct cn_shared_memory *memory)
{
	return memory->handle;
}

void cn_shared_memory_discard(struct cn_shared_memory *memory)
{
	if (memory && cn_origin_withdraw(&memory->origin))
		free(memory);
}

static void give_back(struct cn_shared_memory *memory)
{
	cn_host_memory_free(memory->device, memory->address);
	free(memory);
}

void cn_shared_memory_free(struct cn_shared_memory *memory)
{
	if (cn_origin_withdraw(&memory->origin))
		give_back(memory);
}

/* ---- On the service thread ---- */

bool cn_shared_memory_serve(struct cn_caller *caller, const struct cn_message *request, struct cn_parcel *ret_reply)
{
	struct cn_opening *opening;
	struct cn_memory_part part;
	CUresult result = cn_opening_begin(caller, CN_HANDLE_MEMORY, request, &opening);

	if (!result) {
		const struct cn_shared_memory *memory = (const struct cn_shared_memory *)opening->origin;
		result = cn_host_memory_part(memory->device, memory->address, &part);
		if (result) {
			cn_shared_memory_returned(caller, opening);
		} else {
			uint64_t *words = ret_reply->message.words;
			words[CN_LOAN_CHUNK] = part.chunk;
			words[CN_LOAN_CHUNK_BYTES] = part.chunk_bytes;
			words[CN_LOAN_OFFSET] = part.offset;
			words[CN_LOAN_BYTES] = memory->bytes;
			words[CN_LOAN_DEVICE] = (uint64_t)memory->device->physical;
			ret_reply->descriptors[0] = part.fd; /* not closed by who sends it: it is the device's */
			ret_reply->descriptor_count = 1;
		}
	}
	ret_reply->message.result = (int32_t)result;
	return result != CUDA_ERROR_NOT_PERMITTED;
}

void cn_shared_memory_returned(struct cn_caller *caller, struct cn_opening *opening)
{
	struct cn_shared_memory *memory = cn_container_of(opening->origin, struct cn_shared_memory, origin);

	if (cn_opening_end(caller, opening))
		give_back(memory);
}

/* SPDX-License-Identifier: MIT */
/*
 * Handles of 64 bytes, changed on the way: legacy memory, events, fabric memory and pools.
 *
 * They start as true ones of fake processes (port.h) and of this process itself, or as any bytes; the script changes
 * bits and fields, with the check put right or not, and opens them as what they are or as something else.
 */
#include "port.h"

#include <string.h>
#include <unistd.h>

enum { TRIES_MAX = 4, OWN = 4, OWN_KINDS = 3 };

static unsigned char own[OWN][CN_HANDLE_BYTES];

void fuzz_prepare(void)
{
	CUmemPoolProps pool_properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUmemGenericAllocationHandle physical;
	CUdeviceptr memory;
	CUmemoryPool pool;
	CUevent event;

	fuzz_start();
	FUZZ_OK(cuMemAlloc(&memory, 4096));
	FUZZ_OK(cuIpcGetMemHandle((CUipcMemHandle *)own[0], memory));
	FUZZ_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	FUZZ_OK(cuIpcGetEventHandle((CUipcEventHandle *)own[1], event));
	FUZZ_OK(cuMemCreate(&physical, 2 << 20, &properties, 0));
	FUZZ_OK(cuMemExportToShareableHandle(own[2], physical, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	FUZZ_OK(cuMemPoolCreate(&pool, &pool_properties));
	FUZZ_OK(cuMemPoolExportToShareableHandle(own[3], pool, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	fuzz_port_start();
}

static void change(struct cn_handle *handle, struct fuzz_input *input)
{
	unsigned how = fuzz_byte(input), at;

	switch (how % 8) {
	case 0:
	case 1:
		at = fuzz_byte(input);
		((unsigned char *)handle)[at % sizeof *handle] ^= (unsigned char)(1 << how / 32);
		break;
	case 2: handle->number = fuzz_number(input); break;
	case 3: handle->node = (uint32_t)fuzz_number(input); break;
	case 4: handle->channel = (int32_t)fuzz_number(input); break;
	case 5: handle->kind = (uint16_t)fuzz_below(input, 8); break;
	case 6: fuzz_bytes(input, how & 8 ? handle->port : handle->secret, sizeof handle->port); break;
	default:
		if (how & 8)
			handle->magic = (uint32_t)fuzz_number(input);
		else
			handle->version = (uint16_t)fuzz_number(input);
	}
}

static void try_one(struct fuzz_input *input)
{
	unsigned how = fuzz_byte(input), more = fuzz_byte(input), changes = more % 4;
	struct cn_handle handle = fuzz_handle((enum cn_handle_kind)(1 + how % 4), 1 + how / 4 % 4);

	if (how & 16)
		memcpy(&handle, own[how % OWN], sizeof handle);
	while (changes--)
		change(&handle, input);
	if (more & 4)
		fuzz_bytes(input, &handle, sizeof handle);
	if (more & 8)
		fuzz_handle_seal(&handle);
	switch (how & 32 ? more / 16 % 4 : how % 4) {
	case 0: fuzz_open_memory(&handle); break;
	case 1: fuzz_open_event(&handle); break;
	case 2: fuzz_open_fabric_memory(&handle); break;
	default: fuzz_open_fabric_pool(&handle); break;
	}
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};

	for (int i = 0; i < TRIES_MAX && input.left; i++)
		try_one(&input);
	fuzz_port_end();
}

/* SPDX-License-Identifier: MIT */
/*
 * Questions about memory: the attributes of a pointer, and rights.
 *
 * The answers follow from the facts alone. cuPointerGetAttribute() refuses what does not apply;
 * cuPointerGetAttributes() answers it with a default, since programs use it to find out whether an address is CUDA's at
 * all.
 */
#include "driver/common/memory.h"

#include "base/guard.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

enum {
	DEVICE_MAPPING_BYTES = 2 * 1024 * 1024, /* device memory is mapped in multiples of this */
	POOL_MAPPING_BYTES = 32 * 1024 * 1024,  /* and a pool's */
	RIGHTS_KINDS = CN_MEMORY_MAPPED | CN_MEMORY_POOL,
};

struct answer {
	CUresult result;    /* of asking for this attribute alone; the value is written all the same */
	unsigned int bytes; /* the width of the attribute's type; 0: nothing is written */
	uint64_t value[2];
};

static struct answer narrow(int value)
{
	return (struct answer){.bytes = sizeof value, .value = {(unsigned int)value}};
}

static struct answer wide(uint64_t value)
{
	return (struct answer){.bytes = sizeof value, .value = {value}};
}

static struct answer refused(CUresult result, struct answer answer)
{
	answer.result = result;
	return answer;
}

static uint64_t mapping_unit(const struct cn_memory *memory)
{
	if (memory->kind == CN_MEMORY_POOL)
		return POOL_MAPPING_BYTES;
	return memory->kind & (CN_MEMORY_DEVICE | CN_MEMORY_OPENED) ? DEVICE_MAPPING_BYTES
								    : (uint64_t)sysconf(_SC_PAGESIZE);
}

/* How the memory is mapped: with its neighbours, in larger pieces. */
static uint64_t mapping_start(const struct cn_memory *memory)
{
	if (memory->kind == CN_MEMORY_MAPPED)
		return memory->start;
	uint64_t unit = mapping_unit(memory);

	return memory->start / unit * unit;
}

static uint64_t mapping_bytes(const struct cn_memory *memory)
{
	if (memory->kind == CN_MEMORY_MAPPED)
		return memory->bytes;
	uint64_t unit = mapping_unit(memory);
	uint64_t end = (memory->start + memory->bytes + unit - 1) / unit * unit;

	return end - mapping_start(memory);
}

/* May the current context use it? It may use another device's memory only as a peer. */
static bool is_within_reach(const struct cn_memory *memory, const struct cn_memory_asker *asker)
{
	if (memory->kind & RIGHTS_KINDS)
		return !asker->device || cn_memory_allows(memory, asker->device, false);
	return !asker->device || !cn_memory_is_device(memory) || asker->device == memory->device ||
	       asker->peers >> memory->device->ordinal & 1;
}

/* CU_POINTER_ATTRIBUTE_ACCESS_FLAG_… of the current context; without one, of the device whose memory it is. */
static int access_flags(const struct cn_memory *memory, const struct cn_memory_asker *asker)
{
	const struct cn_device *device = asker->device ? asker->device : memory->device;

	if (memory->kind == CN_MEMORY_POOL && memory->on_host)
		return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE; /* the host's own: as the driver answers */
	if (memory->kind & RIGHTS_KINDS && device) {
		if (cn_memory_allows(memory, device, true))
			return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
		return cn_memory_allows(memory, device, false) ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
							       : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
	}
	return is_within_reach(memory, asker) ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
					      : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

bool cn_memory_has_tokens(const struct cn_memory *memory)
{
	return memory->kind & CN_MEMORY_TOKEN_KINDS && !(memory->kind & RIGHTS_KINDS && memory->on_host);
}

/* Can cuIpcGetMemHandle() share it? */
static bool has_handle(const struct cn_memory *memory)
{
	int supported = 0;

	return memory->kind == CN_MEMORY_DEVICE &&
	       !cn_device_ops->attribute(memory->device, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, &supported) &&
	       supported;
}

/* For memory that the registry knows. */
static struct answer answer_known(const struct cn_memory *memory, const struct cn_memory_asker *asker,
				  CUpointer_attribute attribute, uint64_t pointer)
{
	bool host = cn_memory_is_host(memory), managed = cn_memory_is_managed(memory);
	bool mapped = memory->kind == CN_MEMORY_MAPPED;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT: return wide(memory->context_handle);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return narrow(host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		if (!asker->device)
			return refused(CUDA_ERROR_INVALID_CONTEXT, wide(0));
		return is_within_reach(memory, asker) ? wide(pointer) : refused(CUDA_ERROR_INVALID_VALUE, wide(0));
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return (host && !mapped) || managed ? wide(pointer) : refused(CUDA_ERROR_INVALID_VALUE, wide(0));
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS: /* for a kernel module that does not exist */
		return (struct answer){.result = cn_memory_has_tokens(memory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
				       .bytes = sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS)};
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return narrow(memory->sync_memops);
	case CU_POINTER_ATTRIBUTE_BUFFER_ID: return wide(memory->id);
	case CU_POINTER_ATTRIBUTE_IS_MANAGED: return narrow(managed);
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return narrow(memory->device ? memory->device->ordinal : 0);
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		if (memory->kind == CN_MEMORY_POOL && !is_within_reach(memory, asker))
			return wide(0);
		return wide(mapped ? memory->reservation_start : memory->start);
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return wide(mapped ? memory->reservation_bytes : memory->bytes);
	case CU_POINTER_ATTRIBUTE_MAPPED: return narrow(1);
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return narrow(access_flags(memory, asker));
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return wide(mapping_bytes(memory));
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return wide(mapping_start(memory));
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return wide(memory->id);
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return wide(memory->handle_types);
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return wide(memory->pool);
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return narrow(has_handle(memory));
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return narrow(0);
	}
	return refused(CUDA_ERROR_INVALID_VALUE, (struct answer){0});
}

/* For memory that was neither allocated nor registered: what cuPointerGetAttributes() says of it. */
static struct answer answer_foreign(CUpointer_attribute attribute, uint64_t pointer)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_HOST_POINTER: return wide(pointer);
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return narrow(CU_DEVICE_INVALID);
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return (struct answer){0};
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return wide(0);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return narrow(0);
	}
	return (struct answer){0};
}

static struct answer find_answer(const struct cn_memory *memory, const struct cn_memory_asker *asker,
				 CUpointer_attribute attribute, uint64_t pointer)
{
	return memory->kind == CN_MEMORY_FOREIGN ? answer_foreign(attribute, pointer)
						 : answer_known(memory, asker, attribute, pointer);
}

CUresult cn_memory_check_attribute(CUpointer_attribute attribute, const void *ret_data)
{
	if (!ret_data)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "data is NULL, for attribute %d", (int)attribute);
	if ((int)attribute < CU_POINTER_ATTRIBUTE_CONTEXT ||
	    (int)attribute > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%d is not an attribute of a pointer", (int)attribute);
	return CUDA_SUCCESS;
}

CUresult cn_memory_check_attributes(unsigned int count, const CUpointer_attribute *attributes, void *const *ret_data)
{
	CUresult result = CUDA_SUCCESS;

	if (!count || !attributes || !ret_data)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s",
				!attributes ? "attributes is NULL"
				: !ret_data ? "data is NULL"
					    : "numAttributes is 0");
	for (unsigned int i = 0; i < count && !result; i++)
		result = cn_memory_check_attribute(attributes[i], ret_data[i]);
	return result;
}

CUresult cn_memory_get_attribute(const struct cn_memory *memory, const struct cn_memory_asker *asker,
				 CUpointer_attribute attribute, CUdeviceptr pointer, void *ret_data)
{
	if (memory->kind == CN_MEMORY_FOREIGN)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx was neither allocated nor registered", pointer);
	struct answer answer = answer_known(memory, asker, attribute, pointer);
	if (!cn_guard_check_write(ret_data, answer.bytes, "data"))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(ret_data, answer.value, answer.bytes);
	if (answer.result == CUDA_ERROR_INVALID_CONTEXT)
		return cn_error(answer.result, "no context is current in this thread");
	if (answer.result)
		return cn_error(answer.result, "the memory at 0x%llx does not have attribute %d", pointer,
				(int)attribute);
	return CUDA_SUCCESS;
}

CUresult cn_memory_get_attributes(const struct cn_memory *memory, const struct cn_memory_asker *asker,
				  unsigned int count, const CUpointer_attribute *attributes, CUdeviceptr pointer,
				  void **ret_data)
{
	for (unsigned int i = 0; i < count; i++) {
		struct answer answer = find_answer(memory, asker, attributes[i], pointer);
		if (!cn_guard_check_write(ret_data[i], answer.bytes, "an address in data"))
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(ret_data[i], answer.value, answer.bytes);
	}
	return CUDA_SUCCESS;
}

CUresult cn_memory_set_attribute(const struct cn_memory *memory, CUpointer_attribute attribute, CUdeviceptr pointer,
				 const void *value, bool (*set)(uint64_t address, unsigned int kinds, bool on))
{
	unsigned int on;

	if (!value)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "value is NULL");
	if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "attribute %d cannot be set", (int)attribute);
	memcpy(&on, value, sizeof on);
	if (memory->imported && on)
		return CUDA_SUCCESS; /* it is always set */
	if (memory->kind & RIGHTS_KINDS)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "%s has no such attribute to set",
				memory->kind == CN_MEMORY_POOL ? "memory of a pool" : "mapped memory");
	if (!set(pointer, CN_MEMORY_TOKEN_KINDS, on))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx is not in device memory", pointer);
	return CUDA_SUCCESS;
}

/* ---- Rights, and handles ---- */

CUresult cn_memory_get_access(const struct cn_memory *memory, const CUmemLocation *location, CUdeviceptr address,
			      unsigned long long *ret_flags)
{
	if (!ret_flags || !location || !address)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL",
				!ret_flags  ? "flags"
				: !location ? "location"
					    : "ptr");
	if (!cn_memory_location_is_host(*location) &&
	    (location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0 || location->id >= cn_devices_count))
		return cn_error(CUDA_ERROR_INVALID_DEVICE, "there is no location of type %d with id %d",
				(int)location->type, location->id);
	*ret_flags = 0; /* as the driver does, also for what is not memory */
	if (memory->kind == CN_MEMORY_FOREIGN)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "nothing is mapped at 0x%llx", address);
	if (memory->kind != CN_MEMORY_MAPPED)
		return CUDA_SUCCESS;
	if (cn_memory_location_is_host(*location))
		*ret_flags = memory->host_rights;
	else if (memory->writers >> location->id & 1)
		*ret_flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	else if (memory->readers >> location->id & 1)
		*ret_flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	return CUDA_SUCCESS;
}

CUresult cn_memory_refuse_no_handle(CUmemAllocationHandleType type, const char *name)
{
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s is NULL", name);
	return cn_error(CUDA_ERROR_INVALID_VALUE,
			"%s is 0, which CUDA does not accept as a descriptor: duplicate it with fcntl(0, F_DUPFD, 3)",
			name);
}

CUresult cn_memory_refuse_descriptor(const void *shareable)
{
	if ((intptr_t)shareable > INT_MAX || (intptr_t)shareable < INT_MIN)
		return cn_error(CUDA_ERROR_UNKNOWN,
				"%p is not a descriptor: pass the number, (void *)(uintptr_t)fd, not its address",
				shareable);
	return cn_error(CUDA_ERROR_UNKNOWN, "descriptor %d is not open", (int)(uintptr_t)shareable);
}

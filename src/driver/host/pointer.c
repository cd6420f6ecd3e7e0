/* SPDX-License-Identifier: MIT */
/*
 * What a pointer is: the attributes of the memory at an address.
 *
 * The answers follow from the registry's facts alone. cuPointerGetAttribute() refuses what does not apply;
 * cuPointerGetAttributes() answers it with a default, since it is how programs find out whether an address is CUDA's at
 * all.
 */
#include "base/guard.h"
#include "device/cuda/cuda_library.h"
#include "driver/gpu/gpu.h"
#include "driver/host/memory.h"

#include <string.h>
#include <unistd.h>

enum {
	DEVICE_MAPPING_BYTES = 2 * 1024 * 1024, /* device memory is mapped in multiples of this */
	POOL_MAPPING_BYTES = 32 * 1024 * 1024,  /* and a pool's */
	TOKEN_KINDS = CN_MEMORY_DEVICE | CN_MEMORY_MANAGED | CN_MEMORY_VARIABLE | CN_MEMORY_MAPPED | CN_MEMORY_POOL |
		      CN_MEMORY_OPENED,
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

/* The context that is current to this thread; NULL: none, or that of a GPU. */
static struct cn_context *current_context(void)
{
	uint64_t handle = cn_context_thread.depth ? cn_context_thread.stack[cn_context_thread.depth - 1] : 0;

	return cn_table_find(&cn_contexts, (void *)(uintptr_t)handle);
}

/* Whose the current context is; NULL: none is current. */
static const struct cn_device *current_device(void)
{
	struct cn_context *context = current_context();
	CUdevice device;

	if (cn_on_gpu)
		return cn_cuda.cuCtxGetDevice(&device) ? NULL : &cn_devices[device];
	return context ? context->device : NULL;
}

/* May the current context use it? Another device's memory only as a peer. */
static bool is_within_reach(const struct cn_memory *memory)
{
	const struct cn_device *device = current_device();

	if (memory->kind & RIGHTS_KINDS)
		return !device || cn_memory_allows(memory, device, false);
	return !device || !cn_memory_is_device(memory) || device == memory->device ||
	       atomic_load(&current_context()->peers) >> memory->device->ordinal & 1;
}

/* CU_POINTER_ATTRIBUTE_ACCESS_FLAG_… of the current context; without one, of the device whose memory it is. */
static int access_flags(const struct cn_memory *memory)
{
	const struct cn_device *current = current_device(), *device = current ? current : memory->device;

	if (memory->kind == CN_MEMORY_POOL && memory->on_host)
		return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE; /* the host's own: the driver means that */
	if (memory->kind & RIGHTS_KINDS && device) {
		if (cn_memory_allows(memory, device, true))
			return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
		return cn_memory_allows(memory, device, false) ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
							       : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
	}
	return is_within_reach(memory) ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
				       : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

static bool has_tokens(const struct cn_memory *memory)
{
	return memory->kind & TOKEN_KINDS && !(memory->kind & RIGHTS_KINDS && memory->on_host);
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
static struct answer answer_known(const struct cn_memory *memory, CUpointer_attribute attribute, uint64_t pointer)
{
	bool host = cn_memory_is_host(memory), managed = cn_memory_is_managed(memory);
	bool mapped = memory->kind == CN_MEMORY_MAPPED;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT: return wide(memory->context_handle);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return narrow(host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		if (!current_device())
			return refused(CUDA_ERROR_INVALID_CONTEXT, wide(0));
		return is_within_reach(memory) ? wide(pointer) : refused(CUDA_ERROR_INVALID_VALUE, wide(0));
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return (host && !mapped) || managed ? wide(pointer) : refused(CUDA_ERROR_INVALID_VALUE, wide(0));
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS: /* for a kernel module that does not exist */
		return (struct answer){.result = has_tokens(memory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
				       .bytes = sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS)};
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return narrow(memory->sync_memops);
	case CU_POINTER_ATTRIBUTE_BUFFER_ID: return wide(memory->id);
	case CU_POINTER_ATTRIBUTE_IS_MANAGED: return narrow(managed);
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return narrow(memory->device ? memory->device->ordinal : 0);
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		if (memory->kind == CN_MEMORY_POOL && !is_within_reach(memory))
			return wide(0);
		return wide(mapped ? memory->reservation_start : memory->start);
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return wide(mapped ? memory->reservation_bytes : memory->bytes);
	case CU_POINTER_ATTRIBUTE_MAPPED: return narrow(1);
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return narrow(access_flags(memory));
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

/* For memory that nobody allocated or registered: what cuPointerGetAttributes() says of it. */
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

static struct answer find_answer(const struct cn_memory *memory, CUpointer_attribute attribute, uint64_t pointer)
{
	if (memory->kind == CN_MEMORY_FOREIGN)
		return answer_foreign(attribute, pointer);
	/* Who asks for tokens will let another device look at the memory at any time. */
	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS && has_tokens(memory))
		cn_memory_set_sync(pointer, TOKEN_KINDS, true);
	return answer_known(memory, attribute, pointer);
}

static CUresult check_attribute(CUpointer_attribute attribute, const void *ret_data)
{
	if (!ret_data)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "data is NULL, for attribute %d", (int)attribute);
	if ((int)attribute < CU_POINTER_ATTRIBUTE_CONTEXT ||
	    (int)attribute > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%d is not an attribute of a pointer", (int)attribute);
	return CUDA_SUCCESS;
}

CUresult own_cuPointerGetAttribute(void *ret_data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	struct cn_memory memory;
	CUresult result = cn_enter();

	if (!result)
		result = check_attribute(attribute, ret_data);
	if (result)
		return result;
	if (!cn_memory_find(pointer, &memory))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx was neither allocated nor registered", pointer);
	struct answer answer = find_answer(&memory, attribute, pointer);
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

CUresult own_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **ret_data,
				    CUdeviceptr pointer)
{
	struct cn_memory memory;
	CUresult result = cn_enter();

	if (result)
		return result;
	if (!count || !attributes || !ret_data)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%s",
				!attributes ? "attributes is NULL"
				: !ret_data ? "data is NULL"
					    : "numAttributes is 0");
	for (unsigned int i = 0; i < count && !result; i++)
		result = check_attribute(attributes[i], ret_data[i]);
	if (result)
		return result;
	cn_memory_find(pointer, &memory);
	for (unsigned int i = 0; i < count; i++) {
		struct answer answer = find_answer(&memory, attributes[i], pointer);
		if (!cn_guard_check_write(ret_data[i], answer.bytes, "an address in data"))
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(ret_data[i], answer.value, answer.bytes);
	}
	return CUDA_SUCCESS;
}

CUresult own_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	CUresult result = cn_enter();
	unsigned int on;

	if (result)
		return result;
	if (!value)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "value is NULL");
	if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "attribute %d cannot be set", (int)attribute);
	memcpy(&on, value, sizeof on);
	struct cn_memory memory;
	bool found = cn_memory_find(pointer, &memory);
	if (found && memory.imported && on)
		return CUDA_SUCCESS; /* it always is so */
	if (found && memory.kind & RIGHTS_KINDS)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "%s has no such attribute to set",
				memory.kind == CN_MEMORY_POOL ? "memory of a pool" : "mapped memory");
	if (!cn_memory_set_sync(pointer, TOKEN_KINDS, on))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx is not in device memory", pointer);
	return CUDA_SUCCESS;
}

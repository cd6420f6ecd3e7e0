/* SPDX-License-Identifier: MIT */
/*
 * Waiting for, and writing, words of memory in stream order: one by one, and in batches.
 */
#include "device/host/host_remote.h"
#include "driver/host/objects.h"
#include "driver/host/registry.h"

#include <stdlib.h>

enum {
	WAIT_FLAGS = 3 | CU_STREAM_WAIT_VALUE_FLUSH,
	BATCH_MAX = 255,
};

/* Which memory is it, and may it be used so? *ret_side: it is another machine's. */
static CUresult check_word(const struct cn_place *place, CUdeviceptr address, unsigned bytes, bool write,
			   struct cn_host_remote_side *ret_side)
{
	struct cn_memory memory;

	if (!address || address % bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx is not the address of a word of %u bytes", address,
				bytes);
	CUresult result = cn_registry_range(address, bytes, &memory);
	if (result)
		return result;
	if (memory.kind == CN_MEMORY_FOREIGN)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx is not in memory that was allocated or registered",
				address);
	if (memory.imported && !memory.remote)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"0x%llx is memory of another process: a stream cannot wait for its values", address);
	if (!cn_memory_allows(&memory, place->context->device, write))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "device %d has no access to the word at 0x%llx: see %s",
				place->context->device->ordinal, address, cn_memory_access_call(&memory));
	*ret_side = (struct cn_host_remote_side){memory.remote, memory.start};
	return CUDA_SUCCESS;
}

static CUresult prepare_wait(const struct cn_place *place, CUdeviceptr address, uint64_t value, unsigned bytes,
			     unsigned int flags, struct cn_operation *ret_operation,
			     struct cn_host_remote_side *ret_side)
{
	if (flags & ~(unsigned)WAIT_FLAGS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "wait flags 0x%x are unknown", flags);
	if (flags & CU_STREAM_WAIT_VALUE_FLUSH)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the device does not flush remote writes");
	*ret_operation = (struct cn_operation){
		.kind = CN_OPERATION_WAIT_VALUE,
		.wait_value = {.address = (void *)(uintptr_t)address, .value = value, .bytes = bytes, .flags = flags},
	};
	return check_word(place, address, bytes, false, ret_side);
}

static CUresult prepare_write(const struct cn_place *place, CUdeviceptr address, uint64_t value, unsigned bytes,
			      unsigned int flags, struct cn_operation *ret_operation,
			      struct cn_host_remote_side *ret_side)
{
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "write flags 0x%x are not supported", flags);
	*ret_operation = (struct cn_operation){
		.kind = CN_OPERATION_WRITE_VALUE,
		.write_value = {.address = (void *)(uintptr_t)address, .value = value, .bytes = bytes},
	};
	return check_word(place, address, bytes, true, ret_side);
}

static CUresult hand_over(const struct cn_place *place, struct cn_operation *operation,
			  const struct cn_host_remote_side *side)
{
	bool waits = operation->kind == CN_OPERATION_WAIT_VALUE;
	CUresult result = CUDA_SUCCESS;

	if (side->number)
		result = cn_host_remote_wrap(operation, waits ? NULL : side, waits ? side : NULL);
	if (result)
		return result;
	result = cn_stream_submit(place, operation, NULL);
	if (result && side->number)
		free(operation->remote);
	return result;
}

static CUresult submit(__typeof__(prepare_wait) *prepare, CUstream handle, CUdeviceptr address, uint64_t value,
		       unsigned bytes, unsigned int flags)
{
	struct cn_host_remote_side side;
	struct cn_operation operation;
	struct cn_place place;
	CUresult result = cn_stream_find(handle, &place);

	if (!result)
		result = prepare(&place, address, value, bytes, flags, &operation, &side);
	return result ? result : hand_over(&place, &operation, &side);
}

CUresult host_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return submit(prepare_wait, stream, address, value, sizeof value, flags);
}

CUresult host_cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	return submit(prepare_wait, stream, address, value, sizeof value, flags);
}

CUresult host_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return submit(prepare_write, stream, address, value, sizeof value, flags);
}

CUresult host_cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	return submit(prepare_write, stream, address, value, sizeof value, flags);
}

/* ---- Several at once --------------------------------------------------------------------------------------------- */

/* *ret_needed: there is something to put in the stream. A barrier needs nothing: the stream itself is in order. */
static CUresult prepare(const struct cn_place *place, const CUstreamBatchMemOpParams *one, bool *ret_needed,
			struct cn_operation *ret_operation, struct cn_host_remote_side *ret_side)
{
	*ret_needed = true;
	switch ((int)one->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return prepare_wait(place, one->waitValue.address, one->waitValue.value, 4, one->waitValue.flags,
				    ret_operation, ret_side);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return prepare_wait(place, one->waitValue.address, one->waitValue.value64, 8, one->waitValue.flags,
				    ret_operation, ret_side);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return prepare_write(place, one->writeValue.address, one->writeValue.value, 4, one->writeValue.flags,
				     ret_operation, ret_side);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return prepare_write(place, one->writeValue.address, one->writeValue.value64, 8, one->writeValue.flags,
				     ret_operation, ret_side);
	case CU_STREAM_MEM_OP_BARRIER:
		*ret_needed = false;
		if (one->memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU)
			return cn_error(CUDA_ERROR_INVALID_VALUE, "barrier flags 0x%x are unknown",
					one->memoryBarrier.flags);
		return CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the device does not flush remote writes");
	default: return cn_error(CUDA_ERROR_INVALID_VALUE, "memory operation %d is unknown", (int)one->operation);
	}
}

CUresult host_cuStreamBatchMemOp_v2(CUstream handle, unsigned int count, CUstreamBatchMemOpParams *operations,
				    unsigned int flags)
{
	struct cn_host_remote_side side;
	struct cn_operation operation;
	struct cn_place place;
	bool needed;
	CUresult result = cn_stream_find(handle, &place);

	if (result)
		return result;
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cuStreamBatchMemOp takes no flags: they must be 0, not 0x%x",
				flags);
	if (count > BATCH_MAX)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "a batch of %u operations: the limit is %d", count,
				BATCH_MAX);
	if (count && !operations)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "paramArray is NULL");
	/* All or none: check every one before the first is put in the stream. */
	for (unsigned int i = 0; i < count && !result; i++)
		result = prepare(&place, &operations[i], &needed, &operation, &side);
	for (unsigned int i = 0; i < count && !result; i++) {
		result = prepare(&place, &operations[i], &needed, &operation, &side);
		if (!result && needed)
			result = hand_over(&place, &operation, &side);
	}
	return result;
}

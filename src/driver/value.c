/* SPDX-License-Identifier: MIT */
/*
 * Waiting for, and writing, a word of memory in stream order.
 */
#include "driver/driver.h"
#include "driver/memory.h"

enum { WAIT_FLAGS = 3 | CU_STREAM_WAIT_VALUE_FLUSH };

static CUresult check_word(const struct cn_stream *stream, CUdeviceptr address, unsigned bytes, bool write)
{
	struct cn_memory memory;

	if (!address || address % bytes)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx is not the address of a word of %u bytes", address,
				bytes);
	CUresult result = cn_memory_range(address, bytes, &memory);
	if (result)
		return result;
	if (memory.kind == CN_MEMORY_FOREIGN)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx is not in memory that was allocated or registered",
				address);
	if (memory.imported)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "0x%llx is another process's: its words are not waited for",
				address);
	if (!cn_memory_allows(&memory, stream->context->device, write))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "device %d may not use the word at 0x%llx so: see %s",
				stream->context->device->ordinal, address, cn_memory_access_call(&memory));
	return CUDA_SUCCESS;
}

static CUresult wait_value(CUstream handle, CUdeviceptr address, uint64_t value, unsigned bytes, unsigned int flags)
{
	struct cn_stream *stream;
	CUresult result = cn_stream_find(handle, &stream);

	if (result)
		return result;
	if (flags & ~(unsigned)WAIT_FLAGS)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "wait flags 0x%x are unknown", flags);
	if (flags & CU_STREAM_WAIT_VALUE_FLUSH)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the device does not flush remote writes");
	result = check_word(stream, address, bytes, false);
	if (result)
		return result;
	struct cn_operation operation = {
		.kind = CN_WAIT_VALUE,
		.wait_value = {.address = (void *)(uintptr_t)address, .value = value, .bytes = bytes, .flags = flags},
	};
	return cn_stream_submit(stream, &operation, NULL);
}

static CUresult write_value(CUstream handle, CUdeviceptr address, uint64_t value, unsigned bytes, unsigned int flags)
{
	struct cn_stream *stream;
	CUresult result = cn_stream_find(handle, &stream);

	if (result)
		return result;
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "write flags 0x%x are not taken", flags);
	result = check_word(stream, address, bytes, true);
	if (result)
		return result;
	struct cn_operation operation = {
		.kind = CN_WRITE_VALUE,
		.write_value = {.address = (void *)(uintptr_t)address, .value = value, .bytes = bytes},
	};
	return cn_stream_submit(stream, &operation, NULL);
}

CN_EXPORT CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return wait_value(stream, address, value, sizeof value, flags);
}

CN_EXPORT CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	return wait_value(stream, address, value, sizeof value, flags);
}

CN_EXPORT CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return write_value(stream, address, value, sizeof value, flags);
}

CN_EXPORT CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	return write_value(stream, address, value, sizeof value, flags);
}

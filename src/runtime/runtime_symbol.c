/* SPDX-License-Identifier: MIT */
/*
 * Variables of the runtime API: __device__, __constant__ and __managed__ ones, by the address of their shadow on the
 * host. Each context has its own; a copy to or from one is a copy to or from its address in the current context.
 */
#include "runtime/runtime.h"

#include <inttypes.h>

/* ---- Where they are ---------------------------------------------------------------------------------------------- */

/* The symbol is looked at before the output, as in CUDA. */
static cudaError_t find(const void *symbol, bool given, const char *output, CUdeviceptr *ret_address, size_t *ret_bytes)
{
	cudaError_t error = cn_runtime_find_variable(symbol, ret_address, ret_bytes);

	return error || given ? error : CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "%s is NULL", output);
}

cudaError_t runtime_cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
	CUdeviceptr address;
	size_t bytes;
	cudaError_t error = find(symbol, devPtr, "devPtr", &address, &bytes);

	if (!error)
		*devPtr = (void *)(uintptr_t)address;
	return error;
}

cudaError_t runtime_cudaGetSymbolSize(size_t *size, const void *symbol)
{
	CUdeviceptr address;
	size_t bytes;
	cudaError_t error = find(symbol, size, "size", &address, &bytes);

	if (!error)
		*size = bytes;
	return error;
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

/* The part of a variable that a copy is about; its other end is on the host, or on a device. NULL for no bytes. */
static cudaError_t find_part(const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
			     enum cudaMemcpyKind host_kind, void **ret_part)
{
	CUdeviceptr address = 0;
	size_t bytes = 0;
	cudaError_t error;

	if (!count)
		return cudaSuccess; /* whatever the symbol is, as in CUDA */
	error = cn_runtime_find_variable(symbol, &address, &bytes);
	if (error)
		return error;
	if (kind != host_kind && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidMemcpyDirection,
					 "a variable's end of a copy is on the device; the kind is %d", (int)kind);
	if (offset > bytes || count > bytes - offset)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "%zu bytes from byte %zu of a variable that has %zu",
					 count, offset, bytes);
	*ret_part = (void *)(uintptr_t)(address + offset);
	return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
			       enum cudaMemcpyKind kind)
{
	void *part = NULL;
	cudaError_t error = find_part(symbol, count, offset, kind, cudaMemcpyHostToDevice, &part);

	return error ? error : cudaMemcpy(part, src, count, kind);
}

cudaError_t cudaMemcpyToSymbol_ptds(const void *symbol, const void *src, size_t count, size_t offset,
				    enum cudaMemcpyKind kind)
{
	void *part = NULL;
	cudaError_t error = find_part(symbol, count, offset, kind, cudaMemcpyHostToDevice, &part);

	return error ? error : cudaMemcpy_ptds(part, src, count, kind);
}

cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	void *part = NULL;
	cudaError_t error = find_part(symbol, count, offset, kind, cudaMemcpyDeviceToHost, &part);

	return error ? error : cudaMemcpy(dst, part, count, kind);
}

cudaError_t cudaMemcpyFromSymbol_ptds(void *dst, const void *symbol, size_t count, size_t offset,
				      enum cudaMemcpyKind kind)
{
	void *part = NULL;
	cudaError_t error = find_part(symbol, count, offset, kind, cudaMemcpyDeviceToHost, &part);

	return error ? error : cudaMemcpy_ptds(dst, part, count, kind);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset,
				    enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *part = NULL;
	cudaError_t error = find_part(symbol, count, offset, kind, cudaMemcpyHostToDevice, &part);

	return error ? error : cudaMemcpyAsync(part, src, count, kind, stream);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
				      enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *part = NULL;
	cudaError_t error = find_part(symbol, count, offset, kind, cudaMemcpyDeviceToHost, &part);

	return error ? error : cudaMemcpyAsync(dst, part, count, kind, stream);
}

/* SPDX-License-Identifier: MIT */
/*
 * Memory of the runtime API: allocation, host memory, managed memory, and what is known of a pointer.
 *
 * Where the driver refuses to allocate nothing, the runtime succeeds and returns NULL. After a failure the pointer is
 * NULL, as in CUDA.
 */
#include "runtime/runtime.h"

#include <stddef.h>
#include <string.h>

enum { PITCH_BYTES_MAX = 512 }; /* a row is rounded up to a multiple of this, at most */

cudaError_t runtime_cudaMemGetInfo(size_t *free, size_t *total)
{
	return cn_runtime_result(cn_runtime_context() ?: cuMemGetInfo(free, total));
}

/* ---- Device memory ---------------------------------------------------------------------------------------------- */

cudaError_t runtime_cudaMalloc(void **devPtr, size_t size)
{
	CUresult result = cn_runtime_context();
	CUdeviceptr pointer = 0;

	if (!result && !devPtr)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "devPtr is NULL");
	if (!result && size > 0)
		result = cuMemAlloc(&pointer, size);
	if (devPtr)
		*devPtr = result ? NULL : (void *)(uintptr_t)pointer;
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
	CUresult result = cn_runtime_context();
	CUdeviceptr pointer = 0;
	size_t pitch_bytes = 0;

	if (!result && (!devPtr || !pitch))
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "%s is NULL", devPtr ? "pitch" : "devPtr");
	if (!result && width > 0 && height > 0)
		result = cuMemAllocPitch(&pointer, &pitch_bytes, width, height, 4);
	if (!result) {
		*devPtr = (void *)(uintptr_t)pointer;
		*pitch = pitch_bytes;
	}
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
	CUresult result = cn_runtime_context();
	CUdeviceptr pointer = 0;
	size_t pitch_bytes = 0, row_count;

	if (!result && !pitchedDevPtr)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "pitchedDevPtr is NULL");
	if (!result && __builtin_mul_overflow(extent.height, extent.depth, &row_count))
		return CN_RUNTIME_REFUSE(cudaErrorMemoryAllocation, "%zu layers of %zu rows exceed the address space",
					 extent.depth, extent.height);
	if (!result && extent.width > SIZE_MAX - PITCH_BYTES_MAX)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "rows of %zu bytes have no pitch", extent.width);
	if (!result && extent.width > 0 && row_count > 0)
		result = cuMemAllocPitch(&pointer, &pitch_bytes, extent.width, row_count, 4);
	if (!result)
		*pitchedDevPtr = (struct cudaPitchedPtr){
			.ptr = (void *)(uintptr_t)pointer,
			.pitch = pitch_bytes,
			.xsize = extent.width,
			.ysize = extent.height,
		};
	return cn_runtime_result(result);
}

cudaError_t cudaFree(void *devPtr)
{
	CUresult result = cn_runtime_context();

	if (!result && devPtr)
		result = cuMemFree(cn_runtime_pointer(devPtr));
	return cn_runtime_result(result);
}

/* ---- Host memory ------------------------------------------------------------------------------------------------ */

cudaError_t runtime_cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
	CUresult result = cn_runtime_context();
	void *pointer = NULL;

	if (!result && !pHost)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "pHost is NULL");
	if (!result && size > 0)
		result = cuMemHostAlloc(&pointer, size, flags);
	if (pHost)
		*pHost = result ? NULL : pointer;
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaMallocHost(void **ptr, size_t size)
{
	return runtime_cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *ptr)
{
	CUresult result = cn_runtime_context();

	if (!result && ptr)
		result = cuMemFreeHost(ptr);
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
	CUresult result = cn_runtime_context();
	CUdeviceptr pointer;

	if (!result && !pDevice)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "pDevice is NULL");
	if (!result)
		result = cuMemHostGetDevicePointer(&pointer, pHost, flags);
	if (!result)
		*pDevice = (void *)(uintptr_t)pointer;
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
	return cn_runtime_result(cn_runtime_context() ?: cuMemHostGetFlags(pFlags, pHost));
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
	return cn_runtime_result(cn_runtime_context() ?: cuMemHostRegister(ptr, size, flags));
}

cudaError_t cudaHostUnregister(void *ptr)
{
	return cn_runtime_result(cn_runtime_context() ?: cuMemHostUnregister(ptr));
}

/* ---- Managed memory --------------------------------------------------------------------------------------------- */

cudaError_t runtime_cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
	CUresult result = cn_runtime_context();
	CUdeviceptr pointer = 0;

	if (!result && !devPtr)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "devPtr is NULL");
	if (!result && size > 0)
		result = cuMemAllocManaged(&pointer, size, flags);
	if (devPtr)
		*devPtr = result ? NULL : (void *)(uintptr_t)pointer;
	return cn_runtime_result(result);
}

static CUmemLocation driver_location(struct cudaMemLocation location)
{
	CUmemLocation converted = {.type = (CUmemLocationType)location.type, .id = location.id};

	return converted;
}

cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
				 cudaStream_t stream)
{
	CUresult result = cn_runtime_context();

	if (!result)
		result =
			cuMemPrefetchAsync(cn_runtime_pointer(devPtr), count, driver_location(location), flags, stream);
	return cn_runtime_result(result);
}

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
			  struct cudaMemLocation location)
{
	CUresult result = cn_runtime_context();

	if (!result)
		result =
			cuMemAdvise(cn_runtime_pointer(devPtr), count, (CUmem_advise)advice, driver_location(location));
	return cn_runtime_result(result);
}

cudaError_t cudaMemRangeGetAttribute(void *data, size_t dataSize, enum cudaMemRangeAttribute attribute,
				     const void *devPtr, size_t count)
{
	CUresult result = cn_runtime_context();

	if (!result)
		result = cuMemRangeGetAttribute(data, dataSize, (CUmem_range_attribute)attribute,
						cn_runtime_pointer(devPtr), count);
	return cn_runtime_result(result);
}

/* The two enumerations have the same values and size, so an array of one is an array of the other. */
_Static_assert(sizeof(enum cudaMemRangeAttribute) == sizeof(CUmem_range_attribute), "attributes of one size");

cudaError_t runtime_cudaMemRangeGetAttributes(void **data, size_t *dataSizes, enum cudaMemRangeAttribute *attributes,
					      size_t numAttributes, const void *devPtr, size_t count)
{
	CUresult result = cn_runtime_context();

	if (!result)
		result = cuMemRangeGetAttributes(data, dataSizes, (CUmem_range_attribute *)(void *)attributes,
						 numAttributes, cn_runtime_pointer(devPtr), count);
	return cn_runtime_result(result);
}

/* ---- Pointers --------------------------------------------------------------------------------------------------- */

cudaError_t runtime_cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	unsigned memory_type = 0;
	unsigned managed = 0;
	int device = cudaInvalidDeviceId;
	CUdeviceptr device_pointer = 0;
	void *host_pointer = NULL;
	CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
				       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
				       CU_POINTER_ATTRIBUTE_HOST_POINTER};
	void *values[] = {&memory_type, &managed, &device, &device_pointer, &host_pointer};
	CUresult result = cn_runtime_start();

	if (!result && !attributes)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "attributes is NULL");
	/* For an unknown pointer the driver succeeds, too, and leaves the memory type 0. */
	if (!result)
		result = cuPointerGetAttributes(sizeof names / sizeof names[0], names, values, cn_runtime_pointer(ptr));
	if (result)
		return cn_runtime_result(result);

	memset(attributes, 0, sizeof(*attributes));
	if (memory_type == 0) {
		attributes->type = cudaMemoryTypeUnregistered;
		attributes->device = cudaInvalidDeviceId;
		attributes->hostPointer = (void *)(uintptr_t)ptr;
		return cudaSuccess;
	}
	attributes->type = managed                             ? cudaMemoryTypeManaged
			   : memory_type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
							       : cudaMemoryTypeDevice;
	attributes->device = device;
	attributes->devicePointer = (void *)(uintptr_t)device_pointer;
	attributes->hostPointer = host_pointer;
	return cudaSuccess;
}

/* ---- Between processes ------------------------------------------------------------------------------------------ */

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle), "handles of one size");

cudaError_t runtime_cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
	CUipcMemHandle made;
	CUresult result = cn_runtime_context();

	if (!result)
		result = cuIpcGetMemHandle(handle ? &made : NULL, cn_runtime_pointer(devPtr));
	if (!result && handle)
		memcpy(handle, &made, sizeof made);
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
	CUipcMemHandle given;
	CUdeviceptr pointer = 0;
	CUresult result = cn_runtime_context();

	memcpy(&given, &handle, sizeof given);
	if (!result)
		result = cuIpcOpenMemHandle(devPtr ? &pointer : NULL, given, flags);
	if (!result && devPtr)
		*devPtr = (void *)(uintptr_t)pointer;
	return cn_runtime_result(result);
}

cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
	return cn_runtime_result(cn_runtime_context() ?: cuIpcCloseMemHandle(cn_runtime_pointer(devPtr)));
}

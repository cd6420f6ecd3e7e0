/* SPDX-License-Identifier: MIT */
/*
 * In the drop-in libcudart.so.12: see cuda12.h.
 *
 * The library itself has functions of these names, so CUDA 13's are called with their symbol version.
 */
#include "dropin/cuda12.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* thirteen_X is CUDA 13's X. */
#define THIRTEEN(name)                           \
	extern __typeof__(name) thirteen_##name; \
	__asm__(".symver thirteen_" #name ", " #name "@libcudart.so.13")

THIRTEEN(cudaGetDeviceProperties);
THIRTEEN(cudaDeviceGetAttribute);
THIRTEEN(cudaMemAdvise);
THIRTEEN(cudaMemPrefetchAsync);
THIRTEEN(cudaPointerGetAttributes);
THIRTEEN(cudaRuntimeGetVersion);
THIRTEEN(cudaStreamGetCaptureInfo);
extern __typeof__(cudaMemPrefetchAsync) thirteen_cudaMemPrefetchAsync_ptsz;
__asm__(".symver thirteen_cudaMemPrefetchAsync_ptsz, cudaMemPrefetchAsync_ptsz@libcudart.so.13");
extern __typeof__(cudaStreamGetCaptureInfo) thirteen_cudaStreamGetCaptureInfo_ptsz;
__asm__(".symver thirteen_cudaStreamGetCaptureInfo_ptsz, cudaStreamGetCaptureInfo_ptsz@libcudart.so.13");

cudaError_t cn_cuda12_runtime_version(int *ret_version)
{
	int version = 0;
	cudaError_t error = thirteen_cudaRuntimeGetVersion(ret_version ? &version : NULL);

	if (!error && ret_version)
		*ret_version = CN_CUDA12_VERSION;
	return error;
}

/* ---- Properties ---- */

struct member {
	size_t here, there, bytes;
};

#define MEMBER(name)                                                                                \
	{                                                                                           \
		offsetof(struct cn_cuda12_properties, name), offsetof(struct cudaDeviceProp, name), \
			sizeof(((struct cudaDeviceProp *)NULL)->name)                               \
	}
/* Members that lie behind each other in both. */
#define MEMBERS(first, last)                                                                                    \
	{                                                                                                       \
		offsetof(struct cn_cuda12_properties, first), offsetof(struct cudaDeviceProp, first),           \
			offsetof(struct cudaDeviceProp, last) + sizeof(((struct cudaDeviceProp *)NULL)->last) - \
				offsetof(struct cudaDeviceProp, first)                                          \
	}
#define SAME_LENGTH(first, last)                                                                                     \
	_Static_assert(offsetof(struct cn_cuda12_properties, last) - offsetof(struct cn_cuda12_properties, first) == \
			       offsetof(struct cudaDeviceProp, last) - offsetof(struct cudaDeviceProp, first),       \
		       "as long in both")

static const struct member members[] = {
	MEMBERS(name, maxGridSize),
	MEMBER(totalConstMem),
	MEMBERS(major, texturePitchAlignment),
	MEMBER(multiProcessorCount),
	MEMBERS(integrated, canMapHostMemory),
	MEMBERS(maxTexture1D, maxTexture1DMipmap),
	MEMBERS(maxTexture2D, maxSurfaceCubemapLayered),
	MEMBERS(surfaceAlignment, unifiedAddressing),
	MEMBERS(memoryBusWidth, localL1CacheSupported),
	MEMBERS(sharedMemPerMultiprocessor, hostNativeAtomicSupported),
	MEMBERS(pageableMemoryAccess, cooperativeLaunch),
	MEMBERS(sharedMemPerBlockOptin, accessPolicyMaxWindowSize),
	MEMBERS(reservedSharedMemPerBlock, unifiedFunctionPointers),
};
SAME_LENGTH(name, maxGridSize);
SAME_LENGTH(major, texturePitchAlignment);
SAME_LENGTH(integrated, canMapHostMemory);
SAME_LENGTH(maxTexture1D, maxTexture1DMipmap);
SAME_LENGTH(maxTexture2D, maxSurfaceCubemapLayered);
SAME_LENGTH(surfaceAlignment, unifiedAddressing);
SAME_LENGTH(memoryBusWidth, localL1CacheSupported);
SAME_LENGTH(sharedMemPerMultiprocessor, hostNativeAtomicSupported);
SAME_LENGTH(pageableMemoryAccess, cooperativeLaunch);
SAME_LENGTH(sharedMemPerBlockOptin, accessPolicyMaxWindowSize);
SAME_LENGTH(reservedSharedMemPerBlock, unifiedFunctionPointers);

/* What CUDA 13 has no member for is still an attribute. */
static const struct {
	enum cudaDeviceAttr attribute;
	size_t here;
} attributes[] = {
	{cudaDevAttrClockRate, offsetof(struct cn_cuda12_properties, clockRate)},
	{cudaDevAttrGpuOverlap, offsetof(struct cn_cuda12_properties, deviceOverlap)},
	{cudaDevAttrKernelExecTimeout, offsetof(struct cn_cuda12_properties, kernelExecTimeoutEnabled)},
	{cudaDevAttrComputeMode, offsetof(struct cn_cuda12_properties, computeMode)},
	{cudaDevAttrMaxTexture1DLinearWidth, offsetof(struct cn_cuda12_properties, maxTexture1DLinear)},
	{cudaDevAttrMemoryClockRate, offsetof(struct cn_cuda12_properties, memoryClockRate)},
	{cudaDevAttrSingleToDoublePrecisionPerfRatio,
	 offsetof(struct cn_cuda12_properties, singleToDoublePrecisionPerfRatio)},
};

cudaError_t cn_cuda12_device_properties(struct cn_cuda12_properties *ret_properties, int device)
{
	struct cn_cuda12_properties here = {0};
	struct cudaDeviceProp there;
	cudaError_t error = thirteen_cudaGetDeviceProperties(ret_properties ? &there : NULL, device);

	for (size_t i = 0; !error && i < sizeof members / sizeof members[0]; i++)
		memcpy((char *)&here + members[i].here, (char *)&there + members[i].there, members[i].bytes);
	for (size_t i = 0; !error && i < sizeof attributes / sizeof attributes[0]; i++) {
		int value = 0;
		error = thirteen_cudaDeviceGetAttribute(&value, attributes[i].attribute, device);
		memcpy((char *)&here + attributes[i].here, &value, sizeof value);
	}
	if (!error && ret_properties)
		*ret_properties = here;
	return error;
}

/* ---- Memory ---- */

cudaError_t cn_cuda12_pointer_attributes(struct cn_cuda12_pointer *ret_attributes, const void *pointer)
{
	struct cudaPointerAttributes there;
	cudaError_t error = thirteen_cudaPointerGetAttributes(ret_attributes ? &there : NULL, pointer);

	if (!error && ret_attributes)
		*ret_attributes = (struct cn_cuda12_pointer){
			.type = there.type,
			.device = there.device,
			.devicePointer = there.devicePointer,
			.hostPointer = there.hostPointer,
		};
	return error;
}

static struct cudaMemLocation location_of(int device)
{
	bool host = device == cudaCpuDeviceId;

	return (struct cudaMemLocation){.type = host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
					.id = host ? 0 : device};
}

cudaError_t cn_cuda12_advise(const void *address, size_t bytes, enum cudaMemoryAdvise advice, int device)
{
	return thirteen_cudaMemAdvise(address, bytes, advice, location_of(device));
}

cudaError_t cn_cuda12_prefetch(const void *address, size_t bytes, int device, cudaStream_t stream)
{
	return thirteen_cudaMemPrefetchAsync(address, bytes, location_of(device), 0, stream);
}

cudaError_t cn_cuda12_prefetch_ptsz(const void *address, size_t bytes, int device, cudaStream_t stream)
{
	return thirteen_cudaMemPrefetchAsync_ptsz(address, bytes, location_of(device), 0, stream);
}

/* ---- Captures ---- */

cudaError_t cn_cuda12_capture(cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status, unsigned long long *ret_id)
{
	return thirteen_cudaStreamGetCaptureInfo(stream, ret_status, ret_id, NULL, NULL, NULL, NULL);
}

cudaError_t cn_cuda12_capture_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status,
				   unsigned long long *ret_id)
{
	return thirteen_cudaStreamGetCaptureInfo_ptsz(stream, ret_status, ret_id, NULL, NULL, NULL, NULL);
}

cudaError_t cn_cuda12_capture_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status,
				 unsigned long long *ret_id, cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_nodes,
				 size_t *ret_node_count)
{
	return thirteen_cudaStreamGetCaptureInfo(stream, ret_status, ret_id, ret_graph, ret_nodes, NULL,
						 ret_node_count);
}

cudaError_t cn_cuda12_capture_v2_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status,
				      unsigned long long *ret_id, cudaGraph_t *ret_graph,
				      const cudaGraphNode_t **ret_nodes, size_t *ret_node_count)
{
	return thirteen_cudaStreamGetCaptureInfo_ptsz(stream, ret_status, ret_id, ret_graph, ret_nodes, NULL,
						      ret_node_count);
}

cudaError_t cn_cuda12_set_double(double *value)
{
	(void)value;
	return cudaSuccess;
}

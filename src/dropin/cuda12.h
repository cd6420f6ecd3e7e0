/* SPDX-License-Identifier: MIT */
/*
 * In the drop-in libcudart.so.12: the calls that mean something else in CUDA 12 than in CUDA 13.
 *
 * CUDA 13 took members out of structures and put others in, and gave some names to newer forms. Programs of CUDA 12
 * call the old ones, under the symbol version libcudart.so.12. All others are the same, and are jumps to CUDA 13's
 * (cuda12.S); scripts/generate_api.py has the list. CUDA 12's graphs, external memory, and the cudaDeviceProp of CUDA
 * 11 are not here: they answer "not supported".
 */
#ifndef CN_DROPIN_CUDA12_H
#define CN_DROPIN_CUDA12_H

#include "cenote/cuda_runtime_api.h"

enum { CN_CUDA12_VERSION = 12090 }; /* the last CUDA 12 */

/* cudaDeviceProp. What has another name, or none, in CUDA 13's is marked. */
struct cn_cuda12_properties {
	char name[256];
	cudaUUID_t uuid;
	char luid[8];
	unsigned int luidDeviceNodeMask;
	size_t totalGlobalMem;
	size_t sharedMemPerBlock;
	int regsPerBlock;
	int warpSize;
	size_t memPitch;
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
	int clockRate; /* CUDA 12's alone */
	size_t totalConstMem;
	int major;
	int minor;
	size_t textureAlignment;
	size_t texturePitchAlignment;
	int deviceOverlap; /* CUDA 12's alone */
	int multiProcessorCount;
	int kernelExecTimeoutEnabled; /* CUDA 12's alone */
	int integrated;
	int canMapHostMemory;
	int computeMode; /* CUDA 12's alone */
	int maxTexture1D;
	int maxTexture1DMipmap;
	int maxTexture1DLinear; /* CUDA 12's alone */
	int maxTexture2D[2];
	int maxTexture2DMipmap[2];
	int maxTexture2DLinear[3];
	int maxTexture2DGather[2];
	int maxTexture3D[3];
	int maxTexture3DAlt[3];
	int maxTextureCubemap;
	int maxTexture1DLayered[2];
	int maxTexture2DLayered[3];
	int maxTextureCubemapLayered[2];
	int maxSurface1D;
	int maxSurface2D[2];
	int maxSurface3D[3];
	int maxSurface1DLayered[2];
	int maxSurface2DLayered[3];
	int maxSurfaceCubemap;
	int maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment;
	int concurrentKernels;
	int ECCEnabled;
	int pciBusID;
	int pciDeviceID;
	int pciDomainID;
	int tccDriver;
	int asyncEngineCount;
	int unifiedAddressing;
	int memoryClockRate; /* CUDA 12's alone */
	int memoryBusWidth;
	int l2CacheSize;
	int persistingL2CacheMaxSize;
	int maxThreadsPerMultiProcessor;
	int streamPrioritiesSupported;
	int globalL1CacheSupported;
	int localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor;
	int managedMemory;
	int isMultiGpuBoard;
	int multiGpuBoardGroupID;
	int hostNativeAtomicSupported;
	int singleToDoublePrecisionPerfRatio; /* CUDA 12's alone */
	int pageableMemoryAccess;
	int concurrentManagedAccess;
	int computePreemptionSupported;
	int canUseHostPointerForRegisteredMem;
	int cooperativeLaunch;
	int cooperativeMultiDeviceLaunch; /* CUDA 12's alone: 0 */
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables;
	int directManagedMemAccessFromHost;
	int maxBlocksPerMultiProcessor;
	int accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported;
	int sparseCudaArraySupported;
	int hostRegisterReadOnlySupported;
	int timelineSemaphoreInteropSupported;
	int memoryPoolsSupported;
	int gpuDirectRDMASupported;
	unsigned int gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned int memoryPoolSupportedHandleTypes;
	int deferredMappingCudaArraySupported;
	int ipcEventSupported;
	int clusterLaunch;
	int unifiedFunctionPointers;
	int reserved[63]; /* zeros, also those that have a name in the last versions of CUDA 12 */
};
_Static_assert(sizeof(struct cn_cuda12_properties) == 1032, "as CUDA 12 has it");

/* cudaPointerAttributes: CUDA 13's without its reserved words. */
struct cn_cuda12_pointer {
	enum cudaMemoryType type;
	int device;
	void *devicePointer;
	void *hostPointer;
};
_Static_assert(sizeof(struct cn_cuda12_pointer) == 24, "as CUDA 12 has it");

/* Under their own names in the library, by cuda12.S. */
cudaError_t cn_cuda12_runtime_version(int *ret_version);
cudaError_t cn_cuda12_device_properties(struct cn_cuda12_properties *ret_properties, int device);
cudaError_t cn_cuda12_pointer_attributes(struct cn_cuda12_pointer *ret_attributes, const void *pointer);
/* A device's number; -1 is the host (cudaCpuDeviceId). */
cudaError_t cn_cuda12_advise(const void *address, size_t bytes, enum cudaMemoryAdvise advice, int device);
cudaError_t cn_cuda12_prefetch(const void *address, size_t bytes, int device, cudaStream_t stream);
cudaError_t cn_cuda12_prefetch_ptsz(const void *address, size_t bytes, int device, cudaStream_t stream);
cudaError_t cn_cuda12_capture(cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status,
			      unsigned long long *ret_id);
cudaError_t cn_cuda12_capture_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status,
				   unsigned long long *ret_id);
cudaError_t cn_cuda12_capture_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status,
				 unsigned long long *ret_id, cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_nodes,
				 size_t *ret_node_count);
cudaError_t cn_cuda12_capture_v2_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status,
				      unsigned long long *ret_id, cudaGraph_t *ret_graph,
				      const cudaGraphNode_t **ret_nodes, size_t *ret_node_count);
/* cudaSetDoubleForDevice() and cudaSetDoubleForHost(), which have had nothing to do since CUDA 10. */
cudaError_t cn_cuda12_set_double(double *value);

#endif

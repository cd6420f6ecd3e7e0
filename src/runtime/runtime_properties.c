/* SPDX-License-Identifier: MIT */
/*
 * cudaDeviceProp, filled from the driver's attributes by two tables: which attribute goes to which member. Only Windows
 * has LUIDs; those members stay zero.
 */
#include "runtime/runtime.h"

#include <stddef.h>
#include <string.h>

struct property {
	CUdevice_attribute attribute;
	size_t offset;
};

#define PROPERTY(attribute, member)                                                      \
	{                                                                                \
		CU_DEVICE_ATTRIBUTE_##attribute, offsetof(struct cudaDeviceProp, member) \
	}

/* Members of type int (or unsigned int, for sets of bits). */
static const struct property int_properties[] = {
	PROPERTY(MAX_REGISTERS_PER_BLOCK, regsPerBlock),
	PROPERTY(WARP_SIZE, warpSize),
	PROPERTY(MAX_THREADS_PER_BLOCK, maxThreadsPerBlock),
	PROPERTY(MAX_BLOCK_DIM_X, maxThreadsDim[0]),
	PROPERTY(MAX_BLOCK_DIM_Y, maxThreadsDim[1]),
	PROPERTY(MAX_BLOCK_DIM_Z, maxThreadsDim[2]),
	PROPERTY(MAX_GRID_DIM_X, maxGridSize[0]),
	PROPERTY(MAX_GRID_DIM_Y, maxGridSize[1]),
	PROPERTY(MAX_GRID_DIM_Z, maxGridSize[2]),
	PROPERTY(COMPUTE_CAPABILITY_MAJOR, major),
	PROPERTY(COMPUTE_CAPABILITY_MINOR, minor),
	PROPERTY(MULTIPROCESSOR_COUNT, multiProcessorCount),
	PROPERTY(INTEGRATED, integrated),
	PROPERTY(CAN_MAP_HOST_MEMORY, canMapHostMemory),
	PROPERTY(MAXIMUM_TEXTURE1D_WIDTH, maxTexture1D),
	PROPERTY(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, maxTexture1DMipmap),
	PROPERTY(MAXIMUM_TEXTURE2D_WIDTH, maxTexture2D[0]),
	PROPERTY(MAXIMUM_TEXTURE2D_HEIGHT, maxTexture2D[1]),
	PROPERTY(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, maxTexture2DMipmap[0]),
	PROPERTY(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, maxTexture2DMipmap[1]),
	PROPERTY(MAXIMUM_TEXTURE2D_LINEAR_WIDTH, maxTexture2DLinear[0]),
	PROPERTY(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, maxTexture2DLinear[1]),
	PROPERTY(MAXIMUM_TEXTURE2D_LINEAR_PITCH, maxTexture2DLinear[2]),
	PROPERTY(MAXIMUM_TEXTURE2D_GATHER_WIDTH, maxTexture2DGather[0]),
	PROPERTY(MAXIMUM_TEXTURE2D_GATHER_HEIGHT, maxTexture2DGather[1]),
	PROPERTY(MAXIMUM_TEXTURE3D_WIDTH, maxTexture3D[0]),
	PROPERTY(MAXIMUM_TEXTURE3D_HEIGHT, maxTexture3D[1]),
	PROPERTY(MAXIMUM_TEXTURE3D_DEPTH, maxTexture3D[2]),
	PROPERTY(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, maxTexture3DAlt[0]),
	PROPERTY(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, maxTexture3DAlt[1]),
	PROPERTY(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, maxTexture3DAlt[2]),
	PROPERTY(MAXIMUM_TEXTURECUBEMAP_WIDTH, maxTextureCubemap),
	PROPERTY(MAXIMUM_TEXTURE1D_LAYERED_WIDTH, maxTexture1DLayered[0]),
	PROPERTY(MAXIMUM_TEXTURE1D_LAYERED_LAYERS, maxTexture1DLayered[1]),
	PROPERTY(MAXIMUM_TEXTURE2D_LAYERED_WIDTH, maxTexture2DLayered[0]),
	PROPERTY(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, maxTexture2DLayered[1]),
	PROPERTY(MAXIMUM_TEXTURE2D_LAYERED_LAYERS, maxTexture2DLayered[2]),
	PROPERTY(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, maxTextureCubemapLayered[0]),
	PROPERTY(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, maxTextureCubemapLayered[1]),
	PROPERTY(MAXIMUM_SURFACE1D_WIDTH, maxSurface1D),
	PROPERTY(MAXIMUM_SURFACE2D_WIDTH, maxSurface2D[0]),
	PROPERTY(MAXIMUM_SURFACE2D_HEIGHT, maxSurface2D[1]),
	PROPERTY(MAXIMUM_SURFACE3D_WIDTH, maxSurface3D[0]),
	PROPERTY(MAXIMUM_SURFACE3D_HEIGHT, maxSurface3D[1]),
	PROPERTY(MAXIMUM_SURFACE3D_DEPTH, maxSurface3D[2]),
	PROPERTY(MAXIMUM_SURFACE1D_LAYERED_WIDTH, maxSurface1DLayered[0]),
	PROPERTY(MAXIMUM_SURFACE1D_LAYERED_LAYERS, maxSurface1DLayered[1]),
	PROPERTY(MAXIMUM_SURFACE2D_LAYERED_WIDTH, maxSurface2DLayered[0]),
	PROPERTY(MAXIMUM_SURFACE2D_LAYERED_HEIGHT, maxSurface2DLayered[1]),
	PROPERTY(MAXIMUM_SURFACE2D_LAYERED_LAYERS, maxSurface2DLayered[2]),
	PROPERTY(MAXIMUM_SURFACECUBEMAP_WIDTH, maxSurfaceCubemap),
	PROPERTY(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, maxSurfaceCubemapLayered[0]),
	PROPERTY(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, maxSurfaceCubemapLayered[1]),
	PROPERTY(CONCURRENT_KERNELS, concurrentKernels),
	PROPERTY(ECC_ENABLED, ECCEnabled),
	PROPERTY(PCI_BUS_ID, pciBusID),
	PROPERTY(PCI_DEVICE_ID, pciDeviceID),
	PROPERTY(PCI_DOMAIN_ID, pciDomainID),
	PROPERTY(TCC_DRIVER, tccDriver),
	PROPERTY(ASYNC_ENGINE_COUNT, asyncEngineCount),
	PROPERTY(UNIFIED_ADDRESSING, unifiedAddressing),
	PROPERTY(GLOBAL_MEMORY_BUS_WIDTH, memoryBusWidth),
	PROPERTY(L2_CACHE_SIZE, l2CacheSize),
	PROPERTY(MAX_PERSISTING_L2_CACHE_SIZE, persistingL2CacheMaxSize),
	PROPERTY(MAX_THREADS_PER_MULTIPROCESSOR, maxThreadsPerMultiProcessor),
	PROPERTY(STREAM_PRIORITIES_SUPPORTED, streamPrioritiesSupported),
	PROPERTY(GLOBAL_L1_CACHE_SUPPORTED, globalL1CacheSupported),
	PROPERTY(LOCAL_L1_CACHE_SUPPORTED, localL1CacheSupported),
	PROPERTY(MAX_REGISTERS_PER_MULTIPROCESSOR, regsPerMultiprocessor),
	PROPERTY(MANAGED_MEMORY, managedMemory),
	PROPERTY(MULTI_GPU_BOARD, isMultiGpuBoard),
	PROPERTY(MULTI_GPU_BOARD_GROUP_ID, multiGpuBoardGroupID),
	PROPERTY(HOST_NATIVE_ATOMIC_SUPPORTED, hostNativeAtomicSupported),
	PROPERTY(PAGEABLE_MEMORY_ACCESS, pageableMemoryAccess),
	PROPERTY(CONCURRENT_MANAGED_ACCESS, concurrentManagedAccess),
	PROPERTY(COMPUTE_PREEMPTION_SUPPORTED, computePreemptionSupported),
	PROPERTY(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, canUseHostPointerForRegisteredMem),
	PROPERTY(COOPERATIVE_LAUNCH, cooperativeLaunch),
	PROPERTY(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, pageableMemoryAccessUsesHostPageTables),
	PROPERTY(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, directManagedMemAccessFromHost),
	PROPERTY(MAX_BLOCKS_PER_MULTIPROCESSOR, maxBlocksPerMultiProcessor),
	PROPERTY(MAX_ACCESS_POLICY_WINDOW_SIZE, accessPolicyMaxWindowSize),
	PROPERTY(HOST_REGISTER_SUPPORTED, hostRegisterSupported),
	PROPERTY(SPARSE_CUDA_ARRAY_SUPPORTED, sparseCudaArraySupported),
	PROPERTY(READ_ONLY_HOST_REGISTER_SUPPORTED, hostRegisterReadOnlySupported),
	PROPERTY(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, timelineSemaphoreInteropSupported),
	PROPERTY(MEMORY_POOLS_SUPPORTED, memoryPoolsSupported),
	PROPERTY(GPU_DIRECT_RDMA_SUPPORTED, gpuDirectRDMASupported),
	PROPERTY(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, gpuDirectRDMAFlushWritesOptions),
	PROPERTY(GPU_DIRECT_RDMA_WRITES_ORDERING, gpuDirectRDMAWritesOrdering),
	PROPERTY(MEMPOOL_SUPPORTED_HANDLE_TYPES, memoryPoolSupportedHandleTypes),
	PROPERTY(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, deferredMappingCudaArraySupported),
	PROPERTY(IPC_EVENT_SUPPORTED, ipcEventSupported),
	PROPERTY(CLUSTER_LAUNCH, clusterLaunch),
	PROPERTY(UNIFIED_FUNCTION_POINTERS, unifiedFunctionPointers),
	PROPERTY(NUMA_CONFIG, deviceNumaConfig),
	PROPERTY(NUMA_ID, deviceNumaId),
	PROPERTY(MPS_ENABLED, mpsEnabled),
	PROPERTY(HOST_NUMA_ID, hostNumaId),
	PROPERTY(GPU_PCI_DEVICE_ID, gpuPciDeviceID),
	PROPERTY(GPU_PCI_SUBSYSTEM_ID, gpuPciSubsystemID),
	PROPERTY(HOST_NUMA_MULTINODE_IPC_SUPPORTED, hostNumaMultinodeIpcSupported),
};

/* Members of type size_t. */
static const struct property size_properties[] = {
	PROPERTY(MAX_SHARED_MEMORY_PER_BLOCK, sharedMemPerBlock),
	PROPERTY(MAX_PITCH, memPitch),
	PROPERTY(TOTAL_CONSTANT_MEMORY, totalConstMem),
	PROPERTY(TEXTURE_ALIGNMENT, textureAlignment),
	PROPERTY(TEXTURE_PITCH_ALIGNMENT, texturePitchAlignment),
	PROPERTY(SURFACE_ALIGNMENT, surfaceAlignment),
	PROPERTY(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, sharedMemPerMultiprocessor),
	PROPERTY(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, sharedMemPerBlockOptin),
	PROPERTY(RESERVED_SHARED_MEMORY_PER_BLOCK, reservedSharedMemPerBlock),
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A driver that is older than this table reports an attribute as unknown: then the device has none of it. */
static CUresult attribute_or_zero(CUdevice_attribute attribute, CUdevice device, int *ret_value)
{
	CUresult result = cuDeviceGetAttribute(ret_value, attribute, device);

	if (result == CUDA_ERROR_INVALID_VALUE) {
		*ret_value = 0;
		result = CUDA_SUCCESS;
	}
	return result;
}

static CUresult fill_from_attributes(CUdevice device, struct cudaDeviceProp *prop)
{
	CUresult result = CUDA_SUCCESS;
	int value;

	for (size_t i = 0; !result && i < COUNT_OF(int_properties); i++) {
		result = attribute_or_zero(int_properties[i].attribute, device, &value);
		if (!result)
			memcpy((char *)prop + int_properties[i].offset, &value, sizeof value);
	}
	for (size_t i = 0; !result && i < COUNT_OF(size_properties); i++) {
		result = attribute_or_zero(size_properties[i].attribute, device, &value);
		if (!result) {
			size_t size = (unsigned)value;
			memcpy((char *)prop + size_properties[i].offset, &size, sizeof size);
		}
	}
	return result;
}

CUresult cn_runtime_read_properties(int device, struct cudaDeviceProp *ret_properties)
{
	struct cudaDeviceProp prop = {0};
	CUuuid uuid;
	CUresult result = cuDeviceGetName(prop.name, sizeof prop.name, device);

	if (!result)
		result = cuDeviceGetUuid(&uuid, device);
	if (!result)
		result = cuDeviceTotalMem(&prop.totalGlobalMem, device);
	if (!result)
		result = fill_from_attributes(device, &prop);
	if (result)
		return result;
	memcpy(&prop.uuid, &uuid, sizeof uuid);
	*ret_properties = prop;
	return CUDA_SUCCESS;
}

cudaError_t runtime_cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	const struct cudaDeviceProp *found;
	CUresult result = cn_runtime_properties(device, &found);

	if (!result && !prop)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "prop is NULL");
	if (!result)
		*prop = *found;
	return cn_runtime_result(result);
}

/* How many requested properties a device meets; zero means not requested. */
static int score(const struct cudaDeviceProp *device, const struct cudaDeviceProp *wanted)
{
	int points = 0;

	points += wanted->major > 0 &&
		  (device->major > wanted->major || (device->major == wanted->major && device->minor >= wanted->minor));
	points += wanted->totalGlobalMem > 0 && device->totalGlobalMem >= wanted->totalGlobalMem;
	points += wanted->multiProcessorCount > 0 && device->multiProcessorCount >= wanted->multiProcessorCount;
	points += wanted->maxThreadsPerBlock > 0 && device->maxThreadsPerBlock >= wanted->maxThreadsPerBlock;
	points += wanted->sharedMemPerBlock > 0 && device->sharedMemPerBlock >= wanted->sharedMemPerBlock;
	points += wanted->name[0] && strncmp(wanted->name, device->name, sizeof device->name) == 0;
	points += wanted->integrated != 0 && device->integrated != 0;
	points += wanted->canMapHostMemory != 0 && device->canMapHostMemory != 0;
	points += wanted->unifiedAddressing != 0 && device->unifiedAddressing != 0;
	points += wanted->managedMemory != 0 && device->managedMemory != 0;
	points += wanted->memoryPoolsSupported != 0 && device->memoryPoolsSupported != 0;
	return points;
}

cudaError_t runtime_cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
	const struct cudaDeviceProp *found;
	int best_score = -1;
	int best = 0;
	int count = 0;
	CUresult result = cn_runtime_device_count(&count);

	if (!result && (!device || !prop))
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "%s is NULL", device ? "prop" : "device");
	for (int i = 0; !result && i < count; i++) {
		result = cn_runtime_properties(i, &found);
		if (!result && score(found, prop) > best_score) {
			best_score = score(found, prop);
			best = i;
		}
	}
	if (!result)
		*device = best;
	return cn_runtime_result(result);
}

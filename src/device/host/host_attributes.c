/* SPDX-License-Identifier: MIT */
/*
 * Attributes of a host device: what it can really do. For the shape of a launch, which a program may use to divide its
 * work, the limits of a current GPU. An attribute that is not listed is 0: textures, surfaces, graphics, and whatever
 * is not built yet.
 */
#include "device/host/host_internal.h"

#include <stdlib.h>
#include <unistd.h>

/* Asked once: the C library reads a file for it, and every launch of PTX wants to know. */
static int core_count(void)
{
	static _Atomic int known;
	int count = atomic_load_explicit(&known, memory_order_relaxed);

	if (!count) {
		long online = sysconf(_SC_NPROCESSORS_ONLN);
		count = online > 0 ? (int)online : 1;
		atomic_store_explicit(&known, count, memory_order_relaxed);
	}
	return count;
}

static int l2_bytes(void)
{
	long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

	return bytes > 0 ? (int)bytes : 0;
}

static int launch_limit(CUdevice_attribute attribute)
{
	switch ((int)attribute) {
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return CN_HOST_BLOCK_THREADS_MAX;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: return CN_HOST_BLOCK_X_MAX;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return CN_HOST_BLOCK_Y_MAX;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return CN_HOST_BLOCK_Z_MAX;
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return CN_HOST_GRID_X_MAX;
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: return CN_HOST_GRID_Y_MAX;
	case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return CN_HOST_GRID_Z_MAX;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 48 * 1024;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 227 * 1024;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 228 * 1024;
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return 32;
	case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
	case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
	case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 65536;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
	case CU_DEVICE_ATTRIBUTE_MAX_PITCH: return 0x7fffffff;
	case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
	case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT: return 512;
	case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 32;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
	default: return 0;
	}
}

static bool has_capability(CUdevice_attribute attribute)
{
	switch ((int)attribute) {
	case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
	case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
	case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
	case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
	case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
	case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
	case CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return true;
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: return !cn_host_without("ipc");
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
		return !cn_host_without("ipc") && !cn_host_without("fabric");
	case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED: return !cn_host_without("pools");
	case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
		return !cn_host_without("ipc") && !cn_host_without("unified-addressing");
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: return !cn_host_without("unified-addressing");
	case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
	case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST: return !cn_host_without("managed");
	default: return false;
	}
}

static int pool_handle_types(void)
{
	if (cn_host_without("ipc") || cn_host_without("pools"))
		return 0;
	return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | (cn_host_without("fabric") ? 0 : CU_MEM_HANDLE_TYPE_FABRIC);
}

CUresult cn_host_attribute(const struct cn_device *device, CUdevice_attribute attribute, int *ret_value)
{
	int value;

	switch ((int)attribute) {
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: value = core_count(); break;
	case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
	case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
	case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: value = 1; break;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: value = l2_bytes(); break;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: value = device->pci_bus; break;
	case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: value = device->pci_device; break;
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: value = device->pci_domain; break;
	case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID: value = device->physical; break;
	case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES: value = pool_handle_types(); break;
	case CU_DEVICE_ATTRIBUTE_NUMA_ID:
		value = -1; /* the device's memory is not a node of its own */
		break;
	default: value = has_capability(attribute) ? 1 : launch_limit(attribute);
	}
	*ret_value = value;
	return CUDA_SUCCESS;
}

bool cn_host_peers(const struct cn_device *device, const struct cn_device *peer)
{
	return device != peer && !cn_host_without("peers");
}

/* SPDX-License-Identifier: MIT */
/*
 * Devices of the runtime API. A runtime device number and a driver's CUdevice are the same number.
 */
#include "runtime/runtime.h"

#include <stddef.h>

cudaError_t runtime_cudaGetDeviceCount(int *count)
{
	CUresult result;

	if (!count)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "count is NULL");
	result = cn_runtime_device_count(count);
	if (result == CUDA_ERROR_NO_DEVICE)
		*count = 0;
	return cn_runtime_result(result);
}

cudaError_t runtime_cudaGetDevice(int *device)
{
	if (!device)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "device is NULL");
	return cn_runtime_result(cn_runtime_device(device));
}

cudaError_t cudaSetDevice(int device)
{
	return cn_runtime_result(cn_runtime_set_device(device));
}

cudaError_t runtime_cudaSetValidDevices(int *device_arr, int len)
{
	return cn_runtime_result(cn_runtime_set_valid_devices(device_arr, len));
}

/* ---- Flags ------------------------------------------------------------------------------------------------------ */

static CUresult check_flags(unsigned flags)
{
	unsigned schedule = flags & cudaDeviceScheduleMask;

	if ((flags & ~(unsigned)cudaDeviceMask) || (schedule & (schedule - 1)))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "device flags 0x%x are unknown", flags);
	return CUDA_SUCCESS;
}

/* Set the flags of a device's primary context. In the runtime, a context always maps host memory. */
static CUresult set_primary_flags(int device, unsigned flags)
{
	return cuDevicePrimaryCtxSetFlags(device, flags & ~(unsigned)cudaDeviceMapHost);
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
	CUcontext context;
	CUresult result = cn_runtime_start();

	/* Other bits of the flags have no meaning, and CUDA ignores them. */
	if (!result && (flags & cudaInitDeviceFlagsAreValid)) {
		result = check_flags(deviceFlags);
		if (!result)
			result = set_primary_flags(device, deviceFlags);
	}
	return cn_runtime_result(result ? result : cn_runtime_primary(device, &context));
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
	CUresult result = check_flags(flags);
	int device;

	if (!result)
		result = cn_runtime_device(&device);
	if (!result && cn_runtime_context_is_foreign())
		return cn_runtime_result(cuCtxSetFlags(flags));
	if (!result)
		result = set_primary_flags(device, flags);
	return cn_runtime_result(result ? result : cn_runtime_context());
}

cudaError_t runtime_cudaGetDeviceFlags(unsigned int *flags)
{
	CUresult result;
	int device;
	int active;

	if (!flags)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "flags is NULL");
	result = cn_runtime_device(&device);
	if (!result && cn_runtime_context_is_foreign())
		return cn_runtime_result(cuCtxGetFlags(flags));
	if (!result)
		result = cuDevicePrimaryCtxGetState(device, flags, &active);
	if (!result)
		*flags |= cudaDeviceMapHost;
	return cn_runtime_result(result);
}

/* ---- The whole device ------------------------------------------------------------------------------------------- */

cudaError_t cudaDeviceSynchronize(void)
{
	return cn_runtime_result(cn_runtime_context() ?: cuCtxSynchronize());
}

cudaError_t cudaDeviceReset(void)
{
	int device;
	CUresult result = cn_runtime_device(&device);

	/* A context made with the driver API belongs to the code that made it. */
	if (!result && cn_runtime_context_is_foreign())
		return cudaSuccess;
	/* Release our own reference first, since a reset may or may not count it. */
	if (!result)
		result = cn_runtime_forget_primary(device);
	return cn_runtime_result(result ? result : cuDevicePrimaryCtxReset(device));
}

cudaError_t runtime_cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	return cn_runtime_result(cn_runtime_context() ?: cuCtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

/* The limits and settings of the two APIs are the same numbers. */
cudaError_t runtime_cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit)
{
	return cn_runtime_result(cn_runtime_context() ?: cuCtxGetLimit(pValue, (CUlimit)limit));
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	return cn_runtime_result(cn_runtime_context() ?: cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t runtime_cudaDeviceGetCacheConfig(enum cudaFuncCache *pCacheConfig)
{
	CUfunc_cache config = CU_FUNC_CACHE_PREFER_NONE;
	CUresult result = cn_runtime_context();

	if (!result)
		result = cuCtxGetCacheConfig(pCacheConfig ? &config : NULL);
	if (!result && pCacheConfig)
		*pCacheConfig = (enum cudaFuncCache)config;
	return cn_runtime_result(result);
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig)
{
	return cn_runtime_result(cn_runtime_context() ?: cuCtxSetCacheConfig((CUfunc_cache)cacheConfig));
}

cudaError_t runtime_cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *pConfig)
{
	CUsharedconfig config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
	CUresult result = cn_runtime_context();

	if (!result)
		result = cuCtxGetSharedMemConfig(pConfig ? &config : NULL);
	if (!result && pConfig)
		*pConfig = (enum cudaSharedMemConfig)config;
	return cn_runtime_result(result);
}

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
	return cn_runtime_result(cn_runtime_context() ?: cuCtxSetSharedMemConfig((CUsharedconfig)config));
}

/* ---- Profilers -------------------------------------------------------------------------------------------------- */

cudaError_t cudaProfilerStart(void)
{
	return cn_runtime_result(cn_runtime_context() ?: cuProfilerStart());
}

cudaError_t cudaProfilerStop(void)
{
	return cn_runtime_result(cn_runtime_context() ?: cuProfilerStop());
}

/* ---- Attributes ------------------------------------------------------------------------------------------------- */

cudaError_t runtime_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
	return cn_runtime_result(cn_runtime_start() ?: cuDeviceGetAttribute(value, (CUdevice_attribute)attr, device));
}

cudaError_t runtime_cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
	return cn_runtime_result(cn_runtime_start() ?: cuDeviceGetPCIBusId(pciBusId, len, device));
}

cudaError_t runtime_cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
	return cn_runtime_result(cn_runtime_start() ?: cuDeviceGetByPCIBusId(device, pciBusId));
}

/* ---- Peers ------------------------------------------------------------------------------------------------------ */

cudaError_t runtime_cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
	return cn_runtime_result(cn_runtime_start() ?: cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice));
}

cudaError_t runtime_cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice)
{
	CUresult result = cn_runtime_start();

	return cn_runtime_result(
		result ? result : cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attr, srcDevice, dstDevice));
}

/* The primary context of a peer, and a context for the thread. */
static CUresult peer_context(int peer_device, CUcontext *ret_context)
{
	return cn_runtime_context() ?: cn_runtime_primary(peer_device, ret_context);
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
	CUcontext peer;
	return cn_runtime_result(peer_context(peerDevice, &peer) ?: cuCtxEnablePeerAccess(peer, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
	CUcontext peer;
	return cn_runtime_result(peer_context(peerDevice, &peer) ?: cuCtxDisablePeerAccess(peer));
}

/* SPDX-License-Identifier: MIT */
/*
 * cudaTypedefs.h: the types of pointers to the driver's functions.
 *
 * PFN_cuX_v11020 is a pointer to the form of cuX that CUDA 11.2 brought, as cuGetProcAddress("cuX", …, 11020, …) finds
 * it, and PFN_cuX_v11020_ptsz or _ptds one to that for the thread's own default stream. `make abi-table` writes this
 * file, from src/api.list and cuda.h.
 */
#ifndef CENOTE_CUDATYPEDEFS_H
#define CENOTE_CUDATYPEDEFS_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef CUresult(CUDAAPI *PFN_cuInit_v2000)(unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuDriverGetVersion_v2020)(int *ret_version);
typedef CUresult(CUDAAPI *PFN_cuGetErrorName_v6000)(CUresult error, const char **ret_name);
typedef CUresult(CUDAAPI *PFN_cuGetErrorString_v6000)(CUresult error, const char **ret_text);
typedef CUresult(CUDAAPI *PFN_cuGetProcAddress_v12000)(const char *name, void **ret_address, int cuda_version,
						       cuuint64_t flags, CUdriverProcAddressQueryResult *ret_status);
typedef CUresult(CUDAAPI *PFN_cuDeviceGet_v2000)(CUdevice *ret_device, int ordinal);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetCount_v2000)(int *ret_count);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetName_v2000)(char *ret_name, int length, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetUuid_v11040)(CUuuid *ret_uuid, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDeviceTotalMem_v3020)(size_t *ret_bytes, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetAttribute_v2000)(int *ret_value, CUdevice_attribute attribute,
							  CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetPCIBusId_v4010)(char *ret_id, int length, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetByPCIBusId_v4010)(CUdevice *ret_device, const char *id);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetLuid_v10000)(char *ret_luid, unsigned int *ret_node_mask, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDeviceCanAccessPeer_v4000)(int *ret_can, CUdevice device, CUdevice peer);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetP2PAttribute_v8000)(int *ret_value, CUdevice_P2PAttribute attribute,
							     CUdevice from, CUdevice to);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetDefaultMemPool_v11020)(CUmemoryPool *ret_pool, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetMemPool_v11020)(CUmemoryPool *ret_pool, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDeviceSetMemPool_v11020)(CUdevice device, CUmemoryPool pool);
typedef CUresult(CUDAAPI *PFN_cuDevicePrimaryCtxRetain_v7000)(CUcontext *ret_context, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDevicePrimaryCtxRelease_v11000)(CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDevicePrimaryCtxReset_v11000)(CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDevicePrimaryCtxGetState_v7000)(CUdevice device, unsigned int *ret_flags,
								int *ret_active);
typedef CUresult(CUDAAPI *PFN_cuDevicePrimaryCtxSetFlags_v11000)(CUdevice device, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuCtxCreate_v12050)(CUcontext *ret_context, CUctxCreateParams *params, unsigned int flags,
						  CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuCtxDestroy_v4000)(CUcontext context);
typedef CUresult(CUDAAPI *PFN_cuCtxPushCurrent_v4000)(CUcontext context);
typedef CUresult(CUDAAPI *PFN_cuCtxPopCurrent_v4000)(CUcontext *ret_context);
typedef CUresult(CUDAAPI *PFN_cuCtxSetCurrent_v4000)(CUcontext context);
typedef CUresult(CUDAAPI *PFN_cuCtxGetCurrent_v4000)(CUcontext *ret_context);
typedef CUresult(CUDAAPI *PFN_cuCtxGetDevice_v2000)(CUdevice *ret_device);
typedef CUresult(CUDAAPI *PFN_cuCtxGetFlags_v7000)(unsigned int *ret_flags);
typedef CUresult(CUDAAPI *PFN_cuCtxSetFlags_v12010)(unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuCtxGetId_v12000)(CUcontext context, unsigned long long *ret_id);
typedef CUresult(CUDAAPI *PFN_cuCtxGetApiVersion_v3020)(CUcontext context, unsigned int *ret_version);
typedef CUresult(CUDAAPI *PFN_cuCtxSynchronize_v2000)(void);
typedef CUresult(CUDAAPI *PFN_cuCtxRecordEvent_v12050)(CUcontext context, CUevent event);
typedef CUresult(CUDAAPI *PFN_cuCtxGetLimit_v3010)(size_t *ret_value, CUlimit limit);
typedef CUresult(CUDAAPI *PFN_cuCtxSetLimit_v3010)(CUlimit limit, size_t value);
typedef CUresult(CUDAAPI *PFN_cuCtxGetStreamPriorityRange_v5050)(int *ret_least, int *ret_greatest);
typedef CUresult(CUDAAPI *PFN_cuCtxEnablePeerAccess_v4000)(CUcontext peer, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuCtxDisablePeerAccess_v4000)(CUcontext peer);
typedef CUresult(CUDAAPI *PFN_cuCtxGetCacheConfig_v3020)(CUfunc_cache *ret_config);
typedef CUresult(CUDAAPI *PFN_cuCtxSetCacheConfig_v3020)(CUfunc_cache config);
typedef CUresult(CUDAAPI *PFN_cuCtxGetSharedMemConfig_v4020)(CUsharedconfig *ret_config);
typedef CUresult(CUDAAPI *PFN_cuCtxSetSharedMemConfig_v4020)(CUsharedconfig config);
typedef CUresult(CUDAAPI *PFN_cuMemGetInfo_v3020)(size_t *ret_free, size_t *ret_total);
typedef CUresult(CUDAAPI *PFN_cuMemAlloc_v3020)(CUdeviceptr *ret_pointer, size_t bytes);
typedef CUresult(CUDAAPI *PFN_cuMemAllocPitch_v3020)(CUdeviceptr *ret_pointer, size_t *ret_pitch, size_t width_bytes,
						     size_t rows, unsigned int element_bytes);
typedef CUresult(CUDAAPI *PFN_cuMemFree_v3020)(CUdeviceptr pointer);
typedef CUresult(CUDAAPI *PFN_cuMemGetAddressRange_v3020)(CUdeviceptr *ret_base, size_t *ret_bytes,
							  CUdeviceptr pointer);
typedef CUresult(CUDAAPI *PFN_cuMemAllocHost_v3020)(void **ret_pointer, size_t bytes);
typedef CUresult(CUDAAPI *PFN_cuMemFreeHost_v2000)(void *pointer);
typedef CUresult(CUDAAPI *PFN_cuMemHostAlloc_v2020)(void **ret_pointer, size_t bytes, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuMemHostGetDevicePointer_v3020)(CUdeviceptr *ret_pointer, void *host_pointer,
							       unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuMemHostGetFlags_v2030)(unsigned int *ret_flags, void *pointer);
typedef CUresult(CUDAAPI *PFN_cuMemHostRegister_v6050)(void *pointer, size_t bytes, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuMemHostUnregister_v4000)(void *pointer);
typedef CUresult(CUDAAPI *PFN_cuMemAllocManaged_v6000)(CUdeviceptr *ret_pointer, size_t bytes, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuMemPrefetchAsync_v12020)(CUdeviceptr pointer, size_t bytes, CUmemLocation location,
							 unsigned int flags, CUstream stream);
typedef PFN_cuMemPrefetchAsync_v12020 PFN_cuMemPrefetchAsync_v12020_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemAdvise_v12020)(CUdeviceptr pointer, size_t bytes, CUmem_advise advice,
						  CUmemLocation location);
typedef CUresult(CUDAAPI *PFN_cuMemRangeGetAttribute_v8000)(void *ret_data, size_t data_bytes,
							    CUmem_range_attribute attribute, CUdeviceptr pointer,
							    size_t bytes);
typedef CUresult(CUDAAPI *PFN_cuMemRangeGetAttributes_v8000)(void **ret_data, size_t *data_bytes,
							     CUmem_range_attribute *attributes, size_t count,
							     CUdeviceptr pointer, size_t bytes);
typedef CUresult(CUDAAPI *PFN_cuMemcpy_v4000)(CUdeviceptr destination, CUdeviceptr source, size_t bytes);
typedef PFN_cuMemcpy_v4000 PFN_cuMemcpy_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemcpyAsync_v4000)(CUdeviceptr destination, CUdeviceptr source, size_t bytes,
						   CUstream stream);
typedef PFN_cuMemcpyAsync_v4000 PFN_cuMemcpyAsync_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemcpyPeer_v4000)(CUdeviceptr destination, CUcontext destination_context,
						  CUdeviceptr source, CUcontext source_context, size_t bytes);
typedef PFN_cuMemcpyPeer_v4000 PFN_cuMemcpyPeer_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemcpyPeerAsync_v4000)(CUdeviceptr destination, CUcontext destination_context,
						       CUdeviceptr source, CUcontext source_context, size_t bytes,
						       CUstream stream);
typedef PFN_cuMemcpyPeerAsync_v4000 PFN_cuMemcpyPeerAsync_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemcpyHtoD_v3020)(CUdeviceptr destination, const void *source, size_t bytes);
typedef PFN_cuMemcpyHtoD_v3020 PFN_cuMemcpyHtoD_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemcpyDtoH_v3020)(void *destination, CUdeviceptr source, size_t bytes);
typedef PFN_cuMemcpyDtoH_v3020 PFN_cuMemcpyDtoH_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemcpyDtoD_v3020)(CUdeviceptr destination, CUdeviceptr source, size_t bytes);
typedef PFN_cuMemcpyDtoD_v3020 PFN_cuMemcpyDtoD_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemcpyHtoDAsync_v3020)(CUdeviceptr destination, const void *source, size_t bytes,
						       CUstream stream);
typedef PFN_cuMemcpyHtoDAsync_v3020 PFN_cuMemcpyHtoDAsync_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemcpyDtoHAsync_v3020)(void *destination, CUdeviceptr source, size_t bytes,
						       CUstream stream);
typedef PFN_cuMemcpyDtoHAsync_v3020 PFN_cuMemcpyDtoHAsync_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemcpyDtoDAsync_v3020)(CUdeviceptr destination, CUdeviceptr source, size_t bytes,
						       CUstream stream);
typedef PFN_cuMemcpyDtoDAsync_v3020 PFN_cuMemcpyDtoDAsync_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemcpy2D_v3020)(const CUDA_MEMCPY2D *copy);
typedef PFN_cuMemcpy2D_v3020 PFN_cuMemcpy2D_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemcpy2DUnaligned_v3020)(const CUDA_MEMCPY2D *copy);
typedef PFN_cuMemcpy2DUnaligned_v3020 PFN_cuMemcpy2DUnaligned_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemcpy2DAsync_v3020)(const CUDA_MEMCPY2D *copy, CUstream stream);
typedef PFN_cuMemcpy2DAsync_v3020 PFN_cuMemcpy2DAsync_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemcpy3D_v3020)(const CUDA_MEMCPY3D *copy);
typedef PFN_cuMemcpy3D_v3020 PFN_cuMemcpy3D_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemcpy3DAsync_v3020)(const CUDA_MEMCPY3D *copy, CUstream stream);
typedef PFN_cuMemcpy3DAsync_v3020 PFN_cuMemcpy3DAsync_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemsetD8_v3020)(CUdeviceptr destination, unsigned char value, size_t count);
typedef PFN_cuMemsetD8_v3020 PFN_cuMemsetD8_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemsetD16_v3020)(CUdeviceptr destination, unsigned short value, size_t count);
typedef PFN_cuMemsetD16_v3020 PFN_cuMemsetD16_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemsetD32_v3020)(CUdeviceptr destination, unsigned int value, size_t count);
typedef PFN_cuMemsetD32_v3020 PFN_cuMemsetD32_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemsetD2D8_v3020)(CUdeviceptr destination, size_t pitch, unsigned char value,
						  size_t width, size_t rows);
typedef PFN_cuMemsetD2D8_v3020 PFN_cuMemsetD2D8_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemsetD2D16_v3020)(CUdeviceptr destination, size_t pitch, unsigned short value,
						   size_t width, size_t rows);
typedef PFN_cuMemsetD2D16_v3020 PFN_cuMemsetD2D16_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemsetD2D32_v3020)(CUdeviceptr destination, size_t pitch, unsigned int value,
						   size_t width, size_t rows);
typedef PFN_cuMemsetD2D32_v3020 PFN_cuMemsetD2D32_v7000_ptds;
typedef CUresult(CUDAAPI *PFN_cuMemsetD8Async_v3020)(CUdeviceptr destination, unsigned char value, size_t count,
						     CUstream stream);
typedef PFN_cuMemsetD8Async_v3020 PFN_cuMemsetD8Async_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemsetD16Async_v3020)(CUdeviceptr destination, unsigned short value, size_t count,
						      CUstream stream);
typedef PFN_cuMemsetD16Async_v3020 PFN_cuMemsetD16Async_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemsetD32Async_v3020)(CUdeviceptr destination, unsigned int value, size_t count,
						      CUstream stream);
typedef PFN_cuMemsetD32Async_v3020 PFN_cuMemsetD32Async_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemsetD2D8Async_v3020)(CUdeviceptr destination, size_t pitch, unsigned char value,
						       size_t width, size_t rows, CUstream stream);
typedef PFN_cuMemsetD2D8Async_v3020 PFN_cuMemsetD2D8Async_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemsetD2D16Async_v3020)(CUdeviceptr destination, size_t pitch, unsigned short value,
							size_t width, size_t rows, CUstream stream);
typedef PFN_cuMemsetD2D16Async_v3020 PFN_cuMemsetD2D16Async_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemsetD2D32Async_v3020)(CUdeviceptr destination, size_t pitch, unsigned int value,
							size_t width, size_t rows, CUstream stream);
typedef PFN_cuMemsetD2D32Async_v3020 PFN_cuMemsetD2D32Async_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuPointerGetAttribute_v4000)(void *ret_data, CUpointer_attribute attribute,
							   CUdeviceptr pointer);
typedef CUresult(CUDAAPI *PFN_cuPointerGetAttributes_v7000)(unsigned int count, CUpointer_attribute *attributes,
							    void **ret_data, CUdeviceptr pointer);
typedef CUresult(CUDAAPI *PFN_cuPointerSetAttribute_v6000)(const void *value, CUpointer_attribute attribute,
							   CUdeviceptr pointer);
typedef CUresult(CUDAAPI *PFN_cuMemGetHandleForAddressRange_v11070)(void *ret_handle, CUdeviceptr pointer, size_t bytes,
								    CUmemRangeHandleType type,
								    unsigned long long flags);
typedef CUresult(CUDAAPI *PFN_cuMemAddressReserve_v10020)(CUdeviceptr *ret_pointer, size_t bytes, size_t alignment,
							  CUdeviceptr address, unsigned long long flags);
typedef CUresult(CUDAAPI *PFN_cuMemAddressFree_v10020)(CUdeviceptr pointer, size_t bytes);
typedef CUresult(CUDAAPI *PFN_cuMemCreate_v10020)(CUmemGenericAllocationHandle *ret_handle, size_t bytes,
						  const CUmemAllocationProp *prop, unsigned long long flags);
typedef CUresult(CUDAAPI *PFN_cuMemRelease_v10020)(CUmemGenericAllocationHandle handle);
typedef CUresult(CUDAAPI *PFN_cuMemMap_v10020)(CUdeviceptr pointer, size_t bytes, size_t offset,
					       CUmemGenericAllocationHandle handle, unsigned long long flags);
typedef CUresult(CUDAAPI *PFN_cuMemUnmap_v10020)(CUdeviceptr pointer, size_t bytes);
typedef CUresult(CUDAAPI *PFN_cuMemSetAccess_v10020)(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *desc,
						     size_t count);
typedef CUresult(CUDAAPI *PFN_cuMemGetAccess_v10020)(unsigned long long *ret_flags, const CUmemLocation *location,
						     CUdeviceptr pointer);
typedef CUresult(CUDAAPI *PFN_cuMemExportToShareableHandle_v10020)(void *ret_handle,
								   CUmemGenericAllocationHandle handle,
								   CUmemAllocationHandleType type,
								   unsigned long long flags);
typedef CUresult(CUDAAPI *PFN_cuMemImportFromShareableHandle_v10020)(CUmemGenericAllocationHandle *ret_handle,
								     void *shareable, CUmemAllocationHandleType type);
typedef CUresult(CUDAAPI *PFN_cuMemGetAllocationGranularity_v10020)(size_t *ret_granularity,
								    const CUmemAllocationProp *prop,
								    CUmemAllocationGranularity_flags option);
typedef CUresult(CUDAAPI *PFN_cuMemGetAllocationPropertiesFromHandle_v10020)(CUmemAllocationProp *ret_prop,
									     CUmemGenericAllocationHandle handle);
typedef CUresult(CUDAAPI *PFN_cuMemRetainAllocationHandle_v11000)(CUmemGenericAllocationHandle *ret_handle,
								  void *address);
typedef CUresult(CUDAAPI *PFN_cuMemPoolCreate_v11020)(CUmemoryPool *ret_pool, const CUmemPoolProps *props);
typedef CUresult(CUDAAPI *PFN_cuMemPoolDestroy_v11020)(CUmemoryPool pool);
typedef CUresult(CUDAAPI *PFN_cuMemPoolTrimTo_v11020)(CUmemoryPool pool, size_t keep_bytes);
typedef CUresult(CUDAAPI *PFN_cuMemPoolGetAttribute_v11020)(CUmemoryPool pool, CUmemPool_attribute attribute,
							    void *ret_value);
typedef CUresult(CUDAAPI *PFN_cuMemPoolSetAttribute_v11020)(CUmemoryPool pool, CUmemPool_attribute attribute,
							    void *value);
typedef CUresult(CUDAAPI *PFN_cuMemPoolGetAccess_v11020)(CUmemAccess_flags *ret_flags, CUmemoryPool pool,
							 CUmemLocation *location);
typedef CUresult(CUDAAPI *PFN_cuMemPoolSetAccess_v11020)(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count);
typedef CUresult(CUDAAPI *PFN_cuMemPoolExportToShareableHandle_v11020)(void *ret_handle, CUmemoryPool pool,
								       CUmemAllocationHandleType type,
								       unsigned long long flags);
typedef CUresult(CUDAAPI *PFN_cuMemPoolImportFromShareableHandle_v11020)(CUmemoryPool *ret_pool, void *handle,
									 CUmemAllocationHandleType type,
									 unsigned long long flags);
typedef CUresult(CUDAAPI *PFN_cuMemPoolExportPointer_v11020)(CUmemPoolPtrExportData *ret_data, CUdeviceptr pointer);
typedef CUresult(CUDAAPI *PFN_cuMemPoolImportPointer_v11020)(CUdeviceptr *ret_pointer, CUmemoryPool pool,
							     CUmemPoolPtrExportData *data);
typedef CUresult(CUDAAPI *PFN_cuMemAllocAsync_v11020)(CUdeviceptr *ret_pointer, size_t bytes, CUstream stream);
typedef PFN_cuMemAllocAsync_v11020 PFN_cuMemAllocAsync_v11020_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemAllocFromPoolAsync_v11020)(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool,
							      CUstream stream);
typedef PFN_cuMemAllocFromPoolAsync_v11020 PFN_cuMemAllocFromPoolAsync_v11020_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemFreeAsync_v11020)(CUdeviceptr pointer, CUstream stream);
typedef PFN_cuMemFreeAsync_v11020 PFN_cuMemFreeAsync_v11020_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemGetDefaultMemPool_v13000)(CUmemoryPool *ret_pool, CUmemLocation *location,
							     CUmemAllocationType type);
typedef CUresult(CUDAAPI *PFN_cuMemGetMemPool_v13000)(CUmemoryPool *ret_pool, CUmemLocation *location,
						      CUmemAllocationType type);
typedef CUresult(CUDAAPI *PFN_cuMemSetMemPool_v13000)(CUmemLocation *location, CUmemAllocationType type,
						      CUmemoryPool pool);
typedef CUresult(CUDAAPI *PFN_cuIpcGetMemHandle_v4010)(CUipcMemHandle *ret_handle, CUdeviceptr pointer);
typedef CUresult(CUDAAPI *PFN_cuIpcOpenMemHandle_v11000)(CUdeviceptr *ret_pointer, CUipcMemHandle handle,
							 unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuIpcCloseMemHandle_v4010)(CUdeviceptr pointer);
typedef CUresult(CUDAAPI *PFN_cuIpcGetEventHandle_v4010)(CUipcEventHandle *ret_handle, CUevent event);
typedef CUresult(CUDAAPI *PFN_cuIpcOpenEventHandle_v4010)(CUevent *ret_event, CUipcEventHandle handle);
typedef CUresult(CUDAAPI *PFN_cuStreamCreate_v2000)(CUstream *ret_stream, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuStreamCreateWithPriority_v5050)(CUstream *ret_stream, unsigned int flags, int priority);
typedef CUresult(CUDAAPI *PFN_cuStreamDestroy_v4000)(CUstream stream);
typedef CUresult(CUDAAPI *PFN_cuStreamQuery_v2000)(CUstream stream);
typedef PFN_cuStreamQuery_v2000 PFN_cuStreamQuery_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamSynchronize_v2000)(CUstream stream);
typedef PFN_cuStreamSynchronize_v2000 PFN_cuStreamSynchronize_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamWaitEvent_v3020)(CUstream stream, CUevent event, unsigned int flags);
typedef PFN_cuStreamWaitEvent_v3020 PFN_cuStreamWaitEvent_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamAddCallback_v5000)(CUstream stream, CUstreamCallback callback, void *user_data,
							 unsigned int flags);
typedef PFN_cuStreamAddCallback_v5000 PFN_cuStreamAddCallback_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamGetCtx_v9020)(CUstream stream, CUcontext *ret_context);
typedef PFN_cuStreamGetCtx_v9020 PFN_cuStreamGetCtx_v9020_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamGetDevice_v12080)(CUstream stream, CUdevice *ret_device);
typedef PFN_cuStreamGetDevice_v12080 PFN_cuStreamGetDevice_v12080_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamGetFlags_v5050)(CUstream stream, unsigned int *ret_flags);
typedef PFN_cuStreamGetFlags_v5050 PFN_cuStreamGetFlags_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamGetId_v12000)(CUstream stream, unsigned long long *ret_id);
typedef PFN_cuStreamGetId_v12000 PFN_cuStreamGetId_v12000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamGetPriority_v5050)(CUstream stream, int *ret_priority);
typedef PFN_cuStreamGetPriority_v5050 PFN_cuStreamGetPriority_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamIsCapturing_v10000)(CUstream stream, CUstreamCaptureStatus *ret_status);
typedef PFN_cuStreamIsCapturing_v10000 PFN_cuStreamIsCapturing_v10000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamGetCaptureInfo_v12030)(CUstream stream, CUstreamCaptureStatus *ret_status,
							     cuuint64_t *ret_id, CUgraph *ret_graph,
							     const CUgraphNode **ret_nodes,
							     const CUgraphEdgeData **ret_edges, size_t *ret_count);
typedef PFN_cuStreamGetCaptureInfo_v12030 PFN_cuStreamGetCaptureInfo_v12030_ptsz;
typedef CUresult(CUDAAPI *PFN_cuThreadExchangeStreamCaptureMode_v10010)(CUstreamCaptureMode *mode);
typedef CUresult(CUDAAPI *PFN_cuStreamWaitValue32_v11070)(CUstream stream, CUdeviceptr address, cuuint32_t value,
							  unsigned int flags);
typedef PFN_cuStreamWaitValue32_v11070 PFN_cuStreamWaitValue32_v11070_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamWaitValue64_v11070)(CUstream stream, CUdeviceptr address, cuuint64_t value,
							  unsigned int flags);
typedef PFN_cuStreamWaitValue64_v11070 PFN_cuStreamWaitValue64_v11070_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamWriteValue32_v11070)(CUstream stream, CUdeviceptr address, cuuint32_t value,
							   unsigned int flags);
typedef PFN_cuStreamWriteValue32_v11070 PFN_cuStreamWriteValue32_v11070_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamWriteValue64_v11070)(CUstream stream, CUdeviceptr address, cuuint64_t value,
							   unsigned int flags);
typedef PFN_cuStreamWriteValue64_v11070 PFN_cuStreamWriteValue64_v11070_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamBatchMemOp_v11070)(CUstream stream, unsigned int count,
							 CUstreamBatchMemOpParams *operations, unsigned int flags);
typedef PFN_cuStreamBatchMemOp_v11070 PFN_cuStreamBatchMemOp_v11070_ptsz;
typedef CUresult(CUDAAPI *PFN_cuEventCreate_v2000)(CUevent *ret_event, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuEventDestroy_v4000)(CUevent event);
typedef CUresult(CUDAAPI *PFN_cuEventRecord_v2000)(CUevent event, CUstream stream);
typedef PFN_cuEventRecord_v2000 PFN_cuEventRecord_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuEventRecordWithFlags_v11010)(CUevent event, CUstream stream, unsigned int flags);
typedef PFN_cuEventRecordWithFlags_v11010 PFN_cuEventRecordWithFlags_v11010_ptsz;
typedef CUresult(CUDAAPI *PFN_cuEventQuery_v2000)(CUevent event);
typedef CUresult(CUDAAPI *PFN_cuEventSynchronize_v2000)(CUevent event);
typedef CUresult(CUDAAPI *PFN_cuEventElapsedTime_v12080)(float *ret_ms, CUevent start, CUevent end);
typedef CUresult(CUDAAPI *PFN_cuModuleLoad_v2000)(CUmodule *ret_module, const char *path);
typedef CUresult(CUDAAPI *PFN_cuModuleLoadData_v2000)(CUmodule *ret_module, const void *image);
typedef CUresult(CUDAAPI *PFN_cuModuleLoadDataEx_v2010)(CUmodule *ret_module, const void *image, unsigned int count,
							CUjit_option *options, void **values);
typedef CUresult(CUDAAPI *PFN_cuModuleUnload_v2000)(CUmodule module);
typedef CUresult(CUDAAPI *PFN_cuModuleGetFunction_v2000)(CUfunction *ret_function, CUmodule module, const char *name);
typedef CUresult(CUDAAPI *PFN_cuModuleGetGlobal_v3020)(CUdeviceptr *ret_pointer, size_t *ret_bytes, CUmodule module,
						       const char *name);
typedef CUresult(CUDAAPI *PFN_cuModuleLoadFatBinary_v2000)(CUmodule *ret_module, const void *image);
typedef CUresult(CUDAAPI *PFN_cuModuleGetLoadingMode_v11070)(CUmoduleLoadingMode *ret_mode);
typedef CUresult(CUDAAPI *PFN_cuModuleGetFunctionCount_v12040)(unsigned int *ret_count, CUmodule module);
typedef CUresult(CUDAAPI *PFN_cuModuleEnumerateFunctions_v12040)(CUfunction *ret_functions, unsigned int count,
								 CUmodule module);
typedef CUresult(CUDAAPI *PFN_cuLibraryLoadData_v12000)(CUlibrary *ret_library, const void *code,
							CUjit_option *jit_options, void **jit_values,
							unsigned int jit_count, CUlibraryOption *library_options,
							void **library_values, unsigned int library_count);
typedef CUresult(CUDAAPI *PFN_cuLibraryLoadFromFile_v12000)(CUlibrary *ret_library, const char *path,
							    CUjit_option *jit_options, void **jit_values,
							    unsigned int jit_count, CUlibraryOption *library_options,
							    void **library_values, unsigned int library_count);
typedef CUresult(CUDAAPI *PFN_cuLibraryUnload_v12000)(CUlibrary library);
typedef CUresult(CUDAAPI *PFN_cuLibraryGetKernel_v12000)(CUkernel *ret_kernel, CUlibrary library, const char *name);
typedef CUresult(CUDAAPI *PFN_cuLibraryGetKernelCount_v12040)(unsigned int *ret_count, CUlibrary library);
typedef CUresult(CUDAAPI *PFN_cuLibraryEnumerateKernels_v12040)(CUkernel *ret_kernels, unsigned int count,
								CUlibrary library);
typedef CUresult(CUDAAPI *PFN_cuLibraryGetModule_v12000)(CUmodule *ret_module, CUlibrary library);
typedef CUresult(CUDAAPI *PFN_cuLibraryGetGlobal_v12000)(CUdeviceptr *ret_pointer, size_t *ret_bytes, CUlibrary library,
							 const char *name);
typedef CUresult(CUDAAPI *PFN_cuLibraryGetManaged_v12000)(CUdeviceptr *ret_pointer, size_t *ret_bytes,
							  CUlibrary library, const char *name);
typedef CUresult(CUDAAPI *PFN_cuKernelGetFunction_v12000)(CUfunction *ret_function, CUkernel kernel);
typedef CUresult(CUDAAPI *PFN_cuKernelGetLibrary_v12050)(CUlibrary *ret_library, CUkernel kernel);
typedef CUresult(CUDAAPI *PFN_cuKernelGetName_v12030)(const char **ret_name, CUkernel kernel);
typedef CUresult(CUDAAPI *PFN_cuKernelGetAttribute_v12000)(int *ret_value, CUfunction_attribute attribute,
							   CUkernel kernel, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuKernelSetAttribute_v12000)(CUfunction_attribute attribute, int value, CUkernel kernel,
							   CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuKernelGetParamInfo_v12040)(CUkernel kernel, size_t index, size_t *ret_offset,
							   size_t *ret_bytes);
typedef CUresult(CUDAAPI *PFN_cuLaunchKernel_v4000)(CUfunction function, unsigned int grid_x, unsigned int grid_y,
						    unsigned int grid_z, unsigned int block_x, unsigned int block_y,
						    unsigned int block_z, unsigned int shared_bytes, CUstream stream,
						    void **params, void **extra);
typedef PFN_cuLaunchKernel_v4000 PFN_cuLaunchKernel_v7000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuLaunchCooperativeKernel_v9000)(CUfunction function, unsigned int grid_x,
							       unsigned int grid_y, unsigned int grid_z,
							       unsigned int block_x, unsigned int block_y,
							       unsigned int block_z, unsigned int shared_bytes,
							       CUstream stream, void **params);
typedef PFN_cuLaunchCooperativeKernel_v9000 PFN_cuLaunchCooperativeKernel_v9000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuLaunchKernelEx_v11060)(const CUlaunchConfig *config, CUfunction function, void **params,
						       void **extra);
typedef PFN_cuLaunchKernelEx_v11060 PFN_cuLaunchKernelEx_v11060_ptsz;
typedef CUresult(CUDAAPI *PFN_cuLaunchHostFunc_v10000)(CUstream stream, CUhostFn function, void *user_data);
typedef PFN_cuLaunchHostFunc_v10000 PFN_cuLaunchHostFunc_v10000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuFuncGetAttribute_v2020)(int *ret_value, CUfunction_attribute attribute,
							CUfunction function);
typedef CUresult(CUDAAPI *PFN_cuFuncSetAttribute_v9000)(CUfunction function, CUfunction_attribute attribute, int value);
typedef CUresult(CUDAAPI *PFN_cuFuncGetName_v12030)(const char **ret_name, CUfunction function);
typedef CUresult(CUDAAPI *PFN_cuFuncGetModule_v11000)(CUmodule *ret_module, CUfunction function);
typedef CUresult(CUDAAPI *PFN_cuFuncGetParamInfo_v12040)(CUfunction function, size_t index, size_t *ret_offset,
							 size_t *ret_bytes);
typedef CUresult(CUDAAPI *PFN_cuFuncIsLoaded_v12040)(CUfunctionLoadingState *ret_state, CUfunction function);
typedef CUresult(CUDAAPI *PFN_cuFuncLoad_v12040)(CUfunction function);
typedef CUresult(CUDAAPI *PFN_cuFuncSetSharedMemConfig_v4020)(CUfunction function, CUsharedconfig config);
typedef CUresult(CUDAAPI *PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050)(int *ret_blocks, CUfunction function,
										 int block_threads,
										 size_t shared_bytes);
typedef CUresult(CUDAAPI *PFN_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_v7000)(
	int *ret_blocks, CUfunction function, int block_threads, size_t shared_bytes, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuOccupancyMaxPotentialBlockSize_v6050)(int *ret_min_blocks, int *ret_block_threads,
								      CUfunction function,
								      CUoccupancyB2DSize shared_by_size,
								      size_t shared_bytes, int limit);
typedef CUresult(CUDAAPI *PFN_cuOccupancyMaxPotentialBlockSizeWithFlags_v7000)(
	int *ret_min_blocks, int *ret_block_threads, CUfunction function, CUoccupancyB2DSize shared_by_size,
	size_t shared_bytes, int limit, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuOccupancyAvailableDynamicSMemPerBlock_v10020)(size_t *ret_bytes, CUfunction function,
									      int blocks, int block_threads);
typedef CUresult(CUDAAPI *PFN_cuGetProcAddress_v11030)(const char *symbol, void **pfn, int driverVersion,
						       cuuint64_t flags);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetUuid_v9020)(CUuuid *uuid, CUdevice dev);
typedef CUresult(CUDAAPI *PFN_cuCtxCreate_v3020)(CUcontext *pctx, unsigned int flags, CUdevice dev);
typedef CUresult(CUDAAPI *PFN_cuCtxCreate_v11040)(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
						  unsigned int flags, CUdevice dev);
typedef CUresult(CUDAAPI *PFN_cuCtxGetDevice_v13000)(CUdevice *device, CUcontext ctx);
typedef CUresult(CUDAAPI *PFN_cuCtxSynchronize_v13000)(CUcontext ctx);
typedef CUresult(CUDAAPI *PFN_cuMemPrefetchAsync_v8000)(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
							CUstream hStream);
typedef PFN_cuMemPrefetchAsync_v8000 PFN_cuMemPrefetchAsync_v8000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuMemAdvise_v8000)(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
						 CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuStreamGetCaptureInfo_v10010)(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
							     cuuint64_t *id_out);
typedef PFN_cuStreamGetCaptureInfo_v10010 PFN_cuStreamGetCaptureInfo_v10010_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamGetCaptureInfo_v11030)(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
							     cuuint64_t *id_out, CUgraph *graph_out,
							     const CUgraphNode **dependencies_out,
							     size_t *numDependencies_out);
typedef PFN_cuStreamGetCaptureInfo_v11030 PFN_cuStreamGetCaptureInfo_v11030_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamWaitValue32_v8000)(CUstream stream, CUdeviceptr addr, cuuint32_t value,
							 unsigned int flags);
typedef PFN_cuStreamWaitValue32_v8000 PFN_cuStreamWaitValue32_v8000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamWaitValue64_v9000)(CUstream stream, CUdeviceptr addr, cuuint64_t value,
							 unsigned int flags);
typedef PFN_cuStreamWaitValue64_v9000 PFN_cuStreamWaitValue64_v9000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamWriteValue32_v8000)(CUstream stream, CUdeviceptr addr, cuuint32_t value,
							  unsigned int flags);
typedef PFN_cuStreamWriteValue32_v8000 PFN_cuStreamWriteValue32_v8000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamWriteValue64_v9000)(CUstream stream, CUdeviceptr addr, cuuint64_t value,
							  unsigned int flags);
typedef PFN_cuStreamWriteValue64_v9000 PFN_cuStreamWriteValue64_v9000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuStreamBatchMemOp_v8000)(CUstream stream, unsigned int count,
							CUstreamBatchMemOpParams *paramArray, unsigned int flags);
typedef PFN_cuStreamBatchMemOp_v8000 PFN_cuStreamBatchMemOp_v8000_ptsz;
typedef CUresult(CUDAAPI *PFN_cuEventElapsedTime_v2000)(float *pMilliseconds, CUevent hStart, CUevent hEnd);

#ifdef __cplusplus
}
#endif

#endif

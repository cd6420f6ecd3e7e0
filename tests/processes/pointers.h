/* SPDX-License-Identifier: MIT */
/*
 * Calls with one wrong pointer each: what pointers_test.c has of scripts/generate_pointers.py.
 *
 * All arguments but one are as good as they can be without knowing the call: memory of ours, living objects, small
 * numbers. So no call is refused for another reason before it comes to the wrong one.
 */
#ifndef CENOTE_TESTS_POINTERS_H
#define CENOTE_TESTS_POINTERS_H

#include "cenote/cenote.h"
#include "cenote/cuda_runtime_api.h"

#include <stdbool.h>
#include <stddef.h>

struct wrong_call {
	const char *symbol, *parameter;
	bool refused; /* must it answer with an error? An address alone may be fine. */
	bool inside;  /* only the call itself looks at it, so another error may come first */
	int (*call)(void *wrong);
};
extern const struct wrong_call wrong_calls[];
extern const int wrong_call_count;

extern unsigned char good_memory[1 << 16] __attribute__((aligned(64)));
extern CUcontext good_context;
extern CUdeviceptr good_block; /* of good_pool */
extern CUevent good_event;
extern CUfunction good_function;
extern CUmemoryPool good_pool;
extern CUstream good_stream;

#define GOOD_CUcontext                        good_context
#define GOOD_CUdevice                         0
#define GOOD_CUdevice_P2PAttribute            CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK
#define GOOD_CUdevice_attribute               CU_DEVICE_ATTRIBUTE_WARP_SIZE
#define GOOD_CUdeviceptr                      good_block
#define GOOD_CUevent                          good_event
#define GOOD_CUfunction                       good_function
#define GOOD_CUfunction_attribute             CU_FUNC_ATTRIBUTE_NUM_REGS
#define GOOD_CUhostFn                         NULL
#define GOOD_CUipcEventHandle                 ((CUipcEventHandle){{0}})
#define GOOD_CUipcMemHandle                   ((CUipcMemHandle){{0}})
#define GOOD_CUkernel                         NULL
#define GOOD_CUlibrary                        NULL
#define GOOD_cudaLibrary_t                    NULL
#define GOOD_CUlimit                          CU_LIMIT_STACK_SIZE
#define GOOD_CUmemAllocationGranularity_flags CU_MEM_ALLOC_GRANULARITY_MINIMUM
#define GOOD_CUmemAllocationHandleType        CU_MEM_HANDLE_TYPE_FABRIC
#define GOOD_CUmemAllocationType              CU_MEM_ALLOCATION_TYPE_PINNED
#define GOOD_CUmemGenericAllocationHandle     0
#define GOOD_CUmemPool_attribute              CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
#define GOOD_CUmemRangeHandleType             CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
#define GOOD_CUmem_range_attribute            CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY
#define GOOD_CUmemoryPool                     good_pool
#define GOOD_CUmodule                         NULL
#define GOOD_CUoccupancyB2DSize               NULL
#define GOOD_CUpointer_attribute              CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
#define GOOD_CUresult                         CUDA_ERROR_INVALID_VALUE
#define GOOD_CUstream                         good_stream
#define GOOD_CUstreamCallback                 NULL
#define GOOD_cudaDeviceAttr                   cudaDevAttrWarpSize
#define GOOD_cudaDeviceP2PAttr                cudaDevP2PAttrPerformanceRank
#define GOOD_cudaEvent_t                      good_event
#define GOOD_cudaFuncAttribute                cudaFuncAttributeMaxDynamicSharedMemorySize
#define GOOD_cudaHostFn_t                     NULL
#define GOOD_cudaIpcEventHandle_t             ((cudaIpcEventHandle_t){{0}})
#define GOOD_cudaIpcMemHandle_t               ((cudaIpcMemHandle_t){{0}})
#define GOOD_cudaLimit                        cudaLimitStackSize
#define GOOD_cudaMemAllocationHandleType      cudaMemHandleTypeFabric
#define GOOD_cudaMemAllocationType            cudaMemAllocationTypePinned
#define GOOD_cudaMemLocation                  ((struct cudaMemLocation){.type = cudaMemLocationTypeDevice})
#define GOOD_cudaMemPoolAttr                  cudaMemPoolAttrReleaseThreshold
#define GOOD_cudaMemPool_t                    good_pool
#define GOOD_cudaMemRangeAttribute            cudaMemRangeAttributeAccessedBy
#define GOOD_cudaMemcpyKind                   cudaMemcpyDefault
#define GOOD_cudaMemoryAdvise                 cudaMemAdviseSetReadMostly
#define GOOD_cudaStreamCallback_t             NULL
#define GOOD_cudaStream_t                     good_stream
#define GOOD_cenote_kept                      NULL
#define GOOD_cuuint64_t                       0
#define GOOD_dim3                             ((dim3){1, 1, 1})
#define GOOD_cudaExtent                       ((struct cudaExtent){1, 1, 1})
#define GOOD_cudaSharedMemConfig              cudaSharedMemBankSizeDefault
#define GOOD_int                              16
#define GOOD_size_t                           16
#define GOOD_unsigned_int                     2
#define GOOD_unsigned_long_long               0

#endif

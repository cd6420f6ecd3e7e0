/* SPDX-License-Identifier: MIT */
/*
 * Every call with arguments that would be right, to be made where the state is wrong.
 *
 * The chapters "state" and "fork" make them before cuInit, without a context, in a destroyed context, inside a callback
 * and in a forked child. Calls that destroy come last and have victims of their own.
 */
#ifndef CONFORMANCE_CALLS_H
#define CONFORMANCE_CALLS_H

#include "ask.h"

struct objects {
	CUcontext context, victim_context;
	CUstream stream, victim_stream;
	CUevent event, later_event, victim_event;
	CUmodule module, victim_module;
	CUfunction function;
	CUdeviceptr memory, victim_memory, managed;
	void *host, *victim_host, *registered, *unregistered;
	char *pageable;
};

struct outputs {
	int number, other_number;
	unsigned int word;
	unsigned long long wide;
	size_t size, other_size;
	float ms;
	char text[256];
	const char *string;
	void *pointer;
	CUuuid uuid;
	CUdeviceptr at;
	CUcontext context;
	CUstream stream;
	CUevent event;
	CUmodule module;
	CUfunction function;
	CUstreamCaptureStatus capture;
	CUstreamCaptureMode mode;
	CUmemLocation location;
	CUDA_MEMCPY2D rectangle;
	struct cudaDeviceProp properties;
	struct cudaPointerAttributes attributes;
	enum cudaStreamCaptureStatus runtime_capture;
	enum cudaStreamCaptureMode runtime_mode;
	struct cudaMemLocation runtime_location;
	void *params[3];
};

void objects_make(struct objects *made);
void objects_outputs(const struct objects *of, struct outputs *ret_outputs);
void CUDA_CB objects_callback(CUstream stream, CUresult status, void *data);
void CUDA_CB objects_function(void *data);
const char *objects_module_path(void);

/* X(name, call); `f` is a struct objects, `o` a struct outputs. */
#define QUERY_CALLS(X)                                                                                                 \
	X(cuDriverGetVersion, cuDriverGetVersion(&o.number))                                                           \
	X(cuGetErrorName, cuGetErrorName(CUDA_SUCCESS, &o.string))                                                     \
	X(cuGetErrorString, cuGetErrorString(CUDA_SUCCESS, &o.string))                                                 \
	X(cuGetProcAddress, cuGetProcAddress("cuInit", &o.pointer, 13000, 0, NULL))                                    \
	X(cuDeviceGetCount, cuDeviceGetCount(&o.number))                                                               \
	X(cuDeviceGet, cuDeviceGet(&o.number, 0))                                                                      \
	X(cuDeviceGetName, cuDeviceGetName(o.text, sizeof o.text, 0))                                                  \
	X(cuDeviceGetUuid, cuDeviceGetUuid(&o.uuid, 0))                                                                \
	X(cuDeviceTotalMem, cuDeviceTotalMem(&o.size, 0))                                                              \
	X(cuDeviceGetAttribute, cuDeviceGetAttribute(&o.number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0))                     \
	X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId(o.text, sizeof o.text, 0))                                          \
	X(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId(&o.number, "0000:00:00.0"))                                     \
	X(cuDeviceGetLuid, cuDeviceGetLuid(o.text, &o.word, 0))                                                        \
	X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer(&o.number, 0, 0))                                               \
	X(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute(&o.number, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0)) \
	X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState(0, &o.word, &o.number))                               \
	X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags(0, 0))                                                \
	X(cuCtxGetCurrent, cuCtxGetCurrent(&o.context))                                                                \
	X(cuCtxGetDevice, cuCtxGetDevice(&o.number))                                                                   \
	X(cuCtxGetFlags, cuCtxGetFlags(&o.word))                                                                       \
	X(cuCtxSetFlags, cuCtxSetFlags(0))                                                                             \
	X(cuCtxGetId, cuCtxGetId(f.context, &o.wide))                                                                  \
	X(cuCtxGetApiVersion, cuCtxGetApiVersion(f.context, &o.word))                                                  \
	X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange(&o.number, &o.other_number))                        \
	X(cuCtxSynchronize, cuCtxSynchronize())                                                                        \
	X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode(&o.mode))

#define MEMORY_CALLS(X)                                                                                      \
	X(cuMemGetInfo, cuMemGetInfo(&o.size, &o.other_size))                                                \
	X(cuMemAlloc, cuMemAlloc(&o.at, 64))                                                                 \
	X(cuMemAllocPitch, cuMemAllocPitch(&o.at, &o.size, 64, 2, 4))                                        \
	X(cuMemGetAddressRange, cuMemGetAddressRange(&o.at, &o.size, f.memory))                              \
	X(cuMemAllocHost, cuMemAllocHost(&o.pointer, 64))                                                    \
	X(cuMemHostAlloc, cuMemHostAlloc(&o.pointer, 64, 0))                                                 \
	X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer(&o.at, f.host, 0))                            \
	X(cuMemHostGetFlags, cuMemHostGetFlags(&o.word, f.host))                                             \
	X(cuMemHostRegister, cuMemHostRegister(f.unregistered, 4096, 0))                                     \
	X(cuMemAllocManaged, cuMemAllocManaged(&o.at, 64, CU_MEM_ATTACH_GLOBAL))                             \
	X(cuMemPrefetchAsync, cuMemPrefetchAsync(f.managed, 4096, o.location, 0, f.stream))                  \
	X(cuMemAdvise, cuMemAdvise(f.managed, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, o.location))              \
	X(cuMemRangeGetAttribute,                                                                            \
	  cuMemRangeGetAttribute(&o.number, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, f.managed, 4096))         \
	X(cuPointerGetAttribute, cuPointerGetAttribute(&o.wide, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, f.memory)) \
	X(cuPointerSetAttribute, cuPointerSetAttribute(&o.word, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, f.memory)) \
	X(cuMemcpy, cuMemcpy(f.memory, f.memory + 512, 16))                                                  \
	X(cuMemcpyAsync, cuMemcpyAsync(f.memory, f.memory + 512, 16, f.stream))                              \
	X(cuMemcpyPeer, cuMemcpyPeer(f.memory, f.context, f.memory + 512, f.context, 16))                    \
	X(cuMemcpyHtoD, cuMemcpyHtoD(f.memory, f.host, 16))                                                  \
	X(cuMemcpyDtoH, cuMemcpyDtoH(f.pageable, f.memory, 16))                                              \
	X(cuMemcpyDtoD, cuMemcpyDtoD(f.memory, f.memory + 512, 16))                                          \
	X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync(f.memory, f.host, 16, f.stream))                              \
	X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync(f.host, f.memory, 16, f.stream))                              \
	X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync(f.memory, f.memory + 512, 16, f.stream))                      \
	X(cuMemcpy2D, cuMemcpy2D(&o.rectangle))                                                              \
	X(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned(&o.rectangle))                                            \
	X(cuMemcpy2DAsync, cuMemcpy2DAsync(&o.rectangle, f.stream))                                          \
	X(cuMemsetD8, cuMemsetD8(f.memory, 0, 16))                                                           \
	X(cuMemsetD16, cuMemsetD16(f.memory, 0, 16))                                                         \
	X(cuMemsetD32, cuMemsetD32(f.memory, 0, 16))                                                         \
	X(cuMemsetD2D8, cuMemsetD2D8(f.memory, 64, 0, 16, 2))                                                \
	X(cuMemsetD2D32, cuMemsetD2D32(f.memory, 64, 0, 4, 2))                                               \
	X(cuMemsetD8Async, cuMemsetD8Async(f.memory, 0, 16, f.stream))                                       \
	X(cuMemsetD32Async, cuMemsetD32Async(f.memory, 0, 16, f.stream))                                     \
	X(cuMemsetD2D8Async, cuMemsetD2D8Async(f.memory, 64, 0, 16, 2, f.stream))

#define STREAM_CALLS(X)                                                                                       \
	X(cuStreamCreate, cuStreamCreate(&o.stream, 0))                                                       \
	X(cuStreamCreateWithPriority, cuStreamCreateWithPriority(&o.stream, 0, 0))                            \
	X(cuStreamQuery, cuStreamQuery(f.stream))                                                             \
	X(cuStreamQuery_null, cuStreamQuery(NULL))                                                            \
	X(cuStreamQuery_per_thread, cuStreamQuery(CU_STREAM_PER_THREAD))                                      \
	X(cuStreamSynchronize, cuStreamSynchronize(f.stream))                                                 \
	X(cuStreamSynchronize_null, cuStreamSynchronize(NULL))                                                \
	X(cuStreamWaitEvent, cuStreamWaitEvent(f.stream, f.event, 0))                                         \
	X(cuStreamWaitEvent_null, cuStreamWaitEvent(NULL, f.event, 0))                                        \
	X(cuStreamAddCallback, cuStreamAddCallback(f.stream, objects_callback, NULL, 0))                      \
	X(cuLaunchHostFunc, cuLaunchHostFunc(f.stream, objects_function, NULL))                               \
	X(cuStreamGetCtx, cuStreamGetCtx(f.stream, &o.context))                                               \
	X(cuStreamGetCtx_null, cuStreamGetCtx(NULL, &o.context))                                              \
	X(cuStreamGetDevice, cuStreamGetDevice(f.stream, &o.number))                                          \
	X(cuStreamGetFlags, cuStreamGetFlags(f.stream, &o.word))                                              \
	X(cuStreamGetFlags_null, cuStreamGetFlags(NULL, &o.word))                                             \
	X(cuStreamGetId, cuStreamGetId(f.stream, &o.wide))                                                    \
	X(cuStreamGetId_null, cuStreamGetId(NULL, &o.wide))                                                   \
	X(cuStreamGetPriority, cuStreamGetPriority(f.stream, &o.number))                                      \
	X(cuStreamIsCapturing, cuStreamIsCapturing(f.stream, &o.capture))                                     \
	X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo(f.stream, &o.capture, NULL, NULL, NULL, NULL, NULL)) \
	X(cuStreamWaitValue32, cuStreamWaitValue32(f.stream, f.memory, 0, CU_STREAM_WAIT_VALUE_GEQ))          \
	X(cuStreamWaitValue64, cuStreamWaitValue64(f.stream, f.memory, 0, CU_STREAM_WAIT_VALUE_GEQ))          \
	X(cuStreamWriteValue32, cuStreamWriteValue32(f.stream, f.memory, 0, 0))                               \
	X(cuStreamWriteValue64, cuStreamWriteValue64(f.stream, f.memory, 0, 0))                               \
	X(cuEventCreate, cuEventCreate(&o.event, 0))                                                          \
	X(cuEventRecord, cuEventRecord(f.event, f.stream))                                                    \
	X(cuEventRecord_null, cuEventRecord(f.event, NULL))                                                   \
	X(cuEventRecordWithFlags, cuEventRecordWithFlags(f.event, f.stream, 0))                               \
	X(cuEventQuery, cuEventQuery(f.later_event))                                                          \
	X(cuEventSynchronize, cuEventSynchronize(f.later_event))                                              \
	X(cuEventElapsedTime, cuEventElapsedTime(&o.ms, f.later_event, f.later_event))                        \
	X(cuModuleLoad, cuModuleLoad(&o.module, objects_module_path()))                                       \
	X(cuModuleGetFunction, cuModuleGetFunction(&o.function, f.module, "nothing"))                         \
	X(cuModuleGetGlobal, cuModuleGetGlobal(&o.at, &o.size, f.module, "conformance_word"))                 \
	X(cuLaunchKernel, cuLaunchKernel(f.function, 1, 1, 1, 1, 1, 1, 0, f.stream, NULL, NULL))              \
	X(cuFuncGetAttribute, cuFuncGetAttribute(&o.number, CU_FUNC_ATTRIBUTE_NUM_REGS, f.function))          \
	X(cuFuncSetAttribute, cuFuncSetAttribute(f.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024))

#define ENDING_CALLS(X)                                                      \
	X(cuMemFree, cuMemFree(f.victim_memory))                             \
	X(cuMemFreeHost, cuMemFreeHost(f.victim_host))                       \
	X(cuMemHostUnregister, cuMemHostUnregister(f.registered))            \
	X(cuEventDestroy, cuEventDestroy(f.victim_event))                    \
	X(cuStreamDestroy, cuStreamDestroy(f.victim_stream))                 \
	X(cuModuleUnload, cuModuleUnload(f.victim_module))                   \
	X(cuCtxPushCurrent, cuCtxPushCurrent(f.context))                     \
	X(cuCtxPopCurrent, cuCtxPopCurrent(&o.context))                      \
	X(cuCtxSetCurrent_null, cuCtxSetCurrent(NULL))                       \
	X(cuCtxSetCurrent, cuCtxSetCurrent(f.context))                       \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain(&o.context, 0)) \
	X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease(0))           \
	X(cuCtxCreate, cuCtxCreate(&o.context, NULL, 0, 0))                  \
	X(cuCtxDestroy, cuCtxDestroy(f.victim_context))                      \
	X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset(0))               \
	X(cuInit, cuInit(0))

#define DRIVER_CALLS(X) QUERY_CALLS(X) MEMORY_CALLS(X) STREAM_CALLS(X) ENDING_CALLS(X)

#define RUNTIME_CALLS(X)                                                                                            \
	X(cudaDriverGetVersion, cudaDriverGetVersion(&o.number))                                                    \
	X(cudaRuntimeGetVersion, cudaRuntimeGetVersion(&o.number))                                                  \
	X(cudaGetLastError, cudaGetLastError())                                                                     \
	X(cudaPeekAtLastError, cudaPeekAtLastError())                                                               \
	X(cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion("cuInit", &o.pointer, 13000, 0, NULL)) \
	X(cudaGetDeviceCount, cudaGetDeviceCount(&o.number))                                                        \
	X(cudaGetDevice, cudaGetDevice(&o.number))                                                                  \
	X(cudaSetDevice, cudaSetDevice(0))                                                                          \
	X(cudaInitDevice, cudaInitDevice(0, 0, 0))                                                                  \
	X(cudaSetDeviceFlags, cudaSetDeviceFlags(0))                                                                \
	X(cudaGetDeviceFlags, cudaGetDeviceFlags(&o.word))                                                          \
	X(cudaGetDeviceProperties, cudaGetDeviceProperties(&o.properties, 0))                                       \
	X(cudaDeviceGetAttribute, cudaDeviceGetAttribute(&o.number, cudaDevAttrWarpSize, 0))                        \
	X(cudaDeviceGetPCIBusId, cudaDeviceGetPCIBusId(o.text, sizeof o.text, 0))                                   \
	X(cudaDeviceSynchronize, cudaDeviceSynchronize())                                                           \
	X(cudaDeviceGetStreamPriorityRange, cudaDeviceGetStreamPriorityRange(&o.number, &o.other_number))           \
	X(cudaDeviceCanAccessPeer, cudaDeviceCanAccessPeer(&o.number, 0, 0))                                        \
	X(cudaMemGetInfo, cudaMemGetInfo(&o.size, &o.other_size))                                                   \
	X(cudaMalloc, cudaMalloc(&o.pointer, 64))                                                                   \
	X(cudaMallocPitch, cudaMallocPitch(&o.pointer, &o.size, 64, 2))                                             \
	X(cudaMallocHost, cudaMallocHost(&o.pointer, 64))                                                           \
	X(cudaHostAlloc, cudaHostAlloc(&o.pointer, 64, 0))                                                          \
	X(cudaHostGetDevicePointer, cudaHostGetDevicePointer(&o.pointer, f.host, 0))                                \
	X(cudaHostGetFlags, cudaHostGetFlags(&o.word, f.host))                                                      \
	X(cudaMallocManaged, cudaMallocManaged(&o.pointer, 64, cudaMemAttachGlobal))                                \
	X(cudaMemcpy, cudaMemcpy(f.pageable, (void *)(uintptr_t)f.memory, 16, cudaMemcpyDefault))                   \
	X(cudaMemcpyAsync, cudaMemcpyAsync(f.host, (void *)(uintptr_t)f.memory, 16, cudaMemcpyDefault, f.stream))   \
	X(cudaMemset, cudaMemset((void *)(uintptr_t)f.memory, 0, 16))                                               \
	X(cudaMemsetAsync, cudaMemsetAsync((void *)(uintptr_t)f.memory, 0, 16, f.stream))                           \
	X(cudaPointerGetAttributes, cudaPointerGetAttributes(&o.attributes, (void *)(uintptr_t)f.memory))           \
	X(cudaStreamCreate, cudaStreamCreate(&o.stream))                                                            \
	X(cudaStreamQuery, cudaStreamQuery(f.stream))                                                               \
	X(cudaStreamQuery_null, cudaStreamQuery(NULL))                                                              \
	X(cudaStreamSynchronize, cudaStreamSynchronize(f.stream))                                                   \
	X(cudaStreamWaitEvent, cudaStreamWaitEvent(f.stream, f.event, 0))                                           \
	X(cudaStreamGetFlags, cudaStreamGetFlags(f.stream, &o.word))                                                \
	X(cudaStreamGetId, cudaStreamGetId(f.stream, &o.wide))                                                      \
	X(cudaStreamIsCapturing, cudaStreamIsCapturing(f.stream, &o.runtime_capture))                               \
	X(cudaThreadExchangeStreamCaptureMode, cudaThreadExchangeStreamCaptureMode(&o.runtime_mode))                \
	X(cudaLaunchHostFunc, cudaLaunchHostFunc(f.stream, objects_function, NULL))                                 \
	X(cudaEventCreate, cudaEventCreate(&o.event))                                                               \
	X(cudaEventRecord, cudaEventRecord(f.event, f.stream))                                                      \
	X(cudaEventQuery, cudaEventQuery(f.later_event))                                                            \
	X(cudaEventSynchronize, cudaEventSynchronize(f.later_event))                                                \
	X(cudaEventElapsedTime, cudaEventElapsedTime(&o.ms, f.later_event, f.later_event))                          \
	X(cudaFree, cudaFree((void *)(uintptr_t)f.victim_memory))                                                   \
	X(cudaFree_null, cudaFree(NULL))                                                                            \
	X(cudaFreeHost, cudaFreeHost(f.victim_host))                                                                \
	X(cudaEventDestroy, cudaEventDestroy(f.victim_event))                                                       \
	X(cudaStreamDestroy, cudaStreamDestroy(f.victim_stream))                                                    \
	X(cudaGetLastError_at_end, cudaGetLastError())

#endif

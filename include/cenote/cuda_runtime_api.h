/* SPDX-License-Identifier: MIT */
/*
 * The runtime API.
 *
 * The runtime is thin: a call finds the thread's context, calls the driver API (cuda.h) and remembers what it answered.
 * Names, arguments and symbols are CUDA 13.0's, in C and C++.
 *
 *     Errors, versions, entry points
 *     Devices
 *     Memory
 *     Pools
 *     IPC
 *     Streams
 *     Events
 *     Launch and modules
 *
 * Rules that hold for every call, and are not repeated below:
 *
 * Context. The first call that needs a device initialises the driver and makes the primary context of the thread's
 * device (0, or what cudaSetDevice() said) current. A context made current through the driver API is used instead. So
 * any call may answer cudaErrorInitializationError (the driver does not start; or this is a child of fork() whose
 * parent had started it), cudaErrorInsufficientDriver, cudaErrorNoDevice or cudaErrorDevicesUnavailable.
 *
 * Results. cudaSuccess is 0. Outputs are written only on success. A NULL where an output or a struct is needed is
 * cudaErrorInvalidValue; a stream or event that does not live is cudaErrorInvalidResourceHandle; neither crashes. What
 * went wrong in earlier work of a stream may be answered by a later call that has to do with that stream or waits for
 * it. Every failure becomes the thread's last error, see cudaGetLastError(). A call that this version of the library or
 * this device does not have answers cudaErrorNotSupported and changes nothing.
 *
 * Streams. Work of one stream is done in order. A `stream` of 0 is the default stream: the legacy one, or the calling
 * thread's own when this header is compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM defined before it. "Asynchronous"
 * calls put work on a stream and return. Inside a function that a stream calls (cudaLaunchHostFunc(),
 * cudaStreamAddCallback()) calls may answer cudaErrorNotPermitted.
 *
 * Threads. Every call may be made from any thread at any time; current device and last error belong to the thread.
 *
 * "As cuX()" means: the same conditions, and the error of the same meaning (CUDA_ERROR_OUT_OF_MEMORY is
 * cudaErrorMemoryAllocation, CUDA_ERROR_INVALID_HANDLE is cudaErrorInvalidResourceHandle, and so on).
 */
#if !defined(__CUDA_RUNTIME_API_H__)
#define __CUDA_RUNTIME_API_H__

#define CUDART_VERSION 13000
#if defined(__CUDA_API_VER_MAJOR__) && defined(__CUDA_API_VER_MINOR__)
#define __CUDART_API_VERSION ((__CUDA_API_VER_MAJOR__ * 1000) + (__CUDA_API_VER_MINOR__ * 10))
#else
#define __CUDART_API_VERSION CUDART_VERSION
#endif

#include "builtin_types.h"
#include "host_defines.h"

/*
 * Calls with a default stream have a second symbol, for programs whose default stream is the thread's own: _ptsz where
 * the stream is an argument, _ptds where it is not. __CUDA_API_VERSION_INTERNAL declares both; it is for the library.
 */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_VERSION_INTERNAL)
#define __CUDART_API_PER_THREAD_DEFAULT_STREAM
#define __CUDART_API_PTDS(api) api##_ptds
#define __CUDART_API_PTSZ(api) api##_ptsz
#else
#define __CUDART_API_PTDS(api) api
#define __CUDART_API_PTSZ(api) api
#endif

#if defined(__CUDART_API_PER_THREAD_DEFAULT_STREAM)
#define cudaGetDriverEntryPoint          __CUDART_API_PTSZ(cudaGetDriverEntryPoint)
#define cudaGetDriverEntryPointByVersion __CUDART_API_PTSZ(cudaGetDriverEntryPointByVersion)
#define cudaMemPrefetchAsync             __CUDART_API_PTSZ(cudaMemPrefetchAsync)
#define cudaMemcpy                       __CUDART_API_PTDS(cudaMemcpy)
#define cudaMemcpyAsync                  __CUDART_API_PTSZ(cudaMemcpyAsync)
#define cudaMemcpy2D                     __CUDART_API_PTDS(cudaMemcpy2D)
#define cudaMemcpy2DAsync                __CUDART_API_PTSZ(cudaMemcpy2DAsync)
#define cudaMemcpy3D                     __CUDART_API_PTDS(cudaMemcpy3D)
#define cudaMemcpy3DAsync                __CUDART_API_PTSZ(cudaMemcpy3DAsync)
#define cudaMemcpyToSymbol               __CUDART_API_PTDS(cudaMemcpyToSymbol)
#define cudaMemcpyToSymbolAsync          __CUDART_API_PTSZ(cudaMemcpyToSymbolAsync)
#define cudaMemcpyFromSymbol             __CUDART_API_PTDS(cudaMemcpyFromSymbol)
#define cudaMemcpyFromSymbolAsync        __CUDART_API_PTSZ(cudaMemcpyFromSymbolAsync)
#define cudaMemset                       __CUDART_API_PTDS(cudaMemset)
#define cudaMemsetAsync                  __CUDART_API_PTSZ(cudaMemsetAsync)
#define cudaMemset2D                     __CUDART_API_PTDS(cudaMemset2D)
#define cudaMemset2DAsync                __CUDART_API_PTSZ(cudaMemset2DAsync)
#define cudaMemset3D                     __CUDART_API_PTDS(cudaMemset3D)
#define cudaMemset3DAsync                __CUDART_API_PTSZ(cudaMemset3DAsync)
#define cudaMallocAsync                  __CUDART_API_PTSZ(cudaMallocAsync)
#define cudaMallocFromPoolAsync          __CUDART_API_PTSZ(cudaMallocFromPoolAsync)
#define cudaFreeAsync                    __CUDART_API_PTSZ(cudaFreeAsync)
#define cudaStreamQuery                  __CUDART_API_PTSZ(cudaStreamQuery)
#define cudaStreamSynchronize            __CUDART_API_PTSZ(cudaStreamSynchronize)
#define cudaStreamWaitEvent              __CUDART_API_PTSZ(cudaStreamWaitEvent)
#define cudaStreamAddCallback            __CUDART_API_PTSZ(cudaStreamAddCallback)
#define cudaStreamGetDevice              __CUDART_API_PTSZ(cudaStreamGetDevice)
#define cudaStreamGetFlags               __CUDART_API_PTSZ(cudaStreamGetFlags)
#define cudaStreamGetId                  __CUDART_API_PTSZ(cudaStreamGetId)
#define cudaStreamGetPriority            __CUDART_API_PTSZ(cudaStreamGetPriority)
#define cudaStreamIsCapturing            __CUDART_API_PTSZ(cudaStreamIsCapturing)
#define cudaStreamGetCaptureInfo         __CUDART_API_PTSZ(cudaStreamGetCaptureInfo)
#define cudaEventRecord                  __CUDART_API_PTSZ(cudaEventRecord)
#define cudaEventRecordWithFlags         __CUDART_API_PTSZ(cudaEventRecordWithFlags)
#define cudaLaunchKernel                 __CUDART_API_PTSZ(cudaLaunchKernel)
#define cudaLaunchKernelExC              __CUDART_API_PTSZ(cudaLaunchKernelExC)
#define cudaLaunchCooperativeKernel      __CUDART_API_PTSZ(cudaLaunchCooperativeKernel)
#define cudaLaunchHostFunc               __CUDART_API_PTSZ(cudaLaunchHostFunc)
#endif

/* Default arguments, for C++ */
#if !defined(__dv)
#if defined(__cplusplus)
#define __dv(v) = v
#else
#define __dv(v)
#endif
#endif

#if defined(CUDA_ENABLE_DEPRECATED) || defined(__CUDA_API_VERSION_INTERNAL)
#define __CUDA_DEPRECATED
#else
#define __CUDA_DEPRECATED __attribute__((deprecated))
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/*
 * ---- Errors, versions, entry points ---------------------------------------------------------------------------------
 */

/*
 * The version of CUDA that the driver has, 1000 × major + 10 × minor; 0 where there is no driver. Initialises nothing.
 *
 *   cudaErrorInvalidValue  driverVersion is NULL
 */
cudaError_t CUDARTAPI cudaDriverGetVersion(int *driverVersion);

/*
 * The version of this runtime, in the form of CUDART_VERSION. Initialises nothing.
 *
 *   cudaErrorInvalidValue  runtimeVersion is NULL
 */
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *runtimeVersion);

/*
 * The name of an error, "cudaErrorInvalidValue"; "unrecognized error code" when there is none of this number. Never
 * NULL, never to be freed, and not itself an error.
 */
const char *CUDARTAPI cudaGetErrorName(cudaError_t error);

/*
 * An error in a few words of English; otherwise as cudaGetErrorName(). What went wrong in this very case is said by
 * cenote_last_error().
 */
const char *CUDARTAPI cudaGetErrorString(cudaError_t error);

/*
 * The last error of any call of this thread since the last cudaGetLastError(), or cudaSuccess, and forget it.
 *
 * An error from which a context cannot recover (cudaErrorLaunchFailure, cudaErrorIllegalAddress, …) comes back with the
 * next call. Success does not wipe out an earlier error. Initialises nothing.
 */
cudaError_t CUDARTAPI cudaGetLastError(void);

/* As cudaGetLastError(), but the error stays. */
cudaError_t CUDARTAPI cudaPeekAtLastError(void);

/*
 * The address of a driver function by its base name ("cuMemAlloc"), in the form that CUDA 13.0 gave it; `flags` is one
 * of enum cudaGetDriverEntryPointFlags. Deprecated since 13.0: say the version, with
 * cudaGetDriverEntryPointByVersion(). Otherwise as there.
 */
__CUDA_DEPRECATED cudaError_t CUDARTAPI
cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
			enum cudaDriverEntryPointQueryResult *driverStatus __dv(NULL));

/*
 * The address of a driver function by its base name, in the form that CUDA `cudaVersion` (13000) had. As
 * cuGetProcAddress().
 *
 * A name that does not exist, or only in later versions, is not an error: *funcPtr is NULL and *driverStatus, unless it
 * is NULL, says which of the two.
 *
 *   cudaErrorInvalidValue  symbol or funcPtr is NULL; cudaVersion is later than the driver's; flags are not in
 *                          enum cudaGetDriverEntryPointFlags
 *   cudaErrorNotSupported  the driver has no such search
 */
cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
						       unsigned long long flags,
						       enum cudaDriverEntryPointQueryResult *driverStatus __dv(NULL));

/*
 * ---- Devices --------------------------------------------------------------------------------------------------------
 */

/*
 * The number of devices that this process sees (CUDA_VISIBLE_DEVICES). Ordinals go from 0 to one less. Makes no
 * context.
 *
 *   cudaErrorInvalidValue  count is NULL
 *   cudaErrorNoDevice      there is none
 */
cudaError_t CUDARTAPI cudaGetDeviceCount(int *count);

/*
 * The calling thread's current device: that of its current context, else what cudaSetDevice() said, else 0. Makes no
 * context.
 *
 *   cudaErrorInvalidValue  device is NULL
 */
cudaError_t CUDARTAPI cudaGetDevice(int *device);

/*
 * Make a device the calling thread's, and its primary context current, initialised now if it was not.
 *
 * What the thread then allocates, creates and launches is on this device. Waits for nothing. A context that the thread
 * had made current through the driver API is no longer current.
 *
 *   cudaErrorInvalidDevice       no device of this ordinal
 *   cudaErrorDevicesUnavailable  its compute mode does not admit this process
 */
cudaError_t CUDARTAPI cudaSetDevice(int device);

/*
 * Initialise a device's primary context and leave the thread's current device as it is. `deviceFlags` are those of
 * cudaSetDeviceFlags() and count only when `flags` is cudaInitDeviceFlagsAreValid.
 *
 *   cudaErrorInvalidDevice  no device of this ordinal, or its compute mode does not admit this process
 *   cudaErrorInvalidValue   unknown bits in flags, or in deviceFlags where they count
 */
cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags);

/*
 * Say how the host waits on the current device: one of cudaDeviceSchedule…, with cudaDeviceMapHost,
 * cudaDeviceLmemResizeToMax and cudaDeviceSyncMemops where wanted. Replaces earlier flags; initialises the device if it
 * was not.
 *
 *   cudaErrorInvalidValue  bits outside cudaDeviceMask, or more than one of cudaDeviceSchedule…
 */
cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags);

/*
 * The flags of the current device: those of the current context if there is one, else those that its primary context
 * would have. cudaDeviceMapHost is always among them for a primary context.
 *
 *   cudaErrorInvalidDevice  the thread's device does not exist
 */
cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int *flags);

/*
 * The device whose properties are nearest to *prop, where members that are 0 do not count. Does not make it current.
 *
 *   cudaErrorInvalidValue  device or prop is NULL
 */
cudaError_t CUDARTAPI cudaChooseDevice(int *device, const struct cudaDeviceProp *prop);

/*
 * Name the devices, best first, among which a thread that has not called cudaSetDevice() finds its own. `len` of 0 goes
 * back to all of them in their order.
 *
 *   cudaErrorInvalidValue   device_arr is NULL and len is not 0; len is negative or more than there are devices
 *   cudaErrorInvalidDevice  the list names a device that does not exist
 */
cudaError_t CUDARTAPI cudaSetValidDevices(int *device_arr, int len);

/*
 * Everything about a device in one struct; see struct cudaDeviceProp. One attribute is cheaper by
 * cudaDeviceGetAttribute(). Makes no context.
 *
 *   cudaErrorInvalidValue   prop is NULL
 *   cudaErrorInvalidDevice  no device of this ordinal
 */
cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);

/*
 * One attribute of a device. As cuDeviceGetAttribute(), whose numbers are the same. Makes no context.
 *
 *   cudaErrorInvalidValue   value is NULL, or attr is not in enum cudaDeviceAttr
 *   cudaErrorInvalidDevice  no device of this ordinal
 */
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device);

/*
 * A device's PCI address, "0000:00:00.0", ended by a zero: 13 bytes are enough. As cuDeviceGetPCIBusId().
 *
 *   cudaErrorInvalidValue   pciBusId is NULL, or len is too small
 *   cudaErrorInvalidDevice  no device of this ordinal
 */
cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *pciBusId, int len, int device);

/*
 * The device at a PCI address: domain:bus:device.function, domain:bus:device or bus:device.function, hexadecimal. As
 * cuDeviceGetByPCIBusId().
 *
 *   cudaErrorInvalidValue   device or pciBusId is NULL, or the text is not such an address
 *   cudaErrorInvalidDevice  no device that this process sees is there
 */
cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int *device, const char *pciBusId);

/*
 * Wait until all work of the current context is done, in all its streams. As cuCtxSynchronize(); memory that pools keep
 * above their threshold goes back to the system here.
 *
 * Returns the error of that work when some of it failed.
 */
cudaError_t CUDARTAPI cudaDeviceSynchronize(void);

/*
 * Destroy the current device's primary context, with its allocations, streams and events; the next call that needs it
 * makes a new one. As cuDevicePrimaryCtxReset().
 *
 * Handles and pointers from before are stale and are refused. Allocations from pools live on and are freed as ever. No
 * other thread should be using the device. Where a context of the driver API is current, it is left alone.
 */
cudaError_t CUDARTAPI cudaDeviceReset(void);

/*
 * A limit of the current device; see enum cudaLimit.
 *
 *   cudaErrorInvalidValue      pValue is NULL
 *   cudaErrorUnsupportedLimit  the device does not have this limit
 */
cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit);

/*
 * Ask for a limit of the current device. The library may choose another value near it, which cudaDeviceGetLimit()
 * tells.
 *
 *   cudaErrorInvalidValue      value is out of the limit's range
 *   cudaErrorUnsupportedLimit  the device does not have this limit
 *   cudaErrorMemoryAllocation  no memory for it
 */
cudaError_t CUDARTAPI cudaDeviceSetLimit(enum cudaLimit limit, size_t value);

/*
 * The range of stream priorities; smaller is more urgent, so the greatest priority is the smaller number. Either
 * pointer may be NULL. Both are 0 where priorities have no effect.
 */
cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority);

/*
 * 1 if `device` can be given direct access to memory of `peerDevice`, else 0; 0 for a device and itself. As
 * cuDeviceCanAccessPeer().
 *
 *   cudaErrorInvalidValue   canAccessPeer is NULL
 *   cudaErrorInvalidDevice  one of the two does not exist
 */
cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice);

/*
 * Let the current device reach all memory of `peerDevice`, present and future, until cudaDeviceDisablePeerAccess() or a
 * reset of either. One direction; the other is a call of its own. Memory of pools is governed by
 * cudaMemPoolSetAccess().
 *
 *   cudaErrorInvalidValue              flags is not 0
 *   cudaErrorInvalidDevice             no such device, the current one itself, or one that it cannot reach
 *   cudaErrorPeerAccessAlreadyEnabled  it is on already
 */
cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags);

/*
 * Take back what cudaDeviceEnablePeerAccess() gave.
 *
 *   cudaErrorInvalidDevice         no such device
 *   cudaErrorPeerAccessNotEnabled  it was not on
 */
cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peerDevice);

/*
 * What the link between two devices can do. As cuDeviceGetP2PAttribute().
 *
 *   cudaErrorInvalidValue   value is NULL, or attr is not in enum cudaDeviceP2PAttr
 *   cudaErrorInvalidDevice  one of the two does not exist, or they are the same
 */
cudaError_t CUDARTAPI cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice);

/*
 * The pool that a device has from the start and that cannot be destroyed. As cuDeviceGetDefaultMemPool(). It cannot be
 * shared with other processes.
 *
 *   cudaErrorInvalidValue   memPool is NULL
 *   cudaErrorInvalidDevice  no device of this ordinal
 *   cudaErrorNotSupported   the device has no pools
 */
cudaError_t CUDARTAPI cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device);

/*
 * The pool from which cudaMallocAsync() allocates on a device's streams: what cudaDeviceSetMemPool() said last, else
 * the default pool.
 *
 *   cudaErrorInvalidValue  memPool is NULL; no device of this ordinal
 *   cudaErrorNotSupported  the device has no pools
 */
cudaError_t CUDARTAPI cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device);

/*
 * Let cudaMallocAsync() allocate from this pool on a device's streams. What was allocated before stays where it is.
 *
 *   cudaErrorInvalidValue  no live pool; an imported one; one that is not on this device; no device of this ordinal
 *   cudaErrorNotSupported  the device has no pools
 */
cudaError_t CUDARTAPI cudaDeviceSetMemPool(int device, cudaMemPool_t memPool);

/*
 * What the current device's L1 and shared memory prefer; cudaFuncCachePreferNone where they are not one memory.
 *
 *   cudaErrorInvalidValue  pCacheConfig is NULL
 */
cudaError_t CUDARTAPI cudaDeviceGetCacheConfig(enum cudaFuncCache *pCacheConfig);

/*
 * Say what they should prefer: a wish, without effect where they are not one memory.
 *
 *   cudaErrorInvalidValue  cacheConfig is not in enum cudaFuncCache
 */
cudaError_t CUDARTAPI cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig);

/*
 * How wide the banks of the current device's shared memory are: cudaSharedMemBankSizeFourByte on every device of today.
 *
 *   cudaErrorInvalidValue  pConfig is NULL
 */
__CUDA_DEPRECATED cudaError_t CUDARTAPI cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *pConfig);

/*
 * Ask for another width. Without effect where it is fixed.
 *
 *   cudaErrorInvalidValue  config is not in enum cudaSharedMemConfig
 */
__CUDA_DEPRECATED cudaError_t CUDARTAPI cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config);

/*
 * ---- Memory ---------------------------------------------------------------------------------------------------------
 */

/*
 * The current device's memory in bytes: what is free, and all of it. As cuMemGetInfo(). Others use the device too; what
 * is free now may be gone at the next call.
 *
 *   cudaErrorInvalidValue  free or total is NULL
 */
cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free, size_t *total);

/*
 * Allocate memory of the current device, aligned for every type (256 bytes at least), its content not cleared. As
 * cuMemAlloc(), except that a size of 0 is no error: *devPtr is NULL.
 *
 *   cudaErrorInvalidValue      devPtr is NULL
 *   cudaErrorMemoryAllocation  not enough memory
 */
cudaError_t CUDARTAPI cudaMalloc(void **devPtr, size_t size);

/*
 * Allocate `height` rows of at least `width` bytes of the current device's memory, each row aligned for copies.
 * *pitch is the number of bytes from one row to the next. As cuMemAllocPitch().
 *
 *   cudaErrorInvalidValue      devPtr or pitch is NULL
 *   cudaErrorMemoryAllocation  not enough memory
 */
cudaError_t CUDARTAPI cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height);

/*
 * Allocate extent.depth layers of extent.height rows of at least extent.width bytes, each row aligned for copies, one
 * layer behind the other. Nothing, at NULL, if one of the three is 0.
 *
 *   cudaErrorInvalidValue      pitchedDevPtr is NULL
 *   cudaErrorMemoryAllocation  not enough memory
 */
cudaError_t CUDARTAPI cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent);

/*
 * Free memory of cudaMalloc(), cudaMallocPitch(), cudaMallocManaged(), cudaMallocAsync(), cudaMallocFromPoolAsync() or
 * cudaMemPoolImportPointer(); NULL is no error. As cuMemFree(): waits for the work that may use the memory.
 *
 *   cudaErrorInvalidValue  not the start of such an allocation, or freed already; nothing is freed
 */
cudaError_t CUDARTAPI cudaFree(void *devPtr);

/*
 * Allocate page-locked host memory, mapped for the devices. As cudaHostAlloc() with cudaHostAllocDefault. Freed by
 * cudaFreeHost().
 *
 *   cudaErrorInvalidValue      ptr is NULL
 *   cudaErrorMemoryAllocation  not enough memory, or not that much can be page-locked
 */
cudaError_t CUDARTAPI cudaMallocHost(void **ptr, size_t size);

/*
 * Free memory of cudaMallocHost() or cudaHostAlloc(); NULL is no error. As cuMemFreeHost().
 *
 *   cudaErrorInvalidValue  not the start of such an allocation, or freed already
 */
cudaError_t CUDARTAPI cudaFreeHost(void *ptr);

/*
 * Allocate page-locked host memory; `flags` are cudaHostAllocPortable, cudaHostAllocMapped, cudaHostAllocWriteCombined,
 * in any combination. As cuMemHostAlloc(), except that a size of 0 is no error: *pHost is NULL. With unified addressing
 * all of it is portable and mapped, at the host's own address. Freed by cudaFreeHost().
 *
 *   cudaErrorInvalidValue      pHost is NULL, or unknown flags
 *   cudaErrorMemoryAllocation  not enough memory, or not that much can be page-locked
 */
cudaError_t CUDARTAPI cudaHostAlloc(void **pHost, size_t size, unsigned int flags);

/*
 * The address at which the current device reaches page-locked host memory that is mapped. As
 * cuMemHostGetDevicePointer(). The pointer may lie inside an allocation or registration.
 *
 *   cudaErrorInvalidValue      flags is not 0; pDevice is NULL; pHost is not in such memory
 *   cudaErrorMemoryAllocation  the device cannot map it
 */
cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags);

/*
 * The flags with which page-locked memory was allocated or registered. As cuMemHostGetFlags().
 *
 *   cudaErrorInvalidValue  pFlags is NULL, or pHost is not in such memory
 */
cudaError_t CUDARTAPI cudaHostGetFlags(unsigned int *pFlags, void *pHost);

/*
 * Page-lock memory of the program's own; `flags` are cudaHostRegister…, in any combination. As cuMemHostRegister(). The
 * memory must stay until cudaHostUnregister().
 *
 *   cudaErrorInvalidValue                 ptr is NULL, size is 0, unknown flags, or not memory of this process
 *   cudaErrorHostMemoryAlreadyRegistered  a part of it is page-locked already
 *   cudaErrorMemoryAllocation             not that much can be page-locked
 *   cudaErrorNotSupported                 the device cannot, or not with these flags
 */
cudaError_t CUDARTAPI cudaHostRegister(void *ptr, size_t size, unsigned int flags);

/*
 * Take back cudaHostRegister(); `ptr` is the one given there. As cuMemHostUnregister().
 *
 *   cudaErrorInvalidValue             ptr is NULL
 *   cudaErrorHostMemoryNotRegistered  not the start of a registration
 */
cudaError_t CUDARTAPI cudaHostUnregister(void *ptr);

/*
 * Allocate memory that the host and all devices use at one address. As cuMemAllocManaged(): `flags` is
 * cudaMemAttachGlobal (the default in C++) or cudaMemAttachHost. Freed by cudaFree().
 *
 *   cudaErrorInvalidValue      devPtr is NULL, size is 0, or flags are neither
 *   cudaErrorMemoryAllocation  not enough memory
 *   cudaErrorNotSupported      the device has no managed memory
 */
cudaError_t CUDARTAPI cudaMallocManaged(void **devPtr, size_t size, unsigned int flags __dv(cudaMemAttachGlobal));

/*
 * Move managed memory to where it will be needed, in stream order. As cuMemPrefetchAsync(): whole pages; a matter of
 * speed alone, the content is what it is everywhere. Asynchronous. The location asked for last can be read back with
 * cudaMemRangeGetAttribute().
 *
 *   cudaErrorInvalidValue   the range is not managed memory, count is 0, flags is not 0, or no such kind of location
 *   cudaErrorInvalidDevice  the location's device does not exist, or cannot share managed memory with the host
 */
cudaError_t CUDARTAPI cudaMemPrefetchAsync(const void *devPtr, size_t count, struct cudaMemLocation location,
					   unsigned int flags, cudaStream_t stream __dv(0));

/*
 * Say how managed memory will be used. As cuMemAdvise(): whole pages; a matter of speed alone. `location` counts for
 * preferred locations and for cudaMemAdvise…AccessedBy. The advice can be read back with cudaMemRangeGetAttribute().
 *
 *   cudaErrorInvalidValue   the range is not managed memory, count is 0, advice is not in enum cudaMemoryAdvise, or no
 *                           such kind of location
 *   cudaErrorInvalidDevice  the location's device does not exist, or cannot share managed memory with the host
 */
cudaError_t CUDARTAPI cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
				    struct cudaMemLocation location);

/*
 * One attribute of a range of managed memory; what each writes is said at enum cudaMemRangeAttribute. As
 * cuMemRangeGetAttribute(). An answer that is not the same for all of the range is "none".
 *
 *   cudaErrorInvalidValue  data is NULL; dataSize is not the attribute's; the range is not managed memory; attribute is
 *                          not in the enum
 */
cudaError_t CUDARTAPI cudaMemRangeGetAttribute(void *data, size_t dataSize, enum cudaMemRangeAttribute attribute,
					       const void *devPtr, size_t count);

/*
 * Several attributes of a range at once: attribute i goes to data[i], dataSizes[i] bytes. As
 * cudaMemRangeGetAttribute(); all are checked before one is written.
 *
 *   cudaErrorInvalidValue  as there; an array is NULL, or numAttributes is 0
 */
cudaError_t CUDARTAPI cudaMemRangeGetAttributes(void **data, size_t *dataSizes, enum cudaMemRangeAttribute *attributes,
						size_t numAttributes, const void *devPtr, size_t count);

/*
 * Copy `count` bytes, after all earlier work of the default stream, and return when they are there. (From ordinary host
 * memory to a device: when the source may be changed. Within a device: the copy is in order, the call need not wait.)
 * The ranges must not overlap. With unified addressing the pointers say what they are, and kind may be
 * cudaMemcpyDefault. A count of 0 does nothing.
 *
 *   cudaErrorInvalidValue            a pointer is NULL, or a range is not inside memory that the copy can reach
 *   cudaErrorInvalidMemcpyDirection  kind is not in enum cudaMemcpyKind
 */
cudaError_t CUDARTAPI cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind);

/*
 * As cudaMemcpy(), in stream order. Asynchronous when all host memory that takes part is page-locked; ordinary memory
 * is read before the call returns, and written before it returns.
 *
 *   cudaErrorInvalidValue, cudaErrorInvalidMemcpyDirection  as there
 */
cudaError_t CUDARTAPI cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
				      cudaStream_t stream __dv(0));

/*
 * Copy from memory of one device to memory of another, or of the same, with or without peer access between them. In
 * order with all earlier and later work of both devices' current contexts; does not make the host wait. As
 * cuMemcpyPeer(), with the primary contexts.
 *
 *   cudaErrorInvalidValue   a range is not inside memory of its device
 *   cudaErrorInvalidDevice  one of the two does not exist
 */
cudaError_t CUDARTAPI cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count);

/*
 * As cudaMemcpyPeer(), in the order of one stream alone. Asynchronous.
 *
 *   cudaErrorInvalidValue, cudaErrorInvalidDevice  as there
 */
cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count,
					  cudaStream_t stream __dv(0));

/*
 * Copy `height` rows of `width` bytes that start dpitch and spitch bytes apart. Otherwise as cudaMemcpy(). What lies
 * between the rows is not touched.
 *
 *   cudaErrorInvalidPitchValue       width is more than a pitch, or a pitch is more than cudaDevAttrMaxPitch
 *   cudaErrorInvalidValue            a row is not inside memory that the copy can reach
 *   cudaErrorInvalidMemcpyDirection  kind is not in enum cudaMemcpyKind
 */
cudaError_t CUDARTAPI cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
				   size_t height, enum cudaMemcpyKind kind);

/*
 * As cudaMemcpy2D(), in stream order; asynchronous like cudaMemcpyAsync().
 *
 *   cudaErrorInvalidPitchValue, cudaErrorInvalidValue, cudaErrorInvalidMemcpyDirection  as there
 */
cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
					size_t height, enum cudaMemcpyKind kind, cudaStream_t stream __dv(0));

/*
 * Copy a box of p->extent between two places, each in pitched memory or in an array. Otherwise as cudaMemcpy2D(). An
 * extent with a 0 copies nothing.
 *
 *   cudaErrorInvalidValue            p is NULL; a side has no source or destination, or both kinds; out of bounds
 *   cudaErrorInvalidPitchValue       a row is longer than its pitch
 *   cudaErrorInvalidMemcpyDirection  p->kind is not in enum cudaMemcpyKind
 */
cudaError_t CUDARTAPI cudaMemcpy3D(const struct cudaMemcpy3DParms *p);

/*
 * As cudaMemcpy3D(), in stream order; asynchronous like cudaMemcpyAsync(). *p is read before the call returns.
 *
 *   cudaErrorInvalidValue, cudaErrorInvalidPitchValue, cudaErrorInvalidMemcpyDirection  as there
 */
cudaError_t CUDARTAPI cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream __dv(0));

/*
 * Set `count` bytes to the low byte of `value`, in order with the default stream. Device memory: the host need not wait
 * for it; host memory: done when the call returns.
 *
 *   cudaErrorInvalidValue  the range is not inside memory that the device can reach
 */
cudaError_t CUDARTAPI cudaMemset(void *devPtr, int value, size_t count);

/*
 * As cudaMemset(), in stream order. Asynchronous.
 *
 *   cudaErrorInvalidValue  as there
 */
cudaError_t CUDARTAPI cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream __dv(0));

/*
 * Set `height` rows of `width` bytes that start `pitch` bytes apart to the low byte of `value`; pitch does not count
 * for one row. Otherwise as cudaMemset().
 *
 *   cudaErrorInvalidValue  width is more than pitch, or a row is not inside memory that the device can reach
 */
cudaError_t CUDARTAPI cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height);

/*
 * As cudaMemset2D(), in stream order. Asynchronous.
 *
 *   cudaErrorInvalidValue  as there
 */
cudaError_t CUDARTAPI cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width, size_t height,
					cudaStream_t stream __dv(0));

/*
 * Set extent.depth layers of extent.height rows of extent.width bytes to the low byte of `value`. Layers start pitch *
 * ysize bytes apart; xsize does not count. Otherwise as cudaMemset2D().
 *
 *   cudaErrorInvalidValue  a row is wider than the pitch, a layer is higher than ysize, or a row is not inside memory
 *                          that the device can reach
 */
cudaError_t CUDARTAPI cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent);

/*
 * As cudaMemset3D(), in stream order. Asynchronous.
 *
 *   cudaErrorInvalidValue  as there
 */
cudaError_t CUDARTAPI cudaMemset3DAsync(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent,
					cudaStream_t stream __dv(0));

/*
 * What kind of memory a pointer points to, whose, and by which addresses host and current device reach it. Memory that
 * the library does not know is no error: its type is cudaMemoryTypeUnregistered. More is told by
 * cuPointerGetAttribute().
 *
 *   cudaErrorInvalidValue   attributes is NULL
 *   cudaErrorInvalidDevice  the thread's device does not exist
 */
cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr);

/*
 * ---- Pools ----------------------------------------------------------------------------------------------------------
 *
 * A pool keeps memory that was freed in the order of streams and hands it out again. Where a pool is asked for, a
 * handle that is not a live pool is cudaErrorInvalidValue.
 */

/*
 * Make a pool where poolProps->location says. handleTypes says how it may be shared; cudaMemHandleTypeNone: not at all.
 * Access is given to its own device (or to the host, for a pool there). As cuMemPoolCreate().
 *
 *   cudaErrorInvalidValue      memPool or poolProps is NULL; unknown allocType, handleTypes or location; reserved bytes
 *                              that are not 0; a pool in host memory, or a managed one, that is to be shared; a
 *                              managed one with maxSize or usage
 *   cudaErrorMemoryAllocation  not enough memory
 *   cudaErrorNotSupported      there are no such pools at this location
 */
cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps);

/*
 * Give a pool up. The handle is stale at once; memory that is still allocated from it, shared or about to be freed
 * stays good, and the pool's memory goes back to the system with the last of it. Where it was a device's current pool,
 * the default pool takes its place.
 *
 *   cudaErrorInvalidValue  not a live pool, or a device's default pool
 */
cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t memPool);

/*
 * Give unused memory back to the system until no more than minBytesToKeep are reserved, or nothing more is unused.
 * Memory whose free has not been seen to happen counts as used. Waits for nothing.
 *
 *   cudaErrorInvalidValue  not a live pool, or an imported one
 */
cudaError_t CUDARTAPI cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep);

/*
 * Read an attribute into *value: an int or a 64-bit unsigned, as enum cudaMemPoolAttr says.
 *
 *   cudaErrorInvalidValue  value is NULL, not a live pool, or attr is not in the enum
 */
cudaError_t CUDARTAPI cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value);

/*
 * Set an attribute from *value, of the same type as it is read. Of the statistics only the two high marks can be set,
 * and only to 0, which sets them to the present amount.
 *
 *   cudaErrorInvalidValue  value is NULL; not a live pool; attr is not in the enum or read only; a high mark not 0
 */
cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value);

/*
 * What the location may do with the pool's memory.
 *
 *   cudaErrorInvalidValue  flags or location is NULL; not a live pool; no such location
 */
cudaError_t CUDARTAPI cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
					   struct cudaMemLocation *location);

/*
 * Say what each of `count` locations may do with the pool's memory, present and future. All or nothing. The pool's own
 * device keeps its access.
 *
 *   cudaErrorInvalidValue   descList is NULL; not a live pool; unknown flags or kind of location
 *   cudaErrorInvalidDevice  a location's device does not exist, cannot reach the pool's, or is the pool's and denied
 *   cudaErrorNotSupported   access for reading alone; the host and a device's pool; the host denied its own pool
 */
cudaError_t CUDARTAPI cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList,
					   size_t count);

/*
 * Make a handle by which other processes can import the pool: an int, which is a file descriptor and the caller's to
 * close, for cudaMemHandleTypePosixFileDescriptor; a cudaMemFabricHandle_t for cudaMemHandleTypeFabric. A process that
 * gets the handle may import; see cenote_send_pool() for sending a descriptor. As cuMemPoolExportToShareableHandle().
 *
 *   cudaErrorInvalidValue      shareableHandle is NULL; not a live pool, or an imported one; handleType is not among
 *                              the pool's handleTypes, or more than one; flags is not 0
 *   cudaErrorMemoryAllocation  not enough memory
 *   cudaErrorOperatingSystem   no descriptor could be made
 */
cudaError_t CUDARTAPI cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
							 enum cudaMemAllocationHandleType handleType,
							 unsigned int flags);

/*
 * Open a pool of another process. shareableHandle is the descriptor's number cast to a pointer, and the descriptor
 * stays the caller's; or a pointer to a cudaMemFabricHandle_t. Nothing can be allocated from an imported pool: it is
 * there for cudaMemPoolImportPointer(), and given up by cudaMemPoolDestroy(). As cuMemPoolImportFromShareableHandle().
 *
 *   cudaErrorInvalidValue           memPool is NULL; not the handle of a pool; unknown handleType; flags is not 0
 *   cudaErrorMemoryAllocation       not enough memory
 *   cudaErrorMapBufferObjectFailed  the exporter is gone or does not answer
 *   cudaErrorNotPermitted           a fabric handle, and the two processes hold no IMEX channel in common
 *   cudaErrorOperatingSystem        the connection failed
 */
cudaError_t CUDARTAPI cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle,
							   enum cudaMemAllocationHandleType handleType,
							   unsigned int flags);

/*
 * Describe an allocation of a pool that can be shared, for processes that have imported the pool. The bytes may be sent
 * by any means, to any number of them. As cuMemPoolExportPointer().
 *
 *   cudaErrorInvalidValue      exportData is NULL; ptr is not the start of a live allocation of such a pool, or was
 *                              itself imported
 *   cudaErrorMemoryAllocation  not enough memory
 */
cudaError_t CUDARTAPI cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData, void *ptr);

/*
 * Map an allocation of an imported pool. The address need not be the exporter's. It must not be used before the
 * exporter's allocation has happened in its stream: order the two with an IPC event. Freed by cudaFree() or
 * cudaFreeAsync(), once for each import; the exporter should free last, and if it does not, Cenote keeps the block
 * until all importers have. As cuMemPoolImportPointer().
 *
 *   cudaErrorInvalidValue           ptr or exportData is NULL; not an imported pool; bytes that do not describe a live
 *                                   allocation of this pool
 *   cudaErrorMemoryAllocation       not enough memory or addresses
 *   cudaErrorMapBufferObjectFailed  the exporter is gone or does not answer
 */
cudaError_t CUDARTAPI cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
					       struct cudaMemPoolPtrExportData *exportData);

/*
 * Allocate in stream order from the current pool of the stream's device. The address is there at once; the memory is
 * usable by what follows on the stream, and by others once they are ordered after this point. As cuMemAllocAsync().
 *
 *   cudaErrorInvalidValue      devPtr is NULL
 *   cudaErrorMemoryAllocation  not enough memory, or the pool's maxSize is reached
 *   cudaErrorNotSupported      the device has no pools
 */
cudaError_t CUDARTAPI cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream);

/*
 * As cudaMallocAsync(), from the pool given, which may belong to another device than the stream.
 *
 *   cudaErrorInvalidValue      ptr is NULL; not a live pool, or an imported one
 *   cudaErrorMemoryAllocation  not enough memory, or the pool's maxSize is reached
 *   cudaErrorNotSupported      the device has no pools
 */
cudaError_t CUDARTAPI cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream);

/*
 * Free in stream order: what was put on the stream before may still use the memory, nothing later may. The pointer is
 * stale when the call returns. Takes memory of pools, imported memory and memory of cudaMalloc(). As cuMemFreeAsync().
 *
 *   cudaErrorInvalidValue  not the start of a live allocation; nothing is freed
 *   cudaErrorNotSupported  the device has no pools
 */
cudaError_t CUDARTAPI cudaFreeAsync(void *devPtr, cudaStream_t hStream);

/*
 * The default pool of a location, for allocations of a type; location types are device, host, host NUMA node, and for
 * managed memory none. As cuMemGetDefaultMemPool().
 *
 *   cudaErrorInvalidValue  memPool or location is NULL; no such location; type neither pinned nor managed
 *   cudaErrorNotSupported  there are no pools of this type there
 */
cudaError_t CUDARTAPI cudaMemGetDefaultMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
					       enum cudaMemAllocationType type);

/*
 * The current pool of a location, for allocations of a type: what cudaMemSetMemPool() or cudaDeviceSetMemPool() said
 * last, else the default one. As cuMemGetMemPool().
 *
 *   cudaErrorInvalidValue  as cudaMemGetDefaultMemPool()
 *   cudaErrorNotSupported  there are no pools of this type there
 */
cudaError_t CUDARTAPI cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
					enum cudaMemAllocationType type);

/*
 * Make a pool the current one of its location. For pinned memory of a device the same as cudaDeviceSetMemPool(). As
 * cuMemSetMemPool().
 *
 *   cudaErrorInvalidValue  location is NULL; not a live pool, or an imported one; location or type are not the pool's
 */
cudaError_t CUDARTAPI cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type,
					cudaMemPool_t memPool);

/*
 * ---- IPC ------------------------------------------------------------------------------------------------------------
 *
 * Handles of 64 bytes, sent to other processes of the user by any means. Where a device lacks
 * cudaDevAttrIpcEventSupport these calls answer cudaErrorNotSupported. Pools are shared by calls of their own, above.
 */

/*
 * A handle for memory of cudaMalloc(). May be called again for the same memory; memory that is allocated later at the
 * same address has another handle. As cuIpcGetMemHandle().
 *
 *   cudaErrorInvalidValue           handle is NULL; devPtr is not the start of memory of cudaMalloc(), or was imported
 *   cudaErrorMemoryAllocation       not enough memory
 *   cudaErrorMapBufferObjectFailed  the memory cannot be shared
 */
cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr);

/*
 * Map memory of another process for the current device; `flags` is cudaIpcMemLazyEnablePeerAccess. The address need not
 * be the exporter's. Opened again by the same context, the address is the same, and one close more is needed. As
 * cuIpcOpenMemHandle().
 *
 *   cudaErrorInvalidValue           devPtr is NULL, other flags, or not such a handle
 *   cudaErrorInvalidResourceHandle  the memory has been freed
 *   cudaErrorDeviceUninitialized    the handle is of this very process
 *   cudaErrorMapBufferObjectFailed  the exporter is gone, or the memory cannot be mapped
 *   cudaErrorTooManyPeers           no more peers possible
 */
cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags);

/*
 * Undo one cudaIpcOpenMemHandle(); the last one unmaps. The exporter's memory and other processes are not affected. As
 * cuIpcCloseMemHandle().
 *
 *   cudaErrorInvalidValue           devPtr is not what cudaIpcOpenMemHandle() returned, or is closed already
 *   cudaErrorMapBufferObjectFailed  it cannot be unmapped
 */
cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void *devPtr);

/*
 * A handle for an event that was created with cudaEventInterprocess and cudaEventDisableTiming. As
 * cuIpcGetEventHandle().
 *
 *   cudaErrorInvalidValue           handle is NULL
 *   cudaErrorInvalidResourceHandle  not a live event, or not created so
 *   cudaErrorMemoryAllocation       not enough memory
 *   cudaErrorMapBufferObjectFailed  the event cannot be shared
 */
cudaError_t CUDARTAPI cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event);

/*
 * Open an event of another process. Both sides may record, query and wait; a wait means the record that came last when
 * it was called. Destroyed by cudaEventDestroy() on each side. As cuIpcOpenEventHandle().
 *
 *   cudaErrorInvalidValue           event is NULL, or not such a handle
 *   cudaErrorDeviceUninitialized    the handle is of this very process
 *   cudaErrorMapBufferObjectFailed  the exporter or the event is gone
 */
cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle);

/*
 * ---- Streams --------------------------------------------------------------------------------------------------------
 */

/*
 * A function that cudaStreamAddCallback() calls: the stream, how the work before went, and the pointer given there.
 */
typedef void(CUDART_CB *cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void *userData);

/*
 * Make a stream of the current context that is in order with the legacy stream, of priority 0. As cuStreamCreate().
 *
 *   cudaErrorInvalidValue      pStream is NULL
 *   cudaErrorMemoryAllocation  not enough memory
 */
cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *pStream);

/*
 * As cudaStreamCreate(); with cudaStreamNonBlocking there is no implicit order with the legacy stream.
 *
 *   cudaErrorInvalidValue      pStream is NULL, or unknown flags
 *   cudaErrorMemoryAllocation  not enough memory
 */
cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags);

/*
 * As cudaStreamCreateWithFlags(), with a priority: smaller is more urgent; out of the range of
 * cudaDeviceGetStreamPriorityRange() the nearest in it is taken. A wish about kernels, not an order.
 *
 *   cudaErrorInvalidValue      pStream is NULL, or unknown flags
 *   cudaErrorMemoryAllocation  not enough memory
 */
cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority);

/*
 * Give a stream up. Work that is on it is still done; the call does not wait for it. The handle is stale at once.
 *
 *   cudaErrorInvalidResourceHandle  not a live stream, or one of the default streams
 */
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream);

/*
 * cudaSuccess when all work of the stream is done, else cudaErrorNotReady, or the error of its work. As
 * cuStreamQuery().
 *
 *   cudaErrorNotReady               some work is not done yet
 *   cudaErrorInvalidResourceHandle  not a live stream
 */
cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream);

/*
 * Wait until all work of the stream is done; returns the error of that work when some of it failed. As
 * cuStreamSynchronize().
 *
 *   cudaErrorInvalidResourceHandle  not a live stream
 */
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream);

/*
 * Let what is put on the stream later wait for the event's last record, as it was when this was called; an event never
 * recorded is no wait. Does not make the host wait. The event may be of another device or process, and may be recorded
 * again or destroyed right after. As cuStreamWaitEvent().
 *
 *   cudaErrorInvalidValue           unknown flags
 *   cudaErrorInvalidResourceHandle  not a live stream or event
 */
cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags __dv(0));

/*
 * As cudaLaunchKernel(), with all blocks at once: they may wait for one another.
 *
 *   cudaErrorCooperativeLaunchTooLarge  the device cannot run so many blocks at once
 *   others                              as cudaLaunchKernel()
 */
cudaError_t CUDARTAPI cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
						  size_t sharedMem, cudaStream_t stream);

/*
 * Have a function called on the host after the work that is on the stream, once, even when that work has failed; what
 * comes later on the stream waits for its return. It must not call this API. cudaLaunchHostFunc() is the newer form. As
 * cuStreamAddCallback().
 *
 *   cudaErrorInvalidValue              callback is NULL, or flags is not 0
 *   cudaErrorInvalidResourceHandle     not a live stream
 *   cudaErrorStreamCaptureUnsupported  the stream captures
 */
cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
					    unsigned int flags);

/*
 * The device that a stream belongs to.
 *
 *   cudaErrorInvalidValue           device is NULL
 *   cudaErrorInvalidResourceHandle  not a live stream
 */
cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t hStream, int *device);

/*
 * The flags with which a stream was created; 0 for the default streams. As cuStreamGetFlags().
 *
 *   cudaErrorInvalidValue           flags is NULL
 *   cudaErrorInvalidResourceHandle  not a live stream
 */
cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags);

/*
 * A number that no other stream has had or will have in this process. As cuStreamGetId().
 *
 *   cudaErrorInvalidValue           streamId is NULL
 *   cudaErrorInvalidResourceHandle  not a live stream
 */
cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId);

/*
 * The priority that a stream has, after it was brought into range. As cuStreamGetPriority().
 *
 *   cudaErrorInvalidValue           priority is NULL
 *   cudaErrorInvalidResourceHandle  not a live stream
 */
cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t hStream, int *priority);

/*
 * Whether a stream captures. As cuStreamIsCapturing().
 *
 *   cudaErrorInvalidValue           pCaptureStatus is NULL
 *   cudaErrorInvalidResourceHandle  not a live stream
 *   cudaErrorStreamCaptureImplicit  the legacy stream, while a blocking stream of the context captures
 */
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus);

/*
 * What a stream captures: the capture's number, the graph, and the nodes on which the next one will depend, with their
 * edges. All outputs but captureStatus_out may be NULL, and are written only when the status is
 * cudaStreamCaptureStatusActive. The arrays are the library's, good until the next call that has to do with the stream.
 * As cuStreamGetCaptureInfo().
 *
 *   cudaErrorInvalidValue           captureStatus_out is NULL; edgeData_out without dependencies_out
 *   cudaErrorInvalidResourceHandle  not a live stream
 *   cudaErrorLossyQuery             edges have data, and dependencies_out is asked for without edgeData_out
 *   cudaErrorStreamCaptureImplicit  the legacy stream, while a blocking stream of the context captures
 */
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
					       unsigned long long *id_out __dv(0), cudaGraph_t *graph_out __dv(0),
					       const cudaGraphNode_t **dependencies_out __dv(0),
					       const cudaGraphEdgeData **edgeData_out __dv(0),
					       size_t *numDependencies_out __dv(0));

/*
 * Exchange the calling thread's capture mode with *mode: it says which calls are refused while a stream captures. To be
 * used in pairs, the second of which brings the old mode back. As cuThreadExchangeStreamCaptureMode().
 *
 *   cudaErrorInvalidValue  mode is NULL or not in enum cudaStreamCaptureMode
 */
cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);

/*
 * ---- Events ---------------------------------------------------------------------------------------------------------
 */

/*
 * Make an event of the current context that takes time stamps. As cuEventCreate() with CU_EVENT_DEFAULT.
 *
 *   cudaErrorInvalidValue      event is NULL
 *   cudaErrorMemoryAllocation  not enough memory
 */
cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *event);

/*
 * As cudaEventCreate(), with cudaEventBlockingSync, cudaEventDisableTiming and cudaEventInterprocess where wanted.
 *
 *   cudaErrorInvalidValue      event is NULL; unknown flags; cudaEventInterprocess without cudaEventDisableTiming
 *   cudaErrorMemoryAllocation  not enough memory
 *   cudaErrorNotSupported      cudaEventInterprocess, and the device cannot
 */
cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);

/*
 * Give an event up, at once, whether or not its record has been reached; streams that wait for that record still do.
 * The handle is stale at once. As cuEventDestroy().
 *
 *   cudaErrorInvalidResourceHandle  not a live event
 */
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event);

/*
 * Put a record of the event on the stream: it happens when all work before it is done. Replaces the event's earlier
 * record, except for waits that have already begun. Asynchronous. As cuEventRecord().
 *
 *   cudaErrorInvalidResourceHandle  not a live event or stream, or the two are of different contexts
 */
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream __dv(0));

/*
 * As cudaEventRecord(); cudaEventRecordExternal makes a record that is captured visible outside its graph.
 *
 *   cudaErrorInvalidValue           unknown flags, or cudaEventRecordExternal on a stream that does not capture
 *   cudaErrorInvalidResourceHandle  not a live event or stream, or the two are of different contexts
 */
cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream __dv(0),
					       unsigned int flags __dv(0));

/*
 * cudaSuccess when the event's last record has happened or it was never recorded, else cudaErrorNotReady. As
 * cuEventQuery().
 *
 *   cudaErrorNotReady               not yet
 *   cudaErrorInvalidResourceHandle  not a live event
 *   cudaErrorCapturedEvent          it was last recorded in a capture
 */
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event);

/*
 * Wait until the event's last record has happened; at once if it was never recorded. Sleeps where the event has
 * cudaEventBlockingSync. Returns the error of the work before the record when some of it failed. As
 * cuEventSynchronize().
 *
 *   cudaErrorInvalidResourceHandle  not a live event
 *   cudaErrorCapturedEvent          it was last recorded in a capture
 */
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event);

/*
 * Milliseconds from one record to the other, to about half a microsecond; negative if `end` happened first. As
 * cuEventElapsedTime().
 *
 *   cudaErrorInvalidValue           ms is NULL
 *   cudaErrorNotReady               a record has not happened yet
 *   cudaErrorInvalidResourceHandle  not a live event; one never recorded; one with cudaEventDisableTiming; or the two
 *                                   are of different contexts
 */
cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);

/*
 * ---- Launch and modules ---------------------------------------------------------------------------------------------
 *
 * A kernel is named by the address of its function on the host, `func`, or by its cudaKernel_t. A CUDA compiler makes
 * such functions and tells the runtime of them before main(), with a binary that is loaded when something of it is
 * first used. On the host device the binary must hold PTX, and a kernel may also be a C function made known by
 * CENOTE_KERNEL (cenote.h). Anything else is refused, never jumped to. Wherever a kernel is named:
 *
 *   cudaErrorInvalidDeviceFunction   func is NULL, or its binary lacks it
 *   cudaErrorInvalidResourceHandle   func is no kernel
 *   cudaErrorNoKernelImageForDevice  its binary has nothing for this device; for the host device, no PTX
 *   cudaErrorInvalidPtx, cudaErrorNotSupported, cudaErrorJitCompilerNotFound  its binary cannot be loaded
 */

/*
 * Run a kernel over a grid of blocks, in stream order. args[i] points to its argument i; the arguments are copied
 * before the call returns. Asynchronous: an error inside the kernel is told by a later call. As cuLaunchKernel().
 *
 *   cudaErrorInvalidDeviceFunction   func is not a kernel for this device
 *   cudaErrorInvalidConfiguration    a size of grid or block is 0 or more than the device runs
 *   cudaErrorInvalidValue            more shared memory than the kernel may have
 *   cudaErrorLaunchOutOfResources    the device has not enough registers, threads or shared memory for a block
 *   cudaErrorInvalidResourceHandle   not a live stream, or one of another context
 */
cudaError_t CUDARTAPI cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
				       cudaStream_t stream);

/*
 * As cudaLaunchKernel(), with stream, sizes and attributes in a struct. *config is read before the call returns. As
 * cuLaunchKernelEx().
 *
 *   cudaErrorInvalidValue      config is NULL; numAttrs without attrs; an attribute that does not exist or does not fit
 *   cudaErrorInvalidClusterSize, cudaErrorCooperativeLaunchTooLarge  the device cannot run these blocks together
 *   others                     as cudaLaunchKernel()
 */
cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args);

/*
 * Have a function called on the host after the work that is on the stream; what comes later on the stream waits for its
 * return. Not called when the work before has failed. It must not call this API, nor wait for work of another stream
 * that is not ordered before it. Asynchronous. As cuLaunchHostFunc().
 *
 *   cudaErrorInvalidValue           fn is NULL
 *   cudaErrorInvalidResourceHandle  not a live stream
 */
cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData);

/*
 * What a kernel needs and may have on the current device; see struct cudaFuncAttributes.
 *
 *   cudaErrorInvalidValue           attr is NULL
 *   cudaErrorInvalidDeviceFunction  func is not a kernel for this device
 */
cudaError_t CUDARTAPI cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func);

/*
 * Set an attribute of a kernel for later launches on the current device; see enum cudaFuncAttribute.
 *
 *   cudaErrorInvalidValue           attr cannot be set, or value is out of its range
 *   cudaErrorInvalidDeviceFunction  func is not a kernel for this device
 *   cudaErrorNotPermitted           a cluster size that the kernel was compiled with
 */
cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value);

/*
 * The name of a kernel. As cuFuncGetName().
 *
 *   cudaErrorInvalidValue           name is NULL
 *   cudaErrorInvalidDeviceFunction  func is NULL
 *   cudaErrorInvalidResourceHandle  func is not a kernel
 */
cudaError_t CUDARTAPI cudaFuncGetName(const char **name, const void *func);

/*
 * As cudaDeviceSetSharedMemConfig(), for one kernel.
 *
 *   cudaErrorInvalidValue           config is not in enum cudaSharedMemConfig
 *   cudaErrorInvalidDeviceFunction  func is NULL
 *   cudaErrorInvalidResourceHandle  func is not a kernel
 */
__CUDA_DEPRECATED cudaError_t CUDARTAPI cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config);

/*
 * How many blocks of this size and with this much dynamic shared memory a multiprocessor runs at once. As
 * cuOccupancyMaxActiveBlocksPerMultiprocessor().
 *
 *   cudaErrorInvalidValue           numBlocks is NULL, or blockSize is not positive
 *   cudaErrorInvalidDeviceFunction  func is not a kernel for this device
 */
cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func, int blockSize,
								    size_t dynamicSMemSize);

/*
 * The same. flags: cudaOccupancyDefault or cudaOccupancyDisableCachingOverride, which are one on devices of today.
 *
 *   cudaErrorInvalidValue           as there; or there are no such flags
 *   cudaErrorInvalidDeviceFunction  func is not a kernel for this device
 */
cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func,
									     int blockSize, size_t dynamicSMemSize,
									     unsigned int flags);

/*
 * How much dynamic shared memory each of numBlocks blocks of this size can have, if they are to be on one
 * multiprocessor at once. As cuOccupancyAvailableDynamicSMemPerBlock().
 *
 *   cudaErrorInvalidValue           dynamicSmemSize is NULL, or a multiprocessor never runs so many such blocks at once
 *   cudaErrorInvalidDeviceFunction  func is not a kernel for this device
 */
cudaError_t CUDARTAPI cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func,
								int numBlocks, int blockSize);

/*
 * The kernel of a function's address. It is good for every context, and lives as long as its binary.
 *
 *   cudaErrorInvalidValue           kernelPtr is NULL
 *   cudaErrorInvalidDeviceFunction  entryFuncAddr is not a kernel
 */
cudaError_t CUDARTAPI cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr);

/*
 * The driver's function for a kernel in the current context.
 *
 *   cudaErrorInvalidValue           functionPtr is NULL
 *   cudaErrorInvalidDeviceFunction  symbolPtr is not a kernel
 */
cudaError_t CUDARTAPI cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr);

/*
 * ---- Variables ------------------------------------------------------------------------------------------------------
 *
 * A __device__, __constant__ or __managed__ variable is named by the address of what its name means on the host. Each
 * device has its own; a managed one is the same on all.
 */

/*
 * The address of a variable on the current device.
 *
 *   cudaErrorInvalidValue   devPtr is NULL
 *   cudaErrorInvalidSymbol  symbol is not a variable, or its binary lacks it
 *   others                  its binary cannot be loaded
 */
cudaError_t CUDARTAPI cudaGetSymbolAddress(void **devPtr, const void *symbol);

/*
 * The size of a variable, in bytes.
 *
 *   cudaErrorInvalidValue   size is NULL
 *   cudaErrorInvalidSymbol  symbol is not a variable, or its binary lacks it
 *   others                  its binary cannot be loaded
 */
cudaError_t CUDARTAPI cudaGetSymbolSize(size_t *size, const void *symbol);

/*
 * Copy to a variable, from its byte `offset` on. As cudaMemcpy(). A copy of no bytes succeeds, whatever symbol is.
 *
 *   cudaErrorInvalidValue            the variable ends before
 *   cudaErrorInvalidSymbol           symbol is not a variable
 *   cudaErrorInvalidMemcpyDirection  kind is not cudaMemcpyHostToDevice, cudaMemcpyDeviceToDevice or cudaMemcpyDefault
 */
cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset __dv(0),
					 enum cudaMemcpyKind kind __dv(cudaMemcpyHostToDevice));

/* The same in a stream. As cudaMemcpyAsync(). */
cudaError_t CUDARTAPI cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset,
					      enum cudaMemcpyKind kind, cudaStream_t stream __dv(0));

/*
 * Copy from a variable, from its byte `offset` on. As cudaMemcpy().
 *
 *   cudaErrorInvalidValue            the variable ends before
 *   cudaErrorInvalidSymbol           symbol is not a variable
 *   cudaErrorInvalidMemcpyDirection  kind is not cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice or cudaMemcpyDefault
 */
cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset __dv(0),
					   enum cudaMemcpyKind kind __dv(cudaMemcpyDeviceToHost));

/* The same in a stream. As cudaMemcpyAsync(). */
cudaError_t CUDARTAPI cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
						enum cudaMemcpyKind kind, cudaStream_t stream __dv(0));

/*
 * ---- Libraries ------------------------------------------------------------------------------------------------------
 *
 * Code that a program loads itself, for all contexts. Handles are the driver's: a cudaLibrary_t is a CUlibrary.
 */

/*
 * Load code from memory. It needs no context. As cuLibraryLoadData(); the options have the driver's numbers.
 *
 *   cudaErrorInvalidValue            library or code is NULL, or an option is not one
 *   cudaErrorNoKernelImageForDevice  it has nothing for this device
 */
cudaError_t CUDARTAPI cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jitOptions,
					  void **jitOptionsValues, unsigned int numJitOptions,
					  enum cudaLibraryOption *libraryOptions, void **libraryOptionValues,
					  unsigned int numLibraryOptions);

/*
 * Load code from a file. As cuLibraryLoadFromFile().
 *
 *   cudaErrorInvalidValue  library or fileName is NULL, or an option is not one
 *   cudaErrorFileNotFound  there is no such file
 */
cudaError_t CUDARTAPI cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *fileName,
					      enum cudaJitOption *jitOptions, void **jitOptionsValues,
					      unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions,
					      void **libraryOptionValues, unsigned int numLibraryOptions);

/*
 * Unload a library. Its kernels must have finished. As cuLibraryUnload().
 *
 *   cudaErrorInvalidResourceHandle  library is not a live one
 */
cudaError_t CUDARTAPI cudaLibraryUnload(cudaLibrary_t library);

/*
 * A kernel of a library, by name. It lives as long as the library. As cuLibraryGetKernel().
 *
 *   cudaErrorInvalidValue           pKernel or name is NULL
 *   cudaErrorInvalidResourceHandle  library is not a live one
 *   cudaErrorSymbolNotFound         it has no such kernel
 */
cudaError_t CUDARTAPI cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name);

/*
 * The address and size of a variable on the current device; either output may be NULL. As cuLibraryGetGlobal().
 *
 *   cudaErrorInvalidValue           both outputs or name are NULL
 *   cudaErrorInvalidResourceHandle  library is not a live one
 *   cudaErrorSymbolNotFound         it has no such variable
 */
cudaError_t CUDARTAPI cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name);

/* The same of a __managed__ variable. As cuLibraryGetManaged(). */
cudaError_t CUDARTAPI cudaLibraryGetManaged(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name);

/*
 * How many kernels a library has. As cuLibraryGetKernelCount().
 *
 *   cudaErrorInvalidValue           count is NULL
 *   cudaErrorInvalidResourceHandle  lib is not a live one
 */
cudaError_t CUDARTAPI cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t lib);

/*
 * The kernels of a library, numKernels of them at most. As cuLibraryEnumerateKernels().
 *
 *   cudaErrorInvalidValue           kernels is NULL, or numKernels is 0
 *   cudaErrorInvalidResourceHandle  lib is not a live one
 */
cudaError_t CUDARTAPI cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int numKernels, cudaLibrary_t lib);

/*
 * Set an attribute of a kernel for launches to come on a device. As cuKernelSetAttribute().
 *
 *   cudaErrorInvalidValue           attr cannot be set, or value is out of its range
 *   cudaErrorInvalidResourceHandle  kernel is not a live one
 *   cudaErrorInvalidDevice          there is no such device
 */
cudaError_t CUDARTAPI cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attr, int value,
						      int device);

/*
 * For the library itself, which defines both forms of each: what was declared above with its suffix, declared once more
 * without.
 */
#if defined(__CUDA_API_VERSION_INTERNAL)
#undef cudaGetDriverEntryPoint
#undef cudaGetDriverEntryPointByVersion
#undef cudaMemPrefetchAsync
#undef cudaMemcpy
#undef cudaMemcpyAsync
#undef cudaMemcpy2D
#undef cudaMemcpy2DAsync
#undef cudaMemcpy3D
#undef cudaMemcpy3DAsync
#undef cudaMemcpyToSymbol
#undef cudaMemcpyToSymbolAsync
#undef cudaMemcpyFromSymbol
#undef cudaMemcpyFromSymbolAsync
#undef cudaMemset
#undef cudaMemsetAsync
#undef cudaMemset2D
#undef cudaMemset2DAsync
#undef cudaMemset3D
#undef cudaMemset3DAsync
#undef cudaMallocAsync
#undef cudaMallocFromPoolAsync
#undef cudaFreeAsync
#undef cudaStreamQuery
#undef cudaStreamSynchronize
#undef cudaStreamWaitEvent
#undef cudaStreamAddCallback
#undef cudaStreamGetDevice
#undef cudaStreamGetFlags
#undef cudaStreamGetId
#undef cudaStreamGetPriority
#undef cudaStreamIsCapturing
#undef cudaStreamGetCaptureInfo
#undef cudaEventRecord
#undef cudaEventRecordWithFlags
#undef cudaLaunchKernel
#undef cudaLaunchKernelExC
#undef cudaLaunchCooperativeKernel
#undef cudaLaunchHostFunc
extern __typeof__(cudaGetDriverEntryPoint_ptsz) cudaGetDriverEntryPoint;
extern __typeof__(cudaGetDriverEntryPointByVersion_ptsz) cudaGetDriverEntryPointByVersion;
extern __typeof__(cudaMemPrefetchAsync_ptsz) cudaMemPrefetchAsync;
extern __typeof__(cudaMemcpy_ptds) cudaMemcpy;
extern __typeof__(cudaMemcpyAsync_ptsz) cudaMemcpyAsync;
extern __typeof__(cudaMemcpy2D_ptds) cudaMemcpy2D;
extern __typeof__(cudaMemcpy2DAsync_ptsz) cudaMemcpy2DAsync;
extern __typeof__(cudaMemcpy3D_ptds) cudaMemcpy3D;
extern __typeof__(cudaMemcpy3DAsync_ptsz) cudaMemcpy3DAsync;
extern __typeof__(cudaMemcpyToSymbol_ptds) cudaMemcpyToSymbol;
extern __typeof__(cudaMemcpyToSymbolAsync_ptsz) cudaMemcpyToSymbolAsync;
extern __typeof__(cudaMemcpyFromSymbol_ptds) cudaMemcpyFromSymbol;
extern __typeof__(cudaMemcpyFromSymbolAsync_ptsz) cudaMemcpyFromSymbolAsync;
extern __typeof__(cudaMemset_ptds) cudaMemset;
extern __typeof__(cudaMemsetAsync_ptsz) cudaMemsetAsync;
extern __typeof__(cudaMemset2D_ptds) cudaMemset2D;
extern __typeof__(cudaMemset2DAsync_ptsz) cudaMemset2DAsync;
extern __typeof__(cudaMemset3D_ptds) cudaMemset3D;
extern __typeof__(cudaMemset3DAsync_ptsz) cudaMemset3DAsync;
extern __typeof__(cudaMallocAsync_ptsz) cudaMallocAsync;
extern __typeof__(cudaMallocFromPoolAsync_ptsz) cudaMallocFromPoolAsync;
extern __typeof__(cudaFreeAsync_ptsz) cudaFreeAsync;
extern __typeof__(cudaStreamQuery_ptsz) cudaStreamQuery;
extern __typeof__(cudaStreamSynchronize_ptsz) cudaStreamSynchronize;
extern __typeof__(cudaStreamWaitEvent_ptsz) cudaStreamWaitEvent;
extern __typeof__(cudaStreamAddCallback_ptsz) cudaStreamAddCallback;
extern __typeof__(cudaStreamGetDevice_ptsz) cudaStreamGetDevice;
extern __typeof__(cudaStreamGetFlags_ptsz) cudaStreamGetFlags;
extern __typeof__(cudaStreamGetId_ptsz) cudaStreamGetId;
extern __typeof__(cudaStreamGetPriority_ptsz) cudaStreamGetPriority;
extern __typeof__(cudaStreamIsCapturing_ptsz) cudaStreamIsCapturing;
extern __typeof__(cudaStreamGetCaptureInfo_ptsz) cudaStreamGetCaptureInfo;
extern __typeof__(cudaEventRecord_ptsz) cudaEventRecord;
extern __typeof__(cudaEventRecordWithFlags_ptsz) cudaEventRecordWithFlags;
extern __typeof__(cudaLaunchKernel_ptsz) cudaLaunchKernel;
extern __typeof__(cudaLaunchKernelExC_ptsz) cudaLaunchKernelExC;
extern __typeof__(cudaLaunchCooperativeKernel_ptsz) cudaLaunchCooperativeKernel;
extern __typeof__(cudaLaunchHostFunc_ptsz) cudaLaunchHostFunc;
#endif

#if defined(__cplusplus)
}
#endif

#undef __dv
#undef __CUDA_DEPRECATED

#endif /* __CUDA_RUNTIME_API_H__ */

/* SPDX-License-Identifier: MIT */
/*
 * The driver API: Cenote's manual, and NVIDIA's ABI.
 *
 * Every name, value, layout and signature here is CUDA 13.0's. A program built with this header runs on libcenote, on
 * Cenote's libcuda.so.1, or on NVIDIA's driver; a program built with NVIDIA's cuda.h runs on Cenote. The include guard
 * is NVIDIA's, so whichever of the two headers comes first is the one that counts. What CUDA has and this header lacks
 * (graphs, textures, external semaphores, ...) Cenote does not implement.
 *
 *   1   Basics              CUDA_VERSION, addresses and handles, UUIDs
 *   2   Errors              CUresult; cuInit, versions, error names, entry points
 *   3   Devices             what there is, what it can do, its primary context, its pools
 *   4   Contexts            the thread's stack of them, flags, limits, peers
 *   5   Memory              device, host, registered and managed memory; copies and fills; what a pointer is
 *   6   Virtual memory      address ranges, physical memory, mapping one to the other, sharing it
 *   7   Pools               stream-ordered allocation, and pools shared between processes
 *   8   IPC                 64-byte handles for device memory and events
 *   9   Streams             order, callbacks, values in memory, capture
 *   10  Events              places in a stream: recorded, waited for, timed
 *   11  Launch and modules  kernels, host functions, where they come from
 *
 * How to read it
 *
 * A description ends with the answers that the call itself gives. These it does not repeat:
 *
 *   CUDA_SUCCESS                0: done, or, for an asynchronous call, enqueued
 *   CUDA_ERROR_NOT_INITIALIZED  cuInit() has not succeeded in this process; a forked child counts as a new process
 *   CUDA_ERROR_DEINITIALIZED    the process is exiting and the library has already shut down
 *   CUDA_ERROR_INVALID_CONTEXT  the call works "in the current context", and the thread has none that is alive
 *   CUDA_ERROR_NOT_SUPPORTED    the device, or this version of Cenote, does not do this; the sentence says which
 *
 * A failed call changes nothing and writes none of its outputs (they are called ret_...), unless it says otherwise.
 * Every call may be made from any thread at any time; "current" always means current to the calling thread.
 * Work that was accepted and fails later, when its stream reaches it, is reported by the calls that look at that stream
 * or wait for it: cuStreamQuery(), cuStreamSynchronize(), cuEventQuery(), cuEventSynchronize(), cuCtxSynchronize().
 *
 * Where Cenote is stricter than CUDA
 *
 * - Handles and pointers are checked on every call. NULL, garbage, or the handle of something destroyed is an error;
 *   NVIDIA's driver may crash there, or hit whatever now lives at that address.
 * - Every failure has a sentence: cenote_last_error() (cenote.h) gives the calling thread's latest.
 * - Sharing cannot corrupt: memory that another process still holds is not handed out again, importing a pointer twice
 *   takes two frees, a stale or forged handle is refused, and a process that dies gives back what it held.
 *
 * Streams that have no handle
 *
 * Where a stream is asked for, NULL means the legacy default stream, which waits for all other streams of the context
 * and which they wait for, save those created with CU_STREAM_NON_BLOCKING. With CUDA_API_PER_THREAD_DEFAULT_STREAM
 * defined before this header is included, NULL means the calling thread's own default stream instead, and the calls
 * that name no stream use that one too. CU_STREAM_LEGACY and CU_STREAM_PER_THREAD say it explicitly, either way.
 */

#ifndef __cuda_cuda_h__
#define __cuda_cuda_h__

#include <stdint.h>
#include <stdlib.h> /* size_t; and programs written for CUDA's header count on the rest of it */

#if defined(CUDA_FORCE_API_VERSION)
#error "CUDA_FORCE_API_VERSION is not supported: CUDA dropped it, and this header has 13.0's API alone"
#endif

/* ---- Symbols -------------------------------------------------------------------------------------------------------
 *
 * The names on the left are those a program writes; the library exports those on the right. A call whose meaning
 * depends on the default stream has a second symbol: _ptsz where the stream is an argument, _ptds where it is implied.
 */

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define __CUDA_API_PER_THREAD_DEFAULT_STREAM
#define __CUDA_API_PTDS(api) api##_ptds
#define __CUDA_API_PTSZ(api) api##_ptsz
#else
#define __CUDA_API_PTDS(api) api
#define __CUDA_API_PTSZ(api) api
#endif

#define cuGetProcAddress           cuGetProcAddress_v2
#define cuDeviceGetUuid            cuDeviceGetUuid_v2
#define cuDeviceTotalMem           cuDeviceTotalMem_v2
#define cuDevicePrimaryCtxRelease  cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset    cuDevicePrimaryCtxReset_v2
#define cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
#define cuCtxCreate                cuCtxCreate_v4
#define cuCtxDestroy               cuCtxDestroy_v2
#define cuCtxPushCurrent           cuCtxPushCurrent_v2
#define cuCtxPopCurrent            cuCtxPopCurrent_v2
#define cuMemGetInfo               cuMemGetInfo_v2
#define cuMemAlloc                 cuMemAlloc_v2
#define cuMemAllocPitch            cuMemAllocPitch_v2
#define cuMemFree                  cuMemFree_v2
#define cuMemGetAddressRange       cuMemGetAddressRange_v2
#define cuMemAllocHost             cuMemAllocHost_v2
#define cuMemHostGetDevicePointer  cuMemHostGetDevicePointer_v2
#define cuMemHostRegister          cuMemHostRegister_v2
#define cuMemPrefetchAsync         __CUDA_API_PTSZ(cuMemPrefetchAsync_v2)
#define cuMemAdvise                cuMemAdvise_v2
#define cuMemcpyHtoD               __CUDA_API_PTDS(cuMemcpyHtoD_v2)
#define cuMemcpyDtoH               __CUDA_API_PTDS(cuMemcpyDtoH_v2)
#define cuMemcpyDtoD               __CUDA_API_PTDS(cuMemcpyDtoD_v2)
#define cuMemcpyHtoDAsync          __CUDA_API_PTSZ(cuMemcpyHtoDAsync_v2)
#define cuMemcpyDtoHAsync          __CUDA_API_PTSZ(cuMemcpyDtoHAsync_v2)
#define cuMemcpyDtoDAsync          __CUDA_API_PTSZ(cuMemcpyDtoDAsync_v2)
#define cuMemcpy2D                 __CUDA_API_PTDS(cuMemcpy2D_v2)
#define cuMemcpy2DUnaligned        __CUDA_API_PTDS(cuMemcpy2DUnaligned_v2)
#define cuMemcpy2DAsync            __CUDA_API_PTSZ(cuMemcpy2DAsync_v2)
#define cuMemcpy3D                 __CUDA_API_PTDS(cuMemcpy3D_v2)
#define cuMemcpy3DAsync            __CUDA_API_PTSZ(cuMemcpy3DAsync_v2)
#define cuMemsetD8                 __CUDA_API_PTDS(cuMemsetD8_v2)
#define cuMemsetD16                __CUDA_API_PTDS(cuMemsetD16_v2)
#define cuMemsetD32                __CUDA_API_PTDS(cuMemsetD32_v2)
#define cuMemsetD2D8               __CUDA_API_PTDS(cuMemsetD2D8_v2)
#define cuMemsetD2D16              __CUDA_API_PTDS(cuMemsetD2D16_v2)
#define cuMemsetD2D32              __CUDA_API_PTDS(cuMemsetD2D32_v2)
#define cuIpcOpenMemHandle         cuIpcOpenMemHandle_v2
#define cuStreamDestroy            cuStreamDestroy_v2
#define cuStreamGetCaptureInfo     __CUDA_API_PTSZ(cuStreamGetCaptureInfo_v3)
#define cuStreamWaitValue32        __CUDA_API_PTSZ(cuStreamWaitValue32_v2)
#define cuStreamWaitValue64        __CUDA_API_PTSZ(cuStreamWaitValue64_v2)
#define cuStreamWriteValue32       __CUDA_API_PTSZ(cuStreamWriteValue32_v2)
#define cuStreamWriteValue64       __CUDA_API_PTSZ(cuStreamWriteValue64_v2)
#define cuStreamBatchMemOp         __CUDA_API_PTSZ(cuStreamBatchMemOp_v2)
#define cuEventDestroy             cuEventDestroy_v2
#define cuEventElapsedTime         cuEventElapsedTime_v2
#define cuModuleGetGlobal          cuModuleGetGlobal_v2

#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cuMemcpy                  __CUDA_API_PTDS(cuMemcpy)
#define cuMemcpyAsync             __CUDA_API_PTSZ(cuMemcpyAsync)
#define cuMemcpyPeer              __CUDA_API_PTDS(cuMemcpyPeer)
#define cuMemcpyPeerAsync         __CUDA_API_PTSZ(cuMemcpyPeerAsync)
#define cuMemsetD8Async           __CUDA_API_PTSZ(cuMemsetD8Async)
#define cuMemsetD16Async          __CUDA_API_PTSZ(cuMemsetD16Async)
#define cuMemsetD32Async          __CUDA_API_PTSZ(cuMemsetD32Async)
#define cuMemsetD2D8Async         __CUDA_API_PTSZ(cuMemsetD2D8Async)
#define cuMemsetD2D16Async        __CUDA_API_PTSZ(cuMemsetD2D16Async)
#define cuMemsetD2D32Async        __CUDA_API_PTSZ(cuMemsetD2D32Async)
#define cuMemAllocAsync           __CUDA_API_PTSZ(cuMemAllocAsync)
#define cuMemAllocFromPoolAsync   __CUDA_API_PTSZ(cuMemAllocFromPoolAsync)
#define cuMemFreeAsync            __CUDA_API_PTSZ(cuMemFreeAsync)
#define cuStreamQuery             __CUDA_API_PTSZ(cuStreamQuery)
#define cuStreamSynchronize       __CUDA_API_PTSZ(cuStreamSynchronize)
#define cuStreamWaitEvent         __CUDA_API_PTSZ(cuStreamWaitEvent)
#define cuStreamAddCallback       __CUDA_API_PTSZ(cuStreamAddCallback)
#define cuStreamGetCtx            __CUDA_API_PTSZ(cuStreamGetCtx)
#define cuStreamGetDevice         __CUDA_API_PTSZ(cuStreamGetDevice)
#define cuStreamGetFlags          __CUDA_API_PTSZ(cuStreamGetFlags)
#define cuStreamGetId             __CUDA_API_PTSZ(cuStreamGetId)
#define cuStreamGetPriority       __CUDA_API_PTSZ(cuStreamGetPriority)
#define cuStreamIsCapturing       __CUDA_API_PTSZ(cuStreamIsCapturing)
#define cuEventRecord             __CUDA_API_PTSZ(cuEventRecord)
#define cuEventRecordWithFlags    __CUDA_API_PTSZ(cuEventRecordWithFlags)
#define cuLaunchKernel            __CUDA_API_PTSZ(cuLaunchKernel)
#define cuLaunchKernelEx          __CUDA_API_PTSZ(cuLaunchKernelEx)
#define cuLaunchCooperativeKernel __CUDA_API_PTSZ(cuLaunchCooperativeKernel)
#define cuLaunchHostFunc          __CUDA_API_PTSZ(cuLaunchHostFunc)
#endif

#if defined(_WIN32)
#define CUDAAPI __stdcall
#define CUDA_CB __stdcall
#else
#define CUDAAPI /* calling convention of every function here: the platform's own */
#define CUDA_CB /* and of the functions that it calls back */
#endif

#if defined(__GNUC__) && defined(__CUDA_API_PUSH_VISIBILITY_DEFAULT)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ====================================================================================================================
 * 1  Basics
 * ================================================================================================================= */

#define CUDA_VERSION 13000 /* 1000 * major + 10 * minor */

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

/* An address that devices understand. With unified addressing, host addresses are such addresses too. */
#if defined(_WIN64) || defined(__LP64__)
typedef unsigned long long CUdeviceptr_v2;
#else
typedef unsigned int CUdeviceptr_v2;
#endif
typedef CUdeviceptr_v2 CUdeviceptr;

typedef int CUdevice_v1;
typedef CUdevice_v1 CUdevice; /* what cuDeviceGet() returns for an ordinal */

#define CU_DEVICE_CPU     ((CUdevice)-1) /* "the host", where a location is asked for */
#define CU_DEVICE_INVALID ((CUdevice)-2) /* no device */

/*
 * Handles. They are opaque: never a pointer to follow, and never valid in another process. A destroyed object's handle
 * does not come back to life as another object's.
 */
typedef struct CUctx_st *CUcontext;              /* a process's share of one device */
typedef struct CUstream_st *CUstream;            /* a queue of work */
typedef struct CUevent_st *CUevent;              /* a place in a stream */
typedef struct CUmemPoolHandle_st *CUmemoryPool; /* a stream-ordered allocator */
typedef struct CUmod_st *CUmodule;               /* loaded code */
typedef struct CUfunc_st *CUfunction;            /* a kernel of a module */
typedef struct CUlib_st *CUlibrary;              /* code that every context can use */
typedef struct CUkern_st *CUkernel; /* a kernel of a library; launches and occupancy take it for a CUfunction */
typedef unsigned long long CUmemGenericAllocationHandle_v1;
typedef CUmemGenericAllocationHandle_v1 CUmemGenericAllocationHandle; /* physical memory */

/* Handles that appear in types below, of things that Cenote does not make. */
typedef struct CUarray_st *CUarray;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;

/* Sixteen bytes that name a device, or a part of one, for as long as it exists. */
#ifndef CU_UUID_HAS_BEEN_DEFINED
#define CU_UUID_HAS_BEEN_DEFINED
typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;
#endif

/*
 * Where memory is, or should be. id: the device's ordinal for DEVICE, the NUMA node for HOST_NUMA, ignored for the
 * others.
 */
typedef enum CUmemLocationType_enum {
	CU_MEM_LOCATION_TYPE_INVALID = 0x0,
	CU_MEM_LOCATION_TYPE_NONE = 0x0,              /* no preference: managed memory alone */
	CU_MEM_LOCATION_TYPE_DEVICE = 0x1,            /* the device id */
	CU_MEM_LOCATION_TYPE_HOST = 0x2,              /* the host, any node */
	CU_MEM_LOCATION_TYPE_HOST_NUMA = 0x3,         /* the host's NUMA node id */
	CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 0x4, /* the node nearest to the calling thread's CPU */
	CU_MEM_LOCATION_TYPE_MAX = 0x7FFFFFFF
} CUmemLocationType;

typedef struct CUmemLocation_st {
	CUmemLocationType type;
	int id;
} CUmemLocation_v1;
typedef CUmemLocation_v1 CUmemLocation;

/* What a device, or the host, may do with memory. */
typedef enum CUmemAccess_flags_enum {
	CU_MEM_ACCESS_FLAGS_PROT_NONE = 0x0,      /* nothing */
	CU_MEM_ACCESS_FLAGS_PROT_READ = 0x1,      /* read */
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 0x3, /* read and write */
	CU_MEM_ACCESS_FLAGS_PROT_MAX = 0x7FFFFFFF
} CUmemAccess_flags;

typedef struct CUmemAccessDesc_st {
	CUmemLocation location;  /* what may use it … */
	CUmemAccess_flags flags; /* … and how */
} CUmemAccessDesc_v1;
typedef CUmemAccessDesc_v1 CUmemAccessDesc;

/* How memory can leave the process. A bit mask where several are asked for. */
typedef enum CUmemAllocationHandleType_enum {
	CU_MEM_HANDLE_TYPE_NONE = 0x0,                  /* not at all */
	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 0x1, /* int: a descriptor, sent over a Unix socket */
	CU_MEM_HANDLE_TYPE_WIN32 = 0x2,                 /* HANDLE: Windows alone */
	CU_MEM_HANDLE_TYPE_WIN32_KMT = 0x4,             /* D3DKMT_HANDLE: Windows alone */
	CU_MEM_HANDLE_TYPE_FABRIC = 0x8,                /* CUmemFabricHandle: sent by any means; IMEX channel needed */
	CU_MEM_HANDLE_TYPE_MAX = 0x7FFFFFFF
} CUmemAllocationHandleType;

/* What kind of memory an allocation or a pool has. */
typedef enum CUmemAllocationType_enum {
	CU_MEM_ALLOCATION_TYPE_INVALID = 0x0,
	CU_MEM_ALLOCATION_TYPE_PINNED = 0x1,  /* stays where it was created */
	CU_MEM_ALLOCATION_TYPE_MANAGED = 0x2, /* moves to where it is used */
	CU_MEM_ALLOCATION_TYPE_MAX = 0x7FFFFFFF
} CUmemAllocationType;

/* Bytes of an IPC handle, for memory, events and fabric alike. */
#define CU_IPC_HANDLE_SIZE 64

/*
 * Names memory or a pool across users, on this machine: see CU_MEM_HANDLE_TYPE_FABRIC. (CUDA's reach the machines of an
 * NVLink fabric.) Copy the bytes, do not read them.
 */
typedef struct CUmemFabricHandle_st {
	unsigned char data[CU_IPC_HANDLE_SIZE];
} CUmemFabricHandle_v1;
typedef CUmemFabricHandle_v1 CUmemFabricHandle;

/* ====================================================================================================================
 * 2  Errors, versions, entry points
 * ================================================================================================================= */

/*
 * What a call answers. 0 is success; everything else is a failure, except NOT_READY, which is a plain "not yet".
 * cuGetErrorName() and cuGetErrorString() put a code into words, cenote_last_error() says what was wrong this time.
 */
typedef enum cudaError_enum {
	CUDA_SUCCESS = 0, /* done; for an asynchronous call: enqueued */

	/* The caller, or the state of the library */
	CUDA_ERROR_INVALID_VALUE = 1,               /* an argument is out of range, NULL, or does not fit the others */
	CUDA_ERROR_OUT_OF_MEMORY = 2,               /* device, host memory or addresses have run out */
	CUDA_ERROR_NOT_INITIALIZED = 3,             /* no successful cuInit() in this process */
	CUDA_ERROR_DEINITIALIZED = 4,               /* the process is exiting */
	CUDA_ERROR_PROFILER_DISABLED = 5,           /* no profiler was set up for this run */
	CUDA_ERROR_PROFILER_NOT_INITIALIZED = 6,    /* no longer used */
	CUDA_ERROR_PROFILER_ALREADY_STARTED = 7,    /* no longer used */
	CUDA_ERROR_PROFILER_ALREADY_STOPPED = 8,    /* no longer used */
	CUDA_ERROR_STUB_LIBRARY = 34,               /* a link-time stub was loaded in a driver's place */
	CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER = 36, /* this driver is too old for the call */
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,         /* the device is there and busy, or closed to us */

	/* Devices, contexts, code */
	CUDA_ERROR_NO_DEVICE = 100,                 /* there is no device */
	CUDA_ERROR_INVALID_DEVICE = 101,            /* no device has this number */
	CUDA_ERROR_DEVICE_NOT_LICENSED = 102,       /* the grid licence does not cover it */
	CUDA_ERROR_INVALID_IMAGE = 200,             /* not a module, or a damaged one */
	CUDA_ERROR_INVALID_CONTEXT = 201,           /* no current context, or not a live one */
	CUDA_ERROR_CONTEXT_ALREADY_CURRENT = 202,   /* no longer used */
	CUDA_ERROR_MAP_FAILED = 205,                /* memory could not be mapped */
	CUDA_ERROR_UNMAP_FAILED = 206,              /* memory could not be unmapped */
	CUDA_ERROR_ARRAY_IS_MAPPED = 207,           /* the array is mapped and cannot be destroyed */
	CUDA_ERROR_ALREADY_MAPPED = 208,            /* the resource is mapped already */
	CUDA_ERROR_NO_BINARY_FOR_GPU = 209,         /* the module has no code for this device */
	CUDA_ERROR_ALREADY_ACQUIRED = 210,          /* the resource is taken */
	CUDA_ERROR_NOT_MAPPED = 211,                /* the resource is not mapped */
	CUDA_ERROR_NOT_MAPPED_AS_ARRAY = 212,       /* it is mapped, but not as an array */
	CUDA_ERROR_NOT_MAPPED_AS_POINTER = 213,     /* it is mapped, but not as a pointer */
	CUDA_ERROR_ECC_UNCORRECTABLE = 214,         /* memory lost bits that ECC cannot restore */
	CUDA_ERROR_UNSUPPORTED_LIMIT = 215,         /* the device does not have this CUlimit */
	CUDA_ERROR_CONTEXT_ALREADY_IN_USE = 216,    /* another thread has the context */
	CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,   /* the two devices cannot reach each other */
	CUDA_ERROR_INVALID_PTX = 218,               /* the PTX does not compile */
	CUDA_ERROR_INVALID_GRAPHICS_CONTEXT = 219,  /* the OpenGL or Direct3D context is unusable */
	CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,      /* an NVLink lost data */
	CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,    /* the PTX compiler's library is missing */
	CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,   /* the PTX is newer than the compiler */
	CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,  /* compilation of PTX was switched off */
	CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY = 224, /* the device cannot restrict itself so */
	CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 225,  /* the code synchronises on the device, which is gone */
	CUDA_ERROR_CONTAINED = 226,                 /* a fault that the device kept from spreading */

	/* Files, symbols, the operating system */
	CUDA_ERROR_INVALID_SOURCE = 300,                 /* the source does not compile */
	CUDA_ERROR_FILE_NOT_FOUND = 301,                 /* no such file */
	CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302, /* a shared object refers to an undefined symbol */
	CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303,      /* a shared object did not initialise */
	CUDA_ERROR_OPERATING_SYSTEM = 304,               /* a system call failed */

	/* Handles and state */
	CUDA_ERROR_INVALID_HANDLE = 400, /* not the handle of a live object of this kind */
	CUDA_ERROR_ILLEGAL_STATE = 401,  /* something needed is not in a state to be used */
	CUDA_ERROR_LOSSY_QUERY = 402,    /* the answer would leave out something that matters */
	CUDA_ERROR_NOT_FOUND = 500,      /* nothing has this name or address */
	CUDA_ERROR_NOT_READY = 600,      /* not finished yet: no failure */

	/* Work that failed on the device; the context is usually lost */
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,                /* a kernel touched an address that is not mapped for it */
	CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,        /* too many threads or registers for one launch */
	CUDA_ERROR_LAUNCH_TIMEOUT = 702,                 /* the kernel ran longer than the system allows */
	CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING = 703,  /* the kernel's texturing mode does not fit */
	CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,    /* this context can reach that peer already */
	CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,        /* this context cannot reach that peer */
	CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,         /* the primary context is already in use */
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,           /* the context has been destroyed */
	CUDA_ERROR_ASSERT = 710,                         /* an assert() in a kernel failed */
	CUDA_ERROR_TOO_MANY_PEERS = 711,                 /* no more peers fit */
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712, /* part of the range is registered */
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,     /* no registration begins there */
	CUDA_ERROR_HARDWARE_STACK_ERROR = 714,           /* a call stack broke or overflowed */
	CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,            /* an instruction the device does not have */
	CUDA_ERROR_MISALIGNED_ADDRESS = 716,             /* an address that is not aligned for its access */
	CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,          /* an address of the wrong memory space */
	CUDA_ERROR_INVALID_PC = 718,                     /* the program counter left the program */
	CUDA_ERROR_LAUNCH_FAILED = 719,                  /* a kernel failed in some other way */
	CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,   /* the grid cannot be resident all at once */
	CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,             /* a kernel ended with tensor memory still taken */

	/* Permission and support */
	CUDA_ERROR_NOT_PERMITTED = 800,                  /* not allowed for this user, process or object */
	CUDA_ERROR_NOT_SUPPORTED = 801,                  /* this device or system cannot do it */
	CUDA_ERROR_SYSTEM_NOT_READY = 802,               /* a service the devices need is not running yet */
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,         /* display driver and CUDA driver do not match */
	CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, /* forward compatibility does not cover it */
	CUDA_ERROR_MPS_CONNECTION_FAILED = 805,          /* MPS cannot be reached */
	CUDA_ERROR_MPS_RPC_FAILURE = 806,                /* a request to the MPS server failed */
	CUDA_ERROR_MPS_SERVER_NOT_READY = 807,           /* the MPS server takes no clients just now */
	CUDA_ERROR_MPS_MAX_CLIENTS_REACHED = 808,        /* MPS has no room for another client */
	CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED = 809,    /* MPS has no room for another connection */
	CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,          /* the MPS server ended this client */
	CUDA_ERROR_CDP_NOT_SUPPORTED = 811,              /* kernels cannot launch kernels here */
	CUDA_ERROR_CDP_VERSION_MISMATCH = 812,           /* two versions of device-side launch in one program */

	/* Capture, graphs, other devices */
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,     /* this cannot be captured */
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,     /* an earlier error spoilt the capture */
	CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,           /* two captures would become one */
	CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,       /* the capture did not begin in this stream */
	CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,        /* a forked stream was not joined again */
	CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,       /* a dependency would leave the capture */
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,        /* the legacy stream would wait for a capture */
	CUDA_ERROR_CAPTURED_EVENT = 907,                 /* the event was last recorded in a capture */
	CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,    /* another thread began this capture */
	CUDA_ERROR_TIMEOUT = 909,                        /* a wait ran out of time */
	CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,      /* the graph changed too much to be updated */
	CUDA_ERROR_EXTERNAL_DEVICE = 911,                /* another device or process, on which this waited, failed */
	CUDA_ERROR_INVALID_CLUSTER_SIZE = 912,           /* no cluster of this size is possible */
	CUDA_ERROR_FUNCTION_NOT_LOADED = 913,            /* the function's code is not loaded yet */
	CUDA_ERROR_INVALID_RESOURCE_TYPE = 914,          /* resources of this type do not fit here */
	CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915, /* too few of a resource, or badly split */
	CUDA_ERROR_KEY_ROTATION = 916,                   /* a key is being exchanged just now */
	CUDA_ERROR_UNKNOWN = 999                         /* something else inside */
} CUresult;

/* Which form of a symbol cuGetProcAddress() returns. */
typedef enum CUdriverProcAddress_flags_enum {
	CU_GET_PROC_ADDRESS_DEFAULT = 0,                       /* the form this file was compiled for */
	CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1 << 0,            /* NULL is the legacy stream */
	CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 1 << 1 /* NULL is the thread's own stream */
} CUdriverProcAddress_flags;

/* Why cuGetProcAddress() found what it found. */
typedef enum CUdriverProcAddressQueryResult_enum {
	CU_GET_PROC_ADDRESS_SUCCESS = 0,               /* found */
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,      /* no version of it exists */
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2 /* it exists from a later version on */
} CUdriverProcAddressQueryResult;

/*
 * Make the library ready. The first call of every program; later calls return at once. Finds the devices
 * (CENOTE_DEVICE, CENOTE_HOST_DEVICES and CUDA_VISIBLE_DEVICES have their say here), creates no context.
 *
 * In a forked child, once the parent had called it, it fails with CUDA_ERROR_NOT_INITIALIZED, and so does nearly
 * everything else: exec first.
 *
 *   CUDA_ERROR_INVALID_VALUE           flags is not 0
 *   CUDA_ERROR_NO_DEVICE               there is no device to be seen
 *   CUDA_ERROR_SYSTEM_DRIVER_MISMATCH  on a GPU: the parts of NVIDIA's driver do not fit each other
 *   CUDA_ERROR_OPERATING_SYSTEM        something the devices stand on could not be had; the sentence says what
 */
CUresult CUDAAPI cuInit(unsigned int flags);

/*
 * The CUDA version this library speaks, as CUDA_VERSION counts: 13000. Works without cuInit().
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_version is NULL
 */
CUresult CUDAAPI cuDriverGetVersion(int *ret_version);

/*
 * The name of a code, as it stands in this header: "CUDA_ERROR_INVALID_VALUE". A constant string. Works without
 * cuInit().
 *
 *   CUDA_ERROR_INVALID_VALUE  no code has this number: *ret_name becomes NULL; or ret_name is NULL
 */
CUresult CUDAAPI cuGetErrorName(CUresult error, const char **ret_name);

/*
 * A code in a few words: "invalid argument". A constant string, the same for every failure with this code;
 * cenote_last_error() says what was wrong with yours. Works without cuInit().
 *
 *   CUDA_ERROR_INVALID_VALUE  no code has this number: *ret_text becomes NULL; or ret_text is NULL
 */
CUresult CUDAAPI cuGetErrorString(CUresult error, const char **ret_text);

/*
 * The address of a driver function by its base name ("cuMemAlloc", not "cuMemAlloc_v2"), in the form it had in version
 * cuda_version: the newest that is not younger. flags (CUdriverProcAddress_flags) chooses between the legacy and the
 * per-thread form; a function that has one form only is found either way. Works without cuInit().
 *
 * A name that is not found is no failure: the call succeeds, *ret_address is NULL, and *ret_status, unless ret_status
 * is NULL, says why.
 *
 * Compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM, flags 0 means the per-thread form.
 *
 *   CUDA_ERROR_INVALID_VALUE  name or ret_address is NULL, flags has a bit that is not there, or cuda_version is above
 *                             cuDriverGetVersion()'s
 */
CUresult CUDAAPI cuGetProcAddress(const char *name, void **ret_address, int cuda_version, cuuint64_t flags,
				  CUdriverProcAddressQueryResult *ret_status);

#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
static inline CUresult cuGetProcAddress_v2_ptsz(const char *name, void **ret_address, int cuda_version,
						cuuint64_t flags, CUdriverProcAddressQueryResult *ret_status)
{
	const cuuint64_t forms = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	if (!(flags & forms))
		flags |= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	return cuGetProcAddress_v2(name, ret_address, cuda_version, flags, ret_status);
}
#define cuGetProcAddress_v2 cuGetProcAddress_v2_ptsz
#endif

/* ====================================================================================================================
 * 3  Devices
 * ================================================================================================================= */

/*
 * What cuDeviceGetAttribute() can be asked. Sizes are bytes, clocks kHz, and "can" and "has" are 0 or 1. What has no
 * meaning for a device (textures, on the host device) is 0.
 */
typedef enum CUdevice_attribute_enum {
	/* A launch */
	CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,       /* threads in one block */
	CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,             /* threads of a block in x */
	CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,             /* ... in y */
	CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,             /* ... in z */
	CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,              /* blocks of a grid in x */
	CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,              /* ... in y */
	CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,              /* ... in z */
	CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8, /* shared memory of a block */
	CU_DEVICE_ATTRIBUTE_SHARED_MEMORY_PER_BLOCK = 8,     /* older name */
	CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,       /* constant memory of a kernel */
	CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,                  /* threads that step together */
	CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,                  /* largest pitch of a 2D copy */
	CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,    /* 32-bit registers of a block */
	CU_DEVICE_ATTRIBUTE_REGISTERS_PER_BLOCK = 12,        /* older name */

	/* The device */
	CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,           /* its clock */
	CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT = 14,    /* alignment of a texture */
	CU_DEVICE_ATTRIBUTE_GPU_OVERLAP = 15,          /* can copy beside a kernel; ASYNC_ENGINE_COUNT says more */
	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16, /* multiprocessors; CPUs on the host device */
	CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = 17,  /* kernels have a time limit */
	CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,           /* shares the host's memory */
	CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,  /* host memory can be mapped for it */
	CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,         /* a CUcomputemode */

	/* Largest textures, in texels */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH = 21,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH = 22,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT = 23,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH = 24,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT = 25,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH = 26,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH = 27,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT = 28,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS = 29,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_WIDTH = 27,     /* older name of LAYERED_WIDTH */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_HEIGHT = 28,    /* of LAYERED_HEIGHT */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_NUMSLICES = 29, /* of LAYERED_LAYERS */

	/* The device again */
	CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT = 30,              /* alignment of a surface */
	CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,             /* kernels can run side by side */
	CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,                    /* memory is guarded by ECC */
	CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,                     /* its place: bus */
	CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,                  /* ... and device */
	CU_DEVICE_ATTRIBUTE_TCC_DRIVER = 35,                     /* driven without a display (Windows) */
	CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,              /* its memory's clock */
	CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,        /* bits of its memory's bus */
	CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,                  /* L2 cache */
	CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39, /* threads resident at once */
	CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,             /* copies beside a kernel, and beside each other */
	CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,             /* one address space with the host and its peers */

	/* More textures, in texels */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH = 42,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS = 43,
	CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER = 44,               /* no longer used */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH = 45, /* for gathering */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT = 46,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE = 47, /* the other shape allowed in 3D */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE = 48,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE = 49,
	CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,           /* its place: domain */
	CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT = 51, /* pitch of a 2D texture on linear memory */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH = 52,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH = 53,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS = 54,

	/* Largest surfaces, and more textures, in elements */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH = 55,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH = 56,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT = 57,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH = 58,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT = 59,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH = 60,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH = 61,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS = 62,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH = 63,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT = 64,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS = 65,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH = 66,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH = 67,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS = 68,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH = 69, /* no longer used */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH = 70,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT = 71,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH = 72, /* in bytes */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH = 73,
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT = 74,

	/* What it can do */
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75, /* the 9 of 9.0 */
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76, /* the 0 of 9.0 */
	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH = 77,
	CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,             /* streams have priorities */
	CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED = 79,               /* L1 caches global memory */
	CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED = 80,                /* L1 caches local memory */
	CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,    /* shared memory of a multiprocessor */
	CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,        /* its 32-bit registers */
	CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,                          /* has managed memory */
	CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD = 84,                         /* one of several on its board */
	CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID = 85,                /* the same for all of a board */
	CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED = 86,            /* its link to the host does all atomics */
	CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO = 87,   /* how much faster float is than double */
	CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,                  /* can use malloc()ed memory as it is */
	CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,               /* managed memory: host and device at once */
	CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED = 90,            /* kernels can be interrupted */
	CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91, /* same address on both sides */

	CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1 = 92,                     /* no longer used */
	CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1 = 93,              /* no longer used */
	CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1 = 94,              /* no longer used */
	CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,                            /* has cooperative launches */
	CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH = 96,               /* no longer used */
	CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,             /* shared memory of a block, if asked */
	CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES = 98,                       /* can flush writes of other devices */
	CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,                       /* cuMemHostRegister() works */
	CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100, /* by the host's tables */
	CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST = 101,          /* host reaches it without moving it */

	/* Sharing */
	CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED = 102,        /* older name */
	CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,         /* chapter 6 works */
	CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103, /* memory leaves as a descriptor */
	CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED = 104,          /* ... as a HANDLE */
	CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED = 105,      /* ... as a D3DKMT_HANDLE */
	CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,               /* blocks resident at once */
	CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED = 107,               /* memory can be compressed */
	CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE = 108,                /* L2 that can be set aside */
	CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE = 109,               /* largest access policy window */
	CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,     /* RDMA reaches chapter 6's memory */
	CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,            /* of a block's, what the system takes */
	CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED = 112,                 /* has sparse arrays */
	CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED = 113,           /* CU_MEMHOSTREGISTER_READ_ONLY works */
	CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED = 114,        /* shares timeline semaphores */
	CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,                      /* chapter 7 works */
	CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116,                   /* RDMA reaches its memory */
	CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117,        /* CUflushGPUDirectRDMAWritesOptions */
	CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING = 118,             /* a CUGPUDirectRDMAWritesOrdering */
	CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES = 119,              /* how pools leave, as bits */

	CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,                                /* has clusters of blocks */
	CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED = 121,         /* arrays can get memory later */
	CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,                 /* waits for, writes 64-bit values */
	CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR = 123,                 /* has CU_STREAM_WAIT_VALUE_NOR */
	CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124,                             /* memory leaves as a DMA-BUF */
	CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED = 125,                           /* has events for other processes */
	CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT = 126,                         /* memory domains it keeps apart */
	CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED = 127,                   /* kernels can use tensor maps */
	CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128,                  /* memory leaves as a fabric handle */
	CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS = 129,                     /* function pointers mean one thing */
	CU_DEVICE_ATTRIBUTE_NUMA_CONFIG = 130,                                   /* a CUdeviceNumaConfig */
	CU_DEVICE_ATTRIBUTE_NUMA_ID = 131,                                       /* the NUMA node of its own memory */
	CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED = 132,                           /* writes to several devices at once */
	CU_DEVICE_ATTRIBUTE_MPS_ENABLED = 133,                                   /* its contexts run under MPS */
	CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134,                                  /* the nearest NUMA node, or -1 */
	CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED = 135,                           /* works inside a D3D12 queue */
	CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK = 136,                 /* CUmemDecompressAlgorithm bits */
	CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH = 137,                 /* bytes of one decompression */
	CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED = 138,                          /* works inside a Vulkan queue */
	CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID = 139,                             /* PCI device and vendor id */
	CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID = 140,                          /* PCI subsystem and its vendor's id */
	CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 141, /* chapter 6 on HOST_NUMA */
	CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED = 142,              /* chapter 7 on HOST_NUMA */
	CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED = 143,             /* HOST_NUMA memory by fabric handle */
	CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED = 144,                   /* chapter 7 on HOST */
	CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 145,      /* chapter 6 on HOST */
	CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED = 146,                  /* page-locked memory as a DMA-BUF */
	CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED = 147,     /* its link does some atomics */
	CU_DEVICE_ATTRIBUTE_MAX
} CUdevice_attribute;

/* Which processes may create contexts on a device. */
typedef enum CUcomputemode_enum {
	CU_COMPUTEMODE_DEFAULT = 0,          /* any number of processes */
	CU_COMPUTEMODE_PROHIBITED = 2,       /* none */
	CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3 /* one process at a time */
} CUcomputemode;

/* Whether a device's memory is a NUMA node of the system. */
typedef enum CUdeviceNumaConfig_enum {
	CU_DEVICE_NUMA_CONFIG_NONE = 0, /* no */
	CU_DEVICE_NUMA_CONFIG_NUMA_NODE /* yes: CU_DEVICE_ATTRIBUTE_NUMA_ID */
} CUdeviceNumaConfig;

/* How writes that arrive by RDMA can be made visible (bits). */
typedef enum CUflushGPUDirectRDMAWritesOptions_enum {
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST = 1 << 0,  /* by a call on the host */
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS = 1 << 1 /* by a memory operation in a stream */
} CUflushGPUDirectRDMAWritesOptions;

/* Which devices see writes that arrive by RDMA in order, without a flush. */
typedef enum CUGPUDirectRDMAWritesOrdering_enum {
	CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE = 0,         /* none */
	CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER = 100,      /* the device that owns the memory */
	CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES = 200 /* every device */
} CUGPUDirectRDMAWritesOrdering;

/* What the hardware can decompress (bits). */
typedef enum CUmemDecompressAlgorithm_enum {
	CU_MEM_DECOMPRESS_UNSUPPORTED = 0,
	CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE = 1 << 0,
	CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY = 1 << 1,
	CU_MEM_DECOMPRESS_ALGORITHM_LZ4 = 1 << 2
} CUmemDecompressAlgorithm;

/* What cuDeviceGetP2PAttribute() can be asked of a pair of devices. */
typedef enum CUdevice_P2PAttribute_enum {
	CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 0x01,                    /* the link's rank: 0 is the fastest */
	CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 0x02,                    /* one can reach the other's memory */
	CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 0x03,             /* the link does all atomics */
	CU_DEVICE_P2P_ATTRIBUTE_ACCESS_ACCESS_SUPPORTED = 0x04,             /* older name of the next */
	CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED = 0x04,         /* one can reach the other's arrays */
	CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED = 0x05 /* the link does some atomics */
} CUdevice_P2PAttribute;

/* ---- What there is ----------------------------------------------------------------------------------------------- */

/*
 * How many devices this process can see. 0 is a count like any other. Answers in a forked child too.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_count is NULL
 */
CUresult CUDAAPI cuDeviceGetCount(int *ret_count);

/*
 * The device with this ordinal, 0 to count - 1.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_device is NULL
 *   CUDA_ERROR_INVALID_DEVICE  no device has this ordinal
 */
CUresult CUDAAPI cuDeviceGet(CUdevice *ret_device, int ordinal);

/*
 * The device's name, as text, cut to fit length bytes with the terminating NUL among them.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_name is NULL, or length is not positive
 *   CUDA_ERROR_INVALID_DEVICE  device is not one
 */
CUresult CUDAAPI cuDeviceGetName(char *ret_name, int length, CUdevice device);

/*
 * The device's UUID: two processes that see the same one see the same device. For a part of a device (MIG), the part's.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_uuid is NULL
 *   CUDA_ERROR_INVALID_DEVICE  device is not one
 */
CUresult CUDAAPI cuDeviceGetUuid(CUuuid *ret_uuid, CUdevice device);

/*
 * The device's LUID, eight bytes, and its node mask: what Windows calls a device.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_luid or ret_node_mask is NULL
 *   CUDA_ERROR_INVALID_DEVICE  device is not one
 *   CUDA_ERROR_NOT_SUPPORTED   always, outside Windows
 */
CUresult CUDAAPI cuDeviceGetLuid(char *ret_luid, unsigned int *ret_node_mask, CUdevice device);

/*
 * All of the device's memory, in bytes. cuMemGetInfo() says how much of it is free.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_bytes is NULL
 *   CUDA_ERROR_INVALID_DEVICE  device is not one
 */
CUresult CUDAAPI cuDeviceTotalMem(size_t *ret_bytes, CUdevice device);

/*
 * One of the device's attributes. They do not change while the process runs.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_value is NULL, or there is no such attribute
 *   CUDA_ERROR_INVALID_DEVICE  device is not one
 */
CUresult CUDAAPI cuDeviceGetAttribute(int *ret_value, CUdevice_attribute attribute, CUdevice device);

/*
 * Where the device sits, as "domain:bus:device.function" in hexadecimal ("0000:3b:00.0"). length counts the terminating
 * NUL: 13 are enough for that form.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_id is NULL, or length is too small
 *   CUDA_ERROR_INVALID_DEVICE  device is not one
 */
CUresult CUDAAPI cuDeviceGetPCIBusId(char *ret_id, int length, CUdevice device);

/*
 * The device that sits there. Takes "domain:bus:device.function", "domain:bus:device" and "bus:device.function".
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_device or id is NULL, or id does not read like one
 *   CUDA_ERROR_INVALID_DEVICE  no visible device sits there
 */
CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *ret_device, const char *id);

/* ---- Peers ------------------------------------------------------------------------------------------------------- */

/*
 * 1 if contexts on device can reach the memory of peer (cuCtxEnablePeerAccess()), 0 if they cannot. A device is not its
 * own peer: 0.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_can is NULL
 *   CUDA_ERROR_INVALID_DEVICE  device or peer is not one
 */
CUresult CUDAAPI cuDeviceCanAccessPeer(int *ret_can, CUdevice device, CUdevice peer);

/*
 * What the link from one device to another can do.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_value is NULL, or there is no such attribute
 *   CUDA_ERROR_INVALID_DEVICE  a device is not one, or both are the same
 */
CUresult CUDAAPI cuDeviceGetP2PAttribute(int *ret_value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to);

/* ---- Its pools --------------------------------------------------------------------------------------------------- */

/*
 * The pool that the device was born with. It cannot be destroyed, and cannot be shared.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_pool is NULL
 *   CUDA_ERROR_INVALID_DEVICE  device is not one
 *   CUDA_ERROR_NOT_SUPPORTED   the device has no pools
 */
CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *ret_pool, CUdevice device);

/*
 * The pool from which cuMemAllocAsync() allocates on this device: the last one set, or the default pool.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_pool is NULL, or device is not one
 *   CUDA_ERROR_NOT_SUPPORTED  the device has no pools
 */
CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *ret_pool, CUdevice device);

/*
 * Make cuMemAllocAsync() allocate from this pool on this device. What was allocated before stays where it is.
 * Destroying the pool brings the default pool back.
 *
 * A managed pool whose preferred location is the device becomes the current one of that location and type instead.
 *
 *   CUDA_ERROR_INVALID_VALUE  pool is not a live pool, was imported, or is not on this device; device is not one
 */
CUresult CUDAAPI cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);

/* ---- Its primary context ----------------------------------------------------------------------------------------- */

/*
 * Retain the device's primary context, creating it if it is not retained. Each retain takes a release. Does not make it
 * current: cuCtxSetCurrent() does.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_context is NULL
 *   CUDA_ERROR_INVALID_DEVICE  device is not one
 *   CUDA_ERROR_OUT_OF_MEMORY   no room for a context
 *   CUDA_ERROR_UNKNOWN         the device's compute mode is CU_COMPUTEMODE_PROHIBITED
 */
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *ret_context, CUdevice device);

/*
 * Release it. The last release destroys everything in the context, as cuDevicePrimaryCtxReset() does. Never pops it
 * from a thread's stack: a thread that still has it on top has a dead context there.
 *
 *   CUDA_ERROR_INVALID_DEVICE   device is not one
 *   CUDA_ERROR_INVALID_CONTEXT  the primary context is not retained
 */
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device);

/*
 * Destroy everything in the primary context, even what others made: memory, streams, events, modules. Waits for running
 * work. Each retain still takes its release, and the context's next use builds it anew.
 *
 *   CUDA_ERROR_INVALID_DEVICE  device is not one
 */
CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device);

/*
 * The primary context's flags (CUctx_flags; those it will have, if it is not there yet), and 1 if it is there, 0 if
 * not.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_flags or ret_active is NULL
 *   CUDA_ERROR_INVALID_DEVICE  device is not one
 */
CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *ret_flags, int *ret_active);

/*
 * Set the primary context's flags (CUctx_flags), whether it is there already or not.
 *
 *   CUDA_ERROR_INVALID_VALUE   a bit that is not there, or two of the SCHED ones
 *   CUDA_ERROR_INVALID_DEVICE  device is not one
 */
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags);

/* ====================================================================================================================
 * 4  Contexts
 *
 * A context is what a process has on a device: its memory, streams, events and modules live in one and die with it.
 * Each thread has a stack of contexts; the top one is current, and the calls that name no device work there. A device's
 * primary context is shared by all code that retains it (the runtime API works in it); cuCtxCreate() makes others.
 * ================================================================================================================= */

/* How a context behaves. At most one of the SCHED bits: how a thread waits for the device. */
typedef enum CUctx_flags_enum {
	CU_CTX_SCHED_AUTO = 0x00,           /* the library decides */
	CU_CTX_SCHED_SPIN = 0x01,           /* spin: quickest, and takes a CPU */
	CU_CTX_SCHED_YIELD = 0x02,          /* spin, and let others run between */
	CU_CTX_SCHED_BLOCKING_SYNC = 0x04,  /* sleep */
	CU_CTX_BLOCKING_SYNC = 0x04,        /* older name */
	CU_CTX_SCHED_MASK = 0x07,           /* the bits above */
	CU_CTX_MAP_HOST = 0x08,             /* host memory can be mapped: always so */
	CU_CTX_LMEM_RESIZE_TO_MAX = 0x10,   /* local memory never shrinks: always so */
	CU_CTX_COREDUMP_ENABLE = 0x20,      /* dump the device's state when work fails */
	CU_CTX_USER_COREDUMP_ENABLE = 0x40, /* ... and when asked to */
	CU_CTX_SYNC_MEMOPS = 0x80,          /* synchronous copies and fills always wait to the end */
	CU_CTX_FLAGS_MASK = 0xFF            /* all bits there are */
} CUctx_flags;

/* A part of a device, in place of all of it. */
typedef enum CUexecAffinityType_enum {
	CU_EXEC_AFFINITY_TYPE_SM_COUNT = 0, /* so many multiprocessors */
	CU_EXEC_AFFINITY_TYPE_MAX
} CUexecAffinityType;

typedef struct CUexecAffinitySmCount_st {
	unsigned int val; /* multiprocessors */
} CUexecAffinitySmCount_v1;
typedef CUexecAffinitySmCount_v1 CUexecAffinitySmCount;

typedef struct CUexecAffinityParam_st {
	CUexecAffinityType type;
	union {
		CUexecAffinitySmCount smCount;
	} param; /* by type */
} CUexecAffinityParam_v1;
typedef CUexecAffinityParam_v1 CUexecAffinityParam;

/* A queue of a graphics API to work inside of. */
typedef enum CUcigDataType_enum {
	CIG_DATA_TYPE_D3D12_COMMAND_QUEUE = 0x1, /* an ID3D12CommandQueue */
	CIG_DATA_TYPE_NV_BLOB = 0x2              /* what Vulkan's extension gives */
} CUcigDataType;

typedef struct CUctxCigParam_st {
	CUcigDataType sharedDataType;
	void *sharedData;
} CUctxCigParam;

/* Extras of cuCtxCreate(): one or the other, or neither. */
typedef struct CUctxCreateParams_st {
	CUexecAffinityParam *execAffinityParams; /* array, or NULL */
	int numExecAffinityParams;               /* its length */
	CUctxCigParam *cigParams;                /* or NULL */
} CUctxCreateParams;

/* What cuCtxGetLimit() and cuCtxSetLimit() are about. */
typedef enum CUlimit_enum {
	CU_LIMIT_STACK_SIZE = 0x00,                       /* stack of a device thread */
	CU_LIMIT_PRINTF_FIFO_SIZE = 0x01,                 /* buffer of printf() in kernels */
	CU_LIMIT_MALLOC_HEAP_SIZE = 0x02,                 /* heap of malloc() in kernels */
	CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH = 0x03,           /* depth to which kernels wait for kernels they launched */
	CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT = 0x04, /* launches by kernels that may be pending */
	CU_LIMIT_MAX_L2_FETCH_GRANULARITY = 0x05,         /* bytes fetched into L2 at once: 0 to 128, a hint */
	CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 0x06,         /* bytes of L2 set aside */
	CU_LIMIT_SHMEM_SIZE = 0x07,                       /* shared memory, in a graphics queue; read only */
	CU_LIMIT_CIG_ENABLED = 0x08,                      /* the context works in a graphics queue */
	CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED = 0x09,       /* ... and launches with less shared memory if need be */
	CU_LIMIT_MAX
} CUlimit;

/* How to split on-chip memory, where it can be split. A wish. */
typedef enum CUfunc_cache_enum {
	CU_FUNC_CACHE_PREFER_NONE = 0x00,   /* no wish */
	CU_FUNC_CACHE_PREFER_SHARED = 0x01, /* more shared memory, less L1 */
	CU_FUNC_CACHE_PREFER_L1 = 0x02,     /* more L1, less shared memory */
	CU_FUNC_CACHE_PREFER_EQUAL = 0x03   /* halves */
} CUfunc_cache;

/* How wide the banks of shared memory are, where that can be chosen. On no device since 2014. */
typedef enum CUsharedconfig_enum {
	CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE = 0x00,
	CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE = 0x01,
	CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE = 0x02
} CUsharedconfig;

/* ---- Life, and which one is current ------------------------------------------------------------------------------ */

/*
 * A new context on the device, pushed onto the calling thread's stack: it is current from here on. params may be NULL.
 * Most programs want the primary context instead, which the runtime API shares.
 *
 *   CUDA_ERROR_INVALID_VALUE              ret_context is NULL, flags has a bit that is not there or two SCHED ones, or
 *                                         params are not well formed
 *   CUDA_ERROR_INVALID_DEVICE             device is not one
 *   CUDA_ERROR_NOT_SUPPORTED              params ask for a graphics queue, and the device has none
 *   CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY  params ask for a part of the device, which it does not give
 *   CUDA_ERROR_OUT_OF_MEMORY              no room for a context
 *   CUDA_ERROR_UNKNOWN                    the device's compute mode is CU_COMPUTEMODE_PROHIBITED
 */
CUresult CUDAAPI cuCtxCreate(CUcontext *ret_context, CUctxCreateParams *params, unsigned int flags, CUdevice device);

/*
 * Destroy a context that cuCtxCreate() made, and everything in it, after its work has finished. If it is current to the
 * calling thread it is popped; in other threads' stacks it stays, dead. Handles and pointers of what it had are refused
 * from now on. Not for primary contexts: cuDevicePrimaryCtxRelease().
 *
 *   CUDA_ERROR_INVALID_VALUE    context is NULL
 *   CUDA_ERROR_INVALID_CONTEXT  context is not a live one, or a primary one
 */
CUresult CUDAAPI cuCtxDestroy(CUcontext context);

/*
 * Put a context on top of the calling thread's stack. A context may be current to any number of threads.
 *
 *   CUDA_ERROR_INVALID_VALUE    context is NULL
 *   CUDA_ERROR_INVALID_CONTEXT  context is not a live one
 */
CUresult CUDAAPI cuCtxPushCurrent(CUcontext context);

/*
 * Take the top context off the calling thread's stack; the one below is current then. ret_context may be NULL.
 *
 *   CUDA_ERROR_INVALID_CONTEXT  the stack is empty
 */
CUresult CUDAAPI cuCtxPopCurrent(CUcontext *ret_context);

/*
 * Put a context in place of the top one, or onto an empty stack. NULL: pop the top one, if there is one.
 *
 *   CUDA_ERROR_INVALID_CONTEXT  context is not a live one
 */
CUresult CUDAAPI cuCtxSetCurrent(CUcontext context);

/*
 * The current context; NULL if the stack is empty, which is no failure.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_context is NULL
 */
CUresult CUDAAPI cuCtxGetCurrent(CUcontext *ret_context);

/* ---- About the current one --------------------------------------------------------------------------------------- */

/*
 * The current context's device.
 *
 *   CUDA_ERROR_INVALID_VALUE    ret_device is NULL
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuCtxGetDevice(CUdevice *ret_device);

/*
 * The current context's flags (CUctx_flags), those that are always on among them.
 *
 *   CUDA_ERROR_INVALID_VALUE    ret_flags is NULL
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuCtxGetFlags(unsigned int *ret_flags);

/*
 * Give the current context these flags (CUctx_flags) in place of those it had; those that are always on stay on.
 *
 *   CUDA_ERROR_INVALID_VALUE    a bit that is not there, or two SCHED ones
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuCtxSetFlags(unsigned int flags);

/*
 * A number that no other context of this process has, had, or will have. context NULL: the current one's.
 *
 *   CUDA_ERROR_INVALID_VALUE         ret_id is NULL
 *   CUDA_ERROR_INVALID_CONTEXT       context is not one, or NULL with none current
 *   CUDA_ERROR_CONTEXT_IS_DESTROYED  context was one, and has been destroyed
 */
CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long *ret_id);

/*
 * The version of the API that the context was made with, as NVIDIA's driver counts those: 3020 and the like, not
 * CUDA_VERSION. context NULL: the current one's.
 *
 *   CUDA_ERROR_INVALID_VALUE    ret_version is NULL
 *   CUDA_ERROR_INVALID_CONTEXT  context is not a live one, or NULL with none current
 */
CUresult CUDAAPI cuCtxGetApiVersion(CUcontext context, unsigned int *ret_version);

/*
 * Wait until everything put into the current context's streams before this call is done. How the thread waits is the
 * SCHED flags' business. Pools give back what they hold above their release threshold.
 *
 * Returns the error of work that failed, if some did.
 *
 *   CUDA_ERROR_INVALID_CONTEXT             no context is current
 *   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED  a stream of the context is being captured
 */
CUresult CUDAAPI cuCtxSynchronize(void);

/*
 * Record an event of all that the context was given so far, in whichever stream. No stream waits for it.
 *
 *   CUDA_ERROR_INVALID_HANDLE   the event is not a live one, or belongs to another context
 *   CUDA_ERROR_CONTEXT_IS_DESTROYED  the context has been destroyed
 */
CUresult CUDAAPI cuCtxRecordEvent(CUcontext context, CUevent event);

/*
 * A limit of the current context.
 *
 *   CUDA_ERROR_INVALID_VALUE      ret_value is NULL, or there is no such limit
 *   CUDA_ERROR_UNSUPPORTED_LIMIT  the device does not have this one
 *   CUDA_ERROR_INVALID_CONTEXT    no context is current
 */
CUresult CUDAAPI cuCtxGetLimit(size_t *ret_value, CUlimit limit);

/*
 * Ask for a limit of the current context. The device may give more, or cut it to what is possible: read it back.
 *
 *   CUDA_ERROR_INVALID_VALUE      there is no such limit, or it cannot have this value
 *   CUDA_ERROR_UNSUPPORTED_LIMIT  the device does not have this one
 *   CUDA_ERROR_NOT_PERMITTED      it can only be read
 *   CUDA_ERROR_OUT_OF_MEMORY      no memory for it
 *   CUDA_ERROR_INVALID_CONTEXT    no context is current
 */
CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value);

/*
 * The stream priorities of the current context's device: the least, which is the greatest number (0), and the greatest,
 * a negative one. Both 0: the device has no priorities. Either output may be NULL.
 *
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *ret_least, int *ret_greatest);

/*
 * Let the current context reach all memory of another device's context, now and later, by the same addresses. One way
 * only: the other side needs a call of its own. flags must be 0.
 *
 *   CUDA_ERROR_INVALID_VALUE                flags is not 0
 *   CUDA_ERROR_INVALID_CONTEXT              peer is not a live context, or is on the same device; or no context is
 *                                           current
 *   CUDA_ERROR_PEER_ACCESS_UNSUPPORTED      the devices cannot reach each other: cuDeviceCanAccessPeer()
 *   CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED  it can reach it already
 *   CUDA_ERROR_TOO_MANY_PEERS               the device has no room for another peer
 */
CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);

/*
 * Take that back. Work under way that uses the peer's memory must be finished.
 *
 *   CUDA_ERROR_INVALID_CONTEXT          peer is not a live context, or no context is current
 *   CUDA_ERROR_PEER_ACCESS_NOT_ENABLED  it could not reach it anyway
 */
CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer);

/*
 * The current context's wish for its on-chip memory; CU_FUNC_CACHE_PREFER_NONE until it has one.
 *
 *   CUDA_ERROR_INVALID_VALUE    ret_config is NULL
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *ret_config);

/*
 * Set that wish. No effect where the split is fixed, as on the host device.
 *
 *   CUDA_ERROR_INVALID_VALUE    there is no such setting
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config);

/*
 * The width of the banks of shared memory: CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE, as on every device of today.
 *
 *   CUDA_ERROR_INVALID_VALUE    ret_config is NULL
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig *ret_config);

/*
 * Ask for another width. Without effect where it is fixed.
 *
 *   CUDA_ERROR_INVALID_VALUE    there is no such setting
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config);

/* ====================================================================================================================
 * 5  Memory
 *
 * All calls here but the pointer and range queries work in the current context.
 * ================================================================================================================= */

/* What kind of memory a copy's side is, and what CU_POINTER_ATTRIBUTE_MEMORY_TYPE answers. */
typedef enum CUmemorytype_enum {
	CU_MEMORYTYPE_HOST = 0x01,   /* the host's */
	CU_MEMORYTYPE_DEVICE = 0x02, /* a device's */
	CU_MEMORYTYPE_ARRAY = 0x03,  /* a CUarray */
	CU_MEMORYTYPE_UNIFIED = 0x04 /* the address tells */
} CUmemorytype;

/* cuMemHostAlloc() */
#define CU_MEMHOSTALLOC_PORTABLE      0x01 /* page-locked for every context, not for the current one alone */
#define CU_MEMHOSTALLOC_DEVICEMAP     0x02 /* reachable by the device: cuMemHostGetDevicePointer() */
#define CU_MEMHOSTALLOC_WRITECOMBINED 0x04 /* fast for the CPU to write, very slow to read */

/* cuMemHostRegister() */
#define CU_MEMHOSTREGISTER_PORTABLE  0x01 /* page-locked for every context */
#define CU_MEMHOSTREGISTER_DEVICEMAP 0x02 /* reachable by the device */
#define CU_MEMHOSTREGISTER_IOMEMORY  0x04 /* a mapping of another device's memory */
#define CU_MEMHOSTREGISTER_READ_ONLY 0x08 /* the device will not write there */

/* What may use managed memory at first. */
typedef enum CUmemAttach_flags_enum {
	CU_MEM_ATTACH_GLOBAL = 0x1, /* any stream of any device */
	CU_MEM_ATTACH_HOST = 0x2,   /* the host alone, until attached to something else */
	CU_MEM_ATTACH_SINGLE = 0x4  /* one stream: not for cuMemAllocManaged() */
} CUmemAttach_flags;

/* Advice about managed memory. */
typedef enum CUmem_advise_enum {
	CU_MEM_ADVISE_SET_READ_MOSTLY = 1, /* rarely written: copies may be kept where it is read */
	CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
	CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3, /* it should live there */
	CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
	CU_MEM_ADVISE_SET_ACCESSED_BY = 5, /* keep it mapped for that one */
	CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6
} CUmem_advise;

/* What cuMemRangeGetAttribute() can be asked, and the type of the answer. */
typedef enum CUmem_range_attribute_enum {
	CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY = 1,                 /* int: 1 if the whole range is */
	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION = 2,          /* int: device, CU_DEVICE_CPU, or CU_DEVICE_INVALID */
	CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY = 3,                 /* int[]: devices, filled up with CU_DEVICE_INVALID */
	CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION = 4,      /* int, as PREFERRED_LOCATION */
	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE = 5,     /* CUmemLocationType */
	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID = 6,       /* int: the id that goes with the type */
	CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE = 7, /* CUmemLocationType */
	CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID = 8    /* int */
} CUmem_range_attribute;

/* What cuPointerGetAttribute() can be asked, and the type of the answer. */
typedef enum CUpointer_attribute_enum {
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,                     /* CUcontext in which it was allocated or registered */
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,                 /* unsigned int: a CUmemorytype, HOST or DEVICE */
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,              /* CUdeviceptr by which the current device reaches it */
	CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,                /* void *: by which the host reaches it */
	CU_POINTER_ATTRIBUTE_P2P_TOKENS = 5,                  /* CUDA_POINTER_ATTRIBUTE_P2P_TOKENS: kernel modules */
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,                 /* int: synchronous copies wait to the end. Can be set */
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,                   /* unsigned long long: never used twice in a process */
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,                  /* int: managed memory */
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,              /* int: the device where it was allocated or registered */
	CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10, /* int: cuIpcGetMemHandle() would take it */
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,           /* CUdeviceptr: where its allocation begins */
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,                 /* size_t: how long its allocation is */
	CU_POINTER_ATTRIBUTE_MAPPED = 13,                     /* int: in a range that has memory behind it */
	CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,       /* unsigned long long: how it can leave, as bits */
	CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15, /* int: RDMA reaches it */
	CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,               /* unsigned int: what the current device may do there */
	CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,             /* CUmemoryPool it came from, or NULL */
	CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,               /* size_t: of the mapping it is in */
	CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,          /* CUdeviceptr: where that mapping begins */
	CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,            /* unsigned long long: of the physical memory behind it */
	CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE = 21    /* int: the decompressor reaches it */
} CUpointer_attribute;

/* CU_POINTER_ATTRIBUTE_P2P_TOKENS: for kernel modules that do RDMA the old way. */
typedef struct CUDA_POINTER_ATTRIBUTE_P2P_TOKENS_st {
	unsigned long long p2pToken;
	unsigned int vaSpaceToken;
} CUDA_POINTER_ATTRIBUTE_P2P_TOKENS_v1;
typedef CUDA_POINTER_ATTRIBUTE_P2P_TOKENS_v1 CUDA_POINTER_ATTRIBUTE_P2P_TOKENS;

/* CU_POINTER_ATTRIBUTE_ACCESS_FLAGS */
typedef enum CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS_enum {
	CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE = 0x0,     /* nothing */
	CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ = 0x1,     /* read */
	CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE = 0x3 /* read and write */
} CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS;

/* What cuMemGetHandleForAddressRange() can make. */
typedef enum CUmemRangeHandleType_enum {
	CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 0x1, /* int: a DMA-BUF descriptor */
	CU_MEM_RANGE_HANDLE_TYPE_MAX = 0x7FFFFFFF
} CUmemRangeHandleType;

typedef enum CUmemRangeFlags_enum {
	CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE = 0x1 /* reached over PCIe, whatever else there is */
} CUmemRangeFlags;

/*
 * A copy of Height rows of WidthInBytes bytes. Of each side's host, device and array, the one its memory type names
 * counts (UNIFIED: the device pointer, wherever it points); rows begin pitch bytes apart; X and Y say where in the
 * side's memory the copy begins.
 */
typedef struct CUDA_MEMCPY2D_st {
	size_t srcXInBytes;
	size_t srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	size_t srcPitch; /* ignored for an array */

	size_t dstXInBytes;
	size_t dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	size_t dstPitch; /* ignored for an array */

	size_t WidthInBytes;
	size_t Height; /* rows */
} CUDA_MEMCPY2D_v2;
typedef CUDA_MEMCPY2D_v2 CUDA_MEMCPY2D;

/* The same, Depth times: slices begin pitch * height bytes apart. */
typedef struct CUDA_MEMCPY3D_st {
	size_t srcXInBytes;
	size_t srcY;
	size_t srcZ;
	size_t srcLOD; /* of a mipmapped array; 0 */
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	void *reserved0;  /* must be NULL */
	size_t srcPitch;  /* ignored for an array */
	size_t srcHeight; /* rows of a slice; ignored for an array or a single slice */

	size_t dstXInBytes;
	size_t dstY;
	size_t dstZ;
	size_t dstLOD; /* of a mipmapped array; 0 */
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	void *reserved1;  /* must be NULL */
	size_t dstPitch;  /* ignored for an array */
	size_t dstHeight; /* rows of a slice; ignored for an array or a single slice */

	size_t WidthInBytes;
	size_t Height; /* rows */
	size_t Depth;  /* slices */
} CUDA_MEMCPY3D_v2;
typedef CUDA_MEMCPY3D_v2 CUDA_MEMCPY3D;

/* ---- Device memory ----------------------------------------------------------------------------------------------- */

/*
 * Bytes of the current context's device that are free now, and bytes it has in all. Other processes allocate too: free
 * is a snapshot. Memory that a pool keeps is not free. Either output may be NULL.
 */
CUresult CUDAAPI cuMemGetInfo(size_t *ret_free, size_t *ret_total);

/*
 * Memory on the current context's device, aligned for anything (256 bytes at least), with undefined contents. Other
 * contexts of the device can use it too. May wait for the device.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_pointer is NULL, or bytes is 0
 *   CUDA_ERROR_OUT_OF_MEMORY  there is not that much
 */
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *ret_pointer, size_t bytes);

/*
 * Memory for rows of width_bytes bytes, each beginning *ret_pitch bytes after the one before, so that every row is well
 * aligned. element_bytes (4, 8 or 16) is the widest access to come. Row r begins at pointer + r * pitch.
 *
 *   CUDA_ERROR_INVALID_VALUE  an output is NULL, width_bytes or rows is 0, or element_bytes is none of these
 *   CUDA_ERROR_OUT_OF_MEMORY  there is not that much
 */
CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr *ret_pointer, size_t *ret_pitch, size_t width_bytes, size_t rows,
				 unsigned int element_bytes);

/*
 * Free what cuMemAlloc(), cuMemAllocPitch(), cuMemAllocManaged(), or a pool gave, or what cuMemPoolImportPointer()
 * imported. Work under way that uses it is waited for. 0 is nothing, and fine.
 *
 * It does not wait for a pool's block: the program must have made sure that the block is not in use. If it has not, the
 * block is still not reused before the work that was submitted by now is done. What cuIpcOpenMemHandle() opened is
 * closed, not freed.
 *
 *   CUDA_ERROR_INVALID_VALUE  no allocation begins there, or it is to be released in another way
 */
CUresult CUDAAPI cuMemFree(CUdeviceptr pointer);

/*
 * Where the allocation around an address begins, and how long it is. Either output may be NULL. Works for device memory
 * of every kind, also imported.
 *
 *   CUDA_ERROR_NOT_FOUND  no allocation is there
 */
CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *ret_base, size_t *ret_bytes, CUdeviceptr pointer);

/* ---- Host memory ------------------------------------------------------------------------------------------------- */

/*
 * Page-locked host memory, which copies to and from the device fast and truly asynchronously. Reachable by all
 * devices with unified addressing. Free it with cuMemFreeHost(). For 0 bytes it gives NULL.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_pointer is NULL
 *   CUDA_ERROR_OUT_OF_MEMORY  there is not that much, or it cannot be locked
 */
CUresult CUDAAPI cuMemAllocHost(void **ret_pointer, size_t bytes);

/*
 * Free what cuMemAllocHost() or cuMemHostAlloc() gave. Work under way that uses it is waited for. NULL is fine.
 *
 *   CUDA_ERROR_INVALID_VALUE  no such allocation begins there
 */
CUresult CUDAAPI cuMemFreeHost(void *pointer);

/*
 * The same with CU_MEMHOSTALLOC_* flags.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_pointer is NULL, or flags has a bit that is not there
 *   CUDA_ERROR_OUT_OF_MEMORY  there is not that much, or it cannot be locked
 */
CUresult CUDAAPI cuMemHostAlloc(void **ret_pointer, size_t bytes, unsigned int flags);

/*
 * The address by which the device reaches page-locked or registered host memory: the same one, with unified addressing.
 * Works inside an allocation too. flags must be 0.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_pointer is NULL, flags is not 0, or the memory is not mapped for the device
 */
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *ret_pointer, void *host_pointer, unsigned int flags);

/*
 * The CU_MEMHOSTALLOC_* flags of page-locked host memory, with those that the context added.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_flags is NULL, or no such memory is there
 */
CUresult CUDAAPI cuMemHostGetFlags(unsigned int *ret_flags, void *pointer);

/*
 * Page-lock memory that the program has, as if cuMemHostAlloc() had given it. CU_MEMHOSTREGISTER_* flags. The memory
 * must stay mapped until cuMemHostUnregister().
 *
 *   CUDA_ERROR_INVALID_VALUE                   pointer is NULL, bytes is 0, flags has a bit that is not there, part
 *                                              of it was allocated here, or its pages cannot be read and written
 *   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED  part of it is registered
 *   CUDA_ERROR_OUT_OF_MEMORY                   it is more than the machine has, or cannot be locked
 *   CUDA_ERROR_NOT_SUPPORTED                   no address can be there, or the device does not do what a flag asks
 */
CUresult CUDAAPI cuMemHostRegister(void *pointer, size_t bytes, unsigned int flags);

/*
 * Undo that. pointer is where the registration begins. Work under way that uses it must be finished.
 *
 *   CUDA_ERROR_INVALID_VALUE               pointer is NULL, or inside a registration and not at its beginning
 *   CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED  nothing is registered there
 */
CUresult CUDAAPI cuMemHostUnregister(void *pointer);

/* ---- Managed memory ---------------------------------------------------------------------------------------------- */

/*
 * Memory that host and devices use by the same address, and that moves to where it is used. flags: CU_MEM_ATTACH_GLOBAL
 * or CU_MEM_ATTACH_HOST. Freed with cuMemFree().
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_pointer is NULL, bytes is 0, or flags is neither
 *   CUDA_ERROR_NOT_SUPPORTED  the device has no managed memory
 *   CUDA_ERROR_OUT_OF_MEMORY  there is not that much
 */
CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *ret_pointer, size_t bytes, unsigned int flags);

/*
 * Move managed memory to a location, in stream order. A performance matter: the contents stay the same. flags must be
 * 0.
 *
 *   CUDA_ERROR_INVALID_VALUE   the range is not all managed memory, bytes is 0, flags is not 0, or there is no such
 *                              location type
 *   CUDA_ERROR_INVALID_DEVICE  the location's device is not one, or has no concurrent access to managed memory
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned int flags,
				    CUstream stream);

/*
 * Say how managed memory will be used. Advice only: contents and answers stay the same. Location is ignored where the
 * advice needs none.
 *
 *   CUDA_ERROR_INVALID_VALUE  the range is not all managed memory, bytes is 0, or there is no such advice, location
 *                             type or device
 */
CUresult CUDAAPI cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUmemLocation location);

/*
 * What was advised, or last prefetched, for a range of managed memory. data_bytes is the size of what ret_data points
 * at: 4, or for ACCESSED_BY any multiple of 4. Waits for no stream: a prefetch counts when it is enqueued.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_data is NULL, data_bytes does not fit the attribute, or the range is not all managed
 *                              memory
 *   CUDA_ERROR_INVALID_DEVICE  a device of the answer is gone
 */
CUresult CUDAAPI cuMemRangeGetAttribute(void *ret_data, size_t data_bytes, CUmem_range_attribute attribute,
					CUdeviceptr pointer, size_t bytes);

/*
 * Several of them at once: ret_data[i], data_bytes[i] and attributes[i] belong together. Fails as a whole.
 *
 *   CUDA_ERROR_INVALID_VALUE   an array is NULL, count is 0, or one of them is as above
 *   CUDA_ERROR_INVALID_DEVICE  a device of the answer is gone
 */
CUresult CUDAAPI cuMemRangeGetAttributes(void **ret_data, size_t *data_bytes, CUmem_range_attribute *attributes,
					 size_t count, CUdeviceptr pointer, size_t bytes);

/* ---- Copies ---------------------------------------------------------------------------------------------------------
 *
 * cuMemcpy() and its like return when the copy is done, save that one between two places of device memory may still run
 * (it is ordered before anything the default stream does next), and that one from pageable host memory may still be on
 * its way to the device, with the source free to be changed. The calls named ...Async enqueue the copy; pageable host
 * memory makes them as slow as the others. Without a stream argument the default stream is used, with all it waits for.
 *
 * Source and destination must not overlap. 0 bytes is nothing, and fine. Every address is looked up: a range that is
 * partly outside of its allocation is CUDA_ERROR_INVALID_VALUE, before anything is copied. So is memory of a pool, or
 * of cuMemMap(), unless the stream's device or the current context's has rights to both sides. Memory on the host needs
 * no device's rights; a block of a pool there does where the call says that it is the device's (cuMemcpyHtoD() to it).
 */

/*
 * Copy bytes from anywhere to anywhere; the addresses tell which memory they mean.
 *
 *   CUDA_ERROR_INVALID_VALUE  a range is not memory that can be copied from or to
 */
CUresult CUDAAPI cuMemcpy(CUdeviceptr destination, CUdeviceptr source, size_t bytes);

/*
 * The same, in stream order.
 *
 *   CUDA_ERROR_INVALID_VALUE   a range is not memory that can be copied from or to
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream);

/*
 * Copy device memory of one context to another's, on the same device or not; peer access is not needed. Ordered after
 * all work that both devices had before, and before all that comes after. A NULL context is the current one.
 *
 *   CUDA_ERROR_INVALID_CONTEXT  a context is neither NULL nor a live one
 *   CUDA_ERROR_INVALID_VALUE    a range is not memory of its context's device
 */
CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
			      CUcontext source_context, size_t bytes);

/*
 * The same, in stream order; no other order is promised.
 *
 *   CUDA_ERROR_INVALID_CONTEXT  a context is not a live one
 *   CUDA_ERROR_INVALID_VALUE    a range is not memory of its context's device
 *   CUDA_ERROR_INVALID_HANDLE   stream is not a live one
 */
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
				   CUcontext source_context, size_t bytes, CUstream stream);

/*
 * Copy from the host to the device.
 *
 *   CUDA_ERROR_INVALID_VALUE  the destination is not device memory, or source is NULL
 */
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr destination, const void *source, size_t bytes);

/*
 * Copy from the device to the host.
 *
 *   CUDA_ERROR_INVALID_VALUE  the source is not device memory, or destination is NULL
 */
CUresult CUDAAPI cuMemcpyDtoH(void *destination, CUdeviceptr source, size_t bytes);

/*
 * Copy within the device. May return before the copy is done.
 *
 *   CUDA_ERROR_INVALID_VALUE  a range is not device memory
 */
CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr destination, CUdeviceptr source, size_t bytes);

/*
 * Copy from the host to the device, in stream order. Page-locked memory must not change until the copy is done.
 *
 *   CUDA_ERROR_INVALID_VALUE   the destination is not device memory, or source is NULL
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr destination, const void *source, size_t bytes, CUstream stream);

/*
 * Copy from the device to the host, in stream order.
 *
 *   CUDA_ERROR_INVALID_VALUE   the source is not device memory, or destination is NULL
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuMemcpyDtoHAsync(void *destination, CUdeviceptr source, size_t bytes, CUstream stream);

/*
 * Copy within the device, in stream order.
 *
 *   CUDA_ERROR_INVALID_VALUE   a range is not device memory
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream);

/*
 * Copy rows: see CUDA_MEMCPY2D. Pitches must not exceed CU_DEVICE_ATTRIBUTE_MAX_PITCH; those of cuMemAllocPitch()
 * always fit, and on a GPU others may be refused.
 *
 *   CUDA_ERROR_INVALID_VALUE  copy is NULL, a memory type is not one, a pitch is less than X + width, or a row is out
 *                             of its memory
 *   CUDA_ERROR_NOT_SUPPORTED  a side is an array
 */
CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D *copy);

/*
 * The same for any pitch, perhaps slower.
 *
 *   CUDA_ERROR_INVALID_VALUE  as cuMemcpy2D()
 *   CUDA_ERROR_NOT_SUPPORTED  a side is an array
 */
CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *copy);

/*
 * cuMemcpy2D() in stream order. The description is read now, the memory later.
 *
 *   CUDA_ERROR_INVALID_VALUE   as cuMemcpy2D()
 *   CUDA_ERROR_NOT_SUPPORTED   a side is an array
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream);

/*
 * Copy slices of rows: see CUDA_MEMCPY3D. A height of 0 is Y + Height.
 *
 *   CUDA_ERROR_INVALID_VALUE  as cuMemcpy2D(); or a height is less than Y + Height
 *   CUDA_ERROR_NOT_SUPPORTED  a side is an array
 */
CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D *copy);

/*
 * The same in stream order. The description is read now, the memory later.
 *
 *   CUDA_ERROR_INVALID_VALUE   as cuMemcpy3D()
 *   CUDA_ERROR_NOT_SUPPORTED   a side is an array
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D *copy, CUstream stream);

/* ---- Fills ----------------------------------------------------------------------------------------------------------
 *
 * They set count elements of 8, 16 or 32 bits to a value; the D2D ones set rows of width elements, pitch bytes apart.
 * Without a stream, a fill of device memory may still run when the call returns, ordered as the copies are; one of host
 * memory is done. The destination must be aligned to its element. 0 elements is nothing, and fine.
 */

/*
 * Set count bytes.
 *
 *   CUDA_ERROR_INVALID_VALUE  the range is not memory of the device
 */
CUresult CUDAAPI cuMemsetD8(CUdeviceptr destination, unsigned char value, size_t count);

/*
 * Set count 16-bit words.
 *
 *   CUDA_ERROR_INVALID_VALUE  the range is not memory of the device, or not aligned to 2 bytes
 */
CUresult CUDAAPI cuMemsetD16(CUdeviceptr destination, unsigned short value, size_t count);

/*
 * Set count 32-bit words.
 *
 *   CUDA_ERROR_INVALID_VALUE  the range is not memory of the device, or not aligned to 4 bytes
 */
CUresult CUDAAPI cuMemsetD32(CUdeviceptr destination, unsigned int value, size_t count);

/*
 * Set rows of width bytes.
 *
 *   CUDA_ERROR_INVALID_VALUE  a row is not memory of the device, or pitch is less than a row
 */
CUresult CUDAAPI cuMemsetD2D8(CUdeviceptr destination, size_t pitch, unsigned char value, size_t width, size_t rows);

/*
 * Set rows of width 16-bit words.
 *
 *   CUDA_ERROR_INVALID_VALUE  a row is not memory of the device, pitch is less than a row, or either is not aligned to
 *                             2 bytes
 */
CUresult CUDAAPI cuMemsetD2D16(CUdeviceptr destination, size_t pitch, unsigned short value, size_t width, size_t rows);

/*
 * Set rows of width 32-bit words.
 *
 *   CUDA_ERROR_INVALID_VALUE  a row is not memory of the device, pitch is less than a row, or either is not aligned to
 *                             4 bytes
 */
CUresult CUDAAPI cuMemsetD2D32(CUdeviceptr destination, size_t pitch, unsigned int value, size_t width, size_t rows);

/*
 * The same six in stream order.
 *
 *   CUDA_ERROR_INVALID_VALUE   as the call without Async
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr destination, unsigned char value, size_t count, CUstream stream);
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr destination, unsigned short value, size_t count, CUstream stream);
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr destination, unsigned int value, size_t count, CUstream stream);
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr destination, size_t pitch, unsigned char value, size_t width,
				   size_t rows, CUstream stream);
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr destination, size_t pitch, unsigned short value, size_t width,
				    size_t rows, CUstream stream);
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr destination, size_t pitch, unsigned int value, size_t width,
				    size_t rows, CUstream stream);

/* ---- What a pointer is ------------------------------------------------------------------------------------------- */

/*
 * One attribute of the memory at an address. ret_data points at the type that the attribute has (CUpointer_attribute).
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_data is NULL, there is no such attribute, or the address is not memory that this
 *                              process got from here, or it does not have this attribute
 *   CUDA_ERROR_INVALID_DEVICE  the memory belongs to a device that is gone
 */
CUresult CUDAAPI cuPointerGetAttribute(void *ret_data, CUpointer_attribute attribute, CUdeviceptr pointer);

/*
 * Several of them at once: attributes[i] goes to ret_data[i]. Unlike cuPointerGetAttribute() it succeeds for an address
 * that CUDA does not know (malloc()'s): the answers are then 0, NULL, for DEVICE_ORDINAL CU_DEVICE_INVALID, for
 * HOST_POINTER the address itself, and a range is left untouched. That is the way to ask "whose is this?".
 *
 *   CUDA_ERROR_INVALID_VALUE   an array or one of its data pointers is NULL, count is 0, or there is no such attribute
 *   CUDA_ERROR_INVALID_DEVICE  the memory belongs to a device that is gone
 */
CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **ret_data,
					CUdeviceptr pointer);

/*
 * Set an attribute of the allocation that holds an address. CU_POINTER_ATTRIBUTE_SYNC_MEMOPS alone can be set: with
 * an unsigned int of 1 there, synchronous copies and fills of this memory always wait to the end.
 *
 *   CUDA_ERROR_INVALID_VALUE   value is NULL, the attribute cannot be set, or no device memory is there
 *   CUDA_ERROR_INVALID_DEVICE  the memory belongs to a device that is gone
 */
CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer);

/*
 * A handle for a range of addresses, for drivers of other devices: with CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, ret_handle
 * is an int * and gets a DMA-BUF descriptor, the caller's to close. The range must be page-aligned, mapped all through,
 * and on one device. flags: CUmemRangeFlags, or 0.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_handle is NULL, no such handle type or flag, or the range is none of that
 *   CUDA_ERROR_NOT_SUPPORTED  the device has no such handles: CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
 */
CUresult CUDAAPI cuMemGetHandleForAddressRange(void *ret_handle, CUdeviceptr pointer, size_t bytes,
					       CUmemRangeHandleType type, unsigned long long flags);

/* ====================================================================================================================
 * 6  Virtual memory
 *
 * Memory in three steps: reserve addresses, create physical memory, map one to the other and say which devices may use
 * it. Physical memory can leave the process as a descriptor or a fabric handle, and be mapped in another.
 *
 *   cuMemGetAllocationGranularity  what sizes and addresses must be multiples of
 *   cuMemCreate                    physical memory           cuMemRelease
 *   cuMemAddressReserve            addresses                 cuMemAddressFree
 *   cuMemMap                       one behind the other      cuMemUnmap
 *   cuMemSetAccess                 which devices may read and write: at first, none
 *
 * Physical memory lives until its handles are released, its mappings unmapped and its exported handles closed, in every
 * process, in any order. No call here needs a current context, and none of them waits for streams: work that uses
 * memory must be finished before that memory is unmapped, or it fails its stream.
 *
 * docs/share_virtual_memory.md has a whole program.
 * ================================================================================================================= */

/* Which multiple cuMemGetAllocationGranularity() answers. */
typedef enum CUmemAllocationGranularity_flags_enum {
	CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0x0,    /* the least that is accepted */
	CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 0x1 /* what works best */
} CUmemAllocationGranularity_flags;

/* allocFlags.compressionType */
typedef enum CUmemAllocationCompType_enum {
	CU_MEM_ALLOCATION_COMP_NONE = 0x0,   /* plain memory */
	CU_MEM_ALLOCATION_COMP_GENERIC = 0x1 /* compressible; check what was given */
} CUmemAllocationCompType;

/* allocFlags.usage */
#define CU_MEM_CREATE_USAGE_TILE_POOL     0x1 /* tiles of sparse arrays */
#define CU_MEM_CREATE_USAGE_HW_DECOMPRESS 0x2 /* the decompressor writes here */

/* What physical memory is like. Zero it before filling it in. */
typedef struct CUmemAllocationProp_st {
	CUmemAllocationType type;                       /* CU_MEM_ALLOCATION_TYPE_PINNED */
	CUmemAllocationHandleType requestedHandleTypes; /* ways it may leave the process, as bits */
	CUmemLocation location;                         /* where it is */
	void *win32HandleMetaData;                      /* Windows alone; NULL */
	struct {
		unsigned char compressionType;      /* a CUmemAllocationCompType */
		unsigned char gpuDirectRDMACapable; /* 1: for RDMA */
		unsigned short usage;               /* CU_MEM_CREATE_USAGE_* */
		unsigned char reserved[4];          /* zero */
	} allocFlags;
} CUmemAllocationProp_v1;
typedef CUmemAllocationProp_v1 CUmemAllocationProp;

/* ---- Addresses --------------------------------------------------------------------------------------------------- */

/*
 * Reserve a range of addresses, with nothing behind it. bytes: a multiple of the granularity. alignment: a power of
 * two, or 0 for the granularity. address: where it should be, or 0; a wish, not an order. flags must be 0.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_pointer is NULL, bytes is 0 or no multiple, alignment no power of two, address not
 *                             aligned, or flags not 0
 *   CUDA_ERROR_OUT_OF_MEMORY  no room for such a range, or address is none that a process can have
 */
CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *ret_pointer, size_t bytes, size_t alignment, CUdeviceptr address,
				     unsigned long long flags);

/*
 * Give a reserved range back, all of it: pointer and bytes as they were reserved.
 *
 *   CUDA_ERROR_INVALID_VALUE  that is not a reservation, or something is mapped in it
 */
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr pointer, size_t bytes);

/* ---- Physical memory --------------------------------------------------------------------------------------------- */

/*
 * What bytes and addresses have to be multiples of for memory like prop. Whether there can be such memory is not asked:
 * cuMemCreate() says that.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_granularity or prop is NULL, or there is no such option
 */
CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *ret_granularity, const CUmemAllocationProp *prop,
					       CUmemAllocationGranularity_flags option);

/*
 * Physical memory, with no address. It can be exported in the ways that prop->requestedHandleTypes names, and in no
 * other. Its location is a device or a NUMA node of the host; HOST means node 0 and cannot be shared. flags must be 0.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_handle or prop is NULL, bytes is 0 or no multiple of the granularity, prop is not
 *                              well formed, names a Win32 handle type or a location that memory cannot be at, or flags
 *                              is not 0
 *   CUDA_ERROR_INVALID_DEVICE  the location's device is not one
 *   CUDA_ERROR_OUT_OF_MEMORY   there is not that much
 *   CUDA_ERROR_NOT_PERMITTED   CU_MEM_HANDLE_TYPE_FABRIC, and this process may not open an IMEX channel
 *   CUDA_ERROR_NOT_SUPPORTED   the device cannot have such memory, or export it so
 */
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *ret_handle, size_t bytes, const CUmemAllocationProp *prop,
			     unsigned long long flags);

/*
 * Let go of a handle. Mappings go on working, and the memory lives until the last of them and of its holders in other
 * processes is gone.
 *
 *   CUDA_ERROR_INVALID_VALUE  handle is not a live one
 */
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle);

/*
 * The properties that this memory was created with. Of imported memory type and location are known, and
 * requestedHandleTypes is 0: it cannot be exported again.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_prop is NULL, or handle is not a live one
 */
CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *ret_prop,
							CUmemGenericAllocationHandle handle);

/*
 * The handle of the memory that is mapped at an address, the same as was mapped there, with one more release to be
 * made. Any address in the mapping will do.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_handle is NULL, or cuMemMap() mapped nothing there
 */
CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle, void *address);

/* ---- One behind the other ---------------------------------------------------------------------------------------- */

/*
 * Put physical memory behind reserved addresses, all of it: offset is 0 and bytes its size. No device has access until
 * cuMemSetAccess() gives it. The same memory may be mapped at several places. flags must be 0.
 *
 *   CUDA_ERROR_INVALID_VALUE  the range is not reserved or is mapped already, pointer or bytes is 0, handle is not a
 *                             live one, or flags is not 0
 *   CUDA_ERROR_NOT_SUPPORTED  a part of the memory, or an address that is no multiple of the granularity
 *   CUDA_ERROR_OUT_OF_MEMORY  no room to keep track of it
 */
CUresult CUDAAPI cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
			  unsigned long long flags);

/*
 * Take whole mappings away again: all that are in the range, which may have gaps. The addresses stay reserved. Work
 * that uses them must be finished: Cenote does not wait for it, and it fails its stream.
 *
 *   CUDA_ERROR_INVALID_VALUE  the range is not all reserved, no multiple of the granularity, or cuts a mapping in two
 */
CUresult CUDAAPI cuMemUnmap(CUdeviceptr pointer, size_t bytes);

/*
 * Say what devices, or the host, may do with a mapped range. Whole mappings only. Each of desc[0 .. count - 1] is
 * applied; locations that it does not name keep what they had.
 *
 *   CUDA_ERROR_INVALID_VALUE  desc is NULL, count is 0, flags is not one of CUmemAccess_flags, there is no such
 *                             location, or the range is not all mapped or cuts a mapping in two
 *   CUDA_ERROR_NOT_SUPPORTED  this memory cannot be given to such a location: the host has no access to a device's
 */
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *desc, size_t count);

/*
 * What a location may do at an address: CUmemAccess_flags. 0 for memory that cuMemMap() did not map.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_flags or location is NULL, pointer is 0, or no memory is there (*ret_flags: 0)
 *   CUDA_ERROR_INVALID_DEVICE  there is no such location
 */
CUresult CUDAAPI cuMemGetAccess(unsigned long long *ret_flags, const CUmemLocation *location, CUdeviceptr pointer);

/* ---- To other processes ------------------------------------------------------------------------------------------ */

/*
 * A handle by which another process can import this memory. What ret_handle points at depends on the type: an int that
 * becomes a descriptor, closed on exec and the caller's to close, or a CUmemFabricHandle. Each call makes another one,
 * and each holds the memory. cenote_send_descriptor() (cenote.h) sends it. flags must be 0.
 *
 *   CUDA_ERROR_INVALID_VALUE     ret_handle is NULL, handle is not a live one, the memory was not created for this type
 *                                or was imported, there is no such type on this system, or flags is not 0
 *   CUDA_ERROR_NOT_PERMITTED     CU_MEM_HANDLE_TYPE_FABRIC, and this process may not open an IMEX channel
 *   CUDA_ERROR_OPERATING_SYSTEM  this process may not open any more descriptors
 */
CUresult CUDAAPI cuMemExportToShareableHandle(void *ret_handle, CUmemGenericAllocationHandle handle,
					      CUmemAllocationHandleType type, unsigned long long flags);

/*
 * The memory behind a handle that another process exported. shareable is the descriptor itself cast to void * (not a
 * pointer to it), or points at a CUmemFabricHandle. The descriptor stays the caller's, and may be closed afterwards.
 * Map the memory to use it; release it when done. It lives as long as any process holds it, even when its creator is
 * gone. Each import is a handle of its own. Rights are not shared: the importer gives its own mapping access.
 *
 *   CUDA_ERROR_INVALID_VALUE     ret_handle is NULL, there is no such type, or shareable is 0
 *   CUDA_ERROR_UNKNOWN           the descriptor is not open, or is not memory that was exported
 *   CUDA_ERROR_NOT_PERMITTED     a fabric handle, and this process does not hold the exporter's IMEX channel
 *   CUDA_ERROR_NOT_SUPPORTED     there is no such type on this system
 *   CUDA_ERROR_OPERATING_SYSTEM  this process may not open any more descriptors
 */
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *ret_handle, void *shareable,
						CUmemAllocationHandleType type);

/* ====================================================================================================================
 * 7  Pools
 *
 * Memory allocated and freed in stream order: an allocation may be used by what follows it in its stream, a free acts
 * when its stream reaches it. A pool keeps freed memory for the next allocation; what it keeps above its release
 * threshold goes back to the system when a stream, event or context is next synchronised.
 *
 * A pool created with a handle type can be shared. The exporter sends the pool once, as a descriptor or a fabric
 * handle, then each pointer, as 64 bytes, by any means:
 *
 *   cuMemPoolExportToShareableHandle  ->  cuMemPoolImportFromShareableHandle
 *   cuMemPoolExportPointer            ->  cuMemPoolImportPointer
 *
 * The importer frees what it imported, with cuMemFree() or cuMemFreeAsync(), before the exporter frees it. Cenote does
 * not depend on that: a block that an importer still holds is kept, and reused only after the last has freed it.
 * ================================================================================================================= */

/* What a pool can be asked and told, and the type. */
typedef enum CUmemPool_attribute_enum {
	CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1, /* int: reuse a free that events order before us (1) */
	CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,           /* int: reuse a free that happens to be complete (1) */
	CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,   /* int: make the stream wait for a free (1) */
	CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,                   /* cuuint64_t: bytes to keep at a synchronisation (0) */
	CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,                /* cuuint64_t: bytes held from the system; read only */
	CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,                   /* cuuint64_t: the most so far; may be set to 0 */
	CU_MEMPOOL_ATTR_USED_MEM_CURRENT,                    /* cuuint64_t: bytes allocated; read only */
	CU_MEMPOOL_ATTR_USED_MEM_HIGH                        /* cuuint64_t: the most so far; may be set to 0 */
} CUmemPool_attribute;

/* usage */
#define CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS 0x2 /* the decompressor writes here */

/* What a pool is like. Zero it before filling it in. */
typedef struct CUmemPoolProps_st {
	CUmemAllocationType allocType;         /* PINNED or MANAGED */
	CUmemAllocationHandleType handleTypes; /* ways it may leave the process, as bits; NONE: it stays */
	CUmemLocation location;                /* where its memory is */
	void *win32SecurityAttributes;         /* Windows alone; NULL */
	size_t maxSize;                        /* most bytes it may hold; 0: as many as the system allows */
	unsigned short usage;                  /* CU_MEM_POOL_CREATE_USAGE_* */
	unsigned char reserved[54];            /* zero */
} CUmemPoolProps_v1;
typedef CUmemPoolProps_v1 CUmemPoolProps;

/* Names one allocation of a shared pool. Not a secret and not a handle: without the pool it opens nothing. */
typedef struct CUmemPoolPtrExportData_st {
	unsigned char reserved[64];
} CUmemPoolPtrExportData_v1;
typedef CUmemPoolPtrExportData_v1 CUmemPoolPtrExportData;

/* ---- Life of a pool ---------------------------------------------------------------------------------------------- */

/*
 * A new pool. Its own location may use its memory; cuMemPoolSetAccess() lets others. To be shared it must be created
 * with the handle types by which it is to leave.
 *
 * A pool of CU_MEM_LOCATION_TYPE_HOST (its id is ignored) cannot be shared. A managed pool takes no handle types, no
 * maxSize and no usage; its location is the preferred one of its blocks, and may be CU_MEM_LOCATION_TYPE_NONE.
 * CU_MEM_HANDLE_TYPE_FABRIC needs no IMEX channel yet: the export does. Usage is a hint.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_pool or props is NULL, props is not well formed (a reserved byte, an allocation type,
 *                             handle type or location that is not one; CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT), or asks
 *                             for what such a pool cannot be
 *   CUDA_ERROR_OUT_OF_MEMORY  no room for a pool, or maxSize is more than a process has addresses
 *   CUDA_ERROR_NOT_SUPPORTED  the location has no pools; or a managed pool, and a device has no
 *                             CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
 */
CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *ret_pool, const CUmemPoolProps *props);

/*
 * Destroy a pool, or let go of an imported one. Its handle is refused from now on; its memory lives until the last
 * block is freed and the last importer is gone. Where it was the current pool, the default pool is current again.
 *
 *   CUDA_ERROR_INVALID_VALUE  pool is not a live one, or a default one
 */
CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool);

/*
 * Give unused memory back to the system until the pool holds no more than keep_bytes, as far as that goes: blocks in
 * use stay, and so do frees that no stream has reached yet. Holding less already is fine.
 *
 *   CUDA_ERROR_INVALID_VALUE  pool is not a live one, or was imported
 */
CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes);

/*
 * One of a pool's attributes: ret_value points at an int or a cuuint64_t (CUmemPool_attribute).
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_value is NULL, pool is not a live one, or there is no such attribute
 */
CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *ret_value);

/*
 * Set one. The high-water marks can be set to 0 alone, which makes them begin anew at what is current.
 *
 *   CUDA_ERROR_INVALID_VALUE  value is NULL, pool is not a live one, or the attribute is read only or cannot have that
 *                             value
 */
CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);

/*
 * What a location may do with all of the pool's memory.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_flags or location is NULL, pool is not a live one, or there is no such location
 */
CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *ret_flags, CUmemoryPool pool, CUmemLocation *location);

/*
 * Say which devices may use all of the pool's memory, now and later; all descriptions take effect, or none. The pool's
 * own location keeps its access. For an imported pool: what devices of this process may do.
 *
 *   CUDA_ERROR_INVALID_VALUE   desc is NULL, pool is not a live one, flags is not one of CUmemAccess_flags, or there is
 *                              no such location
 *   CUDA_ERROR_INVALID_DEVICE  a location's device is not one, cannot reach the pool's, or is the pool's and would lose
 *                              its access
 *   CUDA_ERROR_NOT_SUPPORTED   CU_MEM_ACCESS_FLAGS_PROT_READ: a pool is for reading and writing, or not at all; the
 *                              host and a device's pool; the host's own pool taken from it
 */
CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count);

/* ---- Allocation in stream order ---------------------------------------------------------------------------------- */

/*
 * Allocate from the current pool of the stream's device. The address is there at once; what is enqueued in this stream
 * may use it, and others once they are ordered behind it (an event, a synchronisation). 0 bytes are nothing, at NULL;
 * after a failure *ret_pointer is NULL, too.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_pointer is NULL
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 *   CUDA_ERROR_NOT_SUPPORTED   the device has no pools
 *   CUDA_ERROR_OUT_OF_MEMORY   there is not that much, or the pool's maxSize is reached
 */
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *ret_pointer, size_t bytes, CUstream stream);

/*
 * The same from a pool of the caller's choice, also one of another device.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_pointer is NULL, or pool is not a live one or was imported
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 *   CUDA_ERROR_NOT_SUPPORTED   the device has no pools
 *   CUDA_ERROR_OUT_OF_MEMORY   there is not that much, or the pool's maxSize is reached
 */
CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool, CUstream stream);

/*
 * Free in stream order: what was enqueued before may use the memory, what comes after may not. The memory may be the
 * next allocation's of this stream right away. Works for blocks of pools, for imported ones, and for cuMemAlloc()'s.
 * NULL is no error.
 *
 * A block that was exported and is still held elsewhere is freed when the last holder lets go of it.
 *
 *   CUDA_ERROR_INVALID_VALUE   no allocation begins there, or it is being freed already
 *   CUDA_ERROR_NOT_SUPPORTED   memory of cuMemAllocManaged()
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);

/* ---- Pools of a location ----------------------------------------------------------------------------------------- */

/*
 * The default pool of a location, for one type of memory. PINNED: a device, the host or a NUMA node. MANAGED: those, or
 * CU_MEM_LOCATION_TYPE_NONE.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_pool or location is NULL, or there is no such pair of location and type
 *   CUDA_ERROR_NOT_SUPPORTED  there are no pools of that kind there
 */
CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *ret_pool, CUmemLocation *location, CUmemAllocationType type);

/*
 * The current pool of a location, for one type of memory: the last one set, or the default pool.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_pool or location is NULL, or there is no such pair of location and type
 *   CUDA_ERROR_NOT_SUPPORTED  there are no pools of that kind there
 */
CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *ret_pool, CUmemLocation *location, CUmemAllocationType type);

/*
 * Set it. Location and type must be the pool's own. For a device and PINNED this is cuDeviceSetMemPool().
 *
 *   CUDA_ERROR_INVALID_VALUE  location is NULL, pool is not a live one or was imported, or is of another location or
 *                             type
 *   CUDA_ERROR_NOT_SUPPORTED  there are no pools of that kind there
 */
CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool);

/* ---- To other processes ------------------------------------------------------------------------------------------ */

/*
 * A handle by which another process can import the pool. What ret_handle points at depends on the type: an int that
 * becomes a descriptor, the caller's to close, or a CUmemFabricHandle. Only a process that has it can import the pool.
 * flags must be 0.
 *
 *   CUDA_ERROR_INVALID_VALUE     ret_handle is NULL, pool is not a live one, was imported, or was not created for this
 *                                type; or flags is not 0
 *   CUDA_ERROR_OUT_OF_MEMORY     no room for it
 *   CUDA_ERROR_NOT_PERMITTED     CU_MEM_HANDLE_TYPE_FABRIC, and this process may not open an IMEX channel
 *   CUDA_ERROR_OPERATING_SYSTEM  no descriptor could be had
 */
CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *ret_handle, CUmemoryPool pool, CUmemAllocationHandleType type,
						  unsigned long long flags);

/*
 * The pool behind a handle that another process exported. handle is the descriptor itself cast to void * (not a pointer
 * to it), or points at a CUmemFabricHandle. The descriptor stays the caller's, and may be closed afterwards. An
 * imported pool gives access to pointers exported from it; it allocates nothing, is no device's current pool, and
 * cannot be exported again. flags must be 0.
 *
 *   CUDA_ERROR_INVALID_VALUE     ret_pool is NULL, flags is not 0, there is no such type, or handle is not what a pool
 *                                is exported as
 *   CUDA_ERROR_NOT_PERMITTED     a fabric handle, and this process does not hold the exporter's IMEX channel
 *   CUDA_ERROR_OUT_OF_MEMORY     no room for it
 *   CUDA_ERROR_OPERATING_SYSTEM  the exporter does not answer
 */
CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *ret_pool, void *handle,
						    CUmemAllocationHandleType type, unsigned long long flags);

/*
 * Sixty-four bytes that name one allocation to importers of its pool. They may be sent by any means, to any number
 * of processes, and go stale when the allocation is freed. Waits for no stream: send an event along, or synchronise, so
 * that importers use the memory only once it is allocated and filled.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_data is NULL, or no allocation of a shareable pool of this process begins at pointer
 *   CUDA_ERROR_OUT_OF_MEMORY  no room to keep track of it
 */
CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *ret_data, CUdeviceptr pointer);

/*
 * The allocation that these bytes name, mapped here, at an address of its own choosing; importing it again gives the
 * same address and takes one more free. Free it with cuMemFree() or cuMemFreeAsync(): here first, in the exporter then.
 *
 *   CUDA_ERROR_INVALID_VALUE     ret_pointer or data is NULL, pool is not an imported one, or the bytes do not name a
 *                                live allocation of it: forged, damaged, another pool's, or freed meanwhile
 *   CUDA_ERROR_OUT_OF_MEMORY     no room for it
 *   CUDA_ERROR_OPERATING_SYSTEM  the exporter does not answer
 */
CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *ret_pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data);

/* ====================================================================================================================
 * 8  IPC
 *
 * The older way to share: a 64-byte handle, sent by any means, opens cuMemAlloc()'s memory or an event in another
 * process of the same user. The handle names something that lives in its maker; when that process ends, so does what it
 * named.
 * ================================================================================================================= */

/* Names memory of another process. Copy the bytes, do not read them. */
typedef struct CUipcMemHandle_st {
	char reserved[CU_IPC_HANDLE_SIZE];
} CUipcMemHandle_v1;
typedef CUipcMemHandle_v1 CUipcMemHandle;

/* Names an event of another process. */
typedef struct CUipcEventHandle_st {
	char reserved[CU_IPC_HANDLE_SIZE];
} CUipcEventHandle_v1;
typedef CUipcEventHandle_v1 CUipcEventHandle;

/* cuIpcOpenMemHandle() */
typedef enum CUipcMem_flags_enum {
	CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 0x1 /* let the current device reach the memory's device, if need be */
} CUipcMem_flags;

/*
 * A handle by which other processes can open memory of cuMemAlloc() or cuMemAllocPitch(). It names the whole
 * allocation; CUDA wants its beginning. Cheap, and as often as you like. Memory that is freed and allocated anew at the
 * same address gets another handle.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_handle is NULL, or the memory is not of that kind: a pool's, virtual, managed, host,
 *                              or opened from another process
 *   CUDA_ERROR_INVALID_HANDLE  no allocation is there
 *   CUDA_ERROR_OUT_OF_MEMORY   no room to keep track of it
 *   CUDA_ERROR_MAP_FAILED      the memory cannot be shared
 */
CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *ret_handle, CUdeviceptr pointer);

/*
 * Map memory of another process, which made the handle, in the current context. Opening the same memory again gives the
 * same address and takes one more close. Addresses differ from process to process. The memory's device need not be one
 * this process sees.
 *
 * flags: CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS. Close it with cuIpcCloseMemHandle(), before the exporter frees it; with
 * Cenote a free that comes too early waits for the close.
 *
 *   CUDA_ERROR_INVALID_VALUE    ret_pointer is NULL, flags is another, or the handle is damaged or forged
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current, or this process made the handle itself
 *   CUDA_ERROR_INVALID_HANDLE   what it named is gone: freed, or its process has ended
 *   CUDA_ERROR_MAP_FAILED       it could not be mapped here
 *   CUDA_ERROR_TOO_MANY_PEERS   the device has no room for another peer
 */
CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *ret_pointer, CUipcMemHandle handle, unsigned int flags);

/*
 * Close once what was opened once. The last close unmaps the memory, after work under way in the context. The exporter
 * and other processes keep theirs.
 *
 *   CUDA_ERROR_INVALID_VALUE  pointer is not one that cuIpcOpenMemHandle() gave
 *   CUDA_ERROR_MAP_FAILED     it could not be unmapped
 */
CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr pointer);

/*
 * A handle by which other processes can open an event. Create the event with CU_EVENT_INTERPROCESS |
 * CU_EVENT_DISABLE_TIMING.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_handle is NULL
 *   CUDA_ERROR_INVALID_HANDLE  event is not a live one, was not created for this, or was itself opened from another
 *                              process
 *   CUDA_ERROR_OUT_OF_MEMORY   no room to keep track of it
 *   CUDA_ERROR_MAP_FAILED      it cannot be shared
 */
CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *ret_handle, CUevent event);

/*
 * Open an event of another process, which made the handle. Either side may record it, wait for it, query it and
 * synchronise with it, in streams too; neither can time it. Destroy it with cuEventDestroy(): each side its own. If a
 * process dies before its record is reached, waits for it fail with CUDA_ERROR_EXTERNAL_DEVICE.
 *
 *   CUDA_ERROR_INVALID_VALUE            ret_event is NULL, or the handle is damaged or forged
 *   CUDA_ERROR_INVALID_CONTEXT          no context is current, or this process made the handle itself
 *   CUDA_ERROR_INVALID_HANDLE           what it named is gone
 *   CUDA_ERROR_MAP_FAILED               it could not be mapped here
 *   CUDA_ERROR_PEER_ACCESS_UNSUPPORTED  the devices cannot reach each other
 */
CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *ret_event, CUipcEventHandle handle);

/* ====================================================================================================================
 * 9  Streams
 *
 * A stream is a queue: its work runs in the order in which it was put there, beside that of other streams. Events order
 * streams among each other. A stream's calls need no current context of their own, except where the stream is NULL,
 * CU_STREAM_LEGACY or CU_STREAM_PER_THREAD: those are the current context's.
 * ================================================================================================================= */

#define CU_STREAM_LEGACY     ((CUstream)0x1) /* the legacy default stream, whatever NULL means */
#define CU_STREAM_PER_THREAD ((CUstream)0x2) /* the calling thread's default stream, whatever NULL means */

/* cuStreamCreate() */
typedef enum CUstream_flags_enum {
	CU_STREAM_DEFAULT = 0x0,     /* waits for the legacy stream, and it for this one */
	CU_STREAM_NON_BLOCKING = 0x1 /* has nothing to do with the legacy stream */
} CUstream_flags;

/* cuStreamWaitEvent() */
typedef enum CUevent_wait_flags_enum {
	CU_EVENT_WAIT_DEFAULT = 0x0,
	CU_EVENT_WAIT_EXTERNAL = 0x1 /* in a capture: a node that waits, instead of an edge */
} CUevent_wait_flags;

/* What cuStreamWaitValue32() and ..64() wait for. "It" is the value in memory. */
typedef enum CUstreamWaitValue_flags_enum {
	CU_STREAM_WAIT_VALUE_GEQ = 0x0,      /* (signed)(it - value) >= 0: it has reached value, also by wrapping */
	CU_STREAM_WAIT_VALUE_EQ = 0x1,       /* it == value */
	CU_STREAM_WAIT_VALUE_AND = 0x2,      /* (it & value) != 0 */
	CU_STREAM_WAIT_VALUE_NOR = 0x3,      /* ~(it | value) != 0 */
	CU_STREAM_WAIT_VALUE_FLUSH = 1 << 30 /* with one of the above: and other devices' writes are visible */
} CUstreamWaitValue_flags;

/* cuStreamWriteValue32() and ..64() */
typedef enum CUstreamWriteValue_flags_enum {
	CU_STREAM_WRITE_VALUE_DEFAULT = 0x0,          /* all earlier writes of the stream are visible first */
	CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 0x1 /* do not promise that */
} CUstreamWriteValue_flags;

/* One operation of cuStreamBatchMemOp(). */
typedef enum CUstreamBatchMemOpType_enum {
	CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1,      /* as cuStreamWaitValue32() */
	CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2,     /* as cuStreamWriteValue32() */
	CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4,      /* as cuStreamWaitValue64() */
	CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,     /* as cuStreamWriteValue64() */
	CU_STREAM_MEM_OP_BARRIER = 6,            /* a memory barrier */
	CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES = 3 /* as CU_STREAM_WAIT_VALUE_FLUSH, alone */
} CUstreamBatchMemOpType;

/* memoryBarrier.flags */
typedef enum CUstreamMemoryBarrier_flags_enum {
	CU_STREAM_MEMORY_BARRIER_TYPE_SYS = 0x0, /* for the whole system */
	CU_STREAM_MEMORY_BARRIER_TYPE_GPU = 0x1  /* for this device */
} CUstreamMemoryBarrier_flags;

typedef union CUstreamBatchMemOpParams_union {
	CUstreamBatchMemOpType operation; /* says which of these it is */
	struct CUstreamMemOpWaitValueParams_st {
		CUstreamBatchMemOpType operation;
		CUdeviceptr address;
		union {
			cuuint32_t value;
			cuuint64_t value64;
		};
		unsigned int flags; /* CUstreamWaitValue_flags */
		CUdeviceptr alias;  /* reserved */
	} waitValue;
	struct CUstreamMemOpWriteValueParams_st {
		CUstreamBatchMemOpType operation;
		CUdeviceptr address;
		union {
			cuuint32_t value;
			cuuint64_t value64;
		};
		unsigned int flags; /* CUstreamWriteValue_flags */
		CUdeviceptr alias;  /* reserved */
	} writeValue;
	struct CUstreamMemOpFlushRemoteWritesParams_st {
		CUstreamBatchMemOpType operation;
		unsigned int flags; /* 0 */
	} flushRemoteWrites;
	struct CUstreamMemOpMemoryBarrierParams_st {
		CUstreamBatchMemOpType operation;
		unsigned int flags; /* CUstreamMemoryBarrier_flags */
	} memoryBarrier;
	cuuint64_t pad[6];
} CUstreamBatchMemOpParams_v1;
typedef CUstreamBatchMemOpParams_v1 CUstreamBatchMemOpParams;

/* Whether a stream is being captured into a graph. */
typedef enum CUstreamCaptureStatus_enum {
	CU_STREAM_CAPTURE_STATUS_NONE = 0,       /* no */
	CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,     /* yes */
	CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2 /* yes, and spoilt: it must still be ended */
} CUstreamCaptureStatus;

/* Which calls a capture forbids, and in which threads, because they could break it. */
typedef enum CUstreamCaptureMode_enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,       /* unsafe ones, while any thread captures in this mode */
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1, /* unsafe ones, while this thread captures */
	CU_STREAM_CAPTURE_MODE_RELAXED = 2       /* none */
} CUstreamCaptureMode;

/* What an edge of a graph stands for. Zero is a plain dependency on all of a node. */
typedef enum CUgraphDependencyType_enum {
	CU_GRAPH_DEPENDENCY_TYPE_DEFAULT = 0,     /* after it is complete */
	CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1 /* after it says so; between kernels alone */
} CUgraphDependencyType;

#define CU_GRAPH_KERNEL_NODE_PORT_DEFAULT      0 /* the kernel is complete */
#define CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC 1 /* all its blocks said so, or ended */
#define CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER 2 /* all its blocks have begun */

typedef struct CUgraphEdgeData_st {
	unsigned char from_port;   /* CU_GRAPH_KERNEL_NODE_PORT_* */
	unsigned char to_port;     /* 0 */
	unsigned char type;        /* a CUgraphDependencyType */
	unsigned char reserved[5]; /* zero */
} CUgraphEdgeData;

/*
 * What cuStreamAddCallback() calls: the stream, its error so far, and the caller's word. It must not call the API, and
 * must not wait for work that comes after it.
 */
typedef void(CUDA_CB *CUstreamCallback)(CUstream hStream, CUresult status, void *userData);

/* ---- Life -------------------------------------------------------------------------------------------------------- */

/*
 * A new stream in the current context. flags: CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_stream is NULL, or flags is neither
 *   CUDA_ERROR_OUT_OF_MEMORY  no room for a stream
 */
CUresult CUDAAPI cuStreamCreate(CUstream *ret_stream, unsigned int flags);

/*
 * The same with a priority: smaller numbers go first, 0 is usual; one outside of cuCtxGetStreamPriorityRange() is cut
 * to it. A hint for kernels that wait for room: nothing is interrupted, and copies do not care.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_stream is NULL, or flags is neither
 *   CUDA_ERROR_OUT_OF_MEMORY  no room for a stream
 */
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *ret_stream, unsigned int flags, int priority);

/*
 * Destroy a stream. Returns at once: work that is in it still runs, and then the stream is gone. Its handle is refused
 * from now on.
 *
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one, or a default one
 */
CUresult CUDAAPI cuStreamDestroy(CUstream stream);

/* ---- Order ------------------------------------------------------------------------------------------------------- */

/*
 * CUDA_SUCCESS if all of the stream's work is done, CUDA_ERROR_NOT_READY if not; or the error of work that failed.
 *
 *   CUDA_ERROR_NOT_READY                   there is work left
 *   CUDA_ERROR_INVALID_HANDLE              stream is not a live one
 *   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED  the stream is being captured
 */
CUresult CUDAAPI cuStreamQuery(CUstream stream);

/*
 * Wait until all work put into the stream before this call is done. How the thread waits is the context's SCHED flags'
 * business. Returns the error of work that failed, if some did.
 *
 *   CUDA_ERROR_INVALID_HANDLE              stream is not a live one
 *   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED  the stream is being captured
 */
CUresult CUDAAPI cuStreamSynchronize(CUstream stream);

/*
 * Make the stream wait, from here on, for the place where the event was last recorded when this call was made; a later
 * record does not change that. The event may be of another context, device or process. An event never recorded is not
 * waited for. The caller does not wait. flags: CUevent_wait_flags, EXTERNAL in a capture alone.
 *
 *   CUDA_ERROR_INVALID_VALUE   flags has a bit that is not there, or EXTERNAL outside of a capture
 *   CUDA_ERROR_INVALID_HANDLE  stream or event is not a live one
 */
CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);

/*
 * Call a function on the host when the stream gets here, exactly once, also if earlier work failed: its status says.
 * What follows in the stream waits for its return. The function must not call the API: that answers
 * CUDA_ERROR_NOT_PERMITTED. flags must be 0. cuLaunchHostFunc() is the newer way.
 *
 *   CUDA_ERROR_INVALID_VALUE               callback is NULL, or flags is not 0
 *   CUDA_ERROR_INVALID_HANDLE              stream is not a live one
 *   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED  the stream is being captured
 */
CUresult CUDAAPI cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *user_data, unsigned int flags);

/* ---- About a stream ---------------------------------------------------------------------------------------------- */

/*
 * The context the stream was created in; for a default stream, the current one.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_context is NULL
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext *ret_context);

/*
 * The device it runs on.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_device is NULL
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuStreamGetDevice(CUstream stream, CUdevice *ret_device);

/*
 * The flags it was created with: CUstream_flags.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_flags is NULL
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuStreamGetFlags(CUstream stream, unsigned int *ret_flags);

/*
 * A number that no other stream of this process has, had, or will have. Default streams have one too.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_id is NULL
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuStreamGetId(CUstream stream, unsigned long long *ret_id);

/*
 * Its priority, as it was cut to the range.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_priority is NULL
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuStreamGetPriority(CUstream stream, int *ret_priority);

/* ---- Capture --------------------------------------------------------------------------------------------------------
 *
 * Cenote captures nothing itself; on the host device these say "no". On a GPU they are the driver's.
 */

/*
 * Whether the stream is being captured into a graph.
 *
 *   CUDA_ERROR_INVALID_VALUE            ret_status is NULL
 *   CUDA_ERROR_INVALID_HANDLE           stream is not a live one
 *   CUDA_ERROR_STREAM_CAPTURE_IMPLICIT  the legacy stream, while a stream that waits for it is being captured
 */
CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *ret_status);

/*
 * The same, and of a capture that is ACTIVE: its number, its graph, the nodes on which the next one will depend, and
 * the edges that lead there. All outputs but the first may be NULL, edges without nodes excepted; those of a stream
 * that is not being captured are not written. The arrays are the library's, and valid until the next call on this
 * stream.
 *
 *   CUDA_ERROR_INVALID_VALUE            ret_status is NULL, or ret_edges is not and ret_nodes is
 *   CUDA_ERROR_INVALID_HANDLE           stream is not a live one
 *   CUDA_ERROR_STREAM_CAPTURE_IMPLICIT  the legacy stream, while a stream that waits for it is being captured
 *   CUDA_ERROR_LOSSY_QUERY              an edge is not a plain one, and ret_nodes was asked for without ret_edges
 */
CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *ret_status, cuuint64_t *ret_id,
					CUgraph *ret_graph, const CUgraphNode **ret_nodes,
					const CUgraphEdgeData **ret_edges, size_t *ret_count);

/*
 * Exchange the calling thread's capture mode for *mode: what it may call while something is being captured.
 * CU_STREAM_CAPTURE_MODE_GLOBAL at first. Two calls with the same variable leave all as it was.
 *
 *   CUDA_ERROR_INVALID_VALUE  mode is NULL, or *mode is not one
 */
CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);

/* ---- Values in memory -----------------------------------------------------------------------------------------------
 *
 * A stream can wait for a value in memory, and write one: hand-over between streams, devices, processes and the host,
 * without an event. CUDA does not see such an order: a wait that is never met holds its stream for ever. The address
 * is that of device memory or of mapped host memory, not of managed memory, aligned to the value.
 */

/*
 * Make the stream wait until the 32-bit value at the address fits: see CUstreamWaitValue_flags.
 *
 *   CUDA_ERROR_INVALID_VALUE   the address is not aligned or not such memory, or flags has a bit that is not there
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 *   CUDA_ERROR_NOT_SUPPORTED   the device does not do it: CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
 *                              CAN_FLUSH_REMOTE_WRITES
 */
CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags);

/*
 * The same for 64 bits.
 *
 *   CUDA_ERROR_INVALID_VALUE   as cuStreamWaitValue32()
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 *   CUDA_ERROR_NOT_SUPPORTED   also: CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
 */
CUresult CUDAAPI cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags);

/*
 * Write a 32-bit value when the stream gets here. A reader that sees it sees all that the stream wrote before, unless
 * flags (CUstreamWriteValue_flags) waive that.
 *
 *   CUDA_ERROR_INVALID_VALUE   the address is not aligned or not such memory, or flags has a bit that is not there
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags);

/*
 * The same for 64 bits.
 *
 *   CUDA_ERROR_INVALID_VALUE   as cuStreamWriteValue32()
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 *   CUDA_ERROR_NOT_SUPPORTED   the device does not do it: CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
 */
CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags);

/*
 * Several such operations, in the order of the array, which is read before the call returns. If one is not well formed,
 * none is enqueued. At most 255. flags must be 0.
 *
 *   CUDA_ERROR_INVALID_VALUE   operations is NULL, count is more than that, flags is not 0, or one of them is as above
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 *   CUDA_ERROR_NOT_SUPPORTED   the device does not do one of them
 */
CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations,
				    unsigned int flags);

/* ====================================================================================================================
 * 10  Events
 *
 * An event is a place in a stream. Recording it puts the place there; until the stream gets there the event is not
 * ready. Recording it again moves it: waits that were enqueued before still mean the earlier place. An event that was
 * never recorded counts as reached.
 * ================================================================================================================= */

/* cuEventCreate() */
typedef enum CUevent_flags_enum {
	CU_EVENT_DEFAULT = 0x0,
	CU_EVENT_BLOCKING_SYNC = 0x1,  /* cuEventSynchronize() sleeps instead of spinning */
	CU_EVENT_DISABLE_TIMING = 0x2, /* keeps no time, and is faster */
	CU_EVENT_INTERPROCESS = 0x4    /* for other processes: cuIpcGetEventHandle(). Needs DISABLE_TIMING */
} CUevent_flags;

/* cuEventRecordWithFlags() */
typedef enum CUevent_record_flags_enum {
	CU_EVENT_RECORD_DEFAULT = 0x0,
	CU_EVENT_RECORD_EXTERNAL = 0x1 /* in a capture: a node that records, instead of an edge */
} CUevent_record_flags;

/* How to wait for an event that a graphics API reports. */
typedef enum CUevent_sched_flags_enum {
	CU_EVENT_SCHED_AUTO = 0x00,         /* the library decides */
	CU_EVENT_SCHED_SPIN = 0x01,         /* spin */
	CU_EVENT_SCHED_YIELD = 0x02,        /* spin, and let others run between */
	CU_EVENT_SCHED_BLOCKING_SYNC = 0x04 /* sleep */
} CUevent_sched_flags;

/*
 * A new event in the current context. flags: CUevent_flags.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_event is NULL, flags has a bit that is not there, or INTERPROCESS without
 *                             DISABLE_TIMING
 *   CUDA_ERROR_OUT_OF_MEMORY  no room for an event
 */
CUresult CUDAAPI cuEventCreate(CUevent *ret_event, unsigned int flags);

/*
 * Destroy an event, whether it has been reached or not. Returns at once; streams that wait for it go on waiting for its
 * place. Its handle is refused from now on.
 *
 *   CUDA_ERROR_INVALID_HANDLE  event is not a live one
 */
CUresult CUDAAPI cuEventDestroy(CUevent event);

/*
 * Put the event at the end of what the stream has now. What is enqueued later does not belong to it. Stream and event
 * must be of one context (an event opened from another process: of any).
 *
 *   CUDA_ERROR_INVALID_HANDLE  event or stream is not a live one, or they are of different contexts
 */
CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream);

/*
 * The same with CUevent_record_flags: EXTERNAL in a capture alone.
 *
 *   CUDA_ERROR_INVALID_VALUE   flags has a bit that is not there, or EXTERNAL outside of a capture
 *   CUDA_ERROR_INVALID_HANDLE  event or stream is not a live one, or they are of different contexts
 */
CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags);

/*
 * CUDA_SUCCESS if the place where it was last recorded has been reached, or it never was recorded; CUDA_ERROR_NOT_READY
 * if not yet; or the error of work that failed before it.
 *
 *   CUDA_ERROR_NOT_READY       not reached yet
 *   CUDA_ERROR_INVALID_HANDLE  event is not a live one
 *   CUDA_ERROR_CAPTURED_EVENT  it was last recorded in a capture
 */
CUresult CUDAAPI cuEventQuery(CUevent event);

/*
 * Wait until that place is reached; sleeping, if the event has CU_EVENT_BLOCKING_SYNC, otherwise as the context's flags
 * say. A record made meanwhile by another thread does not prolong it. Returns the error of work that failed before it.
 * Never times out; if the process that recorded it dies, CUDA_ERROR_EXTERNAL_DEVICE.
 *
 *   CUDA_ERROR_INVALID_HANDLE   event is not a live one
 *   CUDA_ERROR_CAPTURED_EVENT   it was last recorded in a capture
 *   CUDA_ERROR_EXTERNAL_DEVICE  the process that recorded it died first
 */
CUresult CUDAAPI cuEventSynchronize(CUevent event);

/*
 * Milliseconds from one event to another, in steps of about half a microsecond; negative if the second came first.
 *
 *   CUDA_ERROR_INVALID_HANDLE  ret_ms is NULL; an event is not a live one, keeps no time, or was never recorded;
 *                              or they are of different contexts
 *   CUDA_ERROR_NOT_READY       one has not been reached yet
 */
CUresult CUDAAPI cuEventElapsedTime(float *ret_ms, CUevent start, CUevent end);

/* ====================================================================================================================
 * 11  Launch and modules
 *
 * On a GPU a module is what NVIDIA's compiler made. On the host device it is PTX, which a library of Cenote's runs; or
 * a shared object, in which a kernel is a C function that CENOTE_KERNEL (cenote.h) declared. Launching anything else is
 * refused, not jumped to.
 * ================================================================================================================= */

/* Options of cuModuleLoadDataEx(), and the type of each value, passed in a void *. */
typedef enum CUjit_option_enum {
	CU_JIT_MAX_REGISTERS = 0,               /* unsigned int: registers a thread may use */
	CU_JIT_THREADS_PER_BLOCK = 1,           /* unsigned int: compile for at least so many; out: for how many */
	CU_JIT_WALL_TIME = 2,                   /* float, out: milliseconds that compiling took */
	CU_JIT_INFO_LOG_BUFFER = 3,             /* char *: buffer for messages */
	CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,  /* unsigned int: its size; out: bytes written */
	CU_JIT_ERROR_LOG_BUFFER = 5,            /* char *: buffer for errors */
	CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6, /* unsigned int: its size; out: bytes written */
	CU_JIT_OPTIMIZATION_LEVEL = 7,          /* unsigned int: 0 to 4 (4) */
	CU_JIT_TARGET_FROM_CUCONTEXT = 8,       /* no value: compile for the current context's device (so it is) */
	CU_JIT_TARGET = 9,                      /* CUjit_target */
	CU_JIT_FALLBACK_STRATEGY = 10,          /* CUjit_fallback: when there is no exact match */
	CU_JIT_GENERATE_DEBUG_INFO = 11,        /* int: for a debugger (0) */
	CU_JIT_LOG_VERBOSE = 12,                /* int: more messages (0) */
	CU_JIT_GENERATE_LINE_INFO = 13,         /* int: line numbers (0) */
	CU_JIT_CACHE_MODE = 14,                 /* CUjit_cacheMode */
	CU_JIT_NEW_SM3X_OPT = 15,               /* no longer used */
	CU_JIT_FAST_COMPILE = 16,               /* internal */
	CU_JIT_GLOBAL_SYMBOL_NAMES = 17,        /* const char **: device symbols to place */
	CU_JIT_GLOBAL_SYMBOL_ADDRESSES = 18,    /* void **: at these host addresses */
	CU_JIT_GLOBAL_SYMBOL_COUNT = 19,        /* unsigned int: entries in both */
	CU_JIT_LTO = 20,                        /* no longer used, down to 28 */
	CU_JIT_FTZ = 21,
	CU_JIT_PREC_DIV = 22,
	CU_JIT_PREC_SQRT = 23,
	CU_JIT_FMA = 24,
	CU_JIT_REFERENCED_KERNEL_NAMES = 25,
	CU_JIT_REFERENCED_KERNEL_COUNT = 26,
	CU_JIT_REFERENCED_VARIABLE_NAMES = 27,
	CU_JIT_REFERENCED_VARIABLE_COUNT = 28,
	CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES = 29, /* no longer used */
	CU_JIT_POSITION_INDEPENDENT_CODE = 30,        /* int: position independent (0) */
	CU_JIT_MIN_CTA_PER_SM = 31,                   /* unsigned int: blocks that must fit a multiprocessor */
	CU_JIT_MAX_THREADS_PER_BLOCK = 32,            /* unsigned int: threads a block will have at most */
	CU_JIT_OVERRIDE_DIRECTIVE_VALUES = 33,        /* int: the options win over the source's own directives (0) */
	CU_JIT_SPLIT_COMPILE = 34,                    /* int: compile with so many threads; 0: all CPUs (1) */
	CU_JIT_NUM_OPTIONS
} CUjit_option;

#define CU_COMPUTE_ACCELERATED_TARGET_BASE 0x10000 /* added for the "a" targets: this device alone */
#define CU_COMPUTE_FAMILY_TARGET_BASE      0x20000 /* added for the "f" targets: this device's family */

/* CU_JIT_TARGET: compute capability times ten. */
typedef enum CUjit_target_enum {
	CU_TARGET_COMPUTE_30 = 30,
	CU_TARGET_COMPUTE_32 = 32,
	CU_TARGET_COMPUTE_35 = 35,
	CU_TARGET_COMPUTE_37 = 37,
	CU_TARGET_COMPUTE_50 = 50,
	CU_TARGET_COMPUTE_52 = 52,
	CU_TARGET_COMPUTE_53 = 53,
	CU_TARGET_COMPUTE_60 = 60,
	CU_TARGET_COMPUTE_61 = 61,
	CU_TARGET_COMPUTE_62 = 62,
	CU_TARGET_COMPUTE_70 = 70,
	CU_TARGET_COMPUTE_72 = 72,
	CU_TARGET_COMPUTE_75 = 75,
	CU_TARGET_COMPUTE_80 = 80,
	CU_TARGET_COMPUTE_86 = 86,
	CU_TARGET_COMPUTE_87 = 87,
	CU_TARGET_COMPUTE_89 = 89,
	CU_TARGET_COMPUTE_90 = 90,
	CU_TARGET_COMPUTE_100 = 100,
	CU_TARGET_COMPUTE_110 = 110,
	CU_TARGET_COMPUTE_103 = 103,
	CU_TARGET_COMPUTE_120 = 120,
	CU_TARGET_COMPUTE_121 = 121,
	CU_TARGET_COMPUTE_90A = CU_COMPUTE_ACCELERATED_TARGET_BASE + CU_TARGET_COMPUTE_90,
	CU_TARGET_COMPUTE_100A = CU_COMPUTE_ACCELERATED_TARGET_BASE + CU_TARGET_COMPUTE_100,
	CU_TARGET_COMPUTE_110A = CU_COMPUTE_ACCELERATED_TARGET_BASE + CU_TARGET_COMPUTE_110,
	CU_TARGET_COMPUTE_103A = CU_COMPUTE_ACCELERATED_TARGET_BASE + CU_TARGET_COMPUTE_103,
	CU_TARGET_COMPUTE_120A = CU_COMPUTE_ACCELERATED_TARGET_BASE + CU_TARGET_COMPUTE_120,
	CU_TARGET_COMPUTE_121A = CU_COMPUTE_ACCELERATED_TARGET_BASE + CU_TARGET_COMPUTE_121,
	CU_TARGET_COMPUTE_100F = CU_COMPUTE_FAMILY_TARGET_BASE + CU_TARGET_COMPUTE_100,
	CU_TARGET_COMPUTE_110F = CU_COMPUTE_FAMILY_TARGET_BASE + CU_TARGET_COMPUTE_110,
	CU_TARGET_COMPUTE_103F = CU_COMPUTE_FAMILY_TARGET_BASE + CU_TARGET_COMPUTE_103,
	CU_TARGET_COMPUTE_120F = CU_COMPUTE_FAMILY_TARGET_BASE + CU_TARGET_COMPUTE_120,
	CU_TARGET_COMPUTE_121F = CU_COMPUTE_FAMILY_TARGET_BASE + CU_TARGET_COMPUTE_121
} CUjit_target;

typedef enum CUjit_fallback_enum {
	CU_PREFER_PTX = 0, /* compile the PTX */
	CU_PREFER_BINARY   /* take a compatible binary */
} CUjit_fallback;

typedef enum CUjit_cacheMode_enum {
	CU_JIT_CACHE_OPTION_NONE = 0, /* the compiler's choice */
	CU_JIT_CACHE_OPTION_CG,       /* L1 off */
	CU_JIT_CACHE_OPTION_CA        /* L1 on */
} CUjit_cacheMode;

/* What cuFuncGetAttribute() can be asked; those marked "set" cuFuncSetAttribute() can change. */
typedef enum CUfunction_attribute_enum {
	CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,                 /* threads a block of it can have */
	CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,                     /* shared memory it declares */
	CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,                      /* constant memory it declares */
	CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,                      /* local memory of a thread */
	CU_FUNC_ATTRIBUTE_NUM_REGS = 4,                              /* registers of a thread */
	CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,                           /* compute capability of its PTX, times ten */
	CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,                        /* ... and of its binary */
	CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,                         /* compiled with -Xptxas --dlcm=ca */
	CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,         /* shared memory a launch may add; set */
	CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,      /* a CUshared_carveout or per cent; set */
	CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET = 10,             /* cannot be launched without a cluster size */
	CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11,               /* blocks of a cluster in x, 0: any; set */
	CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT = 12,              /* ... in y; set */
	CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH = 13,               /* ... in z; set */
	CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,    /* clusters beyond the portable size; set */
	CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15, /* a CUclusterSchedulingPolicy; set */
	CU_FUNC_ATTRIBUTE_MAX
} CUfunction_attribute;

/* How much of the on-chip memory should be shared memory, in per cent. A wish. */
typedef enum CUshared_carveout_enum {
	CU_SHAREDMEM_CARVEOUT_DEFAULT = -1,     /* no wish */
	CU_SHAREDMEM_CARVEOUT_MAX_SHARED = 100, /* all of it */
	CU_SHAREDMEM_CARVEOUT_MAX_L1 = 0        /* as little as possible */
} CUshared_carveout;

/* How a cluster's blocks are placed. */
typedef enum CUclusterSchedulingPolicy_enum {
	CU_CLUSTER_SCHEDULING_POLICY_DEFAULT = 0,       /* the device decides */
	CU_CLUSTER_SCHEDULING_POLICY_SPREAD = 1,        /* far apart */
	CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING = 2 /* where there is room */
} CUclusterSchedulingPolicy;

/* For the occupancy calls' relatives with flags. */
typedef enum CUoccupancy_flags_enum {
	CU_OCCUPANCY_DEFAULT = 0x0,
	CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE = 0x1 /* count as if global memory were cached in L1 */
} CUoccupancy_flags;

/* How memory in a window should be cached. */
typedef enum CUaccessProperty_enum {
	CU_ACCESS_PROPERTY_NORMAL = 0,    /* as usual */
	CU_ACCESS_PROPERTY_STREAMING = 1, /* it will not be needed again soon */
	CU_ACCESS_PROPERTY_PERSISTING = 2 /* it will */
} CUaccessProperty;

typedef struct CUaccessPolicyWindow_st {
	void *base_ptr;   /* where the window begins */
	size_t num_bytes; /* how long it is */
	float hitRatio;   /* part of it, 0 to 1, that gets hitProp; the rest gets missProp */
	CUaccessProperty hitProp;
	CUaccessProperty missProp; /* NORMAL or STREAMING */
} CUaccessPolicyWindow_v1;
typedef CUaccessPolicyWindow_v1 CUaccessPolicyWindow;

/* How a thread waits. */
typedef enum CUsynchronizationPolicy_enum {
	CU_SYNC_POLICY_AUTO = 1,         /* the library decides */
	CU_SYNC_POLICY_SPIN = 2,         /* spin */
	CU_SYNC_POLICY_YIELD = 3,        /* spin, and let others run between */
	CU_SYNC_POLICY_BLOCKING_SYNC = 4 /* sleep */
} CUsynchronizationPolicy;

/* Kernels of different domains need not wait for each other's writes. */
typedef enum CUlaunchMemSyncDomain_enum {
	CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT = 0, /* kernels that compute */
	CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE = 1   /* kernels that write to other devices */
} CUlaunchMemSyncDomain;

/* The device's domain for each, below CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT. */
typedef struct CUlaunchMemSyncDomainMap_st {
	unsigned char default_;
	unsigned char remote;
} CUlaunchMemSyncDomainMap;

/* What a launch can be told besides its shape; the member of CUlaunchAttributeValue that goes with it. */
typedef enum CUlaunchAttributeID_enum {
	CU_LAUNCH_ATTRIBUTE_IGNORE = 0,                               /* nothing: skip this entry */
	CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1,                 /* accessPolicyWindow */
	CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,                          /* cooperative: all blocks resident at once */
	CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY = 3,               /* syncPolicy; of streams */
	CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,                    /* clusterDim */
	CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5, /* clusterSchedulingPolicyPreference */
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,    /* programmaticStreamSerializationAllowed */
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT = 7,                   /* programmaticEvent */
	CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,                             /* priority, as a stream's */
	CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP = 9,                  /* memSyncDomainMap */
	CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN = 10,                     /* memSyncDomain */
	CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION = 11,         /* preferredClusterDim */
	CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT = 12,             /* launchCompletionEvent */
	CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE = 13,        /* deviceUpdatableKernelNode; in graphs */
	CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 14,    /* sharedMemCarveout */
	CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING = 16       /* nvlinkUtilCentricScheduling */
} CUlaunchAttributeID;

typedef union CUlaunchAttributeValue_union {
	char pad[64]; /* its size, now and later */
	CUaccessPolicyWindow accessPolicyWindow;
	int cooperative; /* 1: yes */
	CUsynchronizationPolicy syncPolicy;
	struct {
		unsigned int x; /* each divides the grid's */
		unsigned int y;
		unsigned int z;
	} clusterDim;
	CUclusterSchedulingPolicy clusterSchedulingPolicyPreference;
	int programmaticStreamSerializationAllowed; /* 1: may begin when the kernel before it says so */
	struct {
		CUevent event;           /* without timing; reached when all blocks said so */
		int flags;               /* as cuEventRecordWithFlags() */
		int triggerAtBlockStart; /* 1: when all blocks have begun */
	} programmaticEvent;
	struct {
		CUevent event; /* without timing; reached when all blocks have begun, about */
		int flags;     /* as cuEventRecordWithFlags() */
	} launchCompletionEvent;
	int priority;
	CUlaunchMemSyncDomainMap memSyncDomainMap;
	CUlaunchMemSyncDomain memSyncDomain;
	struct {
		unsigned int x; /* each a multiple of clusterDim's */
		unsigned int y;
		unsigned int z;
	} preferredClusterDim;
	struct {
		int deviceUpdatable;       /* 1: kernels may change the node */
		CUgraphDeviceNode devNode; /* out: what they call it */
	} deviceUpdatableKernelNode;
	unsigned int sharedMemCarveout;           /* a CUshared_carveout, or per cent */
	unsigned int nvlinkUtilCentricScheduling; /* 1: place blocks for NVLink's sake */
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute_st {
	CUlaunchAttributeID id;
	char pad[8 - sizeof(CUlaunchAttributeID)];
	CUlaunchAttributeValue value;
} CUlaunchAttribute;

/* A launch's shape, place and attributes. */
typedef struct CUlaunchConfig_st {
	unsigned int gridDimX; /* blocks */
	unsigned int gridDimY;
	unsigned int gridDimZ;
	unsigned int blockDimX; /* threads of a block */
	unsigned int blockDimY;
	unsigned int blockDimZ;
	unsigned int sharedMemBytes; /* shared memory of a block, besides what the kernel declares */
	CUstream hStream;
	CUlaunchAttribute *attrs; /* array, or NULL */
	unsigned int numAttrs;    /* its length */
} CUlaunchConfig;

/* Stands for the dimensions of a block, where the kernel itself says how large its blocks are. */
#define CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM 1

/*
 * The words of cuLaunchKernel()'s extra, each followed by its operand:
 * { BUFFER_POINTER, all arguments as the kernel lays them out, BUFFER_SIZE, pointer to a size_t with their bytes, END }
 */
#define CU_LAUNCH_PARAM_END_AS_INT            0x00
#define CU_LAUNCH_PARAM_END                   ((void *)CU_LAUNCH_PARAM_END_AS_INT)
#define CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT 0x01
#define CU_LAUNCH_PARAM_BUFFER_POINTER        ((void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT)
#define CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT    0x02
#define CU_LAUNCH_PARAM_BUFFER_SIZE           ((void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT)

/* What cuLaunchHostFunc() calls. It must not call the API, and must not wait for work that comes after it. */
typedef void(CUDA_CB *CUhostFn)(void *userData);

/* How much dynamic shared memory a block of so many threads needs, for the occupancy calls. */
typedef size_t(CUDA_CB *CUoccupancyB2DSize)(int blockSize);

/* ---- Modules ----------------------------------------------------------------------------------------------------- */

/*
 * Load code from a file into the current context. On the host device: PTX, a fat binary that has some, or a shared
 * object; by path, never searched for.
 *
 *   CUDA_ERROR_INVALID_VALUE                   ret_module or path is NULL
 *   CUDA_ERROR_FILE_NOT_FOUND                  there is no such file
 *   CUDA_ERROR_INVALID_IMAGE                   it is not a module for this kind of device
 *   CUDA_ERROR_NO_BINARY_FOR_GPU,
 *   CUDA_ERROR_UNSUPPORTED_PTX_VERSION         nothing in it runs here, or can be compiled to; for the host device a
 *                                              fat binary must have PTX
 *   CUDA_ERROR_INVALID_PTX                     the PTX is not valid
 *   CUDA_ERROR_NOT_SUPPORTED                   the host device does not run an instruction in it
 *   CUDA_ERROR_JIT_COMPILER_NOT_FOUND          the library that compiles PTX, or runs it, is not installed
 *   CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
 *   CUDA_ERROR_SHARED_OBJECT_INIT_FAILED       it refers to an undefined symbol, or did not initialise
 *   CUDA_ERROR_OUT_OF_MEMORY                   no room for it
 */
CUresult CUDAAPI cuModuleLoad(CUmodule *ret_module, const char *path);

/*
 * Load code from memory, where it begins at image and says itself how long it is; PTX ends with a zero. The bytes may
 * go after the call.
 *
 *   CUDA_ERROR_INVALID_VALUE      ret_module or image is NULL
 *   CUDA_ERROR_INVALID_IMAGE      it is not a module
 *   CUDA_ERROR_NO_BINARY_FOR_GPU  it is one for another kind of device: a cubin
 *   CUDA_ERROR_OUT_OF_MEMORY      no room for it
 *                                 and those of cuModuleLoad() about PTX
 */
CUresult CUDAAPI cuModuleLoadData(CUmodule *ret_module, const void *image);

/*
 * The same, with options for the compiler: values[i] belongs to options[i], cast to void *. Some values are written
 * back, so the array must be writable. Both logs end with a zero in any case, and how many bytes are in them without it
 * replaces their size. The host device compiles nothing: it writes into the log of errors why it refused a module.
 *
 *   CUDA_ERROR_INVALID_VALUE  an option is not one, or cannot have that value; the others as cuModuleLoadData()
 */
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *ret_module, const void *image, unsigned int count, CUjit_option *options,
				    void **values);

/*
 * Unload a module, and wait for all work of its context. Its functions' handles are refused from now on.
 *
 *   CUDA_ERROR_INVALID_HANDLE  module is NULL, or not a live one
 */
CUresult CUDAAPI cuModuleUnload(CUmodule module);

/*
 * A kernel of a module, by name. It lives as long as the module.
 *
 *   CUDA_ERROR_INVALID_VALUE   an argument is NULL
 *   CUDA_ERROR_INVALID_HANDLE  module is not a live one
 *   CUDA_ERROR_NOT_FOUND       the module has no kernel of this name; on the host device: none that CENOTE_KERNEL
 *                              declared
 */
CUresult CUDAAPI cuModuleGetFunction(CUfunction *ret_function, CUmodule module, const char *name);

/*
 * The address and size of a module's global variable. Either output may be NULL, not both.
 *
 *   CUDA_ERROR_INVALID_VALUE   both outputs or name are NULL
 *   CUDA_ERROR_INVALID_HANDLE  module is not a live one
 *   CUDA_ERROR_NOT_FOUND       the module has no variable of this name
 */
CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr *ret_pointer, size_t *ret_bytes, CUmodule module, const char *name);

/*
 * As cuModuleLoadData(); what is at image is a fat binary, or the structure that a compiler puts around one.
 */
CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *ret_module, const void *image);

typedef enum CUmoduleLoadingMode_enum {
	CU_MODULE_EAGER_LOADING = 0x1,
	CU_MODULE_LAZY_LOADING = 0x2
} CUmoduleLoadingMode;

/*
 * When kernels are loaded: with their module, or when they are first used. CUDA_MODULE_LOADING in the environment says
 * EAGER; else it is the latter.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_mode is NULL
 */
CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *ret_mode);

/*
 * How many kernels a module has.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_count is NULL
 *   CUDA_ERROR_INVALID_HANDLE  module is not a live one
 *   CUDA_ERROR_NOT_SUPPORTED   on the host device: the module is a shared object
 */
CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int *ret_count, CUmodule module);

/*
 * The kernels of a module, `count` of them at most, in any order. What is beyond their number is not written.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_functions is NULL
 *   CUDA_ERROR_INVALID_HANDLE  module is not a live one
 *   CUDA_ERROR_NOT_SUPPORTED   on the host device: the module is a shared object
 */
CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction *ret_functions, unsigned int count, CUmodule module);

/* ---- Libraries --------------------------------------------------------------------------------------------------- */

typedef enum CUlibraryOption_enum {
	CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE = 0, /* CUlibraryHostUniversalFunctionAndDataTable * */
	CU_LIBRARY_BINARY_IS_PRESERVED = 1,                    /* no value: the code stays where it is until unloaded */
	CU_LIBRARY_NUM_OPTIONS
} CUlibraryOption;

/* Kernels and variables that the program's own code has, too. */
typedef struct CUlibraryHostUniversalFunctionAndDataTable_st {
	void *functionTable;
	size_t functionWindowSize; /* bytes */
	void *dataTable;
	size_t dataWindowSize; /* bytes */
} CUlibraryHostUniversalFunctionAndDataTable;

/*
 * Load code that all contexts can use, those to come, too. It needs no context: what a context needs of it is made
 * there when it is first used. Options are as cuModuleLoadDataEx()'s, and as CUlibraryOption says. On the host device:
 * PTX, or a fat binary that has some.
 *
 *   CUDA_ERROR_INVALID_VALUE  ret_library or code is NULL, or an option is not one
 *   CUDA_ERROR_NOT_SUPPORTED  on the host device: a shared object, which is a module (cuModuleLoadData())
 *                             and those of cuModuleLoadData() about the code
 */
CUresult CUDAAPI cuLibraryLoadData(CUlibrary *ret_library, const void *code, CUjit_option *jit_options,
				   void **jit_values, unsigned int jit_count, CUlibraryOption *library_options,
				   void **library_values, unsigned int library_count);

/*
 * The same, from a file.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_library is NULL, path is NULL or empty, or an option is not one
 *   CUDA_ERROR_FILE_NOT_FOUND  there is no such file
 *   CUDA_ERROR_OUT_OF_MEMORY   path is a directory's
 */
CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *ret_library, const char *path, CUjit_option *jit_options,
				       void **jit_values, unsigned int jit_count, CUlibraryOption *library_options,
				       void **library_values, unsigned int library_count);

/*
 * Unload a library, with its kernels, and its modules in all contexts. The host device does not wait: kernels that were
 * launched still run, and keep what they need. The driver waits for them.
 *
 *   CUDA_ERROR_INVALID_HANDLE  library is not a live one
 */
CUresult CUDAAPI cuLibraryUnload(CUlibrary library);

/*
 * A kernel of a library, by name. It lives as long as the library, and can be launched in every context.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_kernel or name is NULL
 *   CUDA_ERROR_INVALID_HANDLE  library is not a live one
 *   CUDA_ERROR_NOT_FOUND       it has no kernel of this name
 */
CUresult CUDAAPI cuLibraryGetKernel(CUkernel *ret_kernel, CUlibrary library, const char *name);

/*
 * How many kernels a library has.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_count is NULL
 *   CUDA_ERROR_INVALID_HANDLE  library is not a live one
 */
CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int *ret_count, CUlibrary library);

/*
 * The kernels of a library, `count` of them at most, in any order. What is beyond their number is not written.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_kernels is NULL
 *   CUDA_ERROR_INVALID_HANDLE  library is not a live one
 */
CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel *ret_kernels, unsigned int count, CUlibrary library);

/*
 * The library as a module of the current context, loaded if it is not yet. It is unloaded with the library alone.
 *
 *   CUDA_ERROR_INVALID_VALUE    ret_module is NULL
 *   CUDA_ERROR_INVALID_HANDLE   library is not a live one
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuLibraryGetModule(CUmodule *ret_module, CUlibrary library);

/*
 * The address and size of a variable in the current context. Either output may be NULL, not both.
 *
 *   CUDA_ERROR_INVALID_VALUE    both outputs or name are NULL
 *   CUDA_ERROR_INVALID_HANDLE   library is not a live one
 *   CUDA_ERROR_NOT_FOUND        it has no variable of this name
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *ret_pointer, size_t *ret_bytes, CUlibrary library, const char *name);

/*
 * The same of a __managed__ variable, which is the same one in all contexts.
 *
 *   CUDA_ERROR_NOT_FOUND  it has no managed variable of this name
 */
CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr *ret_pointer, size_t *ret_bytes, CUlibrary library, const char *name);

/*
 * The kernel as a function of the current context; its library is loaded there if it is not yet.
 *
 *   CUDA_ERROR_INVALID_VALUE    ret_function is NULL
 *   CUDA_ERROR_INVALID_HANDLE   kernel is not a live one
 *   CUDA_ERROR_INVALID_CONTEXT  no context is current
 */
CUresult CUDAAPI cuKernelGetFunction(CUfunction *ret_function, CUkernel kernel);

/*
 * The library of a kernel.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_library is NULL
 *   CUDA_ERROR_INVALID_HANDLE  kernel is not a live one
 */
CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *ret_library, CUkernel kernel);

/*
 * The name of a kernel. It stays for as long as the library.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_name or kernel is NULL
 *   CUDA_ERROR_INVALID_HANDLE  kernel is not a live one
 */
CUresult CUDAAPI cuKernelGetName(const char **ret_name, CUkernel kernel);

/*
 * One of a kernel's attributes on a device.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_value is NULL, or there is no such attribute
 *   CUDA_ERROR_INVALID_HANDLE  kernel is not a live one
 *   CUDA_ERROR_INVALID_DEVICE  there is no such device
 */
CUresult CUDAAPI cuKernelGetAttribute(int *ret_value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device);

/*
 * Set one, for all launches on a device to come. What cuFuncSetAttribute() sets for one context is stronger.
 *
 *   CUDA_ERROR_INVALID_VALUE   the attribute is not one, is read only, or cannot have that value
 *   CUDA_ERROR_INVALID_HANDLE  kernel is not a live one
 *   CUDA_ERROR_INVALID_DEVICE  there is no such device
 */
CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device);

/*
 * Where a parameter lies among a kernel's parameters, and how large it is. ret_bytes may be NULL.
 *
 *   CUDA_ERROR_INVALID_VALUE   kernel or ret_offset is NULL, or there is no parameter of this number
 *   CUDA_ERROR_INVALID_HANDLE  kernel is not a live one
 */
CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *ret_offset, size_t *ret_bytes);

/* ---- Launch ------------------------------------------------------------------------------------------------------ */

/*
 * Launch a kernel, in stream order: grid_x * grid_y * grid_z blocks of block_x * block_y * block_z threads, with
 * shared_bytes of dynamic shared memory each.
 *
 * Arguments come in one of two ways; the other is NULL. params: an array of pointers, one an argument; what they point
 * at is copied before the call returns. extra: all arguments in one buffer (CU_LAUNCH_PARAM_BUFFER_POINTER), laid out
 * as the kernel wants them.
 *
 * A kernel that fails does so later: its stream's next query or synchronisation says so.
 *
 *   CUDA_ERROR_INVALID_VALUE            a dimension is 0 or too large, a block has too many threads or too much shared
 *                                       memory, or params and extra are both given, or not well formed
 *   CUDA_ERROR_INVALID_HANDLE           function or stream is not a live one, or they are of different contexts
 *   CUDA_ERROR_INVALID_IMAGE            the function's code does not fit
 *   CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES  a block of this shape needs more registers than there are
 *   CUDA_ERROR_OUT_OF_MEMORY            no room to keep the arguments
 */
CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
				unsigned int block_x, unsigned int block_y, unsigned int block_z,
				unsigned int shared_bytes, CUstream stream, void **params, void **extra);

/*
 * The same, with all blocks of the grid running at once: they may wait for each other, as cooperative groups' grid
 * barrier does. On the host device the kernel must be PTX, or have one block.
 *
 *   CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE  so many blocks do not run at once; see
 *                                            cuOccupancyMaxActiveBlocksPerMultiprocessor()
 *   CUDA_ERROR_NOT_SUPPORTED                 the device does not do it; on the host device: the kernel is C
 *                                            and those of cuLaunchKernel()
 */
CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
					   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
					   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
					   void **params);

/*
 * The same with shape and stream in a structure, and attributes beside them.
 *
 *   CUDA_ERROR_INVALID_VALUE                 config is NULL; as cuLaunchKernel(); or an attribute is not one
 *   CUDA_ERROR_INVALID_HANDLE                as cuLaunchKernel()
 *   CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES       as cuLaunchKernel()
 *   CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE  the attribute asks for all blocks at once, and they do not fit
 *   CUDA_ERROR_INVALID_CLUSTER_SIZE          no such clusters are possible
 *   CUDA_ERROR_NOT_SUPPORTED                 the device does not do what an attribute asks
 */
CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra);

/*
 * Call a function on the host when the stream gets here; what follows in the stream waits for its return. It is not
 * called if earlier work failed. It must not call the API (CUDA_ERROR_NOT_PERMITTED), nor wait for anything that waits
 * for it.
 *
 *   CUDA_ERROR_INVALID_VALUE   function is NULL
 *   CUDA_ERROR_INVALID_HANDLE  stream is not a live one
 */
CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user_data);

/* ---- About a kernel ---------------------------------------------------------------------------------------------- */

/*
 * One of a kernel's attributes.
 *
 *   CUDA_ERROR_INVALID_VALUE        ret_value is NULL, or there is no such attribute
 *   CUDA_ERROR_INVALID_HANDLE       function is not a live one, or a library's kernel: see cuKernelGetAttribute()
 *   CUDA_ERROR_FUNCTION_NOT_LOADED  its code is not loaded yet
 */
CUresult CUDAAPI cuFuncGetAttribute(int *ret_value, CUfunction_attribute attribute, CUfunction function);

/*
 * Set one, for all launches to come.
 *
 *   CUDA_ERROR_INVALID_VALUE   the attribute is not one, is read only, or cannot have that value
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one
 */
CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value);

/*
 * The name of a kernel, as cuModuleGetFunction() takes it. It stays for as long as the kernel's module.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_name is NULL, or function is
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one
 */
CUresult CUDAAPI cuFuncGetName(const char **ret_name, CUfunction function);

/*
 * The module of a kernel. On the host device a kernel of the program's own has none.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_module or function is NULL
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one
 *   CUDA_ERROR_NOT_FOUND       it has none
 */
CUresult CUDAAPI cuFuncGetModule(CUmodule *ret_module, CUfunction function);

/*
 * Where a parameter lies among a kernel's parameters, and how large it is. ret_bytes may be NULL.
 *
 *   CUDA_ERROR_INVALID_VALUE   function or ret_offset is NULL, or there is no parameter of this number
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one, or a library's kernel: see cuKernelGetParamInfo()
 */
CUresult CUDAAPI cuFuncGetParamInfo(CUfunction function, size_t index, size_t *ret_offset, size_t *ret_bytes);

typedef enum CUfunctionLoadingState_enum {
	CU_FUNCTION_LOADING_STATE_UNLOADED = 0,
	CU_FUNCTION_LOADING_STATE_LOADED = 1,
	CU_FUNCTION_LOADING_STATE_MAX
} CUfunctionLoadingState;

/*
 * Is a kernel loaded? On the host device it always is.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_state is NULL
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one
 */
CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *ret_state, CUfunction function);

/*
 * Load a kernel, if it is not yet.
 *
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one
 */
CUresult CUDAAPI cuFuncLoad(CUfunction function);

/*
 * As cuCtxSetSharedMemConfig(), for one kernel.
 *
 *   CUDA_ERROR_INVALID_VALUE   there is no such setting
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one
 */
CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config);

/*
 * How many blocks of block_threads threads and shared_bytes of dynamic shared memory fit one multiprocessor at once.
 * The largest block that the kernel itself allows (.maxntid of PTX) is not considered.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_blocks is NULL, or block_threads is not positive
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one
 */
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *ret_blocks, CUfunction function, int block_threads,
							     size_t shared_bytes);

/*
 * The same. flags: CUoccupancy_flags; they make no difference on devices of today.
 *
 *   CUDA_ERROR_INVALID_VALUE   as there; or there are no such flags
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one
 */
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *ret_blocks, CUfunction function,
								      int block_threads, size_t shared_bytes,
								      unsigned int flags);

/*
 * The block size that keeps the device busiest, and the fewest blocks it takes to do so. If the shared memory depends
 * on the block size, shared_by_size says how and shared_bytes is ignored; otherwise it is NULL. limit: the largest
 * block that will do, 0 for any. The function is called during this call, in this thread.
 *
 *   CUDA_ERROR_INVALID_VALUE   an output is NULL, or limit is negative
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one
 */
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *ret_min_blocks, int *ret_block_threads, CUfunction function,
						  CUoccupancyB2DSize shared_by_size, size_t shared_bytes, int limit);

/*
 * The same. flags: CUoccupancy_flags; they make no difference on devices of today.
 *
 *   CUDA_ERROR_INVALID_VALUE   as there; or there are no such flags
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one
 */
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int *ret_min_blocks, int *ret_block_threads,
							   CUfunction function, CUoccupancyB2DSize shared_by_size,
							   size_t shared_bytes, int limit, unsigned int flags);

/*
 * How much dynamic shared memory each of `blocks` blocks of block_threads threads can have, if they are to be on one
 * multiprocessor at once.
 *
 *   CUDA_ERROR_INVALID_VALUE   ret_bytes is NULL, or a multiprocessor never runs so many such blocks at once
 *   CUDA_ERROR_INVALID_HANDLE  function is not a live one
 */
CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t *ret_bytes, CUfunction function, int blocks,
							 int block_threads);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__) && defined(__CUDA_API_PUSH_VISIBILITY_DEFAULT)
#pragma GCC visibility pop
#endif

#endif /* __cuda_cuda_h__ */

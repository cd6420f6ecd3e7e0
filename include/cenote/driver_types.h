/* SPDX-License-Identifier: MIT */
/*
 * Types and constants of the runtime API.
 *
 * Names, values and layouts are CUDA 13.0's; every enumeration is complete. Opaque handles are pointers to the same
 * tags as in cuda.h, so a CUstream is a cudaStream_t, a CUevent a cudaEvent_t, a CUmemoryPool a cudaMemPool_t; the two
 * headers may be included in either order. What only textures, graphs and graphics interoperability use is not here.
 *
 *     Flags ......................... what the `flags` arguments take
 *     Errors ........................ cudaError
 *     Handles ....................... streams, events, pools, kernels, …
 *     Devices ....................... attributes, limits, properties
 *     Memory ........................ kinds, places, advice, pointers
 *     Copies ........................ directions, 3D parameters
 *     Pools ......................... attributes, access, sharing
 *     IPC ........................... handles of 64 bytes
 *     Streams and capture ........... host functions, capture states, edges
 *     Launches ...................... attributes, configuration, functions
 *     Entry points .................. cudaGetDriverEntryPoint
 */
#if !defined(__DRIVER_TYPES_H__)
#define __DRIVER_TYPES_H__

#include "host_defines.h"
#include "vector_types.h"

#include <limits.h>
#include <stddef.h>

/*
 * ---- Flags ----------------------------------------------------------------------------------------------------------
 */

/* cudaHostAlloc */
#define cudaHostAllocDefault       0x00 /* page-locked, nothing else asked for */
#define cudaHostAllocPortable      0x01 /* page-locked for every context */
#define cudaHostAllocMapped        0x02 /* devices can reach it: cudaHostGetDevicePointer() */
#define cudaHostAllocWriteCombined 0x04 /* fast to write and to send, slow for the host to read */

/* cudaHostRegister */
#define cudaHostRegisterDefault  0x00
#define cudaHostRegisterPortable 0x01 /* page-locked for every context */
#define cudaHostRegisterMapped   0x02 /* devices can reach it */
#define cudaHostRegisterIoMemory 0x04 /* memory of another PCI device */
#define cudaHostRegisterReadOnly 0x08 /* devices will only read it */

/* cudaDeviceEnablePeerAccess */
#define cudaPeerAccessDefault 0x00

/* cudaStreamCreateWithFlags */
#define cudaStreamDefault     0x00 /* waits for the legacy stream, and it for this one */
#define cudaStreamNonBlocking 0x01 /* does not: no implicit order with the legacy stream */

/* Streams that always exist */
#define cudaStreamLegacy    ((cudaStream_t)0x1) /* one a context; ordered with all its blocking streams */
#define cudaStreamPerThread ((cudaStream_t)0x2) /* one a thread and context; ordered with the legacy stream alone */

/* cudaEventCreateWithFlags */
#define cudaEventDefault       0x00
#define cudaEventBlockingSync  0x01 /* a thread that waits for it sleeps instead of spinning */
#define cudaEventDisableTiming 0x02 /* takes no time stamp; cheaper */
#define cudaEventInterprocess  0x04 /* can be given to other processes; needs cudaEventDisableTiming */

/* cudaEventRecordWithFlags */
#define cudaEventRecordDefault  0x00
#define cudaEventRecordExternal 0x01 /* in a capture: a record that those outside the graph can see */

/* cudaStreamWaitEvent */
#define cudaEventWaitDefault  0x00
#define cudaEventWaitExternal 0x01 /* in a capture: a wait for a record made outside the graph */

/* cudaSetDeviceFlags, cudaInitDevice */
#define cudaDeviceScheduleAuto         0x00 /* the library chooses how the host waits */
#define cudaDeviceScheduleSpin         0x01 /* the host spins */
#define cudaDeviceScheduleYield        0x02 /* the host spins and yields its core */
#define cudaDeviceScheduleBlockingSync 0x04 /* the host sleeps */
#define cudaDeviceBlockingSync         0x04 /* old name of cudaDeviceScheduleBlockingSync */
#define cudaDeviceScheduleMask         0x07 /* the bits of the four above */
#define cudaDeviceMapHost              0x08 /* page-locked memory is mapped; always so with the runtime */
#define cudaDeviceLmemResizeToMax      0x10 /* local memory is kept once grown; always so now */
#define cudaDeviceSyncMemops           0x80 /* synchronous copies and fills return when they are done, all of them */
#define cudaDeviceMask                 0xff /* all bits that mean something */
#define cudaInitDeviceFlagsAreValid    0x01 /* cudaInitDevice() takes its `deviceFlags` seriously */

/* cudaIpcOpenMemHandle */
#define cudaIpcMemLazyEnablePeerAccess 0x01 /* enable peer access between the two devices where needed; required */

/* cudaMallocManaged */
#define cudaMemAttachGlobal 0x01 /* every stream of every device may use it */
#define cudaMemAttachHost   0x02 /* no device uses it yet */
#define cudaMemAttachSingle 0x04 /* one stream uses it */

/* Occupancy */
#define cudaOccupancyDefault                0x00
#define cudaOccupancyDisableCachingOverride 0x01 /* global caching is not turned off for the sake of occupancy */

/* Ordinals that are no device */
#define cudaCpuDeviceId     ((int)-1) /* the host */
#define cudaInvalidDeviceId ((int)-2) /* nothing, or not the same everywhere */

/*
 * ---- Errors ---------------------------------------------------------------------------------------------------------
 *
 * cudaGetErrorName() and cudaGetErrorString() give texts; cenote_last_error() the sentence for this case.
 */

enum cudaError {
	cudaSuccess = 0,                          /* done; for queries: the work asked about has finished */
	cudaErrorInvalidValue = 1,                /* an argument is out of range, NULL or does not fit another */
	cudaErrorMemoryAllocation = 2,            /* no memory left for the request */
	cudaErrorInitializationError = 3,         /* the driver could not be initialised, or fork() without exec() */
	cudaErrorCudartUnloading = 4,             /* the process is ending and the driver is gone */
	cudaErrorProfilerDisabled = 5,            /* the profiler is not active */
	cudaErrorProfilerNotInitialized = 6,      /* no longer used */
	cudaErrorProfilerAlreadyStarted = 7,      /* no longer used */
	cudaErrorProfilerAlreadyStopped = 8,      /* no longer used */
	cudaErrorInvalidConfiguration = 9,        /* grid or block that the device cannot run */
	cudaErrorInvalidPitchValue = 12,          /* pitch too small or too large */
	cudaErrorInvalidSymbol = 13,              /* no such variable on the device */
	cudaErrorInvalidHostPointer = 16,         /* no longer used */
	cudaErrorInvalidDevicePointer = 17,       /* no longer used */
	cudaErrorInvalidTexture = 18,             /* not a texture */
	cudaErrorInvalidTextureBinding = 19,      /* texture is not bound */
	cudaErrorInvalidChannelDescriptor = 20,   /* format that does not exist */
	cudaErrorInvalidMemcpyDirection = 21,     /* direction is not one of cudaMemcpyKind */
	cudaErrorAddressOfConstant = 22,          /* no longer used */
	cudaErrorTextureFetchFailed = 23,         /* no longer used */
	cudaErrorTextureNotBound = 24,            /* no longer used */
	cudaErrorSynchronizationError = 25,       /* no longer used */
	cudaErrorInvalidFilterSetting = 26,       /* texture filter that its format does not allow */
	cudaErrorInvalidNormSetting = 27,         /* texture normalisation that its format does not allow */
	cudaErrorMixedDeviceExecution = 28,       /* no longer used */
	cudaErrorNotYetImplemented = 31,          /* no longer used; see cudaErrorNotSupported */
	cudaErrorMemoryValueTooLarge = 32,        /* no longer used */
	cudaErrorStubLibrary = 34,                /* linked with a stub, no driver behind it */
	cudaErrorInsufficientDriver = 35,         /* the driver is older than the runtime */
	cudaErrorCallRequiresNewerDriver = 36,    /* the driver is too old for this call */
	cudaErrorInvalidSurface = 37,             /* not a surface */
	cudaErrorDuplicateVariableName = 43,      /* two device variables of one name */
	cudaErrorDuplicateTextureName = 44,       /* two textures of one name */
	cudaErrorDuplicateSurfaceName = 45,       /* two surfaces of one name */
	cudaErrorDevicesUnavailable = 46,         /* every device is busy or closed to this process */
	cudaErrorIncompatibleDriverContext = 49,  /* the current context cannot be used with the runtime */
	cudaErrorMissingConfiguration = 52,       /* launch without a configuration */
	cudaErrorPriorLaunchFailure = 53,         /* no longer used */
	cudaErrorLaunchMaxDepthExceeded = 65,     /* launches from the device nested too deep */
	cudaErrorLaunchFileScopedTex = 66,        /* launch from the device of a kernel with file-scope textures */
	cudaErrorLaunchFileScopedSurf = 67,       /* launch from the device of a kernel with file-scope surfaces */
	cudaErrorSyncDepthExceeded = 68,          /* waits on the device nested too deep */
	cudaErrorLaunchPendingCountExceeded = 69, /* too many launches pending on the device */
	cudaErrorInvalidDeviceFunction = 98,      /* not a kernel, or not one for this device */
	cudaErrorNoDevice = 100,                  /* there is no device */
	cudaErrorInvalidDevice = 101,             /* no device of this ordinal, or not fit for the request */
	cudaErrorDeviceNotLicensed = 102,         /* the device's licence is missing */
	cudaErrorSoftwareValidityNotEstablished = 103, /* the system's software could not prove itself */
	cudaErrorStartupFailure = 127,                 /* the runtime failed inside while it started */
	cudaErrorInvalidKernelImage = 200,             /* module that cannot be read */
	cudaErrorDeviceUninitialized = 201,            /* no context, or one that was destroyed */
	cudaErrorMapBufferObjectFailed = 205,          /* mapping failed */
	cudaErrorUnmapBufferObjectFailed = 206,        /* unmapping failed */
	cudaErrorArrayIsMapped = 207,                  /* array is mapped and must not be destroyed */
	cudaErrorAlreadyMapped = 208,                  /* mapped already */
	cudaErrorNoKernelImageForDevice = 209,         /* module without code for this device */
	cudaErrorAlreadyAcquired = 210,                /* acquired already */
	cudaErrorNotMapped = 211,                      /* not mapped */
	cudaErrorNotMappedAsArray = 212,               /* mapped, but not as an array */
	cudaErrorNotMappedAsPointer = 213,             /* mapped, but not as plain memory */
	cudaErrorECCUncorrectable = 214,               /* memory error that could not be corrected */
	cudaErrorUnsupportedLimit = 215,               /* the device does not have this limit */
	cudaErrorDeviceAlreadyInUse = 216,             /* the device is held exclusively by another thread */
	cudaErrorPeerAccessUnsupported = 217,          /* these two devices cannot reach each other */
	cudaErrorInvalidPtx = 218,                     /* PTX that does not compile */
	cudaErrorInvalidGraphicsContext = 219,         /* graphics context that cannot be used */
	cudaErrorNvlinkUncorrectable = 220,            /* NVLink error that could not be corrected */
	cudaErrorJitCompilerNotFound = 221,            /* PTX compiler is missing */
	cudaErrorUnsupportedPtxVersion = 222,          /* PTX newer than its compiler */
	cudaErrorJitCompilationDisabled = 223,         /* PTX compilation is switched off */
	cudaErrorUnsupportedExecAffinity = 224,        /* the device does not have this affinity */
	cudaErrorUnsupportedDevSideSync = 225,         /* PTX that waits on the device for what it launched */
	cudaErrorContained = 226,                      /* fault that stayed within this process; start it again */
	cudaErrorInvalidSource = 300,                  /* kernel source that cannot be used */
	cudaErrorFileNotFound = 301,                   /* no such file */
	cudaErrorSharedObjectSymbolNotFound = 302,     /* a shared object lacks a symbol */
	cudaErrorSharedObjectInitFailed = 303,         /* a shared object could not be started */
	cudaErrorOperatingSystem = 304,                /* a system call failed */
	cudaErrorInvalidResourceHandle = 400,          /* not a live stream, event or other handle */
	cudaErrorIllegalState = 401,                   /* what the call needs is not in a state for it */
	cudaErrorLossyQuery = 402,                     /* the answer would leave out what it cannot express */
	cudaErrorSymbolNotFound = 500,                 /* no such name */
	cudaErrorNotReady = 600,                       /* not finished yet; an answer, not a failure */
	cudaErrorIllegalAddress = 700,              /* a kernel touched memory it may not; the process must restart */
	cudaErrorLaunchOutOfResources = 701,        /* launch asks for more than the device has */
	cudaErrorLaunchTimeout = 702,               /* kernel ran too long; the process must restart */
	cudaErrorLaunchIncompatibleTexturing = 703, /* kernel's texture mode does not fit */
	cudaErrorPeerAccessAlreadyEnabled = 704,    /* peer access is on already */
	cudaErrorPeerAccessNotEnabled = 705,        /* peer access is not on */
	cudaErrorSetOnActiveProcess = 708,          /* too late: the device is in use */
	cudaErrorContextIsDestroyed = 709,          /* the current context was destroyed or is not ready */
	cudaErrorAssert = 710,                      /* an assertion failed on the device; the process must restart */
	cudaErrorTooManyPeers = 711,                /* no more peers possible */
	cudaErrorHostMemoryAlreadyRegistered = 712, /* page-locked already */
	cudaErrorHostMemoryNotRegistered = 713,     /* not page-locked by registration */
	cudaErrorHardwareStackError = 714,          /* kernel's stack broke; the process must restart */
	cudaErrorIllegalInstruction = 715,          /* kernel met an instruction that does not exist; restart */
	cudaErrorMisalignedAddress = 716,           /* kernel used a misaligned address; restart */
	cudaErrorInvalidAddressSpace = 717,         /* kernel used an address of the wrong kind; restart */
	cudaErrorInvalidPc = 718,                   /* kernel ran out of its code; restart */
	cudaErrorLaunchFailure = 719,               /* kernel failed; the process must restart */
	cudaErrorCooperativeLaunchTooLarge = 720,   /* cooperative launch that cannot be resident at once */
	cudaErrorTensorMemoryLeak = 721,            /* kernel left tensor memory behind; restart */
	cudaErrorNotPermitted = 800,                /* not allowed here, e.g. inside a callback */
	cudaErrorNotSupported = 801,                /* not supported by this system or device */
	cudaErrorSystemNotReady = 802,              /* the system cannot take work yet */
	cudaErrorSystemDriverMismatch = 803,        /* two parts of the driver are of different versions */
	cudaErrorCompatNotSupportedOnDevice = 804,  /* forward compatibility is not for this device */
	cudaErrorMpsConnectionFailed = 805,         /* MPS: cannot reach the control daemon or the server */
	cudaErrorMpsRpcFailure = 806,               /* MPS: request failed */
	cudaErrorMpsServerNotReady = 807,           /* MPS: server is busy with starting or recovery */
	cudaErrorMpsMaxClientsReached = 808,        /* MPS: no place for another client */
	cudaErrorMpsMaxConnectionsReached = 809,    /* MPS: no place for another connection */
	cudaErrorMpsClientTerminated = 810,         /* MPS: this client was ended by the server */
	cudaErrorCdpNotSupported = 811,             /* the device cannot launch from the device */
	cudaErrorCdpVersionMismatch = 812,          /* two versions of launching from the device in one program */
	cudaErrorStreamCaptureUnsupported = 900,    /* not possible while the stream captures */
	cudaErrorStreamCaptureInvalidated = 901,    /* the capture was broken by an earlier error */
	cudaErrorStreamCaptureMerge = 902,          /* two captures would become one */
	cudaErrorStreamCaptureUnmatched = 903,      /* capture was not begun on this stream */
	cudaErrorStreamCaptureUnjoined = 904,       /* capture has a branch that never came back */
	cudaErrorStreamCaptureIsolation = 905,      /* dependency that would leave the capture */
	cudaErrorStreamCaptureImplicit = 906,       /* the legacy stream would be drawn into the capture */
	cudaErrorCapturedEvent = 907,               /* the event was last recorded in a capture */
	cudaErrorStreamCaptureWrongThread = 908,    /* capture belongs to another thread */
	cudaErrorTimeout = 909,                     /* waited long enough */
	cudaErrorGraphExecUpdateFailure = 910,      /* graph cannot be updated in place */
	cudaErrorExternalDevice = 911,      /* another device or process failed; the stream has failed with it */
	cudaErrorInvalidClusterSize = 912,  /* cluster that the device cannot run */
	cudaErrorFunctionNotLoaded = 913,   /* function is not loaded */
	cudaErrorInvalidResourceType = 914, /* resource of the wrong type */
	cudaErrorInvalidResourceConfiguration = 915, /* resource that is not configured for this */
	cudaErrorUnknown = 999,                      /* failed inside */
	cudaErrorApiFailureBase = 10000              /* no longer used */
};
typedef enum cudaError cudaError_t;

/*
 * ---- Handles --------------------------------------------------------------------------------------------------------
 *
 * The tags are those of cuda.h. With Cenote a handle is a checked number, not an address: a stale or invented one is
 * answered with an error.
 */

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
typedef struct CUfunc_st *cudaFunction_t;
typedef struct CUkern_st *cudaKernel_t;
typedef struct CUlib_st *cudaLibrary_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUgraphDeviceUpdatableNode_st *cudaGraphDeviceNode_t;

struct cudaArray;
typedef struct cudaArray *cudaArray_t;
typedef const struct cudaArray *cudaArray_const_t;

#ifndef CU_UUID_HAS_BEEN_DEFINED
#define CU_UUID_HAS_BEEN_DEFINED
struct CUuuid_st {
	char bytes[16];
};
typedef struct CUuuid_st CUuuid;
#endif
typedef struct CUuuid_st cudaUUID_t;

/*
 * ---- Devices --------------------------------------------------------------------------------------------------------
 */

/* Which processes may use a device: cudaDevAttrComputeMode */
enum cudaComputeMode {
	cudaComputeModeDefault = 0,         /* all */
	cudaComputeModeExclusive = 1,       /* one thread of one process */
	cudaComputeModeProhibited = 2,      /* none */
	cudaComputeModeExclusiveProcess = 3 /* the threads of one process */
};

/* cudaDeviceGetLimit, cudaDeviceSetLimit: sizes in bytes unless said otherwise */
enum cudaLimit {
	cudaLimitStackSize = 0x00,                    /* stack of a kernel's thread */
	cudaLimitPrintfFifoSize = 0x01,               /* buffer of printf() in kernels */
	cudaLimitMallocHeapSize = 0x02,               /* heap of malloc() in kernels */
	cudaLimitDevRuntimeSyncDepth = 0x03,          /* depth of nested waits on the device */
	cudaLimitDevRuntimePendingLaunchCount = 0x04, /* number of launches that may be pending on the device */
	cudaLimitMaxL2FetchGranularity = 0x05, /* at most this much is fetched into L2 at once, 0 to 128; a hint */
	cudaLimitPersistingL2CacheSize = 0x06  /* L2 set aside for persisting accesses */
};

/* cudaDeviceGetCacheConfig, cudaDeviceSetCacheConfig: what the memory that L1 and shared memory divide is for */
enum cudaFuncCache {
	cudaFuncCachePreferNone = 0,   /* no wish */
	cudaFuncCachePreferShared = 1, /* more shared memory */
	cudaFuncCachePreferL1 = 2,     /* more L1 */
	cudaFuncCachePreferEqual = 3   /* half and half */
};

/* cudaDeviceGetSharedMemConfig() */
enum cudaSharedMemConfig {
	cudaSharedMemBankSizeDefault = 0,
	cudaSharedMemBankSizeFourByte = 1,
	cudaSharedMemBankSizeEightByte = 2
};

/* cudaDevAttrGPUDirectRDMAFlushWritesOptions, a bit mask */
enum cudaFlushGPUDirectRDMAWritesOptions {
	cudaFlushGPUDirectRDMAWritesOptionHost = 1 << 0,  /* the host can flush remote writes by a call */
	cudaFlushGPUDirectRDMAWritesOptionMemOps = 1 << 1 /* a stream can, with its memory operations */
};

/* cudaDevAttrGPUDirectRDMAWritesOrdering: which devices see remote writes without a flush */
enum cudaGPUDirectRDMAWritesOrdering {
	cudaGPUDirectRDMAWritesOrderingNone = 0,        /* none */
	cudaGPUDirectRDMAWritesOrderingOwner = 100,     /* the device they go to */
	cudaGPUDirectRDMAWritesOrderingAllDevices = 200 /* every device */
};

/* cudaDevAttrNumaConfig */
enum cudaDeviceNumaConfig {
	cudaDeviceNumaConfigNone = 0,    /* the device's memory is not a NUMA node */
	cudaDeviceNumaConfigNumaNode = 1 /* it is the node that cudaDevAttrNumaId names */
};

/* cudaDeviceGetAttribute: 0 or 1 where a question is asked */
enum cudaDeviceAttr {
	cudaDevAttrMaxThreadsPerBlock = 1,      /* threads in a block, at most */
	cudaDevAttrMaxBlockDimX = 2,            /* block's size in x, at most */
	cudaDevAttrMaxBlockDimY = 3,            /* in y */
	cudaDevAttrMaxBlockDimZ = 4,            /* in z */
	cudaDevAttrMaxGridDimX = 5,             /* grid's size in x, at most */
	cudaDevAttrMaxGridDimY = 6,             /* in y */
	cudaDevAttrMaxGridDimZ = 7,             /* in z */
	cudaDevAttrMaxSharedMemoryPerBlock = 8, /* shared memory of a block, bytes */
	cudaDevAttrTotalConstantMemory = 9,     /* constant memory, bytes */
	cudaDevAttrWarpSize = 10,               /* threads in a warp */
	cudaDevAttrMaxPitch = 11,               /* pitch of a copy, at most, bytes */
	cudaDevAttrMaxRegistersPerBlock = 12,   /* 32-bit registers of a block */
	cudaDevAttrClockRate = 13,              /* highest clock, kHz */
	cudaDevAttrTextureAlignment = 14,       /* alignment of textures, bytes */
	cudaDevAttrGpuOverlap = 15,             /* copies while a kernel runs? see AsyncEngineCount */
	cudaDevAttrMultiProcessorCount = 16,    /* multiprocessors */
	cudaDevAttrKernelExecTimeout = 17,      /* are kernels stopped when they run too long? */
	cudaDevAttrIntegrated = 18,             /* does it share the host's memory? */
	cudaDevAttrCanMapHostMemory = 19,       /* can it reach page-locked host memory? */
	cudaDevAttrComputeMode = 20,            /* enum cudaComputeMode */
	cudaDevAttrMaxTexture1DWidth = 21,      /* largest textures, in elements */
	cudaDevAttrMaxTexture2DWidth = 22,
	cudaDevAttrMaxTexture2DHeight = 23,
	cudaDevAttrMaxTexture3DWidth = 24,
	cudaDevAttrMaxTexture3DHeight = 25,
	cudaDevAttrMaxTexture3DDepth = 26,
	cudaDevAttrMaxTexture2DLayeredWidth = 27,
	cudaDevAttrMaxTexture2DLayeredHeight = 28,
	cudaDevAttrMaxTexture2DLayeredLayers = 29,
	cudaDevAttrSurfaceAlignment = 30,            /* alignment of surfaces, bytes */
	cudaDevAttrConcurrentKernels = 31,           /* can kernels run at the same time? */
	cudaDevAttrEccEnabled = 32,                  /* is its memory protected by ECC? */
	cudaDevAttrPciBusId = 33,                    /* PCI address: bus */
	cudaDevAttrPciDeviceId = 34,                 /* PCI address: device */
	cudaDevAttrTccDriver = 35,                   /* Windows: TCC driver? */
	cudaDevAttrMemoryClockRate = 36,             /* highest memory clock, kHz */
	cudaDevAttrGlobalMemoryBusWidth = 37,        /* width of the memory bus, bits */
	cudaDevAttrL2CacheSize = 38,                 /* L2, bytes */
	cudaDevAttrMaxThreadsPerMultiProcessor = 39, /* threads resident on a multiprocessor */
	cudaDevAttrAsyncEngineCount = 40,            /* copies that can run beside a kernel */
	cudaDevAttrUnifiedAddressing = 41,           /* one address space with the host? */
	cudaDevAttrMaxTexture1DLayeredWidth = 42,
	cudaDevAttrMaxTexture1DLayeredLayers = 43,
	cudaDevAttrMaxTexture2DGatherWidth = 45,
	cudaDevAttrMaxTexture2DGatherHeight = 46,
	cudaDevAttrMaxTexture3DWidthAlt = 47,
	cudaDevAttrMaxTexture3DHeightAlt = 48,
	cudaDevAttrMaxTexture3DDepthAlt = 49,
	cudaDevAttrPciDomainId = 50,           /* PCI address: domain */
	cudaDevAttrTexturePitchAlignment = 51, /* alignment of a texture's rows, bytes */
	cudaDevAttrMaxTextureCubemapWidth = 52,
	cudaDevAttrMaxTextureCubemapLayeredWidth = 53,
	cudaDevAttrMaxTextureCubemapLayeredLayers = 54,
	cudaDevAttrMaxSurface1DWidth = 55, /* largest surfaces, in elements */
	cudaDevAttrMaxSurface2DWidth = 56,
	cudaDevAttrMaxSurface2DHeight = 57,
	cudaDevAttrMaxSurface3DWidth = 58,
	cudaDevAttrMaxSurface3DHeight = 59,
	cudaDevAttrMaxSurface3DDepth = 60,
	cudaDevAttrMaxSurface1DLayeredWidth = 61,
	cudaDevAttrMaxSurface1DLayeredLayers = 62,
	cudaDevAttrMaxSurface2DLayeredWidth = 63,
	cudaDevAttrMaxSurface2DLayeredHeight = 64,
	cudaDevAttrMaxSurface2DLayeredLayers = 65,
	cudaDevAttrMaxSurfaceCubemapWidth = 66,
	cudaDevAttrMaxSurfaceCubemapLayeredWidth = 67,
	cudaDevAttrMaxSurfaceCubemapLayeredLayers = 68,
	cudaDevAttrMaxTexture1DLinearWidth = 69,
	cudaDevAttrMaxTexture2DLinearWidth = 70,
	cudaDevAttrMaxTexture2DLinearHeight = 71,
	cudaDevAttrMaxTexture2DLinearPitch = 72,
	cudaDevAttrMaxTexture2DMipmappedWidth = 73,
	cudaDevAttrMaxTexture2DMipmappedHeight = 74,
	cudaDevAttrComputeCapabilityMajor = 75, /* compute capability, first number */
	cudaDevAttrComputeCapabilityMinor = 76, /* second number */
	cudaDevAttrMaxTexture1DMipmappedWidth = 77,
	cudaDevAttrStreamPrioritiesSupported = 78,        /* do priorities of streams have an effect? */
	cudaDevAttrGlobalL1CacheSupported = 79,           /* are globals cached in L1? */
	cudaDevAttrLocalL1CacheSupported = 80,            /* are locals? */
	cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81, /* shared memory of a multiprocessor, bytes */
	cudaDevAttrMaxRegistersPerMultiprocessor = 82,    /* 32-bit registers of a multiprocessor */
	cudaDevAttrManagedMemory = 83,                    /* can it have managed memory? */
	cudaDevAttrIsMultiGpuBoard = 84,                  /* does it share its board with others? */
	cudaDevAttrMultiGpuBoardGroupID = 85,             /* number of that board */
	cudaDevAttrHostNativeAtomicSupported = 86,        /* do atomics work over the link to the host? */
	cudaDevAttrSingleToDoublePrecisionPerfRatio = 87, /* how many times faster is single precision */
	cudaDevAttrPageableMemoryAccess = 88,             /* can it use the host's ordinary memory? */
	cudaDevAttrConcurrentManagedAccess = 89,          /* may host and device use managed memory at the same time? */
	cudaDevAttrComputePreemptionSupported = 90,       /* can a kernel be interrupted? */
	cudaDevAttrCanUseHostPointerForRegisteredMem = 91, /* is registered memory at the host's address for it? */
	cudaDevAttrReserved92 = 92,
	cudaDevAttrReserved93 = 93,
	cudaDevAttrReserved94 = 94,
	cudaDevAttrCooperativeLaunch = 95, /* cooperative launches? */
	cudaDevAttrReserved96 = 96,
	cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,            /* shared memory of a block when asked for, bytes */
	cudaDevAttrCanFlushRemoteWrites = 98,                    /* can remote writes be flushed? */
	cudaDevAttrHostRegisterSupported = 99,                   /* cudaHostRegister()? */
	cudaDevAttrPageableMemoryAccessUsesHostPageTables = 100, /* does it walk the host's page tables? */
	cudaDevAttrDirectManagedMemAccessFromHost = 101, /* can the host use managed memory where it lies on it? */
	cudaDevAttrMaxBlocksPerMultiprocessor = 106,     /* blocks resident on a multiprocessor */
	cudaDevAttrMaxPersistingL2CacheSize = 108,       /* L2 for persisting accesses, at most, bytes */
	cudaDevAttrMaxAccessPolicyWindowSize = 109,      /* cudaAccessPolicyWindow::num_bytes, at most */
	cudaDevAttrReservedSharedMemoryPerBlock = 111,   /* shared memory of a block that is not the kernel's, bytes */
	cudaDevAttrSparseCudaArraySupported = 112,       /* sparse arrays? */
	cudaDevAttrHostRegisterReadOnlySupported = 113,  /* cudaHostRegisterReadOnly? */
	cudaDevAttrTimelineSemaphoreInteropSupported = 114, /* external timeline semaphores? */
	cudaDevAttrMemoryPoolsSupported = 115,              /* memory pools and cudaMallocAsync()? */
	cudaDevAttrGPUDirectRDMASupported = 116,            /* can other PCI devices reach its memory? */
	cudaDevAttrGPUDirectRDMAFlushWritesOptions = 117,   /* enum cudaFlushGPUDirectRDMAWritesOptions, bits */
	cudaDevAttrGPUDirectRDMAWritesOrdering = 118,       /* enum cudaGPUDirectRDMAWritesOrdering */
	cudaDevAttrMemoryPoolSupportedHandleTypes =
		119,                    /* enum cudaMemAllocationHandleType, bits: how pools are shared */
	cudaDevAttrClusterLaunch = 120, /* launches in clusters? */
	cudaDevAttrDeferredMappingCudaArraySupported = 121, /* arrays mapped later? */
	cudaDevAttrReserved122 = 122,
	cudaDevAttrReserved123 = 123,
	cudaDevAttrReserved124 = 124,
	cudaDevAttrIpcEventSupport = 125,    /* events shared between processes, and legacy IPC handles? */
	cudaDevAttrMemSyncDomainCount = 126, /* memory synchronisation domains */
	cudaDevAttrReserved127 = 127,
	cudaDevAttrReserved128 = 128,
	cudaDevAttrReserved129 = 129,
	cudaDevAttrNumaConfig = 130, /* enum cudaDeviceNumaConfig */
	cudaDevAttrNumaId = 131,     /* NUMA node of its memory */
	cudaDevAttrReserved132 = 132,
	cudaDevAttrMpsEnabled = 133,         /* are its contexts shared through MPS? */
	cudaDevAttrHostNumaId = 134,         /* nearest NUMA node of the host, -1 when there are none */
	cudaDevAttrD3D12CigSupported = 135,  /* contexts inside D3D12? */
	cudaDevAttrVulkanCigSupported = 138, /* contexts inside Vulkan? */
	cudaDevAttrGpuPciDeviceId = 139,     /* PCI device and vendor, 16 bits each */
	cudaDevAttrGpuPciSubsystemId = 140,  /* PCI subsystem and its vendor, 16 bits each */
	cudaDevAttrReserved141 = 141,
	cudaDevAttrHostNumaMemoryPoolsSupported = 142,  /* pools on a NUMA node of the host? */
	cudaDevAttrHostNumaMultinodeIpcSupported = 143, /* and shared between nodes of a system? */
	cudaDevAttrHostMemoryPoolsSupported = 144,      /* pools in host memory? */
	cudaDevAttrReserved145 = 145,
	cudaDevAttrOnlyPartialHostNativeAtomicSupported = 147, /* only some atomics over the link to the host? */
	cudaDevAttrMax                                         /* one more than the last */
};

/* cudaDeviceGetP2PAttribute */
enum cudaDeviceP2PAttr {
	cudaDevP2PAttrPerformanceRank = 1,                 /* rank of the link; 0 is the fastest */
	cudaDevP2PAttrAccessSupported = 2,                 /* can one reach the other's memory? */
	cudaDevP2PAttrNativeAtomicSupported = 3,           /* all atomics over the link? */
	cudaDevP2PAttrCudaArrayAccessSupported = 4,        /* arrays over the link? */
	cudaDevP2PAttrOnlyPartialNativeAtomicSupported = 5 /* some atomics over the link? */
};

/* cudaGetDeviceProperties. Sizes are bytes; a question is 0 or 1. Most members are also device attributes. */
struct cudaDeviceProp {
	char name[256];                  /* for people */
	cudaUUID_t uuid;                 /* the same in every process */
	char luid[8];                    /* Windows alone; zeros on Linux */
	unsigned int luidDeviceNodeMask; /* Windows alone */
	size_t totalGlobalMem;           /* the device's memory */
	size_t sharedMemPerBlock;        /* shared memory of a block */
	int regsPerBlock;                /* 32-bit registers of a block */
	int warpSize;                    /* threads in a warp */
	size_t memPitch;                 /* pitch of a copy, at most */
	int maxThreadsPerBlock;          /* threads in a block, at most */
	int maxThreadsDim[3];            /* a block's x, y, z, at most */
	int maxGridSize[3];              /* a grid's x, y, z, at most */
	size_t totalConstMem;            /* constant memory */
	int major;                       /* compute capability, first number */
	int minor;                       /* second number */
	size_t textureAlignment;         /* alignment of textures */
	size_t texturePitchAlignment;    /* alignment of a texture's rows */
	int multiProcessorCount;         /* multiprocessors */
	int integrated;                  /* shares the host's memory? */
	int canMapHostMemory;            /* can reach page-locked host memory? */
	int maxTexture1D;                /* largest textures, in elements; arrays are width, height, depth */
	int maxTexture1DMipmap;
	int maxTexture2D[2];
	int maxTexture2DMipmap[2];
	int maxTexture2DLinear[3]; /* width, height, pitch */
	int maxTexture2DGather[2];
	int maxTexture3D[3];
	int maxTexture3DAlt[3];
	int maxTextureCubemap;
	int maxTexture1DLayered[2]; /* the last of a layered one is the number of layers */
	int maxTexture2DLayered[3];
	int maxTextureCubemapLayered[2];
	int maxSurface1D; /* largest surfaces, likewise */
	int maxSurface2D[2];
	int maxSurface3D[3];
	int maxSurface1DLayered[2];
	int maxSurface2DLayered[3];
	int maxSurfaceCubemap;
	int maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment; /* alignment of surfaces */
	int concurrentKernels;   /* kernels at the same time? */
	int ECCEnabled;          /* memory protected by ECC? */
	int pciBusID;            /* PCI address */
	int pciDeviceID;
	int pciDomainID;
	int tccDriver;                                /* Windows: TCC driver? */
	int asyncEngineCount;                         /* copies that can run beside a kernel */
	int unifiedAddressing;                        /* one address space with the host? */
	int memoryBusWidth;                           /* bits */
	int l2CacheSize;                              /* L2 */
	int persistingL2CacheMaxSize;                 /* L2 for persisting accesses, at most */
	int maxThreadsPerMultiProcessor;              /* threads resident on a multiprocessor */
	int streamPrioritiesSupported;                /* do priorities of streams have an effect? */
	int globalL1CacheSupported;                   /* globals cached in L1? */
	int localL1CacheSupported;                    /* locals cached in L1? */
	size_t sharedMemPerMultiprocessor;            /* shared memory of a multiprocessor */
	int regsPerMultiprocessor;                    /* 32-bit registers of a multiprocessor */
	int managedMemory;                            /* can it have managed memory? */
	int isMultiGpuBoard;                          /* shares its board with others? */
	int multiGpuBoardGroupID;                     /* number of that board */
	int hostNativeAtomicSupported;                /* atomics over the link to the host? */
	int pageableMemoryAccess;                     /* can use the host's ordinary memory? */
	int concurrentManagedAccess;                  /* managed memory with the host at the same time? */
	int computePreemptionSupported;               /* can a kernel be interrupted? */
	int canUseHostPointerForRegisteredMem;        /* registered memory at the host's address? */
	int cooperativeLaunch;                        /* cooperative launches? */
	size_t sharedMemPerBlockOptin;                /* shared memory of a block when asked for */
	int pageableMemoryAccessUsesHostPageTables;   /* walks the host's page tables? */
	int directManagedMemAccessFromHost;           /* can the host use managed memory where it lies on it? */
	int maxBlocksPerMultiProcessor;               /* blocks resident on a multiprocessor */
	int accessPolicyMaxWindowSize;                /* cudaAccessPolicyWindow::num_bytes, at most */
	size_t reservedSharedMemPerBlock;             /* shared memory of a block that is not the kernel's */
	int hostRegisterSupported;                    /* cudaHostRegister()? */
	int sparseCudaArraySupported;                 /* sparse arrays? */
	int hostRegisterReadOnlySupported;            /* cudaHostRegisterReadOnly? */
	int timelineSemaphoreInteropSupported;        /* external timeline semaphores? */
	int memoryPoolsSupported;                     /* memory pools and cudaMallocAsync()? */
	int gpuDirectRDMASupported;                   /* can other PCI devices reach its memory? */
	unsigned int gpuDirectRDMAFlushWritesOptions; /* enum cudaFlushGPUDirectRDMAWritesOptions, bits */
	int gpuDirectRDMAWritesOrdering;              /* enum cudaGPUDirectRDMAWritesOrdering */
	unsigned int memoryPoolSupportedHandleTypes;  /* enum cudaMemAllocationHandleType, bits */
	int deferredMappingCudaArraySupported;        /* arrays mapped later? */
	int ipcEventSupported;                        /* events shared between processes? */
	int clusterLaunch;                            /* launches in clusters? */
	int unifiedFunctionPointers;                  /* one kind of function pointer for host and device? */
	int deviceNumaConfig;                         /* enum cudaDeviceNumaConfig */
	int deviceNumaId;                             /* NUMA node of its memory */
	int mpsEnabled;                               /* contexts shared through MPS? */
	int hostNumaId;                               /* nearest NUMA node of the host, -1 when there are none */
	unsigned int gpuPciDeviceID;                  /* PCI device and vendor, 16 bits each */
	unsigned int gpuPciSubsystemID;               /* PCI subsystem and its vendor, 16 bits each */
	int hostNumaMultinodeIpcSupported;            /* NUMA-node pools shared between nodes of a system? */
	int reserved[56];                             /* zeros */
};

/*
 * ---- Memory ---------------------------------------------------------------------------------------------------------
 */

enum cudaMemoryType {
	cudaMemoryTypeUnregistered = 0, /* the library does not know it */
	cudaMemoryTypeHost = 1,         /* page-locked host memory */
	cudaMemoryTypeDevice = 2,       /* a device's */
	cudaMemoryTypeManaged = 3       /* managed: host's and devices' */
};

/* cudaPointerGetAttributes */
struct cudaPointerAttributes {
	enum cudaMemoryType type; /* what it points to */
	int device;               /* whose memory it is; host memory: the device that was current then; -2: none */
	void *devicePointer;      /* the current device's address of it, NULL when there is none */
	void *hostPointer;        /* the host's address of it, NULL when there is none */
	long reserved[8];         /* zeros */
};

enum cudaMemLocationType {
	cudaMemLocationTypeInvalid = 0,
	cudaMemLocationTypeNone = 0,           /* no preferred place: managed pools */
	cudaMemLocationTypeDevice = 1,         /* id is the device's ordinal */
	cudaMemLocationTypeHost = 2,           /* id means nothing */
	cudaMemLocationTypeHostNuma = 3,       /* id is a NUMA node */
	cudaMemLocationTypeHostNumaCurrent = 4 /* the node nearest to the calling thread; id means nothing */
};

struct cudaMemLocation {
	enum cudaMemLocationType type;
	int id; /* of a device or node, by `type` */
};

/* cudaMemAdvise */
enum cudaMemoryAdvise {
	cudaMemAdviseSetReadMostly = 1,          /* will be read often and written rarely */
	cudaMemAdviseUnsetReadMostly = 2,        /* takes that back */
	cudaMemAdviseSetPreferredLocation = 3,   /* should stay at the location given */
	cudaMemAdviseUnsetPreferredLocation = 4, /* takes that back */
	cudaMemAdviseSetAccessedBy = 5,          /* will be used from the location given: keep it mapped there */
	cudaMemAdviseUnsetAccessedBy = 6         /* takes that back */
};

/* cudaMemRangeGetAttribute: an int unless said otherwise */
enum cudaMemRangeAttribute {
	cudaMemRangeAttributeReadMostly = 1,               /* 1 when all of the range is read-mostly */
	cudaMemRangeAttributePreferredLocation = 2,        /* device, cudaCpuDeviceId or cudaInvalidDeviceId */
	cudaMemRangeAttributeAccessedBy = 3,               /* ints: the devices; the rest cudaInvalidDeviceId */
	cudaMemRangeAttributeLastPrefetchLocation = 4,     /* device, cudaCpuDeviceId or cudaInvalidDeviceId */
	cudaMemRangeAttributePreferredLocationType = 5,    /* enum cudaMemLocationType */
	cudaMemRangeAttributePreferredLocationId = 6,      /* the id that goes with it */
	cudaMemRangeAttributeLastPrefetchLocationType = 7, /* enum cudaMemLocationType */
	cudaMemRangeAttributeLastPrefetchLocationId = 8    /* the id that goes with it */
};

/*
 * ---- Copies ---------------------------------------------------------------------------------------------------------
 */

enum cudaMemcpyKind {
	cudaMemcpyHostToHost = 0,
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3,
	cudaMemcpyDefault = 4 /* the pointers say it; needs unified addressing */
};

struct cudaPitchedPtr {
	void *ptr;    /* first byte */
	size_t pitch; /* bytes from one row to the next */
	size_t xsize; /* elements in a row that are used */
	size_t ysize; /* rows in a layer */
};

struct cudaExtent {
	size_t width;  /* bytes between plain pointers, elements when an array takes part */
	size_t height; /* rows */
	size_t depth;  /* layers */
};

struct cudaPos {
	size_t x; /* bytes or elements, as cudaExtent::width */
	size_t y;
	size_t z;
};

/* cudaMemcpy3D, cudaMemcpy3DAsync: on each side either the array or the pointer is set */
struct cudaMemcpy3DParms {
	cudaArray_t srcArray;
	struct cudaPos srcPos;
	struct cudaPitchedPtr srcPtr;
	cudaArray_t dstArray;
	struct cudaPos dstPos;
	struct cudaPitchedPtr dstPtr;
	struct cudaExtent extent;
	enum cudaMemcpyKind kind;
};

/*
 * ---- Pools ----------------------------------------------------------------------------------------------------------
 */

/* cudaMemPoolGetAttribute, cudaMemPoolSetAttribute: the first three are ints, the others 64-bit unsigned, in bytes */
enum cudaMemPoolAttr {
	cudaMemPoolReuseFollowEventDependencies = 0x1, /* reuse what a stream freed that this one waits on; default 1 */
	cudaMemPoolReuseAllowOpportunistic = 0x2,      /* reuse what happens to be freed already; default 1 */
	cudaMemPoolReuseAllowInternalDependencies = 0x3, /* make this stream wait for a free, to reuse it; default 1 */
	cudaMemPoolAttrReleaseThreshold = 0x4,           /* keep this much unused at a synchronisation; default 0 */
	cudaMemPoolAttrReservedMemCurrent = 0x5,         /* read only: taken from the system now */
	cudaMemPoolAttrReservedMemHigh = 0x6,            /* highest of that; can be set to 0 */
	cudaMemPoolAttrUsedMemCurrent = 0x7,             /* read only: allocated from the pool now */
	cudaMemPoolAttrUsedMemHigh = 0x8                 /* highest of that; can be set to 0 */
};

enum cudaMemAccessFlags {
	cudaMemAccessFlagsProtNone = 0,     /* not at all */
	cudaMemAccessFlagsProtRead = 1,     /* for reading */
	cudaMemAccessFlagsProtReadWrite = 3 /* for reading and writing */
};

/* cudaMemPoolSetAccess: which location may do what */
struct cudaMemAccessDesc {
	struct cudaMemLocation location;
	enum cudaMemAccessFlags flags;
};

enum cudaMemAllocationType {
	cudaMemAllocationTypeInvalid = 0x0,
	cudaMemAllocationTypePinned = 0x1,  /* stays where it is */
	cudaMemAllocationTypeManaged = 0x2, /* moves to where it is used */
	cudaMemAllocationTypeMax = 0x7FFFFFFF
};

/* How a pool is given to another process; bits, so that several can be asked for */
enum cudaMemAllocationHandleType {
	cudaMemHandleTypeNone = 0x0,                /* not at all */
	cudaMemHandleTypePosixFileDescriptor = 0x1, /* an int: a file descriptor, sent over a Unix socket */
	cudaMemHandleTypeWin32 = 0x2,               /* Windows alone */
	cudaMemHandleTypeWin32Kmt = 0x4,            /* Windows alone */
	cudaMemHandleTypeFabric = 0x8               /* a cudaMemFabricHandle_t, sent by any means */
};

#define cudaMemPoolCreateUsageHwDecompress 0x2 /* cudaMemPoolProps::usage: for hardware decompression */

/* cudaMemPoolCreate: set to zeros first */
struct cudaMemPoolProps {
	enum cudaMemAllocationType allocType;         /* cudaMemAllocationTypePinned, or …Managed */
	enum cudaMemAllocationHandleType handleTypes; /* bits: how the pool can be shared */
	struct cudaMemLocation location;              /* where its memory is */
	void *win32SecurityAttributes;                /* Windows alone; NULL */
	size_t maxSize;                               /* bytes, at most; 0: as much as the system allows */
	unsigned short usage;                         /* cudaMemPoolCreateUsage…, or 0 */
	unsigned char reserved[54];                   /* zeros */
};

/* cudaMemPoolExportPointer: plain bytes, sent by any means; of use only to importers of the pool */
struct cudaMemPoolPtrExportData {
	unsigned char reserved[64];
};

/*
 * ---- IPC ------------------------------------------------------------------------------------------------------------
 */

#define CUDA_IPC_HANDLE_SIZE 64

typedef struct cudaIpcEventHandle_st {
	char reserved[CUDA_IPC_HANDLE_SIZE];
} cudaIpcEventHandle_t;

typedef struct cudaIpcMemHandle_st {
	char reserved[CUDA_IPC_HANDLE_SIZE];
} cudaIpcMemHandle_t;

typedef struct cudaMemFabricHandle_st {
	char reserved[CUDA_IPC_HANDLE_SIZE];
} cudaMemFabricHandle_t;

/*
 * ---- Streams and capture --------------------------------------------------------------------------------------------
 */

#define CUDART_CB

/* A function of the host that a stream calls: cudaLaunchHostFunc() */
typedef void(CUDART_CB *cudaHostFn_t)(void *userData);

enum cudaStreamCaptureStatus {
	cudaStreamCaptureStatusNone = 0,       /* does not capture */
	cudaStreamCaptureStatusActive = 1,     /* captures */
	cudaStreamCaptureStatusInvalidated = 2 /* its capture is broken and has yet to be ended */
};

/* Which calls are refused while a stream captures */
enum cudaStreamCaptureMode {
	cudaStreamCaptureModeGlobal = 0, /* unsafe calls: in this thread, and in others where a capture is global */
	cudaStreamCaptureModeThreadLocal = 1, /* unsafe calls in the thread that captures */
	cudaStreamCaptureModeRelaxed = 2      /* none */
};

/* cudaGraphEdgeData::type */
typedef enum cudaGraphDependencyType_enum {
	cudaGraphDependencyTypeDefault = 0,     /* the one after begins when the one before has ended */
	cudaGraphDependencyTypeProgrammatic = 1 /* the kernel before says when */
} cudaGraphDependencyType;

/* What an edge between two nodes says beyond their order; zeros: nothing */
typedef struct cudaGraphEdgeData_st {
	unsigned char from_port;   /* what of the node before counts; for kernels cudaGraphKernelNodePort… */
	unsigned char to_port;     /* what of the node after waits; 0: all of it */
	unsigned char type;        /* enum cudaGraphDependencyType */
	unsigned char reserved[5]; /* zeros */
} cudaGraphEdgeData;

#define cudaGraphKernelNodePortDefault          0 /* the kernel has ended */
#define cudaGraphKernelNodePortProgrammatic     1 /* all its blocks have given the signal, or ended */
#define cudaGraphKernelNodePortLaunchCompletion 2 /* all its blocks have begun */

/*
 * ---- Launches -------------------------------------------------------------------------------------------------------
 */

/* What should happen in L2 to an access */
enum cudaAccessProperty {
	cudaAccessPropertyNormal = 0,
	cudaAccessPropertyStreaming = 1, /* leaves the cache early */
	cudaAccessPropertyPersisting = 2 /* stays in the cache */
};

struct cudaAccessPolicyWindow {
	void *base_ptr;                   /* the range */
	size_t num_bytes;                 /* cudaDevAttrMaxAccessPolicyWindowSize at most */
	float hitRatio;                   /* part of the range's accesses, 0 to 1, that get hitProp */
	enum cudaAccessProperty hitProp;  /* for those */
	enum cudaAccessProperty missProp; /* for the others; not persisting */
};

/* How the host waits for a stream */
enum cudaSynchronizationPolicy {
	cudaSyncPolicyAuto = 1,
	cudaSyncPolicySpin = 2,
	cudaSyncPolicyYield = 3,
	cudaSyncPolicyBlockingSync = 4
};

/* How a cluster's blocks are put on multiprocessors */
enum cudaClusterSchedulingPolicy {
	cudaClusterSchedulingPolicyDefault = 0,
	cudaClusterSchedulingPolicySpread = 1,       /* as far apart as possible */
	cudaClusterSchedulingPolicyLoadBalancing = 2 /* where there is room */
};

typedef enum cudaLaunchMemSyncDomain {
	cudaLaunchMemSyncDomainDefault = 0,
	cudaLaunchMemSyncDomainRemote = 1
} cudaLaunchMemSyncDomain;

/* Which of the device's domains the two names above mean */
typedef struct cudaLaunchMemSyncDomainMap_st {
	unsigned char default_;
	unsigned char remote;
} cudaLaunchMemSyncDomainMap;

/* Which member of cudaLaunchAttributeValue counts */
typedef enum cudaLaunchAttributeID {
	cudaLaunchAttributeIgnore = 0,                            /* none */
	cudaLaunchAttributeAccessPolicyWindow = 1,                /* accessPolicyWindow */
	cudaLaunchAttributeCooperative = 2,                       /* cooperative */
	cudaLaunchAttributeSynchronizationPolicy = 3,             /* syncPolicy; of streams */
	cudaLaunchAttributeClusterDimension = 4,                  /* clusterDim */
	cudaLaunchAttributeClusterSchedulingPolicyPreference = 5, /* clusterSchedulingPolicyPreference */
	cudaLaunchAttributeProgrammaticStreamSerialization = 6,   /* programmaticStreamSerializationAllowed */
	cudaLaunchAttributeProgrammaticEvent = 7,                 /* programmaticEvent */
	cudaLaunchAttributePriority = 8,                          /* priority */
	cudaLaunchAttributeMemSyncDomainMap = 9,                  /* memSyncDomainMap */
	cudaLaunchAttributeMemSyncDomain = 10,                    /* memSyncDomain */
	cudaLaunchAttributePreferredClusterDimension = 11,        /* preferredClusterDim */
	cudaLaunchAttributeLaunchCompletionEvent = 12,            /* launchCompletionEvent */
	cudaLaunchAttributeDeviceUpdatableKernelNode = 13,        /* deviceUpdatableKernelNode */
	cudaLaunchAttributePreferredSharedMemoryCarveout = 14,    /* sharedMemCarveout */
	cudaLaunchAttributeNvlinkUtilCentricScheduling = 16       /* nvlinkUtilCentricScheduling */
} cudaLaunchAttributeID;

typedef union cudaLaunchAttributeValue {
	char pad[64];
	struct cudaAccessPolicyWindow accessPolicyWindow;
	int cooperative;                           /* not 0: blocks may wait for one another */
	enum cudaSynchronizationPolicy syncPolicy; /* how the host waits for the stream */
	struct {
		unsigned int x;
		unsigned int y;
		unsigned int z;
	} clusterDim; /* blocks of a cluster; each divides the grid's */
	enum cudaClusterSchedulingPolicy clusterSchedulingPolicyPreference;
	int programmaticStreamSerializationAllowed; /* not 0: may begin before the kernel before it has ended */
	struct {
		cudaEvent_t event;       /* recorded when all blocks have given the signal; without timing */
		int flags;               /* as cudaEventRecordWithFlags() */
		int triggerAtBlockStart; /* not 0: a block gives the signal when it begins */
	} programmaticEvent;
	int priority; /* of the kernel */
	cudaLaunchMemSyncDomainMap memSyncDomainMap;
	cudaLaunchMemSyncDomain memSyncDomain;
	struct {
		unsigned int x;
		unsigned int y;
		unsigned int z;
	} preferredClusterDim; /* multiples of clusterDim, used where they fit */
	struct {
		cudaEvent_t event; /* recorded when all blocks have begun; without timing */
		int flags;         /* as cudaEventRecordWithFlags() */
	} launchCompletionEvent;
	struct {
		int deviceUpdatable;           /* not 0: the node can be changed from the device */
		cudaGraphDeviceNode_t devNode; /* out: its handle there */
	} deviceUpdatableKernelNode;
	unsigned int sharedMemCarveout;           /* percent of shared memory, a wish */
	unsigned int nvlinkUtilCentricScheduling; /* not 0: schedule for the use of NVLink */
} cudaLaunchAttributeValue;

typedef struct cudaLaunchAttribute_st {
	cudaLaunchAttributeID id;
	char pad[8 - sizeof(cudaLaunchAttributeID)];
	cudaLaunchAttributeValue val;
} cudaLaunchAttribute;

/* cudaLaunchKernelExC */
typedef struct cudaLaunchConfig_st {
	dim3 gridDim;
	dim3 blockDim;
	size_t dynamicSmemBytes; /* shared memory of a block beside what the kernel declares */
	cudaStream_t stream;
	cudaLaunchAttribute *attrs; /* may be NULL when numAttrs is 0 */
	unsigned int numAttrs;
} cudaLaunchConfig_t;

/* Attributes of streams and of kernel nodes are attributes of launches, by other names. */
#define cudaStreamAttrID                                         cudaLaunchAttributeID
#define cudaStreamAttrValue                                      cudaLaunchAttributeValue
#define cudaStreamAttributeAccessPolicyWindow                    cudaLaunchAttributeAccessPolicyWindow
#define cudaStreamAttributeSynchronizationPolicy                 cudaLaunchAttributeSynchronizationPolicy
#define cudaStreamAttributeMemSyncDomainMap                      cudaLaunchAttributeMemSyncDomainMap
#define cudaStreamAttributeMemSyncDomain                         cudaLaunchAttributeMemSyncDomain
#define cudaStreamAttributePriority                              cudaLaunchAttributePriority
#define cudaKernelNodeAttrID                                     cudaLaunchAttributeID
#define cudaKernelNodeAttrValue                                  cudaLaunchAttributeValue
#define cudaKernelNodeAttributeAccessPolicyWindow                cudaLaunchAttributeAccessPolicyWindow
#define cudaKernelNodeAttributeCooperative                       cudaLaunchAttributeCooperative
#define cudaKernelNodeAttributePriority                          cudaLaunchAttributePriority
#define cudaKernelNodeAttributeClusterDimension                  cudaLaunchAttributeClusterDimension
#define cudaKernelNodeAttributeClusterSchedulingPolicyPreference cudaLaunchAttributeClusterSchedulingPolicyPreference
#define cudaKernelNodeAttributeMemSyncDomainMap                  cudaLaunchAttributeMemSyncDomainMap
#define cudaKernelNodeAttributeMemSyncDomain                     cudaLaunchAttributeMemSyncDomain
#define cudaKernelNodeAttributePreferredSharedMemoryCarveout     cudaLaunchAttributePreferredSharedMemoryCarveout
#define cudaKernelNodeAttributeDeviceUpdatableKernelNode         cudaLaunchAttributeDeviceUpdatableKernelNode
#define cudaKernelNodeAttributeNvlinkUtilCentricScheduling       cudaLaunchAttributeNvlinkUtilCentricScheduling

/* cudaFuncGetAttributes */
struct cudaFuncAttributes {
	size_t sharedSizeBytes;        /* shared memory that a block needs, without dynamic */
	size_t constSizeBytes;         /* constants of its own */
	size_t localSizeBytes;         /* local memory of a thread */
	int maxThreadsPerBlock;        /* threads in a block, at most */
	int numRegs;                   /* registers of a thread */
	int ptxVersion;                /* 10 × major + minor of its PTX */
	int binaryVersion;             /* the same of its machine code */
	int cacheModeCA;               /* compiled to cache globals in L1? */
	int maxDynamicSharedSizeBytes; /* dynamic shared memory, at most */
	int preferredShmemCarveout;    /* percent of shared memory, -1: no wish */
	int clusterDimMustBeSet;       /* can be launched in clusters alone? */
	int requiredClusterWidth;      /* cluster that it must have; 0: any */
	int requiredClusterHeight;
	int requiredClusterDepth;
	int clusterSchedulingPolicyPreference; /* enum cudaClusterSchedulingPolicy */
	int nonPortableClusterSizeAllowed;     /* clusters that other devices may not run? */
	int reserved[16];                      /* zeros */
};

/* How cudaLibraryLoadData() compiles; those of cuda.h. */
enum cudaJitOption {
	cudaJitMaxRegisters = 0,
	cudaJitThreadsPerBlock = 1,
	cudaJitWallTime = 2,
	cudaJitInfoLogBuffer = 3,
	cudaJitInfoLogBufferSizeBytes = 4,
	cudaJitErrorLogBuffer = 5,
	cudaJitErrorLogBufferSizeBytes = 6,
	cudaJitOptimizationLevel = 7,
	cudaJitFallbackStrategy = 10,
	cudaJitGenerateDebugInfo = 11,
	cudaJitLogVerbose = 12,
	cudaJitGenerateLineInfo = 13,
	cudaJitCacheMode = 14,
	cudaJitPositionIndependentCode = 30,
	cudaJitMinCtaPerSm = 31,
	cudaJitMaxThreadsPerBlock = 32,
	cudaJitOverrideDirectiveValues = 33
};

enum cudaLibraryOption {
	cudaLibraryHostUniversalFunctionAndDataTable = 0,
	cudaLibraryBinaryIsPreserved = 1 /* the code stays where it is until unloaded */
};

/* cudaFuncSetAttribute */
enum cudaFuncAttribute {
	cudaFuncAttributeMaxDynamicSharedMemorySize = 8,    /* bytes of dynamic shared memory, at most */
	cudaFuncAttributePreferredSharedMemoryCarveout = 9, /* percent of shared memory, or enum cudaSharedCarveout */
	cudaFuncAttributeClusterDimMustBeSet = 10,          /* read only */
	cudaFuncAttributeRequiredClusterWidth = 11,         /* all three positive, or all three 0 */
	cudaFuncAttributeRequiredClusterHeight = 12,
	cudaFuncAttributeRequiredClusterDepth = 13,
	cudaFuncAttributeNonPortableClusterSizeAllowed = 14,     /* 0 or 1 */
	cudaFuncAttributeClusterSchedulingPolicyPreference = 15, /* enum cudaClusterSchedulingPolicy */
	cudaFuncAttributeMax                                     /* one more than the last */
};

enum cudaSharedCarveout {
	cudaSharedmemCarveoutDefault = -1,    /* no wish */
	cudaSharedmemCarveoutMaxShared = 100, /* as much shared memory as there is */
	cudaSharedmemCarveoutMaxL1 = 0        /* as much L1 as there is */
};

/*
 * ---- Entry points ---------------------------------------------------------------------------------------------------
 */

enum cudaGetDriverEntryPointFlags {
	cudaEnableDefault = 0x0,               /* as the caller was compiled */
	cudaEnableLegacyStream = 0x1,          /* NULL streams are the legacy stream */
	cudaEnablePerThreadDefaultStream = 0x2 /* NULL streams are the per-thread stream, where there is such a form */
};

enum cudaDriverEntryPointQueryResult {
	cudaDriverEntryPointSuccess = 0,
	cudaDriverEntryPointSymbolNotFound = 1,     /* no function of this name */
	cudaDriverEntryPointVersionNotSufficent = 2 /* it came with a later version than the one asked for */
};

#endif /* __DRIVER_TYPES_H__ */

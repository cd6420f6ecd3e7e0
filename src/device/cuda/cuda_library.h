/* SPDX-License-Identifier: MIT */
/*
 * The real driver: NVIDIA's libcuda.so.1, found and opened at run time.
 *
 * It is opened by absolute path: CENOTE_LIBCUDA, else where the loader's cache and the usual folders have it. A library
 * that carries the mark of our own drop-ins is refused, so that we never call ourselves. Its functions come from its
 * cuGetProcAddress, in the form that CUDA 13.0 has; one table has those that Cenote itself calls. Opening does not
 * initialise: a process that only opened it may still fork.
 */
#ifndef CN_DEVICE_CUDA_CUDA_LIBRARY_H
#define CN_DEVICE_CUDA_CUDA_LIBRARY_H

#include "base/error.h"

#include "cenote/cuda.h"

#include <stdbool.h>

/* CALL(name as a programmer writes it): what Cenote itself calls of the driver. */
#define CN_CUDA_CALLS(CALL)                     \
	CALL(cuInit)                            \
	CALL(cuDriverGetVersion)                \
	CALL(cuDeviceGetCount)                  \
	CALL(cuDeviceGet)                       \
	CALL(cuDeviceGetName)                   \
	CALL(cuDeviceGetUuid)                   \
	CALL(cuDeviceTotalMem)                  \
	CALL(cuDeviceGetAttribute)              \
	CALL(cuDeviceCanAccessPeer)             \
	CALL(cuCtxGetCurrent)                   \
	CALL(cuCtxPushCurrent)                  \
	CALL(cuCtxPopCurrent)                   \
	CALL(cuCtxGetDevice)                    \
	CALL(cuCtxGetStreamPriorityRange)       \
	CALL(cuCtxSynchronize)                  \
	CALL(cuStreamGetCtx)                    \
	CALL(cuStreamIsCapturing)               \
	CALL(cuStreamQuery)                     \
	CALL(cuStreamWaitEvent)                 \
	CALL(cuThreadExchangeStreamCaptureMode) \
	CALL(cuEventCreate)                     \
	CALL(cuEventDestroy)                    \
	CALL(cuEventRecord)                     \
	CALL(cuEventQuery)                      \
	CALL(cuMemAddressReserve)               \
	CALL(cuMemAddressFree)                  \
	CALL(cuMemCreate)                       \
	CALL(cuMemRelease)                      \
	CALL(cuMemMap)                          \
	CALL(cuMemUnmap)                        \
	CALL(cuMemSetAccess)                    \
	CALL(cuMemExportToShareableHandle)      \
	CALL(cuMemImportFromShareableHandle)    \
	CALL(cuMemGetAllocationPropertiesFromHandle)

struct cn_cuda_calls {
#define CN_CUDA_CALL(name) __typeof__(&name) name; /* NOLINT(bugprone-macro-parentheses) */
	CN_CUDA_CALLS(CN_CUDA_CALL)
#undef CN_CUDA_CALL
};

/* Filled in by cn_cuda_open(). */
extern struct cn_cuda_calls cn_cuda;
/* The same: cuCtxRecordEvent(), an event of all that a context was given so far. NULL: before CUDA 12.5. */
extern CUresult (*cn_cuda_record_all)(void *context, CUevent event);

/* CUDA_ERROR_NO_DEVICE, with a sentence: there is no real driver here. Once found, it stays. Any thread. */
CUresult cn_cuda_open(void);
/* Open and initialise it. CUDA_ERROR_NO_DEVICE, with a sentence: there is none, it does not start, or finds no GPU. */
CUresult cn_cuda_start(int *ret_gpu_count);

/*
 * A function of the driver's, as its cuGetProcAddress has it; NULL: it has none, or there is no driver. `version` as
 * CUDA counts (13000); `per_thread`: the form whose default stream is the thread's own.
 */
void *cn_cuda_function(const char *name, int version, bool per_thread);
/* The driver's own cuGetProcAddress; it is open. */
CUresult cn_cuda_proc_address(const char *name, void **function, int version, cuuint64_t flags,
			      CUdriverProcAddressQueryResult *status);
/* A symbol that the driver's library exports; NULL: none. For names that its cuGetProcAddress does not know. */
void *cn_cuda_symbol(const char *symbol);
/* Where it was found; NULL: it was not opened. */
const char *cn_cuda_path(void);

#endif

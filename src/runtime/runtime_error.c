/* SPDX-License-Identifier: MIT */
/*
 * Errors, versions and entry points of the runtime API.
 *
 * A code that the driver has too is the same number in both; the runtime has its own name for it and borrows the
 * driver's text. The other codes are the runtime's alone.
 */
#include "runtime/runtime.h"

#include <stddef.h>
#include <stdlib.h>

struct error_text {
	cudaError_t code;
	const char *name;
	const char *text; /* NULL: the driver has it */
};

#define SHARED(code)              \
	{                         \
		code, #code, NULL \
	}
#define OWN(code, text_)           \
	{                          \
		code, #code, text_ \
	}

/* Sorted by code, for a binary search. */
static const struct error_text error_texts[] = {
	SHARED(cudaSuccess),
	SHARED(cudaErrorInvalidValue),
	SHARED(cudaErrorMemoryAllocation),
	SHARED(cudaErrorInitializationError),
	SHARED(cudaErrorCudartUnloading),
	SHARED(cudaErrorProfilerDisabled),
	SHARED(cudaErrorProfilerNotInitialized),
	SHARED(cudaErrorProfilerAlreadyStarted),
	SHARED(cudaErrorProfilerAlreadyStopped),
	OWN(cudaErrorInvalidConfiguration, "invalid configuration argument"),
	OWN(cudaErrorInvalidPitchValue, "invalid pitch argument"),
	OWN(cudaErrorInvalidSymbol, "invalid device symbol"),
	OWN(cudaErrorInvalidHostPointer, "invalid host pointer"),
	OWN(cudaErrorInvalidDevicePointer, "invalid device pointer"),
	OWN(cudaErrorInvalidTexture, "invalid texture reference"),
	OWN(cudaErrorInvalidTextureBinding, "texture is not bound to a pointer"),
	OWN(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"),
	OWN(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
	OWN(cudaErrorAddressOfConstant, "invalid address of constant"),
	OWN(cudaErrorTextureFetchFailed, "fetch from texture failed"),
	OWN(cudaErrorTextureNotBound, "cannot fetch from a texture that is not bound"),
	OWN(cudaErrorSynchronizationError, "incorrect use of __syncthreads()"),
	OWN(cudaErrorInvalidFilterSetting, "linear filtering not supported for non-float type"),
	OWN(cudaErrorInvalidNormSetting, "read as normalized float not supported for data type"),
	OWN(cudaErrorMixedDeviceExecution, "device emulation mode and device execution mode cannot be mixed"),
	OWN(cudaErrorNotYetImplemented, "feature not yet implemented"),
	OWN(cudaErrorMemoryValueTooLarge, "memory size or pointer value too large to fit in 32 bit"),
	SHARED(cudaErrorStubLibrary),
	OWN(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
	SHARED(cudaErrorCallRequiresNewerDriver),
	OWN(cudaErrorInvalidSurface, "invalid surface reference"),
	OWN(cudaErrorDuplicateVariableName, "duplicate global variable looked up by string name"),
	OWN(cudaErrorDuplicateTextureName, "duplicate texture looked up by string name"),
	OWN(cudaErrorDuplicateSurfaceName, "duplicate surface looked up by string name"),
	SHARED(cudaErrorDevicesUnavailable),
	OWN(cudaErrorIncompatibleDriverContext, "incompatible driver context"),
	OWN(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
	OWN(cudaErrorPriorLaunchFailure, "unspecified launch failure in prior launch"),
	OWN(cudaErrorLaunchMaxDepthExceeded, "launch would exceed maximum depth of nested launches"),
	OWN(cudaErrorLaunchFileScopedTex,
	    "launch failed because kernel uses unsupported, file-scoped textures (texture objects are supported)"),
	OWN(cudaErrorLaunchFileScopedSurf,
	    "launch failed because kernel uses unsupported, file-scoped surfaces (surface objects are supported)"),
	OWN(cudaErrorSyncDepthExceeded,
	    "cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth"),
	OWN(cudaErrorLaunchPendingCountExceeded,
	    "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount"),
	OWN(cudaErrorInvalidDeviceFunction, "invalid device function"),
	SHARED(cudaErrorNoDevice),
	SHARED(cudaErrorInvalidDevice),
	SHARED(cudaErrorDeviceNotLicensed),
	OWN(cudaErrorSoftwareValidityNotEstablished, "integrity checks failed"),
	OWN(cudaErrorStartupFailure, "startup failure in cuda runtime"),
	SHARED(cudaErrorInvalidKernelImage),
	SHARED(cudaErrorDeviceUninitialized),
	SHARED(cudaErrorMapBufferObjectFailed),
	SHARED(cudaErrorUnmapBufferObjectFailed),
	SHARED(cudaErrorArrayIsMapped),
	SHARED(cudaErrorAlreadyMapped),
	SHARED(cudaErrorNoKernelImageForDevice),
	SHARED(cudaErrorAlreadyAcquired),
	SHARED(cudaErrorNotMapped),
	SHARED(cudaErrorNotMappedAsArray),
	SHARED(cudaErrorNotMappedAsPointer),
	SHARED(cudaErrorECCUncorrectable),
	SHARED(cudaErrorUnsupportedLimit),
	SHARED(cudaErrorDeviceAlreadyInUse),
	SHARED(cudaErrorPeerAccessUnsupported),
	SHARED(cudaErrorInvalidPtx),
	SHARED(cudaErrorInvalidGraphicsContext),
	SHARED(cudaErrorNvlinkUncorrectable),
	SHARED(cudaErrorJitCompilerNotFound),
	SHARED(cudaErrorUnsupportedPtxVersion),
	SHARED(cudaErrorJitCompilationDisabled),
	SHARED(cudaErrorUnsupportedExecAffinity),
	SHARED(cudaErrorUnsupportedDevSideSync),
	SHARED(cudaErrorContained),
	SHARED(cudaErrorInvalidSource),
	SHARED(cudaErrorFileNotFound),
	SHARED(cudaErrorSharedObjectSymbolNotFound),
	SHARED(cudaErrorSharedObjectInitFailed),
	SHARED(cudaErrorOperatingSystem),
	SHARED(cudaErrorInvalidResourceHandle),
	SHARED(cudaErrorIllegalState),
	SHARED(cudaErrorLossyQuery),
	SHARED(cudaErrorSymbolNotFound),
	SHARED(cudaErrorNotReady),
	SHARED(cudaErrorIllegalAddress),
	SHARED(cudaErrorLaunchOutOfResources),
	SHARED(cudaErrorLaunchTimeout),
	SHARED(cudaErrorLaunchIncompatibleTexturing),
	SHARED(cudaErrorPeerAccessAlreadyEnabled),
	SHARED(cudaErrorPeerAccessNotEnabled),
	SHARED(cudaErrorSetOnActiveProcess),
	SHARED(cudaErrorContextIsDestroyed),
	SHARED(cudaErrorAssert),
	SHARED(cudaErrorTooManyPeers),
	SHARED(cudaErrorHostMemoryAlreadyRegistered),
	SHARED(cudaErrorHostMemoryNotRegistered),
	SHARED(cudaErrorHardwareStackError),
	SHARED(cudaErrorIllegalInstruction),
	SHARED(cudaErrorMisalignedAddress),
	SHARED(cudaErrorInvalidAddressSpace),
	SHARED(cudaErrorInvalidPc),
	SHARED(cudaErrorLaunchFailure),
	SHARED(cudaErrorCooperativeLaunchTooLarge),
	SHARED(cudaErrorTensorMemoryLeak),
	SHARED(cudaErrorNotPermitted),
	SHARED(cudaErrorNotSupported),
	SHARED(cudaErrorSystemNotReady),
	SHARED(cudaErrorSystemDriverMismatch),
	SHARED(cudaErrorCompatNotSupportedOnDevice),
	SHARED(cudaErrorMpsConnectionFailed),
	SHARED(cudaErrorMpsRpcFailure),
	SHARED(cudaErrorMpsServerNotReady),
	SHARED(cudaErrorMpsMaxClientsReached),
	SHARED(cudaErrorMpsMaxConnectionsReached),
	SHARED(cudaErrorMpsClientTerminated),
	SHARED(cudaErrorCdpNotSupported),
	SHARED(cudaErrorCdpVersionMismatch),
	SHARED(cudaErrorStreamCaptureUnsupported),
	SHARED(cudaErrorStreamCaptureInvalidated),
	SHARED(cudaErrorStreamCaptureMerge),
	SHARED(cudaErrorStreamCaptureUnmatched),
	SHARED(cudaErrorStreamCaptureUnjoined),
	SHARED(cudaErrorStreamCaptureIsolation),
	SHARED(cudaErrorStreamCaptureImplicit),
	SHARED(cudaErrorCapturedEvent),
	SHARED(cudaErrorStreamCaptureWrongThread),
	SHARED(cudaErrorTimeout),
	SHARED(cudaErrorGraphExecUpdateFailure),
	SHARED(cudaErrorExternalDevice),
	SHARED(cudaErrorInvalidClusterSize),
	SHARED(cudaErrorFunctionNotLoaded),
	SHARED(cudaErrorInvalidResourceType),
	SHARED(cudaErrorInvalidResourceConfiguration),
	SHARED(cudaErrorUnknown),
	OWN(cudaErrorApiFailureBase, "api failure base"),
};

static _Thread_local cudaError_t last_error __attribute__((tls_model("initial-exec")));

static int compare_code(const void *key, const void *element)
{
	unsigned code = *(const unsigned *)key;
	unsigned other = (unsigned)((const struct error_text *)element)->code;

	return (code > other) - (code < other);
}

static const struct error_text *find_error(unsigned code)
{
	return bsearch(&code, error_texts, sizeof error_texts / sizeof error_texts[0], sizeof error_texts[0],
		       compare_code);
}

cudaError_t cn_runtime_error(cudaError_t error)
{
	/* "Not ready" is an answer, not a failure; CUDA does not keep it either. */
	if (error != cudaSuccess && error != cudaErrorNotReady)
		last_error = error;
	return error;
}

cudaError_t cn_runtime_code(CUresult result)
{
	/* A few codes of the driver's have no name in the runtime. */
	return find_error((unsigned)result) ? (cudaError_t)result : cudaErrorUnknown;
}

/* CUDA starts the driver here, too, and answers with the reason when it cannot. */
cudaError_t cudaPeekAtLastError(void)
{
	CUresult result = cn_runtime_start();

	return result ? cn_runtime_result(result) : last_error;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t error = cudaPeekAtLastError();

	last_error = cudaSuccess;
	return error;
}

const char *cudaGetErrorName(cudaError_t error)
{
	const struct error_text *found = find_error((unsigned)error);

	return found ? found->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
	const struct error_text *found = find_error((unsigned)error);
	const char *text;

	if (!found)
		return "unrecognized error code";
	if (found->text)
		return found->text;
	return cuGetErrorString((CUresult)error, &text) ? found->name : text;
}

/* ---- Versions --------------------------------------------------------------------------------------------------- */

cudaError_t runtime_cudaDriverGetVersion(int *driverVersion)
{
	return cn_runtime_result(cuDriverGetVersion(driverVersion));
}

cudaError_t runtime_cudaRuntimeGetVersion(int *runtimeVersion)
{
	if (!runtimeVersion)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "runtimeVersion is NULL");
	*runtimeVersion = CUDART_VERSION;
	return cudaSuccess;
}

/* ---- Entry points ----------------------------------------------------------------------------------------------- */

cudaError_t runtime_cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
						     unsigned long long flags,
						     enum cudaDriverEntryPointQueryResult *driverStatus)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *function = NULL;
	CUresult result;

	if (!symbol || !funcPtr)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "%s is NULL", symbol ? "funcPtr" : "symbol");
	result = cuGetProcAddress(symbol, &function, (int)cudaVersion, flags, &status);
	/* Looking for a missing function is no error: the program learns it from the status and the NULL. */
	if (result == CUDA_ERROR_NOT_FOUND) {
		function = NULL;
		result = CUDA_SUCCESS;
		if (status == CU_GET_PROC_ADDRESS_SUCCESS)
			status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	}
	if (result)
		return cn_runtime_result(result);
	*funcPtr = function;
	if (driverStatus)
		*driverStatus = (enum cudaDriverEntryPointQueryResult)status;
	return cudaSuccess;
}

/* For such a program, the default search finds the driver's calls for the thread's own stream. */
static unsigned long long own_search(unsigned long long flags)
{
	return flags == cudaEnableDefault ? cudaEnablePerThreadDefaultStream : flags;
}

cudaError_t runtime_cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
						 enum cudaDriverEntryPointQueryResult *driverStatus)
{
	return runtime_cudaGetDriverEntryPoint(symbol, funcPtr, own_search(flags), driverStatus);
}

cudaError_t runtime_cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr, unsigned int cudaVersion,
							  unsigned long long flags,
							  enum cudaDriverEntryPointQueryResult *driverStatus)
{
	return runtime_cudaGetDriverEntryPointByVersion(symbol, funcPtr, cudaVersion, own_search(flags), driverStatus);
}

cudaError_t runtime_cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
					    enum cudaDriverEntryPointQueryResult *driverStatus)
{
	return runtime_cudaGetDriverEntryPointByVersion(symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}

/* ---- The names of calls, for the log ---------------------------------------------------------------------------- */

static const char *find_call(const void *function)
{
	for (const struct cn_call *call = cn_runtime_calls; call->name; call++) {
		if (call->function == function)
			return call->name;
	}
	return NULL;
}

__attribute__((constructor)) static void add_calls(void)
{
	static struct cn_call_list list = {.find = find_call};

	cn_call_list_add(&list);
}

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
	OWN(cudaErrorInvalidConfiguration, "the launch asks for a grid or block that the device cannot run"),
	OWN(cudaErrorInvalidPitchValue, "invalid pitch"),
	OWN(cudaErrorInvalidSymbol, "not a symbol of the device"),
	OWN(cudaErrorInvalidHostPointer, "invalid host pointer"),
	OWN(cudaErrorInvalidDevicePointer, "invalid device pointer"),
	OWN(cudaErrorInvalidTexture, "invalid texture"),
	OWN(cudaErrorInvalidTextureBinding, "invalid binding of a texture"),
	OWN(cudaErrorInvalidChannelDescriptor, "invalid channel description"),
	OWN(cudaErrorInvalidMemcpyDirection, "no such direction to copy in"),
	OWN(cudaErrorAddressOfConstant, "the address of a constant was taken"),
	OWN(cudaErrorTextureFetchFailed, "a texture could not be read"),
	OWN(cudaErrorTextureNotBound, "the texture is not bound"),
	OWN(cudaErrorSynchronizationError, "the threads of a block did not meet at a barrier"),
	OWN(cudaErrorInvalidFilterSetting, "the texture cannot be filtered so"),
	OWN(cudaErrorInvalidNormSetting, "the texture cannot be read as normalised"),
	OWN(cudaErrorMixedDeviceExecution, "emulated and real execution were mixed"),
	OWN(cudaErrorNotYetImplemented, "not implemented yet"),
	OWN(cudaErrorMemoryValueTooLarge, "a size or address does not fit in 32 bits"),
	SHARED(cudaErrorStubLibrary),
	OWN(cudaErrorInsufficientDriver, "the driver is older than this runtime needs"),
	SHARED(cudaErrorCallRequiresNewerDriver),
	OWN(cudaErrorInvalidSurface, "invalid surface"),
	OWN(cudaErrorDuplicateVariableName, "several variables have this name"),
	OWN(cudaErrorDuplicateTextureName, "several textures have this name"),
	OWN(cudaErrorDuplicateSurfaceName, "several surfaces have this name"),
	SHARED(cudaErrorDevicesUnavailable),
	OWN(cudaErrorIncompatibleDriverContext, "the current context cannot be used with the runtime"),
	OWN(cudaErrorMissingConfiguration, "the launch was not configured"),
	OWN(cudaErrorPriorLaunchFailure, "an earlier launch failed"),
	OWN(cudaErrorLaunchMaxDepthExceeded, "launches are nested too deep"),
	OWN(cudaErrorLaunchFileScopedTex, "the kernel uses textures of file scope"),
	OWN(cudaErrorLaunchFileScopedSurf, "the kernel uses surfaces of file scope"),
	OWN(cudaErrorSyncDepthExceeded, "the device synchronises too deep inside nested launches"),
	OWN(cudaErrorLaunchPendingCountExceeded, "too many launches are pending on the device"),
	OWN(cudaErrorInvalidDeviceFunction, "not a kernel that is known to the device"),
	SHARED(cudaErrorNoDevice),
	SHARED(cudaErrorInvalidDevice),
	SHARED(cudaErrorDeviceNotLicensed),
	OWN(cudaErrorSoftwareValidityNotEstablished, "the software could not be checked for integrity"),
	OWN(cudaErrorStartupFailure, "the runtime could not start"),
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
	OWN(cudaErrorApiFailureBase, "the first code of unexpected failures"),
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
	/* That something is not ready yet is an answer, not a failure; CUDA does not keep it either. */
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

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
	return cn_runtime_result(cuDriverGetVersion(driverVersion));
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
	if (!runtimeVersion)
		return CN_REFUSE(cudaErrorInvalidValue, "cudaRuntimeGetVersion: nowhere to put the version");
	*runtimeVersion = CUDART_VERSION;
	return cudaSuccess;
}

/* ---- Entry points ----------------------------------------------------------------------------------------------- */

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
					     unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *driverStatus)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *function = NULL;
	CUresult result;

	if (!symbol || !funcPtr)
		return CN_REFUSE(cudaErrorInvalidValue, "an entry point needs a name and a place to go to");
	result = cuGetProcAddress(symbol, &function, (int)cudaVersion, flags, &status);
	/* To look for what is not there is no mistake: the program learns it from the status and the NULL. */
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

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
				    enum cudaDriverEntryPointQueryResult *driverStatus)
{
	return cudaGetDriverEntryPointByVersion(symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}

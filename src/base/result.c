/* SPDX-License-Identifier: MIT */
/*
 * CUDA's result codes: their names, which are CUDA's, and a text for each, which is ours.
 */
#include "base/error.h"

#include <stddef.h>
#include <stdlib.h>

struct result {
	unsigned int code;
	const char *name, *text;
};

#define ROW(code, text)           \
	{                         \
		code, #code, text \
	}

/* Sorted by code, for a binary search. */
static const struct result results[] = {
	ROW(CUDA_SUCCESS, "success"),
	ROW(CUDA_ERROR_INVALID_VALUE, "an argument is out of range, NULL, or does not fit the others"),
	ROW(CUDA_ERROR_OUT_OF_MEMORY, "device, host memory or addresses have run out"),
	ROW(CUDA_ERROR_NOT_INITIALIZED, "the driver has not been initialised in this process"),
	ROW(CUDA_ERROR_DEINITIALIZED, "the process is exiting"),
	ROW(CUDA_ERROR_PROFILER_DISABLED, "no profiler was set up for this run"),
	ROW(CUDA_ERROR_PROFILER_NOT_INITIALIZED, "the profiler is not initialised"),
	ROW(CUDA_ERROR_PROFILER_ALREADY_STARTED, "the profiler runs already"),
	ROW(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "the profiler is stopped already"),
	ROW(CUDA_ERROR_STUB_LIBRARY, "a link-time stub was loaded in a driver's place"),
	ROW(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "this driver is too old for the call"),
	ROW(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is there and busy, or closed to us"),
	ROW(CUDA_ERROR_NO_DEVICE, "there is no device"),
	ROW(CUDA_ERROR_INVALID_DEVICE, "no device has this number"),
	ROW(CUDA_ERROR_DEVICE_NOT_LICENSED, "the licence does not cover this device"),
	ROW(CUDA_ERROR_INVALID_IMAGE, "not a module for this device, or a damaged one"),
	ROW(CUDA_ERROR_INVALID_CONTEXT, "no current context, or not a live one"),
	ROW(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "the context is current already"),
	ROW(CUDA_ERROR_MAP_FAILED, "memory could not be mapped"),
	ROW(CUDA_ERROR_UNMAP_FAILED, "memory could not be unmapped"),
	ROW(CUDA_ERROR_ARRAY_IS_MAPPED, "the array is mapped and cannot be destroyed"),
	ROW(CUDA_ERROR_ALREADY_MAPPED, "the resource is mapped already"),
	ROW(CUDA_ERROR_NO_BINARY_FOR_GPU, "the module has no code for this device"),
	ROW(CUDA_ERROR_ALREADY_ACQUIRED, "the resource is taken"),
	ROW(CUDA_ERROR_NOT_MAPPED, "the resource is not mapped"),
	ROW(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "it is mapped, but not as an array"),
	ROW(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "it is mapped, but not as a pointer"),
	ROW(CUDA_ERROR_ECC_UNCORRECTABLE, "memory lost bits that ECC cannot restore"),
	ROW(CUDA_ERROR_UNSUPPORTED_LIMIT, "the device does not have this limit"),
	ROW(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "another thread has the context"),
	ROW(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the two devices cannot reach each other"),
	ROW(CUDA_ERROR_INVALID_PTX, "the PTX does not compile"),
	ROW(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "the OpenGL or Direct3D context is unusable"),
	ROW(CUDA_ERROR_NVLINK_UNCORRECTABLE, "an NVLink lost data"),
	ROW(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "the PTX compiler's library is missing"),
	ROW(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the PTX is newer than the compiler"),
	ROW(CUDA_ERROR_JIT_COMPILATION_DISABLED, "compilation of PTX was switched off"),
	ROW(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the device cannot restrict itself so"),
	ROW(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, "the code synchronises on the device, which is gone"),
	ROW(CUDA_ERROR_CONTAINED, "a fault that the device kept from spreading"),
	ROW(CUDA_ERROR_INVALID_SOURCE, "the source does not compile"),
	ROW(CUDA_ERROR_FILE_NOT_FOUND, "no such file"),
	ROW(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "a shared object refers to a symbol nobody has"),
	ROW(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "a shared object did not initialise"),
	ROW(CUDA_ERROR_OPERATING_SYSTEM, "a system call failed"),
	ROW(CUDA_ERROR_INVALID_HANDLE, "not the handle of a live object of this kind"),
	ROW(CUDA_ERROR_ILLEGAL_STATE, "something needed is not in a state to be used"),
	ROW(CUDA_ERROR_LOSSY_QUERY, "the answer would leave out something that matters"),
	ROW(CUDA_ERROR_NOT_FOUND, "nothing has this name or address"),
	ROW(CUDA_ERROR_NOT_READY, "not finished yet"),
	ROW(CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel touched an address that is not mapped for it"),
	ROW(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many threads or registers for one launch"),
	ROW(CUDA_ERROR_LAUNCH_TIMEOUT, "the kernel ran longer than the system allows"),
	ROW(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, "the kernel's texturing mode does not fit"),
	ROW(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "this context can reach that peer already"),
	ROW(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "this context cannot reach that peer"),
	ROW(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is already in use"),
	ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context has been destroyed"),
	ROW(CUDA_ERROR_ASSERT, "an assert() in a kernel failed"),
	ROW(CUDA_ERROR_TOO_MANY_PEERS, "no more peers fit"),
	ROW(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part of the range is registered"),
	ROW(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "no registration begins there"),
	ROW(CUDA_ERROR_HARDWARE_STACK_ERROR, "a call stack broke or overflowed"),
	ROW(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an instruction the device does not have"),
	ROW(CUDA_ERROR_MISALIGNED_ADDRESS, "an address that is not aligned for its access"),
	ROW(CUDA_ERROR_INVALID_ADDRESS_SPACE, "an address of the wrong memory space"),
	ROW(CUDA_ERROR_INVALID_PC, "the program counter left the program"),
	ROW(CUDA_ERROR_LAUNCH_FAILED, "a kernel failed"),
	ROW(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "the grid cannot be resident all at once"),
	ROW(CUDA_ERROR_TENSOR_MEMORY_LEAK, "a kernel ended with tensor memory still taken"),
	ROW(CUDA_ERROR_NOT_PERMITTED, "not allowed for this user, process or object, or not from here"),
	ROW(CUDA_ERROR_NOT_SUPPORTED, "this device or system cannot do it"),
	ROW(CUDA_ERROR_SYSTEM_NOT_READY, "a service the devices need is not running yet"),
	ROW(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "display driver and CUDA driver do not match"),
	ROW(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "forward compatibility does not cover it"),
	ROW(CUDA_ERROR_MPS_CONNECTION_FAILED, "MPS cannot be reached"),
	ROW(CUDA_ERROR_MPS_RPC_FAILURE, "a request to the MPS server failed"),
	ROW(CUDA_ERROR_MPS_SERVER_NOT_READY, "the MPS server takes no clients just now"),
	ROW(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "MPS has no room for another client"),
	ROW(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "MPS has no room for another connection"),
	ROW(CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS server ended this client"),
	ROW(CUDA_ERROR_CDP_NOT_SUPPORTED, "kernels cannot launch kernels here"),
	ROW(CUDA_ERROR_CDP_VERSION_MISMATCH, "two versions of device-side launch in one program"),
	ROW(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "this cannot be captured"),
	ROW(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier error spoilt the capture"),
	ROW(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one"),
	ROW(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture did not begin in this stream"),
	ROW(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a forked stream was not joined again"),
	ROW(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a dependency would leave the capture"),
	ROW(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream would wait for a capture"),
	ROW(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture"),
	ROW(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began this capture"),
	ROW(CUDA_ERROR_TIMEOUT, "a wait ran out of time"),
	ROW(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph changed too much to be updated"),
	ROW(CUDA_ERROR_EXTERNAL_DEVICE, "another device or process, on which this waited, failed"),
	ROW(CUDA_ERROR_INVALID_CLUSTER_SIZE, "no cluster of this size is possible"),
	ROW(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function's code is not loaded yet"),
	ROW(CUDA_ERROR_INVALID_RESOURCE_TYPE, "resources of this type do not fit here"),
	ROW(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "too few of a resource, or badly split"),
	ROW(CUDA_ERROR_KEY_ROTATION, "a key is being exchanged just now"),
	ROW(CUDA_ERROR_UNKNOWN, "something unexpected went wrong"),
};

static int compare_code(const void *key, const void *element)
{
	unsigned int code = *(const unsigned int *)key, other = ((const struct result *)element)->code;

	return (code > other) - (code < other);
}

static const struct result *find_result(CUresult result)
{
	unsigned int code = (unsigned int)result;

	return bsearch(&code, results, sizeof results / sizeof results[0], sizeof results[0], compare_code);
}

const char *cn_result_name(CUresult code)
{
	const struct result *found = find_result(code);

	return found ? found->name : NULL;
}

const char *cn_result_text(CUresult code)
{
	const struct result *found = find_result(code);

	return found ? found->text : NULL;
}

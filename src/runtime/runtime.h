/* SPDX-License-Identifier: MIT */
/*
 * The runtime API: what its files share.
 *
 * cuda* is a thin layer over the public cu* calls. It adds three things: the last error of each thread, the context
 * that a call finds or makes for itself (runtime_context.c), and a few answers that differ from the driver's. A call
 * looks like this:
 *
 *	CUresult result = cn_runtime_context();
 *
 *	return cn_runtime_result(result ? result : cuStreamQuery(stream));
 *
 * Where a cudaX has pointers that are checked first, the build makes cudaX, with the check, and the function written
 * here is runtime_cudaX (prototypes in runtime_prototypes.h). The others are cudaX themselves.
 *
 * Where the runtime itself refuses, it says why: return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "…").
 */
#ifndef CN_RUNTIME_RUNTIME_H
#define CN_RUNTIME_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

/* What the public headers declare is exported, whatever the compiler is told about the rest. */
#pragma GCC visibility push(default)
#include "cenote/cuda.h"
#include "cenote/cudaProfiler.h"
#include "cenote/cuda_profiler_api.h"
#include "cenote/cuda_runtime_api.h"
#pragma GCC visibility pop

#include "base/call.h"
#include "base/error.h"
#include "runtime_prototypes.h"

/* ---- Errors (runtime_error.c) ----------------------------------------------------------------------------------- */

/* Keep an error as this thread's last one, and return it. */
cudaError_t cn_runtime_error(cudaError_t error);

/* The runtime's code for a driver's. */
cudaError_t cn_runtime_code(CUresult result);

/* Answer with a driver's result; a failure becomes the thread's last error. */
static inline cudaError_t cn_runtime_result(CUresult result)
{
	return result ? cn_runtime_error(cn_runtime_code(result)) : cudaSuccess;
}

/* Answer with an error of the runtime's own (a constant), and keep the sentence that explains it. */
#define CN_RUNTIME_REFUSE(error, ...) \
	((void)cn_error((CUresult)(error), __VA_ARGS__), (void)cn_runtime_error(error), (error))

/* Made by the build: the runtime's functions, for the log (base/call.h). Ended by a row without a name. */
extern const struct cn_call cn_runtime_calls[];

/* ---- Devices and contexts (runtime_context.c) ------------------------------------------------------------------- */

/* Start the driver, and read the properties of the devices; does nothing the second time. */
CUresult cn_runtime_start(void);

/* How many devices there are, and what was read of one. These work in a forked child, too. */
CUresult cn_runtime_device_count(int *ret_count);
CUresult cn_runtime_properties(int device, const struct cudaDeviceProp **ret_properties);

/* runtime_properties.c: ask the driver for all properties of a device. */
CUresult cn_runtime_read_properties(int device, struct cudaDeviceProp *ret_properties);

/*
 * Give the calling thread a context: the current one, or else the primary context of the thread's device, which is
 * retained once per process and made current. Cheap if the thread has one.
 */
CUresult cn_runtime_context(void);

/* The device of the calling thread: that of its context, or of the one it would get. Makes no context. */
CUresult cn_runtime_device(int *ret_device);

/* Make a device the calling thread's, with its primary context current. */
CUresult cn_runtime_set_device(int device);

/* A device's primary context, retained for as long as the process uses the runtime. It is not made current. */
CUresult cn_runtime_primary(int device, CUcontext *ret_context);

/* Is the calling thread's context one that the driver API made, and no primary context? */
bool cn_runtime_context_is_foreign(void);

/* Release a device's primary context, to reset it. Each thread that used it gets it anew at its next call. */
CUresult cn_runtime_forget_primary(int device);

/* The devices to try, in this order, for threads that choose none; a count of 0 stands for all. */
CUresult cn_runtime_set_valid_devices(const int *devices, int count);

/* ---- What a program registers (runtime_registered.c) ------------------------------------------------------------ */

/*
 * Is this the address of a kernel that the program has registered? Then its binary is loaded if it was not yet, and
 * *ret_error says whether *ret_kernel was written.
 */
bool cn_runtime_find_registered(const void *function, cudaError_t *ret_error, CUkernel *ret_kernel);

/* Where a variable is in the current context. */
cudaError_t cn_runtime_find_variable(const void *symbol, CUdeviceptr *ret_address, size_t *ret_bytes);

/* ---- Default streams (runtime_copy.c) -------------------------------------------------------------------------- */

/* What a synchronous copy or fill runs on. */
enum cn_runtime_stream { CN_RUNTIME_LEGACY, CN_RUNTIME_PER_THREAD };

cudaError_t cn_runtime_fill_2d(void *dst, size_t pitch, int value, size_t width, size_t height,
			       enum cn_runtime_stream stream);

/* Device pointers are addresses. */
static inline CUdeviceptr cn_runtime_pointer(const void *pointer)
{
	return (CUdeviceptr)(uintptr_t)pointer;
}

#endif

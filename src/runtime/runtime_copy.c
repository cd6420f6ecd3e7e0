/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills of the runtime API.
 *
 * The kind of a copy chooses the driver's call. Synchronous copies and fills exist twice, for the legacy default stream
 * and for the thread's own: two tables of driver calls and one piece of code. Copying nothing succeeds, whatever the
 * pointers and the kind are.
 */
#include "runtime/runtime.h"

#include <stddef.h>

/* The headers declare these only to programs that ask for per-thread default streams. */
#pragma GCC visibility push(default)
extern __typeof__(cuMemcpy) cuMemcpy_ptds;
extern __typeof__(cuMemcpyHtoD) cuMemcpyHtoD_v2_ptds;
extern __typeof__(cuMemcpyDtoH) cuMemcpyDtoH_v2_ptds;
extern __typeof__(cuMemcpyDtoD) cuMemcpyDtoD_v2_ptds;
extern __typeof__(cuMemcpy2DUnaligned) cuMemcpy2DUnaligned_v2_ptds;
extern __typeof__(cuMemsetD8) cuMemsetD8_v2_ptds;
extern __typeof__(cuMemsetD2D8) cuMemsetD2D8_v2_ptds;
#pragma GCC visibility pop

static const struct {
	__typeof__(cuMemcpy) *copy;
	__typeof__(cuMemcpyHtoD) *copy_to_device;
	__typeof__(cuMemcpyDtoH) *copy_to_host;
	__typeof__(cuMemcpyDtoD) *copy_on_device;
	__typeof__(cuMemcpy2DUnaligned) *copy_2d;
	__typeof__(cuMemsetD8) *fill;
	__typeof__(cuMemsetD2D8) *fill_2d;
} driver[] = {
	[CN_RUNTIME_LEGACY] = {cuMemcpy, cuMemcpyHtoD, cuMemcpyDtoH, cuMemcpyDtoD, cuMemcpy2DUnaligned, cuMemsetD8,
			       cuMemsetD2D8},
	[CN_RUNTIME_PER_THREAD] = {cuMemcpy_ptds, cuMemcpyHtoD_v2_ptds, cuMemcpyDtoH_v2_ptds, cuMemcpyDtoD_v2_ptds,
				   cuMemcpy2DUnaligned_v2_ptds, cuMemsetD8_v2_ptds, cuMemsetD2D8_v2_ptds},
};

static cudaError_t check_kind(enum cudaMemcpyKind kind)
{
	if ((unsigned)kind > cudaMemcpyDefault)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidMemcpyDirection, "%d is not a cudaMemcpyKind", (int)kind);
	return cudaSuccess;
}

/* ---- One dimension ---------------------------------------------------------------------------------------------- */

static cudaError_t copy_bytes(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
			      enum cn_runtime_stream stream)
{
	CUdeviceptr to = cn_runtime_pointer(dst);
	CUdeviceptr from = cn_runtime_pointer(src);
	CUresult result = cn_runtime_context();
	cudaError_t error;

	if (result || bytes == 0)
		return cn_runtime_result(result);
	error = check_kind(kind);
	if (error)
		return error;
	switch (kind) {
	case cudaMemcpyHostToDevice: result = driver[stream].copy_to_device(to, src, bytes); break;
	case cudaMemcpyDeviceToHost: result = driver[stream].copy_to_host(dst, from, bytes); break;
	case cudaMemcpyDeviceToDevice: result = driver[stream].copy_on_device(to, from, bytes); break;
	default: result = driver[stream].copy(to, from, bytes); break;
	}
	return cn_runtime_result(result);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	return copy_bytes(dst, src, count, kind, CN_RUNTIME_LEGACY);
}

cudaError_t cudaMemcpy_ptds(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	return copy_bytes(dst, src, count, kind, CN_RUNTIME_PER_THREAD);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	CUdeviceptr to = cn_runtime_pointer(dst);
	CUdeviceptr from = cn_runtime_pointer(src);
	CUresult result = cn_runtime_context();
	cudaError_t error;

	if (result || count == 0)
		return cn_runtime_result(result);
	error = check_kind(kind);
	if (error)
		return error;
	switch (kind) {
	case cudaMemcpyHostToDevice: result = cuMemcpyHtoDAsync(to, src, count, stream); break;
	case cudaMemcpyDeviceToHost: result = cuMemcpyDtoHAsync(dst, from, count, stream); break;
	case cudaMemcpyDeviceToDevice: result = cuMemcpyDtoDAsync(to, from, count, stream); break;
	default: result = cuMemcpyAsync(to, from, count, stream); break;
	}
	return cn_runtime_result(result);
}

/* ---- Two dimensions --------------------------------------------------------------------------------------------- */

/* Which memory the two ends of a copy are in; by default the driver finds out. */
static void set_memory_types(enum cudaMemcpyKind kind, CUDA_MEMCPY2D *copy)
{
	bool from_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice;
	bool to_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost;

	if (kind == cudaMemcpyDefault) {
		copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
		return;
	}
	copy->srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	copy->dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

/* Check a copy of rows and describe it to the driver. */
static cudaError_t describe_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
			       size_t height, enum cudaMemcpyKind kind, CUDA_MEMCPY2D *ret_copy)
{
	CUDA_MEMCPY2D copy = {
		.srcHost = src,
		.srcDevice = cn_runtime_pointer(src),
		.srcPitch = src_pitch,
		.dstHost = dst,
		.dstDevice = cn_runtime_pointer(dst),
		.dstPitch = dst_pitch,
		.WidthInBytes = width,
		.Height = height,
	};
	cudaError_t error = check_kind(kind);

	if (error)
		return error;
	if (width > dst_pitch || width > src_pitch)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidPitchValue,
					 "rows of %zu bytes do not fit pitches of %zu and %zu", width, dst_pitch,
					 src_pitch);
	set_memory_types(kind, &copy);
	*ret_copy = copy;
	return cudaSuccess;
}

static cudaError_t copy_rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
			     size_t height, enum cudaMemcpyKind kind, enum cn_runtime_stream stream)
{
	CUDA_MEMCPY2D copy;
	CUresult result;
	cudaError_t error = describe_2d(dst, dst_pitch, src, src_pitch, width, height, kind, &copy);

	if (error)
		return error;
	result = cn_runtime_context();
	if (!result && width > 0 && height > 0)
		result = driver[stream].copy_2d(&copy);
	return cn_runtime_result(result);
}

cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
			 enum cudaMemcpyKind kind)
{
	return copy_rows(dst, dpitch, src, spitch, width, height, kind, CN_RUNTIME_LEGACY);
}

cudaError_t cudaMemcpy2D_ptds(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
			      enum cudaMemcpyKind kind)
{
	return copy_rows(dst, dpitch, src, spitch, width, height, kind, CN_RUNTIME_PER_THREAD);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
			      enum cudaMemcpyKind kind, cudaStream_t stream)
{
	CUDA_MEMCPY2D copy;
	CUresult result;
	cudaError_t error = describe_2d(dst, dpitch, src, spitch, width, height, kind, &copy);

	if (error)
		return error;
	result = cn_runtime_context();
	if (!result && width > 0 && height > 0)
		result = cuMemcpy2DAsync(&copy, stream);
	return cn_runtime_result(result);
}

/* ---- Between devices -------------------------------------------------------------------------------------------- */

/* A context for the calling thread, and the primary contexts of both sides. */
static CUresult peer_contexts(int dst_device, int src_device, CUcontext *ret_dst, CUcontext *ret_src)
{
	CUresult result = cn_runtime_context();

	if (!result)
		result = cn_runtime_primary(dst_device, ret_dst);
	return result ? result : cn_runtime_primary(src_device, ret_src);
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
	CUcontext to;
	CUcontext from;
	CUresult result = peer_contexts(dstDevice, srcDevice, &to, &from);

	if (!result && count > 0)
		result = cuMemcpyPeer(cn_runtime_pointer(dst), to, cn_runtime_pointer(src), from, count);
	return cn_runtime_result(result);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count,
				cudaStream_t stream)
{
	CUcontext to;
	CUcontext from;
	CUresult result = peer_contexts(dstDevice, srcDevice, &to, &from);

	if (!result && count > 0)
		result = cuMemcpyPeerAsync(cn_runtime_pointer(dst), to, cn_runtime_pointer(src), from, count, stream);
	return cn_runtime_result(result);
}

/* ---- Fills ------------------------------------------------------------------------------------------------------ */

static cudaError_t fill_bytes(void *dst, int value, size_t bytes, enum cn_runtime_stream stream)
{
	CUresult result = cn_runtime_context();

	if (!result && bytes > 0)
		result = driver[stream].fill(cn_runtime_pointer(dst), (unsigned char)value, bytes);
	return cn_runtime_result(result);
}

cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
	return fill_bytes(devPtr, value, count, CN_RUNTIME_LEGACY);
}

cudaError_t cudaMemset_ptds(void *devPtr, int value, size_t count)
{
	return fill_bytes(devPtr, value, count, CN_RUNTIME_PER_THREAD);
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
	CUresult result = cn_runtime_context();

	if (!result && count > 0)
		result = cuMemsetD8Async(cn_runtime_pointer(devPtr), (unsigned char)value, count, stream);
	return cn_runtime_result(result);
}

cudaError_t cn_runtime_fill_2d(void *dst, size_t pitch, int value, size_t width, size_t height,
			       enum cn_runtime_stream stream)
{
	CUresult result = cn_runtime_context();

	if (!result && width > 0 && height > 0)
		result = driver[stream].fill_2d(cn_runtime_pointer(dst), pitch, (unsigned char)value, width, height);
	return cn_runtime_result(result);
}

cudaError_t cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height)
{
	return cn_runtime_fill_2d(devPtr, pitch, value, width, height, CN_RUNTIME_LEGACY);
}

cudaError_t cudaMemset2D_ptds(void *devPtr, size_t pitch, int value, size_t width, size_t height)
{
	return cn_runtime_fill_2d(devPtr, pitch, value, width, height, CN_RUNTIME_PER_THREAD);
}

cudaError_t cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
	CUresult result = cn_runtime_context();

	if (!result && width > 0 && height > 0)
		result = cuMemsetD2D8Async(cn_runtime_pointer(devPtr), pitch, (unsigned char)value, width, height,
					   stream);
	return cn_runtime_result(result);
}

/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills in three dimensions of the runtime API.
 *
 * The driver has the same call with another description. The runtime checks first, in this order: copying nothing
 * succeeds whatever the rest is; then the direction; then whether rows fit their pitches and layers their heights.
 */
#include "runtime/runtime.h"

#include "driver/common/private_calls.h"

/* The headers declare these only to programs that ask for per-thread default streams. */
#pragma GCC visibility push(default)
extern __typeof__(cuMemcpy3D) cuMemcpy3D_v2_ptds;
#pragma GCC visibility pop

static bool fits(const struct cudaExtent *extent, const struct cudaPitchedPtr *pointer)
{
	if (extent->height == 1 && extent->depth == 1)
		return true; /* the driver checks a single row */
	return extent->width <= pointer->pitch && (extent->depth == 1 || extent->height <= pointer->ysize);
}

static cudaError_t check(const struct cudaMemcpy3DParms *given)
{
	const struct cudaExtent *extent = &given->extent;

	if ((unsigned)given->kind > cudaMemcpyDefault)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidMemcpyDirection, "%d is not a cudaMemcpyKind",
					 (int)given->kind);
	if (given->srcArray || given->dstArray)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "arrays are not supported");
	if (!fits(extent, &given->srcPtr) || !fits(extent, &given->dstPtr))
		return CN_RUNTIME_REFUSE(cudaErrorInvalidPitchValue,
					 "%zu rows of %zu bytes do not fit layers of %zu times %zu and %zu times %zu",
					 extent->height, extent->width, given->srcPtr.ysize, given->srcPtr.pitch,
					 given->dstPtr.ysize, given->dstPtr.pitch);
	return cudaSuccess;
}

/* Which memory a side is in; by default the driver finds out. */
static CUmemorytype memory_type(enum cudaMemcpyKind kind, bool host)
{
	if (kind == cudaMemcpyDefault)
		return CU_MEMORYTYPE_UNIFIED;
	return host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static CUDA_MEMCPY3D describe(const struct cudaMemcpy3DParms *given)
{
	enum cudaMemcpyKind kind = given->kind;
	CUDA_MEMCPY3D copy = {
		.srcXInBytes = given->srcPos.x,
		.srcY = given->srcPos.y,
		.srcZ = given->srcPos.z,
		.srcMemoryType = memory_type(kind, kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice),
		.srcHost = given->srcPtr.ptr,
		.srcDevice = cn_runtime_pointer(given->srcPtr.ptr),
		.srcPitch = given->srcPtr.pitch,
		.srcHeight = given->srcPtr.ysize,
		.dstXInBytes = given->dstPos.x,
		.dstY = given->dstPos.y,
		.dstZ = given->dstPos.z,
		.dstMemoryType = memory_type(kind, kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost),
		.dstHost = given->dstPtr.ptr,
		.dstDevice = cn_runtime_pointer(given->dstPtr.ptr),
		.dstPitch = given->dstPtr.pitch,
		.dstHeight = given->dstPtr.ysize,
		.WidthInBytes = given->extent.width,
		.Height = given->extent.height,
		.Depth = given->extent.depth,
	};

	return copy;
}

/* *ret_needed: there is something to copy, and *ret_copy says what. */
static cudaError_t prepare(const struct cudaMemcpy3DParms *given, bool *ret_needed, CUDA_MEMCPY3D *ret_copy)
{
	CUresult result = cn_runtime_context();
	cudaError_t error;

	*ret_needed = false;
	if (result)
		return cn_runtime_result(result);
	if (!given)
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "p is NULL");
	if (!given->extent.width || !given->extent.height || !given->extent.depth)
		return cudaSuccess;
	error = check(given);
	if (error)
		return error;
	*ret_copy = describe(given);
	*ret_needed = true;
	return cudaSuccess;
}

static cudaError_t copy_now(const struct cudaMemcpy3DParms *given, __typeof__(cuMemcpy3D) *driver)
{
	CUDA_MEMCPY3D copy;
	bool needed;
	cudaError_t error = prepare(given, &needed, &copy);

	return needed ? cn_runtime_result(driver(&copy)) : error;
}

cudaError_t runtime_cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
	return copy_now(p, cuMemcpy3D);
}

cudaError_t runtime_cudaMemcpy3D_ptds(const struct cudaMemcpy3DParms *p)
{
	return copy_now(p, cuMemcpy3D_v2_ptds);
}

cudaError_t runtime_cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
	CUDA_MEMCPY3D copy;
	bool needed;
	cudaError_t error = prepare(p, &needed, &copy);

	if (!needed)
		return error;
	if (cn_gpu_stream_is_gone(stream)) /* the driver would crash */
		return CN_RUNTIME_REFUSE(cudaErrorInvalidResourceHandle, "the stream %p has been destroyed",
					 (void *)stream);
	return cn_runtime_result(cuMemcpy3DAsync(&copy, stream));
}

/* ---- Fills ------------------------------------------------------------------------------------------------------ */

typedef cudaError_t fill_layer(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream);

/*
 * Layer by layer, since the driver has no such call. The last layer is first: if memory ends too early, that fails
 * before anything has been filled.
 */
static cudaError_t fill(const struct cudaPitchedPtr *to, int value, const struct cudaExtent *extent,
			fill_layer *fill_one, cudaStream_t stream)
{
	size_t layer_bytes, bytes;
	CUresult result = cn_runtime_context();
	cudaError_t error = cudaSuccess;

	if (result || !extent->width || !extent->height || !extent->depth)
		return cn_runtime_result(result);
	if (!fits(extent, to) || (extent->height > 1 && extent->height > to->ysize))
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue,
					 "%zu rows of %zu bytes do not fit layers of %zu rows with a pitch of %zu",
					 extent->height, extent->width, to->ysize, to->pitch);
	if (__builtin_mul_overflow(to->pitch, to->ysize, &layer_bytes) ||
	    __builtin_mul_overflow(layer_bytes, extent->depth, &bytes))
		return CN_RUNTIME_REFUSE(cudaErrorInvalidValue, "%zu layers of %zu rows go beyond the last address",
					 extent->depth, to->ysize);
	for (size_t layer = extent->depth; layer-- > 0 && !error;)
		error = fill_one((char *)to->ptr + layer * layer_bytes, to->pitch, value, extent->width, extent->height,
				 stream);
	return error;
}

static cudaError_t fill_legacy(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
	(void)stream;
	return cn_runtime_fill_2d(to, pitch, value, width, height, CN_RUNTIME_LEGACY);
}

static cudaError_t fill_per_thread(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
	(void)stream;
	return cn_runtime_fill_2d(to, pitch, value, width, height, CN_RUNTIME_PER_THREAD);
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent)
{
	return fill(&pitchedDevPtr, value, &extent, fill_legacy, NULL);
}

cudaError_t cudaMemset3D_ptds(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent)
{
	return fill(&pitchedDevPtr, value, &extent, fill_per_thread, NULL);
}

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent,
			      cudaStream_t stream)
{
	return fill(&pitchedDevPtr, value, &extent, cudaMemset2DAsync, stream);
}

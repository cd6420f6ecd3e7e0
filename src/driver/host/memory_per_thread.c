/* SPDX-License-Identifier: MIT */
/*
 * The calls of the memory chapter for programs whose default stream is the thread's own.
 *
 * CUDA's own switch gives each function here the name of its twin: cuMemcpy() below is cuMemcpy_ptds(), cuMemcpyAsync()
 * is cuMemcpyAsync_ptsz(). A call without a stream uses the thread's, and NULL means it.
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "driver/host/memory.h"

static CUstream own(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

/* ---- Copies ---- */

CN_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return cn_copy_bytes(CN_SIDE_ANY, to, CN_SIDE_ANY, from, bytes, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return cn_copy_bytes(CN_SIDE_ANY, to, CN_SIDE_ANY, from, bytes, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
				size_t bytes)
{
	return cn_copy_peer(to, to_context, from, from_context, bytes, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
				     size_t bytes, CUstream stream)
{
	return cn_copy_peer(to, to_context, from, from_context, bytes, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
	return cn_copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_HOST, (uintptr_t)from, bytes, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
	return cn_copy_bytes(CN_SIDE_HOST, (uintptr_t)to, CN_SIDE_DEVICE, from, bytes, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return cn_copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_DEVICE, from, bytes, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return cn_copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_HOST, (uintptr_t)from, bytes, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return cn_copy_bytes(CN_SIDE_HOST, (uintptr_t)to, CN_SIDE_DEVICE, from, bytes, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return cn_copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_DEVICE, from, bytes, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemcpy2D(const CUDA_MEMCPY2D *copy)
{
	return cn_copy_2d(copy, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *copy)
{
	return cn_copy_2d(copy, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	return cn_copy_2d(copy, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemcpy3D(const CUDA_MEMCPY3D *copy)
{
	return cn_copy_3d(copy, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	return cn_copy_3d(copy, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned int flags,
				      CUstream stream)
{
	return cn_prefetch(pointer, bytes, location, flags, own(stream));
}

/* ---- Fills ---- */

CN_EXPORT CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count)
{
	return cn_fill_elements(to, 1, value, count, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count)
{
	return cn_fill_elements(to, 2, value, count, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemsetD32(CUdeviceptr to, unsigned int value, size_t count)
{
	return cn_fill_elements(to, 4, value, count, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t rows)
{
	return cn_fill_rows(to, pitch, 1, value, width, rows, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemsetD2D16(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t rows)
{
	return cn_fill_rows(to, pitch, 2, value, width, rows, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t rows)
{
	return cn_fill_rows(to, pitch, 4, value, width, rows, CU_STREAM_PER_THREAD, CN_NOW);
}

CN_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
	return cn_fill_elements(to, 1, value, count, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
	return cn_fill_elements(to, 2, value, count, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
	return cn_fill_elements(to, 4, value, count, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t rows,
				     CUstream stream)
{
	return cn_fill_rows(to, pitch, 1, value, width, rows, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t rows,
				      CUstream stream)
{
	return cn_fill_rows(to, pitch, 2, value, width, rows, own(stream), CN_IN_STREAM);
}

CN_EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t rows,
				      CUstream stream)
{
	return cn_fill_rows(to, pitch, 4, value, width, rows, own(stream), CN_IN_STREAM);
}

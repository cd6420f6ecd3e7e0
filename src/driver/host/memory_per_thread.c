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

CUresult host_cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return cn_copy_bytes(CN_SIDE_ANY, to, CN_SIDE_ANY, from, bytes, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return cn_copy_bytes(CN_SIDE_ANY, to, CN_SIDE_ANY, from, bytes, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
				size_t bytes)
{
	return cn_copy_peer(to, to_context, from, from_context, bytes, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
				     size_t bytes, CUstream stream)
{
	return cn_copy_peer(to, to_context, from, from_context, bytes, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes)
{
	return cn_copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_HOST, (uintptr_t)from, bytes, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes)
{
	return cn_copy_bytes(CN_SIDE_HOST, (uintptr_t)to, CN_SIDE_DEVICE, from, bytes, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return cn_copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_DEVICE, from, bytes, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return cn_copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_HOST, (uintptr_t)from, bytes, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return cn_copy_bytes(CN_SIDE_HOST, (uintptr_t)to, CN_SIDE_DEVICE, from, bytes, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return cn_copy_bytes(CN_SIDE_DEVICE, to, CN_SIDE_DEVICE, from, bytes, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy)
{
	return cn_copy_2d(copy, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy)
{
	return cn_copy_2d(copy, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	return cn_copy_2d(copy, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *copy)
{
	return cn_copy_3d(copy, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	return cn_copy_3d(copy, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemPrefetchAsync_v2_ptsz(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned int flags,
					 CUstream stream)
{
	return cn_prefetch(pointer, bytes, location, flags, own(stream));
}

/* ---- Fills ---- */

CUresult host_cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count)
{
	return cn_fill_elements(to, 1, value, count, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t count)
{
	return cn_fill_elements(to, 2, value, count, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value, size_t count)
{
	return cn_fill_elements(to, 4, value, count, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemsetD2D8_v2_ptds(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t rows)
{
	return cn_fill_rows(to, pitch, 1, value, width, rows, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemsetD2D16_v2_ptds(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t rows)
{
	return cn_fill_rows(to, pitch, 2, value, width, rows, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemsetD2D32_v2_ptds(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t rows)
{
	return cn_fill_rows(to, pitch, 4, value, width, rows, CU_STREAM_PER_THREAD, CN_NOW);
}

CUresult host_cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
	return cn_fill_elements(to, 1, value, count, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
	return cn_fill_elements(to, 2, value, count, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
	return cn_fill_elements(to, 4, value, count, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemsetD2D8Async_ptsz(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t rows,
				     CUstream stream)
{
	return cn_fill_rows(to, pitch, 1, value, width, rows, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemsetD2D16Async_ptsz(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t rows,
				      CUstream stream)
{
	return cn_fill_rows(to, pitch, 2, value, width, rows, own(stream), CN_IN_STREAM);
}

CUresult host_cuMemsetD2D32Async_ptsz(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t rows,
				      CUstream stream)
{
	return cn_fill_rows(to, pitch, 4, value, width, rows, own(stream), CN_IN_STREAM);
}

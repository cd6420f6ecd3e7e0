/* SPDX-License-Identifier: MIT */
/*
 * Chapter "edge_copy": copies in three dimensions, of the driver and of the runtime.
 *
 * An answer is the code and what the destination holds afterwards: the bytes that changed, counted, the first and the
 * last of them, and a number made of all.
 */
#include "copy.h"

CHAPTER(edge_copy);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static CUdeviceptr freed;
static CUstream gone;

/* Bytes that tell their places apart. */
static void count_up(char *bytes)
{
	for (int i = 0; i < BYTES; i++)
		bytes[i] = (char)(i * 7 + i / 256 + 1);
}

static void setup(void)
{
	copy_setup();
	NEED(cuMemAlloc(&freed, 64 << 20));
	NEED(cuMemFree(freed));
	NEED(cuStreamCreate(&gone, 0));
	NEED(cuStreamDestroy(gone));
	count_up(host);
	count_up(registered);
	count_up(pageable);
	count_up((char *)(uintptr_t)managed);
	NEED(cuMemcpyHtoD(device_b, host, BYTES));
	NEED(cuMemsetD8(device_a, 0xaa, BYTES));
	NEED(cuCtxSynchronize());
}

static const char *describe(const unsigned char *bytes)
{
	static char said[96];
	int first = -1, last = -1, changed = 0;
	uint32_t sum = 2166136261u;

	for (int i = 0; i < BYTES; i++) {
		sum = (sum ^ bytes[i]) * 16777619u;
		if (bytes[i] == 0xaa)
			continue;
		first = first < 0 ? i : first;
		last = i;
		changed++;
	}
	snprintf(said, sizeof said, "%d bytes %d to %d, %08x", changed, first, last, sum);
	return said;
}

/* What the device's memory holds once all is done; then aa again. */
static const char *written(void)
{
	static unsigned char bytes[BYTES];
	CUresult result = cuCtxSynchronize();

	if (!result)
		result = cuStreamSynchronize(stream); /* may be another context's */
	if (!result)
		result = cuMemcpyDtoH(bytes, device_a, BYTES);
	if (result)
		return ask_driver_code(result);
	cuMemsetD8(device_a, 0xaa, BYTES);
	cuCtxSynchronize();
	return describe(bytes);
}

/* Two layers of two rows of three bytes from pinned host memory to the device; each question changes one thing. */
static CUDA_MEMCPY3D box(void)
{
	CUDA_MEMCPY3D copy;

	memset(&copy, 0, sizeof copy);
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = host;
	copy.srcPitch = 16;
	copy.srcHeight = 4;
	copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.dstDevice = device_a;
	copy.dstPitch = 32;
	copy.dstHeight = 3;
	copy.WidthInBytes = 3;
	copy.Height = 2;
	copy.Depth = 2;
	return copy;
}

/* X(name, what is done to `copy`) */
#define SHAPES(X)                                                                                                   \
	X(nothing, (void)0)                                                                                         \
	X(width_0, copy.WidthInBytes = 0)                                                                           \
	X(height_0, copy.Height = 0)                                                                                \
	X(depth_0, copy.Depth = 0)                                                                                  \
	X(all_0, copy.WidthInBytes = copy.Height = copy.Depth = 0)                                                  \
	X(width_0_null, copy.WidthInBytes = 0; copy.srcHost = NULL; copy.dstDevice = 0)                             \
	X(height_0_null, copy.Height = 0; copy.srcHost = NULL; copy.dstDevice = 0)                                  \
	X(depth_0_null, copy.Depth = 0; copy.srcHost = NULL; copy.dstDevice = 0)                                    \
	X(depth_0_types_9, copy.Depth = 0; copy.srcMemoryType = copy.dstMemoryType = (CUmemorytype)9)               \
	X(depth_0_pitch_small, copy.Depth = 0; copy.srcPitch = 2)                                                   \
	X(depth_1, copy.Depth = 1)                                                                                  \
	X(height_1, copy.Height = 1)                                                                                \
	X(width_1, copy.WidthInBytes = 1)                                                                           \
	X(one_byte, copy.WidthInBytes = copy.Height = copy.Depth = 1)                                               \
	X(full_rows, copy.WidthInBytes = 16)                                                                        \
	X(full_layers, copy.WidthInBytes = copy.dstPitch = 16; copy.Height = copy.dstHeight = 4)                    \
	X(src_pitch_0, copy.srcPitch = 0)                                                                           \
	X(dst_pitch_0, copy.dstPitch = 0)                                                                           \
	X(pitches_0, copy.srcPitch = copy.dstPitch = 0)                                                             \
	X(pitches_0_x, copy.srcPitch = copy.dstPitch = 0; copy.srcXInBytes = 2; copy.dstXInBytes = 3)               \
	X(pitches_0_y, copy.srcPitch = copy.dstPitch = 0; copy.srcY = 1; copy.dstY = 1)                             \
	X(src_height_0, copy.srcHeight = 0)                                                                         \
	X(dst_height_0, copy.dstHeight = 0)                                                                         \
	X(heights_0, copy.srcHeight = copy.dstHeight = 0)                                                           \
	X(heights_0_y, copy.srcHeight = copy.dstHeight = 0; copy.srcY = 1; copy.dstY = 1)                           \
	X(heights_0_z, copy.srcHeight = copy.dstHeight = 0; copy.srcZ = 1; copy.dstZ = 1)                           \
	X(heights_0_y_z, copy.srcHeight = copy.dstHeight = 0; copy.srcY = copy.srcZ = 1; copy.dstY = copy.dstZ = 1) \
	X(heights_0_depth_1, copy.srcHeight = copy.dstHeight = 0; copy.Depth = 1)                                   \
	X(heights_0_depth_1_z, copy.srcHeight = copy.dstHeight = 0; copy.Depth = 1; copy.srcZ = copy.dstZ = 1)      \
	X(pitches_heights_0, copy.srcPitch = copy.dstPitch = copy.srcHeight = copy.dstHeight = 0)                   \
	X(src_pitch_small, copy.srcPitch = 2)                                                                       \
	X(dst_pitch_small, copy.dstPitch = 2)                                                                       \
	X(src_pitch_small_row_1, copy.srcPitch = 2; copy.Height = copy.Depth = 1)                                   \
	X(dst_pitch_small_row_1, copy.dstPitch = 2; copy.Height = copy.Depth = 1)                                   \
	X(src_pitch_exact, copy.srcPitch = 3)                                                                       \
	X(dst_pitch_exact, copy.dstPitch = 3)                                                                       \
	X(dst_pitch_odd, copy.dstPitch = 33)                                                                        \
	X(src_height_small, copy.srcHeight = 1)                                                                     \
	X(dst_height_small, copy.dstHeight = 1)                                                                     \
	X(src_height_small_depth_1, copy.srcHeight = 1; copy.Depth = 1)                                             \
	X(dst_height_small_depth_1, copy.dstHeight = 1; copy.Depth = 1)                                             \
	X(heights_exact, copy.srcHeight = copy.dstHeight = 2)                                                       \
	X(dst_pitch_max, copy.dstPitch = 0x7fffffff; copy.Height = copy.Depth = 1)                                  \
	X(dst_pitch_max_1, copy.dstPitch = 0x80000000u; copy.Height = copy.Depth = 1)                               \
	X(src_pitch_max_1, copy.srcPitch = 0x80000000u; copy.Height = copy.Depth = 1)                               \
	X(dst_pitch_huge, copy.dstPitch = (size_t)1 << 40)                                                          \
	X(dst_height_huge, copy.dstHeight = (size_t)1 << 40)                                                        \
	X(dst_height_huge_depth_1, copy.dstHeight = (size_t)1 << 40; copy.Depth = 1)                                \
	X(height_huge, copy.Height = (size_t)1 << 40)                                                               \
	X(depth_huge, copy.Depth = (size_t)1 << 40)                                                                 \
	X(width_max, copy.WidthInBytes = SIZE_MAX)                                                                  \
	X(height_max, copy.Height = SIZE_MAX)                                                                       \
	X(depth_max, copy.Depth = SIZE_MAX)                                                                         \
	X(all_max, copy.WidthInBytes = copy.Height = copy.Depth = SIZE_MAX)                                         \
	X(depth_past_end, copy.Depth = 1 << 20)                                                                     \
	X(src_x, copy.srcXInBytes = 5)                                                                              \
	X(src_y, copy.srcY = 1)                                                                                     \
	X(src_z, copy.srcZ = 3)                                                                                     \
	X(src_x_y_z, copy.srcXInBytes = 5; copy.srcY = 2; copy.srcZ = 1)                                            \
	X(dst_x, copy.dstXInBytes = 5)                                                                              \
	X(dst_y, copy.dstY = 1)                                                                                     \
	X(dst_z, copy.dstZ = 3)                                                                                     \
	X(dst_x_y_z, copy.dstXInBytes = 5; copy.dstY = 1; copy.dstZ = 2)                                            \
	X(src_x_beyond_pitch, copy.srcXInBytes = 14)                                                                \
	X(dst_x_beyond_pitch, copy.dstXInBytes = 30)                                                                \
	X(src_y_beyond_height, copy.srcY = 3)                                                                       \
	X(dst_y_beyond_height, copy.dstY = 2)                                                                       \
	X(src_y_beyond_height_depth_1, copy.srcY = 3; copy.Depth = 1)                                               \
	X(dst_z_past_end, copy.dstZ = 1 << 20)                                                                      \
	X(src_x_max, copy.srcXInBytes = SIZE_MAX)                                                                   \
	X(dst_y_max, copy.dstY = SIZE_MAX)                                                                          \
	X(dst_z_max, copy.dstZ = SIZE_MAX)                                                                          \
	X(src_lod, copy.srcLOD = 1)                                                                                 \
	X(dst_lod, copy.dstLOD = 1)                                                                                 \
	X(src_reserved, copy.reserved0 = host)                                                                      \
	X(dst_reserved, copy.reserved1 = host)                                                                      \
	X(depth_0_lod, copy.Depth = 0; copy.srcLOD = 1)

#define PLACES(X)                                                                                                   \
	X(null_src, copy.srcHost = NULL)                                                                            \
	X(null_dst, copy.dstDevice = 0)                                                                             \
	X(src_type_0, copy.srcMemoryType = (CUmemorytype)0)                                                         \
	X(src_type_5, copy.srcMemoryType = (CUmemorytype)5)                                                         \
	X(dst_type_0, copy.dstMemoryType = (CUmemorytype)0)                                                         \
	X(dst_type_9, copy.dstMemoryType = (CUmemorytype)9)                                                         \
	X(src_array_null, copy.srcMemoryType = CU_MEMORYTYPE_ARRAY)                                                 \
	X(dst_array_null, copy.dstMemoryType = CU_MEMORYTYPE_ARRAY)                                                 \
	X(src_array_garbage, copy.srcMemoryType = CU_MEMORYTYPE_ARRAY; copy.srcArray = GARBAGE(CUarray))            \
	X(dst_array_zeros, copy.dstMemoryType = CU_MEMORYTYPE_ARRAY; copy.dstArray = ZEROS(CUarray))                \
	X(src_array_ignored, copy.srcArray = GARBAGE(CUarray))                                                      \
	X(src_unified, copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED; copy.srcDevice = AT(host))                       \
	X(dst_unified, copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED)                                                  \
	X(both_unified, copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED; copy.srcDevice = AT(host)) \
	X(src_unified_host_field, copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED)                                       \
	X(src_pageable, copy.srcHost = pageable)                                                                    \
	X(src_pageable_unified, copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED; copy.srcDevice = AT(pageable))          \
	X(src_registered, copy.srcHost = registered)                                                                \
	X(src_managed, copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED; copy.srcDevice = managed)                        \
	X(src_managed_as_device, copy.srcMemoryType = CU_MEMORYTYPE_DEVICE; copy.srcDevice = managed)               \
	X(src_managed_as_host, copy.srcHost = (void *)(uintptr_t)managed)                                           \
	X(src_device, copy.srcMemoryType = CU_MEMORYTYPE_DEVICE; copy.srcDevice = device_b)                         \
	X(src_device_is_host, copy.srcMemoryType = CU_MEMORYTYPE_DEVICE; copy.srcDevice = AT(host))                 \
	X(src_device_is_pageable, copy.srcMemoryType = CU_MEMORYTYPE_DEVICE; copy.srcDevice = AT(pageable))         \
	X(src_host_is_device, copy.srcHost = (void *)(uintptr_t)device_b)                                           \
	X(dst_host, copy.dstMemoryType = CU_MEMORYTYPE_HOST; copy.dstHost = host + 2048)                            \
	X(dst_host_is_device, copy.dstMemoryType = CU_MEMORYTYPE_HOST; copy.dstHost = (void *)(uintptr_t)device_a)  \
	X(dst_device_is_host, copy.dstDevice = AT(host + 2048))                                                     \
	X(dst_device_is_pageable, copy.dstDevice = AT(pageable))                                                    \
	X(host_to_host, copy.dstMemoryType = CU_MEMORYTYPE_HOST; copy.dstHost = pageable;                           \
	  copy.srcHost = pageable + 2048)                                                                           \
	X(src_freed, copy.srcMemoryType = CU_MEMORYTYPE_DEVICE; copy.srcDevice = freed)                             \
	X(dst_freed, copy.dstDevice = freed)                                                                        \
	X(src_garbage, copy.srcMemoryType = CU_MEMORYTYPE_DEVICE; copy.srcDevice = GARBAGE(CUdeviceptr))            \
	X(dst_garbage, copy.dstDevice = GARBAGE(CUdeviceptr))                                                       \
	X(src_host_garbage, copy.srcHost = GARBAGE(void *))                                                         \
	X(same_place, copy.srcMemoryType = CU_MEMORYTYPE_DEVICE; copy.srcDevice = device_a; copy.srcPitch = 32;     \
	  copy.srcHeight = 3)

#define SYNC(name, change)                                                    \
	{                                                                     \
		CUDA_MEMCPY3D copy = box();                                   \
		change;                                                       \
		ASK_VALUE("copy_" #name, cuMemcpy3D(&copy), "%s", written()); \
	}
#define ASYNC(name, change)                                                                 \
	{                                                                                   \
		CUDA_MEMCPY3D copy = box();                                                 \
		change;                                                                     \
		ASK_VALUE("async_" #name, cuMemcpy3DAsync(&copy, stream), "%s", written()); \
	}

GROUP(shapes)
{
	setup();
	ask_guard();
	SHAPES(SYNC)
	ASK("copy_null", cuMemcpy3D(NULL));
}

GROUP(shapes_async)
{
	setup();
	ask_guard();
	SHAPES(ASYNC)
	ASK("async_null", cuMemcpy3DAsync(NULL, stream));
}

GROUP(places)
{
	setup();
	ask_guard();
	PLACES(SYNC)
}

GROUP(places_async)
{
	setup();
	ask_guard();
	PLACES(ASYNC)
}

static struct {
	const char *name;
	CUdeviceptr at;
} kinds[5];

static void list_kinds(void)
{
	kinds[0].name = "device", kinds[0].at = device_b;
	kinds[1].name = "host", kinds[1].at = AT(host);
	kinds[2].name = "registered", kinds[2].at = AT(registered);
	kinds[3].name = "managed", kinds[3].at = managed;
	kinds[4].name = "malloced", kinds[4].at = AT(pageable);
}

/* The second half of the memory of each kind is where copies go. */
static void clear_half(int kind)
{
	if (kind == 0)
		cuMemsetD8(device_b + BYTES / 2, 0xaa, BYTES / 2);
	else
		memset((void *)(uintptr_t)(kinds[kind].at + BYTES / 2), 0xaa, BYTES / 2);
	cuCtxSynchronize();
}

static const char *half(int kind)
{
	static unsigned char bytes[BYTES];
	CUresult result = cuCtxSynchronize();

	memset(bytes, 0xaa, sizeof bytes);
	if (!result && kind == 0)
		result = cuMemcpyDtoH(bytes, device_b + BYTES / 2, BYTES / 2);
	else if (!result)
		memcpy(bytes, (void *)(uintptr_t)(kinds[kind].at + BYTES / 2), BYTES / 2);
	return result ? ask_driver_code(result) : describe(bytes);
}

static CUDA_MEMCPY3D between(int from, int to)
{
	CUDA_MEMCPY3D copy = box();

	copy.srcMemoryType = from == 4 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
	copy.dstMemoryType = to == 4 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
	copy.srcDevice = kinds[from].at;
	copy.srcHost = (void *)(uintptr_t)kinds[from].at;
	copy.dstDevice = kinds[to].at + BYTES / 2;
	copy.dstHost = (void *)(uintptr_t)(kinds[to].at + BYTES / 2);
	return copy;
}

GROUP(directions)
{
	setup();
	ask_guard();
	list_kinds();
	for (int from = 0; from < 5; from++) {
		for (int to = 0; to < 5; to++) {
			CUDA_MEMCPY3D copy = between(from, to);
			clear_half(to);
			ASK_VALUE(ask_name("%s_to_%s", kinds[from].name, kinds[to].name), cuMemcpy3D(&copy), "%s",
				  half(to));
			clear_half(to);
			ASK_VALUE(ask_name("%s_to_%s_async", kinds[from].name, kinds[to].name),
				  cuMemcpy3DAsync(&copy, stream), "%s", half(to));
		}
	}
}

extern __typeof__(cuMemcpy3D) cuMemcpy3D_v2_ptds;
extern __typeof__(cuMemcpy3DAsync) cuMemcpy3DAsync_v2_ptsz;

GROUP(streams)
{
	setup();
	CUDA_MEMCPY3D copy = box();
	ASK_VALUE("stream_null", cuMemcpy3DAsync(&copy, NULL), "%s", written());
	ASK_VALUE("stream_legacy", cuMemcpy3DAsync(&copy, CU_STREAM_LEGACY), "%s", written());
	ASK_VALUE("stream_per_thread", cuMemcpy3DAsync(&copy, CU_STREAM_PER_THREAD), "%s", written());
	ASK_VALUE("own_sync", cuMemcpy3D_v2_ptds(&copy), "%s", written());
	ASK_VALUE("own_async_null_stream", cuMemcpy3DAsync_v2_ptsz(&copy, NULL), "%s", written());
	ASK_VALUE("own_async_stream", cuMemcpy3DAsync_v2_ptsz(&copy, stream), "%s", written());
	ASK("own_null", cuMemcpy3D_v2_ptds(NULL));
	ASK("own_async_null", cuMemcpy3DAsync_v2_ptsz(NULL, NULL));
	CUcontext second = ask_context();
	ASK_VALUE("stream_foreign", cuMemcpy3DAsync(&copy, stream), "%s", written());
	ASK_VALUE("memory_foreign", cuMemcpy3D(&copy), "%s", written());
	NEED(cuCtxDestroy(second));
	ASK("stream_garbage", cuMemcpy3DAsync(&copy, GARBAGE(CUstream)));
	ASK("stream_small", cuMemcpy3DAsync(&copy, SMALL(CUstream)));
	ASK("stream_destroyed", cuMemcpy3DAsync(&copy, gone));
	copy.Depth = 0;
	ASK("stream_garbage_depth_0", cuMemcpy3DAsync(&copy, GARBAGE(CUstream)));
	ASK("stream_garbage_null", cuMemcpy3DAsync(NULL, GARBAGE(CUstream)));
}

/* Which copies wait behind a closed gate, and which have happened when the call returns. */
GROUP(order)
{
	struct gate gate;

	setup();
	gate = gate_make();
	gate_close(&gate, stream);
	CUDA_MEMCPY3D copy = box();
	ASK("gated_pinned", cuMemcpy3DAsync(&copy, stream));
	ASK("gated_query", cuStreamQuery(stream));
	host[0] = 0x5e;
	memset(&copy, 0, sizeof copy);
	gate_open(&gate);
	ASK("gated_synchronize", cuStreamSynchronize(stream));
	SAY("gated_pinned_reads_late", "%s", ask_device_bytes(device_a, 4));
	CUstream apart = NULL;
	NEED(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
	gate_close(&gate, apart);
	copy = box();
	copy.srcHost = pageable;
	ASK("gated_pageable", cuMemcpy3DAsync(&copy, apart));
	pageable[0] = 0x5f;
	ASK("gated_pageable_query", cuStreamQuery(apart));
	gate_open(&gate);
	NEED(cuStreamSynchronize(apart));
	SAY("gated_pageable_contents", "%s", ask_device_bytes(device_a, 4));
}

GROUP(sync_order)
{
	struct gate gate;

	setup();
	gate = gate_make();
	CUDA_MEMCPY3D copy = box();
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = device_b;
	gate_close(&gate, stream);
	ASK("own_passes_blocking", cuMemcpy3D_v2_ptds(&copy));
	ASK("own_passes_blocking_synchronize", cuStreamSynchronize(CU_STREAM_PER_THREAD));
	ASK("behind_sync_device_returns", cuMemcpy3D(&copy));
	ASK("behind_sync_device_query", cuStreamQuery(CU_STREAM_LEGACY));
	gate_open(&gate);
	ASK("behind_synchronize", cuCtxSynchronize());
}

/* ---- The runtime's ----------------------------------------------------------------------------------------------- */

static struct cudaMemcpy3DParms runtime_box(void)
{
	struct cudaMemcpy3DParms copy;

	memset(&copy, 0, sizeof copy);
	copy.srcPtr.ptr = host;
	copy.srcPtr.pitch = copy.srcPtr.xsize = 16;
	copy.srcPtr.ysize = 4;
	copy.dstPtr.ptr = (void *)(uintptr_t)device_a;
	copy.dstPtr.pitch = copy.dstPtr.xsize = 32;
	copy.dstPtr.ysize = 3;
	copy.extent.width = 3;
	copy.extent.height = copy.extent.depth = 2;
	copy.kind = cudaMemcpyHostToDevice;
	return copy;
}

#define RUNTIME_SHAPES(X)                                                                                         \
	X(nothing, (void)0)                                                                                       \
	X(width_0, copy.extent.width = 0)                                                                         \
	X(height_0, copy.extent.height = 0)                                                                       \
	X(depth_0, copy.extent.depth = 0)                                                                         \
	X(depth_0_null, copy.extent.depth = 0; copy.srcPtr.ptr = copy.dstPtr.ptr = NULL)                          \
	X(depth_0_kind_9, copy.extent.depth = 0; copy.kind = (enum cudaMemcpyKind)9)                              \
	X(depth_0_pitch_small, copy.extent.depth = 0; copy.srcPtr.pitch = 2)                                      \
	X(depth_1, copy.extent.depth = 1)                                                                         \
	X(full_rows, copy.extent.width = 16)                                                                      \
	X(src_pitch_0, copy.srcPtr.pitch = 0)                                                                     \
	X(dst_pitch_0, copy.dstPtr.pitch = 0)                                                                     \
	X(pitches_0, copy.srcPtr.pitch = copy.dstPtr.pitch = 0)                                                   \
	X(pitches_0_row_1, copy.srcPtr.pitch = copy.dstPtr.pitch = 0; copy.extent.height = copy.extent.depth = 1) \
	X(src_pitch_small, copy.srcPtr.pitch = 2)                                                                 \
	X(dst_pitch_small, copy.dstPtr.pitch = 2)                                                                 \
	X(dst_pitch_small_row_1, copy.dstPtr.pitch = 2; copy.extent.height = copy.extent.depth = 1)               \
	X(xsizes_0, copy.srcPtr.xsize = copy.dstPtr.xsize = 0)                                                    \
	X(ysizes_0, copy.srcPtr.ysize = copy.dstPtr.ysize = 0)                                                    \
	X(ysizes_0_depth_1, copy.srcPtr.ysize = copy.dstPtr.ysize = 0; copy.extent.depth = 1)                     \
	X(src_ysize_small, copy.srcPtr.ysize = 1)                                                                 \
	X(dst_ysize_small, copy.dstPtr.ysize = 1)                                                                 \
	X(dst_ysize_small_depth_1, copy.dstPtr.ysize = 1; copy.extent.depth = 1)                                  \
	X(dst_pitch_huge, copy.dstPtr.pitch = (size_t)1 << 40)                                                    \
	X(depth_past_end, copy.extent.depth = 1 << 20)                                                            \
	X(width_max, copy.extent.width = SIZE_MAX)                                                                \
	X(src_pos, copy.srcPos.x = 5; copy.srcPos.y = 2; copy.srcPos.z = 1)                                       \
	X(dst_pos, copy.dstPos.x = 5; copy.dstPos.y = 1; copy.dstPos.z = 2)                                       \
	X(src_pos_beyond_pitch, copy.srcPos.x = 14)                                                               \
	X(dst_pos_beyond_height, copy.dstPos.y = 2)                                                               \
	X(dst_pos_past_end, copy.dstPos.z = 1 << 20)                                                              \
	X(null_src, copy.srcPtr.ptr = NULL)                                                                       \
	X(null_dst, copy.dstPtr.ptr = NULL)                                                                       \
	X(null_both, copy.srcPtr.ptr = copy.dstPtr.ptr = NULL)                                                    \
	X(kind_host_to_host, copy.kind = cudaMemcpyHostToHost; copy.dstPtr.ptr = pageable)                        \
	X(kind_device_to_host, copy.kind = cudaMemcpyDeviceToHost)                                                \
	X(kind_device_to_device, copy.kind = cudaMemcpyDeviceToDevice)                                            \
	X(kind_default, copy.kind = cudaMemcpyDefault)                                                            \
	X(kind_5, copy.kind = (enum cudaMemcpyKind)5)                                                             \
	X(kind_negative, copy.kind = (enum cudaMemcpyKind) - 1)                                                   \
	X(pageable, copy.srcPtr.ptr = pageable)                                                                   \
	X(pageable_default, copy.srcPtr.ptr = pageable; copy.kind = cudaMemcpyDefault)                            \
	X(device, copy.srcPtr.ptr = (void *)(uintptr_t)device_b; copy.kind = cudaMemcpyDeviceToDevice)            \
	X(managed_default, copy.srcPtr.ptr = (void *)(uintptr_t)managed; copy.kind = cudaMemcpyDefault)           \
	X(src_array_too, copy.srcArray = GARBAGE(cudaArray_t))                                                    \
	X(dst_array_too, copy.dstArray = GARBAGE(cudaArray_t))                                                    \
	X(src_array_alone, copy.srcArray = GARBAGE(cudaArray_t); copy.srcPtr.ptr = NULL)                          \
	X(dst_freed, copy.dstPtr.ptr = (void *)(uintptr_t)freed)

#define RUNTIME_SYNC(name, change)                                                 \
	{                                                                          \
		struct cudaMemcpy3DParms copy = runtime_box();                     \
		change;                                                            \
		ASK_VALUE("runtime_" #name, cudaMemcpy3D(&copy), "%s", written()); \
		ASK("runtime_" #name "_last_error", cudaGetLastError());           \
	}
#define RUNTIME_ASYNC(name, change)                                                                   \
	{                                                                                             \
		struct cudaMemcpy3DParms copy = runtime_box();                                        \
		change;                                                                               \
		ASK_VALUE("runtime_async_" #name, cudaMemcpy3DAsync(&copy, stream), "%s", written()); \
	}

GROUP(runtime)
{
	setup();
	ask_guard();
	RUNTIME_SHAPES(RUNTIME_SYNC)
	ASK("runtime_null", cudaMemcpy3D(NULL));
}

GROUP(runtime_async)
{
	setup();
	ask_guard();
	RUNTIME_SHAPES(RUNTIME_ASYNC)
	ASK("runtime_async_null", cudaMemcpy3DAsync(NULL, stream));
}

extern __typeof__(cudaMemcpy3D) cudaMemcpy3D_ptds;
extern __typeof__(cudaMemcpy3DAsync) cudaMemcpy3DAsync_ptsz;

GROUP(runtime_own)
{
	struct gate gate;

	setup();
	gate = gate_make();
	struct cudaMemcpy3DParms copy = runtime_box();
	ASK_VALUE("runtime_own", cudaMemcpy3D_ptds(&copy), "%s", written());
	ASK_VALUE("runtime_own_async", cudaMemcpy3DAsync_ptsz(&copy, NULL), "%s", written());
	ASK("runtime_own_null", cudaMemcpy3D_ptds(NULL));
	ASK("runtime_own_async_null", cudaMemcpy3DAsync_ptsz(NULL, NULL));
	gate_close(&gate, stream);
	ASK("runtime_own_passes_blocking", cudaMemcpy3D_ptds(&copy));
	ASK("runtime_own_async_passes_blocking", cudaMemcpy3DAsync_ptsz(&copy, NULL));
	ASK("runtime_own_synchronize", cudaStreamSynchronize(cudaStreamPerThread));
	ASK("runtime_blocking_still", cudaStreamQuery(stream));
	gate_open(&gate);
	ASK("runtime_own_device_synchronize", cudaDeviceSynchronize());
	ASK("runtime_stream_garbage", cudaMemcpy3DAsync(&copy, GARBAGE(cudaStream_t)));
	ASK("runtime_stream_destroyed", cudaMemcpy3DAsync(&copy, gone));
}

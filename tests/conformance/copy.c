/* SPDX-License-Identifier: MIT */
/*
 * Chapter "copy": copies and fills in every direction, one and two dimensions, now and in stream order.
 */
#include "pool.h"

#include "copy.h"

CHAPTER(copy);

static void setup(void)
{
	copy_setup();
	NEED(cuMemsetD8(device_a, 0xaa, BYTES));
	NEED(cuMemsetD8(device_b, 0xbb, BYTES));
	NEED(cuCtxSynchronize());
	memset(host, 0x11, BYTES);
	memset(registered, 0x22, BYTES);
	memset(pageable, 0x33, BYTES);
	memset((void *)(uintptr_t)managed, 0x44, BYTES);
}

static struct {
	const char *name;
	CUdeviceptr at;
} kinds[5];

static void list_kinds(void)
{
	kinds[0].name = "device", kinds[0].at = device_a;
	kinds[1].name = "host", kinds[1].at = AT(host);
	kinds[2].name = "registered", kinds[2].at = AT(registered);
	kinds[3].name = "managed", kinds[3].at = managed;
	kinds[4].name = "malloced", kinds[4].at = AT(pageable);
}

static void mark(CUdeviceptr at, unsigned char byte)
{
	unsigned char bytes[32];

	memset(bytes, byte, sizeof bytes);
	cuMemcpyHtoD(at, bytes, sizeof bytes);
	cuCtxSynchronize();
}

/* Every pair of kinds through the calls that find out by themselves. */
GROUP(directions)
{
	setup();
	ask_guard();
	list_kinds();
	for (int from = 0; from < 5; from++) {
		for (int to = 0; to < 5; to++) {
			if (from == to)
				continue;
			if (from == 4)
				memset(pageable, 0x70, 32);
			else
				mark(kinds[from].at, (unsigned char)(0x70 + from));
			ASK(ask_name("copy_%s_to_%s", kinds[from].name, kinds[to].name),
			    cuMemcpy(kinds[to].at + 8, kinds[from].at, 16));
			NEED(cuCtxSynchronize());
			SAY(ask_name("copied_%s_to_%s", kinds[from].name, kinds[to].name), "%s",
			    to == 4 ? ask_bytes(pageable + 8, 16) : ask_device_bytes(kinds[to].at + 8, 16));
			ASK(ask_name("copy_async_%s_to_%s", kinds[from].name, kinds[to].name),
			    cuMemcpyAsync(kinds[to].at + 64, kinds[from].at, 16, stream));
			NEED(cuCtxSynchronize());
			SAY(ask_name("copied_async_%s_to_%s", kinds[from].name, kinds[to].name), "%s",
			    to == 4 ? ask_bytes(pageable + 64, 16) : ask_device_bytes(kinds[to].at + 64, 16));
		}
	}
}

/* The calls that name a direction, given each kind of pointer. */
GROUP(named_directions)
{
	setup();
	ask_guard();
	list_kinds();
	for (int kind = 0; kind < 5; kind++) {
		const char *name = kinds[kind].name;
		CUdeviceptr at = kinds[kind].at;
		ASK(ask_name("htod_from_%s", name), cuMemcpyHtoD(device_b, (void *)(uintptr_t)at, 16));
		ASK(ask_name("htod_to_%s", name), cuMemcpyHtoD(at + 512, host + 256, 16));
		ASK(ask_name("dtoh_to_%s", name), cuMemcpyDtoH((void *)(uintptr_t)(at + 512), device_b, 16));
		ASK(ask_name("dtoh_from_%s", name), cuMemcpyDtoH(host + 1024, at, 16));
		ASK(ask_name("dtod_from_%s", name), cuMemcpyDtoD(device_b, at, 16));
		ASK(ask_name("dtod_to_%s", name), cuMemcpyDtoD(at + 512, device_b, 16));
		ASK(ask_name("htod_async_from_%s", name),
		    cuMemcpyHtoDAsync(device_b, (void *)(uintptr_t)at, 16, stream));
		ASK(ask_name("dtoh_async_to_%s", name),
		    cuMemcpyDtoHAsync((void *)(uintptr_t)(at + 512), device_b, 16, stream));
		ASK(ask_name("dtod_async_from_%s", name), cuMemcpyDtoDAsync(device_b, at, 16, stream));
		ASK(ask_name("dtod_async_to_%s", name), cuMemcpyDtoDAsync(at + 512, device_b, 16, stream));
		ASK(ask_name("fill_%s", name), cuMemsetD8(at + 768, 1, 16));
		ASK(ask_name("fill_async_%s", name), cuMemsetD8Async(at + 768, 2, 16, stream));
		ASK(ask_name("named_%s_synchronize", name), cuCtxSynchronize());
	}
}

GROUP(sizes)
{
	setup();
	ask_guard();
	ASK("copy_0", cuMemcpy(device_a, device_b, 0));
	ASK("copy_0_null", cuMemcpy(0, 0, 0));
	ASK("copy_0_garbage", cuMemcpy(GARBAGE(CUdeviceptr), SMALL(CUdeviceptr), 0));
	ASK("copy_async_0", cuMemcpyAsync(device_a, device_b, 0, stream));
	ASK("copy_async_0_null", cuMemcpyAsync(0, 0, 0, stream));
	ASK("htod_0_null", cuMemcpyHtoD(0, NULL, 0));
	ASK("dtoh_0_null", cuMemcpyDtoH(NULL, 0, 0));
	ASK("dtod_0_null", cuMemcpyDtoD(0, 0, 0));
	ASK("htod_null_host", cuMemcpyHtoD(device_a, NULL, 16));
	ASK("htod_null_device", cuMemcpyHtoD(0, host, 16));
	ASK("dtoh_null_host", cuMemcpyDtoH(NULL, device_a, 16));
	ASK("dtoh_null_device", cuMemcpyDtoH(host, 0, 16));
	ASK("dtod_null_to", cuMemcpyDtoD(0, device_a, 16));
	ASK("dtod_null_from", cuMemcpyDtoD(device_a, 0, 16));
	ASK("dtod_same", cuMemcpyDtoD(device_a, device_a, 16));
	ASK("dtod_overlap", cuMemcpyDtoD(device_a + 4, device_a, 16));
	ASK("dtod_past_end", cuMemcpyDtoD(device_a, device_b, (size_t)64 << 20));
	ASK("htod_past_end_by_1", cuMemcpyHtoD(device_a + BYTES, host, 1));
	ASK("copy_huge", cuMemcpy(device_a, device_b, (size_t)1 << 60));
	ASK("copy_max", cuMemcpy(device_a, device_b, SIZE_MAX));
	ASK("sizes_synchronize", cuCtxSynchronize());
}

GROUP(freed)
{
	setup();
	ask_guard();
	NEED(cuMemFree(device_b));
	ASK("freed_dtod_from", cuMemcpyDtoD(device_a, device_b, 16));
	ASK("freed_dtod_to", cuMemcpyDtoD(device_b, device_a, 16));
	ASK("freed_htod", cuMemcpyHtoD(device_b, host, 16));
	ASK("freed_dtoh", cuMemcpyDtoH(host, device_b, 16));
	ASK("freed_fill", cuMemsetD8(device_b, 1, 16));
	ASK("freed_synchronize", cuCtxSynchronize());
}

GROUP(garbage_addresses)
{
	setup();
	ask_guard();
	ASK("garbage_dtod_from", cuMemcpyDtoD(device_a, GARBAGE(CUdeviceptr), 16));
	ASK("garbage_dtod_to", cuMemcpyDtoD(GARBAGE(CUdeviceptr), device_a, 16));
	ASK("garbage_htod", cuMemcpyHtoD(GARBAGE(CUdeviceptr), host, 16));
	ASK("garbage_fill", cuMemsetD8(GARBAGE(CUdeviceptr), 1, 16));
	ASK("garbage_synchronize", cuCtxSynchronize());
	ASK("garbage_copy_from", cuMemcpy(device_a, GARBAGE(CUdeviceptr), 16));
	ASK("garbage_htod_from", cuMemcpyHtoD(device_a, GARBAGE(void *), 16));
	ASK("garbage_dtoh_to", cuMemcpyDtoH(GARBAGE(void *), device_a, 16));
	ASK("garbage_synchronize_at_end", cuCtxSynchronize());
}

GROUP(fills)
{
	setup();
	ask_guard();
	ASK("fill8", cuMemsetD8(device_a, 0x12, 3));
	ASK("fill16", cuMemsetD16(device_a + 4, 0x1234, 2));
	ASK("fill32", cuMemsetD32(device_a + 12, 0x12345678, 2));
	SAY("filled", "%s", ask_device_bytes(device_a, 24));
	ASK("fill8_0", cuMemsetD8(device_a, 0, 0));
	ASK("fill8_0_null", cuMemsetD8(0, 0, 0));
	ASK("fill8_null", cuMemsetD8(0, 0, 16));
	ASK("fill16_odd", cuMemsetD16(device_a + 1, 0, 2));
	ASK("fill32_by_1", cuMemsetD32(device_a + 1, 0, 2));
	ASK("fill32_by_2", cuMemsetD32(device_a + 2, 0, 2));
	ASK("fill8_past_end", cuMemsetD8(device_a, 0, (size_t)64 << 20));
	ASK("fill32_count_overflow", cuMemsetD32(device_a, 0, SIZE_MAX / 2));
	ASK("fill8_async", cuMemsetD8Async(device_b, 1, 3, stream));
	ASK("fill16_async", cuMemsetD16Async(device_b + 4, 0x0203, 2, stream));
	ASK("fill32_async", cuMemsetD32Async(device_b + 8, 0x04050607, 2, stream));
	NEED(cuStreamSynchronize(stream));
	SAY("filled_async", "%s", ask_device_bytes(device_b, 20));
	ASK("fill16_async_odd", cuMemsetD16Async(device_b + 1, 0, 2, stream));
	ASK("fill32_async_by_2", cuMemsetD32Async(device_b + 2, 0, 2, stream));
	ASK("fill8_async_null", cuMemsetD8Async(0, 0, 16, stream));
	ASK("fill8_async_0", cuMemsetD8Async(device_b, 0, 0, stream));
}

GROUP(fills_2d)
{
	setup();
	ask_guard();
	ASK("fill2d8", cuMemsetD2D8(device_a, 16, 0x21, 3, 2));
	SAY("filled2d8", "%s", ask_device_bytes(device_a, 36));
	ASK("fill2d16", cuMemsetD2D16(device_b, 16, 0x2122, 2, 2));
	SAY("filled2d16", "%s", ask_device_bytes(device_b, 36));
	ASK("fill2d32", cuMemsetD2D32(device_b + 64, 16, 0x23242526, 2, 2));
	SAY("filled2d32", "%s", ask_device_bytes(device_b + 64, 36));
	ASK("fill2d8_width_0", cuMemsetD2D8(device_a, 16, 1, 0, 2));
	ASK("fill2d8_height_0", cuMemsetD2D8(device_a, 16, 1, 3, 0));
	ASK("fill2d8_both_0_null", cuMemsetD2D8(0, 0, 1, 0, 0));
	ASK("fill2d8_pitch_0", cuMemsetD2D8(device_a, 0, 1, 3, 2));
	ASK("fill2d8_pitch_0_height_1", cuMemsetD2D8(device_a, 0, 1, 3, 1));
	ASK("fill2d8_pitch_small", cuMemsetD2D8(device_a, 2, 1, 3, 2));
	ASK("fill2d16_pitch_odd", cuMemsetD2D16(device_a, 17, 1, 3, 2));
	ASK("fill2d32_pitch_18", cuMemsetD2D32(device_a, 18, 1, 3, 2));
	ASK("fill2d32_address_by_2", cuMemsetD2D32(device_a + 2, 16, 1, 3, 2));
	ASK("fill2d8_null", cuMemsetD2D8(0, 16, 1, 3, 2));
	ASK("fill2d8_past_end", cuMemsetD2D8(device_a, 1 << 20, 1, 16, 64));
	ASK("fill2d8_async", cuMemsetD2D8Async(device_a + 512, 16, 0x31, 3, 2, stream));
	ASK("fill2d16_async", cuMemsetD2D16Async(device_a + 576, 16, 0x3132, 3, 2, stream));
	ASK("fill2d32_async", cuMemsetD2D32Async(device_a + 640, 16, 0x33343536, 3, 2, stream));
	NEED(cuStreamSynchronize(stream));
	SAY("filled2d8_async", "%s", ask_device_bytes(device_a + 512, 36));
	SAY("filled2d16_async", "%s", ask_device_bytes(device_a + 576, 36));
	SAY("filled2d32_async", "%s", ask_device_bytes(device_a + 640, 36));
}

/* A 3 × 2 rectangle from pinned host memory to the device; each question changes one thing. */
static CUDA_MEMCPY2D rectangle(void)
{
	CUDA_MEMCPY2D copy;

	memset(&copy, 0, sizeof copy);
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = host;
	copy.srcPitch = 16;
	copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.dstDevice = device_a;
	copy.dstPitch = 32;
	copy.WidthInBytes = 3;
	copy.Height = 2;
	return copy;
}

static CUresult copy_with(void (*change)(CUDA_MEMCPY2D *copy))
{
	CUDA_MEMCPY2D copy = rectangle();

	change(&copy);
	return cuMemcpy2D(&copy);
}

#define CHANGE(name, statement)               \
	static void name(CUDA_MEMCPY2D *copy) \
	{                                     \
		statement;                    \
	}

CHANGE(nothing, (void)copy)
CHANGE(width_0, copy->WidthInBytes = 0)
CHANGE(height_0, copy->Height = 0)
CHANGE(src_pitch_0, copy->srcPitch = 0)
CHANGE(dst_pitch_0, copy->dstPitch = 0)
CHANGE(src_pitch_small, copy->srcPitch = 2)
CHANGE(dst_pitch_small, copy->dstPitch = 2)
CHANGE(dst_pitch_odd, copy->dstPitch = 33)
CHANGE(pitch_huge, copy->dstPitch = (size_t)1 << 40)
CHANGE(pitches_0_height_1, copy->srcPitch = copy->dstPitch = 0; copy->Height = 1)
CHANGE(null_src, copy->srcHost = NULL)
CHANGE(null_dst, copy->dstDevice = 0)
CHANGE(src_type_0, copy->srcMemoryType = (CUmemorytype)0)
CHANGE(src_type_9, copy->srcMemoryType = (CUmemorytype)9)
CHANGE(dst_type_9, copy->dstMemoryType = (CUmemorytype)9)
CHANGE(src_array_null, copy->srcMemoryType = CU_MEMORYTYPE_ARRAY)
CHANGE(dst_array_null, copy->dstMemoryType = CU_MEMORYTYPE_ARRAY)
CHANGE(src_unified, copy->srcMemoryType = CU_MEMORYTYPE_UNIFIED; copy->srcDevice = AT(host))
CHANGE(dst_unified, copy->dstMemoryType = CU_MEMORYTYPE_UNIFIED)
CHANGE(src_pageable, copy->srcHost = pageable)
CHANGE(src_device_is_host, copy->srcMemoryType = CU_MEMORYTYPE_DEVICE; copy->srcDevice = AT(host))
CHANGE(dst_device_is_pageable, copy->dstDevice = AT(pageable))
CHANGE(src_host_is_device, copy->srcHost = (void *)(uintptr_t)device_b)
CHANGE(src_x, copy->srcXInBytes = 5)
CHANGE(src_x_beyond_pitch, copy->srcXInBytes = 15)
CHANGE(dst_y_x, copy->dstY = 2; copy->dstXInBytes = 4)
CHANGE(past_end, copy->dstY = 1 << 20)

GROUP(copies_2d)
{
	setup();
	ask_guard();
	for (int i = 0; i < BYTES; i++)
		host[i] = (char)i;
#define TRY(name) ASK("copy2d_" #name, copy_with(name))
	TRY(nothing);
	SAY("copied2d", "%s", ask_device_bytes(device_a, 40));
	TRY(width_0);
	TRY(height_0);
	TRY(src_pitch_0);
	TRY(dst_pitch_0);
	TRY(src_pitch_small);
	TRY(dst_pitch_small);
	TRY(dst_pitch_odd);
	TRY(pitch_huge);
	TRY(pitches_0_height_1);
	TRY(null_src);
	TRY(null_dst);
	TRY(src_type_0);
	TRY(src_type_9);
	TRY(dst_type_9);
	TRY(src_array_null);
	TRY(dst_array_null);
	TRY(src_unified);
	TRY(dst_unified);
	TRY(src_pageable);
	TRY(src_device_is_host);
	TRY(dst_device_is_pageable);
	TRY(src_host_is_device);
	TRY(src_x);
	TRY(src_x_beyond_pitch);
	TRY(past_end);
	NEED(cuMemsetD8(device_a, 0xaa, BYTES));
	TRY(dst_y_x);
	SAY("copied2d_dst_y_x", "%s", ask_device_bytes(device_a + 64, 40));
	ASK("copy2d_null", cuMemcpy2D(NULL));
	ASK("copy2d_async_null", cuMemcpy2DAsync(NULL, stream));
	ASK("copy2d_unaligned_null", cuMemcpy2DUnaligned(NULL));
	CUDA_MEMCPY2D copy = rectangle();
	NEED(cuMemsetD8(device_a, 0xaa, BYTES));
	ASK("copy2d_async", cuMemcpy2DAsync(&copy, stream));
	NEED(cuStreamSynchronize(stream));
	SAY("copied2d_async", "%s", ask_device_bytes(device_a, 40));
	NEED(cuMemsetD8(device_a, 0xaa, BYTES));
	copy.dstPitch = 33;
	ASK("copy2d_unaligned", cuMemcpy2DUnaligned(&copy));
	SAY("copied2d_unaligned", "%s", ask_device_bytes(device_a, 40));
	copy.dstPitch = 2;
	ASK("copy2d_async_dst_pitch_small", cuMemcpy2DAsync(&copy, stream));
	ASK("copy2d_unaligned_dst_pitch_small", cuMemcpy2DUnaligned(&copy));
}

GROUP(copies_2d_kinds)
{
	setup();
	ask_guard();
	list_kinds();
	for (int from = 0; from < 5; from++) {
		for (int to = 0; to < 5; to++) {
			CUDA_MEMCPY2D copy;
			memset(&copy, 0, sizeof copy);
			copy.srcMemoryType = from == 4 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
			copy.dstMemoryType = to == 4 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
			copy.srcDevice = kinds[from].at;
			copy.srcHost = from == 4 ? pageable : NULL;
			copy.dstDevice = kinds[to].at + 1024;
			copy.dstHost = to == 4 ? pageable + 1024 : NULL;
			copy.srcPitch = copy.dstPitch = 64;
			copy.WidthInBytes = copy.Height = 4;
			ASK(ask_name("copy2d_%s_to_%s", kinds[from].name, kinds[to].name), cuMemcpy2D(&copy));
		}
	}
	ASK("copies_2d_kinds_synchronize", cuCtxSynchronize());
}

GROUP(peers)
{
	CUcontext first = NULL, second;
	CUdeviceptr there = 0;

	setup();
	NEED(cuCtxGetCurrent(&first));
	second = ask_context();
	ask_guard();
	NEED(cuMemAlloc(&there, BYTES));
	ASK("peer_two_contexts", cuMemcpyPeer(there, second, device_a, first, 16));
	NEED(cuCtxSynchronize());
	SAY("peer_copied", "%s", ask_device_bytes(there, 16));
	ASK("peer_same_context", cuMemcpyPeer(there, second, there + 64, second, 16));
	ASK("peer_0", cuMemcpyPeer(there, second, device_a, first, 0));
	ASK("peer_null_context", cuMemcpyPeer(there, NULL, device_a, first, 16));
	ASK("peer_null_contexts", cuMemcpyPeer(there, NULL, device_a, NULL, 16));
	ASK("peer_swapped_contexts", cuMemcpyPeer(there, first, device_a, second, 16));
	ASK("peer_null_address", cuMemcpyPeer(0, second, device_a, first, 16));
	ASK("peer_host_address", cuMemcpyPeer(there, second, AT(host), first, 16));
	ASK("peer_async_null_stream", cuMemcpyPeerAsync(there, second, device_a, first, 16, NULL));
	ASK("peer_async_foreign_stream", cuMemcpyPeerAsync(there, second, device_a, first, 16, stream));
	ASK("peer_synchronize", cuCtxSynchronize());
	ASK("peer_garbage_context", cuMemcpyPeer(there, GARBAGE(CUcontext), device_a, first, 16));
}

/* Which copies wait in a stream behind a closed gate, and which have happened when the call returns. */
GROUP(order)
{
	struct gate gate;

	setup();
	gate = gate_make();
	gate_close(&gate, stream);
	ASK("gated_dtoh_pinned", cuMemcpyDtoHAsync(host + 512, device_a, 16, stream));
	ASK("gated_fill", cuMemsetD8Async(device_b, 1, 16, stream));
	ASK("gated_htod_pinned", cuMemcpyHtoDAsync(device_a, host + 1024, 16, stream));
	SAY("gated_dtoh_not_yet", "%s", ask_bytes(host + 512, 16));
	ASK("gated_query", cuStreamQuery(stream));
	host[1024] = 0x5e;
	gate_open(&gate);
	ASK("gated_synchronize", cuStreamSynchronize(stream));
	SAY("gated_dtoh_done", "%s", ask_bytes(host + 512, 16));
	SAY("gated_htod_reads_late", "%s", ask_device_bytes(device_a, 16));
}

GROUP(order_pageable)
{
	struct gate gate;
	CUstream apart = NULL;

	setup();
	NEED(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
	gate = gate_make();
	gate_close(&gate, apart);
	ASK("gated_htod_pageable", cuMemcpyHtoDAsync(device_a, pageable, 16, apart));
	pageable[0] = 0x5e;
	ASK("gated_htod_pageable_query", cuStreamQuery(apart));
	gate_open(&gate);
	NEED(cuStreamSynchronize(apart));
	SAY("gated_htod_pageable_contents", "%s", ask_device_bytes(device_a, 16));
}

GROUP(sync_order)
{
	struct gate gate;
	CUstream apart = NULL;

	setup();
	NEED(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
	gate = gate_make();
	gate_close(&gate, apart);
	ASK("apart_sync_dtoh", cuMemcpyDtoH(pageable, device_a, 16));
	ASK("apart_sync_htod", cuMemcpyHtoD(device_a, pageable, 16));
	ASK("apart_sync_dtod", cuMemcpyDtoD(device_b, device_a, 16));
	ASK("apart_sync_fill", cuMemsetD8(device_b, 1, 16));
	ASK("apart_still_blocked", cuStreamQuery(apart));
	gate_open(&gate);
	ASK("apart_synchronize", cuCtxSynchronize());
	gate_close(&gate, stream);
	ASK("behind_sync_dtod_returns", cuMemcpyDtoD(device_b, device_a, 16));
	ASK("behind_sync_dtod_legacy_query", cuStreamQuery(CU_STREAM_LEGACY));
	ASK("behind_sync_fill_returns", cuMemsetD8(device_b, 2, 16));
	ASK("behind_sync_fill_legacy_query", cuStreamQuery(CU_STREAM_LEGACY));
	gate_open(&gate);
	ASK("behind_synchronize", cuCtxSynchronize());
}

/* ---- Memory of the host to which no device was given rights ---- */

/* What is there, as the processor sees it where it can. */
static const char *seen(CUdeviceptr at)
{
	return at - device_a < BYTES ? ask_device_bytes(at, 16) : ask_bytes((const void *)(uintptr_t)at, 16);
}

static void ask_without_rights(const char *kind, CUdeviceptr first, CUdeviceptr second)
{
	const struct {
		const char *name;
		CUdeviceptr to, from;
	} ways[] = {
		{"managed_to_block", first, managed},  {"block_to_block", second, first},
		{"block_to_device", device_a, second}, {"device_to_block", first, device_b},
		{"block_to_managed", managed, first},  {"host_to_block", first, AT(host)},
		{"block_to_host", AT(host), second},   {"malloced_to_block", second, AT(pageable)},
	};

	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		ASK(ask_name("%s_%s_async", kind, ways[i].name), cuMemcpyAsync(ways[i].to, ways[i].from, 16, NULL));
		NEED(cuCtxSynchronize());
		SAY(ask_name("%s_%s_async_bytes", kind, ways[i].name), "%s", seen(ways[i].to));
		ASK(ask_name("%s_%s", kind, ways[i].name), cuMemcpy(ways[i].to + 16, ways[i].from, 16));
		NEED(cuCtxSynchronize());
		SAY(ask_name("%s_%s_bytes", kind, ways[i].name), "%s", seen(ways[i].to + 16));
	}
	ASK(ask_name("%s_dtod", kind), cuMemcpyDtoD(second, first, 16));
	ASK(ask_name("%s_dtod_to", kind), cuMemcpyDtoD(first, device_a, 16));
	ASK(ask_name("%s_dtod_from", kind), cuMemcpyDtoD(device_a, first, 16));
	ASK(ask_name("%s_htod_to", kind), cuMemcpyHtoD(first, pageable, 16));
	ASK(ask_name("%s_htod_from", kind), cuMemcpyHtoD(device_a, (const void *)(uintptr_t)first, 16));
	ASK(ask_name("%s_dtoh_to", kind), cuMemcpyDtoH((void *)(uintptr_t)first, device_a, 16));
	ASK(ask_name("%s_dtoh_from", kind), cuMemcpyDtoH(pageable, first, 16));
	ASK(ask_name("%s_fill", kind), cuMemsetD8(first, 0x77, 16));
	ASK(ask_name("%s_fill_async", kind), cuMemsetD8Async(first, 0x77, 16, NULL));
	ASK(ask_name("%s_fill_words", kind), cuMemsetD32(first, 0x77, 4));
	ASK(ask_name("%s_synchronize", kind), cuCtxSynchronize());
}

static void ask_pool_without_rights(const char *kind, int type)
{
	setup();
	CUmemoryPool pool = pool_make_as(pool_properties(PINNED, type, 0));
	CUdeviceptr first = pool_alloc(pool, BYTES, NULL), second = pool_alloc(pool, BYTES, NULL);
	NEED(cuCtxSynchronize());
	ask_guard();
	ask_without_rights(kind, first, second);
}

GROUP(host_pool_without_rights)
{
	ask_pool_without_rights("host_pool", HOST);
}

GROUP(numa_pool_without_rights)
{
	ask_pool_without_rights("numa_pool", NUMA);
}

/* The same memory, mapped by the program, which has given rights to the host alone. */
GROUP(mapped_without_rights)
{
	setup();
	vmm_measure();
	CUdeviceptr at = vmm_reserve(1);
	CUmemAccessDesc access = vmm_access(HOST, 0, WRITE);
	vmm_map(at, 1, vmm_create_as(1, vmm_properties(NUMA, 0, 0)), NONE);
	NEED(cuMemSetAccess(at, grain, &access, 1));
	ask_guard();
	ask_without_rights("mapped", at, at + BYTES);
}

/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills: the right bytes, no others, at the right time, and never a crash.
 */
#include "harness.h"

#include "cenote/cenote.h"
#include "driver/host/registry.h"

#include <sys/mman.h>

enum { BYTES = 8192, PAGE = 4096, MIB = 1 << 20 };

#define GARBAGE       0x5a5a5a5a5a5a5a50ull
#define HOST(pointer) ((unsigned char *)(uintptr_t)(pointer))
#define AT(pointer)   ((CUdeviceptr)(uintptr_t)(pointer))

/* One place of each kind of memory. On the host device all can be looked at directly. */
static struct places {
	CUdeviceptr device, other, managed;
	unsigned char *pinned, *registered, *plain;
	CUstream stream;
} places;

static void start(void)
{
	CUcontext context;
	void *pinned;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
	ASSERT_OK(cuMemAlloc(&places.device, BYTES));
	ASSERT_OK(cuMemAlloc(&places.other, BYTES));
	ASSERT_OK(cuMemAllocManaged(&places.managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	ASSERT_OK(cuMemAllocHost(&pinned, BYTES));
	places.pinned = pinned;
	places.registered = aligned_alloc(PAGE, BYTES);
	ASSERT_OK(cuMemHostRegister(places.registered, BYTES, 0));
	places.plain = malloc(BYTES);
	ASSERT_OK(cuStreamCreate(&places.stream, CU_STREAM_DEFAULT));
}

static void finish(void)
{
	CUcontext context;

	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT_OK(cuCtxDestroy(context));
	free(places.registered);
	free(places.plain);
}

/* A stream that stands still until the gate is opened. */
static void gate_close(CUstream stream)
{
	uint32_t *word = (uint32_t *)(void *)(places.pinned + BYTES - 8);

	*word = 0;
	ASSERT_OK(cuStreamWaitValue32(stream, AT(word), 1, CU_STREAM_WAIT_VALUE_EQ));
}

static void gate_open(void)
{
	__atomic_store_n((uint32_t *)(void *)(places.pinned + BYTES - 8), 1, __ATOMIC_RELEASE);
}

/* Goal: every kind of memory can be copied to every other, and only the bytes asked for change. */
TEST(every_direction)
{
	CUdeviceptr at[5];

	start();
	at[0] = places.device, at[1] = places.managed, at[2] = AT(places.pinned);
	at[3] = AT(places.registered), at[4] = AT(places.plain);
	for (int pair = 0; pair < 50; pair++) {
		CUdeviceptr to = at[pair % 5] + 64, from = at[pair / 5 % 5] + 1024;
		unsigned char expected[128];
		memset(HOST(at[pair % 5]), 0x11, 256);
		memset(HOST(from), 0x40 + pair, 100);
		if (pair < 25)
			ASSERT_OK(cuMemcpy(to, from, 100));
		else
			ASSERT_OK(cuMemcpyAsync(to, from, 100, places.stream));
		ASSERT_OK(cuCtxSynchronize());
		memset(expected, 0x11, sizeof expected);
		memset(expected + 14, 0x40 + pair, 100);
		ASSERT_MEMEQ(expected, HOST(to) - 14, sizeof expected);
	}
	finish();
}

/* Goal: a range that leaves its allocation is refused, and nothing of it is copied. */
TEST(bounds_are_checked)
{
	start();
	memset(HOST(places.device), 0x22, BYTES);
	memset(places.pinned, 0x33, BYTES);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(places.device + 1, places.pinned, BYTES));
	ASSERT_CONTAINS("8192 bytes", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(places.pinned, places.device + BYTES - 1, 2));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(places.device, places.other, SIZE_MAX));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy(places.device, places.other, (size_t)1 << 60));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync(places.device, places.other, BYTES + 1, places.stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(places.device + 1, 1, BYTES));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(places.device, 1, SIZE_MAX / 2));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8(places.device, SIZE_MAX / 2, 1, 16, 16));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8(places.device, 1024, 1, 1024, 9));
	ASSERT_OK(cuMemsetD2D8(places.device, 1024, 0x22, 1024, 8));
	ASSERT_OK(cuCtxSynchronize());
	for (int i = 0; i < BYTES; i++)
		ASSERT_EQ(0x22, HOST(places.device)[i]);
	finish();
}

/* Goal: addresses that are nothing get an error, from every call, and the stream goes on. */
TEST(garbage_is_refused)
{
	unsigned char *hole = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const CUdeviceptr bad[] = {0, 0x1234, GARBAGE, UINT64_MAX - 4};

	start();
	ASSERT_SYS(munmap(hole + PAGE, PAGE));
	for (int i = 0; i < 4; i++) {
		CUdeviceptr at = bad[i];
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy(places.device, at, 16));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy(at, places.device, 16));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(places.device, HOST(at), 16));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(at, places.pinned, 16));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(HOST(at), places.device, 16));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(at, places.device, 16));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(places.device, HOST(at), 16, places.stream));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync(HOST(at), places.device, 16, places.stream));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(at, 1, 16, places.stream));
	}
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(places.device, hole + PAGE - 8, 16));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(hole + PAGE - 8, places.device, 16));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(places.device, hole + PAGE - 8, 16, places.stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemcpyAsync(places.device, places.other, 16, (CUstream)GARBAGE));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemsetD8Async(places.device, 1, 16, (CUstream)GARBAGE));
	ASSERT_OK(cuMemcpyHtoD(places.device, places.plain, 16));
	ASSERT_OK(cuStreamSynchronize(places.stream));
	ASSERT_SYS(munmap(hole, PAGE));
	finish();
}

/* Goal: a copy of page-locked memory waits in its stream, reads when its turn comes, and the caller goes on. */
TEST(pinned_copies_happen_in_stream_order)
{
	start();
	memset(places.pinned, 1, 64);
	memset(HOST(places.device), 2, 64);
	gate_close(places.stream);
	ASSERT_OK(cuMemcpyHtoDAsync(places.device, places.pinned, 32, places.stream));
	ASSERT_OK(cuMemcpyDtoHAsync(places.pinned + 64, places.device, 32, places.stream));
	ASSERT_OK(cuMemsetD8Async(places.device, 9, 32, places.stream));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(places.stream));
	ASSERT_EQ(2, HOST(places.device)[0]);
	memset(places.pinned, 3, 32);
	gate_open();
	ASSERT_OK(cuStreamSynchronize(places.stream));
	ASSERT_EQ(3, places.pinned[64]);
	ASSERT_EQ(9, HOST(places.device)[0]);
	finish();
}

/* Goal: a short source in plain memory is read before the call returns, though the stream stands still. */
TEST(plain_source_may_change_at_once)
{
	CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST, .dstMemoryType = CU_MEMORYTYPE_DEVICE};

	start();
	rows.srcHost = places.plain + 1024, rows.srcPitch = 64;
	rows.dstDevice = places.other, rows.dstPitch = 32;
	rows.WidthInBytes = 8, rows.Height = 4;
	memset(places.plain, 5, BYTES);
	memset(HOST(places.device), 0, BYTES);
	memset(HOST(places.other), 0, BYTES);
	gate_close(places.stream);
	ASSERT_OK(cuMemcpyHtoDAsync(places.device, places.plain, 1000, places.stream));
	ASSERT_OK(cuMemcpy2DAsync(&rows, places.stream));
	memset(places.plain, 6, BYTES);
	ASSERT_EQ(0, HOST(places.device)[0]);
	gate_open();
	ASSERT_OK(cuStreamSynchronize(places.stream));
	ASSERT_EQ(5, HOST(places.device)[0]);
	ASSERT_EQ(5, HOST(places.device)[999]);
	ASSERT_EQ(0, HOST(places.device)[1000]);
	for (int i = 0; i < 4 * 32; i++)
		ASSERT_EQ(i % 32 < 8 ? 5 : 0, HOST(places.other)[i]);
	finish();
}

/*
 * Goal: what goes to plain memory, goes from host to host, or is long and comes from plain memory, is done on return.
 */
TEST(plain_memory_is_waited_for)
{
	unsigned char *large = malloc(4 * MIB);
	CUdeviceptr device;
	void *pinned;

	start();
	ASSERT_OK(cuMemAlloc(&device, 4 * MIB));
	memset(large, 7, 4 * MIB);
	ASSERT_OK(cuMemcpyHtoDAsync(device, large, 4 * MIB, places.stream));
	memset(large, 8, 4 * MIB);
	ASSERT_EQ(7, HOST(device)[4 * MIB - 1]);
	ASSERT_OK(cuMemcpyDtoHAsync(large, device, 4 * MIB, places.stream));
	ASSERT_EQ(7, large[4 * MIB - 1]);
	ASSERT_OK(cuMemHostAlloc(&pinned, 4 * MIB, 0));
	ASSERT_OK(cuMemcpyAsync(AT(pinned), AT(large), 4 * MIB, places.stream));
	ASSERT_EQ(7, ((unsigned char *)pinned)[4 * MIB - 1]);
	memset(pinned, 9, 2 * MIB);
	ASSERT_OK(cuMemcpyAsync(AT(pinned) + 2 * MIB, AT(pinned), 2 * MIB, places.stream));
	ASSERT_EQ(9, ((unsigned char *)pinned)[4 * MIB - 1]);
	free(large);
	finish();
}

/* Goal: calls without a stream follow the blocking streams, and between device memory they do not wait for them. */
TEST(device_to_device_does_not_wait)
{
	start();
	memset(HOST(places.device), 1, BYTES);
	memset(HOST(places.other), 2, BYTES);
	gate_close(places.stream);
	ASSERT_OK(cuMemcpyDtoD(places.other, places.device, 16));
	ASSERT_OK(cuMemsetD8(places.device, 3, 16));
	ASSERT_EQ(2, HOST(places.other)[0]);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
	gate_open();
	ASSERT_OK(cuStreamSynchronize(CU_STREAM_LEGACY));
	ASSERT_EQ(1, HOST(places.other)[0]);
	ASSERT_EQ(3, HOST(places.device)[0]);
	finish();
}

static void copy_and_look(CUdeviceptr large)
{
	for (int round = 1; round < 5; round++) {
		ASSERT_OK(cuMemsetD8(large, (unsigned char)round, 8 * MIB));
		ASSERT_EQ(round, HOST(large)[8 * MIB - 1]);
		ASSERT_OK(cuMemcpyDtoD(large + 8 * MIB, large, 8 * MIB));
		ASSERT_EQ(round, HOST(large)[16 * MIB - 1]);
	}
}

/* Goal: with SYNC_MEMOPS, of the memory or of the context, even those have happened on return. */
TEST(sync_memops_are_done_on_return)
{
	CUdeviceptr large;
	unsigned int on = 1, off = 0;

	start();
	ASSERT_OK(cuMemAlloc(&large, 16 * MIB));
	ASSERT_OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, large + 1));
	copy_and_look(large);
	ASSERT_OK(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, large));
	ASSERT_OK(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
	copy_and_look(large);
	finish();
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);

/* Goal: the per-thread twins use the thread's stream, which does not follow other streams. */
TEST(per_thread_twins_use_the_threads_stream)
{
	start();
	memset(places.plain, 4, BYTES);
	gate_close(places.stream);
	ASSERT_OK(cuMemcpyHtoD_v2_ptds(places.device, places.plain, 16)); /* cuMemcpyHtoD() would wait for ever */
	ASSERT_EQ(4, HOST(places.device)[0]);
	ASSERT_OK(cuMemsetD8_v2_ptds(places.device, 5, 16));
	ASSERT_OK(cuMemcpyAsync_ptsz(AT(places.pinned), places.device, 16, NULL));
	ASSERT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	ASSERT_EQ(5, places.pinned[0]);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(places.stream));
	gate_open();
	finish();
}

/* Goal: fills write whole elements, in rows, and are refused when they do not fit their alignment. */
TEST(fills)
{
	static const uint16_t halves[] = {0x3456, 0x3456};
	static const uint32_t words[] = {0x789abcde, 0x789abcde};
	unsigned char expected[64];

	start();
	memset(HOST(places.device), 0, BYTES);
	memset(expected, 0, sizeof expected);
	ASSERT_OK(cuMemsetD8(places.device, 0x12, 3));
	ASSERT_OK(cuMemsetD16(places.device + 4, 0x3456, 2));
	ASSERT_OK(cuMemsetD2D32(places.device + 16, 12, 0x789abcde, 2, 3));
	ASSERT_OK(cuCtxSynchronize());
	memset(expected, 0x12, 3);
	memcpy(expected + 4, halves, sizeof halves);
	for (int row = 0; row < 3; row++)
		memcpy(expected + 16 + row * 12, words, sizeof words);
	ASSERT_MEMEQ(expected, HOST(places.device), sizeof expected);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD16(places.device + 1, 0, 2));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(places.device + 2, 0, 2));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32(places.device, 7, 0, 2, 2));
	ASSERT_OK(cuMemsetD8(places.device, 0, 0));
	ASSERT_MEMEQ(expected, HOST(places.device), sizeof expected);
	finish();
}

/* Goal: rectangles go where a plain loop would put them, for any offsets and pitches. */
TEST(rectangles_against_a_loop)
{
	struct test_random random = test_random_start(0);
	unsigned char *expected = malloc(BYTES);

	start();
	for (int i = 0; i < BYTES; i++)
		places.plain[i] = (unsigned char)test_random_next(&random);
	memcpy(places.pinned, places.plain, BYTES);
	memcpy(places.registered, places.plain, BYTES);
	for (int round = 0; round < 500; round++) {
		CUDA_MEMCPY2D copy = {.WidthInBytes = 1 + test_random_below(&random, 40),
				      .Height = 1 + test_random_below(&random, 20)};
		unsigned char *sources[] = {places.plain, places.pinned, places.registered};
		copy.srcMemoryType = test_random_below(&random, 2) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
		copy.srcHost = sources[test_random_below(&random, copy.srcMemoryType == CU_MEMORYTYPE_HOST ? 3 : 1) +
				       (copy.srcMemoryType != CU_MEMORYTYPE_HOST)];
		copy.srcDevice = AT(copy.srcHost);
		copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		copy.dstDevice = places.device;
		copy.srcXInBytes = test_random_below(&random, 10), copy.srcY = test_random_below(&random, 5);
		copy.dstXInBytes = test_random_below(&random, 10), copy.dstY = test_random_below(&random, 5);
		copy.srcPitch = copy.srcXInBytes + copy.WidthInBytes + test_random_below(&random, 30);
		copy.dstPitch = copy.dstXInBytes + copy.WidthInBytes + test_random_below(&random, 30);
		memset(expected, 0, BYTES);
		memset(HOST(places.device), 0, BYTES);
		for (size_t row = 0; row < copy.Height; row++)
			memcpy(expected + (copy.dstY + row) * copy.dstPitch + copy.dstXInBytes,
			       places.plain + (copy.srcY + row) * copy.srcPitch + copy.srcXInBytes, copy.WidthInBytes);
		if (round % 2)
			ASSERT_OK(cuMemcpy2D(&copy));
		else
			ASSERT_OK(cuMemcpy2DAsync(&copy, places.stream));
		ASSERT_OK(cuCtxSynchronize());
		ASSERT_MEMEQ(expected, HOST(places.device), BYTES);
	}
	free(expected);
	finish();
}

/* Goal: a rectangle that does not fit is refused, whatever its numbers. */
TEST(wrong_rectangles_are_refused)
{
	CUDA_MEMCPY2D good = {.srcMemoryType = CU_MEMORYTYPE_HOST, .dstMemoryType = CU_MEMORYTYPE_DEVICE}, copy;

	start();
	good.srcHost = places.plain, good.srcPitch = 64;
	good.dstDevice = places.device, good.dstPitch = 64;
	good.WidthInBytes = 64, good.Height = BYTES / 64;
	ASSERT_OK(cuMemcpy2D(&good));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(NULL));
#define REFUSED(statement)                                                 \
	do {                                                               \
		copy = good;                                               \
		statement;                                                 \
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&copy)); \
	} while (0)
	REFUSED(copy.Height++);
	REFUSED(copy.dstY = 1);
	REFUSED(copy.dstXInBytes = 1);
	REFUSED(copy.dstPitch = 63);
	REFUSED(copy.srcPitch = 63);
	REFUSED(copy.srcXInBytes = SIZE_MAX);
	REFUSED(copy.dstY = SIZE_MAX / 2);
	REFUSED(copy.Height = SIZE_MAX / 32);
	REFUSED(copy.srcHost = NULL);
	REFUSED(copy.dstDevice = 0);
	REFUSED(copy.dstDevice = GARBAGE);
	REFUSED(copy.srcHost = HOST(GARBAGE));
	REFUSED(copy.srcMemoryType = (CUmemorytype)9);
#undef REFUSED
	finish();
}

/* Goal: a copy between contexts comes after the work of both and before what follows in either. */
TEST(peer_copies_are_ordered)
{
	CUcontext first, second;
	CUdeviceptr there;

	start();
	ASSERT_OK(cuCtxGetCurrent(&first));
	memset(HOST(places.device), 1, BYTES);
	gate_close(places.stream);
	ASSERT_OK(cuMemsetD8Async(places.device, 2, BYTES, places.stream));
	ASSERT_OK(cuCtxCreate(&second, NULL, 0, 0));
	ASSERT_OK(cuMemAlloc(&there, BYTES));
	ASSERT_OK(cuMemcpyPeer(there, second, places.device, first, BYTES));
	ASSERT_OK(cuCtxSetCurrent(first));
	ASSERT_OK(cuMemsetD8Async(places.device, 3, BYTES, CU_STREAM_LEGACY));
	gate_open();
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuCtxSetCurrent(second));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(2, HOST(there)[0]);
	ASSERT_EQ(2, HOST(there)[BYTES - 1]);
	ASSERT_EQ(3, HOST(places.device)[0]);
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyPeer(there, (CUcontext)GARBAGE, places.device, first, 16));
	ASSERT_OK(cuCtxDestroy(second));
	ASSERT_OK(cuCtxSetCurrent(first));
	finish();
}

/* Goal: freed memory is not pulled away under a copy that was enqueued before. */
TEST(free_waits_for_the_work)
{
	CUdeviceptr large;

	start();
	for (int round = 0; round < 10; round++) {
		ASSERT_OK(cuMemAlloc(&large, 16 * MIB));
		ASSERT_OK(cuMemsetD8Async(large, 1, 8 * MIB, places.stream));
		ASSERT_OK(cuMemcpyDtoDAsync(large + 8 * MIB, large, 8 * MIB, places.stream));
		ASSERT_OK(cuMemFree(large));
		ASSERT_OK(cuStreamQuery(places.stream));
	}
	finish();
}

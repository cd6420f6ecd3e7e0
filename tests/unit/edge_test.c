/* SPDX-License-Identifier: MIT */
/*
 * The calls around the edge: copies in three dimensions, memory operations in batches, limits, occupancy.
 */
#include "harness.h"

#include "cenote/cenote.h"
#include "driver/host/kernel.h"
#include "gate.h"
#include "runtime/runtime.h"

#include <pthread.h>
#include <sys/mman.h>

enum { BYTES = 16384, PAGE = 4096, MIB = 1 << 20 };

#define HOST(pointer) ((unsigned char *)(uintptr_t)(pointer))
#define AT(pointer)   ((CUdeviceptr)(uintptr_t)(pointer))

extern __typeof__(cuMemcpy3D) cuMemcpy3D_v2_ptds;
extern __typeof__(cuMemcpy3DAsync) cuMemcpy3DAsync_v2_ptsz;
extern __typeof__(cuStreamBatchMemOp) cuStreamBatchMemOp_v2_ptsz;

static CUstream stream;

SETUP
{
	context_current();
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
}

/* One place of each kind of memory. On the host device all can be looked at directly. */
enum { DEVICE, MANAGED, PINNED, REGISTERED, PLAIN, KINDS };

static CUdeviceptr places[KINDS];

static void make_places(void)
{
	void *pinned, *registered = aligned_alloc(PAGE, BYTES);

	ASSERT_OK(cuMemAlloc(&places[DEVICE], BYTES));
	ASSERT_OK(cuMemAllocManaged(&places[MANAGED], BYTES, CU_MEM_ATTACH_GLOBAL));
	ASSERT_OK(cuMemAllocHost(&pinned, BYTES));
	ASSERT_OK(cuMemHostRegister(registered, BYTES, 0));
	places[PINNED] = AT(pinned);
	places[REGISTERED] = AT(registered);
	places[PLAIN] = AT(malloc(BYTES));
}

static void free_places(void)
{
	ASSERT_OK(cuMemFree(places[DEVICE]));
	ASSERT_OK(cuMemFree(places[MANAGED]));
	ASSERT_OK(cuMemFreeHost(HOST(places[PINNED])));
	ASSERT_OK(cuMemHostUnregister(HOST(places[REGISTERED])));
	free(HOST(places[REGISTERED]));
	free(HOST(places[PLAIN]));
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------- */

/* A box in the first half of one place, and one in the second half of another, that lie within it. */
static CUDA_MEMCPY3D random_box(struct test_random *random, int from, int to)
{
	CUDA_MEMCPY3D copy = {
		.srcXInBytes = test_random_below(random, 8),
		.srcY = test_random_below(random, 3),
		.srcZ = test_random_below(random, 3),
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = places[from],
		.dstXInBytes = test_random_below(random, 8),
		.dstY = test_random_below(random, 3),
		.dstZ = test_random_below(random, 3),
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = places[to] + BYTES / 2,
		.WidthInBytes = 1 + test_random_below(random, 20),
		.Height = 1 + test_random_below(random, 6),
		.Depth = 1 + test_random_below(random, 5),
	};

	/* Either may be left out, and is then as tight as can be. */
	copy.srcPitch = test_random_below(random, 4) ? 28 + test_random_below(random, 20) : 0;
	copy.dstPitch = test_random_below(random, 4) ? 28 + test_random_below(random, 20) : 0;
	copy.srcHeight = test_random_below(random, 4) ? 9 + test_random_below(random, 4) : 0;
	copy.dstHeight = test_random_below(random, 4) ? 9 + test_random_below(random, 4) : 0;
	return copy;
}

static size_t place_of(size_t base, size_t pitch, size_t height, size_t x, size_t y, size_t z)
{
	return base + (z * height + y) * pitch + x;
}

/* What the place holds afterwards, byte by byte. */
static void copy_model(const CUDA_MEMCPY3D *copy, const unsigned char *from, unsigned char *to)
{
	size_t src_pitch = copy->srcPitch ? copy->srcPitch : copy->srcXInBytes + copy->WidthInBytes;
	size_t dst_pitch = copy->dstPitch ? copy->dstPitch : copy->dstXInBytes + copy->WidthInBytes;
	size_t src_height = copy->srcHeight ? copy->srcHeight : copy->srcY + copy->Height;
	size_t dst_height = copy->dstHeight ? copy->dstHeight : copy->dstY + copy->Height;

	for (size_t z = 0; z < copy->Depth; z++)
		for (size_t y = 0; y < copy->Height; y++)
			for (size_t x = 0; x < copy->WidthInBytes; x++)
				to[place_of(BYTES / 2, dst_pitch, dst_height, copy->dstXInBytes + x, copy->dstY + y,
					    copy->dstZ + z)] =
					from[place_of(0, src_pitch, src_height, copy->srcXInBytes + x, copy->srcY + y,
						      copy->srcZ + z)];
}

static void copy_by(unsigned way, const CUDA_MEMCPY3D *copy)
{
	switch (way) {
	case 0: ASSERT_OK(cuMemcpy3D(copy)); break;
	case 1: ASSERT_OK(cuMemcpy3DAsync(copy, stream)); break;
	case 2: ASSERT_OK(cuMemcpy3D_v2_ptds(copy)); break;
	default: ASSERT_OK(cuMemcpy3DAsync_v2_ptsz(copy, NULL)); break;
	}
}

/* Goal: boxes of all shapes between all kinds of memory, by all four calls: these bytes change, and no others. */
TEST(boxes_of_all_shapes)
{
	static unsigned char source[BYTES], expected[BYTES];
	struct test_random random = test_random_start(0);

	make_places();
	for (unsigned i = 0; i < 2000 / HARNESS_SLOWDOWN; i++) {
		int from = (int)test_random_below(&random, KINDS), to = (int)test_random_below(&random, KINDS);
		CUDA_MEMCPY3D copy = random_box(&random, from, to);
		for (size_t byte = 0; byte < BYTES; byte++)
			source[byte] = (unsigned char)test_random_next(&random);
		memset(HOST(places[to]), (int)i, BYTES);
		memcpy(HOST(places[from]), source, BYTES);
		memcpy(expected, HOST(places[to]), BYTES); /* they may be one place */
		copy_model(&copy, source, expected);
		copy_by((unsigned)test_random_below(&random, 4), &copy);
		ASSERT_OK(cuCtxSynchronize());
		ASSERT_MEMEQ(expected, HOST(places[to]), BYTES);
	}
	free_places();
}

/* The same as a call of the runtime's has it. */
static struct cudaMemcpy3DParms runtime_box(const CUDA_MEMCPY3D *copy)
{
	return (struct cudaMemcpy3DParms){
		.srcPos = {copy->srcXInBytes, copy->srcY, copy->srcZ},
		.srcPtr = {HOST(copy->srcDevice), copy->srcPitch, copy->srcPitch, copy->srcHeight},
		.dstPos = {copy->dstXInBytes, copy->dstY, copy->dstZ},
		.dstPtr = {HOST(copy->dstDevice), copy->dstPitch, copy->dstPitch, copy->dstHeight},
		.extent = {copy->WidthInBytes, copy->Height, copy->Depth},
		.kind = cudaMemcpyDefault,
	};
}

/* Goal: the runtime's four calls copy the same boxes; what they refuse is this thread's last error. */
TEST(boxes_of_the_runtime)
{
	static unsigned char expected[BYTES];
	struct test_random random = test_random_start(0);

	make_places();
	for (unsigned i = 0; i < 400 / HARNESS_SLOWDOWN; i++) {
		CUDA_MEMCPY3D copy = random_box(&random, PINNED, DEVICE);
		copy.srcPitch = 40, copy.dstPitch = 44;
		copy.srcHeight = 12, copy.dstHeight = 11;
		struct cudaMemcpy3DParms given = runtime_box(&copy);
		memset(expected, (int)i, BYTES);
		memset(HOST(places[DEVICE]), (int)i, BYTES);
		for (size_t byte = 0; byte < BYTES; byte++)
			HOST(places[PINNED])[byte] = (unsigned char)test_random_next(&random);
		copy_model(&copy, HOST(places[PINNED]), expected);
		given.kind = i % 2 ? cudaMemcpyHostToDevice : cudaMemcpyDefault;
		switch (i / 2 % 4) {
		case 0: ASSERT_EQ(cudaSuccess, cudaMemcpy3D(&given)); break;
		case 1: ASSERT_EQ(cudaSuccess, cudaMemcpy3DAsync(&given, stream)); break;
		case 2: ASSERT_EQ(cudaSuccess, cudaMemcpy3D_ptds(&given)); break;
		default: ASSERT_EQ(cudaSuccess, cudaMemcpy3DAsync_ptsz(&given, NULL)); break;
		}
		ASSERT_OK(cuCtxSynchronize());
		ASSERT_MEMEQ(expected, HOST(places[DEVICE]), BYTES);
	}
	struct cudaMemcpy3DParms wrong = {.extent = {1, 1, 1}, .kind = (enum cudaMemcpyKind)9};
	ASSERT_EQ(cudaErrorInvalidMemcpyDirection, cudaMemcpy3D(&wrong));
	ASSERT_EQ(cudaErrorInvalidMemcpyDirection, cudaGetLastError());
	ASSERT_EQ(cudaErrorInvalidValue, cudaMemcpy3DAsync(NULL, stream));
	ASSERT_EQ(cudaErrorInvalidValue, cudaGetLastError());
	free_places();
}

static CUDA_MEMCPY3D plain_box(CUdeviceptr to, CUdeviceptr from, size_t pitch, size_t height, size_t depth)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = from,
		.srcPitch = pitch,
		.srcHeight = height,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = to,
		.dstPitch = pitch,
		.dstHeight = height,
		.WidthInBytes = pitch,
		.Height = height,
		.Depth = depth,
	};
}

/* Goal: a box may end with the last byte of its memory, and not one later; nothing of what is refused is copied. */
TEST(boxes_keep_their_bounds)
{
	CUDA_MEMCPY3D copy;

	make_places();
	memset(HOST(places[DEVICE]), 0x22, BYTES);
	memset(HOST(places[PINNED]), 0x33, BYTES);
	copy = plain_box(places[DEVICE], places[PINNED], 64, 16, BYTES / 1024 + 1);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DAsync(&copy, stream));
	copy.Depth--;
	copy.dstDevice++;
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
	copy.dstDevice--;
	for (int i = 0; i < 6; i++) {
		size_t *const changed[] = {&copy.Depth, &copy.Height, &copy.dstZ,
					   &copy.srcZ,  &copy.dstY,   &copy.dstHeight};
		size_t kept = *changed[i];
		*changed[i] = SIZE_MAX / 2 - (size_t)i;
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
		*changed[i] = kept;
	}
	ASSERT_OK(cuCtxSynchronize());
	for (int i = 0; i < BYTES; i++)
		ASSERT_EQ(0x22, HOST(places[DEVICE])[i]);
	ASSERT_OK(cuMemcpy3D(&copy));
	ASSERT_OK(cuCtxSynchronize());
	for (int i = 0; i < BYTES; i++)
		ASSERT_EQ(0x33, HOST(places[DEVICE])[i]);
	copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.dstArray = (CUarray)(uintptr_t)0x1234;
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemcpy3D(&copy));
	free_places();
}

/* Goal: host memory that is not there is an error of the call, and the stream goes on. */
TEST(boxes_from_nowhere)
{
	unsigned char *hole = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUDA_MEMCPY3D copy;

	make_places();
	/* Not unmapped: another thread's memory could come there. */
	ASSERT_SYS(mprotect(hole + PAGE, PAGE, PROT_NONE));
	copy = plain_box(places[DEVICE], AT(hole), 64, 16, 5);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DAsync(&copy, stream));
	copy = plain_box(AT(hole), places[DEVICE], 64, 16, 5);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DAsync(&copy, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	copy.Depth = 4;
	ASSERT_OK(cuMemcpy3DAsync(&copy, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_SYS(munmap(hole, 2 * PAGE));
	free_places();
}

/* Goal: a box waits its turn. Pinned memory is read when its turn comes, plain memory before the call returns. */
TEST(boxes_in_stream_order)
{
	struct gate gate = gate_make();
	CUDA_MEMCPY3D pinned, plain;

	make_places();
	memset(HOST(places[PINNED]), 1, BYTES);
	memset(HOST(places[PLAIN]), 2, BYTES);
	memset(HOST(places[DEVICE]), 0, BYTES);
	gate_close(gate, stream);
	pinned = plain_box(places[DEVICE], places[PINNED], 32, 4, 8);
	plain = plain_box(places[DEVICE] + BYTES / 2, places[PLAIN], 32, 4, 8);
	ASSERT_OK(cuMemcpy3DAsync(&pinned, stream));
	ASSERT_OK(cuMemcpy3DAsync(&plain, stream));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	memset(&pinned, 0, sizeof pinned);
	memset(HOST(places[PINNED]), 3, BYTES);
	memset(HOST(places[PLAIN]), 4, BYTES);
	gate_open(gate);
	ASSERT_OK(cuStreamSynchronize(stream));
	for (int i = 0; i < 1024; i++) {
		ASSERT_EQ(3, HOST(places[DEVICE])[i]);
		ASSERT_EQ(2, HOST(places[DEVICE])[BYTES / 2 + i]);
	}
	free_places();
	gate_free(gate);
}

/* Goal: a large box of plain memory is copied when the call returns; in a stream that is destroyed, still whole. */
TEST(large_boxes)
{
	enum { SIDE = 160 };
	const size_t bytes = (size_t)SIDE * SIDE * SIDE;
	unsigned char *plain = malloc(bytes);
	struct gate gate = gate_make();
	CUdeviceptr memory, second;
	CUstream brief;

	ASSERT_OK(cuMemAlloc(&memory, bytes));
	ASSERT_OK(cuMemAlloc(&second, bytes));
	for (size_t i = 0; i < bytes; i++)
		plain[i] = (unsigned char)(i * 7 + i / 251);
	CUDA_MEMCPY3D in = plain_box(memory, AT(plain), SIDE, SIDE, SIDE);
	CUDA_MEMCPY3D across = plain_box(second, memory, SIDE, SIDE, SIDE);
	ASSERT_OK(cuMemcpy3DAsync(&in, stream));
	ASSERT_MEMEQ(plain, HOST(memory), bytes);
	ASSERT_OK(cuStreamCreate(&brief, CU_STREAM_NON_BLOCKING));
	gate_close(gate, brief);
	ASSERT_OK(cuMemcpy3DAsync(&across, brief));
	ASSERT_OK(cuStreamDestroy(brief));
	gate_open(gate);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_MEMEQ(plain, HOST(second), bytes);
	ASSERT_OK(cuMemFree(memory));
	ASSERT_OK(cuMemFree(second));
	free(plain);
	gate_free(gate);
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

static CUstreamBatchMemOpParams write_word(unsigned bytes, CUdeviceptr at, uint64_t value)
{
	return (CUstreamBatchMemOpParams){
		.writeValue =
			{
				.operation =
					bytes == 4 ? CU_STREAM_MEM_OP_WRITE_VALUE_32 : CU_STREAM_MEM_OP_WRITE_VALUE_64,
				.address = at,
				.value64 = value,
			},
	};
}

static CUstreamBatchMemOpParams wait_word(unsigned bytes, CUdeviceptr at, uint64_t value)
{
	return (CUstreamBatchMemOpParams){
		.waitValue =
			{
				.operation =
					bytes == 4 ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WAIT_VALUE_64,
				.address = at,
				.value64 = value,
				.flags = CU_STREAM_WAIT_VALUE_EQ,
			},
	};
}

static CUstreamBatchMemOpParams barrier(void)
{
	return (CUstreamBatchMemOpParams){.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER}};
}

static uint64_t *make_words(void)
{
	void *words;

	ASSERT_OK(cuMemAllocHost(&words, PAGE));
	memset(words, 0, PAGE);
	return words;
}

/* Goal: a batch stops where it waits; what comes after has not happened, and happens then. */
TEST(batches_wait_in_order)
{
	uint64_t *words = make_words();
	CUstreamBatchMemOpParams batch[] = {
		write_word(8, AT(&words[0]), 0x1122334455667788),
		barrier(),
		wait_word(4, AT(&words[1]), 7),
		write_word(4, AT(&words[2]), 0xffffffff00000009),
		wait_word(8, AT(&words[2]), 9),
		write_word(8, AT(&words[3]), 10),
	};

	ASSERT_OK(cuStreamBatchMemOp(stream, 6, batch, 0));
	memset(batch, 0xff, sizeof batch); /* it has been read */
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	ASSERT_EQ(0x1122334455667788ull, __atomic_load_n(&words[0], __ATOMIC_ACQUIRE));
	ASSERT_EQ(0ull, __atomic_load_n(&words[2], __ATOMIC_ACQUIRE));
	__atomic_store_n((uint32_t *)(void *)&words[1], 7, __ATOMIC_RELEASE);
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_EQ(9ull, words[2]);
	ASSERT_EQ(10ull, words[3]);
	ASSERT_OK(cuMemFreeHost(words));
}

/* Goal: one operation that is not well formed, wherever it stands, keeps all of them out of the stream. */
TEST(batches_are_all_or_none)
{
	uint64_t *words = make_words(), plain = 0;
	CUstreamBatchMemOpParams bad[] = {
		write_word(4, 0, 1),
		write_word(8, AT(&words[4]) + 4, 1),
		wait_word(4, AT(&plain), 0),
		{.flushRemoteWrites = {.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES}},
		{.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER, .flags = 2}},
		{.operation = (CUstreamBatchMemOpType)99},
	};
	CUstreamBatchMemOpParams batch[256];

	for (int i = 0; i < 256; i++)
		batch[i] = write_word(4, AT(&words[i]), (unsigned)i + 1);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		for (int at = 0; at < 255; at += 127) {
			CUstreamBatchMemOpParams kept = batch[at];
			batch[at] = bad[i];
			ASSERT_ERROR(i == 3 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE,
				     cuStreamBatchMemOp(stream, 255, batch, 0));
			batch[at] = kept;
		}
	}
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream, 256, batch, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream, 1, batch, 1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream, 1, NULL, 0));
	ASSERT_OK(cuStreamBatchMemOp(stream, 0, NULL, 0));
	ASSERT_OK(cuStreamSynchronize(stream));
	for (int i = 0; i < 256; i++)
		ASSERT_EQ(0ull, words[i]);
	ASSERT_OK(cuStreamBatchMemOp_v2_ptsz(NULL, 255, batch, 0));
	ASSERT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	for (int i = 0; i < 255; i++)
		ASSERT_EQ((uint64_t)i + 1, words[i]);
	ASSERT_EQ(0ull, words[255]);
	ASSERT_OK(cuMemFreeHost(words));
}

/* Goal: two streams, filled by two threads, hand a word to and fro by batches; each sees the other's data. */
struct side {
	uint64_t *words;
	CUcontext context;
	unsigned own, other;
};

enum { ROUNDS = 200 };

static void *hand_over(void *data)
{
	struct side *side = data;
	CUstream own;

	ASSERT_OK(cuCtxSetCurrent(side->context));
	ASSERT_OK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
	for (unsigned round = 1; round <= ROUNDS; round++) {
		CUstreamBatchMemOpParams batch[] = {
			/* The first to move has nothing to wait for in its first round. */
			wait_word(8, AT(&side->words[side->other]), side->own ? round : round - 1),
			write_word(8, AT(&side->words[2 + side->own]), round),
			barrier(),
			write_word(8, AT(&side->words[side->own]), round),
		};
		ASSERT_OK(cuStreamBatchMemOp(own, 4, batch, 0));
	}
	ASSERT_OK(cuStreamSynchronize(own));
	ASSERT_OK(cuStreamDestroy(own));
	return NULL;
}

TEST(batches_of_two_threads)
{
	uint64_t *words = make_words();
	CUcontext context;
	pthread_t threads[2];

	ASSERT_OK(cuCtxGetCurrent(&context));
	struct side sides[] = {{words, context, 0, 1}, {words, context, 1, 0}};
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, hand_over, &sides[i]));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ((uint64_t)ROUNDS, words[i]);
	ASSERT_OK(cuMemFreeHost(words));
}

/* ---- Limits and cache settings ----------------------------------------------------------------------------------- */

static size_t limit_of(CUlimit limit)
{
	size_t value = 0;

	ASSERT_OK(cuCtxGetLimit(&value, limit));
	return value;
}

/* Goal: a limit and a cache setting are their context's, and a primary context that comes again has its first ones. */
TEST(limits_are_a_contexts_own)
{
	CUcontext first, second;
	CUfunc_cache config;

	ASSERT_OK(cuCtxGetCurrent(&first));
	size_t usual = limit_of(CU_LIMIT_MALLOC_HEAP_SIZE);
	ASSERT_OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB + 1));
	ASSERT_EQ((size_t)64 * MIB + 65536, limit_of(CU_LIMIT_MALLOC_HEAP_SIZE));
	ASSERT_OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
	ASSERT_OK(cuCtxCreate(&second, NULL, 0, 0));
	ASSERT_EQ(usual, limit_of(CU_LIMIT_MALLOC_HEAP_SIZE));
	ASSERT_OK(cuCtxGetCacheConfig(&config));
	ASSERT_EQ(CU_FUNC_CACHE_PREFER_NONE, config);
	ASSERT_OK(cuCtxDestroy(second));
	ASSERT_OK(cuCtxGetCacheConfig(&config));
	ASSERT_EQ(CU_FUNC_CACHE_PREFER_L1, config);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, SIZE_MAX));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MAX, 1));
	ASSERT_ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 1));
	ASSERT_ERROR(CUDA_ERROR_NOT_PERMITTED, cuCtxSetLimit(CU_LIMIT_SHMEM_SIZE, 1));
	ASSERT_OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, SIZE_MAX));
	ASSERT_LT(limit_of(CU_LIMIT_MALLOC_HEAP_SIZE), SIZE_MAX);
	ASSERT_OK(cuDevicePrimaryCtxReset(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&first, 0));
	ASSERT_EQ(usual, limit_of(CU_LIMIT_MALLOC_HEAP_SIZE));
	ASSERT_OK(cuCtxGetCacheConfig(&config));
	ASSERT_EQ(CU_FUNC_CACHE_PREFER_NONE, config);
}

static void *set_limits(void *data)
{
	ASSERT_OK(cuCtxSetCurrent(data));
	for (size_t i = 0; i < 1000; i++) {
		ASSERT_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024 + 16 * i));
		ASSERT_EQ(0u, limit_of(CU_LIMIT_STACK_SIZE) % 16);
		ASSERT_OK(cuCtxSetCacheConfig((CUfunc_cache)(i % 4)));
	}
	return NULL;
}

/* Goal: threads may set them at the same time. */
TEST(limits_of_two_threads)
{
	CUcontext context;
	pthread_t thread;

	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT_EQ(0, pthread_create(&thread, NULL, set_limits, context));
	set_limits(context);
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

/* ---- Occupancy --------------------------------------------------------------------------------------------------- */

static void idle(const cenote_thread *at, void **args)
{
	(void)at, (void)args;
}
CENOTE_KERNEL(idle);

static int asked_sizes[64], asked_count;

static size_t CUDA_CB shared_of(int threads)
{
	asked_sizes[asked_count++] = threads;
	return (size_t)threads * 1024;
}

/* Goal: what occupancy says can run can be launched; what it says cannot, cannot. */
TEST(occupancy_agrees_with_launches)
{
	static const int threads[] = {1, 32, 33, 1024, 1025, 4096};
	static const size_t shared[] = {0, 1024, 48 * 1024, 48 * 1024 + 1, 227 * 1024, 227 * 1024 + 1};
	CUfunction function;

	ASSERT_OK(cn_function_of_address((const void *)idle, &function));
	for (int allowed = 0; allowed < 2; allowed++) {
		if (allowed)
			ASSERT_OK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
						     227 * 1024));
		for (int i = 0; i < 36; i++) {
			int blocks = -1, of_runtime = -1;
			ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads[i / 6],
									      shared[i % 6]));
			ASSERT_EQ(cudaSuccess, cudaOccupancyMaxActiveBlocksPerMultiprocessor(
						       &of_runtime, (const void *)idle, threads[i / 6], shared[i % 6]));
			ASSERT_EQ(blocks, of_runtime);
			ASSERT_EQ(blocks > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
				  cuLaunchKernel(function, 1, 1, 1, (unsigned)threads[i / 6], 1, 1,
						 (unsigned)shared[i % 6], stream, NULL, NULL));
		}
	}
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_EQ(cudaErrorInvalidDeviceFunction, cudaOccupancyMaxActiveBlocksPerMultiprocessor(NULL, NULL, 32, 0));
	ASSERT_EQ(cudaErrorInvalidDeviceFunction, cudaGetLastError());
}

/* Goal: the best block is looked for from the largest one down, and the function is asked for each that is tried. */
TEST(the_best_block)
{
	int grid = 0, block = 0, processors = 0;
	CUfunction function;

	ASSERT_OK(cn_function_of_address((const void *)idle, &function));
	ASSERT_OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	ASSERT_OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, 0));
	ASSERT_EQ(1024, block);
	ASSERT_EQ(2 * processors, grid);
	/* A kilobyte a thread: more threads than 48 do not fit a block, and 32 leave the least over. */
	ASSERT_OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, shared_of, 0, 100));
	ASSERT_EQ(4, asked_count);
	ASSERT_EQ(100, asked_sizes[0]);
	ASSERT_EQ(96, asked_sizes[1]);
	ASSERT_EQ(32, asked_sizes[3]);
	ASSERT_EQ(32, block);
	ASSERT_EQ(6 * processors, grid);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxPotentialBlockSize(NULL, &block, function, NULL, 0, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, -1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuOccupancyMaxPotentialBlockSize(&grid, &block, NULL, NULL, 0, 0));
}

/* SPDX-License-Identifier: MIT */
/*
 * A watcher of kernels is told which bytes they read and write: all of them, and no others.
 */
#include "kernels.h"

#include <pthread.h>

enum { BYTES = 1 << 14, COUNT = 1000, USES = CENOTE_WRITES + 1 };

/* What one kernel after the other did; the device calls from several threads. */
static struct {
	pthread_mutex_t lock;
	unsigned long long number; /* of the next launch; 0: it is not watched */
	unsigned long long begun;
	int ended;
	uint64_t base;
	unsigned elsewhere; /* bytes outside of BYTES from there on */
	bool seen[USES][BYTES];
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned long long launched(void)
{
	return told.number;
}

static void *begins(unsigned long long launch)
{
	told.begun = launch;
	return &told;
}

static void touched(void *data, unsigned long long address, size_t bytes, cenote_use use)
{
	ASSERT(data == &told);
	pthread_mutex_lock(&told.lock);
	for (uint64_t at = address - told.base; bytes--; at++) {
		if (at < BYTES)
			told.seen[use][at] = true;
		else
			told.elsewhere++;
	}
	pthread_mutex_unlock(&told.lock);
}

static void ends(void *data)
{
	ASSERT(data == &told);
	told.ended++;
}

static const cenote_kernel_watcher watcher = {CENOTE_KERNEL_WATCHER_VERSION, launched, begins, touched, ends};

static void watch(unsigned long long number, uint64_t base)
{
	memset(told.seen, 0, sizeof told.seen);
	told.elsewhere = 0;
	told.ended = 0;
	told.begun = 0;
	told.number = number;
	told.base = base;
	ASSERT_OK(cenote_kernel_watch(&watcher));
}

/* Were exactly these bytes used so? */
static void expect(cenote_use use, unsigned begin, unsigned end)
{
	for (unsigned at = 0; at < BYTES; at++)
		if (told.seen[use][at] != (at >= begin && at < end))
			FAIL("byte %u, use %d: %d", at, use, told.seen[use][at]);
}

static void launch_scale(CUfunction function, CUdeviceptr memory)
{
	unsigned count = COUNT, factor = 3;
	void *parameters[] = {&memory, &count, &factor};

	ASSERT_OK(cuLaunchKernel(function, (COUNT + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
}

/* Goal: blocks on several threads tell of what they write, and the kernel has ended for the watcher before the wait. */
TEST(bytes_that_are_written)
{
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(kernels_text);
	CUdeviceptr memory = kernels_memory(BYTES);

	watch(7, memory);
	launch_scale(kernels_find(module, "scale"), memory);
	ASSERT_EQ(1, told.ended);
	ASSERT_EQ(7, told.begun);
	ASSERT_EQ(0, told.elsewhere);
	expect(CENOTE_WRITES, 0, 4 * COUNT);
	expect(CENOTE_READS, 0, 0);
	expect(CENOTE_MAY_USE, 0, 0);
	ASSERT_OK(cuCtxDestroy(context));
}

/* Reads 16 bytes a thread, with one of local and one of shared memory, and tells others of it in a word. */
static const char parts_text[] =
	PTX_HEAD ".visible .entry parts(.param .u64 at)\n"
		 "{ .reg .u64 %d<6>; .reg .u32 %r<9>; .shared .align 4 .b32 common[64]; .local .align 4 .b32 own[4];\n"
		 "ld.param.u64 %d1, [at]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 32; add.u64 %d3, %d1, %d2;\n"
		 "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d3];\n"
		 "st.shared.u32 [common], %r2; st.local.u32 [own], %r3; ld.local.u32 %r6, [own];\n"
		 "atom.global.add.u32 %r7, [%d1+8192], 1; st.volatile.global.u32 [%d1+8196], %r6; ret; }\n";

/* Goal: each thread's own bytes, not what lies between them, nor the block's own memory; words for others apart. */
TEST(bytes_between_are_left_out)
{
	enum { THREADS = 40 };
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(parts_text);
	CUdeviceptr memory = kernels_memory(BYTES);
	void *parameters[] = {&memory};

	watch(1, memory);
	ASSERT_OK(cuLaunchKernel(kernels_find(module, "parts"), 2, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_EQ(0, told.elsewhere);
	for (unsigned at = 0; at < BYTES; at++)
		ASSERT_EQ(at < 32 * THREADS && at % 32 < 16, told.seen[CENOTE_READS][at]);
	expect(CENOTE_MAY_USE, 8192, 8200);
	expect(CENOTE_WRITES, 0, 0);
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a launch that is not of interest is not watched, nor any when there is no watcher. */
TEST(others_are_not_watched)
{
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(kernels_text);
	CUdeviceptr memory = kernels_memory(BYTES);

	watch(0, memory);
	launch_scale(kernels_find(module, "scale"), memory);
	told.number = 9;
	ASSERT_OK(cenote_kernel_watch(NULL));
	launch_scale(kernels_find(module, "scale"), memory);
	ASSERT_EQ(0, told.ended);
	ASSERT_EQ(0, told.begun);
	expect(CENOTE_WRITES, 0, 0);
	ASSERT_OK(cuCtxDestroy(context));
}

/* Goal: a kernel that fails has ended, too. */
TEST(a_kernel_that_fails_ends)
{
	CUcontext context = kernels_start();
	CUmodule module = kernels_load(kernels_text);
	unsigned count = COUNT, factor = 3;
	CUdeviceptr nowhere = 4096;
	void *parameters[] = {&nowhere, &count, &factor};

	watch(1, 0);
	ASSERT_OK(cuLaunchKernel(kernels_find(module, "scale"), 8, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
	ASSERT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(NULL));
	ASSERT_EQ(1, told.ended);
	cuCtxDestroy(context);
}

/* Goal: a watcher of another version is refused, and so is one that cannot be read. */
TEST(other_watchers_are_refused)
{
	const cenote_kernel_watcher other = {.version = CENOTE_KERNEL_WATCHER_VERSION + 1};

	ASSERT_EQ(CUDA_ERROR_INVALID_VALUE, cenote_kernel_watch(&other));
	ASSERT_EQ(CUDA_ERROR_INVALID_VALUE, cenote_kernel_watch((const cenote_kernel_watcher *)(uintptr_t)8));
}

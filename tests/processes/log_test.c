/* SPDX-License-Identifier: MIT */
/*
 * The log: which process, which call, which code, and why; and a level that does not exist.
 */
#include "cenote/cenote.h"
#include "cenote/cuda.h"
#include "cenote/cuda_runtime_api.h"

#include "harness.h"

#include <sys/mman.h>
#include <unistd.h>

static int file, kept;

static void begin_log(const char *level)
{
	file = memfd_create("standard error", MFD_CLOEXEC);
	kept = dup(STDERR_FILENO);
	ASSERT_SYS(file);
	ASSERT_SYS(kept);
	ASSERT_SYS(setenv("CENOTE_LOG", level, 1));
	ASSERT_SYS(dup2(file, STDERR_FILENO));
}

/* What was printed since. */
static const char *end_log(void)
{
	static char text[4096];

	ASSERT_SYS(dup2(kept, STDERR_FILENO));
	ASSERT_SYS(unsetenv("CENOTE_LOG"));
	memset(text, 0, sizeof text);
	ASSERT_SYS(pread(file, text, sizeof text - 1, 0));
	ASSERT_SYS(close(file));
	ASSERT_SYS(close(kept));
	return text;
}

/* One line, with this process's number before what is expected. */
static void assert_line(const char *expected, const char *text)
{
	char line[512];

	snprintf(line, sizeof line, "cenote[%d]%s\n", (int)getpid(), expected);
	ASSERT_STREQ(line, text);
}

/* Goal: a failure is one line with the process, the call, the code and the sentence; also before cuInit(). */
TEST(a_line_names_process_and_call)
{
	CUdeviceptr pointer;

	begin_log("debug");
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc(&pointer, 1));
	assert_line(" cuMemAlloc: NOT_INITIALIZED: cuInit(0) has not been called", end_log());

	ASSERT_OK(cuInit(0));
	begin_log("debug");
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(NULL));
	ASSERT_CONTAINS(" cuMemPoolDestroy: INVALID_VALUE: ", end_log());
}

/* Goal: the call is the one that the program made, not one that the library made for it. */
TEST(the_call_is_the_programs)
{
	void *block;

	if (test_on_gpu())
		SKIP("on a GPU, memory that is no pool's is the driver's");
	ASSERT_EQ(cudaSuccess, cudaFree(NULL));
	begin_log("debug");
	ASSERT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&block, (size_t)1 << 60));
	ASSERT_CONTAINS(" cudaMalloc: OUT_OF_MEMORY: ", end_log());
	begin_log("debug");
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_send_pool(0, NULL));
	ASSERT_CONTAINS(" cenote_send_pool: INVALID_VALUE: ", end_log());
}

/* Goal: the calls that are made most often are named when they fail, too, in whichever part of them that is. */
TEST(allocating_and_freeing_are_named)
{
	CUcontext context;
	CUstream stream, wrong = (CUstream)(uintptr_t)0x1000;
	CUdeviceptr pointer;
	CUmemoryPool pool;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_OK(cuDeviceGetDefaultMemPool(&pool, 0));
	leaks_start_here(); /* that pool stays */
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

	begin_log("debug");
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&pointer, (size_t)1 << 60, stream));
	ASSERT_CONTAINS(" cuMemAllocAsync: OUT_OF_MEMORY: ", end_log());
	begin_log("debug");
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&pointer, 1, NULL, stream));
	ASSERT_CONTAINS(" cuMemAllocFromPoolAsync: INVALID_VALUE: ", end_log());

	ASSERT_OK(cuMemAllocAsync(&pointer, 4096, stream));
	begin_log("debug");
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(pointer + 512, stream));
	ASSERT_CONTAINS(" cuMemFreeAsync: INVALID_VALUE: ", end_log());
	ASSERT_OK(cuMemFreeAsync(pointer, stream));
	begin_log("debug");
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(pointer, stream));
	ASSERT_CONTAINS(" cuMemFreeAsync: INVALID_VALUE: ", end_log());
	if (!test_on_gpu()) { /* the driver follows such a handle */
		begin_log("debug");
		ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemFreeAsync(pointer, wrong));
		ASSERT_CONTAINS(" cuMemFreeAsync: INVALID_HANDLE: ", end_log());
	}

	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
}

static void call_cuda(void *unused)
{
	CUdeviceptr pointer;

	(void)unused;
	cuMemAlloc(&pointer, 1);
}

/* Goal: what a host function calls is named, and not the call that may have run the host function. */
TEST(a_call_in_a_host_function_is_named)
{
	CUcontext context;
	CUstream stream;

	if (test_on_gpu())
		SKIP("on a GPU, host functions are the driver's");
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	begin_log("debug");
	ASSERT_OK(cuLaunchHostFunc(stream, call_cuda, NULL));
	ASSERT_OK(cuStreamSynchronize(stream));
	assert_line(" cuMemAlloc: NOT_PERMITTED: a host function or callback of a stream may not call CUDA", end_log());
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
}

/* Goal: a level that does not exist is named, once, with the one that does; an empty one means none. */
TEST(an_unknown_level_is_named)
{
	begin_log("verbose");
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuInit(0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuInit(1));
	assert_line(": CENOTE_LOG is 'verbose', and nothing is logged; it takes debug", end_log());
}

TEST(an_empty_level_is_none)
{
	begin_log("");
	ASSERT_OK(cuInit(0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuInit(1));
	ASSERT_STREQ("", end_log());
}

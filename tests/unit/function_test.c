/* SPDX-License-Identifier: MIT */
/*
 * What programs ask about their kernels beside launching them, and layers of memory: names, occupancy with flags, banks
 * of shared memory, profilers; cudaMalloc3D() and cudaMemset3D().
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* CUDA has no more use for some of these */

#include "driver/host/kernel.h"
#include "runtime.h"

#include "cenote/cudaProfiler.h"
#include "cenote/cuda_profiler_api.h"

/* The symbols of programs whose default stream is the thread's own. */
extern __typeof__(cudaMemset3D) cudaMemset3D_ptds;
extern __typeof__(cudaMemset3DAsync) cudaMemset3DAsync_ptsz;

static void idle(const cenote_thread *at, void **args)
{
	(void)at;
	(void)args;
}
CENOTE_KERNEL(idle);

static void no_kernel(void)
{
}

static CUfunction own_function(void)
{
	CUfunction function;

	ASSERT_OK(cudaFree(NULL)); /* a context */
	ASSERT_OK(cn_function_of_address((const void *)idle, &function));
	return function;
}

/* ---- Kernels ---------------------------------------------------------------------------------------------------- */

TEST(kernels_have_names)
{
	CUfunction function = own_function();
	const char *name = NULL;

	ASSERT_OK(cuFuncGetName(&name, function));
	ASSERT_STREQ("idle", name);
	name = NULL;
	ASSERT_OK(cudaFuncGetName(&name, (const void *)idle));
	ASSERT_STREQ("idle", name);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuFuncGetName(NULL, function));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuFuncGetName(&name, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuFuncGetName(&name, (CUfunction)&name));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaFuncGetName(NULL, (const void *)idle));
	ASSERT_ERROR(cudaErrorInvalidDeviceFunction, cudaFuncGetName(&name, NULL));
	ASSERT_ERROR(cudaErrorInvalidResourceHandle, cudaFuncGetName(&name, (const void *)no_kernel));
	ASSERT_STREQ("idle", name);
}

/* Goal: flags that exist change nothing, others are refused, and both interfaces say the same. */
TEST(occupancy_has_flags)
{
	CUfunction function = own_function();
	int plain = 0, blocks = 0, grid = 0, block = 0, flagged_grid = 0, flagged_block = 0;

	ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&plain, function, 128, 1024));
	ASSERT_OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 1024, 0));
	for (unsigned flags = 0; flags < 2; flags++) {
		ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, 128, 1024, flags));
		ASSERT_EQ(plain, blocks);
		ASSERT_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, (const void *)idle, 128, 1024,
										 flags));
		ASSERT_EQ(plain, blocks);
		ASSERT_OK(cuOccupancyMaxPotentialBlockSizeWithFlags(&flagged_grid, &flagged_block, function, NULL, 1024,
								    0, flags));
		ASSERT_EQ(grid, flagged_grid);
		ASSERT_EQ(block, flagged_block);
	}
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, 128, 0, 2));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, function, NULL, 0, 0, 2));
	ASSERT_ERROR(cudaErrorInvalidValue,
		     cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, (const void *)idle, 128, 0, 2));
	ASSERT_ERROR(cudaErrorInvalidResourceHandle, cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
							     &blocks, (const void *)no_kernel, 128, 0, 0));
}

/* Goal: with as much shared memory as is said to be there, so many blocks fit; with more, they do not. */
TEST(shared_memory_of_so_many_blocks)
{
	CUfunction function = own_function();
	int most = 0, fit = 0;
	size_t bytes, again;

	ASSERT_OK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024));
	ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&most, function, 64, 0));
	for (int blocks = 1; blocks <= most; blocks++) {
		ASSERT_OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, blocks, 64));
		size_t share = (size_t)228 * 1024 / (unsigned)blocks / 128 * 128, allowed = (size_t)227 * 1024;
		ASSERT_EQ(share < allowed ? share : allowed, bytes);
		/* As the driver does, this leaves out the KiB that each block takes besides. */
		ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, function, 64, bytes - 1024));
		ASSERT_GE(fit, blocks);
		ASSERT_OK(cudaOccupancyAvailableDynamicSMemPerBlock(&again, (const void *)idle, blocks, 64));
		ASSERT_EQ(bytes, again);
	}
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, most + 1, 64));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, 0, 64));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, 1, 1025));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(NULL, function, 1, 64));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuOccupancyAvailableDynamicSMemPerBlock(&bytes, NULL, 1, 64));
}

TEST(banks_have_one_width)
{
	CUfunction function = own_function();
	CUsharedconfig config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
	enum cudaSharedMemConfig of_runtime = cudaSharedMemBankSizeDefault;

	for (int i = 0; i < 3; i++) {
		ASSERT_OK(cuCtxSetSharedMemConfig((CUsharedconfig)i));
		ASSERT_OK(cudaDeviceSetSharedMemConfig((enum cudaSharedMemConfig)i));
		ASSERT_OK(cuFuncSetSharedMemConfig(function, (CUsharedconfig)i));
		ASSERT_OK(cudaFuncSetSharedMemConfig((const void *)idle, (enum cudaSharedMemConfig)i));
		ASSERT_OK(cuCtxGetSharedMemConfig(&config));
		ASSERT_EQ(CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE, config);
		ASSERT_OK(cudaDeviceGetSharedMemConfig(&of_runtime));
		ASSERT_EQ(cudaSharedMemBankSizeFourByte, of_runtime);
	}
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuCtxSetSharedMemConfig((CUsharedconfig)3));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuFuncSetSharedMemConfig(function, (CUsharedconfig)-1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuFuncSetSharedMemConfig(NULL, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaDeviceSetSharedMemConfig((enum cudaSharedMemConfig)3));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuCtxGetSharedMemConfig(NULL));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaDeviceGetSharedMemConfig(NULL));
}

TEST(profilers_need_a_context)
{
	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cuProfilerStart());
	ASSERT_OK(cuInit(0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuProfilerStart());
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuProfilerStop());
	ASSERT_OK(cudaProfilerStart());
	ASSERT_OK(cudaProfilerStop());
	ASSERT_OK(cuProfilerStart());
	ASSERT_OK(cuProfilerStop());
}

/* ---- Layers ----------------------------------------------------------------------------------------------------- */

enum { WIDTH = 20, HEIGHT = 3, DEPTH = 4 };

/* Goal: a box of bytes inside of a larger one is filled, by each form of the call, and nothing beside it. */
TEST(layers_are_filled)
{
	struct cudaExtent all = {WIDTH, HEIGHT, DEPTH}, part = {WIDTH - 3, HEIGHT - 1, DEPTH - 1};
	struct cudaPitchedPtr box;
	cudaStream_t stream;

	ASSERT_OK(cudaStreamCreate(&stream));
	ASSERT_OK(cudaMalloc3D(&box, all));
	ASSERT_GE(box.pitch, WIDTH);
	ASSERT_EQ(WIDTH, box.xsize);
	ASSERT_EQ(HEIGHT, box.ysize);
	for (int form = 0; form < 4; form++) {
		unsigned char *bytes = box.ptr;
		int value = 0x110 + form; /* of which the low byte counts */
		ASSERT_OK(cudaMemset3D(box, 1, all));
		switch (form) {
		case 0: ASSERT_OK(cudaMemset3D(box, value, part)); break;
		case 1: ASSERT_OK(cudaMemset3DAsync(box, value, part, stream)); break;
		case 2: ASSERT_OK(cudaMemset3D_ptds(box, value, part)); break;
		default: ASSERT_OK(cudaMemset3DAsync_ptsz(box, value, part, NULL));
		}
		ASSERT_OK(cudaDeviceSynchronize());
		for (size_t i = 0; i < (size_t)WIDTH * HEIGHT * DEPTH; i++) {
			size_t x = i % WIDTH, y = i / WIDTH % HEIGHT, z = i / WIDTH / HEIGHT;
			bool inside = x < part.width && y < part.height && z < part.depth;
			ASSERT_EQ(inside ? value & 0xff : 1, bytes[(z * HEIGHT + y) * box.pitch + x]);
		}
	}
	ASSERT_OK(cudaFree(box.ptr));
	ASSERT_OK(cudaStreamDestroy(stream));
}

TEST(wrong_layers_are_refused)
{
	struct cudaExtent extent = {WIDTH, HEIGHT, DEPTH}, more = {WIDTH, HEIGHT, 1 << 20}, none = {WIDTH, 0, DEPTH};
	struct cudaPitchedPtr box, low, narrow, empty = {&empty, 1, 1, 1};

	ASSERT_OK(cudaMalloc3D(&box, extent));
	low = narrow = box;
	low.ysize = 1;
	narrow.pitch = WIDTH - 1;
	ASSERT_OK(cudaMemset3D(box, 7, extent));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMemset3D(box, 1, more));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMemset3D(low, 1, extent));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMemset3D(narrow, 1, extent));
	ASSERT_OK(cudaMemset3D(box, 1, none));
	ASSERT_EQ(7, *(char *)box.ptr); /* nothing was filled by what was refused */
	ASSERT_OK(cudaFree(box.ptr));

	ASSERT_OK(cudaMalloc3D(&empty, none));
	ASSERT(!empty.ptr);
	ASSERT_ERROR(cudaErrorInvalidValue, cudaMalloc3D(NULL, extent));
	more.height = SIZE_MAX;
	ASSERT_ERROR(cudaErrorMemoryAllocation, cudaMalloc3D(&box, more));
}

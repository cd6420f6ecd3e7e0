/* SPDX-License-Identifier: MIT */
/*
 * Chapter "edge_calls": calls that host code makes beside others: names of kernels, occupancy with flags, banks of
 * shared memory, profilers, and memory in layers.
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* CUDA has no more use for some of these */

#include "ask.h"

#include "calls.h"

#include <cudaProfiler.h>
#include <cuda_profiler_api.h>
#include <driver_functions.h>

#include <limits.h>

CHAPTER(edge_calls);

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct objects f;

static void setup(void)
{
	ask_context();
	objects_make(&f);
}

static void no_kernel(void)
{
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

GROUP(names)
{
	const char *name = NULL;

	setup();
	ASK_VALUE("name", cuFuncGetName(&name, f.function), "%s", name ? name : "NULL");
	name = NULL;
	ASK("name_null_output", cuFuncGetName(NULL, f.function));
	ASK_VALUE("name_null_function", cuFuncGetName(&name, NULL), "%s", name ? name : "NULL");
	ASK("name_null_both", cuFuncGetName(NULL, NULL));
	NEED(cuCtxPopCurrent(NULL));
	ASK_VALUE("name_without_context", cuFuncGetName(&name, f.function), "%s", name ? name : "NULL");
}

GROUP(runtime_names)
{
	const char *name = NULL;

	NEED(cudaFree(NULL));
	ASK("runtime_name_null_output", cudaFuncGetName(NULL, (const void *)no_kernel));
	ASK("runtime_name_null_function", cudaFuncGetName(&name, NULL));
	ASK("runtime_name_null_both", cudaFuncGetName(NULL, NULL));
	ask_guard();
	ASK("runtime_name_no_kernel", cudaFuncGetName(&name, (const void *)no_kernel));
	ASK("runtime_name_last_error", cudaGetLastError());
}

/* ---- Events of a context ----------------------------------------------------------------------------------------- */

GROUP(context_event)
{
	CUcontext context, other;
	CUevent event, foreign;

	ask_context();
	NEED(cuCtxGetCurrent(&context));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ASK("context_event", cuCtxRecordEvent(context, event));
	NEED(cuCtxSynchronize());
	ASK("context_event_query", cuEventQuery(event));
	ASK("context_event_null_event", cuCtxRecordEvent(context, NULL));
	NEED(cuCtxCreate(&other, NULL, 0, 0));
	NEED(cuEventCreate(&foreign, CU_EVENT_DISABLE_TIMING));
	ASK("context_event_of_another", cuCtxRecordEvent(context, foreign));
	ASK("context_event_not_current", cuCtxRecordEvent(context, event));
}

/* ---- Occupancy --------------------------------------------------------------------------------------------------- */

GROUP(occupancy_flags)
{
	static const unsigned int flags[] = {0, 1, 2, 3, 0x80000000u, UINT_MAX};
	int blocks = UNTOUCHED_INT, grid, block;

	setup();
	for (size_t i = 0; i < COUNT(flags); i++) {
		blocks = grid = block = UNTOUCHED_INT;
		ASK_VALUE(ask_name("active_flags_%x", flags[i]),
			  cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f.function, 128, 0, flags[i]),
			  "%d", blocks);
		ASK_VALUE(ask_name("potential_flags_%x", flags[i]),
			  cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, f.function, NULL, 0, 0, flags[i]),
			  "%s %d", grid == UNTOUCHED_INT ? "untouched" : "set", block);
	}
	ASK("active_flags_null_output",
	    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(NULL, f.function, 128, 0, 0));
	ASK("active_flags_null_function",
	    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, NULL, 128, 0, 0));
	ASK("active_flags_null_function_flags",
	    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, NULL, 128, 0, 2));
	ASK("active_flags_0_threads_flags",
	    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f.function, 0, 0, 2));
}

GROUP(available)
{
	static const int counts[] = {INT_MIN, -1, 0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 33, INT_MAX};
	static const int threads[] = {-1, 0, 1, 64, 65, 1024, 1025, INT_MAX};
	size_t bytes;

	setup();
	ask_guard();
	for (int allowed = 0; allowed < 2; allowed++) {
		if (allowed)
			NEED(cuFuncSetAttribute(f.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
						227 << 10));
		for (size_t i = 0; i < COUNT(counts) * COUNT(threads); i++) {
			int count = counts[i / COUNT(threads)], size = threads[i % COUNT(threads)];
			bytes = UNTOUCHED_INT;
			ASK_VALUE(ask_name("available_%s_%d_%d", allowed ? "allowed" : "plain", count, size),
				  cuOccupancyAvailableDynamicSMemPerBlock(&bytes, f.function, count, size), "%zu",
				  bytes);
		}
	}
	ASK("available_null_output", cuOccupancyAvailableDynamicSMemPerBlock(NULL, f.function, 1, 64));
	ASK("available_null_function", cuOccupancyAvailableDynamicSMemPerBlock(&bytes, NULL, 1, 64));
}

GROUP(runtime_occupancy)
{
	int blocks = UNTOUCHED_INT;
	size_t bytes = UNTOUCHED_INT;

	NEED(cudaFree(NULL));
	ASK("runtime_active_flags_null_output",
	    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(NULL, (const void *)no_kernel, 32, 0, 0));
	ASK("runtime_active_flags_null_function",
	    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, NULL, 32, 0, 0));
	ASK("runtime_active_flags_null_function_flags",
	    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, NULL, 32, 0, 2));
	ASK("runtime_active_flags_no_kernel",
	    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, (const void *)no_kernel, 32, 0, 0));
	ASK("runtime_available_null_output",
	    cudaOccupancyAvailableDynamicSMemPerBlock(NULL, (const void *)no_kernel, 1, 32));
	ASK("runtime_available_null_function", cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, NULL, 1, 32));
	ASK("runtime_available_no_kernel",
	    cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, (const void *)no_kernel, 1, 32));
}

/* ---- Banks of shared memory -------------------------------------------------------------------------------------- */

GROUP(banks)
{
	static const int tried[] = {0, 1, 2, 3, -1, INT_MAX};
	CUsharedconfig config = (CUsharedconfig)UNTOUCHED_INT;

	setup();
	ASK_VALUE("banks", cuCtxGetSharedMemConfig(&config), "%d", (int)config);
	for (size_t i = 0; i < COUNT(tried); i++) {
		ASK(ask_name("banks_set_%d", tried[i]), cuCtxSetSharedMemConfig((CUsharedconfig)tried[i]));
		ASK_VALUE(ask_name("banks_after_%d", tried[i]), cuCtxGetSharedMemConfig(&config), "%d", (int)config);
		ASK(ask_name("banks_of_function_%d", tried[i]),
		    cuFuncSetSharedMemConfig(f.function, (CUsharedconfig)tried[i]));
	}
	ASK("banks_null_output", cuCtxGetSharedMemConfig(NULL));
	ASK("banks_null_function", cuFuncSetSharedMemConfig(NULL, (CUsharedconfig)0));
	NEED(cuCtxPopCurrent(NULL));
	ASK("banks_without_context", cuCtxGetSharedMemConfig(&config));
	ASK("banks_set_without_context", cuCtxSetSharedMemConfig((CUsharedconfig)0));
}

GROUP(runtime_banks)
{
	static const int tried[] = {0, 1, 2, 3, -1};
	enum cudaSharedMemConfig config = (enum cudaSharedMemConfig)UNTOUCHED_INT;

	ASK_VALUE("runtime_banks", cudaDeviceGetSharedMemConfig(&config), "%d", (int)config);
	for (size_t i = 0; i < COUNT(tried); i++) {
		ASK(ask_name("runtime_banks_set_%d", tried[i]),
		    cudaDeviceSetSharedMemConfig((enum cudaSharedMemConfig)tried[i]));
		ASK_VALUE(ask_name("runtime_banks_after_%d", tried[i]), cudaDeviceGetSharedMemConfig(&config), "%d",
			  (int)config);
	}
	ASK("runtime_banks_null_output", cudaDeviceGetSharedMemConfig(NULL));
	ASK("runtime_banks_null_function", cudaFuncSetSharedMemConfig(NULL, cudaSharedMemBankSizeDefault));
	ASK("runtime_banks_no_kernel",
	    cudaFuncSetSharedMemConfig((const void *)no_kernel, cudaSharedMemBankSizeDefault));
	ASK("runtime_banks_no_kernel_wrong",
	    cudaFuncSetSharedMemConfig((const void *)no_kernel, (enum cudaSharedMemConfig)3));
}

/* ---- Profilers --------------------------------------------------------------------------------------------------- */

GROUP(profilers)
{
	ASK("profiler_uninitialised", cuProfilerStart());
	NEED(cuInit(0));
	ASK("profiler_start_without_context", cuProfilerStart());
	ASK("profiler_stop_without_context", cuProfilerStop());
	ask_context();
	ASK("profiler_stop_first", cuProfilerStop());
	ASK("profiler_start", cuProfilerStart());
	ASK("profiler_start_again", cuProfilerStart());
	ASK("profiler_stop", cuProfilerStop());
	ASK("profiler_stop_again", cuProfilerStop());
}

GROUP(runtime_profilers)
{
	ASK("runtime_profiler_stop_first", cudaProfilerStop());
	ASK("runtime_profiler_start", cudaProfilerStart());
	ASK("runtime_profiler_start_again", cudaProfilerStart());
	ASK("runtime_profiler_stop", cudaProfilerStop());
}

/* ---- Layers ------------------------------------------------------------------------------------------------------ */

static const char *describe(const struct cudaPitchedPtr *box)
{
	static char text[96];

	snprintf(text, sizeof text, "%s pitch %zu %zu %zu", OUT(box->ptr), box->pitch, box->xsize, box->ysize);
	return text;
}

static void ask_malloc(const char *question, size_t width, size_t height, size_t depth)
{
	struct cudaPitchedPtr box = {UNTOUCHED(void *), 1, 2, 3};

	ASK_VALUE(question, cudaMalloc3D(&box, make_cudaExtent(width, height, depth)), "%s", describe(&box));
}

GROUP(malloc_3d)
{
	NEED(cudaFree(NULL));
	ask_malloc("malloc_3d", 20, 3, 4);
	ask_malloc("malloc_3d_1", 1, 1, 1);
	ask_malloc("malloc_3d_513", 513, 2, 2);
	ask_malloc("malloc_3d_width_0", 0, 3, 4);
	ask_malloc("malloc_3d_height_0", 20, 0, 4);
	ask_malloc("malloc_3d_depth_0", 20, 3, 0);
	ask_malloc("malloc_3d_all_0", 0, 0, 0);
	ask_malloc("malloc_3d_too_much", 1, (size_t)1 << 40, (size_t)1 << 10);
	ask_malloc("malloc_3d_overflow", 1, SIZE_MAX, SIZE_MAX);
	ask_malloc("malloc_3d_width_max", SIZE_MAX, 1, 1);
	ASK("malloc_3d_null", cudaMalloc3D(NULL, make_cudaExtent(1, 1, 1)));
}

/* Two layers of three rows of 8 bytes, with a pitch of 16 and 4 rows from layer to layer. */
static struct cudaPitchedPtr box;

static const char *filled(void)
{
	static char text[512];
	unsigned char bytes[128];

	cudaDeviceSynchronize();
	cudaMemcpy(bytes, box.ptr, sizeof bytes, cudaMemcpyDeviceToHost);
	snprintf(text, sizeof text, "%s", ask_bytes(bytes, sizeof bytes));
	cudaMemset(box.ptr, 0, sizeof bytes);
	return text;
}

#define FILLS(X)                                                                        \
	X(plain, (void)0)                                                               \
	X(value_large, value = 0x1234)                                                  \
	X(value_negative, value = -1)                                                   \
	X(width_0, extent.width = 0)                                                    \
	X(height_0, extent.height = 0)                                                  \
	X(depth_0, extent.depth = 0)                                                    \
	X(width_pitch, extent.width = 16)                                               \
	X(width_beyond_pitch, extent.width = 17)                                        \
	X(one_row_beyond_pitch, extent.width = 17; extent.height = 1; extent.depth = 1) \
	X(one_layer_beyond_pitch, extent.width = 17; extent.depth = 1)                  \
	X(height_beyond_ysize, extent.height = 5)                                       \
	X(one_layer_beyond_ysize, extent.height = 5; extent.depth = 1)                  \
	X(depth_past_end, extent.depth = 1 << 20)                                       \
	X(ysize_0, to.ysize = 0)                                                        \
	X(ysize_0_one_layer, to.ysize = 0; extent.depth = 1)                            \
	X(xsize_0, to.xsize = 0)                                                        \
	X(pitch_0, to.pitch = 0)                                                        \
	X(null, to.ptr = NULL)                                                          \
	X(null_width_0, to.ptr = NULL; extent.width = 0)

#define FILL(question, call, change)                                 \
	{                                                            \
		struct cudaPitchedPtr to = box;                      \
		struct cudaExtent extent = make_cudaExtent(8, 3, 2); \
		int value = 0x61;                                    \
		change;                                              \
		ASK_VALUE(question, call, "%s", filled());           \
		ASK(question "_last_error", cudaGetLastError());     \
	}
#define FILL_NOW(name, change)   FILL("fill_3d_" #name, cudaMemset3D(to, value, extent), change)
#define FILL_ASYNC(name, change) FILL("fill_3d_async_" #name, cudaMemset3DAsync(to, value, extent, NULL), change)

static void make_box(void)
{
	box.pitch = 16;
	box.xsize = 8;
	box.ysize = 4;
	NEED(cudaMalloc(&box.ptr, 128));
	NEED(cudaMemset(box.ptr, 0, 128));
}

GROUP(fill_3d)
{
	make_box();
	ask_guard();
	FILLS(FILL_NOW)
}

GROUP(fill_3d_async)
{
	make_box();
	ask_guard();
	FILLS(FILL_ASYNC)
}

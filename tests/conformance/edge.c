/* SPDX-License-Identifier: MIT */
/*
 * Chapter "edge": limits and cache settings of a context, and occupancy.
 */
#include "calls.h"

#include <limits.h>

CHAPTER(edge);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct objects f;

/* ---- Limits ------------------------------------------------------------------------------------------------------ */

static const int limit_numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 99, -1, INT_MAX, INT_MIN};

static void ask_limit(const char *question, int limit)
{
	size_t value = UNTOUCHED_INT;

	ASK_VALUE(question, cuCtxGetLimit(&value, (CUlimit)limit), "%zu", value);
}

/* How far a limit can go depends on the device's memory: then the answer is that it went less far than asked. */
static void ask_capped(const char *question, int limit, size_t asked)
{
	size_t value = UNTOUCHED_INT;

	if (asked <= UINT32_MAX)
		ask_limit(question, limit);
	else
		ASK_VALUE(question, cuCtxGetLimit(&value, (CUlimit)limit), "%s", value < asked ? "less" : "as asked");
}

GROUP(limits_first)
{
	ask_context();
	for (size_t i = 0; i < COUNT(limit_numbers); i++) {
		ask_limit(ask_name("limit_%d_first", limit_numbers[i]), limit_numbers[i]);
		ASK(ask_name("limit_%d_null_output", limit_numbers[i]), cuCtxGetLimit(NULL, (CUlimit)limit_numbers[i]));
	}
}

GROUP(limits_set)
{
	static const struct {
		int limit;
		size_t values[14];
		int count;
	} tried[] = {
		{0, {0, 1, 15, 16, 17, 100, 1000, 1024, 1025, 4096, 65536, (size_t)1 << 32, SIZE_MAX}, 13},
		{1, {0, 1, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1, 64 << 20, (size_t)1 << 45, SIZE_MAX}, 10},
		{2, {0, 1, 4096, (4 << 20) - 1, 8 << 20, (8 << 20) + 1, 64 << 20, (size_t)1 << 45, SIZE_MAX}, 9},
		{3, {0, 1, 2, 24, 25, SIZE_MAX}, 6},
		{4, {0, 1, 2, 1024, 2048, 4096, 65536, (size_t)1 << 45, SIZE_MAX}, 9},
		{5, {0, 1, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 256, SIZE_MAX}, 14},
		{6, {0, 1, 4096, 1 << 20, (1 << 20) + 1, (size_t)1 << 45, SIZE_MAX}, 7},
		{7, {0, 1, 1024, SIZE_MAX}, 4},
		{8, {0, 1, 2, SIZE_MAX}, 4},
		{9, {0, 1, 2, SIZE_MAX}, 4},
		{10, {0, 1}, 2},
		{99, {0, 1}, 2},
		{-1, {0, 1}, 2},
	};

	ask_context();
	ask_guard();
	for (size_t i = 0; i < COUNT(tried); i++) {
		for (int j = 0; j < tried[i].count; j++) {
			size_t value = tried[i].values[j];
			ASK(ask_name("limit_%d_set_%zx", tried[i].limit, value),
			    cuCtxSetLimit((CUlimit)tried[i].limit, value));
			ask_capped(ask_name("limit_%d_after_%zx", tried[i].limit, value), tried[i].limit, value);
		}
	}
}

/* A kernel has been launched, and one that has neither printf() nor malloc(). */
GROUP(limits_after_launch)
{
	static const size_t values[] = {2048, 2 << 20, 16 << 20, 3, 1024, 32, 0};

	ask_context();
	ask_guard();
	objects_make(&f);
	NEED(cuLaunchKernel(f.function, 1, 1, 1, 1, 1, 1, 0, f.stream, NULL, NULL));
	NEED(cuCtxSynchronize());
	for (int i = 0; i < (int)COUNT(values); i++) {
		ASK(ask_name("limit_%d_set_after_launch", i), cuCtxSetLimit((CUlimit)i, values[i]));
		ask_limit(ask_name("limit_%d_after_launch", i), i);
	}
	ASK("limits_launch_again", cuLaunchKernel(f.function, 4, 1, 1, 32, 1, 1, 0, f.stream, NULL, NULL));
	ASK("limits_launch_again_synchronize", cuCtxSynchronize());
}

static void *set_limit(void *data)
{
	cuCtxSetCurrent(data);
	cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 << 20);
	cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1);
	return NULL;
}

/* Whose a limit is: the context's, not the thread's and not the device's. */
GROUP(limits_whose)
{
	CUcontext first = ask_context(), second = ask_context(), primary = NULL;

	NEED(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
	NEED(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
	ask_limit("whose_second_heap", CU_LIMIT_MALLOC_HEAP_SIZE);
	NEED(cuCtxPopCurrent(NULL));
	ask_limit("whose_first_heap", CU_LIMIT_MALLOC_HEAP_SIZE);
	ask_limit("whose_first_stack", CU_LIMIT_STACK_SIZE);
	ask_threaded(set_limit, first);
	ask_limit("whose_first_heap_by_thread", CU_LIMIT_MALLOC_HEAP_SIZE);
	NEED(cuCtxPushCurrent(second));
	ask_limit("whose_second_heap_still", CU_LIMIT_MALLOC_HEAP_SIZE);
	NEED(cuDevicePrimaryCtxRetain(&primary, 0));
	NEED(cuCtxSetCurrent(primary));
	ask_limit("whose_primary_heap", CU_LIMIT_MALLOC_HEAP_SIZE);
	NEED(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 24 << 20));
	NEED(cuDevicePrimaryCtxReset(0));
	NEED(cuDevicePrimaryCtxRetain(&primary, 0));
	ask_limit("whose_primary_heap_after_reset", CU_LIMIT_MALLOC_HEAP_SIZE);
}

/* ---- Cache settings ---------------------------------------------------------------------------------------------- */

static void ask_cache(const char *question)
{
	CUfunc_cache config = (CUfunc_cache)UNTOUCHED_INT;

	ASK_VALUE(question, cuCtxGetCacheConfig(&config), "%d", (int)config);
}

GROUP(cache)
{
	static const int tried[] = {0, 1, 2, 3, 4, 5, 99, -1, INT_MAX, INT_MIN};
	CUcontext first = ask_context();

	ask_cache("cache_first");
	ASK("cache_null_output", cuCtxGetCacheConfig(NULL));
	for (size_t i = 0; i < COUNT(tried); i++) {
		ASK(ask_name("cache_set_%d", tried[i]), cuCtxSetCacheConfig((CUfunc_cache)tried[i]));
		ask_cache(ask_name("cache_after_%d", tried[i]));
	}
	NEED(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_SHARED));
	ask_context();
	ask_cache("cache_second_context");
	NEED(cuCtxPopCurrent(NULL));
	ask_cache("cache_first_context");
	ask_threaded(set_limit, first);
	ask_cache("cache_by_thread");
}

/* ---- Both of the runtime ----------------------------------------------------------------------------------------- */

static void ask_runtime_limit(const char *question, int limit)
{
	size_t value = UNTOUCHED_INT;

	ASK_VALUE(question, cudaDeviceGetLimit(&value, (enum cudaLimit)limit), "%zu", value);
}

GROUP(runtime_limits)
{
	for (size_t i = 0; i < COUNT(limit_numbers); i++) {
		int limit = limit_numbers[i];
		ask_runtime_limit(ask_name("runtime_limit_%d_first", limit), limit);
		ASK(ask_name("runtime_limit_%d_first_last_error", limit), cudaGetLastError());
		ASK(ask_name("runtime_limit_%d_null_output", limit), cudaDeviceGetLimit(NULL, (enum cudaLimit)limit));
		ASK(ask_name("runtime_limit_%d_set", limit), cudaDeviceSetLimit((enum cudaLimit)limit, 64));
		ask_runtime_limit(ask_name("runtime_limit_%d_after_set", limit), limit);
		ASK(ask_name("runtime_limit_%d_set_huge", limit), cudaDeviceSetLimit((enum cudaLimit)limit, SIZE_MAX));
		ASK(ask_name("runtime_limit_%d_set_last_error", limit), cudaGetLastError());
	}
	ask_context();
	ask_runtime_limit("runtime_limit_of_drivers_context", cudaLimitMallocHeapSize);
	NEED(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
	ask_runtime_limit("runtime_limit_set_by_driver", cudaLimitMallocHeapSize);
	NEED(cuCtxPopCurrent(NULL));
	NEED(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 24 << 20));
	ask_limit("limit_set_by_runtime", CU_LIMIT_MALLOC_HEAP_SIZE);
	NEED(cudaDeviceReset());
	ask_runtime_limit("runtime_limit_after_reset", cudaLimitMallocHeapSize);
}

GROUP(runtime_cache)
{
	static const int tried[] = {0, 1, 2, 3, 4, 99, -1, INT_MAX};

	for (size_t i = 0; i < COUNT(tried); i++) {
		enum cudaFuncCache config = (enum cudaFuncCache)UNTOUCHED_INT;
		ASK(ask_name("runtime_cache_set_%d", tried[i]), cudaDeviceSetCacheConfig((enum cudaFuncCache)tried[i]));
		ASK(ask_name("runtime_cache_set_%d_last_error", tried[i]), cudaGetLastError());
		ASK_VALUE(ask_name("runtime_cache_after_%d", tried[i]), cudaDeviceGetCacheConfig(&config), "%d",
			  (int)config);
	}
	ASK("runtime_cache_null_output", cudaDeviceGetCacheConfig(NULL));
	ask_cache("cache_set_by_runtime");
	NEED(cudaDeviceReset());
	enum cudaFuncCache config = (enum cudaFuncCache)UNTOUCHED_INT;
	ASK_VALUE("runtime_cache_after_reset", cudaDeviceGetCacheConfig(&config), "%d", (int)config);
}

/* ---- Occupancy --------------------------------------------------------------------------------------------------- */

static const int block_sizes[] = {-1, 0, 1, 31, 32, 33, 64, 96, 128, 256, 512, 768, 1000, 1024, 1025, 2048, INT_MAX};
static const size_t shared_sizes[] = {
	0,
	1,
	1023,
	1024,
	6144,
	6145,
	7168,
	16384,
	49152,
	49152 + 1,
	64 << 10,
	113 << 10,
	(113 << 10) + 1,
	227 << 10,
	(227 << 10) + 1,
	228 << 10,
	SIZE_MAX,
};

static void occupancy_setup(void)
{
	ask_context();
	objects_make(&f);
}

static void ask_active(const char *question, CUfunction function, int threads, size_t shared)
{
	int blocks = UNTOUCHED_INT;

	ASK_VALUE(question, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, shared), "%d",
		  blocks);
}

GROUP(active_blocks)
{
	occupancy_setup();
	for (size_t i = 0; i < COUNT(block_sizes); i++)
		for (size_t j = 0; j < COUNT(shared_sizes); j++)
			ask_active(ask_name("active_%d_threads_%zx_shared", block_sizes[i], shared_sizes[j]),
				   f.function, block_sizes[i], shared_sizes[j]);
}

GROUP(active_blocks_allowed)
{
	occupancy_setup();
	NEED(cuFuncSetAttribute(f.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10));
	for (size_t i = 0; i < COUNT(block_sizes); i += 2)
		for (size_t j = 0; j < COUNT(shared_sizes); j++)
			ask_active(ask_name("active_allowed_%d_threads_%zx_shared", block_sizes[i], shared_sizes[j]),
				   f.function, block_sizes[i], shared_sizes[j]);
	NEED(cuFuncSetAttribute(f.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024));
	for (size_t j = 0; j < COUNT(shared_sizes); j++)
		ask_active(ask_name("active_lowered_%zx_shared", shared_sizes[j]), f.function, 128, shared_sizes[j]);
	NEED(cuFuncSetAttribute(f.function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 0));
	for (size_t j = 0; j < COUNT(shared_sizes); j++)
		ask_active(ask_name("active_carveout_0_%zx_shared", shared_sizes[j]), f.function, 128, shared_sizes[j]);
}

static size_t CUDA_CB no_shared(int threads)
{
	(void)threads;
	return 0;
}

static size_t CUDA_CB shared_by_thread(int threads)
{
	return (size_t)threads * 64;
}

static size_t CUDA_CB shared_for_large(int threads)
{
	return threads > 256 ? 48 << 10 : 0;
}

static size_t CUDA_CB shared_too_much(int threads)
{
	(void)threads;
	return (size_t)1 << 30;
}

static void ask_potential(const char *question, CUfunction function, CUoccupancyB2DSize by_size, size_t shared,
			  int limit)
{
	int grid = UNTOUCHED_INT, block = UNTOUCHED_INT, processors = 0;

	NEED(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	if (ask_begin(question)) {
		CUresult result = cuOccupancyMaxPotentialBlockSize(&grid, &block, function, by_size, shared, limit);
		if (grid == UNTOUCHED_INT)
			ask_end("%s grid untouched block %d", CODE(result), block);
		else
			ask_end("%s grid %d rest %d block %d", CODE(result), grid / processors, grid % processors,
				block);
	}
}

GROUP(potential_blocks)
{
	static const int limits[] = {INT_MIN, -1, 0, 1, 31, 32, 33, 100, 128, 1000, 1024, 1025, 5000, INT_MAX};
	static const struct {
		const char *name;
		CUoccupancyB2DSize function;
	} by_sizes[] = {
		{"none", no_shared},
		{"by_thread", shared_by_thread},
		{"for_large", shared_for_large},
		{"too_much", shared_too_much},
	};

	occupancy_setup();
	for (size_t i = 0; i < COUNT(limits); i++) {
		for (size_t j = 0; j < COUNT(shared_sizes); j++)
			ask_potential(ask_name("potential_limit_%d_%zx_shared", limits[i], shared_sizes[j]), f.function,
				      NULL, shared_sizes[j], limits[i]);
		for (size_t j = 0; j < COUNT(by_sizes); j++)
			ask_potential(ask_name("potential_limit_%d_shared_%s", limits[i], by_sizes[j].name), f.function,
				      by_sizes[j].function, 1 << 30, limits[i]);
	}
}

GROUP(occupancy_wrong)
{
	int grid = UNTOUCHED_INT, block = UNTOUCHED_INT, blocks = UNTOUCHED_INT;

	occupancy_setup();
	ASK("active_null_output", cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, f.function, 32, 0));
	ask_active("active_null_function", NULL, 32, 0);
	ask_active("active_null_function_0_threads", NULL, 0, 0);
	ask_active("active_small_function", SMALL(CUfunction), 32, 0);
	ask_active("active_zeros_function", ZEROS(CUfunction), 32, 0);
	ask_active("active_garbage_function", GARBAGE(CUfunction), 32, 0);
	ask_active("active_module_as_function", (CUfunction)f.module, 32, 0);
	ASK_VALUE("potential_null_grid", cuOccupancyMaxPotentialBlockSize(NULL, &block, f.function, NULL, 0, 0), "%d",
		  block);
	ASK_VALUE("potential_null_block", cuOccupancyMaxPotentialBlockSize(&grid, NULL, f.function, NULL, 0, 0), "%s",
		  grid == UNTOUCHED_INT ? "untouched" : "set");
	ASK("potential_null_outputs", cuOccupancyMaxPotentialBlockSize(NULL, NULL, f.function, NULL, 0, 0));
	ask_potential("potential_null_function", NULL, NULL, 0, 0);
	ask_potential("potential_small_function", SMALL(CUfunction), NULL, 0, 0);
	ask_potential("potential_zeros_function", ZEROS(CUfunction), NULL, 0, 0);
	ask_potential("potential_garbage_function", GARBAGE(CUfunction), NULL, 0, 0);
	CUcontext second = ask_context();
	ask_active("active_in_other_context", f.function, 128, 0);
	ask_potential("potential_in_other_context", f.function, NULL, 0, 0);
	NEED(cuCtxDestroy(second));
	NEED(cuModuleUnload(f.module));
	ASK_VALUE("active_unloaded", cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f.function, 32, 0), "%d",
		  blocks);
	ask_potential("potential_unloaded", f.function, NULL, 0, 0);
}

static void no_kernel(void)
{
}

GROUP(runtime_occupancy)
{
	int blocks = UNTOUCHED_INT;

	NEED(cudaFree(NULL));
	objects_make(&f);
#define RUNTIME_ACTIVE(name, out, function, threads, shared)                                                           \
	ASK_VALUE("runtime_active_" name,                                                                              \
		  cudaOccupancyMaxActiveBlocksPerMultiprocessor(out, (const void *)(function), threads, shared), "%d", \
		  blocks);                                                                                             \
	ASK("runtime_active_" name "_last_error", cudaGetLastError())
	RUNTIME_ACTIVE("no_kernel", &blocks, no_kernel, 32, 0);
	RUNTIME_ACTIVE("no_kernel_0_threads", &blocks, no_kernel, 0, 0);
	RUNTIME_ACTIVE("null_output", NULL, no_kernel, 32, 0);
	RUNTIME_ACTIVE("null_function", &blocks, NULL, 32, 0);
	RUNTIME_ACTIVE("null_both", NULL, NULL, 32, 0);
	RUNTIME_ACTIVE("zeros", &blocks, ask_zeros, 32, 0);
	RUNTIME_ACTIVE("garbage", &blocks, GARBAGE(void *), 32, 0);
}

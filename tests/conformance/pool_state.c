/* SPDX-License-Identifier: MIT */
/*
 * Chapter "pool_state": the pool calls before cuInit, without a context, in a destroyed one, inside a callback, in a
 * forked child and on other threads; blocks of host and managed pools; contexts that end with blocks alive; how much is
 * left of the device's memory.
 */
#include "pool.h"

#include <pthread.h>

CHAPTER(pool_state);

static struct {
	CUmemoryPool pool, victim, out;
	CUstream stream;
	CUdeviceptr at, freed, freed_sync, made;
	CUmemPoolProps properties;
	CUmemLocation location;
	CUmemAccess_flags flags;
	unsigned long long wide;
	unsigned int type;
	size_t bytes;
} s;

/* X(name, call), with arguments that would be right. */
#define CALLS(X)                                                                                              \
	X(cuMemPoolCreate, cuMemPoolCreate(&s.out, &s.properties))                                            \
	X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool(&s.out, 0))                                    \
	X(cuDeviceGetMemPool, cuDeviceGetMemPool(&s.out, 0))                                                  \
	X(cuDeviceSetMemPool, cuDeviceSetMemPool(0, s.pool))                                                  \
	X(cuMemGetDefaultMemPool, cuMemGetDefaultMemPool(&s.out, &s.location, CU_MEM_ALLOCATION_TYPE_PINNED)) \
	X(cuMemGetMemPool, cuMemGetMemPool(&s.out, &s.location, CU_MEM_ALLOCATION_TYPE_PINNED))               \
	X(cuMemSetMemPool, cuMemSetMemPool(&s.location, CU_MEM_ALLOCATION_TYPE_PINNED, s.pool))               \
	X(cuMemPoolGetAttribute, cuMemPoolGetAttribute(s.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &s.wide))   \
	X(cuMemPoolSetAttribute, pool_set(s.pool, THRESHOLD, 0))                                              \
	X(cuMemPoolGetAccess, cuMemPoolGetAccess(&s.flags, s.pool, &s.location))                              \
	X(cuMemPoolSetAccess, pool_allow(s.pool, DEVICE, 0, WRITE))                                           \
	X(cuMemPoolTrimTo, cuMemPoolTrimTo(s.pool, 0))                                                        \
	X(cuMemAllocAsync, cuMemAllocAsync(&s.made, 4096, s.stream))                                          \
	X(cuMemAllocAsync_null, cuMemAllocAsync(&s.made, 4096, NULL))                                         \
	X(cuMemAllocAsync_per_thread, cuMemAllocAsync(&s.made, 4096, CU_STREAM_PER_THREAD))                   \
	X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync(&s.made, 4096, s.pool, s.stream))                  \
	X(cuMemAllocFromPoolAsync_null, cuMemAllocFromPoolAsync(&s.made, 4096, s.pool, NULL))                 \
	X(cuMemGetAddressRange, cuMemGetAddressRange(&s.made, &s.bytes, s.at))                                \
	X(cuPointerGetAttribute, cuPointerGetAttribute(&s.type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, s.at))      \
	X(cuMemFreeAsync, cuMemFreeAsync(s.freed, s.stream))                                                  \
	X(cuMemFreeAsync_null, cuMemFreeAsync(0, s.stream))                                                   \
	X(cuMemFree, cuMemFree(s.freed_sync))                                                                 \
	X(cuMemPoolDestroy, cuMemPoolDestroy(s.victim))

static void fake(void)
{
	s.properties = pool_properties(PINNED, DEVICE, 0);
	s.location = vmm_place(DEVICE, 0);
	s.pool = s.victim = ZEROS(CUmemoryPool);
	s.at = s.freed = s.freed_sync = (CUdeviceptr)1 << 40;
}

static void make(void)
{
	ask_context();
	fake();
	s.pool = pool_make(0);
	s.victim = pool_make(0);
	s.stream = pool_stream();
	s.at = pool_alloc(s.pool, 4096, s.stream);
	s.freed = pool_alloc(s.pool, 4096, s.stream);
	s.freed_sync = pool_alloc(s.pool, 4096, s.stream);
	NEED(cuMemsetD8Async(s.at, 0x31, 4096, s.stream));
	NEED(cuCtxSynchronize());
}

#include "states.h"

GROUP(forked)
{
	make();
	ask_forked(ask_in_child, NULL);
	SAY("parent_bytes_after_child", "%s", vmm_bytes(s.at, 16));
	SAY("parent_numbers_after_child", "%s", pool_numbers(s.pool));
	ASK("parent_free_after_child", cuMemFreeAsync(s.freed, s.stream));
	ASK("parent_destroy_after_child", cuMemPoolDestroy(s.victim));
}

static void *ask_in_thread(void *data)
{
	(void)data;
	ask_calls("thread");
	return NULL;
}

/* A thread without a context. */
GROUP(thread)
{
	make();
	ask_threaded(ask_in_thread, NULL);
	ASK("synchronize_after_thread", cuCtxSynchronize());
	SAY("numbers_after_thread", "%s", pool_numbers(s.pool));
}

/* cuInit and no context at all, until a pool is there. */
GROUP(no_context_ever)
{
	CUcontext context = NULL;
	CUdeviceptr at = 0;
	unsigned int flags = 0;
	int active = UNTOUCHED_INT;
	CUmemoryPool pool = NULL, first = NULL;
	CUmemPoolProps properties = pool_properties(PINNED, DEVICE, 0), host = pool_properties(PINNED, HOST, 0);
	CUmemPoolProps managed = pool_properties(MANAGED, DEVICE, 0);

	NEED(cuInit(0));
	ASK("early_default", cuDeviceGetDefaultMemPool(&first, 0));
	ASK("early_create", cuMemPoolCreate(&pool, &properties));
	ASK("early_set_current", cuDeviceSetMemPool(0, pool));
	SAY("early_numbers", "%s", pool_numbers(pool));
	SAY("early_rights", "%s", pool_rights(pool, DEVICE, 0));
	ASK("early_alloc", cuMemAllocFromPoolAsync(&at, 4096, pool, NULL));
	ASK("early_alloc_per_thread", cuMemAllocFromPoolAsync(&at, 4096, pool, CU_STREAM_PER_THREAD));
	ASK("early_create_host", cuMemPoolCreate(&first, &host));
	ASK("early_create_managed", cuMemPoolCreate(&first, &managed));
	ASK_VALUE("early_primary_state", cuDevicePrimaryCtxGetState(0, &flags, &active), "%d", active);
	ASK("late_context", cuCtxCreate(&context, NULL, 0, 0));
	ASK("late_alloc", cuMemAllocAsync(&at, 4096, NULL));
	ASK("late_fill", cuMemsetD8(at, 0x32, 16));
	SAY("late_bytes", "%s", vmm_bytes(at, 16));
	ASK("late_free", cuMemFreeAsync(at, NULL));
	ASK("late_destroy", cuMemPoolDestroy(pool));
}

/* Contexts end; pools and their blocks are the device's. */
GROUP(contexts)
{
	CUcontext first = NULL, second = NULL;
	CUmemoryPool current = NULL;
	CUdeviceptr at = 0;

	make();
	NEED(cuDeviceSetMemPool(0, s.pool));
	NEED(cuCtxGetCurrent(&first));
	NEED(cuCtxCreate(&second, NULL, 0, 0));
	ASK_VALUE("current_in_second_context", cuDeviceGetMemPool(&current, 0), "%s",
		  pool_which(current, s.pool, NULL));
	SAY("bytes_in_second_context", "%s", vmm_bytes(s.at, 16));
	ASK("destroy_first_context", cuCtxDestroy(first));
	SAY("numbers_after_context", "%s", pool_numbers(s.pool));
	SAY("bytes_after_context", "%s", vmm_bytes(s.at, 16));
	ASK("fill_after_context", cuMemsetD8(s.at, 0x33, 16));
	SAY("filled_bytes_after_context", "%s", vmm_bytes(s.at, 16));
	SAY("range_size_after_context", "%d", pool_pointer_word(s.at, CU_POINTER_ATTRIBUTE_RANGE_SIZE));
	ASK("alloc_after_context", cuMemAllocFromPoolAsync(&at, 4096, s.pool, NULL));
	ASK("free_after_context", cuMemFreeAsync(s.freed, NULL));
	ASK("free_sync_after_context", cuMemFree(s.freed_sync));
	NEED(cuCtxSynchronize());
	SAY("numbers_after_context_and_frees", "%s", pool_numbers(s.pool));
	ASK("destroy_pool_after_context", cuMemPoolDestroy(s.pool));
	ASK("free_last_after_context", cuMemFreeAsync(s.at, NULL));
	ASK("destroy_second_context", cuCtxDestroy(second));
	ASK_VALUE("current_without_contexts", cuDeviceGetMemPool(&current, 0), "%s", OUT(current));
}

/* The last context ends with blocks alive. */
GROUP(last_context)
{
	CUcontext context = NULL;

	make();
	NEED(cuCtxGetCurrent(&context));
	ASK("destroy_last_context", cuCtxDestroy(context));
	SAY("numbers_without_contexts", "%s", pool_numbers(s.pool));
	NEED(cuCtxCreate(&context, NULL, 0, 0));
	SAY("numbers_in_new_context", "%s", pool_numbers(s.pool));
	SAY("bytes_in_new_context", "%s", vmm_bytes(s.at, 16));
	ASK("free_in_new_context", cuMemFreeAsync(s.at, NULL));
	ASK("alloc_in_new_context", cuMemAllocFromPoolAsync(&s.made, 4096, s.pool, NULL));
	ASK("synchronize_new_context", cuCtxSynchronize());
	ASK("destroy_in_new_context", cuMemPoolDestroy(s.pool));
}

GROUP(primary)
{
	CUcontext context = NULL;
	CUmemoryPool current = NULL, first = NULL, pool = NULL;
	CUdeviceptr at = 0, of_default = 0;

	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	NEED(cuCtxSetCurrent(context));
	NEED(cuDeviceGetDefaultMemPool(&first, 0));
	NEED(cuMemAllocAsync(&of_default, 4096, NULL));
	pool = pool_make(0);
	NEED(cuDeviceSetMemPool(0, pool));
	at = pool_alloc(pool, 4096, NULL);
	NEED(cuMemsetD8(at, 0x34, 4096));
	NEED(cuMemsetD8(of_default, 0x35, 4096));
	NEED(cuCtxSynchronize());
	NEED(pool_set(first, THRESHOLD, MIB));
	ASK("primary_reset", cuDevicePrimaryCtxReset(0));
	ASK("primary_retain_again", cuDevicePrimaryCtxRetain(&context, 0));
	ASK("primary_current_again", cuCtxSetCurrent(context));
	ASK_VALUE("primary_pool_after_reset", cuDeviceGetMemPool(&current, 0), "%s", pool_which(current, first, pool));
	ASK_VALUE("primary_default_after_reset", cuDeviceGetDefaultMemPool(&current, 0), "%s",
		  pool_which(current, first, pool));
	SAY("primary_default_numbers_after_reset", "%s", pool_numbers(first));
	SAY("primary_default_threshold_after_reset", "%s", pool_get(first, THRESHOLD));
	SAY("primary_numbers_after_reset", "%s", pool_numbers(pool));
	SAY("primary_bytes_after_reset", "%s", vmm_bytes(at, 16));
	SAY("primary_default_bytes_after_reset", "%s", vmm_bytes(of_default, 16));
	ASK("primary_free_after_reset", cuMemFreeAsync(at, NULL));
	ASK("primary_default_free_after_reset", cuMemFreeAsync(of_default, NULL));
	ASK("primary_alloc_after_reset", cuMemAllocAsync(&at, 4096, NULL));
	ASK("primary_synchronize_after_reset", cuCtxSynchronize());
	ASK("primary_destroy_after_reset", cuMemPoolDestroy(pool));
}

/* The runtime resets the device under its blocks. */
GROUP(runtime_reset)
{
	void *at = NULL;
	cudaMemPool_t pool = NULL, current = NULL;

	NEED(cudaMallocAsync(&at, 4096, NULL));
	NEED(cudaDeviceSynchronize());
	NEED(cudaDeviceGetDefaultMemPool(&pool, 0));
	ASK("runtime_reset", cudaDeviceReset());
	ASK_VALUE("runtime_default_after_reset", cudaDeviceGetDefaultMemPool(&current, 0), "%s",
		  pool_which(current, pool, NULL));
	ASK("runtime_free_after_reset", cudaFreeAsync(at, NULL));
	ASK("runtime_alloc_after_reset", cudaMallocAsync(&at, 4096, NULL));
	ASK("runtime_synchronize_after_reset", cudaDeviceSynchronize());
}

/* What the processor sees of a block; a crash is an answer. */
static void ask_processor(const char *kind, CUmemPoolProps properties)
{
	char bytes[16];

	ask_context();
	CUstream stream = pool_stream();
	CUmemoryPool pool = pool_make_as(properties);
	CUdeviceptr at = pool_alloc(pool, 4096, stream);
	NEED(cuStreamSynchronize(stream));
	memset(bytes, 0x41, sizeof bytes);
	ASK(ask_name("%s_copy_in", kind), cuMemcpyHtoD(at, bytes, 16));
	SAY(ask_name("%s_copy_out", kind), "%s", ask_device_bytes(at, 16));
	SAY(ask_name("%s_processor_reads", kind), "%02x", ((volatile unsigned char *)(uintptr_t)at)[4]);
	SAY(ask_name("%s_processor_writes", kind), "%02x", ((volatile unsigned char *)(uintptr_t)at)[4] = 0x42);
	SAY(ask_name("%s_copy_sees", kind), "%s", ask_device_bytes(at, 8));
	ask_guard();
	ASK(ask_name("%s_fill", kind), cuMemsetD8(at, 0x43, 16));
	ASK(ask_name("%s_fill_async", kind), cuMemsetD8Async(at, 0x44, 16, stream));
	NEED(cuStreamSynchronize(stream));
	SAY(ask_name("%s_filled", kind), "%s", ask_device_bytes(at, 16));
	ASK(ask_name("%s_free", kind), cuMemFreeAsync(at, stream));
	ASK(ask_name("%s_synchronize", kind), cuStreamSynchronize(stream));
}

#define PROCESSOR(kind, allocation_type, type)                                   \
	GROUP(processor_##kind)                                                  \
	{                                                                        \
		ask_processor(#kind, pool_properties(allocation_type, type, 0)); \
	}

PROCESSOR(device, PINNED, DEVICE)
PROCESSOR(host, PINNED, HOST)
PROCESSOR(numa, PINNED, NUMA)
PROCESSOR(managed, MANAGED, DEVICE)
PROCESSOR(managed_host, MANAGED, HOST)
PROCESSOR(managed_none, MANAGED, 0)

/* Where the blocks of managed pools would rather be. */
static void ask_preferred(const char *kind, int type, int id)
{
	const CUmem_range_attribute attributes[] = {
		CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
		CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
		CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
		CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID,
		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID,
	};
	CUstream stream = pool_stream();
	CUmemPoolProps properties = pool_properties(MANAGED, type, id);
	CUmemoryPool pool = NULL;

	if (cuMemPoolCreate(&pool, &properties))
		return;
	CUdeviceptr at = pool_alloc(pool, 65536, stream);
	NEED(cuStreamSynchronize(stream));
	for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
		int value = UNTOUCHED_INT;
		ASK_VALUE(ask_name("preferred_%s_%d", kind, (int)attributes[i]),
			  cuMemRangeGetAttribute(&value, sizeof value, attributes[i], at, 65536), "%d", value);
	}
	CUmemLocation device = vmm_place(DEVICE, 0), host = vmm_place(HOST, 0);
	ASK(ask_name("advise_%s", kind), cuMemAdvise(at, 65536, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
	ASK(ask_name("prefetch_%s", kind), cuMemPrefetchAsync(at, 65536, device, 0, stream));
	NEED(cuStreamSynchronize(stream));
	int value = UNTOUCHED_INT;
	ASK_VALUE(ask_name("advised_%s", kind),
		  cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, 65536),
		  "%d", value);
	SAY(ask_name("managed_numbers_%s", kind), "%s", pool_numbers(pool));
	ASK(ask_name("managed_free_%s", kind), cuMemFreeAsync(at, stream));
	ASK(ask_name("managed_synchronize_%s", kind), cuStreamSynchronize(stream));
	SAY(ask_name("managed_numbers_freed_%s", kind), "%s", pool_numbers(pool));
}

GROUP(preferred)
{
	ask_context();
	ask_preferred("device", DEVICE, 0);
	ask_preferred("host", HOST, 0);
	ask_preferred("numa", NUMA, 0);
	ask_preferred("none", 0, 0);
}

/* Two threads, each with a stream of its own, in one pool. */
enum { WORKERS = 2, TURNS = 500 };

static struct worker {
	CUcontext context;
	CUstream stream;
	int failures, wrong;
} workers[WORKERS];

static void *work(void *data)
{
	struct worker *worker = data;
	unsigned char mine = (unsigned char)(0x51 + (worker - workers)), bytes[64];

	if (cuCtxSetCurrent(worker->context))
		worker->failures++;
	for (int i = 0; i < TURNS; i++) {
		CUdeviceptr at = 0;
		size_t length = (size_t)64 << i % 12;
		worker->failures += cuMemAllocFromPoolAsync(&at, length, s.pool, worker->stream) != CUDA_SUCCESS;
		worker->failures += cuMemsetD8Async(at, mine, length, worker->stream) != CUDA_SUCCESS;
		worker->failures += cuMemcpyDtoHAsync(bytes, at + length - 64, 64, worker->stream) != CUDA_SUCCESS;
		worker->failures += cuMemFreeAsync(at, worker->stream) != CUDA_SUCCESS;
		worker->failures += cuStreamSynchronize(worker->stream) != CUDA_SUCCESS;
		for (int k = 0; k < 64; k++)
			worker->wrong += bytes[k] != mine;
	}
	return NULL;
}

GROUP(two_threads)
{
	pthread_t threads[WORKERS];
	CUcontext context = NULL;

	make();
	NEED(cuCtxGetCurrent(&context));
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){.context = context, .stream = pool_stream()};
		if (pthread_create(&threads[i], NULL, work, &workers[i]))
			abort();
	}
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(threads[i], NULL);
		SAY(ask_name("worker_%d", i), "%d failures %d wrong bytes", workers[i].failures, workers[i].wrong);
	}
	SAY("used_after_workers", "%s", pool_get(s.pool, USED));
}

/* How much of the device's memory a pool takes, in steps of 64 MiB. */
static int taken(size_t start)
{
	size_t left = 0, total = 0;

	NEED(cuMemGetInfo(&left, &total));
	return (int)(((long long)start - (long long)left + (left < start ? 1 : -1) * 16 * (long long)MIB) /
		     (64 * (long long)MIB));
}

ALONE(accounting)
{
	size_t start = 0, total = 0;
	CUdeviceptr at = 0, other = 0;

	ask_context();
	CUstream stream = pool_stream();
	at = pool_alloc(pool_make(0), 4096, stream);
	NEED(cuMemsetD8Async(at, 1, 4096, stream));
	NEED(cuCtxSynchronize());
	NEED(cuMemGetInfo(&start, &total));
	CUmemoryPool pool = pool_make(0);
	SAY("account_create", "%d", taken(start));
	ASK_VALUE("account_alloc", cuMemAllocFromPoolAsync(&at, 256 * MIB, pool, stream), "%d", taken(start));
	ASK_VALUE("account_another", cuMemAllocFromPoolAsync(&other, 256 * MIB, pool, stream), "%d", taken(start));
	NEED(cuStreamSynchronize(stream));
	ASK_VALUE("account_free", cuMemFreeAsync(at, stream), "%s", pool_get(pool, RESERVED));
	ASK_VALUE("account_synchronize", cuStreamSynchronize(stream), "%d", taken(start));
	NEED(pool_set(pool, THRESHOLD, ~0ull));
	ASK("account_free_another", cuMemFreeAsync(other, stream));
	ASK_VALUE("account_kept", cuStreamSynchronize(stream), "%d", taken(start));
	ASK_VALUE("account_trim", cuMemPoolTrimTo(pool, 0), "%d", taken(start));
	NEED(cuMemAllocFromPoolAsync(&at, 256 * MIB, pool, stream));
	NEED(cuStreamSynchronize(stream));
	ASK_VALUE("account_destroy_with_block", cuMemPoolDestroy(pool), "%d", taken(start));
	ASK("account_free_last", cuMemFreeAsync(at, stream));
	ASK_VALUE("account_all_back", cuStreamSynchronize(stream), "%d", taken(start));
}

/* More than there is, again after a free, and memory that a pool keeps while others want it. */
ALONE(exhaustion)
{
	size_t left = 0, total = 0;
	CUdeviceptr at = 0, big = UNTOUCHED(CUdeviceptr), plain = 0;

	ask_context();
	CUstream stream = pool_stream();
	CUmemoryPool pool = pool_make(0), greedy = pool_make(0);
	NEED(pool_set(greedy, THRESHOLD, ~0ull));
	NEED(cuMemGetInfo(&left, &total));
	ASK_VALUE("alloc_more_than_all", cuMemAllocFromPoolAsync(&big, total + GIB, pool, stream), "%s %s", OUT(big),
		  pool_numbers(pool));
	size_t half = left / 5 * 3 / GIB * GIB;
	ASK("alloc_most", cuMemAllocFromPoolAsync(&at, half, pool, stream));
	ASK("alloc_most_again", cuMemAllocFromPoolAsync(&big, half, pool, stream));
	ASK("free_most", cuMemFreeAsync(at, stream));
	ASK("alloc_most_after_free", cuMemAllocFromPoolAsync(&at, half, pool, stream));
	NEED(cuStreamSynchronize(stream));
	ASK("free_most_again", cuMemFreeAsync(at, stream));
	ASK("alloc_most_from_other_pool", cuMemAllocFromPoolAsync(&big, half, greedy, stream));
	NEED(cuStreamSynchronize(stream));
	ASK("free_most_of_greedy", cuMemFreeAsync(big, stream));
	NEED(cuStreamSynchronize(stream));
	SAY("greedy_keeps", "%s", ask_yes(strcmp(pool_get(greedy, RESERVED), "0") != 0));
	ASK("mem_alloc_of_what_greedy_keeps", cuMemAlloc(&plain, half));
	SAY("greedy_kept", "%s", ask_yes(strcmp(pool_get(greedy, RESERVED), "0") != 0));
	if (plain)
		NEED(cuMemFree(plain));
	ASK("alloc_of_what_greedy_keeps", cuMemAllocFromPoolAsync(&at, half, pool, stream));
	ASK("synchronize_at_end", cuCtxSynchronize());
}

/* SPDX-License-Identifier: MIT */
/*
 * All calls from many threads at once.
 *
 * Threads draw from one table of actions, each some calls of a chapter of the driver, the runtime or Cenote's own. What
 * an action makes and writes to is its own. What it looks at, waits for, records, allocates from, exports and imports
 * may be any thread's: streams, events, pools, blocks, physical memory and a context are in slots from which any thread
 * takes one, puts another there and destroys the first. So every call meets objects that end while it runs. It then
 * says so, with a code for it and a sentence; it never crashes, hangs, or acts on what has taken the object's place.
 *
 * A second process shares things all the while. ThreadSanitizer watches in the build that has it.
 */
#include "tour.h"

#include "cenote/cuda_runtime_api.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	THREADS = 6,
	ACTIONS = HARNESS_SLOWDOWN == 1 ? 3000 : 800, /* of a thread */
	PLACES = 2,                                   /* for objects of a kind */
	SMALL = 3000,
	LARGE = 300000, /* such a copy is not made in the caller */
};

static struct {
	_Atomic(CUstream) streams[PLACES];
	_Atomic(CUevent) events[PLACES]; /* every other one is for processes */
	_Atomic(CUmemoryPool) pools[PLACES];
	_Atomic(CUdeviceptr) blocks[PLACES];
	_Atomic(CUmemGenericAllocationHandle) memory[PLACES];
	_Atomic(CUcontext) context;
	CUcontext primary;
	CUmemoryPool gift; /* the partner's pool */
	_Atomic unsigned long calls, refused, host_functions;
} all;

static struct tour tour;

struct thread {
	struct test_random random;
	unsigned char *buffer; /* of LARGE bytes */
};

SETUP
{
	share_start();
}

/* ---- How a call may end ------------------------------------------------------------------------------------------ */

static bool is_allowed(unsigned code)
{
	switch (code) {
	case CUDA_SUCCESS:
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_INVALID_HANDLE:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_NOT_FOUND:
	case CUDA_ERROR_NOT_READY: return true;
	default: return false;
	}
}

/* True: it has worked. */
static bool attempt(const char *call, unsigned code)
{
	all.calls++;
	if (code == CUDA_SUCCESS)
		return true;
	all.refused++;
	if (!is_allowed(code))
		FAIL("%s answered %u: %s", call, code, cenote_last_error());
	if (code != CUDA_ERROR_NOT_READY && !cenote_last_error()[0])
		FAIL("%s answered %u without a sentence", call, code);
	return false;
}

#define TRY(call) attempt(#call, (unsigned)(call))

/* A call on an object that only this thread uses. */
#define MUST(call)               \
	do {                     \
		all.calls++;     \
		ASSERT_OK(call); \
	} while (0)

static unsigned lot(struct thread *thread, unsigned bound)
{
	return (unsigned)test_random_below(&thread->random, bound);
}

#define ANY(what) (atomic_load(&all.what[lot(thread, PLACES)]))

/* ---- Objects that come and go ------------------------------------------------------------------------------------ */

static void replace_stream(struct thread *thread)
{
	CUstream stream;

	MUST(cuStreamCreateWithPriority(&stream, lot(thread, 2) ? CU_STREAM_NON_BLOCKING : 0, -(int)lot(thread, 3)));
	stream = atomic_exchange(&all.streams[lot(thread, PLACES)], stream);
	if (stream)
		MUST(cuStreamDestroy(stream));
}

static void replace_event(struct thread *thread)
{
	unsigned place = lot(thread, PLACES);
	CUevent event;

	MUST(cuEventCreate(&event, place % 2 ? CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
	event = atomic_exchange(&all.events[place], event);
	if (event)
		MUST(cuEventDestroy(event));
}

static void replace_pool(struct thread *thread)
{
	CUmemoryPool pool = atomic_exchange(&all.pools[lot(thread, PLACES)], share_pool(4 * SHARE_CHUNK));

	if (pool)
		MUST(cuMemPoolDestroy(pool));
}

/* A thread that has taken a block out of its slot frees it, in a stream that may be gone, or without one. */
static void free_block(CUdeviceptr block, CUstream stream)
{
	if (block && !TRY(cuMemFreeAsync(block, stream)))
		MUST(cuMemFree(block));
}

static void replace_block(struct thread *thread)
{
	CUdeviceptr block = 0;
	CUstream stream = ANY(streams);

	if (!TRY(cuMemAllocFromPoolAsync(&block, 1 + lot(thread, LARGE), ANY(pools), stream)))
		block = 0;
	free_block(atomic_exchange(&all.blocks[lot(thread, PLACES)], block), ANY(streams));
}

static void replace_memory(struct thread *thread)
{
	CUmemGenericAllocationHandle memory = tour_memory(SHARE_POSIX);

	ASSERT_NE(0, memory);
	memory = atomic_exchange(&all.memory[lot(thread, PLACES)], memory);
	if (memory)
		MUST(cuMemRelease(memory));
}

static void replace_context(struct thread *thread)
{
	CUcontext context, popped;

	(void)thread;
	MUST(cuCtxCreate(&context, NULL, CU_CTX_SCHED_AUTO, 0));
	MUST(cuCtxPopCurrent(&popped));
	ASSERT(context == popped);
	context = atomic_exchange(&all.context, context);
	if (context)
		MUST(cuCtxDestroy(context));
}

/* ---- Streams and events ------------------------------------------------------------------------------------------ */

static void CUDA_CB count_function(void *data)
{
	(void)data;
	all.host_functions++;
}

static void CUDA_CB count_callback(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	all.host_functions++;
}

static void look_at_stream(struct thread *thread)
{
	CUstream stream = ANY(streams);
	CUstreamCaptureStatus status;
	CUcontext context;
	unsigned flags;
	int priority;
	CUdevice device;
	unsigned long long id;

	TRY(cuStreamQuery(stream));
	TRY(cuStreamGetFlags(stream, &flags));
	TRY(cuStreamGetPriority(stream, &priority));
	TRY(cuStreamGetCtx(stream, &context));
	TRY(cuStreamGetDevice(stream, &device));
	TRY(cuStreamGetId(stream, &id));
	TRY(cuStreamIsCapturing(stream, &status));
	TRY(cudaStreamGetFlags((cudaStream_t)stream, &flags));
	TRY(cudaStreamGetPriority((cudaStream_t)stream, &priority));
	TRY(cudaStreamQuery((cudaStream_t)stream));
}

static void order_streams(struct thread *thread)
{
	CUevent event = ANY(events);

	TRY(cuEventRecord(event, ANY(streams)));
	TRY(cuStreamWaitEvent(ANY(streams), event, 0));
	TRY(cudaEventRecordWithFlags((cudaEvent_t)ANY(events), (cudaStream_t)ANY(streams), 0));
	TRY(cudaStreamWaitEvent((cudaStream_t)ANY(streams), (cudaEvent_t)ANY(events), 0));
	TRY(cuLaunchHostFunc(ANY(streams), count_function, NULL));
	TRY(cudaLaunchHostFunc((cudaStream_t)ANY(streams), count_function, NULL));
	TRY(cuStreamAddCallback(ANY(streams), count_callback, NULL, 0));
	TRY(cuStreamSynchronize(ANY(streams)));
	TRY(cudaStreamSynchronize((cudaStream_t)ANY(streams)));
}

static void look_at_event(struct thread *thread)
{
	CUipcEventHandle handle;
	CUevent event = ANY(events), opened;
	float ms;

	TRY(cuEventQuery(event));
	TRY(cudaEventQuery((cudaEvent_t)ANY(events)));
	TRY(cuEventElapsedTime(&ms, event, ANY(events)));
	if (TRY(cuIpcGetEventHandle(&handle, event)))
		ASSERT_NE(CUDA_SUCCESS, cuIpcOpenEventHandle(&opened, handle)); /* one's own */
	TRY(cuEventSynchronize(ANY(events)));
	TRY(cudaEventSynchronize((cudaEvent_t)ANY(events)));
}

static void own_stream(struct thread *thread)
{
	cudaStream_t stream;
	cudaEvent_t event;

	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	TRY(cudaStreamWaitEvent(stream, (cudaEvent_t)ANY(events), 0));
	MUST(cudaEventRecord(event, stream));
	TRY(cuStreamWaitEvent(ANY(streams), (CUevent)event, 0));
	MUST(cudaEventSynchronize(event));
	MUST(cudaEventDestroy(event));
	MUST(cudaStreamDestroy(stream));
}

static void write_values(struct thread *thread)
{
	CUstream stream = share_stream(), shared = ANY(streams);
	CUdeviceptr word;

	MUST(cuMemAlloc(&word, 64));
	MUST(cuMemsetD32(word, 0, 16));
	MUST(cuStreamSynchronize(NULL));
	MUST(cuStreamWriteValue32(stream, word, 1, 0));
	MUST(cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
	TRY(cuStreamWriteValue64(shared, word + 8, 2, 0));
	TRY(cuStreamWaitValue64(shared, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
	MUST(cuStreamSynchronize(stream));
	TRY(cuStreamSynchronize(
		shared)); /* before its word is freed; one that is gone has done its work or never will */
	MUST(cuCtxSynchronize());
	MUST(cuStreamDestroy(stream));
	MUST(cuMemFree(word));
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static void copy_own(struct thread *thread)
{
	CUdeviceptr first, second;
	size_t bytes = lot(thread, 2) ? LARGE : SMALL;
	unsigned char value = (unsigned char)lot(thread, 256);
	CUstream stream = share_stream();

	MUST(cuMemAlloc(&first, bytes));
	MUST(cuMemAllocAsync(&second, bytes, stream));
	MUST(cuMemsetD8Async(first, value, bytes, stream));
	MUST(cuMemcpyDtoDAsync(second, first, bytes, stream));
	memset(thread->buffer, ~value, bytes);
	MUST(cuMemcpyDtoHAsync(thread->buffer, second, bytes, stream));
	MUST(cuMemFreeAsync(second, stream));
	MUST(cuStreamSynchronize(stream));
	for (size_t i = 0; i < bytes; i += 97)
		ASSERT_EQ(value, thread->buffer[i]);
	MUST(cuMemcpyHtoD(first, thread->buffer, bytes));
	MUST(cuMemcpyDtoH(thread->buffer, first, bytes));
	ASSERT_EQ(value, thread->buffer[bytes - 1]);
	MUST(cuMemFree(first));
	MUST(cuStreamDestroy(stream));
}

static void copy_by_runtime(struct thread *thread)
{
	void *device, *pitched, *host, *async;
	size_t pitch;
	cudaStream_t stream;

	cudaGetLastError(); /* of what was tried before */
	MUST(cudaStreamCreate(&stream));
	MUST(cudaMalloc(&device, SMALL));
	MUST(cudaMallocHost(&host, SMALL));
	MUST(cudaMallocAsync(&async, SMALL, stream));
	MUST(cudaMallocPitch(&pitched, &pitch, 100, 10));
	memset(host, 0x21, SMALL);
	MUST(cudaMemcpy(device, host, SMALL, cudaMemcpyHostToDevice));
	MUST(cudaMemcpyAsync(async, device, SMALL, cudaMemcpyDeviceToDevice, stream));
	MUST(cudaMemset2D(pitched, pitch, 0x11, 100, 10));
	MUST(cudaMemcpy2D(thread->buffer, 100, pitched, pitch, 100, 10, cudaMemcpyDeviceToHost));
	ASSERT_EQ(0x11, thread->buffer[999]);
	MUST(cudaMemcpyAsync(host, async, SMALL, cudaMemcpyDeviceToHost, stream));
	MUST(cudaFreeAsync(async, stream));
	MUST(cudaStreamSynchronize(stream));
	ASSERT_EQ(0x21, ((unsigned char *)host)[SMALL - 1]);
	MUST(cudaStreamDestroy(stream));
	MUST(cudaFree(pitched));
	MUST(cudaFreeHost(host));
	MUST(cudaFree(device));
	MUST(cudaPeekAtLastError());
}

static void other_memory(struct thread *thread)
{
	CUdeviceptr managed, there;
	void *host;
	unsigned flags;

	MUST(cuMemAllocManaged(&managed, SMALL, CU_MEM_ATTACH_GLOBAL));
	memset((void *)(uintptr_t)managed, 1, SMALL);
	MUST(cuMemHostAlloc(&host, SMALL, CU_MEMHOSTALLOC_DEVICEMAP));
	MUST(cuMemHostGetDevicePointer(&there, host, 0));
	MUST(cuMemHostGetFlags(&flags, host));
	MUST(cuMemcpy(there, managed, SMALL));
	ASSERT_EQ(1, ((unsigned char *)host)[SMALL - 1]);
	MUST(cuMemFreeHost(host));
	MUST(cuMemFree(managed));
	MUST(cuMemHostRegister(thread->buffer, LARGE, 0));
	MUST(cuMemHostUnregister(thread->buffer));
}

/* Blocks of any thread, which may be freed or reused by now: only read. */
static void look_at_block(struct thread *thread)
{
	CUdeviceptr block = ANY(blocks), base;
	struct cudaPointerAttributes attributes;
	CUmemoryPool pool;
	size_t bytes;
	int value;
	unsigned long long id;

	TRY(cuMemGetAddressRange(&base, &bytes, block));
	TRY(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block));
	TRY(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
	TRY(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block));
	TRY(cudaPointerGetAttributes(&attributes, (void *)(uintptr_t)block));
	TRY(cudaPointerGetAttributes(&attributes, thread->buffer));
}

static void look_at_device(struct thread *thread)
{
	struct cudaDeviceProp properties;
	size_t available, total;
	char name[64], bus[32];
	CUdevice device;
	CUuuid uuid;
	int value;

	(void)thread;
	MUST(cuMemGetInfo(&available, &total));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDeviceGetName(name, sizeof name, device));
	MUST(cuDeviceGetUuid(&uuid, device));
	MUST(cuDeviceTotalMem(&total, device));
	MUST(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device));
	MUST(cuDeviceGetPCIBusId(bus, sizeof bus, device));
	MUST(cudaGetDeviceProperties(&properties, 0));
	MUST(cudaDeviceGetAttribute(&value, cudaDevAttrIpcEventSupport, 0));
	MUST(cudaMemGetInfo(&available, &total));
	MUST(cudaDriverGetVersion(&value));
}

/* ---- Physical memory --------------------------------------------------------------------------------------------- */

static void map_memory(struct thread *thread)
{
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle memory = ANY(memory), again;
	CUmemAllocationProp properties;
	unsigned long long rights;
	CUdeviceptr range;
	size_t bytes;

	MUST(cuMemGetAllocationGranularity(&bytes,
					   &(CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
								  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
					   CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	MUST(cuMemAddressReserve(&range, TOUR_GRAIN, 0, 0, 0));
	TRY(cuMemGetAllocationPropertiesFromHandle(&properties, memory));
	if (TRY(cuMemMap(range, TOUR_GRAIN, 0, memory, 0))) {
		MUST(cuMemSetAccess(range, TOUR_GRAIN, &access, 1));
		MUST(cuMemGetAccess(&rights, &access.location, range));
		MUST(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)range));
		MUST(cuMemUnmap(range, TOUR_GRAIN));
		MUST(cuMemRelease(again));
	}
	MUST(cuMemAddressFree(range, TOUR_GRAIN));
}

static void share_memory(struct thread *thread)
{
	CUmemGenericAllocationHandle imported;
	int descriptor;

	if (!TRY(cuMemExportToShareableHandle(&descriptor, ANY(memory), SHARE_POSIX, 0)))
		return;
	MUST(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor, SHARE_POSIX));
	close(descriptor);
	MUST(cuMemRelease(imported));
	ASSERT_OK(tour_use_memory(tour.gift_memory));
}

/* ---- Pools ------------------------------------------------------------------------------------------------------- */

static void look_at_pool(struct thread *thread)
{
	CUmemoryPool pool = ANY(pools);
	CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	CUmemAccessDesc access = {.location = location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	cenote_pool_statistics statistics;
	CUmemAccess_flags rights;
	cuuint64_t value = 0;
	int reuse = 1;
	char text[66];

	TRY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
	TRY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
	TRY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
	TRY(cuMemPoolGetAccess(&rights, pool, &location));
	TRY(cuMemPoolSetAccess(pool, &access, 1));
	TRY(cuMemPoolTrimTo(pool, 0));
	TRY(cenote_pool_stats(pool, &statistics, sizeof statistics));
	TRY(cenote_pool_picture(pool, text, sizeof text));
	TRY(cudaMemPoolGetAttribute((cudaMemPool_t)pool, cudaMemPoolAttrUsedMemCurrent, &value));
	MUST(cuDeviceGetDefaultMemPool(&pool, 0));
	MUST(cuDeviceGetMemPool(&pool, 0));
}

static void share_pool_with_oneself(struct thread *thread)
{
	CUmemPoolPtrExportData name;
	CUmemoryPool imported;
	CUdeviceptr taken;
	int descriptor;

	if (!TRY(cuMemPoolExportToShareableHandle(&descriptor, ANY(pools), SHARE_POSIX, 0)))
		return;
	if (cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor, SHARE_POSIX, 0) ==
	    CUDA_SUCCESS) {
		if (TRY(cuMemPoolExportPointer(&name, ANY(blocks))) &&
		    TRY(cuMemPoolImportPointer(&taken, imported, &name)))
			free_block(taken, ANY(streams));
		while (cuMemPoolDestroy(imported)) /* another thread has imported the same, and has a block of it */
			sched_yield();
	}
	close(descriptor);
}

static void ask_about_pool(struct thread *thread)
{
	CUmemoryPool pool = ANY(pools);
	cenote_importer importers[4];
	size_t count = 0;
	int watch;

	if (TRY(cenote_pool_watch(pool, &watch)))
		close(watch);
	TRY(cenote_pool_limit(pool, lot(thread, 2) ? 0 : 1 << 30));
	TRY(cenote_pool_importers(pool, importers, sizeof *importers, 4, &count));
}

/* ---- The partner's ----------------------------------------------------------------------------------------------- */

static void take_gifts(struct thread *thread)
{
	CUdeviceptr block;

	MUST(cuMemPoolImportPointer(&block, all.gift, &tour.gifts.block));
	ASSERT_EQ(TOUR_BYTE, share_byte(block + TOUR_BLOCK - 1));
	free_block(block, ANY(streams));
	MUST(tour_use_legacy(tour.gifts.legacy));
}

static void open_event(struct thread *thread)
{
	CUstream stream = share_stream();
	CUevent event;

	MUST(cuIpcOpenEventHandle(&event, tour.gifts.event));
	TRY(cuStreamWaitEvent(ANY(streams), event, 0));
	MUST(cuEventRecord(event, stream));
	MUST(cuEventSynchronize(event));
	MUST(cuStreamDestroy(stream));
	MUST(cuEventDestroy(event));
}

static void share_legacy(struct thread *thread)
{
	CUipcMemHandle handle;
	CUdeviceptr home, there;

	(void)thread;
	MUST(cuMemAlloc(&home, SMALL));
	MUST(cuIpcGetMemHandle(&handle, home));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT,
		     cuIpcOpenMemHandle(&there, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	MUST(cuMemFree(home));
}

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

/* In a context that another thread may destroy meanwhile. */
static void visit_context(struct thread *thread)
{
	CUcontext context = atomic_load(&all.context), current;
	CUdeviceptr block;
	CUstream stream;
	CUdevice device;
	size_t limit;
	unsigned long long id;

	(void)thread;
	if (!TRY(cuCtxPushCurrent(context)))
		return;
	TRY(cuCtxGetDevice(&device));
	TRY(cuCtxGetId(context, &id));
	TRY(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
	if (TRY(cuStreamCreate(&stream, 0)))
		TRY(cuStreamDestroy(stream));
	if (TRY(cuMemAlloc(&block, SMALL)))
		TRY(cuMemFree(block));
	TRY(cuCtxSynchronize());
	MUST(cuCtxPopCurrent(&current));
	MUST(cuCtxSetCurrent(all.primary));
}

static void own_context(struct thread *thread)
{
	CUcontext context, popped;
	CUdeviceptr block;
	CUstream stream;

	(void)thread;
	MUST(cuCtxCreate(&context, NULL, 0, 0));
	MUST(cuStreamCreate(&stream, 0));
	MUST(cuMemAlloc(&block, SMALL));
	MUST(cuMemsetD8Async(block, 1, SMALL, stream));
	MUST(cuCtxSynchronize());
	MUST(cuCtxDestroy(context)); /* and with it the others */
	MUST(cuCtxGetCurrent(&popped));
	ASSERT(popped == all.primary);
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuDevicePrimaryCtxRelease(0));
	MUST(cudaSetDevice(0));
}

static void say_something(struct thread *thread)
{
	const char *name;
	void *function;

	(void)thread;
	cudaGetLastError(); /* of what was tried before */
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(1));
	ASSERT_CONTAINS("0x1", cenote_last_error()); /* the thread's own, whatever the others do */
	MUST(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &name));
	MUST(cuGetProcAddress("cuMemAlloc", &function, 13000, 0, NULL));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaFree((void *)1));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaGetLastError());
	MUST(cudaGetLastError());
}

/* ---- The test ---------------------------------------------------------------------------------------------------- */

static void (*const actions[])(struct thread *thread) = {
	replace_stream,  replace_event,   replace_pool,   replace_block,           replace_block,  replace_memory,
	replace_context, look_at_stream,  order_streams,  look_at_event,           own_stream,     write_values,
	copy_own,        copy_by_runtime, other_memory,   look_at_block,           look_at_device, map_memory,
	share_memory,    look_at_pool,    ask_about_pool, share_pool_with_oneself, take_gifts,     open_event,
	share_legacy,    visit_context,   own_context,    say_something,
};

enum { ACTION_COUNT = sizeof actions / sizeof *actions };

static void *act(void *data)
{
	struct thread *thread = data;

	ASSERT_OK(cuCtxSetCurrent(all.primary));
	thread->buffer = malloc(LARGE);
	ASSERT(thread->buffer);
	for (unsigned long i = 0; soak_goes_on(i, ACTIONS); i++)
		actions[lot(thread, ACTION_COUNT)](thread);
	free(thread->buffer);
	return NULL;
}

/* How many pools have memory here? */
static unsigned count_pools(void)
{
	return test_mapping_count("/memfd:cenote-pool");
}

/*
 * Until so many are left. A pool goes with the first call that finds its last free done, and a stream that was
 * destroyed may have its work yet to do.
 */
static void await_pools(unsigned count)
{
	while (count_pools() > count)
		ASSERT_OK(cuCtxSynchronize());
}

static void end_all(void)
{
	for (unsigned i = 0; i < PLACES; i++) {
		if (all.blocks[i])
			ASSERT_OK(cuMemFree(all.blocks[i]));
		ASSERT_OK(cuStreamDestroy(all.streams[i]));
		ASSERT_OK(cuEventDestroy(all.events[i]));
		ASSERT_OK(cuMemPoolDestroy(all.pools[i]));
		ASSERT_OK(cuMemRelease(all.memory[i]));
	}
	ASSERT_OK(cuCtxDestroy(all.context));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemPoolDestroy(all.gift));
}

/* One of each in its place; blocks come by themselves. */
static void begin_all(void)
{
	CUcontext context;
	CUevent event;

	for (unsigned i = 0; i < PLACES; i++) {
		ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | (i % 2 ? CU_EVENT_INTERPROCESS : 0)));
		all.events[i] = event;
		all.streams[i] = share_stream();
		all.pools[i] = share_pool(4 * SHARE_CHUNK);
		all.memory[i] = tour_memory(SHARE_POSIX);
	}
	ASSERT_OK(cuCtxCreate(&context, NULL, CU_CTX_SCHED_AUTO, 0));
	all.context = context;
	ASSERT_OK(cuCtxSetCurrent(all.primary));
}

/* Goal: whatever calls meet, each does what it says or says that it cannot, and in the end nothing is left. */
TEST(all_calls_at_once, .timeout_ms = 120000, .soak = true)
{
	struct thread threads[THREADS];
	pthread_t ids[THREADS];
	CUdeviceptr block;

	tour_prepare();
	tour_begin(&tour);
	tour_must(&tour); /* the ports and their connections stay, and so does the default pool */
	ASSERT_OK(cuMemAllocAsync(&block, SMALL, NULL));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	await_pools(1);
	leaks_start_here();
	ASSERT_OK(cuCtxGetCurrent(&all.primary));
	all.gift = share_import(tour.gift_pool);
	begin_all();
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i] = (struct thread){.random = test_random_start(1 + i)};
		ASSERT_EQ(0, pthread_create(&ids[i], NULL, act, &threads[i]));
	}
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(ids[i], NULL));
	end_all();
	await_pools(1);
	printf("seed %#jx: %lu calls, %lu refused, %lu host functions\n", (uintmax_t)test_seed(), all.calls,
	       all.refused, all.host_functions);
	ASSERT_GT(all.refused, 0);
	tour_end(&tour);
}

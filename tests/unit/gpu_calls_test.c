/* SPDX-License-Identifier: MIT */
/*
 * Whose a call is on a GPU: pools and their blocks are Cenote's, everything else is the driver's, and a pool's
 * addresses are nobody's to map or unmap.
 */
#include "gpu_calls.h"

#include "share.h"
#include "share/port/port_internal.h"
#include "vmm.h"

#include <pthread.h>

SETUP
{
	driver_choose();
	share_start();
	ASSERT(cn_gpu_is_used);
	/* What both Cenotes keep once something was shared and freed: their threads and default pools. */
	CUmemoryPool pool = share_pool(SHARE_CHUNK), drivers;
	CUdeviceptr block = share_allocate(pool, 4096, NULL);
	close(share_export(pool));
	share_name(block);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(DRIVER(cuDeviceGetDefaultMemPool)(&drivers, 0));
}

static bool is_ours(CUdeviceptr address)
{
	return cn_pool_has((void *)(uintptr_t)address) || cn_import_has((void *)(uintptr_t)address);
}

/* ---- Pools ------------------------------------------------------------------------------------------------------- */

/* Goal: default pools are Cenote's, and the driver has its own beside them. */
TEST(default_pools_are_ours)
{
	CUmemoryPool pool, current, drivers;
	CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
	CUdeviceptr at;

	ASSERT_OK(cuDeviceGetDefaultMemPool(&pool, 0));
	ASSERT(cn_mempool_is_ours(pool));
	ASSERT_OK(cuMemGetDefaultMemPool(&current, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
	ASSERT_EQ(pool, current);
	ASSERT_OK(DRIVER(cuDeviceGetDefaultMemPool)(&drivers, 0));
	ASSERT(!cn_mempool_is_ours(drivers));
	ASSERT_OK(cuMemAllocAsync(&at, 4096, NULL));
	ASSERT(is_ours(at));
	ASSERT_OK(cuMemFreeAsync(at, NULL));

	CUmemoryPool other = make_pool(true);
	ASSERT_OK(cuDeviceSetMemPool(0, other));
	ASSERT_OK(cuDeviceGetMemPool(&current, 0));
	ASSERT_EQ(other, current);
	ASSERT_OK(cuMemAllocAsync(&at, 4096, NULL));
	ASSERT_OK(cuPointerGetAttribute(&current, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
	ASSERT_EQ(other, current);
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_OK(cuDeviceSetMemPool(0, pool));
	ASSERT_OK(cuMemPoolDestroy(other));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
}

/* Goal: managed pools are the driver's in all that is done with them. */
TEST(managed_pools_are_the_drivers)
{
	CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = device};
	CUmemAccessDesc access = {.location = device, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CUmemoryPool pool, default_pool, before, handle;
	uint64_t used = 0, keep_bytes = 1;
	CUdeviceptr at;

	ASSERT_OK(cuMemGetDefaultMemPool(&default_pool, &device, CU_MEM_ALLOCATION_TYPE_MANAGED));
	leaks_start_here(); /* it stays */
	ASSERT(!cn_mempool_is_ours(default_pool));
	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	ASSERT(!cn_mempool_is_ours(pool));
	ASSERT_OK(cuMemAllocFromPoolAsync(&at, 4096, pool, NULL));
	ASSERT(!is_ours(at));
	ASSERT_OK(cuPointerGetAttribute(&handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
	ASSERT_EQ(pool, handle);
	ASSERT_OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	ASSERT_EQ(4096, used);
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_bytes));
	ASSERT_OK(cuMemPoolSetAccess(pool, &access, 1));
	ASSERT_OK(cuMemPoolGetAccess(&flags, pool, &device));
	ASSERT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
	ASSERT_OK(cuMemGetMemPool(&before, &device, CU_MEM_ALLOCATION_TYPE_MANAGED));
	ASSERT_EQ(default_pool, before);
	ASSERT_OK(cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_MANAGED, pool));
	ASSERT_OK(cuMemGetMemPool(&before, &device, CU_MEM_ALLOCATION_TYPE_MANAGED));
	ASSERT_EQ(pool, before);
	ASSERT_OK(cuDeviceSetMemPool(0, default_pool));
	ASSERT_OK(cuMemGetMemPool(&before, &device, CU_MEM_ALLOCATION_TYPE_MANAGED));
	ASSERT_EQ(default_pool, before);
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
}

/* Goal: a handle of ours that is dead, and none at all, are refused by us. */
TEST(dead_handles_are_not_the_drivers)
{
	CUmemoryPool pool = make_pool(true);
	CUdeviceptr at;

	ASSERT_OK(cuMemPoolDestroy(pool));
	replace("cuMemPoolTrimTo", NULL); /* a call crashes now */
	replace("cuMemPoolDestroy", NULL);
	replace("cuMemAllocFromPoolAsync", NULL);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(pool, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&at, 4096, pool, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&at, 4096, NULL, NULL));
}

static void *destroy_context(void *context)
{
	ASSERT_OK(cuCtxDestroy(context));
	return NULL;
}

/* Goal: a free in a stream that has gone is refused by us, whatever its memory: the driver would follow the handle. */
TEST(a_free_in_a_dead_stream_is_not_the_drivers)
{
	CUmemoryPool pool = make_pool(true);
	CUstream stream = make_stream(), lost;
	CUcontext context;
	CUdeviceptr foreign;
	pthread_t thread;

	ASSERT_OK(cuMemAlloc(&foreign, 4096));
	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
	lost = make_stream();
	ASSERT_OK(cuMemFreeAsync(take(pool, 4096, lost), lost));
	ASSERT_EQ(0, pthread_create(&thread, NULL, destroy_context, context));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	void *real = (void *)*call_of("cuMemFreeAsync")->driver;
	replace("cuMemFreeAsync", NULL); /* a call crashes now */
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemFreeAsync(0, lost));
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemFreeAsync(foreign, lost));
	context_current();
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemFreeAsync(0, lost));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemFreeAsync(0, stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemFreeAsync(foreign, stream));
	replace("cuMemFreeAsync", real);
	ASSERT_OK(cuMemFreeAsync(foreign, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Memory that is not a pool's --------------------------------------------------------------------------------- */

/* Goal: addresses that no pool has go to the driver as they are, with pools and without. */
TEST(foreign_memory_is_the_drivers)
{
	CUmemoryPool pool = make_pool(true), handle = (CUmemoryPool)1;
	CUdeviceptr at, base = 0, freed = take(pool, 4096, NULL);
	CUmemoryPool none = NULL;
	size_t bytes = 0;
	int type = 0, local = 0;
	void *host;

	ASSERT_OK(cuMemAlloc(&at, 5000));
	ASSERT(!is_ours(at));
	ASSERT_OK(cuPointerGetAttribute(&handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
	ASSERT_EQ(none, handle);
	ASSERT_OK(cuMemGetAddressRange(&base, &bytes, at + 100));
	ASSERT_EQ(at, base);
	ASSERT_EQ(5000, bytes);
	ASSERT_OK(cuMemFreeAsync(at, NULL)); /* CUDA lets memory of either kind be freed either way */
	ASSERT_OK(cuMemAlloc(&at, 5000));
	ASSERT_OK(cuMemFree(at));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(at));
	ASSERT_OK(cuMemFree(0));
	ASSERT_OK(cuMemFreeAsync(0, NULL));
	ASSERT_OK(cuMemAllocHost(&host, 64));
	ASSERT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
	ASSERT_EQ(CU_MEMORYTYPE_HOST, type);
	ASSERT_OK(cuMemFreeHost(host));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&local));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync((CUdeviceptr)(uintptr_t)&local, NULL));
	ASSERT_OK(cuMemFreeAsync(freed, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- What is known of a block ------------------------------------------------------------------------------------ */

/* Goal: other devices on the bus can use the memory of a pool that can be shared, where the GPU allows it. */
TEST(memory_that_can_be_shared_is_made_for_rdma)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	int rdma = 7, has_rdma = 8;
	CUmemoryPool pool;
	CUdeviceptr at;

	ASSERT_OK(cuDeviceGetAttribute(&has_rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0));
	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	at = take(pool, 5000, NULL);
	ASSERT_OK(cuPointerGetAttribute(&rdma, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, at));
	ASSERT_EQ(has_rdma, rdma);
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a block answers as a block does on the host device, though to the driver it is memory that was mapped. */
TEST(a_blocks_attributes_are_ours)
{
	CUmemoryPool pool = make_pool(true), handle = NULL;
	CUdeviceptr at = take(pool, 5000, NULL), start = 0, base = 0;
	unsigned long long id = 0, other_id = 0, rights = 1;
	int type = 0, ordinal = 7, rdma = 7;
	size_t size = 0, bytes = 0;
	CUcontext context = (CUcontext)1;
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_BUFFER_ID,
		CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
		CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
	};
	void *answers[] = {&context, &type, &start, &size, &ordinal, &id, &rdma, &handle};
	CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
	CUmemGenericAllocationHandle allocation;

	ASSERT_OK(cuPointerGetAttributes(8, attributes, answers, at + 4999));
	ASSERT(!context);
	ASSERT_EQ(CU_MEMORYTYPE_DEVICE, type);
	ASSERT_EQ(at, start);
	ASSERT_EQ(5000, size);
	ASSERT_EQ(0, ordinal);
	ASSERT_EQ(0, rdma); /* the pool cannot be shared */
	ASSERT_EQ(pool, handle);
	ASSERT_OK(cuPointerGetAttribute(&other_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	ASSERT_EQ(id, other_id);
	ASSERT_OK(cuMemGetAddressRange(&base, &bytes, at + 1));
	ASSERT_EQ(at, base);
	ASSERT_EQ(5000, bytes);
	ASSERT_OK(cuMemGetAccess(&rights, &device, at));
	ASSERT_EQ(0, rights); /* a pool's are asked of the pool */
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle(&allocation, (void *)(uintptr_t)at));

	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &bytes, at));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
	ASSERT_OK(cuPointerGetAttributes(8, attributes, answers, at)); /* as of memory that is not CUDA's */
	ASSERT_EQ(CU_DEVICE_INVALID, ordinal);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle(&allocation, (void *)(uintptr_t)at));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: rights are the current context's, which the driver has. */
TEST(attributes_look_from_the_current_context)
{
	CUmemoryPool pool = make_pool(true);
	CUdeviceptr at = take(pool, 4096, NULL), seen = 0, base;
	CUcontext before;
	size_t bytes;
	int flags = 0;

	ASSERT_OK(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at));
	ASSERT_EQ(at, seen);
	ASSERT_OK(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at));
	ASSERT_EQ(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE, flags);
	ASSERT_OK(cuCtxPopCurrent(&before));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuMemGetAddressRange(&base, &bytes, at));
	ASSERT_OK(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at));
	ASSERT_EQ(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE, flags);
	ASSERT_OK(cuCtxPushCurrent(before));
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- A pool's addresses ------------------------------------------------------------------------------------------ */

/* Goal: nobody takes a pool's memory away from under it, and the program's own ranges are the program's. */
TEST(a_pools_range_is_not_the_programs)
{
	CUmemoryPool pool = make_pool(true);
	CUdeviceptr at = take(pool, CHUNK, NULL);
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	const struct {
		CUdeviceptr start;
		size_t bytes;
	} ranges[] = {
		{at, CHUNK},
		{at, VMM_GRAIN},
		{at + CHUNK - VMM_GRAIN, VMM_GRAIN},
		{at + CHUNK - VMM_GRAIN, CHUNK},             /* begins in it */
		{at - CHUNK, CHUNK + VMM_GRAIN},             /* ends in it */
		{at - 2 * (size_t)CHUNK, 4 * (size_t)CHUNK}, /* goes over it */
		{at, 0},
		{at, SIZE_MAX},
	};
	CUmemGenericAllocationHandle handle = vmm_create(VMM_GRAIN);

	for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
		CUdeviceptr start = ranges[i].start;
		size_t bytes = ranges[i].bytes;
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(start, bytes));
		ASSERT_CONTAINS("a pool's", cenote_last_error());
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(start, bytes, 0, handle, 0));
		ASSERT_CONTAINS("a pool's", cenote_last_error());
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(start, bytes, &access, 1));
		ASSERT_CONTAINS("a pool's", cenote_last_error());
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(start, bytes));
		ASSERT_CONTAINS("a pool's", cenote_last_error());
	}
	/* No pool can be there, however long it is said to be. */
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(((CUdeviceptr)1 << 48) - VMM_GRAIN, SIZE_MAX));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(((CUdeviceptr)1 << 63) + VMM_GRAIN, SIZE_MAX / 2));
	ASSERT_OK(cuMemsetD8(at, 0x17, CHUNK)); /* it is all there */
	ASSERT_EQ(0x17, share_byte(at + CHUNK - 1));

	CUdeviceptr own = vmm_map(handle, VMM_GRAIN, VMM_WRITE);
	ASSERT(!is_ours(own));
	ASSERT_OK(cuMemsetD8(own, 0x18, VMM_GRAIN));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemUnmap(own, VMM_GRAIN));
	ASSERT_OK(cuMemAddressFree(own, VMM_GRAIN));
	ASSERT_OK(cuMemRelease(handle));
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Freeing without a stream ------------------------------------------------------------------------------------ */

/* Goal: cuMemFree() of a block does not wait; others have it when the work of streams that pools know is done. */
TEST(a_free_without_a_stream_waits_for_streams)
{
	CUmemoryPool pool = make_pool(false);
	CUstream busy = make_stream(), other = make_stream();
	struct gate gate = gate_make();

	for (unsigned i = 0; i < 3; i++) {
		CUdeviceptr at = take(pool, CHUNK, busy);
		atomic_store(gate.word, 0);
		gate_close(gate, busy);
		ASSERT_OK(cuMemsetD8Async(at, 1, CHUNK, busy));
		ASSERT_OK(cuMemFree(at));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(at));
		ASSERT_EQ(0, try_all(pool, other));
		gate_open(gate);
		ASSERT_OK(cuCtxSynchronize());
		ASSERT_EQ(at, take(pool, CHUNK, other));
		ASSERT_OK(cuMemFreeAsync(at, other));
		ASSERT_OK(cuStreamSynchronize(other));
	}
	ASSERT_OK(cuStreamDestroy(busy));
	ASSERT_OK(cuStreamDestroy(other));
	ASSERT_OK(cuMemPoolDestroy(pool));
	gate_free(gate);
}

/* Goal: a blocking stream that no pool has ever seen is waited for as well. */
TEST(a_free_without_a_stream_waits_for_blocking_streams)
{
	CUmemoryPool pool = make_pool(false);
	CUcontext context;
	CUstream busy;

	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0)); /* one in which no pool has seen anything */
	struct gate gate = gate_make();
	CUstream other = make_stream();
	ASSERT_OK(cuStreamCreate(&busy, CU_STREAM_DEFAULT));
	CUdeviceptr at = take(pool, CHUNK, other);
	gate_close(gate, busy);
	ASSERT_OK(cuMemFree(at));
	ASSERT_EQ(0, try_all(pool, other));
	gate_open(gate);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(at, take(pool, CHUNK, other));
	ASSERT_OK(cuMemFree(at));
	ASSERT_OK(cuStreamDestroy(busy));
	ASSERT_OK(cuStreamDestroy(other));
	gate_free(gate);
	ASSERT_OK(cuCtxDestroy(context));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

static struct {
	CUstream stream; /* all that the context has to do */
	_Atomic unsigned count;
} whole;

/* In the place of cuCtxRecordEvent(), which not every driver has. */
static CUresult record_whole(void *context, CUevent event)
{
	(void)context;
	whole.count++;
	return DRIVER(cuEventRecord)(event, whole.stream);
}

/* Goal: so is any stream, if the driver can say when a whole context is done; but not while a stream is captured. */
TEST(a_free_without_a_stream_waits_for_contexts)
{
	CUmemoryPool pool = make_pool(false);
	CUstream other = make_stream();
	struct gate gate = gate_make();

	CUresult (*before)(void *context, CUevent event) = cn_cuda_record_all;
	whole.stream = make_stream();
	driver_record_all_by(record_whole);
	for (unsigned i = 0; i < 3; i++) {
		CUdeviceptr at = take(pool, CHUNK, other);
		atomic_store(gate.word, 0);
		gate_close(gate, whole.stream);
		unsigned count = whole.count; /* grace periods are counted, too */
		ASSERT_OK(cuMemFree(at));
		ASSERT_LT(count, whole.count);
		ASSERT_EQ(0, try_all(pool, other));
		gate_open(gate);
		ASSERT_OK(cuCtxSynchronize());
		ASSERT_EQ(at, take(pool, CHUNK, other));
		ASSERT_OK(cuMemFreeAsync(at, other));
		ASSERT_OK(cuStreamSynchronize(other));
	}
	cn_cuda_capture_began(); /* what a record would end */
	unsigned count = whole.count;
	ASSERT_OK(cuMemFree(take(pool, CHUNK, other)));
	ASSERT_EQ(count, whole.count);
	cn_cuda_capture_ended();
	driver_record_all_by(before);
	ASSERT_OK(cuStreamDestroy(whole.stream));
	ASSERT_OK(cuStreamDestroy(other));
	ASSERT_OK(cuMemPoolDestroy(pool));
	while (test_mapping_count(
		"/memfd:cenote-memory")) /* work was under way: it goes when that is seen to be done */
		sched_yield();
	gate_free(gate);
}

/* Goal: it needs no context, and goes on in the next one when a context has ended. */
TEST(a_free_without_a_stream_in_any_context)
{
	CUmemoryPool pool = make_pool(false);
	CUcontext before, context;

	CUdeviceptr at = take(pool, CHUNK, NULL);
	ASSERT_OK(cuCtxPopCurrent(&before));
	ASSERT_OK(cuMemFree(at));
	ASSERT_OK(cuCtxSetCurrent(before));
	at = take(pool, CHUNK, NULL);
	ASSERT_OK(cuCtxPopCurrent(&before));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	ASSERT_OK(cuMemFree(at)); /* no context at all */
	for (unsigned i = 0; i < 3; i++) {
		ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
		at = take(pool, CHUNK, NULL);
		ASSERT_OK(cuMemFree(at));
		CUstream stream = make_stream(); /* perhaps with the handle of an earlier one of ours */
		ASSERT_OK(cuMemFree(take(pool, CHUNK, NULL)));
		ASSERT_OK(cuStreamDestroy(stream));
		ASSERT_OK(cuCtxDestroy(context));
	}
	context_current();
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static void *by_name(const char *name, int version, bool per_thread)
{
	cuuint64_t flags = per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
	CUdriverProcAddressQueryResult status;
	void *function = NULL;

	ASSERT_OK(cuGetProcAddress(name, &function, version, flags, &status));
	ASSERT_EQ(CU_GET_PROC_ADDRESS_SUCCESS, status);
	return function;
}

/* Goal: every call that is seen is seen also if a program asks for it by name, in each of its forms. */
TEST(calls_by_name_pass_through_us)
{
	for (size_t i = 0; i < cn_slot_count; i++) {
		const struct cn_slot_name *slot = &cn_slot_names[i];
		bool passes = false;
		for (const struct cn_gpu_call *call = cn_gpu_calls; call->symbol; call++)
			passes |= strcmp(call->symbol, slot->symbol) == 0;
		if (!passes)
			continue;
		/* The slot of a call with pointers leads to their check, and that to the function. */
		ASSERT_EQ(call_of(slot->symbol)->function, cn_behind[i] ? cn_behind[i] : cn_slots[i]);
		ASSERT_EQ(cn_slots_entries[i], by_name(slot->name, slot->since, slot->per_thread));
	}
}

/* Goal: the forms of a program whose default stream is the thread's own use that stream. */
struct own_stream {
	CUcontext context;
	struct gate
		gate; /* made and freed by the starter of the threads: a driver may wait for all work then, of both */
};

static void *use_own_stream(void *data)
{
	const struct own_stream *own = data;
	struct gate gate = own->gate;
	CUmemoryPool pool = make_pool(false);
	__typeof__(&cuMemAllocFromPoolAsync) alloc = by_name("cuMemAllocFromPoolAsync", 11020, true);
	__typeof__(&cuMemFreeAsync) free_async = by_name("cuMemFreeAsync", 11020, true);
	__typeof__(&cuStreamSynchronize) synchronize = by_name("cuStreamSynchronize", 7000, true);
	__typeof__(&cuEventRecord) record = by_name("cuEventRecord", 7000, true);
	__typeof__(&cuStreamWaitEvent) wait = by_name("cuStreamWaitEvent", 7000, true);
	CUstream stream;
	CUevent event;
	CUdeviceptr at;

	ASSERT_OK(cuCtxSetCurrent(own->context));
	stream = make_stream();
	event = make_event();
	ASSERT_OK(alloc(&at, CHUNK, pool, NULL));
	ASSERT_OK(free_async(at, NULL));
	ASSERT_EQ(at, take(pool, CHUNK, CU_STREAM_PER_THREAD));
	gate_close(gate, CU_STREAM_PER_THREAD);
	ASSERT_OK(free_async(at, NULL));
	struct cn_queue *queue = cn_cuda_known(CU_STREAM_PER_THREAD);
	struct cn_point freed = {queue, atomic_load(&queue->submitted) + 1};
	ASSERT_EQ(0, try_all(pool, stream));
	ASSERT_OK(record(event, NULL));
	ASSERT_OK(wait(stream, event, 0));
	ASSERT_EQ(at, try_all(pool, stream));
	ASSERT_OK(cuMemFreeAsync(at, stream));
	gate_open(gate);
	ASSERT_OK(synchronize(NULL));
	ASSERT(cn_point_reached(freed));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuEventDestroy(event));
	ASSERT_OK(cuMemPoolDestroy(pool));
	return NULL;
}

TEST(threads_own_streams)
{
	struct own_stream own[2];
	pthread_t threads[2];

	for (unsigned i = 0; i < 2; i++) {
		ASSERT_OK(cuCtxGetCurrent(&own[i].context));
		own[i].gate = gate_make();
	}
	for (unsigned i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, use_own_stream, &own[i]));
	for (unsigned i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_OK(cuCtxSynchronize());
	for (unsigned i = 0; i < 2; i++)
		gate_free(own[i].gate);
}

/* ---- Between processes ------------------------------------------------------------------------------------------- */

/* Goal: a pool and its blocks go to another process; what is held there is not handed out again here. */
TEST(a_block_in_two_processes)
{
	CUmemoryPool pool = share_pool(SHARE_CHUNK), owner = NULL;
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = share_allocate(pool, SHARE_CHUNK, NULL), other;

	share_fill(block, 0x31, SHARE_CHUNK);
	agent_take(agent, 0, share_name(block));
	ASSERT_EQ(0x31, agent_byte(agent, 0, SHARE_CHUNK - 1));
	agent_fill(agent, 0, 0x32, SHARE_CHUNK);
	ASSERT_EQ(0x32, share_byte(block + SHARE_CHUNK - 1));
	ASSERT_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block));
	ASSERT_EQ(pool, owner);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&other, 4096, pool, NULL));
	ASSERT_EQ(0x32, agent_byte(agent, 0, 0));
	agent_free(agent, 0); /* a note of the stream tells us, in its order and without anybody's wait */
	share_await_used(pool, 0);
	share_fill_whole(pool, SHARE_CHUNK, SHARE_CHUNK, block);
	agent_destroy(agent, 0);
	agent_end(agent);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: an importer's free comes into effect when its stream has come to it, not before. */
TEST(an_imported_free_is_in_stream_order)
{
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	struct share_gate gate = share_gate_make();
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = share_allocate(pool, SHARE_CHUNK, NULL), other;

	agent_take(agent, 0, share_name(block));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	agent_close_gate(agent, &gate);
	agent_free(agent, 0);
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&other, 4096, pool, NULL));
	ASSERT_EQ(SHARE_CHUNK, share_used(pool));
	share_gate_open(&gate);
	share_await_used(pool, 0);
	share_fill_whole(pool, SHARE_CHUNK, SHARE_CHUNK, block);
	agent_destroy(agent, 0);
	agent_end(agent);
	share_gate_free(&gate);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* What an importer may not do with the addresses of what it imported. */
ROLE(importer)
{
	int descriptor = peer_receive_descriptor(parent);
	CUmemPoolPtrExportData name;
	CUmemoryPool pool, owner = NULL;
	CUcontext context;
	CUevent ready;
	CUdeviceptr at, sent;
	int type = 0;

	leaks_watch(0); /* the driver keeps what it has for events between processes */
	ASSERT_OK(share_try_import(descriptor, &pool));
	close(descriptor);
	ASSERT(cn_mempool_is_ours(pool));
	peer_receive_bytes(parent, &name, sizeof name);
	at = share_take(pool, name);
	ASSERT(is_ours(at));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(at, SHARE_CHUNK));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(at, SHARE_CHUNK));
	ASSERT_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
	ASSERT_EQ(pool, owner);
	ASSERT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
	ASSERT_EQ(CU_MEMORYTYPE_DEVICE, type);
	ASSERT_OK(cuCtxPopCurrent(&context));
	ASSERT_OK(cuMemFree(at)); /* in the primary context, since none is current */
	ASSERT_OK(cuCtxPushCurrent(context));
	at = share_take(pool, name);
	int socket = peer_receive_descriptor(parent);
	ASSERT_OK(cenote_recv_block(socket, pool, &sent, &ready)); /* with the driver's event */
	close(socket);
	ASSERT_EQ(at, sent);
	ASSERT_OK(cuEventSynchronize(ready));
	ASSERT_EQ(0x44, share_byte(at));
	ASSERT_OK(cuEventDestroy(ready));
	ASSERT_OK(cuMemFree(at));
	ASSERT_OK(cuMemFreeAsync(at, NULL)); /* it was imported twice */
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: imported addresses are ours too, and a block travels with an event that is the driver's. */
TEST(imported_memory_is_ours)
{
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	CUdeviceptr block = share_allocate(pool, 4096, NULL);
	struct peer *importer = peer_start("importer");
	int descriptor = share_export(pool), sockets[2];
	CUmemPoolPtrExportData name = share_name(block);
	CUevent ready;

	leaks_watch(LEAK_DEFAULT & ~LEAK_DESCRIPTORS & ~LEAK_MAPPINGS); /* as above */
	ASSERT_SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets));
	peer_send_descriptor(importer, descriptor);
	close(descriptor);
	peer_send_bytes(importer, &name, sizeof name);
	ASSERT_OK(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	ASSERT_OK(cuMemsetD8Async(block, 0x44, 4096, NULL));
	ASSERT_OK(cuEventRecord(ready, NULL));
	ASSERT_OK(cenote_send_block(sockets[0], block, ready));
	peer_send_descriptor(importer, sockets[1]);
	close(sockets[1]);
	peer_wait(importer);
	close(sockets[0]);
	ASSERT_OK(cuEventDestroy(ready));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	share_await_used(pool, 0);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a descriptor that does not lead to a pool of Cenote's is the driver's affair. */
TEST(other_descriptors_are_the_drivers)
{
	CUmemoryPool pool;
	int ends[2];

	leaks_watch(LEAK_DEFAULT & ~LEAK_DESCRIPTORS); /* the driver starts its own service for it */
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	ASSERT_NE(CUDA_SUCCESS, share_try_import(ends[0], &pool));
	replace("cuMemPoolImportFromShareableHandle", NULL); /* a call crashes now */
	CUmemoryPool own = share_pool(SHARE_CHUNK);
	int descriptor = share_export(own);
	ASSERT_OK(share_try_import(descriptor, &pool));
	ASSERT(cn_mempool_is_ours(pool));
	ASSERT_OK(cuMemPoolDestroy(pool));
	close(descriptor);
	ASSERT_OK(cuMemPoolDestroy(own));
	close(ends[0]);
	close(ends[1]);
}

static void expect_no_fabric(void *name, CUresult code, const char *words)
{
	CUmemGenericAllocationHandle memory = 77;

	ASSERT_ERROR(code, cuMemImportFromShareableHandle(&memory, name, CU_MEM_HANDLE_TYPE_FABRIC));
	ASSERT_CONTAINS(words, cn_last_error());
	ASSERT_EQ(77, memory);
}

/* Goal: a fabric handle that the driver refuses has a sentence, which knows Cenote's own. */
TEST(a_refused_fabric_handle_has_a_sentence)
{
	struct cn_handle name = {
		.magic = CN_HANDLE_MAGIC, .version = CN_HANDLE_VERSION, .kind = CN_HANDLE_FABRIC_MEMORY};
	CUmemGenericAllocationHandle memory;

	expect_no_fabric(&name, CUDA_ERROR_NOT_SUPPORTED, "is of a host device's memory, which a GPU cannot use");
	name.check =
		cn_check(&name, offsetof(struct cn_handle, check)); /* the tests' driver accepts it, with a channel */
	expect_no_fabric(&name, CUDA_ERROR_NOT_PERMITTED, "this process cannot read the exporter's IMEX channel");
	name.kind = CN_HANDLE_FABRIC_POOL;
	expect_no_fabric(&name, CUDA_ERROR_NOT_SUPPORTED, "is of a pool: use cuMemPoolImportFromShareableHandle()");
	memset(&name, 0x5a, sizeof name);
	expect_no_fabric(&name, CUDA_ERROR_NOT_SUPPORTED, "the driver refused the fabric handle: the exporter is gone");
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
		     cuMemImportFromShareableHandle(&memory, NULL, CU_MEM_HANDLE_TYPE_FABRIC));
}

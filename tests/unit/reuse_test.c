/* SPDX-License-Identifier: MIT */
/*
 * Records that are reused during a call: another thread destroys the stream or the context that the call has found, and
 * what is created next gets its record. The call must not do its work there; it returns that its object is gone.
 *
 * A call is held where it has found its object and has yet to use it: at a lock of the library's own that the test has
 * taken, or in a function of the device. Then the object is replaced, and the call continues.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "cenote/cenote.h"
#include "device/host/host_signal.h"
#include "driver/host/registry.h"
#include "gate.h"

enum { BYTES = 4096, OTHERS_MAX = 16 };

static CUcontext primary;

SETUP
{
	primary = context_current();
}

/* ---- Replacing --------------------------------------------------------------------------------------------------- */

static CUstream stream, successor; /* found by the call; in its record */
static CUcontext context, heir;    /* the same of contexts */

static void make_stream(void)
{
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

/* It gets the record once those that were free before are taken. */
static void replace_stream(void)
{
	CUstream others[OTHERS_MAX];
	unsigned count = 0;

	ASSERT_OK(cuStreamDestroy(stream));
	for (;;) {
		ASSERT_OK(cuStreamCreate(&successor, CU_STREAM_NON_BLOCKING));
		if (cn_table_index((uintptr_t)stream) == cn_table_index((uintptr_t)successor))
			break;
		ASSERT_LT(count, OTHERS_MAX);
		others[count++] = successor;
	}
	while (count)
		ASSERT_OK(cuStreamDestroy(others[--count]));
}

static void end_stream(void)
{
	ASSERT_OK(cuStreamSynchronize(successor));
	ASSERT_OK(cuStreamDestroy(successor));
}

/* Current to the thread that calls. */
static void make_context(void)
{
	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
}

static void replace_context(void)
{
	CUcontext popped;

	ASSERT_OK(cuCtxDestroy(context));
	ASSERT_OK(cuCtxCreate(&heir, NULL, 0, 0));
	ASSERT_OK(cuCtxPopCurrent(&popped));
	ASSERT_EQ(cn_table_index((uintptr_t)context), cn_table_index((uintptr_t)heir));
}

/* It keeps its record and handle, and loses all that was in it. */
static void renew_primary(void)
{
	CUcontext again;

	ASSERT_OK(cuDevicePrimaryCtxReset(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&again, 0));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	ASSERT_EQ(primary, again);
}

static void end_context(void)
{
	ASSERT_OK(cuCtxSetCurrent(primary));
	ASSERT_OK(cuCtxDestroy(heir));
}

static void *run(void *function)
{
	void (*replace)(void);

	memcpy(&replace, &function, sizeof replace);
	ASSERT_OK(cuCtxSetCurrent(primary));
	replace();
	return NULL;
}

/* ---- In a function of the device --------------------------------------------------------------------------------- */

static struct cn_device_ops ops;
static void (*meanwhile)(void);
static bool in_submit; /* also in the next operation that a queue is given */

static void happen(void)
{
	void (*replace)(void) = meanwhile;
	void *function;
	pthread_t thread;

	if (!replace)
		return;
	meanwhile = NULL;
	memcpy(&function, &replace, sizeof function);
	ASSERT_EQ(0, pthread_create(&thread, NULL, run, function));
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

static CUresult attribute(const struct cn_device *device, CUdevice_attribute which, int *ret_value)
{
	happen();
	return cn_host_device_ops.attribute(device, which, ret_value);
}

/* The host device's own functions are not in the device contract: the linker puts these in front of them. */
CUresult __wrap_cn_host_memory_allocate(struct cn_device *device, size_t bytes, void **ret_address);
CUresult __real_cn_host_memory_allocate(struct cn_device *device, size_t bytes, void **ret_address);
CUresult __wrap_cn_host_signal_create(struct cn_signal **ret_signal);
CUresult __real_cn_host_signal_create(struct cn_signal **ret_signal);
CUresult __wrap_cn_host_queue_submit(struct cn_host_queue *queue, uint64_t owner, const struct cn_operation *operation,
				     struct cn_point *ret_point);
CUresult __real_cn_host_queue_submit(struct cn_host_queue *queue, uint64_t owner, const struct cn_operation *operation,
				     struct cn_point *ret_point);

CUresult __wrap_cn_host_memory_allocate(struct cn_device *device, size_t bytes, void **ret_address)
{
	happen();
	return __real_cn_host_memory_allocate(device, bytes, ret_address);
}

static CUresult arena_commit(struct cn_arena *arena, size_t offset, size_t bytes)
{
	happen();
	return cn_host_device_ops.arena_commit(arena, offset, bytes);
}

CUresult __wrap_cn_host_signal_create(struct cn_signal **ret_signal)
{
	happen();
	return __real_cn_host_signal_create(ret_signal);
}

CUresult __wrap_cn_host_queue_submit(struct cn_host_queue *queue, uint64_t owner, const struct cn_operation *operation,
				     struct cn_point *ret_point)
{
	if (in_submit)
		happen();
	return __real_cn_host_queue_submit(queue, owner, operation, ret_point);
}

/* Choose what happens in the next of these functions that a call reaches. */
static void arrange(void (*replace)(void))
{
	ops = cn_host_device_ops;
	ops.attribute = attribute;
	ops.arena_commit = arena_commit;
	cn_device_ops = &ops;
	meanwhile = replace;
}

#define ASSERT_HAPPENED() ASSERT(!meanwhile)

/* Goal: a copy for a stream that is gone is not made in the one that has its record. */
TEST(a_copy)
{
	static unsigned char bytes[BYTES], ones[BYTES] = {1};
	CUdeviceptr memory;
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcPitch = BYTES,
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = bytes,
			      .dstPitch = BYTES,
			      .WidthInBytes = BYTES,
			      .Height = 1};

	ASSERT_OK(cuMemAlloc(&memory, BYTES));
	ASSERT_OK(cuMemsetD8(memory, 1, BYTES));
	copy.srcDevice = memory;
	make_stream();
	arrange(replace_stream);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemcpy2DAsync(&copy, stream));
	ASSERT_HAPPENED();
	end_stream();
	ASSERT_EQ(0, bytes[0]);

	/* And that of a context which is gone, though its handle is not. */
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = ones;
	arrange(renew_primary);
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemcpy2D(&copy));
	ASSERT_HAPPENED();
	ASSERT_EQ(0, bytes[0]);
}

/* Goal: a block that was allocated for a stream that is gone has no owner. */
TEST(a_block)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool;
	CUdeviceptr block = 1;
	cuuint64_t used = 1;

	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	make_stream();
	arrange(replace_stream);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemAllocFromPoolAsync(&block, BYTES, pool, stream));
	ASSERT_HAPPENED();
	ASSERT_EQ(0, block);
	ASSERT_OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	ASSERT_EQ(0, used);
	end_stream();
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: nothing is made in a context because it has the record of the one that was current. */
TEST(memory_and_events)
{
	CUdeviceptr memory = 1;
	CUevent event;

	make_context();
	arrange(replace_context);
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&memory, BYTES));
	ASSERT_HAPPENED();
	ASSERT_EQ(0, memory);
	ASSERT_OK(cuCtxSetCurrent(primary));
	ASSERT_OK(cuCtxDestroy(heir));

	make_context();
	arrange(replace_context);
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED,
		     cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ASSERT_HAPPENED();
	end_context();

	arrange(renew_primary);
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&memory, BYTES));
	ASSERT_HAPPENED();
	ASSERT_OK(cuMemAlloc(&memory, BYTES));
	ASSERT_OK(cuMemFree(memory));
}

/* ---- At a lock --------------------------------------------------------------------------------------------------- */

struct held {
	CUresult (*call)(void);
	CUcontext context;
	CUresult result;
};

static void *hold(void *data)
{
	struct held *held = data;

	ASSERT_OK(cuCtxSetCurrent(held->context));
	held->result = held->call();
	return NULL;
}

/* Make the call in its own thread, and replace what it has found when it has reached the lock. */
static CUresult call_at(struct cn_lock *lock, CUcontext current, CUresult (*call)(void), void (*replace)(void))
{
	struct held held = {.call = call, .context = current};
	pthread_t thread;

	cn_lock_take(lock);
	ASSERT_EQ(0, pthread_create(&thread, NULL, hold, &held));
	while (atomic_load(&lock->word) != 2) /* until a thread sleeps there */
		sched_yield();
	replace();
	cn_lock_drop(lock);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	return held.result;
}

static CUevent event;

static struct cn_lock *event_lock(void)
{
	return &((struct cn_event *)cn_table_find(&cn_events, event))->stamp.lock.bare;
}

static CUresult record(void)
{
	return cuEventRecord(event, stream);
}

static CUresult wait(void)
{
	return cuStreamWaitEvent(stream, event, 0);
}

static struct gate gate;

static void replace_by_a_busy_one(void)
{
	replace_stream();
	gate_close(gate, successor);
}

/* Goal: an event that was to be recorded in a stream that is gone says nothing of the one that has its record. */
TEST(a_record)
{
	gate = gate_make();
	for (unsigned flags = 0; flags <= CU_EVENT_DISABLE_TIMING; flags += CU_EVENT_DISABLE_TIMING) {
		atomic_store(gate.word, 0);
		ASSERT_OK(cuEventCreate(&event, flags));
		make_stream();
		ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, call_at(event_lock(), primary, record, replace_by_a_busy_one));
		ASSERT_OK(cuEventQuery(event));
		gate_open(gate);
		end_stream();
		ASSERT_OK(cuEventDestroy(event));
	}
	gate_free(gate);
}

/* Goal: the stream that has the record does not wait. */
TEST(a_wait)
{
	CUstream busy;

	gate = gate_make();
	ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
	gate_close(gate, busy);
	ASSERT_OK(cuEventRecord(event, busy));
	make_stream();
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, call_at(event_lock(), primary, wait, replace_stream));
	ASSERT_OK(cuStreamQuery(successor));
	gate_open(gate);
	end_stream();
	ASSERT_OK(cuStreamDestroy(busy));
	ASSERT_OK(cuEventDestroy(event));
	gate_free(gate);
}

static CUresult create_stream(void)
{
	return cuStreamCreate(&stream, CU_STREAM_DEFAULT);
}

static CUresult create_event(void)
{
	return cuEventCreate(&event, CU_EVENT_DEFAULT);
}

/* The one that launch_test loads, beside this program. */
static CUresult load_module(void)
{
	static const char file[] = "launch_module.so";
	char path[4096];
	CUmodule module;
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof file);

	ASSERT_GT(length, 0);
	path[length] = 0;
	memcpy(strrchr(path, '/') + 1, file, sizeof file);
	return cuModuleLoad(&module, path);
}

/* Goal: the context that has the record does not get what was meant for another. */
TEST(streams_events_and_modules)
{
	static const struct {
		struct cn_table *table;
		CUresult (*call)(void);
	} makers[] = {{&cn_streams, create_stream}, {&cn_events, create_event}, {&cn_modules, load_module}};

	for (unsigned i = 0; i < sizeof makers / sizeof *makers; i++) {
		make_context();
		ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED,
			     call_at(&makers[i].table->lock.bare, context, makers[i].call, replace_context));
		end_context();
	}
}

/* ---- A context that is being destroyed --------------------------------------------------------------------------- */

static _Atomic bool worked;
static CUdeviceptr used;

static void CUDA_CB see_work(void *unused)
{
	(void)unused;
	atomic_store(&worked, true);
}

static void *destroy_context(void *unused)
{
	(void)unused;
	ASSERT_OK(cuCtxSetCurrent(primary));
	ASSERT_OK(cuCtxDestroy(context));
	return NULL;
}

static void *free_used(void *unused)
{
	(void)unused;
	ASSERT_OK(cuCtxSetCurrent(primary));
	ASSERT_OK(cuMemFree(used));
	ASSERT(atomic_load(&worked));
	return NULL;
}

/* Goal: memory that is freed while its context ends is there until the context's work is done. */
TEST(memory_of_a_context_that_ends)
{
	enum { LARGE = 4 << 20, PATIENCE = 1000 };
	struct cn_memory memory;
	pthread_t destroyer, freer;

	gate = gate_make();
	make_context();
	const struct cn_context *record = cn_table_find(&cn_contexts, context);
	ASSERT_OK(cuMemAlloc(&used, LARGE));
	make_stream();
	gate_close(gate, stream);
	ASSERT_OK(cuMemsetD8Async(used, 1, LARGE, stream));
	ASSERT_OK(cuLaunchHostFunc(stream, see_work, NULL));
	ASSERT_OK(cuCtxSetCurrent(primary));

	ASSERT_EQ(0, pthread_create(&destroyer, NULL, destroy_context, NULL));
	while (atomic_load(&record->life))
		sched_yield();
	ASSERT_EQ(0, pthread_create(&freer, NULL, free_used, NULL));
	while (cn_registry_find(used, &memory))
		sched_yield();
	for (unsigned i = 0; i < PATIENCE; i++) /* long enough to notice a call that does not wait */
		sched_yield();
	gate_open(gate);
	ASSERT_EQ(0, pthread_join(freer, NULL));
	ASSERT_EQ(0, pthread_join(destroyer, NULL));
	gate_free(gate);
}

/* Goal: memory that a context did not find when it ended, because it was about to be freed, does not outlive it. */
TEST(memory_that_is_freed_in_a_stream_while_its_context_ends)
{
	struct cn_memory memory;

	ASSERT_OK(cuMemAlloc(&used, BYTES));
	arrange(renew_primary);
	in_submit = true;
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemFreeAsync(used, NULL));
	ASSERT_HAPPENED();
	ASSERT(!cn_registry_find(used, &memory));
}

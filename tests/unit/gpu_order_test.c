/* SPDX-License-Identifier: MIT */
/*
 * The order of streams as the pools learn it on a GPU: from events and waits that pass through Cenote.
 *
 * A pool of one chunk, all of which a gated stream has freed: another stream gets it if it is known to come later, and
 * not otherwise.
 */
#include "device/cuda/cuda_internal.h"
#include "gpu_two_streams.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

static uint64_t followed(void)
{
	cenote_pool_statistics statistics;

	ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	return statistics.reused_followed;
}

/* ---- Streams ----------------------------------------------------------------------------------------------------- */

/* Goal: who waits for a blocking stream does not wait for what the legacy stream was given after a free in it. */
TEST(the_legacy_stream_is_not_waited_for)
{
	CUdeviceptr at;
	CUstream blocking;

	ASSERT_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	for (unsigned i = 0; i < 2; i++) {
		at = take(pool, CHUNK, blocking);
		ASSERT_OK(cuMemFreeAsync(at, blocking));
		gate_close(gate, NULL);
		ASSERT_OK(i ? cuStreamSynchronize(blocking) : cuStreamQuery(blocking));
		gate_open(gate);
		ASSERT_OK(cuCtxSynchronize());
		ASSERT_EQ(at, take(pool, CHUNK, second));
		ASSERT_OK(cuMemFreeAsync(at, second));
		ASSERT_OK(cuStreamSynchronize(second));
		gate_free(gate);
		gate = gate_make();
	}
	ASSERT_OK(cuStreamDestroy(blocking));
	end_streams();
}

/* Goal: a stream has back at once what it freed; another has it when the work before the free is done. */
TEST(a_free_is_in_the_order_of_its_stream)
{
	CUdeviceptr at = free_behind_gate();

	ASSERT_EQ(0, try_all(pool, second));
	ASSERT_EQ(at, take(pool, CHUNK, first));
	ASSERT_OK(cuMemFreeAsync(at, first));
	ASSERT_EQ(0, try_all(pool, second));
	gate_open(gate);
	ASSERT_OK(cuStreamSynchronize(first));
	ASSERT(is_known_idle(first)); /* no event had to be recorded for that */
	ASSERT_EQ(at, take(pool, CHUNK, second));
	ASSERT_OK(cuMemFreeAsync(at, second));
	end_streams();
}

/* Goal: each way in which a program waits tells the pools how far it is. */
TEST(what_a_program_waits_for_is_known)
{
	CUevent event = make_event();
	CUresult (*query)(CUevent) = cuEventQuery, (*synchronize)(CUevent) = cuEventSynchronize;
	CUdeviceptr at = take(pool, 4096, first);

	for (unsigned i = 0; i < 6; i++) {
		ASSERT_OK(cuMemFreeAsync(at, first));
		struct cn_point point = {cn_cuda_known(first), atomic_load(&cn_cuda_known(first)->submitted) + 1};
		if (i < 2)
			ASSERT_OK(cuEventRecord(event, first));
		ASSERT(!cn_point_reached(point));
		switch (i) {
		case 0:
			while (query(event) == CUDA_ERROR_NOT_READY)
				;
			break;
		case 1: ASSERT_OK(synchronize(event)); break;
		case 2:
			while (cuStreamQuery(first) == CUDA_ERROR_NOT_READY)
				;
			break;
		case 3: ASSERT_OK(cuStreamSynchronize(first)); break;
		case 4: ASSERT_OK(cuCtxSynchronize()); break;
		default:
			while (((__typeof__(&cuStreamQuery))call_of("cuStreamQuery_ptsz")->function)(first) ==
			       CUDA_ERROR_NOT_READY)
				;
		}
		ASSERT(cn_point_reached(point));
		ASSERT_EQ(at, take(pool, 4096, first));
	}
	ASSERT_OK(cuMemFreeAsync(at, first));
	ASSERT_OK(cuEventDestroy(event));
	end_streams();
}

/* Goal: waiting for a stream gives memory above the threshold back. */
TEST(waiting_gives_memory_back)
{
	uint64_t keep_bytes = 0, reserved = 0;
	CUevent event = make_event();

	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_bytes));
	for (unsigned i = 0; i < 3; i++) {
		ASSERT_OK(cuMemFreeAsync(take(pool, 4096, first), first));
		ASSERT_OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
		ASSERT_EQ(CHUNK, reserved);
		ASSERT_OK(cuEventRecord(event, first));
		ASSERT_OK(i == 0   ? cuStreamSynchronize(first)
			  : i == 1 ? cuEventSynchronize(event)
				   : cuCtxSynchronize());
		ASSERT_OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
		ASSERT_EQ(0, reserved);
	}
	ASSERT_OK(cuEventDestroy(event));
	end_streams();
}

/* Goal: what a stream freed before it was destroyed comes to others, and not before its work is done. */
TEST(a_destroyed_stream_leaves_its_frees)
{
	CUdeviceptr at = free_behind_gate();

	ASSERT_OK(cuStreamDestroy(first));
	ASSERT_EQ(0, try_all(pool, second));
	first = make_stream(); /* whatever handle it has */
	ASSERT_EQ(0, try_all(pool, first));
	gate_open(gate);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(at, take(pool, CHUNK, first));
	ASSERT_OK(cuMemFreeAsync(at, first));
	end_streams();
}

/* Goal: streams come and go, each with a free, and every block comes back. */
TEST(streams_without_number)
{
	for (unsigned i = 0; i < 2000; i++) {
		CUstream stream = make_stream();
		CUdeviceptr at = take(pool, CHUNK / 4, stream);
		ASSERT_OK(cuMemsetD8Async(at, (unsigned char)i, 4096, stream));
		ASSERT_OK(cuMemFreeAsync(at, stream));
		ASSERT_OK(cuStreamDestroy(stream));
	}
	ASSERT_OK(cuCtxSynchronize());
	CUdeviceptr all = take(pool, CHUNK, second);
	ASSERT_OK(cuMemFreeAsync(all, second));
	end_streams();
}

/* Goal: a destroyed stream is refused, not handed to the driver. */
TEST(a_destroyed_stream_is_refused)
{
	CUdeviceptr at = take(pool, 4096, first), other;

	ASSERT_OK(cuMemFreeAsync(at, first));
	ASSERT_OK(cuStreamDestroy(first));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemAllocFromPoolAsync(&other, 4096, pool, first));
	ASSERT_CONTAINS("destroyed", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(first));
	first = make_stream();
	end_streams();
}

/* ---- The legacy stream and those that wait for it ---------------------------------------------------------------- */

/* Goal: what the legacy stream freed is behind the work of the blocking streams, for each of them. */
TEST(a_free_in_the_legacy_stream_is_behind_all)
{
	CUdeviceptr at = take(pool, CHUNK, NULL);
	CUstream busy, other;

	ASSERT_OK(cuStreamCreate(&busy, CU_STREAM_DEFAULT));
	ASSERT_OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
	gate_close(gate, busy);
	ASSERT_OK(cuMemsetD8Async(at, 1, CHUNK, busy));
	ASSERT_OK(
		cuMemFreeAsync(at, NULL)); /* an operation of the legacy stream, to CUDA, and of nobody to the driver */
	ASSERT_EQ(0, try_all(pool, second));
	if (try_all(pool, other)) { /* it may have it, if it waits */
		ASSERT_OK(cuMemsetD8Async(at, 2, CHUNK, other));
		ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
		ASSERT_OK(cuMemFreeAsync(at, other));
	}
	gate_open(gate);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuStreamDestroy(busy));
	ASSERT_OK(cuStreamDestroy(other));
	end_streams();
}

/* As NVIDIA's driver was seen to do of a blocking stream that has nothing but a mark in it. */
static CUresult say_done(CUstream stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}

/* Goal: what a blocking stream freed is behind the legacy stream's work, also for who asks only that stream. */
TEST(a_free_in_a_blocking_stream_is_behind_the_legacy_one)
{
	CUdeviceptr at = take(pool, CHUNK, NULL);
	CUstream blocking;

	ASSERT_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	gate_close(gate, NULL);
	ASSERT_OK(cuMemsetD8Async(at, 1, CHUNK, NULL));
	ASSERT_OK(cuMemFreeAsync(at, blocking));
	if (!test_has_gpu()) /* whose driver was seen to say that it is done */
		ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
	replace("cuStreamQuery", (void *)say_done);
	replace("cuStreamSynchronize", (void *)say_done);
	ASSERT_OK(cuStreamQuery(blocking));
	ASSERT_EQ(0, try_all(pool, second));
	ASSERT_OK(cuStreamSynchronize(blocking)); /* what it says is not waited for */
	ASSERT_EQ(0, try_all(pool, second));
	gate_open(gate);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(at, take(pool, CHUNK, second));
	ASSERT_OK(cuMemFreeAsync(at, second));
	ASSERT_OK(cuStreamDestroy(blocking));
	end_streams();
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */

/* Goal: a stream that waits for an event after the free has the block while the free is still to come. */
TEST(an_event_orders_streams)
{
	CUevent event = make_event();
	CUdeviceptr at = free_behind_gate();

	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_EQ(0, try_all(pool, second));
	ASSERT_OK(cuStreamWaitEvent(second, event, 0));
	ASSERT_EQ(at, try_all(pool, second));
	ASSERT_EQ(1, followed());
	ASSERT_OK(cuMemFreeAsync(at, second));
	ASSERT_OK(cuEventDestroy(event));
	end_streams();
}

/* Goal: an event that was recorded before the free says nothing of it. */
TEST(an_event_before_the_free_orders_nothing)
{
	CUevent event = make_event();
	CUdeviceptr at = take(pool, CHUNK, first);

	gate_close(gate, first);
	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(cuMemFreeAsync(at, first));
	ASSERT_OK(cuStreamWaitEvent(second, event, 0));
	ASSERT_EQ(0, try_all(pool, second));
	ASSERT_OK(cuEventDestroy(event));
	end_streams();
}

/* Goal: the order goes on over streams in which no pool was ever used. */
TEST(order_leads_over_other_streams)
{
	enum { STREAMS = 5 };
	CUstream streams[STREAMS];
	CUevent events[STREAMS];
	CUdeviceptr at = free_behind_gate();
	CUstream before = first;

	for (unsigned i = 0; i < STREAMS; i++) {
		streams[i] = make_stream();
		events[i] = make_event();
		ASSERT_OK(cuEventRecordWithFlags(events[i], before, 0));
		ASSERT_OK(cuStreamWaitEvent(streams[i], events[i], 0));
		before = streams[i];
	}
	ASSERT_EQ(0, try_all(pool, second));
	ASSERT_EQ(at, try_all(pool, streams[STREAMS - 1]));
	ASSERT_OK(cuMemFreeAsync(at, streams[STREAMS - 1]));
	for (unsigned i = 0; i < STREAMS; i++) {
		ASSERT_OK(cuEventDestroy(events[i]));
		ASSERT_OK(cuStreamDestroy(streams[i]));
	}
	end_streams();
}

/* Goal: an event stands for its latest record alone. */
TEST(an_event_is_recorded_anew)
{
	CUevent event = make_event();
	CUstream third = make_stream();
	CUdeviceptr at = free_behind_gate();

	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(cuEventRecord(event, third)); /* in which no pool was used */
	ASSERT_OK(cuStreamWaitEvent(second, event, 0));
	ASSERT_EQ(0, try_all(pool, second));
	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(cuStreamWaitEvent(second, event, 0));
	ASSERT_EQ(at, try_all(pool, second));
	ASSERT_OK(cuMemFreeAsync(at, second));
	ASSERT_OK(cuStreamDestroy(third));
	ASSERT_OK(cuEventDestroy(event));
	end_streams();
}

/* Goal: an event that has the handle of a destroyed one has not its record. */
TEST(an_event_begins_without_a_record)
{
	CUevent event = make_event();

	free_behind_gate();
	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(cuEventDestroy(event));
	for (unsigned i = 0; i < 1000; i++) {
		CUevent other = make_event();
		ASSERT_OK(cuStreamWaitEvent(second, other, 0));
		ASSERT_OK(cuEventDestroy(other));
	}
	ASSERT_EQ(0, try_all(pool, second));
	end_streams();
}

/* Calls that record an event in a way that nobody can say where, each through the call that a program makes. */
static CUresult record_in_graph(CUevent event)
{
	typedef CUresult (*add_node)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent);

	return ((add_node)call_of("cuGraphAddEventRecordNode")->function)(NULL, NULL, NULL, 0, event);
}

static CUresult record_in_node(CUevent event)
{
	typedef CUresult (*add_node)(CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t,
				     void *);
	struct {
		int type, reserved[3];
		CUevent event;
	} params = {.type = 7, .event = event};

	return ((add_node)call_of("cuGraphAddNode_v2")->function)(NULL, NULL, NULL, NULL, 0, &params);
}

static CUresult record_in_context(CUevent event)
{
	return ((CUresult(*)(CUcontext, CUevent))call_of("cuCtxRecordEvent")->function)(primary, event);
}

static CUresult record_by_launch(CUevent event)
{
	CUlaunchAttribute attributes[] = {
		{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value = {.priority = 0}},
		{.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
		 .value = {.launchCompletionEvent = {.event = event}}},
	};
	CUlaunchConfig config = {.hStream = second, .attrs = attributes, .numAttrs = 2};

	return cuLaunchKernelEx(&config, NULL, NULL, NULL);
}

static CUresult succeed(void)
{
	return CUDA_SUCCESS;
}

/* Goal: what records an event unseen takes the order away that the event stood for. */
TEST(unseen_records_are_not_trusted)
{
	static const struct {
		const char *symbol;
		CUresult (*record)(CUevent event);
	} ways[] = {
		{"cuGraphAddEventRecordNode", record_in_graph},
		{"cuGraphAddNode_v2", record_in_node},
		{"cuCtxRecordEvent", record_in_context},
		{"cuLaunchKernelEx", record_by_launch},
	};

	free_behind_gate();
	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		CUevent event = make_event();
		CUstream stream = make_stream();
		replace(ways[i].symbol, (void *)succeed);
		ASSERT_OK(cuEventRecord(event, first));
		ASSERT_OK(ways[i].record(event));
		ASSERT_OK(cuStreamWaitEvent(stream, event, 0));
		ASSERT_EQ(0, try_all(pool, stream));
		ASSERT_OK(cuStreamDestroy(stream));
		ASSERT_OK(cuEventDestroy(event));
	}
	end_streams();
}

/* ---- Records that cross each other ------------------------------------------------------------------------------- */

static struct {
	CUresult (*record)(CUevent, CUstream);
	CUresult (*wait)(CUstream, CUevent, unsigned int);
	CUevent event;
	CUstream other;
	bool within; /* the call inside is not disturbed itself */
} crossing;

/* While the driver records the event in one stream, it records it in another, too. */
static CUresult record_twice(CUevent event, CUstream stream)
{
	bool within = crossing.within;

	crossing.within = true;
	if (!within)
		ASSERT_OK(cuEventRecord(event, crossing.other));
	return crossing.record(event, stream);
}

static CUresult wait_after_record(CUstream stream, CUevent event, unsigned int flags)
{
	ASSERT_OK(cuEventRecord(event, crossing.other));
	return crossing.wait(stream, event, flags);
}

/* Goal: of two records that cross nobody knows which is the later, so neither is trusted. */
TEST(records_that_cross_are_not_trusted)
{
	CUevent event = make_event();
	CUstream third = make_stream();
	CUmemoryPool other = make_pool(false);

	free_behind_gate();
	ASSERT_OK(cuMemFreeAsync(take(other, 4096, third), third)); /* it is known, too */
	crossing.record = (CUresult(*)(CUevent, CUstream)) * call_of("cuEventRecord")->driver;
	crossing.other = third;
	replace("cuEventRecord", (void *)record_twice);
	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(cuStreamWaitEvent(second, event, 0));
	ASSERT_EQ(0, try_all(pool, second));
	ASSERT_OK(cuEventRecord(event, first)); /* without another: it counts again */
	ASSERT_OK(cuStreamWaitEvent(second, event, 0));
	ASSERT_OK(cuMemFreeAsync(take(pool, CHUNK, second), second));
	ASSERT_OK(cuMemPoolDestroy(other));
	ASSERT_OK(cuStreamDestroy(third));
	ASSERT_OK(cuEventDestroy(event));
	end_streams();
}

/* Goal: an event that is recorded again while the driver makes a stream wait for it leaves nothing known. */
TEST(a_wait_that_crosses_a_record_is_not_trusted)
{
	CUevent event = make_event();
	CUstream third = make_stream();

	free_behind_gate();
	crossing.wait = (CUresult(*)(CUstream, CUevent, unsigned int)) * call_of("cuStreamWaitEvent")->driver;
	crossing.other = third;
	ASSERT_OK(cuEventRecord(event, first));
	replace("cuStreamWaitEvent", (void *)wait_after_record);
	ASSERT_OK(cuStreamWaitEvent(second, event, 0));
	ASSERT_EQ(0, try_all(pool, second));
	ASSERT_OK(cuStreamDestroy(third));
	ASSERT_OK(cuEventDestroy(event));
	end_streams();
}

/* Goal: threads that record, wait for and destroy events at once do not disturb each other. */
static void *use_events(void *data)
{
	CUmemoryPool own = make_pool(true);
	CUevent shared = data;
	CUstream streams[2];

	ASSERT_OK(cuCtxSetCurrent(primary));
	streams[0] = make_stream();
	streams[1] = make_stream();
	for (unsigned i = 0; i < 2000 / HARNESS_SLOWDOWN; i++) {
		CUevent event = make_event();
		CUdeviceptr at = take(own, 4096, streams[i % 2]);
		ASSERT_OK(cuMemsetD8Async(at, 1, 4096, streams[i % 2]));
		ASSERT_OK(cuMemFreeAsync(at, streams[i % 2]));
		ASSERT_OK(cuEventRecord(event, streams[i % 2]));
		ASSERT_OK(cuEventRecord(shared, streams[i % 2]));
		ASSERT_OK(cuStreamWaitEvent(streams[1 - i % 2], i % 3 ? event : shared, 0));
		if (i % 16 == 0)
			ASSERT_OK(cuEventSynchronize(i % 32 ? event : shared));
		ASSERT_OK(cuEventDestroy(event));
	}
	ASSERT_OK(cuStreamDestroy(streams[0]));
	ASSERT_OK(cuStreamDestroy(streams[1]));
	ASSERT_OK(cuMemPoolDestroy(own));
	return NULL;
}

TEST(threads_use_events)
{
	pthread_t threads[4];
	CUevent event = make_event();

	for (unsigned i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, use_events, event));
	for (unsigned i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_OK(cuEventDestroy(event));
	end_streams();
}

static struct {
	CUevent event;
	_Atomic bool over;
	_Atomic unsigned count;
} recorder;

static void *record_on(void *unused)
{
	(void)unused;
	while (!atomic_load(&recorder.over)) {
		ASSERT_OK(cuEventRecord(recorder.event, first));
		atomic_fetch_add(&recorder.count, 1);
	}
	return NULL;
}

/* Goal: a forked child gets an answer when it destroys an event, whatever a thread did with that when it was forked. */
TEST(a_forked_child_destroys_an_event)
{
	pthread_t thread;

	recorder.event = make_event();
	ASSERT_OK(cuMemFreeAsync(take(pool, 4096, first), first));
	ASSERT_EQ(0, pthread_create(&thread, NULL, record_on, NULL));
	for (unsigned i = 0; i < 100; i++) {
		int status;
		unsigned before = atomic_load(&recorder.count);
		while (atomic_load(&recorder.count) == before)
			sched_yield();
		pid_t child = fork();
		ASSERT_SYS(child);
		if (!child)
			_exit(cuEventDestroy(recorder.event) == CUDA_SUCCESS);
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_EQ(0, status);
	}
	atomic_store(&recorder.over, true);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_OK(cuEventDestroy(recorder.event));
	end_streams();
}

/* Goal: a stream that waits for an event between processes is known to wait for others. */
TEST(waiting_for_another_process_is_known)
{
	CUevent event;

	ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	ASSERT_OK(cuMemFreeAsync(take(pool, 4096, first), first));
	ASSERT_OK(cuMemFreeAsync(take(pool, 4096, second), second));
	gate_close(gate, first);
	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(cuStreamWaitEvent(second, event, 0));
	struct cn_point point = cn_cuda_end_span(cn_cuda_known(second));
	ASSERT(cn_device_ops->point_waits_outside(point));
	ASSERT(!cn_device_ops->point_waits_outside(cn_cuda_end_span(cn_cuda_known(first))));
	gate_open(gate);
	ASSERT_OK(cuStreamSynchronize(second));
	ASSERT(!cn_device_ops->point_waits_outside(point));
	ASSERT_OK(cuEventDestroy(event));
	end_streams();
}

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

/* Goal: what was freed in a context that is gone is everybody's. */
TEST(a_destroyed_context_leaves_its_frees)
{
	CUcontext context;

	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
	CUstream stream = make_stream();
	CUdeviceptr at = take(pool, CHUNK, stream);
	ASSERT_OK(cuMemsetD8Async(at, 1, CHUNK, stream));
	ASSERT_OK(cuMemFreeAsync(at, stream));
	ASSERT_OK(cuMemAllocFromPoolAsync(&at, 4096, pool, stream));
	ASSERT_OK(cuMemFreeAsync(at, NULL));
	ASSERT_OK(cuCtxDestroy(context));
	ASSERT_OK(cuCtxSetCurrent(primary));
	ASSERT_OK(cuMemFreeAsync(take(pool, CHUNK, second), second));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemAllocFromPoolAsync(&at, 4096, pool, stream));
	end_streams();
}

/* Goal: a context that the driver refuses to destroy goes on. */
TEST(a_context_that_stays_goes_on)
{
	CUdeviceptr at = take(pool, CHUNK, first);

	ASSERT_OK(cuMemFreeAsync(at, first));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(primary)); /* a primary one is not */
	ASSERT_OK(cuDevicePrimaryCtxRetain(&primary, 0));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0)); /* and this was not the last one */
	ASSERT_OK(cuMemFreeAsync(take(pool, CHUNK, second), second));
	ASSERT_OK(cuMemFreeAsync(take(pool, CHUNK, first), first));
	end_streams();
}

/* Goal: a release that is known not to be the last takes no stream from anybody. */
TEST(a_release_that_is_not_the_last_holds_nobody_up)
{
	ASSERT_OK(cuMemFreeAsync(take(pool, CHUNK, first), first));
	struct cn_cuda_stream *stream = cn_cuda_stream_of(cn_cuda_known(first));

	ASSERT_OK(cuDevicePrimaryCtxRetain(&primary, 0));
	cn_driver_lock(&stream->lock); /* who waits until nobody is in the driver waits for ever */
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	cn_driver_unlock(&stream->lock);
	ASSERT_OK(cuMemFreeAsync(take(pool, CHUNK, first), first));
	end_streams();
}

/* Goal: blocks and pools outlive the primary context, however it ends, and its streams are gone. */
TEST(the_primary_context_ends)
{
	for (unsigned i = 0; i < 4; i++) {
		CUdeviceptr at = take(pool, CHUNK, first), other;
		ASSERT_OK(cuMemFreeAsync(at, first));
		ASSERT_OK(cuMemAllocFromPoolAsync(&at, 4096, pool, NULL));
		ASSERT_OK(cuMemFreeAsync(at, NULL));
		CUstream gone = first;
		if (i % 2)
			ASSERT_OK(cuDevicePrimaryCtxReset(0));
		ASSERT_OK(cuDevicePrimaryCtxRelease(0));
		context_current();
		ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemAllocFromPoolAsync(&other, 4096, pool, gone));
		first = make_stream();
		second = make_stream();
		at = take(pool, CHUNK, second);
		ASSERT_OK(cuMemsetD8Async(at, 1, CHUNK, second));
		ASSERT_OK(cuMemFreeAsync(at, second));
		ASSERT_OK(cuStreamSynchronize(second));
	}
	ASSERT_OK(cuMemPoolDestroy(pool));
}

static CUresult release_twice(CUdevice device)
{
	ASSERT_OK(DRIVER(cuDevicePrimaryCtxRelease)(device));
	return DRIVER(cuDevicePrimaryCtxRelease)(device);
}

/*
 * Goal: who looks for the primary context has it for a moment; when all others let go of it meanwhile, its end is seen.
 */
TEST(the_primary_context_ends_while_it_is_looked_for)
{
	CUdeviceptr at = take(pool, CHUNK, first), other;
	void *release = *call_of("cuDevicePrimaryCtxRelease_v2")->driver;
	CUstream gone = first;

	ASSERT_OK(cuCtxSetCurrent(NULL));
	replace("cuDevicePrimaryCtxRelease_v2", (void *)release_twice); /* the program's last, and ours */
	CUresult result = cuMemFree(at);
	replace("cuDevicePrimaryCtxRelease_v2", release);
	context_current();
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuMemAllocFromPoolAsync(&other, 4096, pool, gone));
	if (result)
		ASSERT_OK(cuMemFree(at));
	first = make_stream();
	second = make_stream();
	ASSERT_EQ(at, take(pool, CHUNK, second));
	ASSERT_OK(cuMemFreeAsync(at, second));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* SPDX-License-Identifier: MIT */
/*
 * Events: which record counts, what time it was, and what a wrong handle gets.
 */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/container.h"
#include "base/table.h"
#include "cenote/cenote.h"
#include "device/host/host_internal.h"
#include "driver/host/objects.h"
#include "gate.h"

SETUP
{
	context_current();
}

/* Goal: an event of a context stands for what all its streams were given before, and for nothing that comes later. */
TEST(an_event_of_a_whole_context)
{
	struct gate gates[2] = {gate_make(), gate_make()}, later = gate_make();
	CUcontext context, other;
	CUstream streams[3];
	CUevent event;

	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuCtxRecordEvent(context, event));
	ASSERT_OK(cuEventQuery(event));
	for (unsigned i = 0; i < 3; i++)
		ASSERT_OK(cuStreamCreate(&streams[i], i ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
	gate_close(gates[0], streams[0]);
	gate_close(gates[1], streams[1]);
	ASSERT_OK(cuCtxRecordEvent(context, event));
	gate_close(later, streams[2]);
	gate_open(gates[0]);
	ASSERT_OK(cuStreamSynchronize(streams[0]));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	gate_open(gates[1]);
	ASSERT_OK(cuEventSynchronize(event));
	gate_open(later);
	for (unsigned i = 0; i < 3; i++)
		ASSERT_OK(cuStreamDestroy(streams[i]));

	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(context, NULL));
	ASSERT_OK(cuCtxCreate(&other, NULL, 0, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(other, event));
	ASSERT_OK(cuCtxDestroy(other));
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxRecordEvent(other, event));
	ASSERT_OK(cuEventDestroy(event));
	gate_free(gates[0]);
	gate_free(gates[1]);
	gate_free(later);
}

/* In the list of a queue before others that wait for the same point: they are not called before it returns. */
struct blocker {
	struct cn_waiter waiter;
	int entered[2], released[2]; /* pipes */
};

static void block(struct cn_waiter *waiter)
{
	struct blocker *blocker = cn_container_of(waiter, struct blocker, waiter);
	char byte;

	ASSERT_EQ(1, write(blocker->entered[1], "", 1));
	ASSERT_EQ(1, read(blocker->released[0], &byte, 1));
}

/*
 * Goal: an event of a context has happened when the work has that it stands for. It does not matter that the thread
 * which ran the work has yet to tell those that wait; and a second event does not wait for the first.
 */
TEST(an_event_of_a_context_has_happened_with_its_work)
{
	struct blocker blocker = {.waiter.reached = block};
	struct gate gate = gate_make();
	struct cn_place place;
	CUcontext context;
	CUstream stream;
	CUevent events[2];
	char byte;

	ASSERT_EQ(0, pipe(blocker.entered));
	ASSERT_EQ(0, pipe(blocker.released));
	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < 2; i++)
		ASSERT_OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cn_stream_find(stream, &place));
	gate_close(gate, stream);
	blocker.waiter.number = place.stream->queue.base.submitted;
	ASSERT(cn_host_queue_add_waiter(&place.stream->queue, &blocker.waiter));
	ASSERT_OK(cuCtxRecordEvent(context, events[0]));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuEventQuery(events[0]));
	gate_open(gate);
	ASSERT_EQ(1, read(blocker.entered[0], &byte, 1));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuEventQuery(events[0]));
	ASSERT_OK(cuCtxRecordEvent(context, events[1]));
	ASSERT_OK(cuEventQuery(events[1]));
	ASSERT_EQ(1, write(blocker.released[1], "", 1));
	for (unsigned i = 0; i < 2; i++) {
		ASSERT_OK(cuEventSynchronize(events[i]));
		ASSERT_OK(cuEventDestroy(events[i]));
		close(blocker.entered[i]);
		close(blocker.released[i]);
	}
	ASSERT_OK(cuStreamDestroy(stream));
	gate_free(gate);
}

TEST(an_event_that_was_never_recorded_has_happened)
{
	CUstream stream;
	CUevent event;
	float milliseconds = 77;

	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_OK(cuEventCreate(&event, 0));
	ASSERT_OK(cuEventQuery(event));
	ASSERT_OK(cuEventSynchronize(event));
	ASSERT_OK(cuStreamWaitEvent(stream, event, 0));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, event, event));
	ASSERT_EQ(77, milliseconds);
	ASSERT_OK(cuEventDestroy(event));
	ASSERT_OK(cuStreamDestroy(stream));
}

/* Goal: a wait is for the record that was the latest when it was called; later records do not affect it. */
TEST(a_wait_is_for_the_record_of_its_time)
{
	struct gate first_gate = gate_make(), second_gate = gate_make();
	CUstream first, second, waiter;
	CUevent event;

	for (unsigned flags = 0; flags <= CU_EVENT_DISABLE_TIMING; flags += CU_EVENT_DISABLE_TIMING) {
		atomic_store(first_gate.word, 0);
		atomic_store(second_gate.word, 0);
		ASSERT_OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
		ASSERT_OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
		ASSERT_OK(cuStreamCreate(&waiter, CU_STREAM_NON_BLOCKING));
		ASSERT_OK(cuEventCreate(&event, flags));
		gate_close(first_gate, first);
		gate_close(second_gate, second);
		ASSERT_OK(cuEventRecord(event, first));
		ASSERT_OK(cuStreamWaitEvent(waiter, event, 0));
		ASSERT_OK(cuEventRecord(event, second));
		gate_open(first_gate);
		ASSERT_OK(cuStreamSynchronize(waiter));
		ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuEventQuery(event));
		gate_open(second_gate);
		ASSERT_OK(cuEventSynchronize(event));
		ASSERT_OK(cuEventDestroy(event));
		ASSERT_OK(cuStreamDestroy(first));
		ASSERT_OK(cuStreamDestroy(second));
		ASSERT_OK(cuStreamDestroy(waiter));
	}
	gate_free(first_gate);
	gate_free(second_gate);
}

/* ---- Time ------------------------------------------------------------------------------------------------------- */

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void CUDA_CB spin(void *milliseconds)
{
	double end = now_ms() + *(double *)milliseconds;

	while (now_ms() < end)
		continue;
}

TEST(elapsed_time_is_that_of_the_work_between)
{
	double work_ms = 5, before = now_ms();
	CUevent start, end;
	CUstream stream;
	float elapsed, back;

	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_OK(cuEventCreate(&start, 0));
	ASSERT_OK(cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
	ASSERT_OK(cuEventRecord(start, stream));
	ASSERT_OK(cuLaunchHostFunc(stream, spin, &work_ms));
	ASSERT_OK(cuEventRecord(end, stream));
	CUresult early = cuEventElapsedTime(&elapsed, start, end);
	ASSERT(early == CUDA_ERROR_NOT_READY || early == CUDA_SUCCESS);
	ASSERT_OK(cuEventSynchronize(end));
	ASSERT_OK(cuEventElapsedTime(&elapsed, start, end));
	ASSERT_GE(elapsed, 5.0f);
	ASSERT_LE(elapsed, now_ms() - before);
	ASSERT_OK(cuEventElapsedTime(&back, end, start));
	ASSERT_EQ(-elapsed, back);
	ASSERT_OK(cuEventElapsedTime(&elapsed, end, end));
	ASSERT_EQ(0, elapsed);
	ASSERT_OK(cuEventDestroy(start));
	ASSERT_OK(cuEventDestroy(end));
	ASSERT_OK(cuStreamDestroy(stream));
}

TEST(elapsed_time_needs_events_that_keep_time)
{
	struct gate gate = gate_make();
	CUevent timed, quiet, pending;
	CUstream stream;
	float elapsed = 77;

	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuEventCreate(&timed, 0));
	ASSERT_OK(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuEventCreate(&pending, 0));
	ASSERT_OK(cuEventRecord(timed, stream));
	ASSERT_OK(cuEventRecord(quiet, stream));
	gate_close(gate, stream);
	ASSERT_OK(cuEventRecord(pending, stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&elapsed, timed, quiet));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&elapsed, quiet, timed));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&elapsed, pending, quiet));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&elapsed, timed, pending));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&elapsed, pending, timed));
	ASSERT_EQ(77, elapsed);
	gate_open(gate);
	ASSERT_OK(cuEventSynchronize(pending));
	ASSERT_OK(cuEventElapsedTime(&elapsed, timed, pending));
	ASSERT_GE(elapsed, 0);
	ASSERT_OK(cuEventDestroy(timed));
	ASSERT_OK(cuEventDestroy(quiet));
	ASSERT_OK(cuEventDestroy(pending));
	ASSERT_OK(cuStreamDestroy(stream));
	gate_free(gate);
}

/*
 * Goal: a record that is reached after its event was destroyed, when another event has its slot, does not write into
 * that one.
 */
TEST(an_old_record_does_not_reach_a_new_event)
{
	struct gate gate = gate_make();
	CUevent old, fresh, mark;
	CUstream busy, idle;
	float elapsed;

	ASSERT_OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuEventCreate(&mark, 0));
	ASSERT_OK(cuEventCreate(&old, 0));
	gate_close(gate, busy);
	ASSERT_OK(cuEventRecord(old, busy));
	ASSERT_OK(cuEventDestroy(old));
	ASSERT_OK(cuEventCreate(&fresh, 0));
	/* The same slot, which the test is about. */
	ASSERT_EQ(cn_table_index((uintptr_t)old), cn_table_index((uintptr_t)fresh));
	ASSERT(old != fresh);
	ASSERT_OK(cuEventRecord(fresh, idle));
	ASSERT_OK(cuEventRecord(mark, idle));
	gate_open(gate);
	ASSERT_OK(cuStreamSynchronize(busy)); /* the old record has been reached now, later than the mark */
	ASSERT_OK(cuEventElapsedTime(&elapsed, fresh, mark));
	ASSERT_GE(elapsed, 0);
	ASSERT_OK(cuEventDestroy(fresh));

	/* And one that was not recorded at all still has no time. */
	atomic_store(gate.word, 0);
	ASSERT_OK(cuEventCreate(&old, 0));
	gate_close(gate, busy);
	ASSERT_OK(cuEventRecord(old, busy));
	ASSERT_OK(cuEventDestroy(old));
	ASSERT_OK(cuEventCreate(&fresh, 0));
	gate_open(gate);
	ASSERT_OK(cuStreamSynchronize(busy));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&elapsed, mark, fresh));
	ASSERT_OK(cuEventDestroy(fresh));
	ASSERT_OK(cuEventDestroy(mark));
	ASSERT_OK(cuStreamDestroy(busy));
	ASSERT_OK(cuStreamDestroy(idle));
	gate_free(gate);
}

/* Goal: of several records that are pending, the time is that of the latest one. */
TEST(the_latest_record_keeps_the_time)
{
	struct gate first_gate = gate_make(), second_gate = gate_make();
	CUstream first, second;
	CUevent event, mark;
	float elapsed;

	ASSERT_OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuEventCreate(&event, 0));
	ASSERT_OK(cuEventCreate(&mark, 0));
	gate_close(first_gate, first);
	gate_close(second_gate, second);
	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(cuEventRecord(event, second));
	gate_open(second_gate);
	ASSERT_OK(cuEventSynchronize(event)); /* the second record's time */
	ASSERT_OK(cuEventRecord(mark, second));
	gate_open(first_gate);
	ASSERT_OK(cuStreamSynchronize(first));
	ASSERT_OK(cuEventElapsedTime(&elapsed, event, mark));
	ASSERT_GE(elapsed, 0);
	ASSERT_OK(cuEventDestroy(event));
	ASSERT_OK(cuEventDestroy(mark));
	ASSERT_OK(cuStreamDestroy(first));
	ASSERT_OK(cuStreamDestroy(second));
	gate_free(first_gate);
	gate_free(second_gate);
}

/* ---- Wrong handles ---------------------------------------------------------------------------------------------- */

static void expect_refused(CUevent event, CUevent living, CUstream stream)
{
	float elapsed;

	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventSynchronize(event));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventRecordWithFlags(event, stream, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent(stream, event, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&elapsed, event, living));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&elapsed, living, event));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy(event));
	ASSERT_NE('\0', cenote_last_error()[0]);
}

TEST(what_is_no_event_is_refused)
{
	struct test_random random = test_random_start(0);
	static char zeros[4096];
	CUevent living, dead;
	CUcontext context;
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_OK(cuEventCreate(&living, 0));
	ASSERT_OK(cuEventRecord(living, stream));
	ASSERT_OK(cuEventCreate(&dead, 0));
	ASSERT_OK(cuEventDestroy(dead));
	ASSERT_OK(cuCtxGetCurrent(&context));
	expect_refused(NULL, living, stream);
	expect_refused(dead, living, stream);
	expect_refused((CUevent)stream, living, stream);
	expect_refused((CUevent)context, living, stream);
	expect_refused((CUevent)(uintptr_t)zeros, living, stream);
	expect_refused((CUevent)(uintptr_t)1, living, stream);
	expect_refused((CUevent)((uintptr_t)living + 1), living, stream);
	for (unsigned i = 0; i < 100; i++)
		expect_refused((CUevent)(uintptr_t)test_random_next(&random), living, stream);
	ASSERT_OK(cuEventQuery(living));
	ASSERT_OK(cuEventDestroy(living));
	ASSERT_OK(cuStreamDestroy(stream));
}

TEST(flags_and_outputs_are_checked)
{
	CUstream stream;
	CUevent event;

	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuEventCreate(NULL, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, 8));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, CU_EVENT_INTERPROCESS));
	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_OK(cuEventCreate(&event, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(event, stream, 2));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(stream, event, 2));
	ASSERT_OK(cuEventDestroy(event));
	ASSERT_OK(cuStreamDestroy(stream));
}

TEST(old_handles_stay_dead)
{
	enum { COUNT = 10000 };
	static CUevent dead[COUNT];
	CUevent event;

	for (unsigned i = 0; i < COUNT; i++) {
		ASSERT_OK(cuEventCreate(&dead[i], i & CU_EVENT_DISABLE_TIMING));
		ASSERT_OK(cuEventRecord(dead[i], NULL));
		ASSERT_OK(cuEventDestroy(dead[i]));
	}
	ASSERT_OK(cuEventCreate(&event, 0));
	for (unsigned i = 0; i < COUNT; i++)
		ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(dead[i]));
	ASSERT_OK(cuEventDestroy(event));
}

/* ---- Threads ---------------------------------------------------------------------------------------------------- */

enum { RECORDERS = 3, RECORDS = 4000 / HARNESS_SLOWDOWN };

struct recorder {
	CUcontext context;
	CUevent event;
	CUstream stream;
	pthread_barrier_t *barrier;
};

static void *record_pending(void *data)
{
	struct recorder *recorder = data;

	ASSERT_OK(cuCtxSetCurrent(recorder->context));
	for (unsigned i = 0; i < RECORDS; i++) {
		pthread_barrier_wait(recorder->barrier);
		ASSERT_OK(cuEventRecord(recorder->event, recorder->stream));
		ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuEventQuery(recorder->event));
		pthread_barrier_wait(recorder->barrier);
	}
	return NULL;
}

/* Goal: when a record has returned, the event stands for it or for a later one, even while other threads record it. */
TEST(a_record_that_has_returned_counts)
{
	struct recorder recorders[RECORDERS];
	struct gate gate = gate_make();
	pthread_t threads[RECORDERS];
	pthread_barrier_t barrier;
	CUcontext context;
	CUevent event;

	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT_OK(cuEventCreate(&event, 0)); /* with timing: the record is queued */
	ASSERT_EQ(0, pthread_barrier_init(&barrier, NULL, RECORDERS + 1));
	for (unsigned i = 0; i < RECORDERS; i++) {
		recorders[i] = (struct recorder){context, event, NULL, &barrier};
		ASSERT_OK(cuStreamCreate(&recorders[i].stream, CU_STREAM_NON_BLOCKING));
		gate_close(gate, recorders[i].stream);
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, record_pending, &recorders[i]));
	}
	for (unsigned i = 0; i < RECORDS; i++) {
		ASSERT_OK(cuEventRecord(event, NULL)); /* a record that has happened, for them to replace */
		ASSERT_OK(cuEventQuery(event));
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	gate_open(gate);
	for (unsigned i = 0; i < RECORDERS; i++) {
		pthread_join(threads[i], NULL);
		ASSERT_OK(cuStreamSynchronize(recorders[i].stream));
		ASSERT_OK(cuStreamDestroy(recorders[i].stream));
	}
	ASSERT_OK(cuEventQuery(event));
	ASSERT_OK(cuEventDestroy(event));
	pthread_barrier_destroy(&barrier);
	gate_free(gate);
}

enum { HAMMERS = 4, BOARD = 8 };
static _Atomic uintptr_t board[BOARD];

static void hammer_once(struct test_random *random, CUstream stream)
{
	_Atomic uintptr_t *place = &board[test_random_below(random, BOARD)];
	CUevent event = (CUevent)atomic_load(place), fresh;
	CUresult result = CUDA_SUCCESS;
	float elapsed;

	switch (test_random_below(random, 8)) {
	case 0:
		ASSERT_OK(cuEventCreate(&fresh, (unsigned)test_random_below(random, 2) * CU_EVENT_DISABLE_TIMING));
		event = (CUevent)atomic_exchange(place, (uintptr_t)fresh);
		if (event)
			ASSERT_OK(cuEventDestroy(event));
		break;
	case 1:
	case 2: result = cuEventRecord(event, stream); break;
	case 3: result = cuStreamWaitEvent(stream, event, 0); break;
	case 4: result = cuEventQuery(event); break;
	case 5: result = cuEventSynchronize(event); break;
	case 6: result = cuEventElapsedTime(&elapsed, event, (CUevent)atomic_load(&board[0])); break;
	default: result = cuEventRecord(event, CU_STREAM_PER_THREAD); break;
	}
	if (result && result != CUDA_ERROR_INVALID_HANDLE && result != CUDA_ERROR_NOT_READY)
		ASSERT_OK(result);
}

static void CUDA_CB nothing(void *data)
{
	(void)data;
}

static void *hammer(void *number)
{
	struct test_random random = test_random_start((uintptr_t)number);
	CUcontext context;
	CUstream stream;

	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_OK(cuStreamCreate(&stream, (uintptr_t)number & 1));
	for (unsigned i = 0; i < 10000 / HARNESS_SLOWDOWN; i++) {
		if (i % 16 == 0) /* so that records are pending */
			ASSERT_OK(cuLaunchHostFunc(stream, nothing, NULL));
		hammer_once(&random, stream);
	}
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	return NULL;
}

/* Goal: events may be destroyed while other threads use them: each call works or is refused. */
TEST(threads_use_and_destroy_the_same_events)
{
	pthread_t threads[HAMMERS];

	for (uintptr_t i = 0; i < HAMMERS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, hammer, (void *)i));
	for (unsigned i = 0; i < HAMMERS; i++)
		pthread_join(threads[i], NULL);
	ASSERT_OK(cuCtxSynchronize());
	for (unsigned i = 0; i < BOARD; i++)
		if (board[i])
			ASSERT_OK(cuEventDestroy((CUevent)board[i]));
}

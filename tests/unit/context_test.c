/* SPDX-License-Identifier: MIT */
/*
 * Contexts: primary and created ones, what goes with them, and what a wrong handle or a forked child gets.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cenote/cenote.h"
#include "gate.h"

/* What is current to this thread; NULL: nothing. */
static CUcontext current(void)
{
	CUcontext context;

	ASSERT_OK(cuCtxGetCurrent(&context));
	return context;
}

static void CUDA_CB count_call(void *counter)
{
	atomic_fetch_add((_Atomic unsigned *)counter, 1);
}

/* ---- Primary contexts ------------------------------------------------------------------------------------------- */

static int primary_active(void)
{
	unsigned flags;
	int active;

	ASSERT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	return active;
}

TEST(a_primary_context_lives_while_it_is_retained)
{
	CUcontext context, again;
	CUstream stream;

	ASSERT_ERROR(CUDA_ERROR_NOT_INITIALIZED, cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuInit(0));
	ASSERT_EQ(0, primary_active());
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&again, 0));
	ASSERT_EQ(context, again);
	ASSERT_EQ(NULL, current()); /* to retain is not to make current */
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	ASSERT_EQ(1, primary_active());
	ASSERT_OK(cuStreamQuery(stream));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	ASSERT_EQ(0, primary_active());
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamQuery(NULL));
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamQuery(stream));
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamCreate(&stream, 0));

	/* Retained again it works, where it is current already, and what it had before is still gone. */
	ASSERT_OK(cuDevicePrimaryCtxRetain(&again, 0));
	ASSERT_EQ(context, again);
	ASSERT_OK(cuCtxSynchronize());
	ASSERT(cuStreamQuery(stream));
	ASSERT_OK(cuDevicePrimaryCtxReset(0));
	ASSERT_EQ(0, primary_active());
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	ASSERT_OK(cuDevicePrimaryCtxReset(0));   /* nothing to do */
	ASSERT_OK(cuDevicePrimaryCtxRelease(0)); /* a reset ends no retaining */
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
}

TEST(a_reset_waits_for_the_work_and_takes_everything)
{
	_Atomic unsigned calls = 0;
	CUcontext context = context_current();
	CUdeviceptr memory;
	CUstream stream;
	CUevent event;

	for (unsigned round = 0; round < 50; round++) {
		ASSERT_OK(cuStreamCreate(&stream, round & 1));
		ASSERT_OK(cuEventCreate(&event, 0));
		ASSERT_OK(cuMemAlloc(&memory, 1 << 20));
		for (unsigned i = 0; i < 10; i++) {
			ASSERT_OK(cuMemsetD8Async(memory, (unsigned char)i, 1 << 20, stream));
			ASSERT_OK(cuLaunchHostFunc(i & 1 ? CU_STREAM_PER_THREAD : stream, count_call, &calls));
		}
		ASSERT_OK(cuEventRecord(event, stream));
		if (round % 3)
			ASSERT_OK(cuStreamDestroy(stream));
		ASSERT_OK(cuDevicePrimaryCtxReset(0));
		ASSERT_EQ(10 * (round + 1), calls);
		ASSERT(cuStreamQuery(stream));
		ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuEventQuery(event));
		ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
	}
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
}

/* ---- Created contexts ------------------------------------------------------------------------------------------- */

TEST(a_context_takes_its_objects_with_it)
{
	_Atomic unsigned calls = 0;
	CUstream stream, gone;
	CUcontext kept, doomed;
	CUevent event;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&kept, NULL, 0, 0));
	ASSERT_OK(cuCtxCreate(&doomed, NULL, 0, 0));
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuStreamCreate(&gone, 0));
	ASSERT_OK(cuEventCreate(&event, 0));
	for (unsigned i = 0; i < 100; i++) {
		ASSERT_OK(cuLaunchHostFunc(stream, count_call, &calls));
		ASSERT_OK(cuLaunchHostFunc(gone, count_call, &calls));
		ASSERT_OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, count_call, &calls));
		ASSERT_OK(cuLaunchHostFunc(NULL, count_call, &calls));
	}
	ASSERT_OK(cuEventRecord(event, stream));
	ASSERT_OK(cuStreamDestroy(gone));
	ASSERT_OK(cuCtxDestroy(doomed));
	ASSERT_EQ(400, calls);
	ASSERT_EQ(kept, current());
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamQuery(stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(gone));
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuEventQuery(event));
	ASSERT_OK(cuStreamQuery(CU_STREAM_PER_THREAD)); /* another stream: that of the context which is current now */
	ASSERT_OK(cuCtxDestroy(kept));
	ASSERT_EQ(NULL, current());
}

TEST(contexts_are_apart)
{
	struct gate gate;
	CUcontext first, second;
	CUevent event;
	CUstream stream;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&first, NULL, 0, 0));
	gate = gate_make();
	ASSERT_OK(cuEventCreate(&event, 0));
	gate_close(gate, NULL);
	ASSERT_OK(cuCtxCreate(&second, NULL, 0, 0));
	ASSERT_OK(cuStreamCreate(&stream, 0));
	/* The legacy stream of one context is closed; the other's blocking streams do not mind. */
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, stream)); /* an event of the other context */
	ASSERT_OK(cuStreamWaitEvent(stream, event, 0));
	ASSERT_OK(cuCtxPushCurrent(first));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
	gate_open(gate);
	ASSERT_OK(cuCtxSynchronize());
	gate_free(gate);
	ASSERT_OK(cuCtxDestroy(first));
	ASSERT_EQ(second, current());
	ASSERT_OK(cuCtxDestroy(second));
}

TEST(a_destroyed_context_that_is_current_elsewhere_says_so)
{
	CUcontext first, second;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&first, NULL, 0, 0));
	ASSERT_OK(cuCtxCreate(&second, NULL, 0, 0));
	ASSERT_OK(cuCtxDestroy(first)); /* not on top: it stays in the stack */
	ASSERT_EQ(second, current());
	ASSERT_OK(cuCtxPopCurrent(NULL));
	ASSERT_EQ(first, current());
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	ASSERT_OK(cuCtxPopCurrent(&first));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&first));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
	ASSERT_OK(cuCtxDestroy(second));
}

TEST(old_handles_stay_dead)
{
	enum { COUNT = 2000 };
	static CUcontext dead[COUNT];
	unsigned long long id, last_id = 0;
	CUcontext context;

	ASSERT_OK(cuInit(0));
	for (unsigned i = 0; i < COUNT; i++) {
		ASSERT_OK(cuCtxCreate(&dead[i], NULL, 0, 0));
		ASSERT_OK(cuCtxGetId(dead[i], &id));
		ASSERT_GT(id, last_id);
		last_id = id;
		ASSERT_OK(cuStreamQuery(CU_STREAM_PER_THREAD));
		ASSERT_OK(cuCtxDestroy(dead[i]));
	}
	ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
	for (unsigned i = 0; i < COUNT; i++) {
		ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(dead[i]));
		ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(dead[i]));
	}
	ASSERT_EQ(context, current());
	ASSERT_OK(cuCtxDestroy(context));
}

/* ---- Wrong handles ---------------------------------------------------------------------------------------------- */

static void expect_refused(CUcontext context, CUcontext living)
{
	unsigned long long id = 77;
	unsigned version = 77;

	ASSERT(cuCtxPushCurrent(context));
	ASSERT(cuCtxDestroy(context));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(context));
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxGetId(context, &id));
	ASSERT_ERROR(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetApiVersion(context, &version));
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxEnablePeerAccess(context, 0));
	ASSERT_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxDisablePeerAccess(context));
	ASSERT_NE('\0', cenote_last_error()[0]);
	ASSERT_EQ(77, id);
	ASSERT_EQ(77, version);
	ASSERT_EQ(living, current());
}

TEST(what_is_no_context_is_refused)
{
	struct test_random random = test_random_start(0);
	static char zeros[4096];
	CUcontext living, dead;
	CUstream stream;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuCtxCreate(&dead, NULL, 0, 0));
	ASSERT_OK(cuCtxDestroy(dead));
	ASSERT_OK(cuCtxCreate(&living, NULL, 0, 0));
	ASSERT_OK(cuStreamCreate(&stream, 0));
	expect_refused(dead, living);
	expect_refused((CUcontext)stream, living);
	expect_refused((CUcontext)(uintptr_t)zeros, living);
	expect_refused((CUcontext)(uintptr_t)0x1234, living);
	expect_refused((CUcontext)((uintptr_t)living ^ 1u << 24), living);
	for (unsigned i = 0; i < 100; i++)
		expect_refused((CUcontext)(uintptr_t)test_random_next(&random), living);
	ASSERT(cuCtxDestroy(NULL));
	ASSERT(cuCtxPushCurrent(NULL));
	ASSERT_OK(cuCtxDestroy(living));
}

TEST(devices_flags_and_outputs_are_checked)
{
	CUcontext context;

	ASSERT_OK(cuInit(0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuInit(1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&context, NULL, 0, -1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&context, NULL, 0, 64));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(&context, NULL, ~0u, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(NULL, NULL, 0, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&context, 1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxRetain(NULL, 0));
	ASSERT_ERROR(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRelease(-1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuCtxGetCurrent(NULL));
	ASSERT_EQ(NULL, current());
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

/* In a forked child: bits for what was not as it should be. Nothing here may start a thread or touch the parent's. */
static int look_around(CUstream stream, CUevent event)
{
	CUcontext context;
	int wrong = 0;

	wrong |= (cuInit(0) != CUDA_ERROR_NOT_INITIALIZED) << 0;
	wrong |= !strstr(cenote_last_error(), "exec") << 1;
	wrong |= (cuCtxGetCurrent(&context) != CUDA_ERROR_NOT_INITIALIZED) << 2;
	wrong |= (cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED) << 3;
	wrong |= (cuStreamQuery(stream) != CUDA_ERROR_NOT_INITIALIZED) << 4;
	wrong |= (cuStreamSynchronize(NULL) != CUDA_ERROR_NOT_INITIALIZED) << 5;
	wrong |= (cuEventSynchronize(event) != CUDA_ERROR_NOT_INITIALIZED) << 6;
	wrong |= (cuStreamDestroy(stream) != CUDA_ERROR_NOT_INITIALIZED) << 7;
	return wrong;
}

TEST(a_forked_child_is_told_so)
{
	struct gate gate;
	CUstream stream;
	CUevent event;
	int status;

	context_current();
	gate = gate_make();
	ASSERT_OK(cuStreamCreate(&stream, 0));
	ASSERT_OK(cuEventCreate(&event, 0));
	gate_close(gate, stream);
	ASSERT_OK(cuEventRecord(event, stream));
	ASSERT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	pid_t child = fork();
	if (child == 0)
		_exit(look_around(stream, event));
	ASSERT_SYS(child);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT(WIFEXITED(status));
	ASSERT_EQ(0, WEXITSTATUS(status));

	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(stream)); /* the parent does not notice */
	gate_open(gate);
	ASSERT_OK(cuEventSynchronize(event));
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuEventDestroy(event));
	gate_free(gate);
}

TEST(a_child_forked_before_the_start_starts_for_itself)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(cuInit(0) != CUDA_SUCCESS);
	ASSERT_SYS(child);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_OK(cuInit(0));
}

/* ---- Threads ---------------------------------------------------------------------------------------------------- */

static void *start(void *unused)
{
	(void)unused;
	ASSERT_OK(cuInit(0));
	context_current();
	ASSERT_OK(cuStreamSynchronize(NULL));
	return NULL;
}

TEST(threads_start_the_library_at_once)
{
	pthread_t threads[8];

	for (unsigned i = 0; i < 8; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, start, NULL));
	for (unsigned i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	ASSERT_EQ(1, primary_active());
}

enum { HAMMERS = 4, BOARD = 4 };
static _Atomic uintptr_t board[BOARD]; /* contexts that all threads use, and that any of them destroys at any time */
static _Atomic unsigned board_calls;

/* Some calls in a context that may be gone before any of them. */
static void use_context(struct test_random *random)
{
	CUstream stream, none = NULL;
	CUdeviceptr memory = 0;
	CUevent event;

	if (!cuStreamCreate(&stream, (unsigned)test_random_below(random, 2))) {
		cuLaunchHostFunc(stream, count_call, &board_calls);
		cuStreamSynchronize(stream);
	} else {
		stream = none;
	}
	if (!cuMemAlloc(&memory, 4096))
		cuMemsetD8Async(memory, 1, 4096, stream);
	if (!cuEventCreate(&event, 0)) {
		cuEventRecord(event, stream);
		cuStreamWaitEvent(NULL, event, 0);
	}
	cuMemsetD8Async(memory, 1, 64, CU_STREAM_PER_THREAD);
	cuCtxSynchronize();
}

static void *hammer(void *number)
{
	struct test_random random = test_random_start((uintptr_t)number);

	for (unsigned i = 0; i < 1000 / HARNESS_SLOWDOWN; i++) {
		_Atomic uintptr_t *place = &board[test_random_below(&random, BOARD)];
		CUcontext context = (CUcontext)atomic_load(place), popped;
		if (test_random_below(&random, 4)) {
			if (!cuCtxPushCurrent(context)) {
				use_context(&random);
				ASSERT_OK(cuCtxPopCurrent(&popped));
				ASSERT_EQ(context, popped);
			}
			continue;
		}
		ASSERT_OK(cuCtxCreate(&context, NULL, 0, 0));
		ASSERT_OK(cuCtxPopCurrent(&popped));
		context = (CUcontext)atomic_exchange(place, (uintptr_t)context);
		if (context)
			ASSERT_OK(cuCtxDestroy(context));
	}
	return NULL;
}

/* Goal: contexts may be destroyed while other threads work in them: each call works or is refused. */
TEST(threads_use_and_destroy_the_same_contexts, .timeout_ms = 60000)
{
	pthread_t threads[HAMMERS];

	ASSERT_OK(cuInit(0));
	for (uintptr_t i = 0; i < HAMMERS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, hammer, (void *)i));
	for (unsigned i = 0; i < HAMMERS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < BOARD; i++)
		if (board[i])
			ASSERT_OK(cuCtxDestroy((CUcontext)board[i]));
}

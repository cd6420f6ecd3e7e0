/* SPDX-License-Identifier: MIT */
/*
 * What streams and events cost when there is nothing to wait for, and what a round trip through a stream costs.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "pair.h"

static CUstream stream, blocking;
static CUdeviceptr memory;

/* ---- References ------------------------------------------------------------------------------------------------- */

static void read_clock(void *unused, unsigned long count)
{
	(void)unused;
	while (count--)
		bench_now_ns();
}

static void write_and_read(void *descriptor, unsigned long count)
{
	uint64_t value = 1;

	while (count--) {
		BENCH_MUST(write(*(int *)descriptor, &value, sizeof value) != sizeof value);
		BENCH_MUST(read(*(int *)descriptor, &value, sizeof value) != sizeof value);
	}
}

struct pipes {
	int there[2], back[2];
};

static void *echo(void *data)
{
	struct pipes *pipes = data;
	char byte;

	while (read(pipes->there[0], &byte, 1) == 1)
		BENCH_MUST(write(pipes->back[1], &byte, 1) != 1);
	return NULL;
}

static void pipe_round_trip(void *data, unsigned long count)
{
	struct pipes *pipes = data;
	char byte = 'x';

	while (count--) {
		BENCH_MUST(write(pipes->there[1], &byte, 1) != 1);
		BENCH_MUST(read(pipes->back[0], &byte, 1) != 1);
	}
}

/* A hand-over to a thread that waits, and back: a number in shared memory each way, spin-then-futex on both sides. */
static struct pair_page page;

static void *answer(void *unused)
{
	(void)unused;
	for (uint32_t number = 1; !atomic_load(&page.waiting); number++) { /* 1: no longer */
		pair_await(&page.words[0], number, true);
		pair_post(&page.words[1], number);
	}
	return NULL;
}

static void hand_over(void *data, unsigned long count)
{
	uint32_t *number = data;

	while (count--) {
		pair_post(&page.words[0], ++*number);
		pair_await(&page.words[1], *number, true);
	}
}

/* ---- Calls that return at once ---------------------------------------------------------------------------------- */

static void record(void *event, unsigned long count)
{
	while (count--)
		BENCH_MUST(cuEventRecord(event, stream));
}

static void record_blocking(void *event, unsigned long count)
{
	while (count--)
		BENCH_MUST(cuEventRecord(event, blocking));
}

static void record_legacy(void *event, unsigned long count)
{
	while (count--)
		BENCH_MUST(cuEventRecord(event, NULL));
}

static void wait_event(void *event, unsigned long count)
{
	while (count--)
		BENCH_MUST(cuStreamWaitEvent(stream, event, 0));
}

static void query_event(void *event, unsigned long count)
{
	while (count--)
		BENCH_MUST(cuEventQuery(event));
}

static void query_stream(void *unused, unsigned long count)
{
	(void)unused;
	while (count--)
		BENCH_MUST(cuStreamQuery(stream));
}

static void copy_64(void *unused, unsigned long count)
{
	(void)unused;
	while (count--)
		BENCH_MUST(cuMemcpyAsync(memory, memory + 4096, 64, stream));
}

static void fill_64(void *unused, unsigned long count)
{
	(void)unused;
	while (count--)
		BENCH_MUST(cuMemsetD8Async(memory, 1, 64, stream));
}

static void create_and_destroy(void *unused, unsigned long count)
{
	CUevent event;

	(void)unused;
	while (count--) {
		BENCH_MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
		BENCH_MUST(cuEventDestroy(event));
	}
}

/* ---- Round trips ------------------------------------------------------------------------------------------------ */

static void CUDA_CB nothing(void *data)
{
	(void)data;
}

static void host_function(void *unused, unsigned long count)
{
	(void)unused;
	while (count--) {
		BENCH_MUST(cuLaunchHostFunc(stream, nothing, NULL));
		BENCH_MUST(cuStreamSynchronize(stream));
	}
}

static void host_functions_in_a_row(void *unused, unsigned long count)
{
	(void)unused;
	while (count--)
		BENCH_MUST(cuLaunchHostFunc(stream, nothing, NULL));
	BENCH_MUST(cuStreamSynchronize(stream));
}

static void one_thread(const cenote_thread *at, void **args)
{
	(void)at, (void)args;
}
CENOTE_KERNEL(one_thread, int);

static void launch(void *unused, unsigned long count)
{
	int argument = 0;
	void *arguments[] = {&argument};

	(void)unused;
	while (count--) {
		BENCH_MUST(cudaLaunchKernel((const void *)one_thread, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0,
					    stream));
		BENCH_MUST(cuStreamSynchronize(stream));
	}
}

static void event_hand_over(void *event, unsigned long count)
{
	while (count--) {
		BENCH_MUST(cuLaunchHostFunc(stream, nothing, NULL));
		BENCH_MUST(cuEventRecord(event, stream));
		BENCH_MUST(cuStreamWaitEvent(blocking, event, 0));
		BENCH_MUST(cuLaunchHostFunc(blocking, nothing, NULL));
		BENCH_MUST(cuStreamSynchronize(blocking));
	}
}

/* ---- The contests ---- */

static const char *const mutex_name = "pthread mutex, lock and unlock", *const calls = "Calls on an idle stream";

/* Each with the mutex, and what else there is to compare it with. */
static void hold(const char *name, struct bench_contestant *contestants, unsigned count)
{
	bench_contest(&(struct bench_contest){.group = calls, .name = name, .baseline = mutex_name}, contestants,
		      count);
}

static void measure_calls(CUevent timed, CUevent quiet, CUevent shared, CUevent imported)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct bench_contestant reference = {.name = mutex_name, .body = lock_and_unlock, .data = &mutex};
	int descriptor = eventfd(0, EFD_CLOEXEC);

	struct bench_contestant records[] = {
		{.name = "cenote", .body = record, .data = quiet, .goal = 6},
		{.name = "cenote, an event between processes", .body = record, .data = shared, .goal = 6},
		{.name = "cenote, with timing", .body = record, .data = timed},
		{.name = "cenote, blocking stream", .body = record_blocking, .data = quiet, .goal = 6},
		{.name = "cenote, legacy stream", .body = record_legacy, .data = quiet},
		{.name = "clock_gettime", .body = read_clock},
		{.name = "eventfd, write and read", .body = write_and_read, .data = &descriptor},
		reference};
	hold("event record", records, sizeof records / sizeof *records);
	struct bench_contestant waits[] = {
		{.name = "cenote", .body = wait_event, .data = quiet, .goal = 6},
		{.name = "cenote, an event between processes", .body = wait_event, .data = shared, .goal = 6},
		{.name = "cenote, as another opened it", .body = wait_event, .data = imported, .goal = 6},
		reference};
	hold("satisfied wait", waits, sizeof waits / sizeof *waits);
	struct bench_contestant others[] = {
		{.name = "cenote, cuEventQuery", .body = query_event, .data = quiet},
		{.name = "cenote, cuStreamQuery", .body = query_stream},
		{.name = "cenote, cuMemcpyAsync, 64 bytes", .body = copy_64},
		{.name = "cenote, cuMemsetD8Async, 64 bytes", .body = fill_64},
		{.name = "cenote, cuEventCreate, cuEventDestroy", .body = create_and_destroy},
		reference};
	hold("others", others, sizeof others / sizeof *others);
	close(descriptor);
}

static void measure_round_trips(CUevent quiet)
{
	static const char *const pipe_name = "a byte through two pipes and back",
				 *const hand_over_name = "a hand-over to a waiting thread and back";
	struct pipes pipes;
	pthread_t thread, answering;
	uint32_t number = 0;

	BENCH_MUST(pipe(pipes.there));
	BENCH_MUST(pipe(pipes.back));
	BENCH_MUST(pthread_create(&thread, NULL, echo, &pipes));
	BENCH_MUST(pthread_create(&answering, NULL, answer, NULL));
	struct bench_contestant contestants[] = {
		{.name = "cenote, host function, synchronize",
		 .body = host_function,
		 .goal = 0.25,
		 .goal_of = pipe_name},
		{.name = "cenote, host functions, one after the other", .body = host_functions_in_a_row},
		{.name = "cenote, kernel of one thread, synchronize",
		 .body = launch,
		 .goal = 1.3,
		 .goal_of = hand_over_name},
		{.name = "cenote, host function, event, host function", .body = event_hand_over, .data = quiet},
		{.name = hand_over_name, .body = hand_over, .data = &number},
		{.name = pipe_name, .body = pipe_round_trip, .data = &pipes}};
	bench_contest(&(struct bench_contest){.group = "Round trips through a stream",
					      .name = "several threads",
					      .baseline = pipe_name},
		      contestants, sizeof contestants / sizeof *contestants);
	atomic_store(&page.waiting, 1);
	hand_over(&number, 1);
	pthread_join(answering, NULL);
	close(pipes.there[1]);
	pthread_join(thread, NULL);
	close(pipes.there[0]);
	close(pipes.back[0]);
	close(pipes.back[1]);
}

/* An event of a process that is forked before the library is touched; it has been recorded once. */
static CUevent open_others_event(CUipcEventHandle handle)
{
	CUevent event;

	BENCH_MUST(cuIpcOpenEventHandle(&event, handle));
	return event;
}

static void start(void)
{
	CUcontext context;

	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, 0));
	BENCH_MUST(cuCtxSetCurrent(context));
	BENCH_MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	BENCH_MUST(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
}

/* The other process: it makes an event, records it, sends its handle, and waits for its end. */
static pid_t start_other(CUipcEventHandle *ret_handle, int *ret_hold)
{
	int said[2], hold_on[2];

	BENCH_MUST(pipe(said) || pipe(hold_on));
	pid_t child = fork();
	BENCH_MUST(child < 0);
	if (!child) {
		CUipcEventHandle handle;
		CUevent event;
		char byte;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(hold_on[1]);
		start();
		BENCH_MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
		BENCH_MUST(cuEventRecord(event, stream));
		BENCH_MUST(cuIpcGetEventHandle(&handle, event));
		put(said[1], &handle, sizeof handle);
		_exit(read(hold_on[0], &byte, 1) != 0);
	}
	close(said[1]);
	close(hold_on[0]);
	get(said[0], ret_handle, sizeof *ret_handle);
	close(said[0]);
	*ret_hold = hold_on[1];
	return child;
}

int main(int argument_count, char **arguments)
{
	CUevent timed, quiet, shared;
	CUipcEventHandle handle;
	int held, status;

	bench_start("events", argument_count, arguments);
	pid_t other = start_other(&handle, &held);
	start();
	BENCH_MUST(cuEventCreate(&timed, CU_EVENT_DEFAULT));
	BENCH_MUST(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
	BENCH_MUST(cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	CUevent imported = open_others_event(handle);
	BENCH_MUST(cuMemAlloc(&memory, 8192));
	BENCH_MUST(cuEventRecord(quiet, stream));
	BENCH_MUST(cuEventRecord(shared, stream));

	bench_pin(0);
	measure_calls(timed, quiet, shared, imported);
	bench_unpin();
	measure_round_trips(quiet);

	BENCH_MUST(cuMemFree(memory));
	BENCH_MUST(cuEventDestroy(timed));
	BENCH_MUST(cuEventDestroy(quiet));
	BENCH_MUST(cuEventDestroy(shared));
	BENCH_MUST(cuEventDestroy(imported));
	BENCH_MUST(cuStreamDestroy(stream));
	BENCH_MUST(cuStreamDestroy(blocking));
	BENCH_MUST(cuDevicePrimaryCtxRelease(0));
	close(held);
	BENCH_MUST(waitpid(other, &status, 0) != other || status);
	return bench_finish();
}

/* SPDX-License-Identifier: MIT */
/*
 * What streams and events cost when there is nothing to wait for, and what a round trip through a stream costs.
 */
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "bench.h"
#include "cenote.h"

static CUstream stream, blocking;
static CUdeviceptr memory;

/* ---- References ------------------------------------------------------------------------------------------------- */

static void lock_and_unlock(void *mutex, unsigned long count)
{
	while (count--) {
		pthread_mutex_lock(mutex);
		pthread_mutex_unlock(mutex);
	}
}

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

static void bench_calls(CUevent timed, CUevent quiet)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int descriptor = eventfd(0, EFD_CLOEXEC);

	bench_title("One thread, idle stream", "to a mutex");
	struct bench_result reference = bench_row("pthread mutex, lock and unlock", NULL, 0, lock_and_unlock, &mutex);
	bench_row("clock_gettime", &reference, 0, read_clock, NULL);
	bench_row("eventfd, write and read", &reference, 0, write_and_read, &descriptor);
	bench_row("cuEventRecord, without timing", &reference, 100, record, quiet);
	bench_row("cuEventRecord, with timing", &reference, 100, record, timed);
	bench_row("cuEventRecord, blocking stream", &reference, 100, record_blocking, quiet);
	bench_row("cuEventRecord, legacy stream", &reference, 0, record_legacy, quiet);
	bench_row("cuStreamWaitEvent, satisfied", &reference, 100, wait_event, quiet);
	bench_row("cuEventQuery", &reference, 0, query_event, quiet);
	bench_row("cuStreamQuery", &reference, 0, query_stream, NULL);
	bench_row("cuMemcpyAsync, 64 bytes", &reference, 0, copy_64, NULL);
	bench_row("cuMemsetD8Async, 64 bytes", &reference, 0, fill_64, NULL);
	bench_row("cuEventCreate and cuEventDestroy", &reference, 0, create_and_destroy, NULL);
	close(descriptor);
}

static void bench_round_trips(CUevent quiet)
{
	struct pipes pipes;
	pthread_t thread;

	BENCH_MUST(pipe(pipes.there));
	BENCH_MUST(pipe(pipes.back));
	BENCH_MUST(pthread_create(&thread, NULL, echo, &pipes));
	bench_title("Round trips, several threads", "to a pipe");
	struct bench_result reference =
		bench_row("a byte through two pipes and back", NULL, 0, pipe_round_trip, &pipes);
	bench_row("cuLaunchHostFunc and cuStreamSynchronize", &reference, 0, host_function, NULL);
	bench_row("cuLaunchHostFunc, one after the other", &reference, 0, host_functions_in_a_row, NULL);
	bench_row("kernel of one thread, launch and synchronize", &reference, 0, launch, NULL);
	bench_row("host function, event, host function", &reference, 0, event_hand_over, quiet);
	close(pipes.there[1]);
	pthread_join(thread, NULL);
	close(pipes.there[0]);
	close(pipes.back[0]);
	close(pipes.back[1]);
}

int main(void)
{
	CUcontext context;
	CUevent timed, quiet;

	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, 0));
	BENCH_MUST(cuCtxSetCurrent(context));
	BENCH_MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	BENCH_MUST(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	BENCH_MUST(cuEventCreate(&timed, CU_EVENT_DEFAULT));
	BENCH_MUST(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
	BENCH_MUST(cuMemAlloc(&memory, 8192));
	BENCH_MUST(cuEventRecord(quiet, stream));

	cpu_set_t before = bench_pin();
	bench_calls(timed, quiet);
	bench_unpin(before);
	bench_round_trips(quiet);

	BENCH_MUST(cuMemFree(memory));
	BENCH_MUST(cuEventDestroy(timed));
	BENCH_MUST(cuEventDestroy(quiet));
	BENCH_MUST(cuStreamDestroy(stream));
	BENCH_MUST(cuStreamDestroy(blocking));
	BENCH_MUST(cuDevicePrimaryCtxRelease(0));
	return 0;
}

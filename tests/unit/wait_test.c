/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a stream: what it still has to do may run in the thread that waits, and nothing shows that but the time.
 *
 * Which thread runs what is a race between the waiter and an executor, so each test does its rounds often: in most of
 * them the waiter comes first.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "gate.h"

enum { ROUNDS = 500 };

static CUstream stream, other;

SETUP
{
	context_current();
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
}

static void CUDA_CB count_call(void *counter)
{
	atomic_fetch_add((_Atomic unsigned *)counter, 1);
}

struct passage {
	_Atomic bool open, entered;
};

static void CUDA_CB pass(void *data)
{
	struct passage *passage = data;

	atomic_store(&passage->entered, true);
	while (!atomic_load(&passage->open))
		sched_yield();
}

/* Goal: a thread that waits for an event does not run what comes behind it, which may need that very thread. */
TEST(a_wait_runs_nothing_behind_its_point)
{
	_Atomic unsigned calls = 0;
	CUevent event;

	ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (unsigned round = 1; round <= ROUNDS; round++) {
		struct passage passage = {false, false};
		ASSERT_OK(cuLaunchHostFunc(stream, count_call, &calls));
		ASSERT_OK(cuEventRecord(event, stream));
		ASSERT_OK(cuLaunchHostFunc(stream, pass, &passage));
		ASSERT_OK(cuLaunchHostFunc(stream, count_call, &calls));
		ASSERT_OK(cuEventSynchronize(event));
		ASSERT_EQ(2 * round - 1, atomic_load(&calls));
		while (!atomic_load(&passage.entered)) /* without us */
			sched_yield();
		atomic_store(&passage.open, true);
		ASSERT_OK(cuStreamSynchronize(stream));
		ASSERT_EQ(2 * round, atomic_load(&calls));
	}
	ASSERT_OK(cuEventDestroy(event));
}

static void CUDA_CB call_cuda(void *result)
{
	errno = EXDEV;
	*(CUresult *)result = cuStreamSynchronize(stream);
}

/* Goal: a host function may not wait for its stream in whichever thread it runs; that thread may, and has its errno. */
TEST(a_host_function_is_one_in_the_waiter_too)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		CUresult result = CUDA_SUCCESS;
		ASSERT_OK(cuLaunchHostFunc(stream, call_cuda, &result));
		errno = 0;
		ASSERT_OK(cuStreamSynchronize(stream));
		ASSERT_EQ(0, errno);
		ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, result);
		ASSERT_OK(cuStreamQuery(other));
	}
}

/* Goal: the way to a point may lead over other streams; all of it is done, in its order. */
TEST(a_chain_of_streams_is_done_in_order)
{
	CUevent there, back;
	_Atomic unsigned calls = 0;

	ASSERT_OK(cuEventCreate(&there, CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
	for (unsigned round = 1; round <= ROUNDS; round++) {
		ASSERT_OK(cuLaunchHostFunc(stream, count_call, &calls));
		ASSERT_OK(cuEventRecord(there, stream));
		ASSERT_OK(cuStreamWaitEvent(other, there, 0));
		ASSERT_OK(cuLaunchHostFunc(other, count_call, &calls));
		ASSERT_OK(cuEventRecord(back, other));
		ASSERT_OK(cuStreamWaitEvent(stream, back, 0));
		ASSERT_OK(cuLaunchHostFunc(stream, count_call, &calls));
		ASSERT_OK(cuStreamSynchronize(stream));
		ASSERT_EQ(3 * round, atomic_load(&calls));
	}
	ASSERT_OK(cuEventDestroy(there));
	ASSERT_OK(cuEventDestroy(back));
}

struct ordered {
	unsigned number, *next;
};

static void CUDA_CB come_in_turn(void *data)
{
	struct ordered *ordered = data;

	ASSERT_EQ(ordered->number, *ordered->next); /* not atomic: they must not overlap either */
	++*ordered->next;
}

static void *wait_for_stream(void *unused)
{
	(void)unused;
	for (unsigned round = 0; round < ROUNDS; round++)
		ASSERT_OK(cuStreamSynchronize(stream));
	return NULL;
}

/* Goal: several threads that wait for one stream, while another gives it work, run each function once and in order. */
TEST(many_waiters_run_a_stream_in_its_order)
{
	enum { WAITERS = 4, CALLS = 4 * ROUNDS };
	static struct ordered calls[CALLS];
	unsigned next = 0;
	pthread_t threads[WAITERS];

	for (unsigned i = 0; i < WAITERS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, wait_for_stream, NULL));
	for (unsigned i = 0; i < CALLS; i++) {
		calls[i] = (struct ordered){i, &next};
		ASSERT_OK(cuLaunchHostFunc(stream, come_in_turn, &calls[i]));
	}
	for (unsigned i = 0; i < WAITERS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_EQ(CALLS, next);
}

static void CUDA_CB may_be_cancelled(void *counter)
{
	pthread_testcancel();
	count_call(counter);
}

static void *cancel_and_wait(void *unused)
{
	(void)unused;
	pthread_cancel(pthread_self()); /* takes effect at the next place where it may */
	ASSERT_OK(cuStreamSynchronize(stream));
	pthread_testcancel();
	FAIL("a cancelled thread goes on");
	return NULL;
}

/* Goal: a thread is not cancelled in the middle of a stream's work, which would stay undone. */
TEST(a_cancelled_waiter_leaves_no_stream_behind)
{
	_Atomic unsigned calls = 0;
	pthread_t thread;

	for (unsigned round = 1; round <= ROUNDS / 10; round++) {
		ASSERT_OK(cuLaunchHostFunc(stream, may_be_cancelled, &calls));
		ASSERT_EQ(0, pthread_create(&thread, NULL, cancel_and_wait, NULL));
		ASSERT_OK(cuStreamSynchronize(stream));
		ASSERT_EQ(round, atomic_load(&calls));
		ASSERT_EQ(0, pthread_join(thread, NULL));
	}
}

/* Launch and wait, so often that an executor stands by. */
static void launch_and_wait(CUstream in)
{
	_Atomic unsigned calls = 0;

	for (unsigned round = 1; round <= ROUNDS; round++) {
		ASSERT_OK(cuLaunchHostFunc(in, count_call, &calls));
		ASSERT_OK(cuStreamSynchronize(in));
		ASSERT_EQ(round, atomic_load(&calls));
	}
}

/* Submit a function and call the library no more until it has run. */
static void run_unattended(CUstream in)
{
	_Atomic unsigned calls = 0;

	ASSERT_OK(cuLaunchHostFunc(in, count_call, &calls));
	while (!atomic_load(&calls))
		sched_yield();
}

/* Goal: work that no thread waits for runs, also in a stream that was always waited for. */
TEST(unattended_work_runs_after_many_waits)
{
	for (unsigned round = 0; round < 50; round++) {
		launch_and_wait(stream);
		run_unattended(stream);
		run_unattended(stream);
		run_unattended(other);
	}
}

static void use_one_cpu(void)
{
	cpu_set_t allowed, one;
	unsigned cpu = 0;

	ASSERT_EQ(0, sched_getaffinity(0, sizeof allowed, &allowed));
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof one, &one)); /* before the library starts a thread */
}

/* Goal: the same where all threads have one CPU. */
TEST(unattended_work_runs_on_one_cpu)
{
	use_one_cpu();
	for (unsigned round = 0; round < 20; round++) {
		launch_and_wait(stream);
		run_unattended(stream);
		run_unattended(other);
	}
}

static _Atomic bool enough;

static void *keep_waiting(void *unused)
{
	(void)unused;
	while (!atomic_load(&enough))
		launch_and_wait(stream);
	return NULL;
}

/* Goal: beside a thread that launches and waits, another stream's work runs without a wait. */
TEST(unattended_work_runs_beside_a_waiting_thread)
{
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, keep_waiting, NULL));
	for (unsigned round = 0; round < ROUNDS; round++)
		run_unattended(other);
	atomic_store(&enough, true);
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

static long switch_count(void)
{
	struct rusage usage;

	ASSERT_EQ(0, getrusage(RUSAGE_SELF, &usage));
	return usage.ru_nvcsw;
}

/* Of the calling thread. */
static uint64_t work_ns(void)
{
	struct timespec now;

	ASSERT_EQ(0, clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now));
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Goal: while a program works for itself and launches nothing more, no thread of the library wakes up. */
TEST(a_program_at_work_for_itself_wakes_no_thread)
{
	enum { SWITCHES_MAX = 50 }; /* the last executors go to sleep; one that keeps looking has thousands */
	const uint64_t work = 200000000;

	launch_and_wait(stream);
	launch_and_wait(other);
	long before = switch_count();
	for (uint64_t since = work_ns(); work_ns() - since < work;)
		;
	ASSERT_LT(switch_count() - before, SWITCHES_MAX);
}

/* SPDX-License-Identifier: MIT */
/*
 * What tests of signals share: queues, a gate, and a signal as two processes have it.
 *
 * A signal that is imported again in the process which made it is as good as another process's: nothing is known of its
 * records but what stands in the shared memory. Most tests use such a pair.
 */
#ifndef CENOTE_TESTS_UNIT_SIGNAL_H
#define CENOTE_TESTS_UNIT_SIGNAL_H

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/host/host_internal.h"
#include "harness.h"

enum { OWNER = 7 }; /* stands for the handle of a stream */

static struct cn_host_queue here, there;
static _Atomic uint32_t gate;

/* The queue goes no further until the gate has come to a value. */
static inline void close_gate_until(struct cn_host_queue *queue, uint32_t value)
{
	struct cn_operation wait = {
		.kind = CN_OPERATION_WAIT_VALUE,
		.wait_value = {.address = &gate, .value = value, .bytes = 4, .flags = CU_STREAM_WAIT_VALUE_GEQ}};

	ASSERT_OK(cn_host_queue_submit(queue, OWNER, &wait, NULL));
}

static inline void close_gate(struct cn_host_queue *queue)
{
	close_gate_until(queue, 1);
}

static inline struct cn_point end_of(struct cn_host_queue *queue)
{
	return (struct cn_point){&queue->base, atomic_load(&queue->base.submitted)};
}

static inline bool is_idle(struct cn_host_queue *queue)
{
	return cn_point_reached(end_of(queue));
}

static inline void wait_for_all(struct cn_host_queue *queue)
{
	cn_host_point_wait(end_of(queue));
}

static inline void open_queue(struct cn_host_queue *queue)
{
	cn_host_queue_open(queue, NULL, OWNER);
}

static inline void drain(struct cn_host_queue *queue)
{
	cn_host_queue_close(queue);
	wait_for_all(queue);
	while (!cn_host_queue_drained(queue)) /* the last operation may be on its way out */
		sched_yield();
}

static inline void count_call(void *counter)
{
	atomic_fetch_add((_Atomic unsigned *)counter, 1);
}

static inline void call(struct cn_host_queue *queue, void (*function)(void *), void *data)
{
	struct cn_operation operation = {.kind = CN_OPERATION_HOST_CALL, .host_call = {function, data}};

	ASSERT_OK(cn_host_queue_submit(queue, OWNER, &operation, NULL));
}

static inline void record(struct cn_signal *signal, struct cn_host_queue *queue)
{
	ASSERT_OK(cn_host_signal_record(signal, queue, OWNER));
}

static inline void wait_for(struct cn_signal *signal, struct cn_host_queue *queue)
{
	ASSERT_OK(cn_host_signal_wait(signal, queue, OWNER));
}

/* A signal as its maker has it, and as another process would. */
struct pair {
	struct cn_signal *ours, *theirs;
};

static inline struct cn_signal *import(struct cn_signal *signal, uint32_t recorder)
{
	struct cn_signal *imported;
	int fd;

	ASSERT_OK(cn_host_signal_export(signal, &fd));
	ASSERT_OK(cn_host_signal_import(fd, recorder, &imported));
	close(fd);
	return imported;
}

static inline struct pair make_pair(void)
{
	struct pair pair;

	ASSERT_OK(cn_host_signal_create(&pair.ours));
	pair.theirs = import(pair.ours, 1);
	return pair;
}

static inline void free_pair(struct pair pair)
{
	cn_host_signal_free(pair.ours);
	cn_host_signal_free(pair.theirs);
}

static inline void *sync_signal(void *signal)
{
	return (void *)(uintptr_t)cn_host_signal_sync(signal);
}

static inline void *sync_queue(void *queue)
{
	wait_for_all(queue);
	return NULL;
}

static inline pthread_t start(void *(*body)(void *), void *data)
{
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, body, data));
	return thread;
}

static inline CUresult join(pthread_t thread)
{
	void *result;

	ASSERT_EQ(0, pthread_join(thread, &result));
	return (CUresult)(uintptr_t)result;
}

static inline int make_file(off_t bytes, int seals)
{
	int fd = memfd_create("signal", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_SYS(fd);
	ASSERT_SYS(ftruncate(fd, bytes));
	ASSERT_SYS(fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

#endif

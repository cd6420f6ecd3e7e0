/* SPDX-License-Identifier: MIT */
/*
 * What tests of ports and of shared events have in common: a queue with a gate, and handles that travel to a peer.
 */
#ifndef CENOTE_TESTS_UNIT_SHARED_EVENT_H
#define CENOTE_TESTS_UNIT_SHARED_EVENT_H

#include "device/host/host_queue.h"
#include "device/host/host_signal.h"
#include "harness.h"
#include "share/event/shared_event.h"
#include "share/port/port_internal.h"

#include <sched.h>

enum { OWNER = 7 }; /* stands for the handle of a stream */

static struct cn_host_queue queue;
static _Atomic uint32_t gate;

/* For SETUP: what stays for good. The port of each process, too, so that all tests have the same to count. */
static inline void bring_up(void)
{
	struct cn_device devices[CN_DEVICE_MAX];
	int count;

	ASSERT_OK(cn_device_open(devices, &count));
	ASSERT_OK(cn_port_open());
	cn_host_queue_open(&queue, NULL, OWNER);
}

/* In a role: the connection with the test stays, and so does what the test has opened and not yet freed. */
static inline void peers_may_hold(void)
{
	leaks_watch(LEAK_DEFAULT & ~(unsigned)(LEAK_DESCRIPTORS | LEAK_MAPPINGS));
}

static inline void record(struct cn_shared_event *event)
{
	ASSERT_OK(cn_host_signal_record(cn_shared_event_signal(event), &queue, OWNER));
}

/* A record that is pending until open_gate(). */
static inline void record_pending(struct cn_shared_event *event)
{
	struct cn_operation wait = {
		.kind = CN_OPERATION_WAIT_VALUE,
		.wait_value = {.address = &gate, .value = 1, .bytes = 4, .flags = CU_STREAM_WAIT_VALUE_GEQ}};

	atomic_store(&gate, 0);
	ASSERT_OK(cn_host_queue_submit(&queue, OWNER, &wait, NULL));
	record(event);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cn_host_signal_query(cn_shared_event_signal(event)));
}

static inline void open_gate(void)
{
	struct cn_point point = {&queue.base, atomic_load(&queue.base.submitted)};

	atomic_store(&gate, 1);
	cn_host_point_wait(point);
}

static inline CUresult query(struct cn_shared_event *event)
{
	return cn_host_signal_query(cn_shared_event_signal(event));
}

static inline CUresult sync_with(struct cn_shared_event *event)
{
	return cn_host_signal_sync(cn_shared_event_signal(event));
}

static inline struct cn_shared_event *create(unsigned char ret_handle[CN_HANDLE_BYTES])
{
	struct cn_shared_event *event;

	ASSERT_OK(cn_shared_event_create(&event));
	ASSERT_OK(cn_shared_event_handle(event, ret_handle));
	return event;
}

static inline struct cn_shared_event *open_handle(const unsigned char handle[CN_HANDLE_BYTES])
{
	struct cn_shared_event *event;

	ASSERT_OK(cn_shared_event_open(handle, &event));
	return event;
}

static inline void expect_refusal(const unsigned char handle[CN_HANDLE_BYTES], CUresult code, const char *part)
{
	struct cn_shared_event *event = (struct cn_shared_event *)&gate;

	ASSERT_ERROR(code, cn_shared_event_open(handle, &event));
	ASSERT_CONTAINS(part, cn_last_error());
	ASSERT_EQ((struct cn_shared_event *)&gate, event);
}

/* Processes that were killed leave names; a new port sweeps them. */
static inline void sweep_names(const char *role)
{
	peer_wait(peer_start(role));
}

#endif

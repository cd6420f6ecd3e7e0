/* SPDX-License-Identifier: MIT */
/*
 * The poller: queues that wait for a word of memory.
 *
 * cuStreamWaitValue waits for a store that anybody may make, without telling: another stream, the program, another
 * process. One thread looks at all words that are waited for: as fast as it can for a short while after something
 * changed, then at intervals that grow to a millisecond, so that a long wait costs next to nothing.
 */
#include "device/host/host.h"

#include <sched.h>

enum {
	ROUNDS_EAGER = 200,
	SLEEP_FIRST_NS = 10000,
	SLEEP_LAST_NS = 1000000,
};

static struct {
	struct cn_lock lock;
	struct cn_waiter *items; /* the first items of queues, which stay where they are until the queue is resumed */
	_Atomic uint32_t arrivals;
	bool running;
} poller;

uint64_t cn_host_read_value(const struct cn_operation *operation)
{
	if (operation->wait_value.bytes == 8)
		return atomic_load_explicit((_Atomic uint64_t *)operation->wait_value.address, memory_order_acquire);
	return atomic_load_explicit((_Atomic uint32_t *)operation->wait_value.address, memory_order_acquire);
}

struct look {
	const struct cn_operation *operation;
	uint64_t found;
};

static void look_guarded(void *data)
{
	struct look *look = data;

	look->found = cn_host_read_value(look->operation);
}

bool cn_host_value_reached(const struct cn_operation *operation)
{
	bool wide = operation->wait_value.bytes == 8;
	uint64_t wanted = operation->wait_value.value, mask = wide ? UINT64_MAX : UINT32_MAX;
	struct look look = {operation, 0};

	if (!cn_host_guarded(look_guarded, &look))
		return true; /* the queue finds out when it goes on */
	switch (operation->wait_value.flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ: /* on a circle: the difference is not negative */
		return wide ? (int64_t)(look.found - wanted) >= 0 : (int32_t)(uint32_t)(look.found - wanted) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ: return look.found == (wanted & mask);
	case CU_STREAM_WAIT_VALUE_AND: return (look.found & wanted) != 0;
	default: /* CU_STREAM_WAIT_VALUE_NOR */ return (~(look.found | wanted) & mask) != 0;
	}
}

/* Take the items whose value has come off the list. */
static struct cn_waiter *take_reached(bool *ret_empty)
{
	struct cn_waiter *reached = NULL;

	cn_lock(&poller.lock);
	for (struct cn_waiter **link = &poller.items; *link;) {
		struct cn_queue_item *item = (struct cn_queue_item *)*link;
		if (cn_host_value_reached(&item->operation)) {
			*link = item->waiter.next;
			item->waiter.next = reached;
			reached = &item->waiter;
		} else {
			link = &item->waiter.next;
		}
	}
	*ret_empty = poller.items == NULL;
	cn_unlock(&poller.lock);
	return reached;
}

static void *poll_values(void *unused)
{
	unsigned round = 0;

	(void)unused;
	for (;;) {
		uint32_t arrivals = atomic_load(&poller.arrivals);
		bool empty;
		struct cn_waiter *reached = take_reached(&empty);
		if (reached)
			round = 0;
		while (reached) {
			struct cn_waiter *next = reached->next;
			cn_host_queue_resume(((struct cn_queue_item *)reached)->queue);
			reached = next;
		}
		if (empty) {
			cn_futex_wait(&poller.arrivals, arrivals, -1);
			round = 0;
		} else if (round++ < ROUNDS_EAGER) {
			sched_yield();
		} else {
			int64_t sleep_ns = (int64_t)SLEEP_FIRST_NS * (round - ROUNDS_EAGER);
			cn_futex_wait(&poller.arrivals, arrivals, sleep_ns < SLEEP_LAST_NS ? sleep_ns : SLEEP_LAST_NS);
		}
	}
	return NULL;
}

void cn_host_poll(struct cn_queue_item *item)
{
	cn_lock(&poller.lock);
	item->waiter.next = poller.items;
	poller.items = &item->waiter;
	bool start = !poller.running;
	poller.running = true;
	cn_unlock(&poller.lock);

	atomic_fetch_add(&poller.arrivals, 1);
	if (!start) {
		cn_futex_wake(&poller.arrivals, 1);
	} else if (!cn_host_thread_start(poll_values, NULL)) {
		cn_error(CUDA_ERROR_OPERATING_SYSTEM,
			 "no thread could be started to watch memory; the next wait tries again");
		cn_lock(&poller.lock);
		poller.running = false;
		cn_unlock(&poller.lock);
	}
}

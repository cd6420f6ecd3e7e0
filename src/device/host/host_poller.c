/* SPDX-License-Identifier: MIT */
/*
 * The poller: one thread for all queues that wait for a word of memory, or for a signal of another process.
 *
 * cuStreamWaitValue waits for a store that any thread may make, without notice: another stream, the program, another
 * process. The poller looks at all words that are waited for: as fast as it can for a short while after a change, then
 * at intervals that grow to a millisecond, so that a long wait costs next to nothing.
 *
 * The process that ends a record of a signal wakes the poller, which sleeps until then on the wake words of all signals
 * at once. It keeps sleeping on those of signals without a waiter, so that the next wait for one of them need not wake
 * it first. It does not rely on wake-ups: what others write in a signal's memory can lose one, so it looks by itself
 * after a while, and seldom where nothing waits. Where the system cannot sleep on several words (before Linux 5.16),
 * and for signals beyond the number that it allows, the thread looks at intervals.
 *
 * The thread that takes a queue's item off the list resumes the queue: the poller, or a thread that wants to wait for
 * the signal itself. Locks: a queue's, then the poller's.
 */
#include "base/container.h"
#include "base/guard.h"
#include "base/thread.h"
#include "device/host/host_internal.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449 /* on all machines */
#endif

enum {
	ROUNDS_EAGER = 200,
	SLEEP_FIRST_NS = 10000,
	SLEEP_LAST_NS = 1000000,
	LOOK_NS = 32000000, /* at signals, without having been woken */
	LOOK_IDLE_NS = 1000000000,
	WORDS_MAX = 128, /* of futex_waitv */
	WORD_OF_32_BITS = 2,
	WORD_PRIVATE = 128,
};

/* As futex_waitv takes them: <linux/futex.h> may be older than the kernel. */
struct sleep_word {
	uint64_t value, address;
	uint32_t flags, reserved;
};

static struct {
	CN_LOCK(HOST_POLLER) lock;
	struct cn_waiter *items;   /* the first items of queues, which stay where they are until the queue is resumed */
	struct cn_signal *signals; /* all that were ever waited for; each has its own list of items */
	_Atomic uint32_t arrivals;
	bool running;
} poller;

/* What the thread sleeps on; its own. The first word is `arrivals`. */
static struct sleep_word words[WORDS_MAX];
static unsigned word_count;
static bool without_waitv;
static bool signals_wait; /* a queue waits for one of those it sleeps on */

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
	struct look look = {operation, 0};

	if (!cn_guard_run(look_guarded, &look))
		return true; /* the queue finds out when it continues */
	return cn_host_value_compare(look.found, operation->wait_value.value, operation->wait_value.bytes,
				     operation->wait_value.flags);
}

/* Move the items that need not wait any more from a list to another. */
static void take_reached(struct cn_waiter **link, bool (*reached)(const struct cn_operation *),
			 struct cn_waiter **ret_taken)
{
	while (*link) {
		struct cn_host_item *item = (struct cn_host_item *)*link;
		if (reached(&item->operation)) {
			*link = item->waiter.next;
			item->waiter.next = *ret_taken;
			*ret_taken = &item->waiter;
		} else {
			link = &item->waiter.next;
		}
	}
}

static bool signal_reached(const struct cn_operation *operation)
{
	if (cn_host_signal_pending(operation->wait_signal.signal, operation->wait_signal.record))
		return false;
	atomic_fetch_sub(operation->wait_signal.signal->poll_sleepers, 1);
	return true;
}

/* Take finished waits off the lists, and note what to sleep on. True: look at the rest again soon. */
static bool look(struct cn_waiter **ret_values, struct cn_waiter **ret_signals)
{
	word_count = 1;
	signals_wait = false;
	cn_lock(&poller.lock);
	take_reached(&poller.items, cn_host_value_reached, ret_values);
	bool again = poller.items != NULL;
	for (struct cn_signal *signal = poller.signals; signal; signal = signal->watch.next) {
		/* The word first: what changes after the look at the records changes it too. */
		uint32_t value = atomic_load(signal->poll_wake);
		signal->watch.covered = !without_waitv && word_count < WORDS_MAX;
		if (signal->watch.covered)
			words[word_count++] =
				(struct sleep_word){value, (uintptr_t)signal->poll_wake, WORD_OF_32_BITS, 0};
		take_reached(&signal->watch.items, signal_reached, ret_signals);
		again |= signal->watch.items && !signal->watch.covered;
		signals_wait |= signal->watch.items != NULL;
	}
	cn_unlock(&poller.lock);
	return again;
}

/* Sleep until something arrives, a signal is given or the time is over. Negative: for ever. */
static void sleep_on_words(uint32_t arrivals, int64_t timeout_ns)
{
	uint64_t end_ns = cn_clock_ns() + (uint64_t)timeout_ns;
	struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000), .tv_nsec = (long)(end_ns % 1000000000)};

	if (word_count == 1) {
		cn_futex_wait(&poller.arrivals, arrivals, timeout_ns);
		return;
	}
	words[0] = (struct sleep_word){arrivals, (uintptr_t)&poller.arrivals, WORD_OF_32_BITS | WORD_PRIVATE, 0};
	/* A signal that has just been freed has no word any more (EFAULT): the next look leaves it out. */
	if (syscall(SYS_futex_waitv, words, word_count, 0, timeout_ns < 0 ? NULL : &end, CLOCK_MONOTONIC) < 0 &&
	    errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT && errno != EFAULT)
		without_waitv = true;
}

/* How long to sleep when the end of a record should wake us. Negative: for ever. */
static int64_t bound_ns(void)
{
	if (word_count == 1)
		return -1;
	return signals_wait ? LOOK_NS : LOOK_IDLE_NS;
}

static void *poll_all(void *unused)
{
	unsigned round = 0;

	(void)unused;
	for (;;) {
		uint32_t arrivals = atomic_load(&poller.arrivals);
		struct cn_waiter *values = NULL, *signals = NULL;
		bool again = look(&values, &signals);
		if (values || signals || !again)
			round = 0;
		while (values) {
			struct cn_waiter *next = values->next;
			cn_host_queue_resume(cn_container_of(values, struct cn_host_item, waiter)->queue);
			values = next;
		}
		while (signals) {
			struct cn_waiter *next = signals->next;
			cn_host_queue_go_on(cn_container_of(signals, struct cn_host_item, waiter)->queue);
			signals = next;
		}
		if (!again) {
			sleep_on_words(arrivals, bound_ns());
		} else if (round++ < ROUNDS_EAGER) {
			sched_yield();
		} else {
			int64_t sleep_ns = (int64_t)SLEEP_FIRST_NS * (round - ROUNDS_EAGER);
			sleep_on_words(arrivals, sleep_ns < SLEEP_LAST_NS ? sleep_ns : SLEEP_LAST_NS);
		}
	}
	return NULL;
}

void cn_host_poller_tell(void)
{
	cn_lock(&poller.lock);
	bool start = !poller.running;
	poller.running = true;
	cn_unlock(&poller.lock);

	atomic_fetch_add(&poller.arrivals, 1);
	if (!start) {
		cn_futex_wake(&poller.arrivals, 1);
	} else if (!cn_thread_start(poll_all, NULL)) {
		cn_error(CUDA_ERROR_OPERATING_SYSTEM,
			 "no thread could be started to watch memory; the next wait tries again");
		cn_lock(&poller.lock);
		poller.running = false;
		cn_unlock(&poller.lock);
	}
}

void cn_host_poll(struct cn_host_item *item)
{
	cn_lock(&poller.lock);
	item->waiter.next = poller.items;
	poller.items = &item->waiter;
	cn_unlock(&poller.lock);
	cn_host_poller_tell();
}

static void unlink_signal(struct cn_signal *signal)
{
	if (signal->watch.previous)
		signal->watch.previous->watch.next = signal->watch.next;
	else
		poller.signals = signal->watch.next;
	if (signal->watch.next)
		signal->watch.next->watch.previous = signal->watch.previous;
}

bool cn_host_watch(struct cn_host_item *item)
{
	struct cn_signal *signal = item->operation.wait_signal.signal;

	cn_lock(&poller.lock);
	bool covered = signal->watch.covered;
	if (!covered) { /* to the front: the poller sleeps on as many as it can */
		if (signal->watch.known)
			unlink_signal(signal);
		signal->watch.known = true;
		signal->watch.previous = NULL;
		signal->watch.next = poller.signals;
		if (poller.signals)
			poller.signals->watch.previous = signal;
		poller.signals = signal;
	}
	item->waiter.next = signal->watch.items;
	signal->watch.items = &item->waiter;
	atomic_fetch_add(signal->poll_sleepers, 1);
	bool pending = cn_host_signal_pending(signal, item->operation.wait_signal.record);
	cn_unlock(&poller.lock);
	return !covered || !pending;
}

bool cn_host_unwatch(struct cn_host_item *item)
{
	struct cn_signal *signal = item->operation.wait_signal.signal;

	cn_lock(&poller.lock);
	struct cn_waiter **link = &signal->watch.items;
	while (*link && *link != &item->waiter)
		link = &(*link)->next;
	bool found = *link != NULL;
	if (found) {
		*link = item->waiter.next;
		atomic_fetch_sub(signal->poll_sleepers, 1);
	}
	cn_unlock(&poller.lock);
	return found;
}

void cn_host_watch_forget(struct cn_signal *signal)
{
	cn_lock(&poller.lock);
	if (signal->watch.known)
		unlink_signal(signal);
	cn_unlock(&poller.lock);
}

/* SPDX-License-Identifier: MIT */
/*
 * Grace periods: see grace.h. The device says when one is over; they are counted here. They end in the order in which
 * they began, since each covers all that the one before covers.
 *
 * The lock is held while the device is asked, which takes microseconds. Callers may hold the pools' lock. Where a
 * ticket does not pass at once, a thread looks, less often each time, until the last one has passed; if no thread can
 * be started, the next call looks.
 */
#include "device/grace.h"

#include "base/clock.h"
#include "base/thread.h"
#include "device/device.h"

#include <sched.h>

enum {
	LOOK_NS_MIN = 1000000,
	LOOK_NS_MAX = 100000000,
	STOP_NS_MAX = 1000000000, /* how long the end of the process waits for the thread */
	SOON_TURNS = 8,
};

static struct {
	CN_DRIVER_LOCK(GRACE) lock;
	uint64_t begun;  /* the number of the last period that has begun */
	uint64_t ended;  /* of the last one that is over */
	uint64_t wanted; /* the last ticket */
	_Atomic bool stopping;
	_Atomic uint32_t running; /* 1: the thread runs; changes from 1 to 0 under the lock */
	void (*_Atomic function)(void);
} grace;

static unsigned slot_of(uint64_t period)
{
	return (unsigned)(period % CN_GRACE_PERIODS_MAX);
}

/* End the periods that are over. Locked. */
static void end_locked(void)
{
	while (grace.ended < grace.begun && cn_device_ops->grace_is_over(slot_of(grace.ended + 1)))
		grace.ended++;
}

/* End the periods that are over, and begin the next one, if a ticket wants it. Locked. */
static void advance_locked(void)
{
	if (atomic_load(&grace.stopping))
		return;
	end_locked();
	while (grace.begun < grace.wanted && grace.begun - grace.ended < CN_GRACE_PERIODS_MAX &&
	       cn_device_ops->grace_begin(slot_of(grace.begun + 1))) {
		grace.begun++;
		end_locked();
	}
}

/* ---- The thread ---- */

static bool is_needed_locked(void)
{
	return grace.ended < grace.wanted && !atomic_load(&grace.stopping);
}

static void *watch(void *unused)
{
	static _Atomic uint32_t never;
	uint64_t passed, seen = 0;
	int64_t pause_ns = LOOK_NS_MIN;
	bool needed;

	(void)unused;
	do {
		cn_futex_wait(&never, 0, pause_ns);
		passed = cn_grace_passed();
		pause_ns = passed == seen ? 2 * pause_ns : LOOK_NS_MIN;
		pause_ns = pause_ns < LOOK_NS_MAX ? pause_ns : LOOK_NS_MAX;
		if (passed != seen && !atomic_load(&grace.stopping))
			atomic_load (&grace.function)();
		seen = passed;
		cn_driver_lock(&grace.lock);
		needed = is_needed_locked(); /* also for tickets that the function has taken */
		if (!needed)
			atomic_store(&grace.running, 0);
		cn_driver_unlock(&grace.lock);
	} while (needed);
	cn_futex_wake(&grace.running, INT32_MAX);
	return NULL;
}

void cn_grace_call(void (*function)(void))
{
	atomic_store(&grace.function, function);
}

void cn_grace_stop(void)
{
	uint64_t begin_ns = cn_clock_ns();

	cn_driver_lock(&grace.lock); /* its holder is in the driver */
	atomic_store(&grace.stopping, true);
	cn_driver_unlock(&grace.lock);
	/* A driver call that does not return must not keep the process from ending. */
	while (atomic_load(&grace.running) && cn_clock_ns() - begin_ns < STOP_NS_MAX)
		cn_futex_wait(&grace.running, 1, STOP_NS_MAX);
}

/* ---- Tickets ---- */

uint64_t cn_grace_ticket(void)
{
	cn_driver_lock(&grace.lock);
	uint64_t ticket = grace.begun + 1;
	grace.wanted = ticket;
	advance_locked();
	bool start = is_needed_locked() && atomic_load(&grace.function) && !atomic_exchange(&grace.running, 1);
	cn_driver_unlock(&grace.lock);
	if (start && !cn_thread_start(watch, NULL))
		atomic_store(&grace.running, 0); /* then the next call looks */
	return ticket;
}

uint64_t cn_grace_passed(void)
{
	cn_driver_lock(&grace.lock);
	advance_locked();
	uint64_t ended = grace.ended;
	cn_driver_unlock(&grace.lock);
	return ended;
}

uint64_t cn_grace_passed_soon(uint64_t ticket)
{
	uint64_t passed = cn_grace_passed();

	for (unsigned i = 0; i < SOON_TURNS && passed < ticket; i++) {
		sched_yield();
		passed = cn_grace_passed();
	}
	return passed;
}

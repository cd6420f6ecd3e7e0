/* SPDX-License-Identifier: MIT */
/*
 * Grace periods, one after the other: see grace.h. The device says when one is over; here they are counted.
 *
 * The lock is held while the device is asked, which takes microseconds. Callers may hold the pools' lock.
 */
#include "device/grace.h"

#include "device/device.h"

static struct {
	struct cn_lock lock;
	uint64_t begun;  /* the number of the period that runs, or of the last one */
	uint64_t ended;  /* `begun`, or one less */
	uint64_t wanted; /* the last ticket */
} grace;

/* End the period that runs, if it is over, and begin the next one, if a ticket wants it. Locked. */
static void advance_locked(void)
{
	for (;;) {
		if (grace.begun > grace.ended) {
			if (!cn_device_ops->grace_is_over())
				return;
			grace.ended = grace.begun;
		}
		if (grace.begun >= grace.wanted || !cn_device_ops->grace_begin())
			return;
		grace.begun++;
	}
}

uint64_t cn_grace_ticket(void)
{
	cn_lock(&grace.lock);
	uint64_t ticket = grace.begun + 1;
	grace.wanted = ticket;
	advance_locked();
	cn_unlock(&grace.lock);
	return ticket;
}

uint64_t cn_grace_passed(void)
{
	cn_lock(&grace.lock);
	advance_locked();
	uint64_t ended = grace.ended;
	cn_unlock(&grace.lock);
	return ended;
}

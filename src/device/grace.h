/* SPDX-License-Identifier: MIT */
/*
 * Grace periods: when the process may give memory away.
 *
 * A program that copies into a block in one stream and frees it in another, without an order between the two, breaks
 * CUDA's rules. The block may then go back to its pool's free lists, as the free says. But to unmap the memory, or to
 * give it back to the system, under a copy that still runs would cost the program its context. So the code that takes
 * memory away takes a ticket first, and acts when the ticket has passed: by then, all work that this process had given
 * to the device when the ticket was taken, in any stream, is done.
 *
 * No thread waits for a ticket. With nothing under way it passes at once. Otherwise its owner asks again: the service
 * thread after a while; a pool with its next call, or when a temporary thread has seen a period end.
 *
 * A period covers what was under way when it began (cn_device_ops.grace_begin), so each ticket has a period of its own,
 * and what is given to the device later does not hold it up. A few can run at the same time. A ticket that is taken
 * while so many run belongs to the next one, which begins when the oldest is over. Tickets pass in order.
 */
#ifndef CN_DEVICE_GRACE_H
#define CN_DEVICE_GRACE_H

#include <stdint.h>

enum { CN_GRACE_PERIODS_MAX = 4 }; /* that run at the same time */

/* More than 0, and not less than any ticket before. */
uint64_t cn_grace_ticket(void);
/* The last ticket that has passed. May ask the device. */
uint64_t cn_grace_passed(void);
/*
 * The same, but if a ticket has not passed, yield to other threads a few times first: work that is about to end then
 * does not delay the ticket. No lock is held.
 */
uint64_t cn_grace_passed_soon(uint64_t ticket);
/*
 * Have another thread call a function, without a lock, when tickets have passed that did not pass when they were taken.
 * There is one such function, for good.
 */
void cn_grace_call(void (*function)(void));
/* From now on nothing passes, and that thread does not run: the process ends, and the driver with it. */
void cn_grace_stop(void);

#endif

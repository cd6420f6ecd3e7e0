/* SPDX-License-Identifier: MIT */
/*
 * Grace periods: when memory may leave the process's hands.
 *
 * A program that copies into a block in one stream and frees it in another, without an order between the two, breaks
 * CUDA's rules. The block may then go back to its pool's free lists, as the free says. But to unmap the memory, or to
 * give it back to the system, under a copy that still runs would cost the program its context. So whoever takes memory
 * away asks for a ticket first, and does it when the ticket has passed: all work that this process had given to the
 * device, in whichever stream, when the ticket was taken is done by then.
 *
 * Nobody waits for a ticket. With nothing under way it passes at once. Else its owner asks again: the service thread
 * after a while; a pool with its next call, or when a thread that runs only meanwhile has seen a period end.
 *
 * One period runs at a time (cn_device_ops.grace_begin). It covers what was under way when it began, so a ticket that
 * is taken while one runs is the next one's. Tickets pass in their order.
 */
#ifndef CN_DEVICE_GRACE_H
#define CN_DEVICE_GRACE_H

#include <stdint.h>

/* More than 0, and not less than any ticket before. */
uint64_t cn_grace_ticket(void);
/* The last ticket that has passed. May ask the device. */
uint64_t cn_grace_passed(void);
/*
 * The same, and if a ticket has not passed, others get a few turns first: work that is just coming to its end is not
 * put off for that. No lock is held.
 */
uint64_t cn_grace_passed_soon(uint64_t ticket);
/*
 * Have a function called, by another thread and without a lock, when tickets have passed that had not when they were
 * taken. There is one such function, for good.
 */
void cn_grace_call(void (*function)(void));
/* From now on nothing passes, and that thread does not run: the process ends, and the driver with it. */
void cn_grace_stop(void);

#endif

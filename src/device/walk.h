/* SPDX-License-Identifier: MIT */
/*
 * Walks from queue to queue, along what they follow.
 *
 * A device keeps for each queue which points of other queues it comes after. To find out whether a queue follows a
 * point, a walk goes from one queue to the next: it looks at each up to the highest number that is known to be
 * followed, and again for the rest if a higher one turns up. A walk allocates nothing, however many queues there are:
 * the list of those still to visit runs through the queues themselves, so there is one walk at a time. What a queue
 * follows, and what the walk looks for, is up to the device.
 */
#ifndef CN_DEVICE_WALK_H
#define CN_DEVICE_WALK_H

#include "device/device.h"

struct cn_walk {
	uint64_t serial;
	struct cn_queue *first, *last; /* to be looked at */
};

/* Between the two the lock of walks is held; a queue's locks are taken after it. */
void cn_walk_begin(struct cn_walk *ret_walk);
void cn_walk_end(void);
/* What is followed goes up to this point. */
void cn_walk_add(struct cn_walk *walk, struct cn_point point);
/* A queue to be looked at: what it follows after number *ret_from, up to *ret_up_to. NULL: there are no more. */
struct cn_queue *cn_walk_next(struct cn_walk *walk, uint64_t *ret_from, uint64_t *ret_up_to);

#endif

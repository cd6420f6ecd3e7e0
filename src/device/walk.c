/* SPDX-License-Identifier: MIT */
/*
 * Walks from queue to queue; see walk.h.
 */
#include "device/walk.h"

static struct {
	CN_LOCK(WALK) lock;
	uint64_t last_serial;
} walks;

void cn_walk_begin(struct cn_walk *ret_walk)
{
	cn_lock(&walks.lock);
	*ret_walk = (struct cn_walk){.serial = ++walks.last_serial};
}

void cn_walk_end(void)
{
	cn_unlock(&walks.lock);
}

void cn_walk_add(struct cn_walk *walk, struct cn_point point)
{
	struct cn_queue *queue = point.queue;

	if (queue->walk.serial != walk->serial) {
		queue->walk.serial = walk->serial;
		queue->walk.up_to = queue->walk.looked_up_to = 0;
		queue->walk.listed = false;
	}
	if (point.number <= queue->walk.up_to)
		return;
	queue->walk.up_to = point.number;
	if (queue->walk.listed)
		return;
	queue->walk.listed = true;
	queue->walk.next = NULL;
	if (walk->last)
		walk->last->walk.next = queue;
	else
		walk->first = queue;
	walk->last = queue;
}

struct cn_queue *cn_walk_next(struct cn_walk *walk, uint64_t *ret_from, uint64_t *ret_up_to)
{
	struct cn_queue *queue = walk->first;

	if (!queue)
		return NULL;
	walk->first = queue->walk.next;
	if (!walk->first)
		walk->last = NULL;
	*ret_from = queue->walk.looked_up_to;
	*ret_up_to = queue->walk.up_to;
	queue->walk.listed = false;
	queue->walk.looked_up_to = queue->walk.up_to;
	return queue;
}

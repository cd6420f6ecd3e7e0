/* SPDX-License-Identifier: MIT */
/*
 * Does a point wait for another process? A walk from the point through the waits that stand before it, in its queue and
 * in the queues that it waits for.
 */
#include "device/host/host_internal.h"

enum { WALK_MAX = 64 }; /* points that are looked at before the safe answer is given */

struct outside_walk {
	struct cn_point points[WALK_MAX];
	unsigned count;
};

/* False: there is no room for it. */
static bool add_point(struct outside_walk *walk, struct cn_point point)
{
	for (unsigned i = 0; i < walk->count; i++)
		if (walk->points[i].queue == point.queue && walk->points[i].number >= point.number)
			return true;
	if (walk->count == WALK_MAX)
		return false;
	walk->points[walk->count++] = point;
	return true;
}

/* Is there a wait for a signal in a queue, up to a number? Other queues that it waits for are added. Queue locked. */
static bool look_locked(struct outside_walk *walk, struct cn_point point)
{
	struct cn_host_item *first = cn_host_queue_of(point.queue)->first;
	/* Counted from the end: an operation that runs in its caller has a number, but stands nowhere. */
	uint64_t number = atomic_load_explicit(&point.queue->submitted, memory_order_relaxed);

	for (struct cn_host_item *item = first; item; item = item->next)
		number--;
	for (struct cn_host_item *item = first; item && ++number <= point.number; item = item->next) {
		const struct cn_operation *operation = &item->operation;
		if (item->runs) /* it waits no longer, and its signal may be gone */
			continue;
		if (operation->kind == CN_OPERATION_WAIT_SIGNAL &&
		    cn_host_signal_pending(operation->wait_signal.signal, operation->wait_signal.record))
			return true;
		if (operation->kind == CN_OPERATION_WAIT_POINT && !cn_point_reached(operation->wait_point) &&
		    !add_point(walk, operation->wait_point))
			return true;
	}
	return false;
}

bool cn_host_point_waits_outside(struct cn_point point)
{
	struct outside_walk walk = {.count = 0};
	bool outside = false;

	if (!cn_host_signal_waits() || cn_point_reached(point))
		return false;
	add_point(&walk, point);
	for (unsigned i = 0; i < walk.count && !outside; i++) {
		struct cn_host_queue *queue = cn_host_queue_of(walk.points[i].queue);
		cn_quick_lock(&queue->lock);
		outside = look_locked(&walk, walk.points[i]);
		cn_quick_unlock(&queue->lock);
	}
	return outside;
}

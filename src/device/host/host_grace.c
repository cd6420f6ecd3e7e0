/* SPDX-License-Identifier: MIT */
/*
 * Grace periods of the host device: a period is over when each queue has come to the number that it had when the period
 * began. All queues stand in one list, which only grows.
 */
#include "device/host/host_internal.h"

static struct {
	_Atomic(struct cn_host_queue *) first;
	struct cn_host_queue *left[CN_GRACE_PERIODS_MAX]; /* from here on a period's queues have not been seen done */
} grace;

void cn_host_grace_join(struct cn_host_queue *queue)
{
	if (queue->grace.listed) /* by an earlier owner */
		return;
	queue->grace.listed = true;
	queue->grace.next = atomic_load(&grace.first);
	while (!atomic_compare_exchange_weak(&grace.first, &queue->grace.next, queue))
		continue;
}

bool cn_host_grace_begin(unsigned slot)
{
	grace.left[slot] = atomic_load_explicit(&grace.first, memory_order_acquire);
	for (struct cn_host_queue *queue = grace.left[slot]; queue; queue = queue->grace.next)
		queue->grace.numbers[slot] = atomic_load(&queue->base.submitted);
	return true;
}

bool cn_host_grace_is_over(unsigned slot)
{
	struct cn_host_queue *queue = grace.left[slot];

	while (queue && cn_host_point_happened((struct cn_point){&queue->base, queue->grace.numbers[slot]}))
		queue = queue->grace.next;
	grace.left[slot] = queue;
	return !queue;
}

/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait for a point.
 *
 * What must happen before the point and no thread does yet, the waiter does itself (cn_host_queue_help()): it has
 * nothing better to do, and it saves two wake-ups. That includes host functions and kernels, as far as the point needs
 * them; the mark that forbids them to call CUDA holds in this thread meanwhile. The thread must not be cancelled there,
 * or the queue would stay behind with no thread.
 *
 * Where another thread is at it already, the waiter spins before it sleeps. It spins no longer than a sleep costs,
 * which is measured: the time from the store that ends a sleep until the sleeper runs. So a wait takes at most twice
 * the time that the better choice would have taken. A queue remembers how long it has paid lately, and a wait that
 * spins in vain halves that; so where queues take long, spinning soon costs next to nothing. There is no spinning
 * where the other thread shares our CPU, and one that finds itself preempted stops: another thread wants the CPU.
 */
#include "device/host/host_internal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

enum {
	LOOK_ROUND_NS = 1000000000, /* how long a waiter sleeps before it checks which thread drives the queue */
	SPIN_LEAST_NS = 500,
	SPIN_MOST_NS = 40000,
	PREEMPTED_NS = 20000, /* between two looks at the clock, which take some hundred */
	SPINS_PER_LOOK = 8,
};

struct thread_waiter {
	struct cn_waiter waiter;
	uint64_t reached_ns;
	_Atomic uint32_t reached;
};

static _Atomic uint32_t sleep_cost_ns = SPIN_MOST_NS / 2; /* of the latest sleeps, the last one an eighth */

static void learn_cost(uint64_t cost_ns)
{
	uint32_t now = cost_ns < SPIN_LEAST_NS  ? SPIN_LEAST_NS
		       : cost_ns > SPIN_MOST_NS ? SPIN_MOST_NS
						: (uint32_t)cost_ns;
	uint32_t before = atomic_load_explicit(&sleep_cost_ns, memory_order_relaxed);

	atomic_store_explicit(&sleep_cost_ns, before - before / 8 + now / 8, memory_order_relaxed);
}

/* After a wait: did it pay to spin, or would it have, for as long as a sleep costs? */
static void learn(struct cn_host_queue *queue, bool worth)
{
	uint32_t most_ns = atomic_load_explicit(&sleep_cost_ns, memory_order_relaxed);
	uint32_t spin_ns = atomic_load_explicit(&queue->spin_ns, memory_order_relaxed);

	if (worth)
		spin_ns = spin_ns < most_ns / 2 ? spin_ns * 2 : most_ns;
	else
		spin_ns = spin_ns > SPIN_LEAST_NS * 2 ? spin_ns / 2 : SPIN_LEAST_NS;
	atomic_store_explicit(&queue->spin_ns, spin_ns, memory_order_relaxed);
}

/* Look for a while, if the queue's driver runs on another CPU. True: reached, or the queue is there to be helped. */
static bool spin(struct cn_point point, struct cn_host_queue *driven, uint64_t start_ns)
{
	struct cn_host_queue *queue = cn_host_queue_of(point.queue);
	uint64_t spin_ns = atomic_load_explicit(&queue->spin_ns, memory_order_relaxed), now_ns = start_ns;

	if (!spin_ns)
		spin_ns = atomic_load_explicit(&sleep_cost_ns, memory_order_relaxed);
	while (now_ns - start_ns < spin_ns) {
		for (int i = 0; i < SPINS_PER_LOOK; i++) {
			if (cn_point_reached(point) || atomic_load_explicit(&queue->run.listed, memory_order_relaxed))
				return true;
			cn_cpu_relax();
		}
		uint64_t before_ns = now_ns;
		now_ns = cn_clock_ns();
		if (now_ns - before_ns > PREEMPTED_NS)
			break;
		if (atomic_load_explicit(&driven->cpu, memory_order_relaxed) == sched_getcpu())
			break;
	}
	return false;
}

static void thread_waiter_reached(struct cn_waiter *waiter)
{
	struct thread_waiter *sleeper = cn_container_of(waiter, struct thread_waiter, waiter);
	_Atomic uint32_t *reached = &sleeper->reached;

	/* The sleeper may return, and its stack be reused, right after the store: the wake needs the address alone. */
	sleeper->reached_ns = cn_clock_ns();
	atomic_store_explicit(reached, 1, memory_order_release);
	cn_futex_wake(reached, 1);
}

static void sleep_until(struct cn_point point)
{
	struct thread_waiter self = {.waiter = {.number = point.number, .reached = thread_waiter_reached}};
	bool slept = false;

	if (!cn_host_queue_add_waiter(cn_host_queue_of(point.queue), &self.waiter))
		return;
	while (!atomic_load_explicit(&self.reached, memory_order_acquire))
		if (!cn_host_executor_stand_in() && !atomic_load_explicit(&self.reached, memory_order_acquire)) {
			cn_futex_wait(&self.reached, 0, LOOK_ROUND_NS); /* there may be no thread by then */
			slept = true;
		}
	if (slept)
		learn_cost(cn_clock_ns() - self.reached_ns);
}

/* Do what there is to do before the point. Returns the queue that another thread drives, or NULL. */
static struct cn_host_queue *help(struct cn_point point)
{
	struct cn_host_queue *driven = NULL;
	int before, saved = errno;

	if (cn_callback_queue) /* no host function runs inside another */
		return NULL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	while (!cn_point_reached(point) && cn_host_queue_help(point, &driven))
		;
	pthread_setcancelstate(before, NULL);
	errno = saved;
	return driven;
}

void cn_host_point_wait(struct cn_point point)
{
	struct cn_host_queue *queue = cn_host_queue_of(point.queue), *driven = help(point);

	while (driven && !cn_point_reached(point)) {
		uint64_t start_ns = cn_clock_ns();
		if (!spin(point, driven, start_ns)) {
			sleep_until(point);
			learn(queue, cn_clock_ns() - start_ns <= atomic_load(&sleep_cost_ns));
			return;
		}
		learn(queue, true);
		driven = help(point);
	}
	if (!cn_point_reached(point))
		sleep_until(point);
}

/* ---- Points of a queue that only waits ---- */

void cn_host_queue_gather(struct cn_host_queue *queue)
{
	atomic_store(&queue->gathers, true);
}

bool cn_host_queue_gathers(struct cn_queue *queue)
{
	return atomic_load_explicit(&cn_host_queue_of(queue)->gathers, memory_order_relaxed);
}

bool cn_host_point_happened(struct cn_point point)
{
	if (cn_point_reached(point))
		return true;
	if (!cn_host_queue_gathers(point.queue))
		return false;
	struct cn_host_queue *queue = cn_host_queue_of(point.queue);
	cn_quick_lock(&queue->lock);
	uint64_t number = atomic_load_explicit(&queue->base.completed, memory_order_acquire);
	const struct cn_host_item *item = queue->first;
	while (atomic_load(&queue->gathers) && item && number < point.number &&
	       item->operation.kind == CN_OPERATION_WAIT_POINT && cn_point_reached(item->operation.wait_point)) {
		item = item->next;
		number++;
	}
	cn_quick_unlock(&queue->lock);
	return number >= point.number;
}

/* SPDX-License-Identifier: MIT */
/*
 * Executors: threads that drive queues.
 *
 * A queue that can go on but must not run in the caller is put on one list; an executor takes it and drives it until it
 * is empty or blocked. There are as many executors as queues that run at the same time. One more is started when none
 * is asleep, so a host function that blocks never holds up another stream; an executor that has found nothing to do for
 * a while ends. Where the system refuses a further thread, the queue waits for an existing one. Where it refuses the
 * only one, a thread that waits for a stream stands in: cn_host_executor_stand_in().
 *
 * A thread that waits for a queue may find it on the list still, and takes it: it drives the queue itself while the
 * executor that was woken for it is on its way (cn_host_executor_take()). That executor is then free for the next
 * queue, and no other is woken for it: `coming_count` executors have been woken or started and have not looked at the
 * list yet, and each listed queue has one of them.
 *
 * An executor that finds nothing to do, because waiters have taken several queues meanwhile, stands by: it sleeps for
 * STANDBY_NS at most, looks again, and counts as coming until then. So a program that launches and waits, again and
 * again, wakes no thread. Standing by goes on as long as waiters take queues, and costs no more wake-ups than it saves:
 * one that saw fewer than STANDBY_PAYS of them taken goes to sleep. If an operation is under way that takes long, it
 * sleeps twice as long instead, up to STANDBY_MAX_NS: so for rounds of 100 µs none is woken either. When there is no
 * such operation any more, it sleeps half as long each time. It serves queues that are `patient`: the last time the
 * queue was listed, a waiter took it. For any other queue, which may have no waiter, those that stand by are called at
 * once.
 */
#include "base/thread.h"
#include "device/host/host_internal.h"

#include <sys/prctl.h>

enum {
	IDLE_NS = 2000000000,
	STANDBY_NS = 40000, /* what it takes at most to wake a thread */
	STANDBY_MAX_NS = 16 * STANDBY_NS,
	STANDBY_SLACK_NS = STANDBY_NS / 16,
	STANDBY_PAYS = 2,
	STANDBY_MANY = 8 * STANDBY_PAYS, /* so many are taken: it need not sleep longer than STANDBY_NS */
};

static struct {
	CN_QUICK_LOCK(HOST_EXECUTORS) lock;
	struct cn_host_queue *first, *last;
	unsigned listed_count, coming_count, thread_count, sleeper_count;
	unsigned standby_count;      /* of those that are coming */
	unsigned taken_count;        /* queues that waiters have taken since an executor last found nothing to do */
	_Atomic unsigned slow_count; /* operations under way that take long */
	_Atomic uint32_t calls;      /* counts calls for those that stand by */
	_Atomic uint32_t tokens;     /* one for each sleeper that should wake up */
	_Atomic bool missing;        /* there was work and no thread could be started for it */
} executors;

static bool take_token(void)
{
	uint32_t tokens = atomic_load_explicit(&executors.tokens, memory_order_acquire);

	while (tokens)
		if (atomic_compare_exchange_weak(&executors.tokens, &tokens, tokens - 1))
			return true;
	return false;
}

/* Sleep until woken. False: not woken for a long time, and the thread should end. */
static bool sleep_for_token(void)
{
	while (!take_token()) {
		uint64_t before = cn_clock_ns();
		cn_futex_wait(&executors.tokens, 0, IDLE_NS);
		/* Woken just as the time ran out: the token must not be left to a thread that keeps sleeping. */
		if (cn_clock_ns() - before < IDLE_NS || atomic_load(&executors.tokens))
			continue;
		cn_quick_lock(&executors.lock);
		bool surplus = executors.sleeper_count > 0; /* else a token is on its way to us */
		if (surplus) {
			executors.sleeper_count--;
			executors.thread_count--;
		}
		cn_quick_unlock(&executors.lock);
		if (surplus)
			return false;
	}
	return true;
}

static void unlist_locked(struct cn_host_queue *queue)
{
	struct cn_host_queue *next = queue->run.next, *previous = queue->run.previous;

	*(previous ? &previous->run.next : &executors.first) = next;
	*(next ? &next->run.previous : &executors.last) = previous;
	atomic_store_explicit(&queue->run.listed, false, memory_order_relaxed);
	executors.listed_count--;
}

/* NULL: there is none. Executors locked. */
static struct cn_host_queue *take_queue_locked(void)
{
	struct cn_host_queue *queue = executors.first;

	if (queue) {
		unlist_locked(queue);
		queue->run.patient = false;
	}
	return queue;
}

void cn_host_executor_begin_slow(void)
{
	atomic_fetch_add_explicit(&executors.slow_count, 1, memory_order_relaxed);
}

void cn_host_executor_end_slow(void)
{
	atomic_fetch_sub_explicit(&executors.slow_count, 1, memory_order_relaxed);
}

/* For how long to stand by, after so long; 0: not. Executors locked. */
static int64_t next_standby_locked(int64_t last_ns)
{
	unsigned slow_count = atomic_load_explicit(&executors.slow_count, memory_order_relaxed);
	unsigned others = executors.standby_count - (last_ns != 0);

	if (executors.taken_count >= STANDBY_PAYS) {
		bool shorter = executors.taken_count >= STANDBY_MANY || last_ns <= STANDBY_NS;
		int64_t again_ns = slow_count ? last_ns : last_ns / 2; /* what took long may be over */
		return shorter ? STANDBY_NS : again_ns;
	}
	if (others >= slow_count || last_ns == STANDBY_MAX_NS)
		return 0;
	return last_ns ? 2 * last_ns : STANDBY_NS;
}

static void *executor(void *unused)
{
	bool came = true;       /* it is counted in coming_count, */
	int64_t standby_ns = 0; /* in standby_count */

	(void)unused;
	prctl(PR_SET_TIMERSLACK, (unsigned long)STANDBY_SLACK_NS); /* else the system adds 50 µs to a standby */
	for (;;) {
		cn_quick_lock(&executors.lock);
		struct cn_host_queue *queue = take_queue_locked();
		bool stood_by = standby_ns;
		standby_ns = queue ? 0 : next_standby_locked(standby_ns);
		executors.coming_count += (unsigned)(standby_ns != 0) - (unsigned)came;
		executors.standby_count += (unsigned)(standby_ns != 0) - (unsigned)stood_by;
		executors.sleeper_count += !queue && !standby_ns;
		if (!queue)
			executors.taken_count = 0;
		uint32_t calls = atomic_load_explicit(&executors.calls, memory_order_relaxed);
		cn_quick_unlock(&executors.lock);

		if (queue)
			cn_host_queue_drive(queue);
		else if (standby_ns)
			cn_futex_wait(&executors.calls, calls, standby_ns);
		else if (!sleep_for_token())
			return NULL;
		came = !queue;
	}
}

/* Start one that is counted already; if that fails, it is not. */
static bool start_thread(void)
{
	bool started = cn_thread_start(executor, NULL);

	cn_quick_lock(&executors.lock);
	if (started) {
		atomic_store(&executors.missing, !executors.thread_count);
		cn_quick_unlock(&executors.lock);
		return true;
	}
	executors.coming_count--;
	bool nobody = --executors.thread_count == 0;
	if (nobody)
		atomic_store(&executors.missing, true);
	cn_quick_unlock(&executors.lock);
	if (nobody)
		cn_error(CUDA_ERROR_OPERATING_SYSTEM,
			 "no thread could be started to run a stream: its work runs in the threads that wait for it");
	return false;
}

void cn_host_executor_push(struct cn_host_queue *queue)
{
	cn_quick_lock(&executors.lock);
	queue->run.next = NULL;
	queue->run.previous = executors.last;
	*(executors.last ? &executors.last->run.next : &executors.first) = queue;
	executors.last = queue;
	atomic_store_explicit(&queue->run.listed, true, memory_order_relaxed);

	unsigned awake_count = executors.coming_count - executors.standby_count;
	bool enough = ++executors.listed_count <= executors.coming_count;
	bool call = !queue->run.patient && executors.standby_count && executors.listed_count > awake_count;
	int called_count = (int)(executors.listed_count - awake_count); /* one of them may take an older queue */
	bool wake = executors.sleeper_count > 0;
	if (!enough) {
		executors.coming_count++;
		if (wake)
			executors.sleeper_count--;
		else
			executors.thread_count++;
	}
	if (call)
		atomic_fetch_add_explicit(&executors.calls, 1, memory_order_relaxed);
	cn_quick_unlock(&executors.lock);

	if (call)
		cn_futex_wake(&executors.calls, called_count);
	if (enough)
		return;
	if (wake) {
		atomic_fetch_add(&executors.tokens, 1);
		cn_futex_wake(&executors.tokens, 1);
		return;
	}
	start_thread();
}

bool cn_host_executor_take(struct cn_host_queue *queue)
{
	if (!atomic_load_explicit(&queue->run.listed, memory_order_relaxed))
		return false;
	cn_quick_lock(&executors.lock);
	bool listed = atomic_load_explicit(&queue->run.listed, memory_order_relaxed);
	if (listed) {
		unlist_locked(queue);
		queue->run.patient = true;
		executors.taken_count++;
	}
	cn_quick_unlock(&executors.lock);
	return listed;
}

bool cn_host_executor_stand_in(void)
{
	struct cn_host_queue *queue = NULL;

	if (!atomic_load_explicit(&executors.missing, memory_order_relaxed))
		return false;
	cn_quick_lock(&executors.lock);
	bool nobody = executors.thread_count == 0;
	if (nobody && executors.first) {
		executors.thread_count++;
		executors.coming_count++;
	} else {
		nobody = false;
	}
	cn_quick_unlock(&executors.lock);
	if (!nobody || start_thread())
		return false;
	cn_quick_lock(&executors.lock);
	if (!executors.thread_count)
		queue = take_queue_locked();
	cn_quick_unlock(&executors.lock);
	if (queue)
		cn_host_queue_drive(queue);
	return queue != NULL;
}

/* SPDX-License-Identifier: MIT */
/*
 * The slow side of the lock: spin for about as long as a short critical section lasts, then sleep in the kernel.
 */
#include "base/lock.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	SPIN_COUNT = 64,
	AGAIN_NS = 50000, /* when a thread looks again at a word for which nobody wakes it */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
	struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &timeout, NULL, 0);
	errno = saved;
}

void cn_lock_slow(struct cn_lock *lock)
{
	for (int i = 0; i < SPIN_COUNT; i++) {
		uint32_t unlocked = 0;
		if (atomic_compare_exchange_weak_explicit(&lock->word, &unlocked, 1, memory_order_acquire,
							  memory_order_relaxed))
			return;
		cn_cpu_relax();
	}
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		futex_wait(&lock->word, 2, -1);
}

void cn_lock_pause(_Atomic uint32_t *word, uint32_t seen, unsigned n)
{
	if (n % SPIN_COUNT)
		cn_cpu_relax();
	else /* that thread has been preempted */
		futex_wait(word, seen, AGAIN_NS);
}

void cn_quick_lock_slow(struct cn_quick_lock *lock)
{
	for (unsigned i = 1;; i++) {
		uint32_t unlocked = 0;
		if (!atomic_load_explicit(&lock->word, memory_order_relaxed) &&
		    atomic_compare_exchange_weak_explicit(&lock->word, &unlocked, 1, memory_order_acquire,
							  memory_order_relaxed))
			return;
		cn_lock_pause(&lock->word, 1, i);
	}
}

void cn_slow_lock_take(struct cn_slow_lock *lock)
{
	cn_lock_take(&lock->lock);
}

void cn_slow_lock_drop(struct cn_slow_lock *lock)
{
	cn_lock_drop(&lock->lock);
}

bool cn_slow_lock_try(struct cn_slow_lock *lock)
{
	return cn_lock_try(&lock->lock);
}

bool cn_slow_lock_wait(struct cn_slow_lock *lock, uint64_t deadline_ns)
{
	_Atomic uint32_t *word = &lock->lock.word;
	uint64_t now_ns;

	if (cn_lock_try(&lock->lock))
		return true;
	while (atomic_exchange_explicit(word, 2, memory_order_acquire) != 0) {
		if ((now_ns = cn_clock_ns()) >= deadline_ns)
			return false;
		futex_wait(word, 2, (int64_t)(deadline_ns - now_ns));
	}
	return true;
}

void cn_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
	cn_might_wait();
	futex_wait(word, expected, timeout_ns);
}

void cn_futex_wake(_Atomic uint32_t *word, int thread_count)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, thread_count, NULL, NULL, 0);
	errno = saved;
}

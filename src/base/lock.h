/* SPDX-License-Identifier: MIT */
/*
 * A lock of four bytes, and the futex it stands on.
 *
 * Two atomic instructions when nobody competes, which is why it is not a pthread mutex: event record and wait have a
 * budget of some tens of nanoseconds. All zero is unlocked, so static and calloc'ed memory needs no initialisation.
 * Never held across a system call that can block.
 */
#ifndef CN_BASE_LOCK_H
#define CN_BASE_LOCK_H

#include "base/private.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cn_lock {
	_Atomic uint32_t word; /* 0: free, 1: taken, 2: taken and somebody sleeps */
};

CN_PRIVATE void cn_lock_slow(struct cn_lock *lock);

/* Sleep while *word is `expected`, at most `timeout_ns` (negative: for ever). Wakes early for any reason. */
void cn_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
CN_PRIVATE void cn_futex_wake(_Atomic uint32_t *word, int thread_count);

static inline void cn_lock(struct cn_lock *lock)
{
	uint32_t unlocked = 0;

	if (!atomic_compare_exchange_strong_explicit(&lock->word, &unlocked, 1, memory_order_acquire,
						     memory_order_relaxed))
		cn_lock_slow(lock);
}

static inline void cn_unlock(struct cn_lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		cn_futex_wake(&lock->word, 1);
}

/*
 * The same for the hottest paths: unlocking is a plain store, so a section costs one atomic instruction and not two.
 * Nobody is woken: who finds it taken for longer than a section lasts sleeps for a moment and looks again. For locks
 * that are hardly ever fought for.
 */
struct cn_quick_lock {
	_Atomic uint32_t word; /* 0: free, 1: taken */
};

void cn_quick_lock_slow(struct cn_quick_lock *lock);

static inline void cn_quick_lock(struct cn_quick_lock *lock)
{
	uint32_t unlocked = 0;

	if (__builtin_expect(!atomic_compare_exchange_strong_explicit(&lock->word, &unlocked, 1, memory_order_acquire,
								      memory_order_relaxed),
			     0))
		cn_quick_lock_slow(lock);
}

static inline void cn_quick_unlock(struct cn_quick_lock *lock)
{
	atomic_store_explicit(&lock->word, 0, memory_order_release);
}

static inline void cn_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif

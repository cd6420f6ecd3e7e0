/* SPDX-License-Identifier: MIT */
/*
 * Locks of four bytes, or a few more, and the futex they are built on.
 *
 * At most two atomic instructions without contention, which is why they are not pthread mutexes: event record and wait
 * have a budget of some tens of nanoseconds. All zero is unlocked, so static and calloc'ed memory needs no
 * initialisation.
 *
 * Five kinds, by what a lock may be held across:
 *
 *	CN_LOCK(POOL)                 some hundred instructions: nothing that waits, no driver call
 *	CN_QUICK_LOCK(QUEUE)          the same, for hot paths: unlocking is a plain store, and wakes no thread
 *	CN_OWNED_LOCK(CACHE)          the same where one thread takes it most of the time: without an atomic instruction
 *	CN_DRIVER_LOCK(CUDA_STREAM)   calls of the real driver that take microseconds and do not wait
 *	CN_SLOW_LOCK(VMM)             whatever takes long: system calls, mappings, an answer of another process
 *
 * Each lock has a rank, by its declaration (rank.h lists them), and a thread takes locks in the order of their ranks.
 * Builds with the option lock_ranks check that, and that no thread takes a slow lock, or waits, while it holds one of
 * the other kinds. The ranks are in the types: no lock is larger for them, and a build that does not check
 * executes what it would without ranks.
 */
#ifndef CN_BASE_LOCK_H
#define CN_BASE_LOCK_H

#include "base/private.h"
#include "base/rank.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cn_lock {
	_Atomic uint32_t word; /* 0: free, 1: taken, 2: taken and a thread sleeps */
};

/* Unlocked with a plain store: no thread is woken. A thread that finds it taken for long sleeps and looks again. */
struct cn_quick_lock {
	_Atomic uint32_t word; /* 0: free, 1: taken */
};

/* A thread, for others to see which lock it is in. */
struct cn_owner {
	_Alignas(64) const
		struct cn_owned_lock *_Atomic inside; /* as its owner, or about to be; it alone writes this */
};

/* Owned by the thread that takes it again and again: see owned_lock.c. */
struct cn_owned_lock {
	struct cn_quick_lock by_word;   /* for all threads but the owner */
	uint32_t turns;                 /* how often `last` took it in a row by its word. The lock guards this, */
	struct cn_owner *_Atomic owner; /* NULL: no thread, or none any more, and it is not inside */
	const struct cn_owner *last;    /* and these */
	uint32_t revoked_count;         /* how often its owner lost it; saturates */
};

struct cn_driver_lock {
	struct cn_lock lock;
};

struct cn_slow_lock {
	struct cn_lock lock;
};

/* struct cn_lock_QUEUE and so on. The array has no elements: the size of one is the rank. */
#define CN_RANKED_LOCK(name, kind, two, guards) \
	struct cn_##kind##_##name {             \
		struct cn_##kind bare;          \
		char rank[0][CN_RANK_##name];   \
	};
CN_RANKS(CN_RANKED_LOCK)
#undef CN_RANKED_LOCK

#define CN_LOCK(name)        struct cn_lock_##name
#define CN_QUICK_LOCK(name)  struct cn_quick_lock_##name
#define CN_OWNED_LOCK(name)  struct cn_owned_lock_##name
#define CN_DRIVER_LOCK(name) struct cn_driver_lock_##name
#define CN_SLOW_LOCK(name)   struct cn_slow_lock_##name

CN_PRIVATE void cn_lock_slow(struct cn_lock *lock);
void cn_quick_lock_slow(struct cn_quick_lock *lock);
/* A thread has seen this in a word for the n-th time, from 1, that another changes soon: a short pause. */
void cn_lock_pause(_Atomic uint32_t *word, uint32_t seen, unsigned n);

/*
 * Sleep while *word is `expected`, at most `timeout_ns` (negative: for ever). May wake early for any reason. The caller
 * holds no lock, except slow ones.
 */
void cn_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
CN_PRIVATE void cn_futex_wake(_Atomic uint32_t *word, int thread_count);

/* ---- Locks without their ranks ---- */

static inline void cn_lock_take(struct cn_lock *lock)
{
	uint32_t unlocked = 0;

	if (!atomic_compare_exchange_strong_explicit(&lock->word, &unlocked, 1, memory_order_acquire,
						     memory_order_relaxed))
		cn_lock_slow(lock);
}

static inline void cn_lock_drop(struct cn_lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		cn_futex_wake(&lock->word, 1);
}

static inline bool cn_lock_try(struct cn_lock *lock)
{
	uint32_t unlocked = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &unlocked, 1, memory_order_acquire,
						       memory_order_relaxed);
}

static inline bool cn_quick_lock_try(struct cn_quick_lock *lock)
{
	uint32_t unlocked = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &unlocked, 1, memory_order_acquire,
						       memory_order_relaxed);
}

static inline void cn_quick_lock_take(struct cn_quick_lock *lock)
{
	if (__builtin_expect(!cn_quick_lock_try(lock), 0))
		cn_quick_lock_slow(lock);
}

static inline void cn_quick_lock_drop(struct cn_quick_lock *lock)
{
	atomic_store_explicit(&lock->word, 0, memory_order_release);
}

/* This thread. As long as it cannot own a lock: a record that all such threads have, and no lock. */
extern _Thread_local struct cn_owner *cn_owner_self __attribute__((tls_model("initial-exec")));

/*
 * From now on, or soon, locks can be owned. The system may take milliseconds to prepare that, which the caller does not
 * wait for. Further calls do nothing.
 */
void cn_owned_locks_prepare(void);
void cn_owned_lock_take(struct cn_owned_lock *lock);

/* After cn_owned_lock_try(). */
static inline void cn_owned_lock_leave(struct cn_owned_lock *lock)
{
	(void)lock;
	atomic_store_explicit(&cn_owner_self->inside, NULL, memory_order_release);
}

/* Take it as its owner. False: this thread is not the owner. */
static inline bool cn_owned_lock_try(struct cn_owned_lock *lock)
{
	struct cn_owner *self = cn_owner_self;

	if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) != self, 0))
		return false;
	atomic_store_explicit(&self->inside, lock, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* the thread that revokes has the other half: membarrier() */
	if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_acquire) == self, 1))
		return true;
	cn_owned_lock_leave(lock);
	return false;
}

static inline void cn_owned_lock_drop(struct cn_owned_lock *lock)
{
	if (atomic_load_explicit(&cn_owner_self->inside, memory_order_relaxed) == lock)
		cn_owned_lock_leave(lock);
	else
		cn_quick_lock_drop(&lock->by_word);
}

static inline void cn_driver_lock_take(struct cn_driver_lock *lock)
{
	cn_lock_take(&lock->lock);
}

static inline void cn_driver_lock_drop(struct cn_driver_lock *lock)
{
	cn_lock_drop(&lock->lock);
}

static inline bool cn_driver_lock_try(struct cn_driver_lock *lock)
{
	return cn_lock_try(&lock->lock);
}

/* Not inline: their time does not matter. */
void cn_slow_lock_take(struct cn_slow_lock *lock);
void cn_slow_lock_drop(struct cn_slow_lock *lock);
bool cn_slow_lock_try(struct cn_slow_lock *lock);
bool cn_slow_lock_wait(struct cn_slow_lock *lock, uint64_t deadline_ns);

/* ---- Locks ---- */

#define cn_lock(pointer)                         CN_RANKED(pointer, cn_rank_take, cn_lock_take)
#define cn_unlock(pointer)                       CN_RANKED(pointer, cn_rank_drop, cn_lock_drop)
#define cn_quick_lock(pointer)                   CN_RANKED(pointer, cn_rank_take, cn_quick_lock_take)
#define cn_quick_unlock(pointer)                 CN_RANKED(pointer, cn_rank_drop, cn_quick_lock_drop)
#define cn_owned_lock(pointer)                   CN_RANKED(pointer, cn_rank_take, cn_owned_lock_take)
#define cn_owned_unlock(pointer)                 CN_RANKED(pointer, cn_rank_drop, cn_owned_lock_drop)
/* For a thread that has it by cn_owned_try_lock(). */
#define cn_owned_leave(pointer)                  CN_RANKED(pointer, cn_rank_drop, cn_owned_lock_leave)
#define cn_driver_lock(pointer)                  CN_RANKED(pointer, cn_rank_take, cn_driver_lock_take)
#define cn_driver_unlock(pointer)                CN_RANKED(pointer, cn_rank_drop, cn_driver_lock_drop)
#define cn_slow_lock(pointer)                    CN_RANKED(pointer, cn_rank_take, cn_slow_lock_take)
#define cn_slow_unlock(pointer)                  CN_RANKED(pointer, cn_rank_drop, cn_slow_lock_drop)
/* False: the deadline has passed (CLOCK_MONOTONIC), and another thread has it. */
#define cn_slow_lock_until(pointer, deadline_ns) CN_RANKED_UNTIL(pointer, deadline_ns)
/* False: another thread has it. Of any rank: a thread that does not wait cannot be part of a deadlock. */
#define cn_owned_try_lock(pointer)               CN_RANKED_TRY(pointer, cn_owned_lock_try)
#define cn_driver_try_lock(pointer)              CN_RANKED_TRY(pointer, cn_driver_lock_try)
#define cn_slow_try_lock(pointer)                CN_RANKED_TRY(pointer, cn_slow_lock_try)

#ifdef CN_LOCK_RANKS
#define CN_RANKED(pointer, check, function)                                 \
	do {                                                                \
		__typeof__(pointer) cn_ranked = (pointer);                  \
		CN_RANK_SITE(cn_site, sizeof cn_ranked->rank[0], #pointer); \
		check(cn_ranked, &cn_site);                                 \
		function(&cn_ranked->bare);                                 \
	} while (0)
#define CN_RANKED_TRY(pointer, function)                                    \
	__extension__({                                                     \
		__typeof__(pointer) cn_ranked = (pointer);                  \
		CN_RANK_SITE(cn_site, sizeof cn_ranked->rank[0], #pointer); \
		bool cn_taken = function(&cn_ranked->bare);                 \
		if (cn_taken)                                               \
			cn_rank_took(cn_ranked, &cn_site);                  \
		cn_taken;                                                   \
	})
#define CN_RANKED_UNTIL(pointer, deadline_ns)                                     \
	__extension__({                                                           \
		__typeof__(pointer) cn_ranked = (pointer);                        \
		CN_RANK_SITE(cn_site, sizeof cn_ranked->rank[0], #pointer);       \
		cn_rank_take(cn_ranked, &cn_site);                                \
		bool cn_taken = cn_slow_lock_wait(&cn_ranked->bare, deadline_ns); \
		if (!cn_taken)                                                    \
			cn_rank_drop(cn_ranked, &cn_site);                        \
		cn_taken;                                                         \
	})
#else
#define CN_RANKED_UNTIL(pointer, deadline_ns) cn_slow_lock_wait(&(pointer)->bare, deadline_ns)
#define CN_RANKED(pointer, check, function)   function(&(pointer)->bare)
#define CN_RANKED_TRY(pointer, function)      function(&(pointer)->bare)
#endif

static inline void cn_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Owned locks: for what one thread uses most of the time, and any other may.
 *
 * An atomic instruction takes 20 cycles on many processors, and what follows waits for it. So a thread that takes a
 * lock again and again becomes its owner, and takes it with plain stores and loads from then on:
 *
 *	owner:	self->inside = lock; is lock->owner still self? … self->inside = NULL
 *	other:	lock->owner = revoking; membarrier(); wait until owner->inside is not the lock; lock->owner = NULL;
 *		take the word; is there an owner again? Then begin anew …
 *
 * The owner's store may not be seen yet when it reads lock->owner. membarrier() makes each running thread of the
 * process finish its stores: after it, either the store is seen, or the owner sees that it is not the owner. Each
 * thread has an `inside` of its own: one that was the owner long ago, and only now goes on behind its first look, must
 * not write where the owner of today does. Only a thread that has the word becomes the owner.
 *
 * membarrier() takes some microseconds, as much as a thousand turns save. So a lock whose owner has lost it n times is
 * owned again after TURNS · 8^n turns of one thread in a row: all revoking together takes a small part of the time,
 * however the threads behave. Where membarrier() is missing or forbidden, no lock is owned, and all threads take the
 * word. tests/model/owned.pml goes through all of this.
 */
#include "base/clock.h"
#include "base/records.h"
#include "base/thread.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	TURNS = 64,
	REVOKED_MAX = 3, /* 32,768 turns */
	FORBIDDEN_NS = 10000000,
};

struct owner_record {
	struct cn_owner owner;
	struct cn_record record;
};

static struct cn_owner revoking;
static struct cn_owner nobody;
_Thread_local struct cn_owner *cn_owner_self __attribute__((tls_model("initial-exec"))) = &nobody;

static struct {
	pthread_once_t once;
	pthread_key_t key; /* gives a thread's record back at its end */
	_Atomic bool ready;
	struct cn_records records;
} owners = {.once = PTHREAD_ONCE_INIT, .records = CN_RECORDS(struct owner_record, record)};

static long membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

/* ---- Threads that can be owners ---- */

static void *register_process(void *unused)
{
	(void)unused;
	if (!membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		atomic_store_explicit(&owners.ready, true, memory_order_release);
	return NULL;
}

/* Locks that the thread still owns are the next thread's that gets the record; until then its owner is not inside. */
static void end_thread(void *record)
{
	cn_owner_self = &nobody;
	cn_records_give(&owners.records, record);
}

/* If there are several threads, the system waits until each CPU has been through its scheduler: ten milliseconds. */
static void prepare(void)
{
	int saved = errno;

	if (!pthread_key_create(&owners.key, end_thread)) {
		if (__libc_single_threaded)
			register_process(NULL);
		else
			cn_thread_start(register_process, NULL); /* if it cannot be started, no lock is owned */
	}
	errno = saved;
}

void cn_owned_locks_prepare(void)
{
	pthread_once(&owners.once, prepare);
}

/* Without memory it stays as it is. Once in a thread's life it is asked for, whatever locks the thread has. */
static void make_owner(void)
{
	int saved = errno;
	struct owner_record *record = cn_records_take(&owners.records);

	if (record && pthread_setspecific(owners.key, record))
		cn_records_give(&owners.records, record);
	else if (record)
		cn_owner_self = &record->owner;
	errno = saved;
}

/* ---- Taking it by the word ---- */

/* Nobody is woken when what a thread waits for here comes true: a short pause, the n-th. */
static void pause_shortly(unsigned n)
{
	static _Atomic uint32_t never;

	cn_lock_pause(&never, 0, n);
}

/* A program may forbid the call later on. Then so much time must do: no store takes that long to be seen. */
static void do_without_membarrier(void)
{
	for (uint64_t end_ns = cn_clock_ns() + FORBIDDEN_NS; cn_clock_ns() < end_ns;)
		poll(NULL, 0, 1);
}

/* True: this call has made an owner lose it. After either answer there was a moment without an owner. */
static bool revoke_owner(struct cn_owned_lock *lock)
{
	struct cn_owner *owner = atomic_load(&lock->owner);
	int saved = errno;

	if (!owner || owner == &revoking || !atomic_compare_exchange_strong(&lock->owner, &owner, &revoking)) {
		for (unsigned i = 1; atomic_load_explicit(&lock->owner, memory_order_acquire) == &revoking; i++)
			pause_shortly(i);
		return false;
	}
	if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		do_without_membarrier();
	errno = saved;
	for (unsigned i = 1; atomic_load_explicit(&owner->inside, memory_order_acquire) == lock; i++)
		pause_shortly(i);
	atomic_store(&lock->owner, NULL);
	return true;
}

/* The thread has it by its word. */
static void count_turn(struct cn_owned_lock *lock, bool revoked)
{
	if (revoked && lock->revoked_count < REVOKED_MAX)
		lock->revoked_count++;
	if (lock->last != cn_owner_self || revoked)
		lock->turns = 0;
	lock->last = cn_owner_self;
	if (cn_owner_self == &nobody || ++lock->turns <= (uint32_t)TURNS << 3 * lock->revoked_count)
		return;
	lock->turns = 0;
	atomic_store_explicit(&lock->owner, cn_owner_self, memory_order_relaxed);
}

void cn_owned_lock_take(struct cn_owned_lock *lock)
{
	bool revoked = false;

	if (cn_owned_lock_try(lock))
		return;
	if (cn_owner_self == &nobody && atomic_load_explicit(&owners.ready, memory_order_acquire))
		make_owner();
	for (;;) {
		if (atomic_load_explicit(&lock->owner, memory_order_acquire))
			revoked |= revoke_owner(lock);
		cn_quick_lock_take(&lock->by_word);
		if (!atomic_load_explicit(&lock->owner, memory_order_acquire))
			break;
		cn_quick_lock_drop(&lock->by_word); /* a thread has become the owner meanwhile */
	}
	count_turn(lock, revoked);
}

/* SPDX-License-Identifier: MIT */
/*
 * Owned locks exclude, whichever thread owns them. An owner loses one to any other thread. Without membarrier() they
 * work, too.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"
#include "forbid.h"
#include "harness.h"

enum { TURNS = 100 /* more than it takes to own a lock that nobody has owned */, THREADS = 4, LOCKS = 64 };

static struct cn_owned_lock lock, locks[LOCKS];
static uint64_t counter, counters[LOCKS]; /* not atomic: the lock must do it */

static void take_turns(struct cn_owned_lock *which, int count)
{
	for (int i = 0; i < count; i++) {
		cn_owned_lock_take(which);
		cn_owned_lock_drop(which);
	}
}

static bool is_owner(void)
{
	return atomic_load(&lock.owner) == cn_owner_self;
}

/* The system prepares it in another thread if there is one: then this takes a while. */
static void become_owner(void)
{
	cn_owned_locks_prepare();
	do
		take_turns(&lock, TURNS);
	while (!is_owner());
}

static void *take_it(void *unused)
{
	(void)unused;
	cn_owned_lock_take(&lock);
	counter++;
	cn_owned_lock_drop(&lock);
	return NULL;
}

static void run(void *(*body)(void *))
{
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, body, NULL));
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

/* Goal: a thread that takes it alone owns it, and from then on its word stays free. */
TEST(a_thread_that_takes_it_alone_owns_it)
{
	become_owner();
	ASSERT(cn_owned_lock_try(&lock));
	ASSERT_EQ(0, lock.by_word.word);
	ASSERT(cn_owner_self->inside == &lock);
	cn_owned_lock_drop(&lock);
	ASSERT(!cn_owner_self->inside);
}

/* Goal: another thread takes it from its owner, which goes on by the word, and owns it again after more turns. */
TEST(another_thread_takes_it_from_its_owner)
{
	become_owner();
	run(take_it);
	ASSERT_EQ(1, counter);
	ASSERT(!atomic_load(&lock.owner));
	ASSERT(!cn_owned_lock_try(&lock));
	take_turns(&lock, TURNS);
	ASSERT(!is_owner());
	take_turns(&lock, 8 * TURNS);
	ASSERT(is_owner());
}

static _Atomic bool was_taken;

static void *take_and_tell(void *unused)
{
	take_it(unused);
	atomic_store(&was_taken, true);
	return NULL;
}

/* Goal: a thread that takes it from an owner that is inside waits for it. */
TEST(an_owner_that_is_inside_is_waited_for)
{
	pthread_t thread;

	become_owner();
	ASSERT(cn_owned_lock_try(&lock));
	ASSERT_EQ(0, pthread_create(&thread, NULL, take_and_tell, NULL));
	while (is_owner()) /* until the other begins to take it away */
		sched_yield();
	for (int i = 0; i < 1000; i++) {
		ASSERT(!atomic_load(&was_taken));
		sched_yield();
	}
	cn_owned_lock_drop(&lock);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(1, counter);
}

static void *own_and_end(void *unused)
{
	(void)unused;
	become_owner();
	return NULL;
}

/* Goal: what an ended thread owned is free, and its record is the next thread's. */
TEST(a_thread_that_ended_leaves_it_free)
{
	run(own_and_end);
	struct cn_owner *gone = atomic_load(&lock.owner);
	ASSERT(gone && gone != cn_owner_self);
	take_it(NULL);
	ASSERT(!atomic_load(&lock.owner));
	ASSERT(cn_owner_self == gone);
}

/* Each thread has a lock of its own most of the time, and now and then takes another's. */
static void *count_in_all(void *data)
{
	struct test_random generator = test_random_start((unsigned)(uintptr_t)data);
	uint64_t counted = 0;

	for (int round = 0; round < 2000 / HARNESS_SLOWDOWN; round++) {
		unsigned which = (unsigned)test_random_below(&generator, LOCKS);
		for (uint64_t i = test_random_below(&generator, 2 * TURNS); i; i--, counted++) {
			if (!cn_owned_lock_try(&locks[which]))
				cn_owned_lock_take(&locks[which]);
			counters[which]++;
			if (i % 64 == 0)
				sched_yield();
			cn_owned_lock_drop(&locks[which]);
		}
	}
	return (void *)(uintptr_t)counted;
}

static void count_together(void)
{
	pthread_t threads[THREADS];
	uint64_t sum = 0, expected = 0;
	void *counted;

	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, count_in_all, (void *)(uintptr_t)(i + 1)));
	for (unsigned i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], &counted));
		expected += (uintptr_t)counted;
	}
	for (unsigned i = 0; i < LOCKS; i++)
		sum += counters[i];
	ASSERT_EQ(expected, sum);
}

/* Goal: one thread at a time has a lock, also while owners come and go. */
TEST(one_holder_at_a_time, .timeout_ms = 60000)
{
	uint32_t revoked_count = 0;

	cn_owned_locks_prepare();
	count_together();
	for (unsigned i = 0; i < LOCKS; i++)
		revoked_count += locks[i].revoked_count;
	ASSERT(revoked_count > 0);
}

static void forbid_membarrier(void)
{
	forbid_call(SYS_membarrier, EPERM);
}

/* Goal: where the system call is forbidden, no lock is owned, and all of them exclude. */
TEST(without_membarrier_no_lock_is_owned, .timeout_ms = 60000)
{
	forbid_membarrier();
	cn_owned_locks_prepare();
	take_turns(&lock, 4 * TURNS);
	ASSERT(!atomic_load(&lock.owner));
	count_together();
}

/* Goal: a program that forbids it later can still take a lock from its owner, without the call. */
TEST(membarrier_that_is_forbidden_later_is_done_without)
{
	become_owner();
	forbid_membarrier();
	errno = 12345;
	run(take_it);
	ASSERT_EQ(1, counter);
	ASSERT(!is_owner());
	take_turns(&lock, 1);
	ASSERT_EQ(12345, errno);
}

/* SPDX-License-Identifier: MIT */
/*
 * The lock excludes, loses no wake-up, and needs no initialisation; the futex does what it promises.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/lock.h"
#include "harness.h"

enum { THREADS = 4 };

static struct cn_lock lock;
static struct cn_quick_lock quick;
static uint64_t counter; /* not atomic: the lock must do it */
static unsigned rounds;

/* The two kinds, used in the same way. */
struct kind {
	void (*take)(void), (*leave)(void);
	unsigned pause; /* now and then hold it for long enough that the others stop spinning and sleep */
};

static void take(void)
{
	cn_lock_take(&lock);
}

static void leave(void)
{
	cn_lock_drop(&lock);
}

static void take_quick(void)
{
	cn_quick_lock_take(&quick);
}

static void leave_quick(void)
{
	cn_quick_lock_drop(&quick);
}

static void *count_up(void *data)
{
	const struct kind *kind = data;

	for (unsigned i = 0; i < rounds; i++) {
		kind->take();
		counter++;
		if (i % kind->pause == 0)
			for (unsigned j = 0; j < 20; j++)
				sched_yield();
		kind->leave();
	}
	return NULL;
}

static void count_together(struct kind kind)
{
	pthread_t threads[THREADS];

	rounds = 20000 / HARNESS_SLOWDOWN;
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, count_up, &kind));
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ASSERT_EQ((uint64_t)THREADS * rounds, counter);
}

TEST(one_holder_at_a_time)
{
	count_together((struct kind){take, leave, 64});
	ASSERT_EQ(0, lock.word);
}

TEST(one_holder_of_a_quick_lock)
{
	count_together((struct kind){take_quick, leave_quick, 1024});
	ASSERT_EQ(0, quick.word);
}

static void *take_and_leave(void *unused)
{
	(void)unused;
	cn_lock_take(&lock);
	counter = 1;
	cn_lock_drop(&lock);
	return NULL;
}

TEST(a_sleeper_is_woken)
{
	pthread_t thread;

	for (unsigned i = 0; i < 200 / HARNESS_SLOWDOWN; i++) {
		counter = 0;
		cn_lock_take(&lock);
		ASSERT_EQ(0, pthread_create(&thread, NULL, take_and_leave, NULL));
		while (atomic_load(&lock.word) != 2) /* it says so before it sleeps */
			sched_yield();
		ASSERT_EQ(0, counter);
		cn_lock_drop(&lock);
		pthread_join(thread, NULL);
		ASSERT_EQ(1, counter);
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

TEST(futex_returns_when_the_word_differs_or_the_time_is_over)
{
	_Atomic uint32_t word = 7;
	uint64_t before = now_ns();

	errno = 12345;
	cn_futex_wait(&word, 8, -1); /* would never return if it slept */
	cn_futex_wait(&word, 7, 2000000);
	ASSERT_GE(now_ns() - before, 2000000);
	cn_futex_wait(&word, 7, 0);
	cn_futex_wake(&word, 1);
	ASSERT_EQ(12345, errno);
}

static _Atomic uint32_t baton;

static void *pass_back(void *unused)
{
	(void)unused;
	for (uint32_t i = 0; i < rounds; i++) {
		while (atomic_load(&baton) != 2 * i + 1)
			cn_futex_wait(&baton, 2 * i, -1);
		atomic_store(&baton, 2 * i + 2);
		cn_futex_wake(&baton, 1);
	}
	return NULL;
}

TEST(futex_wakes)
{
	pthread_t thread;

	rounds = 2000 / HARNESS_SLOWDOWN;
	ASSERT_EQ(0, pthread_create(&thread, NULL, pass_back, NULL));
	for (uint32_t i = 0; i < rounds; i++) {
		atomic_store(&baton, 2 * i + 1);
		cn_futex_wake(&baton, 1);
		while (atomic_load(&baton) != 2 * i + 2)
			cn_futex_wait(&baton, 2 * i + 1, -1);
	}
	pthread_join(thread, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * The order of locks: what breaks it ends the process, and names both locks. This program checks ranks in every build.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "harness.h"

static CN_SLOW_LOCK(INIT) first_slow;
static CN_SLOW_LOCK(VMM) slow;
static CN_DRIVER_LOCK(CUDA_STREAM) streams[2];
static CN_LOCK(QUEUE_GROUP) group;
static CN_QUICK_LOCK(QUEUE) queues[2];
static CN_OWNED_LOCK(CACHE) cache;
static CN_LOCK(TABLE) last;

_Static_assert(sizeof first_slow == 4 && sizeof group == 4 && sizeof cache == sizeof cache.bare,
	       "a rank takes no memory");

/* What a child that does it prints; SIGABRT must end it, unless `fine`. */
static const char *output_of(void (*body)(void), bool fine)
{
	static char text[1024];
	size_t length = 0;
	ssize_t got;
	int ends[2], status;

	ASSERT_SYS(pipe(ends));
	pid_t child = fork();
	if (!child) {
		dup2(ends[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		body();
		_exit(0);
	}
	ASSERT_SYS(child);
	close(ends[1]);
	while (length < sizeof text - 1 && (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = 0;
	close(ends[0]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	if (fine)
		ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	else
		ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	return text;
}

static void in_order(void)
{
	cn_slow_lock(&first_slow);
	cn_slow_lock(&slow);
	cn_might_wait();
	cn_driver_lock(&streams[0]);
	cn_driver_lock(&streams[1]);
	cn_owned_lock(&cache);
	cn_lock(&group);
	cn_quick_lock(&queues[0]);
	cn_lock(&last);
	cn_quick_unlock(&queues[0]);
	cn_unlock(&group);
	cn_unlock(&last);
	cn_owned_unlock(&cache);
	cn_driver_unlock(&streams[0]);
	cn_driver_unlock(&streams[1]);
	cn_slow_unlock(&first_slow);
	cn_slow_unlock(&slow);
}

TEST(locks_in_their_order)
{
	ASSERT_STREQ("", output_of(in_order, true));
}

static void wrong_order(void)
{
	cn_lock(&last);
	cn_lock(&group);
}

/* Goal: a wrong order is found without a second thread, and both places are named. */
TEST(a_wrong_order_ends_the_process)
{
	const char *text = output_of(wrong_order, false);

	ASSERT_CONTAINS("taken too late", text);
	ASSERT_CONTAINS("&group (QUEUE_GROUP, rank ", text);
	ASSERT_CONTAINS("&last (TABLE, rank ", text);
	ASSERT_CONTAINS(") taken at ", text);
	ASSERT_CONTAINS("rank_test.c:", text);
}

static void slow_under_fast(void)
{
	cn_owned_lock(&cache);
	cn_slow_lock(&slow);
}

static void wait_under_fast(void)
{
	cn_lock(&last);
	cn_might_wait();
}

/* Goal: no thread waits while it holds a lock that others expect to get in a moment. */
TEST(no_wait_with_a_lock)
{
	ASSERT_CONTAINS("taken too late", output_of(slow_under_fast, false));
	ASSERT_CONTAINS("waits with a lock in hand", output_of(wait_under_fast, false));
}

static void two_at_all(void)
{
	cn_quick_lock(&queues[0]);
	cn_quick_lock(&queues[1]);
}

static void two_against_address(void)
{
	cn_driver_lock(&streams[1]);
	cn_driver_lock(&streams[0]);
}

static void one_twice(void)
{
	cn_slow_lock(&slow);
	cn_slow_lock(&slow);
}

/* Goal: two of a rank only as their rule says. */
TEST(two_of_a_rank)
{
	ASSERT_CONTAINS("taken too late", output_of(two_at_all, false));
	ASSERT_CONTAINS("taken too late", output_of(two_against_address, false));
	ASSERT_CONTAINS("taken too late", output_of(one_twice, false));
}

static void try_any(void)
{
	cn_lock(&last);
	if (!cn_slow_try_lock(&slow))
		_exit(1);
	cn_slow_unlock(&slow);
	cn_unlock(&last);
}

static void unlock_nothing(void)
{
	cn_unlock(&last);
}

/* Goal: a thread that does not wait may take any lock; one that has none unlocks none. */
TEST(tried_and_not_taken)
{
	ASSERT_STREQ("", output_of(try_any, true));
	ASSERT_CONTAINS("has not got it", output_of(unlock_nothing, false));
}

#define KIND(name, kind, two, guards) #kind,
static const char *const kinds[] = {CN_RANKS(KIND)};

/* Goal: slow locks come first, then the driver's, then the others: so no slow one is taken under another. */
TEST(slow_locks_come_first)
{
	static const char *const order[] = {"slow_lock", "driver_lock", "lock"};
	unsigned at = 0;

	for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		bool is_moment = !strcmp(kinds[i], "quick_lock") || !strcmp(kinds[i], "owned_lock");
		const char *kind = is_moment ? "lock" : kinds[i];
		while (at < 3 && strcmp(kind, order[at]) != 0)
			at++;
		ASSERT_LT(at, 3);
	}
}

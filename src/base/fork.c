/* SPDX-License-Identifier: MIT */
/*
 * Around fork(): the gate, the hooks, and the wait for the child.
 *
 * The child shows that its hooks have run by closing its end of a pipe. That matters for connections: one may hold
 * unread messages, with descriptors that take for ever to close, and the process that closes it last waits for them.
 * That must not be the child, where no thread can take the wait.
 */
#include "base/fork.h"
#include "base/clock.h"
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

/* How long fork() waits for a child that does not run, under a debugger say. */
enum { CHILD_MS_MAX = 1000 };

static struct {
	CN_SLOW_LOCK(FORK_START) starting;
	bool watched;          /* fork() calls us */
	pthread_rwlock_t gate; /* a fork passes when no thread holds it */

	CN_LOCK(FORK_HOOKS) lock;
	struct cn_fork_hook *hooks; /* in their order */

	bool waits;   /* set during a fork; so is what follows */
	int child[2]; /* a pipe, whose writing end the child closes last; -1: none */
} forks = {.gate = PTHREAD_RWLOCK_INITIALIZER, .child = {-1, -1}};

void cn_fork_hold(void)
{
	cn_rank_enter(&forks.gate, FORK_GATE);
	pthread_rwlock_rdlock(&forks.gate);
}

void cn_fork_allow(void)
{
	pthread_rwlock_unlock(&forks.gate);
	cn_rank_leave(&forks.gate, FORK_GATE);
}

void cn_fork_wait_for_child(void)
{
	forks.waits = true;
}

/* ---- Around a fork ---- */

static void before_fork(void)
{
	cn_rank_enter(&forks.gate, FORK_GATE);
	pthread_rwlock_wrlock(&forks.gate);
	forks.waits = false;
	for (const struct cn_fork_hook *hook = forks.hooks; hook; hook = hook->next)
		if (hook->before)
			hook->before();
	if (!forks.waits || pipe2(forks.child, O_CLOEXEC))
		forks.child[0] = forks.child[1] = -1;
}

/* In the reverse order. */
static void call_after(const struct cn_fork_hook *hook, bool in_child)
{
	if (!hook)
		return;
	call_after(hook->next, in_child);
	void (*after)(void) = in_child ? hook->child : hook->parent;
	if (after)
		after();
}

static void close_end(int end)
{
	if (forks.child[end] >= 0)
		close(forks.child[end]);
	forks.child[end] = -1;
}

/* If fork() has failed there is no other end, and no wait. */
static void wait_for_child(void)
{
	struct pollfd child = {.fd = forks.child[0]};
	uint64_t deadline_ns = cn_clock_ns() + CHILD_MS_MAX * 1000000ull, now_ns;

	close_end(1);
	if (child.fd < 0)
		return;
	while ((now_ns = cn_clock_ns()) < deadline_ns &&
	       poll(&child, 1, (int)((deadline_ns - now_ns) / 1000000) + 1) < 0 && errno == EINTR)
		continue;
	close_end(0);
}

static void after_fork_in_parent(void)
{
	int fork_errno = errno;

	wait_for_child();
	call_after(forks.hooks, false);
	cn_fork_allow();
	errno = fork_errno;
}

static void after_fork_in_child(void)
{
	close_end(0);
	call_after(forks.hooks, true);
	close_end(1);
	/* Initialised again: it remembers which thread took it, and this is another. */
	pthread_rwlock_init(&forks.gate, NULL);
	cn_rank_leave(&forks.gate, FORK_GATE);
}

/* ---- Hooks ---- */

/* Without the gate: some C libraries hold a lock of their own while a fork waits there. */
static bool watch_forks(void)
{
	cn_slow_lock(&forks.starting);
	if (!forks.watched)
		forks.watched = !pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
	bool watched = forks.watched;
	cn_slow_unlock(&forks.starting);
	return watched;
}

bool cn_fork_watch(struct cn_fork_hook *hook)
{
	struct cn_fork_hook **link = &forks.hooks;

	if (atomic_load_explicit(&hook->watched, memory_order_acquire))
		return true;
	if (!watch_forks())
		return false;
	cn_fork_hold();
	cn_lock(&forks.lock);
	if (!hook->watched) {
		while (*link && (*link)->order <= hook->order)
			link = &(*link)->next;
		hook->next = *link;
		*link = hook;
		atomic_store_explicit(&hook->watched, true, memory_order_release);
	}
	cn_unlock(&forks.lock);
	cn_fork_allow();
	return true;
}

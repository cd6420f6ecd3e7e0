/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of chunks, kept for the next process that asks.
 *
 * To make a descriptor takes the driver most of a millisecond, and so does closing the last one of a chunk; to
 * duplicate an existing one is a system call. So the first few that others asked for stay open as long as their chunk
 * exists. For a large pool, not all of them can: a process may not have so many.
 *
 * A forked child would hold the memory with them. A fork waits while one is being made or closed, and the child closes
 * those it has inherited.
 */
#include "base/fork.h"
#include "device/cuda/cuda_internal.h"

#include <limits.h>
#include <unistd.h>

enum { KEPT_MAX = 64 }; /* of the 1,024 that most processes may have */

static struct {
	bool watches_forks;
	CN_SLOW_LOCK(CUDA_KEPT) lock;
	int fds[KEPT_MAX];              /* 0: none */
	_Atomic uint32_t closing_count; /* being closed, and in no list; goes up under the lock */
} kept;

static void before_fork(void)
{
	uint32_t closing_count;

	cn_slow_lock(&kept.lock);
	while ((closing_count = atomic_load(&kept.closing_count))) {
		cn_slow_unlock(&kept.lock);
		cn_futex_wait(&kept.closing_count, closing_count, -1);
		cn_slow_lock(&kept.lock);
	}
}

static void after_fork_in_parent(void)
{
	cn_slow_unlock(&kept.lock);
}

static void after_fork_in_child(void)
{
	for (unsigned i = 0; i < KEPT_MAX; i++)
		if (kept.fds[i]) {
			close(kept.fds[i]);
			kept.fds[i] = 0; /* a child of the child must not close what has the number by then */
		}
	cn_slow_unlock(&kept.lock);
}

static struct cn_fork_hook hook = {
	.order = CN_FORK_CUDA_KEPT,
	.before = before_fork,
	.parent = after_fork_in_parent,
	.child = after_fork_in_child,
};

void cn_cuda_keep_open(void)
{
	if (!kept.watches_forks)
		kept.watches_forks = cn_fork_watch(&hook);
}

bool cn_cuda_keep(int fd)
{
	unsigned i = 0;

	if (!kept.watches_forks)
		return false;
	cn_slow_lock(&kept.lock);
	while (i < KEPT_MAX && kept.fds[i])
		i++;
	if (i < KEPT_MAX)
		kept.fds[i] = fd;
	cn_slow_unlock(&kept.lock);
	return i < KEPT_MAX;
}

void cn_cuda_let_go(int fd)
{
	cn_slow_lock(&kept.lock);
	for (unsigned i = 0; i < KEPT_MAX; i++)
		if (kept.fds[i] == fd)
			kept.fds[i] = 0;
	atomic_fetch_add(&kept.closing_count, 1);
	cn_slow_unlock(&kept.lock);
	close(fd); /* not under the lock: it takes a millisecond, and an importer may be waiting for another one */
	atomic_fetch_sub(&kept.closing_count, 1);
	cn_futex_wake(&kept.closing_count, INT_MAX);
}

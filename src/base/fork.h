/* SPDX-License-Identifier: MIT */
/*
 * Around fork(): one list of what to do, in one order.
 *
 * A forked child has only the calling thread. What another thread was in the middle of stays so, locks that others held
 * stay locked, and descriptors that a child inherits keep connections and memory alive that its parent closes. So a
 * fork waits at a gate until no thread is making or closing such a descriptor. Then the hooks are called: `before` in
 * the order below, each of which takes its lock, in the order of ranks (rank.h); afterwards `parent` and `child` in the
 * reverse order.
 *
 * If a hook asks for it, fork() returns in the parent only when the hooks of the child have run, or after a second.
 */
#ifndef CN_BASE_FORK_H
#define CN_BASE_FORK_H

#include <stdbool.h>

enum cn_fork_order {
	CN_FORK_DRIVER,         /* the child's calls fail and say why */
	CN_FORK_CUDA_KEPT,      /* the child closes descriptors of chunks */
	CN_FORK_SERVICE_START,  /* no service thread starts meanwhile */
	CN_FORK_DEVICE_ACCOUNT, /* the child closes the account of the devices' memory */
	CN_FORK_EXPORTS,        /* the child closes the descriptors of exported pools, */
	CN_FORK_IMPORTS,        /* and of imported ones */
	CN_FORK_SERVICE,        /* the child closes all that is watched */
};

/* The functions may be NULL. */
struct cn_fork_hook {
	enum cn_fork_order order;
	void (*before)(void), (*parent)(void), (*child)(void);
	struct cn_fork_hook *next; /* this and the next are fork.c's own */
	_Atomic bool watched;
};

/*
 * Call the hook around every fork from now on, for good; it may be added again. A fork calls all of its functions or
 * none. False: no memory, which can happen only for the first hook.
 */
bool cn_fork_watch(struct cn_fork_hook *hook);

/* From a `before`: this fork returns in the parent when the child's hooks have run. */
void cn_fork_wait_for_child(void);

/* Make forks wait, for instance while a descriptor is open and in no list yet. Any number of threads may hold. */
void cn_fork_hold(void);
void cn_fork_allow(void);

#endif

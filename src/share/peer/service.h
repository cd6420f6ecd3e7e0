/* SPDX-License-Identifier: MIT */
/*
 * The service thread: it does what must go on between processes even when neither program calls us.
 *
 * There is one for each process, started when something is first shared. It sleeps until a watched descriptor is ready,
 * a time has come or a job was posted, and calls the function for it. It never waits for a peer, and takes no lock that
 * is held across a wait, a send or a mapping. Watches are changed and closed on this thread alone, so a function that
 * it calls cannot find its watch gone; other threads post a job instead.
 *
 * In a forked child the thread does not exist. What it watched or kept is closed there at once, so that the parent's
 * peers see the parent's end and not the child's; fork() returns in the parent when that is done. A fork waits until
 * the function that the thread runs has returned (base/fork.h).
 */
#ifndef CN_SHARE_PEER_SERVICE_H
#define CN_SHARE_PEER_SERVICE_H

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A watched descriptor, or only a time (fd -1). Embedded in its owner's record. From cn_service_watch() on the watch
 * owns `fd`; cn_service_unwatch() closes it.
 */
struct cn_watch {
	int fd;
	void (*ready)(struct cn_watch *watch); /* readable, or closed by the peer */
	void (*due)(struct cn_watch *watch);   /* due_ns has come; it is 0 by then: no time is set */
	uint64_t due_ns;                       /* CLOCK_MONOTONIC; set on the service thread, or before watching */
	struct cn_watch *next, *previous;      /* private to the service from here on */
	bool watched;
};

/* A function to run once on the service thread. Embedded; it may be posted again once it runs. */
struct cn_job {
	void (*run)(struct cn_job *job);
	struct cn_job *next;
};

/* Start the thread if it does not run yet. */
CUresult cn_service_start(void);
/* From any thread, once the service has been started. On failure the caller keeps the descriptor. */
CUresult cn_service_watch(struct cn_watch *watch);
/* On the service thread alone: forget the watch and close its descriptor. */
void cn_service_unwatch(struct cn_watch *watch);
/*
 * From any thread, for a watch that stays meanwhile: the caller reads what comes, and the service thread is not woken
 * until cn_service_resume(). The service thread may be called for it all the same: the owner must keep it from reading.
 */
void cn_service_pause(struct cn_watch *watch);
void cn_service_resume(struct cn_watch *watch);
/*
 * On the service thread: stop watching, but keep the descriptor (see cn_service_keep()). No function of it is called
 * any more.
 */
void cn_service_mute(struct cn_watch *watch);
/*
 * From any thread, for the watch of a listening socket that stays meanwhile: close that socket now. The watch keeps the
 * number, which then leads to the same file as `other_fd`.
 */
void cn_service_divert(struct cn_watch *watch, int other_fd);
/*
 * On the service thread: something is likely to come within this time. Until it has passed, the thread looks for it
 * again and again and lets others run in between, instead of sleeping: to be woken takes longer than most answers.
 */
void cn_service_expect(uint64_t ns);
/* From any thread, once the service has been started; neither waits nor fails. */
void cn_service_post(struct cn_job *job);

/*
 * Keep a descriptor that a forked child must not have and that is not watched (yet): a lock, or a connection on which
 * the caller still waits for an answer. cn_service_watch() may follow. Until it does, cn_service_unwatch() may be
 * called from any thread.
 *
 * A fork must wait between making such a descriptor and keeping or watching it: any thread but the service thread calls
 * cn_fork_hold() before and cn_fork_allow() afterwards.
 */
void cn_service_keep(struct cn_watch *watch);
/* From any thread, for a watch that is kept and not watched: forget it. The caller closes the descriptor. */
int cn_service_release(struct cn_watch *watch);

#endif

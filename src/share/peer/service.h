/* SPDX-License-Identifier: MIT */
/*
 * The service thread: what must move on between processes even when neither program calls us.
 *
 * One thread a process, started when something is first shared. It sleeps until a descriptor that it watches is ready,
 * a time has come or a job was posted, and calls the function that goes with it. It never waits for a peer, and takes
 * no lock that is held across a wait, a send or a mapping. Watches are changed and closed on this thread alone, so a
 * function that it calls cannot find its watch gone; other threads post a job instead.
 *
 * In a forked child the thread does not exist: what it watched or kept is closed there at once, so that the peers of
 * the parent see the parent's end and nobody else's; fork() returns in the parent when that is done. A fork waits until
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
 * A descriptor that is watched, or only a time (fd -1). Embedded in its owner's record; `fd` is the watch's own from
 * cn_service_watch() on, and closed by cn_service_unwatch().
 */
struct cn_watch {
	int fd;
	void (*ready)(struct cn_watch *watch); /* readable, or closed by the peer */
	void (*due)(struct cn_watch *watch);   /* due_ns has come; it is 0 then: none is set */
	uint64_t due_ns;                       /* CLOCK_MONOTONIC; set on the service thread, or before watching */
	struct cn_watch *next, *previous;      /* the service's own from here on */
	bool watched;
};

/* A function to be run on the service thread, once. Embedded; it may be posted again once it runs. */
struct cn_job {
	void (*run)(struct cn_job *job);
	struct cn_job *next;
};

/* Start the thread if it does not run yet. */
CUresult cn_service_start(void);
/* From any thread; the service has been started. On failure the descriptor stays the caller's. */
CUresult cn_service_watch(struct cn_watch *watch);
/* On the service thread alone: forget the watch and close its descriptor. */
void cn_service_unwatch(struct cn_watch *watch);
/*
 * From any thread, of a watch that stays meanwhile: what comes is read by the caller and does not wake the service
 * thread, until it is resumed. That thread may be called for it all the same: it is the owner's to keep it from
 * reading.
 */
void cn_service_pause(struct cn_watch *watch);
void cn_service_resume(struct cn_watch *watch);
/*
 * On the service thread: watch it no longer, and keep it (see cn_service_keep()). Nothing of it is called any more.
 */
void cn_service_mute(struct cn_watch *watch);
/*
 * From any thread, of a watch of a listening socket that stays meanwhile: close that socket, now. The number is the
 * watch's still, and leads to the same as another one.
 */
void cn_service_divert(struct cn_watch *watch, int other_fd);
/* From any thread; neither waits nor fails. The service has been started. */
void cn_service_post(struct cn_job *job);

/*
 * What a forked child must not have, and nobody watches (yet): a lock, a connection on which the caller still waits for
 * an answer. cn_service_watch() may follow; so may cn_service_unwatch(), from any thread as long as it has not.
 *
 * Between making such a descriptor and keeping or watching it a fork has to wait: whoever makes one on another thread
 * than the service's calls cn_fork_hold() before and cn_fork_allow() afterwards.
 */
void cn_service_keep(struct cn_watch *watch);
/* From any thread, of one that is kept and not watched: forget it. The descriptor is the caller's to close. */
int cn_service_release(struct cn_watch *watch);

#endif

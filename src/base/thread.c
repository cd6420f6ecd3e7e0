/* SPDX-License-Identifier: MIT */
/*
 * The start of a thread: signals are blocked before it exists, so that none can reach it in between.
 */
#include "base/thread.h"

#include "base/environment.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct start {
	void *(*body)(void *);
	void *argument;
};

static _Thread_local bool is_own;

bool cn_thread_is_own(void)
{
	return is_own;
}

static void *begin(void *data)
{
	struct start start = *(struct start *)data;

	free(data);
	is_own = true;
	return start.body(start.argument);
}

bool cn_thread_start(void *(*body)(void *), void *argument)
{
	struct start *start = malloc(sizeof *start);
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;

	if (!start || pthread_attr_init(&attributes)) {
		free(start);
		return false;
	}
	*start = (struct start){body, argument};
	cn_environment_read(); /* what it will know of the environment */
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	sigdelset(&all, SIGSEGV); /* faults of the thread itself: the host device handles these; blocked they kill */
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&thread, &attributes, begin, start);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (error)
		free(start);
	return error == 0;
}

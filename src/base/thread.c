/* SPDX-License-Identifier: MIT */
/*
 * The start of a thread: signals are blocked before it exists, so that none can reach it in between.
 */
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

bool cn_thread_start(void *(*body)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;

	if (pthread_attr_init(&attributes))
		return false;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	sigdelset(&all, SIGSEGV); /* faults of the thread itself: the host device handles these; blocked they kill */
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&thread, &attributes, body, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return error == 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Threads of the library's own: they are never joined, and no signal of the program is delivered to them.
 */
#ifndef CN_BASE_THREAD_H
#define CN_BASE_THREAD_H

#include <stdbool.h>

/* A detached thread with all signals blocked. False: the system refuses one. */
bool cn_thread_start(void *(*body)(void *), void *argument);
/* Is the calling thread one of these? */
bool cn_thread_is_own(void);

#endif

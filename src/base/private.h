/* SPDX-License-Identifier: MIT */
/*
 * CN_PRIVATE: a function of libcenote-driver.so that only libcenote.so and libnvidia-ml.so.1 call (src/private.list).
 *
 * Inside the first it is called directly, as hidden functions are ("protected"); the others, which are compiled with
 * CN_IN_RUNTIME, must not take it for one of their own.
 */
#ifndef CN_BASE_PRIVATE_H
#define CN_BASE_PRIVATE_H

#ifdef CN_IN_RUNTIME
#define CN_PRIVATE __attribute__((visibility("default")))
#else
#define CN_PRIVATE __attribute__((visibility("protected")))
#endif

#endif

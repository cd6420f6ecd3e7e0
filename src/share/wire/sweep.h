/* SPDX-License-Identifier: MIT */
/*
 * Sweeping: removing dead names in all directories that may have names of this user.
 *
 * A process that makes a name sweeps that directory (socket.c). This is for a program that wants it done now, or wants
 * to see which processes are there.
 */
#ifndef CN_SHARE_WIRE_SWEEP_H
#define CN_SHARE_WIRE_SWEEP_H

#include "base/error.h"

#include <stdbool.h>

/* `name` NULL: the directory itself, before its names. */
typedef void cn_sweep_found(const char *directory, const char *name, bool live, bool removed, void *data);

/*
 * A missing directory has no names. CUDA_ERROR_OPERATING_SYSTEM: a directory cannot be used; the others have been
 * swept.
 */
CUresult cn_sweep(bool only_look, cn_sweep_found *found, void *data);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Sweeping: dead names in all directories where names of this user may stand.
 *
 * Whoever makes a name sweeps where he makes it (socket.c). This is for somebody who wants to see it done, or to see
 * who is there.
 */
#ifndef CN_SHARE_WIRE_SWEEP_H
#define CN_SHARE_WIRE_SWEEP_H

#include "base/error.h"

#include <stdbool.h>

/* `name` NULL: the directory itself, before its names. */
typedef void cn_sweep_found(const char *directory, const char *name, bool live, bool removed, void *data);

/*
 * A directory that is not there has no names. CUDA_ERROR_OPERATING_SYSTEM: one is not as it should be; the others have
 * been swept.
 */
CUresult cn_sweep(bool only_look, cn_sweep_found *found, void *data);

#endif

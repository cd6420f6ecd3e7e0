/* SPDX-License-Identifier: MIT */
/*
 * IMEX channels: files that say who may share by fabric handles.
 *
 * A channel is `channelN` in the directory that CENOTE_IMEX_DIR names (on a GPU that of the driver's nodes, if it names
 * none), N a number as printf() writes it. Whoever can open it for reading holds it; what is in it does not matter, and
 * to know its name or to stand in its directory is nothing. Channels are looked for when one is first needed. One that
 * was found stays ours, whatever becomes of the file; one that was not may be there the next time.
 *
 * Two ways to show another process that one holds a channel:
 *   - to pass it, opened. That is for one who holds it already: anybody else would have the channel from then on.
 *   - to mark it: a lock on one byte, which need not be there, of the file. Only who has opened the file for reading
 *     can make one, and one who has can ask for it. It goes with its process.
 * So a process that listens marks its channel; one that calls looks for the mark first, and passes the channel then.
 */
#ifndef CN_SHARE_PORT_IMEX_H
#define CN_SHARE_PORT_IMEX_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A channel that this process holds. Never freed, never closed. */
struct cn_imex {
	int number, fd;
	dev_t device;
	ino_t inode;
	struct cn_imex *next;
};

/* The lowest one that this process may read. CUDA_ERROR_NOT_PERMITTED: none; the sentence says how to get one. */
CUresult cn_imex_own(const struct cn_imex **ret_channel);
/* The one that an exporter has. CUDA_ERROR_NOT_PERMITTED: this process may not read it, or there is none. */
CUresult cn_imex_find(int number, const struct cn_imex **ret_channel);

/* Mark a channel at an offset, a number below 2^62; the mark lasts until the descriptor is closed. */
CUresult cn_imex_mark(const struct cn_imex *channel, uint64_t offset, int *ret_fd);
/* Has anybody else marked the channel there? */
bool cn_imex_is_marked(const struct cn_imex *channel, uint64_t offset);
/* Is this descriptor, which somebody passed, the channel, opened for reading? Neither O_PATH nor O_WRONLY will do. */
bool cn_imex_is_proof(const struct cn_imex *channel, int fd);

#endif

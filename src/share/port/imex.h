/* SPDX-License-Identifier: MIT */
/*
 * IMEX channels: files that decide which processes may share by fabric handles.
 *
 * A channel is `channelN` in the directory that CENOTE_IMEX_DIR names (on a GPU, by default, that of the driver's
 * nodes); N is a number as printf() writes it. A process that can open the file for reading holds the channel. The
 * file's content does not matter; its name alone, or access to its directory, proves nothing. Channels are looked for
 * when one is first needed. A channel that was found stays ours, whatever becomes of the file; a missing one may be
 * there the next time.
 *
 * A process can prove to another that it holds a channel in two ways:
 *   - It passes the channel, opened. That is only for a receiver that holds it already: any other would then have it.
 *   - It marks the channel: a lock on one byte of the file, which need not exist. Only a process that has opened the
 *     file for reading can make a mark, or ask for one. The mark ends with its process.
 * So a process that listens marks its channel; a caller looks for the mark first, and then passes the channel.
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

/* The lowest channel that this process may read. CUDA_ERROR_NOT_PERMITTED: none; the sentence says how to get one. */
CUresult cn_imex_own(const struct cn_imex **ret_channel);
/* The channel of an exporter. CUDA_ERROR_NOT_PERMITTED: this process may not read it, or it does not exist. */
CUresult cn_imex_find(int number, const struct cn_imex **ret_channel);

/* Mark a channel at an offset below 2^62; the mark lasts until the descriptor is closed. */
CUresult cn_imex_mark(const struct cn_imex *channel, uint64_t offset, int *ret_fd);
/* Has any other process marked the channel there? */
bool cn_imex_is_marked(const struct cn_imex *channel, uint64_t offset);
/* Is this descriptor from a peer the channel, opened for reading? Neither O_PATH nor O_WRONLY is enough. */
bool cn_imex_is_proof(const struct cn_imex *channel, int fd);

#endif

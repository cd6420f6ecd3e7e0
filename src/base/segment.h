/* SPDX-License-Identifier: MIT */
/*
 * Segments: shared memory that one process writes and others read.
 *
 * A memory file of fixed size, sparse, mapped by its writer and then sealed so that it can neither shrink nor grow, and
 * nobody else can ever map it for writing. A reader takes nothing on trust: it looks at the seals and the size before
 * it maps, so no peer can make it fault. A forked child does not inherit the mapping.
 */
#ifndef CN_BASE_SEGMENT_H
#define CN_BASE_SEGMENT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct cn_segment {
	void *address;
	size_t bytes;
	int fd; /* closed on exec, never 0, 1 or 2 */
};

/* A segment of zero bytes, this process its writer. `name` shows in /proc. */
CUresult cn_segment_make(const char *name, size_t bytes, struct cn_segment *ret_segment);

/*
 * Map a peer's segment for reading. `fd` becomes the segment's on success. CUDA_ERROR_INVALID_VALUE with a sentence
 * that begins with `what`: it is not a segment of that size.
 */
CUresult cn_segment_map(int fd, size_t bytes, const char *what, struct cn_segment *ret_segment);

/*
 * Is it a memory file of ordinary pages? One of huge pages can be sealed as well, but where the system has none left,
 * whoever touches it is killed.
 */
bool cn_file_is_memory(int fd);
/* The same, and what it is: with as few questions to the system as it takes. */
bool cn_file_look(int fd, size_t *ret_bytes, int *ret_seals);

/*
 * Give a new memory file its size. CUDA_ERROR_OUT_OF_MEMORY: the system refuses, or the process may not have files so
 * large (RLIMIT_FSIZE); asking all the same would end it with SIGXFSZ.
 */
CUresult cn_file_grow(int fd, size_t bytes);

/* Has its writer let go of it, in every process that might still have it mapped? From then on it never changes. */
bool cn_segment_is_final(const struct cn_segment *segment);

/* Unmap and close; nothing if it was never made. */
void cn_segment_close(struct cn_segment *segment);

#endif

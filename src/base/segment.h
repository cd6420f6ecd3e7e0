/* SPDX-License-Identifier: MIT */
/*
 * Segments: shared memory that one process writes and others read.
 *
 * A memory file of fixed size, sparse, sealed so that it can neither shrink nor grow. A process that maps a file from
 * another process checks the seals and the size first, so no peer can make it fault. A forked child does not inherit
 * the mapping.
 *
 * Most are written by the process that made them: they are mapped and then sealed, so that no other process can ever
 * map them for writing. A segment that is lent is the other way round: its maker reads it, one borrower writes it. The
 * maker can tell when the borrower has released it, and never has to take a descriptor from the borrower for that.
 */
#ifndef CN_BASE_SEGMENT_H
#define CN_BASE_SEGMENT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct cn_segment {
	void *address;
	size_t bytes;
	int fd; /* closed on exec, never 0, 1 or 2; -1: of a segment that was borrowed */
};

/* A segment of zero bytes, this process its writer. `name` shows in /proc. */
CUresult cn_segment_make(const char *name, size_t bytes, struct cn_segment *ret_segment);

/*
 * Map a peer's segment for reading. `fd` becomes the segment's on success. CUDA_ERROR_INVALID_VALUE with a sentence
 * that begins with `what`: it is not a segment of that size.
 */
CUresult cn_segment_map(int fd, size_t bytes, const char *what, struct cn_segment *ret_segment);

/*
 * Is it a memory file of ordinary pages? One of huge pages can be sealed as well, but where the system has none left, a
 * process that touches it is killed. The outputs are set if it is.
 */
bool cn_file_look(int fd, size_t *ret_bytes, int *ret_seals);
/* The same, with the number by which the system knows the file. */
bool cn_file_identify(int fd, size_t *ret_bytes, int *ret_seals, uint64_t *ret_file);

/*
 * The name of a memory file that is physical memory of the host device: type and number of its location, handle types
 * and flags. It says all that an importer must know (host_physical.c). What cenoted keeps has a name of its own, by
 * which `cenote ps` knows it in /proc.
 */
#define CN_FILE_PHYSICAL_PREFIX "cenote-memory-1 "
#define CN_FILE_KEPT_PREFIX     "cenote-kept-1 "
#define CN_FILE_PHYSICAL_FACTS  "location %d %d handles %x flags %x"

/*
 * Give a new memory file its size. CUDA_ERROR_OUT_OF_MEMORY: the system refuses, or the process may not have files so
 * large (RLIMIT_FSIZE); to try all the same would end it with SIGXFSZ.
 */
CUresult cn_file_grow(int fd, size_t bytes);

/*
 * Make a segment of zero bytes that a peer writes and this process reads. *ret_fd is what the borrower needs to map it:
 * send it and close it. While any process has that descriptor, a copy of it, or a mapping made from it, the segment is
 * not returned.
 */
CUresult cn_segment_lend(const char *name, size_t bytes, struct cn_segment *ret_segment, int *ret_fd);

/*
 * Map a peer's segment for writing. `fd` is closed on success: the mapping alone keeps the segment from being returned.
 * CUDA_ERROR_INVALID_VALUE with a sentence that begins with `what`: it is not a segment of that size.
 */
CUresult cn_segment_borrow(int fd, size_t bytes, const char *what, struct cn_segment *ret_segment);

/*
 * Has the borrower released a segment that was lent: unmapped it and closed its descriptors, called exec, or ended?
 * From then on no process writes it. Asks the system and never waits, whatever the borrower has done to the file.
 */
bool cn_segment_is_returned(const struct cn_segment *segment);

/* Unmap and close; nothing if it was never made. */
void cn_segment_close(struct cn_segment *segment);

#endif

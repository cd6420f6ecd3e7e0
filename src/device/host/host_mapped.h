/* SPDX-License-Identifier: MIT */
/*
 * Where this process has its memory files mapped: allocations, pools, and physical memory at an address.
 *
 * An operation on another machine's memory whose local bytes lie in such a file can be done by the daemon in the file
 * itself (host_remote.h). Each file is mapped whole. A mapping has a number of its own, which never repeats, so what
 * was lent under it is told from what is mapped there later.
 */
#ifndef CN_DEVICE_HOST_HOST_MAPPED_H
#define CN_DEVICE_HOST_HOST_MAPPED_H

#include "base/map.h"

/* A mapping, in the record of its owner. All zero: none. */
struct cn_host_mapped {
	struct cn_map_node node;
	uint64_t number;
	int fd;                          /* the owner's: open until cn_host_mapped_leave() */
	bool is_usable;                  /* operations may read and write it */
	void (*forget)(uint64_t number); /* it was lent; else NULL */
};

/* From now on it can be lent. `fd` -1: it has no file, and nothing is done. */
void cn_host_mapped_enter(struct cn_host_mapped *mapped, const void *address, size_t bytes, int fd, bool is_usable);
/* Before it is unmapped and `fd` closed. Nothing, if it was not entered. */
void cn_host_mapped_leave(struct cn_host_mapped *mapped);

/* The same for a mapping that has no record, found by where it begins. Without memory for one it is not lent. */
void cn_host_mapped_add(const void *address, size_t bytes, int fd);
void cn_host_mapped_allow(const void *address, bool is_usable);
void cn_host_mapped_remove(const void *address);

/* The mapping in which bytes lie, all of them, and where. False: they lie in none that can be used. */
bool cn_host_mapped_find(const void *address, size_t bytes, uint64_t *ret_number, size_t *ret_offset);

#endif

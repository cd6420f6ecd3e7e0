/* SPDX-License-Identifier: MIT */
/*
 * Letting go of what the loop must not wait for: all programs and nodes would.
 *
 * A user may have sent descriptors that do not close, and send more over connections that nobody reads. Threads close
 * some of them (closing.h). Further connections are parked: they have ended, and stay open until a thread is free. A
 * user can have only so many descriptors in transit, and what is unread in parked connections counts.
 *
 * To unmap the last mapping of a file frees its memory, which takes a tenth of a second for each GiB. A thread does
 * that for large files, piece by piece: a process that unmaps can map nothing meanwhile.
 */
#include "imexd/imexd.h"

#include "base/thread.h"
#include "share/wire/closing.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LARGE_BYTES = 64 << 20, PIECE_BYTES = 64 << 20 };

/* ---- Mappings ---- */

struct mapping {
	struct mapping *next;
	char *address;
	uint64_t bytes;
};

static struct {
	_Atomic(struct mapping *) first;
	_Atomic bool is_running; /* the thread */
} unmapping;

static void unmap(struct mapping *mapping)
{
	while (mapping->bytes) {
		uint64_t piece_bytes = mapping->bytes < PIECE_BYTES ? mapping->bytes : PIECE_BYTES;
		mapping->bytes -= piece_bytes;
		munmap(mapping->address + mapping->bytes, piece_bytes); /* from the end, so that none is split */
	}
	free(mapping);
}

static void *unmap_all(void *unused)
{
	(void)unused;
	do {
		for (struct mapping *mapping = atomic_exchange(&unmapping.first, NULL), *next; mapping;
		     mapping = next) {
			next = mapping->next;
			unmap(mapping);
		}
		atomic_store(&unmapping.is_running, false);
		/* One may have come just before that. */
	} while (atomic_load(&unmapping.first) && !atomic_exchange(&unmapping.is_running, true));
	return NULL;
}

void cn_imexd_unmap(char *address, uint64_t bytes)
{
	struct mapping *mapping = bytes >= LARGE_BYTES ? calloc(1, sizeof *mapping) : NULL;

	if (!mapping) {
		munmap(address, bytes);
		return;
	}
	*mapping = (struct mapping){.next = atomic_load(&unmapping.first), .address = address, .bytes = bytes};
	while (!atomic_compare_exchange_weak(&unmapping.first, &mapping->next, mapping))
		;
	if (!atomic_exchange(&unmapping.is_running, true) && !cn_thread_start(unmap_all, NULL))
		unmap_all(NULL);
}

/* ---- Connections ---- */

struct parked {
	struct parked *next;
	int fd;
	uid_t user;
};

static struct parked *parked_first;

void cn_imexd_close(int fd, uid_t user)
{
	if (cn_wire_try_hang_up(fd))
		return;
	struct parked *parked = calloc(1, sizeof *parked);
	if (!parked) {
		cn_wire_hang_up(fd);
		return;
	}
	*parked = (struct parked){.next = parked_first, .fd = fd, .user = user};
	parked_first = parked;
}

void cn_imexd_close_parked(void)
{
	for (struct parked **at = &parked_first; *at;) {
		struct parked *parked = *at;
		if (cn_wire_is_stuck(parked->user) || !cn_wire_try_hang_up(parked->fd)) {
			at = &parked->next;
			continue;
		}
		*at = parked->next;
		free(parked);
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * What the two files of the importer's side know of each other: import.c has the channel and the life of an import,
 * import_pointer.c its blocks.
 *
 * What is known of a slot is kept in an array by slot; a table by offset and a set of the offsets at which imported
 * blocks begin lead from an address to its slot. All of it is memory that exists only where it is used. One lock an
 * import, held for a few loads and stores; records of imports are never freed, so a thread that has found one may lock
 * it and look whether it is still what it was.
 */
#ifndef CN_SHARE_IMPORT_INTERNAL_H
#define CN_SHARE_IMPORT_INTERNAL_H

#include "base/bits.h"
#include "base/map.h"
#include "base/segment.h"
#include "share/import.h"
#include "share/service.h"
#include "share/wire.h"

#include <pthread.h>
#include <sys/types.h>

enum { CN_IMPORT_UNIT_BYTES = CN_POOL_ALIGNMENT_BYTES };

/* What we know of a slot. */
struct cn_held {
	uint64_t generation;
	uint64_t offset, bytes;
	uint64_t id;
	uint32_t import_count;  /* not freed yet */
	uint32_t pending_count; /* freed, and the stream has not come to it */
};

enum cn_import_state { CN_IMPORT_ALIVE, CN_IMPORT_EVICTED, CN_IMPORT_ORPHANED };

struct cn_import {
	struct cn_watch channel; /* first */
	struct cn_lock lock;     /* of what follows, if nothing else is said */
	struct cn_map_node node; /* by address */
	void *owner;
	unsigned char name[CN_POOL_NAME_BYTES];
	dev_t socket_device; /* with the inode: where the pool's descriptor leads, which no other pool can claim */
	ino_t socket_inode;
	char *base; /* NULL: this record is nobody's */
	uint64_t bytes;
	struct cn_view *view;
	struct cn_segment control, ledger;
	void *memory; /* of the arrays that follow */
	size_t memory_bytes;
	struct cn_held *held;
	uint32_t *slot_at; /* by unit */
	struct cn_bits starts;
	uint64_t held_count, held_bytes;
	uint64_t live_count;             /* of the held ones: with pointers that were not freed */
	uint64_t mapped_from, mapped_to; /* the part that is mapped */
	enum cn_import_state state;
	bool closed, ending;
	unsigned busy_count; /* threads that need it to stay */
	_Atomic bool release_posted;
	struct cn_job release_job, end_job;
	pthread_mutex_t asking; /* one request, or change of the view, at a time */
	uint64_t request;       /* the last one's number */
	struct cn_parcel answer;
	_Atomic uint32_t answered; /* 1: the answer to `request` is there, or nobody asks */
	struct cn_import *next;    /* of all; of the spare ones; of the ended ones */
};

static inline struct cn_control *control_of(const struct cn_import *import)
{
	return import->control.address;
}

static inline struct cn_ledger *ledger_of(const struct cn_import *import)
{
	return import->ledger.address;
}

/* import.c: the import whose view holds an address; NULL: none. Not locked: it may be another's by now. */
struct cn_import *cn_import_at(const void *address);
/* Why nothing more can be imported. Import locked. */
CUresult cn_import_explain_locked(const struct cn_import *import);
/* Have memory behind the bytes at an offset. The import is busy, and not locked. */
CUresult cn_import_map(struct cn_import *import, uint64_t offset);
/* The exporter waits for something that was let go of: tell it. Import locked. */
void cn_import_tell_locked(struct cn_import *import);
/* Take the import apart if nothing of it is needed any more. Import locked. */
void cn_import_end_locked(struct cn_import *import);

#endif

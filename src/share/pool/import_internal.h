/* SPDX-License-Identifier: MIT */
/*
 * What the files of the importer's side share with each other: import.c has the channel and the life of an import,
 * import_join.c how it joins and asks the exporter, import_tables.c its tables, import_parts.c its memory,
 * import_pointer.c its blocks; import_elsewhere.c has pools of other machines.
 *
 * What is known of a slot is in an array by slot. A table by offset, and a set of the offsets at which imported blocks
 * begin, lead from an address to its slot. All of it is memory that exists only where it is used. Each import has one
 * lock, held for a few loads and stores. Records of imports are never freed, so a thread that has found one may lock it
 * and check whether it is still the same import.
 */
#ifndef CN_SHARE_POOL_IMPORT_INTERNAL_H
#define CN_SHARE_POOL_IMPORT_INTERNAL_H

#include "base/bits.h"
#include "base/map.h"
#include "base/records.h"
#include "base/segment.h"
#include "share/peer/peer.h"
#include "share/pool/import.h"
#include "share/wire/wire.h"

#include <sys/types.h>

enum { CN_IMPORT_UNIT_BYTES = CN_POOL_ALIGNMENT_BYTES };

/* What we know of a slot. */
struct cn_held {
	uint64_t generation;
	uint64_t offset, bytes;
	uint64_t id;
	uint32_t import_count;  /* not freed yet */
	uint32_t pending_count; /* freed, but the stream has not reached the free */
};

/* By CN_PART_BYTES: `at`; the rest is of a part of the exporter's memory that is mapped here, where that begins. */
struct cn_mapped {
	uint64_t serial;
	uint32_t end; /* index */
	uint32_t hold_count;
	uint64_t ticket; /* it is unmapped when this has passed (device/grace.h); 0: it stays */
	uint32_t at;     /* 1 + the index at which the mapped part around this one begins; 0: none */
};

struct cn_import_tables {
	void *memory; /* holds the arrays that follow; NULL: there are none */
	size_t memory_bytes;
	struct cn_held *held; /* by slot */
	uint32_t *slot_at;    /* by unit */
	struct cn_bits starts;
	struct cn_mapped *mapped;
	uint32_t mapped_count; /* behind these, none was ever mapped */
};

enum cn_import_state { CN_IMPORT_ALIVE, CN_IMPORT_EVICTED, CN_IMPORT_ORPHANED, CN_IMPORT_ELSEWHERE };

struct cn_import {
	CN_LOCK(IMPORT) lock; /* guards what follows, if nothing else is said */
	struct cn_peer *peer; /* the exporter, since we joined; set with `asking`, before others can find the import */
	int path_fd;          /* leads to the exporter */
	struct cn_map_node node; /* by address */
	void *owner;
	unsigned char name[CN_EXPORT_NAME_BYTES];
	dev_t socket_device; /* with the inode: where path_fd leads; no other pool can have both while we hold it */
	ino_t socket_inode;
	struct cn_export_facts facts;
	bool located;          /* the descriptor said where the pool is, and the exporter was not asked */
	struct cn_users users; /* what may use the view, under `asking`, */
	bool allowed;          /* if set */
	char *base;            /* NULL: not joined yet, or the record is free */
	uint64_t bytes;
	struct cn_view *view;
	struct cn_segment control, ledger;
	struct cn_import_tables tables;
	uint64_t joined_ns;
	uint64_t held_count, held_bytes;
	uint64_t live_count; /* of the held blocks: those with pointers that were not freed */
	enum cn_import_state state;
	bool closed, ending;
	unsigned busy_count;           /* threads that need it to stay */
	bool drop_wanted, drop_posted; /* a pass for parts that are not needed */
	struct cn_job release_job, drop_job, end_job;
	struct cn_watch later;              /* a time, for what waits for a grace period; the service thread's */
	uint64_t later_ns;                  /* how long the next wait is */
	uint64_t end_ticket;                /* of an import that is ending; 0: it has not begun */
	CN_SLOW_LOCK(IMPORT_ASKING) asking; /* one request, or change of the view, at a time; its holder is busy */
	struct cn_import *next;             /* in the list of all, or of the ended ones */
	struct cn_import *previous;         /* in the list of all */
	_Atomic bool release_posted;        /* apart from what the lock is for: compilers read neighbours together */
	uint32_t for_node;                  /* the machine for which it holds; 0: this one */
	void (*reached)(void *import, uint64_t slot); /* a stream has reached the free of a block */
	struct cn_node_memory *elsewhere;             /* the pool, on another machine; NULL: it is on this one */
	uint64_t *remotes; /* then, by slot, the number of the block's memory; NULL: it is on this machine */
	size_t remotes_bytes;
	unsigned char handle[CN_NODE_HANDLE_BYTES];
	struct cn_record record;
};

static inline struct cn_control *cn_import_control(const struct cn_import *import)
{
	return import->control.address;
}

static inline struct cn_ledger *cn_import_ledger(const struct cn_import *import)
{
	return import->ledger.address;
}

/* import_tables.c: tables for a view of so many bytes. */
CUresult cn_import_make_tables(uint64_t bytes, struct cn_import_tables *ret_tables);
void cn_import_free_tables(struct cn_import_tables *tables);
/* Have the pages that an import's first pointer needs: the first of each array, and that of its slot. */
void cn_import_touch_tables(const struct cn_import_tables *tables, uint64_t slot);

extern _Atomic unsigned cn_imports_waiting; /* threads that wait for an exporter's memory */
/* import.c: the import whose view holds an address; NULL: none. Not locked: the record may be another import by now. */
struct cn_import *cn_import_at(const void *address);
/* An import has joined: it can be found by address. */
void cn_import_enter(struct cn_import *import);
/* Why nothing more can be imported. Import locked. */
CUresult cn_import_explain_locked(const struct cn_import *import);
/* A record for an import, which is being made and has no owner yet; NULL: no memory. */
struct cn_import *cn_import_new_record(void);
void cn_import_give_record(struct cn_import *import);
/* From now on a forked child gives up what the import has. No fork at the same time. */
void cn_import_list(struct cn_import *import);
/* The import is made: other threads may use it. */
void cn_import_begin(struct cn_import *import);
/* The caller does not need the import to stay any more. Import locked. */
void cn_import_unbusy_locked(struct cn_import *import);
/* The exporter waits for something that was released: tell it. Import locked. */
void cn_import_tell_locked(struct cn_import *import);
/* Take the import apart if nothing of it is needed any more. Import locked. */
void cn_import_end_locked(struct cn_import *import);

/*
 * import_join.c: join the exporter, if not done yet; `wanted` is the export that we join for, or NULL. The import is
 * busy, and not locked. After a failure it is as it was, or an orphan.
 */
CUresult cn_import_join(struct cn_import *import, const struct cn_export_data *wanted);
/* What the service thread and an asking thread do about the exporter. */
extern const struct cn_peer_ops cn_import_peer_ops;
/* Give back what joining has brought, except the connection. No fork at the same time. */
void cn_import_give_memory(struct cn_import *import);

/* On the service thread: check again later what waits for a grace period; each time after a longer while. */
void cn_import_retry_later(struct cn_import *import);

/* import_pointer.c: a stream has reached the free of a block, of a pool here or of one on another machine. */
void cn_import_reached(void *import, uint64_t slot);
void cn_import_reached_elsewhere(void *import, uint64_t slot);
/* import_elsewhere.c: the other machine is told that the pool is not used any more. */
void cn_import_leave_elsewhere(struct cn_import *import);

/* import_parts.c: map the part that came with a welcome; a wrong one is ignored. `asking` is held. */
void cn_import_take_first(struct cn_import *import, struct cn_parcel *welcome);
/* Map the memory that the exporter shows at an offset. The import is busy, and not locked. */
CUresult cn_import_map(struct cn_import *import, uint64_t offset);
/* Some parts may not be needed any more: have the service thread check, soon. Import locked. */
void cn_import_want_drop_locked(struct cn_import *import);
void cn_import_drop_parts(struct cn_job *job); /* that check: drop_job */

#endif

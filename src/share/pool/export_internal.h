/* SPDX-License-Identifier: MIT */
/*
 * What the files of the exporter's side share with each other: export.c has the slots, importers.c the importers,
 * export_holders.c what is shown of both.
 */
#ifndef CN_SHARE_POOL_EXPORT_INTERNAL_H
#define CN_SHARE_POOL_EXPORT_INTERNAL_H

#include "base/records.h"
#include "base/segment.h"
#include "share/peer/service.h"
#include "share/pool/export.h"

/*
 * With more than a few importers, ended lives are looked up in their ledgers in batches. The batch grows with the
 * number of importers, so that the cost for each life stays the same.
 */
enum {
	CN_IMPORTERS_FEW = 16,
	CN_IMPORTERS_EACH = 4,       /* a batch has one life for so many importers, */
	CN_ENDED_BYTES = 1 << 20,    /* but blocks larger than this, alone or together, do not wait for a batch */
	CN_ENDED_WORDS = 64,         /* bits of `ended_words` */
	CN_EXPORT_PREPARED_MAX = 64, /* the first parts of an export: no device keeps more descriptors of them */
	CN_EXPORT_SCAN_LOADS = 8192, /* ledger words that a slice of a scan reads at most: some tens of microseconds */
	CN_EXPORT_SCAN_BURST_NS =
		1000000, /* how much rest may be put off in all: a short scan from time to time need not wait */
};

/* Ended lives among the slots of one ledger word. */
struct cn_ended {
	uint32_t word;
	uint64_t slots, held;
};

/* What the exporter keeps of a slot, beside what it shows. */
struct cn_export_slot {
	void *address;
	uint64_t bytes;
	uint64_t generation;  /* of the export; 0: the slot was never used */
	uint64_t deferred_ns; /* since when the block waits for importers; 0: it does not */
	uint32_t next, previous;
};

/*
 * A walk through the deferred blocks, a slice at a time. In between the lock is free, and blocks come and go. undefer()
 * moves `at` on when its block goes.
 */
struct cn_export_scan {
	uint32_t at; /* the next slot to check; 0: none is left */
	struct cn_export_scan *next;
};

struct cn_importer {
	struct cn_watch channel; /* without a descriptor when the importer is leaving */
	struct cn_export *export;
	struct cn_importer *next;
	struct cn_segment ledger; /* none until it has joined */
	int pidfd;                /* -1: the system has none */
	bool joined, leaving;
	bool lent;   /* it was sent memory of the pool, and may have filled it where we have none */
	bool paused; /* it has sent *released*, and is not read until the scan that answers it begins */
	_Atomic bool evicted;
	bool gone; /* as found by the last scan of the export, number `scan` */
	uint64_t scan;
	uint64_t parts_told; /* the number of the last CN_MESSAGE_PARTS */
	uint64_t id, joined_ns, ask_again_ns;
	int pid;
	unsigned uid;
	uint32_t node; /* the machine for which it holds, as it says; 0: this one */
	bool silent;   /* it has not joined, and is in the list from the oldest to the newest */
	struct cn_importer *silent_before, *silent_after;
};

struct cn_export {
	CN_LOCK(EXPORT) lock; /* first; guards the slots and the list of importers */
	struct cn_pool *pool;
	char *base;
	struct cn_export_facts facts;
	unsigned char name[CN_EXPORT_NAME_BYTES];
	uint64_t id;         /* the beginning of its name; not 0 */
	uint64_t created_ns; /* CLOCK_MONOTONIC */
	_Atomic bool known;  /* it can be found by its id, and only the service thread ends it */
	struct cn_segment control;
	struct cn_export_slot *slots;
	uint32_t slot_top, slot_spare; /* slots used so far; a list of free ones */
	uint32_t slot_count;           /* in use */
	uint64_t slot_bytes;           /* of their blocks */
	uint32_t deferred;             /* a list of slots */
	uint64_t deferred_count, deferred_bytes;
	struct cn_ended ended[CN_ENDED_WORDS]; /* not looked up yet: each at its word's number modulo CN_ENDED_WORDS */
	uint64_t ended_words;                  /* which of them are in use */
	uint64_t ended_bytes;
	unsigned ended_count;
	uint64_t scan;                /* counts scans: the system is asked about an importer once for each */
	struct cn_export_scan *scans; /* under way */
	struct cn_watch scan_due;     /* the service thread's next slice; what follows is for that thread, too */
	struct cn_export_scan service_scan;
	_Atomic bool scan_active;    /* a walk is under way, */
	bool scan_wanted;            /* and another must follow it */
	uint64_t scan_rest_ns;       /* until when it should rest: so the program has the lock most of the time */
	struct cn_watch reclaim_due; /* for memory that gone importers have left, piece by piece, */
	size_t reclaim_offset;       /* from here on */
	struct cn_importer *importers;
	unsigned importer_count;
	struct cn_watch listener;
	int path_fd, event_fd;
	bool closing;
	struct cn_job close_job, evict_job, parts_job, prepare_job;
	_Atomic bool evict_posted, parts_posted, prepare_posted;
	uint32_t shown[CN_EXPORT_PREPARED_MAX]; /* the first parts that importers were shown, */
	unsigned shown_count, prepared_count;   /* and of how many of them the device was asked for a descriptor */
	struct cn_export *next, *previous;      /* in the list of all exports */
	struct cn_record record;
};

static inline struct cn_control *cn_export_control(const struct cn_export *export)
{
	return export->control.address;
}

static inline const struct cn_ledger *cn_importer_ledger(const struct cn_importer *importer)
{
	return importer->ledger.address;
}

static inline bool cn_importer_holds(const struct cn_importer *importer, uint32_t slot)
{
	return importer->ledger.bytes &&
	       atomic_load(&cn_importer_ledger(importer)->held[slot / CN_LEDGER_WORD_SLOTS]) & cn_ledger_bit(slot);
}

/*
 * export.c, on the service thread: the export with the lowest id above this one; it stays until that thread ends it.
 * NULL: there is none.
 */
struct cn_export *cn_export_after(uint64_t id);
unsigned cn_exports_count(void);
/* export.c: begin to look for deferred blocks that no importer holds, and continue; false: all were checked. */
void cn_export_scan_begin(struct cn_export *export, struct cn_export_scan *scan);
bool cn_export_scan_on(struct cn_export *export, struct cn_export_scan *scan);
/* export.c: the sentence for a pool that is being destroyed. */
CUresult cn_export_refuse_closing(void);
/* export.c: look up all ended lives that are still put off. */
void cn_export_scan_ended(struct cn_export *export);
/*
 * export.c, on the service thread: describe an importer. At most `looks_max` deferred blocks are checked, the newest;
 * false: there are more.
 */
bool cn_export_describe(struct cn_export *export, const struct cn_importer *importer, uint64_t looks_max,
			struct cn_importer_facts *ret_facts);
/* export.c: where the block of an export is, or was. False: there never was such an export. */
bool cn_export_find_block(struct cn_export *export, uint64_t slot, uint64_t generation, uint64_t *ret_offset);
/* importers.c: can it hold nothing any more? Asks the system, without waiting. Export locked, or the service thread. */
bool cn_importer_is_gone(const struct cn_importer *importer);
/* importers.c: a new export, which no other thread knows yet; undone by cn_importers_drop(). */
void cn_importers_open(struct cn_export *export);
/* importers.c, on the service thread: a process connects. */
void cn_importers_accept(struct cn_watch *listener);
/* importers.c, on the service thread: shut out all importers that were evicted. */
void cn_importers_evict(struct cn_job *job);
/* importers.c, on the service thread: parts have lost their memory, and the control segment says which. */
void cn_importers_tell_parts(struct cn_export *export);
void cn_importers_drop(struct cn_export *export);
/*
 * importers.c: have a ledger ready for the next importer; have none, when no pool is shared. No fork at the same time.
 */
void cn_importers_prepare(void);
void cn_importers_rest(void);
void cn_importers_close_in_child(void);

#endif

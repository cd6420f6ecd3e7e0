/* SPDX-License-Identifier: MIT */
/*
 * The exporter's side of a shared pool.
 *
 * A shared pool has an export: a listening socket without a name, the control segment, and the importers with their
 * ledgers. Exporting a pointer takes a slot and marks the block as shared; from then on its free comes here. The free
 * takes effect when its stream reaches it: the slot's generation ends. If no ledger holds it, the block goes back to
 * the pool; otherwise it is deferred until the last holder has released it or is gone.
 *
 * Importers come, ask, leave and die on the service thread. The export's lock guards the slots and the list of
 * importers; no thread waits, sends or maps under it.
 */
#ifndef CN_SHARE_POOL_EXPORT_H
#define CN_SHARE_POOL_EXPORT_H

#include "pool/pool.h"
#include "share/pool/control.h"

enum { CN_IMPORTERS_MAX = 1024 }; /* of one pool */

/* What an importer must know of a pool, beside its memory. The layers above define the meaning. */
struct cn_export_facts {
	int location_type, location_id; /* a device by the machine's numbering */
	uint64_t range_bytes;           /* of addresses; set by cn_export_create() */
	unsigned handle_types;
	int memory_type;
};

/* One importer, for display. */
struct cn_importer_facts {
	uint64_t id; /* never used twice in a process */
	int pid;     /* 0: not visible from here */
	unsigned uid;
	uint32_t node; /* the machine for which it holds, as it says; 0: this one */
	bool leaving;  /* its channel has ended, and it may still hold blocks */
	uint64_t held_count, held_bytes;
	uint64_t deferred_count, deferred_bytes; /* freed here, and waiting for this importer */
	uint64_t joined_ns, waiting_since_ns;    /* CLOCK_MONOTONIC; since when the oldest of those waits, 0: none */
};

struct cn_export_numbers {
	uint64_t export_count, importer_count, deferred_count, deferred_bytes;
};

struct cn_export;

/* Share a pool. It does not end before cn_export_close(). */
CUresult cn_export_create(struct cn_pool *pool, const struct cn_export_facts *facts, struct cn_export **ret_export);
/* The pool is destroyed: when its last exported block is back, all importers are shut out and the export ends. */
void cn_export_close(struct cn_export *export);

/* A descriptor that leads importers here; the caller closes it. */
CUresult cn_export_descriptor(struct cn_export *export, int *ret_fd);
/* Name the block that begins at an address, for importers. The name is the same as long as the block lives. */
CUresult cn_export_pointer(struct cn_export *export, void *address, struct cn_export_data *ret_data);
/* The program frees a shared block, in order of the queue. CUDA_ERROR_INVALID_VALUE: it was already freed. */
CUresult cn_export_free(struct cn_export *export, void *address, struct cn_queue *queue, uint64_t handle);

/* Return the blocks that no importer holds any more. This happens by itself in time; call it to have it done now. */
void cn_export_rescan(struct cn_export *export);

/* Fill in importers, at most `room`, oldest last; returns how many there are. */
size_t cn_export_importers(struct cn_export *export, struct cn_importer_facts *importers, size_t room);
void cn_export_numbers(struct cn_export *export, struct cn_export_numbers *ret_numbers);
/* Shut an importer out. CUDA_ERROR_NOT_FOUND: there is none of this id. */
CUresult cn_export_evict(struct cn_export *export, uint64_t id);
/* A descriptor that becomes readable when an importer comes or goes: an eventfd; the caller closes it. */
CUresult cn_export_watch(struct cn_export *export, int *ret_fd);
void cn_export_set_limit(struct cn_export *export, uint64_t bytes);

#endif

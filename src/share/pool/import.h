/* SPDX-License-Identifier: MIT */
/*
 * The importer's side of a shared pool.
 *
 * An import is a channel to the exporter, its control segment to read, a ledger of our own to write, and a view of its
 * memory. Importing a pointer sets a bit in the ledger, checks that the export is still live, and counts. The same
 * pointer may be imported any number of times; it is released with the last free, once that free's stream has reached
 * it. If the exporter has ended the export by then, it is told.
 *
 * The exporter's end changes nothing for held blocks: they stay readable until they are freed. New imports fail.
 *
 * Channel, segments and view come with the first pointer (import_join.c). Until then an import is a descriptor, and the
 * exporter does not know of it. If it cannot join, the import of the pointer says why.
 *
 * A pool of another machine (import_elsewhere.c) has none of this here: the exporter's daemon has it, and holds each
 * block for us. Here are addresses without pages, and the same counts. When a stream reaches the last free of a block,
 * the daemon is told, and lets go of it.
 */
#ifndef CN_SHARE_POOL_IMPORT_H
#define CN_SHARE_POOL_IMPORT_H

#include "device/device.h"
#include "share/node/node.h"
#include "share/pool/control.h"
#include "share/pool/export.h"

struct cn_import;

/* An imported block. */
struct cn_import_block {
	struct cn_import *import;
	void *owner;
	void *start;
	size_t bytes;
	uint64_t id;     /* of the import: never used twice in a process */
	uint64_t remote; /* the number of memory on another machine (host_remote.h); 0: it is on this one */
};

/* Are the two imports of one pool, whose exporter can still be asked? */
bool cn_import_is_same(struct cn_import *import, const struct cn_import *other);

/* Has a pool ever been imported in this process? */
extern _Atomic bool cn_imports_exist;

/*
 * Import the pool that a descriptor leads to; the caller keeps `fd`. CUDA_ERROR_INVALID_VALUE: it leads to none, or its
 * exporter is gone; CUDA_ERROR_OPERATING_SYSTEM: the exporter does not answer. Of the facts, only the location is sure
 * to be known; the others may be 0.
 */
CUresult cn_import_create(int fd, void *owner, struct cn_import **ret_import, struct cn_export_facts *ret_facts);
/*
 * The same for another machine, whose number the exporter shows beside our holds. The exporter has been joined then,
 * all facts are known, and the pool's id as it reports it.
 */
CUresult cn_import_create_for(int fd, void *owner, uint32_t node, struct cn_import **ret_import,
			      struct cn_export_facts *ret_facts, uint64_t *ret_pool_id);
/* Import the pool of another machine that a fabric handle names. Returns as cn_fabric_open_elsewhere() does. */
CUresult cn_import_create_elsewhere(const unsigned char handle[CN_NODE_HANDLE_BYTES], void *owner,
				    struct cn_import **ret_import, struct cn_export_facts *ret_facts);
/* No more imports; the import ends with its last block, whose free its stream may not have reached yet. */
void cn_import_close(struct cn_import *import);
/* Set the users of the imported memory; before the first call there are none. */
CUresult cn_import_allow(struct cn_import *import, struct cn_users users);
/* Are there imported pointers that were not freed? */
bool cn_import_is_used(struct cn_import *import);
/* The owner of a closed import that has ended, each once; NULL: there is no further one. */
void *cn_import_take_ended(void);

/* For reports: an import that has joined its exporter. */
struct cn_import_facts {
	uint64_t pool_id; /* as the exporter reports it */
	bool orphaned;    /* nothing more can be imported */
	uint64_t held_count, held_bytes;
	uint64_t joined_ns;
	uint32_t node; /* the machine that has the pool; 0: this one */
};
/* Returns how many were described; *ret_all: how many there are. */
unsigned cn_imports_describe(struct cn_import_facts ret_facts[], unsigned most, unsigned *ret_all);

/* `data` is a struct cn_export_data, anywhere. */
CUresult cn_import_pointer(struct cn_import *import, const void *data, void **ret_address);
/*
 * Release, once and in order of the queue, the block that begins at an address. CUDA_ERROR_INVALID_VALUE: no imported
 * block begins there.
 */
CUresult cn_import_free(void *address, struct cn_queue *queue, uint64_t handle);

/* For a process without queues, which holds blocks for others: where a block is. */
struct cn_import_extent {
	char *address;
	uint64_t offset; /* in the pool's range */
	uint64_t bytes;
};
/* cn_import_pointer(). */
CUresult cn_import_hold(struct cn_import *import, const struct cn_export_data *data,
			struct cn_import_extent *ret_extent);
/* The same without waiting. False: the exporter must be asked first, so cn_import_hold() is to be called. */
bool cn_import_hold_now(struct cn_import *import, const struct cn_export_data *data, CUresult *ret_result,
			struct cn_import_extent *ret_extent);
/* Release, once, a block that was held: at once, and without waiting. */
void cn_import_release(struct cn_import *import, const void *address);

/* Is an address in the range of an imported pool, whatever is there? */
bool cn_import_has(const void *address);
/* The imported block that holds an address. False: none. */
bool cn_import_find(const void *address, struct cn_import_block *ret_block);

#endif

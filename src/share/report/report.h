/* SPDX-License-Identifier: MIT */
/*
 * The report: what a process tells others about what it shares and holds, in a file and at its port.
 *
 * The file (status.h) has everything, and is read without the process: also when that is stopped or hangs. At the port,
 * CN_REPORT_REFRESH has the process write its file now; the answer says which writing that was. So a viewer asks each
 * process one question, all of them at the same time, and reads the same records whether a process answers or not. The
 * port also draws pictures of pools, and hands on the descriptor of a process that holds something (a pidfd), by which
 * the viewer finds out which process that is, in its own PID namespace.
 *
 * The service thread writes and answers. It looks at a bounded number of blocks each time. There may be very many
 * events and allocations with handles: those of one kind are told as a sum. The reader must not trust anything in a
 * report.
 */
#ifndef CN_SHARE_REPORT_REPORT_H
#define CN_SHARE_REPORT_REPORT_H

#include "share/wire/wire.h"

#include <stddef.h>

/* What CN_MESSAGE_REPORT asks for, and its words. */
enum cn_report_what {
	CN_REPORT_REFRESH = 1, /* write the status file; the answer's first word is the sequence number */
	CN_REPORT_CELLS,       /* cells of POOL's picture, which has CELL_COUNT cells, from FIRST_CELL on */
	CN_REPORT_HOLDER,      /* the pidfd of IMPORTER of POOL; POOL 0: of an opener */
};
enum cn_report_word {
	CN_REPORT_WHAT,
	CN_REPORT_POOL_ID,
	CN_REPORT_IMPORTER_ID,
	CN_REPORT_FIRST_CELL = CN_REPORT_IMPORTER_ID,
	CN_REPORT_CELL_COUNT,
	CN_REPORT_CURSOR, /* 0 for the first cells, then the cursor of the last answer */
};
enum { CN_REPORT_BODY_BYTES = 104, CN_REPORT_CELLS_EACH = 8, CN_REPORT_CELLS_MAX = 65536, CN_REPORT_TEXT_BYTES = 32 };

/* Flags of a process. ON_GPU: its events, legacy memory and physical memory are the driver's. */
enum { CN_REPORT_ON_GPU = 1, CN_REPORT_TRUNCATED = 2 }; /* TRUNCATED: it shares more than the file has room for */

/* What it shares, as records of the status file. Times are on the clock of the process, CLOCK_MONOTONIC. */
struct cn_report_pool {
	uint64_t id;
	uint64_t used_bytes, reserved_bytes;
	uint64_t exported_count, exported_bytes, deferred_count, deferred_bytes;
	uint64_t importer_count;
	uint64_t limit_bytes; /* what an importer may hold; 0: no limit */
	uint64_t since_ns;    /* when it was first exported */
	int32_t location_type, location_id;
	uint64_t unused[2];
};

enum { CN_REPORT_LEAVING = 1, CN_REPORT_AT_LEAST = 2 }; /* 2: there are more deferred blocks than were looked at */

/* An importer of a pool, or an opener: a process that has opened events or memory. */
struct cn_report_importer {
	uint64_t id;
	uint32_t pid, uid; /* pid: as the exporter sees it; 0: it cannot see it */
	uint64_t flags;
	uint64_t held_count, held_bytes, deferred_count, deferred_bytes;
	uint64_t since_ns;         /* when it joined, or since when it has had something open without a break */
	uint64_t waiting_since_ns; /* since when the oldest deferred block has waited; 0: none does */
	uint64_t ledger_inode;     /* of its ledger, which it has mapped: /proc/PID/maps shows it; 0: it has none */
	uint64_t node;             /* the machine for which it holds, in its domain; 0: this one */
	uint64_t unused[2];
};

struct cn_report_handles {
	uint64_t kind;                           /* CN_HANDLE_EVENT or CN_HANDLE_MEMORY */
	uint64_t shared_count, shared_bytes;     /* can be opened */
	uint64_t deferred_count, deferred_bytes; /* freed here, but still open in another process */
	uint64_t opener_count;
	uint64_t since_ns; /* when the first handle of the kind was made */
	uint64_t unused[6];
};

enum { CN_REPORT_ORPHANED = 1 }; /* its maker is gone, has destroyed it, or has sent us away */

/*
 * What it has from another process: a pool that it imported; or all that it has opened by handles of one kind, of
 * CN_HANDLE_FABRIC_MEMORY for each other machine apart. What it has of this machine by such handles, nobody counts.
 */
struct cn_report_import {
	uint64_t kind; /* 0: a pool; else CN_HANDLE_EVENT, CN_HANDLE_MEMORY or CN_HANDLE_FABRIC_MEMORY */
	uint64_t pool; /* the pool's id, as its exporter reports it */
	uint64_t flags;
	uint64_t held_count, held_bytes;
	uint64_t since_ns; /* when it joined, or since when it has had something open without a break */
	uint64_t node;     /* the machine that has it, in the domain; 0: this one */
	uint64_t unused[6];
};

#define CN_REPORT_SEVERAL UINT64_MAX

struct cn_report_cells {
	uint64_t picture_bytes;                    /* the bytes that all cells stand for */
	uint64_t holders[CN_REPORT_CELLS_EACH];    /* an importer's id; 0: none */
	unsigned char kinds[CN_REPORT_CELLS_EACH]; /* enum cn_pool_cell_kind */
	uint64_t cursor;
	uint64_t unused[2];
};

_Static_assert(sizeof(struct cn_report_pool) == CN_REPORT_BODY_BYTES, "the same in every process");
_Static_assert(sizeof(struct cn_report_importer) == CN_REPORT_BODY_BYTES, "the same");
_Static_assert(sizeof(struct cn_report_handles) == CN_REPORT_BODY_BYTES, "the same");
_Static_assert(sizeof(struct cn_report_import) == CN_REPORT_BODY_BYTES, "the same");
_Static_assert(sizeof(struct cn_report_cells) == CN_REPORT_BODY_BYTES, "the same");
_Static_assert(sizeof(struct cn_message) - offsetof(struct cn_message, words) == CN_REPORT_BODY_BYTES, "the same");

static inline void *cn_report_body(struct cn_message *message)
{
	return (char *)message + offsetof(struct cn_message, words);
}

/*
 * The port is open: keep a status in this file, which is the name's lock file, from now on. The service thread writes
 * it soon, again after cn_report_changed(), and from time to time.
 */
void cn_report_begin(int lock_fd);
/* On the service thread: what is shared has changed, and the file is to be written soon. */
void cn_report_changed(void);
/*
 * On the service thread: may the file be written for a viewer that asks? If not, it was written so shortly before that
 * the program would notice; it will be soon, and cn_port_refreshed() is called then.
 */
bool cn_report_may_refresh(void);
/*
 * On the service thread: answer a question. A descriptor in the reply is to be closed when it is sent. False: the
 * question is invalid.
 */
bool cn_report_serve(const struct cn_message *request, struct cn_parcel *reply);

#endif

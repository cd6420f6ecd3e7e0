/* SPDX-License-Identifier: MIT */
/*
 * The report: what a process says of what it shares, to whoever of its user calls at its port and asks.
 *
 * One question, one answer, and nothing is remembered between two of them: the asker names the last pool, importer or
 * opener that it was told of, and is told the next one, in the order of their numbers. So an answer has one size
 * however much there is to tell, nobody has to read for the other to go on, and what comes and goes meanwhile is told
 * or not told. Of events and memory that are given out by handles there may be very many: those of a kind are told
 * together. The service thread answers: it looks at one importer, or at a few cells of a picture, a bounded number of
 * blocks each, and takes no lock for longer.
 *
 * Times are ages, since clocks may differ between containers. All that is said is a stranger's word to who reads it.
 */
#ifndef CN_SHARE_REPORT_REPORT_H
#define CN_SHARE_REPORT_REPORT_H

#include "share/wire/wire.h"

#include <stddef.h>

/* What CN_MESSAGE_REPORT asks for; its words. */
enum cn_report_what {
	CN_REPORT_PROCESS = 1,
	CN_REPORT_POOL,     /* the next after POOL */
	CN_REPORT_IMPORTER, /* the next after IMPORTER of POOL */
	CN_REPORT_CELLS,    /* of POOL's picture, which is of CELL_COUNT cells: from FIRST_CELL on */
	CN_REPORT_HANDLES,  /* what was given out by handles of KIND */
	CN_REPORT_OPENER,   /* of such, the next after IMPORTER who has some open */
};
enum cn_report_word {
	CN_REPORT_WHAT,
	CN_REPORT_POOL_ID,
	CN_REPORT_KIND = CN_REPORT_POOL_ID, /* CN_HANDLE_EVENT or CN_HANDLE_MEMORY */
	CN_REPORT_IMPORTER_ID,
	CN_REPORT_FIRST_CELL = CN_REPORT_IMPORTER_ID,
	CN_REPORT_CELL_COUNT,
	CN_REPORT_CURSOR, /* 0 for the first cells, then what came with the ones before */
};
enum {
	CN_REPORT_BODY_BYTES = 104,
	CN_REPORT_CELLS_EACH = 8,
	CN_REPORT_CELLS_MAX = 65536,
	CN_REPORT_PROGRAM_BYTES = 32
};

enum { CN_REPORT_ON_GPU = 1 }; /* its events, its legacy memory and its physical memory are the driver's */

/* The answers, in place of a message's words and bytes. With CUDA_ERROR_NOT_FOUND there is none: no next one. */
struct cn_report_process {
	uint64_t pid;           /* as it sees itself */
	uint64_t pid_namespace; /* the number of its PID namespace */
	uint64_t pool_count, opener_count;
	uint64_t flags;
	uint64_t unused[4];
	char program[CN_REPORT_PROGRAM_BYTES];
};

struct cn_report_pool {
	uint64_t id;
	uint64_t used_bytes, reserved_bytes;
	uint64_t exported_count, exported_bytes, deferred_count, deferred_bytes;
	uint64_t importer_count;
	uint64_t limit_bytes; /* of an importer; 0: none */
	uint64_t age_ns;      /* since it was first exported */
	int32_t location_type, location_id;
	uint64_t unused[2];
};

enum { CN_REPORT_LEAVING = 1, CN_REPORT_AT_LEAST = 2 }; /* 2: there are more deferred blocks than were looked at */

/* An importer of a pool, or an opener: one who has opened events or memory. */
struct cn_report_importer {
	uint64_t id;
	uint32_t pid, uid; /* pid: as the exporter sees it; 0: it cannot */
	uint64_t flags;
	uint64_t held_count, held_bytes, deferred_count, deferred_bytes;
	uint64_t age_ns;     /* since it joined, or has had something open without a break */
	uint64_t waiting_ns; /* for how long the oldest of the deferred ones has waited */
	uint64_t unused[4];
};

struct cn_report_handles {
	uint64_t kind;
	uint64_t shared_count, shared_bytes;     /* that can be opened */
	uint64_t deferred_count, deferred_bytes; /* that were freed here, and that somebody has open */
	uint64_t opener_count;
	uint64_t age_ns; /* since the first handle of the kind was made */
	uint64_t unused[6];
};

#define CN_REPORT_SEVERAL UINT64_MAX

struct cn_report_cells {
	uint64_t picture_bytes;                    /* what all cells are of */
	uint64_t holders[CN_REPORT_CELLS_EACH];    /* an importer's id; 0: none */
	unsigned char kinds[CN_REPORT_CELLS_EACH]; /* enum cn_pool_cell_kind */
	uint64_t cursor;
	uint64_t unused[2];
};

_Static_assert(sizeof(struct cn_report_process) == CN_REPORT_BODY_BYTES, "the same in every process");
_Static_assert(sizeof(struct cn_report_pool) == CN_REPORT_BODY_BYTES, "the same");
_Static_assert(sizeof(struct cn_report_importer) == CN_REPORT_BODY_BYTES, "the same");
_Static_assert(sizeof(struct cn_report_handles) == CN_REPORT_BODY_BYTES, "the same");
_Static_assert(sizeof(struct cn_report_cells) == CN_REPORT_BODY_BYTES, "the same");
_Static_assert(sizeof(struct cn_message) - offsetof(struct cn_message, words) == CN_REPORT_BODY_BYTES, "the same");

static inline void *cn_report_body(struct cn_message *message)
{
	return (char *)message + offsetof(struct cn_message, words);
}

/* The number of this process's PID namespace; 0: not to be had. */
uint64_t cn_report_pid_namespace(void);

/*
 * On the service thread: answer. `opener_count` is how many processes have opened something here by a handle. False:
 * with something that nobody asks for.
 */
bool cn_report_serve(const struct cn_message *request, unsigned opener_count, struct cn_message *reply);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The report: what a process tells other processes of its user, at its port, about what it shares.
 *
 * Each question has one answer, and nothing is remembered between two questions. The asker names the last pool,
 * importer or opener that it was told of, and is told the next one, in the order of their ids. So an answer has a fixed
 * size however much is shared, neither side waits for the other to read, and what comes or goes between two questions
 * may be told or missed. There may be very many events and allocations with handles: those of one kind are told as a
 * sum. The service thread answers. It looks at one importer, or at a few cells of a picture, a bounded number of blocks
 * each, and holds no lock for longer.
 *
 * Times are ages, since clocks may differ between containers. The reader must not trust anything in a report.
 */
#ifndef CN_SHARE_REPORT_REPORT_H
#define CN_SHARE_REPORT_REPORT_H

#include "share/wire/wire.h"

#include <stddef.h>

/* What CN_MESSAGE_REPORT asks for, and its words. */
enum cn_report_what {
	CN_REPORT_PROCESS = 1,
	CN_REPORT_POOL,     /* the next after POOL */
	CN_REPORT_IMPORTER, /* the next after IMPORTER of POOL */
	CN_REPORT_CELLS,    /* cells of POOL's picture, which has CELL_COUNT cells, from FIRST_CELL on */
	CN_REPORT_HANDLES,  /* what was given out by handles of KIND */
	CN_REPORT_OPENER,   /* the next after IMPORTER that has something of KIND open */
};
enum cn_report_word {
	CN_REPORT_WHAT,
	CN_REPORT_POOL_ID,
	CN_REPORT_KIND = CN_REPORT_POOL_ID, /* CN_HANDLE_EVENT or CN_HANDLE_MEMORY */
	CN_REPORT_IMPORTER_ID,
	CN_REPORT_FIRST_CELL = CN_REPORT_IMPORTER_ID,
	CN_REPORT_CELL_COUNT,
	CN_REPORT_CURSOR, /* 0 for the first cells, then the cursor of the last answer */
};
enum {
	CN_REPORT_BODY_BYTES = 104,
	CN_REPORT_CELLS_EACH = 8,
	CN_REPORT_CELLS_MAX = 65536,
	CN_REPORT_PROGRAM_BYTES = 32
};

enum { CN_REPORT_ON_GPU = 1 }; /* its events, legacy memory and physical memory are the driver's */

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
	uint64_t limit_bytes; /* what an importer may hold; 0: no limit */
	uint64_t age_ns;      /* since it was first exported */
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
	uint64_t age_ns;     /* since it joined, or since it has had something open without a break */
	uint64_t waiting_ns; /* how long the oldest deferred block has waited */
	uint64_t unused[4];
};

struct cn_report_handles {
	uint64_t kind;
	uint64_t shared_count, shared_bytes;     /* can be opened */
	uint64_t deferred_count, deferred_bytes; /* freed here, but still open in another process */
	uint64_t opener_count;
	uint64_t age_ns; /* since the first handle of the kind was made */
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

/* The number of this process's PID namespace; 0: unknown. */
uint64_t cn_report_pid_namespace(void);

/*
 * On the service thread: answer a question. `opener_count` is the number of processes that have opened something here
 * by a handle. False: the question is invalid.
 */
bool cn_report_serve(const struct cn_message *request, unsigned opener_count, struct cn_message *reply);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The status file: what a process shares and holds, for every process that may read its runtime directory.
 *
 * It is the lock file of the process's port, NAME.lock: if a reader cannot take its lock, the writer lives. Only that
 * process writes it, on its service thread. Readers use pread() alone: they map nothing, take no lock for long, and the
 * writer never waits for them.
 *
 * A writing is a head and as many records as the head says. Two writings take turns in two halves of the file, so a
 * process that is stopped or killed while it writes leaves the one before it whole:
 *
 *	page 0    the heads of both halves, CN_STATUS_HEAD_BYTES each
 *	page 1    records of the first half, 32 a page
 *	page 2    records of the second half
 *	page 3    more records of the first half, and so on
 *
 * The head is written last. It and each record carry the sequence number of the writing, which grows by one, and a
 * check of their bytes: a reader that finds another number, or a wrong check, reads again. The number's lowest bit is
 * the half.
 *
 * Records come in the order in which they are shown: a pool, then its importers; what was given out by handles of a
 * kind, then its openers; and what the process has from others.
 *
 * Times are CLOCK_MONOTONIC of the writer, so an age grows also while the writer is stopped. A reader in another time
 * namespace has another such clock: for that reader the head has the time of day, too.
 */
#ifndef CN_SHARE_REPORT_STATUS_H
#define CN_SHARE_REPORT_STATUS_H

#include "share/report/report.h"

#define CN_STATUS_MAGIC UINT64_C(0x73757461747324ce)

enum {
	CN_STATUS_VERSION = 1,
	CN_STATUS_PAGE_BYTES = 4096,
	CN_STATUS_HEAD_BYTES = 256,
	CN_STATUS_RECORD_BYTES = 128,
	CN_STATUS_PAGE_RECORDS = CN_STATUS_PAGE_BYTES / CN_STATUS_RECORD_BYTES,
	CN_STATUS_RECORDS_MAX = 16384,
};

enum cn_status_kind {
	CN_STATUS_POOL = 1, /* struct cn_report_pool */
	CN_STATUS_IMPORTER, /* struct cn_report_importer, of the pool before it */
	CN_STATUS_HANDLES,  /* struct cn_report_handles */
	CN_STATUS_OPENER,   /* struct cn_report_importer, of the handles before it */
	CN_STATUS_IMPORT,   /* struct cn_report_import */
};

struct cn_status_head {
	uint64_t magic;
	uint32_t version, record_count;
	uint64_t sequence;
	uint64_t written_ns, written_real_ns; /* CLOCK_MONOTONIC, CLOCK_REALTIME */
	uint64_t time_namespace;              /* the number of its time namespace; 0: the system has none */
	uint64_t pid;                         /* as it sees itself */
	uint64_t pid_namespace;               /* the number of its PID namespace */
	uint64_t pool_count, opener_count;
	uint64_t flags;
	char program[CN_REPORT_TEXT_BYTES];
	char label[CN_REPORT_TEXT_BYTES]; /* CENOTE_LABEL */
	uint64_t unused[12];
	uint64_t check; /* of what stands before it */
};

struct cn_status_record {
	uint64_t sequence;
	uint32_t kind, unused;
	unsigned char body[CN_REPORT_BODY_BYTES];
	uint64_t check; /* of what stands before it */
};

_Static_assert(sizeof(struct cn_status_head) == CN_STATUS_HEAD_BYTES, "the same in every process");
_Static_assert(sizeof(struct cn_status_record) == CN_STATUS_RECORD_BYTES, "the same");

/* Where the records of a page are, of the half that a sequence number belongs to. */
static inline uint64_t cn_status_page_offset(uint64_t sequence, uint32_t page)
{
	return (1 + 2 * (uint64_t)page + (sequence & 1)) * CN_STATUS_PAGE_BYTES;
}

/* The number of a namespace of this process, "pid" or "time"; 0: unknown. */
uint64_t cn_status_namespace(const char *name);

/* ---- Writing: status.c ---- */

/* On the service thread: write the file now. Returns the sequence number; 0: it could not be written. */
uint64_t cn_status_write(void);

/* ---- Reading: status_read.c ---- */

/* A writing that was read whole. */
struct cn_status {
	struct cn_status_head head; /* its texts are printable, and end */
	struct cn_status_record *records;
};

/*
 * Read the newest writing of a status file. False: there is none that is whole, after some tries; or no memory.
 * Whatever the file is, no more than CN_STATUS_RECORDS_MAX records are read.
 */
bool cn_status_read(int fd, struct cn_status *ret_status);
void cn_status_free(struct cn_status *status);
/* What to add to times of a status to have them on this process's clock, CLOCK_MONOTONIC. */
int64_t cn_status_clock_offset_ns(const struct cn_status_head *head);

#endif

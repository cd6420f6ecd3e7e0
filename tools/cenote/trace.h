/* SPDX-License-Identifier: MIT */
/*
 * cenote trace: what its files share.
 *
 * trace.c runs the program and knows when its processes end. trace_read.c reads the records they left (record.h of
 * tools/trace). trace_model.c interprets them: which stream, pool and event each call is about, when streams reached
 * the work that was put into them, which call in one process leads to which in another. trace_write.c writes the
 * result.
 */
#ifndef CENOTE_TOOLS_TRACE_H
#define CENOTE_TOOLS_TRACE_H

#include "record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum { NONE = -1 };

/* ---- What was read (trace_read.c) ---- */

struct trace_process {
	const struct cn_trace_header *header;
	const struct cn_trace_record *records;
	size_t record_count;
	size_t file_bytes;
	int shown_apart;   /* what is added to its PID and its threads' numbers, where two have the same */
	uint64_t ended_ns; /* as far as is known */
	int how;           /* enum cn_trace_end; RUNS: it was killed, unless `lives` */
	bool lives;
};

/* A call, in the order in which calls began. */
struct trace_call {
	const struct cn_trace_record *record;
	int process;
	int stream, pool, event; /* of the model, or NONE */
	int slice;               /* what it is in its stream's track, or NONE */
	uint64_t end_ns;         /* its end, or that of its process */
};

/* ---- What it means (trace_model.c) ---- */

struct trace_object {
	int process;
	uint64_t handle;
	int origin; /* the object in another process that this one was imported from, or NONE */
	int number; /* of its kind in its process, from 1 on; of those that were not seen to be made from -1 down */
	uint32_t thread; /* of a thread's own default stream */
	int record;      /* of an event: the call that recorded it last, or NONE */
	bool is_imported;
};

/*
 * Something in a stream, from when the stream reached it until it was done. Where that was not seen for each, several
 * are drawn as one: the first, with the others behind it in the list.
 */
struct trace_slice {
	int call, stream;
	int count; /* how many are drawn; 0: it is drawn with one before */
	uint64_t begin_ns, end_ns;
	bool is_known; /* when it was done was seen, and not concluded from what the program learned later */
	bool is_open;  /* it was never seen to be done */
};

struct trace_arrow {
	const char *name;
	int from, to;              /* calls */
	bool from_slice, to_slice; /* … or what they put into their streams */
	const char *within;        /* what has happened where it ends, for what had begun before that */
};

struct trace_change {
	uint64_t time_ns;
	int pool;
	int64_t bytes;
};

struct trace {
	struct trace_process *processes;
	int process_count;
	struct trace_call *calls;
	int call_count;
	struct trace_object *streams, *pools, *events;
	int stream_count, pool_count, event_count;
	struct trace_slice *slices; /* by stream, then in time */
	int slice_count;
	struct trace_arrow *arrows;
	int arrow_count;
	struct trace_change *changes; /* of the bytes in use of a pool, in time */
	int change_count;
	uint64_t lost;
};

/* What is known of a call of calls.list. */
struct trace_call_kind {
	const char *name;
	enum cn_trace_act act;
	bool is_runtime;
};
extern const struct trace_call_kind trace_call_kinds[];

/* When a process was seen to be gone; 0: it was not. */
typedef uint64_t trace_death(pid_t pid, const struct cn_trace_header *header);

/* All files of a directory. False: an error was printed. */
bool trace_read(struct trace *trace, const char *directory, trace_death *death, bool still_runs);
/* Interpret them. */
void trace_understand(struct trace *trace);
void trace_write(const struct trace *trace, FILE *to);
/* The same in a page that draws it in a browser by itself (trace_page.html). */
void trace_write_page(const struct trace *trace, FILE *to);
void trace_free(struct trace *trace);

/* Room for one more in a list; there is always some, or the command ends. */
void *trace_grow(void *list, int count, size_t bytes);

#endif

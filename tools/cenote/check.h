/* SPDX-License-Identifier: MIT */
/*
 * cenote check: what its files share.
 *
 * check.c runs the program. check_read.c reads the records of its processes while they run (record.h of tools/trace)
 * and feeds them, in the order of time, to the analysis:
 *
 *	check_model.c    what each call means: which streams, events and blocks it is about
 *	check_order.c    what comes after what: clocks, streams that wait, events, values
 *	check_memory.c   blocks, which processes have them where, and which have used them
 *	check_find.c     findings: each once, without what the user does not want to see
 *	check_hang.c     which thread or stream waits for which, when the program does not end
 *
 * The analysis reads and writes no files and asks no clock: it is fed, and tells what it finds. check_text.c makes
 * sentences of that, check_page.c a page, check_symbols.c lines of source.
 */
#ifndef CENOTE_TOOLS_CHECK_H
#define CENOTE_TOOLS_CHECK_H

#include "record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { CHECK_NONE = -1, CHECK_NAME_BYTES = 96, CHECK_LABEL_BYTES = 64, CHECK_LANES_MAX = 1 << 16 };

/* ---- Memory, tables (check_table.c) ---- */

void *check_allocate(size_t bytes); /* zeroed; or the command ends */
void *check_grow(void *list, int count, size_t bytes);

struct check_row {
	struct check_row *next;
	uint64_t first, second;
	void *value;
};

/* Two numbers lead to a pointer. */
struct check_table {
	struct check_row **rows;
	size_t room, count;
};

void *check_table_get(const struct check_table *table, uint64_t first, uint64_t second);
void check_table_put(struct check_table *table, uint64_t first, uint64_t second, void *value);
/* What was there, or NULL. */
void *check_table_remove(struct check_table *table, uint64_t first, uint64_t second);
/* Give all to a function, if there is one, and forget them. */
void check_table_clear(struct check_table *table, void (*end)(void *value));

/* ---- Where something was done ---- */

struct check_site {
	int process;
	uint16_t call; /* enum cn_trace_call_id */
	uint32_t thread;
	uint32_t stack;
	int stream;      /* or CHECK_NONE */
	uint64_t object; /* a kernel */
	uint64_t bytes;
	uint64_t time_ns;
};

/* ---- Order (check_order.c) ---- */

/* Of each stream of all processes: how far its work is known to be done. Streams have a place there, their lane. */
struct check_clock {
	uint32_t *at;
	int count;
};

/* A point in a stream's work. */
struct check_epoch {
	int lane;
	uint32_t number;
};

/* What is recorded of an event at a time. */
struct check_record {
	int references;
	struct check_stream *stream;
	uint64_t sequence; /* of the operation */
	bool is_done;
	struct check_clock clock; /* when it is */
	struct check_site site;
};

enum { CHECK_RECORDS_KEPT = 4 };

/* An event, whichever process has it. */
struct check_event {
	int references;
	int process, number;                              /* that created it, and which of its events it is */
	struct check_record *records[CHECK_RECORDS_KEPT]; /* the latest first */
	int record_count;
	int recording;                         /* records that have begun and not returned, */
	struct check_stream *recording_stream; /* the last of them in this stream */
	bool is_shared, is_destroyed;
	struct check_site destroyed;
};

/* A wait that a stream has had lately, for the explanation. */
struct check_wait {
	struct check_event *event;
	struct check_record *record; /* that it took; NULL: there was none */
	struct check_site site;
};
enum { CHECK_WAITS_KEPT = 8 };

enum check_kind_of_operation {
	CHECK_ACCESSES, /* also an allocation and a free */
	CHECK_RECORDS,
	CHECK_WAITS,
	CHECK_WAITS_VALUE,
	CHECK_WRITES_VALUE,
	CHECK_HOST_FUNCTION,
};

struct check_dependence {
	struct check_stream *stream;
	uint64_t sequence;
};

enum { CHECK_READ, CHECK_WRITE, CHECK_EITHER, CHECK_ALLOCATE, CHECK_FREE, CHECK_RELEASE };

/* Bytes of a block: rows, in slices, with what lies between left out. */
struct check_shape {
	uint64_t begin, row_bytes, pitch, rows, slice, slices;
};

struct check_use {
	struct check_mapping *mapping;
	struct check_shape shape;
	int mode;
	bool by_kernel; /* somewhere in the shape */
	bool is_loose;  /* by a kernel that may order itself with others */
};
enum { CHECK_USES_MAX = 24 };

struct check_operation {
	struct check_operation *next;
	enum check_kind_of_operation kind;
	struct check_stream *stream;
	struct check_site site;
	uint64_t sequence;
	struct check_clock known; /* to the thread that submitted it; empty: it was done at once */
	struct check_dependence *after;
	int after_count;
	struct check_record *record; /* to be made or waited for */
	struct check_event *event;
	struct check_value *value; /* a word of memory */
	uint64_t operand;
	unsigned int flags;
	bool is_wide, is_satisfied;
	struct check_host *host; /* also a kernel that is watched */
	struct check_use *uses;
	int use_count;
};

/* A host function, from its launch until it has returned; or a kernel that is watched. */
struct check_host {
	struct check_operation *operation; /* NULL: not submitted yet, or done */
	int process;
	uint64_t number; /* of the record of its launch */
	bool has_begun, has_ended, is_over;
	struct check_clock known; /* when it returned */
	uint32_t thread;
	bool is_exact;    /* a kernel: what follows is all that it did */
	uint64_t *ranges; /* as in the record: pairs of words */
	size_t range_words, range_room;
};

/* A word that streams write and wait for. */
struct check_value {
	struct check_block *block;
	uint64_t offset;
	bool is_known;
	uint64_t value;
	uint64_t writes;          /* how many there were */
	struct check_clock clock; /* of the writers */
	struct check_site written;
	struct check_table taken; /* lane: the number of the write that its last wait took */
};

struct check_stream {
	struct check *check;
	int index, process, lane, number; /* number: which of its process's; 0: a default stream */
	uint64_t handle;
	uint32_t context, thread;
	bool is_legacy, is_blocking, is_destroyed;
	struct check_clock clock;
	uint64_t seen; /* the version of the host's clock that is in there */
	uint64_t submitted, executed;
	struct check_operation *first, *last; /* those that wait */
	bool is_forced;                       /* being executed, whatever it waits for */
	struct check_wait *waits; /* CHECK_WAITS_KEPT of them, the last at wait_count - 1, round and round */
	int wait_count;
};

/* What a thread knows; by default one for all threads of all processes. */
struct check_agent {
	struct check_clock clock;
	uint64_t version;
};

void check_clock_join(struct check_clock *clock, const struct check_clock *other);
void check_clock_free(struct check_clock *clock);
bool check_clock_has(const struct check_clock *clock, struct check_epoch epoch);

struct check_record *check_record_hold(struct check_record *record);
void check_record_release(struct check_record *record);
void check_event_release(struct check_event *event);

struct check_stream *check_stream_add(struct check *check, int process, uint64_t handle, uint32_t context);
void check_stream_destroy(struct check_stream *stream);
/* Take an operation, and do it if the stream has come to it. It and what it has belong to the stream then. */
void check_submit(struct check_stream *stream, const struct check_agent *agent, struct check_operation *operation);
/* The stream is known to have done this much: what it seemed to wait for has happened. */
void check_force(struct check_stream *stream, uint64_t sequence);
void check_force_record(struct check_record *record);
/* A thread learns what the stream has done. */
void check_learn(struct check *check, struct check_agent *agent, const struct check_clock *clock);
/* The agent has waited for all that a process had submitted, also to streams that are gone. */
void check_learn_all(struct check *check, struct check_agent *agent, int process);
/* Do what can be done now. */
void check_settle(struct check *check);
void check_host_free(struct check *check, struct check_host *host);
/* That of a call; it is made if there is none. */
struct check_host *check_host_of(struct check *check, int process, uint64_t number);
/* What a kernel did in place of what it may do. */
void check_make_exact(struct check_operation *operation);
void check_operation_free(struct check_operation *operation);

/* ---- Memory (check_memory.c) ---- */

struct check_access {
	struct check_site site;
	struct check_shape shape;
	int mode;
	struct check_epoch epoch;
	bool by_import; /* in a process that has imported the block */
	bool by_kernel; /* somewhere in the shape */
	bool is_loose;  /* by a kernel that may order itself with others */
};

/* A pool that a process has made or imported. */
struct check_pool {
	bool is_shared;
	struct check_site made;
};

/* Memory that was allocated once, whichever processes have it. */
struct check_block {
	int references;
	struct check *check;
	int process;
	uint64_t bytes;
	bool is_host, is_physical, is_shared, is_freed;
	struct check_site allocated;
	char label[CHECK_LABEL_BYTES];
	struct check_access *accesses;
	int access_count, access_room;
	struct check_mapping *mappings; /* the processes that have it */
	struct check_table values;
};

/* A block in a process. */
struct check_mapping {
	int references;
	struct check_mapping *next; /* of the block */
	struct check_block *block;
	int process;
	uint64_t address, bytes, offset;
	bool is_import, is_gone, is_listed;
	int imports; /* how often, less what was freed */
	struct check_site made, released;
};

/* The mappings of a process, by address. */
struct check_map {
	struct check_mapping **list;
	int count, room;
};

struct check_block *check_block_add(struct check *check, const struct check_site *site, uint64_t bytes);
void check_block_release(struct check_block *block);
struct check_mapping *check_map_add(struct check *check, int process, struct check_block *block, uint64_t address,
				    uint64_t bytes, uint64_t offset);
struct check_mapping *check_map_find(const struct check *check, int process, uint64_t address);
void check_mapping_release(struct check_mapping *mapping);
/* Forget what is mapped in a range. */
void check_map_remove(struct check *check, int process, uint64_t address, uint64_t bytes);
/* Forget a process's mappings. */
void check_map_clear(struct check *check, int process);
/* Something is done to a block: is it ordered after what was done before? The clock has it already. */
void check_use(const struct check_clock *clock, struct check_epoch epoch, const struct check_site *site,
	       const struct check_use *use);
bool check_shapes_meet(const struct check_shape *left, const struct check_shape *right);

/* ---- Findings (check_find.c) ---- */

enum check_kind {
	CHECK_KIND_RACE,             /* 1 */
	CHECK_KIND_BEFORE_ALLOCATED, /* 2 */
	CHECK_KIND_AFTER_FREE,
	CHECK_KIND_AFTER_EXPORTER,
	CHECK_KIND_FREE_UNORDERED, /* 3 */
	CHECK_KIND_EVENT_GONE,     /* 4 */
	CHECK_KIND_EVENT_AGAIN,
	CHECK_KIND_EVENT_EARLY,
	CHECK_KIND_FREE_BEFORE_CLOSE, /* 5 */
	CHECK_KIND_FREED_TWICE,
	CHECK_KIND_NOT_CLOSED,
	CHECK_KIND_LEAKED,
	CHECK_KIND_HOLDER_DIED,
	CHECK_KIND_CYCLE, /* 6 */
	CHECK_KIND_HANG,
	CHECK_KIND_AFTER_FORK, /* 7 */
	CHECK_KIND_CLOSED_IN_USE,
	CHECK_KIND_EVENT_DESTROYED,
	CHECK_KINDS
};

/* What a finding is about; the one that was done first is first. */
struct check_finding {
	enum check_kind kind;
	int first_mode, second_mode;
	struct check_site first, second; /* call CN_CALL_COUNT: there is none */
	struct check_epoch epoch;        /* of the first, if it is stream work */
	const struct check_block *block; /* or NULL */
	const struct check_event *event; /* or NULL */
	const struct check_site *third;  /* what explains it, or NULL */
	const char *text;                /* of a hang: all of it */
	uint64_t count;
};

extern const char *const check_kind_names[CHECK_KINDS];

void check_found(struct check *check, const struct check_finding *finding);

/* ---- All of it (check_model.c) ---- */

struct check_stack {
	uint64_t digest; /* the same in all processes */
	int count;
	uint64_t frames[CN_TRACE_FRAMES];
};

struct check_process {
	int pid, parent;
	char command[CN_TRACE_TEXT_BYTES];
	bool has_ended, was_killed, is_forked, said_fork;
	int streams, events; /* how many were made */
	int *lanes;          /* of streams that are gone, for the next ones */
	int lane_count;
	struct check_clock remains; /* what these have done */
	struct check_map map;
	struct check_table pools;     /* handle: struct check_pool */
	struct check_table stacks;    /* number: struct check_stack */
	struct check_table modules;   /* number: path */
	struct check_table functions; /* function: name */
	struct check_table hosts;     /* record: struct check_host */
	struct check_table open;      /* record: struct check_open */
};

/* A call that has begun. */
struct check_open {
	struct cn_trace_record record;
	struct check_site site;
	uint64_t until;              /* a stream's operations when a wait for it began */
	struct check_record *waited; /* of an event, when a wait for it began */
	struct check_event *recording;
};

struct check_options {
	bool is_strict;
	void *data;
	void (*found)(const struct check *check, const struct check_finding *finding, void *data);
};

struct check {
	struct check_options options;
	struct check_process **processes;
	int process_count;
	struct check_stream **streams;
	int stream_count;
	uint32_t *lanes; /* the number of the last operation */
	int lane_count;
	int waiting; /* streams with operations that wait */
	struct check_agent host;
	uint64_t versions;         /* of agents' clocks */
	struct check_table agents; /* with is_strict: process and thread */
	struct check_table stream_table, event_table, memory_table;
	struct check_table exports;     /* kind and handle: what was exported */
	struct check_table sent;        /* with is_strict: what was known when something was sent */
	struct check_table said;        /* findings that were told */
	struct check_export **exported; /* the same, in the order of time: the oldest is forgotten */
	uint64_t export_count;
	uint64_t finding_count;
	bool is_interrupted; /* the user ends the program: what its processes leave is no mistake of theirs */
};

struct check *check_new(const struct check_options *options);
void check_free(struct check *check);

/* A process has appeared; returns its index. */
int check_process_begins(struct check *check, const struct cn_trace_header *header);
/* Texts, stacks, files: what is not a call. The words and labels of calls are given with their calls. */
void check_note(struct check *check, int process, const struct cn_trace_record *record);
/* A call has begun, or has returned. Words are those of CN_TRACE_WORDS. */
void check_call_begins(struct check *check, int process, uint64_t number, const struct cn_trace_record *record);
void check_call_ends(struct check *check, int process, uint64_t number, const struct cn_trace_record *record,
		     const uint64_t *words, size_t word_count, const char *label);
void check_host_begins(struct check *check, int process, const struct cn_trace_record *record);
void check_host_ends(struct check *check, int process, const struct cn_trace_record *record);
void check_kernel_touches(struct check *check, int process, const struct cn_trace_record *record);
void check_kernel_ends(struct check *check, int process, const struct cn_trace_record *record);
/* CN_TRACE_RUNS: it was killed. */
void check_process_ends(struct check *check, int process, enum cn_trace_end end);
/* The program is to be ended: which thread or stream waits for which? With `any` also if that is not for ever. */
void check_hangs(struct check *check, bool any);

/* The agent of a thread. */
struct check_agent *check_agent_of(struct check *check, int process, uint32_t thread);

/* ---- What calls mean (check_calls.c) ---- */

/* A call that has returned, and what it needs. */
struct check_call {
	struct check *check;
	int process;
	uint64_t number;
	const struct cn_trace_record *record;
	enum cn_trace_act act;
	struct check_site site;
	struct check_agent *agent;
	const struct check_open *open;
	const uint64_t *words;
	size_t word_count;
	const char *label;
};

void check_call_memory(struct check_call *call);
void check_call_sharing(struct check_call *call);
void check_call_events(struct check_call *call);
void check_call_streams(struct check_call *call);
/* A call that has failed: is it by a mistake that is known? */
void check_call_failed(struct check_call *call);

/* The stream that a call means. */
struct check_stream *check_stream_of(struct check *check, int process, const struct cn_trace_record *record);
struct check_event *check_event_of(struct check *check, int process, uint64_t handle);
/* An operation of a call, to be submitted; uses can be added. */
struct check_operation *check_operation_new(const struct check_call *call, enum check_kind_of_operation kind);
/* What was exported by a handle; NULL: not known. */
struct check_export {
	enum cn_trace_act act;
	uint64_t handle;
	struct check_event *event;
	struct check_block *block;
	struct check_clock known;
};
struct check_export *check_export_find(const struct check *check, enum cn_trace_act act, uint64_t handle);
struct check_export *check_export_add(struct check_call *call);
void check_export_free(struct check_export *export);

/* ---- Sentences (check_text.c), symbols (check_symbols.c), pages (check_page.c) ---- */

const char *check_call_name(uint16_t call);
bool check_call_is(uint16_t call, enum cn_trace_act act);
void check_write_text(const struct check *check, const struct check_finding *finding, uint64_t number, FILE *to);
void check_write_json(const struct check *check, const struct check_finding *finding, FILE *to);
void check_page_begins(FILE *to);
void check_page_adds(const struct check *check, const struct check_finding *finding, uint64_t number, FILE *to);
void check_page_ends(FILE *to, uint64_t count);
/* The sentence of a finding, and how to mend it. */
void check_sentence(const struct check *check, const struct check_finding *finding, char *text, size_t bytes);
void check_remedy(const struct check *check, const struct check_finding *finding, char *text, size_t bytes);
void check_name_process(const struct check *check, int process, char name[CHECK_NAME_BYTES]);
void check_name_stream(const struct check *check, const struct check_site *site, char name[CHECK_NAME_BYTES]);
/* FILE:LINE of the caller, or the file and an offset in it; "": not known. */
void check_place(const struct check *check, const struct check_site *site, char name[CHECK_NAME_BYTES]);

struct check_frame {
	char function[CHECK_NAME_BYTES];
	char place[CHECK_NAME_BYTES];
	bool is_ours; /* in a library of Cenote's or CUDA's */
};
int check_frames(const struct check *check, const struct check_site *site, struct check_frame frames[CN_TRACE_FRAMES]);
void check_symbols_free(void);

/* ---- Reading (check_read.c) ---- */

/* Feed what the files of a directory have by now, and that happened before a time. */
void check_read(struct check *check, const char *directory, uint64_t until_ns, bool (*is_dead)(pid_t pid));
void check_read_free(void);
uint64_t check_read_lost(void);
uint64_t check_read_calls(void);

#endif

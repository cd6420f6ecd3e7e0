/* SPDX-License-Identifier: MIT */
/*
 * The file of records that a traced process leaves for `cenote trace`, and that `cenote check` reads while it runs.
 *
 * Each process writes a file of its own, PID.N in the directory of CENOTE_TRACE_DIR: a header, then records of one
 * size, in the order in which calls began. The file is mapped, so what a process has written survives however it ends.
 * A record becomes visible with its state: BEGUN before the call goes on to the library, ENDED when it has returned and
 * all is filled in. A record whose state is UNUSED was never filled: its process was killed meanwhile.
 *
 * With CENOTE_TRACE_CHECK=1 the process keeps more, for `cenote check`: of each call its stack and its context, and in
 * records of their own what does not fit into one (WORDS), stacks and the files they lead to, once each, and when host
 * functions have run. All that belongs to a call is visible before its ENDED is. BEGUN is visible before the call has
 * had any effect, ENDED before its caller can tell others about it: so a reader that takes all calls up to some time,
 * and then the next ones, sees no effect before its cause.
 *
 * Times are CLOCK_MONOTONIC's, the same for all processes of a machine. Writer and reader come from one build: the
 * magic has a version, and files are not kept.
 */
#ifndef CENOTE_TRACE_RECORD_H
#define CENOTE_TRACE_RECORD_H

#include <stdatomic.h>
#include <stdint.h>

#define CN_TRACE_MAGIC              "cntrace2"
/* Where the files go; if it is "1": whether marks are put into a GPU's streams; what a check needs is kept. */
#define CN_TRACE_DIRECTORY_VARIABLE "CENOTE_TRACE_DIR"
#define CN_TRACE_MARKS_VARIABLE     "CENOTE_TRACE_MARKS"
#define CN_TRACE_CHECK_VARIABLE     "CENOTE_TRACE_CHECK"
/* If it is "1": kernels are watched while they run. */
#define CN_TRACE_EXACT_VARIABLE     "CENOTE_TRACE_EXACT"
/* A number: streams pause at random, as it says. */
#define CN_TRACE_DELAY_VARIABLE     "CENOTE_TRACE_DELAY"

enum { CN_TRACE_HEADER_BYTES = 4096, CN_TRACE_RECORD_BYTES = 128, CN_TRACE_TEXT_BYTES = 96 };
/* Words in one record; frames of a stack. */
enum { CN_TRACE_WORDS_MAX = CN_TRACE_TEXT_BYTES / 8, CN_TRACE_FRAMES = 10 };
/* A frame is the number of a file and an offset in it; an argument is what is done with it, and its value. */
enum { CN_TRACE_NUMBER_SHIFT = 48, CN_TRACE_USE_SHIFT = 56 };

/* What a kernel can do with the memory that an argument leads to; and whether it may order itself with others. */
enum cn_trace_use {
	CN_TRACE_MAY_USE,
	CN_TRACE_READS,
	CN_TRACE_WRITES,
	CN_TRACE_DOES_NOTHING,
	CN_TRACE_ORDERS_ITSELF = 4, /* one of the others, and this */
};

/* How a process ended. */
enum cn_trace_end { CN_TRACE_RUNS, CN_TRACE_EXITED, CN_TRACE_EXECUTED };

struct cn_trace_header {
	char magic[8];
	int32_t pid, parent;
	uint64_t start_ticks; /* when the process was started, as /proc/PID/stat has it: execve() keeps it */
	uint64_t opened_ns;
	_Atomic uint64_t ended_ns;
	_Atomic uint32_t end;              /* enum cn_trace_end */
	_Atomic int32_t status;            /* of CN_TRACE_EXITED */
	_Atomic uint64_t lost;             /* calls that there was no room for */
	_Atomic uint64_t next;             /* records that are taken */
	int32_t forked;                    /* by a process that had made calls, and has executed nothing since */
	char command[CN_TRACE_TEXT_BYTES]; /* as much of its command line as fits */
};

enum cn_trace_state {
	CN_TRACE_UNUSED,
	CN_TRACE_BEGUN,
	CN_TRACE_ENDED,
	CN_TRACE_ERROR_TEXT,    /* a part of why the call of record `of` failed */
	CN_TRACE_FUNCTION_NAME, /* what the function `of` is called */
	CN_TRACE_THREAD_NAME,   /* what the thread is called */
	CN_TRACE_LABEL,         /* what the call of record `of` calls its block */
	CN_TRACE_WORDS,         /* more of the call of record `of`: `result` words */
	CN_TRACE_STACK,         /* stack `of`: `result` frames, the innermost first */
	CN_TRACE_MODULE,        /* the file `of` that frames lead to */
	CN_TRACE_HOST_BEGUN,    /* at begin_ns the host function runs that the call of record `object` has launched */
	CN_TRACE_HOST_ENDED,    /* it has returned */
	/*
	 * The kernel that the call of record `of` has launched: at words[0] it has ended, after what it did was
	 * written. Pairs of words: where a range begins, with enum cn_trace_use, and its bytes.
	 */
	CN_TRACE_RANGES,
	CN_TRACE_KERNEL_ENDED, /* words[1]: these were all */
};

enum cn_trace_flags {
	CN_TRACE_PER_THREAD = 1, /* the default stream is the thread's own */
	CN_TRACE_OPEN = 2,       /* what is called within the call is noted, too */
	CN_TRACE_CAPTURED = 4,   /* the stream is being captured: nothing is done */
	CN_TRACE_WATCHED = 8,    /* a kernel, which is watched: its end is written */
};

/* Stands for `reached_ns` when a mark is on its way. */
#define CN_TRACE_MARKED 1

struct cn_trace_record {
	_Atomic uint32_t state;
	uint16_t call; /* enum cn_trace_call_id; of a text: the number of the part */
	uint16_t flags;
	int32_t result;
	uint32_t thread;
	union {
		struct {
			uint64_t begin_ns, end_ns;
			_Atomic uint64_t reached_ns; /* when the stream was seen to have got there; 0: was not seen */
			uint64_t stream, pool, event;
			uint64_t address, source, bytes;
			uint64_t object; /* a kernel; memory of cuMemCreate() */
			uint64_t handle; /* what was exported or imported, as a number that is the same on both sides */
		};
		struct {
			uint64_t of;
			union {
				char text[CN_TRACE_TEXT_BYTES];
				uint64_t words[CN_TRACE_WORDS_MAX];
			};
		};
	};
	uint32_t stack;   /* of the caller; 0: not known */
	uint32_t context; /* which is current, as a number; 0: none, or not known */
};

_Static_assert(sizeof(struct cn_trace_header) <= CN_TRACE_HEADER_BYTES, "the header has its room");
_Static_assert(sizeof(struct cn_trace_record) == CN_TRACE_RECORD_BYTES, "two cache lines");

/* What a call means: the second column of calls.list. */
enum cn_trace_act {
#define ACT(name) CN_ACT_##name,
#include "trace_acts.inc"
#undef ACT
};

/* Does a call put something into a stream? */
static inline int cn_trace_submits(enum cn_trace_act act)
{
	return act == CN_ACT_allocate || act == CN_ACT_free || act == CN_ACT_record || act == CN_ACT_wait ||
	       act == CN_ACT_copy || act == CN_ACT_fill || act == CN_ACT_launch || act == CN_ACT_host ||
	       act == CN_ACT_wait_value || act == CN_ACT_write_value || act == CN_ACT_batch;
}

/* The calls of calls.list. */
enum cn_trace_call_id {
#define CALL(name, act, is_runtime) CN_CALL_##name,
#include "trace_calls.inc"
#undef CALL
	CN_CALL_COUNT
};

#endif

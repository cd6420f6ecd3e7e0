/* SPDX-License-Identifier: MIT */
/*
 * What the files of the cuda device know of each other. No file outside this folder includes it.
 *
 * cuda_stream.c finds streams and sees them come and go; cuda_context.c does so for contexts. cuda_mark.c asks the
 * driver how far they are; cuda_follow.c knows which stream waits for which; cuda_notes.c calls back when a stream has
 * reached a point; cuda_arena.c and cuda_view.c have the memory, and cuda_kept.c the descriptors of it.
 *
 * Locks, in this order: a context's `asking`; a stream's, under which alone the driver is asked about it (of two
 * streams, the one at the lower address first); then the table's, or that of a stream's notes, or that of what it
 * follows. None is held while a note runs.
 */
#ifndef CN_DEVICE_CUDA_CUDA_INTERNAL_H
#define CN_DEVICE_CUDA_CUDA_INTERNAL_H

#include "base/clock.h"
#include "base/container.h"
#include "device/cuda/cuda_library.h"
#include "device/cuda/cuda_stream.h"
#include "device/grace.h"

enum {
	CN_CUDA_MARKS_MAX = 8,     /* of a stream, that are not known to be done */
	CN_CUDA_EVENTS_MAX = 64,   /* of a context, kept for marks to come */
	CN_CUDA_FOLLOWED_MAX = 64, /* entries of a stream */
};

enum cn_cuda_kind { CN_CUDA_ORDINARY, CN_CUDA_LEGACY, CN_CUDA_PER_THREAD };

enum cn_cuda_state {
	CN_CUDA_SPARE, /* unused: another stream may have the record */
	CN_CUDA_LIVE,
	CN_CUDA_DYING, /* the stream is gone, and its last mark covers all of it */
	CN_CUDA_LOST,  /* it is gone, and only a wait for its whole context shows that its work is done */
};

struct cn_cuda_mark {
	CUevent event;
	uint64_t number;
};

struct cn_cuda_note {
	struct cn_cuda_note *next;
	uint64_t at; /* due when the queue has completed this */
	void (*function)(void *object, uint64_t number);
	void *object;
	uint64_t number;
};

/* Records of contexts and of their streams are reused, never freed. A stream's record stays with its context's. */
struct cn_cuda_context {
	struct cn_cuda_context *next; /* of all; the list only grows */
	_Atomic(CUcontext) handle;    /* NULL: unused */
	struct cn_device *device;
	_Atomic uint64_t life;   /* which context of this handle; 0: it has ended. Changes under the table's lock */
	_Atomic uint32_t ending; /* number of calls that may end it: see cn_cuda_context_ending() */
	_Atomic(struct cn_cuda_stream *) streams; /* all records; the list only grows */
	struct cn_cuda_stream *legacy;            /* these are guarded by the table's lock */
	struct cn_cuda_stream *spare;
	struct cn_cuda_stream *dying, **dying_end; /* oldest first */
	CN_DRIVER_LOCK(CUDA_ASKING) asking;        /* held while the driver is asked about all of it; guards `grace` */
	CUevent grace[CN_GRACE_PERIODS_MAX];       /* what was under way when each period began; NULL: done */
	CN_LOCK(CUDA_CONTEXT_EVENTS) lock;         /* of the events */
	CUevent events[CN_CUDA_EVENTS_MAX];
	unsigned event_count;
};

struct cn_cuda_stream {
	/*
	 * `submitted` counts the spans that have ended: the open one has the next number. The queue's own lock is not
	 * used; the one below is for the driver.
	 */
	struct cn_queue queue;
	_Atomic uint64_t taken;     /* the highest number that a caller was given */
	_Atomic uint64_t wanted_ns; /* since when other threads want its own thread to mark it; 0: they do not */
	struct cn_cuda_context *context;
	struct cn_cuda_stream *next; /* of the context's */

	CN_DRIVER_LOCK(CUDA_STREAM) lock; /* guards what follows */
	_Atomic int state;                /* enum cn_cuda_state; is read without the lock as well */
	_Atomic int kind;                 /* enum cn_cuda_kind; the same */
	_Atomic bool blocking;            /* ordered with the context's legacy stream; the same */
	CUstream handle;
	bool spoilt;                                  /* the driver can no longer say how far it is */
	_Atomic uint64_t thread;                      /* the thread whose per-thread stream it is; 0: none */
	uint64_t final;                               /* of one that is gone: all that was ever given out */
	struct cn_cuda_mark marks[CN_CUDA_MARKS_MAX]; /* oldest first */
	unsigned mark_count;
	struct cn_cuda_mark wide;    /* of the whole context, where the stream cannot be named; no event: none */
	_Atomic uint64_t pending_ns; /* when the driver was asked last and work was pending */

	struct cn_cuda_stream *next_in_list; /* of spare or dying ones; the table's lock guards this and the next */
	bool in_hand;                        /* a thread has it, to open it or to look at it: it is in no list */
	struct cn_cuda_stream *next_noted;

	CN_QUICK_LOCK(CUDA_STREAM_NOTES) note_lock; /* guards what follows */
	bool listed;                                /* among those that the notes' thread looks at */
	struct cn_cuda_note *first_note, *last_note;
	struct cn_cuda_note *spare_note; /* records for notes to come */
	unsigned spare_note_count;
	_Atomic uint64_t given; /* how many notes there ever were; this and the next two are read without the lock */
	_Atomic uint64_t first_due;        /* the `at` of the first note; UINT64_MAX: there is none */
	_Atomic uint32_t running;          /* threads that run notes of this queue */
	uint64_t given_seen, held_back_ns; /* the notes' thread's own: see is_still_giving() */

	CN_QUICK_LOCK(CUDA_FOLLOWED) followed_lock;        /* guards what follows; the last two are read without it */
	struct cn_followed followed[CN_CUDA_FOLLOWED_MAX]; /* a ring; `followed_last` entries were ever made */
	_Atomic uint64_t followed_last;
	_Atomic uint64_t outside_first, outside_until; /* see cn_cuda_waits_outside() */
};

static inline struct cn_cuda_stream *cn_cuda_stream_of(struct cn_queue *queue)
{
	return cn_container_of(queue, struct cn_cuda_stream, queue);
}

/* ---- cuda.c ---- */

extern struct cn_device *cn_cuda_devices; /* those that init() found */
extern int cn_cuda_device_count;

/* ---- cuda_context.c ---- */

/* NULL: it has no record. Table locked. */
struct cn_cuda_context *cn_cuda_context_find_locked(CUcontext handle);
/* The record of a context, created if there is none, and its life. May wait: see cn_cuda_context_ending(). */
CUresult cn_cuda_context_get(CUcontext handle, struct cn_cuda_context **ret_context, uint64_t *ret_life);
/* All records, also of contexts that have ended. NULL: there has never been one. */
struct cn_cuda_context *cn_cuda_contexts(void);

/* ---- cuda_stream.c ---- */

extern CN_LOCK(CUDA_TABLE) cn_cuda_table_lock;
/* The handle of a stream leads nowhere any more, unless it is another stream's by now. */
void cn_cuda_forget(CUstream handle, const struct cn_cuda_stream *stream);

/* This thread, among all that ever used a per-thread stream. */
uint64_t cn_cuda_thread(void);

/* ---- cuda_mark.c ---- */

/* As cn_cuda_point_now(), and makes no callback. */
CUresult cn_cuda_take_point(struct cn_cuda_stream *stream, uint64_t owner, struct cn_point *ret_point);

/* A stay in the driver: calls that it forbids during a capture are allowed, and a context may be current. */
struct cn_cuda_stay {
	CUstreamCaptureMode mode;
	bool moded, pushed;
};
/* `context` NULL: any current one will do. False: the context cannot be made current, and nothing has changed. */
bool cn_cuda_enter(struct cn_cuda_stay *stay, CUcontext context);
void cn_cuda_leave(struct cn_cuda_stay *stay);

/* Check which marks are done. Returns the driver's answer about the last one it was asked about. Stream locked. */
CUresult cn_cuda_update(struct cn_cuda_stream *stream);
/*
 * A mark that covers a number: an existing one, or a new one. NULL: none can be made now. Stream locked; the event is
 * valid until it is unlocked.
 */
CUevent cn_cuda_cover(struct cn_cuda_stream *stream, uint64_t number);
/*
 * Make sure that cn_cuda_update() will find out when all up to the number has happened, without an avoidable wait in a
 * stream of the program. False: there is no way now. Stream locked.
 */
bool cn_cuda_watch(struct cn_cuda_stream *stream, uint64_t number);
/* Will the existing marks tell that all up to the number has happened? Stream locked. */
bool cn_cuda_is_covered(struct cn_cuda_stream *stream, uint64_t number);
/*
 * Record an event of all that a context was given so far; the open span of `queue`, if not NULL, ends just before. The
 * context stays meanwhile, and the driver has such events (cn_cuda_record_all).
 */
enum cn_cuda_recorded {
	CN_CUDA_RECORDED,
	CN_CUDA_NOT_NOW,     /* it may be later */
	CN_CUDA_CONTEXT_LOST /* see cn_cuda_is_the_end() */
};
enum cn_cuda_recorded cn_cuda_record_context(struct cn_cuda_context *context, struct cn_queue *queue,
					     struct cn_cuda_mark *ret_mark);
void cn_cuda_give_event(struct cn_cuda_context *context, CUevent event); /* for a mark to come */
/*
 * Has the context failed, or has the driver shut down? Then it is unknown whether work is still under way, until the
 * context is destroyed. Any other answer that says nothing, such as that to a host function, holds only for the moment.
 */
bool cn_cuda_is_the_end(CUresult result);
void cn_cuda_drop_marks(struct cn_cuda_stream *stream); /* the context is gone, and its events with it */
/* All up to the number has happened. */
void cn_cuda_complete(struct cn_cuda_stream *stream, uint64_t number);
/* The highest number that may be waited for. */
uint64_t cn_cuda_needed(struct cn_cuda_stream *stream);
/* Wait for all of the stream's context, where there is no other way left. Stream locked. */
void cn_cuda_wait_for_context(struct cn_cuda_stream *stream);

/* ---- cuda_follow.c ---- */

/* A record starts over, for another stream. */
void cn_cuda_follow_open(struct cn_cuda_stream *stream);

/* ---- cuda_notes.c ---- */

/* Run what is due. */
void cn_cuda_run_notes(struct cn_cuda_stream *stream);
bool cn_cuda_has_notes(struct cn_cuda_stream *stream);
/* From now on no note is run: the process ends. Returns when the notes' thread is out of the driver. */
void cn_cuda_stop_notes(void);

/* ---- cuda_grace.c ---- */

bool cn_cuda_grace_begin(unsigned slot);
bool cn_cuda_grace_is_over(unsigned slot);

/* ---- cuda_access.c: rights to mapped memory ---- */

/* Addresses and what is known of the memory there. */
struct cn_cuda_span {
	CUdeviceptr start;
	size_t bytes;
};
/*
 * Give `users` rights to the memory there, and take them from those of `before` that are not in `users`. `location` is
 * the memory's own. All or nothing.
 */
CUresult cn_cuda_allow(struct cn_cuda_span span, CUmemLocation location, struct cn_users before, struct cn_users users);

/* ---- cuda_kept.c ---- */

/* When the device is set up: before the service thread, whose fork() handlers must come first. */
void cn_cuda_keep_open(void);
/* A chunk's descriptor, which stays open until cn_cuda_let_go() closes it. False: there are enough. */
bool cn_cuda_keep(int fd);
void cn_cuda_let_go(int fd);

/* ---- cuda_arena.c, cuda_view.c ---- */

CUresult cn_cuda_arena_create(struct cn_device *device, int node, size_t bytes, size_t alignment, bool shareable,
			      struct cn_arena **ret_arena, void **ret_base);
void cn_cuda_arena_free(struct cn_arena *arena);
CUresult cn_cuda_arena_allow(struct cn_arena *arena, struct cn_users users);
CUresult cn_cuda_arena_commit(struct cn_arena *arena, size_t offset, size_t bytes);
void cn_cuda_arena_decommit(struct cn_arena *arena, size_t offset, size_t bytes);
size_t cn_cuda_arena_reclaim(struct cn_arena *arena, size_t offset);
CUresult cn_cuda_arena_part(struct cn_arena *arena, size_t offset, struct cn_arena_part *ret_part);
uint64_t cn_cuda_arena_serial(const struct cn_arena *arena, size_t offset, size_t *ret_end);
void cn_cuda_arena_watch(struct cn_arena *arena, void (*function)(void *object, size_t offset), void *object);

CUresult cn_cuda_view_create(size_t bytes, size_t alignment, struct cn_view **ret_view, void **ret_base);
CUresult cn_cuda_view_map(struct cn_view *view, const struct cn_arena_part *part);
void cn_cuda_view_unmap(struct cn_view *view, size_t offset, size_t bytes);
CUresult cn_cuda_view_allow(struct cn_view *view, struct cn_users users);
void cn_cuda_view_free(struct cn_view *view);
bool cn_cuda_descriptor_is_memory(int fd);

#endif

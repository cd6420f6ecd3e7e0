/* SPDX-License-Identifier: MIT */
/*
 * Notes: short functions of the library that are called when a stream has reached a point.
 *
 * The driver's own callbacks cost microseconds to submit, so a thread polls instead. A note is put on a list of its
 * queue. The thread goes from queue to queue: one mark covers all notes that came before it, and when it is done they
 * run. It looks often at first and then less often, up to a millisecond apart; when there has been nothing for a while,
 * it sleeps until there is. When a program waits for its stream, the stream's notes run at once, before the wait
 * returns.
 *
 * While a program gives one note after the other the thread holds back, for half a millisecond at most: if it ran the
 * notes at the same time, the two threads would take the same few cache lines from each other all the time, and a free
 * would cost the program several times as much.
 *
 * A note is taken off its list under the stream's lock for notes, so it runs once.
 */
#include "device/cuda/cuda_internal.h"

#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	LOOK_NS_MIN = 20000,
	LOOK_NS_MAX = 1000000,
	IDLE_LOOKS_MAX = 20,      /* with nothing to do, before the thread sleeps for good */
	STOP_NS_MAX = 1000000000, /* how long the end of the process waits for it */
	HELD_BACK_NS_MAX = 500000,
	FEW_NOTES = 16,         /* between two looks: not worth holding back */
	SPARE_NOTES_MAX = 1024, /* of a stream */
};

static struct {
	CN_LOCK(CUDA_NOTES) lock;
	struct cn_cuda_stream *fresh; /* listed since the thread looked last */
	_Atomic uint32_t sleeping;    /* it sleeps until another thread sets this to 0 */
	_Atomic uint32_t stopped;     /* it is out of its loop */
	_Atomic bool stopping;
	bool started;
	_Atomic pid_t process; /* the process whose thread it is; 0: none yet */
} notes;

/* ---- Records of notes ---- */

/* NULL: there is none. Notes locked. */
static struct cn_cuda_note *take_note(struct cn_cuda_stream *stream)
{
	struct cn_cuda_note *note = stream->spare_note;

	if (note) {
		stream->spare_note = note->next;
		stream->spare_note_count--;
	}
	return note;
}

/* Some, linked, from the first to the last. */
static void give_notes(struct cn_cuda_stream *stream, struct cn_cuda_note *first, struct cn_cuda_note *last,
		       unsigned count)
{
	cn_quick_lock(&stream->note_lock);
	bool room = stream->spare_note_count < SPARE_NOTES_MAX;
	if (room) {
		last->next = stream->spare_note;
		stream->spare_note = first;
		stream->spare_note_count += count;
	}
	cn_quick_unlock(&stream->note_lock);
	if (room)
		return;
	last->next = NULL;
	for (struct cn_cuda_note *next; first; first = next) {
		next = first->next;
		free(first);
	}
}

/* ---- Running ---- */

bool cn_cuda_has_notes(struct cn_cuda_stream *stream)
{
	return atomic_load(&stream->first_due) != UINT64_MAX || atomic_load(&stream->running);
}

static bool is_due(struct cn_cuda_stream *stream, const struct cn_cuda_note *note)
{
	return cn_point_reached((struct cn_point){&stream->queue, note->at});
}

/* Take what is due off the list. The caller counts as one that runs notes. */
static struct cn_cuda_note *take_due(struct cn_cuda_stream *stream)
{
	struct cn_cuda_note *first = NULL, *last = NULL;

	cn_quick_lock(&stream->note_lock);
	if (stream->first_note && is_due(stream, stream->last_note)) { /* then all are: numbers do not go back */
		last = stream->last_note;
	} else {
		for (struct cn_cuda_note *note = stream->first_note; note && is_due(stream, note); note = note->next)
			last = note;
	}
	if (last) {
		first = stream->first_note;
		stream->first_note = last->next;
		last->next = NULL;
		atomic_fetch_add(&stream->running, 1); /* before `first_due`: a thread that sees neither misses none */
		atomic_store(&stream->first_due, stream->first_note ? stream->first_note->at : UINT64_MAX);
	}
	cn_quick_unlock(&stream->note_lock);
	return first;
}

/* True: there were some. */
static bool run_due(struct cn_cuda_stream *stream)
{
	struct cn_cuda_note *first = take_due(stream), *last = NULL;
	unsigned count = 0;

	if (!first)
		return false;
	for (struct cn_cuda_note *note = first; note; note = note->next) {
		note->function(note->object, note->number);
		last = note;
		count++;
	}
	give_notes(stream, first, last, count);
	if (atomic_fetch_sub(&stream->running, 1) == 1)
		cn_futex_wake(&stream->running, INT32_MAX);
	return true;
}

void cn_cuda_run_notes(struct cn_cuda_stream *stream)
{
	run_due(stream);
	/* Other threads may be running notes: what they have taken must have run, too. */
	for (uint32_t running; (running = atomic_load(&stream->running));)
		cn_futex_wait(&stream->running, running, -1);
}

/* ---- The thread ---- */

/* Bring the stream up to date, and make sure that its notes are covered. False: looking again is of no use. */
static bool look_at(struct cn_cuda_stream *stream)
{
	cn_quick_lock(&stream->note_lock);
	uint64_t last = stream->first_note ? stream->last_note->at : 0;
	cn_quick_unlock(&stream->note_lock);
	if (!last)
		return true;
	cn_driver_lock(&stream->lock);
	cn_cuda_update(stream);
	if (!cn_cuda_watch(stream, last) && atomic_load(&stream->state) != CN_CUDA_LIVE)
		cn_cuda_wait_for_context(stream);
	bool hopeless = stream->spoilt && !cn_point_reached((struct cn_point){&stream->queue, last});
	cn_driver_unlock(&stream->lock);
	return !hopeless;
}

/* Have many notes come since the last look? Then what is due can wait a little. */
static bool is_still_giving(struct cn_cuda_stream *stream)
{
	uint64_t given = atomic_load_explicit(&stream->given, memory_order_relaxed), now = cn_clock_ns();
	bool giving = given - stream->given_seen > FEW_NOTES;

	stream->given_seen = given;
	if (giving && !stream->held_back_ns)
		stream->held_back_ns = now;
	giving = giving && now - stream->held_back_ns < HELD_BACK_NS_MAX;
	if (!giving)
		stream->held_back_ns = 0;
	return giving;
}

/* True: the stream has no notes left, or none that this thread can do anything for. */
static bool is_done_with(struct cn_cuda_stream *stream, bool hopeful)
{
	cn_quick_lock(&stream->note_lock);
	bool done = !stream->first_note || !hopeful;
	if (done)
		stream->listed = false;
	cn_quick_unlock(&stream->note_lock);
	return done;
}

/* Look at all that are listed, and keep those that have to be looked at again. True: something has happened. */
static bool go_round(struct cn_cuda_stream **listed)
{
	struct cn_cuda_stream *next, *kept = NULL;

	cn_lock(&notes.lock);
	struct cn_cuda_stream *fresh = notes.fresh;
	notes.fresh = NULL;
	cn_unlock(&notes.lock);
	bool progress = fresh != NULL;
	for (unsigned turn = 0; turn < 2; turn++) {
		for (struct cn_cuda_stream *stream = turn ? fresh : *listed; stream; stream = next) {
			next = stream->next_noted; /* now: once it is not listed any more, others may list it */
			bool hopeful = !atomic_load(&notes.stopping) && look_at(stream);
			progress |= (hopeful && is_still_giving(stream)) || run_due(stream);
			if (is_done_with(stream, hopeful))
				continue;
			stream->next_noted = kept;
			kept = stream;
		}
	}
	*listed = kept;
	return progress;
}

/* No note has come for a while. */
static void sleep_long(void)
{
	atomic_store(&notes.sleeping, 1);
	cn_lock(&notes.lock);
	bool fresh = notes.fresh != NULL;
	cn_unlock(&notes.lock);
	if (fresh || atomic_load(&notes.stopping))
		atomic_store(&notes.sleeping, 0);
	while (atomic_load(&notes.sleeping))
		cn_futex_wait(&notes.sleeping, 1, -1);
}

static void *watch(void *unused)
{
	static _Atomic uint32_t never;
	struct cn_cuda_stream *listed = NULL;
	int64_t pause_ns = LOOK_NS_MIN;
	unsigned idle = 0;

	(void)unused;
	while (!atomic_load(&notes.stopping)) {
		bool progress = go_round(&listed);
		idle = progress || listed ? 0 : idle + 1;
		pause_ns = progress ? LOOK_NS_MIN : 2 * pause_ns;
		pause_ns = pause_ns < LOOK_NS_MAX ? pause_ns : LOOK_NS_MAX;
		if (idle > IDLE_LOOKS_MAX) {
			sleep_long();
			pause_ns = LOOK_NS_MIN;
			idle = 0;
		} else {
			cn_futex_wait(&never, 0, pause_ns);
		}
	}
	atomic_store(&notes.stopped, 1);
	cn_futex_wake(&notes.stopped, INT32_MAX);
	return NULL;
}

void cn_cuda_stop_notes(void)
{
	pid_t process = atomic_load(&notes.process);

	if (process && process != getpid())
		return; /* a forked child has no such thread, and there the lock may be held for ever */
	cn_lock(&notes.lock);
	bool started = notes.started;
	atomic_store(&notes.stopping, true);
	cn_unlock(&notes.lock);
	if (!started)
		return;
	if (atomic_exchange(&notes.sleeping, 0))
		cn_futex_wake(&notes.sleeping, 1);
	/* A driver call that does not return must not keep the process from ending. */
	uint64_t begin = cn_clock_ns();
	while (!atomic_load(&notes.stopped) && cn_clock_ns() - begin < STOP_NS_MAX)
		cn_futex_wait(&notes.stopped, 0, STOP_NS_MAX);
}

/* ---- Giving ---- */

/* Have the thread look at the stream. */
static void list(struct cn_cuda_stream *stream)
{
	cn_lock(&notes.lock);
	stream->next_noted = notes.fresh;
	notes.fresh = stream;
	cn_unlock(&notes.lock);
	if (atomic_load(&notes.sleeping) && atomic_exchange(&notes.sleeping, 0))
		cn_futex_wake(&notes.sleeping, 1);
}

static CUresult start(void)
{
	static _Atomic bool known;

	if (__builtin_expect(atomic_load_explicit(&known, memory_order_acquire), 1))
		return CUDA_SUCCESS;
	cn_lock(&notes.lock);
	if (!notes.started) {
		notes.started = cn_thread_start(watch, NULL);
		atomic_store(&notes.process, getpid());
	}
	bool started = notes.started;
	cn_unlock(&notes.lock);
	atomic_store(&known, started);
	return started ? CUDA_SUCCESS
		       : cn_error(CUDA_ERROR_OPERATING_SYSTEM, "could not start the thread that releases memory");
}

CUresult cn_cuda_queue_note(struct cn_queue *queue, uint64_t owner, void (*function)(void *object, uint64_t number),
			    void *object, uint64_t number)
{
	struct cn_cuda_stream *stream = cn_cuda_stream_of(queue);
	struct cn_point point;
	CUresult result = start();

	if (result)
		return result;
	cn_quick_lock(&stream->note_lock);
	struct cn_cuda_note *note = take_note(stream);
	if (__builtin_expect(!note, 0)) {
		cn_quick_unlock(&stream->note_lock);
		note = malloc(sizeof *note);
		if (!note)
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to keep work for later");
		cn_quick_lock(&stream->note_lock);
	}
	result = cn_cuda_take_point(stream, owner, &point);
	bool fresh = !result && !stream->listed;
	if (!result) {
		*note = (struct cn_cuda_note){
			.at = point.number,
			.function = function,
			.object = object,
			.number = number,
		};
		if (stream->first_note) {
			stream->last_note->next = note;
		} else {
			stream->first_note = note;
			atomic_store(&stream->first_due, note->at);
		}
		stream->last_note = note;
		stream->listed = true;
		uint64_t given = atomic_load_explicit(&stream->given, memory_order_relaxed);
		atomic_store_explicit(&stream->given, given + 1, memory_order_relaxed);
	}
	cn_quick_unlock(&stream->note_lock);
	if (result) {
		give_notes(stream, note, note, 1);
		return result;
	}
	if (stream->kind == CN_CUDA_PER_THREAD) { /* no other thread can name the stream */
		cn_driver_lock(&stream->lock);
		if (atomic_load(&stream->state) == CN_CUDA_LIVE)
			cn_cuda_cover(stream, point.number);
		cn_driver_unlock(&stream->lock);
	}
	if (fresh)
		list(stream);
	return CUDA_SUCCESS;
}

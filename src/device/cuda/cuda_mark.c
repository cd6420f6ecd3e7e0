/* SPDX-License-Identifier: MIT */
/*
 * Marks: events of our own, recorded in the program's streams, that tell how far a stream has come.
 *
 * The order is essential. A thread that frees a block reads the number of the open span after it has given the stream
 * all that uses the block. A thread that makes a mark raises the number first and then records the event. The first
 * reads either the old number, and its work lies before the event; or the new one, of which the event says nothing.
 *
 * A stream that is being captured must not be touched: the event would become part of the program's graph. While any
 * stream of the process is captured, each one is checked before it is marked; and the legacy stream, whose use would
 * end the capture of another stream, is not marked at all. driver/ says so before it begins a capture, and waits until
 * no mark is being made that has not seen it.
 *
 * The per-thread stream of another thread cannot be named to the driver, and after its thread has ended no thread can
 * name it. The other thread is asked to mark its stream when it next frees something. Meanwhile, to see how far such a
 * stream is, an event is recorded of all that the context was given so far, its *wide* mark: no stream waits for that.
 * Only where the driver has no such events, or a stream is to wait and the thread has made no call for a while, the
 * mark is made through the legacy stream, whose events come after all blocking streams' work: that makes these wait for
 * each other.
 */
#include "device/cuda/cuda_internal.h"

#include <sched.h>
#include <time.h>

enum {
	PENDING_NS = 10000,    /* a mark that was pending is not checked again within this time */
	OWN_MARK_NS = 5000000, /* how long a thread has to mark its own stream */
};

/* ---- Stays in the driver ---- */

bool cn_cuda_enter(struct cn_cuda_stay *stay, CUcontext context)
{
	CUcontext current = NULL;

	*stay = (struct cn_cuda_stay){.mode = CU_STREAM_CAPTURE_MODE_RELAXED};
	if (context && (cn_cuda.cuCtxGetCurrent(&current) || current != context)) {
		if (cn_cuda.cuCtxPushCurrent(context))
			return false;
		stay->pushed = true;
	}
	stay->moded = !cn_cuda.cuThreadExchangeStreamCaptureMode(&stay->mode);
	return true;
}

void cn_cuda_leave(struct cn_cuda_stay *stay)
{
	CUcontext popped;

	if (stay->moded)
		cn_cuda.cuThreadExchangeStreamCaptureMode(&stay->mode);
	if (stay->pushed)
		cn_cuda.cuCtxPopCurrent(&popped);
}

/* ---- Captures ---- */

_Atomic uint64_t cn_cuda_captures;
static _Atomic uint64_t marking; /* threads that give the driver something for a stream; they check for captures */

void cn_cuda_capture_began(void)
{
	atomic_fetch_add(&cn_cuda_captures, 1);
	/* A thread that has not seen it is in there now; that takes a microsecond, but it may have been preempted. */
	while (atomic_load(&marking))
		sched_yield();
}

void cn_cuda_capture_ended(void)
{
	atomic_fetch_sub(&cn_cuda_captures, 1);
}

bool cn_cuda_asks_capturing(CUstream handle)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult result = cn_cuda.cuStreamIsCapturing(handle, &status);

	/* The driver answers this for the legacy stream while a stream that is ordered with it is captured. */
	return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || (!result && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* How a stream is named to the driver in this thread. */
static CUstream name_here(const struct cn_cuda_stream *stream)
{
	if (stream->kind == CN_CUDA_PER_THREAD && atomic_load(&stream->thread) != cn_cuda_thread())
		return CU_STREAM_LEGACY;
	return stream->handle;
}

/* May the driver be given something for the stream now? The caller is counted in `marking`. */
static bool is_free_of_captures(CUstream name)
{
	if (!atomic_load(&cn_cuda_captures))
		return true;
	return name != CU_STREAM_LEGACY && !cn_cuda_asks_capturing(name);
}

/* ---- Events ---- */

/* NULL: none is available. */
static CUevent take_event(struct cn_cuda_context *context)
{
	struct cn_cuda_stay stay;
	CUevent event = NULL;

	cn_lock(&context->lock);
	if (context->event_count)
		event = context->events[--context->event_count];
	cn_unlock(&context->lock);
	if (event || !cn_cuda_enter(&stay, atomic_load(&context->handle)))
		return event;
	if (cn_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING))
		event = NULL;
	cn_cuda_leave(&stay);
	return event;
}

void cn_cuda_give_event(struct cn_cuda_context *context, CUevent event)
{
	cn_lock(&context->lock);
	bool room = context->event_count < CN_CUDA_EVENTS_MAX;
	if (room)
		context->events[context->event_count++] = event;
	cn_unlock(&context->lock);
	if (!room)
		cn_cuda.cuEventDestroy(event);
}

/* ---- Marks ---- */

/* May the driver be asked about the stream? Stream locked. */
static bool is_usable(const struct cn_cuda_stream *stream)
{
	return !stream->spoilt && !atomic_load(&stream->context->ending);
}

uint64_t cn_cuda_needed(struct cn_cuda_stream *stream)
{
	uint64_t taken = atomic_load(&stream->taken), submitted = atomic_load(&stream->queue.submitted);

	return taken > submitted ? taken : submitted;
}

void cn_cuda_complete(struct cn_cuda_stream *stream, uint64_t number)
{
	uint64_t before = atomic_load_explicit(&stream->queue.completed, memory_order_relaxed);

	while (before < number && !atomic_compare_exchange_weak_explicit(&stream->queue.completed, &before, number,
									 memory_order_acq_rel, memory_order_relaxed))
		;
}

void cn_cuda_drop_marks(struct cn_cuda_stream *stream)
{
	stream->mark_count = 0;
	stream->wide.event = NULL;
}

static void drop_oldest(struct cn_cuda_stream *stream, bool for_good)
{
	if (for_good)
		cn_cuda.cuEventDestroy(stream->marks[0].event);
	else
		cn_cuda_give_event(stream->context, stream->marks[0].event);
	stream->mark_count--;
	for (unsigned i = 0; i < stream->mark_count; i++)
		stream->marks[i] = stream->marks[i + 1];
}

/* What the program has seen reached needs no event any more. */
static void drop_reached(struct cn_cuda_stream *stream)
{
	while (stream->mark_count && cn_point_reached((struct cn_point){&stream->queue, stream->marks[0].number}))
		drop_oldest(stream, false);
	if (stream->wide.event && cn_point_reached((struct cn_point){&stream->queue, stream->wide.number})) {
		cn_cuda_give_event(stream->context, stream->wide.event);
		stream->wide.event = NULL;
	}
}

bool cn_cuda_is_the_end(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK: return true;
	default: return false;
	}
}

CUresult cn_cuda_update(struct cn_cuda_stream *stream)
{
	struct cn_cuda_stay stay;
	CUresult result = CUDA_SUCCESS;

	if (!is_usable(stream))
		return CUDA_SUCCESS;
	drop_reached(stream);
	if (!stream->mark_count && !stream->wide.event)
		return CUDA_SUCCESS;
	cn_cuda_enter(&stay, NULL);
	if (stream->wide.event) {
		result = cn_cuda.cuEventQuery(stream->wide.event);
		stream->spoilt = cn_cuda_is_the_end(result);
		if (!result)
			cn_cuda_complete(stream, stream->wide.number);
		drop_reached(stream);
	}
	while (stream->mark_count) {
		result = cn_cuda.cuEventQuery(stream->marks[0].event);
		if (result == CUDA_ERROR_CAPTURED_EVENT) {
			drop_oldest(stream, true);
			continue;
		}
		if (result) {
			stream->spoilt = cn_cuda_is_the_end(result);
			break;
		}
		cn_cuda_complete(stream, stream->marks[0].number);
		drop_reached(stream);
	}
	cn_cuda_leave(&stay);
	return result;
}

static struct cn_cuda_mark *newest(struct cn_cuda_stream *stream)
{
	return stream->mark_count ? &stream->marks[stream->mark_count - 1] : NULL;
}

bool cn_cuda_is_covered(struct cn_cuda_stream *stream, uint64_t number)
{
	const struct cn_cuda_mark *mark = newest(stream);

	return (mark && mark->number >= number) || cn_point_reached((struct cn_point){&stream->queue, number});
}

enum recorded { RECORDED, UNTOUCHED, UNCERTAIN };

/* Record an event behind the open span, which ends. Stream locked. */
static enum recorded record(struct cn_cuda_stream *stream, CUevent event, uint64_t *ret_number)
{
	CUstream name = name_here(stream);
	struct cn_cuda_stay stay;
	enum recorded recorded = UNTOUCHED;

	/* Default streams are the current context's; of all others the driver knows the context. */
	if (!cn_cuda_enter(&stay, stream->kind == CN_CUDA_ORDINARY ? NULL : atomic_load(&stream->context->handle)))
		return UNTOUCHED;
	atomic_fetch_add(&marking, 1);
	if (is_free_of_captures(name)) {
		*ret_number = cn_cuda_end_span(&stream->queue).number; /* first: see above */
		recorded = cn_cuda.cuEventRecord(event, name) ? UNCERTAIN : RECORDED;
		/* A capture of this stream may have begun in between, if one of another was under way before. */
		if (atomic_load(&cn_cuda_captures) && cn_cuda_asks_capturing(name))
			recorded = UNCERTAIN;
	}
	atomic_fetch_sub(&marking, 1);
	cn_cuda_leave(&stay);
	return recorded;
}

/* Stream locked, live and usable. NULL: not now. */
static CUevent make_mark(struct cn_cuda_stream *stream)
{
	uint64_t number = 0;

	if (stream->mark_count == CN_CUDA_MARKS_MAX)
		cn_cuda_update(stream);
	if (stream->spoilt)
		return NULL;
	/* With no room left the newest mark is recorded again: the later event covers what it stood for. */
	bool full = stream->mark_count == CN_CUDA_MARKS_MAX;
	CUevent event = full ? newest(stream)->event : take_event(stream->context);
	if (!event)
		return NULL;
	enum recorded recorded = record(stream, event, &number);
	if (recorded == RECORDED) {
		stream->mark_count += !full;
		*newest(stream) = (struct cn_cuda_mark){event, number};
		return event;
	}
	if (recorded == UNTOUCHED && full)
		return NULL;
	stream->mark_count -= full;
	if (recorded == UNTOUCHED)
		cn_cuda_give_event(stream->context, event);
	else
		cn_cuda.cuEventDestroy(event);
	return NULL;
}

CUevent cn_cuda_cover(struct cn_cuda_stream *stream, uint64_t number)
{
	if (!is_usable(stream))
		return NULL;
	for (unsigned i = 0; i < stream->mark_count; i++)
		if (stream->marks[i].number >= number)
			return stream->marks[i].event;
	return atomic_load(&stream->state) == CN_CUDA_LIVE ? make_mark(stream) : NULL;
}

enum cn_cuda_recorded cn_cuda_record_context(struct cn_cuda_context *context, struct cn_queue *queue,
					     struct cn_cuda_mark *ret_mark)
{
	CUcontext handle = atomic_load(&context->handle);
	CUresult result = CUDA_ERROR_UNKNOWN;
	struct cn_cuda_mark mark = {take_event(context), 0};
	bool touched = false;
	struct cn_cuda_stay stay;

	if (!mark.event)
		return CN_CUDA_NOT_NOW;
	if (cn_cuda_enter(&stay, handle)) {
		atomic_fetch_add(&marking, 1);
		touched = !atomic_load(&cn_cuda_captures); /* it would end those of the context */
		if (touched && queue)
			mark.number = cn_cuda_end_span(queue).number; /* first: see above */
		if (touched)
			result = cn_cuda_record_all(handle, mark.event);
		atomic_fetch_sub(&marking, 1);
		cn_cuda_leave(&stay);
	}
	if (!result)
		*ret_mark = mark;
	else if (touched)
		cn_cuda.cuEventDestroy(mark.event);
	else
		cn_cuda_give_event(context, mark.event);
	if (!result)
		return CN_CUDA_RECORDED;
	return touched && cn_cuda_is_the_end(result) ? CN_CUDA_CONTEXT_LOST : CN_CUDA_NOT_NOW;
}

/* Stream locked, usable, and not spare. */
static bool make_wide(struct cn_cuda_stream *stream)
{
	return cn_cuda_record_context(stream->context, &stream->queue, &stream->wide) == CN_CUDA_RECORDED;
}

/* Its own thread is to mark the stream. Has it had long enough for that? Stream locked. */
static bool want_own_mark(struct cn_cuda_stream *stream)
{
	uint64_t since_ns = atomic_load(&stream->wanted_ns), now_ns = cn_clock_ns();

	if (!since_ns)
		atomic_store(&stream->wanted_ns, now_ns);
	return since_ns && now_ns - since_ns >= OWN_MARK_NS;
}

/* Other threads want it. The stream is this thread's. */
static __attribute__((noinline)) void mark_own(struct cn_cuda_stream *stream)
{
	cn_driver_lock(&stream->lock);
	atomic_store(&stream->wanted_ns, 0);
	if (atomic_load(&stream->state) == CN_CUDA_LIVE && name_here(stream) == stream->handle)
		cn_cuda_cover(stream, atomic_load(&stream->taken));
	cn_driver_unlock(&stream->lock);
}

/* For a stream that is to wait for it; as cn_cuda_cover(). */
static CUevent cover_to_wait(struct cn_cuda_stream *stream, uint64_t number)
{
	const struct cn_cuda_mark *mark = newest(stream);
	bool live = atomic_load(&stream->state) == CN_CUDA_LIVE;

	if (live && name_here(stream) != stream->handle && (!mark || mark->number < number)) {
		if (!want_own_mark(stream))
			return NULL;
		atomic_store(&stream->wanted_ns, 0);
	}
	return cn_cuda_cover(stream, number);
}

bool cn_cuda_watch(struct cn_cuda_stream *stream, uint64_t number)
{
	int state = atomic_load(&stream->state);
	bool nameable = state == CN_CUDA_LIVE && name_here(stream) == stream->handle;

	if (cn_cuda_is_covered(stream, number))
		return true;
	if (!is_usable(stream) || state == CN_CUDA_SPARE)
		return false;
	if (state == CN_CUDA_LIVE && !nameable)
		want_own_mark(stream);
	if (nameable || (state == CN_CUDA_LIVE && !cn_cuda_record_all))
		return make_mark(stream);
	/* One at a time: when it is done, the next. */
	return cn_cuda_record_all && (stream->wide.event || make_wide(stream));
}

void cn_cuda_wait_for_context(struct cn_cuda_stream *stream)
{
	struct cn_cuda_stay stay;
	bool waited = false;

	if (!is_usable(stream) || !cn_cuda_enter(&stay, atomic_load(&stream->context->handle)))
		return;
	atomic_fetch_add(&marking, 1);
	bool quiet = !atomic_load(&cn_cuda_captures); /* the wait might end them */
	uint64_t number = cn_cuda_end_span(&stream->queue).number;
	/* Now: a thread that begins a capture must not have to wait for all that the context does. */
	atomic_fetch_sub(&marking, 1);
	if (quiet)
		waited = !cn_cuda.cuCtxSynchronize();
	cn_cuda_leave(&stay);
	if (waited)
		cn_cuda_complete(stream, number);
}

/* ---- A whole context ---- */

bool cn_cuda_wait_for_all(struct cn_queue *queue, uint64_t owner)
{
	struct cn_cuda_stream *stream = cn_cuda_stream_of(queue);
	struct cn_cuda_stay stay;
	CUevent event = NULL;
	bool waits = false;

	if (!cn_cuda_record_all)
		return false;
	cn_driver_lock(&stream->lock);
	CUcontext context = atomic_load(&stream->context->handle);
	if (atomic_load(&queue->owner) == owner && is_usable(stream))
		event = take_event(stream->context);
	if (event && cn_cuda_enter(&stay, context)) {
		atomic_fetch_add(&marking, 1);
		if (!atomic_load(&cn_cuda_captures)) /* it would end those of the context */
			waits = !cn_cuda_record_all(context, event) &&
				!cn_cuda.cuStreamWaitEvent(stream->handle, event, CU_EVENT_WAIT_DEFAULT);
		atomic_fetch_sub(&marking, 1);
		cn_cuda_leave(&stay);
	}
	if (event) /* waiters for it have been given what it stood for */
		cn_cuda_give_event(stream->context, event);
	cn_driver_unlock(&stream->lock);
	return waits;
}

/* ---- Points ---- */

CUresult cn_cuda_take_point(struct cn_cuda_stream *stream, uint64_t owner, struct cn_point *ret_point)
{
	struct cn_queue *queue = &stream->queue;
	uint64_t number = atomic_load(&queue->submitted) + 1, taken = atomic_load(&stream->taken);

	while (__builtin_expect(taken < number, 0) && !atomic_compare_exchange_weak(&stream->taken, &taken, number))
		;
	/* Last: cn_cuda_destroy() clears the owner first, and then covers every number that was taken. */
	if (__builtin_expect(atomic_load(&queue->owner) != owner, 0))
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "the stream has been destroyed");
	*ret_point = (struct cn_point){queue, number};
	return CUDA_SUCCESS;
}

CUresult cn_cuda_point_now(struct cn_queue *queue, uint64_t owner, struct cn_point *ret_point)
{
	struct cn_cuda_stream *stream = cn_cuda_stream_of(queue);
	struct cn_point unwanted;
	/* Into its place at once: a copy would wait until the two halves, stored one by one, can be loaded as one. */
	CUresult result = cn_cuda_take_point(stream, owner, ret_point ? ret_point : &unwanted);

	if (__builtin_expect(result != CUDA_SUCCESS, 0))
		return result;
	if (__builtin_expect(atomic_load_explicit(&stream->wanted_ns, memory_order_relaxed) != 0, 0))
		mark_own(stream);
	return CUDA_SUCCESS;
}

CUresult cn_cuda_queue_rely(struct cn_queue *queue, uint64_t owner, struct cn_point relied_on)
{
	CUresult result = cn_cuda_point_now(queue, owner, NULL);

	if (result || cn_point_reached(relied_on))
		return result;
	struct cn_cuda_stream *legacy = cn_cuda_stream_of(relied_on.queue);
	cn_driver_lock(&legacy->lock);
	bool covered = cn_cuda_cover(legacy, relied_on.number);
	cn_driver_unlock(&legacy->lock);
	return covered ? CUDA_SUCCESS : cn_error(CUDA_ERROR_NOT_READY, "the legacy stream cannot be marked now");
}

struct cn_point cn_cuda_end_span(struct cn_queue *queue)
{
	return (struct cn_point){queue, atomic_fetch_add(&queue->submitted, 1) + 1};
}

/* Is the legacy stream of a context idle? Not asked during a capture, which the question might end. */
static bool is_legacy_idle(CUcontext context)
{
	struct cn_cuda_stay stay;
	bool idle = false;

	if (!cn_cuda_enter(&stay, context))
		return false;
	atomic_fetch_add(&marking, 1);
	if (!atomic_load(&cn_cuda_captures))
		idle = !cn_cuda.cuStreamQuery(CU_STREAM_LEGACY);
	atomic_fetch_sub(&marking, 1);
	cn_cuda_leave(&stay);
	return idle;
}

struct cn_point cn_cuda_end_span_to_wait(struct cn_queue *queue)
{
	struct cn_cuda_stream *stream = cn_cuda_stream_of(queue);
	struct cn_point taken = {queue, atomic_load(&stream->taken)};

	if (!atomic_load(&stream->blocking))
		return cn_cuda_end_span(queue);
	if (cn_point_reached(taken))
		return taken;
	if (atomic_load(&stream->kind) != CN_CUDA_LEGACY && !is_legacy_idle(atomic_load(&stream->context->handle)))
		return taken;
	cn_driver_lock(&stream->lock);
	bool covered = cn_cuda_cover(stream, taken.number);
	cn_driver_unlock(&stream->lock);
	return covered ? taken : (struct cn_point){NULL, 0};
}

void cn_cuda_seen(struct cn_point point, uint64_t patience_ns)
{
	struct cn_cuda_stream *stream = cn_cuda_stream_of(point.queue);
	uint64_t until_ns = patience_ns ? cn_clock_ns() + patience_ns : 0;

	if (!point.queue)
		return;
	if (!atomic_load(&stream->blocking)) {
		cn_cuda_reached(point);
		return;
	}
	for (;;) {
		cn_driver_lock(&stream->lock);
		if (!cn_point_reached(point))
			cn_cuda_cover(stream, point.number);
		CUresult asked = cn_cuda_update(stream);
		bool pending = asked == CUDA_ERROR_NOT_READY && cn_cuda_is_covered(stream, point.number);
		cn_driver_unlock(&stream->lock);
		if (cn_point_reached(point) || !pending)
			break;
		if (!until_ns || cn_clock_ns() >= until_ns)
			return; /* the mark is checked again when memory is wanted */
		sched_yield();
	}
	if (__builtin_expect(cn_cuda_has_notes(stream), 0))
		cn_cuda_run_notes(stream);
}

void cn_cuda_reached(struct cn_point point)
{
	struct cn_cuda_stream *stream;

	if (!point.queue)
		return;
	stream = cn_cuda_stream_of(point.queue);
	cn_cuda_complete(stream, point.number);
	if (__builtin_expect(cn_cuda_has_notes(stream), 0))
		cn_cuda_run_notes(stream);
}

void cn_cuda_queue_look(struct cn_queue *queue)
{
	struct cn_cuda_stream *stream = cn_cuda_stream_of(queue);
	struct cn_point taken = {queue, atomic_load(&stream->taken)};

	if (cn_point_reached(taken))
		return;
	uint64_t now = cn_clock_ns(), asked = atomic_load_explicit(&stream->pending_ns, memory_order_relaxed);
	if (now - asked < PENDING_NS || !cn_driver_try_lock(&stream->lock)) /* the holder of the lock is looking */
		return;
	cn_cuda_update(stream);
	if (!cn_cuda_is_covered(stream, taken.number) && cn_cuda_watch(stream, taken.number))
		cn_cuda_update(stream);
	atomic_store_explicit(&stream->pending_ns, cn_point_reached(taken) ? 0 : now, memory_order_relaxed);
	cn_driver_unlock(&stream->lock);
}

/* ---- Waits ---- */

static void lock_both(struct cn_cuda_stream *one, struct cn_cuda_stream *other)
{
	cn_driver_lock((uintptr_t)one < (uintptr_t)other ? &one->lock : &other->lock);
	cn_driver_lock((uintptr_t)one < (uintptr_t)other ? &other->lock : &one->lock);
}

/* Both locked. */
static CUresult wait_locked(struct cn_cuda_stream *stream, uint64_t owner, struct cn_cuda_stream *other,
			    uint64_t number)
{
	struct cn_cuda_stay stay;
	CUresult result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

	if (atomic_load(&stream->queue.owner) != owner || !is_usable(stream))
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "the stream has been destroyed");
	CUstream name = name_here(stream);
	if (name != stream->handle)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "another thread's own stream cannot be made to wait");
	CUevent event = cover_to_wait(other, number);
	if (!event)
		return cn_error(CUDA_ERROR_NOT_READY, "the stream to be waited for cannot be marked now");
	if (!cn_cuda_enter(&stay, stream->kind == CN_CUDA_ORDINARY ? NULL : atomic_load(&stream->context->handle)))
		return cn_error(CUDA_ERROR_INVALID_CONTEXT, "the stream's context cannot be made current");
	atomic_fetch_add(&marking, 1);
	if (is_free_of_captures(name))
		result = cn_cuda.cuStreamWaitEvent(name, event, CU_EVENT_WAIT_DEFAULT);
	atomic_fetch_sub(&marking, 1);
	cn_cuda_leave(&stay);
	return result ? cn_error(result, "the driver could not make a stream wait for another") : CUDA_SUCCESS;
}

CUresult cn_cuda_queue_wait(struct cn_queue *queue, uint64_t owner, struct cn_point point)
{
	CUresult result = CUDA_SUCCESS;

	if (point.queue && point.queue != queue && !cn_point_reached(point)) {
		struct cn_cuda_stream *stream = cn_cuda_stream_of(queue), *other = cn_cuda_stream_of(point.queue);
		lock_both(stream, other);
		result = wait_locked(stream, owner, other, point.number);
		cn_driver_unlock(&stream->lock);
		cn_driver_unlock(&other->lock);
	}
	if (result)
		return result;
	cn_cuda_queue_follow(queue, owner, point);
	return cn_cuda_point_now(queue, owner, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Streams of the driver's, as the pools see them.
 *
 * Work goes to the driver without us, so a queue of the cuda device does not count operations: it counts *spans*. All
 * that a program gives a stream falls into the span that is open; a point is the span's number, and taking one costs no
 * call. A span ends when a caller needs to know whether it is over: its number goes up, and then an event of our own is
 * recorded behind it, a *mark*. When the mark is done, all spans up to it are `completed`. Because of this order the
 * mark covers every number taken before it, and claims nothing of one taken later.
 *
 * A mark is made only in these cases: another stream could use what this one freed, memory is to go back to the system,
 * a note waits, the stream is about to be destroyed. What the program itself waits for (a stream, a context, an event)
 * needs none: driver/ tells us. A stream that is being captured is never marked.
 *
 * A stream's handle is touched only under its record's lock, and a stream is destroyed under it: the driver crashes on
 * a dead handle. Records are never freed. The legacy and the per-thread default streams have records by context (and
 * thread). A destroyed stream's handle is remembered until the driver reuses it.
 */
#ifndef CN_DEVICE_CUDA_CUDA_STREAM_H
#define CN_DEVICE_CUDA_CUDA_STREAM_H

#include "device/device.h"

struct cn_cuda_stream; /* a cn_queue is its first member */

struct cn_cuda_place {
	struct cn_queue *queue;
	uint64_t owner;           /* see cn_device_ops.queue_wait */
	struct cn_device *device; /* of the stream's context */
};

/*
 * What a thread remembers of streams; valid as long as nothing has gone since, which `cn_cuda_serial` counts. All in
 * one variable, which begins where a cache line does: others between would leave gaps, and there is little room for
 * variables of threads.
 */
enum { CN_CUDA_KNOWN_BITS = 2 };
struct cn_cuda_known_stream {
	CUstream handle;
	uint64_t serial;
	struct cn_cuda_place place;
	/* Another stream, which had no record. When one gets it, `cn_cuda_serial` changes. */
	CUstream unknown;
	uint64_t unknown_serial;
	uint64_t rest_of_line;
};
_Static_assert(sizeof(struct cn_cuda_known_stream) == 64, "a line of the processor's cache");
struct cn_cuda_remembered {
	struct cn_cuda_known_stream streams[1 << CN_CUDA_KNOWN_BITS];
	struct {
		CUcontext context;
		uint64_t serial;
		struct cn_cuda_place place;
	} defaults[2];   /* of a context: the legacy stream, the thread's own */
	uint64_t thread; /* 0: it has no number yet */
};
extern _Alignas(64) _Thread_local struct cn_cuda_remembered cn_cuda_remembered
	__attribute__((tls_model("initial-exec")));
extern _Atomic uint64_t cn_cuda_serial;

/* NULL: it does not remember this one. */
static inline const struct cn_cuda_known_stream *cn_cuda_recall(CUstream handle)
{
	uint64_t slot = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u >> (64 - CN_CUDA_KNOWN_BITS);
	const struct cn_cuda_known_stream *known = &cn_cuda_remembered.streams[slot];

	return known->handle == handle && known->serial == atomic_load_explicit(&cn_cuda_serial, memory_order_acquire)
		       ? known
		       : NULL;
}

/*
 * Where a program's stream handle leads: NULL and CU_STREAM_LEGACY to the current context's legacy stream,
 * CU_STREAM_PER_THREAD to this thread's. CUDA_ERROR_INVALID_HANDLE: it was destroyed; CUDA_ERROR_INVALID_CONTEXT: no
 * context is current. Costs a few nanoseconds for a stream that this thread used before.
 */
CUresult cn_cuda_find_slowly(CUstream handle, struct cn_cuda_place *ret_place);
static inline CUresult cn_cuda_find(CUstream handle, struct cn_cuda_place *ret_place)
{
	const struct cn_cuda_known_stream *known = cn_cuda_recall(handle);

	if (__builtin_expect(!known, 0))
		return cn_cuda_find_slowly(handle, ret_place);
	*ret_place = known->place;
	return CUDA_SUCCESS;
}

/*
 * The same if the stream has a record already; its queue is NULL if not: a stream that no pool has seen has freed
 * nothing. A caller that then passes the handle to the driver checks afterwards whether the owner is still the same: if
 * not, the driver may have acted on another stream than the queue's.
 */
struct cn_cuda_place cn_cuda_known_place(CUstream handle);
static inline struct cn_queue *cn_cuda_known(CUstream handle)
{
	return cn_cuda_known_place(handle).queue;
}
static inline bool cn_cuda_place_stands(const struct cn_cuda_place *place)
{
	/* Without an owner it was found while it was being destroyed. */
	return place->owner && atomic_load_explicit(&place->queue->owner, memory_order_acquire) == place->owner;
}
/* Was there a stream with this handle, and is there none now? */
bool cn_cuda_is_destroyed(CUstream handle);

/*
 * Is the stream being captured? Makes no call while no capture is under way in the process: driver/ counts them, each
 * from before the driver is asked to begin it. The driver is not asked about a stream that has gone.
 */
extern _Atomic uint64_t cn_cuda_captures; /* under way, or about to begin */
bool cn_cuda_asks_capturing(CUstream handle);
static inline bool cn_cuda_is_capturing(CUstream handle)
{
	return __builtin_expect(atomic_load_explicit(&cn_cuda_captures, memory_order_acquire) != 0, 0) &&
	       !cn_cuda_is_destroyed(handle) && cn_cuda_asks_capturing(handle);
}
void cn_cuda_capture_began(void);
void cn_cuda_capture_ended(void);

/* The driver has created a stream with this handle: what is remembered of an older one is forgotten. */
void cn_cuda_created(CUstream handle);
/*
 * The stream is to be destroyed by `destroy`, the driver's own function: what it freed is marked first, and no thread
 * touches it meanwhile. Returns the driver's result.
 */
CUresult cn_cuda_destroy(CUstream handle, CUresult (*destroy)(CUstream handle));
/*
 * A context is about to be destroyed, or reset, or may be: from now on its streams are not touched, and a thread that
 * looks for one waits. Then cn_cuda_context_over() when the driver has done it (all of its points are reached then), or
 * cn_cuda_context_stays() when it has not. Both take what the first has returned, 0: the context is not known.
 */
uint64_t cn_cuda_context_ending(CUcontext context);
void cn_cuda_context_over(CUcontext context, uint64_t life);
void cn_cuda_context_stays(CUcontext context, uint64_t life);
/* Is it still that context, and not another with the same handle? */
bool cn_cuda_context_is(CUcontext context, uint64_t life);

/* The open span ends without a mark: the point that covers what the stream was given so far. */
struct cn_point cn_cuda_end_span(struct cn_queue *queue);
/*
 * The same for a program that will wait for the stream, or query it: what it then may have seen reached. What was freed
 * in a blocking stream comes after the legacy stream's work before, and the other way round; but only an operation
 * waits for that: a mark is one. It is made before the wait, which then sees it done; but not where the legacy stream
 * is busy: the program would also wait for work given to that after the free. Then cn_cuda_seen() makes it.
 */
struct cn_point cn_cuda_end_span_to_wait(struct cn_queue *queue);
/*
 * The driver has told the program that the stream is done: so is what was freed in it, unless our mark says otherwise.
 * NVIDIA's driver was seen to say so of a blocking stream (cuStreamQuery) that had nothing but a mark in it, which
 * still waited for the legacy stream. The call waits at most `patience_ns` for the mark: it may stand behind work that
 * was given to the legacy stream later, and that the caller is about to release.
 */
void cn_cuda_seen(struct cn_point point, uint64_t patience_ns);
/* The program has seen that a point is reached: so are all before it. Runs the notes that are due. */
void cn_cuda_reached(struct cn_point point);
/*
 * For cuCtxSynchronize(): the points of all streams of a context, destroyed ones included. Calls `visit` unlocked.
 * Returns which context it was; 0: it is not known, or has ended meanwhile.
 */
uint64_t cn_cuda_each_of_context(CUcontext context, void (*visit)(struct cn_queue *queue, void *data), void *data);

/* CUDA_ERROR_CONTEXT_IS_DESTROYED: the current context is. It asks the driver: not for what must be fast. */
CUresult cn_cuda_check_current(void);
/* A context whose streams are known, for what needs no particular one; NULL: there is none. */
CUcontext cn_cuda_any_context(const struct cn_device *device);
/*
 * The queue of an ordinary stream waits for all that its context was given so far, also by streams without a record.
 * False: it does not wait; a stream is being captured, or the driver has no event of a whole context.
 */
bool cn_cuda_wait_for_all(struct cn_queue *queue, uint64_t owner);

/* The driver is about to make the queue wait for something that another process has to do (an event of its). */
void cn_cuda_waits_outside(struct cn_queue *queue);

/* ---- For device/cuda alone ---- */

/* The device operations on queues. */
CUresult cn_cuda_queue_wait(struct cn_queue *queue, uint64_t owner, struct cn_point point);
CUresult cn_cuda_queue_note(struct cn_queue *queue, uint64_t owner, void (*function)(void *object, uint64_t number),
			    void *object, uint64_t number);
CUresult cn_cuda_point_now(struct cn_queue *queue, uint64_t owner, struct cn_point *ret_point);
/*
 * A point of the legacy stream stands for the blocking streams' work too. But only an operation makes them wait for
 * each other, and to the driver a free is none: only a mark behind it is. An answer that needs such a mark relies on
 * that point of the legacy stream, and cn_cuda_queue_rely() makes the mark.
 */
bool cn_cuda_queue_follows(struct cn_queue *queue, struct cn_point point, struct cn_point *ret_relied_on);
CUresult cn_cuda_queue_rely(struct cn_queue *queue, uint64_t owner, struct cn_point relied_on);
void cn_cuda_queue_follow(struct cn_queue *queue, uint64_t owner, struct cn_point point);
void cn_cuda_queue_look(struct cn_queue *queue);
bool cn_cuda_point_waits_outside(struct cn_point point);

#endif

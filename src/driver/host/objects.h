/* SPDX-License-Identifier: MIT */
/*
 * Contexts, streams and events of the host device, as the files of this folder know them.
 *
 * Their records are in handle tables (base/table.h): they are never freed, but reused. During a call, another thread
 * may destroy the object that was found, and a third may create one that gets the record. So a handle is looked up
 * once, and the record comes with what identifies its owner: a stream's `owner`, a context's `life`. A record is only
 * changed for the owner that was found:
 *
 *   - a queue compares `owner` under its lock before it takes work;
 *   - what is made in a context is entered under a lock, and `life` is compared there: a context that ends loses its
 *     life first, and then takes everything down, under the same lock;
 *   - what is only read, or taken without a lock, is compared afterwards (cn_place_stands(), cn_home_stands()): if the
 *     owner is still the same, it was the same all the while.
 *
 * An event is compared under its own lock (cn_event_lock()).
 */
#ifndef CN_DRIVER_HOST_OBJECTS_H
#define CN_DRIVER_HOST_OBJECTS_H

#include "device/host/host_queue.h"
#include "driver/common/driver.h"

/* Atomic here and below: a thread that found the object just before another destroyed it may read these. */
struct cn_stream {
	struct cn_object object; /* first */
	struct cn_host_queue queue;
	_Atomic(struct cn_context *) context;
	_Atomic int device;         /* the context's, its ordinal: an allocation finds its pool with fewer loads */
	_Atomic unsigned int flags; /* CU_STREAM_NON_BLOCKING or 0 */
	_Atomic int priority;
	_Atomic unsigned long long id;
	struct cn_stream *closing_next; /* destroyed, with work left */
};

/* The limits that a program may set are below this one. */
enum { CN_LIMIT_COUNT = CU_LIMIT_PERSISTING_L2_CACHE_SIZE + 1 };

struct cn_context {
	struct cn_object object; /* first */
	_Atomic(struct cn_device *) device;
	bool primary; /* as long as the process */
	/*
	 * Its id, which is never used twice; 0: it cannot be used. A primary context keeps its handle, but not its
	 * life, while it is not retained, and when it is reset.
	 */
	_Atomic uint64_t life;
	CN_LOCK(CONTEXT) lock; /* held while its life ends, and while something below is set */
	_Atomic unsigned int flags;
	_Atomic uint64_t peers; /* a bit for each device whose memory this context may use */
	_Atomic size_t limits[CN_LIMIT_COUNT];
	_Atomic int cache_config;
	struct cn_host_group group;
	struct cn_stream legacy; /* has no handle: never in the table of streams */
};

/* A context that a call has found. */
struct cn_home {
	struct cn_context *context;
	struct cn_device *device;
	uint64_t life;
};

/* A stream that a call has found. */
struct cn_place {
	struct cn_stream *stream;
	struct cn_context *context;
	uint64_t owner; /* its handle; of a legacy stream the context's life */
};

struct cn_event {
	struct cn_object object; /* first */
	struct cn_context *context;
	unsigned int flags;
	struct cn_stamp stamp; /* its lock guards what follows; its serial counts records, over all lives of the slot */
	bool recorded;
	struct cn_point point;          /* of the latest record */
	uint64_t point_serial;          /* and that record's number */
	struct cn_shared_event *shared; /* of an interprocess event, which has no point: see ipc_event.h */
};

extern struct cn_table cn_contexts, cn_streams, cn_events, cn_modules, cn_functions, cn_libraries, cn_library_kernels;

/* What each thread has: its stack of contexts, its default streams, its capture mode. */
struct cn_context_thread {
	uint64_t *stack; /* handles; the last is current */
	unsigned depth, room;
	CUstreamCaptureMode capture_mode;
	struct cn_stream_of_thread *streams;
};
extern _Thread_local struct cn_context_thread cn_context_thread __attribute__((tls_model("initial-exec")));

/* cn_enter(), and the context that is current to this thread. */
CUresult cn_context_enter(struct cn_home *ret_home);
/* CUDA_ERROR_NOT_SUPPORTED: nothing of the device is shared by handles of 64 bytes. */
CUresult cn_context_has_handles(const struct cn_device *device);

/* context.c */
/* A context argument that may be NULL: then the current one. `gone` is the answer when it is not usable. */
CUresult cn_context_given(CUcontext handle, CUresult gone, struct cn_home *ret_home);
/* Is it still the context that was found? */
static inline bool cn_home_stands(const struct cn_home *home)
{
	return atomic_load(&home->context->life) == home->life;
}
/* CUDA_ERROR_CONTEXT_IS_DESTROYED: another thread has destroyed it during the call. */
CUresult cn_home_check(const struct cn_home *home);
/* The same, and its settings may be changed until its lock is given back. */
CUresult cn_home_lock(const struct cn_home *home);
/* CUDA_ERROR_INVALID_VALUE: they are not flags of a context. */
CUresult cn_context_check_flags(unsigned int flags);
/* Check the arguments of a context's creation: room for the handle, flags, and a device. */
CUresult cn_context_check(const CUcontext *ret_context, unsigned int flags, CUdevice ordinal,
			  struct cn_device **ret_device);
/* cn_thread is in use in this thread: clean it up when the thread ends. */
CUresult cn_context_thread_keep(void);

/*
 * stream.c: the stream of a handle: NULL and CU_STREAM_LEGACY are the current context's legacy stream,
 * CU_STREAM_PER_THREAD this thread's. CUDA_ERROR_INVALID_HANDLE for anything that is not a live stream. Calls
 * cn_enter() itself, or cn_enter_by_handle() for a handle.
 */
CUresult cn_stream_find(CUstream handle, struct cn_place *ret_place);
/* The same for calls that must be fast, with the usual case inline. */
static inline CUresult cn_stream_find_quickly(CUstream handle, struct cn_place *ret_place)
{
	struct cn_stream *stream = cn_table_find(&cn_streams, handle);
	struct cn_place place; /* its address is passed on, so that *ret_place stays in registers */

	if (__builtin_expect(stream && atomic_load_explicit(&cn_ready, memory_order_acquire) == 1, 1)) {
		ret_place->stream = stream;
		ret_place->context = atomic_load_explicit(&stream->context, memory_order_acquire);
		ret_place->owner = (uintptr_t)handle;
		if (__builtin_expect(cn_object_handle(stream) == (uintptr_t)handle,
				     1)) /* so the context is this stream's */
			return CUDA_SUCCESS;
	}
	CUresult result = cn_stream_find(handle, &place);
	if (!result)
		*ret_place = place;
	return result;
}
static inline bool cn_place_is_legacy(const struct cn_place *place)
{
	return place->stream == &place->context->legacy;
}
/* Is it still the stream that was found? */
static inline bool cn_place_stands(const struct cn_place *place)
{
	return atomic_load_explicit(&place->stream->queue.base.owner, memory_order_acquire) == place->owner;
}
/* It is not, or its queue has said so: CUDA_ERROR_CONTEXT_IS_DESTROYED if it ended with its context. */
CUresult cn_place_is_gone(const struct cn_place *place);
CUresult cn_stream_submit(const struct cn_place *place, const struct cn_operation *operation,
			  struct cn_point *ret_point);
/* Sleep until a point is reached, unless a host function would wait for itself. */
CUresult cn_stream_wait_point(struct cn_point point);
/* Ids are never used twice in a process. */
unsigned long long cn_stream_next_id(void);
/* Destroy every stream of a context; what was submitted still runs. */
void cn_streams_destroy(struct cn_context *context);
/*
 * Sleep until everything submitted so far to any stream of the context, destroyed ones included, has happened. If the
 * context has ended, its end has waited already; while it is being taken down it has no life, and is waited for.
 */
void cn_context_drain(const struct cn_home *home);
/* The same; returns the failure of a live stream, if any has failed. */
CUresult cn_context_wait(const struct cn_home *home);
/* What is pending in all streams of a context, as points, at most `room` of them; returns how many there are. */
size_t cn_context_pending(struct cn_context *context, struct cn_point *points, size_t room);
void cn_streams_thread_end(void);
/* The program has waited for a context (`all`), or for its legacy stream: tell the pools. */
void cn_streams_settle(struct cn_context *context, bool all);
/* What all streams of the process still have to do, as points; returns how many there are, and stores up to `room`. */
size_t cn_streams_pending(struct cn_point *points, size_t room);

/* limit.c: the limits of a new context. */
void cn_limits_reset(struct cn_context *context);
/* CUDA_ERROR_INVALID_VALUE: banks of shared memory have no such width. */
CUresult cn_limits_check_bank_width(CUsharedconfig config);

/* event.c */
void cn_events_destroy(struct cn_context *context);

/* registry.c: free what was allocated in a context that is ending; its streams are idle. */
void cn_registry_release(struct cn_context *context);

/* module.c: unload the modules of a context that is ending. */
void cn_modules_unload(struct cn_context *context);
/* Let go of modules that are unloaded, and that nothing uses any more. Their destructors run. No lock is held. */
void cn_modules_reap(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Streams: a queue of the device with a handle, a context and a few properties.
 *
 * A destroyed stream's handle is dead at once; its record waits in a list until its queue has done all its work, and is
 * then reused. Every context has a legacy default stream, embedded in it; every thread that asks for a per-thread
 * default stream gets one for each context, which ends when the thread or the context ends.
 */
#include "device/host/host_ptx.h"
#include "driver/common/mempool.h"
#include "driver/host/objects.h"
#include "driver/host/pool_calls.h"

#include <stdlib.h>

struct cn_table cn_streams = CN_TABLE(CN_KIND_STREAM, struct cn_stream);

enum { PRIORITY_LEAST = 0, PRIORITY_GREATEST = -5 };

/* A per-thread default stream: found by the context it belongs to. */
struct cn_stream_of_thread {
	struct cn_stream_of_thread *next;
	uint64_t context_life;
	struct cn_stream *stream;
	uint64_t handle;
};

static struct {
	CN_LOCK(STREAMS_CLOSING) lock;
	struct cn_stream *first;
} closing;

/* Held while a slot of the table becomes a stream of a context, and while a context's streams are searched. */
static CN_LOCK(STREAMS) making;
static _Atomic unsigned long long next_id = 1;

unsigned long long cn_stream_next_id(void)
{
	return atomic_fetch_add(&next_id, 1);
}

/* Give back the records of destroyed streams whose queues are done. */
static void reap(void)
{
	struct cn_stream *rested = NULL;

	cn_lock(&closing.lock);
	for (struct cn_stream **link = &closing.first; *link;) {
		struct cn_stream *stream = *link;
		if (cn_queue_idle(&stream->queue.base) && cn_host_queue_drained(&stream->queue)) {
			*link = stream->closing_next;
			stream->closing_next = rested;
			rested = stream;
		} else {
			link = &stream->closing_next;
		}
	}
	cn_unlock(&closing.lock);
	while (rested) {
		struct cn_stream *next = rested->closing_next;
		cn_table_give(&cn_streams, rested);
		rested = next;
	}
}

/* *ret_handle is this stream's: if the context ends meanwhile, the slot may already be reused. */
static CUresult make_stream(const struct cn_home *home, unsigned int flags, int priority, struct cn_stream **ret_stream,
			    uint64_t *ret_handle)
{
	uint64_t handle = 0;

	reap();
	struct cn_stream *stream = cn_table_take(&cn_streams);
	if (!stream)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a stream");
	cn_lock(&making);
	bool alive = cn_home_stands(home);
	if (alive) {
		stream->context = home->context;
		stream->device = atomic_load(&home->context->device)->ordinal;
		stream->flags = flags;
		stream->priority = priority;
		stream->id = cn_stream_next_id();
		handle = cn_table_publish(&cn_streams, stream);
		cn_host_queue_open(&stream->queue, flags & CU_STREAM_NON_BLOCKING ? NULL : &home->context->group,
				   handle);
	}
	cn_unlock(&making);
	if (!alive) {
		cn_table_give(&cn_streams, stream);
		return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed during the call");
	}
	*ret_stream = stream;
	*ret_handle = handle;
	return CUDA_SUCCESS;
}

/* What is left to do for a stream whose handle was retired. */
static void close_stream(struct cn_stream *stream)
{
	cn_host_queue_close(&stream->queue);
	cn_lock(&closing.lock);
	stream->closing_next = closing.first;
	closing.first = stream;
	cn_unlock(&closing.lock);
}

/* Forget the default streams that this thread had in contexts that have ended. */
static void forget_dead(void)
{
	for (struct cn_stream_of_thread **link = &cn_context_thread.streams; *link;) {
		struct cn_stream_of_thread *own = *link;
		if (cn_object_handle(own->stream) == own->handle) {
			link = &own->next;
		} else {
			*link = own->next;
			free(own);
		}
	}
}

/* This thread's default stream in a context. */
static CUresult thread_stream(const struct cn_home *home, struct cn_place *ret_place)
{
	struct cn_stream_of_thread *own = cn_context_thread.streams;

	while (own && own->context_life != home->life)
		own = own->next;
	if (!own) {
		CUresult result = cn_context_thread_keep();
		if (result)
			return result;
		forget_dead();
		own = calloc(1, sizeof *own);
		if (!own)
			return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a thread's default stream");
		result = make_stream(home, CU_STREAM_DEFAULT, PRIORITY_LEAST, &own->stream, &own->handle);
		if (result) {
			free(own);
			return result;
		}
		own->context_life = home->life;
		own->next = cn_context_thread.streams;
		cn_context_thread.streams = own;
	}
	*ret_place = (struct cn_place){.stream = own->stream, .context = home->context, .owner = own->handle};
	return CUDA_SUCCESS;
}

void cn_streams_thread_end(void)
{
	while (cn_context_thread.streams) {
		struct cn_stream_of_thread *own = cn_context_thread.streams;
		cn_context_thread.streams = own->next;
		if (cn_table_retire(own->stream, own->handle))
			close_stream(own->stream);
		free(own);
	}
}

static CUresult no_stream(CUstream handle)
{
	if (cn_table_is_orphan(&cn_streams, handle))
		return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the stream was destroyed with its context");
	return cn_error(CUDA_ERROR_INVALID_HANDLE, "%p is not a live stream", (void *)handle);
}

CUresult cn_stream_find(CUstream handle, struct cn_place *ret_place)
{
	struct cn_home home;
	CUresult result;

	if ((uintptr_t)handle > (uintptr_t)CU_STREAM_PER_THREAD) {
		result = cn_enter_by_handle();
		if (result)
			return result;
		struct cn_stream *stream = cn_table_find(&cn_streams, handle);
		struct cn_context *context = stream ? atomic_load(&stream->context) : NULL;
		if (!stream || cn_object_handle(stream) != (uintptr_t)handle) /* else the context is this stream's */
			return no_stream(handle);
		*ret_place = (struct cn_place){.stream = stream, .context = context, .owner = (uintptr_t)handle};
		return CUDA_SUCCESS;
	}
	result = cn_context_enter(&home);
	if (result)
		return result;
	if (handle == CU_STREAM_PER_THREAD)
		return thread_stream(&home, ret_place);
	*ret_place = (struct cn_place){.stream = &home.context->legacy, .context = home.context, .owner = home.life};
	return CUDA_SUCCESS;
}

CUresult cn_place_is_gone(const struct cn_place *place)
{
	if (cn_place_is_legacy(place))
		return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed during the call");
	return no_stream((CUstream)(uintptr_t)place->owner);
}

CUresult cn_stream_submit(const struct cn_place *place, const struct cn_operation *operation,
			  struct cn_point *ret_point)
{
	CUresult result = cn_host_queue_submit(&place->stream->queue, place->owner, operation, ret_point);

	return __builtin_expect(result == CUDA_ERROR_INVALID_HANDLE, 0) ? cn_place_is_gone(place) : result;
}

/* Add what is pending in a queue to a list. */
static void add_pending(struct cn_queue *queue, struct cn_point *points, size_t room, size_t *count)
{
	struct cn_point point = {queue, atomic_load(&queue->submitted)};

	if (cn_point_reached(point))
		return;
	if (*count < room)
		points[*count] = point;
	++*count;
}

/*
 * How much of a context's work is pending, as points of its legacy stream and of those in the first slots of the table,
 * destroyed ones included; all streams or the blocking ones alone. Stores no more than `room` of them.
 */
static size_t pending(struct cn_context *context, bool all, uint32_t slot_count, struct cn_point *points, size_t room)
{
	size_t count = 0;

	add_pending(&context->legacy.queue.base, points, room, &count);
	cn_lock(&making);
	for (uint32_t i = 0; i < slot_count; i++) {
		struct cn_stream *stream = cn_table_slot(&cn_streams, i);
		if (stream->context == context && (all || !(stream->flags & CU_STREAM_NON_BLOCKING)))
			add_pending(&stream->queue.base, points, room, &count);
	}
	cn_unlock(&making);
	return count;
}

size_t cn_context_pending(struct cn_context *context, struct cn_point *points, size_t room)
{
	return pending(context, true, atomic_load(&cn_streams.count), points, room);
}

/* Has another context the record now? Then the end of this one waited for its work. */
static bool is_over(const struct cn_home *home)
{
	uint64_t life = atomic_load(&home->context->life);

	return life && life != home->life;
}

/* Sleep until what is pending now has happened. What comes later is not waited for: it may depend on the caller. */
static void wait_pending(const struct cn_home *home, bool all)
{
	uint32_t slot_count = atomic_load(&cn_streams.count);
	struct cn_point one, *points;
	size_t count;

	if (!pending(home->context, all, slot_count, NULL, 0)) {
		cn_host_print_flush();
		return;
	}
	points = malloc(((size_t)slot_count + 1) * sizeof *points);
	if (points) {
		count = pending(home->context, all, slot_count, points, (size_t)slot_count + 1);
		for (size_t i = 0; i < count && !is_over(home); i++)
			cn_host_point_wait(points[i]);
		free(points);
	} else {
		while (pending(home->context, all, slot_count, &one, 1) && !is_over(home))
			cn_host_point_wait(one);
	}
	cn_host_print_flush();
}

size_t cn_streams_pending(struct cn_point *points, size_t room)
{
	uint32_t context_count = atomic_load(&cn_contexts.count), stream_count = atomic_load(&cn_streams.count);
	size_t count = 0;

	for (uint32_t i = 0; i < context_count; i++)
		add_pending(&((struct cn_context *)cn_table_slot(&cn_contexts, i))->legacy.queue.base, points, room,
			    &count);
	for (uint32_t i = 0; i < stream_count; i++)
		add_pending(&((struct cn_stream *)cn_table_slot(&cn_streams, i))->queue.base, points, room, &count);
	return count;
}

CUresult cn_stream_wait_point(struct cn_point point)
{
	if (!cn_point_reached(point)) {
		if (point.queue == cn_callback_queue)
			return cn_error(CUDA_ERROR_NOT_PERMITTED, "a host function cannot wait for its own stream");
		cn_host_point_wait(point);
	}
	cn_host_print_flush();
	return CUDA_SUCCESS;
}

/* A stream's failure as a sentence for this thread: it was another thread, or another call, that failed. */
static __attribute__((noinline)) CUresult explain_failure(struct cn_host_queue *queue, CUresult failure)
{
	char sentence[CN_SENTENCE_BYTES];

	if (failure == CUDA_ERROR_EXTERNAL_DEVICE)
		return cn_error(failure, "the stream waited for an event whose process died, or whose stream "
					 "failed, before the event completed");
	cn_host_queue_explain(queue, sentence);
	return cn_error(failure, "an operation in the stream failed, and nothing after it runs: %s",
			*sentence ? sentence : cn_result_text(failure));
}

/* The outcome of the stream's work so far, if it is still the stream that was found. */
static CUresult outcome(const struct cn_place *place)
{
	CUresult failure = atomic_load_explicit(&place->stream->queue.failure, memory_order_acquire);

	if (!cn_place_stands(place))
		return cn_place_is_gone(place);
	return failure ? explain_failure(&place->stream->queue, failure) : CUDA_SUCCESS;
}

/*
 * Sleep until everything submitted so far has happened; a legacy stream stands for its context's blocking streams, too.
 * Returns the stream's failure, if it had one. Neither asking nor waiting puts anything in a stream.
 */
static CUresult wait_for_stream(const struct cn_place *place)
{
	struct cn_point point = {&place->stream->queue.base, atomic_load(&place->stream->queue.base.submitted)};
	CUresult result = CUDA_SUCCESS;

	if (cn_place_is_legacy(place))
		wait_pending(&(struct cn_home){.context = place->context, .life = place->owner}, false);
	else
		result = cn_place_stands(place) ? cn_stream_wait_point(point) : cn_place_is_gone(place);
	return result ? result : outcome(place);
}

void cn_streams_destroy(struct cn_context *context)
{
	cn_lock(&making);
	uint32_t count = atomic_load(&cn_streams.count);
	for (uint32_t i = 0; i < count; i++) {
		struct cn_stream *stream = cn_table_slot(&cn_streams, i);
		uint64_t handle = cn_object_handle(stream);
		if (handle && stream->context == context && cn_table_retire_orphan(stream, handle))
			close_stream(stream);
	}
	cn_unlock(&making);
	reap();
}

void cn_context_drain(const struct cn_home *home)
{
	wait_pending(home, true);
}

CUresult cn_context_wait(const struct cn_home *home)
{
	uint32_t count = atomic_load(&cn_streams.count);
	struct cn_context *context = home->context;
	struct cn_host_queue *failed = &context->legacy.queue;
	CUresult failure = atomic_load(&failed->failure);

	wait_pending(home, true);
	cn_modules_reap();
	cn_lock(&making); /* else a stream in the making may still show the failure of the slot's last one */
	for (uint32_t i = 0; i < count && !failure; i++) {
		struct cn_stream *stream = cn_table_slot(&cn_streams, i);
		if (cn_object_handle(stream) && stream->context == context) {
			failed = &stream->queue;
			failure = atomic_load(&failed->failure);
		}
	}
	cn_unlock(&making);
	if (!failure) {
		failed = &context->legacy.queue;
		failure = atomic_load(&failed->failure);
	}
	CUresult result = cn_home_check(home);
	if (result || !failure)
		return result;
	return explain_failure(failed, failure);
}

/* The program has waited for a context, or for its legacy stream, which stands for the blocking ones. */
void cn_streams_settle(struct cn_context *context, bool all)
{
	uint32_t count = atomic_load(&cn_streams.count);
	struct cn_queue *legacy = &context->legacy.queue.base;

	if (!atomic_load_explicit(&cn_mempools_exist, memory_order_relaxed))
		return;
	cn_pools_settle((struct cn_point){legacy, atomic_load(&legacy->completed)});
	cn_pools_settle(cn_streams_after_all_point());
	for (uint32_t i = 0; i < count; i++) {
		struct cn_stream *stream = cn_table_slot(&cn_streams, i);
		if (stream->context == context && (all || !(stream->flags & CU_STREAM_NON_BLOCKING)))
			cn_pools_settle(
				(struct cn_point){&stream->queue.base, atomic_load(&stream->queue.base.completed)});
	}
}

CUresult host_cuStreamCreateWithPriority(CUstream *ret_stream, unsigned int flags, int priority)
{
	struct cn_stream *stream;
	struct cn_home home;
	uint64_t handle;
	CUresult result = cn_given(cn_context_enter(&home), ret_stream, "phStream");

	if (result)
		return result;
	if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "stream flags 0x%x are unknown", flags);
	priority = priority > PRIORITY_LEAST ? PRIORITY_LEAST : priority;
	priority = priority < PRIORITY_GREATEST ? PRIORITY_GREATEST : priority;
	result = make_stream(&home, flags, priority, &stream, &handle);
	if (!result)
		*ret_stream = (CUstream)(uintptr_t)handle;
	return result;
}

CUresult host_cuStreamCreate(CUstream *ret_stream, unsigned int flags)
{
	return host_cuStreamCreateWithPriority(ret_stream, flags, PRIORITY_LEAST);
}

CUresult host_cuStreamDestroy_v2(CUstream handle)
{
	bool special = (uintptr_t)handle <= (uintptr_t)CU_STREAM_PER_THREAD;
	CUresult result = special ? cn_enter() : cn_enter_by_handle();

	if (result)
		return result;
	if (special)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "a default stream cannot be destroyed");
	struct cn_stream *stream = cn_table_find(&cn_streams, handle);
	if (!stream || !cn_table_retire(stream, (uintptr_t)handle))
		return no_stream(handle);
	cn_mempools_synchronised((struct cn_point){&stream->queue.base, atomic_load(&stream->queue.base.completed)});
	close_stream(stream);
	reap();
	return CUDA_SUCCESS;
}

CUresult host_cuStreamQuery(CUstream handle)
{
	struct cn_place place;
	CUresult result = cn_stream_find(handle, &place);

	if (result)
		return result;
	bool idle = cn_place_is_legacy(&place) ? !pending(place.context, false, atomic_load(&cn_streams.count), NULL, 0)
					       : cn_queue_idle(&place.stream->queue.base);
	if (!idle)
		return cn_place_stands(&place) ? CUDA_ERROR_NOT_READY : cn_place_is_gone(&place);
	return outcome(&place);
}

CUresult host_cuStreamSynchronize(CUstream handle)
{
	struct cn_place place;
	CUresult result = cn_stream_find(handle, &place);

	if (!result)
		result = wait_for_stream(&place);
	if (result)
		return result;
	struct cn_queue *queue = &place.stream->queue.base;
	if (cn_place_is_legacy(&place))
		cn_streams_settle(place.context, false);
	else
		cn_mempools_synchronised((struct cn_point){queue, atomic_load(&queue->completed)});
	return CUDA_SUCCESS;
}

CUresult host_cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *data, unsigned int flags)
{
	struct cn_place place;
	CUresult result = cn_given(cn_stream_find(handle, &place), callback, "callback");

	if (result)
		return result;
	if (flags)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"cuStreamAddCallback takes no flags: they must be 0, not 0x%x", flags);
	struct cn_operation operation = {.kind = CN_OPERATION_CALLBACK, .callback = {callback, handle, data}};
	return cn_stream_submit(&place, &operation, NULL);
}

CUresult host_cuStreamAddCallback_ptsz(CUstream handle, CUstreamCallback callback, void *data, unsigned int flags)
{
	/* The callback gets the stream as the program named it: NULL. */
	struct cn_operation operation = {.kind = CN_OPERATION_CALLBACK, .callback = {callback, NULL, data}};
	struct cn_place place;
	CUresult result;

	if (handle || !callback || flags)
		return host_cuStreamAddCallback(handle ? handle : CU_STREAM_PER_THREAD, callback, data, flags);
	result = cn_stream_find(CU_STREAM_PER_THREAD, &place);
	return result ? result : cn_stream_submit(&place, &operation, NULL);
}

/* What a stream was made with. */
struct facts {
	uint64_t context;
	const struct cn_device *device;
	unsigned int flags;
	unsigned long long id;
	int priority;
};

/* `given`: there is room for the answer. */
static CUresult look_at(CUstream handle, bool given, const char *name, struct facts *ret_facts)
{
	struct cn_place place;
	CUresult result = cn_given(cn_stream_find(handle, &place), given, name);

	if (result)
		return result;
	*ret_facts = (struct facts){
		.context = cn_object_handle(place.context),
		.device = place.context->device,
		.flags = place.stream->flags,
		.id = place.stream->id,
		.priority = place.stream->priority,
	};
	return cn_place_stands(&place) ? CUDA_SUCCESS : cn_place_is_gone(&place);
}

CUresult host_cuStreamGetCtx(CUstream handle, CUcontext *ret_context)
{
	struct facts facts;
	CUresult result = look_at(handle, ret_context, "pctx", &facts);

	if (!result)
		*ret_context = (CUcontext)(uintptr_t)facts.context;
	return result;
}

CUresult host_cuStreamGetDevice(CUstream handle, CUdevice *ret_device)
{
	struct facts facts;
	CUresult result = look_at(handle, ret_device, "device", &facts);

	if (!result)
		*ret_device = facts.device->ordinal;
	return result;
}

CUresult host_cuStreamGetFlags(CUstream handle, unsigned int *ret_flags)
{
	struct facts facts;
	CUresult result = look_at(handle, ret_flags, "flags", &facts);

	if (!result)
		*ret_flags = facts.flags;
	return result;
}

CUresult host_cuStreamGetId(CUstream handle, unsigned long long *ret_id)
{
	struct facts facts;
	CUresult result = look_at(handle, ret_id, "streamId", &facts);

	if (!result)
		*ret_id = facts.id;
	return result;
}

CUresult host_cuStreamGetPriority(CUstream handle, int *ret_priority)
{
	struct facts facts;
	CUresult result = look_at(handle, ret_priority, "priority", &facts);

	if (!result)
		*ret_priority = facts.priority;
	return result;
}

CUresult host_cuCtxGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
	struct cn_home home;
	CUresult result = cn_context_enter(&home);

	if (result)
		return result;
	if (ret_least)
		*ret_least = PRIORITY_LEAST;
	if (ret_greatest)
		*ret_greatest = PRIORITY_GREATEST;
	return CUDA_SUCCESS;
}

/* SPDX-License-Identifier: MIT */
/*
 * The contexts whose streams are known, and their end.
 *
 * A context's handle does not identify it: the driver reuses handles, always that of a primary context. So each record
 * has a number for the context that it stands for, its *life*. A thread that is about to end a context says so first,
 * and from then on no thread uses what is known of its streams; whether it has ended is known when the driver's call
 * has returned. Until then a thread that wants a stream of the handle waits: the context may be a new one already. If
 * several threads saw one context end, the first takes its streams down.
 */
#include "device/cuda/cuda_internal.h"

#include <stdlib.h>

enum { ENDING_LOOK_NS = 1000000 };
#define ENDING_NS_MAX 5000000000u

static _Atomic(struct cn_cuda_context *) contexts; /* the list only grows */
static uint64_t last_life;                         /* guarded by the table's lock */

struct cn_cuda_context *cn_cuda_contexts(void)
{
	return atomic_load(&contexts);
}

struct cn_cuda_context *cn_cuda_context_find_locked(CUcontext handle)
{
	struct cn_cuda_context *context = atomic_load(&contexts);

	while (context && atomic_load_explicit(&context->handle, memory_order_relaxed) != handle)
		context = context->next;
	return context;
}

/* NULL, or the record of a context, and which life of it this is. */
static struct cn_cuda_context *find_context(CUcontext handle, uint64_t *ret_life)
{
	cn_lock(&cn_cuda_table_lock);
	struct cn_cuda_context *context = handle ? cn_cuda_context_find_locked(handle) : NULL;
	*ret_life = context ? atomic_load(&context->life) : 0;
	cn_unlock(&cn_cuda_table_lock);
	return context;
}

/*
 * A context that is not about to end. The handle of one that has just ended may be another's already, for which the
 * record must not be used: whether it has ended is known when the driver's call has returned. NULL: there is none.
 */
static CUresult find_settled(CUcontext handle, struct cn_cuda_context **ret_context, uint64_t *ret_life)
{
	uint64_t until_ns = 0;

	for (;;) {
		struct cn_cuda_context *context = find_context(handle, ret_life);
		uint32_t ending = context ? atomic_load(&context->ending) : 0;
		if (!ending) {
			*ret_context = context;
			return CUDA_SUCCESS;
		}
		if (!until_ns)
			until_ns = cn_clock_ns() + ENDING_NS_MAX;
		if (cn_clock_ns() > until_ns)
			return cn_error(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context is being destroyed");
		cn_futex_wait(&context->ending, ending, ENDING_LOOK_NS);
	}
}

static CUresult device_of(CUcontext handle, struct cn_device **ret_device)
{
	struct cn_cuda_stay stay;
	CUdevice device = 0;

	if (!cn_cuda_enter(&stay, handle))
		return cn_error(CUDA_ERROR_INVALID_CONTEXT, "the stream's context cannot be made current");
	CUresult destroyed = cn_cuda_check_current(), result = cn_cuda.cuCtxGetDevice(&device);
	cn_cuda_leave(&stay);
	if (destroyed)
		return destroyed;
	if (result)
		return cn_error(result, "the driver did not say which device a context belongs to");
	if (device < 0 || device >= cn_cuda_device_count)
		return cn_error(CUDA_ERROR_INVALID_DEVICE, "a context is of device %d, which is unknown", device);
	*ret_device = &cn_cuda_devices[device];
	return CUDA_SUCCESS;
}

CUresult cn_cuda_context_get(CUcontext handle, struct cn_cuda_context **ret_context, uint64_t *ret_life)
{
	struct cn_cuda_context *context = NULL, *fresh = NULL;
	struct cn_device *device;
	CUresult result = find_settled(handle, &context, ret_life);

	if (context)
		*ret_context = context;
	if (result || context)
		return result;
	result = device_of(handle, &device);
	if (result)
		return result;
	fresh = calloc(1, sizeof *fresh);
	if (!fresh)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of a context");
	cn_lock(&cn_cuda_table_lock);
	context = cn_cuda_context_find_locked(handle); /* another thread may have been faster */
	bool found = context != NULL;
	if (!found)
		context = cn_cuda_context_find_locked(NULL); /* the record of a context that has ended */
	if (!context) {
		context = fresh;
		fresh = NULL;
		context->dying_end = &context->dying;
		context->next = atomic_load(&contexts);
		atomic_store(&contexts, context);
	}
	if (!found) {
		context->device = device;
		atomic_store(&context->ending, 0);
		atomic_store(&context->life, ++last_life);
		atomic_store(&context->handle, handle);
	}
	*ret_life = atomic_load(&context->life);
	cn_unlock(&cn_cuda_table_lock);
	free(fresh);
	*ret_context = context;
	return CUDA_SUCCESS;
}

uint64_t cn_cuda_context_ending(CUcontext handle)
{
	uint64_t life = 0;

	cn_lock(&cn_cuda_table_lock);
	struct cn_cuda_context *context = handle ? cn_cuda_context_find_locked(handle) : NULL;
	if (context) {
		life = atomic_load(&context->life);
		atomic_fetch_add(&context->ending, 1);
	}
	cn_unlock(&cn_cuda_table_lock);
	if (!context)
		return 0;
	atomic_fetch_add(&cn_cuda_serial, 1); /* what threads remember may be of a context that has ended */
	/* A thread that is in the driver with it, or with a stream of it, has a lock; a later one sees what was set. */
	cn_driver_lock(&context->asking);
	cn_driver_unlock(&context->asking);
	for (struct cn_cuda_stream *stream = atomic_load(&context->streams); stream; stream = stream->next) {
		cn_driver_lock(&stream->lock);
		cn_driver_unlock(&stream->lock);
	}
	return life;
}

void cn_cuda_context_stays(CUcontext handle, uint64_t life)
{
	cn_lock(&cn_cuda_table_lock);
	struct cn_cuda_context *context = life ? cn_cuda_context_find_locked(handle) : NULL;
	bool same = context && atomic_load(&context->life) == life;
	if (same)
		atomic_fetch_sub(&context->ending, 1);
	cn_unlock(&cn_cuda_table_lock);
	if (same)
		cn_futex_wake(&context->ending, INT32_MAX);
}

/* Nothing of the stream is left to happen. */
static void end_stream(struct cn_cuda_stream *stream)
{
	cn_driver_lock(&stream->lock);
	atomic_store(&stream->queue.owner, 0);
	cn_cuda_drop_marks(stream);
	if (stream->handle && stream->kind == CN_CUDA_ORDINARY)
		cn_cuda_forget(stream->handle, stream);
	stream->handle = NULL;
	stream->thread = 0;
	atomic_store(&stream->state, CN_CUDA_SPARE);
	cn_cuda_complete(stream, cn_cuda_end_span(&stream->queue).number);
	cn_driver_unlock(&stream->lock);
	cn_cuda_run_notes(stream);
}

void cn_cuda_context_over(CUcontext handle, uint64_t life)
{
	cn_lock(&cn_cuda_table_lock);
	struct cn_cuda_context *context = life ? cn_cuda_context_find_locked(handle) : NULL;
	bool ours = context && atomic_load(&context->life) == life;
	if (ours) /* otherwise another thread has seen it, too, and was faster */
		atomic_store(&context->life, 0);
	cn_unlock(&cn_cuda_table_lock);
	if (!ours)
		return;
	atomic_fetch_add(&cn_cuda_serial, 1);
	for (struct cn_cuda_stream *stream = atomic_load(&context->streams); stream; stream = stream->next)
		end_stream(stream);
	cn_driver_lock(&context->asking);
	for (unsigned slot = 0; slot < CN_GRACE_PERIODS_MAX; slot++)
		context->grace[slot] = NULL; /* the events went with the context */
	cn_driver_unlock(&context->asking);
	cn_lock(&context->lock);
	context->event_count = 0;
	cn_unlock(&context->lock);
	cn_lock(&cn_cuda_table_lock);
	context->legacy = NULL;
	context->dying = NULL;
	context->dying_end = &context->dying;
	context->spare = NULL;
	for (struct cn_cuda_stream *stream = atomic_load(&context->streams); stream; stream = stream->next) {
		if (stream->in_hand) /* its thread finds that the context has ended, and gives it back */
			continue;
		stream->next_in_list = context->spare;
		context->spare = stream;
	}
	atomic_store(&context->handle, NULL);
	atomic_store(&context->ending, 0);
	cn_unlock(&cn_cuda_table_lock);
	atomic_fetch_add(&cn_cuda_serial, 1);
	cn_futex_wake(&context->ending, INT32_MAX);
}

uint64_t cn_cuda_each_of_context(CUcontext handle, void (*visit)(struct cn_queue *queue, void *data), void *data)
{
	uint64_t life;
	struct cn_cuda_context *context = find_context(handle, &life);

	for (struct cn_cuda_stream *stream = context ? atomic_load(&context->streams) : NULL; stream;
	     stream = stream->next)
		if (atomic_load(&stream->state) != CN_CUDA_SPARE)
			visit(&stream->queue, data);
	return context && atomic_load(&context->life) == life ? life : 0;
}

bool cn_cuda_context_is(CUcontext handle, uint64_t life)
{
	uint64_t now;

	return life && find_context(handle, &now) && now == life;
}

CUcontext cn_cuda_any_context(const struct cn_device *device)
{
	CUcontext handle = NULL;

	cn_lock(&cn_cuda_table_lock); /* a record without a context may become another device's */
	for (struct cn_cuda_context *context = atomic_load(&contexts); context && !handle; context = context->next)
		if (context->device == device && !atomic_load(&context->ending))
			handle = atomic_load(&context->handle);
	cn_unlock(&cn_cuda_table_lock);
	return handle;
}

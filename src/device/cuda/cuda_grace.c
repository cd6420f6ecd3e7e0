/* SPDX-License-Identifier: MIT */
/*
 * Grace periods of the cuda device: a period is an event in each context whose streams are known, recorded behind all
 * that the context was given so far (cuCtxRecordEvent). No stream waits for it.
 *
 * A period does not begin while a stream is being captured, since the event would end the capture, nor while a context
 * may be about to end. A context that has failed runs nothing any more. A driver before CUDA 12.5 has no such events:
 * there a period is over at once.
 */
#include "device/cuda/cuda_internal.h"

enum { IDLE_NS = 30000 }; /* an idle GPU says so within this time */

/* Context's `asking` held. */
static void drop(struct cn_cuda_context *context, unsigned slot)
{
	if (context->grace[slot])
		cn_cuda_give_event(context, context->grace[slot]);
	context->grace[slot] = NULL;
}

static bool is_ending(struct cn_cuda_context *context)
{
	return atomic_load(&context->ending);
}

/* False: not now. */
static bool begin(struct cn_cuda_context *context, unsigned slot)
{
	enum cn_cuda_recorded recorded = CN_CUDA_NOT_NOW;
	struct cn_cuda_mark mark = {NULL, 0};

	cn_driver_lock(&context->asking);
	if (!atomic_load(&context->handle)) { /* over: `grace` went with it */
		recorded = CN_CUDA_CONTEXT_LOST;
	} else if (!is_ending(context)) {
		drop(context, slot); /* of a period that failed to begin */
		recorded = cn_cuda_record_context(context, NULL, &mark);
		context->grace[slot] = mark.event;
	}
	cn_driver_unlock(&context->asking);
	return recorded != CN_CUDA_NOT_NOW;
}

static bool is_over(struct cn_cuda_context *context, unsigned slot)
{
	CUresult result = CUDA_ERROR_NOT_READY;
	struct cn_cuda_stay stay;

	cn_driver_lock(&context->asking);
	if (!context->grace[slot]) {
		result = CUDA_SUCCESS;
	} else if (!is_ending(context) && cn_cuda_enter(&stay, NULL)) {
		result = cn_cuda.cuEventQuery(context->grace[slot]);
		cn_cuda_leave(&stay);
		if (!result)
			drop(context, slot);
		else if (cn_cuda_is_the_end(result))
			context->grace[slot] = NULL;
	}
	cn_driver_unlock(&context->asking);
	return !result || cn_cuda_is_the_end(result);
}

bool cn_cuda_grace_begin(unsigned slot)
{
	if (!cn_cuda_record_all)
		return true;
	for (struct cn_cuda_context *context = cn_cuda_contexts(); context; context = context->next)
		if (!begin(context, slot))
			return false;
	/* So a call that trims or destroys a pool of an idle GPU is done on return. */
	uint64_t until_ns = cn_clock_ns() + IDLE_NS;
	while (!cn_cuda_grace_is_over(slot) && cn_clock_ns() < until_ns)
		cn_cpu_relax();
	return true;
}

bool cn_cuda_grace_is_over(unsigned slot)
{
	for (struct cn_cuda_context *context = cn_cuda_contexts(); context; context = context->next)
		if (!is_over(context, slot))
			return false;
	return true;
}

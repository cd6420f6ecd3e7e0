/* SPDX-License-Identifier: MIT */
/*
 * Operations: running one, once nothing holds it up.
 *
 * After a failure, operations that touch memory are skipped. What others rely on is done all the same: callbacks are
 * called, the library's own notes are taken, and a record of a signal ends.
 */
#include "base/guard.h"
#include "device/host/host_internal.h"

#include <stdlib.h>
#include <time.h>

enum { SHORT_BYTES = 64 * 1024 }; /* a copy of this size takes about as long as waking a thread for it */

bool cn_host_is_short(const struct cn_operation *operation)
{
	switch (operation->kind) {
	case CN_OPERATION_COPY:
		return !operation->copy.layers && operation->copy.row_bytes * operation->copy.row_count <= SHORT_BYTES;
	case CN_OPERATION_FILL:
		return operation->fill.element_bytes * operation->fill.row_elements * operation->fill.row_count <=
		       SHORT_BYTES;
	case CN_OPERATION_WAIT_POINT:
	case CN_OPERATION_WAIT_VALUE:
	case CN_OPERATION_WRITE_VALUE:
	case CN_OPERATION_TIMESTAMP:
	case CN_OPERATION_NOTE:
	case CN_OPERATION_MARK_SIGNAL:
	case CN_OPERATION_WAIT_SIGNAL: return true;
	case CN_OPERATION_HOST_CALL:
	case CN_OPERATION_CALLBACK:
	case CN_OPERATION_LAUNCH:
	case CN_OPERATION_REMOTE: return false;
	}
	return false;
}

static void write_value(const struct cn_operation *operation)
{
	if (operation->write_value.bytes == 4)
		atomic_store_explicit((_Atomic uint32_t *)operation->write_value.address,
				      (uint32_t)operation->write_value.value, memory_order_release);
	else
		atomic_store_explicit((_Atomic uint64_t *)operation->write_value.address, operation->write_value.value,
				      memory_order_release);
}

static void write_timestamp(const struct cn_operation *operation)
{
	struct cn_stamp *stamp = operation->timestamp.stamp;

	cn_lock(&stamp->lock);
	if (stamp->serial == operation->timestamp.serial)
		stamp->time_ns = cn_clock_ns();
	cn_unlock(&stamp->lock);
}

/* Call a function of the program, marked as such: it may not call CUDA. */
static void call_program(struct cn_host_queue *queue, const struct cn_operation *operation, CUresult failure)
{
	cn_callback_queue = &queue->base;
	if (operation->kind == CN_OPERATION_CALLBACK) {
		cn_host_print_flush_for_callback(); /* as the manual has it of callbacks, not of host functions */
		operation->callback.function(operation->callback.stream, failure, operation->callback.data);
	} else if (!failure) {
		operation->host_call.function(operation->host_call.data);
	}
	cn_callback_queue = NULL;
}

static bool touches_memory(const struct cn_operation *operation)
{
	return operation->kind == CN_OPERATION_COPY || operation->kind == CN_OPERATION_FILL ||
	       operation->kind == CN_OPERATION_WRITE_VALUE || operation->kind == CN_OPERATION_WAIT_VALUE;
}

struct touch {
	const struct cn_operation *operation;
	CUresult result;
};

static void touch_guarded(void *data)
{
	struct touch *touch = data;

	if (touch->operation->kind == CN_OPERATION_COPY)
		touch->result = cn_host_copy(touch->operation);
	else if (touch->operation->kind == CN_OPERATION_FILL)
		cn_host_fill(touch->operation);
	else if (touch->operation->kind == CN_OPERATION_WRITE_VALUE)
		write_value(touch->operation);
	else
		(void)cn_host_read_value(touch->operation);
}

CUresult cn_host_touch(const struct cn_operation *operation)
{
	struct touch touch = {operation, CUDA_SUCCESS};

	if (!cn_guard_run(touch_guarded, &touch))
		return cn_error(CUDA_ERROR_ILLEGAL_ADDRESS, "an operation used memory that is no longer mapped");
	return touch.result;
}

/* Free what a copy took along, and hand its result to the thread that waits for it. */
static CUresult end_copy(const struct cn_operation *operation, CUresult failure, CUresult result)
{
	free(operation->copy.staging);
	free(operation->copy.layers);
	if (!operation->copy.result)
		return result;
	*operation->copy.result = failure ? failure : result;
	return CUDA_SUCCESS;
}

static CUresult run_remote(struct cn_host_remote_work *work, CUresult failure)
{
	CUresult result = failure ? CUDA_SUCCESS : cn_host_remote_run(work);

	if (work->operation.kind == CN_OPERATION_COPY)
		result = end_copy(&work->operation, failure, result);
	free(work);
	return result;
}

CUresult cn_host_run(struct cn_host_queue *queue, const struct cn_operation *operation, void *payload, CUresult failure)
{
	CUresult result = CUDA_SUCCESS;

	if (operation->kind == CN_OPERATION_NOTE) { /* first: frees of shared blocks are notes */
		operation->note.function(operation->note.object, operation->note.number);
		return CUDA_SUCCESS;
	}
	if (operation->kind == CN_OPERATION_CALLBACK || operation->kind == CN_OPERATION_HOST_CALL)
		call_program(queue, operation, failure);
	else if (operation->kind == CN_OPERATION_MARK_SIGNAL || operation->kind == CN_OPERATION_WAIT_SIGNAL)
		result = cn_host_signal_run(operation, failure);
	else if (operation->kind == CN_OPERATION_REMOTE)
		result = run_remote(operation->remote, failure);
	else if (failure)
		; /* what follows a failure does not run */
	else if (operation->kind == CN_OPERATION_LAUNCH)
		result = cn_host_launch(&operation->launch.launch, payload);
	else if (touches_memory(operation))
		result = cn_host_touch(operation);
	else if (operation->kind == CN_OPERATION_TIMESTAMP)
		write_timestamp(operation);

	return operation->kind == CN_OPERATION_COPY ? end_copy(operation, failure, result) : result;
}

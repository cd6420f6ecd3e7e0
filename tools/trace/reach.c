/* SPDX-License-Identifier: MIT */
/*
 * When a stream reaches the work that was put into it.
 *
 * After each such call the stream is asked whether it is done: on the host device, short work on an idle stream is done
 * when the call returns, and the answer costs some nanoseconds. If it is not, a host function is put behind the work,
 * which notes the time. This is only done on the host device, where each stream that runs has a thread of its own. On a
 * GPU the stream would wait for the host, and if the driver has one thread for all host functions, a program whose own
 * function waits for another stream would wait for ever. Nor is it done in the legacy default stream, which orders
 * itself with all others. In these cases the trace knows what the program learns by its own waiting.
 * CENOTE_TRACE_MARKS=1 asks for the host functions on a GPU, too.
 *
 * A stream that is being captured is not touched.
 */
#include "trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
	pthread_once_t once;
	__typeof__(cuStreamQuery) *query;
	__typeof__(cuStreamIsCapturing) *is_capturing;
	__typeof__(cuLaunchHostFunc) *launch;
	bool is_host, marks;
} library = {.once = PTHREAD_ONCE_INIT};

static void find_library(void)
{
	const char *(*kind)(void) = (const char *(*)(void))cn_trace_find("cenote_device_kind");
	const char *marks = getenv(CN_TRACE_MARKS_VARIABLE);

	library.query = (__typeof__(library.query))cn_trace_find("cuStreamQuery");
	library.is_capturing = (__typeof__(library.is_capturing))cn_trace_find("cuStreamIsCapturing");
	library.launch = (__typeof__(library.launch))cn_trace_find("cuLaunchHostFunc");
	library.is_host = kind && strcmp(kind(), "host") == 0;
	library.marks = library.is_host || (marks && strcmp(marks, "1") == 0);
}

/* Runs on a thread of the library, and does not call it. The record stays in place as long as the process. */
static void CUDA_CB mark(void *record)
{
	atomic_store(&((struct cn_trace_record *)record)->reached_ns, cn_trace_now_ns());
}

/* The stream that a call means. */
static CUstream stream_of(const struct cn_trace_record *record)
{
	CUstream stream = (CUstream)(uintptr_t)record->stream;

	return !stream && record->flags & CN_TRACE_PER_THREAD ? CU_STREAM_PER_THREAD : stream;
}

static bool is_captured(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	/* The host device captures nothing. */
	return !library.is_host && (!library.is_capturing || library.is_capturing(stream, &status) ||
				    status != CU_STREAM_CAPTURE_STATUS_NONE);
}

bool cn_trace_is_captured(const struct cn_trace_record *record)
{
	pthread_once(&library.once, find_library);
	return is_captured(stream_of(record));
}

void cn_trace_follow(struct cn_trace_record *record)
{
	CUstream stream = stream_of(record);

	pthread_once(&library.once, find_library);
	if (!library.query || is_captured(stream))
		return;
	if (library.query(stream) == CUDA_SUCCESS) {
		atomic_store(&record->reached_ns, record->end_ns);
		return;
	}
	if (!library.marks || !library.launch || !stream || stream == CU_STREAM_LEGACY)
		return;
	atomic_store(&record->reached_ns, CN_TRACE_MARKED);
	if (library.launch(stream, mark, record))
		atomic_store(&record->reached_ns, 0);
}

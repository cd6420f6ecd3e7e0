/* SPDX-License-Identifier: MIT */
/*
 * Captures on a GPU: which are under way.
 *
 * No operation may be put into a stream that is being captured (cuda_mark.c), so captures are counted, from before the
 * driver begins one until it is over. A capture belongs to the stream in which it began. It ends by
 * cuStreamEndCapture() or with the stream: when that is destroyed, with its context, or, if it is a thread's own, with
 * the thread. The driver does not report the latter three (seen on an H200), so we note where each capture began, and
 * give it a number, which tells it from a capture of another stream that gets the same handle later.
 */
#include "driver/gpu/gpu_calls.h"

#include "device/cuda/cuda_library.h"

#include <pthread.h>
#include <stdlib.h>

struct capture {
	struct capture *next;
	uint64_t number;
	CUstream origin;
	CUcontext context;
	const char *thread; /* of its per-thread stream; NULL: not such a stream */
};

static struct {
	CN_LOCK(GPU_CAPTURES) lock;
	struct capture *first;
	uint64_t last_number;
} captures;

static _Thread_local char here; /* its address identifies the thread */

static bool is_like(const struct capture *capture, const struct capture *like)
{
	return capture->number <= like->number && (!like->origin || capture->origin == like->origin) &&
	       (!like->context || capture->context == like->context) &&
	       (!like->thread || capture->thread == like->thread);
}

/* End all that match this one, up to its number. */
static void end_all(const struct capture *like)
{
	struct capture *ended = NULL;

	cn_lock(&captures.lock);
	for (struct capture **link = &captures.first, *capture; (capture = *link);) {
		if (!is_like(capture, like)) {
			link = &capture->next;
			continue;
		}
		*link = capture->next;
		capture->next = ended;
		ended = capture;
	}
	cn_unlock(&captures.lock);
	while (ended) {
		struct capture *next = ended->next;
		free(ended);
		cn_cuda_capture_ended();
		ended = next;
	}
}

uint64_t cn_gpu_last_capture(void)
{
	if (!atomic_load(&cn_cuda_captures))
		return 0;
	cn_lock(&captures.lock);
	uint64_t number = captures.first ? captures.last_number : 0;
	cn_unlock(&captures.lock);
	return number;
}

void cn_gpu_captures_over(uint64_t last, CUstream stream, CUcontext context)
{
	if (last)
		end_all(&(struct capture){.number = last, .origin = stream, .context = context});
}

/* ---- Threads ---- */

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* of threads that have begun a capture of their own stream */
static bool has_key;

static void end_thread(void *thread)
{
	if (cn_gpu_is_watched())
		end_all(&(struct capture){.number = UINT64_MAX, .thread = thread});
}

static void make_key(void)
{
	has_key = pthread_key_create(&key, end_thread) == 0;
}

/* ---- Calls ---- */

/* The driver is about to begin one. NULL: it must not. In a forked child the driver refuses, and nothing is counted. */
static CUresult begins(struct capture **ret_capture)
{
	*ret_capture = NULL;
	if (!cn_gpu_is_watched())
		return CUDA_SUCCESS;
	*ret_capture = malloc(sizeof **ret_capture);
	if (!*ret_capture)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of a capture");
	cn_cuda_capture_began();
	return CUDA_SUCCESS;
}

/* The driver has begun it, or has refused. */
static CUresult began(struct capture *capture, CUstream origin, CUresult result)
{
	if (!capture)
		return result;
	if (result) {
		free(capture);
		cn_cuda_capture_ended();
		return result;
	}
	*capture = (struct capture){.origin = origin, .thread = origin == CU_STREAM_PER_THREAD ? &here : NULL};
	cn_cuda.cuStreamGetCtx(origin, &capture->context);
	if (capture->thread) {
		pthread_once(&key_once, make_key);
		if (has_key)
			pthread_setspecific(key, capture->thread);
	}
	cn_lock(&captures.lock);
	capture->number = ++captures.last_number;
	capture->next = captures.first;
	captures.first = capture;
	cn_unlock(&captures.lock);
	return CUDA_SUCCESS;
}

CUresult gpu_cuStreamBeginCapture(CUstream stream)
{
	struct capture *capture;
	return begins(&capture) ?: began(capture, stream, driver_cuStreamBeginCapture(stream));
}

CUresult gpu_cuStreamBeginCapture_ptsz(CUstream stream)
{
	return gpu_cuStreamBeginCapture(cn_gpu_own_stream(stream));
}

CUresult gpu_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	struct capture *capture;
	return begins(&capture) ?: began(capture, stream, driver_cuStreamBeginCapture_v2(stream, mode));
}

CUresult gpu_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	return gpu_cuStreamBeginCapture_v2(cn_gpu_own_stream(stream), mode);
}

CUresult gpu_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
					 const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
	struct capture *capture;
	CUresult result = begins(&capture);

	if (result)
		return result;
	result = driver_cuStreamBeginCaptureToGraph(stream, graph, nodes, edges, count, mode);
	return began(capture, stream, result);
}

CUresult gpu_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
					      const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
	return gpu_cuStreamBeginCaptureToGraph(cn_gpu_own_stream(stream), graph, nodes, edges, count, mode);
}

/* Not every call ends a capture, and an invalidated capture ends with an error: only the driver knows. */
CUresult gpu_cuStreamEndCapture(CUstream stream, CUgraph *ret_graph)
{
	bool was = cn_gpu_is_watched() && cn_cuda_is_capturing(stream);
	uint64_t last = was ? cn_gpu_last_capture() : 0;
	CUresult result = driver_cuStreamEndCapture(stream, ret_graph);

	if (was && !cn_cuda_is_capturing(stream))
		end_all(&(struct capture){
			.number = last,
			.origin = stream,
			.thread = stream == CU_STREAM_PER_THREAD ? &here : NULL,
		});
	return result;
}

CUresult gpu_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *ret_graph)
{
	return gpu_cuStreamEndCapture(cn_gpu_own_stream(stream), ret_graph);
}

/* SPDX-License-Identifier: MIT */
/*
 * Chapter "state": every call, made before cuInit, without a context, in a destroyed context, and inside a callback.
 */
#include "calls.h"

CHAPTER(state);

static struct objects f;
static struct outputs o;

static void fake_objects(void)
{
	f.context = f.victim_context = ZEROS(CUcontext);
	f.stream = f.victim_stream = ZEROS(CUstream);
	f.event = f.later_event = f.victim_event = ZEROS(CUevent);
	f.module = f.victim_module = ZEROS(CUmodule);
	f.function = ZEROS(CUfunction);
	f.memory = f.victim_memory = f.managed = ZEROS(CUdeviceptr);
	f.host = f.victim_host = f.registered = f.unregistered = ask_zeros;
	f.pageable = ask_zeros;
	objects_outputs(&f, &o);
}

#define X(name, call) ASK("uninitialised_" #name, call);
GROUP(uninitialised_queries)
{
	fake_objects();
	QUERY_CALLS(X)
}

GROUP(uninitialised_memory)
{
	fake_objects();
	MEMORY_CALLS(X)
}

GROUP(uninitialised_streams)
{
	fake_objects();
	STREAM_CALLS(X)
}

GROUP(uninitialised_endings)
{
	fake_objects();
	ENDING_CALLS(X)
}
#undef X

static void leave_context(void)
{
	ask_context();
	objects_make(&f);
	objects_outputs(&f, &o);
	NEED(cuCtxSetCurrent(NULL));
}

#define X(name, call) ASK("contextless_" #name, call);
GROUP(contextless_queries)
{
	leave_context();
	QUERY_CALLS(X)
}

GROUP(contextless_memory)
{
	leave_context();
	MEMORY_CALLS(X)
}

GROUP(contextless_streams)
{
	leave_context();
	STREAM_CALLS(X)
}

GROUP(contextless_endings)
{
	leave_context();
	ENDING_CALLS(X)
}
#undef X

static void lose_context(void)
{
	ask_context();
	objects_make(&f);
	objects_outputs(&f, &o);
	ask_destroyed(f.context);
}

#define X(name, call) ASK("destroyed_" #name, call);
GROUP(destroyed_queries)
{
	lose_context();
	QUERY_CALLS(X)
}

GROUP(destroyed_memory)
{
	lose_context();
	MEMORY_CALLS(X)
}

GROUP(destroyed_streams)
{
	lose_context();
	STREAM_CALLS(X)
}

GROUP(destroyed_endings)
{
	lose_context();
	ENDING_CALLS(X)
}
#undef X

#define X(name, call) ASK("callback_" #name, call);
static void CUDA_CB ask_queries(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	QUERY_CALLS(X)
}

static void CUDA_CB ask_memory(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	MEMORY_CALLS(X)
}

static void CUDA_CB ask_streams(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	STREAM_CALLS(X)
}

static void CUDA_CB ask_endings(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	ENDING_CALLS(X)
}
#undef X

static void in_callback(CUstreamCallback callback)
{
	ask_context();
	objects_make(&f);
	objects_outputs(&f, &o);
	ask_in_stream(callback, NULL);
}

GROUP(callback_queries)
{
	in_callback(ask_queries);
}

GROUP(callback_memory)
{
	in_callback(ask_memory);
}

GROUP(callback_streams)
{
	in_callback(ask_streams);
}

GROUP(callback_endings)
{
	in_callback(ask_endings);
}

#define X(name, call) ASK("host_function_" #name, call);
static void CUDA_CB ask_in_host_function(void *data)
{
	(void)data;
	QUERY_CALLS(X)
}

static void CUDA_CB ask_streams_in_host_function(void *data)
{
	(void)data;
	STREAM_CALLS(X)
}
#undef X

static void in_host_function(CUhostFn function)
{
	ask_context();
	objects_make(&f);
	objects_outputs(&f, &o);
	ask_in_stream(NULL, function);
}

GROUP(host_function_queries)
{
	in_host_function(ask_in_host_function);
}

GROUP(host_function_streams)
{
	in_host_function(ask_streams_in_host_function);
}

#define X(name, call) ASK("callback_" #name, call);
static void CUDA_CB ask_runtime(void *data)
{
	(void)data;
	RUNTIME_CALLS(X)
}
#undef X

GROUP(callback_runtime)
{
	NEED(cudaFree(NULL));
	objects_make(&f);
	objects_outputs(&f, &o);
	cudaStream_t own = NULL;
	NEED(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
	/* The questions are asked in the callback: nothing is said here until it is over. */
	cudaError_t added = cudaLaunchHostFunc(own, ask_runtime, NULL), waited = cudaStreamSynchronize(own);
	NEED(added);
	NEED(waited);
}

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

static void prepare(void)
{
	ask_context();
	objects_make(&f);
	objects_outputs(&f, &o);
}

/* The calls of one kind, where the state is this. */
#define X(name, call) ASK(ask_name("%s_" #name, state), call);
static void ask_queries(const char *state)
{
	QUERY_CALLS(X)
}

static void ask_memory(const char *state)
{
	MEMORY_CALLS(X)
}

static void ask_streams(const char *state)
{
	STREAM_CALLS(X)
}

static void ask_endings(const char *state){ENDING_CALLS(X)}
#undef X

GROUP(uninitialised_queries)
{
	fake_objects();
	ask_queries("uninitialised");
}

GROUP(uninitialised_memory)
{
	fake_objects();
	ask_memory("uninitialised");
}

GROUP(uninitialised_streams)
{
	fake_objects();
	ask_streams("uninitialised");
}

GROUP(uninitialised_endings)
{
	fake_objects();
	ask_endings("uninitialised");
}

static void leave_context(void)
{
	prepare();
	NEED(cuCtxSetCurrent(NULL));
}

GROUP(contextless_queries)
{
	leave_context();
	ask_queries("contextless");
}

GROUP(contextless_memory)
{
	leave_context();
	ask_memory("contextless");
}

GROUP(contextless_streams)
{
	leave_context();
	ask_streams("contextless");
}

GROUP(contextless_endings)
{
	leave_context();
	ask_endings("contextless");
}

static void lose_context(void)
{
	prepare();
	ask_destroyed(f.context);
}

GROUP(destroyed_queries)
{
	lose_context();
	ask_queries("destroyed");
}

GROUP(destroyed_memory)
{
	lose_context();
	ask_memory("destroyed");
}

GROUP(destroyed_streams)
{
	lose_context();
	ask_streams("destroyed");
}

GROUP(destroyed_endings)
{
	lose_context();
	ask_endings("destroyed");
}

static void CUDA_CB queries_in_callback(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	ask_queries("callback");
}

static void CUDA_CB memory_in_callback(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	ask_memory("callback");
}

static void CUDA_CB streams_in_callback(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	ask_streams("callback");
}

static void CUDA_CB endings_in_callback(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	ask_endings("callback");
}

static void in_callback(CUstreamCallback callback)
{
	prepare();
	ask_in_stream(callback, NULL);
}

GROUP(callback_queries)
{
	in_callback(queries_in_callback);
}

GROUP(callback_memory)
{
	in_callback(memory_in_callback);
}

GROUP(callback_streams)
{
	in_callback(streams_in_callback);
}

GROUP(callback_endings)
{
	in_callback(endings_in_callback);
}

static void CUDA_CB queries_in_host_function(void *data)
{
	(void)data;
	ask_queries("host_function");
}

static void CUDA_CB streams_in_host_function(void *data)
{
	(void)data;
	ask_streams("host_function");
}

static void in_host_function(CUhostFn function)
{
	prepare();
	ask_in_stream(NULL, function);
}

GROUP(host_function_queries)
{
	in_host_function(queries_in_host_function);
}

GROUP(host_function_streams)
{
	in_host_function(streams_in_host_function);
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

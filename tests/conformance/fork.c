/* SPDX-License-Identifier: MIT */
/*
 * Chapter "fork": calls in a child that was forked, without exec, from a process that uses CUDA.
 */
#include "calls.h"

CHAPTER(fork);

static struct objects f;
static struct outputs o;

static void prepare(void)
{
	ask_context();
	objects_make(&f);
	objects_outputs(&f, &o);
}

#define X(name, call) ASK("child_" #name, call);
static void child_queries(void *data)
{
	(void)data;
	QUERY_CALLS(X)
}

static void child_memory(void *data)
{
	(void)data;
	MEMORY_CALLS(X)
}

static void child_streams(void *data)
{
	(void)data;
	STREAM_CALLS(X)
}

static void child_endings(void *data)
{
	(void)data;
	ENDING_CALLS(X)
}

static void child_runtime(void *data)
{
	(void)data;
	RUNTIME_CALLS(X)
}
#undef X

GROUP(queries)
{
	prepare();
	ask_forked(child_queries, NULL);
	ASK("parent_after_queries", cuCtxSynchronize());
}

GROUP(memory)
{
	prepare();
	ask_forked(child_memory, NULL);
	ASK("parent_after_memory", cuMemsetD8(f.memory, 1, 16));
}

GROUP(streams)
{
	prepare();
	ask_forked(child_streams, NULL);
	ASK("parent_after_streams", cuStreamSynchronize(f.stream));
}

GROUP(endings)
{
	prepare();
	ask_forked(child_endings, NULL);
	ASK("parent_after_endings", cuCtxSynchronize());
}

GROUP(runtime)
{
	NEED(cudaFree(NULL));
	objects_make(&f);
	objects_outputs(&f, &o);
	ask_forked(child_runtime, NULL);
	ASK("parent_after_runtime", cudaDeviceSynchronize());
}

static void values_in_child(void *data)
{
	CUcontext current = UNTOUCHED(CUcontext);
	int count = UNTOUCHED_INT, device = UNTOUCHED_INT;

	(void)data;
	ASK_VALUE("child_count_value", cuDeviceGetCount(&count), "%s",
		  count == UNTOUCHED_INT ? "untouched" : ask_yes(count >= 1));
	ASK_VALUE("child_device_value", cuDeviceGet(&device, 0), "%d", device);
	ASK_VALUE("child_current_value", cuCtxGetCurrent(&current), "%s", current == f.context ? "it" : OUT(current));
	ASK("child_init_again", cuInit(0));
	ASK("child_init_flags_1", cuInit(1));
	ASK("child_alloc_after_init_again", cuMemAlloc(&f.memory, 16));
	ASK("child_create_after_init_again", cuCtxCreate(&current, NULL, 0, 0));
	count = UNTOUCHED_INT;
	ASK_VALUE("child_runtime_count_value", cudaGetDeviceCount(&count), "%s",
		  count == UNTOUCHED_INT ? "untouched" : ask_yes(count >= 1));
}

GROUP(values)
{
	prepare();
	ask_forked(values_in_child, NULL);
}

/* A parent that has called cuInit and nothing else. */
static void after_init_alone(void *data)
{
	CUcontext context = NULL;
	int count = UNTOUCHED_INT;

	(void)data;
	ASK("init_alone_count", cuDeviceGetCount(&count));
	ASK("init_alone_get", cuDeviceGet(&count, 0));
	ASK("init_alone_create", cuCtxCreate(&context, NULL, 0, 0));
	ASK("init_alone_retain", cuDevicePrimaryCtxRetain(&context, 0));
	ASK("init_alone_init", cuInit(0));
	ASK("init_alone_runtime_free", cudaFree(NULL));
}

GROUP(init_alone)
{
	NEED(cuInit(0));
	ask_forked(after_init_alone, NULL);
}

/* A parent that has only asked for the version. */
static void after_version_alone(void *data)
{
	CUcontext context = NULL;

	ASK(ask_name("%s_init", (char *)data), cuInit(0));
	ASK(ask_name("%s_create", (char *)data), cuCtxCreate(&context, NULL, 0, 0));
}

GROUP(version_alone)
{
	int version = 0;

	NEED(cuDriverGetVersion(&version));
	ask_forked(after_version_alone, "version_alone");
}

/* A parent that has failed to initialise. */
GROUP(failed_init)
{
	cuInit(1);
	ask_forked(after_version_alone, "failed_init");
}

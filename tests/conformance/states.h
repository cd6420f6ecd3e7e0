/* SPDX-License-Identifier: MIT */
/*
 * Calls before cuInit, without a context, in a destroyed one, and inside a callback. ask_in_child() makes them in a
 * child that was forked.
 *
 * A chapter includes this below its CALLS(X), which is X(name, call) for each, make(), which makes what they name, and
 * fake(), for where nothing can be made.
 */
#ifndef CONFORMANCE_STATES_H
#define CONFORMANCE_STATES_H

#include "ask.h"

/* All of them, where the state is this. */
static void ask_calls(const char *state)
{
#define X(name, call) ASK(ask_name("%s_" #name, state), call);
	CALLS(X)
#undef X
}

GROUP(uninitialised)
{
	fake();
	ask_calls("uninitialised");
}

GROUP(contextless)
{
	make();
	NEED(cuCtxSetCurrent(NULL));
	ask_calls("contextless");
}

GROUP(destroyed)
{
	CUcontext context = NULL;

	make();
	NEED(cuCtxGetCurrent(&context));
	ask_destroyed(context);
	ask_calls("destroyed");
}

static void CUDA_CB ask_in_callback(CUstream stream, CUresult status, void *data)
{
	(void)stream, (void)status, (void)data;
	ask_calls("callback");
}

GROUP(callback)
{
	make();
	ask_in_stream(ask_in_callback, NULL);
}

static void CUDA_CB ask_in_host_function(void *data)
{
	(void)data;
	ask_calls("host_function");
}

GROUP(host_function)
{
	make();
	ask_in_stream(NULL, ask_in_host_function);
}

static void ask_in_child(void *data)
{
	(void)data;
	ask_calls("child");
}

#endif

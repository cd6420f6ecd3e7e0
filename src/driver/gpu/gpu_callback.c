/* SPDX-License-Identifier: MIT */
/*
 * Host functions and callbacks of streams on a GPU: while one runs, its thread may not call the pools.
 *
 * The driver refuses its own calls there. Ours must know, since they call the driver in turn and could wait for the
 * very stream that waits for the function. So the function is wrapped in one of ours, which marks the thread. What a
 * capturing stream is given is not wrapped: it may run often, or never.
 */
#include "driver/gpu/gpu_calls.h"

#include <stdlib.h>

typedef CUresult launch_host_function(CUstream stream, CUhostFn function, void *data);
typedef CUresult add_callback(CUstream stream, CUstreamCallback callback, void *data, unsigned int flags);

struct host_call {
	CUhostFn function;         /* or */
	CUstreamCallback callback; /* with */
	void *data;
};

/* The value of cn_callback_queue in such a thread: no real queue. */
static struct cn_queue inside;

static void run_function(void *data)
{
	struct host_call call = *(struct host_call *)data;

	free(data);
	cn_callback_queue = &inside;
	call.function(call.data);
	cn_callback_queue = NULL;
}

static void run_callback(CUstream stream, CUresult status, void *data)
{
	struct host_call call = *(struct host_call *)data;

	free(data);
	cn_callback_queue = &inside;
	call.callback(stream, status, call.data);
	cn_callback_queue = NULL;
}

/* Without pools no code needs the mark; and the driver must see a NULL itself. */
static bool is_plain(CUstream stream, bool there)
{
	return !cn_gpu_has_pools() || !there || cn_cuda_is_capturing(stream);
}

static CUresult wrap(const struct host_call *call, struct host_call **ret_call)
{
	struct host_call *wrapped = malloc(sizeof *wrapped);

	if (!wrapped)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for a host function");
	*wrapped = *call;
	*ret_call = wrapped;
	return CUDA_SUCCESS;
}

static CUresult launch(launch_host_function *driver, CUstream seen, CUstream stream, CUhostFn function, void *data)
{
	struct host_call *call;
	CUresult result;

	if (is_plain(seen, function != NULL))
		return driver(stream, function, data);
	result = wrap(&(struct host_call){.function = function, .data = data}, &call);
	if (result)
		return result;
	result = driver(stream, run_function, call);
	if (result)
		free(call);
	return result;
}

static CUresult add(add_callback *driver, CUstream seen, CUstream stream, CUstreamCallback callback, void *data,
		    unsigned int flags)
{
	struct host_call *call;
	CUresult result;

	if (is_plain(seen, callback != NULL))
		return driver(stream, callback, data, flags);
	result = wrap(&(struct host_call){.callback = callback, .data = data}, &call);
	if (result)
		return result;
	result = driver(stream, run_callback, call, flags);
	if (result)
		free(call);
	return result;
}

CUresult gpu_cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
	return launch(driver_cuLaunchHostFunc, stream, stream, function, data);
}

CUresult gpu_cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data)
{
	return launch(driver_cuLaunchHostFunc_ptsz, cn_gpu_own_stream(stream), stream, function, data);
}

CUresult gpu_cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned int flags)
{
	return add(driver_cuStreamAddCallback, stream, stream, callback, data, flags);
}

CUresult gpu_cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void *data, unsigned int flags)
{
	return add(driver_cuStreamAddCallback_ptsz, cn_gpu_own_stream(stream), stream, callback, data, flags);
}

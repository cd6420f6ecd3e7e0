/* SPDX-License-Identifier: MIT */
/*
 * Host functions: when they run, and some of our own that only take time.
 *
 * What a stream did before a host function is known to the program when that runs, and what the stream does after it
 * comes after all that the program knew when it returned. So for `cenote check` a function of ours stands in place of
 * the program's, and notes both moments.
 *
 * CENOTE_TRACE_DELAY=SEED lets streams pause before their work, so that an order that only happened to be comes out as
 * missing. The n-th pause of a thread's n-th call with a seed is always the same. The legacy default stream is left
 * alone, since all others would pause with it; so are captures.
 */
#include "trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct host {
	void *function, *data;
	uint64_t number;
	unsigned int generation;
};

void *cn_trace_host_wrap(struct cn_trace_call *call, void *function, void *data)
{
	struct host *host;

	/* What is captured runs any number of times. */
	if (!cn_trace_checks || !function || cn_trace_is_captured(call->record))
		return NULL;
	host = malloc(sizeof *host);
	if (!host)
		return NULL;
	*host = (struct host){function, data, call->number, call->generation};
	call->host = host;
	return host;
}

/* The program's function is about to run: what was kept for it. */
static struct host begin(void *wrapped)
{
	struct host host = *(struct host *)wrapped;

	free(wrapped);
	cn_trace_put_host(CN_TRACE_HOST_BEGUN, host.number, host.generation);
	return host;
}

static void end(const struct host *host)
{
	cn_trace_put_host(CN_TRACE_HOST_ENDED, host->number, host->generation);
}

void CUDA_CB cn_trace_host_run(void *wrapped)
{
	struct host host = begin(wrapped);

	((void(CUDA_CB *)(void *))host.function)(host.data);
	end(&host);
}

void CUDA_CB cn_trace_callback_run(CUstream stream, CUresult status, void *wrapped)
{
	struct host host = begin(wrapped);

	((CUstreamCallback)host.function)(stream, status, host.data);
	end(&host);
}

void CUDART_CB cn_trace_runtime_callback_run(cudaStream_t stream, cudaError_t status, void *wrapped)
{
	struct host host = begin(wrapped);

	((cudaStreamCallback_t)host.function)(stream, status, host.data);
	end(&host);
}

/* ---- Pauses ------------------------------------------------------------------------------------------------------ */

enum { PAUSE_ONE_IN = 4, PAUSE_NS_MAX = 2000000 };

static struct {
	pthread_once_t once;
	bool wanted;
	uint64_t seed;
	_Atomic uint64_t threads;
	__typeof__(cuLaunchHostFunc) *launch;
} delay = {.once = PTHREAD_ONCE_INIT};

static _Thread_local struct {
	uint64_t number; /* of this thread, from 1 on */
	uint64_t count;
} draws;

static void prepare_delays(void)
{
	const char *seed = getenv(CN_TRACE_DELAY_VARIABLE);

	delay.wanted = seed && *seed;
	delay.seed = delay.wanted ? strtoull(seed, NULL, 10) : 0;
}

static uint64_t draw(void)
{
	if (!draws.number)
		draws.number = atomic_fetch_add(&delay.threads, 1) + 1;
	uint64_t number = delay.seed ^ draws.number << 40 ^ ++draws.count;
	for (int i = 0; i < 3; i++) {
		number = (number ^ number >> 31) * 0xbf58476d1ce4e5b9u;
		number ^= number >> 27;
	}
	return number;
}

static void CUDA_CB pause_here(void *ns)
{
	struct timespec time = {0, (long)(intptr_t)ns};

	nanosleep(&time, NULL);
}

void cn_trace_delay(uint64_t stream, bool per_thread)
{
	pthread_once(&delay.once, prepare_delays);
	if (!delay.wanted || stream == CN_NUMBER(CU_STREAM_LEGACY) || (!stream && !per_thread))
		return;
	uint64_t chance = draw();
	const struct cn_trace_record record = {.stream = stream, .flags = per_thread ? CN_TRACE_PER_THREAD : 0};
	if (chance % PAUSE_ONE_IN || cn_trace_is_captured(&record))
		return;
	if (!delay.launch)
		delay.launch = (__typeof__(delay.launch))cn_trace_find("cuLaunchHostFunc");
	if (delay.launch)
		delay.launch(stream ? (CUstream)(uintptr_t)stream : CU_STREAM_PER_THREAD, pause_here,
			     (void *)(intptr_t)(chance / PAUSE_ONE_IN % PAUSE_NS_MAX));
}

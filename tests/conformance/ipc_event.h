/* SPDX-License-Identifier: MIT */
/*
 * What the chapter about IPC events starts from: two processes that do as a script says, each step a question.
 *
 * The exporter made the event, the opener opened it. Each has streams, a gate for each stream, and one event; all that
 * they do is a verb and, where it needs one, the number of a stream. One of the two is the group's own process, the
 * other its peer. Nothing of a script waits for ever: where a stream, an event or a thread may never be ready, the
 * question looks at it for a while. `held`, `pending` and `running` look briefly, for what is expected to last; `done`,
 * `ready` and `finished` look for long, for what is expected to come, and say so as soon as it has.
 */
#ifndef CONFORMANCE_IPC_EVENT_H
#define CONFORMANCE_IPC_EVENT_H

#include "ask.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define FOR_OTHERS (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)

enum {
	BRIEF_MS = 100,
	LONG_MS = 3000,
	OWN_STREAMS = 4, /* 0 to 3; then there are NULL (7), the legacy (8) and the thread's (9) */
	STREAM_COUNT = 10,
	GATE_STEP = 16,
	HANDLE_WORDS = sizeof(CUipcEventHandle) / sizeof(int),
};

/* What one process has. */
static struct {
	CUcontext context;
	CUstream streams[STREAM_COUNT];
	struct gate gates[STREAM_COUNT];
	CUevent event;
	CUipcEventHandle handle;
	int thread_code; /* CUDA_ERROR_NOT_READY until the thread is through */
} own;

static inline void own_setup(void)
{
	own.context = ask_context();
	for (int i = 0; i < OWN_STREAMS; i++)
		NEED(cuStreamCreate(&own.streams[i], CU_STREAM_NON_BLOCKING));
	own.streams[8] = CU_STREAM_LEGACY;
	own.streams[9] = CU_STREAM_PER_THREAD;
	struct gate first = gate_make();
	for (int i = 0; i < STREAM_COUNT; i++) {
		own.gates[i].word = first.word + i * GATE_STEP;
		own.gates[i].at = first.at + (size_t)i * GATE_STEP * sizeof *first.word;
	}
}

static inline int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What `state` answers when it is no longer CUDA_ERROR_NOT_READY, or has been for so long. */
static inline CUresult settle(CUresult (*state)(int), int at, int patience_ms)
{
	int64_t end_ms = now_ms() + patience_ms;
	CUresult result;

	while ((result = state(at)) == CUDA_ERROR_NOT_READY && now_ms() < end_ms)
		sched_yield();
	return result;
}

static inline CUresult stream_state(int at)
{
	return cuStreamQuery(own.streams[at]);
}

static inline CUresult event_state(int at)
{
	(void)at;
	return cuEventQuery(own.event);
}

static inline CUresult thread_state(int at)
{
	(void)at;
	return (CUresult)__atomic_load_n(&own.thread_code, __ATOMIC_ACQUIRE);
}

/* What may never return runs on a thread of its own, which is left behind then. */
static inline void *run_in_thread(void *call)
{
	CUresult result = cuCtxSetCurrent(own.context);

	if (!result)
		result = (*(CUresult(*const *)(void))call)();
	__atomic_store_n(&own.thread_code, (int)result, __ATOMIC_RELEASE);
	return NULL;
}

static inline CUresult start_thread(CUresult (*const *call)(void))
{
	pthread_t thread;

	own.thread_code = CUDA_ERROR_NOT_READY;
	if (pthread_create(&thread, NULL, run_in_thread, (void *)(uintptr_t)call))
		return CUDA_ERROR_OPERATING_SYSTEM;
	pthread_detach(thread);
	return CUDA_SUCCESS;
}

static inline CUresult synchronize_event(void)
{
	return cuEventSynchronize(own.event);
}

static inline CUresult drop_context(void)
{
	return cuCtxDestroy(own.context);
}

static CUresult (*const thread_calls[])(void) = {synchronize_event, drop_context};

static inline CUresult close_gate(int at)
{
	struct gate *gate = &own.gates[at];

	gate->closed++;
	return cuStreamWaitValue32(own.streams[at], gate->at, gate->closed, CU_STREAM_WAIT_VALUE_GEQ);
}

static inline CUresult open_gate(int at)
{
	gate_open(&own.gates[at]);
	return CUDA_SUCCESS;
}

static inline CUresult elapsed(void)
{
	float ms = 0;

	return cuEventElapsedTime(&ms, own.event, own.event);
}

/* exit() runs what the driver registered for it; a group's end does not. */
static inline CUresult leave(void)
{
	exit(0);
}

/* verb, what it does to stream `at` */
#define VERBS(X)                                                                                         \
	X(make, cuEventCreate(&own.event, FOR_OTHERS))                                                   \
	X(make_blocking, cuEventCreate(&own.event, FOR_OTHERS | CU_EVENT_BLOCKING_SYNC))                 \
	X(export, cuIpcGetEventHandle(&own.handle, own.event))                                           \
	X(import, cuIpcOpenEventHandle(&own.event, own.handle))                                          \
	X(destroy, cuEventDestroy(own.event))                                                            \
	X(query, cuEventQuery(own.event))                                                                \
	X(pending, settle(event_state, at, BRIEF_MS))                                                    \
	X(ready, settle(event_state, at, LONG_MS))                                                       \
	X(synchronize, cuEventSynchronize(own.event))                                                    \
	X(start, start_thread(&thread_calls[0]))                                                         \
	X(start_drop, start_thread(&thread_calls[1]))                                                    \
	X(running, settle(thread_state, at, BRIEF_MS))                                                   \
	X(finished, settle(thread_state, at, LONG_MS))                                                   \
	X(elapsed, elapsed())                                                                            \
	X(close, close_gate(at))                                                                         \
	X(open, open_gate(at))                                                                           \
	X(record, cuEventRecord(own.event, own.streams[at]))                                             \
	X(record_external, cuEventRecordWithFlags(own.event, own.streams[at], CU_EVENT_RECORD_EXTERNAL)) \
	X(wait, cuStreamWaitEvent(own.streams[at], own.event, 0))                                        \
	X(wait_external, cuStreamWaitEvent(own.streams[at], own.event, CU_EVENT_WAIT_EXTERNAL))          \
	X(held, settle(stream_state, at, BRIEF_MS))                                                      \
	X(done, settle(stream_state, at, LONG_MS))                                                       \
	X(flush, cuStreamSynchronize(own.streams[at]))                                                   \
	X(drop_stream, cuStreamDestroy(own.streams[at]))                                                 \
	X(drop_context, cuCtxDestroy(own.context))                                                       \
	X(leave, leave())

enum {
#define X(verb, call) VERB_##verb,
	VERBS(X)
#undef X
		VERB_COUNT,
	VERB_send,
	VERB_receive,
};

static const char *const verb_names[] = {
#define X(verb, call) #verb,
	VERBS(X)
#undef X
};

static inline CUresult act(int verb, int at)
{
	switch (verb) {
#define X(verb, call) \
	case VERB_##verb: return call;
		VERBS(X)
#undef X
	default: return CUDA_ERROR_UNKNOWN;
	}
}

static inline void send_handle(struct peer *peer)
{
	int words[HANDLE_WORDS];

	memcpy(words, &own.handle, sizeof words);
	for (size_t i = 0; i < HANDLE_WORDS; i++)
		peer_tell(peer, words[i], -1);
}

static inline void receive_handle(struct peer *peer)
{
	int words[HANDLE_WORDS];

	for (size_t i = 0; i < HANDLE_WORDS; i++)
		words[i] = peer_hear(peer, NULL);
	memcpy(&own.handle, words, sizeof own.handle);
}

/* The peer: does what it hears until its parent hangs up or ends it. */
static inline void follow(struct peer *parent)
{
	own_setup();
	for (;;) {
		int word = peer_hear(parent, NULL), verb = word / STREAM_COUNT;
		if (verb == VERB_send)
			send_handle(parent);
		else if (verb == VERB_receive)
			receive_handle(parent);
		else
			peer_tell(parent, (int)act(verb, word % STREAM_COUNT), -1);
	}
}

static inline CUresult far_act(struct peer *peer, int verb, int at)
{
	peer_tell(peer, verb * STREAM_COUNT + at, -1);
	if (verb == VERB_leave) {
		peer_wait(peer);
		return CUDA_SUCCESS;
	}
	return (CUresult)peer_hear(peer, NULL);
}

/* The peer's handle becomes ours, or ours the peer's. */
static inline void fetch_handle(struct peer *peer)
{
	peer_tell(peer, VERB_send * STREAM_COUNT, -1);
	receive_handle(peer);
}

static inline void give_handle(struct peer *peer)
{
	peer_tell(peer, VERB_receive * STREAM_COUNT, -1);
	send_handle(peer);
}

/* The peer has made an event, and its handle is here; nothing of CUDA was touched in this process for it. */
static inline void fetch_new_event(struct peer *peer)
{
	NEED(far_act(peer, VERB_make, 0));
	NEED(far_act(peer, VERB_export, 0));
	fetch_handle(peer);
}

/* The script's two: which of them is the peer. */
struct script {
	const char *name;
	struct peer peer;
	bool exporter_is_peer;
	int number;
};

static inline CUresult script_act(struct script *script, bool exporter, int verb, int at)
{
	return exporter == script->exporter_is_peer ? far_act(&script->peer, verb, at) : act(verb, at);
}

static inline void script_send(struct script *script, bool from_exporter)
{
	if (from_exporter == script->exporter_is_peer)
		fetch_handle(&script->peer);
	else
		give_handle(&script->peer);
}

static inline void script_export(struct script *script)
{
	NEED(script_act(script, true, VERB_export, 0));
	script_send(script, true);
}

/*
 * A step: "exporter VERB[STREAM]" or "opener VERB[STREAM]" is a question; gates, "… send", "… killed", "export" and
 * "share" (both sides' calls up to the handle, or to the opened event) are what questions stand on.
 */
static inline void script_step(struct script *script, char *step)
{
	char verb[32] = "", who[32] = "";
	int at = 0, known = 0;

	if (strcmp(step, "export") == 0 || strcmp(step, "share") == 0) {
		script_export(script);
		if (step[0] == 's')
			NEED(script_act(script, false, VERB_import, 0));
		return;
	}
	sscanf(step, "%31s %31[a-z_]%d", who, verb, &at);
	bool exporter = strcmp(who, "exporter") == 0;
	if (strcmp(verb, "send") == 0) {
		script_send(script, exporter);
		return;
	}
	if (strcmp(verb, "killed") == 0) {
		peer_kill(&script->peer);
		return;
	}
	while (known < VERB_COUNT && strcmp(verb_names[known], verb))
		known++;
	if (known == VERB_COUNT) {
		fprintf(stderr, "%s: no verb %s\n", script->name, verb);
		abort();
	}
	if (known == VERB_close || known == VERB_open) {
		NEED(script_act(script, exporter, known, at));
		return;
	}
	script->number++;
	ASK(ask_name("%s_%02d_%s_%s", script->name, script->number, who, verb),
	    script_act(script, exporter, known, at));
}

static inline struct script script_start(const char *name, bool exporter_is_peer)
{
	struct script script = {.name = name, .exporter_is_peer = exporter_is_peer};

	script.peer = peer_start(follow);
	own_setup();
	NEED(script_act(&script, true, VERB_make, 0));
	return script;
}

static inline void script_end(struct script *script)
{
	if (script->peer.pid)
		peer_kill(&script->peer);
}

static inline void script_run(const char *name, bool exporter_is_peer, const char *steps)
{
	struct script script = script_start(name, exporter_is_peer);
	char *copy = strdup(steps), *rest = NULL;

	for (char *step = strtok_r(copy, ",", &rest); step; step = strtok_r(NULL, ",", &rest)) {
		while (*step == ' ')
			step++;
		script_step(&script, step);
	}
	free(copy);
	script_end(&script);
}

/* A group that is a script. The peer is the one whose end the script may be about: it can leave and be killed. */
#define EXPORTER_IS_PEER(name, steps)           \
	GROUP(name)                             \
	{                                       \
		script_run(#name, true, steps); \
	}
/* While no other group holds the device up: what waits for all of a device takes long then. */
#define EXPORTER_IS_PEER_ALONE(name, steps)     \
	ALONE(name)                             \
	{                                       \
		script_run(#name, true, steps); \
	}
#define OPENER_IS_PEER(name, steps)              \
	GROUP(name)                              \
	{                                        \
		script_run(#name, false, steps); \
	}

#endif

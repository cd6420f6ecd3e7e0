/* SPDX-License-Identifier: MIT */
/*
 * Chapter "ipc_event": events that another process opens.
 *
 * The calls and their arguments, then contexts, forks, a third process, a program that was executed, capture and the
 * runtime's forms. Which wait is for which record is asked in ipc_event_use.
 */
#define _GNU_SOURCE
#include "ipc_event.h"

CHAPTER(ipc_event);

static const char *handle_is(const void *handle)
{
	unsigned char bytes[sizeof(CUipcEventHandle)];

	memset(bytes, UNTOUCHED_INT, sizeof bytes);
	if (memcmp(handle, bytes, sizeof bytes) == 0)
		return "untouched";
	memset(bytes, 0, sizeof bytes);
	return memcmp(handle, bytes, sizeof bytes) == 0 ? "zeros" : "set";
}

static CUipcEventHandle handle_of(int byte)
{
	CUipcEventHandle handle;

	memset(&handle, byte, sizeof handle);
	return handle;
}

static CUevent make_event(unsigned int flags)
{
	CUevent event = NULL;

	NEED(cuEventCreate(&event, flags));
	return event;
}

static const char *same(const CUipcEventHandle *left, const CUipcEventHandle *right)
{
	if (strcmp(handle_is(left), "set") || strcmp(handle_is(right), "set"))
		return "unset";
	return ask_yes(memcmp(left, right, sizeof *left) == 0);
}

/* The handle of an event, asked for; the output starts untouched. */
static CUipcEventHandle ask_handle(const char *question, CUevent event)
{
	CUipcEventHandle handle = handle_of(UNTOUCHED_INT);

	ASK_VALUE(question, cuIpcGetEventHandle(&handle, event), "%s", handle_is(&handle));
	return handle;
}

/* The event of a handle, asked for; NULL unless there is one. */
static CUevent ask_open(const char *question, CUipcEventHandle handle)
{
	CUevent event = UNTOUCHED(CUevent);

	ASK_VALUE(question, cuIpcOpenEventHandle(&event, handle), "%s", OUT(event));
	return event == UNTOUCHED(CUevent) ? NULL : event;
}

/* ---- Making and exporting ---- */

GROUP(create)
{
	ask_context();
	for (unsigned int flags = 0; flags < 8; flags++) {
		CUevent event = UNTOUCHED(CUevent);
		ASK_VALUE(ask_name("create_flags_%u", flags), cuEventCreate(&event, flags), "%s", OUT(event));
		if (event == UNTOUCHED(CUevent) || !event)
			continue;
		ask_handle(ask_name("get_flags_%u", flags), event);
		ASK(ask_name("record_flags_%u", flags), cuEventRecord(event, NULL));
		ASK(ask_name("synchronize_flags_%u", flags), cuEventSynchronize(event));
		ASK(ask_name("destroy_flags_%u", flags), cuEventDestroy(event));
	}
}

GROUP(get_arguments)
{
	CUstream stream = NULL;

	ask_context();
	NEED(cuStreamCreate(&stream, 0));
	CUevent event = make_event(FOR_OTHERS), plain = make_event(CU_EVENT_DISABLE_TIMING),
		dead = make_event(FOR_OTHERS);
	NEED(cuEventDestroy(dead));
	ASK("get_null_output", cuIpcGetEventHandle(NULL, event));
	ASK("get_null_both", cuIpcGetEventHandle(NULL, NULL));
	ASK("get_null_output_of_plain", cuIpcGetEventHandle(NULL, plain));
	ask_handle("get_null_event", NULL);
	ask_handle("get_plain", plain);
	ASK("plain_still_records", cuEventRecord(plain, stream));
	ASK("plain_still_synchronizes", cuEventSynchronize(plain));
	ask_handle("get_destroyed", dead);
	ask_handle("get_garbage", GARBAGE(CUevent));
	ask_handle("get_small", SMALL(CUevent));
	ask_handle("get_zeros", ZEROS(CUevent));
	ask_handle("get_stream", (CUevent)(void *)stream);
	ask_handle("get_after_failures", event);
}

GROUP(get_states)
{
	CUstream stream = NULL;

	ask_context();
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	struct gate gate = gate_make();
	CUevent event = make_event(FOR_OTHERS), other = make_event(FOR_OTHERS);
	CUipcEventHandle first = ask_handle("get_fresh", event), again = ask_handle("get_fresh_again", event);
	SAY("get_again_same_bytes", "%s", same(&first, &again));
	again = ask_handle("get_of_other", other);
	SAY("get_of_other_same_bytes", "%s", same(&first, &again));
	ASK("record_after_get", cuEventRecord(event, stream));
	ASK("synchronize_after_get", cuEventSynchronize(event));
	again = ask_handle("get_recorded", event);
	SAY("get_recorded_same_bytes", "%s", same(&first, &again));
	gate_close(&gate, stream);
	ASK("record_gated", cuEventRecord(event, stream));
	again = ask_handle("get_pending", event);
	SAY("get_pending_same_bytes", "%s", same(&first, &again));
	ASK("query_gated", cuEventQuery(event));
	ASK("destroy_gated", cuEventDestroy(event));
	gate_open(&gate);
	ASK("stream_after_destroy_gated", cuStreamSynchronize(stream));
	event = make_event(FOR_OTHERS);
	again = ask_handle("get_of_next", event);
	SAY("get_of_next_same_bytes", "%s", same(&first, &again));
}

GROUP(get_contexts)
{
	CUcontext first = ask_context(), second = ask_context();
	CUevent event = make_event(FOR_OTHERS);

	NEED(cuCtxSetCurrent(first));
	CUipcEventHandle foreign = ask_handle("get_foreign", event);
	NEED(cuCtxSetCurrent(second));
	CUipcEventHandle home = ask_handle("get_home", event);
	SAY("get_foreign_same_bytes", "%s", same(&foreign, &home));
	NEED(cuCtxSetCurrent(NULL));
	home = ask_handle("get_without_context", event);
	SAY("get_without_context_same_bytes", "%s", same(&foreign, &home));
	NEED(cuCtxSetCurrent(first));
	NEED(cuCtxDestroy(second));
	ask_handle("get_of_dead_context", event);
}

GROUP(uninitialised)
{
	ask_handle("get_before_init", NULL);
	ask_handle("get_small_before_init", SMALL(CUevent));
	ASK("get_null_before_init", cuIpcGetEventHandle(NULL, NULL));
	ask_open("open_zeros_before_init", handle_of(0));
	ASK("open_null_before_init", cuIpcOpenEventHandle(NULL, handle_of(0)));
}

/* ---- Opening ---- */

GROUP(open_arguments)
{
	struct peer peer = peer_start(follow);

	own_setup();
	ask_open("open_zeros", handle_of(0));
	ask_open("open_ones", handle_of(0xff));
	ask_open("open_5a", handle_of(0x5a));
	ASK("open_null_output_zeros", cuIpcOpenEventHandle(NULL, handle_of(0)));
	fetch_new_event(&peer);
	ASK("open_null_output", cuIpcOpenEventHandle(NULL, own.handle));
	CUevent event = ask_open("open_after_failures", own.handle);
	if (event)
		ASK("query_after_failures", cuEventQuery(event));
	peer_kill(&peer);
}

/* One bit of one byte is wrong. */
static void ask_flipped(int first, int count)
{
	struct peer peer = peer_start(follow);

	own_setup();
	fetch_new_event(&peer);
	for (int i = first; i < first + count; i++) {
		CUipcEventHandle handle = own.handle;
		((unsigned char *)&handle)[i] ^= 1;
		CUevent event = ask_open(ask_name("open_flipped_%02d", i), handle);
		if (event)
			ASK(ask_name("destroy_flipped_%02d", i), cuEventDestroy(event));
	}
	CUevent event = ask_open(ask_name("open_after_flipped_%02d", first), own.handle);
	if (event)
		ASK(ask_name("query_after_flipped_%02d", first), cuEventQuery(event));
	ASK(ask_name("exporter_after_flipped_%02d", first), far_act(&peer, VERB_query, 0));
	peer_kill(&peer);
}

GROUP(flipped_00)
{
	ask_flipped(0, 16);
}

GROUP(flipped_16)
{
	ask_flipped(16, 16);
}

GROUP(flipped_32)
{
	ask_flipped(32, 16);
}

GROUP(flipped_48)
{
	ask_flipped(48, 16);
}

/* Exporter and opener are one process. */
GROUP(open_at_home)
{
	own_setup();
	CUevent event = make_event(FOR_OTHERS);
	CUipcEventHandle handle;
	NEED(cuIpcGetEventHandle(&handle, event));
	CUevent opened = ask_open("home_open", handle);
	CUevent again = ask_open("home_open_again", handle);
	ASK("home_origin_records", cuEventRecord(event, own.streams[0]));
	ASK("home_origin_synchronizes", cuEventSynchronize(event));
	if (!opened)
		return;
	SAY("home_opened_is_origin", "%s", ask_yes(opened == event));
	SAY("home_opened_again_is_same", "%s", ask_yes(opened == again));
	NEED(close_gate(0));
	NEED(cuEventRecord(event, own.streams[0]));
	ASK("home_query_pending", cuEventQuery(opened));
	ASK("home_wait", cuStreamWaitEvent(own.streams[1], opened, 0));
	ASK("home_held", act(VERB_held, 1));
	NEED(open_gate(0));
	ASK("home_done", act(VERB_done, 1));
	ASK("home_record_opened", cuEventRecord(opened, own.streams[1]));
	ASK("home_synchronize_origin", cuEventSynchronize(event));
	ASK("home_destroy_opened", cuEventDestroy(opened));
	ASK("home_query_origin", cuEventQuery(event));
	ASK("home_destroy_origin", cuEventDestroy(event));
}

/* The same handle more than once in one process, and many handles. */
GROUP(open_twice)
{
	struct peer peer = peer_start(follow);

	own_setup();
	fetch_new_event(&peer);
	CUevent first = ask_open("twice_first", own.handle), second = ask_open("twice_second", own.handle);
	if (!first || !second)
		return;
	SAY("twice_same_event", "%s", ask_yes(first == second));
	NEED(far_act(&peer, VERB_close, 0));
	NEED(far_act(&peer, VERB_record, 0));
	ASK("twice_query_first", cuEventQuery(first));
	ASK("twice_query_second", cuEventQuery(second));
	ASK("twice_destroy_first", cuEventDestroy(first));
	ASK("twice_query_second_alone", cuEventQuery(second));
	ASK("twice_wait", cuStreamWaitEvent(own.streams[1], second, 0));
	ASK("twice_held", act(VERB_held, 1));
	NEED(far_act(&peer, VERB_open, 0));
	ASK("twice_done", act(VERB_done, 1));
	ASK("twice_destroy_second", cuEventDestroy(second));
	ASK("twice_exporter_records", far_act(&peer, VERB_record, 0));
	CUevent third = ask_open("twice_open_after_destroys", own.handle);
	if (third)
		ASK("twice_synchronize_third", cuEventSynchronize(third));
	peer_kill(&peer);
}

GROUP(open_many)
{
	struct peer peer = peer_start(follow);
	CUevent events[200];
	int opened = 0, alike = 0, destroyed = 0;

	own_setup();
	fetch_new_event(&peer);
	if (ask_begin("many_opens_of_one")) {
		while (opened < 200 && !cuIpcOpenEventHandle(&events[opened], own.handle))
			opened++;
		for (int i = 1; i < opened; i++)
			alike += events[i] == events[0];
		ask_end("%d opened, %d the same", opened, alike);
	}
	if (ask_begin("many_destroys")) {
		for (int i = 0; i < opened; i++)
			destroyed += cuEventDestroy(events[i]) == CUDA_SUCCESS;
		ask_end("%d", destroyed);
	}
	ASK("many_exporter_query", far_act(&peer, VERB_query, 0));
	if (ask_begin("many_events")) {
		opened = 0;
		for (int i = 0; i < 200; i++) {
			fetch_new_event(&peer);
			opened += cuIpcOpenEventHandle(&events[i], own.handle) == CUDA_SUCCESS;
		}
		ask_end("%d opened", opened);
	}
	peer_kill(&peer);
}

/* ---- Contexts and processes ---- */

GROUP(opened_elapsed)
{
	struct peer peer = peer_start(follow);
	float ms = UNTOUCHED_INT;

	own_setup();
	fetch_new_event(&peer);
	NEED(act(VERB_import, 0));
	CUevent timed = make_event(0);
	NEED(cuEventRecord(timed, own.streams[0]));
	NEED(cuEventSynchronize(timed));
	ASK_VALUE("elapsed_fresh_end", cuEventElapsedTime(&ms, timed, own.event), "%g", ms);
	NEED(cuEventRecord(own.event, own.streams[0]));
	NEED(cuEventSynchronize(own.event));
	ASK_VALUE("elapsed_end", cuEventElapsedTime(&ms, timed, own.event), "%g", ms);
	ASK_VALUE("elapsed_start", cuEventElapsedTime(&ms, own.event, timed), "%g", ms);
	ASK_VALUE("elapsed_both", cuEventElapsedTime(&ms, own.event, own.event), "%g", ms);
	ASK("elapsed_null_output", cuEventElapsedTime(NULL, own.event, own.event));
	peer_kill(&peer);
}

/* Opened in one context, used in another. */
GROUP(opened_contexts)
{
	struct peer peer = peer_start(follow);
	CUstream stream = NULL;
	CUcontext second = NULL;

	own_setup();
	fetch_new_event(&peer);
	NEED(act(VERB_import, 0));
	second = ask_context();
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASK("foreign_query", cuEventQuery(own.event));
	ASK("foreign_synchronize", cuEventSynchronize(own.event));
	ASK("foreign_record", cuEventRecord(own.event, stream));
	ASK("foreign_record_at_home", cuEventRecord(own.event, own.streams[0]));
	ASK("foreign_wait", cuStreamWaitEvent(stream, own.event, 0));
	ASK("foreign_stream_synchronize", cuStreamSynchronize(stream));
	ask_handle("foreign_get", own.event);
	CUevent again = ask_open("foreign_open", own.handle);
	SAY("foreign_open_is_same", "%s", ask_yes(again == own.event));
	if (again) {
		ASK("foreign_own_record", cuEventRecord(again, stream));
		ASK("foreign_own_synchronize", cuEventSynchronize(again));
		ASK("foreign_exporter_ready", far_act(&peer, VERB_ready, 0));
	}
	ASK("foreign_drop_first", cuCtxDestroy(own.context));
	if (again) {
		ASK("foreign_own_query", cuEventQuery(again));
		ASK("foreign_own_record_again", cuEventRecord(again, stream));
	}
	ASK("foreign_destroy", cuEventDestroy(own.event));
	SAY("foreign_contexts_differ", "%s", ask_yes(second != own.context));
	peer_kill(&peer);
}

GROUP(opened_without_context)
{
	struct peer peer = peer_start(follow);

	own_setup();
	fetch_new_event(&peer);
	NEED(act(VERB_import, 0));
	NEED(cuCtxSetCurrent(NULL));
	ask_open("contextless_open", own.handle);
	ask_open("contextless_open_zeros", handle_of(0));
	ASK("contextless_open_null", cuIpcOpenEventHandle(NULL, own.handle));
	ask_handle("contextless_get", own.event);
	ASK("contextless_query", cuEventQuery(own.event));
	ASK("contextless_record", cuEventRecord(own.event, own.streams[0]));
	ASK("contextless_wait", cuStreamWaitEvent(own.streams[0], own.event, 0));
	ASK("contextless_synchronize", cuEventSynchronize(own.event));
	ASK("contextless_destroy", cuEventDestroy(own.event));
	peer_kill(&peer);
}

GROUP(open_before_init)
{
	struct peer peer = peer_start(follow);
	CUdevice device = 0;

	fetch_new_event(&peer);
	ask_open("early_open_before_init", own.handle);
	NEED(cuInit(0));
	ask_open("early_open_initialised", own.handle);
	NEED(cuDevicePrimaryCtxRetain(&own.context, device));
	ask_open("early_open_context_not_current", own.handle);
	NEED(cuCtxSetCurrent(own.context));
	CUevent event = ask_open("early_open_primary", own.handle);
	if (event) {
		ASK("early_record", cuEventRecord(event, NULL));
		ASK("early_synchronize", cuEventSynchronize(event));
	}
	peer_kill(&peer);
}

/* A child that was forked from a process with an event of either kind; CUDA is the parent's alone. */
static void child_calls(void *data)
{
	const char *kind = data;
	float ms = 0;

	ask_handle(ask_name("%s_child_get", kind), own.event);
	ask_open(ask_name("%s_child_open", kind), own.handle);
	ASK(ask_name("%s_child_query", kind), cuEventQuery(own.event));
	ASK(ask_name("%s_child_wait", kind), cuStreamWaitEvent(own.streams[0], own.event, 0));
	ASK(ask_name("%s_child_record", kind), cuEventRecord(own.event, own.streams[0]));
	ASK(ask_name("%s_child_synchronize", kind), cuEventSynchronize(own.event));
	ASK(ask_name("%s_child_elapsed", kind), cuEventElapsedTime(&ms, own.event, own.event));
	ASK(ask_name("%s_child_destroy", kind), cuEventDestroy(own.event));
	ASK(ask_name("%s_child_init", kind), cuInit(0));
	ask_open(ask_name("%s_child_open_after_init", kind), own.handle);
}

GROUP(forked_opener)
{
	struct peer peer = peer_start(follow);

	own_setup();
	fetch_new_event(&peer);
	NEED(act(VERB_import, 0));
	ask_forked(child_calls, "opener");
	ASK("opener_query_after_child", act(VERB_query, 0));
	ASK("opener_record_after_child", act(VERB_record, 0));
	ASK("opener_flush_after_child", act(VERB_flush, 0));
	ASK("exporter_ready_after_child", far_act(&peer, VERB_ready, 0));
	peer_kill(&peer);
}

GROUP(forked_exporter)
{
	struct peer peer = peer_start(follow);

	own_setup();
	NEED(act(VERB_make, 0));
	NEED(act(VERB_export, 0));
	ask_forked(child_calls, "exporter");
	give_handle(&peer);
	ASK("import_after_exporters_child", far_act(&peer, VERB_import, 0));
	ASK("record_after_exporters_child", far_act(&peer, VERB_record, 0));
	ASK("ready_after_exporters_child", act(VERB_ready, 0));
	peer_kill(&peer);
}

/* From the exporter to the group, and from there to a third: the handle that came, or the one the opener makes. */
static void ask_chain(const char *kind, bool again)
{
	struct peer first = peer_start(follow), third = peer_start(follow);

	own_setup();
	fetch_new_event(&first);
	CUipcEventHandle origin = own.handle;
	NEED(act(VERB_import, 0));
	if (again) {
		ASK(ask_name("%s_export", kind), act(VERB_export, 0));
		SAY(ask_name("%s_same_bytes", kind), "%s", same(&origin, &own.handle));
	}
	give_handle(&third);
	ASK(ask_name("%s_import", kind), far_act(&third, VERB_import, 0));
	NEED(far_act(&first, VERB_close, 0));
	NEED(far_act(&first, VERB_record, 0));
	ASK(ask_name("%s_pending", kind), far_act(&third, VERB_pending, 0));
	ASK(ask_name("%s_wait", kind), far_act(&third, VERB_wait, 1));
	ASK(ask_name("%s_held", kind), far_act(&third, VERB_held, 1));
	NEED(act(VERB_destroy, 0));
	ASK(ask_name("%s_held_after_middle_destroys", kind), far_act(&third, VERB_held, 1));
	NEED(far_act(&first, VERB_open, 0));
	ASK(ask_name("%s_done", kind), far_act(&third, VERB_done, 1));
	ASK(ask_name("%s_record", kind), far_act(&third, VERB_record, 0));
	ASK(ask_name("%s_flush", kind), far_act(&third, VERB_flush, 0));
	ASK(ask_name("%s_first_ready", kind), far_act(&first, VERB_ready, 0));
	peer_kill(&first);
	peer_kill(&third);
}

GROUP(chain_of_handles)
{
	ask_chain("passed_on", false);
}

GROUP(chain_of_exports)
{
	ask_chain("exported_again", true);
}

/* An opener that shares nothing with the group but a socket: this program, executed. It asks no questions itself. */
static void become_executed(struct peer *parent)
{
	char number[16];

	snprintf(number, sizeof number, "%d", dup(parent->socket)); /* the copy stays open over exec */
	setenv("IPC_EVENT_SOCKET", number, 1);
	execl("/proc/self/exe", "ipc_event", (char *)NULL);
	_exit(1);
}

__attribute__((constructor)) static void executed(void)
{
	const char *number = getenv("IPC_EVENT_SOCKET");

	if (!number)
		return;
	struct peer parent = {.socket = atoi(number)};
	receive_handle(&parent);
	CUresult result = cuInit(0);
	if (!result)
		result = cuCtxCreate(&own.context, NULL, 0, 0);
	if (!result)
		result = cuIpcOpenEventHandle(&own.event, own.handle);
	peer_tell(&parent, (int)result, -1);
	for (;;) {
		int word = peer_hear(&parent, NULL);
		peer_tell(&parent, (int)act(word / STREAM_COUNT, word % STREAM_COUNT), -1);
	}
}

GROUP(executed_opener)
{
	struct peer peer = peer_start(become_executed);

	own_setup();
	NEED(act(VERB_make, 0));
	NEED(act(VERB_close, 0));
	NEED(act(VERB_record, 0));
	NEED(act(VERB_export, 0));
	send_handle(&peer);
	ASK("executed_open", (CUresult)peer_hear(&peer, NULL));
	ASK("executed_pending", far_act(&peer, VERB_pending, 0));
	ASK("executed_wait", far_act(&peer, VERB_wait, 8));
	ASK("executed_start", far_act(&peer, VERB_start, 0));
	ASK("executed_running", far_act(&peer, VERB_running, 0));
	NEED(act(VERB_open, 0));
	ASK("executed_finished", far_act(&peer, VERB_finished, 0));
	ASK("executed_query", far_act(&peer, VERB_query, 0));
	ASK("executed_record", far_act(&peer, VERB_record, 7));
	ASK("executed_flush", far_act(&peer, VERB_flush, 7));
	ASK("executed_ready_here", act(VERB_ready, 0));
	peer_kill(&peer);
}

/* ---- Capture ---- */

static struct {
	CUresult (*begin)(CUstream stream, CUstreamCaptureMode mode);
	CUresult (*end)(CUstream stream, CUgraph *ret_graph);
} capture;

/* One verb in a capture of stream 0, what the event is like meanwhile, and how the capture ends. */
static void ask_captured(const char *kind, int verb)
{
	const char *name = ask_name("capture_%s_%s", kind, verb_names[verb]);
	CUgraph graph = UNTOUCHED(CUgraph);

	NEED(capture.begin(own.streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
	ASK(name, act(verb, 0));
	ASK(ask_name("%s_query", name), cuEventQuery(own.event));
	ASK_VALUE(ask_name("%s_end", name), capture.end(own.streams[0], &graph), "%s", OUT(graph));
	ASK(ask_name("%s_query_after", name), cuEventQuery(own.event));
	ASK(ask_name("%s_record_after", name), cuEventRecord(own.event, own.streams[1]));
	ASK(ask_name("%s_flush_after", name), cuStreamSynchronize(own.streams[1]));
}

/* Is the call one that a capture in this thread forbids? */
static void ask_forbidden(const char *kind, int verb)
{
	const char *name = ask_name("capture_global_%s_%s", kind, verb_names[verb]);
	CUgraph graph = UNTOUCHED(CUgraph);

	NEED(capture.begin(own.streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
	ASK(name, act(verb, 0));
	ASK_VALUE(ask_name("%s_end", name), capture.end(own.streams[0], &graph), "%s", OUT(graph));
}

static void ask_capture(const char *kind)
{
	ask_captured(kind, VERB_record);
	ask_captured(kind, VERB_record_external);
	ask_captured(kind, VERB_wait);
	ask_captured(kind, VERB_wait_external);
	ask_forbidden(kind, VERB_query);
	ask_forbidden(kind, VERB_export);
	ask_forbidden(kind, VERB_make);
}

/* Called by address: Cenote has no capture, and its header does not declare it. */
static bool capture_found(const char *question)
{
	void *begin = NULL, *end = NULL;

	cuGetProcAddress("cuStreamBeginCapture", &begin, 13000, 0, NULL);
	cuGetProcAddress("cuStreamEndCapture", &end, 13000, 0, NULL);
	memcpy(&capture.begin, &begin, sizeof begin);
	memcpy(&capture.end, &end, sizeof end);
	SAY(question, "%s", ask_yes(begin && end));
	return begin && end;
}

GROUP(capture_exporter)
{
	own_setup();
	if (!capture_found("capture_there_for_exporter"))
		return;
	NEED(act(VERB_make, 0));
	NEED(act(VERB_export, 0));
	ask_capture("exporter");
}

GROUP(capture_opener)
{
	struct peer peer = peer_start(follow);

	own_setup();
	if (!capture_found("capture_there_for_opener"))
		return;
	fetch_new_event(&peer);
	NEED(act(VERB_import, 0));
	ask_capture("opener");
	ask_forbidden("opener", VERB_import);
	peer_kill(&peer);
}

/* ---- The runtime's forms ---- */

static cudaIpcEventHandle_t runtime_handle(int byte)
{
	cudaIpcEventHandle_t handle;

	memset(&handle, byte, sizeof handle);
	return handle;
}

static void ask_runtime_get(const char *name, cudaEvent_t event)
{
	cudaIpcEventHandle_t handle = runtime_handle(UNTOUCHED_INT);

	ASK_VALUE(name, cudaIpcGetEventHandle(&handle, event), "%s last %s", handle_is(&handle),
		  ask_runtime_code(cudaGetLastError()));
}

static cudaEvent_t ask_runtime_open(const char *name, cudaIpcEventHandle_t handle)
{
	cudaEvent_t event = UNTOUCHED(cudaEvent_t);

	ASK_VALUE(name, cudaIpcOpenEventHandle(&event, handle), "%s last %s", OUT(event),
		  ask_runtime_code(cudaGetLastError()));
	return event == UNTOUCHED(cudaEvent_t) ? NULL : event;
}

GROUP(runtime_arguments)
{
	for (unsigned int flags = 0; flags < 8; flags++) {
		cudaEvent_t event = UNTOUCHED(cudaEvent_t);
		ASK_VALUE(ask_name("runtime_create_flags_%u", flags), cudaEventCreateWithFlags(&event, flags), "%s",
			  OUT(event));
		if (event && event != UNTOUCHED(cudaEvent_t))
			ask_runtime_get(ask_name("runtime_get_flags_%u", flags), event);
	}
	cudaGetLastError();
	cudaEvent_t event = NULL, dead = NULL;
	NEED(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
	NEED(cudaEventCreateWithFlags(&dead, cudaEventInterprocess | cudaEventDisableTiming));
	NEED(cudaEventDestroy(dead));
	ASK("runtime_get_null_output", cudaIpcGetEventHandle(NULL, event));
	ask_runtime_get("runtime_get_null_event", NULL);
	ask_runtime_get("runtime_get_destroyed", dead);
	ask_runtime_get("runtime_get_garbage", GARBAGE(cudaEvent_t));
	ASK("runtime_open_null_output", cudaIpcOpenEventHandle(NULL, runtime_handle(0)));
	ask_runtime_open("runtime_open_zeros", runtime_handle(0));
	ask_runtime_open("runtime_open_ones", runtime_handle(0xff));
	cudaIpcEventHandle_t handle = runtime_handle(0);
	NEED(cudaIpcGetEventHandle(&handle, event));
	ask_runtime_open("runtime_open_at_home", handle);
}

/* The exporter uses the driver; a handle is a handle. */
GROUP(runtime_opener)
{
	struct peer peer = peer_start(follow);
	cudaIpcEventHandle_t handle;
	float ms = UNTOUCHED_INT;

	fetch_new_event(&peer);
	memcpy(&handle, &own.handle, sizeof handle);
	cudaEvent_t event = ask_runtime_open("runtime_open_first_call", handle);
	if (!event)
		return;
	ASK("runtime_query", cudaEventQuery(event));
	ASK("runtime_synchronize", cudaEventSynchronize(event));
	NEED(far_act(&peer, VERB_close, 0));
	NEED(far_act(&peer, VERB_record, 0));
	ASK("runtime_query_pending", cudaEventQuery(event));
	ASK("runtime_elapsed_pending", cudaEventElapsedTime(&ms, event, event));
	ASK("runtime_wait", cudaStreamWaitEvent(NULL, event, 0));
	ASK("runtime_stream_query", cudaStreamQuery(NULL));
	NEED(far_act(&peer, VERB_open, 0));
	ASK("runtime_stream_synchronize", cudaStreamSynchronize(NULL));
	ASK_VALUE("runtime_elapsed", cudaEventElapsedTime(&ms, event, event), "%g", ms);
	ASK("runtime_record", cudaEventRecord(event, NULL));
	ASK("runtime_record_external", cudaEventRecordWithFlags(event, NULL, cudaEventRecordExternal));
	ASK("runtime_synchronize_recorded", cudaEventSynchronize(event));
	ASK("runtime_exporter_ready", far_act(&peer, VERB_ready, 0));
	ask_runtime_get("runtime_get_opened", event);
	ASK("runtime_destroy", cudaEventDestroy(event));
	ASK("runtime_destroy_again", cudaEventDestroy(event));
	ask_runtime_open("runtime_open_again", handle);
	peer_kill(&peer);
}

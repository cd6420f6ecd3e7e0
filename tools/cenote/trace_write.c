/* SPDX-License-Identifier: MIT */
/*
 * cenote trace: the file, in the Trace Event Format that Perfetto and chrome://tracing read.
 *
 * A thread is a track with its calls, a stream a track with its operations, a pool a counter of bytes. Times are
 * microseconds since the first call, with three decimals. On a track, only a call within a call overlaps another slice.
 * An arrow is bound to the slices in which its two ends lie, just behind their beginnings, where Chrome finds no other
 * that ends there. Perfetto draws it from whichever of the two began first. So if the target began before the source,
 * as a wait does before what it waits for, the arrow leads to a slice within it: what was left of the wait then.
 */
#include "trace.h"

#include <cenote/cenote.h>
#include <cenote/cuda_runtime_api.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Threads' numbers are smaller, also those that are shown apart. */
enum { FIRST_STREAM_TRACK = 1 << 30, NAME_BYTES = 160, SENTENCE_BYTES = 512 };

static struct {
	FILE *to;
	const struct trace *trace;
	uint64_t start_ns;
	bool any;
	bool in_page; /* within HTML, where "<" would mean something */
	struct text {
		int process;
		uint32_t state;
		uint64_t of;
		uint16_t part;
		const char *text;
	} * texts;
	int text_count;
} out;

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* How many bytes the UTF-8 character that begins here has; 0: none begins here, for example where a name was cut. */
static int character_bytes(const unsigned char *at)
{
	int bytes = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 : *at >= 0xe0 && *at < 0xf0 ? 3 : 4;

	if (*at >= 0xf5 || (*at >= 0x80 && *at < 0xc2))
		return 0;
	for (int i = 1; i < bytes; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return bytes;
}

static void write_string(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	fputc('"', out.to);
	while (*at) {
		int bytes = character_bytes(at);
		if (*at == '"' || *at == '\\')
			fprintf(out.to, "\\%c", *at);
		else if (*at < ' ' || (*at == '<' && out.in_page))
			fprintf(out.to, "\\u%04x", *at);
		else if (bytes)
			fwrite(at, 1, (size_t)bytes, out.to);
		else
			fputc('?', out.to);
		at += bytes ? bytes : 1;
	}
	fputc('"', out.to);
}

static uint64_t since_start(uint64_t time_ns)
{
	return time_ns > out.start_ns ? time_ns - out.start_ns : 0;
}

/* An event, up to its own members: {"ph": …, "pid": …, "tid": … */
static void begin_event(const char *phase, int pid, int64_t tid)
{
	fprintf(out.to, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%" PRId64, out.any ? "," : "", phase, pid, tid);
	out.any = true;
}

static void write_time(uint64_t time_ns)
{
	uint64_t ns = since_start(time_ns);

	fprintf(out.to, ",\"ts\":%" PRIu64 ".%03u", ns / 1000, (unsigned int)(ns % 1000));
}

static void write_span(uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t ns = end_ns > begin_ns ? end_ns - begin_ns : 1;

	write_time(begin_ns);
	fprintf(out.to, ",\"dur\":%" PRIu64 ".%03u", ns / 1000, (unsigned int)(ns % 1000));
}

static void write_name(const char *name)
{
	fputs(",\"name\":", out.to);
	write_string(name);
}

/* Members of "args", the first with its brace. */
static void write_argument(bool *any, const char *name, const char *value)
{
	fprintf(out.to, "%s\"%s\":", *any ? "," : ",\"args\":{", name);
	write_string(value);
	*any = true;
}

static void write_number(bool *any, const char *name, uint64_t value)
{
	fprintf(out.to, "%s\"%s\":%" PRIu64, *any ? "," : ",\"args\":{", name, value);
	*any = true;
}

static void write_hexadecimal(bool *any, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "0x%" PRIx64, value);
	if (value)
		write_argument(any, name, text);
}

static void end_event(bool any_argument)
{
	fputs(any_argument ? "}}" : "}", out.to);
}

/* ---- Texts that were noted --------------------------------------------------------------------------------------- */

static int by_key(const void *left, const void *right)
{
	const struct text *a = left, *b = right;

	if (a->process != b->process)
		return a->process - b->process;
	if (a->state != b->state)
		return a->state < b->state ? -1 : 1;
	if (a->of != b->of)
		return a->of < b->of ? -1 : 1;
	return a->part - b->part;
}

static void collect_texts(void)
{
	for (int i = 0; i < out.trace->process_count; i++) {
		const struct trace_process *process = &out.trace->processes[i];
		for (size_t j = 0; j < process->record_count; j++) {
			const struct cn_trace_record *record = &process->records[j];
			uint32_t state = atomic_load(&record->state);
			if (state < CN_TRACE_ERROR_TEXT || state > CN_TRACE_THREAD_NAME)
				continue;
			out.texts = trace_grow(out.texts, out.text_count, sizeof *out.texts);
			uint64_t of = state == CN_TRACE_THREAD_NAME ? record->thread : record->of;
			out.texts[out.text_count++] = (struct text){i, state, of, record->call, record->text};
		}
	}
	if (out.text_count)
		qsort(out.texts, (size_t)out.text_count, sizeof *out.texts, by_key);
}

/* All parts of a text; false: nothing was noted. */
static bool find_text(int process, enum cn_trace_state state, uint64_t of, char text[SENTENCE_BYTES])
{
	struct text key = {process, state, of, 0, NULL};
	const struct text *found =
		out.text_count ? bsearch(&key, out.texts, (size_t)out.text_count, sizeof key, by_key) : NULL;
	size_t length = 0;

	if (!found)
		return false;
	for (int part = 0; found < out.texts + out.text_count && found->process == process && found->state == state &&
			   found->of == of && found->part == part && length + CN_TRACE_TEXT_BYTES < SENTENCE_BYTES;
	     part++, found++) {
		size_t bytes = strnlen(found->text, CN_TRACE_TEXT_BYTES);
		memcpy(text + length, found->text, bytes);
		length += bytes;
	}
	text[length] = 0;
	return true;
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static void name_object(char name[NAME_BYTES], const char *kind, const struct trace_object *object,
			const struct trace_object *all)
{
	const struct trace_object *shown = object->origin != NONE ? &all[object->origin] : object;
	const char *imported = object->is_imported && object->origin == NONE ? "imported " : "";
	char of[40] = "";

	if (object->origin != NONE)
		snprintf(of, sizeof of, " of %d", out.trace->processes[shown->process].header->pid);
	if (shown->number > 0)
		snprintf(name, NAME_BYTES, "%s%s %d%s", imported, kind, shown->number, of);
	else if (shown->number == -1)
		snprintf(name, NAME_BYTES, "%sdefault %s%s", imported, kind, of);
	else
		snprintf(name, NAME_BYTES, "%sdefault %s %d%s", imported, kind, -shown->number, of);
}

static void name_stream(char name[NAME_BYTES], const struct trace_object *stream)
{
	if (stream->number > 0)
		snprintf(name, NAME_BYTES, "stream %d", stream->number);
	else if (stream->thread)
		snprintf(name, NAME_BYTES, "default stream of thread %u", stream->thread);
	else if (!stream->handle)
		snprintf(name, NAME_BYTES, "default stream");
	else
		snprintf(name, NAME_BYTES, "stream 0x%" PRIx64, stream->handle);
}

static void name_pool(char name[NAME_BYTES], int pool)
{
	name_object(name, "pool", &out.trace->pools[pool], out.trace->pools);
}

/* What stands in a stream: a kernel's name, or the call without its prefix. */
static void name_operation(char name[NAME_BYTES], const struct trace_call *call)
{
	const struct trace_call_kind *kind = &trace_call_kinds[call->record->call];
	char text[SENTENCE_BYTES];

	if (kind->act == CN_ACT_launch && find_text(call->process, CN_TRACE_FUNCTION_NAME, call->record->object, text))
		snprintf(name, NAME_BYTES, "%.*s", NAME_BYTES - 1, text);
	else
		snprintf(name, NAME_BYTES, "%s", kind->name + (kind->is_runtime ? strlen("cuda") : strlen("cu")));
}

static const char *name_result(const struct trace_call *call)
{
	const char *name = NULL;

	if (atomic_load(&call->record->state) == CN_TRACE_BEGUN && !call->record->end_ns)
		return "did not return";
	if (trace_call_kinds[call->record->call].is_runtime)
		return cudaGetErrorName((cudaError_t)call->record->result);
	return cuGetErrorName((CUresult)call->record->result, &name) == CUDA_SUCCESS && name ? name : "unknown error";
}

static int shown(const struct trace_process *process)
{
	return process->header->pid + process->shown_apart;
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */

static void write_metadata(const char *what, int pid, int64_t tid, const char *member, const char *text, int64_t number)
{
	begin_event("M", pid, tid);
	write_name(what);
	fprintf(out.to, ",\"args\":{\"%s\":", member);
	if (text)
		write_string(text);
	else
		fprintf(out.to, "%" PRId64, number);
	fputs("}}", out.to);
}

static void write_end_of_process(const struct trace_process *process)
{
	int status = (int)atomic_load(&process->header->status);
	char label[NAME_BYTES] = "";
	bool killed = process->how == CN_TRACE_RUNS && !process->lives;

	if (killed)
		snprintf(label, sizeof label, "killed");
	else if (process->lives)
		snprintf(label, sizeof label, "still runs");
	else if (process->how == CN_TRACE_EXECUTED)
		snprintf(label, sizeof label, "executed another program");
	else if (status)
		snprintf(label, sizeof label, "exit status %d", status);
	if (!*label)
		return;
	write_metadata("process_labels", shown(process), shown(process), "labels", label, 0);
	if (process->lives)
		return;
	begin_event("i", shown(process), shown(process));
	write_time(process->ended_ns);
	write_name(label);
	fprintf(out.to, ",\"s\":\"p\",\"cat\":\"process\"}");
}

static void write_process(int index)
{
	const struct trace_process *process = &out.trace->processes[index];
	char name[NAME_BYTES];
	bool killed = process->how == CN_TRACE_RUNS && !process->lives;

	snprintf(name, sizeof name, "%.*s%s", CN_TRACE_TEXT_BYTES, process->header->command, killed ? " (killed)" : "");
	write_metadata("process_name", shown(process), shown(process), "name", name, 0);
	write_metadata("process_sort_index", shown(process), shown(process), "sort_index", NULL, index);
	for (int i = 0; i < out.text_count; i++)
		if (out.texts[i].process == index && out.texts[i].state == CN_TRACE_THREAD_NAME)
			write_metadata("thread_name", shown(process), (int64_t)out.texts[i].of + process->shown_apart,
				       "name", out.texts[i].text, 0);
	write_end_of_process(process);
}

static void write_streams(void)
{
	for (int i = 0; i < out.trace->stream_count; i++) {
		const struct trace_object *stream = &out.trace->streams[i];
		int pid = shown(&out.trace->processes[stream->process]);
		char name[NAME_BYTES];
		name_stream(name, stream);
		write_metadata("thread_name", pid, FIRST_STREAM_TRACK + i, "name", name, 0);
		write_metadata("thread_sort_index", pid, FIRST_STREAM_TRACK + i, "sort_index", NULL,
			       FIRST_STREAM_TRACK + i);
	}
}

/* What a call is about. */
static void write_arguments(const struct trace_call *call, bool *any)
{
	const struct cn_trace_record *record = call->record;
	char name[NAME_BYTES];

	if (call->stream != NONE) {
		name_stream(name, &out.trace->streams[call->stream]);
		write_argument(any, "stream", name);
	}
	if (call->pool != NONE) {
		name_pool(name, call->pool);
		write_argument(any, "pool", name);
	}
	if (call->event != NONE) {
		name_object(name, "event", &out.trace->events[call->event], out.trace->events);
		write_argument(any, "event", name);
	}
	if (record->bytes)
		write_number(any, "bytes", record->bytes);
	write_hexadecimal(any, "address", record->address);
	write_hexadecimal(any, "source", record->source);
	write_hexadecimal(any, "object", record->object);
	write_hexadecimal(any, "handle", record->handle);
}

static void write_call(const struct trace_call *call)
{
	const struct trace_process *process = &out.trace->processes[call->process];
	const struct cn_trace_record *record = call->record;
	char sentence[SENTENCE_BYTES];
	bool any = false;

	begin_event("X", shown(process), (int64_t)record->thread + process->shown_apart);
	write_span(record->begin_ns, call->end_ns);
	write_name(trace_call_kinds[record->call].name);
	/* A failure is red in chrome://tracing. */
	fprintf(out.to, ",\"cat\":\"call\"%s",
		record->result && record->result != CUDA_ERROR_NOT_READY ? ",\"cname\":\"terrible\"" : "");
	write_argument(&any, "result", name_result(call));
	if (record->result &&
	    find_text(call->process, CN_TRACE_ERROR_TEXT, (uint64_t)(record - process->records), sentence))
		write_argument(&any, "error", sentence);
	write_arguments(call, &any);
	end_event(any);
}

/* The names of what is drawn as one, as far as there is room. */
static void name_slice(char name[NAME_BYTES], const struct trace_slice *slice)
{
	enum { ROOM_FOR_REST = 24 };
	char next[NAME_BYTES];

	name_operation(name, &out.trace->calls[slice->call]);
	for (int i = 1; i < slice->count; i++) {
		size_t length = strlen(name);
		name_operation(next, &out.trace->calls[slice[i].call]);
		if (length + strlen(next) + ROOM_FOR_REST > NAME_BYTES) {
			snprintf(name + length, NAME_BYTES - length, " and %d more", slice->count - i);
			return;
		}
		snprintf(name + length, NAME_BYTES - length, ", %s", next);
	}
}

static void write_slice(const struct trace_slice *slice)
{
	const struct trace_call *call = &out.trace->calls[slice->call];
	char name[NAME_BYTES];
	bool any = false;

	begin_event("X", shown(&out.trace->processes[call->process]), FIRST_STREAM_TRACK + slice->stream);
	write_span(slice->begin_ns, slice->end_ns);
	name_slice(name, slice);
	write_name(name);
	fputs(",\"cat\":\"stream\"", out.to);
	if (slice->is_open)
		write_argument(&any, "done", "was not seen");
	else
		write_argument(&any, "done", slice->is_known ? "at its end" : "by its end");
	if (slice->count > 1)
		write_number(&any, "operations", (uint64_t)slice->count);
	if (slice->begin_ns > call->end_ns)
		write_number(&any, "queued_ns", slice->begin_ns - call->end_ns);
	if (slice->count == 1)
		write_arguments(call, &any);
	end_event(any);
}

static void write_changes(void)
{
	int64_t *bytes = calloc((size_t)out.trace->pool_count + 1, sizeof *bytes);

	for (int i = 0; bytes && i < out.trace->change_count; i++) {
		const struct trace_change *change = &out.trace->changes[i];
		const struct trace_object *pool = &out.trace->pools[change->pool];
		int pid = shown(&out.trace->processes[pool->process]);
		char name[NAME_BYTES];
		name_pool(name, change->pool);
		bytes[change->pool] += change->bytes;
		begin_event("C", pid, pid);
		write_time(change->time_ns);
		write_name(name);
		fprintf(out.to, ",\"args\":{\"bytes %s\":%" PRId64 "}}", pool->is_imported ? "imported" : "in use",
			bytes[change->pool]);
	}
	free(bytes);
}

/* Where an arrow begins or ends: a call, or what it put into its stream. */
struct place {
	int pid;
	int64_t tid;
	uint64_t begin_ns, end_ns;
};

static struct place find_place(int index, bool in_stream)
{
	const struct trace_call *call = &out.trace->calls[index];
	const struct trace_process *process = &out.trace->processes[call->process];
	struct place place = {shown(process), (int64_t)call->record->thread + process->shown_apart,
			      call->record->begin_ns, call->end_ns};

	if (in_stream && call->slice != NONE) {
		const struct trace_slice *slice = &out.trace->slices[call->slice];
		place.tid = FIRST_STREAM_TRACK + slice->stream;
		place.begin_ns = slice->begin_ns;
		place.end_ns = slice->end_ns;
	}
	return place;
}

static uint64_t just_behind(uint64_t begin_ns, uint64_t end_ns)
{
	return begin_ns + 1 < end_ns ? begin_ns + 1 : begin_ns;
}

static void write_arrow(int id)
{
	const struct trace_arrow *arrow = &out.trace->arrows[id];
	struct place from = find_place(arrow->from, arrow->from_slice), to = find_place(arrow->to, arrow->to_slice);

	/* Where the stream's times were concluded from what was seen later, the call itself is what came before. */
	if (from.begin_ns >= to.end_ns)
		from = find_place(arrow->from, false);
	uint64_t at = to.begin_ns;
	if (at < from.begin_ns) {
		at = from.end_ns < to.end_ns ? from.end_ns : from.begin_ns;
		begin_event("X", to.pid, to.tid);
		write_span(at, to.end_ns);
		write_name(arrow->within);
		fputs(",\"cat\":\"sharing\"}", out.to);
	}
	uint64_t begin_ns = just_behind(from.begin_ns, from.end_ns), end_ns = just_behind(at, to.end_ns);
	begin_event("s", from.pid, from.tid);
	write_time(begin_ns <= end_ns ? begin_ns : from.begin_ns);
	write_name(arrow->name);
	fprintf(out.to, ",\"cat\":\"sharing\",\"id\":%d}", id + 1);
	begin_event("f", to.pid, to.tid);
	write_time(end_ns);
	write_name(arrow->name);
	fprintf(out.to, ",\"cat\":\"sharing\",\"id\":%d,\"bp\":\"e\"}", id + 1);
}

void trace_write(const struct trace *trace, FILE *to)
{
	bool in_page = out.in_page;

	memset(&out, 0, sizeof out);
	out.in_page = in_page;
	out.to = to;
	out.trace = trace;
	out.start_ns = trace->call_count ? trace->calls[0].record->begin_ns : 0;
	collect_texts();
	fprintf(to,
		"{\"displayTimeUnit\":\"ns\",\"otherData\":{\"writer\":\"cenote trace %d.%d.%d\",\"lost\":%" PRIu64
		"},\n\"traceEvents\":[",
		CENOTE_VERSION_MAJOR, CENOTE_VERSION_MINOR, CENOTE_VERSION_PATCH, trace->lost);
	for (int i = 0; i < trace->process_count; i++)
		write_process(i);
	write_streams();
	for (int i = 0; i < trace->call_count; i++)
		write_call(&trace->calls[i]);
	for (int i = 0; i < trace->slice_count; i += trace->slices[i].count)
		write_slice(&trace->slices[i]);
	write_changes();
	for (int i = 0; i < trace->arrow_count; i++)
		write_arrow(i);
	fputs("\n]}\n", to);
	free(out.texts);
}

/* ---- A page ------------------------------------------------------------------------------------------------------ */

#include "trace_page.inc" /* page, which trace_page.html is */

void trace_write_page(const struct trace *trace, FILE *to)
{
	static const char place[] = "@TRACE@\n";
	const char *hole = strstr(page, place);

	fwrite(page, 1, (size_t)(hole - page), to);
	out.in_page = true;
	trace_write(trace, to);
	out.in_page = false;
	fputs(hole + strlen(place), to);
}

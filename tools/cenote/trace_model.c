/* SPDX-License-Identifier: MIT */
/*
 * cenote trace: what the calls of all processes mean together.
 *
 * One pass goes through the calls in the order in which they began, which is an order of cause and effect: a call that
 * uses a handle began after the handle was made. It learns which stream, pool and event each call is about, and draws
 * arrows from exports to imports, from records to waits, and from an importer's free to the allocation that got the
 * block next. Handles are reused over time; the latest with a value counts.
 *
 * A second pass, stream by stream, finds out when each operation was done: when that was seen, or else when anything
 * behind it was, or when the program has waited for it.
 */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

const struct trace_call_kind trace_call_kinds[] = {
#define CALL(name, act, is_runtime) {#name, act, is_runtime},
#include "trace_calls.inc"
#undef CALL
};

/* ---- Tables: two numbers to one ---------------------------------------------------------------------------------- */

struct table {
	struct row {
		uint64_t first, second;
		int value;
		bool used;
	} * rows;
	size_t room, count;
};

static struct row *find_row(const struct table *table, uint64_t first, uint64_t second)
{
	uint64_t place = (first * 0x9e3779b97f4a7c15u) ^ (second * 0xc2b2ae3d27d4eb4fu);

	for (place ^= place >> 29;; place++) {
		struct row *row = &table->rows[place & (table->room - 1)];
		if (!row->used || (row->first == first && row->second == second))
			return row;
	}
}

static int look_up(const struct table *table, uint64_t first, uint64_t second)
{
	const struct row *row = table->room ? find_row(table, first, second) : NULL;

	return row && row->used ? row->value : NONE;
}

static void put(struct table *table, uint64_t first, uint64_t second, int value)
{
	if (2 * table->count >= table->room) {
		struct table larger = {.room = table->room ? 2 * table->room : 64};
		larger.rows = calloc(larger.room, sizeof *larger.rows);
		if (!larger.rows) {
			fputs("cenote trace: out of memory\n", stderr);
			exit(EXIT_FAILURE);
		}
		for (size_t i = 0; i < table->room; i++)
			if (table->rows[i].used)
				put(&larger, table->rows[i].first, table->rows[i].second, table->rows[i].value);
		free(table->rows);
		*table = larger;
	}
	struct row *row = find_row(table, first, second);
	table->count += !row->used;
	*row = (struct row){first, second, value, true};
}

/* ---- The model --------------------------------------------------------------------------------------------------- */

/* A block of a pool, in the process that allocated it or in one that imported it. */
struct block {
	int process;
	uint64_t bytes;
	int pool;
	int origin;  /* the exporter's block; NONE: it was allocated here, or its exporter is not known */
	int imports; /* of an imported one: how often, less what was freed */
	int freed;   /* the call that freed it, or NONE */
	int let_go;  /* of an exported one: the importer's call that freed it last, or NONE */
};

/* A change of a pool's bytes, with the call that makes it. */
struct change {
	int call, pool;
	int64_t bytes;
};

/* Something in a stream, or a wait for the stream. */
struct entry {
	int stream, call;
	bool is_wait;
};

struct model {
	struct trace *trace;
	struct table streams, pools, events, blocks;
	struct table exports; /* act and handle to the latest call */
	struct table numbers; /* process and kind to how many there are */
	struct block *block_list;
	int block_count;
	struct change *changes;
	int change_count;
	struct entry *entries;
	int entry_count;
	int *received; /* calls to process when they have ended: what they got was made within */
	int received_count;
	uint64_t *known_ns; /* of each call: when what it put into a stream is known to have been done; 0: it is not */
};

enum kind { STREAM, POOL, EVENT };
enum { PER_THREAD_HANDLE = 2 };

static bool succeeded(const struct trace_call *call)
{
	return atomic_load(&call->record->state) == CN_TRACE_ENDED && !call->record->result;
}

static int next_number(struct model *model, int process, int kind, int step)
{
	uint64_t key = (uint64_t)kind * 2 + (step < 0);
	int number = look_up(&model->numbers, (uint64_t)process, key);

	number = (number == NONE ? 0 : number) + 1;
	put(&model->numbers, (uint64_t)process, key, number);
	return number * step;
}

/* A new object of a handle; another one that had it is gone. */
static int add_object(struct model *model, enum kind kind, int process, uint64_t handle, bool seen)
{
	struct trace *trace = model->trace;
	struct trace_object **list = kind == STREAM ? &trace->streams : kind == POOL ? &trace->pools : &trace->events;
	int *count = kind == STREAM ? &trace->stream_count : kind == POOL ? &trace->pool_count : &trace->event_count;
	struct table *table = kind == STREAM ? &model->streams : kind == POOL ? &model->pools : &model->events;

	*list = trace_grow(*list, *count, sizeof **list);
	(*list)[*count] = (struct trace_object){
		.process = process,
		.handle = handle,
		.origin = NONE,
		.record = NONE,
		.number = next_number(model, process, (int)kind, seen ? 1 : -1),
	};
	put(table, (uint64_t)process, handle, *count);
	return (*count)++;
}

static int find_object(struct model *model, enum kind kind, int process, uint64_t handle)
{
	struct table *table = kind == STREAM ? &model->streams : kind == POOL ? &model->pools : &model->events;
	int found = look_up(table, (uint64_t)process, handle);

	return found != NONE ? found : add_object(model, kind, process, handle, false);
}

static void add_arrow(struct model *model, struct trace_arrow arrow)
{
	struct trace *trace = model->trace;

	trace->arrows = trace_grow(trace->arrows, trace->arrow_count, sizeof arrow);
	trace->arrows[trace->arrow_count++] = arrow;
}

static void add_change(struct model *model, int call, int pool, int64_t bytes)
{
	model->changes = trace_grow(model->changes, model->change_count, sizeof *model->changes);
	model->changes[model->change_count++] = (struct change){call, pool, bytes};
}

static void add_entry(struct model *model, int stream, int call, bool is_wait)
{
	model->entries = trace_grow(model->entries, model->entry_count, sizeof *model->entries);
	model->entries[model->entry_count++] = (struct entry){stream, call, is_wait};
}

/* The event in the process that created it. */
static int root_of(const struct trace *trace, int event)
{
	/* An imported event is never exported: one step. */
	return trace->events[event].origin != NONE ? trace->events[event].origin : event;
}

/* ---- What a call is about ---------------------------------------------------------------------------------------- */

static void find_stream(struct model *model, struct trace_call *call)
{
	const struct cn_trace_record *record = call->record;
	uint64_t handle = record->stream;
	bool own = handle == PER_THREAD_HANDLE || (!handle && record->flags & CN_TRACE_PER_THREAD);

	if (own)
		handle = PER_THREAD_HANDLE | (uint64_t)record->thread << 32;
	else if (handle == 1)
		handle = 0; /* two names of the legacy default stream */
	call->stream = find_object(model, STREAM, call->process, handle);
	model->trace->streams[call->stream].thread = own ? record->thread : 0;
}

static void find_objects(struct model *model, struct trace_call *call, enum cn_trace_act act)
{
	if (cn_trace_submits(act) || act == CN_ACT_stream_sync || act == CN_ACT_stream_query ||
	    act == CN_ACT_stream_destroy)
		find_stream(model, call);
	if (call->record->event)
		call->event = find_object(model, EVENT, call->process, call->record->event);
	if (call->record->pool)
		call->pool = find_object(model, POOL, call->process, call->record->pool);
}

/* Something is made: from now on its handle means this. */
static void make_object(struct model *model, struct trace_call *call, enum cn_trace_act act)
{
	if (act == CN_ACT_stream_create)
		call->stream = add_object(model, STREAM, call->process, call->record->stream, true);
	else if (act == CN_ACT_event_create || act == CN_ACT_import_event)
		call->event = add_object(model, EVENT, call->process, call->record->event, true);
	else if (act == CN_ACT_pool_create ||
		 /* One that is imported again has the same handle. */
		 (act == CN_ACT_import_pool &&
		  look_up(&model->pools, (uint64_t)call->process, call->record->pool) == NONE))
		call->pool = add_object(model, POOL, call->process, call->record->pool, true);
}

/* What is destroyed takes its handle along. It is the destruction's call that is shown with it. */
static void forget_object(struct model *model, const struct trace_call *call, enum cn_trace_act act)
{
	const struct cn_trace_record *record = call->record;

	if (act == CN_ACT_stream_destroy && record->stream > PER_THREAD_HANDLE)
		put(&model->streams, (uint64_t)call->process, record->stream, NONE);
	else if (act == CN_ACT_event_destroy)
		put(&model->events, (uint64_t)call->process, record->event, NONE);
}

/* ---- Exports and imports ----------------------------------------------------------------------------------------- */

static const struct {
	enum cn_trace_act from, to;
	const char *name, *within;
} ways[] = {
	{CN_ACT_export_pool, CN_ACT_import_pool, "pool", "exported"},
	{CN_ACT_export_pointer, CN_ACT_import_pointer, "block", "exported"},
	{CN_ACT_export_memory, CN_ACT_import_memory, "memory", "exported"},
	{CN_ACT_export_legacy, CN_ACT_import_legacy, "memory", "exported"},
	{CN_ACT_export_event, CN_ACT_import_event, "event", "exported"},
	{CN_ACT_send, CN_ACT_receive, "descriptor", "sent"},
};

static void import_pointer(struct model *model, int index, int from);

/* What is imported here was exported there. */
static void connect(struct model *model, int from, int to, enum cn_trace_act act)
{
	struct trace *trace = model->trace;
	const struct trace_call *source = &trace->calls[from], *target = &trace->calls[to];

	if (act == CN_ACT_import_pool && target->pool != NONE && source->pool != NONE) {
		trace->pools[target->pool].is_imported = true;
		trace->pools[target->pool].origin = source->pool;
	} else if (act == CN_ACT_import_event && target->event != NONE && source->event != NONE) {
		trace->events[target->event].is_imported = true;
		trace->events[target->event].origin = root_of(trace, source->event);
	}
}

static void share(struct model *model, int index, enum cn_trace_act act)
{
	uint64_t handle = model->trace->calls[index].record->handle;

	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		if (handle && act == ways[i].from)
			put(&model->exports, (uint64_t)act, handle, index);
		if (act != ways[i].to)
			continue;
		int from = handle ? look_up(&model->exports, (uint64_t)ways[i].from, handle) : NONE;
		if (from != NONE) {
			add_arrow(model, (struct trace_arrow){ways[i].name, from, index, false, false, ways[i].within});
			connect(model, from, index, act);
		}
		if (act == CN_ACT_import_pointer)
			import_pointer(model, index, from);
		if (act == CN_ACT_import_pool)
			model->trace->pools[model->trace->calls[index].pool].is_imported = true;
	}
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

static int find_block(const struct model *model, const struct trace_call *call)
{
	return look_up(&model->blocks, (uint64_t)call->process, call->record->address);
}

static int add_block(struct model *model, const struct trace_call *call, uint64_t bytes, int origin)
{
	model->block_list = trace_grow(model->block_list, model->block_count, sizeof *model->block_list);
	model->block_list[model->block_count] = (struct block){
		.process = call->process,
		.bytes = bytes,
		.pool = call->pool,
		.origin = origin,
		.freed = NONE,
		.let_go = NONE,
	};
	put(&model->blocks, (uint64_t)call->process, call->record->address, model->block_count);
	return model->block_count++;
}

static void allocate(struct model *model, int index)
{
	const struct trace_call *call = &model->trace->calls[index];
	int old = find_block(model, call);

	if (!call->record->address || call->pool == NONE)
		return;
	/* Did it have to wait for an importer? */
	if (old != NONE && model->block_list[old].let_go > model->block_list[old].freed &&
	    model->block_list[old].freed != NONE) {
		int let_go = model->block_list[old].let_go;
		add_arrow(model, (struct trace_arrow){"used again", let_go, index, true, false, "released"});
	}
	add_block(model, call, call->record->bytes, NONE);
	add_change(model, index, call->pool, (int64_t)call->record->bytes);
}

static void import_pointer(struct model *model, int index, int from)
{
	const struct trace_call *call = &model->trace->calls[index];
	int origin = from == NONE ? NONE : find_block(model, &model->trace->calls[from]);
	uint64_t bytes = origin == NONE ? 0 : model->block_list[origin].bytes;
	int here = find_block(model, call);

	if (here == NONE || !model->block_list[here].imports || model->block_list[here].origin != origin) {
		here = add_block(model, call, bytes, origin);
		add_change(model, index, call->pool, (int64_t)bytes);
	}
	model->block_list[here].imports++;
}

static void free_block(struct model *model, int index)
{
	const struct trace_call *call = &model->trace->calls[index];
	int here = find_block(model, call);

	if (here == NONE)
		return;
	struct block *block = &model->block_list[here];
	if (block->freed != NONE || (block->imports && --block->imports))
		return;
	block->freed = index;
	if (block->pool != NONE)
		add_change(model, index, block->pool, -(int64_t)block->bytes);
	if (block->origin != NONE)
		model->block_list[block->origin].let_go = index;
}

/* ---- Events and waits -------------------------------------------------------------------------------------------- */

static void record_event(struct model *model, int index)
{
	struct trace *trace = model->trace;

	trace->events[root_of(trace, trace->calls[index].event)].record = index;
}

/* A stream or a thread waits for what was recorded last. */
static void wait_for_event(struct model *model, int index, bool by_stream)
{
	struct trace *trace = model->trace;
	const struct trace_call *call = &trace->calls[index];
	int record = trace->events[root_of(trace, call->event)].record;

	if (record == NONE)
		return;
	if (by_stream && trace->calls[record].stream == call->stream)
		return; /* it would wait for itself */
	add_arrow(model, (struct trace_arrow){"event", record, index, true, by_stream, "recorded"});
}

/* A thread that has waited for an event knows that what was recorded is done. */
static void know_record(struct model *model, int index)
{
	const struct trace *trace = model->trace;
	int record = trace->events[root_of(trace, trace->calls[index].event)].record;

	if (record != NONE && !model->known_ns[record])
		model->known_ns[record] = trace->calls[index].end_ns;
}

static void synchronize_all(struct model *model, int index)
{
	for (int i = 0; i < model->trace->stream_count; i++)
		if (model->trace->streams[i].process == model->trace->calls[index].process)
			add_entry(model, i, index, true);
}

/* ---- The passes -------------------------------------------------------------------------------------------------- */

static void understand_received(struct model *model, uint64_t now_ns)
{
	int kept = 0;

	for (int i = 0; i < model->received_count; i++) {
		struct trace_call *call = &model->trace->calls[model->received[i]];
		if (call->end_ns <= now_ns)
			find_objects(model, call, CN_ACT_got);
		else
			model->received[kept++] = model->received[i];
	}
	model->received_count = kept;
}

static void understand_call(struct model *model, int index)
{
	struct trace_call *call = &model->trace->calls[index];
	enum cn_trace_act act = trace_call_kinds[call->record->call].act;

	understand_received(model, call->record->begin_ns);
	if (act == CN_ACT_got) {
		model->received = trace_grow(model->received, model->received_count, sizeof *model->received);
		model->received[model->received_count++] = index;
		return;
	}
	if (succeeded(call))
		make_object(model, call, act);
	find_objects(model, call, act);
	if (!succeeded(call))
		return;
	if (cn_trace_submits(act))
		add_entry(model, call->stream, index, false);
	share(model, index, act);
	forget_object(model, call, act);
	switch ((int)act) {
	case CN_ACT_allocate: allocate(model, index); break;
	case CN_ACT_free:
	case CN_ACT_free_now: free_block(model, index); break;
	case CN_ACT_record: record_event(model, index); break;
	case CN_ACT_wait: wait_for_event(model, index, true); break;
	case CN_ACT_event_sync:
		wait_for_event(model, index, false);
		know_record(model, index);
		break;
	case CN_ACT_event_query: know_record(model, index); break;
	case CN_ACT_stream_sync:
	case CN_ACT_stream_query: add_entry(model, call->stream, index, true); break;
	case CN_ACT_sync_all: synchronize_all(model, index); break;
	default: break;
	}
}

static int by_stream(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	return a->stream != b->stream ? a->stream - b->stream : a->call - b->call;
}

/* When the operations of a stream were done, and by which of them it was seen. */
static void find_ends(struct model *model, const struct entry *entries, int count, struct trace_slice *slices)
{
	const struct trace *trace = model->trace;
	uint64_t bound = UINT64_MAX;

	for (int i = count - 1; i >= 0; i--) {
		const struct trace_call *call = &trace->calls[entries[i].call];
		uint64_t reached = entries[i].is_wait ? call->end_ns : atomic_load(&call->record->reached_ns);
		bool is_known = !entries[i].is_wait && reached > CN_TRACE_MARKED;
		if (!is_known && !entries[i].is_wait)
			reached = model->known_ns[entries[i].call];
		if (reached > CN_TRACE_MARKED && reached < bound)
			bound = reached;
		slices[i] = (struct trace_slice){
			.call = entries[i].call,
			.stream = entries[i].stream,
			.end_ns = bound == UINT64_MAX ? trace->processes[call->process].ended_ns : bound,
			.is_known = is_known,
			.is_open = bound == UINT64_MAX,
		};
	}
}

/* An operation whose end is inferred from the next one's is drawn with that. */
static bool is_one_with(const struct trace_slice *slice, const struct trace_slice *next)
{
	return !slice->is_known && slice->end_ns == next->end_ns;
}

/* One after the other: an operation begins when it was submitted, and not before the one in front of it is done. */
static void lay_out(struct model *model, const struct entry *entries, int count, const struct trace_slice *slices)
{
	struct trace *trace = model->trace;
	uint64_t free_ns = 0;
	int before = NONE,
	    first = NONE; /* the operation in front of this one; what it is drawn with, of trace->slices */

	for (int i = 0; i < count; i++) {
		struct trace_slice slice = slices[i];
		if (entries[i].is_wait)
			continue;
		struct trace_call *call = &trace->calls[slice.call];
		if (before != NONE && is_one_with(&slices[before], &slice)) {
			trace->slices[first].count++;
			trace->slices[first].is_open |= slice.is_open;
		} else {
			slice.begin_ns = call->record->begin_ns > free_ns ? call->record->begin_ns : free_ns;
			slice.end_ns = slice.end_ns > slice.begin_ns ? slice.end_ns : slice.begin_ns + 1;
			slice.count = 1;
			free_ns = slice.end_ns;
			first = trace->slice_count;
		}
		before = i;
		call->slice = first;
		trace->slices = trace_grow(trace->slices, trace->slice_count, sizeof slice);
		trace->slices[trace->slice_count++] = slice;
	}
}

static void make_slices(struct model *model)
{
	struct trace_slice *slices = calloc((size_t)model->entry_count + 1, sizeof *slices);

	if (!slices) {
		fputs("cenote trace: out of memory\n", stderr);
		exit(EXIT_FAILURE);
	}
	if (model->entry_count)
		qsort(model->entries, (size_t)model->entry_count, sizeof *model->entries, by_stream);
	for (int first = 0, end; first < model->entry_count; first = end) {
		for (end = first; end < model->entry_count; end++)
			if (model->entries[end].stream != model->entries[first].stream)
				break;
		find_ends(model, &model->entries[first], end - first, slices);
		lay_out(model, &model->entries[first], end - first, slices);
	}
	free(slices);
}

static int by_time(const void *left, const void *right)
{
	const struct trace_change *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->bytes > b->bytes ? -1 : a->bytes < b->bytes; /* what comes before what goes */
}

/* Memory is there when the call that allocates it returns, and gone when the stream has come to its free. */
static void time_changes(struct model *model)
{
	struct trace *trace = model->trace;

	for (int i = 0; i < model->change_count; i++) {
		const struct change *change = &model->changes[i];
		const struct trace_call *call = &trace->calls[change->call];
		bool in_stream = change->bytes < 0 && call->slice != NONE;
		trace->changes = trace_grow(trace->changes, trace->change_count, sizeof *trace->changes);
		trace->changes[trace->change_count++] = (struct trace_change){
			.time_ns = in_stream ? trace->slices[call->slice].end_ns : call->end_ns,
			.pool = change->pool,
			.bytes = change->bytes,
		};
	}
	if (trace->change_count)
		qsort(trace->changes, (size_t)trace->change_count, sizeof *trace->changes, by_time);
}

void trace_understand(struct trace *trace)
{
	struct model model = {.trace = trace};

	model.known_ns = calloc((size_t)trace->call_count + 1, sizeof *model.known_ns);
	if (!model.known_ns) {
		fputs("cenote trace: out of memory\n", stderr);
		exit(EXIT_FAILURE);
	}
	for (int i = 0; i < trace->call_count; i++)
		understand_call(&model, i);
	understand_received(&model, UINT64_MAX);
	make_slices(&model);
	time_changes(&model);
	free(model.streams.rows);
	free(model.pools.rows);
	free(model.events.rows);
	free(model.blocks.rows);
	free(model.exports.rows);
	free(model.numbers.rows);
	free(model.block_list);
	free(model.changes);
	free(model.entries);
	free(model.received);
	free(model.known_ns);
}

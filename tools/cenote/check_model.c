/* SPDX-License-Identifier: MIT */
/*
 * cenote check: processes and their calls, as they are fed.
 *
 * A call takes effect when it has returned: then its result is known, and all that it returned. Two things are noted
 * when it begins: which work a wait is for, and that a record is on its way, so that a wait that overlaps with it is
 * taken to be for it.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	enum cn_trace_act act;
} calls[] = {
#define CALL(name, act, is_runtime) {#name, act},
#include "trace_calls.inc"
#undef CALL
};

const char *check_call_name(uint16_t call)
{
	return call < CN_CALL_COUNT ? calls[call].name : "";
}

bool check_call_is(uint16_t call, enum cn_trace_act act)
{
	return call < CN_CALL_COUNT && calls[call].act == act;
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------- */

struct check *check_new(const struct check_options *options)
{
	struct check *check = check_allocate(sizeof *check);

	check->options = *options;
	check->host.version = ++check->versions;
	return check;
}

static void end_agent(void *agent)
{
	check_clock_free(&((struct check_agent *)agent)->clock);
	free(agent);
}

static void end_clock(void *clock)
{
	check_clock_free(clock);
	free(clock);
}

static void end_event(void *event)
{
	check_event_release(event);
}

static void end_block(void *block)
{
	check_block_release(block);
}

static void end_export(void *export)
{
	check_export_free(export);
}

static void end_open(void *open)
{
	struct check_open *call = open;

	check_record_release(call->waited);
	check_event_release(call->recording);
	free(call);
}

static void end_host(void *host)
{
	check_clock_free(&((struct check_host *)host)->known);
	free(((struct check_host *)host)->ranges);
	free(host);
}

static void free_process(struct check *check, int index)
{
	struct check_process *process = check->processes[index];

	check_map_clear(check, index);
	check_table_clear(&process->pools, free);
	check_table_clear(&process->stacks, free);
	check_table_clear(&process->modules, free);
	check_table_clear(&process->functions, free);
	check_table_clear(&process->hosts, end_host);
	check_table_clear(&process->open, end_open);
	check_clock_free(&process->remains);
	free(process->lanes);
	free(process);
}

static void free_stream(struct check_stream *stream)
{
	for (struct check_operation *at = stream->first, *next; at; at = next) {
		next = at->next;
		check_operation_free(at);
	}
	stream->first = NULL;
	check_stream_destroy(stream);
	check_clock_free(&stream->clock);
	free(stream);
}

void check_free(struct check *check)
{
	/* Operations refer to host functions and mappings; the streams go before them. */
	for (int i = 0; i < check->process_count; i++)
		check->processes[i]->has_ended = true;
	for (int i = 0; i < check->stream_count; i++)
		free_stream(check->streams[i]);
	for (int i = 0; i < check->process_count; i++)
		free_process(check, i);
	check_table_clear(&check->agents, end_agent);
	check_table_clear(&check->stream_table, NULL);
	check_table_clear(&check->event_table, end_event);
	check_table_clear(&check->memory_table, end_block);
	check_table_clear(&check->exports, end_export);
	check_table_clear(&check->sent, end_clock);
	check_table_clear(&check->said, NULL);
	check_clock_free(&check->host.clock);
	free(check->exported);
	free(check->streams);
	free(check->processes);
	free(check->lanes);
	free(check);
}

int check_process_begins(struct check *check, const struct cn_trace_header *header)
{
	struct check_process *process = check_allocate(sizeof *process);

	process->pid = header->pid;
	process->parent = header->parent;
	process->is_forked = header->forked != 0;
	memcpy(process->command, header->command, sizeof process->command - 1);
	check->processes = check_grow(check->processes, check->process_count, sizeof *check->processes);
	check->processes[check->process_count] = process;
	return check->process_count++;
}

struct check_agent *check_agent_of(struct check *check, int process, uint32_t thread)
{
	if (!check->options.is_strict)
		return &check->host;
	struct check_agent *agent = check_table_get(&check->agents, (uint64_t)process, thread);
	if (!agent) {
		agent = check_allocate(sizeof *agent);
		agent->version = ++check->versions;
		check_table_put(&check->agents, (uint64_t)process, thread, agent);
	}
	return agent;
}

/* ---- What is not a call ------------------------------------------------------------------------------------------ */

/* A text comes in parts. */
static void add_text(struct check_table *table, const struct cn_trace_record *record)
{
	enum { TEXT_MAX = 4096 };
	size_t length = strnlen(record->text, CN_TRACE_TEXT_BYTES);
	char *before = record->call ? check_table_remove(table, record->of, 0) : NULL;
	size_t kept = before ? strlen(before) : 0;

	if (!record->call)
		free(check_table_remove(table, record->of, 0));
	kept = kept + length < TEXT_MAX ? kept : 0;
	char *text = check_allocate(kept + length + 1);
	if (before)
		memcpy(text, before, kept);
	memcpy(text + kept, record->text, length);
	free(before);
	check_table_put(table, record->of, 0, text);
}

static void add_stack(struct check_process *process, const struct cn_trace_record *record)
{
	struct check_stack *stack = check_allocate(sizeof *stack);
	int count = record->result;

	stack->digest = 1;
	stack->count = count < 0 ? 0 : count < CN_TRACE_FRAMES ? count : CN_TRACE_FRAMES;
	for (int i = 0; i < stack->count; i++) {
		const char *path = check_table_get(&process->modules, record->words[i] >> CN_TRACE_NUMBER_SHIFT, 0);
		stack->frames[i] = record->words[i];
		stack->digest = (stack->digest ^ (record->words[i] & ((1ull << CN_TRACE_NUMBER_SHIFT) - 1))) *
				0x9e3779b97f4a7c15u;
		for (; path && *path; path++)
			stack->digest = (stack->digest ^ (unsigned char)*path) * 0x100000001b3u;
		stack->digest ^= stack->digest >> 31;
	}
	free(check_table_remove(&process->stacks, record->of, 0));
	check_table_put(&process->stacks, record->of, 0, stack);
}

void check_note(struct check *check, int process, const struct cn_trace_record *record)
{
	struct check_process *of = check->processes[process];

	switch ((int)atomic_load(&record->state)) {
	case CN_TRACE_FUNCTION_NAME: add_text(&of->functions, record); break;
	case CN_TRACE_MODULE: add_text(&of->modules, record); break;
	case CN_TRACE_STACK: add_stack(of, record); break;
	default: break;
	}
}

/* ---- Streams and events of calls --------------------------------------------------------------------------------- */

struct check_stream *check_stream_of(struct check *check, int process, const struct cn_trace_record *record)
{
	enum { LEGACY = 1, PER_THREAD = 2 };
	uint64_t handle = record->stream, key = handle;
	bool own = handle == PER_THREAD || (!handle && record->flags & CN_TRACE_PER_THREAD);
	bool is_legacy = !own && handle <= LEGACY;

	if (own)
		key = 1ull << 63 | (uint64_t)record->thread << 32 | record->context;
	else if (is_legacy)
		key = record->context;
	struct check_stream *stream = check_table_get(&check->stream_table, (uint64_t)process, key);
	if (stream)
		return stream;
	/* Of one that was not seen to be made all orders are assumed that it may have. */
	stream = check_stream_add(check, process, handle, record->context);
	stream->is_legacy = is_legacy;
	stream->is_blocking = !is_legacy;
	stream->thread = own ? record->thread : 0;
	check_table_put(&check->stream_table, (uint64_t)process, key, stream);
	return stream;
}

struct check_event *check_event_of(struct check *check, int process, uint64_t handle)
{
	struct check_event *event = check_table_get(&check->event_table, (uint64_t)process, handle);

	if (!event) {
		event = check_allocate(sizeof *event);
		event->references = 1;
		event->process = process;
		check_table_put(&check->event_table, (uint64_t)process, handle, event);
	}
	return event;
}

struct check_operation *check_operation_new(const struct check_call *call, enum check_kind_of_operation kind)
{
	struct check_operation *operation = check_allocate(sizeof *operation);

	operation->kind = kind;
	operation->site = call->site;
	return operation;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static struct check_site site_of(int process, const struct cn_trace_record *record, uint64_t time_ns)
{
	return (struct check_site){
		.process = process,
		.call = record->call,
		.thread = record->thread,
		.stack = record->stack,
		.stream = CHECK_NONE,
		.object = record->object,
		.bytes = record->bytes,
		.time_ns = time_ns,
	};
}

void check_call_begins(struct check *check, int process, uint64_t number, const struct cn_trace_record *record)
{
	struct check_open *open = check_allocate(sizeof *open);
	enum cn_trace_act act = calls[record->call].act;

	open->record = *record;
	open->site = site_of(process, record, record->begin_ns);
	if (act == CN_ACT_stream_sync || act == CN_ACT_stream_query)
		open->until = check_stream_of(check, process, record)->submitted;
	if ((act == CN_ACT_event_sync || act == CN_ACT_event_query) && record->event) {
		const struct check_event *event = check_event_of(check, process, record->event);
		open->waited = event->record_count ? check_record_hold(event->records[0]) : NULL;
	}
	if (act == CN_ACT_record && record->event) {
		open->recording = check_event_of(check, process, record->event);
		open->recording->references++;
		open->recording->recording++;
		open->recording->recording_stream = check_stream_of(check, process, record);
	}
	struct check_open *before = check_table_remove(&check->processes[process]->open, number, 0);
	if (before)
		end_open(before);
	check_table_put(&check->processes[process]->open, number, 0, open);
}

static bool is_captured(const struct cn_trace_record *record)
{
	return record->flags & CN_TRACE_CAPTURED;
}

void check_call_ends(struct check *check, int process, uint64_t number, const struct cn_trace_record *record,
		     const uint64_t *words, size_t word_count, const char *label)
{
	struct check_open *open = check_table_remove(&check->processes[process]->open, number, 0);
	struct check_call call = {
		.check = check,
		.process = process,
		.number = number,
		.record = record,
		.act = calls[record->call].act,
		.site = site_of(process, record, record->end_ns),
		.agent = check_agent_of(check, process, record->thread),
		.open = open,
		.words = words,
		.word_count = word_count,
		.label = label,
	};

	if (open && open->recording)
		open->recording->recording--;
	if (record->result) {
		check_call_failed(&call);
	} else if (!is_captured(record)) {
		check_call_streams(&call);
		check_call_events(&call);
		check_call_sharing(&call);
		check_call_memory(&call);
	}
	if (open)
		end_open(open);
}

/* ---- Host functions ---------------------------------------------------------------------------------------------- */

struct check_host *check_host_of(struct check *check, int process, uint64_t number)
{
	struct check_host *host = check_table_get(&check->processes[process]->hosts, number, 0);

	if (!host) {
		host = check_allocate(sizeof *host);
		host->process = process;
		host->number = number;
		check_table_put(&check->processes[process]->hosts, number, 0, host);
	}
	return host;
}

/* What its stream has done before it, the program can know from now on. */
void check_host_begins(struct check *check, int process, const struct cn_trace_record *record)
{
	struct check_host *host = check_host_of(check, process, record->object);
	const struct check_open *open = check_table_get(&check->processes[process]->open, record->object, 0);
	struct check_stream *stream = NULL;
	uint64_t until = 0;

	host->has_begun = true;
	host->thread = record->thread;
	if (host->operation) {
		stream = host->operation->stream;
		until = host->operation->sequence - 1;
	} else if (open) {
		stream = check_stream_of(check, process, &open->record);
		until = stream->submitted;
	}
	if (!stream)
		return;
	check_force(stream, until);
	check_learn(check, check_agent_of(check, process, record->thread), &stream->clock);
}

void check_host_ends(struct check *check, int process, const struct cn_trace_record *record)
{
	struct check_host *host = check_host_of(check, process, record->object);

	host->has_ended = true;
	if (host->is_over) {
		check_host_free(check, host);
		return;
	}
	check_clock_join(&host->known, &check_agent_of(check, process, record->thread)->clock);
	check_settle(check);
}

void check_kernel_touches(struct check *check, int process, const struct cn_trace_record *record)
{
	enum { RANGE_WORDS_MAX = 1 << 15 };
	struct check_host *kernel = check_host_of(check, process, record->of);
	size_t count = record->result > 1 && record->result <= CN_TRACE_WORDS_MAX ? (size_t)record->result - 1 : 0;

	if (kernel->is_over || kernel->range_words + count > RANGE_WORDS_MAX)
		return;
	if (kernel->range_words + count > kernel->range_room) {
		size_t room = 2 * (kernel->range_words + count);
		uint64_t *larger = check_allocate(room * sizeof *larger);
		if (kernel->range_words)
			memcpy(larger, kernel->ranges, kernel->range_words * sizeof *larger);
		free(kernel->ranges);
		kernel->ranges = larger;
		kernel->range_room = room;
	}
	memcpy(kernel->ranges + kernel->range_words, record->words + 1, count * sizeof *kernel->ranges);
	kernel->range_words += count;
}

void check_kernel_ends(struct check *check, int process, const struct cn_trace_record *record)
{
	struct check_host *kernel = check_host_of(check, process, record->of);

	kernel->has_ended = true;
	kernel->is_exact = record->words[1] != 0;
	if (kernel->is_over)
		check_host_free(check, kernel);
	else
		check_settle(check);
}

/* ---- The end of a process ---------------------------------------------------------------------------------------- */

static void tell_left(struct check *check, const struct check_mapping *mapping, enum cn_trace_end end)
{
	const struct check_block *block = mapping->block;
	struct check_finding finding = {
		.kind = CHECK_KIND_NOT_CLOSED, .first = mapping->made, .second = {.call = CN_CALL_COUNT}, .count = 1};

	finding.block = block;
	finding.second.process = mapping->process;
	if (mapping->is_import) {
		if (mapping->imports <= 0 || mapping->released.call != CN_CALL_COUNT)
			return;
		finding.kind = end == CN_TRACE_RUNS ? CHECK_KIND_HOLDER_DIED : CHECK_KIND_NOT_CLOSED;
	} else {
		/* Memory that nobody else has ends with its process, which is no mistake. */
		if (end == CN_TRACE_RUNS || block->is_freed || block->is_host || block->is_physical ||
		    !(block->is_shared || check->options.is_strict))
			return;
		finding.kind = CHECK_KIND_LEAKED;
	}
	check_found(check, &finding);
}

/* Pools that others have had a part in. They end with their process, too: so this is not certain to be a mistake. */
static void tell_pools(struct check *check, int index)
{
	const struct check_table *pools = &check->processes[index]->pools;

	for (size_t row = 0; row < pools->room; row++) {
		for (const struct check_row *at = pools->rows[row]; at; at = at->next) {
			const struct check_pool *pool = at->value;
			const struct check_finding finding = {.kind = CHECK_KIND_LEAKED,
							      .first = pool->made,
							      .second = {.call = CN_CALL_COUNT, .process = index},
							      .count = 1};
			if (pool->is_shared)
				check_found(check, &finding);
		}
	}
}

void check_process_ends(struct check *check, int index, enum cn_trace_end end)
{
	struct check_process *process = check->processes[index];

	if (process->has_ended)
		return;
	/* What it had given to its streams has been done, or never will be. */
	check_learn_all(check, &check->host, index);
	process->was_killed = end == CN_TRACE_RUNS;
	for (int i = 0; i < process->map.count && end != CN_TRACE_EXECUTED && !check->is_interrupted; i++)
		tell_left(check, process->map.list[i], end);
	if (check->options.is_strict && end == CN_TRACE_EXITED && !check->is_interrupted)
		tell_pools(check, index);
	check_map_clear(check, index);
	process->has_ended = true;
	for (int i = 0; i < check->stream_count; i++)
		if (check->streams[i]->process == index)
			check_stream_destroy(check->streams[i]);
	check_table_clear(&process->open, end_open);
}

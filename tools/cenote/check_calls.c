/* SPDX-License-Identifier: MIT */
/*
 * cenote check: what each call means.
 *
 * Where a rule of CUDA's leaves open whether something is ordered, it counts as ordered: `cenote check` tells what is
 * certain. So copies and fills without a stream wait for the device, a copy to memory of the program's own is done when
 * its call returns, and a free without a stream has waited for all work of its process. --strict takes the manual's
 * word for copies within a device and for fills: they may still run.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { STREAM_NON_BLOCKING = 1, EXPORTS_MAX = 1 << 16 };

/* ---- Streams ----------------------------------------------------------------------------------------------------- */

static void create_stream(struct check_call *call)
{
	const struct cn_trace_record *record = call->record;
	struct check_stream *stream = check_stream_add(call->check, call->process, record->stream, record->context);

	stream->is_blocking = !call->word_count || !(call->words[0] & STREAM_NON_BLOCKING);
	stream->number = ++call->check->processes[call->process]->streams;
	check_table_put(&call->check->stream_table, (uint64_t)call->process, record->stream, stream);
}

static void launch_host_function(struct check_call *call)
{
	struct check_stream *stream = check_stream_of(call->check, call->process, call->record);
	struct check_operation *operation = check_operation_new(call, CHECK_HOST_FUNCTION);

	operation->site.stream = stream->index;
	operation->host = check_host_of(call->check, call->process, call->number);
	check_submit(stream, call->agent, operation);
}

void check_call_streams(struct check_call *call)
{
	struct check *check = call->check;
	struct check_stream *stream;

	switch ((int)call->act) {
	case CN_ACT_stream_create: create_stream(call); break;
	case CN_ACT_stream_destroy:
		stream = check_table_remove(&check->stream_table, (uint64_t)call->process, call->record->stream);
		if (stream)
			check_stream_destroy(stream);
		break;
	case CN_ACT_stream_sync:
	case CN_ACT_stream_query:
		stream = check_stream_of(check, call->process, call->record);
		check_force(stream, call->open ? call->open->until : stream->submitted);
		check_learn(check, call->agent, &stream->clock);
		break;
	case CN_ACT_sync_all: check_learn_all(check, call->agent, call->process); break;
	case CN_ACT_host: launch_host_function(call); break;
	default: break;
	}
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */

/* Something is done with an event that its creator had destroyed before. */
static void use_event(const struct check_call *call, const struct check_event *event)
{
	if (!event->is_destroyed || event->process == call->process ||
	    call->record->begin_ns < event->destroyed.time_ns)
		return;
	const struct check_finding finding = {
		.kind = CHECK_KIND_EVENT_DESTROYED,
		.first = event->destroyed,
		.second = call->site,
		.event = event,
		.count = 1,
	};
	check_found(call->check, &finding);
}

static void record_event(struct check_call *call, struct check_event *event)
{
	struct check_stream *stream = check_stream_of(call->check, call->process, call->record);
	struct check_operation *operation = check_operation_new(call, CHECK_RECORDS);
	struct check_record *record = check_allocate(sizeof *record);

	operation->site.stream = stream->index;
	*record = (struct check_record){.references = 2, .stream = stream, .sequence = stream->submitted + 1};
	record->site = operation->site;
	operation->record = record;
	if (event->record_count == CHECK_RECORDS_KEPT)
		check_record_release(event->records[--event->record_count]);
	memmove(event->records + 1, event->records, (size_t)event->record_count * sizeof *event->records);
	event->records[0] = record;
	event->record_count++;
	check_submit(stream, call->agent, operation);
}

static void wait_for_event(struct check_call *call, struct check_event *event)
{
	struct check_stream *stream = check_stream_of(call->check, call->process, call->record);
	struct check_operation *operation = check_operation_new(call, CHECK_WAITS);

	operation->site.stream = stream->index;
	operation->event = event;
	event->references++;
	operation->record = event->record_count ? check_record_hold(event->records[0]) : NULL;
	/* A record that has begun and not returned may be the one. */
	if (event->recording > 0 && event->recording_stream && event->recording_stream != stream) {
		operation->after = check_grow(NULL, 0, sizeof *operation->after);
		operation->after[operation->after_count++] =
			(struct check_dependence){event->recording_stream, event->recording_stream->submitted};
	}
	check_submit(stream, call->agent, operation);
}

static void create_event(struct check_call *call)
{
	struct check *check = call->check;

	check_event_release(check_table_remove(&check->event_table, (uint64_t)call->process, call->record->event));
	struct check_event *event = check_event_of(check, call->process, call->record->event);
	event->number = ++check->processes[call->process]->events;
}

static void destroy_event(struct check_call *call)
{
	struct check_event *event =
		check_table_remove(&call->check->event_table, (uint64_t)call->process, call->record->event);

	if (event && event->process == call->process) {
		event->is_destroyed = true;
		event->destroyed = call->site;
	}
	check_event_release(event);
}

static void know_event(struct check_call *call)
{
	struct check_record *record = call->open ? call->open->waited : NULL;

	if (!record)
		return;
	check_force_record(record);
	check_learn(call->check, call->agent, &record->clock);
}

void check_call_events(struct check_call *call)
{
	struct check_event *event;

	if (!call->record->event)
		return;
	switch ((int)call->act) {
	case CN_ACT_event_create: create_event(call); return;
	case CN_ACT_event_destroy: destroy_event(call); return;
	case CN_ACT_record:
	case CN_ACT_wait:
	case CN_ACT_event_sync:
	case CN_ACT_event_query: break;
	default: return;
	}
	event = check_event_of(call->check, call->process, call->record->event);
	use_event(call, event);
	if (call->act == CN_ACT_record)
		record_event(call, event);
	else if (call->act == CN_ACT_wait)
		wait_for_event(call, event);
	else
		know_event(call);
}

/* ---- Exports and imports ----------------------------------------------------------------------------------------- */

struct check_export *check_export_find(const struct check *check, enum cn_trace_act act, uint64_t handle)
{
	return handle ? check_table_get(&check->exports, (uint64_t)act, handle) : NULL;
}

void check_export_free(struct check_export *export)
{
	check_event_release(export->event);
	check_block_release(export->block);
	check_clock_free(&export->known);
	free(export);
}

struct check_export *check_export_add(struct check_call *call)
{
	struct check *check = call->check;
	struct check_export *export = check_export_find(check, call->act, call->record->handle);

	if (!export) {
		if (!check->exported)
			check->exported = check_allocate(EXPORTS_MAX * sizeof *check->exported);
		struct check_export **place = &check->exported[check->export_count++ % EXPORTS_MAX];
		if (*place) {
			check_table_remove(&check->exports, (uint64_t)(*place)->act, (*place)->handle);
			check_export_free(*place);
		}
		export = check_allocate(sizeof *export);
		export->act = call->act;
		export->handle = call->record->handle;
		check_table_put(&check->exports, (uint64_t)call->act, export->handle, export);
		*place = export;
	}
	if (check->options.is_strict)
		check_clock_join(&export->known, &call->agent->clock);
	return export;
}

static void export_block(struct check_call *call, struct check_block *block)
{
	struct check_export *export = call->record->handle && block ? check_export_add(call) : NULL;

	if (!export || export->block == block)
		return;
	check_block_release(export->block);
	export->block = block;
	block->references++;
	block->is_shared = true;
}

static void export_event(struct check_call *call)
{
	struct check_event *event = check_event_of(call->check, call->process, call->record->event);
	struct check_export *export = call->record->handle ? check_export_add(call) : NULL;

	if (!export || export->event == event)
		return;
	check_event_release(export->event);
	export->event = event;
	event->references++;
	event->is_shared = true;
}

static void tell_event_gone(const struct check_call *call)
{
	const struct check_export *export = check_export_find(call->check, CN_ACT_export_event, call->record->handle);

	if (!export || !export->event || !export->event->is_destroyed)
		return;
	const struct check_finding finding = {
		.kind = CHECK_KIND_EVENT_GONE,
		.first = export->event->destroyed,
		.second = call->site,
		.event = export->event,
		.count = 1,
	};
	check_found(call->check, &finding);
}

/* A thread that has imported something comes after the one that exported it. */
static struct check_export *import_of(struct check_call *call, enum cn_trace_act act)
{
	struct check_export *export = check_export_find(call->check, act, call->record->handle);

	if (export && call->check->options.is_strict)
		check_learn(call->check, call->agent, &export->known);
	return export;
}

static void import_event(struct check_call *call)
{
	const struct check_export *export = import_of(call, CN_ACT_export_event);
	struct check *check = call->check;

	check_event_release(check_table_remove(&check->event_table, (uint64_t)call->process, call->record->event));
	if (!export || !export->event)
		return;
	/* A driver may open it all the same. */
	if (export->event->is_destroyed && export->event->destroyed.time_ns < call->record->begin_ns) {
		tell_event_gone(call);
		return;
	}
	export->event->references++;
	check_table_put(&check->event_table, (uint64_t)call->process, call->record->event, export->event);
}

/* Memory of another process, at an address of this one. */
static void import_block(struct check_call *call, enum cn_trace_act act)
{
	const struct check_export *export = import_of(call, act);
	uint64_t address = call->record->address;
	struct check_mapping *mapping = check_map_find(call->check, call->process, address);
	struct check_block *block = export ? export->block : NULL;

	if (!address || !block)
		return;
	if (mapping && mapping->block == block && mapping->address == address && mapping->is_import) {
		mapping->imports++;
	} else {
		mapping = check_map_add(call->check, call->process, block, address, block->bytes, 0);
		mapping->is_import = true;
		mapping->imports = 1;
	}
	mapping->made = call->site;
	mapping->released.call = CN_CALL_COUNT;
	mapping->is_gone = false;
}

static void import_memory(struct check_call *call)
{
	const struct check_export *export = import_of(call, CN_ACT_export_memory);
	struct check_block *block = export ? export->block : NULL;
	uint64_t object = call->record->object;

	check_block_release(check_table_remove(&call->check->memory_table, (uint64_t)call->process, object));
	if (!block)
		return;
	block->references++;
	check_table_put(&call->check->memory_table, (uint64_t)call->process, object, block);
}

static void add_pool(struct check_call *call)
{
	struct check_table *pools = &call->check->processes[call->process]->pools;
	struct check_pool *pool = check_allocate(sizeof *pool);

	pool->made = call->site;
	free(check_table_remove(pools, call->record->pool, 0));
	check_table_put(pools, call->record->pool, 0, pool);
}

static void share_pool(struct check_call *call)
{
	struct check_pool *pool = check_table_get(&call->check->processes[call->process]->pools, call->record->pool, 0);

	if (pool)
		pool->is_shared = true;
}

/* A program's own way to tell another that something is done. */
static void order_sent(struct check_call *call)
{
	struct check_clock *sent = check_table_get(&call->check->sent, call->record->object, 0);

	if (!sent) {
		sent = check_allocate(sizeof *sent);
		check_table_put(&call->check->sent, call->record->object, 0, sent);
	}
	check_clock_join(sent, &call->agent->clock);
}

static void order_received(struct check_call *call)
{
	const struct check_clock *sent = check_table_get(&call->check->sent, call->record->object, 0);

	if (sent)
		check_learn(call->check, call->agent, sent);
}

static struct check_block *block_at(const struct check_call *call)
{
	const struct check_mapping *mapping = check_map_find(call->check, call->process, call->record->address);

	return mapping ? mapping->block : NULL;
}

static struct check_block *block_of_object(const struct check_call *call)
{
	return check_table_get(&call->check->memory_table, (uint64_t)call->process, call->record->object);
}

void check_call_sharing(struct check_call *call)
{
	switch ((int)call->act) {
	case CN_ACT_export_pointer:
	case CN_ACT_export_legacy: export_block(call, block_at(call)); break;
	case CN_ACT_export_memory: export_block(call, block_of_object(call)); break;
	case CN_ACT_export_event: export_event(call); break;
	case CN_ACT_export_pool:
		share_pool(call);
		/* fallthrough */
	case CN_ACT_send:
		if (call->record->handle)
			check_export_add(call);
		break;
	case CN_ACT_import_pointer: import_block(call, CN_ACT_export_pointer); break;
	case CN_ACT_import_legacy: import_block(call, CN_ACT_export_legacy); break;
	case CN_ACT_import_memory: import_memory(call); break;
	case CN_ACT_import_event: import_event(call); break;
	case CN_ACT_import_pool:
		import_of(call, CN_ACT_export_pool);
		add_pool(call);
		share_pool(call);
		break;
	case CN_ACT_pool_create: add_pool(call); break;
	case CN_ACT_pool_destroy:
		free(check_table_remove(&call->check->processes[call->process]->pools, call->record->pool, 0));
		break;
	case CN_ACT_receive: import_of(call, CN_ACT_send); break;
	case CN_ACT_order_sent: order_sent(call); break;
	case CN_ACT_order_received: order_received(call); break;
	default: break;
	}
}

/* ---- Calls that fail --------------------------------------------------------------------------------------------- */

/* An address that a call was given, and that was freed before. */
static void tell_freed(const struct check_call *call, uint64_t address, int mode)
{
	const struct check_mapping *mapping = address ? check_map_find(call->check, call->process, address) : NULL;
	struct check_finding finding = {.kind = CHECK_KIND_AFTER_FREE,
					.second = call->site,
					.first_mode = CHECK_RELEASE,
					.second_mode = mode,
					.count = 1};

	if (!mapping || (mapping->is_import ? mapping->released.call == CN_CALL_COUNT : !mapping->block->is_freed))
		return;
	finding.first = mapping->released;
	finding.block = mapping->block;
	for (int i = 0; !mapping->is_import && i < mapping->block->access_count; i++)
		if (mapping->block->accesses[i].mode == CHECK_FREE)
			finding.first = mapping->block->accesses[i].site;
	check_found(call->check, &finding);
}

static void tell_freed_twice(const struct check_call *call)
{
	const struct check_mapping *mapping = check_map_find(call->check, call->process, call->record->address);

	if (!mapping || mapping->address != call->record->address ||
	    (mapping->is_import ? mapping->imports > 0 : !mapping->block->is_freed))
		return;
	const struct check_finding finding = {
		.kind = CHECK_KIND_FREED_TWICE,
		.first = mapping->released,
		.second = call->site,
		.block = mapping->block,
		.count = 1,
	};
	check_found(call->check, &finding);
}

void check_call_failed(struct check_call *call)
{
	enum { NOT_INITIALIZED = 3 }; /* of the driver and of the runtime */
	struct check_process *process = call->check->processes[call->process];

	if (process->is_forked && call->record->result == NOT_INITIALIZED && !process->said_fork) {
		const struct check_finding finding = {
			.kind = CHECK_KIND_AFTER_FORK,
			.first = {.call = CN_CALL_COUNT},
			.second = call->site,
			.count = 1,
		};
		process->said_fork = true;
		check_found(call->check, &finding);
	}
	switch ((int)call->act) {
	case CN_ACT_import_event: tell_event_gone(call); break;
	case CN_ACT_free:
	case CN_ACT_free_now:
	case CN_ACT_close_legacy: tell_freed_twice(call); break;
	case CN_ACT_copy:
	case CN_ACT_copy_now:
		tell_freed(call, call->record->source, CHECK_READ);
		tell_freed(call, call->record->address, CHECK_WRITE);
		break;
	case CN_ACT_fill:
	case CN_ACT_fill_now: tell_freed(call, call->record->address, CHECK_WRITE); break;
	default: break;
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * cenote check: what comes after what.
 *
 * A clock says of each stream how far its work is known to be done. A stream has one: what its next operation comes
 * after. So has a record of an event, and so has a thread that has waited for something; by default all threads of all
 * processes have one together, because what a program does between two calls, in whatever process, is not seen: a call
 * that returned before another one began may have led to it.
 *
 * Streams are followed, not timed. An operation is done at once if nothing is in its way, and otherwise waits in its
 * stream here, as it does in the program: for a record that stands in a stream that waits itself, for a word of memory,
 * for a host function to return, for the legacy default stream. So a clock never has an order that is yet to come, and
 * what waits for ever is there to be shown. When the program learns that a stream has come further than it seems to be
 * here, then what it waited for was done by somebody unseen; whatever was submitted until then may have been its cause,
 * and counts as ordered before it.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

/* ---- Clocks ------------------------------------------------------------------------------------------------------ */

static void make_room(struct check_clock *clock, int count)
{
	if (clock->count >= count)
		return;
	uint32_t *larger = check_allocate((size_t)count * sizeof *larger);
	if (clock->count)
		memcpy(larger, clock->at, (size_t)clock->count * sizeof *larger);
	free(clock->at);
	*clock = (struct check_clock){larger, count};
}

/* True: it has changed. */
static bool join(struct check_clock *clock, const struct check_clock *other)
{
	bool changed = false;

	make_room(clock, other->count);
	for (int i = 0; i < other->count; i++) {
		if (clock->at[i] >= other->at[i])
			continue;
		clock->at[i] = other->at[i];
		changed = true;
	}
	return changed;
}

void check_clock_join(struct check_clock *clock, const struct check_clock *other)
{
	join(clock, other);
}

void check_clock_free(struct check_clock *clock)
{
	free(clock->at);
	*clock = (struct check_clock){0};
}

bool check_clock_has(const struct check_clock *clock, struct check_epoch epoch)
{
	return epoch.lane < clock->count && clock->at[epoch.lane] >= epoch.number;
}

void check_learn(struct check *check, struct check_agent *agent, const struct check_clock *clock)
{
	if (join(&agent->clock, clock))
		agent->version = ++check->versions;
}

/* ---- Records and events ------------------------------------------------------------------------------------------ */

struct check_record *check_record_hold(struct check_record *record)
{
	if (record)
		record->references++;
	return record;
}

void check_record_release(struct check_record *record)
{
	if (!record || --record->references)
		return;
	check_clock_free(&record->clock);
	free(record);
}

void check_event_release(struct check_event *event)
{
	if (!event || --event->references)
		return;
	for (int i = 0; i < event->record_count; i++)
		check_record_release(event->records[i]);
	free(event);
}

static void remember_wait(struct check_stream *stream, const struct check_operation *operation)
{
	if (!stream->waits)
		stream->waits = check_allocate(CHECK_WAITS_KEPT * sizeof *stream->waits);
	struct check_wait *wait = &stream->waits[stream->wait_count++ % CHECK_WAITS_KEPT];
	check_event_release(wait->event);
	check_record_release(wait->record);
	*wait = (struct check_wait){operation->event, check_record_hold(operation->record), operation->site};
	operation->event->references++;
}

static void forget_waits(struct check_stream *stream)
{
	for (int i = 0; stream->waits && i < CHECK_WAITS_KEPT; i++) {
		check_event_release(stream->waits[i].event);
		check_record_release(stream->waits[i].record);
	}
	free(stream->waits);
	stream->waits = NULL;
	stream->wait_count = 0;
}

/* ---- Streams ----------------------------------------------------------------------------------------------------- */

struct check_stream *check_stream_add(struct check *check, int process, uint64_t handle, uint32_t context)
{
	struct check_process *of = check->processes[process];
	struct check_stream *stream = check_allocate(sizeof *stream);

	*stream = (struct check_stream){
		.check = check, .index = check->stream_count, .process = process, .handle = handle, .context = context};
	if (of->lane_count) {
		stream->lane = of->lanes[--of->lane_count];
	} else if (check->lane_count < CHECK_LANES_MAX) {
		check->lanes = check_grow(check->lanes, check->lane_count, sizeof *check->lanes);
		check->lanes[check->lane_count] = 0;
		stream->lane = check->lane_count++;
	} else {
		stream->lane = (int)(handle % CHECK_LANES_MAX); /* two with one lane seem ordered */
	}
	check->streams = check_grow(check->streams, check->stream_count, sizeof *check->streams);
	check->streams[check->stream_count++] = stream;
	return stream;
}

static struct check_stream *legacy_of(const struct check_stream *stream)
{
	return check_table_get(&stream->check->stream_table, (uint64_t)stream->process, stream->context);
}

/* Are the two ordered by the rules of the legacy default stream? */
static bool is_beside(const struct check_stream *legacy, const struct check_stream *stream)
{
	return stream->process == legacy->process && stream->context == legacy->context && stream->is_blocking &&
	       stream != legacy;
}

/* A destroyed stream has done all its work: what it did stays known to what comes after it. */
static void bury(struct check_stream *stream)
{
	struct check_process *process = stream->check->processes[stream->process];
	struct check_stream *legacy = stream->is_blocking ? legacy_of(stream) : NULL;

	if (legacy)
		join(&legacy->clock, &stream->clock);
	join(&process->remains, &stream->clock);
	check_clock_free(&stream->clock);
	forget_waits(stream);
	if (process->has_ended)
		return;
	process->lanes = check_grow(process->lanes, process->lane_count, sizeof *process->lanes);
	process->lanes[process->lane_count++] = stream->lane;
}

void check_stream_destroy(struct check_stream *stream)
{
	if (stream->is_destroyed)
		return;
	stream->is_destroyed = true;
	if (!stream->first)
		bury(stream);
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

void check_host_free(struct check *check, struct check_host *host)
{
	check_table_remove(&check->processes[host->process]->hosts, host->number, 0);
	check_clock_free(&host->known);
	free(host->ranges);
	free(host);
}

void check_operation_free(struct check_operation *operation)
{
	check_clock_free(&operation->known);
	check_record_release(operation->record);
	check_event_release(operation->event);
	if (operation->host) {
		operation->host->operation = NULL;
		operation->host->is_over = true;
		if (operation->host->has_ended)
			check_host_free(operation->stream->check, operation->host);
	}
	for (int i = 0; i < operation->use_count; i++)
		check_mapping_release(operation->uses[i].mapping);
	free(operation->uses);
	free(operation->after);
	free(operation);
}

static bool fulfils(const struct check_operation *operation, uint64_t value)
{
	enum { GEQ, EQ, AND, NOR, CONDITION = 3 };
	uint64_t operand = operation->operand;

	if (!operation->is_wide) {
		value = (uint32_t)value;
		operand = (uint32_t)operand;
	}
	switch (operation->flags & CONDITION) {
	case GEQ: return operation->is_wide ? (int64_t)(value - operand) >= 0 : (int32_t)(value - operand) >= 0;
	case EQ: return value == operand;
	case AND: return (value & operand) != 0;
	default: return operation->is_wide ? ~(value | operand) != 0 : (uint32_t) ~(value | operand) != 0;
	}
}

/*
 * Has the word a value that fulfils what is waited for? A write lets each stream go on once: the program's own code may
 * have changed the word since, unseen.
 */
static bool value_is_there(const struct check_operation *operation)
{
	const struct check_value *value = operation->value;

	if (operation->is_satisfied || !value || !value->is_known)
		return operation->is_satisfied;
	uint64_t taken = (uintptr_t)check_table_get(&value->taken, (uint64_t)operation->stream->lane, 0);
	return taken < value->writes && fulfils(operation, value->value);
}

static bool is_ready(const struct check_operation *operation)
{
	for (int i = 0; i < operation->after_count; i++)
		if (operation->after[i].stream->executed < operation->after[i].sequence)
			return false;
	switch (operation->kind) {
	case CHECK_WAITS: return !operation->record || operation->record->is_done;
	case CHECK_WAITS_VALUE: return value_is_there(operation);
	case CHECK_ACCESSES:
	case CHECK_HOST_FUNCTION: return !operation->host || operation->host->has_ended;
	default: return true;
	}
}

static void write_value(const struct check_stream *stream, const struct check_operation *operation)
{
	struct check_value *value = operation->value;

	if (!value)
		return;
	value->is_known = true;
	value->value = operation->operand;
	value->writes++;
	value->written = operation->site;
	join(&value->clock, &stream->clock);
}

static void take_value(struct check_stream *stream, const struct check_operation *operation)
{
	struct check_value *value = operation->value;

	if (!value)
		return;
	join(&stream->clock, &value->clock);
	check_table_put(&value->taken, (uint64_t)stream->lane, 0, (void *)(uintptr_t)value->writes);
}

/* Rules of the legacy default stream. */
static void join_beside(struct check_stream *stream)
{
	struct check *check = stream->check;

	if (stream->is_legacy) {
		for (int i = 0; i < check->stream_count; i++)
			if (is_beside(stream, check->streams[i]))
				join(&stream->clock, &check->streams[i]->clock);
	} else if (stream->is_blocking) {
		struct check_stream *legacy = legacy_of(stream);
		if (legacy)
			join(&stream->clock, &legacy->clock);
	}
}

/* The stream has come to an operation. `known` is what the thread knew that submitted it. */
static void execute(struct check_stream *stream, struct check_operation *operation, const struct check_clock *known)
{
	struct check *check = stream->check;
	struct check_epoch epoch = {stream->lane, ++check->lanes[stream->lane]};

	if (known)
		join(&stream->clock, known);
	join_beside(stream);
	for (int i = 0; i < operation->after_count; i++)
		join(&stream->clock, &operation->after[i].stream->clock);
	make_room(&stream->clock, check->lane_count);
	stream->clock.at[stream->lane] = epoch.number;
	switch (operation->kind) {
	case CHECK_ACCESSES:
		if (operation->host && operation->host->is_exact)
			check_make_exact(operation);
		for (int i = 0; i < operation->use_count; i++)
			check_use(&stream->clock, epoch, &operation->site, &operation->uses[i]);
		break;
	case CHECK_RECORDS:
		join(&operation->record->clock, &stream->clock);
		operation->record->is_done = true;
		break;
	case CHECK_WAITS:
		if (operation->record)
			join(&stream->clock, &operation->record->clock);
		remember_wait(stream, operation);
		break;
	case CHECK_WAITS_VALUE: take_value(stream, operation); break;
	case CHECK_WRITES_VALUE: write_value(stream, operation); break;
	case CHECK_HOST_FUNCTION:
		if (operation->host)
			join(&stream->clock, &operation->host->known);
		break;
	}
	stream->executed = operation->sequence;
}

/* ---- What waits -------------------------------------------------------------------------------------------------- */

static void add_dependence(struct check_operation *operation, struct check_stream *stream)
{
	operation->after = check_grow(operation->after, operation->after_count, sizeof *operation->after);
	operation->after[operation->after_count++] = (struct check_dependence){stream, stream->submitted};
}

/* What else must be done first, by the rules of the legacy default stream. */
static void find_dependences(struct check_stream *stream, struct check_operation *operation)
{
	struct check *check = stream->check;
	struct check_stream *legacy = stream->is_blocking && !stream->is_legacy ? legacy_of(stream) : NULL;

	if (legacy && legacy->first)
		add_dependence(operation, legacy);
	for (int i = 0; stream->is_legacy && i < check->stream_count; i++)
		if (check->streams[i]->first && is_beside(stream, check->streams[i]))
			add_dependence(operation, check->streams[i]);
}

void check_submit(struct check_stream *stream, const struct check_agent *agent, struct check_operation *operation)
{
	struct check *check = stream->check;

	operation->stream = stream;
	operation->sequence = ++stream->submitted;
	if (check->waiting)
		find_dependences(stream, operation);
	if (operation->host)
		operation->host->operation = operation;
	if (!stream->first && is_ready(operation)) {
		execute(stream, operation, stream->seen == agent->version ? NULL : &agent->clock);
		stream->seen = agent->version;
		check_operation_free(operation);
	} else {
		join(&operation->known, &agent->clock);
		check->waiting += !stream->first;
		if (stream->first)
			stream->last->next = operation;
		else
			stream->first = operation;
		stream->last = operation;
	}
	if (check->waiting)
		check_settle(check);
}

static void execute_first(struct check_stream *stream)
{
	struct check_operation *operation = stream->first;

	execute(stream, operation, &operation->known);
	stream->first = operation->next;
	stream->check->waiting -= !stream->first;
	check_operation_free(operation);
	if (!stream->first && stream->is_destroyed)
		bury(stream);
}

void check_settle(struct check *check)
{
	for (bool went_on = true; went_on && check->waiting;) {
		went_on = false;
		for (int i = 0; i < check->stream_count && check->waiting; i++) {
			struct check_stream *stream = check->streams[i];
			while (stream->first && !stream->is_forced && is_ready(stream->first)) {
				execute_first(stream);
				went_on = true;
			}
		}
	}
}

/* Streams that seem to wait, too, and may have written the word that another one waited for, have gone on as well. */
static void force_writers(const struct check_value *value)
{
	struct check *check = value->block->check;

	for (int i = 0; i < check->stream_count; i++) {
		struct check_stream *stream = check->streams[i];
		uint64_t until = 0;
		for (const struct check_operation *at = stream->first; at; at = at->next)
			for (int j = 0; j < at->use_count; j++)
				if (at->uses[j].mapping->block == value->block && at->uses[j].mode != CHECK_READ)
					until = at->sequence;
		if (until)
			check_force(stream, until);
	}
}

/* Whatever let the stream go on: all that was submitted by now may have come before it. */
static void assume_all(struct check_stream *stream)
{
	struct check *check = stream->check;

	for (int i = 0; i < check->stream_count; i++)
		join(&stream->clock, &check->streams[i]->clock);
}

void check_force_record(struct check_record *record)
{
	if (record && !record->is_done)
		check_force(record->stream, record->sequence);
}

void check_force(struct check_stream *stream, uint64_t sequence)
{
	if (stream->is_forced)
		return;
	stream->is_forced = true;
	while (stream->first && stream->executed < sequence) {
		struct check_operation *operation = stream->first;
		for (int i = 0; i < operation->after_count; i++)
			check_force(operation->after[i].stream, operation->after[i].sequence);
		if (operation->kind == CHECK_WAITS)
			check_force_record(operation->record);
		if (!is_ready(operation)) {
			if (operation->kind == CHECK_WAITS_VALUE && operation->value)
				force_writers(operation->value);
			assume_all(stream);
			operation->is_satisfied = true;
		}
		execute_first(stream);
	}
	stream->is_forced = false;
	if (stream->check->waiting)
		check_settle(stream->check);
}

void check_learn_all(struct check *check, struct check_agent *agent, int process)
{
	for (int i = 0; i < check->stream_count; i++) {
		struct check_stream *stream = check->streams[i];
		if (stream->process != process)
			continue;
		check_force(stream, stream->submitted);
		check_learn(check, agent, &stream->clock);
	}
	check_learn(check, agent, &check->processes[process]->remains);
}

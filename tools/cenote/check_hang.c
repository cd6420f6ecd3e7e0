/* SPDX-License-Identifier: MIT */
/*
 * cenote check: which thread or stream waits for which, in a program that hangs.
 *
 * What waits is a thread in a call that has not returned, or a stream with an operation that cannot be done. A thread
 * waits for streams. A stream waits for another one, in which a record or the write of a value stands; for a value
 * that no process has submitted yet, it waits for the threads of those processes that have the memory and wait
 * themselves; or it waits for a host function, which is the program's own code. Where that leads back to where it
 * began, nothing will ever go on.
 */
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 512, LINES_MAX = 64 };

struct node {
	const struct check_stream *stream; /* or NULL: a thread */
	const struct check_open *open;
	int colour; /* 0: not seen; 1: on the path; 2: leads nowhere */
};

struct search {
	const struct check *check;
	struct node *nodes;
	int count;
	int path[DEPTH_MAX];
	int length;
};

static enum cn_trace_act act_of(const struct check_open *open)
{
	static const enum cn_trace_act waiting[] = {CN_ACT_stream_sync, CN_ACT_event_sync, CN_ACT_sync_all,
						    CN_ACT_copy_now,    CN_ACT_fill_now,   CN_ACT_free_now,
						    CN_ACT_receive,     CN_ACT_got,        CN_ACT_copy};

	for (size_t i = 0; i < sizeof waiting / sizeof waiting[0]; i++)
		if (check_call_is(open->record.call, waiting[i]))
			return waiting[i];
	return CN_ACT_plain;
}

/* ---- What leads to what ------------------------------------------------------------------------------------------ */

/* Does a stream have an operation that writes the word? */
static bool will_write(const struct check_stream *stream, const struct check_value *value)
{
	for (const struct check_operation *at = stream->first; at; at = at->next)
		if (at->kind == CHECK_WRITES_VALUE && at->value == value)
			return true;
	return false;
}

static bool has_writer(const struct search *search, const struct check_value *value)
{
	for (int i = 0; i < search->count; i++)
		if (search->nodes[i].stream && will_write(search->nodes[i].stream, value))
			return true;
	return false;
}

static bool has_block(const struct check_block *block, int process)
{
	for (const struct check_mapping *at = block->mappings; at; at = at->next)
		if (at->process == process && !at->is_gone)
			return true;
	return false;
}

static bool stream_waits_for(const struct search *search, const struct check_stream *stream, const struct node *other)
{
	const struct check_operation *first = stream->first;

	for (int i = 0; i < first->after_count; i++)
		if (first->after[i].stream == other->stream && other->stream->executed < first->after[i].sequence)
			return true;
	if (first->kind == CHECK_WAITS && first->record && !first->record->is_done)
		return first->record->stream == other->stream;
	if (first->kind == CHECK_WAITS_VALUE && first->value) {
		if (other->stream)
			return other->stream != stream && will_write(other->stream, first->value);
		return !has_writer(search, first->value) && act_of(other->open) != CN_ACT_receive &&
		       act_of(other->open) != CN_ACT_got && has_block(first->value->block, other->open->site.process);
	}
	if (first->kind == CHECK_HOST_FUNCTION && first->host)
		return !other->stream && first->host->has_begun && first->host->process == other->open->site.process &&
		       first->host->thread == other->open->site.thread;
	return false;
}

static bool thread_waits_for(const struct search *search, const struct check_open *open,
			     const struct check_stream *stream)
{
	enum cn_trace_act act = act_of(open);

	if (!stream)
		return false;
	if (act == CN_ACT_event_sync)
		return open->waited && !open->waited->is_done && open->waited->stream == stream;
	if (stream->process != open->site.process)
		return false;
	if (act == CN_ACT_sync_all || act == CN_ACT_free_now)
		return true;
	if (act == CN_ACT_copy_now || act == CN_ACT_fill_now)
		return stream->is_legacy || stream->is_blocking;
	return (act == CN_ACT_stream_sync || act == CN_ACT_copy) &&
	       check_stream_of((struct check *)(uintptr_t)search->check, open->site.process, &open->record) == stream;
}

static bool leads(const struct search *search, int from, int to)
{
	const struct node *node = &search->nodes[from], *other = &search->nodes[to];

	if (from == to)
		return false;
	return node->stream ? stream_waits_for(search, node->stream, other)
			    : thread_waits_for(search, node->open, other->stream);
}

/* The path ends with a cycle, which begins at the index that is returned; CHECK_NONE: there is none. */
static int follow(struct search *search, int at)
{
	if (search->length == DEPTH_MAX)
		return CHECK_NONE;
	search->nodes[at].colour = 1;
	search->path[search->length++] = at;
	for (int next = 0; next < search->count; next++) {
		if (search->nodes[next].colour == 2 || !leads(search, at, next))
			continue;
		for (int i = 0; search->nodes[next].colour == 1 && i < search->length; i++)
			if (search->path[i] == next)
				return i;
		int found = follow(search, next);
		if (found != CHECK_NONE)
			return found;
	}
	search->length--;
	search->nodes[at].colour = 2;
	return CHECK_NONE;
}

/* ---- In words ---------------------------------------------------------------------------------------------------- */

static void say_value(const struct search *search, const struct check_operation *operation, FILE *to)
{
	const struct check_value *value = operation->value;

	if (!value)
		return (void)fputs("a value in memory that is not known", to);
	fprintf(to, "the value %" PRIu64 " at byte %" PRIu64 " of ", operation->operand, value->offset);
	if (*value->block->label)
		fprintf(to, "'%s'", value->block->label);
	else
		fprintf(to, "a block of %" PRIu64 " bytes", value->block->bytes);
	fputs(has_writer(search, value) ? ", whose write waits itself" : ", which no process has submitted a write of",
	      to);
}

static void say_stream(const struct search *search, const struct check_stream *stream, FILE *to)
{
	const struct check_operation *first = stream->first;
	char process[CHECK_NAME_BYTES], name[CHECK_NAME_BYTES], place[CHECK_NAME_BYTES];
	const struct check_site site = {.process = stream->process, .stream = stream->index};

	check_name_process(search->check, stream->process, process);
	check_name_stream(search->check, &site, name);
	check_place(search->check, &first->site, place);
	fprintf(to, "\n    %s of %s waits", name, process);
	if (*place)
		fprintf(to, " (%s)", place);
	fputs(" for ", to);
	if (first->kind == CHECK_WAITS_VALUE) {
		say_value(search, first, to);
	} else if (first->kind == CHECK_HOST_FUNCTION) {
		fputs(first->host && first->host->has_begun ? "its host function, which runs" : "its host function",
		      to);
	} else if (first->host) {
		fputs("its kernel, which has not ended", to);
	} else {
		const struct check_stream *other = first->record ? first->record->stream : NULL;
		other = first->after_count ? first->after[0].stream : other;
		const struct check_site there = {.process = other ? other->process : stream->process,
						 .stream = other ? other->index : CHECK_NONE};
		check_name_process(search->check, there.process, process);
		check_name_stream(search->check, &there, name);
		fprintf(to, "%s%s of %s", first->kind == CHECK_WAITS ? "an event that is recorded in " : "", name,
			process);
	}
}

static void say_thread(const struct search *search, const struct check_open *open, FILE *to)
{
	char process[CHECK_NAME_BYTES], place[CHECK_NAME_BYTES];

	check_name_process(search->check, open->site.process, process);
	check_place(search->check, &open->site, place);
	fprintf(to, "\n    thread %u of %s waits in %s", open->site.thread, process,
		check_call_name(open->record.call));
	if (*place)
		fprintf(to, " (%s)", place);
}

static void say_node(const struct search *search, int index, FILE *to)
{
	const struct node *node = &search->nodes[index];

	if (node->stream)
		say_stream(search, node->stream, to);
	else
		say_thread(search, node->open, to);
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

static void add_node(struct search *search, const struct check_stream *stream, const struct check_open *open)
{
	search->nodes = check_grow(search->nodes, search->count, sizeof *search->nodes);
	search->nodes[search->count++] = (struct node){.stream = stream, .open = open};
}

static void find_nodes(struct search *search)
{
	const struct check *check = search->check;

	for (int i = 0; i < check->process_count; i++) {
		const struct check_table *table = &check->processes[i]->open;
		for (size_t row = 0; row < table->room; row++)
			for (const struct check_row *at = table->rows[row]; at; at = at->next)
				if (act_of(at->value) != CN_ACT_plain && !check->processes[i]->has_ended)
					add_node(search, NULL, at->value);
	}
	for (int i = 0; i < check->stream_count; i++)
		if (check->streams[i]->first && !check->processes[check->streams[i]->process]->has_ended)
			add_node(search, check->streams[i], NULL);
}

void check_hangs(struct check *check, bool any)
{
	struct search search = {.check = check};
	struct check_finding finding = {
		.first = {.call = CN_CALL_COUNT}, .second = {.call = CN_CALL_COUNT}, .count = 1};
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);
	int begin = CHECK_NONE;

	if (!to)
		return;
	find_nodes(&search);
	for (int i = 0; i < search.count && begin == CHECK_NONE; i++)
		if (!search.nodes[i].colour)
			begin = follow(&search, i);
	finding.kind = begin == CHECK_NONE ? CHECK_KIND_HANG : CHECK_KIND_CYCLE;
	if (begin != CHECK_NONE) {
		fputs("These wait for each other, for ever:", to);
		for (int i = begin; i < search.length; i++)
			say_node(&search, search.path[i], to);
	} else {
		fputs(search.count ? "The program does not go on, and these wait:"
				   : "The program does not go on, and no thread is in a call that waits.",
		      to);
		for (int i = 0; i < search.count && i < LINES_MAX; i++)
			say_node(&search, i, to);
	}
	fclose(to);
	finding.text = text;
	if (any || begin != CHECK_NONE)
		check_found(check, &finding);
	free(text);
	free(search.nodes);
}

/* SPDX-License-Identifier: MIT */
/*
 * cenote check: reading the files of records while their processes write them.
 *
 * Each look reads all files, and feeds what was done before a time in the order of time. What becomes visible
 * later with an earlier time, because its thread was interrupted between the clock and the store, is fed first the next
 * time: nothing that it caused can have been fed by then (record.h).
 *
 * A file is mapped part by part. A part that was read to its end is unmapped, and its disk space is given back, so that
 * a long run needs neither.
 */
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PART_BYTES = 1 << 20,
	PART_RECORDS = PART_BYTES / CN_TRACE_RECORD_BYTES,
	WORDS_MAX = 4096, /* of a call */
	RECENT = 64,
	/* Records that are read at a time; how far behind a call what belongs to it can stand; times in one look. */
	SCAN_MAX = 16384,
	BEHIND_MAX = 1024,
	TURNS_MAX = 32,
};

/* A call that is not over. */
struct pending {
	struct pending *next;
	uint64_t number;
	bool has_begun; /* was fed */
	bool is_over;
	struct cn_trace_record record;
	uint64_t *words;
	size_t word_count;
	char *label;
};

struct source {
	char name[64];
	int file;
	int process;             /* of the analysis */
	bool has_ended, is_over; /* its end was seen, and was fed */
	const struct cn_trace_header *header;
	const struct cn_trace_record **parts;
	uint64_t part_count, first_part; /* those before it were given back */
	uint64_t next;                   /* record to be looked at */
	bool has_fresh;                  /* some were not looked at again */
	bool is_behind;                  /* there are more than were read, */
	uint64_t reached_ns;             /* and those that were began until then */
	struct pending *pending;         /* by number */
	struct pending **tail;
	struct pending *recent[RECENT]; /* those that words may belong to, by number */
};

enum event_kind { CALL_BEGINS, CALL_ENDS, HOST_BEGINS, HOST_ENDS, KERNEL_TOUCHES, KERNEL_ENDS, PROCESS_ENDS };

struct event {
	uint64_t time_ns;
	int order;
	enum event_kind kind;
	struct source *source;
	struct pending *call;
	enum cn_trace_end end;
};

static struct {
	struct source **sources;
	int source_count;
	struct event *events;
	int event_count;
	uint64_t lost, calls;
} reader;

uint64_t check_read_lost(void)
{
	return reader.lost;
}

uint64_t check_read_calls(void)
{
	return reader.calls;
}

static void free_pending(struct pending *call)
{
	if (!call)
		return;
	free(call->words);
	free(call->label);
	free(call);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static void close_source(struct source *source)
{
	for (uint64_t i = source->first_part; i < source->part_count; i++)
		if (source->parts[i])
			munmap((void *)(uintptr_t)source->parts[i], PART_BYTES);
	munmap((void *)(uintptr_t)source->header, CN_TRACE_HEADER_BYTES);
	close(source->file);
	for (struct pending *at = source->pending, *next; at; at = next) {
		next = at->next;
		free_pending(at);
	}
	free(source->parts);
	free(source);
}

static void open_source(struct check *check, int directory, const char *name)
{
	struct source *source;
	void *header;

	for (int i = 0; i < reader.source_count; i++)
		if (strcmp(reader.sources[i]->name, name) == 0)
			return;
	int file = openat(directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (file < 0 || strlen(name) >= sizeof source->name)
		return;
	header = mmap(NULL, CN_TRACE_HEADER_BYTES, PROT_READ, MAP_SHARED, file, 0);
	if (header == MAP_FAILED || memcmp(header, CN_TRACE_MAGIC, strlen(CN_TRACE_MAGIC)) != 0) {
		if (header != MAP_FAILED)
			munmap(header, CN_TRACE_HEADER_BYTES);
		close(file);
		return;
	}
	source = check_allocate(sizeof *source);
	*source = (struct source){.file = file, .header = header};
	memcpy(source->name, name, strlen(name));
	source->tail = &source->pending;
	source->process = check_process_begins(check, header);
	reader.sources = check_grow(reader.sources, reader.source_count, sizeof(struct source *));
	reader.sources[reader.source_count++] = source;
}

static void open_sources(struct check *check, const char *directory)
{
	DIR *listing = opendir(directory);

	for (struct dirent *entry; listing && (entry = readdir(listing));)
		if (entry->d_name[0] != '.' && !strstr(entry->d_name, ".new"))
			open_source(check, dirfd(listing), entry->d_name);
	if (listing)
		closedir(listing);
}

/* NULL: it is not there yet. */
static const struct cn_trace_record *find_record(struct source *source, uint64_t number)
{
	uint64_t part = number / PART_RECORDS;
	off_t offset = (off_t)(CN_TRACE_HEADER_BYTES + part * PART_BYTES);
	struct stat status;

	while (source->part_count <= part) {
		source->parts = check_grow(source->parts, (int)source->part_count, sizeof *source->parts);
		source->parts[source->part_count++] = NULL;
	}
	if (!source->parts[part]) {
		if (fstat(source->file, &status) || status.st_size < offset + PART_BYTES)
			return NULL;
		void *memory = mmap(NULL, PART_BYTES, PROT_READ, MAP_SHARED, source->file, offset);
		if (memory == MAP_FAILED)
			return NULL;
		source->parts[part] = memory;
	}
	return &source->parts[part][number % PART_RECORDS];
}

/* Everything before the oldest call that is not over has been read. */
static void give_back(struct source *source)
{
	uint64_t first =
		source->pending && source->pending->number < source->next ? source->pending->number : source->next;

	while (source->first_part < first / PART_RECORDS && source->first_part < source->part_count) {
		uint64_t part = source->first_part++;
		if (!source->parts[part])
			continue;
		munmap((void *)(uintptr_t)source->parts[part], PART_BYTES);
		source->parts[part] = NULL;
		fallocate(source->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)(CN_TRACE_HEADER_BYTES + part * PART_BYTES), PART_BYTES);
	}
}

/* ---- Records ----------------------------------------------------------------------------------------------------- */

static void add_event(struct event event)
{
	reader.events = check_grow(reader.events, reader.event_count, sizeof event);
	event.order = reader.event_count;
	reader.events[reader.event_count++] = event;
}

static struct pending *find_pending(const struct source *source, uint64_t number)
{
	struct pending *found = source->recent[number % RECENT];

	if (found && found->number == number)
		return found;
	for (found = source->pending; found && found->number != number;)
		found = found->next;
	return found;
}

static void add_words(const struct source *source, const struct cn_trace_record *record)
{
	struct pending *call = find_pending(source, record->of);
	size_t count = record->result > 0 ? (size_t)record->result : 0;

	count = count < CN_TRACE_WORDS_MAX ? count : CN_TRACE_WORDS_MAX;
	if (!call || call->word_count + count > WORDS_MAX)
		return;
	uint64_t *words = check_allocate((call->word_count + count) * sizeof *words);
	if (call->word_count)
		memcpy(words, call->words, call->word_count * sizeof *words);
	memcpy(words + call->word_count, record->words, count * sizeof *words);
	free(call->words);
	call->words = words;
	call->word_count += count;
}

static void add_label(const struct source *source, const struct cn_trace_record *record)
{
	struct pending *call = find_pending(source, record->of);

	if (!call || call->label)
		return;
	call->label = check_allocate(CN_TRACE_TEXT_BYTES + 1);
	memcpy(call->label, record->text, CN_TRACE_TEXT_BYTES);
}

/* Something that a stream does when its time has come: a host function, a kernel. */
static void add_work(struct source *source, const struct cn_trace_record *record, enum event_kind kind,
		     uint64_t time_ns)
{
	struct pending *work = check_allocate(sizeof *work);

	work->record = *record;
	add_event((struct event){.time_ns = time_ns, .kind = kind, .source = source, .call = work});
}

/* True: it is more than a call's. */
static bool read_other(struct check *check, struct source *source, const struct cn_trace_record *record)
{
	switch (atomic_load_explicit(&record->state, memory_order_acquire)) {
	case CN_TRACE_UNUSED:
	case CN_TRACE_BEGUN:
	case CN_TRACE_ENDED: return false;
	case CN_TRACE_WORDS: add_words(source, record); break;
	case CN_TRACE_LABEL: add_label(source, record); break;
	case CN_TRACE_HOST_BEGUN: add_work(source, record, HOST_BEGINS, record->begin_ns); break;
	case CN_TRACE_HOST_ENDED: add_work(source, record, HOST_ENDS, record->begin_ns); break;
	case CN_TRACE_RANGES: add_work(source, record, KERNEL_TOUCHES, record->words[0]); break;
	case CN_TRACE_KERNEL_ENDED: add_work(source, record, KERNEL_ENDS, record->words[0]); break;
	default: check_note(check, source->process, record); break;
	}
	return true;
}

/* What has become of a call; true: it is over. */
static bool look_at_call(struct check *check, struct source *source, struct pending *call)
{
	const struct cn_trace_record *record = find_record(source, call->number);
	uint32_t state = record ? atomic_load_explicit(&record->state, memory_order_acquire) : CN_TRACE_UNUSED;

	if (state == CN_TRACE_UNUSED)
		return false;
	if (state != CN_TRACE_BEGUN && state != CN_TRACE_ENDED) {
		/* It was taken and not filled in when it was looked at before. */
		read_other(check, source, record);
		return true;
	}
	if (record->call >= CN_CALL_COUNT)
		return true;
	if (!call->has_begun) {
		struct pending *begun = check_allocate(sizeof *begun);
		*begun = (struct pending){.number = call->number, .record = *record};
		add_event((struct event){
			.time_ns = record->begin_ns, .kind = CALL_BEGINS, .source = source, .call = begun});
		call->has_begun = true;
		reader.calls++;
	}
	if (state != CN_TRACE_ENDED)
		return false;
	call->record = *record;
	return true;
}

/* New records, up to those that are taken now, but not all at once. */
static void scan(struct check *check, struct source *source)
{
	uint64_t limit = atomic_load(&source->header->next);

	source->is_behind = limit > source->next + SCAN_MAX;
	limit = source->is_behind ? source->next + SCAN_MAX : limit;
	for (; source->next < limit; source->next++) {
		const struct cn_trace_record *record = find_record(source, source->next);
		if (!record) {
			source->is_behind = false;
			break;
		}
		if (read_other(check, source, record))
			continue;
		if (atomic_load_explicit(&record->state, memory_order_acquire) != CN_TRACE_UNUSED)
			source->reached_ns = record->begin_ns;
		struct pending *call = check_allocate(sizeof *call);
		call->number = source->next;
		*source->tail = call;
		source->tail = &call->next;
		source->recent[call->number % RECENT] = call;
	}
}

static void read_source(struct check *check, struct source *source)
{
	scan(check, source);
	bool is_behind = source->is_behind;
	uint64_t before = source->next, reached_ns = source->reached_ns;
	for (struct pending *call = source->pending; call; call = call->next)
		call->is_over = call->is_over || look_at_call(check, source, call);
	/* What belongs to a call that is over was visible before its end: it is read now, or stands further on. */
	scan(check, source);
	source->has_fresh = source->next != before;
	/* Calls that this has read are old if not all could be read at first, and they have not been looked at. */
	source->is_behind |= is_behind;
	if (is_behind)
		source->reached_ns = reached_ns;
	source->tail = &source->pending;
	for (struct pending **at = &source->pending; *at;) {
		struct pending *call = *at;
		if (!call->is_over || (source->is_behind && call->number + BEHIND_MAX > source->next)) {
			at = source->tail = &call->next;
			/* What others did after it waits with it. */
			if (call->is_over && call->has_begun && call->record.end_ns < source->reached_ns)
				source->reached_ns = call->record.end_ns;
			continue;
		}
		*at = call->next;
		call->next = NULL;
		if (source->recent[call->number % RECENT] == call)
			source->recent[call->number % RECENT] = NULL;
		if (call->has_begun)
			add_event((struct event){
				.time_ns = call->record.end_ns, .kind = CALL_ENDS, .source = source, .call = call});
		else
			free_pending(call);
	}
}

/* ---- The end of a process ---------------------------------------------------------------------------------------- */

/* When it was last seen to do something: its death is not seen at once, and others may have seen it before us. */
static uint64_t last_seen(const struct source *source)
{
	uint64_t latest = source->header->opened_ns;

	for (int i = 0; i < reader.event_count; i++)
		if (reader.events[i].source == source && reader.events[i].time_ns > latest)
			latest = reader.events[i].time_ns;
	return latest;
}

static void look_for_end(struct source *source, enum cn_trace_end end, bool is_dead)
{
	uint64_t ended_ns = atomic_load(&source->header->ended_ns), seen_ns = last_seen(source);

	if (source->has_ended || (end == CN_TRACE_RUNS && !is_dead))
		return;
	source->has_ended = true;
	if (end == CN_TRACE_RUNS || ended_ns < seen_ns)
		ended_ns = seen_ns;
	add_event((struct event){.time_ns = ended_ns, .kind = PROCESS_ENDS, .source = source, .end = end});
}

/* ---- Feeding ----------------------------------------------------------------------------------------------------- */

static int by_time(const void *left, const void *right)
{
	const struct event *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	/* A process's end comes after all that it did. */
	if ((a->kind == PROCESS_ENDS) != (b->kind == PROCESS_ENDS))
		return a->kind == PROCESS_ENDS ? 1 : -1;
	return a->order - b->order;
}

static void feed(struct check *check, const struct event *event)
{
	const struct pending *call = event->call;
	int process = event->source->process;

	switch (event->source->is_over ? PROCESS_ENDS : event->kind) {
	case CALL_BEGINS: check_call_begins(check, process, call->number, &call->record); break;
	case CALL_ENDS:
		check_call_ends(check, process, call->number, &call->record, call->words, call->word_count,
				call->label);
		break;
	case HOST_BEGINS: check_host_begins(check, process, &call->record); break;
	case HOST_ENDS: check_host_ends(check, process, &call->record); break;
	case KERNEL_TOUCHES: check_kernel_touches(check, process, &call->record); break;
	case KERNEL_ENDS: check_kernel_ends(check, process, &call->record); break;
	case PROCESS_ENDS:
		/* What comes after it is of a thread that was too late to matter. */
		if (event->source->is_over)
			break;
		check_process_ends(check, process, event->end);
		reader.lost += atomic_load(&event->source->header->lost);
		event->source->is_over = true;
		break;
	}
	free_pending(event->call);
}

/* What happened before a time; the rest is kept. */
static void feed_until(struct check *check, uint64_t until_ns)
{
	int fed = 0;

	if (reader.event_count)
		qsort(reader.events, (size_t)reader.event_count, sizeof *reader.events, by_time);
	while (fed < reader.event_count && reader.events[fed].time_ns < until_ns)
		feed(check, &reader.events[fed++]);
	struct event *all = reader.events;
	int count = reader.event_count;
	reader.events = NULL;
	reader.event_count = 0;
	for (int i = fed; i < count; i++)
		add_event(all[i]);
	free(all);
}

/* Read some of all files, and feed what is certain to come before the rest. False: there is more to feed. */
static bool read_some(struct check *check, uint64_t limit_ns, bool (*is_dead)(pid_t pid))
{
	const uint64_t late_ns = 10000000; /* records of two threads may be out of order, by not so much */
	uint64_t until_ns = limit_ns;
	bool all = true;

	for (int i = 0; i < reader.source_count; i++) {
		struct source *source = reader.sources[i];
		if (source->is_over)
			continue;
		/* Asked first: what is read afterwards is all that there will be. */
		bool dead = is_dead(source->header->pid);
		if (source->is_behind && source->reached_ns > limit_ns)
			continue; /* the next look goes on there */
		enum cn_trace_end end = (enum cn_trace_end)atomic_load(&source->header->end);
		read_source(check, source);
		if (!source->is_behind) {
			if (!source->has_fresh)
				look_for_end(source, end, dead);
			all = all && (!source->has_fresh || (end == CN_TRACE_RUNS && !dead));
			continue;
		}
		uint64_t certain_ns = source->reached_ns > late_ns ? source->reached_ns - late_ns : 0;
		until_ns = until_ns < certain_ns ? until_ns : certain_ns;
		all = all && certain_ns >= limit_ns;
	}
	feed_until(check, until_ns);
	for (int i = 0; i < reader.source_count; i++)
		give_back(reader.sources[i]);
	return all;
}

void check_read(struct check *check, const char *directory, uint64_t until_ns, bool (*is_dead)(pid_t pid))
{
	open_sources(check, directory);
	for (int turn = 0; turn < TURNS_MAX || until_ns == UINT64_MAX; turn++)
		if (read_some(check, until_ns, is_dead))
			return;
}

void check_read_free(void)
{
	for (int i = 0; i < reader.event_count; i++)
		free_pending(reader.events[i].call);
	free(reader.events);
	reader.events = NULL;
	reader.event_count = 0;
	for (int i = 0; i < reader.source_count; i++)
		close_source(reader.sources[i]);
	free(reader.sources);
	reader.sources = NULL;
	reader.source_count = 0;
}

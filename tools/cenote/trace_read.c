/* SPDX-License-Identifier: MIT */
/*
 * cenote trace: reading the records that traced processes left.
 */
#include "trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* PIDs end before this (PID_MAX_LIMIT). */
enum { PIDS = 1 << 22 };

void *trace_grow(void *list, int count, size_t bytes)
{
	/* At each power of two. */
	if (count & (count - 1))
		return list;
	list = realloc(list, (count ? 2 * (size_t)count : 1) * bytes);
	if (!list) {
		fputs("cenote trace: out of memory\n", stderr);
		exit(EXIT_FAILURE);
	}
	return list;
}

static bool is_call(const struct cn_trace_record *record)
{
	uint32_t state = atomic_load(&record->state);

	return (state == CN_TRACE_BEGUN || state == CN_TRACE_ENDED) && record->call < CN_CALL_COUNT;
}

/* One file; false: it is none of ours, or a process was killed while it made it. */
static bool map_file(int directory, const char *name, struct trace_process *ret_process)
{
	struct stat status;
	int file = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	void *memory = MAP_FAILED;

	if (file < 0)
		return false;
	if (fstat(file, &status) == 0 && status.st_size >= CN_TRACE_HEADER_BYTES)
		memory = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, file, 0);
	close(file);
	if (memory == MAP_FAILED)
		return false;
	*ret_process = (struct trace_process){
		.header = memory,
		.file_bytes = (size_t)status.st_size,
		.records = (const void *)((const char *)memory + CN_TRACE_HEADER_BYTES),
		.record_count = ((size_t)status.st_size - CN_TRACE_HEADER_BYTES) / CN_TRACE_RECORD_BYTES,
	};
	if (memcmp(ret_process->header->magic, CN_TRACE_MAGIC, sizeof ret_process->header->magic) == 0)
		return true;
	munmap(memory, ret_process->file_bytes);
	return false;
}

/* When a process has ended, or else when it was last seen to do something. */
static void find_end(struct trace_process *process, trace_death *death, bool still_runs)
{
	const struct cn_trace_header *header = process->header;
	uint64_t latest = header->opened_ns;

	process->how = (int)atomic_load(&header->end);
	process->ended_ns = atomic_load(&header->ended_ns);
	for (size_t i = 0; i < process->record_count; i++) {
		const struct cn_trace_record *record = &process->records[i];
		if (!is_call(record))
			continue;
		uint64_t reached = atomic_load(&record->reached_ns);
		latest = record->begin_ns > latest ? record->begin_ns : latest;
		latest = record->end_ns > latest ? record->end_ns : latest;
		latest = reached > latest ? reached : latest;
	}
	if (process->how == CN_TRACE_RUNS) {
		process->ended_ns = death(header->pid, header);
		process->lives = !process->ended_ns && still_runs;
	}
	process->ended_ns = process->ended_ns > latest ? process->ended_ns : latest + 1;
}

static int by_start(const void *left, const void *right)
{
	const struct trace_process *a = left, *b = right;

	return a->header->opened_ns < b->header->opened_ns ? -1 : a->header->opened_ns > b->header->opened_ns;
}

static bool is_parent(const struct trace_process *process, const struct trace_process *of)
{
	/* A PID may be reused: a parent was started before. */
	return process->header->pid == of->header->parent && process->header->start_ticks <= of->header->start_ticks;
}

/* A process whose child made the first call of the two nevertheless comes before the child. */
static void put_parents_first(struct trace_process *processes, int count)
{
	for (int i = 0; i < count; i++) {
		/* Not for ever, whatever the files say. */
		for (int later = i + 1, moved = 0; later < count && moved < count; later++) {
			if (!is_parent(&processes[later], &processes[i]))
				continue;
			struct trace_process parent = processes[later];
			memmove(&processes[i + 1], &processes[i], (size_t)(later - i) * sizeof parent);
			processes[i] = parent;
			later = i;
			moved++;
		}
	}
}

static int by_begin(const void *left, const void *right)
{
	const struct trace_call *a = left, *b = right;

	if (a->record->begin_ns != b->record->begin_ns)
		return a->record->begin_ns < b->record->begin_ns ? -1 : 1;
	/* What was called within a call stands behind it in the file. */
	return a->record < b->record ? -1 : a->record > b->record;
}

static void add_calls(struct trace *trace, int index)
{
	const struct trace_process *process = &trace->processes[index];

	for (size_t i = 0; i < process->record_count; i++) {
		const struct cn_trace_record *record = &process->records[i];
		if (!is_call(record))
			continue;
		trace->calls = trace_grow(trace->calls, trace->call_count, sizeof *trace->calls);
		trace->calls[trace->call_count++] = (struct trace_call){
			.record = record,
			.process = index,
			.stream = NONE,
			.pool = NONE,
			.event = NONE,
			.slice = NONE,
			.end_ns = record->end_ns ? record->end_ns : process->ended_ns,
		};
	}
}

/* Two with the same PID, because one executed another program or because PIDs are reused, are shown apart. */
static void choose_pids(struct trace *trace)
{
	for (int i = 0; i < trace->process_count; i++) {
		int before = 0;
		for (int j = 0; j < i; j++)
			before += trace->processes[j].header->pid == trace->processes[i].header->pid;
		trace->processes[i].shown_apart = before * PIDS;
	}
}

bool trace_read(struct trace *trace, const char *directory, trace_death *death, bool still_runs)
{
	DIR *listing = opendir(directory);
	struct trace_process process;

	if (!listing) {
		fprintf(stderr, "cenote trace: %s: %s\n", directory, strerror(errno));
		return false;
	}
	for (struct dirent *entry; (entry = readdir(listing));) {
		if (strstr(entry->d_name, ".new") || !map_file(dirfd(listing), entry->d_name, &process))
			continue;
		trace->processes = trace_grow(trace->processes, trace->process_count, sizeof process);
		trace->processes[trace->process_count++] = process;
	}
	closedir(listing);
	if (trace->process_count)
		qsort(trace->processes, (size_t)trace->process_count, sizeof process, by_start);
	put_parents_first(trace->processes, trace->process_count);
	for (int i = 0; i < trace->process_count; i++) {
		find_end(&trace->processes[i], death, still_runs);
		add_calls(trace, i);
		trace->lost += atomic_load(&trace->processes[i].header->lost);
	}
	choose_pids(trace);
	if (trace->call_count)
		qsort(trace->calls, (size_t)trace->call_count, sizeof *trace->calls, by_begin);
	return true;
}

void trace_free(struct trace *trace)
{
	for (int i = 0; i < trace->process_count; i++)
		munmap((void *)(uintptr_t)trace->processes[i].header, trace->processes[i].file_bytes);
	free(trace->processes);
	free(trace->calls);
	free(trace->streams);
	free(trace->pools);
	free(trace->events);
	free(trace->slices);
	free(trace->arrows);
	free(trace->changes);
}

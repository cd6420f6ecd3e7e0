/* SPDX-License-Identifier: MIT */
/*
 * The file of records of this process (see record.h).
 *
 * One atomic addition takes the slot for a record. The file grows by parts of a megabyte, each mapped when the first
 * record comes into it; its blocks are allocated then, so that a full disk is an error and no signal. If there is no
 * room, calls are counted and not recorded. No descriptor is kept open: programs count theirs, and close others.
 *
 * The file is made with the first call, and under another name first, so that a process that watches the directory sees
 * it when its header is filled in. A forked child has none of it: the mappings are not inherited, and its first call
 * makes a file of its own. A process that executes another program marks the file that it leaves behind.
 */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	PART_BYTES = 1 << 20,
	PART_RECORDS = PART_BYTES / CN_TRACE_RECORD_BYTES,
	PARTS_MAX = 2048, /* 2 GiB, 16 million calls */
	FILES_MAX = 200,  /* programs that one process executes one after the other */
	PATH_BYTES = 4096,
};

static struct {
	char directory[PATH_BYTES]; /* "": nothing is recorded */
	pthread_mutex_t lock;
	_Atomic unsigned int generation;
	_Atomic(struct cn_trace_header *) header; /* NULL: there is no file */
	pid_t pid;                                /* whose it is */
	atomic_bool gave_up;
	char path[PATH_BYTES];
	bool is_forked; /* from a process that had a file */
	_Atomic(struct cn_trace_record *) parts[PARTS_MAX];
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
	unsigned int generation; /* for which the rest is true: the process's, plus 1 */
	uint32_t thread;
	bool closed;                      /* within a call */
	const struct cn_trace_call *call; /* the last that began */
} here;

uint64_t cn_trace_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

/* When this process was started: the 22nd field of its line, behind the name, which may hold anything. */
static uint64_t start_ticks(void)
{
	char line[1024];
	int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, line, sizeof line - 1);

	if (file >= 0)
		close(file);
	if (length <= 0)
		return 0;
	line[length] = 0;
	char *field = strrchr(line, ')');
	for (int i = 2; field && i < 22; i++)
		field = strchr(field + 1, ' ');
	return field ? strtoull(field, NULL, 10) : 0;
}

/* The command line, with the program's name for its path. */
static void say_command(char command[CN_TRACE_TEXT_BYTES])
{
	char line[1024];
	int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? 0 : read(file, line, sizeof line - 1);

	if (file >= 0)
		close(file);
	line[length > 0 ? length : 0] = 0;
	size_t first = strlen(line);
	for (ssize_t i = (ssize_t)first; i < length - 1; i++)
		line[i] = line[i] ? line[i] : ' ';
	char *name = memrchr(line, '/', first);
	snprintf(command, CN_TRACE_TEXT_BYTES, "%s", name ? name + 1 : line);
}

static bool path_of(char path[PATH_BYTES], int number, const char *ending)
{
	int length = snprintf(path, PATH_BYTES, "%s/%d.%d%s", recorder.directory, (int)getpid(), number, ending);

	return length > 0 && length < PATH_BYTES;
}

/* Lengthen the file, and map what was added. */
static void *map_more(const char *path, off_t offset, size_t bytes)
{
	void *memory = MAP_FAILED;
	int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (file < 0)
		return NULL;
	if (!posix_fallocate(file, offset, (off_t)bytes))
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, offset);
	close(file);
	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes, MADV_DONTFORK);
	return memory;
}

static bool add_part(const char *path, size_t part)
{
	void *memory = map_more(path, (off_t)(CN_TRACE_HEADER_BYTES + part * PART_BYTES), PART_BYTES);

	atomic_store(&recorder.parts[part], memory);
	return memory != NULL;
}

/* An empty file, under the first number that is free. */
static bool make_file(char temporary[PATH_BYTES], char path[PATH_BYTES])
{
	for (int number = 0; number < FILES_MAX; number++) {
		if (!path_of(path, number, "") || !path_of(temporary, number, ".new"))
			return false;
		if (access(path, F_OK) == 0)
			continue;
		int file = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (file < 0)
			return false;
		close(file);
		return true;
	}
	return false;
}

/* With the lock held. */
static struct cn_trace_header *open_file(void)
{
	char temporary[PATH_BYTES];
	struct cn_trace_header *header;

	if (!make_file(temporary, recorder.path))
		return NULL;
	header = map_more(temporary, 0, CN_TRACE_HEADER_BYTES);
	if (!header || !add_part(temporary, 0)) {
		unlink(temporary);
		return NULL;
	}
	memcpy(header->magic, CN_TRACE_MAGIC, sizeof header->magic);
	recorder.pid = getpid();
	header->pid = recorder.pid;
	header->parent = getppid();
	header->start_ticks = start_ticks();
	header->opened_ns = cn_trace_now_ns();
	header->forked = recorder.is_forked;
	say_command(header->command);
	rename(temporary, recorder.path);
	return header;
}

static struct cn_trace_header *find_header(void)
{
	struct cn_trace_header *header = atomic_load_explicit(&recorder.header, memory_order_acquire);

	if (header || recorder.gave_up)
		return header;
	int saved_errno = errno;
	pthread_mutex_lock(&recorder.lock);
	header = atomic_load(&recorder.header);
	if (!header && !recorder.gave_up) {
		header = open_file();
		recorder.gave_up = !header;
		atomic_store(&recorder.header, header);
	}
	pthread_mutex_unlock(&recorder.lock);
	errno = saved_errno;
	return header;
}

/* ---- Records ----------------------------------------------------------------------------------------------------- */

static struct cn_trace_record *find_part(size_t part)
{
	struct cn_trace_record *records;

	if (part >= PARTS_MAX)
		return NULL;
	records = atomic_load_explicit(&recorder.parts[part], memory_order_acquire);
	if (records)
		return records;
	int saved_errno = errno;
	pthread_mutex_lock(&recorder.lock);
	records = atomic_load(&recorder.parts[part]);
	if (!records && add_part(recorder.path, part))
		records = atomic_load(&recorder.parts[part]);
	pthread_mutex_unlock(&recorder.lock);
	errno = saved_errno;
	return records;
}

static struct cn_trace_record *take_record(struct cn_trace_header *header, uint64_t *ret_number)
{
	uint64_t number = atomic_fetch_add_explicit(&header->next, 1, memory_order_relaxed);
	struct cn_trace_record *part = find_part(number / PART_RECORDS);

	if (!part) {
		atomic_fetch_add(&header->lost, 1);
		return NULL;
	}
	*ret_number = number;
	return &part[number % PART_RECORDS];
}

void cn_trace_text(enum cn_trace_state state, uint64_t of, const char *text)
{
	struct cn_trace_header *header = find_header();
	size_t left = strlen(text);

	for (uint16_t part = 0; header; part++) {
		size_t length = left < CN_TRACE_TEXT_BYTES ? left : CN_TRACE_TEXT_BYTES;
		uint64_t number;
		struct cn_trace_record *record = take_record(header, &number);
		if (!record)
			return;
		record->call = part;
		record->thread = here.thread;
		record->of = of;
		memcpy(record->text, text, length);
		atomic_store_explicit(&record->state, state, memory_order_release);
		text += length;
		left -= length;
		if (!left)
			return;
	}
}

void cn_trace_put_words(enum cn_trace_state state, uint64_t of, const uint64_t *words, size_t count)
{
	struct cn_trace_header *header = find_header();

	for (uint16_t part = 0; header && count; part++) {
		size_t length = count < CN_TRACE_WORDS_MAX ? count : CN_TRACE_WORDS_MAX;
		uint64_t number;
		struct cn_trace_record *record = take_record(header, &number);
		if (!record)
			return;
		record->call = part;
		record->result = (int32_t)length;
		record->of = of;
		memcpy(record->words, words, length * sizeof *words);
		atomic_store_explicit(&record->state, state, memory_order_release);
		words += length;
		count -= length;
	}
}

/* The first call of a thread in this process. */
static void meet_thread(unsigned int generation)
{
	char name[17] = "";

	here.generation = generation + 1;
	here.thread = (uint32_t)syscall(SYS_gettid);
	here.closed = false;
	prctl(PR_GET_NAME, name);
	cn_trace_text(CN_TRACE_THREAD_NAME, 0, name);
}

void cn_trace_put_host(enum cn_trace_state state, uint64_t of, unsigned int generation)
{
	struct cn_trace_header *header = atomic_load(&recorder.header);
	struct cn_trace_record *record;
	uint64_t number;

	if (!header || generation != atomic_load_explicit(&recorder.generation, memory_order_relaxed))
		return;
	if (here.generation != generation + 1)
		meet_thread(generation);
	record = take_record(header, &number);
	if (!record)
		return;
	record->thread = here.thread;
	record->object = of;
	record->begin_ns = cn_trace_now_ns();
	atomic_store_explicit(&record->state, state, memory_order_release);
}

bool cn_trace_begin(struct cn_trace_call *call, enum cn_trace_call_id id, unsigned int flags)
{
	unsigned int generation = atomic_load_explicit(&recorder.generation, memory_order_relaxed);
	struct cn_trace_header *header;

	if (!*recorder.directory || (here.closed && here.generation == generation + 1))
		return false;
	header = find_header();
	if (!header)
		return false;
	if (here.generation != generation + 1)
		meet_thread(generation);
	call->record = take_record(header, &call->number);
	if (!call->record)
		return false;
	call->generation = generation;
	call->closes = !(flags & CN_TRACE_OPEN);
	call->record->call = (uint16_t)id;
	call->record->flags = (uint16_t)flags;
	call->record->thread = here.thread;
	call->host = NULL;
	if (cn_trace_checks) {
		call->record->stack = cn_trace_stack();
		call->record->context = cn_trace_context();
	}
	return true;
}

uint64_t cn_trace_launches(void)
{
	if (!here.closed)
		return 0;
	here.call->record->flags |= CN_TRACE_WATCHED;
	return here.call->number + 1;
}

void cn_trace_call_begins(struct cn_trace_call *call)
{
	here.closed = call->closes;
	here.call = call;
	call->record->begin_ns = cn_trace_now_ns();
	atomic_store_explicit(&call->record->state, CN_TRACE_BEGUN, memory_order_release);
}

bool cn_trace_call_ends(struct cn_trace_call *call, int result)
{
	uint64_t now = cn_trace_now_ns();

	if (call->generation != atomic_load_explicit(&recorder.generation, memory_order_relaxed)) {
		call->record = NULL;
		return false;
	}
	here.closed = false;
	call->record->end_ns = now;
	call->record->result = result;
	return true;
}

/* Why a call failed. Work that is not done yet is no failure. */
static void note_error(const struct cn_trace_call *call)
{
	enum { NOT_READY = 600 };
	static _Atomic(void *) found;
	const char *(*last_error)(void);

	if (call->record->result == NOT_READY)
		return;
	last_error = (const char *(*)(void))atomic_load(&found);
	if (!last_error) {
		last_error = (const char *(*)(void))cn_trace_find("cenote_last_error");
		atomic_store(&found, (void *)last_error);
	}
	if (last_error && *last_error())
		cn_trace_text(CN_TRACE_ERROR_TEXT, call->number, last_error());
}

void cn_trace_end(struct cn_trace_call *call, enum cn_trace_act act)
{
	struct cn_trace_record *record = call->record;

	if (!record)
		return;
	bool submits = cn_trace_submits(act);
	/* A runtime's first call makes its context current. */
	if (cn_trace_checks && !record->context)
		record->context = cn_trace_context();
	if (record->result)
		note_error(call);
	else if (submits && cn_trace_checks)
		record->flags |= cn_trace_is_captured(record) ? CN_TRACE_CAPTURED : 0;
	else if (submits)
		cn_trace_follow(record);
	if (act == CN_ACT_launch)
		cn_trace_note_name(record->object);
	if (record->result)
		free(call->host);
	atomic_store_explicit(&record->state, CN_TRACE_ENDED, memory_order_release);
}

/* ---- Beginning and end of a process ------------------------------------------------------------------------------ */

/*
 * Does the file belong to the calling process? A child of vfork() has its parent's memory; a child of a fork that calls
 * no handlers has the pointer, and nothing behind it.
 */
static struct cn_trace_header *own_header(void)
{
	struct cn_trace_header *header = atomic_load(&recorder.header);

	return header && recorder.pid == getpid() ? header : NULL;
}

static void mark_end(struct cn_trace_header *header, enum cn_trace_end end)
{
	if (atomic_load(&header->end) != CN_TRACE_RUNS)
		return;
	atomic_store(&header->ended_ns, cn_trace_now_ns());
	atomic_store(&header->end, end);
}

static void note_status(int status, void *unused)
{
	struct cn_trace_header *header = own_header();

	(void)unused;
	if (header)
		atomic_store(&header->status, status & 0xff);
}

__attribute__((destructor)) static void leave(void)
{
	struct cn_trace_header *header = own_header();

	if (header)
		mark_end(header, CN_TRACE_EXITED);
}

/* Exits that do not pass the handlers of exit(). */
CN_SHOWN void _exit(int status)
{
	note_status(status, NULL);
	leave();
	for (;;)
		syscall(SYS_exit_group, status);
}

CN_SHOWN void _Exit(int status)
{
	_exit(status);
}

static void be_forked(void)
{
	pthread_mutex_init(&recorder.lock, NULL);
	recorder.gave_up = false;
	recorder.is_forked |= atomic_load(&recorder.header) != NULL;
	atomic_store(&recorder.header, NULL);
	for (int i = 0; i < PARTS_MAX; i++)
		atomic_store(&recorder.parts[i], NULL);
	atomic_fetch_add(&recorder.generation, 1);
	cn_trace_forget_notes();
	cn_trace_forget_stacks();
	cn_trace_forget_kernels();
}

/* This process has executed a program and has left the file of the program before: say so there. */
static void mark_executed(void)
{
	char path[PATH_BYTES];
	uint64_t ticks = 0;

	for (int number = 0; number < FILES_MAX && path_of(path, number, ""); number++) {
		int file = open(path, O_RDWR | O_CLOEXEC);
		if (file < 0)
			return;
		struct cn_trace_header *header =
			mmap(NULL, CN_TRACE_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		close(file);
		if (header == MAP_FAILED)
			return;
		ticks = ticks ? ticks : start_ticks();
		if (header->start_ticks == ticks)
			mark_end(header, CN_TRACE_EXECUTED);
		munmap(header, CN_TRACE_HEADER_BYTES);
	}
}

__attribute__((constructor)) static void enter(void)
{
	const char *directory = getenv(CN_TRACE_DIRECTORY_VARIABLE);

	if (!directory || strlen(directory) >= sizeof recorder.directory)
		return;
	memcpy(recorder.directory, directory, strlen(directory) + 1);
	mark_executed();
	pthread_atfork(NULL, NULL, be_forked);
	on_exit(note_status, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * What all processes share; see survey.h.
 */
#include "share/report/survey.h"
#include "pool/pool.h"
#include "share/port/port_internal.h"
#include "share/report/survey_ask.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ALL_ANSWERS_MS = 2000, /* for all processes of a directory together */
	ANSWER_MS = 2000,
	CONVERSATION_MS = 10000,
	OTHERS_MAX = 1024,          /* processes of another user that are looked at, */
	OTHERS_RECORDS_MAX = 65536, /* and what all of them share */
};

/* What is done with each process of a directory. */
struct walk {
	const char *directory;
	struct cn_look look;
	void (*visit)(struct walk *walk, struct cn_survey_call *call);
	struct cn_survey_call *calls;
	unsigned call_count;
	unsigned name_count;   /* in this directory, so far */
	uint32_t record_count; /* that were told of it */
	uint64_t end_ns;       /* until when its processes are waited for */
	cn_survey_tell *tell;
	void *data;
	/* for a picture */
	uint64_t pool_id, picture_bytes;
	struct cn_survey_cell *cells;
	size_t cell_count;
	bool drawn;
	bool silent; /* a process has the pool, and does not answer */
};

/* ---- What a process has ---- */

static int small_number(uint64_t number)
{
	return number <= INT_MAX ? (int)number : 0;
}

static struct cn_survey_process describe(const struct walk *walk, const struct cn_survey_call *call)
{
	const struct cn_status_head *head = &call->status.head;
	struct cn_survey_process process = {
		.pid = call->who.pid,
		.uid = walk->look.owner,
		.answers = call->answered,
		.program = "",
		.label = "",
		.directory = walk->directory,
		.name = call->name,
	};

	if (!call->has_status)
		return process;
	process.clock_offset_ns = cn_status_clock_offset_ns(head);
	process.written_ns = head->written_ns + (uint64_t)process.clock_offset_ns;
	process.pid_there = small_number(head->pid);
	process.truncated = head->flags & CN_REPORT_TRUNCATED;
	process.on_gpu = head->flags & CN_REPORT_ON_GPU;
	process.pool_count = head->pool_count;
	process.opener_count = head->opener_count;
	process.program = head->program;
	process.label = head->label;
	return process;
}

static bool is_handle_kind(uint64_t kind)
{
	return kind == CN_HANDLE_EVENT || kind == CN_HANDLE_MEMORY;
}

static bool is_other_user(const struct walk *walk)
{
	return walk->look.owner != geteuid();
}

/* How many records of a process are told. */
static uint32_t count_told(const struct walk *walk, const struct cn_survey_call *call)
{
	uint32_t count = call->has_status ? call->status.head.record_count : 0;
	uint32_t left = OTHERS_RECORDS_MAX - walk->record_count;

	return is_other_user(walk) && left < count ? left : count;
}

/*
 * Records whose owner has not come, or that are of no known kind, are left out; and so are handles of a kind that has
 * come already: a viewer may have room for one of each.
 */
static void tell_process(struct walk *walk, struct cn_survey_call *call)
{
	struct cn_survey_process process = describe(walk, call);
	struct cn_survey_found found = {.process = &process};
	struct cn_report_pool pool;
	struct cn_report_handles handles;
	struct cn_report_importer importer;
	bool has_come[CN_HANDLE_KINDS] = {false};
	struct cn_report_import import;
	uint32_t count = count_told(walk, call);

	process.truncated |= call->has_status && count < call->status.head.record_count;
	walk->record_count += is_other_user(walk) ? count : 0;
	walk->tell(&found, walk->data);
	for (uint32_t i = 0; i < count; i++) {
		const struct cn_status_record *record = &call->status.records[i];
		if (record->kind == CN_STATUS_POOL) {
			memcpy(&pool, record->body, sizeof pool);
			found = (struct cn_survey_found){.process = &process, .pool = pool.id ? &pool : NULL};
		} else if (record->kind == CN_STATUS_HANDLES) {
			memcpy(&handles, record->body, sizeof handles);
			bool known = is_handle_kind(handles.kind) && !has_come[handles.kind];
			if (known)
				has_come[handles.kind] = true;
			found = (struct cn_survey_found){.process = &process, .handles = known ? &handles : NULL};
		} else if (record->kind == CN_STATUS_IMPORT) {
			memcpy(&import, record->body, sizeof import);
			bool known = !import.kind || is_handle_kind(import.kind) ||
				     (import.kind == CN_HANDLE_FABRIC_MEMORY && import.node);
			found = (struct cn_survey_found){.process = &process, .import = known ? &import : NULL};
		} else if (record->kind == (found.pool ? CN_STATUS_IMPORTER : CN_STATUS_OPENER)) {
			memcpy(&importer, record->body, sizeof importer);
			found.importer = &importer;
			found.import = NULL;
			found.holder_pid = call->pids ? call->pids[i].here : 0;
			found.holder_pid_there = call->pids ? call->pids[i].there : 0;
		} else {
			continue;
		}
		if (found.pool || found.handles || found.import)
			walk->tell(&found, walk->data);
	}
}

/* ---- All of them ---- */

static void ask_some(struct walk *walk)
{
	cn_survey_ask(&walk->look, walk->calls, walk->call_count, walk->end_ns);
	for (unsigned i = 0; i < walk->call_count; i++) {
		/* One that is locked, and neither answers nor has written anything, is about to come or to go. */
		if (walk->calls[i].reached || walk->calls[i].has_status)
			walk->visit(walk, &walk->calls[i]);
		cn_survey_call_end(&walk->calls[i]);
	}
	walk->call_count = 0;
}

static bool take_name(const char *name, void *data)
{
	struct walk *walk = data;
	struct cn_survey_call *call = &walk->calls[walk->call_count++];

	*call = (struct cn_survey_call){.peer = NULL};
	memcpy(call->name, name, sizeof call->name);
	if (walk->call_count == CN_SURVEY_CALLS_MAX)
		ask_some(walk);
	return !walk->drawn && (++walk->name_count < OTHERS_MAX || !is_other_user(walk));
}

static CUresult refuse(const char *path, const char *why)
{
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no process in %s is asked: %s", path, why);
}

static CUresult walk_directory(struct walk *walk, const char *path)
{
	const char *why = cn_look_open(path, &walk->look);

	if (why)
		return refuse(path, why);
	if (walk->look.fd < 0) /* a missing directory has no ports in it */
		return CUDA_SUCCESS;
	walk->directory = path;
	walk->name_count = walk->record_count = 0;
	walk->end_ns = cn_clock_ns() + ALL_ANSWERS_MS * CN_MILLISECOND_NS;
	int error = cn_look_names(&walk->look, take_name, walk);
	ask_some(walk);
	cn_look_close(&walk->look);
	if (error == E2BIG)
		return refuse(path, "it has too many entries, of which only the first were looked at");
	return error ? refuse(path, strerror(error)) : CUDA_SUCCESS;
}

static CUresult walk_one(const char *path, void *data)
{
	struct walk *walk = data;

	return walk->drawn ? CUDA_SUCCESS : walk_directory(walk, path);
}

/* The runtime directories are enough: a process that exports by fabric handles has a port there, too. */
static CUresult walk_all(struct walk *walk)
{
	walk->calls = calloc(CN_SURVEY_CALLS_MAX, sizeof *walk->calls);
	if (!walk->calls)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory to ask other processes");
	CUresult result = cn_survey_directories(walk_one, walk);
	free(walk->calls);
	return result;
}

/* ---- Directories ---- */

struct directories {
	CUresult (*look)(const char *path, void *data);
	void *data;
};

/* What is wrong with another user's directory is that user's affair, and must not make root's survey fail. */
static void look_at_other(const char *path, void *data)
{
	const struct directories *directories = data;
	char kept[CN_SENTENCE_BYTES];

	memcpy(kept, cn_last_error(), sizeof kept);
	if (directories->look(path, directories->data))
		cn_error_forget(kept);
}

CUresult cn_survey_directories(CUresult (*look)(const char *path, void *data), void *data)
{
	struct directories directories = {look, data};
	char paths[CN_DIRECTORIES_MAX][CN_DIRECTORY_CHARS_MAX], kept[CN_SENTENCE_BYTES];
	unsigned count;
	CUresult result = cn_directory_paths(paths, &count);

	if (result)
		return result;
	memcpy(kept, cn_last_error(), sizeof kept);
	for (unsigned i = 1; i < count; i++) {
		CUresult this_one = look(paths[i], data);
		if (this_one && !result) {
			result = this_one;
			memcpy(kept, cn_last_error(), sizeof kept);
		}
		cn_error_forget(kept); /* drop later sentences: keep the first failure's, if any */
	}
	if (geteuid() == 0 && count == CN_DIRECTORIES_MAX) /* no directory was named */
		cn_look_users(look_at_other, &directories);
	return result;
}

CUresult cn_survey(cn_survey_tell *tell, void *data)
{
	struct walk walk = {.visit = tell_process, .tell = tell, .data = data};

	return walk_all(&walk);
}

/* ---- A picture ---- */

static bool is_kind(unsigned char kind)
{
	switch (kind) {
	case CN_POOL_CELL_LIVE:
	case CN_POOL_CELL_SHARED:
	case CN_POOL_CELL_DEFERRED:
	case CN_POOL_CELL_CACHED:
	case CN_POOL_CELL_FREE:
	case CN_POOL_CELL_HOLE:
	case CN_POOL_CELL_UNKNOWN: return true;
	default: return false;
	}
}

/* Ask for the next cells, and wait: 0, or errno. */
static int ask_cells(struct cn_peer *peer, const uint64_t words[5], uint64_t end_ns, struct cn_report_cells *ret_cells)
{
	uint64_t deadline_ns = cn_clock_ns() + ANSWER_MS * CN_MILLISECOND_NS;
	struct cn_peer_question question = {
		.request.message.kind = CN_MESSAGE_REPORT,
		.deadline_ns = deadline_ns < end_ns ? deadline_ns : end_ns,
		.bare = true,
	};
	struct cn_parcel answer;

	memcpy(question.request.message.words, words, 5 * sizeof *words);
	int error = cn_peer_ask(peer, &question, &answer);
	if (error)
		return error;
	cn_fork_allow();
	if (answer.message.kind != CN_MESSAGE_REPORT || answer.message.result)
		return EPROTO;
	memcpy(ret_cells, cn_report_body(&answer.message), sizeof *ret_cells);
	return 0;
}

static void draw(struct walk *walk, struct cn_peer *peer)
{
	uint64_t end_ns = cn_clock_ns() + CONVERSATION_MS * CN_MILLISECOND_NS;
	struct cn_report_cells body = {0};

	for (size_t first = 0; first < walk->cell_count; first += CN_REPORT_CELLS_EACH) {
		uint64_t words[] = {CN_REPORT_CELLS, walk->pool_id, first, walk->cell_count, body.cursor};
		if (ask_cells(peer, words, end_ns, &body))
			return;
		for (size_t i = 0; i < CN_REPORT_CELLS_EACH && first + i < walk->cell_count; i++) {
			if (!is_kind(body.kinds[i]))
				return;
			walk->cells[first + i] = (struct cn_survey_cell){(char)body.kinds[i], body.holders[i]};
		}
	}
	walk->picture_bytes = body.picture_bytes;
	walk->drawn = true;
}

static void draw_if_it_has_the_pool(struct walk *walk, struct cn_survey_call *call)
{
	bool has = false;

	for (uint32_t i = 0; call->has_status && i < call->status.head.record_count; i++) {
		const struct cn_status_record *record = &call->status.records[i];
		has |= record->kind == CN_STATUS_POOL && !memcmp(record->body, &walk->pool_id, sizeof walk->pool_id);
	}
	walk->silent |= has && !call->answered;
	if (has && call->answered && !walk->drawn && cn_survey_connect(&walk->look, call))
		draw(walk, call->peer);
}

CUresult cn_survey_picture(uint64_t pool_id, struct cn_survey_cell *ret_cells, size_t count, uint64_t *ret_bytes)
{
	struct walk walk = {
		.visit = draw_if_it_has_the_pool, .pool_id = pool_id, .cells = ret_cells, .cell_count = count};
	CUresult result = walk_all(&walk);

	if (walk.drawn)
		*ret_bytes = walk.picture_bytes;
	else if (!result && walk.silent)
		result = cn_error(CUDA_ERROR_NOT_FOUND,
				  "the process that shares pool %016llx does not answer: it is stopped, or hangs",
				  (unsigned long long)pool_id);
	else if (!result)
		result = cn_error(CUDA_ERROR_NOT_FOUND, "no process of this user shares a pool %016llx",
				  (unsigned long long)pool_id);
	return walk.drawn ? CUDA_SUCCESS : result;
}

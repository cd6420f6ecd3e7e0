/* SPDX-License-Identifier: MIT */
/*
 * Asking all processes of this user what they share; see survey.h.
 *
 * Two timeouts bound a conversation: one for each answer and one for all of them together. So a process that is stopped
 * or hostile costs seconds, not for ever.
 */
#include "share/report/survey.h"
#include "pool/pool.h"
#include "share/peer/peer.h"
#include "share/pool/export.h"
#include "share/port/port_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MS = 2000, CONVERSATION_MS = 10000, POOLS_MAX = 4096 };

struct conversation {
	struct cn_peer *peer;
	uint64_t end_ns;
};

/* What to ask each live process. */
struct walk {
	const char *directory;
	int directory_fd;
	void (*visit)(struct walk *walk, struct conversation *with, struct cn_survey_process *process);
	cn_survey_tell *tell;
	void *data;
	/* for a picture */
	uint64_t pool_id, picture_bytes;
	struct cn_survey_cell *cells;
	size_t cell_count;
	bool drawn;
};

/* ---- One process ---- */

/* Ask, and wait: 0, ENOENT (there is none), or another errno (expect no more answers). */
static int ask(struct conversation *with, const uint64_t words[], size_t word_count, void *ret_body)
{
	uint64_t deadline_ns = cn_clock_ns() + ANSWER_MS * CN_MILLISECOND_NS;
	struct cn_peer_question question = {
		.request.message.kind = CN_MESSAGE_REPORT,
		.deadline_ns = deadline_ns < with->end_ns ? deadline_ns : with->end_ns,
		.bare = true,
	};
	struct cn_parcel answer;

	memcpy(question.request.message.words, words, word_count * sizeof *words);
	int error = cn_peer_ask(with->peer, &question, &answer);
	if (error)
		return error;
	cn_fork_allow();
	if (answer.message.kind != CN_MESSAGE_REPORT)
		return EPROTO;
	if (answer.message.result)
		return answer.message.result == CUDA_ERROR_NOT_FOUND ? ENOENT : EPROTO;
	memcpy(ret_body, cn_report_body(&answer.message), CN_REPORT_BODY_BYTES);
	return 0;
}

/* Replace whatever could control a terminal. */
static void copy_printable(char ret_text[CN_REPORT_PROGRAM_BYTES], const char *text)
{
	size_t i = 0;

	for (; i + 1 < CN_REPORT_PROGRAM_BYTES && text[i]; i++)
		ret_text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	ret_text[i] = '\0';
}

static int small_number(uint64_t number)
{
	return number <= INT_MAX ? (int)number : 0;
}

static void meet(struct conversation *with, struct cn_survey_process *process)
{
	static const uint64_t words[] = {CN_REPORT_PROCESS};
	struct cn_report_process body;

	if (ask(with, words, 1, &body))
		return;
	process->answers = true;
	process->pid_there = small_number(body.pid);
	process->same_namespace = body.pid_namespace && body.pid_namespace == cn_report_pid_namespace();
	process->pool_count = body.pool_count;
	process->opener_count = body.opener_count;
	process->on_gpu = body.flags & CN_REPORT_ON_GPU;
	copy_printable(process->program, body.program);
}

/* Ask which processes have imported a pool, or have opened what was given out by handles. */
static void ask_importers(struct conversation *with, const struct walk *walk, struct cn_survey_found found)
{
	uint64_t what = found.pool ? CN_REPORT_IMPORTER : CN_REPORT_OPENER;
	uint64_t of = found.pool ? found.pool->id : found.handles->kind, last = 0;
	struct cn_report_importer importer;

	found.importer = &importer;
	for (int i = 0; i < CN_IMPORTERS_MAX; i++) {
		uint64_t words[] = {what, of, last};
		if (ask(with, words, 3, &importer) || importer.id <= last)
			return;
		last = importer.id;
		importer.pid = found.process->same_namespace ? (uint32_t)small_number(importer.pid) : 0;
		walk->tell(&found, walk->data);
	}
}

static void ask_pools(struct conversation *with, const struct walk *walk, const struct cn_survey_process *process)
{
	struct cn_report_pool pool;
	struct cn_survey_found found = {.process = process, .pool = &pool};
	uint64_t last = 0;

	for (int i = 0; i < POOLS_MAX; i++) {
		uint64_t words[] = {CN_REPORT_POOL, last};
		if (ask(with, words, 2, &pool) || pool.id <= last)
			return;
		last = pool.id;
		walk->tell(&found, walk->data);
		ask_importers(with, walk, found);
	}
}

static void ask_handles(struct conversation *with, const struct walk *walk, const struct cn_survey_process *process)
{
	static const uint64_t kinds[] = {CN_HANDLE_MEMORY, CN_HANDLE_EVENT};
	struct cn_report_handles handles;
	struct cn_survey_found found = {.process = process, .handles = &handles};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		uint64_t words[] = {CN_REPORT_HANDLES, kinds[i]};
		int error = ask(with, words, 2, &handles);
		if (error == ENOENT)
			continue;
		if (error || handles.kind != kinds[i])
			return;
		walk->tell(&found, walk->data);
		ask_importers(with, walk, found);
	}
}

/* Connect to a process of our user. Errors are not reported: the process is gone, or is not one of ours. */
static bool call(int directory_fd, const char *name, struct conversation *ret_with, struct ucred *ret_who)
{
	static const struct cn_peer_ops no_ops;
	struct conversation with = {.end_ns = cn_clock_ns() + CONVERSATION_MS * CN_MILLISECOND_NS};

	if (cn_peer_open(&no_ops, NULL, &with.peer))
		return false;
	int sock = with.peer->channel.fd;
	if (cn_wire_reach_in(sock, directory_fd, name) || !cn_peer_identify(sock, ret_who) ||
	    ret_who->uid != geteuid()) {
		cn_peer_drop(with.peer);
		return false;
	}
	*ret_with = with;
	return true;
}

/* ---- All of them ---- */

static void visit_name(const char *name, bool live, bool removed, void *data)
{
	struct walk *walk = data;
	struct conversation with;
	struct ucred who;

	(void)removed;
	if (!live || walk->drawn || !call(walk->directory_fd, name, &with, &who))
		return;
	struct cn_survey_process process = {.pid = who.pid, .uid = who.uid, .directory = walk->directory, .name = name};
	walk->visit(walk, &with, &process);
	cn_peer_drop(with.peer);
}

static CUresult refuse(const char *path, const char *why)
{
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no process in %s is asked: %s", path, why);
}

static CUresult walk_directory(struct walk *walk, const char *path)
{
	struct cn_sweep how = {.looks_max = UINT_MAX, .only_look = true, .found = visit_name, .data = walk};
	int fd;
	const char *why = cn_directory_open(path, &fd);

	if (why)
		return refuse(path, why);
	if (fd < 0) /* a missing directory has no ports in it */
		return CUDA_SUCCESS;
	walk->directory = path;
	walk->directory_fd = fd;
	int error = cn_sweep_directory(fd, &how);
	close(fd);
	return error ? refuse(path, strerror(error)) : CUDA_SUCCESS;
}

/* The runtime directories are enough: a process that exports by fabric handles has a port there, too. */
static CUresult walk_all(struct walk *walk)
{
	char paths[CN_DIRECTORIES_MAX][CN_DIRECTORY_CHARS_MAX], kept[CN_SENTENCE_BYTES];
	unsigned count;
	CUresult result = cn_directory_paths(paths, &count);

	memcpy(kept, cn_last_error(), sizeof kept);
	if (result)
		return result;
	for (unsigned i = 1; i < count; i++) {
		CUresult this_one = walk_directory(walk, paths[i]);
		if (this_one && !result) {
			result = this_one;
			memcpy(kept, cn_last_error(), sizeof kept);
		}
		cn_error_forget(kept); /* drop later sentences: keep the first failure's, if any */
	}
	return result;
}

static void visit_report(struct walk *walk, struct conversation *with, struct cn_survey_process *process)
{
	meet(with, process);
	walk->tell(&(struct cn_survey_found){.process = process}, walk->data);
	if (!process->answers)
		return;
	ask_pools(with, walk, process);
	ask_handles(with, walk, process);
}

CUresult cn_survey(cn_survey_tell *tell, void *data)
{
	struct walk walk = {.visit = visit_report, .tell = tell, .data = data};

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

static void visit_picture(struct walk *walk, struct conversation *with, struct cn_survey_process *process)
{
	struct cn_report_cells body = {0};

	(void)process;
	for (size_t first = 0; first < walk->cell_count; first += CN_REPORT_CELLS_EACH) {
		uint64_t words[] = {CN_REPORT_CELLS, walk->pool_id, first, walk->cell_count, body.cursor};
		if (ask(with, words, 5, &body))
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

CUresult cn_survey_picture(uint64_t pool_id, struct cn_survey_cell *ret_cells, size_t count, uint64_t *ret_bytes)
{
	struct walk walk = {.visit = visit_picture, .pool_id = pool_id, .cells = ret_cells, .cell_count = count};
	CUresult result = walk_all(&walk);

	if (walk.drawn)
		*ret_bytes = walk.picture_bytes;
	else if (!result)
		result = cn_error(CUDA_ERROR_NOT_FOUND, "no process of this user shares a pool %016llx",
				  (unsigned long long)pool_id);
	return walk.drawn ? CUDA_SUCCESS : result;
}

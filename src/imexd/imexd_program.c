/* SPDX-License-Identifier: MIT */
/*
 * What programs of this node ask: see node.h.
 *
 * A lane has a job for each of its slots, and one for what has no slot. A job goes to the node it is for, waits there
 * if the node has enough to do, and ends with the answer, or with the connection. A lane whose program is gone stays
 * until its jobs have ended: their bytes are in its memory. So does what they use, for the other node is told to close
 * memory after it was asked to write it. Its socket is closed after that, too: the end of the connection tells a
 * program that nothing is written into its memory any more.
 */
#include "daemon/daemon.h"
#include "imexd/imexd.h"

#include "base/container.h"
#include "base/descriptor.h"
#include "base/segment.h"
#include "share/port/imex.h"
#include "share/wire/closing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>

enum {
	ACCEPTS_MAX = 16,
	OPEN_JOB = CN_HOST_REMOTE_SLOTS, /* the job that opens */
	JOBS = OPEN_JOB + 1,
	IMPORTS_MAX = 1 << 18,
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW,
};
#define BYTES_MAX ((uint64_t)1 << 46) /* of memory, as another node says */

/* What a program has open of another node: memory, a pool, or a block of one. */
struct import {
	struct import *next, *previous; /* of its session */
	struct session *session;        /* NULL: the program is gone, or has closed it */
	struct cn_imexd_node *node;
	uint64_t life; /* of the node */
	enum { MEMORY, POOL, BLOCK } kind;
	uint64_t number, bytes;
	uint64_t remote; /* its number there; of a block that is not open yet, the pool's */
	bool is_open;
};

struct session {
	unsigned char key[CN_NODE_SESSION_BYTES];
	struct cn_imexd_lane *first; /* the connection that is the session; the lanes after it */
	struct import *imports;
	struct cn_imexd_lent_table lent;
	unsigned connection_count;
};

struct cn_imexd_job {
	struct cn_imexd_job *next;
	struct cn_imexd_lane *lane;
	struct cn_imexd_node *node; /* NULL: it is free */
	struct import *import;      /* that it opens; else NULL */
	struct cn_message message;
	int index; /* in node->asked; -1: it waits */
	bool is_watch, is_sending;
	struct cn_imexd_frame answer; /* that came while it is sending; kind 0: none */
	char *local;                  /* where its bytes are: in its slot, or */
	struct cn_imexd_lent *lent;   /* in this file; else NULL */
	struct cn_imexd_send send;
	unsigned char handle[CN_HANDLE_BYTES];
};

struct cn_imexd_lane {
	struct cn_imexd_source source;
	int fd;      /* -1: the program is gone */
	int late_fd; /* then: to close after its last job */
	uid_t user;
	struct session *session; /* NULL: it has not said HELLO */
	struct cn_imexd_lane *next_in_session;
	struct cn_imexd_lane *next, *previous;
	uint64_t deadline_ns;
	char *memory;
	unsigned busy_count;
	struct cn_imexd_job jobs[JOBS];
};

static struct {
	struct cn_imexd_lane *lanes;
	struct cn_imexd_table imports;
} programs;

/* ---- Imports ---- */

static struct import *find_import(const struct session *session, uint64_t number)
{
	struct import *import = cn_imexd_table_find(&programs.imports, number);

	return import && import->session == session && import->is_open ? import : NULL;
}

static struct import *make_import(struct session *session, struct cn_imexd_node *node)
{
	struct import *import = calloc(1, sizeof *import);

	if (!import)
		return NULL;
	import->number = cn_imexd_table_enter(&programs.imports, import, IMPORTS_MAX);
	if (!import->number) {
		free(import);
		return NULL;
	}
	import->session = session;
	import->node = node;
	import->life = node->life;
	import->next = session->imports;
	if (import->next)
		import->next->previous = import;
	session->imports = import;
	node->import_count++;
	return import;
}

static void forget_import(struct import *import)
{
	cn_imexd_table_leave(&programs.imports, import->number);
	import->node->import_count--;
	free(import);
}

static void leave_session(struct import *import)
{
	if (!import->session)
		return;
	if (import->next)
		import->next->previous = import->previous;
	*(import->previous ? &import->previous->next : &import->session->imports) = import->next;
	import->session = NULL;
}

static void tell_closed(const struct import *import)
{
	struct cn_imexd_node *node = import->node;

	if (node->is_up && node->life == import->life &&
	    !cn_imexd_link_tell(node, &(struct cn_imexd_frame){.kind = CN_IMEXD_CLOSE, .memory = import->remote}))
		cn_imexd_link_cut(node, "no memory");
}

/* One that is being opened ends when the answer comes. */
static void close_import(struct import *import)
{
	leave_session(import);
	if (!import->is_open)
		return;
	tell_closed(import);
	forget_import(import);
}

/* ---- Lanes ---- */

static void free_lane(struct cn_imexd_source *source)
{
	struct cn_imexd_lane *lane = cn_container_of(source, struct cn_imexd_lane, source);

	if (lane->memory)
		munmap(lane->memory, CN_NODE_LANE_BYTES);
	free(lane);
}

static void end_session(struct session *session);

static void hang_up(struct cn_imexd_lane *lane)
{
	struct session *session = lane->session;

	if (lane->fd < 0)
		return;
	cn_imexd_unwatch(lane->fd); /* it may be closed later, by another thread */
	if (lane->busy_count)
		lane->late_fd = lane->fd;
	else
		cn_imexd_close(lane->fd, lane->user);
	lane->fd = -1;
	lane->session = NULL;
	if (lane->next)
		lane->next->previous = lane->previous;
	*(lane->previous ? &lane->previous->next : &programs.lanes) = lane->next;
	cn_imexd.lane_count--;
	if (session) {
		bool ends = session->first == lane;
		struct cn_imexd_lane **at = &session->first;
		while (*at != lane)
			at = &(*at)->next_in_session;
		*at = lane->next_in_session;
		session->connection_count--;
		if (ends)
			end_session(session);
	}
	if (lane->busy_count)
		lane->source.ready = NULL; /* until its last job has ended */
	else
		cn_imexd_bury(&lane->source);
}

static void end_session(struct session *session)
{
	struct cn_imexd_lane *lane = session->first, *next;

	session->first = NULL;
	for (struct import *import; (import = session->imports);) {
		session->imports = import->next;
		import->session = NULL;
		if (import->is_open) {
			tell_closed(import);
			forget_import(import);
		}
	}
	for (; lane; lane = next) {
		next = lane->next_in_session;
		lane->session = NULL;
		hang_up(lane);
	}
	cn_imexd_lent_end(&session->lent);
	explicit_bzero(session->key, sizeof session->key);
	free(session);
}

/* `opened`: the answer of another node, if something was opened there. */
static void reply(struct cn_imexd_lane *lane, const struct cn_message *request, enum cn_node_outcome outcome,
		  const struct import *import, const struct cn_imexd_frame *opened)
{
	struct cn_parcel parcel = {
		.message = {.kind = request->kind, .request = request->request, .result = (int32_t)outcome}};
	uint64_t *words = parcel.message.words;

	if (opened) {
		words[CN_NODE_OPEN_MEMORY] = import->number;
		words[CN_NODE_OPEN_BYTES] = opened->count;
		words[CN_NODE_OPEN_LIFE] = import->life;
		words[CN_NODE_OPEN_OFFSET] = opened->offset;
		words[CN_NODE_OPEN_ID] = opened->value;
		words[CN_NODE_OPEN_LOCATION] = opened->flags;
	}

	/* A program has few requests under way, so there is room; one that does not read is hung up on. */
	if (cn_wire_send(lane->fd, &parcel))
		hang_up(lane);
}

/* ---- Jobs ---- */

/* A job has ended; its node may do another. */
static void finish(struct cn_imexd_job *job, enum cn_node_outcome outcome, const struct cn_imexd_frame *opened)
{
	const struct import *import = job->import;
	struct cn_imexd_node *node = job->node;
	struct cn_imexd_lane *lane = job->lane;

	if (job->index >= 0) {
		node->asked[job->index] = NULL;
		node->asked_bits[job->index / 64] &= ~((uint64_t)1 << job->index % 64);
		*(job->is_watch ? &node->watches.count : &node->requests.count) -= 1;
	}
	job->node = NULL;
	job->import = NULL;
	job->answer.kind = 0;
	cn_imexd_lent_drop(job->lent);
	job->lent = NULL;
	lane->busy_count--;
	if (lane->fd >= 0) {
		reply(lane, &job->message, outcome, import, opened);
	} else if (!lane->busy_count) {
		cn_imexd_close(lane->late_fd, lane->user);
		cn_imexd_bury(&lane->source);
	}
}

static void end_job(struct cn_imexd_job *job, const struct cn_imexd_frame *frame);

/* With some transports the other node has all of it, and answers, before this is known here. */
static void job_sent(struct cn_imexd_send *send, bool lost)
{
	struct cn_imexd_job *job = cn_container_of(send, struct cn_imexd_job, send);
	const struct cn_imexd_frame frame = job->answer;

	job->is_sending = false;
	if (!lost && frame.kind) /* one that is lost, cn_imexd_program_lost() ends */
		end_job(job, &frame);
}

static void make_frame(struct cn_imexd_job *job)
{
	static const uint16_t kinds[] = {
		[CN_HOST_REMOTE_PUT] = CN_IMEXD_PUT,   [CN_HOST_REMOTE_GET] = CN_IMEXD_GET,
		[CN_HOST_REMOTE_FILL] = CN_IMEXD_FILL, [CN_HOST_REMOTE_WRITE] = CN_IMEXD_WRITE,
		[CN_HOST_REMOTE_WAIT] = CN_IMEXD_WAIT,
	};
	const uint64_t *words = job->message.words;
	struct cn_imexd_frame *frame = &job->send.frame;

	*frame = (struct cn_imexd_frame){.request = (uint64_t)job->index};
	job->send.payload = NULL;
	if (job->import) {
		frame->kind = job->import->kind == BLOCK ? CN_IMEXD_BLOCK : CN_IMEXD_OPEN;
		frame->memory = job->import->remote;
		frame->bytes = sizeof job->handle;
		job->send.payload = (const char *)job->handle;
		return;
	}
	unsigned operation = (unsigned)words[CN_NODE_REQUEST_OPERATION];
	frame->kind = kinds[operation];
	frame->memory = find_import(job->lane->session, words[CN_NODE_REQUEST_MEMORY])->remote;
	frame->offset = words[CN_NODE_REQUEST_OFFSET];
	frame->count = words[CN_NODE_REQUEST_BYTES];
	frame->value = words[CN_NODE_REQUEST_VALUE];
	frame->flags = (uint32_t)words[CN_NODE_REQUEST_FLAGS];
	if (operation == CN_HOST_REMOTE_WRITE)
		frame->flags = (uint32_t)frame->count;
	if (operation == CN_HOST_REMOTE_WAIT)
		frame->flags = (uint32_t)(frame->count | frame->flags << 8);
	if (operation == CN_HOST_REMOTE_PUT) {
		frame->bytes = (uint32_t)frame->count;
		job->send.payload = job->local;
	}
}

/* One is free: there are fewer jobs than the node may do. */
static int take_index(struct cn_imexd_node *node, bool is_watch)
{
	int word = is_watch ? CN_IMEXD_REQUESTS_MAX / 64 : 0;

	while (!~node->asked_bits[word])
		word++;
	int bit = __builtin_ctzll(~node->asked_bits[word]);
	node->asked_bits[word] |= (uint64_t)1 << bit;
	return word * 64 + bit;
}

/* A job may have waited while its program, or its import, has gone. */
static bool is_wanted(const struct cn_imexd_job *job)
{
	if (job->import)
		return job->import->session;
	return job->lane->session && find_import(job->lane->session, job->message.words[CN_NODE_REQUEST_MEMORY]);
}

static void start_of(struct cn_imexd_node *node, bool is_watch)
{
	__typeof__(&node->requests) of = (void *)(is_watch ? (void *)&node->watches : (void *)&node->requests);

	while (of->waiting.first && of->count < of->max) {
		struct cn_imexd_job *job = of->waiting.first;
		of->waiting.first = job->next;
		if (!of->waiting.first)
			of->waiting.last = NULL;
		if (!is_wanted(job)) {
			struct import *import = job->import;
			finish(job, CN_NODE_MALFORMED, NULL);
			if (import)
				forget_import(import);
			continue;
		}
		job->index = take_index(node, is_watch);
		node->asked[job->index] = job;
		of->count++;
		make_frame(job);
		job->send.sent = job_sent;
		job->is_sending = true;
		cn_imexd_link_send(node, &job->send);
	}
}

static void start_jobs(struct cn_imexd_node *node)
{
	start_of(node, false);
	start_of(node, true);
}

static void begin_job(struct cn_imexd_job *job, struct cn_imexd_lane *lane, struct cn_imexd_node *node,
		      const struct cn_message *message, bool is_watch)
{
	struct cn_imexd_jobs *waiting = is_watch ? &node->watches.waiting : &node->requests.waiting;

	job->lane = lane;
	job->node = node;
	job->message = *message;
	job->index = -1;
	job->is_watch = is_watch;
	job->next = NULL;
	lane->busy_count++;
	*(waiting->last ? &waiting->last->next : &waiting->first) = job;
	waiting->last = job;
	start_jobs(node);
}

/* ---- Answers of other nodes ---- */

static struct cn_imexd_job *find_job(struct cn_imexd_node *node, const struct cn_imexd_frame *frame)
{
	struct cn_imexd_job *job =
		frame->request < CN_IMEXD_REQUESTS_MAX + CN_IMEXD_WATCHES_MAX ? node->asked[frame->request] : NULL;

	if (!job || job->answer.kind || frame->outcome >= CN_NODE_OUTCOME_COUNT)
		return NULL;
	return frame->outcome == CN_NODE_NOT_YET && !job->is_watch ? NULL : job;
}

static bool is_get(const struct cn_imexd_job *job)
{
	return !job->import && job->message.words[CN_NODE_REQUEST_OPERATION] == CN_HOST_REMOTE_GET;
}

/* All that can be wrong with an answer is found here: it may be used later, in the middle of sending. */
bool cn_imexd_program_answer(struct cn_imexd_node *node, const struct cn_imexd_frame *frame, char **ret_into)
{
	struct cn_imexd_job *job = find_job(node, frame);

	if (!job || (job->import && !frame->outcome && (!frame->count || frame->count > BYTES_MAX)))
		return false;
	if (!is_get(job) || frame->outcome)
		return !frame->bytes;
	*ret_into = job->local;
	return frame->bytes == job->message.words[CN_NODE_REQUEST_BYTES];
}

static void opened(struct cn_imexd_job *job, const struct cn_imexd_frame *frame)
{
	struct import *import = job->import;
	bool good = !frame->outcome;

	import->remote = frame->memory;
	import->bytes = import->kind == POOL ? 0 : frame->count; /* a pool's own range cannot be touched */
	/* The session may end in here, and then has the import no more. */
	finish(job, (enum cn_node_outcome)frame->outcome, good ? frame : NULL);
	import->is_open = good;
	if (good && import->session)
		return;
	if (good)
		tell_closed(import);
	leave_session(import);
	forget_import(import);
}

static void end_job(struct cn_imexd_job *job, const struct cn_imexd_frame *frame)
{
	struct cn_imexd_node *node = job->node;

	if (job->import)
		opened(job, frame);
	else
		finish(job, (enum cn_node_outcome)frame->outcome, NULL);
	if (node->is_up)
		start_jobs(node);
}

bool cn_imexd_program_answered(struct cn_imexd_node *node, const struct cn_imexd_frame *frame)
{
	struct cn_imexd_job *job = find_job(node, frame);

	if (!job)
		return false;
	if (job->is_sending)
		job->answer = *frame;
	else
		end_job(job, frame);
	return true;
}

static void lose(struct cn_imexd_job *job)
{
	struct import *import = job->import;

	finish(job, CN_NODE_LOST, NULL);
	if (!import)
		return;
	leave_session(import);
	forget_import(import);
}

void cn_imexd_program_lost(struct cn_imexd_node *node)
{
	struct cn_imexd_jobs *waiting[] = {&node->requests.waiting, &node->watches.waiting};

	for (int i = 0; i < CN_IMEXD_REQUESTS_MAX + CN_IMEXD_WATCHES_MAX; i++)
		if (node->asked[i])
			lose(node->asked[i]);
	for (int i = 0; i < 2; i++) {
		struct cn_imexd_job *job = waiting[i]->first, *next;
		*waiting[i] = (struct cn_imexd_jobs){NULL, NULL};
		for (; job; job = next) {
			next = job->next;
			lose(job);
		}
	}
}

/* ---- Messages ---- */

static bool map_lane(struct cn_imexd_lane *lane, int fd)
{
	size_t bytes = 0;
	int seals = 0;

	if (!cn_file_look(fd, &bytes, &seals) || (seals & SEALS) != SEALS || bytes != CN_NODE_LANE_BYTES)
		return false;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (memory == MAP_FAILED)
		return false;
	lane->memory = memory;
	return true;
}

static struct session *find_session(const struct cn_imexd_lane *lane, const unsigned char *key)
{
	for (const struct cn_imexd_lane *other = programs.lanes; other; other = other->next)
		if (other->session && other->session->first == other && other->user == lane->user &&
		    !memcmp(other->session->key, key, CN_NODE_SESSION_BYTES))
			return other->session;
	return NULL;
}

/* A new session, or a lane of one. False: hang up. */
static bool greet(struct cn_imexd_lane *lane, const struct cn_parcel *parcel)
{
	struct cn_parcel answer = {
		.message = {
			.kind = CN_MESSAGE_NODE_HELLO,
			.request = parcel->message.request,
			.words = {[CN_NODE_HELLO_NODE] = cn_imexd.self, [CN_NODE_HELLO_COUNT] = cn_imexd.node_count}}};
	struct session *session;

	if (lane->session)
		return false;
	if (!parcel->descriptor_count) {
		session = calloc(1, sizeof *session);
		if (!session || getrandom(session->key, sizeof session->key, 0) != sizeof session->key) {
			free(session);
			return false;
		}
	} else {
		session = find_session(lane, parcel->message.bytes);
		if (!session || session->connection_count >= CN_NODE_CONNECTIONS ||
		    !map_lane(lane, parcel->descriptors[0]))
			return false;
	}
	struct cn_imexd_lane **at = &session->first;
	while (*at)
		at = &(*at)->next_in_session;
	*at = lane;
	lane->session = session;
	session->connection_count++;
	memcpy(answer.message.bytes, session->key, sizeof session->key);
	return !cn_wire_send(lane->fd, &answer);
}

/* Has the program shown the handle's channel? */
static bool shows_channel(const struct cn_handle *handle, const struct cn_parcel *parcel)
{
	const struct cn_imex *channel;

	return parcel->descriptor_count == 1 && !cn_imex_find(handle->channel, &channel) &&
	       cn_imex_is_proof(channel, parcel->descriptors[0]);
}

static void open_memory(struct cn_imexd_lane *lane, const struct cn_parcel *parcel)
{
	struct cn_imexd_job *job = &lane->jobs[OPEN_JOB];
	enum cn_node_outcome outcome = CN_NODE_DONE;
	struct cn_imexd_node *node = NULL;
	struct cn_handle handle;

	memcpy(job->handle, parcel->message.words, sizeof job->handle);
	if (cn_handle_read(job->handle, CN_HANDLE_FABRIC_MEMORY, &handle) &&
	    cn_handle_read(job->handle, CN_HANDLE_FABRIC_POOL, &handle))
		outcome = CN_NODE_MALFORMED;
	else if (!handle.node || handle.node > cn_imexd.node_count || handle.node == cn_imexd.self)
		outcome = CN_NODE_UNKNOWN;
	else if (!shows_channel(&handle, parcel))
		outcome = CN_NODE_NO_CHANNEL;
	else if (node = &cn_imexd.nodes[handle.node], !node->is_up)
		outcome = CN_NODE_DOWN;
	else if (!(job->import = make_import(lane->session, node)))
		outcome = CN_NODE_FULL;
	if (!outcome)
		job->import->kind = handle.kind == CN_HANDLE_FABRIC_POOL ? POOL : MEMORY;
	if (outcome)
		reply(lane, &parcel->message, outcome, NULL, NULL);
	else
		begin_job(job, lane, node, &parcel->message, false);
}

static void open_block(struct cn_imexd_lane *lane, const struct cn_message *message)
{
	struct cn_imexd_job *job = &lane->jobs[OPEN_JOB];
	const struct import *pool = find_import(lane->session, message->words[CN_NODE_BLOCK_POOL]);
	enum cn_node_outcome outcome = CN_NODE_DONE;

	memcpy(job->handle, message->words, sizeof job->handle);
	if (!pool || pool->kind != POOL)
		outcome = CN_NODE_MALFORMED;
	else if (!pool->node->is_up || pool->life != pool->node->life)
		outcome = CN_NODE_LOST;
	else if (!(job->import = make_import(lane->session, pool->node)))
		outcome = CN_NODE_FULL;
	if (outcome) {
		reply(lane, message, outcome, NULL, NULL);
		return;
	}
	job->import->kind = BLOCK;
	job->import->remote = pool->remote;
	begin_job(job, lane, pool->node, message, false);
}

/* False: hang up. */
static bool operate(struct cn_imexd_lane *lane, const struct cn_message *message)
{
	const uint64_t *words = message->words;
	uint64_t slot = words[CN_NODE_REQUEST_SLOT];

	if (slot >= CN_HOST_REMOTE_SLOTS || lane->jobs[slot].node)
		return false;
	struct import *import = find_import(lane->session, words[CN_NODE_REQUEST_MEMORY]);
	struct cn_imexd_job *job = &lane->jobs[slot];
	if (!import || !cn_imexd_is_operation(words, import->bytes)) {
		reply(lane, message, CN_NODE_MALFORMED, NULL, NULL);
		return true;
	}
	if (!import->node->is_up || import->life != import->node->life) {
		reply(lane, message, CN_NODE_LOST, NULL, NULL);
		return true;
	}
	job->local = words[CN_NODE_REQUEST_LENT] ? cn_imexd_lent_find(&lane->session->lent, words, &job->lent)
						 : lane->memory + slot * CN_HOST_REMOTE_SLOT_BYTES;
	if (!job->local)
		reply(lane, message, CN_NODE_MALFORMED, NULL, NULL);
	else
		begin_job(job, lane, import->node, message, words[CN_NODE_REQUEST_OPERATION] == CN_HOST_REMOTE_WAIT);
	return true;
}

static void tell_status(struct cn_imexd_lane *lane, const struct cn_message *message)
{
	uint64_t number = message->words[CN_NODE_STATUS_NODE] ? message->words[CN_NODE_STATUS_NODE] : cn_imexd.self;
	bool known = number <= cn_imexd.node_count;
	const struct cn_imexd_node *node = &cn_imexd.nodes[known ? number : cn_imexd.self];
	struct cn_parcel answer = {.message = {.kind = message->kind,
					       .request = message->request,
					       .result = known ? CN_NODE_DONE : CN_NODE_UNKNOWN,
					       .words = {[CN_NODE_STATUS_NODE] = number,
							 [CN_NODE_STATUS_UP] = node->is_up || number == cn_imexd.self,
							 [CN_NODE_STATUS_IMPORTS] = node->import_count,
							 [CN_NODE_STATUS_SERVED] = node->served.count}}};

	if (cn_wire_send(lane->fd, &answer))
		hang_up(lane);
}

/* False: hang up. */
static bool serve(struct cn_imexd_lane *lane, const struct cn_parcel *parcel)
{
	const struct cn_message *message = &parcel->message;
	struct import *import;

	if (message->kind == CN_MESSAGE_NODE_HELLO)
		return greet(lane, parcel);
	if (!lane->session)
		return false;
	if (lane->memory)
		return message->kind == CN_MESSAGE_NODE_REQUEST && operate(lane, message);
	switch ((int)message->kind) {
	case CN_MESSAGE_NODE_OPEN:
		if (lane->jobs[OPEN_JOB].node)
			return false;
		open_memory(lane, parcel);
		return true;
	case CN_MESSAGE_NODE_BLOCK:
		if (lane->jobs[OPEN_JOB].node)
			return false;
		open_block(lane, message);
		return true;
	case CN_MESSAGE_NODE_CLOSE:
		import = find_import(lane->session, message->words[0]);
		if (import)
			close_import(import);
		return true;
	case CN_MESSAGE_NODE_STATUS: tell_status(lane, message); return true;
	case CN_MESSAGE_NODE_HELD: return !cn_imexd_serve_tell(lane->fd, lane->user, message);
	case CN_MESSAGE_NODE_LEND:
		reply(lane, message, cn_imexd_lend(&lane->session->lent, parcel), NULL, NULL);
		return true;
	case CN_MESSAGE_NODE_RETURN:
		cn_imexd_lent_return(&lane->session->lent, message->words[CN_NODE_LEND_PLACE]);
		return true;
	default: return false;
	}
}

/* ---- Connections ---- */

/* One message a round, so that a flood of one program delays the others by one message each. */
static void lane_ready(struct cn_imexd_source *source, uint32_t events)
{
	struct cn_imexd_lane *lane = cn_container_of(source, struct cn_imexd_lane, source);
	struct cn_parcel parcel;
	/*
	 * A lane with memory sends no descriptors. Nor does a user whose descriptors cannot be closed: its programs are
	 * hung up on if they send more, and served as long as they do not.
	 */
	bool is_bare = lane->memory || cn_wire_is_stuck(lane->user);
	int error = is_bare ? cn_wire_receive_message(lane->fd, &parcel.message) : cn_wire_receive(lane->fd, &parcel);

	(void)events;
	if (is_bare)
		parcel.descriptor_count = 0;
	if (error == EAGAIN)
		return;
	bool good = !error && serve(lane, &parcel);
	if (!error)
		cn_wire_close(&parcel);
	if (!good)
		hang_up(lane);
}

static bool admit(int fd, uid_t user)
{
	struct cn_imexd_lane *lane = calloc(1, sizeof *lane);
	unsigned count = 0;

	if (!lane || user == CN_WIRE_NOBODY)
		goto err_free;
	for (const struct cn_imexd_lane *other = programs.lanes; other; other = other->next)
		count += other->user == user;
	lane->source = (struct cn_imexd_source){.ready = lane_ready, .free = free_lane};
	if (cn_imexd.lane_count >= CN_IMEXD_CONNECTIONS_MAX || count >= CN_IMEXD_CONNECTIONS_MAX / 2 ||
	    !cn_imexd_watch(fd, &lane->source, EPOLLIN))
		goto err_free;
	lane->fd = fd;
	lane->user = user;
	lane->deadline_ns = cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS;
	lane->next = programs.lanes;
	if (lane->next)
		lane->next->previous = lane;
	programs.lanes = lane;
	cn_imexd.lane_count++;
	return true;

err_free:
	free(lane);
	return false;
}

void cn_imexd_program_accept(int listen_fd)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = cn_wire_accept(listen_fd);
		if (fd < 0)
			return;
		uid_t user = cn_wire_sender(fd);
		if (!admit(fd, user))
			cn_imexd_close(fd, user);
	}
}

void cn_imexd_program_tend(uint64_t now_ns)
{
	static uint64_t next_ns;
	struct cn_imexd_lane *lane = programs.lanes, *next;

	if (now_ns < next_ns)
		return;
	next_ns = now_ns + CN_WIRE_TIMEOUT_MS / 2 * CN_MILLISECOND_NS;
	for (; lane; lane = next) {
		next = lane->next;
		if (!lane->session && now_ns > lane->deadline_ns)
			hang_up(lane);
	}
	if (cn_wire_has_unclosed())
		cn_wire_close_again();
	cn_imexd_close_parked();
}

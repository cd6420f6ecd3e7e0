/* SPDX-License-Identifier: MIT */
/*
 * Creators: the processes at whose ports we called.
 *
 * Their connections are the service thread's alone: it sends the questions and reads the answers, so nobody ever uses a
 * descriptor that it has closed. Whoever asks hands over a question, sleeps on its state, and gets it back with the
 * answer; one who has slept too long leaves it to the service thread, which throws it away when its answer comes or the
 * connection ends. To connect may take a while, so the asker does that; if two did at the same time, one connection
 * is closed again.
 */
#include "base/container.h"
#include "share/port/port_internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum state { WAITING, ANSWERED, ABANDONED };
enum answer {
	REPLY,         /* in `reply` */
	NOT_CONNECTED, /* no connection is there yet */
	LOST,          /* the creator has died */
	FULL,          /* it does not read */
	NONSENSE,      /* it says what no creator does */
	NO_WATCH,      /* the connection cannot be watched */
	NO_DESCRIPTOR, /* it has answered, and the descriptor is lost */
};

struct question {
	struct cn_job job;
	struct question *next;
	_Atomic uint32_t state;
	enum answer answer;
	unsigned char port[CN_PORT_NAME_BYTES];
	struct cn_creator *fresh; /* a connection that was made just now; NULL: none */
	struct cn_opened *opened; /* NULL: it has been given back */
	struct cn_parcel request, reply;
};

struct cn_creator {
	struct cn_watch channel;
	struct cn_creator *next;
	unsigned char port[CN_PORT_NAME_BYTES];
	struct question *questions;
	struct cn_opened *opened;
};

/* All of these are the service thread's alone. */
static struct cn_creator *creators;
static uint64_t request_last;

/* ---- On the service thread ---- */

static void link_opened(struct cn_creator *creator, struct cn_opened *opened)
{
	opened->creator = creator;
	opened->previous = NULL;
	opened->next = creator->opened;
	if (opened->next)
		opened->next->previous = opened;
	creator->opened = opened;
}

static void unlink_opened(struct cn_opened *opened)
{
	*(opened->previous ? &opened->previous->next : &opened->creator->opened) = opened->next;
	if (opened->next)
		opened->next->previous = opened->previous;
	opened->creator = NULL;
}

static void return_due(struct cn_watch *linger)
{
	cn_opened_return(cn_container_of(linger, struct cn_opened, linger));
}

void cn_opened_return(struct cn_opened *opened)
{
	struct cn_creator *creator = opened->creator;
	struct cn_parcel parcel = {.message = {.kind = CN_MESSAGE_EVENT_FREED, .words = {opened->number}}};
	int error = creator ? cn_wire_send(creator->channel.fd, &parcel) : 0;

	if (error && error != EPIPE) { /* no room: it would keep the event until we end, so say it later */
		if (!opened->linger.watched) {
			opened->linger.fd = -1;
			cn_service_keep(&opened->linger);
		}
		opened->linger.due = return_due;
		opened->linger.due_ns = cn_clock_ns() + CN_OPENED_LINGER_NS;
		return;
	}
	if (creator)
		unlink_opened(opened);
	if (opened->linger.watched)
		cn_service_unwatch(&opened->linger);
	free(opened);
}

/* A connection that nobody uses: not watched yet. */
static void drop_fresh(struct question *question)
{
	if (!question->fresh)
		return;
	cn_service_unwatch(&question->fresh->channel);
	free(question->fresh);
	question->fresh = NULL;
}

/* Give a question back to its asker, or throw it away when he has left. */
static void answer_question(struct question *question, enum answer answer)
{
	uint32_t waiting = WAITING;

	question->answer = answer;
	if (atomic_compare_exchange_strong(&question->state, &waiting, ANSWERED)) {
		cn_futex_wake(&question->state, 1);
		return;
	}
	if (answer == REPLY)
		cn_wire_close(&question->reply);
	if (question->opened)
		cn_opened_return(question->opened);
	free(question);
}

static void end_creator(struct cn_creator *creator, enum answer answer)
{
	struct cn_creator **link = &creators;

	while (*link != creator)
		link = &(*link)->next;
	*link = creator->next;
	cn_service_unwatch(&creator->channel);
	for (struct question *question = creator->questions, *next; question; question = next) {
		next = question->next;
		answer_question(question, answer);
	}
	while (creator->opened) {
		struct cn_opened *opened = creator->opened;
		unlink_opened(opened);
		cn_shared_event_orphaned(opened);
	}
	free(creator);
}

static bool is_answer(const struct cn_parcel *reply)
{
	const struct cn_message *message = &reply->message;
	uint64_t recorder = message->words[0];

	if (message->kind != CN_MESSAGE_EVENT)
		return false;
	if (message->result)
		return !reply->descriptor_count;
	return reply->descriptor_count == 1 && recorder && recorder < CN_RECORDER_ALL_OTHERS;
}

/*
 * An answer has come, and its descriptor is lost: this process may have no more of them. Questions are answered in
 * their order, so it was to the oldest; the others, and what is open, are as they were. To the creator it has been
 * opened, so what the question was for is given back to it, as soon as it can be told.
 */
static void lose_answer(struct cn_creator *creator)
{
	struct question **link = &creator->questions, *question;

	while ((*link)->next)
		link = &(*link)->next;
	question = *link;
	*link = NULL;
	link_opened(creator, question->opened);
	cn_opened_return(question->opened);
	question->opened = NULL;
	answer_question(question, NO_DESCRIPTOR);
}

static void creator_ready(struct cn_watch *channel)
{
	struct cn_creator *creator = cn_container_of(channel, struct cn_creator, channel);
	struct cn_parcel reply;
	int error = cn_wire_receive(channel->fd, &reply);

	if (error == EAGAIN)
		return;
	if (error == EMFILE && creator->questions) {
		lose_answer(creator);
		return;
	}
	if (error) {
		end_creator(creator, error == EPIPE ? LOST : NONSENSE);
		return;
	}
	if (reply.message.kind == CN_MESSAGE_DEATH && !reply.descriptor_count) {
		for (struct cn_opened *opened = creator->opened; opened; opened = opened->next)
			cn_shared_event_disown(opened);
		return;
	}
	struct question **link = &creator->questions;
	while (*link && (*link)->request.message.request != reply.message.request)
		link = &(*link)->next;
	struct question *question = *link;
	if (!question || !is_answer(&reply)) {
		cn_wire_close(&reply);
		end_creator(creator, NONSENSE);
		return;
	}
	*link = question->next;
	question->reply = reply;
	if (!reply.message.result)
		link_opened(creator, question->opened);
	answer_question(question, REPLY);
}

static struct cn_creator *find_creator(const unsigned char name[CN_PORT_NAME_BYTES])
{
	struct cn_creator *creator = creators;

	while (creator && memcmp(creator->port, name, sizeof creator->port) != 0)
		creator = creator->next;
	return creator;
}

/* Send a question. */
static void ask(struct cn_job *job)
{
	struct question *question = cn_container_of(job, struct question, job);
	struct cn_creator *creator = find_creator(question->port);

	if (creator) {
		drop_fresh(question);
	} else if (question->fresh) {
		if (cn_service_watch(&question->fresh->channel)) {
			drop_fresh(question);
			answer_question(question, NO_WATCH);
			return;
		}
		creator = question->fresh;
		question->fresh = NULL;
		creator->next = creators;
		creators = creator;
	} else {
		answer_question(question, NOT_CONNECTED);
		return;
	}
	question->request.message.request = ++request_last;
	int error = cn_wire_send(creator->channel.fd, &question->request);
	if (error == EAGAIN) {
		answer_question(question, FULL);
		return;
	}
	question->next = creator->questions;
	creator->questions = question;
	if (error)
		end_creator(creator, LOST);
}

/* ---- On the asker's thread ---- */

CUresult cn_port_connect(const unsigned char port[CN_PORT_NAME_BYTES], enum cn_handle_kind kind,
			 struct cn_watch *ret_channel)
{
	char name[CN_SOCKET_NAME_CHARS + 1];
	struct ucred who;
	socklen_t bytes = sizeof who;

	for (int i = 0; i < CN_PORT_NAME_BYTES; i++)
		snprintf(name + 2 * i, 3, "%02x", port[i]);
	cn_fork_hold();
	CUresult result = cn_wire_open(&ret_channel->fd);
	if (!result)
		cn_service_keep(ret_channel);
	cn_fork_allow();
	if (result)
		return result;
	result = cn_wire_reach_name(ret_channel->fd, name); /* a fork does not wait for it */
	if (result) {
		cn_service_unwatch(ret_channel);
		return result == CUDA_ERROR_INVALID_VALUE ? cn_handle_gone(kind) : result;
	}
	if (getsockopt(ret_channel->fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) || who.uid != geteuid()) {
		cn_service_unwatch(ret_channel);
		return cn_error(cn_handle_gone(kind), "the handle's process runs as another user");
	}
	return CUDA_SUCCESS;
}

static CUresult connect_creator(const unsigned char port[CN_PORT_NAME_BYTES], struct cn_creator **ret_creator)
{
	struct cn_creator *creator = calloc(1, sizeof *creator);

	if (!creator)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for another process's record");
	memcpy(creator->port, port, sizeof creator->port);
	creator->channel.ready = creator_ready;
	CUresult result = cn_port_connect(port, CN_HANDLE_EVENT, &creator->channel);
	if (result) {
		free(creator);
		return result;
	}
	*ret_creator = creator;
	return CUDA_SUCCESS;
}

/* False: the time was over, and the question is not ours any more. */
static bool wait_for_answer(struct question *question, uint64_t deadline_ns)
{
	uint32_t waiting = WAITING;
	uint64_t now_ns;

	while (atomic_load(&question->state) == WAITING && (now_ns = cn_clock_ns()) < deadline_ns)
		cn_futex_wait(&question->state, WAITING, (int64_t)(deadline_ns - now_ns));
	return !atomic_compare_exchange_strong(&question->state, &waiting, ABANDONED);
}

static CUresult explain(enum answer answer)
{
	switch (answer) {
	case LOST: return cn_error(cn_handle_gone(CN_HANDLE_EVENT), "the handle's process has ended");
	case FULL:
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the handle's process does not answer: its port is full");
	case NONSENSE:
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"the handle's process sent an invalid answer, or the answer was lost");
	case NO_DESCRIPTOR:
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the program cannot open more descriptors (ulimit -n)");
	case NO_WATCH:
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"the connection to the handle's process cannot be watched");
	case NOT_CONNECTED:
	case REPLY: break;
	}
	return CUDA_SUCCESS;
}

static CUresult explain_result(int32_t result)
{
	if (result == CUDA_ERROR_INVALID_HANDLE)
		return cn_error(cn_handle_gone(CN_HANDLE_EVENT),
				"what the handle names does not exist any more in its process");
	if (result == CUDA_ERROR_NOT_PERMITTED)
		return cn_error(cn_handle_refused(CN_HANDLE_EVENT),
				"the handle's process says that it never gave out this handle");
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the handle's process cannot share what it names (it says %d)",
			(int)result);
}

/* Post a question and wait for its answer. On failure it is not ours any more. */
static CUresult ask_and_wait(struct question *question, uint64_t deadline_ns)
{
	atomic_store(&question->state, WAITING);
	cn_service_post(&question->job);
	if (wait_for_answer(question, deadline_ns))
		return CUDA_SUCCESS;
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the handle's process does not answer");
}

CUresult cn_creator_ask(const struct cn_handle *handle, struct cn_opened *opened, struct cn_parcel *ret_reply)
{
	uint64_t deadline_ns = cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS; /* for all of it */
	struct question *question = calloc(1, sizeof *question);
	struct cn_message *message;

	if (!question) {
		free(opened);
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no memory for a question to another process");
	}
	question->job.run = ask;
	question->opened = opened;
	memcpy(question->port, handle->port, sizeof question->port);
	message = &question->request.message;
	message->kind = CN_MESSAGE_EVENT;
	message->words[0] = opened->number = handle->number;
	message->words[1] = handle->generation;
	memcpy(message->bytes, handle->secret, sizeof handle->secret);

	CUresult result = ask_and_wait(question, deadline_ns);
	if (result)
		return result;
	/* A connection that is lost may have been one that the creator had closed, and no sign of its death. */
	if (question->answer == NOT_CONNECTED || question->answer == LOST) {
		result = connect_creator(handle->port, &question->fresh);
		if (result)
			goto err_free_question;
		result = ask_and_wait(question, deadline_ns);
		if (result)
			return result;
	}
	result = explain(question->answer);
	if (!result && question->reply.message.result)
		result = explain_result(question->reply.message.result);
	if (result)
		goto err_free_question;
	*ret_reply = question->reply;
	free(question);
	return CUDA_SUCCESS;

err_free_question:
	free(question->opened);
	free(question);
	return result;
}

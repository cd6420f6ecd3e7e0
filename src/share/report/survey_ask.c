/* SPDX-License-Identifier: MIT */
/*
 * Asking many processes at the same time; see survey_ask.h.
 *
 * Each process is asked to write its status file, and then for its holders that we cannot name, one after the other.
 * Each answer brings on the next question, so all conversations go on at the pace of their processes, under one
 * deadline.
 */
#include "share/report/survey_ask.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- What the system says ---- */

/* The beginning of a file of /proc; its length, or 0. */
static size_t read_beginning(const char *path, char *ret_text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, ret_text, room - 1);

	if (fd >= 0)
		close(fd);
	ret_text[length > 0 ? length : 0] = '\0';
	return length > 0 ? (size_t)length : 0;
}

/* Is it stopped, by a signal or a debugger? It will not answer, and what it last wrote is still true. */
static bool is_stopped(int pid)
{
	char path[32], text[256];
	const char *state;

	if (pid <= 0)
		return false;
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	return read_beginning(path, text, sizeof text) && (state = strrchr(text, ')')) && state[1] == ' ' &&
	       (state[2] == 'T' || state[2] == 't');
}

/* The PIDs of a process of which we have a descriptor. Of a descriptor of another kind the system says neither. */
static struct cn_survey_pids find_pids(int pidfd)
{
	struct cn_survey_pids pids = {0, 0};
	char path[40], text[512];

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
	read_beginning(path, text, sizeof text);
	const char *here = strstr(text, "\nPid:\t"), *chain = strstr(text, "\nNSpid:\t");
	if (!here || !chain)
		return pids;
	long pid = strtol(here + strlen("\nPid:\t"), NULL, 10);
	if (pid <= 0 || pid > INT_MAX)
		return pids;
	char *end = (char *)chain + strlen("\nNSpid:\t");
	pids.here = pids.there = (int)pid;
	do { /* from our namespace to its own */
		pids.there = (int)strtol(end, &end, 10);
	} while (*end == '\t');
	return pids;
}

/* ---- One process ---- */

bool cn_survey_connect(const struct cn_look *look, struct cn_survey_call *call)
{
	static const struct cn_peer_ops no_ops;
	int path_fd = cn_look_socket(look, call->name);

	if (path_fd < 0)
		return false;
	bool open = !cn_peer_open(&no_ops, NULL, &call->peer);
	bool reached = open && !cn_wire_reach_now(call->peer->channel.fd, path_fd) &&
		       cn_wire_identify(call->peer->channel.fd, &call->who) && call->who.uid == look->owner;
	close(path_fd);
	if (open && !reached) {
		cn_peer_drop(call->peer);
		call->peer = NULL;
		call->who = (struct ucred){0};
	}
	call->reached = reached;
	return reached;
}

static void hang_up(struct cn_survey_call *call)
{
	cn_peer_drop(call->peer);
	call->peer = NULL;
}

void cn_survey_call_end(struct cn_survey_call *call)
{
	hang_up(call);
	if (call->has_status)
		cn_status_free(&call->status);
	free(call->pids);
	call->pids = NULL;
	call->has_status = false;
}

static void ask(struct cn_survey_call *call, uint64_t what, uint64_t pool, uint64_t importer)
{
	struct cn_parcel request = {.message = {.kind = CN_MESSAGE_REPORT, .words = {what, pool, importer}}};

	request.message.request = ++call->request;
	if (cn_wire_send(call->peer->channel.fd, &request))
		hang_up(call);
}

/* The file as it is now, and the PIDs of holders that the process and we see in the same way. */
static void read_status(const struct cn_look *look, struct cn_survey_call *call)
{
	int fd = cn_look_lock(look, call->name);
	uint64_t own_namespace = cn_status_namespace("pid");

	if (fd < 0)
		return;
	call->has_status = cn_status_read(fd, &call->status);
	close(fd);
	if (!call->has_status)
		return;
	uint32_t count = call->status.head.record_count;
	call->pids = calloc(count ? count : 1, sizeof *call->pids);
	if (!call->pids || !own_namespace || call->status.head.pid_namespace != own_namespace)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const struct cn_status_record *record = &call->status.records[i];
		struct cn_report_importer body;
		memcpy(&body, record->body, sizeof body);
		if ((record->kind == CN_STATUS_IMPORTER || record->kind == CN_STATUS_OPENER) && body.pid <= INT_MAX)
			call->pids[i].here = (int)body.pid;
	}
}

/* Ask for the next holder that is not known here; with none left, the conversation ends. */
static void ask_next_holder(struct cn_survey_call *call)
{
	uint64_t pool = 0;

	for (; call->pids && call->next < call->status.head.record_count; call->next++) {
		const struct cn_status_record *record = &call->status.records[call->next];
		uint64_t id;
		memcpy(&id, record->body, sizeof id);
		if ((record->kind != CN_STATUS_IMPORTER && record->kind != CN_STATUS_OPENER) ||
		    call->pids[call->next].here)
			continue;
		for (uint32_t i = call->next; record->kind == CN_STATUS_IMPORTER && i-- > 0 && !pool;)
			if (call->status.records[i].kind == CN_STATUS_POOL)
				memcpy(&pool, call->status.records[i].body, sizeof pool);
		ask(call, CN_REPORT_HOLDER, pool, id);
		return;
	}
	hang_up(call);
}

/* The answer to the first question is bare; those to the others may have a descriptor, a pidfd. */
static int receive(const struct cn_survey_call *call, struct cn_parcel *ret_answer)
{
	if (call->answered)
		return cn_wire_receive(call->peer->channel.fd, ret_answer);
	ret_answer->descriptor_count = 0;
	return cn_wire_receive_message(call->peer->channel.fd, &ret_answer->message);
}

static void take_answer(const struct cn_look *look, struct cn_survey_call *call)
{
	struct cn_parcel answer;

	cn_fork_hold(); /* a child would inherit its descriptors */
	int error = receive(call, &answer);
	if (!error && (answer.message.kind != CN_MESSAGE_REPORT || answer.message.request != call->request)) {
		cn_wire_close(&answer);
		error = EPROTO;
	}
	if (!error && call->answered && answer.descriptor_count == 1)
		call->pids[call->next] = find_pids(answer.descriptors[0]);
	if (!error)
		cn_wire_close(&answer);
	cn_fork_allow();
	if (error == EAGAIN)
		return;
	if (error || (!call->answered && answer.message.result)) {
		hang_up(call);
		return;
	}
	if (!call->answered) {
		call->answered = true;
		read_status(look, call);
	} else {
		call->next++;
	}
	ask_next_holder(call);
}

/* ---- All of them ---- */

/* Wait for some answers. False: there are no more to wait for. */
static bool wait_for_some(const struct cn_look *look, struct cn_survey_call *calls, unsigned count, uint64_t end_ns)
{
	struct pollfd wanted[CN_SURVEY_CALLS_MAX];
	struct cn_survey_call *asked[CN_SURVEY_CALLS_MAX];
	uint64_t now_ns = cn_clock_ns();
	unsigned open = 0;
	bool waits = false;

	for (unsigned i = 0; i < count; i++) {
		if (!calls[i].peer)
			continue;
		wanted[open] = (struct pollfd){.fd = calls[i].peer->channel.fd, .events = POLLIN};
		asked[open++] = &calls[i];
		waits |= !calls[i].stopped;
	}
	if (!waits || now_ns >= end_ns)
		return false;
	if (poll(wanted, open, (int)((end_ns - now_ns) / CN_MILLISECOND_NS) + 1) < 0)
		return errno == EINTR || errno == EAGAIN;
	for (unsigned i = 0; i < open; i++)
		if (wanted[i].revents)
			take_answer(look, asked[i]);
	return true;
}

void cn_survey_ask(const struct cn_look *look, struct cn_survey_call *calls, unsigned count, uint64_t end_ns)
{
	for (unsigned i = 0; i < count; i++) {
		if (!cn_survey_connect(look, &calls[i]))
			continue;
		calls[i].stopped = is_stopped(calls[i].who.pid);
		ask(&calls[i], CN_REPORT_REFRESH, 0, 0);
	}
	while (wait_for_some(look, calls, count, end_ns))
		;
	for (unsigned i = 0; i < count; i++) {
		if (!calls[i].answered)
			read_status(look, &calls[i]);
		hang_up(&calls[i]);
	}
}

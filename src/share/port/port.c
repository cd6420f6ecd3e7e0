/* SPDX-License-Identifier: MIT */
/*
 * The port of this process: its handles, and those who call.
 *
 * The first handle makes the port, or the first pool that is exported. Callers are kept until they end: their
 * connection says when. One who says nothing is sent away after a time, one who says what nobody would who has a handle
 * at once, and so are those beyond CALLERS_MAX. Each caller that has asked for an event is a recorder, and has a number
 * for it that is not used again. One who only asks what is shared here (report.h) is nobody to be remembered.
 *
 * One who has memory of ours open can use it as long as his process lives, with a connection or without: what he has
 * open ends when he says so, or with the process. A caller whose connection has ended and whose process has not stays
 * for that long, and counts as one. So does one who has an event open and whom we send away: he may still record it,
 * and if he dies before that is done, somebody has to say so. (He himself ends a connection only by his death.)
 */
#include "base/container.h"
#include "share/peer/peer.h"
#include "share/port/port_internal.h"
#include "share/report/report.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CALLERS_MAX = 256 };

static struct {
	struct cn_door door;

	/* The service thread's alone. */
	struct cn_caller *callers;
	unsigned caller_count;
	uint64_t caller_last; /* the id of the last one */
	uint32_t recorder_last;
	uint32_t recorders[CALLERS_MAX]; /* those of the living, in order */
	size_t recorder_count;
} port;

/* ---- Handles ---- */

static uint64_t check_of(const struct cn_handle *handle)
{
	return cn_check(handle, offsetof(struct cn_handle, check));
}

void cn_handle_write(const struct cn_handle *object, unsigned char ret_bytes[CN_HANDLE_BYTES])
{
	struct cn_handle handle = *object;

	handle.magic = CN_HANDLE_MAGIC;
	handle.version = CN_HANDLE_VERSION;
	memcpy(handle.port, cn_handle_is_fabric(object->kind) ? cn_fabric_port_name() : port.door.name,
	       sizeof handle.port);
	handle.check = check_of(&handle);
	memcpy(ret_bytes, &handle, sizeof handle);
}

CUresult cn_handle_read(const unsigned char bytes[CN_HANDLE_BYTES], enum cn_handle_kind kind,
			struct cn_handle *ret_handle)
{
	struct cn_handle handle;

	memcpy(&handle, bytes, sizeof handle);
	if (handle.magic != CN_HANDLE_MAGIC)
		return cn_error(cn_handle_refused(kind), "the handle was not made by Cenote");
	if (handle.check != check_of(&handle))
		return cn_error(cn_handle_refused(kind), "the handle is damaged");
	if (handle.version != CN_HANDLE_VERSION)
		return cn_error(cn_handle_refused(kind), "the handle is from another version of Cenote");
	if (handle.kind != kind)
		return cn_error(cn_handle_refused(kind), "the handle is of another kind of object");
	*ret_handle = handle;
	return CUDA_SUCCESS;
}

bool cn_port_is_own(const unsigned char name[CN_PORT_NAME_BYTES])
{
	return cn_door_is_open(&port.door) && !memcmp(name, port.door.name, sizeof port.door.name);
}

void cn_port_name(const unsigned char port_bytes[CN_PORT_NAME_BYTES], char ret_name[CN_SOCKET_NAME_CHARS + 1])
{
	for (int i = 0; i < CN_PORT_NAME_BYTES; i++)
		snprintf(ret_name + 2 * i, 3, "%02x", port_bytes[i]);
}

/* ---- Callers ---- */

const uint32_t *cn_port_recorders(size_t *ret_count)
{
	*ret_count = port.recorder_count;
	return port.recorders;
}

/* One who has asked for events is taken for dead: see to what it has left, and have the others see to it. */
static void bury_recorder(const struct cn_caller *dead)
{
	struct cn_parcel death = {.message = {.kind = CN_MESSAGE_DEATH}};
	size_t index = 0;

	while (index < port.recorder_count && port.recorders[index] != dead->recorder)
		index++;
	if (index == port.recorder_count) /* it was none, or has been buried */
		return;
	port.recorder_count--;
	memmove(&port.recorders[index], &port.recorders[index + 1],
		(port.recorder_count - index) * sizeof port.recorders[0]);
	cn_shared_events_bury();
	for (struct cn_caller *caller = port.callers; caller; caller = caller->next)
		if (caller->recorder && caller != dead && caller->channel.fd >= 0)
			cn_wire_send(caller->channel.fd, &death); /* who does not read it does not hear of it */
}

/* What a caller has open of one kind ends. */
static void end_openings(struct cn_caller *caller, enum cn_handle_kind kind)
{
	struct cn_opening *opening = caller->openings, *next;

	if (kind == CN_HANDLE_EVENT)
		bury_recorder(caller);
	for (; opening; opening = next) {
		next = opening->next;
		if (opening->origin->kind == kind)
			cn_opening_end(caller, opening);
	}
}

static void forget_caller(struct cn_caller *caller)
{
	*(caller->previous ? &caller->previous->next : &port.callers) = caller->next;
	if (caller->next)
		caller->next->previous = caller->previous;
	port.caller_count--;
	end_openings(caller, CN_HANDLE_EVENT);
	end_openings(caller, CN_HANDLE_MEMORY);
	if (caller->channel.watched)
		cn_service_unwatch(&caller->channel);
	if (caller->process.watched)
		cn_service_unwatch(&caller->process);
	free(caller);
}

static void caller_died(struct cn_watch *process)
{
	forget_caller(cn_container_of(process, struct cn_caller, process));
}

/* Watch for the death of one who has something open. If that cannot be done, the end of the connection has to do. */
static void watch_process(struct cn_caller *caller)
{
	if (caller->process.watched)
		return;
	caller->process.ready = caller_died;
	if (!cn_peer_process(caller->channel.fd, &caller->process.fd) && caller->process.fd >= 0 &&
	    cn_service_watch(&caller->process))
		close(caller->process.fd);
}

/* The connection ends, or we end it. */
static void drop_caller(struct cn_caller *caller, bool sent_away)
{
	if (sent_away && caller->openings)
		watch_process(caller);
	if (!sent_away || !caller->process.watched)
		end_openings(caller, CN_HANDLE_EVENT);
	cn_service_unwatch(&caller->channel);
	if (!caller->openings || !caller->process.watched)
		forget_caller(caller);
}

/* Who opens events has a number to record them under. */
static bool number_recorder(struct cn_caller *caller)
{
	if (caller->recorder)
		return true;
	if (port.recorder_last == CN_RECORDER_ALL_OTHERS - 1)
		return false;
	caller->recorder = ++port.recorder_last;
	port.recorders[port.recorder_count++] = caller->recorder;
	return true;
}

/* True: the caller may stay. */
static bool serve_request(struct cn_caller *caller, const struct cn_message *request)
{
	struct cn_parcel reply = {.message = {.kind = request->kind, .request = request->request}};
	enum cn_handle_kind kind = request->kind == CN_MESSAGE_MEMORY ? CN_HANDLE_MEMORY : CN_HANDLE_EVENT;
	struct cn_opening *opening = NULL;

	if (kind == CN_HANDLE_EVENT) {
		if (!number_recorder(caller))
			return false;
		reply.message.words[0] = caller->recorder;
	}
	CUresult result = cn_opening_begin(caller, kind, request, &reply, &opening);
	reply.message.result = (int32_t)result;
	int error = cn_wire_send(caller->channel.fd, &reply);

	caller->channel.due_ns = 0;
	if (opening && !opening->origin->ops->keeps_descriptor)
		cn_wire_close(&reply);
	if (kind == CN_HANDLE_MEMORY && !error && !result)
		watch_process(caller);
	if (error && !result) {
		cn_opening_end(caller, opening); /* it never had it */
		/* If it was our fault, the caller is told so: one that lives and has more open is not sent away for it. */
		reply = (struct cn_parcel){.message = {.kind = request->kind,
						       .request = request->request,
						       .result = CUDA_ERROR_OPERATING_SYSTEM}};
		if (error != EPIPE && error != EAGAIN)
			error = cn_wire_send(caller->channel.fd, &reply);
	}
	/* A caller that does not read what it asked for is not waited for. What one sent before it closed is read. */
	return result != CUDA_ERROR_NOT_PERMITTED && (!error || error == EPIPE);
}

static bool is_opener(const struct cn_caller *caller)
{
	return caller->recorder || caller->openings;
}

/* Processes: one that lost a connection and called again is here twice. */
static unsigned count_openers(void)
{
	unsigned count = 0;

	for (const struct cn_caller *caller = port.callers; caller; caller = caller->next) {
		const struct cn_caller *same = caller->next;
		while (same && !(is_opener(same) && same->pid && same->pid == caller->pid))
			same = same->next;
		count += is_opener(caller) && !same;
	}
	return count;
}

const struct cn_caller *cn_port_opener_after(enum cn_handle_kind kind, uint64_t id)
{
	const struct cn_caller *next = NULL;

	for (const struct cn_caller *caller = port.callers; caller; caller = caller->next)
		if (caller->open[kind].count && caller->id > id && (!next || caller->id < next->id))
			next = caller;
	return next;
}

unsigned cn_port_opener_count(enum cn_handle_kind kind)
{
	unsigned count = 0;

	for (const struct cn_caller *caller = port.callers; caller; caller = caller->next)
		count += caller->open[kind].count != 0;
	return count;
}

/* The same for who wants to know what is shared. */
static bool serve_report(struct cn_caller *caller, const struct cn_message *request)
{
	struct cn_parcel reply = {.message = {.kind = request->kind, .request = request->request}};
	bool known = cn_report_serve(request, count_openers(), &reply.message);

	/* One who only looks is sent away when he has stopped asking. */
	if (!is_opener(caller))
		caller->channel.due_ns = cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS;
	return known && !cn_wire_send(caller->channel.fd, &reply);
}

/* One has done with something; what he did not have is nothing. */
static void take_back(struct cn_caller *caller, const struct cn_message *message)
{
	bool memory = message->kind == CN_MESSAGE_MEMORY_CLOSED;
	uint64_t number = message->words[0];
	struct cn_opening *opening = cn_opening_find(caller, memory ? CN_HANDLE_MEMORY : CN_HANDLE_EVENT, number);

	if (memory && number == CN_LOAN_ALL)
		end_openings(caller, CN_HANDLE_MEMORY);
	else if (opening)
		cn_opening_end(caller, opening);
}

static void caller_ready(struct cn_watch *channel)
{
	struct cn_caller *caller = cn_container_of(channel, struct cn_caller, channel);
	struct cn_message message;
	int error = cn_wire_receive_message(channel->fd, &message);
	bool stays = false;

	if (error == EAGAIN)
		return;
	if (!error) {
		switch (message.kind) {
		case CN_MESSAGE_EVENT:
		case CN_MESSAGE_MEMORY: stays = serve_request(caller, &message); break;
		case CN_MESSAGE_REPORT: stays = serve_report(caller, &message); break;
		case CN_MESSAGE_EVENT_FREED:
		case CN_MESSAGE_MEMORY_CLOSED:
			stays = !channel->due_ns; /* what has one done with who has asked for nothing? */
			take_back(caller, &message);
			break;
		default: break;
		}
	}
	if (!stays)
		drop_caller(caller, error != EPIPE);
}

static void caller_due(struct cn_watch *channel)
{
	drop_caller(cn_container_of(channel, struct cn_caller, channel), true); /* it has not said a word in time */
}

static void caller_comes(struct cn_watch *listener)
{
	int sock = cn_wire_accept(listener->fd);
	struct ucred who;

	if (sock < 0)
		return;
	struct cn_caller *caller = NULL;
	if (port.caller_count < CALLERS_MAX && cn_peer_identify(sock, &who) && who.uid == geteuid())
		caller = calloc(1, sizeof *caller);
	if (!caller) {
		cn_wire_hang_up(sock);
		return;
	}
	caller->id = ++port.caller_last;
	caller->pid = who.pid;
	caller->uid = who.uid;
	caller->channel.fd = sock;
	caller->channel.ready = caller_ready;
	caller->channel.due = caller_due;
	caller->channel.due_ns = cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS;
	caller->next = port.callers;
	if (caller->next)
		caller->next->previous = caller;
	port.callers = caller;
	port.caller_count++;
	if (cn_service_watch(&caller->channel)) {
		port.callers = caller->next;
		if (caller->next)
			caller->next->previous = NULL;
		port.caller_count--;
		cn_wire_hang_up(sock);
		free(caller);
	}
}

/* ---- Doors ---- */

void cn_door_forget(const struct cn_door *door)
{
	if (getpid() == door->pid) /* and not a child of it, however it was made */
		cn_wire_forget_name(&door->socket);
}

static void name_to_bytes(const char *name, unsigned char ret_bytes[CN_PORT_NAME_BYTES])
{
	for (int i = 0; i < CN_PORT_NAME_BYTES; i++) {
		char digits[3] = {name[2 * i], name[2 * i + 1], '\0'};
		ret_bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
	}
}

CUresult cn_door_make(struct cn_door *door, bool fabric)
{
	CUresult result = cn_wire_listen_named(fabric, &door->socket);

	if (result)
		return result;
	name_to_bytes(door->socket.name, door->name);
	door->pid = getpid();
	door->lock.fd = door->socket.lock_fd;
	door->directory.fd = door->socket.directory_fd;
	door->listener.fd = door->socket.listen_fd;
	cn_service_keep(&door->lock);
	cn_service_keep(&door->directory);
	cn_service_keep(&door->listener);
	return CUDA_SUCCESS;
}

void cn_door_close(struct cn_door *door)
{
	cn_door_forget(door);
	cn_wire_turn_away(door->listener.fd);
	cn_service_unwatch(&door->listener);
	cn_service_unwatch(&door->lock);
	cn_service_unwatch(&door->directory);
}

CUresult cn_door_open(struct cn_door *door, CUresult (*make)(void), void (*at_exit)(void))
{
	CUresult result = cn_service_start();

	if (result || cn_door_is_open(door))
		return result;
	cn_slow_lock(&door->opening);
	if (!atomic_load(&door->open)) {
		cn_fork_hold();
		result = make();
		if (!result) /* if this fails the name is swept by somebody else, as that of one who was killed */
			atexit(at_exit);
		cn_fork_allow();
		atomic_store(&door->open, !result);
	}
	cn_slow_unlock(&door->opening);
	return result;
}

/* ---- The port itself ---- */

static void forget_name(void)
{
	cn_door_forget(&port.door);
}

static CUresult make_port(void)
{
	CUresult result = cn_door_make(&port.door, false);

	if (result)
		return result;
	port.door.listener.ready = caller_comes;
	result = cn_service_watch(&port.door.listener);
	if (result)
		cn_door_close(&port.door);
	return result;
}

CUresult cn_port_open(void)
{
	return cn_door_open(&port.door, make_port, forget_name);
}

void cn_port_try_open(void)
{
	char kept[CN_SENTENCE_BYTES];

	if (cn_door_is_open(&port.door))
		return;
	memcpy(kept, cn_last_error(), sizeof kept);
	if (cn_port_open())
		cn_error_forget(kept);
}

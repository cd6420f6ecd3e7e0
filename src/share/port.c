/* SPDX-License-Identifier: MIT */
/*
 * The port of this process: its handles, and those who call.
 *
 * The first handle makes the port. Callers are kept until they end: their connection says when. One who says nothing is
 * sent away after a time, one who says what nobody would who has a handle at once, and so are those beyond CALLERS_MAX.
 * Each caller that has asked for an event is a recorder, and has a number for it that is not used again.
 *
 * One who has memory of ours open can use it as long as his process lives, with a connection or without: what he has
 * open ends when he says so, or with the process. A caller whose connection has ended and whose process has not stays
 * for that long, and counts as one.
 */
#include "share/port_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CALLERS_MAX = 256 };

static struct {
	pthread_mutex_t opening;
	_Atomic bool open; /* what follows is for good then */
	unsigned char name[CN_PORT_NAME_BYTES];
	struct cn_named_socket socket;
	struct cn_watch listener, lock, directory;
	pid_t pid;

	/* The service thread's alone. */
	struct cn_caller *callers;
	unsigned caller_count;
	uint32_t recorder_last;
} port = {.opening = PTHREAD_MUTEX_INITIALIZER};

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
	memcpy(handle.port, port.name, sizeof handle.port);
	handle.check = check_of(&handle);
	memcpy(ret_bytes, &handle, sizeof handle);
}

CUresult cn_handle_read(const unsigned char bytes[CN_HANDLE_BYTES], enum cn_handle_kind kind,
			struct cn_handle *ret_handle)
{
	struct cn_handle handle;

	memcpy(&handle, bytes, sizeof handle);
	if (handle.magic != CN_HANDLE_MAGIC)
		return cn_error(cn_handle_refused(kind), "the handle is none of Cenote's");
	if (handle.check != check_of(&handle))
		return cn_error(cn_handle_refused(kind), "the handle is damaged");
	if (handle.version != CN_HANDLE_VERSION)
		return cn_error(cn_handle_refused(kind), "the handle is from another version of Cenote");
	if (handle.kind != kind)
		return cn_error(cn_handle_refused(kind), "the handle is of something else");
	*ret_handle = handle;
	return CUDA_SUCCESS;
}

bool cn_port_is_own(const unsigned char name[CN_PORT_NAME_BYTES])
{
	return atomic_load_explicit(&port.open, memory_order_acquire) && !memcmp(name, port.name, sizeof port.name);
}

/* ---- Callers ---- */

/* What a caller has open of one kind ends. */
static void end_openings(struct cn_caller *caller, enum cn_handle_kind kind)
{
	struct cn_opening *opening = caller->openings, *next;

	for (; opening; opening = next) {
		next = opening->next;
		if (opening->origin->kind != kind)
			continue;
		if (kind == CN_HANDLE_EVENT)
			cn_event_returned(caller, opening, caller->recorder);
		else
			cn_memory_returned(caller, opening);
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

/* The connection ends. */
static void drop_caller(struct cn_caller *caller)
{
	end_openings(caller, CN_HANDLE_EVENT);
	cn_service_unwatch(&caller->channel);
	if (!caller->openings || !caller->process.watched)
		forget_caller(caller);
}

static void caller_died(struct cn_watch *process)
{
	forget_caller((struct cn_caller *)((char *)process - offsetof(struct cn_caller, process)));
}

/* Watch for the death of one who has memory open. Where that cannot be done, the end of the connection has to do. */
static void watch_process(struct cn_caller *caller)
{
	if (caller->process.watched)
		return;
	caller->process.ready = caller_died;
	caller->process.fd = cn_peer_process(caller->channel.fd);
	if (caller->process.fd >= 0 && cn_service_watch(&caller->process))
		close(caller->process.fd);
}

static bool serve_event(struct cn_caller *caller, const struct cn_message *request, struct cn_parcel *reply)
{
	if (!caller->recorder) {
		if (port.recorder_last == CN_RECORDER_ALL_OTHERS - 1)
			return false;
		caller->recorder = ++port.recorder_last;
	}
	reply->message.words[0] = caller->recorder;
	return cn_event_serve(caller, request, reply);
}

/* True: the caller may stay. */
static bool serve_request(struct cn_caller *caller, const struct cn_message *request)
{
	struct cn_parcel reply = {.message = {.kind = request->kind, .request = request->request}};
	bool memory = request->kind == CN_MESSAGE_MEMORY;
	bool known = memory ? cn_memory_serve(caller, request, &reply) : serve_event(caller, request, &reply);
	int error = cn_wire_send(caller->channel.fd, &reply);

	caller->channel.due_ns = 0;
	if (!memory)
		cn_wire_close(&reply);
	else if (!error && !reply.message.result)
		watch_process(caller);
	else if (error && !reply.message.result) /* it never had it */
		cn_memory_returned(caller, cn_opening_find(caller, CN_HANDLE_MEMORY, request->words[0]));
	/* One who does not read what he has asked for is not waited for. What one said who has gone is heard out. */
	return known && (!error || error == EPIPE);
}

/* One has done with something; what he did not have is nothing. */
static void take_back(struct cn_caller *caller, const struct cn_message *message)
{
	bool memory = message->kind == CN_MESSAGE_MEMORY_CLOSED;
	uint64_t number = message->words[0];
	struct cn_opening *opening = cn_opening_find(caller, memory ? CN_HANDLE_MEMORY : CN_HANDLE_EVENT, number);

	if (memory && number == CN_CLOSED_ALL)
		end_openings(caller, CN_HANDLE_MEMORY);
	else if (opening && memory)
		cn_memory_returned(caller, opening);
	else if (opening)
		cn_event_returned(caller, opening, 0);
}

static void caller_ready(struct cn_watch *channel)
{
	struct cn_caller *caller = (struct cn_caller *)channel;
	struct cn_parcel parcel;
	int error = cn_wire_receive(channel->fd, &parcel);
	bool stays = false;

	if (error == EAGAIN)
		return;
	if (!error && parcel.descriptor_count) {
		cn_wire_close(&parcel);
	} else if (!error) {
		switch (parcel.message.kind) {
		case CN_MESSAGE_EVENT:
		case CN_MESSAGE_MEMORY: stays = serve_request(caller, &parcel.message); break;
		case CN_MESSAGE_EVENT_FREED:
		case CN_MESSAGE_MEMORY_CLOSED:
			stays = !channel->due_ns; /* what has one done with who has asked for nothing? */
			take_back(caller, &parcel.message);
			break;
		default: break;
		}
	}
	if (!stays)
		drop_caller(caller);
}

static void caller_due(struct cn_watch *channel)
{
	drop_caller((struct cn_caller *)channel); /* it has not said a word in time */
}

static bool is_same_user(int sock)
{
	struct ucred who;
	socklen_t bytes = sizeof who;

	return !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &bytes) && who.uid == geteuid();
}

static void caller_comes(struct cn_watch *listener)
{
	int sock = cn_wire_accept(listener->fd);

	if (sock < 0)
		return;
	struct cn_caller *caller = NULL;
	if (port.caller_count < CALLERS_MAX && is_same_user(sock))
		caller = calloc(1, sizeof *caller);
	if (!caller) {
		close(sock);
		return;
	}
	caller->channel.fd = sock;
	caller->channel.ready = caller_ready;
	caller->channel.due = caller_due;
	caller->channel.due_ns = cn_service_now_ns() + CN_WIRE_TIMEOUT_MS * UINT64_C(1000000);
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
		close(sock);
		free(caller);
	}
}

/* ---- The port itself ---- */

static void forget_name(void)
{
	if (getpid() == port.pid) /* and not a child of it, however it was made */
		cn_wire_forget_name(&port.socket);
}

static void name_to_bytes(const char *name, unsigned char ret_bytes[CN_PORT_NAME_BYTES])
{
	for (int i = 0; i < CN_PORT_NAME_BYTES; i++) {
		char digits[3] = {name[2 * i], name[2 * i + 1], '\0'};
		ret_bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
	}
}

/* While a fork waits: a child that had the lock would keep our name alive, and one that listened would be called. */
static CUresult make_port(void)
{
	CUresult result = cn_wire_listen_named(&port.socket);

	if (result)
		return result;
	name_to_bytes(port.socket.name, port.name);
	port.pid = getpid();
	port.lock.fd = port.socket.lock_fd;
	port.directory.fd = port.socket.directory_fd;
	port.listener.fd = port.socket.listen_fd;
	port.listener.ready = caller_comes;
	cn_service_keep(&port.lock);
	cn_service_keep(&port.directory);
	result = cn_service_watch(&port.listener);
	if (!result && atexit(forget_name))
		result = CUDA_SUCCESS; /* then the name is swept by somebody else, as that of one who was killed */
	if (!result)
		return result;
	forget_name();
	close(port.listener.fd);
	cn_service_unwatch(&port.lock);
	cn_service_unwatch(&port.directory);
	return result;
}

CUresult cn_port_open(void)
{
	CUresult result = cn_service_start();

	if (result || atomic_load_explicit(&port.open, memory_order_acquire))
		return result;
	pthread_mutex_lock(&port.opening);
	if (!atomic_load(&port.open)) {
		cn_service_hold_fork();
		result = make_port();
		cn_service_allow_fork();
		atomic_store(&port.open, !result);
	}
	pthread_mutex_unlock(&port.opening);
	return result;
}

/* SPDX-License-Identifier: MIT */
/*
 * The port of this process: its handles and its clients.
 *
 * The port is made with the first handle, or with the first pool that is exported. Its clients are other processes,
 * kept until their connection ends. A silent client is sent away after a time. A client that breaks the protocol is
 * sent away at once, and so are those beyond CLIENTS_MAX. Each client that has asked for an event is a recorder, under
 * a number that is not used again. A client that only asks what is shared here (report.h) is not remembered. Clients
 * are processes of this user; root may ask for reports, and for nothing else.
 *
 * A client that has memory of ours open can use it as long as its process lives, with or without a connection. An
 * opening ends when the client says so, or with the process. A client whose connection has ended and whose process
 * lives stays for that time, and counts as one. So does a client that has an event open and is sent away: it may still
 * record the event, and if it dies before the record is done, the others must be told. (A client ends a connection
 * itself only by its death.)
 */
#include "base/container.h"
#include "base/descriptor.h"
#include "base/environment.h"
#include "share/peer/peer.h"
#include "share/port/port_internal.h"
#include "share/report/report.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS_MAX = 256 };

static struct {
	struct cn_port_socket socket;

	/* Only for the service thread. */
	struct cn_port_client *clients;
	unsigned client_count;
	uint64_t client_last; /* the id of the last one */
	uint32_t recorder_last;
	uint32_t recorders[CLIENTS_MAX]; /* of live clients, in order */
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
	memcpy(handle.port, cn_handle_is_fabric(object->kind) ? cn_fabric_port_name() : port.socket.name,
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
	return cn_port_socket_is_open(&port.socket) && !memcmp(name, port.socket.name, sizeof port.socket.name);
}

void cn_port_name(const unsigned char port_bytes[CN_PORT_NAME_BYTES], char ret_name[CN_SOCKET_NAME_CHARS + 1])
{
	for (int i = 0; i < CN_PORT_NAME_BYTES; i++)
		snprintf(ret_name + 2 * i, 3, "%02x", port_bytes[i]);
}

/* ---- Clients ---- */

const uint32_t *cn_port_recorders(size_t *ret_count)
{
	*ret_count = port.recorder_count;
	return port.recorders;
}

/* A recorder is dead, or taken for dead: clean up what it has left, and tell the others to do so. */
static void bury_recorder(const struct cn_port_client *dead)
{
	struct cn_parcel death = {.message = {.kind = CN_MESSAGE_DEATH}};
	size_t index = 0;

	while (index < port.recorder_count && port.recorders[index] != dead->recorder)
		index++;
	if (index == port.recorder_count) /* it was no recorder, or that was done already */
		return;
	port.recorder_count--;
	memmove(&port.recorders[index], &port.recorders[index + 1],
		(port.recorder_count - index) * sizeof port.recorders[0]);
	cn_port_object_bury();
	for (struct cn_port_client *client = port.clients; client; client = client->next)
		if (client->recorder && client != dead && client->channel.fd >= 0)
			cn_wire_send(client->channel.fd, &death); /* a client that does not read it misses it */
}

/* End what a client has open of one kind. */
static void end_openings(struct cn_port_client *client, enum cn_handle_kind kind)
{
	struct cn_port_opening *opening = client->openings, *next;

	if (kind == CN_HANDLE_EVENT)
		bury_recorder(client);
	for (; opening; opening = next) {
		next = opening->next;
		if (opening->object->kind == kind)
			cn_port_opening_end(client, opening);
	}
}

static void forget_client(struct cn_port_client *client)
{
	*(client->previous ? &client->previous->next : &port.clients) = client->next;
	if (client->next)
		client->next->previous = client->previous;
	port.client_count--;
	end_openings(client, CN_HANDLE_EVENT);
	end_openings(client, CN_HANDLE_MEMORY);
	if (client->channel.watched)
		cn_service_unwatch(&client->channel);
	if (client->process.watched)
		cn_service_unwatch(&client->process);
	free(client);
}

static void client_died(struct cn_watch *process)
{
	forget_client(cn_container_of(process, struct cn_port_client, process));
}

/* Watch for the death of a client that has something open. If that fails, the end of the connection counts. */
static void watch_process(struct cn_port_client *client)
{
	if (client->process.watched)
		return;
	client->process.ready = client_died;
	if (!cn_wire_process(client->channel.fd, &client->process.fd) && client->process.fd >= 0 &&
	    cn_service_watch(&client->process))
		close(client->process.fd);
}

/* The connection ends, or we end it. */
static void drop_client(struct cn_port_client *client, bool sent_away)
{
	client->awaits_refresh = false;
	if (sent_away && client->openings)
		watch_process(client);
	if (!sent_away || !client->process.watched)
		end_openings(client, CN_HANDLE_EVENT);
	cn_service_unwatch(&client->channel);
	if (!client->openings || !client->process.watched)
		forget_client(client);
}

/* A client that opens events needs a number to record them under. */
static bool number_recorder(struct cn_port_client *client)
{
	if (client->recorder)
		return true;
	if (port.recorder_last == CN_RECORDER_ALL_OTHERS - 1)
		return false;
	client->recorder = ++port.recorder_last;
	port.recorders[port.recorder_count++] = client->recorder;
	return true;
}

/* True: the client may stay. */
static bool serve_request(struct cn_port_client *client, const struct cn_message *request)
{
	struct cn_parcel reply = {.message = {.kind = request->kind, .request = request->request}};
	enum cn_handle_kind kind = request->kind == CN_MESSAGE_MEMORY ? CN_HANDLE_MEMORY : CN_HANDLE_EVENT;
	struct cn_port_opening *opening = NULL;

	if (kind == CN_HANDLE_EVENT) {
		if (!number_recorder(client))
			return false;
		reply.message.words[0] = client->recorder;
	}
	CUresult result = cn_port_opening_begin(client, kind, request, &reply, &opening);
	reply.message.result = (int32_t)result;
	int error = cn_wire_send(client->channel.fd, &reply);

	client->channel.due_ns = 0;
	if (opening && !opening->object->ops->keeps_descriptor)
		cn_wire_close(&reply);
	if (kind == CN_HANDLE_MEMORY && !error && !result)
		watch_process(client);
	if (error && !result) {
		cn_port_opening_end(client, opening); /* the client never got it */
		/* If the fault is ours, tell the client so: a client that has more open is not sent away for it. */
		reply = (struct cn_parcel){.message = {.kind = request->kind,
						       .request = request->request,
						       .result = CUDA_ERROR_OPERATING_SYSTEM}};
		if (error != EPIPE && error != EAGAIN)
			error = cn_wire_send(client->channel.fd, &reply);
	}
	/* A client that does not read its reply is not waited for. What it sent before it closed is still read. */
	return result != CUDA_ERROR_NOT_PERMITTED && (!error || error == EPIPE);
}

static bool is_opener(const struct cn_port_client *client)
{
	return client->recorder || client->openings;
}

/* One that lost a connection and called again is listed twice. */
unsigned cn_port_openers_count(void)
{
	unsigned count = 0;

	for (const struct cn_port_client *client = port.clients; client; client = client->next) {
		const struct cn_port_client *same = client->next;
		while (same && !(is_opener(same) && same->pid && same->pid == client->pid))
			same = same->next;
		count += is_opener(client) && !same;
	}
	return count;
}

const struct cn_port_client *cn_port_opener_after(enum cn_handle_kind kind, uint64_t id)
{
	const struct cn_port_client *next = NULL;

	for (const struct cn_port_client *client = port.clients; client; client = client->next)
		if (client->open[kind].count && client->id > id && (!next || client->id < next->id))
			next = client;
	return next;
}

unsigned cn_port_opener_count(enum cn_handle_kind kind)
{
	unsigned count = 0;

	for (const struct cn_port_client *client = port.clients; client; client = client->next)
		count += client->open[kind].count != 0;
	return count;
}

int cn_port_opener_process(uint64_t id)
{
	int fd = -1;

	for (const struct cn_port_client *client = port.clients; client; client = client->next) {
		if (client->id != id || !is_opener(client))
			continue;
		if (client->process.watched)
			return fcntl(client->process.fd, F_DUPFD_CLOEXEC, CN_DESCRIPTOR_LOWEST);
		return client->channel.fd >= 0 && !cn_wire_process(client->channel.fd, &fd) ? fd : -1;
	}
	return -1;
}

/* The same for the question what is shared. */
static bool serve_report(struct cn_port_client *client, const struct cn_message *request)
{
	struct cn_parcel reply = {.message = {.kind = request->kind, .request = request->request}};

	if (client->awaits_refresh) /* one question at a time */
		return false;
	/* A client that only asks for reports is sent away when it has stopped asking. */
	if (!is_opener(client))
		client->channel.due_ns = cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS;
	if (request->words[CN_REPORT_WHAT] == CN_REPORT_REFRESH && !cn_report_may_refresh()) {
		client->awaits_refresh = true;
		client->refresh_request = request->request;
		return true;
	}
	bool known = cn_report_serve(request, &reply);
	bool stays = known && !cn_wire_send(client->channel.fd, &reply);
	if (reply.descriptor_count)
		close(reply.descriptors[0]);
	return stays;
}

void cn_port_refreshed(uint64_t sequence)
{
	for (struct cn_port_client *client = port.clients, *next; client; client = next) {
		struct cn_parcel reply = {.message = {.kind = CN_MESSAGE_REPORT,
						      .request = client->refresh_request,
						      .result = sequence ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM,
						      .words = {sequence}}};
		next = client->next;
		if (!client->awaits_refresh)
			continue;
		client->awaits_refresh = false;
		if (cn_wire_send(client->channel.fd, &reply))
			drop_client(client, true);
	}
}

/* A client is done with something. What it did not have open is ignored. */
static void take_back(struct cn_port_client *client, const struct cn_message *message)
{
	bool memory = message->kind == CN_MESSAGE_MEMORY_CLOSED;
	uint64_t number = message->words[0];
	struct cn_port_opening *opening =
		cn_port_opening_find(client, memory ? CN_HANDLE_MEMORY : CN_HANDLE_EVENT, number);

	if (memory && number == CN_SHARED_MEMORY_ALL)
		end_openings(client, CN_HANDLE_MEMORY);
	else if (opening)
		cn_port_opening_end(client, opening);
}

static void client_ready(struct cn_watch *channel)
{
	struct cn_port_client *client = cn_container_of(channel, struct cn_port_client, channel);
	struct cn_message message;
	int error = cn_wire_receive_message(channel->fd, &message);
	bool stays = false;

	if (error == EAGAIN)
		return;
	if (!error && (!client->only_reports || message.kind == CN_MESSAGE_REPORT)) {
		switch (message.kind) {
		case CN_MESSAGE_EVENT:
		case CN_MESSAGE_MEMORY: stays = serve_request(client, &message); break;
		case CN_MESSAGE_REPORT: stays = serve_report(client, &message); break;
		case CN_MESSAGE_EVENT_FREED:
		case CN_MESSAGE_MEMORY_CLOSED:
			stays = !channel->due_ns; /* a client that has asked for nothing has nothing to end */
			take_back(client, &message);
			break;
		default: break;
		}
	}
	if (!stays)
		drop_client(client, error != EPIPE);
}

static void client_due(struct cn_watch *channel)
{
	drop_client(cn_container_of(channel, struct cn_port_client, channel), true); /* it was silent for too long */
}

static void client_comes(struct cn_watch *listener)
{
	int sock = cn_wire_accept(listener->fd);
	struct ucred who;

	if (sock < 0)
		return;
	struct cn_port_client *client = NULL;
	if (port.client_count < CLIENTS_MAX && cn_wire_identify(sock, &who) && (who.uid == geteuid() || who.uid == 0))
		client = calloc(1, sizeof *client);
	if (!client) {
		cn_wire_hang_up(sock);
		return;
	}
	client->id = ++port.client_last;
	client->pid = who.pid;
	client->uid = who.uid;
	client->only_reports = who.uid != geteuid();
	client->channel.fd = sock;
	client->channel.ready = client_ready;
	client->channel.due = client_due;
	client->channel.due_ns = cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS;
	client->next = port.clients;
	if (client->next)
		client->next->previous = client;
	port.clients = client;
	port.client_count++;
	if (cn_service_watch(&client->channel)) {
		port.clients = client->next;
		if (client->next)
			client->next->previous = NULL;
		port.client_count--;
		cn_wire_hang_up(sock);
		free(client);
	}
}

/* ---- Where ports listen ---- */

void cn_port_socket_forget(const struct cn_port_socket *port_socket)
{
	if (getpid() == port_socket->pid) /* not in a child, however it was made */
		cn_wire_forget_name(&port_socket->named);
}

static void name_to_bytes(const char *name, unsigned char ret_bytes[CN_PORT_NAME_BYTES])
{
	for (int i = 0; i < CN_PORT_NAME_BYTES; i++) {
		char digits[3] = {name[2 * i], name[2 * i + 1], '\0'};
		ret_bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
	}
}

CUresult cn_port_socket_make(struct cn_port_socket *port_socket, bool fabric)
{
	CUresult result = cn_wire_listen_named(fabric, &port_socket->named);

	if (result)
		return result;
	name_to_bytes(port_socket->named.name, port_socket->name);
	port_socket->pid = getpid();
	port_socket->lock.fd = port_socket->named.lock_fd;
	port_socket->directory.fd = port_socket->named.directory_fd;
	port_socket->listener.fd = port_socket->named.listen_fd;
	cn_service_keep(&port_socket->lock);
	cn_service_keep(&port_socket->directory);
	cn_service_keep(&port_socket->listener);
	return CUDA_SUCCESS;
}

void cn_port_socket_close(struct cn_port_socket *port_socket)
{
	cn_port_socket_forget(port_socket);
	cn_wire_turn_away(port_socket->listener.fd);
	cn_service_unwatch(&port_socket->listener);
	cn_service_unwatch(&port_socket->lock);
	cn_service_unwatch(&port_socket->directory);
}

CUresult cn_port_socket_open(struct cn_port_socket *port_socket, CUresult (*make)(void), void (*at_exit)(void))
{
	CUresult result = cn_service_start();

	if (result || cn_port_socket_is_open(port_socket))
		return result;
	cn_slow_lock(&port_socket->opening);
	if (!atomic_load(&port_socket->open)) {
		cn_fork_hold();
		result = make();
		if (!result) /* if this fails, another process sweeps the name, as that of a killed one */
			atexit(at_exit);
		cn_fork_allow();
		atomic_store(&port_socket->open, !result);
	}
	cn_slow_unlock(&port_socket->opening);
	return result;
}

/* ---- Changes, for the status file ---- */

static _Atomic bool changed; /* since the file was last written */
static bool told;            /* of the change; for the service thread: the job may not be posted before it has run */

static void tell_report(struct cn_job *job)
{
	(void)job;
	told = true;
	cn_report_changed();
}

static struct cn_job changed_job = {.run = tell_report};

void cn_port_changed(void)
{
	if (cn_port_socket_is_open(&port.socket) && !atomic_exchange(&changed, true))
		cn_service_post(&changed_job);
}

void cn_port_changes_seen(void)
{
	if (!told)
		return;
	told = false;
	atomic_store(&changed, false);
}

/* ---- The port itself ---- */

static void forget_name(void)
{
	cn_port_socket_forget(&port.socket);
}

static CUresult make_port(void)
{
	CUresult result = cn_port_socket_make(&port.socket, false);

	if (result)
		return result;
	port.socket.listener.ready = client_comes;
	result = cn_service_watch(&port.socket.listener);
	if (result)
		cn_port_socket_close(&port.socket);
	else
		cn_report_begin(port.socket.lock.fd);
	return result;
}

CUresult cn_port_open(void)
{
	return cn_port_socket_open(&port.socket, make_port, forget_name);
}

void cn_port_try_open(void)
{
	char kept[CN_SENTENCE_BYTES];

	if (cn_port_socket_is_open(&port.socket))
		return;
	memcpy(kept, cn_last_error(), sizeof kept);
	if (cn_port_open())
		cn_error_forget(kept);
}

/* A port that the service thread makes: it takes longer than an import does. */
static struct {
	_Atomic bool wanted;
	struct cn_job job;
	pid_t pid;  /* of the process that wants it; set with the first wish */
	bool ended; /* with the port's lock: the process is ending, and makes no name any more */
} later;

/* The service thread has the gate of forks, and does not wait for a thread that opens the port itself. */
static void open_now(struct cn_job *job)
{
	(void)job;
	if (!cn_slow_try_lock(&port.socket.opening)) {
		atomic_store(&later.wanted, false); /* if that thread fails, the next import asks again */
		return;
	}
	if (!later.ended && !atomic_load(&port.socket.open)) {
		bool made = !make_port();
		atomic_store(&port.socket.open, made);
		atomic_store(&later.wanted, made);
	}
	cn_slow_unlock(&port.socket.opening);
}

static void end_later(void)
{
	if (getpid() != later.pid)
		return;
	cn_slow_lock(&port.socket.opening);
	later.ended = true;
	bool open = atomic_load(&port.socket.open);
	cn_slow_unlock(&port.socket.opening);
	if (open)
		forget_name();
}

static void prepare_later(void)
{
	later.job.run = open_now;
	later.pid = getpid();
	atexit(end_later); /* if this fails, another process sweeps the name, as that of a killed one */
}

void cn_port_open_soon(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (cn_port_socket_is_open(&port.socket) || atomic_exchange(&later.wanted, true))
		return;
	pthread_once(&once, prepare_later);
	cn_environment_read(); /* where the port will be, and its label */
	cn_service_post(&later.job);
}

/* SPDX-License-Identifier: MIT */
/*
 * Fabric handles: the port that every user can call, and calling there. See fabric.h for the idea.
 *
 * A client asks one question. Its channel comes with it and is checked before anything else in the message. Silent
 * clients are sent away after a time, and earlier when there are too many. One user can have only so many connections.
 *
 * Clients have a thread of their own. A client may send a file whose fstat() or close() takes as long as the client
 * likes. The kernel closes that file on the thread that receives it, or on the one that closes the connection. So only
 * this thread does either, and it delays no fork and nothing else that is shared: at worst, fabric handles of this
 * process do not open.
 *
 * We ask on a connection for the time of one question. A child that is forked meanwhile may have it as well: it sends
 * nothing there, and the exporter closes it when it has answered.
 */
#include "share/port/fabric.h"
#include "base/container.h"
#include "base/descriptor.h"
#include "base/thread.h"
#include "share/node/node.h"
#include "share/peer/peer.h"
#include "share/port/imex.h"
#include "share/port/port_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS_MAX = 256, CLIENTS_OF_USER_MAX = 128, OFFSET_RANDOM_BITS = 30 };

/* CN_MESSAGE_FABRIC: number and node as in any other question, and the kind of handle. */
enum { WORD_NUMBER, WORD_NODE, WORD_KIND };

struct cn_fabric {
	struct cn_port_object object;
	int fd;
	unsigned char handle[CN_HANDLE_BYTES];
};

struct client {
	struct cn_port_client client; /* its connection is kept, and not watched */
	uid_t user;
	uint64_t due_ns;
};

static struct {
	struct cn_port_socket socket;
	const struct cn_imex *channel; /* this and the mark are fixed once the port is open */
	struct cn_watch mark;

	/* Only for the clients' thread. */
	struct cn_port_client *clients; /* the newest first */
	unsigned client_count;
} port;

static enum cn_handle_kind handle_kind(enum cn_fabric_kind kind)
{
	return kind == CN_FABRIC_POOL ? CN_HANDLE_FABRIC_POOL : CN_HANDLE_FABRIC_MEMORY;
}

/* ---- Names ---- */

static uint32_t name_part(const unsigned char name[CN_PORT_NAME_BYTES], size_t at)
{
	uint32_t part;

	memcpy(&part, name + at, sizeof part);
	return ntohl(part);
}

uid_t cn_fabric_user(const unsigned char *port_name)
{
	return name_part(port_name, 0);
}

/* Where a port marks its channel: never at the offset of another user's port, and most likely at no other port's. */
static uint64_t offset_of(const unsigned char name[CN_PORT_NAME_BYTES])
{
	uint64_t offset = (uint64_t)name_part(name, 0) << OFFSET_RANDOM_BITS;

	return offset | name_part(name, 4) >> (32 - OFFSET_RANDOM_BITS);
}

/* ---- Clients, on their thread ---- */

static void hang_up(struct cn_watch *channel)
{
	cn_wire_hang_up(cn_service_release(channel)); /* ends the copy of a child forked just now, too */
}

static void drop_client(struct client *client)
{
	struct cn_port_client *record = &client->client;

	if (record->previous)
		record->previous->next = record->next;
	else
		port.clients = record->next;
	if (record->next)
		record->next->previous = record->previous;
	port.client_count--;
	hang_up(&record->channel);
	free(client);
}

static CUresult serve_object(struct cn_port_object *object, struct cn_parcel *ret_reply)
{
	ret_reply->descriptors[0] = cn_container_of(object, struct cn_fabric, object)->fd;
	return CUDA_SUCCESS;
}

static void free_object(struct cn_port_object *object)
{
	struct cn_fabric *fabric = cn_container_of(object, struct cn_fabric, object);

	close(fabric->fd);
	free(fabric);
}

static const struct cn_port_object_ops ops = {.serve = serve_object, .keeps_descriptor = true, .free = free_object};

/* CUDA_ERROR_INVALID_HANDLE, whatever is wrong with it: a client that guesses numbers or secrets learns nothing. */
static CUresult open_object(struct client *client, const struct cn_message *message, struct cn_parcel *ret_reply,
			    struct cn_port_opening **ret_opening)
{
	uint64_t kind = message->words[WORD_KIND];

	if (kind != CN_HANDLE_FABRIC_MEMORY && kind != CN_HANDLE_FABRIC_POOL) /* no object of the other port */
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult result =
		cn_port_opening_begin(&client->client, (enum cn_handle_kind)kind, message, ret_reply, ret_opening);
	return result == CUDA_ERROR_NOT_PERMITTED ? CUDA_ERROR_INVALID_HANDLE : result;
}

/* Answer a question that has come with a descriptor. */
static void serve(struct client *client, const struct cn_parcel *request)
{
	struct cn_parcel reply = {.message = {.kind = CN_MESSAGE_FABRIC, .request = request->message.request}};
	struct cn_port_opening *opening = NULL;
	CUresult result = CUDA_ERROR_NOT_PERMITTED;

	bool proof = cn_imex_is_proof(port.channel, request->descriptors[0]);

	cn_fork_hold(); /* locks are taken in here */
	if (proof)
		result = open_object(client, &request->message, &reply, &opening);
	reply.message.result = (int32_t)result;
	int error = cn_wire_send(client->client.channel.fd, &reply); /* never waits for the client to read it */
	if (error == ETOOMANYREFS) { /* too many of this user's descriptors are in flight: then without one */
		reply.message.result = CUDA_ERROR_OPERATING_SYSTEM;
		reply.descriptor_count = 0;
		cn_wire_send(client->client.channel.fd, &reply);
	}
	if (!result)
		cn_port_opening_end(&client->client, opening);
	cn_fork_allow();
}

static void client_ready(struct client *client)
{
	struct cn_parcel parcel;
	int error = cn_wire_receive(client->client.channel.fd, &parcel);

	if (error == EAGAIN)
		return;
	if (!error) {
		if (parcel.message.kind == CN_MESSAGE_FABRIC && parcel.descriptor_count == 1)
			serve(client, &parcel);
		cn_wire_close(&parcel);
	}
	drop_client(client);
}

/*
 * Make room for a client of a user. When all is taken, the client that has been silent longest goes: honest clients ask
 * at once, and an attacker must be faster than that to keep them out, however many users it has.
 */
static bool make_room(uid_t user)
{
	struct cn_port_client *oldest = NULL;
	unsigned count = 0;

	for (struct cn_port_client *client = port.clients; client; client = client->next) {
		count += ((const struct client *)client)->user == user;
		oldest = client;
	}
	if (count >= CLIENTS_OF_USER_MAX)
		return false;
	if (port.client_count >= CLIENTS_MAX && oldest)
		drop_client(cn_container_of(oldest, struct client, client));
	return true;
}

static int accept_kept(struct cn_watch *channel)
{
	cn_fork_hold();
	channel->fd = cn_wire_accept(port.socket.listener.fd);
	if (channel->fd >= 0)
		cn_service_keep(channel);
	cn_fork_allow();
	return channel->fd;
}

static void client_comes(void)
{
	struct client *client = calloc(1, sizeof *client);
	struct ucred who;

	if (!client) /* the connection waits */
		return;
	struct cn_port_client *record = &client->client;
	int sock = accept_kept(&record->channel);
	if (sock < 0) {
		free(client);
		return;
	}
	if (!cn_wire_identify(sock, &who) || !make_room(who.uid)) {
		hang_up(&record->channel);
		free(client);
		return;
	}
	client->user = who.uid;
	client->due_ns = cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS;
	record->next = port.clients;
	if (record->next)
		record->next->previous = record;
	port.clients = record;
	port.client_count++;
}

/* Milliseconds until the next silent client is due, rounded up; -1: there is none. */
static int wait_ms(void)
{
	uint64_t next_ns = UINT64_MAX, now_ns = cn_clock_ns();

	for (const struct cn_port_client *client = port.clients; client; client = client->next)
		next_ns = ((const struct client *)client)->due_ns; /* the last is the oldest */
	if (next_ns == UINT64_MAX)
		return -1;
	return next_ns <= now_ns ? 0 : (int)((next_ns - now_ns) / 1000000 + 1);
}

static void *serve_clients(void *unused)
{
	static struct pollfd wanted[1 + CLIENTS_MAX];

	(void)unused;
	for (;;) {
		nfds_t count = 0;
		wanted[count++] = (struct pollfd){.fd = port.socket.listener.fd, .events = POLLIN};
		for (const struct cn_port_client *client = port.clients; client; client = client->next)
			wanted[count++] = (struct pollfd){.fd = client->channel.fd, .events = POLLIN};
		poll(wanted, count, wait_ms());
		uint64_t now_ns = cn_clock_ns();
		struct cn_port_client *next;
		count = 1;
		for (struct cn_port_client *record = port.clients; record; record = next, count++) {
			struct client *client = cn_container_of(record, struct client, client);
			next = record->next;
			if (wanted[count].revents)
				client_ready(client);
			else if (client->due_ns <= now_ns)
				drop_client(client); /* it was silent for too long */
		}
		if (wanted[0].revents)
			client_comes();
	}
	return NULL;
}

/* ---- The port ---- */

static void forget_name(void)
{
	cn_port_socket_forget(&port.socket);
}

static CUresult make_port(void)
{
	CUresult result = cn_imex_own(&port.channel);

	if (!result)
		result = cn_port_socket_make(&port.socket, true);
	if (result)
		return result;
	result = cn_imex_mark(port.channel, offset_of(port.socket.name), &port.mark.fd);
	if (result) {
		cn_port_socket_close(&port.socket);
		return result;
	}
	cn_service_keep(&port.mark);
	if (!cn_thread_start(serve_clients, NULL)) {
		cn_service_unwatch(&port.mark);
		cn_port_socket_close(&port.socket);
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the thread for fabric handles could not be started");
	}
	return CUDA_SUCCESS;
}

CUresult cn_fabric_port_open(void)
{
	return cn_port_socket_open(&port.socket, make_port, forget_name);
}

const unsigned char *cn_fabric_port_name(void)
{
	return port.socket.name;
}

int32_t cn_fabric_port_channel(void)
{
	return port.channel->number;
}

/* ---- What can be imported ---- */

CUresult cn_fabric_permitted(void)
{
	const struct cn_imex *channel;

	return cn_imex_own(&channel);
}

CUresult cn_fabric_create(enum cn_fabric_kind kind, int fd, struct cn_fabric **ret_fabric)
{
	struct cn_fabric *fabric = calloc(1, sizeof *fabric);

	if (!fabric)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of a fabric handle");
	fabric->fd = fcntl(fd, F_DUPFD_CLOEXEC, CN_DESCRIPTOR_LOWEST);
	if (fabric->fd < 0) {
		free(fabric);
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor could be made for a fabric handle: %s",
				strerror(errno));
	}
	CUresult result = cn_port_object_publish(&fabric->object, handle_kind(kind), &ops);
	if (result) {
		free_object(&fabric->object);
		return result;
	}
	cn_port_object_write(&fabric->object, fabric->handle);
	*ret_fabric = fabric;
	return CUDA_SUCCESS;
}

const unsigned char *cn_fabric_handle(const struct cn_fabric *fabric)
{
	return fabric->handle;
}

void cn_fabric_free(struct cn_fabric *fabric)
{
	if (fabric && cn_port_object_withdraw(&fabric->object))
		free_object(&fabric->object);
}

/* ---- Calling ---- */

static CUresult explain_error(int error)
{
	if (error == EPIPE)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"the fabric handle's process has ended, or has too many clients");
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the fabric handle's process cannot be asked: %s",
			cn_wire_explain(error));
}

static CUresult explain_result(int32_t result, int channel)
{
	if (result == CUDA_ERROR_INVALID_HANDLE)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"the fabric handle's object no longer exists in its process, or never did");
	if (result == CUDA_ERROR_NOT_PERMITTED)
		return cn_error(CUDA_ERROR_NOT_PERMITTED,
				"the exporter's IMEX channel is not this process's channel %d", channel);
	if (result == CUDA_ERROR_OPERATING_SYSTEM)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"the exporter's user has too many descriptors in transit that were not received yet");
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the fabric handle's process cannot share what it names (%d)",
			(int)result);
}

/* This machine has no such port. For a handle of this node there is a sentence already: the exporter is gone. */
static CUresult explain_absent(const struct cn_handle *handle, int daemon_error)
{
	char gone[CN_SENTENCE_BYTES];

	if (handle->node && daemon_error)
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"the exporter is gone, or on another machine: the fabric handle is of node %u, and "
				"cenote-imexd, which leads there, cannot be asked: %s",
				handle->node, cn_node_explain(daemon_error));
	if (handle->node)
		return CUDA_ERROR_NOT_SUPPORTED;
	snprintf(gone, sizeof gone, "%s", cn_last_error());
	return cn_error(CUDA_ERROR_NOT_SUPPORTED,
			"%s; or it is on another machine: the fabric handle was exported without cenote-imexd, so only "
			"the exporter's machine can import it",
			gone);
}

/* Connect to a handle's port, and verify that the listener holds the channel. */
static CUresult call(const struct cn_handle *handle, const struct cn_imex *channel, int daemon_error,
		     struct cn_peer **ret_peer)
{
	static const struct cn_peer_ops no_ops;
	char name[CN_SOCKET_NAME_CHARS + 1];
	struct cn_peer *peer;
	struct ucred who;
	CUresult result = cn_peer_open(&no_ops, NULL, &peer);

	if (result)
		return result;
	cn_port_name(handle->port, name);
	result = cn_wire_reach_fabric(peer->channel.fd, name, cn_fabric_user(handle->port));
	if (result == CUDA_ERROR_NOT_FOUND)
		result = explain_absent(handle, daemon_error);
	else if (result == CUDA_ERROR_INVALID_VALUE) /* the sentence says that the exporter is gone */
		result = CUDA_ERROR_NOT_SUPPORTED;
	else if (!result && (!cn_wire_identify(peer->channel.fd, &who) || who.uid != cn_fabric_user(handle->port)))
		result = cn_error(CUDA_ERROR_NOT_PERMITTED,
				  "the process that answers belongs to another user than the fabric handle says");
	else if (!result && !cn_imex_is_marked(channel, offset_of(handle->port)))
		result = cn_error(
			CUDA_ERROR_NOT_PERMITTED,
			"the exporter's IMEX channel %d is another file than this process's, or this process has none",
			channel->number);
	if (result)
		cn_peer_drop(peer);
	else
		*ret_peer = peer;
	return result;
}

/* Ask for what a handle names: 0 and the reply, which may be a refusal, or errno. */
static int ask(struct cn_peer *peer, const struct cn_handle *handle, const struct cn_imex *channel,
	       struct cn_parcel *ret_reply)
{
	struct cn_peer_question question = {
		.request = {.message = {.kind = CN_MESSAGE_FABRIC,
					.words = {[WORD_NUMBER] = handle->number,
						  [WORD_NODE] = handle->node,
						  [WORD_KIND] = handle->kind}},
			    .descriptors = {channel->fd},
			    .descriptor_count = 1},
	};

	memcpy(question.request.message.bytes, handle->secret, sizeof handle->secret);
	int error = cn_peer_ask(peer, &question, ret_reply);
	if (!error)
		cn_fork_allow(); /* a child that has the descriptor too does no harm */
	if (!error && (ret_reply->message.kind != CN_MESSAGE_FABRIC ||
		       ret_reply->descriptor_count != (ret_reply->message.result ? 0 : 1))) {
		cn_wire_close(ret_reply);
		error = EPROTO;
	}
	return error;
}

/* `daemon_error`: errno, why cenote-imexd did not say whether the handle is of this machine; 0: it is. */
static CUresult fetch(const unsigned char bytes[CN_HANDLE_BYTES], enum cn_fabric_kind kind, int daemon_error,
		      int *ret_fd)
{
	const struct cn_imex *channel;
	struct cn_handle handle;
	struct cn_parcel reply;
	CUresult result = cn_handle_read(bytes, handle_kind(kind), &handle);

	if (!result)
		result = cn_imex_find(handle.channel, &channel);
	/*
	 * A port that closes at once may have had too many clients just then. If it is gone, the second try fails by
	 * its name.
	 */
	for (bool again = false; !result; again = true) {
		struct cn_peer *peer;
		result = call(&handle, channel, daemon_error, &peer);
		if (result)
			break;
		int error = ask(peer, &handle, channel, &reply);
		cn_peer_drop(peer);
		if (error == EPIPE && !again)
			continue;
		if (error)
			return explain_error(error);
		if (reply.message.result)
			return explain_result(reply.message.result, channel->number);
		*ret_fd = reply.descriptors[0];
		break;
	}
	return result;
}

CUresult cn_fabric_fetch(const unsigned char bytes[CN_HANDLE_BYTES], enum cn_fabric_kind kind, int *ret_fd)
{
	return fetch(bytes, kind, 0, ret_fd);
}

/* ---- Other machines ---- */

bool cn_fabric_is_ours(const unsigned char bytes[CN_HANDLE_BYTES], enum cn_fabric_kind kind)
{
	struct cn_handle handle;

	memcpy(&handle, bytes, sizeof handle);
	return handle.magic == CN_HANDLE_MAGIC && handle.version == CN_HANDLE_VERSION &&
	       handle.kind == handle_kind(kind);
}

/* The number of the node that a handle names; 0: it names none, or is no such handle. */
static uint32_t node_of(const unsigned char bytes[CN_HANDLE_BYTES], enum cn_fabric_kind kind)
{
	struct cn_handle handle;

	memcpy(&handle, bytes, sizeof handle);
	return cn_fabric_is_ours(bytes, kind) ? handle.node : 0;
}

CUresult cn_fabric_find(const unsigned char bytes[CN_HANDLE_BYTES], enum cn_fabric_kind kind, int *ret_fd)
{
	uint32_t node = node_of(bytes, kind), own = 0;
	int error = node ? cn_node_ask_number(&own) : 0;

	if (!node || error || own == node) /* without a daemon it can only be this machine's */
		return fetch(bytes, kind, error, ret_fd);
	*ret_fd = -1;
	return CUDA_SUCCESS;
}

CUresult cn_fabric_open_elsewhere(const unsigned char bytes[CN_HANDLE_BYTES], enum cn_fabric_kind kind,
				  struct cn_node_memory **ret_memory, struct cn_node_facts *ret_facts)
{
	const struct cn_imex *channel;
	struct cn_handle handle;
	CUresult result = cn_handle_read(bytes, handle_kind(kind), &handle);

	if (result)
		return result;
	result = cn_imex_find(handle.channel, &channel);
	if (result)
		return result;
	result = cn_node_open(bytes, handle.node, channel->fd, ret_memory, ret_facts);
	if (result || kind == CN_FABRIC_POOL) /* the import of a pool reports itself */
		return result;
	cn_node_count(*ret_memory, ret_facts->bytes);
	cn_port_open_soon(); /* no process of this machine could say that this one has it */
	cn_port_changed();
	return CUDA_SUCCESS;
}

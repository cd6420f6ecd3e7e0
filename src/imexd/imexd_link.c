/* SPDX-License-Identifier: MIT */
/*
 * Connections between nodes.
 *
 * The node with the lower number connects, and tries again after a while. A caller must come from the address of a
 * listed node, show the key, and then say which node it is, all within a few seconds; until then it is a stranger, and
 * strangers are few. A node that connects again replaces the connection that it had: it knows better that it is gone.
 *
 * What is sent goes through one record a connection, so that small frames travel together. A connection says something
 * each second, and ends if nothing was heard for some seconds: that is how a cut cable is noticed.
 */
#include "daemon/daemon.h"
#include "imexd/imexd.h"

#include "base/container.h"
#include "base/descriptor.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { ROUNDS_MAX = 64, BACKLOG = 64, ACCEPTS_MAX = 16 };

enum state { CONNECTING, SHAKING, GREETING, UP };

struct cn_imexd_link {
	struct cn_imexd_source source;
	int fd;
	void *channel; /* of the transport; NULL: not yet, or ended */
	enum state state;
	bool connects, ended, waits_to_send;
	struct cn_imexd_node *node; /* of a stranger: one that has its address */
	struct cn_imexd_link *next, *previous;
	uint64_t deadline_ns, heard_ns, said_ns;

	struct cn_imexd_frame in;
	size_t in_bytes, in_payload;
	char *into; /* where the bytes of the frame go; NULL: nowhere */
	char small[CN_NODE_HANDLE_BYTES];

	struct cn_imexd_send *first, *last;
	size_t first_at; /* so much of the first one is in the record */
	size_t record_bytes;
	char record[CN_IMEXD_RECORD_BYTES];
};

static struct cn_imexd_link *links;

/* ---- Life ---- */

static void free_link(struct cn_imexd_source *source)
{
	free(source);
}

static bool is_strange(const struct cn_imexd_link *link)
{
	return !link->connects && link->state != UP;
}

static void end(struct cn_imexd_link *link, const char *why)
{
	struct cn_imexd_node *node = link->node;

	if (link->ended)
		return;
	link->ended = true;
	if (is_strange(link)) {
		cn_imexd.stranger_count--;
		node->stranger_count--;
	}
	if (link->next)
		link->next->previous = link->previous;
	*(link->previous ? &link->previous->next : &links) = link->next;
	if (link->channel)
		cn_imexd.transport->close(link->channel);
	link->channel = NULL;
	cn_imexd_unwatch(link->fd);
	close(link->fd);
	while (link->first) {
		struct cn_imexd_send *send = link->first;
		link->first = send->next;
		send->sent(send, true);
	}
	if (node->link == link) {
		bool was_up = node->is_up;
		node->link = NULL;
		node->is_up = false;
		node->next_ns = cn_clock_ns() + CN_IMEXD_AGAIN_MS * CN_MILLISECOND_NS;
		if (was_up && why)
			cn_daemon_log("node %u is gone: %s", node->number, why);
		cn_imexd_program_lost(node);
		cn_imexd_serve_lost(node);
	}
	cn_imexd_bury(&link->source);
}

void cn_imexd_link_cut(struct cn_imexd_node *node, const char *why)
{
	if (node->link)
		end(node->link, why);
}

static void link_ready(struct cn_imexd_source *source, uint32_t events);

static struct cn_imexd_link *make(int fd, struct cn_imexd_node *node, bool connects, uint32_t events)
{
	struct cn_imexd_link *link = calloc(1, sizeof *link);

	if (!link)
		return NULL;
	link->source = (struct cn_imexd_source){.ready = link_ready, .free = free_link};
	link->fd = fd;
	link->node = node;
	link->connects = connects;
	link->deadline_ns = cn_clock_ns() + CN_IMEXD_SHAKE_MS * CN_MILLISECOND_NS;
	if (!cn_imexd_watch(fd, &link->source, events)) {
		free(link);
		return NULL;
	}
	link->next = links;
	if (links)
		links->previous = link;
	links = link;
	return link;
}

/* ---- Sending ---- */

static void fill_record(struct cn_imexd_link *link)
{
	while (link->first && link->record_bytes < sizeof link->record) {
		struct cn_imexd_send *send = link->first;
		const size_t head_bytes = sizeof send->frame, all = head_bytes + send->frame.bytes;
		size_t room = sizeof link->record - link->record_bytes, at = link->first_at;
		bool head = at < head_bytes;
		const char *payload = send->payload ? send->payload : "";
		const char *from = head ? (const char *)&send->frame + at : payload + (at - head_bytes);
		size_t part = (head ? head_bytes : all) - at;

		part = part < room ? part : room;
		memcpy(link->record + link->record_bytes, from, part);
		link->record_bytes += part;
		link->first_at += part;
		if (link->first_at < all)
			continue;
		link->first = send->next;
		if (!link->first)
			link->last = NULL;
		link->first_at = 0;
		send->sent(send, false);
	}
}

static void want(struct cn_imexd_link *link, bool sends)
{
	if (link->waits_to_send != sends)
		cn_imexd_rewatch(link->fd, &link->source, EPOLLIN | (sends ? EPOLLOUT : 0));
	link->waits_to_send = sends;
}

static void pump(struct cn_imexd_link *link)
{
	for (int round = 0; round < ROUNDS_MAX; round++) {
		if (!link->record_bytes)
			fill_record(link);
		if (!link->record_bytes) {
			want(link, false);
			return;
		}
		ssize_t sent = cn_imexd.transport->send(link->channel, link->record, link->record_bytes);
		if (sent == -EAGAIN)
			break;
		if (sent <= 0) {
			end(link, "it cannot be sent to");
			return;
		}
		link->said_ns = cn_clock_ns();
		link->record_bytes -= (size_t)sent;
		if (link->record_bytes)
			memmove(link->record, link->record + sent, link->record_bytes);
	}
	want(link, true);
}

static void append(struct cn_imexd_link *link, struct cn_imexd_send *send)
{
	send->frame.magic = CN_IMEXD_MAGIC;
	send->next = NULL;
	*(link->last ? &link->last->next : &link->first) = send;
	link->last = send;
}

void cn_imexd_link_send(struct cn_imexd_node *node, struct cn_imexd_send *send)
{
	append(node->link, send); /* sent when the round ends: see cn_imexd_link_tend() */
}

static void free_send(struct cn_imexd_send *send, bool lost)
{
	(void)lost;
	free(send);
}

static bool tell(struct cn_imexd_link *link, const struct cn_imexd_frame *frame)
{
	struct cn_imexd_send *send = calloc(1, sizeof *send);

	if (!send)
		return false;
	send->frame = *frame;
	send->sent = free_send;
	append(link, send);
	return true;
}

bool cn_imexd_link_tell(struct cn_imexd_node *node, const struct cn_imexd_frame *frame)
{
	return tell(node->link, frame);
}

/* ---- Receiving ---- */

/* The other side has the key. Which node is it? */
static bool greeted(struct cn_imexd_link *link)
{
	const struct cn_imexd_frame *frame = &link->in;
	uint64_t number = frame->memory;

	if (frame->kind != CN_IMEXD_HELLO || frame->bytes || frame->flags != CN_IMEXD_VERSION || !number ||
	    number > cn_imexd.node_count || number == cn_imexd.self)
		return false;
	struct cn_imexd_node *node = &cn_imexd.nodes[number];
	if (frame->value != cn_imexd.list_check) {
		cn_daemon_log("node %u has another list of nodes", node->number);
		return false;
	}
	if (link->connects ? node != link->node
			   : number > cn_imexd.self || !cn_imexd_is_address(&node->address, &link->node->address))
		return false;
	if (is_strange(link)) {
		cn_imexd.stranger_count--;
		link->node->stranger_count--;
	}
	link->state = UP;
	link->node = node;
	if (node->link != link)
		cn_imexd_link_cut(node, "it has connected again");
	node->link = link;
	node->is_up = true;
	node->life++;
	cn_daemon_log("node %u is up", node->number);
	return true;
}

/* A frame's head has come. False: it must not have. */
static bool begin_frame(struct cn_imexd_link *link)
{
	const struct cn_imexd_frame *frame = &link->in;

	link->into = NULL;
	if (frame->magic != CN_IMEXD_MAGIC || !frame->kind || frame->kind >= CN_IMEXD_KIND_COUNT ||
	    frame->bytes > CN_HOST_REMOTE_SLOT_BYTES)
		return false;
	if (link->state == GREETING)
		return greeted(link);
	if (frame->kind == CN_IMEXD_DONE)
		return cn_imexd_program_answer(link->node, frame, &link->into);
	if (frame->kind == CN_IMEXD_PING)
		return !frame->bytes;
	if (frame->kind == CN_IMEXD_HELLO)
		return false;
	if (frame->kind == CN_IMEXD_OPEN || frame->kind == CN_IMEXD_BLOCK)
		link->into = link->small;
	return cn_imexd_serve_frame(link->node, frame, &link->into);
}

static bool end_frame(struct cn_imexd_link *link)
{
	const struct cn_imexd_frame *frame = &link->in;

	if (frame->kind == CN_IMEXD_DONE)
		return cn_imexd_program_answered(link->node, frame);
	if (frame->kind == CN_IMEXD_PUT || frame->kind == CN_IMEXD_OPEN || frame->kind == CN_IMEXD_BLOCK)
		return cn_imexd_serve_bytes(link->node, frame, link->into);
	return true;
}

static bool take(struct cn_imexd_link *link, const char *bytes, size_t count)
{
	while (count) {
		size_t part;
		if (link->in_bytes < sizeof link->in) {
			part = sizeof link->in - link->in_bytes;
			part = part < count ? part : count;
			memcpy((char *)&link->in + link->in_bytes, bytes, part);
			link->in_bytes += part;
			if (link->in_bytes == sizeof link->in && !begin_frame(link))
				return false;
		} else {
			part = link->in.bytes - link->in_payload;
			part = part < count ? part : count;
			if (link->into)
				memcpy(link->into + link->in_payload, bytes, part);
			link->in_payload += part;
		}
		bytes += part;
		count -= part;
		if (link->ended)
			return true;
		if (link->in_bytes == sizeof link->in && link->in_payload == link->in.bytes) {
			link->in_bytes = link->in_payload = 0;
			if (!end_frame(link))
				return false;
			if (link->ended)
				return true;
		}
	}
	return true;
}

static void receive(struct cn_imexd_link *link)
{
	static char bytes[CN_IMEXD_RECORD_BYTES];

	for (int round = 0; round < ROUNDS_MAX && !link->ended; round++) {
		ssize_t got = cn_imexd.transport->receive(link->channel, bytes, sizeof bytes);
		if (got == -EAGAIN)
			return;
		if (got <= 0) {
			end(link, "the connection has ended");
			return;
		}
		link->heard_ns = cn_clock_ns();
		if (!take(link, bytes, (size_t)got))
			end(link, "it broke the protocol");
	}
}

/* ---- Connecting ---- */

static void greet(struct cn_imexd_link *link)
{
	const struct cn_imexd_frame hello = {
		.kind = CN_IMEXD_HELLO,
		.flags = CN_IMEXD_VERSION,
		.memory = cn_imexd.self,
		.value = cn_imexd.list_check,
		.count = cn_imexd.epoch,
	};

	link->state = GREETING;
	link->heard_ns = cn_clock_ns();
	want(link, false);
	if (!tell(link, &hello))
		end(link, NULL);
}

static void shake(struct cn_imexd_link *link)
{
	int error = cn_imexd.transport->shake(link->channel);

	if (!error) {
		greet(link);
		return;
	}
	if (error != EAGAIN) {
		cn_daemon_log("a connection %s node %u failed: not the same key, or no node",
			      link->connects ? "to" : "from the address of", link->node->number);
		end(link, NULL);
		return;
	}
	want(link, cn_imexd.transport->shake_sends(link->channel));
}

static bool begin_shaking(struct cn_imexd_link *link)
{
	static const int on = 1;

	setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	link->channel = cn_imexd.transport->open(link->fd, link->connects);
	link->state = SHAKING;
	return link->channel;
}

static void connected(struct cn_imexd_link *link)
{
	int error = 0;

	if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}) || error ||
	    !begin_shaking(link)) {
		end(link, NULL);
		return;
	}
	link->waits_to_send = true; /* as it was watched while it connected */
	shake(link);
}

static void link_ready(struct cn_imexd_source *source, uint32_t events)
{
	struct cn_imexd_link *link = cn_container_of(source, struct cn_imexd_link, source);

	if (link->state == CONNECTING) {
		connected(link);
	} else if (link->state == SHAKING) {
		shake(link);
	} else {
		if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
			receive(link);
		if (!link->ended && events & EPOLLOUT)
			pump(link);
	}
}

static int make_socket(const struct cn_imexd_address *address)
{
	return cn_descriptor_raise(
		socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
}

static void connect_to(struct cn_imexd_node *node)
{
	struct cn_imexd_address own = cn_imexd.nodes[cn_imexd.self].address;
	int fd = make_socket(&node->address);

	node->next_ns = cn_clock_ns() + CN_IMEXD_AGAIN_MS * CN_MILLISECOND_NS;
	if (fd < 0)
		return;
	/* From the address by which the others know this node: they would refuse another one. */
	if (own.any.sa_family == AF_INET)
		own.v4.sin_port = 0;
	else
		own.v6.sin6_port = 0;
	if ((own.any.sa_family == node->address.any.sa_family && bind(fd, &own.any, own.bytes)) ||
	    (connect(fd, &node->address.any, node->address.bytes) && errno != EINPROGRESS)) {
		close(fd);
		return;
	}
	node->link = make(fd, node, true, EPOLLIN | EPOLLOUT);
	if (!node->link)
		close(fd);
}

/* ---- Being called ---- */

const char *cn_imexd_link_listen(int *ret_fd)
{
	static const int on = 1;
	const struct cn_imexd_address *own = &cn_imexd.nodes[cn_imexd.self].address;
	int fd = make_socket(own);

	if (fd < 0)
		return "no socket could be made";
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) || bind(fd, &own->any, own->bytes) ||
	    listen(fd, BACKLOG)) {
		close(fd);
		return "this node's address cannot be listened at";
	}
	*ret_fd = fd;
	return NULL;
}

static struct cn_imexd_node *find_node(const struct cn_imexd_address *address)
{
	for (uint32_t i = 1; i <= cn_imexd.node_count; i++)
		if (i != cn_imexd.self && cn_imexd_is_address(&cn_imexd.nodes[i].address, address))
			return &cn_imexd.nodes[i];
	return NULL;
}

/* Not a listed node: it is closed without a word, and costs nothing. */
static bool admit(int fd, const struct cn_imexd_address *address)
{
	struct cn_imexd_node *node = find_node(address);

	if (!node || cn_imexd.stranger_count >= CN_IMEXD_STRANGERS_MAX ||
	    node->stranger_count >= CN_IMEXD_STRANGERS_OF_NODE_MAX)
		return false;
	struct cn_imexd_link *link = make(fd, node, false, EPOLLIN);
	if (!link)
		return false;
	cn_imexd.stranger_count++;
	node->stranger_count++;
	if (!begin_shaking(link))
		end(link, NULL);
	return true;
}

void cn_imexd_link_accept(int network_fd)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct cn_imexd_address address = {.bytes = sizeof(struct sockaddr_in6)};
		int fd = cn_descriptor_raise(
			accept4(network_fd, &address.any, &address.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
		if (fd < 0)
			return;
		if (!admit(fd, &address))
			close(fd);
	}
}

/* ---- Time ---- */

static uint64_t tend(struct cn_imexd_link *link, uint64_t now_ns)
{
	const uint64_t silence_ns = CN_IMEXD_SILENCE_MS * CN_MILLISECOND_NS,
		       ping_ns = CN_IMEXD_PING_MS * CN_MILLISECOND_NS;

	if (link->state != UP && now_ns >= link->deadline_ns) {
		end(link, NULL);
		return UINT64_MAX;
	}
	if (link->state == UP && now_ns > link->heard_ns + silence_ns) {
		end(link, "nothing was heard of it");
		return UINT64_MAX;
	}
	if (link->state == UP && !link->first && now_ns >= link->said_ns + ping_ns) {
		tell(link, &(struct cn_imexd_frame){.kind = CN_IMEXD_PING});
		link->said_ns = now_ns;
	}
	if (link->state >= GREETING && link->first && !link->waits_to_send)
		pump(link);
	return link->state == UP ? now_ns + ping_ns / 2 : link->deadline_ns;
}

uint64_t cn_imexd_link_tend(uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX, due_ns;
	struct cn_imexd_link *next;

	for (uint32_t i = cn_imexd.self + 1; i <= cn_imexd.node_count; i++) {
		struct cn_imexd_node *node = &cn_imexd.nodes[i];
		if (!node->link && now_ns >= node->next_ns)
			connect_to(node);
		if (!node->link && node->next_ns < next_ns)
			next_ns = node->next_ns;
	}
	for (struct cn_imexd_link *link = links; link; link = next) {
		next = link->next;
		due_ns = tend(link, now_ns);
		next_ns = due_ns < next_ns ? due_ns : next_ns;
	}
	return next_ns;
}

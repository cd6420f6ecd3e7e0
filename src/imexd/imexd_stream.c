/* SPDX-License-Identifier: MIT */
/*
 * The transport *tls*: frames, one after the other, through the encrypted stream of a TCP connection (imexd_tls.c).
 *
 * What is sent goes through one record a connection, so that small frames travel together. What comes is copied from a
 * record to where its frame says, by the loop's thread: so nothing is written after close().
 */
#include "imexd/imexd_tls.h"

#include "base/container.h"
#include "base/descriptor.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { ROUNDS_MAX = 64, BACKLOG = 64, ACCEPTS_MAX = 16 };

struct cn_imexd_channel {
	struct cn_imexd_source source;
	struct cn_imexd_link *link;
	int fd;
	void *session; /* of TLS; NULL: not yet */
	enum { CONNECTING, SHAKING, OPEN } state;
	bool connects, closed, waits_to_send;

	struct cn_imexd_receive in;
	size_t in_bytes, in_payload;

	struct cn_imexd_channel *next_gathered; /* of those that flush() looks at */
	bool is_gathered;
	struct cn_imexd_send *first, *last;
	size_t first_at; /* so much of the first one is in the record */
	size_t record_bytes;
	char record[CN_IMEXD_RECORD_BYTES];
};

static int network_fd = -1;
static struct cn_imexd_channel *gathered; /* that have something to send */

/* ---- Life ---- */

static void free_channel(struct cn_imexd_source *source)
{
	free(cn_container_of(source, struct cn_imexd_channel, source));
}

static void channel_ready(struct cn_imexd_source *source, uint32_t events);

/* The descriptor is the channel's from now on. */
static struct cn_imexd_channel *make(int fd, bool connects)
{
	struct cn_imexd_channel *channel = calloc(1, sizeof *channel);

	if (channel) {
		channel->source = (struct cn_imexd_source){.ready = channel_ready, .free = free_channel};
		channel->fd = fd;
		channel->connects = channel->waits_to_send = connects;
		if (cn_imexd_watch(fd, &channel->source, EPOLLIN | (connects ? EPOLLOUT : 0)))
			return channel;
	}
	free(channel);
	close(fd);
	return NULL;
}

static void close_channel(struct cn_imexd_channel *channel)
{
	struct cn_imexd_channel **at = &gathered;

	channel->closed = true;
	while (*at && *at != channel)
		at = &(*at)->next_gathered;
	if (*at)
		*at = channel->next_gathered;
	if (channel->session)
		cn_imexd_tls_close(channel->session);
	cn_imexd_unwatch(channel->fd);
	close(channel->fd);
	cn_imexd_link_drop(&channel->in);
	while (channel->first) {
		struct cn_imexd_send *send = channel->first;
		channel->first = send->next;
		send->sent(send, true);
	}
	cn_imexd_bury(&channel->source);
}

/* ---- Sending ---- */

static void fill_record(struct cn_imexd_channel *channel)
{
	while (channel->first && channel->record_bytes < sizeof channel->record) {
		struct cn_imexd_send *send = channel->first;
		const size_t head_bytes = sizeof send->frame, all = head_bytes + send->frame.bytes;
		size_t room = sizeof channel->record - channel->record_bytes, at = channel->first_at;
		bool head = at < head_bytes;
		const char *payload = send->payload ? send->payload : "";
		const char *from = head ? (const char *)&send->frame + at : payload + (at - head_bytes);
		size_t part = (head ? head_bytes : all) - at;

		part = part < room ? part : room;
		memcpy(channel->record + channel->record_bytes, from, part);
		channel->record_bytes += part;
		channel->first_at += part;
		if (channel->first_at < all)
			continue;
		channel->first = send->next;
		if (!channel->first)
			channel->last = NULL;
		channel->first_at = 0;
		send->sent(send, false);
	}
}

static void want(struct cn_imexd_channel *channel, bool sends)
{
	if (channel->waits_to_send != sends)
		cn_imexd_rewatch(channel->fd, &channel->source, EPOLLIN | (sends ? EPOLLOUT : 0));
	channel->waits_to_send = sends;
}

static void pump(struct cn_imexd_channel *channel)
{
	for (int round = 0; round < ROUNDS_MAX; round++) {
		if (!channel->record_bytes)
			fill_record(channel);
		if (channel->closed) /* by one that was told of what it has sent */
			return;
		if (!channel->record_bytes) {
			want(channel, false);
			return;
		}
		ssize_t sent = cn_imexd_tls_send(channel->session, channel->record, channel->record_bytes);
		if (sent == -EAGAIN)
			break;
		if (sent <= 0) {
			cn_imexd_link_fail(channel->link, "it cannot be sent to");
			return;
		}
		channel->record_bytes -= (size_t)sent;
		if (channel->record_bytes)
			memmove(channel->record, channel->record + sent, channel->record_bytes);
	}
	want(channel, true);
}

static void send_frame(struct cn_imexd_channel *channel, struct cn_imexd_send *send)
{
	send->next = NULL;
	*(channel->last ? &channel->last->next : &channel->first) = send;
	channel->last = send;
	if (channel->is_gathered)
		return;
	channel->is_gathered = true;
	channel->next_gathered = gathered;
	gathered = channel;
}

static bool flush(void)
{
	while (gathered) {
		struct cn_imexd_channel *channel = gathered;
		gathered = channel->next_gathered;
		channel->is_gathered = false;
		if (channel->state == OPEN && !channel->waits_to_send)
			pump(channel);
	}
	return false;
}

/* ---- Receiving ---- */

/* False: the link has ended. */
static bool take(struct cn_imexd_channel *channel, const char *bytes, size_t count)
{
	struct cn_imexd_receive *in = &channel->in;

	while (count) {
		size_t part;
		if (channel->in_bytes < sizeof in->frame) {
			part = sizeof in->frame - channel->in_bytes;
			part = part < count ? part : count;
			memcpy((char *)&in->frame + channel->in_bytes, bytes, part);
			channel->in_bytes += part;
			if (channel->in_bytes == sizeof in->frame && !cn_imexd_link_begin(channel->link, in))
				return false;
		} else {
			part = in->frame.bytes - channel->in_payload;
			part = part < count ? part : count;
			if (in->into)
				memcpy(in->into + channel->in_payload, bytes, part);
			channel->in_payload += part;
		}
		bytes += part;
		count -= part;
		if (channel->in_bytes == sizeof in->frame && channel->in_payload == in->frame.bytes) {
			channel->in_bytes = channel->in_payload = 0;
			if (!cn_imexd_link_finish(channel->link, in))
				return false;
		}
	}
	return true;
}

static void receive(struct cn_imexd_channel *channel)
{
	static char bytes[CN_IMEXD_RECORD_BYTES];

	for (int round = 0; round < ROUNDS_MAX; round++) {
		ssize_t got = cn_imexd_tls_receive(channel->session, bytes, sizeof bytes);
		if (got == -EAGAIN)
			return;
		if (got <= 0) {
			cn_imexd_link_fail(channel->link, "the connection has ended");
			return;
		}
		cn_imexd_link_heard(channel->link);
		if (!take(channel, bytes, (size_t)got))
			return;
	}
}

/* ---- Connecting ---- */

static void shake(struct cn_imexd_channel *channel)
{
	int error = cn_imexd_tls_shake(channel->session);

	if (!error) {
		channel->state = OPEN;
		want(channel, false);
		cn_imexd_link_open(channel->link);
	} else if (error == EAGAIN) {
		want(channel, cn_imexd_tls_shake_sends(channel->session));
	} else {
		cn_imexd_link_refuse(channel->link, "not the same key or transport, or no node");
	}
}

static bool begin_shaking(struct cn_imexd_channel *channel)
{
	static const int on = 1;

	setsockopt(channel->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	channel->session = cn_imexd_tls_open(channel->fd, channel->connects);
	channel->state = SHAKING;
	return channel->session;
}

static void connected(struct cn_imexd_channel *channel)
{
	int error = 0;

	if (getsockopt(channel->fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}) || error ||
	    !begin_shaking(channel)) {
		cn_imexd_link_fail(channel->link, NULL);
		return;
	}
	cn_imexd_link_reached(channel->link);
	shake(channel);
}

static void channel_ready(struct cn_imexd_source *source, uint32_t events)
{
	struct cn_imexd_channel *channel = cn_container_of(source, struct cn_imexd_channel, source);

	if (channel->state == CONNECTING) {
		connected(channel);
	} else if (channel->state == SHAKING) {
		shake(channel);
	} else {
		if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
			receive(channel);
		if (!channel->closed && events & EPOLLOUT)
			pump(channel);
	}
}

static int make_socket(const struct cn_imexd_address *address)
{
	return cn_descriptor_raise(
		socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
}

static struct cn_imexd_channel *connect_channel(struct cn_imexd_link *link, const struct cn_imexd_address *to)
{
	struct cn_imexd_address own = cn_imexd.nodes[cn_imexd.self].address;
	int fd = make_socket(to);

	if (fd < 0)
		return NULL;
	cn_imexd_address_any_port(&own);
	if ((own.any.sa_family == to->any.sa_family && bind(fd, &own.any, own.bytes)) ||
	    (connect(fd, &to->any, to->bytes) && errno != EINPROGRESS)) {
		close(fd);
		return NULL;
	}
	struct cn_imexd_channel *channel = make(fd, true);
	if (channel)
		channel->link = link;
	return channel;
}

/* ---- Being called ---- */

static const char *begin(const struct cn_imexd_settings *settings)
{
	static const int on = 1;
	const struct cn_imexd_address *own = &cn_imexd.nodes[cn_imexd.self].address;
	const char *why = cn_imexd_tls_begin(settings);

	if (why)
		return why;
	network_fd = make_socket(own);
	if (network_fd < 0)
		return "no socket could be made";
	if (setsockopt(network_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
	    bind(network_fd, &own->any, own->bytes) || listen(network_fd, BACKLOG)) {
		close(network_fd);
		return "this node's address cannot be listened at";
	}
	return NULL;
}

/* One that is not a listed node is closed without a word, and costs nothing. */
static void admit(int fd, const struct cn_imexd_address *from)
{
	struct cn_imexd_node *node = cn_imexd_link_admit(from);

	if (!node) {
		close(fd);
		return;
	}
	struct cn_imexd_channel *channel = make(fd, false);
	if (!channel)
		return;
	channel->link = cn_imexd_link_called(node, channel);
	if (!channel->link)
		close_channel(channel);
	else if (!begin_shaking(channel))
		cn_imexd_link_fail(channel->link, NULL);
}

static void node_comes(struct cn_imexd_source *source, uint32_t events)
{
	(void)source;
	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct cn_imexd_address from = {.bytes = sizeof(struct sockaddr_in6)};
		int fd = cn_descriptor_raise(accept4(network_fd, &from.any, &from.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
		if (fd < 0)
			return;
		admit(fd, &from);
	}
}

static bool start(void)
{
	static struct cn_imexd_source network = {.ready = node_comes};

	return cn_imexd_watch(network_fd, &network, EPOLLIN);
}

const struct cn_imexd_transport cn_imexd_transport = {
	.name = "tls",
	.program = "cenote-imexd",
	.has_key = true,
	.begin = begin,
	.start = start,
	.connect = connect_channel,
	.send = send_frame,
	.flush = flush,
	.close = close_channel,
};

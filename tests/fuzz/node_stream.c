/* SPDX-License-Identifier: MIT */
/*
 * Other nodes at cenote-imexd's transport *tls*: bytes that come through TCP, in any parts, and peers that do not read.
 *
 * TLS itself is not here: its functions hand bytes on as they are, few at a time or none where the script says so, and
 * fail when it says so. Peers of the nodes 1 and 3 say frames as they should or changed, hold back a part, read or do
 * not, close, and come again. A program asks meanwhile. After each input all have ended: nothing is held, no session of
 * TLS is open, and no descriptor.
 */
#include "node.h"

#include "imexd/imexd_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	SELF = 2,
	PEERS = 4,
	STEPS_MAX = 40,
	KEPT_BYTES_MAX = 8192, /* that a peer has not sent yet */
	ASKED_MAX = 32,
	FAR_BYTES = 1 << 20,
};

/* ---- TLS that is none ---- */

struct session {
	int fd;
	const void *refused; /* what could not be sent: it must come again */
	size_t refused_bytes;
};

static unsigned session_count;
static unsigned part_bytes; /* 0: all; else at most so many at a time */
static bool is_stuck;       /* nothing can be sent */
static int shake_error;

const char *cn_imexd_tls_begin(const struct cn_imexd_settings *settings)
{
	(void)settings;
	return NULL;
}

void *cn_imexd_tls_open(int fd, bool connects)
{
	struct session *session = calloc(1, sizeof *session);

	(void)connects;
	FUZZ_CHECK(session);
	session->fd = fd;
	session_count++;
	return session;
}

int cn_imexd_tls_shake(void *session)
{
	int error = shake_error;

	FUZZ_CHECK(((struct session *)session)->fd >= 0);
	shake_error = 0;
	return error;
}

bool cn_imexd_tls_shake_sends(void *session)
{
	return ((struct session *)session)->fd >= 0;
}

static size_t part_of(size_t count)
{
	return part_bytes && part_bytes < count ? part_bytes : count;
}

ssize_t cn_imexd_tls_send(void *object, const void *bytes, size_t count)
{
	struct session *session = object;

	FUZZ_CHECK(count && count <= CN_IMEXD_RECORD_BYTES);
	FUZZ_CHECK(!session->refused || (session->refused == bytes && session->refused_bytes == count));
	ssize_t sent = is_stuck ? -1 : send(session->fd, bytes, part_of(count), MSG_DONTWAIT | MSG_NOSIGNAL);
	bool again = is_stuck || (sent < 0 && errno == EAGAIN);
	session->refused = again ? bytes : NULL;
	session->refused_bytes = count;
	return again ? -EAGAIN : sent < 0 ? -EPROTO : sent;
}

ssize_t cn_imexd_tls_receive(void *object, void *ret_bytes, size_t room)
{
	const struct session *session = object;
	ssize_t got = recv(session->fd, ret_bytes, part_of(room), MSG_DONTWAIT);

	return got >= 0 ? got : errno == EAGAIN ? -EAGAIN : -EPROTO;
}

void cn_imexd_tls_close(void *session)
{
	session_count--;
	free(session);
}

/* ---- Peers ---- */

static struct peer {
	int sock; /* -1: none */
	uint32_t node;
	char kept[KEPT_BYTES_MAX];
	size_t kept_bytes;
	/* What the daemon says. */
	struct cn_imexd_frame frame;
	size_t frame_bytes, skip_bytes;
	struct cn_imexd_frame asked[ASKED_MAX];
	unsigned asked_count;
	uint64_t numbers[2]; /* that it has open: memory and a pool */
} peers[PEERS];
static int far_listener; /* where the daemon finds node 3 */

static struct sockaddr_in address_of(uint32_t node)
{
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + node)};
}

static int make_socket(const struct sockaddr_in *from)
{
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	FUZZ_CHECK(sock >= 0);
	FUZZ_CHECK(!bind(sock, (const struct sockaddr *)from, sizeof *from));
	return sock;
}

static void end_peer(struct peer *peer)
{
	if (peer->sock >= 0)
		close(peer->sock);
	memset(peer, 0, sizeof *peer);
	peer->sock = -1;
}

/* What is sent comes at once. So does its end, so that the address can be used again. */
static void begin_peer(struct peer *peer, uint32_t node, int sock)
{
	static const struct linger now = {.l_onoff = 1};
	static const int on = 1;

	end_peer(peer);
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(sock, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	peer->node = node;
	peer->sock = sock;
}

static void connect_peer(struct peer *peer)
{
	const struct cn_imexd_address *to = &cn_imexd.nodes[SELF].address;
	struct sockaddr_in from = address_of(1);

	begin_peer(peer, 1, make_socket(&from));
	if (connect(peer->sock, &to->any, to->bytes) && errno != EINPROGRESS)
		end_peer(peer);
}

/* The daemon has called node 3. */
static void accept_peer(struct peer *peer)
{
	int sock = accept4(far_listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (sock >= 0)
		begin_peer(peer, 3, sock);
}

/* Send of what was kept back. */
static void push(struct peer *peer, size_t bytes)
{
	bytes = bytes < peer->kept_bytes ? bytes : peer->kept_bytes;
	if (peer->sock < 0 || !bytes)
		return;
	ssize_t sent = send(peer->sock, peer->kept, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent <= 0)
		return;
	peer->kept_bytes -= (size_t)sent;
	memmove(peer->kept, peer->kept + sent, peer->kept_bytes);
}

static void keep(struct peer *peer, const void *bytes, size_t count)
{
	size_t room = KEPT_BYTES_MAX - peer->kept_bytes;

	count = count < room ? count : room;
	if (count)
		memcpy(peer->kept + peer->kept_bytes, bytes, count);
	peer->kept_bytes += count;
}

/* A frame of the daemon has come. */
static void hear(struct peer *peer)
{
	const struct cn_imexd_frame *frame = &peer->frame;

	FUZZ_CHECK(frame->magic == CN_IMEXD_MAGIC && frame->kind && frame->kind < CN_IMEXD_KIND_COUNT);
	peer->skip_bytes = frame->bytes;
	peer->frame_bytes = 0;
	if (frame->kind == CN_IMEXD_DONE && frame->memory)
		peer->numbers[frame->value != 0] = frame->memory; /* a pool has an id */
	if (frame->kind >= CN_IMEXD_OPEN && frame->kind < CN_IMEXD_DONE && frame->kind != CN_IMEXD_CLOSE)
		peer->asked[peer->asked_count++ % ASKED_MAX] = *frame;
}

static void read_peer(struct peer *peer)
{
	char bytes[4096];
	ssize_t got;

	while (peer->sock >= 0 && (got = recv(peer->sock, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
		for (ssize_t at = 0; at < got;) {
			size_t left = (size_t)(got - at), part = sizeof peer->frame - peer->frame_bytes;
			if (peer->skip_bytes) {
				part = peer->skip_bytes < left ? peer->skip_bytes : left;
				peer->skip_bytes -= part;
			} else {
				part = part < left ? part : left;
				memcpy((char *)&peer->frame + peer->frame_bytes, bytes + at, part);
				peer->frame_bytes += part;
				if (peer->frame_bytes == sizeof peer->frame)
					hear(peer);
			}
			at += (ssize_t)part;
		}
}

/* ---- What peers say ---- */

static void change(struct fuzz_input *input, struct cn_imexd_frame *frame)
{
	switch (fuzz_below(input, 8)) {
	case 0: frame->count = fuzz_number(input); break;
	case 1: frame->bytes = (uint32_t)fuzz_number(input); break;
	case 2: frame->request = fuzz_number(input); break;
	case 3: frame->outcome = (uint16_t)fuzz_number(input); break;
	case 4: frame->kind = (uint16_t)fuzz_below(input, CN_IMEXD_KIND_COUNT + 1); break;
	case 5: frame->memory = fuzz_number(input); break;
	case 6: frame->offset = fuzz_number(input); break;
	default: ((unsigned char *)frame)[fuzz_below(input, sizeof *frame)] ^= (unsigned char)fuzz_byte(input); break;
	}
}

/* Put a frame behind what is kept back, and send all of it, or a part. */
static void say(struct fuzz_input *input, struct peer *peer, struct cn_imexd_frame *frame, const void *payload)
{
	static const char zeros[4096];
	unsigned how = fuzz_byte(input);

	for (unsigned edits = how & 3; edits; edits--)
		change(input, frame);
	keep(peer, frame, sizeof *frame);
	if (payload)
		keep(peer, payload, CN_NODE_HANDLE_BYTES);
	else
		for (size_t left = frame->bytes, part; left && peer->kept_bytes < KEPT_BYTES_MAX; left -= part) {
			part = left < sizeof zeros ? left : sizeof zeros;
			keep(peer, zeros, part);
		}
	push(peer, how & 4 ? how / 8 : SIZE_MAX);
}

static void say_hello(struct fuzz_input *input, struct peer *peer)
{
	struct cn_imexd_frame hello = {.magic = CN_IMEXD_MAGIC,
				       .kind = CN_IMEXD_HELLO,
				       .flags = CN_IMEXD_VERSION,
				       .memory = peer->node,
				       .value = cn_imexd.list_check};

	say(input, peer, &hello, NULL);
}

static void say_open(struct fuzz_input *input, struct peer *peer, unsigned how)
{
	int object = how % 4 == 1 ? NODE_POOL : how % 4 == 2 ? NODE_BLOCKS : NODE_MEMORY;
	struct cn_imexd_frame open = {.magic = CN_IMEXD_MAGIC,
				      .kind = object == NODE_BLOCKS ? CN_IMEXD_BLOCK : CN_IMEXD_OPEN,
				      .bytes = CN_NODE_HANDLE_BYTES,
				      .memory = peer->numbers[1],
				      .request = node_request()};

	say(input, peer, &open, node_name(object));
}

/* Zeros into the memory, or all of it back: that takes more than a record. */
static void say_request(struct fuzz_input *input, struct peer *peer, unsigned how)
{
	static const uint16_t kinds[] = {CN_IMEXD_GET, CN_IMEXD_PUT, CN_IMEXD_CLOSE, CN_IMEXD_WAIT};
	struct cn_imexd_frame frame = {.magic = CN_IMEXD_MAGIC,
				       .kind = kinds[how % 4],
				       .memory = peer->numbers[how / 4 & 1],
				       .count = 48 << 10,
				       .flags = 4,
				       .value = 1,
				       .request = node_request()};

	if (frame.kind == CN_IMEXD_PUT)
		frame.bytes = how / 8 * 100;
	say(input, peer, &frame, NULL);
}

/* To what the daemon has asked, whether the peer has read it or not. */
static void say_done(struct fuzz_input *input, struct peer *peer, unsigned how)
{
	struct cn_imexd_frame done = {.magic = CN_IMEXD_MAGIC, .kind = CN_IMEXD_DONE, .request = how};
	unsigned count = peer->asked_count < ASKED_MAX ? peer->asked_count : ASKED_MAX;

	if (count && how < 128) {
		const struct cn_imexd_frame *asked = &peer->asked[(peer->asked_count - 1 - how % count) % ASKED_MAX];
		done.request = asked->request;
		done.bytes = asked->kind == CN_IMEXD_GET ? (uint32_t)asked->count : 0;
	} else {
		done.request = how & 127;
	}
	done.memory = 1 + done.request;
	done.count = FAR_BYTES;
	say(input, peer, &done, NULL);
}

/* ---- The script ---- */

static struct fuzz_input none;

static void act(struct fuzz_input *input)
{
	struct peer *peer = &peers[fuzz_below(input, PEERS)];
	unsigned what = fuzz_byte(input), how = what / 16;

	switch (what % 16) {
	case 0: connect_peer(peer); break;
	case 1: accept_peer(peer); break;
	case 2: say_hello(input, peer); break;
	case 3:
	case 4: say_open(input, peer, how); break;
	case 5:
	case 6: say_request(input, peer, fuzz_byte(input)); break;
	case 7:
	case 8: say_done(input, peer, fuzz_byte(input)); break;
	case 9: push(peer, how ? how * 16 : SIZE_MAX); break;
	case 10: read_peer(peer); break;
	case 11: end_peer(peer); break;
	case 12:
		if (peer->sock >= 0)
			shutdown(peer->sock, SHUT_WR);
		break;
	case 13:
		fuzz_bytes(input, peer->kept, 4), peer->kept_bytes = peer->kept_bytes < 4 ? 4 : peer->kept_bytes;
		break;
	default: push(peer, 1 + how); break;
	}
}

static void disturb(struct fuzz_input *input)
{
	static const unsigned times_ms[] = {300, 1100, 2100, 4100};
	unsigned how = fuzz_byte(input);

	switch (how % 8) {
	case 0: node_skip(times_ms[how / 8 % 4]); break;
	case 1: part_bytes = how / 8 * 8; break;
	case 2: is_stuck = how & 8; break;
	case 3: shake_error = how & 8 ? EAGAIN : EPROTO; break;
	case 4: node_program_open(input, how / 8 % 3); break;
	default: node_await_fetches(); break;
	}
}

static void step(struct fuzz_input *input)
{
	unsigned what = fuzz_byte(input);

	switch (what % 8) {
	case 0: node_turn(); break;
	case 1:
	case 2: node_program_act(input); break;
	case 3: disturb(input); break;
	default: act(input); break;
	}
	if (what & 128)
		node_turn();
}

static void bring_up(struct peer *peer)
{
	node_turn();
	say_hello(&none, peer);
	node_turn();
	read_peer(peer);
	FUZZ_CHECK(peer->sock >= 0 && cn_imexd.nodes[peer->node].is_up);
}

static void open_import(struct peer *peer)
{
	node_program_start();
	for (unsigned i = 0; i < 2; i++) {
		node_program_open(&none, i);
		node_turn();
		read_peer(peer);
		say_done(&none, peer, 0);
		node_turn();
	}
	node_program_opened(2);
}

static void begin(unsigned how)
{
	node_skip(CN_IMEXD_AGAIN_MS + 2 * CN_IMEXD_TEND_MS);
	node_turn();
	accept_peer(&peers[1]); /* the daemon calls node 3 */
	if (!(how & 1)) {
		connect_peer(&peers[0]);
		bring_up(&peers[0]);
	}
	if (!(how & 2))
		bring_up(&peers[1]);
	if (!(how & 6))
		open_import(&peers[1]);
	if (!(how & 9)) {
		say_open(&none, &peers[0], 0);
		node_await_fetches();
		read_peer(&peers[0]);
	}
}

/* Connections that the daemon has made, or will have, are ended until there are none. */
static void end(void)
{
	bool has_links;

	is_stuck = false;
	part_bytes = 0;
	shake_error = 0;
	do {
		for (int i = 0; i < PEERS; i++)
			end_peer(&peers[i]);
		accept_peer(&peers[0]);
		node_turn();
		has_links = session_count || cn_imexd.stranger_count || peers[0].sock >= 0;
		for (uint32_t i = 1; i <= cn_imexd.node_count; i++)
			has_links |= cn_imexd.nodes[i].link != NULL;
	} while (has_links);
	node_end();
	node_memory_allow();
	node_memory_check();
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};

	begin(fuzz_byte(&input));
	for (int i = 0; i < STEPS_MAX && input.left; i++)
		step(&input);
	end();
}

/* ---- Preparation ---- */

static void always_ready(struct cn_imexd_source *source, uint32_t events)
{
	(void)source;
	(void)events;
}

static unsigned port_of(int sock)
{
	struct sockaddr_in found = {.sin_port = 0};

	FUZZ_CHECK(!getsockname(sock, (struct sockaddr *)&found, &(socklen_t){sizeof found}));
	return ntohs(found.sin_port);
}

void fuzz_prepare(void)
{
	static struct cn_imexd_source source = {.ready = always_ready};
	struct sockaddr_in far = address_of(3), own = address_of(SELF);
	char nodes[128];

	fuzz_start();
	far_listener = make_socket(&far);
	FUZZ_CHECK(!listen(far_listener, PEERS));
	int probe = make_socket(&own); /* for a port that is free */
	snprintf(nodes, sizeof nodes, "127.0.0.1\n127.0.0.2:%u\n127.0.0.3:%u\n", port_of(probe), port_of(far_listener));
	close(probe);
	const struct cn_imexd_settings settings = {.node = SELF, .nodes_path = node_list(nodes)};
	node_prepare(&settings);
	/* The loop does not sleep. */
	int ready = eventfd(1, EFD_CLOEXEC);
	FUZZ_CHECK(ready >= 0 && cn_imexd_watch(ready, &source, EPOLLIN));
	node_ready_count = 1;
	for (int i = 0; i < PEERS; i++)
		peers[i].sock = -1;
}

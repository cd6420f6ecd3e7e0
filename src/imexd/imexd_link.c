/* SPDX-License-Identifier: MIT */
/*
 * Connections between nodes, whatever carries them.
 *
 * The node with the lower number connects, and tries again after a while. A caller must come from the address of a
 * listed node, satisfy the transport (tls: show the key), and then say which node it is, all within a few seconds;
 * until then it is a stranger, and strangers are few. A node that connects again replaces the connection that it had:
 * it knows better that it is gone.
 *
 * A connection says something each second, and ends if nothing was heard for some seconds: that is how a cut cable is
 * noticed. When it ends, its channel is closed first, and nothing that came over it writes any more; then what was
 * asked of the node fails, and what the node had open here is closed.
 */
#include "daemon/daemon.h"
#include "imexd/imexd.h"

#include "base/container.h"

#include <stdlib.h>
#include <string.h>

struct cn_imexd_link {
	struct cn_imexd_source source; /* for its burial alone */
	struct cn_imexd_channel *channel;
	enum { CONNECTING, GREETING, UP } state;
	bool connects, is_reached, ended;
	struct cn_imexd_node *node; /* of a stranger: one that has its address */
	struct cn_imexd_link *next, *previous;
	uint64_t deadline_ns, heard_ns, said_ns;
	/* Of what was asked: the answer has come, but not its bytes. A second one would write after the first. */
	bool is_answered[CN_IMEXD_REQUESTS_MAX + CN_IMEXD_WATCHES_MAX];
};

static struct cn_imexd_link *links;

/* ---- Life ---- */

static void free_link(struct cn_imexd_source *source)
{
	free(cn_container_of(source, struct cn_imexd_link, source));
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
		cn_imexd_transport.close(link->channel);
	link->channel = NULL;
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

/* Nodes try again each half second: the log has the same reason once, until it is another, or the node was away. */
static bool is_news(struct cn_imexd_failure *failure, const char *why)
{
	uint64_t now_ns = cn_clock_ns(), last_ns = failure->last_ns;
	bool is_same = failure->why && !strcmp(failure->why, why);

	failure->why = why;
	failure->last_ns = now_ns;
	return !is_same || now_ns > last_ns + CN_IMEXD_FORGET_MS * CN_MILLISECOND_NS;
}

static void log_failure(const struct cn_imexd_link *link, const char *why)
{
	if (is_news(&link->node->failures[link->connects], why))
		cn_daemon_log("a connection %s node %u failed: %s", link->connects ? "to" : "from the address of",
			      link->node->number, why);
}

/* It may be that the node does not run yet. So this is for the log after a while, if that knows no better reason. */
static void log_late(const struct cn_imexd_link *link, const char *why)
{
	const char *said = link->node->failures[true].why;

	if (cn_clock_ns() >= link->node->tried_ns + CN_IMEXD_SHAKE_MS * CN_MILLISECOND_NS)
		log_failure(link, said ? said : why);
}

void cn_imexd_link_fail(struct cn_imexd_link *link, const char *why)
{
	if (why && link->connects && link->state != UP)
		log_late(link, why);
	end(link, why);
}

void cn_imexd_link_refuse(struct cn_imexd_link *link, const char *why)
{
	log_failure(link, why);
	end(link, NULL);
}

static struct cn_imexd_link *make(struct cn_imexd_node *node, bool connects)
{
	struct cn_imexd_link *link = calloc(1, sizeof *link);

	if (!link)
		return NULL;
	link->source.free = free_link;
	link->node = node;
	link->connects = connects;
	link->deadline_ns = cn_clock_ns() + CN_IMEXD_SHAKE_MS * CN_MILLISECOND_NS;
	link->next = links;
	if (links)
		links->previous = link;
	links = link;
	return link;
}

/* ---- Sending ---- */

static void send_over(struct cn_imexd_link *link, struct cn_imexd_send *send)
{
	send->frame.magic = CN_IMEXD_MAGIC;
	link->said_ns = cn_clock_ns();
	cn_imexd_transport.send(link->channel, send);
}

void cn_imexd_link_send(struct cn_imexd_node *node, struct cn_imexd_send *send)
{
	send_over(node->link, send);
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
	send_over(link, send);
	return true;
}

bool cn_imexd_link_tell(struct cn_imexd_node *node, const struct cn_imexd_frame *frame)
{
	return tell(node->link, frame);
}

/* ---- Receiving ---- */

/* The transport has let it in. Which node is it? */
static bool greeted(struct cn_imexd_link *link, const struct cn_imexd_frame *frame)
{
	uint64_t number = frame->memory;

	if (frame->kind != CN_IMEXD_HELLO || frame->bytes || !number || number > cn_imexd.node_count ||
	    number == cn_imexd.self)
		return false;
	struct cn_imexd_node *node = &cn_imexd.nodes[number];
	if (frame->flags != CN_IMEXD_VERSION || frame->value != cn_imexd.list_check) {
		const char *what = frame->flags != CN_IMEXD_VERSION ? "version of the daemon" : "list of nodes";
		if (is_news(&node->failures[link->connects], what))
			cn_daemon_log("node %u has another %s", node->number, what);
		return false;
	}
	if (frame->outcome || frame->request || frame->offset || frame->count) /* kept free for later versions */
		return false;
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
	node->tried_ns = 0;
	memset(node->failures, 0, sizeof node->failures);
	cn_daemon_log("node %u is up", node->number);
	return true;
}

static bool answered(struct cn_imexd_link *link, struct cn_imexd_receive *receive)
{
	const struct cn_imexd_frame *frame = &receive->frame;

	if (!cn_imexd_program_answer(link->node, frame, &receive->into) || link->is_answered[frame->request])
		return false;
	link->is_answered[frame->request] = true;
	return true;
}

static bool begin_frame(struct cn_imexd_link *link, struct cn_imexd_receive *receive)
{
	const struct cn_imexd_frame *frame = &receive->frame;

	if (frame->magic != CN_IMEXD_MAGIC || !frame->kind || frame->kind >= CN_IMEXD_KIND_COUNT ||
	    frame->bytes > CN_HOST_REMOTE_PIECE_BYTES || link->state == CONNECTING)
		return false;
	if (link->state == GREETING)
		return greeted(link, frame);
	switch ((enum cn_imexd_kind)frame->kind) {
	case CN_IMEXD_DONE: return answered(link, receive);
	case CN_IMEXD_PING: return !frame->bytes;
	case CN_IMEXD_HELLO: return false;
	default: return cn_imexd_serve_frame(link->node, receive);
	}
}

static bool finish_frame(struct cn_imexd_link *link, const struct cn_imexd_receive *receive)
{
	switch ((enum cn_imexd_kind)receive->frame.kind) {
	case CN_IMEXD_DONE:
		link->is_answered[receive->frame.request] = false;
		return cn_imexd_program_answered(link->node, &receive->frame);
	case CN_IMEXD_PUT:
	case CN_IMEXD_OPEN:
	case CN_IMEXD_BLOCK: return cn_imexd_serve_bytes(link->node, receive);
	default: return true;
	}
}

/* Of begin_frame() and finish_frame(). */
static bool go_on(struct cn_imexd_link *link, bool good, struct cn_imexd_receive *receive)
{
	if (!good)
		end(link, "it broke the protocol");
	if (link->ended)
		cn_imexd_link_drop(receive);
	return !link->ended;
}

bool cn_imexd_link_begin(struct cn_imexd_link *link, struct cn_imexd_receive *receive)
{
	receive->into = NULL;
	receive->served = NULL;
	return go_on(link, begin_frame(link, receive), receive);
}

bool cn_imexd_link_finish(struct cn_imexd_link *link, struct cn_imexd_receive *receive)
{
	bool good = go_on(link, finish_frame(link, receive), receive);

	cn_imexd_link_drop(receive);
	return good;
}

void cn_imexd_link_drop(struct cn_imexd_receive *receive)
{
	struct cn_imexd_served *served = receive->served;

	receive->served = NULL;
	cn_imexd_drop(served);
}

void cn_imexd_link_heard(struct cn_imexd_link *link)
{
	link->heard_ns = cn_clock_ns();
}

/* ---- Beginning ---- */

void cn_imexd_link_open(struct cn_imexd_link *link)
{
	const struct cn_imexd_frame hello = {
		.kind = CN_IMEXD_HELLO,
		.flags = CN_IMEXD_VERSION,
		.memory = cn_imexd.self,
		.value = cn_imexd.list_check,
	};

	link->state = GREETING;
	link->heard_ns = cn_clock_ns();
	if (!tell(link, &hello))
		end(link, NULL);
}

static void connect_to(struct cn_imexd_node *node)
{
	struct cn_imexd_link *link = make(node, true);

	node->next_ns = cn_clock_ns() + CN_IMEXD_AGAIN_MS * CN_MILLISECOND_NS;
	if (!node->tried_ns)
		node->tried_ns = cn_clock_ns();
	if (!link)
		return;
	node->link = link;
	link->channel = cn_imexd_transport.connect(link, &node->address);
	if (!link->channel)
		end(link, NULL);
}

struct cn_imexd_node *cn_imexd_link_admit(const struct cn_imexd_address *from)
{
	for (uint32_t i = 1; i <= cn_imexd.node_count; i++) {
		struct cn_imexd_node *node = &cn_imexd.nodes[i];
		if (i == cn_imexd.self || !cn_imexd_is_address(&node->address, from))
			continue;
		bool full = cn_imexd.stranger_count >= CN_IMEXD_STRANGERS_MAX ||
			    node->stranger_count >= CN_IMEXD_STRANGERS_OF_NODE_MAX;
		return full ? NULL : node;
	}
	return NULL;
}

void cn_imexd_link_reached(struct cn_imexd_link *link)
{
	link->is_reached = true;
}

struct cn_imexd_link *cn_imexd_link_called(struct cn_imexd_node *node, struct cn_imexd_channel *channel)
{
	struct cn_imexd_link *link = make(node, false);

	if (!link)
		return NULL;
	cn_imexd.stranger_count++;
	node->stranger_count++;
	link->channel = channel;
	return link;
}

/* ---- Time ---- */

static void tend(struct cn_imexd_link *link, uint64_t now_ns)
{
	const uint64_t silence_ns = CN_IMEXD_SILENCE_MS * CN_MILLISECOND_NS,
		       ping_ns = CN_IMEXD_PING_MS * CN_MILLISECOND_NS;

	if (link->state != UP && now_ns >= link->deadline_ns && link->connects)
		cn_imexd_link_refuse(link, link->is_reached
						   ? "what listens there is silent: another transport, or no node"
						   : "no answer: another transport, no node, or a firewall");
	else if (link->state != UP && now_ns >= link->deadline_ns)
		end(link, NULL);
	else if (link->state == UP && now_ns > link->heard_ns + silence_ns)
		end(link, "nothing was heard of it");
	else if (link->state == UP && now_ns >= link->said_ns + ping_ns)
		tell(link, &(struct cn_imexd_frame){.kind = CN_IMEXD_PING});
}

uint64_t cn_imexd_link_tend(uint64_t now_ns)
{
	static uint64_t next_ns;
	struct cn_imexd_link *next;

	/* All times here are longer than this. So a round costs the same, however many nodes there are. */
	if (now_ns < next_ns)
		return next_ns;
	next_ns = now_ns + CN_IMEXD_TEND_MS * CN_MILLISECOND_NS;
	for (uint32_t i = cn_imexd.self + 1; i <= cn_imexd.node_count; i++) {
		struct cn_imexd_node *node = &cn_imexd.nodes[i];
		if (!node->link && now_ns >= node->next_ns)
			connect_to(node);
	}
	/* One that ends meanwhile, with another's, is in memory until the round has ended. */
	for (struct cn_imexd_link *link = links; link; link = next) {
		next = link->next;
		if (!link->ended)
			tend(link, now_ns);
	}
	return next_ns;
}

/* SPDX-License-Identifier: MIT */
/*
 * The transport of the target node_frames: see node.h.
 *
 * Frames come when the script says so, several of a connection at a time, and their bytes in parts. A frame that is
 * sent stays with the transport until the script says that it was sent, in any order, or until the connection ends.
 */
#include "node.h"

#include "base/container.h"

#include <stdlib.h>
#include <string.h>

enum { PATTERN = 0xa5 }; /* of bytes that come */

struct node_frame {
	struct cn_imexd_receive receive;
	size_t come_bytes;
	bool has_payload;
	unsigned char payload[CN_NODE_HANDLE_BYTES];
};

struct cn_imexd_channel *node_channels[NODE_CHANNELS_MAX];
bool node_sends_at_once, node_refuses;

/* ---- Channels ---- */

static void free_channel(struct cn_imexd_source *source)
{
	free(cn_container_of(source, struct cn_imexd_channel, source));
}

static struct cn_imexd_channel *make(uint32_t node)
{
	struct cn_imexd_channel **at = node_channels;

	while (at < node_channels + NODE_CHANNELS_MAX && *at)
		at++;
	if (at == node_channels + NODE_CHANNELS_MAX)
		return NULL;
	*at = calloc(1, sizeof **at);
	FUZZ_CHECK(*at);
	(*at)->source.free = free_channel;
	(*at)->node = node;
	return *at;
}

static struct cn_imexd_channel **place_of(const struct cn_imexd_channel *channel)
{
	for (unsigned i = 0; i < NODE_CHANNELS_MAX; i++)
		if (node_channels[i] == channel)
			return &node_channels[i];
	return NULL;
}

/* So many more of the bytes of a frame come. */
static void write_bytes(struct node_frame *frame, size_t bytes)
{
	const struct cn_imexd_receive *receive = &frame->receive;
	size_t left = receive->frame.bytes - frame->come_bytes;

	bytes = bytes < left ? bytes : left;
	if (receive->into && frame->has_payload) {
		for (size_t at = frame->come_bytes; at < frame->come_bytes + bytes; at++)
			receive->into[at] = (char)frame->payload[at % sizeof frame->payload];
	} else if (receive->into) {
		memset(receive->into + frame->come_bytes, PATTERN, bytes);
	}
	frame->come_bytes += bytes;
}

static void close_channel(struct cn_imexd_channel *channel)
{
	struct cn_imexd_channel **place = place_of(channel);

	FUZZ_CHECK(place); /* closed once */
	*place = NULL;
	node_forget(channel);
	for (unsigned i = 0; i < NODE_FRAMES_MAX; i++) {
		struct node_frame *frame = channel->frames[i];
		channel->frames[i] = NULL;
		if (!frame)
			continue;
		write_bytes(frame, SIZE_MAX); /* until close() has returned, a device may write */
		cn_imexd_link_drop(&frame->receive);
		free(frame);
	}
	for (struct cn_imexd_send *send; (send = channel->sends);) {
		channel->sends = send->next;
		send->sent(send, true);
	}
	cn_imexd_bury(&channel->source);
}

void node_call(const struct cn_imexd_address *from, uint32_t node)
{
	struct cn_imexd_node *admitted = cn_imexd_link_admit(from);
	struct cn_imexd_channel *channel = admitted ? make(node) : NULL;

	if (!channel)
		return;
	channel->link = cn_imexd_link_called(admitted, channel);
	FUZZ_CHECK(channel->link);
}

static struct cn_imexd_channel *connect_channel(struct cn_imexd_link *link, const struct cn_imexd_address *to)
{
	uint32_t node = cn_imexd.self + 1;

	while (node < cn_imexd.node_count && to != &cn_imexd.nodes[node].address)
		node++;
	struct cn_imexd_channel *channel = node_refuses ? NULL : make(node);
	if (channel)
		channel->link = link;
	return channel;
}

void node_open(struct cn_imexd_channel *channel)
{
	if (channel->is_open)
		return;
	channel->is_open = true;
	cn_imexd_link_open(channel->link);
}

void node_fail(struct cn_imexd_channel *channel)
{
	cn_imexd_link_fail(channel->link, "the script ends it");
	FUZZ_CHECK(!place_of(channel));
}

/* ---- Frames that come ---- */

static bool is_question(const struct cn_imexd_frame *frame)
{
	return frame->kind >= CN_IMEXD_OPEN && frame->kind < CN_IMEXD_DONE && frame->kind != CN_IMEXD_CLOSE;
}

static struct node_question *find_question(struct cn_imexd_channel *channel, uint64_t request)
{
	for (unsigned i = 0; i < channel->question_count; i++)
		if (channel->questions[i].frame.request == request)
			return &channel->questions[i];
	return NULL;
}

/* Before the daemon has it: it may answer at once. */
static void note_question(struct cn_imexd_channel *channel, struct node_frame *frame)
{
	if (!is_question(&frame->receive.frame))
		return;
	FUZZ_CHECK(channel->question_count < NODE_QUESTIONS_MAX);
	if (find_question(channel, frame->receive.frame.request))
		frame->receive.frame.request = node_request(); /* so that answers can be told apart */
	channel->questions[channel->question_count++] = (struct node_question){
		.frame = frame->receive.frame,
		.object = frame->has_payload ? node_named(frame->payload) : -1,
	};
}

static void finish(struct cn_imexd_channel *channel, struct node_frame *frame)
{
	cn_imexd_link_finish(channel->link, &frame->receive);
	FUZZ_CHECK(!frame->receive.served); /* it needs no drop */
	free(frame);
}

int node_begin(struct cn_imexd_channel *channel, const struct cn_imexd_frame *from, const unsigned char *payload)
{
	unsigned index = 0;

	while (index < NODE_FRAMES_MAX && channel->frames[index])
		index++;
	if (index == NODE_FRAMES_MAX || channel->question_count == NODE_QUESTIONS_MAX)
		return -1;
	struct node_frame *frame = calloc(1, sizeof *frame);
	FUZZ_CHECK(frame);
	frame->receive.frame = *from;
	frame->receive.into = (char *)1; /* whatever was there before */
	frame->has_payload = payload;
	if (payload)
		memcpy(frame->payload, payload, sizeof frame->payload);
	note_question(channel, frame);
	node_may_write(channel, from);
	cn_imexd_link_heard(channel->link);
	if (!cn_imexd_link_begin(channel->link, &frame->receive)) {
		FUZZ_CHECK(!place_of(channel) && !frame->receive.served);
		free(frame);
		return -1;
	}
	FUZZ_CHECK(place_of(channel));
	if (!from->bytes) {
		finish(channel, frame);
		return -1;
	}
	channel->frames[index] = frame;
	return (int)index;
}

void node_deliver(struct cn_imexd_channel *channel, unsigned index, size_t bytes)
{
	struct node_frame *frame = channel->frames[index];

	if (!frame)
		return;
	write_bytes(frame, bytes);
	cn_imexd_link_heard(channel->link);
	if (frame->come_bytes < frame->receive.frame.bytes)
		return;
	channel->frames[index] = NULL;
	finish(channel, frame);
}

/* ---- Frames that are sent ---- */

/* The bytes are there until it was sent. */
static void read_payload(const struct cn_imexd_send *send)
{
	uint32_t bytes = send->frame.bytes;

	FUZZ_CHECK(!bytes || send->payload);
	for (uint32_t at = 0; at < bytes; at += 4096)
		(void)*(volatile const char *)(send->payload + at);
	if (bytes)
		(void)*(volatile const char *)(send->payload + bytes - 1);
}

/* A word that may be read or written in two parts. */
static bool is_torn(const struct cn_imexd_frame *frame)
{
	unsigned bytes = frame->flags & 0xff;

	return (frame->kind == CN_IMEXD_WRITE || frame->kind == CN_IMEXD_WAIT) && (!bytes || frame->offset % bytes);
}

/* Each answer is to something that was asked, and what was opened is what was named. */
static void note_answer(struct cn_imexd_channel *channel, const struct cn_imexd_frame *answer)
{
	struct node_question *question = find_question(channel, answer->request);

	FUZZ_CHECK(question && answer->outcome < CN_NODE_OUTCOME_COUNT);
	FUZZ_CHECK(answer->outcome || !is_torn(&question->frame));
	if (answer->memory) {
		FUZZ_CHECK(!answer->outcome && node_is(question->object, answer->count));
		node_opened(channel, answer->memory, question->object);
	}
	*question = channel->questions[--channel->question_count];
}

static void note_sent(struct cn_imexd_channel *channel, const struct cn_imexd_frame *frame)
{
	FUZZ_CHECK(frame->magic == CN_IMEXD_MAGIC && frame->bytes <= CN_HOST_REMOTE_PIECE_BYTES);
	if (frame->kind == CN_IMEXD_DONE)
		note_answer(channel, frame);
	else if (is_question(frame))
		channel->asked[channel->asked_count++ % NODE_QUESTIONS_MAX] = *frame;
}

static void send_frame(struct cn_imexd_channel *channel, struct cn_imexd_send *send)
{
	FUZZ_CHECK(place_of(channel) && channel->is_open);
	for (unsigned i = 0; i < NODE_CHANNELS_MAX; i++)
		for (const struct cn_imexd_send *other = node_channels[i] ? node_channels[i]->sends : NULL; other;
		     other = other->next)
			FUZZ_CHECK(other != send); /* it is the transport's until it was sent */
	note_sent(channel, &send->frame);
	read_payload(send);
	if (node_sends_at_once) {
		send->sent(send, false);
		return;
	}
	send->next = channel->sends;
	channel->sends = send;
}

void node_complete(struct cn_imexd_channel *channel, unsigned index)
{
	struct cn_imexd_send **at = &channel->sends;

	while (*at && index--)
		at = &(*at)->next;
	struct cn_imexd_send *send = *at;
	if (!send)
		return;
	*at = send->next;
	read_payload(send);
	send->sent(send, false);
}

/* ---- The table ---- */

static const char *begin(const struct cn_imexd_settings *settings)
{
	(void)settings;
	return NULL;
}

static bool start(void)
{
	return true;
}

/* The loop never sleeps: the script goes on. */
static bool flush(void)
{
	return true;
}

const struct cn_imexd_transport cn_imexd_transport = {
	.name = "script",
	.program = "fuzz",
	.begin = begin,
	.start = start,
	.connect = connect_channel,
	.send = send_frame,
	.flush = flush,
	.close = close_channel,
};

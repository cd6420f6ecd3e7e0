/* SPDX-License-Identifier: MIT */
/*
 * What other nodes ask: memory of exporters here, mapped, read and written for them.
 *
 * What was fetched (imexd_fetch.c) is the daemon's to touch, until the other node closes it or is gone: the exporter is
 * not asked again, and is woken for nothing. All touching is done by the daemon's one thread, so once a node's
 * connection has ended nothing of it can write any more. Only then, and after a CLOSE, a block's bit in the pool's
 * ledger is taken out, and the exporter may use it for something else.
 *
 * A wait for a value is looked at in each round of the loop, at first every LOOK_NS_MIN and, the longer it takes, less
 * often, down to every LOOK_NS_MAX.
 */
#include "imexd/imexd.h"

#include "base/container.h"
#include "share/pool/import.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
	LOOK_NS_MIN = 20000,
	LOOK_NS_MAX = 1000000,
	LOOK_SHARE = 8,       /* of the time that it has waited */
	MAPPINGS_OF_POOL = 8, /* its segments and a few chunks */
	HELD_LOOKS_MAX = 256,
};

struct answer {
	struct cn_imexd_send send;
	struct cn_imexd_node *node;
	struct cn_imexd_served *served;
};

struct cn_imexd_watch {
	struct cn_imexd_watch *next;
	struct cn_imexd_served *served;
	struct cn_imexd_frame frame;
	uint64_t since_ns, look_ns;
};

/* ---- Memory ---- */

unsigned cn_imexd_mappings(const struct cn_imexd_served *served)
{
	return served->pool ? 0 : served->import ? MAPPINGS_OF_POOL : 1;
}

void cn_imexd_drop(struct cn_imexd_served *served)
{
	if (!served || --served->references)
		return;
	cn_imexd.mapping_count -= cn_imexd_mappings(served);
	if (served->pool) {
		cn_import_release(served->pool->import, served->address);
		cn_imexd_drop(served->pool);
	} else if (served->import) {
		cn_import_close(served->import);
	} else {
		cn_imexd_unmap(served->address, served->bytes);
	}
	free(served);
}

struct cn_imexd_served *cn_imexd_serve_find(struct cn_imexd_node *node, uint64_t number)
{
	return cn_imexd_table_find(&node->served, number);
}

/* The memory of a request, if it has so many bytes there. */
static struct cn_imexd_served *find(struct cn_imexd_node *node, const struct cn_imexd_frame *frame, uint64_t bytes)
{
	struct cn_imexd_served *served = cn_imexd_serve_find(node, frame->memory);

	if (!served || !served->address || frame->offset > served->bytes || bytes > served->bytes - frame->offset)
		return NULL;
	return served;
}

/* ---- Answers ---- */

static void answer_sent(struct cn_imexd_send *send, bool lost)
{
	struct answer *answer = cn_container_of(send, struct answer, send);

	if (!lost)
		answer->node->serving_count--;
	cn_imexd_drop(answer->served);
	free(answer);
}

/* Answer a request that is counted. With memory, its bytes follow. False: no memory. */
static bool answer_with(struct cn_imexd_node *node, const struct cn_imexd_frame *frame, struct cn_imexd_served *served)
{
	struct answer *answer = calloc(1, sizeof *answer);

	if (!answer)
		return false;
	answer->send.frame = *frame;
	answer->send.frame.kind = CN_IMEXD_DONE;
	answer->send.sent = answer_sent;
	answer->node = node;
	if (served) {
		served->references++;
		answer->served = served;
		answer->send.payload = served->address + frame->offset;
	}
	cn_imexd_link_send(node, &answer->send);
	return true;
}

static bool answer(struct cn_imexd_node *node, uint64_t request, enum cn_node_outcome outcome)
{
	return answer_with(node, &(struct cn_imexd_frame){.request = request, .outcome = (uint16_t)outcome}, NULL);
}

bool cn_imexd_serve_opened(struct cn_imexd_node *node, uint64_t request, enum cn_node_outcome outcome,
			   struct cn_imexd_served *served)
{
	struct cn_imexd_frame frame = {.request = request};

	if (served)
		served->number = cn_imexd_table_enter(&node->served, served, CN_IMEXD_MEMORY_MAX);
	if (served && !served->number) {
		cn_imexd_drop(served);
		served = NULL;
		outcome = CN_NODE_FULL;
	}
	frame.outcome = (uint16_t)outcome;
	if (served) {
		frame.memory = served->number;
		frame.count = served->bytes;
		frame.offset = served->offset;
		frame.value = served->id;
		frame.flags = served->location;
	}
	return answer_with(node, &frame, NULL);
}

/* ---- Who holds what, for programs here ---- */

/*
 * A cursor is a node's number and a place in its table: the next to look at. Only so many are looked at for one answer,
 * so a program that asks again and again delays the others by no more than that each time. A user is told of its own
 * memory, and root of all.
 */
static uint64_t list_held(uint64_t cursor, uid_t user, struct cn_node_held held[CN_NODE_HELD_EACH])
{
	uint64_t number = cursor >> 32;
	uint32_t place = (uint32_t)cursor;
	unsigned found = 0;

	number = number ? number : 1;
	for (unsigned looks = 0; number <= cn_imexd.node_count; looks++) {
		const struct cn_imexd_table *table = &cn_imexd.nodes[number].served;
		if (found == CN_NODE_HELD_EACH || looks == HELD_LOOKS_MAX)
			return number << 32 | place;
		if (place >= table->used) {
			number++;
			place = 0;
			continue;
		}
		const struct cn_imexd_served *served = cn_imexd_table_at(table, place++);
		if (served && served->file && (!user || served->user == user))
			held[found++] = (struct cn_node_held){number, served->file, served->bytes};
	}
	return 0;
}

int cn_imexd_serve_tell(int sock, uid_t user, const struct cn_message *question)
{
	struct cn_parcel parcel = {.message = {.kind = question->kind, .request = question->request}};
	struct cn_node_held_answer answer = {.cursor = 0};

	answer.cursor = list_held(question->words[0], user, answer.held);
	memcpy((char *)&parcel.message + offsetof(struct cn_message, words), &answer, sizeof answer);
	return cn_wire_send(sock, &parcel);
}

/* ---- Words ---- */

static uint64_t read_word(const char *address, unsigned bytes)
{
	if (bytes == sizeof(uint64_t))
		return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)address, memory_order_acquire);
	return atomic_load_explicit((_Atomic uint32_t *)(uintptr_t)address, memory_order_acquire);
}

static void write_word(char *address, unsigned bytes, uint64_t value)
{
	if (bytes == sizeof(uint64_t))
		atomic_store_explicit((_Atomic uint64_t *)(uintptr_t)address, value, memory_order_release);
	else
		atomic_store_explicit((_Atomic uint32_t *)(uintptr_t)address, (uint32_t)value, memory_order_release);
}

static bool word_reached(const struct cn_imexd_watch *watch)
{
	unsigned bytes = watch->frame.flags & 0xff, flags = watch->frame.flags >> 8;

	return cn_host_value_compare(read_word(watch->served->address + watch->frame.offset, bytes), watch->frame.value,
				     bytes, flags);
}

static void end_watch(struct cn_imexd_watch *watch)
{
	cn_imexd.watch_count--;
	cn_imexd_drop(watch->served);
	free(watch);
}

static bool begin_watch(struct cn_imexd_node *node, const struct cn_imexd_frame *frame, struct cn_imexd_served *served)
{
	struct cn_imexd_watch *watch = calloc(1, sizeof *watch);

	if (!watch)
		return false;
	served->references++;
	watch->served = served;
	watch->frame = *frame;
	watch->since_ns = cn_clock_ns();
	watch->next = node->watching;
	node->watching = watch;
	cn_imexd.watch_count++;
	return true;
}

/* When to look again; 0: it is over. */
static uint64_t look_at(struct cn_imexd_node *node, struct cn_imexd_watch *watch, uint64_t now_ns)
{
	uint64_t waited_ns = now_ns - watch->since_ns, pause_ns = waited_ns / LOOK_SHARE;
	bool reached = word_reached(watch), over = waited_ns >= CN_NODE_WAIT_MS * CN_MILLISECOND_NS;

	if (!reached && !over) {
		pause_ns = pause_ns > LOOK_NS_MIN ? pause_ns : LOOK_NS_MIN;
		return now_ns + (pause_ns < LOOK_NS_MAX ? pause_ns : LOOK_NS_MAX);
	}
	if (!answer(node, watch->frame.request, reached ? CN_NODE_DONE : CN_NODE_NOT_YET))
		return now_ns + LOOK_NS_MAX; /* no memory: try again */
	return 0;
}

uint64_t cn_imexd_serve_look(uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	for (uint32_t i = 1; i <= cn_imexd.node_count && cn_imexd.watch_count; i++) {
		struct cn_imexd_node *node = &cn_imexd.nodes[i];
		for (struct cn_imexd_watch **at = &node->watching; *at;) {
			struct cn_imexd_watch *watch = *at;
			uint64_t due_ns = look_at(node, watch, now_ns);
			if (due_ns) {
				next_ns = due_ns < next_ns ? due_ns : next_ns;
				at = &watch->next;
				continue;
			}
			*at = watch->next;
			end_watch(watch);
		}
	}
	return next_ns;
}

/* ---- Requests ---- */

static void close_memory(struct cn_imexd_node *node, uint64_t number)
{
	struct cn_imexd_served *served = cn_imexd_serve_find(node, number);

	if (!served)
		return;
	cn_imexd_table_leave(&node->served, number);
	cn_imexd_drop(served);
}

static void fill(char *to, const struct cn_imexd_frame *frame)
{
	uint32_t value = (uint32_t)frame->value;

	if (frame->flags == 1) {
		memset(to, (int)value, frame->count);
		return;
	}
	for (uint64_t at = 0; at < frame->count; at += frame->flags)
		memcpy(to + at, &value, frame->flags);
}

static bool is_element(const struct cn_imexd_frame *frame)
{
	return (frame->flags == 1 || frame->flags == 2 || frame->flags == 4) && !(frame->count % frame->flags) &&
	       frame->count <= CN_HOST_REMOTE_FILL_BYTES;
}

static bool is_word(const struct cn_imexd_frame *frame)
{
	unsigned bytes = frame->flags & 0xff;

	return (bytes == 4 || bytes == 8) && !(frame->offset % bytes);
}

/* A request without bytes. */
static bool serve(struct cn_imexd_node *node, const struct cn_imexd_frame *frame)
{
	struct cn_imexd_served *served = NULL;

	switch ((enum cn_imexd_kind)frame->kind) {
	case CN_IMEXD_GET:
		served = frame->count <= CN_HOST_REMOTE_PIECE_BYTES ? find(node, frame, frame->count) : NULL;
		if (served)
			return answer_with(node,
					   &(struct cn_imexd_frame){.request = frame->request,
								    .bytes = (uint32_t)frame->count,
								    .offset = frame->offset},
					   served);
		break;
	case CN_IMEXD_FILL:
		served = is_element(frame) ? find(node, frame, frame->count) : NULL;
		if (served)
			fill(served->address + frame->offset, frame);
		break;
	case CN_IMEXD_WRITE:
		served = is_word(frame) ? find(node, frame, frame->flags & 0xff) : NULL;
		if (served)
			write_word(served->address + frame->offset, frame->flags & 0xff, frame->value);
		break;
	case CN_IMEXD_WAIT:
		served = is_word(frame) ? find(node, frame, frame->flags & 0xff) : NULL;
		if (served)
			return begin_watch(node, frame, served);
		break;
	default: return false;
	}
	return answer(node, frame->request, served ? CN_NODE_DONE : CN_NODE_MALFORMED);
}

bool cn_imexd_serve_frame(struct cn_imexd_node *node, struct cn_imexd_receive *receive)
{
	const struct cn_imexd_frame *frame = &receive->frame;

	if (frame->kind == CN_IMEXD_CLOSE) {
		close_memory(node, frame->memory);
		return !frame->bytes;
	}
	/* Twice what it may have under way: it may have an answer, and ask again, before it is known here. */
	if (++node->serving_count > 2 * (CN_IMEXD_REQUESTS_MAX + CN_IMEXD_WATCHES_MAX))
		return false;
	if (frame->kind == CN_IMEXD_OPEN || frame->kind == CN_IMEXD_BLOCK) {
		receive->into = receive->small;
		return frame->bytes == sizeof receive->small;
	}
	if (frame->kind == CN_IMEXD_PUT) {
		struct cn_imexd_served *served = find(node, frame, frame->bytes);
		if (served) {
			served->references++; /* a CLOSE may come before all of the bytes */
			receive->served = served;
			receive->into = served->address + frame->offset;
		}
		return true;
	}
	return !frame->bytes && serve(node, frame);
}

bool cn_imexd_serve_bytes(struct cn_imexd_node *node, const struct cn_imexd_receive *receive)
{
	const struct cn_imexd_frame *frame = &receive->frame;

	if (frame->kind == CN_IMEXD_OPEN || frame->kind == CN_IMEXD_BLOCK)
		return cn_imexd_fetch(node, frame, receive->small);
	return answer(node, frame->request, receive->into ? CN_NODE_DONE : CN_NODE_MALFORMED);
}

void cn_imexd_serve_lost(struct cn_imexd_node *node)
{
	while (node->watching) {
		struct cn_imexd_watch *watch = node->watching;
		node->watching = watch->next;
		end_watch(watch);
	}
	for (struct cn_imexd_served *served; (served = cn_imexd_table_take(&node->served));)
		cn_imexd_drop(served);
	node->serving_count = 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * A program's side of cenote-imexd: see node.h.
 *
 * The session's connection answers one question at a time: a thread that opens memory, or asks about nodes, has the
 * lock NODE_ASKING until the answer has come. Lanes are used by one thread each and kept for the next one. Each has the
 * number of its session's *life*; with another session comes another life, and what belongs to an older one is lost.
 */
#include "share/node/node_internal.h"

#include "base/clock.h"
#include "base/container.h"
#include "base/environment.h"
#include "share/wire/identity.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TELL_AGAIN_NS (10 * CN_MILLISECOND_NS)

struct cn_node_client cn_node_client;

/* ---- Connections ---- */

int cn_node_left_ms(uint64_t deadline_ns)
{
	uint64_t now_ns = cn_clock_ns(), left = now_ns >= deadline_ns ? 0 : (deadline_ns - now_ns) / CN_MILLISECOND_NS;

	return now_ns >= deadline_ns ? 0 : left < INT_MAX ? (int)left + 1 : INT_MAX;
}

/* Wait for a message until a deadline: 0, or errno. */
int cn_node_receive(int sock, uint64_t deadline_ns, struct cn_message *ret_message)
{
	struct pollfd polled = {.fd = sock, .events = POLLIN};

	cn_might_wait();
	for (;;) {
		int error = cn_wire_receive_message(sock, ret_message);
		if (error != EAGAIN)
			return error;
		int wait_ms = cn_node_left_ms(deadline_ns);
		if (!wait_ms)
			return ETIMEDOUT;
		if (poll(&polled, 1, wait_ms) < 0 && errno != EINTR)
			return errno;
	}
}

const char *cn_node_explain(int error)
{
	switch (error) {
	case ENOENT:
	case ECONNREFUSED: return "it does not run here, or has another socket; start it, or set CENOTE_IMEX_SOCKET";
	case EACCES: return "its socket is another user's";
	default: return cn_wire_explain(error);
	}
}

CUresult cn_node_no_daemon(int error)
{
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "cenote-imexd, which leads to other machines, cannot be asked: %s",
			cn_node_explain(error));
}

/* A connection to the daemon that no forked child has: 0, or errno. */
int cn_node_reach(struct cn_watch *channel)
{
	cn_fork_hold();
	bool opened = !cn_wire_open(&channel->fd);
	if (opened)
		cn_service_keep(channel);
	cn_fork_allow();
	if (!opened)
		return EMFILE;
	int error = cn_wire_reach_daemon(channel->fd, cn_environment(CN_ENVIRONMENT_IMEX_SOCKET), "imex");
	if (error)
		cn_service_unwatch(channel);
	return error;
}

/* Say hello over a new connection: 0 and the answer, or errno. */
int cn_node_greet(int sock, const unsigned char *key, int memory_fd, struct cn_message *ret_answer)
{
	struct cn_parcel hello = {.message = {.kind = CN_MESSAGE_NODE_HELLO, .request = 1},
				  .descriptors = {memory_fd},
				  .descriptor_count = memory_fd >= 0};

	if (key)
		memcpy(hello.message.bytes, key, CN_NODE_SESSION_BYTES);
	int error = cn_wire_send(sock, &hello);
	if (!error)
		error = cn_node_receive(sock, cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS, ret_answer);
	if (!error && (ret_answer->kind != CN_MESSAGE_NODE_HELLO || ret_answer->request != 1 || ret_answer->result))
		error = EPROTO;
	return error;
}

/* ---- The session ---- */

bool cn_node_session_lives(void)
{
	struct pollfd polled = {.fd = cn_node_client.session.fd, .events = POLLIN};

	return cn_node_client.has_session && !poll(&polled, 1, 0); /* the daemon says nothing unasked */
}

static void end_session_asking(void)
{
	if (!cn_node_client.has_session)
		return;
	cn_lock(&cn_node_client.lock);
	cn_node_client.has_session = false;
	cn_node_client.life++;
	while (cn_node_client.unclosed) {
		struct cn_node_memory *memory = cn_node_client.unclosed;
		cn_node_client.unclosed = memory->next;
		free(memory);
	}
	memset(cn_node_client.lent, 0, sizeof cn_node_client.lent);
	cn_unlock(&cn_node_client.lock);
	cn_service_unwatch(&cn_node_client.session);
}

/* A session, this one or a new one: 0, or errno. */
static int enter_asking(void)
{
	struct cn_message answer;

	if (cn_node_session_lives())
		return 0;
	end_session_asking();
	int error = cn_node_reach(&cn_node_client.session);
	if (error)
		return error;
	error = cn_node_greet(cn_node_client.session.fd, NULL, -1, &answer);
	if (error) {
		cn_service_unwatch(&cn_node_client.session);
		return error;
	}
	cn_lock(&cn_node_client.lock);
	cn_node_client.number = (uint32_t)answer.words[CN_NODE_HELLO_NODE];
	cn_node_client.count = (uint32_t)answer.words[CN_NODE_HELLO_COUNT];
	memcpy(cn_node_client.key, answer.bytes, sizeof cn_node_client.key);
	cn_node_client.has_session = true;
	cn_node_client.life++;
	cn_unlock(&cn_node_client.lock);
	return 0;
}

/* One question over the session that is there: 0 and the answer, or errno, and it has ended. */
static int ask_here_asking(struct cn_parcel *question, struct cn_message *ret_answer)
{
	question->message.request = ++cn_node_client.request;
	int error = cn_wire_send(cn_node_client.session.fd, question);
	if (!error)
		error = cn_node_receive(cn_node_client.session.fd,
					cn_clock_ns() + CN_NODE_ANSWER_MS * CN_MILLISECOND_NS, ret_answer);
	if (!error && (ret_answer->kind != question->message.kind || ret_answer->request != question->message.request))
		error = EPROTO;
	if (error)
		end_session_asking();
	return error;
}

/* The same over any session. */
static int ask_asking(struct cn_parcel *question, struct cn_message *ret_answer)
{
	int error = enter_asking();

	return error ? error : ask_here_asking(question, ret_answer);
}

int cn_node_ask_number(uint32_t *ret_number)
{
	cn_slow_lock(&cn_node_client.asking);
	int error = enter_asking();
	if (!error)
		*ret_number = cn_node_client.number;
	cn_slow_unlock(&cn_node_client.asking);
	return error;
}

uint32_t cn_node_number(void)
{
	uint32_t number = 0;

	return cn_node_ask_number(&number) ? 0 : number;
}

CUresult cn_node_look(uint32_t number, struct cn_node_status *ret_status)
{
	struct cn_parcel question = {.message = {.kind = CN_MESSAGE_NODE_STATUS, .words = {number}}};
	struct cn_message answer;

	cn_slow_lock(&cn_node_client.asking);
	int error = ask_asking(&question, &answer);
	uint32_t self = cn_node_client.number, count = cn_node_client.count;
	cn_slow_unlock(&cn_node_client.asking);
	if (error)
		return cn_node_no_daemon(error);
	if (answer.result)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "no node has the number %u", number);
	*ret_status = (struct cn_node_status){
		.number = (uint32_t)answer.words[CN_NODE_STATUS_NODE],
		.count = count,
		.is_self = answer.words[CN_NODE_STATUS_NODE] == self,
		.is_up = answer.words[CN_NODE_STATUS_UP],
		.import_count = answer.words[CN_NODE_STATUS_IMPORTS],
		.served_count = answer.words[CN_NODE_STATUS_SERVED],
	};
	return CUDA_SUCCESS;
}

/* Ask for the files after a cursor: 0, or errno. */
static int ask_held(uint64_t cursor, struct cn_node_held_answer *ret_held, uint32_t *ret_count)
{
	struct cn_parcel question = {.message = {.kind = CN_MESSAGE_NODE_HELD, .words = {cursor}}};
	struct cn_message answer;

	cn_slow_lock(&cn_node_client.asking);
	int error = ask_asking(&question, &answer);
	*ret_count = cn_node_client.count;
	cn_slow_unlock(&cn_node_client.asking);
	if (error)
		return error;
	memcpy(ret_held, (const char *)&answer + offsetof(struct cn_message, words), sizeof *ret_held);
	/* Cursors grow: a daemon that says otherwise would be asked for ever. */
	return answer.result || (ret_held->cursor && ret_held->cursor <= cursor) ? EPROTO : 0;
}

CUresult cn_node_look_held(void (*tell)(const struct cn_node_held *held, void *data), void *data)
{
	uint64_t end_ns = cn_clock_ns() + CN_NODE_ANSWER_MS * CN_MILLISECOND_NS;
	struct cn_node_held_answer answer = {.cursor = 0};
	uint32_t count;

	do {
		int error = cn_clock_ns() < end_ns ? ask_held(answer.cursor, &answer, &count) : ETIMEDOUT;
		if (error)
			return cn_node_no_daemon(error);
		for (unsigned i = 0; i < CN_NODE_HELD_EACH; i++)
			if (answer.held[i].node && answer.held[i].node <= count)
				tell(&answer.held[i], data);
	} while (answer.cursor);
	return CUDA_SUCCESS;
}

CUresult cn_node_find_daemon(int *ret_pid)
{
	struct cn_watch channel = {.fd = -1};
	struct ucred who;
	int error = cn_node_reach(&channel);

	if (error)
		return cn_node_no_daemon(error);
	*ret_pid = cn_wire_identify(channel.fd, &who) ? who.pid : 0;
	cn_service_unwatch(&channel);
	return CUDA_SUCCESS;
}

/* ---- Memory ---- */

CUresult cn_node_lost(uint32_t node)
{
	return cn_error(
		CUDA_ERROR_EXTERNAL_DEVICE,
		"node %u, or cenote-imexd here or there, has gone since the memory was imported: import it again",
		node);
}

static CUresult refused(int outcome, uint32_t node)
{
	switch (outcome) {
	case CN_NODE_UNKNOWN:
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"the fabric handle is of node %u, which is not in this domain", node);
	case CN_NODE_DOWN:
	case CN_NODE_LOST:
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the fabric handle is of node %u, which is not connected",
				node);
	case CN_NODE_NO_CHANNEL:
		return cn_error(CUDA_ERROR_NOT_PERMITTED,
				"cenote-imexd does not take this process's IMEX channel for its own of that number");
	case CN_NODE_FORBIDDEN:
		return cn_error(CUDA_ERROR_NOT_PERMITTED,
				"cenote-imexd of node %u does not have the exporter's IMEX channel", node);
	case CN_NODE_GONE:
		return cn_error(CUDA_ERROR_NOT_SUPPORTED, "the exporter on node %u is gone, or what it exported is",
				node);
	case CN_NODE_FREED: return cn_error(CUDA_ERROR_INVALID_VALUE, "the exporter has freed the block");
	case CN_NODE_FULL:
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "cenote-imexd here or on node %u has no room left", node);
	default: return cn_error(CUDA_ERROR_NOT_SUPPORTED, "cenote-imexd refused the fabric handle as malformed");
	}
}

/* Ask for memory, a pool or a block. `life`: of the session to which the question belongs; 0: any. */
static CUresult open_by(struct cn_parcel *question, uint32_t node, uint64_t life, struct cn_node_memory **ret_memory,
			struct cn_node_facts *ret_facts)
{
	struct cn_node_memory *memory = calloc(1, sizeof *memory);
	struct cn_message answer = {0};
	const uint64_t *words = answer.words;

	if (!memory)
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for the record of another machine's memory");
	bool is_served = !cn_service_start(); /* in a forked child it does not run */
	cn_slow_lock(&cn_node_client.asking);
	cn_lock(&cn_node_client.lock);
	cn_node_client.is_served = is_served;
	cn_unlock(&cn_node_client.lock);
	int error = enter_asking();
	bool lives = !life || cn_node_client.life == life;
	if (!error && lives)
		error = ask_asking(question, &answer);
	lives = lives && (!life || cn_node_client.life == life || error);
	memory->life = cn_node_client.life;
	cn_slow_unlock(&cn_node_client.asking);
	if (error || !lives || answer.result) {
		free(memory);
		return error ? cn_node_no_daemon(error) : lives ? refused(answer.result, node) : cn_node_lost(node);
	}
	memory->node = node;
	memory->number = words[CN_NODE_OPEN_MEMORY];
	memory->node_life = words[CN_NODE_OPEN_LIFE];
	*ret_facts = (struct cn_node_facts){
		.bytes = words[CN_NODE_OPEN_BYTES],
		.offset = words[CN_NODE_OPEN_OFFSET],
		.id = words[CN_NODE_OPEN_ID],
		.location_type = (int)(words[CN_NODE_OPEN_LOCATION] >> CN_NODE_LOCATION_ID_BITS & 0xff),
		.location_id = (int)(words[CN_NODE_OPEN_LOCATION] & ((1 << CN_NODE_LOCATION_ID_BITS) - 1)),
	};
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

CUresult cn_node_open(const unsigned char handle[CN_NODE_HANDLE_BYTES], uint32_t node, int channel_fd,
		      struct cn_node_memory **ret_memory, struct cn_node_facts *ret_facts)
{
	struct cn_parcel question = {
		.message = {.kind = CN_MESSAGE_NODE_OPEN}, .descriptors = {channel_fd}, .descriptor_count = 1};

	memcpy(question.message.words, handle, CN_NODE_HANDLE_BYTES);
	return open_by(&question, node, 0, ret_memory, ret_facts);
}

CUresult cn_node_open_block(const struct cn_node_memory *pool, const void *data, struct cn_node_memory **ret_memory,
			    struct cn_node_facts *ret_facts)
{
	struct cn_parcel question = {.message = {.kind = CN_MESSAGE_NODE_BLOCK}};

	memcpy(question.message.words, data, CN_NODE_HANDLE_BYTES);
	question.message.words[CN_NODE_BLOCK_POOL] = pool->number;
	return open_by(&question, pool->node, pool->life, ret_memory, ret_facts);
}

uint32_t cn_node_of(const struct cn_node_memory *memory)
{
	return memory->node;
}

bool cn_node_is_same_life(const struct cn_node_memory *one, const struct cn_node_memory *other)
{
	return one->life == other->life && one->node_life == other->node_life;
}

/* ---- What is open, for reports ---- */

/* If there is no memory for it, it is not counted. */
void cn_node_count(struct cn_node_memory *memory, uint64_t bytes)
{
	struct cn_node_opened_sum *fresh = calloc(1, sizeof *fresh), **at = &cn_node_client.sums;
	uint64_t now_ns = cn_clock_ns();

	cn_lock(&cn_node_client.lock);
	while (*at && (*at)->opened.node < memory->node)
		at = &(*at)->next;
	if (fresh && (!*at || (*at)->opened.node != memory->node)) {
		*fresh = (struct cn_node_opened_sum){{.node = memory->node, .since_ns = now_ns}, *at};
		*at = fresh;
		fresh = NULL;
	}
	if (*at && (*at)->opened.node == memory->node) {
		memory->sum = *at;
		memory->counted_bytes = bytes;
		memory->sum->opened.count++;
		memory->sum->opened.bytes += bytes;
	}
	cn_unlock(&cn_node_client.lock);
	free(fresh);
}

static void uncount_locked(struct cn_node_memory *memory)
{
	struct cn_node_opened_sum *sum = memory->sum, **at = &cn_node_client.sums;

	if (!sum)
		return;
	memory->sum = NULL;
	sum->opened.bytes -= memory->counted_bytes;
	if (--sum->opened.count)
		return;
	while (*at != sum)
		at = &(*at)->next;
	*at = sum->next;
	free(sum);
}

bool cn_node_opened_after(uint32_t node, struct cn_node_opened *ret_opened)
{
	cn_lock(&cn_node_client.lock);
	const struct cn_node_opened_sum *sum = cn_node_client.sums;
	while (sum && sum->opened.node <= node)
		sum = sum->next;
	if (sum)
		*ret_opened = sum->opened;
	cn_unlock(&cn_node_client.lock);
	return sum;
}

/* ---- Files, and what is closed ---- */

/* Give back what is used no more. False: the daemon does not read, and has it still. */
static bool give_back_locked(struct cn_node_lent *lent)
{
	struct cn_parcel parcel = {
		.message = {.kind = CN_MESSAGE_NODE_RETURN,
			    .words = {[CN_NODE_LEND_PLACE] = (uint64_t)(lent - cn_node_client.lent)}}};

	if (cn_node_client.has_session && cn_wire_send(cn_node_client.session.fd, &parcel) == EAGAIN)
		return false;
	*lent = (struct cn_node_lent){.file = 0};
	return true;
}

/* False: the daemon does not read. */
static bool give_back_unwanted_locked(void)
{
	for (struct cn_node_lent *lent = cn_node_client.lent; lent < cn_node_client.lent + CN_NODE_LENT_MAX; lent++)
		if (lent->is_unwanted && lent->is_known && !lent->uses && !give_back_locked(lent))
			return false;
	return true;
}

/* False: the daemon does not read. */
static bool close_locked(void)
{
	while (cn_node_client.unclosed) {
		struct cn_node_memory *memory = cn_node_client.unclosed;
		struct cn_parcel parcel = {.message = {.kind = CN_MESSAGE_NODE_CLOSE, .words = {memory->number}}};
		if (cn_node_client.has_session && memory->life == cn_node_client.life &&
		    cn_wire_send(cn_node_client.session.fd, &parcel) == EAGAIN)
			return false;
		cn_node_client.unclosed = memory->next;
		free(memory);
	}
	return true;
}

static void tell_due(struct cn_watch *watch);
static struct cn_watch tell_time = {.fd = -1, .due = tell_due}; /* the service thread's */

/* On the service thread: the daemon has not read all that it is to be told. Try again until it has. */
static void tell_due(struct cn_watch *watch)
{
	cn_lock(&cn_node_client.lock);
	bool done = close_locked() && give_back_unwanted_locked();
	cn_node_client.tells_later = !done;
	cn_unlock(&cn_node_client.lock);
	if (done)
		return;
	watch->due_ns = cn_clock_ns() + TELL_AGAIN_NS;
	if (!watch->watched)
		cn_service_watch(watch); /* only a time: this does not fail */
}

static void tell_posted(struct cn_job *job)
{
	(void)job;
	tell_due(&tell_time);
}

/*
 * Tell the daemon what it is to close and to give back: now, as far as it reads, and the rest later. Otherwise blocks
 * that were freed here would stay held on the other node until this program frees one more.
 */
static void tell_locked(void)
{
	static struct cn_job job = {.run = tell_posted};

	if ((close_locked() && give_back_unwanted_locked()) || !cn_node_client.is_served || cn_node_client.tells_later)
		return;
	cn_node_client.tells_later = true;
	cn_service_post(&job);
}

void cn_node_close(void *object)
{
	struct cn_node_memory *memory = object;

	cn_lock(&cn_node_client.lock);
	uncount_locked(memory);
	memory->next = cn_node_client.unclosed;
	cn_node_client.unclosed = memory;
	tell_locked();
	cn_unlock(&cn_node_client.lock);
}

/* The memory of a file is gone. */
static void forget_file(uint64_t file)
{
	cn_lock(&cn_node_client.lock);
	for (struct cn_node_lent *lent = cn_node_client.lent; lent < cn_node_client.lent + CN_NODE_LENT_MAX; lent++)
		if (lent->file == file)
			lent->is_unwanted = true;
	tell_locked();
	cn_unlock(&cn_node_client.lock);
}

/* A lane uses a place no more. */
void cn_node_release_locked(const struct cn_node_lane *lane)
{
	if (lane->life != cn_node_client.life)
		return;
	for (unsigned place = 0; place < CN_NODE_LENT_MAX; place++)
		cn_node_client.lent[place].uses -= lane->lent >> place & 1;
	tell_locked();
}

/* The place of a file that the daemon has, now used by the lane; -1: it has not. */
static int find_lent_locked(struct cn_node_lane *lane, uint64_t file)
{
	for (int place = 0; place < CN_NODE_LENT_MAX && lane->life == cn_node_client.life; place++) {
		struct cn_node_lent *lent = &cn_node_client.lent[place];
		if (lent->file != file || !lent->is_known || lent->is_unwanted)
			continue;
		lent->uses += !(lane->lent >> place & 1);
		lent->used = ++cn_node_client.lend_count;
		lane->lent |= 1u << place;
		return place;
	}
	return -1;
}

/* A place for one more file: a free one, or that which was not used for the longest time. -1: all are in use. */
static int take_place_locked(const struct cn_node_lane *lane)
{
	int oldest = -1;

	if (!cn_node_client.has_session || lane->life != cn_node_client.life)
		return -1;
	for (int place = 0; place < CN_NODE_LENT_MAX; place++) {
		const struct cn_node_lent *lent = &cn_node_client.lent[place];
		if (!lent->file)
			return place;
		if (lent->is_known && !lent->uses && (oldest < 0 || lent->used < cn_node_client.lent[oldest].used))
			oldest = place;
	}
	return oldest >= 0 && give_back_locked(&cn_node_client.lent[oldest]) ? oldest : -1;
}

/* Lend a file that the daemon has not: its place, used by the lane, or -1. */
static int lend_asking(struct cn_node_lane *lane, const struct cn_host_remote_file *file)
{
	struct cn_parcel question = {.message = {.kind = CN_MESSAGE_NODE_LEND}};
	struct cn_message answer = {.result = CN_NODE_FULL};
	size_t bytes = 0;

	cn_lock(&cn_node_client.lock);
	int place = find_lent_locked(lane, file->number); /* another thread may have */
	bool is_known = place >= 0;
	if (!is_known)
		place = take_place_locked(lane);
	if (!is_known && place >= 0)
		cn_node_client.lent[place] =
			(struct cn_node_lent){.file = file->number, .uses = 1, .used = ++cn_node_client.lend_count};
	cn_unlock(&cn_node_client.lock);
	if (is_known || place < 0)
		return place;
	int fd = cn_host_remote_lend(file, forget_file, &bytes);
	if (fd >= 0) {
		question.descriptors[question.descriptor_count++] = fd;
		question.message.words[CN_NODE_LEND_PLACE] = (uint64_t)place;
		question.message.words[CN_NODE_LEND_BYTES] = bytes;
		if (ask_here_asking(&question, &answer))
			answer.result = CN_NODE_LOST;
		close(fd);
	}
	cn_lock(&cn_node_client.lock);
	bool lives = lane->life == cn_node_client.life;
	if (lives && answer.result == CN_NODE_DONE) {
		cn_node_client.lent[place].is_known = true;
		lane->lent |= 1u << place;
	} else if (lives) {
		cn_node_client.lent[place] = (struct cn_node_lent){.file = 0};
	}
	cn_unlock(&cn_node_client.lock);
	return lives && answer.result == CN_NODE_DONE ? place : -1;
}

unsigned cn_node_lend(struct cn_host_remote_lane *base, const struct cn_host_remote_file *file)
{
	struct cn_node_lane *lane = cn_container_of(base, struct cn_node_lane, base);

	cn_lock(&cn_node_client.lock);
	int place = find_lent_locked(lane, file->number);
	cn_unlock(&cn_node_client.lock);
	/* A question that takes long must not hold up the stream: the slots will do. */
	if (place < 0 && cn_slow_try_lock(&cn_node_client.asking)) {
		place = lend_asking(lane, file);
		cn_slow_unlock(&cn_node_client.asking);
	}
	return (unsigned)(place + 1);
}

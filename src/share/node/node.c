/* SPDX-License-Identifier: MIT */
/*
 * A program's side of cenote-imexd: see node.h.
 *
 * The session's connection answers one question at a time: a thread that opens memory, or asks about nodes, has the
 * lock NODE_ASKING until the answer has come. Lanes are used by one thread each and kept for the next one. Each has the
 * number of its session's *life*; with another session comes another life, and what belongs to an older one is lost.
 */
#include "share/node/node.h"

#include "base/clock.h"
#include "base/container.h"
#include "base/descriptor.h"
#include "base/lock.h"
#include "base/segment.h"
#include "share/peer/service.h"
#include "share/wire/identity.h"
#include "share/wire/wire.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { LANES_MAX = CN_NODE_CONNECTIONS - 1, PENDING = -1, ROOM_MS = 20 };
#define TELL_AGAIN_NS (10 * CN_MILLISECOND_NS)

struct cn_node_memory {
	uint64_t life, number;
	uint64_t node_life; /* of the connection between the daemons */
	uint32_t node;
	struct cn_node_memory *next; /* of those that are still to be closed */
};

struct lane {
	struct cn_host_remote_lane base; /* first */
	struct cn_watch channel;
	uint64_t life;
	uint32_t node[CN_HOST_REMOTE_SLOTS]; /* for sentences */
	int outcome[CN_HOST_REMOTE_SLOTS];   /* enum cn_node_outcome, or PENDING */
	uint32_t touched;                    /* slots whose request names a file, and is not answered */
	uint32_t lent;                       /* places of client.lent that are used */
	struct lane *next;
};

/* A file that the daemon is lent, or being lent. */
struct lent {
	uint64_t file;    /* 0: the place is free */
	unsigned uses;    /* of lanes */
	bool is_known;    /* the daemon has it */
	bool is_unwanted; /* its memory is gone: give it back after the last use */
	uint64_t used;    /* when, as a count */
};

static struct {
	CN_SLOW_LOCK(NODE_ASKING) asking; /* guards what follows, but for changes, which take both locks */
	CN_LOCK(NODE) lock;
	struct cn_watch session; /* fd -1: none */
	bool has_session;
	uint64_t life, request;
	uint32_t number, count;
	unsigned char key[CN_NODE_SESSION_BYTES];

	/* Under `lock` alone. */
	struct lane *lanes; /* that no thread uses */
	unsigned lane_count;
	struct cn_node_memory *unclosed;
	struct lent lent[CN_NODE_LENT_MAX];
	uint64_t lend_count;
	bool is_served, tells_later; /* the service thread runs; it tells the daemon what it had no room for */
	_Atomic uint32_t returned;   /* counts lanes that were given back */
} client;

/* ---- Connections ---- */

static int left_ms(uint64_t deadline_ns)
{
	uint64_t now_ns = cn_clock_ns(), left = now_ns >= deadline_ns ? 0 : (deadline_ns - now_ns) / CN_MILLISECOND_NS;

	return now_ns >= deadline_ns ? 0 : left < INT_MAX ? (int)left + 1 : INT_MAX;
}

/* Wait for a message until a deadline: 0, or errno. */
static int receive(int sock, uint64_t deadline_ns, struct cn_message *ret_message)
{
	struct pollfd polled = {.fd = sock, .events = POLLIN};

	cn_might_wait();
	for (;;) {
		int error = cn_wire_receive_message(sock, ret_message);
		if (error != EAGAIN)
			return error;
		int wait_ms = left_ms(deadline_ns);
		if (!wait_ms)
			return ETIMEDOUT;
		if (poll(&polled, 1, wait_ms) < 0 && errno != EINTR)
			return errno;
	}
}

static CUresult no_daemon(int error)
{
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "cenote-imexd, which leads to other machines, cannot be asked: %s",
			error == ENOENT || error == ECONNREFUSED
				? "it does not run here; start it, or set CENOTE_IMEX_SOCKET"
				: cn_wire_explain(error));
}

/* A connection to the daemon that no forked child has: 0, or errno. */
static int reach(struct cn_watch *channel)
{
	cn_fork_hold();
	bool opened = !cn_wire_open(&channel->fd);
	if (opened)
		cn_service_keep(channel);
	cn_fork_allow();
	if (!opened)
		return EMFILE;
	int error = cn_wire_reach_daemon(channel->fd, secure_getenv("CENOTE_IMEX_SOCKET"), "imex");
	if (error)
		cn_service_unwatch(channel);
	return error;
}

/* Say hello over a new connection: 0 and the answer, or errno. */
static int greet(int sock, const unsigned char *key, int memory_fd, struct cn_message *ret_answer)
{
	struct cn_parcel hello = {.message = {.kind = CN_MESSAGE_NODE_HELLO, .request = 1},
				  .descriptors = {memory_fd},
				  .descriptor_count = memory_fd >= 0};

	if (key)
		memcpy(hello.message.bytes, key, CN_NODE_SESSION_BYTES);
	int error = cn_wire_send(sock, &hello);
	if (!error)
		error = receive(sock, cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS, ret_answer);
	if (!error && (ret_answer->kind != CN_MESSAGE_NODE_HELLO || ret_answer->request != 1 || ret_answer->result))
		error = EPROTO;
	return error;
}

/* ---- The session ---- */

static bool session_lives(void)
{
	struct pollfd polled = {.fd = client.session.fd, .events = POLLIN};

	return client.has_session && !poll(&polled, 1, 0); /* the daemon says nothing unasked */
}

static void end_session_asking(void)
{
	if (!client.has_session)
		return;
	cn_lock(&client.lock);
	client.has_session = false;
	client.life++;
	while (client.unclosed) {
		struct cn_node_memory *memory = client.unclosed;
		client.unclosed = memory->next;
		free(memory);
	}
	memset(client.lent, 0, sizeof client.lent);
	cn_unlock(&client.lock);
	cn_service_unwatch(&client.session);
}

/* A session, this one or a new one: 0, or errno. */
static int enter_asking(void)
{
	struct cn_message answer;

	if (session_lives())
		return 0;
	end_session_asking();
	int error = reach(&client.session);
	if (error)
		return error;
	error = greet(client.session.fd, NULL, -1, &answer);
	if (error) {
		cn_service_unwatch(&client.session);
		return error;
	}
	cn_lock(&client.lock);
	client.number = (uint32_t)answer.words[CN_NODE_HELLO_NODE];
	client.count = (uint32_t)answer.words[CN_NODE_HELLO_COUNT];
	memcpy(client.key, answer.bytes, sizeof client.key);
	client.has_session = true;
	client.life++;
	cn_unlock(&client.lock);
	return 0;
}

/* One question over the session that is there: 0 and the answer, or errno, and it has ended. */
static int ask_here_asking(struct cn_parcel *question, struct cn_message *ret_answer)
{
	question->message.request = ++client.request;
	int error = cn_wire_send(client.session.fd, question);
	if (!error)
		error = receive(client.session.fd, cn_clock_ns() + CN_NODE_ANSWER_MS * CN_MILLISECOND_NS, ret_answer);
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

uint32_t cn_node_number(void)
{
	cn_slow_lock(&client.asking);
	uint32_t number = enter_asking() ? 0 : client.number;
	cn_slow_unlock(&client.asking);
	return number;
}

CUresult cn_node_look(uint32_t number, struct cn_node_status *ret_status)
{
	struct cn_parcel question = {.message = {.kind = CN_MESSAGE_NODE_STATUS, .words = {number}}};
	struct cn_message answer;

	cn_slow_lock(&client.asking);
	int error = ask_asking(&question, &answer);
	uint32_t self = client.number, count = client.count;
	cn_slow_unlock(&client.asking);
	if (error)
		return no_daemon(error);
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

CUresult cn_node_find_daemon(int *ret_pid)
{
	struct cn_watch channel = {.fd = -1};
	struct ucred who;
	int error = reach(&channel);

	if (error)
		return no_daemon(error);
	*ret_pid = cn_wire_identify(channel.fd, &who) ? who.pid : 0;
	cn_service_unwatch(&channel);
	return CUDA_SUCCESS;
}

/* ---- Memory ---- */

static CUresult lost(uint32_t node)
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
	cn_slow_lock(&client.asking);
	cn_lock(&client.lock);
	client.is_served = is_served;
	cn_unlock(&client.lock);
	int error = enter_asking();
	bool lives = !life || client.life == life;
	if (!error && lives)
		error = ask_asking(question, &answer);
	lives = lives && (!life || client.life == life || error);
	memory->life = client.life;
	cn_slow_unlock(&client.asking);
	if (error || !lives || answer.result) {
		free(memory);
		return error ? no_daemon(error) : lives ? refused(answer.result, node) : lost(node);
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

/* ---- Files, and what is closed ---- */

/* Give back what is used no more. False: the daemon does not read, and has it still. */
static bool give_back_locked(struct lent *lent)
{
	struct cn_parcel parcel = {.message = {.kind = CN_MESSAGE_NODE_RETURN,
					       .words = {[CN_NODE_LEND_PLACE] = (uint64_t)(lent - client.lent)}}};

	if (client.has_session && cn_wire_send(client.session.fd, &parcel) == EAGAIN)
		return false;
	*lent = (struct lent){.file = 0};
	return true;
}

/* False: the daemon does not read. */
static bool give_back_unwanted_locked(void)
{
	for (struct lent *lent = client.lent; lent < client.lent + CN_NODE_LENT_MAX; lent++)
		if (lent->is_unwanted && lent->is_known && !lent->uses && !give_back_locked(lent))
			return false;
	return true;
}

/* False: the daemon does not read. */
static bool close_locked(void)
{
	while (client.unclosed) {
		struct cn_node_memory *memory = client.unclosed;
		struct cn_parcel parcel = {.message = {.kind = CN_MESSAGE_NODE_CLOSE, .words = {memory->number}}};
		if (client.has_session && memory->life == client.life &&
		    cn_wire_send(client.session.fd, &parcel) == EAGAIN)
			return false;
		client.unclosed = memory->next;
		free(memory);
	}
	return true;
}

static void tell_due(struct cn_watch *watch);
static struct cn_watch tell_time = {.fd = -1, .due = tell_due}; /* the service thread's */

/* On the service thread: the daemon has not read all that it is to be told. Try again until it has. */
static void tell_due(struct cn_watch *watch)
{
	cn_lock(&client.lock);
	bool done = close_locked() && give_back_unwanted_locked();
	client.tells_later = !done;
	cn_unlock(&client.lock);
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

	if ((close_locked() && give_back_unwanted_locked()) || !client.is_served || client.tells_later)
		return;
	client.tells_later = true;
	cn_service_post(&job);
}

static void close_memory(void *object)
{
	struct cn_node_memory *memory = object;

	cn_lock(&client.lock);
	memory->next = client.unclosed;
	client.unclosed = memory;
	tell_locked();
	cn_unlock(&client.lock);
}

/* The memory of a file is gone. */
static void forget_file(uint64_t file)
{
	cn_lock(&client.lock);
	for (struct lent *lent = client.lent; lent < client.lent + CN_NODE_LENT_MAX; lent++)
		if (lent->file == file)
			lent->is_unwanted = true;
	tell_locked();
	cn_unlock(&client.lock);
}

/* A lane uses a place no more. */
static void release_locked(const struct lane *lane)
{
	if (lane->life != client.life)
		return;
	for (unsigned place = 0; place < CN_NODE_LENT_MAX; place++)
		client.lent[place].uses -= lane->lent >> place & 1;
	tell_locked();
}

/* The place of a file that the daemon has, now used by the lane; -1: it has not. */
static int find_lent_locked(struct lane *lane, uint64_t file)
{
	for (int place = 0; place < CN_NODE_LENT_MAX && lane->life == client.life; place++) {
		struct lent *lent = &client.lent[place];
		if (lent->file != file || !lent->is_known || lent->is_unwanted)
			continue;
		lent->uses += !(lane->lent >> place & 1);
		lent->used = ++client.lend_count;
		lane->lent |= 1u << place;
		return place;
	}
	return -1;
}

/* A place for one more file: a free one, or that which was not used for the longest time. -1: all are in use. */
static int take_place_locked(const struct lane *lane)
{
	int oldest = -1;

	if (!client.has_session || lane->life != client.life)
		return -1;
	for (int place = 0; place < CN_NODE_LENT_MAX; place++) {
		const struct lent *lent = &client.lent[place];
		if (!lent->file)
			return place;
		if (lent->is_known && !lent->uses && (oldest < 0 || lent->used < client.lent[oldest].used))
			oldest = place;
	}
	return oldest >= 0 && give_back_locked(&client.lent[oldest]) ? oldest : -1;
}

/* Lend a file that the daemon has not: its place, used by the lane, or -1. */
static int lend_asking(struct lane *lane, const struct cn_host_remote_file *file)
{
	struct cn_parcel question = {.message = {.kind = CN_MESSAGE_NODE_LEND}};
	struct cn_message answer = {.result = CN_NODE_FULL};
	size_t bytes = 0;

	cn_lock(&client.lock);
	int place = find_lent_locked(lane, file->number); /* another thread may have */
	bool is_known = place >= 0;
	if (!is_known)
		place = take_place_locked(lane);
	if (!is_known && place >= 0)
		client.lent[place] = (struct lent){.file = file->number, .uses = 1, .used = ++client.lend_count};
	cn_unlock(&client.lock);
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
	cn_lock(&client.lock);
	bool lives = lane->life == client.life;
	if (lives && answer.result == CN_NODE_DONE) {
		client.lent[place].is_known = true;
		lane->lent |= 1u << place;
	} else if (lives) {
		client.lent[place] = (struct lent){.file = 0};
	}
	cn_unlock(&client.lock);
	return lives && answer.result == CN_NODE_DONE ? place : -1;
}

static unsigned lend(struct cn_host_remote_lane *base, const struct cn_host_remote_file *file)
{
	struct lane *lane = cn_container_of(base, struct lane, base);

	cn_lock(&client.lock);
	int place = find_lent_locked(lane, file->number);
	cn_unlock(&client.lock);
	/* A question that takes long must not hold up the stream: the slots will do. */
	if (place < 0 && cn_slow_try_lock(&client.asking)) {
		place = lend_asking(lane, file);
		cn_slow_unlock(&client.asking);
	}
	return (unsigned)(place + 1);
}

/* ---- Lanes ---- */

static void free_lane(struct lane *lane)
{
	if (lane->base.slots)
		munmap(lane->base.slots, CN_NODE_LANE_BYTES);
	if (lane->channel.fd >= 0)
		cn_service_unwatch(&lane->channel);
	free(lane);
	cn_lock(&client.lock);
	client.lane_count--;
	cn_unlock(&client.lock);
	atomic_fetch_add(&client.returned, 1);
	cn_futex_wake(&client.returned, 1);
}

/* Memory that the daemon can map as well, and no process can shrink: 0 and a descriptor, or errno. */
static int make_slots(char **ret_slots, int *ret_fd)
{
	int fd = cn_descriptor_raise(memfd_create("cenote-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING)), error = 0;
	void *slots = MAP_FAILED;

	if (fd < 0)
		return errno;
	if (cn_file_grow(fd, CN_NODE_LANE_BYTES))
		error = ENOMEM;
	else if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		error = errno;
	else
		slots = mmap(NULL, CN_NODE_LANE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (!error && slots == MAP_FAILED)
		error = errno;
	if (!error && madvise(slots, CN_NODE_LANE_BYTES, MADV_DONTFORK))
		error = errno;
	if (error) {
		if (slots != MAP_FAILED)
			munmap(slots, CN_NODE_LANE_BYTES);
		close(fd);
		return error;
	}
	*ret_slots = slots;
	*ret_fd = fd;
	return 0;
}

/* A new lane, which is counted already. */
static CUresult make_lane(uint64_t life, const unsigned char *key, struct lane **ret_lane)
{
	struct lane *lane = calloc(1, sizeof *lane);
	struct cn_message answer;
	int memory_fd = -1;

	if (!lane) {
		cn_lock(&client.lock);
		client.lane_count--;
		cn_unlock(&client.lock);
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a connection to cenote-imexd");
	}
	lane->channel.fd = -1;
	lane->life = life;
	int error = make_slots(&lane->base.slots, &memory_fd);
	if (!error)
		error = reach(&lane->channel);
	if (!error)
		error = greet(lane->channel.fd, key, memory_fd, &answer);
	if (memory_fd >= 0)
		close(memory_fd);
	if (error) {
		free_lane(lane);
		return no_daemon(error);
	}
	*ret_lane = lane;
	return CUDA_SUCCESS;
}

/* A lane of this life; NULL: one is to be made, and is counted, or *ret_wait: all are in use. */
static struct lane *take_lane_locked(bool *ret_wait)
{
	struct lane *lane = client.lanes;

	*ret_wait = false;
	if (lane) {
		client.lanes = lane->next;
		return lane;
	}
	if (client.lane_count >= LANES_MAX)
		*ret_wait = true;
	else
		client.lane_count++;
	return NULL;
}

/* A lane was refused. Has the daemon ended, or has it no room for one more connection of this user? */
static bool has_no_room(uint64_t life)
{
	cn_slow_lock(&client.asking);
	bool lives = session_lives() && client.life == life;
	cn_slow_unlock(&client.asking);
	return lives;
}

static CUresult begin_lane(void *object, struct cn_host_remote_lane **ret_lane)
{
	const struct cn_node_memory *memory = object;
	uint64_t deadline_ns = cn_clock_ns() + CN_NODE_ANSWER_MS * CN_MILLISECOND_NS;
	unsigned char key[CN_NODE_SESSION_BYTES];

	for (;;) {
		uint32_t returned = atomic_load(&client.returned);
		bool wait;
		cn_lock(&client.lock);
		bool lives = client.has_session && client.life == memory->life;
		struct lane *lane = lives ? take_lane_locked(&wait) : NULL;
		memcpy(key, client.key, sizeof key);
		cn_unlock(&client.lock);
		if (!lives)
			return lost(memory->node);
		if (lane && lane->life != memory->life) {
			free_lane(lane);
			continue;
		}
		if (lane) {
			*ret_lane = &lane->base;
			return CUDA_SUCCESS;
		}
		if (!wait) {
			CUresult result = make_lane(memory->life, key, &lane);
			if (!result)
				*ret_lane = &lane->base;
			if (result != CUDA_ERROR_OPERATING_SYSTEM)
				return result;
			if (!has_no_room(memory->life))
				return lost(memory->node);
		}
		int left = left_ms(deadline_ns);
		if (!left && wait)
			return cn_error(CUDA_ERROR_EXTERNAL_DEVICE,
					"%d operations on other machines' memory are under way, and none ends",
					LANES_MAX);
		if (!left)
			return cn_error(CUDA_ERROR_EXTERNAL_DEVICE,
					"cenote-imexd has no room for another connection of this user's programs");
		if (!wait && left > ROOM_MS)
			left = ROOM_MS; /* nobody tells when another program gives a connection back */
		cn_futex_wait(&client.returned, returned, (int64_t)left * (int64_t)CN_MILLISECOND_NS);
	}
}

/* Read the next answer: 0, or errno. */
static int take_answer(struct lane *lane, uint64_t deadline_ns)
{
	struct cn_message answer;
	int error = receive(lane->channel.fd, deadline_ns, &answer);

	if (!error && (answer.kind != CN_MESSAGE_NODE_REQUEST || answer.request >= CN_HOST_REMOTE_SLOTS ||
		       lane->outcome[answer.request] != PENDING || answer.result < 0))
		error = EPROTO;
	if (error == EPROTO) /* it makes no sense, and may have been the last: the daemon is asked to hang up */
		shutdown(lane->channel.fd, SHUT_WR);
	if (error)
		return error;
	lane->outcome[answer.request] = answer.result;
	lane->touched &= ~(1u << answer.request);
	return 0;
}

/* Wait until the daemon touches no operand of the lane's any more: it has answered, or ended the connection. */
static void settle(struct lane *lane)
{
	struct pollfd polled = {.fd = lane->channel.fd};
	int error = 0;

	while (lane->touched && !error)
		error = take_answer(lane, UINT64_MAX);
	if (!lane->touched || error == EPIPE || error == ECONNRESET)
		return;
	shutdown(lane->channel.fd, SHUT_WR);
	while (poll(&polled, 1, -1) < 0)
		;
}

static void end_lane(struct cn_host_remote_lane *base, bool broken)
{
	struct lane *lane = cn_container_of(base, struct lane, base);

	settle(lane);
	cn_lock(&client.lock);
	release_locked(lane);
	lane->lent = 0;
	if (!broken) {
		lane->next = client.lanes;
		client.lanes = lane;
	}
	cn_unlock(&client.lock);
	if (broken) {
		free_lane(lane);
		return;
	}
	atomic_fetch_add(&client.returned, 1);
	cn_futex_wake(&client.returned, 1);
}

static CUresult daemon_failed(int error)
{
	return cn_error(CUDA_ERROR_EXTERNAL_DEVICE,
			"an operation on another machine's memory failed in cenote-imexd: %s", cn_wire_explain(error));
}

static CUresult post(struct cn_host_remote_lane *base, void *object, const struct cn_host_remote_request *request)
{
	struct lane *lane = cn_container_of(base, struct lane, base);
	const struct cn_node_memory *memory = object;
	struct cn_parcel parcel = {
		.message = {.kind = CN_MESSAGE_NODE_REQUEST,
			    .request = request->slot,
			    .words = {[CN_NODE_REQUEST_MEMORY] = memory->number,
				      [CN_NODE_REQUEST_OPERATION] = request->kind,
				      [CN_NODE_REQUEST_SLOT] = request->slot,
				      [CN_NODE_REQUEST_OFFSET] = request->offset,
				      [CN_NODE_REQUEST_BYTES] = request->bytes,
				      [CN_NODE_REQUEST_VALUE] = request->value,
				      [CN_NODE_REQUEST_FLAGS] = request->flags,
				      [CN_NODE_REQUEST_LENT] = request->lent,
				      [CN_NODE_REQUEST_LENT_OFFSET] = request->lent_offset}},
	};

	if (memory->life != lane->life)
		return lost(memory->node);
	lane->node[request->slot] = memory->node;
	lane->outcome[request->slot] = PENDING;
	int error = cn_wire_send(lane->channel.fd, &parcel);
	if (error)
		return daemon_failed(error);
	lane->touched |= (uint32_t)(request->lent != 0) << request->slot;
	return CUDA_SUCCESS;
}

/* An answer is late. Is it the link that is slow: does the daemon answer at all, and is the node connected? */
static bool is_slow(uint32_t node)
{
	struct cn_node_status status;

	return !cn_node_look(node, &status) && status.is_up;
}

static CUresult finish(struct cn_host_remote_lane *base, unsigned slot, bool *ret_again)
{
	struct lane *lane = cn_container_of(base, struct lane, base);
	uint64_t deadline_ns = cn_clock_ns() + CN_NODE_ANSWER_MS * CN_MILLISECOND_NS;

	*ret_again = false;
	while (lane->outcome[slot] == PENDING) {
		int error = take_answer(lane, lane->touched >> slot & 1 ? UINT64_MAX : deadline_ns);
		if (error == ETIMEDOUT && is_slow(lane->node[slot]))
			deadline_ns = cn_clock_ns() + CN_NODE_ANSWER_MS * CN_MILLISECOND_NS;
		else if (error)
			return daemon_failed(error);
	}
	switch (lane->outcome[slot]) {
	case CN_NODE_DONE: return CUDA_SUCCESS;
	case CN_NODE_NOT_YET: *ret_again = true; return CUDA_SUCCESS;
	case CN_NODE_LOST: return lost(lane->node[slot]);
	default:
		return cn_error(CUDA_ERROR_EXTERNAL_DEVICE, "node %u refused an operation on its memory (%d)",
				lane->node[slot], lane->outcome[slot]);
	}
}

const struct cn_host_remote_ops *cn_node_ops(void)
{
	static const struct cn_host_remote_ops ops = {
		.begin = begin_lane,
		.end = end_lane,
		.lend = lend,
		.post = post,
		.finish = finish,
		.free = close_memory,
	};

	return &ops;
}

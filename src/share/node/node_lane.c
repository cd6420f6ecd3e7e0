/* SPDX-License-Identifier: MIT */
/*
 * Lanes: how a stream's operations go to cenote-imexd.
 *
 * A lane is a connection and memory that both sides share. It is used by one thread at a time, for one operation, and
 * kept for the next one. A program has LANES_MAX of them; further operations wait until one is given back. Waits for
 * values, which may take for ever, have WAITING_MAX at most: the write that ends such a wait may need a lane, too.
 */
#include "share/node/node_internal.h"

#include "base/clock.h"
#include "base/container.h"
#include "base/descriptor.h"
#include "base/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { LANES_MAX = CN_NODE_CONNECTIONS - 1, WAITING_MAX = LANES_MAX - 4, ROOM_MS = 20, PENDING = -1 };

static void free_lane(struct cn_node_lane *lane)
{
	if (lane->base.slots)
		munmap(lane->base.slots, CN_NODE_LANE_BYTES);
	if (lane->channel.fd >= 0)
		cn_service_unwatch(&lane->channel);
	cn_lock(&cn_node_client.lock);
	cn_node_client.lane_count--;
	cn_node_client.waiting_count -= lane->waits;
	cn_unlock(&cn_node_client.lock);
	free(lane);
	atomic_fetch_add(&cn_node_client.returned, 1);
	cn_futex_wake(&cn_node_client.returned, INT_MAX); /* one that waits for a value may not go on */
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
static CUresult make_lane(uint64_t life, const unsigned char *key, bool waits, struct cn_node_lane **ret_lane)
{
	struct cn_node_lane *lane = calloc(1, sizeof *lane);
	struct cn_message answer;
	int memory_fd = -1;

	if (!lane) {
		cn_lock(&cn_node_client.lock);
		cn_node_client.lane_count--;
		cn_node_client.waiting_count -= waits;
		cn_unlock(&cn_node_client.lock);
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a connection to cenote-imexd");
	}
	lane->channel.fd = -1;
	lane->waits = waits;
	lane->life = life;
	int error = make_slots(&lane->base.slots, &memory_fd);
	if (!error)
		error = cn_node_reach(&lane->channel);
	if (!error)
		error = cn_node_greet(lane->channel.fd, key, memory_fd, &answer);
	if (memory_fd >= 0)
		close(memory_fd);
	if (error) {
		free_lane(lane);
		return cn_node_no_daemon(error);
	}
	*ret_lane = lane;
	return CUDA_SUCCESS;
}

/* A lane of this life; NULL: one is to be made, and is counted, or *ret_wait: all are in use. */
static struct cn_node_lane *take_lane_locked(bool waits, bool *ret_wait)
{
	struct cn_node_lane *lane = cn_node_client.lanes;

	*ret_wait = (waits && cn_node_client.waiting_count >= WAITING_MAX) ||
		    (!lane && cn_node_client.lane_count >= LANES_MAX);
	if (*ret_wait)
		return NULL;
	cn_node_client.waiting_count += waits;
	if (!lane) {
		cn_node_client.lane_count++;
		return NULL;
	}
	cn_node_client.lanes = lane->next;
	lane->waits = waits;
	return lane;
}

/* A lane was refused. Has the daemon ended, or has it no room for one more connection of this user? */
static bool has_no_room(uint64_t life)
{
	cn_slow_lock(&cn_node_client.asking);
	bool lives = cn_node_session_lives() && cn_node_client.life == life;
	cn_slow_unlock(&cn_node_client.asking);
	return lives;
}

static CUresult begin_lane(void *object, bool waits, struct cn_host_remote_lane **ret_lane)
{
	const struct cn_node_memory *memory = object;
	uint64_t deadline_ns = cn_clock_ns() + CN_NODE_ANSWER_MS * CN_MILLISECOND_NS;
	unsigned char key[CN_NODE_SESSION_BYTES];

	for (;;) {
		uint32_t returned = atomic_load(&cn_node_client.returned);
		bool wait;
		cn_lock(&cn_node_client.lock);
		bool lives = cn_node_client.has_session && cn_node_client.life == memory->life;
		struct cn_node_lane *lane = lives ? take_lane_locked(waits, &wait) : NULL;
		memcpy(key, cn_node_client.key, sizeof key);
		cn_unlock(&cn_node_client.lock);
		if (!lives)
			return cn_node_lost(memory->node);
		if (lane && lane->life != memory->life) {
			free_lane(lane);
			continue;
		}
		if (lane) {
			*ret_lane = &lane->base;
			return CUDA_SUCCESS;
		}
		if (!wait) {
			CUresult result = make_lane(memory->life, key, waits, &lane);
			if (!result)
				*ret_lane = &lane->base;
			if (result != CUDA_ERROR_OPERATING_SYSTEM)
				return result;
			if (!has_no_room(memory->life))
				return cn_node_lost(memory->node);
		}
		int left = wait && waits ? CN_NODE_ANSWER_MS : cn_node_left_ms(deadline_ns);
		if (!left && wait)
			return cn_error(CUDA_ERROR_EXTERNAL_DEVICE,
					"%d operations on other machines' memory are under way, and none ends",
					LANES_MAX);
		if (!left)
			return cn_error(CUDA_ERROR_EXTERNAL_DEVICE,
					"cenote-imexd has no room for another connection of this user's programs");
		if (!wait && left > ROOM_MS)
			left = ROOM_MS; /* nobody tells when another program gives a connection back */
		cn_futex_wait(&cn_node_client.returned, returned, (int64_t)left * (int64_t)CN_MILLISECOND_NS);
	}
}

/* Read the next answer: 0, or errno. */
static int take_answer(struct cn_node_lane *lane, uint64_t deadline_ns)
{
	struct cn_message answer;
	int error = cn_node_receive(lane->channel.fd, deadline_ns, &answer);

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
static void settle(struct cn_node_lane *lane)
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
	struct cn_node_lane *lane = cn_container_of(base, struct cn_node_lane, base);

	settle(lane);
	cn_lock(&cn_node_client.lock);
	cn_node_release_locked(lane);
	lane->lent = 0;
	if (!broken) {
		cn_node_client.waiting_count -= lane->waits;
		lane->waits = false;
		lane->next = cn_node_client.lanes;
		cn_node_client.lanes = lane;
	}
	cn_unlock(&cn_node_client.lock);
	if (broken) {
		free_lane(lane);
		return;
	}
	atomic_fetch_add(&cn_node_client.returned, 1);
	cn_futex_wake(&cn_node_client.returned, INT_MAX); /* one that waits for a value may not go on */
}

static CUresult daemon_failed(int error)
{
	return cn_error(CUDA_ERROR_EXTERNAL_DEVICE,
			"an operation on another machine's memory failed in cenote-imexd: %s", cn_wire_explain(error));
}

static CUresult post(struct cn_host_remote_lane *base, void *object, const struct cn_host_remote_request *request)
{
	struct cn_node_lane *lane = cn_container_of(base, struct cn_node_lane, base);
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
		return cn_node_lost(memory->node);
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
	struct cn_node_lane *lane = cn_container_of(base, struct cn_node_lane, base);
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
	case CN_NODE_LOST: return cn_node_lost(lane->node[slot]);
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
		.lend = cn_node_lend,
		.post = post,
		.finish = finish,
		.free = cn_node_close,
	};

	return &ops;
}

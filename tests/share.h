/* SPDX-License-Identifier: MIT */
/*
 * What tests of shared pools have in common: pools and blocks in one line each, gates, and agents.
 *
 * An agent is a peer that does what the test tells it, call by call, as exporter or as importer, and says how each call
 * ended. So a test reads as one story though two processes act in it, and the test decides who is where when somebody
 * is killed. An agent's pools and blocks have numbers, which the test chooses.
 */
#ifndef CENOTE_TESTS_SHARE_H
#define CENOTE_TESTS_SHARE_H

#include "cenote/cenote.h"
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SHARE_POSIX CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

enum {
	SHARE_MIB = 1 << 20,
	SHARE_CHUNK = 32 * SHARE_MIB, /* by which a pool grows */
	AGENT_POOLS = 64,
	AGENT_BLOCKS = 1024,
	AGENT_SENTENCE_BYTES = 200,
};

/* ---- In this process --------------------------------------------------------------------------------------------- */

static inline CUmemoryPool share_pool(size_t max_bytes)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = SHARE_POSIX,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		.maxSize = max_bytes,
	};
	CUmemoryPool pool;

	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	return pool;
}

static inline int share_export(CUmemoryPool pool)
{
	int descriptor = -1;

	ASSERT_OK(cuMemPoolExportToShareableHandle(&descriptor, pool, SHARE_POSIX, 0));
	return descriptor;
}

static inline CUresult share_try_import(int descriptor, CUmemoryPool *ret_pool)
{
	return cuMemPoolImportFromShareableHandle(ret_pool, (void *)(intptr_t)descriptor, SHARE_POSIX, 0);
}

static inline CUmemoryPool share_import(int descriptor)
{
	CUmemoryPool pool;

	ASSERT_OK(share_try_import(descriptor, &pool));
	return pool;
}

static inline CUdeviceptr share_allocate(CUmemoryPool pool, size_t bytes, CUstream stream)
{
	CUdeviceptr address;

	ASSERT_OK(cuMemAllocFromPoolAsync(&address, bytes, pool, stream));
	return address;
}

static inline CUmemPoolPtrExportData share_name(CUdeviceptr address)
{
	CUmemPoolPtrExportData data;

	ASSERT_OK(cuMemPoolExportPointer(&data, address));
	return data;
}

static inline CUdeviceptr share_take(CUmemoryPool pool, CUmemPoolPtrExportData data)
{
	CUdeviceptr address;

	ASSERT_OK(cuMemPoolImportPointer(&address, pool, &data));
	return address;
}

static inline unsigned share_byte(CUdeviceptr address)
{
	unsigned char byte;

	ASSERT_OK(cuMemcpyDtoH(&byte, address, 1));
	return byte;
}

static inline void share_fill(CUdeviceptr address, unsigned value, size_t bytes)
{
	ASSERT_OK(cuMemsetD8(address, (unsigned char)value, bytes));
	ASSERT_OK(cuStreamSynchronize(NULL));
}

static inline CUstream share_stream(void)
{
	CUstream stream;

	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static inline uint64_t share_used(CUmemoryPool pool)
{
	cenote_pool_statistics statistics;

	ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	return statistics.used_bytes;
}

/* Until so much of a pool is used, as somebody else gives back; the test's time limit ends a vain wait. */
static inline void share_await_used(CUmemoryPool pool, uint64_t bytes)
{
	while (share_used(pool) != bytes)
		sched_yield();
}

/*
 * A pool that has all its blocks back can give all its memory back, and comes out whole in blocks of a size, and
 * nothing more. `wanted` must be among them, if it is not 0.
 */
static inline void share_fill_whole(CUmemoryPool pool, size_t pool_bytes, size_t block_bytes, CUdeviceptr wanted)
{
	size_t count = pool_bytes / block_bytes;
	CUdeviceptr *blocks = calloc(count, sizeof *blocks), more;
	cenote_pool_statistics statistics;
	bool found = !wanted;

	ASSERT(blocks);
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	ASSERT_EQ(0, statistics.used_bytes);
	ASSERT_EQ(0, statistics.reserved_bytes);
	for (size_t i = 0; i < count; i++) {
		blocks[i] = share_allocate(pool, block_bytes, NULL);
		found |= blocks[i] == wanted;
	}
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&more, block_bytes, pool, NULL));
	ASSERT(found);
	for (size_t i = 0; i < count; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	free(blocks);
}

/* Is memory of a pool mapped here? */
static inline bool share_is_mapped(void)
{
	return test_mapping_count("/memfd:cenote-pool") != 0;
}

/* Does a copy look whether its memory is still allocated? On a GPU copies are the driver's, which does not. */
static inline bool share_is_checked(void)
{
	return !test_on_gpu();
}

/* For SETUP: what the library keeps for good once something was shared, its service thread above all. */
static inline void share_start(void)
{
	CUcontext context;

	signal(SIGPIPE, SIG_IGN);
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	close(share_export(pool));
	ASSERT_OK(cuMemPoolDestroy(pool));
	while (share_is_mapped()) /* the service thread takes it apart */
		sched_yield();
}

/* ---- Gates ------------------------------------------------------------------------------------------------------- */

/* A stream that has come to a gate goes on when a byte is written to the pipe, by whichever process has its end. */
struct share_gate {
	int reader, writer;
};

static inline struct share_gate share_gate_make(void)
{
	int ends[2];

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	return (struct share_gate){ends[0], ends[1]};
}

static void CUDA_CB share_gate_wait(void *data)
{
	int reader = (int)(intptr_t)data;
	char byte;

	while (read(reader, &byte, 1) == -1)
		ASSERT_EQ(EINTR, errno);
}

static inline void share_gate_close(int reader, CUstream stream)
{
	ASSERT_OK(cuLaunchHostFunc(stream, share_gate_wait, (void *)(intptr_t)reader));
}

static inline void share_gate_open(const struct share_gate *gate)
{
	ASSERT_EQ(1, write(gate->writer, "", 1));
}

static inline void share_gate_free(const struct share_gate *gate)
{
	close(gate->reader);
	close(gate->writer);
}

/* ---- Agents ------------------------------------------------------------------------------------------------------ */

enum agent_call {
	AGENT_CREATE,  /* pool, bytes: at most so large */
	AGENT_EXPORT,  /* pool; its descriptor follows the answer */
	AGENT_IMPORT,  /* pool; a descriptor follows the order, and stays open */
	AGENT_PASS,    /* the descriptor that was imported last follows the answer */
	AGENT_CONNECT, /* to the socket that a descriptor leads to, and say nothing; the descriptor follows the order */
	AGENT_DESTROY, /* pool */
	AGENT_ALLOCATE, /* block, from pool, bytes, in the stream */
	AGENT_NAME,     /* block; the answer has its name */
	AGENT_TAKE,     /* block, from pool, by name; the answer has the address */
	AGENT_FREE,     /* block, in the stream */
	AGENT_FREE_NOW, /* block, with cuMemFree */
	AGENT_FILL,     /* block, bytes, value */
	AGENT_READ,     /* block, byte number `bytes`: its value */
	AGENT_GATE,     /* the stream waits at a gate, whose reader follows the order */
	AGENT_SYNCHRONIZE,
	AGENT_USED, /* pool: bytes */
	AGENT_COPY, /* block, bytes: copy it for ever; the answer comes when this has begun */
	AGENT_FORK, /* a child that reads a pipe, sent along, and ends with its last writer; its number */
	AGENT_END,
};

struct agent_order {
	int call;
	unsigned pool, block;
	uint64_t bytes, value;
	CUmemPoolPtrExportData name;
};

struct agent_answer {
	CUresult result;
	uint64_t value;
	CUmemPoolPtrExportData name;
	char sentence[AGENT_SENTENCE_BYTES]; /* of a failure */
};

/* Order and wait for the answer. `descriptor` goes with it; -1: none. */
static inline struct agent_answer agent_do(struct peer *agent, const struct agent_order *order, int descriptor)
{
	struct agent_answer answer;

	peer_send_bytes(agent, order, sizeof *order);
	if (descriptor >= 0)
		peer_send_descriptor(agent, descriptor);
	peer_receive_bytes(agent, &answer, sizeof answer);
	return answer;
}

/* The same for a call that must succeed. */
static inline struct agent_answer agent_must(struct peer *agent, struct agent_order order, int descriptor)
{
	struct agent_answer answer = agent_do(agent, &order, descriptor);

	if (answer.result)
		FAIL("the agent's call %d failed: %d, %s", order.call, (int)answer.result, answer.sentence);
	return answer;
}

static inline void agent_import(struct peer *agent, unsigned pool, int descriptor)
{
	agent_must(agent, (struct agent_order){.call = AGENT_IMPORT, .pool = pool}, descriptor);
}

/* A new agent that has imported a pool as its number 0. */
static inline struct peer *agent_importer(CUmemoryPool pool)
{
	struct peer *agent = peer_start("agent");
	int descriptor = share_export(pool);

	agent_import(agent, 0, descriptor);
	close(descriptor);
	return agent;
}

/* A new agent that has made a pool, its number 0. */
static inline struct peer *agent_exporter(size_t max_bytes, int *ret_descriptor)
{
	struct peer *agent = peer_start("agent");

	agent_must(agent, (struct agent_order){.call = AGENT_CREATE, .bytes = max_bytes}, -1);
	agent_must(agent, (struct agent_order){.call = AGENT_EXPORT}, -1);
	*ret_descriptor = peer_receive_descriptor(agent);
	return agent;
}

static inline uint64_t agent_take(struct peer *agent, unsigned block, CUmemPoolPtrExportData name)
{
	return agent_must(agent, (struct agent_order){.call = AGENT_TAKE, .block = block, .name = name}, -1).value;
}

static inline CUmemPoolPtrExportData agent_allocate(struct peer *agent, unsigned block, size_t bytes, unsigned value)
{
	agent_must(agent, (struct agent_order){.call = AGENT_ALLOCATE, .block = block, .bytes = bytes}, -1);
	agent_must(agent, (struct agent_order){.call = AGENT_FILL, .block = block, .bytes = bytes, .value = value}, -1);
	return agent_must(agent, (struct agent_order){.call = AGENT_NAME, .block = block}, -1).name;
}

static inline unsigned agent_byte(struct peer *agent, unsigned block, uint64_t at)
{
	return (unsigned)agent_must(agent, (struct agent_order){.call = AGENT_READ, .block = block, .bytes = at}, -1)
		.value;
}

static inline void agent_fill(struct peer *agent, unsigned block, unsigned value, size_t bytes)
{
	agent_must(agent, (struct agent_order){.call = AGENT_FILL, .block = block, .bytes = bytes, .value = value}, -1);
}

static inline void agent_free(struct peer *agent, unsigned block)
{
	agent_must(agent, (struct agent_order){.call = AGENT_FREE, .block = block}, -1);
}

static inline void agent_close_gate(struct peer *agent, const struct share_gate *gate)
{
	agent_must(agent, (struct agent_order){.call = AGENT_GATE}, gate->reader);
}

static inline void agent_synchronize(struct peer *agent)
{
	agent_must(agent, (struct agent_order){.call = AGENT_SYNCHRONIZE}, -1);
}

static inline void agent_destroy(struct peer *agent, unsigned pool)
{
	agent_must(agent, (struct agent_order){.call = AGENT_DESTROY, .pool = pool}, -1);
}

static inline void agent_end(struct peer *agent)
{
	agent_must(agent, (struct agent_order){.call = AGENT_END}, -1);
	peer_wait(agent);
}

/* ---- What an agent does ------------------------------------------------------------------------------------------ */

struct agent {
	struct peer *parent;
	CUmemoryPool pools[AGENT_POOLS];
	CUdeviceptr blocks[AGENT_BLOCKS];
	CUstream stream;
	int descriptor; /* that was imported last */
	int gate, connection;
};

/* A connection and no word over it. */
static inline void agent_connect(struct agent *agent, int descriptor)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", descriptor);
	ASSERT_SYS(agent->connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	ASSERT_SYS(connect(agent->connection, (const struct sockaddr *)&address, sizeof address));
}

/* The child touches nothing of the library's: it is there, and that is all. It has closed all else on return. */
static inline uint64_t agent_fork(int reader)
{
	int ready[2];
	pid_t child;
	char byte;

	ASSERT_SYS(pipe2(ready, O_CLOEXEC));
	ASSERT_SYS(child = fork());
	if (child == 0) {
		int kept = dup2(ready[1], 3 + (reader == 3)), low = kept < reader ? kept : reader;
		int high = kept < reader ? reader : kept;
		if (low > 3)
			close_range(3, (unsigned)low - 1, 0); /* of the test, which would wait for our end */
		if (high > low + 1)
			close_range((unsigned)low + 1, (unsigned)high - 1, 0);
		close_range((unsigned)high + 1, ~0u, 0);
		close(kept);
		while (read(reader, &byte, 1) == -1 && errno == EINTR)
			continue;
		_exit(0);
	}
	close(ready[1]);
	while (read(ready[0], &byte, 1) == -1) /* its end */
		ASSERT_EQ(EINTR, errno);
	close(ready[0]);
	return (uint64_t)child;
}

static inline _Noreturn void agent_copy_for_ever(struct agent *agent, const struct agent_order *order)
{
	const struct agent_answer begun = {.result = CUDA_SUCCESS};
	void *copy = malloc(order->bytes);

	ASSERT(copy);
	for (unsigned long i = 0;; i++) {
		ASSERT_OK(cuMemcpyDtoH(copy, agent->blocks[order->block], order->bytes));
		if (i == 0)
			peer_send_bytes(agent->parent, &begun, sizeof begun);
	}
}

/* Those that bring a descriptor. */
static inline CUresult agent_obey_descriptor(struct agent *agent, const struct agent_order *order, uint64_t *ret_value)
{
	int descriptor = peer_receive_descriptor(agent->parent);

	if (order->call == AGENT_IMPORT) {
		if (agent->descriptor >= 0)
			close(agent->descriptor);
		agent->descriptor = descriptor;
		return share_try_import(descriptor, &agent->pools[order->pool]);
	}
	if (order->call == AGENT_CONNECT) {
		agent_connect(agent, descriptor);
		close(descriptor);
	} else if (order->call == AGENT_FORK) {
		*ret_value = agent_fork(descriptor);
		close(descriptor);
	} else {
		if (agent->gate >= 0)
			close(agent->gate);
		agent->gate = descriptor;
		share_gate_close(descriptor, agent->stream);
	}
	return CUDA_SUCCESS;
}

static inline CUresult agent_obey_pool(struct agent *agent, const struct agent_order *order, uint64_t *ret_value)
{
	CUmemoryPool *pool = &agent->pools[order->pool];

	switch (order->call) {
	case AGENT_CREATE: *pool = share_pool(order->bytes); return CUDA_SUCCESS;
	case AGENT_DESTROY: return cuMemPoolDestroy(*pool);
	case AGENT_USED: *ret_value = share_used(*pool); return CUDA_SUCCESS;
	default: FAIL("an agent does not know call %d", order->call);
	}
}

static inline CUresult agent_obey(struct agent *agent, struct agent_order *order, struct agent_answer *answer)
{
	CUdeviceptr *block = &agent->blocks[order->block];
	unsigned char byte = 0;
	CUresult result;

	switch (order->call) {
	case AGENT_IMPORT:
	case AGENT_CONNECT:
	case AGENT_FORK:
	case AGENT_GATE: return agent_obey_descriptor(agent, order, &answer->value);
	case AGENT_ALLOCATE:
		return cuMemAllocFromPoolAsync(block, order->bytes, agent->pools[order->pool], agent->stream);
	case AGENT_NAME: return cuMemPoolExportPointer(&answer->name, *block);
	case AGENT_TAKE:
		result = cuMemPoolImportPointer(block, agent->pools[order->pool], &order->name);
		answer->value = *block;
		return result;
	case AGENT_FREE: return cuMemFreeAsync(*block, agent->stream);
	case AGENT_FREE_NOW: return cuMemFree(*block);
	case AGENT_FILL:
		result = cuMemsetD8(*block, (unsigned char)order->value, order->bytes);
		return result ? result : cuStreamSynchronize(NULL);
	case AGENT_READ:
		result = cuMemcpyDtoH(&byte, *block + order->bytes, 1);
		answer->value = byte;
		return result;
	case AGENT_SYNCHRONIZE: return cuStreamSynchronize(agent->stream);
	case AGENT_COPY: agent_copy_for_ever(agent, order);
	case AGENT_EXPORT:
	case AGENT_PASS:
	case AGENT_END: return CUDA_SUCCESS;
	default: return agent_obey_pool(agent, order, &answer->value);
	}
}

ROLE(agent)
{
	struct agent agent = {
		.parent = parent, .descriptor = -1, .gate = -1, .connection = -1, .stream = share_stream()};
	struct agent_order order = {.call = AGENT_CREATE};

	while (order.call != AGENT_END) {
		struct agent_answer answer = {.result = CUDA_SUCCESS};
		peer_receive_bytes(parent, &order, sizeof order);
		ASSERT_LT(order.pool, AGENT_POOLS);
		ASSERT_LT(order.block, AGENT_BLOCKS);
		answer.result = agent_obey(&agent, &order, &answer);
		if (answer.result)
			snprintf(answer.sentence, sizeof answer.sentence, "%s", cenote_last_error());
		peer_send_bytes(parent, &answer, sizeof answer);
		if (order.call == AGENT_EXPORT) {
			int descriptor = share_export(agent.pools[order.pool]);
			peer_send_descriptor(parent, descriptor);
			close(descriptor);
		} else if (order.call == AGENT_PASS) {
			peer_send_descriptor(parent, agent.descriptor);
		}
	}
	ASSERT_OK(cuStreamDestroy(agent.stream));
	if (agent.descriptor >= 0)
		close(agent.descriptor);
	if (agent.gate >= 0)
		close(agent.gate);
	if (agent.connection >= 0)
		close(agent.connection);
}

#endif

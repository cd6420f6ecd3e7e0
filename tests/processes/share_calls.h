/* SPDX-License-Identifier: MIT */
/*
 * What tests of cenote.h's calls for shared pools have in common.
 *
 * A receiver is a peer that receives pools and blocks over a socket of its own and does with them what the test tells
 * it, call by call.
 */
#ifndef CENOTE_TESTS_SHARE_CALLS_H
#define CENOTE_TESTS_SHARE_CALLS_H

#include "cenote/cenote.h"
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	POSIX = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	MIB = 1 << 20,
	BLOCKS = 8,
	SENTENCE_BYTES = 200,
	MAGIC_BYTES = 8,
	LETTER_BYTES = 144,
	IPC_EVENT = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING,
};

/* ---- Pools, blocks, sockets -------------------------------------------------------------------------------------- */

static inline CUmemoryPool make_pool_of(CUdevice device, int handle_types)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = (CUmemAllocationHandleType)handle_types,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
	CUmemoryPool pool;

	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	return pool;
}

static inline CUmemoryPool make_pool(void)
{
	return make_pool_of(0, POSIX);
}

static inline CUevent make_event(unsigned flags)
{
	CUevent event;

	ASSERT_OK(cuEventCreate(&event, flags));
	return event;
}

/* Bring the library up, with what it keeps for good once something is shared; then count. */
static inline void open_port(void)
{
	CUipcEventHandle handle;
	CUevent event = make_event(IPC_EVENT);

	ASSERT_OK(cuIpcGetEventHandle(&handle, event));
	ASSERT_OK(cuEventDestroy(event));
}

static inline void begin(void)
{
	CUcontext context;
	int descriptor;

	signal(SIGPIPE, SIG_DFL);
	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	CUmemoryPool pool = make_pool();
	ASSERT_OK(cenote_pool_watch(pool, &descriptor));
	close(descriptor);
	ASSERT_OK(cuMemPoolDestroy(pool));
	if (test_on_gpu()) /* whose driver has a port and a service thread of its own, from whatever it shares first */
		open_port();
	leaks_start_here();
}

/* The same for a test that sends events: its port stays as long as the process. */
static inline void begin_with_port(void)
{
	begin();
	open_port();
	leaks_start_here();
}

static inline CUdeviceptr allocate(CUmemoryPool pool, size_t bytes, unsigned value)
{
	CUdeviceptr block;

	ASSERT_OK(cuMemAllocFromPoolAsync(&block, bytes, pool, NULL));
	ASSERT_OK(cuMemsetD8(block, (unsigned char)value, bytes));
	ASSERT_OK(cuStreamSynchronize(NULL));
	return block;
}

static inline unsigned first_byte(CUdeviceptr block)
{
	unsigned char byte = 0;

	ASSERT_OK(cuMemcpyDtoH(&byte, block, 1));
	return byte;
}

static inline void make_pair(int type, int ends[2])
{
	ASSERT_SYS(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends));
}

static inline void close_pair(const int ends[2])
{
	close(ends[0]);
	close(ends[1]);
}

/* The service thread may just be closing something: a test's time limit ends a vain wait. */
static inline void await_open_count(unsigned at_most)
{
	if (test_on_gpu()) /* where those of the driver come and go */
		return;
	while (test_descriptor_count() > at_most)
		sched_yield();
}

static inline cenote_pool_statistics statistics_of(CUmemoryPool pool)
{
	cenote_pool_statistics statistics;

	ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	return statistics;
}

/* Until so much of the pool is in use: a test's time limit ends a vain wait. */
static inline void await_used(CUmemoryPool pool, unsigned long long bytes)
{
	while (statistics_of(pool).used_bytes != bytes)
		sched_yield();
}

static inline size_t importer_count(CUmemoryPool pool)
{
	size_t count = 77;

	ASSERT_OK(cenote_pool_importers(pool, NULL, 0, 0, &count));
	return count;
}

/* The only importer of a pool. */
static inline cenote_importer the_importer(CUmemoryPool pool)
{
	cenote_importer importer;
	size_t count;

	ASSERT_OK(cenote_pool_importers(pool, &importer, sizeof importer, 1, &count));
	ASSERT_EQ(1, count);
	return importer;
}

static inline unsigned long long now_ns(void)
{
	struct timespec now;

	ASSERT_SYS(clock_gettime(CLOCK_MONOTONIC, &now));
	return (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec;
}

/* A call fails so, with this in its sentence, and leaves nothing open. */
#define EXPECT(code, part, call)                                \
	do {                                                    \
		unsigned open_before = test_descriptor_count(); \
		ASSERT_ERROR(code, call);                       \
		ASSERT_CONTAINS(part, cenote_last_error());     \
		await_open_count(open_before);                  \
	} while (0)

/* ---- Receivers --------------------------------------------------------------------------------------------------- */

enum call {
	RECEIVE_POOL,
	RECEIVE_BLOCK, /* value: was there an event? */
	WAIT_EVENT,    /* the stream waits for the block's event */
	READ,          /* the first byte, in stream order */
	FREE,
	DESTROY_POOL,
	END,
};

struct order {
	enum call call;
	unsigned block;
};

struct answer {
	CUresult result;
	unsigned value;
	char sentence[SENTENCE_BYTES];
};

struct receiver {
	struct peer *peer;
	int sock;
};

struct received {
	int sock;
	CUmemoryPool pool;
	CUstream stream;
	CUdeviceptr blocks[BLOCKS];
	CUevent events[BLOCKS];
};

static inline CUresult obey(struct received *received, const struct order *order, unsigned *ret_value)
{
	CUdeviceptr *block = &received->blocks[order->block];
	CUevent *event = &received->events[order->block];
	unsigned char byte = 0;
	CUresult result = CUDA_SUCCESS;

	switch (order->call) {
	case RECEIVE_POOL: return cenote_recv_pool(received->sock, &received->pool);
	case RECEIVE_BLOCK:
		result = cenote_recv_block(received->sock, received->pool, block, event);
		if (result ||
		    *event) /* with an event, also one that could not be opened, comes a connection that stays */
			leaks_watch(LEAK_MAPPINGS);
		*ret_value = !result && *event;
		return result;
	case WAIT_EVENT:
		result = cuStreamWaitEvent(received->stream, *event, 0);
		return result ? result : cuEventDestroy(*event);
	case READ:
		result = cuMemcpyDtoHAsync(&byte, *block, 1, received->stream);
		if (!result)
			result = cuStreamSynchronize(received->stream);
		*ret_value = byte;
		return result;
	case FREE: return cuMemFreeAsync(*block, received->stream);
	case DESTROY_POOL: return cuMemPoolDestroy(received->pool);
	case END: return cuStreamDestroy(received->stream);
	}
	FAIL("a receiver does not know call %d", (int)order->call);
}

ROLE(receiver)
{
	struct received received = {.sock = peer_receive_descriptor(parent)};
	struct order order;

	begin();
	ASSERT_OK(cuStreamCreate(&received.stream, CU_STREAM_NON_BLOCKING));
	do {
		struct answer answer = {.value = 0};
		peer_receive_bytes(parent, &order, sizeof order);
		ASSERT_LT(order.block, BLOCKS);
		answer.result = obey(&received, &order, &answer.value);
		snprintf(answer.sentence, sizeof answer.sentence, "%s", answer.result ? cenote_last_error() : "");
		peer_send_bytes(parent, &answer, sizeof answer);
	} while (order.call != END);
	close(received.sock);
}

static inline struct receiver receiver_start(int type)
{
	struct receiver receiver = {.peer = peer_start("receiver")};
	int ends[2];

	make_pair(type, ends);
	peer_send_descriptor(receiver.peer, ends[1]);
	close(ends[1]);
	receiver.sock = ends[0];
	return receiver;
}

static inline struct answer tell(const struct receiver *receiver, enum call call, unsigned block)
{
	struct order order = {call, block};
	struct answer answer;

	peer_send_bytes(receiver->peer, &order, sizeof order);
	peer_receive_bytes(receiver->peer, &answer, sizeof answer);
	return answer;
}

static inline unsigned must(const struct receiver *receiver, enum call call, unsigned block)
{
	struct answer answer = tell(receiver, call, block);

	if (answer.result)
		FAIL("the receiver's call %d failed: %d, %s", (int)call, (int)answer.result, answer.sentence);
	return answer.value;
}

static inline void must_fail(const struct receiver *receiver, enum call call, unsigned block, CUresult code,
			     const char *part)
{
	struct answer answer = tell(receiver, call, block);

	ASSERT_EQ(code, answer.result);
	ASSERT_CONTAINS(part, answer.sentence);
}

/* A receiver that has the pool. */
static inline struct receiver receiver_of(CUmemoryPool pool)
{
	struct receiver receiver = receiver_start(SOCK_SEQPACKET);

	ASSERT_OK(cenote_send_pool(receiver.sock, pool));
	must(&receiver, RECEIVE_POOL, 0);
	return receiver;
}

static inline void give(const struct receiver *receiver, CUdeviceptr block, unsigned number)
{
	ASSERT_OK(cenote_send_block(receiver->sock, block, NULL));
	ASSERT_EQ(0, must(receiver, RECEIVE_BLOCK, number));
}

/* A receiver that has had a block of the pool: before that an exporter does not know of it. */
static inline struct receiver importer_of(CUmemoryPool pool)
{
	struct receiver receiver = receiver_of(pool);
	unsigned long long used_bytes = statistics_of(pool).used_bytes;
	CUdeviceptr block = allocate(pool, MIB, 0);

	give(&receiver, block, 0);
	must(&receiver, FREE, 0);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	await_used(pool, used_bytes);
	return receiver;
}

static inline void receiver_end(struct receiver *receiver)
{
	must(receiver, END, 0);
	peer_wait(receiver->peer);
	close(receiver->sock);
}

static inline void destroy_pool(CUmemoryPool pool)
{
	ASSERT_OK(cuMemPoolDestroy(pool));
}

static inline void free_now(CUdeviceptr block)
{
	ASSERT_OK(cuMemFree(block));
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What tests of memory that travels as 64 bytes have in common: memory in one line, and agents.
 *
 * An agent is a peer that does what the test tells it, call by call, and says how each call ended; so a test reads as
 * one story though several processes act in it. Most tests export themselves, and their agents open.
 */
#ifndef CENOTE_TESTS_IPC_MEMORY_H
#define CENOTE_TESTS_IPC_MEMORY_H

#include "cenote/cenote.h"
#include "harness.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, LARGE = 4 * MIB, SMALL = 1000, LAZY = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, SENTENCE_BYTES = 200 };

/* ---- In this process --------------------------------------------------------------------------------------------- */

static inline CUcontext use_device(int device)
{
	CUcontext context;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, device));
	ASSERT_OK(cuCtxSetCurrent(context));
	return context;
}

static inline CUipcMemHandle handle_of(CUdeviceptr address)
{
	CUipcMemHandle handle;

	ASSERT_OK(cuIpcGetMemHandle(&handle, address));
	return handle;
}

static inline void fill(CUdeviceptr address, unsigned value, size_t bytes)
{
	ASSERT_OK(cuMemsetD8(address, (unsigned char)value, bytes));
	ASSERT_OK(cuCtxSynchronize());
}

static inline unsigned byte_at(CUdeviceptr address)
{
	unsigned char byte;

	ASSERT_OK(cuMemcpyDtoH(&byte, address, 1));
	return byte;
}

static inline CUdeviceptr allocate(size_t bytes, unsigned value)
{
	CUdeviceptr address;

	ASSERT_OK(cuMemAlloc(&address, bytes));
	fill(address, value, bytes);
	return address;
}

static inline CUdeviceptr open_handle(CUipcMemHandle handle)
{
	CUdeviceptr address;

	ASSERT_OK(cuIpcOpenMemHandle(&address, handle, LAZY));
	return address;
}

/* Bytes of the current device that this process has in use. */
static inline size_t used_bytes(void)
{
	size_t free_bytes, total_bytes;

	ASSERT_OK(cuMemGetInfo(&free_bytes, &total_bytes));
	return total_bytes - free_bytes;
}

/* Bring the library up, with what it keeps for good once something is shared; then count. */
static inline void begin(void)
{
	CUdeviceptr memory;

	use_device(0);
	ASSERT_OK(cuMemAlloc(&memory, 1));
	handle_of(memory);
	ASSERT_OK(cuMemFree(memory));
	leaks_start_here();
}

/* Until what others had of ours is back, and nothing is left of them: the service thread sees to that. */
static inline void await_quiet(size_t used, unsigned descriptors)
{
	while (used_bytes() != used || test_descriptor_count() != descriptors)
		sched_yield();
}

/* ---- Agents ------------------------------------------------------------------------------------------------------ */

enum agent_call {
	AGENT_ALLOCATE, /* `bytes`, filled with `value`; with its handle */
	AGENT_RESERVE,  /* the same without touching it */
	AGENT_FREE,
	AGENT_FILL,
	AGENT_BYTE,
	AGENT_OPEN,
	AGENT_CLOSE,
	AGENT_FORK, /* a child that does nothing until the agent's end */
	AGENT_USED,
	AGENT_END,
};

struct agent_order {
	enum agent_call call;
	CUdeviceptr at;
	size_t bytes;
	unsigned value;
	CUipcMemHandle handle;
};

struct agent_answer {
	CUresult result;
	CUdeviceptr at;
	size_t value;
	CUipcMemHandle handle;
	char sentence[SENTENCE_BYTES];
};

static inline pid_t fork_idle(void)
{
	pid_t child = fork();

	ASSERT_SYS(child);
	if (child == 0)
		for (;;)
			pause();
	return child;
}

static inline struct agent_answer agent_obey(const struct agent_order *order, pid_t *child)
{
	struct agent_answer answer = {.at = order->at};
	unsigned char byte = 0;

	switch (order->call) {
	case AGENT_ALLOCATE:
		answer.at = allocate(order->bytes, order->value);
		answer.handle = handle_of(answer.at);
		leaks_watch(0); /* freed or not, others may have it at the agent's end */
		break;
	case AGENT_RESERVE:
		ASSERT_OK(cuMemAlloc(&answer.at, order->bytes));
		answer.handle = handle_of(answer.at);
		leaks_watch(0);
		break;
	case AGENT_FREE: answer.result = cuMemFree(order->at); break;
	case AGENT_FILL:
		answer.result = cuMemsetD8(order->at, (unsigned char)order->value, order->bytes);
		ASSERT_OK(cuCtxSynchronize());
		break;
	case AGENT_BYTE:
		answer.result = cuMemcpyDtoH(&byte, order->at, 1);
		answer.value = byte;
		break;
	case AGENT_OPEN: answer.result = cuIpcOpenMemHandle(&answer.at, order->handle, LAZY); break;
	case AGENT_CLOSE: answer.result = cuIpcCloseMemHandle(order->at); break;
	case AGENT_FORK: *child = fork_idle(); break;
	case AGENT_USED: answer.value = used_bytes(); break;
	case AGENT_END: break;
	}
	if (answer.result)
		snprintf(answer.sentence, sizeof answer.sentence, "%s", cenote_last_error());
	return answer;
}

/* argv: the device, if not 0. */
ROLE(agent)
{
	struct agent_order order;
	pid_t child = 0;

	use_device(argc ? atoi(argv[0]) : 0);
	/* A connection to a process from which it has opened something stays as long as that process. */
	leaks_watch(LEAK_MAPPINGS);
	leaks_start_here();
	do {
		peer_receive_bytes(parent, &order, sizeof order);
		struct agent_answer answer = agent_obey(&order, &child);
		peer_send_bytes(parent, &answer, sizeof answer);
	} while (order.call != AGENT_END);
	if (child) {
		ASSERT_SYS(kill(child, SIGKILL));
		ASSERT_SYS(waitpid(child, NULL, 0));
	}
}

static inline struct agent_answer agent_tell(struct peer *agent, struct agent_order order)
{
	struct agent_answer answer;

	peer_send_bytes(agent, &order, sizeof order);
	peer_receive_bytes(agent, &answer, sizeof answer);
	return answer;
}

/* The same for what must go well. */
static inline struct agent_answer agent_must(struct peer *agent, struct agent_order order)
{
	struct agent_answer answer = agent_tell(agent, order);

	if (answer.result)
		FAIL("order %d: %d: %s", (int)order.call, (int)answer.result, answer.sentence);
	return answer;
}

static inline CUdeviceptr agent_open(struct peer *agent, CUipcMemHandle handle)
{
	return agent_must(agent, (struct agent_order){.call = AGENT_OPEN, .handle = handle}).at;
}

/* It is refused, with this code, and a sentence that has these words. */
static inline void agent_cannot_open(struct peer *agent, CUipcMemHandle handle, CUresult code, const char *words)
{
	struct agent_answer answer = agent_tell(agent, (struct agent_order){.call = AGENT_OPEN, .handle = handle});

	ASSERT_ERROR(code, answer.result);
	ASSERT_EQ(0, answer.at);
	ASSERT_CONTAINS(words, answer.sentence);
}

static inline void agent_close(struct peer *agent, CUdeviceptr at)
{
	agent_must(agent, (struct agent_order){.call = AGENT_CLOSE, .at = at});
}

static inline unsigned agent_byte(struct peer *agent, CUdeviceptr at)
{
	return (unsigned)agent_must(agent, (struct agent_order){.call = AGENT_BYTE, .at = at}).value;
}

static inline void agent_fill(struct peer *agent, CUdeviceptr at, unsigned value, size_t bytes)
{
	agent_must(agent, (struct agent_order){.call = AGENT_FILL, .at = at, .value = value, .bytes = bytes});
}

static inline void agent_end(struct peer *agent)
{
	agent_must(agent, (struct agent_order){.call = AGENT_END});
	peer_wait(agent);
}

/* Another process makes a port, and clears away the names of those that were killed. */
static inline void sweep_names(void)
{
	struct peer *agent = peer_start("agent");

	agent_must(agent, (struct agent_order){.call = AGENT_ALLOCATE, .bytes = 1});
	agent_end(agent);
}

#endif

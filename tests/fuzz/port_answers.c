/* SPDX-License-Identifier: MIT */
/*
 * Answers of a port that belongs to a stranger, to who opens a handle there; and the ring of an event, which everybody
 * who has it may write.
 *
 * Fake processes (port.h) answer by the script: with other numbers, other memory, other files, or by hanging up.
 * Memory that was opened is there until it is closed, several pieces of it at a time; events are recorded and waited
 * for while their ring is written; and what waits for a process that hangs up ends.
 */
#include "port.h"

#include <string.h>

enum { MEMORIES = 4, EVENTS = 2, STEPS_MAX = 32 };

static CUdeviceptr memories[MEMORIES];
static CUevent events[EVENTS];
static CUstream stream;

void fuzz_prepare(void)
{
	fuzz_start();
	fuzz_port_start();
}

/* ---- Memory ---- */

static void close_memory(unsigned at)
{
	if (!memories[at])
		return;
	fuzz_touch(memories[at]);
	FUZZ_OK(cuIpcCloseMemHandle(memories[at]));
	memories[at] = 0;
}

static void open_memory(unsigned at, uint64_t number)
{
	struct cn_handle handle = fuzz_handle(CN_HANDLE_MEMORY, number);
	CUipcMemHandle bytes;

	close_memory(at);
	memcpy(&bytes, &handle, sizeof bytes);
	if (FUZZ_TRY(cuIpcOpenMemHandle(&memories[at], bytes, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)))
		memories[at] = 0;
	else
		fuzz_touch(memories[at]);
}

/* ---- Events ---- */

static void close_event(unsigned at)
{
	if (events[at])
		FUZZ_OK(cuEventDestroy(events[at]));
	events[at] = NULL;
}

static void open_event(unsigned at, uint64_t number)
{
	struct cn_handle handle = fuzz_handle(CN_HANDLE_EVENT, number);
	CUipcEventHandle bytes;

	close_event(at);
	memcpy(&bytes, &handle, sizeof bytes);
	if (FUZZ_TRY(cuIpcOpenEventHandle(&events[at], bytes)))
		events[at] = NULL;
}

static void use_event(unsigned at, unsigned how)
{
	if (!events[at])
		return;
	if (!stream)
		FUZZ_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	switch (how % 3) {
	case 0: FUZZ_TRY(cuEventQuery(events[at])); break;
	case 1: FUZZ_TRY(cuEventRecord(events[at], stream)); break;
	default: FUZZ_TRY(cuStreamWaitEvent(stream, events[at], 0)); break;
	}
}

static void write_ring(struct fuzz_input *input)
{
	size_t bytes, word = fuzz_byte(input), count = 1 + fuzz_byte(input) % 32;
	uint64_t *ring = fuzz_ring(&bytes), value = fuzz_number(input);

	/* The beginning has the numbers that are not cells. */
	if (word & 128)
		word = word * 8 % (bytes / sizeof *ring);
	for (size_t i = 0; i < count && word + i < bytes / sizeof *ring; i++)
		atomic_store((_Atomic uint64_t *)ring + word + i, value);
}

static void step(struct fuzz_input *input)
{
	unsigned how = fuzz_byte(input), at = fuzz_byte(input);
	struct cn_handle handle;

	switch (how % 10) {
	case 0:
	case 1: open_memory(at % MEMORIES, 1 + at / MEMORIES % 8); break;
	case 2: close_memory(at % MEMORIES); break;
	case 3: open_event(at % EVENTS, 1 + at / EVENTS % 4); break;
	case 4: close_event(at % EVENTS); break;
	case 5:
	case 6: use_event(at % EVENTS, at / EVENTS); break;
	case 7: write_ring(input); break;
	case 8: handle = fuzz_handle(CN_HANDLE_FABRIC_MEMORY, at), fuzz_open_fabric_memory(&handle); break;
	default: handle = fuzz_handle(CN_HANDLE_FABRIC_POOL, at), fuzz_open_fabric_pool(&handle); break;
	}
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = {bytes, size};

	fuzz_server_begin(&fuzz_port, fuzz_part(&input));
	fuzz_server_begin(&fuzz_fabric_port, fuzz_part(&input));
	for (int i = 0; i < STEPS_MAX && input.left; i++)
		step(&input);
	for (unsigned i = 0; i < MEMORIES; i++)
		close_memory(i);
	fuzz_ring_reset();
	fuzz_server_end(&fuzz_port); /* threads that wait for it are told */
	for (unsigned i = 0; i < EVENTS; i++)
		close_event(i);
	if (stream) {
		FUZZ_TRY(cuStreamSynchronize(stream));
		FUZZ_TRY(cuStreamDestroy(stream));
		stream = NULL;
	}
	fuzz_port_end();
}

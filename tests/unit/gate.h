/* SPDX-License-Identifier: MIT */
/*
 * What tests of streams share: a context to work in, and gates.
 *
 * A gate is a word of memory that a stream waits for until the test opens it, so a test decides what is pending and
 * never has to guess how long something takes.
 */
#ifndef CENOTE_TESTS_UNIT_GATE_H
#define CENOTE_TESTS_UNIT_GATE_H

#include <stdatomic.h>

#include "cenote/cuda.h"
#include "harness.h"

struct gate {
	_Atomic uint32_t *word;
};

static inline struct gate gate_make(void)
{
	struct gate gate;
	void *memory;

	ASSERT_OK(cuMemHostAlloc(&memory, sizeof(uint32_t), 0));
	gate.word = memory;
	atomic_store(gate.word, 0);
	return gate;
}

/* The stream goes no further until the gate is open. */
static inline void gate_close(struct gate gate, CUstream stream)
{
	ASSERT_OK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)gate.word, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

static inline void gate_open(struct gate gate)
{
	atomic_store(gate.word, 1);
}

static inline void gate_free(struct gate gate)
{
	ASSERT_OK(cuMemFreeHost(gate.word));
}

/* For SETUP: the library is up, and the primary context of device 0 is current. */
static inline CUcontext context_current(void)
{
	CUcontext context;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	return context;
}

#endif

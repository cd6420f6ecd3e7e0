/* SPDX-License-Identifier: MIT */
/*
 * What the two halves of the runtime's tests share: gates, made of the runtime's calls alone.
 */
#ifndef CENOTE_TESTS_UNIT_RUNTIME_H
#define CENOTE_TESTS_UNIT_RUNTIME_H

#include <semaphore.h>

#include "cenote/cuda_runtime_api.h"
#include "harness.h"

/* A stream that stands still until its gate is opened. */
struct gate {
	sem_t open;
};

static inline void wait_at_gate(void *data)
{
	struct gate *gate = data;

	while (sem_wait(&gate->open))
		;
}

static inline void gate_close(struct gate *gate, cudaStream_t stream)
{
	ASSERT_SYS(sem_init(&gate->open, 0, 0));
	ASSERT_OK(cudaLaunchHostFunc(stream, wait_at_gate, gate));
}

static inline void gate_open(struct gate *gate)
{
	ASSERT_SYS(sem_post(&gate->open));
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the tests of both documents have around the documents' code. The test is the exporting process; the importing
 * one is a peer, which shares a Unix socket with it and nothing else. Only CUDA's runtime API is called.
 */
#ifndef CENOTE_TESTS_DOCUMENTS_PROCESSES_H
#define CENOTE_TESTS_DOCUMENTS_PROCESSES_H

#include "documents.h"
#include "harness.h"

#include <unistd.h>

/* The calls of a document's piece, which looks at no result, have all succeeded. */
#define ASSERT_ALL_OK() ASSERT_OK(cudaGetLastError())

static inline cudaEvent_t make_ipc_event(void)
{
	cudaEvent_t event;

	ASSERT_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
	return event;
}

/* For SETUP: what the library keeps for good once something was shared. */
static inline void start(void)
{
	cudaIpcEventHandle_t handle;
	cudaMemPool_t pool;

	ASSERT_OK(cudaSetDevice(0));
	close(export_pool(&pool));
	ASSERT_ALL_OK();
	ASSERT_OK(cudaMemPoolDestroy(pool));
	cudaEvent_t event = make_ipc_event();
	ASSERT_OK(cudaIpcGetEventHandle(&handle, event));
	ASSERT_OK(cudaEventDestroy(event));
}

static inline cudaStream_t make_stream(void)
{
	cudaStream_t stream;

	ASSERT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	return stream;
}

/* A new pool, which the importing process is given by document 1's code. */
static inline cudaMemPool_t share_a_pool(struct peer *importer)
{
	cudaMemPool_t pool;
	int descriptor = export_pool(&pool);

	ASSERT_ALL_OK();
	ASSERT_GT(descriptor, 2); /* it was 0 */
	peer_send_descriptor(importer, descriptor);
	close(descriptor);
	return pool;
}

/* The other end of that. */
static inline cudaMemPool_t receive_a_pool(struct peer *exporter)
{
	int descriptor = peer_receive_descriptor(exporter);
	cudaMemPool_t pool = import_pool(descriptor);

	ASSERT_ALL_OK();
	ASSERT_OK(close(descriptor)); /* it was not taken away, and is not needed any more */
	return pool;
}

static inline uint64_t used_bytes(cudaMemPool_t pool)
{
	uint64_t bytes;

	ASSERT_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &bytes));
	return bytes;
}

/*
 * A number that a kernel writes before or after this by the order of another process, which ThreadSanitizer does not
 * see.
 */
__attribute__((noinline, no_sanitize_thread)) static int number_at(const int *numbers, int i)
{
	return *(const volatile int *)&numbers[i];
}

static inline void assert_numbers(int expected, const int *numbers)
{
	for (int i = 0; i < NUMBERS; i++)
		ASSERT_EQ(expected, number_at(numbers, i));
}

/* A block's numbers, read by a copy that waits for nothing but itself. */
static inline void assert_block(int expected, const void *block)
{
	int numbers[NUMBERS];

	ASSERT_OK(cudaMemcpy(numbers, block, sizeof numbers, cudaMemcpyDeviceToHost));
	assert_numbers(expected, numbers);
}

#endif

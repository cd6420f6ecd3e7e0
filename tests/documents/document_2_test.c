/* SPDX-License-Identifier: MIT */
/*
 * Document 2: a block is prepared, shared and freed by the document's code, in the order that the text promises, and
 * in the other ways that it allows.
 *
 * A gate in a stream holds it until a byte is written, so that each test knows what cannot have happened yet. The
 * kernel adds 1 to each number and keeps what it found: a launch out of order finds other numbers.
 */
#include "processes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

void kernel(const cenote_thread *at, void **args)
{
	size_t i = (size_t)at->blockIdx.x * at->blockDim.x + at->threadIdx.x;
	int *block = *(int **)args[0], *seen = *(int **)args[1];

	seen[i] = block[i]++;
}
CENOTE_KERNEL(kernel, int *, int *);

SETUP
{
	start();
}

/* ---- Both processes ---------------------------------------------------------------------------------------------- */

static void wait_for_byte(int reader)
{
	char byte;
	ssize_t count;

	while ((count = read(reader, &byte, 1)) == -1 && errno == EINTR)
		continue;
	ASSERT_EQ(1, count);
}

static void send_byte(int writer)
{
	ASSERT_EQ(1, write(writer, "", 1));
}

static void CUDART_CB hold(void *reader)
{
	wait_for_byte((int)(intptr_t)reader);
}

/* The stream goes no further until a byte can be read. */
static void close_gate(int reader, cudaStream_t stream)
{
	ASSERT_OK(cudaLaunchHostFunc(stream, hold, (void *)(intptr_t)reader));
}

static void make_pipe(int ends[2])
{
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
}

static void close_pipe(const int ends[2])
{
	close(ends[0]);
	close(ends[1]);
}

static int *make_numbers(void)
{
	void *numbers = NULL;

	ASSERT_OK(cudaMallocHost(&numbers, SIZE));
	memset(numbers, 0, SIZE);
	return numbers;
}

static struct shared *map_shared(int descriptor)
{
	struct shared *shmem = mmap(NULL, sizeof *shmem, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);

	ASSERT_NE(MAP_FAILED, (void *)shmem);
	close(descriptor);
	return shmem;
}

/* The shared memory of the text, which goes over the socket as a descriptor, with the handle of one event in it. */
static struct shared *share_memory(struct peer *importer, cudaEvent_t finished)
{
	int descriptor;

	ASSERT_SYS(descriptor = memfd_create("shmem", MFD_CLOEXEC));
	ASSERT_SYS(ftruncate(descriptor, sizeof(struct shared)));
	struct shared *shmem = map_shared(dup(descriptor));
	ASSERT_OK(cudaIpcGetEventHandle(&shmem->finishedIpcEventHandle, finished));
	peer_send_descriptor(importer, descriptor);
	close(descriptor);
	return shmem;
}

static void launch(void *block, int *seen, cudaStream_t stream)
{
	void *args[] = {&block, &seen};
	dim3 grid = {NUMBERS / THREADS, 1, 1}, threads = {THREADS, 1, 1};

	ASSERT_OK(cudaLaunchKernel((const void *)kernel, grid, threads, args, 0, stream));
}

/* ---- In the document's way: events ------------------------------------------------------------------------------- */

/* After its free a block is not the importer's any more. */
static void assert_gone(void *block)
{
	int number;

	ASSERT_ERROR(cudaErrorInvalidValue, cudaMemcpy(&number, block, sizeof number, cudaMemcpyDeviceToHost));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaFreeAsync(block, NULL));
	ASSERT_ERROR(cudaErrorInvalidValue, cudaFree(block));
}

ROLE(importer_with_events)
{
	struct shared *shmem = map_shared(peer_receive_descriptor(parent));
	cudaEvent_t ready, finished, first_done;
	int gate[2];

	ASSERT_OK(cudaIpcOpenEventHandle(&finished, shmem->finishedIpcEventHandle));
	leaks_start_here(); /* a connection that lives as long as the exporter */
	cudaMemPool_t pool = receive_a_pool(parent);
	cudaStream_t stream = make_stream();
	int *first = make_numbers(), *second = make_numbers();
	make_pipe(gate);
	ASSERT_OK(cudaEventCreate(&first_done));
	peer_expect(parent, "filled in");
	void *ptr = import_allocation(pool, stream, shmem, first, &ready);
	ASSERT_ALL_OK();
	ASSERT_OK(cudaEventRecord(first_done, stream));
	ASSERT_ERROR(cudaErrorNotReady, cudaEventQuery(ready));
	ASSERT_ERROR(cudaErrorNotReady, cudaEventQuery(first_done));
	cudaGetLastError();

	close_gate(gate[0], stream);
	free_in_importer(ptr, stream, finished, second);
	ASSERT_ALL_OK();
	ASSERT_ERROR(cudaErrorNotReady, cudaEventQuery(first_done)); /* nothing of this has waited */
	assert_numbers(0, first);
	peer_send(parent, "all submitted");

	ASSERT_OK(cudaEventSynchronize(first_done));
	ASSERT_OK(cudaEventQuery(ready));
	assert_numbers(FIRST, first);
	ASSERT_ERROR(cudaErrorNotReady, cudaEventQuery(finished));
	peer_expect(parent, "open your gate");
	assert_numbers(0, second);
	send_byte(gate[1]);
	ASSERT_OK(cudaStreamSynchronize(stream));
	ASSERT_OK(cudaEventQuery(finished));
	assert_numbers(FIRST + 1, second);
	assert_gone(ptr);

	ASSERT_OK(cudaEventDestroy(first_done));
	ASSERT_OK(cudaEventDestroy(ready));
	ASSERT_OK(cudaEventDestroy(finished));
	ASSERT_OK(cudaMemPoolDestroy(pool));
	ASSERT_OK(cudaStreamDestroy(stream));
	ASSERT_OK(cudaFreeHost(first));
	ASSERT_OK(cudaFreeHost(second));
	munmap(shmem, sizeof *shmem);
	close_pipe(gate);
}

/*
 * Goal: export and import wait for no stream; the importer's kernel waits for the ready event; the exporter's kernel
 * and free wait for the finished event, behind the importer's last kernel and its free.
 */
TEST(events_keep_the_order)
{
	struct peer *importer = peer_start("importer_with_events");
	cudaEvent_t ready, finished = make_ipc_event();
	struct shared *shmem = share_memory(importer, finished);
	cudaMemPool_t pool = share_a_pool(importer);
	cudaStream_t stream = make_stream();
	int *seen = make_numbers(), gate[2];

	make_pipe(gate);
	close_gate(gate[0], stream);
	void *ptr = prepare_allocation(pool, SIZE, stream, shmem, &ready);
	ASSERT_ALL_OK();
	ASSERT_ERROR(cudaErrorNotReady, cudaStreamQuery(stream));
	peer_send(importer, "filled in");
	peer_expect(importer, "all submitted");
	ASSERT_ERROR(cudaErrorNotReady, cudaEventQuery(ready)); /* after the import and its launches */
	ASSERT_ERROR(cudaErrorNotReady, cudaEventQuery(finished));
	send_byte(gate[1]);
	ASSERT_OK(cudaEventSynchronize(ready));

	cudaGetLastError();
	free_in_exporter(ptr, stream, finished, seen);
	ASSERT_ALL_OK();
	ASSERT_ERROR(cudaErrorNotReady, cudaStreamQuery(stream)); /* it cannot pass the importer's gate */
	assert_numbers(0, seen);
	peer_send(importer, "open your gate");
	ASSERT_OK(cudaStreamSynchronize(stream));
	ASSERT_OK(cudaEventQuery(finished));
	assert_numbers(FIRST + 2, seen);
	ASSERT_EQ(0, used_bytes(pool));
	peer_wait(importer);

	ASSERT_OK(cudaEventDestroy(ready));
	ASSERT_OK(cudaEventDestroy(finished));
	ASSERT_OK(cudaMemPoolDestroy(pool));
	ASSERT_OK(cudaStreamDestroy(stream));
	ASSERT_OK(cudaFreeHost(seen));
	munmap(shmem, sizeof *shmem);
	close_pipe(gate);
}

/* ---- In the other ways that the text allows ---------------------------------------------------------------------- */

/* An importer without events: one pipe tells it that the block is ready, by another it tells that it has freed. */
static void import_with_pipes(struct peer *parent, bool free_now)
{
	struct cudaMemPoolPtrExportData name;
	cudaMemPool_t pool = receive_a_pool(parent);
	int ready = peer_receive_descriptor(parent), finished = peer_receive_descriptor(parent);
	cudaStream_t stream = make_stream();
	int *seen = make_numbers();
	void *ptr;

	peer_receive_bytes(parent, &name, sizeof name);
	ASSERT_OK(cudaMemPoolImportPointer(&ptr, pool, &name));
	peer_send(parent, "imported");
	wait_for_byte(ready);
	launch(ptr, seen, stream);
	if (free_now) {
		ASSERT_OK(cudaStreamSynchronize(stream)); /* for which cudaFree() does not wait */
		ASSERT_OK(cudaFree(ptr));
	} else {
		ASSERT_OK(cudaFreeAsync(ptr, stream));
		ASSERT_OK(cudaStreamSynchronize(stream));
	}
	assert_gone(ptr);
	send_byte(finished);
	assert_numbers(FIRST, seen);

	ASSERT_OK(cudaMemPoolDestroy(pool));
	ASSERT_OK(cudaStreamDestroy(stream));
	ASSERT_OK(cudaFreeHost(seen));
	close(ready);
	close(finished);
}

ROLE(importer_with_pipes)
{
	import_with_pipes(parent, false);
}

ROLE(importer_that_frees_now)
{
	import_with_pipes(parent, true);
}

/* The exporter's side of it, up to the importer's free. */
struct exporter {
	cudaMemPool_t pool;
	cudaStream_t stream;
	struct peer *importer;
	void *ptr;
	int *seen;
};

static struct exporter export_with_pipes(const char *role)
{
	struct exporter exporter = {.stream = make_stream(), .seen = make_numbers()};
	struct cudaMemPoolPtrExportData name;
	int gate[2], ready[2], finished[2];

	exporter.importer = harness_peer_start(role, (const char *)NULL);
	exporter.pool = share_a_pool(exporter.importer);
	make_pipe(gate);
	make_pipe(ready);
	make_pipe(finished);
	peer_send_descriptor(exporter.importer, ready[0]);
	peer_send_descriptor(exporter.importer, finished[1]);
	close_gate(gate[0], exporter.stream);
	ASSERT_OK(cudaMallocFromPoolAsync(&exporter.ptr, SIZE, exporter.pool, exporter.stream));
	ASSERT_OK(cudaMemsetAsync(exporter.ptr, FIRST_BYTE, SIZE, exporter.stream));
	ASSERT_OK(cudaMemPoolExportPointer(&name, exporter.ptr));
	peer_send_bytes(exporter.importer, &name, sizeof name);
	peer_expect(exporter.importer, "imported");
	ASSERT_ERROR(cudaErrorNotReady, cudaStreamQuery(exporter.stream));
	send_byte(gate[1]);
	ASSERT_OK(cudaStreamSynchronize(exporter.stream));
	send_byte(ready[1]);
	wait_for_byte(finished[0]);
	close_pipe(gate);
	close_pipe(ready);
	close_pipe(finished);
	return exporter;
}

static void end_exporter(const struct exporter *exporter)
{
	ASSERT_EQ(0, used_bytes(exporter->pool));
	ASSERT_OK(cudaMemPoolDestroy(exporter->pool));
	ASSERT_OK(cudaStreamDestroy(exporter->stream));
	ASSERT_OK(cudaFreeHost(exporter->seen));
}

/* Goal: a stream that was waited for, and a byte in a pipe, keep the order as well as an event does. */
TEST(synchronisation_and_a_pipe_keep_the_order)
{
	struct exporter exporter = export_with_pipes("importer_with_pipes");

	launch(exporter.ptr, exporter.seen, exporter.stream);
	ASSERT_OK(cudaFreeAsync(exporter.ptr, exporter.stream));
	ASSERT_OK(cudaStreamSynchronize(exporter.stream));
	assert_numbers(FIRST + 1, exporter.seen);
	peer_wait(exporter.importer);
	end_exporter(&exporter);
}

/* Goal: cudaFree() frees on both sides; the memory is there for the next block at once. */
TEST(both_free_with_cudaFree)
{
	struct exporter exporter = export_with_pipes("importer_that_frees_now");
	void *next;

	assert_block(FIRST + 1, exporter.ptr);
	ASSERT_EQ(SIZE, used_bytes(exporter.pool)); /* the importer's free was not the exporter's */
	ASSERT_OK(cudaFree(exporter.ptr));
	ASSERT_EQ(0, used_bytes(exporter.pool));
	assert_gone(exporter.ptr);
	ASSERT_OK(cudaMallocFromPoolAsync(&next, SIZE, exporter.pool, exporter.stream));
	ASSERT_EQ(exporter.ptr, next);
	ASSERT_OK(cudaFree(next));
	peer_wait(exporter.importer);
	end_exporter(&exporter);
}

/* Goal: the exporter goes on with a block that the importer has freed, also when that process has ended. */
TEST(exporter_goes_on_after_the_importers_free)
{
	struct exporter exporter = export_with_pipes("importer_with_pipes");

	for (int round = 1; round <= 100; round++) {
		launch(exporter.ptr, exporter.seen, exporter.stream);
		ASSERT_OK(cudaStreamSynchronize(exporter.stream));
		assert_numbers(FIRST + round, exporter.seen);
		if (round == 50)
			peer_wait(exporter.importer);
	}
	assert_block(FIRST + 101, exporter.ptr);
	ASSERT_EQ(SIZE, used_bytes(exporter.pool));
	ASSERT_OK(cudaFreeAsync(exporter.ptr, exporter.stream));
	ASSERT_OK(cudaStreamSynchronize(exporter.stream));
	end_exporter(&exporter);
}

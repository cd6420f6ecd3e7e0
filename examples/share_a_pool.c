/* SPDX-License-Identifier: MIT */
/*
 * A memory pool shared between two processes: CUDA's chapter "Creating and Sharing IPC Memory Pools", as a program.
 *
 * The exporter creates a pool that can be shared, and sends a descriptor of it over a Unix socket. The importer makes a
 * pool of its own from that. Any block of the exporter's can then be named in 64 bytes, sent by any means, and used in
 * both processes: the same memory. Here the two keep the order by waiting for their streams and sending a byte;
 * share_allocations.c does it with events, without waiting.
 *
 * Only CUDA's API and plain sockets are used, so the program can also be built with NVIDIA's headers and libraries, and
 * runs on a GPU unchanged. (cenote_send_pool() and cenote_send_block(), in cenote.h, do the sending in one call each.)
 *
 *     gcc share_a_pool.c -lcudart && ./a.out
 */
#include "two_processes.h"

enum { BYTES = 1 << 20, QUESTION = 0x2a, ANSWER = 0x54 };

static unsigned char first_byte(const void *block)
{
	unsigned char byte;

	CHECK(cudaMemcpy(&byte, block, 1, cudaMemcpyDeviceToHost));
	return byte;
}

/* ---- The exporter ---- */

static cudaMemPool_t create_pool(void)
{
	struct cudaMemPoolProps properties;
	cudaMemPool_t pool;
	int types = 0;

	CHECK(cudaDeviceGetAttribute(&types, cudaDevAttrMemoryPoolSupportedHandleTypes, 0));
	if (!(types & cudaMemHandleTypePosixFileDescriptor))
		fail("this device", "its pools are not shared by descriptor");
	say("asked: pools can be shared by descriptor");
	memset(&properties, 0, sizeof properties);
	properties.allocType = cudaMemAllocationTypePinned;
	properties.location.type = cudaMemLocationTypeDevice;
	properties.location.id = 0;
	properties.handleTypes = cudaMemHandleTypePosixFileDescriptor; /* without this it could not be exported */
	CHECK(cudaMemPoolCreate(&pool, &properties));
	say("created a pool that can be shared");
	return pool;
}

static void share_pool(int sock, cudaMemPool_t pool)
{
	int descriptor = 0;

	/* The descriptor is written to where the first argument points. */
	CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
	say("exported it as descriptor %d, sends that  ----------->", descriptor);
	send_descriptor(sock, descriptor);
	close(descriptor); /* the importer has its own */
}

static int run_exporter(void)
{
	struct cudaMemPoolPtrExportData name;
	cudaStream_t stream;
	void *block;
	int sock;

	pid_t importer = start_importer(&sock);
	CHECK(cudaSetDevice(0));
	CHECK(cudaStreamCreate(&stream));
	cudaMemPool_t pool = create_pool();
	share_pool(sock, pool);

	CHECK(cudaMallocFromPoolAsync(&block, BYTES, pool, stream));
	CHECK(cudaMemsetAsync(block, QUESTION, BYTES, stream));
	CHECK(cudaStreamSynchronize(stream)); /* before another process reads it */
	say("allocated a block at %p, wrote %d", block, QUESTION);
	CHECK(cudaMemPoolExportPointer(&name, block));
	say("named it in %zu bytes, sends those  ----------------->", sizeof name);
	send_bytes(sock, &name, sizeof name);

	be_told(sock); /* the importer has freed it: now it may be freed here */
	if (first_byte(block) != ANSWER)
		fail("reading", "this is not the importer's answer");
	say("reads %d in its block", ANSWER);
	CHECK(cudaFree(block));
	CHECK(cudaMemPoolDestroy(pool));
	CHECK(cudaStreamDestroy(stream));
	say("freed the block, destroyed the pool");
	await_importer(importer);
	printf("done: two processes, one pool\n");
	return 0;
}

/* ---- The importer ---- */

static cudaMemPool_t receive_pool(int sock)
{
	cudaMemPool_t pool;
	int descriptor = receive_descriptor(sock);

	say("received it as descriptor %d", descriptor);
	/* Here it is the descriptor itself that is passed, not a pointer to it. */
	CHECK(cudaMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)descriptor,
						   cudaMemHandleTypePosixFileDescriptor, 0));
	close(descriptor); /* the pool does not need it any more */
	say("imported the pool, closed the descriptor");
	return pool;
}

static int run_importer(int sock)
{
	struct cudaMemPoolPtrExportData name;
	cudaStream_t stream;
	void *block;

	CHECK(cudaSetDevice(0));
	CHECK(cudaStreamCreate(&stream));
	cudaMemPool_t pool = receive_pool(sock);
	if (cudaMallocFromPoolAsync(&block, BYTES, pool, stream) == cudaSuccess)
		fail("allocating", "an imported pool has given memory");
	say("asks it for memory: %s, as it should be", cudaGetErrorName(cudaGetLastError()));

	receive_bytes(sock, &name, sizeof name);
	CHECK(cudaMemPoolImportPointer(&block, pool, &name));
	say("imported the block: here it is at %p", block);
	if (first_byte(block) != QUESTION)
		fail("reading", "this is not what the exporter wrote");
	say("reads %d", QUESTION);
	CHECK(cudaMemsetAsync(block, ANSWER, BYTES, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaFree(block)); /* here first, then in the exporter */
	say("wrote %d, freed the block here", ANSWER);
	say("<----------- tells the exporter");
	tell(sock);
	CHECK(cudaMemPoolDestroy(pool));
	CHECK(cudaStreamDestroy(stream));
	return 0;
}

int main(int argc, char **argv)
{
	int sock;

	return started_as_importer(argc, argv, &sock) ? run_importer(sock) : run_exporter();
}

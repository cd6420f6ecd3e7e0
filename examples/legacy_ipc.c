/* SPDX-License-Identifier: MIT */
/*
 * Memory of cudaMalloc() in another process, by a handle of 64 bytes: CUDA's oldest way to share, and the one that
 * needs nothing but a few bytes to travel.
 *
 *     exporter   cudaMalloc - write - cudaIpcGetMemHandle ---- 64 bytes ----.          read - cudaFree
 *     importer                                cudaIpcOpenMemHandle - read, write - cudaIpcCloseMemHandle
 *
 * An event, shared in the same way, keeps the two streams in order: the importer's work waits on the device for the
 * exporter's. The bytes may travel in any way, here over a socket; they work in processes of the same user.
 *
 * Only CUDA's API and plain sockets are used, so the program can also be built with NVIDIA's headers and libraries, and
 * runs on a GPU unchanged.
 *
 *     gcc legacy_ipc.c -lcudart && ./a.out
 */
#include "two_processes.h"

enum { NUMBERS = 100000 };

static const size_t half_bytes = NUMBERS / 2 * sizeof(int);

/* What the exporter tells the importer. */
struct letter {
	cudaIpcMemHandle_t numbers;
	cudaIpcEventHandle_t written;
};

static void need_ipc(void)
{
	int supported = 0;

	CHECK(cudaSetDevice(0));
	CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrIpcEventSupport, 0));
	if (!supported)
		fail("device 0", "it has no IPC (cudaDevAttrIpcEventSupport)");
}

static int *host_numbers(void)
{
	int *numbers;

	CHECK(cudaMallocHost((void **)&numbers, NUMBERS * sizeof *numbers));
	return numbers;
}

/* ---- The exporter ---- */

static int run_exporter(void)
{
	struct letter letter;
	cudaStream_t stream;
	cudaEvent_t written;
	int sock, *numbers;

	pid_t importer = start_importer(&sock);
	need_ipc();
	int *host = host_numbers();
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaEventCreateWithFlags(&written, cudaEventDisableTiming | cudaEventInterprocess));
	CHECK(cudaMalloc((void **)&numbers, NUMBERS * sizeof *numbers));
	CHECK(cudaIpcGetMemHandle(&letter.numbers, numbers));
	CHECK(cudaIpcGetEventHandle(&letter.written, written));
	say("allocated %d numbers, has handles for them", NUMBERS);

	for (int i = 0; i < NUMBERS; i++)
		host[i] = i;
	CHECK(cudaMemcpyAsync(numbers, host, NUMBERS * sizeof *host, cudaMemcpyHostToDevice, stream));
	CHECK(cudaEventRecord(written, stream)); /* before telling the importer: a wait is for the latest record */
	say("submitted: write 0, 1, 2 ...; sends the handles  ---->");
	send_bytes(sock, &letter, sizeof letter);

	be_told(sock);
	CHECK(cudaMemcpy(host, numbers, NUMBERS * sizeof *host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < NUMBERS; i++)
		if (host[i] != (i < NUMBERS / 2 ? i : i - NUMBERS / 2))
			fail("reading", "these are not the numbers that should be there");
	say("reads %d, %d ... %d, %d ...: the importer's work", host[0], host[1], host[NUMBERS / 2],
	    host[NUMBERS / 2 + 1]);
	await_importer(importer);
	CHECK(cudaFree(numbers)); /* now that the importer has closed it: otherwise CUDA leaves it undefined */
	say("freed the numbers");
	CHECK(cudaEventDestroy(written));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFreeHost(host));
	printf("done: two processes, one allocation\n");
	return 0;
}

/* ---- The importer ---- */

static int run_importer(int sock)
{
	struct letter letter;
	cudaStream_t stream;
	cudaEvent_t written;
	int *numbers, *again;

	need_ipc();
	int *host = host_numbers();
	CHECK(cudaStreamCreate(&stream));
	receive_bytes(sock, &letter, sizeof letter);
	CHECK(cudaIpcOpenMemHandle((void **)&numbers, letter.numbers, cudaIpcMemLazyEnablePeerAccess));
	CHECK(cudaIpcOpenEventHandle(&written, letter.written));
	say("opened the numbers, at an address of its own");
	CHECK(cudaIpcOpenMemHandle((void **)&again, letter.numbers, cudaIpcMemLazyEnablePeerAccess));
	if (again != numbers)
		fail("opening again", "the address is another one");
	CHECK(cudaIpcCloseMemHandle(again)); /* counted: the first opening is still there */

	CHECK(cudaStreamWaitEvent(stream, written, 0));
	CHECK(cudaMemcpyAsync(host, numbers, NUMBERS * sizeof *host, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaMemcpyAsync(numbers + NUMBERS / 2, numbers, half_bytes, cudaMemcpyDeviceToDevice, stream));
	say("submitted: wait, read, copy one half to the other");
	CHECK(cudaStreamSynchronize(stream));
	for (int i = 0; i < NUMBERS; i++)
		if (host[i] != i)
			fail("reading", "these are not the numbers that should be there");
	say("reads %d, %d, %d ...", host[0], host[1], host[2]);
	say("<----------- is done, and tells the exporter so");
	tell(sock);

	CHECK(cudaIpcCloseMemHandle(numbers)); /* not cudaFree(): it is not ours */
	say("closed the numbers");
	CHECK(cudaEventDestroy(written));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFreeHost(host));
	return 0;
}

int main(int argc, char **argv)
{
	int sock;

	return started_as_importer(argc, argv, &sock) ? run_importer(sock) : run_exporter();
}

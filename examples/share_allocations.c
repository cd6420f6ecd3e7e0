/* SPDX-License-Identifier: MIT */
/*
 * Allocations of a shared pool, in order without waiting: CUDA's chapter "Creating and Sharing Allocations from an
 * Exported Pool", as a program.
 *
 * Each process puts its work on a stream and goes on; two events, shared by handle, keep the streams in order:
 *
 *     exporter's stream   allocate - take a while - write - record READY . . . . . . . . wait FINISHED - go on - free
 *     importer's stream                           . . . wait READY - work - free - record FINISHED
 *
 * The importer has imported the block long before it is ready, and the exporter has submitted its last work before the
 * importer's has begun: the times on the left show it. What names the block and the events is copied through shared
 * memory, as in the text.
 *
 * Only CUDA's API and plain sockets are used, so the program can also be built with NVIDIA's headers and libraries, and
 * runs on a GPU unchanged. Kernels are loaded from beside the program: see load_kernels().
 *
 *     gcc share_allocations.c -lcudart -lcuda && ./a.out        with share_allocations_kernels.ptx beside it
 */
#include "two_processes.h"

#include <cuda.h>

#include <limits.h>
#include <sys/mman.h>

enum { NUMBERS = 100000, BLOCK = 128, FACTOR = 10, MORE = 7, A_WHILE_US = 50000 };

/* What the exporter tells the importer, in memory that both have. */
struct shared {
	struct cudaMemPoolPtrExportData pointer;
	cudaIpcEventHandle_t ready, finished;
};

/* ---- What both do ---- */

static struct shared *map_shared(int descriptor)
{
	void *address = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);

	if (address == MAP_FAILED)
		fail("mapping shared memory", strerror(errno));
	close(descriptor);
	return address;
}

/* The module beside this program: a GPU takes the .ptx; the host device refuses that, and takes the shared object. */
static CUmodule load_kernels(void)
{
	static const char *const endings[] = {"ptx", "so"};
	char program[PATH_MAX] = "", path[PATH_MAX + 40];
	CUresult result = CUDA_ERROR_FILE_NOT_FOUND;
	CUmodule module = NULL;

	CHECK_SYSTEM(readlink("/proc/self/exe", program, sizeof program - 1));
	*strrchr(program, '/') = '\0';
	for (int i = 0; i < 2 && result; i++) {
		snprintf(path, sizeof path, "%s/share_allocations_kernels.%s", program, endings[i]);
		result = cuModuleLoad(&module, path);
	}
	if (result)
		fail(path, "it cannot be loaded");
	return module;
}

/* kernel<<<..., stream>>>(numbers, count, value) */
static void launch(CUmodule module, const char *name, int *numbers, int value, cudaStream_t stream)
{
	unsigned int count = NUMBERS;
	void *arguments[] = {&numbers, &count, &value};
	CUfunction kernel;

	if (cuModuleGetFunction(&kernel, module, name) ||
	    cuLaunchKernel(kernel, (NUMBERS + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, arguments, NULL))
		fail(name, "the kernel cannot be launched");
}

static void verify(const int *numbers, int factor, int more)
{
	for (int i = 0; i < NUMBERS; i++)
		if (numbers[i] != i * factor + more)
			fail("reading", "these are not the numbers that should be there");
}

static cudaEvent_t create_shared_event(cudaIpcEventHandle_t *ret_handle)
{
	cudaEvent_t event;

	CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
	CHECK(cudaIpcGetEventHandle(ret_handle, event));
	return event;
}

/* ---- The exporter ---- */

static cudaMemPool_t create_and_send_pool(int sock)
{
	struct cudaMemPoolProps properties;
	cudaMemPool_t pool;
	int descriptor;

	memset(&properties, 0, sizeof properties);
	properties.allocType = cudaMemAllocationTypePinned;
	properties.location.type = cudaMemLocationTypeDevice;
	properties.location.id = 0;
	properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
	CHECK(cudaMemPoolCreate(&pool, &properties));
	CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
	say("created a pool, sends its descriptor  --------------->");
	send_descriptor(sock, descriptor);
	close(descriptor);
	return pool;
}

static struct shared *create_and_send_shared(int sock)
{
	int descriptor = CHECK_SYSTEM(memfd_create("share_allocations", MFD_CLOEXEC));

	CHECK_SYSTEM(ftruncate(descriptor, sizeof(struct shared)));
	send_descriptor(sock, descriptor);
	return map_shared(descriptor);
}

/* Called by the stream: stands for a long computation. */
static void CUDART_CB take_a_while(void *unused)
{
	(void)unused;
	say("  [stream] works for %d ms ...", A_WHILE_US / 1000);
	usleep(A_WHILE_US);
	say("  [stream] ... and is done");
}

static void say_in_stream(void *text)
{
	say("  [stream] %s", (const char *)text);
}

static char ready_text[] = "the block is ready", worked_text[] = "multiplied; the block is freed here",
	    last_text[] = "added; the block is freed here, too";

static int run_exporter(void)
{
	cudaStream_t stream;
	int sock, *numbers, *result;

	pid_t importer = start_importer(&sock);
	CHECK(cudaSetDevice(0));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMallocHost((void **)&result, NUMBERS * sizeof *result)); /* a copy to other memory would wait */
	CUmodule kernels = load_kernels();
	cudaMemPool_t pool = create_and_send_pool(sock);
	struct shared *shared = create_and_send_shared(sock);
	cudaEvent_t ready = create_shared_event(&shared->ready);
	cudaEvent_t finished = create_shared_event(&shared->finished);

	CHECK(cudaMallocFromPoolAsync((void **)&numbers, NUMBERS * sizeof *numbers, pool, stream));
	CHECK(cudaLaunchHostFunc(stream, take_a_while, NULL));
	launch(kernels, "number", numbers, 0, stream);
	CHECK(cudaLaunchHostFunc(stream, say_in_stream, ready_text));
	CHECK(cudaEventRecord(ready, stream));
	say("submitted: allocate, work, write, record READY");
	CHECK(cudaMemPoolExportPointer(&shared->pointer, numbers));
	say("names of block and events are in shared memory  ----->");
	tell(sock);

	/* A wait is for the latest record: so first be told that FINISHED is recorded. */
	be_told(sock);
	CHECK(cudaStreamWaitEvent(stream, finished, 0));
	launch(kernels, "add", numbers, MORE, stream); /* the importer's free does not keep us from using it */
	CHECK(cudaMemcpyAsync(result, numbers, NUMBERS * sizeof *result, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaFreeAsync(numbers, stream));
	CHECK(cudaLaunchHostFunc(stream, say_in_stream, last_text));
	say("submitted: wait FINISHED, add %d, read, free", MORE);
	CHECK(cudaStreamSynchronize(stream));
	verify(result, FACTOR, MORE);
	say("reads %d, %d, %d ...: both have worked on it, in order", result[0], result[1], result[2]);

	await_importer(importer);
	CHECK(cudaEventDestroy(ready));
	CHECK(cudaEventDestroy(finished));
	CHECK(cudaMemPoolDestroy(pool));
	CHECK(cudaStreamDestroy(stream));
	munmap(shared, sizeof *shared);
	CHECK(cudaFreeHost(result));
	printf("done: two processes, one block, in order\n");
	return 0;
}

/* ---- The importer ---- */

static int run_importer(int sock)
{
	cudaStream_t stream;
	cudaMemPool_t pool;
	cudaEvent_t ready, finished;
	int *numbers, *result;

	CHECK(cudaSetDevice(0));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMallocHost((void **)&result, NUMBERS * sizeof *result)); /* a copy to other memory would wait */
	CUmodule kernels = load_kernels();
	int descriptor = receive_descriptor(sock);
	CHECK(cudaMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)descriptor,
						   cudaMemHandleTypePosixFileDescriptor, 0));
	close(descriptor);
	say("imported the pool");
	struct shared *shared = map_shared(receive_descriptor(sock));

	be_told(sock); /* the shared memory is filled in */
	CHECK(cudaIpcOpenEventHandle(&ready, shared->ready));
	CHECK(cudaIpcOpenEventHandle(&finished, shared->finished));
	CHECK(cudaMemPoolImportPointer((void **)&numbers, pool, &shared->pointer));
	say("imported the block, opened the events");

	CHECK(cudaStreamWaitEvent(stream, ready, 0));
	launch(kernels, "multiply", numbers, FACTOR, stream);
	CHECK(cudaMemcpyAsync(result, numbers, NUMBERS * sizeof *result, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaFreeAsync(numbers, stream)); /* the last use here; in stream order before FINISHED */
	CHECK(cudaLaunchHostFunc(stream, say_in_stream, worked_text));
	CHECK(cudaEventRecord(finished, stream));
	say("submitted: wait READY, times %d, read, free,", FACTOR);
	say("record FINISHED");
	say("<----------- tells the exporter so");
	tell(sock);
	CHECK(cudaStreamSynchronize(stream));
	verify(result, FACTOR, 0);
	say("reads %d, %d, %d ...", result[0], result[1], result[2]);

	CHECK(cudaEventDestroy(ready));
	CHECK(cudaEventDestroy(finished));
	CHECK(cudaMemPoolDestroy(pool));
	CHECK(cudaStreamDestroy(stream));
	munmap(shared, sizeof *shared);
	CHECK(cudaFreeHost(result));
	return 0;
}

int main(int argc, char **argv)
{
	int sock;

	return started_as_importer(argc, argv, &sock) ? run_importer(sock) : run_exporter();
}

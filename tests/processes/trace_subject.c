/* SPDX-License-Identifier: MIT */
/*
 * A program to be traced, in one role or another: trace_subject ROLE. command_trace_test.py knows what must be seen.
 */
#include <cenote/cenote.h>
#include <cenote/cuda_runtime_api.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s: %s\n", what, cenote_last_error());
	exit(99);
}
#define EXPECT(condition) expect((condition), #condition)

static CUstream begin(void)
{
	CUcontext context;
	CUstream stream;

	EXPECT(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
	EXPECT(!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

/* ---- Roles ------------------------------------------------------------------------------------------------------- */

/* Calls that fail, and a status. */
static int fail(void)
{
	begin();
	EXPECT(cuMemFree(12345) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cudaEventDestroy(NULL) != cudaSuccess);
	return 3;
}

/* Killed within a call: what Cenote calls to receive something is this. */
static int is_to_die;

ssize_t recvmsg(int sock, struct msghdr *message, int flags)
{
	static ssize_t (*next)(int, struct msghdr *, int);

	if (is_to_die)
		kill(getpid(), SIGKILL);
	if (!next)
		next = (ssize_t(*)(int, struct msghdr *, int))dlsym(RTLD_NEXT, "recvmsg");
	return next(sock, message, flags);
}

static int die(void)
{
	int ends[2], descriptor;

	begin();
	EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	is_to_die = 1;
	return cenote_recv_descriptor(ends[0], &descriptor) == CUDA_SUCCESS;
}

/* A call, and then another program in the same process. */
static int execute(char *self)
{
	char role[] = "fail";
	char *arguments[] = {self, role, NULL};

	begin();
	execv("/proc/self/exe", arguments);
	return 98;
}

/* A call in a forked child, which CUDA does not live on in; it ends without exit(). */
static int fork_one(void)
{
	CUstream stream = begin();
	pid_t child = fork();

	if (child == 0) {
		EXPECT(cuStreamQuery(stream) != CUDA_SUCCESS);
		_exit(4);
	}
	EXPECT(child > 0);
	return cuStreamSynchronize(stream) != CUDA_SUCCESS;
}

/* A child that lives on when its parent has ended, until standard input ends. */
static int orphan(void)
{
	char byte;
	pid_t child = fork();

	if (child == 0) {
		while (read(STDIN_FILENO, &byte, 1) > 0)
			continue;
		begin();
		return 0;
	}
	EXPECT(child > 0);
	begin();
	return 0;
}

/* Says that it is there, and waits to be interrupted. */
static int wait_for_signal(void)
{
	begin();
	EXPECT(write(STDOUT_FILENO, "!", 1) == 1);
	while (pause() == -1)
		continue;
	return 0;
}

static void scale(const cenote_thread *at, void **args)
{
	(void)at;
	**(char **)args[0] = 7;
}
CENOTE_KERNEL(scale, char *);

static int gate[2];

static void CUDA_CB wait_at_gate(void *unused)
{
	char byte;

	(void)unused;
	EXPECT(read(gate[0], &byte, 1) == 1);
}

static void *use_own_stream(void *memory)
{
	CUcontext context;

	pthread_setname_np(pthread_self(), "second");
	EXPECT(!cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
	EXPECT(!cuMemsetD8Async((CUdeviceptr)memory, 1, 64, CU_STREAM_PER_THREAD));
	EXPECT(!cudaMemsetAsync(memory, 1, 64, cudaStreamLegacy));
	EXPECT(!cudaDeviceSynchronize());
	return NULL;
}

/* Work that stands behind other work in a stream, events between streams, a kernel, two threads. */
static int work(void)
{
	CUstream stream = begin(), other;
	CUdeviceptr block;
	CUevent event;
	pthread_t second;

	EXPECT(pipe(gate) == 0);
	EXPECT(!cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	EXPECT(!cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	EXPECT(!cuMemAllocAsync(&block, 4096, stream));
	EXPECT(!cuLaunchHostFunc(stream, wait_at_gate, NULL));
	EXPECT(!cuMemsetD8Async(block, 0, 4096, stream));
	EXPECT(!cuEventRecord(event, stream) && !cuStreamWaitEvent(other, event, 0));
	EXPECT(!cuMemcpyDtoDAsync(block + 64, block, 64, other));
	EXPECT(write(gate[1], "!", 1) == 1);
	EXPECT(!cuEventSynchronize(event) && !cuStreamSynchronize(other));
	dim3 one = {1, 1, 1};
	void *memory = (void *)(uintptr_t)block, *arguments[] = {&memory};
	EXPECT(!cudaLaunchKernel((void *)scale, one, one, arguments, 0, stream));
	EXPECT(!pthread_create(&second, NULL, use_own_stream, memory) && !pthread_join(second, NULL));
	EXPECT(!cuMemFreeAsync(block, stream) && !cuStreamSynchronize(stream));
	return cuStreamDestroy(stream) != CUDA_SUCCESS;
}

/* Two who meet in one process: what is sent is received, the block is freed here first. */
static int send_and_receive(void)
{
	int ends[2], descriptor, received;
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	CUmemoryPool pool;

	begin();
	EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	EXPECT(!cuMemPoolCreate(&pool, &properties));
	EXPECT(!cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	EXPECT(!cenote_send_descriptor(ends[0], descriptor) && !cenote_recv_descriptor(ends[1], &received));
	EXPECT(!cenote_send_pool(ends[0], pool) && !cenote_recv_descriptor(ends[1], &received));
	return 0;
}

/* Everything by address: from a library that this program opens, and from the driver's own table. */
static int look_up(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	CUcontext context;
	CUstream stream;
	CUresult (*create)(CUstream *, unsigned int), (*query)(CUstream) = NULL;
	CUresult (*find)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

	expect(library != NULL, "libcuda.so.1 is found");
	create = (CUresult(*)(CUstream *, unsigned int))dlsym(library, "cuStreamCreate");
	find = (CUresult(*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *))dlsym(
		library, "cuGetProcAddress_v2");
	EXPECT(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
	EXPECT(create && !create(&stream, 0));
	EXPECT(find && !find("cuStreamQuery", (void **)&query, 12000, 0, NULL) && query && !query(stream));
	EXPECT(dlsym(RTLD_DEFAULT, "there is no such name") == NULL);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*play)(void);
	} roles[] = {
		{"fail", fail},
		{"die", die},
		{"fork", fork_one},
		{"orphan", orphan},
		{"wait", wait_for_signal},
		{"work", work},
		{"send", send_and_receive},
		{"look-up", look_up},
	};

	if (argc == 2 && strcmp(argv[1], "execute") == 0)
		return execute(argv[0]);
	for (size_t i = 0; argc == 2 && i < sizeof roles / sizeof roles[0]; i++)
		if (strcmp(roles[i].name, argv[1]) == 0)
			return roles[i].play();
	fprintf(stderr, "there is no such role\n");
	return 97;
}

/* SPDX-License-Identifier: MIT */
/*
 * For programs that are compared over NVIDIA's driver and over Cenote: they are linked with neither. They open whatever
 * libcuda.so.1 the process finds, as CUDA's own runtime does, so one binary runs over the driver alone, and under
 * `cenote run` over Cenote; CENOTE_POOLS=driver there leaves the pools to the driver.
 *
 * The other process of a pair is this program executed again in a role, with a socket between the two.
 */
#ifndef CENOTE_BENCH_GPU_H
#define CENOTE_BENCH_GPU_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "bench.h"
#include "cenote.h"

#define GPU_CALLS(CALL)                          \
	CALL(cuInit)                             \
	CALL(cuGetErrorName)                     \
	CALL(cuDriverGetVersion)                 \
	CALL(cuDeviceGetName)                    \
	CALL(cuDeviceGetDefaultMemPool)          \
	CALL(cuDeviceSetMemPool)                 \
	CALL(cuDevicePrimaryCtxRetain)           \
	CALL(cuCtxSetCurrent)                    \
	CALL(cuStreamCreate)                     \
	CALL(cuStreamQuery)                      \
	CALL(cuStreamSynchronize)                \
	CALL(cuStreamWaitEvent)                  \
	CALL(cuEventCreate)                      \
	CALL(cuEventRecord)                      \
	CALL(cuLaunchHostFunc)                   \
	CALL(cuLaunchKernel)                     \
	CALL(cuModuleLoad)                       \
	CALL(cuModuleGetFunction)                \
	CALL(cuMemAlloc)                         \
	CALL(cuMemFree)                          \
	CALL(cuIpcGetMemHandle)                  \
	CALL(cuIpcOpenMemHandle)                 \
	CALL(cuIpcCloseMemHandle)                \
	CALL(cuMemHostAlloc)                     \
	CALL(cuMemHostGetDevicePointer)          \
	CALL(cuMemcpyDtoH)                       \
	CALL(cuMemcpyDtoHAsync)                  \
	CALL(cuMemsetD32Async)                   \
	CALL(cuMemAllocAsync)                    \
	CALL(cuMemAllocFromPoolAsync)            \
	CALL(cuMemFreeAsync)                     \
	CALL(cuMemPoolCreate)                    \
	CALL(cuMemPoolDestroy)                   \
	CALL(cuMemPoolSetAttribute)              \
	CALL(cuMemPoolGetAttribute)              \
	CALL(cuMemPoolTrimTo)                    \
	CALL(cuMemPoolExportToShareableHandle)   \
	CALL(cuMemPoolImportFromShareableHandle) \
	CALL(cuMemPoolExportPointer)             \
	CALL(cuMemPoolImportPointer)

/* The names are those that the headers make of them: cuMemcpyDtoH is the field cuMemcpyDtoH_v2. */
static struct {
#define GPU_FIELD(name) __typeof__ (&(name))(name);
	GPU_CALLS(GPU_FIELD)
#undef GPU_FIELD
} gpu;

/* What only Cenote has; NULL over the driver. */
static struct {
	const char *(*last_error)(void);
	CUresult (*pool_stats)(CUmemoryPool pool, cenote_pool_statistics *ret_statistics, size_t room_bytes);
} gpu_cenote;

/* ---- Calls ---- */

static inline void *gpu_symbol(void *library, const char *symbol, bool needed)
{
	void *function = dlsym(library, symbol);

	if (!function && needed) {
		fprintf(stderr, "libcuda.so.1 has no %s\n", symbol);
		exit(1);
	}
	return function;
}

static inline void gpu_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "no driver: %s\n", dlerror());
		exit(1);
	}
#define GPU_LOAD_SYMBOL(symbol) *(void **)&gpu.symbol = gpu_symbol(library, #symbol, true);
#define GPU_LOAD(name)          GPU_LOAD_SYMBOL(name)
	GPU_CALLS(GPU_LOAD)
#undef GPU_LOAD
#undef GPU_LOAD_SYMBOL
	*(void **)&gpu_cenote.last_error = gpu_symbol(library, "cenote_last_error", false);
	*(void **)&gpu_cenote.pool_stats = gpu_symbol(library, "cenote_pool_stats", false);
}

__attribute__((cold, noreturn)) static void gpu_fail(CUresult result, const char *call, const char *file, int line)
{
	const char *name = NULL;

	gpu.cuGetErrorName(result, &name);
	fprintf(stderr, "%s:%d: %s: %s%s%s\n", file, line, call, name ? name : "an error without a name",
		gpu_cenote.last_error ? ": " : "", gpu_cenote.last_error ? gpu_cenote.last_error() : "");
	exit(1);
}

/* CU(cuMemFreeAsync(block, stream)): it must work. */
#define CU(call)                                                         \
	do {                                                             \
		CUresult gpu_result = gpu.call;                          \
		if (__builtin_expect(gpu_result != CUDA_SUCCESS, 0))     \
			gpu_fail(gpu_result, #call, __FILE__, __LINE__); \
	} while (0)

static inline void gpu_start(void)
{
	CUcontext context;

	gpu_open();
	CU(cuInit(0));
	CU(cuDevicePrimaryCtxRetain(&context, 0));
	CU(cuCtxSetCurrent(context));
}

static inline CUstream gpu_stream(void)
{
	CUstream stream;

	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

/* A pool of device 0 whose memory stays with it; `types`: how it can be shared. */
static inline CUmemoryPool gpu_pool(CUmemAllocationHandleType types)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = types,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	cuuint64_t everything = UINT64_MAX;
	CUmemoryPool pool;

	CU(cuMemPoolCreate(&pool, &properties));
	CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything));
	return pool;
}

static inline int gpu_export(CUmemoryPool pool)
{
	int descriptor;

	CU(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return descriptor;
}

static inline CUmemoryPool gpu_import(int descriptor)
{
	CUmemoryPool pool;

	CU(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)descriptor,
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return pool;
}

/* Are these pools Cenote's or the driver's? */
static inline const char *gpu_owner(CUmemoryPool pool)
{
	cenote_pool_statistics statistics;

	if (!gpu_cenote.pool_stats)
		return "the driver's";
	return gpu_cenote.pool_stats(pool, &statistics, sizeof statistics) ? "the driver's, behind Cenote" : "Cenote's";
}

/* ---- Two processes ---- */

static inline void gpu_put(int fd, const void *data, size_t bytes)
{
	for (const char *next = data; bytes;) {
		ssize_t count = write(fd, next, bytes);
		BENCH_MUST(count <= 0);
		next += count;
		bytes -= (size_t)count;
	}
}

/* False: the other process has ended. */
static inline bool gpu_get_or_end(int fd, void *ret_data, size_t bytes)
{
	for (char *next = ret_data; bytes;) {
		ssize_t count = read(fd, next, bytes);
		if (count == 0)
			return false;
		BENCH_MUST(count < 0);
		next += count;
		bytes -= (size_t)count;
	}
	return true;
}

static inline void gpu_get(int fd, void *ret_data, size_t bytes)
{
	if (!gpu_get_or_end(fd, ret_data, bytes)) {
		fprintf(stderr, "the other process has ended too early\n");
		exit(1);
	}
}

static inline void gpu_tell(int fd, char word)
{
	gpu_put(fd, &word, 1);
}

static inline void gpu_expect(int fd, char word)
{
	char heard;

	gpu_get(fd, &heard, 1);
	BENCH_MUST(heard != word);
}

union gpu_control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static inline void gpu_send_descriptor(int sock, int descriptor)
{
	union gpu_control control = {{0}};
	char byte = '!';
	struct iovec part = {&byte, 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof descriptor);
	memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
	BENCH_MUST(sendmsg(sock, &message, MSG_NOSIGNAL) != 1);
}

static inline int gpu_receive_descriptor(int sock)
{
	union gpu_control control = {{0}};
	char byte;
	struct iovec part = {&byte, 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	int descriptor;

	BENCH_MUST(recvmsg(sock, &message, MSG_CMSG_CLOEXEC) != 1);
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	BENCH_MUST(!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof descriptor));
	memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
	return descriptor;
}

/*
 * Execute this program again, as `PROGRAM role SOCKET extra`; `runner`: NULL, or the cenote command under whose `run`
 * it executes. The child ends when we do.
 */
static inline pid_t gpu_execute(char *runner, char *role, char *extra, int *ret_sock)
{
	char self[PATH_MAX] = "", sock[16], command[] = "run";
	int ends[2];

	BENCH_MUST(readlink("/proc/self/exe", self, sizeof self - 1) <= 0);
	BENCH_MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	pid_t child = fork();
	BENCH_MUST(child < 0);
	if (child == 0) {
		char *arguments[] = {runner, command, self, role, sock, extra, NULL};
		char **first = runner ? arguments : arguments + 2;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		BENCH_MUST(fcntl(ends[1], F_SETFD, 0));
		snprintf(sock, sizeof sock, "%d", ends[1]);
		execv(first[0], first);
		fprintf(stderr, "%s: %s\n", first[0], strerror(errno));
		_exit(1);
	}
	close(ends[1]);
	*ret_sock = ends[0];
	return child;
}

/* Was this process executed in that role? */
static inline bool gpu_has_role(int argc, char **argv, const char *role, int *ret_sock)
{
	if (argc < 3 || strcmp(argv[1], role) != 0)
		return false;
	*ret_sock = (int)strtol(argv[2], NULL, 10);
	return true;
}

static inline void gpu_await(pid_t child)
{
	int status;

	BENCH_MUST(waitpid(child, &status, 0) != child || status);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What legacy IPC handles cost: opening 1 GiB of another process's memory, opening it again and closing it, compared
 * with the same done by hand with shm_open() and mmap().
 *
 * A first open asks the other process and maps; the connection to it already exists, except in the row that says
 * otherwise. The exporters are forked before the library is touched. What was opened is checked, outside of the time.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "harness.h"

enum { STRANGERS = 32, MARK = 0x5a };

static const size_t bytes = (size_t)1 << 30;

static void start_library(void)
{
	CUcontext context;

	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, 0));
	BENCH_MUST(cuCtxSetCurrent(context));
}

/* A process that has 1 GiB, sends its handle and waits for its end. */
static pid_t start_exporter(CUipcMemHandle *ret_handle, int *ret_hold)
{
	int said[2], hold[2];

	BENCH_MUST(pipe(said));
	BENCH_MUST(pipe(hold));
	pid_t child = fork();
	BENCH_MUST(child < 0);
	if (child == 0) {
		CUipcMemHandle handle;
		CUdeviceptr memory;
		char byte;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(hold[1]);
		start_library();
		BENCH_MUST(cuMemAlloc(&memory, bytes));
		BENCH_MUST(cuMemsetD8(memory + bytes - 1, MARK, 1));
		BENCH_MUST(cuCtxSynchronize());
		BENCH_MUST(cuIpcGetMemHandle(&handle, memory));
		BENCH_MUST(write(said[1], &handle, sizeof handle) != sizeof handle);
		exit(read(hold[0], &byte, 1) != 0);
	}
	close(said[1]);
	close(hold[0]);
	BENCH_MUST(read(said[0], ret_handle, sizeof *ret_handle) != sizeof *ret_handle);
	close(said[0]);
	*ret_hold = hold[1];
	return child;
}

static void end_exporter(pid_t child, int hold)
{
	int status;

	close(hold);
	BENCH_MUST(waitpid(child, &status, 0) != child || status);
}

/* ---- Open and close ---- */

static char name[64]; /* of what is opened by hand */

struct opened {
	CUipcMemHandle handle;
	double close_ns; /* of the last one */
};

/* As programs without CUDA do. */
static double by_hand(void *data)
{
	struct opened *opened = data;
	uint64_t before = bench_now_ns();
	int fd = shm_open(name, O_RDWR, 0);
	char *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	uint64_t after = bench_now_ns();

	BENCH_MUST(address == MAP_FAILED || ((volatile char *)address)[bytes - 1] != MARK);
	uint64_t closing = bench_now_ns();
	munmap(address, bytes);
	opened->close_ns = (double)(bench_now_ns() - closing);
	return (double)(after - before);
}

static double by_handle(void *data)
{
	struct opened *opened = data;
	CUdeviceptr memory;
	unsigned char byte;
	uint64_t before = bench_now_ns();
	BENCH_MUST(cuIpcOpenMemHandle(&memory, opened->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	uint64_t after = bench_now_ns();

	BENCH_MUST(cuMemcpyDtoH(&byte, memory + bytes - 1, 1));
	BENCH_MUST(byte != MARK);
	uint64_t closing = bench_now_ns();
	BENCH_MUST(cuIpcCloseMemHandle(memory));
	opened->close_ns = (double)(bench_now_ns() - closing);
	return (double)(after - before);
}

/* The first handle of each process, to which there is no connection yet. */
struct strangers {
	struct opened opened[STRANGERS];
	unsigned next;
};

static double by_stranger(void *data)
{
	struct strangers *strangers = data;

	return by_handle(&strangers->opened[strangers->next++]);
}

static double told(void *close_ns)
{
	return *(double *)close_ns;
}

struct again {
	CUipcMemHandle handle;
	CUdeviceptr memory;
};

static void open_again(void *data, unsigned long count)
{
	struct again *again = data;
	CUdeviceptr memory;

	while (count--) {
		BENCH_MUST(cuIpcOpenMemHandle(&memory, again->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
		BENCH_MUST(memory != again->memory);
	}
}

static void read_clock(void *unused, unsigned long count)
{
	(void)unused;
	while (count--)
		bench_now_ns();
}

static void measure(CUipcMemHandle handle, struct strangers *strangers)
{
	static const char *const group = "Legacy IPC handles, 1 GiB", *const hand = "by hand: shm_open, mmap, close";
	struct opened ours = {.handle = handle}, theirs = {.close_ns = 0};
	struct again again = {.handle = handle};
	struct bench_contestant open[] = {{.name = "cenote", .once = by_handle, .data = &ours, .goal = 7},
					  {.name = hand, .once = by_hand, .data = &theirs}};
	struct bench_contestant first[] = {
		{.name = "cenote, and the connection with it", .once = by_stranger, .data = strangers},
		{.name = hand, .once = by_hand, .data = &theirs}};
	struct bench_contestant closed[] = {{.name = "cenote, open", .once = by_handle, .data = &ours},
					    {.name = "by hand, open", .once = by_hand, .data = &theirs},
					    {.name = "cenote", .once = told, .data = &ours.close_ns, .goal = 4},
					    {.name = "by hand: munmap", .once = told, .data = &theirs.close_ns}};
	struct bench_contestant more[] = {{.name = "cenote", .body = open_again, .data = &again, .goal = 2},
					  {.name = "clock_gettime", .body = read_clock}};

	bench_contest(&(struct bench_contest){.group = group, .name = "open", .baseline = hand}, open, 2);
	bench_contest(
		&(struct bench_contest){
			.group = group, .name = "open, of a stranger", .baseline = hand, .repetitions = STRANGERS - 1},
		first, 2);
	bench_contest(&(struct bench_contest){.group = group, .name = "close", .baseline = "by hand: munmap"}, closed,
		      4);
	BENCH_MUST(cuIpcOpenMemHandle(&again.memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	bench_contest(&(struct bench_contest){.group = group, .name = "open again", .baseline = "clock_gettime"}, more,
		      2);
}

int main(int argument_count, char **arguments)
{
	static struct strangers strangers;
	CUipcMemHandle handle;
	int hold, holds[STRANGERS];
	pid_t exporter, exporters[STRANGERS];

	bench_start("ipc", argument_count, arguments);
	/* All processes together have what the device has; they touch next to nothing of it. */
	BENCH_MUST(setenv("CENOTE_HOST_MEMORY", "64G", 1));
	exporter = start_exporter(&handle, &hold);
	for (int i = 0; i < STRANGERS; i++)
		exporters[i] = start_exporter(&strangers.opened[i].handle, &holds[i]);
	snprintf(name, sizeof name, "/cenote-bench-%d", (int)getpid());
	int made = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	BENCH_MUST(made < 0 || ftruncate(made, (off_t)bytes));
	BENCH_MUST(pwrite(made, &(char){MARK}, 1, (off_t)bytes - 1) != 1);
	start_library();
	measure(handle, &strangers);
	close(made);
	shm_unlink(name);
	for (int i = STRANGERS - 1; i >= 0; i--) /* later ones have inherited the earlier ones' pipes */
		end_exporter(exporters[i], holds[i]);
	end_exporter(exporter, hold);
	return bench_finish();
}

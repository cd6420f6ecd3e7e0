/* SPDX-License-Identifier: MIT */
/*
 * What legacy IPC handles cost: 1 GiB of another process's memory opened, opened again and closed, beside the same done
 * by hand with shm_open() and mmap().
 *
 * A first open asks the other process and maps; the connection to it is there, but for the row that says otherwise. The
 * exporter is forked before either has touched the library. What was opened is looked at, outside of the time.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "bench.h"

enum { ROUNDS = 1001, STRANGERS = 31, MARK = 0x5a };

static const size_t bytes = (size_t)1 << 30;

static void start_library(void)
{
	CUcontext context;

	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, 0));
	BENCH_MUST(cuCtxSetCurrent(context));
}

/* A process that has 1 GiB, says its handle and waits for its end. */
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

static void check_byte(CUdeviceptr memory)
{
	unsigned char byte;

	BENCH_MUST(cuMemcpyDtoH(&byte, memory + bytes - 1, 1));
	BENCH_MUST(byte != MARK);
}

static void show(const char *name, double *each, int count, const double *reference, double goal_ns)
{
	qsort(each, (size_t)count, sizeof *each, bench_compare);
	double median = each[count / 2];
	printf("%-48s %10.1f %10.1f", name, median, each[0]);
	if (reference)
		printf("   x %.3g", median / *reference);
	if (goal_ns > 0)
		printf("   goal %.0f ns: %s", goal_ns, median <= goal_ns ? "met" : "MISSED");
	printf("\n");
	fflush(stdout);
}

struct times {
	double open[ROUNDS], close[ROUNDS];
};

/* Open and close by hand, as programs without CUDA do. */
static void by_hand(struct times *ret_times)
{
	char name[64];

	snprintf(name, sizeof name, "/cenote-bench-%d", (int)getpid());
	int made = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	BENCH_MUST(made < 0 || ftruncate(made, (off_t)bytes));
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t before = bench_now_ns();
		int fd = shm_open(name, O_RDWR, 0);
		void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		uint64_t opened = bench_now_ns();
		BENCH_MUST(address == MAP_FAILED);
		((volatile char *)address)[bytes - 1] = MARK;
		uint64_t closing = bench_now_ns();
		munmap(address, bytes);
		ret_times->close[i] = (double)(bench_now_ns() - closing);
		ret_times->open[i] = (double)(opened - before);
	}
	close(made);
	shm_unlink(name);
}

static void by_handle(CUipcMemHandle handle, struct times *ret_times)
{
	CUdeviceptr memory;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t before = bench_now_ns();
		BENCH_MUST(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
		uint64_t opened = bench_now_ns();
		check_byte(memory);
		uint64_t closing = bench_now_ns();
		BENCH_MUST(cuIpcCloseMemHandle(memory));
		ret_times->close[i] = (double)(bench_now_ns() - closing);
		ret_times->open[i] = (double)(opened - before);
	}
}

/* The first handle of each process, to which no connection is there yet. */
static void by_strangers(const CUipcMemHandle handles[STRANGERS], double ret_open[STRANGERS])
{
	for (int i = 0; i < STRANGERS; i++) {
		CUdeviceptr memory;
		uint64_t before = bench_now_ns();
		BENCH_MUST(cuIpcOpenMemHandle(&memory, handles[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
		ret_open[i] = (double)(bench_now_ns() - before);
		check_byte(memory);
		BENCH_MUST(cuIpcCloseMemHandle(memory));
	}
}

struct again {
	CUipcMemHandle handle;
	CUdeviceptr memory;
};

static void open_again(void *data, unsigned long count)
{
	struct again *again = data;

	while (count--)
		BENCH_MUST(cuIpcOpenMemHandle(&again->memory, again->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

int main(void)
{
	static struct times hand, handle;
	double stranger[STRANGERS];
	CUipcMemHandle strangers[STRANGERS];
	struct again again;
	int hold, holds[STRANGERS];
	pid_t exporter = start_exporter(&again.handle, &hold), exporters[STRANGERS];

	for (int i = 0; i < STRANGERS; i++)
		exporters[i] = start_exporter(&strangers[i], &holds[i]);
	start_library();
	by_hand(&hand);
	by_handle(again.handle, &handle);
	by_strangers(strangers, stranger);
	bench_title("Legacy IPC handles, 1 GiB", "to by hand");
	show("by hand: shm_open, mmap, close", hand.open, ROUNDS, NULL, 0);
	show("first open", handle.open, ROUNDS, &hand.open[ROUNDS / 2], 40000);
	show("first open, and the connection with it", stranger, STRANGERS, &hand.open[ROUNDS / 2], 0);
	show("by hand: munmap", hand.close, ROUNDS, NULL, 0);
	show("close", handle.close, ROUNDS, &hand.close[ROUNDS / 2], 20000);
	BENCH_MUST(cuIpcOpenMemHandle(&again.memory, again.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	bench_row("open again", NULL, 70, open_again, &again);
	check_byte(again.memory);
	for (int i = STRANGERS - 1; i >= 0; i--) /* the later ones have the earlier ones' pipes */
		end_exporter(exporters[i], holds[i]);
	end_exporter(exporter, hold);
	return 0;
}

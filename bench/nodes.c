/* SPDX-License-Identifier: MIT */
/*
 * What scripts/nodes_bench.py runs on two nodes: copies and waits for values over the daemons.
 *
 *	nodes export                    exports memory, prints its name, and stays until its input ends; it does nothing
 *	nodes write NAME ASKED TOLD     a program of the exporter's node, which writes values when asked
 *	nodes use NAME ASKED TOLD       a program of another node; it does what lines of its input say:
 *
 *	copy from|to lent|heap BYTES COUNT   copies, each waited for, after a few that do not count
 *	wait PENDING_US COUNT                waits for a value that is written when the wait has been pending so long
 *	hold COUNT                           begins so many waits for values that nobody writes
 *	hop COUNT                            asks its own daemon, over the same socket: the hop to it and back alone
 *
 * An answer is the median and the 99th of 100, in nanoseconds, and all of the time. ASKED and TOLD are named pipes: the
 * user asks for a value at a time, and the writer tells when it wrote. Both are on one machine and have the same clock.
 */
#include "nodes.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
	DATA_BYTES = 64 << 20,
	WORD = DATA_BYTES,              /* the value that is written */
	HELD_WORDS = DATA_BYTES + 4096, /* those that are not */
	MEMORY_BYTES = DATA_BYTES + (2 << 20),
	COUNT_MAX = 1 << 20,
	HELD_MAX = 27,    /* so many waits of a program are under way at a time */
	AWAKE_NS = 60000, /* before its time the writer does not sleep any more */
};

struct order {
	uint64_t due_ns;
	uint32_t value;
};

static uint64_t took_ns[COUNT_MAX];
static int asked_fd, told_fd;

static void expect(int good, const char *what)
{
	if (good)
		return;
	printf("failed: %s\n", what);
	exit(1);
}

static void print_times(int count, uint64_t all_ns)
{
	qsort(took_ns, (size_t)count, sizeof *took_ns, compare_ns);
	printf("took %llu %llu %llu\n", (unsigned long long)took_ns[count / 2],
	       (unsigned long long)took_ns[(size_t)count * 99 / 100], (unsigned long long)all_ns);
}

static CUdeviceptr import_memory(const char *digits)
{
	CUmemGenericAllocationHandle memory;
	CUmemFabricHandle name;

	read_name(digits, &name);
	CHECK(cuMemImportFromShareableHandle(&memory, &name, FABRIC));
	return map_memory(memory, MEMORY_BYTES);
}

/* ---- On the exporter's node ---- */

static void export(void)
{
	CUmemFabricHandle name;
	CUmemGenericAllocationHandle memory = make_memory(MEMORY_BYTES, &name);
	CUdeviceptr address = map_memory(memory, MEMORY_BYTES);
	char line[LINE_BYTES];

	CHECK(cuMemsetD8(address, 1, DATA_BYTES));
	CHECK(cuCtxSynchronize());
	print_name(&name);
	putchar('\n');
	fflush(stdout);
	while (read_line(line))
		;
}

static void sleep_until(uint64_t due_ns)
{
	struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000), .tv_nsec = (long)(due_ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static void write_values(const char *name)
{
	_Atomic uint32_t *word = (_Atomic uint32_t *)(uintptr_t)(import_memory(name) + WORD); /* it has pages here */
	struct order order;

	puts("ready");
	fflush(stdout);
	while (read(asked_fd, &order, sizeof order) == sizeof order) {
		if (order.due_ns > now_ns() + AWAKE_NS)
			sleep_until(order.due_ns - AWAKE_NS);
		while (now_ns() < order.due_ns)
			;
		uint64_t written_ns = now_ns();
		atomic_store(word, order.value);
		expect(write(told_fd, &written_ns, sizeof written_ns) == sizeof written_ns, "the pipe");
	}
}

/* ---- On another node ---- */

static void copy(CUdeviceptr far, CUstream stream, const char *direction, const char *operand, size_t bytes, int count)
{
	static CUdeviceptr near;
	static void *heap;
	int from = !strcmp(direction, "from"), lent = !strcmp(operand, "lent");
	uint64_t begin_ns = 0;

	if (!near) {
		heap = calloc(1, DATA_BYTES);
		expect(heap != NULL, "memory");
		CHECK(cuMemAlloc(&near, DATA_BYTES));
		CHECK(cuMemsetD8(near, 1, DATA_BYTES));
	}
	for (int i = -WARM_UP; i < count; i++) {
		uint64_t since_ns = now_ns();
		if (i == 0)
			begin_ns = since_ns;
		if (lent)
			CHECK(cuMemcpyDtoDAsync(from ? near : far, from ? far : near, bytes, stream));
		else if (from)
			CHECK(cuMemcpyDtoHAsync(heap, far, bytes, stream));
		else
			CHECK(cuMemcpyHtoDAsync(far, heap, bytes, stream));
		CHECK(cuStreamSynchronize(stream));
		if (i >= 0)
			took_ns[i] = now_ns() - since_ns;
	}
	print_times(count, now_ns() - begin_ns);
}

static void wait_for_values(CUdeviceptr far, CUstream stream, uint64_t pending_us, int count)
{
	static uint32_t value;
	uint64_t begin_ns = now_ns(), written_ns;

	for (int i = 0; i < count; i++) {
		struct order order = {.value = ++value};
		CHECK(cuStreamWaitValue32(stream, far + WORD, value, CU_STREAM_WAIT_VALUE_EQ));
		order.due_ns = now_ns() + pending_us * 1000;
		expect(write(asked_fd, &order, sizeof order) == sizeof order, "the pipe");
		CHECK(cuStreamSynchronize(stream));
		uint64_t woken_ns = now_ns();
		expect(read(told_fd, &written_ns, sizeof written_ns) == sizeof written_ns, "the pipe");
		took_ns[i] = woken_ns - written_ns;
	}
	print_times(count, now_ns() - begin_ns);
}

/* They end with the process. */
static void hold(CUdeviceptr far, int count)
{
	unsigned char byte;
	CUstream stream;

	expect(count <= HELD_MAX, "more than a program's connections");
	for (int i = 0; i < count; i++) {
		CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		CHECK(cuStreamWaitValue32(stream, far + HELD_WORDS + 4 * (CUdeviceptr)i, 1, CU_STREAM_WAIT_VALUE_EQ));
	}
	CHECK(cuMemcpyDtoH(&byte, far, 1)); /* one lane is left for it */
	puts("held");
}

static void hop(int count)
{
	uint64_t begin_ns = now_ns();
	cenote_imex_node node;

	for (int i = 0; i < count; i++) {
		uint64_t since_ns = now_ns();
		CHECK(cenote_imex_look(0, &node));
		took_ns[i] = now_ns() - since_ns;
	}
	print_times(count, now_ns() - begin_ns);
}

static void use(const char *name)
{
	char line[LINE_BYTES], direction[8], operand[8];
	CUdeviceptr far = import_memory(name);
	unsigned long long pending_us;
	size_t bytes;
	CUstream stream;
	int count;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	puts("ready");
	fflush(stdout);
	while (read_line(line)) {
		if (sscanf(line, "copy %7s %7s %zu %d", direction, operand, &bytes, &count) == 4 &&
		    bytes <= DATA_BYTES && count > 0 && count <= COUNT_MAX)
			copy(far, stream, direction, operand, bytes, count);
		else if (sscanf(line, "wait %llu %d", &pending_us, &count) == 2 && count > 0 && count <= COUNT_MAX)
			wait_for_values(far, stream, pending_us, count);
		else if (sscanf(line, "hold %d", &count) == 1)
			hold(far, count);
		else if (sscanf(line, "hop %d", &count) == 1 && count > 0 && count <= COUNT_MAX)
			hop(count);
		else
			expect(0, line);
		fflush(stdout);
	}
	_exit(0); /* waits that are held would be waited for */
}

int main(int argument_count, char **arguments)
{
	start_cuda();
	if (argument_count == 2 && !strcmp(arguments[1], "export")) {
		export();
		return 0;
	}
	if (argument_count != 5)
		return 2;
	/* For reading and writing: so neither end waits for the other to open it, and an end without a peer is none. */
	int writes = !strcmp(arguments[1], "write");
	asked_fd = open(arguments[3], O_RDWR | O_CLOEXEC);
	told_fd = open(arguments[4], O_RDWR | O_CLOEXEC);
	expect(asked_fd >= 0 && told_fd >= 0, "the pipes");
	if (writes)
		write_values(arguments[2]);
	else
		use(arguments[2]);
	return 0;
}

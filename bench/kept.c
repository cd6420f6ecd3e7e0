/* SPDX-License-Identifier: MIT */
/*
 * Memory that cenoted keeps: how soon a process that is started again has its weights, beside loading them from a file
 * that is in the page cache; and what the daemon's calls take with many objects, and beside many programs at work.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "cenote.h"
#include "harness.h"

enum { SMALL_BYTES = 4096, CLIENTS = 64, READ_BYTES = 16 << 20 };

static char directory[] = "/tmp/cenote-bench-XXXXXX";
static char file_path[64];
static size_t weights_bytes;
static pid_t parent_pid, clients[CLIENTS];
static unsigned object_count;
static int gate[2];

/* ---- The daemon ---- */

static void start_daemon(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[64], text[64];

	BENCH_MUST(!mkdtemp(directory));
	snprintf(address.sun_path, sizeof address.sun_path, "%s/ready", directory);
	snprintf(path, sizeof path, "%s/kept", directory);
	snprintf(file_path, sizeof file_path, "%s/weights", directory);
	int ready = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	BENCH_MUST(ready < 0 || bind(ready, (const struct sockaddr *)&address, sizeof address));
	setenv("CENOTE_KEPT_SOCKET", path, 1);
	setenv("CENOTE_RUNTIME_DIR", directory, 1);
	parent_pid = fork();
	if (!parent_pid) {
		setenv("NOTIFY_SOCKET", address.sun_path, 1);
		int quiet = open("/dev/null", O_WRONLY);
		dup2(quiet, STDERR_FILENO);
		execl(CENOTED, "cenoted", "--supervise", "--socket", path, "--objects-max", "16000", "--bytes-max",
		      "1T", "--descriptors-max", "31000", (char *)NULL);
		_exit(EXIT_FAILURE);
	}
	BENCH_MUST(parent_pid < 0 || recv(ready, text, sizeof text, 0) <= 0);
	close(ready);
	unlink(address.sun_path);
}

static void stop_daemon(void)
{
	char path[64];

	kill(parent_pid, SIGTERM);
	waitpid(parent_pid, NULL, 0);
	unlink(file_path);
	BENCH_MUST(snprintf(path, sizeof path, "rm -r %s", directory) >= (int)sizeof path || system(path));
}

/* What the daemon itself has in memory, in bytes. */
static double daemon_bytes(void)
{
	char path[64];
	unsigned long pages = 0;
	int child = 0;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent_pid, (int)parent_pid);
	FILE *file = fopen(path, "r");
	BENCH_MUST(!file || fscanf(file, "%d", &child) != 1);
	fclose(file);
	snprintf(path, sizeof path, "/proc/%d/statm", child);
	file = fopen(path, "r");
	BENCH_MUST(!file || fscanf(file, "%*u %lu", &pages) != 1);
	fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* ---- Weights ---- */

static void make_weights(void)
{
	cenote_kept_part part = {.bytes = weights_bytes, .label = "weights"};
	unsigned char *bytes = malloc(READ_BYTES);
	cenote_kept kept;

	BENCH_MUST(!bytes);
	for (size_t i = 0; i < READ_BYTES; i++)
		bytes[i] = (unsigned char)(i * 31);
	int fd = open(file_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	BENCH_MUST(fd < 0 || cenote_kept_create("weights", &part, 1, NULL, &kept));
	for (size_t at = 0; at < weights_bytes; at += READ_BYTES) {
		BENCH_MUST(write(fd, bytes, READ_BYTES) != READ_BYTES);
		BENCH_MUST(cuMemcpyHtoD(part.address + at, bytes, READ_BYTES));
	}
	close(fd);
	free(bytes);
	BENCH_MUST(cenote_kept_commit(kept) || cenote_kept_release(kept));
}

static uint64_t sum(CUdeviceptr address, bool all)
{
	const uint64_t *words = (const uint64_t *)(uintptr_t)address; /* the host device's memory is at its address */
	uint64_t total = 0;

	for (size_t i = 0; i < (all ? weights_bytes / sizeof *words : 1); i++)
		total += words[i];
	return total;
}

static volatile uint64_t seen;

static double open_weights(void *all)
{
	cenote_kept_part part;
	cenote_kept kept;
	unsigned count;
	uint64_t start = bench_now_ns();

	BENCH_MUST(cenote_kept_open("weights", 0, 0, &kept) || cenote_kept_parts(kept, &part, 1, &count));
	seen = sum(part.address, all != NULL);
	uint64_t end = bench_now_ns();
	BENCH_MUST(cenote_kept_release(kept));
	return (double)(end - start);
}

static double load_weights(void *all)
{
	CUdeviceptr address;
	uint64_t start = bench_now_ns();

	int fd = open(file_path, O_RDONLY | O_CLOEXEC);
	BENCH_MUST(fd < 0 || cuMemAlloc(&address, weights_bytes));
	for (size_t at = 0; at < weights_bytes;) {
		ssize_t got = read(fd, (void *)(uintptr_t)(address + at), weights_bytes - at);
		BENCH_MUST(got <= 0);
		at += (size_t)got;
	}
	seen = sum(address, all != NULL);
	uint64_t end = bench_now_ns();
	close(fd);
	BENCH_MUST(cuMemFree(address));
	return (double)(end - start);
}

/* ---- Calls ---- */

static void name_of(char ret_name[32], unsigned number)
{
	snprintf(ret_name, 32, "objects/%u", number);
}

static void make_object(const char *name)
{
	cenote_kept_part part = {.bytes = SMALL_BYTES};
	cenote_kept kept;

	BENCH_MUST(cenote_kept_create(name, &part, 1, NULL, &kept) || cenote_kept_commit(kept) ||
		   cenote_kept_release(kept));
}

static void grow_to(unsigned count)
{
	char name[32];

	for (; object_count < count; object_count++) {
		name_of(name, object_count);
		make_object(name);
	}
}

static void open_and_release(void *data, unsigned long count)
{
	static unsigned next;
	char name[32];

	(void)data;
	while (count--) {
		cenote_kept kept;
		name_of(name, next++ % object_count);
		BENCH_MUST(cenote_kept_open(name, 0, 0, &kept) || cenote_kept_release(kept));
	}
}

static void make_and_retire(void *data, unsigned long count)
{
	(void)data;
	while (count--) {
		make_object("fresh");
		BENCH_MUST(cenote_kept_retire("fresh", 0));
	}
}

static double daemon_memory(void *data)
{
	(void)data;
	return daemon_bytes();
}

static void start_context(void)
{
	CUcontext context;

	BENCH_MUST(cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context));
}

/*
 * Programs that will be at work: forked now, before this process has threads. When they are told how many objects there
 * are, each opens and releases one every few milliseconds, as a server's engines would at most.
 */
static void start_clients(void)
{
	BENCH_MUST(pipe(gate));
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = fork();
		BENCH_MUST(clients[i] < 0);
		if (clients[i])
			continue;
		BENCH_MUST(read(gate[0], &object_count, sizeof object_count) != sizeof object_count);
		start_context();
		for (;;) {
			open_and_release(NULL, 1);
			usleep(5000);
		}
	}
}

static void let_clients_work(void)
{
	for (int i = 0; i < CLIENTS; i++)
		BENCH_MUST(write(gate[1], &object_count, sizeof object_count) != sizeof object_count);
}

static void stop_clients(void)
{
	for (int i = 0; i < CLIENTS; i++) {
		kill(clients[i], SIGKILL);
		waitpid(clients[i], NULL, 0);
	}
}

static void measure_calls(const char *row, double x)
{
	struct bench_contestant calls[] = {
		{.name = "open and release", .body = open_and_release},
		{.name = "create, commit, release, retire", .body = make_and_retire},
	};
	struct bench_contestant memory[] = {{.name = "cenoted", .once = daemon_memory}};

	bench_contest(&(struct bench_contest){.group = "Kept objects: calls", .name = row, .x = x, .x_name = "objects"},
		      calls, 2);
	bench_contest(&(struct bench_contest){.group = "Kept objects: the daemon's memory",
					      .name = row,
					      .unit = "bytes",
					      .repetitions = 3,
					      .x = x,
					      .x_name = "objects"},
		      memory, 1);
}

int main(int argc, char **argv)
{
	static char yes;

	bench_start("kept", argc, argv);
	unsigned most = bench_quick() ? 1000 : 10000;
	weights_bytes = (size_t)(bench_quick() ? 64 : 1024) << 20;
	start_daemon();
	start_clients();
	start_context();
	make_weights();
	struct bench_contestant first[] = {
		{.name = "kept", .once = open_weights},
		{.name = "a file in the page cache", .once = load_weights},
	};
	struct bench_contestant all[] = {
		{.name = "kept", .once = open_weights, .data = &yes},
		{.name = "a file in the page cache", .once = load_weights, .data = &yes},
	};
	const char *size = bench_quick() ? "64 MiB" : "1 GiB";
	bench_contest(&(struct bench_contest){.group = "Weights in a process that starts: the first word",
					      .name = size,
					      .baseline = "kept",
					      .repetitions = 7},
		      first, 2);
	bench_contest(&(struct bench_contest){.group = "Weights in a process that starts: every word",
					      .name = size,
					      .baseline = "kept",
					      .repetitions = 7},
		      all, 2);
	grow_to(10);
	measure_calls("10", 10);
	grow_to(most);
	measure_calls(bench_quick() ? "1,000" : "10,000", most);
	let_clients_work();
	measure_calls(bench_quick() ? "1,000, beside 64 programs" : "10,000, beside 64 programs", most + 1);
	stop_clients();
	stop_daemon();
	return bench_finish();
}

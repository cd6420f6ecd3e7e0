/* SPDX-License-Identifier: MIT */
/*
 * Asking all processes what they share, as `cenote ps` does: how long it takes with many of them, and when some are
 * stopped and do not answer. Beside it, what it costs to read a file of each process from /proc.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "cenote.h"
#include "harness.h"

enum { PROCESSES = 200, STOPPED = 10 };

static pid_t sharers[PROCESSES];
static unsigned found_processes, found_pools;

/* In a process of its own: share a pool, say so, and wait for the end. */
static void share(int ready_fd)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool;
	CUcontext context;
	int events_fd;

	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, 0));
	BENCH_MUST(cuCtxSetCurrent(context));
	BENCH_MUST(cuMemPoolCreate(&pool, &properties));
	BENCH_MUST(cenote_pool_watch(pool, &events_fd));
	BENCH_MUST(write(ready_fd, "", 1) != 1);
	for (;;)
		pause();
}

static void start_all(void)
{
	int ready[2];
	char byte;

	BENCH_MUST(pipe(ready));
	for (int i = 0; i < PROCESSES; i++) {
		sharers[i] = fork();
		BENCH_MUST(sharers[i] < 0);
		if (!sharers[i])
			share(ready[1]);
	}
	for (int i = 0; i < PROCESSES; i++)
		BENCH_MUST(read(ready[0], &byte, 1) != 1);
	close(ready[0]);
	close(ready[1]);
}

static void count(const cenote_shared *found, void *data)
{
	(void)data;
	found_processes += !found->pool && !found->handles;
	found_pools += found->pool && !found->importer;
}

static void survey(void *data, unsigned long rounds)
{
	(void)data;
	while (rounds--) {
		found_processes = found_pools = 0;
		BENCH_MUST(cenote_survey(0, count, NULL));
	}
}

static void check_all(void *data)
{
	(void)data;
	BENCH_MUST(found_processes != PROCESSES || found_pools != PROCESSES);
}

static void read_proc(void *data, unsigned long rounds)
{
	char path[32], text[512];

	(void)data;
	while (rounds--)
		for (int i = 0; i < PROCESSES; i++) {
			snprintf(path, sizeof path, "/proc/%d/stat", (int)sharers[i]);
			FILE *file = fopen(path, "re");
			BENCH_MUST(!file || !fread(text, 1, sizeof text, file));
			fclose(file);
		}
}

static void measure(const char *name)
{
	struct bench_contestant contestants[] = {
		{.name = "cenote_survey()", .body = survey, .check = check_all},
		{.name = "read /proc/PID/stat of each", .body = read_proc},
	};

	bench_contest(&(struct bench_contest){.group = "Ask 200 processes what they share",
					      .name = name,
					      .baseline = "read /proc/PID/stat of each"},
		      contestants, 2);
}

int main(int argument_count, char **arguments)
{
	char directory[] = "/tmp/cenote-bench-XXXXXX", names[64];

	BENCH_MUST(!mkdtemp(directory));
	snprintf(names, sizeof names, "%s/names", directory);
	setenv("CENOTE_RUNTIME_DIR", names, 1);
	setenv("CENOTE_DEVICE", "host", 1);
	setenv("CENOTE_HOST_MEMORY", "64M", 1);
	bench_start("survey", argument_count, arguments);
	start_all();
	measure("all answer");
	for (int i = 0; i < STOPPED; i++) {
		BENCH_MUST(kill(sharers[i * PROCESSES / STOPPED], SIGSTOP));
		BENCH_MUST(waitpid(sharers[i * PROCESSES / STOPPED], NULL, WUNTRACED) < 0);
	}
	measure("10 of them are stopped");
	for (int i = 0; i < PROCESSES; i++) {
		kill(sharers[i], SIGKILL);
		waitpid(sharers[i], NULL, 0);
	}
	BENCH_MUST(cenote_sweep(0, NULL, NULL));
	rmdir(names);
	rmdir(directory);
	return bench_finish();
}

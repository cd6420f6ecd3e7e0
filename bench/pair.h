/* SPDX-License-Identifier: MIT */
/*
 * Measuring between two processes: an exporter and an importer, both forked before either has touched the library, so
 * that all threads of each stay on the CPU it was given.
 */
#ifndef CENOTE_BENCH_PAIR_H
#define CENOTE_BENCH_PAIR_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "bench.h"
#include "cenote.h"

enum { ROUNDS = 31 };

struct peer {
	int in, out;               /* pipes: a byte, a number */
	int sock, bytes_fd;        /* sockets: for descriptors and names; for many bytes */
	_Atomic uint32_t *waiting; /* shared memory: the importer is about to wait for what the exporter records */
};

static size_t cpus[2]; /* the first two that this program may use, or the first one twice */
static CUstream stream;
static CUmemoryPool pool; /* the exporter's, or as imported */

static inline void put(int fd, const void *data, size_t bytes)
{
	for (const char *next = data; bytes;) {
		ssize_t count = write(fd, next, bytes);
		BENCH_MUST(count <= 0);
		next += count;
		bytes -= (size_t)count;
	}
}

static inline void get(int fd, void *ret_data, size_t bytes)
{
	for (char *next = ret_data; bytes;) {
		ssize_t count = read(fd, next, bytes);
		if (count == 0)
			exit(1); /* the other has ended, and said why */
		BENCH_MUST(count < 0);
		next += count;
		bytes -= (size_t)count;
	}
}

static inline void say(const struct peer *peer, char word)
{
	put(peer->out, &word, 1);
}

static inline char hear(const struct peer *peer)
{
	char word;

	get(peer->in, &word, 1);
	return word;
}

/* Say a word, and wait until the other says the same. */
static inline void ask(const struct peer *peer, char word)
{
	say(peer, word);
	BENCH_MUST(hear(peer) != word);
}

/* How many CPUs there are: 1 or 2. */
static inline unsigned find_cpus(void)
{
	cpu_set_t allowed;
	unsigned found = 0;

	BENCH_MUST(sched_getaffinity(0, sizeof allowed, &allowed));
	for (size_t cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			cpus[found++] = cpu;
	if (found == 1)
		cpus[1] = cpus[0];
	return found;
}

static inline void pin(size_t cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	BENCH_MUST(sched_setaffinity(0, sizeof one, &one));
}

static inline void start_library(void)
{
	CUcontext context;

	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, 0));
	BENCH_MUST(cuCtxSetCurrent(context));
	BENCH_MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static inline void create_pool(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

	BENCH_MUST(cuMemPoolCreate(&pool, &properties));
}

typedef void role(const struct peer *peer);

static inline void run_exporter(role *exporter, role *importer, size_t exporter_cpu, size_t importer_cpu)
{
	struct peer mine, other;
	int there[2], back[2], socks[2], streams[2];

	void *page = mmap(NULL, sizeof *mine.waiting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	BENCH_MUST(page == MAP_FAILED || pipe(there) || pipe(back));
	BENCH_MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks) || socketpair(AF_UNIX, SOCK_STREAM, 0, streams));
	mine = (struct peer){back[0], there[1], socks[0], streams[0], page};
	other = (struct peer){there[0], back[1], socks[1], streams[1], page};
	pid_t child = fork();
	BENCH_MUST(child < 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(mine.in), close(mine.out), close(mine.sock), close(mine.bytes_fd);
		pin(importer_cpu);
		start_library();
		importer(&other);
		_exit(0);
	}
	close(other.in), close(other.out), close(other.sock), close(other.bytes_fd);
	pin(exporter_cpu);
	start_library();
	exporter(&mine);
	fflush(stdout);
	int status;
	BENCH_MUST(waitpid(child, &status, 0) != child || status);
	_exit(0);
}

static inline void run_pair(role *exporter, role *importer, size_t exporter_cpu, size_t importer_cpu)
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	BENCH_MUST(child < 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_exporter(exporter, importer, exporter_cpu, importer_cpu);
	}
	BENCH_MUST(waitpid(child, &status, 0) != child || status);
}

/* ---- Rows of `ROUNDS` measurements ---- */

static inline struct bench_result result_of(double *each, unsigned count)
{
	qsort(each, count, sizeof *each, bench_compare);
	return (struct bench_result){each[count / 2], each[0]};
}

static inline void print_row(const char *name, struct bench_result result, const struct bench_result *reference)
{
	printf("%-48s %10.1f %10.1f", name, result.median_ns, result.minimum_ns);
	if (reference)
		printf("   x %.3g", result.median_ns / reference->median_ns);
}

static inline struct bench_result row(const char *name, double *each, const struct bench_result *reference,
				      double goal_ns)
{
	struct bench_result result = result_of(each, ROUNDS);

	print_row(name, result, reference);
	if (goal_ns > 0)
		printf("   goal %.0f ns: %s", goal_ns, result.median_ns <= goal_ns ? "met" : "MISSED");
	printf("\n");
	return result;
}

#endif

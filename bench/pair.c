/* SPDX-License-Identifier: MIT */
/*
 * The two processes, and what they exchange besides what is measured.
 */
#include "pair.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SPINS = 20000 };

CUstream pair_stream;
CUmemoryPool pair_pool;

void put(int fd, const void *data, size_t bytes)
{
	for (const char *next = data; bytes;) {
		ssize_t count = write(fd, next, bytes);
		BENCH_MUST(count <= 0);
		next += count;
		bytes -= (size_t)count;
	}
}

void get(int fd, void *ret_data, size_t bytes)
{
	for (char *next = ret_data; bytes;) {
		ssize_t count = read(fd, next, bytes);
		if (count == 0)
			exit(1); /* the other process has ended, and said why */
		BENCH_MUST(count < 0);
		next += count;
		bytes -= (size_t)count;
	}
}

void say(const struct peer *peer, char word)
{
	put(peer->out, &word, 1);
}

char hear(const struct peer *peer)
{
	char word;

	get(peer->in, &word, 1);
	return word;
}

void ask(const struct peer *peer, char word)
{
	say(peer, word);
	BENCH_MUST(hear(peer) != word);
}

void pair_post(struct pair_word *word, uint32_t value)
{
	atomic_store(&word->value, value);
	if (atomic_load(&word->sleeps))
		syscall(SYS_futex, &word->value, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void pair_await(struct pair_word *word, uint32_t value, bool spin)
{
	for (unsigned i = 0; spin && i < SPINS; i++) {
		if (atomic_load(&word->value) == value)
			return;
#if defined(__x86_64__) || defined(__i386__)
		__builtin_ia32_pause();
#endif
	}
	atomic_store(&word->sleeps, 1);
	for (uint32_t seen; (seen = atomic_load(&word->value)) != value;)
		syscall(SYS_futex, &word->value, FUTEX_WAIT, seen, NULL, NULL, 0);
	atomic_store(&word->sleeps, 0);
}

void lock_and_unlock(void *mutex, unsigned long count)
{
	while (count--) {
		pthread_mutex_lock(mutex);
		pthread_mutex_unlock(mutex);
	}
}

void pair_start_library(void)
{
	CUcontext context;

	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, 0));
	BENCH_MUST(cuCtxSetCurrent(context));
	BENCH_MUST(cuStreamCreate(&pair_stream, CU_STREAM_NON_BLOCKING));
}

void pair_create_pool(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

	BENCH_MUST(cuMemPoolCreate(&pair_pool, &properties));
}

static void close_peer(const struct peer *peer)
{
	close(peer->in);
	close(peer->out);
	close(peer->sock);
	close(peer->bytes_fd);
}

/* What pair_run() was given, for the processes that it starts. */
static struct {
	pair_role *exporter, *importer;
	unsigned exporter_cpu, importer_cpu;
} roles;

static void run_both(void)
{
	bool together = bench_cpu(roles.exporter_cpu) == bench_cpu(roles.importer_cpu);
	int there[2], back[2], socks[2], streams[2], status;
	void *page = mmap(NULL, sizeof(struct pair_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	BENCH_MUST(page == MAP_FAILED || pipe(there) || pipe(back));
	BENCH_MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks) || socketpair(AF_UNIX, SOCK_STREAM, 0, streams));
	struct peer mine = {back[0], there[1], socks[0], streams[0], page, together, 0};
	struct peer other = {there[0], back[1], socks[1], streams[1], page, together, getpid()};
	mine.pid = fork();
	BENCH_MUST(mine.pid < 0);
	if (!mine.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close_peer(&mine);
		bench_pin(roles.importer_cpu);
		pair_start_library();
		roles.importer(&other);
		_exit(0);
	}
	close_peer(&other);
	bench_pin(roles.exporter_cpu);
	pair_start_library();
	roles.exporter(&mine);
	BENCH_MUST(waitpid(mine.pid, &status, 0) != mine.pid || status);
}

void pair_run(pair_role *exporter, pair_role *importer, unsigned exporter_cpu, unsigned importer_cpu)
{
	roles.exporter = exporter;
	roles.importer = importer;
	roles.exporter_cpu = exporter_cpu;
	roles.importer_cpu = importer_cpu;
	bench_in_child(run_both);
}

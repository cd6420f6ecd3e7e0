/* SPDX-License-Identifier: MIT */
/*
 * What `cenote bench` measures: one process exports, another, forked before the library is touched, imports. Each has a
 * CPU of its own if there are two. The bytes that arrive are checked, outside of the time.
 *
 * A word (enum word) tells the importer what to do; where its own time is wanted it answers with it.
 */
#include "bench.h"

#include <cenote/cenote.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BLOCK_BYTES = 4096,
	BATCH = 1000, /* calls in a sample of what is too fast for the clock */
	SLOTS = 4096,
	DRAWS = 1 << 14,
	TRIPS = 50,
	RUN_IN = 10, /* untimed ones first: the importer sleeps when the first comes */
	BUFFER_BYTES = 16 << 20,
	MARK = 0x5a,
	SETTLE_US = 500,
};

/* What the importer is told. */
enum word {
	ECHO = 'e',     /* bytes back, TRIPS times */
	POINTERS = 'p', /* import BATCH pointers and free them; the time of an import */
	POOL = 'o',     /* import the pool once more, with a pointer, and release it; the time of the import */
	HOLD = 'h',     /* hold the chain of records and waits */
	TRIP = 't',     /* a wait and a record */
	GO = 'g',       /* start the chain, and wait for its end */
	NAMED = 'n',    /* import the buffer, and read from it */
	COPIED = 'c',   /* take the buffer's bytes */
	QUIT = 'q',
};

enum { THERE, BACK, FIRST, EVENTS };

static struct {
	pid_t importer; /* 0: we are it */
	int pipe_in, pipe_out, sock;
	CUstream stream;
	CUmemoryPool pool;
	CUevent events[EVENTS];
	CUdeviceptr blocks[BATCH];
	CUmemPoolPtrExportData names[BATCH];
} side;

/* ---- Tools ---- */

uint64_t bench_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static _Noreturn void give_up(const char *what, const char *why)
{
	fprintf(stderr, "cenote bench: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

static void check(CUresult result, const char *what)
{
	if (result)
		give_up(what, cenote_last_error());
}

static void check_system(bool right, const char *what)
{
	if (!right)
		give_up(what, strerror(errno));
}

#define CHECK(call) check(call, #call)

static void expect(bool right)
{
	if (!right)
		give_up("a result", "what came over is not what was sent");
}

static void put(int fd, const void *data, size_t bytes)
{
	for (const char *next = data; bytes;) {
		ssize_t count = write(fd, next, bytes);
		check_system(count > 0, "write to the other process");
		next += count;
		bytes -= (size_t)count;
	}
}

static void get(int fd, void *ret_data, size_t bytes)
{
	for (char *next = ret_data; bytes;) {
		ssize_t count = read(fd, next, bytes);
		if (count == 0)
			exit(EXIT_FAILURE); /* the other process has ended, and said why */
		check_system(count > 0, "read from the other process");
		next += count;
		bytes -= (size_t)count;
	}
}

static void say(char word)
{
	put(side.pipe_out, &word, 1);
}

static char hear(void)
{
	char word;

	get(side.pipe_in, &word, 1);
	return word;
}

static void tell(char word)
{
	say(word);
	expect(hear() == word);
}

static double per(uint64_t start_ns, unsigned count)
{
	return (double)(bench_now_ns() - start_ns) / count;
}

/* ---- One process ---- */

static double pair(void)
{
	CUdeviceptr block;
	uint64_t start_ns = bench_now_ns();

	for (unsigned i = 0; i < BATCH; i++) {
		CHECK(cuMemAllocAsync(&block, BLOCK_BYTES, side.stream));
		CHECK(cuMemFreeAsync(block, side.stream));
	}
	return per(start_ns, BATCH);
}

static double pair_malloc(void)
{
	uint64_t start_ns = bench_now_ns();

	for (unsigned i = 0; i < BATCH; i++) {
		void *volatile block = malloc(BLOCK_BYTES);
		free(block);
	}
	return per(start_ns, BATCH);
}

/* Fills an empty slot, and empties a full one. Sizes are spread evenly over the powers of two. */
static struct draw {
	unsigned slot;
	size_t bytes;
} draws[DRAWS];

static void make_draws(void)
{
	uint64_t state = 88172645463325252ull;

	for (unsigned i = 0; i < DRAWS; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		size_t low = (size_t)256 << state % 11;
		draws[i] = (struct draw){(unsigned)(state >> 40) % SLOTS, low + (size_t)(state >> 20) % low};
	}
}

static const struct draw *next_draw(unsigned *at)
{
	return &draws[(*at)++ % DRAWS];
}

static double churn(void)
{
	static CUdeviceptr slots[SLOTS];
	static unsigned at;
	uint64_t start_ns = bench_now_ns();

	for (unsigned i = 0; i < BATCH; i++) {
		const struct draw *draw = next_draw(&at);
		CUdeviceptr *slot = &slots[draw->slot];
		if (*slot) {
			CHECK(cuMemFreeAsync(*slot, side.stream));
			*slot = 0;
		} else {
			CHECK(cuMemAllocAsync(slot, draw->bytes, side.stream));
		}
	}
	return per(start_ns, BATCH);
}

static double churn_malloc(void)
{
	static void *slots[SLOTS];
	static unsigned at;
	uint64_t start_ns = bench_now_ns();

	for (unsigned i = 0; i < BATCH; i++) {
		const struct draw *draw = next_draw(&at);
		void **slot = &slots[draw->slot];
		if (*slot) {
			free(*slot);
			*slot = NULL;
		} else {
			*slot = malloc(draw->bytes);
			check_system(*slot, "malloc");
		}
	}
	return per(start_ns, BATCH);
}

static double mutex(void)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t start_ns = bench_now_ns();

	for (unsigned i = 0; i < BATCH; i++) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	return per(start_ns, BATCH);
}

/* ---- Pointers ---- */

static void allocate_blocks(void)
{
	for (unsigned i = 0; i < BATCH; i++) {
		CHECK(cuMemAllocFromPoolAsync(&side.blocks[i], BLOCK_BYTES, side.pool, side.stream));
		CHECK(cuMemsetD32Async(side.blocks[i], i, 1, side.stream));
	}
	CHECK(cuStreamSynchronize(side.stream));
}

static double export_blocks(void)
{
	uint64_t start_ns = bench_now_ns();

	for (unsigned i = 0; i < BATCH; i++)
		CHECK(cuMemPoolExportPointer(&side.names[i], side.blocks[i]));
	return per(start_ns, BATCH);
}

static void free_blocks(void)
{
	for (unsigned i = 0; i < BATCH; i++)
		CHECK(cuMemFreeAsync(side.blocks[i], side.stream));
	CHECK(cuStreamSynchronize(side.stream));
}

static double export_pointers(void)
{
	allocate_blocks();
	double each_ns = export_blocks();
	free_blocks();
	return each_ns;
}

static double import_pointers(void)
{
	double each_ns;

	allocate_blocks();
	export_blocks();
	say(POINTERS);
	put(side.sock, side.names, sizeof side.names);
	get(side.pipe_in, &each_ns, sizeof each_ns);
	free_blocks();
	return each_ns;
}

static void answer_pointers(void)
{
	unsigned number;

	get(side.sock, side.names, sizeof side.names);
	uint64_t start_ns = bench_now_ns();
	for (unsigned i = 0; i < BATCH; i++)
		CHECK(cuMemPoolImportPointer(&side.blocks[i], side.pool, &side.names[i]));
	double each_ns = per(start_ns, BATCH);
	for (unsigned i = 0; i < BATCH; i++) {
		CHECK(cuMemcpyDtoH(&number, side.blocks[i], sizeof number));
		expect(number == i);
	}
	free_blocks();
	put(side.pipe_out, &each_ns, sizeof each_ns);
}

/* ---- Pools, and words ---- */

static double import_pool(void)
{
	double taken_ns;

	say(POOL);
	CHECK(cenote_send_pool(side.sock, side.pool));
	get(side.pipe_in, &taken_ns, sizeof taken_ns);
	return taken_ns;
}

static void answer_pool(void)
{
	CUmemoryPool pool;
	int descriptor;

	CHECK(cenote_recv_descriptor(side.sock, &descriptor));
	uint64_t start_ns = bench_now_ns();
	CHECK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)descriptor,
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	double taken_ns = per(start_ns, 1);
	close(descriptor);
	CHECK(cuMemPoolDestroy(pool));
	put(side.pipe_out, &taken_ns, sizeof taken_ns);
}

static double by_pipe(void)
{
	tell(ECHO);
	uint64_t start_ns = bench_now_ns();
	for (unsigned i = 0; i < TRIPS; i++)
		tell((char)i);
	return per(start_ns, TRIPS);
}

static void answer_echo(void)
{
	say(ECHO);
	for (unsigned i = 0; i < TRIPS; i++)
		say(hear());
}

/* ---- Events ---- */

/*
 * A wait for an event waits for a record that was made before. So a chain of records and waits is submitted first, turn
 * by turn, behind a host function of the importer; then both sides wait for their streams, and the chain runs by
 * itself.
 */
static sem_t go;

static void CUDA_CB wait_for_go(void *unused)
{
	(void)unused;
	while (sem_wait(&go))
		check_system(errno == EINTR, "sem_wait");
	usleep(SETTLE_US); /* both sides wait by then */
}

static double by_events(void)
{
	static CUevent begin, end;
	float milliseconds;

	if (!begin) {
		CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
		CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
	}
	tell(HOLD);
	CHECK(cuStreamWaitEvent(side.stream, side.events[FIRST], 0));
	for (unsigned i = 0; i < RUN_IN + TRIPS; i++) {
		if (i == RUN_IN)
			CHECK(cuEventRecord(begin, side.stream));
		CHECK(cuEventRecord(side.events[THERE], side.stream));
		tell(TRIP);
		CHECK(cuStreamWaitEvent(side.stream, side.events[BACK], 0));
	}
	CHECK(cuEventRecord(end, side.stream));
	say(GO);
	CHECK(cuStreamSynchronize(side.stream));
	expect(hear() == GO);
	CHECK(cuEventElapsedTime(&milliseconds, begin, end));
	return (double)milliseconds * 1e6 / TRIPS;
}

static void answer_trip(char word)
{
	static CUstream starter;

	if (word == HOLD) {
		if (!starter)
			CHECK(cuStreamCreate(&starter, CU_STREAM_NON_BLOCKING));
		CHECK(cuLaunchHostFunc(starter, wait_for_go, NULL));
		CHECK(cuEventRecord(side.events[FIRST], starter));
	} else if (word == TRIP) {
		CHECK(cuStreamWaitEvent(side.stream, side.events[THERE], 0));
		CHECK(cuEventRecord(side.events[BACK], side.stream));
	} else {
		check_system(!sem_post(&go), "sem_post");
		CHECK(cuStreamSynchronize(side.stream));
	}
	say(word);
}

/* ---- A buffer ---- */

static CUdeviceptr buffer;
static char *own_buffer;

/* Send the buffer's name; both ends read the buffer. Until the answer is here. */
static double by_name(void)
{
	uint64_t start_ns = bench_now_ns();

	CHECK(cuMemPoolExportPointer(&side.names[0], buffer));
	say(NAMED);
	put(side.sock, side.names, sizeof *side.names);
	expect(hear() == MARK);
	return per(start_ns, 1);
}

static void answer_name(void)
{
	unsigned char first, last;
	CUdeviceptr block;

	get(side.sock, side.names, sizeof *side.names);
	CHECK(cuMemPoolImportPointer(&block, side.pool, &side.names[0]));
	CHECK(cuMemcpyDtoH(&first, block, 1));
	CHECK(cuMemcpyDtoH(&last, block + BUFFER_BYTES - 1, 1));
	expect(first == last);
	say((char)first);
	CHECK(cuMemFree(block));
}

static double by_copy(void)
{
	uint64_t start_ns = bench_now_ns();

	say(COPIED);
	put(side.sock, own_buffer, BUFFER_BYTES);
	expect(hear() == MARK);
	return per(start_ns, 1);
}

static void answer_copy(void)
{
	get(side.sock, own_buffer, BUFFER_BYTES);
	expect(own_buffer[0] == own_buffer[BUFFER_BYTES - 1]);
	say(own_buffer[0]);
}

const struct bench_measure bench_measures[BENCH_MEASURES] = {
	{"pair", "allocate and free a block", "malloc, free", pair, pair_malloc},
	{"churn", "allocate or free, all sizes", "malloc, free", churn, churn_malloc},
	{"export", "export a pointer", "lock, unlock a mutex", export_pointers, mutex},
	{"import", "import a pointer", "lock, unlock a mutex", import_pointers, mutex},
	{"pool_import", "import a pool", "a byte by pipe and back", import_pool, by_pipe},
	{"event_round_trip", "an event there and back", "a byte by pipe and back", by_events, by_pipe},
	{"hand_over", "16 MiB named to a process", "copied through a socket", by_name, by_copy},
};

/* ---- Both processes ---- */

static void start_library(void)
{
	CUcontext context;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&side.stream, CU_STREAM_NON_BLOCKING));
	own_buffer = malloc(BUFFER_BYTES);
	check_system(own_buffer, "malloc");
	memset(own_buffer, MARK, BUFFER_BYTES);
}

static _Noreturn void import(void)
{
	CUipcEventHandle handles[EVENTS];
	char word;

	start_library();
	check_system(!sem_init(&go, 0, 0), "sem_init");
	CHECK(cenote_recv_pool(side.sock, &side.pool));
	get(side.sock, handles, sizeof handles);
	for (unsigned i = 0; i < EVENTS; i++)
		CHECK(cuIpcOpenEventHandle(&side.events[i], handles[i]));
	while ((word = hear()) != QUIT)
		switch (word) {
		case ECHO: answer_echo(); break;
		case POINTERS: answer_pointers(); break;
		case POOL: answer_pool(); break;
		case NAMED: answer_name(); break;
		case COPIED: answer_copy(); break;
		default: answer_trip(word); break;
		}
	exit(EXIT_SUCCESS);
}

/* The `index`-th CPU of those that we may use; if there is only one, both stay there. */
static void pin(unsigned index)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof allowed, &allowed))
		return; /* more CPUs than a set has room for: stay unpinned */
	index %= (unsigned)CPU_COUNT(&allowed);
	CPU_ZERO(&one);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && !index--) {
			CPU_SET(cpu, &one);
			check_system(!sched_setaffinity(0, sizeof one, &one), "sched_setaffinity");
			return;
		}
}

static void start_importer(void)
{
	int there[2], back[2], socks[2];

	check_system(!pipe(there) && !pipe(back) && !socketpair(AF_UNIX, SOCK_STREAM, 0, socks),
		     "pipes to the importer");
	fflush(stdout);
	side.importer = fork();
	check_system(side.importer >= 0, "fork");
	bool is_importer = side.importer == 0;
	side.pipe_in = is_importer ? there[0] : back[0];
	side.pipe_out = is_importer ? back[1] : there[1];
	side.sock = socks[is_importer];
	close(is_importer ? there[1] : back[1]);
	close(is_importer ? back[0] : there[0]);
	close(socks[!is_importer]);
	if (is_importer) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(1);
		import();
	}
	pin(0);
}

void bench_begin(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUipcEventHandle handles[EVENTS];

	signal(SIGPIPE, SIG_IGN); /* a write to an importer that has ended fails with a sentence, not a signal */
	start_importer();
	start_library();
	make_draws();
	CHECK(cuMemPoolCreate(&side.pool, &properties));
	CHECK(cenote_send_pool(side.sock, side.pool));
	for (unsigned i = 0; i < EVENTS; i++) {
		CHECK(cuEventCreate(&side.events[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
		CHECK(cuIpcGetEventHandle(&handles[i], side.events[i]));
	}
	put(side.sock, handles, sizeof handles);
	CHECK(cuMemAllocFromPoolAsync(&buffer, BUFFER_BYTES, side.pool, side.stream));
	CHECK(cuMemsetD8Async(buffer, MARK, BUFFER_BYTES, side.stream));
	CHECK(cuStreamSynchronize(side.stream));
}

void bench_end(void)
{
	int status;

	say(QUIT);
	check_system(waitpid(side.importer, &status, 0) == side.importer, "waitpid");
	if (status)
		exit(EXIT_FAILURE);
	CHECK(cuMemFreeAsync(buffer, side.stream));
	CHECK(cuMemPoolDestroy(side.pool));
	free(own_buffer);
}

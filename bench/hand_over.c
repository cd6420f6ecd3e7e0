/* SPDX-License-Identifier: MIT */
/*
 * What it costs that one process goes on when another has done something: round trips by events beside those through a
 * pipe, and a buffer handed over beside the same bytes copied through a socket. What is compared is measured in turns;
 * what arrives is looked at, outside of the time.
 */
#include <errno.h>
#include <semaphore.h>

#include "pair.h"

enum {
	BLOCK_BYTES = 4096,
	TRIPS = 500, /* of one chain: fewer than records of an event can be pending */
	PIECE_BYTES = 1 << 20,
	SCRATCH_BYTES = 256 << 20,
	CACHE_LINE_BYTES = 64,
	SETTLE_US = 2000,
};

/* ---- Round trips ---- */

/*
 * A wait is for a record that was made before. So a chain of records and waits is submitted first, turn by turn, behind
 * a host function of the importer's; then both sides wait for their streams, and the chain runs by itself. The
 * exporter's stream says how long it took.
 */
enum { THERE, BACK, FIRST, EVENTS };

static CUevent events[EVENTS];
static CUmemPoolPtrExportData block_name; /* of a block, as it is sent or has come */
static CUdeviceptr word; /* one block in both processes: what is written before a record is read after the wait */
static sem_t go;

static void create_events(const struct peer *peer)
{
	CUipcEventHandle handles[EVENTS];

	for (unsigned i = 0; i < EVENTS; i++) {
		BENCH_MUST(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
		BENCH_MUST(cuIpcGetEventHandle(&handles[i], events[i]));
	}
	put(peer->bytes_fd, handles, sizeof handles);
}

static void open_events(const struct peer *peer)
{
	CUipcEventHandle handles[EVENTS];

	get(peer->bytes_fd, handles, sizeof handles);
	for (unsigned i = 0; i < EVENTS; i++)
		BENCH_MUST(cuIpcOpenEventHandle(&events[i], handles[i]));
}

static void destroy_events(void)
{
	for (unsigned i = 0; i < EVENTS; i++)
		BENCH_MUST(cuEventDestroy(events[i]));
}

static void CUDA_CB wait_for_go(void *unused)
{
	(void)unused;
	while (sem_wait(&go))
		BENCH_MUST(errno != EINTR);
	usleep(SETTLE_US); /* both sides should be waiting by then: a measurement, not a test */
}

/* The importer's side. p: a byte back. 1: hold the chain. w: a wait and a record. c: also read the word. g: go. */
static void answer_trips(const struct peer *peer)
{
	unsigned *read, at = 0; /* pinned: a copy to other host memory waits for the stream */
	CUstream starter;

	BENCH_MUST(cuMemHostAlloc((void **)&read, TRIPS * sizeof *read, 0));
	BENCH_MUST(sem_init(&go, 0, 0));
	BENCH_MUST(cuStreamCreate(&starter, CU_STREAM_NON_BLOCKING));
	BENCH_MUST(cenote_recv_pool(peer->sock, &pool));
	get(peer->bytes_fd, &block_name, sizeof block_name);
	BENCH_MUST(cuMemPoolImportPointer(&word, pool, &block_name));
	open_events(peer);
	for (char asked; (asked = hear(peer)) != 'q'; say(peer, asked)) {
		if (asked == '1') {
			BENCH_MUST(cuLaunchHostFunc(starter, wait_for_go, NULL));
			BENCH_MUST(cuEventRecord(events[FIRST], starter));
		} else if (asked == 'w' || asked == 'c') {
			BENCH_MUST(cuStreamWaitEvent(stream, events[THERE], 0));
			if (asked == 'c')
				BENCH_MUST(cuMemcpyDtoHAsync(&read[at++], word, sizeof *read, stream));
			BENCH_MUST(cuEventRecord(events[BACK], stream));
		} else if (asked == 'g') {
			BENCH_MUST(sem_post(&go));
			BENCH_MUST(cuStreamSynchronize(stream));
		}
	}
	BENCH_MUST(at != TRIPS);
	for (unsigned i = 0; i < TRIPS; i++)
		BENCH_MUST(read[i] != i);
	BENCH_MUST(cuMemFreeHost(read));
	destroy_events();
	BENCH_MUST(cuMemFree(word));
	BENCH_MUST(cuMemPoolDestroy(pool));
	BENCH_MUST(cuStreamDestroy(starter));
}

/* Nanoseconds a trip. `checked`: every word that is written on one side is read on the other. */
static double run_chain(const struct peer *peer, CUevent begin, CUevent end, bool checked)
{
	float milliseconds;

	ask(peer, '1');
	BENCH_MUST(cuStreamWaitEvent(stream, events[FIRST], 0));
	BENCH_MUST(cuEventRecord(begin, stream));
	for (unsigned i = 0; i < TRIPS; i++) {
		if (checked)
			BENCH_MUST(cuMemsetD32Async(word, i, 1, stream));
		BENCH_MUST(cuEventRecord(events[THERE], stream));
		ask(peer, checked ? 'c' : 'w');
		BENCH_MUST(cuStreamWaitEvent(stream, events[BACK], 0));
	}
	BENCH_MUST(cuEventRecord(end, stream));
	say(peer, 'g');
	BENCH_MUST(cuStreamSynchronize(stream));
	BENCH_MUST(hear(peer) != 'g');
	BENCH_MUST(cuEventElapsedTime(&milliseconds, begin, end));
	return (double)milliseconds * 1e6 / TRIPS;
}

static double run_pipe(const struct peer *peer)
{
	uint64_t before_ns = bench_now_ns();

	for (unsigned i = 0; i < TRIPS; i++)
		ask(peer, 'p');
	return (double)(bench_now_ns() - before_ns) / TRIPS;
}

static void make_trips(const struct peer *peer, const char *title, double goal)
{
	double pipe_ns[ROUNDS], event_ns[ROUNDS];
	CUevent begin, end;

	create_pool();
	BENCH_MUST(cuMemAllocFromPoolAsync(&word, BLOCK_BYTES, pool, stream));
	BENCH_MUST(cenote_send_pool(peer->sock, pool));
	BENCH_MUST(cuMemPoolExportPointer(&block_name, word));
	put(peer->bytes_fd, &block_name, sizeof block_name);
	create_events(peer);
	BENCH_MUST(cuEventCreate(&begin, CU_EVENT_DEFAULT) || cuEventCreate(&end, CU_EVENT_DEFAULT));
	run_chain(peer, begin, end, true);
	for (unsigned round = 0; round < ROUNDS; round++) {
		pipe_ns[round] = run_pipe(peer);
		event_ns[round] = run_chain(peer, begin, end, false);
	}
	say(peer, 'q');
	bench_title(title, "to a pipe");
	struct bench_result reference = row("a byte through two pipes and back", pipe_ns, NULL, 0);
	struct bench_result result = result_of(event_ns, ROUNDS);
	double ratio = result.median_ns / reference.median_ns;
	print_row("by events, each process waits for its stream", result, &reference);
	printf("   goal x %.1f: %s\n", goal, ratio <= goal ? "met" : "MISSED");
	BENCH_MUST(cuEventDestroy(begin) || cuEventDestroy(end));
	destroy_events();
	BENCH_MUST(cuMemFreeAsync(word, stream));
	BENCH_MUST(cuMemPoolDestroy(pool));
}

static void trips_apart(const struct peer *peer)
{
	make_trips(peer, "Round trips, each process on its core", 0.1);
}

static void trips_together(const struct peer *peer)
{
	make_trips(peer, "Round trips, both processes on one core", 1.2);
}

/* ---- Buffers ---- */

static const struct buffer_size {
	const char *name;
	size_t bytes;
	unsigned rounds;
} sizes[] = {{"4 KiB", 4 << 10, ROUNDS}, {"1 MiB", 1 << 20, ROUNDS}, {"64 MiB", 64 << 20, 11}, {"1 GiB", 1 << 30, 5}};

/* What the exporter sends first: a way to hand over, the buffer's size, and the byte it is full of. */
struct order {
	char way;
	unsigned char value;
	size_t bytes;
};

enum {
	BUFFER = 'b', /* another buffer, known by name from now on */
	EVENT = 'e',  /* its writing is recorded; the importer waits already */
	NAME = 'n',   /* recorded, and the buffer named over a socket */
	COPY = 's',   /* all its bytes over the socket */
	QUIT = 'q',
};

/* Where the importer has it. */
struct buffer {
	CUdeviceptr known, named;
	char *copy;
};

static void check_buffer(const struct buffer *buffer, const struct order *order)
{
	static char piece[PIECE_BYTES], wanted[PIECE_BYTES];
	CUdeviceptr from = order->way == NAME ? buffer->named : buffer->known;

	memset(wanted, order->value, sizeof wanted);
	for (size_t at = 0; at < order->bytes; at += PIECE_BYTES) {
		size_t now = order->bytes - at < PIECE_BYTES ? order->bytes - at : PIECE_BYTES;
		if (order->way != COPY)
			BENCH_MUST(cuMemcpyDtoH(piece, from + at, now));
		BENCH_MUST(memcmp(order->way == COPY ? buffer->copy + at : piece, wanted, now));
	}
}

/* After a large buffer the caches hold nothing of what comes next: nor after a small one, so that both compare. */
static void empty_caches(void)
{
	static volatile char scratch[SCRATCH_BYTES];

	for (size_t at = 0; at < SCRATCH_BYTES; at += CACHE_LINE_BYTES)
		scratch[at]++;
}

static void know_buffer(const struct peer *peer, size_t bytes, struct buffer *buffer)
{
	if (buffer->known)
		BENCH_MUST(cuMemFree(buffer->known));
	free(buffer->copy);
	get(peer->bytes_fd, &block_name, sizeof block_name);
	BENCH_MUST(cuMemPoolImportPointer(&buffer->known, pool, &block_name));
	buffer->copy = malloc(bytes);
	BENCH_MUST(!buffer->copy);
	memset(buffer->copy, 1, bytes);
	say(peer, BUFFER);
}

/* Returns the time at which it may be read. */
static uint64_t take_buffer(const struct peer *peer, const struct order *order, struct buffer *buffer)
{
	if (order->way == COPY) {
		get(peer->bytes_fd, buffer->copy, order->bytes);
		return bench_now_ns();
	}
	if (order->way == NAME) {
		get(peer->bytes_fd, &block_name, sizeof block_name);
		BENCH_MUST(cuMemPoolImportPointer(&buffer->named, pool, &block_name));
	}
	BENCH_MUST(cuStreamWaitEvent(stream, events[THERE], 0));
	if (order->way == EVENT)
		atomic_store(peer->waiting, 1);
	BENCH_MUST(cuStreamSynchronize(stream));
	return bench_now_ns();
}

static void take_buffers(const struct peer *peer)
{
	struct buffer buffer = {.known = 0};
	struct order order;

	BENCH_MUST(cenote_recv_pool(peer->sock, &pool));
	open_events(peer);
	for (get(peer->in, &order, sizeof order); order.way != QUIT; get(peer->in, &order, sizeof order)) {
		if (order.way == BUFFER) {
			know_buffer(peer, order.bytes, &buffer);
			continue;
		}
		BENCH_MUST(!buffer.copy); /* it knows none yet */
		uint64_t ready_ns = take_buffer(peer, &order, &buffer);
		put(peer->out, &ready_ns, sizeof ready_ns);
		check_buffer(&buffer, &order);
		if (order.way == NAME)
			BENCH_MUST(cuMemFree(buffer.named));
		empty_caches();
		say(peer, order.way);
	}
	free(buffer.copy);
	if (buffer.known)
		BENCH_MUST(cuMemFree(buffer.known));
	destroy_events();
	BENCH_MUST(cuMemPoolDestroy(pool));
}

struct writing {
	const struct peer *peer;
	uint64_t written_ns;
};

/* The last thing before the record: the importer waits, and what it waits for has been written. */
static void CUDA_CB note_written(void *data)
{
	struct writing *writing = data;

	while (!atomic_exchange(writing->peer->waiting, 0))
		if (cpus[0] == cpus[1])
			sched_yield();
	writing->written_ns = bench_now_ns();
}

/* Nanoseconds from written to readable. */
static double give_buffer(const struct peer *peer, const struct order *order, CUdeviceptr from, const char *copy)
{
	struct writing writing = {.peer = peer};
	uint64_t ready_ns;

	BENCH_MUST(cuMemsetD8Async(from, order->value, order->bytes, stream));
	BENCH_MUST(cuStreamSynchronize(stream));
	empty_caches();
	if (order->way == EVENT) {
		BENCH_MUST(cuLaunchHostFunc(stream, note_written, &writing));
		BENCH_MUST(cuEventRecord(events[THERE], stream));
		put(peer->out, order, sizeof *order);
	} else {
		put(peer->out, order, sizeof *order);
		usleep(SETTLE_US); /* so that the importer reads from its socket by then */
		writing.written_ns = bench_now_ns();
		if (order->way == NAME) {
			BENCH_MUST(cuEventRecord(events[THERE], stream));
			BENCH_MUST(cuMemPoolExportPointer(&block_name, from));
			put(peer->bytes_fd, &block_name, sizeof block_name);
		} else {
			put(peer->bytes_fd, copy, order->bytes);
		}
	}
	get(peer->in, &ready_ns, sizeof ready_ns);
	BENCH_MUST(hear(peer) != order->way);
	BENCH_MUST(cuStreamSynchronize(stream));
	return (double)(ready_ns - writing.written_ns);
}

enum { WAYS = 3 };

static void measure_buffer(const struct peer *peer, const struct buffer_size *size, CUdeviceptr from, char *copy,
			   double ret_medians[WAYS])
{
	static const char ways[WAYS] = {EVENT, NAME, COPY};
	struct order order = {.way = BUFFER, .bytes = size->bytes};
	double each[WAYS][ROUNDS];

	BENCH_MUST(cuMemPoolExportPointer(&block_name, from));
	put(peer->out, &order, sizeof order);
	put(peer->bytes_fd, &block_name, sizeof block_name);
	BENCH_MUST(hear(peer) != BUFFER);
	for (unsigned round = 0; round < size->rounds + 1; round++) /* the first one is to warm up */
		for (unsigned i = 0; i < WAYS; i++) {
			order.way = ways[i];
			order.value = (unsigned char)(WAYS * round + i);
			if (order.way == COPY)
				memset(copy, order.value, size->bytes);
			each[i][round ? round - 1 : 0] = give_buffer(peer, &order, from, copy);
		}
	for (unsigned i = 0; i < WAYS; i++)
		ret_medians[i] = result_of(each[i], size->rounds).median_ns;
}

/* False: there is not enough memory for it. */
static bool buffer_row(const struct peer *peer, const struct buffer_size *size, double ret_medians[WAYS])
{
	char *copy = malloc(size->bytes);
	CUdeviceptr from;
	CUresult result = cuMemAllocFromPoolAsync(&from, size->bytes, pool, stream);

	if (!copy || result == CUDA_ERROR_OUT_OF_MEMORY) {
		printf("%-8s more than there is\n", size->name);
		free(copy);
		return false;
	}
	BENCH_MUST(result);
	measure_buffer(peer, size, from, copy, ret_medians);
	printf("%-8s %14.0f ns %14.0f ns %14.0f ns    x %-10.3g x %.3g\n", size->name, ret_medians[0], ret_medians[1],
	       ret_medians[2], ret_medians[2] / ret_medians[0], ret_medians[2] / ret_medians[1]);
	fflush(stdout);
	BENCH_MUST(cuMemFreeAsync(from, stream));
	free(copy);
	return true;
}

static void give_buffers(const struct peer *peer)
{
	struct order quit = {.way = QUIT};
	double medians[WAYS], least[WAYS] = {0}, most[WAYS] = {0};

	create_pool();
	BENCH_MUST(cenote_send_pool(peer->sock, pool));
	create_events(peer);
	printf("\nFrom written by one process to readable by another, and how many times as long a copy takes\n");
	printf("%-8s %17s %17s %17s    %s\n", "", "event, waited for", "name and event", "copy by socket",
	       "copy to event, to name");
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		if (!buffer_row(peer, &sizes[i], medians))
			continue;
		for (unsigned way = 0; way < WAYS; way++) {
			least[way] = !i || medians[way] < least[way] ? medians[way] : least[way];
			most[way] = medians[way] > most[way] ? medians[way] : most[way];
		}
	}
	printf("%-8s %17.3g %17.3g %17.3g\n", "most/least", most[0] / least[0], most[1] / least[1], most[2] / least[2]);
	put(peer->out, &quit, sizeof quit);
	destroy_events();
	BENCH_MUST(cuMemPoolDestroy(pool));
}

int main(void)
{
	if (find_cpus() == 2)
		run_pair(trips_apart, answer_trips, cpus[0], cpus[1]);
	run_pair(trips_together, answer_trips, cpus[0], cpus[0]);
	run_pair(give_buffers, take_buffers, cpus[0], cpus[1]);
	return 0;
}

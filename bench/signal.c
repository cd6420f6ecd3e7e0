/* SPDX-License-Identifier: MIT */
/*
 * What it costs that one process goes on when another has done something: round trips by events, compared with a pipe,
 * an eventfd, a word in shared memory with spinning and then sleeping (a futex, by hand), and UCX's messages.
 *
 * A wait for an event waits for a record that was made before. So a chain of records and waits is submitted first, turn
 * by turn, behind a host function of the importer; then both sides wait for their streams, and the chain runs by
 * itself. The exporter's stream says how long it took. The others make as many trips, each with a number that is
 * checked.
 */
#include <errno.h>
#include <semaphore.h>
#include <sys/eventfd.h>

#include "ucx.h"

enum {
	BLOCK_BYTES = 4096,
	TRIPS = 500, /* of one chain: fewer than records of an event can be pending */
	RUN_IN = 20, /* untimed ones first: the importer sleeps when the first comes */
	SETTLE_US = 2000,
};

/* ---- The contestants: `first` sends and then waits, the other the other way round ---- */

static int counters[2]; /* eventfds: there, and back */

static void trips_by_futex(const struct peer *peer, bool first)
{
	struct pair_word *there = &peer->page->words[0], *back = &peer->page->words[1];

	for (uint32_t i = 1; i <= TRIPS; i++) {
		if (first)
			pair_post(there, i);
		pair_await(first ? back : there, i, !peer->together);
		if (!first)
			pair_post(back, i);
	}
}

static void trips_by_pipe(const struct peer *peer, bool first)
{
	for (uint32_t i = 0, got; i < TRIPS; i++) {
		if (first)
			put(peer->out, &i, sizeof i);
		get(peer->in, &got, sizeof got);
		BENCH_MUST(got != i);
		if (!first)
			put(peer->out, &got, sizeof got);
	}
}

static void trips_by_eventfd(const struct peer *peer, bool first)
{
	(void)peer;
	for (uint64_t i = 1, got; i <= TRIPS; i++) {
		if (first)
			put(counters[0], &i, sizeof i);
		get(counters[first], &got, sizeof got);
		BENCH_MUST(got != i);
		if (!first)
			put(counters[1], &got, sizeof got);
	}
}

static void trips_by_ucx(const struct peer *peer, bool first)
{
	(void)peer;
	for (uint64_t i = 1, got; i <= TRIPS; i++) {
		if (first)
			ucx_send(&i, sizeof i);
		ucx_receive(&got, sizeof got);
		BENCH_MUST(got != i);
		if (!first)
			ucx_send(&got, sizeof got);
	}
}

typedef void trips(const struct peer *peer, bool first);

static trips *trips_of(char way)
{
	return way == 'f' ? trips_by_futex : way == 'e' ? trips_by_eventfd : way == 'u' ? trips_by_ucx : trips_by_pipe;
}

/* ---- By events ---- */

enum { THERE, BACK, FIRST, EVENTS };

static CUevent events[EVENTS];
static CUmemPoolPtrExportData block_name;
static CUdeviceptr word; /* one block in both processes: what is written before a record is read after the wait */
static sem_t go;

static void CUDA_CB wait_for_go(void *unused)
{
	(void)unused;
	while (sem_wait(&go))
		BENCH_MUST(errno != EINTR);
	usleep(SETTLE_US); /* both sides should be waiting by then: a measurement, not a test */
}

static void open_all(const struct peer *peer)
{
	CUipcEventHandle handles[EVENTS];

	BENCH_MUST(cenote_recv_pool(peer->sock, &pair_pool));
	get(peer->bytes_fd, &block_name, sizeof block_name);
	BENCH_MUST(cuMemPoolImportPointer(&word, pair_pool, &block_name));
	get(peer->bytes_fd, handles, sizeof handles);
	for (unsigned i = 0; i < EVENTS; i++)
		BENCH_MUST(cuIpcOpenEventHandle(&events[i], handles[i]));
	for (unsigned i = 0; i < 2; i++)
		BENCH_MUST(cenote_recv_descriptor(peer->sock, &counters[i]));
	if (!ucx_absent(peer))
		ucx_open(peer);
}

static void close_all(const struct peer *peer)
{
	if (!ucx_absent(peer))
		ucx_close(peer);
	for (unsigned i = 0; i < EVENTS; i++)
		BENCH_MUST(cuEventDestroy(events[i]));
	BENCH_MUST(cuMemFree(word));
	BENCH_MUST(cuMemPoolDestroy(pair_pool));
	for (unsigned i = 0; i < 2; i++)
		close(counters[i]);
}

/* The importer's side. 1: hold the chain. w: a wait and a record. c: also read the word. g: go. Others: a way. */
static void answer_trips(const struct peer *peer)
{
	unsigned *read, at = 0; /* pinned: a copy to other host memory waits for the stream */
	CUstream starter;

	BENCH_MUST(cuMemHostAlloc((void **)&read, (RUN_IN + TRIPS) * sizeof *read, 0));
	BENCH_MUST(sem_init(&go, 0, 0));
	BENCH_MUST(cuStreamCreate(&starter, CU_STREAM_NON_BLOCKING));
	open_all(peer);
	for (char asked; (asked = hear(peer)) != 'q';) {
		if (asked == '1') {
			BENCH_MUST(cuLaunchHostFunc(starter, wait_for_go, NULL));
			BENCH_MUST(cuEventRecord(events[FIRST], starter));
		} else if (asked == 'w' || asked == 'c') {
			BENCH_MUST(cuStreamWaitEvent(pair_stream, events[THERE], 0));
			if (asked == 'c')
				BENCH_MUST(cuMemcpyDtoHAsync(&read[at++], word, sizeof *read, pair_stream));
			BENCH_MUST(cuEventRecord(events[BACK], pair_stream));
		} else if (asked == 'g') {
			BENCH_MUST(sem_post(&go));
			BENCH_MUST(cuStreamSynchronize(pair_stream));
		} else {
			say(peer, asked);
			trips_of(asked)(peer, false);
			continue;
		}
		say(peer, asked);
	}
	BENCH_MUST(at != RUN_IN + TRIPS);
	for (unsigned i = 0; i < at; i++)
		BENCH_MUST(read[i] != i);
	BENCH_MUST(cuMemFreeHost(read));
	BENCH_MUST(cuStreamDestroy(starter));
	close_all(peer);
}

struct chain {
	const struct peer *peer;
	CUevent begin, end;
	char way;
};

/* Nanoseconds a trip. `checked`: every word that is written on one side is read on the other. */
static double run_chain(const struct chain *chain, bool checked)
{
	const struct peer *peer = chain->peer;
	float milliseconds;

	ask(peer, '1');
	BENCH_MUST(cuStreamWaitEvent(pair_stream, events[FIRST], 0));
	for (unsigned i = 0; i < RUN_IN + TRIPS; i++) {
		if (i == RUN_IN)
			BENCH_MUST(cuEventRecord(chain->begin, pair_stream));
		if (checked)
			BENCH_MUST(cuMemsetD32Async(word, i, 1, pair_stream));
		BENCH_MUST(cuEventRecord(events[THERE], pair_stream));
		ask(peer, checked ? 'c' : 'w');
		BENCH_MUST(cuStreamWaitEvent(pair_stream, events[BACK], 0));
	}
	BENCH_MUST(cuEventRecord(chain->end, pair_stream));
	say(peer, 'g');
	BENCH_MUST(cuStreamSynchronize(pair_stream));
	BENCH_MUST(hear(peer) != 'g');
	BENCH_MUST(cuEventElapsedTime(&milliseconds, chain->begin, chain->end));
	return (double)milliseconds * 1e6 / TRIPS;
}

static double by_events(void *chain)
{
	return run_chain(chain, false);
}

static double by_others(void *data)
{
	const struct chain *chain = data;

	for (unsigned i = 0; i < 2; i++)
		atomic_store(&chain->peer->page->words[i].value, 0);
	ask(chain->peer, chain->way);
	uint64_t before_ns = bench_now_ns();
	trips_of(chain->way)(chain->peer, true);
	return (double)(bench_now_ns() - before_ns) / TRIPS;
}

/* ---- The contests ---- */

static void create_all(const struct peer *peer, struct chain *ret_chain)
{
	CUipcEventHandle handles[EVENTS];

	pair_create_pool();
	BENCH_MUST(cuMemAllocFromPoolAsync(&word, BLOCK_BYTES, pair_pool, pair_stream));
	BENCH_MUST(cenote_send_pool(peer->sock, pair_pool));
	BENCH_MUST(cuMemPoolExportPointer(&block_name, word));
	put(peer->bytes_fd, &block_name, sizeof block_name);
	for (unsigned i = 0; i < EVENTS; i++) {
		BENCH_MUST(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
		BENCH_MUST(cuIpcGetEventHandle(&handles[i], events[i]));
	}
	put(peer->bytes_fd, handles, sizeof handles);
	for (unsigned i = 0; i < 2; i++) {
		counters[i] = eventfd(0, EFD_CLOEXEC);
		BENCH_MUST(counters[i] < 0 || cenote_send_descriptor(peer->sock, counters[i]));
	}
	if (!ucx_absent(peer))
		ucx_open(peer);
	*ret_chain = (struct chain){.peer = peer};
	BENCH_MUST(cuEventCreate(&ret_chain->begin, CU_EVENT_DEFAULT) ||
		   cuEventCreate(&ret_chain->end, CU_EVENT_DEFAULT));
}

static void make_trips(const struct peer *peer)
{
	static const char *const by_hand = "by hand: spin, then futex", *const group = "Round trips of two processes";
	const char *name = peer->together ? "both on one core" : "each on its core", *absent = ucx_absent(peer);
	struct chain chain;

	create_all(peer, &chain);
	struct chain ways[] = {chain, chain, chain, chain};
	ways[0].way = 'f', ways[1].way = 'e', ways[2].way = 'p', ways[3].way = 'u';
	struct bench_contestant contestants[] = {
		{.name = "cenote, events", .once = by_events, .data = &chain, .goal = 1.3, .goal_of = by_hand},
		{.name = by_hand, .once = by_others, .data = &ways[0]},
		{.name = "eventfd", .once = by_others, .data = &ways[1]},
		{.name = "pipe", .once = by_others, .data = &ways[2]},
		{.name = absent ? NULL : "UCX, a message of 8 bytes", .once = by_others, .data = &ways[3]}};
	if (absent)
		bench_absent(group, name, "UCX", absent);
	run_chain(&chain, true);
	bench_contest(&(struct bench_contest){.group = group, .name = name, .baseline = by_hand, .repetitions = 31},
		      contestants, sizeof contestants / sizeof *contestants);
	say(peer, 'q');
	BENCH_MUST(cuEventDestroy(chain.begin) || cuEventDestroy(chain.end));
	close_all(peer);
}

int main(int argument_count, char **arguments)
{
	ucx_settle(arguments);
	bench_start("signal", argument_count, arguments);
	if (bench_cpu_count() > 1)
		pair_run(make_trips, answer_trips, 0, 1);
	pair_run(make_trips, answer_trips, 0, 0);
	return bench_finish();
}

/* SPDX-License-Identifier: MIT */
/*
 * Load: 64 processes of four threads each on one pool, and every byte checked.
 *
 * One process has the pool. Each of its four threads, a *lane*, allocates blocks, writes them full of a pattern that is
 * the block's own, and hands them to some of the other processes, whose four workers each take whatever comes next.
 * What is done with a block is drawn by lot:
 *
 *	LOOK    to up to three processes, and freed at once: each has it whole, or hears that it is stale
 *	HOLD    a worker has it; then it is freed and others are allocated; later another worker looks at it again
 *	WRITE   a worker writes a pattern of its own, which the lane reads when the worker's event or its word says so
 *
 * The streams of the two sides are ordered by events between processes, in both directions. When the time is over,
 * everything is released, and the audit finds nothing: no used byte, no export, no importer, no descriptor, no
 * mapping, no thread that was not there before, no name.
 *
 * A lane has few orders under way with a process, so that neither side ever waits for room in a socket.
 */
#include "../share.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

enum {
	THREADS = 4, /* of each process */
	IMPORTERS = 64 / HARNESS_SLOWDOWN - 1,
	MINE_MAX = (IMPORTERS + THREADS - 1) / THREADS, /* processes of a lane */
	RUN_MS = HARNESS_SLOWDOWN == 1 ? 20000 : 6000,
	UNDER_WAY = 6, /* orders of one process that are not answered yet */
	GIVEN = 64,    /* blocks of a lane that it waits for */
	BLOCK_MAX = 256 * 1024,
	PATTERN_BYTES = 4 * 1024 * 1024,
	POOL_BYTES = 16 * SHARE_CHUNK,
	DESCRIPTORS = 1024, /* enough for 64 processes */
};

enum kind { LOOK, HOLD, FREED, WRITE, END };

struct order {
	enum kind kind;
	unsigned lane, given; /* the lane it belongs to, and its index there */
	unsigned held;        /* FREED: where the process remembers it */
	uint64_t id, bytes;
	CUmemPoolPtrExportData name;
};

enum outcome { SEEN, STALE, HELD, WRITTEN, WRITTEN_IN_ORDER };

struct answer {
	enum outcome outcome;
	enum kind kind;
	unsigned given, held;
	uint64_t id;
};

struct tally {
	_Atomic uint64_t allocated, orders, imported, stale, held, written, waits, bytes_checked;
};

static struct tally tally;
static unsigned char *pattern;

SETUP
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < DESCRIPTORS && limit.rlim_max >= DESCRIPTORS) {
		limit.rlim_cur = DESCRIPTORS;
		ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &limit));
	}
	share_start();
}

/* ---- Patterns ---------------------------------------------------------------------------------------------------- */

/* The same in all processes: it follows from the seed. */
static void make_pattern(void)
{
	struct test_random random = test_random_start(0);

	pattern = malloc(PATTERN_BYTES);
	ASSERT(pattern);
	for (size_t i = 0; i < PATTERN_BYTES; i += sizeof(uint64_t)) {
		uint64_t word = test_random_next(&random);
		memcpy(pattern + i, &word, sizeof word);
	}
}

/* A block's bytes: its number, then a piece of the pattern, elsewhere for each number. */
static const unsigned char *piece_of(uint64_t id)
{
	return pattern + id * 7919 % (PATTERN_BYTES - BLOCK_MAX);
}

static void write_block(CUdeviceptr block, uint64_t id, size_t bytes, unsigned char *buffer, CUstream stream)
{
	memcpy(buffer, piece_of(id), bytes);
	memcpy(buffer, &id, sizeof id);
	ASSERT_OK(cuMemcpyHtoDAsync(block, buffer, bytes, stream)); /* of memory that is not pinned: taken at once */
}

static void check_block(CUdeviceptr block, uint64_t id, size_t bytes, unsigned char *buffer, CUstream stream)
{
	ASSERT_OK(cuMemcpyDtoHAsync(buffer, block, bytes, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_MEMEQ(&id, buffer, sizeof id);
	ASSERT_MEMEQ(piece_of(id) + sizeof id, buffer + sizeof id, bytes - sizeof id);
	tally.bytes_checked += bytes;
}

/* What a worker leaves in a block that it writes. */
static uint64_t written_id(uint64_t id)
{
	return id ^ 0x5555555555ull;
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

static void say(int sock, const void *bytes, size_t size)
{
	ssize_t sent;

	do
		sent = send(sock, bytes, size, MSG_NOSIGNAL);
	while (sent == -1 && errno == EINTR);
	ASSERT_EQ((ssize_t)size, sent);
}

static void hear(int sock, void *ret_bytes, size_t size)
{
	ssize_t got;

	do
		got = recv(sock, ret_bytes, size, 0);
	while (got == -1 && errno == EINTR);
	ASSERT_EQ((ssize_t)size, got);
}

/* ---- Importers --------------------------------------------------------------------------------------------------- */

/* What the pool's process tells each other one at the start; the descriptors follow. */
struct start {
	CUipcEventHandle ready[THREADS];
	CUmemPoolPtrExportData first; /* a block to join with */
	uint64_t first_bytes;
};

static struct {
	CUcontext context;
	CUmemoryPool pool;
	CUevent ready[THREADS], finished; /* the lanes'; the first worker's */
	int sock;
	struct {
		_Atomic bool taken;
		CUdeviceptr block;
	} held[UNDER_WAY];
} here;

struct worker {
	unsigned number;
	CUstream stream;
	unsigned char *buffer;
};

static CUresult import(const struct order *order, CUdeviceptr *ret_block)
{
	CUmemPoolPtrExportData name = order->name;

	return cuMemPoolImportPointer(ret_block, here.pool, &name);
}

static CUdeviceptr take(const struct order *order, struct worker *worker)
{
	CUdeviceptr block;
	CUresult result = import(order, &block);

	if (result == CUDA_ERROR_INVALID_VALUE && order->kind == LOOK) {
		ASSERT_CONTAINS("the exporter has freed", cenote_last_error());
		tally.stale++;
		return 0;
	}
	ASSERT_OK(result);
	tally.imported++;
	ASSERT_OK(cuStreamWaitEvent(worker->stream, here.ready[order->lane], 0));
	tally.waits++;
	check_block(block, order->id, order->bytes, worker->buffer, worker->stream);
	return block;
}

/* Some look twice: the second import is the same address, and the first free lets nothing go. */
static enum outcome look_at(const struct order *order, struct worker *worker)
{
	CUdeviceptr block = take(order, worker), again;

	if (!block)
		return STALE;
	if (order->id % 4 == 0 && import(order, &again) == CUDA_SUCCESS) {
		ASSERT_EQ(block, again);
		ASSERT_OK(cuMemFreeAsync(again, worker->stream));
		check_block(block, order->id, order->bytes, worker->buffer, worker->stream);
	}
	ASSERT_OK(cuMemFreeAsync(block, worker->stream));
	return SEEN;
}

static enum outcome hold(const struct order *order, struct worker *worker, unsigned *ret_held)
{
	unsigned at = 0;
	CUdeviceptr block = take(order, worker);

	while (atomic_exchange(&here.held[at].taken, true))
		ASSERT_LT(++at, UNDER_WAY);
	here.held[at].block = block;
	tally.held++;
	*ret_held = at;
	return HELD;
}

/* Its exporter has freed it since, and allocated others. */
static enum outcome look_again(const struct order *order, struct worker *worker)
{
	CUdeviceptr block = here.held[order->held].block;

	atomic_store(&here.held[order->held].taken, false);
	check_block(block, order->id, order->bytes, worker->buffer, worker->stream);
	ASSERT_OK(cuMemFreeAsync(block, worker->stream));
	return SEEN;
}

static enum outcome write_into(const struct order *order, struct worker *worker)
{
	CUdeviceptr block = take(order, worker);

	write_block(block, written_id(order->id), order->bytes, worker->buffer, worker->stream);
	tally.written++;
	if (worker->number == 0)
		ASSERT_OK(cuEventRecord(here.finished, worker->stream));
	ASSERT_OK(cuMemFreeAsync(block, worker->stream));
	if (worker->number == 0)
		return WRITTEN_IN_ORDER;
	ASSERT_OK(cuStreamSynchronize(worker->stream));
	return WRITTEN;
}

static void *work(void *data)
{
	struct worker *worker = data;
	struct order order;

	ASSERT_OK(cuCtxSetCurrent(here.context));
	for (;;) {
		struct answer answer = {0};
		hear(here.sock, &order, sizeof order);
		if (order.kind == END)
			return NULL;
		answer.kind = order.kind;
		answer.given = order.given;
		answer.id = order.id;
		switch (order.kind) {
		case LOOK: answer.outcome = look_at(&order, worker); break;
		case HOLD: answer.outcome = hold(&order, worker, &answer.held); break;
		case FREED: answer.outcome = look_again(&order, worker); break;
		default: answer.outcome = write_into(&order, worker);
		}
		say(here.sock, &answer, sizeof answer);
	}
}

/* ---- The audit --------------------------------------------------------------------------------------------------- */

static unsigned count_entries(const char *path)
{
	DIR *entries = opendir(path);
	unsigned count = 0;

	ASSERT(entries);
	for (struct dirent *entry; (entry = readdir(entries));)
		count += entry->d_name[0] != '.';
	closedir(entries);
	return count;
}

static unsigned count_threads(void)
{
	return count_entries("/proc/self/task");
}

/* Executors that have nothing to do end by themselves, and tell nobody; the poller, once started, stays. */
static void await_threads(unsigned before)
{
	while (count_threads() > before + 1)
		poll(NULL, 0, 10);
}

/* ---- An importer's life ------------------------------------------------------------------------------------------ */

static void importer_begin(struct peer *parent)
{
	struct start start;
	CUipcEventHandle finished;

	peer_receive_bytes(parent, &start, sizeof start);
	int descriptor = peer_receive_descriptor(parent);
	here.sock = peer_receive_descriptor(parent);
	here.pool = share_import(descriptor);
	close(descriptor);
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_OK(cuIpcOpenEventHandle(&here.ready[i], start.ready[i]));
	ASSERT_OK(cuMemFreeAsync(share_take(here.pool, start.first), NULL));
	ASSERT_OK(cuEventCreate(&here.finished, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuIpcGetEventHandle(&finished, here.finished));
	ASSERT_OK(cuCtxGetCurrent(&here.context));
	peer_send_bytes(parent, &finished, sizeof finished);
}

ROLE(importer)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];

	unsigned descriptors = count_entries("/proc/self/fd"), thread_count = count_threads();

	leaks_watch(LEAK_MAPPINGS);
	make_pattern();
	importer_begin(parent);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.number = i, .stream = share_stream(), .buffer = malloc(BLOCK_MAX)};
		ASSERT(workers[i].buffer);
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, work, &workers[i]));
	}
	for (unsigned i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
		ASSERT_OK(cuStreamSynchronize(workers[i].stream));
		ASSERT_OK(cuStreamDestroy(workers[i].stream));
		ASSERT_OK(cuEventDestroy(here.ready[i]));
		free(workers[i].buffer);
	}
	ASSERT_OK(cuEventDestroy(here.finished));
	ASSERT_OK(cuMemPoolDestroy(here.pool));
	close(here.sock);
	free(pattern);
	peer_send_bytes(parent, &tally, sizeof tally);
	/* Two ports keep their connections, ours and the one at which we called. The service thread closes the rest. */
	while (count_entries("/proc/self/fd") > descriptors + 2)
		poll(NULL, 0, 1);
	await_threads(thread_count);
}

/* ---- The process that has the pool ------------------------------------------------------------------------------- */

struct partner {
	struct peer *peer;
	int sock;
	CUevent finished;
	unsigned under_way;
};

struct lane {
	unsigned number;
	CUcontext context;
	CUmemoryPool pool;
	CUstream stream;
	CUevent ready;
	struct test_random random;
	unsigned char *buffer;
	struct partner partners[MINE_MAX];
	unsigned partner_count, under_way;
	struct {
		bool taken;
		CUdeviceptr block;
		uint64_t bytes;
	} given[GIVEN];
	uint64_t next_id;
};

static struct lane lanes[THREADS];
static uint64_t deadline_ms;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool goes_on(void)
{
	return soak_goes_on(now_ms() >= deadline_ms, 1);
}

static void order(struct lane *lane, struct partner *partner, const struct order *what)
{
	say(partner->sock, what, sizeof *what);
	partner->under_way++;
	lane->under_way++;
	tally.orders++;
}

/* Mostly small, and of all sizes. */
static uint64_t random_bytes(struct lane *lane)
{
	uint64_t most = 512ull << test_random_below(&lane->random, 10);

	return most / 2 + 8 + test_random_below(&lane->random, most / 2 - 8);
}

static CUdeviceptr make_block(struct lane *lane, uint64_t id, uint64_t bytes)
{
	CUdeviceptr block = share_allocate(lane->pool, bytes, lane->stream);

	tally.allocated++;
	write_block(block, id, bytes, lane->buffer, lane->stream);
	return block;
}

/* A partner that is not busy, beginning with one drawn by lot; NULL: all are. */
static struct partner *choose_partner(struct lane *lane)
{
	unsigned first = (unsigned)test_random_below(&lane->random, lane->partner_count);

	for (unsigned i = 0; i < lane->partner_count; i++) {
		struct partner *partner = &lane->partners[(first + i) % lane->partner_count];
		if (partner->under_way < UNDER_WAY)
			return partner;
	}
	return NULL;
}

static unsigned find_place(const struct lane *lane)
{
	unsigned at = 0;

	while (at < GIVEN && lane->given[at].taken)
		at++;
	return at;
}

/* Give a block to a process. False: none can take one now. */
static bool give(struct lane *lane)
{
	struct partner *partner = choose_partner(lane);
	unsigned at = find_place(lane), lot = (unsigned)test_random_below(&lane->random, 4);
	struct order what = {.kind = lot == 0 ? HOLD : lot == 1 ? WRITE : LOOK, .lane = lane->number, .given = at};

	if (!partner || at == GIVEN)
		return false;
	what.id = lane->next_id;
	lane->next_id += THREADS;
	what.bytes = random_bytes(lane);
	CUdeviceptr block = make_block(lane, what.id, what.bytes);
	ASSERT_OK(cuEventRecord(lane->ready, lane->stream));
	what.name = share_name(block);
	if (what.kind == LOOK) {
		for (unsigned i = 0; partner && i <= what.id / THREADS % 3; i++, partner = choose_partner(lane))
			order(lane, partner, &what);
		ASSERT_OK(cuMemFreeAsync(block, lane->stream));
		return true;
	}
	lane->given[at].taken = true;
	lane->given[at].block = block;
	lane->given[at].bytes = what.bytes;
	order(lane, partner, &what);
	return true;
}

/* A worker holds the block: free it, let others allocate what they can of it, and have it checked again. */
static void free_early(struct lane *lane, struct partner *partner, const struct answer *answer)
{
	struct order what = {.kind = FREED,
			     .lane = lane->number,
			     .given = answer->given,
			     .held = answer->held,
			     .id = answer->id,
			     .bytes = lane->given[answer->given].bytes};
	CUdeviceptr others[2];

	ASSERT_OK(cuMemFreeAsync(lane->given[answer->given].block, lane->stream));
	if (answer->id / THREADS % 2)
		ASSERT_OK(cuStreamSynchronize(lane->stream));
	for (unsigned i = 0; i < 2; i++)
		others[i] = make_block(lane, ~answer->id, what.bytes);
	for (unsigned i = 0; i < 2; i++)
		ASSERT_OK(cuMemFreeAsync(others[i], lane->stream));
	order(lane, partner, &what);
}

static void read_written(struct lane *lane, struct partner *partner, const struct answer *answer)
{
	unsigned at = answer->given;

	if (answer->outcome == WRITTEN_IN_ORDER) {
		ASSERT_OK(cuStreamWaitEvent(lane->stream, partner->finished, 0));
		tally.waits++;
	}
	check_block(lane->given[at].block, written_id(answer->id), lane->given[at].bytes, lane->buffer, lane->stream);
	ASSERT_OK(cuMemFreeAsync(lane->given[at].block, lane->stream));
	lane->given[at].taken = false;
}

static void listen_to(struct lane *lane, struct partner *partner)
{
	struct answer answer;

	hear(partner->sock, &answer, sizeof answer);
	partner->under_way--;
	lane->under_way--;
	if (answer.outcome == HELD)
		free_early(lane, partner, &answer);
	else if (answer.outcome == WRITTEN || answer.outcome == WRITTEN_IN_ORDER)
		read_written(lane, partner, &answer);
	else if (answer.kind == FREED)
		lane->given[answer.given].taken = false;
}

static void *run_lane(void *data)
{
	struct lane *lane = data;
	struct pollfd set[MINE_MAX];
	bool more = true;

	ASSERT_OK(cuCtxSetCurrent(lane->context));
	for (unsigned i = 0; i < lane->partner_count; i++)
		set[i] = (struct pollfd){.fd = lane->partners[i].sock, .events = POLLIN};
	while ((more = more && goes_on()) || lane->under_way) {
		bool given = more && give(lane);
		if (poll(set, lane->partner_count, given ? 0 : -1) <= 0)
			continue;
		for (unsigned i = 0; i < lane->partner_count; i++)
			if (set[i].revents)
				listen_to(lane, &lane->partners[i]);
	}
	return NULL;
}

/* ---- The test ---------------------------------------------------------------------------------------------------- */

static void begin_lane(unsigned number, CUmemoryPool pool, struct start *start)
{
	struct lane *lane = &lanes[number];

	*lane = (struct lane){.number = number, .pool = pool, .stream = share_stream(), .next_id = number + 1};
	lane->random = test_random_start(1 + number);
	lane->buffer = malloc(BLOCK_MAX);
	ASSERT(lane->buffer);
	ASSERT_OK(cuCtxGetCurrent(&lane->context));
	ASSERT_OK(cuEventCreate(&lane->ready, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuIpcGetEventHandle(&start->ready[number], lane->ready));
}

/* One after the other: a process that joins needs an answer in time, however busy the machine is. */
static void begin_partner(struct lane *lane, struct peer *peer, const struct start *start)
{
	struct partner *partner = &lane->partners[lane->partner_count++];
	CUipcEventHandle finished;
	int ends[2], descriptor = share_export(lane->pool);

	ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	*partner = (struct partner){.peer = peer, .sock = ends[0]};
	peer_send_bytes(peer, start, sizeof *start);
	peer_send_descriptor(peer, descriptor);
	peer_send_descriptor(peer, ends[1]);
	close(ends[1]);
	close(descriptor);
	peer_receive_bytes(peer, &finished, sizeof finished);
	ASSERT_OK(cuIpcOpenEventHandle(&partner->finished, finished));
}

static void end_partner(struct partner *partner)
{
	const struct order end = {.kind = END};
	struct tally theirs;

	for (unsigned i = 0; i < THREADS; i++)
		say(partner->sock, &end, sizeof end);
	peer_receive_bytes(partner->peer, &theirs, sizeof theirs);
	tally.imported += theirs.imported;
	tally.stale += theirs.stale;
	tally.held += theirs.held;
	tally.written += theirs.written;
	tally.waits += theirs.waits;
	tally.bytes_checked += theirs.bytes_checked;
	close(partner->sock);
	ASSERT_OK(cuEventDestroy(partner->finished));
}

static void end_lane(struct lane *lane)
{
	for (unsigned i = 0; i < lane->partner_count; i++)
		end_partner(&lane->partners[i]);
	for (unsigned i = 0; i < lane->partner_count; i++)
		peer_wait(lane->partners[i].peer); /* which fails if it has left anything */
	ASSERT_OK(cuStreamSynchronize(lane->stream));
	ASSERT_OK(cuStreamDestroy(lane->stream));
	ASSERT_OK(cuEventDestroy(lane->ready));
	free(lane->buffer);
}

static void count_name(const cenote_name *name, void *data)
{
	*(unsigned *)data += name->name != NULL && !name->live;
}

/* Everything is where it was. */
static void audit(CUmemoryPool pool)
{
	cenote_pool_statistics statistics;
	cenote_importer importer;
	size_t importers = 1;
	unsigned dead_names = 0;

	share_await_used(pool, 0);
	while (importers) { /* the service thread hears of each end */
		ASSERT_OK(cenote_pool_importers(pool, &importer, sizeof importer, 1, &importers));
		sched_yield();
	}
	ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	ASSERT_EQ(0, statistics.exported_block_count);
	ASSERT_EQ(0, statistics.deferred_block_count);
	ASSERT_EQ(0, statistics.deferred_bytes);
	share_fill_whole(pool, POOL_BYTES, SHARE_MIB, 0);
	ASSERT_OK(cenote_sweep(CENOTE_SWEEP_LOOK, count_name, &dead_names));
	ASSERT_EQ(0u, dead_names);
}

static void report(void)
{
	printf("seed %#jx: %d processes of %d threads; %ju blocks, %ju orders, %ju imports, %ju stale names, %ju held "
	       "while freed, %ju written by importers, %ju waits, %ju MiB checked\n",
	       (uintmax_t)test_seed(), IMPORTERS + 1, THREADS, (uintmax_t)tally.allocated, (uintmax_t)tally.orders,
	       (uintmax_t)tally.imported, (uintmax_t)tally.stale, (uintmax_t)tally.held, (uintmax_t)tally.written,
	       (uintmax_t)tally.waits, (uintmax_t)tally.bytes_checked >> 20);
}

/* Names are looked for in all places, and others' are not ours. */
static void use_own_fabric_directory(void)
{
	char path[512];

	snprintf(path, sizeof path, "%s/fabric", test_directory());
	ASSERT_SYS(setenv("CENOTE_FABRIC_DIR", path, 1));
}

/* Goal: under load from all sides only its holders use a block, and nothing is left afterwards. */
TEST(every_byte_is_right_and_nothing_is_left, .timeout_ms = 120000, .soak = true)
{
	struct peer *peers[IMPORTERS];
	pthread_t threads[THREADS];
	CUmemoryPool pool = share_pool(POOL_BYTES);
	CUdeviceptr first = share_allocate(pool, BLOCK_MAX, NULL);
	struct start start = {0};
	unsigned thread_count = count_threads();

	use_own_fabric_directory();
	for (unsigned i = 0; i < IMPORTERS; i++)
		peers[i] = peer_start("importer");
	make_pattern();
	close(share_export(pool));
	start.first = share_name(first);
	for (unsigned i = 0; i < THREADS; i++)
		begin_lane(i, pool, &start);
	for (unsigned i = 0; i < IMPORTERS; i++)
		begin_partner(&lanes[i % THREADS], peers[i], &start);
	ASSERT_OK(cuMemFree(first));
	deadline_ms = now_ms() + RUN_MS;
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, run_lane, &lanes[i]));
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	for (unsigned i = 0; i < THREADS; i++)
		end_lane(&lanes[i]);
	free(pattern);
	audit(pool);
	await_threads(thread_count);
	ASSERT_OK(cuMemPoolDestroy(pool));
	report();
	ASSERT_GT(tally.held, 0);
	ASSERT_GT(tally.stale + tally.imported, 0);
}

/* SPDX-License-Identifier: MIT */
/*
 * What scripts/nodes_soak.py runs on nodes: two programs that hand data over to each other, and check every byte.
 *
 *	nodes_soak_subject export SEED      prints the names of memory and of a pool; then obeys:
 *	    serve COUNT     hand over COUNT times (0: until it is abandoned or told to stop), and say *ended* TURNS
 *	    stop            end in order, behind the present turn
 *	    abandon         the importer is gone: say *abandoned* TURNS when all blocks have come back to the pool
 *	nodes_soak_subject import SEED      obeys:
 *	    take MEMORY POOL    import both, and take part until *ended* TURNS, or *lost* TURNS: the node is gone
 *	    flip MEMORY POOL    import each with each of its bits changed, and say how many were *refused*
 *
 * A turn: the exporter writes data into a block of the pool or into the memory, a header, and then a word; the importer
 * waits for the word, copies the data and checks it, writes other data in its place, and then a word of its own, for
 * which the exporter waits. Both say *at* TURNS now and then. Whatever is wrong ends them with a line that says so.
 */
#include "../../bench/nodes.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum {
	THERE = 4096,     /* the exporter's word */
	BACK = 4096 + 64, /* the importer's */
	DATA = 8192,
	DATA_BYTES_MAX = 1 << 20,
	MEMORY_BYTES = 2 << 20,
	SAY_FIRST = 4, /* at which turn, and then every: */
	SAY_EVERY = 256,
	RETURN_MS_MAX = 15000,
};
#define ABANDONED UINT32_C(0x7fffffff) /* more than any turn */

enum kind { IN_BLOCK, IN_MEMORY, STOP };

struct header {
	unsigned char block[NAME_BYTES];
	uint64_t seed, bytes;
	uint32_t kind, turn;
};

static uint64_t state; /* of random numbers */
static unsigned char *expected, *found;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void fail(const char *what, unsigned turn)
{
	printf("failed: %s in turn %u\n", what, turn);
	fflush(stdout);
	_exit(1);
}

static void say(const char *what, unsigned turn)
{
	printf("%s %u\n", what, turn);
	fflush(stdout);
}

static void fill(uint64_t seed, size_t bytes)
{
	uint64_t *words = (uint64_t *)(void *)expected;

	for (size_t i = 0; i < (bytes + 7) / 8; i++)
		words[i] = (seed + i) * 0x9e3779b97f4a7c15;
}

static void check(const void *bytes, uint64_t seed, size_t count, unsigned turn)
{
	fill(seed, count);
	if (memcmp(bytes, expected, count) != 0)
		fail("other bytes than were sent", turn);
}

static size_t draw_bytes(void)
{
	unsigned die = draw() % 32;

	return die ? 1 + draw() % (die < 8 ? DATA_BYTES_MAX / 8 : 4096)
		   : DATA_BYTES_MAX / 2 + draw() % (DATA_BYTES_MAX / 2);
}

static void say_progress(unsigned turn)
{
	if (turn == SAY_FIRST || !(turn % SAY_EVERY))
		say("at", turn);
}

/* ---- The exporter ---- */

static struct {
	CUdeviceptr memory;
	CUmemoryPool pool;
	CUstream stream;
	sem_t orders;
	_Atomic unsigned count; /* of turns; 0: no end */
	_Atomic bool stops, ends;
} exporter;

static _Atomic uint32_t *word(unsigned at)
{
	return (_Atomic uint32_t *)(uintptr_t)(exporter.memory + at);
}

static void *read_orders(void *unused)
{
	char line[LINE_BYTES];
	unsigned count;

	(void)unused;
	while (read_line(line)) {
		if (sscanf(line, "serve %u", &count) == 1) {
			exporter.count = count;
			sem_post(&exporter.orders);
		} else if (!strcmp(line, "stop")) {
			exporter.stops = true;
		} else if (!strcmp(line, "abandon")) {
			atomic_store(word(BACK), ABANDONED);
		}
	}
	exporter.ends = true;
	sem_post(&exporter.orders);
	return NULL;
}

/* Write the header, and then the word. */
static void announce(const struct header *header)
{
	CHECK(cuMemcpyHtoDAsync(exporter.memory, header, sizeof *header, exporter.stream));
	CHECK(cuStreamWriteValue32(exporter.stream, exporter.memory + THERE, header->turn, 0));
}

/* One turn; false: the importer is gone. */
static bool hand_over(unsigned turn)
{
	struct header header = {.seed = draw(), .bytes = draw_bytes(), .kind = draw() % 2, .turn = turn};
	CUstream stream = exporter.stream;
	CUdeviceptr data = exporter.memory + DATA;

	if (header.kind == IN_BLOCK) {
		CHECK(cuMemAllocFromPoolAsync(&data, header.bytes, exporter.pool, stream));
		CHECK(cuMemPoolExportPointer((CUmemPoolPtrExportData *)(void *)header.block, data));
	}
	fill(header.seed, header.bytes);
	CHECK(cuMemcpyHtoDAsync(data, expected, header.bytes, stream));
	announce(&header);
	CHECK(cuStreamWaitValue32(stream, exporter.memory + BACK, turn, CU_STREAM_WAIT_VALUE_GEQ));
	CHECK(cuMemcpyDtoHAsync(found, data, header.bytes, stream));
	if (header.kind == IN_BLOCK)
		CHECK(cuMemFreeAsync(data, stream));
	CHECK(cuStreamSynchronize(stream));
	if (atomic_load(word(BACK)) == ABANDONED)
		return false;
	check(found, header.seed + 1, header.bytes, turn);
	return true;
}

/* Until no block is in use or waits for an importer. */
static void await_blocks(unsigned turn)
{
	uint64_t deadline_ns = now_ns() + RETURN_MS_MAX * UINT64_C(1000000);
	cenote_pool_statistics statistics;

	for (;;) {
		CHECK(cenote_pool_stats(exporter.pool, &statistics, sizeof statistics));
		if (!statistics.deferred_block_count && !statistics.live_block_count && !statistics.used_bytes)
			return;
		if (now_ns() > deadline_ns)
			fail("blocks have not come back to the pool", turn);
		sched_yield();
	}
}

static void serve(unsigned count)
{
	unsigned turn = 0;
	bool there = true;

	while (there && !exporter.stops && (!count || turn < count)) {
		there = hand_over(turn + 1);
		turn += there;
		if (there)
			say_progress(turn);
	}
	if (there) {
		announce(&(struct header){.kind = STOP, .turn = turn + 1});
		CHECK(cuStreamWaitValue32(exporter.stream, exporter.memory + BACK, turn + 1, CU_STREAM_WAIT_VALUE_GEQ));
		CHECK(cuStreamSynchronize(exporter.stream));
	}
	await_blocks(turn);
	say(there ? "ended" : "abandoned", turn);
}

static void export(void)
{
	CUmemFabricHandle memory_name, pool_name;
	pthread_t reader;

	exporter.memory = map_memory(make_memory(MEMORY_BYTES, &memory_name), MEMORY_BYTES);
	exporter.pool = make_pool(&pool_name);
	CHECK(cuStreamCreate(&exporter.stream, CU_STREAM_NON_BLOCKING));
	print_name(&memory_name);
	putchar(' ');
	print_name(&pool_name);
	putchar('\n');
	fflush(stdout);
	sem_init(&exporter.orders, 0, 0);
	if (pthread_create(&reader, NULL, read_orders, NULL))
		fail("no thread", 0);
	for (;;) {
		while (sem_wait(&exporter.orders))
			;
		if (exporter.ends)
			return;
		exporter.stops = false;
		atomic_store(word(THERE), 0);
		atomic_store(word(BACK), 0);
		say("serving", exporter.count);
		serve(exporter.count);
	}
}

/* ---- The importer ---- */

/* Give up with what a call says; `lost` if the other node is gone. */
#define TRY(call)                                                                                    \
	do {                                                                                         \
		CUresult try_result = (call);                                                        \
		if (try_result == CUDA_ERROR_EXTERNAL_DEVICE)                                        \
			return false;                                                                \
		if (try_result) {                                                                    \
			printf("failed: %s: %d, %s\n", #call, (int)try_result, cenote_last_error()); \
			fflush(stdout);                                                              \
			_exit(1);                                                                    \
		}                                                                                    \
	} while (0)

struct importer {
	CUdeviceptr far, near, block; /* the exporter's memory, ours, and a block that is held; 0: none */
	CUmemoryPool pool;
	CUstream stream;
	unsigned turn; /* that has ended */
	bool stops;
};

/* Copy the data, check it, and write other data in its place. */
static bool answer(struct importer *importer, const struct header *header, CUdeviceptr data)
{
	CUstream stream = importer->stream;
	size_t bytes = header->bytes;

	if (bytes > DATA_BYTES_MAX)
		fail("a header that makes no sense", header->turn);
	if (draw() % 2) { /* lent to the daemon, if it is not small */
		TRY(cuMemcpyDtoDAsync(importer->near, data, bytes, stream));
		TRY(cuMemcpyDtoHAsync(found, importer->near, bytes, stream));
	} else {
		TRY(cuMemcpyDtoHAsync(found, data, bytes, stream));
	}
	TRY(cuStreamSynchronize(stream));
	check(found, header->seed, bytes, header->turn);
	fill(header->seed + 1, bytes);
	if (draw() % 2) {
		TRY(cuMemcpyHtoDAsync(importer->near, expected, bytes, stream));
		TRY(cuMemcpyDtoDAsync(data, importer->near, bytes, stream));
	} else {
		TRY(cuMemcpyHtoDAsync(data, expected, bytes, stream));
	}
	return true;
}

/* An import says NOT_SUPPORTED where an operation of a stream says EXTERNAL_DEVICE. */
static bool import_block(struct importer *importer, struct header *header)
{
	void *data = header->block;
	CUresult result = cuMemPoolImportPointer(&importer->block, importer->pool, data);

	if (result)
		importer->block = 0;
	TRY(result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_EXTERNAL_DEVICE : result);
	return true;
}

/* One turn; false: the other node is gone. */
static bool take_turn(struct importer *importer)
{
	unsigned turn = importer->turn + 1;
	CUstream stream = importer->stream;
	bool late = draw() % 2; /* release the block behind the answer: its exporter frees it before */
	struct header header;

	TRY(cuStreamWaitValue32(stream, importer->far + THERE, turn, CU_STREAM_WAIT_VALUE_GEQ));
	TRY(cuMemcpyDtoHAsync(&header, importer->far, sizeof header, stream));
	TRY(cuStreamSynchronize(stream));
	if (header.turn != turn)
		fail("the header of another turn", turn);
	importer->stops = header.kind == STOP;
	if (header.kind == IN_BLOCK && !import_block(importer, &header))
		return false;
	if (!importer->stops && !answer(importer, &header, importer->block ? importer->block : importer->far + DATA))
		return false;
	CUdeviceptr block = importer->block;
	if (block && !late) {
		importer->block = 0;
		TRY(cuMemFreeAsync(block, stream));
	}
	TRY(cuStreamWriteValue32(stream, importer->far + BACK, turn, 0));
	if (block && late) {
		importer->block = 0;
		TRY(cuMemFreeAsync(block, stream));
	}
	TRY(cuStreamSynchronize(stream));
	importer->turn = turn;
	return true;
}

/* What is lost can still be released. */
static void take(CUmemFabricHandle *memory_name, CUmemFabricHandle *pool_name)
{
	CUmemGenericAllocationHandle memory;
	struct importer importer = {.turn = 0};
	bool there = true;

	CHECK(cuMemImportFromShareableHandle(&memory, memory_name, FABRIC));
	CHECK(cuMemPoolImportFromShareableHandle(&importer.pool, pool_name, FABRIC, 0));
	importer.far = map_memory(memory, MEMORY_BYTES);
	CHECK(cuMemAlloc(&importer.near, DATA_BYTES_MAX));
	CHECK(cuStreamCreate(&importer.stream, CU_STREAM_NON_BLOCKING));
	while (there && !importer.stops) {
		there = take_turn(&importer);
		if (there)
			say_progress(importer.turn);
	}
	CHECK(cuStreamDestroy(importer.stream)); /* one that has failed is good for nothing else */
	CHECK(cuStreamCreate(&importer.stream, CU_STREAM_NON_BLOCKING));
	if (importer.block)
		CHECK(cuMemFreeAsync(importer.block, importer.stream));
	CHECK(cuStreamSynchronize(importer.stream));
	CHECK(cuStreamDestroy(importer.stream));
	CHECK(cuMemFree(importer.near));
	CHECK(cuMemPoolDestroy(importer.pool));
	unmap_memory(importer.far, MEMORY_BYTES);
	CHECK(cuMemRelease(memory));
	say(there ? "ended" : "lost", there ? importer.turn - 1 : importer.turn);
}

static void flip(const CUmemFabricHandle *memory_name, const CUmemFabricHandle *pool_name)
{
	unsigned refused = 0;

	for (int bit = 0; bit < 8 * NAME_BYTES; bit++) {
		CUmemFabricHandle names[2] = {*memory_name, *pool_name};
		CUmemGenericAllocationHandle memory;
		CUmemoryPool pool;
		for (int i = 0; i < 2; i++)
			names[i].data[bit / 8] ^= (unsigned char)(1 << bit % 8);
		bool opened = !cuMemImportFromShareableHandle(&memory, &names[0], FABRIC);
		bool joined = !cuMemPoolImportFromShareableHandle(&pool, &names[1], FABRIC, 0);
		if (opened || joined)
			printf("bit %d of a name of %s was changed, and it opens\n", bit, opened ? "memory" : "a pool");
		refused += !opened + !joined;
	}
	say("refused", refused);
}

static void import(void)
{
	char line[LINE_BYTES], *names;
	CUmemFabricHandle memory_name, pool_name;

	while (read_line(line)) {
		names = strchr(line, ' ');
		if (!names || strlen(names) < 4 * NAME_BYTES + 2)
			fail("a line that was not understood", 0);
		read_name(names + 1, &memory_name);
		read_name(names + 1 + 2 * NAME_BYTES + 1, &pool_name);
		if (!strncmp(line, "take ", 5))
			take(&memory_name, &pool_name);
		else
			flip(&memory_name, &pool_name);
	}
}

int main(int argument_count, char **arguments)
{
	if (argument_count != 3)
		return 2;
	state = strtoull(arguments[2], NULL, 10) * 0x9e3779b97f4a7c15 | 1;
	expected = malloc(DATA_BYTES_MAX + 8);
	found = malloc(DATA_BYTES_MAX + 8);
	if (!expected || !found)
		return 1;
	memset(expected, 1, DATA_BYTES_MAX + 8); /* what the program takes is watched: not more with each turn */
	memset(found, 1, DATA_BYTES_MAX + 8);
	start_cuda();
	if (!strcmp(arguments[1], "export"))
		export();
	else
		import();
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Pools on a GPU: the driver's beside Cenote's, in one run.
 *
 *     bench-gpu_pool [--cenote COMMAND] [--rounds N] [--json FILE] [--variant NAME]...
 *
 * This program executes itself once for each variant, over the driver alone (`driver`), under `cenote run` (`cenote`)
 * and under `cenote run` with CENOTE_POOLS=driver (`passed`: the cost of having Cenote in front of the driver's own
 * pools). The pools are compared with what programs used before them: cuMemAlloc, and legacy handles, which are the
 * driver's in all variants. The variants take turns, a measurement of one after the same measurement of the other, on
 * the same core; each has a second process that imports. The table has the medians of the rounds, and the driver's as a
 * multiple of Cenote's.
 *
 * What is measured is the time to issue a call, on the calling thread. Stream-ordered calls return before the stream
 * has done them; each measurement is followed, outside of its time, by a synchronisation. Only a synchronisation asks a
 * pool to give memory back, and all pools here keep theirs, except where a row says otherwise. Each measurement has a
 * pool of its own, so that none finds what another has left.
 */
#include "draws.h"
#include "gpu.h"

enum {
	ROUNDS_DEFAULT = 31,
	ROUNDS_MAX = 1001,
	BURST = 1000,
	BATCH = 100,
	POINTERS = 1000,
	POINTER_BYTES = 4096,
	POOL_IMPORTS = 8,
	PART_NS = 2000000,  /* what a measurement should take at least */
	COUNT_MAX = 200000, /* and how often it is repeated at most */
	PENDING_MAX = 500,  /* operations on a stream: beyond some thousand the driver makes the caller wait */
};

/* ---- What is measured ---------------------------------------------------------------------------------------------*/

struct row {
	const char *name;
	double goal; /* how many times faster than the driver; 0: none is set */
};

struct part {
	/* Do it `count` times, and say how many nanoseconds each took: one number a row. */
	void (*measure)(unsigned long count, size_t bytes, double *ret_ns);
	size_t bytes;
	unsigned long count_max; /* 1: it has a count of its own */
	unsigned row_count;
	struct row rows[4];
};

static CUstream stream, other_stream;
static CUevent there, back;
static CUmemoryPool shared_pool, imported_pool;
static CUmemoryPool current_pool; /* the device's, of which cuMemAllocAsync allocates; each part has one of its own */
static int importer_sock;

static double each_ns(uint64_t before_ns, unsigned long count)
{
	return (double)(bench_now_ns() - before_ns) / (double)count;
}

static void measure_pair(unsigned long count, size_t bytes, double *ret_ns)
{
	CUdeviceptr block;
	uint64_t before_ns = bench_now_ns();

	for (unsigned long i = 0; i < count; i++) {
		CU(cuMemAllocAsync(&block, bytes, stream));
		CU(cuMemFreeAsync(block, stream));
	}
	ret_ns[0] = each_ns(before_ns, count);
}

static void measure_plain(unsigned long count, size_t bytes, double *ret_ns)
{
	CUdeviceptr block;
	uint64_t before_ns = bench_now_ns();

	for (unsigned long i = 0; i < count; i++) {
		CU(cuMemAlloc(&block, bytes));
		CU(cuMemFree(block));
	}
	ret_ns[0] = each_ns(before_ns, count);
}

static void measure_burst(unsigned long count, size_t bytes, double *ret_ns)
{
	static CUdeviceptr blocks[BURST];
	uint64_t before_ns = bench_now_ns();

	for (unsigned long i = 0; i < count; i++) {
		for (unsigned j = 0; j < BURST; j++)
			CU(cuMemAllocAsync(&blocks[j], bytes, stream));
		for (unsigned j = 0; j < BURST; j++)
			CU(cuMemFreeAsync(blocks[j], stream));
	}
	ret_ns[0] = each_ns(before_ns, count * BURST);
}

static struct churn steps[CHURN_STEPS];

/* Fills an empty slot, and empties a full one: each is one operation. Continues where it stopped. */
static void measure_churn(unsigned long count, size_t bytes, double *ret_ns)
{
	static CUdeviceptr slots[CHURN_SLOTS];
	static unsigned at;
	uint64_t before_ns = bench_now_ns();

	(void)bytes;
	for (unsigned long i = 0; i < count; i++, at++) {
		CUdeviceptr *slot = &slots[steps[at % CHURN_STEPS].slot];
		if (*slot) {
			CU(cuMemFreeAsync(*slot, stream));
			*slot = 0;
		} else {
			CU(cuMemAllocAsync(slot, steps[at % CHURN_STEPS].bytes, stream));
		}
	}
	ret_ns[0] = each_ns(before_ns, count);
}

/* With work between the two: the memory is in use when it is freed. */
static void measure_used(unsigned long count, size_t bytes, double *ret_ns)
{
	CUdeviceptr block;
	uint64_t before_ns = bench_now_ns();

	for (unsigned long i = 0; i < count; i++) {
		CU(cuMemAllocAsync(&block, bytes, stream));
		CU(cuMemsetD32Async(block, 1, 1, stream));
		CU(cuMemFreeAsync(block, stream));
	}
	ret_ns[0] = each_ns(before_ns, count);
}

static void pass_on(CUevent event, CUstream from, CUstream to)
{
	CU(cuEventRecord(event, from));
	CU(cuStreamWaitEvent(to, event, 0));
}

static void measure_events(unsigned long count, size_t bytes, double *ret_ns)
{
	uint64_t before_ns = bench_now_ns();

	(void)bytes;
	for (unsigned long i = 0; i < count; i++) {
		pass_on(there, stream, other_stream);
		pass_on(back, other_stream, stream);
	}
	ret_ns[0] = each_ns(before_ns, count);
}

/* Allocated in one stream and freed in another, which waits for it by an event; and the other way round. */
static void measure_other_stream(unsigned long count, size_t bytes, double *ret_ns)
{
	CUdeviceptr block;
	uint64_t before_ns = bench_now_ns();

	for (unsigned long i = 0; i < count; i++) {
		CU(cuMemAllocAsync(&block, bytes, stream));
		pass_on(there, stream, other_stream);
		CU(cuMemFreeAsync(block, other_stream));
		pass_on(back, other_stream, stream);
	}
	ret_ns[0] = each_ns(before_ns, count);
}

static void measure_other_stream_batch(unsigned long count, size_t bytes, double *ret_ns)
{
	static CUdeviceptr blocks[BATCH];
	uint64_t before_ns = bench_now_ns();

	for (unsigned long i = 0; i < count; i++) {
		for (unsigned j = 0; j < BATCH; j++)
			CU(cuMemAllocAsync(&blocks[j], bytes, stream));
		pass_on(there, stream, other_stream);
		for (unsigned j = 0; j < BATCH; j++)
			CU(cuMemFreeAsync(blocks[j], other_stream));
		pass_on(back, other_stream, stream);
	}
	ret_ns[0] = each_ns(before_ns, count * BATCH);
}

/* As a program that does not know thresholds: each synchronisation gives all memory back. */
static void measure_given_back(unsigned long count, size_t bytes, double *ret_ns)
{
	cuuint64_t nothing = 0;
	CUdeviceptr block;

	CU(cuMemPoolSetAttribute(current_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &nothing));
	CU(cuStreamSynchronize(stream));
	uint64_t before_ns = bench_now_ns();
	for (unsigned long i = 0; i < count; i++) {
		CU(cuMemAllocAsync(&block, bytes, stream));
		CU(cuMemFreeAsync(block, stream));
		CU(cuStreamSynchronize(stream));
	}
	ret_ns[0] = each_ns(before_ns, count);
}

/* ---- With the importer --------------------------------------------------------------------------------------------*/

static CUmemPoolPtrExportData names[POINTERS];
static CUdeviceptr blocks[POINTERS];

enum { IMPORT, FREE_IMPORTED, POINTER_TIMES };

static void check_word(CUdeviceptr block, unsigned wanted)
{
	unsigned found;

	CU(cuMemcpyDtoH(&found, block, sizeof found));
	BENCH_MUST(found != wanted);
}

static void measure_pointers(unsigned long count, size_t bytes, double *ret_ns)
{
	double times[POINTER_TIMES];

	(void)count;
	for (unsigned i = 0; i < POINTERS; i++) {
		CU(cuMemAllocFromPoolAsync(&blocks[i], bytes, shared_pool, stream));
		CU(cuMemsetD32Async(blocks[i], i, 1, stream));
	}
	CU(cuStreamSynchronize(stream));
	uint64_t before_ns = bench_now_ns();
	for (unsigned i = 0; i < POINTERS; i++)
		CU(cuMemPoolExportPointer(&names[i], blocks[i]));
	ret_ns[0] = each_ns(before_ns, POINTERS);
	gpu_tell(importer_sock, 'p');
	gpu_put(importer_sock, names, sizeof names);
	gpu_get(importer_sock, times, sizeof times);
	ret_ns[1] = times[IMPORT];
	ret_ns[2] = times[FREE_IMPORTED];
	before_ns = bench_now_ns();
	for (unsigned i = 0; i < POINTERS; i++)
		CU(cuMemFreeAsync(blocks[i], stream));
	ret_ns[3] = each_ns(before_ns, POINTERS);
}

static void import_pointers(int sock)
{
	double times[POINTER_TIMES];

	gpu_get(sock, names, sizeof names);
	uint64_t before_ns = bench_now_ns();
	for (unsigned i = 0; i < POINTERS; i++)
		CU(cuMemPoolImportPointer(&blocks[i], imported_pool, &names[i]));
	times[IMPORT] = each_ns(before_ns, POINTERS);
	for (unsigned i = 0; i < POINTERS; i++)
		check_word(blocks[i], i);
	before_ns = bench_now_ns();
	for (unsigned i = 0; i < POINTERS; i++)
		CU(cuMemFreeAsync(blocks[i], stream));
	times[FREE_IMPORTED] = each_ns(before_ns, POINTERS);
	CU(cuStreamSynchronize(stream));
	gpu_put(sock, times, sizeof times);
}

enum { IMPORT_POOL, IMPORT_FIRST, IMPORT_BOTH, DESTROY_POOL, POOL_TIMES };

/* A pool with one block in it, which the importer imports and destroys some times. */
static void measure_pools(unsigned long count, size_t bytes, double *ret_ns)
{
	CUmemoryPool pool = gpu_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	int descriptor = gpu_export(pool);

	(void)count;
	CU(cuMemAllocFromPoolAsync(&blocks[0], bytes, pool, stream));
	CU(cuMemsetD32Async(blocks[0], POOL_IMPORTS, 1, stream));
	CU(cuStreamSynchronize(stream));
	CU(cuMemPoolExportPointer(&names[0], blocks[0]));
	gpu_tell(importer_sock, 'i');
	gpu_send_descriptor(importer_sock, descriptor);
	gpu_put(importer_sock, names, sizeof *names);
	gpu_get(importer_sock, ret_ns, POOL_TIMES * sizeof *ret_ns);
	CU(cuMemFreeAsync(blocks[0], stream));
	CU(cuStreamSynchronize(stream));
	CU(cuMemPoolDestroy(pool));
	close(descriptor);
}

static void import_pools(int sock)
{
	double times[POOL_TIMES] = {0};
	int descriptor = gpu_receive_descriptor(sock);
	CUdeviceptr block;

	gpu_get(sock, names, sizeof *names);
	for (unsigned i = 0; i < POOL_IMPORTS; i++) {
		uint64_t start_ns = bench_now_ns();
		CUmemoryPool pool = gpu_import(descriptor);
		uint64_t imported_ns = bench_now_ns();
		CU(cuMemPoolImportPointer(&block, pool, &names[0]));
		uint64_t first_ns = bench_now_ns();
		check_word(block, POOL_IMPORTS);
		CU(cuMemFreeAsync(block, stream));
		CU(cuStreamSynchronize(stream));
		uint64_t freed_ns = bench_now_ns();
		CU(cuMemPoolDestroy(pool));
		times[IMPORT_POOL] += (double)(imported_ns - start_ns) / POOL_IMPORTS;
		times[IMPORT_FIRST] += (double)(first_ns - imported_ns) / POOL_IMPORTS;
		times[IMPORT_BOTH] += (double)(first_ns - start_ns) / POOL_IMPORTS;
		times[DESTROY_POOL] += (double)(bench_now_ns() - freed_ns) / POOL_IMPORTS;
	}
	close(descriptor);
	gpu_put(sock, times, sizeof times);
}

enum { GET_HANDLE, OPEN_HANDLE, CLOSE_HANDLE, HANDLE_TIMES };

/* Memory of cuMemAlloc, which the importer opens and closes some times; the handle is asked for as often. */
static void measure_handles(unsigned long count, size_t bytes, double *ret_ns)
{
	CUipcMemHandle handle;
	CUdeviceptr block;

	(void)count;
	CU(cuMemAlloc(&block, bytes));
	CU(cuMemsetD32Async(block, POOL_IMPORTS, 1, stream));
	CU(cuStreamSynchronize(stream));
	uint64_t before_ns = bench_now_ns();
	for (unsigned i = 0; i < POOL_IMPORTS; i++)
		CU(cuIpcGetMemHandle(&handle, block));
	double get_ns = each_ns(before_ns, POOL_IMPORTS);
	gpu_tell(importer_sock, 'h');
	gpu_put(importer_sock, &handle, sizeof handle);
	gpu_get(importer_sock, ret_ns, HANDLE_TIMES * sizeof *ret_ns);
	ret_ns[GET_HANDLE] = get_ns;
	CU(cuMemFree(block));
}

static void open_handles(int sock)
{
	double times[HANDLE_TIMES] = {0};
	CUipcMemHandle handle;
	CUdeviceptr block;

	gpu_get(sock, &handle, sizeof handle);
	for (unsigned i = 0; i < POOL_IMPORTS; i++) {
		uint64_t start_ns = bench_now_ns();
		CU(cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
		uint64_t opened_ns = bench_now_ns();
		check_word(block, POOL_IMPORTS);
		uint64_t checked_ns = bench_now_ns();
		CU(cuIpcCloseMemHandle(block));
		times[OPEN_HANDLE] += (double)(opened_ns - start_ns) / POOL_IMPORTS;
		times[CLOSE_HANDLE] += (double)(bench_now_ns() - checked_ns) / POOL_IMPORTS;
	}
	gpu_put(sock, times, sizeof times);
}

static const struct part parts[] = {
	{measure_pair, 4 << 10, COUNT_MAX, 1, {{"pair, 4 KiB", 10}}},
	{measure_pair, 1 << 20, COUNT_MAX, 1, {{"pair, 1 MiB", 10}}},
	{measure_pair, 64 << 20, COUNT_MAX, 1, {{"pair, 64 MiB", 10}}},
	{measure_burst, 4 << 10, COUNT_MAX / BURST, 1, {{"burst of 1,000, then freed, 4 KiB", 10}}},
	{measure_burst, 64 << 10, COUNT_MAX / BURST, 1, {{"burst of 1,000, then freed, 64 KiB", 10}}},
	{measure_churn, 0, COUNT_MAX, 1, {{"churn, 256 B to 512 KiB", 10}}},
	{measure_used, 4 << 10, PENDING_MAX, 1, {{"pair with a memset between", 0}}},
	{measure_events, 0, PENDING_MAX, 1, {{"two event records, two waits", 0}}},
	{measure_other_stream, 4 << 10, PENDING_MAX, 1, {{"freed in another stream, with these", 0}}},
	{measure_other_stream_batch, 4 << 10, PENDING_MAX, 1, {{"the same, 100 at a time", 0}}},
	{measure_given_back, 1 << 20, PENDING_MAX, 1, {{"pair and synchronise, threshold 0", 0}}},
	{measure_pointers,
	 POINTER_BYTES,
	 1,
	 4,
	 {{"export pointer", 10}, {"import pointer", 10}, {"imported free", 2}, {"free of what was exported", 0}}},
	{measure_pools,
	 POINTER_BYTES,
	 1,
	 POOL_TIMES,
	 {{"import pool", 2}, {"import its first pointer", 0}, {"both", 0}, {"destroy the imported pool", 0}}},
	{measure_plain, 4 << 10, COUNT_MAX, 1, {{"cuMemAlloc, cuMemFree, 4 KiB", 0}}},
	{measure_plain, 1 << 20, COUNT_MAX, 1, {{"cuMemAlloc, cuMemFree, 1 MiB", 0}}},
	{measure_plain, 64 << 20, COUNT_MAX, 1, {{"cuMemAlloc, cuMemFree, 64 MiB", 0}}},
	{measure_handles,
	 2 << 20,
	 1,
	 HANDLE_TIMES,
	 {{"get a legacy handle", 0}, {"open a legacy handle", 0}, {"close a legacy handle", 0}}},
};
enum { PART_COUNT = sizeof parts / sizeof *parts, ROW_COUNT = PART_COUNT + 3 + 3 + 2 };

/* ---- A variant: the process that measures, and its importer -------------------------------------------------------*/

struct introduction {
	char device[64], owner[32], library[256];
	int version;
};

/* Pin only our own thread: the library's threads have started already, and run anywhere. */
static void pin(unsigned wanted)
{
	cpu_set_t allowed, one;
	unsigned found = 0;

	BENCH_MUST(sched_getaffinity(0, sizeof allowed, &allowed));
	wanted %= (unsigned)CPU_COUNT(&allowed);
	CPU_ZERO(&one);
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && found++ == wanted)
			CPU_SET(cpu, &one);
	BENCH_MUST(sched_setaffinity(0, sizeof one, &one));
}

static int run_importer(int sock)
{
	char word;

	gpu_start();
	stream = gpu_stream();
	imported_pool = gpu_import(gpu_receive_descriptor(sock));
	while (gpu_get_or_end(sock, &word, 1)) {
		if (word == 'p')
			import_pointers(sock);
		else if (word == 'i')
			import_pools(sock);
		else if (word == 'h')
			open_handles(sock);
		else
			pin(3);
	}
	return 0;
}

static struct introduction introduce(void)
{
	struct introduction introduction = {.version = 0};
	CUmemoryPool pool;
	Dl_info where;

	CU(cuDriverGetVersion(&introduction.version));
	CU(cuDeviceGetName(introduction.device, sizeof introduction.device, 0));
	CU(cuDeviceGetDefaultMemPool(&pool, 0));
	snprintf(introduction.owner, sizeof introduction.owner, "%s", gpu_owner(pool));
	if (dladdr(*(void **)&gpu.cuInit, &where) && where.dli_fname)
		snprintf(introduction.library, sizeof introduction.library, "%s", where.dli_fname);
	return introduction;
}

static uint64_t measure_once(const struct part *part, unsigned long count, double *ret_ns)
{
	uint64_t before_ns = bench_now_ns();

	part->measure(count, part->bytes, ret_ns);
	uint64_t took_ns = bench_now_ns() - before_ns;
	CU(cuStreamSynchronize(stream));
	CU(cuStreamSynchronize(other_stream));
	return took_ns;
}

/* Asked for a part's number, answer with a time for each of its rows. The first time finds out how often to repeat. */
static void answer(int sock, unsigned char number, CUmemoryPool *pool, unsigned long *count)
{
	const struct part *part = &parts[number];
	double times[4] = {0};

	if (!*pool)
		*pool = gpu_pool(CU_MEM_HANDLE_TYPE_NONE);
	current_pool = *pool;
	CU(cuDeviceSetMemPool(0, current_pool));
	if (!*count) {
		*count = 1;
		measure_once(part, *count, times); /* a library's first time is not like the others */
		while (measure_once(part, *count, times) < PART_NS && *count * 2 <= part->count_max)
			*count *= 2;
	}
	measure_once(part, *count, times);
	gpu_put(sock, times, part->row_count * sizeof *times);
}

static int run_worker(int sock)
{
	static char importer[] = "importer";
	CUmemoryPool pools[PART_COUNT] = {NULL};
	unsigned long counts[PART_COUNT] = {0};
	unsigned char number;
	pid_t child = gpu_execute(NULL, importer, NULL, &importer_sock);

	gpu_start();
	draw_churn(steps);
	stream = gpu_stream();
	other_stream = gpu_stream();
	CU(cuEventCreate(&there, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
	shared_pool = gpu_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	int descriptor = gpu_export(shared_pool);
	gpu_send_descriptor(importer_sock, descriptor);
	close(descriptor);
	struct introduction introduction = introduce();
	gpu_put(sock, &introduction, sizeof introduction);
	while (gpu_get_or_end(sock, &number, sizeof number)) {
		if (number < PART_COUNT) {
			answer(sock, number, &pools[number], &counts[number]);
		} else {
			pin(2);
			gpu_tell(importer_sock, 'c');
		}
	}
	close(importer_sock);
	gpu_await(child);
	return 0;
}

/* ---- The process that asks ----------------------------------------------------------------------------------------*/

static const struct {
	const char *name, *pools; /* CENOTE_POOLS; NULL: not set */
	bool in_front;
} variants[] = {{"driver", NULL, false}, {"cenote", NULL, true}, {"passed", "driver", true}};
enum { VARIANT_COUNT = sizeof variants / sizeof *variants, DRIVER = 0, CENOTE = 1 };

struct options {
	char command[PATH_MAX]; /* bin/cenote */
	const char *json;
	unsigned rounds;
	bool chosen[VARIANT_COUNT];
};

struct worker {
	pid_t process;
	int sock;
	struct introduction introduction;
	double times[ROW_COUNT][ROUNDS_MAX];
	struct bench_result results[ROW_COUNT];
};

static struct worker workers[VARIANT_COUNT];

static void start_worker(struct options *options, unsigned variant)
{
	static char role[] = "worker";
	struct worker *worker = &workers[variant];

	if (variants[variant].pools)
		setenv("CENOTE_POOLS", variants[variant].pools, 1);
	else
		unsetenv("CENOTE_POOLS");
	worker->process = gpu_execute(variants[variant].in_front ? options->command : NULL, role, NULL, &worker->sock);
	gpu_get(worker->sock, &worker->introduction, sizeof worker->introduction);
	printf("%-8s pools are %s; CUDA %d.%d, %s, through %s\n", variants[variant].name, worker->introduction.owner,
	       worker->introduction.version / 1000, worker->introduction.version % 1000 / 10,
	       worker->introduction.device, worker->introduction.library);
	fflush(stdout);
}

/* One measurement of each variant, in turn; a different one begins each time. */
static void ask_all(const struct options *options, unsigned char number, unsigned first_row, unsigned round)
{
	for (unsigned i = 0; i < VARIANT_COUNT; i++) {
		unsigned variant = (i + round) % VARIANT_COUNT;
		struct worker *worker = &workers[variant];
		double times[4];
		if (!options->chosen[variant])
			continue;
		gpu_put(worker->sock, &number, sizeof number);
		gpu_get(worker->sock, times, parts[number].row_count * sizeof *times);
		for (unsigned j = 0; j < parts[number].row_count; j++)
			worker->times[first_row + j][round] = times[j];
	}
}

static void ask_round(const struct options *options, unsigned round)
{
	unsigned row = 0;

	for (unsigned number = 0; number < PART_COUNT; number++) {
		ask_all(options, (unsigned char)number, row, round);
		row += parts[number].row_count;
	}
}

static void measure(const struct options *options)
{
	const unsigned char settle = PART_COUNT;

	ask_round(options, 0); /* to warm up; the next ones overwrite it */
	for (unsigned i = 0; i < VARIANT_COUNT; i++)
		if (options->chosen[i])
			gpu_put(workers[i].sock, &settle, sizeof settle);
	for (unsigned round = 0; round < options->rounds; round++)
		ask_round(options, round);
	for (unsigned i = 0; i < VARIANT_COUNT; i++) {
		if (!options->chosen[i])
			continue;
		close(workers[i].sock);
		gpu_await(workers[i].process);
		for (unsigned row = 0; row < ROW_COUNT; row++) {
			double *each = workers[i].times[row];
			qsort(each, options->rounds, sizeof *each, bench_compare);
			workers[i].results[row] = (struct bench_result){each[options->rounds / 2], each[0]};
		}
	}
}

/* How many times faster than the driver; 0 if only one of them was measured. */
static double ratio_of(const struct options *options, unsigned row)
{
	if (!options->chosen[DRIVER] || !options->chosen[CENOTE])
		return 0;
	return workers[DRIVER].results[row].median_ns / workers[CENOTE].results[row].median_ns;
}

static void print_row(const struct options *options, const struct row *row, unsigned at)
{
	double ratio = ratio_of(options, at);

	printf("%-38s", row->name);
	for (unsigned i = 0; i < VARIANT_COUNT; i++)
		if (options->chosen[i])
			printf(" %12.1f", workers[i].results[at].median_ns);
	if (ratio > 0)
		printf(" %10.2f", ratio);
	if (ratio > 0 && row->goal > 0)
		printf("   goal %.0f: %s", row->goal, ratio >= row->goal ? "met" : "MISSED");
	printf("\n");
}

static void print_table(const struct options *options)
{
	printf("\n%-38s", "ns to issue, median of the rounds");
	for (unsigned i = 0; i < VARIANT_COUNT; i++)
		if (options->chosen[i])
			printf(" %12s", variants[i].name);
	printf(" %10s\n", options->chosen[DRIVER] && options->chosen[CENOTE] ? "driver/cen" : "");
	for (unsigned number = 0, at = 0; number < PART_COUNT; number++)
		for (unsigned i = 0; i < parts[number].row_count; i++)
			print_row(options, &parts[number].rows[i], at++);
}

static void write_row(FILE *file, const struct options *options, const struct row *row, unsigned at)
{
	double ratio = ratio_of(options, at);

	fprintf(file, "%s\n    {\"name\": \"%s\"", at ? "," : "", row->name);
	for (unsigned i = 0; i < VARIANT_COUNT; i++)
		if (options->chosen[i])
			fprintf(file, ", \"%s\": {\"median_ns\": %.1f, \"minimum_ns\": %.1f}", variants[i].name,
				workers[i].results[at].median_ns, workers[i].results[at].minimum_ns);
	if (ratio > 0)
		fprintf(file, ", \"ratio\": %.3f", ratio);
	if (row->goal > 0)
		fprintf(file, ", \"goal\": %.0f", row->goal);
	fprintf(file, "}");
}

static void write_json(const struct options *options)
{
	const struct introduction *first = NULL;
	FILE *file = fopen(options->json, "w");

	if (!file) {
		perror(options->json);
		exit(1);
	}
	for (unsigned i = VARIANT_COUNT; i--;)
		if (options->chosen[i])
			first = &workers[i].introduction;
	fprintf(file, "{\"what\": \"nanoseconds to issue a call\", \"device\": \"%s\", \"cuda\": %d, \"rounds\": %u,\n",
		first->device, first->version, options->rounds);
	fprintf(file, "  \"rows\": [");
	for (unsigned number = 0, at = 0; number < PART_COUNT; number++)
		for (unsigned i = 0; i < parts[number].row_count; i++)
			write_row(file, options, &parts[number].rows[i], at++);
	fprintf(file, "\n  ]}\n");
	BENCH_MUST(fclose(file));
}

/* bin/cenote of the build that this program is of: bench/bench-gpu_pool and bin/cenote are beside each other. */
static void find_command(char command[PATH_MAX])
{
	char self[PATH_MAX] = "";

	BENCH_MUST(readlink("/proc/self/exe", self, sizeof self - 1) <= 0);
	for (unsigned i = 0; i < 2 && strrchr(self, '/'); i++)
		*strrchr(self, '/') = '\0';
	snprintf(command, PATH_MAX, "%.*s/bin/cenote", PATH_MAX - 20, self);
}

static void read_options(int argc, char **argv, struct options *options)
{
	bool some = false;

	find_command(options->command);
	options->rounds = ROUNDS_DEFAULT;
	for (int i = 1; i < argc; i += 2) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";
		unsigned variant = 0;
		while (variant < VARIANT_COUNT && strcmp(value, variants[variant].name) != 0)
			variant++;
		if (strcmp(argv[i], "--cenote") == 0 && *value) {
			snprintf(options->command, sizeof options->command, "%s", value);
		} else if (strcmp(argv[i], "--json") == 0 && *value) {
			options->json = value;
		} else if (strcmp(argv[i], "--rounds") == 0 && atoi(value) > 0 && atoi(value) <= ROUNDS_MAX) {
			options->rounds = (unsigned)atoi(value);
		} else if (strcmp(argv[i], "--variant") == 0 && variant < VARIANT_COUNT) {
			options->chosen[variant] = some = true;
		} else {
			fprintf(stderr,
				"usage: %s [--cenote COMMAND] [--rounds 1..%d] [--json FILE]"
				" [--variant driver|cenote|passed]...\n",
				argv[0], ROUNDS_MAX);
			exit(2);
		}
	}
	for (unsigned i = 0; i < VARIANT_COUNT && !some; i++)
		options->chosen[i] = true;
}

int main(int argc, char **argv)
{
	struct options options = {.json = NULL};
	int sock;

	if (gpu_has_role(argc, argv, "worker", &sock))
		return run_worker(sock);
	if (gpu_has_role(argc, argv, "importer", &sock))
		return run_importer(sock);
	read_options(argc, argv, &options);
	for (unsigned i = 0; i < VARIANT_COUNT; i++)
		if (options.chosen[i])
			start_worker(&options, i);
	measure(&options);
	print_table(&options);
	if (options.json)
		write_json(&options);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * The analysis of `cenote check`, fed with records that are written by hand: orders that real programs show too seldom,
 * and bounds. tests/check has whole programs.
 */
#include "harness.h"

#include "check.h"

#include <sys/stat.h>
#include <unistd.h>

enum { EXPORTER, IMPORTER, STREAM = 0x1000, OTHER = 0x2000, EVENT = 0x3000, HERE = 0x10000, THERE = 0x90000 };
enum { SIZE = 4096, HANDLE = 77, CONTEXT = 5 };

static struct {
	struct check *check;
	uint64_t now_ns, number;
	unsigned int found[CHECK_KINDS];
	unsigned int count;
} world;

static void count_finding(const struct check *check, const struct check_finding *finding, void *unused)
{
	char text[8192];

	(void)unused;
	check_sentence(check, finding, text, sizeof text);
	ASSERT_GT(strlen(text), 0);
	check_remedy(check, finding, text, sizeof text);
	world.found[finding->kind]++;
	world.count++;
}

static void begin(bool is_strict)
{
	const struct check_options options = {.is_strict = is_strict, .found = count_finding};

	memset(&world, 0, sizeof world);
	world.check = check_new(&options);
	for (int i = 0; i < 2; i++) {
		struct cn_trace_header header = {.pid = 100 + i};
		snprintf(header.command, sizeof header.command, "process-%d", i);
		ASSERT_EQ(i, check_process_begins(world.check, &header));
	}
}

static void end(void)
{
	for (int i = 0; i < world.check->process_count; i++)
		check_process_ends(world.check, i, CN_TRACE_EXECUTED);
	check_free(world.check);
}

/* ---- Calls ---- */

static uint64_t call_begins(int process, struct cn_trace_record record)
{
	record.begin_ns = ++world.now_ns;
	record.context = CONTEXT;
	record.thread = 100 + (uint32_t)process;
	check_call_begins(world.check, process, ++world.number, &record);
	return world.number;
}

static void call_ends(int process, uint64_t number, struct cn_trace_record record, const uint64_t *words, size_t count)
{
	record.end_ns = ++world.now_ns;
	record.begin_ns = record.begin_ns ? record.begin_ns : record.end_ns - 1;
	record.context = CONTEXT;
	record.thread = 100 + (uint32_t)process;
	check_call_ends(world.check, process, number, &record, words, count, NULL);
}

static uint64_t call_with(int process, struct cn_trace_record record, uint64_t word, uint64_t second)
{
	const uint64_t words[] = {word, second};
	uint64_t number = call_begins(process, record);

	call_ends(process, number, record, words, 2);
	return number;
}

static uint64_t call(int process, struct cn_trace_record record)
{
	return call_with(process, record, 1, 0);
}

#define CALL(name, ...) ((struct cn_trace_record){.call = CN_CALL_##name, __VA_ARGS__})

static void fill(int process, uint64_t stream, uint64_t address)
{
	call(process, CALL(cuMemsetD8Async, .stream = stream, .address = address, .bytes = SIZE));
}

static void synchronize(int process, uint64_t stream)
{
	call(process, CALL(cuStreamSynchronize, .stream = stream));
}

static void record_event(int process, uint64_t stream)
{
	call(process, CALL(cuEventRecord, .stream = stream, .event = EVENT));
}

static void wait_event(int process, uint64_t stream)
{
	call(process, CALL(cuStreamWaitEvent, .stream = stream, .event = EVENT));
}

/* A block and an event that both have; streams that do not wait for the default stream. */
static void share(bool is_strict)
{
	begin(is_strict);
	for (int process = 0; process < 2; process++) {
		call(process, CALL(cuStreamCreate, .stream = STREAM));
		call(process, CALL(cuStreamCreate, .stream = OTHER));
	}
	call(EXPORTER, CALL(cuMemAlloc, .address = HERE, .bytes = SIZE));
	call(EXPORTER, CALL(cuIpcGetMemHandle, .address = HERE, .handle = HANDLE));
	call(EXPORTER, CALL(cuEventCreate, .event = EVENT));
	call(EXPORTER, CALL(cuIpcGetEventHandle, .event = EVENT, .handle = HANDLE));
	call(IMPORTER, CALL(cuIpcOpenMemHandle, .address = THERE, .handle = HANDLE));
	call(IMPORTER, CALL(cuIpcOpenEventHandle, .event = EVENT, .handle = HANDLE));
	ASSERT_EQ(0, world.count);
}

/* A kernel on a block, which may write anywhere in it, and is watched. */
static uint64_t launch(int process, uint64_t stream, uint64_t address)
{
	uint64_t number = call_begins(process, CALL(cuLaunchKernel, .stream = stream));
	const uint64_t words[] = {address | (uint64_t)CN_TRACE_WRITES << CN_TRACE_USE_SHIFT};

	call_ends(process, number, CALL(cuLaunchKernel, .stream = stream, .flags = CN_TRACE_WATCHED), words, 1);
	return number;
}

/* It has written so many bytes, or as many as it wants: that was not all. */
static void kernel_ends(int process, uint64_t number, uint64_t address, uint64_t bytes, bool is_all)
{
	struct cn_trace_record record = {.of = number, .result = 3};

	record.words[0] = ++world.now_ns;
	record.words[1] = address | (uint64_t)CN_TRACE_WRITES << CN_TRACE_USE_SHIFT;
	record.words[2] = bytes;
	check_kernel_touches(world.check, process, &record);
	record.words[1] = is_all;
	check_kernel_ends(world.check, process, &record);
}

/* ---- Order ---- */

/* Goal: an event orders two processes; without it there is a finding, once. */
TEST(events_order_processes)
{
	share(false);
	fill(EXPORTER, STREAM, HERE);
	record_event(EXPORTER, STREAM);
	wait_event(IMPORTER, STREAM);
	fill(IMPORTER, STREAM, THERE);
	ASSERT_EQ(0, world.count);
	for (int i = 0; i < 3; i++)
		fill(IMPORTER, OTHER, THERE);
	ASSERT_EQ(1, world.found[CHECK_KIND_RACE]);
	ASSERT_EQ(1, world.count);
	end();
}

/* Goal: of kernels that are watched the bytes count that they have used, whenever that becomes known. */
TEST(watched_kernels_meet_or_not)
{
	share(false);
	uint64_t first = launch(EXPORTER, STREAM, HERE), second = launch(IMPORTER, STREAM, THERE + SIZE / 2);
	ASSERT_EQ(0, world.count);
	kernel_ends(IMPORTER, second, THERE + SIZE / 2, SIZE / 2, true);
	kernel_ends(EXPORTER, first, HERE, SIZE / 2, true);
	ASSERT_EQ(0, world.count);
	uint64_t third = launch(IMPORTER, OTHER, THERE);
	kernel_ends(IMPORTER, third, THERE, 4, true);
	ASSERT_EQ(1, world.found[CHECK_KIND_RACE]);
	end();
}

/* Goal: a kernel whose bytes are not all known is one that was not watched: it may have used any. */
TEST(kernels_that_are_not_wholly_known)
{
	share(false);
	uint64_t first = launch(EXPORTER, STREAM, HERE);
	kernel_ends(EXPORTER, first, HERE, 4, false);
	kernel_ends(IMPORTER, launch(IMPORTER, STREAM, THERE), THERE, 4, true);
	ASSERT_EQ(0, world.count);
	fill(IMPORTER, OTHER, THERE);
	ASSERT_EQ(1, world.found[CHECK_KIND_RACE]); /* both were in its way; the places are the same */
	end();
}

/* Goal: a kernel that never ends holds its stream up, and is done for whatever knows that the stream is. */
TEST(kernels_that_do_not_end)
{
	share(false);
	launch(EXPORTER, STREAM, HERE);
	record_event(EXPORTER, STREAM);
	wait_event(IMPORTER, STREAM);
	fill(IMPORTER, STREAM, THERE);
	ASSERT_EQ(0, world.count);
	ASSERT_EQ(2, world.check->waiting);
	synchronize(IMPORTER, STREAM);
	ASSERT_EQ(0, world.check->waiting);
	ASSERT_EQ(0, world.count);
	end();
}

/* Goal: a call that returned before another one began is ordered before it, in whatever process; not with --strict. */
TEST(one_clock_for_all_unless_strict)
{
	for (int strict = 0; strict < 2; strict++) {
		share(strict);
		fill(EXPORTER, STREAM, HERE);
		synchronize(EXPORTER, STREAM);
		fill(IMPORTER, STREAM, THERE);
		ASSERT_EQ((unsigned int)strict, world.count);
		end();
	}
	share(true);
	fill(EXPORTER, STREAM, HERE);
	synchronize(EXPORTER, STREAM);
	call(EXPORTER, CALL(cenote_order_sent, .object = 9));
	call(IMPORTER, CALL(cenote_order_received, .object = 9));
	fill(IMPORTER, STREAM, THERE);
	ASSERT_EQ(0, world.count);
	end();
}

/* Goal: a wait that overlaps with a record is taken to be for it. */
TEST(a_wait_during_a_record_is_for_it)
{
	const struct cn_trace_record record = CALL(cuEventRecord, .stream = STREAM, .event = EVENT);

	share(false);
	fill(EXPORTER, STREAM, HERE);
	uint64_t number = call_begins(EXPORTER, record);
	wait_event(IMPORTER, STREAM);
	call_ends(EXPORTER, number, record, NULL, 0);
	fill(IMPORTER, STREAM, THERE);
	ASSERT_EQ(0, world.count);
	end();
}

/* Goal: a wait for what was recorded last is not for what is recorded later. */
TEST(a_later_record_is_another)
{
	share(false);
	record_event(EXPORTER, STREAM);
	wait_event(IMPORTER, STREAM);
	fill(EXPORTER, STREAM, HERE);
	record_event(EXPORTER, STREAM);
	fill(IMPORTER, STREAM, THERE);
	ASSERT_EQ(1, world.found[CHECK_KIND_RACE]);
	end();
}

/* Goal: work behind a wait for a value comes after what is done before the write, also if that is submitted later. */
TEST(values_order_what_is_submitted_later)
{
	share(false);
	call_with(IMPORTER, CALL(cuStreamWaitValue32, .stream = STREAM, .address = THERE + SIZE - 4, .bytes = 4), 1, 1);
	fill(IMPORTER, STREAM, THERE);
	ASSERT_EQ(1, world.check->waiting);
	fill(EXPORTER, STREAM, HERE);
	call_with(EXPORTER, CALL(cuStreamWriteValue32, .stream = STREAM, .address = HERE + SIZE - 4, .bytes = 4), 1, 0);
	ASSERT_EQ(0, world.check->waiting);
	ASSERT_EQ(0, world.count);
	/* The same write does not let it go on twice: the word may have been changed since. */
	call_with(IMPORTER, CALL(cuStreamWaitValue32, .stream = STREAM, .address = THERE + SIZE - 4, .bytes = 4), 1, 1);
	ASSERT_EQ(1, world.check->waiting);
	/* The program knows that the stream is done: somebody unseen has written it. */
	fill(EXPORTER, OTHER, HERE);
	ASSERT_EQ(1, world.count);
	fill(IMPORTER, STREAM, THERE);
	synchronize(IMPORTER, STREAM);
	ASSERT_EQ(0, world.check->waiting);
	ASSERT_EQ(1, world.count);
	end();
}

/* Goal: a stream that waits for an event waits for what stands before its record, too. */
TEST(records_wait_in_their_streams)
{
	share(false);
	call_with(EXPORTER, CALL(cuStreamWaitValue32, .stream = STREAM, .address = HERE, .bytes = 4), 1, 1);
	fill(EXPORTER, STREAM, HERE);
	record_event(EXPORTER, STREAM);
	wait_event(IMPORTER, STREAM);
	fill(IMPORTER, STREAM, THERE);
	ASSERT_EQ(2, world.check->waiting);
	check_hangs(world.check, false);
	ASSERT_EQ(0, world.count);
	check_hangs(world.check, true);
	ASSERT_EQ(1, world.found[CHECK_KIND_HANG]);
	/* The importer's wait returns: all before it is done. */
	synchronize(IMPORTER, STREAM);
	ASSERT_EQ(0, world.check->waiting);
	ASSERT_EQ(1, world.count);
	end();
}

/* Goal: the legacy default stream and blocking streams are ordered, others are not. */
TEST(rules_of_the_default_stream)
{
	for (uint64_t flags = 0; flags < 2; flags++) {
		share(false);
		call_with(EXPORTER, CALL(cuStreamCreate, .stream = 0x5000), flags, 0);
		fill(EXPORTER, 0, HERE);
		fill(EXPORTER, 0x5000, HERE);
		ASSERT_EQ((unsigned int)flags, world.count);
		end();
	}
	share(false);
	call_with(EXPORTER, CALL(cuStreamCreate, .stream = 0x5000), 0, 0);
	fill(EXPORTER, 0x5000, HERE);
	/* What a destroyed stream has done is still before it. */
	call(EXPORTER, CALL(cuStreamDestroy, .stream = 0x5000));
	fill(EXPORTER, 0, HERE);
	ASSERT_EQ(0, world.count);
	end();
}

/* Goal: what a host function's stream has done is known when it runs, though its launch has not returned. */
TEST(host_functions_tell)
{
	const struct cn_trace_record launch = CALL(cuLaunchHostFunc, .stream = STREAM);

	share(false);
	fill(EXPORTER, STREAM, HERE);
	uint64_t number = call_begins(EXPORTER, launch);
	struct cn_trace_record runs = {.object = number, .thread = 300};
	check_host_begins(world.check, EXPORTER, &runs);
	fill(IMPORTER, STREAM, THERE);
	check_host_ends(world.check, EXPORTER, &runs);
	call_ends(EXPORTER, number, launch, NULL, 0);
	synchronize(IMPORTER, STREAM);
	ASSERT_EQ(0, world.count);
	/* What comes after a host function waits for it. */
	number = call(EXPORTER, launch);
	fill(EXPORTER, STREAM, HERE);
	ASSERT_EQ(1, world.check->waiting);
	fill(IMPORTER, STREAM, THERE);
	synchronize(IMPORTER, STREAM);
	runs.object = number;
	check_host_begins(world.check, EXPORTER, &runs);
	check_host_ends(world.check, EXPORTER, &runs);
	ASSERT_EQ(0, world.check->waiting);
	ASSERT_EQ(0, world.count);
	end();
}

/* Goal: a process that has ended has done all its work. */
TEST(the_end_of_a_process_is_an_order)
{
	share(false);
	fill(EXPORTER, STREAM, HERE);
	check_process_ends(world.check, EXPORTER, CN_TRACE_RUNS);
	fill(IMPORTER, STREAM, THERE);
	ASSERT_EQ(0, world.count);
	check_process_ends(world.check, IMPORTER, CN_TRACE_RUNS);
	ASSERT_EQ(1, world.found[CHECK_KIND_HOLDER_DIED]);
	end();
}

/* Goal: streams may work on parts of one block; what fills all of it disturbs a kernel that gets it. */
TEST(kernels_use_somewhere_in_a_block)
{
	for (int strict = 0; strict < 2; strict++) {
		share(strict);
		call_with(EXPORTER, CALL(cudaLaunchKernel, .stream = STREAM, .object = 1), HERE, 0);
		call_with(EXPORTER, CALL(cudaLaunchKernel, .stream = OTHER, .object = 1), HERE, 0);
		ASSERT_EQ(0, world.count);
		call(EXPORTER, CALL(cuMemsetD8Async, .stream = OTHER, .address = HERE, .bytes = SIZE / 2));
		ASSERT_EQ((unsigned int)strict, world.count);
		fill(IMPORTER, STREAM, THERE);
		ASSERT_GT(world.found[CHECK_KIND_RACE], (unsigned int)strict);
		end();
	}
}

/* ---- Shapes ---- */

static bool touches(const struct check_shape *shape, uint64_t byte)
{
	for (uint64_t slice = 0; slice < shape->slices; slice++) {
		for (uint64_t row = 0; row < shape->rows; row++) {
			uint64_t begin_of = shape->begin + slice * shape->slice + row * shape->pitch;
			if (byte >= begin_of && byte < begin_of + shape->row_bytes)
				return true;
		}
	}
	return false;
}

static struct check_shape draw_shape(unsigned int *seed)
{
	uint64_t row = 1 + (uint64_t)rand_r(seed) % 6, pitch = row + (uint64_t)rand_r(seed) % 6;
	uint64_t rows = 1 + (uint64_t)rand_r(seed) % 4;

	return (struct check_shape){
		.begin = (uint64_t)rand_r(seed) % 40,
		.row_bytes = row,
		.pitch = pitch,
		.rows = rows,
		.slice = rows * pitch + (uint64_t)rand_r(seed) % 5,
		.slices = 1 + (uint64_t)rand_r(seed) % 3,
	};
}

/* Goal: two shapes meet if they have a byte in common, and not otherwise. */
TEST(shapes_meet_where_they_have_a_byte_in_common)
{
	unsigned int seed = 1;
	int met = 0;

	for (int i = 0; i < 20000; i++) {
		struct check_shape left = draw_shape(&seed), right = draw_shape(&seed);
		bool common = false;
		for (uint64_t byte = 0; byte < 200 && !common; byte++)
			common = touches(&left, byte) && touches(&right, byte);
		ASSERT_EQ(common, check_shapes_meet(&left, &right));
		ASSERT_EQ(common, check_shapes_meet(&right, &left));
		met += common;
	}
	ASSERT_GT(met, 1000);
	ASSERT_LT(met, 19000);
}

/* ---- Bounds ---- */

/* Goal: memory does not grow with what is done: uses of a block, streams that come and go, exports. */
TEST(what_is_kept_is_bounded)
{
	share(false);
	for (uint64_t i = 0; i < 5000; i++) {
		call(EXPORTER, CALL(cuMemsetD8Async, .stream = STREAM, .address = HERE + i % SIZE, .bytes = 1));
		call(EXPORTER, CALL(cuStreamCreate, .stream = 0x100000 + i * 8));
		fill(EXPORTER, 0x100000 + i * 8, HERE + 0x40000);
		call(EXPORTER, CALL(cuStreamDestroy, .stream = 0x100000 + i * 8));
	}
	const struct check_mapping *mapping = check_map_find(world.check, EXPORTER, HERE);
	ASSERT(mapping != NULL);
	ASSERT_LE(mapping->block->access_count, 512);
	ASSERT_LE(world.check->lane_count, 8);
	for (uint64_t i = 0; i < 70000; i++)
		call(EXPORTER, CALL(cuIpcGetMemHandle, .address = HERE, .handle = 1000 + i));
	ASSERT_LE(world.check->exports.count, 1 << 16);
	ASSERT_EQ(0, world.count);
	end();
}

/* Goal: a pool that was shared, and that its process has not destroyed, is told of with --strict alone. */
TEST(pools_that_are_left)
{
	for (int is_strict = 0; is_strict < 2; is_strict++) {
		begin(is_strict);
		for (uint64_t pool = 1; pool <= 3; pool++)
			call(EXPORTER, CALL(cuMemPoolCreate, .pool = pool));
		for (uint64_t pool = 2; pool <= 3; pool++)
			call(EXPORTER, CALL(cuMemPoolExportToShareableHandle, .pool = pool, .handle = pool));
		call(IMPORTER, CALL(cuMemPoolImportFromShareableHandle, .pool = 9, .handle = 2));
		call(EXPORTER, CALL(cuMemPoolDestroy, .pool = 2));
		check_process_ends(world.check, EXPORTER, CN_TRACE_EXITED);
		ASSERT_EQ(is_strict, world.found[CHECK_KIND_LEAKED]);
		check_process_ends(world.check, IMPORTER, CN_TRACE_RUNS); /* killed */
		ASSERT_EQ(is_strict, world.count);
		end();
	}
}

/* ---- Files ---- */

enum { MANY = 20000 }; /* more than are read at a time */

static void write_records(const char *folder, int pid, const struct cn_trace_record *records, size_t count)
{
	struct cn_trace_header header = {.pid = pid};
	char path[256];

	memcpy(header.magic, CN_TRACE_MAGIC, sizeof header.magic);
	atomic_store(&header.next, count);
	atomic_store(&header.end, CN_TRACE_EXITED);
	atomic_store(&header.ended_ns, 1000000000);
	snprintf(path, sizeof path, "%s/%d.0", folder, pid);
	FILE *file = fopen(path, "w");
	ASSERT(file);
	ASSERT_EQ(1, fwrite(&header, sizeof header, 1, file));
	ASSERT_EQ(0, fseek(file, CN_TRACE_HEADER_BYTES, SEEK_SET));
	ASSERT_EQ(count, fwrite(records, sizeof *records, count, file));
	ASSERT_EQ(0, ftruncate(fileno(file), CN_TRACE_HEADER_BYTES + (4 << 20)));
	fclose(file);
}

static bool is_dead(pid_t pid)
{
	(void)pid;
	return true;
}

static struct cn_trace_record at(uint64_t time_ns, struct cn_trace_record record)
{
	record.begin_ns = time_ns;
	record.end_ns = time_ns + 1;
	record.context = CONTEXT;
	record.thread = 1;
	atomic_store(&record.state, CN_TRACE_ENDED);
	return record;
}

/* Goal: a process that has written more than is read at a time holds up what others did after it. */
TEST(long_files_are_fed_in_the_order_of_time)
{
	struct cn_trace_record *records = calloc(MANY, sizeof *records);
	const char *folder = test_path("records");

	ASSERT(records);
	begin(false);
	ASSERT_EQ(0, mkdir(folder, 0700));
	for (uint64_t i = 0; i < MANY; i++)
		records[i] = at(10 * i, CALL(cuStreamQuery, .stream = STREAM));
	/* Among the last, which are read when the first have been: the block is exported, and filled. */
	uint64_t late = MANY - 100;
	records[late] = at(10 * late, CALL(cuMemAlloc, .address = HERE, .bytes = SIZE));
	records[late + 1] = at(10 * late + 10, CALL(cuIpcGetMemHandle, .address = HERE, .handle = HANDLE));
	records[late + 3] = at(10 * late + 30, CALL(cuMemsetD8Async, .stream = STREAM, .address = HERE, .bytes = SIZE));
	for (uint64_t i = late + 4; i < MANY; i++)
		records[i] = at(10 * i, CALL(cuStreamQuery, .stream = OTHER));
	write_records(folder, 1001, records, MANY);
	struct cn_trace_record others[] = {
		at(10 * late + 20, CALL(cuIpcOpenMemHandle, .address = THERE, .handle = HANDLE)),
		at(10 * late + 40, CALL(cuMemsetD8Async, .stream = STREAM, .address = THERE, .bytes = SIZE)),
	};
	write_records(folder, 1002, others, 2);
	check_read(world.check, folder, UINT64_MAX, is_dead);
	ASSERT_EQ(1, world.found[CHECK_KIND_RACE]);
	check_read_free();
	end();
	free(records);
}

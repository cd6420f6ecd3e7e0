/* SPDX-License-Identifier: MIT */
/*
 * A long run whose sizes shift by phase: how much memory a pool reserves at most, for what the program asks for at
 * most.
 *
 *     phases [--live GIB] [--steps N] [--json FILE]
 *
 * Over the libcuda.so.1 that it finds: NVIDIA's pools, or under `cenote run` Cenote's, on a GPU or on the host device.
 *
 * Each phase draws sizes around another median, from 1 KiB to 2 MiB, a few of them far larger, up to 512 MiB. A step
 * replaces a block by one of a new size, so that blocks of the last phase go while those of the next come; blocks are
 * freed until the new one fits below the limit of what is live. With several streams each block is freed in the stream
 * in which it was allocated. The pool keeps what it has (its release threshold is the highest), so what it reserves at
 * the end is what the sizes have cost: a block of one phase that lies in the middle of a chunk keeps all of it from the
 * next phase.
 */
#include "draws.h"
#include "gpu.h"

enum {
	SLOTS = 16384,
	STREAMS_MAX = 4,
	BLOCK_BYTES_MIN = 256,
	BLOCK_BYTES_MAX = 512 << 20,
	PHASE_ROUNDS = 2,
	SYNCHRONIZE_EVERY = 256,
};

static const size_t medians[] = {1 << 10, 16 << 10, 256 << 10, 2 << 20, 64 << 10, 4 << 10, 1 << 20};

static struct {
	CUdeviceptr address;
	size_t bytes;
	unsigned stream;
} slots[SLOTS];

struct options {
	size_t live_bytes;
	unsigned long step_count; /* of each phase */
	const char *json;
};

struct outcome {
	unsigned streams;
	uint64_t asked_bytes, reserved_bytes; /* at most */
	double step_ns;
};

static CUstream streams[STREAMS_MAX];
static size_t live_bytes;

/* Around a median: as often half as double, seldom a sixteenth or sixteen times, very seldom far more. */
static size_t draw_bytes(uint64_t *state, size_t median)
{
	uint64_t random = draw(state);
	unsigned up = (unsigned)__builtin_popcount((unsigned)(random & 0xff)); /* 0 to 8, 4 on the average */
	size_t bytes = (median << up) >> 4;

	bytes += (size_t)((random >> 8) % (bytes + 1));
	if ((random >> 40) % 1000 == 0)
		bytes <<= 6;
	bytes = bytes < BLOCK_BYTES_MIN ? BLOCK_BYTES_MIN : bytes;
	return bytes > BLOCK_BYTES_MAX ? BLOCK_BYTES_MAX : bytes;
}

static void empty_slot(unsigned slot)
{
	if (!slots[slot].address)
		return;
	CU(cuMemFreeAsync(slots[slot].address, streams[slots[slot].stream]));
	live_bytes -= slots[slot].bytes;
	slots[slot].address = 0;
}

static void run_phase(const struct options *options, size_t median, unsigned stream_count, uint64_t *state,
		      struct outcome *outcome)
{
	for (unsigned long step = 0; step < options->step_count; step++) {
		size_t bytes = draw_bytes(state, median);
		unsigned slot = (unsigned)(draw(state) % SLOTS), stream = (unsigned)(draw(state) % stream_count);
		empty_slot(slot);
		while (live_bytes + bytes > options->live_bytes)
			empty_slot((unsigned)(draw(state) % SLOTS));
		CU(cuMemAllocAsync(&slots[slot].address, bytes, streams[stream]));
		slots[slot].bytes = bytes;
		slots[slot].stream = stream;
		live_bytes += bytes;
		if (live_bytes > outcome->asked_bytes)
			outcome->asked_bytes = live_bytes;
		if (step % SYNCHRONIZE_EVERY == 0)
			CU(cuStreamSynchronize(streams[stream]));
	}
}

static struct outcome run(const struct options *options, unsigned stream_count)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	struct outcome outcome = {.streams = stream_count};
	uint64_t state = DRAW_START, keep = UINT64_MAX;
	unsigned long phases = 0;
	CUmemoryPool pool, before;

	CU(cuMemPoolCreate(&pool, &properties));
	CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	CU(cuDeviceGetDefaultMemPool(&before, 0));
	CU(cuDeviceSetMemPool(0, pool));
	uint64_t start_ns = bench_now_ns();
	for (unsigned round = 0; round < PHASE_ROUNDS; round++)
		for (unsigned i = 0; i < sizeof medians / sizeof *medians; i++, phases++)
			run_phase(options, medians[i], stream_count, &state, &outcome);
	outcome.step_ns = (double)(bench_now_ns() - start_ns) / (double)(phases * options->step_count);
	CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &outcome.reserved_bytes));
	for (unsigned slot = 0; slot < SLOTS; slot++)
		empty_slot(slot);
	for (unsigned i = 0; i < stream_count; i++)
		CU(cuStreamSynchronize(streams[i]));
	CU(cuDeviceSetMemPool(0, before));
	CU(cuMemPoolDestroy(pool));
	return outcome;
}

static void report(const struct options *options, const struct outcome *outcome, const char *whose)
{
	const double gib = (double)(1ull << 30), ratio = (double)outcome->reserved_bytes / (double)outcome->asked_bytes;

	printf("%-10s %u stream%s asked for %5.2f GiB, reserved %5.2f GiB: %4.2f times   %7.0f ns a step\n", whose,
	       outcome->streams, outcome->streams == 1 ? ", " : "s,", (double)outcome->asked_bytes / gib,
	       (double)outcome->reserved_bytes / gib, ratio, outcome->step_ns);
	fflush(stdout);
	if (!options->json)
		return;
	FILE *file = fopen(options->json, "ae");
	BENCH_MUST(!file);
	fprintf(file,
		"{\"whose\": \"%s\", \"streams\": %u, \"asked_bytes\": %llu, \"reserved_bytes\": %llu, "
		"\"step_ns\": %.1f}\n",
		whose, outcome->streams, (unsigned long long)outcome->asked_bytes,
		(unsigned long long)outcome->reserved_bytes, outcome->step_ns);
	BENCH_MUST(fclose(file));
}

static void read_options(int argc, char **argv, struct options *options)
{
	for (int i = 1; i < argc; i += 2) {
		double value = i + 1 < argc ? atof(argv[i + 1]) : 0;
		if (strcmp(argv[i], "--live") == 0 && value > 0) {
			options->live_bytes = (size_t)(value * (double)(1ull << 30));
		} else if (strcmp(argv[i], "--steps") == 0 && value >= 1) {
			options->step_count = (unsigned long)value;
		} else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
			options->json = argv[i + 1];
		} else {
			fprintf(stderr, "usage: %s [--live GIB] [--steps N] [--json FILE]\n", argv[0]);
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	struct options options = {.live_bytes = (size_t)4 << 30, .step_count = 40000};

	read_options(argc, argv, &options);
	gpu_start();
	for (unsigned i = 0; i < STREAMS_MAX; i++)
		streams[i] = gpu_stream();
	for (unsigned stream_count = 1; stream_count <= STREAMS_MAX; stream_count += STREAMS_MAX - 1) {
		struct outcome outcome = run(&options, stream_count);
		report(&options, &outcome, gpu_cenote.last_error ? "cenote" : "driver");
	}
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * The early free: what becomes of an importer that still reads a block when its exporter frees it?
 *
 *     bench-gpu_early_free [MODULE]            over the driver
 *     cenote run bench-gpu_early_free [MODULE] over Cenote
 *
 * CUDA's rule is that importers free first. Here an exporter breaks it: it frees a block while the importer reads, and
 * allocates as much again. If that is the same memory, the importer reads another block's bytes.
 *
 * The importer reads in two ways: by a copy of the whole block, which is in its stream behind a host function that has
 * begun and waits; and by a kernel that runs and reads a word over and over. Nothing depends on chance or time: the
 * exporter is told when the reading is under way, and the importer when the other bytes are written. MODULE is
 * gpu_early_free.ptx, or what ptxas makes of it; without one there is the copy alone.
 *
 * Exit status: 0 if the importer read only its own bytes, 3 if it read another block's, 1 if a call failed.
 */
#include "gpu.h"

#include <stdatomic.h>

enum {
	BYTES = 8 << 20,
	WORDS = BYTES / 4,
	OURS = 0x11111111,
	ANOTHERS = 0x22222222,
	TRIES = 4, /* blocks that the exporter asks for, hoping to get its own again */
	EXIT_HANDED_OUT = 3,
};
#define BACK_NS_MAX 5000000000ull

enum way { BY_COPY, BY_KERNEL, WAYS };
static const char *const way_names[] = {"a copy that stands in its stream", "a kernel that runs"};

struct letter {
	CUmemPoolPtrExportData name;
	unsigned way;
};

struct report {
	unsigned first, last;         /* what was read first and last */
	unsigned ours, anothers, all; /* words */
	int freed;                    /* what the importer's free answered */
};

/* ---- The importer ----------------------------------------------------------------------------------------------- */

static CUstream stream;

struct gate {
	int begun[2], open[2]; /* pipes */
};

/* Called by the stream. */
static void CUDA_CB wait_at_gate(void *data)
{
	struct gate *gate = data;

	gpu_tell(gate->begun[1], 'b');
	gpu_expect(gate->open[0], 'o');
}

static void read_by_copy(int sock, CUdeviceptr block, struct report *ret_report)
{
	struct gate gate;
	unsigned *words;

	BENCH_MUST(pipe2(gate.begun, O_CLOEXEC) || pipe2(gate.open, O_CLOEXEC));
	CU(cuMemHostAlloc((void **)&words, BYTES, 0));
	CU(cuLaunchHostFunc(stream, wait_at_gate, &gate));
	CU(cuMemcpyDtoHAsync(words, block, BYTES, stream));
	gpu_expect(gate.begun[0], 'b');
	gpu_tell(sock, 'r');
	gpu_expect(sock, 'w');
	gpu_tell(gate.open[1], 'o');
	CU(cuStreamSynchronize(stream));
	for (unsigned i = 0; i < WORDS; i++) {
		ret_report->ours += words[i] == OURS;
		ret_report->anothers += words[i] == ANOTHERS;
	}
	ret_report->all = WORDS;
	ret_report->first = words[0];
	ret_report->last = words[WORDS - 1];
}

/* Until the kernel has read twice more: the second read began after this call. */
static void await_reads(const _Atomic unsigned *count)
{
	unsigned before = atomic_load(count);

	while (atomic_load(count) - before < 2)
		sched_yield();
}

static void read_by_kernel(int sock, CUdeviceptr block, CUfunction watch, struct report *ret_report)
{
	_Atomic unsigned *shared; /* the kernel's `seen` of three words, and its `stop` */
	CUdeviceptr seen, stop;

	CU(cuMemHostAlloc((void **)&shared, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	memset((void *)shared, 0, 4096);
	CU(cuMemHostGetDevicePointer(&seen, shared, 0));
	stop = seen + 1024;
	void *arguments[] = {&block, &stop, &seen};
	CU(cuLaunchKernel(watch, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
	await_reads(&shared[2]);
	gpu_tell(sock, 'r');
	gpu_expect(sock, 'w');
	await_reads(&shared[2]);
	atomic_store(&shared[256], 1);
	CU(cuStreamSynchronize(stream));
	ret_report->first = atomic_load(&shared[0]);
	ret_report->last = atomic_load(&shared[1]);
	ret_report->ours = ret_report->last == OURS;
	ret_report->anothers = ret_report->last == ANOTHERS;
	ret_report->all = 1;
}

static int run_importer(int sock, const char *module_path)
{
	CUfunction watch = NULL;
	CUmodule module;
	CUdeviceptr block;
	struct letter letter;

	gpu_start();
	stream = gpu_stream();
	if (*module_path && !gpu.cuModuleLoad(&module, module_path))
		CU(cuModuleGetFunction(&watch, module, "watch"));
	gpu_tell(sock, watch ? 'k' : 'c');
	CUmemoryPool pool = gpu_import(gpu_receive_descriptor(sock));
	while (gpu_get_or_end(sock, &letter, sizeof letter)) {
		struct report report = {0};
		CU(cuMemPoolImportPointer(&block, pool, &letter.name));
		if (letter.way == BY_COPY)
			read_by_copy(sock, block, &report);
		else
			read_by_kernel(sock, block, watch, &report);
		report.freed = (int)gpu.cuMemFreeAsync(block, stream);
		CU(cuStreamSynchronize(stream));
		gpu_put(sock, &report, sizeof report);
	}
	return 0;
}

/* ---- The exporter ----------------------------------------------------------------------------------------------- */

static CUdeviceptr allocate(CUmemoryPool pool, unsigned value)
{
	CUdeviceptr block;

	CU(cuMemAllocFromPoolAsync(&block, BYTES, pool, stream));
	CU(cuMemsetD32Async(block, value, WORDS, stream));
	CU(cuStreamSynchronize(stream));
	return block;
}

static void free_all(const CUdeviceptr *blocks)
{
	for (unsigned i = 0; i < TRIES; i++)
		CU(cuMemFreeAsync(blocks[i], stream));
	CU(cuStreamSynchronize(stream));
}

/* Allocates and writes; is one of them at that address? */
static bool allocate_others(CUmemoryPool pool, CUdeviceptr wanted, CUdeviceptr *ret_blocks)
{
	bool same = false;

	for (unsigned i = 0; i < TRIES; i++) {
		ret_blocks[i] = allocate(pool, ANOTHERS);
		same |= ret_blocks[i] == wanted;
	}
	return same;
}

/* The importer has freed it: does the exporter get it again? */
static bool comes_back(CUmemoryPool pool, CUdeviceptr wanted)
{
	uint64_t before_ns = bench_now_ns();
	CUdeviceptr others[TRIES];
	bool same = false;

	while (!same && bench_now_ns() - before_ns < BACK_NS_MAX) {
		same = allocate_others(pool, wanted, others);
		free_all(others);
	}
	return same;
}

static bool show(int sock, CUmemoryPool pool, enum way way)
{
	struct letter letter = {.way = way};
	CUdeviceptr others[TRIES], block = allocate(pool, OURS);
	struct report report;

	printf("\nThe importer reads by %s.\n", way_names[way]);
	CU(cuMemPoolExportPointer(&letter.name, block));
	gpu_put(sock, &letter, sizeof letter);
	gpu_expect(sock, 'r');
	CU(cuMemFreeAsync(block, stream));
	CU(cuStreamSynchronize(stream));
	printf("  the reading is under way; the exporter has freed the block\n");
	bool same = allocate_others(pool, block, others);
	printf("  the exporter allocates as much, and writes %x: %s\n", ANOTHERS,
	       same ? "at the SAME address" : "elsewhere, in all four tries");
	gpu_tell(sock, 'w');
	gpu_get(sock, &report, sizeof report);
	printf("  the importer has read %x first and %x last; of %u words, %u are its own and %u ANOTHER'S\n",
	       report.first, report.last, report.all, report.ours, report.anothers);
	BENCH_MUST(report.ours + report.anothers != report.all);
	free_all(others);
	printf("  the importer's free: %s; the block %s\n", report.freed ? "an error" : "success",
	       comes_back(pool, block) ? "comes back to the exporter" : "has not come back within five seconds");
	fflush(stdout);
	return report.anothers != 0;
}

static int run_exporter(char *module_path)
{
	static char importer[] = "importer";
	bool handed_out;
	char word;
	int sock;
	pid_t child = gpu_execute(NULL, importer, module_path, &sock);

	gpu_start();
	stream = gpu_stream();
	CUmemoryPool pool = gpu_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	int descriptor = gpu_export(pool);
	gpu_send_descriptor(sock, descriptor);
	close(descriptor);
	gpu_get(sock, &word, 1);
	printf("The pools are %s.\n", gpu_owner(pool));
	handed_out = show(sock, pool, BY_COPY);
	if (word == 'k')
		handed_out |= show(sock, pool, BY_KERNEL);
	else
		printf("\nWithout a kernel: %s.\n",
		       *module_path ? "the module cannot be loaded" : "no module is given");
	close(sock);
	gpu_await(child);
	CU(cuMemPoolDestroy(pool));
	printf("\n%s\n", handed_out ? "HANDED OUT: the importer has read another's bytes"
				    : "kept: the importer has read nothing but its own bytes");
	return handed_out ? EXIT_HANDED_OUT : 0;
}

int main(int argc, char **argv)
{
	static char none[] = "";
	int sock;

	if (gpu_has_role(argc, argv, "importer", &sock))
		return run_importer(sock, argc > 3 ? argv[3] : none);
	return run_exporter(argc > 1 ? argv[1] : none);
}

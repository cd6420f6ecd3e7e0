/* SPDX-License-Identifier: MIT */
/*
 * Late work: what happens to a kernel that still uses a block when another stream has freed it, and its pool ends?
 *
 *     bench-gpu_late_work MODULE            over the driver
 *     cenote run bench-gpu_late_work MODULE over Cenote
 *
 * CUDA's rule is that a free comes after the block's last use, in stream order. Here a program breaks it: a kernel
 * reads a word of the block over and over, in one stream, while the block is freed in another and its memory is taken
 * away in one of five ways. The kernel goes on for a while, and then its stream is waited for. Each case is a process
 * of its own, since a kernel whose memory is unmapped destroys the context. MODULE is gpu_early_free.ptx, or what ptxas
 * makes of it.
 *
 * Exit status: 0 when every case ended well, 3 when a context was lost, 1 when something else failed.
 */
#include "gpu.h"

#include <stdatomic.h>

enum { BYTES = 8 << 20, WORDS = BYTES / 4, OURS = 0x11111111, EXIT_LOST = 3, AGAIN = 4 };

enum way { IMPORTED, IMPORTED_SYNCHRONISED, OWN, OWN_SYNCHRONISED, TRIMMED, WAYS };
static const char *const way_names[] = {
	"the imported pool is destroyed",
	"the freeing stream is synchronised, and the imported pool destroyed",
	"the pool is destroyed",
	"the freeing stream is synchronised, and the pool destroyed",
	"the freeing stream is synchronised, and the pool trimmed",
};

struct letter {
	CUmemPoolPtrExportData name;
	unsigned way;
};

/* ---- A process that breaks the rule ----------------------------------------------------------------------------- */

static CUstream late, freeing;

/* Until the kernel has read twice more: the second read began after this call. */
static void await_reads(const _Atomic unsigned *count)
{
	unsigned before = atomic_load(count);

	while (atomic_load(count) - before < 2 && gpu.cuStreamQuery(late) == CUDA_ERROR_NOT_READY)
		sched_yield();
}

static CUdeviceptr make_block(CUmemoryPool pool)
{
	CUdeviceptr block;

	CU(cuMemAllocFromPoolAsync(&block, BYTES, pool, freeing));
	CU(cuMemsetD32Async(block, OURS, WORDS, freeing));
	CU(cuStreamSynchronize(freeing));
	return block;
}

/* Each import gives another thread of the library a chance to take the first one's memory away. */
static void import_again(int descriptor, const CUmemPoolPtrExportData *name)
{
	CUmemPoolPtrExportData copy = *name;
	CUdeviceptr block;

	for (unsigned i = 0; i < AGAIN; i++) {
		CUmemoryPool pool = gpu_import(descriptor);
		CU(cuMemPoolImportPointer(&block, pool, &copy));
		CU(cuMemFreeAsync(block, freeing));
		CU(cuStreamSynchronize(freeing));
		CU(cuMemPoolDestroy(pool));
	}
}

static int run_case(int sock, const char *module_path)
{
	_Atomic unsigned *shared; /* the kernel's `seen` of three words, and its `stop` */
	CUdeviceptr seen, stop, block;
	struct letter letter;
	CUfunction watch;
	CUmodule module;

	gpu_start();
	late = gpu_stream();
	freeing = gpu_stream();
	CU(cuModuleLoad(&module, module_path));
	CU(cuModuleGetFunction(&watch, module, "watch"));
	gpu_get(sock, &letter, sizeof letter);
	int descriptor = gpu_receive_descriptor(sock);
	bool imported = letter.way == IMPORTED || letter.way == IMPORTED_SYNCHRONISED;
	CUmemoryPool pool = imported ? gpu_import(descriptor) : gpu_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (imported)
		CU(cuMemPoolImportPointer(&block, pool, &letter.name));
	else
		block = make_block(pool);
	CU(cuMemHostAlloc((void **)&shared, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	memset((void *)shared, 0, 4096);
	CU(cuMemHostGetDevicePointer(&seen, shared, 0));
	stop = seen + 1024;
	void *arguments[] = {&block, &stop, &seen};
	CU(cuLaunchKernel(watch, 1, 1, 1, 1, 1, 1, 0, late, arguments, NULL));
	await_reads(&shared[2]);

	CU(cuMemFreeAsync(block, freeing));
	if (letter.way != IMPORTED && letter.way != OWN)
		CU(cuStreamSynchronize(freeing));
	if (letter.way == TRIMMED)
		CU(cuMemPoolTrimTo(pool, 0));
	else
		CU(cuMemPoolDestroy(pool));
	if (imported)
		import_again(descriptor, &letter.name);
	await_reads(&shared[2]);
	atomic_store(&shared[256], 1);
	CUresult result = gpu.cuStreamSynchronize(late);
	if (!result && atomic_load(&shared[1]) != OURS)
		return EXIT_FAILURE;
	return result ? EXIT_LOST : EXIT_SUCCESS;
}

/* ---- The exporter ------------------------------------------------------------------------------------------------ */

/* A case whose context is lost may fail at any call. */
static bool ends_well(CUdeviceptr block, int descriptor, enum way way, char *module_path)
{
	static char role[] = "case";
	struct letter letter = {.way = way};
	int sock, status;
	pid_t child = gpu_execute(NULL, role, module_path, &sock);

	CU(cuMemPoolExportPointer(&letter.name, block));
	gpu_put(sock, &letter, sizeof letter);
	gpu_send_descriptor(sock, descriptor);
	BENCH_MUST(waitpid(child, &status, 0) != child);
	close(sock);
	bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	printf("  %s: %s\n", way_names[way], well ? "well" : "the context is LOST");
	fflush(stdout);
	return well;
}

int main(int argc, char **argv)
{
	bool well = true;
	int sock;

	if (gpu_has_role(argc, argv, "case", &sock))
		return run_case(sock, argc > 3 ? argv[3] : "");
	if (argc < 2) {
		fprintf(stderr, "usage: bench-gpu_late_work MODULE\n");
		return 2;
	}
	gpu_start();
	freeing = gpu_stream();
	CUmemoryPool pool = gpu_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	int descriptor = gpu_export(pool);
	CUdeviceptr block = make_block(pool);
	printf("The pools are %s. A kernel reads a block that another stream has freed, and\n", gpu_owner(pool));
	for (enum way way = 0; way < WAYS; way++)
		well &= ends_well(block, descriptor, way, argv[1]);
	CU(cuMemFreeAsync(block, freeing));
	CU(cuStreamSynchronize(freeing));
	CU(cuMemPoolDestroy(pool));
	close(descriptor);
	return well ? 0 : EXIT_LOST;
}

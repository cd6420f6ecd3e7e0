/* SPDX-License-Identifier: MIT */
/*
 * What it costs to write memory of the host device for the first time. The system provides its pages then: with a fault
 * for each, unless they were requested in another way. All ways that Linux has are here, on a memory file that is
 * mapped as the host device's are.
 *
 * What is measured is the processor time, of all threads, for requesting and writing together, for each MiB: a
 * repetition is long, and other processes that use the processor do not matter here. What was written is checked.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "pair.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

enum { MIB = 1 << 20, HUGE_BYTES = 2 * MIB, MARK = 0x5a, REPETITIONS = 31 };

static size_t bytes;
static char *source; /* of copies */

static uint64_t processor_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct way {
	const char *name;
	unsigned memory_flags;                    /* of the file */
	int (*ask)(int fd, char *memory);         /* for pages; NULL: they come by themselves */
	size_t piece_bytes;                       /* asked for before each of these is written; 0: all at once */
	void (*fill)(char *memory, size_t count); /* NULL: memset() */
};

static int populate(char *memory, size_t count)
{
	return madvise(memory, count, MADV_POPULATE_WRITE);
}

static int ask_populate(int fd, char *memory)
{
	(void)fd;
	return populate(memory, bytes);
}

static int ask_fallocate(int fd, char *memory)
{
	(void)memory;
	return fallocate(fd, 0, 0, (off_t)bytes);
}

static int ask_both(int fd, char *memory)
{
	return ask_fallocate(fd, memory) || ask_populate(fd, memory);
}

static int ask_huge(int fd, char *memory)
{
	(void)fd;
	return madvise(memory, bytes, MADV_HUGEPAGE);
}

/* At an address where a huge page can begin. NULL: not to be had. */
static char *map(const struct way *way, int *ret_fd)
{
	int fd = memfd_create("cenote-bench", MFD_CLOEXEC | way->memory_flags);

	if (fd < 0)
		return NULL;
	BENCH_MUST(ftruncate(fd, (off_t)bytes));
	char *reserved = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	BENCH_MUST(reserved == MAP_FAILED);
	char *start = reserved + -(uintptr_t)reserved % HUGE_BYTES;
	int flags = MAP_SHARED | MAP_FIXED | (way->memory_flags ? 0 : MAP_NORESERVE);
	char *memory = mmap(start, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	munmap(reserved, (size_t)(start - reserved));
	munmap(start + bytes, HUGE_BYTES - (size_t)(start - reserved));
	if (memory == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	*ret_fd = fd;
	return memory;
}

static void fill_copy(char *memory, size_t count)
{
	memcpy(memory, source, count);
}

static double touch_way(void *data)
{
	const struct way *way = data;
	int fd;
	char *memory = map(way, &fd);

	BENCH_MUST(!memory);
	uint64_t before_ns = processor_ns();
	if (way->ask)
		BENCH_MUST(way->ask(fd, memory));
	for (size_t at = 0, step = way->piece_bytes ? way->piece_bytes : bytes; at < bytes; at += step) {
		if (way->piece_bytes)
			BENCH_MUST(populate(memory + at, step));
		if (way->fill)
			way->fill(memory + at, step);
		else
			memset(memory + at, MARK, step);
	}
	double taken_ns = (double)(processor_ns() - before_ns);
	BENCH_MUST(memory[0] != MARK || memory[bytes - 1] != MARK);
	munmap(memory, bytes);
	close(fd);
	return taken_ns * MIB / (double)bytes;
}

/* What is there already. */
static double touch_again(void *data)
{
	char **memory = data;
	int fd;

	if (!*memory) {
		*memory = map(&(struct way){0}, &fd);
		BENCH_MUST(!*memory);
		memset(*memory, MARK, bytes);
	}
	uint64_t before_ns = processor_ns();
	memset(*memory, MARK, bytes);
	return (double)(processor_ns() - before_ns) * MIB / (double)bytes;
}

/* What a program has from malloc(), if it is large. */
static double touch_private(void *data)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	BENCH_MUST(memory == MAP_FAILED);
	uint64_t before_ns = processor_ns();
	if (*(const bool *)data)
		madvise(memory, bytes, MADV_HUGEPAGE);
	memset(memory, MARK, bytes);
	double taken_ns = (double)(processor_ns() - before_ns);
	BENCH_MUST(munmap(memory, bytes));
	return taken_ns * MIB / (double)bytes;
}

struct work {
	bool copy, keep;
	CUmemoryPool pool; /* kept: its memory is there after the first time */
};

/* A block of a pool filled, or copied to, and its pool given back. */
static double touch_block(void *data)
{
	struct work *work = data;
	CUdeviceptr block;
	unsigned char last;
	uint64_t threshold = UINT64_MAX;

	if (!work->pool) {
		pair_create_pool();
		work->pool = pair_pool;
		BENCH_MUST(cuMemPoolSetAttribute(work->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	}
	BENCH_MUST(cuMemAllocFromPoolAsync(&block, bytes, work->pool, pair_stream));
	uint64_t before_ns = processor_ns();
	if (work->copy)
		BENCH_MUST(cuMemcpyHtoDAsync(block, source, bytes, pair_stream));
	else
		BENCH_MUST(cuMemsetD8Async(block, MARK, bytes, pair_stream));
	BENCH_MUST(cuStreamSynchronize(pair_stream));
	double taken_ns = (double)(processor_ns() - before_ns);
	BENCH_MUST(cuMemcpyDtoH(&last, block + bytes - 1, 1));
	BENCH_MUST(last != MARK);
	BENCH_MUST(cuMemFreeAsync(block, pair_stream));
	BENCH_MUST(cuStreamSynchronize(pair_stream));
	if (!work->keep) {
		BENCH_MUST(cuMemPoolDestroy(work->pool));
		work->pool = NULL;
	}
	return taken_ns * MIB / (double)bytes;
}

static const char *const group = "Memory written for the first time: processor time of a MiB";

/* Do memory files get huge pages where they are requested? */
static bool files_get_huge(void)
{
	char text[128] = "";
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");

	if (!file)
		return false;
	size_t count = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[count] = '\0';
	return strstr(text, "[advise]") || strstr(text, "[always]") || strstr(text, "[within_size]") ||
	       strstr(text, "[force]");
}

/* Does the system's reserve of huge pages have so many? */
static bool reserve_has(const struct way *way)
{
	int fd;
	char *memory = map(way, &fd);

	if (!memory)
		return false;
	bool has = !populate(memory, bytes);
	munmap(memory, bytes);
	close(fd);
	return has;
}

static void measure(void)
{
	static struct way ways[] = {
		{.name = "a fault for each page"},
		{.name = "MADV_POPULATE_WRITE at once", .ask = ask_populate},
		{.name = "MADV_POPULATE_WRITE by 2 MiB", .piece_bytes = HUGE_BYTES},
		{.name = "MADV_POPULATE_WRITE by 256 KiB", .piece_bytes = 256 << 10},
		{.name = "MADV_POPULATE_WRITE by 64 KiB", .piece_bytes = 64 << 10},
		{.name = "fallocate()", .ask = ask_fallocate},
		{.name = "fallocate() and MADV_POPULATE_WRITE", .ask = ask_both},
		{.name = "MADV_HUGEPAGE", .ask = ask_huge},
		{.name = "MFD_HUGETLB", .memory_flags = MFD_HUGETLB},
		{.name = "copied to, a fault for each page", .fill = fill_copy},
	};
	enum { WAYS = sizeof ways / sizeof *ways, HUGE = 7, RESERVED = 8 };
	static struct work fill = {0}, filled = {.keep = true}, copy = {.copy = true};
	static const bool plain = false, huge = true;
	static char *touched;
	struct bench_contestant contestants[BENCH_CONTESTANTS_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < WAYS; i++)
		contestants[count++] =
			(struct bench_contestant){.name = ways[i].name, .once = touch_way, .data = &ways[i]};
	if (!files_get_huge()) {
		bench_absent(group, "write", ways[HUGE].name, "memory files get no huge pages here (shmem_enabled)");
		contestants[HUGE].name = NULL;
	}
	if (!reserve_has(&ways[RESERVED])) {
		bench_absent(group, "write", ways[RESERVED].name, "no huge pages are reserved here (nr_hugepages)");
		contestants[RESERVED].name = NULL;
	}
	contestants[count++] = (struct bench_contestant){.name = "it is there", .once = touch_again, .data = &touched};
	contestants[count++] = (struct bench_contestant){
		.name = "private memory, no file", .once = touch_private, .data = (void *)(uintptr_t)&plain};
	contestants[count++] = (struct bench_contestant){
		.name = "private memory, MADV_HUGEPAGE", .once = touch_private, .data = (void *)(uintptr_t)&huge};
	contestants[count++] = (struct bench_contestant){.name = "cenote, fill", .once = touch_block, .data = &fill};
	contestants[count++] =
		(struct bench_contestant){.name = "cenote, copy to it", .once = touch_block, .data = &copy};
	contestants[count++] =
		(struct bench_contestant){.name = "cenote, fill, it is there", .once = touch_block, .data = &filled};
	bench_contest(&(struct bench_contest){.group = group,
					      .name = "write",
					      .baseline = "a fault for each page",
					      .repetitions = REPETITIONS},
		      contestants, count);
}

int main(int argument_count, char **arguments)
{
	CUcontext context;

	bench_start("first_touch", argument_count, arguments);
	bench_pin(0);
	bytes = (size_t)(bench_quick() ? 4 : 8) * MIB;
	source = malloc(bytes);
	BENCH_MUST(!source);
	memset(source, MARK, bytes);
	BENCH_MUST(cuInit(0));
	BENCH_MUST(cuDevicePrimaryCtxRetain(&context, 0));
	BENCH_MUST(cuCtxSetCurrent(context));
	BENCH_MUST(cuStreamCreate(&pair_stream, CU_STREAM_NON_BLOCKING));
	measure();
	return bench_finish();
}

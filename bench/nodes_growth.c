/* SPDX-License-Identifier: MIT */
/*
 * What scripts/nodes_growth.py runs on nodes: an exporter of much memory, or an importer of all of it.
 *
 *	nodes_growth export KIND COUNT   prints names, a line of digits each, and stays until its input ends
 *	nodes_growth import COUNT        reads them; imports COUNT of them, the same ones again if there are fewer
 *	nodes_growth copy COUNT          reads one, and copies 64 bytes of it COUNT times
 *
 * Kinds: *memory* is one piece of 2 MiB, *memories* are COUNT of them, *blocks* are COUNT blocks of 4 KiB of a pool.
 * The importer stops at each power of ten and at the end, prints how long the imports since the last stop took in
 * nanoseconds, median and slowest, and goes on when it reads a line. One that is refused is the last one: it says why.
 */
#include "nodes.h"

enum { MEMORY_BYTES = 2 << 20, BLOCK_BYTES = 4096, COUNT_MAX = 1 << 20 };

/* ---- The exporter ---- */

static void put_name(const void *name)
{
	print_name(name);
	putchar('\n');
}

static void export_memory(void)
{
	CUmemFabricHandle name;

	make_memory(MEMORY_BYTES, &name);
	put_name(&name);
}

/* The pool's name first. */
static void export_blocks(int count)
{
	CUmemPoolPtrExportData data;
	CUmemFabricHandle name;
	CUmemoryPool pool = make_pool(&name);
	CUdeviceptr block;

	puts("pool");
	put_name(&name);
	for (int i = 0; i < count; i++) {
		CHECK(cuMemAllocFromPoolAsync(&block, BLOCK_BYTES, pool, NULL));
		CHECK(cuMemPoolExportPointer(&data, block));
		put_name(&data);
	}
}

static void export(const char *kind, int count)
{
	if (!strcmp(kind, "blocks"))
		export_blocks(count);
	else
		for (int i = 0; i < (strcmp(kind, "memory") ? count : 1); i++)
			export_memory();
	puts("end");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

/* ---- The importer ---- */

static unsigned char names[COUNT_MAX][NAME_BYTES];
static uint64_t took_ns[COUNT_MAX];

/* Read names until "end"; returns how many. *ret_pool: the first is a pool's. */
static int read_names(int *ret_pool)
{
	char line[LINE_BYTES];
	int count = 0;

	*ret_pool = 0;
	while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n") != 0) {
		if (!strcmp(line, "pool\n")) {
			*ret_pool = 1;
			continue;
		}
		if (count == COUNT_MAX)
			exit(2);
		read_name(line, names[count++]);
	}
	return count;
}

static CUresult import_one(CUmemoryPool pool, void *name)
{
	CUmemGenericAllocationHandle memory;
	CUdeviceptr block;

	return pool ? cuMemPoolImportPointer(&block, pool, name)
		    : cuMemImportFromShareableHandle(&memory, name, FABRIC);
}

static void stop_at(int count, int since)
{
	qsort(took_ns + since, (size_t)(count - since), sizeof *took_ns, compare_ns);
	printf("%d %llu %llu\n", count, (unsigned long long)took_ns[since + (count - since) / 2],
	       (unsigned long long)took_ns[count - 1]);
	fflush(stdout);
	if (getchar() == EOF)
		exit(0);
}

static void import(int count)
{
	int pool_first, name_count = read_names(&pool_first), since = 0, next = 10;
	CUmemoryPool pool = NULL;

	if (name_count <= pool_first)
		exit(2);
	if (pool_first)
		CHECK(cuMemPoolImportFromShareableHandle(&pool, names[0], FABRIC, 0));
	for (int i = 0; i < count; i++) {
		int name = pool_first + i % (name_count - pool_first);
		uint64_t begin_ns = now_ns();
		CUresult result = import_one(pool, names[name]);
		took_ns[i] = now_ns() - begin_ns;
		if (result) {
			stop_at(i ? i : 1, since);
			printf("refused: %s\n", cenote_last_error());
			return;
		}
		if (i + 1 != next && i + 1 != count)
			continue;
		stop_at(i + 1, since);
		since = i + 1;
		next *= 10;
	}
}

static void copy(int count)
{
	CUmemGenericAllocationHandle memory;
	char bytes[64];
	int pool;

	read_names(&pool);
	CHECK(cuMemImportFromShareableHandle(&memory, names[0], FABRIC));
	CUdeviceptr address = map_memory(memory, MEMORY_BYTES);
	for (int i = 0; i < count; i++) {
		uint64_t begin_ns = now_ns();
		CHECK(cuMemcpyDtoH(bytes, address, sizeof bytes));
		took_ns[i] = now_ns() - begin_ns;
	}
	stop_at(count, 0);
}

int main(int argument_count, char **arguments)
{
	int count = argument_count > 2 ? atoi(arguments[argument_count - 1]) : 0;

	if (count < 1 || count > COUNT_MAX)
		return 2;
	start_cuda();
	if (!strcmp(arguments[1], "export") && argument_count == 4)
		export(arguments[2], count);
	else if (!strcmp(arguments[1], "copy"))
		copy(count);
	else
		import(count);
	return 0;
}

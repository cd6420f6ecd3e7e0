/* SPDX-License-Identifier: MIT */
/*
 * What one more object costs when there are many: streams, events, pools, shared pools, imported pools, importers. For
 * so many of a kind: how long each takes to create and to destroy, what a call on one of them takes beside the others,
 * and how much memory each adds to the process.
 *
 * Each kind and number has a process of its own. scale.c has the calls of a pool beside many blocks, bytes and
 * pointers.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "pair.h"

enum {
	OBJECTS_MAX = 10000,
	ONE_SHARED_DESCRIPTORS = 4, /* what a shared pool takes of the process's descriptors; an imported one takes 3 */
	SPARE_DESCRIPTORS = 64,
	REPETITIONS = 5,
	CALLS = 1000,
	USED_MAX = 64, /* objects on which these calls are: a pool that is used has memory */
	IMPORTERS_MAX = 1024,
	JOINS = 8, /* of which the median is taken */
	SHARED_BYTES = 4096,
};

static const unsigned long counts[] = {10, 100, 1000, OBJECTS_MAX};

/* ---- Kinds of objects ---- */

struct kind {
	const char *name, *group, *memory_group, *call_name;
	void (*create)(unsigned long index);
	void (*destroy)(unsigned long index);
	void (*call)(unsigned long index);
	unsigned descriptors; /* of each */
};

static union {
	CUstream stream;
	CUevent event;
	struct {
		CUmemoryPool pool;
		int descriptor;
	};
} objects[OBJECTS_MAX];

static CUmemPoolProps shareable = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				   .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				   .maxSize = 32 << 20};

static void create_stream(unsigned long i)
{
	BENCH_MUST(cuStreamCreate(&objects[i].stream, CU_STREAM_NON_BLOCKING));
}

static void destroy_stream(unsigned long i)
{
	BENCH_MUST(cuStreamDestroy(objects[i].stream));
}

static void call_stream(unsigned long i)
{
	BENCH_MUST(cuStreamSynchronize(objects[i].stream));
}

static void create_event(unsigned long i)
{
	BENCH_MUST(cuEventCreate(&objects[i].event, CU_EVENT_DISABLE_TIMING));
}

static void destroy_event(unsigned long i)
{
	BENCH_MUST(cuEventDestroy(objects[i].event));
}

static void call_event(unsigned long i)
{
	BENCH_MUST(cuEventRecord(objects[i].event, pair_stream));
}

static void create_pool(unsigned long i)
{
	BENCH_MUST(cuMemPoolCreate(&objects[i].pool, &shareable));
}

static void destroy_pool(unsigned long i)
{
	BENCH_MUST(cuMemPoolDestroy(objects[i].pool));
}

static void call_pool(unsigned long i)
{
	CUdeviceptr block;

	BENCH_MUST(cuMemAllocFromPoolAsync(&block, SHARED_BYTES, objects[i].pool, pair_stream));
	BENCH_MUST(cuMemFreeAsync(block, pair_stream));
}

static void create_shared(unsigned long i)
{
	create_pool(i);
	BENCH_MUST(cuMemPoolExportToShareableHandle(&objects[i].descriptor, objects[i].pool,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

static void destroy_shared(unsigned long i)
{
	close(objects[i].descriptor);
	destroy_pool(i);
}

static void call_shared(unsigned long i)
{
	CUmemPoolPtrExportData name;
	CUdeviceptr block;

	BENCH_MUST(cuMemAllocFromPoolAsync(&block, SHARED_BYTES, objects[i].pool, pair_stream));
	BENCH_MUST(cuMemPoolExportPointer(&name, block));
	BENCH_MUST(cuMemFreeAsync(block, pair_stream));
}

static const struct kind kinds[] = {
	{"streams", "Beside so many streams", "Memory of a stream, of so many", "synchronize an idle one",
	 create_stream, destroy_stream, call_stream, 0},
	{"events", "Beside so many events", "Memory of an event, of so many", "record one", create_event, destroy_event,
	 call_event, 0},
	{"pools", "Beside so many pools", "Memory of a pool, of so many", "allocate and free in one", create_pool,
	 destroy_pool, call_pool, 1},
	{"shared pools", "Beside so many shared pools", "Memory of a shared pool, of so many",
	 "allocate, export and free in one", create_shared, destroy_shared, call_shared, 1 + ONE_SHARED_DESCRIPTORS},
};

/* ---- Many of a kind ---- */

static const struct kind *kind;

struct crowd {
	unsigned long count;
	double call_ns, destroy_ns, bytes;
};

static double resident_bytes(void)
{
	unsigned long size, resident;
	FILE *file = fopen("/proc/self/statm", "re");

	BENCH_MUST(!file || fscanf(file, "%lu %lu", &size, &resident) != 2);
	fclose(file);
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double run_crowd(void *data)
{
	struct crowd *crowd = data;
	double before_bytes = resident_bytes();
	uint64_t start_ns = bench_now_ns();

	for (unsigned long i = 0; i < crowd->count; i++)
		kind->create(i);
	double create_ns = (double)(bench_now_ns() - start_ns) / (double)crowd->count;
	if (!crowd->bytes) /* later ones use again what the first were given */
		crowd->bytes = (resident_bytes() - before_bytes) / (double)crowd->count;
	unsigned long apart = crowd->count / USED_MAX + 1;
	for (unsigned long i = 0; i < crowd->count; i += apart)
		kind->call(i); /* not measured: what is made with the first call */
	start_ns = bench_now_ns();
	for (unsigned long i = 0, at = 0; i < CALLS; i++, at = at + apart < crowd->count ? at + apart : 0)
		kind->call(at);
	crowd->call_ns = (double)(bench_now_ns() - start_ns) / CALLS;
	start_ns = bench_now_ns();
	for (unsigned long i = 0; i < crowd->count; i++)
		kind->destroy(i);
	crowd->destroy_ns = (double)(bench_now_ns() - start_ns) / (double)crowd->count;
	return create_ns;
}

static double told(void *data)
{
	return *(double *)data;
}

static unsigned long descriptors_there_may_be(void)
{
	struct rlimit limit;

	BENCH_MUST(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max;
	BENCH_MUST(setrlimit(RLIMIT_NOFILE, &limit));
	return limit.rlim_cur - SPARE_DESCRIPTORS;
}

static unsigned long count;

static void measure_kind(void)
{
	struct crowd crowd = {.count = count};
	char name[32];

	snprintf(name, sizeof name, "%lu", count);
	if (count * kind->descriptors > descriptors_there_may_be()) {
		bench_absent(kind->group, name, "cenote", "more descriptors than a process may have here");
		return;
	}
	pair_start_library();
	struct bench_contestant contestants[] = {{.name = "cenote, create", .once = run_crowd, .data = &crowd},
						 {.name = kind->call_name, .once = told, .data = &crowd.call_ns},
						 {.name = "cenote, destroy", .once = told, .data = &crowd.destroy_ns}};
	bench_contest(&(struct bench_contest){.group = kind->group,
					      .name = name,
					      .repetitions = REPETITIONS,
					      .x = (double)count,
					      .x_name = "objects"},
		      contestants, 3);
	struct bench_contestant memory = {.name = "cenote", .once = told, .data = &crowd.bytes};
	bench_contest(&(struct bench_contest){.group = kind->memory_group,
					      .name = name,
					      .unit = "bytes",
					      .repetitions = 1,
					      .x = (double)count,
					      .x_name = "objects"},
		      &memory, 1);
}

/* ---- Importers of one pool ---- */

struct importer {
	int sock;
	double join_ns;
};

/* A process that imports a pool and a pointer, says how long that took, and stays until it is told to end. */
static void import_and_stay(int sock)
{
	CUmemPoolPtrExportData name;
	CUmemoryPool pool;
	CUdeviceptr block;
	double taken_ns;
	int descriptor;
	char byte;

	if (read(sock, &byte, 1) != 1) /* not needed */
		_exit(0);
	pair_start_library();
	BENCH_MUST(cenote_recv_descriptor(sock, &descriptor));
	get(sock, &name, sizeof name);
	uint64_t start_ns = bench_now_ns();
	BENCH_MUST(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)descriptor,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	BENCH_MUST(cuMemPoolImportPointer(&block, pool, &name));
	taken_ns = (double)(bench_now_ns() - start_ns);
	put(sock, &taken_ns, sizeof taken_ns);
	_exit(read(sock, &byte, 1) != 0);
}

static void fork_importers(struct importer *importers, unsigned importer_count)
{
	for (unsigned i = 0; i < importer_count; i++) {
		int pair[2];
		BENCH_MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		pid_t child = fork();
		BENCH_MUST(child < 0);
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (unsigned j = 0; j < i; j++) /* else their ends are not seen */
				close(importers[j].sock);
			close(pair[0]);
			import_and_stay(pair[1]);
		}
		close(pair[1]);
		importers[i].sock = pair[0];
	}
}

static double next_join(void *data)
{
	double **next = data;

	return *(*next)++;
}

static void measure_importers(void)
{
	static const unsigned crowds[] = {8, 64, 256, 1000, IMPORTERS_MAX};
	static struct importer importers[IMPORTERS_MAX];
	static double joins[IMPORTERS_MAX];
	unsigned most = bench_quick() ? 64 : IMPORTERS_MAX, joined = 0;
	CUmemPoolPtrExportData name;
	CUdeviceptr block;

	descriptors_there_may_be();
	fork_importers(importers, most);
	pair_start_library();
	create_shared(0);
	BENCH_MUST(cuMemAllocFromPoolAsync(&block, SHARED_BYTES, objects[0].pool, pair_stream));
	BENCH_MUST(cuMemPoolExportPointer(&name, block));
	double before_bytes = resident_bytes();
	for (unsigned i = 0; i < sizeof crowds / sizeof *crowds && crowds[i] <= most; i++) {
		for (; joined < crowds[i]; joined++) {
			struct importer *importer = &importers[joined];
			BENCH_MUST(write(importer->sock, "i", 1) != 1);
			BENCH_MUST(cenote_send_descriptor(importer->sock, objects[0].descriptor));
			put(importer->sock, &name, sizeof name);
			get(importer->sock, &joins[joined], sizeof *joins);
		}
		double *next = &joins[joined - JOINS], bytes = (resident_bytes() - before_bytes) / joined;
		char text[32];
		snprintf(text, sizeof text, "%u", joined);
		struct bench_contestant join = {
			.name = "cenote, one more imports its first pointer", .once = next_join, .data = &next};
		bench_contest(&(struct bench_contest){.group = "Beside so many importers",
						      .name = text,
						      .repetitions = JOINS - 1,
						      .x = joined,
						      .x_name = "importers"},
			      &join, 1);
		struct bench_contestant memory = {.name = "cenote, in the exporter", .once = told, .data = &bytes};
		bench_contest(&(struct bench_contest){.group = "Memory of an importer, of so many",
						      .name = text,
						      .unit = "bytes",
						      .repetitions = 1,
						      .x = joined,
						      .x_name = "importers"},
			      &memory, 1);
	}
	for (unsigned i = 0; i < most; i++)
		close(importers[i].sock);
	for (int status; wait(&status) > 0;)
		BENCH_MUST(status);
}

int main(int argument_count, char **arguments)
{
	bench_start("growth", argument_count, arguments);
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		kind = &kinds[i];
		for (unsigned j = 0; j < sizeof counts / sizeof *counts; j++) {
			count = counts[j];
			if (bench_wanted(kind->group, NULL) && (count <= 1000 || !bench_quick()))
				bench_in_child(measure_kind);
		}
	}
	if (bench_wanted("Beside so many importers", NULL))
		bench_in_child(measure_importers);
	return bench_finish();
}

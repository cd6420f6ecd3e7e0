/* SPDX-License-Identifier: MIT */
/*
 * What programs on a GPU do around pools, and tests without a GPU cannot: graphs, contexts that end with work under
 * way, green contexts.
 *
 *     bench-gpu_cases [WORD]      over the driver; under `cenote run` over Cenote; the cases with that word alone
 *
 * Each case must end without an error, and with the bytes that it wrote; its pool must be empty at the end.
 */
#include "gpu.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	BLOCKS = 64,
	BLOCK_BYTES = 1 << 20,
	WORDS = BLOCK_BYTES / 4,
	LOAD_BYTES = 256 << 20, /* a fill of it keeps a stream busy for a while */
	LOADS = 20,
	LAUNCHES = 50,
	CAPTURES = 100,
	PENDING_MAX = 100,
	ROUNDS = 10,
	RESOURCE_BYTES = 144, /* CUdevResource, which only the driver looks into */
	RESOURCE_SM = 1,
	GREEN_DEFAULT_STREAM = 1,
	GREEN_SM_COUNT = 16,
};

/* Beyond those of gpu.h; the types are those of NVIDIA's headers, as far as this code looks into them. */
static struct {
	CUresult (*begin_capture)(CUstream stream, CUstreamCaptureMode mode);
	CUresult (*end_capture)(CUstream stream, CUgraph *ret_graph);
	CUresult (*instantiate)(void **ret_runnable, CUgraph graph, unsigned long long flags);
	CUresult (*launch)(void *runnable, CUstream stream);
	CUresult (*end_runnable)(void *runnable);
	CUresult (*end_graph)(CUgraph graph);
	CUresult (*copy)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
	CUresult (*make_context)(CUcontext *ret_context, unsigned int flags, CUdevice device);
	CUresult (*end_context)(CUcontext context);
	CUresult (*pop_context)(CUcontext *ret_context);
	CUresult (*synchronise)(void);
	CUresult (*end_stream)(CUstream stream);
	CUresult (*pool_attribute)(CUmemoryPool pool, CUmemPool_attribute attribute, void *ret_value);
	CUresult (*resource)(CUdevice device, void *ret_resource, int type);
	CUresult (*split)(void *ret_groups, unsigned int *count, const void *resource, void *ret_rest,
			  unsigned int flags, unsigned int sm_count);
	CUresult (*describe)(void **ret_description, void *resources, unsigned int count);
	CUresult (*make_green)(void **ret_green, void *description, CUdevice device, unsigned int flags);
	CUresult (*end_green)(void *green);
	CUresult (*green_stream)(CUstream *ret_stream, void *green, unsigned int flags, int priority);
} more;

static const struct {
	void **function;
	const char *symbol;
} symbols[] = {
	{(void **)&more.begin_capture, "cuStreamBeginCapture_v2"},
	{(void **)&more.end_capture, "cuStreamEndCapture"},
	{(void **)&more.instantiate, "cuGraphInstantiateWithFlags"},
	{(void **)&more.launch, "cuGraphLaunch"},
	{(void **)&more.end_runnable, "cuGraphExecDestroy"},
	{(void **)&more.end_graph, "cuGraphDestroy"},
	{(void **)&more.copy, "cuMemcpyDtoDAsync_v2"},
	{(void **)&more.make_context, "cuCtxCreate_v2"},
	{(void **)&more.end_context, "cuCtxDestroy_v2"},
	{(void **)&more.pop_context, "cuCtxPopCurrent_v2"},
	{(void **)&more.synchronise, "cuCtxSynchronize"},
	{(void **)&more.end_stream, "cuStreamDestroy_v2"},
	{(void **)&more.pool_attribute, "cuMemPoolGetAttribute"},
	{(void **)&more.resource, "cuDeviceGetDevResource"},
	{(void **)&more.split, "cuDevSmResourceSplitByCount"},
	{(void **)&more.describe, "cuDevResourceGenerateDesc"},
	{(void **)&more.make_green, "cuGreenCtxCreate"},
	{(void **)&more.end_green, "cuGreenCtxDestroy"},
	{(void **)&more.green_stream, "cuGreenCtxStreamCreate"},
};

#define MORE(call)                                                       \
	do {                                                             \
		CUresult gpu_result = more.call;                         \
		if (__builtin_expect(gpu_result != CUDA_SUCCESS, 0))     \
			gpu_fail(gpu_result, #call, __FILE__, __LINE__); \
	} while (0)

static CUstream stream;
static CUmemoryPool pool;
static CUcontext primary;

static void open_more(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	BENCH_MUST(!library);
	for (unsigned i = 0; i < sizeof symbols / sizeof *symbols; i++)
		*symbols[i].function = gpu_symbol(library, symbols[i].symbol, true);
}

static CUdeviceptr take(size_t bytes, CUstream of)
{
	CUdeviceptr block;

	CU(cuMemAllocFromPoolAsync(&block, bytes, pool, of));
	return block;
}

/* The streams here do not wait for the legacy one, in which this copies: the caller has waited for its stream. */
static void check(CUdeviceptr block, unsigned wanted)
{
	unsigned found;

	CU(cuMemcpyDtoH(&found, block, sizeof found));
	if (found != wanted) {
		fprintf(stderr, "0x%x where 0x%x was written\n", found, wanted);
		exit(1);
	}
}

/* Work that takes a while, in memory of its own. */
static void load(CUstream of)
{
	CUdeviceptr block = take(LOAD_BYTES, of);

	for (unsigned i = 0; i < LOADS; i++)
		CU(cuMemsetD32Async(block, i, LOAD_BYTES / 4, of));
	CU(cuMemFreeAsync(block, of));
}

/* ---- A second thread that uses the pool meanwhile ---- */

static struct {
	pthread_t thread;
	_Atomic bool stop;
	bool waits; /* for its work, now and then: while another thread captures, it may not */
	_Atomic unsigned long rounds;
} user;

/* Allocates in one stream, writes, hands over to another by an event, which writes again and frees. */
static void *use_pool(void *unused)
{
	(void)unused;
	CU(cuCtxSetCurrent(primary));
	CUstream first = gpu_stream(), second = gpu_stream();
	CUevent event;
	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CUdeviceptr out = take(BLOCK_BYTES, first);
	unsigned number = 0;
	while (!atomic_load(&user.stop)) {
		number++;
		CUdeviceptr block = take(BLOCK_BYTES, first);
		CU(cuMemsetD32Async(block, number, WORDS, first));
		CU(cuEventRecord(event, first));
		CU(cuStreamWaitEvent(second, event, 0));
		MORE(copy(out, block, BLOCK_BYTES, second));
		CU(cuMemFreeAsync(block, second));
		CU(cuEventRecord(event, second));
		CU(cuStreamWaitEvent(first, event, 0));
		if (user.waits && number % PENDING_MAX == 0)
			CU(cuStreamSynchronize(second));
		atomic_fetch_add(&user.rounds, 1);
	}
	CU(cuStreamSynchronize(second));
	check(out, number);
	CU(cuMemFreeAsync(out, first));
	CU(cuStreamSynchronize(first));
	MORE(end_stream(first));
	MORE(end_stream(second));
	return NULL;
}

static void start_user(bool waits)
{
	user.waits = waits;
	atomic_store(&user.stop, false);
	atomic_store(&user.rounds, 0);
	BENCH_MUST(pthread_create(&user.thread, NULL, use_pool, NULL));
}

static void end_user(void)
{
	atomic_store(&user.stop, true);
	BENCH_MUST(pthread_join(user.thread, NULL));
	BENCH_MUST(!atomic_load(&user.rounds));
}

/* ---- Graphs ---- */

static void *end_and_instantiate(CUgraph *ret_graph)
{
	void *runnable;

	MORE(end_capture(stream, ret_graph));
	MORE(instantiate(&runnable, *ret_graph, 0));
	return runnable;
}

/* The graph has memory of its own, and writes into a block from outside; the pool is used beside it. */
static void case_graph_allocates(void)
{
	CUdeviceptr out = take(BLOCK_BYTES, stream), inside, block;
	CUgraph graph;

	MORE(begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CU(cuMemAllocFromPoolAsync(&inside, BLOCK_BYTES, pool, stream));
	CU(cuMemsetD32Async(inside, 7, WORDS, stream));
	MORE(copy(out, inside, BLOCK_BYTES, stream));
	CU(cuMemFreeAsync(inside, stream));
	void *runnable = end_and_instantiate(&graph);
	for (unsigned i = 0; i < LAUNCHES; i++) {
		block = take(BLOCK_BYTES, stream);
		CU(cuMemsetD32Async(block, i, WORDS, stream));
		MORE(launch(runnable, stream));
		CU(cuMemFreeAsync(block, stream));
	}
	CU(cuStreamSynchronize(stream));
	check(out, 7);
	MORE(end_runnable(runnable));
	MORE(end_graph(graph));
	CU(cuMemFreeAsync(out, stream));
}

/* A graph keeps the address of a block that is not freed, whatever else the pool hands out. */
static void case_graph_uses_a_block(void)
{
	CUdeviceptr block = take(BLOCK_BYTES, stream), others[BLOCKS];
	CUgraph graph;

	MORE(begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cuMemsetD32Async(block, 0xb10c, WORDS, stream));
	void *runnable = end_and_instantiate(&graph);
	for (unsigned i = 0; i < LAUNCHES; i++) {
		for (unsigned j = 0; j < BLOCKS; j++) {
			others[j] = take(BLOCK_BYTES, stream);
			CU(cuMemsetD32Async(others[j], j, 1, stream));
		}
		MORE(launch(runnable, stream));
		CU(cuStreamSynchronize(stream));
		for (unsigned j = 0; j < BLOCKS; j += BLOCKS - 1)
			check(others[j], j);
		for (unsigned j = 0; j < BLOCKS; j++)
			CU(cuMemFreeAsync(others[j], stream));
	}
	CU(cuStreamSynchronize(stream));
	check(block, 0xb10c);
	MORE(end_runnable(runnable));
	MORE(end_graph(graph));
	CU(cuMemFreeAsync(block, stream));
}

/* While a thread captures, in the strictest mode, another uses the pool: neither disturbs the other. */
static void case_captures_beside_a_thread(void)
{
	CUdeviceptr block = take(BLOCK_BYTES, stream);
	CUgraph graph;

	start_user(false);
	while (!atomic_load(&user.rounds))
		;
	for (unsigned i = 0; i < CAPTURES; i++) {
		unsigned long before = atomic_load(&user.rounds);
		MORE(begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
		CU(cuMemsetD32Async(block, i, WORDS, stream));
		while (atomic_load(&user.rounds) < before + 10)
			;
		MORE(end_capture(stream, &graph));
		MORE(end_graph(graph));
	}
	end_user();
	CU(cuMemFreeAsync(block, stream));
}

/* ---- Contexts that end ---- */

/* Its streams have freed blocks, and work is under way, while a thread of another context uses the same pool. */
static void case_context_ends_under_load(void)
{
	start_user(true);
	for (unsigned round = 0; round < ROUNDS; round++) {
		CUdeviceptr blocks[BLOCKS];
		CUcontext context, popped;
		MORE(make_context(&context, 0, 0));
		CUstream inside = gpu_stream();
		load(inside);
		for (unsigned i = 0; i < BLOCKS; i++) {
			blocks[i] = take(BLOCK_BYTES, inside);
			CU(cuMemsetD32Async(blocks[i], i, WORDS, inside));
		}
		for (unsigned i = 0; i < BLOCKS; i++)
			CU(cuMemFreeAsync(blocks[i], inside));
		MORE(pop_context(&popped));
		MORE(end_context(context));
		for (unsigned i = 0; i < BLOCKS; i++) {
			blocks[i] = take(BLOCK_BYTES, stream);
			CU(cuMemsetD32Async(blocks[i], round, WORDS, stream));
		}
		CU(cuStreamSynchronize(stream));
		for (unsigned i = 0; i < BLOCKS; i++) {
			check(blocks[i], round);
			CU(cuMemFreeAsync(blocks[i], stream));
		}
	}
	end_user();
}

/* ---- Green contexts ---- */

static void *make_green(void)
{
	static _Alignas(8) unsigned char all[RESOURCE_BYTES], group[RESOURCE_BYTES], rest[RESOURCE_BYTES];
	unsigned int count = 1;
	void *description, *green;

	MORE(resource(0, all, RESOURCE_SM));
	MORE(split(group, &count, all, rest, 0, GREEN_SM_COUNT));
	MORE(describe(&description, group, 1));
	MORE(make_green(&green, description, 0, GREEN_DEFAULT_STREAM));
	return green;
}

/* Blocks go from a green context's stream to an ordinary one and back; then it ends with frees under way. */
static void case_green_contexts(void)
{
	CUevent event;

	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (unsigned round = 0; round < ROUNDS; round++) {
		CUdeviceptr block, last = 0;
		CUstream inside;
		void *green = make_green();
		MORE(green_stream(&inside, green, CU_STREAM_NON_BLOCKING, 0));
		for (unsigned i = 0; i < BLOCKS; i++) {
			block = take(BLOCK_BYTES, inside);
			CU(cuMemsetD32Async(block, i, WORDS, inside));
			CU(cuEventRecord(event, inside));
			CU(cuStreamWaitEvent(stream, event, 0));
			if (last)
				CU(cuMemFreeAsync(last, inside));
			last = block;
		}
		CU(cuStreamSynchronize(stream));
		check(last, BLOCKS - 1);
		CU(cuMemFreeAsync(last, stream));
		load(inside);
		if (round % 2)
			MORE(end_stream(inside));
		MORE(end_green(green));
		block = take(LOAD_BYTES, stream);
		CU(cuMemsetD32Async(block, round, LOAD_BYTES / 4, stream));
		CU(cuStreamSynchronize(stream));
		check(block + LOAD_BYTES - 4, round);
		CU(cuMemFreeAsync(block, stream));
	}
}

static const struct {
	const char *name;
	void (*run)(void);
	bool refused; /* the driver's pools refuse a free in any thread, while another captures in that mode */
} cases[] = {
	{"a graph allocates", case_graph_allocates, false},
	{"a graph uses a block", case_graph_uses_a_block, false},
	{"captures beside a thread that uses the pool", case_captures_beside_a_thread, true},
	{"a context ends under load", case_context_ends_under_load, false},
	{"green contexts", case_green_contexts, false},
};

int main(int argc, char **argv)
{
	cuuint64_t used = 1;

	gpu_start();
	open_more();
	CU(cuDevicePrimaryCtxRetain(&primary, 0));
	stream = gpu_stream();
	pool = gpu_pool(CU_MEM_HANDLE_TYPE_NONE);
	printf("pools are %s\n", gpu_owner(pool));
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (argc > 1 && !strstr(cases[i].name, argv[1]))
			continue;
		if (cases[i].refused && strcmp(gpu_owner(pool), "Cenote's") != 0) {
			printf("%-45s not asked: the driver refuses it\n", cases[i].name);
			continue;
		}
		cases[i].run();
		MORE(synchronise());
		MORE(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
		printf("%-45s %s\n", cases[i].name, used ? "well, but the pool counts memory as used" : "well");
		fflush(stdout);
		if (used)
			return 1;
	}
	CU(cuMemPoolDestroy(pool));
	return 0;
}

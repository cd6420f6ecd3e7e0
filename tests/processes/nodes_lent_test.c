/* SPDX-License-Identifier: MIT */
/*
 * Copies between machines whose local operand lies in a memory file of Cenote's: the daemon is lent the file, and reads
 * and writes the operand where it lies. See nodes_test.c for the rest.
 *
 * What the daemon has mapped is read in /proc. A question to it comes after all that the program has told it before, so
 * afterwards it has given back what it should.
 */
#include "../nodes.h"
#include "../vmm.h"
#include "cenote/cenote.h"

#include <pthread.h>

#define FABRIC CU_MEM_HANDLE_TYPE_FABRIC

enum { MEMORY = 4 * VMM_GRAIN, FILES = 40, FILES_LENT_MAX = 32, ROUNDS = 20 / HARNESS_SLOWDOWN };

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

/* The channel, the connection to the daemon and its lanes stay open for as long as the process lives. */
static void start(void)
{
	leaks_watch(LEAK_DEFAULT & ~(unsigned)(LEAK_DESCRIPTORS | LEAK_MAPPINGS));
	vmm_start(0);
}

ROLE(exporter)
{
	CUmemAllocationProp properties = vmm_properties(CU_MEM_LOCATION_TYPE_DEVICE, 0, FABRIC);
	CUmemGenericAllocationHandle handle;
	CUmemFabricHandle name;

	start();
	ASSERT_OK(cuMemCreate(&handle, MEMORY, &properties, 0));
	ASSERT_OK(cuMemExportToShareableHandle(&name, handle, FABRIC, 0));
	peer_send_bytes(parent, &name, sizeof name);
	peer_expect(parent, "end");
	ASSERT_OK(cuMemRelease(handle));
}

/* What an importer is given. */
struct order {
	CUmemFabricHandle name;
	pid_t daemon; /* of its node */
};

static struct {
	struct order order;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr far;
	CUstream stream;
	unsigned char *bytes; /* MEMORY of them */
} own;

static void import(struct peer *parent)
{
	peer_receive_bytes(parent, &own.order, sizeof own.order);
	start();
	ASSERT_OK(cuMemImportFromShareableHandle(&own.handle, &own.order.name, FABRIC));
	own.far = vmm_map(own.handle, MEMORY, VMM_WRITE);
	ASSERT_OK(cuStreamCreate(&own.stream, CU_STREAM_NON_BLOCKING));
	own.bytes = malloc(MEMORY);
	ASSERT(own.bytes);
}

static void release(void)
{
	free(own.bytes);
	ASSERT_OK(cuStreamDestroy(own.stream));
	vmm_unmap(own.far, MEMORY);
	ASSERT_OK(cuMemRelease(own.handle));
}

/* How often the daemon has a file of this name mapped, once it has done all that this process told it. */
static unsigned lent_count(const char *name)
{
	char path[64], line[512];
	cenote_imex_node node;
	unsigned count = 0;

	ASSERT_OK(cenote_imex_look(0, &node));
	snprintf(path, sizeof path, "/proc/%d/maps", (int)own.order.daemon);
	FILE *file = fopen(path, "re");
	ASSERT(file);
	while (fgets(line, sizeof line, file))
		count += strstr(line, name) != NULL;
	fclose(file);
	return count;
}

static void make_pattern(unsigned seed)
{
	for (size_t i = 0; i < MEMORY; i++)
		own.bytes[i] = (unsigned char)((i * 2654435761u >> 13) + seed);
}

static void check_pattern(const unsigned char *bytes, size_t from, size_t count, unsigned seed)
{
	for (size_t i = 0; i < count; i++)
		if (bytes[i] != (unsigned char)(((from + i) * 2654435761u >> 13) + seed))
			FAIL("byte %zu of %zu is %u", i, count, bytes[i]);
}

/* From a local operand to the other node and back, at places that are no multiple of anything. */
static void go_there_and_back(CUdeviceptr near, size_t bytes, unsigned seed)
{
	size_t part = bytes - 777;
	unsigned char *back = malloc(bytes);

	ASSERT(back);
	make_pattern(seed);
	ASSERT_OK(cuMemcpyHtoDAsync(near, own.bytes, bytes, own.stream));
	ASSERT_OK(cuMemcpyDtoDAsync(own.far + 333, near + 100, part, own.stream));
	ASSERT_OK(cuMemsetD8Async(near, 0, bytes, own.stream));
	ASSERT_OK(cuMemcpyDtoDAsync(near + 1, own.far + 333, part, own.stream));
	ASSERT_OK(cuMemcpyDtoHAsync(back, near, bytes, own.stream));
	ASSERT_OK(cuStreamSynchronize(own.stream));
	ASSERT_EQ(0, back[0]);
	check_pattern(back + 1, 100, part, seed);
	for (size_t i = part + 1; i < bytes; i++)
		ASSERT_EQ(0, back[i]);
	free(back);
}

static void run_importer(const char *role)
{
	struct nodes_one nodes[2];
	struct order order;

	nodes_pair(nodes);
	nodes_enter(1);
	struct peer *exporter = peer_start("exporter");
	peer_receive_bytes(exporter, &order.name, sizeof order.name);
	order.daemon = nodes[1].daemon;
	nodes_enter(2);
	struct peer *importer = peer_start(role);
	peer_send_bytes(importer, &order, sizeof order);
	peer_wait(importer);
	peer_end(exporter);
	nodes_pair_end(nodes);
}

/* ---- Which memory ------------------------------------------------------------------------------------------------ */

ROLE(lender)
{
	CUdeviceptr large, small, block;
	CUmemGenericAllocationHandle handle;

	import(parent);
	ASSERT_OK(cuMemcpyHtoD(own.far, own.bytes, MEMORY));
	ASSERT_EQ(0, lent_count("memfd:cenote-heap"));
	ASSERT_OK(cuMemAlloc(&large, MEMORY - 4096));
	go_there_and_back(large, MEMORY - 4096, 2);
	ASSERT_EQ(1, lent_count("memfd:cenote-heap"));
	ASSERT_OK(cuMemFree(large));
	ASSERT_EQ(0, lent_count("memfd:cenote-heap"));
	ASSERT_OK(cuMemAlloc(&small, 100000));
	go_there_and_back(small, 100000, 3);
	ASSERT_EQ(1, lent_count("memfd:cenote-heap"));
	ASSERT_OK(cuMemFree(small));
	ASSERT_OK(cuMemAllocAsync(&block, MEMORY - 8192, own.stream));
	go_there_and_back(block, MEMORY - 8192, 4);
	ASSERT_EQ(1, lent_count("memfd:cenote-pool"));
	ASSERT_OK(cuMemFreeAsync(block, own.stream));
	handle = vmm_create(VMM_GRAIN);
	CUdeviceptr mapped = vmm_map(handle, VMM_GRAIN, VMM_WRITE);
	go_there_and_back(mapped, VMM_GRAIN, 5);
	ASSERT_EQ(1, lent_count("memfd:cenote-memory-1"));
	vmm_unmap(mapped, VMM_GRAIN);
	ASSERT_EQ(0, lent_count("memfd:cenote-memory-1"));
	/* Not if only the device may read it: nothing writes there. */
	mapped = vmm_map(handle, VMM_GRAIN, VMM_READ);
	ASSERT_OK(cuMemcpyDtoD(own.far, mapped, VMM_GRAIN));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_EQ(0, lent_count("memfd:cenote-memory-1"));
	vmm_unmap(mapped, VMM_GRAIN);
	ASSERT_OK(cuMemRelease(handle));
	release();
}

TEST(memory_of_cenotes_is_lent_and_given_back)
{
	run_importer("lender");
}

ROLE(lender_of_many)
{
	CUdeviceptr near[FILES];

	import(parent);
	for (int i = 0; i < FILES; i++)
		ASSERT_OK(cuMemAlloc(&near[i], VMM_GRAIN));
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < FILES; i++)
			go_there_and_back(near[i], VMM_GRAIN, round + i);
	ASSERT_EQ(FILES_LENT_MAX, lent_count("memfd:cenote-heap"));
	for (int i = 0; i < FILES; i++)
		ASSERT_OK(cuMemFree(near[i]));
	ASSERT_EQ(0, lent_count("memfd:cenote-heap"));
	release();
}

TEST(more_files_than_the_daemon_keeps)
{
	run_importer("lender_of_many");
}

enum { THREADS = 4 };

/* Each thread copies in memory that it allocates and frees, in a stream of its own. */
static void *copy_and_free(void *object)
{
	unsigned seed = (unsigned)(uintptr_t)object;
	CUdeviceptr far = own.far + (CUdeviceptr)seed * VMM_GRAIN, near;
	CUcontext context;
	CUstream stream;

	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned round = 0; round < ROUNDS; round++) {
		if (round % 2)
			ASSERT_OK(cuMemAlloc(&near, VMM_GRAIN));
		else
			ASSERT_OK(cuMemAllocAsync(&near, VMM_GRAIN, stream));
		ASSERT_OK(cuMemsetD8Async(near, (unsigned char)(seed + round), VMM_GRAIN, stream));
		ASSERT_OK(cuMemcpyDtoDAsync(far, near, VMM_GRAIN, stream));
		ASSERT_OK(cuMemsetD8Async(near, 0, VMM_GRAIN, stream));
		ASSERT_OK(cuMemcpyDtoDAsync(near, far, VMM_GRAIN, stream));
		ASSERT_OK(cuStreamSynchronize(stream));
		for (size_t at = 0; at < VMM_GRAIN; at += 4099)
			ASSERT_EQ((unsigned char)(seed + round), vmm_byte(near + at));
		if (round % 2)
			ASSERT_OK(cuMemFree(near));
		else
			ASSERT_OK(cuMemFreeAsync(near, stream));
	}
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuDevicePrimaryCtxRelease(0));
	return NULL;
}

ROLE(lender_of_threads)
{
	pthread_t threads[THREADS];

	import(parent);
	for (uintptr_t i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, copy_and_free, (void *)i));
	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_EQ(0, lent_count("memfd:cenote-heap"));
	release();
}

TEST(threads_lend_and_free_at_once, .timeout_ms = 60000)
{
	run_importer("lender_of_threads");
}

/* ---- A daemon that is stopped, or dies --------------------------------------------------------------------------- */

/* Copies into a block and frees it, in stream order, while the daemon is stopped. Is the block another's meanwhile? */
static void copy_while_stopped(struct peer *parent, bool is_killed)
{
	CUdeviceptr block, copy, others[8];
	CUmemoryPool pool;
	CUstream other;
	int no = 0;

	import(parent);
	ASSERT_OK(cuDeviceGetDefaultMemPool(&pool, 0));
	/* Else the other stream is given the block at once, and waits for this one. */
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no));
	ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	make_pattern(9);
	ASSERT_OK(cuMemcpyHtoD(own.far, own.bytes, MEMORY));
	ASSERT_OK(cuMemAlloc(&copy, MEMORY));
	ASSERT_OK(cuMemAllocAsync(&block, MEMORY, own.stream));
	ASSERT_OK(cuMemcpyDtoDAsync(block, own.far, MEMORY, own.stream)); /* from now on the daemon has the file */
	ASSERT_OK(cuStreamSynchronize(own.stream));
	ASSERT_OK(cuMemsetD8Async(block, 0, MEMORY, own.stream));
	ASSERT_OK(cuStreamSynchronize(own.stream));
	peer_send(parent, "stop it");
	peer_expect(parent, "stopped");
	ASSERT_OK(cuMemcpyDtoDAsync(block, own.far, MEMORY, own.stream));
	ASSERT_OK(cuMemcpyDtoDAsync(copy, block, MEMORY, own.stream));
	ASSERT_OK(cuMemFreeAsync(block, own.stream));
	for (int i = 0; i < 8; i++) {
		ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(own.stream));
		ASSERT_OK(cuMemAllocAsync(&others[i], MEMORY, other));
		ASSERT_NE(block, others[i]);
	}
	peer_send(parent, "go on");
	if (is_killed) {
		ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, cuStreamSynchronize(own.stream));
	} else {
		ASSERT_OK(cuStreamSynchronize(own.stream));
		ASSERT_OK(cuMemcpyDtoH(own.bytes, copy, MEMORY));
		check_pattern(own.bytes, 0, MEMORY, 9);
	}
	for (int i = 0; i < 8; i++)
		ASSERT_OK(cuMemFreeAsync(others[i], other));
	ASSERT_OK(cuStreamSynchronize(other));
	ASSERT_OK(cuMemFree(copy));
	ASSERT_OK(cuStreamDestroy(other));
	release();
}

ROLE(patient)
{
	copy_while_stopped(parent, false);
}

ROLE(bereaved)
{
	copy_while_stopped(parent, true);
}

static void stop_daemon_of(const char *role, bool is_killed)
{
	struct nodes_one nodes[2];
	struct order order;

	nodes_pair(nodes);
	nodes_enter(1);
	struct peer *exporter = peer_start("exporter");
	peer_receive_bytes(exporter, &order.name, sizeof order.name);
	order.daemon = nodes[1].daemon;
	nodes_enter(2);
	struct peer *importer = peer_start(role);
	peer_send_bytes(importer, &order, sizeof order);
	peer_expect(importer, "stop it");
	ASSERT_SYS(kill(nodes[1].daemon, SIGSTOP));
	peer_send(importer, "stopped");
	peer_expect(importer, "go on");
	if (is_killed) {
		nodes_end(&nodes[1], SIGKILL);
		nodes_start(2, &nodes[1]);
		nodes_await(&nodes[1], "node 1 is up"); /* it can be asked to end */
	} else {
		ASSERT_SYS(kill(nodes[1].daemon, SIGCONT));
	}
	peer_wait(importer);
	peer_end(exporter);
	nodes_pair_end(nodes);
}

TEST(a_block_is_not_reused_while_a_stopped_daemon_has_it)
{
	stop_daemon_of("patient", false);
}

TEST(a_stopped_daemon_that_is_killed_fails_the_stream)
{
	stop_daemon_of("bereaved", true);
}

/* ---- A program that dies ----------------------------------------------------------------------------------------- */

/* Copies for ever. */
ROLE(restless)
{
	CUdeviceptr near;

	import(parent);
	ASSERT_OK(cuMemAlloc(&near, MEMORY));
	for (unsigned round = 0;; round++) {
		ASSERT_OK(cuMemcpyDtoDAsync(near, own.far, MEMORY, own.stream));
		ASSERT_OK(cuMemcpyDtoDAsync(own.far, near, MEMORY, own.stream));
		if (round == 2)
			peer_send(parent, "copying");
		ASSERT_OK(cuStreamSynchronize(own.stream));
	}
}

/* Asks the daemon until it has nothing of the dead ones' mapped; the test's time limit is the end of it. */
ROLE(heir)
{
	import(parent);
	while (lent_count("memfd:cenote-heap"))
		;
	release();
}

TEST(a_killed_program_leaves_no_memory_with_the_daemon)
{
	struct nodes_one nodes[2];
	struct order order;

	nodes_pair(nodes);
	nodes_enter(1);
	struct peer *exporter = peer_start("exporter");
	peer_receive_bytes(exporter, &order.name, sizeof order.name);
	order.daemon = nodes[1].daemon;
	nodes_enter(2);
	for (int i = 0; i < 5; i++) {
		struct peer *importer = peer_start("restless");
		peer_send_bytes(importer, &order, sizeof order);
		peer_expect(importer, "copying");
		peer_kill(importer);
	}
	struct peer *heir = peer_start("heir");
	peer_send_bytes(heir, &order, sizeof order);
	peer_wait(heir);
	peer_end(exporter);
	nodes_pair_end(nodes);
}

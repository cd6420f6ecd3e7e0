/* SPDX-License-Identifier: MIT */
/*
 * A pool shared by descriptor and its blocks by name: many importers, many exporters, a pool that changes meanwhile.
 */
#include "../share.h"

#include <sys/stat.h>

SETUP
{
	share_start();
}

/* ---- Many -------------------------------------------------------------------------------------------------------- */

enum { PEERS = 32, BLOCK = 64 * 1024 };

/* Goal: any number of processes import a pool over one descriptor, hold a block at once, and write into it. */
TEST(one_exporter_and_32_importers, .timeout_ms = 120000)
{
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	struct peer *agents[PEERS];
	int descriptor = share_export(pool);
	CUmemPoolPtrExportData name = share_name(block);

	share_fill(block, 0x5a, BLOCK);
	for (unsigned i = 0; i < PEERS; i++)
		agents[i] = peer_start("agent");
	for (unsigned i = 0; i < PEERS; i++) {
		agent_import(agents[i], 0, descriptor);
		agent_take(agents[i], 0, name);
		ASSERT_EQ(0x5a, agent_byte(agents[i], 0, BLOCK - 1));
		agent_fill(agents[i], 0, i + 1, i + 1);
	}
	close(descriptor);
	for (unsigned i = 0; i < PEERS; i++) /* each has written over what the one before it wrote */
		ASSERT_EQ(PEERS, share_byte(block + i));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	for (unsigned i = 0; i < PEERS; i++) {
		ASSERT_EQ(BLOCK, share_used(pool)); /* not before the last has let go */
		ASSERT_EQ(0x5a, agent_byte(agents[i], 0, BLOCK - 1));
		agent_free(agents[i], 0);
		agent_destroy(agents[i], 0);
		agent_end(agents[i]);
	}
	share_await_used(pool, 0);
	share_fill_whole(pool, SHARE_CHUNK, SHARE_MIB, 0);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a process imports the pools of many others and keeps them apart. */
TEST(an_importer_of_32_exporters, .timeout_ms = 120000)
{
	struct peer *agents[PEERS];
	CUmemoryPool pools[PEERS];
	CUdeviceptr blocks[PEERS], wrong;
	CUmemPoolPtrExportData names[PEERS];
	int descriptors[PEERS];

	for (unsigned i = 0; i < PEERS; i++) {
		agents[i] = agent_exporter(SHARE_CHUNK, &descriptors[i]);
		names[i] = agent_allocate(agents[i], 0, BLOCK, 0x40 + i);
		pools[i] = share_import(descriptors[i]);
		close(descriptors[i]);
	}
	for (unsigned i = 0; i < PEERS; i++) {
		blocks[i] = share_take(pools[i], names[i]);
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE,
			     cuMemPoolImportPointer(&wrong, pools[i], &names[(i + 1) % PEERS]));
		ASSERT_CONTAINS("another pool", cenote_last_error());
	}
	for (unsigned i = 0; i < PEERS; i++) {
		ASSERT_EQ(0x40 + i, share_byte(blocks[i] + BLOCK - 1));
		share_fill(blocks[i], i, 1);
		ASSERT_EQ(i, agent_byte(agents[i], 0, 0));
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
		ASSERT_OK(cuMemPoolDestroy(pools[i]));
		agent_free(agents[i], 0);
		agent_destroy(agents[i], 0);
		agent_end(agents[i]);
	}
}

/* ---- Descriptors ------------------------------------------------------------------------------------------------- */

/* Goal: an importer may pass a pool's descriptor on, and need not stay for it. */
TEST(a_descriptor_passed_on_by_an_importer)
{
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	struct peer *first = agent_importer(pool), *second = peer_start("agent");

	share_fill(block, 0x21, BLOCK);
	agent_must(first, (struct agent_order){.call = AGENT_PASS}, -1);
	int descriptor = peer_receive_descriptor(first);
	agent_destroy(first, 0);
	agent_end(first);
	agent_import(second, 0, descriptor);
	close(descriptor);
	agent_take(second, 0, share_name(block));
	ASSERT_EQ(0x21, agent_byte(second, 0, BLOCK - 1));
	agent_free(second, 0);
	agent_destroy(second, 0);
	agent_end(second);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Import from the descriptor that the program was executed with. */
ROLE(heir)
{
	int descriptor = atoi(argv[0]);
	CUmemPoolPtrExportData name;

	peer_receive_bytes(parent, &name, sizeof name);
	CUmemoryPool pool = share_import(descriptor);
	CUdeviceptr block = share_take(pool, name);
	ASSERT_EQ(0x3c, share_byte(block));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_EQ(0, fcntl(descriptor, F_GETFD));
}

/* Goal: an exported descriptor is the program's, and as the driver's: a program that is executed has it as well. */
TEST(a_descriptor_is_inherited)
{
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	int descriptor = share_export(pool), moved;
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	CUmemPoolPtrExportData name = share_name(block);
	char number[16];

	ASSERT_GT(descriptor, STDERR_FILENO);
	ASSERT_EQ(0, fcntl(descriptor, F_GETFD));
	ASSERT_SYS(moved = fcntl(descriptor, F_DUPFD, 100)); /* out of the way of those that the new program opens */
	close(descriptor);
	share_fill(block, 0x3c, BLOCK);
	snprintf(number, sizeof number, "%d", moved);
	struct peer *heir = peer_start("heir", number);
	peer_send_bytes(heir, &name, sizeof name);
	peer_wait(heir);
	close(moved);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: an import leaves the descriptor as it was. */
TEST(a_descriptor_is_not_consumed)
{
	int descriptor;
	struct peer *agent = agent_exporter(SHARE_CHUNK, &descriptor);
	struct stat before, after;

	ASSERT_SYS(fstat(descriptor, &before));
	for (int i = 0; i < 3; i++) {
		CUmemoryPool imported = share_import(descriptor);
		ASSERT_EQ(FD_CLOEXEC, fcntl(descriptor, F_GETFD));
		ASSERT_SYS(fstat(descriptor, &after));
		ASSERT_EQ(before.st_ino, after.st_ino);
		ASSERT_OK(cuMemPoolDestroy(imported));
	}
	close(descriptor);
	agent_destroy(agent, 0);
	agent_end(agent);
}

/* Goal: what a pool's exports keep open, mapped and running is gone when the pool is, however often that happens. */
TEST(sharing_again_and_again_leaves_nothing)
{
	leaks_watch(LEAK_DEFAULT | (test_on_gpu() ? 0 : LEAK_THREADS)); /* a driver's run streams, and stay a while */
	for (int i = 0; i < 40; i++) {
		CUmemoryPool pool = share_pool(SHARE_CHUNK);
		int descriptor = share_export(pool);
		CUmemoryPool imported = share_import(descriptor);
		CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
		CUdeviceptr taken = share_take(imported, share_name(block));
		close(descriptor);
		if (i % 2)
			ASSERT_OK(cuMemPoolDestroy(pool)); /* it lives on with its block */
		ASSERT_OK(cuMemFreeAsync(taken, NULL));
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		ASSERT_OK(cuMemPoolDestroy(imported));
		if (i % 2 == 0)
			ASSERT_OK(cuMemPoolDestroy(pool));
	}
}

/*
 * Goal: the memory of a shared pool has gone to the device when the pool is destroyed, or when the program has waited
 * for its last block to be freed; as that of any other pool.
 */
TEST(memory_of_a_shared_pool_has_gone_when_it_is_destroyed)
{
	cuuint64_t keep = UINT64_MAX;
	size_t total, before = 0, after;

	for (int i = 0; i < 100; i++) {
		CUmemoryPool pool = share_pool(SHARE_CHUNK);
		ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
		CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
		close(share_export(pool));
		share_name(block);
		if (i % 2) {
			ASSERT_OK(cuMemFreeAsync(block, NULL));
			ASSERT_OK(cuStreamSynchronize(NULL));
			ASSERT_OK(cuMemPoolDestroy(pool));
		} else {
			ASSERT_OK(cuMemPoolDestroy(pool));
			ASSERT_OK(cuMemFreeAsync(block, NULL));
			ASSERT_OK(cuStreamSynchronize(NULL));
		}
		ASSERT_OK(cuMemGetInfo(&after, &total));
		if (i && !test_has_gpu()) /* on one, other programs have memory as well */
			ASSERT_EQ(before, after);
		before = after;
	}
}

/* ---- Twice, and at home ------------------------------------------------------------------------------------------ */

/* Goal: a pool that is imported twice is one pool, as the driver's, and is gone with the second destruction. */
TEST(the_same_pool_imported_twice)
{
	int descriptor;
	struct peer *agent = agent_exporter(SHARE_CHUNK, &descriptor);
	CUmemPoolPtrExportData name = agent_allocate(agent, 0, BLOCK, 0x33);
	CUmemoryPool first = share_import(descriptor), second = share_import(descriptor);
	CUdeviceptr one = share_take(first, name), other = share_take(second, name);

	close(descriptor);
	ASSERT_EQ(first, second);
	ASSERT_EQ(one, other);
	agent_free(agent, 0);
	ASSERT_OK(cuMemFreeAsync(one, NULL));
	ASSERT_EQ(0x33, share_byte(other + BLOCK - 1));
	ASSERT_EQ(BLOCK, agent_must(agent, (struct agent_order){.call = AGENT_USED}, -1).value);
	ASSERT_OK(cuMemFreeAsync(other, NULL));
	ASSERT_OK(cuMemPoolDestroy(first));
	name = agent_allocate(agent, 1, BLOCK, 0x34);
	one = share_take(second, name);
	ASSERT_EQ(0x34, share_byte(one));
	ASSERT_OK(cuMemFreeAsync(one, NULL));
	agent_free(agent, 1);
	while (agent_must(agent, (struct agent_order){.call = AGENT_USED}, -1).value)
		sched_yield();
	ASSERT_OK(cuMemPoolDestroy(second));
	ASSERT_NE(CUDA_SUCCESS, cuMemPoolDestroy(second));
	agent_destroy(agent, 0);
	agent_end(agent);
}

/* Goal: the exporter can import its own pool, and the rules are the same. */
TEST(imported_in_the_exporter_itself)
{
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	int descriptor = share_export(pool);
	CUmemoryPool imported = share_import(descriptor);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL), taken = share_take(imported, share_name(block)), none;

	close(descriptor);
	ASSERT_NE(block, taken);
	share_fill(block, 0x11, BLOCK);
	ASSERT_EQ(0x11, share_byte(taken + BLOCK - 1));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&descriptor, imported, SHARE_POSIX, 0));
	ASSERT_NE(CUDA_SUCCESS, cuMemAllocFromPoolAsync(&none, BLOCK, imported, NULL));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_EQ(BLOCK, share_used(pool));
	ASSERT_EQ(0x11, share_byte(taken));
	ASSERT_OK(cuMemFreeAsync(taken, NULL));
	share_await_used(pool, 0);
	share_fill_whole(pool, SHARE_CHUNK, SHARE_MIB, block);
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuMemPoolDestroy(imported));
}

/* ---- A pool that changes ----------------------------------------------------------------------------------------- */

enum { STEPS = 200, STEP_BYTES = SHARE_MIB };

/* Take a name, look at the block, keep it; as many as there are. */
ROLE(follower)
{
	unsigned count = (unsigned)atoi(argv[0]);
	CUdeviceptr *blocks = calloc(count, sizeof *blocks);
	CUmemPoolPtrExportData name;
	int descriptor = peer_receive_descriptor(parent);

	ASSERT(blocks);
	CUmemoryPool pool = share_import(descriptor);
	close(descriptor);
	for (unsigned i = 0; i < count; i++) {
		peer_receive_bytes(parent, &name, sizeof name);
		blocks[i] = share_take(pool, name);
		ASSERT_EQ(i % 251, share_byte(blocks[i]));
		ASSERT_EQ(i % 251, share_byte(blocks[i] + STEP_BYTES - 1));
	}
	peer_send(parent, "all");
	peer_expect(parent, "free");
	for (unsigned i = 0; i < count; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
	free(blocks);
}

/* Goal: blocks are imported while their pool grows; no process has to tell another. */
TEST(imports_while_the_pool_grows, .timeout_ms = 60000)
{
	CUmemoryPool pool = share_pool(0);
	struct peer *follower = peer_start("follower", "200");
	CUdeviceptr blocks[STEPS];
	int descriptor = share_export(pool);

	peer_send_descriptor(follower, descriptor);
	close(descriptor);
	for (unsigned i = 0; i < STEPS; i++) {
		blocks[i] = share_allocate(pool, STEP_BYTES, NULL);
		share_fill(blocks[i], i % 251, STEP_BYTES);
		CUmemPoolPtrExportData name = share_name(blocks[i]);
		peer_send_bytes(follower, &name, sizeof name);
	}
	peer_expect(follower, "all");
	for (unsigned i = 0; i < STEPS; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
	ASSERT_EQ((uint64_t)STEPS * STEP_BYTES, share_used(pool));
	peer_send(follower, "free");
	peer_wait(follower);
	share_await_used(pool, 0);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a pool gives all its memory back and takes new, again and again, and its importer sees what is there now. */
TEST(importers_follow_a_pool_that_grows_and_shrinks, .timeout_ms = 60000)
{
	enum { ROUNDS = 10, BLOCKS = 24, BYTES = 2 * SHARE_MIB };
	CUmemoryPool pool = share_pool(0);
	struct peer *agent = agent_importer(pool);
	CUdeviceptr blocks[BLOCKS];
	cenote_pool_statistics statistics;

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < BLOCKS; i++) {
			blocks[i] = share_allocate(pool, BYTES, NULL);
			share_fill(blocks[i], (round * BLOCKS + i) % 251, BYTES);
			agent_take(agent, i, share_name(blocks[i]));
		}
		for (unsigned i = 0; i < BLOCKS; i++) {
			ASSERT_EQ((round * BLOCKS + i) % 251, agent_byte(agent, i, BYTES - 1));
			agent_fill(agent, i, 250 - i, 1);
			ASSERT_EQ(250 - i, share_byte(blocks[i]));
			agent_free(agent, i);
			ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
		}
		agent_synchronize(agent);
		share_await_used(pool, 0);
		ASSERT_OK(cuMemPoolTrimTo(pool, 0));
		ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
		ASSERT_EQ(0, statistics.reserved_bytes);
	}
	agent_destroy(agent, 0);
	agent_end(agent);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: trimming leaves the bytes of a block that was freed and is still held by an importer. */
TEST(trimming_spares_what_an_importer_holds)
{
	CUmemoryPool pool = share_pool(0);
	struct peer *agent = agent_importer(pool);
	CUdeviceptr before = share_allocate(pool, SHARE_CHUNK, NULL), block = share_allocate(pool, BLOCK, NULL);
	cenote_pool_statistics statistics;

	share_fill(block, 0x77, BLOCK);
	agent_take(agent, 0, share_name(block));
	ASSERT_OK(cuMemFreeAsync(before, NULL));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	ASSERT_LE(BLOCK, statistics.reserved_bytes);
	ASSERT_GT(SHARE_CHUNK, statistics.reserved_bytes - BLOCK);
	ASSERT_EQ(0x77, agent_byte(agent, 0, 0));
	ASSERT_EQ(0x77, agent_byte(agent, 0, BLOCK - 1));
	agent_free(agent, 0);
	agent_synchronize(agent);
	share_await_used(pool, 0);
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	ASSERT_EQ(0, statistics.reserved_bytes);
	agent_destroy(agent, 0);
	agent_end(agent);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- A million --------------------------------------------------------------------------------------------------- */

enum {
	BATCH = 1000,
	BATCHES_LIVE = 50, /* so many are held at the same time */
	ROUNDS = 20 / HARNESS_SLOWDOWN / HARNESS_SLOWDOWN + 1,
	SMALL = 512,
	SAMPLE = 97,
};

/* Take all names of a round, look at some, free all. */
ROLE(collector)
{
	static CUmemPoolPtrExportData names[BATCH];
	static CUdeviceptr blocks[BATCHES_LIVE * BATCH];
	int descriptor = peer_receive_descriptor(parent);
	CUmemoryPool pool = share_import(descriptor);
	uint64_t stamp;

	close(descriptor);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < BATCHES_LIVE * BATCH; i++) {
			if (i % BATCH == 0)
				peer_receive_bytes(parent, names, sizeof names);
			blocks[i] = share_take(pool, names[i % BATCH]);
			if (i % SAMPLE)
				continue;
			ASSERT_OK(cuMemcpyDtoH(&stamp, blocks[i], sizeof stamp));
			ASSERT_EQ((uint64_t)round << 32 | i, stamp);
		}
		for (unsigned i = 0; i < BATCHES_LIVE * BATCH; i++)
			ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
		ASSERT_OK(cuStreamSynchronize(NULL));
		peer_send(parent, "freed");
	}
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: 10^6 allocations are exported and imported, tens of thousands of them at a time, and all come back. */
TEST(a_million_allocations, .timeout_ms = 120000)
{
	static CUmemPoolPtrExportData names[BATCH];
	static CUdeviceptr blocks[BATCHES_LIVE * BATCH];
	CUmemoryPool pool = share_pool(0);
	struct peer *collector = peer_start("collector");
	int descriptor = share_export(pool);

	peer_send_descriptor(collector, descriptor);
	close(descriptor);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < BATCHES_LIVE * BATCH; i++) {
			uint64_t stamp = (uint64_t)round << 32 | i;
			blocks[i] = share_allocate(pool, SMALL, NULL);
			names[i % BATCH] = share_name(blocks[i]);
			if (i % SAMPLE == 0)
				ASSERT_OK(cuMemcpyHtoD(blocks[i], &stamp, sizeof stamp));
			if (i % BATCH == BATCH - 1) {
				if (test_on_gpu()) /* where a copy may return before it is there */
					ASSERT_OK(cuStreamSynchronize(NULL));
				peer_send_bytes(collector, names, sizeof names);
			}
		}
		if (round % 2) /* in turn: freed early, and freed in order */
			peer_expect(collector, "freed");
		for (unsigned i = 0; i < BATCHES_LIVE * BATCH; i++)
			ASSERT_OK(cuMemFreeAsync(blocks[i], NULL));
		if (round % 2 == 0)
			peer_expect(collector, "freed");
	}
	peer_wait(collector);
	share_await_used(pool, 0);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Names and streams ------------------------------------------------------------------------------------------- */

/* Names that come through a pipe, a byte at a time. */
ROLE(pipe_reader)
{
	int descriptor = peer_receive_descriptor(parent), reader = peer_receive_descriptor(parent);
	CUmemoryPool pool = share_import(descriptor);
	union {
		CUmemPoolPtrExportData name;
		char bytes[sizeof(CUmemPoolPtrExportData)];
	} got;

	for (size_t i = 0; i < sizeof got; i++)
		ASSERT_EQ(1, read(reader, &got.bytes[i], 1));
	CUdeviceptr block = share_take(pool, got.name);
	ASSERT_EQ(0x66, share_byte(block + BLOCK - 1));
	share_fill(block, 0x67, 1);
	ASSERT_OK(cuMemFree(block));
	ASSERT_OK(cuMemPoolDestroy(pool));
	close(reader);
	close(descriptor);
}

/* Goal: a name is bytes, and may travel by any means. */
TEST(names_travel_by_any_means)
{
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	struct peer *reader = peer_start("pipe_reader");
	int ends[2], descriptor = share_export(pool);
	CUmemPoolPtrExportData name = share_name(block);

	share_fill(block, 0x66, BLOCK);
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	peer_send_descriptor(reader, descriptor);
	peer_send_descriptor(reader, ends[0]);
	close(ends[0]);
	close(descriptor);
	ASSERT_EQ(sizeof name, (size_t)write(ends[1], &name, sizeof name));
	peer_wait(reader);
	ASSERT_EQ(0x67, share_byte(block));
	close(ends[1]);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: exporting and importing a pointer wait for no stream, neither the allocating one nor the importer's. */
TEST(nothing_waits_for_a_blocked_stream)
{
	CUmemoryPool pool = share_pool(SHARE_CHUNK);
	CUstream stream = share_stream();
	struct share_gate gate = share_gate_make();
	struct peer *agent = agent_importer(pool);

	share_gate_close(gate.reader, stream);
	agent_close_gate(agent, &gate);
	CUdeviceptr block = share_allocate(pool, BLOCK, stream);
	ASSERT_OK(cuMemsetD8Async(block, 0x44, BLOCK, stream));
	CUmemPoolPtrExportData name = share_name(block);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	agent_take(agent, 0, name);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	share_gate_open(&gate);
	share_gate_open(&gate);
	ASSERT_OK(cuStreamSynchronize(stream));
	agent_synchronize(agent);
	ASSERT_EQ(0x44, agent_byte(agent, 0, BLOCK - 1));
	agent_free(agent, 0);
	agent_destroy(agent, 0);
	agent_end(agent);
	ASSERT_OK(cuMemFreeAsync(block, stream));
	ASSERT_OK(cuStreamDestroy(stream));
	share_gate_free(&gate);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

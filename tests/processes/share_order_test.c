/* SPDX-License-Identifier: MIT */
/*
 * The order of frees: a block that two processes have is reused when both have freed it, and not before.
 */
#include "../share.h"

SETUP
{
	share_start();
}

enum { BLOCK = SHARE_MIB, POOL = SHARE_CHUNK };

static uint64_t agent_used(struct peer *agent)
{
	return agent_must(agent, (struct agent_order){.call = AGENT_USED}, -1).value;
}

/* A block of a pool that an agent has imported as its block 0. */
static CUdeviceptr shared_block(CUmemoryPool pool, struct peer *agent, unsigned value)
{
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);

	share_fill(block, value, BLOCK);
	agent_take(agent, 0, share_name(block));
	return block;
}

/* No allocation touches a block, in many of them; whatever is handed out is written over. */
static void allocate_around(CUmemoryPool pool, CUdeviceptr block, size_t bytes)
{
	for (unsigned i = 0; i < 1000; i++) {
		size_t size = (size_t)512 << i % 12;
		CUdeviceptr other = share_allocate(pool, size, NULL);
		ASSERT(other + size <= block || block + bytes <= other);
		ASSERT_OK(cuMemsetD8Async(other, 0xee, size, NULL));
		ASSERT_OK(cuMemFreeAsync(other, NULL));
	}
	ASSERT_OK(cuStreamSynchronize(NULL));
}

static void agent_leaves(struct peer *agent)
{
	agent_destroy(agent, 0);
	agent_end(agent);
}

/* ---- The exporter first ------------------------------------------------------------------------------------------ */

/* Goal: the importer goes on reading its own bytes when the exporter has freed, and then the block is used again. */
TEST(exporter_frees_first)
{
	CUmemoryPool pool = share_pool(POOL);
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = shared_block(pool, agent, 0x11);

	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(block, NULL));
	if (share_is_checked())
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(block, "", 1));
	allocate_around(pool, block, BLOCK);
	for (unsigned at = 0; at < BLOCK; at += 4096)
		ASSERT_EQ(0x11, agent_byte(agent, 0, at));
	ASSERT_EQ(BLOCK, share_used(pool));
	agent_fill(agent, 0, 0x12, BLOCK);
	allocate_around(pool, block, BLOCK);
	ASSERT_EQ(0x12, agent_byte(agent, 0, BLOCK - 1));
	agent_free(agent, 0);
	share_await_used(pool, 0);
	share_fill_whole(pool, POOL, BLOCK, block);
	agent_leaves(agent);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: destroying the pool first takes nothing from the importer either. */
TEST(exporter_destroys_the_pool_first)
{
	CUmemoryPool pool = share_pool(POOL);
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = shared_block(pool, agent, 0x13);
	CUdeviceptr other = share_allocate(pool, BLOCK, NULL);
	CUmemPoolPtrExportData name = share_name(other);

	ASSERT_OK(cuMemPoolDestroy(pool));
	agent_take(agent, 1, name); /* it lives on with its blocks */
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuMemFreeAsync(other, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_EQ(0x13, agent_byte(agent, 0, BLOCK - 1));
	agent_free(agent, 0);
	agent_free(agent, 1);
	agent_synchronize(agent);
	struct agent_order order = {.call = AGENT_TAKE, .block = 2, .name = name};
	struct agent_answer answer = agent_do(agent, &order, -1);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, answer.result);
	ASSERT_NE(0, strlen(answer.sentence));
	agent_leaves(agent);
}

/* Goal: a free that the exporter's stream has not reached ends nothing: the block can still be imported. */
TEST(exporters_free_waits_for_its_stream)
{
	CUmemoryPool pool = share_pool(POOL);
	CUstream stream = share_stream();
	struct share_gate gate = share_gate_make();
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	CUmemPoolPtrExportData name = share_name(block);

	share_fill(block, 0x21, BLOCK);
	share_gate_close(gate.reader, stream);
	ASSERT_OK(cuMemFreeAsync(block, stream));
	agent_take(agent, 0, name);
	ASSERT_EQ(0x21, agent_byte(agent, 0, BLOCK - 1));
	agent_free(agent, 0);
	agent_synchronize(agent);
	agent_take(agent, 0, name); /* and once more */
	allocate_around(pool, block, BLOCK);
	ASSERT_EQ(0x21, agent_byte(agent, 0, 0));
	share_gate_open(&gate);
	ASSERT_OK(cuStreamSynchronize(stream));
	allocate_around(pool, block, BLOCK);
	ASSERT_EQ(0x21, agent_byte(agent, 0, 0));

	struct peer *late = agent_importer(pool);
	struct agent_order order = {.call = AGENT_TAKE, .name = name};
	struct agent_answer answer = agent_do(late, &order, -1);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, answer.result);
	ASSERT_CONTAINS("has freed", answer.sentence);
	agent_leaves(late);
	agent_free(agent, 0);
	share_await_used(pool, 0);
	share_fill_whole(pool, POOL, BLOCK, block);
	agent_leaves(agent);
	ASSERT_OK(cuStreamDestroy(stream));
	share_gate_free(&gate);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a name whose block was freed is refused, also when another block lies there and has a name of its own. */
TEST(a_stale_name_is_refused)
{
	CUmemoryPool pool = share_pool(POOL);
	struct peer *agent = agent_importer(pool);

	for (unsigned i = 0; i < 20; i++) {
		CUdeviceptr block = share_allocate(pool, POOL, NULL);
		struct agent_order stale = {.call = AGENT_TAKE, .block = 1, .name = share_name(block)};
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		ASSERT_OK(cuStreamSynchronize(NULL));
		struct agent_answer answer = agent_do(agent, &stale, -1);
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, answer.result);
		ASSERT_CONTAINS("has freed", answer.sentence);

		CUdeviceptr again = share_allocate(pool, POOL, NULL); /* the pool has room for one */
		ASSERT_EQ(block, again);
		CUmemPoolPtrExportData name = share_name(again);
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, agent_do(agent, &stale, -1).result);
		agent_take(agent, 0, name);
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, agent_do(agent, &stale, -1).result);
		agent_free(agent, 0);
		agent_synchronize(agent);
		ASSERT_OK(cuMemFreeAsync(again, NULL));
		ASSERT_OK(cuStreamSynchronize(NULL));
		share_await_used(pool, 0);
	}
	agent_leaves(agent);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- The importer ------------------------------------------------------------------------------------------------ */

/* Goal: an importer's free acts when its stream has come to it. */
TEST(importers_free_waits_for_its_stream)
{
	CUmemoryPool pool = share_pool(POOL);
	struct share_gate gate = share_gate_make();
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = shared_block(pool, agent, 0x31);

	agent_close_gate(agent, &gate);
	agent_free(agent, 0);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	allocate_around(pool, block, BLOCK);
	ASSERT_EQ(BLOCK, share_used(pool));
	share_gate_open(&gate);
	share_await_used(pool, 0);
	share_fill_whole(pool, POOL, BLOCK, block);
	agent_leaves(agent);
	share_gate_free(&gate);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a pool destroyed by its importer behind a blocked stream holds what it held until the stream goes on. */
TEST(importer_destroys_the_pool_before_its_stream_is_there)
{
	CUmemoryPool pool = share_pool(POOL);
	struct share_gate gate = share_gate_make();
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = shared_block(pool, agent, 0x32);

	agent_close_gate(agent, &gate);
	agent_free(agent, 0);
	agent_destroy(agent, 0);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	allocate_around(pool, block, BLOCK);
	share_gate_open(&gate);
	share_await_used(pool, 0);
	agent_end(agent);
	share_gate_free(&gate);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: a pointer imported twice is one address, held until it is freed twice, and not freed thrice. */
TEST(a_second_import_is_counted)
{
	CUmemoryPool pool = share_pool(POOL);
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
	CUmemPoolPtrExportData name = share_name(block);

	share_fill(block, 0x41, BLOCK);
	uint64_t first = agent_take(agent, 0, name);
	ASSERT_EQ(first, agent_take(agent, 1, name));
	agent_free(agent, 0);
	agent_synchronize(agent);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_EQ(first, agent_take(agent, 2, name)); /* a holder of a block may count it once more */
	agent_free(agent, 2);
	agent_synchronize(agent);
	allocate_around(pool, block, BLOCK);
	ASSERT_EQ(0x41, agent_byte(agent, 1, BLOCK - 1));
	ASSERT_EQ(BLOCK, share_used(pool));
	agent_free(agent, 1);
	share_await_used(pool, 0);
	struct agent_order once_more = {.call = AGENT_FREE, .block = 1};
	struct agent_answer answer = agent_do(agent, &once_more, -1);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, answer.result);
	ASSERT_NE(0, strlen(answer.sentence));
	once_more = (struct agent_order){.call = AGENT_READ, .block = 1};
	if (share_is_checked())
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, agent_do(agent, &once_more, -1).result);
	agent_leaves(agent);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* On a GPU it takes the driver to wait for a stream of which the pools know nothing. */
static void need_waits_for_contexts(void)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	void *function = NULL;
	int version;

	if (!test_on_gpu())
		return;
	ASSERT_OK(cuDriverGetVersion(&version));
	if (version < 12050 || cuGetProcAddress("cuCtxRecordEvent", &function, 12050, 0, &status) || !function)
		SKIP("the driver has no cuCtxRecordEvent: only streams that the pools know are waited for");
}

/* Goal: cuMemFree frees on both sides, in either order, and waits for the work that was there. */
TEST(freed_without_a_stream)
{
	need_waits_for_contexts();
	CUmemoryPool pool = share_pool(POOL);
	CUstream stream = share_stream();
	struct share_gate gate = share_gate_make(), agents_gate = share_gate_make();
	struct peer *agent = agent_importer(pool);

	for (unsigned round = 0; round < 4; round++) {
		CUdeviceptr block = shared_block(pool, agent, 0x51 + round);
		struct agent_order order = {.call = AGENT_FREE_NOW};
		share_gate_close(gate.reader, stream);
		agent_close_gate(agent, &agents_gate);
		if (round % 2)
			agent_must(agent, order, -1);
		ASSERT_OK(cuMemFree(block));
		if (round % 2 == 0)
			agent_must(agent, order, -1);
		allocate_around(pool, block, BLOCK);
		share_gate_open(round < 2 ? &gate : &agents_gate);
		allocate_around(pool, block, BLOCK);
		share_gate_open(round < 2 ? &agents_gate : &gate);
		ASSERT_OK(cuStreamSynchronize(stream));
		share_await_used(pool, 0);
		share_fill_whole(pool, POOL, BLOCK, block);
	}
	agent_leaves(agent);
	share_gate_free(&gate);
	share_gate_free(&agents_gate);
	ASSERT_OK(cuStreamDestroy(stream));
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: after the importer's free the block is still the exporter's, to use and to share again. */
TEST(the_exporter_goes_on_with_a_block)
{
	CUmemoryPool pool = share_pool(POOL);
	struct peer *agent = agent_importer(pool);
	CUdeviceptr block = shared_block(pool, agent, 0);

	for (unsigned i = 1; i < 100; i++) {
		agent_free(agent, 0);
		agent_synchronize(agent);
		ASSERT_EQ(i - 1, share_byte(block + BLOCK - 1));
		share_fill(block, i, BLOCK);
		agent_take(agent, 0, share_name(block));
		ASSERT_EQ(i, agent_byte(agent, 0, BLOCK - 1));
	}
	agent_free(agent, 0);
	agent_leaves(agent);
	ASSERT_EQ(99, share_byte(block));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	if (test_on_gpu()) /* where it takes a moment until the stream is seen to have come so far */
		share_await_used(pool, 0);
	ASSERT_EQ(0, share_used(pool));
	share_fill_whole(pool, POOL, BLOCK, block);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Without a call ---------------------------------------------------------------------------------------------- */

/*
 * Goal: a deferred block comes back though neither program calls anything: both sit in recv(). The gate of the
 * importer's stream is opened by this third process; afterwards the exporter only looks at a number.
 */
TEST(both_are_quiet_while_a_block_comes_back)
{
	int descriptor;
	struct share_gate gate = share_gate_make();
	struct peer *exporter = agent_exporter(POOL, &descriptor), *importer = peer_start("agent");

	agent_import(importer, 0, descriptor);
	close(descriptor);
	agent_take(importer, 0, agent_allocate(exporter, 0, POOL, 0x61));
	agent_close_gate(importer, &gate);
	agent_free(importer, 0);
	agent_free(exporter, 0);
	agent_synchronize(exporter);
	ASSERT_EQ(POOL, agent_used(exporter));
	share_gate_open(&gate);
	while (agent_used(exporter))
		sched_yield();
	agent_must(exporter, (struct agent_order){.call = AGENT_ALLOCATE, .bytes = POOL}, -1);
	agent_free(exporter, 0);
	agent_leaves(importer);
	agent_leaves(exporter);
	share_gate_free(&gate);
}

/* Import the pool, now that the exporter may be waiting for us, and free what another import of ours holds. */
ROLE(slow_importer)
{
	CUmemPoolPtrExportData names[2];
	int descriptor = peer_receive_descriptor(parent);

	peer_receive_bytes(parent, names, sizeof names);
	CUmemoryPool pool = share_import(descriptor);
	CUdeviceptr block = share_take(pool, names[0]);
	peer_send(parent, "held");
	peer_expect(parent, "go on");
	CUmemoryPool again = share_import(descriptor); /* a request that the exporter must answer */
	CUdeviceptr other = share_take(again, names[1]);
	ASSERT_OK(cuMemFreeAsync(other, NULL));
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_OK(cuMemPoolDestroy(again));
	ASSERT_OK(cuMemPoolDestroy(pool));
	close(descriptor);
}

/* Goal: an allocation that waits for memory lets the importer's requests through that will free it. */
TEST(an_allocation_waits_for_an_importers_request)
{
	for (unsigned round = 0; round < 20; round++) {
		CUmemoryPool pool = share_pool(POOL);
		CUdeviceptr first = share_allocate(pool, POOL / 2, NULL), second = share_allocate(pool, POOL / 2, NULL);
		struct peer *importer = peer_start("slow_importer");
		int descriptor = share_export(pool);
		CUmemPoolPtrExportData names[] = {share_name(first), share_name(second)};
		CUdeviceptr third = 0;
		CUresult result;

		peer_send_descriptor(importer, descriptor);
		close(descriptor);
		peer_send_bytes(importer, names, sizeof names);
		peer_expect(importer, "held");
		ASSERT_OK(cuMemFreeAsync(first, NULL));
		peer_send(importer, "go on");
		do /* it has patience, but not for ever */
			result = cuMemAllocFromPoolAsync(&third, POOL / 2, pool, NULL);
		while (result == CUDA_ERROR_OUT_OF_MEMORY);
		ASSERT_OK(result);
		ASSERT_EQ(first, third);
		peer_wait(importer);
		ASSERT_OK(cuMemFreeAsync(second, NULL));
		ASSERT_OK(cuMemFreeAsync(third, NULL));
		ASSERT_OK(cuMemPoolDestroy(pool));
	}
}

/* ---- Order by other means ---------------------------------------------------------------------------------------- */

/* Add one to each byte that a peer names, when it names it; the pipe is the only order between the two. */
ROLE(adder)
{
	int descriptor = peer_receive_descriptor(parent);
	CUmemoryPool pool = share_import(descriptor);
	CUmemPoolPtrExportData name;
	unsigned char bytes[256];

	close(descriptor);
	for (unsigned i = 0; i < 200; i++) {
		peer_receive_bytes(parent, &name, sizeof name);
		CUdeviceptr block = share_take(pool, name);
		ASSERT_OK(cuMemcpyDtoH(bytes, block, sizeof bytes));
		for (unsigned at = 0; at < sizeof bytes; at++)
			bytes[at]++;
		ASSERT_OK(cuMemcpyHtoDAsync(block, bytes, sizeof bytes, NULL));
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		ASSERT_OK(cuStreamSynchronize(NULL));
		peer_send(parent, "done");
	}
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* Goal: synchronising a stream and a word through a pipe is order enough; the exporter frees when it has the answer. */
TEST(order_by_synchronising_and_a_word)
{
	CUmemoryPool pool = share_pool(POOL);
	struct peer *adder = peer_start("adder");
	int descriptor = share_export(pool);

	peer_send_descriptor(adder, descriptor);
	close(descriptor);
	for (unsigned i = 0; i < 200; i++) {
		CUdeviceptr block = share_allocate(pool, BLOCK, NULL);
		CUmemPoolPtrExportData name = share_name(block);
		share_fill(block, i, 256);
		peer_send_bytes(adder, &name, sizeof name);
		peer_expect(adder, "done");
		ASSERT_EQ((i + 1) % 256, share_byte(block));
		ASSERT_EQ((i + 1) % 256, share_byte(block + 255));
		ASSERT_OK(cuMemFreeAsync(block, NULL));
		ASSERT_OK(cuStreamSynchronize(NULL));
		ASSERT_EQ(0, share_used(pool));
	}
	peer_wait(adder);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

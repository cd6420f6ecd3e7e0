/* SPDX-License-Identifier: MIT */
/*
 * Pools between machines: a pool's fabric handle and its pointers, imported on another node. See nodes_test.c for
 * memory of cuMemCreate().
 *
 * The exporter's daemon holds blocks for the importers of other nodes, in the ledger as any importer does. So a block
 * that is freed too early is not used again before they have released it or are gone, and that is what is looked at.
 */
#include "../nodes.h"
#include "../vmm.h"
#include "cenote/cenote.h"
#include "cenote/cuda_runtime_api.h"

#define FABRIC CU_MEM_HANDLE_TYPE_FABRIC

enum { BYTES = 3 << 20, WORDS = BYTES / 8, TRIES = 20 };

/* What an importer needs. */
struct names {
	CUmemFabricHandle pool;
	CUmemPoolPtrExportData block;
};

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

/* The channel, the connection to the daemon and its lanes stay open for as long as the process lives. */
static void start(void)
{
	leaks_watch(LEAK_DEFAULT & ~(unsigned)(LEAK_DESCRIPTORS | LEAK_MAPPINGS));
	vmm_start(0);
}

static void fill(uint64_t *words, uint64_t seed)
{
	for (size_t i = 0; i < WORDS; i++)
		words[i] = (seed + i) * 0x9e3779b97f4a7c15;
}

static void check(const uint64_t *words, uint64_t seed)
{
	for (size_t i = 0; i < WORDS; i++)
		if (words[i] != (seed + i) * 0x9e3779b97f4a7c15)
			FAIL("word %zu is 0x%llx", i, (unsigned long long)words[i]);
}

static CUmemoryPool make_pool(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = FABRIC,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemoryPool pool;

	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	return pool;
}

/* Is the block among those that the pool hands out? */
static bool is_back(CUmemoryPool pool, CUdeviceptr block, CUstream stream)
{
	CUdeviceptr others[TRIES];
	bool found = false;

	for (int i = 0; i < TRIES; i++) {
		ASSERT_OK(cuMemAllocFromPoolAsync(&others[i], BYTES, pool, stream));
		found |= others[i] == block;
	}
	for (int i = 0; i < TRIES; i++)
		ASSERT_OK(cuMemFreeAsync(others[i], stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	return found;
}

/* Until no block waits for an importer; the test's time limit is the end of it. */
static void await_released(CUmemoryPool pool)
{
	cenote_pool_statistics statistics;

	do
		ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	while (statistics.deferred_block_count);
}

/* Exports a block with a pattern, and then does what it is told. */
ROLE(exporter)
{
	uint64_t *words = malloc(BYTES), order[2];
	CUmemoryPool pool;
	struct names names;
	CUdeviceptr block;
	CUstream stream;

	start();
	ASSERT(words);
	fill(words, 1);
	pool = make_pool();
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuMemPoolExportToShareableHandle(&names.pool, pool, FABRIC, 0));
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, BYTES, pool, stream));
	ASSERT_OK(cuMemcpyHtoDAsync(block, words, BYTES, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuMemPoolExportPointer(&names.block, block));
	peer_send_bytes(parent, &names, sizeof names);
	for (;;) {
		peer_receive_bytes(parent, order, sizeof order);
		if (order[0] == 'e')
			break;
		switch (order[0]) {
		case 'c': /* its bytes */
			ASSERT_OK(cuMemcpyDtoH(words, block, BYTES));
			check(words, order[1]);
			break;
		case 'f': /* reached by its stream: from then on it is counted as waiting for importers, or is back */
			ASSERT_OK(cuMemFreeAsync(block, stream));
			ASSERT_OK(cuStreamSynchronize(stream));
			break;
		case 'h': /* it is held by another process */ ASSERT(!is_back(pool, block, stream)); break;
		default: /* 'b': all have released it */ await_released(pool); ASSERT(is_back(pool, block, stream));
		}
		peer_send(parent, "so it is");
	}
	free(words);
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuStreamDestroy(stream));
}

static void order(struct peer *exporter, char what, uint64_t seed)
{
	const uint64_t words[2] = {(uint64_t)what, seed};

	peer_send_bytes(exporter, words, sizeof words);
	if (what != 'e')
		peer_expect(exporter, "so it is");
}

static struct peer *start_exporter(unsigned node, struct names *ret_names)
{
	nodes_enter(node);
	struct peer *exporter = peer_start("exporter");
	peer_receive_bytes(exporter, ret_names, sizeof *ret_names);
	return exporter;
}

static void end_exporter(struct peer *exporter)
{
	order(exporter, 'e', 0);
	peer_wait(exporter);
}

static struct peer *start_importer(unsigned node, const char *role, const struct names *names)
{
	nodes_enter(node);
	struct peer *importer = peer_start(role);
	peer_send_bytes(importer, names, sizeof *names);
	return importer;
}

static CUmemoryPool import_pool(struct names *names)
{
	CUmemoryPool pool;

	ASSERT_OK(cuMemPoolImportFromShareableHandle(&pool, &names->pool, FABRIC, 0));
	return pool;
}

static CUdeviceptr import_block(CUmemoryPool pool, struct names *names)
{
	CUdeviceptr block;

	ASSERT_OK(cuMemPoolImportPointer(&block, pool, &names->block));
	return block;
}

/* ---- Reading and writing ----------------------------------------------------------------------------------------- */

static void take_pointer(const cenote_thread *at, void **args)
{
	(void)at;
	(void)args;
}
CENOTE_KERNEL(take_pointer, CUdeviceptr);

/* Past a block's end is nothing, and a kernel cannot have it. */
static void expect_refusals(CUdeviceptr far, void *bytes)
{
	void *arguments[] = {&far};
	const dim3 one = {1, 1, 1};

	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(bytes, far + 8, BYTES));
	ASSERT_ERROR(cudaErrorNotSupported,
		     cudaLaunchKernel((const void *)(uintptr_t)take_pointer, one, one, arguments, 0, NULL));
	ASSERT_CONTAINS("is memory of another machine", cenote_last_error());
}

ROLE(copier)
{
	uint64_t *words = calloc(WORDS, sizeof *words);
	struct names names;
	CUstream stream;
	CUdeviceptr near;

	peer_receive_bytes(parent, &names, sizeof names);
	start();
	ASSERT(words);
	CUmemoryPool pool = import_pool(&names), again = import_pool(&names);
	ASSERT_EQ((uintptr_t)pool, (uintptr_t)again); /* as on one machine: it takes as many destroys */
	CUdeviceptr far = import_block(pool, &names);
	ASSERT_EQ(far, import_block(pool, &names));
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuMemAlloc(&near, BYTES));
	ASSERT_OK(cuMemcpyDtoH(words, far, BYTES));
	check(words, 1);
	expect_refusals(far, words);
	fill(words, 2);
	ASSERT_OK(cuMemcpyHtoDAsync(near, words, BYTES, stream));
	ASSERT_OK(cuMemsetD8Async(far, 0x5a, BYTES, stream));
	ASSERT_OK(cuMemcpyDtoDAsync(far, near, BYTES, stream)); /* in stream order: it overwrites the fill */
	ASSERT_OK(cuStreamWriteValue64(stream, far + 64, words[8], 0));
	ASSERT_OK(cuStreamWaitValue64(stream, far + 64, words[8], CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_OK(cuMemFreeAsync(far, stream));
	ASSERT_OK(cuMemcpyDtoHAsync(words, far + BYTES / 2, 8, stream)); /* imported twice, so still there */
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool)); /* it is used */
	ASSERT_OK(cuMemFreeAsync(far, stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(far, stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(words, far, 8));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuMemFree(near));
	ASSERT_OK(cuStreamDestroy(stream));
	free(words);
}

TEST(blocks_of_another_nodes_pool_are_read_and_written)
{
	struct nodes_one nodes[2];
	struct names names;

	nodes_pair(nodes);
	for (unsigned node = 1; node <= 2; node++) {
		struct peer *exporter = start_exporter(node, &names);
		peer_wait(start_importer(3 - node, "copier", &names));
		order(exporter, 'c', 2);
		order(exporter, 'f', 0);
		order(exporter, 'b', 0);
		end_exporter(exporter);
	}
	nodes_pair_end(nodes);
}

/* ---- Holding ----------------------------------------------------------------------------------------------------- */

/* Frees the block in a stream that waits for a word of its own. */
ROLE(holder)
{
	unsigned char byte;
	struct names names;
	CUdeviceptr word;
	CUstream stream, other;

	peer_receive_bytes(parent, &names, sizeof names);
	start();
	CUmemoryPool pool = import_pool(&names);
	CUdeviceptr far = import_block(pool, &names);
	ASSERT_OK(cuMemAlloc(&word, 4));
	ASSERT_OK(cuMemsetD32(word, 0, 1));
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_OK(cuMemsetD8Async(far, 7, BYTES, stream));
	ASSERT_OK(cuMemFreeAsync(far, stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&byte, far, 1)); /* it is freed */
	peer_send(parent, "holding");
	peer_expect(parent, "let go");
	ASSERT_OK(cuStreamWriteValue32(other, word, 1, 0));
	ASSERT_OK(cuStreamSynchronize(stream));
	peer_expect(parent, "end");
	ASSERT_OK(cuStreamDestroy(other));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuMemFree(word));
	ASSERT_OK(cuStreamDestroy(stream));
}

TEST(an_early_free_waits_for_an_importer_on_another_node)
{
	struct nodes_one nodes[2];
	struct names names;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &names), *importer = start_importer(2, "holder", &names);
	peer_expect(importer, "holding");
	order(exporter, 'f', 0);
	order(exporter, 'h', 0); /* freed on both sides; but the importer's stream has not come to it */
	peer_send(importer, "let go");
	order(exporter, 'b', 0);
	peer_end(importer);
	end_exporter(exporter);
	nodes_pair_end(nodes);
}

ROLE(refused)
{
	CUmemPoolPtrExportData changed;
	struct names names;
	CUdeviceptr block;

	peer_receive_bytes(parent, &names, sizeof names);
	start();
	CUmemoryPool pool = import_pool(&names);
	for (size_t at = 0; at < sizeof changed; at += 7) {
		changed = names.block;
		changed.reserved[at] ^= 0x20;
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&block, pool, &changed));
	}
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&block, pool, &names.block)); /* it is freed */
	printf("%s\n", cenote_last_error());
	peer_send(parent, "refused");
	peer_expect(parent, "end");
	/* The exporter is gone. */
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&block, pool, &names.block));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolImportFromShareableHandle(&pool, &names.pool, FABRIC, 0));
}

ROLE(unreached)
{
	struct names names;
	CUmemoryPool pool;

	peer_receive_bytes(parent, &names, sizeof names);
	start();
	ASSERT_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolImportFromShareableHandle(&pool, &names.pool, FABRIC, 0));
	ASSERT_CONTAINS("of node 1, and cenote-imexd, which leads there, cannot be asked", cenote_last_error());
}

/* Goal: an exporter that lives is not called gone, where the importer's machine has no daemon. */
TEST(a_refusal_says_that_a_daemon_is_missing)
{
	struct nodes_one node;
	struct names names;

	nodes_prepare(2);
	nodes_start(1, &node);
	nodes_await(&node, "node 1 of 2");
	struct peer *exporter = start_exporter(1, &names);
	peer_wait(start_importer(2, "unreached", &names));
	end_exporter(exporter);
	nodes_end(&node, SIGTERM);
}

TEST(a_freed_block_and_a_changed_pointer_are_refused)
{
	struct nodes_one nodes[2];
	struct names names;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &names);
	order(exporter, 'f', 0);
	order(exporter, 'b', 0);
	struct peer *importer = start_importer(2, "refused", &names);
	peer_expect(importer, "refused");
	end_exporter(exporter);
	peer_end(importer);
	nodes_pair_end(nodes);
}

/* ---- Who holds it ------------------------------------------------------------------------------------------------ */

TEST(the_command_shows_holders_on_other_nodes, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	struct names names;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &names), *importer = start_importer(2, "holder", &names);
	peer_expect(importer, "holding");
	nodes_enter(1);
	nodes_await_shown("--json", true,
			  "\"node\": 2, \"leaving\": false, \"held_blocks\": 1, \"held_bytes\": 3145728");
	nodes_await_shown("", true, "node 2");
	nodes_enter(2);
	nodes_await_shown("--json", true, "\"node\": 1, \"orphaned\": false, \"held\": 1, \"held_bytes\": 3145728");
	nodes_await_shown("", true, "node 1");
	peer_send(importer, "let go");
	peer_end(importer);
	order(exporter, 'f', 0);
	order(exporter, 'b', 0);
	end_exporter(exporter);
	nodes_pair_end(nodes);
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

/* Reads until it fails. What it imported can be freed all the same, and imported again. */
ROLE(survivor)
{
	uint64_t *words = malloc(BYTES);
	CUresult result = CUDA_SUCCESS;
	struct names names;
	CUstream stream;

	peer_receive_bytes(parent, &names, sizeof names);
	start();
	ASSERT(words);
	CUmemoryPool pool = import_pool(&names);
	CUdeviceptr far = import_block(pool, &names), block;
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned round = 0; !result; round++) {
		result = cuMemcpyDtoH(words, far + round % WORDS * 8, 8);
		if (!result)
			ASSERT_EQ((1 + round % WORDS) * 0x9e3779b97f4a7c15, words[0]);
		if (round == 3)
			peer_send(parent, "reading");
	}
	ASSERT_EQ(CUDA_ERROR_EXTERNAL_DEVICE, result);
	peer_send(parent, "failed");
	peer_expect(parent, "it is back");
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, cuMemcpyDtoH(words, far, 8));
	ASSERT_OK(cuMemPoolImportPointer(&block, pool, &names.block)); /* it is held, as far as this process knows */
	ASSERT_OK(cuMemFreeAsync(far, stream));
	CUmemoryPool anew = import_pool(&names);
	ASSERT((uintptr_t)anew != (uintptr_t)pool);
	CUdeviceptr again = import_block(anew, &names);
	ASSERT_OK(cuMemcpyDtoH(words, again, BYTES));
	check(words, 1);
	ASSERT_OK(cuMemFreeAsync(again, stream));
	ASSERT_OK(cuMemFreeAsync(block, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_OK(cuMemPoolDestroy(anew));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuStreamDestroy(stream));
	free(words);
}

/* Kill a daemon while a block is read: 1 is the exporter's node, 2 the importer's. */
static void kill_node(unsigned killed)
{
	struct nodes_one nodes[2];
	struct names names;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &names), *importer = start_importer(2, "survivor", &names);
	peer_expect(importer, "reading");
	nodes_end(&nodes[killed - 1], SIGKILL);
	peer_expect(importer, "failed");
	nodes_start(killed, &nodes[killed - 1]);
	nodes_await(&nodes[0], "node 2 is up");
	if (killed == 1) /* the other has seen it up before */
		nodes_await(&nodes[1], "node 1 is gone");
	nodes_await(&nodes[1], "node 1 is up");
	peer_send(importer, "it is back");
	peer_wait(importer);
	order(exporter, 'c', 1);
	order(exporter, 'f', 0);
	order(exporter, 'b', 0); /* neither the dead daemon nor the importer holds it */
	end_exporter(exporter);
	nodes_pair_end(nodes);
}

TEST(a_killed_node_of_the_exporter_fails_the_importer, .timeout_ms = 60000)
{
	kill_node(1);
}

TEST(a_killed_node_of_the_importer_holds_nothing, .timeout_ms = 60000)
{
	kill_node(2);
}

TEST(a_killed_importer_on_another_node_holds_nothing, .timeout_ms = 60000)
{
	struct nodes_one nodes[2];
	struct names names;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &names), *importers[3];
	for (int i = 0; i < 3; i++) {
		importers[i] = start_importer(2, "survivor", &names);
		peer_expect(importers[i], "reading");
	}
	order(exporter, 'f', 0);
	for (int i = 0; i < 3; i++) {
		order(exporter, 'h', 0);
		peer_kill(importers[i]);
	}
	order(exporter, 'b', 0);
	end_exporter(exporter);
	nodes_pair_end(nodes);
}

/* What is imported outlives its exporter, as on one machine. */
ROLE(heir)
{
	uint64_t *words = malloc(BYTES);
	struct names names;
	CUdeviceptr other;
	CUstream stream;

	peer_receive_bytes(parent, &names, sizeof names);
	start();
	ASSERT(words);
	CUmemoryPool pool = import_pool(&names);
	CUdeviceptr far = import_block(pool, &names);
	peer_send(parent, "holding");
	peer_expect(parent, "end");
	ASSERT_OK(cuMemcpyDtoH(words, far, BYTES));
	check(words, 1);
	ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_OK(cuMemFreeAsync(far, stream));
	ASSERT_OK(cuStreamSynchronize(stream));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&other, pool, &names.block));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuStreamDestroy(stream));
	free(words);
}

TEST(a_block_outlives_its_killed_exporter_on_another_node)
{
	struct nodes_one nodes[2];
	struct names names;

	nodes_pair(nodes);
	struct peer *exporter = start_exporter(1, &names), *importer = start_importer(2, "heir", &names);
	peer_expect(importer, "holding");
	peer_kill(exporter);
	peer_end(importer);
	nodes_pair_end(nodes);
}

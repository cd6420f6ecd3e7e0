/* SPDX-License-Identifier: MIT */
/*
 * Pools in the long run: how much is reserved for what is live, what the records take, what happens when memory runs
 * out, and that a fragmented pool becomes whole again; and pools that end while other threads work in them.
 */
#include <pthread.h>
#include <sched.h>

#include "cenote/cenote.h"
#include "gate.h"

enum {
	STREAMS = 8,
	OPERATIONS = 1000000 / HARNESS_SLOWDOWN,
	SLOTS_MAX = 16384,
	MANY = 1000000,
	CHUNK_BYTES = 32 << 20,
	DEVICE_CHUNKS = 128,
};

static CUmemoryPool pool;
static CUstream streams[STREAMS];

static CUmemoryPool make_pool(size_t max_bytes)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		.maxSize = max_bytes,
	};
	CUmemoryPool made;

	ASSERT_OK(cuMemPoolCreate(&made, &properties));
	return made;
}

SETUP
{
	ASSERT_SYS(setenv("CENOTE_HOST_MEMORY", "4G", 1));
	context_current();
	for (unsigned i = 0; i < STREAMS; i++)
		ASSERT_OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
}

static cenote_pool_statistics numbers(void)
{
	cenote_pool_statistics statistics;

	ASSERT_OK(cenote_pool_stats(pool, &statistics, sizeof statistics));
	return statistics;
}

static CUdeviceptr take(size_t bytes, CUstream stream)
{
	CUdeviceptr pointer;

	ASSERT_OK(cuMemAllocFromPoolAsync(&pointer, bytes, pool, stream));
	return pointer;
}

static void set_policies(int follow, int opportunistic, int internal)
{
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &follow));
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &opportunistic));
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &internal));
}

/* Nothing is live: all of it can go. */
static void end_pool(void)
{
	for (unsigned i = 0; i < STREAMS; i++)
		ASSERT_OK(cuStreamSynchronize(streams[i]));
	ASSERT_EQ(0u, numbers().used_bytes);
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	ASSERT_EQ(0u, numbers().reserved_bytes);
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/* ---- Out of memory ----------------------------------------------------------------------------------------------- */

/* Goal: a refusal leaves everything as it was, and after a free the same request succeeds. */
TEST(out_of_memory_changes_nothing)
{
	CUdeviceptr blocks[64], refused;
	unsigned count = 0;

	pool = make_pool(4 * CHUNK_BYTES);
	while (count < 64 && !cuMemAllocFromPoolAsync(&blocks[count], 8 << 20, pool, streams[0]))
		count++;
	ASSERT_EQ(16u, count);
	for (unsigned i = 0; i < 3; i++) /* each stream is known from now on */
		ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&refused, 8 << 20, pool, streams[i]));
	cenote_pool_statistics before = numbers();
	for (unsigned i = 0; i < 10; i++)
		ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY,
			     cuMemAllocFromPoolAsync(&refused, 8 << 20, pool, streams[i % 3]));
	cenote_pool_statistics after = numbers();
	ASSERT_MEMEQ(&before, &after, sizeof before);

	ASSERT_OK(cuMemFreeAsync(blocks[--count], streams[1]));
	blocks[count] = take(8 << 20, streams[2]);
	for (unsigned i = 0; i < 16; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], streams[0]));
	end_pool();
}

/* Goal: the largest block that a pool may have can be allocated, whatever that size is. */
TEST(a_pool_can_be_one_block)
{
	for (unsigned chunks = 1; chunks < DEVICE_CHUNKS; chunks += 2) {
		size_t bytes = (size_t)chunks * CHUNK_BYTES;
		pool = make_pool(bytes);
		CUdeviceptr block = take(bytes, streams[0]);
		ASSERT_OK(cuMemFreeAsync(block, streams[0]));
		ASSERT_EQ(block, take(bytes - 1, streams[1]));
		ASSERT_OK(cuMemFreeAsync(block, streams[1]));
		end_pool();
	}
}

/* Goal: the same where the device's memory is the limit. */
TEST(a_pool_can_have_all_that_the_device_has)
{
	for (unsigned chunks = 1; chunks < DEVICE_CHUNKS; chunks += 6) {
		CUdeviceptr other;
		ASSERT_OK(cuMemAlloc(&other, (DEVICE_CHUNKS - chunks) * (size_t)CHUNK_BYTES));
		pool = make_pool(0);
		CUdeviceptr block = take(chunks * (size_t)CHUNK_BYTES - 4096, streams[0]);
		ASSERT_OK(cuMemFreeAsync(block, streams[0]));
		end_pool();
		ASSERT_OK(cuMemFree(other));
	}
}

/* Goal: while its free has not happened, such a block is reused by streams that may have it, and by no others. */
TEST(one_block_is_reused_in_order)
{
	size_t bytes = 33 * (size_t)CHUNK_BYTES;
	CUdeviceptr refused;
	struct gate gate = gate_make();

	pool = make_pool(bytes);
	set_policies(1, 0, 0);
	CUdeviceptr block = take(bytes, streams[0]);
	gate_close(gate, streams[0]);
	ASSERT_OK(cuMemFreeAsync(block, streams[0]));
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&refused, bytes, pool, streams[1]));
	ASSERT_EQ(block, take(bytes - CHUNK_BYTES / 2, streams[0]));
	CUdeviceptr rest = take(CHUNK_BYTES / 4, streams[0]);
	ASSERT_EQ(block + bytes - CHUNK_BYTES / 2, rest);
	ASSERT_OK(cuMemFreeAsync(rest, streams[0]));
	ASSERT_OK(cuMemFreeAsync(block, streams[0]));
	gate_open(gate);
	end_pool();
	gate_free(gate);
}

/* Goal: free but scattered chunks are exchanged for adjacent ones. */
TEST(scattered_chunks_do_not_end_memory)
{
	enum { COUNT = DEVICE_CHUNKS };
	CUdeviceptr blocks[COUNT];

	pool = make_pool(0);
	CUdeviceptr other;
	ASSERT_OK(cuMemAlloc(&other, DEVICE_CHUNKS / 2 * (size_t)CHUNK_BYTES));
	for (unsigned i = 0; i < COUNT / 2; i++)
		blocks[i] = take(CHUNK_BYTES, streams[0]);
	for (unsigned i = 0; i < COUNT / 2; i += 2)
		ASSERT_OK(cuMemFreeAsync(blocks[i], streams[0]));
	CUdeviceptr large = take(4 * (size_t)CHUNK_BYTES, streams[0]);
	ASSERT_OK(cuMemFreeAsync(large, streams[0]));
	for (unsigned i = 1; i < COUNT / 2; i += 2)
		ASSERT_OK(cuMemFreeAsync(blocks[i], streams[0]));
	end_pool();
	ASSERT_OK(cuMemFree(other));
}

/* Goal: what is free and above the threshold goes back when the program waits for a stream, however it was freed. */
TEST(synchronising_gives_back_what_is_free)
{
	pool = make_pool(0);
	CUdeviceptr block = take(CHUNK_BYTES, streams[0]);
	ASSERT_OK(cuMemFreeAsync(block, streams[0]));
	ASSERT_OK(cuStreamSynchronize(streams[0]));
	ASSERT_EQ(0u, numbers().reserved_bytes);

	block = take(CHUNK_BYTES, streams[0]);
	ASSERT_OK(cuMemFree(block));
	ASSERT_OK(cuStreamSynchronize(streams[0]));
	ASSERT_EQ(0u, numbers().reserved_bytes);
	end_pool();
}

/* ---- The long run ------------------------------------------------------------------------------------------------ */

struct slot {
	CUdeviceptr pointer;
	size_t bytes;
};

/* Sizes are spread evenly over the powers of two, and below each of them. */
static const struct mix {
	const char *name;
	unsigned shift_count, slot_count;
} mixes[] = {
	{"256 B to 512 KiB", 12, 16384},
	{"256 B to 4 MiB", 15, 4096},
	{"256 B to 32 MiB", 18, 2048},
};

/* Returns the most that was live. The pool is left without a live block. */
static size_t run_mix(const struct mix *mix, unsigned stream_count)
{
	static struct slot slots[SLOTS_MAX];
	struct test_random random = {.state = 20261115}; /* always the same: the limits are of this run */
	size_t live = 0, peak = 0;

	for (unsigned i = 0; i < OPERATIONS; i++) {
		struct slot *slot = &slots[test_random_below(&random, mix->slot_count)];
		CUstream stream = streams[test_random_below(&random, stream_count)];
		if (slot->pointer) {
			ASSERT_OK(cuMemFreeAsync(slot->pointer, stream));
			live -= slot->bytes;
			slot->pointer = 0;
			continue;
		}
		slot->bytes = 256 + (size_t)test_random_below(&random,
							      256ull << test_random_below(&random, mix->shift_count));
		slot->pointer = take(slot->bytes, stream);
		live += slot->bytes;
		if (live > peak)
			peak = live;
	}
	cenote_pool_statistics now = numbers();
	ASSERT_EQ(live, now.used_bytes);
	ASSERT_EQ(peak, now.used_high_bytes);
	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		if (slots[i].pointer)
			ASSERT_OK(cuMemFreeAsync(slots[i].pointer, streams[0]));
		slots[i].pointer = 0;
	}
	return peak;
}

/* Goal: a long run of mixed sizes, on one stream or several, reserves little more than is live; records take little. */
TEST(a_long_mixed_run_does_not_fragment, .timeout_ms = 120000)
{
	static const unsigned stream_counts[] = {1, 3, STREAMS};
	cuuint64_t threshold = UINT64_MAX;

	for (unsigned i = 0; i < sizeof mixes / sizeof *mixes; i++)
		for (unsigned j = 0; j < sizeof stream_counts / sizeof *stream_counts; j++) {
			pool = make_pool(0);
			ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
			double peak = (double)run_mix(&mixes[i], stream_counts[j]);
			cenote_pool_statistics now = numbers();
			printf("# %s, %u streams: reserved %.3f times the peak of what lived, records %.2f %% of it\n",
			       mixes[i].name, stream_counts[j], (double)now.reserved_high_bytes / peak,
			       100.0 * (double)now.metadata_bytes / (double)now.reserved_bytes);
			/* Streams that have memory of their own leave more of it unused. */
			ASSERT_LE((double)now.reserved_high_bytes, (stream_counts[j] > 1 ? 1.3 : 1.25) * peak);
			ASSERT_LE((double)now.metadata_bytes, 0.02 * (double)now.reserved_bytes);
			end_pool();
		}
}

/* Goal: a million blocks can be live; each is found, and when they are freed the pool is one piece again. */
TEST(a_million_blocks_live, .timeout_ms = 60000)
{
	CUdeviceptr *blocks = malloc(MANY * sizeof *blocks), base;
	struct test_random random = test_random_start(0);
	size_t bytes;

	ASSERT(blocks);
	pool = make_pool(0);
	for (unsigned i = 0; i < MANY; i++)
		blocks[i] = take(512, streams[i % 3]);
	ASSERT_EQ((unsigned)MANY, numbers().live_block_count);
	for (unsigned i = 0; i < 1000; i++) {
		CUdeviceptr block = blocks[test_random_below(&random, MANY)];
		ASSERT_OK(cuMemGetAddressRange(&base, &bytes, block + test_random_below(&random, 512)));
		ASSERT_EQ(block, base);
		ASSERT_EQ(512u, bytes);
	}
	for (unsigned i = MANY; i > 1; i--) { /* in any order */
		unsigned other = (unsigned)test_random_below(&random, i);
		CUdeviceptr block = blocks[other];
		blocks[other] = blocks[i - 1];
		blocks[i - 1] = block;
	}
	cuuint64_t threshold = UINT64_MAX;
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	for (unsigned i = 0; i < MANY; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], streams[i % 3]));
	for (unsigned i = 0; i < 3; i++)
		ASSERT_OK(cuStreamSynchronize(streams[i]));
	cenote_pool_statistics now = numbers();
	ASSERT_EQ(1u, now.free_block_count);
	ASSERT_EQ(now.reserved_bytes, now.largest_free_bytes);
	end_pool();
	free(blocks);
}

/* ---- Many streams ------------------------------------------------------------------------------------------------ */

enum { CROWD = 300, CROWD_BYTES = 4096, RARE_BYTES = 1 << 20 };

static cuuint64_t attribute(CUmemPool_attribute which)
{
	cuuint64_t value;

	ASSERT_OK(cuMemPoolGetAttribute(pool, which, &value));
	return value;
}

/* Goal: with more streams than are counted, found or asked one by one, nothing is lost or counted wrongly. */
TEST(a_crowd_of_streams_shares_a_pool)
{
	static CUstream crowd[CROWD];
	static CUdeviceptr blocks[CROWD];

	pool = make_pool(0);
	for (unsigned i = 0; i < CROWD; i++) {
		ASSERT_OK(cuStreamCreate(&crowd[i], CU_STREAM_NON_BLOCKING));
		blocks[i] = take(CROWD_BYTES, crowd[i]);
		ASSERT_OK(cuMemFreeAsync(blocks[i], crowd[i]));
		ASSERT_EQ(0u, attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
	}
	ASSERT_EQ(CROWD_BYTES, attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
	for (unsigned i = 0; i < CROWD; i++) {
		blocks[i] = take(CROWD_BYTES, crowd[i]);
		ASSERT_EQ((i + 1) * (cuuint64_t)CROWD_BYTES, attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
	}
	ASSERT_EQ(CROWD * (cuuint64_t)CROWD_BYTES, attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
	for (unsigned i = 0; i < CROWD; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], crowd[i]));
	ASSERT_EQ(0u, attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));

	/* One stream frees what all others want, whichever it is. */
	for (unsigned owner = 0; owner < CROWD; owner += 37) {
		CUdeviceptr rare = take(RARE_BYTES, crowd[owner]);
		ASSERT_OK(cuMemFreeAsync(rare, crowd[owner]));
		for (unsigned i = 0; i < CROWD; i++) {
			CUdeviceptr got = take(RARE_BYTES, crowd[i]);
			if (!test_on_gpu()) /* on one, the library must first ask whether the free has happened */
				ASSERT_EQ(rare, got);
			ASSERT_OK(cuMemFreeAsync(got, crowd[owner]));
		}
	}
	for (unsigned i = 0; i < CROWD; i++)
		ASSERT_OK(cuStreamDestroy(crowd[i]));
	end_pool();
}

/*
 * Goal: event dependencies are followed through many streams, and through streams that wait for each other all the
 * time.
 */
TEST(dependencies_are_followed_through_many_streams)
{
	enum { CHAIN = 40, ROUNDS = 8 };
	CUstream chain[CHAIN];
	CUevent event;
	struct gate gate = gate_make();

	pool = make_pool(CHUNK_BYTES);
	set_policies(1, 0, 0);
	ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0; i < CHAIN; i++)
		ASSERT_OK(cuStreamCreate(&chain[i], CU_STREAM_NON_BLOCKING));
	CUdeviceptr block = take(CHUNK_BYTES, chain[0]);
	gate_close(gate, chain[0]);
	ASSERT_OK(cuMemFreeAsync(block, chain[0]));
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 1; i < CHAIN; i++) {
			ASSERT_OK(cuEventRecord(event, chain[i - 1]));
			ASSERT_OK(cuStreamWaitEvent(chain[i], event, 0));
			ASSERT_OK(cuEventRecord(event, chain[i]));
			ASSERT_OK(cuStreamWaitEvent(chain[i - 1], event, 0));
		}
	ASSERT_EQ(block, take(CHUNK_BYTES, chain[CHAIN - 1]));
	ASSERT_EQ(1u, numbers().reused_followed);
	ASSERT_OK(cuMemFreeAsync(block, chain[CHAIN - 1]));

	/* One that waits for none of them, and so must not have it. */
	CUdeviceptr refused;
	ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&refused, CHUNK_BYTES, pool, streams[0]));
	gate_open(gate);
	for (unsigned i = 0; i < CHAIN; i++) {
		ASSERT_OK(cuStreamSynchronize(chain[i]));
		ASSERT_OK(cuStreamDestroy(chain[i]));
	}
	ASSERT_OK(cuEventDestroy(event));
	end_pool();
	gate_free(gate);
}

/*
 * ---- Large blocks that were cut -----------------------------------------------------------------------------------
 */

/* Goal: every address of a block that is the rest of a larger one is known as the block's. */
TEST(the_rest_of_a_large_block_is_known_everywhere)
{
	CUdeviceptr base;
	size_t bytes;

	pool = make_pool(4 * CHUNK_BYTES);
	CUdeviceptr whole = take(4 * (size_t)CHUNK_BYTES, streams[0]);
	struct gate gate = gate_make();
	gate_close(gate, streams[0]); /* the free does not happen yet, so the block stays one */
	ASSERT_OK(cuMemFreeAsync(whole, streams[0]));
	CUdeviceptr first = take(CHUNK_BYTES / 2, streams[0]);
	CUdeviceptr rest = take(7 * (size_t)CHUNK_BYTES / 2, streams[0]);
	for (size_t at = 0; at < 7 * (size_t)CHUNK_BYTES / 2; at += CHUNK_BYTES / 4) {
		ASSERT_OK(cuMemGetAddressRange(&base, &bytes, rest + at));
		ASSERT_EQ(rest, base);
		ASSERT_EQ(7 * (size_t)CHUNK_BYTES / 2, bytes);
	}
	ASSERT_OK(cuMemFreeAsync(first, streams[0]));
	ASSERT_OK(cuMemFreeAsync(rest, streams[0]));
	gate_open(gate);
	end_pool();
	gate_free(gate);
}

/*
 * ---- The end of a pool --------------------------------------------------------------------------------------------
 */

struct user {
	CUstream stream;
	struct test_random random;
	bool looks; /* at the pool, instead of allocating in it */
};

static CUcontext users_context;
static _Atomic(CUmemoryPool) users_pool;
static _Atomic unsigned long turns;
static _Atomic bool users_stop;

static void expect_gone_or_well(CUresult result)
{
	if (result != CUDA_ERROR_INVALID_VALUE)
		ASSERT_OK(result);
}

static void look_at(CUmemoryPool at, struct user *user)
{
	cenote_pool_statistics statistics;
	cuuint64_t value = 0;
	char text[66];

	switch (test_random_below(&user->random, 5)) {
	case 0: expect_gone_or_well(cuMemPoolTrimTo(at, 0)); break;
	case 1: expect_gone_or_well(cenote_pool_stats(at, &statistics, sizeof statistics)); break;
	case 2: expect_gone_or_well(cenote_pool_picture(at, text, sizeof text)); break;
	case 3: expect_gone_or_well(cuMemPoolGetAttribute(at, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value)); break;
	default: ASSERT_OK(cuStreamSynchronize(user->stream));
	}
}

/* One block after another in whichever pool exists, each filled while it is live. */
static void *use_pools(void *data)
{
	struct user *user = data;

	ASSERT_OK(cuCtxSetCurrent(users_context));
	while (!users_stop) {
		CUmemoryPool at = users_pool;
		size_t bytes =
			1 + (size_t)test_random_below(&user->random, 4096ull << test_random_below(&user->random, 14));
		CUdeviceptr block = 1;
		turns++;
		if (user->looks) {
			look_at(at, user);
			continue;
		}
		CUresult result = cuMemAllocFromPoolAsync(&block, bytes, at, user->stream);
		expect_gone_or_well(result);
		if (result) {
			ASSERT_EQ(0u, block);
			continue;
		}
		ASSERT_OK(cuMemsetD8Async(block, 0xA5, bytes < 64 ? bytes : 64, user->stream));
		ASSERT_OK(cuMemFreeAsync(block, user->stream));
	}
	return NULL;
}

/*
 * Goal: a pool can be destroyed while other threads allocate in it. Each gets its block, or an error that the pool is
 * gone; and in the end nothing is left.
 */
TEST(a_pool_ends_while_others_allocate, .timeout_ms = 60000)
{
	enum { USERS = 4, ROUNDS = 400 / HARNESS_SLOWDOWN, TURNS = 50 };
	struct test_random random = test_random_start(0);
	struct user users[USERS];
	pthread_t threads[USERS];
	size_t before, after, total;

	ASSERT_OK(cuCtxGetCurrent(&users_context));
	ASSERT_OK(cuMemGetInfo(&before, &total));
	users_pool = make_pool(0);
	for (unsigned i = 0; i < USERS; i++) {
		users[i] = (struct user){streams[i], {.state = test_random_below(&random, UINT64_MAX) | 1}, i == 0};
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, use_pools, &users[i]));
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned long seen = turns + test_random_below(&random, TURNS);
		while (turns < seen)
			sched_yield();
		CUmemoryPool old = users_pool;
		if (i % 2) /* the next one is there first, or gets the record of this one */
			users_pool = make_pool(0);
		ASSERT_OK(cuMemPoolDestroy(old));
		if (i % 2 == 0)
			users_pool = make_pool(0);
	}
	users_stop = true;
	for (unsigned i = 0; i < USERS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	ASSERT_OK(cuMemPoolDestroy(users_pool));
	ASSERT_OK(cuCtxSynchronize());
	ASSERT_OK(cuMemGetInfo(&after, &total));
	if (!test_has_gpu()) /* on one, other programs have memory as well */
		ASSERT_EQ(before, after);
}

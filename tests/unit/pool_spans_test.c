/* SPDX-License-Identifier: MIT */
/*
 * Streams that have spans (src/pool/span.h), in a pool that is nearly full: what one has free there, others get before
 * they are refused, if they may have it; and a stream is not refused what is its own.
 */
#include <pthread.h>
#include <sched.h>

#include "cenote/cenote.h"
#include "device/device.h"
#include "gate.h"
#include "whole_pool.h"

enum {
	STREAMS = 4,
	CHUNK_BYTES = 32 << 20,
	PIECE_BYTES = 16 << 10,
	PIECES = CHUNK_BYTES / PIECE_BYTES,
	CHUNKS_MAX = 9,
	MISSES = 120, /* after so many a stream has spans */
	FOLLOW = 1,
	OPPORTUNISTIC = 2,
	INTERNAL = 4,
};

static CUstream streams[STREAMS];

static void set_policies(int policies)
{
	int follow = !!(policies & FOLLOW), opportunistic = !!(policies & OPPORTUNISTIC);
	int internal = !!(policies & INTERNAL);

	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &follow));
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &opportunistic));
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &internal));
}

static void make_pool(size_t max_bytes, int policies)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		.maxSize = max_bytes,
	};

	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
	set_policies(policies);
}

SETUP
{
	context_current();
	for (unsigned i = 0; i < STREAMS; i++)
		ASSERT_OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
}

static bool try_take(size_t bytes, CUstream stream, CUdeviceptr *ret_pointer)
{
	return !cuMemAllocFromPoolAsync(ret_pointer, bytes, pool, stream);
}

/* So many blocks of a size as there are, up to a number. */
static unsigned take_all(CUdeviceptr *blocks, unsigned count_max, size_t bytes, CUstream stream)
{
	unsigned count = 0;

	while (count < count_max && try_take(bytes, stream, &blocks[count]))
		count++;
	return count;
}

static void free_all(const CUdeviceptr *blocks, unsigned count, CUstream stream)
{
	for (unsigned i = 0; i < count; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], stream));
}

/* ---- What is nearly the right size ------------------------------------------------------------------------------- */

/* Does a stream that has freed a block of some KiB get it for another size? */
static bool gets_again(unsigned freed_kib, unsigned wanted_kib, CUstream stream)
{
	CUdeviceptr freed, got;

	ASSERT_OK(cuMemAllocFromPoolAsync(&freed, freed_kib << 10, pool, stream));
	ASSERT_OK(cuMemFreeAsync(freed, stream));
	ASSERT_OK(cuMemAllocFromPoolAsync(&got, wanted_kib << 10, pool, stream));
	ASSERT_OK(cuMemFreeAsync(got, stream));
	ASSERT_OK(cuStreamSynchronize(stream)); /* its lists are empty again */
	return got == freed;
}

/*
 * Goal: a stream that has spans takes what it has freed and is up to a quarter too large, and no more than that; from
 * 512 KiB on, and without spans, each block has its own size while there is other memory.
 */
TEST(a_stream_with_spans_takes_what_is_nearly_the_size)
{
	static CUdeviceptr pieces[MISSES];

	make_pool(0, 0);
	ASSERT_EQ((unsigned)MISSES, take_all(pieces, MISSES, PIECE_BYTES, streams[0]));
	ASSERT(gets_again(40, 34, streams[0]));
	ASSERT(gets_again(40, 32, streams[0]));
	ASSERT(gets_again(640, 512, streams[0]));
	ASSERT(!gets_again(40, 30, streams[0]));
	ASSERT(!gets_again(672, 544, streams[0]));
	ASSERT(!gets_again(40, 34, streams[1]));
	free_all(pieces, MISSES, streams[0]);
	end_pool();
}

/*
 * Goal: what a stream has freed does not count as used for long: the pool has room again, and other streams take blocks
 * that are nearly their size.
 */
TEST(what_another_stream_has_freed_is_room)
{
	enum { LOOKS = 1000 }; /* after so many allocations the use has been summed up again */
	static CUdeviceptr pieces[MISSES];
	CUdeviceptr large, one;

	make_pool(0, 0);
	ASSERT_EQ((unsigned)MISSES, take_all(pieces, MISSES, PIECE_BYTES, streams[0]));
	ASSERT_OK(cuMemAllocFromPoolAsync(&large, (size_t)3 * CHUNK_BYTES, pool, streams[1]));
	ASSERT(!gets_again(40, 34, streams[0]));
	ASSERT_OK(cuMemFreeAsync(large, streams[1]));
	ASSERT_OK(cuStreamSynchronize(streams[1]));
	for (unsigned i = 0; i < LOOKS; i++) {
		ASSERT_EQ(1u, take_all(&one, 1, PIECE_BYTES, streams[0]));
		free_all(&one, 1, streams[0]);
	}
	ASSERT(gets_again(40, 34, streams[0]));
	free_all(pieces, MISSES, streams[0]);
	end_pool();
}

/* Goal: what blocks are too large is not missing when a pool is full: near its limit, each has its own size. */
TEST(a_full_pool_has_only_blocks_of_their_size)
{
	enum { LIMIT = 2 * CHUNK_BYTES, FREED = 1040, WANTED = LIMIT / (32 << 10) };
	static CUdeviceptr freed[FREED], wanted[WANTED];

	make_pool(LIMIT, FOLLOW | OPPORTUNISTIC | INTERNAL);
	ASSERT_EQ((unsigned)FREED, take_all(freed, FREED, 40 << 10, streams[0]));
	free_all(freed, FREED, streams[0]);
	unsigned count = take_all(wanted, WANTED, 32 << 10, streams[0]);
	ASSERT_GT(count, WANTED - WANTED / 100);
	free_all(wanted, count, streams[0]);
	end_pool();
}

static CUresult commit_nothing(struct cn_arena *arena, size_t offset, size_t bytes)
{
	(void)arena;
	(void)offset;
	return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "no %zu bytes", bytes);
}

/* Goal: the same where the device has no more, for a pool that has more than a sixteenth of its limit. */
TEST(a_full_device_loses_nothing_to_blocks_that_are_too_large)
{
	enum { FREED = 24000, WANTED = 32000, WANTED_BYTES = 32 << 10 };
	static CUdeviceptr freed[FREED], wanted[WANTED];
	const struct cn_device_ops *real = cn_device_ops;
	struct cn_device_ops full = *real;
	cuuint64_t keep = UINT64_MAX, reserved;

	full.arena_commit = commit_nothing;
	make_pool((size_t)8 << 30, FOLLOW | OPPORTUNISTIC | INTERNAL);
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	ASSERT_EQ((unsigned)FREED, take_all(freed, FREED, 40 << 10, streams[0]));
	free_all(freed, FREED, streams[0]);
	cn_device_ops = &full;
	unsigned count = take_all(wanted, WANTED, WANTED_BYTES, streams[0]);
	cn_device_ops = real;
	ASSERT_OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	ASSERT_GT((cuuint64_t)count * WANTED_BYTES, reserved - reserved / 50);
	free_all(wanted, count, streams[0]);
	end_pool();
}

/* ---- What others have in their spans ----------------------------------------------------------------------------- */

/* The pool is full of pieces of one stream, of which every second is free. Returns how many there are. */
static unsigned fill_with_pieces(CUdeviceptr *pieces, CUstream stream)
{
	unsigned count = take_all(pieces, PIECES, PIECE_BYTES, stream);
	for (unsigned i = 0; i < count; i += 2)
		ASSERT_OK(cuMemFreeAsync(pieces[i], stream));
	return count;
}

/*
 * Goal: what a stream has free in its spans goes to others before they are refused: at once where that is allowed,
 * otherwise when the program has waited for the stream; never before the free has happened.
 */
TEST(free_memory_of_spans_is_for_all)
{
	static CUdeviceptr pieces[PIECES], others[PIECES];
	struct gate gate = gate_make();

	for (int policies = 0; policies <= 7; policies += 7) {
		CUdeviceptr refused;
		make_pool(CHUNK_BYTES, policies);
		gate_close(gate, streams[0]);
		unsigned count = fill_with_pieces(pieces, streams[0]);
		ASSERT_EQ((unsigned)PIECES, count);
		if (!policies)
			ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY,
				     cuMemAllocFromPoolAsync(&refused, PIECE_BYTES, pool, streams[1]));
		gate_open(gate);
		ASSERT_OK(cuStreamSynchronize(streams[0]));
		for (unsigned i = 0; i < count; i += 2)
			ASSERT_OK(cuMemAllocFromPoolAsync(&others[i], PIECE_BYTES, pool, streams[1]));
		ASSERT_ERROR(CUDA_ERROR_OUT_OF_MEMORY,
			     cuMemAllocFromPoolAsync(&refused, PIECE_BYTES, pool, streams[1]));
		ASSERT_EQ((cuuint64_t)CHUNK_BYTES, attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
		for (unsigned i = 0; i < count; i++)
			ASSERT_OK(cuMemFreeAsync(i % 2 ? pieces[i] : others[i], streams[i % 3]));
		end_pool();
	}
	gate_free(gate);
}

static CUdeviceptr others[2 * MISSES];

/* Another stream needs as many pieces as give it spans, and some more. What failed on the way there is no error. */
static void *take_in_another_stream(void *context)
{
	if (context)
		ASSERT_OK(cuCtxSetCurrent(context));
	for (unsigned i = 0; i < 2 * MISSES; i++)
		ASSERT_OK(cuMemAllocFromPoolAsync(&others[i], PIECE_BYTES, pool, streams[1]));
	if (context)
		ASSERT_STREQ("", cenote_last_error());
	return NULL;
}

static void run_in_another_thread(void *(*run)(void *context))
{
	CUcontext context;
	pthread_t thread;

	ASSERT_OK(cuCtxGetCurrent(&context));
	ASSERT_EQ(0, pthread_create(&thread, NULL, run, context));
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

/*
 * Goal: a thread whose stream has spans does not live on those of another thread's stream while the pool is small for
 * what is used: the pool grows. Where it is roomy, or one thread has both streams, it does not.
 */
TEST(a_small_pool_grows_before_threads_share_spans)
{
	static const struct {
		unsigned chunks;
		unsigned part; /* one of so many pieces stays in use */
		bool threads, grows;
	} cases[] = {
		{1, 2, true, true},
		{1, 16, true, false},         /* 15 of 16 parts are free */
		{CHUNKS_MAX, 2, true, false}, /* 144 MiB are */
		{1, 2, false, false},
	};
	static CUdeviceptr pieces[CHUNKS_MAX * PIECES];
	cuuint64_t keep = UINT64_MAX;

	for (unsigned at = 0; at < sizeof cases / sizeof *cases; at++) {
		make_pool(0, FOLLOW | OPPORTUNISTIC | INTERNAL);
		ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
		unsigned count = cases[at].chunks * PIECES;
		cuuint64_t reserved = (cuuint64_t)cases[at].chunks * CHUNK_BYTES;
		ASSERT_EQ(count, take_all(pieces, count, PIECE_BYTES, streams[0]));
		for (unsigned i = 0; i < count; i++)
			if (i % cases[at].part)
				ASSERT_OK(cuMemFreeAsync(pieces[i], streams[0]));
		ASSERT_OK(cuStreamSynchronize(streams[0]));
		ASSERT_EQ(reserved, attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
		if (cases[at].threads)
			run_in_another_thread(take_in_another_stream);
		else
			take_in_another_stream(NULL);
		ASSERT_EQ(reserved + cases[at].grows * CHUNK_BYTES, attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
		for (unsigned i = 0; i < count; i += cases[at].part)
			ASSERT_OK(cuMemFreeAsync(pieces[i], streams[0]));
		free_all(others, 2 * MISSES, streams[1]);
		end_pool();
	}
}

/* Rounds of work, each of which is waited for, in a stream that has spans. */
static void *take_in_rounds(void *context)
{
	ASSERT_OK(cuCtxSetCurrent(context));
	for (unsigned round = 0; round < 4; round++) {
		ASSERT_EQ((unsigned)MISSES, take_all(others, MISSES, PIECE_BYTES, streams[1]));
		free_all(others, MISSES, streams[1]);
		ASSERT_OK(cuStreamSynchronize(streams[1]));
	}
	return NULL;
}

/* Goal: a pool does not grow by what the next wait takes from it again. */
TEST(a_pool_that_gives_back_what_is_free_does_not_grow_first)
{
	static CUdeviceptr pieces[PIECES];

	make_pool(0, FOLLOW | OPPORTUNISTIC | INTERNAL);
	ASSERT_EQ((unsigned)PIECES, fill_with_pieces(pieces, streams[0]));
	ASSERT_OK(cuStreamSynchronize(streams[0]));
	run_in_another_thread(take_in_rounds);
	ASSERT_EQ((cuuint64_t)CHUNK_BYTES, attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
	for (unsigned i = 1; i < PIECES; i += 2)
		ASSERT_OK(cuMemFreeAsync(pieces[i], streams[0]));
	end_pool();
}

static CUdeviceptr large_block;

/* After it has got spans. */
static void *take_large_in_another_stream(void *context)
{
	take_in_another_stream(context);
	ASSERT_OK(cuMemAllocFromPoolAsync(&large_block, CHUNK_BYTES / 4, pool, streams[1]));
	return NULL;
}

/* Goal: for a block that no span holds, the pool does not grow where a stream may wait for one that another freed. */
TEST(a_pool_does_not_grow_first_for_a_large_block)
{
	struct gate gate = gate_make();
	cuuint64_t keep = UINT64_MAX;
	CUdeviceptr rest, freed;

	make_pool(0, FOLLOW | OPPORTUNISTIC | INTERNAL);
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	ASSERT_OK(cuMemAllocFromPoolAsync(&rest, CHUNK_BYTES / 2, pool, streams[0]));
	ASSERT_OK(cuMemAllocFromPoolAsync(&freed, CHUNK_BYTES / 4, pool, streams[0]));
	run_in_another_thread(take_in_another_stream);
	free_all(others, 2 * MISSES, streams[1]);
	gate_close(gate, streams[0]);
	ASSERT_OK(cuMemFreeAsync(freed, streams[0]));
	run_in_another_thread(take_large_in_another_stream);
	ASSERT_EQ(freed, large_block);
	gate_open(gate);
	ASSERT_EQ((cuuint64_t)CHUNK_BYTES, attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
	ASSERT_OK(cuMemFreeAsync(rest, streams[0]));
	ASSERT_OK(cuMemFreeAsync(large_block, streams[1]));
	free_all(others, 2 * MISSES, streams[1]);
	end_pool();
	gate_free(gate);
}

static unsigned refusals;

static CUresult refuse_to_commit(struct cn_arena *arena, size_t offset, size_t bytes)
{
	(void)arena;
	(void)offset;
	refusals++;
	return cn_error(CUDA_ERROR_UNKNOWN, "no %zu bytes", bytes);
}

/* Goal: where such a pool cannot grow, whatever the device's reason, the thread gets what others have free. */
TEST(a_small_pool_that_cannot_grow_shares_spans)
{
	static CUdeviceptr pieces[PIECES];
	const struct cn_device_ops *real = cn_device_ops;
	struct cn_device_ops refusing = *real;
	cuuint64_t keep = UINT64_MAX;
	CUdeviceptr none;

	make_pool(0, FOLLOW | OPPORTUNISTIC | INTERNAL);
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	ASSERT_EQ((unsigned)PIECES, fill_with_pieces(pieces, streams[0]));
	ASSERT_OK(cuStreamSynchronize(streams[0]));
	refusing.arena_commit = refuse_to_commit;
	cn_device_ops = &refusing;
	run_in_another_thread(take_in_another_stream);
	ASSERT_EQ(1u, refusals); /* it is not tried again before the pool has another size */
	ASSERT_ERROR(CUDA_ERROR_UNKNOWN, cuMemAllocFromPoolAsync(&none, CHUNK_BYTES, pool, streams[1]));
	cn_device_ops = real;
	for (unsigned i = 1; i < PIECES; i += 2)
		ASSERT_OK(cuMemFreeAsync(pieces[i], streams[0]));
	free_all(others, 2 * MISSES, streams[1]);
	end_pool();
}

static bool is_one_of(CUdeviceptr pointer, const CUdeviceptr *pointers, unsigned count)
{
	bool found = false;

	for (unsigned i = 0; i < count; i++)
		found |= pointers[i] == pointer;
	return found;
}

/*
 * Goal: a stream that has spans gets what the same thread freed in another one, each block once, when that has
 * happened; before that, and where it is not allowed, it gets other memory.
 */
TEST(a_thread_finds_again_what_it_freed_in_another_stream)
{
	enum { COUNT = 20 };
	CUdeviceptr many[MISSES], blocks[COUNT], got[COUNT], again[COUNT];
	struct gate gate = gate_make();

	make_pool(0, FOLLOW | OPPORTUNISTIC | INTERNAL);
	for (unsigned i = 0; i < MISSES; i++)
		ASSERT_OK(cuMemAllocFromPoolAsync(&many[i], 512 * (1 + i % 64), pool, streams[0]));
	for (unsigned i = 0; i < COUNT; i++)
		ASSERT_OK(cuMemAllocFromPoolAsync(&blocks[i], PIECE_BYTES, pool, streams[0]));
	gate_close(gate, streams[1]);
	for (unsigned i = 0; i < COUNT; i++)
		ASSERT_OK(cuMemFreeAsync(blocks[i], streams[1]));
	for (unsigned i = 0; i < COUNT; i++) {
		ASSERT_OK(cuMemAllocFromPoolAsync(&got[i], PIECE_BYTES, pool, streams[0]));
		ASSERT(!is_one_of(got[i], blocks, COUNT));
	}
	for (unsigned i = 0; i < COUNT; i++)
		ASSERT_OK(cuMemFreeAsync(got[i], streams[2]));
	gate_open(gate);
	while (cuStreamQuery(streams[1]) == CUDA_ERROR_NOT_READY || cuStreamQuery(streams[2]))
		sched_yield();
	set_policies(INTERNAL);
	CUdeviceptr other;
	ASSERT_OK(cuMemAllocFromPoolAsync(&other, PIECE_BYTES, pool, streams[0]));
	ASSERT(!is_one_of(other, blocks, COUNT) && !is_one_of(other, got, COUNT));
	set_policies(OPPORTUNISTIC | INTERNAL);
	for (unsigned i = 0; i < COUNT; i++) {
		ASSERT_OK(cuMemAllocFromPoolAsync(&again[i], PIECE_BYTES, pool, streams[0]));
		if (!test_on_gpu()) /* on one, the library must first ask whether the frees have happened */
			ASSERT(is_one_of(again[i], blocks, COUNT) != is_one_of(again[i], got, COUNT));
		ASSERT(!is_one_of(again[i], again, i));
	}
	for (unsigned i = 0; i < COUNT; i++)
		ASSERT_OK(cuMemFreeAsync(again[i], streams[3]));
	for (unsigned i = 0; i < MISSES; i++)
		ASSERT_OK(cuMemFreeAsync(many[i], streams[i % STREAMS]));
	ASSERT_OK(cuMemFreeAsync(other, streams[0]));
	end_pool();
	gate_free(gate);
}

/*
 * Goal: what is settled in a stream's spans is not hidden by what is pending there, and one pending free keeps nothing
 * beside it from others.
 */
TEST(pending_frees_hide_nothing_that_is_settled)
{
	enum { SETTLED = 60, PENDING = 20, BYTES = 64 << 10, MANY = 4096 };
	static CUdeviceptr filling[3][MANY], blocks[512], got[512];
	CUdeviceptr large;

	for (int policies = 0; policies <= FOLLOW + OPPORTUNISTIC; policies++) {
		struct gate gate = gate_make();
		unsigned counts[3], count, got_count;
		make_pool(CHUNK_BYTES, policies);
		counts[0] = take_all(filling[0], MISSES, 40000, streams[0]);
		count = take_all(blocks, 512, BYTES, streams[0]);
		counts[1] = take_all(filling[1], MANY, 8192, streams[0]);
		counts[2] = take_all(filling[2], MANY, 512, streams[0]);
		ASSERT_GT(count, 4u * SETTLED);
		for (unsigned i = 0; i < SETTLED; i++)
			ASSERT_OK(cuMemFreeAsync(blocks[4 * i], streams[0]));
		ASSERT_OK(cuStreamSynchronize(streams[0]));
		gate_close(gate, streams[0]);
		for (unsigned i = 0; i < PENDING; i++)
			ASSERT_OK(cuMemFreeAsync(blocks[4 * i + 2], streams[0]));
		ASSERT(!try_take(2 * BYTES, streams[0], &large)); /* joins what it can */
		got_count = take_all(got, 512, BYTES, streams[1]);
		ASSERT_EQ((unsigned)SETTLED, got_count);
		gate_open(gate);
		for (unsigned i = 0; i < 3; i++)
			free_all(filling[i], counts[i], streams[0]);
		for (unsigned i = 0; i < count; i++)
			if (i % 4 == 1 || i % 4 == 3 || i / 4 >= (i % 4 ? PENDING : SETTLED))
				ASSERT_OK(cuMemFreeAsync(blocks[i], streams[0]));
		free_all(got, got_count, streams[1]);
		end_pool();
		gate_free(gate);
	}
}

/* Goal: a stream gets all of its own memory, also in blocks that are large beside its spans, whatever is pending. */
TEST(a_stream_is_not_refused_what_is_its_own)
{
	enum { LARGE_BYTES = 1 << 20, MANY = 8192 };
	static CUdeviceptr small[MANY], large[512];
	struct gate gate = gate_make();

	make_pool(CHUNK_BYTES, 0);
	gate_close(gate, streams[0]);
	unsigned count = take_all(small, PIECES, PIECE_BYTES, streams[0]);
	ASSERT_EQ((unsigned)PIECES, count);
	free_all(small, count, streams[0]);
	count = take_all(large, 512, LARGE_BYTES / 4, streams[0]); /* which joins the pieces of its spans */
	ASSERT_GE(count * (LARGE_BYTES / 4), CHUNK_BYTES / 2);
	free_all(large, count, streams[0]);
	gate_open(gate);
	end_pool();
	gate_free(gate);
}

/* Goal: a block of another stream's span, which cannot be cut, still does for one that is not much smaller. */
TEST(a_block_of_another_span_does_for_a_smaller_one)
{
	enum { BYTES = 64 << 10, LESS_BYTES = 48 << 10 };
	static CUdeviceptr held[512];
	CUdeviceptr own, waiting;
	struct gate gate = gate_make();

	make_pool(CHUNK_BYTES, FOLLOW | OPPORTUNISTIC | INTERNAL);
	unsigned count = take_all(held, 512, BYTES, streams[0]), half = count / 2;
	ASSERT_GT(half, (unsigned)MISSES);
	gate_close(gate, streams[1]);
	free_all(held + half, count - half, streams[1]);
	ASSERT(try_take(LESS_BYTES, streams[1], &own));
	ASSERT(try_take(LESS_BYTES, streams[2], &waiting)); /* which waits for that stream */
	ASSERT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(streams[2]));
	gate_open(gate);
	ASSERT_OK(cuMemFreeAsync(own, streams[1]));
	ASSERT_OK(cuMemFreeAsync(waiting, streams[2]));
	free_all(held, half, streams[0]);
	end_pool();
	gate_free(gate);
}

/* Goal: the rest of a block of a span that was cut is found from each of its addresses. */
TEST(the_rest_of_a_cut_block_is_known_everywhere)
{
	enum { BIG = 512 << 10, SMALL = 64 << 10, MANY = 70000 };
	static CUdeviceptr held[MANY];
	unsigned count, big_count, last = 0;

	make_pool(2 * CHUNK_BYTES, OPPORTUNISTIC);
	count = take_all(held, MISSES, 100000, streams[0]);
	big_count = take_all(held + count, 512, BIG, streams[0]);
	unsigned first = count;
	count += big_count;
	count += take_all(held + count, MANY - count, SMALL, streams[0]);
	count += take_all(held + count, MANY - count, 512, streams[0]);
	ASSERT_GT(big_count, 8u);
	for (unsigned i = first; i < first + big_count; i++) {
		CUdeviceptr cut, rest, base;
		size_t bytes;
		ASSERT_OK(cuMemFreeAsync(held[i], streams[0]));
		while (cuStreamQuery(streams[0]))
			sched_yield();
		ASSERT(try_take(SMALL, streams[1], &cut) && try_take(BIG - SMALL, streams[0], &rest));
		for (size_t at = 0; at < BIG - SMALL; at += 4096) {
			ASSERT_OK(cuMemGetAddressRange(&base, &bytes, rest + at));
			ASSERT_EQ(rest, base);
		}
		ASSERT_OK(cuMemFreeAsync(cut, streams[1]));
		ASSERT_OK(cuMemFreeAsync(rest, streams[0]));
		ASSERT_OK(cuStreamSynchronize(streams[1]));
		held[i] = 0;
		ASSERT(try_take(BIG, streams[0], &held[i]) || ++last); /* or it is in pieces now, which is no mistake */
	}
	for (unsigned i = 0; i < count; i++)
		if (held[i])
			ASSERT_OK(cuMemFreeAsync(held[i], streams[0]));
	end_pool();
}

/* Goal: records that streams have as spares are not lacking elsewhere: a pool can be full of the smallest blocks. */
TEST(spare_records_are_not_lacking_elsewhere)
{
	enum { CROWD = 80, SMALLEST = 512, COUNT = CHUNK_BYTES / SMALLEST };
	static CUdeviceptr blocks[COUNT];
	CUstream crowd[CROWD];

	make_pool(CHUNK_BYTES, FOLLOW | OPPORTUNISTIC | INTERNAL);
	for (unsigned i = 0; i < CROWD; i++) {
		ASSERT_OK(cuStreamCreate(&crowd[i], CU_STREAM_NON_BLOCKING));
		unsigned count = take_all(blocks, 4000, SMALLEST * (1 + i % 3), crowd[i]);
		free_all(blocks, count, crowd[i]);
		ASSERT_OK(cuStreamSynchronize(crowd[i]));
	}
	ASSERT_EQ((unsigned)COUNT, take_all(blocks, COUNT, SMALLEST, streams[0]));
	free_all(blocks, COUNT, streams[0]);
	for (unsigned i = 0; i < CROWD; i++)
		ASSERT_OK(cuStreamDestroy(crowd[i]));
	end_pool();
}

/* SPDX-License-Identifier: MIT */
/*
 * Pools under threads that allocate many sizes, most in a stream of their own: streams that have spans
 * (src/pool/span.h).
 *
 * Blocks are written at both ends while they live, so that two that overlap are seen. Some are freed in the stream of
 * another thread, and two threads share a stream.
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "asleep.h"
#include "cenote/cenote.h"
#include "device/device.h"
#include "driver/common/mempool.h"
#include "gate.h"
#include "pool/pool_internal.h"
#include "whole_pool.h"

enum {
	THREADS = 4,
	SLOTS = 64,
	STEPS = 100000 / HARNESS_SLOWDOWN,
	ROUNDS = 3,
	PASSED_ON = 8, /* one of so many blocks is freed by the next thread */
};

struct block {
	uint64_t *start;
	size_t bytes;
	uint64_t mark;
};

struct worker {
	unsigned number;
	CUstream stream;
	struct test_random random;
	struct block slots[SLOTS];
	_Atomic(struct block *) passed; /* by the thread before this one */
	uint64_t live_bytes;
	pthread_t thread;
};

static CUcontext context;
static struct worker workers[THREADS];
static pthread_barrier_t barrier;

static void make_pool(void)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};

	ASSERT_OK(cuMemPoolCreate(&pool, &properties));
}

SETUP
{
	context_current();
	ASSERT_OK(cuCtxGetCurrent(&context));
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].number = i;
		workers[i].stream = workers[0].stream; /* the last one's */
		if (i < THREADS - 1)
			ASSERT_OK(cuStreamCreate(&workers[i].stream, CU_STREAM_NON_BLOCKING));
	}
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

static void fill(struct worker *worker, struct block *slot)
{
	CUdeviceptr pointer;

	slot->bytes =
		256 + (size_t)test_random_below(&worker->random, 256ull << test_random_below(&worker->random, 11));
	ASSERT_OK(cuMemAllocFromPoolAsync(&pointer, slot->bytes, pool, worker->stream));
	slot->start = (uint64_t *)(uintptr_t)pointer;
	slot->mark = test_random_below(&worker->random, UINT64_MAX);
	if (!test_on_gpu()) {
		slot->start[0] = slot->mark;
		slot->start[slot->bytes / sizeof(uint64_t) - 1] = ~slot->mark;
	}
	worker->live_bytes += slot->bytes;
}

static void empty(const struct worker *worker, struct block *slot)
{
	if (!test_on_gpu()) {
		uint64_t last = slot->start[slot->bytes / sizeof(uint64_t) - 1];
		ASSERT_EQ(slot->mark, slot->start[0]);
		ASSERT_EQ(~slot->mark, slot->bytes < 2 * sizeof(uint64_t) ? ~slot->mark : last);
	}
	ASSERT_OK(cuMemFreeAsync((uintptr_t)slot->start, worker->stream));
	slot->start = NULL;
}

static void empty_passed(struct worker *worker)
{
	struct block *passed = atomic_exchange(&worker->passed, NULL);

	if (passed) {
		empty(worker, passed);
		free(passed);
	}
}

static void step(struct worker *worker)
{
	struct worker *next = &workers[(worker->number + 1) % THREADS];
	struct block *slot = &worker->slots[test_random_below(&worker->random, SLOTS)], *none = NULL;

	empty_passed(worker);
	if (!slot->start) {
		fill(worker, slot);
		return;
	}
	worker->live_bytes -= slot->bytes;
	struct block *passed = test_random_below(&worker->random, PASSED_ON) ? NULL : malloc(sizeof *passed);
	if (passed) {
		*passed = *slot;
		if (atomic_compare_exchange_strong(&next->passed, &none, passed)) {
			slot->start = NULL;
			return;
		}
		free(passed);
	}
	empty(worker, slot);
}

static void *work(void *data)
{
	struct worker *worker = data;

	ASSERT_OK(cuCtxSetCurrent(context));
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < STEPS; i++)
			step(worker);
		pthread_barrier_wait(&barrier); /* nothing is passed on any more, */
		empty_passed(worker);
		pthread_barrier_wait(&barrier); /* and the main thread looks */
		pthread_barrier_wait(&barrier);
	}
	for (unsigned i = 0; i < SLOTS; i++)
		if (worker->slots[i].start)
			empty(worker, &worker->slots[i]);
	return NULL;
}

/*
 * Goal: threads that allocate all sizes, and free some of each other's blocks, never get the same memory twice; what is
 * used is counted exactly when they rest, and the high-water mark is not below it; in the end all is one piece.
 */
TEST(threads_with_mixed_sizes_get_memory_of_their_own, .timeout_ms = 120000)
{
	struct test_random random = test_random_start(0);
	uint64_t highest = 0;

	make_pool();
	ASSERT_EQ(0, pthread_barrier_init(&barrier, NULL, THREADS + 1));
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].random.state = test_random_below(&random, UINT64_MAX) | 1;
		ASSERT_EQ(0, pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t live = 0;
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		for (unsigned i = 0; i < THREADS; i++)
			live += workers[i].live_bytes;
		highest = live > highest ? live : highest;
		ASSERT_EQ(live, attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
		ASSERT_GE(attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH), highest);
		ASSERT_LE(attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH), attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
		pthread_barrier_wait(&barrier);
	}
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(workers[i].thread, NULL));
	ASSERT_EQ(0, pthread_barrier_destroy(&barrier));

	/* One thread alone: the mark is exact again. */
	CUdeviceptr block;
	cuuint64_t zero = 0, before = attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH);
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, before + 12345, pool, workers[0].stream));
	ASSERT_EQ(before + 12345, attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
	ASSERT_OK(cuMemFreeAsync(block, workers[1].stream));
	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, 777, pool, workers[2].stream));
	ASSERT_EQ(777u, attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
	ASSERT_OK(cuMemFreeAsync(block, workers[2].stream));
	end_pool();
}

/* ---- New pools ---- */

static void use_once(void)
{
	CUdeviceptr block;

	ASSERT_OK(cuMemAllocFromPoolAsync(&block, 4096, pool, workers[0].stream));
	ASSERT_OK(cuMemFreeAsync(block, workers[0].stream));
	ASSERT_OK(cuStreamSynchronize(workers[0].stream));
}

static void *use_in_thread(void *unused)
{
	(void)unused;
	ASSERT_OK(cuCtxSetCurrent(context));
	use_once();
	return NULL;
}

static struct cn_pool *inside_of(CUmemoryPool handle)
{
	const struct cn_mempool *found = cn_table_find(&cn_mempools, handle);

	ASSERT(found);
	return found->pool;
}

static struct cn_pool_cache *remembered_in(const struct cn_pool *inside)
{
	for (unsigned i = 0; i < CN_POOL_RECENT_COUNT; i++)
		if (cn_pool_recent[i]->pool == inside)
			return cn_pool_recent[i];
	return NULL;
}

/*
 * Goal: a thread that remembers a cache of an ended pool does not use it in a new one, where another thread is about to
 * enter it: it may yet be thrown away. Pool, cache and stream have the same records in both.
 */
TEST(a_cache_that_is_being_entered_is_not_used)
{
	pthread_t thread;

	make_pool();
	struct cn_pool *inside = inside_of(pool);
	use_once();
	struct cn_pool_cache *cache = remembered_in(inside);
	ASSERT(cache);
	struct cn_queue *queue = cache->queue;
	ASSERT_EQ((uintptr_t)cache, (uintptr_t)cn_pool_cache_recent(inside, queue));
	ASSERT_OK(cuMemPoolDestroy(pool));
	make_pool();
	ASSERT_EQ((uintptr_t)inside, (uintptr_t)inside_of(pool));
	cn_lock(&inside->lock);
	ASSERT_EQ(0, pthread_create(&thread, NULL, use_in_thread, NULL));
	while (atomic_load(&inside->lock.bare.word) != 2) /* it has taken the record, and waits to enter it */
		sched_yield();
	ASSERT(!cn_pool_cache_recent(inside, queue));
	cn_unlock(&inside->lock);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ((uintptr_t)cache, (uintptr_t)cn_pool_cache_recent(inside, queue));
	use_once();
	ASSERT_OK(cuMemPoolDestroy(pool));
}

/*
 * Goal: what a stream has freed in a pool is found by others there, also where the record of its blocks served an ended
 * pool, in which the stream's free lists had been used up.
 */
TEST(a_record_of_an_ended_pool_hides_no_block)
{
	struct gate gate = gate_make();
	CUstream first = workers[0].stream, second = workers[1].stream;
	CUdeviceptr block, other;
	CUevent event;

	make_pool();
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, 4096, pool, first));
	ASSERT_OK(cuMemFreeAsync(block, first));
	struct cn_pool_cache *cache = remembered_in(inside_of(pool));
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, 4096, pool, first));
	ASSERT_OK(cuMemFreeAsync(block, second)); /* the first stream's list is empty */
	ASSERT_OK(cuStreamSynchronize(second));
	ASSERT_OK(cuMemPoolDestroy(pool));

	make_pool();
	ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, 4096, pool, first));
	gate_close(gate, first);
	ASSERT_OK(cuMemFreeAsync(block, first));
	ASSERT_EQ((uintptr_t)cache, (uintptr_t)remembered_in(inside_of(pool)));
	ASSERT_OK(cuEventRecord(event, first));
	ASSERT_OK(cuStreamWaitEvent(second, event, 0));
	ASSERT_OK(cuMemAllocFromPoolAsync(&other, 4096, pool, second));
	gate_open(gate);
	ASSERT_EQ(block, other);
	ASSERT_OK(cuMemFreeAsync(other, second));
	end_pool();
	ASSERT_OK(cuEventDestroy(event));
	gate_free(gate);
}

static struct {
	const struct cn_device_ops *real;
	CUdeviceptr at;
	struct cn_queue *queue;
	pid_t program;
	int result;
	bool asked, unexplained;
} ended;

/* Addresses that go back are freed once more, by the thread that freed there last. */
static void free_before_they_go(struct cn_arena *arena)
{
	cn_error(CUDA_ERROR_UNKNOWN, "of an earlier call");
	ended.result = cn_pool_free((void *)(uintptr_t)ended.at, (struct cn_point){ended.queue, 0});
	ended.unexplained = !strcmp("of an earlier call", cenote_last_error());
	ended.asked = gettid() == ended.program;
	ended.real->arena_free(arena);
}

/*
 * Goal: when a pool's addresses go back to the device, and may be another pool's at once, nothing leads from them to
 * the pool that has ended: a free there would be refused as a second one.
 */
TEST(addresses_that_go_back_lead_to_no_pool)
{
	static struct cn_device_ops ops;

	make_pool();
	ASSERT_OK(cuMemAllocFromPoolAsync(&ended.at, 4096, pool, workers[0].stream));
	ASSERT_OK(cuMemFreeAsync(ended.at, workers[0].stream));
	ended.queue = remembered_in(inside_of(pool))->queue;
	ended.program = gettid();
	ended.real = cn_device_ops;
	ops = *cn_device_ops;
	ops.arena_free = free_before_they_go;
	cn_device_ops = &ops;
	ASSERT_OK(cuStreamSynchronize(workers[0].stream));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuCtxSynchronize());
	cn_device_ops = ended.real;
	if (!ended.asked)
		SKIP("the library's thread has ended the pool, which remembers nothing of it");
	ASSERT_EQ(CUDA_ERROR_INVALID_VALUE, ended.result);
	ASSERT(ended.unexplained); /* there is no pool: the caller says what else is there */
}

/* ---- Memory that comes ------------------------------------------------------------------------------------------- */

static struct {
	const struct cn_device_ops *real;
	_Atomic unsigned commit_count;
	_Atomic pid_t ids[THREADS];
	CUdeviceptr blocks[THREADS];
} growth;

/* Do all others wait for the one that gets memory, or get some themselves? */
static bool others_are_there(void)
{
	for (unsigned i = 0; i < THREADS; i++) {
		pid_t id = atomic_load(&growth.ids[i]);
		if (!id || (id != gettid() && !is_asleep(id)))
			return atomic_load(&growth.commit_count) == THREADS;
	}
	return true;
}

static CUresult commit_when_others_are_there(struct cn_arena *arena, size_t offset, size_t bytes)
{
	if (!atomic_fetch_add(&growth.commit_count, 1))
		while (!others_are_there())
			sched_yield();
	return growth.real->arena_commit(arena, offset, bytes);
}

static void *allocate_first(void *data)
{
	struct worker *worker = data;

	ASSERT_OK(cuCtxSetCurrent(context));
	atomic_store(&growth.ids[worker->number], gettid());
	ASSERT_OK(cuMemAllocFromPoolAsync(&growth.blocks[worker->number], 4096, pool, worker->stream));
	pthread_barrier_wait(&barrier); /* a thread that has ended is not asleep */
	return NULL;
}

/* Goal: threads that begin to use a pool at the same time get one chunk for all of them, and not one each. */
TEST(threads_that_need_memory_at_once_get_one_chunk)
{
	static struct cn_device_ops ops;

	make_pool();
	ASSERT_EQ(0, pthread_barrier_init(&barrier, NULL, THREADS));
	growth.real = cn_device_ops;
	ops = *cn_device_ops;
	ops.arena_commit = commit_when_others_are_there;
	cn_device_ops = &ops;
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&workers[i].thread, NULL, allocate_first, &workers[i]));
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(workers[i].thread, NULL));
	cn_device_ops = growth.real;
	ASSERT_EQ(0, pthread_barrier_destroy(&barrier));
	ASSERT_EQ(1u, atomic_load(&growth.commit_count));
	ASSERT_EQ((cuuint64_t)CN_HEAP_CHUNK_BYTES, attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
	for (unsigned i = 0; i < THREADS; i++)
		ASSERT_OK(cuMemFreeAsync(growth.blocks[i], workers[i].stream));
	end_pool();
}

/* ---- Memory that goes back -------------------------------------------------------------------------------------- */

enum { LARGE = 64 << 20 };

static struct {
	const struct cn_device_ops *real;
	_Atomic bool begun, read, gone; /* the memory goes back; the reader has its number; it has gone */
	_Atomic pid_t reader;           /* 0: it has not begun */
	cuuint64_t reserved;
} slow;

/* It takes until the reader is asleep, or has read. */
static void decommit_slowly(struct cn_arena *arena, size_t offset, size_t bytes)
{
	atomic_store(&slow.begun, true);
	while (!atomic_load(&slow.read) && !(atomic_load(&slow.reader) && is_asleep(atomic_load(&slow.reader))))
		sched_yield();
	slow.real->arena_decommit(arena, offset, bytes);
	atomic_store(&slow.gone, true);
}

static void *read_reserved(void *unused)
{
	(void)unused;
	while (!atomic_load(&slow.begun))
		sched_yield();
	atomic_store(&slow.reader, gettid());
	slow.reserved = attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	atomic_store(&slow.read, true);
	while (!atomic_load(&slow.gone)) /* its number must not become another thread's */
		sched_yield();
	return NULL;
}

/* Goal: memory that a thread is giving back is no other thread's to count: that one waits until it has gone. */
TEST(memory_on_its_way_back_is_waited_for)
{
	static struct cn_device_ops ops;
	CUdeviceptr block;
	pthread_t thread;

	make_pool();
	slow.real = cn_device_ops;
	ops = *cn_device_ops;
	ops.arena_decommit = decommit_slowly;
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, LARGE, pool, workers[0].stream));
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_reserved, NULL));
	cn_device_ops = &ops;
	ASSERT_OK(cuMemFreeAsync(block, workers[0].stream));
	ASSERT_OK(cuStreamSynchronize(workers[0].stream));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	cn_device_ops = slow.real;
	ASSERT_EQ(0u, slow.reserved);
	end_pool();
}

static struct {
	struct cn_device_ops ops;
	const struct cn_device_ops *real;
	pid_t program;
	_Atomic pid_t another;
	bool once;                          /* a grace period is over for the library's thread once, then not */
	_Atomic bool over, begun, returned; /* the program's call has */
	_Atomic bool gone;
} late;

static bool is_over_when_told(unsigned slot)
{
	bool is_over = late.real->grace_is_over(slot), told = atomic_load(&late.over);

	if (late.once && told) /* the device is idle: it is over for the program */
		return gettid() == late.program || !atomic_load(&late.begun);
	return is_over && told;
}

/* The library's thread has it in hand until the program waits, or does not. */
static void decommit_late(struct cn_arena *arena, size_t offset, size_t bytes)
{
	if (gettid() != late.program) {
		atomic_store(&late.begun, true);
		while (!atomic_load(&late.returned) && !is_asleep(late.program))
			sched_yield();
	}
	late.real->arena_decommit(arena, offset, bytes);
}

static void free_late(struct cn_arena *arena)
{
	late.real->arena_free(arena);
	atomic_store(&late.gone, true);
}

static void copy_operations(void)
{
	late.program = gettid();
	late.real = cn_device_ops;
	late.ops = *cn_device_ops;
}

/* The last call to the pool returns, or not, while the library's thread has some of its memory in hand. */
static void have_in_hand(CUdeviceptr block)
{
	copy_operations();
	late.ops.grace_is_over = is_over_when_told;
	late.ops.arena_decommit = decommit_late;
	late.ops.arena_free = free_late;
	cn_device_ops = &late.ops;
	ASSERT_OK(cuMemFreeAsync(block, workers[0].stream));
	ASSERT_OK(cuStreamSynchronize(workers[0].stream)); /* the memory waits for its grace period */
	atomic_store(&late.over, true);
	while (!atomic_load(&late.begun))
		sched_yield();
}

static void expect_gone(void)
{
	bool gone = atomic_load(&late.gone);

	atomic_store(&late.returned, true);
	while (!atomic_load(&late.gone)) /* before the test's device ends */
		cn_pools_reap();
	cn_device_ops = late.real;
	ASSERT(gone);
}

/* Goal: when a pool has been destroyed its memory has gone, though a thread of the library had the last of it. */
TEST(a_pool_in_the_librarys_hands_ends_when_it_is_destroyed)
{
	CUdeviceptr block;

	make_pool();
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, LARGE, pool, workers[0].stream));
	have_in_hand(block);
	ASSERT_OK(cuMemPoolDestroy(pool));
	expect_gone();
}

/* Goal: the same where that thread lets it go, and does not end it. */
TEST(a_pool_that_the_library_lets_go_of_ends_when_it_is_destroyed)
{
	CUdeviceptr block;

	make_pool();
	late.once = true;
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, LARGE, pool, workers[0].stream));
	have_in_hand(block);
	ASSERT_OK(cuMemPoolDestroy(pool));
	expect_gone();
}

/* Goal: when a program has waited for its work, the memory of a destroyed pool has gone in the same way. */
TEST(a_pool_in_the_librarys_hands_ends_before_a_wait_does)
{
	CUdeviceptr block, last;

	make_pool();
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, LARGE, pool, workers[0].stream));
	ASSERT_OK(cuMemAllocFromPoolAsync(&last, LARGE, pool, workers[0].stream));
	have_in_hand(block);
	ASSERT_OK(cuMemPoolDestroy(pool)); /* it lives on for the last block */
	ASSERT_OK(cuMemFreeAsync(last, workers[0].stream));
	ASSERT_OK(cuStreamSynchronize(workers[0].stream));
	expect_gone();
}

static void free_in_hand(struct cn_arena *arena)
{
	if (gettid() != late.program) {
		atomic_store(&late.begun, true);
		while (!atomic_load(&late.returned) && !is_asleep(late.program))
			sched_yield();
	}
	free_late(arena);
}

/* The pool is destroyed before its grace period is over, and the library's thread has begun to take it apart. */
static void have_it_ended(CUdeviceptr block)
{
	late.ops.grace_is_over = is_over_when_told;
	cn_device_ops = &late.ops;
	ASSERT_OK(cuMemFreeAsync(block, workers[0].stream));
	ASSERT_OK(cuMemPoolDestroy(pool));
	atomic_store(&late.over, true);
	while (!atomic_load(&late.begun))
		sched_yield();
}

/* Goal: the same where that thread has begun to take the whole pool apart. */
TEST(a_pool_that_the_library_ends_has_gone_before_a_wait_does)
{
	CUdeviceptr block;

	make_pool();
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, LARGE, pool, workers[0].stream));
	copy_operations();
	late.ops.arena_free = free_in_hand;
	have_it_ended(block);
	ASSERT_OK(cuStreamSynchronize(workers[0].stream));
	expect_gone();
}

static bool is_over_for_another(unsigned slot)
{
	return (gettid() == atomic_load(&late.another) || atomic_load(&late.begun)) && is_over_when_told(slot);
}

static void *wait_for_a_stream(void *stream)
{
	CUcontext own;

	ASSERT_OK(cuStreamGetCtx(stream, &own));
	ASSERT_OK(cuCtxSetCurrent(own));
	atomic_store(&late.another, gettid());
	atomic_store(&late.over, true);
	ASSERT_OK(cuStreamSynchronize(stream));
	return NULL;
}

/* Goal: the same where another thread of the program has begun to, because it waits for work of its own. */
TEST(a_pool_that_another_wait_ends_has_gone_before_a_wait_does)
{
	CUdeviceptr block;
	pthread_t thread;

	make_pool();
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, LARGE, pool, workers[1].stream));
	ASSERT_OK(cuMemFreeAsync(block, workers[1].stream));
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, LARGE, pool, workers[0].stream));
	copy_operations();
	late.ops.grace_is_over = is_over_for_another;
	late.ops.arena_free = free_in_hand;
	cn_device_ops = &late.ops;
	ASSERT_OK(cuMemFreeAsync(block, workers[0].stream));
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_for_a_stream, workers[1].stream));
	while (!atomic_load(&late.begun))
		sched_yield();
	ASSERT_OK(cuStreamSynchronize(workers[0].stream));
	expect_gone();
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

static void decommit_until_told(struct cn_arena *arena, size_t offset, size_t bytes)
{
	if (gettid() != late.program) {
		atomic_store(&late.begun, true);
		while (!atomic_load(&late.returned) && !is_asleep(late.program))
			sched_yield();
		atomic_store(&late.gone, true);
	}
	late.real->arena_decommit(arena, offset, bytes);
}

/* Goal: no other wait, and no other pool's end, is longer because a thread takes a destroyed pool apart. */
TEST(a_pool_in_another_threads_hands_delays_nothing_else)
{
	CUmemoryPool other;
	CUdeviceptr block;

	make_pool();
	other = pool;
	make_pool();
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, LARGE, other, workers[1].stream));
	ASSERT_OK(cuMemFreeAsync(block, workers[1].stream));
	ASSERT_OK(cuStreamSynchronize(workers[1].stream));
	ASSERT_OK(cuMemAllocFromPoolAsync(&block, LARGE, pool, workers[0].stream));
	copy_operations();
	late.ops.arena_decommit = decommit_until_told;
	have_it_ended(block);
	ASSERT_OK(cuStreamSynchronize(workers[1].stream));
	ASSERT_OK(cuMemPoolDestroy(other));
	bool gone = atomic_load(&late.gone);
	atomic_store(&late.returned, true);
	ASSERT_OK(cuStreamSynchronize(workers[0].stream)); /* which waits: it used the pool */
	ASSERT(!gone);
	ASSERT(atomic_load(&late.gone)); /* the library's thread still reads cn_device_ops */
}

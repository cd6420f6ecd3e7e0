/* SPDX-License-Identifier: MIT */
/*
 * Chapter "pool_use": allocating from pools and freeing in stream order, what a block is, the pool's numbers, when
 * memory goes back to the system, and which blocks are used again.
 */
#include "pool.h"
#include "pool_block.h"

#include "calls.h"

#include <time.h>

CHAPTER(pool_use);

#define per_thread CU_STREAM_PER_THREAD
#define legacy     CU_STREAM_LEGACY

/* What an allocation gave, without its address. */
static const char *placed(CUdeviceptr at)
{
	if (!at || at == UNTOUCHED(CUdeviceptr))
		return OUT(at);
	return at % 512 ? at % 256 ? "misaligned" : "aligned to 256" : "aligned to 512";
}

GROUP(alloc_arguments)
{
	const struct {
		const char *name;
		size_t bytes;
	} sizes[] = {
		{"0", 0},
		{"1", 1},
		{"1_tib", (size_t)1 << 40},
		{"128_tib", (size_t)128 << 40},
		{"2_to_63", (size_t)1 << 63},
		{"max", SIZE_MAX},
		{"max_less_4095", SIZE_MAX - 4095},
	};

	ask_context();
	CUmemoryPool pool = pool_make(0);
	CUstream stream = pool_stream();
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		CUdeviceptr at = UNTOUCHED(CUdeviceptr), from = UNTOUCHED(CUdeviceptr);
		ASK_VALUE(ask_name("alloc_%s", sizes[i].name), cuMemAllocAsync(&at, sizes[i].bytes, stream), "%s",
			  placed(at));
		ASK_VALUE(ask_name("alloc_from_pool_%s", sizes[i].name),
			  cuMemAllocFromPoolAsync(&from, sizes[i].bytes, pool, stream), "%s", placed(from));
	}
	SAY("numbers_after_failures", "%s", pool_numbers(pool));
	CUdeviceptr at = UNTOUCHED(CUdeviceptr);
	ASK("alloc_null", cuMemAllocAsync(NULL, 16, stream));
	ASK("alloc_null_0", cuMemAllocAsync(NULL, 0, stream));
	ASK("alloc_from_pool_null", cuMemAllocFromPoolAsync(NULL, 16, pool, stream));
	ASK_VALUE("alloc_from_null_pool", cuMemAllocFromPoolAsync(&at, 16, NULL, stream), "%s", placed(at));
	ASK_VALUE("alloc_from_null_pool_0", cuMemAllocFromPoolAsync(&at, 0, NULL, stream), "%s", placed(at));
	ASK_VALUE("alloc_on_null", cuMemAllocAsync(&at, 16, NULL), "%s", placed(at));
	ASK("free_on_null", cuMemFreeAsync(at, NULL));
	ASK_VALUE("alloc_on_legacy", cuMemAllocAsync(&at, 16, legacy), "%s", placed(at));
	ASK("free_on_legacy", cuMemFreeAsync(at, legacy));
	ASK_VALUE("alloc_on_per_thread", cuMemAllocAsync(&at, 16, per_thread), "%s", placed(at));
	ASK("free_on_per_thread", cuMemFreeAsync(at, per_thread));
	ASK("synchronize", cuCtxSynchronize());
}

static void ask_wrong_stream(const char *kind, CUstream stream)
{
	CUdeviceptr at = UNTOUCHED(CUdeviceptr), good = 0;

	NEED(cuMemAllocAsync(&good, 64, NULL));
	ASK_VALUE(ask_name("alloc_on_%s_stream", kind), cuMemAllocAsync(&at, 64, stream), "%s", placed(at));
	ASK(ask_name("alloc_0_on_%s_stream", kind), cuMemAllocAsync(&at, 0, stream));
	ASK(ask_name("free_on_%s_stream", kind), cuMemFreeAsync(good, stream));
	ASK(ask_name("free_null_on_%s_stream", kind), cuMemFreeAsync(0, stream));
	ASK(ask_name("synchronize_after_%s_stream", kind), cuCtxSynchronize());
}

GROUP(stream_small)
{
	ask_context();
	ask_wrong_stream("small", SMALL(CUstream));
}

GROUP(stream_garbage)
{
	ask_context();
	ask_wrong_stream("garbage", GARBAGE(CUstream));
}

GROUP(stream_zeros)
{
	ask_context();
	ask_wrong_stream("zeros", ZEROS(CUstream));
}

GROUP(stream_destroyed)
{
	ask_context();
	CUstream stream = pool_stream();
	NEED(cuStreamDestroy(stream));
	ask_wrong_stream("destroyed", stream);
}

/* A block of a stream that is gone. */
GROUP(stream_gone)
{
	ask_context();
	CUstream stream = pool_stream(), other = pool_stream();
	CUmemoryPool pool = pool_make(0);
	CUdeviceptr kept = pool_alloc(pool, 4096, stream), freed = pool_alloc(pool, 4096, stream), again = 0;
	NEED(cuMemFreeAsync(freed, stream));
	ASK("destroy_stream_with_blocks", cuStreamDestroy(stream));
	ASK("fill_block_of_gone_stream", cuMemsetD8Async(kept, 0x41, 4096, other));
	NEED(cuStreamSynchronize(other));
	SAY("bytes_of_gone_stream", "%s", vmm_bytes(kept + 4080, 16));
	ASK_VALUE("alloc_after_stream_gone", cuMemAllocFromPoolAsync(&again, 4096, pool, other), "differs %s",
		  ask_yes(again != kept));
	ASK("free_block_of_gone_stream", cuMemFreeAsync(kept, other));
	NEED(cuCtxSynchronize());
	SAY("numbers_of_gone_stream", "%s", pool_numbers(pool));
}

GROUP(free_arguments)
{
	CUdeviceptr memory = 0, managed = 0;
	void *host = NULL;

	ask_context();
	CUstream stream = pool_stream(), other = pool_stream();
	CUmemoryPool pool = pool_make(0);
	CUdeviceptr at = pool_alloc(pool, 4096, stream), second = pool_alloc(pool, 4096, stream);
	NEED(cuMemAlloc(&memory, 4096));
	NEED(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	NEED(cuMemAllocHost(&host, 4096));
	NEED(cuCtxSynchronize());
	ASK("free_null", cuMemFreeAsync(0, stream));
	ASK("free_garbage", cuMemFreeAsync(GARBAGE(CUdeviceptr), stream));
	ASK("free_small", cuMemFreeAsync(SMALL(CUdeviceptr), stream));
	ASK("free_pageable", cuMemFreeAsync(ZEROS(CUdeviceptr), stream));
	ASK("free_interior_1", cuMemFreeAsync(at + 1, stream));
	ASK("free_interior_512", cuMemFreeAsync(at + 512, stream));
	ASK("free_sync_interior", cuMemFree(at + 512));
	ASK("free_on_other_stream", cuMemFreeAsync(at, other));
	ASK("free_twice", cuMemFreeAsync(at, other));
	ASK("free_twice_on_first", cuMemFreeAsync(at, stream));
	ASK("free_twice_sync", cuMemFree(at));
	NEED(cuCtxSynchronize());
	ASK("free_twice_when_done", cuMemFreeAsync(at, stream));
	ASK("free_twice_when_done_sync", cuMemFree(at));
	ASK("free_sync", cuMemFree(second));
	ASK("free_sync_twice", cuMemFree(second));
	SAY("numbers_after_free_sync", "%s", pool_numbers(pool));
	ASK("free_async_of_host", cuMemFreeAsync((CUdeviceptr)(uintptr_t)host, stream));
	ASK("free_async_of_mem_alloc_interior", cuMemFreeAsync(memory + 512, stream));
	ASK("free_async_of_mem_alloc", cuMemFreeAsync(memory, stream));
	ASK("free_async_of_managed", cuMemFreeAsync(managed, stream));
	NEED(cuCtxSynchronize());
	ASK("free_again_of_mem_alloc", cuMemFree(memory));
	ASK("free_again_of_managed", cuMemFree(managed));
	ASK("free_host_block", cuMemFreeHost(host));
}

/* cuMemFree of a block whose stream is held: does it wait? */
GROUP(free_sync_waits)
{
	ask_context();
	struct gate gate = gate_make();
	CUmemoryPool pool = pool_make(0);
	CUstream stream = pool_stream(), other = pool_stream();
	CUdeviceptr at = pool_alloc(pool, 4096, stream), idle = pool_alloc(pool, 4096, other);
	NEED(cuCtxSynchronize());
	gate_close(&gate, stream);
	NEED(cuMemsetD8Async(at, 1, 4096, stream));
	ASK("free_sync_of_other_streams_block", cuMemFree(idle));
	ASK("free_sync_of_held_block", cuMemFree(at));
	gate_open(&gate);
	ASK("synchronize_held", cuStreamSynchronize(stream));
}

/* Sizes: what is used, what is reserved. Each in a pool of its own. */
static const struct size {
	const char *name;
	size_t bytes;
} sizes[] = {
	{"1", 1},
	{"511", 511},
	{"512", 512},
	{"513", 513},
	{"4096", 4096},
	{"65537", 65537},
	{"1_mib", MIB},
	{"2_mib_less_1", 2 * MIB - 1},
	{"2_mib", 2 * MIB},
	{"2_mib_and_1", 2 * MIB + 1},
	{"3_mib", 3 * MIB},
	{"31_mib", 31 * MIB},
	{"32_mib", 32 * MIB},
	{"32_mib_and_1", 32 * MIB + 1},
	{"33_mib", 33 * MIB},
	{"64_mib", 64 * MIB},
	{"100_mib", 100 * MIB},
};

enum { SIZES = sizeof sizes / sizeof sizes[0] };

GROUP(sizes)
{
	ask_context();
	CUstream stream = pool_stream();
	for (int i = 0; i < SIZES; i++) {
		CUdeviceptr at = UNTOUCHED(CUdeviceptr), base = 0;
		size_t length = 0;
		CUmemoryPool pool = pool_make(0);
		ASK_VALUE(ask_name("bytes_%s", sizes[i].name),
			  cuMemAllocFromPoolAsync(&at, sizes[i].bytes, pool, stream), "%s %s", placed(at),
			  pool_numbers(pool));
		ASK_VALUE(ask_name("range_%s", sizes[i].name), cuMemGetAddressRange(&base, &length, at), "%s %zu",
			  ask_yes(base == at), length);
		NEED(cuStreamSynchronize(stream));
		SAY(ask_name("bytes_%s_synchronized", sizes[i].name), "%s", pool_numbers(pool));
		NEED(cuMemFreeAsync(at, stream));
		NEED(cuStreamSynchronize(stream));
		SAY(ask_name("bytes_%s_freed", sizes[i].name), "%s", pool_numbers(pool));
		NEED(cuMemPoolDestroy(pool));
	}
}

/* All of them in one pool that keeps what it has. */
GROUP(sizes_in_one_pool)
{
	CUdeviceptr at[SIZES];

	ask_context();
	CUstream stream = pool_stream();
	CUmemoryPool pool = pool_make(0);
	NEED(pool_set(pool, THRESHOLD, ~0ull));
	for (int i = 0; i < SIZES; i++) {
		at[i] = pool_alloc(pool, sizes[i].bytes, stream);
		SAY(ask_name("with_%s", sizes[i].name), "%s", pool_numbers(pool));
	}
	for (int i = 0; i < SIZES; i++) {
		NEED(cuMemFreeAsync(at[i], stream));
		NEED(cuStreamSynchronize(stream));
		SAY(ask_name("without_%s", sizes[i].name), "%s", pool_numbers(pool));
	}
	ASK_VALUE("reset_high", pool_set(pool, USED_HIGH, 0), "%s", pool_numbers(pool));
	ASK_VALUE("reset_reserved_high", pool_set(pool, RESERVED_HIGH, 0), "%s", pool_numbers(pool));
	ASK_VALUE("set_high_to_1", pool_set(pool, USED_HIGH, 1), "%s", pool_numbers(pool));
	const size_t keeps[] = {GIB, 100 * MIB + 1, 100 * MIB, 33 * MIB, 1, 0};
	for (size_t i = 0; i < sizeof keeps / sizeof keeps[0]; i++)
		ASK_VALUE(ask_name("trim_to_%zu", keeps[i]), cuMemPoolTrimTo(pool, keeps[i]), "%s", pool_numbers(pool));
}

GROUP(trim_with_blocks)
{
	CUdeviceptr at[8];

	ask_context();
	struct gate gate = gate_make();
	CUstream stream = pool_stream();
	CUmemoryPool pool = pool_make(0);
	NEED(pool_set(pool, THRESHOLD, ~0ull));
	for (int i = 0; i < 8; i++)
		at[i] = pool_alloc(pool, 16 * MIB, stream);
	NEED(cuMemsetD8Async(at[3], 0x51, 16 * MIB, stream));
	NEED(cuStreamSynchronize(stream));
	SAY("eight_blocks", "%s", pool_numbers(pool));
	ASK_VALUE("trim_full", cuMemPoolTrimTo(pool, 0), "%s", pool_numbers(pool));
	for (int i = 0; i < 8; i++) {
		if (i != 3)
			NEED(cuMemFreeAsync(at[i], stream));
	}
	NEED(cuStreamSynchronize(stream));
	SAY("one_block_left", "%s", pool_numbers(pool));
	ASK_VALUE("trim_with_block_to_max", cuMemPoolTrimTo(pool, SIZE_MAX), "%s", pool_numbers(pool));
	ASK_VALUE("trim_with_block_to_64_mib", cuMemPoolTrimTo(pool, 64 * MIB), "%s", pool_numbers(pool));
	ASK_VALUE("trim_with_block_to_0", cuMemPoolTrimTo(pool, 0), "%s", pool_numbers(pool));
	SAY("bytes_after_trim", "%s", vmm_bytes(at[3] + 16 * MIB - 16, 16));
	gate_close(&gate, stream);
	NEED(cuMemFreeAsync(at[3], stream));
	SAY("numbers_of_held_free", "%s", pool_numbers(pool));
	ASK_VALUE("trim_held_free", cuMemPoolTrimTo(pool, 0), "%s", pool_numbers(pool));
	gate_open(&gate);
	NEED(cuStreamSynchronize(stream));
	ASK_VALUE("trim_at_end", cuMemPoolTrimTo(pool, 0), "%s", pool_numbers(pool));
}

/* The pool's limit. */
static void ask_limit(const char *kind, size_t most, size_t bytes)
{
	CUdeviceptr at[4] = {0};

	CUstream stream = pool_stream();
	CUmemoryPool pool = pool_make(most);
	for (int i = 0; i < 4; i++)
		ASK_VALUE(ask_name("%s_block_%d", kind, i), cuMemAllocFromPoolAsync(&at[i], bytes, pool, stream), "%s",
			  pool_numbers(pool));
	if (at[0])
		ASK(ask_name("%s_free", kind), cuMemFreeAsync(at[0], stream));
	ASK_VALUE(ask_name("%s_after_free", kind), cuMemAllocFromPoolAsync(&at[0], bytes, pool, stream), "%s",
		  pool_numbers(pool));
	ASK(ask_name("%s_synchronize", kind), cuStreamSynchronize(stream));
}

GROUP(limits)
{
	ask_context();
	ask_limit("limit_1_of_1", 1, 1);
	ask_limit("limit_1_of_mib", 1, MIB);
	ask_limit("limit_2_mib_of_mib", 2 * MIB, MIB);
	ask_limit("limit_2_mib_of_32_mib", 2 * MIB, 32 * MIB);
	ask_limit("limit_32_mib_of_16_mib", 32 * MIB, 16 * MIB);
	ask_limit("limit_32_mib_of_32_mib", 32 * MIB, 32 * MIB);
	ask_limit("limit_32_mib_of_33_mib", 32 * MIB, 33 * MIB);
	ask_limit("limit_33_mib_of_32_mib", 33 * MIB, 32 * MIB);
	ask_limit("limit_96_mib_of_32_mib", 96 * MIB, 32 * MIB);
}

/* Spin until the word is there; the questioner sees to it when it never is. */
static void await(const uint32_t *word, uint32_t value)
{
	while (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value)
		continue;
}

/* Everything ordered on the stream has happened, and no call of CUDA has told us. */
static void reach(struct gate *gate, CUstream stream)
{
	static uint32_t mark;

	mark++;
	NEED(cuStreamWriteValue32(stream, gate->at + 64, mark, 0));
	await(gate->word + 16, mark);
}

/* The mark is written just before the stream itself is over. */
static CUresult query(CUstream stream)
{
	CUresult result;

	do
		result = cuStreamQuery(stream);
	while (result == CUDA_ERROR_NOT_READY);
	return result;
}

/* When memory goes back to the system: after each way to see that a free has happened. */
static const char *const looks[] = {"nothing",     "stream_query", "stream_wait",   "other_stream_wait",
				    "event_query", "event_wait",   "old_event",     "context_wait",
				    "copy",        "mem_alloc",    "mem_free",      "pool_alloc",
				    "pool_free",   "get_info",     "destroy_stream"};

enum { LOOKS = sizeof looks / sizeof looks[0] };

static CUresult look(int how, CUmemoryPool pool, CUstream stream, CUstream other, CUevent event, CUevent old,
		     CUdeviceptr memory)
{
	CUdeviceptr at = 0;
	size_t left, total;
	char byte;

	switch (how) {
	case 1: return query(stream);
	case 2: return cuStreamSynchronize(stream);
	case 3: return cuStreamSynchronize(other);
	case 4: return cuEventQuery(event);
	case 5: return cuEventSynchronize(event);
	case 6: return cuEventSynchronize(old);
	case 7: return cuCtxSynchronize();
	case 8: return cuMemcpyDtoH(&byte, memory, 1);
	case 9: return cuMemAlloc(&at, 4096);
	case 10: return cuMemFree(memory);
	case 11: return cuMemAllocFromPoolAsync(&at, 4096, pool, stream);
	case 12: NEED(cuMemAllocFromPoolAsync(&at, 4096, pool, stream)); return cuMemFreeAsync(at, stream);
	case 13: return cuMemGetInfo(&left, &total);
	case 14: return cuStreamDestroy(stream);
	default: return CUDA_SUCCESS;
	}
}

static void ask_looks(const char *kind, unsigned long long threshold)
{
	ask_context();
	struct gate gate = gate_make();
	CUstream other = pool_stream();
	for (int i = 0; i < LOOKS; i++) {
		CUmemoryPool pool = pool_make(0);
		CUstream stream = pool_stream();
		CUevent event = NULL, old = NULL;
		CUdeviceptr memory = 0;
		NEED(cuMemAlloc(&memory, 4096));
		NEED(cuMemsetD8(memory, 0, 4096));
		NEED(cuCtxSynchronize());
		NEED(cuEventCreate(&event, 0));
		NEED(cuEventCreate(&old, 0));
		NEED(pool_set(pool, THRESHOLD, threshold));
		CUdeviceptr at = pool_alloc(pool, 64 * MIB, stream), small = pool_alloc(pool, 4096, stream);
		(void)small;
		NEED(cuEventRecord(old, stream));
		NEED(cuMemFreeAsync(at, stream));
		NEED(cuEventRecord(event, stream));
		reach(&gate, stream);
		ASK_VALUE(ask_name("%s_%s", kind, looks[i]), look(i, pool, stream, other, event, old, memory), "%s",
			  pool_numbers(pool));
	}
}

GROUP(release_0)
{
	ask_looks("threshold_0", 0);
}

GROUP(release_48_mib)
{
	ask_looks("threshold_48_mib", 48 * MIB);
}

GROUP(release_max)
{
	ask_looks("threshold_max", ~0ull);
}

/* Memory goes back at a synchronisation while another stream's free has not happened. */
GROUP(release_held)
{
	ask_context();
	struct gate gate = gate_make();
	CUmemoryPool pool = pool_make(0);
	CUstream stream = pool_stream(), other = pool_stream();
	CUdeviceptr at = pool_alloc(pool, 64 * MIB, stream), second = pool_alloc(pool, 64 * MIB, other);
	NEED(cuCtxSynchronize());
	SAY("held_two_blocks", "%s", pool_numbers(pool));
	gate_close(&gate, stream);
	NEED(cuMemFreeAsync(at, stream));
	SAY("held_free_ordered", "%s", pool_numbers(pool));
	NEED(cuMemFreeAsync(second, other));
	ASK_VALUE("held_other_synchronized", cuStreamSynchronize(other), "%s", pool_numbers(pool));
	gate_open(&gate);
	ASK_VALUE("held_all_synchronized", cuStreamSynchronize(stream), "%s", pool_numbers(pool));
}

/* Which blocks are used again. Streams first, second and third; a block of `first` that it frees. */
enum scene {
	SAME_STREAM,
	NO_ORDER,
	EVENT_AFTER,
	EVENT_BEFORE,
	EVENT_CHAIN,
	EVENT_AGAIN,
	DONE_UNSEEN,
	DONE_STREAM_QUERY,
	DONE_STREAM_WAIT,
	DONE_EVENT_WAIT,
	DONE_CONTEXT_WAIT,
	DONE_SMALLER,
	SCENES
};

static const char *const scenes[] = {"same_stream",      "no_order",        "event_after",       "event_before",
				     "event_chain",      "event_again",     "done_unseen",       "done_stream_query",
				     "done_stream_wait", "done_event_wait", "done_context_wait", "done_smaller"};

/* False when the stream is still held after a tenth of a second. */
static bool finishes(CUstream stream)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		if (cuStreamQuery(stream) != CUDA_ERROR_NOT_READY)
			return true;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 100);
	return false;
}

static void play(enum scene scene, CUdeviceptr block, struct gate *gate, CUstream first, CUstream second)
{
	CUevent event = NULL, later = NULL;
	CUstream third = pool_stream();

	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED(cuEventCreate(&later, CU_EVENT_DISABLE_TIMING));
	if (scene < DONE_UNSEEN)
		gate_close(gate, first);
	if (scene == EVENT_BEFORE)
		NEED(cuEventRecord(event, first));
	NEED(cuMemFreeAsync(block, first));
	if (scene == EVENT_AFTER || scene == EVENT_CHAIN || scene == EVENT_AGAIN || scene == DONE_EVENT_WAIT)
		NEED(cuEventRecord(event, first));
	if (scene == EVENT_CHAIN) {
		NEED(cuStreamWaitEvent(third, event, 0));
		NEED(cuEventRecord(later, third));
		NEED(cuStreamWaitEvent(second, later, 0));
	}
	if (scene == EVENT_AFTER || scene == EVENT_BEFORE || scene == EVENT_AGAIN)
		NEED(cuStreamWaitEvent(second, event, 0));
	if (scene == EVENT_AGAIN)
		NEED(cuEventRecord(event, third));
	if (scene >= DONE_UNSEEN)
		reach(gate, first);
	if (scene == DONE_STREAM_QUERY)
		NEED(query(first));
	if (scene == DONE_STREAM_WAIT || scene == DONE_SMALLER)
		NEED(cuStreamSynchronize(first));
	if (scene == DONE_EVENT_WAIT)
		NEED(cuEventSynchronize(event));
	if (scene == DONE_CONTEXT_WAIT)
		NEED(cuCtxSynchronize());
}

/* In a pool of one block nothing else is to be had; in a wide one there is other memory. */
static void ask_reuse(const char *kind, int follow, int opportunistic, int internal, bool narrow)
{
	size_t bytes = narrow ? 32 * MIB : 4096;

	ask_context();
	struct gate gate = gate_make();
	for (int i = 0; i < SCENES; i++) {
		CUmemoryPool pool = pool_make(narrow ? 32 * MIB : 0);
		CUstream first = pool_stream(), second = pool_stream();
		NEED(pool_set(pool, FOLLOW, (unsigned)follow));
		NEED(pool_set(pool, OPPORTUNISTIC, (unsigned)opportunistic));
		NEED(pool_set(pool, INTERNAL, (unsigned)internal));
		NEED(pool_set(pool, THRESHOLD, ~0ull));
		CUdeviceptr block = pool_alloc(pool, bytes, first), again = 0;
		CUstream user = i == SAME_STREAM ? first : second;
		NEED(cuCtxSynchronize());
		play((enum scene)i, block, &gate, first, second);
		ASK_VALUE(ask_name("%s_%s_%s", narrow ? "narrow" : "wide", kind, scenes[i]),
			  cuMemAllocFromPoolAsync(&again, i == DONE_SMALLER ? bytes / 2 : bytes, pool, user),
			  "same %s held %s reserved %s", ask_yes(again == block), ask_yes(!finishes(user)),
			  pool_get(pool, RESERVED));
		gate_open(&gate);
		NEED(cuCtxSynchronize());
	}
}

#define REUSE(kind, follow, opportunistic, internal)                      \
	GROUP(wide_##kind)                                                \
	{                                                                 \
		ask_reuse(#kind, follow, opportunistic, internal, false); \
	}                                                                 \
	GROUP(narrow_##kind)                                              \
	{                                                                 \
		ask_reuse(#kind, follow, opportunistic, internal, true);  \
	}

REUSE(all, 1, 1, 1)
REUSE(none, 0, 0, 0)
REUSE(follow, 1, 0, 0)
REUSE(opportunistic, 0, 1, 0)
REUSE(internal, 0, 0, 1)
REUSE(no_internal, 1, 1, 0)

/* The legacy stream orders streams that block on it. */
GROUP(reuse_legacy)
{
	CUstream stream = NULL;
	CUdeviceptr again = 0, more = 0;

	ask_context();
	struct gate gate = gate_make();
	CUmemoryPool pool = pool_make(0);
	NEED(pool_set(pool, OPPORTUNISTIC, 0));
	NEED(pool_set(pool, INTERNAL, 0));
	NEED(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	CUdeviceptr block = pool_alloc(pool, 4096, stream);
	NEED(cuCtxSynchronize());
	gate_close(&gate, stream);
	NEED(cuMemFreeAsync(block, stream));
	ASK_VALUE("legacy_reuses_blocking_streams", cuMemAllocFromPoolAsync(&again, 4096, pool, NULL), "same %s",
		  ask_yes(again == block));
	NEED(cuMemFreeAsync(again, NULL));
	ASK_VALUE("blocking_stream_reuses_legacys", cuMemAllocFromPoolAsync(&more, 4096, pool, stream), "same %s",
		  ask_yes(again == more));
	gate_open(&gate);
	NEED(cuCtxSynchronize());
}

/* Neighbours that were freed become one block. */
GROUP(reuse_neighbours)
{
	CUdeviceptr at[4], big = 0, four = 0;

	ask_context();
	CUstream stream = pool_stream();
	CUmemoryPool pool = pool_make(32 * MIB);
	NEED(pool_set(pool, THRESHOLD, ~0ull));
	for (int i = 0; i < 4; i++)
		at[i] = pool_alloc(pool, 8 * MIB, stream);
	NEED(cuStreamSynchronize(stream));
	NEED(cuMemFreeAsync(at[1], stream));
	NEED(cuMemFreeAsync(at[2], stream));
	ASK("two_neighbours_at_once", cuMemAllocFromPoolAsync(&big, 16 * MIB, pool, stream));
	NEED(cuStreamSynchronize(stream));
	if (!big)
		ASK("two_neighbours_synchronized", cuMemAllocFromPoolAsync(&big, 16 * MIB, pool, stream));
	SAY("two_neighbours_numbers", "%s", pool_numbers(pool));
	NEED(cuMemFreeAsync(at[0], stream));
	NEED(cuMemFreeAsync(at[3], stream));
	ASK("two_that_are_apart", cuMemAllocFromPoolAsync(&four, 16 * MIB, pool, stream));
	ASK("one_of_two_that_are_apart", cuMemAllocFromPoolAsync(&four, 8 * MIB, pool, stream));
	NEED(cuStreamSynchronize(stream));
}

/* What a block's memory does, on other streams, in another context, by a kernel. */
GROUP(contents)
{
	CUmodule module = NULL;
	CUfunction function = NULL;
	CUcontext second = NULL;
	uint32_t count = 4, factor = 3;

	ask_context();
	CUstream stream = pool_stream(), other = pool_stream();
	CUmemoryPool pool = pool_make(0);
	CUdeviceptr at = pool_alloc(pool, 65536, stream);
	ASK("fill_on_its_stream", cuMemsetD8Async(at, 0x61, 65536, stream));
	NEED(cuStreamSynchronize(stream));
	SAY("bytes", "%s", ask_device_bytes(at + 65520, 16));
	ASK("fill_on_another_stream", cuMemsetD8Async(at, 0x62, 65536, other));
	NEED(cuStreamSynchronize(other));
	SAY("bytes_of_another", "%s", ask_device_bytes(at + 65520, 16));
	ASK("fill_on_legacy", cuMemsetD8(at, 0x63, 65536));
	SAY("bytes_of_legacy", "%s", vmm_bytes(at, 16));
	NEED(cuModuleLoad(&module, objects_module_path()));
	NEED(cuModuleGetFunction(&function, module, "write_indices"));
	ASK("kernel", cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, other, (void *[]){&at, &count, &factor}, NULL));
	SAY("bytes_of_kernel", "%s", vmm_bytes(at, 16));
	ASK("free_while_others_live", cuMemFreeAsync(pool_alloc(pool, 4096, stream), stream));
	SAY("bytes_after_others_free", "%s", vmm_bytes(at, 16));
	NEED(cuCtxCreate(&second, NULL, 0, 0));
	ASK("fill_in_another_context", cuMemsetD8(at, 0x64, 16));
	SAY("bytes_in_another_context", "%s", vmm_bytes(at, 16));
	ASK("alloc_on_stream_of_another_context", cuMemAllocFromPoolAsync(&at, 4096, pool, stream));
	ASK("free_in_another_context", cuMemFreeAsync(at, NULL));
	ASK("synchronize_another_context", cuCtxSynchronize());
}

/* Memory touched after its free: asked of copies, each in a process that may end by it. */
GROUP(freed_contents)
{
	ask_context();
	CUstream stream = pool_stream();
	CUmemoryPool pool = pool_make(0);
	NEED(pool_set(pool, THRESHOLD, ~0ull));
	CUdeviceptr at = pool_alloc(pool, 4096, stream);
	NEED(cuMemsetD8Async(at, 0x65, 4096, stream));
	NEED(cuMemFreeAsync(at, stream));
	NEED(cuStreamSynchronize(stream));
	ask_guard();
	SAY("read_after_free_kept", "%s", ask_device_bytes(at, 16));
	ASK("fill_after_free_kept", cuMemsetD8(at, 0x66, 16));
	NEED(cuMemPoolTrimTo(pool, 0));
	SAY("read_after_free_trimmed", "%s", ask_device_bytes(at, 16));
	ASK("fill_after_free_trimmed", cuMemsetD8(at, 0x66, 16));
	CUdeviceptr again = pool_alloc(pool, 4096, stream);
	ASK("fill_again", cuMemsetD8Async(again, 0x67, 4096, stream));
	NEED(cuStreamSynchronize(stream));
	SAY("bytes_again", "%s", ask_device_bytes(again, 16));
}

/* A block through its life, its stream held where that matters. */
GROUP(block_attributes)
{
	ask_context();
	struct gate gate = gate_make();
	CUstream stream = pool_stream();
	CUmemoryPool pool = pool_make(0);
	NEED(pool_set(pool, THRESHOLD, ~0ull));
	CUdeviceptr neighbour = pool_alloc(pool, 4096, stream);
	(void)neighbour;
	NEED(cuStreamSynchronize(stream));
	gate_close(&gate, stream);
	CUdeviceptr at = pool_alloc(pool, 10000, stream);
	ask_attributes("unreached", at, pool);
	gate_open(&gate);
	NEED(cuStreamSynchronize(stream));
	ask_attributes("block", at, pool);
	ask_attributes("interior", at + 5000, pool);
	ask_attributes("behind", at + 10001, pool);
	gate_close(&gate, stream);
	NEED(cuMemFreeAsync(at, stream));
	ask_attributes("freed_unreached", at, pool);
	gate_open(&gate);
	NEED(cuStreamSynchronize(stream));
	ask_attributes("freed", at, pool);
	NEED(cuMemPoolDestroy(pool));
	ask_attributes("freed_and_pool_destroyed", at, pool);
}

static void ask_kind(const char *kind, CUmemPoolProps properties)
{
	ask_context();
	CUstream stream = pool_stream();
	CUmemoryPool pool = pool_make_as(properties);
	CUdeviceptr at = pool_alloc(pool, 10000, stream);
	NEED(cuStreamSynchronize(stream));
	ask_attributes(kind, at, pool);
}

GROUP(host_attributes)
{
	ask_kind("host", pool_properties(PINNED, HOST, 0));
}

GROUP(numa_attributes)
{
	ask_kind("numa", pool_properties(PINNED, NUMA, 0));
}

GROUP(managed_attributes)
{
	ask_kind("managed", pool_properties(MANAGED, DEVICE, 0));
}

GROUP(posix_attributes)
{
	CUmemPoolProps properties = pool_properties(PINNED, DEVICE, 0);

	properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	ask_kind("posix", properties);
}

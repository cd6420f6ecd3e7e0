/* SPDX-License-Identifier: MIT */
/*
 * Blocks that are freed in one stream while another still uses them: against the rules, and survived. Memory is
 * unmapped, or given back, only when all work that was under way is done.
 *
 * In each test a stream, `late`, waits at a gate in front of a fill; the block is freed in another one meanwhile, and
 * its memory taken away in one of several ways. Then the gate opens, and the fill must find memory.
 */
#include "../share.h"

SETUP
{
	share_start();
}

enum { BLOCK = SHARE_MIB, POOL = SHARE_CHUNK };

struct late {
	struct share_gate gate;
	CUstream late, freeing;
};

static struct late late_open(void)
{
	struct late late = {.gate = share_gate_make(), .late = share_stream(), .freeing = share_stream()};

	share_gate_close(late.gate.reader, late.late);
	return late;
}

/* A fill that is under way, and a free that does not wait for it. */
static void break_the_rule(const struct late *late, CUdeviceptr block, bool synchronized)
{
	ASSERT_OK(cuMemsetD8Async(block, 0x5a, BLOCK, late->late));
	ASSERT_OK(cuMemFreeAsync(block, late->freeing));
	if (synchronized)
		ASSERT_OK(cuStreamSynchronize(late->freeing));
}

static void late_go(const struct late *late)
{
	share_gate_open(&late->gate);
	ASSERT_OK(cuStreamSynchronize(late->late));
	ASSERT_OK(cuCtxSynchronize());
}

static void late_end(const struct late *late)
{
	ASSERT_OK(cuStreamDestroy(late->late));
	ASSERT_OK(cuStreamDestroy(late->freeing));
	share_gate_free(&late->gate);
}

static uint64_t reserved(CUmemoryPool pool)
{
	cuuint64_t bytes;

	ASSERT_OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
	return bytes;
}

/* Until a pool has given all its memory back: work that is done is seen to be done a moment later. */
static void await_nothing_reserved(CUmemoryPool pool)
{
	while (reserved(pool))
		sched_yield();
}

/* Until the memory of ended pools is gone: the service thread and later calls see to it. */
static void await_unmapped(void)
{
	while (share_is_mapped()) {
		ASSERT_OK(cuCtxSynchronize());
		sched_yield();
	}
}

/* ---- An imported pool -------------------------------------------------------------------------------------------- */

static void end_imported_pool(bool synchronized)
{
	int descriptor;
	struct peer *agent = agent_exporter(POOL, &descriptor);
	CUmemPoolPtrExportData name = agent_allocate(agent, 0, BLOCK, 0x11);
	CUmemoryPool pool = share_import(descriptor);
	struct late late = late_open();

	break_the_rule(&late, share_take(pool, name), synchronized);
	ASSERT_OK(cuMemPoolDestroy(pool));
	/* The service thread has come to the end of that pool when it has joined another one of the same exporter. */
	CUmemoryPool again = share_import(descriptor);
	CUdeviceptr block = share_take(again, name);
	ASSERT_EQ(0x11, share_byte(block));
	if (share_is_checked()) /* two views of the exporter's memory: the first is still there */
		ASSERT_EQ(2, test_mapping_count("/memfd:cenote-pool"));
	late_go(&late);
	ASSERT_OK(cuMemFreeAsync(block, late.freeing));
	ASSERT_OK(cuMemPoolDestroy(again));
	await_unmapped();
	late_end(&late);
	close(descriptor);
	agent_free(agent, 0);
	agent_destroy(agent, 0);
	agent_end(agent);
}

/* Goal: an imported pool that is destroyed keeps its memory mapped while a stream may use it. */
TEST(an_imported_pool_is_destroyed)
{
	end_imported_pool(false);
}

/* Goal: so it does when the stream of the free was waited for. */
TEST(an_imported_pool_is_destroyed_after_a_wait)
{
	end_imported_pool(true);
}

/* Goal: the exporter has gone, too; what was imported stays mapped while a stream may use it. */
TEST(the_exporter_of_an_imported_pool_is_gone)
{
	int descriptor;
	struct peer *agent = agent_exporter(POOL, &descriptor);
	CUmemPoolPtrExportData name = agent_allocate(agent, 0, BLOCK, 0x12);
	CUmemoryPool pool = share_import(descriptor), again;
	CUdeviceptr block = share_take(pool, name);
	struct late late = late_open();

	peer_kill(agent);
	while (!share_try_import(descriptor, &again)) /* until the service thread has seen it */
		ASSERT_OK(cuMemPoolDestroy(again));
	break_the_rule(&late, block, true);
	ASSERT_OK(cuMemPoolDestroy(pool));
	late_go(&late);
	await_unmapped();
	late_end(&late);
	close(descriptor);
}

/* ---- A pool of one's own ----------------------------------------------------------------------------------------- */

static void end_own_pool(bool synchronized)
{
	CUmemoryPool pool = share_pool(POOL);
	struct late late = late_open();

	break_the_rule(&late, share_allocate(pool, BLOCK, late.freeing), synchronized);
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuStreamSynchronize(late.freeing));
	if (share_is_checked())
		ASSERT(share_is_mapped());
	late_go(&late);
	await_unmapped();
	late_end(&late);
}

/* Goal: a destroyed pool's memory stays while a stream may use it. */
TEST(a_pool_is_destroyed)
{
	end_own_pool(false);
}

/* Goal: so it does when the stream of the free was waited for. */
TEST(a_pool_is_destroyed_after_a_wait)
{
	end_own_pool(true);
}

/* Goal: what a synchronisation gives back because the pool has more than its threshold stays until it may go. */
TEST(a_pool_has_more_than_its_threshold)
{
	CUmemoryPool pool = share_pool(POOL);
	struct late late = late_open();

	break_the_rule(&late, share_allocate(pool, BLOCK, late.freeing), true);
	ASSERT_EQ(SHARE_CHUNK, reserved(pool));
	late_go(&late);
	ASSERT_OK(cuStreamSynchronize(late.freeing));
	await_nothing_reserved(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
	late_end(&late);
}

/* Goal: trimmed memory is given back when that is safe, and is not reused before. */
TEST(a_pool_is_trimmed)
{
	cuuint64_t keep = UINT64_MAX;
	CUmemoryPool pool = share_pool(POOL);
	struct late late = late_open();

	ASSERT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	break_the_rule(&late, share_allocate(pool, BLOCK, late.freeing), true);
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	ASSERT_EQ(SHARE_CHUNK, reserved(pool));
	late_go(&late);
	await_nothing_reserved(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
	late_end(&late);
}

/* Goal: memory that cannot go yet is used again rather than new memory taken. */
TEST(memory_on_its_way_is_used_again)
{
	CUmemoryPool pool = share_pool(POOL);
	struct late late = late_open();
	CUdeviceptr block = share_allocate(pool, BLOCK, late.freeing), all;

	ASSERT_OK(cuMemFreeAsync(block, late.freeing));
	ASSERT_OK(cuStreamSynchronize(late.freeing));
	ASSERT_OK(cuMemPoolTrimTo(pool, 0));
	ASSERT_EQ(SHARE_CHUNK, reserved(pool));
	all = share_allocate(pool, POOL, late.freeing);
	ASSERT_EQ(SHARE_CHUNK, reserved(pool));
	ASSERT_OK(cuMemsetD8Async(all, 0x77, POOL, late.freeing));
	ASSERT_OK(cuStreamSynchronize(late.freeing));
	late_go(&late);
	ASSERT_EQ(SHARE_CHUNK, reserved(pool)); /* it is live: it was not taken away from its owner */
	ASSERT_EQ(0x77, share_byte(all + POOL - 1));
	ASSERT_OK(cuMemFreeAsync(all, late.freeing));
	ASSERT_OK(cuStreamSynchronize(late.freeing));
	await_nothing_reserved(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
	late_end(&late);
}

/* Goal: with work under way all the time, memory still goes: what comes later does not hold it up. */
TEST(later_work_holds_nothing_up)
{
	CUmemoryPool pool = share_pool(POOL);
	struct late first = late_open();

	break_the_rule(&first, share_allocate(pool, BLOCK, first.freeing), true);
	ASSERT_EQ(SHARE_CHUNK, reserved(pool));
	struct late second = late_open(); /* after the free */
	share_gate_open(&first.gate);
	ASSERT_OK(cuStreamSynchronize(first.late));
	await_nothing_reserved(pool);
	ASSERT_OK(cuMemPoolDestroy(pool));
	late_go(&second);
	late_end(&first);
	late_end(&second);
}

/* Goal: nor does it when it comes while memory that was freed earlier still waits. */
TEST(later_work_holds_up_no_second_release)
{
	CUmemoryPool pool = share_pool(POOL), other = share_pool(POOL);
	struct late first = late_open(), second = late_open();

	break_the_rule(&first, share_allocate(pool, BLOCK, first.freeing), true);
	break_the_rule(&second, share_allocate(other, BLOCK, second.freeing), true);
	ASSERT_EQ(SHARE_CHUNK, reserved(pool));
	ASSERT_EQ(SHARE_CHUNK, reserved(other));
	struct late third = late_open(); /* after both frees */
	share_gate_open(&first.gate);
	share_gate_open(&second.gate);
	ASSERT_OK(cuStreamSynchronize(first.late));
	ASSERT_OK(cuStreamSynchronize(second.late));
	await_nothing_reserved(pool);
	await_nothing_reserved(other);
	ASSERT_OK(cuMemPoolDestroy(pool));
	ASSERT_OK(cuMemPoolDestroy(other));
	late_go(&third);
	late_end(&first);
	late_end(&second);
	late_end(&third);
}

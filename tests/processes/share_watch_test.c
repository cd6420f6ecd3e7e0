/* SPDX-License-Identifier: MIT */
/*
 * What the exporter of a pool sees of its importers, and can do to them: cenote.h's calls for that, with each error
 * that their texts promise.
 */
#include "share_calls.h"

/* Wait until something has happened to a pool's importers; how often. */
static uint64_t await_change(int watch)
{
	struct pollfd wanted = {.fd = watch, .events = POLLIN};
	uint64_t count = 0;

	ASSERT_EQ(1, poll(&wanted, 1, -1));
	ASSERT_EQ((ssize_t)sizeof count, read(watch, &count, sizeof count));
	return count;
}

static void await_nobody(CUmemoryPool pool, int watch)
{
	while (importer_count(pool))
		await_change(watch);
}

static int watch(CUmemoryPool pool)
{
	int descriptor;

	ASSERT_OK(cenote_pool_watch(pool, &descriptor));
	return descriptor;
}

/* ---- Who holds what ---------------------------------------------------------------------------------------------- */

/* Goal: an importer is shown with what it is and holds, from its coming to its going. */
TEST(an_importer_is_shown)
{
	begin();
	CUmemoryPool pool = make_pool();
	int changes = watch(pool);
	ASSERT_EQ(0, importer_count(pool));
	unsigned long long before_ns = now_ns();
	struct receiver receiver = importer_of(pool);
	cenote_importer importer = the_importer(pool);

	ASSERT_NE(0, importer.id);
	ASSERT_EQ(peer_pid(receiver.peer), importer.pid);
	ASSERT_EQ(getuid(), importer.uid);
	ASSERT_EQ(0, importer.leaving);
	ASSERT_EQ(0, importer.held_block_count);
	ASSERT_EQ(0, importer.held_bytes);
	ASSERT_GE(importer.joined_ns, before_ns);
	ASSERT_LE(importer.joined_ns, now_ns());
	ASSERT_EQ(0, importer.waiting_since_ns);

	CUdeviceptr large = allocate(pool, 2 * MIB, 1), small = allocate(pool, MIB, 2);
	give(&receiver, large, 0);
	give(&receiver, small, 1);
	give(&receiver, small, 2); /* twice the same is one */
	importer = the_importer(pool);
	ASSERT_EQ(2, importer.held_block_count);
	ASSERT_EQ(3 * MIB, importer.held_bytes);
	ASSERT_EQ(0, importer.deferred_block_count);

	before_ns = now_ns();
	ASSERT_OK(cuMemFreeAsync(small, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	importer = the_importer(pool);
	ASSERT_EQ(2, importer.held_block_count);
	ASSERT_EQ(1, importer.deferred_block_count);
	ASSERT_EQ(MIB, importer.deferred_bytes);
	ASSERT_GE(importer.waiting_since_ns, before_ns);
	ASSERT_LE(importer.waiting_since_ns, now_ns());
	ASSERT_EQ(2, must(&receiver, READ, 1));

	must(&receiver, FREE, 1);
	must(&receiver, FREE, 2);
	await_used(pool, 2 * MIB);
	importer = the_importer(pool);
	ASSERT_EQ(1, importer.held_block_count);
	ASSERT_EQ(2 * MIB, importer.held_bytes);
	ASSERT_EQ(0, importer.deferred_block_count);
	ASSERT_EQ(0, importer.deferred_bytes);
	ASSERT_EQ(0, importer.waiting_since_ns);
	must(&receiver, FREE, 0);
	must(&receiver, DESTROY_POOL, 0);
	await_nobody(pool, changes);
	receiver_end(&receiver);
	free_now(large);
	destroy_pool(pool);
	close(changes);
}

/* Goal: the list has room for as many as the caller says, of as many bytes as the caller knows. */
TEST(the_list_is_as_large_as_the_caller_says)
{
	enum { COUNT = 3 };
	struct receiver receivers[COUNT];
	cenote_importer list[COUNT + 1];
	size_t count = 77;

	begin();
	CUmemoryPool pool = make_pool();
	ASSERT_OK(cenote_pool_importers(pool, list, sizeof *list, COUNT, &count));
	ASSERT_EQ(0, count);
	for (int i = 0; i < COUNT; i++)
		receivers[i] = importer_of(pool);
	for (size_t room = 0; room <= COUNT + 1; room++) {
		memset(list, 0x77, sizeof list);
		ASSERT_OK(cenote_pool_importers(pool, list, sizeof *list, room, &count));
		ASSERT_EQ(COUNT, count);
		for (size_t i = 0; i < COUNT + 1; i++)
			if (i < room && i < COUNT) /* the youngest first */
				ASSERT_EQ(peer_pid(receivers[COUNT - 1 - i].peer), list[i].pid);
			else
				ASSERT_EQ(0x77777777, list[i].pid);
	}
	struct {
		unsigned long long id;
	} old[COUNT + 1] = {[COUNT] = {77}};
	ASSERT_OK(cenote_pool_importers(pool, (cenote_importer *)(void *)old, sizeof *old, COUNT, &count));
	for (int i = 0; i < COUNT; i++)
		ASSERT_EQ(list[i].id, old[i].id);
	ASSERT_EQ(77, old[COUNT].id);

	size_t bytes = sizeof *list;
	EXPECT(CUDA_ERROR_INVALID_VALUE, "NULL", cenote_pool_importers(pool, list, bytes, 1, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "room", cenote_pool_importers(pool, NULL, bytes, 1, &count));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "room", cenote_pool_importers(pool, list, bytes + 1, 1, &count));
	EXPECT(CUDA_ERROR_INVALID_VALUE, "room", cenote_pool_importers(pool, list, 0, 1, &count));
	for (int i = 0; i < COUNT; i++) {
		must(&receivers[i], DESTROY_POOL, 0);
		receiver_end(&receivers[i]);
	}
	destroy_pool(pool);
}

/* Goal: statistics count exports, importers, and deferred blocks; and a caller may know less. */
TEST(statistics_count_what_is_shared)
{
	begin();
	CUmemoryPool pool = make_pool();
	int changes = watch(pool);
	struct receiver receiver = receiver_of(pool);
	CUdeviceptr one = allocate(pool, MIB, 1), other = allocate(pool, MIB, 2);

	ASSERT_EQ(0, statistics_of(pool).exported_block_count);
	give(&receiver, one, 0);
	give(&receiver, other, 1);
	ASSERT_EQ(2, statistics_of(pool).exported_block_count);
	ASSERT_EQ(1, statistics_of(pool).importer_count);
	ASSERT_EQ(0, statistics_of(pool).deferred_block_count);
	ASSERT_OK(cuMemFreeAsync(one, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_EQ(2, statistics_of(pool).exported_block_count);
	ASSERT_EQ(1, statistics_of(pool).deferred_block_count);
	ASSERT_EQ(MIB, statistics_of(pool).deferred_bytes);

	cenote_pool_statistics old;
	memset(&old, 0x77, sizeof old);
	ASSERT_OK(cenote_pool_stats(pool, &old, offsetof(cenote_pool_statistics, exported_block_count)));
	ASSERT_EQ(2 * MIB, old.used_bytes);
	ASSERT_EQ(0x7777777777777777, old.exported_block_count);
	ASSERT_EQ(0x7777777777777777, old.deferred_bytes);

	must(&receiver, FREE, 0);
	await_used(pool, MIB);
	ASSERT_EQ(1, statistics_of(pool).exported_block_count);
	ASSERT_EQ(0, statistics_of(pool).deferred_block_count);
	ASSERT_EQ(0, statistics_of(pool).deferred_bytes);
	must(&receiver, FREE, 1);
	must(&receiver, DESTROY_POOL, 0);
	receiver_end(&receiver);
	await_nobody(pool, changes);
	ASSERT_EQ(0, statistics_of(pool).importer_count);
	free_now(other);
	await_used(pool, 0);
	ASSERT_EQ(0, statistics_of(pool).exported_block_count);
	destroy_pool(pool);
	close(changes);
}

/* ---- Watching ---------------------------------------------------------------------------------------------------- */

/* Goal: the descriptor is readable after each coming and going and not before, and a read makes it quiet again. */
TEST(a_watch_tells_who_comes_and_goes)
{
	uint64_t count;

	begin();
	CUmemoryPool pool = make_pool();
	int changes = watch(pool), again = watch(pool);
	ASSERT_EQ(FD_CLOEXEC, fcntl(changes, F_GETFD));
	ASSERT_GT(changes, STDERR_FILENO);
	ASSERT_EQ(-1, read(changes, &count, sizeof count));
	ASSERT_EQ(EAGAIN, errno);

	struct receiver receiver = receiver_of(pool);
	ASSERT_EQ(-1, read(changes, &count, sizeof count)); /* a receiver counts only when it uses the pool */
	ASSERT_EQ(EAGAIN, errno);
	CUdeviceptr block = allocate(pool, MIB, 1);
	give(&receiver, block, 0);
	ASSERT_EQ(1, await_change(changes));
	ASSERT_EQ(-1, read(again, &count, sizeof count)); /* one count for all */
	ASSERT_EQ(EAGAIN, errno);
	must(&receiver, FREE, 0);
	must(&receiver, DESTROY_POOL, 0);
	await_nobody(pool, again);
	receiver_end(&receiver);
	free_now(block);

	struct receiver first = importer_of(pool), second = importer_of(pool);
	while (importer_count(pool) != 2)
		await_change(changes);
	peer_kill(first.peer);
	close(first.sock);
	while (importer_count(pool) != 1)
		await_change(changes);
	ASSERT_EQ(peer_pid(second.peer), the_importer(pool).pid);
	must(&second, DESTROY_POOL, 0);
	receiver_end(&second);
	await_nobody(pool, changes);
	destroy_pool(pool);
	close(again);
	ASSERT(read(changes, &count, sizeof count) == -1 || count); /* it may outlive the pool */
	close(changes);
}

/* Goal: an importer that is killed is shown as leaving or not at all, and what it held comes back. */
TEST(what_a_killed_importer_held_comes_back)
{
	begin();
	CUmemoryPool pool = make_pool();
	int changes = watch(pool);
	struct receiver receiver = receiver_of(pool);
	CUdeviceptr block = allocate(pool, MIB, 7);

	give(&receiver, block, 0);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_EQ(1, the_importer(pool).deferred_block_count);
	peer_kill(receiver.peer);
	close(receiver.sock);
	await_nobody(pool, changes);
	await_used(pool, 0);
	ASSERT_EQ(0, statistics_of(pool).live_block_count);
	destroy_pool(pool);
	close(changes);
}

/* ---- Shutting out ------------------------------------------------------------------------------------------------ */

/* Goal: an importer that is shut out imports nothing more, keeps what it has until it frees it, and then is gone. */
TEST(one_who_is_shut_out_keeps_what_it_holds_and_gets_no_more)
{
	begin();
	CUmemoryPool pool = make_pool();
	int changes = watch(pool);
	struct receiver receiver = receiver_of(pool), other = receiver_of(pool);
	CUdeviceptr held = allocate(pool, MIB, 3), next = allocate(pool, MIB, 4);
	cenote_importer list[2];
	size_t count;

	give(&receiver, held, 0);
	give(&other, held, 0);
	ASSERT_OK(cenote_pool_importers(pool, list, sizeof *list, 2, &count));
	ASSERT_EQ(2, count);
	ASSERT_EQ(peer_pid(receiver.peer), list[1].pid);
	unsigned long long id = list[1].id;
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cenote_pool_evict(pool, 0));
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cenote_pool_evict(pool, ~0ull));
	ASSERT_OK(cenote_pool_evict(pool, id));
	do {
		await_change(changes);
		ASSERT_OK(cenote_pool_importers(pool, list, sizeof *list, 2, &count));
		ASSERT_EQ(2, count);
	} while (!list[1].leaving);
	ASSERT_EQ(0, list[0].leaving);
	ASSERT_OK(cenote_pool_evict(pool, id)); /* changes nothing */

	/* The word that it is shut out may still be on its way to it. */
	struct answer answer;
	do {
		ASSERT_OK(cenote_send_block(receiver.sock, next, NULL));
		answer = tell(&receiver, RECEIVE_BLOCK, 1);
		if (!answer.result)
			must(&receiver, FREE, 1);
	} while (!answer.result);
	ASSERT_EQ(CUDA_ERROR_INVALID_VALUE, answer.result);
	ASSERT_CONTAINS("evicted this process", answer.sentence);
	give(&other, next, 1);
	ASSERT_EQ(3, must(&receiver, READ, 0));

	ASSERT_OK(cuMemFreeAsync(held, NULL));
	ASSERT_OK(cuMemFreeAsync(next, NULL));
	must(&other, FREE, 0);
	must(&other, FREE, 1);
	await_used(pool, MIB); /* what the importer that is shut out holds */
	ASSERT_EQ(3, must(&receiver, READ, 0));
	must(&receiver, FREE, 0);
	await_used(pool, 0);
	must(&receiver, DESTROY_POOL, 0);
	while (importer_count(pool) != 1)
		await_change(changes);
	ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cenote_pool_evict(pool, id));

	/* It has not the descriptor any more, but may be sent it again. */
	ASSERT_OK(cenote_send_pool(receiver.sock, pool));
	must(&receiver, RECEIVE_POOL, 0);
	must(&receiver, DESTROY_POOL, 0);
	must(&other, DESTROY_POOL, 0);
	receiver_end(&receiver);
	receiver_end(&other);
	await_nobody(pool, changes);
	destroy_pool(pool);
	close(changes);
}

/* Goal: the blocks of an importer that is shut out and then killed come back. */
TEST(one_who_is_shut_out_and_killed_gives_all_back)
{
	begin();
	CUmemoryPool pool = make_pool();
	int changes = watch(pool);
	struct receiver receiver = receiver_of(pool);
	CUdeviceptr block = allocate(pool, MIB, 3);

	give(&receiver, block, 0);
	ASSERT_OK(cenote_pool_evict(pool, the_importer(pool).id));
	while (!the_importer(pool).leaving)
		await_change(changes);
	ASSERT_OK(cuMemFreeAsync(block, NULL));
	ASSERT_OK(cuStreamSynchronize(NULL));
	ASSERT_EQ(1, the_importer(pool).deferred_block_count);
	peer_kill(receiver.peer);
	close(receiver.sock);
	await_nobody(pool, changes);
	await_used(pool, 0);
	destroy_pool(pool);
	close(changes);
}

/* ---- Limits ------------------------------------------------------------------------------------------------------ */

/* Goal: an importer holds as much as the limit, not a byte more, and each importer on its own account. */
TEST(an_importer_holds_no_more_than_the_limit)
{
	begin();
	CUmemoryPool pool = make_pool();
	ASSERT_OK(cenote_pool_limit(pool, 3 * MIB)); /* before there is an importer */
	struct receiver receiver = receiver_of(pool), other = receiver_of(pool);
	CUdeviceptr one = allocate(pool, MIB, 1), two = allocate(pool, 2 * MIB, 2), three = allocate(pool, MIB, 3);
	const struct receiver *both[] = {&receiver, &other};

	for (int i = 0; i < 2; i++) {
		give(both[i], one, 0);
		give(both[i], two, 1);
		give(both[i], two, 2); /* the same again costs nothing */
		ASSERT_OK(cenote_send_block(both[i]->sock, three, NULL));
		must_fail(both[i], RECEIVE_BLOCK, 3, CUDA_ERROR_OUT_OF_MEMORY, "3145728 bytes");
	}
	must(&receiver, FREE, 0);
	must(&receiver, READ, 1); /* the stream has come to the free */
	give(&receiver, three, 3);
	ASSERT_OK(cenote_pool_limit(pool, 1)); /* what is held stays */
	ASSERT_EQ(2, must(&receiver, READ, 1));
	ASSERT_OK(cenote_send_block(receiver.sock, one, NULL));
	must_fail(&receiver, RECEIVE_BLOCK, 0, CUDA_ERROR_OUT_OF_MEMORY, "limits an importer to 1 bytes");
	ASSERT_OK(cenote_pool_limit(pool, 0));
	give(&receiver, one, 0);

	must(&other, FREE, 0);
	for (unsigned i = 1; i <= 2; i++)
		must(&other, FREE, i);
	for (unsigned i = 0; i <= 3; i++)
		must(&receiver, FREE, i);
	must(&receiver, DESTROY_POOL, 0);
	must(&other, DESTROY_POOL, 0);
	receiver_end(&receiver);
	receiver_end(&other);
	free_now(one);
	free_now(two);
	free_now(three);
	destroy_pool(pool);
}

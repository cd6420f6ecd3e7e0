/* SPDX-License-Identifier: MIT */
/*
 * Signals of the host device: records, waits and deaths, as far as one process can show them.
 */
#include <errno.h>
#include <stddef.h>

#include "forbid.h"
#include "signal.h"

enum {
	CELLS = 1024,
	MANY = 200,
	CROWD = 150, /* signals: more than one system call can wait for */
};

static struct cn_host_queue third, many[MANY];

TEST(a_signal_that_was_never_recorded_is_done)
{
	struct pair pair = make_pair();

	open_queue(&here);
	ASSERT_OK(cn_host_signal_query(pair.ours));
	ASSERT_OK(cn_host_signal_sync(pair.theirs));
	wait_for(pair.ours, &here);
	wait_for(pair.theirs, &here);
	ASSERT_EQ(0, here.base.submitted);
	drain(&here);
	free_pair(pair);
}

TEST(what_is_idle_is_recorded_and_waited_for_at_once)
{
	struct pair pair = make_pair();

	open_queue(&here);
	open_queue(&there);
	for (int i = 0; i < 3 * CELLS; i++) {
		record(pair.ours, &here);
		wait_for(pair.theirs, &there);
		record(pair.theirs, &there);
		wait_for(pair.ours, &here);
		ASSERT(is_idle(&here));
		ASSERT(is_idle(&there));
	}
	ASSERT_OK(cn_host_signal_query(pair.ours));
	ASSERT_OK(cn_host_signal_sync(pair.theirs));
	drain(&here);
	drain(&there);
	free_pair(pair);
}

TEST(a_wait_lasts_until_the_record_is_done)
{
	struct pair pair = make_pair();
	_Atomic unsigned calls = 0;

	open_queue(&here);
	open_queue(&there);
	open_queue(&third);
	close_gate(&here);
	record(pair.ours, &here);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cn_host_signal_query(pair.ours));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cn_host_signal_query(pair.theirs));
	wait_for(pair.theirs, &there);
	call(&there, count_call, &calls);
	wait_for(pair.ours, &third); /* found by its point, like any event of this process */
	call(&third, count_call, &calls);
	ASSERT(!is_idle(&there));
	ASSERT(!is_idle(&third));
	ASSERT_EQ(0, calls);
	atomic_store(&gate, 1);
	ASSERT_OK(cn_host_signal_sync(pair.theirs));
	wait_for_all(&there);
	wait_for_all(&third);
	ASSERT_EQ(2, calls);
	ASSERT_OK(cn_host_signal_query(pair.theirs));
	drain(&here);
	drain(&there);
	drain(&third);
	free_pair(pair);
}

/* Goal: a wait is for one record, whatever happens to the signal afterwards. */
TEST(a_later_record_neither_releases_nor_holds_an_earlier_wait)
{
	struct pair pair = make_pair();

	open_queue(&here);
	open_queue(&there);
	open_queue(&third);
	close_gate_until(&here, 1);
	record(pair.ours, &here);
	wait_for(pair.theirs, &there);
	record(pair.theirs, &third); /* done at once */
	ASSERT_OK(cn_host_signal_query(pair.ours));
	ASSERT(!is_idle(&there));
	close_gate_until(&third, 2);
	record(pair.theirs, &third); /* pending for long */
	atomic_store(&gate, 1);
	wait_for_all(&there);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cn_host_signal_query(pair.ours));
	atomic_store(&gate, 2);
	ASSERT_OK(cn_host_signal_sync(pair.ours));
	drain(&here);
	drain(&there);
	drain(&third);
	free_pair(pair);
}

TEST(pending_records_are_done_one_by_one)
{
	struct pair pair = make_pair();

	open_queue(&here);
	for (uint32_t i = 0; i < MANY; i++) {
		open_queue(&many[i]);
		close_gate_until(&here, i + 1);
		record(pair.ours, &here);
		wait_for(pair.theirs, &many[i]);
	}
	for (uint32_t i = 0; i < MANY; i++) {
		ASSERT(!is_idle(&many[i]));
		atomic_store(&gate, i + 1);
		wait_for_all(&many[i]);
	}
	for (int i = 0; i < MANY; i++)
		drain(&many[i]);
	drain(&here);
	free_pair(pair);
}

/* Goal: two queues wait for each other's records in turn, all submitted before: no record may wait for a later one. */
TEST(a_long_chain_of_waits_and_records_comes_to_its_end, .timeout_ms = 60000)
{
	struct pair to = make_pair(), fro = make_pair();

	open_queue(&here);
	open_queue(&there);
	close_gate(&here);
	for (int i = 0; i < CELLS - 1; i++) {
		record(to.ours, &here);
		wait_for(to.theirs, &there);
		record(fro.theirs, &there);
		wait_for(fro.ours, &here);
	}
	atomic_store(&gate, 1);
	wait_for_all(&here);
	wait_for_all(&there);
	drain(&here);
	drain(&there);
	free_pair(to);
	free_pair(fro);
}

/* Goal: what was done when it was waited for stays done, though its cell in the ring has gone to a later record. */
TEST(a_wait_that_is_looked_at_late_is_for_its_own_record)
{
	struct pair pair = make_pair();

	open_queue(&here);
	open_queue(&there);
	close_gate_until(&here, 1);
	record(pair.ours, &here);
	close_gate_until(&there, 2);
	wait_for(pair.theirs, &there);
	atomic_store(&gate, 1);
	wait_for_all(&here);
	close_gate_until(&here, 3);
	for (int i = 0; i < CELLS; i++)
		record(pair.ours, &here);
	ASSERT(!is_idle(&there));
	atomic_store(&gate, 2);
	wait_for_all(&there);
	ASSERT(!is_idle(&here));
	atomic_store(&gate, 3);
	drain(&here);
	drain(&there);
	free_pair(pair);
}

TEST(a_full_ring_is_refused_and_nothing_is_changed)
{
	struct pair pair = make_pair();

	open_queue(&here);
	open_queue(&there);
	close_gate(&here);
	for (int i = 0; i < CELLS; i++)
		record(i % 2 ? pair.ours : pair.theirs, &here);
	ASSERT_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cn_host_signal_record(pair.ours, &here, OWNER));
	ASSERT_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cn_host_signal_record(pair.theirs, &there, OWNER));
	ASSERT_CONTAINS("that is the limit", cn_last_error());
	wait_for(pair.theirs, &there);
	ASSERT(!is_idle(&there));
	atomic_store(&gate, 1);
	wait_for_all(&there);
	wait_for_all(&here);
	atomic_store(&gate, 0);
	close_gate(&here);
	record(pair.ours, &here);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cn_host_signal_query(pair.theirs));
	atomic_store(&gate, 1);
	drain(&here);
	drain(&there);
	free_pair(pair);
}

TEST(a_closed_queue_is_refused_and_leaves_no_record)
{
	struct pair pair = make_pair();

	open_queue(&here);
	close_gate(&here);
	cn_host_queue_close(&here);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_host_signal_record(pair.ours, &here, OWNER));
	ASSERT_OK(cn_host_signal_query(pair.theirs));
	open_queue(&there);
	close_gate(&there);
	record(pair.ours, &there);
	ASSERT_ERROR(CUDA_ERROR_INVALID_HANDLE, cn_host_signal_wait(pair.theirs, &here, OWNER));
	atomic_store(&gate, 1);
	drain(&here);
	drain(&there);
	free_pair(pair);
}

/* Goal: a signal that is freed while it is recorded and waited for still works, and is gone afterwards. */
TEST(a_freed_signal_lives_until_nothing_is_pending_on_it)
{
	struct pair pair = make_pair();

	open_queue(&here);
	open_queue(&there);
	close_gate(&here);
	record(pair.ours, &here);
	wait_for(pair.theirs, &there);
	free_pair(pair);
	ASSERT(!is_idle(&there));
	atomic_store(&gate, 1);
	wait_for_all(&there);
	drain(&here);
	drain(&there);
}

/* Goal: what a dead process has not done fails the waiters: a queue alone, a queue with a thread, a call. */
TEST(a_buried_recorder_fails_those_who_wait)
{
	struct pair pair = make_pair();
	_Atomic unsigned calls = 0;

	open_queue(&here);
	open_queue(&there);
	open_queue(&third);
	close_gate(&here);
	record(pair.theirs, &here);
	wait_for(pair.ours, &there);
	call(&there, count_call, &calls);
	wait_for(pair.ours, &third);
	call(&third, count_call, &calls);
	pthread_t in_call = start(sync_signal, pair.ours), on_queue = start(sync_queue, &third);
	cn_host_signal_bury(pair.ours, 2); /* another recorder */
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cn_host_signal_query(pair.ours));
	cn_host_signal_bury(pair.ours, 1);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, join(in_call));
	join(on_queue);
	while (!is_idle(&there)) /* by the poller alone */
		sched_yield();
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, there.failure);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, third.failure);
	ASSERT_EQ(0, calls);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, cn_host_signal_query(pair.ours));
	ASSERT_CONTAINS("died", cn_last_error());
	drain(&there);
	open_queue(&there);
	wait_for(pair.ours, &there); /* a late wait fails too */
	wait_for_all(&there);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, there.failure);

	/* The signal itself still works. */
	drain(&there);
	open_queue(&there);
	record(pair.ours, &there);
	ASSERT_OK(cn_host_signal_query(pair.ours));
	wait_for(pair.ours, &there);
	ASSERT(is_idle(&there));
	atomic_store(&gate, 1);
	drain(&here);
	drain(&there);
	drain(&third);
	free_pair(pair);
}

/* Goal: a process that would not hear of others' deaths does not wait for them, and does not end their records. */
TEST(a_process_that_is_alone_does_not_wait_for_others)
{
	struct pair pair = make_pair();

	open_queue(&here);
	open_queue(&there);
	open_queue(&third);
	close_gate(&here);
	record(pair.theirs, &here);
	wait_for(pair.ours, &there);
	cn_host_signal_bury(pair.ours, CN_RECORDER_ALL_OTHERS);
	wait_for_all(&there);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, there.failure);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, cn_host_signal_sync(pair.ours));
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cn_host_signal_query(pair.theirs));
	close_gate(&third);
	record(pair.ours, &third); /* our own work as before */
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cn_host_signal_query(pair.ours));
	atomic_store(&gate, 1);
	ASSERT_OK(cn_host_signal_sync(pair.ours));
	ASSERT_OK(cn_host_signal_sync(pair.theirs));
	drain(&here);
	drain(&there);
	drain(&third);
	free_pair(pair);
}

/* Goal: the bytes that a record stands for were never written, so no other process may go on to read them. */
TEST(a_record_of_a_queue_that_failed_fails_those_who_wait)
{
	struct pair pair = make_pair();
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *gone = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct cn_operation fill = {
		.kind = CN_OPERATION_FILL,
		.fill = {.to = gone, .row_elements = 8, .row_count = 1, .value = 'x', .element_bytes = 1}};

	ASSERT_NE(MAP_FAILED, (void *)gone);
	open_queue(&here);
	open_queue(&there);
	close_gate(&here);
	ASSERT_OK(cn_host_queue_submit(&here, OWNER, &fill, NULL));
	record(pair.ours, &here);
	wait_for(pair.theirs, &there);
	atomic_store(&gate, 1);
	wait_for_all(&there);
	ASSERT_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, here.failure);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, there.failure);
	record(pair.ours, &here); /* the same for what is recorded after the failure */
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, cn_host_signal_sync(pair.theirs));
	drain(&here);
	drain(&there);
	munmap(gone, page);
	free_pair(pair);
}

/* The poller sleeps for all of them, and no other thread does. */
static void watch_a_crowd(void)
{
	static struct pair pairs[CROWD];

	open_queue(&here);
	for (int i = 0; i < CROWD; i++) {
		pairs[i] = make_pair();
		open_queue(&many[i]);
		close_gate_until(&here, (uint32_t)i / 50 + 1);
		record(pairs[i].ours, &here);
		wait_for(pairs[i].theirs, &many[i]);
	}
	for (int i = 0; i < CROWD; i++) {
		ASSERT(i % 50 || !is_idle(&many[i]));
		atomic_store(&gate, (uint32_t)i / 50 + 1);
		while (!is_idle(&many[i])) /* by the poller alone */
			sched_yield();
	}
	for (int i = 0; i < CROWD; i++) {
		drain(&many[i]);
		free_pair(pairs[i]);
	}
	drain(&here);
}

TEST(a_crowd_of_signals_is_watched)
{
	watch_a_crowd();
}

/* Goal: signals also work on a system that cannot sleep on several words, as before Linux 5.16. */
TEST(signals_are_watched_without_the_newest_system_call)
{
	forbid_call(449, ENOSYS); /* futex_waitv */
	watch_a_crowd();
}

/* Goal: a wait in the legacy queue stands between its group's work before and after, even with nothing to wait for. */
TEST(a_wait_in_the_legacy_queue_counts_in_its_group)
{
	static struct cn_host_queue legacy;
	static struct cn_host_group group = {.legacy = &legacy};
	struct pair pair = make_pair();
	uint64_t word = 0;
	struct cn_operation write = {.kind = CN_OPERATION_WRITE_VALUE,
				     .write_value = {.address = &word, .value = 1, .bytes = 8}};

	cn_host_queue_open(&legacy, &group, OWNER);
	cn_host_queue_open(&here, &group, OWNER);
	cn_host_queue_open(&there, &group, OWNER);
	open_queue(&third);
	record(pair.ours, &third);
	for (int i = 0; i < 2; i++) {
		atomic_store(&gate, 0);
		close_gate(&here);
		wait_for(i ? pair.ours : pair.theirs, &legacy);
		ASSERT_OK(cn_host_queue_submit(&there, OWNER, &write, NULL)); /* at once, if it may */
		ASSERT(!is_idle(&there));
		atomic_store(&gate, 1);
		wait_for_all(&there);
		ASSERT_EQ(1, word);
	}
	drain(&here);
	drain(&there);
	drain(&third);
	drain(&legacy);
	free_pair(pair);
}

/* ---- What waits for another process ----------------------------------------------------------------------------- */

static void wait_for_point(struct cn_host_queue *queue, struct cn_point point)
{
	struct cn_operation wait = {.kind = CN_OPERATION_WAIT_POINT, .wait_point = point};

	ASSERT_OK(cn_host_queue_submit(queue, OWNER, &wait, NULL));
}

TEST(a_point_knows_whether_it_waits_for_another_process)
{
	struct pair pair = make_pair();

	open_queue(&here);
	open_queue(&there);
	open_queue(&third);
	close_gate_until(&here, 1);
	record(pair.ours, &here);
	struct cn_point inside = end_of(&here);
	close_gate_until(&there, 1);
	struct cn_point before = end_of(&there);
	ASSERT(!cn_host_point_waits_outside(before));
	wait_for(pair.theirs, &there);
	struct cn_point after = end_of(&there);
	wait_for_point(&third, before);
	struct cn_point third_before = end_of(&third);
	wait_for_point(&third, after);
	struct cn_point third_after = end_of(&third);

	ASSERT(!cn_host_point_waits_outside(inside));
	ASSERT(!cn_host_point_waits_outside(before));
	ASSERT(cn_host_point_waits_outside(after));
	ASSERT(!cn_host_point_waits_outside(third_before));
	ASSERT(cn_host_point_waits_outside(third_after));
	ASSERT(!cn_host_point_waits_outside((struct cn_point){NULL, 0}));
	atomic_store(&gate, 1);
	wait_for_all(&third);
	ASSERT(!cn_host_point_waits_outside(third_after));
	ASSERT(!cn_host_point_waits_outside(after));

	/* A chain that is too long to be followed to its end: the safe answer. */
	atomic_store(&gate, 0);
	close_gate(&here);
	record(pair.ours, &here);
	wait_for(pair.theirs, &there);
	for (int i = 0; i < MANY; i++)
		open_queue(&many[i]);
	close_gate(&many[0]);
	for (int i = 1; i < MANY; i++)
		wait_for_point(&many[i], end_of(&many[i - 1]));
	ASSERT(!cn_host_point_waits_outside(end_of(&many[40])));
	ASSERT(cn_host_point_waits_outside(end_of(&many[MANY - 1])));
	atomic_store(&gate, 1);
	for (int i = 0; i < MANY; i++)
		drain(&many[i]);
	drain(&here);
	drain(&there);
	drain(&third);
	free_pair(pair);
}

static void take_note(void *object, uint64_t number)
{
	uint64_t *last = object;

	ASSERT_EQ(*last + 1, number);
	*last = number;
}

TEST(notes_are_taken_in_order_and_after_a_failure_too)
{
	struct pair pair = make_pair();
	uint64_t last = 0;
	struct cn_operation note = {.kind = CN_OPERATION_NOTE, .note = {take_note, &last, 1}};

	open_queue(&here);
	open_queue(&there);
	ASSERT_OK(cn_host_queue_submit(&here, OWNER, &note, NULL));
	ASSERT_EQ(1, last); /* at once: the queue is idle */
	close_gate(&there);
	record(pair.theirs, &there);
	wait_for(pair.ours, &here);
	for (note.note.number = 2; note.note.number < 10; note.note.number++)
		ASSERT_OK(cn_host_queue_submit(&here, OWNER, &note, NULL));
	ASSERT_EQ(1, last);
	cn_host_signal_bury(pair.ours, 1);
	wait_for_all(&here);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, here.failure);
	ASSERT_EQ(9, last);
	atomic_store(&gate, 1);
	drain(&here);
	drain(&there);
	free_pair(pair);
}

/* ---- Strangers -------------------------------------------------------------------------------------------------- */

static void refuse(int fd)
{
	struct cn_signal *signal = NULL;

	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_host_signal_import(fd, 1, &signal));
	ASSERT(!signal);
	ASSERT_CONTAINS("event", cn_last_error());
}

TEST(what_is_not_a_signal_is_refused)
{
	struct cn_signal *signal;
	int pipes[2], seals = F_SEAL_SHRINK | F_SEAL_GROW, fd;

	ASSERT_OK(cn_host_signal_create(&signal));
	ASSERT_OK(cn_host_signal_export(signal, &fd));
	off_t bytes = lseek(fd, 0, SEEK_END);
	ASSERT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	char content[64];
	ASSERT_EQ(sizeof content, pread(fd, content, sizeof content, 0));
	close(fd);

	refuse(-1);
	refuse(fd);
	ASSERT_SYS(pipe2(pipes, O_CLOEXEC));
	refuse(pipes[0]);
	close(pipes[0]);
	close(pipes[1]);
	struct {
		off_t bytes;
		int seals;
		bool right_content;
	} cases[] = {{bytes, 0, true},
		     {bytes, F_SEAL_GROW, true},
		     {bytes, F_SEAL_SHRINK, true},
		     {bytes - 1, seals, true},
		     {bytes + 4096, seals, true},
		     {bytes, seals, false},
		     {bytes, seals | F_SEAL_WRITE, true}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		fd = make_file(cases[i].bytes, cases[i].seals & ~F_SEAL_WRITE);
		if (cases[i].right_content)
			ASSERT_EQ(sizeof content, pwrite(fd, content, sizeof content, 0));
		ASSERT_SYS(fcntl(fd, F_ADD_SEALS, cases[i].seals));
		refuse(fd);
		close(fd);
	}
	struct cn_signal *imported = import(signal, 1);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_host_signal_export(imported, &fd));
	cn_host_signal_free(imported);
	cn_host_signal_free(signal);
}

/* Goal: whatever another process writes in the shared memory, nothing of ours breaks, and nothing waits for ever. */
TEST(garbage_in_the_shared_memory_does_no_harm, .timeout_ms = 60000)
{
	struct pair pair = make_pair();
	struct test_random random = test_random_start(0);
	int fd;

	ASSERT_OK(cn_host_signal_export(pair.ours, &fd));
	size_t bytes = (size_t)lseek(fd, 0, SEEK_END);
	unsigned char *ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, (void *)ring);
	close(fd);
	for (int round = 0; round < 300; round++) {
		open_queue(&here);
		open_queue(&there);
		uint64_t kind = test_random_below(&random, 3);
		for (size_t i = 0; i < bytes; i++) /* all, little, or the same everywhere */
			if (kind == 0 || (kind == 1 && test_random_below(&random, 16) == 0))
				ring[i] = (unsigned char)test_random_next(&random);
			else if (kind == 2)
				ring[i] = i % 8 ? 0xff : (unsigned char)round;
		for (int i = 0; i < 20; i++) {
			/* The results depend on what is written there. */
			(void)cn_host_signal_record(i % 2 ? pair.ours : pair.theirs, &here, OWNER);
			(void)cn_host_signal_wait(i % 3 ? pair.ours : pair.theirs, &there, OWNER);
			(void)cn_host_signal_query(pair.ours);
			(void)cn_host_point_waits_outside(end_of(&there));
		}
		cn_host_signal_bury(pair.theirs, (uint32_t)round);
		memset(ring, 0, bytes);
		cn_host_signal_bury(pair.ours, 9); /* wakes all: nothing is pending any more */
		wait_for_all(&there);
		drain(&here);
		drain(&there);
	}
	munmap(ring, bytes);
	free_pair(pair);
}

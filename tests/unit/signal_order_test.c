/* SPDX-License-Identifier: MIT */
/*
 * Signals of the host device between threads and processes: what resumes a queue, what is ordered, what a kill leaves.
 */
#include "signal.h"

/* ---- Threads ---------------------------------------------------------------------------------------------------- */

/* Goal: the poller and a waiting thread want the same queue at the same time: one of them continues it. */
TEST(a_queue_is_resumed_once, .timeout_ms = 60000)
{
	struct pair pair = make_pair();
	_Atomic unsigned calls = 0;
	unsigned rounds = 2000 / HARNESS_SLOWDOWN;

	open_queue(&here);
	open_queue(&there);
	for (unsigned i = 0; i < rounds; i++) {
		atomic_store(&gate, 0);
		close_gate(&here);
		record(pair.ours, &here);
		wait_for(pair.theirs, &there);
		call(&there, count_call, &calls);
		wait_for(pair.theirs, &there);
		pthread_t thread = start(sync_queue, &there);
		if (i % 2)
			sched_yield();
		atomic_store(&gate, 1);
		if (i % 4 < 2)
			wait_for_all(&there);
		join(thread);
		ASSERT_EQ(i + 1, calls);
		wait_for_all(&here);
	}
	drain(&here);
	drain(&there);
	free_pair(pair);
}

/* ---- Taking turns ----------------------------------------------------------------------------------------------- */

static struct cn_host_queue side;

/* The sides take turns: a wait for the other's record, and a record. Behind a gate; `here` begins. */
static void submit_turns(struct pair to, struct pair fro, unsigned count)
{
	atomic_store(&gate, 0);
	close_gate(&here);
	for (unsigned i = 0; i < count; i++) {
		record(to.ours, &here);
		wait_for(to.theirs, &there);
		record(fro.theirs, &there);
		wait_for(fro.ours, &here);
	}
}

/* Goal: however many turns are taken at once, they are counted, their signals are released, and nothing is left. */
TEST(turns_are_taken_and_counted, .timeout_ms = 60000)
{
	struct pair to = make_pair(), fro = make_pair();
	unsigned rounds = 400 / HARNESS_SLOWDOWN;

	open_queue(&here);
	open_queue(&there);
	for (unsigned i = 0; i < rounds; i++) {
		unsigned count = 1 + i % 40;
		submit_turns(to, fro, count);
		struct cn_point middle = {&there.base, atomic_load(&there.base.submitted) - count / 2 * 2};
		pthread_t thread = start(sync_queue, &there);
		if (i % 2)
			sched_yield();
		atomic_store(&gate, 1);
		cn_host_point_wait(middle);
		wait_for_all(&here);
		join(thread);
		ASSERT_EQ(here.base.submitted, here.base.completed);
		ASSERT_EQ(there.base.submitted, there.base.completed);
		ASSERT_OK(cn_host_signal_query(to.theirs));
		ASSERT_OK(cn_host_signal_query(fro.ours));
		ASSERT(!cn_host_signal_busy(to.ours) && !cn_host_signal_busy(to.theirs));
		ASSERT(!cn_host_signal_busy(fro.ours) && !cn_host_signal_busy(fro.theirs));
		ASSERT(!cn_host_signal_waits());
	}
	ASSERT_OK(here.failure);
	ASSERT_OK(there.failure);
	drain(&here);
	drain(&there);
	free_pair(to);
	free_pair(fro);
}

/* Goal: one signal both ways, and it is freed while they take turns: it lives until the last one. */
TEST(turns_are_taken_with_one_signal_that_is_freed)
{
	struct pair pair = make_pair();

	open_queue(&here);
	open_queue(&there);
	submit_turns(pair, pair, 40);
	free_pair(pair);
	pthread_t thread = start(sync_queue, &there);
	atomic_store(&gate, 1);
	wait_for_all(&here);
	join(thread);
	ASSERT_OK(here.failure);
	ASSERT_OK(there.failure);
	drain(&here);
	drain(&there);
}

/* Goal: a side that takes turns does not wait for an answer to a turn that it has not yet reported on its own side. */
TEST(an_answer_that_waits_for_a_turn_comes, .timeout_ms = 60000)
{
	struct pair to = make_pair(), fro = make_pair();
	unsigned rounds = 200 / HARNESS_SLOWDOWN;

	open_queue(&here);
	open_queue(&there);
	open_queue(&side);
	for (unsigned i = 0; i < rounds; i++) {
		atomic_store(&gate, 0);
		close_gate(&there);
		record(fro.theirs, &there);
		for (unsigned turn = 0; turn < 5; turn++) {
			wait_for(fro.ours, &here);
			record(to.ours, &here);
			struct cn_operation wait = {.kind = CN_OPERATION_WAIT_POINT, .wait_point = end_of(&here)};
			ASSERT_OK(cn_host_queue_submit(&side, OWNER, &wait, NULL));
			record(fro.theirs, &side);
		}
		pthread_t thread = start(sync_queue, &here);
		atomic_store(&gate, 1);
		join(thread);
		wait_for_all(&side);
		wait_for_all(&there);
		ASSERT_OK(cn_host_signal_query(to.theirs));
	}
	drain(&here);
	drain(&there);
	drain(&side);
	free_pair(to);
	free_pair(fro);
}

/* Goal: turns whose wait was over before the other side died are taken, and none after it. */
TEST(a_death_ends_the_turns)
{
	struct pair to = make_pair(), fro = make_pair();
	static struct cn_host_queue after;

	open_queue(&here);
	open_queue(&there);
	open_queue(&side);
	open_queue(&after);
	close_gate(&there);
	for (unsigned turn = 1; turn <= 12; turn++) {
		if (turn == 6)
			close_gate_until(&there, 2);
		record(fro.theirs, &there);
		wait_for(fro.ours, &here);
		record(to.ours, &here);
		if (turn == 5)
			wait_for(to.theirs, &side);
		if (turn == 6)
			wait_for(to.theirs, &after);
	}
	pthread_t thread = start(sync_queue, &here);
	atomic_store(&gate, 1);
	while (!is_idle(&side))
		sched_yield();
	ASSERT_OK(side.failure);
	ASSERT(!is_idle(&after));
	cn_host_signal_bury(fro.ours, 1);
	join(thread);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, here.failure);
	wait_for_all(&after);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, after.failure);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, cn_host_signal_query(to.theirs));
	atomic_store(&gate, 2);
	drain(&here);
	drain(&there);
	drain(&side);
	drain(&after);
	free_pair(to);
	free_pair(fro);
}

/* What several processes write in shared memory. Each signal has one recorder, which counts its records. */
enum {
	STRESS_SIGNALS = 3,
	STRESS_QUEUES = 4,
	STRESS_ROUNDS = 8000 / (HARNESS_SLOWDOWN * HARNESS_SLOWDOWN),
};

struct stress_page {
	_Atomic uint64_t announced[STRESS_SIGNALS], written[STRESS_SIGNALS];
};

struct stress {
	struct cn_signal *signals[STRESS_SIGNALS];
	struct stress_page *page;
	int first, count; /* the signals that are recorded here */
	uint64_t random_stream;
	struct cn_host_queue *queues;
};

struct stress_check {
	struct stress *stress;
	int signal;
	uint64_t expected;
};

static struct stress_check checks[2 * STRESS_ROUNDS];
static _Atomic unsigned check_count;

static void check_written(void *data)
{
	struct stress_check *check = data;

	ASSERT_GE(atomic_load(&check->stress->page->written[check->signal]), check->expected);
}

static void stress_record(struct stress *stress, int signal, struct cn_host_queue *queue)
{
	uint64_t serial = atomic_load(&stress->page->announced[signal]) + 1;
	struct cn_operation write = {
		.kind = CN_OPERATION_WRITE_VALUE,
		.write_value = {.address = &stress->page->written[signal], .value = serial, .bytes = 8}};

	ASSERT_OK(cn_host_queue_submit(queue, OWNER, &write, NULL));
	record(stress->signals[signal], queue);
	atomic_store(&stress->page->announced[signal], serial);
}

static void stress_wait(struct stress *stress, int signal, struct cn_host_queue *queue)
{
	struct stress_check *check = &checks[atomic_fetch_add(&check_count, 1)];

	*check = (struct stress_check){stress, signal, atomic_load(&stress->page->announced[signal])};
	wait_for(stress->signals[signal], queue);
	call(queue, check_written, check);
}

/* One queue for the records, so that what is written never goes back; others to wait in. */
static void *run_stress(void *data)
{
	struct stress *stress = data;
	struct test_random random = test_random_start(stress->random_stream);
	struct cn_host_queue *queues = stress->queues;

	for (int i = 0; i < STRESS_QUEUES; i++)
		open_queue(&queues[i]);
	for (int round = 0; round < STRESS_ROUNDS; round++) {
		int signal = (int)test_random_below(&random, STRESS_SIGNALS);
		struct cn_host_queue *queue = &queues[test_random_below(&random, STRESS_QUEUES)];
		switch (test_random_below(&random, 8)) {
		case 0:
		case 1:
			if (stress->count)
				stress_record(stress, stress->first + signal % stress->count, &queues[0]);
			break;
		case 2:
		case 3:
		case 4: stress_wait(stress, signal, queue); break;
		case 5: wait_for_all(queue); break;
		case 6: ASSERT_OK(cn_host_signal_sync(stress->signals[signal])); break;
		default: (void)cn_host_signal_query(stress->signals[signal]);
		}
	}
	for (int i = 0; i < STRESS_QUEUES; i++)
		drain(&queues[i]);
	return NULL;
}

/* ---- Two processes ---------------------------------------------------------------------------------------------- */

static struct cn_signal *receive_signal(struct peer *peer, uint32_t recorder)
{
	struct cn_signal *signal;
	int fd = peer_receive_descriptor(peer);

	ASSERT_OK(cn_host_signal_import(fd, recorder, &signal));
	close(fd);
	return signal;
}

static void send_signal(struct peer *peer, struct cn_signal *signal)
{
	int fd;

	ASSERT_OK(cn_host_signal_export(signal, &fd));
	peer_send_descriptor(peer, fd);
	close(fd);
}

/* One side records and the other waits: alone, with a thread that sleeps for the queue, and in a call. */
static void give(struct peer *peer, struct cn_signal *signal)
{
	for (int way = 0; way < 3; way++) {
		atomic_store(&gate, 0);
		close_gate(&here);
		record(signal, &here);
		peer_send(peer, "recorded");
		peer_expect(peer, "waiting");
		ASSERT_ERROR(CUDA_ERROR_NOT_READY, cn_host_signal_query(signal));
		atomic_store(&gate, 1);
		peer_expect(peer, "done");
		wait_for_all(&here);
	}
}

static void take(struct peer *peer, struct cn_signal *signal)
{
	for (int way = 0; way < 3; way++) {
		_Atomic unsigned calls = 0;
		peer_expect(peer, "recorded");
		ASSERT_ERROR(CUDA_ERROR_NOT_READY, cn_host_signal_query(signal));
		wait_for(signal, &there);
		call(&there, count_call, &calls);
		pthread_t thread = way == 1 ? start(sync_queue, &there) : 0;
		ASSERT(!is_idle(&there));
		ASSERT(cn_host_point_waits_outside(end_of(&there)));
		peer_send(peer, "waiting");
		if (way == 2)
			ASSERT_OK(cn_host_signal_sync(signal));
		while (way == 0 && !is_idle(&there))
			sched_yield();
		if (way == 1)
			join(thread);
		wait_for_all(&there);
		ASSERT_EQ(1, calls);
		ASSERT_OK(cn_host_signal_query(signal));
		peer_send(peer, "done");
	}
}

ROLE(other_side)
{
	struct cn_signal *signal = receive_signal(parent, 1);

	open_queue(&here);
	open_queue(&there);
	take(parent, signal);
	give(parent, signal);
	drain(&here);
	drain(&there);
	cn_host_signal_free(signal);
}

TEST(a_signal_goes_both_ways_between_processes)
{
	struct peer *peer = peer_start("other_side");
	struct cn_signal *signal;

	ASSERT_OK(cn_host_signal_create(&signal));
	send_signal(peer, signal);
	open_queue(&here);
	open_queue(&there);
	give(peer, signal);
	take(peer, signal);
	drain(&here);
	drain(&there);
	cn_host_signal_free(signal);
	peer_wait(peer);
}

ROLE(records_and_is_killed)
{
	struct cn_signal *signal = receive_signal(parent, 5);

	open_queue(&here);
	close_gate(&here);
	record(signal, &here);
	peer_send(parent, "recorded");
	wait_for_all(&here);
}

TEST(a_killed_recorder_fails_those_who_wait)
{
	struct peer *peer = peer_start("records_and_is_killed");
	struct cn_signal *signal;

	ASSERT_OK(cn_host_signal_create(&signal));
	send_signal(peer, signal);
	peer_expect(peer, "recorded");
	open_queue(&here);
	wait_for(signal, &here);
	peer_kill(peer);
	ASSERT(!is_idle(&here));
	cn_host_signal_bury(signal, 5);
	while (!is_idle(&here)) /* by the poller, which sleeps on nothing else */
		sched_yield();
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, here.failure);
	drain(&here);
	cn_host_signal_free(signal);
}

ROLE(sleeps_and_is_killed)
{
	struct cn_signal *signal = receive_signal(parent, 1);

	open_queue(&here);
	wait_for(signal, &here);
	peer_send(parent, "waiting");
	(void)cn_host_signal_sync(signal);
	FAIL("the record was never done");
}

/* Goal: a process that was killed in its sleep does not hold up others. */
TEST(a_killed_sleeper_is_in_nobodys_way)
{
	struct peer *peer = peer_start("sleeps_and_is_killed");
	struct cn_signal *signal;

	ASSERT_OK(cn_host_signal_create(&signal));
	open_queue(&here);
	close_gate(&here);
	record(signal, &here);
	send_signal(peer, signal);
	peer_expect(peer, "waiting");
	peer_kill(peer);
	cn_host_signal_bury(signal, 1);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cn_host_signal_query(signal));
	atomic_store(&gate, 1);
	ASSERT_OK(cn_host_signal_sync(signal));
	record(signal, &here);
	ASSERT_OK(cn_host_signal_query(signal));
	drain(&here);
	cn_host_signal_free(signal);
}

/* Two threads per process; one of the test's records signal 0, one of the peer's records 1 and 2. */
static void stress_both(struct stress *stress)
{
	static struct cn_host_queue queues[2][STRESS_QUEUES];
	struct stress only_waits = *stress;

	stress->queues = queues[0];
	only_waits.queues = queues[1];
	only_waits.count = 0;
	only_waits.random_stream++;
	pthread_t thread = start(run_stress, &only_waits);
	run_stress(stress);
	join(thread);
}

static struct stress make_stress(int first, int count, uint64_t random_stream, int page_fd)
{
	struct stress stress = {.first = first, .count = count, .random_stream = random_stream};

	stress.page = mmap(NULL, sizeof *stress.page, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	ASSERT_NE(MAP_FAILED, (void *)stress.page);
	close(page_fd);
	return stress;
}

static void free_stress(struct stress *stress)
{
	munmap(stress->page, sizeof *stress->page);
	for (int i = 0; i < STRESS_SIGNALS; i++)
		cn_host_signal_free(stress->signals[i]);
}

ROLE(stressed)
{
	struct stress stress = make_stress(1, 2, 10, peer_receive_descriptor(parent));

	for (int i = 0; i < STRESS_SIGNALS; i++)
		stress.signals[i] = receive_signal(parent, 1);
	peer_expect(parent, "go");
	stress_both(&stress);
	peer_send(parent, "done");
	peer_expect(parent, "end");
	free_stress(&stress);
}

/* Goal: whatever two processes do at the same time, what was written before a record is there after the wait for it. */
TEST(order_holds_between_processes_under_load, .timeout_ms = 120000)
{
	struct peer *peer = peer_start("stressed");
	int fd = make_file(4096, F_SEAL_SHRINK);
	struct stress stress;

	peer_send_descriptor(peer, fd);
	stress = make_stress(0, 1, 20, fd);
	for (int i = 0; i < STRESS_SIGNALS; i++) {
		ASSERT_OK(cn_host_signal_create(&stress.signals[i]));
		send_signal(peer, stress.signals[i]);
	}
	peer_send(peer, "go");
	stress_both(&stress);
	peer_expect(peer, "done");
	peer_send(peer, "end");
	free_stress(&stress);
	peer_wait(peer);
}

/* SPDX-License-Identifier: MIT */
/*
 * Events between processes: opened, recorded, waited for and freed in any of them, and what the others see of a death.
 */
#include "shared_event.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

SETUP
{
	bring_up();
}

ROLE(bystander)
{
}

/* Does to an event that was opened what it is told, a word at a time. */
ROLE(opener)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event;
	char word[16];

	peers_may_hold();
	peer_receive_bytes(parent, handle, sizeof handle);
	event = open_handle(handle);
	for (;;) {
		peer_send(parent, "ok");
		peer_receive_bytes(parent, word, sizeof word);
		if (!strcmp(word, "record"))
			record(event);
		else if (!strcmp(word, "pend"))
			record_pending(event);
		else if (!strcmp(word, "gate"))
			open_gate();
		else if (!strcmp(word, "pending?"))
			ASSERT_ERROR(CUDA_ERROR_NOT_READY, query(event));
		else if (!strcmp(word, "sync"))
			ASSERT_OK(sync_with(event));
		else if (!strcmp(word, "dead?"))
			ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, sync_with(event));
		else if (!strcmp(word, "free"))
			cn_shared_event_drop(event);
		else
			break;
	}
	ASSERT_STREQ("end", word);
}

/* Give an order without waiting until it is carried out. */
static void order(struct peer *peer, const char *word)
{
	char bytes[16] = "";

	snprintf(bytes, sizeof bytes, "%s", word);
	peer_send_bytes(peer, bytes, sizeof bytes);
}

static void tell(struct peer *peer, const char *word)
{
	order(peer, word);
	peer_expect(peer, "ok");
}

static struct peer *start_opener(const unsigned char handle[CN_HANDLE_BYTES])
{
	struct peer *peer = peer_start("opener");

	peer_send_bytes(peer, handle, CN_HANDLE_BYTES);
	peer_expect(peer, "ok");
	return peer;
}

static void end_opener(struct peer *peer)
{
	tell(peer, "free");
	order(peer, "end");
	peer_wait(peer);
}

TEST(either_process_records_and_the_other_waits)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct peer *peer = start_opener(handle);

	for (int i = 0; i < 10; i++) {
		record_pending(event);
		tell(peer, "pending?");
		order(peer, "sync");
		open_gate();
		peer_expect(peer, "ok");

		tell(peer, "pend");
		ASSERT_ERROR(CUDA_ERROR_NOT_READY, query(event));
		order(peer, "gate");
		ASSERT_OK(sync_with(event));
		peer_expect(peer, "ok");
	}
	end_opener(peer);
	cn_shared_event_drop(event);
}

TEST(any_number_of_processes_have_it_and_each_its_own_death)
{
	enum { COUNT = 4 };
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct peer *peers[COUNT];

	for (int i = 0; i < COUNT; i++)
		peers[i] = start_opener(handle);
	for (int i = 0; i < COUNT - 1; i++) {
		tell(peers[i], "pend");
		order(peers[COUNT - 1], "dead?");
		peer_kill(peers[i]); /* before its record is done */
		peer_expect(peers[COUNT - 1], "ok");
		ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, sync_with(event));
		record(event);
		tell(peers[COUNT - 1], "sync");
	}
	end_opener(peers[COUNT - 1]);
	cn_shared_event_drop(event);
	sweep_names("bystander");
}

TEST(opened_twice_it_is_two)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct peer *peer = peer_start("opener_of_two");

	struct cn_shared_event *event = create(handle);
	peer_send_bytes(peer, handle, sizeof handle);
	peer_expect(peer, "pending");
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, query(event));
	peer_send(peer, "go");
	ASSERT_OK(sync_with(event));
	peer_wait(peer);
	cn_shared_event_drop(event);
}

ROLE(opener_of_two)
{
	unsigned char handle[CN_HANDLE_BYTES];

	peers_may_hold();
	peer_receive_bytes(parent, handle, sizeof handle);
	struct cn_shared_event *one = open_handle(handle), *other = open_handle(handle);
	ASSERT_NE(one, other);
	cn_shared_event_drop(one);
	record_pending(other);
	peer_send(parent, "pending");
	peer_expect(parent, "go");
	open_gate();
	cn_shared_event_drop(other);
}

/* As the driver's, which has one event a process and handle. */
TEST(ones_own_handle_is_the_same_each_time_and_does_not_open)
{
	unsigned char handle[CN_HANDLE_BYTES], again[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);

	ASSERT_OK(cn_shared_event_handle(event, again));
	ASSERT_MEMEQ(handle, again, sizeof handle);
	expect_refusal(handle, CUDA_ERROR_INVALID_CONTEXT, "belongs to this process");
	record(event);
	ASSERT_OK(query(event));
	cn_shared_event_drop(event);
	cn_shared_event_drop(NULL);
}

TEST(an_opened_event_has_no_handle_of_its_own)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct peer *peer = peer_start("creator");

	peer_receive_bytes(peer, handle, sizeof handle);
	struct cn_shared_event *event = open_handle(handle);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cn_shared_event_handle(event, handle));
	cn_shared_event_drop(event);
	peer_end(peer);
}

/* ---- Freed ---- */

/* Makes an event and keeps a record of it pending. */
ROLE(creator)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);

	peers_may_hold();
	record_pending(event);
	peer_send_bytes(parent, handle, sizeof handle);
	peer_expect(parent, "end");
	open_gate();
	cn_shared_event_drop(event);
}

/* Goal: freed by its creator, it lives on between the others, who still hear of each other's deaths. */
TEST(the_others_go_on_when_the_creator_has_freed_it)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct peer *one = start_opener(handle), *other = start_opener(handle), *late;

	cn_shared_event_drop(event);
	tell(one, "pend");
	tell(other, "pending?");
	order(other, "sync");
	tell(one, "gate");
	peer_expect(other, "ok");

	late = peer_start("late_opener", "no longer exists");
	peer_send_bytes(late, handle, sizeof handle);
	peer_wait(late);

	tell(one, "pend");
	order(other, "dead?");
	peer_kill(one);
	peer_expect(other, "ok");
	end_opener(other);
	sweep_names("bystander");
}

ROLE(late_opener)
{
	unsigned char handle[CN_HANDLE_BYTES];

	peers_may_hold();
	peer_receive_bytes(parent, handle, sizeof handle);
	expect_refusal(handle, cn_handle_gone(CN_HANDLE_EVENT), argv[0]);
}

/* Goal: one frees it while its record is pending, and dies: those who wait for that record hear of it. */
TEST(a_record_outlives_its_event_and_its_death_is_heard)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct peer *peer = start_opener(handle);

	tell(peer, "pend");
	tell(peer, "free");
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, query(event));
	peer_kill(peer);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, sync_with(event));
	cn_shared_event_drop(event);
	sweep_names("bystander");
}

TEST(a_record_outlives_its_event_and_is_done)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct peer *peer = start_opener(handle);

	tell(peer, "pend");
	tell(peer, "free");
	order(peer, "gate");
	ASSERT_OK(sync_with(event));
	peer_expect(peer, "ok");
	order(peer, "end");
	peer_wait(peer);
	cn_shared_event_drop(event);
}

/* ---- The creator's death ---- */

TEST(a_creator_that_was_killed_fails_those_who_wait_and_its_handles_are_of_nothing)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct peer *peer = peer_start("creator");

	peer_receive_bytes(peer, handle, sizeof handle);
	struct cn_shared_event *event = open_handle(handle);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, query(event));
	peer_kill(peer);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, sync_with(event));
	expect_refusal(handle, cn_handle_gone(CN_HANDLE_EVENT), "is gone");
	record_pending(event); /* our own go on */
	open_gate();
	ASSERT_OK(sync_with(event));
	cn_shared_event_drop(event);
	sweep_names("bystander");
	expect_refusal(handle, cn_handle_gone(CN_HANDLE_EVENT), "is gone");
}

TEST(a_creator_that_has_ended_fails_those_who_wait_as_well)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct peer *peer = peer_start("creator");

	peer_receive_bytes(peer, handle, sizeof handle);
	struct cn_shared_event *event = open_handle(handle);
	peer_end(peer);
	ASSERT_OK(sync_with(event)); /* that record was done */
	expect_refusal(handle, cn_handle_gone(CN_HANDLE_EVENT), "is gone");
	cn_shared_event_drop(event);
}

/* Goal: without the creator nobody could tell of a third one's death, so its records are not waited for. */
TEST(without_its_creator_nobody_waits_for_a_third_process)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct peer *creator = peer_start("creator"), *third;

	peer_receive_bytes(creator, handle, sizeof handle);
	struct cn_shared_event *event = open_handle(handle);
	third = start_opener(handle);
	tell(third, "pend");
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, query(event));
	peer_kill(creator);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, sync_with(event)); /* that of the third, which lives */
	tell(third, "gate");
	tell(third, "sync");
	ASSERT_OK(sync_with(event)); /* what is done, is */
	tell(third, "pend");
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, sync_with(event));
	tell(third, "gate");
	end_opener(third);
	cn_shared_event_drop(event);
	sweep_names("bystander");
}

/* Makes an event, forks, and tells who the child is; the child stays until its pipe is closed. */
ROLE(forking_creator)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	int pipe_end = peer_receive_descriptor(parent);
	char byte;

	peers_may_hold();
	record_pending(event);
	peer_send_bytes(parent, handle, sizeof handle);
	peer_expect(parent, "fork");
	pid_t child = fork();
	if (!child)
		_exit(read(pipe_end, &byte, 1) == 0 ? 0 : 1);
	ASSERT_SYS(child);
	peer_send_bytes(parent, &child, sizeof child);
	peer_expect(parent, "never");
}

/* Goal: a process's death is seen although a child that it forked lives on, and its name is swept. */
TEST(a_forked_child_is_no_life_of_its_parent)
{
	struct peer *peer = peer_start("forking_creator");
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *again;
	int pipe_ends[2];
	pid_t child;

	ASSERT_SYS(pipe2(pipe_ends, O_CLOEXEC));
	peer_send_descriptor(peer, pipe_ends[0]);
	ASSERT_SYS(close(pipe_ends[0]));
	peer_receive_bytes(peer, handle, sizeof handle);
	struct cn_shared_event *event = open_handle(handle);
	peer_send(peer, "fork");
	peer_receive_bytes(peer, &child, sizeof child);
	int process = (int)syscall(SYS_pidfd_open, child, 0);
	ASSERT_SYS(process);

	peer_kill(peer);
	ASSERT_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, sync_with(event));
	/* Whether the old connection is known to have ended by now decides which sentence it is. */
	ASSERT_ERROR(cn_handle_gone(CN_HANDLE_EVENT), cn_shared_event_open(handle, &again));
	ASSERT(strstr(cn_last_error(), "has no listener") || strstr(cn_last_error(), "process has ended"));
	sweep_names("bystander");
	expect_refusal(handle, cn_handle_gone(CN_HANDLE_EVENT), "the exporter is gone, or");
	struct pollfd ended = {.fd = process, .events = POLLIN};
	ASSERT_EQ(0, poll(&ended, 1, 0));
	ASSERT_SYS(close(pipe_ends[1]));
	ASSERT_EQ(1, poll(&ended, 1, -1));
	ASSERT_SYS(close(process));
	cn_shared_event_drop(event);
}

/* ---- Many ---- */

enum { THREADS = 4, ROUNDS = 100 / HARNESS_SLOWDOWN };

static unsigned char shared_handle[CN_HANDLE_BYTES];

static void *open_and_free(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct cn_shared_event *event = open_handle(shared_handle);
		ASSERT_OK(query(event));
		cn_shared_event_drop(event);
	}
	return unused;
}

static void *create_and_free(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		unsigned char handle[CN_HANDLE_BYTES];
		struct cn_shared_event *event = create(handle);
		record(event);
		cn_shared_event_drop(event);
	}
	return unused;
}

static void run_threads(void *(*body)(void *))
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, body, NULL));
	for (int i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
}

ROLE(crowd)
{
	peers_may_hold();
	peer_receive_bytes(parent, shared_handle, sizeof shared_handle);
	run_threads(open_and_free);
}

TEST(threads_of_several_processes_open_and_free_at_the_same_time)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct peer *peers[2];

	for (int i = 0; i < 2; i++) {
		peers[i] = peer_start("crowd");
		peer_send_bytes(peers[i], handle, sizeof handle);
	}
	run_threads(create_and_free);
	for (int i = 0; i < 2; i++)
		peer_wait(peers[i]);
	cn_shared_event_drop(event);
}

/* Goal: whenever the creator dies, an open ends, with an event or with a sentence. */
TEST(a_creator_killed_while_it_is_asked, .timeout_ms = 60000)
{
	for (int i = 0; i < 30 / HARNESS_SLOWDOWN; i++) {
		struct peer *peer = peer_start("creator");
		struct cn_shared_event *event;
		CUresult result;

		peer_receive_bytes(peer, shared_handle, sizeof shared_handle);
		ASSERT_SYS(kill(peer_pid(peer), SIGKILL));
		while (!(result = cn_shared_event_open(shared_handle, &event)))
			cn_shared_event_drop(event);
		ASSERT_EQ(cn_handle_gone(CN_HANDLE_EVENT), result);
		ASSERT_NE(0, strlen(cn_last_error()));
		peer_kill(peer);
	}
	sweep_names("bystander");
}

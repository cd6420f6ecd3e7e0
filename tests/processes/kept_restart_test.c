/* SPDX-License-Identifier: MIT */
/*
 * The daemon that keeps memory is killed, and started again by its parent: nothing that was committed or is held is
 * lost, and nothing is left over. Programs notice nothing.
 */
#include "../kept.h"

#include <fcntl.h>
#include <sched.h>

enum { WORKERS = 2, NAMES = 4, BYTES = 64 * 1024, ROUNDS = 20, PAUSE_MAX = 4000 };

static struct kept_daemon daemon_of_test;

SETUP
{
	kept_context();
}

static unsigned descriptors_of(pid_t process)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/fd", (int)process);
	return test_file_count(path);
}

static void name_of(char ret_name[64], unsigned worker, unsigned number)
{
	snprintf(ret_name, 64, "worker%u/object%u", worker, number);
}

/* One random thing that a program does with kept memory; `seeds` is what each name has, 0: nothing. */
static void work_once(struct test_random *random, unsigned worker, uint64_t seeds[NAMES])
{
	unsigned number = (unsigned)test_random_below(random, NAMES);
	uint64_t seed = test_random_next(random) | 1;
	char name[64];
	cenote_kept kept;

	name_of(name, worker, number);
	switch (test_random_below(random, 4)) {
	case 0:
	case 1: /* a new generation, which is checked while the older one is there */
		kept = kept_make(name, BYTES, seed, 0);
		ASSERT(kept_has(kept_address(kept), BYTES, seed));
		ASSERT_OK(cenote_kept_release(kept));
		seeds[number] = seed;
		return;
	case 2:
		if (!seeds[number]) {
			ASSERT_ERROR(CUDA_ERROR_NOT_FOUND, cenote_kept_open(name, 0, 0, &kept));
			return;
		}
		ASSERT_OK(cenote_kept_open(name, 0, 0, &kept));
		ASSERT(kept_has(kept_address(kept), BYTES, seeds[number]));
		ASSERT_OK(cenote_kept_release(kept));
		return;
	default:
		if (seeds[number])
			ASSERT_OK(cenote_kept_retire(name, 0));
		seeds[number] = 0;
	}
}

ROLE(worker)
{
	unsigned worker = (unsigned)strtoul(argv[0], NULL, 10);
	struct test_random random = test_random_start(worker);
	uint64_t seeds[NAMES] = {0};

	while (access(argv[1], F_OK)) /* until the test says so */
		work_once(&random, worker, seeds);
	peer_send_bytes(parent, seeds, sizeof seeds);
}

/* Goal: killed at any instant, the daemon loses nothing and leaks nothing, and its programs' calls all succeed. */
TEST(a_killed_daemon_loses_nothing, .timeout_ms = 120000, .soak = true)
{
	struct test_random random = test_random_start(WORKERS);
	struct peer *workers[WORKERS];
	uint64_t seeds[NAMES];
	const char *stop = test_path("stop");

	kept_start(&daemon_of_test);
	pid_t child = kept_child(&daemon_of_test);
	unsigned child_descriptors = descriptors_of(child), parent_descriptors = descriptors_of(daemon_of_test.parent);
	for (unsigned i = 0; i < WORKERS; i++)
		workers[i] = peer_start("worker", i ? "1" : "0", stop);

	cenote_kept held = kept_make("held", BYTES, 77, 0); /* and one that is retired, which only this process keeps */
	ASSERT_OK(cenote_kept_retire("held", 0));
	for (unsigned long round = 0; soak_goes_on(round, ROUNDS); round++) {
		for (uint64_t i = test_random_below(&random, PAUSE_MAX); i; i--)
			sched_yield();
		child = kept_child(&daemon_of_test);
		if (!child)
			continue;
		ASSERT_SYS(kill(child, SIGKILL));
		kept_await_ready(&daemon_of_test);
	}
	close(open(stop, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	ASSERT_EQ(CENOTE_KEPT_RETIRED, kept_look(held).state);
	ASSERT_OK(cenote_kept_release(held));

	unsigned expected = 0;
	for (unsigned i = 0; i < WORKERS; i++) {
		peer_receive_bytes(workers[i], seeds, sizeof seeds);
		peer_wait(workers[i]);
		for (unsigned number = 0; number < NAMES; number++) {
			cenote_kept kept;
			char name[64];
			name_of(name, i, number);
			if (!seeds[number])
				continue;
			expected++;
			ASSERT_OK(cenote_kept_open(name, 0, 0, &kept));
			ASSERT(kept_has(kept_address(kept), BYTES, seeds[number]));
			ASSERT_OK(cenote_kept_release(kept));
		}
	}
	ASSERT_EQ(expected, kept_count(""));
	for (unsigned i = 0; i < WORKERS * NAMES; i++) {
		char name[64];
		name_of(name, i / NAMES, i % NAMES);
		cenote_kept_retire(name, 0);
	}
	ASSERT_EQ(0, kept_count(""));
	/* A connection, and a descriptor that a thread closes, may be there for a moment. */
	while (descriptors_of(kept_child(&daemon_of_test)) > child_descriptors)
		sched_yield();
	while (descriptors_of(daemon_of_test.parent) > parent_descriptors)
		sched_yield();
	kept_stop(&daemon_of_test);
}

/* Writes an object, and waits. */
ROLE(writer)
{
	cenote_kept_part part = {.bytes = BYTES};
	cenote_kept kept;

	ASSERT_OK(cenote_kept_create("a", &part, 1, NULL, &kept));
	kept_fill(part.address, BYTES, 5);
	peer_send(parent, "writes");
	peer_expect(parent, "commit");
	ASSERT_OK(cenote_kept_commit(kept));
	peer_send(parent, "committed");
	peer_expect(parent, "never");
}

/* Goal: after a restart a writer still has its object, no other can write the name, and it can commit. */
TEST(a_writer_keeps_its_object_over_a_restart)
{
	cenote_kept_part part = {.bytes = BYTES};
	cenote_kept kept;
	int watch;

	kept_start(&daemon_of_test);
	struct peer *writer = peer_start("writer");
	peer_expect(writer, "writes");
	ASSERT_SYS(kill(kept_child(&daemon_of_test), SIGKILL));
	kept_await_ready(&daemon_of_test);
	ASSERT_ERROR(CUDA_ERROR_NOT_READY, cenote_kept_create("a", &part, 1, NULL, &kept));
	peer_send(writer, "commit");
	peer_expect(writer, "committed");
	ASSERT_OK(cenote_kept_open("a", 0, 0, &kept));
	ASSERT(kept_has(kept_address(kept), BYTES, 5));
	ASSERT_OK(cenote_kept_watch("", &watch));
	ASSERT_EQ(2, kept_look(kept).holder_count);
	peer_kill(writer);
	while (kept_look(kept).holder_count != 1)
		sched_yield();
	ASSERT_OK(cenote_kept_release(kept));
	close(watch);
	kept_stop(&daemon_of_test);
}

/* Goal: a writer that ended while there was no daemon has left nothing. */
TEST(a_writer_that_ended_meanwhile_is_noticed)
{
	kept_start(&daemon_of_test);
	struct peer *writer = peer_start("writer");
	peer_expect(writer, "writes");
	pid_t child = kept_child(&daemon_of_test);
	ASSERT_SYS(kill(child, SIGSTOP));
	peer_kill(writer);
	ASSERT_SYS(kill(child, SIGKILL));
	kept_await_ready(&daemon_of_test);
	ASSERT_EQ(0, kept_count(""));
	kept_stop(&daemon_of_test);
}

/* SPDX-License-Identifier: MIT */
/*
 * The daemon that keeps memory is killed, and started again by its parent: nothing that was committed or is held is
 * lost, and nothing is left over. Programs notice nothing.
 *
 * With CENOTE_SOAK_SECONDS and --verbose the first test goes on for so long and says how often it has killed what.
 */
#include "../kept.h"

#include <fcntl.h>
#include <sched.h>

enum { WORKERS = 2, NAMES = 4, BYTES = 64 * 1024, ROUNDS = 20, PAUSE_MAX = 4000, VICTIM_ROUNDS = 4 };

/* What a worker has done, and what each of its names has: 0 is nothing. */
struct work {
	uint64_t seeds[NAMES];
	unsigned long commit_count, open_count, retire_count;
};

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

/* One random thing that a program does with kept memory. */
static void work_once(struct test_random *random, unsigned worker, struct work *work)
{
	uint64_t *seeds = work->seeds;
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
		work->commit_count++;
		return;
	case 2:
		work->open_count++;
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
		work->retire_count += seeds[number] != 0;
		seeds[number] = 0;
	}
}

ROLE(worker)
{
	unsigned worker = (unsigned)strtoul(argv[0], NULL, 10);
	struct test_random random = test_random_start(worker);
	struct work work = {.commit_count = 0};

	while (access(argv[1], F_OK)) /* until the test says so */
		work_once(&random, worker, &work);
	peer_send_bytes(parent, &work, sizeof work);
}

/* Commits one generation after the other and notes each in a file, until it is killed. */
ROLE(victim)
{
	int notes = open(argv[0], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	uint64_t seed = strtoull(argv[1], NULL, 10);

	ASSERT_SYS(notes);
	for (;;) {
		cenote_kept kept = kept_make("victim", BYTES, ++seed, 0);
		ASSERT_EQ((ssize_t)sizeof seed, pwrite(notes, &seed, sizeof seed, 0));
		ASSERT_OK(cenote_kept_release(kept));
	}
}

/* The victim was killed: what it had committed is there, and nothing that it had begun. Returns what there is. */
static uint64_t check_victim(const char *notes_path, uint64_t seed_before)
{
	int notes = open(notes_path, O_RDONLY | O_CLOEXEC);
	uint64_t seed = seed_before;
	cenote_kept kept;

	if (notes >= 0 && pread(notes, &seed, sizeof seed, 0) == 0)
		seed = seed_before;
	if (notes >= 0)
		close(notes);
	unlink(notes_path);
	CUresult result = cenote_kept_open("victim", 0, 0, &kept);
	if (result == CUDA_ERROR_NOT_FOUND && !seed)
		return 0;
	ASSERT_OK(result);
	/* It may have been killed between the commit and the note. */
	seed += kept_has(kept_address(kept), BYTES, seed + 1);
	ASSERT(kept_has(kept_address(kept), BYTES, seed));
	ASSERT_OK(cenote_kept_release(kept));
	return seed;
}

/* Kill the daemon, and wait for the next one. */
static bool kill_daemon(struct test_random *random)
{
	for (uint64_t i = test_random_below(random, PAUSE_MAX); i; i--)
		sched_yield();
	pid_t child = kept_child(&daemon_of_test);
	if (!child)
		return false;
	ASSERT_SYS(kill(child, SIGKILL));
	kept_await_ready(&daemon_of_test);
	return true;
}

/* Daemons and a client are killed for the time of the test; `held` is always there. How often. */
static void kill_all_the_time(struct test_random *random, cenote_kept held, unsigned long *ret_daemons,
			      unsigned long *ret_clients)
{
	const char *notes = test_path("notes");
	uint64_t seed = 0;
	char text[32];

	*ret_daemons = *ret_clients = 0;
	for (unsigned long round = 0; soak_goes_on(round, ROUNDS / VICTIM_ROUNDS); round++) {
		snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
		struct peer *victim = peer_start("victim", notes, text);
		for (int i = 0; i < VICTIM_ROUNDS; i++)
			*ret_daemons += kill_daemon(random);
		peer_kill(victim);
		++*ret_clients;
		seed = check_victim(notes, seed);
		ASSERT(kept_has(kept_address(held), BYTES, 77));
		ASSERT_EQ(CENOTE_KEPT_RETIRED, kept_look(held).state);
	}
}

/* Goal: killed at any instant, the daemon loses nothing and leaks nothing, and its programs' calls all succeed. */
TEST(a_killed_daemon_loses_nothing, .timeout_ms = 120000, .soak = true)
{
	struct test_random random = test_random_start(WORKERS);
	struct peer *workers[WORKERS];
	struct work work, sum = {.commit_count = 0};
	unsigned long daemon_count, client_count;
	const char *stop = test_path("stop");

	kept_start(&daemon_of_test);
	pid_t child = kept_child(&daemon_of_test);
	unsigned child_descriptors = descriptors_of(child), parent_descriptors = descriptors_of(daemon_of_test.parent);
	for (unsigned i = 0; i < WORKERS; i++)
		workers[i] = peer_start("worker", i ? "1" : "0", stop);

	cenote_kept held = kept_make("held", BYTES, 77, 0); /* and one that is retired, which only this process keeps */
	ASSERT_OK(cenote_kept_retire("held", 0));
	kill_all_the_time(&random, held, &daemon_count, &client_count);
	close(open(stop, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	ASSERT_OK(cenote_kept_release(held));
	cenote_kept_retire("victim", 0);

	unsigned expected = 0;
	for (unsigned i = 0; i < WORKERS; i++) {
		peer_receive_bytes(workers[i], &work, sizeof work);
		peer_wait(workers[i]);
		sum.commit_count += work.commit_count;
		sum.open_count += work.open_count;
		sum.retire_count += work.retire_count;
		for (unsigned number = 0; number < NAMES; number++) {
			cenote_kept kept;
			char name[64];
			name_of(name, i, number);
			if (!work.seeds[number])
				continue;
			expected++;
			ASSERT_OK(cenote_kept_open(name, 0, 0, &kept));
			ASSERT(kept_has(kept_address(kept), BYTES, work.seeds[number]));
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
	printf("# killed: %lu daemons and %lu clients; meanwhile %lu commits, %lu openings and %lu objects retired\n",
	       daemon_count, client_count, sum.commit_count, sum.open_count, sum.retire_count);
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

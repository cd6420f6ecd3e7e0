/* SPDX-License-Identifier: MIT */
/*
 * The harness, tested with itself: that a failing test fails, a hanging one is stopped, a leak is found and named.
 *
 * The hidden tests are specimens with one fault each. A visible test executes this program for one specimen and reads
 * what it printed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* What a run of a specimen printed and how it ended. */
struct run {
	char text[16384];
	int exit_status;
};

static void run_program(struct run *run, const char *option, const char *name)
{
	const char *arguments[] = {"specimen", option, name, NULL};
	posix_spawn_file_actions_t actions;
	size_t size = 0;
	ssize_t got;
	int ends[2], status;
	pid_t pid;

	if (!name)
		arguments[2] = NULL;
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
	ASSERT_EQ(0, posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char *const *)arguments, environ));
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	while ((got = read(ends[0], run->text + size, sizeof run->text - 1 - size)) > 0)
		size += (size_t)got;
	run->text[size] = '\0';
	close(ends[0]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT(WIFEXITED(status));
	run->exit_status = WEXITSTATUS(status);
}

static void expect_failure(const char *specimen, const char *reason)
{
	struct run run;
	char line[256];

	run_program(&run, "--", specimen);
	snprintf(line, sizeof line, "\nnot ok 1 - %s\n", specimen);
	ASSERT_CONTAINS(line, run.text);
	ASSERT_CONTAINS("# to repeat: CENOTE_TEST_SEED=0x", run.text);
	ASSERT_CONTAINS(reason, run.text);
	ASSERT_EQ(1, run.exit_status);
}

static void expect_pass(const char *specimen, const char *end_of_line)
{
	struct run run;
	char line[256];

	run_program(&run, "--", specimen);
	snprintf(line, sizeof line, "TAP version 13\n1..1\nok 1 - %s%s\n", specimen, end_of_line);
	ASSERT_STREQ(line, run.text);
	ASSERT_EQ(0, run.exit_status);
}

/* ---- Verdicts --------------------------------------------------------------------------------------------------- */

TEST(specimen_passes, .hidden = true)
{
	printf("not ok 1 - a line that only looks like a result\n");
}

TEST(specimen_skips, .hidden = true)
{
	SKIP("there is no %s here", "moon");
}

TEST(specimen_exits, .hidden = true)
{
	exit(0);
}

TEST(specimen_crashes, .hidden = true)
{
	raise(SIGKILL);
}

TEST(specimen_hangs, .hidden = true, .timeout_ms = 100)
{
	printf("before it hangs\n");
	for (;;)
		pause();
}

static void *fail_in_thread(void *unused)
{
	(void)unused;
	FAIL("failed in a thread");
}

TEST(specimen_fails_in_a_thread, .hidden = true)
{
	pthread_t thread;

	pthread_create(&thread, NULL, fail_in_thread, NULL);
	pthread_join(thread, NULL);
}

TEST(a_passing_test_passes_in_silence)
{
	expect_pass("specimen_passes", "");
}

TEST(a_skip_gives_its_reason)
{
	expect_pass("specimen_skips", " # SKIP there is no moon here");
}

TEST(an_early_exit_is_no_success)
{
	expect_failure("specimen_exits", "the process ended before the test did");
}

TEST(a_killed_test_fails)
{
	expect_failure("specimen_crashes", "killed by signal 9");
}

TEST(a_hanging_test_is_stopped)
{
	expect_failure("specimen_hangs", "before it hangs");
	expect_failure("specimen_hangs", "its time of");
}

TEST(a_failure_in_a_thread_counts)
{
	expect_failure("specimen_fails_in_a_thread", "failed in a thread");
}

TEST(an_unknown_name_is_an_error)
{
	struct run run;

	run_program(&run, "--", "no_such_test");
	ASSERT_EQ(1, run.exit_status);
}

TEST(list_names_all_tests)
{
	struct run run;

	run_program(&run, "--list", NULL);
	ASSERT_CONTAINS("list_names_all_tests\n", run.text);
	ASSERT_CONTAINS("specimen_passes (hidden)\n", run.text);
}

/* ---- Assertions ------------------------------------------------------------------------------------------------- */

TEST(specimen_eq, .hidden = true)
{
	ASSERT_EQ(4, (short)-5);
}

TEST(specimen_ne, .hidden = true)
{
	ASSERT_NE(0x7f0000000000ull, 0x7f0000000000ull);
}

TEST(specimen_lt, .hidden = true)
{
	ASSERT_LT(2.5, 2.5f);
}

TEST(specimen_pointer, .hidden = true)
{
	ASSERT_EQ(NULL, (void *)0x1230);
}

TEST(specimen_streq, .hidden = true)
{
	ASSERT_STREQ("salt", "water");
}

TEST(specimen_memeq, .hidden = true)
{
	ASSERT_MEMEQ("abcd", "abxd", 4);
}

TEST(specimen_contains, .hidden = true)
{
	ASSERT_CONTAINS("needle", "hay");
}

TEST(specimen_result, .hidden = true)
{
	ASSERT_OK(801);
}

TEST(specimen_sys, .hidden = true)
{
	ASSERT_SYS(open("/nowhere/at/all", O_RDONLY | O_CLOEXEC));
}

TEST(assertions_hold_when_true)
{
	ASSERT(1);
	ASSERT_EQ(3, (size_t)3);
	ASSERT_NE(-1, 1);
	ASSERT_LT(1, 2);
	ASSERT_LE(2, 2);
	ASSERT_GT(2, 1);
	ASSERT_GE(2.0, 2.0);
	ASSERT_STREQ("same", "same");
	ASSERT_STREQ(NULL, NULL);
	ASSERT_MEMEQ("abc", "abd", 2);
	ASSERT_CONTAINS("needle", "hay needle hay");
	ASSERT_OK(0);
	ASSERT_ERROR(801, 801);
	ASSERT_SYS(0);
}

TEST(assertions_print_both_values)
{
	expect_failure("specimen_eq", "4 == (short)-5 is false: left is 4, right is -5");
	expect_failure("specimen_ne", "left is 0x7f0000000000, right is 0x7f0000000000");
	expect_failure("specimen_lt", "left is 2.5, right is 2.5");
	expect_failure("specimen_pointer", "right is 0x1230");
	expect_failure("specimen_streq", "\"water\" is \"water\", not \"salt\"");
	expect_failure("specimen_memeq", "byte 2 of 4 is 0x78, not 0x63");
	expect_failure("specimen_contains", "\"hay\" has no \"needle\": \"hay\"");
	expect_failure("specimen_result", "801 answered 801");
	expect_failure("specimen_sys", "No such file or directory");
}

/* ---- Leaks ------------------------------------------------------------------------------------------------------ */

TEST(specimen_leaks_a_descriptor, .hidden = true)
{
	ASSERT_SYS(open("/dev/zero", O_RDONLY | O_CLOEXEC));
}

static void map_memory_file(void)
{
	int file = memfd_create("forgotten", MFD_CLOEXEC);

	ASSERT_SYS(file);
	ASSERT_SYS(ftruncate(file, 8192));
	ASSERT_NE(MAP_FAILED, mmap(NULL, 8192, PROT_READ, MAP_SHARED, file, 0));
	close(file);
}

TEST(specimen_leaks_a_mapping, .hidden = true)
{
	map_memory_file();
}

TEST(specimen_keeps_a_mapping, .hidden = true)
{
	map_memory_file();
	leaks_start_here();
}

TEST(specimen_leaks_a_file, .hidden = true)
{
	char path[512];

	snprintf(path, sizeof path, "%s/port", getenv("CENOTE_RUNTIME_DIR"));
	int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ASSERT_SYS(file);
	close(file);
}

/* As a process leaves its name that is killed. */
static void leave_a_name(const char *name)
{
	char path[512];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s%s", getenv("CENOTE_RUNTIME_DIR"), name, i ? ".lock" : "");
		int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		ASSERT_SYS(file);
		close(file);
	}
}

#define FIRST_NAME  "0123456789abcdef0123456789abcdef"
#define SECOND_NAME "fedcba9876543210fedcba9876543210"

TEST(specimen_leaves_a_name, .hidden = true)
{
	leave_a_name(FIRST_NAME);
}

TEST(specimen_leaves_a_name_too_many, .hidden = true)
{
	leaks_forgive_names(1);
	leave_a_name(FIRST_NAME);
	leave_a_name(SECOND_NAME);
}

TEST(specimen_leaves_the_names_it_said, .hidden = true)
{
	leaks_forgive_names(1);
	leaks_forgive_names(1);
	leave_a_name(FIRST_NAME);
	leave_a_name(SECOND_NAME);
}

ROLE(namesake)
{
	leave_a_name(FIRST_NAME);
	peer_send(parent, "ready");
	peer_expect(parent, "never");
}

TEST(specimen_kills_one_that_has_a_name, .hidden = true)
{
	struct peer *peer = peer_start("namesake");

	peer_expect(peer, "ready");
	peer_kill(peer);
}

/* Ends when the test's own end of the pipe is closed, or with the process. */
static void *wait_for_pipe(void *pipe_end)
{
	char byte;

	if (read(*(int *)pipe_end, &byte, 1) != 0)
		abort();
	return NULL;
}

static void leave_a_thread(void)
{
	static int ends[2];
	pthread_t thread;

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	pthread_create(&thread, NULL, wait_for_pipe, &ends[0]);
	pthread_setname_np(thread, "straggler");
	pthread_detach(thread);
}

TEST(specimen_leaks_a_thread, .hidden = true)
{
	leaks_watch(LEAK_THREADS);
	leave_a_thread();
}

TEST(specimen_keeps_a_thread, .hidden = true)
{
	leaks_watch(0);
	leave_a_thread();
}

TEST(specimen_leaks_a_process, .hidden = true)
{
	const char *arguments[] = {"sh", "-c", "echo ready; sleep 1000", NULL};
	posix_spawn_file_actions_t actions;
	char word[6];
	int ends[2];
	pid_t pid;

	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	ASSERT_EQ(0, posix_spawnp(&pid, "sh", &actions, NULL, (char *const *)arguments, environ));
	posix_spawn_file_actions_destroy(&actions);
	/* Once it speaks it has its name. */
	ASSERT_EQ(6, read(ends[0], word, sizeof word));
	close(ends[0]);
	close(ends[1]);
}

TEST(leaks_are_found_and_named)
{
	expect_failure("specimen_leaks_a_descriptor", "/dev/zero");
	expect_failure("specimen_leaks_a_mapping", "memfd:forgotten");
	expect_failure("specimen_leaks_a_file", "left behind: file port in the runtime directory");
	expect_failure("specimen_leaks_a_thread", "straggler");
	expect_failure("specimen_leaks_a_process", "sh -c echo ready");
}

TEST(what_a_test_allows_is_no_leak)
{
	expect_pass("specimen_keeps_a_mapping", "");
	expect_pass("specimen_keeps_a_thread", "");
}

TEST(a_name_is_forgiven_of_each_that_was_killed)
{
	expect_failure("specimen_leaves_a_name", "left behind: file " FIRST_NAME " in");
	expect_failure("specimen_leaves_a_name", "left behind: file " FIRST_NAME ".lock in");
	expect_failure("specimen_leaves_a_name_too_many", "it left files behind");
	expect_pass("specimen_leaves_the_names_it_said", "");
	expect_pass("specimen_kills_one_that_has_a_name", "");
}

TEST(files_and_descriptors_are_counted)
{
	unsigned descriptors = test_descriptor_count();

	ASSERT_EQ(0, test_file_count(getenv("CENOTE_RUNTIME_DIR")));
	leave_a_name(FIRST_NAME);
	ASSERT_EQ(2, test_file_count(getenv("CENOTE_RUNTIME_DIR")));
	ASSERT_EQ(descriptors, test_descriptor_count());
	int file = open("/", O_PATH | O_CLOEXEC);
	ASSERT_SYS(file);
	ASSERT_EQ(descriptors + 1, test_descriptor_count());
	ASSERT_SYS(close(file));
	leaks_forgive_names(1);
}

TEST(there_is_a_scratch_directory)
{
	const char *runtime_directory = getenv("CENOTE_RUNTIME_DIR");
	struct stat status;

	ASSERT_SYS(stat(test_directory(), &status));
	ASSERT_EQ(0700u, (unsigned)status.st_mode & 0777);
	ASSERT(runtime_directory);
	ASSERT_SYS(stat(runtime_directory, &status));
}

TEST(specimen_tells_its_directory, .hidden = true)
{
	FAIL("it was in %s", test_directory());
}

TEST(the_scratch_directory_goes_with_its_test)
{
	const char introduction[] = "it was in ";
	struct run run;

	run_program(&run, "--", "specimen_tells_its_directory");
	char *path = strstr(run.text, introduction);
	ASSERT(path);
	path += strlen(introduction);
	path[strcspn(path, "\n")] = '\0';
	ASSERT_EQ('/', path[0]);
	ASSERT_EQ(-1, access(path, F_OK));
}

/* ---- Peers ------------------------------------------------------------------------------------------------------ */

ROLE(echo)
{
	char bytes[1000];
	uint32_t value = 0;

	peer_expect(parent, "ping");
	peer_send(parent, argc > 0 ? argv[0] : "pong");
	peer_receive_bytes(parent, bytes, sizeof bytes);
	peer_send_bytes(parent, bytes, sizeof bytes);
	int file = peer_receive_descriptor(parent);
	ASSERT_EQ(4, pread(file, &value, sizeof value, 0));
	ASSERT_EQ(0x600df00d, value);
	peer_send_descriptor(parent, file);
	close(file);
}

ROLE(fails)
{
	ASSERT_EQ(1, 2);
}

ROLE(waits)
{
	peer_send(parent, "here");
	peer_expect(parent, "a word that never comes");
}

ROLE(leaks)
{
	ASSERT_SYS(open("/dev/zero", O_RDONLY | O_CLOEXEC));
}

TEST(specimen_peer_fails, .hidden = true)
{
	peer_wait(peer_start("fails"));
}

TEST(specimen_peer_leaks, .hidden = true)
{
	peer_wait(peer_start("leaks"));
}

TEST(specimen_peer_has_no_role, .hidden = true)
{
	peer_wait(peer_start("no_such_role"));
}

TEST(specimen_peer_is_forgotten, .hidden = true)
{
	peer_expect(peer_start("waits"), "here");
}

TEST(specimen_peer_says_another_word, .hidden = true)
{
	peer_expect(peer_start("waits"), "there");
}

TEST(specimen_peer_is_gone, .hidden = true)
{
	peer_expect(peer_start("fails"), "anything");
}

TEST(a_peer_answers)
{
	struct peer *peer = peer_start("echo", "a word given on the command line");
	uint32_t value = 0x600df00d;
	char bytes[1000], back[1000];

	memset(bytes, 7, sizeof bytes);
	peer_send(peer, "ping");
	peer_expect(peer, "a word given on the command line");
	peer_send_bytes(peer, bytes, sizeof bytes);
	peer_receive_bytes(peer, back, sizeof back);
	ASSERT_MEMEQ(bytes, back, sizeof bytes);

	int file = memfd_create("passed", MFD_CLOEXEC);
	ASSERT_SYS(file);
	ASSERT_EQ(4, pwrite(file, &value, sizeof value, 0));
	peer_send_descriptor(peer, file);
	close(file);
	file = peer_receive_descriptor(peer);
	value = 0;
	ASSERT_EQ(4, pread(file, &value, sizeof value, 0));
	ASSERT_EQ(0x600df00d, value);
	close(file);
	peer_wait(peer);
}

TEST(a_peer_can_be_killed)
{
	struct peer *peer = peer_start("waits");

	peer_expect(peer, "here");
	ASSERT_GT(peer_pid(peer), 1);
	peer_kill(peer);
}

TEST(a_peer_that_waits_in_vain_fails)
{
	struct peer *peer = peer_start("waits");

	peer_expect(peer, "here");
	int status = peer_wait_status(peer);
	ASSERT(WIFEXITED(status));
	ASSERT_EQ(1, WEXITSTATUS(status));
}

TEST(trouble_with_a_peer_fails_the_test)
{
	expect_failure("specimen_peer_fails", "1 == 2 is false");
	expect_failure("specimen_peer_leaks", "/dev/zero");
	expect_failure("specimen_peer_has_no_role", "no such role: no_such_role");
	expect_failure("specimen_peer_is_forgotten", "neither waited for nor killed");
	expect_failure("specimen_peer_says_another_word", "peer waits said \"here\", not \"there\"");
	expect_failure("specimen_peer_is_gone", "peer fails is gone");
}

/* ---- Randomness and soak ---------------------------------------------------------------------------------------- */

ROLE(draws)
{
	struct test_random generator = test_random_start(5);
	uint64_t value = test_random_next(&generator);

	peer_send_bytes(parent, &value, sizeof value);
}

TEST(random_numbers_follow_from_the_seed)
{
	struct test_random one = test_random_start(5), same = test_random_start(5), other = test_random_start(6);
	struct peer *peer = peer_start("draws");
	uint64_t value, first = test_random_next(&one);

	peer_receive_bytes(peer, &value, sizeof value);
	peer_wait(peer);
	ASSERT_EQ(first, value);
	ASSERT_EQ(first, test_random_next(&same));
	ASSERT_NE(first, test_random_next(&other));
	for (int i = 0; i < 1000; i++)
		ASSERT_LT(test_random_below(&one, 7), 7u);
}

TEST(specimen_soak, .hidden = true)
{
	unsigned long rounds = 0;

	while (soak_goes_on(rounds, 3))
		rounds++;
	printf("%lu rounds\n", rounds);
	FAIL("shows the line above");
}

TEST(soak_loops_are_short_in_an_ordinary_run)
{
	unsetenv("CENOTE_SOAK_SECONDS");
	expect_failure("specimen_soak", "# 3 rounds\n");
}

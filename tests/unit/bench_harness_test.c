/* SPDX-License-Identifier: MIT */
/*
 * The benchmark's harness: its arithmetic, which case has a turn when, and what it writes. The times are made up.
 */
#include "../../bench/harness.h"
#include "harness.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

TEST(statistics_of_an_odd_number)
{
	double samples[] = {5, 1, 4, 2, 3};
	struct bench_summary summary = bench_statistics(samples, 5);

	ASSERT(summary.median == 3 && summary.q1 == 2 && summary.q3 == 4 && summary.minimum == 1);
}

TEST(statistics_of_an_even_number)
{
	double samples[] = {4, 1, 3, 2};
	struct bench_summary summary = bench_statistics(samples, 4);

	ASSERT(summary.median == 2.5 && summary.q1 == 1.75 && summary.q3 == 3.25 && summary.minimum == 1);
}

TEST(statistics_of_one)
{
	double sample = 7;
	struct bench_summary summary = bench_statistics(&sample, 1);

	ASSERT(summary.median == 7 && summary.q1 == 7 && summary.q3 == 7 && summary.minimum == 7);
}

/* Made-up repetitions; the first one is the warm-up's. Each turn is noted. */
struct made_up {
	const double *each;
	unsigned next;
	char letter;
};

static char turns[64];

static double made_up_once(void *data)
{
	struct made_up *made_up = data;

	turns[strlen(turns)] = made_up->letter;
	return made_up->each[made_up->next++];
}

static void made_up_check(void *data)
{
	(void)data;
	turns[strlen(turns)] = '.';
}

/* As if the program had been called with --json; returns where that goes. */
static const char *start(void)
{
	const char *path = test_path("results");
	char *arguments[] = {(char *)"bench", (char *)"--json", (char *)(uintptr_t)path, NULL};

	bench_start("made up", 3, arguments);
	return path;
}

static void read_results(const char *path, char *ret_text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	ASSERT_SYS(fd);
	ssize_t count = read(fd, ret_text, bytes - 1);
	ASSERT_SYS(count);
	ret_text[count] = '\0';
	close(fd);
}

/* Goal: the machine was slow in the second round, for both: the ratio is what it always was. */
TEST(ratios_are_of_the_same_round)
{
	const double ours[] = {0, 20, 2000, 22}, theirs[] = {0, 10, 1000, 11};
	struct made_up us = {ours, 0, 'a'}, them = {theirs, 0, 'b'};
	struct bench_contestant contestants[] = {
		{.name = "cenote", .once = made_up_once, .check = made_up_check, .data = &us, .goal = 1.5},
		{.name = NULL},
		{.name = "other", .once = made_up_once, .data = &them, .goal = 1.5, .goal_of = "cenote"}};
	struct bench_contest contest = {
		.group = "A group", .name = "a row", .baseline = "other", .repetitions = 3, .x = 8, .x_name = "things"};
	const char *path = start();
	char text[4096];

	bench_contest(&contest, contestants, 3);
	ASSERT_STREQ("a.ba.ba.ba.b", turns);
	ASSERT(contestants[0].result.median == 22 && contestants[0].result.minimum == 20);
	ASSERT(contestants[0].result.ratio == 2);
	ASSERT(contestants[2].result.ratio == 1);
	ASSERT_EQ(0, bench_finish());
	read_results(path, text, sizeof text);
	ASSERT_CONTAINS(
		"{\"suite\": \"made up\", \"group\": \"A group\", \"row\": \"a row\", \"contestant\": \"cenote\", "
		"\"unit\": \"ns\", \"median\": 22, \"q1\": 21, \"q3\": 1011, \"minimum\": 20, \"repetitions\": 3, "
		"\"baseline\": \"other\", \"ratio\": 2, "
		"\"goal\": {\"most\": 1.5, \"of\": \"other\", \"reached\": 2, \"met\": false}, "
		"\"x\": 8, \"x_name\": \"things\"}\n",
		text);
	ASSERT_CONTAINS("\"goal\": {\"most\": 1.5, \"of\": \"cenote\", \"reached\": 0.5, \"met\": true}", text);
}

TEST(without_a_baseline_there_is_no_ratio)
{
	const double ours[] = {0, 1, 2, 3};
	struct made_up us = {ours, 0, 'a'};
	struct bench_contestant contestant = {
		.name = "cenote", .once = made_up_once, .data = &us, .goal = 2, .goal_of = "who is not there"};
	const char *path = start();
	char text[4096];

	bench_contest(&(struct bench_contest){.group = "A group", .name = "a row", .unit = "bytes", .repetitions = 3},
		      &contestant, 1);
	bench_absent("A group", "a row", "other", "not installed");
	ASSERT_EQ(0, bench_finish());
	read_results(path, text, sizeof text);
	ASSERT_CONTAINS("\"unit\": \"bytes\", \"median\": 2", text);
	ASSERT_CONTAINS("\"baseline\": null, \"ratio\": null, \"goal\": null, \"x\": null, \"x_name\": null}\n", text);
	ASSERT_CONTAINS("\"contestant\": \"other\", \"absent\": \"not installed\"}\n", text);
}

/* Goal: a name takes a column for each of its characters, and is cut between two of them. */
TEST(numbers_stand_below_each_other)
{
	const double each[] = {0, 1, 1, 1};
	struct made_up one = {each, 0, 'a'}, two = {each, 0, 'b'}, three = {each, 0, 'c'};
	struct bench_contestant contestants[] = {
		{.name = "cenote, the same", .once = made_up_once, .data = &one},
		{.name = "cenote, … twice", .once = made_up_once, .data = &two},
		{.name = "ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…", .once = made_up_once, .data = &three}};
	const char *path = test_path("printed");
	char text[4096];

	bench_start("made up", 1, (char *[]){(char *)"bench", NULL});
	fflush(stdout);
	int kept = dup(STDOUT_FILENO), printed = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_SYS(dup2(printed, STDOUT_FILENO));
	bench_contest(&(struct bench_contest){.group = "A group", .name = "a row", .repetitions = 3}, contestants, 3);
	fflush(stdout);
	ASSERT_SYS(dup2(kept, STDOUT_FILENO));
	close(kept);
	close(printed);
	read_results(path, text, sizeof text);
	ASSERT_CONTAINS("\n  cenote, the same                                  1.0 ns  ", text);
	ASSERT_CONTAINS("\n  cenote, … twice                                   1.0 ns  ", text);
	ASSERT_CONTAINS("\n  ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…ä…      1.0 ns  ", text);
}

/* Goal: a body is called until it lasts long enough, and an operation's time is the body's divided by all of them. */
struct slow {
	unsigned long calls, operations;
	uint64_t least_ns;
	uint64_t first_ns; /* what the first call takes in addition */
};

static void slow_body(void *data, unsigned long count)
{
	struct slow *slow = data;
	uint64_t end_ns = bench_now_ns() + count * slow->least_ns + (slow->calls ? 0 : slow->first_ns);

	while (bench_now_ns() < end_ns)
		;
	slow->calls++;
	slow->operations += count;
}

TEST(bodies_are_repeated_until_they_last)
{
	struct slow slow = {.least_ns = 1000};
	struct bench_contestant contestant = {.name = "cenote", .body = slow_body, .data = &slow};

	start();
	bench_contest(&(struct bench_contest){.group = "A group", .name = "a row", .repetitions = 3, .operations = 10},
		      &contestant, 1);
	ASSERT_EQ(0, bench_finish());
	ASSERT_GT(slow.operations, slow.calls);
	ASSERT(contestant.result.minimum >= 100); /* a tenth of what the body takes at least */
}

/* Goal: a first call that takes long, since it makes what the others use, does not pass for a body that lasts. */
TEST(a_slow_first_call_does_not_end_the_search)
{
	struct slow slow = {.least_ns = 1000, .first_ns = 20000000};
	struct bench_contestant contestant = {.name = "cenote", .body = slow_body, .data = &slow};

	start();
	bench_contest(&(struct bench_contest){.group = "A group", .name = "a row", .repetitions = 3}, &contestant, 1);
	ASSERT_EQ(0, bench_finish());
	ASSERT_GT(slow.operations, 16 * slow.calls);
}

TEST(only_what_is_wanted_is_measured)
{
	char *arguments[] = {(char *)"bench", (char *)"--only", (char *)"row two", NULL};
	const double each[] = {0, 1, 2, 3};
	struct made_up us = {each, 0, 'a'};
	struct bench_contestant contestant = {.name = "cenote", .once = made_up_once, .data = &us};

	bench_start("made up", 3, arguments);
	bench_contest(&(struct bench_contest){.group = "A group", .name = "row one", .repetitions = 3}, &contestant, 1);
	ASSERT_EQ(0, us.next);
	bench_contest(&(struct bench_contest){.group = "A group", .name = "row two", .repetitions = 3}, &contestant, 1);
	ASSERT_EQ(4, us.next);
	ASSERT(bench_wanted("A group", NULL) && !bench_wanted("A group", "row one"));
	ASSERT_EQ(0, bench_finish());
}

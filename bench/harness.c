/* SPDX-License-Identifier: MIT */
/*
 * Taking turns, and the arithmetic of the results; harness.h is the manual.
 */
#include "harness.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	/*
	 * Many short ones: a busy system lets a thread run for some milliseconds before another's turn, so most of them
	 * are not disturbed at all, and the median is one of these.
	 */
	REPETITIONS = 61,
	QUICK_PART = 4, /* of the repetitions */
	REPETITIONS_MIN = 5,
	REPETITION_NS = 500000,
	RUN_IN_PART = 8, /* of a repetition runs first, untimed: the one before filled the caches */
	LINE_BYTES_MAX = 2048,
	NAME_COLUMNS = 44,
};

static struct {
	const char *suite, *only;
	bool quick;
	int json;          /* -1: none is wanted */
	cpu_set_t allowed; /* when we started */
	char group[128];   /* the last one printed */
	bool finished;
} run = {.json = -1};

/* ---- The command line ---- */

static void usage(const char *program)
{
	fprintf(stderr, "Usage: %s [--quick] [--json FILE] [--only TEXT]\n", program);
	exit(2);
}

void bench_make_room(char **arguments)
{
	static const char tunable[] = "glibc.rtld.optional_static_tls=65536";
	const char *now = getenv("GLIBC_TUNABLES");

	if (now && strstr(now, tunable))
		return;
	BENCH_MUST(setenv("GLIBC_TUNABLES", tunable, 1));
	execv("/proc/self/exe", arguments);
}

void bench_start(const char *suite, int argument_count, char **arguments)
{
	run.suite = suite;
	for (int i = 1; i < argument_count; i++) {
		if (!strcmp(arguments[i], "--quick")) {
			run.quick = true;
		} else if (!strcmp(arguments[i], "--only") && i + 1 < argument_count) {
			run.only = arguments[++i];
		} else if (!strcmp(arguments[i], "--json") && i + 1 < argument_count) {
			run.json = open(arguments[++i], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
			if (run.json < 0)
				perror(arguments[i]), exit(1);
		} else {
			usage(arguments[0]);
		}
	}
	BENCH_MUST(sched_getaffinity(0, sizeof run.allowed, &run.allowed));
}

int bench_finish(void)
{
	BENCH_MUST(run.finished);
	run.finished = true;
	if (run.json >= 0)
		BENCH_MUST(close(run.json));
	return fflush(stdout) ? 1 : 0;
}

bool bench_quick(void)
{
	return run.quick;
}

bool bench_wanted(const char *group, const char *name)
{
	return !run.only || strstr(group, run.only) || !name || strstr(name, run.only);
}

/* ---- Processors and processes ---- */

unsigned bench_cpu_count(void)
{
	return (unsigned)CPU_COUNT(&run.allowed);
}

unsigned bench_cpu(unsigned index)
{
	index %= bench_cpu_count();
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &run.allowed) && !index--)
			return cpu;
	return 0;
}

void bench_pin(unsigned index)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(bench_cpu(index), &one);
	BENCH_MUST(sched_setaffinity(0, sizeof one, &one));
}

void bench_unpin(void)
{
	BENCH_MUST(sched_setaffinity(0, sizeof run.allowed, &run.allowed));
}

void bench_in_child(void (*body)(void))
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	BENCH_MUST(child < 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body();
		fflush(stdout);
		_exit(0);
	}
	BENCH_MUST(waitpid(child, &status, 0) != child || status);
}

/* ---- Arithmetic ---- */

/* Of sorted samples; `part` 0.5 is the median. */
static double quantile(const double *sorted, unsigned count, double part)
{
	double at = part * (count - 1);
	unsigned below = (unsigned)at;

	if (below + 1 >= count)
		return sorted[count - 1];
	return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

struct bench_summary bench_statistics(double *samples, unsigned count)
{
	qsort(samples, count, sizeof *samples, bench_compare);
	return (struct bench_summary){.median = quantile(samples, count, 0.5),
				      .q1 = quantile(samples, count, 0.25),
				      .q3 = quantile(samples, count, 0.75),
				      .minimum = samples[0]};
}

/* Of whose time a goal is a multiple. A time alone would be a goal for one machine. */
static const char *goal_of(const struct bench_contestant *contestant, const char *baseline)
{
	const char *of = contestant->goal_of ? contestant->goal_of : baseline;

	BENCH_MUST(!of);
	return of;
}

/* How far a goal was reached. False: the other did not take part. */
static bool reached(const struct bench_contestant *contestant, const char *baseline, const struct bench_contestant *all,
		    unsigned count, double *ret_reached)
{
	const char *of = goal_of(contestant, baseline);

	if (baseline && !strcmp(baseline, of) && contestant->result.ratio > 0) {
		*ret_reached = contestant->result.ratio;
		return true;
	}
	for (unsigned i = 0; i < count; i++)
		if (all[i].name && !strcmp(all[i].name, of)) {
			*ret_reached = contestant->result.median / all[i].result.median;
			return true;
		}
	return false;
}

/* ---- Taking turns ---- */

struct turns {
	double each[BENCH_CONTESTANTS_MAX][BENCH_REPETITIONS_MAX];
	unsigned long counts[BENCH_CONTESTANTS_MAX];
};

static uint64_t time_body(const struct bench_contestant *contestant, unsigned long count)
{
	uint64_t before_ns = bench_now_ns();

	contestant->body(contestant->data, count);
	return bench_now_ns() - before_ns;
}

/* One repetition: of one operation. */
static double repeat(const struct bench_contestant *contestant, unsigned long count, unsigned long operations)
{
	double each;

	if (contestant->once) {
		each = contestant->once(contestant->data);
	} else {
		contestant->body(contestant->data, count / RUN_IN_PART + 1);
		each = (double)time_body(contestant, count) / (double)(count * operations);
	}
	if (contestant->check)
		contestant->check(contestant->data);
	return each;
}

/*
 * Does a body that runs so often last long enough? It must do so twice: the first call makes a pool or a thread, and
 * any call may lose its processor for a while, which once makes up for a count that is too small.
 */
static bool lasts(const struct bench_contestant *contestant, unsigned long count)
{
	bool lasted = true;

	for (unsigned i = 0; i < 2 && lasted; i++)
		lasted = time_body(contestant, count) >= REPETITION_NS / 2;
	return lasted;
}

/* Also finds how often a body must run to last long enough. */
static unsigned long warm_up(const struct bench_contestant *contestant)
{
	unsigned long count = 1;

	if (contestant->once) {
		repeat(contestant, 1, 1);
		return 1;
	}
	while (!lasts(contestant, count))
		count *= 2;
	if (contestant->check)
		contestant->check(contestant->data);
	return count;
}

static void take_turns(const struct bench_contest *contest, const struct bench_contestant *contestants, unsigned count,
		       unsigned repetitions, struct turns *turns)
{
	unsigned long operations = contest->operations ? contest->operations : 1;

	for (unsigned i = 0; i < count; i++)
		if (contestants[i].name)
			turns->counts[i] = warm_up(&contestants[i]);
	for (unsigned turn = 0; turn < repetitions; turn++)
		for (unsigned i = 0; i < count; i++)
			if (contestants[i].name)
				turns->each[i][turn] = repeat(&contestants[i], turns->counts[i], operations);
}

/* The baseline's samples of each round are beside those of the others until they are sorted. */
static void conclude(const struct bench_contest *contest, struct bench_contestant *contestants, unsigned count,
		     unsigned repetitions, struct turns *turns)
{
	double base[BENCH_REPETITIONS_MAX], ratios[BENCH_REPETITIONS_MAX];
	bool compared = false;

	for (unsigned i = 0; i < count && contest->baseline; i++)
		if (contestants[i].name && !strcmp(contestants[i].name, contest->baseline)) {
			memcpy(base, turns->each[i], sizeof base);
			compared = true;
		}
	for (unsigned i = 0; i < count; i++) {
		if (!contestants[i].name)
			continue;
		for (unsigned turn = 0; compared && turn < repetitions; turn++)
			ratios[turn] = turns->each[i][turn] / base[turn];
		contestants[i].result = bench_statistics(turns->each[i], repetitions);
		if (compared)
			contestants[i].result.ratio = bench_statistics(ratios, repetitions).median;
	}
}

/* ---- Telling ---- */

static void print_value(double value, const char *unit)
{
	static const char *const units[] = {"ns", "µs", "ms", "s "};
	unsigned i = 0;

	if (strcmp(unit, "ns")) {
		printf(" %10.6g %s", value, unit);
		return;
	}
	for (; value >= 9999.5 && i < 3; i++)
		value /= 1000;
	printf(" %8.*f %s", value < 99.95 ? 1 : 0, value, units[i]);
}

static void print_group(const struct bench_contest *contest)
{
	if (strcmp(run.group, contest->group)) {
		snprintf(run.group, sizeof run.group, "%s", contest->group);
		printf("\n%s\n", contest->group);
	}
}

/* In so many columns, of which each character of UTF-8 takes one, however many bytes it has. */
static void print_name(const char *name)
{
	int left = NAME_COLUMNS;

	printf("  ");
	for (; *name; name++) {
		bool begins = (*name & 0xc0) != 0x80;
		if (begins && left-- == 0)
			break;
		putchar(*name);
	}
	printf("%*s", left > 0 ? left : 0, "");
}

static void print_result(const struct bench_contest *contest, const struct bench_contestant *contestants,
			 unsigned count, unsigned at)
{
	const struct bench_contestant *contestant = &contestants[at];
	const struct bench_summary *result = &contestant->result;
	double value;

	print_name(contestant->name);
	print_value(result->median, contest->unit ? contest->unit : "ns");
	printf("  ± %3.0f %%", result->median > 0 ? 50 * (result->q3 - result->q1) / result->median : 0);
	if (result->ratio > 0)
		printf("   x %-8.3g", result->ratio);
	if (contestant->goal > 0 && reached(contestant, contest->baseline, contestants, count, &value)) {
		printf("   goal x %.3g of %s: %s", contestant->goal, goal_of(contestant, contest->baseline),
		       value <= contestant->goal ? "met" : "MISSED");
	}
	printf("\n");
}

static void write_line(const char *line, int bytes)
{
	BENCH_MUST(bytes <= 0 || bytes >= LINE_BYTES_MAX);
	BENCH_MUST(write(run.json, line, (size_t)bytes) != bytes);
}

/* Names come from our own sources: they need no escaping, and that is checked. */
static const char *plain(const char *text)
{
	BENCH_MUST(text && (strchr(text, '"') || strchr(text, '\\')));
	return text;
}

static void write_result(const struct bench_contest *contest, const struct bench_contestant *contestants,
			 unsigned count, unsigned at, unsigned repetitions)
{
	const struct bench_contestant *contestant = &contestants[at];
	const struct bench_summary *result = &contestant->result;
	char line[LINE_BYTES_MAX], base[256] = "null, \"ratio\": null", goal[256] = "null",
				   x[128] = "null, \"x_name\": null";
	double value;

	if (result->ratio > 0)
		snprintf(base, sizeof base, "\"%s\", \"ratio\": %.6g", plain(contest->baseline), result->ratio);
	if (contestant->goal > 0 && reached(contestant, contest->baseline, contestants, count, &value)) {
		snprintf(goal, sizeof goal, "{\"most\": %.6g, \"of\": \"%s\", \"reached\": %.6g, \"met\": %s}",
			 contestant->goal, plain(goal_of(contestant, contest->baseline)), value,
			 value <= contestant->goal ? "true" : "false");
	}
	if (contest->x_name)
		snprintf(x, sizeof x, "%.10g, \"x_name\": \"%s\"", contest->x, plain(contest->x_name));
	write_line(line,
		   snprintf(line, sizeof line,
			    "{\"suite\": \"%s\", \"group\": \"%s\", \"row\": \"%s\", \"contestant\": \"%s\", "
			    "\"unit\": \"%s\", \"median\": %.6g, \"q1\": %.6g, \"q3\": %.6g, "
			    "\"minimum\": %.6g, \"repetitions\": %u, \"baseline\": %s, \"goal\": %s, \"x\": %s}\n",
			    plain(run.suite), plain(contest->group), plain(contest->name), plain(contestant->name),
			    contest->unit ? plain(contest->unit) : "ns", result->median, result->q1, result->q3,
			    result->minimum, repetitions, base, goal, x));
}

void bench_contest(const struct bench_contest *contest, struct bench_contestant *contestants, unsigned count)
{
	static struct turns turns; /* large; only one contest runs at a time */
	unsigned repetitions = contest->repetitions ? contest->repetitions : REPETITIONS;

	BENCH_MUST(count > BENCH_CONTESTANTS_MAX || repetitions > BENCH_REPETITIONS_MAX || !run.suite);
	if (!bench_wanted(contest->group, contest->name))
		return;
	if (run.quick)
		repetitions = repetitions / QUICK_PART > REPETITIONS_MIN ? repetitions / QUICK_PART : REPETITIONS_MIN;
	take_turns(contest, contestants, count, repetitions, &turns);
	conclude(contest, contestants, count, repetitions, &turns);
	print_group(contest);
	printf("%s%s%s\n", contest->name, contest->baseline ? ", to " : "", contest->baseline ? contest->baseline : "");
	for (unsigned i = 0; i < count; i++) {
		if (!contestants[i].name)
			continue;
		print_result(contest, contestants, count, i);
		if (run.json >= 0)
			write_result(contest, contestants, count, i, repetitions);
	}
	fflush(stdout);
}

void bench_absent(const char *group, const char *name, const char *contestant, const char *reason)
{
	char line[LINE_BYTES_MAX];

	if (!bench_wanted(group, name))
		return;
	print_group(&(struct bench_contest){.group = group});
	printf("%s: without %s: %s\n", name, contestant, reason);
	if (run.json >= 0)
		write_line(line,
			   snprintf(line, sizeof line,
				    "{\"suite\": \"%s\", \"group\": \"%s\", \"row\": \"%s\", "
				    "\"contestant\": \"%s\", \"absent\": \"%s\"}\n",
				    plain(run.suite), plain(group), plain(name), plain(contestant), plain(reason)));
}

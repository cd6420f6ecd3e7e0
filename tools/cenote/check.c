/* SPDX-License-Identifier: MIT */
/*
 * cenote check: run a program, and look for mistakes in how its processes share memory.
 *
 * The program runs with the recorder in front (recording.h). What its processes record is read while they run, every
 * fraction of a second, and analysed (check.h). Findings are printed to standard error when they are found; --json and
 * --html write them when the program has ended.
 */
#include "check.h"

#include "command.h"
#include "recording.h"
#include "run.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How often it looks, and how long a record has to become visible. */
enum { TICK_MS = 50, LATE_MS = 10 };

static struct {
	struct check_options analysis;
	bool wants_json;
	const char *page_path, *suppress_path;
	double timeout_s; /* 0: none */
	char **patterns;  /* of findings that are not wanted */
	int pattern_count;
	struct check *check;
	FILE *page, *json;
	char *json_text;
	size_t json_bytes;
	uint64_t count, suppressed, started_ns;
	bool timed_out;
} run;

/* ---- Findings ---------------------------------------------------------------------------------------------------- */

/*
 * A line of the file: a kind, or * for any, and a pattern for a function, a file, a label or a line as in a report, as
 * the shell has them.
 */
static bool matches(const struct check *check, const struct check_finding *finding, const char *pattern)
{
	const struct check_site *sites[] = {&finding->first, &finding->second};
	struct check_frame frames[CN_TRACE_FRAMES];
	size_t length = strcspn(pattern, " \t");
	const char *what = pattern + length + strspn(pattern + length, " \t");

	if (!(length == 1 && *pattern == '*') && (strlen(check_kind_names[finding->kind]) != length ||
						  strncmp(pattern, check_kind_names[finding->kind], length) != 0))
		return false;
	if (!*what || (finding->block && *finding->block->label && fnmatch(what, finding->block->label, 0) == 0))
		return true;
	for (int i = 0; i < 2; i++) {
		int count = sites[i]->call == CN_CALL_COUNT ? 0 : check_frames(check, sites[i], frames);
		for (int j = 0; j < count; j++)
			if (fnmatch(what, frames[j].function, 0) == 0 || fnmatch(what, frames[j].place, 0) == 0)
				return true;
	}
	return false;
}

static void found(const struct check *check, const struct check_finding *finding, void *unused)
{
	(void)unused;
	for (int i = 0; i < run.pattern_count; i++) {
		if (matches(check, finding, run.patterns[i])) {
			run.suppressed++;
			return;
		}
	}
	run.count++;
	check_write_text(check, finding, run.count, stderr);
	if (run.json) {
		fputs(run.count > 1 ? ",\n" : "\n", run.json);
		check_write_json(check, finding, run.json);
	}
	if (run.page)
		check_page_adds(check, finding, run.count, run.page);
}

/* 0, or -1: an error was printed. */
static int read_patterns(void)
{
	FILE *file = run.suppress_path ? fopen(run.suppress_path, "re") : NULL;
	char *line = NULL;
	size_t room = 0;

	if (!run.suppress_path)
		return 0;
	if (!file) {
		fprintf(stderr, "cenote check: %s: %s\n", run.suppress_path, strerror(errno));
		return -1;
	}
	while (getline(&line, &room, file) >= 0) {
		line[strcspn(line, "\n")] = 0;
		if (!*line || *line == '#')
			continue;
		run.patterns = check_grow(run.patterns, run.pattern_count, sizeof *run.patterns);
		run.patterns[run.pattern_count++] = strdup(line);
	}
	free(line);
	fclose(file);
	return 0;
}

/* ---- While it runs ----------------------------------------------------------------------------------------------- */

static bool look(void)
{
	uint64_t now = recording_now_ns();

	check_read(run.check, recording.directory, now - LATE_MS * 1000000ull, recording_is_dead);
	if (run.timeout_s > 0 && (double)(now - run.started_ns) > run.timeout_s * 1e9) {
		run.timed_out = true;
		return false;
	}
	return recording.interrupts == 0;
}

/* The rest; and if it has not ended, why. */
static void finish(void)
{
	bool is_left = !recording.all_have_ended;

	run.check->is_interrupted = is_left;
	check_read(run.check, recording.directory, is_left ? recording_now_ns() : UINT64_MAX, recording_is_dead);
	if (!is_left)
		return;
	check_hangs(run.check, run.timed_out);
	recording_kill();
}

static void write_json(void)
{
	fclose(run.json);
	printf("{\"findings\":[%s%s],\"suppressed\":%" PRIu64 ",\"calls\":%" PRIu64 ",\"lost\":%" PRIu64 "}\n",
	       run.json_text ? run.json_text : "", run.count ? "\n" : "", run.suppressed, check_read_calls(),
	       check_read_lost());
	free(run.json_text);
}

/* 0, or -1: an error was printed. */
static int write_outputs(void)
{
	if (run.json)
		write_json();
	fprintf(stderr, "cenote check: %" PRIu64 " finding%s in %d process%s, %" PRIu64 " calls", run.count,
		run.count == 1 ? "" : "s", run.check->process_count, run.check->process_count == 1 ? "" : "es",
		check_read_calls());
	if (run.suppressed)
		fprintf(stderr, "; %" PRIu64 " suppressed", run.suppressed);
	fputc('\n', stderr);
	if (check_read_lost())
		fprintf(stderr, "cenote check: %" PRIu64 " calls were not recorded: no room\n", check_read_lost());
	if (!check_read_calls())
		fputs("cenote check: no call was recorded: is CUDA linked statically into the program?\n", stderr);
	if (!run.page)
		return 0;
	check_page_ends(run.page, run.count);
	if (ferror(run.page) | fclose(run.page)) {
		fprintf(stderr, "cenote check: %s: %s\n", run.page_path, strerror(errno));
		return -1;
	}
	return 0;
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

static int take_timeout(const char *value)
{
	char *end = NULL;

	run.timeout_s = value ? strtod(value, &end) : 0;
	if (!value || *end || !(run.timeout_s > 0 && run.timeout_s < 1e7))
		return -usage_error("check", "--timeout takes a number of seconds");
	return 1;
}

/* A run_option: those of this command alone. */
static int read_option(int argument_count, char **arguments, int *index)
{
	const char *option = arguments[*index], *next = *index + 1 < argument_count ? arguments[*index + 1] : NULL;

	if (strcmp(option, "--strict") == 0)
		return run.analysis.is_strict = true, 1;
	if (strcmp(option, "--exact") == 0)
		return setenv(CN_TRACE_EXACT_VARIABLE, "1", 1), 1;
	if (strcmp(option, "--json") == 0)
		return run.wants_json = true, 1;
	int delays = run_take_delay("check", option);
	if (delays)
		return delays;
	if (strcmp(option, "--timeout") == 0 || strcmp(option, "--html") == 0 || strcmp(option, "--suppress") == 0)
		++*index;
	if (strcmp(option, "--timeout") == 0)
		return take_timeout(next);
	if (strcmp(option, "--html") != 0 && strcmp(option, "--suppress") != 0)
		return 0;
	if (!next || !*next)
		return -usage_error("check", "%s takes a file", option);
	if (strcmp(option, "--html") == 0)
		run.page_path = next;
	else
		run.suppress_path = next;
	return 1;
}

static int prepare_outputs(void)
{
	if (read_patterns())
		return EXIT_FAILURE;
	if (run.wants_json)
		run.json = open_memstream(&run.json_text, &run.json_bytes);
	if (!run.page_path)
		return 0;
	run.page = fopen(run.page_path, "we");
	if (!run.page) {
		fprintf(stderr, "cenote check: %s: %s\n", run.page_path, strerror(errno));
		return EXIT_FAILURE;
	}
	check_page_begins(run.page);
	return 0;
}

static void free_all(void)
{
	check_free(run.check);
	check_read_free();
	check_symbols_free();
	for (int i = 0; i < run.pattern_count; i++)
		free(run.patterns[i]);
	free(run.patterns);
}

static int check(int argument_count, char **arguments)
{
	int program = 0;
	int status = run_read_options("check", read_option, argument_count, arguments, &program);

	if (!status)
		status = prepare_outputs();
	if (status)
		return status;
	run.analysis.found = found;
	run.check = check_new(&run.analysis);
	setenv(CN_TRACE_CHECK_VARIABLE, "1", 1);
	run.started_ns = recording_now_ns();
	status = recording_start("check", arguments + program);
	if (!status) {
		signal(SIGPIPE, SIG_IGN);
		recording_await(look, TICK_MS);
		finish();
		status = write_outputs() ? EXIT_FAILURE : 0;
	}
	if (*recording.directory)
		recording_remove();
	free_all();
	if (status)
		return status;
	return run.count ? EXIT_FAILURE : recording_end_like_program();
}

const struct command command_check = {
	.name = "check",
	.summary = "run a program, and look for mistakes in how its processes share",
	.help = "Usage: cenote check [OPTION...] PROGRAM [ARGUMENT...]\n"
		"\n"
		"Runs a program as `cenote run` does, or one that was built with Cenote, and looks for what breaks\n"
		"the rules of sharing between its processes: work without an order, memory used before its\n"
		"allocation or after its free, events that cannot help, imports that are not freed, processes that\n"
		"wait for each other. Each is printed once, with both places in the program and how to mend it.\n"
		"docs/check.md explains each kind.\n"
		"\n"
		"Options:\n"
		"  --strict           assume no order that is not seen: not that a call which returned before another\n"
		"                     one began in another thread or process led to it\n"
		"  --exact            watch kernels in PTX on the host device, and compare the bytes that they use\n"
		"  --timeout SECONDS  end the program then, and say which process waits for which; so does Ctrl-C\n"
		"  --delay[=SEED]     let streams pause at random: an order that only happened to be is missing then\n"
		"  --json             write the findings to standard output, when the program has ended\n"
		"  --html FILE        write a page with them\n"
		"  --suppress FILE    leave out findings: a line has a kind, or *, and a function, place or label\n"
		"  --device KIND      host, cuda, or auto: a GPU if there is one (CENOTE_DEVICE)\n"
		"  --devices N        show the program 1 to 64 host devices (CENOTE_HOST_DEVICES); implies\n"
		"                     --device host\n"
		"  --memory SIZE      memory of each: bytes, or with K, M, G, T (CENOTE_HOST_MEMORY); implies\n"
		"                     --device host\n"
		"  --                 end of options\n"
		"\n"
		"Exit status: 1 if there is a finding, else the program's; 2 for wrong usage; 126 if the program\n"
		"cannot be executed, 127 if it is not found.\n"
		"\n"
		"Example: cenote check ./share_a_pool\n",
	.run = check,
};

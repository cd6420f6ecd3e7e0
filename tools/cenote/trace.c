/* SPDX-License-Identifier: MIT */
/*
 * cenote trace: run a program, and record the sharing calls of all its processes.
 *
 * When the program and all its descendants have ended (recording.h), it puts the records together, and ends as the
 * program did.
 */
#include "trace.h"

#include "command.h"
#include "recording.h"
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char default_output[] = "cenote-trace.json";

/* What is written, and how. */
static struct output {
	const char *path; /* "-": standard output; NULL: not wanted */
	void (*write)(const struct trace *trace, FILE *to);
	bool made; /* it is new, and not written yet */
} outputs[] = {{.write = trace_write}, {.write = trace_write_page}};
enum { OUTPUT_JSON, OUTPUT_PAGE, OUTPUTS };

/* ---- The file ---------------------------------------------------------------------------------------------------- */

static const char *plural(int count)
{
	return count == 1 ? "" : "s";
}

static bool to_reader(const struct output *output)
{
	return output->path && strcmp(output->path, "-") == 0;
}

static const char *output_name(const struct output *output)
{
	return to_reader(output) ? "standard output" : output->path;
}

/* 0, or 1: an error was printed. */
static int write_output(const struct trace *trace, struct output *output)
{
	FILE *to = to_reader(output) ? stdout : fopen(output->path, "w");

	output->made = false;
	if (to)
		output->write(trace, to);
	if (!to || ferror(to) | (to_reader(output) ? fflush(to) : fclose(to))) {
		recording_complain(output_name(output));
		return EXIT_FAILURE;
	}
	fprintf(stderr, "cenote trace: %d process%s, %d call%s, %d arrow%s: %s\n", trace->process_count,
		trace->process_count == 1 ? "" : "es", trace->call_count, plural(trace->call_count), trace->arrow_count,
		plural(trace->arrow_count), output_name(output));
	return EXIT_SUCCESS;
}

/* 0, or 1: an error was printed. */
static int write_trace(void)
{
	struct trace trace = {0};
	int status = EXIT_SUCCESS;

	if (!trace_read(&trace, recording.directory, recording_death, !recording.all_have_ended))
		return EXIT_FAILURE;
	trace_understand(&trace);
	for (int i = 0; i < OUTPUTS; i++)
		if (outputs[i].path && write_output(&trace, &outputs[i]))
			status = EXIT_FAILURE;
	if (trace.lost)
		fprintf(stderr, "cenote trace: %llu calls were not recorded: no room\n",
			(unsigned long long)trace.lost);
	if (!trace.call_count)
		fputs("cenote trace: no call was recorded: is CUDA linked statically into the program?\n", stderr);
	else if (isatty(STDERR_FILENO) && !outputs[OUTPUT_PAGE].path && !to_reader(&outputs[OUTPUT_JSON]))
		fputs("Open it at https://ui.perfetto.dev, or trace with --html to need no network.\n", stderr);
	trace_free(&trace);
	return status;
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

/* A run_option: those of this command alone. */
static int read_option(int argument_count, char **arguments, int *index)
{
	const char *option = arguments[*index];

	bool page = strcmp(option, "--html") == 0;

	if (page || strcmp(option, "-o") == 0 || strcmp(option, "--output") == 0) {
		if (*index + 1 >= argument_count || !*arguments[*index + 1])
			return -usage_error("trace", "%s takes a file, or - for standard output", option);
		outputs[page ? OUTPUT_PAGE : OUTPUT_JSON].path = arguments[++*index];
		return 1;
	}
	if (strcmp(option, "--marks") != 0)
		return 0;
	setenv(CN_TRACE_MARKS_VARIABLE, "1", 1);
	return 1;
}

/* Can the file be written? It is better to know before the program has run for an hour. */
static int try_output(struct output *output)
{
	if (!output->path || to_reader(output))
		return 0;
	int file = open(output->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	output->made = file >= 0;
	if (file < 0 && errno == EEXIST)
		file = open(output->path, O_WRONLY | O_CLOEXEC);
	if (file < 0)
		return recording_complain(output->path);
	close(file);
	return 0;
}

/* Remove files that were made for a trace that was not written. */
static void forget_outputs(void)
{
	for (int i = 0; i < OUTPUTS; i++)
		if (outputs[i].path && outputs[i].made)
			unlink(outputs[i].path);
}

/* 0, or an exit status. */
static int prepare_outputs(void)
{
	if (!outputs[OUTPUT_PAGE].path && !outputs[OUTPUT_JSON].path)
		outputs[OUTPUT_JSON].path = default_output;
	if (to_reader(&outputs[OUTPUT_PAGE]) && to_reader(&outputs[OUTPUT_JSON]))
		return usage_error("trace", "--output and --html cannot both be standard output");
	if (try_output(&outputs[OUTPUT_JSON]) || try_output(&outputs[OUTPUT_PAGE])) {
		forget_outputs();
		return EXIT_FAILURE;
	}
	return 0;
}

static int trace(int argument_count, char **arguments)
{
	int program = 0;
	int status = run_read_options("trace", read_option, argument_count, arguments, &program);
	if (!status)
		status = prepare_outputs();
	if (status)
		return status;
	status = recording_start("trace", arguments + program);
	if (!status) {
		signal(SIGPIPE, SIG_IGN); /* the file is written even if the message cannot be */
		recording_await(NULL, 0);
		status = write_trace();
	}
	if (*recording.directory)
		recording_remove();
	forget_outputs();
	return status ? status : recording_end_like_program();
}

const struct command command_trace = {
	.name = "trace",
	.summary = "run a program, and draw the sharing calls of its processes",
	.help = "Usage: cenote trace [OPTION...] PROGRAM [ARGUMENT...]\n"
		"\n"
		"Runs a program as `cenote run` does, or one that was built with Cenote, and records its "
		"calls, and its\n"
		"children's, that concern memory, streams, events and sharing. With --html it writes one page that\n"
		"draws them in any browser, without a network: threads and streams are columns, time goes down, and\n"
		"arrows lead from exports to imports and from events to their waits, across processes too. Without,\n"
		"the file opens at https://ui.perfetto.dev, where threads and streams are tracks and pools counters.\n"
		"\n"
		"Options:\n"
		"  -o, --output FILE   where to write it (cenote-trace.json); - is standard output, after the\n"
		"                      program's own output\n"
		"  --html FILE         write a page; with --output both are written\n"
		"  --marks             on a GPU: show when streams reach their work, with a host function after each\n"
		"  --device KIND       host, cuda, or auto: a GPU if there is one (CENOTE_DEVICE)\n"
		"  --devices N         show the program 1 to 64 host devices (CENOTE_HOST_DEVICES); "
		"implies --device host\n"
		"  --memory SIZE       memory of each: bytes, or with K, M, G, T (CENOTE_HOST_MEMORY); "
		"implies --device\n"
		"                      host\n"
		"  --                  end of options\n"
		"\n"
		"The command ends when the program and everything it started have ended. Ctrl-C goes to the program;\n"
		"a second one ends the wait, and writes what was recorded so far.\n"
		"\n"
		"Exit status: the program's; 126 if it cannot be executed, 127 if it is not found; 1 if "
		"the file could\n"
		"not be written.\n"
		"\n"
		"Example: cenote trace --html share.html ./share_a_pool\n",
	.run = trace,
};

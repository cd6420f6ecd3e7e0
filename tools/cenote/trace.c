/* SPDX-License-Identifier: MIT */
/*
 * cenote trace: run a program, and record the sharing calls of all its processes.
 *
 * The program runs as with `cenote run`, with one more library in front (tools/trace), which writes records into a
 * directory of this run. This process waits until the program and all its descendants have ended: it is their
 * subreaper, so processes whose parents have ended become its own children. It watches the directory, and each process
 * that appears there, to know when one was killed. Then it puts the records together, and ends as the program did.
 */
#include "trace.h"

#include "command.h"
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char default_output[] = "cenote-trace.json";

static struct {
	char directory[PATH_MAX];
	sigset_t signals, old_signals;
	int signal_descriptor, watch_descriptor;
	pid_t program;
	int status; /* of the program, when it has ended */
	bool has_ended, all_have_ended;
	int interrupts;
	/* Processes that have made calls; pidfd < 0: it was gone when we looked, or it cannot be watched. */
	struct watched {
		pid_t pid;
		int pidfd;
		uint64_t gone_ns;
	} * watched;
	int watched_count;
} run = {.signal_descriptor = -1, .watch_descriptor = -1};

/* What is written, and how. */
static struct output {
	const char *path; /* "-": standard output; NULL: not wanted */
	void (*write)(const struct trace *trace, FILE *to);
	bool made; /* it is new, and not written yet */
} outputs[] = {{.write = trace_write}, {.write = trace_write_page}};
enum { OUTPUT_JSON, OUTPUT_PAGE, OUTPUTS };

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int complain(const char *what)
{
	fprintf(stderr, "cenote trace: %s: %s\n", what, strerror(errno));
	return -1;
}

/* ---- Processes come and go --------------------------------------------------------------------------------------- */

static void watch_process(pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	run.watched = trace_grow(run.watched, run.watched_count, sizeof *run.watched);
	run.watched[run.watched_count++] = (struct watched){
		.pid = pid,
		.pidfd = pidfd,
		.gone_ns = pidfd < 0 && errno == ESRCH ? now_ns() : 0,
	};
}

/* Files are called PID.N, once their headers are filled in. */
static void read_names(void)
{
	char buffer[4096] __attribute__((aligned(8)));
	ssize_t length;

	while ((length = read(run.watch_descriptor, buffer, sizeof buffer)) > 0) {
		for (char *at = buffer; at < buffer + length;) {
			const struct inotify_event *event = (const void *)at;
			if (event->len)
				watch_process((pid_t)strtol(event->name, NULL, 10));
			at += sizeof *event + event->len;
		}
	}
}

/* The process of a file: the first one with its PID that was gone after the file was made. */
static uint64_t find_death(pid_t pid, const struct cn_trace_header *header)
{
	for (int i = 0; i < run.watched_count; i++)
		if (run.watched[i].pid == pid && run.watched[i].gone_ns >= header->opened_ns)
			return run.watched[i].gone_ns;
	return 0;
}

static void reap(void)
{
	int status;
	pid_t child;

	while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
		if (child != run.program)
			continue;
		run.has_ended = true;
		run.status = status;
	}
	run.all_have_ended = child < 0 && errno == ECHILD;
}

/*
 * What a terminal sends goes to the program as well; a signal that is sent to us is passed on. The second signal,
 * or the first after the program has ended, ends the wait.
 */
static void read_signals(void)
{
	struct signalfd_siginfo signal;

	while (read(run.signal_descriptor, &signal, sizeof signal) == sizeof signal) {
		if (signal.ssi_signo == SIGCHLD)
			continue;
		run.interrupts++;
		if (signal.ssi_code <= 0 && !run.has_ended)
			kill(run.program, (int)signal.ssi_signo);
		else if (run.has_ended)
			run.interrupts++;
	}
}

/* Until all have ended, or signals end the wait. */
static void await_all(void)
{
	enum { PATIENCE_MS = 1000 };
	bool said = false;

	for (reap(); !run.all_have_ended && run.interrupts < 2; reap()) {
		struct pollfd *polled = calloc((size_t)run.watched_count + 2, sizeof *polled);
		if (!polled)
			return;
		polled[0] = (struct pollfd){.fd = run.signal_descriptor, .events = POLLIN};
		polled[1] = (struct pollfd){.fd = run.watch_descriptor, .events = POLLIN};
		for (int i = 0; i < run.watched_count; i++)
			polled[i + 2] = (struct pollfd){.fd = run.watched[i].pidfd, .events = POLLIN};
		int count = poll(polled, (nfds_t)run.watched_count + 2, run.has_ended && !said ? PATIENCE_MS : -1);
		for (int i = 0; i < run.watched_count; i++) {
			if (!polled[i + 2].revents)
				continue;
			run.watched[i].gone_ns = now_ns();
			close(run.watched[i].pidfd);
			run.watched[i].pidfd = -1;
		}
		free(polled);
		read_names();
		read_signals();
		if (count == 0) {
			fputs("cenote trace: the program has ended; waiting for its children (Ctrl-C ends the wait)\n",
			      stderr);
			said = true;
		}
	}
	read_names();
}

/* ---- The program ------------------------------------------------------------------------------------------------- */

/* In the child. An error is sent to the parent, which prints it. */
static void execute(char **arguments, int report)
{
	sigprocmask(SIG_SETMASK, &run.old_signals, NULL);
	execvp(arguments[0], arguments);
	int reason = errno;
	ssize_t written = write(report, &reason, sizeof reason);
	_exit(written == sizeof reason ? EXIT_NOT_FOUND : EXIT_FAILURE);
}

/* 0: it runs. */
static int start(char **arguments)
{
	int report[2], reason = 0;

	if (pipe2(report, O_CLOEXEC))
		return complain("pipe");
	run.program = fork();
	if (run.program == 0)
		execute(arguments, report[1]);
	close(report[1]);
	ssize_t length = run.program < 0 ? 0 : read(report[0], &reason, sizeof reason);
	close(report[0]);
	if (run.program < 0)
		return complain("fork");
	if (length != sizeof reason)
		return 0;
	waitpid(run.program, NULL, 0);
	errno = reason;
	complain(arguments[0]);
	return reason == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

static int make_directory(void)
{
	const char *place = getenv("TMPDIR");

	if (snprintf(run.directory, sizeof run.directory, "%s/cenote-trace-XXXXXX", place && *place ? place : "/tmp") >=
	    (int)sizeof run.directory - 32)
		return fputs("cenote trace: TMPDIR is too long\n", stderr), -1;
	return mkdtemp(run.directory) ? 0 : complain(run.directory);
}

static void remove_directory(void)
{
	char path[PATH_MAX + NAME_MAX + 2];
	DIR *listing = opendir(run.directory);

	for (struct dirent *entry; listing && (entry = readdir(listing));) {
		snprintf(path, sizeof path, "%s/%s", run.directory, entry->d_name);
		if (entry->d_name[0] != '.')
			unlink(path);
	}
	if (listing)
		closedir(listing);
	rmdir(run.directory);
}

static int prepare(const char *program)
{
	char folder[PATH_MAX];

	sigemptyset(&run.signals);
	sigaddset(&run.signals, SIGCHLD);
	sigaddset(&run.signals, SIGINT);
	sigaddset(&run.signals, SIGQUIT);
	sigaddset(&run.signals, SIGTERM);
	sigaddset(&run.signals, SIGHUP);
	if (make_directory())
		return -1;
	sigprocmask(SIG_BLOCK, &run.signals, &run.old_signals);
	run.signal_descriptor = signalfd(-1, &run.signals, SFD_CLOEXEC | SFD_NONBLOCK);
	run.watch_descriptor = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (run.signal_descriptor < 0 || run.watch_descriptor < 0 ||
	    inotify_add_watch(run.watch_descriptor, run.directory, IN_MOVED_TO) < 0)
		return complain("waiting for processes");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (setenv(CN_TRACE_DIRECTORY_VARIABLE, run.directory, 1) || run_prepare("trace", program, folder))
		return -1;
	return run_preload("trace", folder, "libcenote-trace.so");
}

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
		complain(output_name(output));
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

	if (!trace_read(&trace, run.directory, find_death, !run.all_have_ended))
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

/* End as the program has ended, by the same signal if it was killed by one. */
static int end_like_program(void)
{
	static const struct rlimit no_core;

	if (!run.has_ended)
		return 128 + SIGINT;
	if (WIFEXITED(run.status))
		return WEXITSTATUS(run.status);
	fflush(NULL);
	setrlimit(RLIMIT_CORE, &no_core);
	sigprocmask(SIG_SETMASK, &run.old_signals, NULL);
	signal(WTERMSIG(run.status), SIG_DFL);
	raise(WTERMSIG(run.status));
	return 128 + WTERMSIG(run.status);
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
		return complain(output->path);
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
	status = prepare(arguments[program]) ? EXIT_FAILURE : start(arguments + program);
	if (!status) {
		signal(SIGPIPE, SIG_IGN); /* the file is written even if the message cannot be */
		await_all();
		status = write_trace();
	}
	if (*run.directory)
		remove_directory();
	forget_outputs();
	return status ? status : end_like_program();
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

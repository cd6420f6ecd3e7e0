/* SPDX-License-Identifier: MIT */
/*
 * Running a program with the recorder in front (recording.h).
 */
#include "recording.h"

#include "check.h"
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
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

struct recording recording;

static struct {
	sigset_t signals, old_signals;
	int signal_descriptor, watch_descriptor;
	/* Processes that have made calls; pidfd < 0: it was gone when we looked, or it cannot be watched. */
	struct watched {
		pid_t pid;
		int pidfd;
		uint64_t gone_ns;
	} * watched;
	int watched_count;
} run = {.signal_descriptor = -1, .watch_descriptor = -1};

uint64_t recording_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int recording_complain(const char *what)
{
	fprintf(stderr, "cenote %s: %s: %s\n", recording.command, what, strerror(errno));
	return -1;
}

/* ---- Processes come and go --------------------------------------------------------------------------------------- */

static void watch_process(pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	run.watched = check_grow(run.watched, run.watched_count, sizeof *run.watched);
	run.watched[run.watched_count++] = (struct watched){
		.pid = pid,
		.pidfd = pidfd,
		.gone_ns = pidfd < 0 && errno == ESRCH ? recording_now_ns() : 0,
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
uint64_t recording_death(pid_t pid, const struct cn_trace_header *header)
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
		if (child != recording.program)
			continue;
		recording.has_ended = true;
		recording.status = status;
	}
	recording.all_have_ended = child < 0 && errno == ECHILD;
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
		recording.interrupts++;
		if (signal.ssi_code <= 0 && !recording.has_ended)
			kill(recording.program, (int)signal.ssi_signo);
		else if (recording.has_ended)
			recording.interrupts++;
	}
}

/* Wait until something happens, at most so long. */
static void wait_for_something(int timeout_ms)
{
	struct pollfd *polled = calloc((size_t)run.watched_count + 2, sizeof *polled);

	if (!polled) {
		recording.interrupts = 2;
		return;
	}
	polled[0] = (struct pollfd){.fd = run.signal_descriptor, .events = POLLIN};
	polled[1] = (struct pollfd){.fd = run.watch_descriptor, .events = POLLIN};
	for (int i = 0; i < run.watched_count; i++)
		polled[i + 2] = (struct pollfd){.fd = run.watched[i].pidfd, .events = POLLIN};
	poll(polled, (nfds_t)run.watched_count + 2, timeout_ms);
	for (int i = 0; i < run.watched_count; i++) {
		if (!polled[i + 2].revents)
			continue;
		run.watched[i].gone_ns = recording_now_ns();
		close(run.watched[i].pidfd);
		run.watched[i].pidfd = -1;
	}
	free(polled);
	read_names();
	read_signals();
}

/* Nobody should wonder why the command does not end. True: it was said. */
static bool say_patience(uint64_t *since_ns)
{
	const uint64_t patience_ns = 1000000000;
	uint64_t now = recording_now_ns();

	*since_ns = recording.has_ended ? *since_ns ? *since_ns : now : 0;
	if (!*since_ns || now - *since_ns < patience_ns)
		return false;
	fprintf(stderr, "cenote %s: the program has ended; waiting for its children (Ctrl-C ends the wait)\n",
		recording.command);
	return true;
}

void recording_await(bool (*tick)(void), int tick_ms)
{
	enum { PATIENCE_MS = 1000 };
	uint64_t since_ns = 0;
	bool said = false;

	for (reap(); !recording.all_have_ended && recording.interrupts < 2; reap()) {
		int patience_ms = recording.has_ended && !said ? PATIENCE_MS : -1;
		wait_for_something(tick ? tick_ms : patience_ms);
		said = said || say_patience(&since_ns);
		if (tick && !tick())
			break;
	}
	read_names();
}

bool recording_is_dead(pid_t pid)
{
	bool seen = false;

	for (int i = 0; i < run.watched_count; i++) {
		if (run.watched[i].pid == pid && !run.watched[i].gone_ns)
			return recording.all_have_ended;
		seen |= run.watched[i].pid == pid;
	}
	return seen || recording.all_have_ended;
}

void recording_kill(void)
{
	for (int i = 0; i < run.watched_count; i++)
		if (run.watched[i].pidfd >= 0)
			syscall(SYS_pidfd_send_signal, run.watched[i].pidfd, SIGKILL, NULL, 0);
	if (!recording.has_ended)
		kill(recording.program, SIGKILL);
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
static int start_program(char **arguments)
{
	int report[2], reason = 0;

	if (pipe2(report, O_CLOEXEC))
		return recording_complain("pipe");
	recording.program = fork();
	if (recording.program == 0)
		execute(arguments, report[1]);
	close(report[1]);
	ssize_t length = recording.program < 0 ? 0 : read(report[0], &reason, sizeof reason);
	close(report[0]);
	if (recording.program < 0)
		return recording_complain("fork");
	if (length != sizeof reason)
		return 0;
	waitpid(recording.program, NULL, 0);
	errno = reason;
	recording_complain(arguments[0]);
	return reason == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

static int make_directory(void)
{
	const char *place = getenv("TMPDIR");

	if (snprintf(recording.directory, sizeof recording.directory, "%s/cenote-trace-XXXXXX",
		     place && *place ? place : "/tmp") >= (int)sizeof recording.directory - 32)
		return fprintf(stderr, "cenote %s: TMPDIR is too long\n", recording.command), -1;
	return mkdtemp(recording.directory) ? 0 : recording_complain(recording.directory);
}

void recording_remove(void)
{
	char path[PATH_MAX + NAME_MAX + 2];
	DIR *listing = opendir(recording.directory);

	for (struct dirent *entry; listing && (entry = readdir(listing));) {
		snprintf(path, sizeof path, "%s/%s", recording.directory, entry->d_name);
		if (entry->d_name[0] != '.')
			unlink(path);
	}
	if (listing)
		closedir(listing);
	rmdir(recording.directory);
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
	    inotify_add_watch(run.watch_descriptor, recording.directory, IN_MOVED_TO) < 0)
		return recording_complain("waiting for processes");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (setenv(CN_TRACE_DIRECTORY_VARIABLE, recording.directory, 1) ||
	    run_prepare(recording.command, program, folder))
		return -1;
	return run_preload(recording.command, folder, "libcenote-trace.so");
}

int recording_start(const char *command, char **arguments)
{
	recording.command = command;
	return prepare(arguments[0]) ? EXIT_FAILURE : start_program(arguments);
}

/* ---- The end ----------------------------------------------------------------------------------------------------- */

/* End as the program has ended, by the same signal if it was killed by one. */
int recording_end_like_program(void)
{
	static const struct rlimit no_core;

	if (!recording.has_ended)
		return 128 + SIGINT;
	if (WIFEXITED(recording.status))
		return WEXITSTATUS(recording.status);
	fflush(NULL);
	setrlimit(RLIMIT_CORE, &no_core);
	sigprocmask(SIG_SETMASK, &run.old_signals, NULL);
	signal(WTERMSIG(recording.status), SIG_DFL);
	raise(WTERMSIG(recording.status));
	return 128 + WTERMSIG(recording.status);
}

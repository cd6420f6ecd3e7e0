/* SPDX-License-Identifier: MIT */
/*
 * cenote cc: the programs that it runs, and the files that it leaves in between.
 *
 * Temporary files are in a folder of their own. A signal that ends us is handed to the program that runs; after that we
 * remove the folder with all that is in it, and die by the same signal. So the handler does nothing but that: the rest
 * happens where no signal interrupts. (clang writes beside its output, under another name, and does not always remove
 * that when a signal ends it.)
 */
#include "cc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIGNALLED = 128, REMOVES_MAX = 16 };

/* ---- Words ------------------------------------------------------------------------------------------------------- */

/* The command ends: there is nothing to undo but the temporary files. */
static void *must_have(void *memory)
{
	if (memory)
		return memory;
	fputs("cenote cc: out of memory\n", stderr);
	cc_clean_up();
	exit(EXIT_FAILURE);
}

void *words_memory(void *old, size_t bytes)
{
	return must_have(realloc(old, bytes));
}

void words_add(struct words *words, const char *word)
{
	if (words->count + 2 > words->room) {
		words->room = words->room ? 2 * words->room : 32;
		words->at = words_memory(words->at, words->room * sizeof *words->at);
	}
	words->at[words->count++] = word;
	words->at[words->count] = NULL;
}

void words_add_all(struct words *words, const struct words *more)
{
	for (size_t i = 0; i < more->count; i++)
		words_add(words, more->at[i]);
}

const char *words_format(const char *format, ...)
{
	va_list arguments;
	char *made;

	va_start(arguments, format);
	if (vasprintf(&made, format, arguments) < 0)
		made = NULL;
	va_end(arguments);
	return must_have(made);
}

/* ---- Signals ----------------------------------------------------------------------------------------------------- */

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
enum { SIGNAL_COUNT = sizeof signals / sizeof signals[0] };

static volatile sig_atomic_t caught, running; /* a signal; a process */

static void on_signal(int number)
{
	caught = number;
	if (running)
		kill(running, number);
}

static void catch_signals(void)
{
	static bool done;
	struct sigaction action = {.sa_handler = on_signal}, old;

	for (int i = 0; i < SIGNAL_COUNT && !done; i++)
		/* What the caller ignores, as nohup does, stays ignored. */
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &action, NULL);
	done = true;
}

static void block_signals(sigset_t *ret_old)
{
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < SIGNAL_COUNT; i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, ret_old);
}

/* ---- Temporary files --------------------------------------------------------------------------------------------- */

static char folder[PATH_MAX];
static size_t file_count; /* that were named */

const char *cc_temporary(const char *source, const char *ending)
{
	const char *base = strrchr(source, '/'), *parent = getenv("TMPDIR");
	sigset_t old;

	catch_signals();
	if (!*folder) {
		char name[PATH_MAX];
		int bytes = snprintf(name, sizeof name, "%s/cenote-cc-XXXXXX", parent && *parent ? parent : "/tmp");
		block_signals(&old);
		bool made = bytes < (int)sizeof name && mkdtemp(name);
		if (made)
			memcpy(folder, name, sizeof name);
		sigprocmask(SIG_SETMASK, &old, NULL);
		if (!made) {
			fprintf(stderr, "cenote cc: no temporary folder %s: %s\n", name, strerror(errno));
			return NULL;
		}
	}
	base = base ? base + 1 : source;
	/* Two sources in different folders may have one name. */
	return words_format("%s/%zu-%s.%s", folder, file_count++, base, ending);
}

static void remove_files(void)
{
	DIR *entries = opendir(folder);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		(void)unlinkat(dirfd(entries), entry->d_name, 0); /* not itself, nor its parent: those are folders */
	if (entries)
		closedir(entries);
}

void cc_clean_up(void)
{
	/* A process that the compiler started may still be writing, for a moment. */
	for (int i = 0; *folder && i < REMOVES_MAX; i++) {
		remove_files();
		if (!rmdir(folder) || errno != ENOTEMPTY)
			break;
	}
	*folder = 0;
	if (caught) {
		signal(caught, SIG_DFL);
		raise(caught);
	}
}

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

/* As a shell reads it. */
static void print_word(const char *word)
{
	if (*word && !word[strcspn(word, " \t\n\"'\\$`&|;<>()*?[]{}~#!")]) {
		fputs(word, stderr);
		return;
	}
	fputc('\'', stderr);
	for (; *word; word++)
		*word == '\'' ? fputs("'\\''", stderr) : fputc(*word, stderr);
	fputc('\'', stderr);
}

static void print_command(const struct words *command)
{
	for (size_t i = 0; i < command->count; i++) {
		if (i)
			fputc(' ', stderr);
		print_word(command->at[i]);
	}
	fputc('\n', stderr);
}

/* Start a program with its output at `output`, if that is a descriptor; 0 and errno: it cannot be started. */
static pid_t start(const struct words *command, int output)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t old;
	pid_t child = 0;

	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	if (output >= 0)
		posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	block_signals(&old);
	posix_spawnattr_setsigmask(&attributes, &old);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	int error = posix_spawnp(&child, command->at[0], &actions, &attributes, (char **)command->at, environ);
	running = error ? 0 : child;
	sigprocmask(SIG_SETMASK, &old, NULL);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	errno = error;
	return error ? 0 : child;
}

/* The exit status of the program that runs. */
static int finish(pid_t child)
{
	siginfo_t ended;
	int status = 0;

	/* Until waitpid() the number is the child's: a signal must not be handed to another process that gets it. */
	while (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	running = 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (caught)
		return SIGNALLED + caught;
	return WIFEXITED(status) ? WEXITSTATUS(status) : SIGNALLED + WTERMSIG(status);
}

int cc_step(const struct cc_request *request, const struct words *command)
{
	if (request->is_dry || request->is_verbose)
		print_command(command);
	if (request->is_dry)
		return 0;
	catch_signals();
	if (caught)
		return SIGNALLED + caught;
	pid_t child = start(command, -1);
	if (child)
		return finish(child);
	fprintf(stderr, "cenote cc: %s: %s\n", command->at[0], strerror(errno));
	return EXIT_FAILURE;
}

bool cc_ask(const struct words *command, char *ret_text, size_t bytes)
{
	size_t got = 0;
	ssize_t part;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return false;
	pid_t child = start(command, ends[1]);
	close(ends[1]);
	while (child && got < bytes - 1 && (part = read(ends[0], ret_text + got, bytes - 1 - got)) > 0)
		got += (size_t)part;
	close(ends[0]);
	ret_text[got] = 0;
	return child && !finish(child);
}

/* SPDX-License-Identifier: MIT */
/*
 * cenote demo: starts the exporter and the importer, collects what they did, kills the importer when asked to, and
 * draws the result.
 *
 * This process itself uses no device: it forks the two processes that do.
 */
#include "demo.h"
#include "command.h"

#include <cenote/cenote.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000, SILENT_MS = 1000 };

const char *const demo_names[WHO_COUNT] = {[EXPORTER] = "exporter", [IMPORTER] = "importer"};
const char *const demo_chapters[CHAPTER_COUNT] = {
	[CHAPTER_POOL] = "A pool is shared once",
	[CHAPTER_ORDER] = "A block travels there and back, ordered by two streams",
	[CHAPTER_EARLY] = "The exporter frees a block too early: the reader keeps it",
	[CHAPTER_KILLED] = "The reader is killed: its memory comes back",
};

/* ---- What the drawings need ---- */

int demo_arrow_start(const struct demo *demo, enum arrow arrow)
{
	for (int i = 0; i < demo->moment_count; i++)
		if (demo->moments[i].sends == arrow)
			return i;
	return -1;
}

int demo_arrow_end(const struct demo *demo, enum arrow arrow)
{
	for (int i = 0; i < demo->moment_count; i++)
		if (demo->moments[i].receives == arrow)
			return i;
	return -1;
}

int demo_wrap(const char *text, int columns)
{
	int length = (int)strlen(text);

	if (length <= columns)
		return length;
	for (int i = columns; i > 0; i--)
		if (text[i] == ' ')
			return i;
	return columns;
}

void demo_print_json(const struct demo *demo)
{
	static const char *const tones[] = {
		[TONE_PLAIN] = "plain", [TONE_CAUTION] = "caution", [TONE_GOOD] = "good", [TONE_KILLED] = "killed"};

	fputs("{\n  \"device\": ", stdout);
	print_json_string(demo->device);
	printf(",\n  \"exporter\": %d,\n  \"importer\": %d,\n  \"moments\": [", demo->pid[EXPORTER],
	       demo->pid[IMPORTER]);
	for (int i = 0; i < demo->moment_count; i++) {
		const struct moment *moment = &demo->moments[i];
		printf("%s\n    {\"time_ns\": %lld, \"chapter\": %d, \"who\": \"%s\", \"stream\": %s, "
		       "\"tone\": \"%s\", "
		       "\"sends\": %d, \"receives\": %d, \"text\": ",
		       i ? "," : "", (long long)moment->time_ns, (int)moment->chapter + 1, demo_names[moment->who],
		       moment->in_stream ? "true" : "false", tones[moment->tone], (int)moment->sends,
		       (int)moment->receives);
		print_json_string(moment->text);
		putchar('}');
	}
	puts("\n  ]\n}");
}

/* ---- Starting, listening, ending ---- */

static pid_t start(enum who who, const int record[2], const int socks[2])
{
	pid_t parent = getpid(), child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	signal(SIGPIPE, SIG_IGN);
	close(record[0]);
	close(socks[who == EXPORTER ? 1 : 0]);
	if (who == EXPORTER)
		demo_exporter(record[1], socks[0]);
	else
		demo_importer(record[1], socks[1]);
}

/* As the out-of-memory killer or a user would do. */
static struct moment kill_importer(const struct demo *demo)
{
	struct moment moment = {.who = IMPORTER, .chapter = CHAPTER_KILLED, .tone = TONE_KILLED, .hold = HOLD_NONE};
	int status = 0;

	moment.time_ns = demo_now_ns(); /* its consequences must not seem to come before it */
	kill(demo->pid[IMPORTER], SIGKILL);
	if (waitpid(demo->pid[IMPORTER], &status, 0) == demo->pid[IMPORTER] && WIFSIGNALED(status))
		snprintf(moment.text, sizeof moment.text, "is killed (signal %d), holding C", WTERMSIG(status));
	return moment;
}

/* Keep a moment that was reported. False: too many. */
static bool hear(struct demo *demo, const struct moment *told)
{
	if (told->who == WHO_COUNT) {
		memcpy(demo->device, told->text, sizeof demo->device);
		return true;
	}
	if (demo->moment_count == MOMENTS_MAX)
		return false;
	demo->moments[demo->moment_count++] = told->kill ? kill_importer(demo) : *told;
	return true;
}

static bool complain(const char *what)
{
	fprintf(stderr, "cenote demo: %s\n", what);
	return false;
}

/* Until both have ended. */
static bool listen_to(struct demo *demo, int record)
{
	struct pollfd poll_for = {.fd = record, .events = POLLIN};
	struct moment told;
	bool waits = isatty(STDERR_FILENO);
	int waited_ms = 0;

	for (;;) {
		int ready = poll(&poll_for, 1, SILENT_MS);
		if (ready < 0 && errno == EINTR)
			continue;
		if (!ready && (waited_ms += SILENT_MS) < PATIENCE_MS) {
			if (waits)
				fprintf(stderr, "\r%d moments in %d s ...\r", demo->moment_count, waited_ms / 1000);
			continue;
		}
		if (!ready)
			return complain("nothing has happened for a minute");
		ssize_t bytes = read(record, &told, sizeof told);
		if (bytes == 0)
			return true;
		if (bytes != sizeof told || !hear(demo, &told))
			return complain("what was told makes no sense");
	}
}

static int compare_moments(const void *left, const void *right)
{
	int64_t one = ((const struct moment *)left)->time_ns, other = ((const struct moment *)right)->time_ns;

	return one < other ? -1 : one > other;
}

/* Wait for both, or kill them. True: both ended as expected. */
static bool end(struct demo *demo, bool heard)
{
	int status = 0;

	for (int i = 0; i < WHO_COUNT && !heard; i++)
		kill(demo->pid[i], SIGKILL);
	while (waitpid(demo->pid[EXPORTER], &status, 0) < 0 && errno == EINTR)
		;
	if (heard && WIFSIGNALED(status))
		complain("the exporter has been killed");
	heard = heard && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
	if (!heard) { /* else it was killed and waited for */
		kill(demo->pid[IMPORTER], SIGKILL);
		waitpid(demo->pid[IMPORTER], NULL, 0);
		return false;
	}
	qsort(demo->moments, (size_t)demo->moment_count, sizeof *demo->moments, compare_moments);
	for (int i = demo->moment_count - 1; i >= 0; i--)
		demo->moments[i].time_ns -= demo->moments[0].time_ns;
	return true;
}

static bool perform(struct demo *demo)
{
	int record[2], socks[2];

	if (pipe(record) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks)) {
		perror("cenote demo");
		return false;
	}
	fflush(NULL); /* or the children would have it, too */
	for (enum who who = EXPORTER; who < WHO_COUNT; who++) {
		demo->pid[who] = start(who, record, socks);
		if (demo->pid[who] < 0) {
			perror("cenote demo");
			if (who == IMPORTER)
				kill(demo->pid[EXPORTER], SIGKILL);
			return false;
		}
	}
	close(record[1]);
	close(socks[0]);
	close(socks[1]);
	bool heard = listen_to(demo, record[0]);
	close(record[0]);
	return end(demo, heard);
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

/* "3,4" */
static bool read_parts(const char *text, bool ret_shown[CHAPTER_COUNT])
{
	for (;; text += 2) {
		if (*text < '1' || *text >= '1' + CHAPTER_COUNT)
			return false;
		ret_shown[*text - '1'] = true;
		if (text[1] != ',')
			return !text[1];
	}
}

/* Leave out the moments of other parts. What a process holds from before is not drawn either. */
static void leave_out(struct demo *demo, const bool shown[CHAPTER_COUNT])
{
	int count = 0;

	for (int i = 0; i < demo->moment_count; i++)
		if (shown[demo->moments[i].chapter])
			demo->moments[count++] = demo->moments[i];
	demo->moment_count = count;
}

static int demo(int argument_count, char **arguments)
{
	static struct demo result; /* it is large */
	bool json = false, utf8 = output_is_utf8(), shown[CHAPTER_COUNT] = {false};
	const char *svg = NULL, *parts = NULL;

	for (int i = 1; i < argument_count; i++) {
		if (strcmp(arguments[i], "--json") == 0)
			json = true;
		else if (strcmp(arguments[i], "--ascii") == 0)
			utf8 = false;
		else if (strncmp(arguments[i], "--svg=", 6) == 0)
			svg = arguments[i] + 6;
		else if (strcmp(arguments[i], "--svg") == 0)
			svg = i + 1 < argument_count ? arguments[++i] : "";
		else if (strncmp(arguments[i], "--parts=", 8) == 0)
			parts = arguments[i] + 8;
		else if (strcmp(arguments[i], "--parts") == 0)
			parts = i + 1 < argument_count ? arguments[++i] : "";
		else
			return refuse_word("demo", arguments[i]);
	}
	if (svg && !*svg)
		return usage_error("demo", "--svg takes the name of a file, or - for standard output");
	if (svg && json)
		return usage_error("demo", "--json and --svg exclude each other");
	if (parts && !read_parts(parts, shown))
		return usage_error("demo", "--parts takes numbers from 1 to 4, with commas between them");
	if (!perform(&result))
		return EXIT_FAILURE;
	if (parts)
		leave_out(&result, shown);
	if (svg)
		return demo_write_svg(&result, svg) ? EXIT_SUCCESS : EXIT_FAILURE;
	if (json)
		demo_print_json(&result);
	else
		demo_print_text(&result, utf8);
	return EXIT_SUCCESS;
}

const struct command command_demo = {
	.name = "demo",
	.summary = "run two processes that share memory, and draw what they do",
	.help = "Usage: cenote demo [--parts N,N] [--ascii | --json | --svg FILE]\n"
		"\n"
		"Starts two processes that share a memory pool, and draws what each did, and when:\n"
		"  1. the exporter sends a pool;\n"
		"  2. it fills a block, the importer reads it; events order their streams;\n"
		"  3. the exporter frees a block too early: it is not reused until the importer is done;\n"
		"  4. the importer is killed: its memory comes back.\n"
		"It takes less than a second on the host device.\n"
		"\n"
		"Each process has a column; time runs downwards, in milliseconds. An arrow is a message between\n"
		"them; a broken arrow is an event that one stream records and the other waits for. Everything shown\n"
		"happened in this run, at the time shown.\n"
		"\n"
		"Options:\n"
		"  --parts N,N  show these parts only, such as 3,4\n"
		"  --ascii      draw with plain characters; the default where the locale has no others\n"
		"  --json       print the moments for a program\n"
		"  --svg FILE   write a picture to FILE; - is standard output\n"
		"\n"
		"Exit status: 1 if memory cannot be shared here, or something is wrong; a sentence says what.\n"
		"`cenote info` says what is missing.\n",
	.run = demo,
};

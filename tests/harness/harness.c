/* SPDX-License-Identifier: MIT */
/*
 * The harness's main(): runs each test in a child process, watches it, reports in TAP.
 *
 * The parent always has one thread and never calls the library, so that each child starts from a clean process. It is
 * the "subreaper" of its tests: a process that a test leaves behind becomes its own child, and is seen.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"

#define TIMEOUT_DEFAULT_MS 30000
#define OUTPUT_BYTES_MAX   (256 * 1024)
#define EXIT_FAILED        1

struct outcome *harness_outcome;

static struct harness_test *tests, **tests_end = &tests;
static struct harness_role *roles;
static char directory[256];
static uint64_t seed;
static unsigned soak_seconds;
static uint64_t test_started_ms;
static volatile sig_atomic_t running_group; /* process group of the running test, 0 when none */

/* The output of a test: its last OUTPUT_BYTES_MAX bytes. */
struct output {
	char *bytes;
	size_t size_bytes;
	bool cut;
};

struct options {
	bool list, verbose, debug;
	char **names;
	int name_count;
};

void harness_add_test(struct harness_test *test)
{
	*tests_end = test;
	tests_end = &test->next;
}

void harness_add_role(struct harness_role *role)
{
	role->next = roles;
	roles = role;
}

__attribute__((weak)) void harness_setup(void)
{
}

bool test_on_gpu(void)
{
	const char *device = getenv("CENOTE_DEVICE");

	return device && strcmp(device, "cuda") == 0;
}

bool test_has_gpu(void)
{
	const char *library = getenv("CENOTE_TEST_LIBCUDA");

	return test_on_gpu() && !(library && *library);
}

const char *test_directory(void)
{
	return directory;
}

const char *test_path(const char *name)
{
	static char paths[4][512];
	static atomic_uint next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof paths[0], "%s/%s", directory, name);
	return path;
}

uint64_t test_seed(void)
{
	return seed;
}

bool soak_goes_on(unsigned long round, unsigned long rounds)
{
	if (soak_seconds)
		return monotonic_ms() - test_started_ms < soak_seconds * UINT64_C(1000);
	return round < rounds;
}

void harness_skip(const char *format, ...)
{
	va_list arguments;

	if (!harness_outcome)
		FAIL("a role cannot skip");
	va_start(arguments, format);
	vsnprintf(harness_outcome->skip_reason, sizeof harness_outcome->skip_reason, format, arguments);
	va_end(arguments);
	harness_outcome->state = OUTCOME_SKIPPED;
	_exit(0);
}

/* Keep the tail of what a test prints. Returns false at the end of the pipe. */
static bool output_read(struct output *output, int pipe)
{
	char block[8192];
	ssize_t got = read(pipe, block, sizeof block);

	if (got == -1)
		return errno == EINTR;
	if (got == 0)
		return false;
	if (output->size_bytes + (size_t)got > OUTPUT_BYTES_MAX) {
		size_t drop = output->size_bytes + (size_t)got - OUTPUT_BYTES_MAX;

		memmove(output->bytes, output->bytes + drop, output->size_bytes - drop);
		output->size_bytes -= drop;
		output->cut = true;
	}
	memcpy(output->bytes + output->size_bytes, block, (size_t)got);
	output->size_bytes += (size_t)got;
	return true;
}

/* As TAP comments, so that a line of the test's own is never taken for a result. */
static void output_print(const struct output *output)
{
	bool at_line_start = true;

	if (output->cut)
		printf("# [the beginning is left out]\n");
	for (size_t i = 0; i < output->size_bytes; i++) {
		if (at_line_start)
			fputs("# ", stdout);
		putchar(output->bytes[i]);
		at_line_start = output->bytes[i] == '\n';
	}
	if (!at_line_start)
		putchar('\n');
}

static void prepare_directory(void)
{
	const char *parent = getenv("TMPDIR");
	char path[sizeof directory + 16];

	snprintf(directory, sizeof directory, "%s/cenote-test-XXXXXX", parent && *parent ? parent : "/tmp");
	if (!mkdtemp(directory)) {
		fprintf(stderr, "cannot create %s: %m\n", directory);
		exit(EXIT_FAILED);
	}
	snprintf(path, sizeof path, "%s/runtime", directory);
	if (mkdir(path, 0700)) {
		fprintf(stderr, "cannot create %s: %m\n", path);
		exit(EXIT_FAILED);
	}
	setenv("CENOTE_TEST_DIRECTORY", directory, 1);
	setenv("CENOTE_RUNTIME_DIR", path, 1);
}

/* In the test's process: the body between two leak counts. */
_Noreturn static void run_body(const struct harness_test *test)
{
	test_started_ms = monotonic_ms();
	harness_outcome->watched = LEAK_DEFAULT;
	harness_setup();
	leaks_begin();
	test->body();
	if (peers_forgotten() || leaks_found())
		_exit(EXIT_FAILED);
	harness_outcome->state = OUTCOME_PASSED;
	exit(0);
}

_Noreturn static void become_test(const struct harness_test *test, int output, pid_t parent)
{
	struct rlimit no_core = {0, 0};
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILED);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	setrlimit(RLIMIT_CORE, &no_core);
	dup2(null, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	close(null);
	close(output);
	run_body(test);
}

/* The children this process has now, the test's orphans among them. */
static size_t children(pid_t *ret_pids, size_t limit)
{
	char path[64];
	size_t count = 0;
	int pid;

	snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	while (count < limit && fscanf(file, "%d", &pid) == 1)
		ret_pids[count++] = pid;
	fclose(file);
	return count;
}

static void print_process(pid_t pid)
{
	char path[64], line[256];
	ssize_t size = 0;

	snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd != -1) {
		size = read(fd, line, sizeof line);
		close(fd);
	}
	for (ssize_t i = 0; i < size; i++) {
		if (line[i] == '\0')
			line[i] = i + 1 < size ? ' ' : '\0';
	}
	printf("# left behind: process %d, %.*s\n", (int)pid, size > 0 ? (int)size : 7, size > 0 ? line : "unknown");
}

/* Kill and reap all processes that the test has left running; true if there were any. */
static bool processes_left(pid_t group, bool report)
{
	bool found = false;
	pid_t reaped;

	for (;;) {
		pid_t pids[64];

		while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0)
			continue;
		if (reaped == -1)
			return found;

		size_t count = children(pids, sizeof pids / sizeof *pids);
		for (size_t i = 0; i < count; i++) {
			if (report)
				print_process(pids[i]);
			kill(pids[i], SIGKILL);
		}
		kill(-group, SIGKILL);
		found = true;
		waitpid(-1, NULL, 0);
	}
}

/* Collect the test's output until it has ended. Returns false when it ran out of time first. */
static bool watch(pid_t pid, int pipe, uint64_t deadline_ms, struct output *output)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd poll_set[] = {{.fd = process, .events = POLLIN}, {.fd = pipe, .events = POLLIN}};
	bool ended = false;

	while (!ended) {
		uint64_t now_ms = monotonic_ms();

		if (now_ms >= deadline_ms)
			break;
		if (poll(poll_set, 2, (int)(deadline_ms - now_ms)) == -1)
			continue;
		if (poll_set[1].revents && !output_read(output, pipe))
			poll_set[1].fd = -1;
		ended = poll_set[0].revents != 0;
	}
	close(process);
	if (!ended)
		kill(-pid, SIGKILL);
	fcntl(pipe, F_SETFL, O_NONBLOCK);
	while (output_read(output, pipe))
		continue;
	return ended;
}

/* Say in one line how a test that did not pass ended; NULL when it passed. */
static const char *verdict(const struct harness_test *test, bool ended, int status)
{
	static char text[256];

	if (!ended)
		snprintf(text, sizeof text, "its time of %u ms was over",
			 (test->timeout_ms ? test->timeout_ms : TIMEOUT_DEFAULT_MS) * HARNESS_SLOWDOWN);
	else if (WIFSIGNALED(status))
		snprintf(text, sizeof text, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		snprintf(text, sizeof text, "exit status %d", WEXITSTATUS(status));
	else if (harness_outcome->state == OUTCOME_UNFINISHED)
		snprintf(text, sizeof text, "the process ended before the test did");
	else
		return NULL;
	return text;
}

/* Run one test; print its TAP line and, when it failed, all that is known about it. */
static bool run_test(const struct harness_test *test, unsigned number, const struct options *options)
{
	struct output output = {.bytes = malloc(OUTPUT_BYTES_MAX)};
	uint64_t timeout_ms =
		(test->timeout_ms ? test->timeout_ms : TIMEOUT_DEFAULT_MS) * UINT64_C(1) * HARNESS_SLOWDOWN;
	pid_t self = getpid();
	int pipe_ends[2], status = 0;

	prepare_directory();
	memset(harness_outcome, 0, sizeof *harness_outcome);
	if (!output.bytes || pipe2(pipe_ends, O_CLOEXEC)) {
		fprintf(stderr, "cannot start a test: %m\n");
		exit(EXIT_FAILED);
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		free(output.bytes);
		close(pipe_ends[0]);
		become_test(test, pipe_ends[1], self);
	}
	if (pid == -1) {
		fprintf(stderr, "cannot fork: %m\n");
		exit(EXIT_FAILED);
	}
	setpgid(pid, pid);
	running_group = pid;
	close(pipe_ends[1]);
	bool ended = watch(pid, pipe_ends[0], monotonic_ms() + timeout_ms + soak_seconds * UINT64_C(1000), &output);
	waitpid(pid, &status, 0);

	const char *reason = verdict(test, ended, status);
	bool skipped = !reason && harness_outcome->state == OUTCOME_SKIPPED;
	bool report = ended && !skipped && harness_outcome->watched & LEAK_PROCESSES;
	if (processes_left(pid, report) && report && !reason)
		reason = "it left processes behind";
	running_group = 0;
	if (!reason && !skipped && harness_outcome->watched & LEAK_FILES &&
	    leaks_files_found(getenv("CENOTE_RUNTIME_DIR"), harness_outcome->forgiven_names))
		reason = "it left files behind";

	if (reason || options->verbose)
		output_print(&output);
	if (reason) {
		printf("# %s:%d: %s: %s\n", test->file, test->line, test->name, reason);
		printf("# to repeat: CENOTE_TEST_SEED=%#jx\n", (uintmax_t)seed);
	}
	printf("%s %u - %s%s%s\n", reason ? "not ok" : "ok", number, test->name, skipped ? " # SKIP " : "",
	       skipped ? harness_outcome->skip_reason : "");
	fflush(stdout);
	close(pipe_ends[0]);
	free(output.bytes);
	remove_tree(directory);
	return !reason;
}

/* Run as a peer of a test: the channel is on its descriptor, the name and arguments are on the command line. */
static int run_role(int argc, char **argv)
{
	const char *inherited = getenv("CENOTE_TEST_DIRECTORY");

	snprintf(directory, sizeof directory, "%s", inherited ? inherited : "");
	for (const struct harness_role *role = roles; role; role = role->next) {
		if (strcmp(role->name, argv[0]) != 0)
			continue;
		struct peer *parent = peer_from_channel();
		harness_setup();
		leaks_begin();
		role->body(parent, argc - 1, argv + 1);
		bool bad = peers_forgotten() || leaks_found();
		free(parent);
		close(PEER_CHANNEL_FD);
		return bad ? EXIT_FAILED : 0;
	}
	fprintf(stderr, "no such role: %s\n", argv[0]);
	return EXIT_FAILED;
}

static bool selected(const struct harness_test *test, const struct options *options)
{
	for (int i = 0; i < options->name_count; i++) {
		if (!strcmp(options->names[i], test->name))
			return true;
	}
	return !options->name_count && !test->hidden && (!soak_seconds || test->soak);
}

static void stop(int signal_number)
{
	if (running_group)
		kill(-(pid_t)running_group, SIGKILL);
	_exit(128 + signal_number);
}

static void prepare_environment(void)
{
	static const char *const removed[] = {"CENOTE_DEVICE",      "CENOTE_FABRIC_DIR",   "CENOTE_HOST_DEVICES",
					      "CENOTE_HOST_MEMORY", "CENOTE_HOST_WITHOUT", "CENOTE_IMEX_DIR",
					      "CENOTE_LIBCUDA",     "CENOTE_LOG",          "CENOTE_POOLS",
					      "CENOTE_RUNTIME_DIR", "CUDA_VISIBLE_DEVICES"};
	const char *device = getenv("CENOTE_TEST_DEVICE"), *soak = getenv("CENOTE_SOAK_SECONDS");
	const char *seed_text = getenv("CENOTE_TEST_SEED"), *library = getenv("CENOTE_TEST_LIBCUDA");
	char text[32];

	for (size_t i = 0; i < sizeof removed / sizeof *removed; i++)
		unsetenv(removed[i]);
	setenv("CENOTE_DEVICE", device && *device ? device : "host", 1);
	if (library && *library)
		setenv("CENOTE_LIBCUDA", library, 1);
	soak_seconds = soak ? (unsigned)strtoul(soak, NULL, 10) : 0;
	if (seed_text && *seed_text)
		seed = strtoull(seed_text, NULL, 0);
	else if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
		seed = monotonic_ms();
	snprintf(text, sizeof text, "%#jx", (uintmax_t)seed);
	setenv("CENOTE_TEST_SEED", text, 1);
}

static int run_all(const struct options *options)
{
	unsigned count = 0, number = 0, failed = 0;

	for (const struct harness_test *test = tests; test; test = test->next)
		count += selected(test, options);
	if (options->name_count && count != (unsigned)options->name_count) {
		fprintf(stderr, "no test has one of these names; --list shows them\n");
		return EXIT_FAILED;
	}
	printf("TAP version 13\n1..%u%s\n", count, count ? "" : " # SKIP no test here is for this kind of run");
	for (const struct harness_test *test = tests; test; test = test->next) {
		if (selected(test, options))
			failed += !run_test(test, ++number, options);
	}
	return failed ? EXIT_FAILED : 0;
}

static int debug_one(const struct options *options)
{
	for (const struct harness_test *test = tests; test; test = test->next) {
		if (options->name_count == 1 && selected(test, options)) {
			prepare_directory();
			run_body(test);
		}
	}
	fprintf(stderr, "--debug wants the name of one test\n");
	return EXIT_FAILED;
}

int main(int argc, char **argv)
{
	struct options options = {0};
	int first = 1;

	/* Before the first output: the C library does not allow a change afterwards. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc >= 3 && !strcmp(argv[1], "--role")) {
		const char *seed_text = getenv("CENOTE_TEST_SEED");

		seed = seed_text ? strtoull(seed_text, NULL, 0) : 0;
		return run_role(argc - 2, argv + 2);
	}
	for (; first < argc && argv[first][0] == '-'; first++) {
		options.list |= !strcmp(argv[first], "--list");
		options.verbose |= !strcmp(argv[first], "--verbose");
		options.debug |= !strcmp(argv[first], "--debug");
	}
	options.names = argv + first;
	options.name_count = argc - first;

	if (options.list) {
		for (const struct harness_test *test = tests; test; test = test->next)
			printf("%s%s%s\n", test->name, test->soak ? " (soak)" : "", test->hidden ? " (hidden)" : "");
		return 0;
	}
	harness_outcome =
		mmap(NULL, sizeof *harness_outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (harness_outcome == MAP_FAILED) {
		perror("mmap");
		return EXIT_FAILED;
	}
	prepare_environment();
	if (options.debug)
		return debug_one(&options);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	signal(SIGHUP, stop);
	return run_all(&options);
}

/* SPDX-License-Identifier: MIT */
/*
 * The questioner: runs each group in a process of its own and prints the answers in the order of the source.
 *
 * A group writes its answers into a page it shares with the questioner, with the name of the question it is about to
 * ask. When the group dies, or makes no progress for CONFORMANCE_TIMEOUT seconds, that question is given the answer
 * `crash …` or `hang` and the group runs again without it. So does a guarded group after a question that spoilt its
 * context (`CUDA_SUCCESS then CUDA_ERROR_ILLEGAL_ADDRESS`). Nothing here calls CUDA before the fork.
 */
#define _GNU_SOURCE
#include "ask.h"

#include "codes.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	GROUP_LIMIT = 128,
	SKIP_LIMIT = 64,
	HANG_LIMIT = 6,
	JOB_LIMIT = 16,
	NAME_BYTES = 128,
	TEXT_BYTES = 512 * 1024,
	EXIT_SPOILT = 42,
	STARTUP_SECONDS = 20,
};

struct page {
	size_t used;
	int64_t progress_ns;
	bool asking;
	char question[NAME_BYTES];
	unsigned skip_count;
	unsigned hang_count;
	struct {
		char question[NAME_BYTES];
		char answer[192];
	} skip[SKIP_LIMIT];
	char text[TEXT_BYTES];
};

struct group {
	const char *name;
	void (*run)(void);
	int line;
	bool alone;
	struct page *page;
	pid_t pid;
	int pidfd;
};

static struct group groups[GROUP_LIMIT];
static size_t group_count;
static struct group *self;
static bool guarded;

_Alignas(4096) char ask_zeros[8192];

static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void give_up(const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", ask_chapter, why, strerror(errno));
	exit(2);
}

void ask_add(const char *name, void (*run)(void), int line, bool alone)
{
	if (group_count == GROUP_LIMIT) {
		fprintf(stderr, "%s: too many groups\n", name);
		exit(2);
	}
	groups[group_count++] = (struct group){.name = name, .run = run, .line = line, .alone = alone, .pidfd = -1};
}

static void write_line(struct page *page, const char *question, const char *answer)
{
	size_t room = TEXT_BYTES - page->used;
	int wrote = snprintf(page->text + page->used, room, "%s.%s = %s\n", ask_chapter, question, answer);
	if (wrote > 0 && (size_t)wrote < room)
		page->used += (size_t)wrote;
}

bool ask_begin(const char *question)
{
	struct page *page = self->page;

	page->progress_ns = now_ns();
	for (unsigned i = 0; i < page->skip_count; i++) {
		if (strcmp(page->skip[i].question, question) == 0) {
			write_line(page, question, page->skip[i].answer);
			return false;
		}
	}
	snprintf(page->question, sizeof page->question, "%s", question);
	page->asking = true;
	return true;
}

static void skip_later(struct page *page, const char *answer)
{
	snprintf(page->skip[page->skip_count].question, NAME_BYTES, "%s", page->question);
	snprintf(page->skip[page->skip_count].answer, sizeof page->skip[0].answer, "%s", answer);
	page->skip_count++;
}

void ask_guard(void)
{
	guarded = true;
}

/* Errors after which a context answers nothing else. */
static bool is_sticky(CUresult result)
{
	int code = (int)result;

	return code == CUDA_ERROR_ILLEGAL_ADDRESS || code == CUDA_ERROR_LAUNCH_TIMEOUT ||
	       (code >= CUDA_ERROR_ASSERT && code <= CUDA_ERROR_LAUNCH_FAILED &&
		code != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED && code != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) ||
	       code == CUDA_ERROR_UNKNOWN;
}

static void finish(const char *answer)
{
	struct page *page = self->page;
	CUresult after = guarded ? cuCtxSynchronize() : CUDA_SUCCESS;

	if (is_sticky(after) && page->skip_count < SKIP_LIMIT) {
		char both[192];
		snprintf(both, sizeof both, "%.120s then %s", answer, ask_driver_code(after));
		skip_later(page, both);
		_exit(EXIT_SPOILT);
	}
	write_line(page, page->question, answer);
	page->asking = false;
	page->progress_ns = now_ns();
}

void ask_end(const char *format, ...)
{
	char answer[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(answer, sizeof answer, format, args);
	va_end(args);
	finish(answer);
}

void ask_end2(const char *code, const char *format, ...)
{
	char answer[1024];
	va_list args;
	int used = snprintf(answer, sizeof answer, "%s ", code);

	va_start(args, format);
	vsnprintf(answer + used, sizeof answer - (size_t)used, format, args);
	va_end(args);
	finish(answer);
}

void ask_need(const char *code, const char *call)
{
	char question[NAME_BYTES];

	if (self->page->used)
		self->page->progress_ns = now_ns();
	if (strcmp(code, "CUDA_SUCCESS") == 0 || strcmp(code, "cudaSuccess") == 0)
		return;
	snprintf(question, sizeof question, "setup_of_%s", self->name);
	write_line(self->page, question, code);
	fprintf(stderr, "%s: group %s ends: %s: %s\n", ask_chapter, self->name, call, code);
	_exit(0);
}

const char *ask_driver_code(CUresult code)
{
	static char unknown[32];

	switch ((int)code) {
#define X(name) \
	case name: return #name;
		DRIVER_CODES(X)
#undef X
	default: snprintf(unknown, sizeof unknown, "CUresult %d", (int)code); return unknown;
	}
}

const char *ask_runtime_code(cudaError_t code)
{
	static char unknown[32];

	switch ((int)code) {
#define X(name) \
	case name: return #name;
		RUNTIME_CODES(X)
#undef X
	default: snprintf(unknown, sizeof unknown, "cudaError_t %d", (int)code); return unknown;
	}
}

const char *ask_name(const char *format, ...)
{
	static char names[16][NAME_BYTES];
	static unsigned next;
	char *name = names[next++ % 16];
	va_list args;

	va_start(args, format);
	vsnprintf(name, NAME_BYTES, format, args);
	va_end(args);
	return name;
}

const char *ask_out(uintptr_t value)
{
	if (!value)
		return "NULL";
	return value == UNTOUCHED(uintptr_t) ? "untouched" : "set";
}

const char *ask_yes(bool truth)
{
	return truth ? "yes" : "no";
}

const char *ask_bytes(const void *bytes, size_t count)
{
	static char texts[4][256];
	static unsigned next;
	char *text = texts[next++ % 4];
	const unsigned char *at = bytes;
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < count && used + 24 < sizeof texts[0];) {
		size_t run = 1;
		while (i + run < count && at[i + run] == at[i])
			run++;
		used += (size_t)snprintf(text + used, sizeof texts[0] - used, run > 1 ? "%s%02x*%zu" : "%s%02x",
					 i ? " " : "", at[i], run);
		i += run;
	}
	return text;
}

const char *ask_device_bytes(CUdeviceptr at, size_t count)
{
	static char failed[96];
	char bytes[4096];

	CUresult result = cuMemcpyDtoH(bytes, at, count < sizeof bytes ? count : sizeof bytes);
	if (result) {
		snprintf(failed, sizeof failed, "unreadable %s", ask_driver_code(result));
		return failed;
	}
	return ask_bytes(bytes, count);
}

CUcontext ask_context(void)
{
	CUcontext context = NULL;
	CUdevice device = 0;

	NEED(cuInit(0));
	NEED(cuDeviceGet(&device, 0));
	NEED(cuCtxCreate(&context, NULL, 0, device));
	return context;
}

/* Wait for a child; unless it ended well, end as it did. */
static void end_like(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	if (WEXITSTATUS(status))
		_exit(WEXITSTATUS(status));
}

void ask_forked(void (*body)(void *), const void *data)
{
	pid_t pid = fork();

	if (pid < 0)
		give_up("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body((void *)(uintptr_t)data);
		_exit(0);
	}
	end_like(pid);
}

struct peer peer_start(void (*body)(struct peer *parent))
{
	struct peer peer = {0}, parent = {0};
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		give_up("socketpair");
	peer.socket = ends[0];
	parent.socket = ends[1];
	peer.pid = fork();
	if (peer.pid < 0)
		give_up("fork");
	if (peer.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(peer.socket);
		body(&parent);
		_exit(0);
	}
	close(parent.socket);
	return peer;
}

void peer_tell(struct peer *peer, int word, int descriptor)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {.iov_base = &word, .iov_len = sizeof word};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (descriptor >= 0) {
		message.msg_control = control;
		message.msg_controllen = sizeof control;
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof descriptor);
		memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
	}
	if (sendmsg(peer->socket, &message, MSG_NOSIGNAL) != (ssize_t)sizeof word) {
		peer_wait(peer);
		_exit(0);
	}
}

int peer_hear(struct peer *peer, int *ret_descriptor)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	int word = 0, descriptor = -1;
	struct iovec part = {.iov_base = &word, .iov_len = sizeof word};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	ssize_t got;

	do
		got = recvmsg(peer->socket, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof word) {
		peer_wait(peer);
		_exit(0);
	}
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
	if (ret_descriptor)
		*ret_descriptor = descriptor;
	else if (descriptor >= 0)
		close(descriptor);
	return word;
}

void peer_wait(struct peer *peer)
{
	close(peer->socket);
	if (peer->pid)
		end_like(peer->pid);
	peer->pid = 0;
	peer->socket = -1;
}

void peer_kill(struct peer *peer)
{
	kill(peer->pid, SIGKILL);
	while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	close(peer->socket);
	peer->pid = 0;
	peer->socket = -1;
}

void ask_threaded(void *(*body)(void *), void *data)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, body, data);
	if (errno)
		give_up("pthread_create");
	pthread_join(thread, NULL);
}

static void *destroy(void *context)
{
	return (void *)(uintptr_t)cuCtxDestroy(context);
}

void ask_destroyed(CUcontext context)
{
	ask_threaded(destroy, context);
}

void ask_in_stream(CUstreamCallback callback, CUhostFn function)
{
	CUstream stream = NULL;

	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	/* The questions are asked in the stream: nothing is said here until that is over. */
	CUresult added =
		callback ? cuStreamAddCallback(stream, callback, NULL, 0) : cuLaunchHostFunc(stream, function, NULL);
	CUresult waited = cuStreamSynchronize(stream);
	NEED(added);
	NEED(waited);
}

struct gate gate_make(void)
{
	struct gate gate = {0};
	void *word = NULL;

	NEED(cuMemHostAlloc(&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	memset(word, 0, 4096);
	gate.word = word;
	NEED(cuMemHostGetDevicePointer(&gate.at, word, 0));
	return gate;
}

void gate_close(struct gate *gate, CUstream stream)
{
	gate->closed++;
	NEED(cuStreamWaitValue32(stream, gate->at, gate->closed, CU_STREAM_WAIT_VALUE_GEQ));
}

void gate_open(struct gate *gate)
{
	__atomic_store_n(gate->word, gate->closed, __ATOMIC_SEQ_CST);
}

static void start(struct group *group)
{
	struct page *page = group->page;

	page->used = 0;
	page->asking = false;
	page->progress_ns = now_ns() + (int64_t)STARTUP_SECONDS * 1000000000;
	fflush(NULL);
	group->pid = fork();
	if (group->pid < 0)
		give_up("fork");
	if (group->pid == 0) {
		struct rlimit no_core = {0, 0};
		setrlimit(RLIMIT_CORE, &no_core);
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(STDERR_FILENO, STDOUT_FILENO);
		self = group;
		group->run();
		if (getenv("CONFORMANCE_COVERAGE")) /* a process that ends so writes its counters */
			exit(0);
		_exit(0);
	}
	setpgid(group->pid, group->pid);
	group->pidfd = (int)syscall(SYS_pidfd_open, group->pid, 0);
	if (group->pidfd < 0)
		give_up("pidfd_open");
}

/* True when the group is over; otherwise it has been started again without the question it died of. */
static bool over(struct group *group, const char *death)
{
	struct page *page = group->page;

	if (!death)
		return true;
	if (strcmp(death, "spoilt") == 0) {
		start(group);
		return false;
	}
	bool hang = strcmp(death, "hang") == 0;
	fprintf(stderr, "%s: group %s: %s%s%s\n", ask_chapter, group->name, death, page->asking ? " at " : "",
		page->asking ? page->question : " outside a question");
	if (!page->asking || page->skip_count == SKIP_LIMIT || (hang && page->hang_count == HANG_LIMIT)) {
		char question[NAME_BYTES];
		if (page->asking)
			write_line(page, page->question, death);
		snprintf(question, sizeof question, "group_%s", group->name);
		write_line(page, question, death);
		return true;
	}
	page->hang_count += hang;
	skip_later(page, death);
	start(group);
	return false;
}

/* How the process ended: NULL when it ended well. */
static const char *reap(struct group *group, bool hung)
{
	static char death[48];
	int status = 0;

	kill(-group->pid, SIGKILL);
	if (hung) {
		struct pollfd ended = {.fd = group->pidfd, .events = POLLIN};
		if (poll(&ended, 1, 10000) <= 0)
			fprintf(stderr, "%s: group %s cannot be killed\n", ask_chapter, group->name);
	}
	waitpid(group->pid, &status, hung ? WNOHANG : 0);
	close(group->pidfd);
	group->pidfd = -1;
	if (hung)
		return "hang";
	if (WIFSIGNALED(status))
		snprintf(death, sizeof death, "crash SIG%s", sigabbrev_np(WTERMSIG(status)));
	else if (WEXITSTATUS(status) == EXIT_SPOILT)
		return "spoilt";
	else if (WEXITSTATUS(status))
		snprintf(death, sizeof death, "crash exit %d", WEXITSTATUS(status));
	else
		return NULL;
	return death;
}

/* Runs the groups that may share the device, or those that may not. */
static void run_all(struct group **all, size_t all_count, bool alone, size_t jobs, int64_t timeout_ns)
{
	struct group *chosen[GROUP_LIMIT];
	size_t count = 0;
	struct group *active[JOB_LIMIT];
	size_t running = 0, next = 0;

	for (size_t i = 0; i < all_count; i++) {
		if (all[i]->alone == alone)
			chosen[count++] = all[i];
	}
	while (running || next < count) {
		while (running < jobs && next < count) {
			start(chosen[next]);
			active[running++] = chosen[next++];
		}
		struct pollfd wait[JOB_LIMIT];
		int64_t soonest = INT64_MAX;
		for (size_t i = 0; i < running; i++) {
			wait[i] = (struct pollfd){.fd = active[i]->pidfd, .events = POLLIN};
			if (active[i]->page->progress_ns + timeout_ns < soonest)
				soonest = active[i]->page->progress_ns + timeout_ns;
		}
		int64_t left_ms = (soonest - now_ns()) / 1000000 + 1;
		if (poll(wait, running, left_ms > 0 ? (int)left_ms : 0) < 0 && errno != EINTR)
			give_up("poll");
		for (size_t i = running; i-- > 0;) {
			bool hung = active[i]->page->progress_ns + timeout_ns < now_ns();
			if (!(wait[i].revents & POLLIN) && !hung)
				continue;
			if (over(active[i], reap(active[i], !(wait[i].revents & POLLIN))))
				active[i] = active[--running];
		}
	}
}

static int by_line(const void *left, const void *right)
{
	return ((const struct group *)left)->line - ((const struct group *)right)->line;
}

static int by_text(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

/* A name asked twice would hide one of its answers. */
static int report(struct group **chosen, size_t count)
{
	static char *names[16384];
	size_t name_count = 0;
	int status = 0;

	for (size_t i = 0; i < count; i++)
		fputs(chosen[i]->page->text, stdout);
	fflush(stdout);
	for (size_t i = 0; i < count; i++) {
		for (char *line = strtok(chosen[i]->page->text, "\n"); line; line = strtok(NULL, "\n")) {
			*strchr(line, ' ') = '\0';
			if (name_count < sizeof names / sizeof names[0])
				names[name_count++] = line;
		}
	}
	qsort(names, name_count, sizeof names[0], by_text);
	for (size_t i = 1; i < name_count; i++) {
		if (strcmp(names[i - 1], names[i]) == 0) {
			fprintf(stderr, "%s is asked twice\n", names[i]);
			status = 2;
		}
	}
	return status;
}

static long setting(const char *name, long usual)
{
	const char *value = getenv(name);
	return value && atol(value) > 0 ? atol(value) : usual;
}

int main(int argc, char **argv)
{
	struct group *chosen[GROUP_LIMIT];
	size_t count = 0;
	long jobs = setting("CONFORMANCE_JOBS", sysconf(_SC_NPROCESSORS_ONLN));

	qsort(groups, group_count, sizeof groups[0], by_line);
	for (size_t i = 0; i < group_count; i++) {
		bool wanted = argc == 1;
		for (int k = 1; k < argc; k++)
			wanted |= strcmp(argv[k], groups[i].name) == 0;
		if (!wanted)
			continue;
		groups[i].page =
			mmap(NULL, sizeof *groups[i].page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (groups[i].page == MAP_FAILED)
			give_up("mmap");
		chosen[count++] = &groups[i];
	}
	if (!count) {
		fprintf(stderr, "%s: no such group\n", ask_chapter);
		return 2;
	}
	int64_t timeout_ns = setting("CONFORMANCE_TIMEOUT", 20) * 1000000000;
	run_all(chosen, count, false, (size_t)(jobs < JOB_LIMIT ? jobs : JOB_LIMIT), timeout_ns);
	run_all(chosen, count, true, 1, timeout_ns);
	return report(chosen, count);
}

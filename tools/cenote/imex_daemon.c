/* SPDX-License-Identifier: MIT */
/*
 * cenote imex start and stop: cenote-imexd in the background, for machines without systemd.
 *
 * The daemon is started with --supervise, in a session of its own, and says that it is ready as it says so to systemd:
 * over a socket of datagrams. What it logs until then is shown if it does not get ready, so a list or a key that cannot
 * be used is told here. To stop it, the process that listens for programs gets SIGTERM: that is the supervising parent,
 * or the daemon itself. Both commands wait with a deadline.
 */
#include "imex.h"

#include "command.h"
#include "survey.h"

#include <cenote/cenote.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM     "cenote-imexd"
#define PROGRAM_UCX PROGRAM "-ucx"

enum { WAIT_MS = 10000, LOG_BYTES = 4096, ARGUMENTS_MAX = 11, NAME_BYTES = 32 };

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A descriptor that is readable when a process has ended; -1: errno. */
static int open_process(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Ask a process to end, and wait for it. False: it has not ended. By the descriptor: another may have its number. */
static bool end_process(int process)
{
	return !syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0) &&
	       poll(&(struct pollfd){.fd = process, .events = POLLIN}, 1, WAIT_MS) == 1;
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

/* The daemon of this name beside this command, or the one in PATH. */
static void find_daemon(const char *name, char ret_path[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", ret_path, PATH_MAX - NAME_BYTES);
	char *slash = NULL;

	if (length > 0) {
		ret_path[length] = 0;
		slash = strrchr(ret_path, '/');
	}
	if (slash)
		snprintf(slash + 1, NAME_BYTES, "%s", name);
	if (!slash || access(ret_path, X_OK))
		snprintf(ret_path, PATH_MAX, "%s", name);
}

/* A socket at which the daemon says that it is ready; its name is in the environment from now on. -1: none. */
static int listen_for_ready(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t bytes = sizeof address;
	char name[sizeof address.sun_path + 1];
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* The system chooses a name of its own, without a file. Any process can send there: see is_ready(). */
	if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) ||
	    bind(sock, (const struct sockaddr *)&address, sizeof address.sun_family) ||
	    getsockname(sock, (struct sockaddr *)&address, &bytes))
		return -1;
	size_t length = bytes - offsetof(struct sockaddr_un, sun_path);
	memcpy(name, address.sun_path, length);
	name[0] = '@';
	name[length] = 0;
	return setenv("NOTIFY_SOCKET", name, 1) ? -1 : sock;
}

static bool is_ucx(const struct imex_request *request)
{
	return request->transport && !strcmp(request->transport, "ucx");
}

static const char *name_of(const struct imex_request *request)
{
	return is_ucx(request) ? PROGRAM_UCX : PROGRAM;
}

static _Noreturn void become_daemon(const struct imex_request *request, int log)
{
	const char *name = name_of(request);
	const char *path_of_socket = getenv("CENOTE_IMEX_SOCKET"), *arguments[ARGUMENTS_MAX] = {name};
	const struct {
		const char *name, *value;
	} options[] = {
		{"--nodes", request->nodes},
		{"--key", request->key},
		{"--node", request->node},
		{"--socket", path_of_socket && *path_of_socket ? path_of_socket : NULL}, /* where programs look */
	};
	int count = 1, null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char path[PATH_MAX];

	arguments[count++] = "--supervise";
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (options[i].value) {
			arguments[count++] = options[i].name;
			arguments[count++] = options[i].value;
		}
	find_daemon(name, path);
	setsid();
	signal(SIGPIPE, SIG_IGN); /* this command will not read the log for ever */
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	execvp(path, (char *const *)(uintptr_t)arguments);
	dprintf(STDERR_FILENO, "%s cannot be executed: %s\n", path, strerror(errno));
	_exit(EXIT_FAILURE);
}

/* Where the daemon's log goes, and where this command reads it: a file, or a pipe that nobody reads after the start. */
static int open_log(const struct imex_request *request, int ret_ends[2])
{
	if (!request->log)
		return pipe2(ret_ends, O_CLOEXEC);
	ret_ends[1] = open(request->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	ret_ends[0] = ret_ends[1] < 0 ? -1 : open(request->log, O_RDONLY | O_CLOEXEC);
	return ret_ends[0] < 0 || lseek(ret_ends[0], 0, SEEK_END) < 0 ? -1 : 0;
}

static void show_log(int log)
{
	char text[LOG_BYTES];
	ssize_t got;

	while (poll(&(struct pollfd){.fd = log, .events = POLLIN}, 1, 0) == 1 &&
	       (got = read(log, text, sizeof text)) > 0)
		fwrite(text, 1, (size_t)got, stderr);
}

/* Has the daemon said so? Other processes are not heard. */
static bool is_ready(int sock, pid_t daemon)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} rights;
	char text[64];
	struct iovec part = {text, sizeof text - 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = rights.bytes, .msg_controllen = sizeof rights.bytes};
	struct ucred who = {.pid = 0};

	ssize_t got = recvmsg(sock, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	text[got > 0 ? got : 0] = 0;
	for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); got > 0 && header;
	     header = CMSG_NXTHDR(&message, header))
		if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS)
			memcpy(&who, CMSG_DATA(header), sizeof who);
	return who.pid == daemon && strstr(text, "READY=1");
}

/* Wait until it is ready. False: it has ended, or it is too late. */
static bool await_ready(int sock, pid_t daemon, int process)
{
	struct pollfd polled[2] = {{.fd = sock, .events = POLLIN}, {.fd = process, .events = POLLIN}};
	int64_t left_ms, end_ms = now_ms() + WAIT_MS;

	while ((left_ms = end_ms - now_ms()) > 0 && poll(polled, 2, (int)left_ms) > 0) {
		if (polled[0].revents && is_ready(sock, daemon))
			return true;
		if (polled[1].revents)
			return false;
	}
	return false;
}

/* The process has been started: wait, and say how it went. */
static int await_start(const char *name, int sock, pid_t daemon, int log)
{
	int process = open_process(daemon);
	bool ready = process >= 0 && await_ready(sock, daemon, process);
	cenote_imex_node self;

	if (ready && !cenote_imex_look(0, &self)) {
		close(process);
		printf("node %u of %u, process %d\n", self.number, self.node_count, daemon);
		return EXIT_SUCCESS;
	}
	if (process < 0 || !end_process(process))
		kill(daemon, SIGKILL); /* the daemon gets SIGTERM when its parent is gone */
	waitpid(daemon, NULL, 0);
	if (process >= 0)
		close(process);
	show_log(log);
	if (ready)
		return imex_fail("%s", cenote_last_error());
	return imex_fail("%s has not begun to serve", name);
}

int imex_start(const struct imex_request *request)
{
	int log[2], pid;

	if (request->transport && !is_ucx(request) && strcmp(request->transport, "tls") != 0)
		return usage_error("imex", "unknown transport '%s': use tls or ucx", request->transport);
	if (is_ucx(request) && request->key)
		return usage_error("imex", "ucx has no key: it is for networks that are trusted");
	if (!request->nodes || (!request->key && !is_ucx(request)))
		return usage_error("imex", "start takes --nodes FILE%s", is_ucx(request) ? "" : " and --key FILE");
	if (!cenote_imex_daemon(&pid))
		return imex_fail(PROGRAM " runs here already: process %d", pid);
	if (open_log(request, log))
		return imex_fail("%s: %s", request->log ? request->log : "a pipe for its log", strerror(errno));
	int sock = listen_for_ready();
	pid_t daemon = sock < 0 ? -1 : fork();
	if (daemon < 0)
		return imex_fail("cannot begin: %s", strerror(errno));
	if (!daemon)
		become_daemon(request, log[1]);
	close(log[1]);
	int status = await_start(name_of(request), sock, daemon, log[0]);
	close(log[0]);
	close(sock);
	return status;
}

/* ---- stop -------------------------------------------------------------------------------------------------------- */

/* The service that it is: systemd would start it again. NULL: none. */
static const char *find_service(int pid)
{
	char path[64], line[PATH_MAX] = "";
	const char *found = NULL;

	snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
	FILE *file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof line, file))
		found = strstr(line, "/" PROGRAM ".service")       ? PROGRAM
			: strstr(line, "/" PROGRAM_UCX ".service") ? PROGRAM_UCX
								   : NULL;
	if (file)
		fclose(file);
	return found;
}

/* The descriptor of the process that is to end; -1: a sentence was printed. */
static int find_process(int *ret_pid)
{
	struct identity identity;

	if (cenote_imex_daemon(ret_pid)) {
		imex_fail("%s", cenote_last_error());
		return -1;
	}
	if (!*ret_pid) {
		imex_fail("its process cannot be seen from this PID namespace");
		return -1;
	}
	int process = open_process(*ret_pid);
	if (process < 0) {
		imex_fail("process %d cannot be watched: %s", *ret_pid, strerror(errno));
		return -1;
	}
	find_identity(*ret_pid, &identity); /* after the descriptor is there: this process, not a later one */
	const char *service = find_service(*ret_pid);
	if (!strncmp(identity.program, PROGRAM, strlen(PROGRAM)) && !service)
		return process;
	imex_fail("process %d is a service of a manager: systemctl stop %s", *ret_pid, service ? service : PROGRAM);
	close(process);
	return -1;
}

int imex_stop(const struct imex_request *request)
{
	int pid, process = find_process(&pid);

	(void)request;
	if (process < 0)
		return EXIT_FAILURE;
	errno = 0;
	bool ended = end_process(process);
	int error = errno;
	close(process);
	if (!ended && error)
		return imex_fail("process %d cannot be asked to end: %s", pid, strerror(error));
	if (!ended)
		return imex_fail("process %d has not ended within %d seconds", pid, WAIT_MS / 1000);
	printf("stopped process %d\n", pid);
	return EXIT_SUCCESS;
}

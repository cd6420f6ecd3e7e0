/* SPDX-License-Identifier: MIT */
/*
 * What the examples share: an exporter that starts an importer, a socket between the two, and a log of what each does,
 * printed side by side, with the time on the left. Plain sockets and CUDA's runtime API, or with DRIVER_API its driver
 * API; nothing else.
 */
#ifndef TWO_PROCESSES_H
#define TWO_PROCESSES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifdef DRIVER_API
#include <cuda.h>
#else
#include <cuda_runtime_api.h>
#endif

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COLUMN = 58 };

static struct {
	int is_importer;
	long long start_ns; /* the same in both */
} me;

/* ---- The log: the exporter on the left, the importer on the right ---- */

static inline long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* Colours are for a terminal. */
static inline const char *colour(const char *sequence)
{
	return isatty(STDOUT_FILENO) && !getenv("NO_COLOR") ? sequence : "";
}

/* A line is written in one piece: the other process writes, too. */
__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
	char text[160], line[320];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	int length = snprintf(line, sizeof line, "%s%9lld%s  %*s%s%s%s\n", colour("\033[2m"),
			      (now_ns() - me.start_ns) / 1000, colour("\033[0m"), me.is_importer ? COLUMN : 0, "",
			      colour(me.is_importer ? "\033[36m" : "\033[32m"), text, colour("\033[0m"));
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		exit(1);
}

static inline void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", me.is_importer ? "importer" : "exporter", what, why);
	exit(1);
}

/* Under Cenote every failure also says why. */
static inline void fail_call(const char *call, const char *name)
{
	const char *(*last_error)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "cenote_last_error");
	char why[600];

	snprintf(why, sizeof why, "%s%s%s", name, last_error ? ": " : "", last_error ? last_error() : "");
	fail(call, why);
}

/* Every call says whether it worked. */
#ifdef DRIVER_API
static inline void check(CUresult result, const char *call)
{
	const char *name = "unknown error";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fail_call(call, name);
}
#else
static inline void check(cudaError_t result, const char *call)
{
	if (result != cudaSuccess)
		fail_call(call, cudaGetErrorName(result));
}
#endif
#define CHECK(call) check(call, #call)

static inline int check_system(int answer, const char *call)
{
	if (answer < 0)
		fail(call, strerror(errno));
	return answer;
}
#define CHECK_SYSTEM(call) check_system((int)(call), #call)

/* ---- Between the processes ---- */

static inline void send_bytes(int sock, const void *bytes, size_t count)
{
	CHECK_SYSTEM(send(sock, bytes, count, MSG_NOSIGNAL));
}

static inline void receive_bytes(int sock, void *bytes, size_t count)
{
	if ((size_t)CHECK_SYSTEM(recv(sock, bytes, count, 0)) != count)
		fail("waiting", "the other process is gone");
}

static inline void tell(int sock)
{
	send_bytes(sock, "!", 1);
}

static inline void be_told(int sock)
{
	char byte;

	receive_bytes(sock, &byte, 1);
}

/* A descriptor is a number within one process: what travels is the open file behind it (SCM_RIGHTS). */
static inline void send_descriptor(int sock, int descriptor)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	char byte = '!';
	struct iovec part = {&byte, 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof descriptor);
	memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
	CHECK_SYSTEM(sendmsg(sock, &message, MSG_NOSIGNAL));
}

static inline int receive_descriptor(int sock)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	char byte;
	struct iovec part = {&byte, 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	int descriptor;

	if (CHECK_SYSTEM(recvmsg(sock, &message, MSG_CMSG_CLOEXEC)) == 0)
		fail("waiting", "the other process is gone");
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof descriptor))
		fail("receiving", "no descriptor has come");
	memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
	return descriptor;
}

/* ---- Start and end ---- */

/* Execute this program again. A fork alone would not do: CUDA does not work in a child of a process that uses it. */
static inline pid_t start_importer(int *ret_sock)
{
	int ends[2];
	char name[] = "importer", role[] = "importer", sock[16], start[32];

	me.start_ns = now_ns();
	printf("%9s  %-*s%s\n", "us", COLUMN, "EXPORTER", "IMPORTER");
	fflush(stdout); /* or the child would print it, too */
	CHECK_SYSTEM(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	pid_t child = CHECK_SYSTEM(fork());
	if (child == 0) {
		char *arguments[] = {name, role, sock, start, NULL};
		CHECK_SYSTEM(fcntl(ends[1], F_SETFD, 0)); /* this end stays open */
		snprintf(sock, sizeof sock, "%d", ends[1]);
		snprintf(start, sizeof start, "%lld", me.start_ns);
		execv("/proc/self/exe", arguments);
		fail("starting the importer", strerror(errno));
	}
	close(ends[1]);
	*ret_sock = ends[0];
	return child;
}

static inline void await_importer(pid_t importer)
{
	int status;

	CHECK_SYSTEM(waitpid(importer, &status, 0));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail("waiting for the importer", "it did not end well");
	say("sees the importer end well");
}

/* Is this the importer? Then its socket. */
static inline int started_as_importer(int argc, char **argv, int *ret_sock)
{
	if (argc != 4 || strcmp(argv[1], "importer") != 0)
		return 0;
	me.is_importer = 1;
	*ret_sock = (int)strtol(argv[2], NULL, 10);
	me.start_ns = strtoll(argv[3], NULL, 10);
	return 1;
}

#endif

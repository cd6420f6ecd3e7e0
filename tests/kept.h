/* SPDX-License-Identifier: MIT */
/*
 * What tests of kept memory have in common: a daemon of the test's own, patterns, and waiting for events.
 */
#ifndef CENOTE_TESTS_KEPT_H
#define CENOTE_TESTS_KEPT_H

#include "cenote/cenote.h"
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEPT_MIB = 1 << 20, KEPT_ARGUMENTS_MAX = 12, KEPT_WAIT_MS = 20000 };

/* A daemon with a parent that starts it again; it listens where the test's processes look. */
struct kept_daemon {
	pid_t parent;
	int notify;
	char notify_path[600];
};

/* The daemon is ready: for the first time, or again. */
static inline void kept_await_ready(struct kept_daemon *daemon)
{
	struct pollfd polled = {.fd = daemon->notify, .events = POLLIN};
	char text[64];

	if (poll(&polled, 1, KEPT_WAIT_MS) != 1)
		FAIL("cenoted did not get ready");
	ssize_t got = recv(daemon->notify, text, sizeof text - 1, 0);
	ASSERT_GT(got, 0);
	text[got] = 0;
	ASSERT_STREQ("READY=1", text);
}

/* Start it; the other arguments are its options. The test's processes that start from now on find it. */
#define kept_start(daemon, ...) kept_start_with(daemon, (const char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
static inline void kept_start_with(struct kept_daemon *daemon, const char *const *options)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char program[600], socket_path[600],
		*arguments[KEPT_ARGUMENTS_MAX] = {program, (char *)"--supervise", (char *)"--socket", socket_path};
	posix_spawnattr_t attributes;
	sigset_t none;
	int count = 4;

	while (*options)
		arguments[count++] = (char *)(uintptr_t)*options++;
	snprintf(program, sizeof program, "%s/src/cenoted", getenv("CENOTE_TEST_BUILD"));
	snprintf(socket_path, sizeof socket_path, "%s/kept", test_directory());
	snprintf(daemon->notify_path, sizeof daemon->notify_path, "%s/ready", test_directory());
	ASSERT_LT(strlen(daemon->notify_path), sizeof address.sun_path);
	snprintf(address.sun_path, sizeof address.sun_path, "%s", daemon->notify_path);
	ASSERT_SYS(daemon->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	ASSERT_SYS(bind(daemon->notify, (const struct sockaddr *)&address, sizeof address));
	setenv("NOTIFY_SOCKET", daemon->notify_path, 1);
	setenv("CENOTE_KEPT_SOCKET", socket_path, 1);
	ASSERT_EQ(0, posix_spawnattr_init(&attributes));
	sigemptyset(&none);
	ASSERT_EQ(0, posix_spawnattr_setsigmask(&attributes, &none));
	ASSERT_EQ(0, posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK));
	ASSERT_EQ(0, posix_spawn(&daemon->parent, program, NULL, &attributes, arguments, environ));
	posix_spawnattr_destroy(&attributes);
	unsetenv("NOTIFY_SOCKET");
	kept_await_ready(daemon);
}

static inline void kept_stop(struct kept_daemon *daemon)
{
	int status;

	ASSERT_SYS(kill(daemon->parent, SIGTERM));
	ASSERT_EQ(daemon->parent, waitpid(daemon->parent, &status, 0));
	ASSERT(WIFEXITED(status) && !WEXITSTATUS(status));
	close(daemon->notify);
	unlink(daemon->notify_path);
}

/* The PID of the daemon itself. */
static inline pid_t kept_child(const struct kept_daemon *daemon)
{
	char path[64], text[64] = "";

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)daemon->parent, (int)daemon->parent);
	FILE *children = fopen(path, "re");
	if (!children)
		SKIP("the system does not list children in /proc");
	char *line = fgets(text, sizeof text, children);
	fclose(children);
	return line ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* A driver and a context for this process. */
static inline CUcontext kept_context(void)
{
	CUcontext context;

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
	ASSERT_OK(cuCtxSetCurrent(context));
	return context;
}

/* ---- Patterns ---- */

static inline void kept_fill(CUdeviceptr address, size_t bytes, uint64_t seed)
{
	uint64_t *words = malloc(bytes);

	ASSERT(words);
	for (size_t i = 0; i < bytes / sizeof *words; i++)
		words[i] = (seed + i) * 0x9e3779b97f4a7c15;
	ASSERT_OK(cuMemcpyHtoD(address, words, bytes));
	free(words);
}

static inline bool kept_has(CUdeviceptr address, size_t bytes, uint64_t seed)
{
	uint64_t *words = malloc(bytes);
	bool right = true;

	ASSERT(words);
	ASSERT_OK(cuMemcpyDtoH(words, address, bytes));
	for (size_t i = 0; i < bytes / sizeof *words; i++)
		right = right && words[i] == (seed + i) * 0x9e3779b97f4a7c15;
	free(words);
	return right;
}

/* An object of one part, filled and committed; the caller releases it. */
static inline cenote_kept kept_make(const char *name, size_t bytes, uint64_t seed, unsigned flags)
{
	cenote_kept_options options = {.flags = flags};
	cenote_kept_part part = {.bytes = bytes};
	cenote_kept kept;

	ASSERT_OK(cenote_kept_create(name, &part, 1, &options, &kept));
	kept_fill(part.address, bytes, seed);
	ASSERT_OK(cenote_kept_commit(kept));
	return kept;
}

static inline CUdeviceptr kept_address(cenote_kept kept)
{
	cenote_kept_part part;
	unsigned count;

	ASSERT_OK(cenote_kept_parts(kept, &part, 1, &count));
	return part.address;
}

static inline cenote_kept_object kept_look(cenote_kept kept)
{
	cenote_kept_object object;

	ASSERT_OK(cenote_kept_look(kept, &object, sizeof object));
	return object;
}

/* ---- Lists and events ---- */

static inline void kept_count_found(const cenote_kept_object *object, const cenote_kept_holder *holder, void *data)
{
	(void)object;
	*(unsigned *)data += !holder;
}

static inline unsigned kept_count(const char *prefix)
{
	unsigned count = 0;

	ASSERT_OK(cenote_kept_list(prefix, 0, kept_count_found, &count));
	return count;
}

/* Wait for an event of a name; others before it are skipped. */
static inline cenote_kept_event kept_await(int watch, const char *name, unsigned state)
{
	struct pollfd polled = {.fd = watch, .events = POLLIN};
	cenote_kept_event event;

	do {
		if (poll(&polled, 1, KEPT_WAIT_MS) != 1)
			FAIL("%s did not come to state %u", name, state);
		ASSERT_OK(cenote_kept_next(watch, &event));
	} while (strcmp(event.name, name) != 0 || event.state != state);
	return event;
}

#endif

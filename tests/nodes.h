/* SPDX-License-Identifier: MIT */
/*
 * What tests of memory between machines have in common: nodes on this machine.
 *
 * A node is a daemon with directories of its own and an address of the loopback network that no other test has. Its
 * programs are peers that were started with the node's environment. What the daemon logs tells which nodes it sees.
 *
 * Each test runs over each transport: CENOTE_TEST_TRANSPORT says which (ucx; else tls).
 */
#ifndef CENOTE_TESTS_NODES_H
#define CENOTE_TESTS_NODES_H

#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES_MAX = 3, NODES_WAIT_MS = 20000 * HARNESS_SLOWDOWN, NODES_PATH_BYTES = 600, NODES_PORT = 50100 };

struct nodes_one {
	pid_t daemon;
	int log; /* what it writes */
	char line[4096];
	size_t line_bytes;
	const char *counted; /* lines with this in them are counted, as they are read */
	unsigned count;
};

static inline bool nodes_are_ucx(void)
{
	const char *transport = getenv("CENOTE_TEST_TRANSPORT");

	return transport && !strcmp(transport, "ucx");
}

/* An address that is this test's alone as long as it runs. UCX wants one that an interface has, so the port differs. */
static inline void nodes_address(unsigned number, char ret_text[32])
{
	unsigned pid = (unsigned)getpid();

	if (nodes_are_ucx())
		snprintf(ret_text, 32, "127.0.0.1:%u", 20000 + (pid * 4 + number) % 12000);
	else
		snprintf(ret_text, 32, "127.%u.%u.%u", 1 + (pid >> 14) % 250, pid >> 6 & 255, (pid & 63) * 4 + number);
}

static inline void nodes_write(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ASSERT_SYS(file);
	ASSERT_EQ(strlen(text), write(file, text, strlen(text)));
	close(file);
}

/* The path of a file that all nodes have, or of one node's own. */
static inline const char *nodes_path(unsigned node, const char *name)
{
	static char paths[16][NODES_PATH_BYTES];
	static unsigned next;
	char *path = paths[next++ % 16];

	if (node)
		snprintf(path, NODES_PATH_BYTES, "%s/node%u/%s", test_directory(), node, name);
	else
		snprintf(path, NODES_PATH_BYTES, "%s/%s", test_directory(), name);
	return path;
}

static inline void nodes_daemon(char ret_program[NODES_PATH_BYTES])
{
	snprintf(ret_program, NODES_PATH_BYTES, "%s/src/cenote-imexd%s", getenv("CENOTE_TEST_BUILD"),
		 nodes_are_ucx() ? "-ucx" : "");
}

/* Lists of nodes, a key and a channel. Skips where the daemon was not built. */
static inline void nodes_prepare(unsigned count)
{
	char program[NODES_PATH_BYTES], list[256] = "# the nodes of a test\n", address[32];

	nodes_daemon(program);
	if (access(program, X_OK) && nodes_are_ucx())
		SKIP("cenote-imexd-ucx was not built: UCX has no headers here (libucx-dev)");
	if (access(program, X_OK))
		SKIP("cenote-imexd was not built: GnuTLS has no headers here (libgnutls28-dev)");
	for (unsigned i = 1; i <= count; i++) {
		nodes_address(i, address);
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s\n", address);
		ASSERT_SYS(mkdir(nodes_path(i, ""), 0700));
		ASSERT_SYS(mkdir(nodes_path(i, "run"), 0700));
		ASSERT_SYS(mkdir(nodes_path(i, "fabric"), 0700));
		ASSERT_SYS(chmod(nodes_path(i, "fabric"), 01777));
	}
	nodes_write(nodes_path(0, "nodes.cfg"), list);
	nodes_write(nodes_path(0, "key"), "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n");
	ASSERT_SYS(mkdir(nodes_path(0, "channels"), 0700));
	nodes_write(nodes_path(0, "channels/channel0"), "");
}

/* What is started from now on is a program of this node. */
static inline void nodes_enter(unsigned node)
{
	setenv("CENOTE_IMEX_DIR", nodes_path(0, "channels"), 1);
	setenv("CENOTE_RUNTIME_DIR", nodes_path(node, "run"), 1);
	setenv("CENOTE_FABRIC_DIR", nodes_path(node, "fabric"), 1);
	setenv("CENOTE_IMEX_SOCKET", nodes_path(node, "run/imex"), 1);
}

static inline void nodes_count(struct nodes_one *one, const char *text)
{
	one->counted = text;
	one->count = 0;
}

/* Read the log until a line has this in it. */
static inline void nodes_await(struct nodes_one *one, const char *text)
{
	struct pollfd polled = {.fd = one->log, .events = POLLIN};

	for (;;) {
		char *end = memchr(one->line, '\n', one->line_bytes);
		if (end) {
			*end = 0;
			bool found = strstr(one->line, text);
			one->count += one->counted && strstr(one->line, one->counted);
			printf("%s\n", one->line);
			one->line_bytes -= (size_t)(end + 1 - one->line);
			memmove(one->line, end + 1, one->line_bytes);
			if (found)
				return;
			continue;
		}
		if (poll(&polled, 1, NODES_WAIT_MS) != 1)
			FAIL("the daemon did not say: %s", text);
		ssize_t got = read(one->log, one->line + one->line_bytes, sizeof one->line - one->line_bytes);
		if (got <= 0)
			FAIL("the daemon ended before it said: %s", text);
		one->line_bytes += (size_t)got;
	}
}

static inline void nodes_start_with(unsigned node, const char *list, const char *key, struct nodes_one *ret_one)
{
	char program[NODES_PATH_BYTES], number[16];
	char *arguments[] = {program,
			     (char *)"--nodes",
			     (char *)(uintptr_t)list,
			     (char *)"--node",
			     number,
			     nodes_are_ucx() ? NULL : (char *)"--key",
			     (char *)(uintptr_t)key,
			     NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int log[2];

	nodes_daemon(program);
	snprintf(number, sizeof number, "%u", node);
	*ret_one = (struct nodes_one){.daemon = 0};
	ASSERT_SYS(pipe2(log, O_CLOEXEC));
	ret_one->log = log[0];
	nodes_enter(node);
	sigemptyset(&none);
	ASSERT_EQ(0, posix_spawnattr_init(&attributes));
	ASSERT_EQ(0, posix_spawnattr_setsigmask(&attributes, &none));
	ASSERT_EQ(0, posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK));
	ASSERT_EQ(0, posix_spawn_file_actions_init(&actions));
	ASSERT_EQ(0, posix_spawn_file_actions_adddup2(&actions, log[1], STDERR_FILENO));
	ASSERT_EQ(0, posix_spawn(&ret_one->daemon, program, &actions, &attributes, arguments, environ));
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	close(log[1]);
}

static inline void nodes_start(unsigned node, struct nodes_one *ret_one)
{
	nodes_start_with(node, nodes_path(0, "nodes.cfg"), nodes_path(0, "key"), ret_one);
}

static inline void nodes_end(struct nodes_one *one, int signal_number)
{
	int status;

	ASSERT_SYS(kill(one->daemon, signal_number));
	if (signal_number == SIGTERM)
		nodes_await(one, "ends as asked");
	ASSERT_EQ(one->daemon, waitpid(one->daemon, &status, 0));
	if (signal_number == SIGTERM)
		ASSERT(WIFEXITED(status) && !WEXITSTATUS(status));
	close(one->log);
}

/* Two nodes that see each other. */
static inline void nodes_pair(struct nodes_one ret_nodes[2])
{
	nodes_prepare(2);
	nodes_start(1, &ret_nodes[0]);
	nodes_start(2, &ret_nodes[1]);
	nodes_await(&ret_nodes[0], "node 2 is up");
	nodes_await(&ret_nodes[1], "node 1 is up");
}

static inline void nodes_pair_end(struct nodes_one nodes[2])
{
	nodes_end(&nodes[1], SIGTERM);
	nodes_end(&nodes[0], SIGTERM);
}

/* Until cenote ps shows this text on the node that was entered, or no longer; the test's time limit ends it. */
static inline void nodes_await_shown(const char *arguments, bool shown, const char *text)
{
	char command[NODES_PATH_BYTES];
	static char said[1 << 20];
	size_t count;

	snprintf(command, sizeof command, "%s/tools/cenote/cenote ps %s", getenv("CENOTE_TEST_BUILD"), arguments);
	do {
		FILE *output = popen(command, "re");
		ASSERT(output);
		count = fread(said, 1, sizeof said - 1, output);
		ASSERT_EQ(0, pclose(output));
		said[count] = 0;
	} while (!strstr(said, text) == shown);
	printf("%s", said);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Peers: this program executed again in a role, with a socket between the two.
 *
 * The socket keeps the boundaries of messages. The first byte of a message says what it carries, so that a test and its
 * peer which disagree about whose turn it is fail with a sentence and do not wait for each other.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"

#define ARGUMENTS_MAX 32

enum message_kind { MESSAGE_WORD = 'w', MESSAGE_BYTES = 'b', MESSAGE_DESCRIPTOR = 'd' };

struct peer {
	pid_t pid; /* 0 in a role, whose peer is the test */
	int channel;
	char name[64];
};

static atomic_int open_peers;

struct peer *peer_from_channel(void)
{
	struct peer *peer = calloc(1, sizeof *peer);

	ASSERT(peer);
	ASSERT_SYS(fcntl(PEER_CHANNEL_FD, F_SETFD, FD_CLOEXEC));
	peer->channel = PEER_CHANNEL_FD;
	snprintf(peer->name, sizeof peer->name, "test");
	return peer;
}

bool peers_forgotten(void)
{
	int count = atomic_load(&open_peers);

	if (count)
		fprintf(stderr, "%d peers were started and neither waited for nor killed\n", count);
	return count != 0;
}

struct peer *harness_peer_start(const char *role, ...)
{
	const char *arguments[ARGUMENTS_MAX] = {"peer", "--role", role};
	size_t count = 3;
	posix_spawn_file_actions_t actions;
	struct peer *peer = calloc(1, sizeof *peer);
	int ends[2];
	va_list list;

	ASSERT(peer);
	va_start(list, role);
	while ((arguments[count] = va_arg(list, const char *)))
		ASSERT(++count < ARGUMENTS_MAX);
	va_end(list);

	/* Spawned, not forked: no handler of the library runs in between, and no sanitizer objects. */
	ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	ASSERT_EQ(0, posix_spawn_file_actions_init(&actions));
	ASSERT_EQ(0, posix_spawn_file_actions_adddup2(&actions, ends[1], PEER_CHANNEL_FD));
	ASSERT_EQ(0, posix_spawn(&peer->pid, "/proc/self/exe", &actions, NULL, (char *const *)arguments, environ));
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	peer->channel = ends[0];
	snprintf(peer->name, sizeof peer->name, "%s", role);
	atomic_fetch_add(&open_peers, 1);
	return peer;
}

pid_t peer_pid(const struct peer *peer)
{
	return peer->pid;
}

static void send_message(struct peer *peer, enum message_kind kind, const void *bytes, size_t size_bytes,
			 const int *descriptor)
{
	unsigned char tag = (unsigned char)kind;
	struct iovec parts[] = {{&tag, 1}, {(void *)(uintptr_t)bytes, size_bytes}};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t sent;

	ASSERT_LE(size_bytes, (size_t)PEER_MESSAGE_BYTES_MAX);
	if (descriptor) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof control.bytes;
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), descriptor, sizeof(int));
	}
	do {
		sent = sendmsg(peer->channel, &message, MSG_NOSIGNAL);
	} while (sent == -1 && errno == EINTR);
	if (sent == -1)
		FAIL("cannot send to peer %s: %m", peer->name);
	ASSERT_EQ(size_bytes + 1, (size_t)sent);
}

/* Receive one message of the wanted kind. The buffer must have room for size_bytes; returns how many came. */
static size_t receive_message(struct peer *peer, enum message_kind kind, void *ret_bytes, size_t size_bytes,
			      int *ret_descriptor)
{
	unsigned char tag = 0;
	struct iovec parts[] = {{&tag, 1}, {ret_bytes, size_bytes}};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr message = {.msg_iov = parts,
				 .msg_iovlen = 2,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof control.bytes};
	ssize_t got;

	do {
		got = recvmsg(peer->channel, &message, MSG_CMSG_CLOEXEC);
	} while (got == -1 && errno == EINTR);
	if (got <= 0)
		FAIL("peer %s is gone, where a message was expected", peer->name);
	if (tag != kind)
		FAIL("peer %s sent a message of kind '%c' (%.*s), where '%c' was expected", peer->name, tag,
		     tag == MESSAGE_WORD ? (int)got - 1 : 0, (const char *)ret_bytes, kind);
	if (message.msg_flags & MSG_TRUNC)
		FAIL("peer %s sent more than the %zu bytes that were expected", peer->name, size_bytes);
	if (ret_descriptor) {
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);

		if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int)))
			FAIL("peer %s sent no descriptor", peer->name);
		memcpy(ret_descriptor, CMSG_DATA(header), sizeof(int));
	}
	return (size_t)got - 1;
}

void peer_send(struct peer *peer, const char *word)
{
	send_message(peer, MESSAGE_WORD, word, strlen(word), NULL);
}

void peer_expect(struct peer *peer, const char *word)
{
	char got[256];
	size_t length = receive_message(peer, MESSAGE_WORD, got, sizeof got - 1, NULL);

	got[length] = '\0';
	if (strcmp(got, word) != 0)
		FAIL("peer %s said \"%s\", not \"%s\"", peer->name, got, word);
}

void peer_send_bytes(struct peer *peer, const void *bytes, size_t size_bytes)
{
	send_message(peer, MESSAGE_BYTES, bytes, size_bytes, NULL);
}

void peer_receive_bytes(struct peer *peer, void *ret_bytes, size_t size_bytes)
{
	size_t got = receive_message(peer, MESSAGE_BYTES, ret_bytes, size_bytes, NULL);

	if (got != size_bytes)
		FAIL("peer %s sent %zu bytes, not %zu", peer->name, got, size_bytes);
}

void peer_send_descriptor(struct peer *peer, int descriptor)
{
	send_message(peer, MESSAGE_DESCRIPTOR, "", 0, &descriptor);
}

int peer_receive_descriptor(struct peer *peer)
{
	char nothing[1];
	int descriptor = -1;

	receive_message(peer, MESSAGE_DESCRIPTOR, nothing, 0, &descriptor);
	return descriptor;
}

int peer_wait_status(struct peer *peer)
{
	int status;

	/* A role that still listens sees the end of the channel and fails with a sentence; it does not hang. */
	shutdown(peer->channel, SHUT_WR);
	while (waitpid(peer->pid, &status, 0) == -1)
		ASSERT_EQ(EINTR, errno);
	close(peer->channel);
	free(peer);
	atomic_fetch_sub(&open_peers, 1);
	if (WIFSIGNALED(status) && harness_outcome)
		leaks_forgive_names(1);
	return status;
}

void peer_wait(struct peer *peer)
{
	char name[sizeof peer->name];

	memcpy(name, peer->name, sizeof name);
	int status = peer_wait_status(peer);
	if (WIFSIGNALED(status))
		FAIL("peer %s was killed by signal %d (%s)", name, WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status))
		FAIL("peer %s ended with exit status %d", name, WEXITSTATUS(status));
}

void peer_end(struct peer *peer)
{
	peer_send(peer, "end");
	peer_wait(peer);
}

void peer_stop(struct peer *peer)
{
	int status;

	ASSERT_SYS(kill(peer->pid, SIGSTOP));
	ASSERT_EQ(peer->pid, waitpid(peer->pid, &status, WUNTRACED));
	ASSERT(WIFSTOPPED(status));
}

void peer_continue(struct peer *peer)
{
	ASSERT_SYS(kill(peer->pid, SIGCONT));
}

void peer_kill(struct peer *peer)
{
	char name[sizeof peer->name];

	memcpy(name, peer->name, sizeof name);
	ASSERT_SYS(kill(peer->pid, SIGKILL));
	int status = peer_wait_status(peer);
	if (WIFEXITED(status) && WEXITSTATUS(status))
		FAIL("peer %s had ended with exit status %d before it was killed", name, WEXITSTATUS(status));
}

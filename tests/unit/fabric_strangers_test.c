/* SPDX-License-Identifier: MIT */
/*
 * Strangers at a fabric port: those who have no channel and want to be in the way. They may be many, of many users, and
 * send what nobody can get rid of.
 */
#include "fabric_port.h"
#include "share/peer/service.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { CLIENTS_OF_USER_MAX = 128, ON_THEIR_WAY_MAX = 64, NOBODY = 64128, LINGER_S = 600 };

/* Goal: who may not list a user's folder does not learn from the system either where its ports are. */
TEST(the_system_does_not_tell_where_a_port_is)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 1, handle);
	char name[CN_SOCKET_NAME_CHARS + 1], *line = NULL;
	FILE *sockets = fopen("/proc/net/unix", "re");
	size_t room = 0;
	unsigned ours = 0;

	ASSERT(sockets);
	name_of(handle, name);
	while (getline(&line, &room, sockets) != -1) {
		ours += strstr(line, "/proc/self/fd/") != NULL; /* as Cenote's are called, if nothing else is */
		if (strstr(line, name))
			FAIL("for all to read: %s", line);
	}
	ASSERT_NE(0, ours);
	free(line);
	fclose(sockets);
	expect_thing(1, handle);
	cn_fabric_free(fabric);
}

/* ---- Many ---- */

/* Another user, who holds the channel, fetches what it is told. */
ROLE(other_user)
{
	unsigned char handle[CN_HANDLE_BYTES];

	ASSERT_SYS(setuid(NOBODY));
	ASSERT_SYS(prctl(PR_SET_DUMPABLE, 1)); /* what it opens in /proc/self is its own again */
	peer_receive_bytes(parent, handle, sizeof handle);
	expect_thing(10, handle);
}

/* Goal: a user that takes all it can get keeps itself out, and no other user. */
TEST(callers_of_one_user_do_not_keep_out_others)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 10, handle);
	int socks[CLIENTS_OF_USER_MAX];

	for (int i = 0; i < CLIENTS_OF_USER_MAX; i++)
		socks[i] = call_port(handle);
	expect_closed(call_port(handle));
	expect_refusal(handle, CUDA_ERROR_NOT_SUPPORTED, "has too many clients");
	if (geteuid() == 0) {
		struct peer *peer = peer_start("other_user");
		peer_send_bytes(peer, handle, sizeof handle);
		peer_wait(peer);
	}
	for (int i = 0; i < CLIENTS_OF_USER_MAX; i++)
		ASSERT_SYS(close(socks[i]));
	int fd = -1;
	while (cn_fabric_fetch(handle, CN_FABRIC_MEMORY, &fd)) /* there is room once their ends have been seen */
		continue;
	expect_number(10, fd);
	cn_fabric_free(fabric);
}

/* Calls as often as it may, as another user, and says nothing. argv: the user */
ROLE(crowd)
{
	unsigned char handle[CN_HANDLE_BYTES];
	char name[CN_SOCKET_NAME_CHARS + 1];
	int socks[CLIENTS_OF_USER_MAX];

	ASSERT_SYS(setuid((unsigned)atoi(argv[0])));
	ASSERT_SYS(prctl(PR_SET_DUMPABLE, 1));
	peer_receive_bytes(parent, handle, sizeof handle);
	name_of(handle, name);
	for (int i = 0; i < CLIENTS_OF_USER_MAX; i++)
		ASSERT_OK(connect_fabric(name, 0, &socks[i]));
	peer_send(parent, "full");
	peer_expect(parent, "end");
	for (int i = 0; i < CLIENTS_OF_USER_MAX; i++)
		ASSERT_SYS(close(socks[i]));
}

/* Goal: nor do those of many users: who says nothing makes room for who comes. */
TEST(callers_of_many_users_do_not_keep_out_others)
{
	static const char *const users[] = {"64101", "64102", "64103"};
	unsigned char handle[CN_HANDLE_BYTES];
	struct peer *crowds[3];

	if (geteuid())
		SKIP("only root can become other users");
	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 2, handle);
	for (int i = 0; i < 3; i++) {
		crowds[i] = peer_start("crowd", users[i]);
		peer_send_bytes(crowds[i], handle, sizeof handle);
		peer_expect(crowds[i], "full");
		expect_thing(2, handle);
	}
	for (int i = 0; i < 3; i++) {
		peer_end(crowds[i]);
	}
	cn_fabric_free(fabric);
}

/* ---- Those who do not read ---- */

/* Shares 4 as one to whom the system's limits apply. */
ROLE(limited)
{
	unsigned char handle[CN_HANDLE_BYTES];
	const struct rlimit limit = {ON_THEIR_WAY_MAX, ON_THEIR_WAY_MAX};

	struct cn_fabric *fabric = share(CN_FABRIC_MEMORY, 4, handle);
	if (!geteuid())
		ASSERT_SYS(setuid(NOBODY));
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &limit));
	peer_send_bytes(parent, handle, sizeof handle);
	peer_expect(parent, "end");
	cn_fabric_free(fabric);
}

/* Goal: a caller that never takes the answer uses up what the exporter's user may send; that is said, and passes. */
TEST(answers_that_nobody_takes_are_named_as_the_reason)
{
	struct peer *peer = peer_start("limited");
	int channel = open(test_path("imex/channel0"), O_RDONLY | O_CLOEXEC), socks[ON_THEIR_WAY_MAX + 8], fd = -7;
	unsigned char handle[CN_HANDLE_BYTES];

	peer_receive_bytes(peer, handle, sizeof handle);
	struct cn_parcel request = request_for(handle, channel);
	for (int i = 0; i < ON_THEIR_WAY_MAX + 8; i++) {
		socks[i] = call_port(handle);
		struct pollfd wanted = {.fd = socks[i], .events = POLLIN};
		ASSERT_EQ(0, cn_wire_send(socks[i], &request));
		ASSERT_EQ(1, poll(&wanted, 1, -1));
	}
	expect_refusal(handle, CUDA_ERROR_OPERATING_SYSTEM, "in transit");
	for (int i = 0; i < ON_THEIR_WAY_MAX + 8; i++)
		ASSERT_SYS(close(socks[i]));
	while (cn_fabric_fetch(handle, CN_FABRIC_MEMORY, &fd)) /* the system takes its time to count them */
		continue;
	expect_number(4, fd);
	ASSERT_SYS(close(channel));
	peer_end(peer);
	peer_wait(peer_start("bystander"));
}

/* ---- What nobody can get rid of ---- */

static int told;

static void tell(struct cn_job *job)
{
	(void)job;
	ASSERT_EQ(1, write(told, "", 1));
}

/* Shares 3, and when it is told forks a child and has the service thread do something. */
ROLE(host)
{
	unsigned char handle[CN_HANDLE_BYTES];
	static struct cn_job job = {.run = tell};
	int ends[2], status;
	char byte;

	share(CN_FABRIC_MEMORY, 3, handle);
	peer_send_bytes(parent, handle, sizeof handle);
	peer_expect(parent, "work");
	pid_t child = fork();
	if (!child)
		_exit(7);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(7, WEXITSTATUS(status));
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	told = ends[1];
	cn_service_post(&job);
	ASSERT_EQ(1, read(ends[0], &byte, 1));
	peer_send(parent, "done");
	peer_expect(parent, "never");
}

/* A connection with more in it than the other end takes: the last to close it waits until that has gone. -1: none. */
static int endless_connection(int *ret_listen_fd)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
	socklen_t length = sizeof address;
	static char bytes[1 << 16];

	if (bind(listen_fd, (const struct sockaddr *)&address, length) || listen(listen_fd, 1) ||
	    getsockname(listen_fd, (struct sockaddr *)&address, &length) ||
	    connect(sock, (const struct sockaddr *)&address, length)) {
		close(sock);
		close(listen_fd);
		return -1;
	}
	while (send(sock, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
		continue;
	ASSERT_SYS(setsockopt(sock, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
	*ret_listen_fd = listen_fd;
	return sock;
}

/* Goal: a stranger can pass a descriptor that takes for ever to close; that holds up no fork and no other sharing. */
TEST(what_cannot_be_closed_holds_up_nothing_else)
{
	struct peer *peer = peer_start("host");
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_parcel reply;
	int listen_fd, sock;

	peer_receive_bytes(peer, handle, sizeof handle);
	int endless = endless_connection(&listen_fd);
	if (endless < 0) {
		peer_kill(peer);
		SKIP("there is no loopback network");
	}
	struct cn_parcel request = request_for(handle, endless);
	peer_stop(peer); /* so that the last to close it is not we */
	sock = call_port(handle);
	ASSERT_EQ(0, cn_wire_send(sock, &request));
	ASSERT_SYS(close(endless));
	peer_continue(peer);
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	ASSERT_EQ(1, poll(&wanted, 1, -1));
	ASSERT_EQ(0, cn_wire_receive(sock, &reply)); /* it is refused, and next it will be closed there */
	ASSERT_EQ(CUDA_ERROR_NOT_PERMITTED, (CUresult)reply.message.result);
	peer_send(peer, "work");
	peer_expect(peer, "done");
	peer_kill(peer);
	ASSERT_SYS(close(sock));
	ASSERT_SYS(close(listen_fd));
	peer_wait(peer_start("bystander")); /* clears the name */
}

ROLE(bystander)
{
}

/* SPDX-License-Identifier: MIT */
/*
 * The port of a process: what it refuses, which callers it sends away, and when its name goes. The wrong callers are
 * written by hand.
 */
#include "../ask.h"
#include "named_socket.h"
#include "shared_event.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLIENTS_MAX = 256, NOBODY = 64321 };

SETUP
{
	bring_up();
}

ROLE(bystander)
{
}

static struct cn_handle parts_of(const unsigned char bytes[CN_HANDLE_BYTES])
{
	struct cn_handle handle;

	memcpy(&handle, bytes, sizeof handle);
	return handle;
}

/* A handle that is in order but for what was changed in it. */
static void forge(struct cn_handle handle, unsigned char ret_bytes[CN_HANDLE_BYTES])
{
	handle.check = cn_check(&handle, offsetof(struct cn_handle, check));
	memcpy(ret_bytes, &handle, sizeof handle);
}

static void name_of(const unsigned char handle[CN_HANDLE_BYTES], char ret_name[CN_SOCKET_NAME_CHARS + 1])
{
	struct cn_handle parts = parts_of(handle);

	for (int i = 0; i < CN_PORT_NAME_BYTES; i++)
		snprintf(ret_name + 2 * i, 3, "%02x", parts.port[i]);
}

/* ---- Handles ---- */

/* Goal: every bit counts, and is looked at before any socket is. */
TEST(a_handle_with_a_wrong_bit_is_refused)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);

	for (unsigned bit = 0; bit < 8 * CN_HANDLE_BYTES; bit++) {
		handle[bit / 8] ^= (unsigned char)(1u << bit % 8);
		expect_refusal(handle, cn_handle_refused(CN_HANDLE_EVENT), bit < 32 ? "not made by Cenote" : "damaged");
		handle[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	expect_refusal(handle, CUDA_ERROR_INVALID_CONTEXT, "belongs to this process"); /* it is whole again */
	cn_shared_event_drop(event);
	memset(handle, 0, sizeof handle);
	expect_refusal(handle, cn_handle_refused(CN_HANDLE_EVENT), "not made by Cenote");
}

TEST(handles_are_different_and_carry_no_address)
{
	unsigned char one[CN_HANDLE_BYTES], other[CN_HANDLE_BYTES];
	struct cn_shared_event *first = create(one), *second = create(other);
	struct cn_handle left = parts_of(one), right = parts_of(other);

	ASSERT(!memcmp(left.port, right.port, sizeof left.port));
	ASSERT(memcmp(left.secret, right.secret, sizeof left.secret));
	ASSERT_NE(left.number, right.number);
	ASSERT_LT(left.number, 100);
	cn_shared_event_drop(first);
	cn_shared_event_drop(second);
}

ROLE(creator)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);

	peers_may_hold();
	peer_send_bytes(parent, handle, sizeof handle);
	peer_expect(parent, "end");
	cn_shared_event_drop(event);
}

TEST(forged_handles_are_refused)
{
	struct peer *peer = peer_start("creator");
	unsigned char handle[CN_HANDLE_BYTES], bytes[CN_HANDLE_BYTES];

	peer_receive_bytes(peer, handle, sizeof handle);
	struct cn_handle good = parts_of(handle), bad = good;
	bad.version++;
	forge(bad, bytes);
	expect_refusal(bytes, cn_handle_refused(CN_HANDLE_EVENT), "another version");
	bad = good;
	bad.kind++;
	forge(bad, bytes);
	expect_refusal(bytes, cn_handle_refused(CN_HANDLE_EVENT), "another kind of object");
	for (unsigned i = 0; i < sizeof bad.secret; i++) {
		bad = good;
		bad.secret[i] ^= 0x10;
		forge(bad, bytes);
		expect_refusal(bytes, cn_handle_refused(CN_HANDLE_EVENT), "never gave out this handle");
	}
	bad = good;
	bad.node++;
	forge(bad, bytes);
	expect_refusal(bytes, cn_handle_refused(CN_HANDLE_EVENT), "never gave out this handle");
	bad = good;
	bad.number += 256;
	forge(bad, bytes);
	expect_refusal(bytes, cn_handle_gone(CN_HANDLE_EVENT), "no longer exists");
	bad = good;
	bad.port[3]++;
	forge(bad, bytes);
	expect_refusal(bytes, cn_handle_gone(CN_HANDLE_EVENT), "the exporter is gone");

	cn_shared_event_drop(open_handle(handle)); /* and the true one still opens */
	peer_end(peer);
}

/* ---- Callers ---- */

static int call_port(const unsigned char handle[CN_HANDLE_BYTES])
{
	char name[CN_SOCKET_NAME_CHARS + 1];
	int sock = -1;

	name_of(handle, name);
	ASSERT_OK(connect_name(name, &sock));
	return sock;
}

static void expect_closed(int sock)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	struct cn_parcel parcel;

	ASSERT_EQ(1, poll(&wanted, 1, -1));
	ASSERT_EQ(EPIPE, cn_wire_receive(sock, &parcel));
	ASSERT_SYS(close(sock));
}

static struct cn_parcel request_for(const unsigned char handle[CN_HANDLE_BYTES])
{
	struct cn_handle parts = parts_of(handle);
	struct cn_parcel request = {
		.message = {.kind = CN_MESSAGE_EVENT, .request = 5, .words = {parts.number, parts.node}}};

	memcpy(request.message.bytes, parts.secret, sizeof parts.secret);
	return request;
}

TEST(a_caller_gets_what_it_asks_for_and_a_number)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct cn_parcel request = request_for(handle), reply;
	int one = call_port(handle), other = call_port(handle);

	for (int i = 0; i < 3; i++) {
		ASSERT_OK(ask_peer(one, &request, &reply));
		ASSERT_EQ(0, reply.message.result);
		ASSERT_EQ(1, reply.descriptor_count);
		ASSERT_EQ(1, reply.message.words[0]);
		cn_wire_close(&reply);
	}
	ASSERT_OK(ask_peer(other, &request, &reply));
	ASSERT_EQ(2, reply.message.words[0]);
	cn_wire_close(&reply);
	ASSERT_SYS(close(other));
	other = call_port(handle);
	ASSERT_OK(ask_peer(other, &request, &reply));
	ASSERT_EQ(3, reply.message.words[0]); /* never one that was in use */
	cn_wire_close(&reply);
	ASSERT_SYS(close(other));
	ASSERT_SYS(close(one));
	cn_shared_event_drop(event);
}

TEST(a_caller_with_a_wrong_secret_is_told_and_sent_away)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct cn_parcel request = request_for(handle), reply;

	for (int i = 0; i < CN_HANDLE_SECRET_BYTES; i++) {
		int sock = call_port(handle);
		request.message.bytes[i] ^= 1;
		ASSERT_OK(ask_peer(sock, &request, &reply));
		ASSERT_NE(0, reply.message.result);
		ASSERT_EQ(0, reply.descriptor_count);
		expect_closed(sock);
		request.message.bytes[i] ^= 1;
	}
	cn_shared_event_drop(event);
}

TEST(a_caller_who_talks_nonsense_is_sent_away)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct cn_parcel request = request_for(handle);
	int sock = call_port(handle);

	ASSERT_EQ(7, send(sock, "garbage", 7, 0));
	expect_closed(sock);
	for (uint32_t kind = 0; kind < 20; kind++) {
		if (kind == CN_MESSAGE_EVENT || kind == CN_MESSAGE_MEMORY || kind == CN_MESSAGE_REPORT)
			continue;
		request.message.kind = kind;
		sock = call_port(handle);
		ASSERT_EQ(0, cn_wire_send(sock, &request));
		expect_closed(sock);
	}
	request.message.kind = CN_MESSAGE_EVENT;
	request.descriptors[0] = STDERR_FILENO;
	request.descriptor_count = 1;
	sock = call_port(handle);
	ASSERT_EQ(0, cn_wire_send(sock, &request));
	expect_closed(sock);
	cn_shared_event_drop(event);
}

TEST(what_was_never_opened_is_not_freed)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct cn_parcel request = request_for(handle), reply, freed = {.message = {.kind = CN_MESSAGE_EVENT_FREED}};
	int sock = call_port(handle);

	freed.message.words[0] = request.message.words[0];
	for (int i = 0; i < 3; i++) {
		ASSERT_OK(ask_peer(sock, &request, &reply));
		ASSERT_EQ(0, reply.message.result);
		cn_wire_close(&reply);
		for (int k = 0; k < 3; k++)
			ASSERT_EQ(0, cn_wire_send(sock, &freed));
	}
	ASSERT_OK(ask_peer(sock, &request, &reply));
	cn_wire_close(&reply);
	ASSERT_SYS(close(sock));
	cn_shared_event_drop(event);
}

/* It stays when it has been sent away: what it has open is its own until it ends. */
ROLE(does_not_read)
{
	unsigned char handle[CN_HANDLE_BYTES];
	int error;

	peer_receive_bytes(parent, handle, sizeof handle);
	struct cn_parcel request = request_for(handle);
	int sock = call_port(handle);
	while ((error = cn_wire_send(sock, &request)) != EPIPE) {
		struct pollfd wanted = {.fd = sock, .events = POLLOUT};
		if (error == EAGAIN)
			ASSERT_EQ(1, poll(&wanted, 1, -1));
		else
			ASSERT_EQ(0, error);
	}
	ASSERT_SYS(close(sock));
	peer_send(parent, "sent away");
	peer_expect(parent, "end");
}

TEST(a_caller_who_does_not_read_is_sent_away)
{
	struct peer *peer = peer_start("does_not_read");
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct cn_parcel request = request_for(handle), reply;

	peer_send_bytes(peer, handle, sizeof handle);
	peer_expect(peer, "sent away");
	int sock = call_port(handle); /* others are served */
	ASSERT_OK(ask_peer(sock, &request, &reply));
	cn_wire_close(&reply);
	ASSERT_SYS(close(sock));
	cn_shared_event_drop(event);
	peer_end(peer);
}

TEST(a_caller_who_says_nothing_is_sent_away)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct cn_parcel request = request_for(handle), reply;
	int silent = call_port(handle), talker = call_port(handle);

	ASSERT_OK(ask_peer(talker, &request, &reply));
	cn_wire_close(&reply);
	expect_closed(silent);                         /* takes CN_WIRE_TIMEOUT_MS */
	ASSERT_OK(ask_peer(talker, &request, &reply)); /* a caller that has spoken may stay */
	cn_wire_close(&reply);
	ASSERT_SYS(close(talker));
	cn_shared_event_drop(event);
}

TEST(callers_beyond_the_bound_are_sent_away_and_the_others_are_served)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	struct cn_parcel request = request_for(handle), reply;
	int socks[CLIENTS_MAX];

	for (int i = 0; i < CLIENTS_MAX; i++) {
		socks[i] = call_port(handle);
		ASSERT_OK(ask_peer(socks[i], &request, &reply));
		ASSERT_EQ(0, reply.message.result);
		cn_wire_close(&reply);
	}
	for (int i = 0; i < 3; i++)
		expect_closed(call_port(handle));
	for (int i = 0; i < CLIENTS_MAX; i++) {
		ASSERT_OK(ask_peer(socks[i], &request, &reply));
		cn_wire_close(&reply);
	}
	ASSERT_SYS(close(socks[0]));
	for (;;) { /* there is room once its end has been seen */
		socks[0] = call_port(handle);
		if (!ask_peer(socks[0], &request, &reply))
			break;
		ASSERT_SYS(close(socks[0]));
	}
	cn_wire_close(&reply);
	for (int i = 0; i < CLIENTS_MAX; i++)
		ASSERT_SYS(close(socks[i]));
	cn_shared_event_drop(event);
}

/* ---- Other users ---- */

/* Has the way to a port from before it became another user. */
ROLE(other_user)
{
	int path_fd = peer_receive_descriptor(parent), sock = -1;

	ASSERT_SYS(setuid(NOBODY));
	ASSERT_OK(connect_path(path_fd, &sock));
	expect_closed(sock);
	ASSERT_SYS(close(path_fd));
}

TEST(another_user_is_sent_away)
{
	unsigned char handle[CN_HANDLE_BYTES];
	char name[CN_SOCKET_NAME_CHARS + 1], path[512];

	if (geteuid())
		SKIP("only root can become another user");
	struct cn_shared_event *event = create(handle);
	name_of(handle, name);
	snprintf(path, sizeof path, "%s/%s", getenv("CENOTE_RUNTIME_DIR"), name);
	int path_fd = open(path, O_PATH | O_CLOEXEC);
	ASSERT_SYS(path_fd);
	struct peer *peer = peer_start("other_user");
	peer_send_descriptor(peer, path_fd);
	ASSERT_SYS(close(path_fd));
	/* Its own name stays, which it may not remove as another user. */
	leaks_watch(LEAK_DEFAULT & ~(unsigned)LEAK_FILES);
	peer_wait(peer);
	cn_shared_event_drop(event);
}

/* Listens as another user, where it is told. */
ROLE(impostor)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char byte;

	ASSERT_SYS(chdir(test_directory()));
	ASSERT_SYS(setuid(NOBODY));
	snprintf(address.sun_path, sizeof address.sun_path, "theirs/socket");
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ASSERT_SYS(listener);
	ASSERT_SYS(bind(listener, (struct sockaddr *)&address, sizeof address));
	ASSERT_SYS(listen(listener, 1));
	peer_send(parent, "listening");
	int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	ASSERT_SYS(sock);
	ASSERT_EQ(0, read(sock, &byte, 1)); /* not even a question */
	ASSERT_SYS(close(sock));
	ASSERT_SYS(close(listener));
	peer_expect(parent, "end");
}

TEST(another_users_port_is_asked_nothing)
{
	unsigned char handle[CN_HANDLE_BYTES];
	char name[CN_SOCKET_NAME_CHARS + 1], from[512], to[512];

	if (geteuid())
		SKIP("only root can become another user");
	struct cn_shared_event *event = create(handle);
	struct cn_handle parts = parts_of(handle);
	parts.port[0]++;
	forge(parts, handle);
	name_of(handle, name);

	snprintf(from, sizeof from, "%s/theirs", test_directory());
	ASSERT_SYS(mkdir(from, 0700));
	ASSERT_SYS(chown(from, NOBODY, NOBODY));
	ASSERT_SYS(chmod(test_directory(), 0711));
	struct peer *peer = peer_start("impostor");
	peer_expect(peer, "listening");
	snprintf(from, sizeof from, "%s/theirs/socket", test_directory());
	snprintf(to, sizeof to, "%s/%s", getenv("CENOTE_RUNTIME_DIR"), name);
	ASSERT_SYS(rename(from, to));
	expect_refusal(handle, cn_handle_refused(CN_HANDLE_EVENT), "runs as another user");
	ASSERT_SYS(unlink(to));
	leaks_watch(LEAK_DEFAULT & ~(unsigned)LEAK_FILES);
	peer_end(peer);
	cn_shared_event_drop(event);
}

/* ---- The name ---- */

static unsigned files_in_runtime_directory(void)
{
	unsigned account = test_on_gpu() ? 0 : 1; /* of the host device's memory */

	return test_file_count(getenv("CENOTE_RUNTIME_DIR")) - account;
}

TEST(the_name_goes_with_the_process_and_a_killed_ones_with_the_next)
{
	unsigned char handle[CN_HANDLE_BYTES];
	unsigned own = files_in_runtime_directory();
	struct peer *live = peer_start("creator"), *dead = peer_start("creator");

	peer_receive_bytes(dead, handle, sizeof handle);
	peer_receive_bytes(live, handle, sizeof handle);
	ASSERT_EQ(3 * own, files_in_runtime_directory());
	peer_kill(dead);
	ASSERT_EQ(3 * own, files_in_runtime_directory());
	sweep_names("bystander");
	ASSERT_EQ(2 * own, files_in_runtime_directory());
	cn_shared_event_drop(open_handle(handle)); /* the live one's */
	peer_end(live);
	ASSERT_EQ(own, files_in_runtime_directory());
}

/* Forks a child that ends as programs do, and goes on. */
ROLE(forker)
{
	unsigned char handle[CN_HANDLE_BYTES];
	struct cn_shared_event *event = create(handle);
	int status;

	peers_may_hold();
	pid_t child = fork();
	if (!child)
		exit(0);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	peer_send_bytes(parent, handle, sizeof handle);
	peer_expect(parent, "end");
	cn_shared_event_drop(event);
}

TEST(a_forked_child_that_ends_takes_no_name_away)
{
	struct peer *peer = peer_start("forker");
	unsigned char handle[CN_HANDLE_BYTES];

	peer_receive_bytes(peer, handle, sizeof handle);
	cn_shared_event_drop(open_handle(handle));
	peer_end(peer);
}

/* ---- An answer that is lost ---- */

/* A port by hand: it answers one question when it is told to, and reads what comes after it when it is told to. */
ROLE(slow_reader)
{
	struct cn_parcel question, parcel = {.message = {.kind = 0}};
	struct cn_parcel answer = {.message = {.kind = CN_MESSAGE_EVENT, .words = {1}}, .descriptor_count = 1};
	struct cn_socket port;

	ASSERT_OK(cn_wire_listen_named(false, &port));
	peer_send_bytes(parent, port.name, sizeof port.name);
	struct pollfd wanted = {.fd = port.listen_fd, .events = POLLIN};
	ASSERT_EQ(1, poll(&wanted, 1, -1));
	int sock = cn_wire_accept(port.listen_fd);
	ASSERT_SYS(sock);
	wanted.fd = sock;
	ASSERT_EQ(1, poll(&wanted, 1, -1));
	ASSERT_EQ(0, cn_wire_receive(sock, &question));
	peer_send(parent, "asked");
	peer_expect(parent, "answer");
	answer.message.request = question.message.request;
	answer.descriptors[0] = STDERR_FILENO;
	ASSERT_EQ(0, cn_wire_send(sock, &answer));
	peer_expect(parent, "read");
	while (parcel.message.kind != CN_MESSAGE_EVENT_FREED) {
		ASSERT_EQ(1, poll(&wanted, 1, -1));
		ASSERT_EQ(0, cn_wire_receive(sock, &parcel));
	}
	ASSERT_EQ(question.message.words[0], parcel.message.words[0]);
	peer_send(parent, "freed");
	peer_expect(parent, "end");
	close(sock);
	end_named(&port);
}

static void *open_in_vain(void *handle)
{
	expect_refusal(handle, CUDA_ERROR_OPERATING_SYSTEM, "more descriptors");
	return NULL;
}

/* Goal: what a creator has opened for us, and we could not have, is given back, if it must be later. */
TEST(an_answer_without_its_descriptor_is_given_back)
{
	struct peer *peer = peer_start("slow_reader");
	struct cn_handle handle = {
		.magic = CN_HANDLE_MAGIC, .version = CN_HANDLE_VERSION, .kind = CN_HANDLE_EVENT, .number = 5};
	struct cn_message filler = {.magic = CN_WIRE_MAGIC, .version = CN_WIRE_VERSION, .kind = CN_MESSAGE_EVENT};
	unsigned char bytes[CN_HANDLE_BYTES];
	char name[CN_SOCKET_NAME_CHARS + 1];
	struct rlimit limit, tight;
	pthread_t thread;

	peer_receive_bytes(peer, name, sizeof name);
	for (int i = 0; i < CN_PORT_NAME_BYTES; i++) {
		char digits[] = {name[2 * i], name[2 * i + 1], '\0'};
		handle.port[i] = (unsigned char)strtoul(digits, NULL, 16);
	}
	forge(handle, bytes);
	ASSERT_EQ(0, pthread_create(&thread, NULL, open_in_vain, bytes));
	peer_expect(peer, "asked");
	int sock = connection_to(peer_pid(peer));
	/* Not by the C library: to ThreadSanitizer the socket is another thread's. */
	while (syscall(SYS_sendto, sock, &filler, sizeof filler, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) > 0)
		;
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &limit));
	tight = limit;
	tight.rlim_cur = (rlim_t)dup(STDERR_FILENO); /* the lowest that is free */
	ASSERT_SYS(close((int)tight.rlim_cur));
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &tight));
	peer_send(peer, "answer");
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &limit));
	peer_send(peer, "read");
	peer_expect(peer, "freed");
	peer_end(peer);
}

/* ---- A process that hangs ---- */

/* Goal: an open ends, and its answer, when it comes after all, is thrown away and leaves nothing. */
TEST(a_process_that_hangs_is_not_waited_for_for_ever, .timeout_ms = 60000)
{
	struct peer *peer = peer_start("creator");
	unsigned char handle[CN_HANDLE_BYTES];

	peer_receive_bytes(peer, handle, sizeof handle);
	peer_stop(peer);
	expect_refusal(handle, CUDA_ERROR_OPERATING_SYSTEM, "does not answer");
	peer_continue(peer);
	cn_shared_event_drop(open_handle(handle)); /* its answer comes behind the late one */
	peer_end(peer);
}

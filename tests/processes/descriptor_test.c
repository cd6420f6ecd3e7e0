/* SPDX-License-Identifier: MIT */
/*
 * Descriptors over Unix sockets: they arrive, over every kind of socket, and nothing that a sender does wrong gets
 * through or leaks. The wrong messages are written by hand.
 */
#include "../sockets.h"
#include "cenote/cenote.h"
#include "harness.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TYPE_COUNT = 3, UNTOUCHED = -77, MAGIC_BYTES = 8, SENT_MAX = 253 };

static const char magic[MAGIC_BYTES + 1] = "\xcenotefd1";
static const int types[TYPE_COUNT] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};

static int open_something(void)
{
	int descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);

	ASSERT_SYS(descriptor);
	return descriptor;
}

/* Bytes with some copies of one descriptor beside them, as any program may send. */
static void send_by_hand(int sock, const void *bytes, size_t byte_count, int descriptor, size_t count)
{
	union {
		char bytes[CMSG_SPACE(SENT_MAX * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec part = {(void *)(uintptr_t)bytes, byte_count};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(count * sizeof(int));
		for (size_t i = 0; i < count; i++)
			memcpy(CMSG_DATA(header) + i * sizeof(int), &descriptor, sizeof(int));
	}
	ASSERT_EQ((ssize_t)byte_count, sendmsg(sock, &message, MSG_NOSIGNAL));
}

/* Receiving fails with this code and this in its sentence, writes nothing, and leaves nothing open. */
static void expect_refusal(int sock, CUresult code, const char *part)
{
	unsigned before = test_descriptor_count();
	int descriptor = UNTOUCHED;

	ASSERT_ERROR(code, cenote_recv_descriptor(sock, &descriptor));
	ASSERT_CONTAINS(part, cenote_last_error());
	ASSERT_EQ(UNTOUCHED, descriptor);
	ASSERT_EQ(before, test_descriptor_count());
}

/* And a proper descriptor still comes through. */
static void expect_it_works(const int ends[2])
{
	int sent = open_something(), received;

	ASSERT_OK(cenote_send_descriptor(ends[0], sent));
	ASSERT_OK(cenote_recv_descriptor(ends[1], &received));
	ASSERT(is_same_file(sent, received));
	ASSERT_SYS(close(received));
	ASSERT_SYS(close(sent));
}

/* ---- It works ---- */

TEST(arrives_over_every_kind_of_socket_and_closes_on_exec)
{
	for (int t = 0; t < TYPE_COUNT; t++) {
		int type = types[t];
		int ends[2], pipe_ends[2], received = -1;
		char byte = 0;

		make_pair(type, ends);
		ASSERT_SYS(pipe2(pipe_ends, O_CLOEXEC));
		ASSERT_OK(cenote_send_descriptor(ends[0], pipe_ends[1]));
		ASSERT_SYS(close(pipe_ends[1]));
		ASSERT_OK(cenote_recv_descriptor(ends[1], &received));
		ASSERT_EQ(FD_CLOEXEC, fcntl(received, F_GETFD));
		ASSERT_EQ(1, write(received, "x", 1));
		ASSERT_EQ(1, read(pipe_ends[0], &byte, 1));
		ASSERT_EQ('x', byte);
		ASSERT_SYS(close(received));
		ASSERT_SYS(close(pipe_ends[0]));
		close_pair(ends);
	}
}

TEST(many_keep_their_order_among_other_messages)
{
	enum { COUNT = 3 }; /* few: a datagram queue is short */

	for (int t = 0; t < TYPE_COUNT; t++) {
		int type = types[t];
		int ends[2], sent[COUNT], received;
		char word[4];

		make_pair(type, ends);
		for (int i = 0; i < COUNT; i++) {
			sent[i] = memfd_create("descriptor", MFD_CLOEXEC);
			ASSERT_SYS(sent[i]);
			ASSERT_OK(cenote_send_descriptor(ends[0], sent[i]));
			ASSERT_EQ(4, send(ends[0], "word", 4, 0));
		}
		for (int i = 0; i < COUNT; i++) {
			ASSERT_OK(cenote_recv_descriptor(ends[1], &received));
			ASSERT(is_same_file(sent[i], received));
			ASSERT_EQ(4, recv(ends[1], word, sizeof word, 0));
			ASSERT_MEMEQ("word", word, 4);
			ASSERT_SYS(close(received));
			ASSERT_SYS(close(sent[i]));
		}
		close_pair(ends);
	}
}

ROLE(maker_of_memory)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	int descriptor, sock = peer_receive_descriptor(parent);

	ASSERT_OK(cuInit(0));
	ASSERT_OK(cuMemCreate(&handle, 2 << 20, &properties, 0));
	ASSERT_OK(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ASSERT_OK(cenote_send_descriptor(sock, descriptor));
	ASSERT_SYS(close(descriptor));
	ASSERT_SYS(close(sock));
	ASSERT_OK(cuMemRelease(handle));
}

TEST(memory_of_a_process_that_has_ended_is_imported)
{
	for (int t = 0; t < TYPE_COUNT; t++) {
		int type = types[t];
		struct peer *peer = peer_start("maker_of_memory");
		CUmemGenericAllocationHandle handle;
		int ends[2], descriptor;

		make_pair(type, ends);
		peer_send_descriptor(peer, ends[0]);
		ASSERT_SYS(close(ends[0]));
		peer_wait(peer);
		ASSERT_OK(cenote_recv_descriptor(ends[1], &descriptor));
		ASSERT_OK(cuInit(0));
		ASSERT_OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)descriptor,
							 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
		ASSERT_OK(cuMemRelease(handle));
		ASSERT_SYS(close(descriptor));
		ASSERT_SYS(close(ends[1]));
	}
}

/* Goal: 0 is no handle for CUDA, and a daemon has closed 0, 1 and 2. */
TEST(never_gives_the_numbers_of_standard_streams)
{
	int ends[2], received = -1;

	make_pair(SOCK_SEQPACKET, ends);
	ASSERT_OK(cenote_send_descriptor(ends[0], ends[0]));
	int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
	ASSERT_SYS(saved);
	ASSERT_SYS(close(STDIN_FILENO));
	CUresult result = cenote_recv_descriptor(ends[1], &received);
	int stays_free = fcntl(STDIN_FILENO, F_GETFD);
	ASSERT_SYS(dup2(saved, STDIN_FILENO));
	ASSERT_SYS(close(saved));
	ASSERT_OK(result);
	ASSERT_GE(received, 3);
	ASSERT_EQ(-1, stays_free);
	ASSERT_EQ(FD_CLOEXEC, fcntl(received, F_GETFD));
	ASSERT_SYS(close(received));
	close_pair(ends);
}

/* ---- Wrong arguments ---- */

TEST(what_is_no_unix_socket_is_refused)
{
	int pipe_ends[2], ends[2], number, something = open_something();
	int inet = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ASSERT_SYS(pipe2(pipe_ends, O_CLOEXEC));
	make_pair(SOCK_STREAM, ends);
	close_pair(ends);
	int wrong[] = {-1, ends[0], pipe_ends[0], something, inet};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		if (wrong[i] == inet && inet < 0)
			continue; /* a kernel without networks */
		expect_refusal(wrong[i], CUDA_ERROR_INVALID_VALUE, "socket");
		ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_send_descriptor(wrong[i], something));
		ASSERT_CONTAINS("socket", cenote_last_error());
	}
	ASSERT_SYS(ioctl(pipe_ends[0], FIONREAD, &number));
	ASSERT_EQ(0, number);
	if (inet >= 0)
		ASSERT_SYS(close(inet));
	close_pair(pipe_ends);
	ASSERT_SYS(close(something));
}

TEST(what_is_not_open_is_not_sent)
{
	int ends[2];

	make_pair(SOCK_STREAM, ends);
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_send_descriptor(ends[0], -1));
	ASSERT_CONTAINS("-1 is not open", cenote_last_error());
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_send_descriptor(ends[0], 999));
	ASSERT_ERROR(CUDA_ERROR_INVALID_VALUE, cenote_recv_descriptor(ends[1], NULL));
	expect_it_works(ends);
	close_pair(ends);
}

/* ---- Wrong messages ---- */

TEST(a_message_without_a_descriptor_is_refused)
{
	for (int t = 0; t < TYPE_COUNT; t++) {
		int type = types[t];
		int ends[2];

		make_pair(type, ends);
		send_by_hand(ends[0], magic, MAGIC_BYTES, -1, 0);
		expect_refusal(ends[1], CUDA_ERROR_INVALID_HANDLE, "without a descriptor");
		expect_it_works(ends);
		close_pair(ends);
	}
}

/* Goal: room for one descriptor is, by its alignment, room for two; more than there is room for is cut. */
TEST(surplus_descriptors_are_closed)
{
	static const size_t counts[] = {2, 3, 100, 130, SENT_MAX};

	for (int t = 0; t < TYPE_COUNT; t++) {
		int type = types[t];
		int ends[2], something = open_something();

		make_pair(type, ends);
		for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
			send_by_hand(ends[0], magic, MAGIC_BYTES, something, counts[i]);
			expect_refusal(ends[1], CUDA_ERROR_INVALID_HANDLE, "more than one");
		}
		expect_it_works(ends);
		ASSERT_SYS(close(something));
		close_pair(ends);
	}
}

TEST(another_message_is_refused_and_its_descriptors_closed)
{
	static const char long_message[32] = "\xcenotefd1 and more";

	for (int t = 0; t < TYPE_COUNT; t++) {
		int type = types[t];
		int ends[2], something = open_something();

		make_pair(type, ends);
		send_by_hand(ends[0], "\xcenotefd9", MAGIC_BYTES, something, 1);
		expect_refusal(ends[1], CUDA_ERROR_INVALID_HANDLE, "the message received is not");
		send_by_hand(ends[0], "x", 1, something, 5);
		expect_refusal(ends[1], CUDA_ERROR_INVALID_HANDLE, "the message received is not");
		if (type != SOCK_STREAM) { /* where messages have an end */
			send_by_hand(ends[0], magic, 3, something, 1);
			expect_refusal(ends[1], CUDA_ERROR_INVALID_HANDLE, "3 bytes");
			send_by_hand(ends[0], long_message, sizeof long_message, something, 1);
			expect_refusal(ends[1], CUDA_ERROR_INVALID_HANDLE, "the message received is not");
		}
		if (type == SOCK_DGRAM) {
			send_by_hand(ends[0], "", 0, something, 1);
			expect_refusal(ends[1], CUDA_ERROR_INVALID_HANDLE, "0 bytes");
		}
		expect_it_works(ends);
		ASSERT_SYS(close(something));
		close_pair(ends);
	}
}

/* Goal: the kernel joins bytes without descriptors to those that follow, and hands the descriptors out with both. */
TEST(a_stream_that_is_out_of_step_is_seen)
{
	int ends[2], something = open_something();

	make_pair(SOCK_STREAM, ends);
	ASSERT_EQ(1, send(ends[0], "x", 1, 0));
	ASSERT_OK(cenote_send_descriptor(ends[0], something));
	expect_refusal(ends[1], CUDA_ERROR_INVALID_HANDLE, "the message received is not");
	ASSERT_SYS(close(something));
	close_pair(ends);
}

TEST(a_stream_may_bring_the_message_in_pieces)
{
	int ends[2], received, something = open_something();

	make_pair(SOCK_STREAM, ends);
	send_by_hand(ends[0], magic, 1, -1, 0);
	send_by_hand(ends[0], magic + 1, 3, something, 1); /* a read ends behind a descriptor */
	send_by_hand(ends[0], magic + 4, MAGIC_BYTES - 4, -1, 0);
	ASSERT_OK(cenote_recv_descriptor(ends[1], &received));
	ASSERT(is_same_file(something, received));
	ASSERT_SYS(close(received));

	/* A descriptor with each byte: one too many with the second. */
	for (int i = 0; i < MAGIC_BYTES; i++)
		send_by_hand(ends[0], magic + i, 1, something, 1);
	expect_refusal(ends[1], CUDA_ERROR_INVALID_HANDLE, "more than one");

	/* Half a message, and then no more. */
	send_by_hand(ends[0], magic, 4, something, 1);
	ASSERT_SYS(shutdown(ends[0], SHUT_WR));
	expect_refusal(ends[1], CUDA_ERROR_OPERATING_SYSTEM, "closed the connection");
	ASSERT_SYS(close(something));
	close_pair(ends);
}

/* ---- The other side, signals, limits ---- */

TEST(the_end_of_the_other_side_is_said)
{
	for (int t = 0; t < TYPE_COUNT; t++) {
		int type = types[t];
		int ends[2], something = open_something();

		make_pair(type, ends);
		ASSERT_SYS(close(ends[0]));
		if (type != SOCK_DGRAM)
			expect_refusal(ends[1], CUDA_ERROR_OPERATING_SYSTEM, "closed the connection");
		ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, cenote_send_descriptor(ends[1], something)); /* no SIGPIPE */
		ASSERT_CONTAINS("closed the connection", cenote_last_error());
		ASSERT_SYS(close(ends[1]));
		ASSERT_SYS(close(something));
	}
}

ROLE(killed_while_we_wait)
{
	close(peer_receive_descriptor(parent));
	peer_send(parent, "ready");
	pause();
}

TEST(a_killed_sender_ends_the_wait)
{
	struct peer *peer = peer_start("killed_while_we_wait");
	int ends[2];

	make_pair(SOCK_SEQPACKET, ends);
	peer_send_descriptor(peer, ends[0]);
	ASSERT_SYS(close(ends[0]));
	peer_expect(peer, "ready");
	peer_kill(peer);
	expect_refusal(ends[1], CUDA_ERROR_OPERATING_SYSTEM, "closed the connection");
	ASSERT_SYS(close(ends[1]));
}

TEST(a_socket_that_does_not_wait_says_not_ready)
{
	for (int t = 0; t < TYPE_COUNT; t++) {
		int type = types[t];
		int ends[2], received, count = 0, something = open_something();
		CUresult result;

		make_pair(type | SOCK_NONBLOCK, ends);
		expect_refusal(ends[1], CUDA_ERROR_NOT_READY, "no message has arrived");
		expect_it_works(ends);
		while (!(result = cenote_send_descriptor(ends[0], something)))
			count++;
		/* Either the socket is full or the user's limit of descriptors on their way is reached. */
		ASSERT(result == CUDA_ERROR_NOT_READY ||
		       (result == CUDA_ERROR_OPERATING_SYSTEM && strstr(cenote_last_error(), "in transit")));
		ASSERT_GT(count, 0);
		for (; count; count--) {
			ASSERT_OK(cenote_recv_descriptor(ends[1], &received));
			ASSERT_SYS(close(received));
		}
		expect_refusal(ends[1], CUDA_ERROR_NOT_READY, "no message has arrived");
		ASSERT_SYS(close(something));
		close_pair(ends);
	}
}

TEST(a_time_limit_of_the_socket_holds)
{
	struct timeval limit = {.tv_usec = 1000};
	int ends[2];

	make_pair(SOCK_STREAM, ends);
	ASSERT_SYS(setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
	expect_refusal(ends[1], CUDA_ERROR_NOT_READY, "no message has arrived");
	send_by_hand(ends[0], magic, 4, ends[0], 1);
	expect_refusal(ends[1], CUDA_ERROR_OPERATING_SYSTEM, "cannot receive");
	close_pair(ends);
}

static void ignore_signal(int number)
{
	(void)number;
}

struct receiver {
	int sock, say_id, received;
};

static void *receive_in_thread(void *argument)
{
	struct receiver *receiver = argument;
	pid_t id = gettid();

	ASSERT_EQ((ssize_t)sizeof id, write(receiver->say_id, &id, sizeof id));
	ASSERT_OK(cenote_recv_descriptor(receiver->sock, &receiver->received));
	return NULL;
}

static void wait_until_it_waits(pid_t thread)
{
	char path[64], state = 0;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
	while (state != 'S') {
		FILE *file = fopen(path, "re");
		ASSERT(file);
		ASSERT_EQ(1, fscanf(file, "%*d (%*[^)]) %c", &state));
		fclose(file);
		sched_yield();
	}
}

/* Goal: a handler without SA_RESTART interrupts the wait many times, and it goes on. */
TEST(goes_on_after_a_signal)
{
	struct sigaction action = {.sa_handler = ignore_signal};
	int ends[2], pipe_ends[2];
	pthread_t thread;
	pid_t id;

	make_pair(SOCK_STREAM, ends);
	ASSERT_SYS(pipe2(pipe_ends, O_CLOEXEC));
	ASSERT_SYS(sigaction(SIGUSR1, &action, NULL));
	struct receiver receiver = {.sock = ends[1], .say_id = pipe_ends[1]};
	ASSERT_EQ(0, pthread_create(&thread, NULL, receive_in_thread, &receiver));
	ASSERT_EQ((ssize_t)sizeof id, read(pipe_ends[0], &id, sizeof id));
	for (int i = 0; i < 50; i++) {
		wait_until_it_waits(id);
		ASSERT_EQ(0, pthread_kill(thread, SIGUSR1));
	}
	ASSERT_OK(cenote_send_descriptor(ends[0], ends[0]));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_SYS(close(receiver.received));
	close_pair(pipe_ends);
	close_pair(ends);
}

/* Goal: the kernel then delivers the bytes without the descriptor, as if nothing was wrong but a flag. */
TEST(no_room_for_a_descriptor_is_said)
{
	struct rlimit before, limit;

	ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &before));
	for (int t = 0; t < TYPE_COUNT; t++) {
		int type = types[t];
		int ends[2], received = UNTOUCHED, something = open_something();

		make_pair(type, ends);
		int next = fcntl(something, F_DUPFD_CLOEXEC, 0);
		ASSERT_SYS(next);
		ASSERT_SYS(close(next));
		limit = before;
		limit.rlim_cur = (rlim_t)next;
		for (size_t count = 1; count < 4; count++) {
			send_by_hand(ends[0], magic, MAGIC_BYTES, something, count);
			ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &limit));
			CUresult result = cenote_recv_descriptor(ends[1], &received);
			ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &before));
			ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, result);
			ASSERT_CONTAINS("ulimit -n", cenote_last_error());
			ASSERT_EQ(UNTOUCHED, received);
		}
		/* Room for one, and two come. */
		limit.rlim_cur = (rlim_t)next + 1;
		send_by_hand(ends[0], magic, MAGIC_BYTES, something, 2);
		ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &limit));
		CUresult result = cenote_recv_descriptor(ends[1], &received);
		ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &before));
		ASSERT_NE(CUDA_SUCCESS, result);
		next = fcntl(something, F_DUPFD_CLOEXEC, 0);
		ASSERT_EQ((rlim_t)next + 1, limit.rlim_cur); /* it is free again */
		ASSERT_SYS(close(next));
		expect_it_works(ends);
		ASSERT_SYS(close(something));
		close_pair(ends);
	}
}

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

/* Goal: what else a socket was told to deliver takes no room from the descriptor, and a pidfd is not taken for it. */
TEST(credentials_and_pidfds_beside_it_do_no_harm)
{
	for (int t = 0; t < TYPE_COUNT; t++) {
		int type = types[t];
		int ends[2], on = 1;

		make_pair(type, ends);
		ASSERT_SYS(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
		(void)setsockopt(ends[1], SOL_SOCKET, SO_PASSSEC, &on, sizeof on);   /* where there are labels */
		(void)setsockopt(ends[1], SOL_SOCKET, SO_PASSPIDFD, &on, sizeof on); /* from Linux 6.5 on */
		unsigned before = test_descriptor_count();
		expect_it_works(ends);
		ASSERT_EQ(before, test_descriptor_count());
		send_by_hand(ends[0], magic, MAGIC_BYTES, -1, 0);
		expect_refusal(ends[1], CUDA_ERROR_INVALID_HANDLE, "without a descriptor");
		close_pair(ends);
	}
}

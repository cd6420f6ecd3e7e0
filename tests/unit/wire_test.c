/* SPDX-License-Identifier: MIT */
/*
 * Messages between processes: they arrive, and nothing that a sender does wrong gets through or leaks. The wrong ones
 * are written by hand.
 */
#include "../ask.h"
#include "../sockets.h"
#include "harness.h"
#include "share/wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { DESCRIPTORS_MAX = 253 };

/* ---- Messages ---- */

TEST(a_message_arrives_with_its_descriptors)
{
	struct cn_parcel sent = {.message = {.kind = 7, .result = -3, .request = 1u << 31, .words = {1, 2, 3}},
				 .descriptor_count = 2};
	struct cn_parcel received;
	int ends[2];

	make_pair(SOCK_SEQPACKET, ends);
	memcpy(sent.message.bytes, "thirty-two bytes of something...", 32);
	for (int i = 0; i < 2; i++)
		ASSERT_SYS(sent.descriptors[i] = memfd_create("file", 0));
	for (unsigned count = 0; count <= 2; count++) {
		sent.descriptor_count = count;
		ASSERT_EQ(0, cn_wire_send(ends[0], &sent));
		ASSERT_EQ(0, cn_wire_receive(ends[1], &received));
		ASSERT_EQ(7, received.message.kind);
		ASSERT_EQ(-3, received.message.result);
		ASSERT_EQ(1u << 31, received.message.request);
		ASSERT_MEMEQ(sent.message.words, received.message.words, sizeof sent.message.words);
		ASSERT_MEMEQ(sent.message.bytes, received.message.bytes, 32);
		ASSERT_EQ(count, received.descriptor_count);
		for (unsigned i = 0; i < count; i++) {
			ASSERT(is_same_file(sent.descriptors[i], received.descriptors[i]));
			ASSERT_EQ(FD_CLOEXEC, fcntl(received.descriptors[i], F_GETFD));
		}
		cn_wire_close(&received);
		ASSERT_EQ(0, received.descriptor_count);
	}
	cn_wire_close(&sent);
	close_pair(ends);
}

TEST(descriptors_stay_out_of_the_way_of_standard_input_and_output)
{
	struct cn_parcel sent = {.descriptor_count = 2}, received;
	int ends[2];

	make_pair(SOCK_SEQPACKET, ends);
	sent.descriptors[0] = sent.descriptors[1] = STDERR_FILENO;
	int input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10), output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
	ASSERT_SYS(close(STDIN_FILENO));
	ASSERT_SYS(close(STDOUT_FILENO));
	ASSERT_EQ(0, cn_wire_send(ends[0], &sent));
	ASSERT_EQ(0, cn_wire_receive(ends[1], &received));
	ASSERT_GT(received.descriptors[0], 2);
	ASSERT_GT(received.descriptors[1], 2);
	cn_wire_close(&received);
	ASSERT_SYS(dup2(input, STDIN_FILENO));
	ASSERT_SYS(dup2(output, STDOUT_FILENO));
	ASSERT_SYS(close(input));
	ASSERT_SYS(close(output));
	close_pair(ends);
}

TEST(nothing_waits)
{
	struct cn_parcel parcel = {.message = {.kind = 1}};
	int ends[2], error, sent = 0, received = 0;

	make_pair(SOCK_SEQPACKET, ends);
	ASSERT_EQ(EAGAIN, cn_wire_receive(ends[1], &parcel));
	while (!(error = cn_wire_send(ends[0], &parcel)))
		sent++;
	ASSERT_EQ(EAGAIN, error);
	while (!(error = cn_wire_receive(ends[1], &parcel)))
		received++;
	ASSERT_EQ(EAGAIN, error);
	ASSERT_EQ(sent, received);
	close_pair(ends);
}

TEST(a_peer_that_has_closed_is_told_apart)
{
	struct cn_parcel parcel = {.message = {.kind = 1}};
	int ends[2];

	make_pair(SOCK_SEQPACKET, ends);
	ASSERT_EQ(0, cn_wire_send(ends[0], &parcel));
	ASSERT_SYS(close(ends[0]));
	ASSERT_EQ(0, cn_wire_receive(ends[1], &parcel)); /* what it had said is still heard */
	ASSERT_EQ(EPIPE, cn_wire_receive(ends[1], &parcel));
	ASSERT_EQ(EPIPE, cn_wire_send(ends[1], &parcel));
	ASSERT_SYS(close(ends[1]));

	make_pair(SOCK_SEQPACKET, ends);
	ASSERT_EQ(0, cn_wire_send(ends[1], &parcel));
	ASSERT_SYS(close(ends[0])); /* with a message that it has not read */
	ASSERT_EQ(EPIPE, cn_wire_receive(ends[1], &parcel));
	ASSERT_SYS(close(ends[1]));
}

static void send_by_hand(int sock, const void *bytes, size_t byte_count, size_t descriptor_count)
{
	union {
		char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec part = {(void *)(uintptr_t)bytes, byte_count};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	int descriptor = STDERR_FILENO;

	if (descriptor_count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(descriptor_count * sizeof(int));
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(descriptor_count * sizeof(int));
		for (size_t i = 0; i < descriptor_count; i++)
			memcpy(CMSG_DATA(header) + i * sizeof(int), &descriptor, sizeof(int));
	}
	ASSERT_EQ((ssize_t)byte_count, sendmsg(sock, &message, MSG_NOSIGNAL));
}

/* Receiving answers this, writes nothing and leaves nothing open; and the next message comes. */
static void expect_refusal(const int ends[2], int error)
{
	struct cn_parcel parcel = {.message = {.kind = 99}, .descriptor_count = 77};
	unsigned before = test_descriptor_count();

	ASSERT_EQ(error, cn_wire_receive(ends[1], &parcel));
	ASSERT_EQ(99, parcel.message.kind);
	ASSERT_EQ(77, parcel.descriptor_count);
	ASSERT_EQ(before, test_descriptor_count());
	ASSERT_EQ(0, cn_wire_send(ends[0], &(struct cn_parcel){.message = {.kind = 5}}));
	ASSERT_EQ(0, cn_wire_receive(ends[1], &parcel));
	ASSERT_EQ(5, parcel.message.kind);
}

TEST(what_is_no_message_is_refused_and_leaves_nothing)
{
	static const size_t counts[] = {0, 1, 3, 4, 60, DESCRIPTORS_MAX};
	struct {
		struct cn_message message;
		char more;
	} bytes = {.message = {.magic = CN_WIRE_MAGIC, .version = CN_WIRE_VERSION, .kind = 1}};
	const size_t whole = sizeof bytes.message;
	int ends[2];

	make_pair(SOCK_SEQPACKET, ends);
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		size_t count = counts[i];

		send_by_hand(ends[0], &bytes, whole + 1, count);
		expect_refusal(ends, EPROTO);
		send_by_hand(ends[0], &bytes, whole - 1, count);
		expect_refusal(ends, EPROTO);
		send_by_hand(ends[0], &bytes, 1, count);
		expect_refusal(ends, EPROTO);
		send_by_hand(ends[0], &bytes, 0, count); /* looks like the end */
		expect_refusal(ends, EPIPE);
		if (count > CN_WIRE_DESCRIPTORS_MAX) {
			send_by_hand(ends[0], &bytes, whole, count);
			expect_refusal(ends, EPROTO);
		}
		for (unsigned bit = 0; bit < 32; bit++) {
			bytes.message.magic ^= 1u << bit;
			send_by_hand(ends[0], &bytes, whole, count);
			expect_refusal(ends, EPROTO);
			bytes.message.magic ^= 1u << bit;
			bytes.message.version ^= 1u << bit;
			send_by_hand(ends[0], &bytes, whole, count);
			expect_refusal(ends, EPROTO);
			bytes.message.version ^= 1u << bit;
		}
	}
	close_pair(ends);
}

TEST(descriptors_for_which_there_is_no_room_are_lost_and_nothing_else)
{
	struct cn_message message = {.magic = CN_WIRE_MAGIC, .version = CN_WIRE_VERSION, .kind = 1};
	struct rlimit limit, tight;
	struct cn_parcel parcel;
	int ends[2], fillers[64] = {0}, count = 0;

	make_pair(SOCK_SEQPACKET, ends);
	ASSERT_SYS(getrlimit(RLIMIT_NOFILE, &limit));
	tight = limit;
	tight.rlim_cur = 48;
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &tight));
	while (count < 64 && (fillers[count] = dup(ends[0])) >= 0)
		count++;
	for (int room = 0; room < 2; room++) {
		send_by_hand(ends[0], &message, sizeof message, 2);
		ASSERT_EQ(EMFILE, cn_wire_receive(ends[1], &parcel));
		ASSERT_SYS(close(fillers[--count]));
	}
	send_by_hand(ends[0], &message, sizeof message, 2);
	ASSERT_EQ(0, cn_wire_receive(ends[1], &parcel));
	cn_wire_close(&parcel);
	ASSERT_SYS(setrlimit(RLIMIT_NOFILE, &limit));
	while (count)
		ASSERT_SYS(close(fillers[--count]));
	close_pair(ends);
}

/* ---- Questions ---- */

enum { SIGNALS_MIN = 20 };

struct answerer {
	int sock, wait_for; /* a pipe of which SIGNALS_MIN bytes are read first; -1: none */
	uint64_t offset;    /* the answer's number is the question's and this */
	bool silent;        /* closes the connection instead */
};

static void *answer(void *argument)
{
	struct answerer *answerer = argument;
	struct pollfd ready = {.fd = answerer->sock, .events = POLLIN};
	struct cn_parcel parcel;

	ASSERT_EQ(1, poll(&ready, 1, -1));
	ASSERT_EQ(0, cn_wire_receive(answerer->sock, &parcel));
	for (int i = 0; answerer->wait_for >= 0 && i < SIGNALS_MIN; i++) {
		char byte;
		ASSERT_EQ(1, read(answerer->wait_for, &byte, 1));
	}
	parcel.message.request += answerer->offset;
	parcel.descriptors[0] = STDERR_FILENO;
	parcel.descriptor_count = 1;
	if (answerer->silent)
		ASSERT_SYS(shutdown(answerer->sock, SHUT_RDWR));
	else
		ASSERT_EQ(0, cn_wire_send(answerer->sock, &parcel));
	return NULL;
}

static CUresult ask(struct answerer *answerer, struct cn_parcel *ret_reply)
{
	struct cn_parcel question = {.message = {.kind = 3, .request = 41}};
	pthread_t thread;
	sigset_t all, before;
	int ends[2];

	make_pair(SOCK_SEQPACKET, ends);
	answerer->sock = ends[1];
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ASSERT_EQ(0, pthread_create(&thread, NULL, answer, answerer));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	CUresult result = ask_peer(ends[0], &question, ret_reply);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	close_pair(ends);
	return result;
}

TEST(a_question_is_answered)
{
	struct answerer answerer = {.wait_for = -1};
	struct cn_parcel reply;

	ASSERT_OK(ask(&answerer, &reply));
	ASSERT_EQ(41, reply.message.request);
	ASSERT_EQ(3, reply.message.kind);
	ASSERT_EQ(1, reply.descriptor_count);
	cn_wire_close(&reply);
}

TEST(an_answer_to_another_question_is_an_error_and_leaves_nothing)
{
	struct answerer answerer = {.wait_for = -1, .offset = 1};
	struct cn_parcel reply = {.descriptor_count = 77};

	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, ask(&answerer, &reply));
	ASSERT_CONTAINS("another question", cn_last_error());
	ASSERT_EQ(77, reply.descriptor_count);
}

enum { LAST_WORDS = 3000 };

static void *answer_and_close(void *argument)
{
	for (int i = 0; i < LAST_WORDS; i++) {
		int sock, ready;
		struct cn_parcel parcel;

		ASSERT_EQ(sizeof sock, read(*(int *)argument, &sock, sizeof sock));
		struct pollfd wanted = {.fd = sock, .events = POLLIN};
		while ((ready = poll(&wanted, 1, -1)) == -1 && errno == EINTR)
			continue;
		ASSERT_EQ(1, ready);
		ASSERT_EQ(0, cn_wire_receive(sock, &parcel));
		ASSERT_EQ(0, cn_wire_send(sock, &parcel));
		close(sock);
	}
	return NULL;
}

/* Goal: an answer is heard though its sender has closed at once. */
TEST(last_words_are_heard)
{
	struct cn_parcel request = {.message = {.kind = 1, .request = 9}}, reply;
	int ends[2], queue[2];
	pthread_t thread;

	ASSERT_SYS(pipe2(queue, O_CLOEXEC));
	ASSERT_EQ(0, pthread_create(&thread, NULL, answer_and_close, &queue[0]));
	for (int i = 0; i < LAST_WORDS; i++) {
		make_pair(SOCK_SEQPACKET, ends);
		ASSERT_EQ(sizeof ends[1], write(queue[1], &ends[1], sizeof ends[1]));
		ASSERT_OK(ask_peer(ends[0], &request, &reply));
		ASSERT_SYS(close(ends[0]));
	}
	ASSERT_EQ(0, pthread_join(thread, NULL));
	close_pair(queue);
}

TEST(a_peer_that_closes_instead_of_answering_is_an_error)
{
	struct answerer answerer = {.wait_for = -1, .silent = true};
	struct cn_parcel reply;

	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, ask(&answerer, &reply));
	ASSERT_CONTAINS("closed the connection", cn_last_error());
}

static int signal_pipe[2];

static void count_signal(int number)
{
	(void)number;
	ASSERT_EQ(1, write(signal_pipe[1], "x", 1));
}

TEST(signals_do_not_disturb_a_question)
{
	struct sigaction action = {.sa_handler = count_signal}, before;
	struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	struct cn_parcel reply;

	ASSERT_SYS(pipe2(signal_pipe, O_CLOEXEC));
	struct answerer answerer = {.wait_for = signal_pipe[0]};
	ASSERT_SYS(sigaction(SIGALRM, &action, &before)); /* without SA_RESTART */
	ASSERT_SYS(setitimer(ITIMER_REAL, &often, NULL));
	ASSERT_OK(ask(&answerer, &reply));
	ASSERT_SYS(setitimer(ITIMER_REAL, &never, NULL));
	ASSERT_SYS(sigaction(SIGALRM, &before, NULL));
	cn_wire_close(&reply);
	close_pair(signal_pipe);
}

TEST(a_peer_that_does_not_answer_is_not_waited_for_for_ever)
{
	struct cn_parcel question = {.message = {.kind = 3}}, reply;
	int ends[2];

	make_pair(SOCK_SEQPACKET, ends);
	ASSERT_ERROR(CUDA_ERROR_OPERATING_SYSTEM, ask_peer(ends[0], &question, &reply));
	ASSERT_CONTAINS("the other process does not answer", cn_last_error());
	close_pair(ends);
}

/* SPDX-License-Identifier: MIT */
/*
 * Letting go of what strangers send, and asking them: neither takes longer than it may, whatever they do.
 */
#include "hostile.h"

#include "share/peer/peer.h"
#include "share/peer/service.h"

#include <sys/wait.h>

/* ---- Letting go -------------------------------------------------------------------------------------------------- */

/* A child forked now, which executes another program, does not wait for anything. */
static void check_fork(void)
{
	pid_t child = fork();
	int status;

	ASSERT_SYS(child);
	if (!child) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
}

/* Goal: what closes at once is closed at once, and so is what a stranger has sent and nobody read. */
TEST(ordinary_descriptors_are_closed)
{
	unsigned before = test_descriptor_count();
	int ends[2], fd = memory_file(4096, 0, 0);

	cn_wire_discard(fd);
	ASSERT_EQ(-1, fcntl(fd, F_GETFD));
	cn_wire_discard(-1);
	ASSERT_SYS(pipe2(ends, O_CLOEXEC));
	cn_wire_discard(ends[0]);
	cn_wire_discard(ends[1]);
	ASSERT_EQ(before, test_descriptor_count());
	ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	ASSERT_EQ(1, send(ends[0], "x", 1, 0));
	ASSERT_EQ(0, send(ends[0], "", 0, 0));
	close(ends[0]);
	cn_wire_hang_up(ends[1]);
	while (test_descriptor_count() != before)
		sched_yield();
}

/*
 * Goal: nobody waits for a socket that lingers, and no child has it; there is a bound to those of a user, and then no
 * more of its are taken in.
 */
TEST(closings_have_a_bound)
{
	int others[CN_WIRE_CLOSINGS_MAX], ends[2];
	const uid_t user = geteuid();
	struct cn_parcel parcel = parcel_of(CN_MESSAGE_PARTS, -1);
	unsigned before = test_descriptor_count();

	ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	ASSERT_EQ(0, cn_wire_send(ends[0], &parcel));
	for (unsigned i = 0; i < CN_WIRE_CLOSINGS_MAX; i++) {
		ASSERT(!cn_wire_is_stuck(user));
		cn_wire_discard_from(lingering_pair(&others[i]), user);
		check_fork();
	}
	ASSERT(cn_wire_is_stuck(user));
	ASSERT(!cn_wire_is_stuck(user + 1)); /* others go on */
	ASSERT(!cn_wire_is_stuck(CN_WIRE_NOBODY));
	ASSERT_EQ(EBUSY, cn_wire_receive(ends[1], &parcel));
	for (unsigned i = 0; i < CN_WIRE_CLOSINGS_MAX; i++)
		close(others[i]);
	while (cn_wire_is_stuck(user))
		sched_yield();
	ASSERT_EQ(0, cn_wire_receive(ends[1], &parcel));
	close(ends[0]);
	close(ends[1]);
	ASSERT_EQ(before, test_descriptor_count());
}

/* Goal: nobody waits either for what was sent and is not read. */
TEST(unread_descriptors_are_not_waited_for)
{
	unsigned before = test_descriptor_count();
	int ends[2], other, fd = lingering_pair(&other);
	struct cn_message message;

	ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	struct cn_parcel parcel = parcel_of(CN_MESSAGE_JOIN, fd);
	ASSERT_EQ(0, cn_wire_send(ends[0], &parcel));
	close(fd); /* it is on its way, and nowhere else */
	close(ends[0]);
	ASSERT_EQ(EPROTO, cn_wire_receive_message(ends[1], &message));
	ASSERT_EQ(EPROTO, cn_wire_receive_message(ends[1], &message)); /* and stays there */
	cn_wire_hang_up(ends[1]);
	close(other);
	while (test_descriptor_count() != before)
		sched_yield();
}

/* Goal: a file that only its server can close is discarded at once; a child forked then can execute another program. */
TEST(a_file_that_nobody_can_close)
{
	unsigned before = test_descriptor_count();
	pid_t server;
	int status, file = unclosable_file(0, &server);

	if (file < 0)
		SKIP("no file system can be mounted here (root and /dev/fuse are needed)");
	cn_wire_discard(file);
	ASSERT_EQ(before, test_descriptor_count());
	check_fork();
	ASSERT_SYS(kill(server, SIGKILL)); /* else this process could never end */
	ASSERT_EQ(server, waitpid(server, &status, 0));
}

/* ---- Asking ------------------------------------------------------------------------------------------------------ */

/* A peer that has always something to say: each word that is heard is followed by the next. */
static void say(int sock)
{
	struct cn_parcel parcel = parcel_of(CN_MESSAGE_PARTS, -1);

	parcel.message.request = 0;
	send_parcel(sock, parcel);
}

static int hear_and_say(struct cn_peer *peer, const struct cn_message *message)
{
	ASSERT_EQ(CN_MESSAGE_PARTS, message->kind);
	say(*(int *)peer->owner);
	return 0;
}

/*
 * Goal: to a peer that never stops talking the time is over as to one that is silent; where nothing may be said, at
 * once.
 */
TEST(a_chatty_peer_does_not_move_the_deadline)
{
	struct cn_peer_question question = {.request = parcel_of(CN_MESSAGE_PART, -1)};
	struct cn_parcel answer;
	int ends[2];

	for (unsigned i = 0; i < 2; i++) {
		const struct cn_peer_ops ops = {.hear = i ? NULL : hear_and_say};
		ASSERT_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
		struct cn_peer peer = {.channel.fd = ends[0], .ops = &ops, .owner = &ends[1]};
		say(ends[1]);
		ASSERT_EQ(i ? EPROTO : ETIMEDOUT, cn_peer_ask(&peer, &question, &answer));
		close(ends[0]);
		close(ends[1]);
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * Closing: see closing.h.
 *
 * close() takes a descriptor out of the table when it begins, but a thread that is about to call it cannot say when
 * that is. A child forked before would have the descriptor, and hang in exec. So the thread that discards a descriptor
 * waits until its number is free: as long as another thread takes to start, and not for the file. It must not look at
 * the descriptor for that: each call that is given one holds the file during the call, and whatever releases a file
 * last waits for it. So it tries to take the number.
 */
#include "share/wire/closing.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/thread.h"
#include "share/wire/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* Several users can be stuck before others have to wait for a thread. A message has at most 253 descriptors. */
enum { CLOSERS_MAX = 4 * CN_WIRE_CLOSINGS_MAX, WAITING_MAX = 4096, UNREAD_MAX = 1024 };
/* How long to wait until a close has begun. By then another thread may have the number, and that cannot be seen. */
#define CLOSE_BEGINS_NS 1000000000ull

struct closer {
	_Atomic bool busy;
	int descriptor; /* the first one */
	_Atomic uid_t sender;
	_Atomic uint64_t close_count; /* so far */
};

static struct {
	struct closer closers[CLOSERS_MAX];
	_Atomic unsigned busy_count;
	_Atomic uint64_t waiting[WAITING_MAX]; /* for a closer of the same sender: see pack() */
	_Atomic unsigned waiting_count;
} closing;

/* Closing a memory file or an O_PATH descriptor waits for no other process. */
static bool closes_at_once(int descriptor)
{
	return fcntl(descriptor, F_GET_SEALS) >= 0 || fcntl(descriptor, F_GETFL) & O_PATH;
}

/* ---- Descriptors that wait ---- */

/* Never 0, which is none. */
static uint64_t pack(int descriptor, uid_t sender)
{
	return (uint64_t)sender << 32 | ((uint64_t)(unsigned)descriptor + 1);
}

static uid_t sender_of(uint64_t packed)
{
	return (uid_t)(packed >> 32);
}

static int take_packed(unsigned place, uint64_t packed)
{
	if (!atomic_compare_exchange_strong(&closing.waiting[place], &packed, 0))
		return -1;
	atomic_fetch_sub(&closing.waiting_count, 1);
	return (int)((uint32_t)packed - 1);
}

static int take_waiting(uid_t sender)
{
	if (!atomic_load(&closing.waiting_count))
		return -1;
	for (unsigned i = 0; i < WAITING_MAX; i++) {
		uint64_t found = atomic_load(&closing.waiting[i]);
		int descriptor = found && sender_of(found) == sender ? take_packed(i, found) : -1;
		if (descriptor >= 0)
			return descriptor;
	}
	return -1;
}

/* Stays open if too many descriptors wait: no peer can make us accept that many. */
static void leave_waiting(int descriptor, uid_t sender)
{
	for (unsigned i = 0; i < WAITING_MAX; i++) {
		uint64_t none = 0;
		atomic_fetch_add(&closing.waiting_count, 1);
		if (atomic_compare_exchange_strong(&closing.waiting[i], &none, pack(descriptor, sender)))
			return;
		atomic_fetch_sub(&closing.waiting_count, 1);
	}
}

/* ---- Threads that close ---- */

static bool take_closer(struct closer *closer, uid_t sender)
{
	if (atomic_exchange(&closer->busy, true))
		return false;
	atomic_store(&closer->sender, sender);
	atomic_fetch_add(&closing.busy_count, 1);
	return true;
}

static void free_closer(struct closer *closer)
{
	atomic_fetch_sub(&closing.busy_count, 1);
	atomic_store(&closer->busy, false);
}

/* How many closers a user has. One that is taken just now may count for the user who had it before. */
static unsigned closers_of(uid_t sender)
{
	unsigned count = 0;

	if (!atomic_load(&closing.busy_count))
		return 0;
	for (unsigned i = 0; i < CLOSERS_MAX; i++)
		count += atomic_load(&closing.closers[i].busy) && atomic_load(&closing.closers[i].sender) == sender;
	return count;
}

static void *close_slowly(void *argument)
{
	struct closer *closer = argument;
	int descriptor = closer->descriptor;
	uid_t sender = atomic_load(&closer->sender);

	do {
		do {
			close(descriptor); /* this may wait */
			atomic_fetch_add(&closer->close_count, 1);
		} while ((descriptor = take_waiting(sender)) >= 0);
		free_closer(closer);
		/* A descriptor may have been queued just before that. */
	} while ((descriptor = take_waiting(sender)) >= 0 && take_closer(closer, sender));
	if (descriptor >= 0) /* another discard has this closer's record: its thread looks when it ends */
		cn_wire_discard_from(descriptor, sender);
	return NULL;
}

/* Have a thread close it. NULL: a thread will, later. */
static struct closer *hand_over(int descriptor, uid_t sender, uint64_t *ret_close_count)
{
	bool may_start = closers_of(sender) < CN_WIRE_CLOSINGS_MAX;

	for (unsigned i = 0; may_start && i < CLOSERS_MAX; i++) {
		struct closer *closer = &closing.closers[i];
		if (!take_closer(closer, sender))
			continue;
		closer->descriptor = descriptor;
		*ret_close_count = atomic_load(&closer->close_count);
		if (cn_thread_start(close_slowly, closer))
			return closer;
		free_closer(closer);
		break;
	}
	leave_waiting(descriptor, sender);
	return NULL;
}

/* Take a number, if it is free, and free it again. `other` is any descriptor of ours. */
static bool is_free(int descriptor, int other)
{
	int got = fcntl(other, F_DUPFD_CLOEXEC, descriptor);

	if (got >= 0)
		close(got);
	return got == descriptor;
}

void cn_wire_discard_from(int descriptor, uid_t sender)
{
	uint64_t close_count;

	if (descriptor < 0)
		return;
	if (closes_at_once(descriptor)) {
		close(descriptor);
		return;
	}
	int other = cn_descriptor_raise(open("/", O_PATH | O_CLOEXEC)); /* none is left where descriptors are short */
	const struct closer *closer = hand_over(descriptor, sender, &close_count);
	uint64_t deadline_ns = cn_clock_ns() + CLOSE_BEGINS_NS;
	while (closer && atomic_load(&closer->close_count) == close_count &&
	       !(other >= 0 && is_free(descriptor, other)) && cn_clock_ns() < deadline_ns)
		sched_yield();
	if (other >= 0)
		close(other);
}

void cn_wire_discard(int descriptor)
{
	cn_wire_discard_from(descriptor, CN_WIRE_NOBODY);
}

bool cn_wire_has_unclosed(void)
{
	return atomic_load_explicit(&closing.waiting_count, memory_order_relaxed) != 0;
}

/* Descriptors of a user that has all its threads are left to these. */
void cn_wire_close_again(void)
{
	uint64_t close_count;

	for (unsigned i = 0; i < WAITING_MAX && atomic_load(&closing.busy_count) < CLOSERS_MAX; i++) {
		uint64_t found = atomic_load(&closing.waiting[i]);
		if (!found || closers_of(sender_of(found)) >= CN_WIRE_CLOSINGS_MAX)
			continue;
		int descriptor = take_packed(i, found);
		if (descriptor >= 0 && !hand_over(descriptor, sender_of(found), &close_count))
			return; /* no thread can be started */
	}
}

/* ---- Who has sent it ---- */

uid_t cn_wire_sender(int sock)
{
	struct ucred who;

	return cn_wire_identify(sock, &who) ? who.uid : CN_WIRE_NOBODY;
}

bool cn_wire_is_stuck(uid_t sender)
{
	unsigned count = closers_of(sender);

	if (!atomic_load(&closing.waiting_count))
		return count >= CN_WIRE_CLOSINGS_MAX;
	for (unsigned i = 0; i < WAITING_MAX && count < CN_WIRE_CLOSINGS_MAX; i++) {
		uint64_t found = atomic_load(&closing.waiting[i]);
		count += found && sender_of(found) == sender;
	}
	return count >= CN_WIRE_CLOSINGS_MAX;
}

bool cn_wire_is_stuck_at(int sock)
{
	return (atomic_load(&closing.busy_count) || atomic_load(&closing.waiting_count)) &&
	       cn_wire_is_stuck(cn_wire_sender(sock));
}

/* ---- Connections ---- */

/* Peek at the next message, as recvmsg() does. *ret_more: it has control data, for which there was no room. */
static ssize_t peek(int sock, bool *ret_more)
{
	struct msghdr message = {0};
	ssize_t got;

	do /* the unread data of the peer is reported first, and once */
		got = recvmsg(sock, &message, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
	while (got < 0 && (errno == ECONNRESET || errno == EINTR));
	*ret_more = message.msg_flags & MSG_CTRUNC;
	return got;
}

/*
 * Read what is unread, now that nothing more can come. False: there are descriptors with it, or there is too much.
 * Credentials are asked for, to tell an empty message from the end: each message has some.
 */
static bool drain(int sock)
{
	struct msghdr message = {0};
	bool more;

	for (unsigned i = 0; i < UNREAD_MAX; i++) {
		ssize_t got = peek(sock, &more);
		if (more)
			return false;
		if (got <= 0)
			return got < 0 || setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) ||
			       (peek(sock, &more) <= 0 && !more);
		if (recvmsg(sock, &message, MSG_DONTWAIT) < 0 && errno != EINTR)
			return false;
	}
	return false;
}

/* Nothing can be sent after this, so what has not come by now never will. False: it has unread descriptors. */
static bool close_clean(int sock)
{
	if (!shutdown(sock, SHUT_RDWR) && !drain(sock))
		return false;
	close(sock);
	return true;
}

void cn_wire_hang_up(int sock)
{
	uint64_t close_count;

	if (!close_clean(sock))
		hand_over(sock, cn_wire_sender(sock), &close_count);
}

bool cn_wire_try_hang_up(int sock)
{
	uint64_t close_count;

	if (close_clean(sock))
		return true;
	uid_t sender = cn_wire_sender(sock);
	if (cn_wire_is_stuck(sender))
		return false;
	hand_over(sock, sender, &close_count);
	return true;
}

void cn_wire_turn_away(int listen_fd)
{
	int sock;

	shutdown(listen_fd, SHUT_RDWR);
	while ((sock = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		cn_wire_hang_up(sock);
}

int cn_wire_raise(int descriptor)
{
	if (descriptor < 0 || descriptor >= CN_DESCRIPTOR_LOWEST)
		return descriptor;
	int raised = fcntl(descriptor, F_DUPFD_CLOEXEC, CN_DESCRIPTOR_LOWEST), error = errno;
	cn_wire_discard(descriptor);
	errno = error;
	return raised;
}

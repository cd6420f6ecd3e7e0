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

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAITING_MAX = 512, UNREAD_MAX = 1024 };
/* How long to wait until a close has begun. By then another thread may have the number, and that cannot be seen. */
#define CLOSE_BEGINS_NS 1000000000ull

struct closer {
	_Atomic bool busy;
	int descriptor;               /* the first one */
	_Atomic uint64_t close_count; /* so far */
};

static struct {
	struct closer closers[CN_WIRE_CLOSINGS_MAX];
	_Atomic int waiting[WAITING_MAX]; /* descriptor + 1, for the next closer that is free; 0: none */
	_Atomic unsigned waiting_count;
} closing;

/* Closing a memory file or an O_PATH descriptor waits for no other process. */
static bool closes_at_once(int descriptor)
{
	return fcntl(descriptor, F_GET_SEALS) >= 0 || fcntl(descriptor, F_GETFL) & O_PATH;
}

static int take_waiting(void)
{
	if (!atomic_load(&closing.waiting_count))
		return -1;
	for (unsigned i = 0; i < WAITING_MAX; i++) {
		int found = atomic_load(&closing.waiting[i]) ? atomic_exchange(&closing.waiting[i], 0) : 0;
		if (!found)
			continue;
		atomic_fetch_sub(&closing.waiting_count, 1);
		return found - 1;
	}
	return -1;
}

static void *close_slowly(void *argument)
{
	struct closer *closer = argument;
	int descriptor = closer->descriptor;

	do {
		do {
			close(descriptor); /* this may wait */
			atomic_fetch_add(&closer->close_count, 1);
		} while ((descriptor = take_waiting()) >= 0);
		atomic_store(&closer->busy, false);
		/* A descriptor may have been queued just before that. */
	} while ((descriptor = take_waiting()) >= 0 && !atomic_exchange(&closer->busy, true));
	if (descriptor >= 0) /* another discard has this closer's record: its thread looks when it ends */
		cn_wire_discard(descriptor);
	return NULL;
}

/* Stays open if all closers are stuck and too many descriptors wait: no peer can make us accept that many. */
static void leave_waiting(int descriptor)
{
	for (unsigned i = 0; i < WAITING_MAX; i++) {
		int none = 0;
		atomic_fetch_add(&closing.waiting_count, 1);
		if (atomic_compare_exchange_strong(&closing.waiting[i], &none, descriptor + 1))
			return;
		atomic_fetch_sub(&closing.waiting_count, 1);
	}
}

/* Have a thread close it. NULL: a thread will, later. */
static struct closer *hand_over(int descriptor, uint64_t *ret_close_count)
{
	for (unsigned i = 0; i < CN_WIRE_CLOSINGS_MAX; i++) {
		struct closer *closer = &closing.closers[i];
		if (atomic_exchange(&closer->busy, true))
			continue;
		closer->descriptor = descriptor;
		*ret_close_count = atomic_load(&closer->close_count);
		if (cn_thread_start(close_slowly, closer))
			return closer;
		atomic_store(&closer->busy, false);
		break;
	}
	leave_waiting(descriptor);
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

void cn_wire_discard(int descriptor)
{
	uint64_t close_count;

	if (descriptor < 0)
		return;
	if (closes_at_once(descriptor)) {
		close(descriptor);
		return;
	}
	int other = cn_descriptor_raise(open("/", O_PATH | O_CLOEXEC)); /* none is left where descriptors are short */
	const struct closer *closer = hand_over(descriptor, &close_count);
	uint64_t deadline_ns = cn_clock_ns() + CLOSE_BEGINS_NS;
	while (closer && atomic_load(&closer->close_count) == close_count &&
	       !(other >= 0 && is_free(descriptor, other)) && cn_clock_ns() < deadline_ns)
		sched_yield();
	if (other >= 0)
		close(other);
}

bool cn_wire_has_unclosed(void)
{
	return atomic_load_explicit(&closing.waiting_count, memory_order_relaxed) != 0;
}

void cn_wire_close_again(void)
{
	uint64_t close_count;
	int descriptor;

	if (!cn_wire_is_stuck() && (descriptor = take_waiting()) >= 0)
		hand_over(descriptor, &close_count);
}

bool cn_wire_is_stuck(void)
{
	for (unsigned i = 0; i < CN_WIRE_CLOSINGS_MAX; i++)
		if (!atomic_load(&closing.closers[i].busy))
			return false;
	return true;
}

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

void cn_wire_hang_up(int sock)
{
	uint64_t close_count;

	/* Nothing can be sent after this, so what has not come by now never will. */
	if (!shutdown(sock, SHUT_RDWR) && !drain(sock))
		hand_over(sock, &close_count);
	else
		close(sock);
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

/* SPDX-License-Identifier: MIT */
/*
 * Peers: see peer.h.
 *
 * A descriptor is taken out of the table when close() begins, but a thread that is about to call it cannot say when
 * that is; and a child forked before would have the descriptor, and hang in exec. So whoever discards one waits until
 * its number is free: for as long as a thread takes to start, and not for the file. It must not look at the descriptor
 * for that. Each call that is given one holds the file meanwhile, and who lets go of a file last is who waits for it.
 * So it tries to take the number.
 */
#include "share/peer/peer.h"

#include "base/lock.h"
#include "base/thread.h"
#include "share/peer/service.h"
#include "share/wire/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* ---- Letting go ---- */

enum { WAITING_MAX = 512, UNREAD_MAX = 1024 };
/* How long is waited until a close has begun: another thread may have the number by then, and it cannot be seen. */
#define CLOSE_BEGINS_NS 1000000000ull

struct closer {
	_Atomic bool busy;
	int descriptor;               /* to begin with */
	_Atomic uint64_t close_count; /* so far */
};

static struct {
	struct closer closers[CN_PEER_CLOSINGS_MAX];
	_Atomic int waiting[WAITING_MAX]; /* descriptors and 1, for the next closer that is free; 0: none */
	_Atomic unsigned waiting_count;
} closing;

/* Memory files and mere paths have nobody to ask when they are closed. */
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
			close(descriptor); /* here it may wait */
			atomic_fetch_add(&closer->close_count, 1);
		} while ((descriptor = take_waiting()) >= 0);
		atomic_store(&closer->busy, false);
		/* One may have been left waiting just before that. */
	} while ((descriptor = take_waiting()) >= 0 && !atomic_exchange(&closer->busy, true));
	if (descriptor >= 0) /* another discard has this closer's record: its thread looks when it ends */
		cn_peer_discard(descriptor);
	return NULL;
}

/* Is left open if all closers are stuck and too many wait: no peer can have us take in that many. */
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

/* Have a thread close it. NULL: some thread will, later. */
static struct closer *hand_over(int descriptor, uint64_t *ret_close_count)
{
	for (unsigned i = 0; i < CN_PEER_CLOSINGS_MAX; i++) {
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

void cn_peer_discard(int descriptor)
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
	uint64_t deadline_ns = cn_service_now_ns() + CLOSE_BEGINS_NS;
	while (closer && atomic_load(&closer->close_count) == close_count &&
	       !(other >= 0 && is_free(descriptor, other)) && cn_service_now_ns() < deadline_ns)
		sched_yield();
	if (other >= 0)
		close(other);
}

bool cn_peer_has_waiting(void)
{
	return atomic_load_explicit(&closing.waiting_count, memory_order_relaxed) != 0;
}

void cn_peer_try_again(void)
{
	uint64_t close_count;
	int descriptor;

	if (!cn_peer_is_stuck() && (descriptor = take_waiting()) >= 0)
		hand_over(descriptor, &close_count);
}

bool cn_peer_is_stuck(void)
{
	for (unsigned i = 0; i < CN_PEER_CLOSINGS_MAX; i++)
		if (!atomic_load(&closing.closers[i].busy))
			return false;
	return true;
}

/* Look at the next message: what recvmsg() says; *ret_more: something is beside it for which there was no room. */
static ssize_t peek(int sock, bool *ret_more)
{
	struct msghdr message = {0};
	ssize_t got;

	do /* that the peer has not read all is said first, and once */
		got = recvmsg(sock, &message, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
	while (got < 0 && (errno == ECONNRESET || errno == EINTR));
	*ret_more = message.msg_flags & MSG_CTRUNC;
	return got;
}

/*
 * Read what nobody has read, now that nothing more can come. False: there are descriptors with it, or too much of it.
 * To tell an empty message from the end, credentials are asked for: each message has some.
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

void cn_peer_hang_up(int sock)
{
	uint64_t close_count;

	/* Nothing can be sent after this, so what has not come by now never will. */
	if (!shutdown(sock, SHUT_RDWR) && !drain(sock))
		hand_over(sock, &close_count);
	else
		close(sock);
}

void cn_peer_turn_away(int listen_fd)
{
	int sock;

	shutdown(listen_fd, SHUT_RDWR);
	while ((sock = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		cn_peer_hang_up(sock);
}

int cn_peer_raise(int descriptor)
{
	if (descriptor < 0 || descriptor >= CN_DESCRIPTOR_LOWEST)
		return descriptor;
	int raised = fcntl(descriptor, F_DUPFD_CLOEXEC, CN_DESCRIPTOR_LOWEST), error = errno;
	cn_peer_discard(descriptor);
	errno = error;
	return raised;
}

/* ---- Asking ---- */

/* An answer mostly takes less time than to fall asleep and be woken. */
enum { LOOK_NS = 200000, SHORTAGE_MS = 1 };
#define MILLISECOND_NS 1000000ull

static uint64_t deadline(void)
{
	return cn_service_now_ns() + CN_WIRE_TIMEOUT_MS * MILLISECOND_NS;
}

/* 0, or errno: ETIMEDOUT when the time is over first. */
static int wait_until(int sock, short events, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd wanted = {.fd = sock, .events = events};
		uint64_t now_ns = cn_service_now_ns();
		int count =
			poll(&wanted, 1, now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / MILLISECOND_NS) + 1 : 0);

		if (count > 0) /* or it is broken: the next call says how */
			return wanted.revents & POLLNVAL ? EBADF : 0;
		if (count < 0 && errno != EINTR && errno != ENOMEM)
			return errno;
		if (now_ns >= deadline_ns)
			return ETIMEDOUT;
		if (count < 0)
			sched_yield();
	}
}

/* Waits for room in the socket, and for memory in the system: neither is the peer's end. */
static int send_until(int sock, const struct cn_parcel *parcel, uint64_t deadline_ns)
{
	for (;;) {
		int error = cn_wire_send(sock, parcel);
		bool shortage = error == ENOBUFS || error == ENOMEM;

		if (error != EAGAIN && !shortage)
			return error;
		if (cn_service_now_ns() >= deadline_ns) /* also where there is room each time, and others take it */
			return shortage ? error : ETIMEDOUT;
		if (shortage)
			poll(NULL, 0, SHORTAGE_MS);
		else if ((error = wait_until(sock, POLLOUT, deadline_ns)))
			return error;
	}
}

int cn_peer_await(int sock, uint64_t deadline_ns)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	uint64_t now_ns = cn_service_now_ns(), until_ns = now_ns + LOOK_NS;

	/* Before anything else: to a peer that never stops talking the time is over, too. */
	if (now_ns >= deadline_ns)
		return ETIMEDOUT;
	do {
		if (poll(&wanted, 1, 0) == 1)
			return 0;
		sched_yield(); /* the other process may want this very processor */
	} while (cn_service_now_ns() < until_ns);
	return wait_until(sock, POLLIN, deadline_ns);
}

int cn_peer_tell(int sock, const struct cn_parcel *parcel)
{
	return send_until(sock, parcel, deadline());
}

int cn_peer_ask(int sock, const struct cn_parcel *request, cn_peer_hear *hear, void *data, struct cn_parcel *ret_answer)
{
	uint64_t deadline_ns = deadline();
	int error = send_until(sock, request, deadline_ns);

	while (!error && !(error = cn_peer_await(sock, deadline_ns))) {
		struct cn_parcel parcel;
		cn_service_hold_fork(); /* a child would have its descriptors */
		error = cn_wire_receive(sock, &parcel);
		if (!error && parcel.message.request == request->message.request) {
			*ret_answer = parcel;
			return 0;
		}
		if (!error) {
			cn_wire_close(&parcel);
			error = hear ? hear(data, &parcel.message) : EPROTO;
		}
		cn_service_allow_fork();
		if (error == EAGAIN)
			error = 0;
	}
	if (error == EPROTO)
		shutdown(sock, SHUT_RDWR); /* whoever else watches it is to see the end, too */
	return error;
}

const char *cn_peer_explain(int error)
{
	switch (error) {
	case EPIPE: return "the other process has closed the connection, or is gone";
	case ETIMEDOUT: return "the other process does not answer";
	case EPROTO: return "the answer is not a message of this version of Cenote, or answers another question";
	case EMFILE: return "the answer's descriptors were lost: the program cannot open more (ulimit -n)";
	case EBUSY: return "other processes have sent descriptors that cannot be closed, and no more are taken";
	case ETOOMANYREFS: return "this user has too many descriptors in transit that were not received yet";
	default: return strerror(error);
	}
}

/* ---- Who it is ---- */

int cn_peer_process(int sock, int *ret_fd)
{
	struct ucred who;
	socklen_t bytes = sizeof who;
	int fd = -1;

	*ret_fd = -1;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &(socklen_t){sizeof fd})) {
		fd = -1;
		if (errno != ENOPROTOOPT && errno != ENODATA)
			return errno == EINVAL ? ESRCH : errno;
		if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &bytes) || who.pid <= 0)
			return 0;
		fd = (int)syscall(SYS_pidfd_open, who.pid, 0);
		if (fd < 0)
			return errno == ENOSYS || errno == EPERM ? 0 : errno;
	}
	*ret_fd = cn_descriptor_raise(fd);
	return *ret_fd < 0 ? errno : 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Peers: see peer.h.
 */
#include "share/peer/peer.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/rank.h"
#include "share/peer/service.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* ---- Asking ---- */

/* An answer mostly takes less time than to fall asleep and be woken. */
enum { LOOK_NS = 200000, SHORTAGE_MS = 1 };

static uint64_t deadline(void)
{
	return cn_clock_ns() + CN_WIRE_TIMEOUT_MS * CN_MILLISECOND_NS;
}

/* 0, or errno: ETIMEDOUT when the time is over first. */
static int wait_until(int sock, short events, uint64_t deadline_ns)
{
	cn_might_wait();
	for (;;) {
		struct pollfd wanted = {.fd = sock, .events = events};
		uint64_t now_ns = cn_clock_ns();
		int count = poll(&wanted, 1,
				 now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / CN_MILLISECOND_NS) + 1 : 0);

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
		if (cn_clock_ns() >= deadline_ns) /* also where there is room each time, and others take it */
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
	uint64_t now_ns = cn_clock_ns(), until_ns = now_ns + LOOK_NS;

	/* Before anything else: to a peer that never stops talking the time is over, too. */
	if (now_ns >= deadline_ns)
		return ETIMEDOUT;
	do {
		if (poll(&wanted, 1, 0) == 1)
			return 0;
		sched_yield(); /* the other process may want this very processor */
	} while (cn_clock_ns() < until_ns);
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
		cn_fork_hold(); /* a child would have its descriptors */
		error = cn_wire_receive(sock, &parcel);
		if (!error && parcel.message.request == request->message.request) {
			*ret_answer = parcel;
			return 0;
		}
		if (!error) {
			cn_wire_close(&parcel);
			error = hear ? hear(data, &parcel.message) : EPROTO;
		}
		cn_fork_allow();
		if (error == EAGAIN)
			error = 0;
	}
	if (error == EPROTO)
		shutdown(sock, SHUT_RDWR); /* whoever else watches it is to see the end, too */
	return error;
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

/* SPDX-License-Identifier: MIT */
/*
 * Messages between processes.
 *
 * Neither sending nor receiving waits; asking does, with poll() and one deadline for the question and its answer. An
 * answer is looked for a while before poll() is called: mostly it takes less time than to fall asleep and be woken.
 */
#include "share/wire.h"
#include "base/lock.h"
#include "share/rights.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int cn_wire_send(int sock, const struct cn_parcel *parcel)
{
	struct cn_message bytes = parcel->message;
	struct iovec part = {&bytes, sizeof bytes};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	union cn_rights rights;
	ssize_t sent;

	bytes.magic = CN_WIRE_MAGIC;
	bytes.version = CN_WIRE_VERSION;
	cn_rights_put(&message, &rights, parcel->descriptors, parcel->descriptor_count);
	do
		sent = sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0) /* a peer that closes before it has read what we sent resets the connection */
		return errno == ECONNRESET ? EPIPE : errno;
	return 0;
}

/* Out of the way of 0, 1 and 2; on failure all are closed. */
static bool raise_descriptors(struct cn_parcel *parcel)
{
	for (unsigned i = 0; i < parcel->descriptor_count; i++) {
		parcel->descriptors[i] = cn_descriptor_raise(parcel->descriptors[i]);
		if (parcel->descriptors[i] < 0) {
			cn_wire_close(parcel);
			return false;
		}
	}
	return true;
}

int cn_wire_receive(int sock, struct cn_parcel *ret_parcel)
{
	struct cn_parcel parcel;
	struct iovec part = {&parcel.message, sizeof parcel.message};
	union cn_rights rights;
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = rights.bytes,
		.msg_controllen = sizeof rights.bytes,
	};
	ssize_t got = 0;

	/*
	 * The end of a peer may be told of before what it said last: that it has not read what we sent, first and
	 * once; and that it has closed, when it sends and closes just after the system has found nothing to receive.
	 * So look again, once.
	 */
	bool again = false, ended;
	do {
		got = recvmsg(sock, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		ended = (got == 0 && !message.msg_controllen) || (got < 0 && errno == ECONNRESET);
		if (ended && again)
			break;
		again = again || ended;
		if (ended)
			message.msg_controllen = sizeof rights.bytes;
	} while (ended || (got < 0 && errno == EINTR));
	if (got < 0 && errno == EAGAIN && again)
		return EPIPE;
	if (got < 0)
		return errno == ECONNRESET ? EPIPE : errno;

	unsigned came = cn_rights_take(&message, parcel.descriptors, CN_WIRE_DESCRIPTORS_MAX);
	parcel.descriptor_count = came < CN_WIRE_DESCRIPTORS_MAX ? came : CN_WIRE_DESCRIPTORS_MAX;
	int error = 0;
	if (got == 0) /* the end, or an empty message, which is nothing of ours and looks the same */
		error = EPIPE;
	else if (message.msg_flags & MSG_CTRUNC && (came <= CN_WIRE_DESCRIPTORS_MAX || cn_rights_full(sock)))
		error = EMFILE; /* there was room for many beside the message: what is missing had no number here */
	else if (got != sizeof parcel.message || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
		 came > CN_WIRE_DESCRIPTORS_MAX || parcel.message.magic != CN_WIRE_MAGIC ||
		 parcel.message.version != CN_WIRE_VERSION)
		error = EPROTO;
	if (error) {
		cn_wire_close(&parcel);
		return error;
	}
	if (!raise_descriptors(&parcel))
		return EMFILE;
	*ret_parcel = parcel;
	return 0;
}

void cn_wire_close(struct cn_parcel *parcel)
{
	for (unsigned i = 0; i < parcel->descriptor_count; i++)
		if (parcel->descriptors[i] >= 0)
			close(parcel->descriptors[i]);
	parcel->descriptor_count = 0;
}

/* ---- Questions ---- */

/* A pool's importer has to be let in before it is answered, which takes longer. */
enum { LOOK_NS = 50000, PAUSES_PER_LOOK = 16, AWAIT_NS = 200000, SHORTAGE_MS = 1 };

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t now_ms(void)
{
	return now_ns() / 1000000;
}

/* 0, or errno: ETIMEDOUT when the time is over first. */
static int wait_until(int sock, short events, int64_t deadline_ms)
{
	for (;;) {
		struct pollfd wanted = {.fd = sock, .events = events};
		int64_t left_ms = deadline_ms - now_ms();
		int count = poll(&wanted, 1, left_ms > 0 ? (int)left_ms : 0);

		if (count > 0) /* or it is broken: the next call says how */
			return wanted.revents & POLLNVAL ? EBADF : 0;
		if (count < 0 && errno != EINTR)
			return errno;
		if (left_ms <= 0)
			return ETIMEDOUT;
	}
}

/* Waits for room in the socket, and for memory in the system: neither is the peer's end. */
static int send_until(int sock, const struct cn_parcel *parcel, int64_t deadline_ms)
{
	for (;;) {
		int error = cn_wire_send(sock, parcel);
		bool shortage = error == ENOBUFS || error == ENOMEM;

		if ((error != EAGAIN && !shortage) || (shortage && now_ms() >= deadline_ms))
			return error;
		if (shortage)
			poll(NULL, 0, SHORTAGE_MS);
		else if ((error = wait_until(sock, POLLOUT, deadline_ms)))
			return error;
	}
}

int cn_wire_await(int sock, uint64_t deadline_ns)
{
	struct pollfd wanted = {.fd = sock, .events = POLLIN};
	int64_t until_ns = now_ns() + AWAIT_NS;

	do {
		if (poll(&wanted, 1, 0) == 1)
			return 0;
		sched_yield(); /* the other process may want this very processor */
	} while (now_ns() < until_ns);
	return wait_until(sock, POLLIN, (int64_t)(deadline_ns / 1000000));
}

/* EAGAIN: nothing has come so soon. */
static int look_for(int sock, struct cn_parcel *ret_parcel)
{
	int64_t until_ns = now_ns() + LOOK_NS;
	int error;

	while ((error = cn_wire_receive(sock, ret_parcel)) == EAGAIN && now_ns() < until_ns)
		for (int i = 0; i < PAUSES_PER_LOOK; i++)
			cn_cpu_relax();
	return error;
}

static int receive_until(int sock, int64_t deadline_ms, struct cn_parcel *ret_parcel)
{
	int error = look_for(sock, ret_parcel);

	if (error != EAGAIN)
		return error;
	while ((error = cn_wire_receive(sock, ret_parcel)) == EAGAIN)
		if ((error = wait_until(sock, POLLIN, deadline_ms)))
			break;
	return error;
}

static CUresult explain(int error, const char *what)
{
	const char *why = strerror(error);

	if (error == EPIPE)
		why = "the other process has closed the connection, or is gone";
	else if (error == EPROTO)
		why = "what the other process said is no message of this version of Cenote, or to another question";
	else if (error == ETIMEDOUT)
		why = "the other process does not answer";
	else if (error == EMFILE)
		why = "the answer's descriptors are lost: the program may not open any more (ulimit -n)";
	else if (error == ETOOMANYREFS)
		why = "more descriptors are on their way and not yet received than this user may have open";
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "%s: %s", what, why);
}

int cn_wire_tell(int sock, const struct cn_parcel *parcel)
{
	return send_until(sock, parcel, now_ms() + CN_WIRE_TIMEOUT_MS);
}

int cn_wire_exchange(int sock, const struct cn_parcel *request, struct cn_parcel *ret_reply)
{
	int64_t deadline_ms = now_ms() + CN_WIRE_TIMEOUT_MS;
	struct cn_parcel reply = {.descriptor_count = 0};
	int error = send_until(sock, request, deadline_ms);

	if (!error)
		error = receive_until(sock, deadline_ms, &reply);
	if (error)
		return error;
	if (reply.message.request != request->message.request) {
		cn_wire_close(&reply);
		return EPROTO;
	}
	*ret_reply = reply;
	return 0;
}

CUresult cn_wire_ask(int sock, const struct cn_parcel *request, const char *what, struct cn_parcel *ret_reply)
{
	int error = cn_wire_exchange(sock, request, ret_reply);

	return error ? explain(error, what) : CUDA_SUCCESS;
}

/* SPDX-License-Identifier: MIT */
/*
 * Messages between processes: sending and receiving, which never wait. Asking does: see peer.h.
 */
#include "share/wire/wire.h"
#include "share/wire/closing.h"
#include "share/wire/rights.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

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
		parcel->descriptors[i] = cn_wire_raise(parcel->descriptors[i]);
		if (parcel->descriptors[i] < 0) {
			cn_wire_close(parcel);
			return false;
		}
	}
	return true;
}

/*
 * Receive without waiting: the number of bytes, or -1 and errno (EPIPE: the peer has closed).
 *
 * The end of a peer may be reported before its last messages: if it has not read what we sent, that is reported first
 * and once; and if it sends and closes just after the system found nothing to receive, its end is. So look again, once.
 */
static ssize_t receive(int sock, struct msghdr *message, int flags)
{
	size_t room = message->msg_controllen;
	bool again = false, ended;
	ssize_t got;

	do {
		message->msg_controllen = room;
		got = recvmsg(sock, message, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		ended = (got == 0 && !message->msg_controllen && !(message->msg_flags & MSG_CTRUNC)) ||
			(got < 0 && errno == ECONNRESET);
		if (ended && again)
			break;
		again = again || ended;
	} while (ended || (got < 0 && errno == EINTR));
	if (got < 0 && (errno == ECONNRESET || (errno == EAGAIN && again)))
		errno = EPIPE;
	return got;
}

static bool is_message(const struct cn_message *message, ssize_t got, int flags)
{
	return got == sizeof *message && !(flags & (MSG_TRUNC | MSG_CTRUNC)) && message->magic == CN_WIRE_MAGIC &&
	       message->version == CN_WIRE_VERSION;
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

	if (cn_wire_is_stuck_at(sock))
		return EBUSY;
	ssize_t got = receive(sock, &message, 0);
	if (got < 0)
		return errno;
	parcel.sender = message.msg_controllen ? cn_wire_sender(sock) : CN_WIRE_NOBODY;
	unsigned came = cn_rights_take(&message, parcel.sender, parcel.descriptors, CN_WIRE_DESCRIPTORS_MAX);
	parcel.descriptor_count = came < CN_WIRE_DESCRIPTORS_MAX ? came : CN_WIRE_DESCRIPTORS_MAX;
	int error = 0;
	if (got == 0) /* the end, or an empty message, which is never ours and looks the same */
		error = EPIPE;
	else if (message.msg_flags & MSG_CTRUNC && (came <= CN_WIRE_DESCRIPTORS_MAX || cn_rights_full(sock)))
		error = EMFILE; /* the control buffer had room: what is missing found no free descriptor number */
	else if (!is_message(&parcel.message, got, message.msg_flags) || came > CN_WIRE_DESCRIPTORS_MAX)
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

int cn_wire_receive_message(int sock, struct cn_message *ret_message)
{
	struct cn_message bytes;
	struct iovec part = {&bytes, sizeof bytes};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t got = receive(sock, &message, MSG_PEEK);

	if (got < 0)
		return errno;
	if (message.msg_flags & MSG_CTRUNC)
		return EPROTO; /* not taken out of the socket: the kernel would close what is beside it */
	got = receive(sock, &message, 0);
	if (got <= 0)
		return got ? errno : EPIPE;
	if (!is_message(&bytes, got, message.msg_flags))
		return EPROTO;
	*ret_message = bytes;
	return 0;
}

void cn_wire_close(struct cn_parcel *parcel)
{
	for (unsigned i = 0; i < parcel->descriptor_count; i++)
		cn_wire_discard_from(parcel->descriptors[i], parcel->sender);
	parcel->descriptor_count = 0;
}

const char *cn_wire_explain(int error)
{
	switch (error) {
	case EPIPE: return "the other process has closed the connection, or is gone";
	case ETIMEDOUT: return "the other process does not answer";
	case EPROTO: return "the answer is not a message of this version of Cenote, or answers another question";
	case EMFILE: return "the answer was lost: the program cannot open more descriptors (ulimit -n)";
	case EBUSY: return "other processes have sent descriptors that cannot be closed, and no more are taken";
	case ETOOMANYREFS: return "this user has too many descriptors in transit that were not received yet";
	default: return strerror(error);
	}
}

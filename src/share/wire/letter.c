/* SPDX-License-Identifier: MIT */
/*
 * Letters over a program's own Unix socket.
 *
 * What comes is not trusted. All descriptors are closed again (rights.h), except a single one in a letter that has one.
 *
 * A stream has no message borders: the bytes may come in pieces, or behind bytes that something else left there. The
 * first eight are compared as they come, so that a wrong one is seen at once and not only when a whole letter has come.
 */
#include "share/wire/letter.h"
#include "base/guard.h"
#include "share/wire/closing.h"
#include "share/wire/rights.h"
#include "share/wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LETTER_BYTES_MAX = CN_LETTER_MAGIC_BYTES + CN_LETTER_BODY_BYTES_MAX };

/* What has come so far. */
struct arrival {
	unsigned char bytes[LETTER_BYTES_MAX];
	size_t byte_count, byte_total;
	int descriptor; /* the first one; -1: none */
	unsigned descriptor_count;
	bool cut, too_long; /* the control data, the message */
};

static CUresult check_socket(int sock, int *ret_type)
{
	int domain;
	socklen_t bytes = sizeof domain;

	if (getsockopt(sock, SOL_SOCKET, SO_DOMAIN, &domain, &bytes))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "descriptor %d is not a socket: %s", sock, strerror(errno));
	if (domain != AF_UNIX)
		return cn_error(CUDA_ERROR_INVALID_VALUE,
				"socket %d is not a Unix socket: no other carries descriptors", sock);
	bytes = sizeof *ret_type;
	if (getsockopt(sock, SOL_SOCKET, SO_TYPE, ret_type, &bytes))
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the socket's type is not known: %s", strerror(errno));
	return CUDA_SUCCESS;
}

static bool would_wait(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK;
}

/* ---- Sending ---- */

static CUresult explain_send(int error)
{
	if (would_wait(error))
		return cn_error(CUDA_ERROR_NOT_READY, "the socket is full, and does not wait longer");
	if (error == EPIPE || error == ECONNRESET || error == ECONNREFUSED)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the other side has closed the connection: %s",
				strerror(error));
	if (error == ETOOMANYREFS)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"this user has too many descriptors in transit that were not received yet");
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "cannot send: %s", strerror(error));
}

CUresult cn_letter_send(int sock, const struct cn_letter_kind *kind, const void *body, int descriptor)
{
	unsigned char bytes[LETTER_BYTES_MAX];
	union cn_rights rights;
	struct iovec part = {bytes, CN_LETTER_MAGIC_BYTES + kind->body_bytes};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t sent;
	int type;
	CUresult result = check_socket(sock, &type);

	if (result)
		return result;
	if (kind->with_descriptor && fcntl(descriptor, F_GETFD) < 0)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "descriptor %d is not open", descriptor);
	memcpy(bytes, kind->magic, sizeof kind->magic);
	if (kind->body_bytes)
		memcpy(bytes + sizeof kind->magic, body, kind->body_bytes);
	cn_rights_put(&message, &rights, &descriptor, kind->with_descriptor);
	do
		sent = sendmsg(sock, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return explain_send(errno);
	if ((size_t)sent != part.iov_len) /* Linux takes so few bytes as a whole or not at all */
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "only %zd of %zu bytes were sent", sent, part.iov_len);
	return CUDA_SUCCESS;
}

/* ---- Receiving ---- */

/* Keep the first descriptor that ever came, close every other. */
static void take_descriptors(struct msghdr *message, struct arrival *arrival)
{
	bool first = arrival->descriptor_count == 0;

	arrival->descriptor_count += cn_rights_take(message, CN_WIRE_NOBODY, &arrival->descriptor, first ? 1 : 0);
}

/* The next message, or the next piece of a stream. */
static CUresult receive_some(int sock, struct arrival *arrival)
{
	union cn_rights rights;
	struct iovec part = {arrival->bytes + arrival->byte_count, arrival->byte_total - arrival->byte_count};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = rights.bytes,
		.msg_controllen = sizeof rights.bytes,
	};
	ssize_t got;

	do
		got = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0) { /* then the control data was not written, and must not be read */
		if (would_wait(errno) && !arrival->byte_count)
			return cn_error(CUDA_ERROR_NOT_READY,
					"no message has arrived, and the socket does not wait longer");
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "cannot receive: %s", strerror(errno));
	}
	take_descriptors(&message, arrival);
	arrival->cut |= (message.msg_flags & MSG_CTRUNC) != 0;
	arrival->too_long |= (message.msg_flags & MSG_TRUNC) != 0;
	arrival->byte_count += (size_t)got;
	return CUDA_SUCCESS;
}

static CUresult check_bytes(const struct arrival *arrival, size_t count_before, int type,
			    const struct cn_letter_kind *kind)
{
	size_t known = arrival->byte_count < sizeof kind->magic ? arrival->byte_count : sizeof kind->magic;

	if (arrival->byte_count == count_before && type != SOCK_DGRAM)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the other side has closed the connection");
	if (arrival->too_long || memcmp(arrival->bytes, kind->magic, known) != 0)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "the message received is not one that %s sends",
				kind->sender);
	if (arrival->byte_count < arrival->byte_total && type != SOCK_STREAM)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "received only %zu bytes of a message of %s",
				arrival->byte_count, kind->sender);
	return CUDA_SUCCESS;
}

static CUresult check_descriptor(int sock, const struct arrival *arrival)
{
	if (arrival->cut && cn_rights_full(sock))
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"a received descriptor was lost: too many are open (ulimit -n)");
	if (arrival->descriptor_count > 1 || (arrival->cut && arrival->descriptor_count))
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "more than one descriptor was received; all are closed");
	if (arrival->cut)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"the system did not deliver the descriptor that came with the message");
	if (!arrival->descriptor_count)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "the message was received without a descriptor");
	return CUDA_SUCCESS;
}

static CUresult check_no_descriptor(const struct arrival *arrival)
{
	if (arrival->descriptor_count)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "an unexpected descriptor was received; it is closed");
	return CUDA_SUCCESS;
}

static CUresult move_up(int *descriptor)
{
	*descriptor = cn_wire_raise(*descriptor);
	if (*descriptor < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor above 2 could be made: %s",
				strerror(errno));
	return CUDA_SUCCESS;
}

CUresult cn_letter_receive(int sock, const struct cn_letter_kind *kind, void *ret_body, int *ret_descriptor)
{
	struct arrival arrival = {.descriptor = -1, .byte_total = sizeof kind->magic + kind->body_bytes};
	int type;
	CUresult result = check_socket(sock, &type);

	if (result)
		return result;
	if (cn_wire_is_stuck(CN_WIRE_NOBODY))
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "cannot receive: %s", cn_wire_explain(EBUSY));
	do {
		size_t count_before = arrival.byte_count;
		result = receive_some(sock, &arrival);
		if (!result)
			result = check_bytes(&arrival, count_before, type, kind);
	} while (!result && arrival.byte_count < arrival.byte_total);
	if (!result)
		result = kind->with_descriptor ? check_descriptor(sock, &arrival) : check_no_descriptor(&arrival);
	if (!result && kind->with_descriptor)
		result = move_up(&arrival.descriptor);
	if (result) {
		cn_wire_discard(arrival.descriptor);
		return result;
	}
	if (kind->body_bytes)
		memcpy(ret_body, arrival.bytes + sizeof kind->magic, kind->body_bytes);
	if (kind->with_descriptor)
		*ret_descriptor = arrival.descriptor;
	return CUDA_SUCCESS;
}

/* ---- A descriptor alone ---- */

static const struct cn_letter_kind descriptor_kind = {
	.magic = {0xce, 'n', 'o', 't', 'e', 'f', 'd', '1'},
	.with_descriptor = true,
	.sender = "cenote_send_descriptor() or cenote_send_pool()",
};

CUresult cn_letter_send_descriptor(int sock, int descriptor)
{
	return cn_letter_send(sock, &descriptor_kind, NULL, descriptor);
}

CUresult cn_letter_receive_descriptor(int sock, int *ret_descriptor)
{
	if (!ret_descriptor)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "ret_descriptor is NULL");
	if (!cn_guard_check_write(ret_descriptor, sizeof *ret_descriptor, "ret_descriptor"))
		return CUDA_ERROR_INVALID_VALUE;
	return cn_letter_receive(sock, &descriptor_kind, NULL, ret_descriptor);
}

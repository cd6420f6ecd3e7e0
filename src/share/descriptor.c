/* SPDX-License-Identifier: MIT */
/*
 * A descriptor over a Unix socket, one message each.
 *
 * The message is eight fixed bytes and one descriptor beside them. The bytes tell our message from any other, so that
 * two programs which disagree about whose turn it is get an error and not a descriptor for something else.
 *
 * What comes is a stranger's. Whatever descriptors there are, all but a single one in a message of ours are closed
 * again; the kernel itself drops those for which there is no room, and says so (MSG_CTRUNC). There is room for many,
 * and for the other things that a socket may have been told to deliver beside them: credentials, a label, a pidfd.
 *
 * A stream has no borders: the bytes may come in pieces, or behind bytes that somebody else left there. They are
 * compared as they come, so that a wrong one is seen at once and not only when eight have come.
 */
#include "share/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MAGIC_BYTES = 8,
	CONTROL_BYTES = 512,
	CONTROL_PIDFD = 4, /* SCM_PIDFD, where the C library does not know it */
	LOWEST = 3,        /* 0, 1 and 2 have a meaning for programs, and 0 is no handle for CUDA */
};

static const unsigned char magic[MAGIC_BYTES] = {0xce, 'n', 'o', 't', 'e', 'f', 'd', '1'};

union control {
	char bytes[CONTROL_BYTES];
	struct cmsghdr align;
};

/* What has come so far. */
struct arrival {
	unsigned char bytes[MAGIC_BYTES];
	size_t byte_count;
	int descriptor; /* the first one; -1: none */
	int descriptor_count;
	bool cut, too_long; /* the control data, the message */
};

static CUresult check_socket(int sock, int *ret_type)
{
	int domain;
	socklen_t bytes = sizeof domain;

	if (getsockopt(sock, SOL_SOCKET, SO_DOMAIN, &domain, &bytes))
		return cn_error(CUDA_ERROR_INVALID_VALUE, "%d is not a socket: %s", sock, strerror(errno));
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
		return cn_error(CUDA_ERROR_NOT_READY, "the socket is full, and was told not to wait longer");
	if (error == EPIPE || error == ECONNRESET || error == ECONNREFUSED)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the other side has closed the connection: %s",
				strerror(error));
	if (error == ETOOMANYREFS)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"more descriptors are on their way and not yet received than this user may have open");
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the descriptor could not be sent: %s", strerror(error));
}

CUresult cn_descriptor_send(int sock, int descriptor)
{
	unsigned char bytes[MAGIC_BYTES];
	union control control = {{0}};
	struct iovec part = {bytes, sizeof bytes};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(sizeof descriptor),
	};
	ssize_t sent;
	int type;
	CUresult result = check_socket(sock, &type);

	if (result)
		return result;
	if (fcntl(descriptor, F_GETFD) < 0)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "descriptor %d is not open", descriptor);
	memcpy(bytes, magic, sizeof bytes);
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof descriptor);
	memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
	do
		sent = sendmsg(sock, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return explain_send(errno);
	if (sent != sizeof bytes) /* Linux takes so little as a whole or not at all */
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "only %zd of %zu bytes were sent", sent, sizeof bytes);
	return CUDA_SUCCESS;
}

/* ---- Receiving ---- */

/* Keep the first descriptor that ever came, close every other. */
static void take_descriptors(struct msghdr *message, struct arrival *arrival)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET ||
		    (header->cmsg_type != SCM_RIGHTS && header->cmsg_type != CONTROL_PIDFD))
			continue;
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int descriptor;
			memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
			if (header->cmsg_type == CONTROL_PIDFD) {
				close(descriptor);
				continue;
			}
			if (arrival->descriptor_count++ == 0)
				arrival->descriptor = descriptor;
			else
				close(descriptor);
		}
	}
}

/* The next message, or the next piece of a stream. */
static CUresult receive_some(int sock, struct arrival *arrival)
{
	union control control;
	struct iovec part = {arrival->bytes + arrival->byte_count, MAGIC_BYTES - arrival->byte_count};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes,
	};
	ssize_t got;

	do
		got = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0) { /* then nothing was written to the control data, and nothing may be read from it */
		if (would_wait(errno) && !arrival->byte_count)
			return cn_error(CUDA_ERROR_NOT_READY,
					"nothing has come, and the socket was told not to wait longer");
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor could be received: %s", strerror(errno));
	}
	take_descriptors(&message, arrival);
	arrival->cut |= (message.msg_flags & MSG_CTRUNC) != 0;
	arrival->too_long |= (message.msg_flags & MSG_TRUNC) != 0;
	arrival->byte_count += (size_t)got;
	return CUDA_SUCCESS;
}

/* Is there no number left for one more descriptor? Asked of the system, with one that is surely open. */
static bool is_full(int sock)
{
	int probe = fcntl(sock, F_DUPFD_CLOEXEC, 0);

	if (probe < 0)
		return true;
	close(probe);
	return false;
}

static CUresult check_bytes(const struct arrival *arrival, size_t count_before, int type)
{
	if (arrival->byte_count == count_before && type != SOCK_DGRAM)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the other side has closed the connection");
	if (arrival->too_long || memcmp(arrival->bytes, magic, arrival->byte_count) != 0)
		return cn_error(CUDA_ERROR_INVALID_HANDLE,
				"what came is another message than cenote_send_descriptor()'s");
	if (arrival->byte_count < MAGIC_BYTES && type != SOCK_STREAM)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "what came is only %zu bytes of a descriptor's message",
				arrival->byte_count);
	return CUDA_SUCCESS;
}

static CUresult check_descriptor(int sock, const struct arrival *arrival)
{
	if (arrival->cut && is_full(sock))
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"a descriptor came and is lost: the program may not open any more (ulimit -n)");
	if (arrival->descriptor_count > 1 || (arrival->cut && arrival->descriptor_count))
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "more than one descriptor came; all are closed");
	if (arrival->cut)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"the system did not hand over what came beside the message");
	if (!arrival->descriptor_count)
		return cn_error(CUDA_ERROR_INVALID_HANDLE, "the message came without a descriptor");
	return CUDA_SUCCESS;
}

/* Out of the way of standard input, output and error, which a daemon may have closed. */
static CUresult move_up(int *descriptor)
{
	if (*descriptor >= LOWEST)
		return CUDA_SUCCESS;
	int moved = fcntl(*descriptor, F_DUPFD_CLOEXEC, LOWEST);
	if (moved < 0)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "no descriptor above %d could be made: %s", LOWEST - 1,
				strerror(errno));
	close(*descriptor);
	*descriptor = moved;
	return CUDA_SUCCESS;
}

CUresult cn_descriptor_receive(int sock, int *ret_descriptor)
{
	struct arrival arrival = {.descriptor = -1};
	int type;

	if (!ret_descriptor)
		return cn_error(CUDA_ERROR_INVALID_VALUE, "nowhere to put the descriptor: ret_descriptor is NULL");
	CUresult result = check_socket(sock, &type);
	if (result)
		return result;
	do {
		size_t count_before = arrival.byte_count;
		result = receive_some(sock, &arrival);
		if (!result)
			result = check_bytes(&arrival, count_before, type);
	} while (!result && arrival.byte_count < MAGIC_BYTES);
	if (!result)
		result = check_descriptor(sock, &arrival);
	if (!result)
		result = move_up(&arrival.descriptor);
	if (result) {
		if (arrival.descriptor >= 0)
			close(arrival.descriptor);
		return result;
	}
	*ret_descriptor = arrival.descriptor;
	return CUDA_SUCCESS;
}

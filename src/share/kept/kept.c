/* SPDX-License-Identifier: MIT */
/*
 * Messages about kept memory: checking, sending and receiving, which never wait. See kept.h.
 */
#include "share/kept/kept.h"

#include "base/segment.h"
#include "share/wire/closing.h"
#include "share/wire/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static const char name_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+@:=-";

#define BYTES_MAX ((uint64_t)1 << 60) /* of an object */

/* ---- Checking ---- */

static bool is_component(const char *start, size_t length)
{
	bool dots = (length == 1 && start[0] == '.') || (length == 2 && start[0] == '.' && start[1] == '.');

	return length && !dots && strspn(start, name_characters) >= length;
}

bool cn_kept_is_name(const char *name)
{
	size_t length = strnlen(name, CN_KEPT_NAME_BYTES);

	if (!length || length == CN_KEPT_NAME_BYTES)
		return false;
	for (const char *start = name;;) {
		size_t part = strcspn(start, "/");
		if (!is_component(start, part))
			return false;
		if (!start[part])
			return true;
		start += part + 1;
	}
}

bool cn_kept_is_prefix(const char *text)
{
	size_t length = strnlen(text, CN_KEPT_NAME_BYTES);

	for (size_t i = 0; i < length; i++)
		if (text[i] != '/' && !strchr(name_characters, text[i]))
			return false;
	return length < CN_KEPT_NAME_BYTES;
}

/* Does a message of this kind carry sizes of parts? */
static bool has_parts(uint32_t kind)
{
	return kind != CN_KEPT_HOLDERS;
}

static bool sizes_are_right(const struct cn_kept_message *message)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < message->part_count; i++)
		if (!message->part_bytes[i] || message->part_bytes[i] > BYTES_MAX ||
		    (sum += cn_kept_round(message->part_bytes[i])) > BYTES_MAX)
			return false;
	return true;
}

/* Are magic, version, kind and every text and count of a message as they must be? */
static bool is_sound(const struct cn_kept_message *message)
{
	return message->magic == CN_KEPT_MAGIC && message->version == CN_KEPT_VERSION && message->kind &&
	       message->kind < CN_KEPT_KIND_COUNT && message->refusal < CN_KEPT_REFUSAL_COUNT &&
	       message->part_count <= CN_KEPT_PARTS_MAX && message->descriptor_count <= CN_KEPT_DESCRIPTORS_MAX &&
	       message->state <= CN_KEPT_RETIRED && cn_kept_is_prefix(message->name) &&
	       (!has_parts(message->kind) || sizes_are_right(message)) &&
	       (has_parts(message->kind) || message->holder_count <= INT32_MAX);
}

bool cn_kept_is_sealed(int fd, size_t bytes_max, size_t *ret_bytes)
{
	const int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	size_t bytes;
	int seals;

	if (!cn_file_look(fd, &bytes, &seals) || (seals & wanted) != wanted || bytes > bytes_max)
		return false;
	*ret_bytes = bytes;
	return true;
}

/* ---- Sending and receiving ---- */

int cn_kept_send(int sock, struct cn_kept_parcel *parcel)
{
	struct iovec part = {&parcel->message, sizeof parcel->message};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	union cn_rights rights;
	ssize_t sent;

	parcel->message.magic = CN_KEPT_MAGIC;
	parcel->message.version = CN_KEPT_VERSION;
	parcel->message.descriptor_count = parcel->descriptor_count;
	cn_rights_put(&message, &rights, parcel->descriptors, parcel->descriptor_count);
	do
		sent = sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno == ECONNRESET ? EPIPE : errno;
	return 0;
}

void cn_kept_discard(struct cn_kept_parcel *parcel)
{
	for (unsigned i = 0; i < parcel->descriptor_count; i++)
		cn_wire_discard(parcel->descriptors[i]);
	parcel->descriptor_count = 0;
}

/* Out of the way of 0, 1 and 2. */
static bool raise_all(struct cn_kept_parcel *parcel)
{
	bool raised = true;

	for (unsigned i = 0; i < parcel->descriptor_count; i++) {
		parcel->descriptors[i] = cn_wire_raise(parcel->descriptors[i]);
		raised = raised && parcel->descriptors[i] >= 0;
	}
	return raised;
}

int cn_kept_receive(int sock, struct cn_kept_parcel *ret_parcel)
{
	struct iovec part = {&ret_parcel->message, sizeof ret_parcel->message};
	union cn_rights rights;
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = rights.bytes,
		.msg_controllen = sizeof rights.bytes,
	};
	ssize_t got;

	ret_parcel->descriptor_count = 0;
	if (cn_wire_is_stuck(CN_WIRE_NOBODY))
		return EBUSY;
	do
		got = recvmsg(sock, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == ECONNRESET ? EPIPE : errno;
	unsigned came = cn_rights_take(&message, CN_WIRE_NOBODY, ret_parcel->descriptors, CN_KEPT_DESCRIPTORS_MAX);
	ret_parcel->descriptor_count = came < CN_KEPT_DESCRIPTORS_MAX ? came : CN_KEPT_DESCRIPTORS_MAX;
	int error = 0;
	if (!got)
		error = EPIPE;
	else if (message.msg_flags & MSG_CTRUNC)
		error = EMFILE; /* there was room for all that can come: a descriptor found no number */
	else if (got != sizeof ret_parcel->message || message.msg_flags & MSG_TRUNC ||
		 !is_sound(&ret_parcel->message) || came != ret_parcel->message.descriptor_count)
		error = EPROTO;
	if (!error && !raise_all(ret_parcel))
		error = EMFILE;
	if (error)
		cn_kept_discard(ret_parcel);
	return error;
}

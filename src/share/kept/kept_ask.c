/* SPDX-License-Identifier: MIT */
/*
 * Asking cenoted: see kept_ask.h.
 */
#include "share/kept/kept_ask.h"

#include "base/clock.h"
#include "base/environment.h"
#include "base/lock.h"
#include "share/wire/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAUSE_MS = 5 }; /* before a daemon that has just ended is asked again */

/* ---- Connecting ---- */

CUresult cn_kept_connect(int *ret_sock)
{
	const char *named = cn_environment(CN_ENVIRONMENT_KEPT_SOCKET);
	int sock;
	CUresult result = cn_wire_open(&sock);

	if (result)
		return result;
	int error = cn_wire_reach_daemon(sock, named, "kept");
	if (!error) {
		*ret_sock = sock;
		return CUDA_SUCCESS;
	}
	close(sock);
	if (error == ENOENT || error == ECONNREFUSED)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"no cenoted listens%s%s: start it, or set CENOTE_KEPT_SOCKET to where it listens",
				named ? " at " : "", named ? named : "");
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "cenoted cannot be reached%s%s: %s", named ? " at " : "",
			named ? named : "", error == EAGAIN ? "it does not accept the connection" : strerror(error));
}

/* ---- Asking ---- */

/* Milliseconds until a deadline, at least 0. */
static int left_ms(uint64_t deadline_ns)
{
	uint64_t now_ns = cn_clock_ns();

	return now_ns >= deadline_ns ? 0 : (int)((deadline_ns - now_ns) / CN_MILLISECOND_NS) + 1;
}

int cn_kept_ask_over(int sock, uint64_t deadline_ns, struct cn_kept_parcel *request, struct cn_kept_parcel *ret_reply)
{
	struct pollfd polled = {.fd = sock, .events = POLLIN};
	int error = cn_kept_send(sock, request);

	cn_might_wait();
	while (!error) {
		int ready = poll(&polled, 1, left_ms(deadline_ns));
		if (!ready)
			return ETIMEDOUT;
		if (ready < 0 && errno != EINTR)
			return errno;
		error = ready > 0 ? cn_kept_receive(sock, ret_reply) : EAGAIN;
		if (!error && ret_reply->message.kind == request->message.kind &&
		    ret_reply->message.hold == request->message.hold)
			return 0;
		if (!error) {
			cn_kept_discard(ret_reply);
			error = EPROTO;
		}
		if (error == EAGAIN)
			error = left_ms(deadline_ns) ? 0 : ETIMEDOUT;
	}
	return error;
}

CUresult cn_kept_failed(int error)
{
	if (error == EPIPE)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM,
				"cenoted closed the connection: it has ended, or this user has too many connections");
	if (error == ETIMEDOUT)
		return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "cenoted did not answer within %d seconds",
				CN_KEPT_TIMEOUT_MS / 1000);
	return cn_error(CUDA_ERROR_OPERATING_SYSTEM, "the request to cenoted failed: %s", cn_wire_explain(error));
}

CUresult cn_kept_ask(struct cn_kept_parcel *request, struct cn_kept_parcel *ret_reply)
{
	uint64_t deadline_ns = cn_clock_ns() + CN_KEPT_TIMEOUT_MS * CN_MILLISECOND_NS;
	int sock;

	for (bool again = false;; again = true) {
		CUresult result = cn_kept_connect(&sock);
		if (result)
			return result;
		int error = cn_kept_ask_over(sock, deadline_ns, request, ret_reply);
		close(sock);
		if (!error) {
			/* It was retired by the question whose answer was lost. */
			if (again && request->message.kind == CN_KEPT_RETIRE &&
			    ret_reply->message.refusal == CN_KEPT_UNKNOWN)
				return CUDA_SUCCESS;
			result = cn_kept_refused(&request->message, &ret_reply->message);
			if (result)
				cn_kept_discard(ret_reply);
			return result;
		}
		if (error != EPIPE || !left_ms(deadline_ns))
			return cn_kept_failed(error);
		poll(NULL, 0, PAUSE_MS);
	}
}

/* ---- Why it refused ---- */

CUresult cn_kept_refused(const struct cn_kept_message *request, const struct cn_kept_message *reply)
{
	const char *name = request->name;
	unsigned long long first = reply->numbers[0], second = reply->numbers[1];

	switch ((enum cn_kept_refusal)reply->refusal) {
	case CN_KEPT_GRANTED: return CUDA_SUCCESS;
	case CN_KEPT_UNKNOWN: return cn_error(CUDA_ERROR_NOT_FOUND, "no object %s is committed", name);
	case CN_KEPT_FORBIDDEN:
		return cn_error(CUDA_ERROR_NOT_PERMITTED, "the object %s is another user's, and its mode forbids this",
				name);
	case CN_KEPT_BEING_WRITTEN:
		return cn_error(CUDA_ERROR_NOT_READY, "process %llu is writing the object %s", first, name);
	case CN_KEPT_NOT_HELD:
		return cn_error(CUDA_ERROR_INVALID_HANDLE,
				"the object is stale: cenoted was stopped, and has lost what it kept");
	case CN_KEPT_NOT_SEALED:
		return cn_error(CUDA_ERROR_ILLEGAL_STATE, "the memory of an immutable object can still be written");
	case CN_KEPT_IMMUTABLE:
		return cn_error(CUDA_ERROR_NOT_SUPPORTED,
				"the object %s is immutable: it was created without CENOTE_KEPT_CHANGEABLE", name);
	case CN_KEPT_TOO_MANY_OBJECTS:
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY,
				"this user has %llu objects kept, and cenoted allows no more (--objects-max)", first);
	case CN_KEPT_TOO_MANY_DESCRIPTORS:
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY,
				"this user's objects would need more than %llu descriptors (--descriptors-max)", first);
	case CN_KEPT_TOO_MANY_BYTES:
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY,
				"this user has %llu bytes kept, and with this object more than %llu (--bytes-max)",
				second, first);
	case CN_KEPT_TOO_MANY_HOLDS:
		return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "this user's processes have too many objects open");
	case CN_KEPT_FULL: return cn_error(CUDA_ERROR_OUT_OF_MEMORY, "cenoted has no room, descriptors or memory left");
	case CN_KEPT_UNSEEN:
		return cn_error(CUDA_ERROR_NOT_PERMITTED,
				"cenoted does not see this process: it is in another PID namespace");
	case CN_KEPT_NOT_MEMORY:
		return cn_error(CUDA_ERROR_INVALID_VALUE, "cenoted does not take this for memory of a GPU");
	default: return cn_error(CUDA_ERROR_INVALID_VALUE, "cenoted refused the request as malformed");
	}
}

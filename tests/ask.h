/* SPDX-License-Identifier: MIT */
/*
 * Connections and questions to a peer, by hand: a socket of the test's own, asked as cn_peer_ask() asks.
 */
#ifndef CENOTE_TESTS_ASK_H
#define CENOTE_TESTS_ASK_H

#include "base/error.h"
#include "share/peer/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

/* 0, or errno. Nothing else may come than the answer. */
static inline int try_ask(int sock, const struct cn_parcel *request, struct cn_parcel *ret_reply)
{
	static const struct cn_peer_ops no_ops;
	struct cn_peer peer = {.channel.fd = sock, .ops = &no_ops, .request_last = request->message.request - 1};
	struct cn_peer_question question = {.request = *request};
	int error = cn_peer_ask(&peer, &question, ret_reply);

	if (!error)
		cn_fork_allow();
	return error;
}

static inline CUresult ask_peer(int sock, const struct cn_parcel *request, struct cn_parcel *ret_reply)
{
	int error = try_ask(sock, request, ret_reply);

	return error ? cn_error(CUDA_ERROR_OPERATING_SYSTEM, "%s", cn_wire_explain(error)) : CUDA_SUCCESS;
}

/* Send, waiting for room: 0, or errno. */
static inline int tell_peer(int sock, const struct cn_parcel *parcel)
{
	int error;

	while ((error = cn_wire_send(sock, parcel)) == EAGAIN)
		poll(&(struct pollfd){.fd = sock, .events = POLLOUT}, 1, -1);
	return error;
}

/* Where a connection fails nothing is left open. Not inlined: the compiler would see a test go on without one. */
static inline CUresult end_connect(int sock, CUresult result, int *ret_sock)
{
	if (result)
		close(sock);
	else
		*ret_sock = sock;
	return result;
}

static __attribute__((noinline, unused)) CUresult connect_path(int path_fd, int *ret_sock)
{
	int sock = -1;
	CUresult result = fcntl(path_fd, F_GETFD) < 0 ? cn_wire_reach_path(-1, path_fd) : cn_wire_open(&sock);

	return result ? result : end_connect(sock, cn_wire_reach_path(sock, path_fd), ret_sock);
}

static __attribute__((noinline, unused)) CUresult connect_name(const char *name, int *ret_sock)
{
	int sock = -1;
	CUresult result = cn_wire_open(&sock);

	return result ? result : end_connect(sock, cn_wire_reach_name(sock, name), ret_sock);
}

static __attribute__((noinline, unused)) CUresult connect_fabric(const char *name, unsigned user, int *ret_sock)
{
	int sock = -1;
	CUresult result = cn_wire_open(&sock);

	return result ? result : end_connect(sock, cn_wire_reach_fabric(sock, name, user), ret_sock);
}

#endif

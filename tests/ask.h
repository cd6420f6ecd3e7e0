/* SPDX-License-Identifier: MIT */
/*
 * Questions to a peer, by hand: what cn_peer_ask() does, with a sentence for a failure.
 */
#ifndef CENOTE_TESTS_ASK_H
#define CENOTE_TESTS_ASK_H

#include "base/error.h"
#include "share/peer/peer.h"
#include "share/peer/service.h"

/* 0, or errno. Nothing else may come than the answer. */
static inline int try_ask(int sock, const struct cn_parcel *request, struct cn_parcel *ret_reply)
{
	int error = cn_peer_ask(sock, request, NULL, NULL, ret_reply);

	if (!error)
		cn_fork_allow();
	return error;
}

static inline CUresult ask_peer(int sock, const struct cn_parcel *request, struct cn_parcel *ret_reply)
{
	int error = try_ask(sock, request, ret_reply);

	return error ? cn_error(CUDA_ERROR_OPERATING_SYSTEM, "%s", cn_wire_explain(error)) : CUDA_SUCCESS;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Asking cenoted, from a program.
 *
 * Each call makes a connection, and ends it when it has the answer. If the daemon ends in between, the same question is
 * put to the one that is started next; one deadline covers all of it.
 */
#ifndef CN_SHARE_KEPT_KEPT_ASK_H
#define CN_SHARE_KEPT_KEPT_ASK_H

#include "base/error.h"
#include "share/kept/kept.h"

/* A connection to the daemon: CENOTE_KEPT_SOCKET, else this user's own, else the system's. */
CUresult cn_kept_connect(int *ret_sock);
/*
 * Put one question over a connection, and wait for the answer until a deadline (cn_clock_ns()): 0, or errno. The
 * request's descriptors stay the caller's; the reply's become the caller's.
 */
int cn_kept_ask_over(int sock, uint64_t deadline_ns, struct cn_kept_parcel *request, struct cn_kept_parcel *ret_reply);
/* The whole of it. What the daemon refuses is an error with a sentence. */
CUresult cn_kept_ask(struct cn_kept_parcel *request, struct cn_kept_parcel *ret_reply);
/* What a reply refuses, as an error with a sentence; CUDA_SUCCESS: nothing. */
CUresult cn_kept_refused(const struct cn_kept_message *request, const struct cn_kept_message *reply);
/* What the errno of a question means. */
CUresult cn_kept_failed(int error);

#endif

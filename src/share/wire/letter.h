/* SPDX-License-Identifier: MIT */
/*
 * Letters: one thing over a program's own Unix socket, one message each.
 *
 * A letter is eight fixed bytes, a body of fixed size, and at most one descriptor beside them. The eight bytes tell our
 * message from any other: two programs that disagree about whose turn it is get an error, and do not take one thing for
 * another. The socket is the program's: of any type, blocking or not, and used for other messages as well.
 */
#ifndef CN_SHARE_WIRE_LETTER_H
#define CN_SHARE_WIRE_LETTER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { CN_LETTER_MAGIC_BYTES = 8, CN_LETTER_BODY_BYTES_MAX = 248 };

struct cn_letter_kind {
	unsigned char magic[CN_LETTER_MAGIC_BYTES];
	size_t body_bytes;
	bool with_descriptor;
	const char *sender; /* the call that sends such letters: for sentences */
};

/*
 * As cenote_send_descriptor() and cenote_recv_descriptor() in cenote.h, for any kind of letter. `descriptor` and
 * `ret_descriptor` are for kinds that have one.
 */
CUresult cn_letter_send(int sock, const struct cn_letter_kind *kind, const void *body, int descriptor);
CUresult cn_letter_receive(int sock, const struct cn_letter_kind *kind, void *ret_body, int *ret_descriptor);
/* A letter without a body: as cenote_send_descriptor() and cenote_recv_descriptor() in cenote.h. */
CUresult cn_letter_send_descriptor(int sock, int descriptor);
CUresult cn_letter_receive_descriptor(int sock, int *ret_descriptor);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Messages between processes: one size, one header, at most two descriptors beside them.
 *
 * They travel over SOCK_SEQPACKET sockets, so a message comes whole or not at all. What comes is a stranger's: length,
 * magic and version are checked here, and descriptors beyond those that the message may have are closed; what the
 * fields say is for the reader to check. A request carries a number, and its reply the same one.
 */
#ifndef CN_SHARE_WIRE_H
#define CN_SHARE_WIRE_H

#include "base/error.h"

#include <stdint.h>

enum {
	CN_WIRE_MAGIC = 0x746e65ce,
	CN_WIRE_VERSION = 1,
	CN_WIRE_DESCRIPTORS_MAX = 2,
	CN_WIRE_TIMEOUT_MS = 5000, /* how long a request waits for its reply, and an accepted peer may say nothing */
};

enum cn_message_kind {
	/* on a pool's channel */
	CN_MESSAGE_JOIN = 1, /* importer: with its ledger */
	CN_MESSAGE_WELCOME,  /* exporter: with the control segment, and what the pool is */
	CN_MESSAGE_PART,     /* importer asks for the part around an offset; the reply has it */
	CN_MESSAGE_RELEASED, /* importer: it has let go of an export that the exporter has ended */
	CN_MESSAGE_EVICTED,  /* exporter: nothing more for you */
	/* at a port */
	CN_MESSAGE_EVENT,         /* opener asks for an event; the reply has it */
	CN_MESSAGE_EVENT_FREED,   /* opener: it has done with one */
	CN_MESSAGE_MEMORY,        /* opener asks for memory; the reply has the chunk it lies in */
	CN_MESSAGE_MEMORY_CLOSED, /* opener: it has done with some, or with all that it has over this connection */
};

struct cn_message {
	uint32_t magic, kind;
	uint32_t version;
	int32_t result; /* of a reply: CUresult */
	uint64_t request;
	uint64_t words[9]; /* what they mean is the kind's */
	unsigned char bytes[32];
};
_Static_assert(sizeof(struct cn_message) == 128, "the same in every process");

/* A message with its descriptors. */
struct cn_parcel {
	struct cn_message message;
	int descriptors[CN_WIRE_DESCRIPTORS_MAX];
	unsigned descriptor_count;
};

/* Send without waiting: 0, or errno (EAGAIN: the peer does not read; EPIPE: it is gone). Fills in magic and version. */
int cn_wire_send(int sock, const struct cn_parcel *parcel);
/*
 * Receive without waiting: 0, or errno (EAGAIN: nothing there; EPIPE: the peer has closed; EPROTO: not ours; EMFILE: no
 * room for its descriptors, which are lost). The descriptors are the caller's, closed on exec.
 */
int cn_wire_receive(int sock, struct cn_parcel *ret_parcel);
void cn_wire_close(struct cn_parcel *parcel); /* its descriptors */
/* Send, waiting for room if need be, at most CN_WIRE_TIMEOUT_MS: 0, or errno. */
int cn_wire_tell(int sock, const struct cn_parcel *parcel);
/* cn_wire_ask() without a sentence: 0, or errno (ETIMEDOUT; EPROTO: an answer to something else). */
int cn_wire_exchange(int sock, const struct cn_parcel *request, struct cn_parcel *ret_reply);
/*
 * Send a request and wait for the reply, at most CN_WIRE_TIMEOUT_MS; for a socket that nobody else reads. The reply's
 * own result is not looked at. Failures are CUDA_ERROR_OPERATING_SYSTEM with a sentence that begins with `what`.
 */
CUresult cn_wire_ask(int sock, const struct cn_parcel *request, const char *what, struct cn_parcel *ret_reply);

/* ---- Sockets ---- */

/*
 * The directory of this user's sockets, opened (O_PATH): CENOTE_RUNTIME_DIR, else /run/user/UID/cenote, else
 * /tmp/cenote-UID. Made if need be, mode 0700; never through a link, never one that another user owns.
 */
CUresult cn_runtime_directory(int *ret_fd);
/*
 * A listening socket without a name: *ret_path_fd leads to it (O_PATH), and whoever has it can connect. Both are closed
 * on exec; the listening one does not wait.
 */
CUresult cn_wire_listen_unnamed(int *ret_listen_fd, int *ret_path_fd);
/* Connect to the socket that an O_PATH descriptor leads to. CUDA_ERROR_INVALID_VALUE: it leads to none of ours. */
CUresult cn_wire_connect_path(int path_fd, int *ret_sock);
/* The process at the other end, as a descriptor that is readable when it is gone; -1: the system cannot say. */
int cn_peer_process(int sock);
/* The next connection of a listening socket; -1: there is none. */
int cn_wire_accept(int listen_fd);

/*
 * A listening socket that has a name in the runtime directory, for as long as the process lives: 32 hexadecimal digits.
 * A file beside it is locked meanwhile; whoever can take that lock knows that the owner is gone, and sweeps the name.
 */
enum { CN_SOCKET_NAME_CHARS = 32 };
struct cn_named_socket {
	char name[CN_SOCKET_NAME_CHARS + 1];
	int directory_fd, lock_fd, listen_fd;
};
CUresult cn_wire_listen_named(struct cn_named_socket *ret_socket);
/* Take the names away; nothing is closed. */
void cn_wire_forget_name(const struct cn_named_socket *socket);
/* Connect to a socket by its name. CUDA_ERROR_INVALID_VALUE: there is none, or its process is gone. */
CUresult cn_wire_connect_name(const char *name, int *ret_sock);

#endif
